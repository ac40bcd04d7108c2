//! What to do next: the evidence bundle and py-spy, in a real pseudo-terminal.

use crate::support::screen::{PATIENCE, Screen, find};
use nccl_top::base::severity::{Role, Severity};
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::output::bundle::{self, Bundle};
use nccl_top::recording::tape::Reader;
use nccl_top::recording::timeline::{Limits, Timeline};
use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nccl-top");

fn tape(name: &str) -> String {
    format!("{}/tests/tapes/{name}.jsonl.gz", env!("CARGO_MANIFEST_DIR"))
}

fn rows(s: &vt100::Screen) -> Vec<String> {
    let (height, width) = s.size();
    (0..height.get()).map(|y| s.contents_between(y, 0, y, width.get()).trim_end().to_owned()).collect()
}

fn footer(s: &vt100::Screen) -> String {
    rows(s).pop().unwrap_or_default()
}

/// The tape `hang` at +70 s, paused, in a wide terminal: a path fits into the footer.
fn still(dir: &Path) -> Screen {
    let tape = tape("hang");
    let mut s = Screen::start(&["replay", &tape, "--at", "+70s"], dir, &[], 40, 200);
    s.wait_for("STUCK");
    s.press("p", "paused", |s| rows(s)[0].contains('‖'));
    s
}

/// The events of a recording as `replay --headless --json` prints them, one per finding: rule, ranks, role.
fn findings(tape: &Path) -> Vec<(String, String, String)> {
    let out = Command::new(PROGRAM).args(["replay", "--headless", "--json"]).arg(tape).output().unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap());
    let word = |v: &serde_json::Value, key: &str| v[key].to_string();
    events.filter(|e| e["event"] == "opened").map(|e| (word(&e, "rule"), word(&e, "ranks"), word(&e, "role"))).collect()
}

fn unpacked(path: &Path) -> String {
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
    text
}

fn names(dir: &Path) -> Vec<String> {
    let mut names: Vec<String> = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn evidence_is_written_where_the_user_says_and_replays_to_the_same_findings() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = still(dir.path());
    s.press("e", "a prompt", |s| footer(s).contains("write evidence to (Esc: nothing): ./nccl-top-evidence-"));
    let asked = s.look(footer);
    assert!(asked.contains("-2026-11-2") && names(dir.path()).is_empty(), "{asked}");
    s.press("\x1b", "no prompt", |s| !footer(s).contains("write evidence"));
    assert!(names(dir.path()).is_empty(), "nothing is written before Enter");
    s.press("e\x15\r", "what is missing", |s| footer(s).contains("name a directory"));
    s.press("\x1b", "no prompt", |s| !footer(s).contains("write evidence"));
    // An arrow takes what is proposed, to be changed at its end.
    s.press("e\x1b[C\x7f\x7fX", "the proposal, changed", |s| {
        footer(s).contains("nothing): ./nccl-top-evidence-") && footer(s).trim_end().ends_with("X█")
    });
    s.press("\x1b", "no prompt", |s| !footer(s).contains("write evidence"));
    // What is typed takes its place.
    s.press("eout dir", "what was typed alone", |s| footer(s).contains("(Esc: nothing): out dir█"));
    s.press("\r", "written", |s| footer(s).contains("evidence: 3 files, "));
    let out = dir.path().join("out dir");
    assert_eq!(names(&out), ["findings.txt", "processes.txt", "recording.jsonl.gz"]);
    assert_eq!(mode(&out), 0o700);
    assert!(names(&out).iter().all(|name| mode(&out.join(name)) == 0o600));

    let text = fs::read_to_string(out.join("findings.txt")).unwrap();
    for part in [
        "is stuck since 20",
        "has not joined AllReduce",
        "hang-rank-absent, critical, root",
        "  next      py-spy dump --nonblocking --pid 1453",
        "last resort",
        "Sources",
    ] {
        assert!(text.contains(part), "no {part:?} in\n{text}");
    }
    let text = fs::read_to_string(out.join("processes.txt")).unwrap();
    assert!(text.contains("rank 3, pid 1453, parent") && text.contains("env      RANK=3"), "{text}");
    // What follows the moment that is shown is not in it.
    let recorded = findings(&out.join("recording.jsonl.gz"));
    let whole = findings(Path::new(&tape("hang")));
    assert!(recorded.iter().any(|f| f.0 == "\"hang-rank-absent\""), "{recorded:?}");
    assert_eq!(recorded[..], whole[..recorded.len()]);
    let lines = |tape: &Path| unpacked(tape).lines().count();
    assert!(lines(&out.join("recording.jsonl.gz")) < lines(Path::new(&tape("hang"))));

    // And on the screen: the same verdict.
    // What was asked for is finished when the program is ended at once.
    s.keys("e\x15last\rq");
    assert_eq!(s.wait_end(), 0);
    assert_eq!(findings(&dir.path().join("last/recording.jsonl.gz")), recorded);

    let recording = out.join("recording.jsonl.gz");
    let mut again = Screen::start(&["replay", recording.to_str().unwrap()], dir.path(), &[], 40, 200);
    again.wait_for("▶ replay");
    again.wait_until("its first moments", |s| rows(s)[0].contains(" s of "));
    again.keys("L");
    again.wait_for("STUCK");
    again.wait_for("rank 3 (GPU 3, pid 1453) has not joined");
}

