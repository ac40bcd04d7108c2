//! The NVSwitch fabric is not there, or reports that it is ill.

use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::base::units::counted;
use crate::model::gpu::{Activity, Gpu};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "fabric-state",
    severity: Severity::Warning,
    title: "GPUs are not part of the NVSwitch fabric, or it reports that it is ill",
    how: "nvmlDeviceGetGpuFabricInfoV: state 1 (not started) or 2 (in progress) for long while nothing works on the GPU; bits of the health mask. H100 \
          and H200 report neither a mask nor a cluster: that is well",
    advice: "`systemctl status nvidia-fabricmanager` (on GB200 nvidia-imex, too); its version must be that of the driver. Without it CUDA fails with \
             error 802, \"system not yet initialized\"",
    life: while_it_holds(0, 60),
    implies: Implies::Nothing,
    limits: &[&AFTER],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const AFTER: Limit = Limit::seconds("fabric-state", "after", 60.0, "a fabric that has not come up for so long is stuck");

/// Bits of the health mask where 1 means yes, and 0 that it is not supported: nvml.h, NVML_GPU_FABRIC_HEALTH_MASK_SHIFT_*.
const ILL: &[(u32, &str)] = &[
    (0, "bandwidth is degraded"),
    (2, "routes are being recovered"),
    (4, "routes are unhealthy"),
    (6, "accesses have timed out and are being recovered"),
];
/// Four bits from here: 0 not supported, 1 none, else what is wrong.
const CONFIGURATION: u32 = 8;

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let model = ctx.model;
    let waits = |gpu: &&Gpu| {
        let held = gpu.watch.fabric_state.filter(|held| matches!(held.value, 1 | 2));
        // CUDA cannot begin on such a GPU: where it works, the state means something else.
        let rests = gpu.processes.is_empty() && !matches!(gpu.activity, Activity::Working | Activity::Waiting);
        rests && held.is_some_and(|held| model.now.since(model.watched(held.since)) >= AFTER.duration())
    };
    let stuck: Vec<&Gpu> = model.gpus.values().filter(waits).collect();
    if let Some(held) = stuck.iter().filter_map(|g| g.watch.fabric_state).min_by_key(|held| held.since) {
        let word = if held.value == 1 { "not started" } else { "in progress" };
        let are = if stuck.len() == 1 { "is" } else { "are" };
        let summary = format!("the NVSwitch fabric has not come up: {} {are} not part of it ({word})", counted(stuck.len(), "GPU"));
        let mut found = RULE.finding("fabric", summary, held.since);
        found.why = format!("so for {}; CUDA fails with error 802 until it has", span(model.now.since(held.since)));
        found.confidence = Confidence::Certain;
        found.gpus = stuck.iter().map(|g| g.index).collect();
        found.next = Some("systemctl status nvidia-fabricmanager nvidia-imex; nvidia-smi -q | grep -A4 Fabric".into());
        found.evidence = vec![Evidence::of("gpu", format!("NVML fabric state {} ({word})", held.value))];
        out.push(found);
    }
    for gpu in model.gpus.values() {
        let Some(mask) = gpu.health.as_ref().and_then(|h| h.fabric_health) else { continue };
        let mut ill: Vec<String> = ILL.iter().filter(|(shift, _)| mask >> shift & 3 == 1).map(|(_, words)| (*words).to_owned()).collect();
        let configuration = mask >> CONFIGURATION & 15;
        if configuration > 1 {
            ill.push(format!("its configuration is wrong (code {configuration})"));
        }
        if ill.is_empty() {
            continue;
        }
        let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {} fabric", gpu.index), model.now);
        found.summary = format!("{name}: the NVSwitch fabric reports that {}", ill.join(", "));
        found.confidence = Confidence::Certain;
        found.next = Some(format!("nvidia-smi -q -i {} | grep -A12 Fabric; the log of nvidia-fabricmanager", gpu.index));
        found.evidence = vec![Evidence::of("gpu", format!("NVML fabric health mask {mask:#x}"))];
        out.push(found);
    }
}
