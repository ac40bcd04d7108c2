//! One rank is late at every step, or each step another.

mod behind_elsewhere;
mod more_to_do;
mod stopped_again;
mod unprinted;
mod waited_for;

pub(super) use stopped_again::is_stopped_again;

use super::{Implies, Rule, Stacks, TickContext, slow_steps, told_by, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::Stamp;
use crate::base::units::{at_least_pct, at_most_pct, the_other};
use crate::base::words::{py_spy, rank_words};
use crate::model::Model;
use crate::model::gpu::{Activity, Gpu};
use crate::model::job::Job;
use crate::model::progress::{Progress, SlowSince};
use crate::model::signals::{Look, RankLook};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "straggler",
    severity: Severity::Warning,
    title: "One rank is late every step; the others wait for it each time",
    says: "{is|are} late every step, and the others wait",
    how: "Its GPU is the least busy while its siblings are at 100 %, again and again within 12 s or five steps; RAS has it behind at every look \
          although all counts move, be the next line of a step due or not; in a pipeline, its GPU draws much more than those that wait, all the time; since steps became slower, it draws \
          much more than the others, which drew the same before, or has kernels far less of the time while theirs run far more; its process is found stopped again and again, and has run in between; on another node, or alone on this one, RAS has it behind again and again since steps became slower, and not before. What its process does meanwhile \
          says why: it sleeps, reads, or computes on the CPU. Where each time another rank is late, none is to blame",
    advice: "A rank whose GPU is the least busy is held up: look at its data loader, CPU pinning, page faults, and whether its GPU is throttled. \
             One whose GPU has more to do was given more: longer samples, more tokens, a larger share. One stage of a pipeline that computes while all others wait is an imbalance of the job, not a fault of its node",
    life: while_it_holds(5, 15),
    implies: Implies::Slow,
    stacks: Stacks::OfCulprits,
    on_tick: Some(check),
    limits: &[&WINDOW, &STEPS, &SIBLINGS_PCT, &LAG_PCT, &UNEVEN],
    ..Rule::PLAIN
};

const WINDOW: Limit = Limit::seconds("straggler", "window", 12.0, "GPU activity is compared over this time");
/// One long sequence in a few long steps makes nobody late every step.
const STEPS: Limit = Limit::count("straggler", "steps", 5.0, "where steps are long, over so many of them");
/// Siblings of a straggler spin: at least this busy, on average.
pub const SIBLINGS_PCT: Limit = Limit::percent("straggler", "siblings", 93.0, "the other GPUs must be busy this share of the time");
/// How much less busy than the least busy sibling. Healthy data-parallel ranks differ by 3.
pub const LAG_PCT: Limit =
    Limit::percent("straggler", "lag", 15.0, "the GPU of the late rank must be this much less busy than the next one");

/// Stages that share the work evenly draw the same power within 10 %; measured with four times the work on one of four: 2.2.
const UNEVEN: Limit = Limit::times(
    "straggler",
    "uneven",
    1.5,
    "the GPUs of one stage, or the GPU of one rank, must draw so many times what those draw that wait",
);

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        let progresses = look.log.as_ref().is_none_or(|l| l.quiet_for <= l.patience)
            && (look.log.as_ref().is_some_and(|l| l.step.is_some()) || look.ras.as_ref().is_some_and(|r| r.still_answers == 0));
        // Who waits for its input is named with what it waits for.
        let starves = |f: &Finding| f.rule == "input-stall" && !f.ranks.is_empty() && f.job.as_ref() == Some(id);
        if look.phase.is_some() || ctx.ledger.first_open(starves).is_some() {
            continue;
        }
        if !progresses {
            out.extend(unprinted::judge(ctx.model, job, look));
            continue;
        }
        let progress = ctx.model.progress_of(id).filter(|p| !p.is_empty() && !p.is_by_saves());
        if let Some(found) = stopped_again::judge(job, look) {
            out.push(found);
            continue;
        }
        let since_slower = more_to_do::judge(ctx.model, job, look, progress).or_else(|| waited_for::judge(ctx.model, job, look, progress));
        if let Some(found) = since_slower {
            out.push(found);
            continue;
        }
        // Where the pace is not known yet, silence may be the begin of a hang.
        let quiet_for = look.log.as_ref().map_or(Duration::ZERO, |l| l.quiet_for);
        if progress.is_some_and(|p| !p.is_paced()) && quiet_for > WINDOW.duration() / 2 {
            continue;
        }
        let step = progress.and_then(|p| p.step_times.median_of_last(20)).filter(|s| s.is_finite()).unwrap_or(0.0);
        let window = WINDOW.duration().max(Duration::from_secs_f64((step * STEPS.value()).clamp(0.0, 120.0)));
        // A pause within the window would make the rank that saved a checkpoint look late.
        let steady_for = progress.map(|p| p.steady_since.map_or(Duration::ZERO, |at| ctx.model.now.since(at)));
        if steady_for.is_some_and(|steady| steady < window) {
            continue;
        }
        let one = least_busy(ctx.model, job, look, window, step)
            .or_else(|| least_busy_by_means(ctx.model, job, look, window))
            .or_else(|| busiest_stage(ctx.model, job, look, window))
            .or_else(|| always_behind(ctx.model, job, look))
            .or_else(|| behind_elsewhere::judge(ctx.model, job, look, progress));
        let turns = TURNS.max(step_slot(step) * 10);
        out.extend(one.or_else(|| by_turns(ctx.model, job, look, step_slot(step)).filter(|_| steady_for.is_none_or(|s| s >= turns))));
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
    found.evidence = vec![Evidence::of("ras", format!("the only rank behind in the last {LOOKS} RAS answers, while all counts advanced"))];
    found.evidence.extend(reason(look, told));
    told_by(&mut found, look);
    Some(found)
}

