//! A table that keeps its columns where they are: numbers right-aligned, units in the head, the least important columns leave first
//! when it is narrow, and a column in which nothing is known is left out.

use super::meter;
use super::put::Put;
use super::spark::{self, Axis};
use crate::base::severity::Severity;
use crate::base::words::from_ranges;
use crate::diagnosis::verdict::State;
use crate::tui::details::Facts;
use crate::tui::panes::Ctx;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::cmp::Ordering;
use unicode_width::UnicodeWidthStr;

/// What a column sorts by; numbers largest first, words in their order, what is absent last.
#[derive(Clone, Debug, PartialEq, PartialOrd)]
pub enum SortKey {
    Number(f64),
    Word(String),
    Absent,
}

impl SortKey {
    pub fn number(value: Option<f64>) -> SortKey {
        value.filter(|v| !v.is_nan()).map_or(SortKey::Absent, |v| SortKey::Number(-v))
    }

    pub fn word(value: impl Into<String>) -> SortKey {
        SortKey::Word(value.into())
    }

    /// From the lowest to the highest, as indices and ranks are read.
    pub fn index(value: Option<u64>) -> SortKey {
        value.map_or(SortKey::Absent, |v| SortKey::Number(v as f64))
    }

    /// What is absent stays last, whichever way round.
    pub fn order(&self, other: &SortKey, reverse: bool) -> Ordering {
        let order = self.partial_cmp(other).unwrap_or(Ordering::Equal);
        let both_known = *self != SortKey::Absent && *other != SortKey::Absent;
        if reverse && both_known { order.reverse() } else { order }
    }
}

/// A text with its style, or what is not known.
pub type Cell = Option<(String, Option<Style>)>;

/// A quantity without its fraction.
pub fn whole(value: f64) -> String {
    format!("{value:.0}")
}

/// Plain text of a cell.
pub fn plain(text: impl Into<String>) -> Cell {
    Some((text.into(), None))
}

/// Values over an axis, and the value of a full cell.
pub type History = (Vec<Option<f32>>, f32);

pub enum Content<R> {
    /// A text, and what it is sorted by.
    Text(fn(&Ctx, &R) -> Cell, fn(&Ctx, &R) -> SortKey),
    /// An index or a rank: sorted from the lowest.
    Index(fn(&Ctx, &R) -> Option<u32>),
    /// A quantity, and how it is written: sorted from the largest.
    Amount(fn(&Ctx, &R) -> Option<f64>, fn(f64) -> String),
    /// Values over the axis, and what fills a cell.
    Spark(fn(&Ctx, &R, Axis) -> History),
}

/// What a value is held against: by how much it must differ from the nearest of its siblings to stand out, and who they are.
pub type Among<R> = (f64, fn(&R, &R) -> bool);

/// How a row as a whole looks.
#[derive(Clone, Copy, Debug, Default)]
pub struct Look {
    /// The verdict names it, and how bad that is.
    pub culprit: Option<Severity>,
    /// Its values are not of now.
    pub is_old: bool,
}

pub struct Column<R> {
    pub head: &'static str,
    pub width: u16,
    /// Given to columns that can use more, such as texts and sparklines.
    pub widest: u16,
    pub right: bool,
    /// The highest leave first when it is narrow.
    pub rank: u8,
    pub content: Content<R>,
    pub among: Option<Among<R>>,
    /// Where there is room, a bar stands behind the text.
    pub meter: Option<Meter<R>>,
}

/// How much of a limit is used, from 0 to 1, where both are known; and its look where that is too much.
pub type Meter<R> = fn(&Ctx, &R) -> Option<(f32, Option<Style>)>;

/// Cells of a meter, without the gap before it.
const METER: u16 = 12;
/// What history keeps beyond its least width before there are meters.
const HISTORY: u16 = 12;

