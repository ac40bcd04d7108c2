//! The reason rather than what follows from it: behind the last line of an exception, in the lines of a block, in those of libraries, file
//! systems, launchers and containers; and what looks like a failure and is none.

use crate::support::report;
use nccl_top::base::severity::Severity;

/// `fail cann-ei0006 line 3 [2] text`
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
fn what_stands_in_the_line_above_or_below() {
    all_are(&[
        (
            "fail collective-timeout line 1 [] BROADCAST 71 timed out after 900 s; rank 5 reports it",
            "[rank5] Watchdog caught collective operation timeout:\n\
             WorkNCCL(SeqNum=71, OpType=BROADCAST, NumelIn=8, NumelOut=8, Timeout(ms)=900000)\n",
        ),
        (
            "fail said-settings line 1 [] The solver must be started with 4 or more processes!",
            "The solver must be started with 4 or more processes!\n\
             --------------------------------------------------------------------------\n\
             MPI_ABORT was invoked on rank 0 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n",
        ),
    ]);
}

#[test]
fn what_a_library_says_behind_the_exception() {
    all_are(&[
        (
            "fail cann-ei0006 line 4 [3] rank 3: Ascend EI0006: Getting socket times out (no connection to another rank came up in time)",
            "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/w/sft.py\", line 71, in main\n[rank3]:     dist.all_reduce(t)\n\
             [rank3]: RuntimeError: InnerRunOpApi:csrc/framework/OpParamMaker.cpp:281 OPS function error: HcclAllreduce, error code is 6\n\
             [rank3]: [ERROR] 2026-04-08-18:07:20 (PID:92363, Device:3, RankID:3) ERR01100 OPS call acl api failed.\n\
             [rank3]: EI0006: [PID: 92363] 2026-04-08-18:07:20.444.436 Getting socket times out. Reason: the other one sent nothing.\n\
             [rank3]:         Solution: 1. Compare the logs of all ranks.\n",
        ),
        (
            "fail cann-ej0002 line 3 [13] Ascend EJ0002: The port of the NPU is down (the network of the NPU does not work)",
            "Traceback (most recent call last):\n  File \"/w/pretrain.py\", line 120, in pretrain\n\
             RuntimeError: create:compiler_depend.ts:123 HCCL function error: HcclCommInitRootInfoConfig(n, &root), error code is 4\n\
             [ERROR] 2026-05-22-15:09:34 (PID:2969, Device:5, RankID:13) ERR02200 DIST call hccl api failed.\n\
             [PID: 2969] 2026-05-22-15:09:34.171.009 Environment_Error(EJ0002): The port of the NPU is down.\n",
        ),
        (
            "fail cann-inner line 3 [] Ascend: the device process does not answer (an inner error of CANN)",
            "Traceback (most recent call last):\n  File \"/w/infer.py\", line 31, in <module>\n\
             RuntimeError: Initialize:compiler_depend.ts:217 NPU function error: aclrtSetDevice(id), error code is 507033\n\
             EH9999: Inner Error!\n\
             EH9999: [PID: 411] 2026-06-02-09:41:22.870.100 the device process does not answer[FUNC:WaitRsp][FILE:manager.cpp][LINE:269]\n",
        ),
        (
            "fail cann-ei0004 line 8 [] Ascend EI0004: The ranktable is invalid (the rank table is wrong)",
            "Traceback (most recent call last):\n  File \"/w/train.py\", line 55, in <module>\n\
             RuntimeError: Ascend collective communication initialization failed.\n\n\
             ----------------------------------------\n- Ascend Error Message:\n----------------------------------------\n\
             EI0004: 2026-06-02-09:41:22.171.009 The ranktable is invalid,Reason:[no device]. Check it.\n",
        ),
        (
            "fail npu-oom line 3 [1] rank 1: the memory of NPU 1 is full: 4.00 GiB more were asked for",
            "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/t.py\", line 8, in <module>\n\
             [rank1]: RuntimeError: NPU out of memory. Tried to allocate 4.00 GiB (NPU 1; 60.97 GiB total capacity; 57.01 GiB in use)\n",
        ),
    ]);
}

#[test]
fn what_the_tracer_says_of_a_call_without_its_tensors() {
    const BEGIN: &str = "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/train.py\", line 41, in main\n[rank1]:     out = model(x)\n\
                         [rank1]: torch._dynamo.exc.TorchRuntimeError: ";
    const CALL: &str = "call_function <built-in function add>(*(FakeTensor(..., device='cuda:1', size=(4, 7)), \
                        FakeTensor(..., device='cuda:1', size=(4, 9))), **{}):";
    const WHY: &str = "tensor a (7) must match tensor b (9)";
    let new = format!("{BEGIN}Dynamo failed to run FX node with fake tensors: {CALL} got RuntimeError('{WHY}')\n");
    let old = format!("{BEGIN}Failed running {CALL}\n[rank1]: {WHY}\n");
    all_are(&[
        (
            "fail dynamo-error line 4 [1] rank 1: torch._dynamo.exc.TorchRuntimeError: Dynamo could not run call_function <built-in function add>: \
             RuntimeError('tensor a (7) must match tensor b (9)')",
            &new,
        ),
        (
            "fail dynamo-error line 4 [1] rank 1: torch._dynamo.exc.TorchRuntimeError: Dynamo could not run call_function <built-in function add>: \
             tensor a (7) must match tensor b (9)",
            &old,
        ),
    ]);
}

#[test]
fn who_has_no_rank_is_named_by_what_is_known_of_him() {
    const TRACE: [&str; 3] = ["Traceback (most recent call last):", "  File \"/w/train.py\", line 51, in worker", "KeyError: 'labels'"];
    let spawned = format!(
        "torch.multiprocessing.spawn.ProcessRaisedException: \n\n-- Process 2 terminated with the following error:\n{}\n",
        TRACE.join("\n")
    );
    let pod: String = TRACE.iter().map(|line| format!("[pod/llama-worker-1/pytorch] {line}\n")).collect();
    let remote = "Traceback (most recent call last):\n  File \"/w/ps.py\", line 70, in run\nRuntimeError: On WorkerInfo(id=2, name=worker2):\n\
                  RuntimeError('CUDA out of memory. Tried to allocate 2.00 GiB (GPU 2; 39.41 GiB total capacity; 36.00 GiB already allocated)')\n";
    all_are(&[
        ("fail python-exception line 6 [] local rank 2: KeyError: 'labels'", &spawned),
        ("fail python-exception line 3 [] host llama-worker-1: KeyError: 'labels'", &pod),
        ("fail cuda-oom line 4 [] CUDA out of memory. Tried to allocate 2.00 GiB on its GPU 2", remote),
    ]);
}

