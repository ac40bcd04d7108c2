//! What a session comes to when there is no more input: all findings, the cause first.

use super::lines::{NEW_RUN, earlier_run};
use super::{causality, cover};
use crate::base::severity::{Role, Severity};
use crate::base::time::{Stamp, span};
use crate::diagnosis::session::Session;
use crate::logs::{What, error_words};
use crate::model::alarms::Alarm;
use crate::rules::findings::Finding;
use crate::rules::{Implies, python_exception, rule};
use std::collections::BTreeSet;

/// All findings of a session and of recordings beside it, and which of them is the cause.
#[derive(Clone, Debug, Default)]
pub struct Conclusion {
    pub findings: Vec<Finding>,
    /// Index into `findings`.
    pub root_cause: Option<usize>,
}

impl Conclusion {
    /// Of the one job that is known from logs, and of all that the recordings, with their paths, showed.
    pub fn of(session: &Session, recordings: &[(String, Session)]) -> Conclusion {
        let mut open: Vec<&Finding> = session.ledger.open();
        // What failed again in the run of now is not the past.
        open.sort_by_key(|f| (is_of_earlier_run(f), f.no));
        let mut findings: Vec<Finding> = open.into_iter().map(as_one_job).collect();
        let of_earlier_run = |f: &&Finding| f.cleared_for == Some(NEW_RUN);
        findings.extend(session.ledger.past().filter(of_earlier_run).map(set_apart));
        findings.extend(recordings.iter().flat_map(|(path, recording)| replayed(recording, path)));
        for (no, f) in findings.iter_mut().enumerate() {
            (f.no, f.own_severity) = (no as u64, f.severity);
        }
        let covered = cover::covered(&findings.iter_mut().collect::<Vec<_>>());
        findings.retain(|f| !covered.contains(&f.no));
        let cause = causality::assign(
            &mut findings.iter_mut().collect::<Vec<_>>(),
            &causality::outlived(last_step(session)),
            &causality::near(&session.model),
        );
        if let Some(cause) = cause {
            name_its_task(session, &mut findings[cause]);
        }
        let root_cause = causality::order(&mut findings, cause);
        for f in &mut findings {
            (f.why, f.note) = (f.whole_why(), None);
        }
        Conclusion { findings, root_cause }
    }

    /// The finding that is the cause.
    pub fn cause(&self) -> Option<&Finding> {
        self.findings.get(self.root_cause?)
    }
}

/// A scheduler names the one task that ended with an exit code: what a process raised without saying who it is, is of that one. Where another one
/// crashed, or all that is known is that several ended, it is nobody's.
fn name_its_task(session: &Session, of: &mut Finding) {
    let chain = causality::chain(of);
    let names_somebody = error_words::without_who(&of.summary) != of.summary || !of.ranks.is_empty() || !of.gpus.is_empty();
    if !chain.is_of_its_writer || causality::is_victim(of) || names_somebody || chain.from_kernel {
        return;
    }
    let Some(path) = of.evidence.first().and_then(|proof| proof.path.as_deref()) else { return };
    let model = &session.model;
    let of_file = |alarm: &&Alarm| model.path_of(alarm.file) == path;
    let mut ended: BTreeSet<(u32, Option<String>)> = BTreeSet::new();
    let mut last = None;
    for alarm in model.records.values().flat_map(|record| record.alarms.iter()).filter(of_file) {
        let What::Signed { signature, text, .. } = &alarm.event.what else { continue };
        if !text.contains("srun: error: ") && !signature.id.starts_with("slurm-task-") {
            continue;
        }
        match signature.capture(text, crate::rules::TASK).and_then(|task| task.parse().ok()) {
            // Of equal ones only the first is kept.
            Some(task) if text.contains("Exited with exit code") && alarm.count == 1 => {
                ended.insert((task, signature.capture(text, "on").map(str::to_owned)));
                last = last.max(alarm.line);
            }
            _ if text.contains("Exited with exit code") => return,
            // Whom Slurm kills because another one failed comes after that one.
            _ if text.contains("Killed") || text.contains("Terminated") => last = last.filter(|line| alarm.line > Some(*line)),
            _ if signature.id == "slurm-task-crashed" => return,
            _ => {}
        }
    }
    if let (Some(_), [(task, host)]) = (last, &ended.into_iter().collect::<Vec<_>>()[..]) {
        let on = host.as_ref().map_or(String::new(), |host| format!(" on {host}"));
        of.summary = format!("task {task}{on}: {}", of.summary);
    }
}

/// When the last step was made that any log shows.
fn last_step(session: &Session) -> Option<Stamp> {
    session.model.files.values().filter_map(|f| f.progress.last_step_at).max()
}

/// Of several files given together all findings are of one job, but for those of earlier runs.
fn as_one_job(f: &Finding) -> Finding {
    if is_of_earlier_run(f) { set_apart(f) } else { Finding { job: None, ..f.clone() } }
}

fn is_of_earlier_run(f: &Finding) -> bool {
    f.job.as_deref().is_some_and(|job| job.ends_with(&earlier_run("")))
}

fn set_apart(f: &Finding) -> Finding {
    let note = [Some("in an earlier run of the same file"), f.note.as_deref()];
    let note = note.into_iter().flatten().collect::<Vec<_>>().join("; ");
    Finding { job: None, own_role: Role::Context, role: Role::Context, note: Some(note), ..f.clone() }
}

/// What a recording showed, also what it saw pass.
fn replayed(session: &Session, path: &str) -> Vec<Finding> {
    let passed = session.ledger.past().cloned().map(|mut f| {
        let after = f.cleared_at.map_or(String::new(), |at| span(at.since(f.opened_at)));
        f.why = format!("{}; it passed after {after}", f.whole_why());
        f.note = None;
        // What would have ended the job did not: an exception was caught, a rank was started again.
        let goes_on = rule(f.rule).is_some_and(|rule| rule.implies == Implies::Failed) && last_step(session) > Some(f.last_at);
        if goes_on {
            f.severity = f.severity.min(if f.rule == python_exception::RULE.id { Severity::Info } else { Severity::Warning });
        }
        f
    });
    let mut findings: Vec<Finding> = session.ledger.open().into_iter().cloned().chain(passed).collect();
    for f in &mut findings {
        (f.job, f.own_role) = (None, f.role);
        f.evidence.iter_mut().filter(|e| e.path.is_none()).for_each(|e| e.path = Some(path.to_owned()));
    }
    findings
}
