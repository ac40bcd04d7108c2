//! Heads that loggers and launchers put before a line, and ranks that paths of logs name.

use nccl_top::logs::prefix::{peel, records};
use nccl_top::model::chronicle::{PathRank, rank_of_path};

fn show(line: &str) -> String {
    let p = peel(line);
    let o = &p.origin;
    let mut s = String::new();
    for (name, v) in [("rank", o.rank), ("local", o.local_rank), ("pid", o.pid), ("tid", o.tid)] {
        if let Some(v) = v {
            s += &format!("{name}={v} ");
        }
    }
    if let Some(h) = &o.host {
        s += &format!("host={h} ");
    }
    if let Some(w) = &o.written {
        s += &format!("at={}-{} {}:{}:{} ", w.month, w.day, w.hour, w.minute, w.second);
    }
    s + "|" + p.rest
}

#[test]
fn every_prefix_of_the_table_is_peeled() {
    for (line, want) in [
        ("[default3]:text", "local=3 |text"),
        ("[trainer3]:text", "local=3 |text"),
        ("[rank3]: text", "rank=3 |text"),
        ("[rank3]:[E1206 18:44:12.715298746 ProcessGroupNCCL.cpp:607] text", "rank=3 at=12-6 18:44:12 |text"),
        ("[rank1]:[E ProcessGroupNCCL.cpp:563] text", "rank=1 |text"),
        ("[E ProcessGroupNCCL.cpp:474] text", "|text"),
        ("E1120 12:00:00.123456 31799 ProcessGroupNCCL.cpp:1234] text", "tid=31799 at=11-20 12:0:0 |text"),
        ("W1121 00:10:00.838000 31792 torch/distributed/run.py:1028] text", "pid=31792 at=11-21 0:10:0 |text"),
        ("W0418 00:10:00.838000 140737353987072 torch/distributed/run.py:757] text", "at=4-18 0:10:0 |text"),
        ("[2024-04-18 10:46:28,089] torch.distributed.run: [WARNING] x", "at=4-18 10:46:28 |torch.distributed.run: [WARNING] x"),
        ("[2026-09-11 17:52:18,030] [INFO] [logging.py:96:log_dist] text", "at=9-11 17:52:18 |text"),
        ("2026-04-13 13:53:31.851506: W tensorflow/core/data.cc:588] text", "at=4-13 13:53:31 |text"),
        ("2026-04-13 13:53:31.851506: W tensorflow said", "at=4-13 13:53:31 |W tensorflow said"),
        ("[1,0]<stderr>:[2026-04-13 13:53:31.851506: W horovod/common/operations.cc:588] text", "rank=0 at=4-13 13:53:31 |text"),
        ("[2026-03-04 19:28:30,014 E 27497 27511] logging.cc:113: text", "at=3-4 19:28:30 |logging.cc:113: text"),
        ("Mar 27 17:40:36 kernel: NVRM: text", "at=3-27 17:40:36 |NVRM: text"),
        ("[1,12]<stdout>:text", "rank=12 |text"),
        ("[1,12]<stderr>:", "rank=12 |"),
        ("2026-01-15 22:41:16 UTC master.0 -- [1,12]<stderr>:text", "rank=12 at=1-15 22:41:16 |text"),
        ("[1200] accuracy=0.61, loss=2.31", "|[1200] accuracy=0.61, loss=2.31"),
        ("[12] loss=2.31 and more", "rank=12 |loss=2.31 and more"),
        ("Mon Jan  2 15:04:05 2026[1,0]<stdout>:text", "rank=0 at=1-2 15:4:5 |text"),
        ("[3] text", "rank=3 |text"),
        ("[80746] text", "|text"),
        ("3: text", "rank=3 |text"),
        ("  12: text", "rank=12 |text"),
        ("10.0.3.7: text", "host=10.0.3.7 |text"),
        ("worker-1: text", "host=worker-1 |text"),
        ("host-0: host-0: text", "host=host-0 |text"),
        ("worker-1 | text", "host=worker-1 |text"),
        ("nvidia-nvswitch3: SXid (PCI)", "|nvidia-nvswitch3: SXid (PCI)"),
        ("2026-05-04 10:00:00.123\tnode3:1\tolmo_core.train.trainer:648\tERROR\ttext", "local=1 host=node3 at=5-4 10:0:0 |text"),
        (
            "2026-05-04 10:00:00.123\tnode3:1\tolmo_core.train.trainer:648\tso\ttext",
            "|2026-05-04 10:00:00.123\tnode3:1\tolmo_core.train.trainer:648\tso\ttext",
        ),
        ("2026-05-05 11:15:48,190 ERROR [train.py:1104] (2/4) text", "rank=2 at=5-5 11:15:48 |text"),
        ("2026-05-05 11:15:48,190 ERROR [train.py:1104] (5/4) text", "at=5-5 11:15:48 |ERROR [train.py:1104] (5/4) text"),
        ("[rank: 2] text", "rank=2 |text"),
        ("[RANK 3] text", "rank=3 |text"),
        ("(RayWorkerWrapper pid=248, ip=10.0.3.8) text", "pid=248 host=10.0.3.8 |text"),
        ("(main_task pid=9) (Worker pid=10)[0m text", "pid=10 |text"),
        ("(EngineCore_DP0 pid=2301) text", "pid=2301 |text"),
        ("[pod/job-0/trainer] text", "host=job-0 |text"),
        ("2026-05-16T16:39:51.208Z text", "at=5-16 16:39:51 |text"),
        ("2026-11-09 15:39:31.043 +08:00 text", "at=11-9 15:39:31 |text"),
        ("  | 2026-05-16T16:39:51.208-07:00 | text", "at=5-16 16:39:51 |text"),
        ("09/26/2026 12:00:00 - INFO - __main__ - text", "at=9-26 12:0:0 |text"),
        ("[rank0]:[titan] 2026-06-16 22:30:50,322 - root - INFO - step: 2", "rank=0 at=6-16 22:30:50 |step: 2"),
        ("[NeMo I 2026-05-01 12:00:00 exp_manager:396] text", "at=5-1 12:0:0 |text"),
        ("[default0]:[rank4]: text", "rank=4 local=0 |text"),
        ("[my_role.v2-7]:text", "local=7 |text"),
        ("[1,3]<stddiag>:text", "rank=3 |text"),
        ("[prterun-node01-4711@1,3]<stdout>: text", "rank=3 |text"),
        ("[1,mpirank:5,algo-2]<stdout>:text", "rank=5 host=algo-2 |text"),
        ("(WorkerDict pid=90) text [repeated 7x across cluster]", "pid=90 |text"),
        ("(pid=90)[0m text[32m [repeated 31x across cluster][0m", "pid=90 |text"),
        ("(main_task pid=9) text [repeated 2x across cluster] (Ray deduplicates logs by default.)", "pid=9 |text"),
        ("(VllmWorker rank=3 pid=2301) text", "rank=3 pid=2301 |text"),
        ("worker-1     | text", "host=worker-1 |text"),
        ("algo-1-abc12  | text", "host=algo-1-abc12 |text"),
        ("llama-worker-0 pytorch text", "host=llama-worker-0 |text"),
        ("Nov 21 00:05:26 node-01 python3[1234]: text", "host=node-01 at=11-21 0:5:26 |text"),
        ("Nov 21 00:05:26 node-01 kernel: text", "host=node-01 at=11-21 0:5:26 |text"),
        ("2026-11-21T00:05:26+0000 gpu2 kernel: [ 1843.308148] text", "host=gpu2 at=11-21 0:5:26 |text"),
        ("Nov  1 00:05:26 gpu2 dockerd[1]: [rank3]: text", "rank=3 host=gpu2 at=11-1 0:5:26 |text"),
        ("2026-11-21T00:05:26+0000 gpu2 srun[88]: 3: text", "rank=3 host=gpu2 at=11-21 0:5:26 |text"),
        ("2024-12-04T07:19:43.480Z", "at=12-4 7:19:43 |"),
        ("[worker2|6]:text", "local=6 |text"),
        ("1.812345678e+09 INFO events text of it", "|text of it"),
        ("[worker2|6]: 3%|| 4/9 [00:01<00:02][worker2|6]:", "local=6 |3%|| 4/9 [00:01<00:02]"),
        ("[0m node-3:71:72 [0] NCCL INFO x", "|node-3:71:72 [0] NCCL INFO x"),
        ("[1;36m(Worker pid=7) text", "pid=7 |text"),
        ("worker/3 [5]:[W socket.cpp:558] text", "local=5 |text"),
        ("[  812.004711] NVRM: text", "|NVRM: text"),
        ("[Tue Nov 18 04:05:06 2026] NVRM: text", "at=11-18 4:5:6 |NVRM: text"),
        ("[2026-02-03T04:05:06.123456Z] 0a1b2c3d || text", "at=2-3 4:5:6 |text"),
        ("2026-02-03T04:05:06.123Z: [1,9]<stdout>:text", "rank=9 at=2-3 4:5:6 |text"),
        ("[Rank 6] text", "rank=6 |[Rank 6] text"),
        ("Rank 6: text", "rank=6 |Rank 6: text"),
        ("rank 6/8 | text", "rank=6 |rank 6/8 | text"),
        ("Rank 6: ValueError: text", "rank=6 |ValueError: text"),
        ("[GPU 6] text", "local=6 |[GPU 6] text"),
        ("Rank 6 died, text", "|Rank 6 died, text"),
        ("rank 0, 1 and 2: text", "|rank 0, 1 and 2: text"),
        ("Ranks 6: text", "|Ranks 6: text"),
        ("2026-02-03 04:05:06.123456: text", "at=2-3 4:5:6 |text"),
        ("  | 2026-02-03T04:05:06.123-07:00twice | twice", "at=2-3 4:5:6 |twice"),
        ("2026-05-16T16:39:51.208Z [1,3]<stdout>:[rank3]: text", "rank=3 at=5-16 16:39:51 |text"),
    ] {
        assert_eq!(show(line), want, "{line}");
    }
}

