//! What happened, on one time axis: step time, loss, what each GPU did, traffic, and when the state of the job changed.
//!
//! ```text
//!                    ┆10:03:30      ┆10:03:40    ▼STUCK
//! step time  1.42 s  ⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶⣶│ no step for 14 s
//!   rank 2 GPU 2     ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇│░░░░░░░░░░░
//! ► rank 3 GPU 3     ▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇▇│×××××××××××
//! ```

mod lanes;

use super::training::{self, hold};
use super::{Ctx, Pane, no_first, no_row_at, no_rows, no_sorts, opens_nothing};
use crate::base::severity::{Role, Severity};
use crate::base::time::{Stamp, span};
use crate::base::units::{bits_per_s, gbytes_per_s, seconds};
use crate::diagnosis::verdict::State;
use crate::model::gpu::{GPM_HOLDS, Gpu};
use crate::model::progress::Progress;
use crate::model::series::Trend;
use crate::rules::findings::Finding;
use crate::tui::layout::Want;
use crate::tui::theme::{between, severity_mark, state_mark};
use crate::tui::widgets::graph::{Graph, mirrored, round_up};
use crate::tui::widgets::put::Put;
use crate::tui::widgets::time_axis::TimeAxis;
use lanes::{Did, KINDS, Lane};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

pub const PANE: Pane = Pane {
    id: "timeline",
    shows: "what happened: steps, each GPU, traffic, states",
    title,
    want,
    rows: no_rows,
    first: no_first,
    sorts: no_sorts,
    row_at: no_row_at,
    open: opens_nothing,
    draw,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Axis,
    Step,
    Loss,
    Lanes,
    Links,
    /// In, then out.
    Nics,
    Legend,
}

const PARTS: [Part; 7] = [Part::Axis, Part::Step, Part::Loss, Part::Lanes, Part::Links, Part::Nics, Part::Legend];

/// How rows are given out: in this order, a part gets so many in all, as far as it has something to show.
const GROW: &[(Part, u16)] = &[
    (Part::Lanes, 1),
    (Part::Step, 1),
    (Part::Lanes, 2),
    (Part::Axis, 1),
    (Part::Lanes, 4),
    (Part::Step, 2),
    (Part::Lanes, 8),
    (Part::Legend, 1),
    (Part::Step, 3),
    (Part::Links, 1),
    (Part::Nics, 2),
    (Part::Loss, 2),
    (Part::Step, 4),
    (Part::Lanes, 16),
    (Part::Step, 5),
    (Part::Links, 2),
    (Part::Loss, 3),
    (Part::Step, 6),
    (Part::Nics, 4),
    (Part::Lanes, u16::MAX),
    (Part::Step, 10),
    (Part::Loss, 6),
    (Part::Links, 4),
    (Part::Step, 16),
    (Part::Loss, 10),
    (Part::Links, 8),
    (Part::Nics, 8),
];

/// Rows that each part can use, by what is known.
fn most(ctx: &Ctx) -> [u16; 7] {
    let model = &ctx.session.model;
    let progress = training::progress(ctx).map(|(_, p)| p);
    let some = |is: bool| if is { u16::MAX } else { 0 };
    PARTS.map(|part| match part {
        Part::Axis | Part::Legend => 1,
        Part::Step => some(progress.is_some_and(|p| !p.step_trend.is_empty())),
        Part::Loss => some(progress.is_some_and(|p| !p.losses.is_empty())),
        Part::Lanes => lanes::count(ctx).min(1000) as u16,
        Part::Links => some(model.gpus.values().any(|g| g.nvlink_tx_bytes_per_s.is_some_and(|b| b > 0.0) || has_traffic(&g.nvlink_trend))),
        Part::Nics => some(nics(ctx).iter().any(|(rx, tx)| has_traffic(rx) || has_traffic(tx))),
    })
}

/// The loss, where an open finding is about that of the job whose steps are shown.
fn first(ctx: &Ctx) -> Option<Part> {
    training::progress(ctx).filter(|(id, _)| training::has_diverged(ctx.session, id)).map(|_| Part::Loss)
}

