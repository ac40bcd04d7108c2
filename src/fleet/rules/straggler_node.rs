//! All nodes of a job wait for the one that waits least.

use super::{Ctx, Finding, FleetRule, median, open_command};
use crate::base::limit::Limit;
use crate::base::severity::Severity;
use crate::diagnosis::verdict::State;
use crate::fleet::model::{Fleet, Job, Member};
use crate::rules::{Implies, Rule};
use std::time::Duration;

pub const RULE: FleetRule = FleetRule {
    about: Rule {
        id: "straggler-node",
        severity: Severity::Warning,
        title: "One node of a job waits much less in collectives than all others: they wait for it",
        how: "Seconds that ranks waited, counted on their nodes, as a share of the last minute and of the minute before. One node lies below the \
              median of the job's nodes by more than three median deviations and a tenth, in both, and did not ten minutes earlier: a stage of a \
              pipeline that computes more than others does so from the beginning. Not within three minutes after a pause",
        advice: "Open the node: throttled GPUs, a slow input or CPU, another job. `nccl-top` there has the evidence",
        implies: Implies::Slow,
        limits: &[&APART],
        ..Rule::PLAIN
    },
    judge,
};

const APART: Limit =
    Limit::percent("straggler-node", "apart", 10.0, "its share of waiting must be so much less than the median of the nodes, at least");
/// A job must have so many nodes for one to differ from.
const LEAST_NODES: usize = 4;
/// After a pause, in which one node may save what the others wait for.
const SETTLED: Duration = Duration::from_secs(180);

/// The nodes that wait least by far, with the median of all: where there are two of them, none is the one.
pub fn suspect<'a>(fleet: &Fleet, job: &'a Job) -> Option<(&'a str, &'a Member, f64)> {
    let goes = job.states.keys().all(|state| matches!(state, State::Training | State::Slow));
    let settled = job.since().is_some_and(|since| fleet.at.since(since) >= SETTLED);
    if !goes || !settled || job.members.len() < LEAST_NODES {
        return None;
    }
    let now = low(job, |member| member.waiting)?;
    let before = low(job, |member| member.waiting_before)?;
    (now.0 == before.0).then_some(now)
}

fn low(job: &Job, share: impl Fn(&Member) -> Option<f64>) -> Option<(&str, &Member, f64)> {
    let shares: Vec<f64> = job.members.values().filter_map(&share).collect();
    let middle = median(&shares)?;
    let deviation = median(&shares.iter().map(|share| (share - middle).abs()).collect::<Vec<_>>())?;
    let below = middle - (3.0 * deviation).max(APART.value() / 100.0);
    let mut low = job.members.iter().filter(|(_, member)| share(member).is_some_and(|share| share < below));
    let (node, member) = low.next()?;
    (shares.len() >= LEAST_NODES && low.next().is_none()).then_some((node.as_str(), member, middle))
}

fn judge(ctx: &Ctx, out: &mut Vec<Finding>) {
    for (id, job) in &ctx.fleet.jobs {
        let Some((node, ..)) = suspect(ctx.fleet, job).filter(|_| !ctx.is_explained(id)) else { continue };
        let Some((_, member, middle)) = low(job, |member| member.waiting_share).filter(|(low, ..)| *low == node) else { continue };
        let earlier: Vec<f64> = job.members.values().filter_map(|member| member.waiting_earlier).collect();
        let (Some(own), Some(earlier)) = (member.waiting_earlier, median(&earlier)) else { continue };
        let share = member.waiting_share.unwrap_or(0.0);
        // It has always been so: that is how the job is made.
        if own < earlier - APART.value() / 100.0 {
            continue;
        }
        let percent = |share: f64| format!("{:.0} %", share.clamp(0.0, 1.0) * 100.0);
        let mut found = Finding::new(&RULE.about, Some(id), format!("the nodes of the job wait for {node}"));
        found.next = Some(open_command(ctx.fleet, node));
        found.nodes = vec![node.to_owned()];
        out.push(
            found
                .proved("gpu", format!("its ranks wait {} of the time, those of the other nodes {}", percent(share), percent(middle)))
                .proved("gpu", format!("ten minutes earlier {}, as the others", percent(own))),
        );
    }
}
