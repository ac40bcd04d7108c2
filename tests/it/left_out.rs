//! What is given and not read is reported, wherever one looks.

use crate::support::screen::PATIENCE;
use nccl_top::observe::Body;
use nccl_top::sources::Source;
use nccl_top::sources::tail::Tail;
use serde_json::Value;
use std::fs::{self, File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant, SystemTime};

const OOM: &str = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n";

fn command(dir: &Path, args: &[&str]) -> Command {
    fs::create_dir_all(dir.join("root/proc")).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    command.args(["--sysroot", "root"]).args(args).current_dir(dir).env("HOME", dir).stdin(Stdio::null());
    command
}

fn run(dir: &Path, args: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } = command(dir, args).output().unwrap();
    (status.code(), String::from_utf8_lossy(&stdout).into_owned(), String::from_utf8_lossy(&stderr).into_owned())
}

/// The first line of what a command prints that `is` as it should be.
fn first(child: &mut Child, from: impl Read + Send + 'static, is: impl Fn(&str) -> bool) -> String {
    let (tx, rx) = mpsc::channel();
    std::thread::spawn(move || BufReader::new(from).lines().map_while(Result::ok).try_for_each(|line| tx.send(line)));
    let mut all = Vec::new();
    let line = loop {
        match rx.recv_timeout(PATIENCE) {
            Ok(line) if is(&line) => break line,
            Ok(line) => all.push(line),
            Err(_) => panic!("only: {all:?}"),
        }
    };
    child.kill().unwrap();
    child.wait().unwrap();
    line
}

fn logs(dir: &Path, count: usize) -> PathBuf {
    let logs = dir.join("logs");
    fs::create_dir(&logs).unwrap();
    (0..count).for_each(|i| fs::write(logs.join(format!("{i:05}.log")), "step 1 | loss 2.0\n").unwrap());
    logs
}

#[test]
fn files_that_are_not_followed_are_reported_by_watch_and_snapshot() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 800);
    symlink("nowhere", logs.join("broken.log")).unwrap();
    let says = |text: &str| {
        text.contains("768 files followed, 32 more left out: no more than 768") && text.contains("broken.log: a link that leads nowhere")
    };
    for args in [&["watch", "logs"][..], &["watch", "--json", "logs"], &["watch", "logs/*"]] {
        let mut child = command(dir.path(), args).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = child.stdout.take().unwrap();
        let line = first(&mut child, stdout, says);
        assert!(line.contains("source-trouble"), "{line}");
    }
    let snapshot = ["1s", "4s", "16s"].map(|wait| move |dir: &Path| run(dir, &["snapshot", "--json", "--wait", wait, "logs"]));
    let is_complete = |(_, out, _): &(Option<i32>, String, String)| {
        let document: Value = serde_json::from_str(out).unwrap();
        document["sources"].as_array().unwrap().iter().any(|source| source["id"] == "tail" && says(source["detail"].as_str().unwrap_or("")))
    };
    assert!(snapshot.iter().any(|snapshot| is_complete(&snapshot(dir.path()))));
}

#[test]
fn logs_that_are_written_to_are_followed_in_place_of_stale_ones() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 800);
    let log = |i: usize| logs.join(format!("{i:05}.log"));
    let aged = |i: usize, age_s: u64| {
        let at = SystemTime::now() - Duration::from_secs(age_s);
        File::options().append(true).open(log(i)).unwrap().set_modified(at).unwrap();
    };
    (0..800).for_each(|i| aged(i, 100_000 + i as u64));
    let mut tail = Tail::new(vec![logs.display().to_string()], false).rescan_every(Duration::ZERO);
    let ids = std::cell::RefCell::new(std::collections::BTreeMap::new());
    // A directory that takes long is not looked through at each poll.
    let mut polled = |enough: &dyn Fn(&[String]) -> bool| {
        let (begin, mut texts) = (Instant::now(), Vec::new());
        while !enough(&texts) {
            assert!(begin.elapsed() < PATIENCE, "only {} lines", texts.len());
            let mut out = Vec::new();
            tail.poll(&mut out).unwrap();
            for body in &out {
                if let Body::LogFile(info) = body {
                    let id = *ids.borrow_mut().entry(info.path.clone()).or_insert(info.file);
                    assert_eq!(id, info.file, "taken up again as another file: {}", info.path);
                }
            }
            let lines = out.into_iter().filter_map(|body| if let Body::Lines(lines) = body { Some(lines.lines) } else { None });
            texts.extend(lines.flatten().map(|line| line.text));
        }
        texts
    };
    polled(&|texts| texts.len() == 768);
    for (round, i) in (790..800).chain([0, 767, 790]).enumerate() {
        OpenOptions::new().append(true).open(log(i)).unwrap().write_all(format!("line {round}\n").as_bytes()).unwrap();
        let texts = polled(&|texts| texts.last() == Some(&format!("line {round}")));
        assert_eq!(texts.len(), if round < 10 { 2 } else { 1 }, "{i}: {texts:?}");
    }
}

