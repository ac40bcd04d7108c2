//! fp16 gradients overflow again and again: steps are skipped.

use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::{Confidence, Severity};
use crate::base::units::group;
use crate::model::progress::Progress;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "grad-overflow",
    severity: Severity::Warning,
    title: "fp16 gradients overflow again and again: steps are skipped",
    how: "Most of the steps skipped, or a loss scale below 1 after a hundred steps, in the log",
    advice: "A few at the start are normal; many in a row mean that the loss diverges: lower the learning rate, use bf16, look at the data",
    life: ONCE,
    implies: Implies::Nothing,
    on_facts: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for file in ctx.model.files.values() {
        out.extend(skipped(&file.progress).or_else(|| unscaled(&file.progress)).map(|f| Finding { job: Some(file.job.clone()), ..f }));
    }
}

/// From 2^32, the highest scale that trainers begin with, to 1, each scale tried once more: so many overflows are no search for a scale.
const MORE_THAN_A_SEARCH: u64 = 65;
/// Of fewer steps most may be the search for the scale.
const LEAST_STEPS: u64 = 100;

/// Of a log that begins in the middle of a run only what it shows counts.
fn steps_seen(progress: &Progress) -> Option<u64> {
    let step = progress.step?;
    let first = progress.first_counted.filter(|first| *first > LEAST_STEPS);
    Some(first.map_or(step, |first| step.saturating_sub(first) + 1))
}

fn short(scale: f64) -> String {
    if scale < 1e-3 { format!("{scale:.1e}") } else { format!("{:.3}", scale).trim_end_matches('0').to_owned() }
}

/// Gradients are made larger so that fp16 can hold them; a scale that makes them smaller finds them too large without it.
fn unscaled(progress: &Progress) -> Option<Finding> {
    const LEAST_SCALE: f64 = 1.0;
    /// It grows again where this many steps do not overflow.
    const LATELY: u64 = 100;
    let (scale, step) = progress.loss_scale.filter(|(scale, _)| *scale > 0.0 && *scale < LEAST_SCALE)?;
    progress.step.filter(|now| *now >= LEAST_STEPS && now.saturating_sub(step) <= LATELY)?;
    let words = format!("the fp16 loss scale fell to {} at step {}: gradients overflow even without it", short(scale), group(step));
    let mut found = RULE.weighed(Severity::Warning, Confidence::Certain, words);
    found.why =
        "the scale keeps small gradients from vanishing and is halved at each overflow; below 1 it makes them smaller than they are".into();
    found.next = Some("look at gradient norm and loss: do they grow? Train in bf16, lower the learning rate or clip gradients, and look at the data where it began".into());
    Some(found)
}

/// Most steps were left out: a few at the start are how fp16 finds its scale.
fn skipped(progress: &Progress) -> Option<Finding> {
    let summary = match steps_seen(progress).filter(|seen| *seen >= LEAST_STEPS) {
        Some(seen) => {
            let skipped = progress.skipped_steps.min(seen);
            (skipped * 2 > seen)
                .then(|| format!("{} of {} steps were skipped because gradients overflowed", group(skipped), group(seen)))?
        }
        None if progress.step.is_none() && progress.skipped_steps >= MORE_THAN_A_SEARCH => {
            format!("{} steps were skipped because gradients overflowed, and no other step is seen", group(progress.skipped_steps))
        }
        None => return None,
    };
    let mut found = RULE.weighed(Severity::Warning, Confidence::Certain, summary);
    found.why = "the run goes on, but it learns nothing from a step that is skipped".into();
    found.next = Some("train in bf16, or lower the learning rate; look at the data where it began".into());
    Some(found)
}
