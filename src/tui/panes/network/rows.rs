//! A port or an interface as a row of the table: what it is, its columns and cells.

use super::groups::{fold, is_slow, median};
use crate::base::clean::clean;
use crate::base::port_counters::Class;
use crate::base::time::{Stamp, span};
use crate::base::units::{bits_per_s, line_rate, scaled};
use crate::base::words::{natural, ranges};
use crate::model::port::{Counters, Known, Link, LinkHistory, Netdev, Port, capacity};
use crate::model::series::Trend;
use crate::model::topology::{Place, Topology};
use crate::tui::panes::Ctx;
use crate::tui::widgets::spark::Axis;
use crate::tui::widgets::table::{self, Cell, Column, SortKey, plain};
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Counters are read every second: a value stands that long.
const HOLD: Duration = Duration::from_secs(3);
/// Counters of interfaces count frames that nobody wants, too: only more per second than this stands out.
const USUAL_DROPS: f64 = 1.0;

/// A port or an interface.
#[derive(Clone)]
pub(super) struct Nic<'a> {
    /// Of the row.
    pub(super) id: String,
    pub(super) name: String,
    pub(super) kind: &'static str,
    pub(super) link: &'a LinkHistory,
    /// bits/s
    pub(super) line: Option<u64>,
    /// bytes/s
    pub(super) tx: Option<f64>,
    pub(super) rx: Option<f64>,
    pub(super) loss: Option<f64>,
    /// Clearly behind its siblings, in one direction or both.
    pub(super) slow: bool,
    pub(super) counters: &'a Counters,
    pub(super) trends: (&'a Trend, &'a Trend),
    pub(super) port: Option<&'a Port>,
    pub(super) netdev: Option<&'a Netdev>,
    /// Of a row that stands for several; what else it says is their sum, and else what the first of them says.
    pub(super) members: Vec<Nic<'a>>,
    /// The nearest GPUs: `0-3,6`.
    pub(super) near: Option<String>,
}

#[derive(Clone, Copy)]
pub(super) enum Way {
    In,
    Out,
}

