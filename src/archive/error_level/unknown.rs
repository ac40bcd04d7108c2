//! A line that may be the first failure, with what belongs to it.

use super::line::Line;
use super::reason::{self, Reason};
use super::{LONGEST, MOST_FIELDS, sentence, words};
use crate::base::clean;
use crate::logs::Origin;
use crate::logs::prefix::Level;

/// How much a line says about why something failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Weight {
    /// It may be the reason for an error beside it, and is none by itself.
    Hint,
    /// It speaks of a failure, without a level.
    Words,
    /// An error that only hands on another, or announces one.
    Empty,
    Error,
    /// The writer ended itself with it.
    Fatal,
}

/// A line that may be the first failure.
#[derive(Clone, Debug)]
pub struct Unknown {
    /// From 1.
    pub line: u64,
    /// The last line of it.
    pub end: u64,
    pub fields: u8,
    /// Lines that were put behind it.
    pub joined: u8,
    pub text: String,
    pub origin: Origin,
    pub weight: Weight,
    pub reason: Option<Reason>,
    /// The writer says that it gets over it.
    pub is_over: bool,
    /// Errors with many quiet lines between them are of different stories.
    pub story: u32,
}

impl Unknown {
    /// What `read` says, if it is one.
    pub fn of(no: u64, read: &Line) -> Option<Unknown> {
        let said = read.said.as_str();
        let reason = reason::of(said);
        let is_over = words::is_over(said) && !(read.level >= Some(Level::Error) && words::only_skips(said));
        let fails = reason.is_some_and(Reason::is_failure) && !is_over;
        let level = match read.level {
            _ if words::is_harmless(said) => return None,
            Some(Level::Fatal) => Weight::Fatal,
            Some(Level::Error) => Weight::Error,
            Some(Level::Low | Level::Warning) if fails => Weight::Hint,
            Some(Level::Low | Level::Warning) => return None,
            None if words::is_end_of_program(said) => Weight::Fatal,
            None if words::is_last_line(said) => Weight::Error,
            None if words::speaks_of_failure(said) || fails => Weight::Words,
            None if reason.is_some() => Weight::Hint,
            None => return None,
        };
        // Some print what is only important at the highest level.
        let only_says_so = level == Weight::Fatal && reason.is_none() && !words::is_trouble(said);
        let is_empty = words::is_empty(said) || reason.is_none() && words::is_end_only(said);
        let weight = if level >= Weight::Error && (is_empty || only_says_so) { Weight::Empty } else { level };
        let text = clean::clip(&read.words(), LONGEST).into_owned();
        Some(Unknown { line: no, end: no, fields: 0, joined: 0, text, origin: read.origin.clone(), weight, reason, is_over, story: 0 })
    }

    /// Its end stands in the next line.
    pub fn announces(&self) -> bool {
        self.text.ends_with(':') && !self.text.ends_with("stack:")
    }

    /// `Fatal error:` and nothing behind it: GROMACS says what it was in the lines below, up to a blank one.
    pub fn is_wrapped(&self, line: &[u8]) -> bool {
        const MOST_LINES: u8 = 5;
        let is_of_frame = self.text.starts_with("Fatal error: ") && (1..MOST_LINES).contains(&self.joined);
        is_of_frame && !line.trim_ascii().is_empty() && !sentence::is_dashes(line)
    }

    /// Indented lines of the form `found: 7` may belong to it.
    pub fn may_have_fields(&self) -> bool {
        let wants = self.reason.is_none() || self.weight == Weight::Empty || self.fields > 0;
        self.weight > Weight::Hint && wants && self.fields < MOST_FIELDS
    }

    /// Puts a field of its record behind it: `node check failed: check: gpu_count, expected: 8, found: 7`.
    pub fn add_field(&mut self, no: u64, text: &str) {
        let before = if self.fields > 0 {
            ", "
        } else if self.announces() {
            " "
        } else {
            ": "
        };
        let field = text.split_whitespace().collect::<Vec<_>>().join(" ");
        self.text = clean::clip(&format!("{}{before}{field}", self.text.trim_end_matches('.')), LONGEST).into_owned();
        self.reason = reason::of(&field).or(self.reason);
        (self.end, self.fields) = (no, self.fields + 1);
        if self.weight == Weight::Empty {
            self.weight = Weight::Error;
        }
    }

    /// The line behind it may go on with a stack of HDF5.
    pub fn is_of_hdf5(&self, no: u64) -> bool {
        self.end + 1 == no && self.text.starts_with("HDF5-DIAG: ")
    }

    /// `#018: H5C.c line 2336 in H5C_protect(): can't load entry`: HDF5 prints its calls from the outside in, and the last one failed first. False: it is
    /// no line of such a stack.
    pub fn add_hdf5_call(&mut self, no: u64, line: &str) -> bool {
        const ROOT: &str = "; at its root ";
        let line = line.trim();
        if line.starts_with("major: ") || line.starts_with("minor: ") {
            self.end = no;
            return true;
        }
        let call = line.strip_prefix('#').and_then(|line| line.split_once(": ")).filter(|(no, _)| no.parse::<u16>().is_ok());
        let Some((call_no, call)) = call else { return false };
        let outer = self.text.split(ROOT).next().unwrap_or_default();
        let between = if call_no.trim_start_matches('0').is_empty() { " " } else { ROOT };
        self.text = clean::clip(&format!("{outer}{between}{call}"), LONGEST).into_owned();
        self.reason = reason::of(call).or(self.reason);
        self.end = no;
        true
    }

    /// Puts the next line behind it.
    pub fn goes_on(&mut self, no: u64, said: &str) {
        self.end = no;
        let said =
            said.trim().trim_start_matches("what():").trim().trim_start_matches("called `Result::unwrap()` on an `Err` value:").trim();
        if said.is_empty() {
            return;
        }
        let ends = words::is_end_of_program(&self.text);
        self.text = clean::clip(&format!("{} {said}", self.text), LONGEST).into_owned();
        self.reason = reason::of(said).or(self.reason);
        self.joined = self.joined.saturating_add(1);
        // The words of a reason may stand on both sides of the wrap.
        if self.joined > 1 {
            self.reason = self.reason.or_else(|| reason::of(&self.text));
        }
        if self.weight == Weight::Empty {
            self.weight = if ends { Weight::Fatal } else { Weight::Error };
        }
    }
}
