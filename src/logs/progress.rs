//! Training progress in the dialects of the common trainers: steps, pauses, ends. Requires a number and what it counts; prose is no step.
//!
//! **A line is a step** when a dialect knows its shape, or, in no known shape, when it names a step and beside it a loss, the time of a
//! step or a rate of samples or tokens, each with its number. A dictionary of the HF Trainer has a loss and no step: it is one too, and its step is in the bar beside it.
//! Of the bars only that of the training counts; those of evaluations and of the loading of data are pauses, others nothing.
//!
//! What a step's fields mean, in all dialects:
//! - `step`, `total_steps`: optimizer steps of the training where the line has them, else batches of the epoch. NeMo 2 counts from 0.
//! - `epoch`: as printed, from 0 or from 1, whole or not.
//! - `loss`: of the training; the newest where the line also has a mean. NaN and infinity are values.
//! - `loss_missing`: the dialect always prints a loss, and this whole line has none: Megatron leaves out what is NaN.
//! - `step_time_s`: of one step, in seconds, as printed or from a rate in steps. Derived from a total only where a bar's rate has a single digit.
//! - `throughput`, `throughput_unit`: of tokens, samples or operations. Steps per second are a step time, no throughput. `/GPU` where the
//!   trainer divides by the devices.
//! - `remaining_s`: as the line says, of the whole bar or run that it counts.
//! - `bar`: redrawn in place.
//!
//! A number that the end of a torn line may have cut is left out where the dialect goes on behind it.
//!
//! **To teach it a dialect**: an entry in `assets/progress/dialects.toml`, and its lines with what they say in `tests/fixtures/progress`.
//! A pause or an end: a text in `phases.toml`. A name of a number that any program may print: `names.toml`. What has a grammar of its own
//! has a reader: bars of tqdm ([`bar`]), dictionaries ([`dict`]), the summary of wandb ([`summary`]).

mod bar;
mod dialects;
mod dict;
mod field_names;
mod scan;
mod shape;
mod summary;

use self::shape::Found;
pub use self::shape::Is;
use super::prefix::{self, Peeled};
use super::{Step, TextEvent, What};

/// What one line of a file leaves for the next.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    memory: Memory,
    /// It has shown a step, and one with a number.
    trains: bool,
    counts: bool,
}

#[derive(Clone, Default, PartialEq)]
struct Memory {
    bars: bar::Bars,
    block: dialects::Block,
    skipped: dialects::Skipped,
    /// The line before was a step whose metrics may stand on this line.
    broken: Option<Step>,
    summary: summary::Summary,
    /// The epoch that a line of its own has named: what was learnt stands on lines behind it.
    epoch: Option<f64>,
}

/// A line and what it holds, so that most dialects need not search it.
struct Line<'a> {
    /// Without blanks in front.
    head: &'a str,
    /// How many there were.
    blanks: usize,
    letters: u128,
}

impl<'a> Line<'a> {
    fn new(text: &'a str) -> Self {
        let head = text.trim_start_matches([' ', '\t']);
        Line { head, blanks: text.len() - head.len(), letters: letters(head.as_bytes()) }
    }

    fn has(&self, b: u8) -> bool {
        self.letters & letters(&[b]) != 0
    }
}

/// The ASCII characters in a text, a bit each.
fn letters(text: &[u8]) -> u128 {
    // A look-up is cheaper than to shift so many bits.
    static BITS: [u128; 128] = {
        let mut bits = [0; 128];
        let mut at = 0;
        while at < 128 {
            bits[at] = 1 << at;
            at += 1;
        }
        bits
    };
    text.iter().fold(0, |all, b| all | BITS[usize::from(b & 0x7f)])
}

/// Longer lines hold configurations and data, not progress.
const MAX_LINE: usize = 4096;

impl State {
    pub fn read(&mut self, p: &Peeled<'_>, out: &mut Vec<TextEvent>) {
        if p.rest.len() > MAX_LINE {
            return;
        }
        let line = Line::new(p.rest);
        let from = out.len();
        self.line(&line, &mut |what| out.push(TextEvent { origin: p.origin.clone(), what, said_at: None }));
        let steps = || out[from..].iter().filter_map(|event| if let What::Step(step) = &event.what { Some(step) } else { None });
        self.trains |= steps().next().is_some();
        self.counts |= steps().any(|step| step.step.is_some());
    }

    fn line(&mut self, line: &Line<'_>, tell: &mut dyn FnMut(What)) {
        let memory = &mut self.memory;
        if memory.broken.is_some()
            && let Some(before) = memory.broken.take()
            && let Some(loss) = field_names::only_metrics(line.head)
        {
            return tell(What::Step(Step { loss: Some(loss), ..before }));
        }
        if let Some(end) = bar::read(line, memory, tell) {
            // A logger goes on in the line of a bar, which has no end of its own.
            let behind = prefix::peel(&line.head[end..]).rest;
            if !behind.trim().is_empty() && !behind.contains("%|") {
                self.line(&Line::new(behind), tell);
            }
            return;
        }
        if [summary::read, dict::read, dialects::read].iter().any(|read| read(line, memory, tell)) {
            return;
        }
        if let Some(epoch) = field_names::lone_epoch(line.head) {
            memory.epoch = Some(epoch);
            return;
        }
        if let Some(epoch) = memory.epoch
            && let Some(loss) = field_names::lone_loss(line.head)
        {
            return tell(What::Step(Step { epoch: Some(epoch), loss: Some(loss), ..Step::default() }));
        }
        dialects::read_text(line, self.trains, &mut |what| {
            memory.bars.heard(&what, line.head);
            tell(what);
        });
        if let Some(step) = field_names::line(line, self.counts) {
            memory.epoch = None;
            memory.bars.step_seen();
            tell(What::Step(step));
        }
    }
}

/// What a number means in a column of this name, in small letters: as if the name stood beside it.
pub fn named(name: &str) -> Option<Is> {
    // A mean since the start says little of the step.
    if name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| matches!(word, "avg" | "mean") || field_names::is_not_of_training(word))
    {
        return None;
    }
    let meaning = |text: String| {
        let found = field_names::read(&text);
        // Seconds, milliseconds and steps a second have one place, and make other values of 2; so have rates of all units.
        let time = found.get(Is::StepTime).map(|v| {
            if v < 0.1 {
                Is::StepTimeMs
            } else if v < 1.0 {
                Is::StepsPerSecond
            } else {
                Is::StepTime
            }
        });
        let rate = || found.rank(Is::Rate(0)).map(Is::Rate);
        let others = || [Is::Loss, Is::GradNorm, Is::GlobalBatch].into_iter().find(|is| found.rank(*is).is_some());
        time.or_else(rate).or_else(others)
    };
    [format!("{name}: 2"), format!("2 {name}")].into_iter().find_map(meaning)
}

/// Puts the numbers of a row into a step that has none of their kind.
pub fn fill(numbers: impl Iterator<Item = (Is, f64)>, to: &mut Step) {
    let mut found = Found::default();
    for (is, v) in numbers {
        found.put(is, 0, if is == Is::StepTimeMs { v / 1e3 } else { v });
    }
    found.fill(to);
}
