//! Whose GPU has more to do than those of the others since steps became slower: utilisation shows all of them busy, as who waits spins; what
//! they draw tells them apart.

use super::{RULE, SIBLINGS_PCT, UNEVEN, busy, drawn, thirds};
use crate::base::severity::Confidence;
use crate::base::units::{at_most_pct, the_other};
use crate::model::Model;
use crate::model::job::Job;
use crate::model::progress::Progress;
use crate::model::signals::Look;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use crate::rules::told_by;
use std::time::Duration;

/// What they drew before is looked at over this: not what they drew when the job began.
const BEFORE: Duration = Duration::from_secs(4);
/// Bars show means of many steps: what they show grows some seconds after the steps did.
const SETTLES: [Duration; 3] = [Duration::from_secs(1), Duration::from_secs(3), Duration::from_secs(5)];
/// Steps since they became slower.
const LEAST_STEPS: f64 = 5.0;
/// A GPU that has more to do is busy for so much of the time, at least.
const OWN_PCT: f64 = 60.0;
/// Ranks that do the same draw the same within this.
const ALIKE: f64 = 1.15;

/// The one rank that computes all the time, while the others, which drew the same before, wait for it in each step.
pub(super) fn judge(model: &Model, job: &Job, look: &Look, progress: Option<&Progress>) -> Option<Finding> {
    let (slow, lasts) = super::slower(model, job, look, progress, LEAST_STEPS)?;
    let now = model.now;
    let busy = busy(model, look, now.minus(lasts), now)?;
    let sides = |mut watts: Vec<(f64, u32)>| -> Option<(f64, f64, u32)> {
        watts.sort_by(|a, b| b.0.total_cmp(&a.0));
        let [(most, rank), (next, _), ..] = watts.as_slice() else { return None };
        Some((*most, *next, *rank))
    };
    let (most, next, rank) = sides(drawn(model, look, now.minus(lasts), now)?)?;
    let is_its = |(from, to)| drawn(model, look, from, to).and_then(sides).is_some_and(|(w, n, r)| r == rank && w >= n * UNEVEN.value());
    // Who waits spins all the time; who has more to do may have more to load, too.
    let works = |(pct, of): &(f64, u32)| *pct >= if *of == rank { OWN_PCT } else { SIBLINGS_PCT.value() };
    if !busy.iter().all(works) || !thirds(now, lasts).into_iter().all(is_its) {
        return None;
    }
    let alike = |settles: Duration| {
        let then = slow.since.minus(settles);
        let before = drawn(model, look, then.minus(BEFORE), then)?;
        let watts = || before.iter().map(|(watts, _)| *watts);
        let (least, top) = (watts().fold(f64::INFINITY, f64::min), watts().fold(0.0, f64::max));
        (top <= least * ALIKE).then_some(top)
    };
    let top = SETTLES.into_iter().find_map(alike)?;
    let told = look.ranks.get(&rank)?;
    let waiting = the_other(look.alive().count() - 1, "rank", "wait");
    let words = format!("{} has more to do on its GPU in each step; {waiting} for it", told.name());
    let mut found = RULE.finding(format!("rank {rank}"), words, slow.since);
    found.job = Some(job.id.clone());
    found.confidence = Confidence::Likely;
    found.gpus = look.gpus_of(&[rank]);
    let drew = format!(
        "it draws {most:.0} W, the others {next:.0} W or less, busy all the time; before the steps became slower all drew {top:.0} W"
    );
    found.evidence = vec![Evidence::of("gpu", drew)];
    let others: Option<Vec<f64>> = look.alive().filter(|r| r.rank != rank).map(|r| r.sm_active_pct).collect();
    if let (Some(own), Some(others)) = (told.sm_active_pct, others) {
        let theirs = at_most_pct(others.into_iter().fold(0.0, f64::max));
        found.evidence.push(Evidence::of("gpu", format!("kernels on {own:.0} % of its SMs, of theirs {theirs}")));
    }
    found.next = Some(format!(
        "what rank {rank} does in a step that the others do not: a longer sequence, a branch of its own; `nvidia-smi -q -d PERFORMANCE,CLOCK`"
    ));
    found.ranks = vec![rank];
    told_by(&mut found, look);
    Some(found)
}
