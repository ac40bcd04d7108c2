//! Small logs of many programs: what `check` concludes from each, and whom it blames.

use crate::support::report;
use nccl_top::archive::{Report, Verdict, check};
use nccl_top::base::severity::{Role, Severity};
use nccl_top::base::time::Zone;
use nccl_top::model::bringup::Seen;
use nccl_top::output::check::facts;
use serde_json::Value;

/// `fail rank-exited [3] rank 3 ended…`
fn said(log: &str) -> String {
    let report = report(log);
    let verdict = report.verdict.as_str();
    match report.root_cause.map(|i| &report.findings[i]) {
        Some(f) => format!("{verdict} {} {:?} {}", f.rule, f.ranks, f.summary),
        None => verdict.to_owned(),
    }
}

fn told(log: &str) -> Value {
    facts::json(&report(log))
}

/// Each says its verdict, the rule of its cause, the ranks to blame, and how the summary begins.
fn all_are(cases: &[(&str, &str)]) {
    let wrong: Vec<String> = cases
        .iter()
        .map(|(want, log)| (*want, said(log)))
        .filter(|(want, got)| !got.starts_with(want) || (!want.contains(' ') && got.contains(' ')))
        .map(|(want, got)| format!("want {want}\n got {got}"))
        .collect();
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn warnings_of_nccl() {
    all_are(&[
        (
            "fail nccl-warn [] CUDA device 2 of web-1: socketStartConnect: Connect to 10.20.0.8<40111> failed : No route to host",
            "web-1:501:533 [2] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 10.20.0.8<40111> failed : No route to host\n\
             web-1:501:533 [2] NCCL INFO misc/socket.cc:564 -> 2\n\
             web-1:501:520 [2] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer web-2<50111>\n\
             web-1:501:520 [2] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x7f0011aa2240\n",
        ),
        (
            "fail nccl-warn [] CUDA device 0 of box-7: Net : Connect to 192.168.77.4<51000> failed : No route to host",
            "box-7:795:822 [0] include/socket.h:409 NCCL WARN Net : Connect to 192.168.77.4<51000> failed : No route to host\n\
             box-7:795:822 [0] NCCL INFO bootstrap.cc:360 -> 2\n\
             Traceback (most recent call last):\n  File \"/opt/p/store.py\", line 31, in get_all\n    data = store.get(key)\nRuntimeError: Socket Timeout\n",
        ),
        (
            "fail nccl-warn [] CUDA device 1 of pod-4: /dev/shm is too small or full: NCCL could not make /dev/shm/nccl-Qx11Zz 33554436 bytes long",
            "pod-4:11:61 [1] NCCL INFO Symmetric VA size=16GB\n\
             [2026-08-09 10:11:12] pod-4:11:62 [1] misc/shmutils.cc:88 NCCL WARN Error: failed to extend /dev/shm/nccl-Qx11Zz to 33554436 bytes, error: No space left on device (28)\n\
             [2026-08-09 10:11:12] pod-4:11:66 [3] proxy.cc:1326 NCCL WARN Socket recv failed\n",
        ),
        // What is printed first follows from what is printed last.
        (
            "fail cuda-oom [] CUDA device 3 of n5: GPU out of memory: NCCL could not get its buffers (Cuda failure 'out of memory'",
            "n5:901:990 [0] misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer n5-ib<41001>\n\
             n5:901:990 [0] proxy.cc:1143 NCCL WARN Socket recv failed while polling for opId=0x55a519\n\
             n5:904:995 [3] include/alloc.h:178 NCCL WARN Cuda failure 'out of memory'\n\
             n5:904:995 [3] include/alloc.h:185 NCCL WARN Failed to CUDA calloc 4194304 bytes\n\
             n5:904:995 [3] proxy.cc:1519 NCCL WARN [Proxy Service 3] Failed to execute operation Setup from rank 3, retcode 1\n",
        ),
        (
            "fail launch-failed [2, 3, 6, 7] Duplicate GPU detected : rank 6 and rank 2 both on CUDA device 31000",
            "g2:52:93 [0] init.cc:795 NCCL WARN Duplicate GPU detected : rank 6 and rank 2 both on CUDA device 31000\n\
             g2:54:95 [1] init.cc:795 NCCL WARN Duplicate GPU detected : rank 7 and rank 3 both on CUDA device 4b000\n\
             g2:53:96 [0] init.cc:795 NCCL WARN Duplicate GPU detected : rank 2 and rank 6 both on CUDA device 31000\n",
        ),
        (
            "fail nccl-warn [] CUDA device 5 of node-31.example.org: Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_3:1",
            "[2026-03-14 02:06:02] node-31.example.org:4211 [5] ibvwrap.cc:262 NCCL WARN Call to ibv_modify_qp failed with 110 Connection timed out, on dev mlx5_3:1, curr state INIT, next state RTR\n",
        ),
        (
            "fail nccl-warn [41] rank 41: InfiniBand completion status 12 (transport retry counter exceeded) to peer 172.30.1.12<45021>, vendor error 129",
            "tr-5:84:1257 [1] NCCL INFO comm 0x55fe785f7a0 rank 41 nranks 96 cudaDev 1 nvmlDev 1 busId 9b000 commId 0x6be77eb5ea4ec1ff - Init COMPLETE\n\
             tr-5:84:1499 [1] transport/net_ib.cc:2091 NCCL WARN NET/IB : Got completion from peer 172.30.1.12<45021> with status=12 opcode=1 len=0 vendor err 129 (Send)\n",
        ),
        (
            "fail nic-down [] 2 processes of ...-17: InfiniBand port error",
            "iter 9001: loss 1.9494, time: 235.95ms\n\
             ...-17:340:420 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error\n\
             ...-17:341:421 [0] transport/net_ib.cc:93 NCCL WARN NET/IB : Got async event : port error\n\
             ...-23:730:785 [4] transport/net_ib.cc:1238 NCCL WARN NET/IB : Got completion from peer n17<31948> with error 12, opcode 2, len 1, vendor err 129\n",
        ),
        (
            "fail nccl-warn [4, 5] ranks 4 and 5: NET/IB : Got async event : local catastrophic error",
            "2026-06-02T09:13:44.887Z: [1,5]<stdout>:ctr-3-000031:815:864 [0] transport/net_ib.cu:80 NCCL WARN NET/IB : Got async event : local catastrophic error\n\
             2026-06-02T09:13:44.881Z: [1,4]<stdout>:ctr-3-000031:814:868 [0] transport/net_ib.cu:80 NCCL WARN NET/IB : Got async event : local catastrophic error\n",
        ),
        (
            "fail nccl-warn [] CUDA device 0 of p5-9: NET/OFI Operation with NULL context completed with error",
            "p5-9:1463:1469 [0] process_err_completion:1723 NCCL WARN NET/OFI Operation with NULL context completed with error\n",
        ),
        (
            "fail cuda-error [] CUDA device 1 of h-6: NCCL could not set up NVLink SHARP (NVLS): Cuda failure 401 'the operation cannot be performed in the present state'",
            "[2026-07-21 22:05:29] h-6:2337:2337 [1] transport/nvls.cc:254 NCCL WARN Cuda failure 401 'the operation cannot be performed in the present state'\n\
             h-6:2337:2337 [1] NCCL INFO transport/nvls.cc:409 -> 1\n",
        ),
    ]);
}

#[test]
fn what_is_said_once_is_told_once() {
    let log = "w-2: w-2:29:45 [6] init.cc:263 NCCL WARN Cuda failure 'initialization error'\n\
               w-2: w-2:30:30 [7] misc/cudawrap.cc:33 NCCL WARN Cuda failure 'initialization error'\n\
               w-2: Traceback (most recent call last):\n\
               w-2: torch.distributed.DistBackendError: NCCL error in: /b/ProcessGroupNCCL.cpp:1197, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.18.3\n\
               w-2: ncclUnhandledCudaError: Call to CUDA function failed.\n\
               w-2: Last error:\n\
               w-2: Cuda failure 'initialization error'\n\
               w-2:   File \"/w/tune.py\", line 26, in run\n";
    let report = report(log);
    let same = report
        .findings
        .iter()
        .filter(|f| f.summary.ends_with("Cuda failure 'initialization error'") && f.role != nccl_top::base::severity::Role::Cascade)
        .count();
    assert_eq!((report.verdict, same), (Verdict::Fail, 1));
}

#[test]
fn errors_that_python_hands_on() {
    all_are(&[
        (
            "fail launch-failed [1, 5] Duplicate GPU detected : rank 5 and rank 1 both on CUDA device f000 (ncclInvalidUsage)",
            "torch.distributed  File \"/job/init.py\", line 156, in build\n\
             .DistBackendError: NCCL error in: /b/ProcessGroupNCCL.cpp:1727, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.19.3\n\
             ncclInvalidUsage: This usually reflects invalid usage of NCCL library.\n\
             Last error:\n\
             Duplicate GPU detected : rank 5 and rank 1 both on CUDA device f000\n",
        ),
        (
            "fail wrong-interface [] NCCL finds no network interface for its bootstrap (no socket interface found)",
            "Traceback (most recent call last):\n  File \"/w/main.py\", line 27, in <module>\n    dist.barrier()\n\
             RuntimeError: NCCL error in: ../ProcessGroupNCCL.cpp:1201, internal error, NCCL version 2.14.3\n\
             ncclInternalError: Internal check failed.\nLast error:\nBootstrap : no socket interface found\n\
             ERROR:torch.distributed.elastic.multiprocessing.api:failed (exitcode: 1) local_rank: 0 (pid: 411) of binary: /opt/bin/python\n",
        ),
        (
            "fail nccl-warn [5] Proxy Call to rank 5 failed (Connect) (ncclInternalError)",
            "(Engine pid=76, ip=10.8.2.15) ncclInternalError: Internal check failed.\n\
             (Engine pid=76, ip=10.8.2.15) Last error:\n\
             (Engine pid=76, ip=10.8.2.15) Proxy Call to rank 5 failed (Connect)\n",
        ),
        (
            "fail nccl-warn [] local rank 0: the address of another rank is none: family 4021 instead of IPv4 or IPv6",
            "[worker0|0]:ncclInternalError: Internal check failed.\n[worker0|0]:Last error:\n\
             [worker0|0]:ncclSocketInit: connecting to address  with family 4021 is neither AF_INET(2) nor AF_INET6(10)\n",
        ),
        (
            "fail python-exception [] NCCL 2.4.8: invalid argument",
            "RuntimeError: NCCL error in: /pytorch/NCCLUtils.hpp:82, invalid argument, NCCL version 2.4.8\n\
             srun: error: sj-0: tasks 2-7: Exited with exit code 1\n",
        ),
        (
            "fail nccl-warn [] a check inside NCCL 2.14.3 failed (ncclInternalError)",
            "m17:209:252 [1] NCCL INFO Call to connect returned Connection refused, retrying\n\
             RuntimeError: NCCL error in: /b/ProcessGroupNCCL.cpp:1269, internal error, NCCL version 2.14.3\n\
             ncclInternalError: Internal check failed.\n",
        ),
        (
            "fail rendezvous-failed [0] rank 0 did not make the NCCL communicator that rank 3 waits for",
            "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/w/a.py\", line 5, in <module>\n[rank3]:     main()\n\
             [rank3]: torch.distributed.DistBackendError: [3] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Socket Timeout\n",
        ),
        (
            "fail collective-mismatch [1, 6] rank 1 called ALLGATHER of shape [1] at sequence number 11, rank 6 called REDUCE at sequence number 0",
            "[RANK 1] 2026-05-19 13:10:29,701 [ERROR] breaker open: cuda_error - Detected mismatch between collectives on ranks. Rank 1 is running collective: CollectiveFingerPrint(SequenceNumber=11, OpType=ALLGATHER, TensorShape=[1]), but Rank 6 is running collective: CollectiveFingerPrint(SequenceNumber=0OpType=REDUCE).Collectives differ in the following aspects: \t Sequence number: 11vs 0\n",
        ),
        (
            "fail cuda-oom [2] rank 2: CUDA out of memory. Tried to allocate 3.06 GiB",
            "[rank2]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.06 GiB. GPU  has a total capacity of 44.42 GiB of which 1.96 GiB is free.\n\
             W0330 00:37:33.868003 5501 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 5526 closing signal SIGTERM\n\
             E0330 00:37:34.807003 5501 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 5527) of binary: /opt/bin/python\n",
        ),
    ]);
}

const CPP: &str = "ProcessGroupNCCL.cpp:1890]";

#[test]
fn watchdogs() {
    let lone = |text: &str| format!("[rank4]:[E418 04:32:50.907313456 {CPP} {text}\n");
    for (want, log) in [
        (
            "fail collective-timeout [] rank 4's watchdog got stuck: a CUDA or NCCL call of it does not come back",
            lone("[PG 3 Rank 0] Heartbeat monitor timed out! Process will be terminated after dumping debug info. workMetaList_.size()=17"),
        ),
        (
            "fail collective-timeout [] rank 4's watchdog got stuck for 600 s: a CUDA or NCCL call of it does not come back",
            lone("[PG 3 Rank 0] [PG 3 Rank 0] ProcessGroupNCCL's watchdog got stuck for 600 seconds without making progress in monitoring enqueued collectives."),
        ),
        (
            "fail collective-timeout [] rank 4: Received a dump signal due to a collective timeout from this local rank",
            lone("[PG ID 0 PG GUID 0(default_pg) Rank 4] Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 6, last completed NCCL work: 6.This is most likely caused by incorrect usages of collectives"),
        ),
        (
            "fail collective-timeout [] rank 4: the watchdog found that collective 7149 failed or timed out; last enqueued 7151, last completed 7148",
            lone("[PG ID 0 PG GUID 0(default_pg) Rank 4]  failure detected by watchdog at work sequence id: 7149 PG status: last enqueued work: 7151, last completed work: 7148"),
        ),
        (
            "fail collective-timeout [] GATHER 8046 timed out after 600 s; rank 1 reports it",
            "[36m(RayWorkerWrapper pid=49) [rank1]:[E ProcessGroupNCCL.cpp:563] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8046, OpType=GATHER, NumelIn=2867200, NumelOut=0, Timeout(ms)=600000) ran for 600027 milliseconds before timing out.\n\
             (RayWorkerWrapper pid=49) [rank1]:[E ProcessGroupNCCL.cpp:583] [Rank 1] To avoid data inconsistency, we are taking the entire process down.\n"
                .into(),
        ),
        (
            "fail cuda-error [0] rank 0: CUDA error: an illegal memory access was encountered",
            "[rank0]:[E504 02:32:59.338859798 ProcessGroupNCCL.cpp:1896] [PG ID 0 PG GUID 0(default_pg) Rank 0] Process group watchdog thread terminated with exception: CUDA error: an illegal memory access was encountered\n".into(),
        ),
    ] {
        let got = said(&log);
        assert!(got.starts_with(want), "want {want}\n got {got}");
    }
}

#[test]
fn a_timeout_is_told_once_and_the_silent_ranks_are_named() {
    let caught = |rank: u32| {
        format!(
            "[E ProcessGroupNCCL.cpp:737] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9508, OpType=ALLREDUCE, Timeout(ms)=1800000) ran for 180221{rank} milliseconds before timing out.\n"
        )
    };
    let log: String = [1, 3, 2, 6, 7, 5].into_iter().map(caught).collect();
    let all = report(&log);
    let f = &all.findings[all.root_cause.unwrap()];
    assert_eq!((f.rule, f.count, all.findings.len()), ("collective-timeout", 6, 1));
    assert!(f.why.contains("ranks 0 and 4 report no timeout"), "{}", f.why);
    let log = "[rank3]:[E626 19:48:25.440250122 ProcessGroupNCCL.cpp:684] [Rank 3] Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.\n\
               [rank3]:[E626 19:48:25.440271518 ProcessGroupNCCL.cpp:698] [Rank 3] To avoid data inconsistency, we are taking the entire process down.\n\
               [rank5]:[E626 19:48:25.440238642 ProcessGroupNCCL.cpp:2268] [PG ID 0 PG GUID 0(default_pg) Rank 5]  failure detected by watchdog at work sequence id: 49 PG status: last enqueued work: 51, last completed work: 48\n";
    assert_eq!(report(log).findings.iter().filter(|f| f.rule == "collective-timeout").count(), 1);
}

#[test]
fn timeouts_in_groups_that_are_a_part_of_the_job() {
    let line = |rank: u32, group: &str, pg_rank: u32| {
        format!(
            "[rank{rank}]:[E1121 00:04:23.09 ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=20000) ran for 20001 milliseconds before timing out.\n\
             [rank{rank}]:[E1121 00:04:23.09 ProcessGroupNCCL.cpp:2268] [PG ID 2 PG GUID {group} Rank {pg_rank}]  failure detected by watchdog at work sequence id: 5 PG status: last enqueued work: 7, last completed work: 4\n"
        )
    };
    // Numbered evenly: 0, 2, -, 6.
    let dp: String = [(0, 0), (2, 1), (6, 3)].map(|(rank, pg_rank)| line(rank, "3(mesh_dp)", pg_rank)).concat();
    let report_dp = report(&dp);
    let f = &report_dp.findings[report_dp.root_cause.unwrap()];
    assert_eq!((f.rule, &f.ranks[..]), ("hang-rank-absent", &[4][..]));
    assert!(f.summary.starts_with("rank 4 did not join AllReduce 5 of group mesh_dp; 3 ranks waited in it"), "{}", f.summary);
    assert!(f.why.starts_with("rank 2 inside the group says nothing"), "{}", f.why);
    // Two groups of one description are two groups, and nobody can be named.
    let tp = [line(0, "3(mesh_tp)", 0), line(3, "4(mesh_tp)", 1)].concat();
    let report_tp = report(&tp);
    let f = &report_tp.findings[report_tp.root_cause.unwrap()];
    assert_eq!((f.rule, f.ranks.len()), ("collective-timeout", 0));
    assert!(f.why.contains("these inputs do not say which other ranks are in it"), "{}", f.why);
    // A rank inside a group is not the rank of the job.
    let bare = "[E1121 00:04:23.09 ProcessGroupNCCL.cpp:689] [PG ID 2 PG GUID 3(mesh_dp) Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=20000) ran for 20001 milliseconds before timing out.\n";
    all_are(&[("fail collective-timeout [] ALLREDUCE 5 timed out after 20 s; rank 1 of group mesh_dp reports it", bare)]);
    assert!(report(bare).findings[0].why.contains("with ranks inside the group"), "{}", report(bare).findings[0].why);
    // A dump lists the group.
    let dir = tempfile::tempdir().unwrap();
    let dump = |last: u64| {
        format!(
            "{{\"version\": \"2.10\", \"pg_config\": {{\"0\": {{\"name\": \"0\", \"desc\": \"default_pg\", \"ranks\": \"[0, 1, 2, 3]\"}}, \"3\": {{\"name\": \"3\", \"desc\": \"mesh_tp\", \"ranks\": \"[1, 3]\"}}}}, \"pg_status\": {{\"2\": {{\"last_enqueued_collective\": {last}, \"last_started_collective\": -1, \"last_completed_collective\": 4}}}}, \"entries\": []}}"
        )
    };
    std::fs::write(dir.path().join("nccl_trace_rank_1"), dump(7)).unwrap();
    std::fs::write(dir.path().join("job.log"), line(1, "3(mesh_tp)", 0)).unwrap();
    let all = check(&[dir.path().display().to_string()], Zone::UTC, &mut |_, _| ());
    let f = &all.findings[all.root_cause.unwrap()];
    assert_eq!((f.rule, &f.ranks[..]), ("hang-rank-absent", &[3][..]), "{:?} {:?}", f.summary, all.inputs);
}

#[test]
fn launchers_and_schedulers() {
    all_are(&[
        (
            "fail job-cancelled [] the launcher received signal 15 (SIGTERM) and shut its workers down",
            "[default0]:12:13:46    INFO Starting training loop (max_steps=100)\n\
             W1130 15:13:49.388003 1246 torch/distributed/elastic/agent/server/api.py:723] Received 15 death signal, shutting down workers\n\
             W1130 15:13:49.389003 1246 torch/distributed/elastic/multiprocessing/api.py:900] Sending process 1253 closing signal SIGTERM\n",
        ),
        (
            "fail job-cancelled [] the launcher received signal 15 (SIGTERM)",
            "[2026-02-27T00:35:32.106316Z] 0a88b9df || WARNING: torch.distributed.elastic.agent.server.api:Received 15 death signal, shutting down workers\n",
        ),
        (
            "fail job-cancelled [] the launcher received signal 1 (SIGHUP)",
            " 16%|█▋        | 84/520 [3:02:22<19:20:02,  2.80s/it]WARNING:torch.distributed.elastic.agent.server.api:Received 1 death signal, shutting down workers\n",
        ),
        (
            "fail job-cancelled [] Slurm cancelled job 871 step 0 on nid7: time limit",
            "srun: Force Terminated job 871\nsrun: Job step aborted: Waiting up to 32 seconds for job step to finish.\n\
             slurmstepd: error: *** STEP 871.0 ON nid7 CANCELLED AT 2026-07-03T05:59:56 DUE TO TIME LIMIT ***\n\
             srun: error: nid7: tasks 2,4-5,7: Terminated\n",
        ),
        (
            "fail rank-oom-killed []",
            "slurmstepd: error: Detected 1 oom_kill event in StepId=71.0. Some of the step tasks have been OOM Killed.\n\
             srun: error: nid9: tasks 1-3: Out Of Memory\n\
             slurmstepd: error: *** STEP 71.0 ON nid9 CANCELLED AT 2026-12-05T10:16:01 ***\n",
        ),
        (
            "fail rendezvous-failed [] rendezvous: the barrier at the start timed out on rank 2: 12 processes had come for a world of 16",
            "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in <module>\n    init()\n\
             RuntimeError: Timed out initializing process group in store based barrier on rank: 2, for key: store_based_barrier_key:1 (world_size=16, worker_count=12, timeout=0:30:00)\n",
        ),
        (
            "fail rendezvous-failed [] local rank 1: [c10d] The client socket has failed to connect to any network address of (77, 40323).",
            "worker/0 [1]:[W socket.cpp:558] [c10d] The client socket has failed to connect to [::ffff:0.0.0.77]:40323 (errno: 110 - Connection timed out).\n\
             worker/0 [1]:[E socket.cpp:610] [c10d] The client socket has failed to connect to any network address of (77, 40323).\n",
        ),
        (
            "fail rank-exited [1] rank 1 (pid 690) ended: exit code 1",
            "Failures:\n[2]:\n  time      : 2026-09-07_16:03:29\n  host      : n\n  rank      : 0 (local_rank: 0)\n  exitcode  : -9 (pid: 689)\n  error_file: <N/A>\n\
             Root Cause (first observed failure):\n[0]:\n  time      : 2026-09-07_16:02:58\n  host      : n\n  rank      : 1 (local_rank: 1)\n  exitcode  : 1 (pid: 690)\n  error_file: <N/A>\n============\n",
        ),
        (
            "fail rank-exited [] pod team.run-7-worker-3 ended: exit code 255",
            "1.708507856644099e+09\tDEBUG\tevents\tPod: team.run-7-worker-3 exited with code 255\t{\"type\": \"Normal\"}\n",
        ),
        (
            "fail rank-exited [] DeepSpeed's launcher: a process ended: killed by signal 11 (SIGSEGV)",
            "kd[2026-07-10 07:26:05,876] [INFO] [launch.py:318:sigkill_handler] Killing subprocess 984\n\
             [2026-07-10 07:26:35,999] [ERROR] [launch.py:324:sigkill_handler] ['/usr/bin/python3', '-u', 'lm.py', '--local_rank=1'] exits with return code = -11\n",
        ),
    ]);
}

#[test]
fn kernels_and_cards() {
    all_are(&[
        (
            "fail gpu-xid [] Xid 149 on GPU 0000:ab:00;",
            "kernel: NVRM: Xid (PCI:0000:ab:00): 45, pid=990, name=python3, Ch 00000001 caused by previous Xid 149\n\
             kernel: NVRM: Xid (PCI:0000:ed:00): 45, pid=992, name=python3, Ch 0000000c caused by previous Xid 145\n",
        ),
        (
            "fail gpu-xid [] Xid 13 on GPU 0000:cb:00 (graphics engine exception)",
            "[Fri Nov 20 14:11:22 2026] nvidia-peermem nv_get_p2p_free_callback:127 ERROR detected invalid context, skipping further processing\n\
             [Fri Nov 20 14:43:09 2026] NVRM: Xid (PCI:0000:cb:00): 13, pid='<unknown>', name=<unknown>, Graphics SM Warp Exception on (GPC 7, TPC 7, SM 0): Illegal Instruction Parameter\n",
        ),
        (
            "fail gpu-lost []",
            "[ 1843.308148] NVRM: The NVIDIA GPU 0000:a3:00.0\n               NVRM: (PCI ID: 10de:26b5) installed in this system has\n               NVRM: fallen off the bus and is not responding to commands.\n",
        ),
        (
            "fail rank-oom-killed [] the kernel's OOM killer killed python3 (pid 2531): the host is out of memory",
            "[2059991.491439] oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,me                       ms_allowed=0,global_oom,task=python3,pid=2531,uid=0\n",
        ),
        (
            "fail rank-oom-killed [] the container reached its memory limit and was killed (OOMKilled)",
            "Last State:     Terminated\n  Reason:       OOMKilled\n  Exit Code:    137\n",
        ),
        (
            "fail nccl-warn [] Actor (pid 738) of 172.9.2.110: mlx5: node_unknown: got completion with error:",
            "(Actor pid=738, ip=172.9.2.110) mlx5: node_unknown: got completion with error:\n(Actor pid=738, ip=172.9.2.110) mlx5: node_u\n",
        ),
        (
            "fail gpu-ecc [] uncorrectable ECC error of the GPU's memory (CUDA error: uncorrectable ECC error encountered",
            "RuntimeError: CUDA error: uncorrectable ECC error encountered\nCompile with `TORCH_USE_CUDA_DSA` to enable device-side assertions.\n",
        ),
    ]);
}

#[test]
fn lines_without_a_year_are_of_the_year_in_which_they_meet_those_that_have_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).to_str().unwrap().to_owned();
    let steps = |year: u32| (10..50).map(|s| format!("{year}-11-20 14:43:{s} INFO step {s} | loss 2.5\n")).collect::<String>();
    let syslog = "Nov 20 14:43:29 node-7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=2201, name=python3, GPU has fallen off the bus.\n";
    std::fs::write(path("kern.log"), syslog).unwrap();
    let changed = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_795_219_809);
    std::fs::File::options().append(true).open(path("kern.log")).unwrap().set_modified(changed).unwrap();
    let year_beside = |year: u32, names: [&str; 2]| {
        std::fs::write(path("train.log"), steps(year)).unwrap();
        let report = check(&names.map(path), Zone::UTC, &mut |_, _| ());
        assert_eq!(report.inputs.iter().map(|seen| seen.path.clone()).collect::<Vec<_>>(), names.map(path));
        let xid = report.findings.iter().find(|f| f.summary.starts_with("Xid 79")).unwrap();
        Zone::UTC.rfc3339(xid.since)[..4].to_owned()
    };
    for names in [["kern.log", "train.log"], ["train.log", "kern.log"]] {
        assert_eq!(year_beside(2024, names), "2024");
        assert_eq!(year_beside(2025, names), "2025");
        // The file's own time, 2026-11-21, lets it be of that year.
        assert_eq!(year_beside(2026, names), "2026");
    }
}

