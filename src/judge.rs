//! One look at one job: every signal that this node has of whether it moves, side by side, with how long each has said so.
//!
//! Rules and the verdict read this and nothing else of the kind, so that they cannot disagree. A signal that is missing is `None`:
//! it neither accuses nor acquits.

use crate::model::Model;
use crate::model::comm::{Behind, Comm, CommRank, Odd};
use crate::model::gpu::{Activity, Gpu};
use crate::model::job::Job;
use crate::model::process::Process;
use crate::text::Phase;
use crate::time::Stamp;
use std::collections::BTreeMap;
use std::time::Duration;

/// How far back I/O and CPU of a process are looked at: a checkpoint writer pauses for seconds between files.
const IO_WINDOW: Duration = Duration::from_secs(10);

/// A pause that a log names is believed for this long.
const NAMED_PAUSE: Duration = Duration::from_secs(600);

/// More than a log and a few sockets: somebody reads or writes data.
const IO_BYTES_PER_S: f64 = 256e3;

#[derive(Clone, Debug, PartialEq)]
pub struct Look {
    pub at: Stamp,
    pub ranks: BTreeMap<u32, RankLook>,
    /// Ranks of this node that should be there.
    pub local_ranks: usize,
    pub log: Option<LogLook>,
    pub ras: Option<RasLook>,
    pub phase: Option<(Phase, Stamp)>,
    /// How long its GPUs have worked so far.
    pub worked: Duration,
    /// Which kinds of signal are not there, in words: `RAS answers`.
    pub lacks: Vec<&'static str>,
    /// When something was last seen to move.
    pub moved_at: Option<Stamp>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct RankLook {
    pub rank: u32,
    pub pid: u32,
    pub gpu: Option<u32>,
    pub activity: Activity,
    pub activity_since: Stamp,
    /// Activity is told by GPM, not by utilisation and power.
    pub by_gpm: bool,
    pub power_mw: Option<u64>,
    pub state: Option<char>,
    pub state_since: Stamp,
    /// `None` where /proc/PID/io may not be read.
    pub io_bytes_per_s: Option<f64>,
    /// It, or a thread of it, was in uninterruptible sleep for much of the window. A moment in it is usual: driver calls are.
    pub in_d: bool,
    pub cpu_pct: Option<f64>,
    pub gone_at: Option<Stamp>,
    pub exit_code: Option<i32>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LogLook {
    pub step: Option<u64>,
    pub last_step_at: Option<Stamp>,
    pub quiet_for: Duration,
    /// Silence up to this is usual for this log.
    pub patience: Duration,
}

/// The communicator of a job that tells most: still and uneven before still, the largest first.
#[derive(Clone, Debug, PartialEq)]
pub struct RasLook {
    pub hash: u64,
    pub nranks: u32,
    /// How long no count of any communicator of the job has changed.
    pub still_for: Duration,
    pub still_since: Stamp,
    pub still_answers: u32,
    pub age: Duration,
    pub behind: Vec<Late>,
    /// Members whose counts are not those that most have.
    pub odd: Vec<(Member, Odd)>,
    pub missing: Vec<Member>,
    pub operations: u64,
    /// Communicators in which no rank has launched anything yet.
    pub unused: Vec<u64>,
    /// Members of any communicator whose initialisation is in progress, and since when the first of them.
    pub in_init: Vec<Member>,
    pub in_init_since: Option<Stamp>,
}

/// A member of a communicator, which has its own numbering of ranks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its rank in the job; `None` when only its number in a smaller communicator is known.
    pub rank: Option<u32>,
    pub comm_rank: u32,
    pub pid: Option<u32>,
    pub host: Option<String>,
}

/// A member that has launched fewer operations than another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Late {
    pub who: Member,
    pub behind: Behind,
}

impl Member {
    fn of(job: &Job, model: &Model, comm: &Comm, comm_rank: u32, pid: Option<u32>, host: Option<&String>) -> Member {
        // On this node a process tells its rank; elsewhere the numbers agree only in the communicator of the whole job.
        let by_pid = pid.and_then(|inner| {
            job.ranks
                .iter()
                .find(|(_, pid)| model.processes.get(pid).is_some_and(|p| p.info.ns_pid.unwrap_or(p.info.pid) == inner))
                .map(|(r, _)| *r)
        });
        // Where no process may be seen, the largest communicator is taken for that.
        let largest = || model.comms_of(job).all(|c| c.nranks <= comm.nranks);
        let whole = job.world_size == Some(comm.nranks) || (job.log_only && largest());
        let rank = if whole { Some(comm_rank) } else { by_pid };
        Member { rank, comm_rank, pid, host: host.cloned() }
    }

    /// `rank 13`, `rank 2 of comm 8228c677 (pid 48213 on 10.0.0.7)`
    pub fn name(&self, hash: u64) -> String {
        let place = match (self.pid, &self.host) {
            (Some(pid), Some(host)) => format!(" (pid {pid} on {host})"),
            _ => String::new(),
        };
        match self.rank {
            Some(rank) => format!("rank {rank}{place}"),
            None => format!("rank {} of comm {:08x}{place}", self.comm_rank, hash >> 32),
        }
    }
}

