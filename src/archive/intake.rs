//! Where files are read into: one session for all of them, as if they were sources that have come to their end.

use super::error_level::{self, Gleaned, Known};
use crate::base::severity::Severity;
use crate::base::time::{Stamp, Zone};
use crate::diagnosis::session::Session;
use crate::formats::nccl_tests::Table;
use crate::logs::catalog::Part;
use crate::logs::{TextEvent, What, when};
use crate::model::alarms::Alarm;
use crate::model::chronicle::{PathRank, rank_of_path};
use crate::model::reading::ReadLine;
use crate::observe::log::LogFileInfo;
use crate::observe::{Body, Observation, SourceId};
use crate::rules::END_OF_A_RANK;
use std::collections::HashMap;

/// The entries of a task of Slurm that ended by itself, and of the step that Slurm ends then.
const TASK_EXIT: &str = "slurm-task-exit";
const STEP_CANCELLED: &str = "slurm-cancelled";

/// What is read.
pub struct Intake {
    pub session: Session,
    /// Recordings are of sessions of their own, with the paths that they were read from.
    pub recordings: Vec<(String, Session)>,
    /// Something that is no log line was understood.
    pub understood: bool,
    /// A line of NCCL was there, whether it was understood or not.
    pub has_nccl: bool,
    /// What the lines of each log file tell that nothing here knows.
    pub gleaned: Vec<(u32, Gleaned)>,
}

/// The name under which files that were written before are observed.
const ARCHIVE: SourceId = SourceId::of("archive");

impl Intake {
    pub fn new(zone: Zone) -> Intake {
        Intake { session: Session::new("", zone), recordings: Vec::new(), understood: false, has_nccl: false, gleaned: Vec::new() }
    }

    /// Makes a log file known; its number comes back. `early_lines` of it were written in one go if its process held its output back.
    pub fn log_file(&mut self, path: &str, modified: Stamp, early_lines: u64) -> u32 {
        let file = self.session.model.files.len() as u32;
        let info = LogFileInfo { file, path: path.to_owned(), modified_ns: Some(modified.0), archived: true, ..LogFileInfo::default() };
        self.see(modified, Body::LogFile(info));
        if let Some(log) = self.session.model.files.get_mut(&file) {
            log.chronicle.set_early_lines(early_lines);
        }
        file
    }

