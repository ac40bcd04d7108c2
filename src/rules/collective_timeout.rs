//! PyTorch's watchdog gave up.

use super::chain::{Chain, Place};
use super::{Implies, ONCE, Rule, Stacks, TextContext};
use crate::base::severity::{Confidence, Severity};
use crate::base::words::rank_words;
use crate::logs::{CollectiveTimeout, What};
use crate::model::alarms::Alarm;
use crate::model::job::Job;
use crate::rules::findings::Finding;
use std::collections::{BTreeMap, BTreeSet};

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

/// The limit of a watchdog that was meant in other units.
const TOO_SHORT_MS: u64 = 1000;

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

/// `rank 0 reports it`; where only logs are seen all who do, and who waits for another call of the same group: `; ranks 0, 2 and 7 report it; rank 5
/// waits in ALLREDUCE 137430`.
fn reporters(ctx: &TextContext, timeout: &CollectiveTimeout, first: u32) -> (String, Heard) {
    /// More are counted.
    const MOST: usize = 8;
    let alone = format!("rank {first} reports it");
    // Live, the others may still do so.
    let Some(job) = ctx.model.jobs.get(&ctx.seen.job).filter(|job| job.log_only) else { return (alone, Heard::Some) };
    let record = ctx.model.record_of(&job.id);
    // Up to PyTorch 2.0 no call has a number.
    let number = |t: &CollectiveTimeout| t.seq.or(timeout.seq.is_none().then_some(0));
    let is_of_now = |a: &Alarm| ctx.model.files.get(&a.file).is_none_or(|log| timeout.seq.is_some() || a.run == log.chronicle.run);
    let waits = |a: &Alarm| match &a.event.what {
        What::CollectiveTimeout(t) if t.guid == timeout.guid && !t.is_p2p() && is_of_now(a) => {
            Some((number(t)?, t.op.clone().unwrap_or_default(), a.rank.or(t.pg_rank)?))
        }
        _ => None,
    };
    // A number is of a group: the line of the same watchdog says which.
    let status = |a: &Alarm| match &a.event.what {
        What::CollectiveStatus { group, guid, seq, .. } if timeout.seq.is_some() && *seq == timeout.seq => {
            Some((a.rank?, (group.clone(), guid.clone())))
        }
        _ => None,
    };
    let own_group = record.alarms.iter().filter_map(status).find(|(rank, _)| *rank == first).map(|(_, group)| group);
    let of_status = |a: &Alarm| status(a).filter(|(_, group)| Some(group) == own_group.as_ref()).map(|(rank, _)| rank);
    let mut of_call: BTreeMap<(u64, String), BTreeSet<u32>> = BTreeMap::new();
    for (seq, op, rank) in record.alarms.iter().filter_map(waits) {
        of_call.entry((seq, op)).or_default().insert(rank);
    }
    // What a terminal broke has no name.
    let is_own =
        |(seq, op): &(u64, String)| Some(*seq) == number(timeout) && (op.is_empty() || timeout.op.as_ref().is_none_or(|own| own == op));
    let own: Vec<(u64, String)> = of_call.keys().filter(|call| is_own(call)).cloned().collect();
    let mut all: BTreeSet<u32> = own.iter().filter_map(|call| of_call.remove(call)).flatten().collect();
    all.insert(first);
    let elsewhere: BTreeSet<u32> = of_call.values().flatten().copied().collect();
    all.extend(record.alarms.iter().filter_map(of_status).filter(|rank| !elsewhere.contains(rank)));
    let ranks = ctx.model.world_size_of(job).or_else(|| record.launch.ranks());
    let who: Vec<u32> = all.iter().copied().collect();
    let verb = if who.len() == 1 { "reports" } else { "report" };
    let are_all = who.len() > 1 && ranks == u32::try_from(who.len()).ok();
    let reported = match who.len() {
        1 => alone,
        n if are_all => format!("all {n} ranks report it"),
        n if n > MOST => format!("{} and {} others report it", rank_words(&who[..MOST]), n - MOST),
        _ => format!("{} {verb} it", rank_words(&who)),
    };
    // Who waits in two calls at once waits in two groups, each of which counts for itself.
    let is_elsewhere = |(call, ranks): &(&(u64, String), &BTreeSet<u32>)| {
        call.0 > 0 && !call.1.is_empty() && ranks.len() <= MOST && ranks.is_disjoint(&all)
    };
    let others = of_call.iter().filter(is_elsewhere).take(2).map(|((seq, op), ranks)| {
        let ranks: Vec<u32> = ranks.iter().copied().collect();
        format!("; {} {} in {op} {seq}", rank_words(&ranks), if ranks.len() == 1 { "waits" } else { "wait" })
    });
    let others: String = others.collect();
    let heard = if !others.is_empty() {
        Heard::Elsewhere
    } else if are_all {
        Heard::All
    } else {
        Heard::Some
    };
    (format!("{reported}{others}"), heard)
}

