//! Where files are read into: one session for all of them, as if they were sources that have come to their end.

use super::error_level::Unknown;
use crate::base::severity::Severity;
use crate::base::time::{Stamp, Zone};
use crate::diagnosis::session::Session;
use crate::formats::nccl_tests::Table;
use crate::logs::when;
use crate::model::alarms::Alarm;
use crate::model::reading::ReadLine;
use crate::observe::log::LogFileInfo;
use crate::observe::{Body, Observation, SourceId};

/// What is read.
pub struct Intake {
    pub session: Session,
    /// Recordings are of sessions of their own, with the paths that they were read from.
    pub recordings: Vec<(String, Session)>,
    /// Something that is no log line was understood.
    pub understood: bool,
    /// A line of NCCL was there, whether it was understood or not.
    pub has_nccl: bool,
    /// The first line of each log file that its writer calls an error and nothing here knows.
    pub unknown_errors: Vec<(u32, Unknown)>,
    /// The first line of each log that is a program's own.
    pub logged: Vec<(u32, Unknown)>,
}

/// The name under which files that were written before are observed.
const ARCHIVE: SourceId = SourceId::of("archive");

impl Intake {
    pub fn new(zone: Zone) -> Intake {
        Intake {
            session: Session::new("", zone),
            recordings: Vec::new(),
            understood: false,
            has_nccl: false,
            unknown_errors: Vec::new(),
            logged: Vec::new(),
        }
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

    /// Where no log has a word that is known to be worth a warning, those that their writers call errors are all that is left.
    fn read_unknown_errors(&mut self) {
        let unknown = std::mem::take(&mut self.unknown_errors);
        let is_worth = |alarm: &Alarm| alarm.event.what.severity() >= Some(Severity::Warning);
        if self.session.model.records.values().any(|record| record.alarms.iter().any(is_worth)) {
            return;
        }
        for (file, unknown) in unknown {
            let line = ReadLine { no: Some(unknown.line), text: &unknown.text, bytes: unknown.text.len() };
            self.session.read(file, &line, &mut unknown.event().into_iter().collect());
        }
    }

    /// Where nothing at all is known, that a program writes its log and calls nothing an error is all that can be seen.
    fn read_logged(&mut self) {
        let logged = std::mem::take(&mut self.logged);
        if self.understood || self.has_nccl || super::is_recognised(&self.session.model) {
            return;
        }
        for (file, first) in logged {
            let line = ReadLine { no: Some(first.line), text: &first.text, bytes: first.text.len() };
            self.session.read(file, &line, &mut first.healthy().into_iter().collect());
        }
    }

    /// There is no more input: all of it is judged together.
    pub fn end(&mut self) {
        self.read_unknown_errors();
        self.read_logged();
        self.see(self.session.model.now, Body::End);
    }

    fn see(&mut self, at: Stamp, body: Body) {
        self.session.apply(&Observation { at, host: None, from: ARCHIVE, body }, &mut Vec::new());
    }
}
