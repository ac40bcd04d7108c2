//! Ranks do not get the CPU that they need: others use it, their control group is throttled, or they are pinned to too few CPUs.

use super::area::Area;
use super::{Implies, Rule, Stacks, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::{counted, does};
use crate::base::words::rank_words;
use crate::model::Model;
use crate::model::job::Job;
use crate::model::process::Process;
use crate::model::progress::Progress;
use crate::model::signals::{Look, RankLook};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::collections::BTreeSet;

pub const RULE: Rule = Rule {
    id: "host-cpu-contention",
    severity: Severity::Warning,
    title: "Ranks wait for a CPU: threads that launch kernels and load data are ready, but do not run",
    says: "{waits|wait} for a CPU",
    how: "The first thread of a rank ready to run and without a CPU for a large part of the time (/proc/PID/schedstat), or its control group \
          throttled (cpu.stat), while the job trains; less of it only beside slow steps or a straggler",
    advice: "Give the ranks CPUs: raise the quota of the container (cpu.max), pin each rank to CPUs of its own, set OMP_NUM_THREADS and the number \
             of loader workers so that all threads of all ranks fit, and move what else runs elsewhere",
    life: while_it_holds(5, 15),
    implies: Implies::Slow,
    area: Some(Area::Host),
    stacks: Stacks::OfNobody,
    on_tick: Some(check),
    limits: &[&MUCH_PCT, &SOME_PCT, &THROTTLED_PCT, &SLOWER],
    ..Rule::PLAIN
};

const MUCH_PCT: Limit = Limit::percent("host-cpu-contention", "much", 40.0, "a rank must have waited for a CPU this share of the time");
const SOME_PCT: Limit = Limit::percent(
    "host-cpu-contention",
    "some",
    15.0,
    "the same where steps are slow, a rank is late, a group is throttled, or far more tasks than CPUs are ready to run",
);
const SLOWER: Limit = Limit::times(
    "host-cpu-contention",
    "slower",
    2.0,
    "steps are slow, too, where the newest lines of a log without step numbers are so many times as far apart",
);
const THROTTLED_PCT: Limit =
    Limit::percent("host-cpu-contention", "throttled", 25.0, "a control group must have used its quota up in this share of the periods");

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        // A job whose every rank waits for a CPU makes steps so slowly that its log seems to be silent.
        let least = least_pct(is_saturated(ctx.model));
        let is_starved = || look.alive().count() > 0 && look.alive().all(|r| r.run_delay_pct.is_some_and(|pct| pct >= least));
        if look.phase.is_some() || look.quiet_log() && !is_starved() || !super::has_trained(look) {
            continue;
        }
        // On a busy machine ranks may wait for one of them as well.
        if look.quiet_log() && ["hang-rank-absent", "hang-symmetric"].iter().any(|rule| ctx.ledger.is_open(rule, Some(id))) {
            continue;
        }
        let is_open = |rule: &str| ctx.ledger.is_open(rule, Some(id));
        // Of a log that counts no steps only the time between its lines is known. Once named it holds as long as ranks wait: what is slow now is
        // the usual soon.
        let uncounted = ctx.model.progress_of(id).filter(|p| p.step.is_none());
        let gaps_grew = |p: &Progress| p.gaps_grew().is_some_and(|times| times >= SLOWER.value());
        let slow = is_open("slow-steps") || is_open("straggler") || uncounted.is_some_and(|p| is_open(RULE.id) || gaps_grew(p));
        out.extend(judge(ctx.model, job, look, slow));
    }
}

/// Something else speaks for it, or not.
fn least_pct(vouched: bool) -> f64 {
    if vouched { SOME_PCT.value() } else { MUCH_PCT.value() }
}

fn judge(model: &Model, job: &Job, look: &Look, slow: bool) -> Option<Finding> {
    let throttled = throttling(model, job);
    let least = least_pct(slow || throttled.is_some() || is_saturated(model));
    let late: Vec<&RankLook> = look.alive().filter(|r| r.run_delay_pct.is_some_and(|pct| pct >= least)).collect();
    // The time that a group is held back counts as no wait of its threads: they are not ready to run.
    if late.is_empty() && !(throttled.is_some() && slow) {
        return None;
    }
    let ranks: Vec<u32> = late.iter().map(|r| r.rank).collect();
    let all = late.len() == look.alive().count() || late.is_empty();
    let most = late.iter().filter_map(|r| r.run_delay_pct).fold(0.0, f64::max).min(100.0);
    let causes: Vec<String> = [throttled, pinned(model, job, look), threads(model, job), others(model)].into_iter().flatten().collect();
    let of_many = all && look.alive().count() != 1;
    let who = if of_many {
        "the ranks".to_owned()
    } else {
        rank_words(&look.alive().map(|r| r.rank).filter(|r| all || ranks.contains(r)).collect::<Vec<_>>())
    };
    let verb = does(if of_many { 2 } else { ranks.len().max(1) }, "wait");
    let share = if late.is_empty() { "for CPUs".to_owned() } else { format!("for a CPU up to {most:.0} % of the time") };
    let why = causes.first().map_or(String::new(), |cause| format!(": {cause}"));
    let mut found = RULE.finding("cpu", format!("{who} {verb} {share}{why}"), model.now);
    found.job = Some(job.id.clone());
    found.confidence = if causes.is_empty() { Confidence::Likely } else { Confidence::Certain };
    if !all {
        found.gpus = look.gpus_of(&ranks);
        found.ranks = ranks;
    }
    let delay = |r: &&RankLook| {
        Some(Evidence::of("process", format!("rank {} ready and without a CPU {:.0} % of the time", r.rank, r.run_delay_pct?)))
    };
    found.evidence = late.iter().take(8).filter_map(delay).collect();
    found.evidence.extend(causes.into_iter().map(|cause| Evidence::of("counter", cause)));
    found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
    found.next =
        Some("see which threads run: `top -H`; what each rank may use: `taskset -pc PID`; its quota: cpu.max of its control group".into());
    Some(found)
}

