//! What can be done on the screen, by which key, and what it does. The footer, the help, the config and docs/SCREEN.md are made from the table.
//!
//! **To add a key**: a variant of [`Action`], its row in [`OWN`], and its arm in `Ui::act`, all in this file. Panes bring their own.

use super::choices::{Content, Effect, Move, Ui};
use super::options::{self, Kind, Picked};
use super::panes::PANES;
use super::theme::Theme;
use super::{log_view, view};
use crate::diagnosis::session::Session;
use crate::logs::prefilter::Class;
use std::sync::LazyLock;

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
    NextJob,
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
    Wrap,
    ScrollLeft,
    ScrollRight,
    Copy,
    CopyLine,
    Pager,
    Acknowledge,
    Mute,
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
    Options,
    NextLayout,
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
    main_key(Action::Quit, "quit", &["q", "ctrl-c"], Group::Program, "quit; the job goes on. Of the help, the options and details q closes the page", "quit"),
    main_key(Action::Pane(1), "overview", &["1"], Group::Panes, "everything at once", "overview"),
    key(Action::NextPane, "next-pane", &["tab"], Group::Panes, "focus the next pane"),
    key(Action::PreviousPane, "previous-pane", &["shift-tab"], Group::Panes, "focus the previous pane"),
    key(Action::NextJob, "next-job", &["J"], Group::Panes, "the next job, where there are several, and its log"),
    key(Action::NextLayout, "next-layout", &["P"], Group::Panes, "the next arrangement of the overview: all, GPUs, network, logs, your own"),
    key(Action::Zoom, "zoom", &["z"], Group::Panes, "zoom the focused pane, or leave the zoom"),
    main_key(Action::Open, "open", &["enter"], Group::Panes, "open the focused pane (at first the findings, where something is found), then all about the selected row; there: what the line leads to", "open"),
    key(Action::Back, "back", &["esc", "backspace"], Group::Panes, "back: leave details, help, filter or zoom"),
    key(Action::Up, "up", &["up", "k"], Group::Lists, "one row up"),
    key(Action::Down, "down", &["down", "j"], Group::Lists, "one row down"),
    key(Action::PageUp, "page-up", &["pgup", "ctrl-b", "ctrl-u"], Group::Lists, "ten rows up"),
    key(Action::PageDown, "page-down", &["pgdn", "ctrl-f", "ctrl-d"], Group::Lists, "ten rows down"),
    key(Action::Top, "top", &["home", "g"], Group::Lists, "first row"),
    key(Action::Bottom, "bottom", &["end", "G"], Group::Lists, "last row; of the log: follow"),
    main_key(Action::Filter, "filter", &["/"], Group::Lists, "filter the focused pane, or search the help, as you type: text !text /regex/ rank:0-3 file:name", "filter"),
    key(Action::Sort, "sort", &["s"], Group::Lists, "sort by the next column that is shown"),
    key(Action::SortReverse, "sort-reverse", &["S"], Group::Lists, "reverse the order"),
    key(Action::Search, "search", &["f"], Group::Log, "find in the log, as you type: text, or a regular expression in slashes"),
    key(Action::NextMatch, "next-match", &["n"], Group::Log, "next match"),
    key(Action::PreviousMatch, "previous-match", &["N"], Group::Log, "previous match"),
    key(Action::FilterRank, "filter-rank", &["r"], Group::Log, "filter lines by rank"),
    key(Action::FilterSeverity, "filter-severity", &["W"], Group::Log, "show all lines, known lines, or WARN and worse"),
    key(Action::Wrap, "wrap", &["w"], Group::Log, "wrap long lines, or cut them"),
    key(Action::ScrollLeft, "scroll-left", &["shift-left", ","], Group::Log, "long lines from further left"),
    key(Action::ScrollRight, "scroll-right", &["shift-right", "."], Group::Log, "long lines from further right"),
    key(Action::CopyLine, "copy-line", &["y"], Group::Log, "copy the selected line; without one, the suggested command"),
    key(Action::Pager, "pager", &["o"], Group::Log, "open the log in $PAGER, at the selected line"),
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
    main_key(Action::Copy, "copy", &["c"], Group::Program, "copy the next step that is suggested", "copy next step"),
    key(Action::Acknowledge, "acknowledge", &["a"], Group::Program, "acknowledge the selected finding: it stands below the others"),
    key(Action::Mute, "mute", &["A"], Group::Program, "mute the rule of the selected finding while nccl-top runs"),
    main_key(Action::Stack, "stack", &["x"], Group::Program, "show the culprit's stack (runs py-spy, asks first)", "stack"),
    key(Action::Stacks, "stacks", &["X"], Group::Program, "show the stacks of all ranks and data loaders (runs py-spy, asks first)"),
    key(Action::Dumps, "dumps", &["D"], Group::Program, "ask the ranks to write their Flight Recorder dumps (asks first)"),
    main_key(Action::Evidence, "evidence", &["e"], Group::Program, "save an evidence bundle (asks for a directory)", "save evidence"),
    key(Action::Options, "options", &[":", "f2"], Group::Program, "all settings: change them at once, save them"),
    key(Action::Theme, "theme", &["t"], Group::Program, "the next theme"),
    key(Action::Mouse, "mouse", &["m"], Group::Program, "mouse on or off (off: the terminal selects text)"),
    key(Action::Redraw, "redraw", &["ctrl-l"], Group::Program, "redraw the screen"),
    key(Action::Suspend, "suspend", &["ctrl-z"], Group::Program, "suspend to the shell (fg resumes)"),
];

