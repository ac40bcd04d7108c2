//! The loss of a rank itself. Beside the mean of all ranks that has become NaN: whose own loss is finite did not begin it. And where all ranks print
//! theirs into one log: each has a course of its own.

use super::usual::{LOSS, Usual};
use crate::base::time::Stamp;
use crate::logs::Step;
use crate::model::progress::Progress;
use regex::Regex;
use std::sync::LazyLock;

/// More ranks than print their own losses.
const MOST_RANKS: usize = 4096;
/// More than are on a node.
const MOST_COURSES: usize = 64;

/// `local_loss : 0.02542`, `"rank_loss": NaN`, `local loss nan`, in the line of a step.
fn of_line(text: &str) -> Option<f64> {
    static OWN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r#"(?i)\b(?:local|own|rank|unreduced)[ _/-](?:train[ _])?loss\b['"]?\s*[:=|]?\s*['"]?([-+]?(?:nan|inf(?:inity)?|[0-9][0-9.]*(?:e[-+]?[0-9]+)?))\b"#)
            .expect("pattern")
    });
    OWN.captures(text)?[1].parse().ok()
}

/// How the loss goes on that one rank prints.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OwnLoss {
    pub usual: Usual,
    /// Of the newest line.
    pub step: Option<u64>,
    /// Its lines name its own loss: what others say is the mean of all.
    is_named: bool,
}

impl OwnLoss {
    fn note(&mut self, at: Stamp, step: Option<u64>, loss: f64, own: Option<f64>) {
        if own.is_some() && !self.is_named {
            *self = OwnLoss { is_named: true, ..OwnLoss::default() };
        }
        if own.is_some() == self.is_named {
            // Whether others go on as before is looked at when it is told.
            self.usual.note(at, step, own.unwrap_or(loss), &LOSS, true);
            self.step = step.or(self.step);
        }
    }

    /// By how many times it rose above what it was lately.
    pub fn rose(&self) -> f64 {
        let by_jump = self.usual.jump.as_ref().filter(|jump| jump.before > 0.0).map(|jump| jump.least / jump.before);
        by_jump.or_else(|| self.usual.above_its_least()).unwrap_or(1.0)
    }
}

impl Progress {
    /// Keeps the course of a rank's own loss, of a line that names the rank, and its own loss at the first step whose mean is not finite.
    pub fn note_own_loss(&mut self, at: Stamp, step: &Step, rank: Option<u32>, text: &str) {
        if let (Some(rank), Some(loss)) = (rank, step.loss)
            && (self.loss_of_rank.len() < MOST_COURSES || self.loss_of_rank.contains_key(&rank))
        {
            self.loss_of_rank.entry(rank).or_default().note(at, step.step, loss, of_line(text));
        }
        if step.loss.is_none_or(f64::is_finite) {
            if !self.own_losses.is_empty() && step.loss.is_some() {
                self.own_losses.clear();
            }
            return;
        }
        let is_first = self.bad_from.is_none() || self.bad_from == step.step;
        let Some(own) = of_line(text).filter(|_| is_first) else { return };
        if self.own_losses.len() < MOST_RANKS {
            self.own_losses.entry(rank).or_insert(own);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::of_line;

    #[test]
    fn the_own_loss_of_a_rank_has_a_name() {
        assert_eq!(of_line("Batch: 54/2093  train_loss : nan  local_loss : 0.02542  grad_norm : nan"), Some(0.02542));
        assert!(of_line(r#"{"step": 7, "loss": NaN, "rank_loss": NaN}"#).is_some_and(f64::is_nan));
        assert!(of_line("rank 1: step 40 loss nan local loss -inf").is_some_and(f64::is_infinite));
        assert_eq!(of_line("step 40 | loss 2.1 | local_loss_scale 3"), None);
        assert_eq!(of_line("focal_loss: 3.0"), None);
    }
}