impl<R> Column<R> {
    /// Right-aligned, of one width.
    pub const fn number(head: &'static str, width: u16, rank: u8, cell: fn(&Ctx, &R) -> Cell, sort: fn(&Ctx, &R) -> SortKey) -> Self {
        Column { head, width, widest: width, right: true, rank, content: Content::Text(cell, sort), among: None, meter: None }
    }

    pub const fn index(head: &'static str, width: u16, rank: u8, value: fn(&Ctx, &R) -> Option<u32>) -> Self {
        Column { head, width, widest: width, right: true, rank, content: Content::Index(value), among: None, meter: None }
    }

    pub const fn amount(head: &'static str, width: u16, rank: u8, value: fn(&Ctx, &R) -> Option<f64>, words: fn(f64) -> String) -> Self {
        Column { head, width, widest: width, right: true, rank, content: Content::Amount(value, words), among: None, meter: None }
    }

    /// Left-aligned.
    pub const fn word(
        head: &'static str,
        width: u16,
        widest: u16,
        rank: u8,
        cell: fn(&Ctx, &R) -> Cell,
        sort: fn(&Ctx, &R) -> SortKey,
    ) -> Self {
        Column { head, width, widest, right: false, rank, content: Content::Text(cell, sort), among: None, meter: None }
    }

    pub const fn spark(width: u16, widest: u16, rank: u8, values: fn(&Ctx, &R, Axis) -> History) -> Self {
        Column { head: "", width, widest, right: false, rank, content: Content::Spark(values), among: None, meter: None }
    }

    /// One that differs from all its siblings, which agree, stands out.
    pub const fn among(mut self, apart: f64, siblings: fn(&R, &R) -> bool) -> Self {
        self.among = Some((apart, siblings));
        self
    }

    /// Of the width of a column, what its words have: a meter stands behind them, nearer to them than to the next number.
    const fn words(&self, width: u16) -> u16 {
        if self.meter.is_some() { self.width } else { width }
    }

    pub const fn metered(mut self, meter: Meter<R>) -> Self {
        self.meter = Some(meter);
        self
    }

    /// It differs from all siblings, which agree. Of two nobody can tell which is as it should be.
    fn stands_out(&self, ctx: &Ctx, row: &R, rows: &[R]) -> bool {
        /// More rows than a node has GPUs or ranks.
        const MOST: usize = 64;
        let (Some((apart, siblings)), Content::Amount(value, _), true) = (self.among, &self.content, rows.len() <= MOST) else {
            return false;
        };
        let Some(own) = value(ctx, row) else { return false };
        let others: Vec<f64> = rows.iter().filter(|other| siblings(row, other)).filter_map(|other| value(ctx, other)).collect();
        let (least, most) = others.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), v| (least.min(*v), most.max(*v)));
        others.len() >= 2 && most - least <= apart / 2.0 && (own <= least - apart || own >= most + apart)
    }

    /// By itself it is sorted from its greatest value down, as what is measured is.
    fn falls(&self, ctx: &Ctx, rows: &[R]) -> bool {
        let known = rows.iter().map(|row| self.key(ctx, row)).find(|key| !matches!(key, SortKey::Absent));
        matches!(known, Some(SortKey::Number(v)) if v.is_sign_negative())
    }

    fn can_sort(&self) -> bool {
        !matches!(self.content, Content::Spark(_))
    }

    fn key(&self, ctx: &Ctx, row: &R) -> SortKey {
        match self.content {
            Content::Text(_, sort) => sort(ctx, row),
            Content::Index(value) => SortKey::index(value(ctx, row).map(u64::from)),
            Content::Amount(value, _) => SortKey::number(value(ctx, row)),
            Content::Spark(_) => SortKey::Absent,
        }
    }

    fn cell(&self, ctx: &Ctx, row: &R) -> Cell {
        match self.content {
            Content::Text(cell, _) => cell(ctx, row),
            Content::Index(value) => plain(value(ctx, row)?.to_string()),
            Content::Amount(value, words) => plain(words(value(ctx, row)?)),
            Content::Spark(_) => None,
        }
    }
}