/// Less than this is what an idle interface carries.
const TRAFFIC_BYTES_PER_S: f32 = 1e6;

fn has_traffic(trend: &Trend) -> bool {
    trend.iter().rev().take(120).any(|(_, value)| value >= TRAFFIC_BYTES_PER_S)
}

/// In and out of what carries the job's traffic: RDMA ports, else interfaces.
fn nics<'a>(ctx: &Ctx<'a>) -> Vec<(&'a Trend, &'a Trend)> {
    let model = &ctx.session.model;
    if !model.ports.is_empty() {
        return model.ports.values().map(|p| (&p.rx, &p.tx)).collect();
    }
    model.netdevs.values().filter(|n| n.is_physical()).map(|n| (&n.rx, &n.tx)).collect()
}

/// While something is wrong, signs of lanes that are seldom seen may be there: what they mean stands below them.
fn explains_first(ctx: &Ctx) -> bool {
    ctx.main_job().is_some_and(|(id, _)| ctx.session.named(id).is_some_and(|finding| !finding.ranks.is_empty() || !finding.gpus.is_empty()))
}

/// `first` has two rows before all others grow, and the legend its own before steps and lanes have more.
fn plan(most: [u16; 7], first: Option<Part>, legend: bool, mut rows: u16) -> [u16; 7] {
    let mut plan = [0; 7];
    let told = first.map(|part| (part, 2));
    let legend = legend.then_some((Part::Legend, 1));
    for (part, upto) in GROW[..4].iter().chain(&told).chain(&GROW[4..5]).chain(&legend).chain(&GROW[5..]) {
        let at = *part as usize;
        let more = (*upto).min(most[at]).saturating_sub(plan[at]);
        // In and out are drawn both or not at all.
        let more = if *part == Part::Nics { (more.min(rows) / 2) * 2 } else { more.min(rows) };
        plan[at] += more;
        rows -= more;
    }
    plan
}

fn title(ctx: &Ctx) -> String {
    match ctx.whose(ctx.main_job().map_or("", |(id, _)| id)) {
        Some(job) if !job.is_empty() => format!("Timeline · job {job}"),
        _ => "Timeline".into(),
    }
}

fn want(ctx: &Ctx, _: u16) -> Option<Want> {
    let most = most(ctx);
    if [Part::Step, Part::Lanes, Part::Links, Part::Nics].iter().all(|part| most[*part as usize] == 0) {
        return None;
    }
    let (width, height) = ctx.ui.size;
    let framed = ctx.ui.layout.is_framed(width);
    let room = match height {
        _ if !framed => (height / 7).clamp(3, 12),
        0..50 => height * 3 / 10,
        _ => height / 3,
    };
    let all = plan(most, first(ctx), explains_first(ctx), room).iter().sum::<u16>().max(1);
    // Where rows are few it comes after the log, and without frames only where something is wrong.
    let few = height < 36;
    let late = !framed && ctx.main_job().and_then(|(id, _)| ctx.session.named(id)).is_none();
    let least = all.min(if few { 3 } else { 7 });
    Some(Want { width: 30, least, comfort: all, all, priority: if few { 4 } else { 2 }, late, grows: false })
}

