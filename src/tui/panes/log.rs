//! All logs, merged by arrival.

use super::{Ctx, Pane, no_first, no_rows, no_sorts};
use crate::base::clean::clean;
use crate::base::severity::Severity;
use crate::base::words::wrap;
use crate::logs::prefilter::Class;
use crate::logs::prefix::{Level, level};
use crate::model::log::{Kept, LogFile};
use crate::tui::choices::Opened;
use crate::tui::details::Subject;
use crate::tui::layout::Want;
use crate::tui::log_view::{self, Row};
use crate::tui::widgets::put::Put;
use crate::tui::widgets::shorten;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

pub const PANE: Pane =
    Pane { id: "log", shows: "all logs, merged", title, want, rows: no_rows, first: no_first, sorts: no_sorts, row_at, open, draw };

/// Columns for the name of a job, where there are several.
const JOB: usize = 12;

/// From this width on there is a scroll bar.
const WITH_BAR: u16 = 60;

/// The number of the line that stands there.
fn row_at(ctx: &Ctx, area: Rect, y: u16) -> Option<usize> {
    let (_, list, _) = parts(ctx, area);
    let row = usize::from(y.checked_sub(list.y)?);
    rows(ctx, list, proof(ctx)).1.get(row).map(|row| row.number as usize)
}

/// The selected line; while the log is followed, the newest.
fn open(ctx: &Ctx) -> Opened {
    let log = &ctx.ui.log;
    let newest = || log_view::visible(log, ctx.session, 1).last().map(|(number, _)| *number);
    log.at.or_else(newest).map_or(Opened::Nothing, |number| Opened::Detail(Subject::new("line", number)))
}

fn title(ctx: &Ctx) -> String {
    let model = &ctx.session.model;
    let mut files: Vec<&LogFile> = model.files.values().filter(|f| f.is_readable()).collect();
    // The main job's first.
    let main = ctx.main_job().map(|(job, _)| job);
    files.sort_by_key(|f| Some(f.job.as_str()) != main);
    let sum = |of: fn(&LogFile) -> u64| files.iter().map(|f| of(f)).sum::<u64>();
    let name = match files.as_slice() {
        [] => "no file".to_owned(),
        [one] => one.name().to_owned(),
        [first, rest @ ..] => format!("{} (+{})", first.name(), rest.len()),
    };
    let mut parts = vec![format!("Log: {name}"), format!("{} lines", crate::base::units::group(sum(|f| f.lines)))];
    let (dropped, folded) = (sum(|f| f.dropped_lines), sum(|f| f.folded_alarms));
    let left_out = sum(|f| f.alarms_left_out);
    if dropped > 0 {
        parts.push(format!("{} dropped", crate::base::units::group(dropped)));
    }
    if folded > 0 {
        parts.push(format!("{} equal alarms folded", crate::base::units::group(folded)));
    }
    if left_out > 0 {
        parts.push(format!("{} alarms left out", crate::base::units::group(left_out)));
    }
    let log = &ctx.ui.log;
    if let Some(job) = &log.job {
        parts.push(format!("of job {} only", clean(job)));
    }
    if log.shift > 0 {
        parts.push(format!("from column {}", log.shift + 1));
    }
    if let Some(search) = &log.search {
        parts.push(format!("search {:?}", search.text));
    }
    if log.at.is_some() {
        let newer = model.logbook.end().saturating_sub(log.at.unwrap_or(0) + 1);
        parts.push(format!("{} newer", crate::base::units::group(newer)));
    }
    parts.join(", ")
}

fn want(_: &Ctx, _: u16) -> Option<Want> {
    Some(Want { width: 30, least: 2, comfort: 8, all: 500, priority: 3, late: false, grows: true })
}

/// Files that cannot be read, the list, and the selected line in full.
fn parts(ctx: &Ctx, area: Rect) -> (Vec<String>, Rect, Rect) {
    let bad = ctx.session.model.files.values().filter(|f| !f.is_readable());
    let bad: Vec<String> = bad
        .take(usize::from(area.height / 3))
        .map(|f| clean(&format!("{}: {}", f.info.path, f.info.detail.as_deref().unwrap_or("gone"))).into_owned())
        .collect();
    let below = if ctx.zoomed && area.height >= 14 && ctx.ui.log.at.is_some() { 5 } else { 0 };
    // Alone, with a scroll bar.
    let width = if ctx.zoomed && area.width >= WITH_BAR { area.width - 2 } else { area.width };
    let list = Rect { y: area.y + bad.len() as u16, height: area.height - bad.len() as u16 - below, width, ..area };
    (bad, list, Rect { y: list.bottom(), height: below, ..area })
}

