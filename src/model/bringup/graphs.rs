//! Rings and trees by communicator, as its ranks print them, and which GPU each rank has.

use super::Who;
use super::routes::End;
use crate::logs::{Branch, Init, What};
use crate::model::gpu::PciAddress;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A ring of a communicator.
#[derive(Clone, Debug, PartialEq)]
pub struct Ring {
    pub ranks: Vec<u32>,
    /// Channels that have it.
    pub channels: u64,
    /// The last rank is followed by the first; else the line had no room for all of them.
    pub whole: bool,
}

/// A tree of a communicator, as far as its ranks have printed it.
#[derive(Clone, Debug, PartialEq)]
pub struct Tree {
    /// The rank above and the one below it.
    pub edges: BTreeSet<(u32, u32)>,
    /// Channels that have it.
    pub channels: u64,
}

/// The GPU of a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Of the name of its host.
    pub host: Option<u64>,
    pub end: End,
    pub address: Option<PciAddress>,
}

/// One communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graph {
    /// Where a line about its initialisation tells.
    pub nranks: Option<u32>,
    /// The first [`MAX_RINGS`].
    pub rings: Vec<Ring>,
    /// What ranks have above and below them, with the channels in which they do as bits; the first [`MAX_BRANCHES`].
    branches: BTreeMap<(u32, Branch), u64>,
    /// `None` where two lines contradict each other; the first [`MAX_SEATS`].
    seats: BTreeMap<u32, Option<Seat>>,
}

/// The communicators of a file or a job.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Graphs {
    /// By what all ranks call it; under 0 what no line gives to any. The largest [`MAX_GRAPHS`].
    known: BTreeMap<u64, Graph>,
    /// What a process creates, by its host and pid.
    creates: BTreeMap<(Option<u64>, u32), u64>,
}

const MAX_GRAPHS: usize = 16;
const MAX_RINGS: usize = 8;
/// Two places in each of two trees for 64 ranks of a node.
const MAX_BRANCHES: usize = 256;
const MAX_SEATS: usize = 256;
const MAX_PROCESSES: usize = 1024;
/// A line has 127 characters for the ranks of a ring.
const MAX_RING: usize = 64;
/// NCCL up to 2.22 prints no more ranks, and nothing in place of the others.
const CUT_AT: usize = 20;

impl Graphs {
    /// Notes what a line tells of it. `text` is the line.
    pub(super) fn apply(&mut self, what: &What, who: Who, text: &str) {
        match what {
            What::Init(init) => self.init(init, who),
            What::Ring { ranks, .. } => {
                let is_cut = text.trim_end().ends_with("...");
                self.of(who, |graph| graph.ring(ranks, is_cut));
            }
            What::Trees { rank, branches } => self.of(who, |graph| graph.trees(*rank, branches)),
            _ => {}
        }
    }

    fn init(&mut self, init: &Init, who: Who) {
        // A split has no id; all its ranks have its colour and its size.
        let id = init.comm_id.unwrap_or_else(|| {
            let mut hasher = DefaultHasher::new();
            (init.color, init.nranks).hash(&mut hasher);
            hasher.finish()
        });
        let Some(graph) = self.graph(id, Some(init.nranks)) else { return };
        graph.nranks.get_or_insert(init.nranks);
        let address = init.bus_id.as_deref().and_then(PciAddress::parse);
        let end = End::by_index(init.rank, init.nvml_dev);
        graph.sit(init.rank, Some(Seat { host: who.host, end, address }));
        if let Some(pid) = who.pid
            && (self.creates.len() < MAX_PROCESSES || self.creates.contains_key(&(who.host, pid)))
        {
            self.creates.insert((who.host, pid), id);
        }
    }

    /// What a process prints is of the communicator that it began last.
    fn of(&mut self, who: Who, note: impl FnOnce(&mut Graph)) {
        let id = who.pid.and_then(|pid| self.creates.get(&(who.host, pid))).copied().unwrap_or(0);
        if let Some(graph) = self.graph(id, None) {
            note(graph);
        }
    }

    /// Makes room for a larger one.
    fn graph(&mut self, id: u64, nranks: Option<u32>) -> Option<&mut Graph> {
        if !self.known.contains_key(&id) && self.known.len() >= MAX_GRAPHS {
            let (smallest, size) = self.known.iter().map(|(id, graph)| (*id, graph.nranks)).min_by_key(|(_, size)| *size)?;
            if nranks <= size {
                return None;
            }
            self.known.remove(&smallest);
        }
        Some(self.known.entry(id).or_default())
    }

    pub(super) fn merge(&mut self, other: &Graphs) {
        for (id, graph) in &other.known {
            if let Some(known) = self.graph(*id, graph.nranks) {
                known.merge(graph);
            }
        }
    }

    pub fn all(&self) -> impl Iterator<Item = &Graph> {
        self.known.values()
    }

    /// The largest one of which a ring or a tree is known.
    pub fn largest(&self) -> Option<&Graph> {
        self.known.values().filter(|graph| !graph.rings.is_empty() || !graph.branches.is_empty()).max_by_key(|graph| graph.size())
    }
}

