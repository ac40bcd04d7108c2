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
    let nothing = line(&format!("\"kind\":\"nothing\",\"x\":\"{}\"", "x".repeat(2000)));
    judge_tape("nothing", &tape_of([(mib(&nothing), 300)]), "MiB unpacked and more");
    let text = line(&format!("\"kind\":\"lines\",\"lines\":[{{\"text\":\"{}\"}}]", "a b ".repeat(16 << 10)));
    judge_tape("lines", &tape_of([(mib(&text), 300)]), "MiB unpacked and more");
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

/// Puts files into a directory, gives all of it to `check`, and returns how that ended.
fn check(files: &[(&str, Vec<u8>)]) -> Ended {
    let dir = tempfile::tempdir().unwrap();
    let mut args = vec!["check", "--json"];
    for (name, bytes) in files {
        std::fs::write(dir.path().join(name), bytes).unwrap();
        args.push(name);
    }
    run_in(dir.path(), &args, &[])
}

/// A log is read in pieces: hundreds of times its packed size is no reason to leave any of it out.
#[test]
fn a_log_is_read_whatever_it_unpacks_to() {
    let noise = mib("node-01:100:100 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n");
    let lines = noise.iter().filter(|b| **b == b'\n').count() as u64;
    let last = b"node-01:100:100 [0] net.cc:345 NCCL WARN Error: network AWS Libfabric not found.\n".to_vec();
    let ended = check(&[("rank0.log.gz", packed(&[(noise, 150), (last, 1)]))]);
    let report: serde_json::Value = serde_json::from_str(&ended.out).unwrap();
    assert_eq!(report["inputs"][0]["lines"], lines * 150 + 1, "{}", ended.err);
    assert!(ended.out.contains("net-requested-missing"), "{}", ended.out);
    let one_line = check(&[("rank0.log.gz", packed(&[(mib("x"), 150), (b"\nnode-01:1:1 [0] NCCL INFO Bootstrap\n".to_vec(), 1)]))]);
    assert!(one_line.out.contains("\"lines\": 2"), "{}", one_line.out);
}

/// Each line is of another rank, host, communicator, file or process.
#[test]
fn a_log_in_which_nothing_comes_twice_is_read_in_bounded_memory() {
    let of = |one: &dyn Fn(usize) -> String| {
        (0..)
            .map(one)
            .scan(0, |sum, l| {
                *sum += l.len();
                (*sum < 1 << 20).then_some(l)
            })
            .collect::<String>()
    };
    let logs = [
        of(&|i| {
            format!(
                "n{i}:{i}:{i} [0] NCCL INFO comm 0x{i:x} rank {i} nranks 4294967295 cudaDev 0 nvmlDev 0 busId 1000 commId 0x{i:x} - Init COMPLETE\n"
            )
        }),
        of(&|i| {
            format!(
                "n{i}:{i}:{i} [{}] NCCL WARN x{} failed in {i:x}\n",
                i % 8,
                "abcdefghij".chars().cycle().skip(i).take(9).collect::<String>()
            )
        }),
        of(&|i| format!("[rank{}]: RuntimeError: e{i} z\n", usize::MAX - i)),
        of(&|i| {
            format!(
                "[rank{i}]:[E1122 06:00:00.0 ProcessGroupNCCL.cpp:607] [Rank {i}] Watchdog caught collective operation timeout: \
             WorkNCCL(SeqNum={}, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600001 milliseconds before timing out.\n",
                u64::MAX - i as u64
            )
        }),
        of(&|i| format!("{:04}-0{}-01 00:00:00 step {i} loss {i}.5\n", if i % 2 == 0 { 0 } else { 9999 }, 1 + i % 9)),
        of(&|i| format!("Traceback (most recent call last):\n  File \"f{i}.py\", line {i}, in g{i}\nE{i}Error: x\n")),
    ];
    for log in logs {
        let ended = check(&[("a.log", log.clone().into_bytes())]);
        assert!(ended.code.is_some_and(|code| code <= 2), "{}: {:?} {}", &log[..100], ended.code, ended.err);
        assert!(ended.out.len() < 4 << 20, "{} bytes of report", ended.out.len());
    }
}

