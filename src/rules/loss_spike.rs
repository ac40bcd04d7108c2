//! The loss or the gradient norm has left its own history.

use super::chain::Chain;
use super::{Implies, ONCE, Rule, TextContext};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::significant;
use crate::logs::{Step, What};
use crate::model::progress::Progress;
use crate::model::usual::{CLIMB, Jump, LOSS_JUMP, NORM_JUMP, UNDONE_LINES};
use crate::observe::evidence::Witness;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "loss-spike",
    severity: Severity::Warning,
    title: "The loss or the gradient norm is far above what it was in this run",
    how: "Three progress lines in a row whose loss is ten times, or whose gradient norm is a hundred times, the highest of those before, \
          in a run whose values were near one another until then; or after nine lines that hardly differ, where it rises over two; or a loss a thousand times that, after as few as five values; or twice what the run began with, where of that 1 % or nothing was left; or six times, where the newest 20 losses hardly differ and the leap undoes most of what the run has learnt; or a loss that hardly changed, leaps above what the run began with, and stays there for ten lines; or a loss that rose from line to line to twenty times its lowest value and \
          five times what the run began with",
    advice: "Look at the batches and the learning rate at that step, and go back to a checkpoint before it if it does not come back. \
             With an ECC or Xid event of a GPU at the same time, test that GPU before it computes again",
    life: ONCE,
    implies: Implies::Nothing,
    chain: Chain { says_why: true, is_of_numbers: true, ..Chain::PLAIN },
    on_text: Some(check),
    limits: &[&LOSS_JUMP, &NORM_JUMP, &CLIMB, &LINES],
    ..Rule::PLAIN
};

const LINES: Limit = Limit::count("loss-spike", "lines", 3.0, "so many progress lines in a row");

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    let What::Step(step) = &ctx.seen.event.what else { return };
    let Some(progress) = ctx.model.files.get(&ctx.seen.file).map(|f| &f.progress) else { return };
    if let Some(found) = climbed(ctx, step, progress) {
        out.push(found);
        return;
    }
    let (loss, norm) = (progress.usual_loss.jump.as_ref(), progress.usual_norm.jump.as_ref());
    let lines = |jump: &Jump| if jump.is_small { f64::from(UNDONE_LINES).max(LINES.value()) } else { LINES.value() };
    let due = |jump: &&Jump| f64::from(jump.values) == lines(jump);
    let known = |jump: Option<&Jump>| jump.is_some_and(|jump| f64::from(jump.values) >= lines(jump));
    let by_loss = step.loss.and(loss).filter(due).map(|jump| ("loss", jump, "gradient norm", norm));
    let by_norm = || step.grad_norm.and(norm).filter(due).map(|jump| ("gradient norm", jump, "loss", loss));
    let Some((what, jump, other, beside)) = by_loss.or_else(by_norm) else { return };
    // A run that diverges shows it in both; one was named already.
    if known(beside) && !beside.is_some_and(|b| due(&b)) {
        return;
    }
    let at = jump.step.map_or(String::new(), |s| format!(" at step {s}"));
    let before = significant(jump.before);
    let lately = if jump.is_from_nothing || jump.is_small { " in the lines before" } else { "" };
    let words = format!("the {what} rose to {} or more{at}; it was {before} at most{lately}", significant(jump.least));
    let mut found = ctx.found(&RULE, "divergence", words);
    found.since = jump.since;
    // The line is printed by one rank; its numbers are usually those of all.
    found.ranks.clear();
    found.gpus.clear();
    found.confidence = if jump.is_small || jump.is_from_nothing { Confidence::Likely } else { Confidence::Certain };
    found.why = match jump.is_small {
        true => {
            format!("{} lines in a row above what the run began with; a change of the objective or of the data looks the same", jump.values)
        }
        false if jump.is_from_nothing => format!(
            "{} lines in a row; next to nothing of the loss was left in the lines before, and this is more than the run began with; a new objective looks the same",
            jump.values
        ),
        false => format!("{} lines in a row, {:.0} times the highest of those before", jump.values, jump.least / jump.before),
    };
    found.next = Some("look at batches and learning rate there; if it does not come back, go back to a checkpoint before it".into());
    found.witness = Witness::Progress;
    if let Some(beside) = beside {
        found.why = format!("{}; the {other} rose to {} or more beside it", found.why, significant(beside.least));
    }
    out.push(found);
}

/// A loss that climbs from line to line without a leap.
fn climbed(ctx: &TextContext, step: &Step, progress: &Progress) -> Option<Finding> {
    let climb = &progress.usual_loss.climb;
    let is_due = f64::from(climb.values) == LINES.value() && progress.usual_loss.jump.is_none();
    let (loss, _) = step.loss.zip(is_due.then_some(()))?;
    let at = |step: Option<u64>| step.map_or(String::new(), |s| format!(" at step {s}"));
    let (least, first) = (significant(climb.least), significant(climb.at_first));
    let words = format!("the loss rose from {least}{} to {}{}", at(climb.least_step), significant(loss), at(step.step));
    let mut found = ctx.found(&RULE, "divergence", words);
    found.ranks.clear();
    found.gpus.clear();
    found.confidence = Confidence::Certain;
    found.why = format!("it is far above the lowest that it was, and above the {first} that the run began with: training diverges");
    found.next = Some("lower the learning rate, and go back to a checkpoint before the lowest loss".into());
    found.witness = Witness::Progress;
    Some(found)
}
