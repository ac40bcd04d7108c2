//! What the logs of a run in which no fault was seen said last: the state in which it ended, or in which the log was cut.

use super::before::{Look, look};
use super::inputs::Input;
use super::{Report, Verdict, again};
use crate::observe::evidence::Evidence;

/// Of more logs nobody reads what each said last.
pub const MOST_LOGS: usize = 3;
/// Of fewer lines of a program that is not known, the last tells nothing.
const LEAST_LINES: usize = 5;
/// Lines at the end of a log that are looked at.
const MOST_LINES: usize = 40;

/// An ordinary line at the end of a log.
#[derive(Debug)]
pub struct SaidLast {
    pub said: Evidence,
    /// Below it stand lines that are no sentences: numbers, parts of a record.
    pub more_below: bool,
}

/// The last ordinary line of each log; none of one whose last word is a step, which is told elsewhere.
pub(super) fn of(report: &Report, inputs: &[Input]) -> Vec<SaidLast> {
    let logs: Vec<(&String, Option<u64>)> = report.model().files.values().map(|log| (&log.info.path, log.progress.line)).collect();
    if report.root_cause.is_some() || report.verdict == Verdict::Fail || logs.len() > MOST_LOGS {
        return Vec::new();
    }
    let unknown = report.verdict == Verdict::Unknown;
    let is_told = |text: &Vec<u8>| !unknown || memchr::memchr_iter(b'\n', text).count() >= LEAST_LINES;
    logs.into_iter().filter_map(|(path, step)| last_of(path, &again::text_of(path, inputs).filter(is_told)?, step)).collect()
}

/// `step` is the line of the newest step.
fn last_of(path: &str, text: &[u8], step: Option<u64>) -> Option<SaidLast> {
    let lines = text.iter().filter(|b| **b == b'\n').count() + usize::from(!text.ends_with(b"\n"));
    let mut more_below = false;
    for (up, line) in text.strip_suffix(b"\n").unwrap_or(text).rsplit(|b| *b == b'\n').take(MOST_LINES).enumerate() {
        let line_no = u64::try_from(lines - up).ok();
        if step.is_some() && line_no <= step {
            return None;
        }
        let line = String::from_utf8_lossy(again::last_drawn(line));
        let words = match look(&line) {
            Look::Says(words, _) => words,
            Look::Passes if !more_below && is_farewell(line.trim()) => line.trim().to_owned(),
            Look::Passes => {
                // What NCCL says when it ends is no word of the program.
                more_below |= line.bytes().any(|b| b.is_ascii_alphanumeric()) && !line.contains("NCCL INFO");
                continue;
            }
            Look::Steps => return None,
        };
        let said = Evidence { path: Some(path.to_owned()), line: line_no, ..Evidence::of("line", words) };
        return Some(SaidLast { said, more_below });
    }
    None
}

/// `Done!`: a word with which programs end, too short to be a sentence.
fn is_farewell(line: &str) -> bool {
    const WORDS: [&str; 7] = ["done", "finished", "completed", "success", "exiting", "bye", "all done"];
    WORDS.iter().any(|word| line.trim_end_matches(['.', '!']).eq_ignore_ascii_case(word))
}
