//! A port works, but counts damaged or dropped packets all the time.

use super::chain::Chain;
use super::ports::{Wire, sum, talking_job, wires};
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::scaled;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nic-errors",
    severity: Severity::Warning,
    title: "A network port counts damaged or dropped packets all the time",
    how: "Counters of symbol, CRC, receive and transmit errors below /sys/class/infiniband and /sys/class/net, and ethtool's, grow in at least two \
          of three parts of the time. What they stood at before does not matter: months leave their marks on healthy ports",
    advice: "Clean or change cable and optics; compare with the port at the other end. port_rcv_remote_physical_errors come from further away: a \
             link of the switch",
    life: while_it_holds(5, 60),
    implies: Implies::Nothing,
    chain: Chain::OF_THE_NETWORK,
    limits: &[&EVENTS, &WINDOW],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const EVENTS: Limit = Limit::count("nic-errors", "events", 10.0, "a port that counts fewer errors than this in the window is well");
const WINDOW: Limit = Limit::seconds("nic-errors", "window", 60.0, "errors are counted over this time");

/// Of InfiniBand's PortCounters (not on RoCE), mlx5, bnxt_re, EFA, interfaces and ethtool. Buffers that overrun and packets that no
/// partition wants are left out: others make them. A failed transfer of an EFA is here, because no packet lost makes one.
const DAMAGED: &[(&str, &str)] = &[
    ("symbol_error", "damaged symbols: cable or optics"),
    ("link_error_recovery", "the link had to be trained again: cable or optics"),
    ("port_rcv_errors", "damaged packets received: cable or optics"),
    ("port_rcv_remote_physical_errors", "packets that were damaged further away"),
    ("local_link_integrity_errors", "damaged symbols: cable or optics"),
    ("port_xmit_discards", "packets that could not be sent: congestion, or the other end does not take them"),
    ("rx_icrc_encapsulated", "packets whose contents were changed on the way: optics, or a switch that rewrites headers"),
    ("rx_roce_errors", "damaged packets received"),
    ("tx_roce_errors", "packets that could not be sent"),
    ("rdma_read_wr_err", "RDMA reads that failed"),
    ("rdma_write_wr_err", "RDMA writes that failed"),
    ("device/no_completion_cmds", "commands that the device has not answered"),
    ("rx_crc_errors", "damaged packets received: cable or optics"),
    ("rx_frame_errors", "damaged packets received: cable or optics"),
    ("rx_errors", "packets received with errors"),
    ("tx_errors", "packets that could not be sent"),
    ("tx_carrier_errors", "packets that could not be sent: the link went away"),
    ("ethtool/rx_crc_errors_phy", "damaged packets received: cable or optics"),
    ("ethtool/rx_discards_phy", "packets dropped at the port, because the host or its buffers were too slow"),
    ("ethtool/tx_errors_phy", "packets that could not be sent"),
];

/// What buffers that are full drop: TCP bears some of it, so that it takes a hundred times as much.
const DROPPED: &[&str] = &["port_xmit_discards", "ethtool/rx_discards_phy"];
const BEARABLE: f64 = 100.0;

/// What a device that has stopped answering counts.
const ANY: &[&str] = &["device/no_completion_cmds"];

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let now = ctx.model.now;
    out.extend(wires(ctx.model).iter().filter(|wire| !wire.is_unsettled(now)).filter_map(|wire| of_wire(ctx, wire)));
}

fn of_wire(ctx: &TickContext, wire: &Wire) -> Option<Finding> {
    let meaning = |name: &str| DAMAGED.iter().find(|(known, _)| *known == name).map(|(_, means)| *means);
    let mut grew = wire.steady(|name| meaning(name).is_some(), ctx.model.now, WINDOW.duration());
    grew.retain(|g| !DROPPED.contains(&g.name.as_str()) || g.growth.by as f64 >= EVENTS.value() * BEARABLE);
    grew.sort_by_key(|g| std::cmp::Reverse(g.growth.by));
    let most = grew.first()?;
    if (sum(&grew) as f64) < EVENTS.value() && !ANY.contains(&most.name.as_str()) {
        return None;
    }
    let per_min = most.growth.per_s() * 60.0;
    let name = most.name.strip_prefix("ethtool/").unwrap_or(&most.name);
    let summary = format!("{} {} counts errors: {} {name} a minute", wire.kind(), wire.name, scaled(per_min));
    let mut found = ctx.of_wire(&RULE, wire, summary, ctx.model.now.minus(most.growth.over), talking_job(ctx.model));
    found.confidence = Confidence::Certain;
    found.why = [meaning(&most.name).map(str::to_owned), wire.blind()].into_iter().flatten().collect::<Vec<_>>().join("; ");
    let ethtool = |n: &crate::model::port::Netdev| format!("ethtool -S {} | grep -e err -e discard -e drop", n.sample.name);
    found.next = Some(wire.netdev.map_or_else(|| "`mlxlink -d DEVICE -m -c` or `rdma statistic show`, twice".into(), ethtool));
    found.evidence = grew.iter().map(super::ports::Grew::proof).collect();
    Some(found)
}