#[test]
fn headlines_name_what_the_lines_name() {
    let told = |log: &str| {
        let report = report(log);
        report.findings.iter().map(|f| format!("{} x{}", f.summary, f.count)).collect::<Vec<_>>()
    };
    // Each GPU for itself; the raw line is the proof.
    let xid = "Nov 20 14:43:09 node-7 kernel: NVRM: Xid (PCI:0000:3b:00): 79, pid=2201, name=python3, GPU has fallen off the bus.\n";
    let all = report(&[xid, &xid.replace("3b", "5e")].concat());
    let said: Vec<_> = all.findings.iter().map(|f| f.summary.as_str()).collect();
    assert_eq!(
        said,
        [
            "Xid 79 on GPU 0000:3b:00 on node-7 (GPU has fallen off the bus), process python3 (pid 2201)",
            "Xid 79 on GPU 0000:5e:00 on node-7 (GPU has fallen off the bus), process python3 (pid 2201)",
        ]
    );
    assert!(all.findings[0].evidence[0].text.contains("NVRM: Xid (PCI:0000:3b:00): 79, pid=2201"));
    assert_eq!(all.findings[0].hosts, ["node-7"]);
    // One kill in three lines is one finding, of the process that was killed.
    assert_eq!(
        told(
            "[ 10.1] dataloader invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0\n\
             [ 10.2] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=x,mems_allowed=0-1,oom_memcg=/slurm/job_12,task_memcg=/slurm/job_12/step_0,task=python3,pid=4711,uid=0\n\
             [ 10.3] Memory cgroup out of memory: Killed process 4711 (python3) total-vm:99kB, anon-rss:64000000kB, file-rss:0kB\n"
        ),
        ["the kernel's OOM killer killed python3 (pid 4711): memory cgroup /slurm/job_12 is at its limit x2"]
    );
}

#[test]
fn tests_of_nccl() {
    all_are(&[
        (
            "fail cuda-error [] CUDA device 0 of l4: a GPU can map the memory of no more peers, most often as one process uses more than eight: Cuda failure 711 'peer mapping resources exhausted'",
            "# nThread 1 nGpus 10 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n\
             [2026-06-20 05:14:03] l4:332:332 [0] allocator.cc:79 NCCL WARN Cuda failure 711 'peer mapping resources exhausted'\n\
             l4: Test NCCL failure common.cu:1119 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '\n",
        ),
        (
            "fail nccl-warn [] NCCL was told to join NICs of different NUMA nodes to one (NCCL_NET_FORCE_MERGE or NCCL_NET_MERGE_LEVEL), which it cannot",
            "NCCL version 2.30.7+cuda13.3\nTOPO/NET : Made vNic 2\n\
             graph/topo.cc:1566 (ncclTopoGetVNicParent) NCCL WARN Fusing NET devices from different NUMA domains is not supported.\n\
             Test NCCL failure common.cu:212 'invalid argument (run with NCCL_DEBUG=WARN for details) / '\n",
        ),
        (
            // Another host warned: which of the two made it fail is not known.
            "fail nccl-tests-failed [] n2: Test NCCL failure",
            "n1:101:101 [0] misc/y.cc:1 NCCL WARN the moon is full\n\
             n2:102:102 [0] misc/x.cc:9 NCCL WARN the switch lost its mind\n\
             n2: Test NCCL failure common.cu:958 'unhandled system error (run with NCCL_DEBUG=INFO for details) / '\n",
        ),
        (
            "fail nccl-tests-failed [] host hca-63: Test NCCL failure common.cu:1204 'unhandled cuda error",
            "hca-63: Test NCCL failure common.cu:1204 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '\n .. hca-63 pid 1883: Test failure common.cu:915\n\
             mpirun detected that one or more processes exited with non-zero status, thus causing\nthe job to be terminated. The first process to do so was:\n\n  Process name: [[449,1],25]\n  Exit code:    3\n",
        ),
        (
            "fail nccl-tests-failed [] nccl-tests: 7 results out of bounds",
            "# nThread 1 nGpus 2 minBytes 8 maxBytes 64 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Out of bounds values : 7 FAILED\n",
        ),
    ]);
}

#[test]
fn what_is_left_of_a_test_of_nccl() {
    let row = "     8388608       2097152     float     sum      -1    96.14   87.25  163.60      0    95.30   88.02  165.04      0\n";
    let f = told(row);
    assert_eq!((&f["nccl_tests"][0]["rows"], &f["nccl_tests"][0]["peak_busbw_gbytes_per_s"]), (&1.into(), &165.04.into()));
    all_are(&[
        ("ok", row),
        ("ok", "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 106.831 \n#\n"),
        (
            "fail nccl-tests-failed [] nccl-tests: 3 results out of bounds",
            "# Out of bounds values : 3 FAILED\n# Avg bus bandwidth    : 106.831 \n",
        ),
        ("fail nccl-tests-failed [] nccl-tests: average of 20.1 GB/s", "# Avg bus bandwidth    : 20.1 FAILED\n"),
    ]);
}

#[test]
fn utf_16_is_told_how_to_be_converted() {
    let dir = tempfile::tempdir().unwrap();
    for (name, mark) in [("le.log", [0xff, 0xfe]), ("be.bin", [0xfe, 0xff])] {
        let text: Vec<u8> =
            "step 1 loss 2".encode_utf16().flat_map(|c| if mark[0] == 0xff { c.to_le_bytes() } else { c.to_be_bytes() }).collect();
        std::fs::write(dir.path().join(name), [&mark[..], &text].concat()).unwrap();
    }
    let told = |path: std::path::PathBuf| {
        let report = check(&[path.display().to_string()], Zone::UTC, &mut |_, _| ());
        report.inputs.iter().filter_map(|i| i.error.clone()).filter(|e| e.contains("iconv -f UTF-16 -t UTF-8")).count()
    };
    assert_eq!((told(dir.path().join("le.log")), told(dir.path().join("be.bin"))), (1, 1));
    // Of what merely lies in a directory only the log is worth a word.
    assert_eq!(told(dir.path().to_path_buf()), 1);
}

/// The line that says that files are of several runs.
fn runs(files: &[(&str, &str)]) -> Option<String> {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<String> = files
        .iter()
        .map(|(name, text)| {
            let path = dir.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.display().to_string()
        })
        .collect();
    let report = check(&paths, Zone::UTC, &mut |_, _| ());
    let found = report.findings.iter().find(|f| f.rule == "several-runs")?;
    Some(found.summary.replace(&format!("{}/", dir.path().display()), ""))
}

#[test]
fn files_of_several_runs_are_told_apart() {
    let cancelled = |job: u32| format!("slurmstepd: error: *** STEP {job}.0 ON n1 CANCELLED AT 2026-04-20T09:09:37 ***\n");
    let init = |at: &str, host: &str, pid: u32, rank: u32, bus: &str, id: u64| {
        let head = format!("[2026-04-20 {at}] {host}:{pid}:{pid} [0] NCCL INFO");
        format!(
            "{head} NCCL version 2.28.9+cuda13.0\n{head} ncclCommInitRankConfig comm 0x5{rank} rank {rank} nranks 8 cudaDev 0 nvmlDev 0 busId {bus} commId {id:#x} - Init START\n\
             {head} ncclCommInitRankConfig comm 0x5{rank} rank {rank} nranks 8 cudaDev 0 nvmlDev 0 busId {bus} commId {id:#x} - Init COMPLETE\n"
        )
    };
    let said = |names: &str| Some(format!("these files look like 2 runs: {names}; give each to its own check"));
    assert_eq!(
        runs(&[("a.log", &cancelled(4711)), ("b.log", &cancelled(4712)), ("c.log", &cancelled(4711))]),
        said("job 4711: a.log and 1 more · job 4712: b.log")
    );
    assert_eq!(
        runs(&[("slurm-4711.out", "step 1 loss 2\n"), ("slurm-4712.out", "step 1 loss 2\n")]),
        said("job 4711: slurm-4711.out · job 4712: slurm-4712.out")
    );
    // The same seat, another process.
    let first = init("09:00:00", "n1", 100, 0, "1b000", 1);
    assert_eq!(runs(&[("a.log", &first), ("b.log", &init("09:00:05", "n1", 200, 0, "1b000", 2))]), said("a.log · b.log"));
    // One after the other.
    assert_eq!(runs(&[("a.log", &first), ("b.log", &init("11:00:00", "n2", 200, 0, "1b000", 2))]), said("a.log · b.log"));
    // Two nodes of one job: of a communicator over both, and of one inside each.
    let second = init("09:00:00", "n2", 300, 1, "1b000", 1);
    assert_eq!(runs(&[("a.log", &first), ("b.log", &second)]), None);
    assert_eq!(runs(&[("a.log", &first), ("b.log", &init("09:00:00", "n2", 300, 0, "1b000", 2))]), None);
    assert_eq!(runs(&[("a.log", &cancelled(4711)), ("b.log", &cancelled(4711)), ("c.log", &first)]), None);
    // A later part of the same log.
    assert_eq!(
        runs(&[
            ("a.log", &first),
            (
                "b.log",
                "[2026-04-20 11:00:00] n1:100:100 [0] NCCL INFO comm 0x9 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x77 - Init COMPLETE\n"
            )
        ]),
        None
    );
}

#[test]
fn what_follows_from_something_of_another_program_is_no_cause() {
    let bars: String = (0..12).map(|n| format!(" {}%|█         | {n}/50 [0{n:02}:31<8:35:20, 631.04s/it] ", n * 2)).collect();
    let command = format!("['/usr/bin/python3', '-u', 'train.py'{}]", ", '--option', 'of many letters'".repeat(40));
    all_are(&[
        (
            "fail job-cancelled [] Slurm cancelled job 4221 on n17: time limit",
            &format!("{}slurmstepd: error: *** JOB 4221 ON n17 CANCELLED AT 2026-04-14T16:20:46 DUE TO TIME LIMIT ***\n", bars.trim_end()),
        ),
        (
            "fail rank-oom-killed",
            "Traceback (most recent call last):\n  File \"/w/prepare.py\", line 246, in run\n    raise RuntimeError(\n\
             RuntimeError: Some background worker is 6 feet under. Yuck.\n\
             slurmstepd: error: Detected 1 oom_kill event in StepId=3243.0. Some of the step tasks have been OOM Killed.\n",
        ),
        (
            "fail rank-oom-killed [] LSF killed the job",
            "/w/.lsbatch/16.93.shell: line 14: 11577 Killed                  python main.py\n\
             TERM_MEMLIMIT: job killed after reaching LSF memory usage limit.\nExited with exit code 137.\n",
        ),
        (
            "fail wrong-interface [] Open MPI's TCP transport reached another process",
            "[n1][[5929,0],0][btl_tcp_endpoint.c:668:mca_btl_tcp_endpoint_recv_connect_ack] received unexpected process identifier: got [[5929,0],3] expected [[5929,0],4]\n\
             slurmstepd: error: *** STEP 235.0 ON n1 CANCELLED AT 2026-02-15T10:05:08 ***\nsrun: error: n1: tasks 0-3: Killed\n",
        ),
        (
            "fail rank-exited [] DeepSpeed's launcher: a process ended: killed by signal 9 (SIGKILL)",
            &format!("[2026-01-19 10:14:05,903] [ERROR] [launch.py:321:sigkill_handler] {command} exits with return code = -9\n"),
        ),
        // mpirun names one process, and another one printed this.
        (
            "fail rank-exited [] pid 442 on c-0 crashed: segmentation fault (SIGSEGV)",
            "[c-0:442] *** Process received signal ***\n[c-0:442] Signal: Segmentation fault (11)\n\
             mpirun noticed that process rank 14 with PID 57 on node c-2 exited on signal 11 (Segmentation fault).\n",
        ),
    ]);
}

#[test]
fn who_wrote_it_may_have_been_left_out_when_it_was_pasted() {
    all_are(&[
        ("fail cuda-error [] Cuda failure 800 'operation not permitted'", "NCCL WARN Cuda failure 800 'operation not permitted'\n"),
        // An I/O error of a network's library is no file's.
        (
            "fail nic-errors [] UCX could not register memory with the network card",
            "ib_md.c:310  UCX  ERROR ibv_reg_mr(address=0x7f31a0000000, length=65536,\n                access=0xf) failed: Bad address\n\
             pml_ucx.c:934  Error: ucx send failed: Input/output error\n",
        ),
    ]);
}

