//! Where training stands: step, loss, step time and its jitter, throughput, time left, pauses.

use super::timeline;
use super::{Ctx, Pane, labelled, lines, no_first, no_row_at, no_rows, no_sorts, opens_nothing, or_dash};
use crate::base::time::span;
use crate::base::units::{group, scaled, seconds};
use crate::diagnosis::session::Session;
use crate::diagnosis::verdict::State;
use crate::logs::Dialect;
use crate::model::identity;
use crate::model::job::Job;
use crate::model::progress::Progress;
use crate::model::quiet::{Quiet, usual_words};
use crate::model::series::Trend;
use crate::rules::findings::Finding;
use crate::tui::layout::Want;
use crate::tui::widgets::chart::{Chart, SCALE};
use crate::tui::widgets::put::Put;
use crate::tui::widgets::spark;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

pub const PANE: Pane = Pane {
    id: "training",
    shows: "loss, step time, throughput",
    title,
    want,
    rows: no_rows,
    first: no_first,
    sorts: no_sorts,
    row_at: no_row_at,
    open: opens_nothing,
    draw,
};

/// The job whose progress is shown, and what its log says.
pub(super) fn progress<'a>(ctx: &Ctx<'a>) -> Option<(&'a str, &'a Progress)> {
    let model = &ctx.session.model;
    let main = ctx.main_job().map(|(id, _)| id);
    let of = |id: &'a str| Some((id, model.progress_of(id).filter(|p| !p.is_empty())?));
    // Who has chosen a job does not want to see the steps of another one; nor are those of one that runs beside it those of this one.
    let is_nobodys = |id: &&String| main.is_none() || model.jobs.get(*id).is_some_and(|job| job.log_only);
    let any = || model.jobs.keys().filter(|_| ctx.ui.job.is_none()).filter(is_nobodys).find_map(|id| of(id));
    main.and_then(of).or_else(any)
}

/// What the verdict and the open findings leave of the numbers: a pane says nothing that they deny.
struct Standing {
    state: State,
    /// How old the numbers are, where they are not of now.
    age: Option<Duration>,
    quiet: Option<Quiet>,
    /// The loss or the gradients went wrong.
    diverged: bool,
}

impl Standing {
    fn of(session: &Session, job: &str, p: &Progress) -> Standing {
        let state = session.verdicts.get(job).map_or(State::Unknown, |v| v.state);
        let quiet = session.model.quiet(job);
        let is_over = matches!(state, State::Stuck | State::Failed | State::Finished);
        let is_old = |age: &Duration| is_over || quiet.is_some() || *age > p.look_after().unwrap_or(p.patience());
        Standing { state, age: session.model.step_age(p).filter(is_old), quiet, diverged: has_diverged(session, job) }
    }
}

/// An open finding is about the loss or the gradients of a job.
pub(super) fn has_diverged(session: &Session, job: &str) -> bool {
    let of_numbers = |f: &Finding| matches!(f.rule, "loss-not-finite" | "loss-spike") && f.job.as_deref() == Some(job);
    session.ledger.first_open(of_numbers).is_some()
}

fn title(ctx: &Ctx) -> String {
    let model = &ctx.session.model;
    // Lines of a known trainer are named; what any script prints is not.
    let dialect = progress(ctx).map(|(_, p)| p.dialect).filter(|dialect| *dialect != Dialect::Plain);
    let dialect = dialect.map_or(String::new(), |dialect| format!(" · {}", dialect.as_str()));
    let job = match ctx.main_job() {
        Some((id, _)) if model.jobs.len() > 1 => format!(" of job {id}"),
        _ => String::new(),
    };
    format!("Training{job}{dialect}")
}

fn want(ctx: &Ctx, width: u16) -> Option<Want> {
    let all = match progress(ctx) {
        // Its history stands in the timeline.
        Some((id, p)) if width >= 40 => {
            let standing = Standing::of(ctx.session, id, p);
            head(ctx, p, &standing, usize::from(width)).len().clamp(2, 5) as u16
        }
        None => 1,
        Some(_) => 2,
    };
    Some(Want { width: 30, least: 1, comfort: all, all, priority: 0, late: false, grows: false })
}

