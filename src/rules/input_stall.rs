//! All ranks wait for their input: none is in a collective, no GPU works, no step is made; or much of each step is lost to it.

use super::absent_on_cpus::waits_in_gloo;
use super::area::Area;
use super::chain::Chain;
use super::straggler::{SIBLINGS_PCT, busy, thirds};
use super::{Implies, Rule, Stacks, TickContext, told_by, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::{Stamp, span};
use crate::base::units::{all_here, at_least_pct, counted, does, so_many, the_other};
use crate::base::words::{py_spy, rank_words};
use crate::logs::Phase;
use crate::model::Model;
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::{LogLook, Look, RankLook};
use crate::model::waits::{WaitsFor, common};
use crate::observe::evidence::Evidence;
use crate::observe::process::Wait;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "input-stall",
    severity: Severity::Error,
    title: "Ranks wait for their input: a data loader that stopped, or that cannot keep up",
    says: "{waits|wait} for input",
    how: "All ranks on this node asleep outside of collectives, their GPUs idle, no step in the log, nothing written; and a worker of a data \
          loader that waits for storage or the network, sleeps, or is dead; or all ranks wait for a message, for a thread of theirs, or sleep and ask again and again. One rank: its GPU idle for 12 s, those of all others busy, it or \
          its loaders found waiting so, and steps made meanwhile. Chronic: steps are made, and for a large part of each all \
          GPUs are idle while all ranks sleep",
    advice: "Look at what the workers wait for: a file system, an object store, a lock. Where the loader cannot keep up: more workers, \
             prefetching, data that is local or already decoded",
    life: while_it_holds(0, 5),
    implies: Implies::Stuck,
    area: Some(Area::Input),
    stacks: Stacks::OfAnyone,
    chain: Chain { covered_by: &["hang-rank-absent", "rank-stopped", "rank-exited", "storage-hang"], ..Chain::HANG },
    on_tick: Some(check),
    limits: &[&WAITED, &WAITED_UNSEEN, &WAITED_LONG, &WINDOW, &LOST_PCT, &STARVED],
    ..Rule::PLAIN
};

const WAITED: Limit = Limit::seconds("input-stall", "after", 12.0, "all ranks must have waited this long");
const WAITED_UNSEEN: Limit =
    Limit::seconds("input-stall", "after_unseen", 15.0, "the same where nobody may see what the ranks and their loaders wait for");
const WAITED_LONG: Limit =
    Limit::seconds("input-stall", "after_long", 120.0, "up to this it may be the begin of an epoch where nobody may see more");
const WINDOW: Limit = Limit::seconds("input-stall", "window", 18.0, "of steps that are slow, this much time is looked at");
const LOST_PCT: Limit = Limit::percent("input-stall", "lost", 25.0, "of steps that are slow, this share must be lost to waiting");

const STARVED: Limit =
    Limit::seconds("input-stall", "starved", 12.0, "the GPU of one rank must be idle this long while the others wait for it");

/// The subject of a finding on steps that are made, but wait.
const CHRONIC: &str = "steps";

/// It may be a pause: nobody can see more.
pub(crate) fn may_be_a_pause(found: &Finding) -> bool {
    found.rule == RULE.id && found.severity == Severity::Info
}

/// Steps are made: the job does not stand.
pub(super) fn is_chronic(found: &Finding) -> bool {
    found.rule == RULE.id && found.subject == CHRONIC
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        // What is only possible says less than that steps became slow, or that one rank is late.
        let known_slow = ["slow-steps", "straggler", "host-cpu-contention"].iter().any(|rule| ctx.ledger.is_open(rule, Some(id)));
        let late = || chronic(ctx.model, job, look).filter(|f| !known_slow || f.confidence > Confidence::Possible);
        let Some(found) = stands(ctx.model, job, look).or_else(|| starved(ctx.model, job, look)).or_else(late) else { continue };
        let hangs = || RULE.chain.covered_by.iter().any(|rule| ctx.ledger.is_open(rule, Some(id)));
        if !hangs() {
            out.push(found);
        }
    }
}