impl<'a> Nic<'a> {
    pub(super) fn of_port(port: &'a Port, alone: bool, now: Stamp) -> Nic<'a> {
        Nic {
            id: port.name(),
            name: clean(&if alone { port.info.device.clone() } else { port.name() }).into_owned(),
            kind: port.info.kind.as_str(),
            link: &port.link,
            line: port.sample.line_rate_bits_per_s.filter(|r| *r > 0),
            tx: port.tx_newest(now),
            rx: port.rx_newest(now),
            loss: port.loss.per_s(now),
            slow: false,
            counters: &port.counters,
            trends: (&port.tx, &port.rx),
            port: Some(port),
            netdev: None,
            members: Vec::new(),
            near: None,
        }
    }

    pub(super) fn of_netdev(netdev: &'a Netdev, now: Stamp) -> Nic<'a> {
        let kind = match netdev.sample.arp_type {
            _ if !netdev.is_physical() => "virtual",
            Some(32) => "ipoib",
            _ => "eth",
        };
        Nic {
            id: netdev.sample.name.clone(),
            name: clean(&netdev.sample.name).into_owned(),
            kind,
            link: &netdev.link,
            line: netdev.sample.speed_mbits_per_s.map(|m| m.saturating_mul(1_000_000)).filter(|r| *r > 0),
            tx: netdev.tx_newest(now),
            rx: netdev.rx_newest(now),
            loss: netdev.loss.per_s(now),
            slow: false,
            counters: &netdev.counters,
            trends: (&netdev.tx, &netdev.rx),
            port: None,
            netdev: Some(netdev),
            members: Vec::new(),
            near: None,
        }
    }

    /// A row for several.
    pub(super) fn of_group(label: String, members: Vec<Nic<'a>>) -> Nic<'a> {
        let sum = |of: fn(&Nic) -> Option<f64>| members.iter().filter_map(of).reduce(|a, b| a + b);
        let first = members[0].clone();
        let id = format!("group {} {label}", first.kind);
        let ports: Vec<&Port> = members.iter().filter(|n| n.is_up()).filter_map(|n| n.port).collect();
        let line = if ports.is_empty() {
            members.iter().filter_map(|n| n.line).reduce(u64::saturating_add)
        } else {
            Some(capacity(ports.into_iter()))
        };
        Nic {
            name: label,
            line: line.filter(|line| *line > 0),
            tx: sum(|n| n.tx),
            rx: sum(|n| n.rx),
            loss: sum(|n| n.loss),
            slow: members.iter().any(|n| n.slow),
            members,
            id,
            ..first
        }
    }

    pub(super) fn bus(&self) -> Option<&'a str> {
        self.port.and_then(|p| p.info.bus_id.as_deref()).or_else(|| self.netdev?.sample.bus_id.as_deref())
    }

    pub(super) fn is_group(&self) -> bool {
        !self.members.is_empty()
    }

    /// Of a port, or the sum of a group.
    pub(super) fn sum(&self, of: impl Fn(&Nic) -> Option<f64>) -> Option<f64> {
        if self.is_group() { self.members.iter().filter_map(of).reduce(|a, b| a + b) } else { of(self) }
    }

    /// The first of these counters that there is, per second.
    pub(super) fn rate(&self, names: &[&str]) -> Option<f64> {
        self.sum(|n| names.iter().find_map(|name| n.counters.rate(name)))
    }

    pub(super) fn class(&self, class: Class) -> Option<f64> {
        self.sum(|n| n.counters.class_rate(class))
    }

    /// A virtual interface that nothing passes.
    pub(super) fn is_idle_virtual(&self) -> bool {
        self.link.now == Link::Down && self.netdev.is_some_and(|n| !n.is_physical())
    }

    pub(super) fn is_up(&self) -> bool {
        self.link.now == Link::Up
    }

    /// It was up, and is not: one that never was is not used.
    pub(super) fn is_lost(&self) -> bool {
        // A bridge without its containers is no fault.
        let is_real = self.netdev.is_none_or(|n| n.is_physical());
        is_real && !self.is_up() && self.link.was_up && (self.link.now == Link::Down || self.port.is_some_and(Port::is_gone))
    }

    pub(super) fn loses(&self) -> bool {
        self.loss.is_some_and(|l| if self.port.is_some() { l > 0.0 } else { l > USUAL_DROPS })
    }

    /// Of its line rate.
    pub(super) fn share(&self, way: Way) -> Option<f64> {
        let bytes = match way {
            Way::In => self.rx,
            Way::Out => self.tx,
        };
        Some(bytes? * 8.0 / self.line? as f64)
    }

    /// Of the busier direction.
    pub(super) fn busier(&self) -> Option<f64> {
        let shares = [Way::In, Way::Out].into_iter().filter_map(|w| self.share(w));
        shares.reduce(f64::max)
    }

    pub(super) fn state(&self) -> Option<String> {
        match self.port {
            Some(port) if port.is_gone() => Some("gone".into()),
            // What is not simply down says how far it got: `init`, `armed`.
            Some(port) if self.link.now == Link::Down => port.sample.state.as_deref().map(|s| clean(s).to_lowercase()),
            _ if self.link.now == Link::Unknown => None,
            _ => Some(self.link.now.as_str().to_owned()),
        }
    }

    /// The counter that loses most just now.
    pub(super) fn loss_word(&self) -> &'a str {
        let losses = || self.losses();
        let most = losses().filter(|l| l.rate > Some(0.0)).max_by(|a, b| a.rate.unwrap_or(0.0).total_cmp(&b.rate.unwrap_or(0.0)));
        // Between two losses: the only one that ever counted.
        let mut ever = losses().filter(|l| l.value > 0);
        let only = ever.next().filter(|_| ever.next().is_none());
        most.or(only).map_or("loss", |l| l.name)
    }

    pub(super) fn losses(&self) -> impl Iterator<Item = Known<'a>> {
        self.counters.meaningful().filter(|known| known.meaning.is_loss)
    }
}