/// Rows of a chart, with its title and its axis.
const LEAST_OF_CHART: u16 = 4;
/// Rows of the loss of the whole run in the overview, with the row of its steps; and how many values make a curve.
const ROWS_OF_WHOLE: u16 = 3;
const LEAST_OF_WHOLE: u64 = 12;

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let Some((id, p)) = progress(ctx) else {
        let job = ctx.main_job().and_then(|(id, _)| ctx.session.model.jobs.get(id));
        let rhythm = job.and_then(|job| ctx.session.model.rhythm_of(job));
        let words = rhythm.map_or(String::new(), |rhythm| format!("step time {}; ", rhythm.words()));
        buf.put(area.x, area.y, format!("{words}{}", no_step(ctx, job)), usize::from(area.width), ctx.theme.dim);
        return;
    };
    let standing = Standing::of(ctx.session, id, p);
    let head = head(ctx, p, &standing, usize::from(area.width));
    if !ctx.zoomed {
        lines(area, buf, &head);
        let first = area.y + head.len() as u16;
        let whole = (area.bottom() >= first + 1 + ROWS_OF_WHOLE && p.loss_course.values() >= LEAST_OF_WHOLE).then_some("loss");
        let sparks: [(&str, &Trend, Style); 2] = [("loss", &p.losses, ctx.theme.chart2), ("step time", &p.step_trend, ctx.theme.chart)];
        let sparks = sparks.into_iter().filter(|(label, trend, _)| !trend.is_empty() && whole != Some(label));
        let mut below = first;
        for ((label, trend, style), y) in sparks.zip(first..area.bottom()) {
            let last = p.loss.filter(|loss| label == "loss" && !loss.is_finite());
            history(ctx, Rect { y, height: 1, ..area }, buf, label, trend, last, style);
            below = y + 1;
        }
        if whole.is_some() {
            whole_loss(ctx, Rect { y: below, height: area.bottom() - below, ..area }, buf, p);
        }
        return;
    }
    let mut all = head;
    all.extend(more(ctx, p, &standing));
    all.push(Line::default());
    lines(area, buf, &all);
    let mut below = Rect { y: area.y + (all.len() as u16).min(area.height), height: area.height.saturating_sub(all.len() as u16), ..area };
    if below.height >= LEAST_OF_CHART * 2 && p.loss_course.values() >= LEAST_OF_WHOLE {
        let height = (below.height / 4).clamp(LEAST_OF_CHART, 14);
        whole_loss(ctx, Rect { height: height - 1, ..below }, buf, p);
        below = Rect { y: below.y + height, height: below.height - height, ..below };
    }
    type Word = fn(f64) -> String;
    let charts = [
        ("loss", &p.losses, loss as Word, ctx.theme.chart2),
        ("step time", &p.step_trend, seconds as Word, ctx.theme.chart),
        (p.throughput_unit.unwrap_or("throughput"), &p.throughput_trend, scaled as Word, ctx.theme.chart),
    ];
    // Few that can be read rather than all.
    let fit = usize::from(below.height / LEAST_OF_CHART);
    let shown: Vec<_> = charts.into_iter().filter(|(_, trend, _, _)| !trend.is_empty()).take(fit).collect();
    let each = below.height / shown.len().max(1) as u16;
    for (label, trend, word, style) in shown {
        buf.put(below.x, below.y, label, usize::from(below.width), ctx.theme.title);
        let plot = Rect { y: below.y + 1, height: (each - 2).min(16), ..below };
        let values = ctx.charted(trend, plot.width.saturating_sub(SCALE), hold(p));
        Chart { values: &values, range: None, span: (&ctx.axis_words(), "now"), word, line: style, scale: ctx.theme.dim }.draw(plot, buf);
        below = Rect { y: below.y + each, height: below.height.saturating_sub(each), ..below };
    }
}

