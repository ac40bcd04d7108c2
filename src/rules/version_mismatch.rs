//! Ranks of one job run different versions of NCCL.

use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::Severity;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "version-mismatch",
    severity: Severity::Error,
    title: "Ranks of one job run different versions of NCCL",
    how: "Version lines of the ranks, or NCCL's own check",
    advice: "Use one container image; where several libnccl are installed, `ldd` and LD_LIBRARY_PATH say which one each process loads",
    life: ONCE,
    implies: Implies::Failed,
    on_facts: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        out.extend(facts.versions().into_iter().map(|told| ctx.found(&RULE, &facts, told)));
    }
}
