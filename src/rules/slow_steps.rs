//! Steps take longer than before, for all ranks.

use super::area::Area;
use super::{FactContext, Implies, Rule, Stacks, TickContext, rule, while_it_holds};
use crate::base::clean::clean;
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::Stamp;
use crate::base::units::seconds;
use crate::model::Model;
use crate::model::gpu::Gpu;
use crate::model::job::Job;
use crate::model::progress::{COVER, Progress, SLOWER, SlowSince};
use crate::model::signals::{Look, RankLook, stranger_on};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "slow-steps",
    severity: Severity::Warning,
    title: "Steps take longer than before, for all ranks",
    how: "A lasting change of the job's own step time: six lines in a row report steps that take 1.4 times as long as nine of ten \
          did before, or three of twice as long; for 5 s and six steps at least, or for 10 s where they take 8 times as long. Not where the lines say that as much is done a second as \
          before, or name a global batch that grew as much: longer sequences, larger batches. Also forty steps and ten seconds of which nine of ten take longer than nine of ten did, and 1.4 times as long in \
          the middle. Where no line names a step, three lines in a row that count on by as much as before and come \
          twice as late. Where all GPUs work as hard and hold more memory it is a note, unless the log tells that far fewer tokens are made a second. A process of another job that works on the GPU of a rank is named",
    advice: "Look at what changed at that step: data, sequence length, checkpoints beside training, throttled GPUs, a busy network",
    life: while_it_holds(0, 5),
    implies: Implies::Slow,
    stacks: Stacks::OfCulprits,
    on_facts: Some(of_whole_log),
    on_tick: Some(while_it_runs),
    limits: &[&COVER, &SLOWER],
    ..Rule::PLAIN
};

/// Of the tokens that a job made a second before. Layers that learn from then on leave a third of them.
const DOES_LESS: f64 = 0.3;

fn while_it_runs(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        if look.phase.is_some() {
            continue;
        }
        let of_steps = ctx.model.progress_of(id).and_then(|progress| of_steps(id, look, progress));
        let Some(mut found) = of_steps.or_else(|| of_lines_that_count(id, look)) else { continue };
        let since = found.since;
        if let Some(load) = load_since(ctx.model, look, since) {
            (found.why, found.next) = (format!("{}; {}", found.why, load.words), Some(load.next.into()));
            let tokens = ctx.model.progress_of(id).filter(|p| p.throughput_unit.is_some_and(|unit| unit.contains("tok")));
            let share = tokens.and_then(|p| p.rate_share_since(since)).filter(|share| *share < DOES_LESS);
            // Layers that learn now, longer sequences or a larger batch: that is the job's own doing.
            if let Some(share) = share.filter(|_| load.does_more) {
                found.why = format!("{}; by its log it makes {:.0} % of the tokens a second that it made", found.why, share * 100.0);
                found.next = Some(
                    "look at what changed at that step: another kernel (attention, precision), sequence lengths, recomputation".into(),
                );
            } else if load.does_more && shared_gpus(ctx.model, ctx.model.jobs.get(id), look).is_empty() {
                found.severity = Severity::Info;
            }
        }
        // One late rank makes all of them late; so does what all of them wait for.
        let makes_late = |f: &Finding| {
            matches!(f.rule, "straggler" | "input-stall" | "host-cpu-contention")
                && f.severity >= Severity::Warning
                && f.job.as_ref() == Some(id)
        };
        if ctx.ledger.first_open(makes_late).is_some() {
            found.role = Role::Cascade;
        }
        let of_job = |f: &&&Finding| f.job.as_deref().is_none_or(|job| job == id);
        let is_near = |f: &&&Finding| rule(f.rule).is_some_and(|rule| rule.chain.slows.explains(f.since, since));
        if let Some(port) = ctx.ledger.open().iter().filter(of_job).filter(is_near).min_by_key(|f| f.since) {
            found.why = format!("{}; at about the same time: {}", found.why, port.summary);
            found.next.clone_from(&port.next);
            found.ports.clone_from(&port.ports);
        }
        let shared = shared_gpus(ctx.model, ctx.model.jobs.get(id), look);
        // Where the GPUs of all ranks are shared, none of them is behind the others.
        if let Some((_, of_first)) = shared.first().filter(|_| shared.len() < look.alive().count()) {
            found.summary = format!("{}; {}", found.summary, of_first);
            found.ranks = shared.iter().map(|(rank, _)| *rank).collect();
            found.gpus = look.gpus_of(&found.ranks);
            found.area = Some(Area::Gpu);
            found.next = shared_pid(ctx.model, ctx.model.jobs.get(id), look).map(whose);
        }
        found.evidence.extend(shared.into_iter().take(8).map(|(_, words)| Evidence::of("gpu", words)));
        out.push(found);
    }
}

