//! The first and the last time that lines carry, whoever wrote them: what a reader of the file sees at its top and at its end.

use super::Report;
use super::again::{last_drawn, text_of};
use super::inputs::Input;
use crate::base::clean;
use crate::base::time::Stamp;
use crate::logs::prefix;

/// Lines at the top and at the end of a log that are looked at, and bytes of each.
const NEAR: usize = 40;
const MOST_BYTES: usize = 512;

/// The earliest time at the top of a log, and the latest at the end of one, of logs that tell of a run. What is later than its file is no time of writing.
pub(super) fn of(report: &Report, inputs: &[Input]) -> Option<(Stamp, Stamp)> {
    let model = report.model();
    let logs = model.files.values().filter(|log| log.chronicle.run_began.is_some());
    let spans = logs.filter_map(|log| {
        let text = text_of(&log.info.path, inputs)?;
        let modified = log.modified(model.now);
        let stamp = |line: &[u8]| {
            let line = last_drawn(line);
            let line = String::from_utf8_lossy(&line[..line.len().min(MOST_BYTES)]);
            let written = prefix::peel(&clean::clean(&line)).origin.written?;
            log.chronicle.stamp_of(&written, modified, model.zone).filter(|stamp| *stamp <= modified)
        };
        let first = text.split(|b| *b == b'\n').take(NEAR).find_map(stamp)?;
        let last = text.rsplit(|b| *b == b'\n').take(NEAR).find_map(stamp)?;
        (first <= last).then_some((first, last))
    });
    spans.reduce(|(first, last), (other_first, other_last)| (first.min(other_first), last.max(other_last)))
}
