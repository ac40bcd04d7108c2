//! Communicators, joined from RAS answers and init lines by their hash.

use super::bounds::MEMBERS;
use crate::base::time::Stamp;
use crate::formats::ras::{PartValue, RasComm, RasPart, RasReport, SpreadOf};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A communicator as this node knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Comm {
    pub hash: u64,
    pub nranks: u32,
    pub ranks: BTreeMap<u32, CommRank>,
    /// Ranks that did not answer RAS in the last report.
    pub missing: BTreeMap<u32, MissingRank>,
    /// Ranks with an Init START, an Init COMPLETE line.
    pub init_started: BTreeSet<u32>,
    /// Lines of other ranks were left out, so that a rank without one may have begun.
    pub init_left_out: bool,
    pub init_complete: BTreeSet<u32>,
    pub init_from: Option<Stamp>,
    pub init_to: Option<Stamp>,
    /// The last RAS answer that held it.
    pub answered_at: Option<Stamp>,
    /// The earliest answer since which no count of any rank has changed.
    pub still_since: Option<Stamp>,
    /// Answers with the same counts as the one before, in a row.
    pub still_answers: u32,
    /// The answer before that: what last changed, changed after it. `None` while no change was seen.
    pub moved_after: Option<Stamp>,
    /// Answers whose counts had grown since the one before.
    pub moves: u32,
    /// The last answer was a text report, which names only what is wrong.
    pub in_text: bool,
    /// Recent answers: who was behind, and whether the counts had moved since the answer before. Newest last.
    pub looks: Vec<LookBack>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct CommRank {
    pub pid: Option<u32>,
    pub host: Option<String>,
    pub nvml_dev: Option<u32>,
    pub counts: BTreeMap<String, u64>,
    /// The answer at which they had last changed.
    pub counts_since: Option<Stamp>,
    /// Its initialisation is in progress (ncclInProgress), since when.
    pub init_since: Option<Stamp>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct MissingRank {
    pub pid: Option<u32>,
    pub host: Option<String>,
    pub nvml_dev: Option<u32>,
    pub considered_dead: bool,
    /// Its process does, but it is not in the communicator.
    pub answers: bool,
    pub since: Stamp,
}

#[derive(Clone, Debug, PartialEq)]
pub struct LookBack {
    pub at: Stamp,
    pub behind: Vec<u32>,
    pub moved: bool,
}

/// A rank that has launched fewer operations of one kind than another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Behind {
    pub rank: u32,
    /// `AllReduce`
    pub collective: String,
    pub have: u64,
    pub max: u64,
}

/// A rank whose counts are not those that most have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Odd {
    pub rank: u32,
    /// Kinds of which it has launched more, with its count and the usual one.
    pub more: Vec<(String, u64, u64)>,
    pub fewer: Vec<(String, u64, u64)>,
}

impl Odd {
    /// Behind in one kind and ahead in another: it makes other calls than the others.
    pub fn crosses(&self) -> bool {
        !self.more.is_empty() && !self.fewer.is_empty()
    }
}

const LOOKS: usize = 8;
/// What a text report says of "all others" counts for each, up to so many.
const MOST_RANKS: u32 = 1 << 15;
/// As what is counted before NCCL 2.26, which does not tell kinds apart.
const ANY_COLLECTIVE: &str = "collective";
/// ncclInProgress, as RAS reports an initialisation that is not done.
const IN_PROGRESS: i32 = 7;

impl Comm {
    pub fn apply(&mut self, at: Stamp, seen: &RasComm, in_text: bool) {
        self.hash = seen.hash;
        self.nranks = self.nranks.max(seen.size.unwrap_or(0));
        let mut moved = self.answered_at.is_none();
        for rank in &seen.ranks {
            let known = self.ranks.entry(rank.rank).or_default();
            known.pid = rank.place.pid.or(known.pid);
            known.host = rank.place.host.clone().or(known.host.take());
            known.nvml_dev = rank.place.nvml_dev.or(known.nvml_dev);
            known.init_since = (rank.init_state == IN_PROGRESS).then(|| known.init_since.unwrap_or(at));
            let counts: BTreeMap<String, u64> = rank.counts.iter().map(|(k, v)| (k.as_str().to_owned(), *v)).collect();
            if counts != known.counts || known.counts_since.is_none() {
                moved |= counts != known.counts;
                (known.counts, known.counts_since) = (counts, Some(at));
            }
        }
        self.in_text = in_text;
        if in_text {
            moved |= self.apply_spreads(at, seen);
        }
        let missing: BTreeMap<u32, MissingRank> = seen
            .missing
            .iter()
            .map(|m| {
                let since = self.missing.get(&m.rank).map_or(at, |known| known.since);
                (
                    m.rank,
                    MissingRank {
                        pid: m.place.pid,
                        host: m.place.host.clone(),
                        nvml_dev: m.place.nvml_dev,
                        considered_dead: m.considered_dead == Some(true),
                        answers: m.unresponsive == Some(false),
                        since,
                    },
                )
            })
            .collect();
        self.missing = missing;
        // The text report of NCCL before 2.28 tells counts only where ranks differ: no counts is not "still".
        let counted = self.ranks.values().any(|r| !r.counts.is_empty());
        if moved {
            self.moved_after = self.answered_at;
            self.moves += u32::from(self.answered_at.is_some());
        }
        if moved || !counted {
            (self.still_since, self.still_answers) = (Some(at), 0);
        } else {
            self.still_answers += 1;
        }
        self.answered_at = Some(at);
        let behind = self.behind().into_iter().map(|b| b.rank).collect();
        if self.looks.len() == LOOKS {
            self.looks.remove(0);
        }
        self.looks.push(LookBack { at, behind, moved });
    }

