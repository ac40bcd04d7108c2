//! Which part of the network is slow: one port of one node is its NIC or cable, the same port of many nodes their rail or leaf switch.

use super::{Ctx, Finding, FleetRule, median, open_command};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::{counted, gbytes_per_s};
use crate::fleet::model::{Job, Port, Report};
use crate::rules::{Implies, Rule};
use std::collections::{BTreeMap, BTreeSet};

pub const RULE: FleetRule = FleetRule {
    about: Rule {
        id: "slow-port",
        severity: Severity::Warning,
        title: "One port of one node sends much less than the node's other ports, and than the same port of other nodes",
        how: "Bytes sent by each port over two minutes against the median of its node's ports, and that against the same port of the job's other \
              nodes; and not so ten minutes earlier. Asked only of jobs that are slow, or looked at",
        advice: "It is the NIC, its cable or its switch port: `ethtool -S`, `ibdiagnet`, counters of errors on both ends",
        implies: Implies::Slow,
        limits: &[&SHARE],
        ..Rule::PLAIN
    },
    judge: judge_port,
};

pub const RAIL: FleetRule = FleetRule {
    about: Rule {
        id: "slow-rail",
        severity: Severity::Warning,
        title: "The port of one name has trouble on many nodes of a job: what they share is a rail or a leaf switch",
        how: "Bytes sent by the port of this name against the other ports of its node, low on nearly all nodes of the job and not so ten minutes \
              earlier; or nodes report the same trouble of the same port, three of them or more, and not of their other ports",
        advice: "Look at the leaf switch of that rail, its uplinks and its configuration; not at each node's cable",
        implies: Implies::Slow,
        limits: &[&RAIL_SHARE],
        ..Rule::PLAIN
    },
    judge: judge_rail,
};

const SHARE: Limit = Limit::percent("slow-port", "share", 60.0, "the port must send less than this share of what it should");
const RAIL_SHARE: Limit =
    Limit::percent("slow-rail", "share", 60.0, "the port must send less than this share of what the node's other ports send");
/// Nodes that must have a port of the same name, for one to be compared with.
const LEAST_NODES: usize = 3;
/// What a job sends while it trains is far more, bytes a second.
const LEAST_RATE: f64 = 100e6;
/// Rules of nodes about what a leaf switch may cause.
const OF_A_LINK: &[&str] = &["nic-down", "nic-flapping", "nic-errors", "fabric-retransmits", "congestion", "port-below-line-rate"];

/// The rate of each port as a share of the median of its node: by port and node.
type Shares<'a> = BTreeMap<&'a str, BTreeMap<&'a str, f64>>;

fn shares(job: &Job, rate: impl Fn(&Port) -> Option<f64>) -> Shares<'_> {
    let mut nodes: BTreeMap<&str, Vec<(&str, f64)>> = BTreeMap::new();
    for port in &job.detail.ports {
        if let Some(rate) = rate(port) {
            nodes.entry(&port.instance).or_default().push((&port.port, rate));
        }
    }
    let mut shares = Shares::new();
    for (node, ports) in nodes {
        let middle = median(&ports.iter().map(|(_, rate)| *rate).collect::<Vec<_>>()).unwrap_or(0.0);
        // Of two ports nobody can tell which is as it should be.
        if ports.len() < 3 || middle < LEAST_RATE {
            continue;
        }
        for (port, rate) in ports {
            shares.entry(port).or_default().insert(node, rate / middle);
        }
    }
    shares
}

/// What a port usually sends on all nodes of the job.
fn usual(of_port: &BTreeMap<&str, f64>) -> Option<f64> {
    median(&of_port.values().copied().collect::<Vec<_>>()).filter(|_| of_port.len() >= LEAST_NODES)
}

