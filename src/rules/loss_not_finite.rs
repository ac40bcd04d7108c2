//! The loss is NaN or infinite.

use super::{Check, Implies, ONCE, Rule, TextContext};
use crate::findings::{Confidence, Found, Severity};
use crate::text::What;

pub const RULE: Rule = Rule {
    id: "loss-not-finite",
    severity: Severity::Error,
    title: "The loss is NaN or infinite: the run goes on, but it learns nothing",
    how: "A NaN loss in a progress line, or two infinite ones in a row (a single one is usual with fp16 loss scaling); Megatron leaves the \
          field out instead",
    advice: "Stop the run and go back to a checkpoint before it. Look at learning rate, data and fp16 overflow; a NaN that first appears on one \
             rank can be a defective GPU",
    life: ONCE,
    implies: Implies::Nothing,
    check: Check::Text(check),
};

fn check(ctx: &TextContext, out: &mut Vec<Found>) {
    let What::Step(step) = &ctx.seen.event.what else { return };
    let Some(progress) = ctx.model.files.get(&ctx.seen.file).map(|f| &f.progress) else { return };
    let (what, least) = match step.loss {
        Some(loss) if loss.is_nan() => ("NaN", 1),
        Some(loss) if loss.is_infinite() => ("infinite", 2),
        None if step.loss_missing => ("left out of the line, as Megatron does with NaN", 2),
        _ => return,
    };
    if progress.bad_losses < least {
        return;
    }
    let at = step.step.or(progress.step).map_or(String::new(), |s| format!(" at step {s}"));
    let mut found = ctx.found("loss", format!("the loss is {what}{at}"));
    // The line is printed by one rank; the loss is usually that of all.
    found.ranks.clear();
    found.gpus.clear();
    found.confidence = Confidence::Certain;
    found.why = "the progress line says so".into();
    found.next = Some("stop the run and go back to the last checkpoint before this step".into());
    out.push(found);
}
