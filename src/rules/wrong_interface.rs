//! NCCL was configured to use, or chose, a network interface that is missing, down or cannot reach the other nodes.

use super::area::Area;
use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::Severity;
use crate::model::bringup::trouble::Trouble;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "wrong-interface",
    severity: Severity::Error,
    title: "NCCL was told to use, or chose, a network interface that is missing, down or cannot reach the other nodes",
    how: "The bootstrap and socket lines of NCCL, its environment, the interfaces of the node",
    advice: "`ip -brief address` shows what there is; set NCCL_SOCKET_IFNAME to the interface that all nodes reach one another by (a prefix; = in front for exact, ^ to exclude)",
    life: ONCE,
    implies: Implies::Failed,
    area: Some(Area::Network),
    on_facts: Some(check),
    ..Rule::PLAIN
};

const COMES_UP: Duration = Duration::from_secs(20);

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        // Where nodes do reach one another over it, the communicator is up a moment later.
        let is_due = |told: &Trouble| ctx.ended || told.proofs.first().is_none_or(|proof| ctx.model.now.since(proof.at) >= COMES_UP);
        out.extend(facts.interfaces().into_iter().filter(is_due).map(|told| ctx.found(&RULE, &facts, told)));
    }
}
