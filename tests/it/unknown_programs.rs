//! Logs of programs that nobody knows: which line is the first failure, what it means by the words that all programs use, what follows from
//! it, and when there is no telling.

use crate::support::report;
use nccl_top::base::severity::Role;

/// `fail said-refused line 3 [2] who: text`
fn said(log: &str) -> String {
    let report = report(log);
    let verdict = report.verdict.as_str();
    let Some(f) = report.root_cause.map(|i| &report.findings[i]) else { return verdict.to_owned() };
    let line = f.evidence.first().and_then(|e| e.line).unwrap_or(0);
    format!("{verdict} {} line {line} {:?} {}", f.signature.unwrap_or(f.rule), f.ranks, f.summary)
}

fn all_are(cases: &[(&str, &str)]) {
    let all = cases.iter().map(|(want, log)| (*want, said(log)));
    let wrong: Vec<String> =
        all.filter(|(want, got)| !got.starts_with(want)).map(|(want, got)| format!("want {want}\n got {got}")).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn the_first_failure_with_its_reason() {
    all_are(&[
        (
            "fail said-refused line 2 [] cannot reach the store: dial tcp 10.9.0.4:2379: connect: connection refused (node c7)",
            "time=\"2026-05-04T10:00:00Z\" level=info msg=\"starting\"\n\
             time=\"2026-05-04T10:00:02Z\" level=error msg=\"cannot reach the store\" error=\"dial tcp 10.9.0.4:2379: connect: connection refused\" node=c7\n\
             time=\"2026-05-04T10:00:02Z\" level=fatal msg=\"giving up\"\n",
        ),
        (
            "fail said-port-taken line 1 [] [Acme][Listen] listen on ip[10.9.0.4] and port[17001] fail, the port has been used",
            "[ERROR] ACME(4120,python3):2026-08-02-11:22:57.070.463 [acme_socket.cc:100] [4120][Acme][Listen] listen on ip[10.9.0.4] and port[17001] fail, the port has been used by another process\n\
             [ERROR] ACME(4120,python3):2026-08-02-11:24:57.177.194 [acme_link.cc:77] [4131][Wait]wait for links timeout, rank[12] timeout[120]\n",
        ),
        (
            "fail said-port-taken line 2 [] thread 'feeder' panicked at src/net.rs:88:14: Os { code: 98, kind: AddrInUse",
            "2026-08-11T09:00:00.101Z  INFO acme: starting worker\nthread 'feeder' panicked at src/net.rs:88:14:\n\
             called `Result::unwrap()` on an `Err` value: Os { code: 98, kind: AddrInUse, message: \"Address already in use\" }\n\
             note: run with `RUST_BACKTRACE=1` environment variable to display a backtrace\n",
        ),
        (
            "fail said-settings line 3 [] acme config item: TOPOLOGY_FILE has an invalid value",
            "reading /etc/acme.cfg\nlog level is 4\nacme config item: TOPOLOGY_FILE has an invalid value\n",
        ),
        (
            "fail said-denied line 2 [] Reconciler error: the quota denied the request (name job-7)",
            "2026-07-01T10:00:01Z\tINFO\tStarting Controller\n\
             2026-07-01T10:02:31Z\tERROR\tReconciler error\t{\"controller\": \"trainjob\", \"name\": \"job-7\", \"error\": \"the quota denied the request\"}\n",
        ),
        (
            "fail said-timeout line 2 [101] rank 101: the exchange with its peers timed out",
            "[INFO] 2026-10-11-15:09:31 (PID:2969, Device:0, RankID:101) begins\n\
             [ERROR] 2026-10-11-15:09:34 (PID:2969, Device:0, RankID:101) the exchange with its peers timed out\n",
        ),
        (
            "fail said-peer-gone line 1 [] c7: exiting, because this agent was marked as dead",
            "{\"event_id\":\"03cdd9ea75bc\",\"host_name\":\"c7\",\"label\":\"MARKED\",\"message\":\"exiting, because this agent was marked as dead\",\"severity\":\"FATAL\",\"timestamp\":1750683600}\n",
        ),
        (
            "fail said-check-failed line 2 [] core\\comm.cc(28): Check failed: 0 unknown backend: acme",
            "[AC][WARNING] the length is not set, default to 32768.\n[AC][FATAL] core\\comm.cc(28): Check failed: 0 unknown backend: acme\n",
        ),
    ]);
}

#[test]
fn a_line_that_only_follows_gives_way() {
    all_are(&[
        (
            "fail slurm-prolog line 2 [] Slurm's prolog failed on c7",
            "salloc: Granted job allocation 2354\nsalloc: Prolog failure on node c7\nsalloc: Job allocation 2354 has been revoked.\n\
             salloc: error: Job allocation 2354 has been revoked\n",
        ),
        (
            "fail said-file-missing line 1 [2] [rank 2] reader.cpp:88: cannot open shard /data/0017.bin: No such file",
            "[rank 2] reader.cpp:88: cannot open shard /data/0017.bin: No such file or directory\n\
             --------------------------------------------------------------------------\n\
             MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\n",
        ),
    ]);
    // What waits for somebody gives way to why he did not come, and not to somebody else who waits.
    all_are(&[
        (
            "fail said-settings line 1 [] Aborting the ring with Invalid argument: index 14",
            "2026-08-17 06:01:04.420413: E acme/ring.cc:274] Aborting the ring with Invalid argument: index 14\n\t [[node 7]]\n\t [[node 8]]\n\
             Additional GRPC error information from remote target /job:worker/replica:0/task:0:\n",
        ),
        (
            "fail tensorflow-remote line 2 [0] ",
            "2026-08-17 06:01:04.420413: E acme/ring.cc:274] the ring timed out\n\
             Additional GRPC error information from remote target /job:worker/replica:0/task:0:\n",
        ),
    ]);
    let report = report(
        "2026-05-04T10:00:00Z ERROR feeder: disk /data: no space left on device\n2026-05-04T10:00:01Z ERROR feeder: shard 7 is incomplete\n\
         2026-05-04T10:00:02Z ERROR server: Request failed\n",
    );
    let roles: Vec<_> = report.findings.iter().map(|f| (f.signature.unwrap_or_default(), f.role)).collect();
    assert_eq!(roles[0], ("said-disk-full", Role::Root));
    assert!(roles[1..].iter().all(|role| *role == ("error-follows", Role::Cascade)), "{roles:?}");
}

#[test]
fn what_the_program_gets_over_is_a_warning() {
    all_are(&[
        (
            "warn said-refused line 1 ",
            "2026-05-04T10:00:00Z ERROR feeder: shard 7: connection refused\n2026-05-04T10:00:01Z INFO feeder: reading shard 7 of 9\n\
             2026-05-04T10:00:02Z INFO feeder: reading shard 8 of 9\n2026-05-04T10:00:03Z INFO feeder: serving\n",
        ),
        ("warn said-refused line 1 ", "2026-05-04T10:00:00Z ERROR feeder: connection refused, retrying in 5 s\n"),
    ]);
}

#[test]
fn nothing_is_called_fine_without_proof() {
    // No level, no time, no known word.
    assert_eq!(said("acme 3.1 (build 9)\nopening 8 channels\nchannel 0 up\nwaiting for peers\n"), "unknown");
    // Settings and counters that only name a failure.
    assert_eq!(
        said(
            "2026-05-04T10:00:00Z INFO acme: timeout=600 fail_fast=false\n2026-05-04T10:00:01Z INFO acme: 0 errors\n2026-05-04T10:00:02Z INFO acme: serving\n"
        ),
        "ok"
    );
    // A word of trouble at level INFO is no error, and no proof that all is well.
    assert_eq!(
        said(
            "2026-05-04T10:00:00Z INFO acme: up\n2026-05-04T10:00:01Z INFO acme: 3 peers are dead\n2026-05-04T10:00:02Z INFO acme: serving\n"
        ),
        "unknown"
    );
}

#[test]
fn a_driver_whose_device_does_not_come_up() {
    all_are(&[(
        "fail driver-error line 2 [] mlx5_core reports an error of 0000:03:00.0: cap_setup failed; then probe of 0000:03:00.0 failed with error -22",
        "[   13.925245] mlx5_core 0000:03:00.0: enabling device (0000 -> 0002)\n[   14.672173] mlx5_core 0000:03:00.0: cap_setup failed\n\
         [   15.059582] mlx5_core: probe of 0000:03:00.0 failed with error -22\n",
    )]);
    // A driver that nobody has listed.
    all_are(&[(
        "warn driver-error line 1 [] acmenic reports an error of 0000:81:00.0: queue 7 timed out",
        "[   93.925245] acmenic 0000:81:00.0 ens7f0: queue 7 timed out\n[   94.672173] acmenic 0000:81:00.0: queue 7 is back\n",
    )]);
}

#[test]
fn a_sentence_that_a_terminal_has_wrapped() {
    all_are(&[(
        "fail rank-exited line 2 [3] rank 3 (pid 20113) ended: killed by signal 11 (SIGSEGV)",
        "--------------------------------------------------------------------------\n\
         prterun noticed that process rank 3 with PID 20113 on node c7 exited on\nsignal 11 (Segmentation fault).\n\
         --------------------------------------------------------------------------\n",
    )]);
}