/// Whom the lines of a time-out are of.
#[derive(Clone, Copy, PartialEq)]
enum Heard {
    Some,
    /// All ranks of the job wait in this call.
    All,
    /// Others wait in another call of the same group.
    Elsewhere,
}

impl Heard {
    fn next(self) -> &'static str {
        match self {
            Heard::Some => {
                "look for a rank that reports no timeout; where all report it, at errors of NICs and GPUs; `nccl-top check` on the Flight Recorder dumps names the one that is missing"
            }
            Heard::All => {
                "all came to it, so look at errors of NICs and GPUs (`dmesg -T`) and of the network between the hosts; Flight Recorder dumps (TORCH_FR_BUFFER_SIZE=2000) show whose transfer stands"
            }
            Heard::Elsewhere => {
                "look for a branch that depends on rank or data (uneven batches, an evaluation or a checkpoint of one rank alone); Flight Recorder dumps (TORCH_FR_BUFFER_SIZE=2000) show where the calls part"
            }
        }
    }
}

/// ` of TENSOR_MODEL_PARALLEL_GROUP`, where another line of the same watchdog names the group.
fn group_words(ctx: &TextContext, timeout: &CollectiveTimeout) -> String {
    let record = ctx.model.record_of(&ctx.seen.job);
    let named = record.alarms.iter().find_map(|alarm| match &alarm.event.what {
        What::CollectiveStatus { group: Some(group), seq, .. } if *seq == timeout.seq && alarm.rank == ctx.seen.rank => {
            Some(group.as_str())
        }
        _ => None,
    });
    let is_a_name = |group: &&str| *group != "default_pg" && group.contains(|c: char| c.is_ascii_alphabetic());
    let of_line = timeout.group.as_deref();
    named.or(of_line).filter(is_a_name).filter(|_| timeout.seq.is_some()).map_or(String::new(), |group| format!(" of {group}"))
}

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let What::CollectiveTimeout(timeout) = &ctx.seen.event.what else { return };
    let what = match (&timeout.op, timeout.seq) {
        (Some(op), Some(seq)) if op == "COALESCED" && timeout.is_p2p() => format!("a batch of sends and receives ({seq})"),
        (Some(op), Some(seq)) => format!("{op} {seq}"),
        (Some(op), None) => op.clone(),
        _ => "a collective".into(),
    };
    // Of a group that is not the whole job the text has the rank inside the group.
    let is_world = |group: &str| group == "default_pg" || group == "0" && timeout.guid.is_none() || timeout.guid.as_deref() == Some("0");
    let group = timeout.group.as_deref().filter(|group| !is_world(group));
    let (of, by, heard) = match (ctx.seen.rank, timeout.pg_rank, group) {
        (Some(r), ..) | (None, Some(r), None) => {
            let (words, heard) = reporters(ctx, timeout, r);
            (group_words(ctx, timeout), format!("; {words}"), heard)
        }
        (None, Some(r), Some(group)) => (String::new(), format!("; rank {r} of group {group} reports it"), Heard::Some),
        (None, None, _) => (group_words(ctx, timeout), String::new(), Heard::Some),
    };
    let what = match timeout.seq {
        Some(1) if !timeout.is_p2p() => format!("the first collective of its group, {what}{of},"),
        _ => format!("{what}{of}"),
    };
    let after = timeout.ran_ms.or(timeout.timeout_ms).map_or(String::new(), |ms| match ms {
        ..1000 => format!(" after {ms} ms"),
        _ => format!(" after {} s", ms / 1000),
    });
    // No collective of a first step is done in so short a time; where steps were made it was enough.
    let has_stepped = ctx.model.progress_of(&ctx.seen.job).is_some_and(|p| !p.is_empty());
    let too_short = timeout.timeout_ms.filter(|ms| *ms < TOO_SHORT_MS && !has_stepped);
    let limit = too_short.map_or(String::new(), |ms| format!(": the limit is set to {ms} ms"));
    let mut found = ctx.found(&RULE, "watchdog", format!("{what} timed out{after}{limit}{by}{}", silent_words(ctx)));
    // The reporters waited in vain: naming them as culprits would be wrong.
    found.ranks.clear();
    found.gpus.clear();
    found.confidence = Confidence::Certain;
    found.why = format!("{}the ranks that report a timeout are the ones that did join", waited_since(ctx, timeout));
    found.next = Some(heard.next().into());
    if too_short.is_some() {
        found.why = "PyTorch's default is 10 minutes; a limit below a second ends jobs in which nothing is wrong".into();
        found.next = Some(
            "look for who sets it: the timeout of init_process_group, of the framework or of a launcher, mostly one in other units; then set minutes"
                .into(),
        );
    }
    out.push(found);
}
