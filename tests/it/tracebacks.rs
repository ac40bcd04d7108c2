//! Tracebacks of Python as ranks print them, alone, mixed and chained.

use nccl_top::logs::{Reader, TextEvent, What};

fn run(text: &str) -> Vec<TextEvent> {
    let mut reader = Reader::default();
    let mut out = Vec::new();
    for l in text.lines() {
        reader.line(l, &mut out);
    }
    reader.idle(&mut out);
    assert!(!reader.is_inside());
    // Which launcher it was follows from names in tracebacks, too.
    out.retain(|e| !matches!(e.what, What::Step(_) | What::Launch(_)));
    out
}

fn exceptions(text: &str) -> Vec<(Option<u32>, String, String, bool)> {
    run(text)
        .into_iter()
        .map(|e| match e.what {
            What::Exception(x) => (e.origin.rank, x.class, x.message, x.victim),
            What::CudaOom { text, .. } => (e.origin.rank, "OOM".into(), text, false),
            What::CudaError { text } => (e.origin.rank, "CUDA".into(), text, false),
            other => panic!("{other:?}"),
        })
        .collect()
}

fn one(text: &str) -> (Option<u32>, String, String, bool) {
    let mut all = exceptions(text);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

const TB: &str = "Traceback (most recent call last):\n  File \"/w/train.py\", line 75, in <module>\n    fault(step)\n";

fn tb(last: &str) -> String {
    format!("{TB}{last}\n")
}

fn prefixed(prefix: &str, text: &str) -> String {
    text.lines().map(|l| if l.is_empty() { "\n".into() } else { format!("{prefix}{l}\n") }).collect()
}

#[test]
fn a_logger_heads_only_the_first_line_of_a_record() {
    let of_logger = "[2026-02-21 22:59:28 TP3] Scheduler hit an exception: Traceback (most recent call last):\n  File \"/w/s.py\", line 8, in loop\n                         step()\nRuntimeError: no such request\n";
    let whose = |text: &str| one(text);
    assert_eq!(whose(of_logger), (Some(3), "RuntimeError".into(), "no such request".into(), false));
    // Glued behind another program's line, too.
    let glued = format!("Extension modules: numpy.core, numpy.random{of_logger}");
    assert_eq!(whose(&glued).0, Some(3));
    // Frames of another process do not belong to a head that has frames of its own.
    let own = "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/w/s.py\", line 8, in loop\n  File \"/w/t.py\", line 9, in other\n[rank3]: RuntimeError: mine\n";
    assert_eq!(one(own), (Some(3), "RuntimeError".into(), "mine".into(), false));
    // Errors of bindings are named as they like.
    assert_eq!(one(&tb("acme._bindings.acmeBackendError: ACME_ERR")).1, "acme._bindings.acmeBackendError");
}

#[test]
fn the_last_unindented_line_counts() {
    assert_eq!(one(&tb("ValueError: boom: 3")), (None, "ValueError".into(), "boom: 3".into(), false));
    assert_eq!(one(&prefixed("[rank5]: ", &tb("ValueError: bad sample"))), (Some(5), "ValueError".into(), "bad sample".into(), false));
    assert_eq!(one(&tb("SystemExit: 3")).1, "SystemExit");
    assert_eq!(
        one(&tb("torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError")).1,
        "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError"
    );
    assert_eq!(one(&tb("_queue.Empty")).1, "_queue.Empty");
    assert_eq!(one(&tb("__main__.main.<locals>.Boom: x")).1, "__main__.main.<locals>.Boom");
    assert_eq!(one(&prefixed("[1,3]<stderr>:", &tb("KeyError: 'x'"))).0, Some(3));
    assert_eq!(one(&prefixed("(Worker pid=7, ip=10.0.0.1) ", &tb("KeyError: 'x'"))).1, "KeyError");
}

#[test]
fn the_place_is_the_last_frame() {
    let got = run(&format!("{TB}  File \"/w/train.py\", line 58, in fault\n    raise ValueError(\"bad\")\nValueError: bad\n"));
    let What::Exception(x) = &got[0].what else { panic!("{got:?}") };
    assert_eq!(x.place.as_deref(), Some("File \"/w/train.py\", line 58, in fault"));
}

/// The library rich draws a box, and marks the line that was run among those around it.
#[test]
fn the_source_in_a_box_is_the_marked_line() {
    let lines = [
        "╭─────────────────── Traceback (most recent call last) ────────────────────╮",
        "│ /w/train.py:12 in <module>                                               │",
        "│                                                                          │",
        "│    9 if __name__ == '__main__':                                          │",
        "│ ❱ 12 │   main()                                                          │",
        "│                                                                          │",
        "│ /w/train.py:55 in reshape                                                │",
        "│                                                                          │",
        "│    54 │   x = batch.tokens                                               │",
        "│ ❱  55 │   y = x.view(8, -1)                                              │",
        "│    56 │   return y                                                       │",
        "╰──────────────────────────────────────────────────────────────────────────╯",
        "RuntimeError: shape '[8, -1]' is invalid for input of size 13",
    ];
    for prefix in ["", "[rank1]: "] {
        let got = run(&lines.map(|line| format!("{prefix}{line}\n")).concat());
        let said = got[0].said_at.as_ref().unwrap();
        assert_eq!(said.raised_at.as_deref(), Some("File \"/w/train.py\", line 55, in reshape"));
        assert_eq!(said.source.as_deref(), Some("y = x.view(8, -1)"), "{prefix}");
    }
}

#[test]
fn other_lines_in_between_do_no_harm() {
    let text = format!("{TB}step 3 | loss 2.0\nvm:1:1 [0] NCCL INFO x\nINFO: hello\nloss: 2\nValueError: boom\n");
    assert_eq!(one(&text).1, "ValueError");
}

#[test]
fn several_ranks_at_once() {
    let a = prefixed("[rank1]: ", &tb("ValueError: a"));
    let b = prefixed("[rank2]: ", &tb("KeyError: 'b'"));
    let mixed: String = a.lines().zip(b.lines()).map(|(x, y)| format!("{x}\n{y}\n")).collect();
    let mut got = exceptions(&mixed);
    got.sort();
    assert_eq!(got.iter().map(|e| (e.0, e.1.as_str())).collect::<Vec<_>>(), [(Some(1), "ValueError"), (Some(2), "KeyError")]);
}

#[test]
fn processes_without_a_prefix_are_counted() {
    let text = format!("{TB}{TB}ValueError: a\nValueError: b\n");
    assert_eq!(exceptions(&text).len(), 2);
    let text = format!("{}{}", tb("ValueError: a"), tb("ValueError: b"));
    assert_eq!(exceptions(&text).len(), 2);
}

#[test]
fn of_a_chain_only_the_last_is_told() {
    for between in [
        "During handling of the above exception, another exception occurred:",
        "The above exception was the direct cause of the following exception:",
    ] {
        let chain = format!("{}\n{between}\n\n{}", tb("KeyError: 'a'"), tb("RuntimeError: b"));
        assert_eq!(one(&chain).1, "RuntimeError");
        assert_eq!(one(&prefixed("[rank4]: ", &chain)).1, "RuntimeError");
    }
    let loader = format!(
        "{}Original Traceback (most recent call last):\n  File \"w.py\", line 3, in _worker_loop\n    x\nOSError: [Errno 24] Too many open files\n",
        tb("OSError: Caught OSError in DataLoader worker process 0.")
    );
    assert_eq!(one(&loader).2, "[Errno 24] Too many open files");
}

#[test]
fn a_cuda_failure_replaces_the_exception_also_when_chained() {
    assert_eq!(one(&tb("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 8.00 GiB. GPU 5")).1, "OOM");
    assert_eq!(one(&tb("RuntimeError: CUDA error: an illegal memory access was encountered\nCUDA kernel errors might be")).1, "CUDA");
    assert_eq!(one(&tb("torch.AcceleratorError: CUDA error: device-side assert triggered")).1, "CUDA");
    let chain = format!(
        "{}\nDuring handling of the above exception, another exception occurred:\n\n{}",
        tb("torch.OutOfMemoryError: CUDA out of memory. x"),
        tb("RuntimeError: cleanup failed")
    );
    assert_eq!(one(&chain).1, "OOM");
}

#[test]
fn nccl_errors_take_their_three_lines_along() {
    let text = tb(
        "torch.distributed.DistBackendError: NCCL error in: /p/ProcessGroupNCCL.cpp:3135, remote process exited or there was a network error, NCCL version 2.28.9\nncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\nLast error:\nsocketProgressOpt: Call to recv from 10.1.1.5<49901> failed : Broken pipe",
    );
    let (_, class, message, victim) = one(&text);
    assert_eq!(class, "torch.distributed.DistBackendError");
    assert!(victim && message.ends_with("Broken pipe"), "{message}");
    let text = tb(
        "torch.distributed.DistBackendError: NCCL error in: /p/P.cpp:3135, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.28.9\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nBootstrap : no socket interface found\nnot mine",
    );
    let (_, _, message, victim) = one(&text);
    assert!(!victim && message.ends_with("no socket interface found"), "{message}");
}

#[test]
fn victims() {
    for last in [
        "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: ",
        "torch.distributed.elastic.multiprocessing.api.SignalException: Process 3378 got signal: 15",
        "KeyboardInterrupt",
        "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
        "torch.distributed.DistNetworkError: Connection was likely closed. Did the remote server shutdown or crash?",
        "RuntimeError: [/g/transport/tcp/pair.cc:561] Connection closed by peer [10.0.0.3]:21925.",
        "ConnectionResetError: [Errno 104] Connection reset by peer",
        "RuntimeError: Broken pipe",
    ] {
        assert!(one(&tb(last)).3, "{last}");
    }
    for last in [
        "ValueError: x",
        "torch.distributed.DistNetworkError: port: 29500, name: EADDRINUSE, message: address already in use",
        "SystemExit: 1",
    ] {
        assert!(!one(&tb(last)).3, "{last}");
    }
}

#[test]
fn survived_exceptions_and_indented_tracebacks_are_not_told() {
    assert_eq!(exceptions(&format!("Exception ignored in: <function A.__del__ at 0x7f>\n{}", tb("AttributeError: x"))), []);
    assert_eq!(exceptions(&format!("  traceback : {}", tb("  ValueError: x"))), []);
    assert_eq!(exceptions("ValueError: no traceback before it\n"), []);
}

#[test]
fn the_last_line_waits_for_a_chain_but_not_for_long() {
    let mut reader = Reader::default();
    let mut out = Vec::new();
    for l in prefixed("[rank1]: ", &tb("ValueError: a")).lines() {
        reader.line(l, &mut out);
    }
    assert_eq!(out, []);
    for _ in 0..20 {
        reader.line("[rank2]: x", &mut out);
    }
    assert_eq!(out.len(), 1);
}

#[test]
fn what_never_ends_is_forgotten() {
    let mut reader = Reader::default();
    let mut tell = |line: &str, times: usize| {
        (0..times).for_each(|_| reader.line(line, &mut Vec::new()));
        reader.is_inside()
    };
    assert!((0..1000).all(|rank| tell(&format!("[rank{rank}]: Traceback (most recent call last):"), 1)));
    assert!(!tell("x", 4000), "all of them");
    assert!(tell("Traceback (most recent call last):", 1));
    assert!(!tell("same prefix", 4000));
}

#[test]
fn of_very_many_at_once_some_are_kept() {
    let begin = |rank| format!("[rank{rank}]: Traceback (most recent call last):\n");
    let end = |rank| format!("[rank{rank}]: ValueError: x\n");
    let text: String = (0..1000).map(begin).chain((0..1000).map(end)).collect();
    let kept = exceptions(&text).len();
    assert!((64..=256).contains(&kept), "{kept}");
}

#[test]
fn errors_of_nccl_without_their_head() {
    let (rank, class, message, _) =
        one("[rank4]: ncclInternalError: Internal check failed.\n[rank4]: Last error:\n[rank4]: Proxy Call to rank 2 failed (Setup)\n");
    assert_eq!((rank, class.as_str()), (Some(4), "ncclInternalError"));
    assert!(message.ends_with("Last error:\nProxy Call to rank 2 failed (Setup)"), "{message}");
    let (_, class, message, _) = one(
        ".DistBackendError: NCCL error in: /b/P.cpp:17, invalid usage (run with NCCL_DEBUG=WARN for details), NCCL version 2.19.3\nncclInvalidUsage: This usually reflects invalid usage of NCCL library.\nLast error:\nDuplicate GPU detected : rank 1 and rank 0 both on CUDA device f000\n",
    );
    assert_eq!(class, ".DistBackendError");
    assert!(message.contains("Last error:\nDuplicate GPU"), "{message}");
    assert_eq!(exceptions("the ncclInternalError: is no error here\n"), []);
}
