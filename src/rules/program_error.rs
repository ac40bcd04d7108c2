//! What a program that nobody here knows calls an error.

use super::{Implies, ONCE, Rule};
use crate::base::severity::Severity;

pub const RULE: Rule = Rule {
    id: "program-error",
    severity: Severity::Error,
    title: "A program, or a driver, reports an error that no other rule stands for",
    how: "A line that its writer calls an error by its level, or by words that all programs use, in a log where nothing is known to be the cause; it is a warning where the log goes on behind it",
    advice: "Read it and the lines around it; a text of your own in the catalogue names it next time",
    life: ONCE,
    implies: Implies::Nothing,
    ..Rule::PLAIN
};
