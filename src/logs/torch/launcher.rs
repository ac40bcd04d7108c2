//! torchrun and other launchers: which processes ended, and which were asked to end.

use super::{emit, leading_number, number_after, words};
use crate::logs::prefix::{Peeled, stamp};
use crate::logs::{Origin, TextEvent, What, WorkerFailure};
use aho_corasick::AhoCorasick;
use std::sync::LazyLock;

/// No line of a launcher that is read is without one of these.
const WORDS: &[&str] = &[
    "Setting OMP_NUM_THREADS",
    "failed (exitcode: ",
    "Sending process ",
    "Closing process ",
    "Unable to shutdown process ",
    " death signal, shutting",
    "Killing subprocess ",
    " crashed with exit code ",
    " exited with code ",
    " exited on signal ",
    ") world_rank=",
];

/// What one line of a launcher says.
pub fn find(text: &str) -> Option<What> {
    static ANY: LazyLock<AhoCorasick> = LazyLock::new(|| words(WORDS));
    if !ANY.is_match(text) {
        return None;
    }
    if text.contains("Setting OMP_NUM_THREADS environment variable for each process") {
        return Some(What::RunStart);
    }
    if let Some((_, tail)) = text.split_once("failed (exitcode: ") {
        let (code, tail) = tail.split_once(')')?;
        let local_rank = number_after(tail, "local_rank: ")?;
        return Some(What::WorkerFailed { exit_code: code.parse().ok()?, local_rank, pid: number_after(tail, "(pid: ")? });
    }
    if let Some((_, tail)) = text.split_once("Sending process ") {
        let (pid, signal) = tail.split_once(" closing signal ")?;
        return Some(What::Terminating { pid: pid.parse().ok(), signal: signal_name(signal)? });
    }
    if let Some((pid, signal)) = text.split_once("Closing process ").and_then(|(_, t)| t.split_once(" via signal ")) {
        return Some(What::Terminating { pid: pid.parse().ok(), signal: signal_name(signal)? });
    }
    if let Some((_, tail)) = text.split_once("Unable to shutdown process ") {
        let (_, signal) = tail.split_once("forcefully exiting via ")?;
        return Some(What::Terminating { pid: leading_number(tail), signal: signal_name(signal)? });
    }
    if let Some((before, _)) = text.split_once(" death signal, shutting down workers") {
        let word = before.rsplit_once("Received ")?.1;
        return Some(What::LauncherSignalled { signal: signal_number(word)? });
    }
    if let Some((_, tail)) = text.split_once("Killing subprocess ") {
        return Some(What::Terminating { pid: Some(leading_number(tail)?), signal: "SIGTERM".into() });
    }
    other_launchers(text)
}

/// Composer, Lightning, Open MPI, Ray.
fn other_launchers(text: &str) -> Option<What> {
    let failure = |f: WorkerFailure| Some(What::WorkerFailure(f));
    if let Some((before, rank)) = text.split_once(") world_rank=") {
        let host = before.split_once("ip=").map(|(_, ip)| ip.split([',', ' ', ')']).next().unwrap_or(ip).to_owned());
        return Some(What::Placed { rank: leading_number(rank)?, pid: number_after(before, "pid=")?, host });
    }
    if let Some((before, code)) = text.split_once(" crashed with exit code ") {
        let rank = before.strip_prefix("Rank ")?.parse().ok()?;
        return failure(WorkerFailure { rank: Some(rank), exit_code: Some(signed(code)?), ..WorkerFailure::default() });
    }
    if let Some((before, code)) = text.split_once(" exited with code ") {
        let rank = number_after(before, "Global rank ")?;
        let (exit_code, pid) = (Some(signed(code)?), number_after(before, "(PID "));
        return failure(WorkerFailure { rank: Some(rank), exit_code, pid, ..WorkerFailure::default() });
    }
    if let Some((before, signal)) = text.split_once(" exited on signal ") {
        // Open MPI prints 0 for a process that it did not start itself.
        let (rank, pid) = (Some(number_after(before, "process rank ")?), number_after(before, "with PID ").filter(|pid| *pid != 0));
        let host = before.split_once(" on node ").map(|(_, h)| h.trim().to_string());
        let signal: i32 = leading_number(signal)?;
        return failure(WorkerFailure { root: true, rank, pid, host, exit_code: Some(-signal), ..WorkerFailure::default() });
    }
    None
}

fn signed(text: &str) -> Option<i32> {
    match text.strip_prefix('-') {
        Some(t) => leading_number::<i32>(t).map(|n| -n),
        None => leading_number(text),
    }
}

