//! The tailer against real files. Every test polls by hand: no thread, unless the test is about one.

use crate::support::screen::PATIENCE;
use nccl_top::logs::prefilter::{Class, classify};
use nccl_top::observe::Body;
use nccl_top::observe::log::{Line, Lines, LogFileInfo, LogFileState};
use nccl_top::sources::tail::Tail;
use nccl_top::sources::{Hint, Hints, Roots, Setup, Source, SourceError};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tempfile::TempDir;

// ---- a tailer and what it told ----

struct Watched {
    tail: Tail,
    infos: Vec<LogFileInfo>,
    batches: Vec<Lines>,
}

impl Watched {
    fn new(logs: &[&Path]) -> Self {
        Watched::of(Tail::new(names(logs), false))
    }

    fn of(tail: Tail) -> Self {
        Watched { tail: tail.rescan_every(Duration::ZERO), infos: Vec::new(), batches: Vec::new() }
    }

    /// Polls until there is nothing more to read at once.
    fn poll(&mut self) -> Result<(), SourceError> {
        loop {
            let mut out = Vec::new();
            let result = self.tail.poll(&mut out);
            self.sort(out);
            if result.is_err() || self.tail.every() > Duration::from_millis(10) {
                return result;
            }
        }
    }

    fn finish(&mut self) {
        let mut out = Vec::new();
        self.tail.finish(&mut out);
        self.sort(out);
    }

    fn sort(&mut self, out: Vec<Body>) {
        for body in out {
            match body {
                Body::LogFile(info) => self.infos.push(info),
                Body::Lines(lines) => {
                    assert!(self.infos.iter().any(|i| i.file == lines.file), "lines of a file that was not introduced");
                    self.batches.push(lines);
                }
                other => panic!("{other:?}"),
            }
        }
    }

    /// Forgets what was told and returns it.
    fn lines(&mut self) -> Vec<Line> {
        self.batches.drain(..).flat_map(|b| b.lines).collect()
    }

    fn texts(&mut self) -> Vec<String> {
        self.lines().into_iter().map(|l| l.text).collect()
    }

    fn polled(&mut self) -> Vec<String> {
        self.poll().unwrap();
        self.texts()
    }

    fn states(&self) -> Vec<LogFileState> {
        self.infos.iter().map(|i| i.state).collect()
    }
}

fn names(logs: &[&Path]) -> Vec<String> {
    logs.iter().map(|p| p.to_str().unwrap().to_string()).collect()
}

fn append(path: &Path, text: impl AsRef<[u8]>) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_ref()).unwrap();
}

fn dir_with(files: &[(&str, &str)]) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    for (name, text) in files {
        fs::create_dir_all(dir.path().join(name).parent().unwrap()).unwrap();
        fs::write(dir.path().join(name), text).unwrap();
    }
    dir
}

fn one_log(text: &str) -> (TempDir, PathBuf) {
    let dir = dir_with(&[("train.log", text)]);
    let path = dir.path().join("train.log");
    (dir, path)
}

// ---- growing ----

#[test]
fn lines_come_once_with_number_and_offset_and_say_whether_they_are_old() {
    let (_dir, log) = one_log("one\ntwo\nthr");
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    assert!(watched.batches[0].backlog);
    let line = |no, offset, text: &str| Line { no: Some(no), offset, text: text.into(), transient: false };
    assert_eq!(watched.lines(), [line(1, 0, "one"), line(2, 4, "two")]);
    append(&log, "ee\nfour\n");
    watched.poll().unwrap();
    assert!(!watched.batches[0].backlog);
    assert_eq!(watched.lines(), [line(3, 8, "three"), line(4, 14, "four")]);
    assert!(watched.polled().is_empty());
    let info = &watched.infos[0];
    assert_eq!((info.state, info.size_bytes, info.skipped_bytes), (LogFileState::Open, Some(11), None));
    assert_eq!(info.path, log.to_str().unwrap());
    assert!(info.inode.is_some() && info.device.is_some() && info.modified_ns.is_some());
}

#[test]
fn a_partial_line_waits_for_its_end_and_is_told_when_there_will_be_none() {
    let (_dir, log) = one_log("half");
    let mut watched = Watched::new(&[&log]);
    assert!(watched.polled().is_empty());
    assert!(watched.polled().is_empty());
    watched.finish();
    assert_eq!(watched.texts(), ["half"]);
}

