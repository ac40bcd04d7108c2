//! What clicks and the wheel do.

use super::{Content, Effect, Ui};
use crate::diagnosis::session::Session;
use crate::tui::actions::Action;
use crate::tui::panes::{self, Ctx, PANES};
use crate::tui::theme::Theme;
use crate::tui::{sheet, view};
use crossterm::event::{MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};

impl Ui {
    pub(in crate::tui) fn pointer(&mut self, mouse: &MouseEvent, session: &Session, theme: &Theme) -> Effect {
        let at = Position { x: mouse.column, y: mouse.row };
        let clicked = matches!(mouse.kind, MouseEventKind::Down(MouseButton::Left));
        if clicked && self.popup.take().is_some() {
            return Effect::Draw;
        }
        if let Some(shown) = &mut self.sheet {
            match mouse.kind {
                MouseEventKind::ScrollUp => shown.step(-3),
                MouseEventKind::ScrollDown => shown.step(3),
                MouseEventKind::Down(MouseButton::Left) if shown.content.has_cursor() => {
                    return self.click_sheet(session, theme, at.y);
                }
                MouseEventKind::Down(_) => self.close_sheet(),
                _ => return Effect::None,
            }
            self.hold_sheet(session, theme);
            return Effect::Draw;
        }
        if clicked && let Some(action) = view::footer_at(session, self, theme, at) {
            self.notice = None;
            return self.act(action, session, theme);
        }
        // The verdict leads to the finding that it names.
        if clicked && (1..view::body(session, self, theme).y).contains(&at.y) && self.zoom.is_none() {
            let named = self.main_job(session).and_then(|(job, _)| session.named(job));
            let Some(finding) = named.map(panes::findings::name) else { return Effect::None };
            let pane = view::pane_index("findings");
            (self.focus, self.has_chosen, self.zoom) = (pane, true, Some(pane));
            self.lists[pane].row = Some(finding);
            return Effect::Draw;
        }
        let places = view::places(session, self, theme);
        let Some(place) = places.iter().find(|p| p.area.contains(at)) else { return Effect::None };
        let pane = view::pane_index(place.pane);
        match mouse.kind {
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                (self.focus, self.has_chosen) = (pane, true);
                self.step(session, theme, if mouse.kind == MouseEventKind::ScrollUp { -3 } else { 3 });
            }
            MouseEventKind::Down(MouseButton::Left) => self.click(session, theme, pane, place.area, at),
            _ => return Effect::None,
        }
        Effect::Draw
    }

    /// A line that leads somewhere is followed; elsewhere the footer, or nothing, is meant.
    pub(in crate::tui) fn click_sheet(&mut self, session: &Session, theme: &Theme, y: u16) -> Effect {
        let area = view::body(session, self, theme);
        let Some(no) = self.sheet.as_ref().and_then(|shown| sheet::line_at(self, shown, area, y)) else {
            self.close_sheet();
            return Effect::Draw;
        };
        let is_options = self.sheet.as_ref().is_some_and(|shown| shown.content == Content::Options);
        let was_there = self.sheet.as_ref().is_some_and(|shown| shown.cursor == no);
        let is_link = self.links(session, theme).iter().any(|(link, _)| *link == no);
        if let Some(shown) = &mut self.sheet {
            shown.cursor = no;
        }
        if is_link {
            self.follow(session, theme);
        }
        // The first click shows what it is, the next one changes it.
        if is_options && was_there {
            return self.act(Action::Open, session, theme);
        }
        self.hold_sheet(session, theme);
        Effect::Draw
    }

    /// The first click focuses, one on a title zooms, one on a row selects it, one on the head of a column sorts by it.
    pub(in crate::tui) fn click(&mut self, session: &Session, theme: &Theme, pane: usize, area: Rect, at: Position) {
        self.notice = None;
        self.trail.clear();
        (self.focus, self.has_chosen) = (pane, true);
        if at.y == area.y {
            if self.zoom.is_some() {
                self.leave_zoom();
            } else {
                self.zoom = Some(pane);
            }
            return;
        }
        let ctx = Ctx { session, ui: self, theme, pane, zoomed: self.zoom.is_some(), focused: true };
        let inside = view::inside(self, area);
        let row_at = |y: u16| (PANES[pane].row_at)(&ctx, inside, y);
        let row = row_at(at.y);
        // The head of a table stands right above its first row; in a pane with other lines above it, where that is alone on the screen.
        let is_head = row.is_none() && row_at(at.y.saturating_add(1)).is_some() && (ctx.zoomed || at.y == inside.y);
        if let Some(x) = at.x.checked_sub(inside.x).filter(|_| is_head)
            && self.sort_at(session, theme, pane, x)
        {
            return;
        }
        if let Some(row) = row {
            let rows = self.rows(session, theme, pane);
            if pane == view::pane_index("log") {
                self.log.at = Some(row as u64);
            } else if row < rows.len() {
                let list = &mut self.lists[pane];
                (list.index, list.row) = (row, rows.get(row).cloned());
            }
        }
    }
}
