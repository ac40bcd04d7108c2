//! Nodes of one job that run different versions of NCCL or of the driver.

use super::{Ctx, Finding, FleetRule};
use crate::base::severity::{Confidence, Severity};
use crate::base::units::counted;
use crate::rules::Rule;
use std::collections::BTreeMap;

pub const RULE: FleetRule = FleetRule {
    about: Rule {
        id: "versions-differ",
        severity: Severity::Warning,
        title: "Nodes of one job run different versions of NCCL or of the GPU driver",
        how: "Versions as the nodes report them; of the driver only of a job that is looked at",
        advice: "Bring the nodes to one image: mixed versions hang, fall back to slower algorithms, or fail at the start",
        ..Rule::PLAIN
    },
    judge,
};

/// Nodes that are named.
const NAMED: usize = 8;

fn judge(ctx: &Ctx, out: &mut Vec<Finding>) {
    for (id, job) in &ctx.fleet.jobs {
        let nccl = job.members.iter().map(|(node, member)| (member.nccl_version.as_str(), node.as_str()));
        let driver = job.detail.drivers.iter().map(|(node, (driver, _))| (driver.as_str(), node.as_str()));
        let each: [(&str, Vec<(&str, &str)>); 2] = [("NCCL", nccl.collect()), ("driver", driver.collect())];
        for (what, all) in each {
            let mut nodes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
            all.into_iter()
                .filter(|(version, _)| !version.is_empty())
                .for_each(|(version, node)| nodes.entry(version).or_default().push(node));
            if nodes.len() < 2 {
                continue;
            }
            let words = nodes.iter().map(|(version, on)| format!("{version} on {}", counted(on.len() as u64, "node")));
            let mut found = Finding::new(&RULE.about, Some(id), format!("{what} differs: {}", words.collect::<Vec<_>>().join(", ")));
            found.confidence = Confidence::Certain;
            // Those that differ from most; of two halves nobody is odd.
            let fewest = nodes.values().min_by_key(|on| on.len());
            let half = nodes.values().map(Vec::len).sum::<usize>() / 2;
            found.nodes =
                fewest.filter(|on| on.len() < half && on.len() <= NAMED).into_iter().flatten().map(|node| (*node).to_owned()).collect();
            out.push(found);
        }
    }
}
