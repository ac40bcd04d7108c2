//! An EC2 instance sends or receives more than it is allowed to over its interfaces.

use super::area::Area;
use super::chain::Chain;
use super::ports::{Grew, talking_job, wires};
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::port_counters::Sign;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::scaled;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "ena-allowance",
    severity: Severity::Warning,
    title: "An EC2 instance exceeds what it may send or receive over an interface: packets are queued or dropped",
    how: "ethtool's counters *_allowance_exceeded of the ENA driver grow in two of three parts of the time. They count TCP/IP (sockets, storage, \
          checkpoints), never EFA",
    advice: "Bandwidth and packets: spread checkpoints and data loading, or use more interfaces. conntrack: fewer connections, or security groups that do \
             not track them. linklocal: fewer requests of DNS, NTP and instance metadata",
    life: while_it_holds(5, 60),
    implies: Implies::Nothing,
    area: Some(Area::Network),
    chain: Chain::OF_THE_NETWORK,
    limits: &[&PACKETS, &WINDOW],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const PACKETS: Limit = Limit::count("ena-allowance", "packets", 30.0, "so many packets beyond the allowance in the window are too many");
const WINDOW: Limit = Limit::seconds("ena-allowance", "window", 30.0, "packets beyond the allowance are counted over this time");

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let now = ctx.model.now;
    for wire in wires(ctx.model) {
        let grew = wire.steady(|sign| matches!(sign, Sign::Allowance(_)), now, WINDOW.duration());
        let Some(most) = grew.iter().max_by_key(|g| g.growth.by).filter(|g| g.growth.by as f64 >= PACKETS.value()) else { continue };
        let Sign::Allowance(means) = most.sign else { continue };
        let name = most.name.trim_start_matches("ethtool/");
        let summary = format!("interface {} exceeds its allowance: {} {name} a second", wire.name, scaled(most.growth.per_s()));
        let mut found = ctx.of_wire(&RULE, &wire, summary, now.minus(most.growth.over), talking_job(ctx.model));
        found.confidence = Confidence::Certain;
        found.why = means.into();
        found.next = Some(format!("ethtool -S {} | grep exceeded; sar -n DEV 1", wire.name));
        found.evidence = grew.iter().map(Grew::proof).collect();
        out.push(found);
    }
}