/// A process below a rank that does not say what it is: an uploader, or a program that is run.
const CHILD: &str = "child process";

/// What the words begin with where it is the rank's own process that waits.
const ITSELF: &str = "it waits";

/// Why a rank that sleeps waits for its input, in words, and how sure that is.
fn loader_words(rank: &RankLook) -> Option<(String, Confidence)> {
    let own = rank.waits.first().filter(|wait| wait.pid == rank.pid)?;
    // It is no loader, whatever its name still is.
    if own.is_for_a_child() {
        let child =
            rank.waits.iter().find(|wait| wait.pid != rank.pid).map_or("does not come up".into(), |w| format!("waits in {}", w.words()));
        return Some((format!("it starts another program, which {child}"), Confidence::Likely));
    }
    let waits_for = |wait: &&Wait, what: WaitsFor| wait.what() == what;
    let loaders = || rank.waits.iter().filter(|wait| wait.is_loader_of(own) && !wait.listens());
    let in_storage = own.what() == WaitsFor::Storage && !own.writes();
    // A child that sleeps is not why its rank waits for a file.
    let of_loaders: &[WaitsFor] =
        if in_storage { &[WaitsFor::Storage, WaitsFor::Network] } else { &[WaitsFor::Storage, WaitsFor::Network, WaitsFor::Time] };
    for what in of_loaders.iter().copied() {
        if let Some((n, wait)) = common(loaders().filter(|wait| waits_for(wait, what))) {
            let loads = wait.says_loader() || what == WaitsFor::Storage;
            // Another program that works and sleeps in turns does what it was started for.
            if !loads && what == WaitsFor::Time && rank.helpers_work() {
                continue;
            }
            let workers = counted(n, if loads { "data loader worker" } else { CHILD });
            let words = match what {
                WaitsFor::Time => format!("{workers} {} ({})", does(n, "sleep"), wait.words()),
                _ => format!("{workers} {} in {}", does(n, "wait"), wait.words()),
            };
            return Some((words, if wait.says_loader() { Confidence::Certain } else { Confidence::Likely }));
        }
    }
    if in_storage {
        return Some((format!("{ITSELF} in {}", own.words()), Confidence::Likely));
    }
    let helpers = rank.helpers?;
    if helpers.dead > 0 && helpers.alive == 0 {
        let words = format!("{} dead, and their rank still waits for them", counted_are(helpers.dead));
        return Some((words, Confidence::Likely));
    }
    let busy = rank.helper_cpu_pct.filter(|pct| *pct >= 50.0 * f64::from(helpers.alive.max(1)));
    let all_loaders = loaders().next().is_some() && loaders().all(Wait::says_loader);
    busy.filter(|_| all_loaders).map(|pct| {
        (
            format!("{} {} {:.1} CPUs", counted(helpers.alive, "data loader worker"), does(helpers.alive as usize, "use"), pct / 100.0),
            Confidence::Likely,
        )
    })
}

fn counted_are(n: u32) -> String {
    format!("{} {}", counted(n, "data loader worker"), if n == 1 { "is" } else { "are" })
}

/// What is known of the loader of a rank that does not come to a collective, and whether it is sure to be one.
pub(super) fn of_absent(rank: &RankLook) -> Option<(Evidence, bool)> {
    let (words, _) = loader_words(rank).filter(|_| rank.sleeps())?;
    let own_waits = |wait: &Wait| wait.pid == rank.pid && wait.is_for_a_child();
    let may_be_other = || {
        rank.waits.iter().any(own_waits)
            || rank.waits.iter().any(|wait| wait.pid != rank.pid && !wait.says_loader() && wait.what() != WaitsFor::Storage)
    };
    Some((Evidence::of("process", format!("rank {}: {words}", rank.rank)), !may_be_other()))
}

/// Its log tells steps, or values of steps that it does not count.
fn has_begun(log: &LogLook) -> bool {
    log.step.map_or(log.last_step_at.is_some(), |step| step >= 3)
}