fn of_steps(job: &str, look: &Look, progress: &Progress) -> Option<Finding> {
    // A job that makes no steps is not slow, it stands.
    let slow = progress.slow.filter(|_| !look.quiet_log() && !progress.is_of_several())?;
    if let Some(now_s) = progress.line_s_since(slow.since) {
        return Some(of_nameless_lines(job, slow, now_s));
    }
    let late = progress.step_times.iter().rev().take_while(|(at, _)| *at > slow.since).count().min(10);
    let now_s = progress.step_times.median_of_last(late)?;
    let (before, after) = (seconds(slow.before_s), seconds(now_s));
    let mut found = found(job, slow.since, (slow.before_s, now_s), "");
    let proof = format!("median of the last {late} step times {after}, {before} before{}", last_step(progress));
    found.evidence = vec![Evidence::of("line", proof)];
    Some(found)
}

/// Of a job whose lines name no step and tell how much is done a second.
fn of_nameless_lines(job: &str, slow: SlowSince, now_s: f64) -> Finding {
    let mut found = found(job, slow.since, (slow.before_s, now_s), "");
    let (before, after) = (seconds(slow.before_s), seconds(now_s));
    found.summary = format!("the lines of the log come every {after} instead of every {before}");
    found.why =
        format!("the speed that they report fell, and they come {:.1} times as far apart as before, and still do", now_s / slow.before_s);
    found.evidence = vec![Evidence::of("line", format!("the newest of them {after} apart, {before} before"))];
    found
}

/// Of a job whose lines name no step, but count on.
fn of_lines_that_count(job: &str, look: &Look) -> Option<Finding> {
    // Where lines name steps, others that count say nothing; nor does what counts before the job trains.
    if look.log.is_some() || !super::has_trained(look) {
        return None;
    }
    // With the next line late, too, it may stand.
    let slowed = look.counted?.slowed.filter(|slowed| look.at.since(slowed.last_at) <= slowed.now * 2)?;
    let (before_s, now_s) = (slowed.before.as_secs_f64(), slowed.now.as_secs_f64());
    let mut found = found(job, slowed.since, (before_s, now_s), "");
    found.summary = format!("the numbered lines of the log come every {} instead of every {}", seconds(now_s), seconds(before_s));
    found.why = format!("the time from one to the next rose by a factor of {:.1} and stays there", now_s / before_s);
    found.evidence = vec![Evidence::of("line", format!("the last {} of them; they count by as much as before", slowed.lines))];
    Some(found)
}

/// What the GPUs of all ranks do since the steps became slower, beside what they did before.
struct Load {
    words: String,
    next: &'static str,
    /// They work as hard, and hold more.
    does_more: bool,
}

/// What the GPUs of all ranks draw and hold since then, beside what they did before: whether each step waits for longer, or does more.
fn load_since(model: &Model, look: &Look, since: Stamp) -> Option<Load> {
    /// Parts of what was drawn before.
    const WAITS: f64 = 0.8;
    const WORKS: f64 = 0.93;
    const MORE: f64 = 1.15;
    /// Of ranks that differ by more one may be late.
    const ALIKE: f64 = 0.15;
    /// Of the memory that was in use before; less is a cache that grows.
    const HOLDS_MORE: f64 = 1.25;
    let gpus: Vec<&Gpu> = look.alive().map(|rank| model.gpus.get(&rank.gpu?)).collect::<Option<_>>()?;
    let power = Change::of(&gpus, since, |gpu| gpu.power_trend.iter().map(|(at, watts)| (at, f64::from(watts))).collect())?;
    if gpus.len() < 2 || power.most - power.least > ALIKE {
        return None;
    }
    let watts = format!("{:.0} W each instead of {:.0} W", power.now, power.before);
    let works = power.least >= WORKS && power.most <= MORE;
    // What goes on to grow is a leak.
    let memory = || {
        Change::of(&gpus, since, |gpu| gpu.mem_used_gib.iter().collect()).filter(|memory| memory.least >= HOLDS_MORE && memory.is_steady)
    };
    if power.most <= WAITS {
        return Some(Load {
            words: format!("all GPUs draw {watts}: each step waits for longer, for a rank, for input, the host or the network"),
            next: "py-spy dump on two ranks while a step takes long: are they in a loader, a file, a collective?",
            does_more: false,
        });
    }
    match (works, memory()) {
        (false, _) => None,
        (true, Some(memory)) => Some(Load {
            words: format!(
                "all GPUs draw {watts} and hold {:.1} GiB instead of {:.1}: the job does more in each step (more layers that learn, longer sequences, a larger batch)",
                memory.now, memory.before
            ),
            next: "nothing, if the job is meant to do more from that step on",
            does_more: true,
        }),
        (true, None) => Some(Load {
            words: format!("all GPUs draw {watts}: they work as hard as before, on more or on slower work"),
            next: "look at what changed at that step: sequence lengths, batches, precision, clocks and throttling",
            does_more: false,
        }),
    }
}

/// A value of several GPUs before a moment and since then.
struct Change {
    /// The mean of the GPUs.
    before: f64,
    now: f64,
    /// Now, in parts of what it was: of the GPU where it fell most, and of that where it rose most.
    least: f64,
    most: f64,
    /// It leaps, and does not grow on.
    is_steady: bool,
}