/// Columns for the labels, of a pane of this width.
pub fn labels(width: u16) -> u16 {
    match width {
        90.. => 20,
        60.. => 17,
        _ => 8,
    }
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let labels = labels(area.width);
    if area.width < labels + 4 || area.height == 0 {
        return;
    }
    let plot = Rect { x: area.x + labels, width: area.width - labels, ..area };
    let axis = ctx.job_axis(usize::from(plot.width));
    let plan = plan(most(ctx), first(ctx), explains_first(ctx), area.height);
    let all = lanes::lanes(ctx, &axis);
    let lanes = lanes::fold(all, usize::from(plan[Part::Lanes as usize]));
    let placed = placed(ctx, &axis);
    let mut y = area.y;
    for part in PARTS {
        let rows = plan[part as usize];
        let place = Rect { y, height: rows, ..area };
        let plot = Rect { y, height: rows, ..plot };
        y += rows;
        if rows == 0 {
            continue;
        }
        match part {
            // With the marks.
            Part::Axis => {}
            Part::Step => step_time(ctx, &axis, place, plot, buf),
            Part::Loss => loss(ctx, &axis, place, plot, buf),
            Part::Lanes => lanes::draw(ctx, &lanes, place, labels, buf),
            Part::Links => links(ctx, &axis, place, plot, buf),
            Part::Nics => traffic(ctx, &axis, place, plot, buf),
            Part::Legend => legend(ctx, &lanes, &placed, plot, buf),
        }
    }
    marks(ctx, &axis, &placed, Rect { height: y - area.y, ..plot }, plan, buf);
    // The line of a mark does not strike through words.
    let above = plan[..Part::Step as usize].iter().sum::<u16>();
    silence(ctx, &axis, Rect { y: area.y + above, height: plan[Part::Step as usize], ..plot }, buf);
}

/// Label and value at the left of a row.
fn label(ctx: &Ctx, place: Rect, row: u16, left: &str, right: &str, buf: &mut Buffer) {
    label_in(ctx.theme.text, ctx, place, row, (left, right), buf);
}

/// What is drawn, and the top of its axis, so that nobody takes that for a value.
fn top(ctx: &Ctx, place: Rect, name: &str, word: &str, buf: &mut Buffer) {
    let word = format!("≤ {}", word.replacen(".0 ", " ", 1));
    label_in(ctx.theme.dim, ctx, place, 0, (name, &word), buf);
}

fn label_in(style: Style, ctx: &Ctx, place: Rect, row: u16, (left, right): (&str, &str), buf: &mut Buffer) {
    let room = usize::from(labels(place.width)) - 2;
    if row < place.height {
        let gap = room.saturating_sub(left.width() + right.width());
        buf.put(place.x, place.y + row, left, room, ctx.theme.dim);
        buf.put(place.x + (left.width() + gap).min(room) as u16, place.y + row, right, room.saturating_sub(left.width()), style);
    }
}

/// What nearly all values and the newest reach: the first step, which compiles, may go beyond the top.
pub(super) fn height(values: &[Option<f32>]) -> f32 {
    let mut known: Vec<f32> = values.iter().flatten().copied().filter(|v| v.is_finite()).collect();
    let newest = known.last().copied().unwrap_or(0.0);
    known.sort_by(f32::total_cmp);
    known.get(known.len().saturating_sub(1) * 95 / 100).map_or(0.0, |most| most.max(newest))
}

fn range(values: &[Option<f32>]) -> Option<(f32, f32)> {
    let finite = || values.iter().flatten().copied().filter(|v| v.is_finite());
    Some((finite().reduce(f32::min)?, finite().reduce(f32::max)?))
}

