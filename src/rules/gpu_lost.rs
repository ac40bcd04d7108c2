//! A GPU fell off the bus.

use super::area::Area;
use super::chain::{Chain, Explains};
use super::{Implies, ONCE, Rule, TickContext};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::observe::evidence::Evidence;
use crate::observe::gpu::GpuTroubleKind;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "gpu-lost",
    severity: Severity::Critical,
    title: "A GPU fell off the bus",
    says: "fell off the bus",
    how: "The kernel's log (Xid 79 and its kin), an NVML event, or NVML's error \"GPU is lost\"",
    advice: "Drain the node and power-cycle it; a GPU that falls off again has to be replaced",
    life: ONCE,
    implies: Implies::Failed,
    area: Some(Area::Gpu),
    // The links to it end.
    chain: Chain { explains: &[Explains { rule: "nvlink-down", of_its_ranks: false }], ..Chain::KERNEL },
    on_tick: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for gpu in ctx.model.gpus.values() {
        let Some((since, trouble)) = gpu.trouble.as_ref().filter(|(_, t)| t.kind == GpuTroubleKind::Lost) else { continue };
        let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {}", gpu.index), *since);
        found.summary = format!("{name} is lost: it fell off the bus");
        found.confidence = Confidence::Certain;
        found.why = format!("{} for {}", trouble.detail, span(ctx.model.now.since(*since)));
        found.next = Some("dmesg -T | grep -i xid | tail".into());
        found.evidence = vec![Evidence::of("gpu", trouble.detail.clone())];
        out.push(found);
    }
}
