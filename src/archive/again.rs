//! What a second look at the inputs tells, once it is known which of their lines matter.

use super::inputs::Input;
use super::kinds::Opened;
use super::warned::{self, Warned};
use super::{Report, around, at_end, before, beside, call, last_step, mpi_stack, outcome, span, stack, table};
use crate::base::time::Stamp;
use crate::observe::evidence::Evidence;
use memchr::memchr_iter;
use std::io::Read;

/// Larger files are not read a second time.
const LARGEST: u64 = 32 << 20;
/// Lines around the proof of the cause that are looked at: above it the tracebacks of all ranks of a node may stand.
const MOST_ABOVE: usize = 400;
const MOST_BELOW: usize = 40;

#[derive(Default)]
pub struct Again {
    /// The last ordinary line before the proof of the cause.
    pub before: Option<Evidence>,
    /// The lines around the proof of the cause.
    pub around: Vec<Evidence>,
    /// The line beside the proof that says why, where the proof does not.
    pub beside: Option<Evidence>,
    /// The newest time that a line shortly above the proof carries, and its number.
    pub above: Option<(Stamp, u64)>,
    /// What NCCL was about when the call failed that is the cause.
    pub call: Option<String>,
    /// The calls of the native stack below the cause, from the outside in.
    pub calls: Option<String>,
    /// Why the call failed that MPI ended a rank for.
    pub of_stack: Option<String>,
    /// The newest line that told a step.
    pub last_step: Option<Evidence>,
    /// Tables of numbers that a benchmark printed.
    pub tables: Vec<Evidence>,
    /// How the run came out, in its own words.
    pub came_out: Vec<outcome::CameOut>,
    /// The first and the last time that lines carry.
    pub span: Option<(Stamp, Stamp)>,
    /// Where nothing is wrong: what each log said last.
    pub at_end: Vec<at_end::SaidLast>,
    /// Where nothing is wrong: what the logs warn of and go on, and how many more kinds of it there are.
    pub warned: (Vec<Warned>, usize),
}

impl Again {
    pub fn of(report: &Report, inputs: &[Input]) -> Again {
        let mut again = Again {
            last_step: last_step::of(report, inputs),
            at_end: at_end::of(report, inputs),
            tables: table::of(report, inputs),
            came_out: outcome::of(report, inputs),
            span: span::of(report, inputs),
            warned: warned::of(report, inputs),
            ..Again::default()
        };
        let proof = report.root_cause.and_then(|cause| report.findings[cause].evidence.first());
        let Some((path, line)) = proof.and_then(|proof| Some((proof.path.as_deref()?, usize::try_from(proof.line?).ok()?))) else {
            return again;
        };
        let from = line.saturating_sub(MOST_ABOVE).max(1);
        let Some(text) = text_of(path, inputs).and_then(|text| lines(&text, from, line + MOST_BELOW)) else { return again };
        let proof = Proof { path, line, from, lines: text.split(|b| *b == b'\n').collect() };
        // A file whose end cannot be read may not have it.
        if line < from || proof.lines.len() <= line - from {
            return again;
        }
        again.before = before::of(report, &proof);
        again.around = around::of(&proof);
        again.beside = beside::of(report, &proof);
        again.of_stack = mpi_stack::of(report, &proof);
        again.above = before::time_above(report, &proof);
        let stack = stack::of(&proof);
        again.call = call::of(report, &proof).or_else(|| stack.doing.map(str::to_owned));
        again.calls = stack.calls;
        again
    }
}

/// The line that proves the cause, among those around it.
pub(super) struct Proof<'a> {
    pub path: &'a str,
    /// From 1.
    pub line: usize,
    /// The number of the first of `lines`.
    from: usize,
    lines: Vec<&'a [u8]>,
}

impl<'a> Proof<'a> {
    #[cfg(test)]
    pub fn of(path: &'a str, line: usize, text: &'a str) -> Proof<'a> {
        Proof { path, line, from: 1, lines: text.as_bytes().split(|b| *b == b'\n').collect() }
    }

    pub fn own(&self) -> &'a [u8] {
        self.lines[self.line - self.from]
    }

    /// The lines above it with their numbers, the next one first.
    pub fn above(&self) -> impl Iterator<Item = (usize, &'a [u8])> {
        let from = self.from;
        self.lines[..self.line - from].iter().enumerate().rev().map(move |(at, line)| (from + at, *line))
    }

    /// It and the lines around it with their numbers, in their order: so many above it, and so many below.
    pub fn near(&self, above: usize, below: usize) -> impl Iterator<Item = (usize, &'a [u8])> {
        let (from, at) = (self.from, self.line - self.from);
        let first = at.saturating_sub(above);
        let last = (at + below + 1).min(self.lines.len());
        self.lines[first..last].iter().enumerate().map(move |(i, line)| (from + first + i, *line))
    }

    /// The lines behind it.
    pub fn below(&self) -> impl Iterator<Item = &'a [u8]> {
        self.lines[self.line - self.from + 1..].iter().copied()
    }
}

/// The lines from one number to another, or to the end.
fn lines(text: &[u8], from: usize, to: usize) -> Option<Vec<u8>> {
    let mut ends = memchr_iter(b'\n', text);
    let start = if from <= 1 { 0 } else { ends.nth(from - 2)? + 1 };
    let end = ends.nth(to - from).unwrap_or(text.len());
    Some(text[start..end].to_vec())
}

/// A line by its number.
pub(super) fn line_of(path: &str, line: usize, inputs: &[Input]) -> Option<Vec<u8>> {
    lines(&text_of(path, inputs)?, line, line)
}

/// The bytes of the input of that name, if it is a file that may be read again.
pub(super) fn text_of(path: &str, inputs: &[Input]) -> Option<Vec<u8>> {
    let input = inputs.iter().find(|input| input.name == path && input.size_bytes.is_some_and(|bytes| bytes <= LARGEST))?;
    let mut text = Vec::new();
    Opened::of(input).ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
    Some(text)
}

/// What a terminal shows of a line in the end: a bar is drawn over itself.
pub(super) fn last_drawn(line: &[u8]) -> &[u8] {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    line.rsplit(|b| *b == b'\r').next().unwrap_or_default()
}
