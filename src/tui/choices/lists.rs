//! Panes and their rows: which are shown, in which order, and where the selection is.

use super::{Effect, Ui};
use crate::diagnosis::session::Session;
use crate::tui::filter::Filter;
use crate::tui::panes::{Ctx, PANES};
use crate::tui::theme::Theme;
use crate::tui::widgets::table::Sorting;
use crate::tui::{log_view, view};
use std::collections::BTreeSet;

/// A list that can be moved in and sorted.
#[derive(Clone, Debug, Default)]
pub struct List {
    /// Which rows are shown; of the log it is [`LogUi::filter`].
    pub filter: Filter,
    /// The selected row by its name, so that it stays selected while others come and go; and where it was last.
    pub row: Option<String>,
    pub index: usize,
    /// 0: in its own order; from 1: by that column.
    pub sort: usize,
    pub reverse: bool,
    /// Groups that are not as they are by themselves: opened or closed by the user.
    pub toggled: BTreeSet<String>,
}

impl List {
    /// Where the selected row is now.
    pub fn position(&self, rows: &[String]) -> Option<usize> {
        let by_name = self.row.as_ref().and_then(|row| rows.iter().position(|r| r == row));
        by_name.or_else(|| (!rows.is_empty()).then(|| self.index.min(rows.len() - 1)))
    }
}

impl Ui {
    /// What the rows of a pane are filtered by.
    pub fn filter_of(&self, pane: usize) -> &Filter {
        if pane == view::pane_index("log") { &self.log.filter } else { &self.lists[pane].filter }
    }

    pub(in crate::tui) fn filter_mut(&mut self, pane: usize) -> &mut Filter {
        if pane == view::pane_index("log") { &mut self.log.filter } else { &mut self.lists[pane].filter }
    }

    /// Ranks and severity were chosen apart from the text, and stay.
    pub(in crate::tui) fn set_filter(&mut self, pane: usize, mut filter: Filter, session: &Session) {
        let now = self.filter_mut(pane);
        (filter.ranks, filter.least) = (std::mem::take(&mut now.ranks), now.least);
        *now = filter;
        log_view::hold(&mut self.log, session);
    }

    /// Sorts by the next of the columns that are shown, or the other way round.
    pub(in crate::tui) fn sort(&mut self, session: &Session, theme: &Theme, reverse: bool) {
        let pane = self.target();
        let sorts = (PANES[pane].sorts)(&self.ctx(session, theme), view::width_of(session, self, theme, pane));
        let list = &mut self.lists[pane];
        if sorts.is_empty() {
            self.notice = Some("nothing to sort in this pane".into());
            return;
        }
        if reverse {
            list.reverse = !list.reverse;
        } else {
            list.sort = sorts.iter().map(|column| column.no).find(|no| *no > list.sort).unwrap_or(0);
        }
        self.say_sorted(pane, &sorts);
    }

    /// Sorts by the column whose head was clicked on, `x` cells from the left end of the table; again, the other way round. `false`: there is none.
    pub(in crate::tui) fn sort_at(&mut self, session: &Session, theme: &Theme, pane: usize, x: u16) -> bool {
        let sorts = (PANES[pane].sorts)(&self.ctx(session, theme), view::width_of(session, self, theme, pane));
        let Some(column) = sorts.iter().find(|column| column.cells.contains(&x)) else { return false };
        let list = &mut self.lists[pane];
        list.reverse = list.sort == column.no && !list.reverse;
        list.sort = column.no;
        self.say_sorted(pane, &sorts);
        true
    }

    fn say_sorted(&mut self, pane: usize, sorts: &[Sorting]) {
        let list = &self.lists[pane];
        let by = sorts.iter().find(|column| column.no == list.sort);
        let by = match by {
            Some(column) => format!("by {}", column.head),
            None if list.sort == 0 => "in its own order".into(),
            None => "by a column for which there is no room".into(),
        };
        self.notice = Some(format!("sorted {by}{}", if list.reverse { ", reversed" } else { "" }));
    }

    /// Moves the selection of the pane that keys go to; `i64::MIN` and `i64::MAX` are its ends.
    pub(in crate::tui) fn step(&mut self, session: &Session, theme: &Theme, by: i64) {
        let pane = self.target();
        if pane == view::pane_index("log") {
            log_view::step(&mut self.log, session, by);
            return;
        }
        let ctx = Ctx { session, ui: self, theme, pane, zoomed: self.zoom.is_some(), focused: true };
        let rows = (PANES[pane].rows)(&ctx);
        let Some(last) = rows.len().checked_sub(1) else { return };
        let now = ctx.selected_or(&rows, (PANES[pane].first)(&ctx)).unwrap_or(0) as i64;
        let list = &mut self.lists[pane];
        let next = now.saturating_add(by).clamp(0, last as i64) as usize;
        (list.index, list.row) = (next, rows.get(next).cloned());
    }

    pub(in crate::tui) fn rows(&self, session: &Session, theme: &Theme, pane: usize) -> Vec<String> {
        (PANES[pane].rows)(&Ctx { session, ui: self, theme, pane, zoomed: self.zoom.is_some(), focused: true })
    }

    pub(in crate::tui) fn cycle(&mut self, session: &Session, theme: &Theme, by: isize) {
        if let Some(zoom) = &mut self.zoom {
            *zoom = (*zoom as isize + by).rem_euclid(PANES.len() as isize) as usize;
            self.focus = *zoom;
            return;
        }
        let shown: Vec<usize> = view::places(session, self, theme).iter().map(|p| view::pane_index(p.pane)).collect();
        if !shown.is_empty() {
            let now = shown.iter().position(|p| *p == self.focus);
            let next = now.map_or(0, |n| (n as isize + by).rem_euclid(shown.len() as isize) as usize);
            self.focus = shown[next];
        }
    }

    pub(in crate::tui) fn open(&mut self, session: &Session, theme: &Theme) -> Effect {
        if self.zoom.is_none() {
            self.zoom = Some(self.focus);
            return Effect::Draw;
        }
        let opened = (PANES[self.target()].open)(&self.ctx(session, theme));
        self.go_to(opened, session, theme);
        Effect::Draw
    }

    pub(in crate::tui) fn back(&mut self) {
        if self.log.search.take().is_some() {
            return;
        }
        if !self.filter_of(self.target()).is_empty() {
            *self.filter_mut(self.target()) = Filter::default();
        } else if !self.trail.is_empty() {
            self.close_sheet();
        } else if self.log.at.is_some() && self.target() == view::pane_index("log") {
            self.log.at = None;
        } else {
            self.leave_zoom();
        }
    }

    /// Back to the overview, where the log is followed: a line that was looked at must not hide what comes after it.
    pub(in crate::tui) fn leave_zoom(&mut self) {
        if self.zoom.take().is_some() {
            self.log.at = None;
        }
    }
}
