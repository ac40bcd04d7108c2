//! What `check` reads a second time for: the last step line as it was printed, what NCCL was about, when it happened, whose lines are there.

use crate::check_run::{holds, lacks};
use crate::support::report;
use nccl_top::archive::Verdict;
use nccl_top::base::time::Zone;
use nccl_top::output::check::json;

#[test]
fn the_last_step_stands_as_it_was_printed() {
    let log = " iteration       10/     100 | elapsed time per iteration (ms): 350.1 | lm loss: 1.1E+01 | sop loss: 0.7 | number of nan iterations:   0 |\n \
               iteration       20/     100 | elapsed time per iteration (ms): 340.6 | lm loss: 1.0E+01 | sop loss: 0.8 | number of nan iterations:   2 |\n\
               saving\n";
    holds(log, &["step 20 of 100", "job.log:2 iteration 20/ 100 | elapsed", "sop loss: 0.8 | number of nan iterations: 2"]);
    // A dictionary says more than the bar beside it, and bars are drawn over themselves.
    let log = "  5%|##        | 5/100 [00:05<01:40,  1.05s/it]\r 10%|\u{2588}         | 10/100 [00:10<01:30,  1.00s/it]\n\
               {'loss': 1.25, 'grad_norm': 0.5, 'learning_rate': 1e-05, 'epoch': 0.1, 'kl': 0.031}\n 11%|\u{2588}         | 11/100 [00:11<01:29,  1.00s/it]\n";
    holds(log, &["its line", "'kl': 0.031}"]);
    let report = report(log);
    let document = json(&report, Zone::UTC);
    assert_eq!(document["facts"]["last_step"]["line"], 2, "{document}");
    lacks("starting\nnothing to see, 3 of 4\n", &["its line"]);
}

#[test]
fn what_nccl_was_about_by_the_files_it_names_on_its_way_out() {
    let head = "node-1:211:380 [0]";
    let init = format!(
        "{head} transport/p2p.cc:238 NCCL WARN failed to open CUDA IPC handle : 217 peer access is not supported between these two devices\n\
         node-2:9:9 [0] NCCL INFO enqueue.cc:300 -> 1\n\
         {head} NCCL INFO transport.cc:68 -> 1\n{head} NCCL INFO init.cc:766 -> 1\n{head} NCCL INFO group.cc:73 -> 1 [Async thread]\n"
    );
    holds(&init, &["while NCCL set up a communicator (transport/p2p.cc, transport.cc, init.cc, group.cc)"]);
    let connects = init.replace("init.cc:766", "group.cc:137");
    holds(&connects, &["while NCCL connected ranks (transport/p2p.cc"]);
    let proxy = format!(
        "{head} misc/socket.cc:49 NCCL WARN socketProgress: Connection closed by remote peer node-3<4321>\n{head} NCCL INFO proxy.cc:698 -> 6\n"
    );
    lacks(&proxy, &["while NCCL"]);
    // Behind a step it may be the way out of the end of its communicators.
    lacks(&format!("step 100 loss 2.31\n{init}"), &["while NCCL"]);
    lacks(&init.replace("node-1:211:380 [0] NCCL INFO", "bignode-1:211:380 [0] NCCL INFO"), &["transport.cc, init.cc"]);
}

#[test]
fn a_failure_without_a_time_has_that_of_the_lines_above_it() {
    let log = "2026-01-11 05:43:30,310 INFO loading the shards of the data\nTraceback (most recent call last):\n  File \"/w/run.py\", line 4, in main\n\
               \x20   rows = read(path)\nValueError: row 7 is empty\n";
    holds(log, &["after 2026-01-11T05:43:30.310+00:00", "by line 1", "line 4, in main: `rows = read(path)`"]);
    lacks(&log.replace("2026-01-11 05:43:30,310 ", ""), &["by line 1"]);
    // What is later than the file is no time of its writing, and what is far above says little.
    lacks(&log.replace("2026-01-11", "2099-01-11"), &["by line 1"]);
    lacks(&log.replacen("Traceback", &("reading\n".repeat(30) + "Traceback"), 1), &["by line 1"]);
    // A password may stand in the source.
    holds(&log.replace("read(path)", "connect(\"admin\", 'Tr0ub4dor&3', `x`)"), &["connect(\"...\", '...', 'x')"]);
}

#[test]
fn whose_lines_are_there_and_whose_are_not() {
    let init = |rank: u32| {
        format!(
            "node-1:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0x55 rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank}b000 commId 0xab12 - Init COMPLETE\n",
            pid = 200 + rank
        )
    };
    let two = init(0) + &init(1);
    holds(&two, &["ranks 0 and 1 of 4, in the lines that are known", "rank 0: pid 200, GPU 0; rank 1: pid 201, GPU 1"]);
    // All of them say nothing new.
    lacks(&(two + &init(2) + &init(3)), &["in the lines that are known"]);
}

#[test]
fn ranks_that_wait_in_the_barrier_on_the_store_tell_who_is_missing() {
    let waits = |rank: u32, world: u32| {
        format!(
            "INFO:root:Waiting in store based barrier to initialize process group for rank: {rank}, key: store_based_barrier_key:1 (world_size={world}, worker_count=3, timeout=0:30:00)\n"
        )
    };
    let three: String = [0, 3, 1].map(|rank| waits(rank, 4)).concat();
    let found = report(&three);
    assert_eq!((found.verdict, found.findings[0].rule, found.findings[0].ranks.as_slice()), (Verdict::Warn, "init-stuck", &[2][..]));
    holds(&three, &["rank 2 has not come to the start: 3 of 4 wait", "the limit is 0:30:00", "look at what rank 2 printed last"]);
    // Others have come that do not say so here.
    let of_eight = waits(0, 8).replace("worker_count=3", "worker_count=5");
    holds(&of_eight, &["3 ranks have not come to the start: 5 of 8 wait"]);
    for went_on in
        ["Rank 2: Completed store-based barrier\n", "step 10 loss 2.31\n", &waits(2, 4).replace("worker_count=3", "worker_count=4")]
    {
        lacks(&format!("{three}{went_on}"), &["not come to the start"]);
    }
    // Another group is made once the first is whole.
    let later = waits(0, 2).replace("barrier_key:1", "barrier_key:5").replace("worker_count=3", "worker_count=1");
    lacks(&format!("{three}{later}"), &["not come to the start"]);
    let others: String = (0..12).map(|n| format!("shard {n} was read from the store of data\n")).collect();
    lacks(&format!("{three}{others}"), &["not come to the start"]);
}

