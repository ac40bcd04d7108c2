//! What the network does: RDMA ports, then interfaces. Many ports of one kind and rate are one line and two strips of cells, so that 32
//! of them fit and one that lags behind its siblings stands out. Alone, the pane is a table: many of one kind stand in groups by the GPU
//! that they are near to, or else in as many as there are GPUs, in the order of the PCI bus; enter opens and closes a group.
//!
//! ```text
//! 32 × efa 100G  32 up  in  60%  out  60%  loss 0.8/s  worst rdmap147s0  40%
//! in  ▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▃▅▅▅▅▅▅▅▅▅▅▅▅▅  40 to 62%
//! out ▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▅▃▅▅▅▅▅▅▅▅▅▅▅▅▅  40 to 62%
//! ▲ rdmap181s0  retrans_pkts 0.8/s
//! ```

use super::{Ctx, Pane};
use crate::base::clean::clean;
use crate::base::port_counters::Class;
use crate::base::time::{Stamp, span};
use crate::base::units::{bits_per_s, line_rate, scaled};
use crate::base::words::natural;
use crate::model::QueuePairUser;
use crate::model::port::{Counters, Known, Link, LinkHistory, Netdev, Port, capacity};
use crate::model::series::Trend;
use crate::model::topology::{Place, Topology};
use crate::tui::choices::Opened;
use crate::tui::layout::Want;
use crate::tui::widgets::spark::Axis;
use crate::tui::widgets::table::{self, Cell, Column, SortKey, plain};
use crate::tui::widgets::{Pen, first_shown, labelled};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::BTreeMap;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

pub const PANE: Pane = Pane {
    id: "network",
    shows: "EFA, InfiniBand, RoCE and Ethernet ports",
    title,
    want,
    rows,
    sorts: || table::sorts(&columns(0)),
    row_at,
    open,
    draw,
};

/// More of one kind and rate than this are one line.
const SINGLE: usize = 4;
/// Alone, more of one kind and rate than this stand in groups.
const IN_TABLE: usize = 8;
/// Lines of the screen that the table has not, when the pane is alone: frame, head, footer, detail.
const AROUND: usize = 20;
const BARS: [&str; 8] = ["▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"];
/// Ports in trouble that have a line of their own.
const TROUBLES: usize = 4;
/// Below this share of what its siblings do, a port lags behind them, once they do enough to compare.
const SLOW: f64 = 0.8;
const BUSY: f64 = 0.1;
/// Counters are read every second: a value stands that long.
const HOLD: Duration = Duration::from_secs(3);
/// Counters of interfaces count frames that nobody wants, too: only more per second than this stands out.
const USUAL_DROPS: f64 = 1.0;

/// A port or an interface.
#[derive(Clone)]
struct Nic<'a> {
    /// Of the row.
    id: String,
    name: String,
    kind: &'static str,
    link: &'a LinkHistory,
    /// bits/s
    line: Option<u64>,
    /// bytes/s
    tx: Option<f64>,
    rx: Option<f64>,
    loss: Option<f64>,
    /// Clearly behind its siblings, in one direction or both.
    slow: bool,
    counters: &'a Counters,
    trends: (&'a Trend, &'a Trend),
    port: Option<&'a Port>,
    netdev: Option<&'a Netdev>,
    /// Of a row that stands for several; what else it says is their sum, and else what the first of them says.
    members: Vec<Nic<'a>>,
    /// The group that its row belongs to.
    group: Option<String>,
    /// The nearest GPUs: `0-3,6`.
    near: Option<String>,
}

#[derive(Clone, Copy)]
enum Way {
    In,
    Out,
}

impl<'a> Nic<'a> {
    fn of_port(port: &'a Port, alone: bool, now: Stamp) -> Nic<'a> {
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
            group: None,
            near: None,
        }
    }

    fn of_netdev(netdev: &'a Netdev, now: Stamp) -> Nic<'a> {
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
            group: None,
            near: None,
        }
    }

    /// A row for several.
    fn of_group(label: String, members: Vec<Nic<'a>>) -> Nic<'a> {
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
            members: members.into_iter().map(|member| Nic { group: Some(id.clone()), ..member }).collect(),
            id,
            ..first
        }
    }

