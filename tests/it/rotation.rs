//! Random writers against the tailer: each line has a number of its own, and what was written is compared with what was read. A line
//! may be missing only where nothing could have read it, and none comes twice.
//!
//! `NCCL_TOP_SEED=7 NCCL_TOP_ROUNDS=500 cargo test --test it rotation::long -- --ignored` takes other seeds.

use crate::support::screen::PATIENCE;
use nccl_top::observe::log::{LogFileInfo, LogFileState};
use nccl_top::observe::{Body, Observation};
use nccl_top::sources::Source;
use nccl_top::sources::tail::Tail;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// SplitMix64: the same numbers on each machine.
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    /// One file that only grows.
    Append,
    /// `mv` and a new file; the writer goes on in the old one for a while.
    Rotate,
    /// The same, each copy renamed once more: `.1` becomes `.2`.
    Chain,
    /// Renamed, compressed and deleted.
    Compress,
    /// A copy is made, and the log truncated.
    CopyTruncate,
    /// The same, and the writer writes between the two.
    CopyWriteTruncate,
    /// A copy is made, often slowly, and always into one and the same file.
    CopyOver,
    /// Truncated, and written to at once, often beyond the size that it had.
    Regrow,
    /// Truncated under a writer that does not append: a hole stays at the start.
    Hole,
    /// Deleted and made anew.
    Delete,
    /// `current.log`, a link, leads to another file.
    Link,
    /// An editor puts a file in its place that has the same beginning.
    Replace,
    /// Renamed, and back again.
    MoveBack,
}

const ALL: [Kind; 13] = [
    Kind::Append,
    Kind::Rotate,
    Kind::Chain,
    Kind::Compress,
    Kind::CopyTruncate,
    Kind::CopyWriteTruncate,
    Kind::CopyOver,
    Kind::Regrow,
    Kind::Hole,
    Kind::Delete,
    Kind::Link,
    Kind::Replace,
    Kind::MoveBack,
];

const START: &str = "node1:1:2 [0] NCCL WARN uniq <";

/// A file that somebody has open, and what of its last line is not written yet.
struct Pen {
    file: File,
    rest: Vec<u8>,
    /// Lines that only this file has, and that no poll has had a chance to read.
    fresh: Vec<usize>,
    /// The tailer has seen the file under its path, and holds it.
    is_known: bool,
    /// The tailer has read something since it was made or truncated.
    has_print: bool,
}

impl Pen {
    fn new(file: File) -> Pen {
        Pen { file, rest: Vec::new(), fresh: Vec::new(), is_known: false, has_print: false }
    }
}

struct Writer {
    name: String,
    kind: Kind,
    directory: PathBuf,
    path: PathBuf,
    /// The tailer is given the directory and not the path.
    by_directory: bool,
    now: Pen,
    /// Open files that have lost their path.
    old: Vec<Pen>,
    copies: usize,
    /// The rest of a copy that is half made.
    half: Option<Vec<u8>>,
    /// Lines that only the copy has.
    in_copy: Vec<usize>,
    written: usize,
    /// Lines that nothing could have read.
    excused: BTreeSet<usize>,
}

fn appending(path: &Path) -> Pen {
    Pen::new(OpenOptions::new().create(true).append(true).open(path).unwrap())
}

impl Writer {
    fn new(kind: Kind, by_directory: bool, root: &Path) -> Writer {
        let name = format!("{kind:?}{}", if by_directory { "InDirectory" } else { "" }).to_lowercase();
        let directory = root.join(&name);
        fs::create_dir(&directory).unwrap();
        let path = directory.join("app.log");
        let now = match kind {
            Kind::Link => {
                let target = directory.join("job0.dat");
                let pen = appending(&target);
                symlink(&target, &path).unwrap();
                pen
            }
            Kind::Hole => Pen::new(File::create(&path).unwrap()),
            _ => appending(&path),
        };
        let (old, copies, written) = (Vec::new(), 0, 0);
        Writer {
            name,
            kind,
            directory,
            path,
            by_directory,
            now,
            old,
            copies,
            half: None,
            in_copy: Vec::new(),
            written,
            excused: BTreeSet::new(),
        }
    }

    fn target(&self) -> String {
        if self.by_directory { &self.directory } else { &self.path }.display().to_string()
    }