#[test]
fn a_bar_without_a_line_end_is_seen_and_its_completion_is_not_lost() {
    let (_dir, log) = one_log("");
    let mut watched = Watched::new(&[&log]);
    append(&log, "\r 10%|#   |");
    watched.poll().unwrap();
    let lines = watched.lines();
    assert_eq!((lines.len(), lines[0].text.as_str(), lines[0].transient), (1, " 10%|#   |", true));
    assert!(watched.polled().is_empty(), "told once");
    append(&log, "\r 20%|##  |\r 30%|### |");
    assert_eq!(watched.polled(), [" 30%|### |"]);
    append(&log, " done\nepoch over\n");
    let _ = watched.poll();
    let lines = watched.lines();
    assert_eq!(lines[0], Line { no: Some(1), offset: 23, text: " 30%|### | done".into(), transient: false });
    assert_eq!((lines[1].no, lines[1].text.as_str()), (Some(2), "epoch over"));
}

#[test]
fn a_line_end_that_comes_in_two_pieces_is_one() {
    let (_dir, log) = one_log("");
    let mut watched = Watched::new(&[&log]);
    append(&log, "one\r");
    watched.poll().unwrap();
    append(&log, "\ntwo\r\n");
    watched.poll().unwrap();
    let kept: Vec<_> = watched.lines().into_iter().filter(|l| !l.transient).map(|l| (l.no, l.text)).collect();
    assert_eq!(kept, [(Some(1), "one".to_string()), (Some(2), "two".to_string())]);
}

#[test]
fn nul_and_invalid_utf8_and_escapes_come_through_as_text() {
    let (_dir, log) = one_log("");
    append(&log, b"(shm).\n\0Traceback\n\xff\xfe loss\n\x1b[31mred\x1b[0m\n");
    let mut watched = Watched::new(&[&log]);
    assert_eq!(watched.polled(), ["(shm).", "Traceback", "\u{fffd}\u{fffd} loss", "\x1b[31mred\x1b[0m"]);
}

#[test]
fn a_line_of_five_megabytes_is_cut_and_costs_no_more() {
    let (_dir, log) = one_log("");
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    append(&log, vec![b'x'; 5 << 20]);
    assert!(watched.polled().is_empty());
    append(&log, "\nnext\n");
    watched.poll().unwrap();
    let lines = watched.lines();
    assert_eq!((lines[0].text.len(), lines[0].no), (64 << 10, Some(1)));
    assert_eq!((lines[1].text.as_str(), lines[1].no, lines[1].offset), ("next", Some(2), (5 << 20) + 1));
}

// ---- changing identity ----

#[test]
fn a_rotated_file_is_read_to_its_end_before_its_successor() {
    let (dir, log) = one_log("one\n");
    let mut watched = Watched::new(&[&log]);
    assert_eq!(watched.polled(), ["one"]);
    append(&log, "two\nlast words");
    fs::rename(&log, dir.path().join("train.log.1")).unwrap();
    fs::write(&log, "three\n").unwrap();
    watched.poll().unwrap();
    let lines = watched.lines();
    assert_eq!(lines.iter().map(|l| l.text.as_str()).collect::<Vec<_>>(), ["two", "three"]);
    assert_eq!(lines[1].no, Some(1));
    assert_eq!(watched.states(), [LogFileState::Open, LogFileState::Rotated]);
    assert_ne!(watched.infos[0].inode, watched.infos[1].inode);
    assert_eq!(watched.infos[0].file, watched.infos[1].file);
    // Its writer may end the line: that waits until nobody has the old file any more.
    watched.finish();
    assert_eq!(watched.texts(), ["last words"]);
    assert_eq!((watched.infos[2].file != watched.infos[0].file, watched.infos[2].inode), (true, watched.infos[0].inode));
    assert!(watched.infos[2].path.ends_with("train.log.1"), "{}", watched.infos[2].path);
}

#[test]
fn rotation_inside_a_watched_directory_brings_no_line_twice() {
    let (dir, log) = one_log("one\n");
    let mut watched = Watched::new(&[dir.path()]);
    assert_eq!(watched.polled(), ["one"]);
    for round in 0..4 {
        append(&log, format!("{round}\n"));
        fs::rename(&log, dir.path().join(format!("train.log.{round}"))).unwrap();
        fs::write(&log, format!("after {round}\n")).unwrap();
        assert_eq!(watched.polled(), [format!("{round}"), format!("after {round}")]);
    }
    // A writer that did not notice goes on in the renamed file.
    append(&dir.path().join("train.log.2"), "late\n");
    assert_eq!(watched.polled(), ["late"]);
}

