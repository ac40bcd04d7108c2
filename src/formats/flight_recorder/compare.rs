//! What the dumps of all ranks say together. A vote decides what a collective should have been, so a lone culprit is found whatever
//! its rank. What only waits for somebody who waits elsewhere is no finding.
//!
//! A dump does not say when it was written. Those of a job that runs show its last operations as unfinished, like those of a job
//! that stands.

use super::difference::{FlightFinding, FlightKind, Late, Seen, Side};
use super::tally::{Part, Team, UNSURE, tally, wrapped};
use super::waits::{self, Wait};
use super::{Dump, Entry, Op, Status};
use crate::base::severity::Confidence;
use std::collections::{BTreeMap, HashMap};

#[derive(Clone, Debug, Default)]
pub struct Judgement {
    pub groups: Vec<GroupState>,
    /// The worst first. Empty for a job in which nothing stands.
    pub findings: Vec<FlightFinding>,
}

/// A process group: its name and its members together.
#[derive(Clone, Debug, Default)]
pub struct GroupState {
    pub name: String,
    pub desc: Option<String>,
    /// Of the ranks that have a dump.
    pub ranks: BTreeMap<u32, Progress>,
}

/// Sequence numbers of a rank's last collectives in a group, from its entries and its `pg_status`.
pub type Progress = Status;

impl Progress {
    pub(super) fn take(&mut self, other: Status) {
        self.enqueued = self.enqueued.max(other.enqueued);
        self.started = self.started.max(other.started);
        self.completed = self.completed.max(other.completed);
    }
}

/// Finds who did not join, or called something else.
pub fn judge(dumps: &BTreeMap<u32, Dump>) -> Judgement {
    let teams = tally(dumps);
    let times = |entry: &Entry| [entry.created_ns, entry.started_ns, entry.completed_ns].into_iter().flatten().max();
    let newest_ns = dumps.values().flat_map(|dump| &dump.entries).filter_map(times).max();
    let court = Court { dumps, teams, newest_ns };

    let mut findings = Vec::new();
    let mut waits = Vec::new();
    for (team, state) in court.teams.iter().enumerate() {
        let mismatch = court.mismatch(team, state);
        if let Some(seq) = first_unfinished(state) {
            waits.push(court.collective(team, seq, mismatch.is_some()));
        }
        findings.extend(mismatch);
        court.transfers(team, &mut waits);
    }
    findings.extend(waits::findings(&court, waits));
    findings.sort_by_key(|f| (f.kind.order(), f.since_ns));

    let group = |team: &Team| GroupState {
        name: team.name.clone(),
        desc: team.desc.clone(),
        ranks: team.ranks.iter().map(|(rank, part)| (*rank, part.progress)).collect(),
    };
    Judgement { groups: court.teams.iter().map(group).collect(), findings }
}

/// The first sequence number that some rank has enqueued, has not completed, and nobody's progress proves past.
fn first_unfinished(team: &Team) -> Option<u64> {
    // What one rank has completed together with all, all have joined: other dumps are only older, or their watchdogs late.
    let proven = team.ranks.values().filter_map(|part| {
        let completed = part.progress.completed?;
        let upto = part.calls.partition_point(|call| call.seq <= completed);
        part.calls[..upto].iter().rev().find(|call| call.synchronizes).map(|call| call.seq)
    });
    let proven = proven.max();
    let pending = team.ranks.values().filter_map(|part| {
        let past = part.progress.completed.max(proven);
        let after = part.calls.partition_point(|call| Some(call.seq) <= past);
        let in_ring = part.calls.get(after).map(|call| call.seq);
        in_ring.or_else(|| part.progress.enqueued.filter(|seq| Some(*seq) > past))
    });
    pending.min()
}

/// Everything known.
pub(super) struct Court<'a> {
    pub dumps: &'a BTreeMap<u32, Dump>,
    pub teams: Vec<Team<'a>>,
    pub newest_ns: Option<u64>,
}

impl<'a> Court<'a> {
    /// ` of group tp`, where there is more than one.
    pub fn of_group(&self, team: usize) -> String {
        if self.teams.len() < 2 {
            return String::new();
        }
        let team = &self.teams[team];
        match &team.desc {
            Some(desc) if *desc != team.name => format!(" of group {} ({desc})", team.name),
            _ => format!(" of group {}", team.name),
        }
    }

