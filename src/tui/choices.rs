//! What the user has chosen, and nothing about the world. Keys change it here; what reaches beyond it is returned as an [`Effect`].

use super::actions::Action;
use super::filter::Filter;
use super::keys::Keymap;
use super::panes::{Ctx, PANES, has_rows};
use super::theme::Theme;
use super::{log_view, view};
use crate::base::time::{Stamp, Zone};
use crate::diagnosis::session::Session;
use crate::diagnosis::verdict::Verdict;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;
use std::collections::BTreeSet;
use std::time::Duration;

pub struct Ui {
    pub zone: Zone,
    pub keys: Keymap,
    pub mode: Mode,
    /// The job that the screen is of; `None`: the worst.
    pub job: Option<String>,
    /// Of [`PANES`].
    pub focus: usize,
    pub zoom: Option<usize>,
    /// By pane.
    pub lists: Vec<List>,
    pub log: LogUi,
    pub prompt: Option<Prompt>,
    /// A text laid over the screen until the next key, with its title.
    pub popup: Option<(String, String)>,
    /// A long text over the panes, the help among them, to be scrolled until it is left.
    pub sheet: Option<Sheet>,
    /// One line in place of the footer until the next key.
    pub notice: Option<String>,
    /// The time that sparklines cover.
    pub window: Duration,
    /// One line above the footer, of a demo.
    pub caption: Option<&'static str>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    pub mouse: bool,
}

/// Where on the time axis the screen stands.
#[derive(Clone, Debug, PartialEq)]
pub enum Mode {
    Live,
    /// The screen stands, or was moved back; the job and its observation go on.
    Paused {
        /// The present.
        now: Stamp,
        /// Findings opened since the pause began.
        missed: usize,
    },
    Replay {
        /// `demo hang` or nothing.
        name: Option<&'static str>,
        /// `None`: as fast as possible.
        speed: Option<f64>,
        playing: bool,
        from: Stamp,
        to: Stamp,
        /// The tape is at its end, with the reason where it is not the usual one.
        ended: Option<String>,
    },
}

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

#[derive(Default)]
pub struct LogUi {
    pub filter: Filter,
    pub search: Option<Filter>,
    /// The selected line by its number in the logbook; `None` follows the newest.
    pub at: Option<u64>,
    /// Where the selection stood when the user began to search.
    before_search: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prompt {
    pub kind: Ask,
    pub text: String,
    /// The text was proposed and not touched yet: what is typed takes its place.
    pub proposed: bool,
    /// Why the text cannot be used.
    pub error: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    Search,
    /// Rows of a pane, as an index of [`PANES`].
    Filter {
        pane: usize,
    },
    Ranks,
    /// Where to write the evidence.
    Evidence,
    /// Whether to run the command that is the prompt's text, on so many processes.
    Run {
        processes: usize,
    },
    /// Whether so many ranks may be asked for their Flight Recorder; the prompt's text is how.
    Dump {
        ranks: usize,
    },
}

impl Ask {
    /// It is answered with y or n.
    fn is_consent(self) -> bool {
        matches!(self, Ask::Run { .. } | Ask::Dump { .. })
    }

    pub fn label(self) -> &'static str {
        match self {
            Ask::Search => "find",
            Ask::Filter { .. } => "only what has",
            Ask::Ranks => "only ranks (3 or 0-7,12)",
            Ask::Evidence => "write evidence to (Esc: nothing)",
            Ask::Run { .. } => "run this? (y/n)",
            Ask::Dump { .. } => "write into these pipes? (y/n)",
        }
    }
}

/// A text that is scrolled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sheet {
    pub content: Content,
    pub scroll: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Help,
    /// Its lines are safe to print.
    Text {
        title: String,
        lines: Vec<String>,
    },
}

impl Sheet {
    /// From the top.
    pub fn of(content: Content) -> Sheet {
        Sheet { content, scroll: 0 }
    }
}

/// What a key asks of the world.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    /// Nothing changed.
    None,
    /// The screen has to be drawn.
    Draw,
    /// Everything has to be drawn anew.
    Redraw,
    Quit,
    Suspend,
    Copy(String),
    NextTheme,
    Time(Move),
    /// Write the evidence there.
    Evidence(String),
    /// Find py-spy, and ask whether to run it.
    AskStacks(Stacks),
    /// It was shown, and the user said yes.
    RunStacks,
    /// Find the pipes of this job's ranks, and ask whether to write into them.
    AskDumps(String),
    /// They were shown, and the user said yes.
    RunDumps,
}

