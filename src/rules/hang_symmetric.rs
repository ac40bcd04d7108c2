//! Every rank has joined, and nothing moves.

use super::absent_on_cpus::{WAITS_FOR_OTHERS, calls_of_sleepers, waits_in_gloo};
use super::chain::Chain;
use super::hang_rank_absent::{has_trained, patience, paused_by_name};
use super::{Implies, Rule, Stacks, TickContext, collective_mismatch, send_order_deadlock, told_by, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::base::units::{all_here, counted, so_many};
use crate::base::words::{py_spy, rank_words};
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::{Look, RAS_OLD, RankLook, RasLook};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "hang-symmetric",
    severity: Severity::Critical,
    title: "All ranks on this node wait on their GPUs, no rank is behind, and nothing moves",
    how: "RAS counts that are equal and still, or that differ by one call where those behind wait on their GPUs, too, in a call that has ended for the others; every GPU of the job at 100 % without computing or moving a byte; no step in the log; \
          of ranks that share their GPUs: the same of these GPUs, and all processes spin; \
          of ranks without a GPU, or whose GPUs are at rest: all sleep in Gloo's collectives, by their threads where those may be read, use no CPU and read nothing",
    advice: "No single rank on this node is to blame. Usual causes: ranks that call different collectives, or use communicators in another \
             order; a network that lost a connection; a rank on another node. Compare the stacks of two ranks",
    life: while_it_holds(0, 3),
    implies: Implies::Stuck,
    stacks: Stacks::OfAnyone,
    chain: Chain { covered_by: &["collective-mismatch", "hang-rank-absent", "send-order-deadlock"], ..Chain::HANG },
    on_tick: Some(check),
    limits: &[&WAITED, &AGREED, &ASLEEP, &PAUSE_S],
    ..Rule::PLAIN
};

const WAITED: Limit = Limit::seconds("hang-symmetric", "after", 20.0, "all GPUs must have waited this long");

const AGREED: Limit = Limit::seconds(
    "hang-symmetric",
    "after_agreed",
    12.0,
    "the same where GPUs, log, processes and counts, as far as they are seen, show the same standstill",
);

const COUNTS_STILL: Duration = Duration::from_secs(8);
/// How many times the silence that is usual for a log.
const FAR_LONGER: f64 = 1.5;
/// Of one core: children of a rank that do something for it, a compiler or a loader.
const HELPERS_PCT: f64 = 20.0;

/// All ranks wait in a barrier or compute: nothing moves for so long without meaning anything.
pub(super) const PAUSE_S: Limit =
    Limit::seconds("hang-symmetric", "reports", 10.0, "equal counts must stand still this long in saved RAS reports");

/// On CPUs ranks sleep while they wait, and a pause looks much the same: this is more than most of those take.
const ASLEEP: Limit = Limit::seconds(
    "hang-symmetric",
    "after_asleep",
    30.0,
    "the same of ranks without GPUs that all sleep, where their threads do not show that they wait in Gloo",
);

/// All ranks spin, and the GPUs that they share among themselves are busy without computing: none of them comes, and RAS, which counts what
/// was launched, misses nobody.
fn on_shared_gpus(job: &Job, look: &Look) -> Option<Finding> {
    let since = look.shared_wait().filter(|_| look.quiet_log() && has_trained(look) && !paused_by_name(look))?;
    let ras = look.ras.as_ref().filter(|r| r.age <= RAS_OLD && r.behind.is_empty() && r.missing.is_empty() && r.still_answers >= 2)?;
    let silent = look.log.as_ref().is_some_and(|l| l.step.is_some() && l.quiet_for >= l.patience.mul_f64(FAR_LONGER));
    let waited = patience(look, if silent { AGREED.duration() } else { WAITED.duration() });
    if look.at.since(since) < waited || ras.still_for < COUNTS_STILL || job.has_ranks_elsewhere() {
        return None;
    }
    let alive = look.alive().count();
    let mut found = RULE.finding("all", format!("{}, no rank is behind, nothing moves", all_here(alive, "wait")), since);
    found.confidence = Confidence::Likely;
    found.gpus = look.gpus_of(&look.alive().map(|r| r.rank).collect::<Vec<_>>());
    found.next = look.alive().next().map(|r| py_spy(r.pid));
    found.evidence = vec![
        Evidence::of("ras", format!("counts of {} ranks equal and unchanged for {}", ras.nranks, span(ras.still_for))),
        Evidence::of("gpu", format!("the GPUs that they share at 100 % without computing for {}", span(look.at.since(since)))),
        Evidence::of("process", format!("{}, without I/O", so_many(alive, "process", "spin"))),
    ];
    told_by(&mut found, look);
    Some(found)
}

