//! What `nccl-top check` does: files in, one report out. The same readers, rules and catalogue as on the screen, but with everything
//! known before anything is judged: what failed is put into the order of time, and the first of it is the cause.
//!
//! **To teach it a kind of file**: a file below `check/` with a `pub const KIND: Kind`, and its line in [`kinds::KINDS`].

pub mod alarms;
pub mod case;
pub mod facts;
mod flight;
pub mod inputs;
mod inspector;
mod judge;
pub mod kinds;
pub mod log;
mod nccl_tests;
mod ras;
pub mod roles;
mod runs;
mod tape;
pub mod timeouts;
pub mod when;

use crate::findings::{Finding, Severity};
use crate::model::bringup::Item;
use case::Case;
use serde::Serialize;

/// All that is known of the inputs, judged.
pub struct Report {
    pub verdict: Verdict,
    pub inputs: Vec<Seen>,
    pub case: Case,
    pub checklist: Vec<Item>,
    /// The cause first.
    pub findings: Vec<Finding>,
    /// Index into `findings`.
    pub root_cause: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    Ok,
    Warn,
    Fail,
    /// Nothing in the inputs was recognised.
    Unknown,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Ok => "ok",
            Verdict::Warn => "warn",
            Verdict::Fail => "fail",
            Verdict::Unknown => "unknown",
        }
    }
}

/// One input, read.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Seen {
    pub path: String,
    /// An id of [`kinds::KINDS`].
    pub kind: Option<&'static str>,
    pub bytes: Option<u64>,
    /// Of text that is read line by line.
    pub lines: Option<u64>,
    /// Why it, or the rest of it, could not be judged.
    pub error: Option<String>,
}

/// Told while inputs are read: bytes done so far, of all if that is known.
pub type Progress<'a> = &'a mut dyn FnMut(u64, Option<u64>);

/// Reads and judges what the arguments name.
pub fn check(args: &[String], zone: crate::time::Zone, progress: Progress<'_>) -> Report {
    let found = inputs::expand(args);
    let total: Option<u64> = found.iter().map(|f| f.size_bytes).sum();
    let mut case = Case::new(zone);
    let mut inputs = Vec::new();
    let mut done = 0;
    for input in found {
        let seen = kinds::read(&input, &mut case, &mut |bytes| progress(done + bytes, total));
        done += input.size_bytes.unwrap_or(seen.bytes.unwrap_or(0));
        // In a directory there may be anything; what is named is expected to say something.
        if input.named || seen.kind.is_some() || seen.error.is_some() {
            inputs.push(seen);
        }
    }
    report(case, inputs)
}

fn report(mut case: Case, mut inputs: Vec<Seen>) -> Report {
    let (findings, root_cause) = case.judge();
    let checklist = case.checklist();
    let recognised = case.recognised() || !findings.is_empty();
    if !recognised && inputs.iter().all(|i| i.error.is_none()) {
        let why = "nothing in it is known: no line of NCCL, PyTorch, a trainer or a launcher";
        inputs.iter_mut().for_each(|i| i.error = Some(why.into()));
    }
    let worst = findings.iter().filter(|f| f.severity >= Severity::Warning).map(|f| f.severity).max();
    let verdict = match worst {
        _ if !recognised => Verdict::Unknown,
        Some(s) if s >= Severity::Error => Verdict::Fail,
        Some(_) => Verdict::Warn,
        None => Verdict::Ok,
    };
    Report { verdict, inputs, case, checklist, findings, root_cause }
}
