//! What can be done on the screen, by which key, and what it does. The footer, the help, the config and docs/SCREEN.md are made from the table.
//!
//! **To add a key**: a variant of [`Action`], its row in [`OWN`], and its arm in `Ui::act`, all in this file. Panes bring their own.

use super::choices::{Ask, Content, Effect, Move, Sheet, Ui};
use super::panes::PANES;
use super::theme::Theme;
use super::{log_view, view};
use crate::diagnosis::session::Session;
use crate::logs::prefilter::Class;
use std::sync::LazyLock;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Action {
    Quit,
    Help,
    Suspend,
    Redraw,
    Back,
    Open,
    Zoom,
    /// The overview is 1; the panes follow in their order.
    Pane(u8),
    NextPane,
    PreviousPane,
    Up,
    Down,
    PageUp,
    PageDown,
    Top,
    Bottom,
    Sort,
    SortReverse,
    Search,
    NextMatch,
    PreviousMatch,
    Filter,
    FilterRank,
    FilterSeverity,
    Copy,
    Stack,
    Stacks,
    Dumps,
    Evidence,
    Pause,
    Earlier,
    Later,
    MuchEarlier,
    MuchLater,
    ToStart,
    ToEnd,
    Slower,
    Faster,
    LongerAxis,
    ShorterAxis,
    Theme,
    Mouse,
}

/// Under which head the help lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Group {
    Panes,
    Lists,
    Log,
    Time,
    Program,
}

impl Group {
    pub const ALL: [Group; 5] = [Group::Panes, Group::Lists, Group::Log, Group::Time, Group::Program];

    pub fn as_str(self) -> &'static str {
        match self {
            Group::Panes => "Panes",
            Group::Lists => "Lists",
            Group::Log => "Log",
            Group::Time => "Time",
            Group::Program => "Program",
        }
    }
}

/// One row of the table.
#[derive(Clone, Copy)]
pub struct Key {
    pub action: Action,
    /// How the config names it.
    pub name: &'static str,
    /// Unless the config says otherwise.
    pub keys: &'static [&'static str],
    pub help: &'static str,
    /// The word for the footer, for what should be found without help.
    pub footer: Option<&'static str>,
    pub group: Group,
}

const fn key(action: Action, name: &'static str, keys: &'static [&'static str], group: Group, help: &'static str) -> Key {
    Key { action, name, keys, help, footer: None, group }
}

const fn main_key(
    action: Action,
    name: &'static str,
    keys: &'static [&'static str],
    group: Group,
    help: &'static str,
    footer: &'static str,
) -> Key {
    Key { action, name, keys, help, footer: Some(footer), group }
}

/// All rows: behind the overview's stands one for each pane, in their order.
pub static KEYS: LazyLock<Vec<Key>> = LazyLock::new(|| {
    let of_panes =
        PANES.iter().zip(DIGITS).zip(2..).map(|((pane, digit), no)| key(Action::Pane(no), pane.id, digit, Group::Panes, pane.shows));
    let (before, after) = OWN.split_at(OWN.iter().position(|k| k.action == Action::Pane(1)).map_or(0, |at| at + 1));
    before.iter().copied().chain(of_panes).chain(after.iter().copied()).collect()
});

/// Keys of the panes behind the overview. There are more panes than digits.
const DIGITS: [&[&str]; 10] = [&["2"], &["3"], &["4"], &["5"], &["6"], &["7"], &["8"], &["9"], &["0"], &["T"]];
/// The last pane with a digit.
pub const LAST_DIGIT: Action = Action::Pane(DIGITS.len() as u8);

