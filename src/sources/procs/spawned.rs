//! Ranks that a script starts by Python's `multiprocessing` (`torch.multiprocessing.spawn`, `start_processes`), or as actors of Ray: their
//! number is an argument or a message, and nothing in their environment tells it. What tells them from loaders and pools, which talk by pipes, is
//! that they hold connections to one another, as the processes of a process group do. Those of `multiprocessing` are started in the order of their
//! numbers, unless the names of their own outputs say otherwise; actors are not.

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
        if !is_free(entry) {
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

/// It is no rank yet, and nothing numbers it.
pub fn is_free(entry: &Entry) -> bool {
    let free = matches!(entry.role, None | Some(ProcessRole::GpuUser)) && entry.signs.key.is_none() && !entry.helper && !entry.agent;
    free && !entry.dead
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
        let by_output = numbers_of_outputs(reader, &group);
        for (at, pid) in group.into_iter().enumerate() {
            let by_order = u32::try_from(at).ok().filter(|_| kin.actor.is_none());
            let rank = by_output.as_ref().and_then(|numbers| numbers.get(at).copied()).or(by_order);
            if let Some(entry) = table.entries.get_mut(&pid) {
                entry.role = Some(ProcessRole::Rank);
                entry.place = Some(Place { leader: kin.parent, rank, local_rank: rank, world_size });
            }
        }
    }
}

/// The numbers in the names of files that each of them writes alone, `trainer.1.log` beside `trainer.0.log`, where they are 0 to the last.
fn numbers_of_outputs(reader: &Reader, group: &[u32]) -> Option<Vec<u32>> {
    let mut names = Vec::new();
    for pid in group {
        let path = std::fs::read_link(reader.path(*pid, "fd/1")).ok().filter(|path| path.is_absolute())?;
        names.push(path.to_str()?.to_owned());
    }
    let numbers = apart(&names)?;
    let distinct: BTreeSet<u32> = numbers.iter().copied().collect();
    distinct.into_iter().eq(0..u32::try_from(numbers.len()).ok()?).then_some(numbers)
}

/// The one number in which all names differ, of each.
fn apart(names: &[String]) -> Option<Vec<u32>> {
    let parts = |name: &str| -> Vec<(bool, String)> {
        let mut parts: Vec<(bool, String)> = Vec::new();
        for c in name.chars() {
            match parts.last_mut().filter(|(digits, _)| *digits == c.is_ascii_digit()) {
                Some((_, part)) => part.push(c),
                None => parts.push((c.is_ascii_digit(), c.to_string())),
            }
        }
        parts
    };
    let all: Vec<_> = names.iter().map(|name| parts(name)).collect();
    let first = all.first()?;
    let differs = |at: &usize| all.iter().any(|parts| parts.get(*at) != first.get(*at));
    let mut places = (0..first.len()).filter(differs);
    let at = places.next().filter(|_| places.next().is_none() && all.iter().all(|parts| parts.len() == first.len()))?;
    all.iter().map(|parts| parts.get(at).filter(|(digits, _)| *digits)?.1.parse().ok()).collect()
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

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn the_number_in_which_names_differ() {
        let of = |names: &[&str]| apart(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["/run7/trainer.1.log", "/run7/trainer.0.log"]), Some(vec![1, 0]));
        assert_eq!(of(&["/out/a9.txt", "/out/a10.txt"]), Some(vec![9, 10]));
        assert_eq!(of(&["/out/a1/b1.txt", "/out/a0/b0.txt"]), None, "which of the two?");
        assert_eq!(of(&["/out/main.log", "/out/main.log"]), None);
        assert_eq!(of(&["/out/learner.log", "/out/actor.log"]), None);
    }
}
