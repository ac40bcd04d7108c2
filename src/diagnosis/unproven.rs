//! Exceptions that a program may have caught. A traceback alone ends nothing: a library prints one and tries again. One that nothing
//! proves to be the end of a rank is kept back until something does: a process of the job is gone, something else fails, or no step comes
//! any more. While the job goes on it is not told; but that a file could not be written is, as a warning: whatever was to be saved is not.
//!
//! What stands in a log that is older than the job may be of a job before it, that wrote into the same file (a queue that starts a job
//! again, a script that appends). While all ranks live and have hardly begun, it is kept back, too; a step shows that it is past.

use super::lines;
use crate::base::severity::Severity;
use crate::base::time::Stamp;
use crate::logs::catalog::{self, Scope};
use crate::logs::error_words;
use crate::logs::{RankBy, TextEvent, What};
use crate::model::job::Job;
use crate::model::process::Process;
use crate::model::progress::Progress;
use crate::model::{Model, TextSeen};
use crate::observe::evidence::Evidence;
use crate::rules::findings::{Finding, Ledger};
use std::collections::VecDeque;
use std::time::Duration;

/// Before the pace of steps is known, and where it is slow, no more than this.
const NO_STEP_FOR: Duration = Duration::from_secs(15);
/// The same in a pause that the log names: no step is to come.
const IN_A_PAUSE: Duration = Duration::from_secs(30);
/// It goes on for so long after it: it was caught.
const CAUGHT: Duration = Duration::from_secs(60);
/// A log that is so much older than a job was not made for it. Two clocks: that of the kernel, and that of the file system.
const OLDER: Duration = Duration::from_secs(3);
/// Ranks that are younger have hardly begun.
const BEGINNING: Duration = Duration::from_secs(60);
/// So long after it the job has made a step.
const GOES_ON: Duration = Duration::from_secs(2);
const MOST: usize = 64;

#[derive(Clone, Default, PartialEq)]
pub struct Unproven {
    kept: VecDeque<Kept>,
    /// What was judged and may turn out to have been caught, when its job has ended well.
    judged: VecDeque<Judged>,
}

#[derive(Clone, PartialEq)]
struct Judged {
    at: Stamp,
    job: String,
    file: u32,
    line: Option<u64>,
}

#[derive(Clone, PartialEq)]
struct Kept {
    at: Stamp,
    since: Stamp,
    file: u32,
    line: Option<u64>,
    text: String,
    event: TextEvent,
    rank: Option<u32>,
    job: String,
    times: u64,
    /// It may tell of the job before.
    of_before: bool,
    /// The job goes on, and was warned.
    is_told: bool,
}

impl Unproven {
    /// Judges what a line says, or keeps it back. What fails for certain proves what came before it.
    pub fn judge(&mut self, model: &Model, seen: &TextSeen, ledger: &mut Ledger) {
        let job = model.jobs.get(&seen.job).filter(|job| none_failed(model, job));
        let of_before = job.is_some_and(|job| may_be_of_before(model, seen, job));
        let caught = job.is_some() && !seen.backlog && may_be_caught(seen);
        if (caught || of_before) && !has_failed(ledger, &seen.job) {
            if self.kept.len() >= MOST {
                self.kept.pop_front();
            }
            self.kept.push_back(Kept {
                at: seen.at,
                since: seen.since,
                file: seen.file,
                line: seen.line,
                text: seen.text.to_owned(),
                event: seen.event.clone(),
                rank: seen.rank,
                job: seen.job.clone(),
                times: seen.times,
                of_before,
                is_told: false,
            });
            return;
        }
        if seen.event.what.is_failure() && !self.kept.is_empty() {
            self.release(model, ledger, |kept| kept.job == seen.job);
        }
        self.judge_line(model, seen, ledger);
    }

    /// A log has turned out to be that of a job.
    pub fn adopt(&mut self, from: &str, to: &str) {
        self.kept.iter_mut().filter(|kept| kept.job == from).for_each(|kept| kept.job = to.to_owned());
    }

