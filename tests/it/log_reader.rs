//! Recorded logs, and hostile ones, through the reader.

use nccl_top::logs::prefilter::{self, Class};
use nccl_top::logs::{CollectiveTimeout, Phase, Reader, Step, TextEvent, What};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The lines of a recording as a tail gives them: cut at `\n` and `\r`.
fn lines(name: &str) -> Vec<String> {
    let path = format!("{}/tests/fixtures/logs/{name}.log", env!("CARGO_MANIFEST_DIR"));
    let bytes = std::fs::read(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    bytes.split(|b| matches!(b, b'\n' | b'\r')).map(|l| String::from_utf8_lossy(l).into_owned()).collect()
}

fn read<S: AsRef<str>>(lines: &[S]) -> Vec<TextEvent> {
    let (mut reader, mut out) = (Reader::default(), Vec::new());
    for l in lines {
        reader.line(l.as_ref(), &mut out);
    }
    reader.idle(&mut out);
    out
}

fn recording(name: &str) -> Vec<TextEvent> {
    read(&lines(name))
}

fn kind(what: &What) -> String {
    let text = format!("{what:?}");
    text[..text.find([' ', '(', '{']).unwrap_or(text.len())].to_string()
}

fn counts(events: &[TextEvent]) -> BTreeMap<String, usize> {
    let mut map = BTreeMap::new();
    for e in events {
        *map.entry(kind(&e.what)).or_insert(0) += 1;
    }
    map
}

fn steps(events: &[TextEvent]) -> Vec<&Step> {
    events.iter().filter_map(|e| if let What::Step(s) = &e.what { Some(s) } else { None }).collect()
}

/// Global rank and what timed out.
fn timeouts(events: &[TextEvent]) -> Vec<(Option<u32>, &CollectiveTimeout)> {
    let mut all: Vec<_> =
        events.iter().filter_map(|e| if let What::CollectiveTimeout(t) = &e.what { Some((e.origin.rank, t)) } else { None }).collect();
    all.sort_by_key(|(rank, _)| *rank);
    all
}

/// Global rank, enqueued, completed: the last that each rank said.
fn statuses(events: &[TextEvent]) -> Vec<(u32, u64, u64)> {
    let mut map = BTreeMap::new();
    for e in events {
        if let What::CollectiveStatus { enqueued, completed, .. } = &e.what {
            map.insert(e.origin.rank.unwrap(), (enqueued.unwrap(), completed.unwrap()));
        }
    }
    map.into_iter().map(|(r, (e, c))| (r, e, c)).collect()
}

/// Rank, exit code and signal of the table's root cause.
fn root_cause(events: &[TextEvent]) -> Vec<(Option<u32>, Option<i32>, Option<u32>)> {
    let root = |e: &TextEvent| match &e.what {
        What::WorkerFailure(f) if f.root => Some((f.rank, f.exit_code, f.pid)),
        _ => None,
    };
    events.iter().filter_map(root).collect()
}

fn exceptions(events: &[TextEvent]) -> Vec<(Option<u32>, &str, &str, bool)> {
    let exception = |e: &'_ TextEvent| match &e.what {
        What::Exception(x) => Some((e.origin.rank, x.victim)),
        _ => None,
    };
    events
        .iter()
        .filter_map(|e| {
            let (rank, victim) = exception(e)?;
            let What::Exception(x) = &e.what else { return None };
            Some((rank, x.class.rsplit('.').next()?, x.message.as_str(), victim))
        })
        .collect()
}

fn expect(events: &[TextEvent], want: &[(&str, usize)]) {
    let want: BTreeMap<String, usize> = want.iter().map(|(k, n)| (k.to_string(), *n)).collect();
    assert_eq!(counts(events), want);
}

