//! Small inputs that would need much memory or time: each is given to the program, whose memory is limited, and which is ended when it
//! does not end by itself.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// What the program may hold, in KiB: its own data counts, too.
const MEMORY_KIB: u32 = 256 << 10;
/// Catches what does not end; everything here takes seconds on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

const HEADER: &str = r#"{"tape":"nccl-top","version":1,"program":"0.1.0","host":"vm","interval_ms":1000,"started_ns":1795300078000000000}"#;

struct Ended {
    code: Option<i32>,
    out: String,
    err: String,
}

/// Runs the program in `dir` with bounded memory: what needs more aborts.
fn run_in(dir: &Path, args: &[&str], env: &[(&str, &str)]) -> Ended {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -d {MEMORY_KIB}; exec \"$@\""), "sh", env!("CARGO_BIN_EXE_nccl-top")]).args(args);
    command.current_dir(dir).env("HOME", dir).env_remove("XDG_CONFIG_HOME").env("RUST_BACKTRACE", "0").envs(env.iter().copied());
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let (mut out, mut err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
    let text = |pipe: &mut dyn std::io::Read| {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes).into_owned()
    };
    std::thread::scope(|scope| {
        let out = scope.spawn(move || text(&mut out));
        let err = scope.spawn(move || text(&mut err));
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{args:?} does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        Ended { code: status.code(), out: out.join().unwrap(), err: err.join().unwrap() }
    })
}

/// A gzip file whose pieces come so many times: each is compressed once.
fn packed(pieces: &[(Vec<u8>, usize)]) -> Vec<u8> {
    let mut file = Vec::new();
    for (piece, times) in pieces {
        let mut member = GzEncoder::new(Vec::new(), Compression::new(6));
        member.write_all(piece).unwrap();
        file.extend(member.finish().unwrap().repeat(*times));
    }
    file
}

/// So many times as makes a MiB, so that few pieces are many bytes.
fn mib(unit: &str) -> Vec<u8> {
    unit.repeat((1 << 20) / unit.len()).into_bytes()
}

fn line(body: &str) -> String {
    format!("{{\"at_ns\":1795300078445060376,\"from\":\"x\",{body}}}\n")
}

/// Judges a tape both ways. Either is refused with exit code 2, which is not silent.
fn judge_tape(name: &str, tape: &[u8], words: &str) {
    let dir = tempfile::tempdir().unwrap();
    assert!(tape.len() <= 1 << 20, "{name}: {} bytes", tape.len());
    std::fs::write(dir.path().join("tape.jsonl.gz"), tape).unwrap();
    for args in [["replay", "--headless", "tape.jsonl.gz"], ["check", "--json", "tape.jsonl.gz"]] {
        let ended = run_in(dir.path(), &args, &[]);
        assert_eq!(ended.code, Some(2), "{name}: {args:?}: {}", ended.err);
        assert!(ended.err.contains(words) || ended.out.contains(words), "{name}: {args:?} lacks {words:?}: {} {}", ended.err, ended.out);
    }
}

fn tape_of(pieces: impl IntoIterator<Item = (Vec<u8>, usize)>) -> Vec<u8> {
    let pieces: Vec<_> = std::iter::once((format!("{HEADER}\n").into_bytes(), 1)).chain(pieces).collect();
    packed(&pieces)
}

/// A line of 60 MiB, and one that is short enough, but has many values.
#[test]
fn a_tape_of_enormous_lines_is_refused() {
    for (kind, list) in [
        ("gpus", "gpus"),
        ("lines", "lines"),
        ("kernel", "lines"),
        ("processes", "processes"),
        ("ports", "ports"),
        ("gpu_processes", "gpus"),
        ("gpu_health", "gpus"),
        ("gpu_events", "events"),
        ("gpu_topology", "pairs"),
        ("cgroups", "cgroups"),
        ("nothing", "anything"),
    ] {
        let begin = format!("{{\"at_ns\":1795300078445060376,\"from\":\"x\",\"kind\":\"{kind}\",\"{list}\":[").into_bytes();
        let end = b"{}]}\n".to_vec();
        let enormous = tape_of([(begin.clone(), 1), (mib("{},"), 60), (end.clone(), 1)]);
        judge_tape(kind, &enormous, "a line of more than 20 MiB");
        let long = tape_of([(begin, 1), (mib("{},"), 12), (end, 1)]);
        judge_tape(kind, &long, "a line of more than 131072 values");
    }
    let counters = (0..2_000_000).fold(String::new(), |mut all, i| {
        let _ = write!(all, "\"{i}\":1,");
        all
    });
    let counters = line(&format!("\"kind\":\"netdevs\",\"netdevs\":[{{\"name\":\"e\",\"counters\":{{{counters}\"x\":1}}}}]"));
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("t"), format!("{HEADER}\n{counters}")).unwrap();
    let ended = run_in(dir.path(), &["replay", "--headless", "t"], &[]);
    assert!(ended.code == Some(2) && ended.err.contains("a line of more than"), "{}", ended.err);
    let nested =
        tape_of([(line("\"kind\":\"tick\",\"x\":").trim_end_matches("}\n").into(), 1), (mib("["), 5), (mib("]"), 5), (b"}\n".to_vec(), 1)]);
    judge_tape("nested", &nested, "a line of more than 131072 values");
}

