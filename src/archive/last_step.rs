//! The newest line that told a step, as it was printed: it has more numbers than are read from it.

use super::inputs::Input;
use super::{Report, again};
use crate::base::{clean, mask};
use crate::logs::prefix;
use crate::observe::evidence::Evidence;

const LONGEST: usize = 400;

/// The line that the training of the report rests on; none where no line told a step, or the file cannot be read again.
pub(super) fn of(report: &Report, inputs: &[Input]) -> Option<Evidence> {
    let (path, line) = report.training_file().and_then(|file| Some((&file.info.path, file.progress.line?)))?;
    let said = again::line_of(path, usize::try_from(line).ok()?, inputs)?;
    let said = clean::clean(&String::from_utf8_lossy(again::last_drawn(&said))).into_owned();
    let words = prefix::peel(&said).rest.replace(|c: char| matches!(c, '\u{2580}'..='\u{259f}' | '\u{2501}'), "");
    let words = words.split_whitespace().collect::<Vec<_>>().join(" ").replace("%| |", "%").replace("%||", "%");
    let shown = clean::clip(&mask::text(&words), LONGEST).into_owned();
    // Of a trainer that gives each number a line of its own, it has no more than is told.
    let numbers =
        shown.split(|c: char| !c.is_ascii_digit() && c != '.').filter(|word| word.starts_with(|c: char| c.is_ascii_digit())).count();
    (numbers > 1).then(|| Evidence { path: Some(path.clone()), line: Some(line), ..Evidence::of("line", shown) })
}
