//! Steps take longer than before, for all ranks.

use super::{Check, FactContext, Implies, ONCE, Rule};
use crate::findings::{Confidence, Evidence, Found, Severity};
use crate::units::seconds;

pub const RULE: Rule = Rule {
    id: "slow-steps",
    severity: Severity::Warning,
    title: "Steps take longer than before, for all ranks",
    how: "A lasting change of the job's own step time",
    advice: "Look at what changed at that step: data, sequence length, checkpoints beside training, throttled GPUs, a busy network",
    life: ONCE,
    implies: Implies::Slow,
    check: Check::Facts(check),
};

/// Only of a whole log: while a job runs, what looks like a change may be over in a minute.
fn check(ctx: &FactContext, out: &mut Vec<Found>) {
    if !ctx.ended {
        return;
    }
    for file in ctx.model.files.values() {
        let Some(slow) = file.progress.slowdown() else { continue };
        let now = ctx.model.now;
        let (before, after) = (seconds(slow.before_s), seconds(slow.after_s));
        let mut found = Found::new("steps", format!("steps take {after} instead of {before}, for the last {} of them", slow.steps), now);
        found.job = Some(file.job.clone());
        found.confidence = Confidence::Likely;
        found.why = format!("the median step time rose {:.1} times and stayed there", slow.after_s / slow.before_s);
        found.next = Some("look at what changed there: one late rank (RAS, GPU activity), data, sequence length, throttling".into());
        let step = file.progress.step.map_or(String::new(), |s| format!(", the last one is step {s}"));
        found.evidence = vec![Evidence {
            path: Some(file.info.path.clone()),
            ..Evidence::of(
                "line",
                format!("{} steps of {before} before, {} of {after} since{step}", file.progress.step_times.len() - slow.steps, slow.steps),
            )
        }];
        out.push(found);
    }
}