    /// The counts of a text report, which it has only where ranks differ. Whether they have changed.
    fn apply_spreads(&mut self, at: Stamp, seen: &RasComm) -> bool {
        let mut counts: BTreeMap<u32, BTreeMap<String, u64>> = BTreeMap::new();
        for spread in &seen.spreads {
            let SpreadOf::Count(op) = spread.of else { continue };
            let name = op.map_or(ANY_COLLECTIVE, |op| op.as_str());
            // Those that are too many to be listed are all that are not listed.
            let mut unlisted = None;
            let mut listed: BTreeSet<u32> = seen.missing.iter().map(|m| m.rank).collect();
            for part in &spread.parts {
                let PartValue::Count(count) = part.value else { continue };
                for (rank, place) in &part.ranks {
                    let known = self.ranks.entry(*rank).or_default();
                    known.pid = place.pid.or(known.pid);
                    known.host = place.host.clone().or(known.host.take());
                    known.nvml_dev = place.nvml_dev.or(known.nvml_dev);
                    listed.insert(*rank);
                    counts.entry(*rank).or_default().insert(name.to_owned(), count);
                }
                if part.has_unlisted() {
                    // Of two groups that are not listed nobody knows who is in which.
                    unlisted = if unlisted.is_none() { Some(Some(count)) } else { Some(None) };
                }
            }
            if let Some(Some(count)) = unlisted
                && self.nranks <= MOST_RANKS
            {
                for rank in (0..self.nranks).filter(|r| !listed.contains(r)) {
                    counts.entry(rank).or_default().insert(name.to_owned(), count);
                }
            }
        }
        let mut moved = false;
        for (rank, known) in &mut self.ranks {
            let told = counts.remove(rank).unwrap_or_default();
            if told != known.counts || known.counts_since.is_none() {
                moved |= told != known.counts;
                (known.counts, known.counts_since) = (told, Some(at));
            }
        }
        moved |= !counts.is_empty();
        let fresh = |counts| CommRank { counts, counts_since: Some(at), ..CommRank::default() };
        self.ranks.extend(counts.into_iter().map(|(rank, counts)| (rank, fresh(counts))));
        moved
    }

    /// Ranks that have launched fewer operations of a kind than the one with most, the farthest behind first.
    pub fn behind(&self) -> Vec<Behind> {
        let mut max: BTreeMap<&str, u64> = BTreeMap::new();
        let answering = || self.ranks.iter().filter(|(r, _)| !self.missing.contains_key(r));
        for (_, rank) in answering() {
            for (collective, count) in &rank.counts {
                let entry = max.entry(collective).or_default();
                *entry = (*entry).max(*count);
            }
        }
        let mut behind: Vec<Behind> = answering()
            .filter_map(|(&rank, known)| {
                max.iter()
                    .filter_map(|(&collective, &max)| {
                        let have = known.counts.get(collective).copied().unwrap_or(0);
                        (have < max).then(|| Behind { rank, collective: collective.to_owned(), have, max })
                    })
                    .max_by_key(|b| b.max - b.have)
            })
            .collect();
        behind.sort_by(|a, b| (b.max - b.have, a.rank).cmp(&(a.max - a.have, b.rank)));
        behind
    }

