//! A CUDA call failed; every later call of that process fails too.

use super::chain::Chain;
use super::{Implies, ONCE, Rule, TextContext};
use crate::base::severity::Severity;
use crate::logs::What;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "cuda-error",
    severity: Severity::Error,
    title: "A CUDA call failed; every later call of that process fails too",
    says: "had a CUDA call that failed",
    how: "\"CUDA error: …\" in the log, CUBLAS and cuDNN states",
    advice: "Device-side asserts and illegal accesses are bugs of the program: run again with CUDA_LAUNCH_BLOCKING=1. ECC, NVLink and \"unspecified launch failure\" can be the hardware: look at the kernel log for Xid",
    life: ONCE,
    implies: Implies::Failed,
    chain: Chain { is_of_its_writer: true, ..Chain::ENDS_ITS_RANK },
    on_text: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let What::CudaError { text } = &ctx.seen.event.what else { return };
    if ctx.warned(text) {
        return;
    }
    if ctx.signature().is_some() {
        return;
    }
    let mut found = ctx.first_of_its_kind(&RULE, text, "dmesg -T | grep -i xid");
    ctx.sign(&mut found, text);
    out.push(found);
}
