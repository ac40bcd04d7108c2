//! Ranks wait for each other in sends and receives: a circle.

use super::area::Area;
use super::chain::Chain;
use super::hang_rank_absent::{WAITED_ALONE, has_trained, patience, paused_by_name};
use super::{Implies, Rule, Stacks, TickContext, told_by, while_it_holds};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::base::units::all_here;
use crate::base::words::{py_spy, rank_words};
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::{Look, RAS_OLD};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "send-order-deadlock",
    severity: Severity::Critical,
    title: "Ranks wait for each other in sends and receives: each sends, or receives, before the other answers it",
    how: "Flight Recorder dumps in which each rank of a circle waits for a call that the next has not made; watchdogs of ranks that all wait in a \
          send; all GPUs of a job at 100 % without moving a byte, where steps went by and no count of RAS changed: the job only sends and receives",
    advice: ADVICE,
    life: while_it_holds(0, 3),
    implies: Implies::Stuck,
    area: Some(Area::Code),
    stacks: Stacks::OfAnyone,
    chain: Chain { covered_by: &["collective-mismatch", "hang-rank-absent"], ..Chain::HANG },
    on_tick: Some(check),
    ..Rule::PLAIN
};

/// NCCL keeps nothing back: a send ends when the other has posted its receive.
pub(super) const ADVICE: &str =
    "one of the two must receive before it sends, or both calls belong into one batch_isend_irecv (ncclGroupStart and ncclGroupEnd)";

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        if !RULE.chain.covered_by.iter().any(|rule| ctx.ledger.is_open(rule, Some(id))) {
            out.extend(judge(job, look));
        }
    }
}

/// Of ranks that all wait, and for nobody else, some wait in a circle.
fn judge(job: &Job, look: &Look) -> Option<Finding> {
    let ras = look.ras.as_ref().filter(|r| r.age <= RAS_OLD && r.blind && r.behind.is_empty() && r.missing.is_empty())?;
    let waiting = look.with(Activity::Waiting, patience(look, WAITED_ALONE.duration()));
    let all = waiting.len() == look.alive().count() && waiting.len() >= look.local_ranks.max(2);
    if !all || job.log_only || job.has_ranks_elsewhere() || !look.quiet_log() || !has_trained(look) || paused_by_name(look) {
        return None;
    }
    if look.alive().any(|r| r.stopped() || r.does_io()) {
        return None;
    }
    let ranks: Vec<u32> = waiting.iter().map(|r| r.rank).filter(|_| waiting.len() == 2).collect();
    let since = waiting.iter().map(|r| r.activity_since).max()?;
    let still_for = look.log.as_ref()?.last_step_at?.since(ras.still_since);
    let words = match ranks.as_slice() {
        [a, b] => format!("rank {a} and rank {b} wait for each other in sends or receives"),
        _ => format!("{} in sends or receives, some of them for each other", all_here(waiting.len(), "wait")),
    };
    let subject = if ranks.is_empty() { "all".to_owned() } else { rank_words(&ranks) };
    let mut found = RULE.finding(subject, words, since);
    found.job = Some(job.id.clone());
    found.gpus = look.gpus_of(&ranks);
    found.ranks = ranks;
    found.confidence = Confidence::Possible;
    found.next = waiting.first().map(|r| py_spy(r.pid));
    found.evidence = vec![
        Evidence::of("gpu", format!("{} without a byte for {}", all_here(waiting.len(), "spin"), span(look.at.since(since)))),
        Evidence::of(
            "ras",
            format!("counts equal, and still for {} before the last step: steps have no collective that is counted", span(still_for)),
        ),
    ];
    told_by(&mut found, look);
    Some(found)
}
