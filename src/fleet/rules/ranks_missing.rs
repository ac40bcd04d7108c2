//! A job that does not start, or stands still, has ranks that no node reports.

use super::{Ctx, Finding, FleetRule};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::{counted, group};
use crate::diagnosis::verdict::State;
use crate::rules::{Implies, Rule};

pub const RULE: FleetRule = FleetRule {
    about: Rule {
        id: "ranks-missing",
        severity: Severity::Error,
        title: "A job that does not get going has ranks that no node reports",
        how: "The sum of ranks on the nodes that answer is less than the job's world size, all its nodes answer, and the job has been starting or stuck \
              for longer than this may take. A job that trains has all its ranks, wherever they are: it is left alone",
        advice: "The ranks were never started, or their nodes run no exporter: compare the scheduler's list of nodes with that of the job here",
        implies: Implies::Stuck,
        limits: &[&AFTER],
        ..Rule::PLAIN
    },
    judge,
};

const AFTER: Limit = Limit::seconds("ranks-missing", "after", 120.0, "the job must have been starting or stuck for so long");
/// Missing ranks that are named.
const NAMED: usize = 1024;

fn judge(ctx: &Ctx, out: &mut Vec<Finding>) {
    for (id, job) in &ctx.fleet.jobs {
        let (Some(world), Some(seen), Some(since)) = (job.world_size, job.ranks_seen, job.since()) else { continue };
        let waits = matches!(job.state(), State::Starting | State::Stuck) && ctx.fleet.at.since(since) >= AFTER.duration();
        if seen >= world || !waits || !job.silent().is_empty() || ctx.is_explained(id) {
            continue;
        }
        let missing = u64::from(world - seen);
        let verb = if missing == 1 { "is" } else { "are" };
        let mut found = Finding::new(
            &RULE.about,
            Some(id),
            format!("{} of {} {verb} reported by no node", counted(missing, "rank"), group(u64::from(world))),
        );
        found.since = Some(since);
        found.confidence = Confidence::Possible;
        found = found.proved("node", format!("{} of the job answer and have {seen} ranks", counted(job.answering() as u64, "node")));
        if let Some(present) = &job.detail.present {
            found.ranks = (0..world).filter(|rank| !present.contains(rank)).take(NAMED).collect();
            if let (Some(first), Some(last)) = (found.ranks.first().copied(), found.ranks.last().copied()) {
                found = found.proved("node", format!("the first that is missing is rank {first}, the last {last}"));
            }
        }
        out.push(found);
    }
}
