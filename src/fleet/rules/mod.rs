//! What only several nodes together can show, a file for each rule. A rule is [`about`](FleetRule::about) the same things as one of a node:
//! what it means, how it is known, what to do, its thresholds. It judges one moment, so that an earlier moment is judged as it was then.
//!
//! A wrong accusation costs more than silence. So counts are compared only of what has stood still for more than two scrapes, shares only
//! over a time in which all nodes were scraped several times, and no rule accuses whom a node has already named.

mod common_cause;
mod idle_rank;
mod node_behind;
mod ranks_missing;
mod silent_node;
mod slow_ports;
mod straggler_node;
mod versions_differ;
mod witnesses;

pub use witnesses::{open_command, whom};

use super::model::{Fleet, Job};
use super::queries::{self, Query};
use crate::base::limit;
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::Stamp;
use crate::diagnosis::verdict::State;
use crate::observe::evidence::Evidence;
use crate::rules::Rule;
use std::cmp::Reverse;

/// One rule over several nodes.
pub struct FleetRule {
    pub about: Rule,
    /// Adds what holds at this moment.
    pub judge: fn(&Ctx, &mut Vec<Finding>),
}

/// What a rule may know.
pub struct Ctx<'a> {
    pub fleet: &'a Fleet,
    /// What nodes have found, put together.
    pub reported: &'a [Finding],
}

/// What is wrong, or worth knowing, with whom it is about.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// An id of [`crate::rules::RULES`], of [`RULES`], or of a later version of the exporter.
    pub rule: String,
    pub severity: Severity,
    pub role: Role,
    pub confidence: Confidence,
    pub job: Option<String>,
    pub summary: String,
    pub why: String,
    /// What to do now: a command where there is one.
    pub next: Option<String>,
    /// Whom to blame.
    pub ranks: Vec<u32>,
    pub gpus: Vec<u32>,
    pub ports: Vec<String>,
    pub nodes: Vec<String>,
    /// The nodes that report it; of a rule of the fleet none.
    pub witnesses: Vec<String>,
    /// When it began, as far as that is known.
    pub since: Option<Stamp>,
    pub evidence: Vec<Evidence>,
}

impl Finding {
    /// A root finding that is likely, blames nobody and has no evidence yet.
    pub fn new(about: &Rule, job: Option<&str>, summary: impl Into<String>) -> Finding {
        Finding {
            rule: about.id.to_owned(),
            severity: limit::severity_of(about.id).unwrap_or(about.severity),
            role: Role::Root,
            confidence: Confidence::Likely,
            job: job.map(str::to_owned),
            summary: summary.into(),
            why: String::new(),
            next: None,
            ranks: Vec::new(),
            gpus: Vec::new(),
            ports: Vec::new(),
            nodes: Vec::new(),
            witnesses: Vec::new(),
            since: None,
            evidence: Vec::new(),
        }
    }

    /// With one more proof, of a kind that [`Evidence`] knows.
    pub fn proved(mut self, kind: &'static str, text: impl Into<String>) -> Finding {
        self.evidence.push(Evidence::of(kind, text));
        self.why = self.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
        self
    }

    /// What matters most comes first.
    fn weight(&self) -> impl Ord + use<> {
        (Reverse(self.role == Role::Root), Reverse(self.severity), Reverse(self.confidence), Reverse(self.witnesses.len()), self.since)
    }

    /// It is an error, and no consequence of another one.
    pub fn is_cause(&self) -> bool {
        self.role == Role::Root && self.severity >= Severity::Error
    }
}

impl Ctx<'_> {
    /// A job has been in its state for more than two scrapes: all nodes have been looked at since.
    fn stands_long_enough(&self, job: &Job) -> bool {
        job.since().is_some_and(|since| self.fleet.at.since(since) > self.fleet.scrape * 5)
    }

    /// A node has named a culprit of this job: nobody else is accused.
    pub fn is_explained(&self, job: &str) -> bool {
        self.reported
            .iter()
            .any(|f| f.job.as_deref() == Some(job) && f.is_cause() && !(f.ranks.is_empty() && f.gpus.is_empty() && f.ports.is_empty()))
    }
}

/// All rules that need several nodes.
pub const RULES: &[FleetRule] = &[
    silent_node::RULE,
    node_behind::RULE,
    idle_rank::RULE,
    ranks_missing::RULE,
    straggler_node::RULE,
    slow_ports::RULE,
    slow_ports::RAIL,
    common_cause::RULE,
    versions_differ::RULE,
];

/// A rule of the fleet by its id.
pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().map(|rule| &rule.about).find(|rule| rule.id == id)
}

/// All that is wrong at this moment: what nodes report, put together, and what only all of them show; the worst first.
pub fn judge(fleet: &Fleet) -> Vec<Finding> {
    let reported = witnesses::join(fleet);
    let mut own = Vec::new();
    for rule in RULES.iter().filter(|rule| !limit::is_muted(rule.about.id)) {
        (rule.judge)(&Ctx { fleet, reported: &reported }, &mut own);
    }
    let mut all = reported;
    all.extend(own);
    all.sort_by_cached_key(Finding::weight);
    all
}

/// What orders jobs: the worst first.
pub fn weight_of(id: &str, job: &Job, findings: &[Finding]) -> impl Ord + use<> {
    let causes = findings.iter().filter(|f| f.job.as_deref() == Some(id) && f.role == Role::Root);
    let worst = causes.map(|f| f.severity).filter(|severity| *severity > Severity::Info).max();
    let is_down = matches!(job.state(), State::Stuck | State::Failed);
    (Reverse(is_down), Reverse(worst), Reverse(job.state()), Reverse(job.members.len()), Reverse(job.silent().len()), id.to_owned())
}

/// What rules need to know besides of which jobs, the worst first: what is cheap for one job and dear for all.
pub fn wanted(fleet: &Fleet) -> Vec<(String, Vec<&'static Query>)> {
    let reported = witnesses::join(fleet);
    let ctx = Ctx { fleet, reported: &reported };
    let mut jobs: Vec<(&String, &Job)> = fleet.jobs.iter().collect();
    jobs.sort_by_cached_key(|(id, job)| weight_of(id, job, &reported));
    let of_job = |(id, job): (&String, &Job)| {
        let mut wanted: Vec<&'static Query> = Vec::new();
        if job.state() == State::Stuck && !ctx.is_explained(id) {
            wanted.extend([&queries::ACTIVITY, &queries::COMMS_MOST]);
            wanted.extend((!job.still.is_empty()).then_some(&queries::BEHIND));
        }
        if job.ranks_seen < job.world_size && matches!(job.state(), State::Starting | State::Stuck) {
            wanted.push(&queries::RANKS);
        }
        if straggler_node::suspect(fleet, job).is_some() {
            wanted.extend([&queries::WAITING_SHARE, &queries::WAITING_EARLIER]);
        }
        if job.state() == State::Slow {
            wanted.extend([&queries::PORTS, &queries::PORTS_BEFORE]);
        }
        (!wanted.is_empty()).then(|| (id.clone(), wanted))
    };
    jobs.into_iter().filter_map(of_job).collect()
}

/// The middle of some values; of an even number of them the upper one.
fn median(values: &[f64]) -> Option<f64> {
    let mut sorted: Vec<f64> = values.iter().copied().filter(|value| value.is_finite()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied()
}