    /// Another line, the last of it perhaps later.
    fn put(&mut self, old: Option<usize>, random: &mut Random) {
        let no = self.written;
        self.written += 1;
        let padding = "x".repeat([0, 5, 60, 400][random.below(4)]);
        let line = format!("{START}{}:{no}> {padding}!\n", self.name);
        let pen = old.map_or(&mut self.now, |i| &mut self.old[i]);
        pen.file.write_all(&std::mem::take(&mut pen.rest)).unwrap();
        // Cut off by a truncation, a line that lacks nothing but its end would count as whole.
        let now = if random.below(4) == 0 { random.below(line.len() - 1) } else { line.len() };
        pen.file.write_all(&line.as_bytes()[..now]).unwrap();
        pen.rest = line.as_bytes()[now..].to_vec();
        pen.fresh.push(no);
    }

    fn put_some(&mut self, random: &mut Random) {
        for _ in 0..[1, 1, 3, 20][random.below(4)] {
            let old = (!self.old.is_empty() && random.below(3) == 0).then(|| random.below(self.old.len()));
            self.put(old, random);
        }
    }

    fn finish_line(&mut self) {
        let rest = std::mem::take(&mut self.now.rest);
        self.now.file.write_all(&rest).unwrap();
    }

    fn next_copy(&mut self) -> PathBuf {
        self.copies += 1;
        self.path.with_file_name(format!("app.log.{}", self.copies))
    }

    /// The writer takes `pen`; a few of those before it stay open.
    fn change_to(&mut self, pen: Pen, random: &mut Random) {
        let before = std::mem::replace(&mut self.now, pen);
        self.old.push(before);
        while self.old.len() > random.below(3) {
            let mut closed = self.old.remove(0);
            closed.file.write_all(&closed.rest).unwrap();
        }
    }

    /// What only `pen` has and nobody has seen is gone.
    fn excuse(&mut self) {
        self.excused.extend(self.now.fresh.drain(..));
    }

    /// The file is deleted. If nobody has seen it, nobody can ever read what is written there.
    fn lose_path(&mut self, random: &mut Random) {
        let pen = appending(&self.path);
        if self.now.is_known {
            self.change_to(pen, random);
        } else {
            self.excuse();
            self.now = pen;
        }
    }

    fn truncate(&mut self) {
        OpenOptions::new().write(true).open(&self.path).unwrap().set_len(0).unwrap();
        self.now.has_print = false;
    }

    fn copy_over(&mut self, random: &mut Random) {
        if !self.now.has_print {
            return self.put_some(random);
        }
        self.finish_line();
        self.excused.extend(self.in_copy.drain(..));
        let text = fs::read(&self.path).unwrap();
        let so_far = if random.below(2) == 0 { text.len() } else { random.below(text.len()) };
        fs::write(self.path.with_file_name("app.log.1"), &text[..so_far]).unwrap();
        self.half = Some(text[so_far..].to_vec());
        if so_far == text.len() && random.below(2) == 0 {
            self.end_copy();
        }
    }

    fn end_copy(&mut self) {
        let Some(rest) = self.half.take() else { return };
        let mut copy = OpenOptions::new().append(true).open(self.path.with_file_name("app.log.1")).unwrap();
        copy.write_all(&rest).unwrap();
        self.in_copy.append(&mut self.now.fresh);
        self.truncate();
    }