    pub fn seen(&self, entry: &Entry) -> Seen {
        let age_ns = entry.created_ns.and_then(|at| self.newest_ns?.checked_sub(at));
        Seen { age: age_ns.map(std::time::Duration::from_nanos), entry: Box::new(entry.clone()) }
    }

    /// Where a rank stands: what it did last in the group, and what it called last at all.
    pub fn late(&self, team: usize, rank: u32) -> Late {
        let enqueued = self.teams[team].ranks.get(&rank).and_then(|part| part.progress.enqueued);
        let last = self.dumps.get(&rank).and_then(|dump| dump.entries.last()).map(|entry| self.seen(entry));
        Late { rank, enqueued, last }
    }

    /// How certain a finding about these ranks can be, when some have left no dump.
    pub fn confidence(&self, team: usize) -> Confidence {
        let team = &self.teams[team];
        let missing = team.members.iter().filter(|rank| !self.dumps.contains_key(rank)).count();
        match missing {
            0 if team.known => Confidence::Certain,
            few if few * 4 <= team.members.len() => Confidence::Likely,
            _ => Confidence::Possible,
        }
    }

    pub fn without_dump(&self, team: usize) -> Vec<u32> {
        self.teams[team].members.iter().copied().filter(|rank| !self.dumps.contains_key(rank)).collect()
    }

    fn collective(&self, at: usize, seq: u64, mismatch: bool) -> Wait {
        let team = &self.teams[at];
        let mut wait = Wait { mismatch, missing: self.without_dump(at), ..Wait::of(at, Some(seq)) };
        let mut early: Option<u64> = None;
        for (&rank, part) in &team.ranks {
            if part.progress.enqueued < Some(seq) || part.progress.completed >= Some(seq) {
                continue;
            }
            let call = part.at(seq);
            let created = call.and_then(|call| part.entry(call.entry)?.created_ns);
            early = early.into_iter().chain(created).min();
            wait.joined.push((rank, call.map_or(u32::MAX, |call| call.entry)));
        }
        wait.since_ns = early;
        for (&rank, part) in team.ranks.iter().filter(|(_, part)| part.progress.enqueued < Some(seq)) {
            // The ring may have overwritten the entries of this group.
            let oldest = part.dump.entries.first().and_then(|entry| entry.created_ns);
            let lost = part.progress.enqueued.is_none() && wrapped(part.dump) && oldest > early;
            if !lost {
                wait.lacking.push(rank);
            }
        }
        wait
    }

    /// The first call in which the ranks of a group differ.
    fn mismatch(&self, at: usize, team: &Team) -> Option<FlightFinding> {
        let mut first_class: HashMap<u64, u32> = HashMap::new();
        let mut differs: Option<u64> = None;
        for part in team.ranks.values() {
            for call in part.calls.iter().filter(|call| call.class != UNSURE) {
                if differs.is_some_and(|seq| call.seq >= seq) {
                    break;
                }
                if *first_class.entry(call.seq).or_insert(call.class) != call.class {
                    differs = Some(call.seq);
                }
            }
        }
        let seq = differs?;
        let mut by_class: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        for (&rank, part) in &team.ranks {
            if let Some(call) = part.at(seq).filter(|call| call.class != UNSURE) {
                by_class.entry(call.class).or_default().push(rank);
            }
        }
        let voters: usize = by_class.values().map(Vec::len).sum();
        let entry_of = |rank: &u32| {
            let part: &Part = team.ranks.get(rank)?;
            part.entry(part.at(seq)?.entry)
        };
        let mut sides: Vec<Side> = by_class
            .into_values()
            .filter_map(|ranks| {
                let entry = entry_of(ranks.first()?)?;
                let fits = super::op::Signature::of(entry).fits(team.members.len());
                Some(Side { call: self.seen(entry), fits, ranks })
            })
            .collect();
        sides.sort_by_key(|side| std::cmp::Reverse(side.ranks.len()));
        let (first, others) = sides.split_first()?;
        let ranks: Vec<u32> = if first.ranks.len() * 2 > voters {
            others.iter().flat_map(|side| &side.ranks).copied().collect()
        } else {
            // Where the votes are even, sizes that cannot be right tell.
            let wrong: Vec<&Side> = sides.iter().filter(|side| !side.fits).collect();
            if team.known && wrong.len() < sides.len() { wrong.iter().flat_map(|side| &side.ranks).copied().collect() } else { Vec::new() }
        };
        let ranks = sorted(ranks);
        // It went through somehow: what it brought is wrong, but it need not be what stands.
        let ended = team.ranks.values().filter(|part| part.at(seq).is_some()).all(|part| part.progress.completed >= Some(seq));
        let confidence = if ended { self.confidence(at).min(Confidence::Likely) } else { self.confidence(at) };
        let waiting = team
            .ranks
            .iter()
            .filter(|(rank, part)| !ranks.contains(rank) && part.progress.completed < Some(seq) && part.progress.enqueued >= Some(seq));
        Some(FlightFinding {
            waiting: waiting.map(|(rank, _)| *rank).collect(),
            ranks,
            confidence,
            since_ns: sides.iter().filter_map(|side| side.call.entry.created_ns).min(),
            ..FlightFinding::of(self, at, FlightKind::Mismatch { seq, sides })
        })
    }