#[test]
fn limits_of_the_host_and_words_of_libraries_behind_an_exception() {
    all_are(&[
        (
            "fail rank-exited [0, 1] ranks 0 and 1: no more threads or processes can be started here: the limit of the user, container or job is reached",
            "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/t.py\", line 5, in step\n[rank0]:     loss.backward()\n\
             [rank0]: RuntimeError: Resource temporarily unavailable\n\
             [rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/t.py\", line 5, in step\n[rank1]:     loss.backward()\n\
             [rank1]: RuntimeError: Resource temporarily unavailable\n",
        ),
        (
            "fail rank-oom-killed [] data loading process 412 was killed by SIGKILL, as the kernel does when host memory runs out",
            "Traceback (most recent call last):\n  File \"/w/loader.py\", line 1133, in get\n    data = q.get()\n\
             RuntimeError: DataLoader worker (pid 412) is killed by signal: Killed. \n\n\
             The above exception was the direct cause of the following exception:\n\n\
             Traceback (most recent call last):\n  File \"/w/main.py\", line 51, in <module>\n    run()\n\
             RuntimeError: DataLoader worker (pid(s) 412) exited unexpectedly\n",
        ),
        (
            "fail python-exception [] torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised: ImportError: cannot import name 'key' from 'triton.x'",
            "  File \"/w/codecache.py\", line 205, in get_system\n    from triton.x import key\n\
             torch._dynamo.exc.BackendCompilerFailed: backend='inductor' raised:\n\
             ImportError: cannot import name 'key' from 'triton.x'\n",
        ),
        (
            "fail python-exception [2] rank 2: RuntimeError: comm != nullptr INTERNAL ASSERT FAILED at \"/pytorch/x.cpp\":43: No parent communicator, in call (ring.p",
            "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"/w/ring.py\", line 91, in call\n[rank2]:     isend()\n\
             [rank2]: RuntimeError: comm != nullptr INTERNAL ASSERT FAILED at \"/pytorch/x.cpp\":43, please report a bug to PyTorch. No parent communicator.\n",
        ),
        // The log ends before the exception is named: nothing says that it is the program's.
        (
            "fail python-exception [] an exception in start (core.py); the log ends before it is named",
            "ERROR 05-08 00:47:57 [core.py:396] Traceback (most recent call last):\n\
             ERROR 05-08 00:47:57 [core.py:396]   File \"/v/core.py\", line 64, in start\n",
        ),
        (
            "fail cuda-oom [] TensorFlow: GPU 1 ran out of memory",
            "2026-11-09 16:53:58.305871: W tensorflow/core/framework/op_kernel.cc:1780] OP_REQUIRES failed at conv_ops.cc:327 : RESOURCE_EXHAUSTED: OOM when \
             allocating tensor with shape[64,512] and type float on /job:localhost/replica:0/task:0/device:GPU:1 by allocator GPU_1_bfc\n\
             Traceback (most recent call last):\n  File \"/w/t.py\", line 5, in fit\n    fit()\n\
             tensorflow.python.framework.errors_impl.ResourceExhaustedError: Graph execution error:\n",
        ),
        // A person ended it.
        (
            "warn job-cancelled [] interrupted by Ctrl-C, or by a SIGINT of the launcher",
            "step: 190  loss:  2.7\nstep: 200  loss:  2.6\n^C\nAborted!\n",
        ),
        (
            "fail rank-exited [] DeepSpeed's launcher: a process ended: exit code 247, which is -9: killed by signal 9 (SIGKILL)",
            "[2026-01-19 10:14:05,903] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python3', '-u', 't.py', '--local_rank=1'] exits with return code = 247\n",
        ),
        (
            "fail cuda-error [] a check in a CUDA kernel failed: probability tensor has `nan` or element < 0",
            "RuntimeError: CUDA error: device-side assert triggered\n\
             /pytorch/aten/src/ATen/native/cuda/T.cu:110: k: block: [0,0,0], thread: [0,0,0] Assertion `probability tensor has `nan` or element < 0` failed.\n",
        ),
        (
            "fail collective-timeout [] SGLang: rank 3 has loaded the model, and others did not in time",
            "[2026-03-17 17:15:55 TP3] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/s/model_runner.py\", line 417, in load_model\n    raise ValueError(\n\
             ValueError: TP rank 3 could finish the model loading, but there are other ranks that didn't finish loading. It is likely due to unexpected failures (e.g., OOM) or a slow node.\n",
        ),
    ]);
}

#[test]
fn warnings_that_every_start_on_one_host_prints_are_no_failure() {
    all_are(&[
        (
            "ok",
            "INFO 10-22 15:37:23 [parallel_state.py:1135] world_size=2 rank=0 local_rank=0 distributed_init_method=tcp://127.0.0.1:54803 backend=nccl\n\
             [rank1]:[W1022 15:37:26.192032987 ProcessGroupGloo.cpp:516] Warning: Unable to resolve hostname to a (local) address. Using the loopback address as fallback. \
             Manually set the network interface to bind to with GLOO_SOCKET_IFNAME. (function operator())\n\
             [Gloo] Rank 1 is connected to 1 peer ranks. Expected number of connected peer ranks is : 1\n",
        ),
        // Ray leaves out what other ranks print, too.
        (
            "warn fallback-to-sockets [6] NET/OFI aws-ofi-nccl initialization failed",
            "(RayTrainWorker pid=954, ip=10.67.1.2) w-p5:954:3133 [6] nccl_net_ofi_create_plugin:1067 NCCL WARN NET/OFI aws-ofi-nccl initialization failed [repeated 15x across cluster]\n\
             (RayTrainWorker pid=954, ip=10.67.1.2) w-p5:954:3133 [6] NCCL INFO Using network Socket [repeated 15x across cluster]\n\
             (RayTrainWorker pid=954, ip=10.67.1.2) w-p5:954:3133 [6] NCCL INFO comm 0x7f3aed3f8c00 rank 6 nranks 16 cudaDev 6 nvmlDev 6 busId b9000 commId 0xb28cabf3135b26f2 - Init START [repeated 15x across cluster]\n",
        ),
    ]);
}

#[test]
fn data_loading_processes_that_are_gone() {
    let gone = "RuntimeError: DataLoader worker (pid(s) 8864) exited unexpectedly";
    all_are(&[
        // What the queue says is a consequence.
        (
            "fail python-exception [] RuntimeError: DataLoader worker (pid(s) 8864) exited unexpectedly",
            &format!(
                "Traceback (most recent call last):\n  File \"/w/queues.py\", line 122, in get\n    c = Client(address)\nFileNotFoundError: [Errno 2] No such file or directory\n\n\
                 The above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File \"/w/main.py\", line 15, in <module>\n    main()\n{gone}\n"
            ),
        ),
        // A line of a program that a traceback shows is none that was printed.
        (
            "fail python-exception [0] rank 0: RuntimeError: DataLoader worker (pid(s) 8864) exited unexpectedly",
            &format!(
                "[rank0]:     raise RuntimeError(f'DataLoader worker (pid(s) {{pids_str}}) exited unexpectedly') from e\n[rank0]: {gone}\n"
            ),
        ),
    ]);
}

#[test]
fn who_holds_the_memory_of_a_full_gpu() {
    let full = |held: &str| {
        format!(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 0 has a total capacity of 40.00 GiB of which 100.00 MiB is free. {held}\n"
        )
    };
    let why = |text: &str| report(text).findings[0].whole_why();
    let others = full(
        "Including non-PyTorch memory, this process has 8.00 GiB memory in use. Of the allocated memory 7.50 GiB is allocated by PyTorch, and 7.00 MiB is reserved by PyTorch but unallocated.",
    );
    assert_eq!(
        said(&others),
        "fail cuda-oom [] CUDA out of memory. Tried to allocate 112.00 MiB on its GPU 0; 100.00 MiB of 40.00 GiB were free"
    );
    assert!(why(&others).starts_with("this process held 8.00 GiB, other processes 31.90 GiB"), "{}", why(&others));
    let pieces = full(
        "Including non-PyTorch memory, this process has 39.90 GiB memory in use. Of the allocated memory 28.00 GiB is allocated by PyTorch, and 11.00 GiB is reserved by PyTorch but unallocated.",
    );
    assert!(why(&pieces).starts_with("PyTorch held 11.00 GiB that were not in use"), "{}", why(&pieces));
    let beside = full(
        "Process 4120 has 39.90 GiB memory in use. Of the allocated memory 3.00 GiB is allocated by PyTorch, and 0 bytes is reserved by PyTorch but unallocated.",
    );
    assert!(why(&beside).starts_with("PyTorch used 3.00 GiB in this process, and 36.90 GiB were held beside it"), "{}", why(&beside));
    let all = full(
        "Including non-PyTorch memory, this process has 39.90 GiB memory in use. Of the allocated memory 39.00 GiB is allocated by PyTorch, and 70.00 MiB is reserved by PyTorch but unallocated.",
    );
    assert!(why(&all).starts_with("this process held 39.90 GiB · "), "{}", why(&all));
}

#[test]
fn ranks_that_wait_at_different_numbers_of_a_group() {
    let line = |rank: u32, seq: u32| {
        format!(
            "[rank{rank}]:[E822 16:31:16.131931664 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType=BROADCAST, NumelIn=36, NumelOut=36, Timeout(ms)=600000) ran for 600009 milliseconds before timing out.\n\
             [rank{rank}]:[E822 16:31:16.132547721 ProcessGroupNCCL.cpp:2271] [PG ID 4 PG GUID 67 Rank {rank}]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: 90, last completed work: {}\n",
            seq - 1
        )
    };
    let report = report(&format!("{}{}", line(0, 78), line(3, 77)));
    assert!(
        report.findings[0].whole_why().contains("rank 3 waits at 77, which rank 0 passed and waits at 78"),
        "{}",
        report.findings[0].whole_why()
    );
}

#[test]
fn a_traceback_as_the_message_of_an_exception_is_the_exception() {
    all_are(&[(
        "fail python-exception [] AssertionError: no checkpoints in memory any more",
        "Traceback (most recent call last):\n  File \"/r/tuner.py\", line 364, in fit\n    raise TuneError(traceback.format_exc())\n\
         ray.tune.error.TuneError: Traceback (most recent call last):\n  File \"/r/x.py\", line 5, in save\n    assert (\n\
         AssertionError: no checkpoints in memory any more\n\n\n\
         The above exception was the direct cause of the following exception:\n\n\
         Traceback (most recent call last):\n  File \"t.py\", line 201, in <module>\n    grid = tuner.fit()\n\
         ray.tune.error.TuneError: The Ray Tune run failed. Please inspect the previous error messages for a cause.\nSubprocess return code: 1\n",
    )]);
}

/// One node's log, where a rank of another was killed: the watchdog says only that its collective failed.
#[test]
fn all_processes_of_a_host_that_died_alike_are_named() {
    let one = |host: &str, pid: u32, signal: &str| {
        format!("[{host}:{pid:05}] *** Process received signal ***\n[{host}:{pid:05}] Signal: {signal}\n")
    };
    let bus = [one("n1", 41, "Bus error (7)"), one("n1", 42, "Bus error (7)"), one("n2", 43, "Bus error (7)")].concat();
    let segfault = [one("n1", 51, "Segmentation fault (11)"), one("n1", 52, "Segmentation fault (11)")].concat();
    all_are(&[
        ("fail rank-exited [] pids 41 and 42 on n1 crashed with a bus error", bus.as_str()),
        ("fail rank-exited [] pids 51 and 52 on n1 crashed: segmentation fault", segfault.as_str()),
    ]);
}

#[test]
fn a_stub_of_the_driver_is_why_a_call_of_nccl_failed() {
    all_are(&[(
        "fail launch-failed [] CUDA device 0 of node-3: start: a stub of libcuda.so is loaded",
        "node-3:2201:2201 [0] misc/strongstream.cc:60 NCCL WARN Cuda failure 'CUDA driver is a stub library'\n",
    )]);
}

#[test]
fn who_lost_a_connection_did_not_time_out() {
    all_are(&[(
        "fail connection-lost [] rank 0 lost its connection to another rank",
        "[rank0]:[E1123 16:55:54.294069423 ProcessGroupNCCL.cpp:612] [Rank 0] Collective WorkNCCL(SeqNum=339, OpType=ALLREDUCE, NumelIn=8392704, NumelOut=8392704, Timeout(ms)=600000) raised the following async exception: NCCL error: remote process exited or there was a network error, NCCL version 2.28.9\n\
         ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n\
         Last error:\nsocketProgress: Connection closed by remote peer \n\
         [rank0]:[E1123 16:55:54.295911102 ProcessGroupNCCL.cpp:2303] [PG ID 0 PG GUID 0(default_pg) Rank 0]  failure detected by watchdog at work sequence id: 339 PG status: last enqueued work: 342, last completed work: 338\n\
         [rank0]:[E1123 16:55:54.659097078 ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 342, last completed NCCL work: 338.\n",
    )]);
}

#[test]
fn interfaces() {
    all_are(&[
        (
            "warn wrong-interface [] NCCL uses the interface lo for bootstrap",
            "G9:10:10 [0] NCCL INFO NCCL_SOCKET_IFNAME set by environment to lo\nG9:10:10 [0] NCCL INFO Bootstrap : Using [0]lo:127.0.0.1<0>\n\
             G9:10:10 [0] NCCL INFO NET/Socket : Using [0]lo:127.0.0.1<0>\nG9:10:10 [0] NCCL INFO Using network Socket\n",
        ),
        (
            "warn wrong-interface [] NCCL uses the interfaces br-a29d90e2, br-a8ce60a0, veth5d57c65 and 1 more for data",
            "10.4.1.17: lam3:14:14 [3] NCCL INFO NET/Socket : Using [0]enp1s0f0:10.4.1.17<0> [1]br-a29d90e2:192.168.203.1<0> [2]br-a8ce60a0:172.19.0.1<0> [3]veth5d57c65:fe80::6c58%veth5d57c65<0> [4]veth6d57c65:fe80::6c68%veth6d57c65<0>\n\
             10.4.1.17: lam3:14:14 [3] NCCL INFO Using network Socket\n",
        ),
    ]);
}

const NODES: &str = "n1:10:9 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 0\n";

/// Of an item of the checklist its state, value and proof.
fn item(log: &str, id: &str) -> (Seen, String, String) {
    let report = report(log);
    let item = report.checklist.iter().find(|i| i.id == id).unwrap();
    (item.state, item.value.clone(), item.proof.as_ref().map_or(String::new(), |p| p.text.to_string()))
}

#[test]
fn gpu_direct_that_is_off_between_nodes_is_told_with_the_line_that_says_so() {
    let off = "n1:10:9 [0] NCCL INFO NET/IB : GPU Direct RDMA Disabled for HCA 0 'mlx5_0'\n";
    let line =
        |via: &str| format!("n1:10:9 [0] NCCL INFO Using network IB\nn1:10:9 [0] NCCL INFO Channel 00/0 : 0[0] -> 8[0] [send] via {via}\n");
    let without = [NODES, off, &line("NET/IB/0")].concat();
    let (state, value, proof) = item(&without, "gpu-paths");
    assert_eq!(
        (state, value.starts_with("data between nodes is copied through host memory, GPUDirect RDMA is not used")),
        (Seen::Warn, true),
        "{value}"
    );
    assert!(proof.contains("GPU Direct RDMA Disabled"), "{proof}");
    all_are(&[("warn transport-below-topology [] data between nodes is copied through host memory", &without)]);
    assert_eq!(report(&without).findings.len(), 1);
    assert_eq!(item(&[NODES, &line("NET/IB/0")].concat(), "gpu-paths").0, Seen::Pass);
}

#[test]
fn sockets_between_nodes_are_worth_knowing_and_a_warning_only_beside_rdma() {
    let socket = "n1:10:9 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.1<0>\nn1:10:9 [0] NCCL INFO Using network Socket\n";
    let plain = [socket, NODES].concat();
    let all = report(&plain);
    let f = &all.findings[0];
    assert_eq!((all.verdict, f.rule, f.severity, f.role), (Verdict::Ok, "fallback-to-sockets", Severity::Info, Role::Context));
    assert!(f.summary.starts_with("the nodes talk over TCP sockets"), "{}", f.summary);
    assert_eq!(item(&plain, "network").0, Seen::Warn);
    let asked = ["n1:10:9 [0] NCCL INFO NCCL_NET set by environment to AWS Libfabric\n", socket, NODES].concat();
    assert!(said(&asked).contains("fallback-to-sockets [] NCCL uses TCP sockets although NCCL_NET=AWS Libfabric"), "{}", said(&asked));
    assert_eq!(report(&asked).findings.iter().filter(|f| f.rule == "fallback-to-sockets").count(), 1);
    // Inside one node sockets do not matter.
    assert_eq!(report(&plain.replace("nNodes 2", "nNodes 1")).findings.len(), 0);
}

#[test]
fn an_exception_that_was_caught_does_not_fail_a_job_that_goes_on() {
    let steps = |from: u32, to: u32| (from..to).map(|i| format!("step {i} loss 2.5\n")).collect::<String>();
    let caught = "Traceback (most recent call last):\n  File \"/w/a.py\", line 3, in save\n    upload()\nOSError: bucket is not there\n";
    let on = [&steps(1, 5), caught, &steps(5, 20)].concat();
    all_are(&[
        ("warn python-exception [] OSError: bucket is not there", &on),
        ("fail python-exception []", &[&steps(1, 5), caught].concat()),
    ]);
    let report = report(&on);
    assert!(report.findings[0].why.starts_with("the job went on after it, and made 15 more steps"), "{}", report.findings[0].why);
    // The last step said again by each bar as it closes is no step.
    let bar = |i: u32| format!("\r {i}%|#    | {i}/100 [00:01<10:00,  9.00it/s]");
    let closed = [bar(1), bar(2), "\n".into(), caught.into(), bar(2), bar(2), bar(2), bar(2), "\n".into()].concat();
    all_are(&[("fail python-exception []", &closed)]);
    // A process that prints into a file writes what it held back behind its last words.
    let held_back = [&"config: a line that is long enough to fill what is held back\n".repeat(200), caught, &steps(1, 100)].concat();
    all_are(&[("fail python-exception []", &held_back)]);
    all_are(&[("fail python-exception []", &[caught, &steps(1, 100)].concat())]);
    // More than it can hold back was not.
    let long = [&"config: a line that is long enough to fill what is held back\n".repeat(200), caught, &steps(1, 900)].concat();
    all_are(&[("warn python-exception []", &long)]);
    // Another rank that ends the job has the last word.
    let ended = [&on, "E0330 00:37:34.807003 5501 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 5527) of binary: /opt/bin/python\n"].concat();
    assert!(said(&ended).starts_with("fail"), "{}", said(&ended));
}

#[test]
fn losses() {
    all_are(&[
        (
            "warn loss-not-finite [] the loss is exactly 0 and the gradient norm is not finite",
            "{'loss': 1.4705, 'grad_norm': 2.1137, 'learning_rate': 4e-06, 'epoch': 0.61}\n{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4e-06, 'epoch': 0.62}\n\
             {'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4e-06, 'epoch': 0.63}\n{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 4e-06, 'epoch': 0.64}\n",
        ),
        (
            "fail loss-not-finite []",
            "{'loss': 1.2, 'grad_norm': 1.0, 'learning_rate': 4e-06, 'epoch': 0.61}\n{'loss': nan, 'grad_norm': nan, 'learning_rate': 4e-06, 'epoch': 0.62}\n",
        ),
        // Reinforcement learning has a loss of 0 with a gradient; one bad norm is how fp16 finds its scale.
        (
            "ok",
            "{'loss': 0.1, 'grad_norm': 0.2, 'learning_rate': 4e-06, 'epoch': 0.61}\n{'loss': 0.0, 'grad_norm': 0.3, 'learning_rate': 4e-06, 'epoch': 0.62}\n\
             {'loss': 0.0, 'grad_norm': 0.2, 'learning_rate': 4e-06, 'epoch': 0.63}\n{'loss': 0.0, 'grad_norm': 0.1, 'learning_rate': 4e-06, 'epoch': 0.64}\n",
        ),
        (
            "ok",
            "{'loss': 2.1, 'grad_norm': inf, 'learning_rate': 4e-06, 'epoch': 0.01}\n{'loss': 2.0, 'grad_norm': 3.5, 'learning_rate': 4e-06, 'epoch': 0.02}\n",
        ),
    ]);
}

