//! What the user has chosen, and nothing about the world. Keys change it here; what reaches beyond it is returned as an [`Effect`].

mod asked;
mod lists;
mod logs;
mod pointer;
mod prompt;
mod remarks;
mod sheets;

use super::actions::Action;
use super::keys::Keymap;
use super::layout::Layout;
use super::options::Row;
use super::panes::{Ctx, PANES};
use super::theme::Theme;
use super::view;
use crate::base::severity::Severity;
use crate::base::time::{Stamp, Zone};
use crate::diagnosis::session::Session;
use crate::diagnosis::verdict::Verdict;
use crate::edge::py_spy::Stack;
use crate::observe::Remark;
pub use asked::Stacks;
use crossterm::event::{Event as Input, KeyEvent, KeyEventKind, KeyModifiers};
pub use lists::List;
pub use logs::LogUi;
pub use prompt::{Ask, Prompt};
pub use sheets::{Content, Opened, Sheet, Visited};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

pub struct Ui {
    pub zone: Zone,
    pub keys: Keymap,
    pub mode: Mode,
    /// The job that the screen is of; `None`: the worst.
    pub job: Option<String>,
    /// Of [`PANES`].
    pub focus: usize,
    /// The user has gone to a pane, or moved in it: what keys go to is not changed any more.
    pub has_chosen: bool,
    pub zoom: Option<usize>,
    /// By pane.
    pub lists: Vec<List>,
    pub log: LogUi,
    pub prompt: Option<Prompt>,
    /// A text laid over the screen until the next key, with its title.
    pub popup: Option<(String, String)>,
    /// A long text over the panes, the help among them, to be scrolled until it is left.
    pub sheet: Option<Sheet>,
    /// What was open before, on the way to what is open now: leaving goes back along it.
    pub trail: Vec<Visited>,
    /// Findings that the user has taken note of, by name, and rules that the user does not want to hear of again while the program runs.
    pub acknowledged: BTreeSet<String>,
    pub muted: BTreeSet<&'static str>,
    /// What a recording has of both, as far as it is shown.
    pub heeded: BTreeSet<Remark>,
    /// The stacks that were asked for, by pid, the last of each.
    pub stacks: BTreeMap<u32, Arc<Stack>>,
    /// One line in place of the footer until the next key.
    pub notice: Option<String>,
    /// The time that sparklines cover.
    pub window: Duration,
    /// One line above the footer, of a demo.
    pub caption: Option<&'static str>,
    /// Columns and rows of the terminal.
    pub size: (u16, u16),
    pub mouse: bool,
    /// Nothing but ASCII is drawn.
    pub ascii: bool,
    /// How the overview is arranged.
    pub layout: Layout,
    /// For the options screen: the settings as they are, and where they are saved.
    pub options: Vec<Row>,
    pub config_file: Option<PathBuf>,
    /// Why the config file cannot be used as it was saved.
    pub config_error: Option<String>,
    /// Why the last alert did not arrive.
    pub alert_error: Option<String>,
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
    /// A line of the log, for the clipboard.
    CopyLine(String),
    /// Open the log in the pager, at this line of the logbook.
    Page(Option<u64>),
    /// Another value for this setting, the next one or the one before.
    Turn(&'static str, bool),
    /// This value for this setting.
    Set(&'static str, String),
    /// Write the settings that were changed to the config file.
    Save,
    Time(Move),
    /// Put it on the recording.
    Note(Remark),
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

impl Ui {
    pub fn new(zone: Zone) -> Ui {
        Ui {
            zone,
            keys: Keymap::default(),
            mode: Mode::Live,
            job: None,
            focus: view::pane_index("log"),
            has_chosen: false,
            zoom: None,
            lists: vec![List::default(); PANES.len()],
            log: LogUi::default(),
            prompt: None,
            popup: None,
            sheet: None,
            trail: Vec::new(),
            acknowledged: BTreeSet::new(),
            muted: BTreeSet::new(),
            heeded: BTreeSet::new(),
            stacks: BTreeMap::new(),
            notice: None,
            window: Duration::from_secs(120),
            caption: None,
            size: (80, 24),
            mouse: true,
            ascii: false,
            layout: Layout::preset(""),
            options: Vec::new(),
            config_file: None,
            config_error: None,
            alert_error: None,
        }
    }

    /// All jobs, in an order that stays while their states change.
    pub fn jobs<'a>(&self, session: &'a Session) -> Vec<&'a str> {
        session.verdicts.keys().map(String::as_str).collect()
    }

    /// The job that the screen is of: the one that the user has chosen, while it is known, else the worst.
    pub fn main_job<'a>(&self, session: &'a Session) -> Option<(&'a str, &'a Verdict)> {
        let chosen = self.job.as_ref().and_then(|id| session.verdicts.get_key_value(id));
        chosen.map(|(id, verdict)| (id.as_str(), verdict)).or_else(|| session.main_job())
    }

