//! One rank is late at every step.

use super::{Implies, Rule, Stacks, TickContext, told_by, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::the_other;
use crate::base::words::py_spy;
use crate::model::Model;
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::Look;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "straggler",
    severity: Severity::Warning,
    title: "One rank is late every step; the others wait for it each time",
    how: "Its GPU is the least busy while its siblings are at 100 %; RAS has it behind at every look although all counts move",
    advice: "The GPU that looks least busy is the slow one: look at its data loader, CPU pinning, page faults, and whether its GPU is throttled",
    life: while_it_holds(5, 15),
    implies: Implies::Slow,
    stacks: Stacks::OfCulprits,
    on_tick: Some(check),
    limits: &[&WINDOW, &SIBLINGS_PCT, &LAG_PCT],
    ..Rule::PLAIN
};

const WINDOW: Limit = Limit::seconds("straggler", "window", 12.0, "GPU activity is compared over this time");
/// Siblings of a straggler spin: at least this busy, on average.
const SIBLINGS_PCT: Limit = Limit::percent("straggler", "siblings", 93.0, "the other GPUs must be busy this share of the time");
/// How much less busy than the least busy sibling. Healthy data-parallel ranks differ by 3.
const LAG_PCT: Limit = Limit::percent("straggler", "lag", 15.0, "the GPU of the late rank must be this much less busy than the next one");

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        let progresses = look.log.as_ref().is_none_or(|l| l.quiet_for <= l.patience)
            && (look.log.as_ref().is_some_and(|l| l.step.is_some()) || look.ras.as_ref().is_some_and(|r| r.still_answers == 0));
        if !progresses || look.phase.is_some() {
            continue;
        }
        // A pause within the window would make the rank that saved a checkpoint look late.
        let steady = ctx.model.progress_of(id).filter(|p| !p.is_empty()).map(|p| p.steady_since);
        if steady.is_some_and(|since| since.is_none_or(|at| ctx.model.now.since(at) < WINDOW.duration())) {
            continue;
        }
        out.extend(least_busy(ctx.model, job, look).or_else(|| always_behind(ctx.model, job, look)));
    }
}

/// Where nobody tells how busy the GPUs are: the only rank that was behind whenever RAS was asked of late, while all counts moved. Who
/// launches at the same pace as the others is seen behind once in a while, not each time.
fn always_behind(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    const LOOKS: usize = 3;
    // A server that waits for requests has counts that move, too: only steps show that somebody is late.
    if look.alive().any(|r| r.activity != Activity::Unknown) || look.log.as_ref().is_none_or(|l| l.step.is_none()) {
        return None;
    }
    let comm = model.comms_of(job).filter(|c| c.answered_at.is_some()).max_by_key(|c| (c.nranks, c.operations()))?;
    let recent: Vec<_> = comm.looks.iter().rev().take(LOOKS).collect();
    let &[rank] = recent.first()?.behind.as_slice() else { return None };
    if recent.len() < LOOKS
        || recent.iter().any(|l| !l.moved || l.behind != [rank])
        || look.at.since(recent[0].at) > Duration::from_secs(15)
    {
        return None;
    }
    // Numbers of a smaller communicator are not ranks of the job.
    let told = look.ranks.get(&rank).filter(|_| job.world_size.is_none_or(|n| n == comm.nranks))?;
    let mut found = RULE.finding(
        format!("rank {rank}"),
        format!("{} is late every step; {} for it", told.name(), the_other(comm.nranks.saturating_sub(1) as usize, "rank", "wait")),
        recent[LOOKS - 1].at,
    );
    found.job = Some(job.id.clone());
    found.ranks = vec![rank];
    found.gpus = look.gpus_of(&found.ranks);
    found.next = Some(py_spy(told.pid));
    found.evidence = vec![Evidence::of("ras", format!("alone behind at the last {LOOKS} looks, while counts moved"))];
    told_by(&mut found, look);
    Some(found)
}

fn least_busy(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    let mut busy: Vec<(f64, u32)> = Vec::new();
    for rank in look.alive() {
        let gpu = model.gpus.get(&rank.gpu?)?;
        if gpu.util_pct.within(model.now, WINDOW.duration()).count() < 6 {
            return None;
        }
        busy.push((gpu.util_pct.mean_within(model.now, WINDOW.duration())?, rank.rank));
    }
    busy.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (&(slow, rank), &(next, _)) = (busy.first()?, busy.get(1)?);
    if next < SIBLINGS_PCT.value() || slow > next - LAG_PCT.value() {
        return None;
    }
    // Without a log only the siblings can show that steps are made: while they wait in one barrier, nobody is late "every step".
    let steps_made =
        look.log.is_some() || look.alive().filter(|r| r.rank != rank).all(|r| r.is(Activity::Working, look.at, WINDOW.duration()));
    if !steps_made {
        return None;
    }
    let told = look.ranks.get(&rank)?;
    let mut found = RULE.finding(
        format!("rank {rank}"),
        format!("{} is late every step; {} for it", told.name(), the_other(busy.len() - 1, "rank", "wait")),
        model.now.minus(WINDOW.duration()),
    );
    found.job = Some(job.id.clone());
    found.ranks = vec![rank];
    found.gpus = look.gpus_of(&found.ranks);
    found.next = Some(py_spy(told.pid));
    found.evidence.push(Evidence::of(
        "gpu",
        match busy.len() {
            2 => format!("over {} s its GPU was busy {slow:.0} % of the time, the other {next:.0} %", WINDOW.duration().as_secs()),
            _ => format!("over {} s its GPU was busy {slow:.0} % of the time, the others {next:.0} % or more", WINDOW.duration().as_secs()),
        },
    ));
    let looks: Vec<_> =
        model.comms_of(job).flat_map(|c| c.looks.iter()).filter(|l| model.now.since(l.at) < WINDOW.duration() * 3).collect();
    let behind = looks.iter().filter(|l| l.moved && l.behind == [rank]).count();
    if behind >= 2 {
        found.confidence = Confidence::Certain;
        found.evidence.push(Evidence::of("ras", format!("behind at {behind} of {} looks while counts moved", looks.len())));
    }
    told_by(&mut found, look);
    Some(found)
}