#[test]
fn an_exception_that_only_hands_on() {
    all_are(&[
        (
            "fail datasets-generation line 9 [] pyarrow.lib.ArrowInvalid: JSON parse error in row 81",
            "Traceback (most recent call last):\n  File \"/w/t.py\", line 4, in read\npyarrow.lib.ArrowInvalid: JSON parse error in row 81\n\n\
             The above exception was the direct cause of the following exception:\n\nTraceback (most recent call last):\n  File \"/w/t.py\", line 9, in <module>\n\
             datasets.exceptions.DatasetGenerationError: An error occurred while generating the dataset\n",
        ),
        (
            "fail said-file-missing line 2 [] /usr/bin/ld: cannot find -lcurand: No such file",
            "FAILED: cpu_adam.o\n/usr/bin/ld: cannot find -lcurand: No such file or directory\ncollect2: error: ld returned 1 exit status\n\
             Traceback (most recent call last):\n  File \"/w/t.py\", line 4, in build\n\
             subprocess.CalledProcessError: Command '['ninja', '-v']' returned non-zero exit status 1.\n",
        ),
        (
            "fail said-denied line 2 [] [feeder] shard-7: got 403 AccessDenied from the object store",
            "2026-06-02 11:02:10 INFO  [feeder] opening shard-7\n2026-06-02 11:02:13 INFO  [feeder] shard-7: got 403 AccessDenied from the object store\n\
             2026-06-02 11:02:13 ERROR [trainer] data pipeline stopped\nTraceback (most recent call last):\n  File \"/w/feed.py\", line 22, in __iter__\n\
             RuntimeError: worker pool is broken, see above\n",
        ),
        (
            "fail said-versions-differ line 2 [] worker[5]: the driver of this host is too old",
            "2026-06-02 10:00:01 INFO  launcher: starting 8 workers\nworker[5]: the driver of this host is too old (found 11040)\n\
             worker[5]: exited with status 1\nTraceback (most recent call last):\n  File \"/w/launch.py\", line 33, in wait_all\n\
             RuntimeError: worker 5 exited with code 1\n",
        ),
        (
            "fail said-check-failed line 1 [1] rank 1: TensorRT-LLM: Assertion failed: GPU lacks P2P access",
            "[TensorRT-LLM][ERROR] Assertion failed: GPU lacks P2P access (/src/ipc.cpp:95)\n\
             mpirun noticed that process rank 1 with PID 8813 on node c1 exited on signal 6 (Aborted).\n",
        ),
        (
            "fail python-exception line 6 [] ValueError: the shard is empty",
            "ERROR:composer.cli.launcher:Rank 3 crashed with exit code 1.\n----------Begin global rank 3 STDERR----------\n\
             Traceback (most recent call last):\n  File \"/w/t.py\", line 4, in <module>\n    run()\nValueError: the shard is empty\n\
             ----------End global rank 3 STDERR----------\nERROR:composer.cli.launcher:Global rank 3 (PID 214) exited with code 1\n",
        ),
    ]);
    // An error that the program got over, and long before its end, is not why.
    let old = "2026-06-02 10:00:01 ERROR feeder: cannot open the cache: permission denied\n".to_owned();
    let steps: String = (1..30).map(|step| format!("step {step} loss 2.5\n")).collect();
    let end = "mpirun noticed that process rank 1 with PID 8813 on node c1 exited on signal 9 (Killed).\n";
    assert!(said(&(old + &steps + end)).contains("rank-exited"), "an old error");
}

