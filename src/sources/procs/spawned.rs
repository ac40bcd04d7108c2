//! Ranks that a script starts by Python's `multiprocessing` (`torch.multiprocessing.spawn`, `start_processes`): their number is an argument,
//! and nothing in their environment tells it. What tells them from loaders and pools, which talk by pipes, is that they hold connections to
//! one another, as the processes of a process group do. They are started in the order of their numbers.

use super::process_table::{Entry, Table};
use super::read::Reader;
use super::{sockets, trainer};
use crate::observe::process::{Place, ProcessRole};
use std::collections::{BTreeMap, BTreeSet};

/// A process group is made within this many scans, or else is looked for once in so many.
const EARLY_SCANS: u32 = 60;
const LATE_TURN: u32 = 16;
/// More than any node has.
const MOST: usize = 64;

/// Gives them their role and their place.
pub fn choose(table: &mut Table, reader: &mut Reader) {
    let mut siblings: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, entry) in table.entries.iter().filter(|(_, entry)| may_be_one(entry)) {
        siblings.entry(entry.ppid).or_default().push(*pid);
    }
    for (parent, mut group) in siblings {
        let is_script = table.get(parent).is_some_and(|parent| parent.is_python() && !parent.dead && parent.signs.key.is_none());
        if !is_script || !(2..=MOST).contains(&group.len()) || !is_due(table, &group) {
            continue;
        }
        group.sort_unstable_by_key(|pid| (table.get(*pid).map(|entry| entry.start_ticks), *pid));
        // The bookkeeper of `multiprocessing` has none.
        group.retain(|pid| trainer::has_framework(reader, *pid));
        if group.len() < 2 || !are_joined(reader, &group) {
            continue;
        }
        let world_size = u32::try_from(group.len()).ok();
        for (rank, pid) in (0..).zip(group) {
            if let Some(entry) = table.entries.get_mut(&pid) {
                entry.role = Some(ProcessRole::Rank);
                entry.place = Some(Place { leader: parent, rank: Some(rank), local_rank: Some(rank), world_size });
            }
        }
    }
}

fn may_be_one(entry: &Entry) -> bool {
    let free = matches!(entry.role, None | Some(ProcessRole::GpuUser)) && entry.signs.key.is_none() && !entry.helper && !entry.agent;
    free && !entry.dead && entry.is_python()
}

fn is_due(table: &Table, group: &[u32]) -> bool {
    let newest = group.iter().filter_map(|pid| table.get(*pid)).map(|entry| table.scan.wrapping_sub(entry.first_scan)).min();
    newest.is_some_and(|scans| scans < EARLY_SCANS || scans.is_multiple_of(LATE_TURN))
}

/// Each of them holds a connection to another of them.
fn are_joined(reader: &Reader, group: &[u32]) -> bool {
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
