//! One communicator in one answer, from either format.

use crate::base::units::counted;
use crate::formats::ras::{Collective, PartValue, RasComm, RasPart, RasPlace, RasReport, SpreadOf};
use crate::model::saved_report::SavedReport;
use std::collections::{BTreeMap, BTreeSet};

pub(super) struct View<'a> {
    pub look: &'a SavedReport,
    /// `None`: the text report has nothing to say of it, so its ranks agree.
    pub comm: Option<&'a RasComm>,
    ops: Vec<Spread>,
}

/// The counts of one operation.
struct Spread {
    /// `None` before NCCL 2.26.
    op: Option<Collective>,
    least: u64,
    most: u64,
    /// The farthest behind: those that are named, and how many they are.
    ranks: Vec<(u32, RasPlace)>,
    count: u32,
    of: u32,
}

/// The ranks that are farthest behind.
pub(super) struct Behind {
    /// `AllReduce`
    pub op: &'static str,
    pub have: u64,
    pub most: u64,
    /// Empty where the report names none.
    pub ranks: Vec<(u32, RasPlace)>,
    pub count: u32,
    /// Ranks that answered.
    pub of: u32,
}

impl Behind {
    /// More than half of those that answered.
    pub fn are_most(&self) -> bool {
        self.count > self.of / 2
    }

    pub fn rank_numbers(&self) -> Vec<u32> {
        self.ranks.iter().map(|(rank, _)| *rank).collect()
    }

    /// `rank 3 (pid 2939 on 192.0.2.2, GPU 3): AllReduce 229 of 241`
    pub fn words(&self) -> String {
        let who: Vec<String> =
            self.ranks.iter().take(4).map(|(rank, place)| format!("rank {rank} ({})", super::place_words(place))).collect();
        let who = if who.is_empty() { counted(self.count, "rank") } else { who.join(", ") };
        format!("{who}: {} {} of {}", self.op, self.have, self.most)
    }
}

/// Each communicator in all answers that tell of it.
pub(super) fn series(looks: &[SavedReport]) -> Vec<(u64, Vec<View<'_>>)> {
    let mut comms: BTreeMap<u64, Vec<Option<&RasComm>>> = BTreeMap::new();
    for (at, look) in looks.iter().enumerate() {
        for comm in &look.report.comms {
            comms.entry(comm.hash).or_insert_with(|| vec![None; looks.len()])[at].get_or_insert(comm);
        }
    }
    let view = |(look, comm): (_, Option<_>)| {
        let look: &SavedReport = look;
        // A JSON answer holds every communicator; where it is not in, it is over, or not yet there.
        (comm.is_some() || !look.json).then(|| View { look, comm, ops: comm.map_or_else(Vec::new, spreads) })
    };
    comms.into_iter().map(|(hash, comms)| (hash, looks.iter().zip(comms).filter_map(view).collect())).collect()
}

fn spreads(comm: &RasComm) -> Vec<Spread> {
    let each = Collective::ALL.iter().map(|op| (Some(*op), comm.op_counts(*op)));
    let old = comm.spreads.iter().filter(|spread| spread.of == SpreadOf::Count(None)).map(|spread| (None, spread.parts.clone()));
    each.chain(old).filter_map(|(op, parts)| spread(op, &parts)).collect()
}

fn spread(op: Option<Collective>, parts: &[RasPart]) -> Option<Spread> {
    let count = |part: &RasPart| match part.value {
        PartValue::Count(count) => Some(count),
        PartValue::Said(_) => None,
    };
    let least = parts.iter().filter_map(count).min()?;
    let most = parts.iter().filter_map(count).max()?;
    let last = parts.iter().find(|part| count(part) == Some(least))?;
    let of = parts.iter().fold(0_u32, |sum, part| sum.saturating_add(part.rank_count));
    // The few of many that the text leaves unnamed are none that can be named.
    let ranks = if last.ranks.len() == last.rank_count as usize { last.ranks.clone() } else { Vec::new() };
    Some(Spread { op, least, most, ranks, count: last.rank_count, of })
}

