//! A communicator rank by rank: a row each where they are few, else a cell each, and by name what is in trouble.

use super::{LATE, Level, Row, nodes_words, ranks_words, said, style};
use crate::base::clean::clean;
use crate::base::time::span;
use crate::base::units::{seconds, size_words};
use crate::base::words::{ranges, rank_words, wrap};
use crate::model::comm::{Comm, MissingRank};
use crate::tui::panes::{Ctx, mark_culprit};
use crate::tui::widgets::Pen;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::{BTreeMap, BTreeSet};
use unicode_width::UnicodeWidthStr;

/// Ranks that are few enough for a row each.
const FEW: u32 = 8;
/// Cells of a rank's row; no communicator that can be drawn has more ranks.
const MOST: u32 = 1 << 14;

/// How far a rank is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mark {
    /// Nothing is known of it.
    Unknown,
    Equal,
    Behind,
    Missing,
    Dead,
}

/// Of the ranks that can be drawn, by rank.
fn marks(row: &Row) -> Vec<Mark> {
    let comm = row.comm;
    let mut marks = vec![Mark::Unknown; comm.nranks.min(MOST) as usize];
    let mut set = |rank: u32, mark: Mark| {
        if let Some(m) = marks.get_mut(rank as usize) {
            *m = mark;
        }
    };
    comm.ranks.keys().for_each(|r| set(*r, Mark::Equal));
    row.behind.iter().for_each(|b| set(b.rank, Mark::Behind));
    comm.missing.iter().for_each(|(r, m)| set(*r, of_missing(m)));
    marks
}

fn of_missing(rank: &MissingRank) -> Mark {
    if rank.considered_dead { Mark::Dead } else { Mark::Missing }
}

/// `no answer`
fn missing_word(rank: &MissingRank) -> &'static str {
    match (rank.considered_dead, rank.answers) {
        (true, _) => "dead",
        (false, true) => "not in it",
        (false, false) => "no answer",
    }
}

fn cell(ctx: &Ctx, row: &Row, mark: Mark) -> (&'static str, Style) {
    match mark {
        Mark::Unknown => (" ", ctx.theme.dim),
        Mark::Equal => ("·", ctx.theme.dim),
        Mark::Dead => ("†", if row.level == Level::Calm { ctx.theme.text } else { ctx.theme.act }),
        Mark::Missing => ("×", if row.level == Level::Calm { ctx.theme.text } else { ctx.theme.act }),
        // While counts move, one that is behind was only read a moment earlier.
        Mark::Behind => match row.comm.still_for() {
            Some(still) if still > LATE => ("▼", style(ctx, row.level)),
            Some(_) => ("▼", style(ctx, row.level.min(Level::Look))),
            None => ("▼", ctx.theme.text),
        },
    }
}

/// The selected communicator, rank by rank.
pub(super) fn details(ctx: &Ctx, row: &Row, area: Rect, buf: &mut Buffer) {
    let comm = row.comm;
    let head = Rect { height: area.height.min(1), ..area };
    let mut pen = Pen::new(buf, head);
    pen.put("comm ", ctx.theme.dim);
    let whose = row.job.as_ref().map_or(String::new(), |id| format!("  job {id}"));
    pen.put(&format!("{:016x}{whose}  {}", comm.hash, ranks_words(row)), ctx.theme.text);
    if row.hosts > 0 {
        pen.put(&format!("  {}", nodes_words(row)), ctx.theme.text);
    }
    let launched = collectives(comm);
    if !launched.is_empty() {
        let words: Vec<String> = launched.iter().map(|(name, n)| format!("{} {n}", clean(name))).collect();
        pen.put("  launched ", ctx.theme.dim);
        pen.put(&words.join(", "), ctx.theme.text);
    }
    let below = Rect { y: area.y + head.height, height: area.height - head.height, ..area };
    let below = measured(ctx, comm, below, buf);
    if comm.ranks.is_empty() && comm.missing.is_empty() {
        init_words(ctx, comm, below, buf);
    } else if comm.nranks <= FEW {
        few(ctx, row, &launched, below, buf);
    } else {
        many(ctx, row, below, buf);
    }
}