    /// The next job; at its turn the worst, whichever that is then.
    pub(super) fn next_job(&mut self, session: &Session) {
        let jobs = self.jobs(session);
        if jobs.len() < 2 {
            self.notice = Some(if jobs.is_empty() { "there is no job" } else { "there is only one job" }.into());
            return;
        }
        let now = self.main_job(session).and_then(|(id, _)| jobs.iter().position(|job| *job == id)).unwrap_or(0);
        let next = (now + 1) % jobs.len();
        let is_worst = session.main_job().is_some_and(|(worst, _)| worst == jobs[next]);
        self.job = (!is_worst).then(|| jobs[next].to_owned());
        self.log.job.clone_from(&self.job);
        // What was selected may be of another one.
        self.log.at = None;
        for list in &mut self.lists {
            (list.row, list.index) = (None, 0);
        }
        let which = if is_worst { ", always the worst" } else { "" };
        self.notice = Some(format!("job {} of {}: {}{which}", next + 1, jobs.len(), jobs[next]));
    }

    /// The pane that keys go to.
    pub fn target(&self) -> usize {
        self.zoom.unwrap_or(self.focus)
    }

    /// The pane that has the focus. Who has gone nowhere yet wants to know more of what stands on top.
    pub fn focus_in(&self, session: &Session) -> usize {
        if self.has_chosen || self.zoom.is_some() {
            return self.focus;
        }
        let is_told = self.main_job(session).is_some_and(|(job, verdict)| {
            verdict.because.is_some() || session.named(job).is_some_and(|finding| finding.severity >= Severity::Error)
        });
        view::pane_index(if is_told { "findings" } else { "log" })
    }

    pub fn input(&mut self, input: &Input, session: &Session, theme: &Theme) -> Effect {
        match input {
            Input::Resize(columns, rows) => {
                self.size = (*columns, *rows);
                Effect::Draw
            }
            Input::Key(key) if key.kind != KeyEventKind::Release => match self.keys.apart(key) {
                Some([first, second]) => match self.key(&first, session, theme) {
                    Effect::None | Effect::Draw => self.key(&second, session, theme),
                    effect => effect,
                },
                None => self.key(key, session, theme),
            },
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
        if self.popup.take().is_some() {
            return Effect::Draw;
        }
        // As in every pager: of two things that are open, the one on top.
        if action == Some(Action::Quit) && self.sheet.is_some() {
            return self.act(Action::Back, session, theme);
        }
        action.map_or(Effect::Draw, |action| self.act(action, session, theme))
    }

    /// What the pane that keys go to is drawn with.
    pub(super) fn ctx<'a>(&'a self, session: &'a Session, theme: &'a Theme) -> Ctx<'a> {
        Ctx { session, ui: self, theme, pane: self.target(), zoomed: self.zoom.is_some(), focused: true }
    }
}
