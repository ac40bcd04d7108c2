//! Steps that take so long that no line of them was printed yet: the log is silent, and RAS sees calls being made, one rank behind each time.

use super::{LAG_PCT, SIBLINGS_PCT, busy, is_late_each_step};
use crate::model::Model;
use crate::model::job::Job;
use crate::model::signals::Look;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::time::Duration;

/// Answers of RAS in a row.
const LOOKS: usize = 2;
/// GPUs are compared since the last line, over this at least and this at most.
const LEAST: Duration = Duration::from_secs(8);
const MOST: Duration = Duration::from_secs(40);
/// It must be behind by so many calls.
const CALLS: u64 = 2;
/// RAS is asked seldom: what it said last still holds.
const FRESH: Duration = Duration::from_secs(15);

pub(super) fn judge(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    let log = look.log.as_ref().filter(|log| log.step.is_some() && log.quiet_for > log.patience)?;
    let comm = model.comms_of(job).filter(|c| c.answered_at.is_some()).max_by_key(|c| (c.nranks, c.operations()))?;
    // Numbers of a smaller communicator are not ranks of the job.
    if job.world_size.is_some_and(|n| n != comm.nranks) {
        return None;
    }
    let recent: Vec<_> = comm.looks.iter().rev().take(LOOKS).collect();
    let &[rank] = recent.first()?.behind.as_slice() else { return None };
    // Who works alone between two gathers of an evaluation is one call behind; a step has many.
    if comm.behind().iter().all(|late| late.max - late.have < CALLS) {
        return None;
    }
    let window = log.quiet_for.min(MOST);
    let is_same = recent.iter().all(|l| l.moved && l.behind == [rank]);
    let is_new = look.at.since(recent[0].at) <= FRESH && look.at.since(recent.get(LOOKS - 1)?.at) <= MOST;
    if !is_same || !is_new || window < LEAST {
        return None;
    }
    let busy_now = busy(model, look, model.now.minus(window), model.now)?;
    let (&(slow, least), &(next, _)) = (busy_now.first()?, busy_now.get(1)?);
    if least != rank || next < SIBLINGS_PCT.value() || slow > next - LAG_PCT.value() {
        return None;
    }
    let mut found = is_late_each_step(model, job, look, window, &busy_now)?;
    let quiet = crate::base::time::span(Duration::from_secs(log.quiet_for.as_secs()));
    found.evidence.push(Evidence::of(
        "log",
        format!("no step in the log for {quiet}, although collectives are called: the next line is not due yet"),
    ));
    Some(found)
}