#[rustfmt::skip]
const OWN: &[Key] = &[
    main_key(Action::Help, "help", &["?", "f1"], Group::Program, "keys, marks and words", "help"),
    main_key(Action::Quit, "quit", &["q", "ctrl-c"], Group::Program, "quit; the job goes on", "quit"),
    main_key(Action::Pane(1), "overview", &["1"], Group::Panes, "everything at once", "overview"),
    key(Action::NextPane, "next-pane", &["tab"], Group::Panes, "focus the next pane"),
    key(Action::PreviousPane, "previous-pane", &["shift-tab"], Group::Panes, "focus the previous pane"),
    key(Action::Zoom, "zoom", &["z"], Group::Panes, "zoom the focused pane, or leave the zoom"),
    main_key(Action::Open, "open", &["enter"], Group::Panes, "open what is selected: a pane, a finding's log line, a group's ports, the meaning of a topology row", "open"),
    key(Action::Back, "back", &["esc", "backspace"], Group::Panes, "leave help, filter or zoom"),
    key(Action::Up, "up", &["up", "k"], Group::Lists, "one row up"),
    key(Action::Down, "down", &["down", "j"], Group::Lists, "one row down"),
    key(Action::PageUp, "page-up", &["pgup", "ctrl-b", "ctrl-u"], Group::Lists, "ten rows up"),
    key(Action::PageDown, "page-down", &["pgdn", "ctrl-f", "ctrl-d"], Group::Lists, "ten rows down"),
    key(Action::Top, "top", &["home", "g"], Group::Lists, "first row"),
    key(Action::Bottom, "bottom", &["end", "G"], Group::Lists, "last row; of the log: follow"),
    key(Action::Sort, "sort", &["s"], Group::Lists, "sort by the next column"),
    key(Action::SortReverse, "sort-reverse", &["S"], Group::Lists, "reverse the order"),
    main_key(Action::Search, "search", &["/"], Group::Log, "search the log; /text/ or a regular expression in slashes", "search"),
    key(Action::NextMatch, "next-match", &["n"], Group::Log, "next match"),
    key(Action::PreviousMatch, "previous-match", &["N"], Group::Log, "previous match"),
    key(Action::Filter, "filter", &["f"], Group::Log, "filter lines: text !text /regex/ rank:0-3 file:name"),
    key(Action::FilterRank, "filter-rank", &["r"], Group::Log, "filter lines by rank"),
    key(Action::FilterSeverity, "filter-severity", &["w"], Group::Log, "show all lines, known lines, or WARN and worse"),
    main_key(Action::Pause, "pause", &["p", "space"], Group::Time, "freeze or resume the screen; nothing is missed", "pause"),
    main_key(Action::Earlier, "earlier", &["left", "h"], Group::Time, "go 5 s back, the whole screen", "back"),
    key(Action::Later, "later", &["right", "l"], Group::Time, "go 5 s forward"),
    key(Action::MuchEarlier, "much-earlier", &["["], Group::Time, "go 1 min back"),
    key(Action::MuchLater, "much-later", &["]"], Group::Time, "go 1 min forward"),
    key(Action::ToStart, "to-start", &["H"], Group::Time, "go to the oldest moment that is kept"),
    key(Action::ToEnd, "to-end", &["L"], Group::Time, "go to the present, or to the end of a recording"),
    key(Action::Slower, "slower", &["<"], Group::Time, "play a recording half as fast"),
    key(Action::Faster, "faster", &[">"], Group::Time, "play a recording twice as fast"),
    key(Action::LongerAxis, "longer-axis", &["-"], Group::Time, "longer time axis"),
    key(Action::ShorterAxis, "shorter-axis", &["+", "="], Group::Time, "shorter time axis"),
    main_key(Action::Copy, "copy", &["c", "y"], Group::Program, "copy the suggested command", "copy command"),
    main_key(Action::Stack, "stack", &["x"], Group::Program, "show the culprit's stack (runs py-spy, asks first)", "stack"),
    key(Action::Stacks, "stacks", &["X"], Group::Program, "show the stacks of all ranks and data loaders (runs py-spy, asks first)"),
    key(Action::Dumps, "dumps", &["D"], Group::Program, "have the ranks write their Flight Recorder dumps (asks first)"),
    main_key(Action::Evidence, "evidence", &["e"], Group::Program, "save an evidence bundle (asks for a directory)", "evidence"),
    key(Action::Theme, "theme", &["t"], Group::Program, "the next theme"),
    key(Action::Mouse, "mouse", &["m"], Group::Program, "mouse on or off (off: the terminal selects text)"),
    key(Action::Redraw, "redraw", &["ctrl-l"], Group::Program, "redraw the screen"),
    key(Action::Suspend, "suspend", &["ctrl-z"], Group::Program, "suspend to the shell (fg resumes)"),
];

/// Lengths of the time axis, seconds.
const WINDOWS: [u64; 6] = [30, 60, 120, 300, 600, 900];

