//! What torchrun and other launchers print when processes end.

use nccl_top::logs::{Reader, What, WorkerFailure};

fn one(line: &str) -> What {
    let mut out = Vec::new();
    let mut reader = Reader::default();
    reader.line(line, &mut out);
    reader.idle(&mut out);
    // That there is a launcher is told beside what it says.
    out.retain(|event| !matches!(event.what, What::Launch(_)));
    assert_eq!(out.len(), 1, "{line}: {out:?}");
    out.remove(0).what
}

#[test]
fn torchrun_lines() {
    let l = "W1121 00:05:26.176000 3137 torch/distributed/elastic/multiprocessing/api.py:1012] ";
    assert_eq!(
        one(&format!("{l}Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid")),
        What::RunStart
    );
    assert_eq!(
        one(&format!("{l}failed (exitcode: -6) local_rank: 1 (pid: 31299) of binary: /usr/bin/python3")),
        What::WorkerFailed { exit_code: -6, local_rank: 1, pid: 31299 }
    );
    assert_eq!(
        one("ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 7) of binary: x"),
        What::WorkerFailed { exit_code: 1, local_rank: 0, pid: 7 }
    );
    let term = |pid, s: &str| What::Terminating { pid: Some(pid), signal: s.into() };
    assert_eq!(one(&format!("{l}Sending process 3234 closing signal SIGTERM")), term(3234, "SIGTERM"));
    assert_eq!(one("[15:58:29] WARNING  Sending process 197 closing signal SIGTERM            api.py:699"), term(197, "SIGTERM"));
    assert_eq!(
        one(&format!("{l}Unable to shutdown process 5 via Signals.SIGTERM, forcefully exiting via Signals.SIGKILL")),
        term(5, "SIGKILL")
    );
    assert_eq!(one(&format!("{l}Closing process 3234 via signal SIGTERM")), term(3234, "SIGTERM"));
    assert_eq!(one(&format!("{l}Unable to shutdown process 5 via 15, forcefully exiting via 9")), term(5, "SIGKILL"));
    assert_eq!(one(&format!("{l}Received 15 death signal, shutting down workers")), What::LauncherSignalled { signal: 15 });
    assert_eq!(one(&format!("{l}Received Signals.SIGHUP death signal, shutting down workers")), What::LauncherSignalled { signal: 1 });
}

#[test]
fn other_launchers_lines() {
    let rank = |w: What| match w {
        What::WorkerFailure(f) => (f.rank, f.pid, f.exit_code),
        other => panic!("{other:?}"),
    };
    assert_eq!(rank(one("Rank 3 crashed with exit code -9.")), (Some(3), None, Some(-9)));
    assert_eq!(rank(one("Global rank 3 (PID 123) exited with code -9")), (Some(3), Some(123), Some(-9)));
    assert_eq!(
        rank(one("mpirun noticed that process rank 3 with PID 1167 on node n2 exited on signal 11 (Segmentation fault).")),
        (Some(3), Some(1167), Some(-11))
    );
    assert_eq!(
        rank(one("mpirun noticed that process rank 1 with PID 0 on node n2 exited on signal 11 (Segmentation fault).")),
        (Some(1), None, Some(-11))
    );
    assert_eq!(
        one(" - (ip=10.0.0.2, pid=375) world_rank=1, local_rank=1, node_rank=0"),
        What::Placed { rank: 1, pid: 375, host: Some("10.0.0.2".into()) }
    );
    assert!(matches!(
        one("[2026-01-02 03:04:05,006] [INFO] [launch.py:316:sigkill_handler] Killing subprocess 1234"),
        What::Terminating { pid: Some(1234), .. }
    ));
}

