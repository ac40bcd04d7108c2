//! How often a device is asked whose answers fail or take long: each bad answer doubles the pause up to a bound, some good ones in a row
//! end it. A driver that logs an error for every failing command must not fill the kernel's log once a second, and a slow one must not
//! hold up the others.

use super::{Complaint, Hint};
use crate::base::time::span;
use crate::observe::SourceState;
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// 64 polls lie between two questions at most: a minute, at one poll per second.
const MOST_DOUBLINGS: u32 = 6;
/// So many good answers in a row, and it is asked at every poll again.
const GOOD_IN_A_ROW: u32 = 3;
/// An answer is slow when it takes more than this part of the time between two polls.
const SLOW_PART: u32 = 20;
/// Answers that are remembered for the words.
const REMEMBERED: u32 = 8;

/// How an answer came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Good,
    Slow,
    Failed,
}

impl Answer {
    /// Of a question that took so long, with `every` between two polls.
    pub fn within(took: Duration, every: Duration) -> Answer {
        if took > every / SLOW_PART { Answer::Slow } else { Answer::Good }
    }
}

/// What drivers complained about since the last look.
pub fn complaints(inbox: Option<&Receiver<Hint>>) -> Vec<Complaint> {
    let hints = inbox.into_iter().flat_map(Receiver::try_iter);
    hints.filter_map(|hint| if let Hint::Complaint(complaint) = hint { Some(complaint) } else { None }).collect()
}

/// What a source says of itself whose devices have these paces, in words; `None` while all are well.
pub fn remark(paced: impl Iterator<Item = String>) -> Option<(SourceState, String)> {
    const NAMED: usize = 3;
    let paced: Vec<String> = paced.collect();
    let more = paced.len().saturating_sub(NAMED);
    let named = paced[..paced.len().min(NAMED)].join("; ");
    let more = if more > 0 { format!("; {more} more devices") } else { String::new() };
    (!named.is_empty()).then(|| (SourceState::Slow, named + &more))
}

/// The pace of one device.
#[derive(Debug, Default)]
pub struct Pace {
    doublings: u32,
    polls_to_next: u32,
    good_in_a_row: u32,
    /// Since it was last well, the newest in the lowest bit: which answers were bad.
    bad: u32,
    asked: u32,
    worst: Option<Answer>,
    /// The newest line of the kernel's log that says so.
    complaint: Option<String>,
}

impl Pace {
    /// Whether to ask at this poll.
    pub fn is_due(&mut self) -> bool {
        let due = self.polls_to_next == 0;
        self.polls_to_next = self.polls_to_next.saturating_sub(1);
        due
    }

    pub fn is_normal(&self) -> bool {
        self.doublings == 0
    }

    pub fn answered(&mut self, answer: Answer) {
        let is_bad = answer != Answer::Good;
        if self.is_normal() && !is_bad {
            return;
        }
        self.bad = self.bad << 1 | u32::from(is_bad);
        self.asked = (self.asked + 1).min(REMEMBERED);
        if is_bad {
            self.good_in_a_row = 0;
            self.doublings = (self.doublings + 1).min(MOST_DOUBLINGS);
            self.worst = if self.worst == Some(Answer::Failed) { self.worst } else { Some(answer) };
        } else {
            self.good_in_a_row += 1;
            if self.good_in_a_row >= GOOD_IN_A_ROW {
                *self = Pace::default();
            }
        }
        self.polls_to_next = (1 << self.doublings) - 1;
    }

    /// The driver has logged an error about the last question: that was no good answer, whatever came.
    pub fn complained(&mut self, line: String) {
        // Of one question there may be many lines, and the answer may have been bad already.
        if self.is_normal() || self.bad & 1 == 0 {
            (self.bad, self.asked) = (self.bad >> 1, self.asked.saturating_sub(1));
            self.answered(Answer::Failed);
        }
        self.complaint = Some(line);
    }

    /// `2 of 3 reads fail, asked every 8 s`, and what the kernel's log has about it; `None` while it is asked at every poll.
    pub fn words(&self, every: Duration) -> Option<String> {
        if self.is_normal() {
            return None;
        }
        let bad = (self.bad & ((1 << self.asked) - 1)).count_ones();
        let what = if self.worst == Some(Answer::Failed) { "fail" } else { "are slow" };
        let asked = span(every * (1 << self.doublings));
        let log = self.complaint.as_ref().map(|line| format!(" (kernel log: {line})")).unwrap_or_default();
        Some(format!("{bad} of {} reads {what}, asked every {asked}{log}", self.asked))
    }
}
