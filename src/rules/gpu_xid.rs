//! The driver's Xid errors that no other rule stands for.

use super::area::Area;
use super::chain::Chain;
use super::{Implies, ONCE, Rule};
use crate::base::severity::Severity;

pub const RULE: Rule = Rule {
    id: "gpu-xid",
    severity: Severity::Error,
    title: "The driver reported an Xid error of a GPU",
    says: "had an Xid error",
    how: "NVRM lines of the kernel's log, NVML events",
    advice: "The catalogue says for each Xid whether the program, the GPU or the node is to blame: nccl-top rules xid-NUMBER",
    life: ONCE,
    implies: Implies::Nothing,
    area: Some(Area::Gpu),
    chain: Chain::KERNEL,
    ..Rule::PLAIN
};
