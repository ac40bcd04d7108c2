//! The loss or the gradient norm has left its own history by orders of magnitude.

use super::chain::Chain;
use super::{Implies, ONCE, Rule, TextContext};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::Stamp;
use crate::base::units::significant;
use crate::logs::What;
use crate::model::usual::{Jump, LOSS_JUMP, NORM_JUMP};
use crate::observe::evidence::Witness;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "loss-spike",
    severity: Severity::Warning,
    title: "The loss or the gradient norm is orders of magnitude above what it was in this run",
    how: "Three progress lines in a row whose loss is ten times, or whose gradient norm is a hundred times, the highest of those before, \
          in a run whose values were near one another until then",
    advice: "Look at the batches and the learning rate at that step, and go back to a checkpoint before it if it does not come back. \
             With an ECC or Xid event of a GPU at the same time, test that GPU before it computes again",
    life: ONCE,
    implies: Implies::Nothing,
    chain: Chain { says_why: true, ..Chain::PLAIN },
    on_text: Some(check),
    limits: &[&LOSS_JUMP, &NORM_JUMP, &LINES],
    ..Rule::PLAIN
};

const LINES: Limit = Limit::count("loss-spike", "lines", 3.0, "so many progress lines in a row");

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let What::Step(step) = &ctx.seen.event.what else { return };
    let Some(progress) = ctx.model.files.get(&ctx.seen.file).map(|f| &f.progress) else { return };
    let due = |jump: &&Jump| f64::from(jump.values) == LINES.value();
    let loss = step.loss.and(progress.usual_loss.jump.as_ref()).filter(due).map(|jump| ("loss", jump));
    let norm = || step.grad_norm.and(progress.usual_norm.jump.as_ref()).filter(due).map(|jump| ("gradient norm", jump));
    let Some((what, jump)) = loss.or_else(norm) else { return };
    let at = jump.step.map_or(String::new(), |s| format!(" at step {s}"));
    let before = significant(jump.before);
    let words = format!("the {what} rose to {} or more{at}; it was {before} at most", significant(jump.least));
    let mut found = ctx.found(&RULE, what, words);
    found.since = jump.since;
    // The line is printed by one rank; its numbers are usually those of all.
    found.ranks.clear();
    found.gpus.clear();
    found.confidence = Confidence::Certain;
    found.why = format!("{} lines in a row, {:.0} times the highest of those before", jump.values, jump.least / jump.before);
    found.next = Some("look at batches and learning rate there; if it does not come back, go back to a checkpoint before it".into());
    found.witness = Witness::Progress;
    if let Some(fault) = memory_fault(ctx, jump.since) {
        found.why = format!("{}; shortly before: {}", found.why, fault.summary);
        found.next =
            Some("the data that a GPU computes may be damaged: stop the run, test that GPU, go back to a checkpoint before it".into());
        found.evidence.extend(fault.evidence.first().cloned());
    }
    out.push(found);
}

/// What damages numbers silently: memory that could not be corrected, or was replaced. No rank is blamed for it: that the two came
/// together proves nothing yet.
fn memory_fault<'a>(ctx: &'a TextContext, since: Stamp) -> Option<&'a Finding> {
    const SHORTLY: Duration = Duration::from_secs(600);
    let near = |f: &&Finding| f.since <= since && since.since(f.since) <= SHORTLY;
    ctx.ledger.open().into_iter().filter(|f| matches!(f.rule, "gpu-ecc" | "gpu-xid")).find(near)
}
