//! Exceptions that a program may have caught. A traceback alone ends nothing: a library prints one and tries again. One that nothing
//! proves to be the end of a rank is kept back until something does: a process of the job is gone, something else fails, or no step comes
//! any more. While the job goes on it is not told.

use super::lines;
use crate::base::time::Stamp;
use crate::logs::{TextEvent, What};
use crate::model::job::Job;
use crate::model::{Model, TextSeen};
use crate::rules::findings::Ledger;
use std::collections::VecDeque;
use std::time::Duration;

/// Before the pace of steps is known, and where it is slow, no more than this.
const NO_STEP_FOR: Duration = Duration::from_secs(15);
/// It goes on for so long after it: it was caught.
const CAUGHT: Duration = Duration::from_secs(60);
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
}

impl Unproven {
    /// Judges what a line says, or keeps it back. What fails for certain proves what came before it.
    pub fn judge(&mut self, model: &Model, seen: &TextSeen, ledger: &mut Ledger) {
        let job = model.jobs.get(&seen.job).filter(|job| !seen.backlog && all_live(model, job));
        if job.is_some() && may_be_caught(seen) && !has_failed(ledger, &seen.job) {
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
        self.0.retain(|kept| model.now.since(kept.at) < CAUGHT || model.jobs.get(&kept.job).is_none_or(|job| !all_live(model, job)));
        let stands = |kept: &Kept| {
            let progress = model.progress_of(&kept.job);
            let patience = progress.map_or(NO_STEP_FOR, |p| p.patience().min(NO_STEP_FOR));
            let last = progress.and_then(|p| p.last_step_at).map_or(kept.at, |at| at.max(kept.at));
            model.now.since(last) >= patience
        };
        self.release(model, ledger, |kept| model.jobs.get(&kept.job).is_none_or(|job| !all_live(model, job)) || stands(kept));
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

/// PyTorch prints `[rank3]: ` in front of what nobody has caught, and only there (2.2 and later).
fn may_be_caught(seen: &TextSeen) -> bool {
    matches!(seen.event.what, What::Exception(_)) && seen.event.origin.rank.is_none()
}

/// Its processes are seen, and all of them live.
fn all_live(model: &Model, job: &Job) -> bool {
    let mut pids = job.pids().chain(job.launcher).peekable();
    pids.peek().is_some() && pids.all(|pid| model.processes.get(&pid).is_some_and(|p| p.is_alive()))
}

fn has_failed(ledger: &Ledger, job: &str) -> bool {
    ledger.first_open(|f| f.job.as_deref() == Some(job) && super::causality::is_failure(f)).is_some()
}
