//! What ProcessGroupNCCL and its successor `nccl2` (torch 2.15) say about collectives that do not end.

use super::{Told, emit, leading_number, number_after, words};
use crate::base::clean;
use crate::logs::prefix::Peeled;
use crate::logs::{CollectiveTimeout, Origin, TextEvent, What};
use aho_corasick::AhoCorasick;
use memchr::memmem;
use std::collections::VecDeque;
use std::sync::LazyLock;

/// Timeouts reported so far: `what():` and the dying watchdog repeat them.
#[derive(Clone, Default, PartialEq)]
pub struct Seen {
    timeouts: VecDeque<(Option<u32>, Key)>,
    told: Told,
}

/// seq, rank in the group, operation
type Key = (Option<u64>, Option<u32>, Option<String>);

const MAX_TIMEOUTS: usize = 4096;
const MAX_TEXT: usize = 400;
/// Ranks whose lines were glued together.
const MAX_IN_LINE: usize = 64;

/// Said once and for all: the process, or its watchdog, ends.
const ENDING: &[&str] = &[
    "taking the entire process down",
    "watchdog thread terminated with exception",
    "watchdog got stuck for",
    "Heartbeat monitor timed out",
    "NCCL monitor thread timeout",
    "monitoring thread detects no heartbeat",
    "Received a dump signal",
    "Received a timeout signal from this local rank",
    "Received a global timeout from another rank",
    "Received a global dump signal from rank",
    "Observed flight recorder dump signal",
    "signal dumping",
    "Terminating the process after attempting to dump",
    "Some NCCL operations have failed or timed out",
    "remote error detected from rank",
    "following async exception",
    "found async exception",
    "Aborting process on rank",
    "nccl hit async error",
    "Async error on rank",
    "Failed to clean up NCCL communicator after",
    "Timeout watchdog caught",
];

pub fn read(p: &Peeled<'_>, seen: &mut Seen, out: &mut Vec<TextEvent>) {
    let text = p.rest;
    static ANY: LazyLock<AhoCorasick> = LazyLock::new(|| words(&[ENDING, &[CAUGHT, BLOCKING, NCCL2, OPTIONS, "ast enqueued "]].concat()));
    if !ANY.is_match(text) {
        return;
    }
    let p = &Peeled { origin: origin_of(p), ..*p };
    timeouts(p, seen, out);
    if let Some((_, options)) = text.split_once(OPTIONS)
        && let Some(ms) = number_after(options, "TIMEOUT(ms): ")
        && guid(text).is_none_or(|guid| guid == "0")
    {
        emit(out, &p.origin, What::WatchdogTimeout { ms });
    }
    if let Some(what) = status(text) {
        emit(out, &p.origin, what);
    }
    let quoted = text.contains("what():");
    // Advice of other programs may hold the same words; the prefix makes them PyTorch's.
    let ours = p.cpp || text.contains("Rank ") || text.contains("[TC]");
    if !quoted && ours && ENDING.iter().any(|m| text.contains(m)) {
        let text = clean::clip(body(text), MAX_TEXT).into_owned();
        if seen.told.first_time(&(&p.origin.rank, pg_rank(p.rest), &text)) {
            emit(out, &p.origin, What::TakingDown { text });
        }
    }
}

/// Whether a line ends before its record does: a terminal broke it at its width.
pub fn is_torn(text: &str) -> bool {
    if let Some(at) = text.rfind(CAUGHT) {
        // Up to 1.x nothing follows the number; the last words are those of all versions.
        let of = text[at + CAUGHT.len()..].trim_start_matches(':').trim();
        return of.is_empty() || of.contains("WorkNCCL(") && !of.contains("milliseconds before timing out");
    }
    const TERMINATED: &str = "NCCL watchdog thread terminated with exception:";
    const LEAST_TERMINATED: usize = "NCCL watchdog thread".len();
    if (LEAST_TERMINATED..=TERMINATED.len()).any(|n| text.trim_end().ends_with(TERMINATED[..n].trim_end())) {
        return true;
    }
    const LEAST: usize = "Watchdog c".len();
    if (LEAST..CAUGHT.len()).any(|n| text.ends_with(&CAUGHT[..n])) {
        return true;
    }
    let numbers = ["PG status: ", "last enqueued NCCL wor", "last enqueued work"].iter().filter_map(|m| text.rfind(m)).min();
    numbers.is_some_and(|at| status(text).is_none() && !text[at..].contains("Additional"))
}