    /// Judges what is proven by now, and forgets what was caught.
    pub fn tick(&mut self, model: &Model, ledger: &mut Ledger) {
        self.lessen(model, ledger);
        if self.kept.is_empty() {
            return;
        }
        // The ranks of that run ended well, and others have come in their place.
        let is_of_earlier = |kept: &Kept| model.jobs.get(&kept.job).and_then(|job| job.restarted_at).is_some_and(|at| at > kept.at);
        self.kept.retain(|kept| !is_of_earlier(kept));
        let stepped = |kept: &Kept| model.progress_of(&kept.job).and_then(|p| p.last_step_at).is_some_and(|at| at > kept.at);
        let is_past = |kept: &Kept| if kept.of_before { stepped(kept) } else { model.now.since(kept.at) >= CAUGHT };
        self.kept.retain(|kept| !is_past(kept) || model.jobs.get(&kept.job).is_none_or(|job| !none_failed(model, job)));
        self.warn(model, ledger, stepped);
        let stands = |kept: &Kept| {
            if kept.of_before {
                return model.jobs.get(&kept.job).is_none_or(|job| !is_beginning(model, job));
            }
            // A checkpoint that is tried again, or an evaluation that left something out.
            if model.now.since(kept.at) < IN_A_PAUSE && model.phase_of(&kept.job).is_some() {
                return false;
            }
            let progress = model.progress_of(&kept.job);
            let patience = progress.map_or(NO_STEP_FOR, |p| p.patience().min(NO_STEP_FOR));
            // Before the first step it goes on while it prints: it tries the next batch.
            let goes_on = || model.files.get(&kept.file).and_then(|log| log.last_line_at);
            let last = progress.and_then(|p| p.last_step_at).or_else(goes_on).map_or(kept.at, |at| at.max(kept.at));
            model.now.since(last) >= patience
        };
        self.release(model, ledger, |kept| model.jobs.get(&kept.job).is_none_or(|job| !none_failed(model, job)) || stands(kept));
    }

    /// A job that makes steps although a file system failed it does not know what it has lost.
    fn warn(&mut self, model: &Model, ledger: &mut Ledger, stepped: impl Fn(&Kept) -> bool) {
        for kept in self.kept.iter_mut().filter(|kept| !kept.is_told && !kept.of_before) {
            let What::Exception(exception) = &kept.event.what else { continue };
            let text = error_words::exception_words(exception);
            let signature = catalog::find(Scope::Line, &text).filter(|signature| signature.rule == crate::rules::STORAGE_FAILED);
            // Who is about to end of it does so by then.
            let goes_on = model.now.since(kept.at) >= GOES_ON
                && stepped(kept)
                && model.jobs.get(&kept.job).is_some_and(|job| none_failed(model, job));
            let Some(signature) = signature.filter(|_| goes_on) else { continue };
            kept.is_told = true;
            let event = TextEvent { what: What::Signed { signature, text, tried: true }, ..kept.event.clone() };
            let Kept { at, since, file, line, rank, times, .. } = *kept;
            let seen =
                TextSeen { at, since, file, line, text: &kept.text, event: &event, rank, job: kept.job.clone(), backlog: false, times };
            lines::judge_line(model, &seen, ledger);
        }
    }

    fn release(&mut self, model: &Model, ledger: &mut Ledger, proven: impl Fn(&Kept) -> bool) {
        let (due, left): (VecDeque<Kept>, VecDeque<Kept>) = std::mem::take(&mut self.kept).into_iter().partition(proven);
        self.kept = left;
        for (at, kept) in due.iter().enumerate() {
            // Of several that are alike and were all caught, one is told.
            let is_told = due.iter().take(at).any(|other| other.job == kept.job && other.event.what == kept.event.what);
            if is_told && model.jobs.get(&kept.job).is_some_and(|job| ended_well(model, job)) {
                continue;
            }
            let kept = kept.clone();
            let Kept { at, since, file, line, rank, times, .. } = kept;
            let seen = TextSeen { at, since, file, line, text: &kept.text, event: &kept.event, rank, job: kept.job, backlog: false, times };
            self.judge_line(model, &seen, ledger);
        }
    }