    /// Sends and receives that have not completed, by what they lack.
    fn transfers(&self, at: usize, waits: &mut Vec<Wait>) {
        let team = &self.teams[at];
        #[derive(Default)]
        struct Pair {
            sends: Vec<(u32, u32)>,
            recvs: Vec<(u32, u32)>,
            sent: usize,
            received: usize,
        }
        let mut pairs: BTreeMap<(u32, u32), Pair> = BTreeMap::new();
        for part in team.ranks.values() {
            for transfer in &part.p2p {
                let pair = pairs.entry((transfer.from, transfer.to)).or_default();
                let (open, all) = if transfer.send { (&mut pair.sends, &mut pair.sent) } else { (&mut pair.recvs, &mut pair.received) };
                *all += 1;
                // They end in order.
                if transfer.done { open.clear() } else { open.push((transfer.entry, transfer.block)) }
            }
        }
        for ((from, to), pair) in pairs {
            let whole = [from, to].iter().all(|rank| self.dumps.get(rank).is_some_and(|dump| !wrapped(dump)));
            let (send, recv) = (pair.sends.first(), pair.recvs.first());
            // A small send ends before it is received: then only counts tell.
            let lacks = |one: usize, other: usize| !whole || one > other;
            let mut wait = Wait { transfer: Some((from, to)), ..Wait::of(at, None) };
            let absent = match (send, recv) {
                (Some(_), None) if lacks(pair.sent, pair.received) => Some(to),
                (None, Some(_)) if lacks(pair.received, pair.sent) => Some(from),
                (Some(_), Some(_)) => None,
                _ => continue,
            };
            let found = |rank: u32, place: Option<&(u32, u32)>| {
                let place = place.copied()?;
                Some((rank, place, team.ranks.get(&rank)?.entry(place.0)?))
            };
            let calls: Vec<_> = [found(from, send), found(to, recv)].into_iter().flatten().collect();
            wait.joined = calls.iter().map(|(rank, place, _)| (*rank, place.1)).collect();
            wait.since_ns = calls.iter().filter_map(|call| call.2.created_ns).min();
            wait.entry = calls.first().map(|call| call.0).zip(calls.first().map(|call| call.1.0));
            if let [a, b] = calls.as_slice() {
                let counts =
                    [a.2, b.2].map(|e| super::op::elements(if Op::of(&e.name) == Op::Send { &e.input_sizes } else { &e.output_sizes }));
                wait.sizes_differ = counts[0] != counts[1] && counts.iter().all(|c| !c.is_empty());
            }
            match absent {
                Some(rank) if self.dumps.contains_key(&rank) => wait.lacking.push(rank),
                Some(rank) => wait.missing.push(rank),
                None => {}
            }
            waits.push(wait);
        }
    }
}

pub(super) fn sorted(mut ranks: Vec<u32>) -> Vec<u32> {
    ranks.sort_unstable();
    ranks.dedup();
    ranks
}