impl Change {
    /// `None` while too little was seen on one of them.
    fn of(gpus: &[&Gpu], since: Stamp, values: impl Fn(&Gpu) -> Vec<(Stamp, f64)>) -> Option<Change> {
        const BEFORE: Duration = Duration::from_secs(10);
        /// A pause between the two is no load.
        const PAUSE: Duration = Duration::from_millis(1500);
        const LEAST: usize = 4;
        /// From one sample to the next.
        const GROWS: f64 = 1.005;
        const MOST_LEAPS: usize = 2;
        // Of three quarters as much or less: the start before it is no load, either.
        let upper = |mut values: Vec<f64>| {
            values.sort_by(f64::total_cmp);
            (values.len() >= LEAST).then(|| values[values.len() * 3 / 4])
        };
        let mean = |values: &[f64]| (values.len() >= LEAST).then(|| values.iter().sum::<f64>() / values.len() as f64);
        let mut is_steady = true;
        let mut all = Vec::with_capacity(gpus.len());
        for gpu in gpus {
            let near: Vec<(Stamp, f64)> = values(gpu).into_iter().filter(|(at, _)| *at >= since.minus(BEFORE)).collect();
            let before = near.iter().filter(|(at, _)| *at < since).map(|(_, value)| *value).collect();
            let after: Vec<f64> = near.iter().filter(|(at, _)| *at >= since.plus(PAUSE)).map(|(_, value)| *value).collect();
            let grew = after.windows(2).filter(|pair| pair[1] > pair[0] * GROWS).count();
            is_steady &= grew <= (after.len() / 4).max(MOST_LEAPS);
            all.push((upper(before)?, mean(&after)?));
        }
        let n = all.len().max(1) as f64;
        let parts = || all.iter().map(|(before, now)| now / before.max(f64::MIN_POSITIVE));
        let (least, most) = parts().fold((f64::INFINITY, 0.0_f64), |(least, most), part| (least.min(part), most.max(part)));
        let (before, now) = all.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.0 / n, sum.1 + one.1 / n));
        Some(Change { before, now, least, most, is_steady })
    }
}

/// The first of those that work beside the job on its GPUs.
fn shared_pid(model: &Model, job: Option<&Job>, look: &Look) -> Option<u32> {
    look.alive().find_map(|rank| Some(stranger_on(model, job?, rank.gpu?)?.info.pid))
}

/// Who runs a process, what it is, and since when.
fn whose(pid: u32) -> String {
    format!("ps -o user,lstart,args -p {pid}")
}

/// Ranks on whose GPU a process works that is none of their job's, and what it is.
pub(super) fn shared_gpus(model: &Model, job: Option<&Job>, look: &Look) -> Vec<(u32, String)> {
    let Some(job) = job else { return Vec::new() };
    let of_rank = |rank: &RankLook| {
        let other = stranger_on(model, job, rank.gpu?)?;
        let words = format!(
            "pid {} ({}), which is not part of this job, also uses GPU {} of rank {}",
            other.info.pid,
            clean(&other.info.comm),
            rank.gpu?,
            rank.rank
        );
        Some((rank.rank, words))
    };
    look.alive().filter_map(of_rank).collect()
}

/// In a whole log the exact place of the change is known.
fn of_whole_log(ctx: &FactContext, out: &mut Vec<Finding>) {
    for file in ctx.model.files.values().filter(|f| ctx.ended || ctx.model.is_silent(f)) {
        let Some(slow) = file.progress.slowdown() else { continue };
        let (before, after) = (seconds(slow.before_s), seconds(slow.after_s));
        let many = format!(", for the last {} of them", slow.steps);
        let mut found = found(&file.job, ctx.model.now, (slow.before_s, slow.after_s), &many);
        found.subject = format!("steps in {}", file.info.path);
        let steps_before = file.progress.step_times.len() - slow.steps;
        let proof = format!("{steps_before} steps of {before} before, {} of {after} since{}", slow.steps, last_step(&file.progress));
        found.evidence = vec![Evidence { path: Some(file.info.path.clone()), ..Evidence::of("line", proof) }];
        out.push(found);
    }
}

fn found(job: &str, since: Stamp, (before_s, after_s): (f64, f64), many: &str) -> Finding {
    let words = format!("steps take {} instead of {}{many}", seconds(after_s), seconds(before_s));
    let mut found = RULE.finding("steps", words, since);
    found.job = Some(job.to_owned());
    found.confidence = Confidence::Likely;
    found.why = format!("the median step time rose by a factor of {:.1} and stays there", after_s / before_s);
    found.next = Some("look at what changed there: one late rank (RAS, GPU activity), data, sequence length, throttling".into());
    found
}

fn last_step(progress: &Progress) -> String {
    progress.step.map_or(String::new(), |s| format!(", the last one is step {s}"))
}
