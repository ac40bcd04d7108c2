//! What Flight Recorder dumps say together, as findings: the same for dumps that `check` is given and for those that appear live.

use super::hang_rank_absent::paused_by_name;
use super::{rule, send_order_deadlock};
use crate::base::time::Stamp;
use crate::base::words::rank_words;
use crate::formats::flight_recorder::{self, Dump, FlightFinding, FlightKind, Judgement};
use crate::model::Model;
use crate::model::dumps::Dumped;
use crate::model::job::Job;
use crate::model::signals::Look;
use crate::observe::evidence::{Evidence, Witness};
use crate::rules::findings::Finding;
use std::collections::BTreeMap;
use std::time::Duration;

/// The dumps of one job, and what is known of its ranks besides.
pub struct Given<'a> {
    /// By rank.
    pub dumps: BTreeMap<u32, Dump>,
    pub path: &'a dyn Fn(u32) -> Option<String>,
    /// The command that shows where a rank is.
    pub py_spy: &'a dyn Fn(u32) -> Option<String>,
}

/// One finding, with what it was made from.
pub struct Told {
    pub at: Stamp,
    pub found: Finding,
    pub flight: FlightFinding,
}

/// What the dumps of all ranks say together, `most` findings of it, the worst first.
pub fn judge(given: &Given, most: usize) -> Vec<Told> {
    let mut judgement = flight_recorder::judge(&given.dumps);
    let findings = std::mem::take(&mut judgement.findings);
    let told = |finding: FlightFinding| {
        let at = finding.since_ns.and_then(|ns| i64::try_from(ns).ok()).map_or(Stamp::default(), Stamp);
        let rule = rule(rule_of(&finding.kind)).unwrap_or(&super::RULES[0]);
        let mut found = rule.finding(format!("dumps {}", finding.summary()), finding.summary(), at);
        found.why = finding.why();
        found.ranks.clone_from(if rule.id == send_order_deadlock::RULE.id { &finding.waiting } else { &finding.ranks });
        found.confidence = finding.confidence;
        found.next = Some(next(given, &finding));
        let shown = finding.ranks.iter().chain(finding.waiting.first());
        let mut evidence: Vec<Evidence> = shown.take(6).filter_map(|rank| proof(given, &judgement, *rank, at)).collect();
        if evidence.is_empty() {
            evidence.extend(given.dumps.keys().take(2).filter_map(|rank| proof(given, &judgement, *rank, at)));
        }
        found.evidence = evidence;
        Told { at, found, flight: finding }
    };
    findings.into_iter().take(most).map(told).collect()
}

fn rule_of(kind: &FlightKind) -> &'static str {
    match kind {
        FlightKind::Mismatch { .. } | FlightKind::PeerToPeer { sizes_differ: true, .. } => "collective-mismatch",
        FlightKind::Absent { .. } | FlightKind::NoDump { .. } | FlightKind::PeerToPeer { .. } => "hang-rank-absent",
        kind if kind.is_order_of_sends() => send_order_deadlock::RULE.id,
        FlightKind::OrderAcrossGroups { .. } | FlightKind::AllJoined { .. } => "hang-symmetric",
    }
}

/// `last enqueued 235, completed 235`
fn proof(given: &Given, judgement: &Judgement, rank: u32, at: Stamp) -> Option<Evidence> {
    let path = (given.path)(rank)?;
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
    Some(Evidence { path: Some(path), at: (at.0 > 0).then_some(at), ..Evidence::of("dump", text) })
}

fn next(given: &Given, finding: &FlightFinding) -> String {
    let place = |rank: &u32| {
        let entry = given.dumps.get(rank)?.entries.iter().rev().find(|e| e.own_frame().is_some())?;
        entry.own_frame().map(|f| format!("{}:{} in {}", f.file, f.line, f.name))
    };
    match (&finding.kind, finding.ranks.first()) {
        (FlightKind::Mismatch { .. }, Some(rank)) => match place(rank) {
            Some(place) => format!("look at {place}: what rank {rank} calls there and the others do not"),
            None => format!("look for a branch, a batch or an order of calls that only rank {rank} has"),
        },
        (FlightKind::NoDump { .. }, Some(rank)) => (given.py_spy)(*rank).unwrap_or_else(|| {
            format!(
                "look whether the process of rank {rank} is alive, stopped (state T) or stuck in the kernel (state D): ps -o pid,stat,wchan"
            )
        }),
        (kind, _) if kind.is_order_of_sends() => send_order_deadlock::ADVICE.into(),
        (FlightKind::OrderAcrossGroups { .. }, _) => {
            "give the process groups one order on all ranks: the same communicator first everywhere, or one stream for both".into()
        }
        (FlightKind::AllJoined { .. }, _) => {
            "look at the network and the GPUs between the ranks: NCCL WARN lines, port counters, dmesg -T | grep -i -e xid -e mlx -e efa"
                .into()
        }
        (_, Some(rank)) => (given.py_spy)(*rank).unwrap_or_else(|| match place(rank) {
            Some(place) => format!("look at rank {rank} after {place}, its last call that was recorded"),
            None => format!("read what rank {rank} printed last; where it still runs: py-spy dump --nonblocking --pid PID"),
        }),
        (_, None) => "compare the ranks' code paths before this collective".into(),
    }
}