    fn step(&mut self, random: &mut Random) {
        if self.half.is_some() {
            return self.end_copy();
        }
        if random.below(4) > 0 {
            return self.put_some(random);
        }
        match self.kind {
            Kind::Append => {}
            Kind::Rotate => {
                let to = self.next_copy();
                fs::rename(&self.path, to).unwrap();
                self.change_to(appending(&self.path), random);
            }
            Kind::Chain => {
                for i in (1..60).rev() {
                    let _ = fs::rename(
                        self.path.with_file_name(format!("app.log.{i}")),
                        self.path.with_file_name(format!("app.log.{}", i + 1)),
                    );
                }
                fs::rename(&self.path, self.path.with_file_name("app.log.1")).unwrap();
                self.change_to(appending(&self.path), random);
            }
            Kind::Compress => {
                let to = self.next_copy();
                fs::rename(&self.path, &to).unwrap();
                fs::write(to.with_extension("gz"), b"\x1f\x8b compressed").unwrap();
                fs::remove_file(to).unwrap();
                self.lose_path(random);
            }
            Kind::CopyTruncate | Kind::CopyWriteTruncate => {
                self.finish_line();
                let to = self.next_copy();
                fs::copy(&self.path, to).unwrap();
                // A copy in a directory is read anyway. Beside a path it is known by what was read of it.
                if !self.by_directory && !self.now.has_print {
                    self.excuse();
                }
                self.now.fresh.clear();
                if self.kind == Kind::CopyWriteTruncate && random.below(2) == 0 {
                    self.put(None, random);
                    self.finish_line();
                    self.excuse();
                }
                self.truncate();
            }
            Kind::CopyOver => self.copy_over(random),
            Kind::Regrow => {
                self.finish_line();
                self.excuse();
                self.truncate();
                (0..random.below(60)).for_each(|_| self.put(None, random));
            }
            Kind::Hole => {
                self.finish_line();
                self.excuse();
                self.truncate();
                self.put(None, random);
            }
            Kind::Delete => {
                fs::remove_file(&self.path).unwrap();
                self.lose_path(random);
            }
            Kind::Link => {
                if !self.now.is_known {
                    self.excuse();
                    self.now.rest.clear();
                }
                let known = self.now.is_known;
                self.copies += 1;
                let target = self.directory.join(format!("job{}.dat", self.copies));
                let pen = appending(&target);
                let link = self.directory.join("new");
                symlink(&target, &link).unwrap();
                fs::rename(&link, &self.path).unwrap();
                if known { self.change_to(pen, random) } else { self.now = pen }
            }
            Kind::Replace => {
                self.finish_line();
                let text = fs::read(&self.path).unwrap();
                // Less than this is no proof that it is the same text.
                if text.len() > 600 && (self.now.has_print || self.now.fresh.len() == self.written) {
                    let new = self.directory.join("edited");
                    fs::write(&new, text).unwrap();
                    let fresh = std::mem::take(&mut self.now.fresh);
                    let pen = Pen { fresh, is_known: false, has_print: self.now.has_print, ..appending(&new) };
                    fs::rename(&new, &self.path).unwrap();
                    self.now = pen;
                }
            }
            Kind::MoveBack => {
                let away = self.directory.join("away");
                fs::rename(&self.path, &away).unwrap();
                self.put_some(random);
                fs::rename(&away, &self.path).unwrap();
            }
        }
    }

    /// The tailer has looked at everything.
    fn polled(&mut self) {
        self.now.is_known = true;
        self.in_copy.clear();
        // All lines begin alike: only with its number the first one is like no other.
        self.now.has_print |= self.now.file.metadata().unwrap().len() >= 80;
        for pen in self.old.iter_mut().chain([&mut self.now]) {
            let unfinished = pen.fresh.pop().filter(|_| !pen.rest.is_empty());
            pen.fresh = unfinished.into_iter().collect();
        }
    }

    /// Ends all lines.
    fn end(&mut self) {
        for pen in self.old.iter_mut().chain([&mut self.now]) {
            pen.file.write_all(&std::mem::take(&mut pen.rest)).unwrap();
        }
    }

    /// What is wrong with what was read.
    fn verdict(&self, seen: &BTreeMap<usize, usize>) -> Option<String> {
        let lost: Vec<usize> = (0..self.written).filter(|no| !seen.contains_key(no) && !self.excused.contains(no)).collect();
        let twice: Vec<&usize> = seen.iter().filter(|(_, times)| **times > 1).map(|(no, _)| no).collect();
        let all = format!("of {} lines, {} of which nobody could read", self.written, self.excused.len());
        (!lost.is_empty() || !twice.is_empty()).then(|| format!("{}: lost {lost:?}, twice {twice:?}, {all}", self.name))
    }
}

fn writers(root: &Path) -> Vec<Writer> {
    let by_directory = |kind: &Kind| !matches!(kind, Kind::Link | Kind::Replace | Kind::Compress | Kind::Delete | Kind::MoveBack);
    let named = ALL.iter().map(|kind| Writer::new(*kind, false, root));
    let mut all: Vec<Writer> = named.collect();
    all.extend(ALL.iter().filter(|kind| by_directory(kind)).map(|kind| Writer::new(*kind, true, root)));
    all
}