#[test]
fn two_ranks_on_one_gpu_are_told_by_their_bus_ids() {
    let start = |rank: u32, bus: &str, end: &str| {
        format!(
            "pod-0:{pid}:{pid} [0] NCCL INFO ncclCommInitRank comm 0x55 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId {bus} commId 0xab12 - Init {end}\n",
            pid = 40 + rank
        )
    };
    let failed = "RuntimeError: [TensorRT-LLM][ERROR] Assertion failed: Failed, NCCL error ../runtime/ncclCommunicator.cpp:90 'invalid usage (run with NCCL_DEBUG=WARN for details)'\n";
    let same = start(0, "100000", "START") + &start(1, "100000", "START") + failed;
    let found = report(&same);
    let cause = &found.findings[found.root_cause.unwrap()];
    assert_eq!((cause.rule, cause.ranks.as_slice()), ("launch-failed", &[0, 1][..]));
    holds(&same, &["ranks 0 and 1 use the same GPU (0001:00:00) of pod-0"]);
    lacks(&(start(0, "100000", "START") + &start(1, "200000", "START") + failed), &["use the same GPU"]);
    // Nothing has failed, hosts of one name have processes of one number, and NCCL may have been told to allow it.
    lacks(&(start(0, "100000", "START") + &start(1, "100000", "START")), &["use the same GPU"]);
    lacks(&same.replace("pod-0:41:41", "pod-0:40:40"), &["use the same GPU"]);
    lacks(&("pod-0:40:40 [0] NCCL INFO NCCL_MULTI_RANK_GPU_ENABLE set by environment to 1.\n".to_owned() + &same), &["use the same GPU"]);
    let allowed: String =
        [(0, "START"), (1, "START"), (0, "COMPLETE"), (1, "COMPLETE")].map(|(rank, end)| start(rank, "100000", end)).concat();
    lacks(&allowed, &["use the same GPU"]);
}

#[test]
fn an_error_of_the_system_says_what_it_means_in_a_warn_that_nobody_knows() {
    let head = "node-1:211:380 [0]";
    let log = format!(
        "{head} misc/fresh.cc:77 NCCL WARN freshConnect: peer 10.0.0.7<4444> : No route to host\n{head} NCCL INFO bootstrap.cc:285 -> 2\n{head} NCCL INFO init.cc:1534 -> 2\n"
    );
    holds(&log, &["this host has no way to that address", "`ip route get ADDRESS`"]);
    // What NCCL may have got over by itself needs no advice.
    let alone = log.lines().next().unwrap().to_owned() + "\n";
    holds(&alone, &["this host has no way to that address"]);
    lacks(&alone, &["ip route get"]);
}

#[test]
fn a_limit_below_a_second_is_why_a_collective_timed_out() {
    let log = "[rank3]:[E ProcessGroupNCCL.cpp:616] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, \
               NumelIn=1, NumelOut=1, Timeout(ms)=1) ran for 90 milliseconds before timing out.\n";
    holds(log, &["timed out after 90 ms: the limit is set to 1 ms; rank 3 reports it", "one in other units"]);
    lacks(&format!("step 100 loss 2.31\n{log}"), &["the limit is set to"]);
    lacks(&log.replace("(ms)=1)", "(ms)=600000)").replace("90 milli", "600090 milli"), &["the limit is set to"]);
}

#[test]
fn of_a_chain_that_the_end_of_the_log_cuts_the_first_exception_is_told() {
    let log = "1:   File \"/env/lib/python3.12/threading.py\", line 359, in wait\n1:     gotit = waiter.acquire(True, timeout)\n\
               1: RuntimeError: DataLoader worker (pid 1901937) is killed by signal: Aborted. \n1: \n\
               1: The above exception was the direct cause of the following exception:\n1: \n1: Traceback (most recent call last):\n\
               1:   File \"/w/trainer.py\", line 498, in validate\n1:     for bidx, batch in enumerate(batches):\n";
    holds(log, &["rank 1: RuntimeError: DataLoader worker (pid 1901937) is killed by signal: Aborted", "job.log:3"]);
    // One that was handled may have nothing to do with it.
    let handled = log.replace(
        "The above exception was the direct cause of the following exception",
        "During handling of the above exception, another exception occurred",
    );
    holds(&handled, &["the log ends before it is named; it came while another was handled: RuntimeError: DataLoader worker"]);
    // A disk that is full stays so, whatever handles it.
    let full = handled.replace(
        "RuntimeError: DataLoader worker (pid 1901937) is killed by signal: Aborted. ",
        "OSError: [Errno 28] No space left on device",
    );
    holds(&full, &["FAIL (storage) rank 1: OSError: [Errno 28] No space left on device", "job.log:3"]);
}

#[test]
fn lines_of_nccl_without_host_and_process_are_read() {
    let log = " [0] NCCL INFO Bootstrap : Using [0]br0:10.1.68.16<0>\n [0] NCCL INFO NCCL version 2.5.7+cuda10.0\n [0] NCCL INFO NCCL_IB_GID_INDEX set by environment to 3.\n \
               [0] NCCL INFO Ring 00 : 15[41000] -> 0[1b000] [receive] via NET/IB/0\n";
    holds(log, &["NCCL version: 2.5.7+cuda10.0", "Bootstrap interface: br0", "NCCL_IB_GID_INDEX=3", "1 x NET/IB/0"]);
}