/// More than one thing seldom goes wrong at once.
const MOST_LIVE: usize = 8;
/// Nobody reads more.
const MOST_ARCHIVED: usize = 200;
/// A job that runs always has operations that have not ended: only what has waited this long when the dump was written is stuck.
const WAITED: Duration = Duration::from_secs(10);

/// What the dumps of all jobs show, each job's worst first.
pub fn compare(model: &Model) -> Vec<Finding> {
    model.jobs.values().flat_map(|job| of_one(model, job)).collect()
}

fn of_one(model: &Model, job: &Job) -> Vec<Finding> {
    let mut newest: BTreeMap<u32, &Dumped> = BTreeMap::new();
    for dumped in of_job(model, job).filter(|d| d.dump.is_ok()) {
        let known = newest.entry(dumped.seen.rank).or_insert(dumped);
        if known.written() < dumped.written() {
            *known = dumped;
        }
    }
    let Some(written) = newest.values().map(|d| d.written()).max() else { return Vec::new() };
    // While one rank saves, the others wait for it as they would for one that hangs.
    if newest.values().all(|d| d.seen.is_asked()) && may_pause(&Look::at(model, job)) {
        return Vec::new();
    }
    let given = Given {
        dumps: newest.iter().filter_map(|(rank, d)| Some((*rank, Dump::clone(d.dump.as_ref().ok()?)))).collect(),
        path: &|rank| newest.get(&rank).map(|d| d.seen.path.clone()),
        py_spy: &|rank| model.py_spy(job, rank),
    };
    let archived = newest.values().all(|d| d.seen.archived);
    // Of a job that runs some operations have always not ended, and of a rank that is elsewhere the dump may be elsewhere, too.
    let elsewhere = |rank: &u32| !newest.contains_key(rank) && !job.ranks.contains_key(rank);
    let stands = |told: &Told| told.at.0 > 0 && written.since(told.at) >= WAITED && !told.flight.ranks.iter().any(elsewhere);
    let told = judge(&given, if archived { MOST_ARCHIVED } else { MOST_LIVE }).into_iter().filter(|told| archived || stands(told));
    told.map(|told| {
        let mut found = told.found;
        (found.job, found.witness) = (Some(job.id.clone()), Witness::Dumps);
        found.gpus = found.ranks.iter().filter_map(|rank| model.gpu_of_pid(*job.ranks.get(rank)?)).collect();
        // Under these names the same is known by counters, GPUs and watchdogs: then it is one finding.
        found.subject = if found.ranks.is_empty() { "all".into() } else { rank_words(&found.ranks) };
        found
    })
    .collect()
}

fn may_pause(look: &Look) -> bool {
    paused_by_name(look) || look.alive().any(|rank| rank.does_io() || rank.much_io_lately)
}

/// The dumps of a job's ranks, unless they are of ranks before a restart.
pub fn of_job<'a>(model: &'a Model, job: &'a Job) -> impl Iterator<Item = &'a Dumped> {
    let is_its = |d: &&Dumped| if d.seen.archived { job.archived } else { job.ranks.values().any(|pid| *pid == d.seen.pid) };
    model.dumps.iter().filter(is_its)
}

/// All ranks that are known to belong to the job have a dump: no more will come.
pub fn are_complete(model: &Model) -> bool {
    model.jobs.values().filter(|job| of_job(model, job).next().is_some()).all(|job| {
        let ranks: std::collections::BTreeSet<u32> = of_job(model, job).map(|d| d.seen.rank).collect();
        job.world_size.is_some_and(|world| ranks.len() >= world as usize)
    })
}

/// The job made a step after its dumps were written: it was not stuck.
pub fn went_on(model: &Model, job: &Job) -> bool {
    let written = of_job(model, job).map(Dumped::written).max();
    let step = model.progress_of(&job.id).and_then(|p| p.last_step_at);
    // A line may be read a while after it was written.
    step.zip(written).is_some_and(|(step, written)| step > written.plus(Duration::from_secs(3)))
}