#[test]
fn a_report_of_several_lines() {
    all_are(&[
        (
            "fail mpi-no-executable line 2 [] mpirun cannot start ./build/gather on gpu-7: it is not there, or may not be executed",
            "--------------------------------------------------------------------------\n\
             prterun was unable to launch the specified application as it could not\naccess or execute an executable:\n\n   Executable: ./build/gather\n   \
             Node: gpu-7\n\nwhile attempting to start process rank 0.\n--------------------------------------------------------------------------\n",
        ),
        (
            "fail mpi-no-executable line 2 [] mpirun cannot start /srv/mesh/solve on 10.0.4.7: it is not there, or may not be executed",
            "--------------------------------------------------------------------------\n\
             mpirun was unable to launch the specified application as it could not access\nor execute an executable:\n\nExecutable: /srv/mesh/solve\n\
             Node: 10.0.4.7\n\nwhile attempting to start process rank 8.\n--------------------------------------------------------------------------\n",
        ),
        (
            "fail cuda-assertion line 4 [] a check in a CUDA kernel failed: index < size",
            "Traceback (most recent call last):\n  File \"/w/t.py\", line 4, in <module>\n\
             RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasGemmEx(handle)`\n\
             ../aten/src/ATen/native/cuda/Indexing.cu:1146: indexSelectLargeIndex: block: [11,0,0], thread: [3,0,0] Assertion `index < size` failed.\n",
        ),
        (
            "fail mpi-slots line 2 [] mpirun has fewer slots than the 16 processes that it is to start",
            "--------------------------------------------------------------------------\n\
             There are not enough slots available in the system to satisfy the 16\nslots that were requested by the application:\n\n  ./reduce\n",
        ),
        (
            "fail error-at-end line 2 [] A process or daemon was unable to complete a connection to another process: Local host: c1, Remote host: c4",
            "--------------------------------------------------------------------------\n\
             A process or daemon was unable to complete a connection\nto another process:\n  Local host:    c1\n  Remote host:   c4\n\
             This is usually caused by a firewall. Please check it\nand try again.\n\
             --------------------------------------------------------------------------\n",
        ),
        (
            "fail pydantic-validation line 3 [] pydantic_core.ValidationError: 1 validation error for TrainConfig tensor_parallel: Input should be a valid integer",
            "Traceback (most recent call last):\n  File \"/w/launch.py\", line 12, in <module>\n\
             pydantic_core.ValidationError: 1 validation error for TrainConfig\ntensor_parallel\n  Input should be a valid integer [type=int_parsing]\n",
        ),
        (
            "fail state-dict-shapes line 3 [] RuntimeError: Error(s) in loading state_dict for Gpt: size mismatch for embedding.weight: copying a param with shape torch.Size([8, 4]) from checkpoint",
            "Traceback (most recent call last):\n  File \"/w/t.py\", line 8, in <module>\nRuntimeError: Error(s) in loading state_dict for Gpt:\n\
             \tsize mismatch for embedding.weight: copying a param with shape torch.Size([8, 4]) from checkpoint.\n",
        ),
        (
            "fail python-exception line 3 [] RuntimeError: Engine start failed: worker 2: no license is available",
            "Traceback (most recent call last):\n  File \"/w/engine.py\", line 77, in start\nRuntimeError: Engine start failed:\n  worker 0: ok\n  \
             worker 1: ok\n  worker 2: no license is available, cannot start\n",
        ),
        (
            "fail extension-build line 3 [] RuntimeError: Error building extension 'fused_adam': nvcc fatal   : Unsupported gpu architecture 'compute_100'",
            "Traceback (most recent call last):\n  File \"/w/t.py\", line 8, in <module>\n\
             RuntimeError: Error building extension 'fused_adam': [1/3] /usr/bin/nvcc -c adam.cu -o adam.o\nFAILED: adam.o\n/usr/bin/nvcc -c adam.cu -o adam.o\n\
             nvcc fatal   : Unsupported gpu architecture 'compute_100'\nninja: build stopped: subcommand failed.\n",
        ),
        (
            "fail error-at-end line 1 [] node agent failed to run preflight: stage: allreduce, reason: bandwidth 12 GB/s below 300 GB/s",
            "E0602 10:11:12.411000 812 agent.py:41] node agent failed to run preflight:\nE0602 10:11:12.411000 812 agent.py:42]   stage: allreduce\n\
             E0602 10:11:12.411000 812 agent.py:43]   reason: bandwidth 12 GB/s below 300 GB/s\n",
        ),
        (
            "fail said-check-failed line 1 [] node check failed: check: gpu_count, expected: 8, found: 7",
            "2026-07-01 10:00:04 [node-agent] ERROR node check failed\n  check:    gpu_count\n  expected: 8\n  found:    7\n\
             2026-07-01 10:00:04 [node-agent] ERROR not starting ranks\n",
        ),
        (
            "fail error-at-end line 4 [] ib_write_bw failed: mlx5_3: 112 Gb/s",
            "+-------------+--------+-------------------+\n| check       | result | detail            |\n+-------------+--------+-------------------+\n\
             | ib_write_bw | FAIL   | mlx5_3: 112 Gb/s  |\n| all_reduce  | SKIP   |                   |\n+-------------+--------+-------------------+\n",
        ),
    ]);
    // A launcher's warning is none.
    let mild = "--------------------------------------------------------------------------\nWARNING: The launcher found no entry for the process\n\
                that was unable to connect. It will be ignored.\n--------------------------------------------------------------------------\nstep 10 loss 2.5\n";
    assert_eq!(said(mild), "ok");
    // A step of another process is none of an exception's lines.
    let steps = report(
        "Traceback (most recent call last):\n  File \"/w/t.py\", line 8, in <module>\nRuntimeError: Engine start failed:\n\
                        \x20 step 10 loss: 2.5\n step 20 loss: 2.4\n",
    );
    assert_eq!(steps.training().and_then(|training| training.step), Some(20));
    // Lines of a log that happens to break after a word are no sentence.
    let lines =
        "2026-06-02 10:00:01 launcher: CUDA error: out of memory in the first attempt with batch\n2026-06-02 10:00:02 launcher: batch 8\n";
    assert!(!said(lines).contains("2026-06-02 10:00:02"), "{}", said(lines));
}

#[test]
fn storage_schedulers_and_containers() {
    all_are(&[
        (
            "fail ceph-mds line 2 [] CephFS: metadata server mds0 does not answer this client (hung)",
            "[Tue Jun  2 10:11:00 2026] libceph: mds0 (1)10.9.0.4:6801 socket closed (con state OPEN)\n[Tue Jun  2 10:16:05 2026] ceph: mds0 hung\n\
             [Tue Jun  2 10:21:02 2026] INFO: task python3:40412 blocked for more than 122 seconds.\n",
        ),
        (
            "fail gpfs-lost line 1 [] GPFS: this host is no longer in the cluster gpu.example",
            "2026-06-02_10:11:13.402+0200: [E] Lost membership in cluster gpu.example. Unmounting file systems.\n",
        ),
        (
            "fail beegfs-server line 1 [] BeeGFS: the server storage stor02 cannot be reached",
            "(3) Jun02 10:11:12 Worker2-1 [Messaging (RPC)] >> Unable to connect to: beegfs-storage stor02 [ID: 2]; Message type: Write\n",
        ),
        (
            "fail slurmctld-node-down line 2 [] Slurm lost nodes c[07,09]: they do not answer",
            "[2026-06-02T10:31:40.002] error: Nodes c[07,09] not responding\n[2026-06-02T10:35:00.441] error: Nodes c[07,09] not responding, setting DOWN\n\
             [2026-06-02T10:35:01.001] error: mail: /usr/bin/mail not found\n",
        ),
        (
            "fail slurmctld-node-silent line 1 [] Slurm gets no answer from c[07,09]",
            "[2026-06-02T10:31:40.002] error: Nodes c[07,09] not responding\n[2026-06-02T10:35:01.001] error: mail: /usr/bin/mail not found\n",
        ),
        (
            "fail slurm-allocation-limit line 2 [] Slurm: job 9211 reached its time limit",
            "step 200 loss 3.0\nsalloc: Job 9211 has exceeded its time limit and its allocation has been revoked.\nsrun: forcing job termination\n\
             slurmstepd: error: *** STEP 9211.0 ON c01 CANCELLED AT 2026-06-02T12:00:00 ***\nHangup\n",
        ),
        (
            "fail pyxis-reason line 3 [] the container could not be started: URL https://registry.example/auth returned error code: 401 Unauthorized",
            "slurmstepd: error: pyxis: child 21401 failed with error code: 1\nslurmstepd: error: pyxis: printing enroot log file:\n\
             slurmstepd: error: pyxis:     [ERROR] URL https://registry.example/auth returned error code: 401 Unauthorized\n\
             slurmstepd: error: pyxis: couldn't start container\nsrun: error: c3: task 0: Exited with exit code 1\n",
        ),
        (
            "fail oci-failed line 1 [] the container could not be started: exec: \"torchrun\": executable file not found in $PATH",
            "docker: Error response from daemon: failed to create task for container: failed to create shim task: OCI runtime create failed: runc create \
             failed: unable to start container process: exec: \"torchrun\": executable file not found in $PATH\n",
        ),
        (
            "fail kubelet-evicted line 1 [] host gpu-9: Kubernetes evicts pods: the node is short of ephemeral-storage",
            "Jun 02 10:11:12 gpu-9 kubelet[1200]: W0602 10:11:12.411  1200 eviction_manager.go:353] eviction manager: attempting to reclaim ephemeral-storage\n",
        ),
        (
            "fail mpich-launcher line 1 [] MPICH's launcher lost a process, or its helper",
            "[mpiexec@c1] HYDT_bscu_wait_for_completion (bscu_wait.c:109): one of the processes terminated badly; aborting\n",
        ),
        (
            "fail mpi-abort-called line 1 [2] rank 2 ended the whole job with MPI_Abort (code 141)",
            "Abort(141) on node 2 (rank 2 in comm 0): application called MPI_Abort(MPI_COMM_WORLD, 141) - process 2\n\n\
             =   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n=   PID 20311 RUNNING AT c7\n=   EXIT CODE: 9\n",
        ),
        (
            "fail said-file-missing line 1 [] c2: bash: line 1: /w/venv/bin/python: No such file",
            "c2: bash: line 1: /w/venv/bin/python: No such file or directory\npdsh@c1: c2: ssh exited with exit code 127\n",
        ),
        ("fail pdsh-ended line 1 [] what was started on c2 ended: exit code 127", "pdsh@c1: c2: ssh exited with exit code 127\n"),
        (
            "fail sagemaker-failed line 3 [] SageMaker: the training script failed: ValueError: the tokenizer has no pad token",
            "2026-06-02 10:22:59,101 sagemaker-training-toolkit ERROR    Reporting training FAILURE\n\
             2026-06-02 10:22:59,101 sagemaker-training-toolkit ERROR    ExecuteUserScriptError:\nErrorMessage \"ValueError: the tokenizer has no pad token\n",
        ),
    ]);
}

