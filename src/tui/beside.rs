//! What is done beside the loop, because it may block: the pager, evidence, py-spy, dumps. What comes of it arrives as a message.

use super::choices::{Ask, Content, Mode, Prompt, Sheet, Stacks};
use super::play::World;
use super::settings::Configured;
use super::{App, log_view, widgets};
use crate::base::clean::clean;
use crate::base::time::Stamp;
use crate::edge::dump_pipes::{self, Pipe};
use crate::edge::pager::{self, Page};
use crate::edge::py_spy::{self, Plan, Stack, Target};
use crate::edge::stacks::{Compared, Whose, most_often_odd};
use crate::output::bundle::{self, Bundle};
use anyhow::Result;
use std::panic::AssertUnwindSafe;
use std::path::PathBuf;
use std::sync::Arc;
use unicode_width::UnicodeWidthStr;

/// What was done beside the loop.
pub(super) enum Work {
    Evidence(Written),
    /// py-spy was found, and the processes to run it on.
    Found(Option<Plan>),
    /// So many of so many processes have been looked at.
    Looked(usize, usize),
    /// A round of py-spy: of all ranks or of one process, and whether it was the last.
    Stacks(Vec<(Whose, Stack)>, bool, bool),
    /// The pipes by which ranks can be asked for dumps.
    Pipes(Vec<Pipe>),
    /// They were asked; how it went.
    Asked(String),
    /// The user has left the pager; what went wrong.
    Paged(Result<(), String>),
    /// What became of an alert.
    Alerted(Result<(), String>),
    /// Settings were saved, or the config file has changed.
    Config(Configured),
    /// It panicked.
    Broke,
}

/// How far the evidence is: the words before and after the name of its directory.
pub(super) struct Written {
    pub(super) before: String,
    pub(super) dir: String,
    pub(super) after: String,
    pub(super) done: bool,
}

/// Stacks kept for the evidence.
const MAX_STACKS: usize = py_spy::MAX_TARGETS;
/// The sheet of all ranks' stacks.
const ALL_STACKS: &str = "Stacks of all ranks (main threads, equal ones together)";

impl App {
    /// The pager with the selected line's file; where that is not at hand, as of a recording, with the lines that are kept.
    pub(super) fn page(&mut self, number: Option<u64>, world: &World) {
        let session = world.shown();
        let line = number.and_then(|number| session.model.logbook.get(number)).or_else(|| session.model.logbook.iter().next_back());
        let Some(line) = line else {
            self.ui.notice = Some("there is no log to open".into());
            return;
        };
        let path = session.model.files.get(&line.file).map(|file| file.info.path.clone());
        let is_here = self.is_live && !matches!(self.ui.mode, Mode::Replay { .. });
        let page = match path.filter(|path| is_here && std::path::Path::new(path).is_file()) {
            Some(path) => Page::File { path, line: line.no },
            None => Page::Text(log_view::text(&self.ui.log, session, self.ui.zone)),
        };
        let gate = self.gate.clone();
        self.paging = true;
        self.screen.lend();
        let started = self.beside("pager", move |tell| {
            gate.close();
            let how = pager::run(&page);
            gate.open();
            tell(Work::Paged(how));
        });
        if !started {
            let _ = self.works.send(Work::Paged(Err("the system has no thread to give".into())));
        }
    }

    pub(super) fn take_back(&mut self, how: Result<(), String>) -> Result<()> {
        self.paging = false;
        self.paged_at = Some(std::time::Instant::now());
        self.ui.notice = how.err();
        self.screen.resume()
    }
    /// Does something that may block, in a thread. What comes of it arrives as a message.
    pub(super) fn beside(&mut self, name: &str, work: impl FnOnce(&dyn Fn(Work)) + Send + 'static) -> bool {
        let works = self.works.clone();
        let tell = move |work| drop(works.send(work));
        let run = move || {
            if std::panic::catch_unwind(AssertUnwindSafe(|| work(&tell))).is_err() {
                tell(Work::Broke);
            }
        };
        let started = std::thread::Builder::new().name(name.into()).spawn(run).is_ok();
        if !started {
            self.ui.notice = Some("the system refuses another thread".into());
        }
        started
    }

