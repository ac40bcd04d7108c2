//! The scheduler, the cluster or a person ended the job.

use super::chain::{Chain, Place};
use super::{Implies, ONCE, Rule, TickContext};
use crate::base::exit_code::signal_words;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::model::ending::{Ending, RESTARTS, SETTLES, SIGKILL, who};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "job-cancelled",
    severity: Severity::Error,
    title: "The scheduler, the cluster or a person ended the job",
    how: "The words of Slurm, Kubernetes, the launcher or the trainer; or the exit codes of its processes: SIGTERM, SIGINT or SIGHUP ended them, \
          and none had failed before",
    advice: "Nothing in the job is to blame: look at the time limit, the preemption or the node's events",
    life: ONCE,
    implies: Implies::Failed,
    chain: Chain { place: Place::Request, ..Chain::PLAIN },
    on_tick: Some(check),
    ..Rule::PLAIN
};

const SIGINT: u32 = 2;

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for job in ctx.model.jobs.values().filter(|job| !job.log_only && job.taking_down_at.is_none()) {
        // Another finding describes it already, or there is nothing to report.
        let Some(ended) = job.ended_at.filter(|_| !ctx.ledger.is_open(RULE.id, Some(&job.id))) else { continue };
        let Ending::Stopped { signal, since } = ctx.model.ending_of(job) else { continue };
        let launcher_lives = job.launcher.and_then(|pid| ctx.model.processes.get(&pid)).is_some_and(|p| p.is_alive());
        let waits = if launcher_lives { RESTARTS } else { SETTLES };
        // All killed at once: the kernel may have done it, for memory. The verdict tells it.
        if signal == SIGKILL || ctx.model.now.since(ended) < waits || ctx.explained(&RULE, job, since).is_some() {
            continue;
        }
        let ends = ctx.model.ends_of(job);
        let name = signal_words(signal);
        let elsewhere = job.has_ranks_elsewhere();
        let or_there = if elsewhere { ", or a rank of another node failed" } else { "" };
        let mut found = RULE.finding("signal", format!("{name} ended the job from outside; no rank had failed before{or_there}"), since);
        found.job = Some(job.id.clone());
        // As the catalogue has it for a KeyboardInterrupt.
        if signal == SIGINT {
            found.severity = Severity::Warning;
        }
        found.confidence = if elsewhere { Confidence::Possible } else { Confidence::Likely };
        found.next = Some("ask the scheduler, or whoever works in the terminal: sacct -j JOB, kubectl describe pod POD".into());
        let last = ends.last().map_or(since, |e| e.at);
        let within = format!("{} ended within {}, the first by {name}", who(&ends), span(last.since(since)));
        found.evidence = vec![Evidence { at: Some(since), ..Evidence::of("process", within) }];
        found.why = found.evidence[0].text.clone();
        out.push(found);
    }
}