#[test]
fn the_others_of_which_the_same_is_reported() {
    let report = report(
        "[Tue Jun  2 10:11:00 2026] NVRM: Xid (PCI:0000:18:00): 79, pid=1234, name=python, GPU has fallen off the bus.\n\
         [Tue Jun  2 10:11:01 2026] NVRM: Xid (PCI:0000:2a:00): 79, pid=1235, name=python, GPU has fallen off the bus.\n",
    );
    let cause = &report.findings[report.root_cause.unwrap()];
    assert!(cause.whole_why().starts_with("the same is reported of 0000:2a:00"), "{}", cause.whole_why());
}

#[test]
fn the_watchdog_rather_than_its_abort() {
    let timeout = |rank: u32| {
        format!(
            "[rank{rank}]:[E602 10:40:01.500000 ProcessGroupNCCL.cpp:685] [Rank {rank}] Watchdog caught collective operation timeout: \
             WorkNCCL(SeqNum=4411, OpType=ALLREDUCE, NumelIn=1000, NumelOut=1000, Timeout(ms)=1800000) ran for 1800012 milliseconds before timing out.\n"
        )
    };
    let log = format!("srun: error: c1: task 2: Aborted (core dumped)\n{}", timeout(2));
    assert!(said(&log).starts_with("fail collective-timeout line 2"), "{}", said(&log));
    // One reporter tells nothing of others.
    let report = report(&timeout(1));
    assert!(report.findings.iter().all(|f| !f.whole_why().contains("rank 0")), "{:?}", report.findings);
    // Five of eight are not enough to call the others absent; seven are.
    let world = "c1:812:812 [0] NCCL INFO ncclCommInitRank comm 0x55a rank 0 nranks 8 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init COMPLETE\n";
    let of = |ranks: &[u32]| format!("{world}{}", ranks.iter().map(|rank| timeout(*rank)).collect::<String>());
    assert!(said(&of(&[0, 1, 3, 5, 6])).contains("collective-timeout"), "{}", said(&of(&[0, 1, 3, 5, 6])));
    assert!(said(&of(&[0, 1, 2, 3, 5, 6, 7])).contains("hang-rank-absent line 2 [4]"), "{}", said(&of(&[0, 1, 2, 3, 5, 6, 7])));
}

#[test]
fn a_loss_that_stands_still() {
    let steps = |loss: &dyn Fn(u32) -> f64, norm: f64| -> String {
        (1..12).map(|step| format!("step {step} loss: {:.4} grad_norm: {norm:.1}\n", loss(step))).collect()
    };
    assert!(said(&steps(&|_| 10.8249, 0.0)).starts_with("warn loss-not-finite"), "{}", said(&steps(&|_| 10.8249, 0.0)));
    assert_eq!(said(&steps(&|step| 10.8249 - f64::from(step) / 16.0, 1.5)), "ok");
    // With a gradient, a program may print one that is rounded.
    assert_eq!(said(&steps(&|_| 10.8249, 1.5)), "ok");
}

