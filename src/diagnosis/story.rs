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
    pub fn note(&mut self, job: &str, verdict: &Verdict) {
        let before = self.0.iter().rev().find(|c| c.job == job);
        if before.is_some_and(|b| (b.state, b.phase) == (verdict.state, verdict.phase)) {
            return;
        }
        // A state may have begun some time before it is judged, but not before the one that it follows.
        let since = before.map_or(verdict.since, |b| b.since.max(verdict.since));
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