#[test]
fn two_followed_paths_may_pass_a_file_on() {
    let dir = dir_with(&[("a.log", "a1\n"), ("b.log", "b1\n")]);
    let (a, b) = (dir.path().join("a.log"), dir.path().join("b.log"));
    for order in [[&a, &b], [&b, &a]] {
        fs::write(&a, "a1\n").unwrap();
        fs::write(&b, "b1\n").unwrap();
        let mut watched = Watched::new(&[order[0], order[1]]);
        watched.poll().unwrap();
        watched.texts();
        append(&a, "a2\n");
        fs::rename(&a, &b).unwrap();
        fs::write(&a, "a3\n").unwrap();
        watched.poll().unwrap();
        append(&b, "a4\n");
        watched.poll().unwrap();
        watched.poll().unwrap();
        let mut texts = watched.texts();
        texts.sort();
        assert_eq!(texts, ["a2", "a3", "a4"]);
    }
}

#[test]
fn a_truncated_file_is_read_from_its_start() {
    let (_dir, log) = one_log("one\ntwo\n");
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    watched.texts();
    fs::write(&log, "new\n").unwrap();
    watched.poll().unwrap();
    let lines = watched.lines();
    assert_eq!((lines[0].text.as_str(), lines[0].no, lines[0].offset), ("new", Some(1), 0));
    assert_eq!(watched.states(), [LogFileState::Open, LogFileState::Truncated]);
}

#[test]
fn a_file_that_grew_beyond_its_old_size_after_truncation_is_noticed() {
    let (_dir, log) = one_log("one\ntwo\n");
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    watched.texts();
    fs::write(&log, "a new run\nwith more text\n").unwrap();
    assert_eq!(watched.polled(), ["a new run", "with more text"]);
    fs::write(&log, "A new run\nwith more TEXT\n").unwrap();
    assert_eq!(watched.polled(), ["A new run", "with more TEXT"], "same size, other text");
}

#[test]
fn the_hole_that_a_writer_leaves_after_truncation_is_skipped() {
    let (_dir, log) = one_log("");
    let mut writer = File::create(&log).unwrap();
    writer.write_all(&[b"x".repeat(99_999), b"\n".to_vec()].concat()).unwrap();
    let mut watched = Watched::new(&[&log]);
    assert_eq!(watched.polled().len(), 1);
    OpenOptions::new().write(true).open(&log).unwrap().set_len(0).unwrap();
    writer.write_all(b"after\n").unwrap();
    assert_eq!(watched.polled(), ["after"]);
}

#[test]
fn a_deleted_file_may_come_back() {
    let (_dir, log) = one_log("one\n");
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    fs::remove_file(&log).unwrap();
    watched.poll().unwrap();
    watched.poll().unwrap();
    fs::write(&log, "two\n").unwrap();
    assert_eq!(watched.polled(), ["one", "two"]);
    assert_eq!(watched.states(), [LogFileState::Open, LogFileState::Gone, LogFileState::Rotated]);
}

#[test]
fn a_file_that_was_moved_away_and_back_is_the_same_file() {
    let (dir, log) = one_log("one\n");
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    let away = dir.path().join("away");
    fs::rename(&log, &away).unwrap();
    append(&away, "two\n");
    watched.poll().unwrap();
    fs::rename(&away, &log).unwrap();
    assert_eq!(watched.polled(), ["one", "two"]);
    assert_eq!(watched.states(), [LogFileState::Open, LogFileState::Gone, LogFileState::Open]);
}

// ---- which files ----

#[test]
fn a_named_file_that_appears_later_is_followed_and_its_lines_are_new() {
    let (dir, _) = one_log("");
    let log = dir.path().join("later.log");
    let mut watched = Watched::new(&[&log]);
    assert!(watched.polled().is_empty());
    watched.poll().unwrap();
    assert_eq!(watched.states(), [LogFileState::Gone]);
    assert!(watched.infos[0].detail.as_deref().unwrap().starts_with("no such file yet"));
    fs::write(&log, "one\n").unwrap();
    watched.poll().unwrap();
    assert!(!watched.batches[0].backlog);
    assert_eq!(watched.texts(), ["one"]);
    assert_eq!(watched.states(), [LogFileState::Gone, LogFileState::Open]);
}

#[test]
fn a_glob_finds_what_is_there_and_what_comes() {
    let dir = dir_with(&[("r0.log", "zero\n"), ("r1.txt", "other\n")]);
    fs::write(dir.path().join("binary.log"), [0; 100]).unwrap();
    let mut watched = Watched::new(&[&dir.path().join("*.log")]);
    assert_eq!(watched.polled(), ["zero"]);
    fs::write(dir.path().join("r2.log"), "two\n").unwrap();
    watched.poll().unwrap();
    assert!(!watched.batches[0].backlog, "it was not there before");
    assert_eq!(watched.texts(), ["two"]);
}

