//! What log lines change in the model.

use super::alarms::{Alarm, Said};
use super::bringup::{Who, host_id};
use super::job::Job;
use super::job_record::{JoinedAgain, Record, Told, is_all_here};
use super::log::Kept;
use super::process::Process;
use super::progress::Progress;
use super::{MAX_COMMS, MAX_PROCESSES, Model, TextSeen};
use crate::base::clean;
use crate::base::time::Stamp;
use crate::logs::{TextEvent, What, prefilter};
use crate::observe::evidence::Evidence;
use crate::observe::log::Line;
use std::time::Duration;

/// A line that was read.
#[derive(Clone, Copy, Debug, Default)]
pub struct ReadLine<'a> {
    /// From 1, where lines were counted.
    pub no: Option<u64>,
    /// Cleaned.
    pub text: &'a str,
    /// Of the line as it was written.
    pub bytes: usize,
}

/// The newest tables of a job that runs tests all day.
const MAX_TABLES: usize = 64;

/// How Python's faulthandler begins.
const PYTHON_CRASH: &str = "Fatal Python error: ";

/// The program of `python -c 'import train'`, also of `-uc` and `-cimport train`.
fn command_of(cmdline: &[String]) -> Option<&str> {
    let mut arguments = cmdline.iter().skip(1);
    while let Some(argument) = arguments.next() {
        let letters = argument.strip_prefix('-').filter(|letters| !letters.starts_with('-'))?;
        // Behind these letters stands a value, or the name of a module.
        match letters.find(['c', 'm', 'W', 'X']).map(|at| letters.split_at(at)) {
            Some((_, "c")) => return arguments.next().map(String::as_str),
            Some((_, program)) if program.starts_with('c') => return Some(&program[1..]),
            Some((_, "W" | "X")) => _ = arguments.next(),
            Some((_, value)) if value.starts_with('m') => return None,
            _ => {}
        }
    }
    None
}

impl Model {
    /// Reads one log line and applies what it says. Each event is handed to `each` after it was applied, so that rules see the
    /// model of that very moment, however lines were batched.
    pub fn apply_line(&mut self, at: Stamp, file: u32, line: &Line, backlog: bool, mut each: impl FnMut(&Model, &TextSeen)) {
        self.settle();
        let Some(log) = self.files.get_mut(&file) else { return };
        log.lines += u64::from(!line.transient);
        log.last_line_at = Some(at);
        let class = prefilter::classify(line.text.as_bytes());
        let mut events = Vec::new();
        log.reader.at_line(line.no);
        log.reader.read(&line.text, class, &mut events);
        if !backlog && class != prefilter::Class::Alarm && log.progress.is_empty() {
            log.counting.read(at, &line.text);
        }
        let tables = log.read_table(&line.text, line.no);
        if !tables.is_empty() {
            let path = log.info.path.clone();
            let record = self.records.entry(self.job_of_file(file)).or_default();
            record.revision += 1;
            record.tables.extend(tables.into_iter().map(|table| (path.clone(), table)));
            let too_many = record.tables.len().saturating_sub(MAX_TABLES);
            record.tables.drain(..too_many);
        }
        let clean = clean::clean(&line.text);
        let by_pid = || events.iter().find_map(|e| e.origin.pid).and_then(|pid| self.rank_of_ns_pid(file, pid));
        let rank = events.iter().find_map(|e| e.origin.rank).or_else(by_pid);
        // What says nothing else may still say who wrote it; else it is the rank whose output the file is.
        let by_prefix = || {
            let p = crate::logs::prefix::peel(&clean);
            let rank = self.files.get(&file).and_then(|log| log.reader.rank_of(&p));
            rank.or_else(|| self.rank_of_ns_pid(file, p.origin.pid?))
        };
        let shown_rank = rank.or_else(by_prefix).or_else(|| self.files.get(&file)?.rank);
        self.keep(Kept { at, file, no: line.no, rank: shown_rank, class, backlog, text: clean.as_ref().into() }, line.transient);
        if events.is_empty() {
            return;
        }
        let clean = clean.into_owned();
        if let Some(log) = self.files.get_mut(&file) {
            log.chronicle.at_offset(line.offset, line.no);
        }
        let read = ReadLine { no: line.no, text: &clean, bytes: line.text.len() };
        self.apply_events(at, file, &events, &read, backlog, &mut each);
    }

