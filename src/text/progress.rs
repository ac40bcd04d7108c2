//! Training progress in the dialects of the common trainers: steps, pauses, ends. Requires a number and what it counts; prose is no step.

mod bar;
mod dict;
mod lines;
mod megatron;
mod phase;
mod plain;
mod scan;

use super::prefix::Peeled;
use super::{Phase, Step, TextEvent, What};

/// What one line of a file leaves for the next: which bar is the training, and the heads of multi-line blocks.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    bars: bar::Bars,
    /// Composer prints its batch number on a line of its own.
    batch: Option<Step>,
}

/// Longer lines hold configurations and data, not progress.
const MAX_LINE: usize = 4096;

impl State {
    pub fn read(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) {
        let text = p.rest;
        if text.len() > MAX_LINE {
            return;
        }
        let mut tell = |what| out.push(TextEvent { origin: p.origin.clone(), what, said_at: None });
        if self.bars.read(text, &mut tell) {
            return;
        }
        phase::read(text, &mut tell);
        if let Some(what) = dict::read(text) {
            return what.into_iter().for_each(tell);
        }
        if let Some(found) = megatron::read(text) {
            return found.into_iter().for_each(tell);
        }
        match lines::read(text, &mut self.batch).or_else(|| plain::read(text)) {
            Some(step) => {
                self.bars.step_seen();
                tell(What::Step(step));
            }
            None => lines::other(text).into_iter().for_each(tell),
        }
    }
}

fn phase_event(phase: Phase, begins: bool) -> What {
    What::Phase { phase, begins }
}