#[test]
fn what_looks_like_a_failure_and_is_none() {
    let cuda = "2026-06-02 10:00:02.143456: E external/local_xla/xla/stream_executor/cuda/cuda_platform.cc:51] failed call to cuInit: INTERNAL: CUDA error: \
                Failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected\n";
    let lo = "c1:812:812 [0] NCCL INFO Bootstrap: Using lo:127.0.0.1<0>\nc1:812:812 [0] NCCL INFO NCCL version 2.27.3+cuda12.8\n\
              c1:812:900 [0] NCCL INFO ncclCommInitRank comm 0x55a rank 0 nranks 1 cudaDev 0 nvmlDev 0 busId 1000 commId 0xabc - Init START\n";
    let checks = "| check       | result | detail           |\n+-------------+--------+------------------+\n| ib_write_bw | PASS   | mlx5_3: 392 Gb/s |\n\
                  2026-06-02 10:00:01 INFO all checks passed, 0 failed\n2026-06-02 10:00:02 INFO starting\n2026-06-02 10:00:03 INFO ranks are up\n";
    let slurm = "[2026-06-02T10:10:02.114] error: Nodes c07 not responding\n[2026-06-02T10:10:12.114] Node c07 now responding\n\
                 [2026-06-02T11:10:13.114] _job_complete: JobId=8812 WEXITSTATUS 0\n[2026-06-02T11:10:13.214] _job_complete: JobId=8812 done\n";
    let ceph = "[Tue Jun  2 10:11:00 2026] libceph: mds0 (1)10.9.0.4:6801 socket closed (con state OPEN)\n[Tue Jun  2 10:11:02 2026] ceph: mds0 recovery completed\n";
    let data = "  1%|          | 700/52002 [00:00<00:10, 4812.00it/s]\n 40%|████      | 21000/52002 [00:04<00:06, 4812.00it/s]\n";
    for log in [cuda, lo, checks, slurm, ceph, data] {
        let report = report(log);
        assert!(report.findings.iter().all(|f| f.severity < Severity::Error), "{log}: {:?}", report.findings);
    }
    // A bar so fast is no training; one that a rank draws is.
    assert!(report(data).training().is_none());
    let bar = "[rank0] 10%|█         | 10/100 [00:10<01:30,  1.0s/it]\n[rank0] 11%|█         | 11/100 [00:11<01:29,  1.0s/it]\n";
    assert_eq!(report(bar).training().and_then(|training| training.step), Some(11));
}

#[test]
fn an_exception_that_only_hands_on_what_nccl_returned() {
    let quoted = "[rank10]: Traceback (most recent call last):\n[rank10]:   File \"/w/sft.py\", line 71, in main\n[rank10]:     work = group.reduce_scatter(x)\n\
                  [rank10]: RuntimeError: NCCL Error 2: unhandled system error (run with NCCL_DEBUG=INFO for details)\n";
    let warned = "gpu-02:4120:4150 [0] misc/ibvwrap.cc:182 NCCL WARN Call to ibv_reg_mr_iova2 failed with error Invalid argument\n";
    all_are(&[
        ("fail ib-reg-refused line 5", &format!("{quoted}{warned}")),
        ("fail nccl-result-system line 4 [10]", quoted),
        (
            "fail nccl-result-cuda line 3",
            "Traceback (most recent call last):\n  File \"/w/train.py\", line 24, in main\nOSError: (External) NCCL error(1), unhandled cuda error. \n\
             \x20 [Hint: 'ncclUnhandledCudaError'. A call to a CUDA function failed.] (at /paddle/collective_helper.cc:100)\n",
        ),
    ]);
}

#[test]
fn a_traceback_that_the_end_of_the_log_cuts_off() {
    let cut = "Traceback (most recent call last):\n  File \"/w/train.py\", line 11, in <module>\n    main()\n  File \"/w/train.py\", line 88, in fit\n";
    let steps = "step 40 loss 2.1\nstep 50 loss 2.0\nstep 60 loss 2.0\nstep 70 loss 1.9\n";
    all_are(&[
        ("fail python-exception line 8 [] an exception in fit (train.py); the log ends before it is named", &format!("{steps}{cut}")),
        // Whatever else is known says more.
        (
            "fail mpi-runtime-error line 1",
            &format!("[gpu-01:158] PRTE ERROR: Bad parameter in file base/odls_base_default_fns.c at line 962\n{cut}"),
        ),
        // The program went on: somebody printed where it is.
        ("ok", &format!("{steps}{cut}{}", steps.replace("70", "80").repeat(3))),
        // A launcher that hands on an end that its log does not show.
        (
            "fail python-exception line 2 [] an exception in main (run.py)",
            "Traceback (most recent call last):\n  File \"/x/site-packages/torch/distributed/run.py\", line 918, in main\n",
        ),
    ]);
}

#[test]
fn a_traceback_of_several_ranks_that_no_prefix_tells_apart() {
    let raised = "Traceback (most recent call last):\n  File \"/w/train.py\", line 44, in main\n    params = read(path)\n\
                  FileNotFoundError: [Errno 2] No such file or directory: '/w/config.yaml'\n";
    let row = |n: u32, rank: u32| {
        format!(
            "[{n}]:\n  time      : 2026-06-08_19:04:45\n  host      : gpu-01\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : 1 (pid: {})\n",
            400 + rank
        )
    };
    let rule = "-".repeat(60);
    let table = |others: &str| {
        format!(
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n{0}\ntrain.py FAILED\n{rule}\nFailures:\n{others}{rule}\n\
             Root Cause (first observed failure):\n{1}{0}\n",
            "=".repeat(60),
            row(0, 0)
        )
    };
    let others = format!("{}{}", row(1, 2), row(2, 3));
    all_are(&[
        ("fail path-missing line 4 [0, 2, 3] ranks 0, 2 and 3: FileNotFoundError", &format!("{}{}", raised.repeat(3), table(&others))),
        ("fail path-missing line 4 [0] rank 0: FileNotFoundError", &format!("{raised}{}", table(&others))),
    ]);
}

#[test]
fn what_runtimes_say_of_nodes_and_of_their_own_start() {
    all_are(&[
        (
            "fail ray-node-preempted line 5",
            "(TrainController pid=312) The actor died unexpectedly before finishing this task.\n(TrainController pid=312) \tclass_name: RayTrainWorker\n\
             (TrainController pid=312) \tpid: 326\n(TrainController pid=312) The actor died because its node has died. Node Id: b15cfd45\n\
             (TrainController pid=312) \tthe actor's node was preempted: maintenance of the host\n",
        ),
        (
            "fail ray-node-died line 2",
            "(pid=9) The actor died unexpectedly before finishing this task.\n(pid=9) The actor died because its node has died. Node Id: b15cfd45\n",
        ),
        (
            "fail ucx-no-gid line 2",
            "[node-a:62000] pml_ucx.c:291  Error: Failed to create UCP worker\n\
             [1635931846.182478] [node-a:62000:0]      ib_device.c:670  UCX  ERROR ibv_query_gid(dev=mlx5_an0 port=1 index=0) failed: Invalid argument\n",
        ),
        (
            "fail nccl-test-failure line 1",
            "n1: Test NCCL failure /w/rccl-tests/build/hipify/common.cu.cpp:1291 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '\n",
        ),
        // A setting with `timeout` in its name is no timeout.
        ("unknown", "| strict_readiness | 1\n| exit_timeout                     | 30\n| cache_enabled | 0\n"),
    ]);
}

