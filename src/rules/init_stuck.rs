//! Rendezvous, initialisation or the first collective of a communicator does not finish.

use super::{Check, FactContext, Implies, ONCE, Rule};
use crate::findings::{Found, Role, Severity};

pub const RULE: Rule = Rule {
    id: "init-stuck",
    severity: Severity::Critical,
    title: "Rendezvous, initialisation or the first collective of a communicator does not finish",
    how: "Ranks that began to create a communicator and did not complete it; ranks that are missing; timeouts of the rendezvous",
    advice: "Look at the ranks that are missing: a node that was not started, a firewall, another world size",
    life: ONCE,
    implies: Implies::Stuck,
    check: Check::Facts(check),
};

fn check(ctx: &FactContext, out: &mut Vec<Found>) {
    for facts in ctx.each() {
        let Some(told) = facts.init() else { continue };
        let mut found = ctx.found(&facts, told);
        // A job that died of something else did not get to the end of it, either.
        if ctx.has_failed(RULE.id, &facts.job.id) {
            found.role = Role::Cascade;
        }
        out.push(found);
    }
}
