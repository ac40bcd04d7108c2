//! One card for each GPU: how much of its limits it uses, how busy it was, and what went over its links.
//!
//! ```text
//! ─ ► GPU 3 · rank 3 · IDLE ─────────────────────────────────────────────
//! memory ■■····· 16.1/140.4 GiB  power ■······· 127/700 W  temp ■■■··· 41 °C
//! SM %      0 ⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿⣿
//! GB/s out  0 ⣤⣤⣤⣤⣤⣤⣤⣤⣤⣤⣤⣤
//!      in   0 ⠛⠛⠛⠛⠛⠛⠛⠛⠛⠛⠛⠛
//! ```

use super::{Row, Used, activity, heat, memory, memory_used, power, power_used};
use crate::base::units::gbytes_per_s;
use crate::base::words::rank_words;
use crate::model::gpu::GPM_HOLDS;
use crate::tui::panes::{CULPRIT, Ctx};
use crate::tui::widgets::cards::grid;
use crate::tui::widgets::graph::{Graph, mirrored, round_up};
use crate::tui::widgets::put::Put;
use crate::tui::widgets::time_axis::TimeAxis;
use crate::tui::widgets::{Pen, meter};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// A title, a row of figures and two of history.
pub(super) const LEAST: (u16, u16) = (26, 4);
/// Columns for the name and the newest value of a graph.
const LABEL: u16 = 14;
/// Narrower ones have no room for signs between words.
const SPARE: u16 = 34;
/// From this width on three meters stand side by side.
const SIDE_BY_SIDE: u16 = 84;
/// With so many rows they need not.
const ROOMY: u16 = 14;
/// With so many rows they stand one below the other, else in words alone.
const ONE_BELOW_THE_OTHER: u16 = 9;

/// Draws a card for each row, or nothing where there is no room for all.
pub(super) fn draw(ctx: &Ctx, rows: &[Row], selected: Option<usize>, area: Rect, buf: &mut Buffer) {
    let places = grid(area, rows.len(), LEAST);
    let Some(first) = places.first() else { return };
    let cells = usize::from(first.width.saturating_sub(LABEL));
    let axis = ctx.time_axis(cells);
    let links: Vec<Ways> = rows.iter().map(|gpu| links(gpu, &axis)).collect();
    // On one scale, so that they can be compared.
    let high = links.iter().flat_map(|(out, into)| out.iter().chain(into)).flatten().copied().fold(0.0, f32::max);
    for (i, ((gpu, place), links)) in rows.iter().zip(&places).zip(&links).enumerate() {
        title(ctx, gpu, selected == Some(i), *place, buf);
        let below = figures(ctx, gpu, *place, buf);
        history(ctx, gpu, &axis, (links, round_up(high)), below, buf);
    }
}

/// Bytes/s, two for each cell: out, in.
type Ways = (Vec<Option<f32>>, Vec<Option<f32>>);

fn links(gpu: &Row, axis: &TimeAxis) -> Ways {
    let hold = if gpu.gpm().is_some() { GPM_HOLDS } else { gpu.holds() };
    gpu.nvlink_ways(|trend| known(gpu, axis, axis.values(trend, 2, hold)))
}

/// What was read last does not stand for a GPU that does not answer.
fn known(gpu: &Row, axis: &TimeAxis, mut values: Vec<Option<f32>>) -> Vec<Option<f32>> {
    if let Some((since, _)) = &gpu.trouble {
        let lost = if *since < axis.from { 0 } else { axis.cell(*since).unwrap_or(axis.cells) };
        values[lost * 2..].fill(None);
    }
    values
}

/// What was true some time ago must not look like what is true now.
fn text(ctx: &Ctx, gpu: &Row) -> Style {
    if gpu.is_fresh(ctx.session.model.now) { ctx.theme.text } else { ctx.theme.dim }
}

/// `─ ► GPU 3 · rank 3 · IDLE ────`
fn title(ctx: &Ctx, gpu: &Row, selected: bool, area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let bad = ctx.culprits().gpu(gpu.index);
    let (border, plain) = if selected { (theme.focus, theme.focus) } else { (theme.border, theme.title) };
    let name = bad.map_or(plain, |bad| theme.severity(bad));
    let mut pen = Pen::new(buf, area);
    pen.put("─", border);
    let mark = if bad.is_some() { CULPRIT } else { "" };
    let gap = if area.width < SPARE { " " } else { " · " };
    pen.put(&format!(" {mark}{}GPU {}", if bad.is_some() { " " } else { "" }, gpu.index), name);
    if !gpu.ranks.is_empty() {
        pen.put(&format!("{gap}{}", rank_words(&gpu.ranks)), name);
    }
    if let Some((word, style)) = activity(ctx, gpu) {
        pen.put(gap, theme.dim);
        pen.put(&word, style.unwrap_or(theme.text));
    }
    pen.put(" ", theme.dim);
    pen.put(&"─".repeat(usize::from(pen.room())), border);
}

