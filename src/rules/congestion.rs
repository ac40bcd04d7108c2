//! The network slows a port down: more is sent to one place than it can take in.

use super::area::Area;
use super::chain::Chain;
use super::ports::{Grew, Wire, sum, talking_job, wires};
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::port_counters::{Congestion, Sign};
use crate::base::severity::Severity;
use crate::base::units::scaled;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "congestion",
    severity: Severity::Warning,
    title: "The network slows a port down: more is sent to one place than it can take in",
    says: "{is|are} slowed down by the network",
    how: "RoCE: notifications of congestion (rp_cnp_handled, np_cnp_sent) and pause frames of PFC (ethtool's rx_prioN_pause, tx_prioN_pause, \
          rx_global_pause, and what bnxt and ice call them). EFA: unresponsive_remote_events, impaired_remote_conn_events. Some are usual wherever many send to one; what counts is \
          a high rate in two of three parts of the time",
    advice: "The port receives pauses or handles notifications: look for the congested hop further on, and for other jobs on the same links. It \
             sends pauses: this host takes in data too slowly (PCIe, NUMA, a slow GPU). EFA: a peer, or a security group that does not let everything \
             through",
    life: while_it_holds(5, 60),
    implies: Implies::Nothing,
    area: Some(Area::Network),
    chain: Chain::OF_THE_NETWORK,
    limits: &[&PER_S, &EVENTS, &WINDOW],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const PER_S: Limit = Limit::count("congestion", "per-second", 3000.0, "notifications or pause frames in a second that are too many");
const EVENTS: Limit = Limit::count("congestion", "events", 3.0, "connections of an EFA in the window that did not answer or were impaired");
const WINDOW: Limit = Limit::seconds("congestion", "window", 30.0, "they are counted over this time");

const PEER: Sign = Sign::Congestion(Congestion::Peer);

fn words(kind: Congestion) -> &'static str {
    match kind {
        Congestion::HeldBack => "it sends slower because the network reports congestion on the way",
        Congestion::Incast => "more comes to it than it can take: many send to this port at once",
        Congestion::Paused => "the switch pauses it: a receiver further on is too slow",
        Congestion::Pauses => "it pauses the switch: this host takes in data too slowly",
        Congestion::Peer => "connections to other nodes do not answer, or are slowed down",
    }
}

fn unit(kind: Congestion) -> &'static str {
    match kind {
        Congestion::HeldBack | Congestion::Incast => "notifications of congestion",
        Congestion::Paused | Congestion::Pauses => "pause frames",
        Congestion::Peer => "events",
    }
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let wires = wires(ctx.model);
    let found: Vec<Finding> = wires.iter().filter(|wire| !wire.is_unsettled(ctx.model.now)).filter_map(|wire| of_wire(ctx, wire)).collect();
    let ports = wires.iter().filter(|wire| wire.port.is_some()).count();
    // What most ports see is not the fault of one of them.
    if found.len() > 2 && found.len() * 2 >= ports {
        out.extend(together(found, ports));
    } else {
        out.extend(found);
    }
}

fn together(found: Vec<Finding>, ports: usize) -> Option<Finding> {
    let names: Vec<String> = found.iter().flat_map(|f| f.ports.clone()).collect();
    let evidence = found.iter().filter_map(|f| f.evidence.first().cloned()).collect();
    let first = found.into_iter().next()?;
    let summary = format!("{} of {ports} ports are congested: {}", names.len(), first.summary.split(": ").last().unwrap_or_default());
    Some(Finding { subject: "all ports".into(), summary, ports: names, evidence, ..first })
}

fn of_wire(ctx: &TickContext, wire: &Wire) -> Option<Finding> {
    let model = ctx.model;
    let grew = wire.steady(|sign| matches!(sign, Sign::Congestion(_)), model.now, WINDOW.duration());
    let is_much = |g: &&Grew| g.sign != PEER && g.growth.per_s() >= PER_S.value();
    let most = grew.iter().filter(is_much).max_by(|a, b| a.growth.by.cmp(&b.growth.by));
    let peers: Vec<&Grew> = grew.iter().filter(|g| g.sign == PEER).collect();
    // Connections end one after the other when a job does.
    let ends = || {
        model.jobs.values().any(|j| j.taking_down_at.is_some() || j.ended_at.is_some_and(|at| model.now.since(at) < WINDOW.duration() * 2))
    };
    let many = peers.iter().map(|g| g.growth.by).sum::<u64>() as f64 >= EVENTS.value();
    let most = most.or_else(|| peers.into_iter().max_by_key(|g| g.growth.by).filter(|_| many && !ends()))?;
    let Sign::Congestion(kind) = most.sign else { return None };
    let rate = match kind {
        Congestion::Peer => format!("{} {} in {:.0} s", sum(&grew), most.name, WINDOW.value()),
        _ => format!("{} {} a second", scaled(most.growth.per_s()), unit(kind)),
    };
    let summary = format!("{} {} is congested: {rate}", wire.kind(), wire.name);
    let mut found = ctx.of_wire(&RULE, wire, summary, model.now.minus(most.growth.over), talking_job(model));
    found.why = words(kind).into();
    let pause = |n: &crate::model::port::Netdev| format!("ethtool -S {} | grep -e pause -e discard; twice", n.sample.name);
    found.next = Some(wire.netdev.map_or_else(|| "rdma statistic show; twice".into(), pause));
    found.evidence = grew.iter().map(Grew::proof).collect();
    Some(found)
}
