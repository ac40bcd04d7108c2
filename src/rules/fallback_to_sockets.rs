//! NCCL chose TCP sockets although an RDMA device or plugin was there or asked for.

use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::{Role, Severity};
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "fallback-to-sockets",
    severity: Severity::Warning,
    title: "NCCL chose TCP sockets although an RDMA device or plugin was there or asked for",
    how: "\"Using network Socket\" beside a plugin that was named, looked for or failed to load, or beside EFA, InfiniBand or RoCE devices. Between nodes without any of them: told as an info, which fails nothing",
    advice: "Read the lines of the network plugin above \"Using network\": the library or its device is missing in the container. On EFA /dev/infiniband and aws-ofi-nccl must be there; NCCL_NET=\"AWS Libfabric\" or NCCL_NET=IB makes the fallback an error",
    life: ONCE,
    implies: Implies::Nothing,
    on_facts: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        out.extend(facts.sockets().into_iter().map(|told| ctx.found(&RULE, &facts, told)));
        // Where nothing faster is known to be there, nothing is known to be wrong.
        out.extend(facts.plain_sockets().map(|told| {
            let mut found = ctx.found(&RULE, &facts, told);
            (found.severity, found.role) = (Severity::Info, Role::Context);
            found
        }));
    }
}