/// The loss of all that was read of the run.
fn whole_loss(ctx: &Ctx, area: Rect, buf: &mut Buffer, p: &Progress) {
    let course = &p.loss_course;
    let values = course.columns(usize::from(area.width.saturating_sub(SCALE)) * 2);
    let of_step = |step: Option<u64>| step.map(|step| format!("step {}", group(step)));
    let from = of_step(p.course_from).map_or_else(|| format!("all {} losses", group(course.values())), |step| format!("loss from {step}"));
    let newest = p.finite_loss.and_then(|(step, _)| of_step(step)).unwrap_or_default();
    let bad = p.loss.filter(|loss| !loss.is_finite()).map_or(String::new(), |bad| format!(", then {bad}"));
    let span = (from.as_str(), &*format!("{newest}{bad}"));
    Chart { values: &values, range: course.range(), span, word: loss, line: ctx.theme.chart2, scale: ctx.theme.dim }.draw(area, buf);
}

/// Why there is no step: lines that were read may show progress in words that are not known.
fn no_step(ctx: &Ctx, job: Option<&Job>) -> String {
    let files = ctx.session.model.files.values().filter(|f| f.is_readable() && job.is_none_or(|job| job.id == f.job));
    match files.map(|f| f.lines).sum::<u64>() {
        0 => "no step line seen in any log".into(),
        1 => "no step read from the one line of the log".into(),
        lines => format!("no step read from the {} lines of the log", group(lines)),
    }
}

/// A value of a step stands until the next step is due.
pub(super) fn hold(p: &Progress) -> Duration {
    Duration::try_from_secs_f64(p.step_time_s.unwrap_or(1.0) * 1.5)
        .unwrap_or_default()
        .clamp(Duration::from_secs(2), Duration::from_secs(300))
}

/// A label, the sparkline, and the range that it covers.
/// `last` is the newest value where it cannot be drawn.
fn history(ctx: &Ctx, row: Rect, buf: &mut Buffer, label: &str, trend: &Trend, last: Option<f64>, style: Style) {
    const LABEL: u16 = 10;
    const RANGE: u16 = 20;
    if row.width < LABEL + 8 {
        return;
    }
    buf.put(row.x, row.y, label, usize::from(LABEL), ctx.theme.dim);
    let cells = row.width.saturating_sub(LABEL + RANGE).clamp(8, 60);
    let axis = ctx.axis(usize::from(cells));
    let values = trend.columns(axis.end, axis.step, axis.columns, Duration::from_secs(2).max(axis.step));
    let finite = || values.iter().flatten().copied().filter(|v| v.is_finite());
    let (Some(low), Some(high)) = (finite().reduce(f32::min), finite().reduce(f32::max)) else {
        buf.put(row.x + LABEL, row.y, format!("nothing in the {}", ctx.axis_words()), usize::from(row.width - LABEL), ctx.theme.dim);
        return;
    };
    // From its lowest to what nearly all reach: what matters is how it moves, and the first step, which compiles, would make all others flat.
    let top = timeline::height(&values).max(low);
    // A loss has no zero that means something; steps that take nearly the same are to look the same.
    let bottom = if label == "loss" { low } else { 0.0 };
    let scaled_values: Vec<Option<f32>> =
        values.iter().map(|v| v.map(|v| if top > bottom { ((v - bottom) / (top - bottom)).min(1.0) } else { 0.5 })).collect();
    spark::draw(buf, row.x + LABEL, row.y, &scaled_values, 1.0, style);
    let word = |v: f32| if label == "loss" { loss(f64::from(v)) } else { seconds(f64::from(v)) };
    let (low, high) = trend.range(axis.end, ctx.ui.window).unwrap_or((low, high));
    let x = row.x + LABEL + cells + 1;
    let room = usize::from(row.right().saturating_sub(x));
    buf.put(x, row.y, range_words(&word(low), &word(high), last, room), room, ctx.theme.dim);
}