#[test]
fn counters_that_count_nothing_tell_of_no_fault() {
    for line in [
        "| Single Bit ECC Errors              | 0              |",
        "GPU 3 uncorrectable errors: 0",
        "| Page Retirement uncorrectable | Pass |",
    ] {
        assert!(report(&format!("INFO: job 232 begins\n{line}\n")).findings.is_empty(), "{line}");
    }
    for line in ["job killed by signal 9, restarts left: 0", "device not found, visible devices: none"] {
        assert_eq!(report(&format!("INFO: job 232 begins\n{line}\n")).verdict, Verdict::Fail, "{line}");
    }
}

#[test]
fn what_a_healthy_log_said_last() {
    holds("step 10 loss 2.31\nTraining completed, bye\n  \n", &["job.log:2 Training completed, bye"]);
    // The step is told elsewhere; a failure has its own line; and of a few lines of an unknown file nothing is told.
    lacks("Training begins here\nstep 10 loss 2.31\n", &["said last"]);
    lacks("step 10 loss 2.31\nRuntimeError: no such layer\nbye bye, see you soon\n", &["said last"]);
    lacks("nothing that anybody knows\n", &["said last"]);
    holds(
        "a line of a benchmark\nand more\nand more\nand more\nmean of all turns: 12.5 GB/s\n",
        &["job.log:5 mean of all turns: 12.5 GB/s"],
    );
}

#[test]
fn what_a_program_that_nobody_knows_says_at_its_end() {
    let quiet = "sampled 5 clients (out of 10)\nreceived 5 results and 0 failures\nsampled 5 clients (out of 10)\n";
    // That it took so long tells that it came to its end; numbers below a line are told to be there.
    holds(&format!("{quiet}Run finished 3 round(s) in 143.02s\n(3, 0.77)\n"), &["OK", "job.log:4 Run finished 3 round(s) in 143.02s"]);
    holds(&format!("{quiet}the scores of all rounds are\n(3, 0.77)\n"), &["UNKNOWN", "near end", "job.log:4 the scores of all rounds are"]);
    holds(&format!("{quiet}the scores of all rounds are known\nDone!\n"), &["OK", "job.log:5 Done!"]);
    holds(&format!("{quiet}the scores are known\nnew weights successfully inserted\n"), &["OK"]);
    for last in [
        "this is not done before noon",
        "waiting for the other workers to complete",
        "Waiting for all ranks to be finished",
        "4 of 12 shards are done",
        "starting stage 2, stage 1 is completed",
        "it isn't done yet",
        "its results are saved to the folder.",
        "worker 3 ran out of 16 GB of memory",
    ] {
        let log = format!("{quiet}the scores are known\n{last}\n");
        assert_ne!(report(&log).verdict, Verdict::Ok, "{last}");
    }
    // Who waits behind it has not come to the end; numbers below one another are no end.
    holds(&format!("{quiet}Done in 3.2s\nwaiting for worker 5 to answer\nwaiting for worker 5 to answer\n"), &["UNKNOWN"]);
    holds(&format!("{quiet}8 10.5\n16 20.5\n32 30.5\n64 40.5\n128 50.5\n"), &["UNKNOWN"]);
    // With trouble in it nobody knows how it ended.
    holds(&format!("{quiet}the cache is corrupt\nRun finished 3 round(s) in 143.02s\n"), &["UNKNOWN"]);
}

#[test]
fn a_bar_at_its_start_says_that_no_step_was_made() {
    let failed = "Traceback (most recent call last):\n  File \"/w/run.py\", line 4, in main\n    train()\nValueError: row 7 is empty\n";
    holds(&format!("  0%|          | 0/441 [00:00<?, ?it/s]\n{failed}"), &["before any step (a bar stands at 0 of 441)"]);
    // Of a bar of something else nothing is known.
    lacks(&format!("Map:   0%|          | 0/441 [00:00<?, ?it/s]\n{failed}"), &["0 of 441"]);
}

#[test]
fn what_a_process_waited_for_in_vain_says_more_than_an_exception_that_is_cut() {
    let waits = "[rank124]:[W1015 18:21:20.649331230 socket.cpp:460] [c10d] waitForInput: poll for socket SocketImpl(fd=93, addr=[n15]:34008, \
                 remote=[n0]:29400) returned 0, likely a timeout\n[rank124]:[W1015 18:21:20.155929192 socket.cpp:485] [c10d] waitForInput: socket \
                 SocketImpl(fd=93, addr=[n15]:34008, remote=[n0]:29400) timed out after 60000ms\n";
    let cut = "[rank124]: Traceback (most recent call last):\n[rank124]:   File \"/w/finetune.py\", line 33, in <module>\n[rank124]:     main()\n";
    holds(&format!("{waits}{cut}"), &["FAIL the store at n0:29400 did not answer within 60000 ms", "said by rank 124"]);
    // An exception with a name says itself what failed; another rank's wait says nothing of this one's.
    holds(&format!("{waits}{cut}[rank124]: ValueError: odd shard\n"), &["FAIL (code) rank 124: ValueError: odd shard"]);
    holds(&format!("{waits}{}", cut.replace("rank124", "rank3")), &["FAIL rank 3: an exception in <module> (finetune.py)"]);
    // What was over long before is not why.
    let later: String = (1..60).map(|n| format!("step {n} loss 2.{n:02}\n")).collect();
    holds(&format!("{waits}{later}{cut}"), &["FAIL rank 124: an exception in <module> (finetune.py)"]);
    // One that is asked again is no failure.
    assert_eq!(report(&format!("{waits}step 10 loss 2.31\nstep 20 loss 2.30\n")).verdict, Verdict::Warn);
}

