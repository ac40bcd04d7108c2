//! fp16 gradients overflow again and again: steps are skipped.

use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::{Confidence, Severity};
use crate::base::units::group;
use crate::model::log::Progress;
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

/// Most steps were left out: a few at the start are how fp16 finds its scale.
fn skipped(progress: &Progress) -> Option<Finding> {
    let step = progress.step.filter(|step| *step >= 100)?;
    let skipped = progress.skipped_steps.min(step);
    (skipped * 2 > step).then_some(())?;
    let summary = format!("{} of {} steps were skipped because gradients overflowed", group(skipped), group(step));
    let mut found = RULE.weighed(Severity::Warning, Confidence::Certain, summary);
    found.why = "the run goes on, but it learns nothing from a step that is skipped".into();
    found.next = Some("train in bf16, or lower the learning rate; look at the data where it began".into());
    Some(found)
}
