//! The entries of all dumps, sorted by process group and rank.

use super::op::{self, Op, Signature};
use super::{Dump, Entry, Progress, State, Status};
use std::collections::{BTreeMap, HashMap};

/// A process group, and what each of its ranks did in it.
pub(super) struct Team<'a> {
    pub name: String,
    pub desc: Option<String>,
    /// In the group's own order.
    pub members: Vec<u32>,
    /// The members come from a dump; otherwise they are those that have entries.
    pub known: bool,
    pub ranks: BTreeMap<u32, Part<'a>>,
}

/// What one rank's dump says of a group.
pub(super) struct Part<'a> {
    pub dump: &'a Dump,
    /// By sequence number.
    pub calls: Vec<Call>,
    pub p2p: Vec<Transfer>,
    /// Transfers before this one belong to blocks that have ended.
    ended: usize,
    pub progress: Progress,
}

/// One collective, or a coalesced block of them.
pub(super) struct Call {
    pub seq: u64,
    /// Equal for calls that fit each other.
    pub class: u32,
    /// Where it stands in the dump.
    pub entry: u32,
    pub synchronizes: bool,
}

/// A send or a receive.
pub(super) struct Transfer {
    pub entry: u32,
    /// The first of its coalesced block.
    pub block: u32,
    pub p2p_seq: Option<u64>,
    pub send: bool,
    /// Global ranks.
    pub from: u32,
    pub to: u32,
    pub done: bool,
}

/// The class of a block of which the ring may have lost the beginning.
pub(super) const UNSURE: u32 = u32::MAX;

#[derive(PartialEq, Eq, Hash)]
enum Class {
    One(Signature),
    /// Of a coalesced block: the class so far, and of one call more.
    Two(u32, u32),
}

pub(super) fn tally(dumps: &BTreeMap<u32, Dump>) -> Vec<Team<'_>> {
    let mut teams = Teams::from_configs(dumps);
    let mut classes = HashMap::new();
    for (&rank, dump) in dumps {
        teams.read(rank, dump, &mut classes);
    }
    teams.list.retain(|team| team.ranks.values().any(|part| part.progress != Progress::default() || !part.p2p.is_empty()));
    teams.list
}

/// The ring has lost entries.
pub(super) fn wrapped(dump: &Dump) -> bool {
    dump.entries.first().is_some_and(|entry| entry.record_id.is_some_and(|id| id > 0))
}

/// Torch 2.2 names no group.
fn group_name(entry: &Entry) -> String {
    entry.group.as_ref().map_or_else(|| entry.pg_id.unwrap_or(0).to_string(), |name| name.to_string())
}

struct Teams<'a> {
    list: Vec<Team<'a>>,
    /// The same name with other members is another group.
    by_name: HashMap<String, Vec<usize>>,
}

