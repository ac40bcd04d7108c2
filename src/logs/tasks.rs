//! The number that `srun -l` puts in front of a line is that of a task. It is the rank where Slurm starts each rank, and none where it starts a
//! launcher on each node, which starts the ranks.

use super::TextEvent;
use super::prefix::Peeled;
use std::collections::BTreeMap;

/// What the lines of a file have told of its tasks.
#[derive(Clone, Default, PartialEq)]
pub struct Tasks {
    /// The first process and CUDA device of each.
    first: BTreeMap<u32, (u32, u32)>,
    are_launchers: bool,
}

const MAX_TASKS: usize = 4096;

impl Tasks {
    pub fn are_launchers(&self) -> bool {
        self.are_launchers
    }

    /// Takes back the rank of a line whose task is a launcher. `true`: that it is one shows on this line for the first time.
    pub fn before(&mut self, p: &mut Peeled<'_>) -> bool {
        let Some(task) = p.task else { return false };
        // torchrun prints the banner when it starts several ranks, and a rank that names itself is no other.
        let shows = !self.are_launchers && (p.rest.contains(BANNER) || p.names_rank && p.origin.rank != Some(task));
        self.are_launchers |= shows;
        p.origin.rank_is_task = !p.names_rank && p.origin.rank == Some(task);
        if self.are_launchers && p.origin.rank_is_task {
            (p.origin.rank, p.origin.rank_is_task) = (None, false);
        }
        shows
    }

    /// Two processes of one task, each with a GPU of its own, as NCCL's heads have them. One that was started anew keeps its GPU.
    pub fn after(&mut self, events: &mut [TextEvent]) -> bool {
        let shows = !self.are_launchers && events.iter().any(|event| self.is_second(event));
        self.are_launchers |= shows;
        if shows {
            for event in events.iter_mut().filter(|event| event.origin.rank_is_task) {
                (event.origin.rank, event.origin.rank_is_task) = (None, false);
            }
        }
        shows
    }

    fn is_second(&mut self, event: &TextEvent) -> bool {
        let origin = &event.origin;
        let (true, Some(task), Some(pid), Some(dev)) = (origin.rank_is_task, origin.rank, origin.pid, origin.cuda_dev) else {
            return false;
        };
        if self.first.len() >= MAX_TASKS && !self.first.contains_key(&task) {
            return false;
        }
        let (first, on) = *self.first.entry(task).or_insert((pid, dev));
        first != pid && on != dev
    }
}

const BANNER: &str = "Setting OMP_NUM_THREADS environment variable for each process";