/// What the Inspector has measured, the largest first, a third of the room at most: `AllReduce  256 MiB  912 µs  busbw 312 GB/s  84 % of …`.
/// The room that is left.
fn measured(ctx: &Ctx, comm: &Comm, area: Rect, buf: &mut Buffer) -> Rect {
    let all = ctx.session.model.fastest_of(comm);
    let lines = (all.len() as u16).min(area.height / 3);
    let wide = all.iter().take(lines.into()).map(|of| clean(&of.op.name).width()).max().unwrap_or(0);
    for (of, y) in all.iter().zip(area.y..area.y + lines) {
        let mut pen = Pen::new(buf, Rect { y, height: 1, ..area });
        pen.put(&format!("{:<wide$} {:>8}", clean(&of.op.name), size_words(of.op.bytes)), ctx.theme.text);
        pen.put(&format!("  {:>9}", of.op.exec_us.map_or("–".into(), |us| seconds(us / 1e6))), ctx.theme.text);
        let gbs = |g: Option<f64>| g.map_or("–".to_owned(), |g| format!("{g:.1}"));
        let (algbw, busbw) = (gbs(of.op.algbw_gbytes_per_s), gbs(of.op.busbw_gbytes_per_s));
        pen.put(&format!("  algbw {algbw:>6}  busbw {busbw:>6} GB/s"), ctx.theme.text);
        if let (Some(share), Some(reach)) = (of.share_pct(), of.reach) {
            pen.put(&format!("  {share:.0} % of what {}", reach.words()), ctx.theme.dim);
        }
    }
    Rect { y: area.y + lines, height: area.height - lines, ..area }
}

/// Each collective that was launched, with the most that a rank has launched of it.
fn collectives(comm: &Comm) -> BTreeMap<&str, u64> {
    let mut most: BTreeMap<&str, u64> = BTreeMap::new();
    for (name, n) in comm.ranks.values().flat_map(|r| &r.counts).filter(|(_, n)| **n > 0) {
        let entry = most.entry(name).or_default();
        *entry = (*entry).max(*n);
    }
    most
}

/// What the Init lines say, where RAS does not list ranks.
fn init_words(ctx: &Ctx, comm: &Comm, area: Rect, buf: &mut Buffer) {
    let known = |set: &BTreeSet<u32>| ranges(&set.iter().copied().collect::<Vec<_>>());
    let pending: Vec<u32> = comm.init_started.difference(&comm.init_complete).copied().collect();
    let mut rows = Vec::new();
    if !comm.init_complete.is_empty() {
        rows.push(format!("Init COMPLETE logged here by ranks {}", known(&comm.init_complete)));
    }
    if !pending.is_empty() {
        rows.push(format!("Init START without COMPLETE logged here by ranks {}", ranges(&pending)));
    }
    rows.push("RAS lists none of its ranks: NCCL 2.28 and newer report the counts of each rank, older versions only trouble".into());
    let mut y = area.y;
    for text in rows {
        said(ctx, &text, Rect { y, height: area.bottom().saturating_sub(y), ..area }, buf);
        y = y.saturating_add(wrap(&text, usize::from(area.width)).len() as u16);
    }
}

