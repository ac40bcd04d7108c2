//! Runs py-spy on a process, and nothing else ever: only when the user has seen the command and said yes, without a shell, without
//! stopping the process, and not for longer than a moment.

use crate::sources::io_words;
use crate::text::clean::{clean, clip};
use crate::time::{Stamp, Zone};
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How it is installed where it is not.
pub const INSTALL: &str = "pip install py-spy";

const DEADLINE: Duration = Duration::from_secs(10);
/// Of what it prints. A stack of a process with hundreds of threads is a tenth of this.
const MAX_BYTES: usize = 1 << 20;
const FULL: &str = "ended after 1024 KiB: more is not kept";
const MAX_LINES: usize = 5000;
const MAX_LINE: usize = 500;

/// What py-spy said of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stack {
    pub pid: u32,
    pub at: Stamp,
    pub command: String,
    /// Cleaned: safe to print.
    pub lines: Vec<String>,
}

impl Stack {
    /// As it goes into a file.
    pub fn whole(&self, zone: Zone) -> String {
        format!("$ {}\n# {}\n{}\n", self.command, zone.rfc3339(self.at), self.lines.join("\n"))
    }
}

/// The program, if it is installed.
pub fn find() -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    let runs = |file: &PathBuf| file.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0);
    std::env::split_paths(&path).filter(|dir| dir.is_absolute()).map(|dir| dir.join("py-spy")).find(runs)
}

/// The arguments, in one place with [`command`]: what is shown is what is run.
fn arguments(pid: u32) -> [String; 4] {
    ["dump".into(), "--nonblocking".into(), "--pid".into(), pid.to_string()]
}

pub fn command(program: &Path, pid: u32) -> String {
    format!("{} {}", program.display(), arguments(pid).join(" "))
}

/// The group of the one that runs now; 0: none.
static RUNNING: AtomicI32 = AtomicI32::new(0);

/// Ends the one that runs, if any: the program ends.
pub fn end() {
    kill(RUNNING.load(Ordering::SeqCst));
}

fn kill(group: i32) {
    if let Some(group) = Pid::from_raw(group) {
        let _ = kill_process_group(group, Signal::KILL);
    }
}

/// Runs it; takes [`DEADLINE`] at most. `start_ticks` says which process is meant: numbers are used again.
pub fn run(program: &Path, pid: u32, start_ticks: u64, at: Stamp) -> Stack {
    let done = |lines| Stack { pid, at, command: command(program, pid), lines };
    if started(pid) != Some(start_ticks) {
        return done(vec![format!("not run: process {pid} has ended")]);
    }
    let mut command = Command::new(program);
    command.args(arguments(pid)).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let mut child = match command.spawn() {
        Ok(child) => child,
        Err(err) => return done(vec![format!("{}: {}", program.display(), io_words(&err))]),
    };
    let group = i32::try_from(child.id()).unwrap_or(0);
    RUNNING.store(group, Ordering::SeqCst);
    let full = Arc::new(AtomicBool::new(false));
    let out = Gathered::from(child.stdout.take(), &full);
    let err = Gathered::from(child.stderr.take(), &full);
    let began = Instant::now();
    let mut remark = None;
    while !is_over(&mut child) {
        if full.load(Ordering::SeqCst) {
            remark = Some(FULL.to_owned());
        } else if began.elapsed() >= DEADLINE {
            remark = Some(format!("ended: no answer for {} s", DEADLINE.as_secs()));
        }
        if remark.is_some() {
            kill(group);
            // It cannot refuse, but the kernel may take its time.
            let killed = Instant::now();
            while !is_over(&mut child) && killed.elapsed() < Duration::from_secs(1) {
                std::thread::sleep(Duration::from_millis(10));
            }
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    RUNNING.store(0, Ordering::SeqCst);
    // Its end may have been seen before that nobody reads on.
    if remark.is_none() && full.load(Ordering::SeqCst) {
        remark = Some(FULL.to_owned());
    }
    let mut lines = lines(&out.take());
    lines.extend(lines_of_errors(&err.take()));
    if let Ok(Some(status)) = child.try_wait()
        && !status.success()
        && remark.is_none()
    {
        remark = Some(status.to_string());
    }
    lines.extend(remark);
    done(lines)
}

fn is_over(child: &mut Child) -> bool {
    !matches!(child.try_wait(), Ok(None))
}

/// When a process started, in ticks since boot.
fn started(pid: u32) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = memchr::memrchr(b')', &text)?;
    String::from_utf8_lossy(&text[close + 1..]).split_whitespace().nth(19)?.parse().ok()
}

/// What comes through a pipe, bounded. Whoever else holds the other end of it is not waited for.
struct Gathered {
    bytes: Arc<Mutex<Vec<u8>>>,
    over: Arc<AtomicBool>,
}

impl Gathered {
    fn from(pipe: Option<impl Read + Send + 'static>, full: &Arc<AtomicBool>) -> Gathered {
        let all = Gathered { bytes: Arc::default(), over: Arc::default() };
        let (bytes, over, full) = (all.bytes.clone(), all.over.clone(), full.clone());
        let gather = move || {
            let mut chunk = [0; 16 << 10];
            let Some(mut pipe) = pipe else { return over.store(true, Ordering::SeqCst) };
            while let Ok(n @ 1..) = pipe.read(&mut chunk) {
                let mut bytes = bytes.lock().unwrap_or_else(PoisonError::into_inner);
                let room = MAX_BYTES - bytes.len();
                bytes.extend_from_slice(&chunk[..n.min(room)]);
                if n > room {
                    full.store(true, Ordering::SeqCst);
                    break;
                }
            }
            over.store(true, Ordering::SeqCst);
        };
        if std::thread::Builder::new().name("py-spy".into()).spawn(gather).is_err() {
            all.over.store(true, Ordering::SeqCst);
        }
        all
    }

    /// The last bytes may still be on their way when the writer has ended.
    fn take(&self) -> Vec<u8> {
        let began = Instant::now();
        while !self.over.load(Ordering::SeqCst) && began.elapsed() < Duration::from_millis(500) {
            std::thread::sleep(Duration::from_millis(5));
        }
        std::mem::take(&mut *self.bytes.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = text.lines().take(MAX_LINES).map(|line| clip(&clean(line), MAX_LINE).into_owned()).collect();
    if text.lines().nth(MAX_LINES).is_some() {
        lines.push("…".into());
    }
    lines
}

fn lines_of_errors(bytes: &[u8]) -> Vec<String> {
    lines(bytes).into_iter().take(50).collect()
}
