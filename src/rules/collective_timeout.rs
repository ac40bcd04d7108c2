//! PyTorch's watchdog gave up.

use super::chain::{Chain, Place};
use super::{Implies, ONCE, Rule, Stacks, TextContext};
use crate::base::severity::{Confidence, Severity};
use crate::base::words::rank_words;
use crate::logs::{CollectiveTimeout, What};
use crate::model::job::Job;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "collective-timeout",
    severity: Severity::Error,
    title: "PyTorch's watchdog gave up on a collective; the ranks that report it are messengers, not culprits",
    says: "reported that a collective timed out",
    how: "\"Watchdog caught collective operation timeout\" in the log, or its forms in other versions",
    advice: "Look for the rank that did not report, or whose last enqueued number is the lowest: it never arrived. Flight Recorder dumps name it",
    life: ONCE,
    implies: Implies::Failed,
    stacks: Stacks::OfCulprits,
    chain: Chain { place: Place::Messenger, ..Chain::PLAIN },
    on_text: Some(check),
    ..Rule::PLAIN
};

/// `it had waited since 02:54:10; `, on the clock of the line.
fn waited_since(ctx: &TextContext, timeout: &CollectiveTimeout) -> String {
    const DAY_S: i64 = 24 * 3600;
    let (Some(at), Some(ran_ms)) = (&ctx.seen.event.origin.written, timeout.ran_ms) else { return String::new() };
    let now_s = i64::from(at.hour) * 3600 + i64::from(at.minute) * 60 + i64::from(at.second);
    let s = (now_s - i64::try_from(ran_ms / 1000).unwrap_or(0)).rem_euclid(DAY_S);
    format!("it had waited since {:02}:{:02}:{:02}; ", s / 3600, s / 60 % 60, s % 60)
}

/// `; ranks 0 and 4 say nothing`, which is worth more than who was first to complain. Live, the others may still say so.
fn silent_words(ctx: &TextContext) -> String {
    /// More are no headline.
    const MOST: usize = 8;
    let is_first = |job: &&Job| job.archived && !ctx.ledger.is_open(RULE.id, Some(&job.id));
    let Some(job) = ctx.model.jobs.get(&ctx.seen.job).filter(is_first) else { return String::new() };
    match super::silent_ranks(ctx.model, job).as_slice() {
        [] => String::new(),
        [one] => format!("; rank {one} says nothing"),
        some if some.len() <= MOST => format!("; {} say nothing", rank_words(some)),
        _ => String::new(),
    }
}

/// `rank 0 reported it first`; where only logs are seen `rank 0 reported it first, rank 1, too`, or that all ranks of the job did.
fn reporters(ctx: &TextContext, timeout: &CollectiveTimeout, first: u32) -> String {
    /// More are counted.
    const MOST: usize = 4;
    let alone = format!("rank {first} reported it first");
    // Live, the others may still do so.
    let Some(job) = ctx.model.jobs.get(&ctx.seen.job).filter(|job| job.log_only) else { return alone };
    let record = ctx.model.record_of(&job.id);
    let of = |a: &crate::model::alarms::Alarm| match &a.event.what {
        What::CollectiveTimeout(t) if (t.seq, &t.op, &t.guid) == (timeout.seq, &timeout.op, &timeout.guid) => a.rank.or(t.pg_rank),
        _ => None,
    };
    let all: std::collections::BTreeSet<u32> = record.alarms.iter().filter_map(of).chain([first]).collect();
    let others: Vec<u32> = all.iter().copied().filter(|rank| *rank != first).collect();
    let ranks = ctx.model.world_size_of(job).or_else(|| record.launch.ranks());
    match others.as_slice() {
        [] => alone,
        _ if ranks == u32::try_from(all.len()).ok() => format!("all {} ranks report it, rank {first} first", all.len()),
        some if some.len() < MOST => format!("{alone}, {}, too", rank_words(some)),
        some => format!("{alone}, and {} others", some.len()),
    }
}

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let What::CollectiveTimeout(timeout) = &ctx.seen.event.what else { return };
    let what = match (&timeout.op, timeout.seq) {
        (Some(op), Some(seq)) if op == "COALESCED" && timeout.is_p2p() => format!("a batch of sends and receives ({seq})"),
        (Some(op), Some(seq)) => format!("{op} {seq}"),
        (Some(op), None) => op.clone(),
        _ => "a collective".into(),
    };
    let what = if timeout.seq == Some(1) && !timeout.is_p2p() { format!("the first collective of its group, {what},") } else { what };
    let after = timeout.ran_ms.or(timeout.timeout_ms).map_or(String::new(), |ms| format!(" after {} s", ms / 1000));
    // Of a group that is not the whole job the text has the rank inside the group.
    let is_world = |group: &str| group == "default_pg" || group == "0" && timeout.guid.is_none() || timeout.guid.as_deref() == Some("0");
    let group = timeout.group.as_deref().filter(|group| !is_world(group));
    let by = match (ctx.seen.rank, timeout.pg_rank, group) {
        (Some(r), ..) | (None, Some(r), None) => format!("; {}", reporters(ctx, timeout, r)),
        (None, Some(r), Some(group)) => format!("; rank {r} of group {group} reported it first"),
        (None, None, _) => String::new(),
    };
    let mut found = ctx.found(&RULE, "watchdog", format!("{what} timed out{after}{by}{}", silent_words(ctx)));
    // The reporters waited in vain: naming them as culprits would be wrong.
    found.ranks.clear();
    found.gpus.clear();
    found.confidence = Confidence::Certain;
    found.why = format!("{}the ranks that report a timeout are the ones that did join", waited_since(ctx, timeout));
    found.next = Some(
        "look for a rank that reports no timeout; where all report it, at errors of NICs and GPUs; `nccl-top check` on the Flight Recorder dumps names the one that is missing"
            .into(),
    );
    out.push(found);
}
