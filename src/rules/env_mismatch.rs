//! Ranks of one job have different NCCL settings.

use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::Severity;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "env-mismatch",
    severity: Severity::Warning,
    title: "Ranks of one job have different NCCL settings",
    how: "The environment lines of each rank, or each process's environment",
    advice: "Set the variables in one place for all nodes: the launcher's export list, the container image, /etc/nccl.conf",
    life: ONCE,
    implies: Implies::Nothing,
    on_facts: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        out.extend(facts.env_mismatch().into_iter().map(|told| ctx.found(&RULE, &facts, told)));
    }
}