#[test]
fn healthy_logs() {
    all_are(&[
        (
            "ok",
            " iteration       22/    5000 | consumed samples:        24928 | elapsed time per iteration (ms): 8654.2 | learning rate: 9.1E-06 | global batch size:  1024 | lm loss: 2.5E+00 | loss scale: 1.0 | grad norm: 0.234 | number of skipped iterations:   0 | number of nan iterations:   0 |\n iteration       23/    5000 | consumed samples:        259\n",
        ),
        (
            "ok",
            "[rank0]:[titan] 2026-03-12 14:10:21,589 - root - INFO - step: 23  loss:  6.2239  memory:  1.41GiB(1.79%)  tps: 212,462  tflops: 20.12  mfu: 2.03%\n[rank0]:[titan] 2026-03-12 14:10:21,603 - root - WARNING - Dataset c4_test is being re-looped\n",
        ),
        (
            "ok",
            "10.8.5.171:   total_norm = acc.FloatTensor([float(total_norm)])\n10.8.5.170: {'loss': 1.2995, 'learning_rate': 1.2e-06, 'epoch': 0.0}\n",
        ),
        (
            "ok",
            "[rank5]:[W515 10:06:42.894453423 ProcessGroupNCCL.cpp:1117] WARNING: process group has NOT been destroyed before it is being destructed. On normal program exit, the application should call destroy_process_group\n",
        ),
        (
            "ok",
            "u9:13:13 [0] NCCL INFO Bootstrap : Using enp36s0f1:10.1.129.18<0>\nu9:13:13 [0] misc/ibvwrap.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\nu9:13:13 [0] NCCL INFO NET/Socket : Using [0]enp36s0f1:10.1.129.18<0>\nu9:13:13 [0] NCCL INFO Using network Socket\n",
        ),
        (
            "ok",
            "[1,26]<stdout>:ip-9:87:95 [2] NCCL INFO Ring 00 : 26[2] -> 30[6] via P2P/IPC\n[1,7]<stdout>:ip-8:21:22 [7] NCCL INFO Ring 00 : 7 -> 8 [send] via NET/AWS Libfabric/0\n",
        ),
        (
            "ok",
            "64:220:577 [5] NCCL INFO Channel 13/0 : 14[d0000] -> 5[c4000] [receive] via NET/IB/7/GDRDMA\n64:219:636 [4] NCCL INFO comm 0x4df81900 rank 4 nranks 16 cudaDev 4 busId 85000 - Init COMPLETE\n",
        ),
        (
            "ok",
            "[1,6]<stdout>:b-worker-0:27:575 [6] NCCL INFO Channel 00/0 : 6[6] -> 7[7] via P2P/CUMEM\n[1,20]<stdout>:b-worker-2:25:574 [4] NCCL INFO Channel 00/0 : 20[4] -> 24[0] [se\n",
        ),
        (
            "ok",
            "[worker0|0]:  1%|          | 1/101 [00:20<34:51, 20.91s/it]\n[worker0|0]:1|2|Loss: 2.7642:   3%|▏         | 3/101 [00:53<27:44, 16.98s/it] [worker0|0]:\n",
        ),
    ]);
}

#[test]
fn a_search_for_the_loss_scale_is_no_failure() {
    let line = |from: u32, to: u32| {
        format!(
            "[2026-07-17 22:44:06,829] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {from}, reducing to {to}\n"
        )
    };
    assert_eq!(report(&(line(65536, 32768) + &line(32768, 16384))).verdict, Verdict::Ok);
}

#[test]
fn facts_of_odd_lines() {
    let f = told(
        "[0m ipx-3:146:147 [0] NCCL INFO Bootstrap : Using [0]ens5:10.31.0.137<0> [1]veth7:fe80::14%veth7<0>\n[0m NCCL version 2.7.8+cuda11.1\n[0m ipx-3:146:148 [0] NCCL INFO Channel 00/04 :    0   1   2\n",
    );
    assert_eq!((&f["nccl_version"], &f["socket_ifname"][0], &f["nranks"]), (&"2.7.8".into(), &"ens5".into(), &3.into()));
    let f = told(
        "64:219:636 [4] NCCL INFO comm 0x4df81900 rank 4 nranks 16 cudaDev 4 busId 85000 - Init COMPLETE\n64:220:577 [5] NCCL INFO Channel 13/0 : 14[d0000] -> 5[c4000] [receive] via NET/IB/7/GDRDMA\n",
    );
    assert_eq!((&f["nranks"], &f["network"], &f["hosts_seen"][0]), (&16.into(), &"IB".into(), &"64".into()));
    let f = told(
        "RuntimeError: NCCL error in: /b/ProcessGroupNCCL.cpp:1269, internal error, NCCL version 2.14.3\nncclInternalError: Internal check failed.\n",
    );
    assert_eq!(f["nccl_version"], "2.14.3");
    let f = told(
        "  | 2026-05-16T19:39:55.213-07:00ip-5:79:79 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics) | ip-5:79:79 [0] NCCL INFO NET/OFI Selected provider is efa, fabric is efa (found 4 nics)\n",
    );
    assert_eq!(f["hosts_seen"][0], "ip-5");
    let f = told(
        "[worker0|0]:  1%|          | 1/101 [00:20<34:51, 20.91s/it]\n[worker0|0]:1|2|Loss: 2.7642:   3%|▏         | 3/101 [00:53<27:44, 16.98s/it] [worker0|0]:\n",
    );
    assert_eq!((&f["training"]["step"], &f["training"]["loss"]), (&2.into(), &2.7642.into()));
}

#[test]
fn what_was_said_before_the_first_time_came_first() {
    let bad = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/t.py\", line 3, in f\n[rank1]: ValueError: bad\n";
    let late = |rank: u32, at: &str| {
        format!(
            "[rank{rank}]:[E1121 {at} ProcessGroupNCCL.cpp:689] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=5, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=20000) ran for 20001 milliseconds before timing out.\n"
        )
    };
    let log = [bad, &late(0, "00:04:23.090000000"), &late(2, "00:04:29.090000000")].concat();
    all_are(&[("fail python-exception [1] ", &log)]);
}

#[test]
fn damaged_lines_may_tell_any_rank() {
    for log in [
        "[rank4294967295]:Watchdog caught collective operation timeout: SeqNum=116OpType=A.\n[Rank 5] Watchdog caught collective operation timeout: C(SeqNum=116, OpType=AL\n",
        "[rank4294967290]:Watchdog caught collective operation timeout: SeqNum=116OpType=A.\n[Rank 5] Watchdog caught collective operation timeout: C(SeqNum=116, OpType=AL\n",
        "Rank 1]Watchdog caught collective operation timeout: SeqNum=3[rank4294967295]:ProcessGroupNCCL preparing to dump debug info\n",
        "slurmstepd: error: ***   ON  CANCELLED AT DUE o\u{fffd}SIGNAL Terminated ***\n",
        "Epoch|1/8 [2:1,global_step=922337203685477580]\n",
    ] {
        assert!(report(log).findings.len() < 4, "{log}");
    }
}

fn step_of(report: &Report) -> Option<u64> {
    report.session.model.files[&0].progress.step
}

#[test]
fn lines_are_counted_and_found() {
    let text = "noise\n[rank1]: Traceback (most recent call last):\n[rank1]:   File \"a.py\", line 3, in f\n\
        [rank1]: ValueError: bad\nstep 7 loss 2.5\n\rstep 8 loss 2.25\rnoise\nh:1:1 [0] a.cc:1 NCCL WARN odd\nno end";
    let report = report(text);
    assert_eq!(report.inputs[0].lines, Some(8));
    let places: Vec<_> = report.findings.iter().map(|f| (f.rule, f.evidence[0].line)).collect();
    assert_eq!(places, [("python-exception", Some(4)), ("nccl-warn", Some(7))]);
    assert_eq!(report.root_cause, Some(0));
    assert_eq!(step_of(&report), Some(8));
}

#[test]
fn a_run_begins_anew_only_after_something_has_failed() {
    let banner =
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded\n";
    let warn = |no: u32| format!("h:1:1 [0] a.cc:{no} NCCL WARN odd\n");
    let text = [banner, banner, &warn(1), &warn(2), banner, banner, &warn(1)].concat();
    let report = report(&text);
    let runs: Vec<_> = report.record().alarms.iter().map(|a| (a.run, a.line)).collect();
    assert_eq!(runs, [(0, Some(3)), (1, Some(7))]);
}

#[test]
fn what_fails_again_in_a_second_run_is_not_the_past() {
    let banner =
        "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded\n";
    let taken = "[W socket.cpp:426] [c10d] The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n";
    let end = "srun: error: n44: task 3: Exited with exit code 1\n";
    all_are(&[("fail rendezvous-failed [] rendezvous: port 29500", &[banner, taken, banner, taken, end].concat())]);
}

#[test]
fn blank_lines_in_a_traceback_say_nothing() {
    let text =
        format!("[rank3]: Traceback (most recent call last):\n{}[rank3]: ValueError: bad\nstep 7 loss 2.5\n", "\n \n\r".repeat(2000));
    let report = report(&text);
    assert_eq!(report.findings.iter().map(|f| (f.rule, f.ranks.clone())).collect::<Vec<_>>(), [("python-exception", vec![3])]);
    assert_eq!(step_of(&report), Some(7));
}

#[test]
fn a_process_that_says_a_thing_again_when_its_rank_is_known_says_one_thing() {
    let warn = "h:1:1 [0] a.cc:1 NCCL WARN odd\n";
    let init = "h:1:1 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 4 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x2 - Init COMPLETE\n";
    let report = report(&[warn, init, warn, &warn.replace("h:1", "i:1")].concat());
    let said: Vec<_> = report.record().alarms.iter().map(|a| (a.line, a.rank, a.count)).collect();
    assert_eq!(said, [(Some(1), Some(4), 2), (Some(4), Some(4), 1)]);
}

#[test]
fn a_line_of_megabytes_is_read_at_its_start() {
    let report = report(&format!("h:1:1 [0] a.cc:1 NCCL WARN long {}\nstep 1 loss 2.0\nstep 2 loss 1.0", "x".repeat(3 << 20)));
    assert_eq!(report.inputs[0].lines, Some(3));
    assert_eq!(report.findings[0].rule, "nccl-warn");
    assert_eq!(step_of(&report), Some(2));
}

const WORK: &str = "ran for 600005 milliseconds before timing out.";

/// A watchdog's timeout on a rank; `group` is what stands before the rank inside its bracket.
fn timed_out(rank: u32, group: &str, seq: u32, numel: u32) -> String {
    format!(
        "[rank{rank}]:[E430 05:09:48.828088908 ProcessGroupNCCL.cpp:632] [{group}Rank {rank}] Watchdog caught collective operation timeout: \
         WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn={numel}, NumelOut={numel}, Timeout(ms)=600000) {WORK}\n"
    )
}

#[test]
fn nobody_is_called_silent_against_his_own_line() {
    // Only rank 0 names its group; rank 1 waits for another call, and no rank is silent.
    let status = "[rank0]:[E430 05:09:48.830445837 ProcessGroupNCCL.cpp:2268] [PG ID 1 PG GUID 1 Rank 0] failure detected by watchdog at work \
                  sequence id: 15 PG status: last enqueued work: 15, last completed work: 14\n";
    let apart = report(&[timed_out(0, "", 15, 4096), status.into(), timed_out(1, "", 16, 1)].concat());
    let found = apart.findings.iter().find(|f| f.rule == "collective-timeout").unwrap();
    assert!(!found.why.contains("look there first"), "{}", found.why);
    assert!(found.why.contains("rank 0 waits at 15, the others at 16"), "{}", found.why);
    // Of a group whose other ranks are named the one without a name has come, too.
    let tp = "PG ID 3 PG GUID 5(mesh_tp) ";
    let line =
        |rank: u32, inside: u32, group: &str| timed_out(rank, group, 12, 8).replace(&format!("Rank {rank}]"), &format!("Rank {inside}]"));
    let all = report(&[line(0, 0, tp), line(2, 1, tp), line(4, 2, ""), line(6, 3, tp)].concat());
    assert!(all.findings.iter().all(|f| f.rule != "hang-rank-absent"), "{:?}", all.findings);
    assert!(all.findings.iter().any(|f| f.why.contains("ranks 0, 2, 4 and 6 report it")), "{:?}", all.findings);
}

#[test]
fn a_log_that_ends_while_ranks_come_up_is_not_stuck_for_sure() {
    let start = |rank: u32, tail: &str| {
        format!(
            "box-1:40{rank}:50{rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}b000 commId 0xab00000000 - Init {tail}\n"
        )
    };
    let cut = [start(0, "START"), start(1, "START"), "box-1:400:500 [0] NCCL INFO Setting affinity for GPU 0 to ff\n".into()].concat();
    all_are(&[("warn init-stuck [0, 1] initialisation finished on 0 of 2 ranks: ranks 0 and 1 began, and the log ends", &cut)]);
    // Half an hour of silence behind it is another matter.
    let later = format!(
        "2026-05-04T10:00:00Z {}2026-05-04T10:00:00Z {}2026-05-04T10:31:00Z step 0 waits\n2026-05-04T10:31:00Z box-1:400:500 [0] NCCL INFO Using network Socket\n",
        start(0, "START"),
        start(1, "START")
    );
    all_are(&[("fail init-stuck", &later)]);
}

#[test]
fn records_that_somebody_broke_or_wrapped() {
    all_are(&[
        // At the width of a terminal, in a number, in a word, and where the numbers begin.
        (
            "fail collective-timeout [] ALLREDUCE 9387 timed out after 600 s; rank 4 reports it",
            "[rank4]:[E430 05:09:48.828088908 ProcessGroupNCCL.cpp:632] [Rank 4] Watchdog cau\n\
             ght collective operation timeout: WorkNCCL(SeqNum=9387, OpType=ALLREDUCE, NumelI\n\
             n=1, NumelOut=1, Timeout(ms)=600000) ran for 600005 milliseconds before timing o\n\
             ut.\n",
        ),
        (
            "fail collective-timeout [] rank 4: the watchdog found that collective 51 failed or timed out; last enqueued 51, last completed 50",
            "[rank4]:[E430 05:09:48.830445837 ProcessGroupNCCL.cpp:2268] [PG ID 2 PG GUID 3 Rank 4]  failure detected by watchdog at work sequence id: 51 PG status: \n\
             last enqueued work: 51, last completed work: 50\n",
        ),
        // What comes behind a torn line is read all the same.
        (
            "fail python-exception [4] rank 4: ValueError: bad shape",
            "[rank4]:[E430 05:09:48.828088908 ProcessGroupNCCL.cpp:632] [Rank 4] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9387, Op\n\
             [rank4]: Traceback (most recent call last):\n[rank4]:   File \"/a/t.py\", line 3, in f\n[rank4]: ValueError: bad shape\n",
        ),
        // A colour or nothing in place of a blank; a byte order mark.
        (
            "fail nccl-warn [] CUDA device 0 of box-1: /dev/shm is too small or full: NCCL could not make /dev/shm/nccl-Qx11Zz 33554436 bytes long",
            "\u{feff}box-1:100:100 [0] misc/shmutils.cc:88\u{1b}[31mNCCL WARN\u{1b}[0m Error: failed to extend /dev/shm/nccl-Qx11Zz to 33554436 bytes, error: No space left on device (28)\n",
        ),
        (
            "fail nccl-warn [] CUDA device 0 of box-1: /dev/shm is too small or full: NCCL could not make /dev/shm/nccl-Qx11Zz 33554436 bytes long",
            "box-1:100:100 [0] misc/shmutils.cc:88NCCL WARN Error: failed to extend /dev/shm/nccl-Qx11Zz to 33554436 bytes, error: No space left on device (28)\n",
        ),
        // Log shippers.
        (
            "fail python-exception [2] rank 2: ValueError: bad shape",
            "{\"log\":\"[rank2]: Traceback (most recent call last):\\n[rank2]:   File \\\"/a/t.py\\\", line 3, in f\\n[rank2]: ValueError: bad shape\\n\",\"stream\":\"stderr\",\"time\":\"2026-05-04T10:00:00Z\"}\n",
        ),
        // Brackets of a program that nobody knows.
        (
            "fail storage-failed [] OSError: [Errno 28] No space left on device",
            "2026-04-29 06:01:12.977 [8/train/5 (pid 28936)] [0000-ab] ERROR main failed\n\
             2026-04-29 06:01:12.977 [8/train/5 (pid 28936)] [0000-ab] Traceback (most recent call last):\n\
             2026-04-29 06:01:12.977 [8/train/5 (pid 28936)] [0000-ab]   File \"/a/save.py\", line 9, in save\n\
             2026-04-29 06:01:12.977 [8/train/5 (pid 28936)] [0000-ab]     out.write(data)\n\
             2026-04-29 06:01:12.977 [8/train/5 (pid 28936)] [0000-ab] OSError: [Errno 28] No space left on device\n",
        ),
        // The GPU's name stands two lines above.
        (
            "fail gpu-lost [] GPU 0000:b3:00.0 has fallen off the bus",
            "[ 1843.308145] NVRM: The NVIDIA GPU 0000:b3:00.0\n               NVRM: (PCI ID: 10de:26b5) installed in this system has\n               NVRM: fallen off the bus and is not responding to commands.\n",
        ),
        (
            "fail rank-exited [] Ray actor WorkerDict_0:6 (pid 4711 on 10.0.0.3) died without an exception",
            "    raise value\nray.exceptions.ActorDiedError: The actor died unexpectedly before finishing this task.\n\tclass_name: make.<locals>.WorkerDict\n\tactor_id: 77\n\tpid: 4711\n\tname: WorkerDict_0:6\n\tip: 10.0.0.3\nThe actor is dead because its worker process has died.\n",
        ),
    ]);
}

#[test]
fn libraries_beside_nccl() {
    all_are(&[
        (
            "fail nic-errors [] UCX: the peer did not answer over mlx5_0:1/IB of box-1: transport retry count exceeded",
            "[box-1:77:0:77] ib_mlx5_log.c:139  Transport retry count exceeded on mlx5_0:1/IB (synd 0x15 vend 0x81 hw_synd 0/0)\n\
             [box-1:77] *** Process received signal ***\n[box-1:77] Signal: Aborted (6)\n",
        ),
        (
            "fail rendezvous-failed [] NVSHMEM could not connect its queue pairs: timed out",
            "/w/nvshmem/src/modules/transport/ibrc/ibrc.cpp:418: non-zero status: 110 ibv_modify_qp failed\n\n\
             /w/nvshmem/src/modules/transport/ibrc/ibrc.cpp:1433: non-zero status: 7 ep_connect failed\n",
        ),
        (
            "fail hang-rank-absent [1] rank 1 did not submit HorovodBroadcast_bias_0 to Horovod",
            "[1,0]<stderr>:[2026-04-13 13:53:31.851506: W horovod/common/operations.cc:588] HorovodBroadcast_bias_0 [missing ranks: 1]\n",
        ),
        (
            "fail nccl-warn [] XLA: ncclCommInitRank failed: unhandled system error; NCCL's last warning: Accept failed: Bad file descriptor",
            "INTERNAL: xla/service/gpu/nccl_utils.cc:305: NCCL operation ncclCommInitRank(&comm, nranks, id, rank) failed: unhandled system error (run with NCCL_DEBUG=INFO for details). Last NCCL warning(error) log entry (may be unrelated) 'Accept failed: Bad file descriptor'.\n",
        ),
        (
            "fail nccl-warn [1] a call of NCCL failed on rank 1: invalid usage",
            "[11/18/2025-09:33:30] [TRT-LLM] [RANK 1] [E] Failed to initialize executor on rank 1: [TensorRT-LLM][ERROR] Assertion failed: Failed, NCCL error ../runtime/ncclCommunicator.cpp:90 'invalid usage (run with NCCL_DEBUG=WARN for details)'\n",
        ),
        (
            "fail cuda-error [] CUDA device 1 of box-1: RCCL: hipIpcGetMemHandle failed: invalid argument",
            "box-1:77:83 [0] /r/hipify/src/init.cc:127 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!\n\n\
             box-1:77:83 [1] /r/hipify/src/transport/p2p.cc:220 NCCL WARN hipIpcGetMemHandle failed : invalid argument\n",
        ),
        (
            "fail gpu-xid [] the GPU's system processor (GSP) of the driver's GPU 6 does not answer",
            "[   24.302465] NVRM: GPU6 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 812751949 heartbeat 1899482 diff 6070 timeout 5200\n\
             [   84.300480] NVRM: GPU6 kgmmuCheckMemSubsysError_IMPL: Memory Subsystem Error detected. kbusSendSysmembarSingle failed.\n",
        ),
        ("fail loss-not-finite", "Exception: Current loss scale already at minimum - cannot decrease scale anymore. Exiting run.\n"),
        // Nothing wrong.
        (
            "ok",
            "libfabric:462:1795220773:efa:core:info_to_efa():506<warn> FI_HMEM capability requires RDMA, which this device does not support.\n",
        ),
        (
            "ok",
            "box-1:77:83 [0] /r/init.cc:127 NCCL WARN Missing \"iommu=pt\" from kernel command line which can lead to system instablity or hang!\n",
        ),
        ("ok", "(RayWorkerWrapper pid=16720) INFO 06-19 06:19:29 pynccl.py:65] vLLM is using nccl==2.20.5\n"),
    ]);
    // A CUDA failure means what the part of NCCL that printed it was doing.
    let at = |site: &str, text: &str| format!("box-1:77:83 [0] {site} NCCL WARN Cuda failure '{text}'\n");
    let by = |log: &str| report(log).findings[0].signature;
    assert_eq!(by(&at("transport/nvls.cc:245", "initialization error")), Some("nvls-cuda"));
    assert_eq!(by(&at("init.cc:402", "initialization error")), Some("cuda-cannot-start"));
    assert_eq!(by(&at("transport/p2p.cc:257", "invalid argument")), Some("cuda-p2p-handle"));
    // Nobody went away: they never met.
    let gloo = "[rank3]: RuntimeError: Gloo connectFullMesh failed with [../gloo/transport/tcp/pair.h:301] Connect timeout [none]\n";
    assert_eq!(by(gloo), Some("gloo-connect-timeout"));
    let shm = "box-1:77:83 [1] include/shm.h:28 NCCL WARN Call to posix_fallocate failed : No space left on device\n";
    assert_eq!(by(shm), Some("shm-fallocate"));
}

