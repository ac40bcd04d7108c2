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
    how: "Skipped steps and loss scales in the log",
    advice: "A few at the start are normal; many in a row mean that the loss diverges: lower the learning rate, use bf16, look at the data",
    life: ONCE,
    implies: Implies::Nothing,
    on_facts: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for file in ctx.model.files.values() {
        out.extend(skipped(&file.progress).map(|f| Finding { job: Some(file.job.clone()), ..f }));
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
