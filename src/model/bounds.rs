//! How much is kept of what one node has. More than this comes only from what is no node of ours: a tape or a /proc that somebody made
//! up. What is left out is counted by kind and shown as trouble of a source.

use super::comm::Comm;
use super::{Model, SourceView};
use crate::base::units::group;
use crate::observe::facts::HostFacts;
use crate::observe::process::ProcessInfo;
use crate::observe::{SourceId, SourceState};
use std::collections::BTreeMap;

/// The largest nodes have 16 GPUs; partitioned ones count up to seven times.
pub const GPUS: usize = 256;
/// Processes on one GPU.
pub const GPU_PROCESSES: usize = 1024;
/// Of one GPU: 18, and more to come.
pub const NVLINKS: usize = 256;
pub const PORTS: usize = 1024;
/// Processes with queue pairs on one device: as many as the source counts.
pub const HOLDERS: usize = 1024;
/// As many as the source lists. A node with many containers has hundreds.
pub const NETDEVS: usize = 4096;
/// Of one port or interface: an mlx5 port has about 90.
pub const COUNTERS: usize = 256;
/// Notes of the user.
pub const REMARKS: usize = 256;
pub const SOURCES: usize = 64;
/// Ranks in all communicators: eight of 16,384 ranks.
pub const MEMBERS: usize = 1 << 17;
/// Of each list of a process, and of what is read of the host. The source passes on 64 arguments and 256 variables at most.
const OF_PROCESS: usize = 256;

/// The name under which the program reports what it leaves out.
const SELF: SourceId = SourceId::of("nccl-top");

/// What was left out, by kind, with the bound.
pub type LeftOut = BTreeMap<&'static str, (u64, usize)>;

/// The value of a key, which is put in unless the map is full.
pub fn entry<K: Ord, V: Default>(map: &mut BTreeMap<K, V>, key: K, most: usize) -> Option<&mut V> {
    let full = map.len() >= most;
    match map.entry(key) {
        std::collections::btree_map::Entry::Vacant(_) if full => None,
        entry => Some(entry.or_default()),
    }
}

/// Its lists, none longer than one that the source of processes makes.
pub fn process(mut info: ProcessInfo) -> ProcessInfo {
    info.cmdline.truncate(OF_PROCESS);
    info.logs.truncate(OF_PROCESS);
    info.writes.truncate(OF_PROCESS);
    info.hidden.truncate(OF_PROCESS);
    if let Some(env) = &mut info.env
        && env.len() > OF_PROCESS
    {
        *env = std::mem::take(env).into_iter().take(OF_PROCESS).collect();
    }
    info
}

/// Its lists, none longer than one that the source makes.
pub fn facts(facts: &HostFacts) -> HostFacts {
    let mut facts = facts.clone();
    facts.looked = facts.looked.into_iter().take(OF_PROCESS).collect();
    facts.env = facts.env.into_iter().take(OF_PROCESS).collect();
    facts.governors = facts.governors.into_iter().take(OF_PROCESS).collect();
    facts.daemons.iter_mut().for_each(|list| list.truncate(OF_PROCESS));
    facts.refused.truncate(PORTS);
    facts.pci.truncate(PORTS);
    facts.bridges.truncate(PORTS);
    facts
}

impl Model {
    /// Counts what there is no room for.
    pub(super) fn leave_out(&mut self, what: &'static str, count: usize, most: usize) {
        if count > 0 {
            let left = self.left_out.entry(what).or_insert((0, most));
            left.0 = left.0.saturating_add(count as u64);
        }
    }

    /// What was left out, in words, if anything was.
    pub fn left_out_words(&self) -> Option<String> {
        let words = |(what, (count, most)): (&&str, &(u64, usize))| {
            format!("{} times {what} beyond the {} that are kept", group(*count), group(*most as u64))
        };
        let all: Vec<String> = self.left_out.iter().map(words).collect();
        (!all.is_empty()).then(|| format!("left out: {}", all.join(", ")))
    }

    /// Shows what was left out as trouble of a source.
    pub(super) fn show_left_out(&mut self) {
        let Some(detail) = self.left_out_words() else { return };
        let since = self.sources.get(&SELF).map_or(self.now, |known| known.since);
        let view = SourceView { state: SourceState::Failed, detail: Some(detail), title: Some("what is kept of a node"), since };
        self.sources.insert(SELF, view);
    }

    /// How much a look at all of it is, in steps: what is gone through, and what is compared with what.
    pub fn weight(&self) -> u64 {
        let members: usize = self.comms.values().map(Comm::members).sum();
        let held: usize = self.gpus.values().map(|g| 1 + g.processes.len()).sum();
        let (jobs, files, processes) = (self.jobs.len(), self.files.len(), self.processes.len());
        let things = processes + files + members + held + self.ports.len() + self.netdevs.len();
        (64 + things + jobs * (16 + jobs + files + members) + processes * held) as u64
    }
}
