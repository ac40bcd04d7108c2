//! Jobs: which processes belong together, and what each rank is doing.

use super::gpu::Activity;
use super::process::Process;
use super::rhythm::Rhythm;
use crate::base::time::Stamp;
use crate::observe::process::{LogVia, ProcessRole};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// A training job, as far as this node sees it.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// Slurm's job id, else the launcher's pid (with the job of Ray), else the name of a log file.
    pub id: String,
    pub first_seen: Stamp,
    /// Global rank to pid, of this node.
    pub ranks: BTreeMap<u32, u32>,
    /// GPU users whose rank is not known.
    pub unranked: BTreeSet<u32>,
    pub launcher: Option<u32>,
    pub world_size: Option<u32>,
    /// Ranks that belong to this node.
    pub local_world_size: Option<u32>,
    /// Known only from log files: no process was seen.
    pub log_only: bool,
    /// Known only from files that were written before: nothing of it runs.
    pub archived: bool,
    /// A line of its logs gave an event.
    pub has_spoken: bool,
    /// The last instant at which anything of it was seen to move: a step, a count, a working GPU.
    pub moved_at: Option<Stamp>,
    pub ended_at: Option<Stamp>,
    /// The launcher began to end the ranks, or was itself asked to end.
    pub taking_down_at: Option<Stamp>,
    /// The launcher reports that it was itself asked to end.
    pub launcher_signalled: bool,
    /// The launcher reports that it asked ranks to end.
    pub launcher_signals: bool,
    /// How long, in ticks of a second, most of its GPUs have worked so far.
    pub worked: Duration,
    /// The ranks were started anew: what was wrong with the ones before is past.
    pub restarted_at: Option<Stamp>,
    /// How often that was seen.
    pub restarts: u32,
    /// The last step that was counted before that.
    pub step_before_restart: Option<u64>,
    /// The time of a step, where no log names it; the one last found, while these ranks run.
    pub rhythm: Option<Rhythm>,
    /// When it was last looked for.
    pub sensed_at: Option<Stamp>,
    /// What each of its ranks here has spent its time with. Ranks that are started anew go on counting.
    pub spent: BTreeMap<u32, Spent>,
    /// How much they waited of late, all together.
    pub lately: Lately,
}

/// What a rank has spent its time with while it was watched: what ranks of several nodes, which nobody sees at one moment, are compared by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Spent {
    pub working: Duration,
    pub waiting: Duration,
    pub idle: Duration,
    /// Not known, lost, stopped or gone.
    pub other: Duration,
}

impl Spent {
    /// `passed` more, with what its GPU does; `None`: nobody knows, or the process does not run.
    pub fn add(&mut self, activity: Option<Activity>, passed: Duration) {
        let part = match activity {
            Some(Activity::Working) => &mut self.working,
            Some(Activity::Waiting) => &mut self.waiting,
            Some(Activity::Idle) => &mut self.idle,
            Some(Activity::Unknown | Activity::Lost) | None => &mut self.other,
        };
        *part = part.saturating_add(passed);
    }

    /// Each kind of activity by its name.
    pub fn parts(&self) -> [(&'static str, Duration); 4] {
        [("working", self.working), ("waiting", self.waiting), ("idle", self.idle), ("other", self.other)]
    }
}

/// By what share of each of the last windows the ranks here waited, on average. Who waits for a node that is late at each step does so in
/// every window; in one pause it waits all of one, or only in some.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Lately {
    /// Time that passed and the share of ranks that waited in it, the newest last.
    ticks: VecDeque<(Duration, f64)>,
}

impl Lately {
    /// As long as it takes to see several steps; three of them and a scrape after 15 s are within half a minute.
    pub const WINDOW: Duration = Duration::from_secs(4);
    pub const WINDOWS: usize = 3;
    /// Ticks come each second; those that come more often are not kept for longer.
    const MOST_TICKS: usize = 64;

