//! The same trouble began on several nodes of several jobs at about the same time.

use super::{Ctx, Finding, FleetRule};
use crate::base::limit::Limit;
use crate::base::severity::{Role, Severity};
use crate::base::time::Stamp;
use crate::base::units::counted;
use crate::rules::Rule;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

pub const RULE: FleetRule = FleetRule {
    about: Rule {
        id: "common-cause",
        severity: Severity::Warning,
        title: "The same trouble began on several nodes of several jobs within two minutes: they share a cause",
        how: "Root findings of one rule that blame at least three nodes of at least two jobs, and that opened within two minutes of each other",
        advice: "Look at what the nodes share: storage, a switch, power and cooling, a driver or image that was rolled out",
        limits: &[&NODES, &WITHIN],
        ..Rule::PLAIN
    },
    judge,
};

const NODES: Limit = Limit::count("common-cause", "nodes", 3.0, "so many nodes of two jobs must be blamed under the same rule");
const WITHIN: Limit = Limit::seconds("common-cause", "within", 120.0, "their findings must have opened within this time");
/// Findings are looked back on for an hour: what is as old may have begun at any time before.
const OLDEST: Duration = Duration::from_secs(3500);

fn judge(ctx: &Ctx, out: &mut Vec<Finding>) {
    let mut begun: BTreeMap<&str, Vec<(Stamp, &str, &str)>> = BTreeMap::new();
    for report in ctx.fleet.reports.iter().filter(|r| r.role == Role::Root && r.severity >= Severity::Warning && r.open_for < OLDEST) {
        if let Some(job) = &report.job {
            begun.entry(&report.rule).or_default().push((ctx.fleet.at.minus(report.open_for), &report.node, job));
        }
    }
    for (rule, mut all) in begun {
        all.sort();
        let from_each = (0..all.len()).map(|first| {
            let end = all[first].0.plus(WITHIN.duration());
            let together = &all[first..first + all[first..].partition_point(|(at, ..)| *at <= end)];
            let nodes: BTreeSet<&str> = together.iter().map(|(_, node, _)| *node).collect();
            let jobs: BTreeSet<&str> = together.iter().map(|(.., job)| *job).collect();
            (nodes, jobs, all[first].0)
        });
        let most = from_each
            .filter(|(nodes, jobs, _)| nodes.len() >= NODES.value() as usize && jobs.len() >= 2)
            .max_by_key(|(nodes, ..)| nodes.len());
        let Some((nodes, jobs, at)) = most else { continue };
        let summary = format!(
            "{rule} began on {} of {} within {} s",
            counted(nodes.len() as u64, "node"),
            counted(jobs.len() as u64, "job"),
            WITHIN.value()
        );
        let mut found = Finding::new(&RULE.about, None, summary);
        found.since = Some(at);
        let some = |all: &BTreeSet<&str>| all.iter().take(4).copied().collect::<Vec<_>>().join(", ");
        out.push(found.proved("node", format!("jobs {}; nodes {}", some(&jobs), some(&nodes))));
    }
}
