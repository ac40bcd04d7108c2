//! What PyTorch's watchdogs print, from 2.1 on.

use nccl_top::logs::{CollectiveTimeout, Reader, TextEvent, What};

/// What lines tell, but for entries of the catalogue.
fn all(lines: &[&str]) -> Vec<TextEvent> {
    let mut out = Vec::new();
    let mut reader = Reader::default();
    for l in lines {
        reader.line(l, &mut out);
    }
    out.retain(|e| !matches!(e.what, What::Signed { .. }));
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
    assert_eq!((t.pg_rank, rank, t.op.as_deref(), t.numel_in, t.numel_out), (Some(2), Some(6), Some("_ALLGATHER_BASE"), Some(16), None));
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
        all(&[&format!("{c}[PG ID 0 PG GUID 0(default_pg) Rank 3] ProcessGroupNCCL preparing to dump debug info. Include stack trace: 1")]),
        []
    );
    assert_eq!(all(&["my watchdog got stuck for lunch"]), []);
}
