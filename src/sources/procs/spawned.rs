//! Ranks that a script starts by Python's `multiprocessing` (`torch.multiprocessing.spawn`, `start_processes`), or as actors of Ray: their
//! number is an argument or a message, and nothing in their environment tells it. What tells them from loaders and pools, which talk by pipes, is
//! that they hold connections to one another, as the processes of a process group do. Those of `multiprocessing` are started in the order of their
//! numbers; actors are not.

use super::process_table::{Entry, Gpu, RAYLET, Table};
use super::program::Program;
use super::read::Reader;
use super::{sockets, trainer};
use crate::observe::process::{Place, ProcessRole};
use std::collections::{BTreeMap, BTreeSet};

/// A process group is made within this many scans, or else is looked for once in so many.
const EARLY_SCANS: u32 = 60;
const LATE_TURN: u32 = 16;
/// More than any node has.
const MOST: usize = 64;

/// What makes processes siblings: their parent and, below a raylet, the job, where it is known, and the class of the actor.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Kin {
    parent: u32,
    actor: Option<(Option<String>, Vec<u8>)>,
}

impl Kin {
    /// Of one that is no rank yet.
    fn of(table: &Table, entry: &Entry) -> Option<Self> {
        let free = matches!(entry.role, None | Some(ProcessRole::GpuUser)) && entry.signs.key.is_none() && !entry.helper && !entry.agent;
        if !free || entry.dead {
            return None;
        }
        // A program may give itself another name.
        let runs_python = |entry: &Entry| entry.is_python() || entry.runs() == Program::Python;
        let trains = || runs_python(entry) || entry.gpu != Gpu::No && entry.actor_of_ray().is_some();
        let is_script = |parent: &Entry| runs_python(parent) && !parent.dead && parent.signs.key.is_none();
        let below_script =
            || (trains() && table.get(entry.ppid).is_some_and(is_script)).then_some(Self { parent: entry.ppid, actor: None });
        Self::of_actor(table, entry).or_else(below_script)
    }

    fn of_actor(table: &Table, entry: &Entry) -> Option<Self> {
        let class = entry.actor_of_ray()?.to_vec();
        table.get(entry.ppid).filter(|parent| parent.comm == RAYLET && !parent.dead)?;
        Some(Self { parent: entry.ppid, actor: Some((entry.signs.ray_job.clone(), class)) })
    }
}

/// Gives them their role and their place.
pub fn choose(table: &mut Table, reader: &mut Reader) {
    let mut siblings: BTreeMap<Kin, Vec<u32>> = BTreeMap::new();
    for (pid, entry) in &table.entries {
        if let Some(kin) = Kin::of(table, entry) {
            siblings.entry(kin).or_default().push(*pid);
        }
    }
    siblings.retain(|_, group| {
        if !(2..=MOST).contains(&group.len()) || !is_due(table, group) {
            return false;
        }
        group.sort_unstable_by_key(|pid| (table.get(*pid).map(|entry| entry.start_ticks), *pid));
        // The bookkeeper of `multiprocessing` has none.
        group.retain(|pid| trainer::has_framework(reader, *pid));
        group.len() >= 2 && are_joined(reader, group)
    });
    // Policy, critic and reference each have a world of their own, and take turns: whose numbers would be meant is not known.
    let mut worlds: BTreeMap<(u32, Option<String>), BTreeSet<Vec<u8>>> = BTreeMap::new();
    let are_ranks = table.entries.values().filter(|entry| entry.role == Some(ProcessRole::Rank) && !entry.dead);
    let chosen = are_ranks.filter_map(|entry| Kin::of_actor(table, entry));
    for kin in siblings.keys().cloned().chain(chosen) {
        if let Some((job, class)) = kin.actor {
            worlds.entry((kin.parent, job)).or_default().insert(class);
        }
    }
    siblings.retain(|kin, _| {
        kin.actor.as_ref().is_none_or(|(job, _)| worlds.get(&(kin.parent, job.clone())).is_none_or(|classes| classes.len() == 1))
    });
    for (kin, group) in siblings {
        let world_size = u32::try_from(group.len()).ok().filter(|_| kin.actor.is_none());
        for (number, pid) in (0..).zip(group) {
            let rank = kin.actor.is_none().then_some(number);
            if let Some(entry) = table.entries.get_mut(&pid) {
                entry.role = Some(ProcessRole::Rank);
                entry.place = Some(Place { leader: kin.parent, rank, local_rank: rank, world_size });
            }
        }
    }
}

/// Looked at again and again while it is new, later now and then.
pub fn is_due(table: &Table, group: &[u32]) -> bool {
    let newest = group.iter().filter_map(|pid| table.get(*pid)).map(|entry| table.scan.wrapping_sub(entry.first_scan)).min();
    newest.is_some_and(|scans| scans < EARLY_SCANS || scans.is_multiple_of(LATE_TURN))
}

/// Each of them holds a connection to another of them.
pub fn are_joined(reader: &Reader, group: &[u32]) -> bool {
    let Some(first) = group.first() else { return false };
    let all = sockets::on_one_host(reader, *first);
    let mut ends: BTreeMap<_, u32> = BTreeMap::new();
    for pid in group {
        let own = reader.sockets(*pid);
        ends.extend(all.iter().filter(|(inode, _)| own.contains(inode)).map(|(_, end)| (*end, *pid)));
    }
    let joined: BTreeSet<u32> = ends
        .iter()
        .filter(|((local, remote), pid)| ends.get(&(*remote, *local)).is_some_and(|other| other != *pid))
        .map(|(_, pid)| *pid)
        .collect();
    joined.len() == group.len()
}