    fn bus(&self) -> Option<&'a str> {
        self.port.and_then(|p| p.info.bus_id.as_deref()).or_else(|| self.netdev?.sample.bus_id.as_deref())
    }

    fn is_group(&self) -> bool {
        !self.members.is_empty()
    }

    /// Of a port, or the sum of a group.
    fn sum(&self, of: impl Fn(&Nic) -> Option<f64>) -> Option<f64> {
        if self.is_group() { self.members.iter().filter_map(of).reduce(|a, b| a + b) } else { of(self) }
    }

    /// The first of these counters that there is, per second.
    fn rate(&self, names: &[&str]) -> Option<f64> {
        self.sum(|n| names.iter().find_map(|name| n.counters.rate(name)))
    }

    fn class(&self, class: Class) -> Option<f64> {
        self.sum(|n| n.counters.class_rate(class))
    }

    /// A virtual interface that nothing passes.
    fn is_idle_virtual(&self) -> bool {
        self.link.now == Link::Down && self.netdev.is_some_and(|n| !n.is_physical())
    }

    fn is_up(&self) -> bool {
        self.link.now == Link::Up
    }

    /// It was up, and is not: one that never was is not used.
    fn is_lost(&self) -> bool {
        // A bridge without its containers is no fault.
        let is_real = self.netdev.is_none_or(|n| n.is_physical());
        is_real && !self.is_up() && self.link.was_up && (self.link.now == Link::Down || self.port.is_some_and(Port::is_gone))
    }

    fn loses(&self) -> bool {
        self.loss.is_some_and(|l| if self.port.is_some() { l > 0.0 } else { l > USUAL_DROPS })
    }

    /// Of its line rate.
    fn share(&self, way: Way) -> Option<f64> {
        let bytes = match way {
            Way::In => self.rx,
            Way::Out => self.tx,
        };
        Some(bytes? * 8.0 / self.line? as f64)
    }

    /// Of the busier direction.
    fn busier(&self) -> Option<f64> {
        let shares = [Way::In, Way::Out].into_iter().filter_map(|w| self.share(w));
        shares.reduce(f64::max)
    }

    fn state(&self) -> Option<String> {
        match self.port {
            Some(port) if port.is_gone() => Some("gone".into()),
            // What is not simply down says how far it got: `init`, `armed`.
            Some(port) if self.link.now == Link::Down => port.sample.state.as_deref().map(|s| clean(s).to_lowercase()),
            _ if self.link.now == Link::Unknown => None,
            _ => Some(self.link.now.as_str().to_owned()),
        }
    }

    /// The counter that loses most just now.
    fn loss_word(&self) -> &'a str {
        let losses = || self.losses();
        let most = losses().filter(|l| l.rate > Some(0.0)).max_by(|a, b| a.rate.unwrap_or(0.0).total_cmp(&b.rate.unwrap_or(0.0)));
        // Between two losses: the only one that ever counted.
        let mut ever = losses().filter(|l| l.value > 0);
        let only = ever.next().filter(|_| ever.next().is_none());
        most.or(only).map_or("loss", |l| l.name)
    }

    fn losses(&self) -> impl Iterator<Item = Known<'a>> {
        self.counters.meaningful().filter(|known| known.meaning.is_loss)
    }
}

/// All, in the order of devices: ports, interfaces of hardware, virtual ones.
fn nics<'a>(ctx: &Ctx<'a>) -> Vec<Nic<'a>> {
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

/// Those of one kind and rate.
struct Group {
    kind: &'static str,
    line: Option<u64>,
    /// Of all, in their order.
    members: Vec<usize>,
}

struct Folded {
    groups: Vec<Group>,
    /// Members that are down or lose packets, the worst first.
    troubles: Vec<usize>,
    /// What has a row of its own.
    single: Vec<usize>,
}

fn fold(nics: &[Nic]) -> Folded {
    let mut rates: BTreeMap<&str, BTreeMap<Option<u64>, usize>> = BTreeMap::new();
    for nic in nics.iter().filter(|n| n.is_up()) {
        *rates.entry(nic.kind).or_default().entry(nic.line).or_default() += 1;
    }
    // What a port says of its rate while it is down is no rate: it stays with most of its kind.
    let usual = |kind: &str| rates.get(kind).and_then(|r| r.iter().max_by_key(|(_, n)| **n)).and_then(|(line, _)| *line);
    let mut groups: Vec<Group> = Vec::new();
    for (i, nic) in nics.iter().enumerate() {
        let line = if nic.is_up() { nic.line } else { usual(nic.kind).or(nic.line) };
        match groups.iter_mut().find(|g| (g.kind, g.line) == (nic.kind, line)) {
            Some(group) => group.members.push(i),
            None => groups.push(Group { kind: nic.kind, line, members: vec![i] }),
        }
    }
    groups.iter_mut().for_each(|g| g.members.retain(|i| !nics[*i].is_idle_virtual()));
    let mut single: Vec<usize> = groups.iter().filter(|g| g.members.len() <= SINGLE).flat_map(|g| g.members.iter().copied()).collect();
    single.sort_unstable();
    groups.retain(|g| g.members.len() > SINGLE);
    let members = groups.iter().flat_map(|g| g.members.iter().copied());
    let mut troubles: Vec<usize> = members.filter(|i| nics[*i].is_lost() || nics[*i].loses()).collect();
    troubles.sort_by(|a, b| {
        let worth = |i: &usize| if nics[*i].is_lost() { f64::MAX } else { nics[*i].loss.unwrap_or(0.0) };
        worth(b).total_cmp(&worth(a))
    });
    Folded { groups, troubles, single }
}