    pub(super) fn write_evidence(&mut self, dir: &str, world: &World) {
        if self.writing {
            self.ui.notice = Some("evidence is already being written".into());
            return;
        }
        let (session, kept) = world.evidence();
        let stacks = self.ui.stacks.values().cloned().collect();
        let summary = (!self.rounds.is_empty()).then(|| self.summary());
        let bundle = Bundle { header: self.header.clone(), zone: self.ui.zone, session, kept, stacks, summary };
        let home = std::env::var_os("HOME").map(PathBuf::from);
        let path = dir.strip_prefix("~/").zip(home).map_or_else(|| PathBuf::from(dir), |(below, home)| home.join(below));
        let dir = dir.to_owned();
        self.note_around("writing evidence to ", &dir, "");
        self.writing = self.beside("evidence", move |tell| {
            let say = |before: String, after: String, done| tell(Work::Evidence(Written { before, dir: dir.clone(), after, done }));
            let written = bundle::write(&path, &bundle, &mut |what| say("writing evidence to ".into(), format!(": {what}"), false));
            match written {
                Ok(w) => say(format!("evidence: {} files, {} kB, in ", w.files, w.bytes.div_ceil(1000)), String::new(), true),
                Err(why) => say(format!("evidence failed: {why}: "), String::new(), true),
            }
        });
    }

    /// A note with a path in it, which is shortened where there is no room for all: why something failed must stay.
    pub(super) fn note_around(&mut self, before: &str, path: &str, after: &str) {
        let (before, after) = (clean(before), clean(after));
        let room = usize::from(self.ui.size.0).saturating_sub(before.width() + after.width() + 2);
        let path = widgets::shorten(&clean(path), room.max(3));
        self.ui.notice = Some(format!("{before}{path}{after}"));
    }

    pub(super) fn find_py_spy(&mut self, wanted: &Stacks, world: &World) {
        let target = |(rank, pid, start_ticks)| Target { whose: Whose { rank, pid, loads: false }, start_ticks };
        let (targets, rounds, gone) = match wanted {
            Stacks::One(pid) => {
                (world.start_of(*pid).map(|start| target((None, *pid, start))).into_iter().collect(), 1, format!("process {pid} has ended"))
            }
            Stacks::All { job, rounds } => {
                let ranks: Vec<Target> = world.ranks_of(job).into_iter().map(target).collect();
                (ranks, *rounds, format!("job {job} has no live process on this node"))
            }
        };
        let why_not = match () {
            () if self.spying => Some("py-spy is already running".to_owned()),
            () if !self.is_live => Some("--sysroot: the process is not on this machine".to_owned()),
            () if targets.is_empty() => Some(gone),
            () => None,
        };
        if why_not.is_some() {
            self.ui.notice = why_not;
            return;
        }
        let all = matches!(wanted, Stacks::All { .. });
        self.spying = self.beside("find", move |tell| {
            let targets = if all { py_spy::with_loaders(targets) } else { targets };
            tell(Work::Found(py_spy::find().map(|program| Plan { program, targets, rounds, all })));
        });
    }

    pub(super) fn find_pipes(&mut self, job: &str, world: &World) {
        let target = |(rank, pid, start_ticks)| Target { whose: Whose { rank, pid, loads: false }, start_ticks };
        let ranks: Vec<Target> = world.ranks_of(job).into_iter().map(target).collect();
        if !self.is_live {
            self.ui.notice = Some("--sysroot: the ranks are not on this machine".into());
            return;
        }
        self.beside("pipes", move |tell| tell(Work::Pipes(dump_pipes::find(ranks))));
    }

    pub(super) fn ask_for_dumps(&mut self) {
        let pipes = std::mem::take(&mut self.pipes);
        self.beside("pipes", move |tell| {
            let asked: Vec<_> = pipes.into_iter().map(|pipe| (pipe.clone(), dump_pipes::ask(&pipe))).collect();
            tell(Work::Asked(dump_pipes::summary(&asked)));
        });
    }

    /// The user may be asked: what he has begun to type meanwhile is not taken away, and is no answer.
    pub(super) fn is_free(&self) -> bool {
        let reads_help = self.ui.sheet.as_ref().is_some_and(|sheet| sheet.content == Content::Help);
        self.ui.prompt.is_none() && self.ui.popup.is_none() && !reads_help
    }

    pub(super) fn run_py_spy(&mut self, world: &World) {
        let Some(plan) = self.py_spy.take() else { return };
        let clock = crate::base::time::Clock::start();
        let least = world.shown().model.now;
        self.ui.notice = Some(format!("{} runs", plan.command()));
        self.spying = true;
        if plan.all {
            self.rounds.clear();
        }
        let works = self.works.clone();
        // Where the program ends first, so does this, and py-spy with it.
        tokio::spawn(async move {
            let mut turns = tokio::time::interval(py_spy::ROUND);
            turns.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            for round in 1..=plan.rounds {
                turns.tick().await;
                let tell = |done| {
                    if plan.all {
                        let _ = works.send(Work::Looked(done, plan.targets.len()));
                    }
                };
                let stacks = py_spy::round(&plan, least.max(clock.now()), tell).await;
                let _ = works.send(Work::Stacks(stacks, plan.all, round == plan.rounds));
            }
        });
    }

