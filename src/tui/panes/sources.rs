//! How the sources are: what is not seen, and why.

use super::Pane;
use crate::observe::{SourceId, SourceState};
use crate::session::Session;
use crate::sources::SOURCES;
use crate::text::clean::clean;
use crate::tui::{Ui, theme::Theme};
use ratatui::style::Style;
use ratatui::text::{Line, Span};

pub const PANE: Pane = Pane { title: |_| "Sources".into(), least: 1, priority: 5, keeps_end: false, lines };

fn lines(session: &Session, _ui: &Ui, theme: &Theme, _width: u16) -> Vec<Line<'static>> {
    let view = |id| session.model.sources.get(&SourceId::of(id));
    // All states in one line, then what there is to say of the sources that are not simply well.
    let mut first = vec![Span::raw(" ")];
    let mut details = Vec::new();
    let states = [SourceState::Ok, SourceState::Slow, SourceState::Failed, SourceState::Denied, SourceState::Absent];
    for state in states {
        let ids: Vec<&str> = SOURCES.iter().map(|s| s.id).filter(|id| view(id).is_some_and(|v| v.state == state)).collect();
        if !ids.is_empty() {
            first.push(Span::styled(format!("{}: {}   ", state.as_str(), ids.join(" ")), style(state, theme)));
        }
        for id in ids {
            let detail = view(id).and_then(|v| v.detail.as_deref()).map(|d| clean(d).into_owned());
            details.extend(detail.map(|d| {
                Line::from(vec![
                    Span::styled(format!(" {id:<7} {:<7}", state.as_str()), style(state, theme)),
                    Span::styled(format!(" {d}"), theme.dim),
                ])
            }));
        }
    }
    let waiting: Vec<&str> = SOURCES.iter().map(|s| s.id).filter(|id| view(id).is_none()).collect();
    if !waiting.is_empty() {
        first.push(Span::styled(format!("no answer yet: {}", waiting.join(" ")), theme.dim));
    }
    let mut lines = vec![Line::from(first)];
    lines.extend(details);
    lines
}

fn style(state: SourceState, theme: &Theme) -> Style {
    match state {
        SourceState::Ok => theme.good,
        SourceState::Absent => theme.dim,
        SourceState::Slow | SourceState::Failed | SourceState::Denied => theme.look,
    }
}
