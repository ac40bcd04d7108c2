//! How long steps took by when their lines came, kept beside what lines tell of it themselves, for when that turns out to be something else.

use crate::base::time::Stamp;
use std::collections::VecDeque;

/// At least a second in which steps were made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stretch {
    pub from: Stamp,
    pub to: Stamp,
    pub steps: u64,
    /// What was done a second, as the line says.
    pub rate: Option<f64>,
    /// A loss had been told by then: steps that a resumed run passes over have none.
    pub has_loss: bool,
}

impl Stretch {
    pub fn per_step_s(&self) -> f64 {
        self.to.secs_since(self.from) / self.steps as f64
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Arrivals {
    stretches: VecDeque<Stretch>,
    /// Of them in a row: those in which lines told far more, and more each time; and those in which a bar told far less.
    longer: u32,
    shorter: u32,
    /// What a line told at the end of the last one, seconds.
    told_s: f64,
}

const MOST: usize = 600;

impl Arrivals {
    /// Whether what lines tell is not the time of a step: it grows and is much longer, or a bar gives the mean since it began, which falls
    /// behind when steps become slower. `told_s` is what the newest line tells, if any does.
    pub fn push(&mut self, stretch: Stretch, told_s: Option<f64>, by_bar: bool) -> bool {
        /// A line of several steps may be late by a part of a stretch.
        const LONGER: f64 = 3.0;
        const LONGER_STRETCHES: u32 = 5;
        const SHORTER: f64 = 2.0;
        /// One is a pause.
        const SHORTER_STRETCHES: u32 = 3;
        if self.stretches.len() == MOST {
            self.stretches.pop_front();
        }
        self.stretches.push_back(stretch);
        let per_step = stretch.per_step_s();
        let is_longer = told_s.is_some_and(|told| told > per_step * LONGER && told > self.told_s);
        let is_shorter = by_bar && told_s.is_some_and(|told| told * SHORTER < per_step);
        self.told_s = told_s.unwrap_or(0.0);
        self.longer = if is_longer { self.longer + 1 } else { 0 };
        self.shorter = if is_shorter { self.shorter + 1 } else { 0 };
        self.longer >= LONGER_STRETCHES || self.shorter >= SHORTER_STRETCHES
    }

    /// Those in which steps were made, the oldest first: what is far faster than the newest ones passes over data of a run that is resumed.
    pub fn made(&self) -> Vec<Stretch> {
        const FAR_FASTER: f64 = 20.0;
        let newest = self.stretches.iter().rev().take(3).map(Stretch::per_step_s).fold(f64::INFINITY, f64::min);
        let is_made = |stretch: &&Stretch| stretch.has_loss && stretch.per_step_s() * FAR_FASTER >= newest;
        self.stretches.iter().filter(is_made).copied().collect()
    }
}