/// The mean of each sample of a rank's GPU from one moment to another.
fn mean(samples: impl DoubleEndedIterator<Item = (Stamp, f64)>, from: Stamp, to: Stamp) -> Option<f64> {
    let within = samples.rev().skip_while(|(at, _)| *at > to).take_while(|(at, _)| *at > from);
    let (n, sum) = within.fold((0u32, 0.0), |(n, sum), (_, value)| (n + 1, sum + value));
    (n > 0).then(|| sum / f64::from(n))
}

/// How busy the GPU of each rank was, the least busy first. `None` where one is not known.
pub(super) fn busy(model: &Model, look: &Look, from: Stamp, to: Stamp) -> Option<Vec<(f64, u32)>> {
    let of = |rank: &RankLook| Some((mean(model.gpus.get(&rank.gpu?)?.util_pct.iter(), from, to)?, rank.rank));
    let mut busy: Vec<(f64, u32)> = look.alive().map(of).collect::<Option<_>>()?;
    busy.sort_by(|a, b| a.0.total_cmp(&b.0));
    Some(busy)
}

/// What the GPU of each rank drew, W. `None` where one is not known.
fn drawn(model: &Model, look: &Look, from: Stamp, to: Stamp) -> Option<Vec<(f64, u32)>> {
    let of = |rank: &RankLook| {
        let trend = model.gpus.get(&rank.gpu?)?.power_trend.iter();
        Some((mean(trend.map(|(at, watts)| (at, f64::from(watts))), from, to)?, rank.rank))
    };
    look.alive().map(of).collect()
}

/// The beginning and the end of each third of a time that ends now.
pub(super) fn thirds(now: Stamp, window: Duration) -> [(Stamp, Stamp); 3] {
    [3, 2, 1].map(|n| (now.minus(window * n / 3), now.minus(window * (n - 1) / 3)))
}

/// Its GPU is as busy as the others' but for a few pauses, in which it saved or forked: nobody is late every step like that. It can be told
/// only where each value covers a step or more: a mean of GPM, or a utilisation of NVML, which is that of 1/6 s at least (nvmlUtilization_t).
fn is_late_at_times(model: &Model, look: &Look, rank: u32, window: Duration, step_s: f64, others_pct: f64) -> bool {
    const OF_GPM_S: f64 = 0.5;
    const OF_NVML_S: f64 = 1.0 / 6.0;
    const LEAST: usize = 4;
    /// A mean with one pause in it may cover several seconds without any.
    const BUSY_SHARE: f64 = 0.3;
    const LONGEST: Duration = Duration::from_secs(5);
    let Some(gpu) = look.ranks.get(&rank).and_then(|r| model.gpus.get(&r.gpu?)) else { return false };
    let from = model.now.minus(window);
    // Each stands for the time since the one before. What it did before it was late for the first time says nothing.
    let busy_share = |values: &mut dyn Iterator<Item = (Stamp, f64)>| {
        let (mut busy, mut all, mut count, mut before) = (Duration::ZERO, Duration::ZERO, 0, None);
        for (at, pct) in values {
            let covers = before.replace(at).map_or(Duration::ZERO, |before| at.since(before)).min(LONGEST);
            let is_busy = pct > others_pct - LAG_PCT.value() / 3.0;
            if at > from && (count > 0 || !is_busy) {
                count += 1;
                all += covers;
                busy += if is_busy { covers } else { Duration::ZERO };
            }
        }
        (count >= LEAST).then(|| busy.as_secs_f64() / all.as_secs_f64().max(f64::MIN_POSITIVE))
    };
    let by_gpm = (step_s <= OF_GPM_S).then(|| busy_share(&mut gpu.kernel_pct.iter())).flatten();
    let by_nvml = || (step_s <= OF_NVML_S).then(|| busy_share(&mut gpu.util_pct.iter())).flatten();
    step_s > 0.0 && by_gpm.or_else(by_nvml).is_some_and(|share| share > BUSY_SHARE)
}

