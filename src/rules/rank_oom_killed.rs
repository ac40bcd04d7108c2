//! The system killed a process because memory ran out.

use super::{Check, Implies, ONCE, Rule};
use crate::findings::Severity;

pub const RULE: Rule = Rule {
    id: "rank-oom-killed",
    severity: Severity::Critical,
    title: "The system killed a process because memory ran out",
    how: "The kernel's log, the scheduler's or the container runtime's word",
    advice: "Host memory, not GPU memory: fewer data-loader workers, less pinned memory, smaller checkpoint staging, or a higher limit for the job",
    life: ONCE,
    implies: Implies::Failed,
    check: Check::Signatures,
};