impl Graph {
    fn size(&self) -> usize {
        let longest = self.rings.iter().map(|ring| ring.ranks.len()).max();
        self.nranks.map_or(longest.unwrap_or(0), |n| n as usize)
    }

    fn ring(&mut self, ranks: &[u32], is_cut: bool) {
        let all_ranks: BTreeSet<u32> = ranks.iter().copied().collect();
        let fits = self.nranks.is_none_or(|n| ranks.len() <= n as usize && all_ranks.last() < Some(&n));
        if ranks.len() < 2 || ranks.len() > MAX_RING || all_ranks.len() < ranks.len() || !fits {
            return;
        }
        let is_all = |n: u32| ranks.len() == n as usize;
        // Without the size, each rank below the last one has to be there.
        let whole = !is_cut && self.nranks.map_or(ranks.len() != CUT_AT && all_ranks.last().is_some_and(|last| is_all(last + 1)), is_all);
        self.add_ring(&Ring { ranks: ranks.to_vec(), channels: 1, whole });
    }

    fn add_ring(&mut self, ring: &Ring) {
        if self.nranks.is_none() {
            // Of several communicators whose lines nobody can tell apart, the largest.
            let longest = self.rings.first().map_or(0, |known| known.ranks.len());
            if ring.ranks.len() < longest {
                return;
            }
            if ring.ranks.len() > longest {
                self.rings.clear();
            }
        }
        let room = self.rings.len() < MAX_RINGS;
        match self.rings.iter_mut().find(|known| known.ranks == ring.ranks && known.whole == ring.whole) {
            Some(known) => known.channels += ring.channels,
            None if room => self.rings.push(ring.clone()),
            None => {}
        }
    }

    fn trees(&mut self, rank: u32, branches: &[(u32, Branch)]) {
        let limit = self.nranks.unwrap_or(u32::MAX);
        for (channel, branch) in branches {
            let ranks = branch.up.into_iter().chain(branch.down.iter().flatten().copied()).chain([rank]);
            if ranks.max() < Some(limit)
                && let Some(bit) = 1_u64.checked_shl(*channel)
            {
                self.branch((rank, *branch), bit);
            }
        }
    }

    fn branch(&mut self, at: (u32, Branch), channels: u64) {
        if let Some(known) = self.branches.get_mut(&at) {
            *known |= channels;
        } else if self.branches.len() < MAX_BRANCHES {
            self.branches.insert(at, channels);
        }
    }

    fn sit(&mut self, rank: u32, seat: Option<Seat>) {
        if let Some(known) = self.seats.get_mut(&rank) {
            if *known != seat {
                *known = None;
            }
        } else if self.seats.len() < MAX_SEATS {
            self.seats.insert(rank, seat);
        }
    }

    fn merge(&mut self, other: &Graph) {
        self.nranks = self.nranks.or(other.nranks);
        other.rings.iter().for_each(|ring| self.add_ring(ring));
        other.branches.iter().for_each(|(at, channels)| self.branch(*at, *channels));
        other.seats.iter().for_each(|(rank, seat)| self.sit(*rank, *seat));
    }

    /// `None`: no line tells; `Some(None)`: they contradict each other.
    pub fn seat(&self, rank: u32) -> Option<Option<Seat>> {
        self.seats.get(&rank).copied()
    }

    pub fn seats(&self) -> impl Iterator<Item = &Seat> {
        self.seats.values().flatten()
    }

    /// From rank to rank in rings, with the number of channels.
    pub fn ring_steps(&self) -> impl Iterator<Item = (u32, u32, u64)> {
        self.rings.iter().flat_map(|ring| {
            let last = ring.ranks.last().zip(ring.ranks.first()).filter(|_| ring.whole).map(|(last, first)| (*last, *first));
            let steps = ring.ranks.windows(2).map(|two| (two[0], two[1])).chain(last);
            steps.map(|(from, to)| (from, to, ring.channels))
        })
    }

    /// Ranks one below the other, with the channels as bits.
    pub fn edges(&self) -> BTreeMap<(u32, u32), u64> {
        let mut edges = BTreeMap::new();
        for ((rank, branch), channels) in &self.branches {
            let up = branch.up.map(|up| (up, *rank));
            for edge in branch.down.iter().flatten().map(|down| (*rank, *down)).chain(up) {
                *edges.entry(edge).or_default() |= channels;
            }
        }
        edges
    }

    /// Channels with the same tree are one.
    pub fn tree_list(&self) -> Vec<Tree> {
        let edges = self.edges();
        let mut trees: Vec<Tree> = Vec::new();
        for channel in 0..u64::BITS {
            let of_channel = edges.iter().filter(|(_, channels)| *channels >> channel & 1 == 1).map(|(edge, _)| *edge);
            let of_channel: BTreeSet<(u32, u32)> = of_channel.collect();
            match trees.iter_mut().find(|tree| tree.edges == of_channel) {
                _ if of_channel.is_empty() => {}
                Some(tree) => tree.channels += 1,
                None => trees.push(Tree { edges: of_channel, channels: 1 }),
            }
        }
        trees
    }
}
