//! What the rules on ports have in common: ports with their interfaces, counters that grow all the time, the job that talks over them.

use super::{Rule, TickContext};
use crate::base::port_counters::Sign;
use crate::base::severity::Role;
use crate::base::time::Stamp;
use crate::base::units::counted;
use crate::model::Model;
use crate::model::job::Job;
use crate::model::port::{Counters, Growth, Link, Netdev, Port};
use crate::model::topology::{Place, Topology};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::collections::BTreeSet;
use std::time::Duration;

/// What went down has so long to settle: until then its counters show that, and nothing else.
const SETTLES: Duration = Duration::from_secs(60);
/// As much in a second shows that a job uses a port.
const USED_BYTES_PER_S: f32 = 1e6;
const USED_WITHIN: Duration = Duration::from_secs(600);

/// A port with the interface over it, or an interface of hardware alone.
pub struct Wire<'a> {
    /// `mlx5_0/1`, `eth0`
    pub name: String,
    pub port: Option<&'a Port>,
    pub netdev: Option<&'a Netdev>,
}

/// All that leads out of this machine. What a container or a bridge has is none of it.
pub fn wires(model: &Model) -> Vec<Wire<'_>> {
    let above = |port: &Port| port.info.netdev.as_ref().and_then(|name| model.netdevs.get(name));
    let ports = model.ports.values().map(|port| Wire { name: port.name(), port: Some(port), netdev: above(port) });
    let of_ports: BTreeSet<&str> = model.ports.values().filter_map(|p| p.info.netdev.as_deref()).collect();
    let alone = model.netdevs.values().filter(|n| n.is_physical() && !of_ports.contains(n.sample.name.as_str()));
    ports.chain(alone.map(|netdev| Wire { name: netdev.sample.name.clone(), port: None, netdev: Some(netdev) })).collect()
}

impl<'a> Wire<'a> {
    /// `efa`, `infiniband`, `interface`
    pub fn kind(&self) -> &'static str {
        self.port.map_or("interface", |p| p.info.kind.as_str())
    }

    fn counters(&self) -> impl Iterator<Item = (&'a Counters, String)> + use<'a> {
        let port = self.port.map(|p| (&p.counters, format!("/sys/class/infiniband/{}/ports/{}", p.info.device, p.info.port)));
        let netdev = self.netdev.map(|n| (&n.counters, format!("/sys/class/net/{}", n.sample.name)));
        port.into_iter().chain(netdev)
    }

    /// Down, or down a moment ago: what its counters show now comes of that.
    pub fn is_unsettled(&self, now: Stamp) -> bool {
        let port = self.port.map(|p| &p.link);
        let is_down = port.or(self.netdev.map(|n| &n.link)).is_some_and(|l| l.now != Link::Up);
        is_down || flaps(self, now, SETTLES).0 > 0
    }

    /// What a counter did, wherever it stands.
    pub fn grown(&self, name: &str, now: Stamp, window: Duration) -> Option<Growth> {
        self.counters().find_map(|(counters, _)| counters.grown(name, now, window))
    }

    /// Counters that grew in at least two of three parts of the time: a burst that is over in a moment does not count. By name, in order.
    pub fn steady(&self, wanted: impl Fn(Sign) -> bool, now: Stamp, window: Duration) -> Vec<Grew> {
        let all = self.counters().flat_map(|(counters, dir)| {
            let steady = counters.growing().filter(|(name, m)| wanted(m.sign) && counters.parts(name, now, window) >= 2);
            steady.filter_map(|(name, m)| Some(grew(&dir, name, m.sign, counters.grown(name, now, window)?))).collect::<Vec<_>>()
        });
        all.collect()
    }

    /// Counters that stand at their greatest value, in words.
    pub fn blind(&self) -> Option<String> {
        let full: Vec<&str> = self.counters().flat_map(|(c, _)| c.full()).collect();
        (!full.is_empty())
            .then(|| format!("{} at the greatest value and cannot show more: {}", counted(full.len(), "counter"), full.join(", ")))
    }
}

/// A counter that grew.
pub struct Grew {
    pub name: String,
    pub sign: Sign,
    pub growth: Growth,
    dir: String,
}

fn grew(dir: &str, name: &str, sign: Sign, growth: Growth) -> Grew {
    Grew { name: name.to_owned(), sign, growth, dir: dir.to_owned() }
}

impl Grew {
    /// The counter, its values then and now, over which time, and where it stands.
    pub fn proof(&self) -> Evidence {
        let text = match self.name.strip_prefix("ethtool/") {
            Some(name) => format!("ethtool -S {}: {}", self.dir.rsplit('/').next().unwrap_or_default(), self.growth.words(name)),
            None => self.growth.words(&self.name),
        };
        Evidence { path: Some(self.dir.clone()), ..Evidence::of("counter", text) }
    }
}

/// The sum of so many counters.
pub fn sum(all: &[Grew]) -> u64 {
    all.iter().fold(0, |sum, g| sum.saturating_add(g.growth.by))
}

