//! Ranks that wait for each other, each in another communicator: none of these is at fault by its own counts.

use super::comm::{Behind, Comm};
use super::signals::Member;
use std::collections::BTreeMap;

/// A rank that waits in a communicator for one that has launched less there.
#[derive(Clone, Debug, PartialEq)]
pub struct WaitsFor {
    pub who: Member,
    /// Hash of the communicator.
    pub comm: u64,
    pub late: Member,
    /// What the late one lacks.
    pub behind: Behind,
    /// The late one has left out what the groups like this one have made, on all of their ranks.
    pub left_out: bool,
    /// The rank that alone has another count than all others of this communicator, which have the same.
    pub alone: Option<u32>,
}

/// More members behind than these are no pair that waits, but a start or an end.
const MOST_BEHIND: usize = 8;

/// A circle of waits in what RAS counts at one moment, where there is one; `member` tells who a rank of a communicator is. Who has no rank of the
/// job is left out.
pub(super) fn circle(comms: &[&Comm], member: impl Fn(&Comm, u32) -> Member) -> Vec<WaitsFor> {
    let mut waits: BTreeMap<u32, Vec<WaitsFor>> = BTreeMap::new();
    for comm in comms.iter().filter(|c| c.missing.is_empty() && c.nranks > 1) {
        let behind = comm.behind();
        if behind.is_empty() || behind.len() > MOST_BEHIND {
            continue;
        }
        // The same for all that wait there.
        let late: Vec<(Member, &Behind, bool)> = behind
            .iter()
            .map(|b| (member(comm, b.rank), b, siblings_did_more(comms, comm, b)))
            .filter(|(late, ..)| late.rank.is_some())
            .collect();
        let alone = behind.first().and_then(|b| alone(comm, &b.collective)).and_then(|rank| member(comm, rank).rank);
        for rank in comm.ranks.keys().filter(|rank| behind.iter().all(|b| b.rank != **rank)) {
            let who = member(comm, *rank);
            let Some(of_job) = who.rank else { continue };
            let links = late.iter().map(|(late, behind, left_out)| WaitsFor {
                who: who.clone(),
                comm: comm.hash,
                late: late.clone(),
                behind: (*behind).clone(),
                left_out: *left_out,
                alone,
            });
            waits.entry(of_job).or_default().extend(links);
        }
    }
    // Who waits for somebody that waits for nobody is in no circle. What is left waits for ever: its first waits lead into one.
    loop {
        let waiting: Vec<u32> = waits.keys().copied().collect();
        let is_waiting = |link: &WaitsFor| link.late.rank.is_some_and(|rank| waiting.binary_search(&rank).is_ok());
        waits.values_mut().for_each(|links| links.retain(is_waiting));
        waits.retain(|_, links| !links.is_empty());
        if waits.len() == waiting.len() {
            break;
        }
    }
    let Some(&first) = waits.keys().next() else { return Vec::new() };
    let mut path: Vec<(u32, &WaitsFor)> = Vec::new();
    let mut at = first;
    while path.iter().all(|(rank, _)| *rank != at) {
        let Some(link) = waits.get(&at).and_then(|links| links.first()) else { return Vec::new() };
        path.push((at, link));
        at = link.late.rank.unwrap_or(first);
    }
    path.into_iter().skip_while(|(rank, _)| *rank != at).map(|(_, link)| link.clone()).collect()
}

/// The number of the only member of at least three whose count of this kind of operation is not that of the others.
fn alone(comm: &Comm, collective: &str) -> Option<u32> {
    let mut by_count: BTreeMap<u64, (usize, u32)> = BTreeMap::new();
    for (rank, known) in &comm.ranks {
        let count = known.counts.get(collective).copied().unwrap_or(0);
        by_count.entry(count).and_modify(|(n, _)| *n += 1).or_insert((1, *rank));
    }
    let mut alone = by_count.values().filter(|(n, _)| *n == 1).map(|(_, rank)| *rank);
    alone.next().filter(|_| comm.ranks.len() > 2 && by_count.len() == 2 && alone.next().is_none())
}

/// Whether the groups like it, those of as many ranks that count the same kind, all stand where the ranks are that wait, and none where the late one is.
pub(super) fn siblings_did_more(comms: &[&Comm], comm: &Comm, behind: &Behind) -> bool {
    let counts = |other: &Comm| -> Vec<u64> {
        other.ranks.values().map(|known| known.counts.get(&behind.collective).copied().unwrap_or(0)).collect()
    };
    let siblings = comms.iter().filter(|other| other.hash != comm.hash && other.nranks == comm.nranks);
    let used: Vec<Vec<u64>> = siblings.map(|other| counts(other)).filter(|counts| counts.iter().any(|n| *n > 0)).collect();
    !used.is_empty() && used.iter().all(|counts| counts.iter().all(|n| *n == behind.max))
}