fn judge_port(ctx: &Ctx, out: &mut Vec<Finding>) {
    for (id, job) in &ctx.fleet.jobs {
        let (now, before) = (shares(job, |port| port.bytes_per_s), shares(job, |port| port.bytes_per_s_before));
        let mut slow = Vec::new();
        for (port, of_port) in &now {
            let Some(usual) = usual(of_port).filter(|usual| *usual > 0.75) else { continue };
            let is_slow = |share: f64| share < SHARE.value() / 100.0 * usual;
            for (node, share) in of_port.iter().filter(|(_, share)| is_slow(**share)) {
                let was = before.get(port).and_then(|nodes| nodes.get(node));
                if was.is_some_and(|was| *was > 0.8) {
                    slow.push((*port, *node, *share));
                }
            }
        }
        // Where several are slow, it is the traffic.
        let &[(port, node, share)] = slow.as_slice() else { continue };
        let is_reported = ctx.fleet.reports.iter().any(|r| r.node == node && r.port.as_deref() == Some(port));
        if is_reported || ctx.is_explained(id) {
            continue;
        }
        let rate = job.detail.ports.iter().find(|p| p.port == port && p.instance == node).and_then(|p| p.bytes_per_s).unwrap_or(0.0);
        let mut found =
            Finding::new(&RULE.about, Some(id), format!("{port} on {node} sends {:.0} % of what its other ports send", share * 100.0));
        found.next = Some(open_command(ctx.fleet, node));
        (found.ports, found.nodes) = (vec![port.to_owned()], vec![node.to_owned()]);
        out.push(
            found
                .proved("counter", format!("{} GB/s; the same port of other nodes sends as much as their others", gbytes_per_s(rate)))
                .proved("counter", "ten minutes earlier it did, too"),
        );
    }
}

fn judge_rail(ctx: &Ctx, out: &mut Vec<Finding>) {
    for (id, job) in &ctx.fleet.jobs {
        let (now, before) = (shares(job, |port| port.bytes_per_s), shares(job, |port| port.bytes_per_s_before));
        let middle = |all: &Shares, port: &str| all.get(port).and_then(usual);
        let low = |port: &&str| {
            let nearly_all = now[*port].values().filter(|share| **share < RAIL_SHARE.value() / 100.0).count() * 10 >= now[*port].len() * 9;
            nearly_all && middle(&now, port).is_some() && middle(&before, port).is_some_and(|was| was > 0.8)
        };
        let slow: Vec<&str> = now.keys().copied().filter(low).collect();
        let &[port] = slow.as_slice() else { continue };
        let share = middle(&now, port).unwrap_or(0.0);
        let mut found = Finding::new(
            &RAIL.about,
            Some(id),
            format!("{port} sends {:.0} % of what the other ports send, on {}", share * 100.0, counted(now[port].len() as u64, "node")),
        );
        found.ports = vec![port.to_owned()];
        out.push(found.proved("counter", "the port of this name is slow on nearly all nodes of the job, and was not ten minutes earlier"));
    }
    reported_rails(ctx, out);
}

/// Nodes report the same trouble of the port of the same name, and not of their other ports.
fn reported_rails(ctx: &Ctx, out: &mut Vec<Finding>) {
    let mut nodes: BTreeMap<(&str, &str), BTreeSet<&str>> = BTreeMap::new();
    let of_link = |r: &&Report| OF_A_LINK.contains(&r.rule.as_str());
    for report in ctx.fleet.reports.iter().filter(of_link) {
        if let Some(port) = &report.port {
            nodes.entry((&report.rule, port)).or_default().insert(&report.node);
        }
    }
    for ((rule, port), on) in &nodes {
        let others: BTreeSet<&str> =
            nodes.iter().filter(|((r, p), _)| r == rule && p != port).flat_map(|(_, on)| on.iter().copied()).collect();
        let only_there = on.iter().filter(|node| !others.contains(**node)).count();
        if on.len() < LEAST_NODES || only_there * 4 < on.len() * 3 {
            continue;
        }
        let mut found = Finding::new(&RAIL.about, None, format!("{port} of {} has trouble: {rule}", counted(on.len() as u64, "node")));
        found.confidence = Confidence::Likely;
        found.ports = vec![(*port).to_owned()];
        let some: Vec<&str> = on.iter().take(4).copied().collect();
        out.push(found.proved("node", format!("the same port on {} nodes, and not their other ports: {}, …", on.len(), some.join(", "))));
    }
}