fn least_busy(model: &Model, job: &Job, look: &Look, window: Duration, step: f64) -> Option<Finding> {
    let now = model.now;
    if look.alive().filter_map(|r| model.gpus.get(&r.gpu?)).any(|gpu| gpu.util_pct.within(now, window).count() < 6) {
        return None;
    }
    let busy_now = busy(model, look, now.minus(window), now)?;
    let (&(slow, rank), &(next, _)) = (busy_now.first()?, busy_now.get(1)?);
    if next < SIBLINGS_PCT.value() || slow > next - LAG_PCT.value() {
        return None;
    }
    // Who is late once has had a long sequence, or has collected garbage. Where steps are long, that lasts.
    let is_late = |(from, to): (Stamp, Stamp)| {
        let third = busy(model, look, from, to)?;
        Some(third.first()?.1 == rank && third[0].0 <= third.get(1)?.0 - LAG_PCT.value() / 3.0)
    };
    let least = if window > WINDOW.duration() { 3 } else { 2 };
    if thirds(now, window).into_iter().filter(|third| is_late(*third) == Some(true)).count() < least {
        return None;
    }
    if is_late_at_times(model, look, rank, window, step, next) {
        return None;
    }
    // Without a log only the siblings can show that steps are made: while they wait in one barrier, nobody is late "every step".
    let steps_made = look.log.is_some() || look.alive().filter(|r| r.rank != rank).all(|r| r.is(Activity::Working, look.at, window));
    if !steps_made {
        return None;
    }
    is_late_each_step(model, job, look, window, &busy_now)
}

/// The utilisation that NVML gives is that of a moment before each look: who stands still in the same part of each second is never seen
/// idle. The means of GPM leave nothing out; they are taken seldom while nothing changes.
fn least_busy_by_means(model: &Model, job: &Job, look: &Look, window: Duration) -> Option<Finding> {
    const LEAST: usize = 2;
    let of = |rank: &RankLook| Some((model.gpus.get(&rank.gpu?)?, rank.rank));
    let gpus: Vec<(&Gpu, u32)> = look.alive().map(of).collect::<Option<_>>()?;
    let at_once = |at: Stamp| -> Option<Vec<(f64, u32)>> {
        let of = |(gpu, rank): &(&Gpu, u32)| Some((gpu.kernel_pct.iter().rev().find(|(read, _)| *read == at)?.1, *rank));
        let mut busy: Vec<(f64, u32)> = gpus.iter().map(of).collect::<Option<_>>()?;
        busy.sort_by(|a, b| a.0.total_cmp(&b.0));
        Some(busy)
    };
    let is_late = |busy: &[(f64, u32)]| match busy {
        [(slow, _), (next, _), ..] => *next >= SIBLINGS_PCT.value() && *slow <= next - LAG_PCT.value(),
        _ => false,
    };
    let (first, _) = gpus.first()?;
    let mut late: Vec<Vec<(f64, u32)>> = Vec::new();
    let mut since = None;
    for (at, _) in first.kernel_pct.iter().rev() {
        since = Some(at);
        match at_once(at) {
            Some(busy) if is_late(&busy) && late.first().is_none_or(|newest| newest[0].1 == busy[0].1) => late.push(busy),
            _ => break,
        }
    }
    let (newest, _) = first.kernel_pct.iter().next_back()?;
    // Each is the mean since the one before, and what is older than the window says nothing of now.
    let covered = newest.since(since?);
    if late.len() < LEAST || covered < window.mul_f64(0.75) || look.at.since(newest) > window {
        return None;
    }
    is_late_each_step(model, job, look, covered, late.first()?)
}