/// How often each numbered line was read, by writer.
#[derive(Default)]
struct Seen(BTreeMap<String, BTreeMap<usize, usize>>);

impl Seen {
    fn take(&mut self, body: &Body) {
        let Body::Lines(lines) = body else { return };
        assert_eq!((lines.dropped_lines, lines.folded_alarms), (0, 0));
        for line in &lines.lines {
            let inside = line.text.strip_suffix('!').and_then(|text| text.split_once('<')?.1.split_once('>'));
            let Some((name, no)) = inside.and_then(|(id, _)| id.split_once(':')) else {
                // The beginning of a WARN that was truncated away is better than nothing.
                assert!(START.starts_with(&line.text) || line.text.starts_with(START), "torn: {:?}", line.text);
                continue;
            };
            *self.0.entry(name.to_owned()).or_default().entry(no.parse().unwrap()).or_default() += 1;
        }
    }

    fn count(&self) -> usize {
        self.0.values().map(BTreeMap::len).sum()
    }

    fn verdicts(&self, writers: &[Writer]) -> Vec<String> {
        let nothing = BTreeMap::new();
        writers.iter().filter_map(|writer| writer.verdict(self.0.get(&writer.name).unwrap_or(&nothing))).collect()
    }
}

fn poll(tail: &mut Tail, seen: &mut Seen) {
    loop {
        let mut out = Vec::new();
        tail.poll(&mut out).ok();
        out.iter().for_each(|body| seen.take(body));
        if tail.every() > Duration::from_millis(10) {
            return;
        }
    }
}

/// Writes and polls by turns. What is wrong comes back.
fn by_turns(seed: u64, steps: usize) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let mut writers = writers(dir.path());
    let mut tail = Tail::new(writers.iter().map(Writer::target).collect(), false).rescan_every(Duration::ZERO);
    let mut seen = Seen::default();
    poll(&mut tail, &mut seen);
    writers.iter_mut().for_each(Writer::polled);
    for _ in 0..steps {
        let i = random.below(writers.len());
        writers[i].step(&mut random);
        if random.below(12) == 0 {
            poll(&mut tail, &mut seen);
            writers.iter_mut().for_each(Writer::polled);
        }
    }
    writers.iter_mut().for_each(Writer::end);
    poll(&mut tail, &mut seen);
    let mut out = Vec::new();
    tail.finish(&mut out);
    out.iter().for_each(|body| seen.take(body));
    seen.verdicts(&writers)
}

