//! What Flight Recorder dumps say together, as findings: the same for dumps that `check` is given and for those that appear live.

use super::{py_spy, rank_words, rule};
use crate::findings::{Evidence, Finding, Ledger, Role};
use crate::flight::{self, Dump, FlightFinding, FlightKind, Judgement};
use crate::model::Model;
use crate::model::dumps::Dumped;
use crate::model::job::Job;
use crate::time::Stamp;
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
    let mut judgement = flight::judge(&given.dumps);
    let findings = std::mem::take(&mut judgement.findings);
    let told = |finding: FlightFinding| {
        let at = finding.since_ns.and_then(|ns| i64::try_from(ns).ok()).map_or(Stamp::default(), Stamp);
        let rule = rule(rule_of(&finding.kind)).unwrap_or(&super::RULES[0]);
        let mut found = rule.finding(format!("dumps {}", finding.summary()), finding.summary(), at);
        found.why = finding.why();
        found.ranks.clone_from(&finding.ranks);
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
    Some(Evidence { path: Some(path), at: (at.0 > 0).then_some(at), ..Evidence::of(EVIDENCE, text) })
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

/// The kind of evidence that only dumps give.
const EVIDENCE: &str = "dump";
/// More than one thing seldom goes wrong at once.
const MOST_LIVE: usize = 8;
/// A job that runs always has operations that have not ended: only what has waited this long when the dump was written is stuck.
const WAITED: Duration = Duration::from_secs(10);

/// Findings of dumps that appeared, by the rules that they stand under.
pub fn live(model: &Model) -> Vec<Finding> {
    let mut out = Vec::new();
    for job in model.jobs.values() {
        let mut newest: BTreeMap<u32, &Dumped> = BTreeMap::new();
        for dumped in of_job(model, job).filter(|d| d.dump.is_ok()) {
            let known = newest.entry(dumped.seen.rank).or_insert(dumped);
            if known.written() < dumped.written() {
                *known = dumped;
            }
        }
        let Some(written) = newest.values().map(|d| d.written()).max() else { continue };
        let alive = |rank: u32| job.ranks.get(&rank).filter(|pid| model.processes.get(pid).is_some_and(|p| p.is_alive()));
        let given = Given {
            dumps: newest.iter().filter_map(|(rank, d)| Some((*rank, Dump::clone(d.dump.as_ref().ok()?)))).collect(),
            path: &|rank| newest.get(&rank).map(|d| d.seen.path.clone()),
            py_spy: &|rank| alive(rank).map(|pid| py_spy(*pid)),
        };
        for mut told in judge(&given, MOST_LIVE) {
            let waited = written.since(told.at);
            // Of a rank that is elsewhere the dump may be elsewhere too.
            let elsewhere = |rank: &u32| !newest.contains_key(rank) && !job.ranks.contains_key(rank);
            if told.at.0 <= 0 || waited < WAITED || told.flight.ranks.iter().any(elsewhere) {
                continue;
            }
            let found = &mut told.found;
            found.job = Some(job.id.clone());
            found.gpus = found.ranks.iter().filter_map(|rank| model.gpu_of_pid(*job.ranks.get(rank)?)).collect();
            // By counters and GPUs the same is known under these names: then it is one finding.
            match found.rule {
                "hang-rank-absent" => found.subject = rank_words(&found.ranks),
                "hang-symmetric" => found.subject = "all".into(),
                _ => {}
            }
            out.push(told.found);
        }
    }
    out
}

/// The dumps of a job's ranks, unless they are of ranks before a restart.
fn of_job<'a>(model: &'a Model, job: &'a Job) -> impl Iterator<Item = &'a Dumped> {
    model.dumps.iter().filter(|d| job.ranks.values().any(|pid| *pid == d.seen.pid))
}

/// All ranks that are known to belong to the job have a dump: no more will come.
pub fn are_complete(model: &Model) -> bool {
    model.jobs.values().filter(|job| of_job(model, job).next().is_some()).all(|job| {
        let ranks: std::collections::BTreeSet<u32> = of_job(model, job).map(|d| d.seen.rank).collect();
        job.world_size.is_some_and(|world| ranks.len() >= world as usize)
    })
}

/// A finding that dumps prove.
pub fn is_proven(f: &Finding) -> bool {
    f.evidence.iter().any(|e| e.kind == EVIDENCE)
}

/// The job made a step after its dumps were written: it was not stuck.
pub fn went_on(model: &Model, job: &str) -> bool {
    let Some(job) = model.jobs.get(job) else { return false };
    let written = of_job(model, job).map(Dumped::written).max();
    let step = model.progress_of(&job.id).and_then(|p| p.last_step_at);
    // A line may be read a while after it was written.
    step.zip(written).is_some_and(|(step, written)| step > written.plus(Duration::from_secs(3)))
}

/// What dumps prove explains what else was said of the same hang: that follows from it. Where the rank was stopped or had failed before,
/// it is the other way round.
pub fn put_in_order(ledger: &mut Ledger, job: &str) {
    let open = ledger.open();
    let mine = |f: &Finding| f.job.as_deref() == Some(job);
    let gave_up = open.iter().filter(|f| mine(f) && f.rule == super::collective_timeout::RULE.id).map(|f| f.opened_at).min();
    let before = |f: &Finding| gave_up.is_none_or(|at| f.opened_at < at);
    let proven: Vec<u32> = open.iter().filter(|f| mine(f) && is_proven(f)).flat_map(|f| f.ranks.clone()).collect();
    let failed = |f: &Finding| rule(f.rule).is_some_and(|r| r.implies == super::Implies::Failed);
    let explains = |f: &Finding| {
        mine(f)
            && (f.rule == "rank-stopped" || failed(f) && f.rule != super::collective_timeout::RULE.id)
            && f.role == Role::Root
            && before(f)
            && f.ranks.iter().any(|r| proven.contains(r))
    };
    let explained = open.iter().any(|f| explains(f));
    ledger.follow(|f| {
        let hang = matches!(f.rule, "hang-rank-absent" | "hang-symmetric" | "collective-mismatch");
        let told_after = f.rule == super::collective_timeout::RULE.id || (failed(f) && !before(f));
        mine(f) && ((hang && (explained || !is_proven(f))) || told_after)
    });
}