    fn judge_line(&mut self, model: &Model, seen: &TextSeen, ledger: &mut Ledger) {
        lines::judge_line(model, seen, ledger);
        if may_be_caught(seen) && model.jobs.get(&seen.job).is_some_and(|job| !job.log_only) {
            if self.judged.len() >= MOST {
                self.judged.pop_front();
            }
            self.judged.push_back(Judged { at: seen.at, job: seen.job.clone(), file: seen.file, line: seen.line });
            self.lessen(model, ledger);
        }
    }

    /// What ended well in spite of an exception has caught it. A rank that wrote it before it ended may have given up, which is worth a
    /// warning; so is a job that lacks steps.
    fn lessen(&mut self, model: &Model, ledger: &mut Ledger) {
        self.judged.retain(|judged| {
            let Some(job) = model.jobs.get(&judged.job) else { return false };
            if !ended_well(model, job) {
                return true;
            }
            let lacks = |p: &Progress| p.done_at.is_none() && p.total_steps.is_some_and(|total| p.step < Some(total));
            let is_short = model.progress_of(&job.id).is_some_and(lacks);
            let ranks_lived = model.ends_of(job).last().is_none_or(|end| end.at > judged.at);
            let most = if is_short || ranks_lived { Severity::Warning } else { Severity::Info };
            let path = model.path_of(judged.file);
            let is_its = |f: &Finding| {
                let proves = |e: &Evidence| e.line == judged.line && e.path.as_deref() == Some(path);
                f.job.as_ref() == Some(&job.id) && !f.machine && f.evidence.iter().any(proves)
            };
            ledger.lessen(most, is_its);
            false
        });
    }
}

/// PyTorch prints `[rank3]: ` in front of what nobody has caught (2.2 and later); what else names a rank says nothing of that.
fn may_be_caught(seen: &TextSeen) -> bool {
    let origin = &seen.event.origin;
    // Who looks for the largest batch that fits runs out of memory on purpose.
    let may_be = matches!(seen.event.what, What::Exception(_) | What::CudaOom { .. });
    may_be && (origin.rank.is_none() || matches!(origin.rank_by, RankBy::Task | RankBy::Mpi))
}

/// It stood in a log that was made before the job was started, and does not say that it was written since.
fn may_be_of_before(model: &Model, seen: &TextSeen, job: &Job) -> bool {
    let began = || model.began_at(job);
    let made = || model.files.get(&seen.file)?.info.made_ns.map(Stamp);
    let written = seen.event.origin.written.is_some().then_some(seen.since);
    seen.backlog
        && seen.event.what.is_failure()
        && is_beginning(model, job)
        && began().zip(written.or_else(made)).is_some_and(|(began, at)| began.since(at) > OLDER)
}

/// All of its ranks here were started a moment ago.
fn is_beginning(model: &Model, job: &Job) -> bool {
    let mut starts = job.pids().map(|pid| model.started_at(model.processes.get(&pid)?)).peekable();
    starts.peek().is_some() && starts.all(|at| at.is_some_and(|at| model.now.since(at) < BEGINNING))
}

/// Its processes are seen, and all of them live, or have ended with exit code 0 while others go on.
fn none_failed(model: &Model, job: &Job) -> bool {
    let processes = || job.pids().chain(job.launcher).map(|pid| model.processes.get(&pid));
    let ended_well = |p: &Process| p.gone.as_ref().is_some_and(|gone| gone.exit_code == Some(0));
    processes().flatten().any(Process::is_alive) && processes().all(|p| p.is_some_and(|p| p.is_alive() || ended_well(p)))
}

/// All of its processes were seen to end with exit code 0: whatever was raised was caught, be it by who gave up.
fn ended_well(model: &Model, job: &Job) -> bool {
    let mut codes = job.pids().chain(job.launcher).map(|pid| model.processes.get(&pid).and_then(|p| p.gone.as_ref()?.exit_code)).peekable();
    codes.peek().is_some() && codes.all(|code| code == Some(0))
}

fn has_failed(ledger: &Ledger, job: &str) -> bool {
    ledger.first_open(|f| f.job.as_deref() == Some(job) && super::causality::is_failure(f)).is_some()
}
