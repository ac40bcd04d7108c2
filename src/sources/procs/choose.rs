//! Which of the processes that carry a rank in their environment is the rank. Reads no files.
//!
//! Everything below a launcher inherits the rank: `bash run.sh` → `python train.py` → eight data loader workers all say `RANK=3`.
//! Processes joined by parenthood with the same rank form a family, and each family has one rank: the one that holds a GPU; else the
//! topmost that is no shell and no launcher.

use super::environ::{self, RankKey};
use super::process_table::{Entry, Gpu, LAUNCHER_LEVELS, RAYLET, SRUN, Table};
use super::program::Program;
use crate::observe::process::{Place, ProcessRole};
use std::collections::{BTreeMap, BTreeSet};

/// A process that appears below a wrapper while we watch may be a step before the training (`pip install`): it is given this many
/// scans to hold a GPU or to leave.
const FRESH_SCANS: u32 = 2;
/// Lightning starts the ranks of a node seconds apart: after so many scans without another one all are there.
const SETTLED_SCANS: u32 = 10;
/// More ranks than any node has.
const MOST_PER_NODE: u32 = 64;

/// Sets `role` and `helper` of every process that matters.
pub fn choose(table: &mut Table) {
    let families = families(table);
    let fans_out = fans_out(table, &families);
    for (_, members) in families {
        let verdict = Family { table, members: &members, fans_out: &fans_out }.decide();
        for pid in members {
            let above = verdict.keys().any(|rank| table.ancestors(*rank).any(|above| above == pid));
            let Some(entry) = table.entries.get_mut(&pid) else { continue };
            match verdict.get(&pid) {
                Some(role) => entry.role = Some(*role),
                // Taken for the rank until a better one held a GPU: what started that one, or something beside it.
                None if entry.role == Some(ProcessRole::Rank) => {
                    entry.role = Some(if above || fans_out.contains(&pid) { ProcessRole::Launcher } else { ProcessRole::GpuUser });
                }
                None => {}
            }
        }
        mark_helpers(table, &verdict);
    }
    choose_leaders(table);
    choose_lone_ranks(table);
    choose_ray_workers(table);
    choose_gpu_users(table);
    choose_launchers(table);
}

/// What a rank that Lightning has started carries: its number on the node, that of the node, and how many ranks there are.
struct Led {
    pid: u32,
    local: u32,
    node: u32,
    world: u32,
    first_scan: u32,
}

/// Lightning's own launcher is rank 0 of the node itself: it has no rank in its environment, but those that it has started have, as
/// numbers of the node and on the node.
fn choose_leaders(table: &mut Table) {
    let mut led: BTreeMap<u32, Vec<Led>> = BTreeMap::new();
    for (pid, entry) in &table.entries {
        if let (Some(RankKey { family: environ::Family::Lightning, rank: local, world: Some(world) }), Some(node)) =
            (entry.signs.key, entry.signs.node_rank)
            && entry.role == Some(ProcessRole::Rank)
            && table.get(entry.ppid).is_some_and(|parent| parent.signs.key.is_none() && parent.runs() == Program::Python)
        {
            led.entry(entry.ppid).or_default().push(Led { pid: *pid, local, node, world, first_scan: entry.first_scan });
        }
    }
    for (leader, mut ranks) in led {
        let Some((node, world)) = ranks.first().map(|rank| (rank.node, rank.world)) else { continue };
        // A script of one's own may start all of them, number 0 too, and is none itself.
        if ranks.iter().all(|rank| rank.local != 0) {
            ranks.push(Led { pid: leader, local: 0, node, world, first_scan: 0 });
        }
        let before = ranks_before(&ranks, table.scan);
        for Led { pid, local, world, .. } in ranks {
            let rank = before.and_then(|before| before.checked_add(local)).filter(|rank| *rank < world);
            if let Some(entry) = table.entries.get_mut(&pid) {
                entry.role = Some(ProcessRole::Rank);
                // One of them may have ended since, and what was certain stays so.
                let rank = rank.or(entry.place.as_ref().and_then(|place| place.rank));
                entry.place = Some(Place { leader, rank, local_rank: Some(local), world_size: Some(world) });
            }
        }
    }
}

