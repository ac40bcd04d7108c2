//! Runs py-spy on processes, and nothing else ever: only when the user has seen the command and said yes, without a shell, without
//! stopping a process, and not for longer than a moment.

use crate::base::clean::clip;
use crate::base::mask::shown;
use crate::base::time::{Stamp, Zone};
use crate::base::words::io_words;
use crate::edge::stacks::{Taken, Whose};
use rustix::process::{Pid, Signal, kill_process_group};
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::pin::pin;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::{Child, Command};
use tokio::task::JoinSet;
use tokio::time::timeout;

/// How it is installed where it is not.
pub const INSTALL: &str = "pip install py-spy";

const DEADLINE: Duration = Duration::from_secs(10);
/// For what it printed last, and for its end when it is killed.
const LAST_MOMENT: Duration = Duration::from_millis(500);
/// Of what it prints. A stack of a process with hundreds of threads is a tenth of this.
const MAX_BYTES: usize = 1 << 20;
const FULL: &str = "ended after 1024 KiB: more is not kept";
const MAX_LINES: usize = 5000;
const MAX_LINE: usize = 500;

/// What py-spy printed about a process.
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

/// A process to look at. `start_ticks` says which process is meant: numbers are used again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    pub whose: Whose,
    pub start_ticks: u64,
}

/// What is run once the user agrees to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    pub program: PathBuf,
    pub targets: Vec<Target>,
    /// 1 or more, [`ROUND`] apart.
    pub rounds: usize,
    /// All ranks of a job, to be compared; else one process.
    pub all: bool,
}

/// From the beginning of a round to that of the next.
pub const ROUND: Duration = Duration::from_secs(10);
/// Processes that are looked at, ranks before loaders.
pub const MAX_TARGETS: usize = 64;
/// Of the loaders of one rank; they are all alike.
const MAX_LOADERS: usize = 4;
/// py-spy reads the symbols of the interpreter anew each time, which costs a second of CPU time: the job must not feel it.
pub const AT_A_TIME: usize = 4;

impl Plan {
    /// The command as a shell would take it.
    pub fn command(&self) -> String {
        let pids: Vec<String> = self.targets.iter().map(|t| t.whose.pid.to_string()).collect();
        if let ([target], 1) = (self.targets.as_slice(), self.rounds) {
            return command(&self.program, target.whose.pid);
        }
        let mut words = arguments(0);
        words[3] = "$pid".into();
        let all = format!("for pid in {}; do {} {}; done", pids.join(" "), self.program.display(), words.join(" "));
        match self.rounds {
            1 => all,
            n => format!("for round in $(seq {n}); do {all}; sleep {}; done", ROUND.as_secs()),
        }
    }
}

/// One round: all targets, a few at a time. `tell` gets how many are done.
pub async fn round(plan: &Plan, at: Stamp, tell: impl Fn(usize) + Send) -> Vec<(Whose, Stack)> {
    let program: Arc<Path> = plan.program.as_path().into();
    let mut targets = plan.targets.iter().cloned();
    let mut running = JoinSet::new();
    let mut done = Vec::new();
    loop {
        for target in targets.by_ref().take(AT_A_TIME - running.len()) {
            let program = program.clone();
            running.spawn(async move {
                let stack = run(&program, target.whose.pid, target.start_ticks, at).await;
                (target.whose, stack)
            });
        }
        match running.join_next().await {
            Some(Ok(one)) => done.push(one),
            Some(Err(_)) => {}
            None => return done,
        }
        tell(done.len());
    }
}

/// As the stacks are compared.
pub fn taken(stacks: &[(Whose, Stack)]) -> Vec<Taken> {
    stacks.iter().map(|(whose, stack)| Taken { whose: whose.clone(), lines: stack.lines.clone() }).collect()
}

/// The ranks, and behind them the processes that load data for them: below a rank, and started by Python's `multiprocessing`. Reads /proc.
pub fn with_loaders(mut ranks: Vec<Target>) -> Vec<Target> {
    ranks.truncate(MAX_TARGETS);
    let mut below: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let pids = std::fs::read_dir("/proc").into_iter().flatten().flatten().filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    for pid in pids {
        if let Some(parent) = stat_field(pid, PARENT) {
            below.entry(parent as u32).or_default().push(pid);
        }
    }
    let is_rank = |pid: u32| ranks.iter().any(|r| r.whose.pid == pid);
    let mut loaders = Vec::new();
    for rank in &ranks {
        let own = cmdline(rank.whose.pid);
        let mut of_rank = Vec::new();
        // Two levels: a fork server stands between a rank and its loaders.
        let children = below.get(&rank.whose.pid).into_iter().flatten().copied().filter(|pid| !is_rank(*pid));
        for child in children {
            of_rank.push(child);
            of_rank.extend(below.get(&child).into_iter().flatten().copied().filter(|pid| !is_rank(*pid)));
        }
        let loads = of_rank.into_iter().filter(|pid| is_loader(&cmdline(*pid), &own)).take(MAX_LOADERS);
        loaders.extend(
            loads.filter_map(|pid| Some(Target { whose: Whose { rank: rank.whose.rank, pid, loads: true }, start_ticks: started(pid)? })),
        );
    }
    let room = MAX_TARGETS - ranks.len();
    ranks.extend(loaders.into_iter().take(room));
    ranks
}

