//! What proves a finding: where a thing was observed, and by whom.

use crate::base::clean::clip;
use crate::base::time::Stamp;
use serde::Serialize;

/// What proves a finding.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Evidence {
    /// `line`, `ras`, `gpu`, `process`, `counter`, `source`, `kernel`, `event`, `dump`, `file`
    pub kind: &'static str,
    pub path: Option<String>,
    /// Line number in `path`, from 1.
    pub line: Option<u64>,
    pub text: String,
    #[serde(skip)]
    pub at: Option<Stamp>,
    /// Who brought it.
    #[serde(skip)]
    pub by: Witness,
}

impl Evidence {
    /// `train.log:506`; nothing where it is of no file.
    pub fn place(&self) -> String {
        let path = self.path.as_deref().unwrap_or_default();
        self.line.filter(|_| !path.is_empty()).map_or(path.to_owned(), |line| format!("{path}:{line}"))
    }

    /// The text behind its place.
    pub fn placed(&self) -> String {
        let place = self.place();
        if place.is_empty() { self.text.clone() } else { format!("{place}  {}", self.text) }
    }

    pub fn of(kind: &'static str, text: impl Into<String>) -> Self {
        Evidence { kind, path: None, line: None, text: text.into(), at: None, by: Witness::Text }
    }

    pub fn line(path: &str, line: Option<u64>, text: &str, at: Stamp) -> Self {
        // PyTorch prints -1 as an unsigned number where it has none.
        let text = clip(text, 400).replace("18446744073709551615", "-1");
        Evidence { path: Some(path.to_owned()), line, at: Some(at), ..Evidence::of("line", text) }
    }
}

/// What speaks for a finding; of two that describe the same one, the later in this list knows more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Witness {
    /// Lines of a log, one by one.
    Text,
    /// Steps of training, one by one.
    Progress,
    /// What a log says of how NCCL came up.
    Bringup,
    /// GPUs, processes and RAS, looked at every second.
    Signals,
    /// Saved answers of RAS, tables of nccl-tests, files of the Inspector.
    Reports,
    /// The watchdogs of all ranks, compared.
    Watchdogs,
    /// Flight Recorder dumps of all ranks, compared.
    Dumps,
}

impl Witness {
    /// It rests on all that is known at a moment, and may rest on more later.
    pub fn is_of_facts(self) -> bool {
        !self.is_text() && self != Witness::Signals
    }

    /// It rests on lines of a log as they came.
    pub fn is_text(self) -> bool {
        matches!(self, Witness::Text | Witness::Progress)
    }
}