const SIGNALS: &[(i32, &str)] =
    &[(1, "SIGHUP"), (2, "SIGINT"), (3, "SIGQUIT"), (6, "SIGABRT"), (9, "SIGKILL"), (10, "SIGUSR1"), (12, "SIGUSR2"), (15, "SIGTERM")];

/// `SIGTERM`, `Signals.SIGTERM` (Python up to 3.10) or `15`.
fn signal_name(text: &str) -> Option<String> {
    let word = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '.').next()?.trim_end_matches('.');
    let word = word.strip_prefix("Signals.").unwrap_or(word);
    if let Ok(n) = word.parse::<i32>() {
        return Some(SIGNALS.iter().find(|(k, _)| *k == n).map_or_else(|| format!("signal {n}"), |(_, name)| name.to_string()));
    }
    word.starts_with("SIG").then(|| word.to_string())
}

fn signal_number(word: &str) -> Option<i32> {
    let word = word.strip_prefix("Signals.").unwrap_or(word);
    word.parse().ok().or_else(|| SIGNALS.iter().find(|(_, name)| *name == word).map(|(n, _)| *n))
}

/// The rank that Open MPI names: `Process name: [[44912,1],251]`, from 5.0 on `Process name: [prterun-node-1-39521@1,251]`.
fn mpi_process(text: &str) -> Option<u32> {
    let name = text.trim_start().strip_prefix("Process name: [")?;
    let (_, rank) = name.strip_prefix('[').map_or_else(|| name.rsplit_once(','), |name| name.split_once("],"))?;
    leading_number(rank)
}

/// The process that MPICH's launcher names: `=   PID 9765 RUNNING AT node-1`, of Intel MPI `=   RANK 3 PID 9765 RUNNING AT node-1`.
fn hydra_process(text: &str) -> Option<WorkerFailure> {
    let (before, host) = text.strip_prefix('=')?.split_once(" RUNNING AT ")?;
    let (rank, pid) = before.split_once("PID ")?;
    let rank = rank.trim().strip_prefix("RANK ").and_then(|rank| rank.parse().ok());
    let host = host.split_whitespace().next().map(str::to_owned);
    Some(WorkerFailure { root: true, rank, pid: Some(pid.trim().parse().ok()?), host, ..WorkerFailure::default() })
}

/// A line of the frame in which MPICH's launcher says how a process ended, with its exit code; a signal as a negative one.
fn hydra_ending(text: &str) -> Option<Option<i32>> {
    if let Some((_, signal)) =
        text.strip_prefix("YOUR APPLICATION TERMINATED WITH THE EXIT STRING: ").and_then(|t| t.split_once("(signal "))
    {
        return Some(leading_number::<i32>(signal).map(|signal| -signal));
    }
    let inner = text.strip_prefix('=')?;
    let number = |name: &str| inner.trim_start().strip_prefix(name).and_then(leading_number::<i32>);
    Some(number("EXIT CODE: ").or_else(|| number("KILLED BY SIGNAL: ").map(|signal| -signal)))
}

/// torchrun's failure table, one per agent that prints into the file.
#[derive(Clone, Default, PartialEq)]
pub struct Tables {
    open: Vec<Table>,
    /// The process that Open MPI or MPICH names; its exit code stands in the lines behind it.
    mpi: Option<(Origin, WorkerFailure)>,
}

#[derive(Clone, PartialEq)]
struct Table {
    who: Who,
    root: bool,
    block: Option<WorkerFailure>,
    /// The rank of the block that was read last.
    rank: Option<u32>,
    /// `@record` has put a traceback into it, which goes on.
    is_traced: bool,
    /// Lines of others since its last own one.
    waited: u32,
}

/// What tells one agent's lines from another's.
type Who = (Option<u32>, Option<String>);

const TRACEBACK: &str = "Traceback (most recent call last)";
const MAX_TABLES: usize = 64;
const MAX_WAIT: u32 = 200;

impl Tables {
    pub fn is_idle(&self) -> bool {
        self.open.is_empty() && self.mpi.is_none()
    }

    /// Hands out what was held back.
    pub fn flush(&mut self, out: &mut Vec<TextEvent>) {
        if let Some((origin, failure)) = self.mpi.take() {
            emit(out, &origin, What::WorkerFailure(failure));
        }
    }

