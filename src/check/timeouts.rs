//! What the watchdogs of all ranks say together: each of them only tells what it waited for, but the one that says nothing, or waits
//! for something else, is the one to look at.

use super::alarms::Alarm;
use super::case::Case;
use crate::findings::{Confidence, Evidence, Found};
use crate::rules::{self, Rule, rank_words};
use crate::text::{CollectiveTimeout, What};
use crate::time::Stamp;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// What one rank's watchdog says of one process group.
#[derive(Default)]
struct Report<'a> {
    timeout: Option<(&'a Alarm, &'a CollectiveTimeout)>,
    status: Option<&'a Alarm>,
    seq: Option<u64>,
    enqueued: Option<u64>,
    completed: Option<u64>,
}

/// Names the ranks that did not come, or that called something else, where the reports tell.
pub fn judge(case: &Case) -> Vec<(&'static Rule, Stamp, Found)> {
    let mut groups: BTreeMap<String, BTreeMap<u32, Report>> = BTreeMap::new();
    for alarm in case.alarms.iter() {
        let (group, pg_rank) = match &alarm.event.what {
            What::CollectiveTimeout(t) => (t.group.clone(), t.pg_rank),
            What::CollectiveStatus { group, pg_rank, .. } => (group.clone(), *pg_rank),
            _ => continue,
        };
        let Some(rank) = case.rank_of(alarm).or(pg_rank) else { continue };
        // Work-level lines of most versions do not name the group; the status line right behind them does.
        let group = group.filter(|g| g != "default_pg").unwrap_or_default();
        let report = groups.entry(group).or_default().entry(rank).or_default();
        match &alarm.event.what {
            What::CollectiveTimeout(t) if report.timeout.is_none() => {
                report.seq = t.seq.or(report.seq);
                report.timeout = Some((alarm, t));
            }
            What::CollectiveStatus { seq, enqueued, completed, .. } if report.status.is_none() => {
                report.status = Some(alarm);
                report.seq = report.seq.or(*seq);
                (report.enqueued, report.completed) = (*enqueued, *completed);
            }
            _ => {}
        }
    }
    merge_unnamed(&mut groups);
    groups.iter().filter_map(|(name, reports)| of_group(case, reports, name.is_empty())).collect()
}

/// What the reports leave open: ranks that say nothing, and ranks that wait elsewhere.
pub fn note(case: &Case) -> Option<String> {
    let mut reports: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for alarm in case.alarms.iter() {
        let (pg_rank, seq) = match &alarm.event.what {
            What::CollectiveTimeout(t) => (t.pg_rank, t.seq),
            What::CollectiveStatus { pg_rank, seq, .. } => (*pg_rank, *seq),
            _ => continue,
        };
        if let (Some(rank), Some(seq)) = (alarm.rank.or(pg_rank), seq) {
            reports.entry(rank).or_default().insert(seq);
        }
    }
    let first = |seqs: &BTreeSet<u64>| seqs.first().copied().unwrap_or(0);
    let highest = reports.values().map(first).max()?;
    let behind: Vec<u32> = reports.iter().filter(|(_, seqs)| first(seqs) < highest).map(|(rank, _)| *rank).collect();
    if let [rank] = behind.as_slice() {
        let at = first(&reports[rank]);
        return Some(format!(
            "rank {rank} waits at {at}, the others at {highest}: if they are of one process group, rank {rank} is behind"
        ));
    }
    let last = *reports.keys().next_back()?;
    let size = case.world_size().unwrap_or(last + 1).max(last + 1);
    let silent: Vec<u32> = (0..size).filter(|rank| !reports.contains_key(rank)).collect();
    (!silent.is_empty() && silent.len() <= reports.len()).then(|| {
        let verb = if silent.len() == 1 { "reports" } else { "report" };
        format!("{} {verb} no timeout in these inputs: look there first", rank_words(&silent))
    })
}

/// Timeouts without a group's name belong to the group in which the same rank has the same number.
fn merge_unnamed<'a>(groups: &mut BTreeMap<String, BTreeMap<u32, Report<'a>>>) {
    let Some(unnamed) = groups.remove("") else { return };
    let mut left: BTreeMap<u32, Report<'a>> = BTreeMap::new();
    for (rank, report) in unnamed {
        let home = groups.values_mut().find_map(|g| g.get_mut(&rank).filter(|r| r.timeout.is_none() && r.seq == report.seq));
        match home {
            Some(home) if report.status.is_none() => home.timeout = report.timeout,
            _ => {
                left.insert(rank, report);
            }
        }
    }
    if !left.is_empty() {
        groups.insert(String::new(), left);
    }
}

