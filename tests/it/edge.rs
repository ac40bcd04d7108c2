//! Signals, and readers that are slow, gone, or never read: of a pipe and of a pseudo-terminal.

use portable_pty::{Child, CommandBuilder, MasterPty, PtySize, native_pty_system};
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nccl-top");
/// Longer than anything here should take, on the slowest machine.
const PATIENCE: Duration = Duration::from_secs(30);
const LEAVE_SCREEN: &[u8] = b"\x1b[?1049l";

/// An empty tree: no GPU, no port, no process, whatever machine the test runs on.
fn tree(dir: &Path) -> String {
    std::fs::create_dir_all(dir.join("root/proc")).unwrap();
    dir.join("root").display().to_string()
}

/// So many findings that no pipe holds them: exceptions of different kinds, and as many words about each.
fn many_findings(dir: &Path) {
    let mut text = String::new();
    for i in 0..400u32 {
        let words: String = (0..12).map(|bit| if i >> bit & 1 == 1 { "ba" } else { "mu" }).collect();
        text.push_str(&format!("step {i} | loss 2.5\nh:1:1 [0] NCCL WARN {words} {}\n", "and so on ".repeat(20)));
    }
    std::fs::write(dir.join("train.log"), text).unwrap();
}

/// With the default action of each signal: a shell starts what runs in the background with SIGINT ignored, nohup with SIGHUP, and programs
/// inherit that.
fn command(dir: &Path, args: &[&str]) -> Command {
    let root = tree(dir);
    let mut command = Command::new("env");
    command
        .args(["--default-signal=HUP,INT,QUIT,TERM", PROGRAM, "--sysroot", &root])
        .args(args)
        .current_dir(dir)
        .env("HOME", dir)
        .stdin(Stdio::null())
        .stderr(Stdio::null());
    command
}

