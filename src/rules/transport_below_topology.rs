//! GPUs that NVLink joins talk over shared memory or the network, or GPUDirect is not used where it could be.

use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::Severity;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "transport-below-topology",
    severity: Severity::Warning,
    title: "GPUs that NVLink joins talk over shared memory or the network, or GPUDirect is not used where it could be",
    how: "Channel lines against the topology of GPUs, or against the environment lines that explain them",
    advice: "Unset the variable that caused it (NCCL_P2P_DISABLE, NCCL_P2P_LEVEL, NCCL_NET_GDR_LEVEL, NCCL_SHM_DISABLE); without one, look for containers that do not share IPC and host name, or for a GPU whose NVLinks are down (nvidia-smi nvlink -s)",
    life: ONCE,
    implies: Implies::Nothing,
    on_facts: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        out.extend(facts.transports().into_iter().map(|told| ctx.found(&RULE, &facts, told)));
    }
}
