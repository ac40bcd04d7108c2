//! What the user has chosen, and nothing about the world. Keys change it here; what reaches beyond it is returned as an [`Effect`].

use super::actions::Action;
use super::details::Subject;
use super::filter::Filter;
use super::keys::Keymap;
use super::panes::findings::{all as all_findings, name as finding_name};
use super::panes::{Ctx, PANES, has_rows, selected_finding};
use super::theme::Theme;
use super::{log_view, sheet, view};
use crate::base::time::{Stamp, Zone};
use crate::diagnosis::session::Session;
use crate::diagnosis::verdict::Verdict;
use crate::edge::py_spy::Stack;
use crate::rules::findings::Finding;
use crossterm::event::{Event as Input, KeyCode, KeyEvent, KeyEventKind, KeyModifiers, MouseButton, MouseEvent, MouseEventKind};
use ratatui::layout::Rect;
use std::collections::{BTreeMap, BTreeSet};
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
    /// Long lines take as many rows as they need.
    pub wraps: bool,
    /// Columns at the left of the texts that are not shown.
    pub shift: usize,
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
    /// Lines of the sheet.
    Within,
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
            Ask::Filter { .. } | Ask::Within => "only what has",
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

/// Columns of a step to the side, and of the longest line that is kept.
const SIDEWAYS: usize = 20;
const LONGEST_LINE: usize = 1000;
/// Places that are kept of the way.
const LONGEST_TRAIL: usize = 32;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Content {
    Help,
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
        matches!(self, Content::Detail(_))
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
            trail: Vec::new(),
            acknowledged: BTreeSet::new(),
            muted: BTreeSet::new(),
            stacks: BTreeMap::new(),
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
            Ask::Within => {
                self.search_sheet(&text);
                Ok(())
            }
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
            Some(Ask::Within) => self.search_sheet(""),
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
            Ask::Within => Ok(()),
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

    /// Shows long lines from another column on.
    pub(super) fn scroll_sideways(&mut self, right: bool) {
        let shift = self.log.shift;
        self.log.shift = if right { (shift + SIDEWAYS).min(LONGEST_LINE) } else { shift.saturating_sub(SIDEWAYS) };
        self.log.wraps = false;
        self.show_log();
        self.notice = (self.log.shift > 0).then(|| format!("the log from column {} on", self.log.shift + 1));
    }

    /// The line of the log that is selected, or that is shown whole.
    pub(super) fn chosen_line(&self) -> Option<u64> {
        match self.detail() {
            Some(subject) => subject.key.parse().ok().filter(|_| subject.kind == "line"),
            None => self.log.at.filter(|_| self.target() == view::pane_index("log")),
        }
    }

    pub(super) fn line_to_copy(&self, session: &Session) -> Option<String> {
        session.model.logbook.get(self.chosen_line()?).map(|line| line.text.to_string())
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
        let area = view::body(session, self, theme);
        if let Some(mut shown) = self.sheet.take() {
            sheet::hold(&self.ctx(session, theme), &mut shown, area);
            self.sheet = Some(shown);
        }
    }

    /// Takes note of the selected finding, or not.
    pub(super) fn acknowledge(&mut self, session: &Session) {
        let Some(finding) = selected_finding(session, self) else { return self.ask_for_finding() };
        let name = finding_name(&finding);
        let is_new = !self.acknowledged.remove(&name);
        self.notice = Some(format!("{} is {}", finding.rule, if is_new { "acknowledged" } else { "no longer acknowledged" }));
        if is_new {
            // One at most for each finding that there is; what is gone is forgotten.
            let known: BTreeSet<String> = all_findings(session).into_iter().map(finding_name).collect();
            self.acknowledged.retain(|name| known.contains(name));
            self.acknowledged.insert(name);
        }
    }

    /// Keeps quiet about the rule of the selected finding, or not.
    pub(super) fn mute(&mut self, session: &Session) {
        let Some(rule) = selected_finding(session, self).map(|finding| finding.rule) else { return self.ask_for_finding() };
        let is_new = !self.muted.remove(rule);
        if is_new {
            self.muted.insert(rule);
        }
        self.notice = Some(match is_new {
            true => format!("{rule} is muted while nccl-top runs; for good: [rules.{rule}] mute = true in the config"),
            false => format!("{rule} is no longer muted"),
        });
    }

    fn ask_for_finding(&mut self) {
        self.notice = Some("no finding is selected; 6 shows them".into());
    }

    /// It needs no attention any more.
    pub fn is_quiet(&self, finding: &Finding) -> bool {
        self.muted.contains(finding.rule) || self.acknowledged.contains(&finding_name(finding))
    }

    /// Sorts by the next of the columns that are shown, or the other way round.
    pub(super) fn sort(&mut self, session: &Session, theme: &Theme, reverse: bool) {
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
            list.sort = sorts.iter().map(|(no, _)| *no).find(|no| *no > list.sort).unwrap_or(0);
        }
        let by = sorts.iter().find(|(no, _)| *no == list.sort);
        let by = match by {
            Some((_, head)) => format!("by {head}"),
            None if list.sort == 0 => "in its own order".into(),
            None => "by a column for which there is no room".into(),
        };
        self.notice = Some(format!("sorted {by}{}", if list.reverse { ", reversed" } else { "" }));
    }

    /// What the pane that keys go to is drawn with.
    pub(super) fn ctx<'a>(&'a self, session: &'a Session, theme: &'a Theme) -> Ctx<'a> {
        Ctx { session, ui: self, theme, pane: self.target(), zoomed: self.zoom.is_some(), focused: true }
    }

    /// The thing all of which is shown.
    pub fn detail(&self) -> Option<&Subject> {
        match &self.sheet.as_ref()?.content {
            Content::Detail(subject) => Some(subject),
            _ => None,
        }
    }

    fn leave_mark(&mut self) {
        if self.trail.len() == LONGEST_TRAIL {
            self.trail.remove(0);
        }
        self.trail.push(Visited { sheet: self.sheet.take(), focus: self.focus, zoom: self.zoom });
    }

    /// Over what is shown now; leaving it leads back there.
    pub(super) fn open_sheet(&mut self, content: Content) {
        self.leave_mark();
        self.sheet = Some(Sheet::of(content));
    }

    /// All of it is shown again; else back to what was shown before.
    pub(super) fn close_sheet(&mut self) {
        if self.sheet.as_ref().is_some_and(|shown| !shown.only.is_empty()) {
            return self.search_sheet("");
        }
        self.sheet = None;
        if let Some(place) = self.trail.pop() {
            (self.sheet, self.focus, self.zoom) = (place.sheet, place.focus, place.zoom);
        }
    }

    /// To the panes.
    pub(super) fn close_all_sheets(&mut self) {
        self.sheet = None;
        self.trail.clear();
    }

    /// The lines of the sheet that lead somewhere.
    fn links(&self, session: &Session, theme: &Theme) -> Vec<(usize, Opened)> {
        let Some(shown) = &self.sheet else { return Vec::new() };
        let (_, entries) = sheet::lines(&self.ctx(session, theme), shown, self.size.0);
        entries.into_iter().enumerate().filter_map(|(no, entry)| Some((no, entry.to?))).collect()
    }

    pub(super) fn next_link(&mut self, session: &Session, theme: &Theme, forward: bool) {
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
    pub(super) fn follow(&mut self, session: &Session, theme: &Theme) {
        let cursor = self.sheet.as_ref().map(|shown| shown.cursor);
        let link = self.links(session, theme).into_iter().find(|(no, _)| Some(*no) == cursor);
        match link {
            Some((_, to)) => self.go_to(to, session, theme),
            None => self.notice = Some("nothing to open on this line; tab goes to the next one that leads somewhere".into()),
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
        let job = view::job_told(session, self).ok_or_else(|| "no job to look at".to_owned());
        let wanted = job.map(|job| Stacks::All { rounds: if is_slow(session, &job) { SLOW_ROUNDS } else { 1 }, job });
        self.ask_py_spy(wanted)
    }

    pub(super) fn ask_dumps(&mut self, session: &Session) -> Effect {
        let job = match self.mode {
            Mode::Replay { .. } => Err("dumps come from live ranks: a recording has none"),
            _ => view::job_told(session, self).ok_or("no job to ask"),
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
            Mode::Replay { .. } => Err("py-spy needs a live process: a recording has none".into()),
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

    /// Which lines of the sheet are shown.
    fn search_sheet(&mut self, text: &str) {
        if let Some(shown) = &mut self.sheet {
            (shown.only, shown.scroll, shown.cursor) = (text.to_owned(), 0, 0);
        }
    }

    pub(super) fn ask_within(&mut self) {
        let text = self.sheet.as_ref().map_or(String::new(), |shown| shown.only.clone());
        self.ask(Ask::Within, text);
    }

    pub(super) fn ask_ranks(&mut self) {
        self.ask(Ask::Ranks, self.log.filter.ranks_text());
    }

    pub(super) fn ask_filter(&mut self, session: &Session, theme: &Theme) {
        let pane = self.target();
        if !has_rows(&self.ctx(session, theme)) {
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
        } else if !self.trail.is_empty() {
            self.close_sheet();
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
        let opened = (PANES[self.target()].open)(&self.ctx(session, theme));
        self.go_to(opened, session, theme);
        Effect::Draw
    }

    fn go_to(&mut self, to: Opened, session: &Session, theme: &Theme) {
        match to {
            Opened::Nothing => {}
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

    fn pointer(&mut self, mouse: &MouseEvent, session: &Session, theme: &Theme) -> Effect {
        let at = ratatui::layout::Position { x: mouse.column, y: mouse.row };
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

    /// A line that leads somewhere is followed; elsewhere the footer, or nothing, is meant.
    fn click_sheet(&mut self, session: &Session, theme: &Theme, y: u16) -> Effect {
        let area = view::body(session, self, theme);
        let Some(no) = self.sheet.as_ref().and_then(|shown| sheet::line_at(shown, area, y)) else {
            self.close_sheet();
            return Effect::Draw;
        };
        let is_link = self.links(session, theme).iter().any(|(link, _)| *link == no);
        if let Some(shown) = &mut self.sheet {
            shown.cursor = no;
        }
        if is_link {
            self.follow(session, theme);
        }
        self.hold_sheet(session, theme);
        Effect::Draw
    }

    /// The first click focuses, one on a title zooms, one on a row selects it.
    fn click(&mut self, session: &Session, theme: &Theme, pane: usize, area: Rect, at: ratatui::layout::Position) {
        self.notice = None;
        self.trail.clear();
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
