//! Moving in the log: which lines a filter leaves, and where the selection stands among them.

use super::choices::LogUi;
use super::repeats::Run;
use crate::base::time::Zone;
use crate::base::words::wrap;
use crate::diagnosis::session::Session;
use crate::logs::prefilter::Class;
use crate::model::Model;
use crate::model::log::Kept;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write;
use unicode_width::UnicodeWidthChar;

/// Whether the filter leaves this line.
pub fn shown(log: &LogUi, model: &Model, line: &Kept) -> bool {
    let file = model.files.get(&line.file);
    if let Some(job) = &log.job
        && file.is_some_and(|f| !f.job.is_empty() && f.job != *job)
    {
        return false;
    }
    log.filter.is_empty() || log.filter.matches(line, file.map_or("", |f| f.info.path.as_str()))
}

/// Lines that are looked at to find those that belong together; the stretch in which they end is looked at to its beginning, so that its rows
/// stand still, up to as many more.
const MOST_FOLDED: usize = 400;
/// Fewer are shown one by one.
const LEAST_FOLDED: usize = 3;
/// Only what came within the same stretch of so long is folded, so that a row stands still once its time is over.
const STRETCH_NS: i64 = 10_000_000_000;

/// Lines of one source that are one row once there are enough of them, the newest first.
struct Open<'a> {
    lines: Vec<(u64, &'a Kept)>,
    words: Run<'a>,
}

impl<'a> Open<'a> {
    fn close(self, rows: &mut Vec<Row<'a>>) {
        let single = |(number, line): (u64, &'a Kept)| Row::new((number, line), Cow::Borrowed(&*line.text));
        match self.lines.first() {
            Some(newest) if self.words.lines >= LEAST_FOLDED => rows.push(Row { run: Some(self.words), ..single(*newest) }),
            _ => rows.extend(self.lines.into_iter().map(single)),
        }
    }
}

/// It tells of the rank's work. How NCCL came up is no news where something failed.
pub fn says_more(line: &Kept) -> bool {
    !line.text.contains(" NCCL INFO ")
}

/// The newest rows, up to `height` of them: where the log is followed, lines of one source that differ in their numbers alone are one.
/// A source is a rank's part of a file: what two of them print is not of one job, or not of one process. Where sources print by turns,
/// each has its own row.
pub fn folded<'a>(log: &LogUi, session: &'a Session, height: usize) -> Vec<Row<'a>> {
    let book = &session.model.logbook;
    let (_, before) = book.around(book.end());
    let mut rows: Vec<Row> = Vec::new();
    let mut open: BTreeMap<(u32, Option<u32>), Open> = BTreeMap::new();
    let mut stretch = None;
    let enough = MOST_FOLDED.max(height);
    for (looked_at, (number, line)) in before.filter(|(_, line)| shown(log, &session.model, line)).take(2 * enough).enumerate() {
        if stretch.replace(line.at.0.div_euclid(STRETCH_NS)) != Some(line.at.0.div_euclid(STRETCH_NS)) {
            std::mem::take(&mut open).into_values().for_each(|run| run.close(&mut rows));
            if rows.len() >= height || looked_at >= enough {
                break;
            }
        }
        let source = (line.file, line.rank);
        if line.class != Class::Alarm
            && let Some(run) = open.get_mut(&source)
            && run.words.take(&line.text)
        {
            run.lines.push((number, line));
            continue;
        }
        if let Some(run) = open.remove(&source) {
            run.close(&mut rows);
        }
        let run = Open { lines: vec![(number, line)], words: Run::new(&line.text) };
        match line.class {
            Class::Alarm => run.close(&mut rows),
            _ => _ = open.insert(source, run),
        }
    }
    open.into_values().for_each(|run| run.close(&mut rows));
    rows.sort_by_key(|row| row.number);
    rows.drain(..rows.len().saturating_sub(height));
    rows
}