impl RankLook {
    pub fn alive(&self) -> bool {
        self.gone_at.is_none()
    }

    pub fn stopped(&self) -> bool {
        self.alive() && matches!(self.state, Some('T' | 't'))
    }

    /// It reads, writes, or sleeps in the kernel waiting for a disk.
    pub fn does_io(&self) -> bool {
        self.alive() && (self.in_d || self.io_bytes_per_s.is_some_and(|b| b >= IO_BYTES_PER_S))
    }

    pub fn is(&self, activity: Activity, now: Stamp, least: Duration) -> bool {
        self.activity == activity && now.since(self.activity_since) >= least
    }

    /// `rank 3 (GPU 3, pid 2939)`
    pub fn name(&self) -> String {
        match self.gpu {
            Some(gpu) => format!("rank {} (GPU {gpu}, pid {})", self.rank, self.pid),
            None => format!("rank {} (pid {})", self.rank, self.pid),
        }
    }
}

impl Look {
    pub fn at(model: &Model, job: &Job) -> Look {
        let now = model.now;
        let mut ranks: BTreeMap<u32, RankLook> = job
            .ranks
            .iter()
            .filter_map(|(&rank, &pid)| Some((rank, rank_look(model, now, rank, pid, model.processes.get(&pid)?))))
            .collect();
        if job.log_only {
            ranks = unseen_ranks(model, now, job);
        }
        let progress = model.progress_of(&job.id);
        let log = progress.filter(|p| !p.is_empty()).map(|p| LogLook {
            step: p.step,
            last_step_at: p.last_step_at,
            quiet_for: p.last_step_at.map_or(Duration::ZERO, |at| now.since(at)),
            patience: p.patience(),
        });
        let ras = ras_look(model, now, job);
        let lacks = lacks(&ranks, log.as_ref(), ras.as_ref());
        let phase = model.phase_of(&job.id).filter(|(_, since)| now.since(*since) < NAMED_PAUSE);
        // A working GPU, a step, a count.
        let moving = ranks.values().any(|r| r.activity == Activity::Working && r.alive())
            || log.as_ref().is_some_and(|l| l.last_step_at.is_some() && l.quiet_for < Duration::from_secs(2))
            || ras.as_ref().is_some_and(|r| r.still_for.is_zero() && r.age < Duration::from_secs(3) && r.operations > 0);
        let moved_at = if moving { Some(now) } else { job.moved_at.max(log.as_ref().and_then(|l| l.last_step_at)) };
        Look {
            at: now,
            local_ranks: job.local_world_size.map_or(ranks.len(), |n| n as usize).max(ranks.len()),
            ranks,
            log,
            ras,
            phase,
            worked: job.worked,
            lacks,
            moved_at,
        }
    }

    pub fn alive(&self) -> impl Iterator<Item = &RankLook> {
        self.ranks.values().filter(|r| r.alive())
    }

    pub fn gpus_of(&self, ranks: &[u32]) -> Vec<u32> {
        let mut gpus: Vec<u32> = ranks.iter().filter_map(|r| self.ranks.get(r)?.gpu).collect();
        gpus.sort_unstable();
        gpus.dedup();
        gpus
    }

    /// Ranks whose GPU has been in this state for at least so long.
    pub fn with(&self, activity: Activity, least: Duration) -> Vec<&RankLook> {
        self.alive().filter(|r| r.is(activity, self.at, least)).collect()
    }

    pub fn quiet_log(&self) -> bool {
        self.log.as_ref().is_none_or(|l| l.quiet_for > l.patience)
    }
}

/// An answer older than this says nothing about now.
pub const RAS_OLD: Duration = Duration::from_secs(30);

fn lacks(ranks: &BTreeMap<u32, RankLook>, log: Option<&LogLook>, ras: Option<&RasLook>) -> Vec<&'static str> {
    let alive = || ranks.values().filter(|r| r.alive());
    let some = |is: &dyn Fn(&RankLook) -> bool| alive().next().is_some() && alive().any(is);
    let mut lacks = Vec::new();
    for (missing, words) in [
        (ras.is_none_or(|r| r.age > RAS_OLD), "RAS answers"),
        (some(&|r| r.activity == Activity::Unknown), "GPU activity"),
        (some(&|r| r.activity != Activity::Unknown && !r.by_gpm), "GPM"),
        (log.is_none_or(|l| l.last_step_at.is_none()), "step lines"),
        (some(&|r| r.state.is_none()), "process states"),
        (some(&|r| r.state.is_some() && r.io_bytes_per_s.is_none()), "process I/O"),
    ] {
        if missing {
            lacks.push(words);
        }
    }
    lacks
}