/// The finding of who is the first of these.
fn is_late_each_step(model: &Model, job: &Job, look: &Look, window: Duration, busy_now: &[(f64, u32)]) -> Option<Finding> {
    let now = model.now;
    let (&(slow, rank), &(next, _)) = (busy_now.first()?, busy_now.get(1)?);
    let told = look.ranks.get(&rank)?;
    let stage = look.peers.stage(rank).map_or(String::new(), |stage| format!(" of {}", stage.words()));
    let waiting = the_other(busy_now.len() - 1, "rank", "wait");
    let mut found =
        RULE.finding(format!("rank {rank}"), format!("{}{stage} is late every step; {waiting} for it", told.name()), now.minus(window));
    found.job = Some(job.id.clone());
    found.ranks = vec![rank];
    found.gpus = look.gpus_of(&found.ranks);
    found.next = Some(py_spy(told.pid));
    let seconds = window.as_secs();
    found.evidence.push(Evidence::of(
        "gpu",
        match busy_now.len() {
            2 => format!("over {seconds} s its GPU was busy {slow:.0} % of the time, the other {next:.0} %"),
            _ => format!("over {seconds} s its GPU was busy {slow:.0} % of the time, the others {}", at_least_pct(next)),
        },
    ));
    found.evidence.extend(reason(look, told));
    let looks: Vec<_> = model.comms_of(job).flat_map(|c| c.looks.iter()).filter(|l| now.since(l.at) < window * 3).collect();
    let behind = looks.iter().filter(|l| l.moved && l.behind == [rank]).count();
    if behind >= 2 {
        found.confidence = Confidence::Certain;
        found.evidence.push(Evidence::of("ras", format!("behind in {behind} of {} RAS answers while all counts advanced", looks.len())));
    }
    told_by(&mut found, look);
    Some(found)
}

/// Why a rank is late whose GPU idles, by what its process does, where that is not what the processes of the others do: those spin.
fn reason(look: &Look, late: &RankLook) -> Option<Evidence> {
    let others_spin = look.alive().filter(|r| r.rank != late.rank).all(RankLook::spins);
    let cpu = late.cpu_pct.filter(|_| others_spin)?;
    let io = late.io_bytes_per_s.unwrap_or(0.0) / 1e6;
    let words = match cpu {
        _ if late.does_io() => format!("its process does {io:.1} MB/s of I/O: files, or its data loader"),
        60.0.. if late.spins() => "meanwhile its process computes on the CPU: preparing a batch, or Python's garbage collection".to_owned(),
        ..60.0 => format!("meanwhile its process sleeps ({cpu:.0} % CPU), waiting for a loader worker, a file or a lock"),
        _ => return None,
    };
    Some(Evidence::of("process", words))
}

/// Since when steps have been slower, and the time over which a rank is compared with the others since: so many steps must have been made that one
/// that evaluates alone is none, and that one long batch is over. Stages have work of their own, and where another's process takes a part of a
/// GPU, a finding names that process.
fn slower(model: &Model, job: &Job, look: &Look, progress: Option<&Progress>, steps: f64) -> Option<(SlowSince, Duration)> {
    const LASTS: Duration = Duration::from_secs(6);
    let progress = progress?;
    let slow = progress.slow?;
    let lasts = LASTS.max(Duration::from_secs_f64((progress.step_times.median_of_last(5)? * steps).clamp(0.0, 60.0)));
    let is_due = model.now.since(slow.since) >= lasts && look.alive().count() >= 2;
    (is_due && !is_pipeline(look) && slow_steps::shared_gpus(model, Some(job), look).is_empty()).then_some((slow, lasts))
}

/// As far as can be seen.
fn is_pipeline(look: &Look) -> bool {
    look.alive().all(|r| look.peers.stage(r.rank).is_some()) || look.ras.as_ref().is_some_and(|r| r.blind)
}