fn step_time(ctx: &Ctx, axis: &TimeAxis, place: Rect, plot: Rect, buf: &mut Buffer) {
    let Some((id, p)) = training::progress(ctx) else { return };
    let values = axis.values(&p.step_trend, 2, hold(p));
    let usual = p.usual_step_s();
    let word = |s: Option<f64>| s.map_or("–".into(), seconds);
    let last = p.step_trend.last().map(f64::from);
    let high = round_up(height(&values).max(usual.map_or(0.0, |u| u.0 as f32)));
    let rows = f32::from(plot.height);
    // What lies above the usual band is seen at once.
    let band = usual.map_or(f32::INFINITY, |(median, most)| most.max(median * 1.1) as f32);
    let style = |row: u16| {
        // Of few rows the lower half of one may be what is usual.
        let least = if rows <= 2.0 { f32::from(row) + 0.5 } else { f32::from(row + 1) };
        let is_over = high * (1.0 - least / rows) >= band * 0.99;
        let up = 1.0 - f32::from(row) / rows;
        if is_over { between(ctx.theme.look, ctx.theme.text, up * 0.5) } else { ctx.theme.graded(up) }
    };
    Graph { values: &values, low: 0.0, high, filled: true, hangs: false }.draw(plot, buf, &style);
    let line = usual.map(|(median, _)| ((1.0 - median as f32 / high) * rows).clamp(0.0, rows - 1.0) as u16);
    if let Some(line) = line
        && plot.height > 1
    {
        let y = plot.y + line;
        let begun = lanes::cells_of(ctx, id, axis).start;
        for x in plot.x + begun as u16..=plot.x + axis.newest() as u16 {
            put_blank(buf, x, y, '┄', ctx.theme.border);
        }
    }
    let is_past = stands(ctx, id, p).is_some();
    let (name, look) = match is_past {
        true if labels(place.width) >= 20 => ("last step", ctx.theme.dim),
        true => ("step", ctx.theme.dim),
        false => ("step", ctx.theme.text),
    };
    match plot.height {
        1 => label_in(look, ctx, place, 0, (name, &word(last)), buf),
        2 => {
            label_in(look, ctx, place, 0, (name, &word(last)), buf);
            label(ctx, place, 1, "  usual", &word(usual.map(|u| u.0)), buf);
        }
        // The top of the axis at the top, and what is usual beside its line where that is below these.
        _ => {
            top(ctx, place, if labels(place.width) < 20 { "step" } else { "step time" }, &seconds(f64::from(high)), buf);
            // What a job took that stands is of then.
            if is_past {
                label_in(ctx.theme.dim, ctx, place, 1, ("  last", &word(last)), buf);
            } else {
                label(ctx, place, 1, "  now", &word(last), buf);
            }
            label(ctx, place, line.map_or(2, |line| line.max(2)), "  usual", &word(usual.map(|u| u.0)), buf);
        }
    }
}

/// For how long no step has been made, where steps are not to be expected as they were: the job is over, stands, or is silent for longer
/// than it has shown.
fn stands(ctx: &Ctx, job: &str, p: &Progress) -> Option<Duration> {
    let (session, model) = (ctx.session, &ctx.session.model);
    let state = session.verdicts.get(job).map(|verdict| verdict.state);
    let is_over = matches!(state, Some(State::Finished | State::Failed | State::Stuck | State::Idle));
    model.quiet(job).map(|quiet| quiet.lasts).or_else(|| model.step_age(p).filter(|_| is_over))
}

/// For how long there is no step, beside the last one.
fn silence(ctx: &Ctx, axis: &TimeAxis, plot: Rect, buf: &mut Buffer) {
    let Some((id, p)) = training::progress(ctx).filter(|_| plot.height > 0) else { return };
    // Of a job that came to its end none is missing.
    let is_done = ctx.session.verdicts.get(id).is_some_and(|verdict| verdict.state == State::Finished);
    if let Some(lasts) = stands(ctx, id, p).filter(|_| !is_done) {
        let lasts = span(lasts);
        // Behind the value that still stands, and behind the line where the verdict changed.
        let behind = 5.max(3_000_u128.div_ceil(axis.step.as_millis().max(1)) as u16 + 1);
        let at = p.last_step_at.and_then(|at| axis.cell(at)).map_or(1, |cell| cell as u16 + behind);
        let (x, y) = (plot.x + at, plot.y + plot.height / 2);
        // Half a number says something else; the value of a long step stands for as long as that took.
        let texts = [format!("no step for {lasts} "), format!("no step {lasts} "), format!("{lasts} ")];
        let is_blank = |x: u16| buf.cell((x, y)).is_some_and(|cell| cell.symbol() == " ");
        let place = |text: &String| {
            let width = text.trim_end().chars().count() as u16;
            (x..plot.right().saturating_sub(width.saturating_sub(1))).find(|x| (*x - 1..*x + width).all(is_blank))
        };
        if let Some((x, text)) = texts.iter().find_map(|text| Some((place(text)?, text))) {
            buf.put(x, y, text, usize::from(plot.right().saturating_sub(x)), ctx.theme.look);
        }
    }
}

/// Puts a character where nothing stands.
fn put_blank(buf: &mut Buffer, x: u16, y: u16, sign: char, style: Style) {
    if let Some(cell) = buf.cell_mut((x, y)).filter(|cell| cell.symbol() == " ") {
        cell.set_char(sign).set_style(style);
    }
}

