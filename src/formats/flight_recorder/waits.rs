//! Who waits for whom. Only waits that no other wait explains are reported.

use super::compare::{Court, sorted};
use super::difference::{FlightFinding, FlightKind, OrderSide, Seen};
use crate::base::severity::Confidence;
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// An operation that has not ended.
#[derive(Default)]
pub(super) struct Wait {
    pub team: usize,
    /// Of a collective.
    pub seq: Option<u64>,
    /// Of a send or receive: from, to.
    pub transfer: Option<(u32, u32)>,
    /// Who has called it and waits, and where that stands in its dump.
    pub joined: Vec<(u32, u32)>,
    /// Who has a dump in which it is not.
    pub lacking: Vec<u32>,
    /// Who has no dump.
    pub missing: Vec<u32>,
    /// The ranks called different things, here or before.
    pub mismatch: bool,
    /// What is sent is not what is received.
    pub sizes_differ: bool,
    pub since_ns: Option<u64>,
    /// A rank and where the call stands in its dump.
    pub entry: Option<(u32, u32)>,
}

impl Wait {
    pub fn of(team: usize, seq: Option<u64>) -> Wait {
        Wait { team, seq, ..Wait::default() }
    }

    fn call(&self, court: &Court) -> Option<Seen> {
        let (rank, at) = self.entry.or_else(|| self.joined.iter().copied().find(|(_, at)| *at != u32::MAX))?;
        Some(court.seen(court.dumps.get(&rank)?.entries.get(at as usize)?))
    }

    fn waiting(&self) -> Vec<u32> {
        self.joined.iter().map(|(rank, _)| *rank).collect()
    }
}

pub(super) fn findings(court: &Court, waits: Vec<Wait>) -> Vec<FlightFinding> {
    // What a rank called first of all that has not ended is what holds it.
    let mut held: HashMap<u32, (u32, usize)> = HashMap::new();
    for (i, wait) in waits.iter().enumerate() {
        for (rank, at) in &wait.joined {
            let first = held.entry(*rank).or_insert((*at, i));
            *first = (*first).min((*at, i));
        }
    }
    let free = |wait: &Wait| -> Vec<u32> { wait.lacking.iter().copied().filter(|rank| !held.contains_key(rank)).collect() };
    let mut edges: Vec<BTreeSet<usize>> = Vec::new();
    for (i, wait) in waits.iter().enumerate() {
        let lacking = wait.lacking.iter().filter_map(|rank| held.get(rank)).map(|(_, other)| *other);
        let behind = wait.joined.iter().filter_map(|(rank, at)| held.get(rank).filter(|(first, _)| first < at)).map(|(_, other)| *other);
        edges.push(lacking.chain(behind).filter(|other| *other != i).collect());
    }
    let roots: Vec<usize> = (0..waits.len())
        .filter(|i| waits[*i].mismatch || waits[*i].sizes_differ || !free(&waits[*i]).is_empty() || edges[*i].is_empty())
        .collect();

    let mut found = Vec::new();
    for &i in &roots {
        found.extend(root(court, &waits[i], free(&waits[i])));
    }
    let explained = reaching(&edges, &roots);
    for circle in circles(&edges, &explained) {
        found.push(order(court, &waits, &held, circle));
    }
    merged(found)
}

/// A wait that no other explains.
fn root(court: &Court, wait: &Wait, free: Vec<u32>) -> Option<FlightFinding> {
    if wait.mismatch {
        return None;
    }
    let (at, mut confidence) = (wait.team, court.confidence(wait.team));
    let call = wait.call(court);
    let last = |ranks: &[u32]| ranks.iter().take(16).map(|rank| court.late(at, *rank)).collect::<Vec<_>>();
    let others: Vec<Option<u64>> =
        wait.joined.iter().filter_map(|(rank, _)| Some(court.teams[at].ranks.get(rank)?.progress.enqueued)).collect();
    let others = others.iter().min().copied().flatten().zip(others.iter().max().copied().flatten());
    let (ranks, kind) = if let Some((from, to)) = wait.transfer {
        let late = free.iter().chain(&wait.missing).next().copied();
        let culprits: Vec<u32> = late.into_iter().collect();
        if late.is_none() && !wait.sizes_differ {
            confidence = confidence.min(Confidence::Likely);
        }
        let last = last(&free).pop();
        (culprits, FlightKind::PeerToPeer { from, to, call: call?, last, sizes_differ: wait.sizes_differ })
    } else if !free.is_empty() {
        if free.len() > wait.joined.len() {
            confidence = Confidence::Possible;
        }
        let last = last(&free);
        (free, FlightKind::Absent { seq: wait.seq?, call, others, last })
    } else if !wait.missing.is_empty() {
        (wait.missing.clone(), FlightKind::NoDump { seq: wait.seq?, call })
    } else {
        confidence = confidence.min(Confidence::Likely);
        (Vec::new(), FlightKind::AllJoined { seq: wait.seq?, call })
    };
    Some(FlightFinding { ranks, waiting: wait.waiting(), confidence, since_ns: wait.since_ns, ..FlightFinding::of(court, at, kind) })
}

