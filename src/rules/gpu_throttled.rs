//! A GPU is slowed by heat or by its power supply.

use super::gpu_not_answering::rank_of_gpu;
use super::{Check, Implies, Rule, TickContext, while_it_holds};
use crate::findings::{Confidence, Evidence, Found, Severity};
use crate::model::gpu::throttle_words;
use crate::time::span;

pub const RULE: Rule = Rule {
    id: "gpu-throttled",
    severity: Severity::Warning,
    title: "A GPU is slowed down by heat or by its power supply; in data parallel training it slows all",
    how: "NVML clock event reasons 0x8, 0x20, 0x40 or 0x80 for ten seconds. The power cap (0x4) is usual under load and not reported",
    advice: "Compare temperature and clock with the other GPUs: one hot GPU is a cooling fault of the node; a power brake is the rack's",
    life: while_it_holds(10, 15),
    implies: Implies::Nothing,
    check: Check::Tick(check),
};

fn check(ctx: &TickContext, out: &mut Vec<Found>) {
    for gpu in ctx.model.gpus.values() {
        let Some((since, bits)) = gpu.throttled else { continue };
        let words = throttle_words(bits).join(", ");
        let temp = gpu.sample.temp_c.map_or(String::new(), |t| format!(", {t} °C"));
        let clock = gpu.sample.sm_clock_mhz.map_or(String::new(), |c| format!(", SM {c} MHz"));
        let mut found = Found::new(format!("GPU {}", gpu.index), format!("GPU {}: {words}{temp}", gpu.index), since);
        found.confidence = Confidence::Certain;
        found.why = format!("{words} for {}{temp}{clock}", span(ctx.model.now.since(since)));
        found.next = Some(format!("nvidia-smi -q -i {} -d PERFORMANCE,TEMPERATURE,POWER", gpu.index));
        found.gpus = vec![gpu.index];
        found.ranks = rank_of_gpu(ctx, gpu.index).into_iter().collect();
        found.evidence = vec![Evidence::of("gpu", format!("clock event reasons {bits:#x}{temp}{clock}"))];
        out.push(found);
    }
}
