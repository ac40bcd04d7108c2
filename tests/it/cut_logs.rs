//! Pieces of logs as people hand them over: they begin in the middle of a record, end in the middle of another, and have lost what
//! stood around them.

use crate::support::report;
use nccl_top::archive::Report;
use nccl_top::base::severity::Role;
use nccl_top::base::time::Zone;
use nccl_top::output::check::{facts, text};
use nccl_top::rules::area::Area;

/// `fail rank-exited [3] rank 3 ended…`
fn said(report: &Report) -> String {
    let verdict = report.verdict.as_str();
    match report.root_cause.map(|i| &report.findings[i]) {
        Some(f) => format!("{verdict} {} {:?} {}", f.rule, f.ranks, f.summary),
        None => verdict.to_owned(),
    }
}

fn all_are(cases: &[(&str, &str)]) {
    let told = cases.iter().map(|(want, log)| (*want, said(&report(log))));
    let wrong: Vec<String> =
        told.filter(|(want, got)| !got.starts_with(want)).map(|(want, got)| format!("want {want}\n got {got}")).collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The report as `check` prints it, in one line.
fn printed(log: &str) -> String {
    let style = text::Style { color: false, ascii: false, width: 400 };
    text::text(&report(log), Zone::UTC, &style).split_whitespace().collect::<Vec<_>>().join(" ")
}

fn timeout(rank: u32, seq: u32) -> String {
    format!(
        "[rank{rank}]:[E517 11:40:02.40826{rank} ProcessGroupNCCL.cpp:607] [Rank {rank}] Watchdog caught collective operation timeout: \
         WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=77, NumelOut=77, Timeout(ms)=600000) ran for 600031 milliseconds before timing out.\n"
    )
}

fn status(rank: u32, seq: u32) -> String {
    format!(
        "[rank{rank}]:[E517 11:40:02.46515{rank} ProcessGroupNCCL.cpp:1664] [PG 2 Rank {rank}] Exception (either an error or timeout) detected by \
         watchdog at work: {seq}, last enqueued NCCL work: {}, last completed NCCL work: {}.\n",
        seq + 2,
        seq - 1
    )
}

#[test]
fn who_may_report_next_is_not_called_absent() {
    // The log stops among the reports: ranks 1 and 4 have given half of theirs, rank 2 none.
    let stops = [timeout(0, 71), timeout(4, 71), status(0, 71), status(3, 71)].concat();
    assert_eq!(said(&report(&stops)), "fail collective-timeout [] ALLREDUCE 71 timed out after 600 s; ranks 0, 3 and 4 report it");
    assert!(report(&stops).findings.iter().all(|f| f.rule != "hang-rank-absent"));
    // Whole reports of all but one name it.
    let whole: String = [0, 1, 3, 4].map(|rank| timeout(rank, 71) + &status(rank, 71)).concat();
    assert!(said(&report(&whole)).starts_with("fail hang-rank-absent [2] rank 2 did not join AllReduce 71"), "{}", said(&report(&whole)));
}

#[test]
fn others_that_print_the_same_are_named() {
    let said_by = printed(&[timeout(3, 9), timeout(1, 9), timeout(2, 9)].concat());
    assert!(said_by.contains("said by rank 1; ranks 2 and 3, too"), "{said_by}");
    let oom = |dev: u32| format!("node-3:{}:900 [{dev}] include/alloc.h:228 NCCL WARN Cuda failure 2 'out of memory'\n", 100 + dev);
    let said_by = printed(&[oom(5), oom(1), oom(0)].concat());
    assert!(said_by.contains("CUDA device 5, pid 105; CUDA devices 0 and 1 of it, too"), "{said_by}");
}

#[test]
fn in_the_group_of_all_ranks_the_text_knows_its_writer() {
    // torchrun's role is called `rank`, and this is the first process of the third node.
    let line = "[rank0]:  what():  [PG ID 0 PG GUID 0(default_pg) Rank 16] Process group watchdog thread terminated with exception: [Rank 16] Watchdog \
                caught collective operation timeout: WorkNCCL(SeqNum=840, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=300000) ran for 300011 \
                milliseconds before timing out.\n";
    assert_eq!(said(&report(line)), "fail collective-timeout [] ALLREDUCE 840 timed out after 300 s; rank 16 reports it");
    // In any other group it is a rank inside the group.
    let part = line.replace("PG GUID 0(default_pg)", "PG GUID 31(mesh_tp)").replace("PG ID 0", "PG ID 7");
    assert!(said(&report(&part)).ends_with("rank 0 reports it"), "{}", said(&report(&part)));
}

#[test]
fn tracebacks_whose_head_is_cut_off() {
    let frames = "  File \"/opt/p/parallel.py\", line 97, in forward\n    self._sync()\n  File \"/opt/p/data.py\", line 31, in _sync\n    return pick(rows)\n";
    let launcher =
        "ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 1 (pid: 4411) of binary: /usr/bin/python3\n";
    all_are(&[
        ("fail python-exception [] KeyError: 'tokens'", &format!("{frames}KeyError: 'tokens'\n")),
        (
            "fail python-exception [5] rank 5: ValueError: no rows",
            "[rank5]:   File \"/opt/p/data.py\", line 31, in pick\n[rank5]: ValueError: no rows\n",
        ),
        // Nothing but its last line, which is believed because a process ended with exit code 1 right behind it.
        (
            "fail python-exception [] OSError: no such model: acme/tiny",
            &format!("OSError: no such model: acme/tiny\nTry again.\n{launcher}"),
        ),
        (
            "fail launch-failed [] this PyTorch is built without NCCL",
            &format!(
                "{frames}RuntimeError: Distributed package doesn't have NCCL built in\n{}",
                launcher.replace("local_rank: 1", "local_rank: 0")
            ),
        ),
        (
            "fail collective-timeout [0] rank 0 failed in a monitored barrier, or before it; rank 6 came to it",
            &format!(
                "{frames}RuntimeError: Rank 6 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please \
                 check rank 0 logs for faulty rank.\n"
            ),
        ),
    ]);
    // Where a program prints its own stack, or a message that looks like an exception, and goes on, nothing failed.
    for log in [
        format!("{frames}step 4 of 90, loss 2.25\n"),
        format!("{frames}UserWarning: rows are slow\nstep: 4 loss: 2.25\n"),
        "ValueError: caught and ignored\nstep: 4  loss: 2.25\n".to_owned(),
    ] {
        assert!(report(&log).findings.iter().all(|f| f.rule != "python-exception"), "{log}");
    }
    // A process that was killed did not end of what it printed before.
    let killed = launcher.replace("exitcode: 1", "exitcode: -9");
    assert!(said(&report(&format!("OSError: tried again\n{killed}"))).starts_with("fail rank-exited"));
}

#[test]
fn a_full_shm_is_not_the_fault_of_the_code_that_tells_of_it() {
    let raised = "  File \"/opt/p/signals.py\", line 71, in handler\n    _check()\n";
    let area = |words: &str| Area::of(&report(&format!("{raised}{words}\n")).findings[0]);
    let bus = "RuntimeError: DataLoader worker (pid 91) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.";
    assert_eq!(area(bus), Some(Area::Host));
    assert_eq!(area("RuntimeError: DataLoader worker (pid(s) 91, 92) exited unexpectedly"), Some(Area::Input));
    assert_eq!(area("RuntimeError: no such layer"), Some(Area::Code));
}

#[test]
fn a_table_of_the_launcher_that_begins_in_the_middle() {
    let block = |n: u32, rank: u32, at: &str| {
        format!(
            "[{n}]:\n  time      : 2026-02-03_{at}\n  host      : gpu-31.lan\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : 1 (pid: {})\n  error_file: <N/A>\n",
            70 + rank
        )
    };
    let rule = "------------------------------------------------------------\nRoot Cause (first observed failure):\n";
    let log = [block(2, 6, "04:05:09"), block(3, 7, "04:05:09"), rule.to_owned(), block(0, 4, "04:05:06"), "====\n".to_owned()].concat();
    let report = report(&log);
    let cause = &report.findings[report.root_cause.unwrap()];
    assert_eq!(cause.summary, "rank 4 (pid 74) ended: exit code 1");
    assert!(cause.why.contains("on gpu-31.lan; it lists ranks 6 and 7 (exit code 1) as failed, too"), "{}", cause.why);
}

#[test]
fn how_a_process_ended_says_what_to_look_at() {
    let next = |code: i32| {
        let log = format!(
            "[2026-05-02 20:03:17,825] torch.distributed.elastic.multiprocessing.api: [ERROR] failed (exitcode: {code}) local_rank: 2 (pid: 812) of binary: /usr/bin/python3\n"
        );
        let report = report(&log);
        report.findings[report.root_cause.unwrap()].next.clone().unwrap()
    };
    assert!(next(-7).contains("df -h /dev/shm"));
    assert!(next(-11).contains("PYTHONFAULTHANDLER=1"));
    assert!(next(-9).contains("dmesg"));
    assert!(next(1).starts_with("read the log above"));
}

#[test]
fn a_warning_of_nccl_with_which_its_call_fails_is_an_error() {
    let warn = "box-1:41:52 [3] transport/new.cc:77 NCCL WARN flux of the capacitor is 3\n";
    let returns =
        |code: u32| format!("box-1:41:52 [3] NCCL INFO transport.cc:97 -> {code}\nbox-1:41:52 [3] NCCL INFO init.cc:1358 -> {code}\n");
    all_are(&[
        ("fail nccl-warn [] CUDA device 3 of box-1: flux of the capacitor is 3", &format!("{warn}{}", returns(1))),
        // Of itself it is a warning, and so it is where another process fails.
        ("warn nccl-warn [] flux of the capacitor is 3", warn),
        ("warn nccl-warn [] a call of NCCL failed: CUDA error", &returns(1)),
    ]);
    let of_peer = report(&format!("{warn}{}", returns(6)));
    assert!(of_peer.findings.iter().filter(|f| f.summary.starts_with("flux")).all(|f| f.role == Role::Cascade));
}

#[test]
fn a_call_that_failed_for_others_has_its_reason() {
    let log = "box-1:41:53 [6] proxy.cc:1097 NCCL WARN [Proxy Service 22] Failed to execute operation Connect from rank 22, retcode 2\n\
               box-1:41:41 [6] misc/socket.cc:521 NCCL WARN Net : Connection closed by remote peer 10.1.2.3<37877>\n\
               box-1:41:41 [6] proxy.cc:862 NCCL WARN Proxy Call to rank 22 failed (Connect)\n\
               box-1:41:41 [6] NCCL INFO init.cc:784 -> 6\n";
    all_are(&[("fail nccl-warn [] a proxy thread of NCCL could not do Connect for rank 22: system error", log)]);
    assert!(
        report(log)
            .findings
            .iter()
            .all(|f| f.signature != Some("nccl-returned") && (f.signature == Some("proxy-op-failed") || f.role != Role::Root))
    );
}

#[test]
fn an_assertion_has_its_rank_in_the_headline() {
    let log = "/pytorch/aten/src/ATen/native/cuda/Loss.cu:250: nll_loss: block: [9,0,0], thread: [3,0,0] Assertion `t >= 0 && t < n_classes` failed.\n\
               [rank5]:[E606 15:20:10.319952852 ProcessGroupNCCL.cpp:1595] [PG ID 4 PG GUID 10 Rank 1] Process group watchdog thread terminated with \
               exception: CUDA error: device-side assert triggered\n";
    all_are(&[("fail cuda-error [5] rank 5: a check in a CUDA kernel failed: t >= 0", log)]);
}

#[test]
fn codes_of_another_network_are_not_read_as_those_of_efa() {
    let log = "[rank7]: Traceback (most recent call last):\n[rank7]:   File \"/opt/b.py\", line 9, in main\n[rank7]:     ddp(model)\n\
               [rank7]: torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:3763, remote process exited or there was a network error, NCCL version 2.28.8\n\
               [rank7]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n[rank7]: Last error:\n\
               [rank7]: NET/OFI Request 0x7f00aa completed with error. RC: 113. Error: 2 (UNDELIVERABLE). Completed length: 0\n";
    all_are(&[("fail nccl-warn [7] rank 7: Slingshot could not deliver a transfer to its peer (UNDELIVERABLE)", log)]);
}

#[test]
fn faults_of_several_gpus_and_days_stand_side_by_side() {
    let log = "[Wed Jul  1 23:14:18 2026] NVRM: Xid (PCI:0000:0a:00): 43, pid=1045, name=pt_main_thread, Ch 00000008\n\
               [Mon Jul  6 03:54:13 2026] NVRM: Xid (PCI:0000:1b:00): 31, pid=2512, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS\n\
               [Fri Jul 10 13:32:56 2026] NVRM: Xid (PCI:0000:2c:00): 94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No\n";
    let report = report(log);
    assert!(said(&report).starts_with("fail gpu-ecc [] Xid 94 on GPU 0000:2c:00"), "{}", said(&report));
    // None of them comes of another.
    assert!(
        report.findings.iter().all(|f| f.role == Role::Root),
        "{:?}",
        report.findings.iter().map(|f| (&f.summary, f.role)).collect::<Vec<_>>()
    );
}

#[test]
fn a_link_that_the_driver_gives_up_is_that_of_a_gpu() {
    let log = "[  +0.000844] nvidia 0000:5e:00.0: AER: can't recover (no error_detected callback)\n\
               [  +0.000001] pcieport 0000:5d:01.0: AER: Multiple Uncorrected (Fatal) error received: 0000:5d:01.0\n\
               [  +0.000004] pcieport 0000:5d:01.0: PCIe Bus Error: severity=Uncorrected (Fatal), type=Transaction Layer, (Requester ID)\n";
    all_are(&[
        ("fail gpu-lost [] the PCIe link of GPU 0000:5e:00.0 failed", log),
        (
            "fail gpu-lost [] a GPU of node-4 is lost",
            "Feb 17 08:02:35 node-4 kernel: NVRM: nvAssertOkFailedNoLog: Assertion failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F) returned from x @ y.c:1\n",
        ),
    ]);
}

#[test]
fn tests_of_the_network_plugin() {
    let log = "10.9.8.7: INFO: Function: ofi_init Line: 1102: NET/OFI Setting RDMAV_FORK_SAFE environment variable to 1.\n\
               10.9.8.7: WARN: Function: find_ofi_provider Line: 543: NET/OFI Couldn't find any optimal provider\n";
    all_are(&[("fail nccl-warn [] host 10.9.8.7: NET/OFI Couldn't find any optimal provider", log)]);
}

#[test]
fn last_words_of_a_run_that_went_well() {
    let finished = |log: &str| facts::json(&report(log))["training"]["finished"] == true;
    // The bar is drawn once more behind the last dictionary.
    let bar = "100%|██████████| 400/400 [20:18<00:00,  1.74s/it]\n";
    assert!(finished(&format!("{{'loss': 0.0352, 'epoch': 2.0}}\n{{'train_runtime': 84.1, 'train_loss': 0.05, 'epoch': 2.0}}\n{bar}")));
    assert!(!finished(bar));
    // No step was printed.
    assert!(finished("[INFO     | pytorch_lightning.utilities.rank_zero]: `Trainer.fit` stopped: `max_steps=10` reached.\n"));
    assert!(finished(
        "{\"name\": \"torchelastic.worker.status.SUCCEEDED\", \"source\": \"WORKER\", \"metadata\": {\"global_rank\": 2, \"state\": \"SUCCEEDED\"}}\n"
    ));
}
