//! How the ranks of a job ended, by their exit codes: which of them ended by itself, and which were ended by others after that.

use super::Model;
use super::job::Job;
use super::process::Process;
use crate::base::exit_code::signal_of;
use crate::base::time::Stamp;
use crate::base::words::rank_words;
use std::time::Duration;

/// A rank that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// `None`: its environment may not be read, and RAS has not named it.
    pub rank: Option<u32>,
    pub pid: u32,
    pub at: Stamp,
    pub exit_code: Option<i32>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Nothing bad was seen, and not everything.
    Untold,
    /// All processes ended with exit code 0, or the launcher did, which would tell otherwise.
    Well,
    /// These ended by themselves, before any other, by time; more than one where they failed together.
    Failed {
        first: Vec<End>,
        /// Those that ended no later, and nobody knows how.
        unseen: Vec<End>,
    },
    /// Ranks were ended by a signal that others send, and none had failed before.
    Stopped { signal: u32, since: Stamp },
    /// No rank is known to have failed, but the launcher ended like that.
    Launcher { pid: u32, at: Stamp, exit_code: i32 },
}

const SIGHUP: u32 = 1;
const SIGINT: u32 = 2;
const SIGQUIT: u32 = 3;
/// Slurm's warnings before the time limit.
const SIGUSR1: u32 = 10;
const SIGUSR2: u32 = 12;
const SIGXCPU: u32 = 24;
pub const SIGKILL: u32 = 9;
const SIGTERM: u32 = 15;
/// After the first rank: by then the log has said what it says, and who ends a whole job with SIGKILL has ended it (a process takes a while
/// to give its GPU back). torchrun waits 30 s between SIGTERM and SIGKILL, Slurm and Kubernetes as long.
pub const SETTLES: Duration = Duration::from_secs(2);
/// torchrun ends all ranks and starts them anew when nodes come or go, after up to 30 s of waiting for more: a launcher that lives has so
/// long to do that.
pub const RESTARTS: Duration = Duration::from_secs(60);

/// Ranks that fail of the same thing fail so soon after each other, and which of them was the first says little. A launcher takes longer.
pub const TOGETHER: Duration = Duration::from_millis(100);

/// They start ranks for a launcher on another host or in another process, report to it how those ended, and end with 0 themselves however
/// that was.
const AGENTS: &[&str] = &["slurmstepd", "orted", "prted", "hydra_pmi_proxy", "hydra_bstrap_pr", "mpispawn", "raylet"];

