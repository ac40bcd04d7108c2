//! A CUDA call failed; every later call of that process fails too.

use super::{Check, Implies, ONCE, Rule, TextContext, first_sentences, rank_words};
use crate::findings::{Confidence, Found, Role, Severity};
use crate::text::What;

pub const RULE: Rule = Rule {
    id: "cuda-error",
    severity: Severity::Error,
    title: "A CUDA call failed; every later call of that process fails too",
    how: "\"CUDA error: …\" in the log, CUBLAS and cuDNN states",
    advice: "Device-side asserts and illegal accesses are bugs of the program: run again with CUDA_LAUNCH_BLOCKING=1. ECC, NVLink and \"unspecified launch failure\" can be the hardware: look at the kernel log for Xid",
    life: ONCE,
    implies: Implies::Failed,
    check: Check::Text(check),
};

fn check(ctx: &TextContext, out: &mut Vec<Found>) {
    let What::CudaError { text } = &ctx.seen.event.what else { return };
    let who = ctx.seen.rank.map_or(String::new(), |r| format!("{}: ", rank_words(&[r])));
    let mut found = ctx.found("first", format!("{who}{}", first_sentences(text)));
    found.confidence = Confidence::Certain;
    found.why = "the first of its kind in this run; later ones of other ranks are counted, not opened".into();
    found.next = Some("dmesg -T | grep -i xid".into());
    if ctx.follows_a_root(RULE.id) {
        found.role = Role::Cascade;
    }
    out.push(found);
}