/// What stands on the screen, from above.
#[derive(Clone, Debug, PartialEq)]
enum Piece {
    Group(usize),
    Strip(usize, bool),
    /// Of all.
    Trouble(usize),
    MoreTroubles(usize),
    /// With so many rows, the head included.
    Table(u16),
    Note(String),
}

impl Piece {
    fn height(&self) -> u16 {
        match self {
            Piece::Table(rows) => *rows,
            _ => 1,
        }
    }
}

impl Folded {
    fn has_strips(&self, group: usize) -> bool {
        self.groups[group].line.is_some()
    }

    /// What fits into a height: every group, what is in trouble, strips, single rows, notes; in the order in which they are read.
    fn pieces(&self, notes: &[String], height: u16) -> Vec<Piece> {
        let mut room = height;
        let mut take = |rows: u16| {
            let fits = rows <= room;
            room -= if fits { rows } else { 0 };
            fits
        };
        let groups: Vec<usize> = (0..self.groups.len()).filter(|_| take(1)).collect();
        let troubles = if self.troubles.len() > TROUBLES { TROUBLES - 1 } else { self.troubles.len() };
        let troubles = (0..troubles).filter(|_| take(1)).count();
        let more = self.troubles.len() - troubles;
        let more = if more > 0 && take(1) { more } else { 0 };
        let strips: Vec<bool> = groups.iter().map(|g| self.has_strips(*g) && take(2)).collect();
        let single = self.single.len() as u16;
        let table = if single == 0 || !take(2) { 0 } else { 2 + (1..single).filter(|_| take(1)).count() as u16 };
        let notes: Vec<&String> = notes.iter().filter(|_| take(1)).collect();
        let mut out = Vec::new();
        for (g, strips) in groups.iter().zip(strips) {
            out.push(Piece::Group(*g));
            if strips {
                out.extend([Piece::Strip(*g, true), Piece::Strip(*g, false)]);
            }
        }
        out.extend(self.troubles.iter().take(troubles).map(|t| Piece::Trouble(*t)));
        if more > 0 {
            out.push(Piece::MoreTroubles(more));
        }
        if table > 0 {
            out.push(Piece::Table(table));
        }
        out.extend(notes.into_iter().map(|n| Piece::Note(n.clone())));
        out
    }
}

/// What is not seen, and why.
fn notes(ctx: &Ctx, nics: &[Nic]) -> Vec<String> {
    let said = |id, otherwise: &str| ctx.source_detail(id).unwrap_or_else(|| otherwise.to_owned());
    let mut out = Vec::new();
    let ports = nics.iter().filter_map(|n| n.port);
    if ports.clone().next().is_none() {
        out.push(format!("RDMA: {}", said("rdma", "no port seen yet")));
    }
    if nics.iter().all(|n| n.netdev.is_none()) {
        out.push(format!("interfaces: {}", said("netdev", "none seen yet")));
    }
    let mut hidden: BTreeMap<&str, usize> = BTreeMap::new();
    ports.filter_map(|p| p.info.counters_hidden.as_deref()).for_each(|why| *hidden.entry(why).or_default() += 1);
    out.extend(hidden.iter().map(|(why, n)| format!("{n} RDMA {}: {}", if *n == 1 { "port" } else { "ports" }, clean(why))));
    out
}

/// The singles of the overview or, zoomed, all, in groups where they are many; as the user sorted them.
fn table_rows<'a>(ctx: &Ctx, nics: &[Nic<'a>], folded: &Folded) -> Vec<Nic<'a>> {
    if !ctx.zoomed {
        let mut rows: Vec<Nic> = folded.single.iter().map(|i| nics[*i].clone()).collect();
        table::sort(ctx, &columns(0), &mut rows);
        return rows;
    }
    let mut rows = clusters(ctx, nics);
    table::sort(ctx, &columns(0), &mut rows);
    let all = rows.iter().map(|row| row.members.len() + 1).sum::<usize>();
    let is_roomy = all + AROUND <= usize::from(ctx.ui.size.1);
    let mut out = Vec::with_capacity(rows.len());
    for mut row in rows {
        let is_open = row.is_group() && is_roomy != ctx.list().toggled.contains(&row.id);
        let mut members = if is_open { row.members.clone() } else { Vec::new() };
        if row.is_group() {
            row.name = format!("{} {}", if is_open { '-' } else { '+' }, row.name);
        }
        table::sort(ctx, &columns(0), &mut members);
        members.iter_mut().for_each(|member| member.name.insert_str(0, "  "));
        out.push(row);
        out.append(&mut members);
    }
    out
}