/// `rank 13  10.0.0.2  pid 51105  GPU 5  468 of 480 AllReduce`, for one in trouble.
fn trouble_line(ctx: &Ctx, row: &Row, rank: u32, area: Rect, buf: &mut Buffer) {
    let comm = row.comm;
    let missing = comm.missing.get(&rank);
    let (sign, style) = cell(ctx, row, missing.map_or(Mark::Behind, of_missing));
    let (host, pid, gpu) = match (missing, comm.ranks.get(&rank)) {
        (Some(m), known) => {
            let known = known.cloned().unwrap_or_default();
            (m.host.clone().or(known.host), m.pid.or(known.pid), m.nvml_dev.or(known.nvml_dev))
        }
        (None, Some(known)) => (known.host.clone(), known.pid, known.nvml_dev),
        (None, None) => (None, None, None),
    };
    let number = |n: Option<u32>| n.map_or("–".to_owned(), |n| n.to_string());
    let wide = (comm.nranks.saturating_sub(1)).to_string().len();
    let mut pen = Pen::new(buf, area);
    pen.put(&format!("{sign} rank {rank:>wide$}"), style);
    let host = host.map_or("–".to_owned(), |h| clean(&h).into_owned());
    for (label, value) in [("", format!("{host:<12}")), ("pid ", number(pid)), ("GPU ", number(gpu))] {
        pen.put("  ", ctx.theme.text);
        pen.put(label, ctx.theme.dim);
        pen.put(&value, ctx.theme.text);
    }
    let words = match (missing, row.behind.iter().find(|b| b.rank == rank)) {
        (Some(m), _) => format!("  {} for {}", missing_word(m), span(ctx.session.model.now.since(m.since))),
        (None, Some(b)) => {
            let still = comm.answered_at.zip(comm.ranks.get(&rank).and_then(|r| r.counts_since)).map(|(at, since)| at.since(since));
            let still = still.filter(|s| !s.is_zero()).map_or(String::new(), |s| format!(", unchanged for {}", span(s)));
            format!("  {} {} of {}, {} behind{still}", clean(&b.collective), b.have, b.max, b.max - b.have)
        }
        (None, None) => String::new(),
    };
    pen.put(&words, style);
}

/// A row each.
fn few(ctx: &Ctx, row: &Row, launched: &BTreeMap<&str, u64>, area: Rect, buf: &mut Buffer) {
    let comm = row.comm;
    let theme = ctx.theme;
    let hosts = comm.ranks.values().map(|r| &r.host).chain(comm.missing.values().map(|m| &m.host)).flatten();
    let wide = hosts.map(|h| clean(h).width()).max().unwrap_or(4).clamp(4, 24);
    let heads: Vec<(String, usize)> = launched.iter().map(|(name, n)| (clean(name).into_owned(), n.to_string().len())).collect();
    let width = |(head, digits): &(String, usize)| head.width().max(*digits).max(7);
    let put = |y: u16, parts: &[(String, Style)], buf: &mut Buffer| {
        let mut pen = Pen::new(buf, Rect { y, height: 1, ..area });
        parts.iter().for_each(|(text, style)| pen.put(text, *style));
    };
    if area.height == 0 {
        return;
    }
    let named = ctx.culprits().of_comm(&ctx.session.model, comm);
    let head: String = heads.iter().map(|h| format!("  {:>w$}", h.0, w = width(h))).collect();
    put(area.y, &[(format!("  {:>4}  {:<wide$}  {:>7}  {:>3}{head}", "rank", "host", "pid", "GPU"), theme.dim)], buf);
    let marks = marks(row);
    let mut order: Vec<u32> = (0..marks.len() as u32).collect();
    // If not all fit, those in trouble are among those that do.
    if marks.len() > usize::from(area.height - 1) {
        order.sort_by_key(|r| std::cmp::Reverse(marks[*r as usize].max(Mark::Equal)));
    }
    for (rank, y) in order.into_iter().zip(area.y + 1..area.bottom()) {
        let (known, missing) = (comm.ranks.get(&rank), comm.missing.get(&rank));
        let mark = marks[rank as usize];
        let (sign, marked) = cell(ctx, row, mark);
        let text = if mark == Mark::Equal { theme.text } else { marked };
        let or_dash = |n: Option<u32>| n.map_or("–".to_owned(), |n| n.to_string());
        let host = known.and_then(|k| k.host.as_deref()).or(missing.and_then(|m| m.host.as_deref())).unwrap_or("–");
        let pid = known.and_then(|k| k.pid).or(missing.and_then(|m| m.pid));
        let gpu = known.and_then(|k| k.nvml_dev).or(missing.and_then(|m| m.nvml_dev));
        let host = clean(host);
        let pad = " ".repeat(wide.saturating_sub(host.width()));
        let mut parts = vec![
            (format!("{sign} "), marked),
            (format!("{rank:>4}"), text),
            (format!("  {host}{pad}  {:>7}  {:>3}", or_dash(pid), or_dash(gpu)), theme.text),
        ];
        for ((name, most), head) in launched.iter().zip(&heads) {
            let n = known.filter(|_| missing.is_none()).map(|k| k.counts.get(*name).copied().unwrap_or(0));
            let style = if n.is_some_and(|n| n < *most) { marked } else { theme.text };
            parts.push((format!("  {:>w$}", n.map_or("–".into(), |n| n.to_string()), w = width(head)), style));
        }
        let note = match (missing, row.behind.iter().find(|b| b.rank == rank)) {
            (Some(m), _) => format!("  {} for {}", missing_word(m), span(ctx.session.model.now.since(m.since))),
            (None, Some(b)) => format!("  {} behind", b.max - b.have),
            (None, None) => String::new(),
        };
        parts.push((note, marked));
        put(y, &parts, buf);
        mark_culprit(ctx, Rect { y, height: 1, ..area }, named.get(&rank).copied(), buf);
    }
}