    /// A second has passed: what the readers of silent files held back, because more of it might have come, is reported now.
    pub fn apply_silence(&mut self, at: Stamp, mut each: impl FnMut(&Model, &TextSeen)) {
        let silent: Vec<u32> =
            self.files.iter().filter(|(_, f)| f.reader.is_inside() && f.last_line_at.is_some_and(|l| l < at)).map(|(id, _)| *id).collect();
        for file in silent {
            let mut events = Vec::new();
            if let Some(log) = self.files.get_mut(&file) {
                log.reader.idle(&mut events);
            }
            self.apply_events(at, file, &events, &ReadLine::default(), false, &mut each);
        }
    }

    /// Applies what a line says. Each event is handed to `each` after it was applied.
    pub(crate) fn apply_events(
        &mut self,
        at: Stamp,
        file: u32,
        events: &[TextEvent],
        read: &ReadLine,
        backlog: bool,
        each: &mut dyn FnMut(&Model, &TextSeen),
    ) {
        let job = self.job_of_file(file);
        let zone = self.zone;
        let Some(log) = self.files.get_mut(&file) else { return };
        let archived = log.info.archived;
        let modified = if archived || backlog { log.modified(at) } else { at };
        log.chronicle.apply(events, read.no, read.bytes, modified, zone);
        let at = if archived { log.chronicle.at.unwrap_or(modified) } else { at };
        for event in events {
            if self.is_of_another(event, at, file, &job) {
                continue;
            }
            let by_pid = || event.origin.pid.and_then(|pid| self.rank_of_ns_pid(file, pid));
            // Whoever names another process is not the one whose output the file is.
            let origin = &event.origin;
            let is_named = origin.pid.is_some() || origin.host.is_some() || origin.local_rank.is_some();
            let by_file = || self.files.get(&file).filter(|_| !is_named)?.rank;
            let is_here = || self.jobs.get(&job).is_some_and(|job| !job.log_only && is_all_here(job));
            // Of a job of one process there is nobody else who could fail.
            let by_job = || {
                let of_a_rank = matches!(event.what, What::Exception(_) | What::CudaOom { .. } | What::CudaError { .. });
                self.jobs.get(&job).filter(|_| of_a_rank && !is_named).and_then(|job| self.only_rank(job))
            };
            let rank = origin.rank.or_else(by_pid).or_else(by_file).or_else(|| origin.local_rank.filter(|_| is_here())).or_else(by_job);
            let (line, text) = event.said_at.as_ref().map_or((read.no, read.text), |s| (s.line, s.text.as_str()));
            self.apply_event(at, file, event, &job, backlog);
            let when = self.written_at(at, file, backlog);
            if let Some(log) = self.files.get_mut(&file) {
                log.doubt_path(event);
                if let What::Step(step) = &event.what {
                    log.progress.note_own_loss(at, step, rank, text);
                }
                let host = event.origin.host.as_deref().map(host_id);
                let who = Who { file, rank: event.origin.rank, host, pid: event.origin.pid };
                // A bar says less than the line of a step that stands beside it.
                if let What::Step(step) = &event.what
                    && (!step.bar || step.loss.is_some() || log.progress.loss.is_none())
                {
                    log.progress.line = line.or(log.progress.line);
                }
                if log.bringup.apply(&event.what, who, line, when, text) {
                    self.bringup_revision += 1;
                }
            }
            let log_only = self.jobs.get(&job).is_none_or(|j| j.log_only);
            let since = self.files.get(&file).and_then(|f| f.chronicle.at_of(event)).filter(|_| log_only || backlog).unwrap_or(at);
            let seen = TextSeen { at, since, file, line, text, event, rank, job: job.clone(), backlog, times: 1 };
            self.record(&seen);
            each(self, &seen);
        }
    }

