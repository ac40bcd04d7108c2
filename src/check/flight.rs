//! Flight Recorder dumps: who did not join a collective, or called another one.

use super::case::Case;
use super::judge::MOST_JUDGED;
use super::kinds::{Counts, Kind, Opened};
use crate::findings::{Evidence, Found};
use crate::flight::{self, FlightFinding, FlightKind};
use crate::rules::{self, Rule};
use crate::time::Stamp;
use std::collections::BTreeMap;

pub const KIND: Kind = Kind { id: "flight-recorder", name: "Flight Recorder dumps", is, read };

const MOST_BYTES: u64 = 256 << 20;

/// A dump of one rank.
pub struct Dumped {
    pub path: String,
    modified: Stamp,
    pub dump: flight::Dump,
}

fn is(opened: &Opened) -> bool {
    flight::looks_like(&opened.head)
}

fn read(opened: &mut Opened, case: &mut Case, progress: &mut dyn FnMut()) -> Result<Counts, String> {
    let bytes = opened.all(MOST_BYTES)?;
    progress();
    let dump = flight::read(&bytes).map_err(|err| err.to_string())?;
    let rank = flight::rank_of_name(opened.file_name())
        .ok_or("its name does not end in a rank, and a dump does not hold it: name it as PyTorch does, nccl_trace_rank_N")?;
    case.understood = true;
    let newest = case.dumps.get(&rank).is_none_or(|known| known.modified < opened.modified);
    if newest {
        case.dumps.insert(rank, Dumped { path: opened.name.clone(), modified: opened.modified, dump });
    }
    Ok(Counts::default())
}

/// What the dumps of all ranks say together.
pub fn judge(case: &Case) -> Vec<(&'static Rule, Stamp, Found)> {
    if case.dumps.is_empty() {
        return Vec::new();
    }
    let dumps: BTreeMap<u32, flight::Dump> = case.dumps.iter().map(|(rank, d)| (*rank, d.dump.clone())).collect();
    let judgement = flight::judge(&dumps);
    let said = |finding: &FlightFinding| {
        let at = finding.since_ns.and_then(|ns| i64::try_from(ns).ok()).map_or(Stamp::default(), Stamp);
        let mut found = Found::new(format!("dumps {}", finding.summary()), finding.summary(), at);
        found.why = finding.why();
        found.ranks.clone_from(&finding.ranks);
        found.confidence = finding.confidence;
        found.next = Some(next(case, finding));
        let shown = finding.ranks.iter().chain(finding.waiting.first());
        let mut evidence: Vec<Evidence> = shown.take(6).filter_map(|rank| proof(case, &judgement, *rank, at)).collect();
        if evidence.is_empty() {
            evidence.extend(case.dumps.keys().take(2).filter_map(|rank| proof(case, &judgement, *rank, at)));
        }
        found.evidence = evidence;
        (rules::rule(rule_of(&finding.kind)).unwrap_or(&rules::RULES[0]), at, found)
    };
    judgement.findings.iter().take(MOST_JUDGED).map(said).collect()
}

fn rule_of(kind: &FlightKind) -> &'static str {
    match kind {
        FlightKind::Mismatch { .. } | FlightKind::PeerToPeer { sizes_differ: true, .. } => "collective-mismatch",
        FlightKind::Absent { .. } | FlightKind::NoDump { .. } | FlightKind::PeerToPeer { .. } => "hang-rank-absent",
        FlightKind::OrderAcrossGroups { .. } | FlightKind::AllJoined { .. } => "hang-symmetric",
    }
}

/// `last enqueued 235, completed 235`
fn proof(case: &Case, judgement: &flight::Judgement, rank: u32, at: Stamp) -> Option<Evidence> {
    let dumped = case.dumps.get(&rank)?;
    let number = |n: Option<u64>| n.map_or("nothing".to_owned(), |n| n.to_string());
    let states = judgement.groups.iter().filter_map(|g| Some((g, g.ranks.get(&rank)?)));
    let words: Vec<String> = states
        .take(4)
        .map(|(group, p)| {
            let of = if judgement.groups.len() > 1 {
                format!(" in group {}", group.desc.as_deref().unwrap_or(&group.name))
            } else {
                String::new()
            };
            format!("last enqueued {}, completed {}{of}", number(p.enqueued), number(p.completed))
        })
        .collect();
    let text = format!("rank {rank}: {}", words.join("; "));
    Some(Evidence { path: Some(dumped.path.clone()), at: (at.0 > 0).then_some(at), ..Evidence::of("dump", text) })
}

fn next(case: &Case, finding: &FlightFinding) -> String {
    let place = |rank: &u32| {
        let entry = case.dumps.get(rank)?.dump.entries.iter().rev().find(|e| e.own_frame().is_some())?;
        entry.own_frame().map(|f| format!("{}:{} in {}", f.file, f.line, f.name))
    };
    match (&finding.kind, finding.ranks.first()) {
        (FlightKind::Mismatch { .. }, Some(rank)) => match place(rank) {
            Some(place) => format!("look at {place}: what rank {rank} calls there and the others do not"),
            None => format!("look for a branch, a batch or an order of calls that only rank {rank} has"),
        },
        (FlightKind::NoDump { .. }, Some(rank)) => case.py_spy(*rank).unwrap_or_else(|| {
            format!(
                "look whether the process of rank {rank} is alive, stopped (state T) or stuck in the kernel (state D): ps -o pid,stat,wchan"
            )
        }),
        (FlightKind::OrderAcrossGroups { .. }, _) => {
            "give the process groups one order on all ranks: the same communicator first everywhere, or one stream for both".into()
        }
        (FlightKind::AllJoined { .. }, _) => {
            "look at the network and the GPUs between the ranks: NCCL WARN lines, port counters, dmesg -T | grep -i -e xid -e mlx -e efa"
                .into()
        }
        (_, Some(rank)) => case.py_spy(*rank).unwrap_or_else(|| match place(rank) {
            Some(place) => format!("look at rank {rank} after {place}, its last call that was recorded"),
            None => format!("read what rank {rank} printed last; where it still runs: py-spy dump --nonblocking --pid PID"),
        }),
        (_, None) => "compare the ranks' code paths before this collective".into(),
    }
}