/// Ranks of one host, or that follow one another.
struct Block {
    label: String,
    ranks: Vec<u32>,
}

/// By host where RAS names hosts, else by number.
fn blocks(comm: &Comm, marks: &[Mark], most: usize) -> Vec<Block> {
    let host = |rank: u32| {
        let missing = comm.missing.get(&rank).and_then(|m| m.host.as_deref());
        comm.ranks.get(&rank).and_then(|r| r.host.as_deref()).or(missing)
    };
    let mut by_host: Vec<(&str, Vec<u32>)> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for rank in 0..marks.len() as u32 {
        let host = host(rank).unwrap_or("?");
        let place = *places.entry(host).or_insert_with(|| {
            by_host.push((host, Vec::new()));
            by_host.len() - 1
        });
        by_host[place].1.push(rank);
    }
    if by_host.iter().all(|(host, _)| *host == "?") {
        let all: Vec<u32> = (0..marks.len() as u32).collect();
        return all.chunks(most).map(|c| Block { label: c[0].to_string(), ranks: c.to_vec() }).collect();
    }
    let named = by_host.into_iter().flat_map(|(host, ranks)| {
        let label = clean(host).into_owned();
        let chunks: Vec<Vec<u32>> = ranks.chunks(most).map(<[u32]>::to_vec).collect();
        chunks.into_iter().enumerate().map(move |(i, ranks)| Block { label: if i == 0 { label.clone() } else { String::new() }, ranks })
    });
    named.collect()
}