/// Sent by a launcher, a scheduler or a person.
fn is_request(signal: u32) -> bool {
    matches!(signal, SIGHUP | SIGINT | SIGQUIT | SIGUSR1 | SIGUSR2 | SIGTERM | SIGXCPU)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum How {
    Unseen,
    Well,
    /// With an exit code, or a signal that a process brings upon itself.
    ByItself,
    /// A launcher, a scheduler or a person asked it to end.
    Asked(u32),
    /// By the kernel for memory, by a person, or by whoever had asked it to end before.
    Killed,
}

impl End {
    /// `rank 3 (pid 48213)`, `pid 48213`
    pub fn name(&self) -> String {
        self.rank.map_or_else(|| format!("pid {}", self.pid), |rank| format!("rank {rank} (pid {})", self.pid))
    }

    fn how(&self) -> How {
        match (self.exit_code, self.exit_code.and_then(signal_of)) {
            (None, _) => How::Unseen,
            (Some(0), _) => How::Well,
            (_, Some(signal)) if is_request(signal) => How::Asked(signal),
            (_, Some(SIGKILL)) => How::Killed,
            _ => How::ByItself,
        }
    }
}

/// `ranks 3 and 5`; where a rank is not known, `pid 48213 and pid 48215`.
pub fn who(ends: &[End]) -> String {
    let ranks: Option<Vec<u32>> = ends.iter().map(|end| end.rank).collect();
    ranks.map_or_else(
        || ends.iter().take(8).map(|end| format!("pid {}", end.pid)).collect::<Vec<_>>().join(" and "),
        |mut ranks| {
            ranks.sort_unstable();
            rank_words(&ranks)
        },
    )
}

impl Model {
    /// Ranks of this node that are gone, in the order in which they went. Those before a restart do not count.
    pub fn ends_of(&self, job: &Job) -> Vec<End> {
        let end = |(rank, pid): (Option<u32>, u32)| {
            let gone = self.processes.get(&pid)?.gone.filter(|gone| job.restarted_at.is_none_or(|at| gone.at >= at))?;
            Some(End { rank, pid, at: gone.at, exit_code: gone.exit_code })
        };
        // Of another user's job nothing says which of the processes that hold GPUs is which rank.
        let unranked = job.unranked.iter().filter(|_| job.ranks.is_empty()).map(|pid| (None, *pid));
        let mut ends: Vec<End> = job.ranks.iter().map(|(rank, pid)| (Some(*rank), *pid)).chain(unranked).filter_map(end).collect();
        ends.sort_by_key(|end| (end.at, end.rank));
        ends
    }

    pub fn ending_of(&self, job: &Job) -> Ending {
        let ends = self.ends_of(job);
        let no_ranks = job.launcher.is_some() && job.pids().next().is_none();
        let all_gone = (!ends.is_empty() || no_ranks) && !job.pids().any(|pid| self.processes.get(&pid).is_some_and(Process::is_alive));
        let first = |is: &dyn Fn(How) -> bool| ends.iter().find(|end| is(end.how())).copied();
        let asked = first(&|how| matches!(how, How::Asked(_)));
        let by_itself = first(&|how| how == How::ByItself);
        // What it ended itself at the end, or was ended in when it was done, is no failure.
        let launcher_well = all_gone && self.launcher_end(job).is_some_and(|(_, _, code)| code == 0);
        if by_itself.is_none() && (launcher_well || self.said_done(job) && all_gone) {
            return Ending::Well;
        }
        let killed = first(&|how| how == How::Killed);
        let stopped = |end: End| Ending::Stopped { signal: end.exit_code.and_then(signal_of).unwrap_or(SIGTERM), since: end.at };
        let failed = |at: Stamp, how: How| Ending::Failed {
            first: ends.iter().filter(|end| end.at >= at && end.at.since(at) <= TOGETHER && end.how() == how).copied().collect(),
            unseen: ends.iter().filter(|end| end.at <= at && end.how() == How::Unseen).copied().collect(),
        };
        // Launchers end the others with SIGTERM; SIGINT and SIGHUP come from a terminal, and all may go at once.
        let was_asked_before = |end: End| match asked.map(|a| (a.at, a.how())) {
            Some((at, How::Asked(SIGTERM))) => at < end.at,
            Some((at, _)) => at <= end.at,
            None => false,
        };
        match (by_itself, killed, asked) {
            (Some(own), _, Some(asked)) if was_asked_before(own) => stopped(asked),
            // Whoever died of SIGKILL before the others failed may be why they did.
            (Some(own), Some(kill), _) if kill.at < own.at && !was_asked_before(kill) => failed(kill.at, How::Killed),
            (Some(own), ..) => failed(own.at, How::ByItself),
            (None, Some(kill), Some(asked)) if was_asked_before(kill) => stopped(asked),
            (None, Some(kill), _) => {
                let last = ends.iter().map(|end| end.at).max().unwrap_or(kill.at);
                let of_all = ends.len() > 1 && ends.iter().all(|end| end.how() == How::Killed) && last.since(kill.at) < SETTLES;
                match (of_all, all_gone) {
                    (true, true) => stopped(kill),
                    _ => failed(kill.at, How::Killed),
                }
            }
            (None, None, Some(asked)) if all_gone => stopped(asked),
            (None, None, Some(_)) => Ending::Untold,
            (None, None, None) if all_gone => self.by_launcher(job, &ends),
            (None, None, None) => Ending::Untold,
        }
    }

    /// The log shows that the job is done.
    pub fn said_done(&self, job: &Job) -> bool {
        self.progress_of(&job.id).is_some_and(|p| p.done_at.is_some())
    }

    /// pid, time and exit code of a launcher that has ended, if that code is about its ranks.
    fn launcher_end(&self, job: &Job) -> Option<(u32, Stamp, i32)> {
        let launcher = self.processes.get(&job.launcher?).filter(|p| !AGENTS.contains(&p.info.comm.as_str()))?;
        let gone = launcher.gone?;
        Some((launcher.info.pid, gone.at, gone.exit_code?))
    }

    fn by_launcher(&self, job: &Job, ends: &[End]) -> Ending {
        // Without ranks the launcher alone tells.
        let all_well = !ends.is_empty() && ends.iter().all(|end| end.how() == How::Well);
        let last = ends.iter().map(|end| end.at).max().unwrap_or_default();
        match self.launcher_end(job) {
            Some((_, _, 0)) => Ending::Well,
            // What a script did after its ranks is another matter.
            Some((_, at, _)) if all_well && at.since(last) > RESTARTS => Ending::Well,
            Some((pid, at, exit_code)) => match signal_of(exit_code) {
                Some(signal) if all_well && (is_request(signal) || signal == SIGKILL) => Ending::Well,
                Some(signal) if is_request(signal) || signal == SIGKILL => Ending::Stopped { signal, since: at },
                _ => Ending::Launcher { pid, at, exit_code },
            },
            None if all_well => Ending::Well,
            None => Ending::Untold,
        }
    }
}
