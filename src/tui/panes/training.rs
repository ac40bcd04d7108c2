//! Where training stands: step, loss, step time and its jitter, throughput, time left, pauses.

use super::{Ctx, Pane, labelled, lines, no_row_at, no_rows, no_sorts, opens_nothing, or_dash};
use crate::base::time::span;
use crate::base::units::{group, scaled, seconds};
use crate::model::Model;
use crate::model::log::Progress;
use crate::model::series::Trend;
use crate::tui::layout::Want;
use crate::tui::widgets::chart::{Chart, SCALE};
use crate::tui::widgets::spark;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Duration;

pub const PANE: Pane = Pane {
    id: "training",
    shows: "loss, step time, throughput",
    title,
    want,
    rows: no_rows,
    sorts: no_sorts,
    row_at: no_row_at,
    open: opens_nothing,
    draw,
};

/// The job whose progress is shown, and what its log says.
pub(super) fn progress<'a>(ctx: &Ctx<'a>) -> Option<&'a Progress> {
    let model = &ctx.session.model;
    let main = ctx.session.main_job().map(|(id, _)| id);
    let of = |id: &str| model.progress_of(id).filter(|p| !p.is_empty());
    main.and_then(of).or_else(|| model.jobs.keys().find_map(|id| of(id)))
}

fn title(ctx: &Ctx) -> String {
    let model = &ctx.session.model;
    let dialect = progress(ctx).map_or(String::new(), |p| format!(" · {}", p.dialect.as_str()));
    let job = match ctx.session.main_job() {
        Some((id, _)) if model.jobs.len() > 1 => format!(" of job {id}"),
        _ => String::new(),
    };
    format!("Training{job}{dialect}")
}

fn want(ctx: &Ctx, width: u16) -> Option<Want> {
    let wide = width >= 40
        && !crate::tui::layout::ARRANGEMENTS.last().is_some_and(|a| std::ptr::eq(a, crate::tui::layout::arrangement(ctx.ui.size.0)));
    let all = match progress(ctx) {
        // Its history stands in the timeline.
        Some(p) if wide => head(ctx, p, usize::from(width)).len().clamp(2, 5) as u16,
        None => 1,
        Some(_) => 2,
    };
    Some(Want { width: 30, least: 1, comfort: all, all, priority: 0, late: false, grows: false })
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let Some(p) = progress(ctx) else {
        let job = ctx.session.main_job().and_then(|(id, _)| ctx.session.model.jobs.get(id));
        let rhythm = job.and_then(|job| ctx.session.model.rhythm_of(job));
        let words = rhythm.map_or(String::new(), |rhythm| format!("step time {}; ", rhythm.words()));
        buf.set_stringn(area.x, area.y, format!("{words}no step line seen in any log"), usize::from(area.width), ctx.theme.dim);
        return;
    };
    let head = head(ctx, p, usize::from(area.width));
    if !ctx.zoomed {
        lines(area, buf, &head);
        let first = area.y + head.len() as u16;
        let sparks: [(&str, &Trend, Style); 2] = [("loss", &p.losses, ctx.theme.chart), ("step time", &p.step_trend, ctx.theme.chart2)];
        for ((label, trend, style), y) in sparks.into_iter().zip(first..area.bottom()) {
            history(ctx, Rect { y, height: 1, ..area }, buf, label, trend, style);
        }
        return;
    }
    let mut all = head;
    all.extend(more(ctx, p));
    all.push(Line::default());
    lines(area, buf, &all);
    let mut below = Rect { y: area.y + (all.len() as u16).min(area.height), height: area.height.saturating_sub(all.len() as u16), ..area };
    type Word = fn(f64) -> String;
    let charts = [
        ("loss", &p.losses, loss as Word, ctx.theme.chart),
        ("step time", &p.step_trend, seconds as Word, ctx.theme.chart2),
        (p.throughput_unit.unwrap_or("throughput"), &p.throughput_trend, scaled as Word, ctx.theme.chart),
    ];
    let shown: Vec<_> = charts.into_iter().filter(|(_, trend, _, _)| !trend.is_empty()).collect();
    let each = below.height / shown.len().max(1) as u16;
    for (label, trend, word, style) in shown {
        if each < 4 {
            return;
        }
        buf.set_stringn(below.x, below.y, label, usize::from(below.width), ctx.theme.title);
        let plot = Rect { y: below.y + 1, height: (each - 2).min(16), ..below };
        // Never more than two columns a second of the window: wider, it would show more time than it says.
        let most = ctx.ui.window.as_secs() as u16;
        let plot = Rect { width: plot.width.min(SCALE + most), ..plot };
        let axis = ctx.axis(usize::from(plot.width.saturating_sub(SCALE)) * 2);
        let values = trend.columns(axis.end, axis.step, axis.columns, hold(p));
        Chart { values: &values, since: &ctx.axis_words(), word, line: style, scale: ctx.theme.dim }.draw(plot, buf);
        below = Rect { y: below.y + each, height: below.height.saturating_sub(each), ..below };
    }
}