/// All ranks on this node are up, sleep, and wait in no collective; their job has stopped to make steps.
fn all_idle<'a>(job: &Job, look: &'a Look, least: Duration) -> Option<(Vec<&'a RankLook>, Stamp)> {
    let log = look.log.as_ref().filter(|l| has_begun(l) && l.quiet_for > l.patience.max(least))?;
    let paused = look.phase.is_some_and(|(phase, _)| phase != Phase::DataLoading);
    let ranks: Vec<&RankLook> = look.alive().collect();
    let idles = |r: &&RankLook| {
        let gpu = r.activity == Activity::Unknown || r.is(Activity::Idle, look.at, least);
        gpu && r.sleeps() && !r.stopped() && !r.writes()
    };
    let here = !job.log_only && ranks.len() >= look.local_ranks && !ranks.is_empty();
    let since = log.last_step_at?;
    (here && !paused && ranks.iter().all(idles)).then_some((ranks, since))
}

fn stands(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    let (ranks, since) = all_idle(job, look, WAITED.duration())?;
    if model.progress_of(&job.id).is_some_and(|p| p.done_at.is_some() || p.step.is_some() && p.step == p.total_steps) {
        return None;
    }
    let only = model.only_rank(job).and_then(|rank| look.ranks.get(&rank)).filter(|_| ranks.len() == 1);
    // A job of one process that is held by a lock or by another program has a finding of its own for that.
    if only.is_some_and(|rank| rank.stands().is_some_and(Wait::is_held)) {
        return None;
    }
    let known: Vec<(u32, String, Confidence)> =
        ranks.iter().filter_map(|r| loader_words(r).map(|(words, confidence)| (r.rank, words, confidence))).collect();
    // What most of them wait in says more than what one has besides.
    let said_by = |words: &str| known.iter().filter(|(_, other, _)| other == words).count();
    let Some((_, words, _)) = known.iter().rev().max_by_key(|(_, words, _)| said_by(words)) else {
        return for_messages(job, look).or_else(|| unseen(job, look));
    };
    let all = known.len() == ranks.len();
    let who: Vec<u32> = known.iter().map(|(rank, ..)| *rank).collect();
    let named = if let Some(rank) = only {
        format!("{} waits", rank.name())
    } else if all {
        all_here(ranks.len(), "wait")
    } else {
        format!("{} {}", rank_words(&who), does(who.len(), "wait"))
    };
    let mut found = RULE.finding(
        if all { "all".to_owned() } else { rank_words(&who) },
        format!("{named} for input: {}", words.strip_prefix(ITSELF).map_or(words.as_str(), str::trim_start)),
        since,
    );
    found.job = Some(job.id.clone());
    found.confidence = known.iter().map(|(.., confidence)| *confidence).min().unwrap_or(Confidence::Possible);
    found.evidence = alike(known.iter().map(|(rank, words, _)| (*rank, words.clone())))
        .into_iter()
        .map(|(words, ranks)| Evidence::of("process", format!("{}: {}", rank_words(&ranks), of_each(&words, ranks.len()))))
        .collect();
    found.evidence.push(asleep(&ranks, look, since));
    // Of several, the one that waits for a file tells most: the others may have nothing to do.
    let workers = ranks.iter().filter(|r| who.contains(&r.rank)).flat_map(|r| r.waits.iter().filter(|w| w.pid != r.pid));
    let worker = workers.rev().max_by_key(|w| (w.state == Some('D'), w.file.as_ref().is_some_and(|file| file.starts_with('/'))));
    let own = words.starts_with(ITSELF).then(|| ranks.iter().find(|r| who.contains(&r.rank))).flatten();
    found.next = own.map(|rank| rank.next()).or_else(|| Some(py_spy(worker.map_or(ranks[0].pid, |w| w.pid))));
    if !all {
        found.gpus = look.gpus_of(&who);
        found.ranks = who;
    }
    told_by(&mut found, look);
    Some(found)
}

/// Of a rank without a GPU.
fn may_be_in_gloo(rank: &RankLook) -> bool {
    let call = rank.waits.first().filter(|w| w.pid == rank.pid).and_then(|w| w.call.as_deref());
    rank.gpu.is_none() && call.is_some_and(|call| waits_in_gloo(rank, call))
}

