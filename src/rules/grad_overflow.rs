//! fp16 gradients overflow again and again: steps are skipped.

use super::{Implies, ONCE, Rule};
use crate::findings::Severity;

pub const RULE: Rule = Rule {
    id: "grad-overflow",
    severity: Severity::Warning,
    title: "fp16 gradients overflow again and again: steps are skipped",
    how: "Skipped steps and loss scales in the log",
    advice: "A few at the start are normal; many in a row mean that the loss diverges: lower the learning rate, use bf16, look at the data",
    life: ONCE,
    implies: Implies::Nothing,
    ..Rule::PLAIN
};