/// Waits that lead to one of these.
fn reaching(edges: &[BTreeSet<usize>], roots: &[usize]) -> Vec<bool> {
    let mut back = vec![Vec::new(); edges.len()];
    for (from, to) in edges.iter().enumerate().flat_map(|(from, all)| all.iter().map(move |to| (from, *to))) {
        back[to].push(from);
    }
    let mut reached = vec![false; edges.len()];
    let mut todo = roots.to_vec();
    while let Some(i) = todo.pop() {
        if !std::mem::replace(&mut reached[i], true) {
            todo.extend(&back[i]);
        }
    }
    reached
}

/// Waits that wait for each other: pairs first, then longer ways back to where they began.
fn circles(edges: &[BTreeSet<usize>], explained: &[bool]) -> Vec<Vec<usize>> {
    let mut out = Vec::new();
    let mut seen = explained.to_vec();
    for i in 0..edges.len() {
        let other = edges[i].iter().copied().find(|j| !seen[i] && !seen[*j] && edges[*j].contains(&i));
        if let Some(j) = other {
            (seen[i], seen[j]) = (true, true);
            out.push(vec![i, j]);
        }
    }
    let pairs: Vec<usize> = out.concat();
    seen = reaching(edges, &pairs).iter().zip(explained).map(|(a, b)| *a || *b).collect();
    for start in 0..edges.len() {
        let mut way: Vec<usize> = Vec::new();
        let mut place = BTreeMap::new();
        let mut i = start;
        while !seen[i] {
            seen[i] = true;
            place.insert(i, way.len());
            way.push(i);
            let Some(&next) = edges[i].iter().find(|j| !explained[**j]) else { break };
            i = next;
        }
        if let Some(&begin) = place.get(&i) {
            out.push(way.split_off(begin));
        }
    }
    out
}

fn order(court: &Court, waits: &[Wait], held: &HashMap<u32, (u32, usize)>, circle: Vec<usize>) -> FlightFinding {
    let side = |i: &usize| {
        let wait = &waits[*i];
        let ranks = wait.waiting().into_iter().filter(|rank| held.get(rank).is_some_and(|(_, first)| first == i));
        OrderSide {
            group: court.teams[wait.team].name.clone(),
            of: court.of_group(wait.team),
            seq: wait.seq,
            call: wait.call(court),
            transfer: wait.transfer,
            ranks: sorted(ranks.collect()),
        }
    };
    let sides: Vec<OrderSide> = circle.iter().map(side).collect();
    let waiting = sorted(sides.iter().flat_map(|side| &side.ranks).copied().collect());
    let since_ns = circle.iter().filter_map(|i| waits[*i].since_ns).min();
    let confidence = circle.iter().map(|i| court.confidence(waits[*i].team)).min().unwrap_or(Confidence::Possible);
    let kind = FlightKind::OrderAcrossGroups { sides };
    FlightFinding { waiting, since_ns, confidence, ..FlightFinding::of(court, waits[circle[0]].team, kind) }
}

/// The same ranks are named once, where most wait for them.
fn merged(mut found: Vec<FlightFinding>) -> Vec<FlightFinding> {
    found.sort_by_key(|f| (std::cmp::Reverse(f.waiting.len()), f.since_ns));
    let mut out: Vec<FlightFinding> = Vec::new();
    let mut known = HashMap::new();
    for finding in found {
        let first = *known.entry((finding.kind.order(), finding.ranks.clone())).or_insert(out.len());
        match out.get_mut(first).filter(|_| !finding.ranks.is_empty()) {
            Some(first) => first.also.push(finding.group),
            None => out.push(finding),
        }
    }
    out
}
