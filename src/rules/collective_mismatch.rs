//! Ranks called different collectives, or the same one with different sizes, at the same place.

use super::{Check, Implies, ONCE, Rule};
use crate::findings::Severity;

pub const RULE: Rule = Rule {
    id: "collective-mismatch",
    severity: Severity::Critical,
    title: "Ranks called different collectives, or the same one with different sizes, at the same place",
    how: "Flight Recorder dumps; watchdog lines that differ at one sequence number; PyTorch's or NCCL's own check",
    advice: "Look at the code of the rank that differs: a branch that depends on rank or data, uneven batches, another order of groups",
    life: ONCE,
    implies: Implies::Stuck,
    check: Check::Signatures,
};
