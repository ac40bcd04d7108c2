//! An NVLink or NVSwitch link is down or failing.

use super::{Check, Implies, ONCE, Rule};
use crate::findings::Severity;

pub const RULE: Rule = Rule {
    id: "nvlink-down",
    severity: Severity::Error,
    title: "An NVLink or NVSwitch link is down or failing",
    how: "The kernel's log (Xid 74, 136, 149; SXid), CUDA's and NCCL's errors",
    advice: "`nvidia-smi nvlink -s` names the link; drain the node, reset its GPUs, look at fabric manager and cables",
    life: ONCE,
    implies: Implies::Failed,
    check: Check::Signatures,
};