impl View<'_> {
    pub fn behind(&self) -> Option<Behind> {
        let worst = self.ops.iter().max_by_key(|spread| spread.most - spread.least).filter(|spread| spread.most > spread.least)?;
        Some(Behind {
            op: worst.op.map_or("collective", Collective::as_str),
            have: worst.least,
            most: worst.most,
            ranks: worst.ranks.clone(),
            count: worst.count,
            of: worst.of,
        })
    }

    /// Whether a count changed up to `later`; `None` where they tell nothing that can be compared.
    pub fn moved(&self, later: &View) -> Option<bool> {
        if let (Some(a), Some(b)) = (self.comm, later.comm)
            && self.look.json
            && later.look.json
        {
            let counts = |comm: &RasComm| -> Vec<_> { comm.ranks.iter().map(|rank| (rank.rank, rank.counts.clone())).collect() };
            return Some(counts(a) != counts(b));
        }
        let mut same = false;
        let known: BTreeSet<Option<Collective>> = self.ops.iter().chain(&later.ops).map(|spread| spread.op).collect();
        for op in known {
            let of = |view: &View| view.ops.iter().find(|spread| spread.op == op).map(|spread| (spread.least, spread.most));
            match (of(self), of(later)) {
                (Some(a), Some(b)) if a != b => return Some(true),
                (Some(_), Some(_)) => same = true,
                // One of them is text, where the ranks agree.
                (Some((least, most)), None) | (None, Some((least, most))) if least != most => return Some(true),
                _ => {}
            }
        }
        same.then_some(false)
    }

    /// The rank's process does not answer.
    pub fn misses(&self, rank: u32) -> bool {
        self.comm.is_some_and(|comm| comm.missing.iter().any(|missing| missing.rank == rank && missing.unresponsive != Some(false)))
    }

    /// A rank is not through its initialisation: ncclInProgress.
    pub fn starts(&self) -> bool {
        let said = |spread: &crate::formats::ras::RasSpread| {
            spread.of == SpreadOf::Status
                && spread.parts.iter().any(|part| matches!(&part.value, PartValue::Said(status) if status == "INIT"))
        };
        self.comm.is_some_and(|comm| comm.ranks.iter().any(|rank| rank.init_state == 7) || comm.spreads.iter().any(said))
    }

    /// Errors of ranks, in words, and whose they are.
    pub fn complaints(&self) -> Vec<(String, Vec<(u32, RasPlace)>)> {
        let Some(comm) = self.comm else { return Vec::new() };
        let mut out = Vec::new();
        for rank in &comm.ranks {
            for code in [rank.init_state, rank.async_error] {
                if let Some(words) = result_words(code) {
                    out.push((words.to_owned(), vec![(rank.rank, rank.place.clone())]));
                    break;
                }
            }
        }
        for spread in &comm.spreads {
            if matches!(spread.of, SpreadOf::InitError | SpreadOf::AsyncError) {
                out.extend(spread.parts.iter().filter_map(|part| match &part.value {
                    PartValue::Said(words) => Some((words.clone(), part.ranks.clone())),
                    PartValue::Count(_) => None,
                }));
            }
        }
        out
    }

    /// All ranks answer, all are through their initialisation, and none has launched anything.
    fn is_idle(&self) -> bool {
        self.comm.is_some_and(|comm| {
            comm.missing_count == 0
                && !comm.ranks.is_empty()
                && comm.size.is_none_or(|size| size as usize == comm.ranks.len())
                && comm
                    .ranks
                    .iter()
                    .all(|rank| rank.init_state == 0 && !rank.finalized && !rank.aborted && rank.counts.values().all(|n| *n == 0))
        })
    }
}

/// The answers, at the end of all, in which the communicator has done nothing yet. Text does not tell: only JSON counts.
pub(super) fn idle<'a>(views: &[View<'a>]) -> Option<Vec<&'a SavedReport>> {
    let told: Vec<&View> = views.iter().filter(|view| view.look.json).collect();
    let from = told.iter().rposition(|view| !view.is_idle()).map_or(0, |at| at + 1);
    let looks: Vec<&SavedReport> = told[from..].iter().map(|view| view.look).collect();
    (!looks.is_empty()).then_some(looks)
}

/// Two of the first 64 communicators have two processes in common, which can wait for each other. Pairs of neighbours in a pipeline have one.
pub(super) fn share_processes(hashes: &BTreeSet<u64>, report: &RasReport) -> bool {
    let of = |comm: &RasComm| -> BTreeSet<(Option<String>, u32)> {
        comm.ranks.iter().filter_map(|rank| Some((rank.place.host.clone(), rank.place.pid?))).collect()
    };
    let all: Vec<_> = report.comms.iter().filter(|comm| hashes.contains(&comm.hash)).take(64).map(of).collect();
    all.iter().enumerate().any(|(at, one)| all[at + 1..].iter().any(|other| one.intersection(other).nth(1).is_some()))
}

/// ncclResult_t, where it is an error.
fn result_words(code: i32) -> Option<&'static str> {
    match code {
        0 | 7 => None,
        1 => Some("unhandled CUDA error"),
        2 => Some("system error"),
        3 => Some("internal error"),
        4 => Some("invalid argument"),
        5 => Some("invalid usage"),
        6 => Some("remote process error"),
        _ => Some("an error that is not known"),
    }
}