    pub fn add(&mut self, share: f64, passed: Duration) {
        self.ticks.push_back((passed, share));
        if self.ticks.len() > Self::MOST_TICKS {
            self.ticks.pop_front();
        }
    }

    /// Nobody looked, or no process ran.
    pub fn forget(&mut self) {
        self.ticks.clear();
    }

    /// The least and the largest share of the last windows; none before all of them are full.
    pub fn range(&self) -> Option<(f64, f64)> {
        let mut shares = Vec::with_capacity(Self::WINDOWS);
        let (mut waited, mut lasted) = (0.0, Duration::ZERO);
        for (passed, share) in self.ticks.iter().rev() {
            waited += share * passed.as_secs_f64();
            lasted += *passed;
            if lasted >= Self::WINDOW {
                shares.push(waited / lasted.as_secs_f64());
                (waited, lasted) = (0.0, Duration::ZERO);
            }
            if shares.len() == Self::WINDOWS {
                let least = shares.iter().copied().fold(f64::INFINITY, f64::min);
                return Some((least, shares.iter().copied().fold(0.0, f64::max)));
            }
        }
        None
    }
}

/// Variables that carry a rank, the most specific first (torchrun below srun sets both families).
pub const RANK_VARS: &[&str] = &[
    "RANK",
    "OMPI_COMM_WORLD_RANK",
    "PMIX_RANK",
    "PMI_RANK",
    "MV2_COMM_WORLD_RANK",
    "HOROVOD_RANK",
    "JAX_PROCESS_ID",
    "JAX_PROCESS_INDEX",
    "PADDLE_TRAINER_ID",
    "SLURM_PROCID",
];
pub const LOCAL_RANK_VARS: &[&str] =
    &["LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "MV2_COMM_WORLD_LOCAL_RANK", "HOROVOD_LOCAL_RANK", "SLURM_LOCALID"];
pub const WORLD_VARS: &[&str] = &[
    "WORLD_SIZE",
    "OMPI_COMM_WORLD_SIZE",
    "PMI_SIZE",
    "MV2_COMM_WORLD_SIZE",
    "HOROVOD_SIZE",
    "JAX_NUM_PROCESSES",
    "JAX_PROCESS_COUNT",
    "PADDLE_TRAINERS_NUM",
    "SLURM_NTASKS",
];
pub const LOCAL_WORLD_VARS: &[&str] =
    &["LOCAL_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_SIZE", "MV2_COMM_WORLD_LOCAL_SIZE", "HOROVOD_LOCAL_SIZE"];

impl Job {
    pub fn new(id: String, at: Stamp) -> Self {
        Job {
            id,
            first_seen: at,
            ranks: BTreeMap::new(),
            unranked: BTreeSet::new(),
            launcher: None,
            world_size: None,
            local_world_size: None,
            log_only: false,
            archived: false,
            has_spoken: false,
            moved_at: None,
            ended_at: None,
            taking_down_at: None,
            launcher_signalled: false,
            launcher_signals: false,
            restarted_at: None,
            restarts: 0,
            step_before_restart: None,
            worked: Duration::ZERO,
            rhythm: None,
            sensed_at: None,
            spent: BTreeMap::new(),
            lately: Lately::default(),
        }
    }

    /// The least and the largest share of the last windows that its ranks here waited; none where it has ended or was not watched for so long.
    pub fn waited(&self) -> Option<(f64, f64)> {
        self.lately.range().filter(|_| self.ended_at.is_none())
    }

    /// Its ranks were started anew: nothing that was known of how it goes holds any more.
    pub fn restart(&mut self, at: Stamp) {
        /// Ranks of one attempt are seen one after the other.
        const ONE_ATTEMPT: Duration = Duration::from_secs(30);
        if self.restarted_at.is_none_or(|before| at.since(before) > ONE_ATTEMPT) {
            self.restarts = self.restarts.saturating_add(1);
        }
        self.restarted_at = Some(at);
        self.taking_down_at = None;
        (self.launcher_signalled, self.launcher_signals) = (false, false);
        self.moved_at = None;
        self.worked = Duration::ZERO;
        self.rhythm = None;
    }

    pub fn pids(&self) -> impl Iterator<Item = u32> + '_ {
        self.ranks.values().copied().chain(self.unranked.iter().copied())
    }

    /// Of the whole job some ranks are on other nodes.
    pub fn has_ranks_elsewhere(&self) -> bool {
        self.world_size.is_some_and(|n| n as usize > self.ranks.len())
    }

    /// The rank of the one process that is seen of a job, whose world is not larger as far as that is named.
    pub(super) fn only_seen_rank(&self) -> Option<u32> {
        let mut ranks = self.ranks.keys();
        let only = ranks.next().filter(|_| ranks.next().is_none() && self.unranked.is_empty())?;
        (!self.log_only && self.world_size.is_none_or(|n| n == 1)).then_some(*only)
    }

    pub fn rank_of(&self, pid: u32) -> Option<u32> {
        self.ranks.iter().find(|(_, p)| **p == pid).map(|(r, _)| *r)
    }
}