    /// The ranks whose counts differ from those that more than half of all have. Of two that differ, each differs from the other.
    /// Empty where nobody differs, or no counts are those of most.
    pub fn odd(&self) -> Vec<Odd> {
        let answering: Vec<(u32, &BTreeMap<String, u64>)> = self
            .ranks
            .iter()
            .filter(|(r, known)| !self.missing.contains_key(r) && !known.counts.is_empty())
            .map(|(r, k)| (*r, &k.counts))
            .collect();
        let against = |rank: u32, own: &BTreeMap<String, u64>, usual: &BTreeMap<String, u64>| {
            let count = |of: &BTreeMap<String, u64>, op: &String| of.get(op).copied().unwrap_or(0);
            let ops: BTreeSet<&String> = own.keys().chain(usual.keys()).collect();
            let counts = || ops.iter().map(|op| ((*op).clone(), count(own, op), count(usual, op)));
            Odd { rank, more: counts().filter(|c| c.1 > c.2).collect(), fewer: counts().filter(|c| c.1 < c.2).collect() }
        };
        if let [(a, one), (b, other)] = answering.as_slice() {
            return if one == other { Vec::new() } else { vec![against(*a, one, other), against(*b, other, one)] };
        }
        // Thousands of ranks have a handful of different counts.
        let mut held: Vec<(&BTreeMap<String, u64>, usize)> = Vec::new();
        for (_, counts) in &answering {
            match held.iter().position(|(known, _)| known == counts) {
                Some(at) => held[at].1 += 1,
                None if held.len() < 64 => held.push((counts, 1)),
                None => return Vec::new(),
            }
        }
        let Some((usual, _)) = held.into_iter().max_by_key(|(_, n)| *n).filter(|(_, n)| n * 2 > answering.len()) else { return Vec::new() };
        answering.into_iter().filter(|(_, counts)| *counts != usual).map(|(rank, counts)| against(rank, counts, usual)).collect()
    }

    /// Ranks that are known, by an answer or by its absence.
    pub fn members(&self) -> usize {
        self.ranks.len() + self.missing.len()
    }

    /// How long no count of any rank had changed at the last answer; `None` while they move, or tell no counts.
    pub fn still_for(&self) -> Option<Duration> {
        Some(self.answered_at?.since(self.still_since.filter(|_| self.still_answers > 0)?))
    }

    /// Reductions launched by the rank that has launched most: what gradients need, and the spreading of weights does not.
    pub fn reductions(&self) -> u64 {
        let of_rank = |counts: &BTreeMap<String, u64>| ["AllReduce", "ReduceScatter"].iter().filter_map(|op| counts.get(*op)).sum();
        self.ranks.values().map(|r| of_rank(&r.counts)).max().unwrap_or(0)
    }

    /// Operations of any kind launched by the rank that has launched most.
    pub fn operations(&self) -> u64 {
        self.ranks.values().map(|r| r.counts.values().fold(0, |sum: u64, n| sum.saturating_add(*n))).max().unwrap_or(0)
    }
}

/// Ranks that are known of a communicator of `size` once a report is applied, or a few less: those that it lists, and all others where it
/// tells their count.
fn coming(seen: &RasComm, size: u32) -> usize {
    let counts = seen.spreads.iter().filter(|spread| matches!(spread.of, SpreadOf::Count(_))).flat_map(|spread| &spread.parts);
    if size > MOST_RANKS || !counts.clone().any(RasPart::has_unlisted) {
        return seen.members();
    }
    let listed = counts.flat_map(|part| part.ranks.iter().map(|(rank, _)| *rank)).chain(seen.missing.iter().map(|m| m.rank));
    size as usize + listed.filter(|rank| *rank >= size).count()
}

/// All communicators that a report holds are updated, up to `most` in all, and as long as all together have no more than [`MEMBERS`]; the
/// others stay as they were. How many those are comes back.
pub fn apply_report(comms: &mut BTreeMap<u64, Comm>, at: Stamp, report: &RasReport, most: usize) -> usize {
    let in_text = !report.groups.is_empty();
    // Text says of processes that they are dead, JSON of ranks.
    let dead: BTreeSet<(u32, &str)> = report.dead_processes.listed.iter().map(|p| (p.pid, p.host.as_str())).collect();
    let mut room = MEMBERS.saturating_sub(comms.values().map(Comm::members).sum());
    let mut left_out = 0;
    for seen in &report.comms {
        let known = comms.get(&seen.hash).map_or(0, Comm::members);
        let is_new = !comms.contains_key(&seen.hash);
        let size = comms.get(&seen.hash).map_or(0, |comm| comm.nranks).max(seen.size.unwrap_or(0));
        if is_new && (comms.len() >= most || room == 0) || coming(seen, size) > room + known {
            left_out += 1;
            continue;
        }
        let comm = comms.entry(seen.hash).or_default();
        comm.apply(at, seen, in_text);
        room = (room + known).saturating_sub(comm.members());
        for missing in comm.missing.values_mut() {
            let place = missing.pid.zip(missing.host.as_deref());
            missing.considered_dead |= place.is_some_and(|place| dead.contains(&place));
        }
    }
    left_out
}
