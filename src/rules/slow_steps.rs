//! Steps take longer than before, for all ranks.

use super::area::Area;
use super::{FactContext, Implies, Rule, Stacks, TickContext, rule, while_it_holds};
use crate::base::clean::clean;
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::Stamp;
use crate::base::units::seconds;
use crate::model::Model;
use crate::model::job::Job;
use crate::model::log::{COVER, Progress, SLOWER};
use crate::model::signals::{Look, RankLook, stranger_on};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "slow-steps",
    severity: Severity::Warning,
    title: "Steps take longer than before, for all ranks",
    how: "A lasting change of the job's own step time: six lines in a row report steps that take 1.4 times as long as nine of ten \
          did before, or three of twice as long; for 5 s and six steps at least. Not where the lines say that as much is done a second as \
          before: longer sequences, larger batches. A process of another job that works on the GPU of a rank is named",
    advice: "Look at what changed at that step: data, sequence length, checkpoints beside training, throttled GPUs, a busy network",
    life: while_it_holds(0, 5),
    implies: Implies::Slow,
    stacks: Stacks::OfCulprits,
    on_facts: Some(of_whole_log),
    on_tick: Some(while_it_runs),
    limits: &[&COVER, &SLOWER],
    ..Rule::PLAIN
};

fn while_it_runs(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(progress) = ctx.model.progress_of(id).filter(|_| look.phase.is_none()) else { continue };
        // A job that makes no steps is not slow, it stands.
        let Some(slow) = progress.slow.filter(|_| !look.quiet_log()) else { continue };
        let late = progress.step_times.iter().rev().take_while(|(at, _)| *at > slow.since).count().min(10);
        let Some(now_s) = progress.step_times.median_of_last(late) else { continue };
        let (before, after) = (seconds(slow.before_s), seconds(now_s));
        let mut found = found(id, slow.since, (slow.before_s, now_s), "");
        let proof = format!("median of the last {late} step times {after}, {before} before{}", last_step(progress));
        found.evidence = vec![Evidence::of("line", proof)];
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
        let is_near = |f: &&&Finding| rule(f.rule).is_some_and(|rule| rule.chain.slows.explains(f.since, slow.since));
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
            found.next = Some("nvidia-smi pmon -c 1".into());
        }
        found.evidence.extend(shared.into_iter().take(8).map(|(_, words)| Evidence::of("gpu", words)));
        out.push(found);
    }
}

/// Ranks on whose GPU a process works that is none of their job's, and what it is.
pub(super) fn shared_gpus(model: &Model, job: Option<&Job>, look: &Look) -> Vec<(u32, String)> {
    let Some(job) = job else { return Vec::new() };
    let of_rank = |rank: &RankLook| {
        let other = stranger_on(model, job, rank.gpu?)?;
        let words = format!(
            "pid {} ({}), which is not of this job, works on GPU {} of rank {}, too",
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