/// Where processes may not be seen: the ranks whose pids NCCL's lines or RAS name, and of which NVML says that they hold a GPU here.
fn unseen_ranks(model: &Model, now: Stamp, job: &Job) -> BTreeMap<u32, RankLook> {
    let said = model.files_of(&job.id).flat_map(|f| f.rank_of_pid.iter().map(|(pid, rank)| (*pid, *rank)));
    let largest = model.comms_of(job).max_by_key(|c| (c.nranks, c.operations()));
    let answered = largest.into_iter().flat_map(|c| c.ranks.iter().filter_map(|(rank, known)| Some((known.pid?, *rank))));
    let away = largest.into_iter().flat_map(|c| c.missing.iter().filter_map(|(rank, known)| Some((known.pid?, *rank))));
    said.chain(answered)
        .chain(away)
        .filter(|(pid, _)| model.gpu_of_pid(*pid).is_some())
        .map(|(pid, rank)| {
            let (gpu, seen) = gpu_look(model, now, pid);
            let look = RankLook {
                rank,
                pid,
                gpu,
                activity: seen.map_or(Activity::Unknown, |g| g.activity),
                activity_since: seen.map_or(now, |g| g.activity_since),
                by_gpm: seen.is_some_and(|g| g.gpm().is_some()),
                power_mw: seen.and_then(|g| g.sample.power_mw),
                state: None,
                state_since: now,
                io_bytes_per_s: None,
                in_d: false,
                cpu_pct: None,
                gone_at: None,
                exit_code: None,
            };
            (rank, look)
        })
        .collect()
}

/// The GPU that a process holds, and what it does, if that is known of now.
fn gpu_look(model: &Model, now: Stamp, pid: u32) -> (Option<u32>, Option<&Gpu>) {
    let gpu = model.gpu_of_pid(pid);
    // What a GPU did when it was last asked says nothing about now.
    (gpu, gpu.and_then(|g| model.gpus.get(&g)).filter(|g| g.is_fresh(now)))
}

fn rank_look(model: &Model, now: Stamp, rank: u32, pid: u32, process: &Process) -> RankLook {
    let (gpu, seen) = gpu_look(model, now, pid);
    RankLook {
        rank,
        pid,
        gpu,
        activity: seen.map_or(Activity::Unknown, |g| g.activity),
        activity_since: seen.map_or(now, |g| g.activity_since),
        by_gpm: seen.is_some_and(|g| g.gpm().is_some()),
        power_mw: seen.and_then(|g| g.sample.power_mw),
        state: process.sample.state,
        state_since: process.state_since,
        io_bytes_per_s: process.io_bytes_per_s(now, IO_WINDOW),
        in_d: process.share_in_d(now, IO_WINDOW).is_some_and(|share| share >= 0.4),
        cpu_pct: process.cpu_pct(now, IO_WINDOW),
        gone_at: process.gone.map(|g| g.at),
        exit_code: process.gone.and_then(|g| g.exit_code),
    }
}

fn ras_look(model: &Model, now: Stamp, job: &Job) -> Option<RasLook> {
    let comms: Vec<&Comm> = model.comms_of(job).filter(|c| c.answered_at.is_some()).collect();
    let newest = comms.iter().filter_map(|c| c.answered_at).max()?;
    // One that a process has left is no longer in the reports.
    let current: Vec<&&Comm> = comms.iter().filter(|c| c.answered_at == Some(newest)).collect();
    let still_since = current.iter().filter_map(|c| c.still_since).max()?;
    let still_answers = current.iter().map(|c| c.still_answers).min().unwrap_or(0);
    let told = current.iter().max_by_key(|c| (!c.missing.is_empty(), !c.behind().is_empty(), c.nranks, c.operations()))?;
    Some(RasLook {
        hash: told.hash,
        nranks: told.nranks,
        still_for: newest.since(still_since),
        still_since,
        still_answers,
        age: now.since(newest),
        behind: told
            .behind()
            .into_iter()
            .map(|behind| {
                let known = told.ranks.get(&behind.rank);
                let who = Member::of(job, model, told, behind.rank, known.and_then(|k| k.pid), known.and_then(|k| k.host.as_ref()));
                Late { who, behind }
            })
            .collect(),
        odd: told
            .odd()
            .into_iter()
            .map(|odd| {
                let known = told.ranks.get(&odd.rank);
                (Member::of(job, model, told, odd.rank, known.and_then(|k| k.pid), known.and_then(|k| k.host.as_ref())), odd)
            })
            .collect(),
        unused: current.iter().filter(|c| c.nranks > 1 && c.operations() == 0 && c.missing.is_empty()).map(|c| c.hash).collect(),
        in_init: current
            .iter()
            .flat_map(|c| in_init(c).map(|(rank, known)| Member::of(job, model, c, rank, known.pid, known.host.as_ref())))
            .collect(),
        in_init_since: current.iter().flat_map(|c| in_init(c).filter_map(|(_, known)| known.init_since)).min(),
        missing: told.missing.iter().map(|(&rank, m)| Member::of(job, model, told, rank, m.pid, m.host.as_ref())).collect(),
        operations: told.operations(),
    })
}

fn in_init(comm: &Comm) -> impl Iterator<Item = (u32, &CommRank)> {
    comm.ranks.iter().filter(|(_, known)| known.init_since.is_some()).map(|(rank, known)| (*rank, known))
}