#[test]
fn no_line_is_lost_or_read_twice_whatever_becomes_of_its_file() {
    for seed in 0..12 {
        let wrong = by_turns(seed, 600);
        assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
#[ignore = "minutes: more seeds than the usual run"]
fn long_runs_with_random_seeds() {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos() as u64;
    let first = number("NCCL_TOP_SEED").unwrap_or(now);
    for seed in (0..number("NCCL_TOP_ROUNDS").unwrap_or(100)).map(|i| first.wrapping_add(i)) {
        let wrong = by_turns(seed, 2000);
        assert!(wrong.is_empty(), "NCCL_TOP_SEED={seed}:\n{}", wrong.join("\n"));
        let wrong = if seed % 8 == 0 { beside(seed, 100) } else { Vec::new() };
        assert!(wrong.is_empty(), "beside the program, NCCL_TOP_SEED={seed}:\n{}", wrong.join("\n"));
    }
}

/// `record` runs beside the writers, woken by the kernel. When it looks nobody knows: what some of the writers destroy it may miss.
fn beside(seed: u64, steps: usize) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let mut random = Random(seed);
    let mut writers = writers(dir.path());
    let (root, tape) = (dir.path().join("root"), dir.path().join("t.jsonl"));
    fs::create_dir_all(root.join("proc")).unwrap();
    let args = ["--sysroot", root.to_str().unwrap(), "record", "-o", tape.to_str().unwrap()];
    let mut program = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    program.args(args).args(writers.iter().map(Writer::target)).env("HOME", dir.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut program = program.spawn().unwrap();
    wait_for(&tape, |text| writers.iter().all(|w| text.contains(&format!("{}/app.log", w.name))));
    for _ in 0..steps {
        // A line whose end does not come for seconds is passed on in parts.
        writers.iter_mut().for_each(|writer| writer.step(&mut random));
        writers.iter_mut().for_each(Writer::end);
        std::thread::sleep(Duration::from_millis(random.below(40) as u64));
    }
    writers.iter_mut().for_each(Writer::end);
    let excused: usize = writers.iter().map(|w| w.excused.len()).sum();
    let wanted = writers.iter().map(|w| w.written).sum::<usize>() - excused;
    let begin = Instant::now();
    let seen = loop {
        let seen = seen_on(&fs::read_to_string(&tape).unwrap());
        let missing = seen.verdicts(&writers);
        if missing.is_empty() && seen.count() >= wanted || begin.elapsed() > PATIENCE.min(Duration::from_secs(30)) {
            break seen;
        }
        std::thread::sleep(Duration::from_millis(200));
    };
    program.kill().unwrap();
    program.wait().unwrap();
    seen.verdicts(&writers)
}

fn seen_on(tape: &str) -> Seen {
    let mut seen = Seen::default();
    let whole = tape.rfind('\n').map_or("", |end| &tape[..end]);
    whole.lines().skip(1).for_each(|line| seen.take(&serde_json::from_str::<Observation>(line).unwrap().body));
    seen
}

fn wait_for(tape: &Path, is: impl Fn(&str) -> bool) {
    let begin = Instant::now();
    while !fs::read_to_string(tape).is_ok_and(|text| is(&text)) {
        assert!(begin.elapsed() < PATIENCE, "{}", fs::read_to_string(tape).unwrap_or_default());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn the_program_beside_the_writers_loses_nothing() {
    let wrong = beside(1, 40);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

// ---- one case each ----

struct Watched {
    tail: Tail,
    infos: Vec<LogFileInfo>,
}

impl Watched {
    fn new(target: &Path) -> Watched {
        let tail = Tail::new(vec![target.display().to_string()], false).rescan_every(Duration::ZERO);
        Watched { tail, infos: Vec::new() }
    }

    fn polled(&mut self) -> Vec<String> {
        let mut texts = Vec::new();
        loop {
            let mut out = Vec::new();
            self.tail.poll(&mut out).ok();
            for body in out {
                match body {
                    Body::Lines(lines) => texts.extend(lines.lines.into_iter().map(|line| line.text)),
                    Body::LogFile(info) => self.infos.push(info),
                    _ => {}
                }
            }
            if self.tail.every() > Duration::from_millis(10) {
                return texts;
            }
        }
    }
}

fn append(path: &Path, text: &str) {
    OpenOptions::new().create(true).append(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
}

#[test]
fn a_rotated_file_is_followed_while_somebody_has_it_open_and_let_go_then() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("app.log");
    let mut rank = OpenOptions::new().create(true).append(true).open(&log).unwrap();
    let mut watched = Watched::new(&log);
    watched.tail = watched.tail.let_go_after(Duration::ZERO);
    assert!(watched.polled().is_empty());
    fs::rename(&log, dir.path().join("app.log.1")).unwrap();
    append(&log, "new\n");
    assert_eq!(watched.polled(), ["new"]);
    for round in 0..3 {
        assert!(watched.polled().is_empty());
        writeln!(rank, "late {round}").unwrap();
        assert_eq!(watched.polled(), [format!("late {round}")]);
    }
    // Its name is of no importance.
    fs::remove_file(dir.path().join("app.log.1")).unwrap();
    assert!(watched.polled().is_empty());
    writeln!(rank, "deleted").unwrap();
    assert_eq!(watched.polled(), ["deleted"]);
    drop(rank);
    assert!(watched.polled().is_empty());
    let old = watched.infos.last().unwrap();
    assert_eq!((old.state, old.detail.as_deref()), (LogFileState::Gone, Some("nobody is seen to have it open")));
}

#[test]
fn so_many_rotated_files_are_held_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("app.log");
    append(&log, "first\n");
    let mut watched = Watched::new(&log);
    assert_eq!(watched.polled(), ["first"]);
    for i in 0..200 {
        fs::rename(&log, dir.path().join(format!("app.log.{i}"))).unwrap();
        append(&log, &format!("{i}\n"));
        assert_eq!(watched.polled(), [i.to_string()]);
    }
    let own = fs::read_dir("/proc/self/fd").unwrap().filter_map(|fd| fs::read_link(fd.unwrap().path()).ok());
    assert_eq!(own.filter(|path| path.starts_with(dir.path())).count(), 1 + 128);
}

#[test]
fn a_copy_of_a_truncated_log_is_not_new_and_what_it_has_more_is() {
    let oom = "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n";
    for target in ["", "app.log"] {
        let dir = tempfile::tempdir().unwrap();
        let (log, copy) = (dir.path().join("app.log"), dir.path().join("app.log.1"));
        append(&log, oom);
        let mut watched = Watched::new(&dir.path().join(target));
        assert_eq!(watched.polled(), [oom.trim_end()]);
        append(&log, "read\n");
        assert_eq!(watched.polled(), ["read"]);
        append(&log, "not read yet\n");
        fs::copy(&log, &copy).unwrap();
        let after = "after ".repeat(20);
        fs::write(&log, format!("{after}\n")).unwrap();
        let mut texts = watched.polled();
        texts.sort();
        assert_eq!(texts, [after.as_str(), "not read yet"], "{target}");
        // The copy before it moves on, under another name.
        fs::rename(&copy, dir.path().join("app.log.2")).unwrap();
        fs::copy(&log, &copy).unwrap();
        assert!(watched.polled().is_empty(), "a copy of what is still there");
        fs::write(&log, "").unwrap();
        assert!(watched.polled().is_empty());
    }
}

#[test]
fn logs_that_begin_alike_are_no_copies() {
    let dir = tempfile::tempdir().unwrap();
    let banner = "Setting OMP_NUM_THREADS to 1 for each process to be the default\n".repeat(20);
    append(&dir.path().join("rank_1.log"), &banner);
    let mut watched = Watched::new(dir.path());
    assert_eq!(watched.polled().len(), 20);
    append(&dir.path().join("rank_10.log"), &banner);
    append(&dir.path().join("rank_2.log"), &banner);
    assert_eq!(watched.polled().len(), 40);
    append(&dir.path().join("rank_1.log.1"), &format!("{banner}WARN of another run\n"));
    assert_eq!(watched.polled(), ["WARN of another run"], "it has all of it, and more");
}

#[test]
fn a_file_with_the_number_of_a_deleted_one_is_new() {
    let dir = tempfile::tempdir().unwrap();
    let log = |i: usize| dir.path().join(format!("{i}.log"));
    let mut watched = Watched::new(dir.path());
    watched.tail = watched.tail.let_go_after(Duration::ZERO);
    for i in 0..20 {
        append(&log(i), "the same text\n");
        assert_eq!(watched.polled(), ["the same text"], "{i}");
        fs::remove_file(log(i)).unwrap();
        assert!(watched.polled().is_empty());
    }
}

#[test]
fn a_copy_that_is_overwritten_at_each_truncation_is_read_no_more_than_once() {
    for target in ["", "app.log"] {
        for is_slow in [false, true] {
            let dir = tempfile::tempdir().unwrap();
            let (log, copy) = (dir.path().join("app.log"), dir.path().join("app.log.1"));
            append(&log, "");
            let mut watched = Watched::new(&dir.path().join(target));
            let (mut texts, mut wanted) = (watched.polled(), Vec::new());
            for round in 0..6 {
                let lines: Vec<String> = (0..20 - round).map(|i| format!("round {round} line {i} {}", "x".repeat(40))).collect();
                append(&log, &format!("{}\n", lines.join("\n")));
                wanted.extend(lines);
                texts.extend(watched.polled());
                append(&log, &format!("late in round {round}\n"));
                wanted.push(format!("late in round {round}"));
                let text = fs::read(&log).unwrap();
                for so_far in [0, text.len() / 2, text.len()] {
                    fs::write(&copy, &text[..so_far]).unwrap();
                    texts.extend(if is_slow { watched.polled() } else { Vec::new() });
                }
                fs::write(&log, "").unwrap();
                texts.extend(watched.polled());
            }
            texts.sort();
            wanted.sort();
            assert_eq!(texts, wanted, "{target} {is_slow}");
        }
    }
}
