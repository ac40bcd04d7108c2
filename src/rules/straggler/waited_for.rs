//! Whose GPU has had less to do since steps became slower, while those of the others are busy more than before: they wait for it in
//! collectives, whose kernels spin. Small kernels leave the GPUs of no rank busy all the time, so that what siblings of a straggler usually
//! show, 100 %, is not there.

use super::{RULE, SIBLINGS_PCT, reason};
use crate::base::severity::Confidence;
use crate::base::time::Stamp;
use crate::base::units::{at_least_pct, the_other};
use crate::base::words::py_spy;
use crate::model::Model;
use crate::model::gpu::Gpu;
use crate::model::job::Job;
use crate::model::progress::Progress;
use crate::model::signals::Look;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use crate::rules::told_by;
use std::time::Duration;

/// What was usual is looked at over this, up to a moment before steps became slower.
const BEFORE: Duration = Duration::from_secs(6);
const SETTLES: Duration = Duration::from_secs(1);
/// Percent of time with a kernel: of those that wait at least, by how much they rose, and how much less the one has that they wait for.
/// Measured where a debugger traced one of two ranks: 74 to 86 % after 20 to 25 %, and 6 % after 20 %.
const WAITING_PCT: f64 = 55.0;
const ROSE_PCT: f64 = 20.0;
const LESS_PCT: f64 = 35.0;
/// Of the power that it drew before.
const RESTS: f64 = 0.35;
/// Steps since they became slower.
const LEAST_STEPS: f64 = 3.0;
/// Looks at the GPUs in which the same one had the least.
const LEAST_LOOKS: usize = 3;

pub(super) fn judge(model: &Model, job: &Job, look: &Look, progress: Option<&Progress>) -> Option<Finding> {
    let (slow, _) = super::slower(model, job, look, progress, LEAST_STEPS)?;
    let now = model.now;
    let gpus: Vec<(u32, &Gpu)> = look.alive().map(|r| Some((r.rank, model.gpus.get(&r.gpu?)?))).collect::<Option<_>>()?;
    let (from, to) = (slow.since.plus(SETTLES), slow.since.minus(SETTLES));
    let mut after = means(&gpus, from, now)?;
    after.sort_by(|a, b| a.1.total_cmp(&b.1));
    let [(rank, least), (_, next), ..] = after[..] else { return None };
    if next < WAITING_PCT || least > next - LESS_PCT {
        return None;
    }
    let before = means(&gpus, to.minus(BEFORE), to)?;
    let was = |of: u32| before.iter().find(|(rank, _)| *rank == of).map(|(_, pct)| *pct);
    // Where there was a kernel all the time before, it computed: who draws far less for it now waits in one of NCCL.
    let draws = |from, to| super::drawn(model, look, from, to).unwrap_or_default();
    let (drawn, drew) = (draws(from, now), draws(to.minus(BEFORE), to));
    let watts = |of: u32, among: &[(f64, u32)]| among.iter().find(|(_, rank)| *rank == of).map(|(watts, _)| *watts);
    let rests = |of: u32| watts(of, &drawn).zip(watts(of, &drew)).is_some_and(|(now, before)| now < before * RESTS);
    let rose = |of: u32, pct: f64| was(of).is_some_and(|was| pct >= was + ROSE_PCT || pct >= SIBLINGS_PCT.value() && rests(of));
    if !after.iter().skip(1).all(|(of, pct)| rose(*of, *pct)) || was(rank)? < least {
        return None;
    }
    // One long sequence, once, is no reason; nor are several by turns.
    let (_, its) = gpus.iter().find(|(of, _)| *of == rank)?;
    let looks: Vec<f64> = kernels(its, from, now).map(|(_, pct)| pct).collect();
    if looks.len() < LEAST_LOOKS || looks.iter().any(|pct| *pct > next - LESS_PCT / 2.0) {
        return None;
    }
    // Who waits outside NCCL, in Gloo or for a message, leaves its CPU alone: then it is the others that are late.
    let told = look.ranks.get(&rank).filter(|told| told.cpu_pct.is_some() && !told.sleeps() || told.does_io())?;
    let waiting = the_other(after.len() - 1, "rank", "wait");
    let mut found = RULE.finding(format!("rank {rank}"), format!("{} is late every step; {waiting} for it", told.name()), slow.since);
    found.job = Some(job.id.clone());
    found.confidence = Confidence::Likely;
    found.ranks = vec![rank];
    found.gpus = look.gpus_of(&found.ranks);
    found.next = Some(py_spy(told.pid));
    let others = match after.len() {
        2 => format!("that of the other on {next:.0} %"),
        _ => format!("those of the others on {}", at_least_pct(next)),
    };
    let words = format!(
        "since steps became slower its GPU had kernels {least:.0} % of the time ({:.0} % before), {others}: who waits in a collective spins",
        was(rank)?
    );
    found.evidence = vec![Evidence::of("gpu", words)];
    found.evidence.extend(reason(look, told));
    told_by(&mut found, look);
    Some(found)
}

/// The mean share of time with a kernel, by rank. `None` where GPM does not tell it of one.
fn means(gpus: &[(u32, &Gpu)], from: Stamp, to: Stamp) -> Option<Vec<(u32, f64)>> {
    let of = |(rank, gpu): &(u32, &Gpu)| Some((*rank, super::mean(kernels(gpu, from, to), from, to)?));
    gpus.iter().map(of).collect()
}

fn kernels(gpu: &Gpu, from: Stamp, to: Stamp) -> impl DoubleEndedIterator<Item = (Stamp, f64)> {
    gpu.kernel_pct.iter().filter(move |(at, _)| *at > from && *at <= to)
}
