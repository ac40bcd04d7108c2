//! nccl-tests found wrong results, or could not run.

use super::{Implies, ONCE, Rule};
use crate::findings::Severity;

pub const RULE: Rule = Rule {
    id: "nccl-tests-failed",
    severity: Severity::Error,
    title: "nccl-tests found wrong results, or could not run",
    how: "The table's #wrong columns, its last lines, its error lines",
    advice: "Wrong results are corrupted data: find the pair with `-g 2` runs, look at NVLink and ECC errors; never train on such a node",
    life: ONCE,
    implies: Implies::Failed,
    ..Rule::PLAIN
};
