//! What `check` adds to a headline: who else said it, whom the launcher saw end first, how far the ranks had come, and what the log says of
//! the run itself.

use crate::support::report;
use nccl_top::archive::Verdict;
use nccl_top::base::time::Zone;
use nccl_top::output::check::facts;
use nccl_top::output::check::text::{Style, text};

/// The report as people read it, in one line.
fn page(log: &str) -> String {
    let page = text(&report(log), Zone::UTC, &Style { color: false, ascii: true, width: 200 });
    page.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Each text is a part of the report.
pub fn holds(log: &str, texts: &[&str]) {
    let page = page(log);
    let missing: Vec<_> = texts.iter().filter(|text| !page.contains(**text)).collect();
    assert!(missing.is_empty(), "{missing:?} not in:\n{page}");
}

pub fn lacks(log: &str, texts: &[&str]) {
    let page = page(log);
    let there: Vec<_> = texts.iter().filter(|text| page.contains(**text)).collect();
    assert!(there.is_empty(), "{there:?} in:\n{page}");
}

const TABLE: &str = "torch.distributed.elastic.multiprocessing.errors.ChildFailedError:\n============\ntrain.py FAILED\n------------\nFailures:\n\
    [1]:\n\
    \x20 time      : 2026-03-27_08:10:58\n\
    \x20 host      : box-1\n\
    \x20 rank      : 6 (local_rank: 2)\n\
    \x20 exitcode  : -6 (pid: 1292)\n\
    \x20 error_file: <N/A>\n\
    ------------\nRoot Cause (first observed failure):\n[0]:\n\
    \x20 time      : 2026-03-27_08:10:57\n\
    \x20 host      : box-1\n\
    \x20 rank      : 5 (local_rank: 1)\n\
    \x20 exitcode  : 1 (pid: 1291)\n\
    \x20 error_file: <N/A>\n============\n";

#[test]
fn a_table_of_torchrun_tells_when_where_and_how_the_others_ended() {
    holds(
        TABLE,
        &[
            "rank 5 (pid 1291) ended: exit code 1",
            "at 08:10:57, on box-1; it lists rank 6 (killed by signal 6 (SIGABRT)) as failed, too",
            "--tee 3",
        ],
    );
    holds(&TABLE.replace("08:10:58", "08:10:57"), &["the table does not prove which was first"]);
    lacks(TABLE, &["does not prove"]);
    let above = "E0327 08:10:57.100000 1201 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: 1) local_rank: 1 (pid: 1291) of binary: /usr/bin/python3\n";
    holds(&format!("{above}{TABLE}"), &["on box-1"]);
}

const SAME: &str = "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/w/train.py\", line 48, in main\n[rank3]:     y = net(x)\n\
    [rank3]:   File \"/env/lib/python3.11/site-packages/torch/nn/modules/conv.py\", line 549, in _conv_forward\n[rank3]:     return F.conv2d(\n\
    [rank3]: RuntimeError: two types differ\n\
    Traceback (most recent call last):\n  File \"/w/train.py\", line 48, in main\n    y = net(x)\nRuntimeError: two types differ\n\
    [rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/train.py\", line 48, in main\n[rank0]: RuntimeError: two types differ\n";

#[test]
fn all_who_raise_the_same_are_named_with_whom_the_launcher_saw_first() {
    let log = format!(
        "{SAME}W0327 08:10:56.100000 1201 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 1294 closing signal SIGTERM\n{TABLE}"
    );
    holds(
        &log,
        &[
            "ranks 0, 3 and 5: RuntimeError: two types differ",
            "the launcher saw rank 5 end first, on box-1",
            "called from File \"/w/train.py\", line 48, in main",
            "next look at File \"/w/train.py\", line 48, in main",
        ],
    );
    // Another error beside it may be that of the nameless process.
    let other = log.replacen("RuntimeError: two types differ\n[rank0]", "ValueError: odd\n[rank0]", 1);
    lacks(&other, &["ranks 0, 3 and 5"]);
}

#[test]
fn what_only_hands_on_an_exception_is_not_the_cause() {
    let spawned = "Traceback (most recent call last):\n  File \"train.py\", line 33, in <module>\n    spawn(run)\n\
        \x20 File \"/u/lib/python3.6/site-packages/torch/multiprocessing/spawn.py\", line 118, in join\n    raise Exception(msg)\nException: \n\n\
        -- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File \"/w/opt.py\", line 14, in clip\n    raise\n\
        ZeroDivisionError: no samples\n";
    holds(spawned, &["ZeroDivisionError: no samples", "/w/opt.py"]);
    lacks(spawned, &["Exception in join"]);
    let chained = "Traceback (most recent call last):\n  File \"/w/save.py\", line 8, in put\n    f.write(b)\nKeyError: 'bucket 7'\n\n\
        During handling of the above exception, another exception occurred:\n\nTraceback (most recent call last):\n  File \"/w/save.py\", line 20, in save\n    end()\n\
        ValueError: odd end\n";
    holds(chained, &["ValueError: odd end", "before it came KeyError: 'bucket 7'"]);
}

#[test]
fn a_message_between_the_lines_of_other_processes() {
    let log = "Traceback (most recent call last):\nTraceback (most recent call last):\n  File \"/w/a.py\", line 3, in f\n    open(p)\n\
        IsADirectoryError:   File \"/w/a.py\", line 3, in f\n[Errno 21] Is a directory: '/w'\n";
    holds(log, &["IsADirectoryError: [Errno 21] Is a directory: '/w'"]);
}

#[test]
fn last_words_without_a_traceback() {
    holds(
        "[2026-04-18 11:06:17] INFO     [acme.train:816, rank=2] ready\n[2026-04-18 11:10:41] CRITICAL [acme.util:158, rank=2] Uncaught AcmeError: loader thread 3 failed\n",
        &["FAIL (code) rank 2: AcmeError: loader thread 3 failed"],
    );
    holds("[2026-04-18 11:10:41,062][__main__][ERROR] - Error executing job with overrides: ['a=1']\n", &["FAIL", "HYDRA_FULL_ERROR=1"]);
}

/// The line of a rank that gave up, and that of its queue.
fn timeout(rank: u32, seq: u64, group: &str, queue: Option<(&str, &str)>, ran: u64) -> String {
    let mut log = format!(
        "[rank{rank}]:[E626 04:24:44.1{rank}3881913 ProcessGroupNCCL.cpp:616] [Rank {rank}] Watchdog caught collective operation timeout: \
         WorkNCCL(SeqNum={seq}, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for {ran} milliseconds before timing out.\n"
    );
    if let Some((enqueued, completed)) = queue {
        log += &format!(
            "[rank{rank}]:[E626 04:24:44.1{rank}6457629 ProcessGroupNCCL.cpp:1785] [{group} Rank {rank}] Exception (either an error or timeout) \
             detected by watchdog at work: {seq}, last enqueued NCCL work: {enqueued}, last completed NCCL work: {completed}.\n"
        );
    }
    log
}

#[test]
fn how_far_the_ranks_had_come() {
    const WORLD: &str = "PG ID 0 PG GUID 0(default_pg)";
    let of = |queue, seq| (0..3).map(|rank| timeout(rank, seq, WORLD, Some(queue), 600_020)).collect::<String>();
    holds(&of(("811", "807"), 808), &["last completed 807, last enqueued 811 on all 3 ranks"]);
    lacks(&of(("811", "807"), 808), &["first collective", "although the limit"]);
    holds(&of(("5", "-1"), 1), &["none was ever completed", "it is the first collective"]);
    holds(&timeout(0, 7, WORLD, None, 25_624_887), &["it ran 25,624 s although the limit is 600 s"]);
}

#[test]
fn numbers_of_several_groups_are_not_compared() {
    let log = [(3, 33), (0, 257), (0, 1032), (0, 1796)].map(|(rank, seq)| timeout(rank, seq, "", None, 600_020)).concat();
    holds(&log, &["rank 0 waits at 257, 1032 and 1796 at once"]);
    lacks(&log, &["is behind:", "rank 3 is behind"]);
}

#[test]
fn a_second_console_behind_the_first_is_no_further_run() {
    let banner = |time: &str| {
        format!(
            "W0304 {time} 4712 torch/distributed/run.py:803] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default\n"
        )
    };
    let failed = "[rank12]: Traceback (most recent call last):\n[rank12]:   File \"/w/t.py\", line 6, in <module>\n[rank12]: ValueError: odd shard\n\
        W0304 14:17:22.059000 4712 torch/distributed/elastic/multiprocessing/api.py:908] Sending process 4714 closing signal SIGTERM\n";
    let both = format!("{}{failed}{}", banner("14:17:15.750000"), banner("14:17:14.161000"));
    holds(&both, &["FAIL (code) rank 12: ValueError: odd shard"]);
}

#[test]
fn the_rank_that_does_not_report_is_probably_the_one_that_failed() {
    let oom = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 564.00 MiB. GPU 1 has a total capacity of 22.20 GiB of which 203.12 MiB is free.\n";
    let log = format!(
        "Traceback (most recent call last):\n  File \"/w/t.py\", line 6, in <module>\n    y()\n{oom}{}",
        [0, 2, 3].map(|rank| timeout(rank, 2371, "", None, 600_020)).concat()
    );
    holds(&log, &["CUDA out of memory", "rank 1 reports no timeout while the others wait"]);
}

#[test]
fn ranks_that_begin_twice() {
    let line = |rank: u32| format!("initializing ddp: GLOBAL_RANK: {rank}, MEMBER: {}/8\n", rank + 1);
    let twice: String = [1, 1, 2, 2, 3, 3, 0, 0].into_iter().map(line).collect();
    holds(&twice, &["FAIL", "ranks 0, 1, 2 and 3 of 8 began 2 times each, and ranks 4, 5, 6 and 7 never did", "NODE_RANK"]);
    // Of the first rank one line came, or was kept, and the log ends in the traceback of the one that gave up.
    let once: String = [0, 1, 1, 2, 3, 2, 3].into_iter().map(line).collect::<String>()
        + "Traceback (most recent call last):\n  File \"/w/train.py\", line 74, in main\n    trainer.fit(model)\n";
    holds(&once, &["FAIL ranks 1, 2 and 3 of 8 began 2 times each, and ranks 4, 5, 6 and 7 never did"]);
    // The ranks of one node, started again, also where a line of the first start was lost, and a job that trains.
    let lost: String = (0..3).chain(0..4).map(line).collect();
    assert_eq!(report(&lost).verdict, Verdict::Ok);
    assert_eq!(report(&format!("{twice}step 10 loss 2.31\nstep 20 loss 2.30\n")).verdict, Verdict::Ok);
    let again: String = (0..4).chain(0..4).map(line).collect();
    assert_eq!(report(&again).verdict, Verdict::Ok);
    // A start whose end the log does not show, one that is whole, and one that was made twice.
    let begun: String = (0..2).map(line).collect();
    holds(&begun, &["ranks 0 and 1 of 8 began"]);
    for log in [begun, (0..8).map(line).collect(), (0..8).chain(0..8).map(line).collect()] {
        assert_eq!(report(&log).verdict, Verdict::Ok, "{log}");
    }
}

#[test]
fn what_a_log_says_of_the_run() {
    let log = "INFO:torch.distributed.launcher.api:Starting elastic_operator with launch configs:\n  entrypoint       : train.py\n  min_nodes        : 2\n\
        \x20 max_nodes        : 2\n  nproc_per_node   : 4\n  run_id           : x1\n  rdzv_backend     : c10d\n  rdzv_endpoint    : head-0:2222\n\
        \x20 max_restarts     : 3\n\nPyTorch version: 2.8.0+cu128\nDeepSpeed info: version=0.17.1, git-hash=unknown\n\
        step 10 loss 2.31\nSaving checkpoint to /ckpt/step-10.pt\nstep 20 loss 2.11\n";
    holds(
        log,
        &[
            "job 8 ranks",
            "torchrun, 2 nodes of 4 processes, rendezvous at head-0:2222, id x1, up to 3 restarts",
            "DeepSpeed 0.17.1, PyTorch 2.8.0",
            "the last: Saving checkpoint to /ckpt/step-10.pt",
        ],
    );
    let facts = facts::json(&report(log));
    assert_eq!(facts["launch"]["processes_per_node"], 4);
    assert_eq!(facts["software"]["PyTorch"][0], "2.8.0");
    // As many nodes as come are no number, and a group of ranks is not the job.
    lacks(&log.replace("max_nodes        : 2", "max_nodes        : 4"), &["nodes of"]);
    holds("step 1 loss 2.1\nConfig world_size = 2\nusing world size: 16\nstep 2 loss 2.0\n", &["world size 16"]);
}

#[test]
fn steps_by_the_times_of_their_lines() {
    let log = "2026-06-16 11:30:00,000 - INFO - step: 100 loss: 6.13\n2026-06-16 11:30:14,000 - INFO - step: 110 loss: 6.03\n2026-06-16 11:30:28,000 INFO [train.py:55] Done!\n";
    holds(log, &["step 110", "about 1.40 s a step, by the times of the lines", "finished"]);
    lacks("2026-06-16 11:30:28,000 INFO [train.py:55] Done!\n2026-06-16 11:30:29,000 - INFO - loading\n", &["finished"]);
}

#[test]
fn a_box_around_a_log_is_no_text() {
    let boxed = |text: &str| format!("\u{2502} {text:<100} \u{2502}\n");
    let log = ["Traceback (most recent call last):", "  File \"/w/t.py\", line 6, in main", "    y()", "ValueError: odd shard"]
        .map(boxed)
        .concat();
    holds(&log, &["ValueError: odd shard, in main (t.py:6) what"]);
}

#[test]
fn an_exception_says_what_the_program_was_doing() {
    let saving = "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"/w/train.py\", line 90, in main\n[rank2]:     save_checkpoint(m)\n\
        [rank2]:   File \"/w/io.py\", line 12, in save_checkpoint\n[rank2]:     dist.barrier()\n\
        [rank2]:   File \"/env/lib/python3.11/site-packages/torch/distributed/distributed_c10d.py\", line 4159, in barrier\n[rank2]:     work.wait()\n\
        [rank2]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete\n";
    holds(
        saving,
        &["Gloo: waited 1800000 ms for data of another rank that did not come, while saving a checkpoint (save_checkpoint), in barrier"],
    );
    let evaluating = "Traceback (most recent call last):\n  File \"/w/t.py\", line 7, in train\n    evaluate()\n  File \"/w/t.py\", line 31, in evaluate\n    y = x[9]\nIndexError: list index out of range\n";
    holds(evaluating, &["IndexError: list index out of range, while evaluating (evaluate)"]);
}

#[test]
fn who_wrote_a_warn_stands_in_front_of_it_and_all_who_did() {
    let warn = |host: &str, pid: u32, dev: u32| {
        format!(
            "{host}:{pid}:{} [{dev}] misc/ibvwrap.cc:208 NCCL WARN Call to ibv_create_qp failed with error Invalid argument errno 22\n",
            pid + 90
        )
    };
    holds(&warn("node-1", 400, 3), &["FAIL CUDA device 3 of node-1: Call to ibv_create_qp failed"]);
    holds(&(warn("node-1", 400, 3) + &warn("node-1", 401, 4)), &["FAIL 2 processes of node-1: Call to ibv_create_qp failed"]);
    holds(&(warn("node-1", 400, 3) + &warn("node-2", 400, 3)), &["FAIL 2 processes of node-1 and node-2: Call to ibv_create_qp failed"]);
    let ranks = format!("[rank1]: {}[rank3]: {}", warn("node-1", 400, 1), warn("node-1", 401, 3));
    holds(&ranks, &["FAIL ranks 1 and 3: Call to ibv_create_qp failed"]);
}

#[test]
fn a_warn_behind_which_the_call_returned_an_error_is_one_of_rccl_too() {
    let source = "/build/rccl/src";
    let log = format!(
        "n0:18:26 [3] {source}/graph/paths.cc:82 NCCL WARN Failed to order the links of node 0/200000\n\
         n0:18:25 [2] NCCL INFO Topology detection : could not read /sys/devices/x, ignoring\n\
         n0:18:26 [3] NCCL INFO {source}/graph/paths.cc:608 -> 3\nn0:18:26 [3] NCCL INFO {source}/init.cc:1248 -> 3\nn0:18:26 [3] NCCL INFO {source}/group.cc:68 -> 3 [Async thread]\n\
         n0: Test NCCL failure common.cu.cpp:1498 'internal error - please report this issue to the NCCL developers / '\n"
    );
    holds(&log, &["FAIL CUDA device 3 of n0: Failed to order the links"]);
}

#[test]
fn where_in_the_run_it_failed() {
    let step = |n: u32, s: u32| format!("2026-03-27 08:10:{s:02},100 INFO step {n}/500 loss {}.25\n", 9 - n);
    let failed = "Traceback (most recent call last):\n  File \"/w/train.py\", line 3, in main\nValueError: odd\n";
    let log = format!(
        "2026-03-27 08:10:00,100 INFO world size: 4\n{}{}2026-03-27 08:10:44,100 ERROR stopped\n{failed}",
        step(1, 20),
        step(2, 40)
    );
    holds(&log, &["when at least 44 s after the run's first line, after step 2 of 500", "time 2026-03-27 08:10:00 to 08:10:44, 44 s"]);
    holds(
        &format!("2026-03-27 08:10:00,100 INFO world size: 4\n2026-03-27 08:10:03,100 INFO the model is built\n{failed}"),
        &["when at least 3 s after the run's first line, before any step", "2 2026-03-27 08:10:03,100 INFO the model is built 3 Traceback"],
    );
    // A time that first stands behind steps is not that of the start; a year that was assumed makes no run of a year.
    lacks(
        &format!("step 3/500 loss 2.25\n2026-03-27 08:10:00,100 INFO so\n2026-03-27 08:10:09,100 INFO so\n{failed}"),
        &["first line", " time "],
    );
    let mixed = "[2024-12-26 02:11:11,173] [INFO] [real_accelerator.py:203:get_accelerator] Setting ds_accelerator to cuda (auto detect)\n\
        W1226 02:11:14.000000 2053 torch/distributed/elastic/multiprocessing/api.py:897] Sending process 9053 closing signal SIGTERM\n";
    lacks(&format!("{mixed}{failed}"), &["365 d"]);
}

#[test]
fn whom_the_launcher_ended_is_not_to_blame() {
    let ends = |pid: u32| {
        format!(
            "W0327 08:10:56.100000 1201 torch/distributed/elastic/multiprocessing/api.py:897] Sending process {pid} closing signal SIGTERM\n"
        )
    };
    let log = format!(
        "[rank5]: Traceback (most recent call last):\n[rank5]:   File \"/w/train.py\", line 3, in main\n[rank5]: ValueError: odd\n{}{}{}{TABLE}",
        ends(1290),
        ends(1292),
        ends(1293)
    );
    // 1292 ended by SIGABRT of its own.
    holds(&log, &["also ended the launcher ended 2 other processes by SIGTERM (pids 1290, 1293): they are not to blame"]);
    let waited = "[rank1]:[E626 04:24:44.113881913 ProcessGroupNCCL.cpp:616] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=9, NumelOut=9, Timeout(ms)=600000) ran for 600010 milliseconds before timing out.\n";
    lacks(&format!("{waited}{}", ends(1290)), &["not to blame"]);
}

#[test]
fn who_is_where_and_what_came_out() {
    let log = "2022-10-18 12:16:01 | INFO | acme.utils | initialized host npl15 as rank 0\n2022-10-18 12:16:01 | INFO | acme.utils | initialized host npl17 as rank 9\n\
        2022-10-18 12:16:02 | INFO | acme.utils | initialized host npl15 as rank 1\n";
    holds(log, &["OK nothing wrong was found", "hosts npl15: ranks 0 and 1; npl17: rank 9"]);
    holds("rank: 3, world_size: 8\n", &["8 ranks"]);
    let ends = "step 10 loss 2.25\nvalidation loss at iteration 10 on validation set | lm loss value: 5.741563E+00 | lm loss PPL: 3.1E+02 |\n\
        {'train_runtime': 2233.1, 'train_samples_per_second': 21.28, 'train_loss': 0.56}\n";
    holds(
        ends,
        &[
            "evaluation the last: validation loss at iteration 10 on validation set | lm loss value: 5.741563E+00 | lm loss PPL: 3.1E+02",
            "result train_runtime: 2233.1, train_samples_per_second: 21.28, train_loss: 0.56",
        ],
    );
}

#[test]
fn the_first_collective_and_all_who_report_it() {
    let log = timeout(0, 1, "", None, 600_010) + &timeout(1, 1, "", None, 600_010);
    holds(&log, &["the first collective of its group, ALLREDUCE 1, timed out after 600 s; ranks 0 and 1 report it"]);
    holds(&format!("world_size=2\n{log}"), &["all 2 ranks report it"]);
}

#[test]
fn who_types_an_interrupt_is_no_failure() {
    let log = "step 5 loss 2.25\n^CW1016 06:21:18.872000 140016382740288 torch/distributed/elastic/agent/server/api.py:688] Received Signals.SIGINT death signal, shutting down workers\n";
    assert_eq!(report(log).verdict, Verdict::Warn);
    assert_eq!(report(&log.replace("SIGINT", "SIGTERM")).verdict, Verdict::Fail);
}

#[test]
fn noise_is_called_harmless() {
    holds(
        "[2025-03-11 09:14:22,310] [WARNING] [runner.py:215:fetch_hostfile] Unable to find hostfile, will proceed with training with local resources only.\nstep 5 loss 2.25\n",
        &["OK nothing wrong was found", "harmless noise-hostfile: DeepSpeed has no hostfile and uses the GPUs of this host"],
    );
}

#[test]
fn who_differs_and_who_has_printed_nothing() {
    let print = |rank: u32, op: &str| {
        format!("Rank {rank} is running collective: CollectiveFingerPrint(SequenceNumber=167, OpType={op}, TensorShape=[272])")
    };
    let line = |rank: u32, op: &str, other: u32, other_op: &str| {
        format!(
            "[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File \"/w/train.py\", line 3, in main\n[rank{rank}]: RuntimeError: Detected mismatch between collectives on ranks. {}, but {}.\n",
            print(rank, op),
            print(other, other_op)
        )
    };
    let [all, gather] = ["ALLREDUCE", "ALLGATHER"];
    let log = line(0, all, 2, gather) + &line(2, gather, 0, all) + &line(3, all, 2, gather);
    holds(&log, &["FAIL (code) rank 2 called ALLGATHER of shape [272] where ranks 0 and 3 called ALLREDUCE of shape [272]"]);
    // Of two, either may be the one.
    holds(&line(0, all, 2, gather), &["rank 0 called ALLREDUCE of shape [272] at sequence number 167, rank 2 called ALLGATHER"]);
    let starts = |rank: u32| format!("rank {rank} starting: MASTER_ADDR=127.0.0.1 WORLD_SIZE=4\n");
    let came = "Traceback (most recent call last):\n  File \"/w/train.py\", line 3, in main\ntorch.distributed.DistStoreError: Timed out after 46 seconds waiting for clients. 3/4 clients joined.\n";
    holds(&(starts(0) + &starts(1) + &starts(2) + came), &["3 of 4 processes came", "; rank 3 printed nothing in these inputs"]);
    lacks(&(starts(0) + &starts(1) + came), &["printed nothing"]);
}

#[test]
fn where_a_process_crashed_and_why_one_was_raised() {
    let crash = "Fatal Python error: Segmentation fault\n\nThread 0x00007f0000000001 (most recent call first):\n  File \"/usr/lib/python3.11/threading.py\", line 324 in wait\n\n\
        Current thread 0x00007f971efd6b80 (most recent call first):\n  File \"/w/env/lib/python3.11/site-packages/lib/x.py\", line 9 in call\n  File \"/w/tokens.py\", line 7 in length\n  File \"/w/run.py\", line 11 in <module>\n\nExtension modules: numpy\n";
    holds(crash, &["FAIL a process crashed in length (tokens.py:7): segmentation fault (SIGSEGV)", "job.log:1 Fatal Python error"]);
    // The stack is cut off.
    holds("Fatal Python error: Segmentation fault\n", &["FAIL a process crashed: segmentation fault (SIGSEGV)"]);
    let chain = "Traceback (most recent call last):\n  File \"/w/data.py\", line 12, in get\nKeyError: 'dur'\n\nThe above exception was the direct cause of the following exception:\n\n\
        Traceback (most recent call last):\n  File \"/w/data.py\", line 13, in get\nManifestError: row 1234 lacks the column dur\n\nThe above exception was the direct cause of the following exception:\n\n\
        Traceback (most recent call last):\n  File \"/w/train.py\", line 26, in main\nEpochAborted: epoch 0 stopped\n";
    holds(chain, &["EpochAborted: epoch 0 stopped, in main (train.py:26), because of ManifestError: row 1234 lacks the column dur"]);
}

#[test]
fn what_a_job_got_over_is_no_failure() {
    let epoch = |n: u32| format!("[00:43:2{n}] epoch  {n}/10  loss 0.{}6    4473.3 samples/s\n", 9 - n);
    let failed = "[rank2]: Traceback (most recent call last):\n[rank2]:   File \"/w/train.py\", line 3, in main\n[rank2]: ValueError: odd\n\
        E1126 00:43:29.147000 28741 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: 1) local_rank: 2 (pid: 28844) of binary: /w/env/bin/python3\n";
    let before: String = (0..4).map(epoch).collect();
    holds(&format!("{before}{failed}{}", (4..8).map(epoch).collect::<String>()), &["WARN", "the job went on after it"]);
    holds(&format!("{before}{failed}"), &["FAIL"]);
    // What a process held back stands behind its traceback.
    let end = failed.find("E1126").unwrap();
    holds(&format!("{before}{}{}", &failed[..end], (4..8).map(epoch).collect::<String>()), &["FAIL"]);
    let ended = "^CW1126 00:45:15.124000 29414 torch/distributed/elastic/agent/server/api.py:739] Received 2 death signal, shutting down workers\n\
        Traceback (most recent call last):\n  File \"/w/env/bin/torchrun\", line 8, in <module>\n    sys.exit(main())\n\
        torch.distributed.elastic.multiprocessing.api.SignalException: Process 29414 got signal: 2\n";
    holds(ended, &["WARN the launcher received signal 2 (SIGINT)"]);
    let closed = "step 1 loss 2.5\nstep 2 loss 2.4\n[I1126 01:14:15.980852323 TCPStoreLibUvBackend.cpp:130] [c10d - debug] Remote peer closed the connection.\n";
    holds(closed, &["OK"]);
}

#[test]
fn a_loss_that_rises_and_tables_of_epochs() {
    let line = |n: u32, loss: f64| format!("step {n} loss {loss:.3}\n");
    let climbs: String = (1..60).map(|n| line(n, if n < 20 { 50.0 / f64::from(n) } else { 2.6 * 1.2f64.powi(n as i32 - 20) })).collect();
    holds(&climbs, &["WARN the loss rose from 2.6 at step 20 to"]);
    let falls: String = (1..60).map(|n| line(n, 50.0 / f64::from(n))).collect();
    holds(&falls, &["OK"]);
    let table = "+-------+-----------+-----------+\n| epoch | train mse |   val mse |\n+-------+-----------+-----------+\n|     0 |   3.27409 |   0.98051 |\n|     1 |   0.62396 |   0.44023 |\n";
    holds(table, &["OK", "training epoch 1 loss 0.6240 (3.2741 at first)"]);
    let spaced = "epoch     train_loss  valid_loss  accuracy  time    \n0         0.526       0.412       0.81      00:12   \n1         0.326       0.312       0.84      00:12   \n";
    holds(spaced, &["training epoch 1 loss 0.3260 (0.5260 at first)"]);
    lacks("each step  the loss  goes down\n1  2  3\n", &["training"]);
}

#[test]
fn whoever_ends_the_job_has_said_why() {
    let dashes = "-".repeat(74);
    let abort = &format!("{dashes}\nMPI_ABORT was invoked on rank 2 in communicator MPI_COMM_WORLD\nwith errorcode 13.\n{dashes}\n");
    holds(
        &format!("iter   1 loss 48.5\nFATAL [rank 2] non-finite features in local block: 40 of 3000 rows\n{abort}"),
        &["FAIL [rank 2] non-finite features"],
    );
    holds(abort, &["FAIL rank 2 ended the whole job with MPI_Abort (code 13)"]);
    let waits = "[rank2]:[E1126 00:50:46.709164379 ProcessGroupGloo.cpp:67] Rank 2 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. Please check rank 0 logs for faulty rank.\n\
        [rank0]:[E1126 00:50:46.716407836 ProcessGroupGloo.cpp:2708] [Rank 0]: Rank 1 failed to pass monitoredBarrier in 15000 ms\n\
        [rank0]:[E1126 00:50:46.716466956 ProcessGroupGloo.cpp:2708] [Rank 0]: Rank 3 failed to pass monitoredBarrier in 15000 ms\n";
    holds(waits, &["FAIL rank 1 did not come to a monitored barrier within 15000 ms; reported for ranks 1 and 3"]);
}

#[test]
fn a_bar_of_an_evaluation_is_not_the_training() {
    let bar = |n: u32, of: u32| format!("\r {:3}%|███       | {n}/{of} [00:00<00:03, 14.90it/s]", n * 100 / of);
    let train: String = [1, 20, 40, 60].map(|n| bar(n, 60)).concat();
    let log = format!(
        "{train}\n{{'loss': '2.017', 'grad_norm': '1.071', 'learning_rate': '1.667e-05', 'epoch': '0.48'}}\n{{'train_runtime': '5.33', 'train_loss': '2.379', 'epoch': '0.48'}}\n***** Running Evaluation *****\n{}\n",
        [0, 6, 13].map(|n| bar(n, 13)).concat()
    );
    holds(&log, &["training step 60 of 60"]);
}

#[test]
fn a_warn_whose_text_stands_in_the_next_lines() {
    let warn = "nid1:9:5 [0] ofi_process_cq:196 NCCL WARN\n    NET/OFI Request 0x400 completed with error.\n    RC: 107. Error: Inappropriate ioctl for device.\nnid1:9:5 [0] NCCL INFO so\n";
    holds(warn, &["NET/OFI Request 0x400 completed with error. RC: 107", "job.log:1 "]);
    holds(
        "n1:9:5 [0] transport/nvls.cc:287 NCCL WARN Failed to bind NVLink SHARP (NVLS) Multicast memory of size 2097152 :\n  CUDA error 401 'the operation cannot be performed in the present state'.\n",
        &["(nvls-bind-failed)"],
    );
    // What only looks like the beginning of one is whole.
    holds("n1:9:5 [0] misc/x.cc:1 NCCL WARN it failed :\nn1:9:5 [0] NCCL INFO so\n", &["it failed", "job.log:1 "]);
}

#[test]
fn who_crashes_behind_the_end_of_the_training_has_trained() {
    let end = "terminate called without an active exception\nE0401 00:26:08.212000 3016633 torch/distributed/elastic/multiprocessing/api.py:869] failed (exitcode: -6) local_rank: 1 (pid: 3016739) of binary: /w/bin/python\n";
    let steps = "step 1/2 loss 2.5\nstep 2/2 loss 2.4\n";
    holds(&format!("{steps}Training completed\n{end}"), &["WARN", "it crashed on its way out"]);
    holds(&format!("{steps}{end}"), &["FAIL"]);
    let lo = "7b60:104:104 [0] NCCL INFO Bootstrap : Using lo:127.0.0.1<0>\n7b60:104:104 [0] NCCL INFO Using network Socket\n7b60:104:104 [0] NCCL INFO Channel 00/32 :    0\n";
    lacks(lo, &["wrong-interface"]);
}

/// How a model is spread, and what it learns from, in the forms of several programs.
#[test]
fn sizes_of_the_model_of_its_batches_and_of_its_groups() {
    let megatron = "using world size: 8, data-parallel-size: 2, tensor-model-parallel size: 2, pipeline-model-parallel size: 2 \n\
        \x20 global_batch_size ............................... 128\n  micro_batch_size ................................ 4\n\
        \x20> number of parameters on (tensor, pipeline) model parallel rank (0, 0): 354871296\n\
        \x20> number of parameters on (tensor, pipeline) model parallel rank (1, 0): 354871297\n";
    let rows = ["model 354,871,296 parameters on rank (0, 0)", "parallel data 2, tensor 2, pipeline 2", "batch 128 in all, 4 a device"];
    holds(megatron, &rows);
    let hf = "[INFO|trainer.py:2134] 2026-01-12 10:31:02,861 >>   Num examples = 100,000\n[INFO|trainer.py:2135] 2026-01-12 10:31:02,861 >>   Num Epochs = 3\n\
        [INFO|trainer.py:2136] 2026-01-12 10:31:02,861 >>   Instantaneous batch size per device = 8\n\
        [INFO|trainer.py:2139] 2026-01-12 10:31:02,861 >>   Total train batch size (w. parallel, distributed & accumulation) = 32\n\
        [INFO|trainer.py:2141] 2026-01-12 10:31:02,861 >>   Number of trainable parameters = 7,840,794\nstep 1 loss 2.5\n";
    holds(hf, &["model 7,840,794 trainable parameters", "batch 8 a device, 32 in all", "epochs 3 planned"]);
    holds("number of parameters: 123.59M\nstep 1 loss 2.5\n", &["model 123.59M parameters"]);
    holds(
        "torchrun sft.py --model_name_or_path Qwen/Qwen2.5-7B --zero_stage 3\nstep 1 loss 2.5\n",
        &["model Qwen/Qwen2.5-7B", "parallel ZeRO stage 3"],
    );
    let lora = "trainable params: 4,194,304 || all params: 6,742,609,920 || trainable%: 0.0622\nstep 1 loss 2.5\n";
    holds(lora, &["model 4,194,304 trainable parameters, 6,742,609,920 parameters"]);
    holds("Trainable params: 1.2 K\nTotal params: 124 M\nstep 1 loss 2.5\n", &["model 1.2K trainable parameters, 124M parameters"]);
    // Advice, an engine beside the training, and a directory.
    for line in [
        "RuntimeError: try zero_stage: 3 instead",
        "use tensor_parallel_size=4 to fit, or lower micro_batch_size=1",
        "{'rollout': {'tensor_model_parallel_size': 2}}",
        "model_name: out-2024-05-11",
    ] {
        lacks(&format!("step 1 loss 2.5\n{line}\n"), &["parallel ", "batch ", "model "]);
    }
    // A path, a word, and a name that goes on.
    lacks("--model_name_or_path /home/u/models/llama3-8b --model gpt\nmicro_batch_size_list 4\nstep 1 loss 2.5\n", &["model ", "batch "]);
}

#[test]
fn what_nccl_tests_lists_of_its_gpus() {
    let log = "# nccl-tests version 2.17.8 nccl-headers=22902 nccl-library=22902\n# Collective test starting: all_reduce_perf\n# nThread 1 nGpus 1 minBytes 8 maxBytes 1024\n#\n# Using devices\n\
        #  Rank  0 Group  0 Pid   4120 on      n-1 device  0 [0009:01:00] NVIDIA GH200 120GB\n#  Rank  1 Group  0 Pid   4177 on      n-2 device  0 [0009:01:00] NVIDIA GH200 120GB\n#\n\
        #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n\
        #        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)       \n\
        \x20          8             2     float     sum      -1    20.10    0.00    0.00      0    20.20    0.00    0.00      0\n\
        \x20    1048576        262144     float     sum      -1    80.10   13.09   13.09      0    80.20   13.07   13.07      0\n\
        # Out of bounds values : 0 OK\n# Avg bus bandwidth    : 6.54\n#\n";
    holds(
        log,
        &[
            "job 2 ranks on 2 nodes",
            "software NCCL 2.29.2, nccl-tests 2.17.8",
            "devices 2 nodes (n-1, n-2) of 1 x NVIDIA GH200 120GB",
            "all_reduce, 2 sizes from 8 B to 1 MiB",
        ],
    );
}

/// Who raised what all raise is nobody: the program, or its environment, is to blame.
#[test]
fn what_all_ranks_raise_is_of_none_of_them() {
    let raises = |rank: u32| {
        format!(
            "[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File \"/w/run.py\", line 67, in wait\n[rank{rank}]:     raise RuntimeError(\"server launch failed\")\n\
             [rank{rank}]: RuntimeError: server launch failed\n"
        )
    };
    let two = raises(0) + &raises(1);
    holds(&two, &["rank 0; rank 1, too"]);
    holds(&format!("world_size=2\n{two}"), &["rank 0; all 2 ranks say it: it is not one of them"]);
}

/// Processes that print one exception into one line.
#[test]
fn an_exception_of_several_processes_in_one_line_is_told_once() {
    let log = "Traceback (most recent call last):\n  File \"fix.py\", line 47, in <module>\n    model.generate(**inputs)\n\
        TypeErrorTypeErrorTypeError: : TypeError: argument after ** must be a mapping, not Tensorargument after ** must be a mapping, not Tensor\n";
    holds(log, &["FAIL (code) TypeError: argument after ** must be a mapping, not Tensor"]);
}

/// What says nothing of its writer is of the one task that the scheduler saw end.
#[test]
fn the_task_that_ended_is_the_one_that_raised() {
    let raised = "Traceback (most recent call last):\n  File \"train.py\", line 118, in main\n    wandb.init()\nCommError: Run initialization has timed out after 90.0 sec.\n";
    let ended = "srun: error: g3060: task 0: Exited with exit code 1\nsrun: Terminating StepId=25036072.0\nsrun: error: g3060: tasks 1-3: Terminated\n";
    holds(&format!("{raised}{ended}"), &["task 0 on g3060: CommError"]);
    // Of two, and where another one crashed, nobody is named.
    for other in ["srun: error: g3061: task 2: Exited with exit code 1\n", "srun: error: g3061: task 2: Aborted (core dumped)\n"] {
        holds(&format!("{raised}{other}{ended}"), &["FAIL (code) CommError: Run initialization"]);
        holds(&format!("{raised}{ended}{other}"), &["FAIL (code) CommError: Run initialization"]);
    }
}

/// Advice names a setting, and a file a metric.
#[test]
fn what_only_looks_like_a_fact_of_the_run() {
    lacks("step 1 loss 2.5\nIf this was unintended please pass in `--num_processes=1`.\n", &["launch", "world size"]);
    lacks("step 1 loss 2.5\n  File \"/w/train_runtime.py\", line 510, in gather\n", &["result"]);
    let began = "initializing distributed: GLOBAL_RANK: 1, MEMBER: 2/2\n";
    holds(began, &["rank 0 did not in these inputs"]);
    let barrier =
        "INFO:torch.distributed.distributed_c10d:Rank 0: Completed store-based barrier for key:store_based_barrier_key:1 with 2 nodes.\n";
    lacks(&format!("{began}{barrier}"), &["did not in these inputs"]);
}

/// An assertion without words is told by its source.
#[test]
fn an_assertion_without_words() {
    let log = "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/qwen2.py\", line 105, in __init__\n[rank0]:     assert self.total_num_heads % tp_size == 0\n\
        [rank0]: AssertionError\n";
    holds(log, &["FAIL (code) rank 0: AssertionError: assert self.total_num_heads % tp_size == 0, in __init__ (qwen2.py:105)"]);
    // Of another frame.
    let log = "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/a.py\", line 1, in f\n[rank0]:     assert ready\n[rank0]:   File \"/w/b.py\", line 2, in g\n\
        [rank0]:     raise AssertionError\n[rank0]: AssertionError\n";
    holds(log, &["FAIL (code) rank 0: AssertionError in g (b.py) what"]);
}

/// Groups count for themselves; lines of the same watchdog name them.
#[test]
fn a_rank_that_waits_in_two_groups() {
    let waits = |seq: u64, op: &str, id: u32, guid: u32, group: &str| {
        format!(
            "[rank9]:[E129 16:38:47.714693059 ProcessGroupNCCL.cpp:683] [Rank 1] Watchdog caught collective operation timeout: WorkNCCL(SeqNum={seq}, OpType={op}, NumelIn=442368, NumelOut=884736, Timeout(ms)=600000) ran for 600002 milliseconds before timing out.\n\
             [rank9]:[E129 16:38:47.714849575 ProcessGroupNCCL.cpp:2241] [PG ID {id} PG GUID {guid}({group}) Rank 1]  failure detected by watchdog at work sequence id: {seq} PG status: last enqueued work: {seq}, last completed work: {}\n",
            seq - 1
        )
    };
    let log = waits(49387, "_ALLGATHER_BASE", 5, 37, "TENSOR_MODEL_PARALLEL_GROUP")
        + &waits(52229, "ALLTOALL_BASE", 12, 100, "EXPERT_MODEL_PARALLEL_GROUP");
    let log = log
        + "[rank8]:[E129 16:38:47.801786726 ProcessGroupNCCL.cpp:1858] [PG ID 0 PG GUID 0(default_pg) Rank 8] Received a dump signal due to a collective timeout from this local rank and we will try our best to dump the debug info. Last enqueued NCCL work: 62, last completed NCCL work: 62.\n";
    holds(
        &log,
        &[
            "_ALLGATHER_BASE 49387 of TENSOR_MODEL_PARALLEL_GROUP timed out after 600 s; rank 9 reports it",
            "rank 9 waits in TENSOR_MODEL_PARALLEL_GROUP (49387) and EXPERT_MODEL_PARALLEL_GROUP (52229) at once",
        ],
    );
    lacks(&log, &["rank 9 waits in ALLTOALL_BASE"]);
}

/// Steps of a run that begins with small batches grow with them.
#[test]
fn larger_batches_are_no_slower_steps() {
    let line = |n: u32, ms: u32, batch: u32| {
        format!(
            " [2026-11-20 10:{:02}:{:02}] iteration {n:8}/  100000 | elapsed time per iteration (ms): {ms}.{} | global batch size: {batch:5} | lm loss: \
             {:.6E} | loss scale: 1.0 | grad norm: 1.2 |\n",
            n / 60,
            n % 60,
            n % 7,
            f64::from(900 - n) / 100.0
        )
    };
    let log = |later: u32| -> String { (1..=120).map(|n| if n <= 60 { line(n, 1000, 256) } else { line(n, 2000, later) }).collect() };
    let slow = |log: &str| report(log).findings.iter().any(|found| found.rule == "slow-steps");
    assert!(slow(&log(256)));
    assert!(!slow(&log(512)));
}

const DEEP: &str = "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/finetune.py\", line 163, in <module>\n[rank0]:     main()\n\
    [rank0]:   File \"/w/finetune.py\", line 136, in main\n[rank0]:     trainer.train()\n\
    [rank0]:   File \"/env/lib/python3.12/site-packages/transformers/trainer.py\", line 2325, in train\n\
    [rank0]:   File \"/env/lib/python3.12/site-packages/deepspeed/__init__.py\", line 203, in initialize\n\
    [rank0]:   File \"/env/lib/python3.12/site-packages/deepspeed/runtime/engine.py\", line 1327, in _broadcast_model\n\
    [rank0]:   File \"/env/lib/python3.12/site-packages/torch/distributed/c10d_logger.py\", line 81, in wrapper\n\
    [rank0]:   File \"/env/lib/python3.12/site-packages/torch/distributed/distributed_c10d.py\", line 2824, in broadcast\n";

#[test]
fn the_way_from_the_program_to_what_raised_is_told() {
    let calls =
        "calls main (finetune.py:136) > train (transformers) > initialize ... _broadcast_model (deepspeed) > broadcast (torch.distributed)";
    holds(&format!("{DEEP}[rank0]: ValueError: odd\n"), &[calls]);
    lacks("Traceback (most recent call last):\n  File \"/w/train.py\", line 3, in main\nValueError: odd\n", &["calls"]);
    // What NCCL says before it of the same process is told with it, where one rank alone hands it on.
    let warn = "node-1:194:710 [0] NCCL WARN NET/OFI Request 0x7f45 completed with error. RC: 103. Error: 4126 (Unresponsive receiver)\n";
    let error = "[rank0]: torch.distributed.DistBackendError: NCCL error in: /pytorch/torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:3699, remote process exited or there was a network error, NCCL version 2.27.3\n\
        [rank0]: ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n[rank0]: Last error:\n\
        [rank0]: NET/OFI Request 0x7f45 completed with error. RC: 103. Error: 4126 (Unresponsive receiver)\n\
        [rank0]:[W101 12:08:33.945328381 ProcessGroupNCCL.cpp:1538] Warning: WARNING: destroy_process_group() was not called before program exit (function operator())\n";
    holds(&format!("{warn}{DEEP}{error}"), &[calls, "Unresponsive receiver"]);
    // The line behind "Last error:" is NCCL's, whoever prints next.
    lacks(&format!("{DEEP}{error}"), &["connection to another rank: Warning"]);
}

#[test]
fn an_exception_without_words_has_none_of_what_stands_apart() {
    let log = "Traceback (most recent call last):\n  File \"/w/score.py\", line 37, in score\n    raise NotImplementedError\nNotImplementedError\n";
    holds(
        &format!("{log}\nSet the environment variable HYDRA_FULL_ERROR=1 for a complete stack trace.\n"),
        &["NotImplementedError in score (score.py)"],
    );
    holds(&format!("{log}Set it up first\n"), &["NotImplementedError: Set it up first"]);
}

#[test]
fn a_log_that_ends_where_it_raises_says_what() {
    let log = "Traceback (most recent call last):\n  File \"/w/data.py\", line 145, in __init__\n    raise ValueError(\"\"\"Output shape {} is not fully defined.\"\"\".format(shape))\n";
    holds(log, &["ValueError: Output shape {} is not fully defined, in __init__ (data.py:145)"]);
    holds(
        "Traceback (most recent call last):\n  File \"/w/data.py\", line 145, in __init__\n    x = make(shape)\n",
        &["an exception in __init__ (data.py); the log ends before it is named"],
    );
}

#[test]
fn who_saves_a_checkpoint_has_trained() {
    let log = "(WorkerDict pid=20172) Saving actor checkpoint to checkpoints/run/actor/global_step_400\n(main_task pid=17) Traceback (most recent call last):\n\
        (main_task pid=17)   File \"/w/verl/ray_trainer.py\", line 521, in _save_checkpoint\n(main_task pid=17)     save()\n\
        (main_task pid=17) OSError: [Errno 28] No space left on device\n";
    holds(log, &["at step 400, by the name of the checkpoint"]);
    lacks(log, &["before any step"]);
}

#[test]
fn the_summary_of_wandb_tells_of_the_last_step() {
    let log = "wandb: Run summary:\nwandb:      train/loss 0.5321\nwandb: train/global_step 1200\nwandb:     train/epoch 3\nwandb:  val/accuracy 0.91\nwandb: \nwandb: View run at: https://example.org\n";
    holds(log, &["step 1,200", "epoch 3", "loss 0.5321", "val/accuracy 0.91"]);
    // Where the steps were seen it says nothing new.
    holds(&format!("step 1300 | loss 0.4 | step_time 1.2 s\nstep 1301 | loss 0.4 | step_time 1.2 s\n{log}"), &["step 1,301"]);
    // Two lines are no summary.
    lacks("wandb: loss 0.5\nwandb: \n", &["loss 0.5 "]);
}

#[test]
fn numbers_of_an_evaluation_are_not_those_of_the_training() {
    holds(
        "***** Running training *****\n  Num examples = 9000\n***** Running Evaluation *****\n  Num examples = 852\n",
        &["9,000 examples, 852 examples to evaluate"],
    );
}

#[test]
fn bandwidth_that_falls_within_a_table() {
    let row = |bytes: u64, busbw: f64| {
        let us = bytes as f64 / 1e3 / busbw;
        format!("{bytes:>12} {:>12} float none -1 {us:.2} {busbw:.2} {busbw:.2} 0 {us:.2} {busbw:.2} {busbw:.2} 0\n", bytes / 4)
    };
    let table = |rates: &[f64]| {
        let rows: String = rates.iter().enumerate().map(|(i, rate)| row(1 << (20 + i), *rate)).collect();
        format!(
            "# nThread 1 nGpus 1 minBytes 1048576 maxBytes 8589934592 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n#\n# Using devices\n#\n\
                 #       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n#        (B)    (elements)                               (us)  (GB/s)  (GB/s)            (us)  (GB/s)  (GB/s)\n\
                 {rows}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 9.0\n#\n# Collective test concluded: alltoall_perf\n"
        )
    };
    holds(
        &table(&[13.6, 21.8, 24.0, 29.9, 1.5, 3.2, 1.4, 14.1, 29.2]),
        &["WARN nccl-tests alltoall: bus bandwidth falls from 29.9 GB/s at 8 MiB to 1.5 GB/s at 16 MiB, until 64 MiB"],
    );
    // One size may be a border between algorithms, and half is no fall.
    lacks(&table(&[13.6, 29.9, 1.5, 29.0, 31.0]), &["falls"]);
    lacks(&table(&[13.6, 29.9, 15.0, 14.0, 13.0]), &["falls"]);
}

#[test]
fn an_error_stack_of_mpich_says_why() {
    let log = "MPICH ERROR [Rank 5] [job id 41.0] [Tue Dec 12 17:52:24 2026] [node-7] - Abort(404347151) (rank 5 in comm 0): Fatal error in PMPI_Send: Other MPI error, error stack:\n\
        PMPI_Send(163)................: MPI_Send(buf=0x28, count=1, MPI_INTEGER, dest=0, tag=2001, comm=0x84) failed\nMPID_Send(499)................:\n\
        MPIDI_OFI_send_lightweight(34): OFI tagged injectdata failed (ofi_send.h:34:MPIDI_OFI_send_lightweight:Invalid argument)\n\naborting job:\n";
    holds(log, &["MPI ended rank 5 on node-7: a call of PMPI_Send failed: Invalid argument"]);
}

#[test]
fn a_monitor_that_ended_all_is_told_before_the_launcher() {
    let line = |rank: u32| {
        format!(
            "[rank{rank}]:[F919 07:00:13.41819281{rank} ProcessGroupNCCL.cpp:1653] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.\n"
        )
    };
    let launcher = "E0919 07:00:20.968000 2643 site-packages/torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -6) local_rank: 0 (pid: 2764) of binary: /usr/bin/python\n";
    holds(
        &format!("{}{}{launcher}", line(0), line(1)),
        &["FAIL PyTorch's monitor ended the process after a ProcessGroupNCCL watchdog hang"],
    );
}

#[test]
fn a_bar_in_front_of_the_word_of_slurm_is_read() {
    holds(
        " 45%|####5     | 723/1602 [2:12:45<2:59:53, 12.28s/it][2026-03-25T10:34:07.530] error: *** JOB 1150 ON node-1 CANCELLED AT 2026-03-25T10:34:07 DUE TO PREEMPTION ***\n",
        &["Slurm cancelled job 1150", "preemption", "step 723 of 1,602"],
    );
}

#[test]
fn a_rate_behind_the_value_of_another_name() {
    holds(
        "step 10/400  loss 8.4936  lr 2.0e-05  tokens/s 28127  200.0 ms\nstep 20/400  loss 8.4930  lr 2.0e-05  tokens/s 28130  200.0 ms\n",
        &["28.1k tokens/s", "learning rate 2e-5"],
    );
}

#[test]
fn a_process_of_spawn_is_named_behind_a_prefix() {
    let lines = "-- Process 1 terminated with the following error:\nTraceback (most recent call last):\n  File \"/w/script.py\", line 279, in build\n    x()\nValueError: odd\n";
    let prefixed: String = lines.lines().map(|line| format!("t=114.62 | stderr | {line}\n")).collect();
    holds(&prefixed, &["local rank 1: ValueError: odd"]);
}

#[test]
fn ray_says_whom_it_killed_for_memory() {
    let log = "ray.exceptions.RayTaskError(OutOfMemoryError): ray::Runner.run() (pid=30, ip=10.0.0.3, actor_id=27)\n  File \"/w/train.py\", line 915, in run\n    init()\n\
        ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.\n\
        Memory on the node (IP: 10.0.0.3, ID: db89) where the lease (lease ID: 01, name=WorkerDict_0:0, pid=3048, memory used=49.21GB) was running was 59.84GB / 62.51GB (0.957), which exceeds the memory usage threshold of 0.95.\n";
    holds(
        log,
        &["Ray killed WorkerDict_0:0 (pid 3048, which had 49.21GB) on 10.0.0.3: the node's memory ran out (59.84GB of 62.51GB used)"],
    );
}

/// The monitor ends its process because of what failed, whatever its own words are.
#[test]
fn a_monitor_hides_no_cause() {
    let monitor = "[rank1]:[F919 07:00:13.418192811 ProcessGroupNCCL.cpp:1653] [PG ID 0 PG GUID 0(default_pg) Rank 1] [PG ID 0 PG GUID 0(default_pg) Rank 1] Terminating the process after attempting to dump debug info, due to ProcessGroupNCCL watchdog hang.\n";
    let raised = "[rank0]: Traceback (most recent call last):\n[rank0]:   File \"/w/train.py\", line 20, in main\n[rank0]: KeyError: 'k'\n";
    holds(&format!("{raised}{monitor}"), &["FAIL (code) rank 0: KeyError: 'k'"]);
    let oom = "[rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 15.89 GiB of which 1.20 GiB is free.\n";
    holds(&format!("{raised}{oom}{monitor}").replace("KeyError: 'k'\n[rank0]: ", ""), &["CUDA out of memory"]);
}

/// Heads of several ranks may stand together, each before the stacks of all.
#[test]
fn a_stack_of_another_call_is_none_of_this_one() {
    let head = |rank: u32, call: &str| {
        format!(
            "MPICH ERROR [Rank {rank}] [job id 41.0] [Tue Dec 12 17:52:24 2026] [node-{rank}] - Abort(404) (rank {rank} in comm 0): Fatal error in {call}: Other MPI error, error stack:\n"
        )
    };
    let stack = "PMPI_Waitall(163)....: MPI_Waitall(count=2) failed\nMPIDI_OFI_handle_cq_error(34): OFI poll failed (ofi_events.c:34:MPIDI_OFI_handle_cq_error:Input/output error)\n";
    lacks(&format!("{}{}{stack}", head(5, "PMPI_Waitall"), head(7, "PMPI_Allreduce")), &["PMPI_Allreduce failed: Input/output error"]);
    let tagged: String = format!("{}{stack}", head(5, "PMPI_Waitall")).lines().map(|line| format!("[1,5]<stderr>:{line}\n")).collect();
    holds(&tagged, &["PMPI_Waitall failed: Input/output error"]);
}

#[test]
fn a_server_that_was_shut_down_does_not_answer() {
    let up = "INFO 03-19 06:44:31 metrics.py:349] Avg prompt throughput: 0.0 tokens/s, Avg generation throughput: 0.0 tokens/s, Running: 0 reqs\n";
    holds(up, &["serving the last: Avg prompt throughput: 0.0 tokens/s"]);
    holds("INFO:     Application startup complete.\n", &["server up; no request is told of"]);
    let end = format!("{up}INFO:     Shutting down\nINFO:     Application shutdown complete.\n");
    holds(&end, &["server it was up, and was shut down"]);
    lacks(&end, &["server up"]);
    let rollouts = format!("step 1 | loss 2.5\n{up}step 2 | loss 2.4\n");
    lacks(&rollouts, &["server"]);
}

#[test]
fn another_rank_that_failed_at_the_same_place_is_named_with_its_words() {
    let failed = |rank: u32, what: &str| {
        format!(
            "[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File \"/job/train.py\", line 41, in main\n[rank{rank}]:     check(weights)\n\
             [rank{rank}]:   File \"/job/weights.py\", line 9, in check\n[rank{rank}]:     raise ValueError(f\"no device for {{name}}\")\n\
             [rank{rank}]: ValueError: no device for {what}\n"
        )
    };
    let log = failed(1, "layers.0.weight") + &failed(0, "embed.weight");
    holds(
        &log,
        &["said by rank 1; rank 0 at the same place, too: no device for embed.weight", "calls main (train.py:41) > check (weights.py:9)"],
    );
    let elsewhere = failed(0, "embed.weight").replace("line 9", "line 12");
    lacks(&(failed(1, "layers.0.weight") + &elsewhere), &["at the same place"]);
}

#[test]
fn who_only_hands_a_dump_on_does_not_wait() {
    let status = |rank: u32, id: u32, group: &str, seq: &str, enqueued: u32, completed: u32| {
        format!(
            "[rank{rank}]:[E510 10:00:00.100 ProcessGroupNCCL.cpp:2271] [PG ID {id} PG GUID {id}({group}) Rank {rank}]  failure detected by watchdog at work \
             sequence id: {seq} PG status: last enqueued work: {enqueued}, last completed work: {completed}\n"
        )
    };
    let caught = "[rank0]:[E510 10:00:00.100 ProcessGroupNCCL.cpp:632] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=7, \
                  OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n";
    let handed_on = status(1, 0, "default_pg", "18446744073709551615", 1, 1) + &status(2, 0, "default_pg", "1", 1, 1);
    let log = caught.to_owned() + &status(0, 1, "tp0", "7", 9, 6) + &handed_on;
    holds(&log, &["last completed 6, last enqueued 9"]);
    lacks(&log, &["first collective", "is behind", "wait in it", "18446744073709551615"]);
}

#[test]
fn a_full_gpu_of_an_older_pytorch_tells_what_others_hold() {
    let log = "RuntimeError: CUDA out of memory. Tried to allocate 984.00 MiB (GPU 0; 47.50 GiB total capacity; 22.15 GiB already allocated; \
               68.88 MiB free; 22.16 GiB reserved in total by PyTorch)\n";
    holds(log, &["PyTorch used 22.15 GiB in this process, and 25.27 GiB were held beside it"]);
}

#[test]
fn an_abort_behind_an_interrupt_is_no_crash() {
    let abort = "FatalError: `Process abort signal` is detected by the operating system.\n";
    holds(abort, &["FAIL a process of Paddle ended itself by abort()"]);
    let log =
        format!("Traceback (most recent call last):\n  File \"/job/train.py\", line 9, in main\n    step()\nKeyboardInterrupt\n{abort}");
    holds(&log, &["WARN interrupted by Ctrl-C"]);
}

#[test]
fn copies_of_a_test_that_ran_alone_measured_nothing() {
    let row = |size: u64, us: f64| {
        let algbw = size as f64 / us / 1e3;
        format!(
            "{size:>12} {:>12}     float     sum      -1  {us:>8.1} {algbw:>7.2}    0.00      0     0.42  {:>8.2}    0.00      0\n",
            size / 4,
            algbw * 90.0
        )
    };
    let copies: String = [33_554_432, 67_108_864, 33_554_432, 67_108_864].iter().map(|size| row(*size, *size as f64 / 2.2e5)).collect();
    let end = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n";
    holds(
        &format!("{copies}{end}"),
        &["WARN nccl-tests: several copies of it ran, each alone with one rank: nothing was measured between GPUs"],
    );
    let one: String = [33_554_432, 67_108_864].iter().map(|size| row(*size, *size as f64 / 2.2e5)).collect();
    let one = format!("{one}{end}");
    holds(&one, &["OK nothing wrong was found", "nccl-tests ran with one rank: nothing was measured between GPUs"]);
}

#[test]
fn a_level_that_falls_at_a_size_and_stays_is_told_and_a_slope_is_not() {
    let table = |busbw: [f64; 8]| {
        let rows = busbw.iter().enumerate().map(|(i, busbw)| {
            let size = (64_u64 << 20) << i;
            let us = size as f64 / busbw / 1e3;
            format!("{size:>12} {:>12}     float    none       0  {us:>8.1} {busbw:>7.2} {busbw:>7.2}      0  {us:>8.1} {busbw:>7.2} {busbw:>7.2}      0\n", size / 4)
        });
        format!("{}# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 9\n", rows.collect::<String>())
    };
    let falls = table([18.2, 18.4, 18.1, 18.3, 9.4, 9.1, 9.2, 9.0]);
    holds(&falls, &["WARN", "bus bandwidth falls at 1 GiB from 18.3 to 9.4 GB/s, and stays there up to 8 GiB"]);
    lacks(&table([18.2, 18.4, 18.1, 18.3, 12.4, 10.1, 8.2, 7.0]), &["stays there up to"]);
    lacks(&table([18.2, 18.4, 18.1, 18.3, 17.4, 17.1, 17.2, 17.0]), &["bus bandwidth falls"]);
}

#[test]
fn nobody_is_acquitted_who_may_be_among_those_that_the_launcher_ended() {
    let log = |name: &str| {
        let path = format!("{}/tests/fixtures/logs/{name}.log", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).expect("the log of a run")
    };
    // Its lines name no process of a rank.
    holds(&log("mismatch"), &["the launcher ended 8 processes by SIGTERM", "which follows from it"]);
    // Here they do: and nobody looks at a process that was ended.
    holds(&log("hang"), &["the launcher ended 7 other processes by SIGTERM", "read what rank 3 printed last"]);
}
