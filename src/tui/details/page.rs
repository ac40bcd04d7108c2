//! What the lines of a detail are made with.

use super::{Entry, Subject};
use crate::base::clean::clean;
use crate::base::words::wrap;
use crate::model::series::Trend;
use crate::rules::findings::Finding;
use crate::tui::choices::Opened;
use crate::tui::panes::{Ctx, findings};
use crate::tui::widgets::chart::{Chart, SCALE};
use crate::tui::widgets::labelled;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// Rows of a chart, with the times below it.
const CHART: u16 = 5;
/// Columns of the labels of facts.
const LABEL: usize = 13;
/// Columns in which pairs begin, and cells between two of them.
const COLUMN: usize = 20;
const GAP: usize = 2;

/// Facts as pairs of a label and what is known.
pub type Facts = Vec<(&'static str, Option<String>)>;

pub struct Page<'a> {
    ctx: &'a Ctx<'a>,
    width: usize,
    entries: Vec<Entry>,
}

impl<'a> Page<'a> {
    pub fn new(ctx: &'a Ctx<'a>, width: usize) -> Page<'a> {
        Page { ctx, width: width.max(1), entries: Vec::new() }
    }

    pub fn entries(self) -> Vec<Entry> {
        self.entries
    }

    fn put(&mut self, line: Line<'static>) {
        self.entries.push(Entry { line, to: None });
    }

    /// A part begins.
    pub fn head(&mut self, text: &str) {
        if !self.entries.is_empty() {
            self.put(Line::default());
        }
        self.put(Line::styled(clean(text).into_owned(), self.ctx.theme.title));
    }

    /// Why there is nothing.
    pub fn note(&mut self, text: &str) {
        self.text(text, self.ctx.theme.dim);
    }

    /// A text, in as many lines as it needs.
    pub fn text(&mut self, text: &str, style: Style) {
        for part in wrap(&clean(text), self.width) {
            self.put(Line::styled(part, style));
        }
    }

    /// A text behind its label, in as many lines as it needs.
    pub fn fact(&mut self, label: &str, text: &str, style: Style) {
        let label = format!("{label:<LABEL$} ");
        for line in labelled(&label, self.ctx.theme.dim, &clean(text), style, self.width) {
            self.put(line);
        }
    }

    /// Pairs in columns that stand below each other, as many in a line as fit; a long one takes several columns.
    pub fn facts(&mut self, facts: &Facts) {
        let theme = self.ctx.theme;
        let mut line = Line::default();
        for (label, value) in facts {
            let value = value.as_deref().map_or("–".into(), |value| clean(value).into_owned());
            let wide = label.width() + 1 + value.width();
            let column = match line.width() {
                0 => 0,
                taken => (taken + GAP).next_multiple_of(COLUMN),
            };
            if column > 0 && column + wide > self.width {
                self.put(std::mem::take(&mut line));
            }
            if wide > self.width {
                self.fact(label, &value, theme.text);
                continue;
            }
            let gap = " ".repeat(if line.width() > 0 { column - line.width() } else { 0 });
            line.spans.extend([Span::styled(format!("{gap}{label} "), theme.dim), Span::styled(value, theme.text)]);
        }
        if line.width() > 0 {
            self.put(line);
        }
    }

    /// A line from which enter leads somewhere; its text goes on below it where it is long.
    pub fn link(&mut self, text: &str, style: Style, to: Opened) {
        let mut to = Some(to);
        for part in labelled("› ", self.ctx.theme.accent, &clean(text), style, self.width) {
            self.entries.push(Entry { line: part, to: to.take() });
        }
    }

    /// Values of a quantity over the time axis of the screen.
    pub fn chart(&mut self, label: &str, trend: &Trend, scale: f32, hold: Duration, word: fn(f64) -> String) {
        if trend.is_empty() {
            return;
        }
        let ctx = self.ctx;
        let plot = Rect::new(0, 0, self.width as u16, CHART);
        let since = ctx.axis_words();
        self.put(Line::styled(format!("{label}, {since}"), ctx.theme.dim));
        let values = ctx.charted(trend, plot.width.saturating_sub(SCALE), hold);
        let values: Vec<Option<f32>> = values.into_iter().map(|v| v.map(|v| v * scale)).collect();
        self.drawn(plot.width, plot.height, |area, buf| {
            Chart { values: &values, range: None, span: (&since, "now"), word, line: ctx.theme.chart, scale: ctx.theme.dim }
                .draw(area, buf);
        });
    }

    /// What is drawn as cells, without the empty rows at its end.
    pub fn drawn(&mut self, width: u16, height: u16, draw: impl FnOnce(Rect, &mut Buffer)) {
        let area = Rect::new(0, 0, width.min(self.width as u16), height);
        let mut buf = Buffer::empty(area);
        draw(area, &mut buf);
        let mut lines: Vec<Line<'static>> = buf.content().chunks(usize::from(area.width.max(1))).map(line_of).collect();
        while lines.last().is_some_and(|line| line.width() == 0) {
            lines.pop();
        }
        lines.into_iter().for_each(|line| self.put(line));
    }

    /// Findings that are about it, open ones first.
    pub fn findings(&mut self, is_about: impl Fn(&Finding) -> bool) {
        let session = self.ctx.session;
        let about: Vec<&Finding> = findings::all(session).into_iter().filter(|f| is_about(f)).take(MOST).collect();
        if about.is_empty() {
            return;
        }
        self.head("Findings");
        for f in about {
            let (past, style) =
                if f.cleared_at.is_some() { ("was: ", self.ctx.theme.dim) } else { ("", self.ctx.theme.severity(f.severity)) };
            let to = Opened::Detail(Subject::new("finding", findings::name(f)));
            self.link(&format!("{}  {past}{}", f.rule, f.summary), style, to);
        }
    }
}

/// Things of one kind that are listed at most.
pub const MOST: usize = 64;

/// The cells of a row, with their styles.
fn line_of(row: &[ratatui::buffer::Cell]) -> Line<'static> {
    let mut spans: Vec<Span<'static>> = Vec::new();
    let mut skip = 0;
    for cell in row {
        // The second half of a wide character is an empty cell of its own.
        if skip > 0 {
            skip -= 1;
            continue;
        }
        skip = cell.symbol().width().saturating_sub(1);
        match spans.last_mut() {
            Some(last) if last.style == cell.style() => last.content.to_mut().push_str(cell.symbol()),
            _ => spans.push(Span::styled(cell.symbol().to_owned(), cell.style())),
        }
    }
    let mut line = Line::from(spans);
    while let Some(last) = line.spans.last_mut() {
        let kept = last.content.trim_end().len();
        last.content.to_mut().truncate(kept);
        if kept > 0 {
            break;
        }
        line.spans.pop();
    }
    line
}
