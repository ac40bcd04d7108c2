//! Answers of NCCL's RAS service that were saved to files.

use crate::base::time::Stamp;
use crate::formats::ras::{self, RasError, RasReport};

/// One answer of RAS that somebody saved.
#[derive(Clone, Debug, PartialEq)]
pub struct SavedReport {
    pub path: String,
    /// When it was taken, as the caller knows it: from the file's name or its time.
    pub at: Option<Stamp>,
    /// The time in the answer itself, read as UTC: NCCL prints the clock of its host without a zone. Only JSON has it.
    pub written: Option<Stamp>,
    pub report: RasReport,
    /// JSON tells all counts; text only those that differ.
    pub json: bool,
}

impl SavedReport {
    /// Reads a file. What a recorder added (`# took`, `# EXC`) is left out.
    ///
    /// # Errors
    /// There is no whole report in it; the text says why.
    pub fn read(path: &str, text: &str, at: Option<Stamp>) -> Result<SavedReport, String> {
        let mut trouble = None;
        let mut answer = String::with_capacity(text.len());
        for line in text.split_inclusive('\n') {
            if let Some(said) = line.strip_prefix("# EXC ") {
                trouble = Some(crate::base::clean::clip(said.trim(), 200).into_owned());
            } else if !line.starts_with("# took ") {
                answer.push_str(line);
            }
        }
        let report = ras::parse(&answer).map_err(|err| match (err, trouble) {
            (RasError::Empty, Some(trouble)) => format!("holds no answer of RAS: {trouble}"),
            (RasError::Empty, None) => "holds no answer of RAS".to_owned(),
            (err, Some(trouble)) => format!("{err} ({trouble})"),
            (err, None) => err.to_string(),
        })?;
        let json = ras::without_chatter(&answer).0.starts_with('{');
        let written = if json { timestamp(&answer) } else { None };
        Ok(SavedReport { path: path.to_owned(), at, written, report, json })
    }
}

/// `"timestamp": "2026-11-21 00:04:05"`
fn timestamp(answer: &str) -> Option<Stamp> {
    let tail = answer.split_once("\"timestamp\"")?.1.trim_start().strip_prefix(':')?.trim_start().strip_prefix('"')?;
    let time: jiff::civil::DateTime = tail.split_once('"')?.0.parse().ok()?;
    let nanos = time.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp().as_nanosecond();
    i64::try_from(nanos).ok().map(Stamp)
}

/// Puts reports in the order in which they were taken.
pub fn in_order(reports: &mut [SavedReport]) {
    reports.sort_by_key(|report| (report.written.or(report.at), natural(&report.path)));
}

/// Numbers in names count as numbers: `ras-9` stands before `ras-10`.
fn natural(name: &str) -> Vec<(u64, String)> {
    let mut out: Vec<(u64, String)> = Vec::new();
    let mut digits = false;
    for c in name.chars() {
        let digit = c.is_ascii_digit();
        match out.last_mut() {
            Some((_, text)) if digit == digits => text.push(c),
            _ => out.push((0, c.to_string())),
        }
        digits = digit;
    }
    for (number, text) in &mut out {
        *number = text.parse().unwrap_or(u64::MAX);
    }
    out
}
