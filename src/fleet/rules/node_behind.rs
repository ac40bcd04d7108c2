//! Counts of a communicator stand still and differ, and one node holds the least.

use super::{Ctx, Finding, FleetRule, open_command};
use crate::base::severity::Severity;
use crate::base::units::group;
use crate::diagnosis::verdict::State;
use crate::rules::{Implies, Rule};
use std::collections::BTreeSet;

pub const RULE: FleetRule = FleetRule {
    about: Rule {
        id: "node-behind",
        severity: Severity::Critical,
        title: "Counts of operations stand still on all nodes of a stuck job, and one node is behind",
        how: "Counts of NCCL's RAS, compared over nodes only where none has moved for three scrapes and 45 s: nodes are scraped at different \
              instants, and what moves differs in healthy jobs. One node alone holds the least in every communicator that differs",
        advice: "Open the node: the rank that is behind has not entered the collective that the others wait in",
        implies: Implies::Stuck,
        ..Rule::PLAIN
    },
    judge,
};

fn judge(ctx: &Ctx, out: &mut Vec<Finding>) {
    for (id, job) in &ctx.fleet.jobs {
        if job.state() != State::Stuck || job.detail.behind.is_empty() || !ctx.stands_long_enough(job) || ctx.is_explained(id) {
            continue;
        }
        let nodes: BTreeSet<&str> = job.detail.behind.iter().map(|(_, node, _)| node.as_str()).collect();
        let (Some(node), 1) = (nodes.first(), nodes.len()) else { continue };
        let (comm, _, count) = &job.detail.behind[0];
        let mut found = Finding::new(&RULE.about, Some(id), format!("{node} is behind in what all nodes of the job wait for"));
        found.since = job.since();
        found.next = Some(open_command(ctx.fleet, node));
        found.nodes = vec![(*node).to_owned()];
        let most = job.detail.comms.get(comm).and_then(|comm| comm.most);
        let most = most.map_or(String::new(), |most| format!(" of {}", group(most.max(0.0) as u64)));
        out.push(found.proved(
            "ras",
            format!(
                "comm {comm}: {}{most} operations, still for over {} s",
                group(count.max(0.0) as u64),
                job.still.get(comm).map_or(45.0, |s| *s) as u64
            ),
        ));
    }
}
