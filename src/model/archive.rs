//! Files that were written before, and are read as a whole: all that are given together are of one job.

use super::Model;
use super::alarms::Alarm;
use super::bringup::routes::Route;
use super::job::Job;
use super::job_record::Record;
use super::log::LogFile;
use crate::base::time::Stamp;
use crate::formats::flight_recorder::Dump;
use crate::observe::flight::FlightDump;
use crate::observe::log::LogFileInfo;

impl Model {
    /// The job that archived files are of; it is named after the first.
    pub fn archive(&self) -> Option<&Job> {
        self.jobs.values().find(|j| j.archived)
    }

    /// The file was written before.
    pub fn is_archived(&self, file: u32) -> bool {
        self.files.get(&file).is_some_and(|f| f.info.archived)
    }

    /// A line whose time is known: that of arrival, or, of an archived file, the one that the line itself carries.
    pub fn carries_time(&self, file: u32, line: Option<u64>) -> bool {
        let Some(log) = self.files.get(&file).filter(|f| f.info.archived) else { return true };
        let is_it = |a: &Alarm| a.file == file && a.line == line && a.is_timed;
        self.record_of(&log.job).alarms.iter().any(is_it)
    }

    fn archive_of(&mut self, path: &str, at: Stamp) -> String {
        if let Some(job) = self.archive() {
            return job.id.clone();
        }
        let name = path.rsplit('/').next().unwrap_or(path).to_owned();
        let job = Job { log_only: true, archived: true, ..Job::new(name.clone(), at) };
        self.jobs.insert(name.clone(), job);
        name
    }

    pub(super) fn archive_log(&mut self, at: Stamp, info: &LogFileInfo) {
        let job = self.archive_of(&info.path, at);
        let log = LogFile { job, ..LogFile::new(info.clone()) };
        self.files.insert(info.file, log);
    }

    /// Where what archived reports show is kept. `path` is that of the report, `at` when it was last changed.
    pub fn archive_record(&mut self, path: &str, at: Stamp) -> &mut Record {
        let job = self.archive_of(path, at);
        self.now = self.now.max(at);
        let record = self.records.entry(job).or_default();
        record.revision += 1;
        record
    }

    /// Takes a Flight Recorder dump that was read already; of two of one rank the newer one counts.
    pub fn archive_dump(&mut self, at: Stamp, rank: u32, path: &str, dump: Dump) {
        self.archive_record(path, at);
        let seen = FlightDump { rank, path: path.to_owned(), modified_ns: Some(at.0), archived: true, ..FlightDump::default() };
        self.dumps.add(at, seen, dump);
    }

    /// Channel lines like one that was read; `route` where they have the same ends.
    pub fn archive_channels(&mut self, file: u32, transport: &str, receive: bool, route: Option<&Route>, lines: u64) {
        let Some(log) = self.files.get_mut(&file).filter(|_| lines > 0) else { return };
        log.bringup.more_channels(transport, receive, route, lines);
        if let Some(record) = self.records.get_mut(&log.job) {
            record.channels(transport, lines);
        }
    }

    /// The last run of a file repeated, word for word, what the one before had printed: a container that was started anew has the same pids.
    pub fn archive_repeats(&mut self, file: u32) {
        if let Some(log) = self.files.get_mut(&file) {
            let before = log.chronicle.take_before();
            log.bringup.merge(&before);
        }
    }

    /// How many lines a file has, once it is read.
    pub fn archive_lines(&mut self, file: u32, lines: u64) {
        if let Some(log) = self.files.get_mut(&file) {
            log.lines = lines;
        }
    }
}
