//! The panes.
//!
//! **To add a pane**: a file below `panes/` with a `pub const PANE: Pane`, its line in [`PANES`], and its place in
//! [`super::layout::ARRANGEMENTS`]. Its key is the next digit.

pub(super) mod findings;
pub(super) mod gpus;
mod log;
pub(super) mod nccl;
pub(super) mod network;
pub(super) mod processes;
pub(super) mod sources;
pub mod timeline;
mod topology;
pub mod training;

use super::choices::{List, Opened, Ui};
use super::filter::Filter;
use super::layout::Want;
use super::theme::Theme;
use super::widgets::spark::Axis;
use super::widgets::table::Sorting;
use crate::base::severity::Severity;
use crate::base::time::Stamp;
use crate::base::words::wrap;
use crate::diagnosis::culprits::Culprits;
use crate::diagnosis::session::Session;
use crate::diagnosis::verdict::{State, Verdict};
use crate::model::series::Trend;
use crate::observe::SourceId;
use crate::rules::findings::Finding;
use crate::tui::choices::Mode;
use crate::tui::widgets::put::Put;
use crate::tui::widgets::time_axis::TimeAxis;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Duration;

pub struct Pane {
    pub id: &'static str,
    /// For the help.
    pub shows: &'static str,
    pub title: fn(&Ctx) -> String,
    /// What it asks for at a width; `None`: it has nothing to show and leaves its place to others.
    pub want: fn(&Ctx, u16) -> Option<Want>,
    /// Names of its rows, in the order shown; empty for a pane without a list.
    pub rows: fn(&Ctx) -> Vec<String>,
    /// The row that stands for the selected one as long as nothing was chosen, where it is not the first: the culprit's.
    pub first: fn(&Ctx) -> Option<String>,
    /// The columns it can be sorted by, of those that are shown at a width: number from 1, and head.
    pub sorts: fn(&Ctx, u16) -> Vec<Sorting>,
    /// The row at a line of the screen.
    pub row_at: fn(&Ctx, Rect, u16) -> Option<usize>,
    pub open: fn(&Ctx) -> Opened,
    /// Draws into an area that has at least its least rows and columns, or any when zoomed.
    pub draw: fn(&Ctx, Rect, &mut Buffer),
}

/// In the order of their keys.
pub const PANES: &[Pane] = &[
    training::PANE,
    gpus::PANE,
    network::PANE,
    nccl::PANE,
    findings::PANE,
    log::PANE,
    processes::PANE,
    sources::PANE,
    topology::PANE,
    timeline::PANE,
];

/// Whom the verdict names has this before its row.
const CULPRIT: &str = "►";

/// What a GPU does that only moves bytes.
const TRANSFER: &str = "transfer";

/// What a pane may look at.
#[derive(Clone, Copy)]
pub struct Ctx<'a> {
    pub session: &'a Session,
    pub ui: &'a Ui,
    pub theme: &'a Theme,
    /// Of [`PANES`].
    pub pane: usize,
    pub zoomed: bool,
    pub focused: bool,
}