#[test]
fn check_reads_all_files_that_match_however_many() {
    let dir = tempfile::tempdir().unwrap();
    let logs = logs(dir.path(), 6_000);
    fs::write(logs.join("z.log"), OOM).unwrap();
    let (code, out, _) = run(dir.path(), &["check", "--json", "logs/*.log"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, report["inputs"].as_array().unwrap().len()), (Some(1), 6_001));
    assert_eq!(report["root_cause"]["rule"], "cuda-oom");
}

#[test]
fn check_names_what_it_cannot_read_and_still_shows_what_it_found() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::write(at("a.log"), OOM).unwrap();
    symlink("nowhere", at("broken.log")).unwrap();
    assert!(Command::new("mkfifo").arg(at("fifo.log")).status().unwrap().success());
    fs::create_dir_all(at("dir.log")).unwrap();
    fs::write(at("dir.log/b.txt"), "step 1 | loss 2.0\n").unwrap();
    fs::write(at("secret.log"), "step 1 | loss 2.0\n").unwrap();
    fs::set_permissions(at("secret.log"), fs::Permissions::from_mode(0o000)).unwrap();
    let is_kept_out = File::open(at("secret.log")).is_err();
    let (code, out, _) = run(dir.path(), &["check", "--json", "*.log"]);
    let report: Value = serde_json::from_str(&out).unwrap();
    let error = |name: &str| {
        let inputs = report["inputs"].as_array().unwrap();
        inputs.iter().find(|input| input["path"] == name).unwrap_or_else(|| panic!("{name}: {inputs:?}"))["error"].clone()
    };
    assert_eq!(code, Some(2), "not all of it could be judged");
    assert_eq!(report["root_cause"]["rule"], "cuda-oom");
    assert_eq!(error("broken.log"), "a link that leads nowhere");
    assert_eq!(error("fifo.log"), "a FIFO, not a regular file; not opened");
    assert_eq!(error("dir.log/b.txt"), Value::Null);
    assert!(!is_kept_out || error("secret.log").as_str().unwrap().contains("ermission"));
    let (code, out, err) = run(dir.path(), &["check", "a.log", "broken.log", "fifo.log"]);
    assert_eq!(code, Some(2));
    for text in [&out, &err] {
        assert!(text.contains("broken.log: a link that leads nowhere") && text.contains("fifo.log: a FIFO"), "{text}");
    }
    assert!(out.contains("FAIL") && out.contains("2 inputs could not be judged"), "{out}");
}

#[test]
fn a_pattern_that_nothing_matches_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    for command_name in ["watch", "record"] {
        for (arg, says) in
            [("nomatch*", "nomatch*: no file matches yet; waiting for one"), ("no.log", "no.log: no such file yet; waiting for it")]
        {
            let mut child = command(dir.path(), &[command_name, arg]).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
            let stderr = child.stderr.take().unwrap();
            first(&mut child, stderr, |line| line.contains(says));
        }
    }
    let (code, _, err) = run(dir.path(), &["check", "nomatch*"]);
    assert_eq!(code, Some(2));
    assert!(err.contains("nomatch*: no file matches"), "{err}");
    let (code, _, err) = run(dir.path(), &["watch", "--for", "100ms", "nomatch*"]);
    assert_eq!(code, Some(2), "{err}");
}
