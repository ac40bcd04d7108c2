//! A rank's process is stopped.

use super::{Implies, Rule, Stacks, TickContext, straggler, while_it_holds};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::base::units::all_here;
use crate::model::signals::{Look, RankLook};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "rank-stopped",
    severity: Severity::Critical,
    title: "The process of a rank is stopped (SIGSTOP, a debugger, job control); every collective waits for it",
    says: "{is|are} stopped, and every collective waits",
    how: "State T or t in /proc/PID/stat for two seconds, unless the process has run in between; where all ranks of this node are in it, the job is suspended, and no rank is to blame",
    advice: "Find out who stopped it (a debugger, a suspended shell, a checkpoint tool), then let it go on with kill -CONT. A job of a shell that \
             reads from its terminal in the background is stopped, too: start it with its input from /dev/null",
    life: while_it_holds(2, 2),
    implies: Implies::Stuck,
    stacks: Stacks::OfCulprits,
    on_tick: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    out.extend(until_they_ended(ctx));
    for (id, look) in ctx.looks {
        if let Some(found) = suspended(look) {
            out.push(Finding { job: Some(id.clone()), ..found });
            continue;
        }
        for rank in look.alive().filter(|r| r.stopped() && !straggler::is_stopped_again(r)) {
            let traced = if rank.state == Some('t') { "stopped by a tracer" } else { "stopped" };
            let mut found = RULE.finding(format!("rank {}", rank.rank), format!("{} is {traced}", rank.name()), rank.state_since);
            found.job = Some(id.clone());
            found.confidence = Confidence::Certain;
            found.ranks = vec![rank.rank];
            found.gpus = rank.gpu.into_iter().collect();
            found.next = Some(format!("kill -CONT {}", rank.pid));
            found.why = format!("process state {} for {}", rank.state.unwrap_or('T'), span(look.at.since(rank.state_since)));
            found.evidence = vec![Evidence::of("process", format!("/proc/{}/stat: state {}", rank.pid, rank.state.unwrap_or('T')))];
            out.push(found);
        }
    }
}

/// All ranks of this node are stopped: that was done to the job, and no rank holds up another.
fn suspended(look: &Look) -> Option<Finding> {
    let ranks: Vec<&RankLook> = look.alive().collect();
    if ranks.len() < 2 || !ranks.iter().all(|r| r.stopped()) {
        return None;
    }
    let since = ranks.iter().map(|r| r.state_since).min()?;
    let mut found = RULE.finding("all", format!("{}: the job is suspended", all_here(ranks.len(), "are stopped")), since);
    found.severity = Severity::Error;
    found.confidence = Confidence::Certain;
    let pids: Vec<String> = ranks.iter().take(16).map(|r| r.pid.to_string()).collect();
    found.next = Some(format!("kill -CONT {}", pids.join(" ")));
    found.why = format!("process state T or t of all of them for {}", span(look.at.since(ranks.iter().map(|r| r.state_since).max()?)));
    let proof = |r: &&RankLook| Evidence::of("process", format!("/proc/{}/stat: state {}", r.pid, r.state.unwrap_or('T')));
    found.evidence = ranks.iter().take(8).map(proof).collect();
    Some(found)
}

/// Who was found stopped and has ended like that is still why its job came to nothing: the others have given up on it, and only SIGKILL ends
/// a stopped process.
fn until_they_ended(ctx: &TickContext) -> Vec<Finding> {
    let open = ctx.ledger.open().into_iter().filter(|f| f.rule == RULE.id && f.ranks.len() == 1);
    let ended = |f: &&Finding| {
        let job = f.job.as_ref().and_then(|id| ctx.model.jobs.get(id))?;
        let process = ctx.model.processes.get(job.ranks.get(f.ranks.first()?)?)?;
        let was_stopped = process.gone.is_some() && matches!(process.sample.state, Some('T' | 't'));
        was_stopped.then(|| Finding::clone(f))
    };
    open.filter_map(|f| ended(&f)).collect()
}