/// Whose stacks are asked for.
#[derive(Clone, Debug, PartialEq)]
pub enum Stacks {
    /// Of this process.
    One(u32),
    /// Of all ranks of this job, and of what loads their data; several times.
    All { job: String, rounds: usize },
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Move {
    /// Stop or go on.
    Toggle,
    /// By seconds, back or forward.
    By(i64),
    Start,
    End,
    /// Of a recording: so many times faster.
    Speed(f64),
}

/// Texts typed in are not longer than any line that is searched.
const MAX_TYPED: usize = 500;

/// One look shows nothing of a job that goes on, if slowly.
const SLOW_ROUNDS: usize = 5;

fn is_slow(session: &Session, job: &str) -> bool {
    session.ledger.first_open(|f| matches!(f.rule, "straggler" | "slow-steps") && f.job.as_deref() == Some(job)).is_some()
}

impl Ui {
    pub fn new(zone: Zone) -> Ui {
        Ui {
            zone,
            keys: Keymap::default(),
            mode: Mode::Live,
            job: None,
            focus: view::pane_index("log"),
            zoom: None,
            lists: vec![List::default(); PANES.len()],
            log: LogUi::default(),
            prompt: None,
            popup: None,
            sheet: None,
            notice: None,
            window: Duration::from_secs(120),
            caption: None,
            size: (80, 24),
            mouse: true,
        }
    }