#[test]
fn what_only_looks_like_a_prefix_stays() {
    for line in [
        "ValueError: boom",
        "loss: 2.3",
        "step 10: x",
        "Epoch 0: x",
        "  File \"x.py\", line 1",
        "[100/5000] loss: 2.31",
        "[batch=1/100]:",
        "(see above)",
        "0.5: x",
        "E = mc2",
        "W1121 torn",
        "[E112",
        "[",
        "[0] NCCL INFO torn",
        "step-100: loss",
        "gpt-2 model loaded",
        "May be 00:05",
        "text [repeated twice]",
        "[1,2] text",
    ] {
        assert_eq!(show(line), format!("|{line}"));
    }
}

#[test]
fn indentation_survives() {
    assert_eq!(peel("[rank5]:   File \"x\"").rest, "  File \"x\"");
    assert_eq!(peel("3:   File \"x\"").rest, "  File \"x\"");
}

#[test]
fn records_of_all_kinds_are_seen_behind_other_text() {
    for glued in [
        "x[E ProcessGroupNCCL.cpp:458] [Rank 0] W",
        "x[W1121 00:03:18.105 reducer.cpp:1502] W",
        "x[rank1]: y",
        "xERROR:torch.distributed.run:y",
        "x[2026-11-02 06:07:16,494] [INFO] y",
        "xE1121 00:05:26.947000 3 a:9] y",
    ] {
        assert_eq!(records(glued).len(), 2, "{glued}");
    }
}

