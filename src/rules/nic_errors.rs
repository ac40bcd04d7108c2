//! A port works, but counts damaged or dropped packets all the time.

use super::area::Area;
use super::chain::Chain;
use super::ports::{Wire, sum, talking_job, wires};
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::port_counters::Sign;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::scaled;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nic-errors",
    severity: Severity::Warning,
    title: "A network port keeps counting damaged or dropped packets",
    says: "{keeps|keep} counting damaged or dropped packets",
    how: "Counters of symbol, CRC, receive and transmit errors below /sys/class/infiniband and /sys/class/net, and ethtool's, grow in at least two \
          of three parts of the time. What they stood at before does not matter: months of uptime leave marks on healthy ports",
    advice: "Clean or change cable and optics; compare with the port at the other end. port_rcv_remote_physical_errors come from further away: a \
             link of the switch",
    life: while_it_holds(5, 60),
    implies: Implies::Nothing,
    area: Some(Area::Network),
    chain: Chain::OF_THE_NETWORK,
    limits: &[&EVENTS, &WINDOW],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const EVENTS: Limit = Limit::count("nic-errors", "events", 10.0, "a port that counts fewer errors than this in the window is healthy");
const WINDOW: Limit = Limit::seconds("nic-errors", "window", 60.0, "errors are counted over this time");

/// TCP bears some of what full buffers drop, so that it takes so many times as much.
const BEARABLE: f64 = 100.0;

/// What a counter that grows means, if it is one of these.
fn means(sign: Sign) -> Option<&'static str> {
    match sign {
        Sign::Damage(means) | Sign::FullBuffer(means) | Sign::Silent(means) => Some(means),
        _ => None,
    }
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let now = ctx.model.now;
    out.extend(wires(ctx.model).iter().filter(|wire| !wire.is_unsettled(now)).filter_map(|wire| of_wire(ctx, wire)));
}

fn of_wire(ctx: &TickContext, wire: &Wire) -> Option<Finding> {
    let mut grew = wire.steady(|sign| means(sign).is_some(), ctx.model.now, WINDOW.duration());
    grew.retain(|g| !matches!(g.sign, Sign::FullBuffer(_)) || g.growth.by as f64 >= EVENTS.value() * BEARABLE);
    grew.sort_by_key(|g| std::cmp::Reverse(g.growth.by));
    let most = grew.first()?;
    if (sum(&grew) as f64) < EVENTS.value() && !matches!(most.sign, Sign::Silent(_)) {
        return None;
    }
    let per_min = most.growth.per_s() * 60.0;
    let name = most.name.strip_prefix("ethtool/").unwrap_or(&most.name);
    let summary = format!("{} {} counts errors: {} {name} a minute", wire.kind(), wire.name, scaled(per_min));
    let mut found = ctx.of_wire(&RULE, wire, summary, ctx.model.now.minus(most.growth.over), talking_job(ctx.model));
    found.confidence = Confidence::Certain;
    found.why = [means(most.sign).map(str::to_owned), wire.blind()].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let ethtool = |n: &crate::model::port::Netdev| format!("ethtool -S {} | grep -e err -e discard -e drop", n.sample.name);
    found.next = Some(wire.netdev.map_or_else(|| "`mlxlink -d DEVICE -m -c` or `rdma statistic show`, twice".into(), ethtool));
    found.evidence = grew.iter().map(super::ports::Grew::proof).collect();
    Some(found)
}
