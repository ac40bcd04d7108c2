//! Texts that look like trouble in jobs that are well.

use super::{ONCE, Rule};
use crate::base::severity::Severity;

pub const RULE: Rule = Rule {
    id: "harmless",
    severity: Severity::Info,
    title: "Output that looks like trouble and is none",
    how: "Texts of the catalogue that jobs print which are well, too",
    advice: "Nothing: it stands in the output of jobs that are well, too",
    life: ONCE,
    ..Rule::PLAIN
};