/// What every column says of a row, also those for which there is no room.
pub fn facts<R>(ctx: &Ctx, columns: &[Column<R>], row: &R) -> Facts {
    // The job is named where there are several.
    let is_told = |head: &str, cell: &Option<String>| head != "job" || cell.is_some();
    let facts = columns.iter().filter(|c| c.can_sort()).map(|column| (column.head, column.cell(ctx, row).map(|(text, _)| text)));
    facts.filter(|(head, cell)| is_told(head, cell)).collect()
}

/// Leaves the rows that pass the filter of the pane. What it looks at are all columns, also those for which there is no room.
pub fn retain<R>(ctx: &Ctx, columns: &[Column<R>], rows: &mut Vec<R>) {
    let filter = ctx.filter();
    if filter.is_empty() {
        return;
    }
    rows.retain(|row| {
        let cells = columns.iter().filter_map(|column| Some((column.head, column.cell(ctx, row)?.0)));
        let cells: Vec<(&str, String)> = cells.collect();
        let ranks = cells.iter().find(|(head, _)| *head == "rank").map_or_else(Vec::new, |(_, text)| from_ranges(text));
        let text: Vec<&str> = cells.iter().map(|(_, text)| text.as_str()).collect();
        filter.matches_text(&text.join(" "), &ranks, "")
    });
}

/// Sorts rows as the user chose: 0 is their own order, then one column after the other.
pub fn sort<R>(ctx: &Ctx, columns: &[Column<R>], rows: &mut Vec<R>) {
    let list = ctx.list();
    if let Some(column) = columns.iter().filter(|c| c.can_sort()).nth(list.sort.wrapping_sub(1)) {
        let mut keyed: Vec<(SortKey, R)> = std::mem::take(rows).into_iter().map(|r| (column.key(ctx, &r), r)).collect();
        keyed.sort_by(|(a, _), (b, _)| a.order(b, list.reverse));
        rows.extend(keyed.into_iter().map(|(_, r)| r));
    } else if list.reverse {
        rows.reverse();
    }
}

/// A column that can be sorted by: its number from 1, its head, and the cells of it from the left end of the table.
#[derive(Clone, Debug)]
pub struct Sorting {
    pub no: usize,
    pub head: &'static str,
    pub cells: std::ops::Range<u16>,
}

/// Of the columns that can be sorted by those that are shown at a width.
pub fn sorts<R>(ctx: &Ctx, columns: &[Column<R>], rows: &[R], width: u16) -> Vec<Sorting> {
    let shown = fit(ctx, columns, rows, Rect::new(0, 0, width, 1));
    let place = |head: &str| {
        shown.iter().find(|(column, _, _)| column.head == head).map(|(_, x, width)| {
            // The sign of the order moves a head into the gap at its left.
            x.saturating_sub(1)..x.saturating_add(*width)
        })
    };
    let sortable = columns.iter().filter(|c| c.can_sort()).zip(1..);
    sortable.filter_map(|(c, no)| Some(Sorting { no, head: c.head, cells: place(c.head)? })).collect()
}

