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

mod cards;
mod detail;
mod groups;
mod rows;

use super::{Ctx, Pane};
use crate::base::clean::clean;
use crate::base::severity::Severity;
use crate::base::time::span;
use crate::base::units::{bits_per_s, scaled};
use crate::model::port::Counters;
use crate::model::series::Trend;
use crate::tui::choices::Opened;
use crate::tui::details::{Facts, Subject};
use crate::tui::layout::Want;
use crate::tui::widgets::table::{self, Look};
use crate::tui::widgets::{Pen, first_shown};
use detail::details;
use groups::{Folded, Piece, TROUBLES, clusters, fold, group_line, strip};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use rows::{Nic, Way, all_nics, columns, nics};
use std::collections::BTreeMap;

pub const PANE: Pane = Pane {
    id: "network",
    shows: "EFA, InfiniBand, RoCE and Ethernet ports",
    title,
    want,
    rows,
    first: |ctx| {
        let nics = nics(ctx);
        first_culprit(ctx, &table_rows(ctx, &nics, &fold(&nics)))
    },
    sorts: |ctx, width| table::sorts(ctx, &columns(least_history(ctx)), &nics(ctx), width),
    row_at,
    open,
    draw,
};

/// Lines of the screen that the table has not, when the pane is alone: frame, head, footer, detail.
const AROUND: usize = 20;

/// What is not seen, and why.
fn notes(ctx: &Ctx, nics: &[Nic]) -> Vec<String> {
    if !ctx.filter().is_empty() {
        return Vec::new();
    }
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

/// Of a group, its ports; of a port, all that is known of it.
fn open(ctx: &Ctx) -> Opened {
    let nics = nics(ctx);
    let rows = table_rows(ctx, &nics, &fold(&nics));
    let selected = selected(ctx, &[], &rows).and_then(|s| rows.get(s));
    match selected {
        Some(row) if row.is_group() => Opened::Group(row.id.clone()),
        Some(row) => Opened::Detail(Subject::new("port", &row.id)),
        None => Opened::Nothing,
    }
}

/// All that is known of a port or an interface.
pub struct Known<'a> {
    pub kind: &'static str,
    pub cells: Facts,
    pub facts: Vec<(&'static str, String, Style)>,
    /// Bytes/s out and in.
    pub trends: (&'a Trend, &'a Trend),
    pub counters: &'a Counters,
}

/// By the name of its row; `None`: there is no such port.
pub fn seen<'a>(ctx: &Ctx<'a>, id: &str) -> Option<Known<'a>> {
    let nic = all_nics(ctx).into_iter().find(|nic| nic.id == id || nic.name == id)?;
    Some(Known {
        kind: nic.kind,
        cells: table::facts(ctx, &columns(0), &nic),
        facts: detail::facts(ctx, &nic),
        trends: nic.trends,
        counters: nic.counters,
    })
}