    /// What Open MPI or MPICH says of the first process that failed. `true`: the line is a part of it.
    fn read_mpi(&mut self, p: &Peeled<'_>, text: &str, out: &mut Vec<TextEvent>) -> bool {
        if let Some(failure) = hydra_process(text) {
            self.flush(out);
            self.mpi = Some((p.origin.clone(), failure));
            return true;
        }
        if let Some((_, failure)) = &mut self.mpi
            && let Some(ending) = hydra_ending(text)
        {
            failure.exit_code = ending.or(failure.exit_code);
            // A signal is the last that it says of the process.
            if ending.is_some_and(|code| code < 0) {
                self.flush(out);
            }
            return true;
        }
        let code = text.trim_start().strip_prefix("Exit code:").and_then(|code| signed(code.trim_start()));
        if let (Some((_, failure)), Some(_)) = (&mut self.mpi, code) {
            failure.exit_code = code;
            self.flush(out);
            return true;
        }
        self.flush(out);
        let rank = mpi_process(text);
        self.mpi = rank.map(|rank| (p.origin.clone(), WorkerFailure { root: true, rank: Some(rank), ..WorkerFailure::default() }));
        rank.is_some()
    }

    /// `true`: the line is part of a table.
    pub fn read(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) -> bool {
        let text = p.rest.trim_end();
        if self.read_mpi(p, text, out) {
            return true;
        }
        let root = text == "Root Cause (first observed failure):";
        let who: Who = (p.origin.rank, p.origin.host.clone());
        if self.open.is_empty() && !root && text != "Failures:" {
            // The log begins in the middle of one.
            let starts = field(text).is_some_and(|(key, value)| key == "time" && stamp::iso(value).is_some());
            if !starts {
                return false;
            }
            self.open.push(Table {
                who: who.clone(),
                root: false,
                block: Some(WorkerFailure::default()),
                rank: None,
                is_traced: false,
                waited: 0,
            });
        }
        if root || text == "Failures:" {
            self.open.retain(|t| t.who != who);
            if self.open.len() < MAX_TABLES {
                self.open.push(Table { who, root, block: None, rank: None, is_traced: false, waited: 0 });
            }
            return true;
        }
        for t in &mut self.open {
            t.waited += 1;
        }
        self.open.retain(|t| t.waited < MAX_WAIT);
        let Some(at) = self.open.iter().position(|t| t.who == who) else { return false };
        let table = &mut self.open[at];
        if text.len() >= 3 && text.bytes().all(|b| b == b'=') {
            self.open.remove(at);
            return true;
        }
        if text.strip_prefix('[').and_then(|t| t.strip_suffix("]:")).is_some_and(|n| n.parse::<u32>().is_ok()) {
            table.block = Some(WorkerFailure { root: table.root, ..WorkerFailure::default() });
            (table.waited, table.is_traced) = (0, false);
            return true;
        }
        if let Some((key, value)) = field(text) {
            table.waited = 0;
            table.is_traced = key == "traceback" && value.starts_with(TRACEBACK);
            if let Some(done) = table.take(key, value) {
                emit(out, &p.origin, What::WorkerFailure(done));
            }
            return true;
        }
        // Rules, `<NO_OTHER_FAILURES>`, and the traceback that `@record` indents into the table.
        let is_rule = text.bytes().all(|b| b == b'-');
        table.is_traced &= !is_rule;
        is_rule || text.starts_with("  ")
    }

    /// The line of a traceback that this line of a table is, and of which rank it is.
    pub fn traced<'t>(&self, p: &Peeled<'t>) -> Option<(Option<u32>, &'t str)> {
        let table = self.open.iter().find(|t| t.is_traced && t.who == (p.origin.rank, p.origin.host.clone()))?;
        let text = p.rest.trim_end();
        let line = field(text).filter(|(key, _)| *key == "traceback").map(|(_, value)| value).or_else(|| text.strip_prefix("  "))?;
        Some((table.rank, line))
    }
}

impl Table {
    /// One field; a block is complete with its exit code.
    fn take(&mut self, key: &str, value: &str) -> Option<WorkerFailure> {
        let block = self.block.as_mut()?;
        match key {
            "time" => block.time = stamp::iso(value).map(|(w, _)| w),
            "host" => block.host = Some(value.to_string()).filter(|h| !h.is_empty()),
            "rank" => {
                block.rank = leading_number(value);
                block.local_rank = number_after(value, "(local_rank: ");
                self.rank = block.rank;
            }
            "exitcode" => {
                block.exit_code = signed(value);
                block.pid = number_after(value, "(pid: ");
                return self.block.take();
            }
            _ => {}
        }
        None
    }
}

/// `  exitcode  : -9 (pid: 3239)`
fn field(text: &str) -> Option<(&str, &str)> {
    let (key, value) = text.strip_prefix("  ")?.split_once(':')?;
    let key = key.trim_end();
    matches!(key, "time" | "host" | "rank" | "exitcode" | "error_file" | "traceback").then_some((key, value.trim()))
}
