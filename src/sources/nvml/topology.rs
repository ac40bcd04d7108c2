//! How the GPUs are joined: what to ask of which GPU in which poll, and what the answers amount to. Asks nothing itself.

use crate::observe::gpu::{GpuPair, GpuTopology};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A pair costs 2 ms.
pub const PAIRS_PER_POLL: usize = 4;
/// When the topology is reported although some GPU has not answered.
const TOPOLOGY_PATIENCE: Duration = Duration::from_secs(60);

/// Where the active NVLinks of a GPU lead.
#[derive(Clone, Debug, Default)]
pub struct Links {
    pub to_switch: u32,
    /// The bus id at the other end, once per link.
    pub peers: Vec<String>,
}

/// How the GPUs are joined: asked a little in each poll, reported once it is whole.
pub struct Topology {
    began: Instant,
    links_wanted: BTreeSet<u32>,
    pairs_wanted: BTreeSet<(u32, u32)>,
    links: BTreeMap<u32, Links>,
    pairs: Vec<GpuPair>,
    /// Questions whose answers are still to come.
    open: BTreeSet<Question>,
    told: bool,
    /// What may still be asked in this poll.
    links_left: usize,
    pairs_left: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Question {
    Links(u32),
    Pair(u32, u32),
}

impl Topology {
    /// Of so many GPUs.
    pub fn new(gpus: u32, began: Instant) -> Self {
        let pairs_wanted: BTreeSet<(u32, u32)> = (0..gpus).flat_map(|a| (a + 1..gpus).map(move |b| (a, b))).collect();
        let links_wanted = (0..gpus).collect();
        Topology {
            began,
            links_wanted,
            told: pairs_wanted.is_empty(),
            pairs_wanted,
            links: BTreeMap::new(),
            pairs: Vec::new(),
            open: BTreeSet::new(),
            links_left: 1,
            pairs_left: PAIRS_PER_POLL,
        }
    }

    /// What to ask `gpu` about it in this poll. A busy GPU is left out of pairs: a call about it might not return either.
    pub fn next(&mut self, gpu: u32, busy: &[bool]) -> (bool, Vec<u32>) {
        let links = self.links_left > 0 && self.links_wanted.remove(&gpu);
        if links {
            self.links_left -= 1;
            self.open.insert(Question::Links(gpu));
        }
        let is_busy = |at: u32| busy.get(at as usize).copied().unwrap_or(true);
        let mine = self.pairs_wanted.range((gpu, 0)..=(gpu, u32::MAX)).map(|pair| pair.1);
        let pairs: Vec<u32> = mine.filter(|&other| !is_busy(other)).take(self.pairs_left).collect();
        self.pairs_left -= pairs.len();
        for &other in &pairs {
            self.pairs_wanted.remove(&(gpu, other));
            self.open.insert(Question::Pair(gpu, other));
        }
        (links, pairs)
    }

    /// Takes what a GPU answered.
    pub fn learn(&mut self, gpu: u32, links: Option<Links>, pairs: Vec<GpuPair>) {
        // Every answer of a GPU answers all that it was asked.
        self.open.retain(|question| !matches!(question, Question::Links(of) | Question::Pair(of, _) if *of == gpu));
        if let Some(links) = links {
            self.links.insert(gpu, links);
        }
        self.pairs.extend(pairs);
    }

    /// The whole, when it is complete or has taken too long; once.
    pub fn take(&mut self, bus_ids: &[Option<&str>]) -> Option<GpuTopology> {
        (self.links_left, self.pairs_left) = (1, PAIRS_PER_POLL);
        let complete = self.links_wanted.is_empty() && self.pairs_wanted.is_empty() && self.open.is_empty();
        if self.told || !(complete || self.began.elapsed() > TOPOLOGY_PATIENCE) {
            return None;
        }
        self.told = true;
        let mut pairs = std::mem::take(&mut self.pairs);
        pairs.sort_by_key(|pair| (pair.a, pair.b));
        for pair in &mut pairs {
            pair.nvlinks = self.nvlinks(pair, bus_ids);
        }
        Some(GpuTopology { pairs })
    }

    /// Links that lead straight from one to the other, or else as many as both have to the switches.
    fn nvlinks(&self, pair: &GpuPair, bus_ids: &[Option<&str>]) -> Option<u32> {
        let (a, b) = (self.links.get(&pair.a)?, self.links.get(&pair.b)?);
        let b_id = bus_ids.get(pair.b as usize).copied().flatten();
        let direct = a.peers.iter().filter(|id| Some(id.as_str()) == b_id).count() as u32;
        Some(if direct > 0 { direct } else { a.to_switch.min(b.to_switch) })
    }
}
