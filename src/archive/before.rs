//! What a program said last before it failed: the ordinary line above a failure often tells what it was about to do.

use super::Report;
use super::inputs::Input;
use super::kinds::Opened;
use crate::base::{clean, mask};
use crate::logs::prefilter::{self, Class};
use crate::logs::{Written, known_by, prefix, when};
use crate::observe::evidence::Evidence;
use std::io::Read;

/// Larger files are not read a second time.
const LARGEST: u64 = 32 << 20;
/// Lines above the failure that are looked at: the tracebacks of all ranks of a node may stand there.
const MOST_LINES: usize = 400;
const LONGEST: usize = 160;

/// The line that stands before the proof of the cause, if it is one of a program that goes about its work.
pub fn of(report: &Report, inputs: &[Input]) -> Option<Evidence> {
    let cause = &report.findings[report.root_cause?];
    let proof = cause.evidence.first()?;
    let (path, line) = (proof.path.as_deref()?, usize::try_from(proof.line?).ok()?);
    let input = inputs.iter().find(|input| input.name == path && input.size_bytes.is_some_and(|bytes| bytes <= LARGEST))?;
    let mut text = Vec::new();
    Opened::of(input).ok()?.take(LARGEST).read_to_end(&mut text).ok()?;
    let lines: Vec<&[u8]> = text.split(|b| *b == b'\n').take(line.saturating_sub(1)).collect();
    let above = lines.iter().enumerate().rev().take(MOST_LINES);
    for (at, line) in above {
        // A bar is drawn over itself.
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let line = line.rsplit(|b| *b == b'\r').next().unwrap_or_default();
        match look(&String::from_utf8_lossy(line)) {
            Look::Says(words, written) => {
                let model = report.model();
                let log = model.files.values().find(|log| log.info.path == path);
                let said_at = written.zip(log).and_then(|(written, log)| when::stamp_of(&written, log.modified(model.now), model.zone));
                return Some(Evidence { path: Some(path.into()), line: Some(at as u64 + 1), at: said_at, ..Evidence::of("line", words) });
            }
            Look::Passes => {}
            // How far training had come is told elsewhere.
            Look::Steps => return None,
        }
    }
    None
}

enum Look {
    /// The words, and the time that the line carries.
    Says(String, Option<Written>),
    Passes,
    Steps,
}

fn look(line: &str) -> Look {
    const LEAST_LETTERS: usize = 12;
    let line = clean::clean(line);
    let peeled = prefix::peel(&line);
    let said = peeled.rest;
    let is_inner = said.starts_with("  ") || said.starts_with('\t') || said.starts_with(['^', '~', '|', '+', '}', ']', ')']);
    let of_traceback = ["Traceback", "During handling", "The above exception", "Exception raised from", "frame #", "File \""];
    let words = said.trim();
    let letters = words.chars().filter(|c| c.is_alphabetic()).count();
    if is_inner
        || letters < LEAST_LETTERS
        || !words.contains(' ')
        || of_traceback.iter().any(|start| words.starts_with(start))
        || line.contains("NCCL INFO")
        || line.contains("Warning: ")
        || prefilter::classify(line.as_bytes()) == Class::Alarm
    {
        return Look::Passes;
    }
    match known_by(&line).reader.as_deref() {
        Some("step") => Look::Steps,
        Some("run-start") => Look::Passes,
        _ => {
            let level = ["INFO", "[INFO]", "INFO:", "DEBUG", "[DEBUG]"]
                .iter()
                .find_map(|level| words.strip_prefix(level)?.strip_prefix([' ', ':']));
            let words = level.map_or(words, |rest| rest.trim_start_matches([' ', '-', ':']));
            Look::Says(clean::clip(&mask::text(words), LONGEST).into_owned(), peeled.origin.written.clone())
        }
    }
}
