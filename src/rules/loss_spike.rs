//! The loss or the gradient norm has left its own history.

use super::chain::Chain;
use super::{Implies, ONCE, Rule, TextContext};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::significant;
use crate::logs::{Step, What};
use crate::model::own_loss::OwnLoss;
use crate::model::progress::Progress;
use crate::model::usual::{CLIMB, Jump, LOSS_JUMP, NORM_JUMP, UNDONE_LINES};
use crate::observe::evidence::Witness;
use crate::rules::findings::Finding;
use std::collections::BTreeSet;

pub const RULE: Rule = Rule {
    id: "loss-spike",
    severity: Severity::Warning,
    title: "The loss or the gradient norm is far above what it was in this run",
    how: "Three progress lines in a row whose loss is ten times, or whose gradient norm is a hundred times, the highest of those before, \
          in a run whose values were near one another until then; or after nine lines that hardly differ, where it rises over two; or a loss a thousand times that, after as few as five values; or twice what the run began with, where of that 1 % or nothing was left; or six times, where the newest 20 losses hardly differ and the leap undoes most of what the run has learnt; or a loss that hardly changed, leaps above what the run began with, and stays there for ten lines; or leaps by a third together with its gradient norm, or of one rank while that of another goes on; or a loss that rose from line to line to twenty times its lowest value and \
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
    let due = |jump: &&Jump| f64::from(jump.values) == lines(jump);
    let known = |jump: Option<&Jump>| jump.is_some_and(|jump| f64::from(jump.values) >= lines(jump));
    let by_loss = step.loss.and(loss).filter(due).map(|jump| ("loss", jump, "gradient norm", norm));
    let by_norm = || step.grad_norm.and(norm).filter(due).map(|jump| ("gradient norm", jump, "loss", loss));
    let Some((what, jump, other, beside)) = by_loss.or_else(by_norm) else {
        out.extend(of_one_rank(ctx, progress));
        return;
    };
    // A run that diverges shows it in both; one was named already.
    if known(beside) && !beside.is_some_and(|b| due(&b)) {
        return;
    }
    let at = jump.step.map_or(String::new(), |s| format!(" at step {s}"));
    let before = significant(jump.before);
    let lately = if jump.is_from_nothing || jump.is_small { " in the lines before" } else { "" };
    let begins_on = begins_on(ctx, jump).filter(|_| what == "loss");
    let whose = begins_on.map_or(String::new(), |rank| format!(" of rank {rank}"));
    let words = format!("the {what}{whose} rose to {} or more{at}; it was {before} at most{lately}", significant(jump.least));
    let mut found = ctx.found(&RULE, "divergence", words);
    found.since = jump.since;
    // The line is printed by one rank; its numbers are usually those of all.
    (found.ranks, found.gpus) = (begins_on.into_iter().collect(), Vec::new());
    found.confidence = if jump.is_small || jump.is_from_nothing { Confidence::Likely } else { Confidence::Certain };
    found.why = match jump.is_small {
        true => {
            format!(
                "{} lines in a row, after lines that hardly differed; a change of the objective or of the data looks the same",
                jump.values
            )
        }
        false if jump.is_from_nothing => format!(
            "{} lines in a row; next to nothing of the loss was left in the lines before, and this is more than the run began with; a new objective looks the same",
            jump.values
        ),
        false => format!("{} lines in a row, {:.0} times the highest of those before", jump.values, jump.least / jump.before),
    };
    found.next = Some("look at batches and learning rate there; if it does not come back, go back to a checkpoint before it".into());
    found.witness = Witness::Progress;
    if begins_on.is_some() {
        found.why += "; the losses that other ranks print rose by less, or not at all";
    }
    if let Some(beside) = beside {
        found.why = format!("{}; the {other} rose to {} or more beside it", found.why, significant(beside.least));
    }
    out.push(found);
}

/// So many lines in a row make it one.
fn lines(jump: &Jump) -> f64 {
    if jump.is_small { f64::from(UNDONE_LINES).max(LINES.value()) } else { LINES.value() }
}