fn asleep(ranks: &[&RankLook], look: &Look, since: Stamp) -> Evidence {
    let gpus = ranks.iter().filter(|r| r.activity == Activity::Idle).count();
    let gpus = if gpus == 0 { String::new() } else { format!(", {} idle", counted(gpus, "GPU")) };
    Evidence::of(
        "process",
        match ranks.iter().filter(|r| may_be_in_gloo(r)).count() {
            0 => format!("{} outside of collectives for {}{gpus}", so_many(ranks.len(), "rank", "sleep"), span(look.at.since(since))),
            n => format!(
                "{} for {}, {n} of them in futex, as in a collective of Gloo",
                so_many(ranks.len(), "rank", "sleep"),
                span(look.at.since(since))
            ),
        },
    )
}

/// All wait for somebody to send, and for no other rank: a store of objects, a queue of samples, a service. Or for a thread of theirs, which
/// does so.
fn for_messages(job: &Job, look: &Look) -> Option<Finding> {
    let (ranks, since) = all_idle(job, look, WAITED.duration())?;
    let waits: Vec<(&RankLook, &Wait)> = ranks
        .iter()
        .filter_map(|r| Some((*r, r.awaits_a_message().or_else(|| r.awaits_a_thread()).or_else(|| r.awaits_its_time())?)))
        .collect();
    let idle = |r: &&RankLook| r.activity == Activity::Idle && r.io_bytes_per_s.is_some() && !r.does_io();
    // Another node's rank may be the one that they wait for, through the job's store.
    if waits.len() < ranks.len() || !ranks.iter().all(idle) || job.has_ranks_elsewhere() {
        return None;
    }
    let (_, wait) = waits.first()?;
    let messages = waits.iter().filter(|(r, _)| r.awaits_a_message().is_some()).count();
    let asks = waits.iter().filter(|(_, wait)| wait.what() == WaitsFor::Time).count();
    let summary = if let [(rank, wait)] = waits[..] {
        format!("{} makes no step and its GPU idles: it waits in {}, probably for input", rank.name(), wait.words())
    } else if asks == waits.len() {
        format!("{} or poll outside of collectives, their GPUs idle", all_here(asks, "sleep"))
    } else {
        let kinds = [(messages, "a message"), (waits.len() - messages - asks, "threads of their own"), (asks, "a time")];
        let what: Vec<&str> = kinds.into_iter().filter(|(n, _)| *n > 0).map(|(_, what)| what).collect();
        format!("{} outside of collectives for {}, their GPUs idle: probably for input", all_here(ranks.len(), "wait"), what.join(" or "))
    };
    let mut found = RULE.finding("all", summary, since);
    found.job = Some(job.id.clone());
    found.confidence = Confidence::Possible;
    // A thread may do something else for all of them: upload, or ask a judge.
    if messages < waits.len() || look.at.since(since) < WAITED_LONG.duration() {
        found.severity = Severity::Warning;
    }
    found.next = Some(py_spy(wait.pid));
    found.evidence = waiting_alike(&waits);
    found.evidence.push(asleep(&ranks, look, since));
    told_by(&mut found, look);
    Some(found)
}

/// `ranks 0 to 3: each waits in clock_nanosleep (hrtimer_nanosleep)`: a line for all that wait in the same.
fn waiting_alike(waits: &[(&RankLook, &Wait)]) -> Vec<Evidence> {
    let words = waits.iter().map(|(rank, wait)| (rank.rank, format!("{ITSELF} in {}", wait.words())));
    let told = alike(words).into_iter().map(|(words, ranks)| format!("{}: {}", rank_words(&ranks), of_each(&words, ranks.len())));
    told.map(|text| Evidence::of("process", text)).collect()
}

/// The ranks of which the same is said, for each thing that is said: the first eight of these.
fn alike(told: impl Iterator<Item = (u32, String)>) -> Vec<(String, Vec<u32>)> {
    const MOST: usize = 8;
    let mut alike: Vec<(String, Vec<u32>)> = Vec::new();
    for (rank, words) in told {
        match alike.iter_mut().find(|(known, _)| *known == words) {
            Some((_, ranks)) => ranks.push(rank),
            None => alike.push((words, vec![rank])),
        }
    }
    alike.truncate(MOST);
    alike
}