/// Of the overview: plain interfaces over which next to nothing goes and nothing is lost, in one line.
fn quiet_words(ctx: &Ctx, nics: &[Nic]) -> Option<String> {
    const QUIET_BYTES_PER_S: f64 = 1e6;
    let is_quiet = |n: &Nic| {
        let rate = n.tx.unwrap_or(0.0).max(n.rx.unwrap_or(0.0));
        n.port.is_none() && !n.is_lost() && !n.loses() && rate < QUIET_BYTES_PER_S
    };
    if ctx.zoomed || nics.is_empty() || !nics.iter().all(is_quiet) {
        return None;
    }
    let up: Vec<&str> = nics.iter().filter(|n| n.is_up() && n.kind != "virtual").map(|n| n.name.as_str()).collect();
    let sum = |of: fn(&Nic) -> Option<f64>| nics.iter().filter_map(of).sum::<f64>();
    let up = if up.is_empty() { "no interface up".to_owned() } else { format!("{} up", up.join(", ")) };
    Some(format!("quiet: {up}, in {} out {} b/s; no RDMA device", bits_per_s(sum(|n| n.rx)), bits_per_s(sum(|n| n.tx))))
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

/// Alone, until one was chosen, the one that is to blame.
fn selected(ctx: &Ctx, troubles: &[&Nic], rows: &[Nic]) -> Option<usize> {
    ctx.selected_or(&names(troubles, rows), first_culprit(ctx, rows))
}

fn first_culprit(ctx: &Ctx, rows: &[Nic]) -> Option<String> {
    rows.iter().find(|nic| ctx.zoomed && blamed(ctx, nic).is_some()).map(|nic| nic.id.clone())
}

fn row_at(ctx: &Ctx, area: Rect, y: u16) -> Option<usize> {
    let nics = nics(ctx);
    let folded = fold(&nics);
    let rows = table_rows(ctx, &nics, &folded);
    let troubles = troubles_shown(ctx, &nics, &folded);
    let selected = selected(ctx, &troubles, &rows);
    let in_table = |list: Rect, selected: Option<usize>| {
        let line = y.checked_sub(list.y + 1).filter(|_| y < list.bottom())?;
        let row = first_shown(rows.len(), selected, usize::from(list.height - 1)) + usize::from(line);
        (row < rows.len()).then_some(row)
    };
    if ctx.zoomed {
        return in_table(zoomed_areas(area, &rows, notes(ctx, &nics).len() as u16)[0], selected);
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

/// Alone and with room, history goes before what else could stand there.
fn least_history(ctx: &Ctx) -> u16 {
    if ctx.zoomed && ctx.ui.size.0 >= 100 { 24 } else { 8 }
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
    let nics = all_nics(ctx);
    if quiet_words(ctx, &nics).is_some() {
        return Some(Want { width: 30, least: 1, comfort: 1, all: 1, priority: 6, late: false, grows: false });
    }
    let folded = fold(&nics);
    let height = |pieces: &[Piece]| pieces.iter().map(Piece::height).sum::<u16>();
    let all = height(&folded.pieces(&notes(ctx, &nics), 1000));
    // Four of the single ones do.
    let comfort = all.saturating_sub(folded.single.len().saturating_sub(4).min(1000) as u16);
    let least = if folded.groups.is_empty() { 2.min(all) } else { 1 };
    // Beside NVLink alone, plain Ethernet shows less than NCCL's own counts.
    let priority = match ctx.session.model.ports.is_empty() {
        // What is blamed stands there, however small the screen is.
        _ if ctx.culprits().are_ports() => 0,
        true => 6,
        false => 4,
    };
    Some(Want { width: 30, least, comfort, all, priority, late: false, grows: false })
}

/// Of the list, the cards below it where they fit, the detail with the line above it, and the notes.
fn zoomed_areas(area: Rect, rows: &[Nic], notes: u16) -> [Rect; 4] {
    let notes = notes.min(area.height / 3);
    let room = area.height - notes;
    let detail = if room >= 16 { (room / 3).min(12) } else { 0 };
    let list = Rect { height: room - detail, ..area };
    let (detail, notes) = (Rect { y: list.bottom(), height: detail, ..area }, Rect { y: area.bottom() - notes, height: notes, ..area });
    let table = (rows.len().min(1000) as u16 + 1).min(list.height);
    let cards = Rect { y: list.y + table, height: list.height - table, ..area };
    if cards::fit(rows, cards) {
        return [Rect { height: table, ..list }, cards, detail, notes];
    }
    [list, Rect { height: 0, ..cards }, detail, notes]
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let nics = nics(ctx);
    if nics.is_empty() && !ctx.filter().is_empty() {
        return super::paragraph(ctx, area, buf, &ctx.why_empty(String::new));
    }
    let folded = fold(&nics);
    let notes = notes(ctx, &nics);
    let whole: u16 = folded.pieces(&notes, 1000).iter().map(Piece::height).sum();
    if let Some(words) = quiet_words(ctx, &nics).filter(|_| area.height < whole) {
        Pen::new(buf, area).put(&words, ctx.theme.dim);
        return;
    }
    let rows = table_rows(ctx, &nics, &folded);
    let troubles = troubles_shown(ctx, &nics, &folded);
    let selected = selected(ctx, &troubles, &rows);
    let columns = columns(least_history(ctx));
    if ctx.zoomed {
        let [list, places, detail, below] = zoomed_areas(area, &rows, notes.len() as u16);
        if !rows.is_empty() {
            table::draw(ctx, &columns, &rows, selected, |nic| Look { culprit: blamed(ctx, nic), is_old: false }, list, buf);
        }
        for (note, y) in notes.iter().zip(if rows.is_empty() { area.y..area.bottom() } else { below.y..below.bottom() }) {
            Pen::new(buf, Rect { y, ..area }).put(note, ctx.theme.dim);
        }
        cards::draw(ctx, &rows, selected.and_then(|s| rows.get(s)).map(|nic| nic.id.as_str()), places, buf);
        if let Some(nic) = selected.and_then(|s| rows.get(s)).filter(|_| detail.height > 1) {
            let (_, inner) = super::split_detail(ctx, Rect { height: detail.bottom() - list.y, ..list }, detail.height, buf);
            details(ctx, nic, inner, buf);
        }
        return;
    }
    let mut y = area.y;
    for piece in folded.pieces(&notes, area.height) {
        let place = Rect { y, height: piece.height(), ..area };
        match &piece {
            Piece::Group(g) => {
                let group = &folded.groups[*g];
                group_line(ctx, &nics, group, place, buf);
                let bad = group.members.iter().filter_map(|i| blamed(ctx, &nics[*i])).max();
                super::mark_culprit(ctx, place, bad, buf);
            }
            Piece::Strip(g, into) => strip(ctx, &nics, &folded.groups[*g], if *into { Way::In } else { Way::Out }, place, buf),
            Piece::Trouble(i) => {
                trouble(ctx, &nics[*i], place, buf);
                super::mark_culprit(ctx, place, blamed(ctx, &nics[*i]), buf);
                if ctx.focused && selected.and_then(|s| troubles.get(s)).is_some_and(|n| n.id == nics[*i].id) {
                    super::mark_selected(ctx, place, buf);
                }
            }
            Piece::MoreTroubles(n) => Pen::new(buf, place).put(&format!("▲ {n} more ports are down or lose packets"), ctx.theme.look),
            Piece::Table(_) => {
                let selected = selected.and_then(|s| s.checked_sub(troubles.len()));
                table::draw(ctx, &columns, &rows, selected, |nic| Look { culprit: blamed(ctx, nic), is_old: false }, place, buf);
            }
            Piece::Note(note) => Pen::new(buf, place).put(note, ctx.theme.dim),
        }
        y += piece.height();
    }
}

/// Whether the verdict names a port, or one of a group's.
fn blamed(ctx: &Ctx, nic: &Nic) -> Option<Severity> {
    let own = |n: &Nic| ctx.culprits().port(&n.id);
    nic.members.iter().filter_map(own).max().or_else(|| own(nic).filter(|_| !nic.is_group()))
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