    /// A traceback of `python -c`, in the log of a job that runs and whose ranks were started otherwise: one of them, or its launcher, ran that
    /// program, and saw how it ended. Several of them that write at once break each other's tracebacks; what C++ and NCCL say is not theirs,
    /// and a rank that crashes is seen to end.
    fn is_of_another(&mut self, event: &TextEvent, at: Stamp, file: u32, job: &str) -> bool {
        /// For so long after one of them ended, more of them may.
        const NEAR: Duration = Duration::from_secs(10);
        let Some(said) = event.said_at.as_ref().filter(|_| event.origin.rank.is_none()) else { return false };
        let of_python = matches!(event.what, What::Exception(_)) || said.text.starts_with(PYTHON_CRASH);
        let is_broken = || of_python && said.raised_at.as_ref().is_none_or(|place| place.starts_with("File \"<string>"));
        let seen_at = self.files.get(&file).and_then(|log| log.ran_others_at);
        let is_near = seen_at.is_some_and(|seen| at.since(seen) <= NEAR);
        if !(said.of_command || is_near && is_broken()) {
            return false;
        }
        let lives = |process: &&Process| process.is_alive();
        let own = |process: &Process| command_of(&process.info.cmdline).is_some_and(|program| !program.contains("multiprocessing"));
        let ranks = |job: &Job| job.pids().filter_map(|pid| self.processes.get(&pid)).filter(lives).map(own).collect::<Vec<_>>();
        let ranks = self.jobs.get(job).filter(|job| !job.log_only).map(ranks).unwrap_or_default();
        let is = !ranks.is_empty() && !ranks.contains(&true);
        if let Some(log) = self.files.get_mut(&file).filter(|_| is && said.of_command) {
            log.ran_others_at = Some(at);
        }
        is
    }

    /// Keeps what a line reports for the judgement of its job as a whole.
    fn record(&mut self, seen: &TextSeen) {
        if !self.records.contains_key(&seen.job) {
            self.records.insert(seen.job.clone(), Record::default());
        }
        let log_only = self.jobs.get(&seen.job).is_none_or(|j| j.log_only);
        let files = self.files.len();
        let (Some(record), Some(log)) = (self.records.get_mut(&seen.job), self.files.get_mut(&seen.file)) else { return };
        if seen.event.what == What::RunStart && files == 1 {
            record.transports.clear();
        }
        // A trainer loads its best checkpoint when it has trained.
        let is_over = log.progress.done_at.is_some() || log.progress.total_steps.is_some_and(|total| log.progress.step >= Some(total));
        let is_of_end = matches!(seen.event.what, What::Resumed { .. }) && is_over;
        if !is_of_end {
            record.apply(seen.event);
        }
        if let What::Joined { rank, .. } = &seen.event.what {
            record.revision += 1;
            if record.joined.get(rank).is_some_and(|times| *times > 1) && record.joined_again.is_none() {
                let (after, text) = (record.joined.len(), seen.text.to_owned());
                record.joined_again = Some(JoinedAgain { at: seen.since, file: seen.file, line: seen.line, text, after });
            }
        }
        let of_run = log.chronicle.run;
        record.come_or_gone(&seen.event.what, seen.rank, || {
            let proof = Evidence::line(&log.info.path, seen.line, seen.text, seen.since);
            Told { what: (), proof, file: seen.file, run: of_run }
        });
        if !seen.event.what.is_alarm() {
            return;
        }
        log.chronicle.alarmed();
        let run = log.chronicle.run;
        let said = Said { at: seen.at, file: seen.file, run, rank: seen.rank, event: seen.event };
        record.revision += 1;
        if let Some(severity) = seen.event.what.severity().filter(|_| !seen.backlog) {
            *record.said.entry(severity).or_default() += 1;
        }
        record.alarms.push(&said, || Alarm {
            file: seen.file,
            run,
            line: seen.line,
            text: seen.text.to_owned(),
            event: seen.event.clone(),
            rank: seen.rank,
            // Of a job that runs here the time of arrival is better known than the zone of its lines.
            at: if log_only || seen.backlog { log.chronicle.at_of(seen.event) } else { Some(seen.at) },
            seen_at: seen.at,
            last_seen_at: seen.at,
            is_timed: seen.event.origin.written.is_some(),
            count: 1,
            position: log.position(),
        });
    }

    fn keep(&mut self, kept: Kept, transient: bool) {
        if kept.text.trim().is_empty() {
            return;
        }
        let file = kept.file;
        let was_transient = self.files.get(&file).is_some_and(|f| f.transient);
        self.logbook.push(kept, was_transient);
        if let Some(f) = self.files.get_mut(&file) {
            f.transient = transient;
        }
    }