/// `each waits in …` of several.
fn of_each(words: &str, ranks: usize) -> String {
    match words.strip_prefix(ITSELF) {
        Some(rest) if ranks > 1 => format!("each waits{rest}"),
        _ => words.to_owned(),
    }
}

/// Nobody may see what they wait for: that all sleep at once, wait in no collective and write nothing leaves little but input.
fn unseen(job: &Job, look: &Look) -> Option<Finding> {
    let (ranks, since) = all_idle(job, look, WAITED_UNSEEN.duration())?;
    let reads_nothing = |r: &&RankLook| r.io_bytes_per_s.is_some() && !r.does_io();
    let hidden = |r: &&RankLook| !r.waits.iter().any(Wait::is_seen) && r.activity == Activity::Idle;
    if ranks.len() < 2 || !ranks.iter().all(reads_nothing) || !ranks.iter().all(hidden) {
        return None;
    }
    let summary = format!("{} outside of collectives, their GPUs idle: probably for input", all_here(ranks.len(), "wait"));
    let mut found = RULE.finding("all", summary, since);
    found.job = Some(job.id.clone());
    found.confidence = Confidence::Possible;
    if look.at.since(since) < WAITED_LONG.duration() {
        (found.severity, found.role) = (Severity::Info, Role::Context);
    }
    found.next = Some(py_spy(ranks[0].pid));
    found.evidence = vec![
        asleep(&ranks, look, since),
        Evidence::of("source", "what they and their loaders wait for is not seen: run as root, or as the user of the job"),
    ];
    told_by(&mut found, look);
    Some(found)
}

/// One rank waits for its input in each step, its GPU idle, while the others wait for it in a collective. Steps are made, however far apart
/// their lines come.
fn starved(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    const IDLE_PCT: f64 = 20.0;
    const LEAST_LINES: usize = 2;
    let (now, window) = (look.at, STARVED.duration());
    if look.phase.is_some() || !super::has_trained(look) || look.alive().count() < look.local_ranks.max(2) {
        return None;
    }
    let lines = model.progress_of(&job.id)?.step_times.iter().filter(|(at, _)| now.since(*at) < window).count();
    let all = busy(model, look, now.minus(window), now)?;
    let (&(idle, rank), &(next, _)) = (all.first()?, all.get(1)?);
    let idles = |(from, to)| busy(model, look, from, to).is_some_and(|third| third.iter().any(|(pct, r)| *r == rank && *pct <= IDLE_PCT));
    if lines < LEAST_LINES || next < SIBLINGS_PCT.value() || !thirds(now, window).into_iter().all(idles) {
        return None;
    }
    let rank = look.ranks.get(&rank)?;
    let from_pipe = || rank.waits.first().filter(|wait| wait.pid == rank.pid && wait.reads_a_named_pipe());
    let (words, confidence) =
        loader_words(rank).or_else(|| from_pipe().map(|wait| (format!("it is in {}", wait.words()), Confidence::Likely)))?;
    let waiting = the_other(all.len() - 1, "rank", "wait");
    let mut found = RULE.finding(
        rank_words(&[rank.rank]),
        format!("{} waits for input in each step: {words}; {waiting} for it", rank.name()),
        now.minus(window),
    );
    found.job = Some(job.id.clone());
    found.severity = Severity::Warning;
    found.confidence = confidence;
    found.next = Some(py_spy(rank.waits.iter().find(|wait| wait.pid != rank.pid).map_or(rank.pid, |wait| wait.pid)));
    let seconds = window.as_secs();
    found.evidence = vec![
        Evidence::of("gpu", format!("over {seconds} s its GPU was busy {idle:.0} % of the time, the others {}", at_least_pct(next))),
        Evidence::of("process", words),
        Evidence::of("line", format!("steps go on: {} in that time", counted(lines, "line"))),
    ];
    found.ranks = vec![rank.rank];
    found.gpus = look.gpus_of(&found.ranks);
    told_by(&mut found, look);
    Some(found)
}