/// Many of one kind and rate stand in groups: by the GPUs that they are near to, where that is certain; else as many to a group as there
/// are for each GPU, in the order of the bus; else all in one.
fn clusters<'a>(ctx: &Ctx, nics: &[Nic<'a>]) -> Vec<Nic<'a>> {
    let gpus = &ctx.session.model.gpus;
    let mut kinds: Vec<(&str, Vec<Nic>)> = Vec::new();
    for nic in nics {
        match kinds.iter_mut().find(|(kind, _)| *kind == nic.kind) {
            Some((_, members)) => members.push(nic.clone()),
            None => kinds.push((nic.kind, vec![nic.clone()])),
        }
    }
    let mut out = Vec::new();
    for (kind, mut members) in kinds {
        let count = members.len();
        if count <= IN_TABLE {
            out.append(&mut members);
            continue;
        }
        let mut near_to: BTreeMap<String, Vec<Nic>> = BTreeMap::new();
        let places: Option<Vec<String>> = members.iter().map(|n| n.near.clone()).collect();
        let per_gpu = count.checked_div(gpus.len()).filter(|n| gpus.len() > 1 && *n > 1 && n * gpus.len() == count);
        if let Some(places) = places {
            places.into_iter().zip(members).for_each(|(gpu, nic)| near_to.entry(natural(&gpu)).or_default().push(nic));
            out.extend(near_to.into_values().map(|members| {
                let gpu = members[0].near.clone().unwrap_or_default();
                Nic::of_group(format!("GPU {gpu}"), members)
            }));
        } else if let Some(per_gpu) = per_gpu.filter(|_| members.iter().all(|n| n.bus().is_some())) {
            members.sort_by(|a, b| a.bus().cmp(&b.bus()));
            out.extend(members.chunks(per_gpu).map(|chunk| Nic::of_group(chunk[0].name.clone(), chunk.to_vec())));
        } else {
            out.push(Nic::of_group(format!("{count} {kind}"), members));
        }
    }
    out
}

/// Of a group, its ports; of a port in one, the group.
fn open(ctx: &Ctx) -> Opened {
    let nics = nics(ctx);
    let rows = table_rows(ctx, &nics, &fold(&nics));
    let selected = ctx.selected(&names(&[], &rows)).and_then(|s| rows.get(s));
    match selected {
        Some(row) if row.is_group() => Opened::Group(row.id.clone()),
        Some(Nic { group: Some(group), .. }) => Opened::Group(group.clone()),
        _ => Opened::Nothing,
    }
}

fn rows(ctx: &Ctx) -> Vec<String> {
    let nics = nics(ctx);
    let folded = fold(&nics);
    names(&troubles_shown(ctx, &nics, &folded), &table_rows(ctx, &nics, &folded))
}

fn troubles_shown<'b, 'a>(ctx: &Ctx, nics: &'b [Nic<'a>], folded: &Folded) -> Vec<&'b Nic<'a>> {
    let most = if folded.troubles.len() > TROUBLES { TROUBLES - 1 } else { TROUBLES };
    if ctx.zoomed { Vec::new() } else { folded.troubles.iter().take(most).map(|i| &nics[*i]).collect() }
}

fn names(troubles: &[&Nic], rows: &[Nic]) -> Vec<String> {
    troubles.iter().copied().chain(rows).map(|n| n.id.clone()).collect()
}

fn row_at(ctx: &Ctx, area: Rect, y: u16) -> Option<usize> {
    let nics = nics(ctx);
    let folded = fold(&nics);
    let rows = table_rows(ctx, &nics, &folded);
    let troubles = troubles_shown(ctx, &nics, &folded);
    let selected = ctx.selected(&names(&troubles, &rows));
    let in_table = |list: Rect, selected: Option<usize>| {
        let line = y.checked_sub(list.y + 1).filter(|_| y < list.bottom())?;
        let row = first_shown(rows.len(), selected, usize::from(list.height - 1)) + usize::from(line);
        (row < rows.len()).then_some(row)
    };
    if ctx.zoomed {
        return in_table(zoomed_areas(area, notes(ctx, &nics).len() as u16).0, selected);
    }
    let mut top = area.y;
    for piece in folded.pieces(&notes(ctx, &nics), area.height) {
        let height = piece.height();
        if (top..top + height).contains(&y) {
            return match piece {
                Piece::Trouble(i) => troubles.iter().position(|n| n.id == nics[i].id),
                Piece::Table(_) => {
                    let selected = selected.and_then(|s| s.checked_sub(troubles.len()));
                    Some(troubles.len() + in_table(Rect { y: top, height, ..area }, selected)?)
                }
                _ => None,
            };
        }
        top += height;
    }
    None
}

const PACKETS_IN: &[&str] = &["rx_pkts", "port_rcv_packets", "rx_packets"];
const PACKETS_OUT: &[&str] = &["tx_pkts", "port_xmit_packets", "tx_packets"];
/// Bytes that this node asked for, and those that it sent unasked. EFA's alone: others do not count them apart.
const READ: &[&str] = &["rdma_read_bytes"];
const WRITTEN: &[&str] = &["rdma_write_bytes"];

/// Alone and with room, history goes before what else could stand there.
fn least_history(ctx: &Ctx) -> u16 {
    if ctx.zoomed && ctx.ui.size.0 >= 100 { 24 } else { 8 }
}

