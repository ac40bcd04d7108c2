//! A GPU fell off the bus.

use super::{Check, Implies, ONCE, Rule};
use crate::findings::Severity;

pub const RULE: Rule = Rule {
    id: "gpu-lost",
    severity: Severity::Critical,
    title: "A GPU fell off the bus",
    how: "The kernel's log (Xid 79 and its kin), NVML",
    advice: "Drain the node and power-cycle it; a GPU that falls off again has to be replaced",
    life: ONCE,
    implies: Implies::Failed,
    check: Check::Signatures,
};
