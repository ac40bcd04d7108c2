//! A network port that was up is down.

use super::chain::Chain;
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::model::port::{Link, LinkHistory};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nic-down",
    severity: Severity::Error,
    title: "A network port that was up is down",
    how: "state below /sys/class/infiniband, operstate and carrier below /sys/class/net; only ports that were seen up. The \
          kernel's log: a link that went down for a moment, a card that is ill",
    advice: "Look at the cable, the switch port and the kernel log; connections over this port end or hang until NCCL's timeouts",
    life: while_it_holds(2, 3),
    implies: Implies::Nothing,
    chain: Chain::KERNEL,
    on_tick: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let model = ctx.model;
    let rdma = model.ports.values().map(|p| {
        let path = format!("/sys/class/infiniband/{}/ports/{}/state", p.info.device, p.info.port);
        (p.name(), p.info.kind.as_str(), &p.link, path, p.sample.state.clone())
    });
    let netdevs = model.netdevs.values().filter(|n| n.is_physical()).map(|n| {
        let path = format!("/sys/class/net/{}/operstate", n.sample.name);
        (n.sample.name.clone(), "interface", &n.link, path, n.sample.operstate.clone())
    });
    for (name, kind, link, path, said) in rdma.chain(netdevs) {
        let LinkHistory { now: Link::Down, since, was_up: true, .. } = *link else { continue };
        let mut found = RULE.finding(name.clone(), format!("{kind} {name} went down"), since);
        found.confidence = Confidence::Certain;
        found.why = format!("down for {}", span(model.now.since(since)));
        found.next = Some("dmesg -T | grep -i -e link -e mlx5 -e efa | tail".into());
        found.evidence = vec![Evidence { path: Some(path), ..Evidence::of("counter", said.unwrap_or_else(|| "no carrier".into())) }];
        found.ports = vec![name];
        out.push(found);
    }
}
