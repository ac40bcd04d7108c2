//! Beside RAS services that are slow, silent, huge, cut off, hostile, or of another job, nothing hangs, and the state of the source says what is wrong.

use crate::support::screen::PATIENCE;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::observe::{Body, Observation, SourceId, SourceReport, SourceState};
use nccl_top::output::snapshot;
use nccl_top::sources::procs::Procs;
use nccl_top::sources::{Roots, Setup, Source, ras};
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The only rank of the job.
const PID: u32 = 4711;

/// A node with one rank, whose RAS is at `port`.
fn node(root: &Path, port: u16) {
    let at = |path: &str| root.join(path);
    fs::create_dir_all(at("proc/sys/kernel")).unwrap();
    fs::write(at("proc/sys/kernel/hostname"), "node-1\n").unwrap();
    let env = format!("RANK=0\0LOCAL_RANK=0\0WORLD_SIZE=2\0LOCAL_WORLD_SIZE=1\0NCCL_RAS_ADDR=127.0.0.1:{port}\0");
    for (pid, ppid, name, env) in [(1, 0, "systemd", ""), (PID, 1, "python3", &env)] {
        let file = |name: &str| at(&format!("proc/{pid}/{name}"));
        fs::create_dir_all(file("fd")).unwrap();
        let head = format!("{pid} ({name}) S {ppid} {pid} {pid} 0 -1 4194304 1 0 0 0 300 50 0 0 20 0 1 0 9 1000 500");
        fs::write(file("stat"), format!("{head}{} 0\n", " 0".repeat(27))).unwrap();
        fs::write(file("cmdline"), format!("{name}\0train.py\0")).unwrap();
        fs::write(file("environ"), env).unwrap();
        fs::write(file("status"), format!("Name:\t{name}\nUid:\t1000\t1000\t1000\t1000\nNSpid:\t{pid}\nVmRSS:\t 64 kB\n")).unwrap();
        fs::write(file("io"), "rchar: 1\nwchar: 2\nsyscr: 1\nsyscw: 1\nread_bytes: 3\nwrite_bytes: 4\n").unwrap();
        fs::write(file("cgroup"), "0::/job\n").unwrap();
    }
}

/// Looks at a service, by the sources themselves, until what they say of it holds `words`, or for none until it has answered. State and
/// words of the RAS source, and what the program prints of all.
fn beside(words: &str, manner: impl Fn(TcpStream) + Send + Sync + 'static) -> (SourceState, String, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let dir = tempfile::tempdir().unwrap();
    node(dir.path(), listener.local_addr().unwrap().port());
    std::thread::spawn(move || {
        let manner = Arc::new(manner);
        for stream in listener.incoming().flatten() {
            let manner = manner.clone();
            std::thread::spawn(move || manner(stream));
        }
    });
    let second = Duration::from_secs(1);
    let mut setup = Setup::new(Roots::below(dir.path()), second, Vec::new());
    let mut procs = Procs::new(setup.roots.clone(), second, None).telling(setup.to_tail.clone(), setup.to_ras.clone());
    let mut ras = ras::make(&mut setup);
    let mut session = Session::new("node-1", Zone::UTC);
    let (mut now, mut said) = (Stamp(1_795_255_200_000_000_000), Vec::new());
    let mut see = |from, bodies: Vec<Body>| {
        now = now.plus(Duration::from_millis(50));
        for body in bodies.into_iter().chain([Body::Tick]) {
            session.apply(&Observation { at: now, host: None, from: SourceId::of(from), body }, &mut said);
        }
    };
    let began = Instant::now();
    let mut bodies = Vec::new();
    procs.poll(&mut bodies).unwrap();
    see("procs", bodies);
    loop {
        let mut bodies = Vec::new();
        let (state, detail) = match ras.poll(&mut bodies) {
            Ok(()) => ras.remark().map_or((SourceState::Ok, None), |(state, words)| (state, Some(words))),
            Err(err) => (err.state(), Some(err.to_string())),
        };
        let is_so = match &detail {
            Some(said) => !words.is_empty() && said.contains(words),
            None => words.is_empty() && bodies.iter().any(|body| matches!(body, Body::Ras(_))),
        };
        bodies.push(Body::Source(SourceReport { state, detail: detail.clone(), title: None }));
        see("ras", bodies);
        if is_so {
            break;
        }
        assert!(began.elapsed() < PATIENCE, "{state:?}: {detail:?}");
        ras.wait(ras.every().min(Duration::from_secs(1)));
    }
    let view = &session.model.sources[&SourceId::of("ras")];
    let printed = format!(
        "{}{:#}",
        snapshot::text(&session, Zone::UTC, nccl_top::tui::panes::as_text(&session)),
        snapshot::json(&session, Zone::UTC)
    );
    (view.state, view.detail.clone().unwrap_or_default(), printed)
}