/// The only process of `accelerate launch` is numbered by nobody.
fn choose_lone_ranks(table: &mut Table) {
    let is_lone = |key: Option<RankKey>| key.is_some_and(|key| key.family == environ::Family::Accelerate);
    for entry in table.entries.values_mut().filter(|e| is_lone(e.signs.key) && e.role == Some(ProcessRole::Rank)) {
        entry.place = Some(Place { leader: entry.ppid, rank: Some(0), local_rank: Some(0), world_size: Some(1) });
    }
}

/// Ray numbers its workers inside the processes; what tells them from its other actors is their name. What they fork has it, too.
fn choose_ray_workers(table: &mut Table) {
    let is_one = |entry: &Entry| entry.is_ray_worker() && !entry.dead;
    let workers = table.entries.iter().filter(|(_, entry)| is_one(entry) && !table.get(entry.ppid).is_some_and(is_one));
    for pid in workers.map(|(pid, _)| *pid).collect::<Vec<_>>() {
        if let Some(entry) = table.entries.get_mut(&pid) {
            entry.role = Some(ProcessRole::Rank);
        }
    }
}

/// How many ranks the nodes before this one have; all nodes have as many. `None`: not certain, as not all of this node may be there yet.
fn ranks_before(ranks: &[Led], scan: u32) -> Option<u32> {
    let Led { node, world, .. } = ranks.first()?;
    if *node == 0 {
        return Some(0);
    }
    let seen = ranks.iter().map(|rank| rank.local).max()?.checked_add(1)?;
    let fits = |per_node: &u32| world.is_multiple_of(*per_node) && world / per_node > *node;
    let mut possible = (seen..=seen.max(MOST_PER_NODE)).filter(fits);
    let per_node = possible.next()?;
    let settled = ranks.iter().all(|rank| scan.wrapping_sub(rank.first_scan) >= SETTLED_SCANS);
    (possible.next().is_none() || per_node == seen && settled).then(|| node.checked_mul(per_node))?
}

/// Members by the topmost of their family.
fn families(table: &Table) -> BTreeMap<u32, Vec<u32>> {
    let mut families: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (pid, entry) in &table.entries {
        if let Some(key) = entry.signs.key {
            families.entry(head(table, *pid, key)).or_default().push(*pid);
        }
    }
    for members in families.values_mut() {
        members.sort_unstable_by_key(|pid| (table.get(*pid).map(|entry| entry.start_ticks), *pid));
    }
    families
}

fn head(table: &Table, pid: u32, key: RankKey) -> u32 {
    table.ancestors(pid).take_while(|above| table.key(*above) == Some(key)).last().unwrap_or(pid)
}

/// Who has another rank below itself: a launcher, whatever its name.
fn fans_out(table: &Table, families: &BTreeMap<u32, Vec<u32>>) -> BTreeSet<u32> {
    let below = families.keys().flat_map(|head| table.ancestors(*head).map(move |above| (*head, above)));
    below.filter(|(head, above)| table.key(*above).is_some() && table.key(*above) != table.key(*head)).map(|(_, above)| above).collect()
}

struct Family<'a> {
    table: &'a Table,
    /// Oldest first.
    members: &'a [u32],
    fans_out: &'a BTreeSet<u32>,
}

