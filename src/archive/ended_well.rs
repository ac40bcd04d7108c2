//! Whether logs of a program that nobody knows show that it came to its end: then nothing is wrong, and else nothing is known.

use super::{Report, Seen, results};
use crate::observe::evidence::Evidence;
use regex::Regex;
use std::sync::LazyLock;

/// Lines behind the one that says how long it took: a summary.
const NEAR: u64 = 12;

/// Each log ends with what a known benchmark measured: whatever words stand above that, it came to its end.
pub(super) fn is_measured(report: &Report) -> bool {
    !report.inputs.is_empty() && report.inputs.iter().all(|input| ends_with_table(report, input, results::tells_all))
}

/// A test of the network mostly goes before a job: only one with nothing below it says how things ended.
fn ends_with_table(report: &Report, input: &Seen, is_one: fn(&str) -> bool) -> bool {
    let of = |table: &&Evidence| table.path.as_deref() == Some(input.path.as_str());
    // Behind what only tells of a part, the next one may have begun.
    let behind = |table: &Evidence| u64::from(results::tells_all(&table.text));
    let is_last = |table: &Evidence| table.line.zip(input.lines).is_some_and(|(line, lines)| line + behind(table) >= lines);
    report.again.tables.iter().filter(of).any(|table| is_last(table) && is_one(&table.text))
}

/// Each log has said in the end that it is done, or how long it took, or is what a known benchmark measured.
pub(super) fn is_it(report: &Report) -> bool {
    let again = &report.again;
    let of = |said: &Evidence, input: &Seen| said.path.as_deref() == Some(input.path.as_str());
    let is_near = |said: &Evidence, input: &Seen| said.line.zip(input.lines).is_some_and(|(line, lines)| line + NEAR >= lines);
    let ended = |input: &Seen| {
        let last = again.at_end.iter().find(|last| of(&last.said, input));
        // Who waits behind it has not come to the end.
        let goes_on = last.is_some_and(|last| speaks_of_more(&last.said.text));
        let told = again.came_out.iter().filter(|out| matches!(out.row, "took" | "stopped")).map(|out| &out.said);
        let took = told.filter(|said| of(said, input)).any(|said| is_near(said, input));
        let timed = again.tables.iter().any(|table| of(table, input) && table.text.starts_with(results::TIMED));
        ends_with_table(report, input, results::is_measured)
            || !goes_on && (took || timed || last.is_some_and(|last| !last.more_below && says_that_it_is_done(&last.said.text)))
    };
    !report.inputs.is_empty() && report.inputs.iter().all(ended)
}

/// `All parts were written successfully.`, `Done!`; not what is yet to be, nor a part of many or of the start.
fn says_that_it_is_done(text: &str) -> bool {
    static DONE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)^.{0,200}\b(?:successfully\b.{0,200}|(?:is|are|was|were|all|run|job|everything)\ (?:done|finished|completed)[.!]*)$
            |^\W*(?:all\ )?(?:done|finished|completed|success)[.!]*$",
        )
        .expect("pattern")
    });
    DONE.is_match(text) && !speaks_of_more(text)
}

/// It waits, begins, or says what is to be, or a part of many.
fn speaks_of_more(text: &str) -> bool {
    static MORE: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?ix)\b(?:wait\w*|retry\w*|to\ be|not|no|never|none|without|yet|until|before|if|when|once|should|will|can|could|must|load\w*|start\w*|init\w*
            |connect\w*|download\w*|prepar\w*|index\w*|stage)\b|n't\b|[0-9]\ ?(?:of|/)\ ?[0-9]|^\W*\#",
        )
        .expect("pattern")
    });
    // `12/15 08:32:39 PM ` is no part of many.
    static DATE: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"^\W*[0-9]{1,4}[/-][0-9]{1,2}(?:[/-][0-9]{1,4})?[ T]+[0-9]{1,2}:[0-9]{2}").expect("pattern"));
    MORE.is_match(&DATE.replace(text, ""))
}