const DUMP: &[u8] = b"\x80\x04}\x94(\x8c\x07version\x8c\x042.10\x8c\x07entries";

/// Flight Recorder dumps: pickles that are small, and large when they are read.
#[test]
fn a_dump_that_grows_when_it_is_read_is_refused() {
    let millions = packed(&[(b"\x80\x04(".to_vec(), 1), (vec![b'N'; 1 << 20], 200), (b"l.".to_vec(), 1)]);
    let shared = [DUMP, b"]\x94(}\x94(\x8c\x09record_idK\x01\x8c\x06pg_idK\x00u", &b"h\x02".repeat(400_000), b"eu."].concat();
    let empty = packed(&[([DUMP, b"]\x94("].concat(), 1), (b"}".repeat(1 << 20), 30), (b"eu.".to_vec(), 1)]);
    let json = packed(&[(b"{\"entries\":[".to_vec(), 1), (mib("{},"), 30), (b"{}]}".to_vec(), 1)]);
    let nested = [b"\x80\x04".as_slice(), &b"]".repeat(1000), &b"a".repeat(999), b"."].concat();
    let laughs = (0..60u8).fold([DUMP, b"]\x94K\x01a"].concat(), |mut all, i| {
        all.extend([b']', 0x94, b'(', b'h', i, b'h', i, b'e']);
        all
    });
    for (name, bytes) in
        [("millions", millions), ("shared", shared), ("empty", empty), ("json", json), ("nested", nested), ("laughs", laughs)]
    {
        let ended = check(&[("nccl_trace_rank_1", bytes)]);
        assert_eq!(ended.code, Some(2), "{name}: {} {}", ended.out, ended.err);
        assert!(!ended.err.is_empty(), "{name} is not named");
    }
}

/// Reports of hostile sizes, all kinds.
#[test]
fn a_report_that_grows_when_it_is_read_is_read_in_bounded_memory() {
    let ras = |list: &str| {
        let begin = format!("{{\"nccl_version\":\"2.28.9\",\"communicators\":[{{\"hash\":\"0x1\",\"{list}\":[");
        packed(&[(begin.into_bytes(), 1), (mib("{\"rank\":1},"), 30), (b"{\"rank\":2}]}]}".to_vec(), 1)])
    };
    let comms = packed(&[
        (b"{\"nccl_version\":\"2\",\"communicators\":[".to_vec(), 1),
        (mib("{\"hash\":\"0x1\"},"), 30),
        (b"{\"hash\":\"0x2\"}]}".to_vec(), 1),
    ]);
    let table = "# nccl-tests version 2.17.6 nccl-headers=22809 nccl-library=22809\n# Collective test starting: all_reduce_perf\n";
    let rows =
        mib("     1048576        262144     float     sum      -1    40.85   25.67   48.13      0    39.85   26.31   49.34      0\n");
    let tests = packed(&[(table.into(), 1), (rows, 40)]);
    let tests_json =
        packed(&[(b"{\"version\":\"2.17.6\",\"config\":{},\"results\":[".to_vec(), 1), (mib("{\"size\":1},"), 60), (b"{}]}".to_vec(), 1)]);
    let inspector = mib(
        "{\"header\":{\"id\":\"0x1\",\"rank\":1,\"n_ranks\":2,\"nnodes\":1},\"metadata\":{\"inspector_output_format_version\":\"v4.0\",\"git_rev\":\"\",\"rec_mechanism\":\"x\",\"dump_timestamp_us\":1,\"hostname\":\"n\",\"pid\":1},\"coll_perf\":{\"coll\":\"AllReduce\",\"coll_sn\":1,\"coll_msg_size_bytes\":1,\"coll_exec_time_us\":1,\"coll_algobw_gbs\":1.0,\"coll_busbw_gbs\":1.0}}\n",
    );
    let prom = mib("nccl_p2p_bus_bandwidth_gbs{version=\"v5.1\",comm_name=\"0x1\"} 3.5\n");
    for (name, bytes) in [
        ("ras-ranks.json.gz", ras("ranks")),
        ("ras-missing.json.gz", ras("missing_ranks")),
        ("ras-comms.json.gz", comms),
        ("tests.log.gz", tests),
        ("tests.json.gz", tests_json),
        ("inspector.log.gz", packed(&[(inspector, 30)])),
        ("metrics.prom.gz", packed(&[(prom, 80)])),
    ] {
        let ended = check(&[(name, bytes)]);
        assert!(ended.code.is_some_and(|code| code <= 2), "{name}: {:?} {}", ended.code, ended.err);
        assert!(ended.code != Some(2) || !ended.err.is_empty(), "{name}: nothing says why");
    }
}