#[test]
fn a_file_named_after_a_rank_in_which_others_speak_is_not_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("job-rank-7.log");
    let waits = |rank: u32, elements: u64| {
        format!(
            "(train, pid=185) [E ProcessGroupNCCL.cpp:475] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=138, \
             OpType=ALLREDUCE, NumelIn={elements}, NumelOut={elements}, Timeout(ms)=1800000) ran for 1800221 milliseconds before timing out.\n"
        )
    };
    std::fs::write(&path, [1, 6, 5].map(|rank| waits(rank, 1124)).concat() + &waits(7, 1094)).unwrap();
    let said = nccl_top::archive::check(&[path.display().to_string()], Zone::UTC, &mut |_, _| {});
    let cause = &said.findings[said.root_cause.unwrap()];
    assert_eq!((cause.rule, &cause.ranks[..]), ("collective-mismatch", &[7][..]), "{}", cause.summary);
}

#[test]
fn adapters_that_could_not_be_opened_are_why_sockets_are_used() {
    let head = |rank: u32| format!("node-{rank}:21{rank}:380 [0]");
    let of = |rank: u32| {
        let (head, other) = (head(rank), 1 - rank);
        format!(
            "{head} misc/ibvwrap.cc:212 NCCL WARN Call to ibv_open_device failed\n{head} transport/net_ib.cc:222 NCCL WARN NET/IB : Unable to open \
             device mlx5_0\n{head} NCCL INFO NET/IB : No device found.\n{head} NCCL INFO Using network Socket\n{head} NCCL INFO Channel 00/0 : \
             {rank}[0] -> {other}[0] [send] via NET/Socket/0\n"
        )
    };
    let log = of(0) + &of(1);
    holds(&log, &["WARN (network) NCCL uses TCP sockets although mlx5_0 is there, which it could not open", "ls -l /dev/infiniband"]);
    lacks(&log, &["WARN Call to ibv_open_device failed (", "warning nccl-warn"]);
}

#[test]
fn versions_and_a_gpu_without_an_address() {
    // By itself it is a state of the host that may not matter.
    holds("[    4.1] NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)\n", &["WARN (host) the firmware gave GPU 0000:01:00.0 no address"]);
    let kernel = "[    4.1] NVRM: BAR1 is 0M @ 0x0 (PCI:0000:01:00.0)\n[    4.2] NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.67  Tue Mar 12 \
                  23:54:15 UTC 2024\n[    4.9] NVRM: GPU 0000:01:00.0: RmInitAdapter failed! (0x24:0x72:1556)\n";
    holds(kernel, &["FAIL (host) the firmware gave GPU 0000:01:00.0 no address on PCI", "Above 4G Decoding", "driver 550.67"]);
    // By itself, and with another reason.
    holds(&kernel.replace("BAR1 is 0M @ 0x0", "BAR1 is 256M @ 0xe000000"), &["FAIL (host) the driver could not start GPU 0000:01:00.0"]);
    holds("455 NCCL version 2.4.8+cuda10.0\n", &["NCCL 2.4.8, CUDA 10.0"]);
    holds("RCCL version : 2.27.7-HEAD:bf3ebf5\nROCm version : 7.1.1.0-38\n", &["RCCL 2.27.7", "ROCm 7.1.1"]);
}

#[test]
fn what_a_handler_of_the_log_caught_is_no_failure() {
    let log = "step 10 loss 2.31\n--- Logging error ---\nTraceback (most recent call last):\n  File \"/usr/lib/python3.13/logging/__init__.py\", line 1153, in \
               emit\n    stream.write(msg + self.terminator)\n    ~~~~~~~~~~~~^^^^\nUnicodeEncodeError: 'charmap' codec can't encode character\nCall stack:\n  \
               File \"/w/train.py\", line 326, in <module>\n    main()\nMessage: 'done'\nArguments: ()\nstep 20 loss 2.30\n";
    assert_eq!(report(log).verdict, Verdict::Ok, "{:?}", report(log).findings.first().map(|f| &f.summary));
    // A line alone that looks like its head says nothing of what fails later.
    let alone = "--- Logging error --- (suppressed)\nstep 2 loss 2.31\nTraceback (most recent call last):\n  File \"/w/t.py\", line 6, in <module>\nValueError: odd\n";
    holds(alone, &["FAIL (code) ValueError: odd"]);
    // Nor does it hide what is told around it.
    let around = format!("Traceback (most recent call last):\n  File \"/w/t.py\", line 6, in <module>\n{log}ValueError: odd\n");
    assert_eq!(report(&around).verdict, Verdict::Fail);
    // The same again, and what comes behind it is one again.
    assert_eq!(report(&log.repeat(3)).verdict, Verdict::Ok);
    holds(
        &format!("{log}Traceback (most recent call last):\n  File \"/w/t.py\", line 6, in <module>\nValueError: odd\n"),
        &["FAIL (code) ValueError: odd"],
    );
}

#[test]
fn a_limit_of_watches_is_no_full_disk_and_a_broken_store_is_told_as_one() {
    let ucx =
        "[1695631433.421841] [n7:31108:f]        vfs_fuse.c:281  UCX  ERROR inotify_add_watch(/tmp) failed: No space left on device\n";
    assert_eq!(report(&format!("{ucx}step 10 loss 2.31\n")).verdict, Verdict::Ok);
    let store = "Traceback (most recent call last):\n  File \"/w/c10d_rendezvous_backend.py\", line 113, in _call_store\n    return getattr(self._store, \
                 store_op)(*args, **kwargs)\nRuntimeError: Broken pipe\n";
    holds(store, &["FAIL the connection to the store broke (Broken pipe)"]);
}

#[test]
fn a_loss_scale_below_one_after_many_steps_is_told() {
    let log = |step: u32, scale: &str| {
        format!(
            "2020-03-23 11:39:44 | INFO | train_inner | epoch 003:      5 / 356 loss=9.44, ppl=347.28, wps=30690.8, ups=0.07, wpb=427295, bsz=14390.4, \
             num_updates={step}, lr=0.000175, gnorm=156.036, train_wall=1281, wall=9877\n2020-03-23 11:41:18 | INFO | fairseq.trainer | NOTE: overflow \
             detected, setting loss scale to: {scale}\n"
        )
    };
    holds(&log(700, "0.000244140625"), &["WARN the fp16 loss scale fell to 2.4e-4 at step 700"]);
    // It grew again, or it searches its scale at the start of what the log shows.
    for healthy in [log(700, "64.0"), log(20, "0.5"), log(700, "0.5") + &log(900, "64.0")] {
        assert_eq!(report(&healthy).verdict, Verdict::Ok, "{healthy}");
    }
}

