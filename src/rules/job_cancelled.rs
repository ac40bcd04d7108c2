//! The scheduler, the cluster or a person ended the job.

use super::chain::{Chain, Place};
use super::rank_exited::{Asked, asked_to_end};
use super::{Implies, ONCE, Rule, TextContext, TickContext};
use crate::base::exit_code::{signal_of, signal_words};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::logs::What;
use crate::model::Model;
use crate::model::ending::{Ending, RESTARTS, SETTLES, SIGKILL, TOGETHER, who};
use crate::model::job::Job;
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
    on_text: Some(on_text),
    on_tick: Some(check),
    ..Rule::PLAIN
};

/// torchrun reports a worker that SIGTERM ended, and had no other left to end: the signal went to all of them.
fn on_text(ctx: &TextContext, out: &mut Vec<Finding>) {
    let exit_code = match &ctx.seen.event.what {
        What::WorkerFailed { exit_code, .. } => Some(*exit_code),
        // Only Ctrl-C stands in a table: SIGTERM there is what the launcher sent to the others.
        What::WorkerFailure(failure) => failure.exit_code.filter(|code| signal_of(*code) == Some(SIGINT)),
        _ => None,
    };
    let Some(exit_code) = exit_code.filter(|code| asked_to_end(ctx, *code) == Some(Asked::All)) else { return };
    let name = signal_words(signal_of(exit_code).unwrap_or_default());
    let mut found = ctx.found(&RULE, "signal", format!("{name} ended all ranks of a launcher from outside; no rank had failed before"));
    if signal_of(exit_code) == Some(SIGINT) {
        found.severity = Severity::Warning;
    }
    found.confidence = Confidence::Likely;
    found.why = format!("the launcher reports {name} as the end of the first, and that it had none left to end");
    found.next = Some(ask(ctx.model.jobs.get(&ctx.seen.job), ctx.model));
    out.push(found);
}

/// Who knows why the job was ended, by what its ranks were started from.
pub fn ask(job: Option<&Job>, model: &Model) -> String {
    let env = job.and_then(|job| job.pids().find_map(|pid| model.processes.get(&pid)?.info.env.as_ref()));
    // It is copied into a shell.
    let is_plain = |v: &&String| !v.is_empty() && v.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let value = |name: &str| env.and_then(|env| env.get(name)).filter(is_plain);
    if let Some(id) = value("SLURM_JOB_ID") {
        return format!("it runs under Slurm: sacct -j {id} --format=JobID,State,ExitCode,Reason,End; scontrol show job {id}");
    }
    if value(POD).is_some() {
        let pod = value("HOSTNAME").map_or("POD", String::as_str);
        return format!("it runs in a pod: kubectl describe pod {pod}; kubectl get events --field-selector involvedObject.name={pod}");
    }
    // Its environment is seen, and no scheduler has put anything there.
    if env.is_some() {
        return "no scheduler is seen: `last -x | head`, `journalctl -S -10min | tail -50`; or somebody on this node ended it".into();
    }
    "ask the scheduler, or whoever works in the terminal: sacct -j JOB, kubectl describe pod POD; last reboot, journalctl -u systemd-logind"
        .into()
}

/// It is there in a pod only.
const POD: &str = "KUBERNETES_SERVICE_HOST";

const SIGINT: u32 = 2;

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for job in ctx.model.jobs.values().filter(|job| !job.log_only && job.taking_down_at.is_none()) {
        // Another finding describes it already, or there is nothing to report.
        let has_ranks = job.pids().next().is_some();
        let Some(ended) = job.ended_at.filter(|_| has_ranks && !ctx.ledger.is_open(RULE.id, Some(&job.id))) else { continue };
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
        found.next = Some(ask(Some(job), ctx.model));
        let last = ends.last().map_or(since, |e| e.at);
        let within = format!("{} ended within {}, the first by {name}", who(&ends), span(last.since(since)));
        found.evidence = vec![Evidence { at: Some(since), ..Evidence::of("process", within) }];
        // A launcher that ends the others after one takes longer than that; a GPU that is given back takes as long.
        if let [first, second, ..] = ends.as_slice()
            && second.at.since(first.at) > TOGETHER
        {
            let before = format!(
                "{} ended {} before the others: the signal may have gone to it alone",
                who(&ends[..1]),
                span(second.at.since(first.at))
            );
            found.evidence.push(Evidence { at: Some(first.at), ..Evidence::of("process", before) });
        }
        found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
        out.push(found);
    }
}
