//! How long a job has spent in each phase of its start.

use super::verdict::{State, Verdict};
use crate::base::time::{Stamp, span};
use crate::model::job::Job;
use std::time::Duration;

/// The phases of a start, in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Startup {
    phases: Vec<(&'static str, Stamp)>,
    /// When it trained, or stood.
    over_at: Option<Stamp>,
}

/// A start has four; one that goes to and fro is cut.
const MAX_PHASES: usize = 16;

impl Startup {
    /// Notes what a job does at this moment.
    pub fn note(&mut self, now: Stamp, job: &Job, verdict: &Verdict) {
        if let (Some(restarted), Some((_, first))) = (job.restarted_at, self.phases.first())
            && *first < restarted
        {
            *self = Startup::default();
        }
        match (verdict.state, verdict.phase) {
            (State::Starting, Some(phase)) if self.over_at.is_none() => {
                let began = if self.phases.is_empty() { job.restarted_at.unwrap_or(job.first_seen) } else { now };
                if self.phases.last().is_none_or(|(last, _)| *last != phase) && self.phases.len() < MAX_PHASES {
                    self.phases.push((phase, began));
                }
            }
            (State::Starting, _) => {}
            _ if self.phases.is_empty() => {}
            _ => drop(self.over_at.get_or_insert(now)),
        }
    }

    /// How long each took, the last one so far.
    pub fn took(&self, now: Stamp) -> Vec<(&'static str, Duration)> {
        let ends = self.phases.iter().skip(1).map(|(_, at)| *at).chain([self.over_at.unwrap_or(now)]);
        self.phases.iter().zip(ends).map(|((phase, from), to)| (*phase, to.since(*from))).collect()
    }

    /// `imports 12 s, NCCL initialisation 4 s`, where there was more than one phase.
    pub fn words(&self, now: Stamp) -> Option<String> {
        let took = self.took(now);
        let words = || took.iter().map(|(phase, for_)| format!("{phase} {}", span(*for_))).collect::<Vec<_>>().join(", ");
        (took.len() > 1).then(words)
    }
}