#[test]
fn a_banner_that_a_buffer_held_back_begins_no_run() {
    let banner = |next: &str| {
        format!(
            "2024-05-02 10:00:01,120 - mmdet - INFO - Epoch [2][50/400] lr: 1.000e-04, time: 0.410, data_time: 0.020, loss: 1.2500\n\
             2024-05-02 10:00:21,620 - mmdet - INFO - Epoch [2][100/400] lr: 1.000e-04, time: 0.410, data_time: 0.020, loss: 1.2100\n\
             Traceback (most recent call last):\n  File \"tools/train.py\", line 31, in main\n\x20   boxes = row[key]\nKeyError: 'boxes'\n{stars}\n\
             Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded\n{stars}\n{next}\
             subprocess.CalledProcessError: Command '['/opt/bin/python', '-u', 'tools/train.py', '--local_rank=1']' returned non-zero exit status 1.\n",
            stars = "*".repeat(41)
        )
    };
    holds(&banner("Killing subprocess 410\nKilling subprocess 411\n"), &["FAIL (code) KeyError: 'boxes'", "after step 100 of 400"]);
    holds(&banner("Main process received SIGTERM, exiting\n"), &["step 100 of 400"]);
    // A run that fails at once has not made the steps of the one before it.
    let lines = format!("{}Killing subprocess 410\n", "reading the data\n".repeat(6));
    holds(&banner(&lines), &["before any step"]);
}

#[test]
fn a_pod_that_has_got_its_node_is_told_beside_one_that_waits() {
    let waits =
        "  Warning  FailedScheduling  2m (x2 over 7m)  default-scheduler  0/2 nodes are available: 2 Insufficient nvidia.com/gpu.\n";
    holds(waits, &["WARN", "k8s-unschedulable"]);
    let found = format!("{waits}  Normal   Scheduled   19s   default-scheduler   Successfully assigned llm/worker-1 to gpu-node-4\n");
    // These are the events of one pod.
    holds(&found, &["OK", "it was so for a while: pod llm/worker-1 has got its node, gpu-node-4"]);
    let of_all = found.replace("  Warning ", "2m  Warning ").replace("  Normal ", "19s  Normal ");
    holds(&of_all, &["WARN", "a pod was given a node, too", "pod llm/worker-1 has got its node, gpu-node-4"]);
}

#[test]
fn the_calls_of_a_native_stack_say_what_a_process_was_about() {
    let log = "!!!!!!! Segfault encountered !!!!!!!\n  File \"./nptl/pthread_kill.c\", line 44, in __pthread_kill_internal\n\
               \x20 File \"<unknown>\", line 0, in cuMemMap\n  File \"misc/cudawrap.cc\", line 41, in ncclCuMemProbe()\n\
               \x20 File \"src/init.cc\", line 1810, in ncclCommInitRank\n  File \"<unknown>\", line 0, in _PyEval_EvalFrameDefault\n";
    let calls = "ncclCommInitRank > ncclCuMemProbe > cuMemMap";
    holds(log, &["a process crashed in cuMemMap", "while NCCL set up a communicator", calls]);
    let ucx = "[node-a:4120:0:4120]      wireup.c:310  Assertion `lane < lanes' failed: lane=3\n\n==== backtrace (tid: 4120) ====\n \
               0 0x0000000000137465 ucp_wireup_lanes()  /build/src/ucp/wireup/wireup.c:310\n \
               1 0x000000000013caa6 ucp_wireup_request()  /build/src/ucp/wireup/wireup.c:689\n";
    holds(
        ucx,
        &["UCX ended process 4120 of node-a: lane < lanes", "while UCX connected to a peer", "ucp_wireup_request > ucp_wireup_lanes"],
    );
    // Of an exception of Python the stack of C++ below it says nothing.
    lacks("RuntimeError: x is not y\n#1  0x00007ff2c2c329b5 in ncclCommInitRank (c=0x5) at init.cc:30\n", &["while NCCL"]);
}

#[test]
fn what_sizes_tell() {
    // A gather of one number on each rank has as many of them as there are ranks.
    let waits = |rank: u32| {
        format!(
            "[rank{rank}]:[E1104 03:04:05.120340560 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: \
             WorkNCCL(SeqNum=91, OpType=ALLGATHER, NumelIn=1, NumelOut=4, Timeout(ms)=300000) ran for 300021 milliseconds before timing out.\n"
        )
    };
    holds(&[waits(0), waits(1)].concat(), &["2 of the 4 ranks that its sizes tell of wait in it"]);
    lacks(&[waits(0), waits(1)].concat().replace("NumelOut=4", "NumelOut=2"), &["ranks that its sizes"]);
    let oom = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.50 GiB. GPU 0 has a total capacity of 40.00 GiB of which 40.00 GiB \
               is free. Process 41 has 30.00 GiB memory in use. Process 42 has 20.00 GiB memory in use. Of the allocated memory 8.00 GiB is \
               allocated by PyTorch, and 64.00 MiB is reserved by PyTorch but unallocated.\n";
    holds(oom, &["several processes hold 50.00 GiB on it, more than it has (40.00 GiB)"]);
    let size = "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"/w/train.py\", line 40, in main\n\
                [rank2]:     dist.all_gather_object(sizes, size, group=g)\n[rank2]:   File \"/opt/site-packages/torch/distributed/distributed_c10d.py\", \
                line 3042, in all_gather_object\n[rank2]:     input_tensor.resize_(max_object_size)\n[rank2]: torch.OutOfMemoryError: CUDA out of \
                memory. Tried to allocate 184.00 GiB. GPU 2 has a total capacity of 79.00 GiB of which 37.00 GiB is free. Including non-PyTorch \
                memory, this process has 42.00 GiB memory in use.\n";
    holds(size, &["a size that another rank sent in an exchange of objects", "Not memory"]);
}