/// A fork has the arguments of its rank; what is spawned has those of `multiprocessing`, and so has its bookkeeper.
fn is_loader(cmdline: &str, of_rank: &str) -> bool {
    !cmdline.is_empty() && (cmdline == of_rank || cmdline.contains("multiprocessing") && !cmdline.contains("resource_tracker"))
}

fn cmdline(pid: u32) -> String {
    std::fs::read(format!("/proc/{pid}/cmdline")).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default()
}

/// The process group of one that runs. It is killed when this is dropped: at the deadline, or when the program ends.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Runs it; takes [`DEADLINE`] at most.
pub async fn run(program: &Path, pid: u32, start_ticks: u64, at: Stamp) -> Stack {
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
    let mut group = Group(child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?)));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let remark = match timeout(DEADLINE, heard_out(&mut child, &mut group, &mut out, &mut err)).await {
        Ok(remark) => remark,
        Err(_) => Some(format!("ended: no answer for {} s", DEADLINE.as_secs())),
    };
    drop(group);
    // It cannot refuse, but the kernel may take its time.
    let _ = timeout(LAST_MOMENT, child.wait()).await;
    let mut lines = lines(&out);
    lines.extend(lines_of_errors(&err));
    lines.extend(remark);
    done(lines)
}

/// Gathers what it prints until it ends, or prints too much. What to remark of its end.
async fn heard_out(child: &mut Child, group: &mut Group, out: &mut Vec<u8>, err: &mut Vec<u8>) -> Option<String> {
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let mut gathering = pin!(async { tokio::try_join!(gather(stdout, out), gather(stderr, err)).is_err() });
    let mut full = None;
    let status = loop {
        tokio::select! {
            is_full = &mut gathering, if full.is_none() => {
                full = Some(is_full);
                if is_full {
                    break None;
                }
            }
            status = child.wait() => {
                // Its number may be another's from now on.
                group.0 = None;
                break status.ok();
            }
        }
    };
    // Its last bytes may still be on their way; whoever else holds the other end of the pipe is not waited for.
    if full.is_none() {
        full = timeout(LAST_MOMENT, gathering).await.ok();
    }
    let failed = || status.filter(|status| !status.success()).map(|status| status.to_string());
    if full == Some(true) { Some(FULL.to_owned()) } else { failed() }
}

/// Reads to the end. An error: there is more than is kept.
async fn gather(pipe: Option<impl AsyncRead + Unpin>, bytes: &mut Vec<u8>) -> Result<(), ()> {
    let Some(pipe) = pipe else { return Ok(()) };
    let mut pipe = pipe.take(MAX_BYTES as u64 + 1);
    while let Ok(1..) = pipe.read_buf(bytes).await {}
    let full = bytes.len() > MAX_BYTES;
    bytes.truncate(MAX_BYTES);
    if full { Err(()) } else { Ok(()) }
}

/// Fields of /proc/PID/stat behind the name: the parent, and when it started, in ticks since boot.
const PARENT: usize = 1;
const STARTED: usize = 19;

fn started(pid: u32) -> Option<u64> {
    stat_field(pid, STARTED)
}

/// It is the process that is meant, and no other with its number.
pub fn still_runs(target: &Target) -> bool {
    started(target.whose.pid) == Some(target.start_ticks)
}

fn stat_field(pid: u32, field: usize) -> Option<u64> {
    let text = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let close = memchr::memrchr(b')', &text)?;
    String::from_utf8_lossy(&text[close + 1..]).split_whitespace().nth(field)?.parse().ok()
}

fn lines(bytes: &[u8]) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let mut lines: Vec<String> = text.lines().take(MAX_LINES).map(|line| clip(&shown(line), MAX_LINE).into_owned()).collect();
    if text.lines().nth(MAX_LINES).is_some() {
        lines.push("…".into());
    }
    lines
}

fn lines_of_errors(bytes: &[u8]) -> Vec<String> {
    lines(bytes).into_iter().take(50).collect()
}