impl<'a> Ctx<'a> {
    pub fn list(&self) -> &'a List {
        &self.ui.lists[self.pane]
    }

    /// What the user filters its rows by.
    pub fn filter(&self) -> &'a Filter {
        self.ui.filter_of(self.pane)
    }

    /// Why there is no row: the filter, or what `otherwise` says.
    pub fn why_empty(&self, otherwise: impl FnOnce() -> String) -> String {
        if self.filter().is_empty() { otherwise() } else { "nothing passes the filter; esc clears it".into() }
    }

    /// The time axis of all sparklines, for so many cells.
    pub fn axis(&self, cells: usize) -> Axis {
        Axis::new(self.session.model.now, self.ui.window, cells)
    }

    fn is_replay(&self) -> bool {
        matches!(self.ui.mode, Mode::Replay { .. })
    }

    /// Values over the time axis of the screen for a chart of so many cells, two for each. Nothing is sampled more often than twice a second:
    /// in a wider chart each value stands in several columns.
    pub fn charted(&self, trend: &Trend, cells: u16, hold: Duration) -> Vec<Option<f32>> {
        let columns = usize::from(cells) * 2;
        let axis = self.axis(columns.min(self.ui.window.as_secs() as usize * 2));
        let values = trend.columns(axis.end, axis.step, axis.columns, hold);
        (0..columns).map(|column| values.get(column * values.len() / columns).copied().flatten()).collect()
    }

    pub fn axis_words(&self) -> String {
        match self.ui.window.as_secs() {
            s if s % 60 == 0 => format!("last {} min", s / 60),
            s => format!("last {s} s"),
        }
    }

    /// The name of a job, where there is more than one, so that it matters whose something is.
    pub fn whose(&self, job: &str) -> Option<String> {
        (self.session.model.jobs.len() > 1).then(|| crate::base::clean::clean(job).into_owned())
    }

    /// The job that the screen is of, as far as it is of one.
    pub fn main_job(&self) -> Option<(&'a str, &'a Verdict)> {
        self.ui.main_job(self.session)
    }

    /// What a source reports of itself: why it has nothing, where it has nothing.
    fn source_detail(&self, id: &'static str) -> Option<String> {
        let detail = self.session.model.sources.get(&SourceId::of(id))?.detail.as_deref()?;
        Some(crate::base::clean::clean(detail).into_owned())
    }

    /// From when the first thing was seen, as far as it is shown.
    pub fn time_axis(&self, cells: usize) -> TimeAxis {
        let model = &self.session.model;
        self.axis_from(model.started.unwrap_or(model.now), cells)
    }

    /// The same for what the job did that the screen is of. Where several run, it begins with that job.
    pub fn job_axis(&self, cells: usize) -> TimeAxis {
        let model = &self.session.model;
        let started = model.started.unwrap_or(model.now);
        let began = self.main_job().filter(|_| model.jobs.len() > 1).and_then(|(job, _)| self.began_at(job));
        self.axis_from(began.map_or(started, |began| began.max(started)), cells)
    }

    fn axis_from(&self, since: Stamp, cells: usize) -> TimeAxis {
        let axis = if self.is_replay() { TimeAxis::of_recording } else { TimeAxis::of_live };
        axis(since, self.session.model.now, self.ui.window, cells)
    }

    /// When a job began. Where nothing tells when its processes did, that is when it was first judged.
    pub fn began_at(&self, job: &str) -> Option<Stamp> {
        let known = self.session.model.jobs.get(job)?;
        self.session.model.began_at(known).or_else(|| self.session.story.of(job).next().map(|chapter| chapter.since))
    }

    /// Whom the verdicts name.
    pub fn culprits(&self) -> &'a Culprits {
        &self.session.culprits
    }

    /// Of ranks that share a GPU those that the verdict names, where it names some of them: a row that is marked is theirs. Else all of them.
    fn named_or_all(&self, job: &str, ranks: Vec<u32>) -> Vec<u32> {
        let named: Vec<u32> = ranks.iter().copied().filter(|rank| self.culprits().rank(job, *rank).is_some()).collect();
        if named.is_empty() { ranks } else { named }
    }

    /// The finding that a rank of a job is late in all of its steps, where its verdict rests on that.
    fn straggler(&self, job: &str) -> Option<&'a Finding> {
        self.session.named(job).filter(|finding| finding.rule == crate::rules::straggler::RULE.id && !finding.ranks.is_empty())
    }

    /// What a GPU is in each step, while the verdict on its job names one that is late in all of them.
    fn in_step(&self, gpu: u32) -> Option<InStep> {
        // Of ranks that share it, some are late and others wait.
        let (job, _) = self.session.model.only_rank_on_gpu(gpu)?;
        self.straggler(&job.id)?;
        Some(if self.culprits().gpu(gpu).is_some() { InStep::Late } else { InStep::Waits })
    }

    /// The state of the job that stands on top.
    pub(super) fn state(&self) -> State {
        self.main_job().map_or(State::Idle, |(_, verdict)| verdict.state)
    }

    /// As [`Ctx::selected`]; as long as nothing was chosen, `first` where it is a row: it is in sight, wherever keys go.
    pub fn selected_or(&self, rows: &[String], first: Option<String>) -> Option<usize> {
        let list = self.list();
        let untouched = list.row.is_none() && list.index == 0;
        let first = first.filter(|_| untouched).and_then(|f| rows.iter().position(|r| *r == f));
        first.or_else(|| self.selected(rows))
    }

    /// The selected one of `rows`; none while the pane is neither focused nor zoomed and nothing was chosen.
    pub fn selected(&self, rows: &[String]) -> Option<usize> {
        (self.focused || self.list().row.is_some()).then(|| self.list().position(rows)).flatten()
    }
}

