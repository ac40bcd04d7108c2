//! What the network does.

use super::{Pane, or_dash};
use crate::model::port::Link;
use crate::session::Session;
use crate::tui::{Ui, theme::Theme};
use crate::units::{bits_per_s, line_rate};
use ratatui::text::Line;

pub const PANE: Pane = Pane { title: |_| "Network".into(), least: 2, priority: 4, keeps_end: false, lines };

struct Row {
    name: String,
    kind: &'static str,
    link: Link,
    line_bits_per_s: Option<u64>,
    rx: Option<f64>,
    tx: Option<f64>,
}

fn lines(session: &Session, _ui: &Ui, theme: &Theme, _width: u16) -> Vec<Line<'static>> {
    let model = &session.model;
    let rdma = model.ports.values().map(|p| Row {
        name: p.name(),
        kind: p.info.kind.as_str(),
        link: p.link.now,
        line_bits_per_s: p.sample.line_rate_bits_per_s,
        rx: p.rx_bytes_per_s(),
        tx: p.tx_bytes_per_s(),
    });
    let netdevs = model.netdevs.values().filter(|n| !n.is_loopback()).map(|n| Row {
        name: n.sample.name.clone(),
        kind: "netdev",
        link: n.link.now,
        line_bits_per_s: n.sample.speed_mbits_per_s.map(|m| m * 1_000_000),
        rx: n.counters.rate("rx_bytes"),
        tx: n.counters.rate("tx_bytes"),
    });
    let mut lines = vec![Line::styled(
        format!(" {:<16} {:<10} {:<7} {:>6} {:>8} {:>8}", "port", "kind", "state", "line", "in b/s", "out b/s"),
        theme.dim,
    )];
    lines.extend(rdma.chain(netdevs).map(|r| {
        let text = format!(
            " {:<16} {:<10} {:<7} {:>6} {:>8} {:>8}",
            r.name,
            r.kind,
            r.link.as_str(),
            or_dash(r.line_bits_per_s.map(line_rate)),
            or_dash(r.rx.map(bits_per_s)),
            or_dash(r.tx.map(bits_per_s)),
        );
        Line::styled(text, if r.link == Link::Down { theme.look } else { theme.text })
    }));
    if model.ports.is_empty() {
        let why = model.sources.get(&crate::observe::SourceId::of("rdma")).and_then(|v| v.detail.clone());
        lines.extend(why.map(|w| Line::styled(format!(" RDMA: {w}"), theme.dim)));
    }
    lines
}