/// The ranks in trouble by name, then a cell for each.
fn many(ctx: &Ctx, row: &Row, area: Rect, buf: &mut Buffer) {
    let comm = row.comm;
    let theme = ctx.theme;
    let marks = marks(row);
    let legend = u16::from(area.height >= 2);
    let body = Rect { height: area.height - legend, ..area };
    // While counts move, being behind is no trouble.
    let still = comm.still_for().is_some();
    let behind = row.behind.iter().map(|b| b.rank).filter(|_| still);
    let troubles: Vec<u32> = comm.missing.keys().copied().chain(behind).collect();
    let named = troubles.len().min(usize::from((body.height / 3).max(1)).min(6)) as u16;
    let named = if troubles.is_empty() { 0 } else { named.min(body.height) };
    let blamed = ctx.culprits().of_comm(&ctx.session.model, comm);
    for (i, (rank, y)) in troubles.iter().zip(body.y..body.y + named).enumerate() {
        let place = Rect { y, height: 1, ..area };
        let more = troubles.len() - i;
        if y + 1 == body.y + named && more > 1 {
            let and = if i > 0 { format!("and {more} more: ") } else { String::new() };
            Pen::new(buf, place).put(&format!("  {and}{}", rank_words(&troubles[i..])), style(ctx, row.level));
        } else {
            trouble_line(ctx, row, *rank, place, buf);
            mark_culprit(ctx, place, blamed.get(rank).copied(), buf);
        }
    }
    let grid = Rect { y: body.y + named, height: body.height - named, ..area };
    let most = [64usize, 32, 16, 8].into_iter().find(|n| n + n / 8 + 14 <= usize::from(area.width)).unwrap_or(8);
    let mut blocks = blocks(comm, &marks, most);
    let label = blocks.iter().map(|b| b.label.width()).max().unwrap_or(0).min(24);
    let cells = blocks.iter().map(|b| b.ranks.len()).max().unwrap_or(0);
    let width = label + 1 + cells + cells.saturating_sub(1) / 8;
    let across = ((usize::from(area.width) + 3) / (width + 3)).max(1);
    let lines = blocks.len().div_ceil(across);
    let (mut hidden, mut hidden_well) = (0, true);
    if lines > usize::from(grid.height) {
        let worst = |b: &Block| b.ranks.iter().map(|r| marks[*r as usize]).max().filter(|m| *m >= Mark::Behind);
        blocks.sort_by_key(|b| std::cmp::Reverse(worst(b)));
        let fit = usize::from(grid.height) * across;
        hidden = blocks.iter().skip(fit).map(|b| b.ranks.len()).sum();
        hidden_well = blocks.iter().skip(fit).flat_map(|b| &b.ranks).all(|r| marks[*r as usize] == Mark::Equal);
        blocks.truncate(fit);
    }
    for (i, block) in blocks.iter().enumerate() {
        let place = Rect {
            x: area.x + ((i % across) * (width + 3)) as u16,
            y: grid.y + (i / across) as u16,
            width: (area.width - ((i % across) * (width + 3)) as u16).min(width as u16),
            height: 1,
        };
        let worst = block.ranks.iter().map(|r| marks[*r as usize]).max().filter(|m| *m >= Mark::Missing || (still && *m == Mark::Behind));
        let mut pen = Pen::new(buf, Rect { width: place.width.min(label as u16), ..place });
        pen.put(&block.label, worst.map_or(theme.dim, |_| theme.text));
        let mut pen = Pen::new(buf, place);
        pen.skip(label as u16 + 1);
        for (i, rank) in block.ranks.iter().enumerate() {
            pen.skip(u16::from(i > 0 && i % 8 == 0));
            let (sign, style) = cell(ctx, row, marks[*rank as usize]);
            pen.put(sign, style);
        }
    }
    if legend > 0 {
        let below = grid.y + (blocks.len().div_ceil(across) as u16).min(grid.height);
        let mut pen = Pen::new(buf, Rect { y: below, height: 1, ..area });
        let unknown = marks.iter().filter(|m| **m == Mark::Unknown).count();
        let count = |mark| marks.iter().filter(|m| **m == mark).count();
        let counts = [(Mark::Equal, "in step"), (Mark::Behind, "behind"), (Mark::Missing, "missing"), (Mark::Dead, "dead")];
        for (mark, word) in counts.into_iter().filter(|(mark, _)| count(*mark) > 0) {
            let (sign, style) = cell(ctx, row, mark);
            pen.put(sign, style);
            pen.put(&format!(" {} {word}   ", count(mark)), theme.dim);
        }
        if unknown > 0 {
            pen.put(&format!("{unknown} unknown   "), theme.dim);
        }
        if hidden > 0 {
            let well = if hidden_well { ", all in step" } else { "" };
            pen.put(&format!("{hidden} ranks not shown{well}"), theme.dim);
        }
        if comm.nranks > MOST {
            pen.put(&format!("the first {MOST} ranks"), theme.dim);
        }
    }
}
