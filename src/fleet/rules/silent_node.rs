//! A job stands still since one of its nodes fell silent, and no other node knows why.

use super::{Ctx, Finding, FleetRule, open_command};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::base::units::counted;
use crate::diagnosis::verdict::State;
use crate::rules::{Implies, Rule};

pub const RULE: FleetRule = FleetRule {
    about: Rule {
        id: "silent-node",
        severity: Severity::Critical,
        title: "A node of a job that stands still stopped answering when the job stopped",
        how: "The nodes that answer see the job stuck and name nobody. Prometheus could no longer reach a node that had ranks of the job, and that \
              began at about the time when the job stopped. A node that fell silent long before or after is not accused, nor is one of many",
        advice: "Look whether the node is alive: its console, its BMC, `dmesg` after a restart; its ranks are gone with it",
        implies: Implies::Stuck,
        limits: &[&APART],
        ..Rule::PLAIN
    },
    judge,
};

const APART: Limit = Limit::seconds(
    "silent-node",
    "apart",
    120.0,
    "the node must have fallen silent so shortly before or after the job stopped, besides two scrapes",
);

fn judge(ctx: &Ctx, out: &mut Vec<Finding>) {
    for (id, job) in &ctx.fleet.jobs {
        let (State::Stuck, Some(since)) = (job.state(), job.since()) else { continue };
        let silent = job.silent();
        // Where many fall silent, it is the network, the server, or the end of the job.
        let few = !silent.is_empty() && silent.len() * 4 <= job.members.len();
        if !few || !ctx.stands_long_enough(job) || ctx.is_explained(id) {
            continue;
        }
        let apart = APART.duration() + ctx.fleet.scrape * 2;
        let near = |node: &&str| {
            let fell = job.members.get(*node).and_then(|member| member.silent_since);
            fell.is_some_and(|at| at.since(since) <= apart && since.since(at) <= apart)
        };
        let nodes: Vec<&str> = silent.into_iter().filter(near).collect();
        let Some(first) = nodes.first() else { continue };
        let names = nodes.join(", ");
        let verb = if nodes.len() == 1 { "stopped" } else { "have stopped" };
        let mut found = Finding::new(&RULE.about, Some(id), format!("{names} {verb} answering when the job stopped"));
        found.confidence = if nodes.len() == 1 { Confidence::Likely } else { Confidence::Possible };
        found.since = Some(since);
        found.next = Some(open_command(ctx.fleet, first));
        found.nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        let fell = job.members.get(*first).and_then(|member| member.silent_since).unwrap_or(since);
        out.push(
            found
                .proved("node", format!("{first} was last reached {} ago", span(ctx.fleet.at.since(fell))))
                .proved("node", format!("{} that answer see the job stuck and name nobody", counted(job.answering() as u64, "node"))),
        );
    }
}