fn signal(pid: u32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

fn wait_until(what: &str, mut so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !so() {
        assert!(started.elapsed() < PATIENCE, "not {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn wait_end(child: &mut std::process::Child) -> ExitStatus {
    let mut status = None;
    wait_until("the end of the program", || {
        status = child.try_wait().unwrap();
        status.is_some()
    });
    status.unwrap()
}

/// A thread of the program waits in a write.
fn is_blocked(pid: u32) -> bool {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    tasks.flatten().any(|task| {
        let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        let at = std::fs::read_to_string(task.path().join("wchan")).unwrap_or_default();
        let call = std::fs::read_to_string(task.path().join("syscall")).unwrap_or_default();
        ["output", "tape", "screen", "nccl-top"].contains(&name.trim())
            && (at.contains("pipe_write") || at.contains("tty") || ["1 ", "64 "].iter().any(|write| call.starts_with(write)))
    })
}

/// The program, waiting in a write into a pipe that nobody reads. The pipe is made small first: one that holds more already cannot be.
fn blocked(dir: &Path, args: &[&str]) -> (std::process::Child, std::io::PipeReader) {
    let (unread, output) = std::io::pipe().unwrap();
    rustix::pipe::fcntl_setpipe_size(&output, 4096).unwrap();
    let child = command(dir, args).stdout(output).spawn().unwrap();
    wait_until("blocked", || is_blocked(child.id()));
    (child, unread)
}

#[test]
fn signals_end_what_prints_into_a_pipe_that_nobody_reads() {
    for (args, name, code) in [
        (&["watch", "--json", "train.log"][..], "TERM", 0),
        (&["watch", "train.log"], "INT", 0),
        (&["watch", "--json", "-o", "t.jsonl", "train.log"], "HUP", 0),
        (&["snapshot", "--json", "--wait", "600ms", "train.log"], "TERM", 0),
        // A recording that is not whole is an error.
        (&["record", "-o", "-", "train.log"], "TERM", 2),
    ] {
        let dir = tempfile::tempdir().unwrap();
        many_findings(dir.path());
        let (mut child, _unread) = blocked(dir.path(), args);
        signal(child.id(), name);
        assert_eq!(wait_end(&mut child).code(), Some(code), "{args:?}");
        if args.contains(&"t.jsonl") {
            let tape = std::fs::read_to_string(dir.path().join("t.jsonl")).unwrap();
            assert!(tape.ends_with("\"kind\":\"tape_end\"}\n"), "the recording is whole: {}", tape.lines().last().unwrap());
        }
    }
}

#[test]
fn a_reader_that_is_slow_gets_everything() {
    let dir = tempfile::tempdir().unwrap();
    many_findings(dir.path());
    let args = ["watch", "--json", "--for", "2s", "train.log"];
    let fast = command(dir.path(), &args).output().unwrap();
    let opened = |text: &[u8]| String::from_utf8_lossy(text).lines().filter(|l| l.contains("\"opened\"")).count();
    assert!(opened(&fast.stdout) > 100 && fast.stdout.len() > 80_000, "{} in {}", opened(&fast.stdout), fast.stdout.len());

    let mut child = command(dir.path(), &args).stdout(Stdio::piped()).spawn().unwrap();
    wait_until("blocked", || is_blocked(child.id()));
    // Also when it is asked to end meanwhile, as long as somebody reads.
    std::thread::sleep(Duration::from_millis(2500));
    let mut out = BufReader::with_capacity(512, child.stdout.take().unwrap());
    let mut text = Vec::new();
    signal(child.id(), "TERM");
    while out.read_until(b'\n', &mut text).unwrap() > 0 {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert_eq!(wait_end(&mut child).code(), Some(0));
    assert_eq!(opened(&text), opened(&fast.stdout));
    assert!(text.ends_with(b"}\n"), "the last line is whole");
}

#[test]
fn a_reader_that_goes_away_leaves_a_whole_recording() {
    let dir = tempfile::tempdir().unwrap();
    many_findings(dir.path());
    let mut child = command(dir.path(), &["watch", "-o", "t.jsonl.gz", "train.log"]).stdout(Stdio::piped()).spawn().unwrap();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut String::new()).unwrap();
    assert_eq!(wait_end(&mut child).code(), Some(0));
    let again = Command::new(PROGRAM).args(["replay", "--headless", "t.jsonl.gz"]).current_dir(dir.path()).output().unwrap();
    assert_eq!(again.status.code(), Some(0), "{}", String::from_utf8_lossy(&again.stderr));
    assert!(again.stdout.len() > 10_000);
}

#[test]
fn a_reader_that_goes_away_ends_what_has_nothing_to_print_and_the_recording_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let mut child = command(dir.path(), &["watch", "-o", "t.jsonl"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.contains("the node is idle"), "{line}");
    assert_eq!(wait_end(&mut child).code(), Some(0));
    let tape = std::fs::read_to_string(dir.path().join("t.jsonl")).unwrap();
    assert!(tape.contains("\"kind\":\"tick\"") && tape.ends_with("\"kind\":\"tape_end\"}\n"), "{tape}");
}

#[test]
fn a_reader_that_goes_away_changes_no_exit_code() {
    let dir = tempfile::tempdir().unwrap();
    let tapes = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tapes");
    let failed = dir.path().join("failed");
    std::fs::create_dir(&failed).unwrap();
    // A recording of one fault, with the label of another.
    std::fs::copy(format!("{tapes}/kill.jsonl.gz"), failed.join("x.jsonl.gz")).unwrap();
    std::fs::copy(format!("{tapes}/nan.label.json"), failed.join("x.label.json")).unwrap();
    std::fs::write(dir.path().join("oom.log"), "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n").unwrap();
    let kill = format!("{tapes}/kill.jsonl.gz");
    for (args, code) in [
        (&["replay", "--headless", &kill][..], 1),
        (&["replay", "--headless", "--json", &kill], 1),
        (&["check", &kill], 1),
        (&["check", "--json", "oom.log"], 1),
        (&["check", "missing.log"], 2),
        (&["score", "failed"], 1),
        (&["demo", "--headless"], 1),
        (&["snapshot", "--wait", "1s", "missing.log"], 2),
        (&["rules"], 0),
        (&["rules", "--test", "oom.log"], 0),
        (&["config"], 0),
    ] {
        let mut child = command(dir.path(), args).stdout(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        assert_eq!(wait_end(&mut child).code(), Some(code), "{args:?}");
    }
}

#[test]
fn a_recording_that_finds_no_room_is_an_error_that_names_file_and_remedy() {
    for (args, prints) in
        [(&["watch", "-o", "t.jsonl", "--for", "2s", "train.log"][..], true), (&["record", "-o", "t.jsonl", "train.log"], false)]
    {
        let dir = tempfile::tempdir().unwrap();
        many_findings(dir.path());
        let root = tree(dir.path());
        // In blocks of 512 bytes; a full disk fails in the same way.
        let script = format!("ulimit -f 16; exec {PROGRAM} --sysroot {root} {}", args.join(" "));
        let out = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).env("HOME", dir.path()).output().unwrap();
        let told = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{args:?}: {told}");
        assert!(told.contains("t.jsonl: the recording ends here: file too large; raise the limit (ulimit -f), or record to "), "{told}");
        let printed = String::from_utf8_lossy(&out.stdout);
        assert_eq!(printed.contains("NCCL WARN") || printed.contains("nccl-warn"), prints, "what else was asked for goes on: {printed}");
        let again = Command::new(PROGRAM).args(["replay", "--headless", "t.jsonl"]).current_dir(dir.path()).output().unwrap();
        assert_eq!(again.status.code(), Some(2));
        assert!(String::from_utf8_lossy(&again.stderr).contains("t.jsonl: the recording is cut off after line "));
    }
}

#[test]
fn what_was_recorded_before_a_kill_is_read_and_known_as_cut() {
    for name in ["t.jsonl", "t.jsonl.gz"] {
        let dir = tempfile::tempdir().unwrap();
        many_findings(dir.path());
        let mut child = command(dir.path(), &["record", "-o", name, "train.log"]).spawn().unwrap();
        let replay = || Command::new(PROGRAM).args(["replay", "--headless", name]).current_dir(dir.path()).output().unwrap();
        // Each second it is brought to the file.
        wait_until("recorded", || replay().stdout.len() > 10_000);
        child.kill().unwrap();
        child.wait().unwrap();
        let again = replay();
        assert_eq!(again.status.code(), Some(2));
        assert!(again.stdout.len() > 10_000);
        let told = String::from_utf8_lossy(&again.stderr);
        assert!(told.contains(&format!("{name}: the recording is cut off after line ")), "{told}");
    }
}

#[test]
fn a_hangup_that_is_ignored_from_the_start_stays_ignored() {
    let dir = tempfile::tempdir().unwrap();
    let root = tree(dir.path());
    let script = format!("trap '' HUP; exec {PROGRAM} --sysroot {root} watch");
    let mut child = Command::new("sh").args(["-c", &script]).current_dir(dir.path()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    assert!(line.contains("the node is idle"), "{line}");
    signal(child.id(), "HUP");
    std::thread::sleep(Duration::from_millis(500));
    assert!(child.try_wait().unwrap().is_none(), "as nohup wants it");
    signal(child.id(), "TERM");
    assert_eq!(wait_end(&mut child).code(), Some(0));
}

/// The program in a pseudo-terminal of which nobody reads, until it is asked for what was sent.
struct Unread {
    child: Box<dyn Child + Send + Sync>,
    master: Option<Box<dyn MasterPty + Send>>,
    slave: Option<Box<dyn portable_pty::SlavePty + Send>>,
}

impl Unread {
    fn start(dir: &Path, args: &[&str], controlling: bool) -> Unread {
        let root = tree(dir);
        let pair = native_pty_system().openpty(PtySize { rows: 60, cols: 200, pixel_width: 0, pixel_height: 0 }).unwrap();
        let mut command = CommandBuilder::new(PROGRAM);
        command.args([&["--sysroot", &root], args].concat());
        command.cwd(dir);
        command.env("HOME", dir);
        command.env("TERM", "xterm-256color");
        command.env("LANG", "C.UTF-8");
        command.set_controlling_tty(controlling);
        let child = pair.slave.spawn_command(command).unwrap();
        Unread { child, master: Some(pair.master), slave: Some(pair.slave) }
    }

    fn pid(&self) -> u32 {
        self.child.process_id().unwrap()
    }

    /// Reads what is sent from now on.
    fn read_on(&self) -> Arc<Mutex<Vec<u8>>> {
        let mut reader = self.master.as_ref().unwrap().try_clone_reader().unwrap();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let sink = seen.clone();
        std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(n @ 1..) = reader.read(&mut bytes) {
                sink.lock().unwrap().extend_from_slice(&bytes[..n]);
            }
        });
        seen
    }

    fn is_raw(&self) -> bool {
        let tty = self.master.as_ref().unwrap().tty_name().unwrap();
        let modes = Command::new("stty").arg("-a").arg("-F").arg(tty).output().unwrap();
        String::from_utf8_lossy(&modes.stdout).contains("-icanon")
    }

    fn wait_end(&mut self) -> portable_pty::ExitStatus {
        let mut status = None;
        wait_until("the end of the program", || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        status.unwrap()
    }

    /// What is left in the terminal, after the program has ended.
    fn rest(mut self) -> Vec<u8> {
        let mut reader = self.master.as_ref().unwrap().try_clone_reader().unwrap();
        self.slave = None;
        let mut bytes = Vec::new();
        let _ = reader.read_to_end(&mut bytes);
        bytes
    }
}

fn find(haystack: &[u8], needle: &[u8]) -> Option<usize> {
    haystack.windows(needle.len()).rposition(|w| w == needle)
}

#[test]
fn signals_end_the_screen_of_a_terminal_that_does_not_read() {
    for name in ["TERM", "HUP", "INT"] {
        let dir = tempfile::tempdir().unwrap();
        many_findings(dir.path());
        let mut unread = Unread::start(dir.path(), &["train.log"], true);
        wait_until("blocked", || is_blocked(unread.pid()) && unread.is_raw());
        signal(unread.pid(), name);
        assert_eq!(unread.wait_end().exit_code(), 0, "{name}");
        assert!(!unread.is_raw(), "the modes of the terminal were given back");
        let rest = unread.rest();
        assert!(find(&rest, LEAVE_SCREEN).is_some(), "and its screen: {:?}", String::from_utf8_lossy(&rest));
    }
}

#[test]
fn what_happens_while_the_terminal_does_not_read_is_shown_when_it_does() {
    let dir = tempfile::tempdir().unwrap();
    many_findings(dir.path());
    let mut unread = Unread::start(dir.path(), &["--interval", "200ms", "train.log"], true);
    wait_until("blocked", || is_blocked(unread.pid()));
    let log = dir.path().join("train.log");
    let steps: String = (400..2400).map(|step| format!("step {step} | loss 2.5\n")).collect();
    std::fs::write(&log, std::fs::read_to_string(&log).unwrap() + &steps).unwrap();
    std::thread::sleep(Duration::from_secs(2));

    let mut reader = unread.master.as_ref().unwrap().try_clone_reader().unwrap();
    let mut parser = vt100::Parser::new(60.try_into().unwrap(), 200.try_into().unwrap(), 0);
    let (mut bytes, mut sent) = ([0; 4096], 0);
    while !parser.screen().contents().contains(" 2399 | loss 2.5") {
        let n = reader.read(&mut bytes).unwrap();
        parser.process(&bytes[..n]);
        sent += n;
        assert!(sent < 1 << 20, "it never comes:\n{}", parser.screen().contents());
    }
    assert!(sent < 200_000, "frames that nobody could see were not drawn: {sent} bytes");
    signal(unread.pid(), "TERM");
    std::thread::spawn(move || while reader.read(&mut bytes).is_ok_and(|n| n > 0) {});
    assert_eq!(unread.wait_end().exit_code(), 0);
}

#[test]
fn a_terminal_that_goes_away_is_no_error() {
    // With the signal of the kernel, and without; read before, and not.
    for (controlling, read) in [(true, true), (false, true), (true, false), (false, false)] {
        let dir = tempfile::tempdir().unwrap();
        many_findings(dir.path());
        let mut unread = Unread::start(dir.path(), &["train.log"], controlling);
        if read {
            let mut reader = unread.master.as_ref().unwrap().try_clone_reader().unwrap();
            let mut seen = Vec::new();
            while find(&seen, b"IDLE").is_none() && find(&seen, b"TRAINING").is_none() {
                let mut bytes = [0; 4096];
                let n = reader.read(&mut bytes).unwrap();
                seen.extend_from_slice(&bytes[..n]);
            }
        } else {
            wait_until("blocked", || is_blocked(unread.pid()));
        }
        unread.master = None;
        assert_eq!(unread.wait_end().exit_code(), 0, "controlling {controlling}, read {read}");
    }
}

#[test]
fn signals_that_kill_leave_the_screen_as_it_was() {
    let all = [
        "QUIT", "ABRT", "SEGV", "BUS", "ILL", "FPE", "TRAP", "SYS", "USR1", "USR2", "ALRM", "VTALRM", "PROF", "XCPU", "IO", "PWR", "STKFLT",
    ];
    for name in all {
        let dir = tempfile::tempdir().unwrap();
        let mut unread = Unread::start(dir.path(), &[], true);
        let seen = unread.read_on();
        wait_until("drawn", || find(&seen.lock().unwrap(), b"IDLE").is_some());
        assert!(unread.is_raw());
        signal(unread.pid(), name);
        let status = unread.wait_end();
        assert!(status.signal().is_some(), "{name}: {status:?}");
        assert!(!unread.is_raw(), "{name}");
        wait_until(name, || find(&seen.lock().unwrap(), LEAVE_SCREEN).is_some());
    }
}

#[test]
fn signals_end_the_screen_of_a_terminal_that_is_stopped() {
    for name in ["TERM", "HUP", "INT"] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("train.log"), "step 1 | loss 2.5\n").unwrap();
        let mut unread = Unread::start(dir.path(), &["--interval", "200ms", "train.log"], true);
        let seen = unread.read_on();
        wait_until("drawn", || seen.lock().unwrap().len() > 1000);
        // What ^S does where the terminal itself looks at keys.
        let tty = std::fs::OpenOptions::new().write(true).open(unread.master.as_ref().unwrap().tty_name().unwrap()).unwrap();
        rustix::termios::tcflow(&tty, rustix::termios::Action::OOff).unwrap();
        many_findings(dir.path());
        wait_until("blocked", || is_blocked(unread.pid()));
        signal(unread.pid(), name);
        assert_eq!(unread.wait_end().exit_code(), 0, "{name}");
        assert!(!unread.is_raw(), "{name}");
        wait_until(name, || find(&seen.lock().unwrap(), LEAVE_SCREEN).is_some());
    }
}

#[test]
fn signals_end_what_judges_files_and_prints_into_a_pipe_that_nobody_reads() {
    let tape = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tapes/mismatch-dumps.jsonl.gz");
    for (args, name, number) in [
        (&["replay", "--headless", "--json", tape][..], "TERM", libc::SIGTERM),
        (&["replay", "--headless", "--json", tape], "HUP", libc::SIGHUP),
        (&["check", "--json", tape, "train.log"], "INT", libc::SIGINT),
        (&["rules"], "TERM", libc::SIGTERM),
    ] {
        let dir = tempfile::tempdir().unwrap();
        many_findings(dir.path());
        let (mut child, _unread) = blocked(dir.path(), args);
        signal(child.id(), name);
        let status = wait_end(&mut child);
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(number), "{args:?}");
    }
}