fn processes<'a>(model: &'a Model, job: &'a Job) -> impl Iterator<Item = &'a Process> {
    job.pids().filter_map(|pid| model.processes.get(&pid)).filter(|p| p.is_alive())
}

/// The control group of a rank that used its quota up in many periods.
fn throttling(model: &Model, job: &Job) -> Option<String> {
    let of = |p: &Process| model.throttled.get(p.info.cgroup.as_ref()?);
    let worst = processes(model, job).filter_map(of).max_by(|a, b| a.share_pct.total_cmp(&b.share_pct))?;
    let limit = worst.limit_cpus.map_or(String::new(), |cpus| format!(" to {cpus:.1} CPUs"));
    let group = crate::base::clean::clean(&worst.limited_by);
    (worst.share_pct >= THROTTLED_PCT.value())
        .then(|| format!("control group {group} is limited{limit} and was throttled in {:.0} % of its periods", worst.share_pct))
}

/// All ranks may run on fewer CPUs than they have busy threads.
fn pinned(model: &Model, job: &Job, look: &Look) -> Option<String> {
    let host = model.node.as_ref()?.cpus?;
    let lists: Vec<&str> = processes(model, job).filter_map(|p| p.info.setup.as_ref()?.cpus.as_deref()).collect();
    let cpus: BTreeSet<u32> = lists.iter().flat_map(|list| cpu_list(list)).collect();
    let ranks = look.alive().count();
    let helpers: usize = look.alive().filter_map(|r| r.helpers).map(|h| h.alive as usize).sum();
    let few = !cpus.is_empty() && cpus.len() < host as usize && cpus.len() < ranks + helpers.max(ranks);
    let list = lists.first().copied().unwrap_or("").to_owned();
    let same = lists.iter().all(|l| *l == list);
    let which = if same { format!(" ({})", crate::base::clean::clip(&list, 40)) } else { String::new() };
    few.then(|| {
        format!(
            "{} and their {} may use {} of {host} only{which}",
            counted(ranks, "rank"),
            counted(helpers, "helper"),
            counted(cpus.len(), "CPU")
        )
    })
}

/// `0-3,8`; a hostile list ends at the largest number of CPUs that Linux has.
fn cpu_list(list: &str) -> Vec<u32> {
    const MOST: u32 = 8192;
    let range = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        Some(from.trim().parse::<u32>().ok()?..=to.trim().parse::<u32>().ok()?.min(MOST))
    };
    list.split(',').filter_map(range).flatten().take(MOST as usize).collect()
}

/// More threads that compute than CPUs.
fn threads(model: &Model, job: &Job) -> Option<String> {
    let host = model.node.as_ref()?.cpus?;
    let each = processes(model, job).filter_map(|p| p.env_number(&["OMP_NUM_THREADS"])).max()?;
    let ranks = u32::try_from(job.ranks.len()).ok()?;
    (each > 1 && each.saturating_mul(ranks) > host)
        .then(|| format!("OMP_NUM_THREADS={each} of each of {} is more than the {host} CPUs", counted(ranks, "rank")))
}

/// All CPUs are busy, and many more tasks want one.
fn is_saturated(model: &Model) -> bool {
    const TASKS_EACH: u64 = 2;
    let ready = model.host_sample.as_ref().and_then(|sample| sample.procs_running);
    let cpus = model.node.as_ref().and_then(|node| node.cpus).map(u64::from);
    let queues = ready.zip(cpus).is_some_and(|(ready, cpus)| ready >= TASKS_EACH * cpus);
    queues && model.cpu_busy_pct.is_some_and(|pct| pct >= 90.0)
}

/// All CPUs are busy.
fn others(model: &Model) -> Option<String> {
    let sample = model.host_sample.as_ref()?;
    let (busy, cpus) = (model.cpu_busy_pct.filter(|pct| *pct >= 90.0)?, model.node.as_ref()?.cpus?);
    let queue = sample.procs_running.map_or(String::new(), |n| format!(", {n} tasks ready to run"));
    let pressure = model.cpu_pressure_pct.map_or(String::new(), |pct| format!(", CPU pressure {pct:.0} %"));
    Some(format!("{} busy {busy:.0} %{queue}{pressure}", counted(cpus, "CPU")))
}