impl Family<'_> {
    fn decide(&self) -> BTreeMap<u32, ProcessRole> {
        let holders = self.topmost(|pid| self.holds_gpu(pid));
        let sitting = self.members.iter().copied().find(|pid| self.role(*pid) == Some(ProcessRole::Rank));
        match (sitting, holders.as_slice()) {
            (Some(rank), [_, ..]) if self.holds_gpu(rank) => BTreeMap::from([(rank, ProcessRole::Rank)]),
            // The last of several that were side by side is no more the rank than the others were.
            (_, [one]) if self.role(*one) == Some(ProcessRole::GpuUser) => BTreeMap::from([(*one, ProcessRole::GpuUser)]),
            (_, [one]) => BTreeMap::from([(*one, ProcessRole::Rank)]),
            // Side by side with the same rank: the number says nothing about any of them.
            (_, [_, _, ..]) => holders.iter().map(|pid| (*pid, ProcessRole::GpuUser)).collect(),
            (Some(rank), []) if !self.fans_out.contains(&rank) => BTreeMap::from([(rank, ProcessRole::Rank)]),
            (_, []) => self.without_gpu().map(|rank| (rank, ProcessRole::Rank)).into_iter().collect(),
        }
    }

    fn holds_gpu(&self, pid: u32) -> bool {
        self.table.get(pid).is_some_and(|entry| {
            let trains = !matches!(entry.runs(), Program::Monitor | Program::Launcher | Program::Wrapper | Program::Helper);
            // What a helper has open it may have inherited from the rank.
            entry.gpu == Gpu::Nvml && trains || entry.gpu == Gpu::OpenDevice && trains && !entry.helper
        })
    }

    fn role(&self, pid: u32) -> Option<ProcessRole> {
        self.table.get(pid)?.role
    }

    fn runs(&self, pid: u32) -> Program {
        self.table.get(pid).map_or(Program::Other, |entry| entry.runs())
    }

    fn without_gpu(&self) -> Option<u32> {
        let wrapped = self.members.iter().any(|pid| matches!(self.runs(*pid), Program::Wrapper | Program::Launcher));
        let free = |pid: u32| self.table.get(pid).is_some_and(|entry| !entry.helper) && !self.fans_out.contains(&pid);
        let mut heads = self.topmost(|pid| self.runs(pid).can_train() && free(pid));
        heads.sort_by_key(|pid| self.runs(*pid) != Program::Python);
        let chosen = *heads.first()?;
        let entry = self.table.get(chosen)?;
        let fresh = entry.first_scan > 1 && self.table.scan.wrapping_sub(entry.first_scan) < FRESH_SCANS;
        (!(fresh && wrapped)).then_some(chosen)
    }

    /// Those of whom `is` holds, but of no member above them. Oldest first.
    fn topmost(&self, is: impl Fn(u32) -> bool) -> Vec<u32> {
        let fit = |pid: u32| self.members.contains(&pid) && is(pid);
        self.members.iter().copied().filter(|pid| is(*pid) && !self.table.ancestors(*pid).any(fit)).collect()
    }
}

fn mark_helpers(table: &mut Table, verdict: &BTreeMap<u32, ProcessRole>) {
    for rank in verdict.keys() {
        let key = table.key(*rank);
        let below: Vec<u32> = table
            .entries
            .iter()
            .filter(|(pid, entry)| {
                entry.signs.key == key && entry.role.is_none() && !entry.helper && table.ancestors(**pid).any(|above| above == *rank)
            })
            .map(|(pid, _)| *pid)
            .collect();
        for pid in below {
            if let Some(entry) = table.entries.get_mut(&pid) {
                entry.helper = true;
            }
        }
    }
}

fn choose_gpu_users(table: &mut Table) {
    let users: Vec<u32> = table
        .entries
        .iter()
        .filter(|(_, entry)| entry.signs.key.is_none() && matches!(entry.role, None | Some(ProcessRole::Trainer)) && !entry.dead)
        .filter(|(_, entry)| !matches!(entry.runs(), Program::Monitor | Program::Launcher | Program::Helper))
        .filter(|(_, entry)| match entry.gpu {
            Gpu::No => false,
            Gpu::Nvml => true,
            // A forked child has its parent's descriptors.
            Gpu::OpenDevice => table.get(entry.ppid).is_none_or(|parent| parent.gpu == Gpu::No),
        })
        .map(|(pid, _)| *pid)
        .collect();
    for pid in users {
        if let Some(entry) = table.entries.get_mut(&pid) {
            entry.role = Some(ProcessRole::GpuUser);
        }
    }
}