/// `is_world`: the group is PyTorch's default one, or is not named.
fn of_group(case: &Case, reports: &BTreeMap<u32, Report>, is_world: bool) -> Option<(&'static Rule, Stamp, Found)> {
    let timed_out: Vec<(&u32, &Report)> = reports.iter().filter(|(_, r)| r.timeout.is_some() || r.seq.is_some()).collect();
    // The collective that they wait in is the lowest: who got further than the others did so because it needed nobody.
    let seq = timed_out.iter().filter_map(|(_, r)| r.seq).min()?;
    let waiting: Vec<(u32, &Report)> = timed_out.iter().filter(|(_, r)| r.seq == Some(seq)).map(|(rank, r)| (**rank, *r)).collect();
    let first = waiting.iter().filter_map(|(_, r)| r.timeout).min_by_key(|(a, _)| (a.at, a.line))?;
    let since = began(first.0, first.1);
    let what = name(first.1, seq);
    mismatch(case, &waiting, seq, since).or_else(|| absent(case, reports, &waiting, &what, since, is_world))
}

/// They report at the end of the wait.
fn began(alarm: &Alarm, timeout: &CollectiveTimeout) -> Stamp {
    let waited = Duration::from_millis(timeout.ran_ms.or(timeout.timeout_ms).unwrap_or(0));
    alarm.at.unwrap_or_default().minus(waited)
}

/// `AllReduce 236`
fn name(timeout: &CollectiveTimeout, seq: u64) -> String {
    let op = timeout.op.as_deref().map_or("collective", words);
    format!("{op} {seq}")
}

/// NCCL's word for PyTorch's operation type.
fn words(op: &str) -> &str {
    match op {
        "ALLREDUCE" | "ALLREDUCE_COALESCED" => "AllReduce",
        "ALLGATHER" | "_ALLGATHER_BASE" | "ALLGATHER_COALESCED" => "AllGather",
        "REDUCE_SCATTER" | "_REDUCE_SCATTER_BASE" | "REDUCE_SCATTER_TENSOR_COALESCED" => "ReduceScatter",
        "BROADCAST" => "Broadcast",
        "REDUCE" => "Reduce",
        "GATHER" => "Gather",
        "SCATTER" => "Scatter",
        "ALLTOALL" | "ALLTOALL_BASE" => "AlltoAll",
        "SEND" => "Send",
        "RECV" | "RECVANYSOURCE" => "Recv",
        "BARRIER" => "Barrier",
        "COALESCED" => "coalesced operations",
        other => other,
    }
}

/// At one sequence number ranks called different things.
fn mismatch(case: &Case, waiting: &[(u32, &Report)], seq: u64, since: Stamp) -> Option<(&'static Rule, Stamp, Found)> {
    type Call<'a> = (Option<&'a str>, Option<u64>, Option<u64>);
    let mut calls: BTreeMap<Call, Vec<(u32, &Alarm)>> = BTreeMap::new();
    for (rank, report) in waiting {
        let Some((alarm, t)) = report.timeout else { continue };
        // Send and Recv count by pair; gather and scatter differ by rank on purpose.
        if matches!(t.op.as_deref(), None | Some("SEND" | "RECV" | "RECVANYSOURCE" | "GATHER" | "SCATTER" | "COALESCED" | "UNKNOWN")) {
            return None;
        }
        calls.entry((t.op.as_deref(), t.numel_in, t.numel_out)).or_default().push((*rank, alarm));
    }
    if calls.len() < 2 {
        return None;
    }
    let most = calls.iter().max_by_key(|(_, who)| who.len()).map(|(call, _)| *call)?;
    let majority = calls[&most].len();
    let differs: Vec<u32> = calls.iter().filter(|(call, _)| **call != most).flat_map(|(_, who)| who.iter().map(|w| w.0)).collect();
    let even = differs.len() >= majority;
    let say = |call: &Call| {
        let op = call.0.map_or("a collective", words);
        call.1.map_or(op.to_owned(), |n| format!("{op} of {n} elements"))
    };
    let called: Vec<String> = calls
        .iter()
        .map(|(call, who)| format!("{} called {}", rank_words(&who.iter().map(|w| w.0).collect::<Vec<_>>()), say(call)))
        .collect();
    let summary = if even {
        format!("at sequence number {seq} {}", called.join(", "))
    } else {
        let verb = if differs.len() == 1 { "differs" } else { "differ" };
        format!("{} {verb} at sequence number {seq}: {}", rank_words(&differs), called.join(", "))
    };
    let mut found = Found::new(format!("mismatch {seq}"), summary, since);
    found.confidence = if even { Confidence::Possible } else { Confidence::Likely };
    found.why = "the watchdogs of a process group report one sequence number with different operations or sizes".into();
    found.ranks = if even { Vec::new() } else { differs };
    found.next = Some(match found.ranks.first() {
        Some(rank) => format!("look at the code of rank {rank} before its collective {seq}: a branch, a batch or an order of its own"),
        None => {
            "look for a branch that depends on the rank; Flight Recorder dumps (TORCH_FR_BUFFER_SIZE=2000) show where each rank was".into()
        }
    });
    found.evidence = calls.values().filter_map(|who| who.first()).map(|(_, alarm)| case.proof(alarm)).collect();
    Some((rules::rule("collective-mismatch")?, since, found))
}

