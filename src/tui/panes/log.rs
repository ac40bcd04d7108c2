//! The newest lines of all logs, merged.

use super::Pane;
use crate::session::Session;
use crate::text::gate::Class;
use crate::tui::{Ui, theme::Theme};
use ratatui::text::{Line, Span};

pub const PANE: Pane = Pane { title, least: 4, priority: 3, keeps_end: true, lines };

/// More than the tallest screen shows, with room to scroll.
const SHOWN: usize = 500;

fn title(session: &Session) -> String {
    let files: Vec<&crate::model::log::LogFile> = session.model.files.values().filter(|f| f.is_readable()).collect();
    let dropped: u64 = files.iter().map(|f| f.dropped_lines).sum();
    let folded: u64 = files.iter().map(|f| f.folded_alarms).sum();
    let name = match files.as_slice() {
        [] => "no file".to_owned(),
        [one] => one.name().to_owned(),
        [first, rest @ ..] => format!("{} (+{})", first.name(), rest.len()),
    };
    let lines: u64 = files.iter().map(|f| f.lines).sum();
    let folded = if folded > 0 { format!(", {folded} equal alarms folded") } else { String::new() };
    format!("Log: {}, {lines} lines, {dropped} dropped{folded}", crate::text::clean::clean(&name))
}

fn lines(session: &Session, ui: &Ui, theme: &Theme, _width: u16) -> Vec<Line<'static>> {
    let book = &session.model.logbook;
    let skip = book.iter().len().saturating_sub(SHOWN + ui.log_back);
    let missing = session.model.files.values().filter(|f| !f.is_readable()).map(|f| {
        let why = f.info.detail.as_deref().unwrap_or("gone");
        Line::styled(format!(" {}", crate::text::clean::clean(&format!("{}: {why}", f.info.path))), theme.look)
    });
    let kept = book.iter().skip(skip).map(|l| {
        let rank = l.rank.map_or("   ".into(), |r| format!("{r:>3}"));
        let style = if l.class == Class::Alarm { theme.act } else { theme.text };
        Line::from(vec![Span::styled(format!(" {} {rank}  ", ui.zone.hms(l.at)), theme.dim), Span::styled(l.text.to_string(), style)])
    });
    missing.chain(kept).collect()
}