    pub(super) fn apply_event(&mut self, at: Stamp, file: u32, event: &TextEvent, job: &str, backlog: bool) {
        let when = self.written_at(at, file, backlog);
        let is_header =
            event.what.is_header() && !matches!(event.what, What::Joined { .. }) || matches!(event.what, What::NcclVersion { .. });
        let matters = !is_header && !matches!(event.what, What::EnvSet { .. } | What::Bootstrap { .. });
        if matters && !self.jobs.contains_key(job) {
            let mut new = Job::new(job.to_owned(), at);
            new.log_only = true;
            self.jobs.insert(job.to_owned(), new);
        }
        if let Some(job) = self.jobs.get_mut(job).filter(|_| matters) {
            job.has_spoken = true;
        }
        let Some(log) = self.files.get_mut(&file) else { return };
        match &event.what {
            What::Step(step) => {
                log.progress.apply(when, step, backlog);
                if let Some(no) = step.step.filter(|_| event.origin.written.is_some() && log.info.archived) {
                    log.progress.written(when, no);
                }
                if let Some(job) = self.jobs.get_mut(job) {
                    job.moved_at = Some(when);
                }
            }
            What::TotalSteps { total } => log.progress.total_steps = Some(*total),
            What::AtStart { total } => log.progress.at_start = Some(*total),
            What::Phase { phase, begins } => log.progress.phase_said(when, *phase, *begins),
            What::SkippedStep { scale } => {
                log.progress.skipped_steps += 1;
                log.progress.loss_scale = scale.zip(log.progress.step).or(log.progress.loss_scale);
            }
            What::Done => log.progress.done_at = Some(when),
            What::Terminating { .. } | What::LauncherSignalled { .. } | What::WorkerFailed { .. } => {
                if matches!(event.what, What::WorkerFailed { .. }) {
                    log.progress.worker_failed();
                }
                if let Some(job) = self.jobs.get_mut(job) {
                    job.taking_down_at.get_or_insert(when);
                    job.launcher_signalled |= matches!(event.what, What::LauncherSignalled { .. });
                    job.launcher_signals |= matches!(event.what, What::Terminating { .. });
                }
            }
            What::Placed { rank, pid, .. } => {
                if self.placed.len() >= MAX_PROCESSES {
                    self.placed.clear();
                }
                let known = self.placed.entry(*pid).or_insert(Some(*rank));
                if *known != Some(*rank) {
                    *known = None;
                }
                self.ungrouped = true;
            }
            What::RunStart if log.chronicle.is_new_run => {
                if let Some(job) = self.jobs.get_mut(job).filter(|j| j.log_only) {
                    job.restart(at);
                }
                log.progress = Progress::default();
                let before = std::mem::take(&mut log.bringup);
                log.chronicle.set_aside(before);
                log.rank_of_pid.clear();
                log.ranks_by_init = 0;
                log.comms.clear();
            }
            What::Init(init) => {
                if init.nranks > log.ranks_by_init {
                    log.ranks_by_init = init.nranks;
                    log.rank_of_pid.clear();
                }
                if let Some(pid) = event.origin.pid
                    && init.nranks == log.ranks_by_init
                    && log.rank_of_pid.len() < MAX_PROCESSES
                {
                    // Whose log it is may be known by that.
                    self.ungrouped |= !log.had_writer && !log.rank_of_pid.contains_key(&pid);
                    log.rank_of_pid.entry(pid).or_insert(init.rank);
                }
                if let Some(hash) = init.comm_id.filter(|_| log.comms.len() < MAX_COMMS) {
                    log.comms.insert(hash);
                }
                if let Some(hash) = init.comm_id
                    && (self.comms.len() < MAX_COMMS || self.comms.contains_key(&hash))
                {
                    let comm = self.comms.entry(hash).or_default();
                    comm.hash = hash;
                    comm.nranks = comm.nranks.max(init.nranks);
                    comm.init_from.get_or_insert(when);
                    comm.init_left_out |= event.origin.stands_for_others;
                    if init.complete {
                        comm.init_complete.insert(init.rank);
                        comm.init_to = Some(when);
                    } else {
                        comm.init_started.insert(init.rank);
                    }
                }
            }
            _ => {}
        }
    }

    /// Lines that were there before us were written no later than the file was last changed.
    fn written_at(&self, at: Stamp, file: u32, backlog: bool) -> Stamp {
        let modified = || self.files.get(&file).filter(|f| !f.info.archived)?.info.modified_ns.map(Stamp).filter(|m| *m <= at);
        backlog.then(modified).flatten().unwrap_or(at)
    }

    /// The rank of a process that a line names by the pid of its own namespace.
    pub(super) fn rank_of_ns_pid(&self, file: u32, pid: u32) -> Option<u32> {
        let by_process = || {
            let process = self.processes.values().find(|p| p.info.ns_pid.unwrap_or(p.info.pid) == pid)?;
            process.rank()
        };
        by_process().or_else(|| self.files.get(&file)?.rank_of_pid.get(&pid).copied())
    }
}
