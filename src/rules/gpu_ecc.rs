//! A GPU's memory had an error that could not be corrected.

use super::{Check, Implies, ONCE, Rule};
use crate::findings::Severity;

pub const RULE: Rule = Rule {
    id: "gpu-ecc",
    severity: Severity::Error,
    title: "A GPU's memory had an error that could not be corrected",
    how: "The kernel's log (Xid 48, 63, 64, 94, 95), CUDA's error, NVML's counters",
    advice: "Drain the node and reset the GPU: `nvidia-smi -r -i GPU`; a remapping that failed (Xid 64) means that it has to be replaced",
    life: ONCE,
    implies: Implies::Failed,
    check: Check::Signatures,
};