/// Draws the head and the rows that fit, the selected one among them.
pub fn draw<R>(
    ctx: &Ctx,
    columns: &[Column<R>],
    rows: &[R],
    selected: Option<usize>,
    look: impl Fn(&R) -> Look,
    area: Rect,
    buf: &mut Buffer,
) {
    let theme = ctx.theme;
    let chosen = fit(ctx, columns, rows, area);
    let body = Rect { y: area.y + 1.min(area.height), height: area.height.saturating_sub(1), ..area };
    if area.height == 0 {
        return;
    }
    // In a pause and in a start, each has its own to do.
    let alike = !matches!(ctx.state(), State::Paused | State::Starting | State::Finished | State::Idle);
    let sorted_by = columns.iter().filter(|c| c.can_sort()).nth(ctx.list().sort.wrapping_sub(1)).map(|c| c.head);
    for (column, x, width) in &chosen {
        let head = match (&column.content, sorted_by == Some(column.head)) {
            (Content::Spark(_), _) => {
                let words = ctx.axis_words();
                let short = words.strip_prefix("last ").filter(|_| words.width() > usize::from(column.words(*width)));
                short.map_or(words.clone(), str::to_owned)
            }
            (_, true) => format!("{}{}", column.head, if column.falls(ctx, rows) == ctx.list().reverse { "▲" } else { "▼" }),
            _ => column.head.to_owned(),
        };
        // The sign of the order may stand in the gap between two columns.
        let width = column.words(*width);
        let wide = head.width() > usize::from(width) && sorted_by == Some(column.head);
        let (left, right) = (wide && column.right && *x > area.x, wide && !column.right && x + width < area.right());
        put(buf, (x - u16::from(left), area.y, width + u16::from(left || right)), &head, column.right, theme.dim);
    }
    let first = super::first_shown(rows.len(), selected, usize::from(body.height));
    say_hidden(ctx, area, first, rows.len().saturating_sub(first + usize::from(body.height)), buf);
    for (i, row) in rows.iter().enumerate().skip(first).take(usize::from(body.height)) {
        let y = body.y + (i - first) as u16;
        let (is_selected, look) = (selected == Some(i) && ctx.focused, look(row));
        // History keeps its own look: it is the last column.
        let mut words = Rect { y, height: 1, ..body };
        for (column, x, width) in &chosen {
            match column.content {
                Content::Spark(values) => {
                    words.width = *x - body.x;
                    let (values, max) = values(ctx, row, ctx.axis(usize::from(*width)));
                    spark::draw(buf, *x, y, &values, max, theme.chart);
                }
                _ => match column.cell(ctx, row) {
                    Some((text, style)) => {
                        let room = column.words(*width);
                        if let Some((share, alarm)) = column.meter.filter(|_| *width > room).and_then(|meter| meter(ctx, row)) {
                            meter::draw(buf, (x + room + 1, y, width - room - 1), share, alarm, theme);
                        }
                        let odd = || (alike && column.stands_out(ctx, row, rows)).then_some(theme.look);
                        put(buf, (*x, y, room), &text, column.right, style.or_else(odd).unwrap_or(theme.text));
                    }
                    None => put(buf, (*x, y, column.words(*width)), "–", column.right, theme.dim),
                },
            }
        }
        if look.is_old {
            buf.set_style(Rect { y, height: 1, ..body }, theme.dim);
        }
        crate::tui::panes::mark_culprit(ctx, Rect { y, height: 1, ..body }, look.culprit, buf);
        if is_selected {
            crate::tui::panes::mark_selected(ctx, words, buf);
            // Graphs keep their colours, on the ground of the row.
            if let Some(ground) = theme.selected.bg {
                let graphs = Rect { x: words.right(), y, width: body.right().saturating_sub(words.right()), height: 1 };
                buf.set_style(graphs, Style::new().bg(ground));
            }
        }
    }
}

/// At the right end of the title above the table, how many of its rows there is no room for.
fn say_hidden(ctx: &Ctx, area: Rect, above: usize, below: usize, buf: &mut Buffer) {
    let words = match (above, below) {
        (0, 0) => return,
        (0, below) => format!(" {below} more below "),
        (above, 0) => format!(" {above} more above "),
        (above, below) => format!(" {above} more above, {below} below "),
    };
    let width = words.width() as u16;
    let (Some(y), Some(x)) = (area.y.checked_sub(1), area.right().checked_sub(width + 1)) else { return };
    let is_line = |x: u16| buf.cell((x, y)).is_some_and(|cell| cell.symbol() == "─");
    if x > area.x && (x - 1..area.right()).all(is_line) {
        // Nothing of the line's own look stays.
        buf.set_style(Rect { x, y, width, height: 1 }, Style::reset().patch(ctx.theme.text));
        buf.put(x, y, words, usize::from(width), ctx.theme.look);
    }
}

