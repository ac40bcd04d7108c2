//! The panes of the overview.
//!
//! **To add a pane**: a file below `panes/` with a `pub const PANE: Pane`, and its line in [`PANES`].

mod findings;
mod gpus;
mod log;
mod ports;
mod sources;
pub mod training;

use super::Ui;
use super::theme::Theme;
use crate::session::Session;
use ratatui::text::Line;

pub struct Pane {
    pub title: fn(&Session) -> String,
    /// Rows without which it makes no sense, its title not counted.
    pub least: u16,
    /// The lowest gets its room first.
    pub priority: u8,
    /// When there is too little room, the last lines are shown, not the first.
    pub keeps_end: bool,
    pub lines: fn(&Session, &Ui, &Theme, u16) -> Vec<Line<'static>>,
}

/// From top to bottom.
pub const PANES: &[Pane] = &[training::PANE, gpus::PANE, ports::PANE, findings::PANE, sources::PANE, log::PANE];

/// The panes without a screen, for `snapshot`.
pub fn as_text(session: &Session) -> Vec<(String, Vec<String>)> {
    let theme = Theme::new(false);
    let ui = Ui { zone: session.model.zone, ..Ui::default() };
    PANES
        .iter()
        .filter(|p| !p.keeps_end)
        .map(|p| ((p.title)(session), (p.lines)(session, &ui, &theme, 160).iter().map(ToString::to_string).collect()))
        .collect()
}

/// A value, or the sign that it is not there.
fn or_dash(value: Option<String>) -> String {
    value.unwrap_or_else(|| "–".into())
}