#[test]
fn glued_records_are_cut_apart() {
    assert_eq!(
        records("Epoch 0:   6%|█ | 3/50 [6:28<94:39:17,  1.37it/s][E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog"),
        ["Epoch 0:   6%|█ | 3/50 [6:28<94:39:17,  1.37it/s]", "[E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog"]
    );
    assert_eq!(records("[default0]:[rank0]:[E1206 18:44:12.71 a.cpp:6] x").len(), 1);
    assert_eq!(records("[rank1]: Trace[rank2]: Trace"), ["[rank1]: Trace", "[rank2]: Trace"]);
    assert_eq!(records("text[rank0]:[W1121 00:03:18.105 reducer.cpp:1502] W[rank3]:[W1121 00:03:18.105 r.cpp:1] V").len(), 3);
    assert_eq!(records("  9%|▉ | 4/40 [0:22<1:02, 2.80s/it]WARNING:torch.distributed.run:x").len(), 2);
    assert_eq!(records("9/40 [0:22<1:02, 3.33s/it][2026-11-02 06:07:16,494] [INFO] [logging.py:69:log_dist] x").len(), 2);
    assert_eq!(records(""), [""]);
}

#[test]
fn paths_tell_ranks_where_launchers_put_them() {
    for (path, rank) in [
        ("/tmp/torchelastic_x/none_ab12cd34/attempt_0/3/stderr.log", Some(PathRank::Local(3))),
        ("logs/rank_12.log", Some(PathRank::Global(12))),
        ("logs/rank3/out.txt", Some(PathRank::Global(3))),
        ("logs/local_rank_5.log", Some(PathRank::Local(5))),
        ("logs/train.log", None),
        ("frank9.log", None),
        ("attempt_0/3/notes.txt", None),
    ] {
        assert_eq!(rank_of_path(path), rank, "{path}");
    }
}

#[test]
fn a_line_that_a_container_runtime_has_cut_is_read_as_one() {
    use nccl_top::logs::{Reader, What};
    const AT: &str = "2026-05-05T06:16:47.123456789Z";
    let lines = [
        format!("{AT} stderr P node-01:189884:189884 [3] plugin/net.cc:220 NCCL WARN Error: net"),
        format!("{AT} stdout F step 7 | loss 2.5"),
        format!("{AT} stderr P work F"),
        format!("{AT} stderr F OO not found."),
        format!("{AT} stderr F done"),
    ];
    let (mut reader, mut events) = (Reader::default(), Vec::new());
    let mut read = |reader: &mut Reader, line: &str| {
        reader.line(line, &mut events);
        std::mem::take(&mut events).into_iter().map(|event| event.what).collect::<Vec<_>>()
    };
    assert!(read(&mut reader, &lines[0]).is_empty() && reader.is_inside());
    assert!(matches!(read(&mut reader, &lines[1])[..], [What::Step(_)]), "the other stream goes on");
    assert!(read(&mut reader, &lines[2]).is_empty());
    let whole = read(&mut reader, &lines[3]);
    assert!(matches!(&whole[..], [What::NcclWarn { text, .. }] if text == "Error: network FOO not found."), "{whole:?}");
    assert!(read(&mut reader, &lines[4]).is_empty() && !reader.is_inside());
    // What never ends is read as far as it came.
    assert!(read(&mut reader, &format!("{AT} stderr P n:1:1 [0] x.cc:1 NCCL WARN half")).is_empty());
    reader.idle(&mut events);
    assert_eq!(events.len(), 1);
    // The parts of an endless line are bounded.
    for _ in 0..200 {
        reader.line(&format!("{AT} stdout P {}", "y".repeat(16 << 10)), &mut Vec::new());
    }
}
