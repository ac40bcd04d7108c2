//! Long texts in place of the panes, to be scrolled: the help, stacks, and everything about one thing.

use super::choices::{Content, Sheet};
use super::details::{self, Entry};
use super::help;
use super::panes::{self, Ctx};
use super::view::fitted;
use crate::base::clean::clean;
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
    if sheet.content != Content::Help {
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
    let width = usize::from(columns.saturating_sub(2));
    let plain = |line: Line<'static>| Entry { line, to: None };
    match &sheet.content {
        Content::Help => ("Help".into(), help::lines(ctx.ui, ctx.theme, width, &sheet.only).into_iter().map(plain).collect()),
        Content::Text { title, lines } => {
            let lines = lines.iter().map(|line| plain(Line::styled(line.clone(), ctx.theme.text)));
            (clean(title).into_owned(), lines.collect())
        }
        Content::Detail(subject) => details::lines(ctx, subject, width),
    }
}

/// A sheet ends with its last line, and the line that keys go to is in sight.
pub fn hold(ctx: &Ctx, sheet: &mut Sheet, area: Rect) {
    let (_, entries) = lines(ctx, sheet, area.width);
    let rows = usize::from(area.height.saturating_sub(1));
    if sheet.content.has_cursor() {
        sheet.cursor = sheet.cursor.min(entries.len().saturating_sub(1));
        sheet.scroll = sheet.scroll.clamp((sheet.cursor + 1).saturating_sub(rows), sheet.cursor);
    }
    sheet.scroll = sheet.scroll.min(entries.len().saturating_sub(rows));
}

/// The number of the line at a row of the screen.
pub fn line_at(sheet: &Sheet, area: Rect, y: u16) -> Option<usize> {
    let row = y.checked_sub(area.y + 1).filter(|_| y < area.bottom())?;
    Some(sheet.scroll + usize::from(row))
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
    let more = if last > first { format!("  {} more lines below", last - first) } else { String::new() };
    buf.set_stringn(area.x, area.y, fitted(&format!(" {}{more}", clean(&title)), width), width, theme.focus);
    let inside = Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area };
    for ((no, entry), y) in entries.iter().enumerate().skip(first).zip(area.y + 1..area.bottom()) {
        panes::line(buf, inside, y, &entry.line);
        if sheet.content.has_cursor() && no == sheet.cursor {
            panes::mark_selected(ctx, Rect { y, height: 1, ..inside }, buf);
        }
    }
}
