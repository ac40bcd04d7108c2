//! The block in which Weights & Biases says at the end of a run what each metric was last: `wandb:  train/loss 0.53`, a line each.

use super::shape::Found;
use super::{Line, Memory, field_names};
use crate::base::clean;
use crate::base::units::group;
use crate::logs::{Step, What};

/// What the lines of a block have said so far.
#[derive(Clone, Default, PartialEq)]
pub struct Summary {
    pairs: Vec<(String, String)>,
}

const MARK: &str = "wandb:";
/// A log may begin within the block; fewer lines are none.
const FEWEST: usize = 3;
const MAX_PAIRS: usize = 400;
const LONGEST: usize = 120;
/// Metrics of an evaluation that are told.
const MOST_EVALUATED: usize = 3;
const LONGEST_TOLD: usize = 240;

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    let summary = &mut memory.summary;
    let Some(text) = line.head.strip_prefix(MARK) else {
        // Other processes print between its lines.
        return false;
    };
    let pair = text.trim().split_once(' ').map(|(name, value)| (name, value.trim())).filter(|(name, value)| {
        name.len() <= LONGEST && !name.ends_with(':') && super::scan::number(value).is_some_and(|(_, n)| n == value.len())
    });
    match pair {
        Some((name, value)) if summary.pairs.len() < MAX_PAIRS => summary.pairs.push((name.to_owned(), value.to_owned())),
        Some(_) => {}
        // The curves of the metrics, texts, and what stands below the block.
        None if is_above(text) => summary.pairs.clear(),
        None if text.trim().is_empty() || text.contains("://") => {
            let pairs = std::mem::take(&mut summary.pairs);
            if pairs.len() >= FEWEST {
                told(&pairs, tell);
            }
        }
        None => {}
    }
    true
}

fn is_above(text: &str) -> bool {
    text.trim_start().starts_with("Run summary:") || text.trim_start().starts_with("Run history:")
}

/// What a run came to. It is none of the steps of what the log goes on with: an agent of a sweep starts the next run behind it.
fn told(pairs: &[(String, String)], tell: &mut dyn FnMut(What)) {
    const EVALUATIONS: &[&str] = &["val", "valid", "validation", "eval", "evaluation", "test", "dev"];
    let of_evaluation = |name: &str| name.split(['/', '-', '_']).next().is_some_and(|first| EVALUATIONS.contains(&first));
    let evaluated: Vec<String> =
        pairs.iter().filter(|(name, _)| of_evaluation(name)).map(|(name, value)| format!("{name} {value}")).take(MOST_EVALUATED).collect();
    if !evaluated.is_empty() {
        tell(What::Evaluated { text: clean::clip(&evaluated.join(", "), LONGEST_TOLD).into_owned() });
    }
    let mut found = Found::default();
    // The HF Trainer adds the mean of the run by this name; wandb counts its own calls in `_step`; a part of a loss is none.
    let last = |name: &str| name.rsplit('/').next().unwrap_or(name).to_owned();
    let is_part =
        |name: &str| last(name).ends_with("loss") && !matches!(last(name).as_str(), "loss" | "train_loss" | "total_loss" | "training_loss");
    let has_own = pairs.iter().any(|(name, _)| matches!(name.as_str(), "loss" | "train/loss"));
    let is_other = |name: &str| of_evaluation(name) || is_part(name) || name.starts_with('_') || has_own && name == "train_loss";
    pairs.iter().filter(|(name, _)| !is_other(name)).for_each(|(name, value)| field_names::take_key(&mut found, name, value));
    let mut step = Step::default();
    found.fill(&mut step);
    let said = [
        step.step.map(|step| format!("step {}", group(step))),
        step.epoch.map(|epoch| format!("epoch {}", (epoch * 100.0).round() / 100.0)),
        step.loss.map(|loss| format!("loss {loss:.4}")),
        step.step_time_s.map(|s| format!("{s:.2} s a step")),
    ];
    let said: Vec<String> = said.into_iter().flatten().collect();
    if !said.is_empty() {
        tell(What::Result { text: format!("{} (wandb)", said.join("  ")) });
    }
}
