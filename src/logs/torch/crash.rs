//! What Python's faulthandler prints when a process crashes: the signal, and behind it the stacks of its threads, innermost call first. The
//! line of the signal is held back until the stack tells where the thread that crashed was.
//!
//! Source: CPython `Python/traceback.c` and `Modules/faulthandler.c`, 3.8 to 3.14.

use super::traceback::{is_of_library, is_of_python};
use crate::base::clean::clip;
use crate::logs::prefix::Peeled;
use crate::logs::{Origin, SaidAt, TextEvent, What};

/// How the line of the signal begins.
const HEAD: &str = "Fatal Python error: ";
/// Lines that are waited for: other threads may come first.
const MOST_LINES: u16 = 400;

/// A crash whose stack is being read.
#[derive(Clone, PartialEq)]
pub struct Crash {
    event: TextEvent,
    who: Origin,
    left: u16,
    has_thread: bool,
    /// The frames are those of the thread that crashed.
    in_current: bool,
    /// The innermost frame, where it is a library's.
    innermost: Option<String>,
}

impl Crash {
    /// Of the line of the signal, the `line`th of its file; `None` of another line.
    pub fn of(event: &TextEvent, line: Option<u64>) -> Option<Crash> {
        let What::Signed { text, .. } = &event.what else { return None };
        let said_at = Some(SaidAt { line, text: text.clone(), ..SaidAt::default() });
        let event = TextEvent { said_at, ..event.clone() };
        text.starts_with(HEAD).then(|| Crash {
            who: event.origin.clone(),
            event,
            left: MOST_LINES,
            has_thread: false,
            in_current: false,
            innermost: None,
        })
    }

    /// Takes a line of the same process in. The event, when nothing more is to come; and whether the line belongs to the stack.
    pub fn read(&mut self, p: &Peeled<'_>) -> (Option<TextEvent>, bool) {
        self.left = self.left.saturating_sub(1);
        let same = p.origin.rank == self.who.rank && p.origin.pid == self.who.pid && p.origin.host == self.who.host;
        let text = p.rest.trim_end();
        // Before the first thread nothing but blank lines is its own, and a traceback of another process may stand open.
        if same && self.left > 0 && !self.has_thread && (text.is_empty() || text.starts_with("  File \"")) {
            return (None, false);
        }
        let of_stack = text.is_empty() || text.starts_with("  File \"") || is_thread(text) || text.starts_with("  ...");
        if self.left == 0 || same && !of_stack {
            return (Some(self.told()), false);
        }
        if !same || !of_stack {
            return (None, false);
        }
        if is_thread(text) {
            self.has_thread = true;
            self.in_current = text.starts_with("Current thread ");
        } else if let Some(frame) = text.strip_prefix("  File \"").filter(|_| self.in_current) {
            if !is_of_python(frame) && !is_of_library(frame) {
                self.innermost = place(frame);
                return (Some(self.told()), true);
            }
            self.innermost = self.innermost.take().or_else(|| place(frame));
        } else if text.is_empty() && self.innermost.is_some() {
            return (Some(self.told()), true);
        }
        (None, true)
    }

    /// The event with what is known of where it happened.
    pub fn told(&mut self) -> TextEvent {
        let mut event = self.event.clone();
        if let (What::Signed { text, .. }, Some(place)) = (&mut event.what, &self.innermost) {
            text.push_str(&format!(", in {place}"));
        }
        event
    }
}

/// `Current thread 0x00007f971efd6b80 (most recent call first):`, `Thread 0x… [python] (most recent call first):`
fn is_thread(text: &str) -> bool {
    (text.starts_with("Current thread ") || text.starts_with("Thread ")) && text.ends_with("(most recent call first):")
}

/// `length (tokenize_native.py:7)` of `/root/tokenize_native.py", line 7 in length`
fn place(frame: &str) -> Option<String> {
    let (path, tail) = frame.split_once("\", line ")?;
    let (line, function) = tail.split_once(" in ")?;
    const LONGEST: usize = 160;
    let place = format!("{} ({}:{line})", clip(function.trim(), 60), path.rsplit('/').next()?);
    Some(clip(&place, LONGEST).into_owned())
}
