//! Which states the jobs went through: what the screen marks on its time axis.

use super::verdict::{State, Verdict};
use crate::base::time::Stamp;
use std::collections::VecDeque;

/// A state of a job, and from when on it was in it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chapter {
    pub job: String,
    pub state: State,
    pub phase: Option<&'static str>,
    pub since: Stamp,
}

/// The newest changes of state of all jobs, in the order in which they were judged.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Story(VecDeque<Chapter>);

impl Story {
    const MOST: usize = 256;

    /// Takes the state of a job where it is another than before.
    pub fn note(&mut self, now: Stamp, job: &str, verdict: &Verdict) {
        let is_same = |c: &Chapter| (c.state, c.phase) == (verdict.state, verdict.phase);
        if self.of(job).next_back().is_some_and(is_same) {
            return;
        }
        if matches!(verdict.state, State::Stuck | State::Failed) {
            // It has stood still since then: what milder states were said of the time after that was wrong.
            let is_refuted = |c: &Chapter| c.job == job && c.since > verdict.since && c.state < State::Slow;
            self.0.retain(|c| !is_refuted(c));
            if self.of(job).next_back().is_some_and(is_same) {
                return;
            }
        }
        // A state may have begun some time before it is judged. One that comes back begins anew.
        let since = match self.of(job).next_back() {
            Some(before) if before.since >= verdict.since => now,
            _ => verdict.since,
        };
        if self.0.len() == Self::MOST {
            self.0.pop_front();
        }
        self.0.push_back(Chapter { job: job.to_owned(), state: verdict.state, phase: verdict.phase, since });
    }

    /// A job is known by another name from now on.
    pub fn adopt(&mut self, from: &str, to: &str) {
        self.0.iter_mut().filter(|c| c.job == from).for_each(|c| to.clone_into(&mut c.job));
    }

    /// The states of a job, oldest first.
    pub fn of<'a>(&'a self, job: &'a str) -> impl DoubleEndedIterator<Item = &'a Chapter> {
        self.0.iter().filter(move |c| c.job == job)
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