/// Puts a line above all rows, in the place of the first of them, where it is older than they are.
pub fn pin<'a>(rows: &mut [Row<'a>], (number, line): (u64, &'a Kept)) {
    if let [first, _, ..] = rows
        && number < first.number
    {
        *first = Row::new((number, line), Cow::Borrowed(&*line.text));
    }
}

/// The lines that fill `height` rows: around the selected one, else the newest.
pub fn visible<'a>(log: &LogUi, session: &'a Session, height: usize) -> Vec<(u64, &'a Kept)> {
    let book = &session.model.logbook;
    let keep = |(_, line): &(u64, &Kept)| shown(log, &session.model, line);
    let Some(at) = log.at else {
        let (_, before) = book.around(book.end());
        let mut lines: Vec<_> = before.filter(keep).take(height).collect();
        lines.reverse();
        return lines;
    };
    let (after, before) = book.around(at);
    let mut below: Vec<_> = after.filter(keep).take(height).collect();
    let above_wanted = (height / 2).max(height.saturating_sub(below.len()));
    let mut lines: Vec<_> = before.filter(keep).take(above_wanted).collect();
    lines.reverse();
    below.truncate(height - lines.len());
    lines.extend(below);
    lines
}

/// What stands in one row of the screen: a line, where lines are wrapped a part of one, or several that differ in their numbers alone.
pub struct Row<'a> {
    /// Of the line, the newest where there are several.
    pub number: u64,
    pub line: &'a Kept,
    pub text: Cow<'a, str>,
    /// The line begins here.
    pub is_first: bool,
    /// Of several lines: what is the same in all of them, and the ranges of their numbers.
    pub run: Option<Run<'a>>,
}

impl<'a> Row<'a> {
    fn new((number, line): (u64, &'a Kept), text: Cow<'a, str>) -> Row<'a> {
        Row { number, line, text, is_first: true, run: None }
    }
}

/// The rows that fill `height`, for texts of `width` columns: around the selected line, else up to the newest.
pub fn rows<'a>(log: &LogUi, session: &'a Session, height: usize, width: usize) -> Vec<Row<'a>> {
    let lines = visible(log, session, height);
    if !log.wraps {
        let row = |(number, line): (u64, &'a Kept)| Row::new((number, line), from_column(&line.text, log.shift).into());
        return lines.into_iter().map(row).collect();
    }
    let parts = |(number, line): (u64, &'a Kept)| {
        let parts = wrap(&line.text, width).into_iter().enumerate();
        parts.map(move |(no, text)| Row { is_first: no == 0, ..Row::new((number, line), text.into()) })
    };
    let mut rows: Vec<Row> = lines.into_iter().flat_map(parts).collect();
    // The selected line stays in the middle; without one, the newest at the end.
    let last = rows.len().saturating_sub(height);
    let first =
        log.at.and_then(|at| rows.iter().position(|row| row.number >= at)).map_or(last, |at| at.saturating_sub(height / 2).min(last));
    rows.drain(..first);
    rows.truncate(height);
    rows
}

/// The lines that the filter leaves, as a text.
pub fn text(log: &LogUi, session: &Session, zone: Zone) -> String {
    let mut text = String::new();
    for (_, line) in session.model.logbook.numbered().filter(|(_, line)| shown(log, &session.model, line)) {
        let rank = line.rank.map_or(String::new(), |rank| format!(" [rank {rank}]"));
        let _ = writeln!(text, "{}{rank} {}", line.came(zone), line.text);
    }
    text
}

/// A text without its first columns.
fn from_column(text: &str, column: usize) -> &str {
    let mut used = 0;
    let cut = text.char_indices().find(|(_, c)| {
        let is_behind = used >= column;
        used += c.width().unwrap_or(0);
        is_behind
    });
    cut.map_or("", |(at, _)| &text[at..])
}