/// What stands in the list. Alone, while something is searched and around a selected line, each line has its row.
fn rows<'a>(ctx: &Ctx<'a>, list: Rect, proof: Option<Proof<'a>>) -> (Columns, Vec<Row<'a>>) {
    let (log, height) = (&ctx.ui.log, usize::from(list.height));
    if !ctx.zoomed && log.at.is_none() && log.search.is_none() && !log.wraps && log.shift == 0 {
        let mut rows = log_view::folded(log, ctx.session, height);
        if let Some((_, number, line)) = proof.filter(|(_, _, line)| log_view::shown(log, &ctx.session.model, line)) {
            log_view::pin(&mut rows, (number, line));
        }
        return (Columns::of(ctx, list, rows.iter().map(|row| row.line)), rows);
    }
    let lines = log_view::visible(log, ctx.session, height);
    let columns = Columns::of(ctx, list, lines.iter().map(|(_, line)| *line));
    let rows = log_view::rows(log, ctx.session, height, columns.room(list));
    (columns, rows)
}

/// The line that the verdict on the job rests on, with its number, and how bad it is.
type Proof<'a> = (Severity, u64, &'a Kept);

fn proof<'a>(ctx: &Ctx<'a>) -> Option<Proof<'a>> {
    let model = &ctx.session.model;
    let finding = ctx.session.named(ctx.main_job()?.0).filter(|f| f.severity > Severity::Info && f.cleared_at.is_none())?;
    finding.evidence.iter().find_map(|proof| {
        let (path, no) = (proof.path.as_deref()?, proof.line?);
        // Of files that had one name by turns the newest.
        let file = model.files.iter().rev().find(|(_, file)| file.info.path == path).map(|(id, _)| *id)?;
        let (number, line) = model.logbook.alarm_of(file, no)?;
        Some((finding.severity, number, line))
    })
}

/// What a line means, before any search.
fn style(ctx: &Ctx, line: &Kept) -> Style {
    match line.class {
        Class::Alarm if only_warns(&line.text) => ctx.theme.look,
        Class::Alarm => ctx.theme.act,
        Class::Fact => ctx.theme.text,
        Class::Noise => ctx.theme.dim,
    }
}

/// Its writer calls it a warning, or less. What NCCL calls one is all that it says of an error.
fn only_warns(text: &str) -> bool {
    let is_mild = || level(text).is_some_and(|level| level <= Level::Warning) || text.contains("Warning: ");
    !text.contains("NCCL WARN") && is_mild()
}

/// The job of a line, where there are several: two jobs have the same ranks.
fn whose(ctx: &Ctx, line: &Kept) -> Option<String> {
    ctx.whose(&ctx.session.model.files.get(&line.file)?.job)
}

/// Where what stands in front of the texts begins, and how wide it is.
struct Columns {
    jobs: usize,
    rank: u16,
    ranks: usize,
    names: usize,
    text: u16,
}

impl Columns {
    fn of<'a>(ctx: &Ctx, list: Rect, lines: impl Iterator<Item = &'a Kept>) -> Columns {
        let model = &ctx.session.model;
        let names = if model.files.len() > 1 && list.width >= 140 { 18 } else { 0 };
        // As wide as the job's ranks need, whichever lines are in sight.
        let known = model.jobs.values().filter_map(|j| j.ranks.keys().last().copied().max(j.world_size.map(|w| w.saturating_sub(1)))).max();
        let ranks = lines.filter_map(|l| l.rank).max().max(known).map_or(0, |r| r.to_string().len().max(2));
        let jobs = model.files.values().filter_map(|f| ctx.whose(&f.job)).map(|id| id.width()).max().unwrap_or(0).min(JOB);
        let rank = list.x + 9 + (jobs + usize::from(jobs > 0)) as u16;
        Columns { jobs, rank, ranks, names, text: rank + (ranks + usize::from(ranks > 0) + names) as u16 }
    }

    /// For the text of a line.
    fn room(&self, list: Rect) -> usize {
        usize::from(list.right().saturating_sub(self.text))
    }

    /// When, whose and where from.
    fn draw(&self, ctx: &Ctx, list: Rect, y: u16, row: &Row, buf: &mut Buffer) {
        let line = row.line;
        let (theme, &Columns { jobs, ranks, names, .. }) = (ctx.theme, self);
        let fits = self.text <= list.right();
        buf.put(list.x, y, line.came(ctx.ui.zone), 8.min(usize::from(list.width)), theme.dim);
        if let Some(job) = whose(ctx, line).filter(|_| fits) {
            buf.put(list.x + 9, y, format!("{:<jobs$}", shorten(&job, jobs)), jobs, theme.dim);
        }
        if let Some(rank) = line.rank.filter(|_| fits) {
            buf.put(self.rank, y, format!("{rank:>ranks$}"), ranks, theme.accent);
        }
        if names > 0
            && let Some(file) = ctx.session.model.files.get(&line.file)
        {
            let name = clean(file.name());
            let tail: String = name.chars().rev().take(names - 1).collect::<Vec<_>>().into_iter().rev().collect();
            buf.put(self.text - names as u16, y, tail, names - 1, theme.dim);
        }
    }
}