#[test]
fn a_directory_that_appears_later_is_followed() {
    let dir = tempfile::tempdir().unwrap();
    let logs = dir.path().join("logs");
    let mut watched = Watched::new(&[&logs]);
    watched.poll().unwrap();
    assert_eq!(watched.states(), [LogFileState::Gone]);
    fs::create_dir(&logs).unwrap();
    append(&logs.join("rank0.log"), "one\n");
    watched.poll().unwrap();
    assert_eq!(watched.polled(), ["one"]);
    append(&logs.join("rank0.log"), "two\n");
    append(&logs.join("rank1.log"), "three\n");
    assert_eq!(watched.polled(), ["two", "three"]);
    assert!(watched.infos.iter().all(|info| info.state != LogFileState::Failed), "{:?}", watched.infos);
    assert!(watched.tail.remark().is_none(), "{:?}", watched.tail.remark());
}

/// A script of ours that is ended even if a check fails.
struct Script(std::process::Child);

impl Script {
    /// Returns once the script has printed a line, with what it printed.
    fn run(script: &str, log: &Path) -> (Script, Vec<u32>) {
        use std::io::BufRead;
        let mut command = std::process::Command::new("sh");
        command.args(["-c", script, "sh"]).arg(log).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        std::io::BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        let pids = line.split_whitespace().map(|pid| pid.parse().unwrap()).chain([child.id()]).collect();
        (Script(child), pids)
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        // Its programs end with their input.
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

#[test]
fn those_who_write_a_log_that_was_given_are_reported_with_it() {
    let pids_of = |info: &LogFileInfo| info.written_by.clone().unwrap_or_else(|| panic!("{info:?}"));
    let attributing = |log: &Path| Watched::of(Tail::new(names(&[log]), false).attributing());
    let (_dir, log) = one_log("step 1\n");
    let mut watched = attributing(&log);
    assert_eq!(watched.polled(), ["step 1"]);
    assert_eq!(watched.infos.iter().map(pids_of).collect::<Vec<_>>(), [Vec::<u32>::new()], "nobody has it open");

    // A program opens it a moment after it was started.
    let found_with = |pids: &[u32]| {
        let started = Instant::now();
        loop {
            let mut watched = attributing(&log);
            watched.poll().unwrap();
            let found = pids_of(&watched.infos[0]);
            if pids.iter().all(|pid| found.contains(pid)) {
                return found;
            }
            assert!(started.elapsed() < PATIENCE, "{pids:?} {found:?}");
            std::thread::sleep(Duration::from_millis(10));
        }
    };
    // `cat` has it as its output; the shell above has started it.
    let (script, pids) = Script::run("exec 3<&0; cat <&3 >>\"$1\" & echo $!; exec 3<&-; wait", &log);
    let found = found_with(&pids);
    assert!(found.contains(&std::process::id()), "the parent of the shell, too");
    drop(script);

    // Through two pipes, and the first program has the file neither open nor above it.
    let pipeline = "exec 3<&0; { sh -c 'echo $$ >&2; exec cat <&3' 2>&4 | cat | tee -a \"$1\" >/dev/null; } 4>&1";
    let (_script, pids) = Script::run(pipeline, &log);
    found_with(&pids);
}

#[test]
fn a_directory_gives_its_logs_and_nothing_else() {
    let dir = dir_with(&[
        ("a.log", "a\n"),
        ("attempt_0/3/stderr.log", "deep\n"),
        ("train.py", "import os\n"),
        ("events.out.tfevents.1.host", "x\n"),
        (".hidden.log", "hidden\n"),
    ]);
    fs::write(dir.path().join("core.log"), b"\x7fELF\0\0\0\0\0\0").unwrap();
    let mut watched = Watched::new(&[dir.path()]);
    let mut texts = watched.polled();
    texts.sort();
    assert_eq!(texts, ["a", "deep"]);
}

#[test]
fn names_of_logs_are_told_from_others() {
    let logs = ["train.log", "slurm-123.out", "stderr", "nccl.host.4711", "train.log.1", "nohup.out", "OUTPUT", "m.jsonl", "rank_3.txt"];
    let others = ["a.pt", "log.py", "train.log.gz", "events.out.tfevents.1.host.2", ".train.log", "config.json", "model", "x.so.1"];
    let files: Vec<(&str, String)> = logs.iter().chain(&others).map(|name| (*name, format!("{name}\n"))).collect();
    let dir = dir_with(&files.iter().map(|(name, text)| (*name, text.as_str())).collect::<Vec<_>>());
    let mut read = Watched::new(&[dir.path()]).polled();
    read.sort();
    let mut wanted = logs;
    wanted.sort();
    assert_eq!(read, wanted);
}

#[test]
fn a_named_file_is_read_even_if_it_looks_binary() {
    let (_dir, log) = one_log("");
    fs::write(&log, b"\0\0\0\0text\n").unwrap();
    assert_eq!(Watched::new(&[&log]).polled(), ["text"]);
}

#[test]
fn a_file_is_read_once_however_often_it_is_named() {
    let (dir, log) = one_log("one\n");
    let (link, hard) = (dir.path().join("link.log"), dir.path().join("hard.log"));
    symlink(&log, &link).unwrap();
    fs::hard_link(&log, &hard).unwrap();
    let (hints, inbox) = Hints::line();
    hints.send(Hint::Logs(vec![log.clone(), link.clone()]));
    let logs = [log.as_path(), &log, &link, &hard, dir.path()];
    let mut watched = Watched::of(Tail::new(names(&logs), false).listening(inbox));
    assert_eq!(watched.polled(), ["one"]);
    hints.send(Hint::Logs(vec![hard]));
    append(&link, "two\n");
    assert_eq!(watched.polled(), ["two"]);
}

#[test]
fn hinted_files_are_followed_and_their_first_lines_are_old() {
    let (_dir, log) = one_log("one\n");
    let (hints, inbox) = Hints::line();
    let mut watched = Watched::of(Tail::new(Vec::new(), false).listening(inbox));
    assert_eq!(watched.poll(), Err(SourceError::Absent("no log file known; name one on the command line".into())));
    hints.send(Hint::Logs(vec![log.clone(), "/nonexistent/x".into(), "/dev/null".into()]));
    watched.poll().unwrap();
    assert!(watched.batches[0].backlog);
    assert_eq!(watched.texts(), ["one"]);
    assert_eq!(watched.infos.len(), 1);
}

#[test]
fn fifos_and_devices_are_refused_and_not_waited_for() {
    let dir = dir_with(&[]);
    let fifo = dir.path().join("fifo.log");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    let mut watched = Watched::new(&[&fifo, Path::new("/dev/tty"), Path::new("/dev/zero"), dir.path()]);
    watched.poll().unwrap();
    watched.poll().unwrap();
    assert_eq!(watched.states(), [LogFileState::Failed; 3]);
    assert_eq!(watched.infos[0].detail.as_deref(), Some("a FIFO, not a regular file; not opened"));
    assert!(watched.tail.remark().unwrap().1.contains("3 of 3 files not read"));
}

#[test]
fn three_hundred_files_are_followed_at_once() {
    let dir = dir_with(&[]);
    let file = |i: usize| dir.path().join(format!("rank_{i}.log"));
    (0..300).for_each(|i| fs::write(file(i), format!("start {i}\n")).unwrap());
    let mut watched = Watched::new(&[dir.path()]);
    assert_eq!(watched.polled().len(), 300);
    (0..300).for_each(|i| append(&file(i), format!("next {i}\n")));
    let texts: BTreeSet<_> = watched.polled().into_iter().collect();
    assert_eq!(texts, (0..300).map(|i| format!("next {i}")).collect());
    assert_eq!(watched.tail.remark(), None);
}

#[test]
fn more_files_than_the_cap_are_said_to_be_left_out() {
    let dir = dir_with(&[]);
    (0..1000).for_each(|i| fs::write(dir.path().join(format!("{i}.log")), "x\n").unwrap());
    let mut watched = Watched::new(&[dir.path()]);
    assert_eq!(watched.polled().len(), 768);
    let remark = watched.tail.remark().unwrap().1;
    assert!(remark.starts_with("768 files followed, 232 more left out: no more than 768 are followed"), "{remark}");
}

// ---- volume ----

#[test]
fn of_a_big_file_the_head_and_the_end_are_read() {
    let (_dir, log) = one_log("");
    let width = 100;
    let count = (10 << 20) / width;
    let text: String = (1..=count).map(|no| format!("{no:>w$}\n", w = width - 1)).collect();
    fs::write(&log, &text).unwrap();
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    assert_eq!(watched.infos[0].skipped_bytes, Some(text.len() as u64 - (5 << 20)));
    assert!(watched.batches.iter().all(|b| b.backlog));
    let dropped: u64 = watched.batches.iter().map(|b| b.dropped_lines).sum();
    let lines = watched.lines();
    let whole_in = |bytes: usize| (bytes / width) as u64;
    assert_eq!(lines.len() as u64 + dropped, whole_in(1 << 20) + whole_in(4 << 20));
    let written = |l: &Line| l.text.trim().parse::<u64>().unwrap();
    let (head, end): (Vec<_>, Vec<_>) = lines.iter().partition(|l| l.no.is_some());
    assert!(head.iter().all(|l| l.no == Some(written(l)) && l.offset == (written(l) - 1) * width as u64));
    assert!(!head.is_empty() && head.iter().all(|l| l.offset < 1 << 20));
    assert!(end.iter().all(|l| l.offset >= text.len() as u64 - (4 << 20) && l.offset == (written(l) - 1) * width as u64));
    append(&log, "fresh\n");
    watched.poll().unwrap();
    assert_eq!((watched.batches[0].backlog, watched.batches[0].lines[0].text.as_str()), (false, "fresh"));
}

#[test]
fn whole_logs_are_read_whole_and_no_fact_is_left_out() {
    let (_dir, log) = one_log("");
    let count = 100_000;
    fs::write(&log, (1..=count).map(|no| format!("[Rank 0] NCCL INFO Init COMPLETE, and that is line {no:>40}\n")).collect::<String>())
        .unwrap();
    let mut watched = Watched::of(Tail::new(names(&[&log]), true));
    watched.poll().unwrap();
    assert!(watched.tail.is_caught_up());
    let dropped: u64 = watched.batches.iter().map(|b| b.dropped_lines).sum();
    let lines = watched.lines();
    assert_eq!(lines.len() as u64 + dropped, count);
    assert!(lines.iter().all(|l| l.no == Some(l.text.rsplit(' ').next().unwrap().parse().unwrap())));
}

#[test]
fn every_line_of_a_flood_is_told_or_counted() {
    let (_dir, log) = one_log("");
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    let (mut count, mut bytes) = (0, 0);
    let mut file = OpenOptions::new().append(true).open(&log).unwrap();
    for round in 0..3 {
        for i in 0..40_000 {
            let line = if i % 3 == 0 { "node:1:2 [0] misc/x.cc:1 NCCL WARN Call failed\n".into() } else { format!("line {round} {i}\n") };
            file.write_all(line.as_bytes()).unwrap();
            count += 1;
            bytes += line.len() as u64;
        }
        watched.poll().unwrap();
    }
    let told: Vec<&Line> = watched.batches.iter().flat_map(|b| &b.lines).collect();
    let dropped: u64 = watched.batches.iter().map(|b| b.dropped_lines + b.folded_alarms).sum();
    assert_eq!(told.len() as u64 + dropped, count);
    assert!(watched.batches.iter().map(|b| b.dropped_bytes).sum::<u64>() < bytes);
    assert!(told.is_sorted_by_key(|l| l.offset));
    assert!(dropped > 0 && told.len() < 20_000);
}

#[test]
fn every_warn_of_a_storm_is_told_or_folded() {
    let (_dir, log) = one_log("");
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    let warn = |i: u32| format!("node-1:70:93 [{}] misc/socket.cc:1 NCCL WARN socketProgress: Connection reset by peer", i % 8);
    let count = 30_000;
    append(&log, (0..count).map(|i| format!("{}\nsomething else {i}\n", warn(i))).collect::<String>());
    watched.poll().unwrap();
    let folded: u64 = watched.batches.iter().map(|b| b.folded_alarms).sum();
    let dropped: u64 = watched.batches.iter().map(|b| b.dropped_lines).sum();
    let (told, others): (Vec<_>, Vec<_>) = watched.lines().into_iter().partition(|l| l.text.contains("WARN"));
    assert_eq!(told.len() as u64 + folded + others.len() as u64 + dropped, 2 * u64::from(count));
    assert!(told.len() < 10_000);
    if classify(warn(0).as_bytes()) == Class::Alarm {
        assert_eq!(told.len() as u64 + folded, u64::from(count));
    }
}

#[test]
fn a_rotated_file_is_read_to_its_end_even_if_that_takes_several_polls() {
    let (dir, log) = one_log("");
    let mut watched = Watched::new(&[&log]);
    watched.poll().unwrap();
    let count = 20 << 16;
    append(&log, (0..count).map(|i| format!("{i:>15}\n")).collect::<String>());
    fs::rename(&log, dir.path().join("train.log.1")).unwrap();
    fs::write(&log, "after\n").unwrap();
    watched.poll().unwrap();
    let told: usize = watched.batches.iter().map(|b| b.lines.len() + b.dropped_lines as usize).sum();
    assert_eq!((told, watched.texts().pop().as_deref()), (count + 1, Some("after")));
}

#[test]
fn one_busy_file_does_not_starve_another() {
    let dir = dir_with(&[("busy.log", ""), ("quiet.log", "")]);
    let mut watched = Watched::new(&[dir.path()]);
    watched.poll().unwrap();
    append(&dir.path().join("busy.log"), "fill\n".repeat(10 << 20));
    append(&dir.path().join("quiet.log"), "quiet\n");
    let mut out = Vec::new();
    watched.tail.poll(&mut out).unwrap();
    assert!(watched.tail.every() < Duration::from_millis(10), "there is more");
    watched.sort(out);
    assert!(watched.texts().contains(&"quiet".to_string()));
}

// ---- standard input, waking ----

#[test]
fn standard_input_is_read_to_its_end_and_never_blocks_a_poll() {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let mut watched = Watched::of(Tail::new(vec!["-".into()], false).reading(reader));
    watched.poll().unwrap();
    assert_eq!((watched.infos[0].path.as_str(), watched.infos[0].state), ("-", LogFileState::Open));
    writer.write_all(b"one\n\r10%").unwrap();
    let mut texts = Vec::new();
    let mut poll_until = |watched: &mut Watched, n: usize| {
        let start = Instant::now();
        while texts.len() < n {
            assert!(start.elapsed() < PATIENCE);
            texts.extend(watched.polled());
            std::thread::sleep(Duration::from_millis(2));
        }
        texts.clone()
    };
    assert_eq!(poll_until(&mut watched, 2), ["one", "10%"]);
    writer.write_all(b" done\nunfinished").unwrap();
    drop(writer);
    assert_eq!(poll_until(&mut watched, 4)[2..], ["10% done", "unfinished"]);
    while !watched.tail.is_caught_up() {
        watched.poll().unwrap();
    }
    assert_eq!(watched.states(), [LogFileState::Open, LogFileState::Gone]);
}

#[test]
fn an_appended_line_ends_the_wait() {
    let (dir, log) = one_log("one\n");
    let link = dir.path().join("link");
    fs::create_dir(&link).unwrap();
    symlink(&log, link.join("train.log")).unwrap();
    let mut source = Tail::of(&mut Setup::new(Roots::live(), Duration::from_secs(1), names(&[&link.join("train.log")])));
    let mut out = Vec::new();
    source.poll(&mut out).unwrap();
    source.wait(Duration::from_millis(60)); // What opening it stirred up; more of it only makes a poll more below.
    source.poll(&mut Vec::new()).unwrap();
    // Without the kernel's word the wait would end after the time that it is given, and the test fail.
    const LONG: Duration = Duration::from_secs(120);
    for i in 0..3 {
        let writer = std::thread::spawn({
            let log = log.clone();
            move || {
                std::thread::sleep(Duration::from_millis(100));
                append(&log, format!("WARN {i}\n"));
            }
        });
        let mut out = Vec::new();
        let start = Instant::now();
        while out.is_empty() {
            source.wait(LONG);
            assert!(start.elapsed() < LONG, "woken by the kernel, not by the timeout");
            source.poll(&mut out).unwrap();
        }
        writer.join().unwrap();
        assert!(matches!(&out[..], [Body::Lines(l)] if l.lines[0].text == format!("WARN {i}")), "{out:?}");
    }
}

// ---- the interpreter ----

#[derive(Clone, Debug)]
enum Op {
    Line(usize, u8),
    Partial(usize, u8),
    Bar(usize, u8),
    Rotate(usize),
    CopyTruncate(usize),
    Delete(usize),
    Poll,
}

const FILES: usize = 3;

fn op() -> impl Strategy<Value = Op> {
    let file = 0..FILES;
    prop_oneof![
        6 => (file.clone(), 0..60u8).prop_map(|(f, n)| Op::Line(f, n)),
        3 => (file.clone(), 0..60u8).prop_map(|(f, n)| Op::Partial(f, n)),
        2 => (file.clone(), 0..9u8).prop_map(|(f, n)| Op::Bar(f, n)),
        2 => file.clone().prop_map(Op::Rotate),
        2 => file.clone().prop_map(Op::CopyTruncate),
        1 => file.prop_map(Op::Delete),
        5 => Just(Op::Poll),
    ]
}

/// What one path was given, as lines: the last one may be unfinished.
#[derive(Default)]
struct Written {
    finished: Vec<String>,
    open: String,
    has_bar: bool,
    rotations: usize,
    was_seen: bool,
}

impl Written {
    fn close(&mut self) {
        let open = std::mem::take(&mut self.open);
        if !open.is_empty() && !self.has_bar {
            self.finished.push(open);
        }
        self.has_bar = false;
    }
}

type Outcome = BTreeMap<usize, (Vec<String>, Vec<String>)>;

/// Runs `ops` and returns, per file, what was written and what was read (without bars).
fn interpret(ops: &[Op], target: impl Fn(&Path) -> Vec<String>) -> Result<Outcome, TestCaseError> {
    let dir = dir_with(&[]);
    let path = |f: usize| dir.path().join(format!("{f}.log"));
    let mut watched = Watched::of(Tail::new(target(dir.path()), false));
    let mut written: Vec<Written> = (0..FILES).map(|_| Written::default()).collect();
    let mut unique = 0;
    let mut word = |f: usize, n: u8| {
        unique += 1;
        format!("<{f}:{unique}:{}>", "x".repeat(n.into()))
    };
    for op in ops {
        match *op {
            Op::Line(f, n) => {
                let text = word(f, n);
                append(&path(f), format!("{text}\n"));
                let open = std::mem::take(&mut written[f].open);
                written[f].has_bar = false;
                written[f].finished.push(open + &text);
            }
            Op::Partial(f, n) => {
                let text = word(f, n);
                append(&path(f), &text);
                written[f].open += &text;
            }
            Op::Bar(f, n) => {
                // What stood in the line is overwritten, as on a terminal.
                append(&path(f), format!("\r{n}%"));
                written[f].open = format!("{n}%");
                written[f].has_bar = true;
            }
            Op::Rotate(f) => {
                // A file that nobody ever saw under its path cannot be found under another one.
                if !std::mem::replace(&mut written[f].was_seen, true) {
                    watched.poll().ok();
                }
                written[f].rotations += 1;
                let kept = dir.path().join(format!("{f}.log.{}", written[f].rotations));
                written[f].was_seen = fs::rename(path(f), kept).is_ok();
                if written[f].was_seen {
                    File::create(path(f)).unwrap();
                }
                // As with logrotate's usual interval: the tailer looks in between.
                watched.poll().ok();
                written[f].close();
            }
            Op::CopyTruncate(f) => {
                if path(f).exists() {
                    File::create(path(f)).unwrap();
                }
                written[f].open.clear();
                written[f].has_bar = false;
            }
            Op::Delete(f) => {
                watched.poll().ok();
                let _ = fs::remove_file(path(f));
                watched.poll().ok();
                written[f].close();
                written[f].was_seen = false;
            }
            Op::Poll => {
                watched.poll().ok();
            }
        }
    }
    watched.poll().ok();
    watched.finish();
    written.iter_mut().for_each(Written::close);
    let mut read: BTreeMap<usize, Vec<String>> = BTreeMap::new();
    let begins = |line: &Line| line.text.split(':').nth(1).and_then(|n| n.parse::<u32>().ok());
    let mut by_file: BTreeMap<u32, Vec<Option<u32>>> = BTreeMap::new();
    for batch in &watched.batches {
        by_file.entry(batch.file).or_default().extend(batch.lines.iter().filter(|l| !l.transient).map(begins));
    }
    prop_assert!(by_file.values().all(|numbers| numbers.is_sorted()), "out of order: {by_file:?}");
    for line in watched.lines().into_iter().filter(|l| !l.transient) {
        let f = line.text.split(['<', ':']).nth(1).and_then(|f| f.parse().ok());
        prop_assert!(f.is_some(), "torn: {:?}", line.text);
        read.entry(f.unwrap()).or_default().push(line.text);
    }
    // A line that was unfinished when its file was rotated comes later than those of the next file.
    let number = |line: &String| line.split(':').nth(1).and_then(|n| n.parse::<u32>().ok());
    read.values_mut().for_each(|lines| lines.sort_by_key(number));
    Ok(written.into_iter().enumerate().map(|(f, w)| (f, (w.finished, read.remove(&f).unwrap_or_default()))).collect())
}

fn the_files(dir: &Path) -> Vec<String> {
    (0..FILES).map(|f| dir.join(format!("{f}.log")).display().to_string()).collect()
}

fn the_directory(dir: &Path) -> Vec<String> {
    vec![dir.display().to_string()]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn without_truncation_every_line_is_read_once(ops in prop::collection::vec(op(), 0..60), by_directory: bool) {
        let ops: Vec<Op> = ops.into_iter().filter(|op| !matches!(op, Op::CopyTruncate(_))).collect();
        let target = if by_directory { the_directory } else { the_files };
        for (f, (written, read)) in interpret(&ops, target)? {
            prop_assert_eq!(read, written, "file {}", f);
        }
    }

    #[test]
    fn with_truncation_no_line_is_torn_or_read_twice_or_out_of_order(ops in prop::collection::vec(op(), 0..60)) {
        for (f, (written, read)) in interpret(&ops, the_files)? {
            let mut rest = written.iter();
            for line in &read {
                prop_assert!(rest.any(|w| w == line), "file {}: {:?} in {:?}, written {:?}", f, line, read, written);
            }
        }
    }
}
