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
fn holds(log: &str, texts: &[&str]) {
    let page = page(log);
    let missing: Vec<_> = texts.iter().filter(|text| !page.contains(**text)).collect();
    assert!(missing.is_empty(), "{missing:?} not in:\n{page}");
}

fn lacks(log: &str, texts: &[&str]) {
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
            "torchrun, 2 nodes of 4 processes, rendezvous at head-0:2222, up to 3 restarts",
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
    holds(&log, &["ValueError: odd shard what"]);
}