fn choose_launchers(table: &mut Table) {
    let workers: Vec<u32> = table
        .entries
        .iter()
        .filter(|(_, entry)| matches!(entry.role, Some(ProcessRole::Rank | ProcessRole::GpuUser | ProcessRole::Trainer)))
        .map(|(pid, _)| *pid)
        .collect();
    let mut ranks_of_parent: BTreeMap<u32, usize> = BTreeMap::new();
    let mut launchers = BTreeSet::new();
    let mut clients = Vec::new();
    for pid in &workers {
        let Some(entry) = table.get(*pid) else { continue };
        if entry.role == Some(ProcessRole::Rank) {
            *ranks_of_parent.entry(entry.ppid).or_default() += 1;
        }
        launchers.extend(
            table.ancestors(*pid).take(LAUNCHER_LEVELS).filter(|above| table.get(*above).is_some_and(|e| e.runs() == Program::Launcher)),
        );
        if let Some(client) = client_of(table, entry).or_else(|| controller_of(table, entry)) {
            launchers.insert(client);
            clients.push((*pid, client));
        }
    }
    // A script of one's own that starts several ranks.
    let own = ranks_of_parent.iter().filter(|(pid, ranks)| **ranks > 1 && table.get(**pid).is_some_and(|e| e.runs() == Program::Python));
    let own: Vec<u32> = own.map(|(pid, _)| *pid).collect();
    // It may have counted the GPUs before, and works on none.
    for pid in &own {
        if let Some(entry) = table.entries.get_mut(pid).filter(|e| e.role == Some(ProcessRole::GpuUser) && e.gpu != Gpu::Nvml) {
            entry.role = None;
        }
    }
    launchers.extend(own);
    // `ray.init()` starts a cluster below the driver, whose output has that of all workers.
    let drivers = launchers.iter().filter_map(|pid| table.get(*pid)).filter(|e| e.comm == RAYLET).map(|raylet| raylet.ppid);
    let drivers: Vec<u32> = drivers.filter(|pid| table.get(*pid).is_some_and(|e| e.runs() == Program::Python)).collect();
    launchers.extend(drivers);
    // One that waits for other nodes has no ranks yet.
    launchers.extend(table.entries.iter().filter(|(_, entry)| entry.agent).map(|(pid, _)| *pid));
    for (pid, client) in clients {
        if let Some(entry) = table.entries.get_mut(&pid) {
            entry.client = Some(client);
        }
    }
    for pid in launchers {
        if let Some(entry) = table.entries.get_mut(&pid).filter(|entry| entry.role.is_none() && !entry.dead) {
            entry.role = Some(ProcessRole::Launcher);
        }
    }
}

/// The srun of a step, which is nobody's ancestor: its tasks are children of slurmstepd. But it has their output. It is known by the port
/// that its tasks report to, else, where that is not seen, by its job.
fn client_of(table: &Table, task: &Entry) -> Option<u32> {
    let job = task.signs.slurm_job.as_ref()?;
    let clients = || table.entries.iter().filter(|(_, entry)| entry.comm == SRUN && !entry.dead);
    let is_of_another = |entry: &Entry| entry.signs.slurm_job.as_ref().is_some_and(|other| other != job);
    let by_port = clients().find(|(_, e)| e.listens.is_some() && e.listens == task.signs.srun_port && !is_of_another(e));
    let by_job = || clients().filter(|(_, e)| e.listens.is_none() && e.signs.slurm_job.as_ref() == Some(job));
    // It forks; the first of its processes is the one to watch.
    by_port.or_else(|| by_job().min_by_key(|(pid, entry)| (entry.start_ticks, **pid))).map(|(pid, _)| *pid)
}

/// The controller of the run of Ray Train that a worker belongs to.
fn controller_of(table: &Table, worker: &Entry) -> Option<u32> {
    let job = worker.signs.ray_job.as_ref().filter(|_| worker.is_ray_worker())?;
    let of_job = |entry: &Entry| entry.ppid == worker.ppid && entry.signs.ray_job.as_ref() == Some(job);
    let controllers = table.entries.iter().filter(|(_, entry)| entry.is_ray_controller() && !entry.dead && of_job(entry));
    controllers.max_by_key(|(pid, entry)| (entry.start_ticks, **pid)).map(|(pid, _)| *pid)
}