/// What a user names may be a pipe that nobody writes to, a device without an end, a directory, or larger than memory.
#[test]
fn no_path_that_a_user_names_is_waited_for_or_read_without_end() {
    let dir = tempfile::tempdir().unwrap();
    let pipe = dir.path().join("pipe");
    rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    std::fs::File::create(dir.path().join("sparse")).unwrap().set_len(1 << 40).unwrap();
    std::fs::create_dir(dir.path().join("directory")).unwrap();
    for path in ["pipe", "sparse", "directory", "/dev/zero", "/dev/full"] {
        let theme = format!("./{path}").replace(".//", "/");
        for args in [
            ["--config", path, "config"].as_slice(),
            &["--theme", &theme, "config"],
            &["--catalog", path, "rules"],
            &["--sysroot", path, "snapshot", "--wait", "10ms"],
            &["replay", "--headless", path],
            &["check", path],
        ] {
            if (path, args[0]) == ("directory", "--sysroot") {
                continue;
            }
            let ended = run_in(dir.path(), args, &[]);
            assert_eq!(ended.code, Some(2), "{args:?}: {} {}", ended.out, ended.err);
            assert!(ended.err.contains(path), "{args:?} names no path: {}", ended.err);
        }
        let ended = run_in(dir.path(), &["--sysroot", "directory", "snapshot", "--wait", "10ms"], &[("TZ", path)]);
        assert!(ended.code.is_some_and(|code| code <= 2), "TZ={path}: {:?} {}", ended.code, ended.err);
    }
    let many = format!("[keys]\nquit = [\"{}q\"]\n", "ctrl-".repeat(200_000));
    std::fs::write(dir.path().join("keys.toml"), many).unwrap();
    assert_eq!(run_in(dir.path(), &["--config", "keys.toml", "config"], &[]).code, Some(0), "time grows with the square of its length");
    assert_eq!(run_in(dir.path(), &["--config", "/dev/null", "config"], &[]).code, Some(0));
}

