//! What `nccl-top check` does: files in, one report out. The same readers, rules and catalogue as on the screen, but with everything
//! known before anything is judged: what failed is put into the order of time, and the first of it is the cause.
//!
//! **To teach it a kind of file**: a file below `archive/` with a `pub const KIND: Kind`, and its line in [`kinds::KINDS`].

pub mod again;
mod around;
pub mod at_end;
mod before;
mod beside;
mod call;
mod ended_well;
mod error_level;
mod flight;
pub mod inputs;
mod inspector;
pub mod intake;
pub mod kinds;
mod last_step;
pub mod log;
mod metrics;
mod mpi_stack;
mod nccl_tests;
pub mod outcome;
mod pasted;
mod ras;
mod results;
mod sentence;
mod slurm_tasks;
mod span;
mod stack;
mod table;
mod tape;
pub mod warned;

use crate::base::severity::{Role, Severity};
use crate::diagnosis::conclusion::Conclusion;
use crate::diagnosis::session::Session;
use crate::model::Model;
use crate::model::alarms::Alarm;
use crate::model::attempts::Attempt;
use crate::model::bringup::{Bringup, Item};
use crate::model::job::Job;
use crate::model::job_record::Record;
use crate::model::log::LogFile;
use crate::model::progress::Progress as Training;
use crate::rules::findings::Finding;
use again::Again;
use intake::Intake;
use serde::Serialize;

/// All that is known of the inputs, judged.
pub struct Report {
    pub verdict: Verdict,
    pub inputs: Vec<Seen>,
    pub session: Session,
    /// Recordings among the inputs, with their paths.
    pub recordings: Vec<(String, Session)>,
    pub checklist: Vec<Item>,
    /// The cause first.
    pub findings: Vec<Finding>,
    /// Index into `findings`.
    pub root_cause: Option<usize>,
    /// What a second look at the inputs tells.
    pub again: Again,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    Warn,
    Fail,
    /// Nothing could be judged.
    Unknown,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
            Verdict::Unknown => "unknown",
        }
    }
}

/// One input, read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Seen {
    pub path: String,
    /// An id of [`kinds::KINDS`].
    pub kind: Option<&'static str>,
    pub bytes: Option<u64>,
    /// Of text that is read line by line.
    pub lines: Option<u64>,
    /// Why it, or the rest of it, could not be judged.
    pub error: Option<String>,
    /// How far it was understood, where that is not far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<&'static str>,
}

/// What is said of inputs of which no line is known: where they are logs of which no line speaks of trouble, and else.
const PLAIN_LOG: &str = "the log of a program that is not known; none of its lines speaks of trouble";
/// The same of a piece of NCCL's own log.
const PLAIN_NCCL: &str = "a piece of NCCL's log: none of its lines is about its start, progress, an error or its end";
const NOTHING_KNOWN: &str = "nothing in it is known: no line of NCCL, PyTorch, a trainer or a launcher";

/// Told while inputs are read: bytes done so far, of all if that is known.
pub type Progress<'a> = &'a mut dyn FnMut(u64, Option<u64>);