/// PyTorch's C++ logger printed `22.038` right below `22.958`.
#[test]
fn of_two_lines_of_a_file_the_upper_one_came_first() {
    let pg = |rank: u32, at: &str, what: &str| {
        format!("[rank{rank}]:[E1123 13:31:{at} ProcessGroupNCCL.cpp:1914] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] {what}\n")
    };
    let log = [
        "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/train.py\", line 11, in <module>\n\
         [rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 335.28 GiB. GPU 0 has a total capacity of 139.80 GiB.\n"
            .to_owned(),
        pg(
            0,
            "22.957070949",
            "Collective WorkNCCL(SeqNum=111, OpType=ALLREDUCE, NumelIn=4, NumelOut=4, Timeout(ms)=600000) raised the following async exception: NCCL error: remote process exited or there was a network error, NCCL version 2.28.9",
        ),
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\n\
         socketProgress: Connection closed by remote peer \n"
            .to_owned(),
        pg(
            0,
            "22.958011850",
            "failure detected by watchdog at work sequence id: 111 PG status: last enqueued work: 142, last completed work: 110",
        ),
        pg(
            0,
            "22.038183554",
            "Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 142, last completed NCCL work: 110.",
        ),
    ];
    all_are(&[("fail cuda-oom line 3 [1] rank 1: CUDA out of memory", &log.concat())]);
}

#[test]
fn what_only_looks_like_a_failure() {
    all_are(&[
        // The module `warnings` prints it, and the program goes on.
        (
            "ok",
            "Epoch 0: step 1 loss 2.1\n/opt/lib/trainer.py:970: RuntimeWarning: invalid value encountered in scalar divide\n  dc = [2 * i / j for i, j in rows]\n",
        ),
        // No plugin is installed.
        (
            "ok",
            "n1:812:812 [0] NCCL INFO NET/Plugin: Plugin load returned 2 : librccl-net.so: cannot open shared object file: No such file or directory : when loading librccl-net.so\n",
        ),
        // No RDMA device.
        ("ok", "n1:812:812 [0] misc/ibvwrap.cc:185 (wrap_ibv_alloc_pd) NCCL WARN lib wrapper not initialized.\n"),
    ]);
}

#[test]
fn who_says_nothing_stands_beside_who_was_first_to_complain() {
    let waits = |rank: u32| {
        format!(
            "[rank{rank}]:[E810 03:04:10.85061786{rank} ProcessGroupNCCL.cpp:683] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=78, \
             OpType=BROADCAST, NumelIn=80, NumelOut=80, Timeout(ms)=600000) ran for 600003 milliseconds before timing out.\n"
        )
    };
    let step = |rank: u32| format!("[rank{rank}]:step 77 loss 2.5\n");
    let log = [step(0), step(1), step(2), step(3), waits(3), waits(1), waits(2)].concat();
    let want = "fail collective-timeout line 6 [] BROADCAST 78 timed out after 600 s; ranks 1, 2 and 3 report it; rank 0 says nothing";
    all_are(&[(want, &log)]);
    assert!(report(&log).findings[0].why.contains("it had waited since 02:54:10"));
}

/// The setting turns off NCCL's own InfiniBand, not the plugin, which has failed by itself.
#[test]
fn a_plugin_that_failed_is_why_nccl_uses_sockets() {
    let log = "n1:78:48 [5] nccl_ofi_ofiutils_init_connection:274 NCCL WARN NET/OFI Couldn't open CQ. RC: -22, ERROR: Invalid argument\n\
        n1:78:48 [5] nccl_net_ofi_create_plugin:259 NCCL WARN NET/OFI aws-ofi-nccl initialization failed\n\
        n1:78:48 [5] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n\
        n1:78:48 [5] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.5<0>\n\
        n1:78:48 [5] NCCL INFO Using network Socket\n";
    let report = report(log);
    let of_setting = |f: &nccl_top::rules::findings::Finding| f.summary.contains("NCCL_IB_DISABLE");
    assert!(!report.findings.iter().any(of_setting), "{:?}", report.findings.iter().map(|f| &f.summary).collect::<Vec<_>>());
}

/// What a library warned of, as mildly as it did, is why the program failed.
#[test]
fn a_warning_that_is_known_to_cause_a_failure_is_its_cause() {
    let warned = "/v/torch/cuda/__init__.py:138: UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040). Please update\n";
    let failed = "Traceback (most recent call last):\n  File \"train.py\", line 84, in <module>\n    init_process_group(backend=backend)\n\
                  RuntimeError: ProcessGroupNCCL is only supported with GPUs, no GPUs found!\n";
    let too_old = "fail cuda-driver-too-old-warning line 1 [] start: the NVIDIA driver (CUDA 11.4) is older than this build's CUDA, and PyTorch goes on without GPUs";
    let no_gpu = "fail launch-no-gpu line 4 [] RuntimeError: ProcessGroupNCCL is only supported";
    let no_provider = "n1:78:78 [0] NCCL INFO NET/OFI No eligible providers were found\n\
                       n1:78:78 [0] plugin/net.cc:306 NCCL WARN Failed to initialize any NET plugin\n";
    all_are(&[
        (too_old, &format!("{warned}{failed}")),
        (no_gpu, failed),
        // What comes behind is of something else.
        (no_gpu, &format!("{failed}{warned}")),
        ("warn", warned),
        // Of another host, and what that one got over.
        (
            "fail net-init-failed line 3 []",
            "n1:70:70 [0] NCCL INFO NET/OFI No eligible providers were found\nn1:70:70 [0] NCCL INFO Using network Socket\n\
            n2:99:99 [0] plugin/net.cc:306 NCCL WARN Failed to initialize any NET plugin\n",
        ),
        // A machine without NVSwitches needs no fabric manager.
        (
            "warn fabricmanager-no-switch",
            "Aug 10 08:00:33 node-7 nv-fabricmanager[39]: request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]\n\
            Aug 10 08:00:33 node-7 systemd[1]: nvidia-fabricmanager.service: Main process exited, code=exited, status=1/FAILURE\n\
            Aug 10 08:00:33 node-7 systemd[1]: nvidia-fabricmanager.service: Failed with result 'exit-code'.\n",
        ),
        ("fail ofi-no-provider line 1 [] aws-ofi-nccl found no libfabric provider that it can use", no_provider),
    ]);
}