/// What a GPU is in each step of a job one of whose ranks is late in all of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum InStep {
    Late,
    /// For the late one, with a kernel that spins.
    Waits,
}

const fn no_first(_: &Ctx) -> Option<String> {
    None
}

const fn no_rows(_: &Ctx) -> Vec<String> {
    Vec::new()
}

const fn no_sorts(_: &Ctx, _: u16) -> Vec<Sorting> {
    Vec::new()
}

const fn no_row_at(_: &Ctx, _: Rect, _: u16) -> Option<usize> {
    None
}

const fn opens_nothing(_: &Ctx) -> Opened {
    Opened::Nothing
}

/// Whether the pane has rows that can be filtered.
pub fn has_rows(ctx: &Ctx) -> bool {
    let pane = &PANES[ctx.pane];
    matches!(pane.id, "log" | "findings") || !(pane.sorts)(ctx, u16::MAX).is_empty()
}

/// The row of a table with a head of one line; `first` is in sight as long as nothing was chosen.
fn table_row_at(ctx: &Ctx, area: Rect, y: u16, first: Option<String>) -> Option<usize> {
    let rows = (PANES[ctx.pane].rows)(ctx);
    let line = y.checked_sub(area.y + 1)?;
    let height = usize::from(area.height.saturating_sub(1));
    let row = super::widgets::first_shown(rows.len(), ctx.selected_or(&rows, first), height) + usize::from(line);
    (row < rows.len() && usize::from(line) < height).then_some(row)
}

/// Draws lines from the top, as many as fit.
fn lines(area: Rect, buf: &mut Buffer, lines: &[Line]) {
    for (text, y) in lines.iter().zip(area.y..area.bottom()) {
        line(buf, area, y, text);
    }
}

/// Draws a text over as many rows as it needs and as there are: why there is nothing else to draw.
fn paragraph(ctx: &Ctx, area: Rect, buf: &mut Buffer, text: &str) {
    let parts = wrap(text, usize::from(area.width));
    lines(area, buf, &parts.into_iter().map(|p| Line::styled(p, ctx.theme.dim)).collect::<Vec<_>>());
}

/// Draws a line; what was cut off says so.
pub(super) fn line(buf: &mut Buffer, area: Rect, y: u16, line: &Line) {
    let (end, _) = buf.put_line(area.x, y, line, area.width);
    if line.width() > usize::from(area.width) && area.width > 0 {
        // A wide character may have found no room at all.
        buf.set_string(end.clamp(area.x + 1, area.right()) - 1, y, "…", Style::new());
    }
}

/// `label value` with the label dimmed; what is not known is a dash.
fn labelled(ctx: &Ctx, label: &str, value: Option<String>, style: Style) -> [Span<'static>; 2] {
    let shown = value.map_or_else(|| Span::styled("–", ctx.theme.dim), |v| Span::styled(v, style));
    [Span::styled(format!("{label} "), ctx.theme.dim), shown]
}

