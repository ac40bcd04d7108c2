//! The Python calls of a collective that timed out, as its rank's watchdog prints them: PyTorch 2.6 and later, with Flight Recorder on.

use super::calls::is_wrapper;
use super::traceback::{is_of_library, is_of_python};
use crate::base::clean;
use crate::logs::prefix::Peeled;
use crate::logs::{Origin, PythonCall, SaidAt, TextEvent, What, WorkStack};

/// Stands in front of its frames, `#0 all_reduce from /w/distributed_c10d.py:3068` first, the innermost one.
pub const HEAD: &str = "Stack trace of the failed collective: ";
const MOST_CALLS: usize = 32;
const MOST_LINES: u8 = 120;
const LONGEST_NAME: usize = 60;

#[derive(Clone, PartialEq)]
pub struct Open {
    origin: Origin,
    said_at: SaidAt,
    lines: u8,
    op: Option<String>,
    calls: Vec<PythonCall>,
    /// Frames are missing, or those of another rank stand between them.
    is_torn: bool,
}

impl Open {
    /// `line` is the number of the line.
    pub fn of(p: &Peeled<'_>, line: Option<u64>) -> Option<Open> {
        let begins = p.cpp && p.rest.trim_end().ends_with(HEAD.trim_end());
        let said_at = || SaidAt { line, text: p.rest.trim().to_owned(), ..SaidAt::default() };
        begins.then(|| Open {
            origin: super::watchdog::origin_of(p),
            said_at: said_at(),
            lines: 0,
            op: None,
            calls: Vec::new(),
            is_torn: false,
        })
    }

    /// Takes its next frame. What has a writer of its own is of that one.
    pub fn goes_on(&mut self, p: &Peeled<'_>) -> bool {
        let is_its = p.origin.rank.is_none() || p.origin.rank == self.origin.rank;
        let Some((number, function, file, line)) = frame(p.rest).filter(|_| is_its && self.lines < MOST_LINES) else { return false };
        self.is_torn |= number != self.lines;
        self.lines += 1;
        let function = clean::clip(function, LONGEST_NAME).into_owned();
        match &self.op {
            None => self.op = Some(function),
            // Where ranks part in the script's own main function, its module is all that they have in common.
            Some(_)
                if is_wrapper(&function) && function != "<module>"
                    || is_of_python(file)
                    || file.contains("/torch/")
                    || self.calls.len() == MOST_CALLS => {}
            Some(_) => {
                let name = file.rsplit('/').next().unwrap_or(file);
                let place = format!("{}:{line}", clean::clip(name, LONGEST_NAME));
                self.calls.push(PythonCall { function, place, is_own: !is_of_library(file) });
            }
        }
        true
    }

    pub fn end(self, out: &mut Vec<TextEvent>) {
        if let Some(op) = self.op.filter(|_| !self.calls.is_empty() && !self.is_torn) {
            let what = What::WorkStack(WorkStack { op, calls: self.calls });
            out.push(TextEvent { origin: self.origin, what, said_at: Some(self.said_at) });
        }
    }
}

/// `#6 _mlp_reduce from /w/model.py:3174`
fn frame(text: &str) -> Option<(u8, &str, &str, u32)> {
    let (number, tail) = text.trim().strip_prefix('#')?.split_once(' ')?;
    let (function, place) = tail.split_once(" from ")?;
    let (file, line) = place.rsplit_once(':')?;
    Some((number.parse().ok()?, function, file, line.parse().ok()?))
}