#[test]
fn what_exists_is_not_touched() {
    let dir = tempfile::tempdir().unwrap();
    let at = |name: &str| dir.path().join(name);
    fs::create_dir(at("full")).unwrap();
    fs::write(at("full/findings.txt"), "mine").unwrap();
    fs::write(at("file"), "mine").unwrap();
    fs::create_dir(at("empty")).unwrap();
    std::os::unix::fs::symlink(at("nowhere"), at("link")).unwrap();
    let mut s = still(dir.path());
    for (name, why) in [
        ("full", "it exists and is not empty: full"),
        ("file", "it exists and is no directory: file"),
        ("no/such", "the directory above it does not exist: no/such"),
        ("link", "it is a symbolic link; name the directory that it leads to: link"),
        ("/proc/x", "/proc/x"),
    ] {
        s.keys(&format!("e\x15{name}\r"));
        s.wait_until(why, |s| footer(s).contains("evidence failed: ") && footer(s).contains(why));
        s.press("1", "no note", |s| !footer(s).contains("evidence failed"));
    }
    assert_eq!(fs::read_to_string(at("full/findings.txt")).unwrap(), "mine");
    assert_eq!(fs::read_to_string(at("file")).unwrap(), "mine");
    assert_eq!(names(dir.path()), ["empty", "file", "full", "link"]);
    s.press("e\x15~/empty\r", "written", |s| footer(s).contains("evidence: 3 files"));
    assert_eq!((names(&at("empty")).len(), mode(&at("empty"))), (3, 0o700));
    s.keys("\x03");
    assert_eq!(s.wait_end(), 0);
}