impl<'a> Teams<'a> {
    fn from_configs(dumps: &'a BTreeMap<u32, Dump>) -> Teams<'a> {
        let mut teams = Teams { list: Vec::new(), by_name: HashMap::new() };
        let mut seen: HashMap<(&str, &[u32]), usize> = HashMap::new();
        for (name, group) in dumps.values().flat_map(|dump| &dump.groups).filter(|(_, group)| !group.ranks.is_empty()) {
            seen.entry((name, &group.ranks)).or_insert_with(|| {
                let (mut members, mut sorted) = (group.ranks.to_vec(), group.ranks.to_vec());
                sorted.sort_unstable();
                let same = teams.by_name.get(name).into_iter().flatten().copied().find(|team| {
                    let mut other = teams.list[*team].members.clone();
                    other.sort_unstable();
                    other == sorted
                });
                same.unwrap_or_else(|| {
                    sorted.dedup();
                    if sorted.len() < members.len() {
                        members = sorted;
                    }
                    teams.add(name.clone(), group.desc.as_ref().map(|desc| desc.to_string()), members, true)
                })
            });
        }
        for team in &mut teams.list {
            for rank in &team.members {
                if let Some(dump) = dumps.get(rank) {
                    team.ranks.insert(*rank, Part::new(dump));
                }
            }
        }
        teams
    }

    fn add(&mut self, name: String, desc: Option<String>, members: Vec<u32>, known: bool) -> usize {
        self.by_name.entry(name.clone()).or_default().push(self.list.len());
        let desc = desc.filter(|desc| !matches!(desc.as_str(), "" | "undefined"));
        self.list.push(Team { name, desc, members, known, ranks: BTreeMap::new() });
        self.list.len() - 1
    }

    /// The team of a name to which the rank belongs.
    fn find(&mut self, rank: u32, entry: &Entry) -> usize {
        let name = group_name(entry);
        let candidates = self.by_name.get(&name).map_or(&[][..], Vec::as_slice);
        let mine = |team: &&usize| !self.list[**team].known || self.list[**team].ranks.contains_key(&rank);
        if let Some(&team) = candidates.iter().find(mine) {
            return team;
        }
        self.add(name, entry.group_desc.as_ref().map(|desc| desc.to_string()), Vec::new(), false)
    }

    fn read(&mut self, rank: u32, dump: &'a Dump, classes: &mut HashMap<Class, u32>) {
        // Names and sizes are shared inside a dump: their addresses stand for them.
        let mut by_group: HashMap<(usize, Option<u64>), usize> = HashMap::new();
        let mut by_address = HashMap::new();
        let mut ids: BTreeMap<u64, usize> = BTreeMap::new();
        for (at, entry) in dump.entries.iter().enumerate() {
            let address = entry.group.as_ref().map_or(0, |name| name.as_ptr() as usize);
            let team = *by_group.entry((address, entry.pg_id)).or_insert_with(|| self.find(rank, entry));
            if let Some(id) = entry.pg_id {
                ids.insert(id, team);
            }
            let known = self.list[team].known;
            if !known && !self.list[team].ranks.contains_key(&rank) {
                self.list[team].members.push(rank);
                self.list[team].ranks.insert(rank, Part::new(dump));
            }
            let Team { members, ranks, .. } = &mut self.list[team];
            let Some(part) = ranks.get_mut(&rank) else { continue };
            let op = Op::of(&entry.name);
            let local = if known { Some(members.as_slice()) } else { None };
            if entry.is_p2p || matches!(op, Op::Send | Op::Recv) {
                part.transfer(at as u32, entry, op, local);
                continue;
            }
            let Some(seq) = entry.seq else { continue };
            let parts = (
                entry.name.as_ptr(),
                entry.input_sizes.as_ptr(),
                entry.output_sizes.as_ptr(),
                entry.input_dtypes.as_ptr(),
                entry.output_dtypes.as_ptr(),
            );
            let class = *by_address.entry(parts).or_insert_with(|| class(classes, Class::One(Signature::of(entry))));
            part.call(at as u32, entry, seq, op, |before| classes_of_two(classes, before, class), class);
        }
        for (id, team) in self.named_ids(rank, dump, ids) {
            if let (Some(status), Some(part)) = (dump.status.get(&id), self.list[team].ranks.get_mut(&rank)) {
                part.progress.take(*status);
            }
        }
        for team in by_group.into_values() {
            if let Some(part) = self.list[team].ranks.get_mut(&rank) {
                part.finish();
            }
        }
    }

    /// The team of each `pg_id`. Where no entry tells, a name that is a number is one, if it is for the others.
    fn named_ids(&self, rank: u32, dump: &Dump, mut ids: BTreeMap<u64, usize>) -> BTreeMap<u64, usize> {
        if ids.iter().all(|(id, team)| self.list[*team].name == id.to_string()) {
            for name in dump.groups.keys() {
                let Some(id) = name.parse().ok().filter(|id| !ids.contains_key(id)) else { continue };
                let teams = self.by_name.get(name).into_iter().flatten();
                if let Some(&team) = teams.into_iter().find(|team| self.list[**team].ranks.contains_key(&rank)) {
                    ids.insert(id, team);
                }
            }
        }
        ids
    }
}

fn class(classes: &mut HashMap<Class, u32>, class: Class) -> u32 {
    let next = classes.len() as u32;
    *classes.entry(class).or_insert(next)
}

fn classes_of_two(classes: &mut HashMap<Class, u32>, before: u32, one: u32) -> u32 {
    class(classes, Class::Two(before, one))
}

impl<'a> Part<'a> {
    fn new(dump: &'a Dump) -> Part<'a> {
        Part { dump, calls: Vec::new(), p2p: Vec::new(), ended: 0, progress: Progress::default() }
    }

    pub fn entry(&self, at: u32) -> Option<&'a Entry> {
        self.dump.entries.get(at as usize)
    }

    pub fn at(&self, seq: u64) -> Option<&Call> {
        self.calls.binary_search_by_key(&seq, |call| call.seq).ok().map(|i| &self.calls[i])
    }

    fn call(&mut self, at: u32, entry: &Entry, seq: u64, op: Op, both: impl FnOnce(u32) -> u32, class: u32) {
        let done = entry.state == Some(State::Completed) || told_by_retired(self.dump, entry);
        match self.calls.last_mut().filter(|last| last.seq == seq) {
            Some(_) if op == Op::Coalesced => {}
            Some(last) => {
                last.class = both(last.class);
                last.synchronizes &= op.synchronizes();
            }
            None => self.calls.push(Call { seq, class, entry: at, synchronizes: op.synchronizes() }),
        }
        let started = done || entry.state == Some(State::Started) || entry.started_ns.is_some();
        self.progress.take(Status { enqueued: Some(seq), started: started.then_some(seq), completed: done.then_some(seq) });
    }

    fn transfer(&mut self, at: u32, entry: &Entry, op: Op, members: Option<&[u32]>) {
        let done = entry.state == Some(State::Completed) || told_by_retired(self.dump, entry);
        if op == Op::Coalesced {
            if done {
                self.p2p[self.ended..].iter_mut().rev().take_while(|t| t.p2p_seq == entry.p2p_seq).for_each(|t| t.done = true);
                self.ended = self.p2p.len();
            }
            return;
        }
        let global = |local: u32| match members {
            Some(members) => members.get(local as usize).copied(),
            None => Some(local),
        };
        let Some((from, to)) = op::peers(&entry.name) else { return };
        let (Some(from), Some(to)) = (global(from), global(to)) else { return };
        let block = self.p2p.last().filter(|last| last.p2p_seq == entry.p2p_seq && entry.p2p_seq.is_some()).map_or(at, |last| last.block);
        self.p2p.push(Transfer { entry: at, block, p2p_seq: entry.p2p_seq, send: op == Op::Send, from, to, done });
    }

    fn finish(&mut self) {
        if !self.calls.is_sorted_by_key(|call| call.seq) {
            self.calls.sort_by_key(|call| call.seq);
        }
        self.calls.dedup_by_key(|call| call.seq);
        if let Some(first) = self.calls.first_mut().filter(|_| wrapped(self.dump)) {
            first.class = UNSURE;
        }
    }
}

/// Gloo never says that an operation has completed; without a status there is nothing better.
fn told_by_retired(dump: &Dump, entry: &Entry) -> bool {
    entry.retired == Some(true) && dump.status.is_empty() && entry.name.starts_with("gloo")
}
