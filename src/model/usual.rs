//! What a number in a job's progress lines usually is, and since when it is far above that.

use super::series::Series;
use crate::base::limit::Limit;
use crate::base::time::Stamp;

/// By how many times the highest of the values before must be exceeded. A loss that doubles comes back by itself in most runs, and
/// one bad batch makes a gradient a hundred times as long; orders of magnitude in several lines do not come back.
pub const LOSS_JUMP: Limit = Limit::times("loss-spike", "loss", 10.0, "the loss must exceed the highest of 50 values before so many times");
pub const NORM_JUMP: Limit =
    Limit::times("loss-spike", "norm", 100.0, "the gradient norm must exceed the highest of 50 values before so many times");

/// Values before anything can be called unusual.
const LEAST: usize = 20;
/// So many of the newest may be on their way up already: a run that diverges does so over several lines.
const RISING: usize = 10;
/// Values in a row that are the new usual.
const SETTLED: u32 = 50;

/// The newest values of a number, and what lies far above them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Usual {
    values: Series<60>,
    /// The jump that has not ended.
    pub jump: Option<Jump>,
}

/// Values in a row that are far above all before them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Jump {
    pub since: Stamp,
    /// The step of the first of them, where the line names it.
    pub step: Option<u64>,
    pub values: u32,
    pub least: f64,
    /// The highest of the values before.
    pub before: f64,
}

impl Usual {
    /// Adds a value. `spread` is how many times the highest value may exceed the lowest in a history that something can be held against.
    pub fn note(&mut self, at: Stamp, step: Option<u64>, value: f64, times: &Limit, spread: f64) {
        if !value.is_finite() {
            return;
        }
        if let Some(before) = self.highest(spread).filter(|before| value >= before * times.value()) {
            let jump = self.jump.get_or_insert(Jump { since: at, step, values: 0, least: value, before });
            (jump.values, jump.least) = (jump.values + 1, jump.least.min(value));
            if jump.values < SETTLED {
                return;
            }
            self.values = Series::default();
        }
        self.jump = None;
        self.values.push(at, value);
    }

    /// Steps are counted anew: an attempt of its own, with a history of its own.
    pub fn begin_anew(&mut self) {
        *self = Usual::default();
    }

    fn highest(&self, spread: f64) -> Option<f64> {
        let settled = self.values.len().checked_sub(RISING).filter(|n| *n >= LEAST)?;
        let values = self.values.iter().take(settled).map(|(_, v)| v);
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
        (least > 0.0 && most <= least * spread).then_some(most)
    }
}