    /// All jobs, the worst first.
    pub fn jobs<'a>(&self, session: &'a Session) -> Vec<&'a str> {
        let mut jobs: Vec<&str> = session.verdicts.keys().map(String::as_str).collect();
        jobs.sort_by_cached_key(|id| std::cmp::Reverse(session.weight_of(id)));
        jobs
    }

    /// The job that the screen is of: the one that the user has chosen, while it is known, else the worst.
    pub fn main_job<'a>(&self, session: &'a Session) -> Option<(&'a str, &'a Verdict)> {
        let chosen = self.job.as_ref().and_then(|id| session.verdicts.get_key_value(id));
        chosen.map(|(id, verdict)| (id.as_str(), verdict)).or_else(|| session.main_job())
    }

    /// The next job; behind the last one the worst, whichever that is.
    pub(super) fn next_job(&mut self, session: &Session) {
        let jobs = self.jobs(session);
        if jobs.len() < 2 {
            self.notice = Some(if jobs.is_empty() { "there is no job" } else { "there is only one job" }.into());
            return;
        }
        let now = self.main_job(session).and_then(|(id, _)| jobs.iter().position(|job| *job == id)).unwrap_or(0);
        let next = (now + 1) % jobs.len();
        self.job = (next > 0).then(|| jobs[next].to_owned());
        let which = if next == 0 { ", always the worst" } else { "" };
        self.notice = Some(format!("job {} of {}: {}{which}", next + 1, jobs.len(), jobs[next]));
    }

    /// The pane that keys go to.
    pub fn target(&self) -> usize {
        self.zoom.unwrap_or(self.focus)
    }

    pub fn input(&mut self, input: &Input, session: &Session, theme: &Theme) -> Effect {
        match input {
            Input::Resize(columns, rows) => {
                self.size = (*columns, *rows);
                Effect::Draw
            }
            Input::Key(key) if key.kind != KeyEventKind::Release => self.key(key, session, theme),
            Input::Mouse(mouse) if self.mouse => self.pointer(mouse, session, theme),
            Input::Paste(text) => self.paste(text, session),
            _ => Effect::None,
        }
    }

    fn key(&mut self, key: &KeyEvent, session: &Session, theme: &Theme) -> Effect {
        let action = self.keys.action(key);
        // A way out must work everywhere.
        let control = key.modifiers.contains(KeyModifiers::CONTROL);
        if control && matches!(action, Some(Action::Quit | Action::Suspend | Action::Redraw)) {
            return self.act(action.unwrap_or(Action::Quit), session, theme);
        }
        if self.prompt.is_some() {
            return self.typed(key, session);
        }
        self.notice = None;
        if self.popup.take().is_some() && action != Some(Action::Quit) {
            return Effect::Draw;
        }
        action.map_or(Effect::Draw, |action| self.act(action, session, theme))
    }

    fn typed(&mut self, key: &KeyEvent, session: &Session) -> Effect {
        let Some(prompt) = &mut self.prompt else { return Effect::None };
        // Any key but typing (an arrow, backspace) takes a proposal as it stands, to be changed at its end.
        let proposed = std::mem::take(&mut prompt.proposed);
        match key.code {
            KeyCode::Esc => self.leave_prompt(session),
            _ if prompt.kind.is_consent() => {
                let dumps = matches!(prompt.kind, Ask::Dump { .. });
                self.prompt = None;
                if matches!(key.code, KeyCode::Char('y' | 'Y')) && !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) {
                    return if dumps { Effect::RunDumps } else { Effect::RunStacks };
                }
                self.notice = Some("nothing was run".into());
            }
            KeyCode::Backspace if prompt.text.is_empty() => self.prompt = None,
            KeyCode::Backspace => {
                prompt.text.pop();
                self.follow_typing(session);
            }
            KeyCode::Char('u') if key.modifiers.contains(KeyModifiers::CONTROL) => {
                prompt.text.clear();
                self.follow_typing(session);
            }
            KeyCode::Char(c) if !key.modifiers.intersects(KeyModifiers::CONTROL | KeyModifiers::ALT) && prompt.text.len() < MAX_TYPED => {
                if proposed {
                    prompt.text.clear();
                }
                prompt.text.push(c);
                self.follow_typing(session);
            }
            KeyCode::Enter => return self.answer(session),
            _ => {}
        }
        Effect::Draw
    }

    /// Pasted text is typed text, but for what would end the prompt; without a prompt it is no sequence of commands.
    fn paste(&mut self, text: &str, session: &Session) -> Effect {
        // Nobody says yes by pasting.
        let Some(prompt) = self.prompt.as_mut().filter(|p| !p.kind.is_consent()) else { return Effect::None };
        if std::mem::take(&mut prompt.proposed) {
            prompt.text.clear();
        }
        let room = MAX_TYPED.saturating_sub(prompt.text.len());
        prompt.text.extend(crate::base::clean::clean(text).chars().filter(|c| !c.is_control()).take(room));
        self.follow_typing(session);
        Effect::Draw
    }

    /// What is filtered or searched for follows each key. A regular expression that is not finished yet changes nothing.
    fn follow_typing(&mut self, session: &Session) {
        let Some(prompt) = &mut self.prompt else { return };
        let text = prompt.text.clone();
        let outcome = match prompt.kind {
            Ask::Filter { pane } => Filter::parse(&text).map(|filter| self.set_filter(pane, filter, session)),
            Ask::Search => Filter::parse_search(&text).and_then(|search| {
                self.log.search = search;
                self.log.at = self.log.before_search;
                // The newest match; from there on with next and previous.
                let from = self.log.at.map(|at| at + 1);
                match log_view::find(&mut self.log, session, from, false) {
                    None if self.log.search.is_some() => Err("no line matches".to_owned()),
                    _ => Ok(()),
                }
            }),
            _ => Ok(()),
        };
        if let Some(prompt) = &mut self.prompt {
            prompt.error = outcome.err();
        }
    }

    /// Nothing of what was typed holds.
    fn leave_prompt(&mut self, session: &Session) {
        match self.prompt.take().map(|prompt| prompt.kind) {
            Some(Ask::Filter { pane }) => self.set_filter(pane, Filter::default(), session),
            Some(Ask::Search) => (self.log.search, self.log.at) = (None, self.log.before_search),
            _ => {}
        }
    }

    /// What the rows of a pane are filtered by.
    pub fn filter_of(&self, pane: usize) -> &Filter {
        if pane == view::pane_index("log") { &self.log.filter } else { &self.lists[pane].filter }
    }

    fn filter_mut(&mut self, pane: usize) -> &mut Filter {
        if pane == view::pane_index("log") { &mut self.log.filter } else { &mut self.lists[pane].filter }
    }

    /// Ranks and severity were chosen apart from the text, and stay.
    fn set_filter(&mut self, pane: usize, mut filter: Filter, session: &Session) {
        let now = self.filter_mut(pane);
        (filter.ranks, filter.least) = (std::mem::take(&mut now.ranks), now.least);
        *now = filter;
        log_view::hold(&mut self.log, session);
    }

    fn answer(&mut self, session: &Session) -> Effect {
        let Some(mut prompt) = self.prompt.take() else { return Effect::Draw };
        let result = match prompt.kind {
            Ask::Search => Filter::parse_search(&prompt.text).map(|search| {
                if search.is_some() {
                    let from = self.log.before_search.map(|at| at + 1);
                    self.notice =
                        log_view::find(&mut self.log, session, from, false).or_else(|| Some(format!("no line matches {:?}", prompt.text)));
                }
            }),
            Ask::Filter { .. } => Filter::parse(&prompt.text).map(|_| ()),
            Ask::Ranks => Filter::parse_ranks(&prompt.text).map(|ranks| {
                self.log.filter.ranks = ranks;
                self.show_log();
                log_view::hold(&mut self.log, session);
            }),
            Ask::Evidence if prompt.text.trim().is_empty() => Err("name a directory".into()),
            Ask::Evidence => return Effect::Evidence(prompt.text.trim().to_owned()),
            Ask::Run { .. } | Ask::Dump { .. } => Ok(()),
        };
        if let Err(error) = result {
            prompt.error = Some(error);
            self.prompt = Some(prompt);
        }
        Effect::Draw
    }

    pub(super) fn show_log(&mut self) {
        let log = view::pane_index("log");
        self.focus = log;
        // In the overview the log is in sight already, if there is room for it.
        if self.zoom.is_some() || !view::is_shown(self, log) {
            self.zoom = Some(log);
        }
    }

    /// The sheet ends with its last line.
    pub(super) fn hold_sheet(&mut self, session: &Session, theme: &Theme) {
        let height = view::body(session, self, theme).height;
        if let Some(mut sheet) = self.sheet.take() {
            sheet.scroll = sheet.scroll.min(super::help::last(self, &sheet.content, height));
            self.sheet = Some(sheet);
        }
    }

    pub(super) fn ask_evidence(&mut self, session: &Session) -> Effect {
        let text = format!("./{}", crate::output::bundle::default_name(&session.model.host, session.model.now, self.zone));
        self.prompt = Some(Prompt { kind: Ask::Evidence, text, proposed: true, error: None });
        Effect::Draw
    }

    pub(super) fn ask_stack(&mut self, session: &Session) -> Effect {
        let culprit = || view::culprit(session, self).map(Stacks::One);
        self.ask_py_spy(culprit())
    }

    pub(super) fn ask_stacks(&mut self, session: &Session) -> Effect {
        let job = view::job_told(session, self).ok_or_else(|| "no job is seen: there is nothing to look at".to_owned());
        let wanted = job.map(|job| Stacks::All { rounds: if is_slow(session, &job) { SLOW_ROUNDS } else { 1 }, job });
        self.ask_py_spy(wanted)
    }

    pub(super) fn ask_dumps(&mut self, session: &Session) -> Effect {
        let job = match self.mode {
            Mode::Replay { .. } => Err("ranks that live are asked for dumps: there is none in a recording"),
            _ => view::job_told(session, self).ok_or("no job is seen: there is nobody to ask"),
        };
        match job {
            Ok(job) => Effect::AskDumps(job),
            Err(why) => {
                self.notice = Some(why.into());
                Effect::Draw
            }
        }
    }

    fn ask_py_spy(&mut self, wanted: Result<Stacks, String>) -> Effect {
        let wanted = match self.mode {
            Mode::Replay { .. } => Err("py-spy asks a process that lives: there is none in a recording".into()),
            _ => wanted,
        };
        match wanted {
            Ok(stacks) => Effect::AskStacks(stacks),
            Err(why) => {
                self.notice = Some(why);
                Effect::Draw
            }
        }
    }

    fn ask(&mut self, kind: Ask, text: String) {
        self.prompt = Some(Prompt { kind, text, proposed: false, error: None });
    }

    pub(super) fn ask_search(&mut self) {
        self.show_log();
        self.log.before_search = self.log.at;
        self.ask(Ask::Search, String::new());
    }

    pub(super) fn ask_ranks(&mut self) {
        self.ask(Ask::Ranks, self.log.filter.ranks_text());
    }

    pub(super) fn ask_filter(&mut self) {
        let pane = self.target();
        if !has_rows(pane) {
            self.notice = Some("this pane has no rows to filter; tab goes to another one".into());
            return;
        }
        if pane == view::pane_index("log") {
            self.show_log();
        }
        self.ask(Ask::Filter { pane }, self.filter_of(pane).text.clone());
    }

    pub(super) fn back(&mut self) {
        if self.log.search.take().is_some() {
            return;
        }
        if !self.filter_of(self.target()).is_empty() {
            *self.filter_mut(self.target()) = Filter::default();
        } else if self.log.at.is_some() && self.target() == view::pane_index("log") {
            self.log.at = None;
        } else {
            self.leave_zoom();
        }
    }

    /// Back to the overview, where the log is followed: a line that was looked at must not hide what comes after it.
    pub(super) fn leave_zoom(&mut self) {
        if self.zoom.take().is_some() {
            self.log.at = None;
        }
    }

    pub(super) fn cycle(&mut self, session: &Session, theme: &Theme, by: isize) {
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

    /// Moves the selection of the pane that keys go to; `i64::MIN` and `i64::MAX` are its ends.
    pub(super) fn step(&mut self, session: &Session, theme: &Theme, by: i64) {
        let pane = self.target();
        if pane == view::pane_index("log") {
            log_view::step(&mut self.log, session, by);
            return;
        }
        let rows = self.rows(session, theme, pane);
        let Some(last) = rows.len().checked_sub(1) else { return };
        let list = &mut self.lists[pane];
        let now = list.position(&rows).unwrap_or(0) as i64;
        let next = now.saturating_add(by).clamp(0, last as i64) as usize;
        (list.index, list.row) = (next, rows.get(next).cloned());
    }

    fn rows(&self, session: &Session, theme: &Theme, pane: usize) -> Vec<String> {
        (PANES[pane].rows)(&Ctx { session, ui: self, theme, pane, zoomed: self.zoom.is_some(), focused: true })
    }

    pub(super) fn open(&mut self, session: &Session, theme: &Theme) -> Effect {
        if self.zoom.is_none() {
            self.zoom = Some(self.focus);
            return Effect::Draw;
        }
        let pane = self.target();
        let ctx = Ctx { session, ui: self, theme, pane, zoomed: true, focused: true };
        match (PANES[pane].open)(&ctx) {
            Opened::Nothing => {}
            Opened::LogLine(at) => {
                self.log.filter = Filter::default();
                self.log.at = Some(at);
                self.focus = view::pane_index("log");
                self.zoom = Some(self.focus);
            }
            Opened::Group(name) => {
                let list = &mut self.lists[pane];
                if !list.toggled.remove(&name) {
                    list.toggled.insert(name.clone());
                }
                list.row = Some(name);
            }
            Opened::Notice(text) => self.notice = Some(text),
            Opened::Text(title, text) => self.popup = Some((title, text)),
        }
        Effect::Draw
    }

    fn pointer(&mut self, mouse: &MouseEvent, session: &Session, theme: &Theme) -> Effect {
        let at = ratatui::layout::Position { x: mouse.column, y: mouse.row };
        let clicked = matches!(mouse.kind, MouseEventKind::Down(MouseButton::Left));
        if clicked && self.popup.take().is_some() {
            return Effect::Draw;
        }
        if let Some(sheet) = &mut self.sheet {
            match mouse.kind {
                MouseEventKind::ScrollUp => sheet.scroll = sheet.scroll.saturating_sub(3),
                MouseEventKind::ScrollDown => sheet.scroll = sheet.scroll.saturating_add(3),
                MouseEventKind::Down(_) => self.sheet = None,
                _ => return Effect::None,
            }
            self.hold_sheet(session, theme);
            return Effect::Draw;
        }
        if clicked && let Some(action) = view::footer_at(session, self, at) {
            self.notice = None;
            return self.act(action, session, theme);
        }
        let places = view::places(session, self, theme);
        let Some(place) = places.iter().find(|p| p.area.contains(at)) else { return Effect::None };
        let pane = view::pane_index(place.pane);
        match mouse.kind {
            MouseEventKind::ScrollUp | MouseEventKind::ScrollDown => {
                self.focus = pane;
                self.step(session, theme, if mouse.kind == MouseEventKind::ScrollUp { -3 } else { 3 });
            }
            MouseEventKind::Down(MouseButton::Left) => self.click(session, theme, pane, place.area, at),
            _ => return Effect::None,
        }
        Effect::Draw
    }

    /// The first click focuses, one on a title zooms, one on a row selects it.
    fn click(&mut self, session: &Session, theme: &Theme, pane: usize, area: Rect, at: ratatui::layout::Position) {
        self.notice = None;
        self.focus = pane;
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
        if let Some(row) = (PANES[pane].row_at)(&ctx, inside, at.y) {
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

/// What "open" on a row leads to.
pub enum Opened {
    Nothing,
    /// A line by its number in the logbook.
    LogLine(u64),
    /// A group of rows, by its name: shown, or hidden.
    Group(String),
    Notice(String),
    /// A title, and lines that are laid over the screen.
    Text(String, String),
}
