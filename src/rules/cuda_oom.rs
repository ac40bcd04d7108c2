//! A GPU ran out of memory.

use super::chain::Chain;
use super::{Implies, ONCE, Rule, TextContext};
use crate::base::severity::Severity;
use crate::logs::What;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "cuda-oom",
    severity: Severity::Error,
    title: "A GPU ran out of memory",
    says: "ran out of GPU memory",
    how: "\"CUDA out of memory\" in the log, in the forms of all PyTorch versions",
    advice: "Lower the batch or sequence length of that rank, or look for another process on its GPU; reserved far above allocated is fragmentation: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True",
    life: ONCE,
    implies: Implies::Failed,
    chain: Chain { is_of_its_writer: true, ..Chain::ENDS_ITS_RANK },
    on_text: Some(check),
    ..Rule::PLAIN
};

const NEXT: &str = "nvidia-smi --query-compute-apps=pid,used_memory --format=csv";

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let What::CudaOom { text, .. } = &ctx.seen.event.what else { return };
    if ctx.warned(text) {
        return;
    }
    let mut found = ctx.first_of_its_kind(&RULE, text, "");
    ctx.sign(&mut found, text);
    if let Some(gpu) = gpu_of(text).filter(|_| !found.summary.contains(" GPU ")) {
        found.summary = format!("{} on its GPU {gpu}", found.summary);
    }
    // While the job runs the first question is who holds the memory.
    if !ctx.model.processes.is_empty() || found.next.is_none() {
        found.next = Some(NEXT.into());
    }
    out.push(found);
}

/// The GPU as the process counts them: PyTorch's `GPU 1 has a total capacity of`, and `(GPU 1; ` up to 2.0.
fn gpu_of(text: &str) -> Option<u32> {
    let number = |tail: &str| tail.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok();
    let (before, _) =
        text.split_once(" has a total capac").or_else(|| text.split_once("; ").filter(|(before, _)| before.contains("(GPU ")))?;
    number(before.rsplit_once("GPU ")?.1)
}
