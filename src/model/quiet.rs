//! A log that is silent for longer than its job has shown: worth a look, before anybody can be judged.

use super::Model;
use super::progress::Progress;
use crate::base::time::span;
use std::time::Duration;

/// No step for longer than this job has shown, be it between two steps, for an evaluation or for a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quiet {
    pub lasts: Duration,
    /// From one progress line to the next, seconds.
    pub usual_s: f64,
}

impl Quiet {
    /// `no step for 8 s (usually a line every 0.1 s)`
    pub fn words(&self) -> String {
        format!("no step for {} (usually a line every {})", span(self.lasts), usual_words(self.usual_s))
    }
}

/// `40 ms`, `0.1 s`, `12 s`: what is usual is no measurement.
pub fn usual_words(s: f64) -> String {
    match s {
        s if s < 0.095 => format!("{:.0} ms", s * 1e3),
        s if s < 9.5 => format!("{s:.1} s"),
        s => span(Duration::try_from_secs_f64(s.round()).unwrap_or_default()),
    }
}

impl Model {
    /// How long ago the newest step was made, but for the time in which nobody looked.
    pub fn step_age(&self, progress: &Progress) -> Option<Duration> {
        Some(self.now.since(self.watched(progress.last_step_at?)))
    }

    /// What the progress lines of a job say is not of now: it made no step for longer than it has shown. One
    /// that has ended makes none.
    pub fn quiet(&self, job: &str) -> Option<Quiet> {
        self.jobs.get(job).filter(|job| job.ended_at.is_none())?;
        let progress = self.progress_of(job).filter(|p| p.done_at.is_none() && !p.has_made_its_last_step())?;
        let (lasts, after) = (self.step_age(progress)?, progress.look_after()?);
        let (usual_s, _) = progress.usual_gap_s()?;
        (lasts > after).then_some(Quiet { lasts, usual_s })
    }
}
