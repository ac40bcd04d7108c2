//! A job of one process makes no step: it stands, or a kernel on its GPU does not end. There is no other rank to compare it with.

use super::chain::Chain;
use super::hang_rank_absent::{has_trained, patience, paused_by_name};
use super::{Implies, Rule, Stacks, TickContext, told_by, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::{Stamp, span};
use crate::model::gpu::Activity;
use crate::model::signals::{Look, RankLook};
use crate::observe::evidence::Evidence;
use crate::observe::process::Wait;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "process-stuck",
    severity: Severity::Critical,
    title: "The only process of a job makes no step: it waits for what does not come, or a kernel on its GPU does not end",
    says: "makes no step",
    how: "No step in the log for longer than usual, and either a GPU at 100 % that computes and moves nothing, or an idle GPU and a process that has \
          used no CPU and moved nothing since, with its children and threads: in a lock, in a wait for a child process, in a pipe that nobody reads or \
          writes, or at its terminal",
    advice: "Look at its stack, and at that of the child process that it waits for. A process that waits for its terminal may stand in a debugger \
             (`breakpoint()`); one whose output is not read goes on when somebody reads it",
    life: while_it_holds(0, 3),
    implies: Implies::Stuck,
    stacks: Stacks::OfCulprits,
    chain: Chain { covered_by: &["rank-stopped", "rank-exited", "storage-hang", "input-stall"], ..Chain::HANG },
    on_tick: Some(check),
    limits: &[&KERNEL, &STANDS, &LOCK],
    ..Rule::PLAIN
};

const KERNEL: Limit = Limit::seconds("process-stuck", "after_kernel", 12.0, "its GPU must have been at 100 % without computing this long");
const STANDS: Limit =
    Limit::seconds("process-stuck", "after", 12.0, "its process must have waited this long for a child, a file's lock, a pipe or a key");
/// A thread may wait for somebody far away meanwhile, who does not answer: an upload does.
const LOCK: Limit = Limit::seconds(
    "process-stuck",
    "after_lock",
    20.0,
    "the same where it waits for a thread of its own, or for a child that waits for one or for a pipe",
);

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        let mut alive = look.alive();
        let (Some(only), Some(rank), None) = (ctx.model.only_rank(job), alive.next(), alive.next()) else { continue };
        if rank.rank != only || rank.stopped() || rank.does_io() || !look.quiet_log() || !has_trained(look) || paused_by_name(look) {
            continue;
        }
        // What was to be done is done.
        if ctx.model.progress_of(id).is_some_and(|p| p.done_at.is_some() || p.has_made_its_last_step()) {
            continue;
        }
        if RULE.chain.covered_by.iter().any(|rule| ctx.ledger.is_open(rule, Some(id))) {
            continue;
        }
        if let Some(found) = kernel(look, rank).or_else(|| stands(look, rank)) {
            out.push(Finding { job: Some(id.clone()), ranks: vec![only], gpus: look.gpus_of(&[only]), next: Some(rank.next()), ..found });
        }
    }
}

fn finding(rank: &RankLook, says: &str, since: Stamp) -> Finding {
    RULE.finding(rank.name(), format!("{} makes no step: {says}", rank.name()), since)
}

/// A kernel is on its GPU, and computes next to nothing.
fn kernel(look: &Look, rank: &RankLook) -> Option<Finding> {
    let since = rank.is(Activity::Waiting, look.at, patience(look, KERNEL.duration())).then_some(rank.activity_since)?;
    let mut found = finding(rank, "a kernel on its GPU does not end, and computes next to nothing", since);
    // That it computes nothing is measured, or follows from the power that it draws.
    found.confidence = if rank.by_gpm { Confidence::Likely } else { Confidence::Possible };
    let spins = format!("its GPU at 100 % without computing; no bytes moved for {}", span(look.at.since(since)));
    found.evidence = vec![Evidence::of("gpu", spins)];
    found.evidence.extend(super::power_evidence(look));
    told_by(&mut found, look);
    Some(found)
}

/// Its process sleeps, its GPU idles, and nothing else is done for it.
fn stands(look: &Look, rank: &RankLook) -> Option<Finding> {
    let wait = rank.stands()?;
    let children: Vec<&Wait> = rank.waits.iter().filter(|w| w.pid != rank.pid).collect();
    // A thread, or a child that waits for one or for what comes by a pipe, may have somebody far away who works for it: what is not seen is no proof.
    let may_be_served = |w: &Wait| w.call.as_deref() == Some("futex") || !w.is_held() && !w.writes() && !w.is_for_a_child();
    let held = wait.call.as_deref() != Some("futex") && !children.iter().any(|w| may_be_served(w));
    let least = if held { STANDS.duration() } else { LOCK.duration() };
    let waited = patience(look, least);
    let idle = rank.gpu.is_none() || rank.is(Activity::Idle, look.at, waited);
    let quiet = look.log.as_ref().is_none_or(|l| l.last_step_at.is_none() || l.quiet_for >= waited.max(l.patience));
    if !idle || !quiet || rank.waits_for < least {
        return None;
    }
    // A child that asks somebody far away, writes a file, or sleeps for a time, may come back with something.
    if children.iter().any(|w| !w.is_standstill()) {
        return None;
    }
    let for_child = matches!(wait.call.as_deref(), Some("wait4" | "waitid")) || wait.is_for_a_child();
    let child = children.iter().rev().find(|w| w.is_seen()).map(|w| format!(", which waits in {}", w.words()));
    // A prompt, or a debugger: somebody may sit there and think.
    let at_terminal = wait.reads_a_terminal();
    let says = match wait {
        _ if at_terminal => format!("it waits for a key, in {}", wait.words()),
        _ if for_child => format!("it waits for a child process{}", child.unwrap_or_default()),
        w if w.writes() => "it waits in write to a pipe that nobody reads".to_owned(),
        w if w.call.as_deref() == Some("futex") => format!("it waits for a thread of its own, in {}", w.words()),
        w => format!("it waits in {}", w.words()),
    };
    let since = look.log.as_ref().and_then(|l| l.last_step_at).unwrap_or(rank.activity_since);
    let mut found = finding(rank, &says, since);
    (found.severity, found.confidence) =
        if held && !at_terminal { (Severity::Error, Confidence::Likely) } else { (Severity::Warning, Confidence::Possible) };
    let idle = if rank.gpu.is_some() { ", its GPU idle" } else { "" };
    found.evidence = vec![Evidence::of("process", format!("it has used no CPU and moved nothing for {}{idle}", span(rank.waits_for)))];
    let told = rank.waits.iter().filter(|w| w.is_seen()).take(4);
    found.evidence.extend(told.map(|w| Evidence::of("process", format!("pid {} in {}", w.pid, w.words()))));
    told_by(&mut found, look);
    Some(found)
}
