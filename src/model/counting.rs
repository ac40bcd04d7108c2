//! Lines of a log that come again and again and count something, whatever they are called: where no line names a step, they show that a
//! job goes round, and how often.

use super::series::Series;
use crate::base::time::Stamp;
use core::hash::{Hash, Hasher};
use std::collections::VecDeque;
use std::hash::DefaultHasher;
use std::time::Duration;

/// Shapes that are remembered; a trainer has a few.
const MAX_SHAPES: usize = 8;
/// How much of a line is looked at, and how many of its numbers.
const MAX_BYTES: usize = 256;
const MAX_COUNTS: usize = 6;
/// Lines in a row that count on by the same.
const LEAST: u32 = 5;
/// So many lines in a row, each so many times as late as is usual, are no pause.
const LATE_LINES: usize = 3;
const LATE: f64 = 2.0;
/// After so many it is the usual.
const SETTLED: usize = 12;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counting {
    shapes: VecDeque<Shape>,
}

/// Lines that differ only in their numbers.
#[derive(Clone, Debug, PartialEq)]
struct Shape {
    hash: u64,
    last_at: Stamp,
    last: [u64; MAX_COUNTS],
    /// By how much each number grew with the last line; `None` where it did not grow.
    strides: [Option<u64>; MAX_COUNTS],
    in_a_row: u32,
    gaps: Series<16>,
    /// Seconds between two of them when they first came at equal times.
    usual_s: Option<f64>,
}

/// The lines that count on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// From one to the next.
    pub every: Duration,
    /// They come at equal times, as steps do and requests do not.
    pub steady: bool,
    pub slowed: Option<Slowed>,
}

/// Lines that count on by as much as ever come later, each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slowed {
    pub since: Stamp,
    pub last_at: Stamp,
    pub before: Duration,
    pub now: Duration,
    pub lines: usize,
}

impl Shape {
    /// They come at equal times. Lines are read twice a second at least.
    fn steady(&self, usual_s: f64) -> bool {
        self.gaps.iter().all(|(_, gap)| (gap - usual_s).abs() <= (usual_s * 0.2).max(0.25))
    }

    fn slowed(&self) -> Option<Slowed> {
        let before_s = self.usual_s?;
        // What is read twice a second tells no shorter time.
        let least_s = (before_s * LATE).max(1.0);
        let late = self.gaps.iter().rev().map(|(_, gap)| gap).take_while(|gap| *gap >= least_s);
        let (lines, took_s) = late.fold((0, 0.0), |(lines, took_s), gap| (lines + 1, took_s + gap));
        if lines < LATE_LINES {
            return None;
        }
        let duration = |s| Duration::try_from_secs_f64(s).ok();
        Some(Slowed {
            since: self.last_at.minus(duration(took_s)?),
            last_at: self.last_at,
            before: duration(before_s)?,
            now: duration(self.gaps.median_of_last(LATE_LINES)?)?,
            lines,
        })
    }
}

impl Counting {
    pub fn read(&mut self, at: Stamp, line: &str) {
        let (hash, counts) = taken_apart(line);
        let Some(shape) = self.shapes.iter_mut().find(|s| s.hash == hash) else {
            if self.shapes.len() == MAX_SHAPES {
                self.shapes.pop_front();
            }
            let strides = [None; MAX_COUNTS];
            self.shapes.push_back(Shape { hash, last_at: at, last: counts, strides, in_a_row: 1, gaps: Series::default(), usual_s: None });
            return;
        };
        let mut strides = [None; MAX_COUNTS];
        for (i, stride) in strides.iter_mut().enumerate() {
            *stride = counts[i].checked_sub(shape.last[i]).filter(|grown| *grown > 0);
        }
        let goes_on = |i: usize| strides[i].is_some() && (shape.in_a_row < 2 || strides[i] == shape.strides[i]);
        shape.in_a_row = if (0..MAX_COUNTS).any(goes_on) { shape.in_a_row.saturating_add(1) } else { 1 };
        if shape.in_a_row == 1 {
            (shape.gaps, shape.usual_s) = (Series::default(), None);
        } else {
            shape.gaps.push(at, at.secs_since(shape.last_at).max(0.0));
            // A number beside it that counts by something else says that each line stands for more, or for less.
            let all_go_on = (0..MAX_COUNTS).all(|i| strides[i] == shape.strides[i]);
            if shape.in_a_row > 2 && !all_go_on {
                (shape.gaps, shape.usual_s) = (Series::default(), None);
            } else if shape.usual_s.is_none() && shape.gaps.len() >= LEAST as usize {
                shape.usual_s = shape.gaps.median_of_last(16).filter(|usual| shape.steady(*usual));
            } else if shape.slowed().is_some_and(|slowed| slowed.lines >= SETTLED) {
                shape.usual_s = None;
            }
        }
        (shape.last_at, shape.last, shape.strides) = (at, counts, strides);
    }

    /// Of the lines that come least often, if several kinds count: each step may have several of another.
    pub fn counted(&self) -> Option<Counted> {
        let counted = |shape: &Shape| {
            let usual_s = shape.gaps.median_of_last(16)?;
            Some(Counted { every: Duration::try_from_secs_f64(usual_s).ok()?, steady: shape.steady(usual_s), slowed: shape.slowed() })
        };
        let all = self.shapes.iter().filter(|s| s.in_a_row >= LEAST).filter_map(counted);
        all.max_by_key(|counted| counted.every)
    }
}

/// What is left of a line without its numbers, and those that are whole: no part of a decimal, of a time of day, or of a word.
fn taken_apart(line: &str) -> (u64, [u64; MAX_COUNTS]) {
    let bytes = &line.as_bytes()[..line.len().min(MAX_BYTES)];
    let (mut hasher, mut counts, mut n) = (DefaultHasher::new(), [0; MAX_COUNTS], 0);
    let mut at = 0;
    while at < bytes.len() {
        let digits = bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count();
        if digits == 0 {
            // Numbers that grow push blanks aside.
            if bytes[at] != b' ' {
                bytes[at].hash(&mut hasher);
            }
            at += 1;
            continue;
        }
        b'0'.hash(&mut hasher);
        let before = at.checked_sub(1).map_or(b' ', |i| bytes[i]);
        let after = bytes.get(at + digits).copied().unwrap_or(b' ');
        let is_part = |b: u8| b.is_ascii_alphabetic() || matches!(b, b'.' | b':' | b'-' | b'+');
        let is_decimal = after == b'.' && bytes.get(at + digits + 1).is_some_and(u8::is_ascii_digit);
        let whole = !(is_part(before) || after.is_ascii_alphabetic() || is_decimal);
        if whole
            && n < MAX_COUNTS
            && let Some(count) = line.get(at..at + digits).and_then(|text| text.parse().ok())
        {
            counts[n] = count;
            n += 1;
        }
        at += digits;
    }
    (hasher.finish(), counts)
}