#[test]
fn without_p2p_and_shared_memory_a_gpu_is_no_node() {
    let lines: String = (0..2)
        .map(|r| {
            format!(
                "box-1:4{r}:5{r} [{r}] NCCL INFO NCCL_P2P_DISABLE set by environment to 1\nbox-1:4{r}:5{r} [{r}] NCCL INFO NCCL_SHM_DISABLE set by environment to 1.\n\
                 box-1:4{r}:5{r} [{r}] NCCL INFO comm 0x{r} rank {r} nRanks 2 nNodes 2 localRanks 1 localRank 0 MNNVL 0\n"
            )
        })
        .collect();
    assert_eq!(told(&lines)["nnodes"], 1);
    assert_eq!(told(&lines)["env"]["NCCL_P2P_DISABLE"], "1", "without a full stop");
    let with_shm = lines.replace("NCCL_SHM_DISABLE set by environment to 1", "NCCL_SHM_DISABLE set by environment to 0");
    assert_eq!(told(&with_shm)["nnodes"], 2);
}

#[test]
fn the_launchers_table_names_all_that_failed() {
    let block = |rank: u32| {
        format!(
            "[{rank}]:\n  time      : 2026-03-11_18:33:20\n  host      : box-1\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : 1 (pid: 77{rank})\n  \
             error_file: <N/A>\n  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
        )
    };
    let line = "------------------------------------------------------------\n";
    let table =
        format!("train.py FAILED\n{line}Failures:\n{}{}{line}Root Cause (first observed failure):\n{}{line}", block(5), block(7), block(2));
    let report = report(&table);
    assert_eq!(report.findings[0].ranks, [2]);
    assert!(
        report.findings[0]
            .why
            .contains("at 18:33:20, on box-1; it lists ranks 5 and 7 (exit code 1) as failed, too; all of them ended within one second"),
        "{}",
        report.findings[0].why
    );
}

#[test]
fn lines_of_the_first_releases_of_nccl() {
    all_are(&[
        // Without `NCCL` in front of the level.
        (
            "fail nccl-warn [] CUDA device 0 of node1: Net : Connect to 10.0.0.2<41233> failed : Connection refused",
            "node1:1234:1300 [0] INFO Using internal Network Socket\n\n\
             node1:1234:1300 [0] include/socket.h:390 WARN Net : Connect to 10.0.0.2<41233> failed : Connection refused\n\
             node1:1234:1300 [0] INFO bootstrap.cu:95 -> 2\n",
        ),
        // Only the way that the error took, and no reason.
        (
            "warn nccl-warn [] a call of NCCL failed: system error, and NCCL printed no reason",
            "nd-01:1911:2198 [0] NCCL INFO misc/socket.cc:564 -> 2\n\
             nd-01:1911:2198 [0] NCCL INFO bootstrap.cc:270 -> 2\n\
             nd-01:1911:2198 [0] NCCL INFO group.cc:64 -> 2 [Async thread]\n\
             nd-01:1911:1911 [0] NCCL INFO group.cc:422 -> 2\n",
        ),
        // With its reason it says nothing new, but that the reason was one.
        (
            "fail nccl-warn [] CUDA device 0 of nd-01: Bootstrap : odd",
            "nd-01:1911:2198 [0] bootstrap.cc:12 NCCL WARN Bootstrap : odd\n\
             nd-01:1911:2198 [0] NCCL INFO group.cc:82 -> 3\n",
        ),
        // Other programs' lines, and times, are not NCCL's.
        ("unknown", "2026-05-04 10:00:12 [3] INFO Using internal Network Socket\nserver:80:443 [1] WARN x.cc:12 slow\n"),
    ]);
    let both = report("nd-01:1:2 [0] b.cc:12 NCCL WARN odd\nnd-01:1:2 [0] NCCL INFO group.cc:82 -> 3\n");
    assert_eq!(both.findings.len(), 1, "{:?}", both.findings);
}

#[test]
fn explanations_name_what_is_behind() {
    all_are(&[
        (
            "fail cuda-error [] CUDA device 0 of gb-1: CUDA could not import the memory of another rank",
            "[2026-03-18 21:25:53] gb-1:31:88 [0] transport/p2p.cc:278 NCCL WARN Cuda failure 101 'invalid device ordinal'\n\
             gb-1:31:88 [0] NCCL INFO transport/p2p.cc:352 -> 1\n",
        ),
        (
            "fail cuda-error [] CUDA device 0 of gb-1: CUDA refused memory that other hosts may map",
            "gb-1:31:88 [0] include/alloc.h:212 NCCL WARN Cuda failure 800 'operation not permitted'\n",
        ),
        (
            "fail gpu-driver [3] rank 3: CUDA refused memory that other processes or hosts may map: IMEX",
            "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/a/t.py\", line 3, in f\n[rank3]:     x = alloc()\n\
             [rank3]: RuntimeError: CUDA driver error: cuMemCreate failed: operation not permitted\n",
        ),
        (
            "fail wrong-interface [] CUDA device 0 of n1: another rank gave out 169.254.3.1, a link-local address",
            "n1:31:88 [0] misc/socket.cc:483 NCCL WARN socketStartConnect: Connect to 169.254.3.1<40111> failed : Connection refused\n",
        ),
        (
            "fail wrong-interface [] CUDA device 0 of n1: another rank gave out fe80::14ad:64ff:fe64:b31e%veth75, a link-local address",
            "n1:31:88 [0] include/socket.h:409 NCCL WARN Net : Connect to fe80::14ad:64ff:fe64:b31e%veth75<40111> failed : Network is unreachable\n",
        ),
        (
            "fail wrong-interface [0] rank 0: Gloo finds no interface ib9 on this host",
            "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/a/t.py\", line 3, in f\n\
             [rank0]: RuntimeError: [enforce fail at ../gloo/transport/tcp/device.cc:83] ifa != nullptr. Unable to find address for: ib9\n",
        ),
        (
            "fail rank-oom-killed [] data loading process 4711 was killed by SIGKILL, as the kernel does when host memory runs out",
            "Traceback (most recent call last):\n  File \"/a/t.py\", line 3, in f\n    for b in loader:\n\
             RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.\n",
        ),
        (
            "fail rank-oom-killed [] the kernel's OOM killer killed python (pid 4711)",
            "[ 8812.20] Memory cgroup out of memory: Killed process 4711 (python) total-vm:81234kB, anon-rss:71234kB\n\
             Traceback (most recent call last):\n  File \"/a/t.py\", line 3, in f\n    for b in loader:\n\
             RuntimeError: DataLoader worker (pid 4711) is killed by signal: Killed.\n",
        ),
        (
            "fail rank-exited [] mpirun lost its helper on node gpu-07",
            "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[41010,0],0] on node gpu-01\n  Remote daemon: [[41010,0],3] on node gpu-07\n\n",
        ),
    ]);
}

#[test]
fn a_switch_of_infiniband_is_not_why_a_plugin_failed() {
    let start = |rank: u32| {
        format!(
            "n{rank}:31:88 [0] NCCL INFO NCCL_IB_DISABLE set by environment to 1\n\
             n{rank}:31:88 [0] NCCL INFO NET/OFI Initializing aws-ofi-nccl 1.13.2\n\
             n{rank}:31:88 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available\n\
             n{rank}:31:88 [0] NCCL INFO Using network Socket\n"
        )
    };
    let report = report(&[start(0), start(1)].concat());
    assert!(report.findings.iter().all(|f| !f.summary.contains("NCCL_IB_DISABLE")), "{:?}", report.findings);
    assert_eq!(report.findings[0].rule, "fallback-to-sockets");
    assert_eq!(report.findings[0].summary, "aws-ofi-nccl found no device: libfabric answers No data available");
}

#[test]
fn one_fault_that_plugin_and_library_report_is_one() {
    let of_rank =
        "n1:2201:88 [0] NCCL INFO ncclCommInitRank comm 0x1 rank 4 nranks 8 cudaDev 0 nvmlDev 0 busId 1b000 commId 0x2 - Init COMPLETE\n";
    let cases = [
        (
            "efa-prov-15",
            "libfabric:2201:1795220773::efa:cq:efa_cq_handle_error():88<warn> Unreachable remote (never received a response)\n\
             n1:2201:88 [0] process_completions:1660 NCCL WARN NET/OFI Request 0x7f completed with error. RC: 113. Error: 15 (Unreachable remote (never received a response)). Completed length: 0, Request: { dev: 1, size: 0, state: CREATED, direction: RECV }\n",
        ),
        (
            "ofi-register",
            "libfabric:2201:1795220773::efa:mr:efa_mr_reg_impl():820<warn> Unable to register MR: Cannot allocate memory\n\
             n1:2201:88 [0] reg_mr_ep:120 NCCL WARN NET/OFI Unable to register memory (type = 2) for device 3. RC: -12, Error: Cannot allocate memory\n",
        ),
        (
            "ofi-init-failed",
            "libfabric:2201:1795220773::core:core:fi_getinfo_():1352<warn> fi_getinfo: provider efa returned -61 (No data available)\n\
             n1:2201:88 [0] nccl_net_ofi_rdma_init:7978 NCCL WARN NET/OFI OFI fi_getinfo() call failed: No data available\n\
             n1:2201:88 [0] nccl_net_ofi_create_plugin:341 NCCL WARN NET/OFI aws-ofi-nccl initialization failed\n",
        ),
    ];
    for (id, lines) in cases {
        let report = report(&[of_rank, lines].concat());
        let found: Vec<_> = report.findings.iter().map(|f| f.signature).collect();
        assert_eq!(found, [Some(id)]);
        assert_eq!(report.findings[0].ranks, [4]);
    }
    // Alone it is not its raw line.
    let alone = "libfabric:2201:1795220773::efa:cq:efa_cq_handle_error():88<warn> Unresponsive remote (was previously responsive)\n";
    all_are(&[("fail nic-down [] libfabric (EFA): Unresponsive remote (was previously responsive)", alone)]);
}

#[test]
fn an_assertion_is_of_the_rank_that_fails_of_it() {
    let assertion =
        "../a/Indexing.cu:1290: indexSelectLargeIndex: block: [11,0,0], thread: [64,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n";
    let failure = "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/a/t.py\", line 3, in f\n[rank5]: RuntimeError: CUDA error: device-side assert triggered\n";
    all_are(&[
        ("fail cuda-error [5] rank 5: a check in a CUDA kernel failed: srcIndex < srcSelectDimSize", &[assertion, failure].concat()),
        ("fail cuda-error [] a check in a CUDA kernel failed: srcIndex < srcSelectDimSize", assertion),
    ]);
}

#[test]
fn faults_of_other_nodes_are_no_consequences() {
    let log = "May  4 09:12:00 node-1 kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n\
               May  4 10:14:00 node-4 kernel: EXT4-fs error (device nvme0n1p1): ext4_find_entry:1455: inode #2: comm python: reading directory lblock 0\n";
    let roles = |log: &str| report(log).findings.iter().map(|f| (f.rule, f.role)).collect::<Vec<_>>();
    assert_eq!(roles(log), [("gpu-lost", Role::Root), ("storage-failed", Role::Root)]);
    assert_eq!(
        roles(&log.replace("node-4", "node-1").replace("10:14", "09:12")),
        [("gpu-lost", Role::Root), ("storage-failed", Role::Cascade)]
    );
}

#[test]
fn nobody_is_sent_to_a_process_that_is_gone() {
    let init = |rank: u32| {
        format!(
            "n1:3{rank}:88 [{rank}] NCCL INFO ncclCommInitRank comm 0x1 rank {rank} nranks 3 cudaDev {rank} nvmlDev {rank} busId {rank}b000 commId 0x2 - Init COMPLETE\n"
        )
    };
    let waits = [
        init(0),
        init(1),
        init(2),
        timed_out(0, "PG ID 0 PG GUID 0(default_pg) ", 15, 8),
        timed_out(1, "PG ID 0 PG GUID 0(default_pg) ", 15, 8),
    ]
    .concat();
    let next = |log: &str| report(log).findings.iter().filter_map(|f| f.next.clone()).collect::<Vec<_>>().join("; ");
    assert!(next(&waits).contains("py-spy dump --nonblocking --pid 32"), "{}", next(&waits));
    let gone = [&waits, "E0430 05:10:58.000000 20 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: 2 (pid: 32) of binary: /opt/bin/python\n"].concat();
    assert!(!next(&gone).contains("--pid 32"), "{}", next(&gone));
}

#[test]
fn lines_of_nccl_that_say_nothing_are_not_called_absent() {
    let report = report("n1:31:88 [0] NCCL INFO Ring 00 : 0 -> 1 -> 0\nn1:31:88 [0] NCCL INFO nothing that anybody knows\n");
    assert_eq!(report.verdict, Verdict::Ok);
    let why = report.inputs[0].note.unwrap();
    assert!(why.starts_with("a piece of NCCL's log: none of its lines"), "{why}");
}

#[test]
fn series_of_overflows_that_start_in_the_middle() {
    let skip = |before: u32, after: u32| {
        format!(
            "[2026-05-04 10:00:01,100] [INFO] [loss_scaler.py:183:update_scale] [deepspeed] OVERFLOW! Rank 0 Skipping step. Attempted loss scale: {before}, reducing to {after}\n"
        )
    };
    let step = |n: u32| {
        format!("[2026-05-04 10:00:02,100] [INFO] [logging.py:96:log_dist] [Rank 0] step={n}, skipped=0, lr=[1e-05], mom=[(0.9, 0.999)]\n")
    };
    let series = |of_ten: usize| (0..16).map(|n| step(9000 + n * 10) + &skip(256, 128).repeat(of_ten)).collect::<String>();
    all_are(&[
        ("warn grad-overflow [] 128 of 151 steps were skipped because gradients overflowed", &series(8)),
        ("ok", &series(2)),
        ("warn grad-overflow [] 70 steps were skipped because gradients overflowed, and no other step is seen", &skip(256, 128).repeat(70)),
        ("ok", &skip(256, 128).repeat(20)),
        ("fail loss-not-finite [] gradients overflow at the lowest loss scale: every step is skipped", &(skip(2, 1) + &skip(1, 1))),
    ]);
}

#[test]
fn a_run_that_says_so_is_finished() {
    let log = "step 1 loss 2.0\nstep 2 loss 1.0\nTraining complete\n";
    let style = nccl_top::output::check::text::Style { color: false, ascii: true, width: 100 };
    let text = |log: &str| nccl_top::output::check::text::text(&report(log), Zone::UTC, &style);
    assert!(text(log).contains("loss 1.0000 (2.0000 at first)  finished"), "{}", text(log));
    assert!(!text(&log.replace("Training complete\n", "")).contains("finished"));
}

#[test]
fn causes_that_stand_beside_the_end_of_a_process() {
    all_are(&[
        // The C++ runtime's last words say why it ended.
        (
            "fail rendezvous-failed [] TensorRT-LLM: a call of MPI failed: invalid rank",
            "terminate called after throwing an instance of 'tensorrt_llm::common::TllmException'\n  what():  [TensorRT-LLM][ERROR] Assertion failed: Failed: \
             MPI error /w/cpp/common/mpiUtils.cpp:95 '6' (/w/cpp/common/mpiUtils.cpp:95)\n1  0x7f tensorrt_llm::plugins::SendPlugin::initialize() + 10\n",
        ),
        (
            "fail rank-exited [] a process ended itself, because nobody caught a C++ exception: stoi",
            "terminate called after throwing an instance of 'std::invalid_argument'\n  what():  stoi\n",
        ),
        // A field that is not set is no value that the program chose.
        (
            "fail nccl-warn [] CUDA device 0 of box-1: NCCL was given no value for minCTAs",
            "box-1:77:77 [0] init.cc:1310 NCCL WARN Invalid config minCTAs attribute value -2147483648\n",
        ),
        (
            "fail rank-exited [5] rank 5 ended: killed by signal 7 (SIGBUS)",
            "Building trainer...\nERROR:composer.cli.launcher:Rank 5 crashed with exit code -7.\n",
        ),
        (
            "fail rank-oom-killed [2] Slurm task 2 on web-4 ran out of host memory",
            "slurmstepd: error: Detected 1 oom-kill event(s) in step 77.0 cgroup. Some of your processes may have been killed by the cgroup out-of-memory handler.\n\
             srun: error: web-4: task 2: Out Of Memory\nsrun: Terminating job step 77.0\n",
        ),
        (
            "fail cuda-oom [] CUDA out of memory. Tried to allocate 64.00 MiB on its GPU 6",
            "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB. GPU 6 has a total capacity of 79.10 GiB of which 10.12 MiB is free.\n",
        ),
        (
            "fail rank-oom-killed [] Ray killed loader:Reader.run on 10.1.0.7: the node's memory ran out (60.20GB of 62.00GB used)",
            "(raylet) node_manager.cc:2963: System memory low at node with IP 10.1.0.7. Used memory (60.20GB) / total capacity (62.00GB) (0.97) exceeds \
             threshold 0.95, killing latest task with name loader:Reader.run and actor ID 77 to avoid running out of memory.\n",
        ),
        (
            "fail rank-exited [3] rank 3 ended: exit code 1; its log is log/workerlog.3",
            "LAUNCH INFO 2026-12-04 07:16:21,152 Pod failed\nLAUNCH ERROR 2026-12-04 07:16:21,153 Container failed !!!\n\
             Container rank 3 status failed cmd ['/usr/bin/python3', '-u', 't.py'] code 1 log log/workerlog.3\n",
        ),
        (
            "fail loss-not-finite [] the loss is left out of the line, as Megatron does with NaN, and the gradient norm is NaN, at step 40",
            " iteration       40/    900 | consumed samples:  320 | elapsed time per iteration (ms): 4261.0 | learning rate: 2.9E-04 | global batch size: 8 | \
             loss scale: 1.0 | grad norm: nan | number of skipped iterations:   0 | number of nan iterations:   0 |\n",
        ),
    ]);
}