impl Ui {
    /// Does what a key asks for, and returns what reaches beyond the screen.
    pub fn act(&mut self, action: Action, session: &Session, theme: &Theme) -> Effect {
        if self.sheet.is_some() {
            return self.read_on(action, session, theme);
        }
        let moves = |by: i64| Effect::Time(Move::By(by));
        match action {
            Action::Quit => return Effect::Quit,
            Action::Suspend => return Effect::Suspend,
            Action::Redraw => return Effect::Redraw,
            Action::Help => self.sheet = Some(Sheet::of(Content::Help)),
            Action::Pane(1) => self.leave_zoom(),
            Action::Pane(n) => {
                let pane = usize::from(n) - 2;
                if pane < PANES.len() {
                    self.focus = pane;
                    self.zoom = Some(pane);
                }
            }
            Action::NextPane => self.cycle(session, theme, 1),
            Action::PreviousPane => self.cycle(session, theme, -1),
            Action::Zoom if self.zoom.is_some() => self.leave_zoom(),
            Action::Zoom => self.zoom = Some(self.focus),
            Action::Open => return self.open(session, theme),
            Action::Back => self.back(),
            Action::Up => self.step(session, theme, -1),
            Action::Down => self.step(session, theme, 1),
            Action::PageUp => self.step(session, theme, -10),
            Action::PageDown => self.step(session, theme, 10),
            Action::Top => self.step(session, theme, i64::MIN),
            Action::Bottom => self.step(session, theme, i64::MAX),
            Action::Sort | Action::SortReverse => {
                let sorts = (PANES[self.target()].sorts)();
                let list = &mut self.lists[self.zoom.unwrap_or(self.focus)];
                if sorts.is_empty() {
                    self.notice = Some("nothing to sort in this pane".into());
                    return Effect::Draw;
                }
                match action {
                    Action::Sort => list.sort = (list.sort + 1) % (sorts.len() + 1),
                    _ => list.reverse = !list.reverse,
                }
                // The column may be one that there is no room for.
                let by = list.sort.checked_sub(1).and_then(|n| sorts.get(n)).map_or("in its own order".into(), |head| format!("by {head}"));
                self.notice = Some(format!("sorted {by}{}", if list.reverse { ", reversed" } else { "" }));
            }
            Action::Search => self.ask(Ask::Search),
            Action::Filter => self.ask(Ask::Filter),
            Action::FilterRank => self.ask(Ask::Ranks),
            Action::NextMatch | Action::PreviousMatch => {
                let forward = action == Action::NextMatch;
                if self.log.search.is_none() {
                    self.ask(Ask::Search);
                } else {
                    self.show_log();
                    let from = self.log.at;
                    self.notice = log_view::find(&mut self.log, session, from, forward).or_else(|| Some("no line matches".into()));
                }
            }
            Action::FilterSeverity => {
                self.log.filter.least = match self.log.filter.least {
                    Class::Noise => Class::Fact,
                    Class::Fact => Class::Alarm,
                    Class::Alarm => Class::Noise,
                };
                self.show_log();
                log_view::hold(&mut self.log, session);
            }
            Action::Copy => match view::command(session, self) {
                Some(command) => return Effect::Copy(command),
                None => self.notice = Some("nothing to copy: no finding has a next step".into()),
            },
            Action::Stack => return self.ask_stack(session),
            Action::Stacks => return self.ask_stacks(session),
            Action::Dumps => return self.ask_dumps(session),
            Action::Evidence => return self.ask_evidence(session),
            Action::Pause => return Effect::Time(Move::Toggle),
            Action::Earlier => return moves(-5),
            Action::Later => return moves(5),
            Action::MuchEarlier => return moves(-60),
            Action::MuchLater => return moves(60),
            Action::ToStart => return Effect::Time(Move::Start),
            Action::ToEnd => return Effect::Time(Move::End),
            Action::Slower => return Effect::Time(Move::Speed(0.5)),
            Action::Faster => return Effect::Time(Move::Speed(2.0)),
            Action::LongerAxis | Action::ShorterAxis => {
                let now = WINDOWS.iter().position(|w| *w >= self.window.as_secs()).unwrap_or(WINDOWS.len() - 1);
                let next = if action == Action::LongerAxis { (now + 1).min(WINDOWS.len() - 1) } else { now.saturating_sub(1) };
                self.window = Duration::from_secs(WINDOWS[next]);
                self.notice = Some(format!("time axis: {}", crate::base::time::span(self.window)));
            }
            Action::Theme => return Effect::NextTheme,
            Action::Mouse => {
                self.mouse = !self.mouse;
                self.notice = Some(if self.mouse { "mouse on" } else { "mouse off: the terminal selects text" }.into());
            }
        }
        Effect::Draw
    }

    /// What a key does while a sheet is shown.
    fn read_on(&mut self, action: Action, session: &Session, theme: &Theme) -> Effect {
        let Some(sheet) = &mut self.sheet else { return Effect::None };
        match action {
            Action::Up => sheet.scroll = sheet.scroll.saturating_sub(1),
            Action::Down => sheet.scroll = sheet.scroll.saturating_add(1),
            Action::PageUp => sheet.scroll = sheet.scroll.saturating_sub(10),
            Action::PageDown => sheet.scroll = sheet.scroll.saturating_add(10),
            Action::Top => sheet.scroll = 0,
            Action::Bottom => sheet.scroll = usize::MAX,
            Action::Quit => return Effect::Quit,
            Action::Suspend => return Effect::Suspend,
            Action::Redraw => return Effect::Redraw,
            Action::Evidence if sheet.content != Content::Help => return self.ask_evidence(session),
            _ => self.sheet = None,
        }
        self.hold_sheet(session, theme);
        Effect::Draw
    }
}