/// Reads and judges what the arguments name.
pub fn check(args: &[String], zone: crate::base::time::Zone, progress: Progress<'_>) -> Report {
    let found = inputs::expand(args);
    let total: Option<u64> = found.iter().map(|f| f.size_bytes).sum();
    let mut intake = Intake::new(zone);
    let mut inputs = Vec::new();
    let mut done = 0;
    let several = found.len() > 1;
    // The year of lines that have none is told by those that have one.
    let (later, first): (Vec<_>, Vec<_>) = found.iter().enumerate().partition(|(_, input)| several && has_no_year(input));
    for (no, input) in first.into_iter().chain(later) {
        let seen = kinds::read(input, &mut intake, &mut |bytes| progress(done + bytes, total));
        done += input.size_bytes.unwrap_or(seen.bytes.unwrap_or(0));
        // In a directory there may be anything; what is named is expected to say something.
        if input.named || seen.kind.is_some() || seen.error.is_some() {
            inputs.push((no, seen));
        }
    }
    inputs.sort_by_key(|(no, _)| *no);
    let is_untroubled = intake.is_untroubled();
    let mut report = report(intake, inputs.into_iter().map(|(_, seen)| seen).collect());
    report.again = Again::of(&report, &found);
    // What it measured, or that it came to its end, tells that all is well, whatever program it is.
    let is_unknown = report.verdict == Verdict::Unknown && report.inputs.iter().all(|input| input.error.as_deref() == Some(NOTHING_KNOWN));
    let is_measured = is_unknown && ended_well::is_measured(&report);
    if is_measured || is_unknown && is_untroubled && ended_well::is_it(&report) {
        report.verdict = Verdict::Ok;
        let note = (!is_measured).then_some(PLAIN_LOG);
        report.inputs.iter_mut().for_each(|input| (input.error, input.note) = (None, note));
    }
    if let (Some(cause), Some(why)) = (report.root_cause, report.again.of_stack.take()) {
        report.findings[cause].summary.push_str(&format!(": {why}"));
    }
    if let (Some(cause), Some(headline)) = (report.root_cause, slurm_tasks::of(&report, &found)) {
        report.findings[cause].summary = headline;
    }
    // Whoever ends a job on purpose has said why.
    let abort = report
        .root_cause
        .map(|i| &mut report.findings[i])
        .filter(|f| f.signature.is_some_and(|signature| error_level::ON_PURPOSE.contains(&signature)));
    if let (Some(f), Some(beside)) = (abort, &report.again.beside) {
        f.summary = format!("{}: {}", f.summary, beside.text);
    }
    report
}

/// It is a log of the host, whose first time has no year. What comes through a pipe can be read once only.
fn has_no_year(input: &inputs::Input) -> bool {
    /// The first lines of a log of the host.
    const FIRST: usize = 4096;
    let is_file = matches!(&input.source, inputs::Source::File(path) if path.metadata().is_ok_and(|meta| meta.is_file()));
    let head = is_file.then(|| kinds::Opened::of(input).ok()).flatten().map(|opened| opened.head).unwrap_or_default();
    kinds::is_text(&head) && crate::logs::when::first_without_year(&head[..head.len().min(FIRST)]).is_some()
}

/// Judges what was read from these inputs.
pub fn report(mut intake: Intake, mut inputs: Vec<Seen>) -> Report {
    intake.end();
    // Whoever prints levels or times calls errors by their name: that there is none says something.
    let is_of_logs = intake.is_of_logs();
    let is_of_nccl = intake.has_nccl && intake.is_untroubled();
    let Intake { session, recordings, understood, .. } = intake;
    let Conclusion { findings, root_cause } = Conclusion::of(&session, &recordings);
    let recognised = understood || is_recognised(&session.model) || !findings.is_empty();
    let is_plain = !recognised && (is_of_nccl || is_of_logs) && inputs.iter().all(|i| i.error.is_none());
    if is_plain {
        let note = if is_of_nccl { PLAIN_NCCL } else { PLAIN_LOG };
        inputs.iter_mut().for_each(|i| i.note = Some(note));
    } else if !recognised && inputs.iter().all(|i| i.error.is_none()) {
        inputs.iter_mut().for_each(|i| i.error = Some(NOTHING_KNOWN.into()));
    }
    // What comes of a job that somebody ended is no worse than that.
    let ended = root_cause.filter(|at| findings[*at].rule == "job-cancelled" && findings[*at].severity < Severity::Error);
    let comes_of_it =
        |at: usize, f: &Finding| ended.is_some_and(|ended| ended != at && !is_above(f, &findings[ended])) && f.role == Role::Teardown;
    let counts = |(at, f): &(usize, &Finding)| f.severity >= Severity::Warning && !comes_of_it(*at, f);
    let worst = findings.iter().enumerate().filter(counts).map(|(_, f)| f.severity).max();
    let verdict = match worst {
        _ if !recognised && !is_plain => Verdict::Unknown,
        Some(s) if s >= Severity::Error => Verdict::Fail,
        Some(_) => Verdict::Warn,
        None => Verdict::Ok,
    };
    let mut report = Report { verdict, inputs, session, recordings, checklist: Vec::new(), findings, root_cause, again: Again::default() };
    report.checklist = report.make_checklist();
    report
}

