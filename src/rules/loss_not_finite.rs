//! The loss is NaN or infinite.

use super::chain::Chain;
use super::{Implies, ONCE, Rule, TextContext};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::counted;
use crate::base::words::rank_words;
use crate::logs::{Step, What};
use crate::model::progress::{Progress, RECOVERED};
use crate::observe::evidence::Witness;
use crate::rules::findings::Finding;
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

pub const RULE: Rule = Rule {
    id: "loss-not-finite",
    severity: Severity::Error,
    title: "The loss is NaN or infinite: the run goes on, but it learns nothing",
    how: "A NaN loss in a progress line, or two infinite ones in a row (a single one is usual with fp16 loss scaling); Megatron leaves the \
          field out instead. A loss of exactly 0, one that does not change in any digit beside gradients of 0, and gradients that are NaN, again and again, are warnings, and so is a NaN loss of an evaluation",
    advice: "Stop the run and go back to a checkpoint before it. Look at learning rate, data and fp16 overflow; a NaN that first appears on one \
             rank can be a defective GPU",
    life: ONCE,
    implies: Implies::Nothing,
    chain: Chain { says_why: true, is_of_numbers: true, ..Chain::PLAIN },
    on_text: Some(check),
    takes_back: Some(taken_back),
    limits: &[&LEAST_ZEROS, &LEAST_NORMS],
    ..Rule::PLAIN
};

/// Lines in a row that are not finite, where some were before and the loss came back.
const LEAST_AFTER: u32 = 10;

/// What findings are about that say that the loss is not finite now.
const LOSS: &str = "loss";

/// A single one is how fp16 looks for its scale.
const LEAST_ZEROS: Limit = Limit::count("loss-not-finite", "zeros", 3.0, "so many losses of exactly 0 in a row");
const LEAST_NORMS: Limit = Limit::count("loss-not-finite", "norms", 10.0, "so many gradient norms in a row that are not finite");

/// The loss can be read, but nothing is learnt: it fell to exactly 0 or stands still, or the gradients are NaN.
fn worthless(ctx: &TextContext, step: &Step, progress: &Progress, out: &mut Vec<Finding>) {
    let zero = step.loss == Some(0.0) && progress.zero_losses >= LEAST_ZEROS.value() as u32;
    let still = progress.zero_norms >= LEAST_ZEROS.value() as u32 && progress.same_losses >= LEAST_ZEROS.value() as u32;
    if !zero && !still && progress.bad_norms < LEAST_NORMS.value() as u32 {
        return;
    }
    let what = match (zero, still, progress.bad_norms > 0) {
        (true, _, true) => "the loss is exactly 0 and the gradient norm is not finite",
        (true, _, false) => "the loss is exactly 0",
        (false, true, _) => "the loss stays the same to the last digit and the gradient norm is 0",
        (false, false, _) => "the gradient norm is not finite",
    };
    let at = step.step.or(progress.step).map_or(String::new(), |s| format!(" at step {s}"));
    let mut found = ctx.found(&RULE, "gradients", format!("{what}{at}, again and again"));
    found.ranks.clear();
    found.gpus.clear();
    found.severity = Severity::Warning;
    found.confidence = Confidence::Likely;
    found.why = "the progress lines say so: the run goes on, but it learns nothing".into();
    found.next = Some(match still && !zero {
        true => {
            "which parameters have requires_grad, and are they the optimizer's? Does the learning rate differ from 0, does the data change?"
                .into()
        }
        false => "stop the run and go back to a checkpoint before it; train in bf16, lower the learning rate, look at the data".into(),
    });
    found.witness = Witness::Progress;
    out.push(found);
}

/// The evaluation's loss is NaN: the model that is saved gives nothing else.
fn of_evaluation(ctx: &TextContext, text: &str, out: &mut Vec<Finding>) {
    static LOSS: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r#"(?i)\b(?:eval|val|valid|validation|test)[ _/]loss['"]?\s*[:=]?\s*['"]?nan\b"#).expect("pattern"));
    if !LOSS.is_match(text) {
        return;
    }
    let progress = ctx.model.files.get(&ctx.seen.file).map(|f| &f.progress);
    // The losses of the steps say it, and since when.
    if ctx.ledger.is_open(RULE.id, Some(&ctx.seen.job)) || progress.is_some_and(|p| p.zero_losses > 0) {
        return;
    }
    let norm = progress.is_some_and(|p| p.bad_norms > 0 && p.bad_losses == 0);
    let norm = if norm { ", and so is the gradient norm of the last step" } else { "" };
    let mut found = ctx.found(&RULE, "evaluation", format!("the loss of the evaluation is NaN{norm}"));
    found.ranks.clear();
    found.gpus.clear();
    found.severity = Severity::Warning;
    found.confidence = Confidence::Likely;
    found.why = "the model gives NaN for the evaluation's data, or there was none to take a mean of".into();
    found.next = Some(
        "look whether weights are NaN; go back to a checkpoint whose evaluation was finite; train in bf16 or with a lower learning rate"
            .into(),
    );
    found.witness = Witness::Progress;
    out.push(found);
}