/// A value of a step stands until the next step is due.
pub(super) fn hold(p: &Progress) -> Duration {
    Duration::try_from_secs_f64(p.step_time_s.unwrap_or(1.0) * 1.5)
        .unwrap_or_default()
        .clamp(Duration::from_secs(2), Duration::from_secs(300))
}

/// A label, the sparkline, and the range that it covers.
fn history(ctx: &Ctx, row: Rect, buf: &mut Buffer, label: &str, trend: &Trend, style: Style) {
    const LABEL: u16 = 10;
    const RANGE: u16 = 20;
    if row.width < LABEL + 8 {
        return;
    }
    buf.set_stringn(row.x, row.y, label, usize::from(LABEL), ctx.theme.dim);
    let cells = row.width.saturating_sub(LABEL + RANGE).clamp(8, 60);
    let axis = ctx.axis(usize::from(cells));
    let values = trend.columns(axis.end, axis.step, axis.columns, Duration::from_secs(2).max(axis.step));
    let finite = || values.iter().flatten().copied().filter(|v| v.is_finite());
    let (Some(low), Some(high)) = (finite().reduce(f32::min), finite().reduce(f32::max)) else {
        buf.set_stringn(
            row.x + LABEL,
            row.y,
            format!("nothing in the {}", ctx.axis_words()),
            usize::from(row.width - LABEL),
            ctx.theme.dim,
        );
        return;
    };
    // From its lowest to its highest: what matters is how it moves.
    let scaled_values: Vec<Option<f32>> =
        values.iter().map(|v| v.map(|v| if high > low { (v - low) / (high - low) } else { 0.5 })).collect();
    spark::draw(buf, row.x + LABEL, row.y, &scaled_values, 1.0, style);
    let word = |v: f32| if label == "loss" { loss(f64::from(v)) } else { seconds(f64::from(v)) };
    let (low, high) = trend.range(axis.end, ctx.ui.window).unwrap_or((low, high));
    let range = if word(low) == word(high) { word(low) } else { format!("{} to {}", word(low), word(high)) };
    let x = row.x + LABEL + cells + 1;
    buf.set_stringn(x, row.y, range, usize::from(row.right().saturating_sub(x)), ctx.theme.dim);
}