fn loss(ctx: &Ctx, axis: &TimeAxis, place: Rect, plot: Rect, buf: &mut Buffer) {
    let Some(p) = training::progress(ctx).map(|(_, p)| p) else { return };
    let values = axis.values(&p.losses, 2, hold(p));
    let now = p.loss.map_or("–".into(), training::loss);
    label(ctx, place, 0, "loss", &now, buf);
    let Some((low, high)) = range(&values) else { return };
    // A flat line is drawn in the middle of a scale around it.
    let spread = (high - low).max(high.abs() * 1e-3).max(1e-9);
    let (bottom, top) = if high - low < spread { (low - spread, high + spread) } else { (low, high) };
    Graph { values: &values, low: bottom, high: top, filled: false, hangs: false }.draw(plot, buf, &|_| ctx.theme.chart2);
    // What is drawn are means: the words are of the values themselves.
    if let Some((low, high)) = p.losses.range(axis.now, axis.now.since(axis.from)).filter(|(low, high)| high > low) {
        label_in(ctx.theme.dim, ctx, place, 1, ("  high", &training::loss(f64::from(high))), buf);
        label_in(ctx.theme.dim, ctx, place, 2, ("  low", &training::loss(f64::from(low))), buf);
    }
}

/// The sum of several numbers, where at least one is known.
fn sum<'a>(axis: &TimeAxis, trends: impl Iterator<Item = &'a Trend>, parts: usize, hold: Duration) -> Vec<Option<f32>> {
    let mut all = vec![None; axis.cells * parts];
    for trend in trends {
        add(&mut all, axis.values(trend, parts, hold));
    }
    all
}

fn add(sums: &mut [Option<f32>], values: Vec<Option<f32>>) {
    for (sum, value) in sums.iter_mut().zip(values) {
        *sum = value.map_or(*sum, |value| Some(sum.unwrap_or(0.0) + value));
    }
}

/// How long what was last read of a counter stands.
const COUNTERS_HOLD: Duration = Duration::from_secs(3);

/// In halves of cells, as long as the GPU answers: what was read last does not stand for one that is lost.
fn answered(axis: &TimeAxis, gpu: &Gpu, trend: &Trend, hold: Duration) -> Vec<Option<f32>> {
    let mut values = axis.values(trend, 2, hold);
    if let Some((since, _)) = &gpu.trouble {
        let known = if *since < axis.from { 0 } else { axis.cell(*since).map_or(values.len(), |cell| cell * 2 + 1) };
        values.iter_mut().skip(known).for_each(|value| *value = None);
    }
    values
}

fn links(ctx: &Ctx, axis: &TimeAxis, place: Rect, plot: Rect, buf: &mut Buffer) {
    // Of the GPUs whose strips stand above, as long as they were this job's: those of another job send for that.
    let gpus = lanes::gpus(ctx);
    let its = ctx.main_job().map(|(job, _)| lanes::cells_of(ctx, job, axis));
    let answered = |axis: &TimeAxis, gpu: &Gpu, trend: &Trend, hold: Duration| {
        let mut values = answered(axis, gpu, trend, hold);
        if let Some(its) = &its {
            let is_its = |half: usize| its.contains(&(half / 2));
            values.iter_mut().enumerate().filter(|(half, _)| !is_its(*half)).for_each(|(_, value)| *value = None);
        }
        values
    };
    let hold = if gpus.iter().any(|g| g.gpm().is_some()) { GPM_HOLDS } else { COUNTERS_HOLD };
    if plot.height < 2 {
        let mut values = vec![None; axis.cells * 2];
        gpus.iter().for_each(|gpu| add(&mut values, answered(axis, gpu, &gpu.nvlink_trend, hold)));
        filled(ctx, &values, "NVLink GB/s", gbytes_per_s, place, plot, buf);
        return;
    }
    let (mut out, mut into) = (vec![None; axis.cells * 2], vec![None; axis.cells * 2]);
    for (of_out, of_in) in gpus.iter().map(|gpu| gpu.nvlink_ways(|trend| answered(axis, gpu, trend, hold))) {
        add(&mut out, of_out);
        add(&mut into, of_in);
    }
    ways(ctx, (&out, &into), ("NVL GB/s", gbytes_per_s), place, plot, buf);
}

