//! An NCCL variable that is set does nothing: misspelt, renamed, of another version, or overridden.

use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::Severity;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "env-no-effect",
    severity: Severity::Warning,
    title: "An NCCL variable that is set does nothing: misspelt, renamed, of another version, or overridden",
    how: "NCCL's own lines about it, or a name that NCCL does not know",
    advice: "Remove it, or use the name that NCCL knows",
    life: ONCE,
    implies: Implies::Nothing,
    on_facts: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        out.extend(facts.env_no_effect().into_iter().map(|told| ctx.found(&RULE, &facts, told)));
    }
}