/// `94.9 to 385.4 ms`, in as many of the words as there is room for: a number without its unit would be another number.
fn range_words(low: &str, high: &str, last: Option<f64>, room: usize) -> String {
    let unit = |text: &str| text.split_once(' ').map(|(_, unit)| unit.to_owned());
    // One unit stands for both.
    let from = if unit(low) == unit(high) { low.split(' ').next().unwrap_or(low) } else { low };
    let range = if low == high { low.to_owned() } else { format!("{from} to {high}") };
    let with_last = last.map(|last| format!("{range}, then {last}"));
    let alone = last.map_or(format!("≤ {high}"), |last| format!("then {last}"));
    // A range alone would hide that what came behind it is no number.
    let range = Some(range).filter(|_| with_last.is_none());
    with_last.into_iter().chain(range).chain([alone]).find(|words| words.width() <= room).unwrap_or_default()
}

/// The numbers that matter, in as many rows as the width needs. Those that are not of now are dim and stand behind their age.
fn head(ctx: &Ctx, p: &Progress, standing: &Standing, width: usize) -> Vec<Line<'static>> {
    let text = ctx.theme.text;
    let done = p
        .total_steps
        .zip(p.step)
        .filter(|(total, _)| *total > 0)
        .map(|(total, step)| format!(" {:.1} %", step as f64 / total as f64 * 100.0));
    let rate = p.throughput.map(|t| format!("{} {}", scaled(t), p.throughput_unit.unwrap_or("")));
    let bad_loss = p.loss.is_some_and(|l| !l.is_finite()) || standing.diverged;
    let value = if standing.age.is_some() { ctx.theme.dim } else { text };
    let whole_seconds = |age: Duration| format!("{} ago", span(Duration::from_secs(age.as_secs())));
    let ago = ctx.session.model.step_age(p).map(whole_seconds);
    let step_style = if standing.quiet.is_some() { ctx.theme.look } else { text };
    let usual = standing.quiet.map_or(String::new(), |quiet| format!(" (a line every {})", usual_words(quiet.usual_s)));
    let mut now = vec![labelled(ctx, "step", Some(format!("{}{}", step(p), done.unwrap_or_default())), text)];
    // Only of a job that was restarted: an attempt, and steps that are done again.
    let model = &ctx.session.model;
    let job = ctx.main_job().and_then(|(id, _)| model.jobs.get(id));
    let attempt = job.and_then(|job| model.attempt_of(job)).filter(|attempt| attempt.no > 1).map(|attempt| attempt.words());
    let back = job.and_then(|job| model.went_back(job)).map(|(from, to)| format!("from {} to {}", group(from), group(to)));
    let facts = [("attempt", attempt), ("step went back", back)].into_iter().filter(|(_, value)| value.is_some());
    let facts = facts.map(|(label, value)| labelled(ctx, label, value, text));
    let mut then = vec![
        labelled(ctx, "loss", p.loss.map(loss), if bad_loss { ctx.theme.act } else { value }),
        labelled(
            ctx,
            "step time",
            p.step_time_s.map(seconds),
            if p.slow.is_some() && standing.age.is_none() { ctx.theme.look } else { value },
        ),
    ];
    let Some(age) = standing.age else {
        then.push(labelled(ctx, "jitter", p.jitter().map(|j| format!("{:.0} %", j * 100.0)), text));
        then.push(labelled(ctx, "rate", rate, text));
        then.push(labelled(ctx, "ETA", p.eta().map(span), text));
        then.push(labelled(ctx, "last step", ago, step_style));
        return flow(now.into_iter().chain(then).chain(facts), "", width, ctx.theme.dim);
    };
    // How long is left is not known while it stands.
    now.push(labelled(ctx, "last step", ago.map(|ago| format!("{ago}{usual}")), step_style));
    now.extend(facts);
    then.push(labelled(ctx, "rate", rate, value));
    let mut out = flow(now.into_iter(), "", width, ctx.theme.dim);
    out.extend(flow(then.into_iter(), &format!("{}   ", whole_seconds(age)), width, ctx.theme.dim));
    out
}