    /// Shows a round: one process's whole stack, or who is where of all.
    pub(super) fn show_stacks(&mut self, stacks: Vec<(Whose, Stack)>, all: bool, last: bool) {
        self.spying = !last;
        self.ui.notice = None;
        let content = match stacks.first() {
            Some((_, stack)) if !all => Some(Content::Text { title: stack.command.clone(), lines: stack.lines.clone() }),
            Some((_, stack)) => {
                self.rounds.push((stack.at, Compared::of(&py_spy::taken(&stacks))));
                Some(Content::Text { title: ALL_STACKS.into(), lines: self.summary() })
            }
            None => None,
        };
        // The first round opens the sheet; a later one does not take from the user what is looked at meanwhile.
        let shown = |sheet: &Sheet| matches!(&sheet.content, Content::Text { title, .. } if title == ALL_STACKS);
        let pid = stacks.first().map(|(_, stack)| stack.pid.to_string());
        let in_detail = !all && self.ui.detail().is_some_and(|subject| subject.kind == "process" && Some(&subject.key) == pid.as_ref());
        match (&mut self.ui.sheet, content) {
            (Some(sheet), Some(content)) if shown(sheet) => sheet.content = content,
            // There it stands among all else.
            (Some(_), Some(_)) if in_detail => self.ui.notice = Some("its stack stands below".into()),
            (_, Some(content)) if !all || self.rounds.len() == 1 => self.ui.open_sheet(content),
            _ => self.ui.notice = last.then(|| most_often(&self.rounds)).flatten(),
        }
        for (_, stack) in stacks {
            if self.ui.stacks.len() >= MAX_STACKS && !self.ui.stacks.contains_key(&stack.pid) {
                self.ui.stacks.pop_first();
            }
            self.ui.stacks.insert(stack.pid, Arc::new(stack));
        }
    }

    /// The rounds in words, the newest in full.
    pub(super) fn summary(&self) -> Vec<String> {
        let mut lines = Vec::new();
        if let [earlier @ .., (_, _)] = self.rounds.as_slice()
            && !earlier.is_empty()
        {
            lines.extend(most_often(&self.rounds).map(|words| format!("{words} (an observation, no finding)")));
            lines.extend(self.rounds.iter().map(|(at, round)| format!("{}  {}", self.ui.zone.hms(*at), round.short())));
            lines.push(String::new());
        }
        if let Some((at, newest)) = self.rounds.last() {
            lines.push(format!("at {}:", self.ui.zone.hms(*at)));
            lines.extend(newest.lines());
        }
        lines
    }

    pub(super) fn worked(&mut self, work: Work) {
        match work {
            Work::Broke => {
                (self.writing, self.spying) = (false, false);
                self.ui.notice = Some("it failed: a defect of nccl-top (--log-file FILE shows where)".into());
            }
            Work::Evidence(Written { before, dir, after, done }) => {
                self.writing = !done;
                self.note_around(&before, &dir, &after);
            }
            Work::Found(None) => {
                self.spying = false;
                self.ui.notice = Some(format!("py-spy is not installed: {}", py_spy::INSTALL));
            }
            Work::Found(Some(plan)) => {
                self.spying = false;
                if self.is_free() {
                    let (kind, text) = (Ask::Run { processes: plan.targets.len() }, plan.command());
                    self.ui.prompt = Some(Prompt { kind, text, proposed: false, error: None });
                    self.py_spy = Some(plan);
                }
            }
            Work::Pipes(pipes) if pipes.is_empty() => {
                self.ui.notice =
                    Some("no rank here was started with TORCH_NCCL_DEBUG_INFO_PIPE_FILE and TORCH_NCCL_TRACE_BUFFER_SIZE".into());
            }
            Work::Pipes(pipes) => {
                if self.is_free() {
                    let (kind, text) = (Ask::Dump { ranks: pipes.len() }, dump_pipes::command(&pipes));
                    self.ui.prompt =
                        Some(Prompt { kind, text: crate::base::mask::shown(&text).into_owned(), proposed: false, error: None });
                    self.pipes = pipes;
                }
            }
            Work::Alerted(how) => {
                let said = how.as_ref().err().cloned().unwrap_or_else(|| "the finding was sent (alert.command, alert.url)".into());
                self.ui.notice = Some(said);
                self.ui.alert_error = how.err();
            }
            // They are seen to where they may fail.
            Work::Paged(_) | Work::Config(_) => {}
            Work::Asked(how) => self.ui.notice = Some(crate::base::mask::shown(&how).into_owned()),
            Work::Looked(done, of) => self.ui.notice = Some(format!("py-spy: {done} of {of} processes")),
            Work::Stacks(stacks, all, last) => self.show_stacks(stacks, all, last),
        }
    }
}

fn most_often(rounds: &[(Stamp, Compared)]) -> Option<String> {
    most_often_odd(&rounds.iter().map(|(_, round)| round.clone()).collect::<Vec<_>>())
}
