//! A GPU ran out of memory.

use super::{Check, Implies, ONCE, Rule, TextContext};
use crate::findings::{Found, Severity};
use crate::text::What;

pub const RULE: Rule = Rule {
    id: "cuda-oom",
    severity: Severity::Error,
    title: "A GPU ran out of memory",
    how: "\"CUDA out of memory\" in the log, in the forms of all PyTorch versions",
    advice: "Lower the batch or sequence length of that rank, or look for another process on its GPU; reserved far above allocated is fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    life: ONCE,
    implies: Implies::Failed,
    check: Check::Text(check),
};

fn check(ctx: &TextContext, out: &mut Vec<Found>) {
    let What::CudaOom { text, .. } = &ctx.seen.event.what else { return };
    out.push(ctx.first_of_its_kind(RULE.id, text, "nvidia-smi --query-compute-apps=pid,used_memory --format=csv"));
}