/// Ranks below a fake /proc that would write dumps to /d/fr_N, with secrets in their environment, which torchrun's log names.
fn tree(dir: &Path, ranks: u32) -> PathBuf {
    use std::os::unix::fs::MetadataExt;
    let root = dir.join("root");
    fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
    fs::create_dir_all(root.join("sys/class/net")).unwrap();
    fs::create_dir_all(root.join("d")).unwrap();
    fs::write(root.join("proc/sys/kernel/hostname"), "node-17\n").unwrap();
    fs::write(root.join("proc/stat"), "cpu 1 2 3\nbtime 1700000000\n").unwrap();
    let uid = fs::metadata(dir).unwrap().uid();
    for (pid, ppid, program, env) in std::iter::once((100, 1, "/usr/bin/python3\0/opt/bin/torchrun\0t.py\0", "HOME=/root\0".to_owned())).chain((0..ranks).map(|r| {
        let env = format!("RANK={r}\0LOCAL_RANK={r}\0WORLD_SIZE={ranks}\0LOCAL_WORLD_SIZE={ranks}\0HF_TOKEN=hf_secret\0NCCL_API_KEY=hush\0TORCH_FR_DUMP_TEMP_FILE=/d/fr_\0");
        (101 + r, 100, "/usr/bin/python3\0t.py\0--api-key\0hush\0", env)
    })) {
        let at = |file: &str| root.join(format!("proc/{pid}/{file}"));
        fs::create_dir_all(at("fd")).unwrap();
        let head = format!("{pid} (python3) S {ppid} {pid} {pid} 0 -1 4194304 1 0 0 0 300 50 0 0 20 0 1 0 1000 1000 500");
        fs::write(at("stat"), format!("{head}{} 0\n", " 0".repeat(27))).unwrap();
        fs::write(at("cmdline"), program).unwrap();
        fs::write(at("environ"), env).unwrap();
        fs::write(at("status"), format!("Name:\tpython3\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t{pid}\nVmRSS:\t 64 kB\n")).unwrap();
        fs::write(at("cgroup"), "0::/job\n").unwrap();
        // All write into one log.
        std::os::unix::fs::symlink(dir.join("train.log"), at("fd/1")).unwrap();
    }
    root
}

fn dump(rank: u32) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/flight/mismatch4/fr_{rank}.gz", env!("CARGO_MANIFEST_DIR"));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn dumps_that_appear_sharpen_the_verdict_and_go_with_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let steps: String = (0..5).map(|i| format!("step {i} | loss 2.5\n")).collect();
    fs::write(dir.path().join("train.log"), format!("{steps}WANDB_API_KEY=hush\n")).unwrap();
    let root = tree(dir.path(), 4);
    let mut s = Screen::start(&["--sysroot", root.to_str().unwrap(), "--interval", "200ms"], dir.path(), &[], 40, 200);
    s.wait_for("step 4");
    s.wait_for("4 ranks here of 4");
    let mut log = fs::OpenOptions::new().append(true).open(dir.path().join("train.log")).unwrap();
    std::io::Write::write_all(&mut log, b"[rank2]:[E1121 10:46:12.008941232 ProcessGroupNCCL.cpp:688] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2727, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=25000) ran for 25063 milliseconds before timing out.\n").unwrap();
    s.wait_for("FAILED");
    // Each is written in pieces, and is no dump until the last.
    let whole: Vec<Vec<u8>> = (0..4).map(dump).collect();
    for part in 1..=4 {
        for (rank, bytes) in whole.iter().enumerate() {
            let piece = &bytes[bytes.len() * (part - 1) / 4..bytes.len() * part / 4];
            let path = root.join(format!("d/fr_{rank}"));
            let mut file = fs::OpenOptions::new().create(true).append(true).open(path).unwrap();
            std::io::Write::write_all(&mut file, piece).unwrap();
        }
    }
    s.wait_for("collective-mismatch");
    s.wait_until("the culprit", |s| {
        rows(s).iter().any(|r| r.contains("STUCK") && r.contains("rank 1 called AllReduce of 7 Float as collective 2727"))
    });
    s.press("6", "the timeout as a consequence", |s| {
        rows(s).iter().any(|r| r.contains("collective-timeout") && r.contains("(a consequence)"))
    });
    s.press("9", "the sources", |s| rows(s).iter().any(|r| r.contains("dumps of ranks 0, 1, 2 and 3 read")));

    s.press("e\x15evidence\r", "written", |s| footer(s).contains("evidence: 7 files"));
    let out = dir.path().join("evidence");
    assert_eq!(names(&out.join("flight-recorder")), ["fr_0", "fr_1", "fr_2", "fr_3"]);
    assert!((0..4).all(|rank| fs::read(out.join(format!("flight-recorder/fr_{rank}"))).unwrap() == whole[rank as usize]));
    assert_eq!((mode(&out.join("flight-recorder")), mode(&out.join("flight-recorder/fr_0"))), (0o700, 0o600));
    let recording = out.join("recording.jsonl.gz");
    for text in [
        fs::read_to_string(out.join("findings.txt")).unwrap(),
        fs::read_to_string(out.join("processes.txt")).unwrap(),
        unpacked(&recording),
    ] {
        assert!(!text.contains("hush") && !text.contains("hf_secret"), "{text}");
    }
    let replayed = findings(&recording);
    assert!(replayed.contains(&("\"collective-mismatch\"".into(), "[1]".into(), "\"root\"".into())), "{replayed:?}");
    let checked = Command::new(PROGRAM).arg("check").arg(out.join("flight-recorder")).output().unwrap();
    assert!(String::from_utf8_lossy(&checked.stdout).contains("rank 1 called AllReduce of 7 Float as collective 2727"));
    s.keys("\x03");
    assert_eq!(s.wait_end(), 0);
}