/// Memory, power and temperature of their limits. The rows that are left.
fn figures(ctx: &Ctx, gpu: &Row, area: Rect, buf: &mut Buffer) -> Rect {
    let words = |cell: super::Cell, unit: &str| cell.map_or("–".to_owned(), |(words, _)| format!("{words} {unit}"));
    let celsius = gpu.sample.temp_c.map_or("–".to_owned(), |celsius| format!("{celsius} °C"));
    let all = [
        ("memory", memory_used(gpu), words(memory(ctx, gpu), "GiB")),
        ("power", power_used(gpu), words(power(ctx, gpu), "W")),
        ("temp", heat(ctx, gpu), celsius),
    ];
    let row = |n: u16| Rect { y: area.y + 1 + n, height: 1, ..area };
    let rows = match area.width {
        SIDE_BY_SIDE.. if area.height < ROOMY => 1,
        _ if area.height >= ONE_BELOW_THE_OTHER => 3,
        _ => {
            let mut pen = Pen::new(buf, row(0));
            let watts = gpu.sample.power_mw.map_or("–".to_owned(), |mw| format!("{} W", mw / 1000));
            let used = memory_used(gpu).map_or("–".to_owned(), |(share, _)| format!("{:.0} %", share * 100.0));
            for ((name, used, _), words) in all.iter().zip([&used, &watts, &all[2].2]) {
                let label = if *name == "memory" { "mem " } else { "  " };
                pen.put(label, ctx.theme.dim);
                pen.put(words, used.and_then(|(_, alarm)| alarm).unwrap_or(text(ctx, gpu)));
            }
            return Rect { y: area.y + 2, height: area.height.saturating_sub(2), ..area };
        }
    };
    let each = area.width / 3;
    for ((name, used, words), i) in all.iter().zip(0..) {
        let place = if rows == 1 { Rect { x: area.x + i * each, width: each - 2, ..row(0) } } else { row(i) };
        bar(ctx, name, *used, (words, text(ctx, gpu)), place, buf);
    }
    Rect { y: area.y + 1 + rows, height: area.height.saturating_sub(1 + rows), ..area }
}

/// Label, bar and words in a row; without a known limit there is no bar.
fn bar(ctx: &Ctx, name: &str, used: Used, (words, style): (&str, Style), row: Rect, buf: &mut Buffer) {
    const NAME: u16 = 7;
    const WORDS: u16 = 15;
    buf.put(row.x, row.y, name, usize::from(NAME), ctx.theme.dim);
    let room = row.width.saturating_sub(NAME + WORDS + 1).min(60);
    if let Some((share, alarm)) = used.filter(|_| room >= meter::LEAST) {
        meter::draw(buf, (row.x + NAME, row.y, room), share, alarm, ctx.theme);
    }
    let (x, right) = (row.x + NAME + room + 1, usize::from(WORDS));
    let left = usize::from(row.right().saturating_sub(x));
    buf.put(x, row.y, format!("{words:>right$}"), left, used.and_then(|(_, alarm)| alarm).unwrap_or(style));
}

/// How busy it was, and below it what went over its links, if anything did.
fn history(ctx: &Ctx, gpu: &Row, axis: &TimeAxis, (links, high): (&Ways, f32), area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let moved = links.0.iter().chain(&links.1).flatten().any(|v| *v > 0.0);
    let below = if area.height >= 4 && moved { (area.height * 2 / 5).max(2) } else { 0 };
    let plot = Rect { x: area.x + LABEL, width: area.width.saturating_sub(LABEL), ..area };
    let busy = Rect { height: area.height - below, ..plot };
    let (name, trend, hold) =
        if gpu.sm_trend.is_empty() { ("util %", &gpu.util_trend, gpu.holds()) } else { ("SM %", &gpu.sm_trend, GPM_HOLDS) };
    let values = known(gpu, axis, axis.values(trend, 2, hold));
    let rows = f32::from(busy.height);
    Graph { values: &values, low: 0.0, high: 100.0, filled: true, hangs: false }
        .draw(busy, buf, &|row| theme.graded(1.0 - f32::from(row) / rows));
    let newest = |values: &[Option<f32>], word: fn(f64) -> String| {
        values.get(axis.newest() * 2).copied().flatten().map_or("–".to_owned(), |v| word(f64::from(v)))
    };
    let mut label = |y: u16, name: &str, value: &str| {
        if y < area.bottom() {
            let room = LABEL - 1;
            buf.put(area.x, y, name, usize::from(room), theme.dim);
            buf.put(area.x + room.saturating_sub(value.width() as u16), y, value, usize::from(room), text(ctx, gpu));
        }
    };
    label(area.y, name, &newest(&values, |v| format!("{v:.0}")));
    if below > 0 {
        let first = busy.bottom();
        label(first, "GB/s out", &newest(&links.0, gbytes_per_s));
        label(first + below.div_ceil(2), "     in", &newest(&links.1, gbytes_per_s));
        mirrored(&links.0, &links.1, high, Rect { y: first, height: below, ..plot }, buf, theme);
    }
}
