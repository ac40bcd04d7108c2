//! Many ports of one kind and rate as one: a line with two strips of cells in the overview, a row that opens in the table.

use super::rows::{BARS, Nic, Way, pct};
use crate::base::units::{bits_per_s, line_rate, scaled};
use crate::base::words::natural;
use crate::model::port::capacity;
use crate::model::series::Trend;
use crate::tui::panes::Ctx;
use crate::tui::widgets::Pen;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::BTreeMap;
use unicode_width::UnicodeWidthStr;

/// More of one kind and rate than this are one line.
const SINGLE: usize = 4;
/// Alone, more of one kind and rate than this stand in groups.
const IN_TABLE: usize = 8;
/// Ports in trouble that have a line of their own.
pub(super) const TROUBLES: usize = 4;
/// Below this share of what its siblings do, a port lags behind them, once they do enough to compare.
pub(super) const SLOW: f64 = 0.8;
const BUSY: f64 = 0.1;

/// Those of one kind and rate.
pub(super) struct Group {
    pub(super) kind: &'static str,
    pub(super) line: Option<u64>,
    /// Of all, in their order.
    pub(super) members: Vec<usize>,
    /// Next to nothing has gone over any of them.
    is_quiet: bool,
}

/// Of a group over which no port carries more, one line says all.
const QUIET_BYTES_PER_S: f32 = 10e6;
const QUIET_SAMPLES: usize = 120;

pub(super) struct Folded {
    pub(super) groups: Vec<Group>,
    /// Members that are down or lose packets, the worst first.
    pub(super) troubles: Vec<usize>,
    /// What has a row of its own.
    pub(super) single: Vec<usize>,
}

pub(super) fn fold(nics: &[Nic]) -> Folded {
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
            None => groups.push(Group { kind: nic.kind, line, members: vec![i], is_quiet: false }),
        }
    }
    groups.iter_mut().for_each(|g| g.members.retain(|i| !nics[*i].is_idle_virtual()));
    let mut single: Vec<usize> = groups.iter().filter(|g| g.members.len() <= SINGLE).flat_map(|g| g.members.iter().copied()).collect();
    single.sort_unstable();
    groups.retain(|g| g.members.len() > SINGLE);
    // A group that has carried something not long ago keeps its rows.
    let carries = |trend: &Trend| trend.iter().rev().take(QUIET_SAMPLES).any(|(_, rate)| rate > QUIET_BYTES_PER_S);
    let speaks = |nic: &Nic| nic.is_lost() || nic.loses() || carries(nic.trends.0) || carries(nic.trends.1);
    for group in &mut groups {
        group.is_quiet = !group.members.iter().any(|i| speaks(&nics[*i]));
    }
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
pub(super) enum Piece {
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
    pub(super) fn height(&self) -> u16 {
        match self {
            Piece::Table(rows) => *rows,
            _ => 1,
        }
    }
}

impl Folded {
    pub(super) fn has_strips(&self, group: usize) -> bool {
        let group = &self.groups[group];
        group.line.is_some() && !group.is_quiet
    }

    /// What fits into a height: every group, what is in trouble, strips, single rows, notes; in the order in which they are read.
    pub(super) fn pieces(&self, notes: &[String], height: u16) -> Vec<Piece> {
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

/// Many of one kind and rate stand in groups: by the GPUs that they are near to, where that is certain; else as many to a group as there
/// are for each GPU, in the order of the bus; else all in one.
pub(super) fn clusters<'a>(ctx: &Ctx, nics: &[Nic<'a>]) -> Vec<Nic<'a>> {
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
                match <[Nic; 1]>::try_from(members) {
                    Ok([alone]) => alone,
                    Err(members) => Nic::of_group(format!("GPU {gpu}"), members),
                }
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

/// What most of a group do.
pub(super) fn median(nics: &[Nic], group: &Group, way: Way) -> Option<f64> {
    let mut shares: Vec<f64> = group.members.iter().filter(|i| nics[**i].is_up()).filter_map(|i| nics[*i].share(way)).collect();
    shares.sort_by(f64::total_cmp);
    shares.get(shares.len() / 2).copied()
}

/// How much a member does of what its siblings do, once they do enough to compare.
pub(super) fn of_siblings(nic: &Nic, way: Way, median: Option<f64>) -> Option<f64> {
    let median = median.filter(|m| *m > BUSY)?;
    Some(nic.share(way).filter(|_| nic.is_up())? / median)
}

pub(super) fn is_slow(nic: &Nic, way: Way, median: Option<f64>) -> bool {
    of_siblings(nic, way, median).is_some_and(|ratio| ratio < SLOW)
}

pub(super) fn group_line(ctx: &Ctx, nics: &[Nic], group: &Group, area: Rect, buf: &mut Buffer) {
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
    let blamed = members().find_map(|n| Some((n, ctx.culprits().port(&n.id)?)));
    if let Some((nic, bad)) = blamed {
        // Whom the verdict names counts more than who carries least at this moment.
        let loss = nic.loss.filter(|_| nic.loses()).map_or(String::new(), |loss| format!(" loss {}/s", scaled(loss)));
        parts.push((1, vec![(format!("► {}{loss}", nic.name), theme.severity(bad))]));
    } else if let Some((ratio, nic, way)) = slowness.min_by(|a, b| a.0.total_cmp(&b.0)) {
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
pub(super) fn strip(ctx: &Ctx, nics: &[Nic], group: &Group, way: Way, area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let median = median(nics, group, way);
    let mut pen = Pen::new(buf, area);
    pen.put(if matches!(way, Way::In) { "in  " } else { "out " }, theme.dim);
    let fit = if group.members.len() > usize::from(pen.room()) { usize::from(pen.room().saturating_sub(1)) } else { group.members.len() };
    for nic in group.members.iter().take(fit).map(|i| &nics[*i]) {
        match nic.share(way).filter(|s| nic.is_up() && s.is_finite()) {
            Some(share) => {
                let style = if is_slow(nic, way, median) || ctx.culprits().port(&nic.id).is_some() { theme.look } else { theme.chart };
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