#[test]
fn connections_of_other_libraries_and_their_peers() {
    all_are(&[
        (
            "fail rendezvous-failed [] no address is known for the host mpi-w-1.mpi-w",
            "ssh: Could not resolve hostname mpi-w-1.mpi-w: Name or service not known\nssh: Could not resolve hostname mpi-w-0.mpi-w: Name or service not known\n\
             ORTE was unable to reliably start one or more daemons.\n",
        ),
        (
            "fail nic-errors [] EFA: a transfer of i-0aa with i-0bb failed: Invalid address",
            "libfabric:9:1::efa:cq:efa_rdm_txe_handle_error():737<warn> err: 5, message: Invalid address My EFA addr: fi_addr_efa://[fe80::1]:0:1 My host id: i-0aa \
             Peer EFA addr: fi_addr_efa://[fe80::2]:0:8 Peer host id: i-0bb (7)\n",
        ),
        (
            "fail rendezvous-failed [] NVSHMEM's bootstrap lost the connection to 10.1.0.9: Connection reset by peer",
            "/w/nvshmem/src/host/init/init.cu:998: non-zero status: 7 building transport map failed\n\n\
             /w/nvshmem/src/modules/bootstrap/uid/ncclSocket/ncclsocket_socket.cpp:socketProgressOpt:39: socketProgressOpt: Call to recv from 10.1.0.9<4107> failed : Connection reset by peer\n",
        ),
        (
            "fail nic-errors [] UCX could not make an object (CQ) on mlx5_4 of box-2: Remote I/O error",
            "[1785920418.207551] [box-2:71:0]      ib_mlx5_dv.c:452  UCX  ERROR   mlx5dv_devx_obj_create(CQ) failed on mlx5_4, syndrome 0x2aac7c: Remote I/O error\n\
             E0805 09:00:18.242516  71 nixl_agent.cpp:359] createBackend: backend 'UCX' encountered error during intra-agent transfer setup with status NIXL_ERR_BACKEND\n",
        ),
        (
            "fail rendezvous-failed [] UCX on box-2 could not connect to 10.1.0.0:5129: Connection refused",
            "[1743051207.610544] [box-2:33 :0]            sock.c:334  UCX  ERROR   connect(fd=5, dest_addr=10.1.0.0:5129) failed: Connection refused\n\
             ERROR 03-27 04:53:27 engine.py:244] nixlBackendError('NIXL_ERR_BACKEND')\n",
        ),
        (
            "fail collective-timeout [] DeepEP: GPU 1 of node 3 (as DeepEP counts them) waited for GPU 6 of that node",
            "DeepEP dispatch NVL receiver timeout, channel: 3, RDMA: 3, nvl: 1, src NVL: 6, head: 1, tail: 1\n",
        ),
        (
            "fail rendezvous-failed [4, 12] HCCL: rank 4 (10.1.0.3) could not connect to rank 12 (10.1.0.4)",
            "[ERROR] HCCL(7,):2026-05-30-18:09:57.204.229 [transport_manager.cc:954] [9][InitChannelStage][RunFailed]Transport init error! createLink para:rank[4]-\
             localUserrank[4]-localIpAddr[10.1.0.3/4], remoteRank[12]-remoteUserrank[12]-remoteIpAddr[10.1.0.4/4], machineType[0], tag[AllReduce_1]\n",
        ),
        (
            "fail rank-exited [9] MPI ended rank 9 on c07: a call of PMPI_Test failed",
            "MPICH ERROR [Rank 9] [job id 8.0] [Wed May 15 22:40:18 2026] [c07] - Abort(5) (rank 9 in comm 0): Fatal error in PMPI_Test: Other MPI error, error stack:\n\
             MPIDI_OFI_handle_cq_error(1075): OFI poll failed (ofi_events.c:1077:MPIDI_OFI_handle_cq_error:Input/output error - PTLTE_NOT_FOUND)\n",
        ),
        (
            "fail rendezvous-failed [] XLA: the rendezvous 'save' failed: Socket closed (14)",
            "Exception in device=TPU:3: tensorflow/compiler/xla/xla_client/mesh_service.cc:294 : Failed to meet rendezvous 'save': Socket closed (14)\n",
        ),
        (
            "fail rank-exited [] Horovod was shut down: a rank failed or ended before the others",
            "Wed Oct 14 11:05:30 2026[0]<stderr>:2026-10-14 11:05:30.2: W tensorflow/core/framework/op_kernel.cc:1651] OP_REQUIRES failed at mpi_ops.cc:402 : Unknown: Horovod has b\n\
             een shut down. This was caused by an exception on one of the ranks or an attempt to allreduce a tensor after one of the ranks finished execution.\n",
        ),
        (
            "fail rank-exited [] TensorFlow: the worker at 10.1.0.7:4590 closed its connection",
            "{\"description\":\"Error received from peer ipv4:10.1.0.2:4012\",\"grpc_message\":\"Collective ops is aborted by: Socket closed\\n:{\"description\":\"Error received \
             from peer ipv4:10.1.0.7:4590\",\"file\":\"external/com_github_grpc_grpc/src/core/lib/surface/call.cc\",\"file_line\":1056,\"grpc_message\":\"Socket closed\"}\n",
        ),
    ]);
}

#[test]
fn starts_and_notices_of_launchers() {
    all_are(&[
        ("ok", "[2026-04-19 12:31:08,602] [INFO] [logging.py:128:log_dist] [Rank 0] DeepSpeed info: version=0.18.0, git-hash=unknown\n"),
        ("ok", "initializing distributed: GLOBAL_RANK: 0, MEMBER: 1/4\ndistributed_backend=nccl\n"),
        (
            "ok",
            "[INFO] [training.py:771:run] Fault nodes are: []  and stragglers are: [].\n[INFO] [training.py:914:network_check] Network check result is True\n",
        ),
        (
            "fail launch-failed [] DLRover's check of the nodes failed on node 1, 4",
            "[INFO] [training.py:771:run] Fault nodes are: [1, 4]  and stragglers are: [].\n",
        ),
        ("ok", "WARNING: There was an error initializing an OpenFabrics device.\n\n  Local host:   web-1\n  Local device: mlx5_2\n"),
        (
            "ok",
            "Jun 03 09:44:43 web-1 nv-fabricmanager[22]: [Jun 03 2026 09:44:42] [INFO] [tid 9] received GPU Probe Request ver 2 MAD: header nodeID 0, header moduleId 7\n",
        ),
        (
            "warn gpu-driver [] the Fabric Manager of web-1 found no NVSwitch, and ends",
            "Jan  9 10:42:05 web-1 nv-fabricmanager[39]: request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n",
        ),
    ]);
    // The scan of a data set is no training.
    assert_eq!(
        step_of(&report(
            "train: Scanning /home/someone/data/sets/of/a/long/path/train/labels.cache... 700 images, 9 backgrounds, 0 corrupt: 100%|████| 709/709 [00:02<00:00, 300.1it/s]\n"
        )),
        None
    );
}

#[test]
fn ranks_that_no_longer_call_the_same_collectives() {
    let group = "PG ID 0 PG GUID 0(default_pg) ";
    let line = |rank: u32, seq: u32, op: &str| timed_out(rank, group, seq, 64).replace("OpType=ALLREDUCE", &format!("OpType={op}"));
    let status = |rank: u32, at: u32, done: u32| {
        format!(
            "[rank{rank}]:[E430 05:09:49.830445837 ProcessGroupNCCL.cpp:2268] [{group}Rank {rank}] failure detected by watchdog at work sequence id: {at} PG \
             status: last enqueued work: {}, last completed work: {done}\n",
            at + 3
        )
    };
    let parted = [line(0, 31, "_REDUCE_SCATTER_BASE"), status(0, 31, 30), line(1, 35, "_ALLGATHER_BASE"), status(1, 35, 34)].concat();
    all_are(&[(
        "fail collective-mismatch [] rank 0 waits in ReduceScatter 31, and rank 1 in AllGather 35: they did not call the same",
        &parted,
    )]);
    // One that did not finish what the other waits in may have called the same.
    let near = [line(0, 31, "_REDUCE_SCATTER_BASE"), status(0, 31, 30), line(1, 32, "_ALLGATHER_BASE"), status(1, 32, 31)].concat();
    assert!(report(&near).findings.iter().all(|f| f.rule != "collective-mismatch"));
}

#[test]
fn causes_of_servers_and_their_workers() {
    let vllm = |level: &str, text: &str| format!("(EngineCore_DP0 pid=71) {level} 11-02 03:04:05 [core.py:610] {text}\n");
    all_are(&[
        (
            "fail rank-exited [] vLLM's worker process 812 ended: killed by signal 15 (SIGTERM)",
            "INFO 11-02 03:04:00 pynccl.py:63] vLLM is using nccl==2.21.5\n\
             ERROR 11-02 03:04:05 multiproc_worker_utils.py:120] Worker VllmWorkerProcess pid 812 died, exit code: -15\n",
        ),
        // An exception behind vLLM's own head, and one that only hands on what a worker said before.
        (
            "fail python-exception [] EngineCore_DP0 (pid 71): ValueError: the head size 7 is not supported",
            &[
                vllm("ERROR", "EngineCore failed to start."),
                vllm("ERROR", "Traceback (most recent call last):"),
                vllm("ERROR", "  File \"/w/vllm/worker.py\", line 7, in load"),
                vllm("ERROR", "ValueError: the head size 7 is not supported"),
            ]
            .concat(),
        ),
        (
            "fail rank-exited [] vLLM did not start: a worker process failed while it came up",
            "Traceback (most recent call last):\n  File \"/w/vllm/core.py\", line 7, in run\n    raise e from None\n\
             Exception: WorkerProc initialization failed due to an exception in a background process. See stack trace for root cause.\n",
        ),
        (
            "fail collective-timeout [] TimeoutError: RPC call to execute_model timed out.",
            "2026-11-02 03:04:05.123456789 (MapWorker(MapBatches(Llm)) pid=9, ip=10.1.0.7) (EngineCore_DP0 pid=71) ERROR 11-02 03:04:05 [core.py:9] Traceback (most recent call last):\n\
             2026-11-02 03:04:05.123456790 (MapWorker(MapBatches(Llm)) pid=9, ip=10.1.0.7) (EngineCore_DP0 pid=71) ERROR 11-02 03:04:05 [core.py:9]   File \"/w/x.py\", line 2, in get\n\
             2026-11-02 03:04:05.123456791 (MapWorker(MapBatches(Llm)) pid=9, ip=10.1.0.7) (EngineCore_DP0 pid=71) ERROR 11-02 03:04:05 [core.py:9] TimeoutError: RPC call to execute_model timed out.\n",
        ),
        // A task's own exception, not the one that Ray wraps it in; the log begins in the middle of it.
        (
            "fail cuda-oom [] EngineCore_DP0 (pid 810) of 10.1.0.7: vLLM: too little free memory on cuda:1 at the start: 3.1/79.2 GiB, and 71.2 GiB are wanted",
            "(EngineCore_DP0 pid=71)   File \"/w/ray/worker.py\", line 958, in get_objects\n(EngineCore_DP0 pid=71)     raise value.as_instanceof_cause()\n\
             (EngineCore_DP0 pid=71) ray.exceptions.RayTaskError(ValueError): ray::RayWorkerWrapper.execute_method() (pid=810, ip=10.1.0.7, actor_id=ad)\n\
             (EngineCore_DP0 pid=71)            ^^^^^^^^^^\n(EngineCore_DP0 pid=71)   File \"/w/vllm/gpu_worker.py\", line 268, in init_device\n\
             (EngineCore_DP0 pid=71) ValueError: Free memory on device cuda:1 (3.1/79.2 GiB) on startup is less than desired GPU memory utilization (0.9, 71.2 GiB). Decrease it.\n",
        ),
        // Who is killed after the watchdog has spoken is no cause.
        (
            "fail collective-timeout [] SGLang: no forward pass ended for 120 s: a rank hangs",
            "[2026-03-09 00:57:15 TP1] Watchdog timeout (self.watchdog_timeout=120)\n[2026-03-09 00:57:15 DP0 TP0] Watchdog timeout (self.watchdog_timeout=120)\n\
             [2026-03-09 00:57:20] Received sigquit from a child proces. It usually means the child failed.\nKilled\n",
        ),
        (
            "fail launch-failed [] Triton cannot load model ocr: unexpected platform type  for ocr",
            "E1011 08:02:59.084688 1 model_repository_manager.cc:1919] Poll failed for model directory 'ocr': unexpected platform type  for ocr\n\
             error: creating server: Internal - failed to load all models\n",
        ),
        (
            "fail rank-exited [] Ray Serve: replica Chat#q1w2 ended or does not answer, and is replaced",
            "INFO 2026-03-10 09:14:57,180 controller 97 deployment_state.py:625 - Actor for replica Chat#q1w2 crashed, marking it unhealthy immediately.\n",
        ),
        (
            "warn init-stuck [] Ray Serve: 2 replicas of Chat did not start within 30s: each wants 'CPU': 1, 'GPU': 8, free are 'CPU': 4.0",
            "(ServeController pid=76) WARNING 2026-03-10 09:14:57 controller 76 -- Deployment 'Chat' has 2 replicas that have taken more than 30s to be scheduled. \
             Resources required for each replica: {'CPU': 1, 'GPU': 8}, resources available: {'CPU': 4.0}. deployment=Chat\n",
        ),
    ]);
    let served = [
        "(APIServer pid=3) INFO 05-19 10:13:11 [loggers.py:271] Engine 000: Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 10.3 tokens/s, Running: 1 reqs\n",
        "[2026-04-05 20:02:51 TP0] Decode batch, #running-req: 3, #token: 1117, token usage: 0.08, gen throughput (token/s): 635.11, #queue-req: 0\n",
        "I0327 01:23:03.586340 1 http_server.cc:2717] Started HTTPService at 0.0.0.0:8000\n",
    ];
    all_are(&served.map(|log| ("ok", log)));
}

#[test]
fn processes_of_jax_and_tensorflow_that_did_not_come() {
    all_are(&[
        (
            "fail rank-exited [2, 5] JAX's coordinator misses process 5 of the job; reported for ranks 2 and 5",
            "Traceback (most recent call last):\n  File \"/w/train.py\", line 9, in main\n    self.client.connect()\n\
             jaxlib.xla_extension.XlaRuntimeError: DEADLINE_EXCEEDED: Barrier timed out. Barrier_id: PjRT_Client_Connect. Timed out task names:\n\
             /job:jax_worker/replica:0/task:5\n/job:jax_worker/replica:0/task:2\n\nAdditional GRPC error information from remote target unknown_target_for_coordination_leader:\n",
        ),
        ("fail rendezvous-failed [] JAX: 14 of 16 processes came to the barrier", "# of tasks that reached the barrier: 14/16.\n"),
        (
            "fail rank-exited [6] task 6 of the JAX job stopped answering",
            "2026-10-09 15:47:38.568412: E external/xla/xla/tsl/distributed_runtime/coordination/coordination_service.cc:1170] /job:jax_worker/replica:0/task:6 has been set to \
             ERROR in coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:6 heartbeat timeout. Check the task logs for an earlier error.\n",
        ),
        (
            "fail rendezvous-failed [] XLA: a communicator was not made: the process of device 4 did not give its id within 5m",
            "E0000 00:00:1743713172.513857  69 pjrt_stream_executor_client.cc:3072] Execution of replica 0 failed: DEADLINE_EXCEEDED: GetKeyValue() timed out with key: \
             devices=[4,5]; stream=0; root_device=4; num_local_participants=1 and duration: 5m [type.googleapis.com/x]\n",
        ),
        (
            "fail launch-failed [] start: the TPU is in use by process 9921",
            "INFO:2026-06-25 00:34:55,142:jax._src.xla_bridge:889: Unable to initialize backend 'tpu': ABORTED: The TPU is already in use by process with pid 9921.\n\
             WARNING:absl:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0 and rerun for more info.)\n",
        ),
        ("warn launch-failed [] JAX runs on the CPU", "WARNING:absl:No GPU/TPU found, falling back to CPU. (Set TF_CPP_MIN_LOG_LEVEL=0)\n"),
        (
            "ok",
            "I0915 16:06:41.130373 469 xla_bridge.py:264] Unable to initialize backend 'tpu_driver': NOT_FOUND: Unable to find driver in registry given worker:\n",
        ),
        // What aborts is not what failed.
        (
            "fail rank-exited [2] TensorFlow: a call to worker 2 failed",
            "2026-05-25 11:10:57.934361: E tensorflow/core/common_runtime/base_collective_executor.cc:249] BaseCollectiveExecutor::StartAbort DEADLINE_EXCEEDED: Deadline Exceeded\n\
             Additional GRPC error information from remote target /job:worker/replica:0/task:2:\nFatal Python error: Aborted\n\nCurrent thread 0x7f (most recent call first):\n",
        ),
        (
            "ok",
            "INFO:tensorflow:MultiWorkerMirroredStrategy with cluster_spec = {'worker': ['w-0:2222', 'w-1:2222']}, task_type = 'worker', task_id = 1\n",
        ),
    ]);
}

#[test]
fn launchers_of_mpi_and_what_they_say_in_several_lines() {
    let frame = "=".repeat(40);
    all_are(&[
        (
            "fail rank-exited [] pid 412 on box-3 ended: killed by signal 9 (SIGKILL)",
            &format!(
                "{frame}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 412 RUNNING AT box-3\n=   EXIT CODE: 9\n=   CLEANING UP REMAINING PROCESSES\n\
                 {frame}\nYOUR APPLICATION TERMINATED WITH THE EXIT STRING: Killed (signal 9)\nThis typically refers to a problem with your application.\n"
            ),
        ),
        (
            "fail rank-exited [3] rank 3 (pid 412) ended: killed by signal 11 (SIGSEGV)",
            &format!(
                "{frame}\n=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   RANK 3 PID 412 RUNNING AT box-3\n=   KILLED BY SIGNAL: 11 (Segmentation fault)\n{frame}\n"
            ),
        ),
        (
            "fail rank-exited [] mpirun lost its helper on node box-7",
            "PRTE has lost communication with a remote daemon.\n\n  HNP daemon   : [prterun-box-1-7@0,0] on node box-1\n  Remote daemon: [prterun-box-1-7@0,1] on node box-7\n",
        ),
        (
            "fail rendezvous-failed [] MPI could not come up over libfabric: addrinfo() failed: No data available",
            "Abort(1091215) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:\nMPIR_Init_thread(136)........:\n\
             MPIDI_OFI_mpi_init_hook(1061): OFI addrinfo() failed (ofi_init.c:1061:MPIDI_OFI_mpi_init_hook:No data available)\n",
        ),
        (
            "fail nic-errors [] Open MPI ended the job, because a transfer over libfabric failed: Truncation error",
            "mtl_ofi.h:101: Error returned from fi_cq_readerr: Truncation error(-265).\n*** The Open MPI OFI MTL is aborting the MPI job (via exit(3)).\n\
             mpirun noticed that process rank 2 with PID 55 on node box-1 exited on signal 6 (Aborted).\n",
        ),
        (
            "fail rank-exited [4] rank 4 ended: killed by signal 9 (SIGKILL)",
            "[2]<stderr>:[2026-12-11 18:47:05.3: E /w/horovod/common/operations.cc:546] Horovod background loop uncaught exception: [/w/gloo/transport/tcp/pair.cc:566] \
             Read error [10.1.0.4]:2192: Connection reset by peer\n\
             [4]<stderr>:bash: line 1: 3527 Killed                  HOROVOD_HOSTNAME=w-4 HOROVOD_RANK=4 HOROVOD_SIZE=8 python t.py\nProcess 4 exit with status code 137.\n",
        ),
        (
            "fail rank-exited [1] process 1 of mp.spawn was ended by SIGKILL",
            "Traceback (most recent call last):\n  File \"/w/torch/multiprocessing/spawn.py\", line 107, in join\n    (error_index, name)\nException: process 1 terminated with signal SIGKILL\n",
        ),
        (
            "fail rank-exited [] WorkerDict (pid 84): no more threads or processes can be started here",
            "The actor is dead because its worker process has died. Worker exit type: SYSTEM_ERROR Worker exit detail: Worker unexpectedly exits with a connection error code 2. End of file.\n\
             (WorkerDict pid=84) [2026-03-04 19:28:30,014 E 84 84] logging.cc:113: Unhandled exception: N5boost. what(): thread: Resource temporarily unavailable [system:11]\n",
        ),
        (
            "fail nic-errors [] UCX: a transfer over mlx5_3:1/IB of box-1 failed on this side: Local protection",
            "[box-1:71:0:71] ib_mlx5_log.c:177  Local protection on mlx5_3:1/IB (synd 0x4 vend 0x51 hw_synd 0/2)\n",
        ),
        (
            "fail rendezvous-failed [] DGL's server cannot listen at 10.1.0.4:30050: Address already in use",
            "[14:49:15] /opt/dgl/src/rpc/network/tcp_socket.cc:76: Failed bind on 10.1.0.4:30050 , error: Address already in use\n\
             Traceback (most recent call last):\n  File \"/w/dist_context.py\", line 72, in initialize\n    serv.start()\ndgl._ffi.base.DGLError: [14:49:15] rpc.cc:112: Check failed: Wait failed\n",
        ),
        ("fail rank-exited [] Slurm: job 77 ended by signal 9", "[2026-05-27T11:37:57.377] _job_complete: JobId=77 WTERMSIG 9\n"),
        (
            "fail job-cancelled [] Kubernetes evicted 2 of 16 workers of the job",
            "  - lastTransitionTime: \"2026-08-15T04:01:42Z\"\n    message: 2/16 workers are evicted\n    reason: MPIJobEvicted\n    status: \"True\"\n    type: Failed\n",
        ),
        (
            "fail storage-failed [] the object store cannot be reached at https://b.s3.example.com/k",
            "Traceback (most recent call last):\n  File \"/w/botocore/httpsession.py\", line 493, in send\n    raise EndpointConnectionError(error=e)\n\
             botocore.exceptions.EndpointConnectionError: Could not connect to the endpoint URL: \"https://b.s3.example.com/k\"\n",
        ),
        (
            "fail loss-not-finite [] the loss is not finite at iteration 80",
            "Traceback (most recent call last):\n  File \"/w/train_loop.py\", line 239, in _detect_anomaly\n    self.iter, loss_dict\nFloatingPointError: Loss became infinite or NaN at iteration=80!\n",
        ),
        (
            "ok",
            "(Worker pid=8, ip=10.1.0.3) 2026-03-11 01:47:25,905\tINFO torch.py:66 -- Setting up process group for: env:// [rank=0, world_size=5]\n",
        ),
    ]);
}