#[test]
fn a_snapshot_writes_the_same_without_a_screen() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("train.log"), "step 1 | loss 2.5\n").unwrap();
    let root = tree(dir.path(), 2);
    let run = || {
        let mut command = Command::new(PROGRAM);
        command.args(["snapshot", "--wait", "2s", "--bundle", "b", "--sysroot"]).arg(&root).current_dir(dir.path());
        command.output().unwrap()
    };
    assert_eq!(run().status.code(), Some(0));
    assert_eq!(names(&dir.path().join("b")), ["findings.txt", "processes.txt", "recording.jsonl.gz"]);
    let again = run();
    assert_eq!(again.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&again.stderr).contains("b: it exists and is not empty"));
}

#[test]
fn a_recording_whose_beginning_is_no_longer_kept_shows_the_same_findings() {
    let dir = tempfile::tempdir().unwrap();
    for (name, rule) in [
        ("hang", "hang-rank-absent"),
        ("stop", "rank-stopped"),
        ("slow", "straggler"),
        ("symmetric", "hang-symmetric"),
        ("nan", "loss-not-finite"),
    ] {
        let mut reader = Reader::open(Path::new(&tape(name))).unwrap();
        let header = reader.header().clone();
        let mut session = header.session();
        // A chunk is a minute at most: of the first nothing is left.
        let limits = Limits { depth: Duration::MAX, bytes: 1 };
        let mut timeline = Timeline::new(limits, &session);
        let mut events = Vec::new();
        let mut count = 0;
        while let Some(seen) = reader.read().unwrap() {
            timeline.push(&seen, &session);
            session.apply(&seen, &mut events);
            count += 1;
        }
        let kept = timeline.kept(session.model.now);
        assert!(kept.before.model.started.is_some(), "{name}: something was dropped");
        let open = |session: &Session| -> Vec<(&str, Vec<u32>, Role)> {
            let worse = session.ledger.open().into_iter().filter(|f| f.severity > Severity::Info);
            worse.map(|f| (f.rule, f.ranks.clone(), f.role)).collect()
        };
        let now = open(&session);
        assert!(now.iter().any(|f| f.0 == rule), "{name}: {now:?}");
        let out = dir.path().join(name);
        let bundle = Bundle { header, zone: Zone::UTC, session: Box::new(session.clone()), kept, stacks: Vec::new(), summary: None };
        bundle::write(&out, &bundle, &mut |_| {}).unwrap();

        let mut reader = Reader::open(&out.join("recording.jsonl.gz")).unwrap();
        let mut again = reader.header().session();
        let mut written = 0;
        while let Some(seen) = reader.read().unwrap() {
            again.apply(&seen, &mut events);
            written += 1;
        }
        assert!(written < count, "{name}: facts and what is kept, not everything");
        assert_eq!(open(&again), now, "{name}");
        let state = |s: &Session| s.verdicts.values().map(|v| (v.state, v.summary.clone())).collect::<Vec<_>>();
        assert_eq!(state(&again), state(&session), "{name}");
    }
}