/// Ranks that did not come at all.
fn absent(
    case: &Case,
    reports: &BTreeMap<u32, Report>,
    waiting: &[(u32, &Report)],
    what: &str,
    since: Stamp,
    is_world: bool,
) -> Option<(&'static Rule, Stamp, Found)> {
    let seq = waiting.first().and_then(|(_, r)| r.seq)?;
    // Who issued less than the others stopped issuing.
    let behind: Vec<(u32, u64)> = reports.iter().filter_map(|(rank, r)| Some((*rank, r.enqueued?))).filter(|(_, e)| *e < seq).collect();
    let came: BTreeSet<u32> = reports.keys().copied().filter(|r| behind.iter().all(|(b, _)| b != r)).collect();
    let size = case.world_size().filter(|n| *n as usize >= came.len());
    // In a group that is not the whole world silence of others says nothing. Where its size is not told, the highest rank tells it.
    let highest = case.ranks.keys().chain(&came).max().map_or(0, |r| r + 1);
    let guessed = is_world && size.is_none() && highest >= 4 && came.len() * 8 >= highest as usize * 7;
    let silent: Vec<u32> = match size.or(guessed.then_some(highest)) {
        Some(n) if behind.is_empty() && came.len() * 2 > n as usize => (0..n).filter(|r| !came.contains(r)).collect(),
        _ => Vec::new(),
    };
    let waits = format!("{} {} in it", came.len(), if came.len() == 1 { "rank waited" } else { "ranks waited" });
    let enqueued: BTreeSet<u64> = waiting.iter().filter_map(|(_, r)| r.enqueued).collect();
    let issued = match (enqueued.first(), enqueued.last()) {
        (Some(a), Some(b)) if a == b => format!("the others had enqueued up to {b}"),
        (Some(a), Some(b)) => format!("the others had enqueued up to {a} to {b}"),
        _ => format!("{} reported it", rank_words(&came.iter().copied().collect::<Vec<_>>())),
    };
    let mut evidence: Vec<Evidence> = Vec::new();
    let (rule, ranks, summary, why, confidence) = if !behind.is_empty() {
        let ranks: Vec<u32> = behind.iter().map(|b| b.0).collect();
        evidence.extend(ranks.iter().take(3).filter_map(|r| reports[r].status).map(|a| case.proof(a)));
        let last: Vec<String> = behind.iter().take(3).map(|(r, e)| format!("rank {r} had enqueued up to {e}")).collect();
        let summary = format!("{} did not join {what}; {waits} until the watchdog ended it", rank_words(&ranks));
        ("hang-rank-absent", ranks, summary, format!("{}; {issued}", last.join(", ")), Confidence::Certain)
    } else if !silent.is_empty() {
        let summary = format!("{} did not join {what}; {waits} until the watchdog ended it", rank_words(&silent));
        let all = match size {
            Some(n) => format!("the group has {n} ranks"),
            None => format!("ranks up to {} are seen", highest - 1),
        };
        let why = format!("{} no timeout in these inputs, although {all}; {issued}", report_words(silent.len()));
        ("hang-rank-absent", silent, summary, why, if size.is_some() { Confidence::Likely } else { Confidence::Possible })
    } else if size == Some(came.len() as u32) {
        let summary = format!("all {} ranks joined {what}, and it did not finish", came.len());
        let why = "every rank reports the same collective: none is absent; the network, a GPU, or another communicator holds it".into();
        ("hang-symmetric", Vec::new(), summary, why, Confidence::Possible)
    } else {
        return None;
    };
    evidence.extend(waiting.iter().take(2).filter_map(|(_, r)| r.timeout).map(|(a, _)| case.proof(a)));
    evidence.extend(waiting.first().and_then(|(_, r)| r.status).map(|a| case.proof(a)));
    let mut found = Found::new(format!("{rule} {seq}"), summary, since);
    found.next = match ranks.first() {
        Some(rank) => Some(case.py_spy(*rank).unwrap_or_else(|| {
            format!(
                "read what rank {rank} printed last, and its node's kernel log; where it still runs: py-spy dump --nonblocking --pid PID"
            )
        })),
        None => Some("look for NCCL WARN and network errors before it; NCCL's RAS (ncclras -v) and Flight Recorder dumps tell more".into()),
    };
    found.why = why;
    found.ranks = ranks;
    found.confidence = confidence;
    found.evidence = evidence;
    Some((rules::rule(rule)?, since, found))
}

fn report_words(n: usize) -> &'static str {
    if n == 1 { "it reported" } else { "they reported" }
}
