//! Texts in place of the panes, what their lines lead to, and the way back.

use super::Ui;
use crate::diagnosis::session::Session;
use crate::tui::details::Subject;
use crate::tui::filter::Filter;
use crate::tui::theme::Theme;
use crate::tui::{sheet, view};

/// A text that is scrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    pub content: Content,
    pub scroll: usize,
    /// The line that enter opens, where lines lead somewhere.
    pub cursor: usize,
    /// What its lines must hold to be shown.
    pub only: String,
}

/// What the user looked at.
pub struct Visited {
    sheet: Option<Sheet>,
    focus: usize,
    zoom: Option<usize>,
}

/// Places that are kept of the way.
const LONGEST_TRAIL: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Help,
    /// All settings, to be changed.
    Options,
    /// Its lines are safe to print.
    Text {
        title: String,
        lines: Vec<String>,
    },
    /// Everything about one thing.
    Detail(Subject),
}

impl Content {
    /// Its lines may lead somewhere.
    pub fn has_cursor(&self) -> bool {
        matches!(self, Content::Detail(_) | Content::Options)
    }
}

impl Sheet {
    /// From the top.
    pub fn of(content: Content) -> Sheet {
        Sheet { content, scroll: 0, cursor: 0, only: String::new() }
    }

    /// Moves by so many lines.
    pub fn step(&mut self, by: isize) {
        let moves = if self.content.has_cursor() { &mut self.cursor } else { &mut self.scroll };
        *moves = moves.saturating_add_signed(by);
    }
}

/// What "open" on a row leads to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    Nothing,
    /// A line by its number in the logbook.
    LogLine(u64),
    /// Everything about a thing.
    Detail(Subject),
    /// A group of rows, by its name: shown, or hidden.
    Group(String),
    Notice(String),
    /// A title, and lines that are laid over the screen.
    Text(String, String),
}

impl Ui {
    /// The sheet ends with its last line.
    pub(in crate::tui) fn hold_sheet(&mut self, session: &Session, theme: &Theme) {
        let area = view::body(session, self, theme);
        if let Some(mut shown) = self.sheet.take() {
            sheet::hold(&self.ctx(session, theme), &mut shown, area);
            self.sheet = Some(shown);
        }
    }

    /// The thing all of which is shown.
    pub fn detail(&self) -> Option<&Subject> {
        match &self.sheet.as_ref()?.content {
            Content::Detail(subject) => Some(subject),
            _ => None,
        }
    }

    pub(in crate::tui) fn leave_mark(&mut self) {
        if self.trail.len() == LONGEST_TRAIL {
            self.trail.remove(0);
        }
        self.trail.push(Visited { sheet: self.sheet.take(), focus: self.focus, zoom: self.zoom });
    }

    /// Over what is shown now; leaving it leads back there.
    pub(in crate::tui) fn open_sheet(&mut self, content: Content) {
        self.leave_mark();
        self.sheet = Some(Sheet::of(content));
    }

    /// All of it is shown again; else back to what was shown before.
    pub(in crate::tui) fn close_sheet(&mut self) {
        if self.sheet.as_ref().is_some_and(|shown| !shown.only.is_empty()) {
            return self.search_sheet("");
        }
        self.sheet = None;
        if let Some(place) = self.trail.pop() {
            (self.sheet, self.focus, self.zoom) = (place.sheet, place.focus, place.zoom);
        }
    }

    /// To the panes.
    pub(in crate::tui) fn close_all_sheets(&mut self) {
        self.sheet = None;
        self.trail.clear();
    }

    /// The lines of the sheet that lead somewhere.
    pub(in crate::tui) fn links(&self, session: &Session, theme: &Theme) -> Vec<(usize, Opened)> {
        let Some(shown) = &self.sheet else { return Vec::new() };
        let (_, entries) = sheet::lines(&self.ctx(session, theme), shown, self.size.0);
        entries.into_iter().enumerate().filter_map(|(no, entry)| Some((no, entry.to?))).collect()
    }

    pub(in crate::tui) fn next_link(&mut self, session: &Session, theme: &Theme, forward: bool) {
        let links = self.links(session, theme);
        let Some(shown) = &mut self.sheet else { return };
        let numbers = || links.iter().map(|(no, _)| *no);
        let next = if forward {
            numbers().find(|no| *no > shown.cursor).or(numbers().next())
        } else {
            numbers().rev().find(|no| *no < shown.cursor).or(numbers().next_back())
        };
        shown.cursor = next.unwrap_or(shown.cursor);
    }

    /// Where the line under the cursor leads.
    pub(in crate::tui) fn follow(&mut self, session: &Session, theme: &Theme) {
        let cursor = self.sheet.as_ref().map(|shown| shown.cursor);
        let link = self.links(session, theme).into_iter().find(|(no, _)| Some(*no) == cursor);
        match link {
            Some((_, to)) => self.go_to(to, session, theme),
            None => self.notice = Some("nothing to open on this line; tab goes to the next one that leads somewhere".into()),
        }
    }

    /// Which lines of the sheet are shown.
    pub(in crate::tui) fn search_sheet(&mut self, text: &str) {
        if let Some(shown) = &mut self.sheet {
            (shown.only, shown.scroll, shown.cursor) = (text.to_owned(), 0, 0);
        }
    }

    pub(in crate::tui) fn go_to(&mut self, to: Opened, session: &Session, theme: &Theme) {
        match to {
            Opened::Nothing => self.notice = Some("there is nothing to open here".into()),
            Opened::LogLine(at) => {
                if self.sheet.is_some() {
                    self.leave_mark();
                }
                self.log.filter = Filter::default();
                self.log.at = Some(at);
                self.focus = view::pane_index("log");
                self.zoom = Some(self.focus);
            }
            Opened::Detail(subject) => {
                self.open_sheet(Content::Detail(subject));
                self.hold_sheet(session, theme);
                // The first line that leads somewhere, if it is in sight.
                let rows = usize::from(view::body(session, self, theme).height.saturating_sub(1));
                let first = self.links(session, theme).first().map(|(no, _)| *no).filter(|no| *no < rows);
                if let (Some(shown), Some(first)) = (&mut self.sheet, first) {
                    shown.cursor = first;
                }
            }
            Opened::Group(name) => {
                let list = &mut self.lists[self.zoom.unwrap_or(self.focus)];
                if !list.toggled.remove(&name) {
                    list.toggled.insert(name.clone());
                }
                list.row = Some(name);
            }
            Opened::Notice(text) => self.notice = Some(text),
            Opened::Text(title, text) => self.popup = Some((title, text)),
        }
    }
}