/// Those that pass the filter, in the order of devices: ports, interfaces of hardware, virtual ones.
pub(super) fn nics<'a>(ctx: &Ctx<'a>) -> Vec<Nic<'a>> {
    let mut all = all_nics(ctx);
    table::retain(ctx, &columns(0), &mut all);
    all
}

pub(super) fn all_nics<'a>(ctx: &Ctx<'a>) -> Vec<Nic<'a>> {
    let model = &ctx.session.model;
    let mut per_device: BTreeMap<&str, usize> = BTreeMap::new();
    model.ports.keys().for_each(|(device, _)| *per_device.entry(device).or_default() += 1);
    let ports = model.ports.values().map(|p| Nic::of_port(p, per_device.get(p.info.device.as_str()) == Some(&1), model.now));
    let netdevs = model.netdevs.values().filter(|n| !n.is_loopback()).map(|n| Nic::of_netdev(n, model.now));
    let mut all: Vec<Nic> = ports.chain(netdevs).collect();
    let topology = Topology::of(model);
    all.iter_mut().for_each(|nic| nic.near = near(&topology, nic));
    all.sort_by_cached_key(|n| (n.netdev.is_some(), n.netdev.is_some_and(|d| !d.is_physical()), natural(&n.id)));
    for group in fold(&all).groups {
        for way in [Way::In, Way::Out] {
            let median = median(&all, &group, way);
            for i in &group.members {
                all[*i].slow |= is_slow(&all[*i], way, median);
            }
        }
    }
    all
}

pub(super) const PACKETS_IN: &[&str] = &["rx_pkts", "port_rcv_packets", "rx_packets"];
pub(super) const PACKETS_OUT: &[&str] = &["tx_pkts", "port_xmit_packets", "tx_packets"];
/// Bytes that this node asked for, and those that it sent unasked. EFA's alone: others do not count them apart.
pub(super) const READ: &[&str] = &["rdma_read_bytes"];
pub(super) const WRITTEN: &[&str] = &["rdma_write_bytes"];

pub(super) fn columns<'a>(history_cells: u16) -> Vec<Column<Nic<'a>>> {
    vec![
        Column::word("port", 12, 14, 0, name, |_, n| SortKey::word(natural(&n.name))),
        Column::word("kind", 5, 10, 7, |_, n| plain(n.kind), |_, n| SortKey::word(n.kind)),
        Column::word("state", 6, 14, 0, state, |_, n| SortKey::word(n.state().unwrap_or_default())),
        Column::amount("line b/s", 8, 4, |_, n| n.line.map(|l| l as f64), |l| line_rate(l as u64)),
        Column::amount("in b/s", 6, 1, |_, n| n.rx, bits_per_s),
        Column::amount("out b/s", 7, 1, |_, n| n.tx, bits_per_s),
        Column::number("share%", 6, 2, share, |_, n| SortKey::number(n.busier())),
        Column::word("each", 4, 8, 5, each, |_, n| SortKey::number(n.busier())),
        Column::number("loss/s", 6, 1, loss, |_, n| SortKey::number(n.loss)),
        Column::amount("resent/s", 8, 9, |_, n| n.class(Class::Retransmission), scaled),
        Column::amount("cong/s", 6, 9, |_, n| n.class(Class::Congestion), scaled),
        Column::amount("err/s", 6, 9, |_, n| n.class(Class::Error), scaled),
        Column::amount("packets in/s", 12, 10, |_, n| n.rate(PACKETS_IN), scaled),
        Column::amount("packets out/s", 13, 10, |_, n| n.rate(PACKETS_OUT), scaled),
        Column::amount("read b/s", 8, 11, |_, n| n.rate(READ), bits_per_s),
        Column::amount("write b/s", 9, 11, |_, n| n.rate(WRITTEN), bits_per_s),
        Column::number("near GPU", 8, 6, |_, n| plain(n.near.clone()?), |_, n| SortKey::word(n.near.clone().unwrap_or("~".into()))),
        Column::word("netdev", 8, 15, 7, |_, n| plain(clean(n.port?.info.netdev.as_deref()?)), |_, n| SortKey::word(netdev(n))),
        Column::spark(history_cells, 60, 3, history),
    ]
}