fn traffic(ctx: &Ctx, axis: &TimeAxis, place: Rect, plot: Rect, buf: &mut Buffer) {
    let nics = nics(ctx);
    let into = sum(axis, nics.iter().map(|n| n.0), 2, COUNTERS_HOLD);
    let out = sum(axis, nics.iter().map(|n| n.1), 2, COUNTERS_HOLD);
    ways(ctx, (&out, &into), ("net b/s", |bytes| bits_per_s(bytes)), place, plot, buf);
}

/// What goes out above, and what comes in below.
fn ways(
    ctx: &Ctx,
    (out, into): (&[Option<f32>], &[Option<f32>]),
    (name, word): (&str, fn(f64) -> String),
    place: Rect,
    plot: Rect,
    buf: &mut Buffer,
) {
    let high = [out, into].into_iter().filter_map(range).map(|(_, high)| high).fold(0.0, f32::max);
    let high = round_up(high);
    mirrored(out, into, high, plot, buf, ctx.theme);
    let last = |values: &[Option<f32>]| values.iter().rev().find_map(|v| *v).map_or("–".into(), |v| word(f64::from(v)));
    let short = name.split(' ').next().unwrap_or(name);
    let wide = labels(place.width) >= 20;
    if plot.height > 3 && labels(place.width) >= 15 {
        top(ctx, place, if wide { name } else { short }, &word(f64::from(high)), buf);
        label(ctx, place, 1, "  out", &last(out), buf);
        label(ctx, place, plot.height.div_ceil(2), "  in", &last(into), buf);
        return;
    }
    let name = if wide { name } else { short };
    let (first, second) = match labels(place.width) {
        ..15 => (short.to_owned(), String::new()),
        _ => (format!("{name} out"), format!("{:>1$}", "in", name.len() + 4)),
    };
    label(ctx, place, 0, &first, &last(out), buf);
    label(ctx, place, plot.height.div_ceil(2), &second, &last(into), buf);
}

/// Values from zero on, and the newest of them.
fn filled(ctx: &Ctx, values: &[Option<f32>], name: &str, word: fn(f64) -> String, place: Rect, plot: Rect, buf: &mut Buffer) {
    let high = round_up(range(values).map_or(0.0, |(_, high)| high));
    let rows = f32::from(plot.height);
    Graph { values, low: 0.0, high, filled: true, hangs: false }.draw(plot, buf, &|row| ctx.theme.graded(1.0 - f32::from(row) / rows));
    let last = values.iter().rev().find_map(|v| *v).map_or("–".into(), |v| word(f64::from(v)));
    let name = if labels(place.width) < 15 { name.split(' ').next().unwrap_or(name) } else { name };
    label(ctx, place, 0, name, &last, buf);
}

/// What the signs of the lanes mean, those that are there.
fn legend(ctx: &Ctx, lanes: &[Lane], placed: &[(usize, Mark)], plot: Rect, buf: &mut Buffer) {
    let mut x = plot.x;
    let mut put = |sign: &str, word: &str, style: Style| {
        let text = format!(" {word}   ");
        if x + 1 + text.trim_end().width() as u16 <= plot.right() {
            buf.put(x, plot.y, sign, 1, style);
            (x, _) = buf.put(x + 1, plot.y, text, usize::from(plot.right() - x - 1), ctx.theme.dim);
        }
    };
    // Where not all have room, those that tell of trouble do.
    let is_there = |did: &Did| !did.word().is_empty() && lanes.iter().any(|lane| lane.cells.iter().any(|cell| cell.0 == *did));
    let (trouble, calm): (Vec<Did>, Vec<Did>) = KINDS.into_iter().filter(is_there).partition(|did| did.is_trouble());
    for did in trouble.into_iter().chain(calm) {
        put(&did.sign(100.0).to_string(), did.word(), did.style(ctx.theme));
    }
    if placed.iter().any(|(_, mark)| mark.words == WARN) {
        put(WARN, "WARN line", ctx.theme.look);
    }
}

