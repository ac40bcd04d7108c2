//! Who left while the others trained, and these lost their connection to it: they fail in words, and it does not.

use super::{RULE, SIGTERM, WHO_SENT, lost_its_peer, told, words_of};
use crate::base::exit_code::signal_of;
use crate::base::severity::Confidence;
use crate::base::time::span;
use crate::logs::What;
use crate::model::alarms::Alarm;
use crate::model::ending::{End, who};
use crate::model::job::Job;
use crate::rules::TickContext;
use crate::rules::findings::Finding;
use std::time::Duration;

/// Who ended well or was ended by a signal, alone and before all others, and the next of these: they lost their connection to it.
fn leaver<'a>(ctx: &TickContext, job: &Job, ends: &'a [End]) -> Option<(&'a End, &'a End)> {
    let (first, rest) = ends.split_first()?;
    let lost = |end: &End| end.exit_code == Some(1) && end.rank.is_some_and(|rank| lost_its_peer(ctx.model, &job.id, rank));
    if first.exit_code == Some(0) || was_terminated(first) {
        let next = rest.iter().find(|end| end.exit_code != Some(0)).filter(|end| lost(end))?;
        // Who ends a whole job ends all of them: nobody else was asked before one failed of it.
        let in_time = first.exit_code == Some(0) || job.taking_down_at.is_none_or(|at| at > next.at);
        return in_time.then_some((first, next));
    }
    // Python takes its time to end; its connections are closed by then. All that failed must have lost one, and who left printed no error.
    let mut well = ends.iter().filter(|end| end.exit_code == Some(0));
    let left = well.next().filter(|left| well.next().is_none() && left.at.since(first.at) <= SLOW_END && !job.has_ranks_elsewhere())?;
    let is_known = |end: &End| end.exit_code == Some(0) || was_terminated(end) || lost(end);
    let raised =
        |rank: u32| ctx.model.record_of(&job.id).alarms.iter().any(|a| a.rank == Some(rank) && matches!(a.event.what, What::Exception(_)));
    let is_quiet = left.rank.is_some_and(|rank| !raised(rank));
    (is_quiet && lost(first) && ends.iter().all(is_known) && ends.len() == job.pids().count()).then_some((left, first))
}

/// Between the last of a process's connections and its end.
const SLOW_END: Duration = Duration::from_secs(5);

fn was_terminated(end: &End) -> bool {
    end.exit_code.and_then(signal_of) == Some(SIGTERM.unsigned_abs())
}

/// Who left, where the others lost their connection to it.
pub(super) fn left_first(ctx: &TickContext, job: &Job) -> Option<Finding> {
    let ends = ctx.model.ends_of(job);
    let (first, next) = leaver(ctx, job, &ends).filter(|_| !ctx.model.said_done(job))?;
    let signal = first.exit_code.and_then(signal_of);
    let (name, words) = (first.name(), words_of(first));
    let left: Vec<End> =
        ends.iter().filter(|end| end.pid == first.pid || end.at < next.at && end.exit_code == first.exit_code).copied().collect();
    let summary = match (left.as_slice(), signal) {
        ([_], None) => format!("{name} left with exit code 0 while the others trained; they lost their connection to it"),
        ([_], Some(_)) => format!("{name} was ended by SIGTERM from outside the job; the others lost their connection to it"),
        (some, None) => format!("{} left with exit code 0 while the others trained; they lost their connection to them", who(some)),
        (some, Some(_)) => format!("{} were ended by SIGTERM from outside the job; the others lost their connection to them", who(some)),
    };
    // It had left when the first of the others said so, whenever it ended.
    let is_exception =
        |a: &&Alarm| matches!(a.event.what, What::Exception(_)) && a.rank.is_some_and(|rank| lost_its_peer(ctx.model, &job.id, rank));
    let missed = ctx.model.record_of(&job.id).alarms.iter().filter(is_exception).map(|a| a.at.unwrap_or(a.seen_at)).min();
    let since = missed.filter(|_| next.at < first.at).map_or(first.at, |at| at.min(first.at));
    let mut found = RULE.finding(who(&left), summary, since);
    found.job = Some(job.id.clone());
    found.ranks = left.iter().filter_map(|end| end.rank).collect();
    found.gpus = found.ranks.iter().filter_map(|rank| ctx.model.gpu_of_pid(*job.ranks.get(rank)?)).collect();
    found.confidence = Confidence::Certain;
    found.evidence = vec![
        told(first.pid, words, first.at),
        match next.at >= first.at {
            true => told(
                next.pid,
                format!("{}, {} later: a peer had closed its connection", words_of(next), span(next.at.since(first.at))),
                next.at,
            ),
            false => told(
                next.pid,
                format!("{}: a peer had closed its connection, and all others that failed say the same", words_of(next)),
                next.at,
            ),
        },
    ];
    found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
    found.next = Some(match signal {
        Some(_) => WHO_SENT.into(),
        None => format!("find out why {} ended: fewer batches than the others, an early return, sys.exit", who(&left)),
    });
    Some(found)
}