/// What timed out stands in the next line, as some loggers print it.
pub fn is_head(text: &str) -> bool {
    text.trim_end().strip_suffix(':').is_some_and(|head| head.ends_with(CAUGHT))
}

/// In the group of all ranks the text has the rank of its writer: `what():` has no other, and what stands in front of it may be torchrun's
/// role of that name with the number on its node.
pub fn origin_of(p: &Peeled<'_>) -> Origin {
    let mut origin = p.origin.clone();
    let (named, numbered) = (group(p.rest), guid(p.rest));
    let is_of_all = named.as_deref() == Some("default_pg") && numbered.as_deref().is_none_or(|guid| guid == "0");
    let is_quoted = p.rest.contains("what():");
    if is_of_all && (is_quoted || origin.rank.is_some()) {
        origin.rank = pg_rank(p.rest).or(origin.rank);
    }
    origin
}

const CAUGHT: &str = "Watchdog caught collective operation timeout";
/// Printed for each process group that is created, at level INFO.
const OPTIONS: &str = "ProcessGroupNCCL initialization options: ";
const BLOCKING: &str = "timed out in blocking wait";
const NCCL2: &str = "Operation timed out after ";

fn timeouts(p: &Peeled<'_>, seen: &mut Seen, out: &mut Vec<TextEvent>) {
    let text = p.rest;
    let mut ends: Vec<usize> = memmem::find_iter(text.as_bytes(), CAUGHT).take(MAX_IN_LINE).collect();
    ends.push(text.len());
    let mut from = 0;
    for pair in ends.windows(2) {
        let (before, window) = (&text[from..pair[0]], &text[pair[0]..pair[1]]);
        from = pair[0];
        // Without what it was, only its own head makes it more than a mention.
        if !(window[CAUGHT.len()..].starts_with(": ") || p.cpp || before.contains("Rank ")) {
            continue;
        }
        let (group, guid, pg_rank) = (group(before), guid(before), pg_rank(before));
        tell(p, seen, out, CollectiveTimeout { group, guid, pg_rank, ..work(window) });
    }
    if let Some((before, _)) = text.split_once(BLOCKING) {
        let from = before.rfind("WorkNCCL(").unwrap_or(0);
        tell(
            p,
            seen,
            out,
            CollectiveTimeout { group: group(before), guid: guid(before), pg_rank: pg_rank(before), ..work(&before[from..]) },
        );
    }
    if let Some(ms) = number_after(text, NCCL2).filter(|_| text.contains("[TC]")) {
        let t = CollectiveTimeout { group: group(text), pg_rank: pg_rank(text), timeout_ms: Some(ms), ..CollectiveTimeout::default() };
        tell(p, seen, out, t);
    }
}

fn tell(p: &Peeled<'_>, seen: &mut Seen, out: &mut Vec<TextEvent>, t: CollectiveTimeout) {
    let rank = p.origin.rank;
    let key = (t.seq, t.pg_rank, t.op.clone());
    let quoted = p.rest.contains("what():");
    let again = seen.timeouts.iter().any(|(r, k)| *k == key && (*r == rank || r.is_none() || rank.is_none() && quoted));
    // The exception of nccl2 repeats its log line without the numbers.
    let bare = t.seq.is_none() && t.timeout_ms.is_none();
    if again || bare && seen.timeouts.iter().any(|(r, _)| *r == rank || rank.is_none()) {
        return;
    }
    if seen.timeouts.len() == MAX_TIMEOUTS {
        seen.timeouts.pop_front();
    }
    seen.timeouts.push_back((rank, key));
    emit(out, &p.origin, What::CollectiveTimeout(t));
}

/// -1, which a batch of sends and receives has in place of its elements.
const NOT_SET: u64 = u64::MAX;