/// The numbers that matter, in as many rows as the width needs.
fn head(ctx: &Ctx, p: &Progress, width: usize) -> Vec<Line<'static>> {
    let text = ctx.theme.text;
    let now = ctx.session.model.now;
    let stale = quiet(p, &ctx.session.model).is_some();
    let ago = p.last_step_at.map(|at| format!("{} ago", span(Duration::from_secs(now.since(at).as_secs()))));
    let done = p
        .total_steps
        .zip(p.step)
        .filter(|(total, _)| *total > 0)
        .map(|(total, step)| format!(" {:.1} %", step as f64 / total as f64 * 100.0));
    let rate = p.throughput.map(|t| format!("{} {}", scaled(t), p.throughput_unit.unwrap_or("")));
    let step_style = if stale { ctx.theme.look } else { text };
    let parts: Vec<[Span<'static>; 2]> = vec![
        labelled(ctx, "step", Some(format!("{}{}", step(p), done.unwrap_or_default())), text),
        labelled(ctx, "loss", p.loss.map(loss), if p.loss.is_some_and(|l| !l.is_finite()) { ctx.theme.act } else { text }),
        labelled(ctx, "step time", p.step_time_s.map(seconds), text),
        labelled(ctx, "jitter", p.jitter().map(|j| format!("{:.0} %", j * 100.0)), text),
        labelled(ctx, "rate", rate, text),
        labelled(ctx, "ETA", p.eta().map(span), text),
        labelled(ctx, "last step", ago, step_style),
    ];
    // Only of a job that was restarted: an attempt, and steps that are done again.
    let model = &ctx.session.model;
    let job = ctx.session.main_job().and_then(|(id, _)| model.jobs.get(id));
    let attempt = job.and_then(|job| model.attempt_of(job)).filter(|attempt| attempt.no > 1).map(|attempt| attempt.words());
    let back = job.and_then(|job| model.went_back(job)).map(|(from, to)| format!("from {} to {}", group(from), group(to)));
    let facts = [("attempt", attempt), ("step went back", back)].into_iter().filter(|(_, value)| value.is_some());
    let parts = parts.into_iter().chain(facts.map(|(label, value)| labelled(ctx, label, value, text)));
    let mut out: Vec<Line> = Vec::new();
    for part in parts {
        let wide: usize = part.iter().map(|s| s.width()).sum();
        match out.last_mut() {
            Some(line) if line.width() + 3 + wide <= width => {
                line.push_span(Span::raw("   "));
                part.into_iter().for_each(|s| line.push_span(s));
            }
            _ => out.push(Line::from(part.to_vec())),
        }
    }
    out
}

/// What there is room for when the pane is alone.
fn more(ctx: &Ctx, p: &Progress) -> Vec<Line<'static>> {
    let text = ctx.theme.text;
    let number = |v: Option<f64>| v.map(|v| format!("{v:.4}"));
    let mut parts = labelled(ctx, "epoch", p.epoch.map(|e| format!("{e:.2}")), text).to_vec();
    for (label, value) in [
        ("gradient norm", number(p.grad_norm)),
        ("learning rate", p.learning_rate.map(|l| format!("{l:.3e}"))),
        ("skipped steps", (p.skipped_steps > 0).then(|| p.skipped_steps.to_string())),
    ] {
        parts.push(Span::raw("   "));
        parts.extend(labelled(ctx, label, value, text));
    }
    let now = ctx.session.model.now;
    let phase = match (p.phase(), quiet(p, &ctx.session.model)) {
        (Some((phase, since)), _) => Some(format!("{} for {}", phase.as_str(), span(now.since(since)))),
        (None, Some(quiet)) => Some(format!("no step for {}", span(quiet))),
        (None, None) => p.steady_since.map(|at| format!("steady for {}", span(now.since(at)))),
    };
    vec![Line::from(parts), Line::from(labelled(ctx, "pace", phase, text).to_vec())]
}

fn step(p: &Progress) -> String {
    let step = or_dash(p.step.map(crate::base::units::group));
    p.total_steps.map_or(step.clone(), |total| format!("{step}/{}", crate::base::units::group(total)))
}

pub(super) fn loss(loss: f64) -> String {
    if !loss.is_finite() {
        return loss.to_string();
    }
    if loss != 0.0 && loss.abs() < 1e-3 { format!("{loss:.2e}") } else { format!("{loss:.4}") }
}

/// For how long there was no step, where that is longer than usual.
pub(super) fn quiet(p: &Progress, model: &Model) -> Option<Duration> {
    let quiet = model.now.since(model.watched(p.last_step_at?));
    (quiet > p.patience()).then_some(quiet)
}

/// The training state in one line.
pub fn sentence(p: &Progress, model: &Model, otherwise: &str) -> String {
    if p.step.is_none() {
        return otherwise.to_owned();
    }
    let mut parts = vec![format!("step {}", step(p))];
    // Silence is shown before anybody judges it.
    if let Some(quiet) = quiet(p, model) {
        let usual = p.usual_gap_s().map_or(String::new(), |(median, _)| format!(" (usually one in {})", seconds(median)));
        return format!("{}  no step line for {}{usual}", parts[0], span(quiet));
    }
    parts.extend(p.step_time_s.map(|s| format!("{}/step", seconds(s))));
    parts.extend(p.loss.map(|l| format!("loss {}", loss(l))));
    parts.extend(p.eta().map(|eta| format!("ETA {}", span(eta))));
    parts.join("  ")
}
