//! The boxes in which the library rich draws tracebacks, without their sides.

use crate::base::clean;

/// In front of the line of source that was run, among those around it.
pub(super) const MARK: char = '\u{2771}';

/// `/w/train.py:131 in main`, as rich shows a frame, in the words of Python.
pub(super) fn place(text: &str) -> Option<String> {
    let (file, call) = text.trim_end().split_once(" in ")?;
    let (file, line) = file.rsplit_once(':')?;
    let is_line = !line.is_empty() && line.bytes().all(|b| b.is_ascii_digit());
    let is_one = file.ends_with(".py") && is_line && !file.contains(' ') && !call.contains(' ');
    is_one.then(|| clean::clip(&format!("File \"{file}\", line {line}, in {call}"), 300).into_owned())
}

/// The source in `55 │   loss = f(x)`, as rich shows the lines of a frame. It marks the one that was run: `❱ 55 │   loss = f(x)`.
pub(super) fn code(text: &str) -> Option<&str> {
    let (number, code) = text.split_once('\u{2502}')?;
    let number = number.trim();
    let is_number = !number.is_empty() && number.bytes().all(|b| b.is_ascii_digit());
    is_number.then(|| code.trim_matches(|c: char| c.is_whitespace() || c == '\u{2502}'))
}