#[test]
fn devices_that_fail_in_the_kernels_log() {
    all_are(&[
        (
            "fail gpu-ecc [] AMD GPU 0000:d1:00.0: uncorrectable hardware error (ERREVENT_ATHUB_INTERRUPT)",
            "[500.571516] amdgpu 0000:d1:00.0: {1}uncorrectable hardware error(ERREVENT_ATHUB_INTERRUPT) detected!\n",
        ),
        (
            "fail gpu-lost [] AMD GPU 0000:67:00.0 hung and was reset",
            "[  510.633592] amdgpu 0000:67:00.0: amdgpu: GPU reset begin!\n[  511.292058] amdgpu 0000:67:00.0: GPU reset succeeded, trying to resume\n",
        ),
        // The GPU behind the link is what counts.
        (
            "fail gpu-lost [] Xid 79 on GPU 0000:02:00",
            "[74889.542031] pcieport 0000:00:02.0: AER: Uncorrected (Fatal) error received: id=0010\n[74889.542239] nvidia 0000:02:00.0: device has no AER-aware driver\n\
             [74889.644138] NVRM: Xid (PCI:0000:02:00): 79, GPU has fallen off the bus.\n",
        ),
        (
            "fail gpu-lost [] the PCIe link of GPU 0000:03:00.0 failed, and the driver cannot bring it back",
            "[  123.456789] pcieport 0000:00:03.0: AER: Multiple Uncorrected (Fatal) error received: 0000:00:03.0\n[  123.466789] nvidia 0000:03:00.0: AER: can't recover (no error_detected callback)\n",
        ),
    ]);
}

#[test]
fn a_traceback_whose_head_is_missing() {
    let frames = "  File \"/w/train.py\", line 9, in step\n    loss.backward()\n";
    assert_eq!(said(&format!("{frames}KeyError: 'mask'\n")), "fail python-exception [] KeyError: 'mask', in step (train.py:9)");
    // Stacks that are only shown end in no exception.
    assert_eq!(said(&format!("{frames}Epoch: 3\nstep 5 loss 2.5\nstep 6 loss 2.4\n")), "ok");
    let dump = "Thread 0x7f (most recent call first):\n  File \"/w/x.py\", line 462 in watchdog_thread\nValueError: none\n";
    assert!(!said(dump).contains("python-exception"));
}

#[test]
fn a_line_that_its_writer_calls_an_error_is_all_that_is_left() {
    all_are(&[
        (
            "fail program-error [] the shard 00017 is empty",
            "2026-10-20 15:54:30,001 - acme - INFO - reading\n2026-10-20 15:54:35,127 - acme - ERROR - the shard 00017 is empty\n2026-10-20 15:54:36,000 - acme - ERROR - giving up\n",
        ),
        ("fail program-error [] acme.io.ShardError: shard 7 is empty", "reading\nacme.io.ShardError: shard 7 is empty\n"),
        // Beside anything that is known it says nothing.
        (
            "fail storage-failed [] OSError: [Errno 5] Input/output error: '/data/7'",
            "[2026-10-20 15:54:35] [ERROR] the shard 00017 is empty\nOSError: [Errno 5] Input/output error: '/data/7'\n",
        ),
        ("ok", "step 5 loss 2.5\nstep 6 loss 2.4\nmean squared error: 0.01\nlog_level: ERROR\n"),
        // Each process of JAX and TensorFlow prints it.
        (
            "ok",
            "E0000 00:00:1795220773.284212  41 cuda_dnn.cc:8310] Unable to register cuDNN factory: Attempting to register factory for plugin cuDNN when one has already been registered\n\
             step 5 loss 2.5\nstep 6 loss 2.4\n",
        ),
    ]);
    // What is secret in it stays so.
    assert!(!said("[2026-10-20 15:54:35] [ERROR] login refused: password=hunter2hunter2\n").contains("hunter2"));
}

#[test]
fn a_name_that_a_terminal_cut_is_no_other_call() {
    let log = "[rank2]:[E816 00:34:01.133910474 ProcessGroupNCCL.cpp:629] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=_ALLGATHER_BA[45/99]\n\
               n=71552, NumelOut=572416, Timeout(ms)=600000) ran for 600004 milliseconds before timing out.\n\
               [rank2]:[E816 00:34:01.140650897 ProcessGroupNCCL.cpp:2168] [PG ID 1 PG GUID 1 Rank 2]  failure detected by watchdog at work sequence id: 9 PG status: last enqueued work: 9, last completed work: 8\n\
               [rank0]:[E816 00:34:01.151101643 ProcessGroupNCCL.cpp:629] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=_ALLGATHER_BASE, NumelIn=71552, NumelOut=572416, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n\
               [rank0]:[E816 00:34:01.151250854 ProcessGroupNCCL.cpp:2168] [PG ID 1 PG GUID 1 Rank 0]  failure detected by watchdog at work sequence id: 9 PG status: last enqueued work: 9, last completed work: 8\n";
    // Two ranks of a group are always numbered evenly: that says nothing of a third.
    all_are(&[("fail collective-timeout []", log)]);
}

#[test]
fn all_that_are_known_wait() {
    let line = |rank: u32| {
        format!(
            "[rank{rank}]:[E ProcessGroupNCCL.cpp:523] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600272 milliseconds before timing out.\n"
        )
    };
    let all = report(&(0..4).map(line).collect::<String>());
    assert!(all.findings[0].why.starts_with("all 4 ranks that these inputs know wait in it"), "{}", all.findings[0].why);
    let some = report(&[0, 1, 3].map(line).concat());
    assert!(some.findings[0].why.starts_with("rank 2 reports no timeout"), "{}", some.findings[0].why);
}

#[test]
fn tracebacks_behind_a_prefix_that_nobody_knows() {
    let tb = "Traceback (most recent call last):\n  File \"/w/train.py\", line 3, in main\n    load()\nValueError: the shard is empty\n";
    let behind =
        |prefix: &dyn Fn(usize) -> String| tb.lines().enumerate().map(|(no, line)| format!("{}{line}\n", prefix(no))).collect::<String>();
    all_are(&[
        ("fail python-exception [] ValueError: the shard is empty", &behind(&|_| "E       ".into())),
        ("fail python-exception [] ValueError: the shard is empty", &behind(&|no| format!("~~ job 7 at 10.0{no} ~~ "))),
        ("fail python-exception [4] rank 4: ValueError: the shard is empty", &behind(&|_| "fleet> Rank 4> ".into())),
        ("fail python-exception [] ValueError: the shard is empty", &behind(&|_| "stderr: ".into())),
    ]);
}

#[test]
fn tracebacks_in_one_line() {
    all_are(&[
        (
            "fail python-exception [] KeyError: 'train'",
            "JobError: the script failed: Traceback (most recent call last): File \"/opt/w/run.py\", line 9, in <module> main() File \"/opt/w/run.py\", line 4, in main data[\"train\"] KeyError: 'train'\n",
        ),
        (
            "fail python-exception [] KeyError: 'train'",
            "  \"callstack\": \"Traceback (most recent call last):\\n  File \\\"/opt/w/run.py\\\", line 9, in <module>\\n    main()\\nKeyError: 'train'\\n\",\n",
        ),
    ]);
}

#[test]
fn what_a_process_of_its_launcher_says_first_is_the_cause() {
    all_are(&[
        // The error stands above Ray's word that the process is gone.
        (
            "fail nccl-warn [8] rank 8: InfiniBand completion status 12",
            "(Worker pid=700, ip=10.9.1.9) [rank8]:[E715 03:02:11.400812345 ProcessGroupNCCL.cpp:2068] [PG ID 3 PG GUID 79(EP) Rank 0] Process group watchdog thread terminated with exception: NCCL error: remote process exited or there was a network error, NCCL version 2.27.5\n\
             (Worker pid=700, ip=10.9.1.9) ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n\
             (Worker pid=700, ip=10.9.1.9) Last error:\n\
             (Worker pid=700, ip=10.9.1.9) NET/IB: Got completion from peer 10.9.1.10<51372> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n\
             (raylet, ip=10.9.1.9) A worker died or was killed while executing a task by an unexpected system error. Worker exit type: SYSTEM_ERROR\n",
        ),
        (
            "fail rank-exited [] Runner (pid 12): a check in native code failed: it != end()",
            "(Runner pid=12) [2026-07-16 07:14:27,052 C 12 12] task_manager.cc:219:  Check failed: it != end()\n\
             2026-07-16 07:14:30,112\tERR -- A worker died or was killed while executing a task by an unexpected system error.\n",
        ),
        (
            "fail rank-exited [] the program that the launcher started was killed by signal 9 (SIGKILL)",
            "subprocess.CalledProcessError: Command '['/usr/bin/python3', 'train.py', '--a-very-long-option=of-many-words']' died with <Signals.SIGKILL: 9>.\n",
        ),
        (
            "fail rank-exited [] Slurm could not start the task on gpu-16: Socket timed out on send/recv operation",
            "srun: error: Task launch for StepId=1301.2 failed on node gpu-16: Socket timed out on send/recv operation\n\
             srun: error: Application launch failed: Socket timed out on send/recv operation\nsrun: Job step aborted\n",
        ),
        // One end, by its library's words and by its code.
        (
            "fail rank-exited [5] rank 5: double free or corruption (!prev)",
            "double free or corruption (!prev)\n\
             ============================================================\ntrain.py FAILED\n------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n------------------------------------------------------------\n\
             Root Cause (first observed failure):\n[0]:\n  time      : 2026-03-05_06:04:09\n  host      : n1\n  rank      : 5 (local_rank: 5)\n  exitcode  : -6 (pid: 21617)\n  error_file: <N/A>\n  traceback : Signal 6 (SIGABRT) received by PID 21617\n============================================================\n",
        ),
        // Who waited for another rank says more than that the launcher saw an end.
        (
            "fail rendezvous-failed [0] rank 0 did not make the NCCL communicator that rank 1 waits for",
            "10.110.8.6: Traceback (most recent call last):\n10.110.8.6:   File \"/w/train.py\", line 26, in main\n10.110.8.6:     barrier()\n\
             10.110.8.6: torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: Connection reset by peer\n\
             10.110.8.6: [2023-11-18 10:01:02,001] [ERROR] [launch.py:321:sigkill_handler] ['/usr/bin/python', '-u', 'train.py', '--local_rank=0'] exits with return code = 1\n",
        ),
        // What mp.spawn hands on stands behind its own exception.
        (
            "fail python-exception",
            "Traceback (most recent call last):\n  File \"/w/train.py\", line 2, in <module>\n    mp.spawn(main)\ntorch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File \"/w/train.py\", line 7, in main\n    train()\nValueError: the shard is empty\n\n",
        ),
        // A server that is asked by HTTP is not the store.
        (
            "fail python-exception [0] rank 0: requests.exceptions.ConnectionError",
            "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/ask.py\", line 3, in ask\n[rank0]:     post()\n[rank0]: requests.exceptions.ConnectionError: ('Connection aborted.', ConnectionResetError(104, 'Connection reset by peer'))\n",
        ),
    ]);
}

#[test]
fn lines_of_nobody_that_is_known() {
    let log = "2026-03-05 10:00:01,120 INFO [loader.py:10] shards are listed\n2026-03-05 10:00:02,120 INFO [loader.py:11] first shard is open\n2026-03-05 10:00:03,120 WARNING [loader.py:12] a sample was skipped\n";
    let healthy = report(log);
    assert_eq!(healthy.verdict, Verdict::Ok);
    assert!(healthy.findings.is_empty(), "{:?}", healthy.findings);
    let bad = format!("{log}2026-03-05 10:00:04,120 ERROR [loader.py:13] no shard is left to read\n");
    assert_eq!(report(&bad).verdict, Verdict::Fail);
    let over = format!(
        "{bad}2026-03-05 10:00:05,120 INFO [loader.py:11] next shard is open\n2026-03-05 10:00:06,120 INFO [loader.py:14] all are read\n"
    );
    assert_eq!(report(&over).verdict, Verdict::Warn);
    // Words without a logger's form are no log.
    assert_eq!(report("one\ntwo\nINFO\n").verdict, Verdict::Unknown);
}

#[test]
fn epochs_without_steps() {
    all_are(&[
        ("ok", "{\"train_loss\": 1.5, \"train_lr\": 0.1, \"epoch\": 7}\n"),
        ("ok", "(node-1 pid=7, ip=10.0.0.2) Epoch: 10, Accuracy: 0.6676\n"),
        // WeNet's epoch is no step.
        ("ok", "2026-05-14 13:46:02,117 DEBUG TRAIN Batch 5/300 loss 74.45 loss_att 79.25 loss_ctc 63.25 lr 0.0018 rank 0\n"),
    ]);
    assert_eq!(report("{\"train_loss\": 1.5, \"epoch\": 7}\n").training().and_then(|t| t.epoch), Some(7.0));
    // An accuracy of the validation set is no progress.
    all_are(&[("unknown", "Epoch 3 best accuracy\n")]);
}

#[test]
fn numbers_of_ctest_are_no_ranks() {
    let log = "    Start 3: ring\n\n3: Test command: /b/ring\n3: Traceback (most recent call last):\n3:   File \"/b/ring.py\", line 3, in main\n3:     go()\n3: ValueError: no ring\n";
    all_are(&[("fail python-exception [] ValueError: no ring", log)]);
}

#[test]
fn the_year_of_a_table_is_that_of_the_lines_above_it() {
    let log = "[rank6]:[E414 01:17:24.301204331 ProcessGroupNCCL.cpp:629] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=1800000) ran for 1800080 milliseconds before timing out.\n\
               ============================================================\ngrpo.py FAILED\n------------------------------------------------------------\nFailures:\n  <NO_OTHER_FAILURES>\n------------------------------------------------------------\n\
               Root Cause (first observed failure):\n[0]:\n  time      : 2019-04-14_01:17:26\n  host      : n1\n  rank      : 6 (local_rank: 6)\n  exitcode  : -6 (pid: 541332)\n  error_file: <N/A>\n  traceback : Signal 6 (SIGABRT) received by PID 541332\n============================================================\n";
    let report = report(log);
    assert!(report.findings.iter().all(|f| f.rule != "rank-exited" || f.role == Role::Cascade), "{:?}", report.findings);
}

#[test]
fn an_exception_without_words_names_its_call() {
    let log = "Traceback (most recent call last):\n  File \"/w/io.py\", line 190, in write_all\n    queue.get()\n  File \"/usr/lib/python3.10/multiprocessing/connection.py\", line 383, in _recv\n    raise EOFError\nEOFError\n";
    all_are(&[("fail python-exception [] EOFError in write_all (io.py)", log)]);
}

#[test]
fn logs_of_programs_that_are_not_known() {
    all_are(&[
        // A driver of the kernel, and all of its devices.
        (
            "warn program-error [] habanalabs reports an error of hl2, hl6: Failed to communicate with Device CPU",
            "[   43.051361] habanalabs hl1: Successfully loaded firmware to device\n\
             [   72.993087] habanalabs hl2: Failed to communicate with Device CPU\n\
             [   73.023132] habanalabs hl6: Failed to communicate with Device CPU\n",
        ),
        // Why a process ended stands above its end.
        (
            "fail rank-exited [] kernels/mask.cu(212): two shapes differ",
            "INFO:     10.3.0.8:40112 - \"POST /v1/x HTTP/1.1\" 200 OK\n[TM][FATAL] kernels/mask.cu(212): two shapes differ\nAborted (core dumped)\n",
        ),
        (
            "fail rank-exited [] Failed to complete transfers after 60 seconds for shard 7",
            "I1120 11:09:23.594488 2030 client.cpp:218] Mounting segment\n\
             E1120 11:10:27.133715 2030 transfer.cpp:305] Failed to complete transfers after 60 seconds for shard 7\n\
             [2026-11-20 11:10:27 TP2] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/w/s.py\", line 8, in put\n    \
             assert put(key) == 0\nAssertionError\n\n",
        ),
        // Its writer gets over it, or only hands it on.
        (
            "fail program-error [] the volume is gone",
            "time=\"2026-05-04T10:00:00Z\" level=warning msg=\"failed to open cache, trying again\"\n\
             {\"level\":\"error\",\"ts\":\"2026-05-04T10:00:01Z\",\"msg\":\"the volume is gone\"}\n\
             {\"level\":\"error\",\"ts\":\"2026-05-04T10:00:02Z\",\"msg\":\"request failed\"}\n",
        ),
        (
            "ok",
            "2026/05/05 12:29:36 Loading the list\n2026/05/05 12:29:45 Starting to watch\n2026/05/05 12:29:45 Registered with Kubelet\n",
        ),
        (
            "ok",
            "2026:07:27-12:04:20:(55) |CCL_WARN| no variables, trying others\n2026:07:27-12:04:20:(55) |CCL_INFO| launcher: hydra\n2026:07:27-12:04:21:(55) |CCL_INFO| threads: 40\n",
        ),
        // The highest level may be a banner, and the lowest may speak of trouble.
        (
            "fail program-error [] Fri Dec 13 07:57:32 2026: ERROR : Error 7 listening on the 'rdma' transport",
            "Fri Dec 13 07:57:31 2026: CRITICAL  : Started the daemon, version 3\nFri Dec 13 07:57:32 2026: ERROR     : Error 7 listening on the 'rdma' transport.\n",
        ),
        (
            "unknown",
            "I0420 10:00:00.100000 7 a.cc:1] up\nI0420 10:00:01.100000 7 a.cc:2] the peer is dead\nI0420 10:00:02.100000 7 a.cc:3] on we go\n",
        ),
        ("unknown", "once upon a time\nthere was a text\nof no program\n"),
    ]);
}

#[test]
fn what_came_back_is_no_error() {
    let gone = "[1576939.453001] nfs: server 10.3.9.36 not responding, still trying\n";
    let back = "[1577240.912011] nfs: server 10.3.9.36 OK\n";
    all_are(&[
        ("warn storage-failed [] nfs: server 10.3.9.36 not responding", &format!("{gone}{back}")),
        ("fail storage-failed [] nfs: server 10.3.9.36 not responding", &format!("{gone}{back}{gone}")),
        ("fail storage-failed [] nfs: server 10.3.9.36 not responding", &format!("{gone}[1577240.912011] nfs: server 10.3.9.37 OK\n")),
    ]);
}