/// Where in the log the screen stands, and where WARN and worse are dense.
fn scroll_bar(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    if area.width == 0 {
        return;
    }
    let (parts, here) = log_view::density(&ctx.ui.log, ctx.session, usize::from(area.height));
    for ((no, (alarms, lines)), y) in parts.into_iter().enumerate().zip(area.y..area.bottom()) {
        let (sign, look) = match alarms * 4 {
            0 => ("│", ctx.theme.border),
            n if n <= lines => ("░", ctx.theme.act),
            n if n <= lines * 2 => ("▒", ctx.theme.act),
            _ => ("█", ctx.theme.act),
        };
        // A shape says where it stands, and leaves the sign that was there its colour.
        let is_here = no == here;
        buf.set_string(area.x, y, if is_here { "◂" } else { sign }, if is_here && alarms == 0 { ctx.theme.focus } else { look });
    }
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let log = &ctx.ui.log;
    let (bad, list, below) = parts(ctx, area);
    let bar = Rect { x: area.right().saturating_sub(1), width: area.width - list.width, ..list };
    let bar = Rect { width: bar.width.min(1), ..bar };
    for (text, y) in bad.iter().zip(area.y..) {
        buf.put(area.x, y, text, usize::from(area.width), theme.look);
    }
    let proof = proof(ctx);
    let (columns, rows) = rows(ctx, list, proof);
    let room = columns.room(list);
    if rows.is_empty() {
        let book = &ctx.session.model.logbook;
        let text = if book.end() == 0 { "no line yet" } else { "no line passes the filter; esc clears it" };
        buf.put(list.x, list.y, text, usize::from(list.width), theme.dim);
        return;
    }
    for (row, y) in rows.iter().zip(list.y..) {
        if row.is_first {
            columns.draw(ctx, list, y, row, buf);
        }
        if let Some(run) = &row.run {
            // Texts of rows below one another begin at one column.
            const COUNT: u16 = 7;
            buf.put(columns.text, y, format!("× {}", run.lines), room, theme.accent);
            let x = (columns.text + COUNT).min(list.right());
            let room = usize::from(list.right().saturating_sub(x));
            buf.put(x, y, cut(&run.words(), room), room, style(ctx, row.line));
        } else {
            buf.put(columns.text, y, cut(&row.text, room), room, style(ctx, row.line));
        }
        if let Some((bad, ..)) = proof.filter(|(_, number, _)| *number == row.number) {
            super::mark_culprit(ctx, Rect { y, height: 1, ..list }, Some(bad), buf);
        }
        if log.at == Some(row.number) && ctx.focused {
            super::mark_selected(ctx, Rect { y, height: 1, ..list }, buf);
        }
        // What lines are filtered by is of no use in what folds several of them.
        let wanted = log.search.iter().chain((!log.filter.text.is_empty() && row.run.is_none()).then_some(&log.filter));
        for wanted in wanted {
            mark(buf, (columns.text, y), room, &row.text, &wanted.places(&row.text), theme.found);
        }
    }
    scroll_bar(ctx, bar, buf);
    if below.height > 0
        && let Some(line) = log.at.and_then(|at| ctx.session.model.logbook.get(at))
    {
        buf.put(below.x, below.y, "─".repeat(usize::from(below.width)), usize::from(below.width), theme.border);
        let path = ctx.session.model.files.get(&line.file).map_or("", |f| f.info.path.as_str());
        let no = line.no.map_or(String::new(), |n| format!(":{n}"));
        let rank = line.rank.map_or(String::new(), |r| format!("  rank {r}"));
        let job = whose(ctx, line).map_or(String::new(), |id| format!("  job {id}"));
        let head = format!("{}{no}  {}{job}{rank}", clean(path), ctx.ui.zone.rfc3339(line.at));
        buf.put(below.x, below.y + 1, head, usize::from(below.width), theme.dim);
        let rows = below.y + 2..below.bottom();
        for (part, y) in wrap(&line.text, usize::from(below.width)).into_iter().zip(rows) {
            buf.put(below.x, y, part, usize::from(below.width), style(ctx, line));
        }
    }
}

/// A text that is wider than its room ends with a sign that it goes on, and between two fields where they have a bar between them: half a number is
/// another number.
fn cut(text: &str, room: usize) -> Cow<'_, str> {
    const BAR: &str = " | ";
    if text.width() <= room {
        return text.into();
    }
    let mut used = 0;
    let is_beyond = |(_, c): &(usize, char)| {
        used += c.width().unwrap_or(0);
        used >= room
    };
    let short = text.char_indices().find(is_beyond).map_or(text, |(end, _)| &text[..end]);
    match short.rfind(BAR).filter(|at| *at > short.len() / 2) {
        Some(at) => format!("{}{BAR}…", &short[..at]).into(),
        None => format!("{short}…").into(),
    }
}

/// Lays a style over the matches of a text that was drawn at a place.
fn mark(buf: &mut Buffer, (x, y): (u16, u16), room: usize, text: &str, places: &[(usize, usize)], style: Style) {
    for (start, end) in places {
        let from = text[..*start].width();
        let to = (from + text[*start..*end].width()).min(room);
        if from < to {
            buf.set_style(Rect { x: x + from as u16, y, width: (to - from) as u16, height: 1 }, style);
        }
    }
}