/// Something that happened.
struct Mark {
    at: Stamp,
    words: String,
    style: Style,
    /// It parts what was before from what came after, through all rows.
    line: bool,
}

/// A line of the log that warns.
const WARN: &str = "W";

/// Cells within which a finding and the state that it decides are one event.
const SAME: usize = 12;

/// Newest WARN lines that are marked.
const WARNS: usize = 50;

fn happened(ctx: &Ctx, axis: &TimeAxis) -> Vec<Mark> {
    let (model, theme) = (&ctx.session.model, ctx.theme);
    let warns = model.logbook.newest_alarms().take(WARNS).take_while(|line| line.at >= axis.from);
    let mut marks: Vec<Mark> = warns.map(|line| Mark { at: line.at, words: WARN.into(), style: theme.look, line: false }).collect();
    let Some((job, _)) = ctx.main_job() else { return marks };
    let restarted = model.jobs.get(job).and_then(|j| j.restarted_at);
    marks.extend(restarted.map(|at| Mark { at, words: "▼restarted".into(), style: theme.look, line: true }));
    let open = ctx.session.ledger.open().into_iter();
    let told = open.filter(|f| f.severity > Severity::Info && f.role == Role::Root && f.job.as_deref().is_none_or(|of| of == job));
    // The finding that decides the state is marked by that.
    let is_marked = |f: &&Finding| {
        let decides = ctx.session.deciding(job).is_some_and(|named| named.rule == f.rule && named.subject == f.subject);
        let near = |at: Stamp| axis.cell(at).zip(axis.cell(f.since)).is_some_and(|(a, b)| a.abs_diff(b) < SAME);
        decides && ctx.session.story.of(job).last().is_some_and(|chapter| near(chapter.since))
    };
    marks.extend(told.filter(|f| f.since >= axis.from && !is_marked(f)).take(WARNS).map(|f| Mark {
        at: f.since,
        words: format!("{}{}", severity_mark(f.severity), f.rule),
        style: theme.severity(f.severity),
        line: false,
    }));
    // The mark of the newest chapter, from 1.
    let (mut before, mut began, mut newest) = (None, None, 0_usize);
    for chapter in ctx.session.story.of(job) {
        // The phases of a start are many, and say little afterwards.
        let same = before.replace(chapter.state) == Some(State::Starting) && chapter.state == State::Starting;
        began = None;
        if chapter.since < axis.from {
            began = Some(chapter);
            continue;
        }
        if same {
            continue;
        }
        let word = match (chapter.state, chapter.phase) {
            (State::Paused, Some(phase)) => phase.to_owned(),
            (State::Training, Some(phase)) => phase.to_uppercase(),
            (state, _) => state.as_str().to_uppercase(),
        };
        let words = format!("{}{word}", state_mark(chapter.state));
        marks.push(Mark { at: chapter.since, words, style: theme.state(chapter.state), line: true });
        newest = marks.len();
    }
    // Trouble that began before all that is shown has its word at the left edge.
    if let Some(chapter) = began.filter(|chapter| matches!(chapter.state, State::Slow | State::Stuck | State::Failed)) {
        let words = format!(
            "‹{}{} since {}",
            state_mark(chapter.state),
            chapter.state.as_str().to_uppercase(),
            ctx.ui.zone.hms_of_day(chapter.since, ctx.session.model.now)
        );
        marks.push(Mark { at: axis.from, words, style: theme.state(chapter.state), line: false });
        newest = marks.len();
    }
    // That no step comes began when the last one was made, not when the training did.
    if ctx.session.hesitates(job).is_some() {
        let ended = training::progress(ctx).and_then(|(_, p)| p.last_step_at);
        let words = format!("{}NO STEP", severity_mark(Severity::Warning));
        marks.extend(ended.map(|at| Mark { at, words, style: theme.look, line: true }));
        return marks;
    }
    // That is the verdict that stands on top, where it looks as it does since then: what came later has a mark of its own.
    let looked_so = |at: Stamp| {
        let since = ctx.session.named(job).map(|f| f.since);
        since.is_none_or(|since| axis.cell(at).zip(axis.cell(since)).is_none_or(|(mark, found)| found < mark + SAME))
    };
    if let (Some(mark), Some((job, verdict))) = (newest.checked_sub(1).and_then(|at| marks.get_mut(at)), ctx.main_job())
        && looked_so(mark.at)
        && let Some(bad) = crate::tui::view::look_of(ctx.session, job, verdict)
    {
        mark.style = theme.severity(bad);
        mark.words = mark.words.replace(state_mark(verdict.state), severity_mark(bad));
    }
    marks
}

