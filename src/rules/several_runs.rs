//! The inputs of one `check` are of several runs.

use super::{Implies, ONCE, Rule};
use crate::findings::Severity;

pub const RULE: Rule = Rule {
    id: "several-runs",
    severity: Severity::Info,
    title: "The files given to check are of several runs: their ranks are taken for those of one job",
    how: "Different Slurm job ids; another process with the same rank on the same GPU; or runs that came up one after the other, without a common communicator",
    advice: "Give each run to a check of its own",
    life: ONCE,
    implies: Implies::Nothing,
    ..Rule::PLAIN
};