/// Speaks the protocol, and hands over when the report is asked for.
fn polite(report: impl Fn(&mut TcpStream)) -> impl Fn(TcpStream) {
    move |stream| {
        let mut out = stream.try_clone().unwrap();
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let answer = match line.as_str() {
                "VERBOSE STATUS" => return report(&mut out),
                "CLIENT PROTOCOL 2" => "SERVER PROTOCOL 2\n",
                _ => "OK\n",
            };
            let _ = out.write_all(answer.as_bytes());
        }
    }
}

fn says(report: String) -> impl Fn(TcpStream) {
    polite(move |out| drop(out.write_all(report.as_bytes())))
}

/// An answer whose first rank has this pid and this host.
fn answer(ranks: u32, first_pid: u32, host: &str) -> String {
    let rank = |n: u32| {
        let pid = if n == 0 { first_pid } else { 100_000 + n };
        format!(
            r#"{{"rank": {n}, "host": "{host}", "pid": {pid}, "cuda_dev": 0, "nvml_dev": 0,
            "status": {{"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false}},
            "collective_counts": {{"Broadcast": 5, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": 480}}}}"#
        )
    };
    let all: Vec<String> = (0..ranks).map(rank).collect();
    format!(
        r#"{{"nccl_version": "2.28.9", "timestamp": "2026-11-21 10:00:00", "communicators_count": 1, "communicators": [{{"hash": "0x5c1de7706f19ab34",
        "size": {ranks}, "ranks_count": {ranks}, "missing_ranks_count": 0, "ranks": [{}], "missing_ranks": []}}],
        "ras": {{"collection_time_sec": 0.1, "timeouts_count": 0}}}}"#,
        all.join(",\n")
    )
}

#[test]
fn one_that_answers_is_well() {
    let (state, detail, printed) = beside("", says(answer(2, PID, "10.0.0.1")));
    assert_eq!((state, detail.as_str()), (SourceState::Ok, ""), "{printed}");
}

#[test]
fn one_of_another_job_is_told() {
    assert_eq!(beside("another job answers here", says(answer(2, 99, "10.0.0.1"))).0, SourceState::Slow);
}

#[test]
fn one_that_is_silent_is_told() {
    let silent = |stream: TcpStream| {
        std::thread::sleep(PATIENCE);
        drop(stream);
    };
    assert_eq!(beside("accepts connections, but says nothing", silent).0, SourceState::Slow);
}

#[test]
fn one_that_answers_byte_by_byte_is_left() {
    let text = answer(64, PID, "10.0.0.1");
    let slowly = polite(move |out| {
        for byte in text.as_bytes() {
            if out.write_all(&[*byte]).is_err() {
                return;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    });
    assert_eq!(beside("no answer in time", slowly).0, SourceState::Slow);
}

#[test]
fn one_that_never_ends_or_breaks_off_is_told() {
    let flood = |mut stream: TcpStream| while stream.write_all(&[b'x'; 4096]).is_ok() {};
    assert_eq!(beside("is not a RAS service", flood).0, SourceState::Slow);
    let whole = answer(2, PID, "10.0.0.1");
    assert_eq!(beside("closed in the middle", says(whole[..whole.len() / 2].to_owned())).0, SourceState::Slow);
}

#[test]
fn one_that_is_hostile_moves_no_cursor() {
    let host = "\u{1b}]52;c;cm0gLXJm\u{7}\u{202e}\u{9b}2J";
    let reports = [
        ("", answer(2, PID, host)),
        ("ERROR: ", format!("ERROR: {host}\n")),
        ("closed in the middle", format!("NCCL version {host}\n{host}\nWarnings\n")),
    ];
    for (words, report) in reports {
        let (_, _, printed) = beside(words, says(report));
        assert!(!printed.contains(['\u{1b}', '\u{7}', '\u{9b}']), "{printed:?}");
    }
}

#[test]
fn one_with_16384_ranks_is_heard() {
    let (state, detail, printed) = beside("", says(answer(16_384, PID, "10.0.0.1")));
    assert_eq!((state, detail.as_str()), (SourceState::Ok, ""), "{printed}");
}