fn columns<'a>(history_cells: u16) -> Vec<Column<Nic<'a>>> {
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
        Column::amount("again/s", 7, 9, |_, n| n.class(Class::Retransmission), scaled),
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

fn pct(share: f64) -> String {
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

/// `0-3,6`
pub(super) fn ranges(sorted: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in sorted {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(n) => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let word = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(word).collect::<Vec<_>>().join(",")
}

fn title(ctx: &Ctx) -> String {
    let nics = nics(ctx);
    let mut kinds: Vec<(&str, usize)> = Vec::new();
    for nic in &nics {
        match kinds.iter_mut().find(|(kind, _)| *kind == nic.kind) {
            Some((_, n)) => *n += 1,
            None => kinds.push((nic.kind, 1)),
        }
    }
    let lost = nics.iter().filter(|n| n.is_lost()).count();
    let mut parts: Vec<String> = kinds.iter().map(|(kind, n)| format!("{n} {kind}")).collect();
    if lost > 0 {
        parts.push(format!("{lost} DOWN"));
    }
    if parts.is_empty() { "Network".into() } else { format!("Network: {}", parts.join(", ")) }
}

fn want(ctx: &Ctx, _: u16) -> Option<Want> {
    let nics = nics(ctx);
    let folded = fold(&nics);
    let height = |pieces: &[Piece]| pieces.iter().map(Piece::height).sum::<u16>();
    let all = height(&folded.pieces(&notes(ctx, &nics), 1000));
    // Four of the single ones do.
    let comfort = all.saturating_sub(folded.single.len().saturating_sub(4).min(1000) as u16);
    let least = if folded.groups.is_empty() { 2.min(all) } else { 1 };
    // Beside NVLink alone, plain Ethernet shows less than NCCL's own counts.
    let priority = if ctx.session.model.ports.is_empty() { 6 } else { 4 };
    Some(Want { width: 30, least, comfort, all, priority, late: false, grows: false })
}

/// Of the list, the detail with the line above it, and the notes.
fn zoomed_areas(area: Rect, notes: u16) -> (Rect, Rect, Rect) {
    let notes = notes.min(area.height / 3);
    let room = area.height - notes;
    let detail = if room >= 16 { (room / 3).min(12) } else { 0 };
    let list = Rect { height: room - detail, ..area };
    (list, Rect { y: list.bottom(), height: detail, ..area }, Rect { y: list.bottom() + detail, height: notes, ..area })
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let nics = nics(ctx);
    let folded = fold(&nics);
    let notes = notes(ctx, &nics);
    let rows = table_rows(ctx, &nics, &folded);
    let troubles = troubles_shown(ctx, &nics, &folded);
    let selected = ctx.selected(&names(&troubles, &rows));
    let columns = columns(least_history(ctx));
    if ctx.zoomed {
        let (list, detail, below) = zoomed_areas(area, notes.len() as u16);
        if !rows.is_empty() {
            table::draw(ctx, &columns, &rows, selected, list, buf);
        }
        for (note, y) in notes.iter().zip(if rows.is_empty() { area.y..area.bottom() } else { below.y..below.bottom() }) {
            Pen::new(buf, Rect { y, ..area }).put(note, ctx.theme.dim);
        }
        if let Some(nic) = selected.and_then(|s| rows.get(s)).filter(|_| detail.height > 1) {
            let (_, inner) = super::split_detail(ctx, Rect { height: list.height + detail.height, ..list }, detail.height, buf);
            details(ctx, nic, inner, buf);
        }
        return;
    }
    let mut y = area.y;
    for piece in folded.pieces(&notes, area.height) {
        let place = Rect { y, height: piece.height(), ..area };
        match &piece {
            Piece::Group(g) => group_line(ctx, &nics, &folded.groups[*g], place, buf),
            Piece::Strip(g, into) => strip(ctx, &nics, &folded.groups[*g], if *into { Way::In } else { Way::Out }, place, buf),
            Piece::Trouble(i) => {
                trouble(ctx, &nics[*i], place, buf);
                if ctx.focused && selected.and_then(|s| troubles.get(s)).is_some_and(|n| n.id == nics[*i].id) {
                    buf.set_style(place, ctx.theme.selected);
                }
            }
            Piece::MoreTroubles(n) => Pen::new(buf, place).put(&format!("▲ {n} more ports are down or lose packets"), ctx.theme.look),
            Piece::Table(_) => {
                table::draw(ctx, &columns, &rows, selected.and_then(|s| s.checked_sub(troubles.len())), place, buf);
            }
            Piece::Note(note) => Pen::new(buf, place).put(note, ctx.theme.dim),
        }
        y += piece.height();
    }
}

/// What most of a group do.
fn median(nics: &[Nic], group: &Group, way: Way) -> Option<f64> {
    let mut shares: Vec<f64> = group.members.iter().filter(|i| nics[**i].is_up()).filter_map(|i| nics[*i].share(way)).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied()
}

/// How much a member does of what its siblings do, once they do enough to compare.
fn of_siblings(nic: &Nic, way: Way, median: Option<f64>) -> Option<f64> {
    let median = median.filter(|m| *m > BUSY)?;
    Some(nic.share(way).filter(|_| nic.is_up())? / median)
}

fn is_slow(nic: &Nic, way: Way, median: Option<f64>) -> bool {
    of_siblings(nic, way, median).is_some_and(|ratio| ratio < SLOW)
}

fn group_line(ctx: &Ctx, nics: &[Nic], group: &Group, area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let members = || group.members.iter().map(|i| &nics[*i]);
    let (up, lost) = (members().filter(|n| n.is_up()).count(), members().filter(|n| n.is_lost()).count());
    let unused = group.members.len() - up - lost;
    let line = group.line.map_or(String::new(), |l| format!(" {}", line_rate(l)));
    // In the order of the line, each with its importance: what matters less leaves first when it is narrow.
    let mut parts: Vec<(u8, Vec<(String, Style)>)> =
        vec![(0, vec![(format!("{} × {}{line}", group.members.len(), group.kind), theme.text)])];
    if lost > 0 {
        parts.push((1, vec![(format!("{lost} DOWN"), theme.act)]));
    }
    parts.push((5, vec![(format!("{up} up"), theme.text)]));
    for (label, way) in [("in", Way::In), ("out", Way::Out)] {
        let bytes = |n: &Nic| match way {
            Way::In => n.rx,
            Way::Out => n.tx,
        };
        let sum = members().filter(|n| n.is_up()).filter_map(bytes).reduce(|a, b| a + b);
        let counted = || members().filter(|n| n.is_up() && bytes(n).is_some());
        // Ports that share a plug share its rate.
        let lines = match counted().all(|n| n.port.is_some()) {
            true => capacity(counted().filter_map(|n| n.port)),
            false => counted().filter_map(|n| n.line).fold(0, u64::saturating_add),
        };
        let value = match sum {
            Some(sum) if lines > 0 => format!("{:>3}%", pct(sum * 8.0 / lines as f64)),
            Some(sum) => format!("{:>5} b/s", bits_per_s(sum)),
            None => "  –".into(),
        };
        parts.push((2, vec![(format!("{label} "), theme.dim), (value, theme.text)]));
    }
    let loss = members().filter_map(|n| n.loss).reduce(|a, b| a + b);
    let style = if members().any(Nic::loses) { theme.look } else { theme.text };
    parts.push((4, vec![("loss ".into(), theme.dim), (loss.map_or("–".into(), |l| format!("{}/s", scaled(l))), style)]));
    let ways = [Way::In, Way::Out].map(|w| (w, median(nics, group, w)));
    let slowness = members().flat_map(|n| ways.into_iter().filter_map(move |(w, m)| Some((of_siblings(n, w, m)?, n, w))));
    if let Some((ratio, nic, way)) = slowness.min_by(|a, b| a.0.total_cmp(&b.0)) {
        let share = nic.share(way).map_or(String::new(), |s| format!("{:>3}%", pct(s)));
        let words = format!("{} {share}", nic.name);
        parts.push(match (ratio < SLOW, area.width >= 60) {
            (false, _) => (6, vec![("worst ".into(), theme.dim), (words, theme.text)]),
            (true, true) => (3, vec![("worst ".into(), theme.dim), (words, theme.look)]),
            (true, false) => (3, vec![(words, theme.look)]),
        });
    }
    if unused > 0 {
        parts.push((7, vec![(format!("{unused} never up"), theme.dim)]));
    }
    let wide = |part: &[(String, Style)]| part.iter().map(|(text, _)| text.width()).sum::<usize>() + 2;
    // Half a number would be a wrong number: a part is there or not.
    while parts.len() > 1 && parts.iter().map(|(_, p)| wide(p)).sum::<usize>() > usize::from(area.width) + 2 {
        let last = (0..parts.len()).max_by_key(|i| (parts[*i].0, *i)).unwrap_or(0);
        parts.remove(last);
    }
    let mut pen = Pen::new(buf, area);
    for (i, (_, part)) in parts.iter().enumerate() {
        pen.skip(if i > 0 { 2 } else { 0 });
        part.iter().for_each(|(text, style)| pen.put(text, *style));
    }
}

/// One cell a member, and what the least and the most of them do.
fn strip(ctx: &Ctx, nics: &[Nic], group: &Group, way: Way, area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let median = median(nics, group, way);
    let mut pen = Pen::new(buf, area);
    pen.put(if matches!(way, Way::In) { "in  " } else { "out " }, theme.dim);
    let fit = if group.members.len() > usize::from(pen.room()) { usize::from(pen.room().saturating_sub(1)) } else { group.members.len() };
    for nic in group.members.iter().take(fit).map(|i| &nics[*i]) {
        match nic.share(way).filter(|s| nic.is_up() && s.is_finite()) {
            Some(share) => {
                let style = if is_slow(nic, way, median) { theme.look } else { theme.chart };
                pen.put(BARS[((share * 8.0).round() as usize).clamp(1, 8) - 1], style);
            }
            None if nic.is_lost() => pen.put("×", theme.act),
            None => pen.put("·", theme.dim),
        }
    }
    if fit < group.members.len() {
        pen.put("…", theme.dim);
    }
    let shares = || group.members.iter().filter(|i| nics[**i].is_up()).filter_map(|i| nics[*i].share(way));
    if let (Some(least), Some(most)) = (shares().reduce(f64::min), shares().reduce(f64::max)) {
        let words = format!("  {:>3} to {:>3}%", pct(least), pct(most));
        if usize::from(pen.room()) >= words.len() {
            pen.put(&words, theme.dim);
        }
    }
}

/// `■ rdmap143s1  down for 12 s`
fn trouble(ctx: &Ctx, nic: &Nic, area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let mut pen = Pen::new(buf, area);
    if nic.is_lost() {
        let word = nic.state().unwrap_or("down".into());
        let words = format!("■ {}  {word} for {}", nic.name, span(ctx.session.model.now.since(nic.link.since)));
        pen.put(&words, theme.act);
        return;
    }
    pen.put(&format!("▲ {}", nic.name), theme.look);
    pen.put(&format!("  {} {}/s", nic.loss_word(), scaled(nic.loss.unwrap_or(0.0))), theme.text);
}

/// What there is no column for, of one.
fn details(ctx: &Ctx, nic: &Nic, area: Rect, buf: &mut Buffer) {
    let mut lines = Vec::new();
    for (label, text, style) in facts(ctx, nic) {
        lines.extend(labelled(&format!("{label:<12}"), ctx.theme.dim, &text, style, usize::from(area.width)));
    }
    super::lines(area, buf, &lines);
}

/// Lines with their labels, what matters most first: there may be no room for all.
fn facts(ctx: &Ctx, nic: &Nic) -> Vec<(&'static str, String, Style)> {
    let theme = ctx.theme;
    let mut out = Vec::new();
    if nic.is_group() {
        let share = |n: &Nic| n.busier().map_or("–".to_owned(), |s| format!("{}%", pct(s)));
        let each: Vec<String> = nic.members.iter().map(|n| format!("{}\u{a0}{}", n.name, share(n))).collect();
        out.push(("ports", each.join("  "), theme.text));
    } else {
        out.push(("link", link_words(ctx, nic), if nic.is_lost() { theme.act } else { theme.text }));
    }
    out.push(("traffic", traffic_words(nic), theme.text));
    for class in Class::ALL {
        let (text, is_any) = class_words(nic, class);
        if let Some(text) = text {
            out.push((class.as_str(), text, if is_any { theme.look } else { theme.text }));
        }
    }
    if nic.is_group() {
        return out;
    }
    if let Some(port) = nic.port {
        if let Some(why) = &port.info.counters_hidden {
            out.push(("counters", clean(why).into_owned(), theme.look));
        }
        if !port.sample.unreadable.is_empty() {
            let unreadable: Vec<String> = port.sample.unreadable.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            out.push(("unreadable", unreadable.join("; "), theme.look));
        }
    }
    if let Some(words) = nic.port.and_then(|port| queue_pair_words(ctx, port)) {
        out.push(("queue pairs", words, theme.text));
    }
    out.push(("device", device_words(nic), theme.text));
    if let Some(port) = nic.port {
        out.push(("GPUDirect", known(&port.info.gpu_direct), theme.text));
    }
    let lost: Vec<String> = nic.losses().filter(|l| l.value > 0).map(|l| format!("{}\u{a0}{}", l.name, l.value)).collect();
    out.push(("lost in all", if lost.is_empty() { "nothing counted".to_owned() } else { lost.join("  ") }, theme.text));
    let rates = nic.counters.rates().iter().filter(|(_, rate)| **rate != 0.0);
    let rates: Vec<String> = rates.map(|(name, rate)| format!("{name}\u{a0}{}/s", scaled(*rate))).collect();
    out.push(("counts", if rates.is_empty() { "nothing moves".to_owned() } else { rates.join("  ") }, theme.text));
    out
}

/// `rank 3 (pid 4711) 16  ib_core 2`; `None` where nobody knows.
fn queue_pair_words(ctx: &Ctx, port: &Port) -> Option<String> {
    /// They are listed every quarter of a minute, unless that takes long.
    const FRESH: Duration = Duration::from_secs(60);
    let model = &ctx.session.model;
    let (at, users) = model.queue_pairs_of(port)?;
    let who = |user: &QueuePairUser| match (user.rank, user.pid, user.kernel) {
        (Some(rank), Some(pid), _) => format!("rank\u{a0}{rank}\u{a0}(pid\u{a0}{pid})"),
        (_, Some(pid), _) => format!("pid\u{a0}{pid}"),
        (_, None, Some(part)) => clean(part).into_owned(),
        (_, None, None) => "a thread that has ended".to_owned(),
    };
    let mut words: Vec<String> = users.iter().map(|user| format!("{}\u{a0}{}", who(user), user.count)).collect();
    if words.is_empty() {
        words.push("none".to_owned());
    }
    let age = model.now.since(at);
    words.extend((age > FRESH).then(|| format!("({} ago)", span(age))));
    Some(words.join("  "))
}

fn known(text: &Option<String>) -> String {
    text.as_deref().map_or("–".to_owned(), |v| clean(v).into_owned())
}

fn link_words(ctx: &Ctx, nic: &Nic) -> String {
    let model = &ctx.session.model;
    let lasting = span(model.now.since(nic.link.since));
    let first = model.started.is_some_and(|at| nic.link.since.since(at) < Duration::from_secs(5));
    let lasting = match (nic.state(), first) {
        (None, _) => "not known".to_owned(),
        (Some(word), true) => format!("{word} for {lasting} or longer"),
        (Some(word), false) => format!("{word} for {lasting}"),
    };
    let mut link = format!("{}  {lasting}", nic.name.trim());
    if let Some(port) = nic.port {
        link += &format!("  physical {}  layer {}", known(&port.sample.phys_state), known(&port.info.link_layer));
    }
    if let Some(netdev) = nic.netdev {
        let sample = &netdev.sample;
        let number = |n: Option<u64>| n.map_or("–".to_owned(), |n| n.to_string());
        link += &format!("  MTU {}  carrier changes {}", number(sample.mtu.map(u64::from)), number(sample.carrier_changes));
        if let Some(downs) = sample.carrier_down_count {
            link += &format!("  downs {downs}");
        }
    }
    link
}

fn traffic_words(nic: &Nic) -> String {
    let bits = |bytes: Option<f64>| bytes.map_or("–".to_owned(), |b| format!("{:.2} Gbit/s", b * 8.0 / 1e9));
    let share = |way| nic.share(way).map_or(String::new(), |s| format!(" {}%", pct(s)));
    let mut out = format!("in {}{}  out {}{}", bits(nic.rx), share(Way::In), bits(nic.tx), share(Way::Out));
    if let (Some(into), Some(sent)) = (nic.rate(PACKETS_IN), nic.rate(PACKETS_OUT)) {
        out += &format!("  packets {}/s in {}/s out", scaled(into), scaled(sent));
    }
    for (label, names) in [("RDMA read", READ), ("write", WRITTEN)] {
        if let Some(rate) = nic.rate(names) {
            out += &format!("  {label} {}", bits(Some(rate)));
        }
    }
    out
}

/// What of a class counts now, with what is healthy; `None` where there is no such counter. Whether one counts now that should
/// not.
fn class_words(nic: &Nic, class: Class) -> (Option<String>, bool) {
    if nic.is_group() {
        let rate = nic.class(class);
        return (rate.map(|rate| format!("{}/s", scaled(rate))), nic.members.iter().any(|member| class_words(member, class).1));
    }
    let of_class = nic.counters.meaningful().filter(|known| known.meaning.class == class);
    let mut known = of_class.filter_map(|known| Some((known.name, known.rate?, known.meaning))).peekable();
    if known.peek().is_none() {
        return (None, false);
    }
    let moving: Vec<_> = known.filter(|(_, rate, _)| *rate > 0.0).collect();
    let is_ill = moving.iter().any(|(_, _, meaning)| meaning.healthy.starts_with("none"));
    let words: Vec<String> = moving.iter().map(|(name, rate, m)| format!("{name} {}/s (healthy: {})", scaled(*rate), m.healthy)).collect();
    (Some(if words.is_empty() { "none now".to_owned() } else { words.join("  ") }), is_ill)
}

fn device_words(nic: &Nic) -> String {
    let mut parts = Vec::new();
    let mut say = |label: &str, value: Option<String>| parts.extend(value.map(|value| format!("{label} {}", clean(&value))));
    let (link, physical) = if let Some(port) = nic.port {
        let info = &port.info;
        say("driver", info.driver.clone());
        say("version", info.driver_version.clone());
        say("model", info.model.clone());
        say("firmware", info.firmware.clone());
        say("GUID", info.guid.clone());
        say("bus", info.bus_id.clone());
        say("part", info.sub_function.clone());
        say("NUMA", info.numa.map(|n| n.to_string()));
        (&info.pci_link, &info.physical_function)
    } else if let Some(netdev) = nic.netdev {
        say("driver", netdev.sample.driver.clone());
        say("version", netdev.info.driver_version.clone());
        say("firmware", netdev.info.firmware.clone());
        say("bus", netdev.sample.bus_id.clone());
        say("NUMA", netdev.info.numa.map(|n| n.to_string()));
        (&netdev.info.pci_link, &netdev.info.physical_function)
    } else {
        return String::new();
    };
    say("virtual function of", physical.clone());
    if let Some(link) = link {
        let words = |speed: Option<f64>, width: Option<u32>| Some(format!("{} GT/s x{}", speed?, width?));
        say("PCIe", words(link.gt_per_s, link.width));
        say("of", words(link.max_gt_per_s, link.max_width));
    }
    if parts.is_empty() { "nothing known".into() } else { parts.join("  ") }
}