/// All ranks, which use no GPU or whose GPUs are at rest, sleep in what Gloo waits in, use no CPU, and read and write nothing.
fn asleep(job: &Job, look: &Look) -> Option<Finding> {
    let calls = calls_of_sleepers(look, AGREED.duration()).filter(|_| !paused_by_name(look))?;
    // One that sleeps outside of a collective may wait for a lock, a queue or a thread that uploads: that is a pause.
    if calls.iter().any(|(r, call)| !waits_in_gloo(r, call)) {
        return None;
    }
    let seen_in_gloo = calls.iter().all(|(r, _)| r.waits.first().is_some_and(|wait| wait.in_gloo == Some(true)));
    // Where the threads of all ranks that there are wait for one another, nothing can come any more: only a call that takes long is waited for.
    let log = look.log.as_ref()?;
    let circle = seen_in_gloo && !job.has_ranks_elsewhere() && look.alive().all(|r| r.helper_cpu_pct.is_none_or(|pct| pct < HELPERS_PCT));
    let least = if circle { log.patience.mul_f64(FAR_LONGER) } else { patience(look, ASLEEP.duration()) };
    if log.quiet_for <= least {
        return None;
    }
    let since = log.last_step_at?;
    // Of ranks that hold GPUs only their threads tell that it is no pause.
    if look.alive().any(|r| r.gpu.is_some()) && !circle {
        return None;
    }
    let mut found =
        RULE.finding("all", format!("{}, and nothing moves: no rank stands out as the culprit", all_here(calls.len(), "wait")), since);
    found.severity = Severity::Error;
    found.confidence = if seen_in_gloo { Confidence::Likely } else { Confidence::Possible };
    found.next = calls.first().map(|(r, _)| py_spy(r.pid));
    found.evidence = vec![Evidence::of(
        "process",
        format!("{} asleep in {}, without I/O", counted(calls.len(), "rank"), if seen_in_gloo { "Gloo" } else { WAITS_FOR_OTHERS }),
    )];
    told_by(&mut found, look);
    Some(found)
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        if let Some(found) = asleep(job, look)
            .or_else(|| on_shared_gpus(job, look))
            .filter(|_| !RULE.chain.covered_by.iter().any(|rule| ctx.ledger.is_open(rule, Some(id))))
        {
            out.push(Finding { job: Some(id.clone()), ..found });
            continue;
        }
        let alive = look.alive().count();
        let least = if all_agree(job, look) { &AGREED } else { &WAITED };
        let trained = has_trained(look);
        let exchanged = !trained && has_exchanged(job, look);
        let waited = if exchanged { least.duration() } else { patience(look, least.duration()) };
        let waiting = look.with(Activity::Waiting, waited);
        if alive < 2 || waiting.len() < alive || !look.quiet_log() || !(trained || exchanged) {
            continue;
        }
        // What says more may be found in this very second.
        let says_more = || send_order_deadlock::judge(job, look).is_some() || collective_mismatch::judge(job, look).is_some();
        if RULE.chain.covered_by.iter().any(|rule| ctx.ledger.is_open(rule, Some(id))) || says_more() {
            continue;
        }
        if alive < look.local_ranks || paused_by_name(look) || look.alive().any(|r| r.stopped() || r.does_io()) {
            continue;
        }
        let behind_and_waits = look.ras.as_ref().and_then(|ras| in_call_before(look, ras));
        let (confidence, counts) = match &look.ras {
            Some(ras) if ras.age > RAS_OLD => (Confidence::Possible, None),
            Some(_) if behind_and_waits.is_some() => (Confidence::Likely, None),
            Some(ras) if !ras.behind.is_empty() || !ras.missing.is_empty() || ras.still_answers < 2 => continue,
            Some(ras) => (
                if look.has_uncounted() { Confidence::Possible } else { Confidence::Certain },
                Some(Evidence::of("ras", format!("counts of {} ranks equal and unchanged for {}", ras.nranks, span(ras.still_for)))),
            ),
            None => (Confidence::Possible, None),
        };
        let Some(since) = waiting.iter().map(|r| r.activity_since).max() else { continue };
        // Without counts nobody knows whether all wait for the same.
        let behind = match counts {
            None if behind_and_waits.is_some() => "some of them in a call that has ended for the others",
            Some(_) if look.server_hangs => "no rank is behind in collectives (those in CUDA graphs are not counted)",
            Some(_) if look.has_uncounted() => "no rank is behind in collectives (sends and receives are not counted)",
            Some(_) => "no rank is behind",
            None => "whether one is behind is not known",
        };
        let mut found = RULE.finding("all", format!("{}, {behind}, nothing moves", all_here(alive, "wait")), since);
        found.job = Some(id.clone());
        found.confidence = confidence;
        let told_of = behind_and_waits.as_ref().and_then(|(_, rank)| look.ranks.get(rank));
        found.next = told_of.or(waiting.first().copied()).map(|r| py_spy(r.pid));
        found.evidence.extend(counts);
        found.evidence.extend(behind_and_waits.map(|(evidence, _)| evidence));
        found.evidence.push(Evidence::of("gpu", super::spinning(alive, look.at.since(since))));
        found.evidence.extend(super::power_evidence(look));
        told_by(&mut found, look);
        out.push(found);
    }
}