/// Steps are made, and for a large part of each all GPUs are idle while all ranks sleep.
fn chronic(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    const PARTS: u32 = 3;
    /// As much as is kept of a process.
    const MOST: Duration = Duration::from_secs(90);
    /// A rank that makes steps uses this much of a CPU, whatever it waits for.
    const MOVES_PCT: f64 = 1.0;
    if look.phase.is_some() || look.quiet_log() || !super::has_trained(look) || look.alive().count() < look.local_ranks.max(1) {
        return None;
    }
    let log = look.log.as_ref()?;
    let progress = model.progress_of(&job.id)?;
    let first_step = progress.step_times.iter().next()?.0;
    let (now, usual_gap) = (look.at, Duration::from_secs_f64(progress.usual_gap_s()?.0));
    let window = WINDOW.duration().max((usual_gap * 4).min(MOST));
    // Steps came all the time: one pause is no share of each step.
    let part = window / PARTS;
    let came = (0..PARTS).all(|i| {
        let (from, to) = (now.minus(part * (i + 1)), now.minus(part * i));
        progress.step_times.iter().any(|s| s.0 > from && s.0 <= to)
    });
    if !came {
        return None;
    }
    let (mut lost, mut usual) = (100.0_f64, 100.0_f64);
    for rank in look.alive() {
        let (process, gpu) = (model.processes.get(&rank.pid)?, model.gpus.get(&rank.gpu?)?);
        let parts = process.cpu_pct_by_part(now, part, PARTS)?;
        let (least_cpu, most_cpu) = parts.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), pct| (least.min(*pct), most.max(*pct)));
        if least_cpu < MOVES_PCT || most_cpu > 2.0 * least_cpu + 15.0 || rank.writes() || rank.run_delay_pct.is_some_and(|pct| pct >= 10.0)
        {
            return None;
        }
        let idle = 100.0 - gpu.util_pct.mean_within(now, window)?;
        lost = lost.min(idle).min(100.0 - most_cpu);
        // Before: as long ago as is kept, but after the first step.
        let before = now.minus(window + Duration::from_secs(6));
        let past = gpu.util_pct.iter().filter(|s| s.0 < before && s.0 >= first_step.max(before.minus(window * 8)));
        let (n, sum) = past.fold((0, 0.0), |(n, sum), s| (n + 1, sum + s.1));
        usual = usual.min(if n >= 8 { 100.0 - sum / f64::from(n) } else { 100.0 });
    }
    let known: Vec<(u32, String, Confidence)> =
        look.alive().filter_map(|r| loader_words(r).map(|(words, confidence)| (r.rank, words, confidence))).collect();
    // Nothing but what was usual for the job itself, or what its loaders do, makes it the input.
    let rose = lost - usual >= LOST_PCT.value();
    if lost < LOST_PCT.value() || !rose && known.len() < look.alive().count() {
        return None;
    }
    let summary = format!("GPUs idle {lost:.0} % of each step: the input cannot keep up");
    let mut found = RULE.finding(CHRONIC, summary, now.minus(window));
    found.job = Some(job.id.clone());
    found.severity = Severity::Warning;
    found.confidence = if known.is_empty() { Confidence::Possible } else { Confidence::Likely };
    found.next = look.alive().next().map(|r| py_spy(r.waits.iter().find(|w| w.pid != r.pid).map_or(r.pid, |w| w.pid)));
    let was = if rose { format!(", {usual:.0} % before") } else { String::new() };
    let ranks = look.alive().count();
    found.evidence = vec![Evidence::of(
        "gpu",
        format!(
            "over {} s {} idle {lost:.0} % of the time{was}, while {}",
            window.as_secs(),
            counted(ranks, "GPU"),
            so_many(ranks, "rank", "sleep")
        ),
    )];
    found.evidence.extend(known.iter().take(4).map(|(rank, words, _)| Evidence::of("process", format!("rank {rank}: {words}"))));
    found.evidence.extend(log.step.map(|step| Evidence::of("line", format!("steps go on, the last one is step {step}"))));
    found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
    Some(found)
}