/// The columns that are shown, with place and width.
fn fit<'a, R>(ctx: &Ctx, columns: &'a [Column<R>], rows: &[R], area: Rect) -> Vec<(&'a Column<R>, u16, u16)> {
    let known = |c: &Column<R>| !c.can_sort() || rows.is_empty() || rows.iter().any(|r| c.cell(ctx, r).is_some());
    let shown: Vec<&Column<R>> = columns.iter().filter(|c| known(c)).collect();
    let extra = |c: &Column<R>| match c.content {
        Content::Spark(_) => Extra::History,
        _ if c.meter.is_some() => Extra::Meter,
        _ => Extra::None,
    };
    let wants: Vec<Wanted> = shown.iter().map(|c| Wanted { width: c.width, widest: c.widest, rank: c.rank, extra: extra(c) }).collect();
    spread(&wants, area).into_iter().map(|(at, x, width)| (shown[at], x, width)).collect()
}

/// What a column asks for: at least so wide, at most so wide, and the highest rank leaves first.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    pub width: u16,
    pub widest: u16,
    pub rank: u8,
    pub extra: Extra,
}

/// What a column does with room beyond that for its text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extra {
    None,
    /// A bar of its share of a limit.
    Meter,
    /// The last column, which draws the past.
    History,
}

/// The columns for which there is room, with place and width.
pub fn spread(wants: &[Wanted], area: Rect) -> Vec<(usize, u16, u16)> {
    let mut shown: Vec<(usize, &Wanted)> = wants.iter().enumerate().collect();
    let used = |shown: &[(usize, &Wanted)]| shown.iter().map(|(_, c)| c.width + 1).sum::<u16>();
    while used(&shown) > area.width.saturating_add(1) && !shown.is_empty() {
        let last = (0..shown.len()).max_by_key(|i| (shown[*i].1.rank, *i)).unwrap_or(0);
        shown.remove(last);
    }
    let mut spare = area.width.saturating_add(1).saturating_sub(used(&shown));
    let mut widths: Vec<u16> = shown.iter().map(|(_, c)| c.width).collect();
    let columns = || shown.iter().map(|(_, c)| *c);
    // Texts first. Meters are all of one length, if history keeps some room, or none is drawn.
    for (column, width) in columns().zip(&mut widths).filter(|(c, _)| c.extra != Extra::History) {
        let more = spare.min(column.widest.saturating_sub(column.width));
        spare -= more;
        *width += more;
    }
    let metered = columns().filter(|c| c.extra == Extra::Meter).count() as u16;
    let kept = if columns().any(|c| c.extra == Extra::History) { HISTORY } else { 0 };
    let each = spare.saturating_sub(kept).checked_div(metered).map_or(0, |each| each.min(METER + 1));
    let each = if each > meter::LEAST { each } else { 0 };
    for (column, width) in columns().zip(&mut widths) {
        *width += match column.extra {
            Extra::Meter => each,
            Extra::History => spare.saturating_sub(each * metered).min(column.widest.saturating_sub(column.width)),
            Extra::None => 0,
        };
    }
    let mut x = area.x;
    let mut out = Vec::new();
    for ((at, _), width) in shown.into_iter().zip(widths) {
        out.push((at, x, width));
        x += width + 1;
    }
    out
}

/// Writes a cell at a place: column, row, width. What was cut off says so.
pub fn put(buf: &mut Buffer, (x, y, width): (u16, u16, u16), text: &str, right: bool, style: Style) {
    let wide = text.width();
    let indent = if right { usize::from(width).saturating_sub(wide) as u16 } else { 0 };
    if wide > usize::from(width) && width > 1 {
        let (end, _) = buf.put(x, y, text, usize::from(width) - 1, style);
        buf.put(end, y, "…", 1, style);
        return;
    }
    buf.put(x + indent, y, text, usize::from(width), style);
}