#[test]
fn a_killed_worker() {
    let events = recording("kill");
    expect(
        &events,
        &[
            ("Exception", 1),
            ("Launch", 1),
            ("NcclVersion", 1),
            ("RunStart", 1),
            ("Step", 10),
            ("Terminating", 7),
            ("WorkerFailed", 1),
            ("WorkerFailure", 8),
        ],
    );
    assert_eq!(root_cause(&events), [(Some(5), Some(-9), Some(3239))]);
    assert!(events.iter().any(|e| e.what == What::WorkerFailed { exit_code: -9, local_rank: 5, pid: 3239 }));
    assert_eq!(exceptions(&events), [(None, "ChildFailedError", "", true)]);
    let (first, last) = (steps(&events)[0].clone(), steps(&events)[9].clone());
    assert_eq!((first.step, first.loss, first.throughput), (Some(0), Some(0.0), Some(123_512.0)));
    assert!(first.step_time_s.is_some_and(|t| (t - 0.2653).abs() < 1e-9));
    assert_eq!((last.step, last.throughput_unit), (Some(9), Some("tokens/s")));
    assert!(matches!(&events[1].what, What::NcclVersion { version, cuda } if version == "2.28.9" && cuda.as_deref() == Some("13.0")));
    let at = events.iter().find(|e| kind(&e.what) == "WorkerFailed").and_then(|e| e.origin.written.clone()).unwrap();
    assert_eq!((at.month, at.day, at.hour, at.minute, at.second, at.nanosecond), (11, 21, 0, 5, 26, 947_000_000));
}

#[test]
fn out_of_memory_is_told_before_the_launcher_speaks() {
    let events = recording("oom");
    let at = |k: &str| events.iter().position(|e| kind(&e.what) == k).unwrap();
    let oom = &events[at("CudaOom")];
    assert_eq!(oom.origin.rank, Some(5));
    assert!(
        matches!(&oom.what, What::CudaOom { tried_bytes: Some(b), text } if *b == 8 << 30 && text.starts_with("CUDA out of memory. Tried"))
    );
    assert_eq!(counts(&events)["CudaOom"], 1);
    assert!(at("CudaOom") < at("Terminating"));
    assert_eq!(exceptions(&events), [(None, "ChildFailedError", "", true)]);
    assert_eq!(root_cause(&events), [(Some(5), Some(1), Some(3761))]);
}

#[test]
fn a_python_exception() {
    let events = recording("python");
    assert_eq!(exceptions(&events), [(Some(5), "ValueError", "bad sample in shard 17", false), (None, "ChildFailedError", "", true)]);
    assert_eq!(root_cause(&events), [(Some(5), Some(1), Some(4247))]);
}

#[test]
fn a_loss_that_becomes_nan() {
    let events = recording("nan");
    expect(&events, &[("Done", 1), ("NcclVersion", 1), ("RunStart", 1), ("Step", 30)]);
    let first_nan = steps(&events).iter().find(|s| s.loss.is_some_and(f64::is_nan)).and_then(|s| s.step);
    assert_eq!(first_nan, Some(15));
    assert_eq!(steps(&events).iter().filter(|s| s.loss.is_some_and(f64::is_nan)).count(), 15);
}

#[test]
fn checkpoints_and_evaluations_pause_the_steps() {
    for (name, phase) in [("checkpoint", Phase::Checkpoint), ("evaluate", Phase::Evaluation)] {
        let mut events = recording(name);
        events.retain(|e| !e.what.is_header());
        let at: Vec<_> = events.iter().enumerate().filter(|(_, e)| kind(&e.what) == "Phase").collect();
        assert_eq!(at.len(), 2, "{name}");
        assert_eq!(at[0].1.what, What::Phase { phase, begins: true });
        assert_eq!(at[1].1.what, What::Phase { phase, begins: false });
        assert!(matches!(&events[at[0].0 - 1].what, What::Step(s) if s.step == Some(199)));
        assert!(matches!(&events[at[1].0 + 1].what, What::Step(s) if s.step == Some(200)));
        assert_eq!(events.last().unwrap().what, What::Done);
    }
}

