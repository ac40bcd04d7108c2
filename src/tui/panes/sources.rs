//! How the sources are: what is not seen, and why.

use super::Pane;
use crate::observe::SourceState;
use crate::session::Session;
use crate::text::clean::clean;
use crate::tui::{Ui, theme::Theme};
use ratatui::text::{Line, Span};

pub const PANE: Pane = Pane { title: |_| "Sources".into(), least: 1, priority: 5, keeps_end: false, lines };

fn lines(session: &Session, _ui: &Ui, theme: &Theme, _width: u16) -> Vec<Line<'static>> {
    crate::sources::SOURCES
        .iter()
        .map(|spec| {
            let view = session.model.sources.get(&crate::observe::SourceId::of(spec.id));
            let (state, detail, style) = match view {
                None => ("–", "has not answered yet".to_owned(), theme.dim),
                Some(v) => {
                    let style = match v.state {
                        SourceState::Ok => theme.good,
                        SourceState::Absent => theme.dim,
                        _ => theme.look,
                    };
                    (v.state.as_str(), v.detail.as_deref().map(|d| clean(d).into_owned()).unwrap_or_default(), style)
                }
            };
            let detail = if detail.is_empty() { spec.title.to_owned() } else { detail };
            Line::from(vec![Span::styled(format!(" {:<7} {state:<7}", spec.id), style), Span::styled(format!(" {detail}"), theme.dim)])
        })
        .collect()
}