fn table(lines: &str) -> (Vec<WorkerFailure>, bool) {
    let mut reader = Reader::default();
    let mut out = Vec::new();
    for l in lines.lines() {
        reader.line(l, &mut out);
    }
    let failures = out
        .into_iter()
        .filter_map(|e| match e.what {
            What::WorkerFailure(f) => Some(f),
            // A rank that its task's number is not.
            What::TasksAreLaunchers => None,
            // What `@record` has put into the table.
            What::Exception(told) => {
                assert_eq!((told.class.as_str(), told.message.as_str(), e.origin.rank), ("ValueError", "boom", Some(9)));
                None
            }
            other => panic!("{other:?}"),
        })
        .collect();
    (failures, !reader.is_inside())
}

const TABLE: &str = "\
train.py FAILED
-------------------------------------------------------
Failures:
[1]:
  time      : 2026-11-21_00:10:00
  host      : node-a
  rank      : 8 (local_rank: 0)
  exitcode  : -15 (pid: 31798)  (SIGTERM)
  error_file: <N/A>
  traceback : Signal 15 (SIGTERM) received by PID 31798
-------------------------------------------------------
Root Cause (first observed failure):
[0]:
  time      : 2026-11-21_00:10:01
  host      : node-a
  rank      : 9 (local_rank: 1)
  exitcode  : 1 (pid: 31799) 
  error_file: /tmp/error.json
  traceback : Traceback (most recent call last):
    File \"x.py\", line 1, in main
  ValueError: boom
=======================================================";

#[test]
fn the_failure_table() {
    let (f, idle) = table(TABLE);
    assert_eq!(f.len(), 2);
    assert_eq!((f[0].root, f[0].rank, f[0].local_rank, f[0].exit_code, f[0].pid), (false, Some(8), Some(0), Some(-15), Some(31798)));
    assert_eq!((f[1].root, f[1].rank, f[1].exit_code, f[1].host.as_deref()), (true, Some(9), Some(1), Some("node-a")));
    assert_eq!(f[1].time.as_ref().map(|t| t.second), Some(1));
    assert!(idle);
}

#[test]
fn one_failure_only_and_two_agents_at_once() {
    let (f, _) = table(
        "Failures:\n  <NO_OTHER_FAILURES>\n-----\nRoot Cause (first observed failure):\n[0]:\n  rank      : 5 (local_rank: 5)\n  exitcode  : -9 (pid: 3239)\n====",
    );
    assert_eq!(f.len(), 1);
    assert!(f[0].root);
    let both = TABLE.lines().flat_map(|l| [format!("0: {l}"), format!("1: {l}")]).collect::<Vec<_>>().join("\n");
    assert_eq!(table(&both).0.len(), 4);
}

#[test]
fn an_unfinished_table_is_forgotten() {
    let long = format!("Failures:\n[1]:\n{}", "x\n".repeat(300));
    assert!(table(&long).1);
}

#[test]
fn open_mpi_names_a_process_in_one_line_and_its_exit_code_in_the_next() {
    let read = |lines: &[&str]| {
        let (mut reader, mut out) = (Reader::default(), Vec::new());
        lines.iter().for_each(|line| reader.line(line, &mut out));
        reader.idle(&mut out);
        let failures = out.into_iter().filter_map(|e| match e.what {
            What::WorkerFailure(f) => Some((f.root, f.rank, f.exit_code)),
            What::Launch(_) => None,
            other => panic!("{other:?}"),
        });
        failures.collect::<Vec<_>>()
    };
    assert_eq!(read(&["  Process name: [[912,1],31]", "  Exit code:    3"]), [(true, Some(31), Some(3))]);
    assert_eq!(read(&["   Process name: [prterun-node-1-39521@1,31]", "   Exit code:    134"]), [(true, Some(31), Some(134))]);
    assert_eq!(read(&["  Process name: [[912,1],31]", "anything else"]), [(true, Some(31), None)]);
    assert_eq!(read(&["  Process name: [[912,1],31]"]), [(true, Some(31), None)]);
    assert_eq!(read(&["  Exit code:    3"]), []);
}
