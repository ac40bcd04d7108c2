//! How the log is looked at.

use super::Ui;
use crate::diagnosis::session::Session;
use crate::tui::filter::Filter;
use crate::tui::view;

#[derive(Default)]
pub struct LogUi {
    pub filter: Filter,
    pub search: Option<Filter>,
    /// Only lines of this job, and those of no job; `None`: of all.
    pub job: Option<String>,
    /// The selected line by its number in the logbook; `None` follows the newest.
    pub at: Option<u64>,
    /// Long lines take as many rows as they need.
    pub wraps: bool,
    /// Columns at the left of the texts that are not shown.
    pub shift: usize,
    /// Where the selection stood when the user began to search.
    pub(super) before_search: Option<u64>,
}

/// Columns of a step to the side, and of the longest line that is kept.
const SIDEWAYS: usize = 20;

const LONGEST_LINE: usize = 1000;

impl Ui {
    /// Shows long lines from another column on.
    pub(in crate::tui) fn scroll_sideways(&mut self, right: bool) {
        let shift = self.log.shift;
        self.log.shift = if right { (shift + SIDEWAYS).min(LONGEST_LINE) } else { shift.saturating_sub(SIDEWAYS) };
        self.log.wraps = false;
        self.show_log();
        self.notice = Some(match self.log.shift {
            0 => "the log from its first column on".into(),
            shift => format!("the log from column {} on", shift + 1),
        });
    }

    /// The line of the log that is selected, or that is shown whole.
    pub(in crate::tui) fn chosen_line(&self) -> Option<u64> {
        match self.detail() {
            Some(subject) => subject.key.parse().ok().filter(|_| subject.kind == "line"),
            None => self.log.at.filter(|_| self.target() == view::pane_index("log")),
        }
    }

    pub(in crate::tui) fn line_to_copy(&self, session: &Session) -> Option<String> {
        session.model.logbook.get(self.chosen_line()?).map(|line| line.text.to_string())
    }

    pub(in crate::tui) fn show_log(&mut self) {
        let log = view::pane_index("log");
        self.focus = log;
        // In the overview the log is in sight already, if there is room for it.
        if self.zoom.is_some() || !view::is_shown(self, log) {
            self.zoom = Some(log);
        }
    }
}