/// A stage of a pipeline whose GPUs compute all the time, while those of all other stages wait for it.
fn busiest_stage(model: &Model, job: &Job, look: &Look, window: Duration) -> Option<Finding> {
    let now = model.now;
    // Power is steadier than utilisation.
    let window = window.mul_f64(0.75);
    // Elsewhere it may be the rank with the longest sequence.
    if !is_pipeline(look) || look.alive().count() < 2 {
        return None;
    }
    let (least_busy, _) = *busy(model, look, now.minus(window), now)?.first()?;
    let gpu = |rank: &RankLook| model.gpus.get(&rank.gpu?);
    let limits: BTreeSet<Option<u64>> = look.alive().filter_map(gpu).map(|gpu| gpu.info.power_limit_mw).collect();
    if least_busy < SIBLINGS_PCT.value() || limits.len() != 1 {
        return None;
    }
    let all = drawn(model, look, now.minus(window), now)?;
    let (_, top) = *all.iter().max_by(|a, b| a.0.total_cmp(&b.0))?;
    let stage = look.peers.stage(top);
    let is_its = |rank: u32| rank == top || stage.is_some() && look.peers.stage(rank) == stage;
    let sides = |all: &[(f64, u32)]| {
        let its = all.iter().filter(|(_, rank)| is_its(*rank)).map(|(watts, _)| *watts).fold(f64::INFINITY, f64::min);
        (its, all.iter().filter(|(_, rank)| !is_its(*rank)).map(|(watts, _)| *watts).fold(0.0, f64::max))
    };
    let uneven = |(its, others): (f64, f64)| others > 0.0 && its >= others * UNEVEN.value();
    let always = thirds(now, window).into_iter().all(|(from, to)| drawn(model, look, from, to).is_some_and(|third| uneven(sides(&third))));
    let (its, others) = sides(&all);
    if !always || !uneven((its, others)) {
        return None;
    }
    let ranks: Vec<u32> = all.iter().map(|(_, rank)| *rank).filter(|rank| is_its(*rank)).collect();
    let name = match ranks.as_slice() {
        [one] => look.ranks.get(one)?.name(),
        some => rank_words(some),
    };
    let of_stage = stage.map_or(String::new(), |stage| format!(" of {}", stage.words()));
    let computes = if ranks.len() == 1 { "computes" } else { "compute" };
    let waiting = the_other(all.len() - ranks.len(), "rank", "wait");
    let words = format!("{name}{of_stage} {computes} all the time, and {waiting} for it: the work is uneven");
    let mut found = RULE.finding(rank_words(&ranks), words, now.minus(window));
    found.job = Some(job.id.clone());
    found.gpus = look.gpus_of(&ranks);
    found.next = Some(
        "give this stage less work: fewer layers beside the loss or the embedding, or virtual stages; the node itself is not slow".into(),
    );
    found.evidence = vec![Evidence::of(
        "gpu",
        format!("over {} s it draws {its:.0} W or more, the others {others:.0} W or less, all busy: always this one", window.as_secs()),
    )];
    let sm = |rank: &u32| look.ranks.get(rank)?.sm_active_pct;
    let others_sm: Option<Vec<f64>> = look.alive().filter(|r| !is_its(r.rank)).map(|r| r.sm_active_pct).collect();
    if let (Some(own), Some(others)) = (ranks.iter().find_map(sm), others_sm) {
        let most = others.into_iter().fold(0.0, f64::max);
        found.evidence.push(Evidence::of("gpu", format!("kernels on {own:.0} % of its SMs, of theirs {}", at_most_pct(most))));
    }
    found.ranks = ranks;
    told_by(&mut found, look);
    Some(found)
}

/// Who is late by turns is looked at over this.
const TURNS: Duration = Duration::from_secs(60);

/// At least one step.
fn step_slot(step_s: f64) -> Duration {
    Duration::from_secs_f64((step_s * 1.5).clamp(3.0, 20.0))
}

/// Each time another rank is late: sequences of different lengths, or collectors that run when they like. Nobody is to blame.
fn by_turns(model: &Model, job: &Job, look: &Look, slot: Duration) -> Option<Finding> {
    const SLOTS: u32 = 20;
    const LEAST: usize = 4;
    let mut late: BTreeMap<u32, usize> = BTreeMap::new();
    for n in 0..SLOTS {
        let slots = busy(model, look, model.now.minus(slot * (n + 1)), model.now.minus(slot * n)).unwrap_or_default();
        let [(slow, rank), (next, _), ..] = slots.as_slice() else { continue };
        if *next >= SIBLINGS_PCT.value() && *slow <= next - LAG_PCT.value() {
            *late.entry(*rank).or_default() += 1;
        }
    }
    let (times, most): (usize, usize) = (late.values().sum(), late.values().copied().max().unwrap_or(0));
    if times < LEAST || most * 3 > times * 2 {
        return None;
    }
    let ranks: Vec<u32> = late.keys().copied().collect();
    let words = format!("{} take turns being late: none of them is slow", rank_words(&ranks));
    let mut found = RULE.finding("by turns", words, model.now.minus(slot * SLOTS));
    found.severity = Severity::Info;
    found.own_severity = Severity::Info;
    found.job = Some(job.id.clone());
    found.evidence = vec![Evidence::of("gpu", format!("in {times} of {SLOTS} spans of {} s the GPU of one of them idled", slot.as_secs()))];
    let all_compute = ranks.iter().filter_map(|rank| look.ranks.get(rank)).all(|r| r.spins() && !r.does_io());
    if all_compute {
        let words = "meanwhile their processes compute on the CPU: Python's garbage collection, or batches that are prepared there";
        found.evidence.push(Evidence::of("process", words));
        found.next = Some("gc.freeze() after the start, gc.disable(), and gc.collect() on all ranks at the same step".into());
    }
    told_by(&mut found, look);
    Some(found)
}