/// The name under which a process's job is known, from its environment and the launcher above it.
pub fn job_id(process: &Process, launcher: Option<u32>) -> String {
    if let Some(job) = process.env("SLURM_JOB_ID").or_else(|| process.env("SLURM_JOBID")) {
        return match process.env("SLURM_STEP_ID") {
            Some(step) if step != "0" => format!("{job}.{step}"),
            _ => job.to_owned(),
        };
    }
    // A raylet runs the processes of many jobs.
    if let (Some(raylet), Some(job), true) = (launcher, process.env("RAY_JOB_ID"), process.is_of_ray()) {
        return format!("{raylet}.{job}");
    }
    match launcher.or(process.info.place.as_ref().map(|place| place.leader)) {
        Some(pid) => pid.to_string(),
        None => match process.info.role {
            ProcessRole::Trainer => process.info.pid.to_string(),
            // Orphans of one launcher share its port even when their parent is gone.
            ProcessRole::Rank if process.info.ppid <= 1 => match (process.env("MASTER_ADDR"), process.env("MASTER_PORT")) {
                (Some(addr), Some(port)) => format!("{addr}:{port}"),
                _ => process.info.pid.to_string(),
            },
            _ if process.info.ppid > 1 => process.info.ppid.to_string(),
            _ => process.info.pid.to_string(),
        },
    }
}

/// Does this log file, known by inode and path, belong to the process?
pub fn owns_log(process: &Process, device: Option<u64>, inode: Option<u64>, path: &str) -> bool {
    process.info.logs.iter().any(|log| {
        let same_file = log.inode.is_some() && (log.inode, log.device) == (inode, device);
        same_file || (log.via != LogVia::Other && log.path == path)
    })
}

#[cfg(test)]
mod tests {
    use super::Lately;
    use std::time::Duration;

    #[test]
    fn who_waits_in_each_of_the_last_windows_is_told_from_one_pause() {
        let of = |shares: &[f64]| {
            let mut lately = Lately::default();
            shares.iter().for_each(|share| lately.add(*share, Duration::from_secs(1)));
            lately.range()
        };
        assert_eq!(of(&[0.5; 11]), None, "not all windows are full");
        assert_eq!(of(&[0.5; 12]), Some((0.5, 0.5)));
        // All wait for four seconds, once.
        let pause = [0.25, 0.25, 0.25, 0.25, 1.0, 1.0, 1.0, 1.0, 0.25, 0.25, 0.25, 0.25];
        assert_eq!(of(&pause), Some((0.25, 1.0)));
        let mut forgets = Lately::default();
        (0..20).for_each(|_| forgets.add(0.5, Duration::from_secs(1)));
        forgets.forget();
        assert_eq!(forgets.range(), None);
    }
}