/// It stands in the same file, before the other.
fn is_above(f: &Finding, other: &Finding) -> bool {
    let first = |f: &Finding| f.evidence.first().and_then(|said| Some((said.path.clone()?, said.line?)));
    first(f).zip(first(other)).is_some_and(|((path, line), (of_other, at))| path == of_other && line < at)
}

fn is_recognised(model: &Model) -> bool {
    let steps = |f: &Training| !f.is_empty() || f.skipped_steps > 0;
    let facts = || model.files.values().any(|f| steps(&f.progress) || f.bringup != Bringup::default());
    let speaks = model.jobs.values().any(|job| job.archived && job.has_spoken);
    let measured =
        |r: &Record| r.details.contains_key("engine") || r.evaluated.is_some() || r.result.is_some() || r.last.contains_key("checked");
    let reports = |r: &Record| !r.tables.is_empty() || !r.alarms.is_empty() || r.launch.ranks().is_some() || r.is_present || measured(r);
    speaks || model.records.values().any(reports) || !model.comms.is_empty() || facts()
}

impl Report {
    /// What is known: from logs and reports, else from the last recording.
    pub fn model(&self) -> &Model {
        match self.recordings.last() {
            Some((_, recording)) if self.session.model.files.is_empty() => &recording.model,
            _ => &self.session.model,
        }
    }

    /// The one job that all logs are of, or the main one of a recording.
    pub fn job(&self) -> Option<&Job> {
        match self.recordings.last() {
            Some((_, recording)) if self.session.model.files.is_empty() => {
                recording.main_job().and_then(|(id, _)| recording.model.jobs.get(id)).or_else(|| recording.model.jobs.values().next())
            }
            _ => self.session.model.archive().filter(|j| j.has_spoken),
        }
    }

    /// What its logs have reported.
    pub fn record(&self) -> &Record {
        let archive = self.session.model.archive().map_or("", |j| j.id.as_str());
        self.session.model.record_of(archive)
    }

    /// How NCCL came up, by all logs.
    pub fn bringup(&self) -> Bringup {
        let model = self.model();
        let job = self.job().map(|j| j.id.as_str()).or_else(|| Some(model.files.values().next()?.job.as_str()));
        job.map(|id| model.bringup_of(id)).unwrap_or_default()
    }

    /// What was read from the line that is the first proof.
    pub fn alarm_of(&self, f: &Finding) -> Option<&Alarm> {
        let proof = f.evidence.first()?;
        let (path, line) = (proof.path.as_deref()?, proof.line?);
        self.record().alarms.iter().find(|a| a.line == Some(line) && self.model().path_of(a.file) == path)
    }

    fn make_checklist(&self) -> Vec<Item> {
        let nobody = Job::new(String::new(), self.model().now);
        self.bringup().checklist(self.model(), self.job().unwrap_or(&nobody), true)
    }

    /// How often its ranks were started, where they were started again.
    pub fn attempt(&self) -> Option<Attempt> {
        let model = self.model();
        model.jobs.values().filter_map(|job| model.attempt_of(job)).max_by_key(|attempt| attempt.no)
    }

    /// The step before the last such start, and the first after it.
    pub fn went_back(&self) -> Option<(u64, u64)> {
        let model = self.model();
        model.jobs.values().find_map(|job| model.went_back(job))
    }

    /// How far training came: the file that shows most.
    pub fn training(&self) -> Option<&Training> {
        self.training_file().map(|file| &file.progress)
    }

    fn training_file(&self) -> Option<&LogFile> {
        let all = self.model().files.values().filter(|f| !f.progress.is_empty() || f.progress.done_at.is_some());
        all.max_by_key(|f| (f.progress.step, f.progress.loss.is_some()))
    }
}