fn netdev(nic: &Nic) -> String {
    nic.port.and_then(|p| p.info.netdev.clone()).unwrap_or("~".into())
}

pub(super) fn pct(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

fn name(ctx: &Ctx, nic: &Nic) -> Cell {
    let is_lost = nic.members.iter().any(Nic::is_lost) || nic.is_lost() && !nic.is_group();
    Some((nic.name.clone(), is_lost.then_some(ctx.theme.act)))
}

/// A cell for each member of a group: how busy it is.
fn each(_: &Ctx, nic: &Nic) -> Cell {
    let mark = |n: &Nic| match n.busier().filter(|s| n.is_up() && s.is_finite()) {
        Some(share) => BARS[((share * 8.0).round() as usize).clamp(1, 8) - 1],
        None if n.is_lost() => "×",
        None => "·",
    };
    if nic.is_group() { plain(nic.members.iter().map(mark).collect::<String>()) } else { None }
}

fn state(ctx: &Ctx, nic: &Nic) -> Cell {
    if nic.is_group() {
        let (up, lost) = (nic.members.iter().filter(|n| n.is_up()).count(), nic.members.iter().filter(|n| n.is_lost()).count());
        return Some(if lost > 0 { (format!("{up} up {lost} DOWN"), Some(ctx.theme.act)) } else { (format!("{up} up"), None) });
    }
    let word = nic.state()?;
    Some(if nic.is_lost() {
        (format!("{word} {}", span(ctx.session.model.now.since(nic.link.since))), Some(ctx.theme.act))
    } else {
        (word, (!nic.is_up()).then_some(ctx.theme.dim))
    })
}

fn share(ctx: &Ctx, nic: &Nic) -> Cell {
    Some((pct(nic.busier()?), nic.slow.then_some(ctx.theme.look)))
}

fn loss(ctx: &Ctx, nic: &Nic) -> Cell {
    Some((scaled(nic.loss?), nic.loses().then_some(ctx.theme.look)))
}

/// Share of the line rate, of the busier direction; without a rate, bytes as they come.
fn history(_: &Ctx, nic: &Nic, axis: Axis) -> (Vec<Option<f32>>, f32) {
    let columns = |trend: &Trend| trend.columns(axis.end, axis.step, axis.columns, HOLD);
    let busier = |n: &Nic| {
        let both = columns(n.trends.0).into_iter().zip(columns(n.trends.1));
        both.map(|(tx, rx)| tx.into_iter().chain(rx).reduce(f32::max)).collect::<Vec<_>>()
    };
    let values = if nic.is_group() {
        let add = |a: Vec<Option<f32>>, b: Vec<Option<f32>>| {
            a.into_iter().zip(b).map(|(a, b)| a.into_iter().chain(b).reduce(|a, b| a + b)).collect()
        };
        nic.members.iter().map(busier).reduce(add).unwrap_or_default()
    } else {
        busier(nic)
    };
    let max = match nic.line {
        Some(line) => line as f32 / 8.0,
        None => values.iter().flatten().copied().fold(0.0, f32::max),
    };
    (values, max)
}

/// The GPUs that are nearest, where that says something.
fn near(topology: &Topology, nic: &Nic) -> Option<String> {
    let found = match (nic.port, nic.netdev) {
        (Some(port), _) => topology.nearest_gpus(&Place::of_port(&port.info)),
        (_, netdev) => topology.nearest_gpus(&topology.place_of_interface(netdev?)),
    };
    (!found.is_empty()).then(|| ranges(&found))
}
