//! A GPU does not answer NVML.

use super::{Check, Implies, Rule, TickContext, while_it_holds};
use crate::findings::{Confidence, Evidence, Found, Severity};
use crate::observe::gpu::GpuTroubleKind;
use crate::time::span;

pub const RULE: Rule = Rule {
    id: "gpu-not-answering",
    severity: Severity::Error,
    title: "A GPU does not answer, or the driver says that it is lost",
    how: "An NVML call for this GPU has not returned within its deadline, or returned an error such as \"GPU is lost\"",
    advice: "Look for Xid 79, 119 or 120 in the kernel log. A GPU that fell off the bus needs a reboot of the node; drain it",
    life: while_it_holds(3, 5),
    implies: Implies::Nothing,
    check: Check::Tick(check),
};

fn check(ctx: &TickContext, out: &mut Vec<Found>) {
    for gpu in ctx.model.gpus.values() {
        let Some((since, trouble)) = &gpu.trouble else { continue };
        let bus = gpu.info.bus_id.as_ref().map_or(String::new(), |b| format!(" ({b})"));
        let what = match trouble.kind {
            GpuTroubleKind::Lost => "is lost: it fell off the bus",
            GpuTroubleKind::ResetRequired => "needs a reset",
            GpuTroubleKind::NotAnswering => "does not answer",
            GpuTroubleKind::Failed => "cannot be read",
        };
        let mut found = Found::new(format!("GPU {}", gpu.index), format!("GPU {}{bus} {what}", gpu.index), *since);
        found.severity = (trouble.kind == GpuTroubleKind::Lost).then_some(Severity::Critical);
        found.confidence = Confidence::Certain;
        found.why = format!("{} for {}", trouble.detail, span(ctx.model.now.since(*since)));
        found.next = Some("dmesg -T | grep -i xid | tail".into());
        found.gpus = vec![gpu.index];
        found.ranks = rank_of_gpu(ctx, gpu.index).into_iter().collect();
        found.evidence = vec![Evidence::of("gpu", trouble.detail.clone())];
        out.push(found);
    }
}

/// The rank that holds a GPU, in any running job.
pub(super) fn rank_of_gpu(ctx: &TickContext, gpu: u32) -> Option<u32> {
    ctx.looks.values().flat_map(|l| l.alive()).find(|r| r.gpu == Some(gpu)).map(|r| r.rank)
}