/// Numbers in as many rows as the width needs, each row with its beginning.
fn flow(parts: impl Iterator<Item = [Span<'static>; 2]>, begin: &str, width: usize, style: Style) -> Vec<Line<'static>> {
    let mut out: Vec<Line> = Vec::new();
    for part in parts {
        let wide: usize = part.iter().map(|s| s.width()).sum();
        match out.last_mut() {
            Some(line) if line.width() + 3 + wide <= width => {
                line.push_span(Span::raw("   "));
                part.into_iter().for_each(|s| line.push_span(s));
            }
            _ => {
                let begin = (!begin.is_empty()).then(|| Span::styled(begin.to_owned(), style));
                out.push(Line::from(begin.into_iter().chain(part).collect::<Vec<_>>()));
            }
        }
    }
    out
}

/// What there is room for when the pane is alone.
fn more(ctx: &Ctx, p: &Progress, standing: &Standing) -> Vec<Line<'static>> {
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
    let (pace, bad) = pace(ctx, p, standing);
    let mut all = vec![Line::from(parts), Line::from(labelled(ctx, "pace", pace, if bad { ctx.theme.look } else { text }).to_vec())];
    let job = progress(ctx).and_then(|(id, _)| ctx.session.model.jobs.get(id));
    let names = job.and_then(|job| identity::of(&ctx.session.model, job).words());
    all.extend(names.map(|names| Line::from(labelled(ctx, "job", Some(names), text).to_vec())));
    all
}

/// How the steps come, as far as the verdict agrees; and whether that is worth a look.
fn pace(ctx: &Ctx, p: &Progress, standing: &Standing) -> (Option<String>, bool) {
    let now = ctx.session.model.now;
    if standing.state == State::Paused
        && let Some((phase, since)) = p.phase()
    {
        return (Some(format!("{} for {}", phase.as_str(), span(now.since(since)))), false);
    }
    if let Some(quiet) = standing.quiet {
        return (Some(quiet.words()), true);
    }
    if let Some(age) = standing.age {
        return (Some(format!("no step for {}", span(age))), standing.state == State::Stuck);
    }
    if let Some(slow) = p.slow {
        let step = p.step_times.median_of_last(10).or(p.step_time_s).map_or(String::new(), |s| format!("{} a step, ", seconds(s)));
        return (Some(format!("{step}{} before, slower for {}", seconds(slow.before_s), span(now.since(slow.since)))), true);
    }
    let is_steady = standing.state == State::Training && !standing.diverged;
    (p.steady_since.filter(|_| is_steady).map(|at| format!("steady for {}", span(now.since(at)))), false)
}

fn step(p: &Progress) -> String {
    let step = or_dash(p.step.map(crate::base::units::group));
    p.total_steps.map_or(step.clone(), |total| format!("{step}/{}", crate::base::units::group(total)))
}

pub(super) fn loss(loss: f64) -> String {
    if !loss.is_finite() {
        return loss.to_string();
    }
    match loss.abs() {
        size if size != 0.0 && size < 1e-3 => format!("{loss:.2e}"),
        size if size < 1e3 => format!("{loss:.4}"),
        size if size < 1e6 => format!("{loss:.0}"),
        _ => format!("{loss:.2e}"),
    }
}

/// `after step 329/50,000`: the last that was made.
pub fn last_step(session: &Session, job: &str) -> Option<String> {
    let p = session.model.progress_of(job).filter(|p| p.step.is_some())?;
    Some(format!("after step {}", step(p)))
}

/// The training state in one line, as far as it is of now.
pub fn sentence(session: &Session, job: &str, otherwise: &str) -> String {
    let Some(p) = session.model.progress_of(job).filter(|p| p.step.is_some()) else { return otherwise.to_owned() };
    let mut parts = vec![format!("step {}", step(p))];
    if let Some(age) = Standing::of(session, job, p).age {
        return format!("{}, {} ago", parts[0], span(age));
    }
    parts.extend(p.step_time_s.map(|s| format!("{}/step", seconds(s))));
    parts.extend(p.loss.map(|l| format!("loss {}", loss(l))));
    parts.extend(p.eta().map(|eta| format!("ETA {}", span(eta))));
    parts.join("  ")
}
