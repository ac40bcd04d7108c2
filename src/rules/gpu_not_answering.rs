//! A GPU does not answer NVML.

use super::area::Area;
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::observe::evidence::Evidence;
use crate::observe::gpu::GpuTroubleKind;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "gpu-not-answering",
    severity: Severity::Error,
    title: "A GPU does not answer, or only with errors",
    says: "{does|do} not answer, or only with errors",
    how: "An NVML call for this GPU has not returned within its deadline, or returned an error other than \"GPU is lost\"",
    advice: "Look for Xid 79, 119 or 120 in the kernel log. A GPU that fell off the bus needs a reboot of the node; drain it",
    life: while_it_holds(3, 5),
    implies: Implies::Nothing,
    area: Some(Area::Gpu),
    on_tick: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for gpu in ctx.model.gpus.values() {
        let Some((since, trouble)) = &gpu.trouble else { continue };
        let what = match trouble.kind {
            // Under a name of its own.
            GpuTroubleKind::Lost => continue,
            GpuTroubleKind::ResetRequired => "needs a reset",
            GpuTroubleKind::NotAnswering => "does not answer",
            GpuTroubleKind::Failed => "cannot be read",
        };
        let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {}", gpu.index), *since);
        found.summary = format!("{name} {what}");
        found.confidence = Confidence::Certain;
        found.why = format!("{} for {}", trouble.detail, span(ctx.model.now.since(*since)));
        found.next = Some("dmesg -T | grep -i xid | tail".into());
        found.evidence = vec![Evidence::of("gpu", trouble.detail.clone())];
        out.push(found);
    }
}
