//! The processes of the job did not find one another.

use super::{Implies, ONCE, Rule};
use crate::base::severity::Severity;

pub const RULE: Rule = Rule {
    id: "rendezvous-failed",
    severity: Severity::Error,
    title: "The processes of the job did not find one another",
    how: "Messages of PyTorch's store and rendezvous, or of NCCL's bootstrap",
    advice: "Same MASTER_ADDR, MASTER_PORT and world size on all nodes; the port reachable from all of them; no process of an earlier run left on it",
    life: ONCE,
    implies: Implies::Failed,
    ..Rule::PLAIN
};