/// `WorkNCCL(SeqNum=236, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=20000) ran for 20001 milliseconds`
fn work(window: &str) -> CollectiveTimeout {
    // One without a comma behind it was cut by a terminal: it may be the start of another name.
    let op = window.split_once("OpType=").and_then(|(_, t)| {
        let n = t.bytes().take_while(|b| b.is_ascii_alphanumeric() || *b == b'_').count();
        t[n..].starts_with([',', ')']).then(|| &t[..n])
    });
    CollectiveTimeout {
        seq: number_after(window, "SeqNum="),
        op: op.filter(|o| !o.is_empty()).map(str::to_string),
        numel_in: number_after(window, "NumelIn=").filter(|n| *n != NOT_SET),
        numel_out: number_after(window, "NumelOut=").filter(|n| *n != NOT_SET),
        timeout_ms: number_after(window, "Timeout(ms)="),
        ran_ms: number_after(window, "ran for "),
        ..CollectiveTimeout::default()
    }
}

/// The three numbers, in the words of 2.3, 2.4, 2.6 and 2.13, and in the dump lines.
fn status(text: &str) -> Option<What> {
    let at = ["last enqueued ", "Last enqueued "].iter().find_map(|m| text.find(m))?;
    let tail = &text[at + "last enqueued ".len()..];
    let tail = tail.strip_prefix("NCCL ").unwrap_or(tail).strip_prefix("work: ")?;
    let (_, done) = tail.split_once("last completed ")?;
    let done = done.strip_prefix("NCCL ").unwrap_or(done).strip_prefix("work: ")?;
    // -1 is "none yet".
    let count = |t: &str| if t.starts_with("-1") { Some(None) } else { leading_number(t).map(Some) };
    let before = &text[..at];
    let seq = ["at work sequence id: ", "detected by watchdog at work: ", "Timeout at NCCL work: "]
        .iter()
        .find_map(|m| number_after(before, m))
        .filter(|seq| *seq < u64::MAX);
    let (group, guid, pg_rank) = (group(before), guid(before), pg_rank(before));
    let (enqueued, completed) = (count(tail)?, count(done)?);
    // A number that was never set: no rank completes what it has not enqueued.
    let completed = completed.filter(|done| enqueued.is_none_or(|all| *done <= all));
    Some(What::CollectiveStatus { group, guid, pg_rank, seq, enqueued, completed })
}

/// `default_pg` of `[PG ID 0 PG GUID 0(default_pg) Rank 3]`, else the GUID, else the number; the name of `[TC][rank=3][name=…]`.
fn group(text: &str) -> Option<String> {
    if let Some((_, tail)) = text.split_once("[TC]") {
        let name = tail.split_once("[name=")?.1.split(']').next()?;
        return Some(name.to_string()).filter(|n| !n.is_empty());
    }
    let inner = text.split_once("[PG ")?.1.split_once(']')?.0;
    let (head, _) = inner.rsplit_once("Rank ")?;
    if let Some((_, d)) = head.split_once('(') {
        return Some(d.split(')').next()?.to_string());
    }
    let head = head.trim_end();
    let id = head.split_once("GUID ").map(|(_, g)| g).or_else(|| head.strip_prefix("ID ")).unwrap_or(head);
    Some(id.split(' ').next()?.to_string()).filter(|g| !g.is_empty())
}

/// `3` of `[PG ID 2 PG GUID 3(mesh_tp) Rank 0]`; before 2.5 there is none.
fn guid(text: &str) -> Option<String> {
    let inner = text.split_once("[PG ")?.1.split_once(']')?.0;
    let guid = inner.split_once("GUID ")?.1.split(['(', ' ']).next()?;
    Some(guid.to_owned()).filter(|g| !g.is_empty())
}

/// The last `Rank 3]` or `[rank=3]`.
fn pg_rank(text: &str) -> Option<u32> {
    memmem::rfind_iter(text.as_bytes(), "Rank ")
        .find_map(|at| {
            let tail = &text[at + 5..];
            let n: u32 = leading_number(tail)?;
            tail.trim_start_matches(|c: char| c.is_ascii_digit()).starts_with(']').then_some(n)
        })
        .or_else(|| number_after(text, "[rank="))
}

/// The text without the groups in front of it.
fn body(text: &str) -> &str {
    let mut rest = text.trim_start();
    while let Some(tail) = rest.strip_prefix('[') {
        let Some((inner, after)) = tail.split_once(']') else { break };
        if !["PG ", "Rank ", "TC", "rank=", "name="].iter().any(|m| inner.starts_with(m)) {
            break;
        }
        rest = after.trim_start();
    }
    rest.trim_end()
}