/// The driver prints what belongs to one moment in any order.
#[test]
fn of_one_moment_the_drivers_own_cause_counts() {
    let log = "[Mon Feb  2 22:52:45 2026] NVRM: Xid (PCI:0000:cb:00): 94, pid=5385, name=python, channel 0x0000000b\n\
               [Mon Feb  2 22:52:45 2026] NVRM: Xid (PCI:0000:4c:00): 137, TLC RX interrupt hit on link 4 on GPU0: PRIV Error\n\
               [Mon Feb  2 22:52:45 2026] NVRM: Xid (PCI:0000:4c:00): 94, Contained: SM (0x1). RST: No, D-RST: No\n";
    all_are(&[("fail xid-137 line 2 [] Xid 137 on GPU 0000:4c:00 (NVLink privilege error)", log)]);
}

/// A launcher's clock is that of the end; what the rank said of it has none.
#[test]
fn what_a_rank_says_is_why_its_launcher_saw_it_end() {
    let log = "[rank6]: Traceback (most recent call last):\n[rank6]:   File \"/w/bench.py\", line 629, in measure\n[rank6]:     torch.cuda.synchronize()\n\
               [rank6]: torch.AcceleratorError: CUDA error: misaligned address\n\
               E0813 08:21:22.980000 1245483 torch/distributed/elastic/multiprocessing/api.py:984] failed (exitcode: -6) local_rank: 6 (pid: 1246013) of binary: /v/bin/python3\n\
               Root Cause (first observed failure):\n[0]:\n  time      : 2026-08-13_08:21:19\n  host      : n58\n  rank      : 6 (local_rank: 6)\n\
               \x20 exitcode  : -6 (pid: 1246013)\n  error_file: <N/A>\n  traceback : Signal 6 (SIGABRT) received by PID 1246013\n";
    all_are(&[
        ("fail cuda-launch-failure line 4 [6] rank 6: CUDA error: misaligned address", log),
        // Whom the kernel killed had not died of what it got over before.
        (
            "fail rank-exited line 11 [6] rank 6 (pid 1246013) ended: killed by signal 9 (SIGKILL)",
            &log.replace("-6 (pid", "-9 (pid").replace("exitcode: -6", "exitcode: -9").replace("Signal 6 (SIGABRT)", "Signal 9 (SIGKILL)"),
        ),
    ]);
}

/// RCCL prints the version of NCCL that it is made from, too.
#[test]
fn one_library_of_two_names_is_no_mismatch() {
    let log = |other: &str| {
        format!(
            "n1:233:233 [0] NCCL INFO NCCL version 2.26.6+hip6.4\nn1:234:234 [1] NCCL INFO NCCL version {other}\nn1:233:233 [0] NCCL INFO RCCL version : 2.26.6-develop:96a25c5\n"
        )
    };
    all_are(&[("ok", &log("2.26.6+hip6.4")), ("fail version-mismatch", &log("2.25.1+hip6.4"))]);
}

/// The same text of two jobs: one that came to its end later, and one that did not.
#[test]
fn a_job_that_came_to_its_end_had_survived() {
    let step = |time: &str, n: u32| format!("2025-05-21 {time},595 - root - INFO - Step: {n} | Loss: 7.89 | Tokens per second: 7542.89\n");
    let begin = step("11:33:40", 120) + &step("11:33:41", 121);
    let cancelled = "slurmstepd: error: *** JOB 454600 ON nid006459 CANCELLED AT 2025-05-21T11:34:48 DUE TO TIME LIMIT ***\n";
    let end = step("11:53:53", 995) + &step("11:53:56", 1000) + "2025-05-21 11:53:56,307 - root - INFO - Training completed\n";
    let elastic = "RuntimeError: NCCL error: unhandled system error, NCCL version 2.4.8\n\
                   [INFO] 2020-07-31 07:15:34,785 api: [default] Worker group FAILED. 3/3 attempts left; will restart worker group\n";
    let trained: String = (1..5).map(|n| format!("Epoch: [1][  {n}/1042]\tTime  2.741 ( 2.741)\tLoss 4.7370e+00 (4.7370e+00)\n")).collect();
    let finished = "[INFO] 2020-07-31 07:55:16,413 api: [default] All workers successfully finished.\n";
    all_are(&[
        ("warn slurm-time-limit", &format!("{begin}{cancelled}{end}")),
        ("fail slurm-time-limit", &format!("{begin}{cancelled}")),
        (
            "warn nccl-system-error",
            &format!("{trained}Traceback (most recent call last):\n  File \"main.py\", line 3, in train\n{elastic}{trained}{finished}"),
        ),
        (
            "fail nccl-system-error",
            &format!("{trained}Traceback (most recent call last):\n  File \"main.py\", line 3, in train\n{elastic}"),
        ),
    ]);
}

/// The wait began earlier than the first line that has a time; what stands above all that gave up came before them.
#[test]
fn what_stands_above_those_that_gave_up_may_be_the_cause() {
    let waits = |rank: u32| {
        format!(
            "[rank{rank}]:[E1109 16:13:20.22228824{rank} ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=45, OpType=_REDUCE_SCATTER_BASE, NumelIn=64, NumelOut=8, Timeout(ms)=600000) ran for 600089 milliseconds before timing out.\n"
        )
    };
    let hang = "HW Exception by GPU node-9 (Agent handle: 0x64ff272d8ab0) reason :GPU Hang\n";
    let all: String = (0..7).map(waits).collect();
    all_are(&[
        (
            "fail amdgpu-hw-exception line 1 [] AMD GPU (node 9 of its list) stopped with a hardware exception: GPU Hang",
            &format!("{hang}{all}"),
        ),
        ("fail collective-timeout", &format!("world_size=8\n{all}{hang}")),
    ]);
}