/// As many values as a line may have, and a line as long as it may be: read, in bounded memory.
#[test]
fn the_largest_lines_are_read_in_bounded_memory() {
    let dir = tempfile::tempdir().unwrap();
    let list = |kind: &str, name: &str, item: &str, count: usize| {
        line(&format!("\"kind\":\"{kind}\",\"{name}\":[{}{item}]", format!("{item},").repeat(count - 1)))
    };
    for line in [
        list("gpus", "gpus", "{}", 60_000),
        list("processes", "processes", "{}", 60_000),
        list("gpu_health", "gpus", "{}", 60_000),
        list("ports", "ports", "{\"device\":\"a\"}", 60_000),
        list("nothing", "x", "{\"a\":{}}", 40_000),
        line(&format!("\"kind\":\"ras\",\"reply\":\"{}\"", "x\\n".repeat(6 << 20))),
        line(&format!("\"kind\":\"lines\",\"lines\":[{{\"text\":\"{}\"}}]", "x".repeat(19 << 20))),
    ] {
        std::fs::write(dir.path().join("t"), format!("{HEADER}\n{line}")).unwrap();
        let ended = run_in(dir.path(), &["replay", "--headless", "t"], &[]);
        assert_eq!(ended.code, Some(0), "{}: {}", &line[..80], ended.err);
    }
}

#[test]
fn a_tape_that_is_all_repetition_is_refused() {
    let tick = line("\"kind\":\"tick\"");
    judge_tape("ticks", &tape_of([(mib(&tick), 300)]), "MiB unpacked");
    let text = line(&format!("\"kind\":\"lines\",\"lines\":[{{\"text\":\"{}\"}}]", "a b ".repeat(16 << 10)));
    judge_tape("lines", &tape_of([(mib(&text), 300)]), "MiB unpacked");
}

/// What no node has so many of is left out, which is shown and makes the exit code 2.
#[test]
fn what_no_node_has_so_many_of_is_left_out_and_counted() {
    let lines = |one: &dyn Fn(usize) -> String| (0..5000).map(|i| line(&one(i))).collect::<String>().into_bytes();
    let tick = line("\"kind\":\"tick\"").into_bytes();
    for (what, one) in [
        ("a GPU", (|i| format!("\"kind\":\"gpus\",\"gpus\":[{{\"index\":{i},\"util_pct\":1}}]")) as fn(usize) -> String),
        ("a GPU", |i| format!("\"kind\":\"gpu_info\",\"index\":{i}")),
        ("a port", |i| format!("\"kind\":\"port_info\",\"device\":\"d{i}\",\"port\":1")),
        ("a port", |i| format!("\"kind\":\"ports\",\"ports\":[{{\"device\":\"d{i}\",\"port\":1}}]")),
        ("a log", |i| format!("\"kind\":\"log_file\",\"file\":{i},\"path\":\"/l/{i}\"")),
    ] {
        judge_tape(what, &tape_of([(lines(&one), 1), (tick.clone(), 1)]), &format!("times {what} beyond"));
    }
    let sources: String =
        (0..5000).map(|i| format!("{{\"at_ns\":1795300078445060376,\"from\":\"s{i}\",\"kind\":\"source\",\"state\":\"ok\"}}\n")).collect();
    judge_tape("sources", &tape_of([(sources.into_bytes(), 1), (tick, 1)]), "times a source beyond");
    let netdevs: Vec<String> = (0..5000).map(|i| format!("{{\"name\":\"e{i}\"}}")).collect();
    let netdevs = line(&format!("\"kind\":\"netdevs\",\"netdevs\":[{}]", netdevs.join(",")));
    judge_tape("netdevs", &tape_of([(netdevs.into_bytes(), 1)]), "times an interface beyond");
    let members: Vec<String> = (0..60_000).map(|i| format!("{{\\\"rank\\\":{i}}}")).collect();
    let comm = |hash: u32| format!("{{\\\"hash\\\":\\\"0x{hash:x}\\\",\\\"ranks\\\":[{}]}}", members.join(","));
    let comms: Vec<String> = (1..5).map(comm).collect();
    let ras = line(&format!("\"kind\":\"ras\",\"reply\":\"{{\\\"communicators\\\":[{}]}}\"", comms.join(",")));
    judge_tape("comms", &tape_of([(ras.into_bytes(), 1)]), "times a communicator beyond");
}

/// Work grows with how much is compared with what: steps are counted, and a tape of this size has too many.
#[test]
fn a_tape_that_takes_for_ever_to_judge_is_refused() {
    let rank = |i: usize| {
        line(&format!(
            "\"kind\":\"process\",\"pid\":{},\"start_ticks\":{i},\"role\":\"rank\",\"env\":{{\"RANK\":\"0\",\"SLURM_JOB_ID\":\"{i}\"}}",
            i + 2
        ))
    };
    let ranks: String = (0..4000).map(rank).collect();
    let ticks: String =
        (0..2000).map(|i| format!("{{\"at_ns\":{}000000000,\"from\":\"feed\",\"kind\":\"tick\"}}\n", 1_795_300_079u64 + i)).collect();
    judge_tape("jobs", &tape_of([(ranks.into_bytes(), 1), (ticks.into_bytes(), 1)]), "that judging it would take too long");
}