#[test]
fn what_a_handler_failed_by_names_what_it_handled() {
    let chain = |first: &str, then: &str| {
        format!(
            "Traceback (most recent call last):\n  File \"/w/io.py\", line 4, in load\n    state = read(path)\n{first}\n\n\
             During handling of the above exception, another exception occurred:\n\n\
             Traceback (most recent call last):\n  File \"/w/io.py\", line 9, in load\n    log.warn_once(path)\n{then}\n"
        )
    };
    let mistake = "AttributeError: 'Logger' object has no attribute 'warn_once'";
    holds(
        &chain("RuntimeError: the archive is cut off", mistake),
        &["in load (io.py:9), while it handled RuntimeError: the archive is cut off"],
    );
    // What is tried as a matter of course is no failure, and what is no mistake of the handler says why by itself.
    lacks(&chain("FileNotFoundError: [Errno 2] No such file or directory: 'cache.json'", mistake), &["while it handled"]);
    lacks(&chain("KeyError: 'shard-7'", mistake), &["while it handled"]);
    lacks(&chain("RuntimeError: the archive is cut off", "ValueError: no archive is left"), &["while it handled"]);
}

#[test]
fn a_whole_job_that_was_cancelled_did_not_fail_by_that() {
    let cancelled = "slurmstepd: error: *** JOB 494583 ON node-1 CANCELLED AT 2026-04-20T09:09:37 ***\n";
    assert_eq!(report(&format!("step 10 loss 2.31\n{cancelled}")).verdict, Verdict::Warn);
    holds(
        &format!("{cancelled}{}", cancelled.replace("494583 ON node-1", "494584 ON node-2")),
        &["job 494583 on node-1", "job 494584 on node-2"],
    );
    // What its own script cancels because it failed has failed.
    for before in ["/w/job.sh: line 12:  4120 Aborted                 (core dumped) python train.py", "ValueError: no archive is left"] {
        let log = format!("Traceback (most recent call last):\n  File \"/w/t.py\", line 4, in f\n    g()\n{before}\n{cancelled}");
        assert_eq!(report(&log).verdict, Verdict::Fail, "{before}");
    }
}

#[test]
fn an_evaluation_before_any_training_is_none() {
    let bar = |n: u32| format!("{}%|#####     | {n}/500 [00:0{}<00:30, 10.00it/s]\n", n / 5, n / 100);
    let evaluation = format!("***** Running Evaluation *****\n  Num examples = 4000\n{}{}", bar(250), bar(500));
    lacks(&evaluation, &["training step"]);
    // One of the same length that begins anew is the training.
    holds(&format!("{evaluation}***** Running training *****\n{}{}", bar(100), bar(275)), &["step 275 of 500"]);
}

#[test]
fn the_number_of_a_test_is_no_rank() {
    let log = "test 12\n    Start 12: ring_np2\n\n12: Test command: /usr/bin/srun \"-n\" \"2\" \"/w/ring\"\n12: Test timeout computed to be: 1500\n\
               12: [ RUN      ] Ring.Reduces\n12: [  FAILED  ] Ring.Reduces (3 ms)\n";
    holds(log, &["the test Ring.Reduces failed"]);
    lacks(log, &["rank 12", "Something did not come"]);
}

/// With Flight Recorder on, each watchdog prints where its rank called what timed out.
#[test]
fn ranks_that_called_elsewhere_than_the_others() {
    let head = |rank: u32, us: u32| {
        format!("[rank{rank}]:[E412 09:15:07.{us:06}000 ProcessGroupNCCL.cpp:733] Stack trace of the failed collective: \n")
    };
    let torch = "#0 all_reduce from /opt/venv/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py:2810\n\
                 #1 wrapper from /opt/venv/lib/python3.12/site-packages/torch/distributed/c10d_logger.py:81\n";
    let end = "#4 main from /w/fit.py:301\n#5 <module> from /w/fit.py:340\n\n";
    let trains = format!("{torch}#2 sync from /w/dp.py:44\n#3 step from /w/fit.py:120\n{end}");
    let saves = format!("{torch}#2 agree from /w/save.py:9\n#3 checkpoint from /w/fit.py:188\n{}", end.replace(":301", ":307"));
    let died = "[rank0]:[F412 09:16:07.000000000 ProcessGroupNCCL.cpp:1653] [PG ID 0 PG GUID 0(default_pg) Rank 0] Terminating the process after attempting to dump debug \
                info, due to collective timeout or exception.\n";
    let log = |second: &str| format!("{}{trains}{}{second}{}{trains}{died}", head(0, 100), head(1, 200), head(2, 300));
    holds(
        &log(&saves),
        &[
            "FAIL (code) rank 1 waits in all_reduce of checkpoint (fit.py:188) and ranks 0 and 2 in all_reduce of step (fit.py:120): they did not \
             make the same calls",
            "critical, collective-mismatch, likely",
            "they part in main (fit.py:301 and fit.py:307)",
            ":1 Stack trace of the failed collective:",
        ],
    );
    lacks(&log(&trains), &["did not make the same calls"]);
    // A stack whose end, or whose middle, is another program's lines tells nothing.
    for torn in [saves.replace("#3 ", "the disk is slow\n#3 "), saves.replace("#3 ", "#2 step from /w/fit.py:120\n#3 ")] {
        lacks(&log(&torn), &["did not make the same calls"]);
    }
    // Who waits for one call has made it, wherever in its program.
    let waits = |rank: u32| {
        format!(
            "[rank{rank}]:[E412 09:15:07.000000000 ProcessGroupNCCL.cpp:632] [Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=8, \
             OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600005 milliseconds before timing out.\n"
        )
    };
    lacks(&(waits(0) + &waits(1) + &waits(2) + &log(&saves)), &["did not make the same calls"]);
    // Another group may wait elsewhere.
    let status = |rank: u32, group: u32| {
        format!(
            "[rank{rank}]:[E412 09:15:06.000000000 ProcessGroupNCCL.cpp:2303] [PG ID {group} PG GUID {group}(mesh_{group}) Rank {rank}]  failure detected by watchdog \
             at work sequence id: 236 PG status: last enqueued work: 247, last completed work: 235\n"
        )
    };
    lacks(&(status(0, 1) + &status(1, 2) + &log(&saves)), &["did not make the same calls"]);
}