/// Who is behind in a communicator of the whole job waits on its GPU as well: not for itself, but in a call that the others have left. They
/// called it in another way (another root, another size), or data was lost on the way. With the first of them.
fn in_call_before(look: &Look, ras: &RasLook) -> Option<(Evidence, u32)> {
    let stands = ras.missing.is_empty() && ras.still_answers >= 2 && ras.still_for >= COUNTS_STILL;
    let all_here = look.alive().count() == ras.nranks as usize && look.alive().all(|r| r.by_gpm && r.spins());
    let first = ras.behind.first().filter(|_| stands && all_here)?;
    let of_one_call =
        ras.behind.iter().all(|late| late.behind.collective == first.behind.collective && late.behind.have + 1 == late.behind.max);
    let mut ranks: Vec<u32> = ras.behind.iter().filter_map(|late| late.who.rank).collect();
    ranks.sort_unstable();
    if !of_one_call || ranks.len() != ras.behind.len() || ranks.len() < 2 || ranks.len() >= ras.nranks as usize {
        return None;
    }
    let (who, call) = (rank_words(&ranks), &first.behind.collective);
    let words = format!(
        "{who} have not come to {call} {}, and their GPUs wait in a call before it: it has ended for the others; unchanged for {}",
        first.behind.max,
        span(ras.still_for)
    );
    Some((Evidence::of("ras", words), ranks[0]))
}

/// A job of sends and receives alone, which RAS does not count, whose GPUs have worked. All of it is in sight: where all wait in kernels of
/// NCCL at once, nobody can come any more.
fn has_exchanged(job: &Job, look: &Look) -> bool {
    const WORKED: Duration = Duration::from_secs(4);
    let counts_nothing = look.ras.as_ref().is_some_and(|ras| ras.age <= RAS_OLD && ras.counts_nothing);
    look.worked >= WORKED && counts_nothing && !job.has_ranks_elsewhere() && look.alive().all(|rank| rank.by_gpm)
}

/// Signals of each kind show the same standstill: equal counts that stand still, GPUs whose waiting is measured, and a log that is silent for
/// far longer than ever before, or processes that do nothing else. Where no count speaks for what they wait in, both of these are needed,
/// and all ranks in sight.
fn all_agree(job: &Job, look: &Look) -> bool {
    let counts = look.ras.as_ref().filter(|r| r.age <= RAS_OLD);
    let stands = counts.is_none_or(|r| r.still_answers >= 2 && r.still_for >= COUNTS_STILL);
    let gpus = look.alive().all(|r| r.by_gpm || counts.is_some() && r.draws_as_at_work == Some(false));
    let log = look.log.as_ref().is_some_and(|l| l.step.is_some() && l.quiet_for >= l.patience.mul_f64(FAR_LONGER));
    let prints = look.log.as_ref().is_some_and(|l| l.step.is_some() || l.last_step_at.is_some());
    let idles = |r: &RankLook| r.io_bytes_per_s.is_some() && !r.does_io() && r.helper_cpu_pct.is_none_or(|pct| pct < HELPERS_PCT);
    let processes = !job.log_only && look.alive().all(|r| (r.spins() || r.sleeps()) && idles(r));
    let vouched = counts.is_some() && !look.has_uncounted();
    // A job that prints no steps says nothing by its silence.
    let rest = if vouched { log || processes } else { (log || !prints) && processes && !job.has_ranks_elsewhere() };
    stands && gpus && rest
}