/// How often a wire went down within a time, polls that missed it included, and what shows it.
pub fn flaps(wire: &Wire, now: Stamp, window: Duration) -> (u64, Vec<Evidence>) {
    let mut most = 0;
    let mut proofs = Vec::new();
    for (counters, dir) in wire.counters() {
        for (name, sign) in counters.growing().map(|(name, meaning)| (name, meaning.sign)) {
            let Sign::WentDown { counts } = sign else { continue };
            if let Some(growth) = counters.grown(name, now, window).filter(|g| g.by > 0) {
                most = most.max(growth.by.div_ceil(counts));
                proofs.push(grew(&dir, name, sign, growth).proof());
            }
        }
    }
    let links = wire.port.map(|p| &p.link).into_iter().chain(wire.netdev.map(|n| &n.link));
    let seen = links.map(|l| l.outages_since(now.minus(window)) + usize::from(l.down_at.is_some_and(|at| at > now.minus(window)))).max();
    let seen = seen.unwrap_or(0) as u64;
    if seen > 0 && proofs.is_empty() {
        proofs.push(Evidence::of("counter", format!("{} seen down", counted_times(seen))));
    }
    (most.max(seen), proofs)
}

/// `once`, `3 times`
pub fn counted_times(n: u64) -> String {
    if n == 1 { "once".into() } else { format!("{n} times") }
}

/// The only running job that has ranks on other nodes: of two, nobody knows which of them uses a port.
pub fn talking_job(model: &Model) -> Option<&Job> {
    let runs = |j: &&Job| j.ended_at.is_none() && !j.archived && j.has_ranks_elsewhere() && !model.is_stale(j);
    let mut all = model.jobs.values().filter(runs);
    all.next().filter(|_| all.next().is_none())
}

/// Data has gone over it within the last ten minutes before `then`, or nobody can know.
pub fn was_used(port: &Port, then: Stamp) -> bool {
    let most = [&port.tx, &port.rx].into_iter().filter_map(|trend| trend.range(then, USED_WITHIN)).map(|(_, most)| most);
    let known = !port.tx.is_empty() || !port.rx.is_empty();
    !known || most.fold(0.0, f32::max) >= USED_BYTES_PER_S
}

impl TickContext<'_> {
    /// Whether ranks exchange data now, in stepthing shows it: not while they wait or save a checkpoint.
    pub fn moves(&self) -> Option<bool> {
        const LATELY: Duration = Duration::from_secs(5);
        let knows = |look: &&crate::model::signals::Look| look.moved_at.is_some() || look.knows_gpus();
        let moving = |look: &crate::model::signals::Look| {
            let steps = || look.log.as_ref().is_some_and(|l| l.last_step_at.is_some() && l.quiet_for <= l.patience);
            look.phase.is_none() && (look.moved_at.is_some_and(|at| self.model.now.since(at) <= LATELY) || steps())
        };
        let mut known = self.looks.values().filter(knows).peekable();
        known.peek()?;
        Some(known.any(moving))
    }

    /// A finding about ports, of the job that it was first seen with, or `job`.
    pub fn of_wire(&self, rule: &Rule, wire: &Wire, summary: String, since: Stamp, job: Option<&Job>) -> Finding {
        let mut found = rule.finding(wire.name.clone(), format!("{summary}{}", self.near_words(&wire.name)), since);
        let open = self.open_on(rule, &found.subject);
        found.job = open.map_or_else(|| job.map(|j| j.id.clone()), |open| open.job.clone());
        found.ports = vec![wire.name.clone()];
        found
    }

    /// ` (near GPU 5, rank 13)`: whose way to the network an RDMA port is, where the PCI tree tells. Which NIC NCCL took for whom it does not.
    fn near_words(&self, port: &str) -> String {
        let Some(port) = self.model.ports.values().find(|p| p.name() == port).filter(|_| self.model.gpus.len() > 1) else {
            return String::new();
        };
        let near = Topology::of(self.model).nearest_gpus(&Place::of_port(&port.info));
        let [gpu] = near.as_slice() else { return String::new() };
        let rank = self.model.only_rank_on_gpu(*gpu).map(|(_, rank)| rank);
        format!(" (near GPU {gpu}{})", rank.map_or(String::new(), |rank| format!(", rank {rank}")))
    }

    /// What is open on a port by its counters.
    pub fn open_on(&self, rule: &Rule, port: &str) -> Option<&Finding> {
        self.ledger.first_open(|f| f.rule == rule.id && f.subject == port && f.signature.is_none())
    }

    /// A finding of one of these rules names the port: it is what is wrong with it.
    pub fn has_trouble(&self, rules: &[&str], port: &str) -> bool {
        let names = |f: &Finding| rules.contains(&f.rule) && f.role != Role::Context && f.ports.iter().any(|p| p == port);
        self.ledger.first_open(names).is_some()
    }

    /// When a job was last seen to move.
    pub fn moved_at(&self, job: &Job) -> Option<Stamp> {
        self.looks.get(&job.id).and_then(|look| look.moved_at).max(job.moved_at)
    }
}