mod outlet {
    use nccl_top::edge::Signals;
    use nccl_top::edge::outlet::{Outlet, PIECE, ROOM, STALLED, Sink};
    use std::io;
    use std::sync::Arc;
    use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
    use std::time::Duration;

    /// A reader that takes pieces when it is asked to, or goes away.
    struct Reader(SyncSender<Vec<u8>>);

    impl Sink for Reader {
        fn write(&mut self, piece: &[u8]) -> io::Result<()> {
            self.0.send(piece.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe.into())
        }
    }

    fn outlet() -> (Outlet, Receiver<Vec<u8>>) {
        let (tx, rx) = sync_channel(0);
        (Outlet::start("test", Reader(tx), &Arc::default()).unwrap(), rx)
    }

    #[test]
    fn nothing_is_lost_for_a_reader_that_is_slow() {
        let (outlet, rx) = outlet();
        let mut pushed = Vec::new();
        while outlet.has_room() {
            let line = format!("line {}\n", pushed.len());
            outlet.push(line.as_bytes());
            pushed.extend_from_slice(line.as_bytes());
        }
        // The thread has taken what was queued once, no more.
        assert!((ROOM..=2 * ROOM + PIECE).contains(&pushed.len()), "it is bounded: {}", pushed.len());
        assert!(!outlet.is_idle());
        let reader = std::thread::spawn(move || rx.iter().flatten().collect::<Vec<u8>>());
        nccl_top::edge::run(async { Ok(outlet.finish(&mut Signals::of(&[])?, &mut false).await?) }).unwrap();
        assert!(reader.join().unwrap() == pushed && outlet.has_ended());
    }

