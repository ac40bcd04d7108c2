//! A GPU ran out of memory.

use super::{Check, Implies, ONCE, Rule, TextContext, first_sentences, rank_words};
use crate::findings::{Confidence, Found, Role, Severity};
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
    let who = ctx.seen.rank.map_or(String::new(), |r| format!("{}: ", rank_words(&[r])));
    let mut found = ctx.found("first", format!("{who}{}", first_sentences(text)));
    found.confidence = Confidence::Certain;
    found.why = "the first of its kind in this run; later ones of other ranks are counted, not opened".into();
    found.next = Some("nvidia-smi --query-compute-apps=pid,used_memory --format=csv".into());
    if ctx.follows_a_root(RULE.id) {
        found.role = Role::Cascade;
    }
    out.push(found);
}