/// The panes without a screen, for `snapshot`: title and lines of text.
pub fn as_text(session: &Session) -> Vec<(String, Vec<String>)> {
    const WIDTH: u16 = 160;
    let theme = Theme::mono();
    let ui = Ui::new(session.model.zone);
    let shown = PANES.iter().enumerate().filter(|(_, p)| !matches!(p.id, "log" | "timeline")).filter_map(|(pane, p)| {
        let ctx = Ctx { session, ui: &ui, theme: &theme, pane, zoomed: false, focused: false };
        // A column for marks before it, as on the screen.
        let whole = Rect::new(0, 0, WIDTH + 1, (p.want)(&ctx, WIDTH)?.all.min(2000));
        let mut buf = Buffer::empty(whole);
        (p.draw)(&ctx, Rect { x: 1, width: WIDTH, ..whole }, &mut buf);
        let lines = buf.content().chunks(usize::from(WIDTH + 1)).map(|row| {
            let text: String = row.iter().map(|c| c.symbol()).collect();
            text.trim_end().to_owned()
        });
        Some(((p.title)(&ctx), lines.collect()))
    });
    shown.collect()
}

/// A value, or the sign that it is not there.
fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".into())
}

/// Leaves `below` rows at the bottom for the selected row in detail, with a line above them: the list's area and that of the detail.
fn split_detail(ctx: &Ctx, area: Rect, below: u16, buf: &mut Buffer) -> (Rect, Rect) {
    let below = below.min(area.height);
    let list = Rect { height: area.height - below, ..area };
    if below < 2 {
        return (area, Rect { height: 0, ..area });
    }
    buf.put(area.x, list.bottom(), "─".repeat(usize::from(area.width)), usize::from(area.width), ctx.theme.border);
    (list, Rect { y: list.bottom() + 1, height: below - 1, ..area })
}

/// The finding that is looked at, where findings are looked at.
pub fn selected_finding(session: &Session, ui: &Ui) -> Option<crate::rules::findings::Finding> {
    findings::selected(session, ui)
}

/// Marks the row that keys go to, so that it reads as one.
pub(super) fn mark_selected(ctx: &Ctx, row: Rect, buf: &mut Buffer) {
    select_row(ctx.theme, row, buf);
}

/// As [`mark_selected`], of any screen.
pub(super) fn select_row(theme: &Theme, row: Rect, buf: &mut Buffer) {
    restyle(row, buf, |cell| theme.selected(cell));
}

/// Marks the row of whom the verdict names: a sign in the margin, which every pane has at its left, and a tint.
pub(super) fn mark_culprit(ctx: &Ctx, row: Rect, bad: Option<Severity>, buf: &mut Buffer) {
    if let Some(bad) = bad {
        blame_row(ctx.theme, row, bad, buf);
    }
}

/// As [`mark_culprit`], of any screen.
pub(super) fn blame_row(theme: &Theme, row: Rect, bad: Severity, buf: &mut Buffer) {
    restyle(row, buf, |cell| theme.blamed(cell, bad));
    if let Some(margin) = row.x.checked_sub(1).and_then(|x| buf.cell_mut((x, row.y))) {
        margin.set_symbol(CULPRIT).set_style(theme.severity(bad.max(Severity::Warning)));
    }
}

/// The tint alone.
fn tint(ctx: &Ctx, row: Rect, bad: Severity, buf: &mut Buffer) {
    restyle(row, buf, |cell| ctx.theme.blamed(cell, bad));
}

fn restyle(row: Rect, buf: &mut Buffer, look: impl Fn(Style) -> Style) {
    for position in row.positions() {
        if let Some(cell) = buf.cell_mut(position) {
            let style = look(cell.style());
            cell.set_style(Style::reset());
            cell.set_style(style);
        }
    }
}