    #[test]
    fn what_a_reader_does_not_take_can_be_dropped_for_what_matters_more() {
        let (outlet, rx) = outlet();
        outlet.push(&[b'x'; 10 * PIECE]);
        assert!(!outlet.drain(Duration::from_millis(50)));
        outlet.discard();
        outlet.push(b"the last word");
        let first = rx.recv().unwrap();
        assert_eq!(first.len(), PIECE, "the one that was under way");
        assert_eq!(rx.recv().unwrap(), b"the last word");
        outlet.push(b"again");
        assert_eq!(rx.recv().unwrap(), b"again");
    }

    #[test]
    fn a_reader_that_goes_away_ends_it() {
        let (outlet, rx) = outlet();
        drop(rx);
        outlet.push(b"to nobody");
        assert!(outlet.drain(Duration::from_secs(20)) && outlet.has_ended() && outlet.has_room());
        outlet.push(&[b'x'; 2 * ROOM]);
        assert!(outlet.has_room(), "what comes later is dropped");
        let mut asked = false;
        let finished = nccl_top::edge::run(async { Ok(outlet.finish(&mut Signals::of(&[])?, &mut asked).await) }).unwrap();
        assert_eq!(finished.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[test]
    fn a_reader_that_does_not_read_is_not_waited_for_at_the_end() {
        let (outlet, rx) = outlet();
        outlet.push(&[b'x'; 3 * PIECE]);
        let mut asked = true;
        let finish = || nccl_top::edge::run(async { Ok(outlet.finish(&mut Signals::of(&[])?, &mut asked).await) }).unwrap();
        let mut finish = finish;
        assert_eq!(finish().unwrap_err().kind(), io::ErrorKind::TimedOut);
        let slow = std::thread::spawn(move || rx.iter().inspect(|_| std::thread::sleep(STALLED / 20)).flatten().count());
        assert!(finish().is_ok(), "one that is slow is");
        assert_eq!(slow.join().unwrap(), 3 * PIECE);
    }
}

#[test]
fn a_replay_of_a_stream_ends_with_its_reader() {
    use std::io::Write as _;
    use std::process::{Command, Stdio};
    let mut child = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
        .args(["replay", "--headless", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut tape = child.stdin.take().unwrap();
    let header = r#"{"tape":"nccl-top","version":1,"program":"0.1.0","host":"vm","interval_ms":1000,"started_ns":1795300078000000000}"#;
    let mut text = format!("{header}\n");
    for s in 0..100_000_u64 {
        text.push_str(&format!("{{\"at_ns\":{}000000000,\"from\":\"feed\",\"kind\":\"tick\"}}\n", 1_795_300_079 + s));
    }
    // The pipe stays open: the program ends, or waits for more for ever.
    let write = tape.write_all(text.as_bytes());
    assert!(write.is_err(), "all of it was read");
    assert!(child.wait().unwrap().success());
}

/// The pipes are real, and their readers open them as PyTorch does (`O_RDONLY | O_NONBLOCK`, then a read of 128 bytes).
mod dump_pipes {
    use nccl_top::edge::dump_pipes::{ask, command, find, summary};
    use nccl_top::edge::py_spy::Target;
    use nccl_top::edge::stacks::Whose;
    use std::fs::{File, OpenOptions};
    use std::io::Read;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;
    use std::process::{Child, Command};

    fn rank(dir: &Path, no: u32) -> (Child, Target) {
        let child = Command::new("sleep").arg("600").env("TORCH_NCCL_DEBUG_INFO_PIPE_FILE", dir.join("fr_")).spawn().unwrap();
        let whose = Whose { rank: Some(no), pid: child.id(), loads: false };
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
        let start = stat.rsplit_once(") ").unwrap().1.split(' ').nth(19).unwrap().parse().unwrap();
        (child, Target { whose, start_ticks: start })
    }

    fn listen(path: &Path) -> File {
        OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK).open(path).unwrap()
    }

    #[test]
    fn a_rank_is_asked_through_its_own_pipe_and_nothing_else_is_written() {
        let dir = tempfile::tempdir().unwrap();
        let ranks: Vec<(Child, Target)> = (0..4).map(|no| rank(dir.path(), no)).collect();
        let pipe = |no: u32| dir.path().join(format!("fr_{no}.pipe"));
        for no in [0, 1] {
            assert!(Command::new("mkfifo").arg(pipe(no)).status().unwrap().success());
        }
        // Neither a file nor what a link leads to is a pipe of PyTorch's.
        std::fs::write(pipe(2), "").unwrap();
        std::os::unix::fs::symlink(pipe(0), pipe(3)).unwrap();
        let found = find(ranks.iter().map(|(_, target)| target.clone()).collect());
        assert_eq!(found.iter().map(|p| p.path.clone()).collect::<Vec<_>>(), [pipe(0), pipe(1)]);
        assert!(command(&found).contains("fr_0.pipe") && command(&found).contains("fr_1.pipe"));

        let mut reader = listen(&pipe(0));
        let asked: Vec<_> = found.iter().map(|pipe| (pipe.clone(), ask(pipe))).collect();
        let mut heard = [0; 128];
        assert_eq!(reader.read(&mut heard).unwrap(), 2, "any byte is the wish for a dump");
        assert!(asked[1].1.as_ref().is_err_and(|why| why.starts_with("nobody reads it")), "and nobody was waited for: {asked:?}");
        assert!(summary(&asked).starts_with("1 of 2 ranks asked for their Flight Recorder"), "{}", summary(&asked));

        let mut late = found[0].clone();
        std::fs::remove_file(pipe(0)).unwrap();
        std::fs::write(pipe(0), "mine").unwrap();
        assert_eq!(ask(&late), Err("it is no pipe".into()));
        assert_eq!(std::fs::read_to_string(pipe(0)).unwrap(), "mine");
        late.target.start_ticks += 1;
        assert_eq!(ask(&late), Err("its process has ended".into()));
        for (mut child, _) in ranks {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}

/// Of the screen: pipes are written into after a y, and after nothing else.
#[test]
fn pipes_are_written_into_only_after_a_yes() {
    use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
    use nccl_top::base::time::Zone;
    use nccl_top::diagnosis::session::Session;
    use nccl_top::tui::choices::{Ask, Effect, Prompt, Ui};
    use nccl_top::tui::theme::{Depth, Theme};
    let session = Session::new("node-1", Zone::UTC);
    let theme = Theme::load("dark", Depth::None).unwrap();
    let answered = |input: Event| {
        let mut ui = Ui::new(Zone::UTC);
        ui.prompt = Some(Prompt { kind: Ask::Dump { ranks: 2 }, text: "for p in /d/fr_0.pipe".into(), proposed: false, error: None });
        ui.input(&input, &session, &theme)
    };
    let key = |code| Event::Key(KeyEvent::new(code, KeyModifiers::NONE));
    assert_eq!(answered(key(KeyCode::Char('y'))), Effect::RunDumps);
    for no in [key(KeyCode::Char('n')), key(KeyCode::Enter), key(KeyCode::Esc), key(KeyCode::Char('D')), Event::Paste("y".into())] {
        assert!(!matches!(answered(no.clone()), Effect::RunDumps | Effect::RunStacks), "{no:?}");
    }
}