/// The own loss of a rank left its place, and that of another did not.
fn of_one_rank(ctx: &TextContext, progress: &Progress) -> Option<Finding> {
    let rank = ctx.seen.rank?;
    let jump = progress.loss_of_rank.get(&rank)?.usual.jump.filter(|jump| f64::from(jump.values) == lines(jump))?;
    begins_on(ctx, &jump).filter(|most| *most == rank)?;
    let at = jump.step.map_or(String::new(), |step| format!(" at step {step}"));
    let before = significant(jump.before);
    let words =
        format!("the loss of rank {rank} rose to {} or more{at}; it was {before} at most in the lines before", significant(jump.least));
    let mut found = ctx.found(&RULE, "divergence", words);
    found.since = jump.since;
    (found.ranks, found.confidence) = (vec![rank], Confidence::Likely);
    found.why = format!("{} lines of this rank in a row; the losses that other ranks print rose by less, or not at all", jump.values);
    found.next =
        Some("look at its batches and at its part of the model there; if it does not come back, go back to a checkpoint before it".into());
    found.witness = Witness::Progress;
    Some(found)
}

/// The rank whose own loss rose, or rose most, where the losses of all ranks are known, and that of another goes on as before. `None` also where not all
/// have come to that step.
fn begins_on(ctx: &TextContext, jump: &Jump) -> Option<u32> {
    let files = ctx.model.files.values().filter(|file| file.job == ctx.seen.job);
    let losses: Vec<(u32, &OwnLoss)> = files.flat_map(|file| &file.progress.loss_of_rank).map(|(rank, own)| (*rank, own)).collect();
    let is_there = |own: &OwnLoss| own.usual.jump.is_some() || own.step.is_some() && own.step >= jump.step;
    if !losses.iter().all(|(_, own)| is_there(own)) {
        return None;
    }
    let world_size = ctx.model.jobs.get(&ctx.seen.job).and_then(|job| job.world_size);
    stands_out(losses.into_iter().map(|(rank, own)| (rank, own.rose())).collect(), world_size, jump.least / jump.before)
}

/// The rank whose loss rose by most times, where all are there, and that of one did not rise. Those that follow its bad step rise, too, a step later.
fn stands_out(mut rises: Vec<(u32, f64)>, world_size: Option<u32>, of_the_line: f64) -> Option<u32> {
    /// By which the highest must exceed the next.
    const ABOVE: f64 = 1.2;
    const GOES_ON: f64 = 1.1;
    rises.sort_by(|a, b| b.1.total_cmp(&a.1));
    let ranks = rises.iter().map(|(rank, _)| *rank).collect::<BTreeSet<u32>>();
    let all = world_size.unwrap_or_else(|| ranks.last().map_or(0, |last| last + 1)) as usize;
    let [(rank, most), (_, next), ..] = rises[..] else { return None };
    let is_whole = ranks.len() == all && rises.len() == all;
    let goes_on = rises.last().is_some_and(|(_, least)| *least <= GOES_ON);
    (is_whole && goes_on && most >= next * ABOVE && most >= of_the_line).then_some(rank)
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

#[cfg(test)]
mod tests {
    use super::stands_out;

    #[test]
    fn the_rank_whose_own_loss_rises_stands_out() {
        assert_eq!(stands_out(vec![(0, 1.9), (1, 1.0)], Some(2), 1.9), Some(0));
        assert_eq!(stands_out(vec![(0, 1.4), (3, 1.9), (1, 1.0), (2, 1.0)], None, 1.4), Some(3));
        // All of them rise, one is not seen, two files have one rank, or two rise alike.
        assert_eq!(stands_out(vec![(0, 1.9), (1, 1.4)], Some(2), 1.9), None);
        assert_eq!(stands_out(vec![(0, 1.9), (1, 1.0)], Some(4), 1.9), None);
        assert_eq!(stands_out(vec![(0, 1.9), (0, 1.9), (1, 1.0)], None, 1.9), None);
        assert_eq!(stands_out(vec![(0, 1.9), (1, 1.8), (2, 1.0)], None, 1.9), None);
    }
}