/// A logger that leaves out what is less than a second does not write before the line above it.
#[test]
fn of_one_second_the_line_above_is_the_first() {
    let log = "[rank0]:[E502 11:20:33.412000000 compiler_depend.ts:429] SelfAttentionOperation setup failed!\n\
               2026-05-02 11:20:33 ERROR Traceback (most recent call last):\n2026-05-02 11:20:33 ERROR   File \"/w/serve.py\", line 9, in run\n\
               2026-05-02 11:20:33 ERROR RuntimeError: the sampler has nothing to copy\n";
    holds(log, &["FAIL rank 0: Ascend: the operator SelfAttention of ATB could not be set up"]);
}

/// Who crashed had found its libraries.
#[test]
fn a_crash_is_not_for_want_of_a_library_of_another_program() {
    let failed = |code: i32| {
        format!(
            "E0502 11:20:35.000000 91 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: {code}) local_rank: 0 (pid: 410) of binary: /opt/venv/bin/python\n"
        )
    };
    let lookup = "/usr/bin/rsync: symbol lookup error: /lib64/libacl.so.1: undefined symbol: attr_copy, version ATTR_1.3\n";
    holds(&format!("{lookup}{}", failed(-11)), &["FAIL local rank 0", "killed by signal 11 (SIGSEGV)"]);
    holds(&format!("{lookup}{}", failed(127)), &["symbol lookup error", "said-library-missing"]);
}

/// Who destroys the communicator of all ranks is done with its work; the others wait for it in vain.
#[test]
fn a_rank_that_left_before_the_others() {
    let init = |rank: u32| {
        format!(
            "node-1:21{rank}:21{rank} [{rank}] NCCL INFO ncclCommInitRank comm 0x7f0{rank} rank {rank} nranks 2 cudaDev {rank} nvmlDev {rank} busId {rank}b000 commId 0x5 - Init COMPLETE\n"
        )
    };
    let gone = "node-1:211:333 [1] NCCL INFO comm 0x7f01 rank 1 nranks 2 cudaDev 1 busId 1b000 - Destroy COMPLETE\n";
    let timeout = "[rank0]:[E412 09:15:06.000000000 ProcessGroupNCCL.cpp:632] [PG ID 0 PG GUID 0(default_pg) Rank 0] Watchdog caught collective operation timeout: \
                   WorkNCCL(SeqNum=236, OpType=ALLREDUCE, NumelIn=16, NumelOut=16, Timeout(ms)=600000) ran for 600005 milliseconds before timing out.\n";
    let both = init(0) + &init(1);
    holds(
        &format!("{both}{gone}{timeout}"),
        &[
            "FAIL rank 1 took its communicator down and did not join AllReduce 236; 1 rank waited",
            "hang-rank-absent, likely",
            "- Destroy COMPLETE",
        ],
    );
    // A second one, which those that came have destroyed, too; behind the timeout all come down; and who comes back has not left.
    for log in [
        format!("{both}{gone}{}{timeout}", gone.replace("node-1:211:333 [1]", "node-1:210:333 [0]").replace("7f01 rank 1", "7f00 rank 0")),
        format!("{both}{timeout}{gone}"),
        format!("{both}{gone}{}{timeout}", init(1).replace("commId 0x5", "commId 0x6")),
    ] {
        lacks(&log, &["took its communicator down"]);
    }
}

#[test]
fn who_ends_a_job_on_purpose_has_said_why() {
    let abort = "--------------------------------------------------------------------------\n\
                 MPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 1.\n";
    let log = format!("solver v3\n   the mesh must be split over 8 processes or more!\n\n{abort}");
    holds(&log, &["rank 2 ended the whole job with MPI_Abort (code 1): the mesh must be split over 8 processes or more!", "job.log:2"]);
    // Frames, advice and what is far above are no reason.
    lacks(&format!("solver v3\n[ 0] /lib/libc.so.6(+0x45330)[0x7f4dd1a45330] invalid\n\n{abort}"), &["MPI_Abort: ", "also said"]);
    lacks(&log.replace("!\n\n", &("!\n".to_owned() + &"reading block 1\n".repeat(12))), &["MPI_Abort: "]);
}

#[test]
fn the_time_of_a_run_is_that_of_its_first_and_last_line_whoever_wrote_them() {
    let log = "2026-01-11 05:43:30,310 INFO opening the shards of the data\n2026-01-11 05:43:40,000 INFO step 1 loss 2.5\n\
               2026-01-11 05:43:50,000 INFO step 2 loss 2.4\n2026-01-11 05:44:10,500 INFO the queue is closed\n";
    holds(log, &["05:43:30 to 05:44:10"]);
    // What is later than the file is no time of its writing.
    lacks(&log.replace("2026-01-11 05:44:10", "2099-01-11 05:44:10"), &["05:44:10", "2099"]);
}

#[test]
fn an_evaluation_whose_loss_is_nan_is_told() {
    let log = "{'loss': 9.2043, 'grad_norm': nan, 'learning_rate': 1.5e-06, 'epoch': 4.0}\n{'eval_loss': nan, 'eval_runtime': 0.1, 'epoch': 4.0}\n";
    holds(log, &["WARN", "the loss of the evaluation is NaN, and so is the gradient norm of the last step"]);
    holds(&log.replace("'grad_norm': nan", "'grad_norm': 1.5"), &["the loss of the evaluation is NaN what warning"]);
    lacks(&log.replace("'eval_loss': nan", "'eval_loss': 1.25, 'eval_loss_std': nan"), &["evaluation is NaN"]);
}