impl Ui {
    /// Does what a key asks for, and returns what reaches beyond the screen.
    pub fn act(&mut self, action: Action, session: &Session, theme: &Theme) -> Effect {
        if self.sheet.is_some()
            && let Some(effect) = self.read_on(action, session, theme)
        {
            return effect;
        }
        if matches!(action, Action::Pane(_) | Action::NextPane | Action::PreviousPane | Action::Zoom) {
            self.close_all_sheets();
        }
        let moves = |by: i64| Effect::Time(Move::By(by));
        self.focus = self.focus_in(session);
        // All that is done to a pane; what is done to the screen as a whole chooses none.
        self.has_chosen |= match action {
            Action::Pane(n) => n != 1,
            Action::NextPane | Action::PreviousPane | Action::Zoom | Action::Search | Action::Filter | Action::FilterRank => true,
            Action::Up | Action::Down | Action::PageUp | Action::PageDown | Action::Top | Action::Bottom => true,
            Action::Sort | Action::SortReverse | Action::NextMatch | Action::PreviousMatch | Action::FilterSeverity => true,
            _ => false,
        };
        match action {
            Action::Quit => return Effect::Quit,
            Action::Suspend => return Effect::Suspend,
            Action::Redraw => return Effect::Redraw,
            Action::Help => self.open_sheet(Content::Help),
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
            Action::NextJob => self.next_job(session),
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
            Action::Sort | Action::SortReverse => self.sort(session, theme, action == Action::SortReverse),
            Action::Search => self.ask_search(),
            Action::Filter => self.ask_filter(session, theme),
            Action::FilterRank => self.ask_ranks(),
            Action::NextMatch | Action::PreviousMatch => {
                let forward = action == Action::NextMatch;
                if self.log.search.is_none() {
                    self.ask_search();
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
            Action::Wrap => {
                (self.log.wraps, self.log.shift) = (!self.log.wraps, 0);
                self.show_log();
                self.notice = Some(if self.log.wraps { "long lines are wrapped" } else { "long lines are cut" }.into());
            }
            Action::Pager => return Effect::Page(self.chosen_line()),
            Action::ScrollLeft | Action::ScrollRight => self.scroll_sideways(action == Action::ScrollRight),
            Action::CopyLine if self.line_to_copy(session).is_some() => {
                return Effect::CopyLine(self.line_to_copy(session).unwrap_or_default());
            }
            Action::Copy | Action::CopyLine => match view::command(session, self) {
                Some(command) => return Effect::Copy(command),
                None => {
                    let of = self.job.as_ref().map_or(String::new(), |job| format!(" of job {job}"));
                    self.notice = Some(format!("nothing to copy: no finding{of} has a next step"));
                }
            },
            Action::Acknowledge => return self.acknowledge(session),
            Action::Mute => return self.mute(session),
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
            Action::Options => self.open_sheet(Content::Options),
            Action::LongerAxis | Action::ShorterAxis => return Effect::Turn("axis", action == Action::LongerAxis),
            Action::Theme => return Effect::Turn("theme", true),
            Action::Mouse => return Effect::Turn("mouse", true),
            Action::NextLayout => {
                self.close_all_sheets();
                self.leave_zoom();
                return Effect::Turn("layout", true);
            }
        }
        Effect::Draw
    }

    /// What a key does while a sheet is shown; `None`: what it does elsewhere.
    fn read_on(&mut self, action: Action, session: &Session, theme: &Theme) -> Option<Effect> {
        let sheet = self.sheet.as_mut()?;
        let is_detail = matches!(sheet.content, Content::Detail(_));
        let is_options = sheet.content == Content::Options;
        match action {
            Action::Up => sheet.step(-1),
            Action::Down => sheet.step(1),
            Action::PageUp => sheet.step(-10),
            Action::PageDown => sheet.step(10),
            Action::Top => sheet.step(isize::MIN),
            Action::Bottom => sheet.step(isize::MAX),
            Action::NextPane | Action::PreviousPane if is_detail => self.next_link(session, theme, action == Action::NextPane),
            Action::Open if is_detail => self.follow(session, theme),
            Action::Open | Action::Earlier | Action::Later | Action::Sort if is_options => return Some(self.change_setting(action)),
            // What changes a setting does so where settings are looked at, too.
            Action::Theme | Action::Mouse | Action::LongerAxis | Action::ShorterAxis if is_options => return None,
            // Nothing of the log is to be seen.
            Action::CopyLine | Action::Pager if !is_detail => self.notice = Some("that key is for the log; esc closes this page".into()),
            Action::Back => self.close_sheet(),
            Action::Filter => self.ask_within(),
            Action::Quit => return Some(Effect::Quit),
            Action::Suspend => return Some(Effect::Suspend),
            Action::Redraw => return Some(Effect::Redraw),
            Action::Evidence if !matches!(sheet.content, Content::Help | Content::Options) => return Some(self.ask_evidence(session)),
            _ if !is_detail => self.close_sheet(),
            // It stays on the way through time, and while it is looked at in another way.
            _ if action.leaves_panes() || matches!(action, Action::CopyLine | Action::Pager) => return None,
            _ => {
                self.close_all_sheets();
                return None;
            }
        }
        self.hold_sheet(session, theme);
        Some(Effect::Draw)
    }
}

impl Ui {
    /// Changes the setting under the cursor, or saves all of them.
    fn change_setting(&mut self, action: Action) -> Effect {
        let picked = self.sheet.as_ref().map_or(Picked::Save, |sheet| options::picked(self, sheet));
        match (action, picked) {
            (Action::Sort, _) | (Action::Open, Picked::Save) => return Effect::Save,
            (Action::Open, Picked::Setting(row)) if row.kind == Kind::Text => self.ask_setting(row.key, row.value),
            (_, Picked::Setting(row)) if row.kind == Kind::Text => self.notice = Some("enter lets you type it".into()),
            (_, Picked::Setting(row)) => return Effect::Turn(row.key, action != Action::Earlier),
            (_, Picked::Save) => {}
        }
        Effect::Draw
    }
}

impl Action {
    /// It has nothing to do with what the panes show.
    fn leaves_panes(self) -> bool {
        let row = KEYS.iter().find(|key| key.action == self);
        row.is_some_and(|key| matches!(key.group, Group::Time | Group::Program))
    }
}
