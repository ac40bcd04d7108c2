//! What the user of the fleet's screen has chosen. Keys change it here; what reaches beyond it is returned as an [`Effect`].

use super::rows;
use crate::base::time::{Stamp, Zone};
use crate::fleet::asking::{Focus, Frame};
use crate::tui::actions::Action;
use crate::tui::choices::List;
use crate::tui::filter::Filter;
use crate::tui::keys::Keymap;
use crate::tui::theme::Theme;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::{Position, Rect};
use std::cell::RefCell;
use std::time::Duration;

/// What a key asks of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Draw,
    Redraw,
    Quit,
    Suspend,
    /// Something else is looked at: its answers are wanted now.
    Ask,
    NextTheme,
    Copy(String),
}

pub struct FleetUi {
    pub zone: Zone,
    pub keys: Keymap,
    /// The moment that is looked at; `None`: the present.
    pub at: Option<Stamp>,
    /// What was opened on the way, the overview first; the last is shown.
    trail: Vec<Place>,
    /// What is typed to filter by, and why it cannot be used.
    pub prompt: Option<(String, Option<String>)>,
    /// The help, from this line on, with what is searched in it.
    pub help: Option<(usize, String)>,
    pub notice: Option<String>,
    pub popup: Option<String>,
    pub size: (u16, u16),
    pub mouse: bool,
    /// Nothing but ASCII is drawn.
    pub ascii: bool,
    /// Where the last picture has what can be clicked; what lies on top stands last.
    spots: RefCell<Vec<Spot>>,
}

/// A place of the picture, the pane that it is of, and what stands there.
struct Spot {
    area: Rect,
    pane: usize,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    Pane,
    /// The column, by its place in the pane's heads.
    Head(usize),
    Row(usize),
}

/// One of the screens on the way.
pub struct Place {
    pub focus: Focus,
    /// Of the panes that have rows: 0 jobs, nodes or GPUs; 1 findings.
    pub pane: usize,
    pub lists: [List; 2],
}

impl Place {
    fn of(focus: Focus) -> Place {
        Place { focus, pane: 0, lists: Default::default() }
    }
}

/// Texts typed in are not longer than any that is searched.
const MAX_TYPED: usize = 200;
/// What the screen knows to do.
pub const ACTIONS: &[Action] = &[
    Action::Help,
    Action::Quit,
    Action::Pane(1),
    Action::NextPane,
    Action::PreviousPane,
    Action::Open,
    Action::Back,
    Action::Up,
    Action::Down,
    Action::PageUp,
    Action::PageDown,
    Action::Top,
    Action::Bottom,
    Action::Filter,
    Action::Sort,
    Action::SortReverse,
    Action::Pause,
    Action::Earlier,
    Action::Later,
    Action::MuchEarlier,
    Action::MuchLater,
    Action::ToEnd,
    Action::Copy,
    Action::Theme,
    Action::Mouse,
    Action::Redraw,
    Action::Suspend,
];

impl FleetUi {
    pub fn new(zone: Zone, keys: Keymap, at: Option<Stamp>) -> FleetUi {
        FleetUi {
            zone,
            keys,
            at,
            trail: vec![Place::of(Focus::Overview)],
            prompt: None,
            help: None,
            notice: None,
            popup: None,
            size: (80, 24),
            mouse: true,
            ascii: false,
            spots: RefCell::default(),
        }
    }

    /// What is looked at.
    pub fn focus(&self) -> &Focus {
        self.trail.last().map_or(&Focus::Overview, |place| &place.focus)
    }

    pub fn place(&self) -> &Place {
        // There is always the overview.
        &self.trail[self.trail.len() - 1]
    }

    fn place_mut(&mut self) -> &mut Place {
        let last = self.trail.len() - 1;
        &mut self.trail[last]
    }

    /// `now` is the present.
    pub fn input(&mut self, input: &Input, frame: Option<&Frame>, now: Stamp) -> Effect {
        match input {
            Input::Key(key) if key.kind != KeyEventKind::Release => match self.keys.apart(key) {
                Some([first, second]) => match self.key(&first, frame, now) {
                    Effect::Draw => self.key(&second, frame, now),
                    effect => effect,
                },
                None => self.key(key, frame, now),
            },
            Input::Mouse(mouse) if self.mouse => self.pointer(mouse, frame, now),
            Input::Paste(text) if self.prompt.is_some() => {
                text.chars().filter(|c| !c.is_control()).for_each(|c| self.type_in(c));
                Effect::Draw
            }
            _ => Effect::Draw,
        }
    }

