//! What ProcessGroupNCCL and its successor `nccl2` (torch 2.15) say about collectives that do not end.

use super::{Told, emit, leading_number, number_after, words};
use crate::text::prefix::Peeled;
use crate::text::{CollectiveTimeout, Origin, TextEvent, What, clean};
use aho_corasick::AhoCorasick;
use memchr::memmem;
use std::collections::VecDeque;
use std::sync::LazyLock;

/// Timeouts told so far: `what():` and the dying watchdog repeat them.
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
    static ANY: LazyLock<AhoCorasick> = LazyLock::new(|| words(&[ENDING, &[CAUGHT, BLOCKING, NCCL2, "ast enqueued "]].concat()));
    if !ANY.is_match(text) {
        return;
    }
    timeouts(p, seen, out);
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

/// `what():` has no prefix: the rank stands in its text.
pub fn origin_of(p: &Peeled<'_>) -> Origin {
    let mut origin = p.origin.clone();
    if origin.rank.is_none() && p.rest.contains("what():") && group(p.rest).as_deref() == Some("default_pg") {
        origin.rank = pg_rank(p.rest);
    }
    origin
}

const CAUGHT: &str = "Watchdog caught collective operation timeout: ";
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

/// `WorkNCCL(SeqNum=236, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=20000) ran for 20001 milliseconds`
fn work(window: &str) -> CollectiveTimeout {
    let op = window.split_once("OpType=").map(|(_, t)| t.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap_or(""));
    CollectiveTimeout {
        seq: number_after(window, "SeqNum="),
        op: op.filter(|o| !o.is_empty()).map(str::to_string),
        numel_in: number_after(window, "NumelIn="),
        numel_out: number_after(window, "NumelOut="),
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
    let seq =
        ["at work sequence id: ", "detected by watchdog at work: ", "Timeout at NCCL work: "].iter().find_map(|m| number_after(before, m));
    let (group, guid, pg_rank) = (group(before), guid(before), pg_rank(before));
    Some(What::CollectiveStatus { group, guid, pg_rank, seq, enqueued: count(tail)?, completed: count(done)? })
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::prefix::peel;

    fn all(lines: &[&str]) -> Vec<TextEvent> {
        let mut out = Vec::new();
        let mut seen = Seen::default();
        for l in lines {
            read(&peel(l), &mut seen, &mut out);
        }
        out
    }

    fn timeout(line: &str) -> (CollectiveTimeout, Option<u32>) {
        let got = all(&[line]);
        match got.as_slice() {
            [TextEvent { origin, what: What::CollectiveTimeout(t), .. }] => (t.clone(), origin.rank),
            other => panic!("{line}: {other:?}"),
        }
    }

    #[test]
    fn timeouts_from_2_1_to_2_15() {
        let (t, rank) = timeout(
            "[E ProcessGroupNCCL.cpp:474] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=96120, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 1800123 milliseconds before timing out.",
        );
        assert_eq!(
            (t.seq, t.op.as_deref(), t.numel_in, t.timeout_ms, t.ran_ms),
            (Some(96120), Some("ALLREDUCE"), None, Some(1_800_000), Some(1_800_123))
        );
        assert_eq!((t.pg_rank, rank), (Some(3), None));
        let (t, rank) = timeout(
            "[rank6]:[E1121 00:05:59.019923315 ProcessGroupNCCL.cpp:689] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=116, OpType=_ALLGATHER_BASE, NumelIn=16, NumelOut=18446744073709551615, Timeout(ms)=12000) ran for 12003 milliseconds before timing out.",
        );
        assert_eq!(
            (t.pg_rank, rank, t.op.as_deref(), t.numel_in, t.numel_out),
            (Some(2), Some(6), Some("_ALLGATHER_BASE"), Some(16), Some(u64::MAX))
        );
        let (t, _) = timeout(
            "[rank6]:[E1121 00:05:59.019923315 ProcessGroupNCCL.cpp:689] [PG GUID 0(default_pg) Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=SEND, NumelIn=1, NumelOut=1, Timeout(ms)=1) ran for 2 milliseconds before timing out.",
        );
        assert_eq!((t.group.as_deref(), t.pg_rank), (Some("default_pg"), Some(6)));
        let (t, _) = timeout(
            "[rank0]:[E1121 00:05:59.01 ProcessGroupNCCL.cpp:1] [Rank 0] Work WorkNCCL(SeqNum=5, OpType=BROADCAST, NumelIn=4, NumelOut=4, Timeout(ms)=9) timed out in blocking wait.",
        );
        assert_eq!((t.seq, t.op.as_deref(), t.pg_rank), (Some(5), Some("BROADCAST"), Some(0)));
    }

    #[test]
    fn timeouts_of_nccl2() {
        let lines = [
            "[rank3]:[E1121 00:10:37.678827192 WorkNCCL.cpp:120] [TC][rank=1][name=dp_group] Operation timed out after 600000 ms",
            "[rank3]:[E1121 00:10:37.678827192 TorchCommNCCL.cpp:120] [TC][rank=1][name=dp_group] Aborting process on rank 1 due to timeout - timeout watchdog detected operation timeout",
            "[rank3]: Watchdog caught collective operation timeout: NCCL operation timed out",
        ];
        let got = all(&lines);
        assert_eq!(got.len(), 2, "{got:?}");
        let What::CollectiveTimeout(t) = &got[0].what else { panic!("{got:?}") };
        assert_eq!((t.group.as_deref(), t.pg_rank, t.timeout_ms, got[0].origin.rank), (Some("dp_group"), Some(1), Some(600_000), Some(3)));
        assert_eq!(
            got[1].what,
            What::TakingDown { text: "Aborting process on rank 1 due to timeout - timeout watchdog detected operation timeout".into() }
        );
        assert_eq!(all(&lines[2..]).len(), 1);
    }

    #[test]
    fn a_repeat_in_what_is_not_a_second_timeout() {
        let work = "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=10) ran for 11 milliseconds before timing out.";
        let got = all(&[
            &format!("[rank2]:[E1121 00:05:59.01 ProcessGroupNCCL.cpp:689] [Rank 2] {work}"),
            &format!(
                "[rank2]:[E1121 00:06:59.01 ProcessGroupNCCL.cpp:2] [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminated with exception: [Rank 2] {work}"
            ),
            &format!(
                "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminated with exception: [Rank 2] {work}"
            ),
        ]);
        assert_eq!(got.iter().filter(|e| matches!(e.what, What::CollectiveTimeout(_))).count(), 1);
        assert_eq!(got.iter().filter(|e| matches!(e.what, What::TakingDown { .. })).count(), 1);
        let other = format!("[rank3]:[E1121 00:05:59.01 ProcessGroupNCCL.cpp:689] [Rank 2] {work}");
        assert_eq!(all(&[&format!("[rank2]:[E1121 00:05:59.01 P.cpp:689] [Rank 2] {work}"), &other]).len(), 2);
        assert_eq!(all(&[&format!("[Rank 1] {work}  what():  [Rank 2] {work}")]).len(), 2);
    }

    #[test]
    fn status_in_all_versions() {
        let st = |line: &str| match all(&[line]).into_iter().find(|e| matches!(e.what, What::CollectiveStatus { .. })).map(|e| e.what) {
            Some(What::CollectiveStatus { group, pg_rank, seq, enqueued, completed, .. }) => {
                (group.unwrap_or_default(), pg_rank, seq, enqueued, completed)
            }
            other => panic!("{line}: {other:?}"),
        };
        let c = "[rank3]:[E1121 00:04:23.009188991 ProcessGroupNCCL.cpp:2303] ";
        let want = |g: &str, seq| (g.to_string(), Some(3), seq, Some(247), Some(235));
        assert_eq!(
            st(&format!("{c}[PG 1 Rank 3] Timeout at NCCL work: 236, last enqueued NCCL work: 247, last completed NCCL work: 235.")),
            want("1", Some(236))
        );
        assert_eq!(
            st(&format!(
                "{c}[PG 0 (default_pg) Rank 3] Exception (either an error or timeout) detected by watchdog at work: 236, last enqueued NCCL work: 247, last completed NCCL work: 235."
            )),
            want("default_pg", Some(236))
        );
        assert_eq!(
            st(&format!(
                "{c}[PG ID 0 PG GUID 0(default_pg) Rank 3]  failure detected by watchdog at work sequence id: 236 PG status: last enqueued work: 247, last completed work: 235"
            )),
            want("default_pg", Some(236))
        );
        assert_eq!(
            st(&format!(
                "{c}[PG ID 2 PG GUID 7 Rank 3]  failure detected by watchdog at work sequence id: 236 PG status: last enqueued work: 247, last started work: 236 (ALLREDUCE), last completed work: 235"
            )),
            want("7", Some(236))
        );
        assert_eq!(
            st(&format!(
                "{c}[PG ID 0 PG GUID 0(default_pg) Rank 3] Received a dump signal due to a collective timeout from  rank 1 and we will try our best to dump the debug info. Last enqueued NCCL work: 247, last completed NCCL work: 235.This is most likely"
            )),
            want("default_pg", None)
        );
        assert_eq!(
            st(
                "[Rank 3] Received a timeout signal from this local rank and will start to dump the debug info. Last enqueued NCCL work: -1, last completed NCCL work: -1."
            ),
            (String::new(), Some(3), None, None, None)
        );
        assert!(!all(&["last enqueued work: x, last completed work: 3"]).iter().any(|e| matches!(e.what, What::CollectiveStatus { .. })));
    }

    #[test]
    fn teardown_and_dump_lines() {
        let c = "[rank3]:[E1121 00:04:23.009188991 ProcessGroupNCCL.cpp:2303] ";
        for text in [
            "[Rank 3] To avoid data inconsistency, we are taking the entire process down.",
            "[Rank 3] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels",
            "[Rank 3] NCCL watchdog thread terminated with exception: x",
            "[PG 1 Rank 3] Process group watchdog thread terminated with exception: x",
            "[PG 1 Rank 3] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=3",
            "[PG 1 Rank 3] ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring",
            "NCCL monitor thread timeout. Basically, this could be due to CUDA or NCCL calls being unexpectedly blocking",
            "[Rank 3] monitoring thread detects no heartbeat and will finally kill the process!",
            "[PG ID 0 PG GUID 0(default_pg) Rank 3] Observed flight recorder dump signal from another rank via TCPStore.",
            "[PG ID 0 PG GUID 0(default_pg) Rank 3] First PG on this rank to signal dumping.",
            "[PG ID 0 PG GUID 0(default_pg) Rank 3] [PG ID 0 PG GUID 0(default_pg) Rank 3] Terminating the process after attempting to dump debug info, due to collective timeout or exception.",
            "[Rank 3] Collective WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1) raised the following async exception: x",
            "[PG ID 0 PG GUID 0(default_pg) Rank 3]  remote error detected from rank: 5",
            "[TC][rank=3][name=x] nccl hit async error on rank 3: internal error",
        ] {
            let got = all(&[&format!("{c}{text}")]);
            let [TextEvent { origin, what: What::TakingDown { text: told }, .. }] = got.as_slice() else { panic!("{text}: {got:?}") };
            assert_eq!(origin.rank, Some(3));
            assert!(!told.starts_with('['), "{told}");
        }
        assert_eq!(
            all(&[&format!(
                "{c}[PG ID 0 PG GUID 0(default_pg) Rank 3] ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1"
            )]),
            []
        );
        assert_eq!(all(&["my watchdog got stuck for lunch"]), []);
    }
}