/// How many of the lines that the filter leaves are WARN or worse, in each of so many equal parts of them, and how many lines a part has.
/// Then the part in which the selected line is, else the last.
pub fn density(log: &LogUi, session: &Session, parts: usize) -> (Vec<(usize, usize)>, usize) {
    let book = &session.model.logbook;
    let lines: Vec<(u64, bool)> =
        book.numbered().filter(|(_, l)| shown(log, &session.model, l)).map(|(n, l)| (n, l.class == Class::Alarm)).collect();
    let bound = |part: usize| part * lines.len() / parts.max(1);
    let count = |part: usize| {
        let lines = &lines[bound(part)..bound(part + 1)];
        (lines.iter().filter(|(_, is_alarm)| *is_alarm).count(), lines.len())
    };
    let selected = log.at.map_or(lines.len(), |at| lines.partition_point(|(n, _)| *n < at));
    let part = (0..parts).rev().find(|part| bound(*part) <= selected).unwrap_or(0);
    ((0..parts).map(count).collect(), part)
}

/// Moves the selection by so many lines that the filter leaves; behind the newest it follows again.
pub fn step(log: &mut LogUi, session: &Session, by: i64) {
    let book = &session.model.logbook;
    let keep = |log: &LogUi, line: &Kept| shown(log, &session.model, line);
    let at = log.at.unwrap_or_else(|| book.end());
    let (after, before) = book.around(at);
    log.at = match by {
        i64::MAX => None,
        i64::MIN => book.numbered().find(|(_, l)| keep(log, l)).map(|(n, _)| n),
        0.. => {
            // The selected line itself is the first that comes after.
            let skip = usize::from(log.at.is_some());
            after.filter(|(_, l)| keep(log, l)).skip(skip).nth(by.max(1) as usize - 1).map(|(n, _)| n)
        }
        _ => {
            let mut last = log.at;
            for (n, _) in before.filter(|(_, l)| keep(log, l)).take(by.unsigned_abs() as usize) {
                last = Some(n);
            }
            last
        }
    };
}

/// A selected line that the filter does not leave gives its place to the next one that it does.
pub fn hold(log: &mut LogUi, session: &Session) {
    let Some(at) = log.at else { return };
    let (after, _) = session.model.logbook.around(at);
    log.at = after.filter(|(_, l)| shown(log, &session.model, l)).map(|(n, _)| n).next();
}

/// Selects the next line that the search matches, below or above `from` (else the end of the log), and from the other end when there
/// is none. Says which of how many it is; `None` if nothing matches.
pub fn find(log: &mut LogUi, session: &Session, from: Option<u64>, forward: bool) -> Option<String> {
    let book = &session.model.logbook;
    let search = log.search.as_ref()?;
    let hits: Vec<u64> =
        book.numbered().filter(|(_, line)| search.matches(line, "") && shown(log, &session.model, line)).map(|(n, _)| n).collect();
    let from = from.unwrap_or_else(|| book.end());
    let next = if forward { hits.iter().position(|n| *n > from) } else { hits.iter().rposition(|n| *n < from) };
    let last = hits.len().checked_sub(1)?;
    let at = next.unwrap_or(if forward { 0 } else { last });
    log.at = Some(hits[at]);
    let around = match (next, forward) {
        (Some(_), _) => "",
        (None, true) => ", from the top again",
        (None, false) => ", from the bottom again",
    };
    Some(format!("match {} of {}{around}", at + 1, hits.len()))
}

/// The kept line that a finding's evidence names.
pub fn line_of(session: &Session, path: &str, line: Option<u64>, text: &str) -> Option<u64> {
    let model = &session.model;
    let file = model.files.iter().find(|(_, f)| f.info.path == path).map(|(id, _)| *id)?;
    let same = |l: &Kept| l.file == file && if line.is_some() { l.no == line } else { l.text.starts_with(text.trim_end_matches('…')) };
    model.logbook.numbered().rev().find(|(_, l)| same(l)).map(|(n, _)| n)
}
