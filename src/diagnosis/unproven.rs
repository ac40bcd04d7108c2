//! Exceptions that a program may have caught. A traceback alone ends nothing: a library prints one and tries again. One that nothing
//! proves to be the end of a rank is kept back until something does: a process of the job is gone, something else fails, or no step comes
//! any more. While the job goes on it is not told; but that a file could not be written is, as a warning: whatever was to be saved is not.
//!
//! What stands in a log that is older than the job may be of a job before it, that wrote into the same file (a queue that starts a job
//! again, a script that appends). While all ranks live and have hardly begun, it is kept back, too; a step shows that it is past.

use super::lines;
use crate::base::time::Stamp;
use crate::logs::catalog::{self, Scope};
use crate::logs::error_words;
use crate::logs::{RankBy, TextEvent, What};
use crate::model::job::Job;
use crate::model::{Model, TextSeen};
use crate::rules::findings::Ledger;
use std::collections::VecDeque;
use std::time::Duration;

/// Before the pace of steps is known, and where it is slow, no more than this.
const NO_STEP_FOR: Duration = Duration::from_secs(15);
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
pub struct Unproven(VecDeque<Kept>);

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
        let job = model.jobs.get(&seen.job).filter(|job| all_live(model, job));
        let of_before = job.is_some_and(|job| may_be_of_before(model, seen, job));
        let caught = job.is_some() && !seen.backlog && may_be_caught(seen);
        if (caught || of_before) && !has_failed(ledger, &seen.job) {
            if self.0.len() >= MOST {
                self.0.pop_front();
            }
            self.0.push_back(Kept {
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
        if seen.event.what.is_failure() && !self.0.is_empty() {
            self.release(model, ledger, |kept| kept.job == seen.job);
        }
        lines::judge_line(model, seen, ledger);
    }

    /// A log has turned out to be that of a job.
    pub fn adopt(&mut self, from: &str, to: &str) {
        self.0.iter_mut().filter(|kept| kept.job == from).for_each(|kept| kept.job = to.to_owned());
    }

    /// Judges what is proven by now, and forgets what was caught.
    pub fn tick(&mut self, model: &Model, ledger: &mut Ledger) {
        if self.0.is_empty() {
            return;
        }
        let stepped = |kept: &Kept| model.progress_of(&kept.job).and_then(|p| p.last_step_at).is_some_and(|at| at > kept.at);
        let is_past = |kept: &Kept| if kept.of_before { stepped(kept) } else { model.now.since(kept.at) >= CAUGHT };
        self.0.retain(|kept| !is_past(kept) || model.jobs.get(&kept.job).is_none_or(|job| !all_live(model, job)));
        self.warn(model, ledger, stepped);
        let stands = |kept: &Kept| {
            if kept.of_before {
                return model.jobs.get(&kept.job).is_none_or(|job| !is_beginning(model, job));
            }
            let progress = model.progress_of(&kept.job);
            let patience = progress.map_or(NO_STEP_FOR, |p| p.patience().min(NO_STEP_FOR));
            // Before the first step it goes on while it prints: it tries the next batch.
            let goes_on = || model.files.get(&kept.file).and_then(|log| log.last_line_at);
            let last = progress.and_then(|p| p.last_step_at).or_else(goes_on).map_or(kept.at, |at| at.max(kept.at));
            model.now.since(last) >= patience
        };
        self.release(model, ledger, |kept| model.jobs.get(&kept.job).is_none_or(|job| !all_live(model, job)) || stands(kept));
    }

    /// A job that makes steps although a file system failed it does not know what it has lost.
    fn warn(&mut self, model: &Model, ledger: &mut Ledger, stepped: impl Fn(&Kept) -> bool) {
        for kept in self.0.iter_mut().filter(|kept| !kept.is_told && !kept.of_before) {
            let What::Exception(exception) = &kept.event.what else { continue };
            let text = error_words::exception_words(exception);
            let signature = catalog::find(Scope::Line, &text).filter(|signature| signature.rule == crate::rules::STORAGE_FAILED);
            // Who is about to end of it does so by then.
            let goes_on =
                model.now.since(kept.at) >= GOES_ON && stepped(kept) && model.jobs.get(&kept.job).is_some_and(|job| all_live(model, job));
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
        let (due, left): (VecDeque<Kept>, VecDeque<Kept>) = std::mem::take(&mut self.0).into_iter().partition(proven);
        self.0 = left;
        for kept in due {
            let Kept { at, since, file, line, rank, times, .. } = kept;
            let seen = TextSeen { at, since, file, line, text: &kept.text, event: &kept.event, rank, job: kept.job, backlog: false, times };
            lines::judge_line(model, &seen, ledger);
        }
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

/// Its processes are seen, and all of them live.
fn all_live(model: &Model, job: &Job) -> bool {
    let mut pids = job.pids().chain(job.launcher).peekable();
    pids.peek().is_some() && pids.all(|pid| model.processes.get(&pid).is_some_and(|p| p.is_alive()))
}

fn has_failed(ledger: &Ledger, job: &str) -> bool {
    ledger.first_open(|f| f.job.as_deref() == Some(job) && super::causality::is_failure(f)).is_some()
}