#[test]
fn servers_devices_and_daemons() {
    all_are(&[
        (
            "fail rank-exited [3] rank 3 was ended by signal 4 (SIGILL",
            "2026-03-06T17:53:22.336246Z  INFO shard-manager: launcher: Starting shard rank=3\n\
             2026-03-06T17:53:31.052444Z ERROR shard-manager: launcher: Shard process was signaled to shutdown with signal 4 rank=3\nError: ShardCannotStart\n",
        ),
        (
            "fail rank-exited [1] rank 1 was ended by signal 9 (SIGKILL)",
            "{\"timestamp\":\"2026-08-29T14:40:16.904001Z\",\"level\":\"ERROR\",\"fields\":{\"message\":\"Shard process was signaled to shutdown with signal 9\"},\"span\":{\"rank\":1}}\n\
             {\"timestamp\":\"2026-08-29T14:40:17.288163Z\",\"level\":\"ERROR\",\"message\":\"Request failed during generation: error trying to connect\"}\n",
        ),
        (
            "fail hang-rank-absent [2] rank 2 did not submit grads_0 to Horovod",
            "2026-01-15 22:42:16 UTC master.0 -- [1,0]<stderr>:[2026-01-15 22:42:16.2: W horovod/common/stall_inspector.cc:105] One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks for more than 60 seconds.\n\
             2026-01-15 22:42:16 UTC master.0 -- [1,0]<stderr>:Missing ranks:\n\
             2026-01-15 22:42:16 UTC master.0 -- [1,0]<stderr>:2: [grads_0, grads_1]\n",
        ),
        (
            "fail gpu-xid [] AMD GPU (node 9 of its list) stopped with a hardware exception: GPU Hang",
            "  4%|▍         | 36/903 [0:15:39<6:53:09, 28.63s/it]HW Exception by GPU node-9 (Agent handle: 0x631351bb5a20) reason :GPU Hang\nAborted (core dumped)\n",
        ),
        (
            "fail rendezvous-failed [] NVSHMEM: the transport IBGDA could not be started",
            "/w/nvshmem_src/src/host/transport/transport.cpp:nvshmemi_transport_init:275: init failed for transport: IBGDA\n\
             /w/nvshmem_src/src/host/init/init.cu:989: non-zero status: 7 nvshmem detect topo failed \n",
        ),
        (
            "fail job-cancelled [] host node-5: Kubernetes evict",
            "May 28 16:05:41 node-5 kubelet[2269]: I0528 16:05:41.101120 2269 eviction_manager.go:366] \"Eviction manager: attempting to reclaim\" resourceName=\"ephemeral-storage\"\n\
             May 28 16:05:54 node-5 kubelet[2269]: I0528 16:05:54.802914 2269 eviction_manager.go:627] \"Eviction manager: pod is evicted successfully\" pod=\"ml/worker-3\"\n",
        ),
        (
            "warn storage-failed [] Lustre: a request to MGC10.0.4.2@tcp@10.0.4.2@tcp has failed due to network error",
            "Apr 30 14:39:31 n4 kernel: [271236.132175] Lustre: 3315:0:(client.c:2116:ptlrpc_expire_one_request()) @@@ Request sent has failed due to network error: [sent 1/real 1]  req@00 x1/t0(0) o250->MGC10.0.4.2@tcp@10.0.4.2@tcp:26/25 lens 520/544 e 0\n",
        ),
        (
            "fail rendezvous-failed [] MPICH could not open an endpoint of libfabric: create_endpoint:Address already in use",
            "MPICH ERROR [Rank 0] [job id f9] [Thu Oct 27 10:05:09 2026] [t23] - Abort(1616271) (rank 0 in comm 0): Fatal error in PMPI_Init: Other MPI error, error stack:\n\
             MPID_Init(501)..............:\ncreate_endpoint(1359).......: OFI EP enable failed (ofi_init.c:1359:create_endpoint:Address already in use)\n",
        ),
        (
            "warn collective-timeout [] SGLang: KV cache could not be fetched: Request 83 timed out after 600.0s",
            "[2026-10-15 11:03:35 DP6 TP6 EP6] Decode transfer failed for request rank=6 decode_req.req.rid='cd' decode_req.req.bootstrap_room=83 with exception KVTransferError(bootstrap_room=83): Request 83 timed out after 600.0s in KVPoll.WaitingForInput\n\
             [2026-10-15 11:03:36] INFO:     10.10.11.1:41712 - \"GET /health HTTP/1.1\" 200 OK\n",
        ),
        (
            "fail gpu-driver [] the driver could not start GPU 0000:04:01.0: RmInitAdapter failed",
            "[ 1097.650222] NVRM: GPU 0000:04:01.0: RmInitAdapter failed! (0x11:0x45:2525)\n[ 1097.650377] NVRM: GPU 0000:04:01.0: rm_init_adapter failed, device minor number 0\n\
             [ 1102.469870] NVRM: GPU 0000:04:02.0: RmInitAdapter failed! (0x11:0x45:2525)\n",
        ),
    ]);
}

#[test]
fn a_traceback_that_only_the_launchers_table_has() {
    let table = "\
        ============================================================\ntrain.py FAILED\n------------------------------------------------------------\n\
        Failures:\n[1]:\n  time      : 2026-07-02_10:11:12\n  host      : n4\n  rank      : 6 (local_rank: 2)\n  exitcode  : -15 (pid: 902)\n  error_file: <N/A>\n  \
        traceback : Signal 15 (SIGTERM) received by PID 902\n------------------------------------------------------------\n\
        Root Cause (first observed failure):\n[0]:\n  time      : 2026-07-02_10:11:09\n  host      : n4\n  rank      : 5 (local_rank: 1)\n  exitcode  : 1 (pid: 901)\n  \
        error_file: /tmp/e/error.json\n  traceback : Traceback (most recent call last):\n    File \"/w/train.py\", line 88, in main\n      batch = pack(rows)\n    \
        File \"/w/data.py\", line 12, in pack\n      raise LookupError(\"no row of bucket 9\")\n  LookupError: no row of bucket 9\n  \n\
        ============================================================\n";
    all_are(&[("fail python-exception [5] rank 5: LookupError: no row of bucket 9", table)]);
    // Where it was printed before, the table says nothing new.
    let before = format!(
        "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/w/data.py\", line 12, in pack\n[rank5]: LookupError: no row of bucket 9\n{table}"
    );
    let report = report(&before);
    let told: Vec<_> = report.findings.iter().filter(|f| f.rule == "python-exception").map(|f| (f.count, f.summary.as_str())).collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!(told[0].0, 1, "{told:?}");
}

#[test]
fn several_that_say_the_same_are_named_with_what_differs() {
    let warn = |pid: u32, device: u32| {
        format!(
            "n8:{pid}:{} [0] transport/net_ib.cc:154 NCCL WARN NET/IB : mlx5_{device}:1 async fatal event on QP (0x7c{pid}e0): local access violation work queue error\n",
            pid + 40
        )
    };
    let log: String = (0..3).map(|i| warn(500 + i, 4 + i)).collect();
    all_are(&[(
        "fail nccl-warn [] 3 processes of n8: NET/IB : mlx5_4:1, mlx5_5:1 and mlx5_6:1 async fatal event on QP … local access violation",
        &log,
    )]);
    let end = "mpirun noticed that process rank 1 with PID 771 on node n8 exited on signal 11 (Segmentation fault).\n";
    let signal = "Program received signal SIGSEGV: Segmentation fault - invalid memory reference.\n\nBacktrace for this error:\n\n";
    all_are(&[
        ("fail rank-exited [] 3 processes: a Fortran program got SIGSEGV", &format!("mpirun -np 3 ./a.out\n\n{}{end}", signal.repeat(3))),
        ("fail rank-exited [1] rank 1: a Fortran program got SIGSEGV", &format!("mpirun -np 3 ./a.out\n\n{signal}{end}")),
        // One process whose end is told three times.
        (
            "fail rank-exited [1] rank 1: ",
            &format!("[n8:00771] Signal: Segmentation fault (11)\nbash: line 1: 771 Segmentation fault (core dumped) ./a.out\n{end}"),
        ),
    ]);
}

#[test]
fn what_kept_a_pod_waiting_is_a_warning_once_its_job_has_succeeded() {
    let describe = |ended: &str| {
        format!(
            "Status:\n  Conditions:\n    Message:  PyTorchJob bert {ended}\nEvents:\n  Type     Reason          Age   From                   Message\n  ----     ------          ----  ----                   -------\n  \
             Warning  Unschedulable   9m    pytorchjob-controller  Error pod bert-worker-0 condition message: 0/4 nodes are available: 4 Insufficient nvidia.com/gpu.\n  \
             Normal   ExitedWithCode  10s   pytorchjob-controller  Pod: default.bert-worker-0 exited with code {}\n",
            if ended.contains("success") { 0 } else { 1 }
        )
    };
    let done = said(&describe("is successfully completed."));
    assert!(!done.starts_with("fail"), "{done}");
    let failed = said(&describe("is failed because 1 Worker replica(s) failed."));
    assert!(failed.starts_with("fail"), "{failed}");
}

#[test]
fn what_stands_beside_a_known_text_and_causes_it() {
    all_are(&[
        // The connection comes back at once, and the request fails for ever.
        (
            "fail storage-failed [] Lustre: LNet drops what 12345-10.0.7.3@tcp sends: 4194304 bytes",
            "[Fri Feb  7 10:11:12 2025] LNetError: 3120:0:(lib-ptl.c:189:lnet_try_match_md()) Matching packet from 12345-10.0.7.3@tcp, match 18 length 4194304 too big: 1048576 left, 1048576 allowed\n\
             [Fri Feb  7 10:14:20 2025] Lustre: w-OST0003-osc-ff: Connection to w-OST0003 (at 10.0.7.3@tcp) was lost; in progress operations using this service will wait for recovery to complete\n\
             [Fri Feb  7 10:14:20 2025] Lustre: w-OST0003-osc-ff: Connection restored to  (at 10.0.7.3@tcp)\n",
        ),
        (
            "fail memlock-small [] UCX: ibv_create_cq failed, because only 8192 kbytes of memory may be locked",
            "[1736959004.001121] [n12:2971:0]  ib_iface.c:1060 UCX  ERROR ibv_create_cq(cqe=4096) failed: Cannot allocate memory : Please set max locked memory (ulimit -l) to 'unlimited' (current: 8192 kbytes)\n\
             Abort(1614735) on node 0 (rank 0 in comm 0): Fatal error in PMPI_Init_thread: Unknown error class, error stack:\n\
             create_vni_context(2253).....: OFI endpoint open failed (ofi_init.c:2253:create_vni_context:Input/output error)\n",
        ),
        (
            "fail python-exception [3] rank 3: ValueError: no",
            "[TP3 EP3] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/a/b.py\", line 3, in f\n    x()\nValueError: no\n",
        ),
        (
            "warn job-cancelled [] Kueue preempted the workload",
            "    Message:  Preempted to accommodate a workload (UID: 0f1e2d3c) due to reclamation within the cohort\n",
        ),
        (
            "fail nvlink-down [] CUDA error: uncorrectable NVLink error detected during the execution",
            "    \"message\": \"RuntimeError: CUDA error: uncorrectable NVLink error detected during the execution\\nCUDA kernel errors might be asynchronously reported\"\n",
        ),
    ]);
}

/// The same library under its own name and under NCCL's is one version.
#[test]
fn a_library_that_two_programs_name() {
    let line = "n1:927:927 [0] NCCL INFO RCCL version : 2.26.6-HEAD:f224e2c\n";
    let vllm = "INFO 11-12 11:11:57 [pynccl.py:111] vLLM is using nccl==2.26.6\n";
    let found = |log: &str| report(log).findings.iter().any(|f| f.rule == "version-mismatch");
    assert!(!found(&format!("{vllm}{line}")));
    let on = |host: &str, rank: u32, version: &str| format!("{host}:9{rank}:9{rank} [0] NCCL INFO NCCL version {version}+cuda12.4\n");
    assert!(found(&format!("{}{}", on("n1", 0, "2.21.5"), on("n2", 1, "2.26.2"))));
}

/// NCCL lists fewer ports on one host than on another.
#[test]
fn ports_that_are_missing_on_one_host() {
    let list = |host: &str, pid: u32, ports: std::ops::Range<u32>| {
        let ports: Vec<String> = ports.enumerate().map(|(no, port)| format!("[{no}]mlx5_{port}:1/IB")).collect();
        format!("{host}:{pid}:{pid} [0] NCCL INFO NET/IB : Using {} [RO]; OOB eth0:10.0.0.1<0>\n", ports.join(" "))
    };
    let found = |log: String| report(&log).findings.into_iter().find(|f| f.rule == "missing-nic").map(|f| f.summary);
    let words = found(format!("{}{}{}", list("n1", 10, 0..8), list("n2", 20, 0..7), list("n2", 21, 0..7)));
    // One host that has more than the others is of another kind.
    assert_eq!(found(list("head", 9, 0..10) + &list("n1", 10, 0..8) + &list("n2", 20, 0..8)), None);
    assert_eq!(words.as_deref(), Some("NCCL uses 7 of 8 RDMA ports on n2: mlx5_7:1 is not used there"));
    // Ranks of one host may have been told to use different ones; other names are of another kind of host; and half of them are no accident.
    assert_eq!(found(list("n1", 10, 0..8) + &list("n1", 11, 0..7)), None);
    assert_eq!(found(list("n1", 10, 0..8) + &list("n2", 11, 3..10)), None);
    assert_eq!(found(list("n1", 10, 0..8) + &list("n2", 11, 0..4)), None);
}

/// A loss that is NaN until learning begins, or in single steps, is not NaN any more.
#[test]
fn a_loss_that_is_finite_again() {
    let lines = |from: u32, losses: &[&str]| -> String {
        losses.iter().zip(from..).map(|(loss, step)| format!("step {step} | loss {loss} | 120 ms/step\n")).collect()
    };
    let told = |log: &str| -> Vec<String> {
        let of_loss = |f: &nccl_top::rules::findings::Finding| f.rule == "loss-not-finite";
        report(log).findings.iter().filter(|f| of_loss(f)).map(|f| format!("{} {}", f.severity.as_str(), f.summary)).collect()
    };
    let finite = ["0.74", "0.96", "0.63", "0.68", "0.39", "0.41"];
    let early = lines(10, &["nan", "nan", "nan"]) + &lines(13, &finite);
    assert_eq!(told(&early), ["info the loss was NaN or infinite in 3 lines from step 10 to 12, and is finite again"]);
    let middle = lines(1, &finite) + &lines(10, &["nan", "nan"]) + &lines(13, &finite);
    assert_eq!(told(&middle), ["warning the loss was NaN or infinite in 2 lines from step 10 to 11, and is finite again"]);
    // Four steps are too few, and one that comes again is told.
    assert_eq!(told(&(lines(10, &["nan"]) + &lines(13, &finite[..4]))), ["error the loss is NaN at step 10"]);
    // A loss of exactly 0 behind it is no loss that has come back.
    let lost = told(&(lines(1, &finite) + &lines(10, &["nan"]) + &lines(11, &["0.0"; 9])));
    assert!(lost.iter().any(|words| words.starts_with("error the loss is NaN at step 10")), "{lost:?}");
    // What came back once may come back again, if it does not last.
    let again = |n: usize| told(&(early.clone() + &lines(20, &vec!["nan"; n])));
    assert!(again(4).iter().all(|words| words.starts_with("info")), "{:?}", again(4));
    assert!(again(12).iter().any(|words| words.starts_with("error the loss is NaN at step 29")), "{:?}", again(12));
}

/// After its workers torchrun waits for other agents: that it could not is no failure of the job.
#[test]
fn an_exit_barrier_that_failed() {
    let log = "[W304 19:44:41.898456436 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=73, addr=localhost:46764, remote=localhost:29500): \
               Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?\n\
               E0304 19:44:41.006000 690616 torch/distributed/elastic/agent/server/api.py:965] Error waiting on exit barrier. Elapsed: 0.0042 seconds\n";
    let report = report(log);
    let root = &report.findings[report.root_cause.unwrap()];
    assert_eq!((report.verdict, root.signature), (Verdict::Warn, Some("torchrun-exit-barrier")));
}

/// A table whose head is cut off is an excerpt, whose end may be cut off, too.
#[test]
fn an_excerpt_of_nccl_tests() {
    let head = "#\n#                                                              out-of-place                       in-place\n\
                #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
                #        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n";
    let found = |log: &str| report(log).findings.iter().any(|f| f.rule == "nccl-tests-failed");
    assert!(!found(head));
    assert!(found(&format!(
        "# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n{head}"
    )));
}

/// Who quotes a log wraps its lines, in the middle of what NCCL says.
#[test]
fn records_that_somebody_wrapped() {
    let head = "node-a:4120:4188 [0] NCCL INFO Connected all rings\nnode-a:4120:4190 [0] transport/net_ib.cc:1295 ";
    let cases = [
        "NCCL WARN NET/IB : Got completion from peer\n192.0.2.7<35162> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n",
        "NCCL WARN NET/IB : Got completion\n  from peer 192.0.2.7<35162> with\n  status=12 opcode=0 len=0 vendor err 129 (Recv)\n",
    ];
    for text in cases {
        let report = report(&format!("{head}{text}node-a:4120:4190 [0] NCCL INFO transport/net_ib.cc:1310 -> 6\n"));
        let root = &report.findings[report.root_cause.unwrap()];
        assert_eq!((root.signature, root.evidence[0].line), (Some("ib-retry-exceeded"), Some(2)), "{text}");
    }
    // A record of its own is none of the line above it.
    let other =
        "NCCL WARN NET/IB : Got completion from peer\n[rank1]: 192.0.2.7<35162> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n";
    assert_eq!(report(&format!("{head}{other}")).findings[0].signature, None);
}

/// Libraries that came of NCCL warn in its words, under their own names; whoever has no head of NCCL's is somebody else.
#[test]
fn warnings_of_libraries_that_came_of_nccl() {
    all_are(&[
        (
            "fail nccl-warn [] CUDA device 1 of node-a: RMA coll: recvbuff is NULL",
            "[2026-05-19 14:56:00] node-a:57450:57450 [1] enqueue.cc:3001 VCCL WARN RMA coll: recvbuff is NULL\n\
             node-a:57450:57450 [1] VCCL INFO enqueue.cc:3071 -> 4\n",
        ),
        (
            "fail nccl-warn [] CUDA device 2 of node-a: AllReduce : comm argument is NULL",
            "node-a:5120:5120 [2] misc/argcheck.cc:36 MCCL WARN AllReduce : comm argument is NULL\n",
        ),
        ("unknown", "14:56:00 OFCCL WARN AllReduce : comm argument is NULL\n"),
    ]);
}

/// UCX prints a frame for each name that an address has: the last of them has the source.
#[test]
fn a_crash_in_a_function_of_two_names() {
    let log = "[node-a:135789:0:135789] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x440000f8)\n\
               ==== backtrace (tid: 135760) ====\n\
               \x20 0 0x0000000000069d80 PMPI_Comm_set_name()  ???:0\n\
               \x20 1 0x0000000000069d80 PMPI_Comm_size()  /src/openmpi/ompi/mpi/c/profile/pcomm_size.c:63\n\
               \x20 2 0x0000000000029e39 solve()  ???:0\n\
               =================================\n";
    let report = report(log);
    let root = &report.findings[report.root_cause.unwrap()];
    assert!(root.summary.contains("crashed in PMPI_Comm_size (pcomm_size.c:63)"), "{}", root.summary);
}

/// Pods and hosts that print one error without a rank are all named.
#[test]
fn one_error_of_several_hosts() {
    let of = |pod: &str| {
        format!(
            "[pod/{pod}/trainer] Traceback (most recent call last):\n[pod/{pod}/trainer]   File \"/w/train.py\", line 54, in main\n\
             [pod/{pod}/trainer]     reshape(x)\n[pod/{pod}/trainer] ValueError: cannot reshape 3 values into 4\n"
        )
    };
    let log = |pods: &[&str]| pods.iter().map(|pod| of(pod)).collect::<String>();
    assert!(said(&log(&["job-worker-0"])).starts_with("fail python-exception [] host job-worker-0: ValueError: cannot reshape"));
    let two = said(&log(&["job-worker-0", "job-worker-1"]));
    assert!(two.starts_with("fail python-exception [] hosts job-worker-0 and job-worker-1: ValueError: cannot"), "{two}");
    let five = said(&log(&["w-0", "w-1", "w-2", "w-3", "w-4"]));
    assert!(five.starts_with("fail python-exception [] 5 hosts (w-0, w-1, w-2, …): ValueError: cannot"), "{five}");
}

/// A task that Slurm saw end says less than what it printed itself, wherever srun's own lines stand.
#[test]
fn the_driver_that_was_not_found_and_the_task_that_ended() {
    let log = "srun: error: node-b: task 1: Exited with exit code 1\n\
               [rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/run.py\", line 80, in main\n[rank1]:     torch.cuda.set_device(device)\n\
               [rank1]: RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU and installed a driver\n";
    assert!(said(log).starts_with("fail gpu-driver [1] rank 1: RuntimeError: Found no NVIDIA driver"), "{}", said(log));
}