/// A process that was being started when its parent died.
#[test]
fn an_exception_that_follows_does_not_stand_for_its_cause() {
    let child = "Traceback (most recent call last):\n  File \"<string>\", line 1, in <module>\n  File \"/usr/lib/python3.11/multiprocessing/spawn.py\", line 132, in _main\n\
        \x20   self = reduction.pickle.load(from_parent)\nEOFError: Ran out of input\n";
    let parent = "Traceback (most recent call last):\n  File \"/w/train.py\", line 9, in main\n    mp.spawn(run, nprocs=8)\nValueError: bad context\n";
    all_are(&[
        ("fail python-exception line 9 [] ValueError: bad context, in main (train.py:9)", &format!("{child}{parent}")),
        ("fail pickle-cut-short line 5 []", child),
    ]);
}

/// Native stacks say in which library a process crashed.
#[test]
fn the_library_of_a_native_crash() {
    let ompi = "[n7:956] *** Process received signal ***\n[n7:956] Signal: Segmentation fault (11)\n[n7:956] Signal code:  (-6)\n[n7:956] Failing at address: 0x3bc\n\
                [n7:956] [ 0] /usr/lib/x86_64-linux-gnu/libc.so.6(+0x45330)[0x7d1d0c3eb330]\n[n7:956] [ 1] /usr/local/lib/libnccl.so.2(+0xbd72c)[0x7d1d0c8f372c]\n\
                [n7:956] [ 2] /usr/local/lib/libnccl.so.2(ncclGroupEnd+0x37)[0x7d1d0c903ee7]\n[n7:956] [ 3] ./all_gather_perf(+0x86a4)[0x56]\n[n7:956] *** End of error message ***\n";
    let ucx = "[w-0:2121 :0:7025] Caught signal 7 (Bus error: nonexistent physical address)\n==== backtrace (tid: 7025) ====\n0 0x0000000000014420 __funlockfile() ???:0\n\
               1 0x0000000000068d7c ncclGroupEnd() ???:0\n2 0x0000000000008609 start_thread() ???:0\n=================================\n";
    // Without a stack, and where the job goes on.
    let bare = "[w-0:2121:0:7025] Caught signal 11 (Segmentation fault: address not mapped to object at address 0x18)\n";
    let others: String = (0..12).map(|n| format!("step {n} loss 2.5\n")).collect();
    all_are(&[
        ("fail segfault line 2 [] pid 956 on n7 crashed in libnccl.so.2 (ncclGroupEnd): segmentation fault (SIGSEGV)", ompi),
        (
            "fail ucx-crash-bus line 1 [] process 2121 of w-0 crashed in ncclGroupEnd with signal 7 (Bus error: nonexistent physical address)",
            ucx,
        ),
        ("fail ucx-crash line 1 [] process 2121 of w-0 crashed with signal 11: Segmentation fault", bare),
        ("warn ucx-crash line 1 [] process 2121 of w-0 crashed with signal 11: Segmentation fault", &format!("{bare}{others}")),
    ]);
}

/// Of those that crash of one signal in one second none is the first.
#[test]
fn ranks_that_crash_together_are_named_together() {
    let row = |rank: u32, time: &str, code: i32| {
        format!(
            "  time      : 2026-01-15_05:44:{time}\n  host      : x\n  rank      : {rank} (local_rank: {rank})\n  exitcode  : {code} (pid: 617{rank})\n  error_file: <N/A>\n  traceback : Signal {} received by PID 617{rank}\n",
            -code
        )
    };
    let table = |others: &str, first: &str| {
        format!(
            "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n============\nrun.py FAILED\n------------\nFailures:\n[1]:\n{others}------------\n\
             Root Cause (first observed failure):\n[0]:\n{first}============\n"
        )
    };
    all_are(&[
        (
            "fail rank-exited line 19 [0, 1] ranks 0 and 1 ended: killed by signal 11 (SIGSEGV)",
            &table(&row(1, "28", -11), &row(0, "28", -11)),
        ),
        (
            "fail rank-exited line 19 [0] rank 0 (pid 6170) ended: killed by signal 11 (SIGSEGV)",
            &table(&row(1, "29", -11), &row(0, "28", -11)),
        ),
        (
            "fail rank-exited line 19 [0] rank 0 (pid 6170) ended: killed by signal 6 (SIGABRT)",
            &table(&row(1, "28", -6), &row(0, "28", -6)),
        ),
    ]);
}

/// A program's own frame around its last words, a wrapped sentence, an exception whose end stands in the next line: what a launcher did after it
/// is no reason.
#[test]
fn what_a_program_says_in_several_lines_is_one_reason() {
    let retries = |n: u32| {
        let line = |i: u32| {
            format!(
                "n1:4:7 [0] NCCL INFO socketStartConnect: connect returned Connection timed out, retrying ({i}/34) after sleep for {i}00 msec\n"
            )
        };
        (1..=n).map(line).collect::<String>()
    };
    let init = "n1:4:4 [0] NCCL INFO NCCL version 2.26.2+cuda12.8\n\
                n1:4:9 [0] NCCL INFO ncclCommInitRank comm 0x5573b2f05680 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 2d000 commId 0xc5194a2a2d53c3b9 - Init START\n";
    let (unanswered, answered) =
        (format!("{init}{}", retries(4)), format!("{init}{}{}", retries(4), "n1:4:9 [0] NCCL INFO Channel 00/24 : 0 1\n".repeat(80)));
    all_are(&[
        (
            "fail said-no-gpu line 5 [] Fatal error: Cannot run short-ranged interactions on a GPU because no GPU is detected.",
            "Program:     gmx mdrun, version 2023.1\nSource file: src/taskassignment/findallgputasks.cpp (line 85)\nMPI rank:    0 (out of 8)\n\n\
             Fatal error:\nCannot run short-ranged interactions on a GPU because no GPU is\ndetected.\n",
        ),
        (
            "fail fatal-level line 1 [] FileExistsError: [Errno 17] File exists: '/scratch/files/S043'",
            "FileExistsError: [Errno 17] File exists:\n'/scratch/files/S043'\n\nsrun: error: node-1: task 3: Exited with exit code 1\n\
             slurmstepd: error: *** STEP 494583.0 ON node-1 CANCELLED AT 2026-04-20T09:09:37 ***\nsrun: error: node-1: tasks 0-2: Terminated\n",
        ),
        ("fail rendezvous-failed line 3 [] TCP connections to another rank are not answered: 4 tries", &unanswered),
        ("warn init-stuck line 2 [0]", &answered),
    ]);
}
