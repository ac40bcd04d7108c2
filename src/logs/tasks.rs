//! The number that `srun -l` puts in front of a line is that of a task. It is the rank where Slurm starts each rank, and none where it starts a
//! launcher on each node, which starts the ranks.

use super::prefix::Peeled;
use super::{Init, Origin, RankBy, TextEvent, What};
use std::collections::BTreeMap;

/// What the lines of a file have told of its tasks.
#[derive(Clone, Default, PartialEq)]
pub struct Tasks {
    /// The process of each task that began the newest communicator: of several ranks in one, each has its own.
    inits: BTreeMap<u32, (u64, Option<u32>)>,
    /// A rank of each task that named itself and has another number than the task.
    named: BTreeMap<u32, u32>,
    are_launchers: bool,
}

const MAX_TASKS: usize = 4096;
/// torchrun prints it when it starts several ranks.
const BANNER: &str = "Setting OMP_NUM_THREADS environment variable for each process";

impl Tasks {
    /// The rank that stands in front of a line.
    pub fn rank_of(&self, p: &Peeled<'_>) -> Option<u32> {
        p.origin.rank.filter(|_| p.origin.rank_by != RankBy::Task || !self.are_launchers)
    }

    /// `true`: that tasks are launchers shows on this line for the first time.
    pub fn before(&mut self, p: &Peeled<'_>) -> bool {
        let Some(task) = p.task.filter(|_| !self.are_launchers) else { return false };
        self.are_launchers = p.rest.contains(BANNER) || self.names_another(task, &p.origin);
        self.are_launchers
    }

    /// The same of what the line says.
    pub fn after(&mut self, task: Option<u32>, events: &[TextEvent]) -> bool {
        let Some(task) = task.filter(|_| !self.are_launchers) else { return false };
        let shows = events.iter().any(|event| match &event.what {
            What::Init(init) => self.is_second(task, init, &event.origin),
            What::WorkerFailed { local_rank, .. } => *local_rank > 0,
            What::WorkerFailure(failure) => failure.rank.is_some_and(|rank| rank != task),
            _ => false,
        });
        self.are_launchers |= shows;
        shows
    }

    /// Takes back ranks that are numbers of launchers. Readers keep them: they tell whose line goes on with which.
    pub fn take_back(&self, events: &mut [TextEvent]) {
        for event in events.iter_mut().filter(|event| self.are_launchers && event.origin.rank_by == RankBy::Task) {
            (event.origin.rank, event.origin.rank_by) = (None, RankBy::Other);
        }
    }

    /// Two ranks of one task named themselves, and neither has its number. One alone may be of a world of its own.
    fn names_another(&mut self, task: u32, origin: &Origin) -> bool {
        let Some(rank) = origin.rank.filter(|rank| origin.rank_by == RankBy::PyTorch && *rank != task) else { return false };
        let is_full = self.named.len() >= MAX_TASKS && !self.named.contains_key(&task);
        !is_full && *self.named.entry(task).or_insert(rank) != rank
    }

    /// Two processes of one task in one communicator. A task that was started anew is in another one.
    fn is_second(&mut self, task: u32, init: &Init, origin: &Origin) -> bool {
        let Some(comm) = init.comm_id else { return false };
        if self.inits.len() >= MAX_TASKS && !self.inits.contains_key(&task) {
            return false;
        }
        let (known, pid) = self.inits.entry(task).or_insert((comm, origin.pid));
        if *known != comm {
            (*known, *pid) = (comm, origin.pid);
        }
        pid.is_some() && origin.pid.is_some() && *pid != origin.pid
    }
}
