//! A file system is full, over quota, or does not answer.

use super::area::Area;
use super::chain::Chain;
use super::{Implies, ONCE, Rule};
use crate::base::severity::Severity;

pub const RULE: Rule = Rule {
    id: "storage-failed",
    severity: Severity::Error,
    title: "A file system is full, over quota, or does not answer",
    how: "Errors of reading and writing in the log",
    advice: "`df -h` and `df -i` on the checkpoint's and the log's file system, `ulimit -n` for open files",
    life: ONCE,
    implies: Implies::Failed,
    area: Some(Area::Storage),
    chain: Chain::ENDS_ITS_RANK,
    ..Rule::PLAIN
};