/// A tree in which every file is without an end, waits for somebody, or leads back to itself.
#[test]
fn a_hostile_tree_is_read_in_bounded_memory() {
    const FILES: &[&str] = &[
        "proc/stat",
        "proc/uptime",
        "proc/meminfo",
        "proc/mounts",
        "proc/loadavg",
        "proc/sys/kernel/hostname",
        "proc/sys/kernel/random/boot_id",
        "proc/10/stat",
        "proc/10/environ",
        "proc/10/cmdline",
        "proc/10/status",
        "proc/10/io",
        "proc/10/cgroup",
        "sys/class/net/eth0/operstate",
        "sys/class/net/eth0/statistics/rx_bytes",
        "sys/class/infiniband/mlx5_0/ports/1/state",
        "sys/class/infiniband/mlx5_0/ports/1/counters/port_xmit_data",
        "var/log/kern.log",
    ];
    let pipe = |at: &Path| rustix::fs::mknodat(rustix::fs::CWD, at, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    let link = |to: &str, at: &Path| std::os::unix::fs::symlink(to, at).unwrap();
    let ways: [&dyn Fn(&Path); 4] =
        [&|at| link("/dev/zero", at), &pipe, &|at| link(".", at), &|at| std::fs::File::create(at).unwrap().set_len(1 << 40).unwrap()];
    for (no, way) in ways.into_iter().enumerate() {
        let dir = tempfile::tempdir().unwrap();
        for file in FILES {
            let at = dir.path().join("root").join(file);
            std::fs::create_dir_all(at.parent().unwrap()).unwrap();
            way(&at);
        }
        for name in ["e\u{1b}[31m", "\u{202e}x"] {
            std::fs::create_dir_all(dir.path().join("root/sys/class/net").join(name)).unwrap();
        }
        let names = if no == 0 { 4200 } else { 0 };
        (0..names).for_each(|i| std::fs::create_dir(dir.path().join(format!("root/sys/class/net/veth{i}"))).unwrap());
        let ended = run_in(dir.path(), &["--sysroot", "root", "snapshot", "--wait", "1s"], &[]);
        assert!(ended.code.is_some_and(|code| code <= 2), "{:?} {}", ended.code, ended.err);
        assert!(!ended.out.contains(['\u{1b}', '\u{202e}']), "{}", ended.out);
    }
}

/// Whoever holds the other end of a terminal says how large it is.
#[test]
fn a_terminal_of_any_size_is_drawn_in_bounded_memory() {
    for (rows, cols) in [(u16::MAX, u16::MAX), (1, u16::MAX), (u16::MAX, 1), (0, 0)] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("root")).unwrap();
        let pair = portable_pty::native_pty_system().openpty(portable_pty::PtySize { rows, cols, ..Default::default() }).unwrap();
        let mut command = portable_pty::CommandBuilder::new("sh");
        let limited = format!("ulimit -d {MEMORY_KIB}; exec \"$@\"");
        command.args(["-c", &limited, "sh", env!("CARGO_BIN_EXE_nccl-top"), "--sysroot", "root"]);
        command.cwd(dir.path());
        command.env("HOME", dir.path());
        command.env("TERM", "xterm-256color");
        let mut child = pair.slave.spawn_command(command).unwrap();
        drop(pair.slave);
        let (mut reader, mut writer) = (pair.master.try_clone_reader().unwrap(), pair.master.take_writer().unwrap());
        // Keys that come before the terminal is taken are lost: `q` is pressed whenever something was drawn.
        let presses = std::thread::spawn(move || {
            let mut piece = [0; 8192];
            while std::io::Read::read(&mut reader, &mut piece).is_ok_and(|n| n > 0) {
                let _ = writer.write_all(b"q");
            }
        });
        let began = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().unwrap() {
                break status;
            }
            if began.elapsed() > PATIENCE {
                child.kill().unwrap();
                panic!("{rows} x {cols} does not end");
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        presses.join().unwrap();
        assert_eq!(status.exit_code(), 0, "{rows} x {cols}");
    }
}

/// Eight ranks of a job of 16,384 hang for hours, and little is written meanwhile.
#[test]
fn a_recording_of_a_long_hang_of_a_large_job_may_be_judged() {
    use nccl_top::model::Model;
    use nccl_top::model::comm::{Comm, CommRank};
    use nccl_top::model::process::Process;
    let mut model = Model::default();
    let ranks = (0..16_384).map(|rank| (rank, CommRank { pid: Some(rank), ..Default::default() })).collect();
    model.comms.insert(1, Comm { hash: 1, nranks: 16_384, ranks, ..Default::default() });
    for pid in 0..8 {
        model.processes.insert(pid, Process::new(Default::default(), Default::default()));
    }
    model.jobs.insert("1".into(), nccl_top::model::job::Job::new("1".into(), nccl_top::base::time::Stamp(0)));
    assert!(model.weight() < 16 * 3000, "less than 3 KB/s pay for: {}", model.weight());
}
