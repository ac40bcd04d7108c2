//! A GPU's memory had an error that could not be corrected, or cannot be repaired.

use super::area::Area;
use super::chain::Chain;
use super::{Implies, ONCE, Rule, TickContext};
use crate::base::severity::{Confidence, Severity};
use crate::model::gpu::Gpu;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "gpu-ecc",
    severity: Severity::Error,
    title: "A GPU's memory had an error that could not be corrected",
    says: "had a memory error that could not be corrected",
    how: "The kernel's log (Xid 48, 63, 64, 94, 95), CUDA's error, NVML's events and counters: uncorrected errors that came while they were \
          watched, rows that wait to be replaced or could not be, the recovery action that the driver asks for. Earlier errors are not reported",
    advice: "Drain the node and reset the GPU: `nvidia-smi -r -i GPU`; a remapping that failed (Xid 64) means that it has to be replaced",
    life: ONCE,
    implies: Implies::Failed,
    area: Some(Area::Gpu),
    chain: Chain::KERNEL,
    on_tick: Some(check),
    ..Rule::PLAIN
};

/// What the driver asks for has other reasons, too.
const RECOVERY: &str = " recovery";

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for gpu in ctx.model.gpus.values() {
        out.extend([uncorrected(ctx, gpu), remapping(ctx, gpu), recovery(ctx, gpu)].into_iter().flatten());
    }
}

fn uncorrected(ctx: &TickContext, gpu: &Gpu) -> Option<Finding> {
    let count = gpu.watch.ecc_uncorrected?;
    let since = count.since?;
    let subject = ctx.told_already(RULE.id, gpu.index).unwrap_or_else(|| format!("GPU {} uncorrected", gpu.index));
    let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, subject, since);
    let more = count.now - count.first;
    let errors = if more == 1 { "an uncorrectable memory error".to_owned() } else { format!("{more} uncorrectable memory errors") };
    found.summary = format!("{name}: {errors}");
    found.confidence = Confidence::Certain;
    found.why = format!("uncorrected ECC errors rose from {} to {} while they were watched", count.first, count.now);
    found.next = Some(format!("nvidia-smi -q -i {} -d ECC,ROW_REMAPPER", gpu.index));
    let lifetime =
        gpu.health.as_ref().and_then(|h| h.ecc_uncorrected_aggregate).map_or(String::new(), |n| format!(", {n} in its lifetime"));
    found.evidence = vec![Evidence::of(
        "counter",
        format!("uncorrected ECC errors since the driver was loaded: {} -> {}{lifetime}", count.first, count.now),
    )];
    Some(found)
}

/// Of replacing rows, the worse of the two things to tell.
fn remapping(ctx: &TickContext, gpu: &Gpu) -> Option<Finding> {
    let failed = gpu.watch.remap_failed.filter(|h| h.value);
    let pending = gpu.watch.remap_pending.filter(|h| h.value);
    let (held, severity) = match (failed, pending) {
        (Some(held), _) => (held, if held.became { Severity::Error } else { Severity::Warning }),
        (None, Some(held)) => (held, if held.became { Severity::Warning } else { Severity::Info }),
        (None, None) => return None,
    };
    let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {} rows", gpu.index), held.since);
    found.severity = severity;
    found.confidence = Confidence::Certain;
    let when = if held.became { "it came while the GPU was watched" } else { "it was so when nccl-top began" };
    let rows = gpu.health.as_ref().map_or(String::new(), |h| {
        let of = |n: Option<u64>| n.map_or("?".into(), |n| n.to_string());
        format!("; rows replaced: {} for corrected errors, {} for others", of(h.remapped_correctable), of(h.remapped_uncorrectable))
    });
    if failed.is_some() {
        found.summary = format!("{name}: a faulty row of its memory could not be replaced");
        found.why = format!("row remapping failed; {when}");
        found.next = Some("drain the node and have the GPU replaced".into());
        found.evidence = vec![Evidence::of("counter", format!("row remapping failure: 1{rows}"))];
    } else {
        found.summary = format!("{name}: a faulty row of its memory is replaced at the next reset");
        found.why = format!("row remapping is pending; {when}");
        found.next = Some(format!("when the job is over: nvidia-smi -r -i {}", gpu.index));
        found.evidence = vec![Evidence::of("counter", format!("row remapping pending: 1{rows}"))];
    }
    Some(found)
}

fn recovery(ctx: &TickContext, gpu: &Gpu) -> Option<Finding> {
    let held = gpu.watch.recovery_action.filter(|h| h.value != 0)?;
    let (words, next) = match held.value {
        1 => ("a reset of the GPU", format!("drain the node; nvidia-smi -r -i {}", gpu.index)),
        2 => ("a reboot of the node", "drain the node and reboot it".into()),
        3 => ("that its peers stop using it", "let no new job use this GPU's peer-to-peer links; drain the node".into()),
        4 => ("to be drained and reset", format!("drain the node; nvidia-smi -r -i {}", gpu.index)),
        _ => ("an action that this version does not know", format!("nvidia-smi -q -i {} | grep -i -A3 recovery", gpu.index)),
    };
    let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {}{RECOVERY}", gpu.index), held.since);
    found.summary = format!("{name} needs {words}, says the driver");
    if !held.became {
        found.severity = Severity::Warning;
    }
    found.confidence = Confidence::Certain;
    let when = if held.became { "since it was watched" } else { "since before nccl-top began" };
    found.why = format!("its recovery action is {} {when}", held.value);
    found.next = Some(next);
    found.evidence = vec![Evidence::of("counter", format!("NVML field 230, recovery action: {}", held.value))];
    Some(found)
}

/// Whether it tells of data that may have been damaged: an error that was not corrected, or a row that is replaced for one.
pub(crate) fn may_damage_data(found: &Finding) -> bool {
    const CORRECTED: &[&str] = &["xid-92", "xid-160", "xid-161"];
    found.rule == RULE.id && !found.signature.is_some_and(|id| CORRECTED.contains(&id)) && !found.subject.ends_with(RECOVERY)
}