/// A real process that calls itself a rank, stopped: the screen names it. Ended when dropped.
struct Stopped(Child);

impl Stopped {
    fn start(dir: &Path) -> Stopped {
        // Its name is that of a Python program; it only sleeps.
        let python = dir.join("python3");
        fs::copy("/bin/sleep", &python).unwrap();
        let child = Command::new(&python)
            .arg0("python3")
            .arg("300")
            .envs([("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"), ("LOCAL_WORLD_SIZE", "1"), ("MASTER_PORT", "1")])
            .spawn()
            .unwrap();
        assert!(Command::new("kill").args(["-STOP", &child.id().to_string()]).status().unwrap().success());
        Stopped(child)
    }
}

impl Drop for Stopped {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A program of that name, alone in its directory.
fn fake_py_spy(dir: &Path, script: &str) {
    let bin = dir.join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("py-spy.new"), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(bin.join("py-spy.new"), fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(bin.join("py-spy.new"), bin.join("py-spy")).unwrap();
}

/// Selects the finding of that process, from the first one downwards.
fn select(s: &mut Screen, pid: u32) {
    s.wait_for(&format!("kill -CONT {pid}"));
    s.press("6", "the findings", |s| footer(s).contains("x stack"));
    let next = |s: &vt100::Screen| rows(s).into_iter().find(|r| r.contains("     next  ")).unwrap_or_default();
    let is_it = |s: &vt100::Screen| next(s).contains(&format!("kill -CONT {pid}"));
    let started = Instant::now();
    while !s.look(is_it) {
        assert!(started.elapsed() < PATIENCE, "no finding of {pid}:\n{}", s.text());
        let before = s.look(rows);
        s.keys("j");
        // Findings of other processes of this machine may come and go meanwhile, and the last one stays selected.
        let asked = Instant::now();
        while s.look(rows) == before && asked.elapsed() < Duration::from_secs(1) {
            std::thread::sleep(Duration::from_millis(10));
        }
        if asked.elapsed() >= Duration::from_secs(1) {
            s.keys("g");
        }
    }
}

#[test]
fn py_spy_is_run_only_with_consent_and_cannot_hurt() {
    let dir = tempfile::tempdir().unwrap();
    let rank = Stopped::start(dir.path());
    let pid = rank.0.id();
    let path = format!("{}/bin:/usr/bin:/bin", dir.path().display());
    let installed = Command::new("sh").args(["-c", "command -v py-spy"]).env("PATH", "/usr/bin:/bin").status().unwrap().success();
    let mut s = Screen::start(&["--interval", "200ms"], dir.path(), &[("PATH", &path)], 40, 200);
    select(&mut s, pid);
    if !installed {
        s.press("x", "how to install it", |s| footer(s).contains("py-spy is not installed: pip install py-spy"));
    }

    fake_py_spy(
        dir.path(),
        "echo \"$@\" >> calls; printf 'Thread 1 (idle): \\033[31m\"MainThread\"\\033[2J\\n    step (train.py:57)\\n'; seq -f 'line %g' 100",
    );
    let command = format!("{}/bin/py-spy dump --nonblocking --pid {pid}", dir.path().display());
    s.press("x", "the command", |s| footer(s).contains("run this? (y/n)") && rows(s).join("").contains(&command));
    s.press("n", "nothing", |s| footer(s).contains("nothing was run"));
    s.press("x", "the command", |s| footer(s).contains("run this? (y/n)"));
    // Nobody says yes by pasting.
    s.keys("\x1b[200~y\x1b[201~");
    s.press("\x1b", "no prompt", |s| !footer(s).contains("run this?"));
    assert!(!dir.path().join("calls").exists());
    let from = s.raw().len();
    s.press("x", "the command", |s| footer(s).contains("run this? (y/n)"));
    s.press("y", "the stack", |s| rows(s).iter().any(|r| r.contains("    step (train.py:57)")));
    assert_eq!(fs::read_to_string(dir.path().join("calls")).unwrap(), format!("dump --nonblocking --pid {pid}\n"));
    assert!(find(&s.raw()[from..], b"\x1b[2J").is_none(), "what it prints cannot move the cursor");
    s.wait_for("Thread 1 (idle): \"MainThread\"");
    s.press("G", "its end", |s| rows(s).iter().any(|r| r.trim() == "line 100"));
    s.press("g", "its start", |s| !rows(s).iter().any(|r| r.trim() == "line 100"));
    // Where the finding has room, its beginning stays below it.
    s.press("\x1b", "the findings", |s| !rows(s).iter().any(|r| r.trim() == "line 40") && footer(s).contains("x stack"));

    // One that prints without end.
    fake_py_spy(dir.path(), "yes 'a line of a very long stack' | head -c 100000000");
    s.press("x", "the command", |s| footer(s).contains("run this? (y/n)"));
    s.press("y", "the beginning", |s| rows(s).iter().any(|r| r.contains("a very long stack")));
    s.press("G", "why it ends", |s| rows(s).iter().any(|r| r.contains("ended after 1024 KiB: more is not kept")));
    s.press("\x1b", "the findings", |s| footer(s).contains("x stack"));

    // One that hangs, and whose child holds the pipe: the screen goes on meanwhile.
    fake_py_spy(dir.path(), "sleep 1000 & echo $$ $! > hangs; echo waits; sleep 1000");
    s.press("x", "the command", |s| footer(s).contains("run this? (y/n)"));
    s.press("y", "that it runs", |s| footer(s).contains(" runs"));
    s.press("8", "another pane", |s| rows(s).iter().any(|r| r.contains("Processes")));
    s.press("x", "one at a time", |s| footer(s).contains("py-spy is already running") || footer(s).contains("names no process"));
    s.wait_for("ended: no answer for 10 s");
    for pid in fs::read_to_string(dir.path().join("hangs")).unwrap().split_whitespace() {
        let lives = || fs::read_to_string(format!("/proc/{pid}/stat")).is_ok_and(|stat| !stat.contains(") Z "));
        s.wait_until("that it and its child are gone", |_| !lives());
    }

    // It goes with the evidence.
    s.press("e\x15out\r", "written", |s| footer(s).contains("evidence: 4 files"));
    let text = fs::read_to_string(dir.path().join(format!("out/py-spy-{pid}.txt"))).unwrap();
    assert!(text.starts_with(&format!("$ {command}\n# 20")) && text.ends_with("waits\nended: no answer for 10 s\n"), "{text}");
    s.keys("\x03");
    assert_eq!(s.wait_end(), 0);
}

/// A rank of a job of its own, by the name of a Python program, with a child that has its arguments: ended when dropped.
struct Forked(Child);

impl Forked {
    fn start(dir: &Path, rank: u32) -> Forked {
        let python = dir.join("bin").join("python3");
        let script = dir.join("train.py");
        // Once: a rank that reads the script while the next one's start writes it anew finds it empty, and ends.
        if !python.exists() {
            fs::create_dir_all(dir.join("bin")).unwrap();
            fs::write(&script, "(while :; do sleep 1; done) & wait").unwrap();
            fs::copy("/bin/sh", &python).unwrap();
        }
        let rank = rank.to_string();
        let child = Command::new(&python)
            .arg0("python3")
            .arg(&script)
            .envs([("RANK", &*rank), ("WORLD_SIZE", "3"), ("LOCAL_RANK", &rank), ("LOCAL_WORLD_SIZE", "3"), ("SLURM_JOB_ID", "4242424")])
            .process_group(0)
            .spawn()
            .unwrap();
        Forked(child)
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-KILL", "--", &format!("-{}", self.0.id())]).status();
        let _ = self.0.wait();
    }
}

#[test]
fn stacks_of_all_ranks_and_their_loaders_are_compared_after_a_yes() {
    let dir = tempfile::tempdir().unwrap();
    let ranks: Vec<Forked> = (0..3).map(|rank| Forked::start(dir.path(), rank)).collect();
    let pids: Vec<u32> = ranks.iter().map(|rank| rank.0.id()).collect();
    // One that is stopped too early has no child yet.
    let forked =
        |pid: &u32| fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).is_ok_and(|children| !children.trim().is_empty());
    let started = Instant::now();
    while !pids.iter().all(forked) {
        assert!(started.elapsed() < PATIENCE, "no rank has forked");
        std::thread::sleep(Duration::from_millis(10));
    }
    assert!(Command::new("kill").args(["-STOP", &pids[1].to_string()]).status().unwrap().success());
    let path = format!("{}/bin:/usr/bin:/bin", dir.path().display());
    let main = "Thread 1 (idle): \"MainThread\"\\n";
    fake_py_spy(
        dir.path(),
        &format!(
            "echo \"$@\" >> calls\ncase $4 in {}) printf '{main}    stall (train.py:7)\\n';; {}|{}) printf '{main}    all_reduce (c10d.py:9)\\n';; \
             *) printf '{main}    get (queues.py:3)\\n';; esac",
            pids[1], pids[0], pids[2]
        ),
    );
    let mut s = Screen::start(&["--interval", "200ms"], dir.path(), &[("PATH", &path)], 40, 200);
    select(&mut s, pids[1]);
    let list = pids.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    s.press("X", "the command", |s| footer(s).contains("run this? (y/n)") && rows(s).join("").contains(&format!("for pid in {list} ")));
    s.press("n", "nothing", |s| footer(s).contains("nothing was run"));
    assert!(!dir.path().join("calls").exists());
    s.press("X", "the command", |s| footer(s).contains("run this? (y/n)"));
    s.press("y", "who is where", |s| rows(s).iter().any(|r| r.contains(&format!("rank 1 (pid {}): in stall (train.py:7)", pids[1]))));
    s.wait_for("ranks 0 and 2: in all_reduce (c10d.py:9)");
    s.wait_for("3 loaders of ranks 0, 1 and 2: in get (queues.py:3)");
    let calls = fs::read_to_string(dir.path().join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 6, "{calls}");
    assert!(pids.iter().all(|pid| calls.contains(&format!("dump --nonblocking --pid {pid}\n"))), "{calls}");
    s.press("\x1b", "the findings", |s| footer(s).contains("x stack"));
    s.press("e\x15out\r", "written", |s| footer(s).contains("evidence: "));
    s.wait_for("evidence: ");
    s.wait_until("the bundle", |s| footer(s).contains(" kB, in "));
    let text = fs::read_to_string(dir.path().join("out/py-spy-summary.txt")).unwrap();
    assert!(text.contains("in stall (train.py:7)"), "{text}");
    assert!(dir.path().join(format!("out/py-spy-{}.txt", pids[2])).exists());
    s.keys("\x03");
    assert_eq!(s.wait_end(), 0);
}

mod names {
    use nccl_top::base::time::{Stamp, Zone};
    use nccl_top::output::bundle::{default_name, dump_name};
    #[test]
    fn names_are_tame() {
        assert_eq!(default_name("node/17", Stamp(1_795_257_972_000_000_000), Zone::UTC), "nccl-top-evidence-node_17-2026-11-21T10-46-12");
        assert_eq!(dump_name("/d/fr_3", 3), "fr_3");
        for (path, rank) in [("/d/..", 3), ("/d/fr_3", 4), ("/d/\x1b_3", 3), ("", 3)] {
            assert_eq!(dump_name(path, rank), format!("dump_rank_{rank}"));
        }
    }
}
