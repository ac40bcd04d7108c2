//! What a program said last before it failed: the ordinary line above a failure often tells what it was about to do.

use super::Report;
use super::again::{self, Proof};
use crate::base::time::Stamp;
use crate::base::{clean, mask};
use crate::logs::prefilter::{self, Class};
use crate::logs::{Written, known_by, prefix};
use crate::observe::evidence::Evidence;

const LONGEST: usize = 160;

/// The line that stands before the proof of the cause, if it is one of a program that goes about its work.
pub(super) fn of(report: &Report, proof: &Proof) -> Option<Evidence> {
    let (path, line) = (proof.path, proof.line);
    // In front of the failure itself a bar may stand that it was printed behind.
    if let Some(words) = bar(&String::from_utf8_lossy(proof.own().rsplit(|b| *b == b'\r').next()?)) {
        return Some(Evidence { path: Some(path.into()), line: Some(line as u64), ..Evidence::of("line", words) });
    }
    for (at, line) in proof.above() {
        match look(&String::from_utf8_lossy(again::last_drawn(line))) {
            Look::Says(words, written) => {
                let said_at = written.and_then(|written| stamp(report, path, &written));
                return Some(Evidence { path: Some(path.into()), line: Some(at as u64), at: said_at, ..Evidence::of("line", words) });
            }
            Look::Passes => {}
            // How far training had come is told elsewhere.
            Look::Steps => return None,
        }
    }
    None
}

/// The newest time that a line shortly above the proof carries, and the number of that line. What is later than the file itself is no time of its
/// writing.
pub(super) fn time_above(report: &Report, proof: &Proof) -> Option<(Stamp, u64)> {
    const NEAR: usize = 20;
    let written = |line: &[u8]| prefix::peel(&clean::clean(&String::from_utf8_lossy(again::last_drawn(line)))).origin.written;
    let (at, stamp) = proof.above().take(NEAR).find_map(|(at, line)| Some((at, stamp(report, proof.path, &written(line)?)?)))?;
    let log = report.model().files.values().find(|log| log.info.path == proof.path)?;
    (stamp <= log.modified(report.model().now)).then_some((stamp, at as u64))
}

fn stamp(report: &Report, path: &str, written: &Written) -> Option<Stamp> {
    let model = report.model();
    let log = model.files.values().find(|log| log.info.path == path)?;
    log.chronicle.stamp_of(written, log.modified(model.now), model.zone)
}

pub(super) enum Look {
    /// The words, and the time that the line carries.
    Says(String, Option<Written>),
    Passes,
    Steps,
}

/// `Loading checkpoint shards: 50 %, 1/2` of a bar that has a name and is not that of the training.
fn bar(line: &str) -> Option<String> {
    const NEAR: usize = 120;
    const LEAST_LETTERS: usize = 8;
    let line = clean::clean(line);
    let peeled = prefix::peel(&line);
    let (head, tail) = peeled.rest.split_once('%').filter(|(head, _)| head.len() <= NEAR)?;
    let name = head.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    let pct = &head[name.len()..];
    let name = name.trim().trim_end_matches(':');
    let is_name = name.chars().filter(|c| c.is_alphabetic()).count() >= LEAST_LETTERS && name.contains(' ') && !pct.is_empty();
    let is_bar = tail.starts_with('|') || tail.trim_start().starts_with(|c: char| c.is_ascii_digit());
    let is_its = is_name && is_bar && known_by(&line).reader.as_deref() != Some("step");
    let place = tail
        .split_whitespace()
        .find(|word| word.split_once('/').is_some_and(|(n, of)| n.parse::<u64>().is_ok() && of.parse::<u64>().is_ok()));
    is_its.then(|| format!("{}: {pct} %{}", clean::clip(&mask::text(name), 80), place.map_or(String::new(), |place| format!(", {place}"))))
}

pub(super) fn look(line: &str) -> Look {
    const LEAST_LETTERS: usize = 12;
    if let Some(words) = bar(line) {
        return Look::Says(words, None);
    }
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
        || line.contains("CCL version")
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
