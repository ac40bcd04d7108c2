//! Open findings, worst first.

use super::Pane;
use crate::findings::Role;
use crate::session::Session;
use crate::text::clean::clean;
use crate::time::span;
use crate::tui::theme::severity_mark;
use crate::tui::{Ui, theme::Theme};
use ratatui::text::{Line, Span};

pub const PANE: Pane = Pane { title, least: 1, priority: 2, keeps_end: false, lines };

fn title(session: &Session) -> String {
    let more = session.ledger.overflow;
    let more = if more > 0 { format!(", {more} more not kept") } else { String::new() };
    format!("Findings: {} open, {} past{more}", session.ledger.open().len(), session.ledger.past().count())
}

fn lines(session: &Session, _ui: &Ui, theme: &Theme, _width: u16) -> Vec<Line<'static>> {
    let now = session.model.now;
    let open = session.ledger.open();
    if open.is_empty() {
        return vec![Line::styled(" none", theme.dim)];
    }
    open.iter()
        .map(|f| {
            let count = if f.count > 1 { format!(" ×{}", f.count) } else { String::new() };
            let role = if f.found.role == Role::Cascade { " (a consequence)" } else { "" };
            let head = format!(" {} {:>9}  {:<18}", severity_mark(f.severity), span(now.since(f.found.since)), f.rule);
            let text = format!(" {}{count}{role}", clean(&f.found.summary));
            Line::from(vec![Span::styled(head, theme.severity(f.severity)), Span::styled(text, theme.text)])
        })
        .collect()
}