    fn key(&mut self, key: &KeyEvent, frame: Option<&Frame>, now: Stamp) -> Effect {
        let action = self.keys.action(key);
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(action, Some(Action::Quit | Action::Suspend | Action::Redraw)) {
            return self.act(action.unwrap_or(Action::Quit), frame, now);
        }
        if self.prompt.is_some() {
            return self.typed(key);
        }
        self.notice = None;
        if self.popup.take().is_some() {
            return Effect::Draw;
        }
        if action == Some(Action::Quit) && self.help.take().is_some() {
            return Effect::Draw;
        }
        match action {
            Some(action) if ACTIONS.contains(&action) => self.act(action, frame, now),
            Some(_) => {
                self.notice = Some("that key is for the screen of one node: enter on a node shows the command that opens it".into());
                Effect::Draw
            }
            None => Effect::Draw,
        }
    }

    fn typed(&mut self, key: &KeyEvent) -> Effect {
        let Some((text, _)) = &mut self.prompt else { return Effect::Draw };
        match key.code {
            KeyCode::Esc => {
                self.prompt = None;
                self.set_filter("");
            }
            KeyCode::Enter => self.prompt = None,
            KeyCode::Backspace => {
                text.pop();
                self.follow_typing();
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                text.clear();
                self.follow_typing();
            }
            KeyCode::Char(c) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) => self.type_in(c),
            _ => {}
        }
        Effect::Draw
    }

    fn type_in(&mut self, c: char) {
        if let Some((text, _)) = self.prompt.as_mut().filter(|(text, _)| text.len() < MAX_TYPED) {
            text.push(c);
        }
        self.follow_typing();
    }

    fn follow_typing(&mut self) {
        let Some((text, _)) = self.prompt.clone() else { return };
        let error = self.set_filter(&text);
        if let Some(prompt) = &mut self.prompt {
            prompt.1 = error;
        }
    }

    /// Why a filter cannot be used, if it cannot: then the one before stays.
    fn set_filter(&mut self, text: &str) -> Option<String> {
        if let Some((_, only)) = &mut self.help {
            text.clone_into(only);
            return None;
        }
        let place = self.place_mut();
        match Filter::parse(text) {
            Ok(filter) => place.lists[place.pane].filter = filter,
            Err(why) => return Some(why),
        }
        None
    }

    fn act(&mut self, action: Action, frame: Option<&Frame>, now: Stamp) -> Effect {
        if let Some((line, _)) = &mut self.help {
            match action {
                Action::Up => *line = line.saturating_sub(1),
                Action::Down => *line += 1,
                Action::PageUp => *line = line.saturating_sub(10),
                Action::PageDown => *line += 10,
                Action::Top => *line = 0,
                Action::Bottom => *line = usize::MAX,
                Action::Quit => return Effect::Quit,
                Action::Filter => self.prompt = Some((String::new(), None)),
                _ => self.help = None,
            }
            return Effect::Draw;
        }
        let scrape = frame.map_or(Duration::from_secs(15), |frame| frame.fleet.scrape);
        match action {
            Action::Quit => return Effect::Quit,
            Action::Suspend => return Effect::Suspend,
            Action::Redraw => return Effect::Redraw,
            Action::Theme => return Effect::NextTheme,
            Action::Help => self.help = Some((0, String::new())),
            Action::Pane(_) => {
                self.trail.truncate(1);
                return Effect::Ask;
            }
            Action::NextPane | Action::PreviousPane => self.place_mut().pane ^= 1,
            Action::Back => return self.back(),
            Action::Open => return self.open(frame),
            Action::Up => self.step(frame, -1),
            Action::Down => self.step(frame, 1),
            Action::PageUp => self.step(frame, -10),
            Action::PageDown => self.step(frame, 10),
            Action::Top => self.step(frame, isize::MIN),
            Action::Bottom => self.step(frame, isize::MAX),
            Action::Filter => {
                let place = self.place();
                self.prompt = Some((place.lists[place.pane].filter.text.clone(), None));
            }
            Action::Sort => self.sort(frame),
            Action::SortReverse => self.reverse(),
            Action::Pause if self.at.is_some() => return self.go_to(None),
            Action::Pause => self.at = Some(frame.map_or(now, |frame| frame.fleet.at)),
            Action::Earlier => return self.move_by(frame, now, -1, scrape),
            Action::Later => return self.move_by(frame, now, 1, scrape),
            Action::MuchEarlier => return self.move_by(frame, now, -1, Duration::from_secs(60)),
            Action::MuchLater => return self.move_by(frame, now, 1, Duration::from_secs(60)),
            Action::ToEnd => return self.go_to(None),
            Action::Copy => match frame.and_then(|frame| rows::command(frame, self.place())) {
                Some(command) => return Effect::Copy(command),
                None => self.notice = Some("nothing to copy: no finding has a next step".into()),
            },
            Action::Mouse => {
                self.mouse = !self.mouse;
                self.notice = Some(if self.mouse { "mouse on" } else { "mouse off: the terminal selects text" }.into());
            }
            _ => {}
        }
        Effect::Draw
    }

    /// Notes where something stands that can be clicked; the view does, while it draws.
    pub fn spot(&self, area: Rect, pane: usize, what: What) {
        self.spots.borrow_mut().push(Spot { area, pane, what });
    }

    pub fn forget_spots(&self) {
        self.spots.borrow_mut().clear();
    }

    /// The wheel moves in the list below it. A click selects a row or sorts by a head; one on the selected row opens it.
    fn pointer(&mut self, mouse: &MouseEvent, frame: Option<&Frame>, now: Stamp) -> Effect {
        let clicked = mouse.kind == MouseEventKind::Down(MouseButton::Left);
        if clicked && (self.popup.take().is_some() || self.help.take().is_some()) {
            return Effect::Draw;
        }
        let at = Position { x: mouse.column, y: mouse.row };
        let found = self.spots.borrow().iter().rev().find(|spot| spot.area.contains(at)).map(|spot| (spot.pane, spot.what));
        let wheel = match mouse.kind {
            MouseEventKind::ScrollUp => Some(Action::Up),
            MouseEventKind::ScrollDown => Some(Action::Down),
            _ => None,
        };
        let Some((pane, what)) = found.filter(|_| clicked || wheel.is_some()) else {
            return wheel.map_or(Effect::Draw, |action| self.act(action, frame, now));
        };
        let had_focus = self.place().pane == pane;
        self.place_mut().pane = pane;
        if let Some(action) = wheel {
            return self.act(action, frame, now);
        }
        match what {
            What::Pane => {}
            What::Head(column) => {
                let list = &mut self.place_mut().lists[pane];
                list.reverse = list.sort == column + 1 && !list.reverse;
                list.sort = column + 1;
            }
            What::Row(row) => {
                let Some(frame) = frame else { return Effect::Draw };
                let names = rows::names(frame, self.place());
                if had_focus && rows::selected(frame, self.place(), &names) == Some(row) {
                    return self.open(Some(frame));
                }
                let list = &mut self.place_mut().lists[pane];
                (list.row, list.index) = (names.get(row).cloned(), row);
            }
        }
        Effect::Draw
    }

    /// By the next column in which something is known; after the last in the list's own order.
    fn sort(&mut self, frame: Option<&Frame>) {
        let (place, Some(frame)) = (self.place(), frame) else { return };
        let heads = rows::heads(place, place.pane);
        let known = rows::known(&rows::shown(frame, place, place.pane, &Theme::mono()), heads.len());
        if heads.is_empty() {
            self.notice = Some("nothing to sort in this pane".into());
            return;
        }
        let place = self.place_mut();
        let list = &mut place.lists[place.pane];
        list.sort = known.into_iter().map(|at| at + 1).find(|no| *no > list.sort).unwrap_or(0);
        let by = list.sort.checked_sub(1).map_or("in its own order".to_owned(), |at| format!("by {}", heads[at].0));
        self.notice = Some(format!("sorted {by}{}", if list.reverse { ", reversed" } else { "" }));
    }

    fn reverse(&mut self) {
        let place = self.place_mut();
        let list = &mut place.lists[place.pane];
        list.reverse = !list.reverse;
    }

    /// To another moment; not beyond the present.
    fn move_by(&mut self, frame: Option<&Frame>, now: Stamp, sign: i64, by: Duration) -> Effect {
        let from = self.at.or(frame.map(|frame| frame.fleet.at)).unwrap_or(now);
        let to = if sign < 0 { from.minus(by) } else { from.plus(by) };
        self.go_to((to < now).then_some(to))
    }

    fn go_to(&mut self, at: Option<Stamp>) -> Effect {
        self.at = at;
        Effect::Ask
    }

    fn back(&mut self) -> Effect {
        let place = self.place_mut();
        let list = &mut place.lists[place.pane];
        if !list.filter.is_empty() {
            list.filter = Filter::default();
        } else if self.trail.len() > 1 {
            self.trail.pop();
            return Effect::Ask;
        }
        Effect::Draw
    }

    fn open(&mut self, frame: Option<&Frame>) -> Effect {
        let Some(to) = frame.and_then(|frame| rows::opens(frame, self.place())) else {
            self.notice = Some("there is nothing to open here".into());
            return Effect::Draw;
        };
        if to == *self.focus() {
            return Effect::Draw;
        }
        self.trail.push(Place::of(to));
        Effect::Ask
    }

    fn step(&mut self, frame: Option<&Frame>, by: isize) {
        let Some(frame) = frame else { return };
        let names = rows::names(frame, self.place());
        let at = rows::selected(frame, self.place(), &names).unwrap_or(0);
        let to = at.saturating_add_signed(by).min(names.len().saturating_sub(1));
        let place = self.place_mut();
        let list = &mut place.lists[place.pane];
        (list.row, list.index) = (names.get(to).cloned(), to);
    }
}