#[test]
fn the_last_call_of_an_hdf5_stack_is_the_reason() {
    let log = "HDF5-DIAG: Error detected in HDF5 (1.14.3) MPI-process 2:\n  #000: H5D.c line 186 in H5Dopen2(): unable to open dataset\n    major: Dataset\n\
               \x20   minor: Can't open object\n  #001: H5C.c line 812 in H5C__load(): checksum does not match\n    major: Object cache\n    minor: Read failed\n";
    holds(log, &["H5Dopen2(): unable to open dataset; at its root H5C.c line 812 in H5C__load(): checksum does not match"]);
    // What stands apart is none of it.
    let apart = format!("{log}going on without it\n#7: ERROR: the GPU 3 is gone\n");
    lacks(&apart, &["at its root ERROR", "at its root the GPU"]);
}

#[test]
fn lines_of_marian_are_steps() {
    let line = |up: u32, cost: &str| {
        format!(
            "[2026-02-01 10:0{}:00] Ep. 2 : Up. {up} : Sen. 70,000 : Cost {cost} : Time 60.02s : 4428.61 words/s : gNorm 1.5 : L.r. 1.8750e-05\n",
            up / 500
        )
    };
    holds(
        &(line(500, "47.25") + &line(1000, "45.5")),
        &["step 1,000", "epoch 2", "loss 45.5000 (47.2500 at first)", "4.4k tokens/s", "(marian)"],
    );
}

#[test]
fn that_steps_end_the_log_is_said_only_where_they_do() {
    let log = "Train Epoch: 1 [500/6000 (8%)]\tLoss: 2.25\nTrain Epoch: 1 [1000/6000 (17%)]\tLoss: 2.15\n";
    holds(log, &["the log ends there"]);
    lacks(&format!("{log}Test set: Average loss: 0.5, Accuracy: 91/100\nbye for today, said the trainer\n"), &["the log ends there"]);
}

#[test]
fn an_error_without_a_time_came_after_the_line_above_it_at_the_earliest() {
    let log = "2026-01-11 05:43:30,310 INFO loading the shards of the data\n2026-01-11 05:44:30,310 INFO loading is done\n\
               Traceback (most recent call last):\n  File \"/w/run.py\", line 4, in main\nValueError: row 7 is empty\n";
    holds(log, &["at least 1 m 00 s after the run's first line"]);
}

/// Pasted into a document, where all of its lines are indented.
#[test]
fn a_log_that_is_indented_as_a_whole_is_read_as_if_it_were_not() {
    let log = "[[4120,1],2][btl_openib_component.c:3496:handle_wc] from node-a to: node-b error polling LP CQ with status RETRY EXCEEDED ERROR status number 12 for wr_id 1\n\
        ------\nThe InfiniBand retry count between two MPI processes has been\nexceeded.\n";
    let indented: String = log.lines().map(|line| format!("    {line}\n")).collect();
    for log in [log, &indented] {
        holds(log, &["FAIL (network) node-a got no answer from node-b over InfiniBand (RETRY EXCEEDED ERROR)"]);
    }
}

/// Where the compiler's runtime knows the line and the handler of UCX does not.
#[test]
fn the_table_of_intels_runtime_names_the_line() {
    holds(
        "[node-a:4120:0:4120] Caught signal 8 (Floating point exception: floating-point overflow)\n==== backtrace (tid: 4120) ====\n \
         0  /opt/ucx/lib/libucs.so.0(ucs_handle_error+0x19c) [0x2aaab169cabc]\n 1  ./flow.x() [0x402e2b]\n=====\n\
         forrtl: error (75): floating point exception\n\
         Image              PC                Routine            Line        Source\n\
         flow.x             0000000000403E4B  Unknown               Unknown  Unknown\n\
         flow.x             0000000000402E2B  advance_                  17  flow.F90\n\
         flow.x             0000000000402D22  MAIN__                    90  main.F90\n\
         libc-2.22.so       00002AAAACBF0725  __libc_start_main     Unknown  Unknown\n",
        &["calls MAIN__ (main.F90:90) > advance_ (flow.F90:17)"],
    );
}

/// What differs from one writer to the next is taken apart only where it stands alone.
#[test]
fn what_stands_in_brackets_of_several_writers_is_not_mixed() {
    let line = |pid: u32, gpu: u32, what: &str| format!("node-a:{pid}:{pid} [{gpu}] odd.cc:3 NCCL WARN odd thing at ({what})\n");
    let log = line(4120, 0, "3 != 1") + &line(4121, 1, "2 != 0");
    lacks(&log, &["2 and (3", "0) and 1)"]);
}

/// PyTorch 1.10 takes NCCL's number apart in the old way.
#[test]
fn a_version_that_pytorch_takes_apart_wrongly_is_put_right() {
    let log = |version: &str| {
        format!(
            "RuntimeError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:957, invalid usage, NCCL version {version}\n"
        )
    };
    holds(&log("21.0.3"), &["NCCL 2.10.3: invalid usage"]);
    holds(&log("2.14.3"), &["NCCL 2.14.3: invalid usage"]);
}

/// The words of the head and of its stack stand in two lines.
#[test]
fn a_stack_of_mpich_may_begin_in_a_line_of_its_own() {
    holds(
        "[cli_0]: aborting job:\nFatal error in MPI_Init:\nOther MPI error, error stack:\nMPIR_Init_thread(514)....:\n\
         MPID_Init(359)...........: channel initialization failed\nMPIDI_CH3I_SMP_Init(2313): LiMIC2 device does not exist: No such file or directory\n",
        &["FAIL", "LiMIC2 device does not exist: No such file or directory"],
    );
}