    /// When a file with this beginning was changed, for the year of lines that have none: see [`when::modified_beside`].
    pub fn modified(&self, head: &[u8], modified: Stamp) -> Stamp {
        let model = &self.session.model;
        let of_others = model.files.values().filter_map(|file| file.chronicle.dated);
        let dated = of_others.chain(when::dated(head, model.zone)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)));
        match dated.and_then(|dated| Some((when::first_without_year(head)?, dated))) {
            Some((first, dated)) => when::modified_beside(&first, modified, model.zone, dated),
            None => modified,
        }
    }

    /// Tables of nccl-tests that stand in a log.
    pub fn tables(&mut self, file: u32, tables: Vec<Table>) {
        let path = self.session.model.path_of(file).to_owned();
        let now = self.session.model.now;
        for table in tables {
            self.session.model.archive_record(&path, now).tables.push((path.clone(), table));
        }
    }

    /// Where no log has a known word for a failure, or none but that something ended, those that their writers call errors are all that is
    /// left.
    fn read_unknown_errors(&mut self) {
        let is_worth =
            |alarm: &&Alarm| alarm.event.what.severity() >= Some(Severity::Warning) && !error_level::is_bare_end(&alarm.event.what);
        let alarms = || self.session.model.records.values().flat_map(|record| record.alarms.iter());
        let is_error = |alarm: &&Alarm| alarm.event.what.severity() >= Some(Severity::Error);
        // What a launcher did because something ended tells no more than that end: Slurm cancels the step whose task has exited.
        let id = |alarm: &Alarm| alarm.event.what.signature().map(|signature| signature.id);
        let exits: Vec<(u32, Option<u64>)> =
            alarms().filter(|alarm| id(alarm) == Some(TASK_EXIT)).map(|alarm| (alarm.file, alarm.line)).collect();
        let follows = |alarm: &&Alarm| {
            id(alarm) == Some(STEP_CANCELLED) && exits.iter().any(|(file, line)| *file == alarm.file && *line < alarm.line)
        };
        let errors = || alarms().filter(is_worth).filter(is_error).filter(|alarm| !follows(alarm));
        let waits = |alarm: &Alarm| {
            alarm.event.what.signature().is_some_and(|s| s.part == Part::Messenger) && !error_level::is_bare_end(&alarm.event.what)
        };
        let waited = errors().next().is_some() && errors().all(waits);
        let is_of_rank = |alarm: &Alarm| alarm.event.what.signature().is_some_and(|s| s.rule == END_OF_A_RANK);
        let gave_up = waited && errors().all(is_of_rank);
        if !waited && errors().next().is_some() {
            // What a driver says may stand behind what programs say.
            let of_kernel = |alarm: &Alarm| crate::logs::prefix::is_of_kernel(&alarm.text);
            let by_kernel = errors().any(of_kernel);
            let found = self.gleaned.iter().filter(|_| !by_kernel).filter_map(|(file, gleaned)| Some((*file, gleaned.of_driver(false)?)));
            let found = found.map(|(file, (no, event))| (file, no, event)).collect();
            return self.read_gleaned(found);
        }
        let warned = !gave_up && alarms().any(|alarm| is_worth(&alarm));
        let on_purpose = alarms().any(|alarm| error_level::is_on_purpose(&alarm.event.what));
        let crashed = self.all_crashed();
        let recognised = super::is_recognised(&self.session.model);
        // Only what stands before the end can be why.
        let is_end = |alarm: &&Alarm| {
            alarm.event.what.severity() >= Some(Severity::Warning) && (waits(alarm) || error_level::is_bare_end(&alarm.event.what))
        };
        let ends: HashMap<u32, Option<u64>> = alarms().filter(is_end).map(|alarm| (alarm.file, alarm.line)).collect();
        let mut found = Vec::new();
        for (file, gleaned) in &self.gleaned {
            let ended = match ends.get(file) {
                Some(end) => gleaned.line() < *end,
                None => self.is_of_failed_rank(*file),
            };
            if ends.is_empty() || ended {
                found.extend(
                    gleaned
                        .events(Known { ended, recognised, warned, waited, gave_up, on_purpose, crashed })
                        .into_iter()
                        .map(|(no, event)| (*file, no, event)),
                );
            }
        }
        self.read_gleaned(found);
    }

    /// Processes ended, and each of them by a signal that a crash of its own raises.
    fn all_crashed(&self) -> bool {
        /// SIGILL, SIGBUS, SIGFPE and SIGSEGV, which torchrun writes as negative codes.
        const CRASHES: &[i32] = &[-4, -7, -8, -11];
        const SIGTERM: i32 = -15;
        let code = |alarm: &Alarm| match &alarm.event.what {
            What::WorkerFailed { exit_code, .. } => Some(*exit_code),
            What::WorkerFailure(failure) => failure.exit_code,
            _ => None,
        };
        let alarms = self.session.model.records.values().flat_map(|record| record.alarms.iter());
        let codes: Vec<i32> = alarms.filter_map(code).filter(|code| *code != SIGTERM).collect();
        !codes.is_empty() && codes.iter().all(|code| CRASHES.contains(code))
    }

    /// The file is that of a rank of which the launcher says, in its own file, that it failed first.
    fn is_of_failed_rank(&self, file: u32) -> bool {
        let model = &self.session.model;
        let Some(own) = rank_of_path(model.path_of(file)) else { return false };
        // A local rank is one of each node.
        if matches!(own, PathRank::Local(_)) && model.records.values().any(|record| record.hosts.len() > 1) {
            return false;
        }
        model.records.values().flat_map(|record| record.alarms.iter()).any(|alarm| match (&alarm.event.what, own) {
            (What::WorkerFailure(f), PathRank::Local(rank)) => f.root && f.local_rank == Some(rank),
            (What::WorkerFailure(f), PathRank::Global(rank)) => f.root && f.rank == Some(rank),
            (What::WorkerFailed { local_rank, .. }, PathRank::Local(rank)) => *local_rank == rank,
            _ => false,
        })
    }

    fn read_gleaned(&mut self, found: Vec<(u32, u64, TextEvent)>) {
        for (file, no, event) in found {
            let text = match &event.what {
                What::Signed { text, .. } => text.clone(),
                _ => String::new(),
            };
            let line = ReadLine { no: Some(no), text: &text, bytes: text.len() };
            self.session.read(file, &line, &mut vec![event]);
        }
    }

    /// Every file is the log of a program, whatever program it is, and speaks of no trouble.
    pub fn is_of_logs(&self) -> bool {
        !self.gleaned.is_empty() && self.gleaned.iter().all(|(_, gleaned)| gleaned.is_quiet_log())
    }

    /// No line of any file speaks of trouble, whatever the files are.
    pub fn is_untroubled(&self) -> bool {
        !self.gleaned.is_empty() && self.gleaned.iter().all(|(_, gleaned)| gleaned.is_untroubled())
    }

    /// There is no more input: all of it is judged together.
    pub fn end(&mut self) {
        self.read_unknown_errors();
        self.see(self.session.model.now, Body::End);
    }

    fn see(&mut self, at: Stamp, body: Body) {
        self.session.apply(&Observation { at, host: None, from: ARCHIVE, body }, &mut Vec::new());
    }
}