fn check(ctx: &TextContext, out: &mut Vec<Finding>) {
    if let What::Evaluated { text } = &ctx.seen.event.what {
        return of_evaluation(ctx, text, out);
    }
    let What::Step(step) = &ctx.seen.event.what else { return };
    let Some(progress) = ctx.model.files.get(&ctx.seen.file).map(|f| &f.progress) else { return };
    let (what, least) = match step.loss {
        Some(loss) if loss.is_nan() => ("NaN", 1),
        Some(loss) if loss.is_infinite() => ("infinite", 2),
        None if step.loss_missing && step.grad_norm.is_some_and(f64::is_nan) => {
            ("left out of the line, as Megatron does with NaN, and the gradient norm is NaN,", 1)
        }
        None if step.loss_missing => ("left out of the line, as Megatron does with NaN", 2),
        _ => {
            out.extend(recovered(ctx, progress));
            return worthless(ctx, step, progress, out);
        }
    };
    // What has come back before may come back again.
    if progress.bad_losses < if progress.recoveries > 0 { LEAST_AFTER } else { least } {
        return;
    }
    let at = step.step.or(progress.step).map_or(String::new(), |s| format!(" at step {s}"));
    let now = step.step.or(progress.step);
    let of_step = |step: Option<u64>| step.filter(|_| step != now).map_or(String::new(), |step| format!(" at step {step}"));
    let before = progress.finite_loss.map(|(step, loss)| format!("{loss:.4}{}", of_step(step)));
    let was = before.as_ref().map_or(String::new(), |before| format!("; it was {before}"));
    let mut found = ctx.found(&RULE, LOSS, format!("the loss is {what}{at}{was}"));
    // The line is printed by one rank; the loss is usually that of all.
    let began = began_on(ctx, progress);
    if !began.is_empty() {
        if found.ranks != began {
            found.gpus.clear();
        }
        found.ranks.clone_from(&began);
    } else if !is_of_its_rank_alone(ctx, progress) {
        found.ranks.clear();
        found.gpus.clear();
    }
    found.confidence = Confidence::Certain;
    found.why = match found.ranks.is_empty() {
        true => "the progress line says so".into(),
        false if !began.is_empty() => {
            format!("the own loss of {} was not finite at that step, and that of the others was", rank_words(&began))
        }
        false => "the progress line says so; the other ranks printed finite losses after it: it began on this rank".into(),
    };
    found.next = Some("stop the run and go back to the last checkpoint before this step".into());
    found.witness = Witness::Progress;
    out.push(found);
}

/// The open finding that a log's loss is not finite, where that loss has been finite for some steps again.
fn taken_back<'a>(ctx: &TextContext<'a>) -> Option<&'a Finding> {
    let What::Step(_) = ctx.seen.event.what else { return None };
    let progress = ctx.model.files.get(&ctx.seen.file).map(|f| &f.progress)?;
    if progress.was_bad.is_none() || progress.finite_again < RECOVERED {
        return None;
    }
    let path = ctx.model.path_of(ctx.seen.file);
    let is_its = |f: &Finding| f.evidence.first().is_some_and(|proof| proof.path.as_deref() == Some(path));
    ctx.ledger.first_open(|f| f.rule == RULE.id && f.subject == LOSS && f.job.as_deref() == Some(&ctx.seen.job) && is_its(f))
}

fn recovered(ctx: &TextContext, progress: &Progress) -> Option<Finding> {
    let (before, bad) = (taken_back(ctx)?, progress.was_bad?);
    let steps = match (bad.from, bad.to) {
        (Some(from), Some(to)) if from < to => format!(" in {} from step {from} to {to}", counted(bad.lines, "line")),
        (Some(from), _) => format!(" at step {from}"),
        _ => String::new(),
    };
    let mut found = ctx.found(&RULE, "finite again", format!("the loss was NaN or infinite{steps}, and is finite again"));
    found.ranks.clear();
    found.gpus.clear();
    found.severity = if bad.in_the_middle { Severity::Warning } else { Severity::Info };
    found.confidence = Confidence::Certain;
    found.why = match bad.in_the_middle {
        true => "the loss was finite before it and after it: single batches, or an optimizer that left these steps out".into(),
        false => "no loss before them was finite: nothing was learnt yet, as while a buffer fills".into(),
    };
    found.next = Some("nothing, where the loss goes on to fall; else look at the data of these steps and at fp16 overflow".into());
    found.witness = Witness::Progress;
    found.evidence.clone_from(&before.evidence);
    Some(found)
}

/// The ranks whose own losses were not finite at the first step whose mean was not, where those of others were.
fn began_on(ctx: &TextContext, own: &Progress) -> Vec<u32> {
    let of_step = |progress: &&Progress| progress.bad_from == own.bad_from;
    let files = ctx.model.files.values().filter(|file| file.job == ctx.seen.job).map(|file| &file.progress);
    let losses = files.filter(of_step).flat_map(|progress| &progress.own_losses);
    let (finite, bad): (Vec<_>, Vec<_>) = losses.partition(|(_, loss)| loss.is_finite());
    let bad: Option<BTreeSet<u32>> = bad.into_iter().map(|(rank, _)| *rank).collect();
    bad.filter(|_| !finite.is_empty()).into_iter().flatten().collect()
}

/// Each rank has a log of its own, and all others have printed a finite loss since the last one of this rank, be it only one. Stages of a pipeline that have no
/// loss print 0.
fn is_of_its_rank_alone(ctx: &TextContext, own: &Progress) -> bool {
    let Some((rank, (Some(last), _))) = ctx.seen.rank.zip(own.finite_loss) else { return false };
    let others = || {
        let of_job = ctx.model.files.values().filter(|file| file.job == ctx.seen.job && file.rank.is_some_and(|other| other != rank));
        of_job.map(|file| &file.progress).filter(|progress| progress.step.is_some())
    };
    let goes_on = |other: &Progress| other.bad_losses == 0 && other.loss.is_some_and(|loss| loss != 0.0) && other.step > Some(last);
    // Its NaN is that of all one step later: theirs was finite at the step of its first.
    let came_later =
        |other: &Progress| other.finite_loss.is_some_and(|(step, loss)| step >= own.bad_from && own.bad_from.is_some() && loss != 0.0);
    others().next().is_some() && others().all(|other| goes_on(other) || came_later(other))
}
