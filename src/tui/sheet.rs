//! Long texts in place of the panes, to be scrolled: the help, stacks, and everything about one thing.

use super::choices::{Content, Sheet, Ui};
use super::details::{self, Entry};
use super::help;
use super::options;
use super::panes::{self, Ctx};
use super::view::fitted;
use crate::base::clean::clean;
use crate::tui::widgets::put::Put;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Clear, Widget};

/// Title and lines of a sheet on a screen of this width.
pub fn lines(ctx: &Ctx, sheet: &Sheet, columns: u16) -> (String, Vec<Entry>) {
    let (title, mut entries) = all_lines(ctx, sheet, columns);
    if sheet.only.is_empty() {
        return (title, entries);
    }
    // What is searched by more than its lines is searched where it is written.
    if !matches!(sheet.content, Content::Help | Content::Options) {
        entries.retain(|entry| holds(&entry.line.to_string(), &sheet.only));
    }
    if entries.is_empty() {
        entries.push(Entry { line: Line::styled("nothing holds this text; esc shows all", ctx.theme.dim), to: None });
    }
    (format!("{title}, only {}", sheet.only), entries)
}

/// Whatever its case.
pub fn holds(text: &str, wanted: &str) -> bool {
    wanted.is_empty() || text.to_lowercase().contains(&wanted.to_lowercase())
}

fn all_lines(ctx: &Ctx, sheet: &Sheet, columns: u16) -> (String, Vec<Entry>) {
    let width = width_of(columns);
    let plain = |line: Line<'static>| Entry { line, to: None };
    match &sheet.content {
        Content::Options => options::lines(ctx.ui, ctx.theme, sheet, width),
        Content::Help => ("Help".into(), help::lines(ctx.ui, ctx.theme, width, &sheet.only).into_iter().map(plain).collect()),
        Content::Text { title, lines } => {
            let lines = lines.iter().map(|line| plain(Line::styled(line.clone(), ctx.theme.text)));
            (clean(title).into_owned(), lines.collect())
        }
        Content::Detail(subject) => details::lines(ctx, subject, width),
    }
}

fn width_of(columns: u16) -> usize {
    usize::from(columns.saturating_sub(2))
}

/// A sheet ends with its last line, and the line that keys go to is in sight.
pub fn hold(ctx: &Ctx, sheet: &mut Sheet, area: Rect) {
    let (_, entries) = lines(ctx, sheet, area.width);
    let rows = usize::from(area.height.saturating_sub(1));
    if sheet.content.has_cursor() {
        let (last, below) = match sheet.content {
            Content::Options => {
                sheet.cursor = sheet.cursor.min(options::rows(ctx.ui, sheet).saturating_sub(1));
                (sheet.cursor, options::about(ctx.ui, sheet, width_of(area.width)).len())
            }
            _ => (entries.len().saturating_sub(1), 0),
        };
        sheet.cursor = sheet.cursor.min(last);
        sheet.scroll = sheet.scroll.clamp((sheet.cursor + 1 + below).saturating_sub(rows).min(sheet.cursor), sheet.cursor);
    }
    sheet.scroll = sheet.scroll.min(entries.len().saturating_sub(rows));
}

/// The line at a row of the screen, by its number; of the options, the setting.
pub fn line_at(ui: &Ui, sheet: &Sheet, area: Rect, y: u16) -> Option<usize> {
    let row = y.checked_sub(area.y + 1).filter(|_| y < area.bottom())?;
    let line = sheet.scroll + usize::from(row);
    Some(if sheet.content == Content::Options { options::row_at(ui, sheet, line, width_of(area.width)) } else { line })
}

/// From the line to which it is scrolled.
pub fn draw(ctx: &Ctx, sheet: &Sheet, area: Rect, buf: &mut Buffer) {
    if area.height == 0 {
        return;
    }
    let theme = ctx.theme;
    Clear.render(area, buf);
    buf.set_style(area, theme.text);
    let width = usize::from(area.width);
    let (title, entries) = lines(ctx, sheet, area.width);
    let last = entries.len().saturating_sub(usize::from(area.height - 1));
    let first = sheet.scroll.min(last);
    let more = if last > first { format!("  {} below", crate::base::units::counted(last - first, "more line")) } else { String::new() };
    buf.put(area.x, area.y, fitted(&format!(" {}{more}", clean(&title)), width), width, theme.focus);
    let inside = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    for ((no, entry), y) in entries.iter().enumerate().skip(first).zip(area.y + 1..area.bottom()) {
        panes::line(buf, inside, y, &entry.line);
        if sheet.content.has_cursor() && no == sheet.cursor {
            panes::mark_selected(ctx, Rect { y, height: 1, ..inside }, buf);
        }
    }
}