#[test]
fn a_wrong_interface_name() {
    let events = recording("ifname");
    let warn = events.iter().find(|e| kind(&e.what) == "NcclWarn").unwrap();
    assert_eq!(warn.what, What::NcclWarn { site: Some("bootstrap.cc:114".into()), text: "Bootstrap : no socket interface found".into() });
    assert_eq!(
        (warn.origin.host.as_deref(), warn.origin.pid, warn.origin.written.as_ref().map(|w| w.second)),
        (Some("vm"), Some(6413), Some(31))
    );
    let all = exceptions(&events);
    assert_eq!((all[0].1, all[0].3), ("DistBackendError", false));
    assert!(all[0].2.ends_with("Bootstrap : no socket interface found"), "{}", all[0].2);
    assert!(events.iter().any(|e| e.what == What::EnvSet { name: "NCCL_SOCKET_IFNAME".into(), value: "nope0".into() }));
    assert_eq!(root_cause(&events), [(Some(0), Some(1), Some(6413))]);
}

#[test]
fn a_rank_that_stopped_calling() {
    let events = recording("hang");
    let all = timeouts(&events);
    assert_eq!(all.iter().map(|(r, _)| r.unwrap()).collect::<Vec<_>>(), [0, 1, 2, 4, 5, 6, 7]);
    for (_, t) in &all {
        assert_eq!((t.seq, t.op.as_deref(), t.numel_in, t.timeout_ms), (Some(236), Some("ALLREDUCE"), Some(16_781_312), Some(20_000)));
    }
    let want: Vec<_> = (0..8).map(|r| (r, if r == 3 { 235 } else { 247 }, 235)).collect();
    assert_eq!(statuses(&events), want);
    assert!(events.iter().any(|e| e.what == What::LauncherSignalled { signal: 15 }));
    assert_eq!(exceptions(&events), [(None, "SignalException", "Process 2839 got signal: 15", true)]);
    // Bring-up of eight ranks.
    let c = counts(&events);
    assert_eq!([c["Init"], c["Layout"], c["Connected"], c["Channels"], c["Bootstrap"]], [16, 8, 8, 8, 8]);
    let up: Vec<_> = events
        .iter()
        .filter_map(|e| match &e.what {
            What::Init(i) if i.complete => Some((i.rank, i.nranks, i.comm_id, e.origin.host.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(up.len(), 8);
    assert!(up.iter().all(|(r, n, id, host)| *r < 8 && *n == 8 && *id == Some(0xbe2d_e794_bcb5_9ec0) && host.as_deref() == Some("vm")));
}

#[test]
fn a_collective_of_another_size() {
    let events = recording("mismatch");
    let odd: Vec<_> = timeouts(&events).into_iter().filter(|(_, t)| t.numel_in != Some(16_781_312)).map(|(r, t)| (r, t.numel_in)).collect();
    assert_eq!(odd, [(Some(5), Some(7))]);
    assert_eq!(timeouts(&events).len(), 8);
    assert_eq!(statuses(&events)[5], (5, 128, 115));
}

#[test]
fn a_stopped_rank_says_nothing() {
    let events = recording("stop");
    assert_eq!(timeouts(&events).iter().map(|(r, _)| r.unwrap()).collect::<Vec<_>>(), [0, 1, 2, 3, 5, 6, 7]);
    assert!(statuses(&events).iter().all(|s| s.0 != 4));
}

#[test]
fn the_hf_trainer_with_its_bar() {
    let events = recording("hf");
    let all = steps(&events);
    let losses: Vec<_> = all.iter().filter(|s| s.loss.is_some()).map(|s| (s.loss, s.grad_norm, s.step)).collect();
    assert_eq!(losses.len(), 6);
    assert_eq!(losses[0], (Some(10.78), Some(1.873), None));
    let bars: Vec<_> = all.iter().filter(|s| s.bar).collect();
    assert_eq!(bars.iter().filter_map(|s| s.step).max(), Some(30));
    assert!(bars.iter().all(|s| s.total_steps == Some(30)));
    assert_eq!(bars[0].step_time_s, Some(1.99));
    let c = counts(&events);
    assert_eq!([c["Done"], c["CommEnded"], c["Init"]], [1, 8, 16]);
}

#[test]
fn two_hosts_over_sockets() {
    let events = recording("twohosts");
    let mut transports = BTreeMap::new();
    for e in &events {
        if let What::Channel { transport, receive, .. } = &e.what {
            *transports.entry((transport.as_str(), *receive)).or_insert(0) += 1;
        }
    }
    assert!(transports.contains_key(&("NET/Socket/0", false)) && transports.contains_key(&("NET/Socket/0", true)), "{transports:?}");
    let layout = events.iter().find(|e| kind(&e.what) == "Layout").unwrap();
    assert!(matches!(layout.what, What::Layout { nranks: 8, nnodes: 2, local_ranks: 4, .. }));
    assert_eq!(steps(&events).len(), 4);
}

/// A launcher's tags in front of every line change who speaks, not what is said.
#[test]
fn prefixes_change_nothing_but_the_origin() {
    for name in ["python", "kill", "nan"] {
        let plain = recording(name);
        for tag in
            ["2026-11-21T00:05:26.1Z ", "[default3]:", "[1,3]<stderr>:", "3: ", "[pod/job-0/trainer] ", "\x1b[36m(Worker pid=7)\x1b[0m "]
        {
            let tagged: Vec<String> = lines(name).iter().map(|l| format!("{tag}{l}")).collect();
            let mut tagged = counts(&read(&tagged));
            // Whose numbers are those of launchers is a thing of the tag.
            tagged.remove("TasksAreLaunchers");
            assert_eq!(tagged, counts(&plain), "{name} {tag:?}");
        }
    }
}

/// What was cut off, by the end of a file or by who pasted it, does not hide what a line says.
#[test]
fn lines_that_lack_an_end_or_a_head_are_read() {
    let one = |line: &str| read(&[line.to_owned()]).into_iter().map(|e| e.what).collect::<Vec<_>>();
    for end in [":", ": ", ": Work", ""] {
        let cut = one(&format!(
            "[rank5]:[E602 11:17:52.185053341 ProcessGroupNCCL.cpp:632] [Rank 5] Watchdog caught collective operation timeout{end}"
        ));
        let timeouts = cut.iter().filter(|what| matches!(what, What::CollectiveTimeout(t) if t.pg_rank == Some(5) && t.seq.is_none()));
        assert_eq!(timeouts.count(), 1, "{end:?}: {cut:?}");
    }
    let warns = |line: &str| one(line).iter().filter(|what| matches!(what, What::NcclWarn { .. })).count();
    assert_eq!(warns("NET/OFI Unexpected number of remote rails for dev 0. Expected 3 but got 2"), 1);
    assert_eq!(warns("NET/OFI Selected provider is efa, fabric is efa-direct (found 32 nics)"), 0);
    assert_eq!(warns("NET/OFI No eligible providers were found"), 0);
}

/// `srun -l` numbers tasks: ranks where each is one, launchers where each starts several.
#[test]
fn the_number_of_a_task_is_a_rank_unless_it_starts_several() {
    let traceback = ["1: Traceback (most recent call last):", "1:   File \"train.py\", line 3, in main", "1: ValueError: bad shape", "1: "];
    let ranks = |before: &[&str]| -> Vec<Option<u32>> {
        let lines: Vec<String> = before.iter().chain(&traceback).map(|line| line.to_string()).collect();
        read(&lines).iter().filter(|e| kind(&e.what) == "Exception").map(|e| e.origin.rank).collect()
    };
    let init = |pid: u32, rank: u32, id: &str| {
        format!(
            "1: node-2:{pid}:{pid} [{}] NCCL INFO ncclCommInitRank comm 0x7f{pid} rank {rank} nranks 16 cudaDev {0} nvmlDev {0} busId 1b000 commId {id} - Init START",
            rank % 8
        )
    };
    assert_eq!(ranks(&[]), [Some(1)]);
    // A rank of several threads, one that was started anew, and one whose child has a world of its own are ranks all the same.
    for one in [
        [init(6001, 1, "0xaa"), init(6001, 2, "0xaa")],
        [init(6001, 1, "0xaa"), init(7001, 1, "0xbb")],
        ["1: [rank0]: KeyError: 'x'".into(), "1: [rank1]: KeyError: 'x'".into()],
        [
            "1: node-2:6001:6001 [1] NCCL INFO cudaDriverVersion 12040".into(),
            "1: node-2:6001:6044 [0] misc/socket.cc:50 NCCL WARN socket".into(),
        ],
    ] {
        assert_eq!(ranks(&[&one[0], &one[1]]), [Some(1)], "{one:?}");
    }
    for several in [
        [init(6001, 8, "0xaa"), init(6002, 9, "0xaa")],
        ["1: W1121 00:10:00.838000 31792 torch/distributed/run.py:766] Setting OMP_NUM_THREADS environment variable for each process to be 1 in default".into(), String::new()],
        ["1: [rank8]: KeyError: 'x'".into(), "1: [rank9]: KeyError: 'x'".into()],
    ] {
        assert_eq!(ranks(&[&several[0], &several[1]]), [None], "{several:?}");
    }
}

#[test]
fn the_gate_lets_everything_through_that_a_reader_understands() {
    for name in ["kill", "oom", "python", "nan", "checkpoint", "evaluate", "ifname", "hang", "mismatch", "stop", "hf", "twohosts"] {
        let kept: Vec<String> = lines(name).into_iter().filter(|l| prefilter::classify(l.as_bytes()) != Class::Noise).collect();
        // Frames are only asked for where their head was read.
        let mut all = counts(&recording(name));
        all.remove("WorkStack");
        assert_eq!(counts(&read(&kept)), all, "{name}");
        let text = lines(name).join("\n");
        let mut sieve = prefilter::Sieve::new(text.as_bytes());
        let mut sieved = Vec::new();
        while let Some(line) = sieve.next_candidate().line {
            sieved.push(std::str::from_utf8(line).unwrap());
        }
        assert!(kept.iter().all(|k| sieved.contains(&k.trim_end_matches('\r'))), "{name}");
    }
}

fn every_line() -> Vec<String> {
    let mut all: Vec<String> =
        ["kill", "oom", "hang", "hf", "ifname", "mismatch", "nan", "checkpoint"].iter().flat_map(|n| lines(n)).collect();
    all.extend(
        [
            "[2026-09-11 17:52:18,030] [INFO] [logging.py:96:log_dist] [Rank 0] step=10, skipped=6, lr=[9.65e-06], mom=[(0.9, 0.95)]",
            " [2026-08-22 10:11:12.345678] iteration      100/  500000 | elapsed time per iteration (ms): 8654.2 | lm loss: 2.5E+00 | loss scale: 1.0 |",
            "\x1b[31mstep: 200  \x1b[32mloss:  6.13840  \x1b[34mtps: 5,856  \x1b[35mmfu: 34.29%\x1b[39m",
            "Epoch 0:   6%|██ | 32040/500150 [6:28:43<94:39:17,  1.37it/s, loss=2.6][E ProcessGroupNCCL.cpp:458] [Rank 0] Watchdog caught",
            "[2026-01-02 10:24:28] ip-1:35116:35475 [3] ncclResult_t f(ncclDebugLogger_t):162 NCCL WARN NET/OFI Initializing plugin failed",
            r#"{"step": 100, "loss": NaN, "nested": {"a": [1, 2]}}"#,
            "[epoch=1][batch=5/10]:",
            "  what():  [PG ID 0 PG GUID 0(default_pg) Rank 2] Process group watchdog thread terminated with exception: CUDA error: x",
            "During handling of the above exception, another exception occurred:",
        ]
        .map(String::from),
    );
    all
}

#[derive(Clone, Debug)]
enum Cut {
    Truncate(prop::sample::Index),
    Splice(prop::sample::Index, prop::sample::Index),
    Double,
    Insert(prop::sample::Index, Vec<u8>),
    Tail(prop::sample::Index),
}

fn cut() -> impl Strategy<Value = Cut> {
    prop_oneof![
        any::<prop::sample::Index>().prop_map(Cut::Truncate),
        (any::<prop::sample::Index>(), any::<prop::sample::Index>()).prop_map(|(a, b)| Cut::Splice(a, b)),
        Just(Cut::Double),
        (any::<prop::sample::Index>(), prop::collection::vec(any::<u8>(), 1..6)).prop_map(|(a, b)| Cut::Insert(a, b)),
        any::<prop::sample::Index>().prop_map(Cut::Tail),
    ]
}

fn mutate(lines: &[String], which: &[(prop::sample::Index, Cut)]) -> Vec<String> {
    which
        .iter()
        .map(|(i, cut)| {
            let line = i.get(lines).as_bytes();
            let at = |x: &prop::sample::Index| x.index(line.len() + 1);
            let bytes = match cut {
                Cut::Truncate(x) => line[..at(x)].to_vec(),
                Cut::Tail(x) => line[at(x)..].to_vec(),
                Cut::Splice(x, other) => [&line[..at(x)], other.get(lines).as_bytes()].concat(),
                Cut::Double => [line, line].concat(),
                Cut::Insert(x, b) => [&line[..at(x)], b, &line[at(x)..]].concat(),
            };
            String::from_utf8_lossy(&bytes).into_owned()
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn damaged_lines_do_no_harm(which in prop::collection::vec((any::<prop::sample::Index>(), cut()), 1..40)) {
        static LINES: std::sync::LazyLock<Vec<String>> = std::sync::LazyLock::new(every_line);
        let events = read(&mutate(&LINES, &which));
        for e in &events {
            prop_assert!(e.origin.rank.is_none_or(|r| r < 1 << 24));
            if let What::Init(i) = &e.what {
                prop_assert!(i.rank < i.nranks);
            }
            let text = format!("{:?}", e.what);
            prop_assert!(!text.contains(r"\u{1b}"), "{}", text);
        }
    }

    #[test]
    fn any_bytes_do_no_harm(chunks in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 0..20)) {
        let lines: Vec<String> = chunks.iter().map(|c| String::from_utf8_lossy(c).into_owned()).collect();
        read(&lines);
    }

    #[test]
    fn any_text_made_of_known_pieces_does_no_harm(parts in prop::collection::vec(prop::sample::select(vec![
        "[rank3]:", "[E1121 00:10:37.678827192 a.cpp:1] ", " NCCL WARN ", " NCCL INFO ", "vm:1:2 [0]", "Channel 00/0 : ", "1[", "] -> ", " via ", "P2P/", "NET/",
        "Traceback (most recent call last):", "\r", "  File \"x\"", "ValueError: ", "Failures:", "[0]:", "  rank      : ", "exitcode  : -", "loss", "step", " ", "1", ",", ".",
        "nan", "{'", "': '", "}", "%|", "| 1/2 [0:1<", "it/s]", "iteration 1/2 |", "last enqueued work: ", "last completed work: ", "Rank ", "]", "[PG ", "(", "WorkNCCL(", "é", "█",
        "comm 0x1 ", "rank 1 ", "nranks 2 ", "- Init START", "steps: ", "SamplesPerSec=", "/", "global_step=", "CUDA error: ", "what(): ", "Operation timed out after ", "[TC]",
    ]), 0..40)) {
        read(&[parts.concat()]);
        read(&parts);
    }
}

/// What this thread has computed so far, whatever else the machine does.
fn computed() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Ten times the length must not take much more than ten times as much work; the worst known shapes.
#[test]
fn work_grows_with_the_length_only() {
    let piece = |p: &str, n: usize| p.repeat(n);
    for p in [
        "step 1 loss ",
        "[rank1]:",
        "vm:1:2 [0] NCCL INFO ",
        "1:1:1:1:",
        " NCCL WARN ",
        "Watchdog caught collective operation timeout: ",
        "10%| | 1/2 [",
        "[E1121 00:",
        "{'loss': ",
        "[[[[[[",
        "Rank Rank ",
        "\x1b]0;",
        "[36m",
        "Traceback (most recent call last):",
        "last enqueued work: 1",
        "checkpoint saving the ",
        "comm 0x1 rank 1 ",
    ] {
        let time = |n: usize| {
            let line = format!("step {}", piece(p, n / p.len()));
            let mut best = Duration::MAX;
            for _ in 0..3 {
                let start = computed();
                read(&[&line]);
                best = best.min(computed() - start);
            }
            best
        };
        let (short, long) = (time(6_000), time(60_000));
        // A hundredfold would be quadratic.
        assert!(long < short * 60 + Duration::from_millis(60), "{p:?}: {short:?}, then {long:?}");
    }
}

/// `cargo test --release log_reader::speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout)]
fn speed() {
    let noise: Vec<String> = (0..400_000)
        .map(|i| {
            let head = format!("node-{:02}:{}:{} [{}] NCCL INFO ", i % 64, 2692 + i % 8, 2692 + i % 80, i % 8);
            match i % 4 {
                0 => format!("{head}Trees [0] {}/-1/-1->{}->-1 [1] 1/-1/-1->0->-1 [2] 1/-1/-1->0->-1 [3] 1/-1/-1->0->-1", i % 9, i % 7),
                1 => format!("{head}AllReduce: opCount {i:x} sendbuff 0x7f5425e00000 recvbuff 0x7f5425e00000 count {i} datatype 9 op 0 root 0 comm 0x55d0c0de0010 [nranks=8] stream 0x55d0c0ff0000"),
                2 => format!("{head}Ring {:02} : {} -> {} -> {}", i % 24, i % 8, (i + 1) % 8, (i + 2) % 8),
                _ => format!("{head}NET/IB: NCCL Dev {} IbDev 0 Port 1 qpn {i} mtu 5 LID {i} subnet-prefix 18338657682652659712", i % 8),
            }
        })
        .collect();
    let text = noise.join("\n");
    let rate = |name: &str, work: &mut dyn FnMut() -> usize| {
        let best = (0..5)
            .map(|_| {
                let t = Instant::now();
                let n = work();
                (t.elapsed(), n)
            })
            .min()
            .unwrap();
        println!(
            "{name}: {:.0} MB/s, {:.1} M lines/s ({} found)",
            text.len() as f64 / 1e6 / best.0.as_secs_f64(),
            noise.len() as f64 / 1e6 / best.0.as_secs_f64(),
            best.1
        );
    };
    rate("classify", &mut || noise.iter().filter(|l| prefilter::classify(l.as_bytes()) != Class::Noise).count());
    rate("Sieve", &mut || {
        let mut sieve = prefilter::Sieve::new(text.as_bytes());
        std::iter::from_fn(|| sieve.next_candidate().line).count()
    });
    rate("Reader::line", &mut || read(&noise).len());
    let channels: Vec<String> = (0..200_000)
        .map(|i| {
            format!(
                "vm:2692:2692 [0] NCCL INFO Channel {:02}/0 : {}[{}] -> {}[{}] via P2P/CUMEM",
                i % 24,
                i % 8,
                i % 8,
                (i + 1) % 8,
                (i + 1) % 8
            )
        })
        .collect();
    let t = Instant::now();
    let n = read(&channels).len();
    println!("channel lines: {:.2} M lines/s ({n})", n as f64 / 1e6 / t.elapsed().as_secs_f64());
    let steps: Vec<String> = (0..200_000).map(|i| format!("step {i} | loss 0.0000 | step_time 12.1 ms | tokens/s 2,696,997")).collect();
    let t = Instant::now();
    let n = read(&steps).len();
    println!("step lines: {:.2} M lines/s ({n})", n as f64 / 1e6 / t.elapsed().as_secs_f64());
}