/// The marks that are shown, each with its cell, the newest first.
fn placed(ctx: &Ctx, axis: &TimeAxis) -> Vec<(usize, Mark)> {
    let mut placed: Vec<(usize, Mark)> = happened(ctx, axis).into_iter().filter_map(|m| Some((axis.cell(m.at)?, m))).collect();
    // Of several in one cell, that which parts two states stays, then a finding, then a line of the log.
    placed.sort_by_key(|(cell, mark)| (*cell, mark.line, mark.words.len(), mark.at));
    placed.reverse();
    placed.dedup_by_key(|(cell, _)| *cell);
    placed
}

/// Marks on the axis, and lines below those that part two states.
fn marks(ctx: &Ctx, axis: &TimeAxis, placed: &[(usize, Mark)], plot: Rect, plan: [u16; 7], buf: &mut Buffer) {
    let head = plan[Part::Axis as usize];
    let lanes = plan[..=Part::Lanes as usize].iter().sum::<u16>();
    let legend = plan[Part::Legend as usize];
    // What is taken of the axis' row, from and to.
    let mut taken: Vec<(usize, usize)> = Vec::new();
    let before = placed.iter().skip(1).map(|(cell, _)| Some(*cell)).chain([None]);
    for ((cell, mark), before) in placed.iter().zip(before).filter(|_| head > 0) {
        let end = taken.last().map_or(usize::from(plot.width), |t| t.0);
        let room = end.saturating_sub(*cell);
        let (sign, words) = mark.words.split_at(mark.words.chars().next().map_or(0, char::len_utf8));
        let left = cell.saturating_sub(before.map_or(0, |before| before + 2));
        // Words that are cut say less than their sign alone; they stand on its other side where there is no room behind it.
        let (from, text) = if mark.words.width() < room {
            (*cell, mark.words.clone())
        } else if words.width() <= left && sign.width() < room {
            (cell - words.width(), format!("{words}{sign}"))
        } else {
            (*cell, sign.to_owned())
        };
        if end < from + text.width() {
            continue;
        }
        buf.put(plot.x + from as u16, plot.y, &text, end - from, mark.style);
        taken.push((from, from + text.width()));
    }
    for (cell, time) in axis.times(ctx.ui.zone).into_iter().filter(|_| head > 0) {
        let end = cell + time.width();
        if end <= usize::from(plot.width) && taken.iter().all(|(from, to)| end < *from || *to < cell) {
            buf.put(plot.x + cell as u16, plot.y, time, usize::from(plot.width) - cell, ctx.theme.dim);
        }
    }
    for (cell, mark) in placed {
        let x = plot.x + *cell as u16;
        // Without the row that says what it parts, a line says nothing.
        if !mark.line || head == 0 {
            continue;
        }
        for y in plot.y + head..plot.bottom() - legend {
            let first_lane = plot.y + lanes - plan[Part::Lanes as usize];
            if (first_lane..plot.y + lanes).contains(&y) {
                if let Some(cell) = buf.cell_mut((x, y)) {
                    cell.reset();
                    cell.set_char('│').set_style(ctx.theme.text.patch(mark.style));
                }
            } else {
                put_blank(buf, x, y, '│', mark.style);
            }
        }
    }
}
