//! What a number in a job's progress lines usually is, and since when it is far above that.

use super::series::Series;
use crate::base::limit::Limit;
use crate::base::time::Stamp;

/// By how many times the highest of the values before must be exceeded. A loss that doubles comes back by itself in most runs, and
/// one bad batch makes a gradient a hundred times as long; orders of magnitude in several lines do not come back.
pub const LOSS_JUMP: Limit = Limit::times("loss-spike", "loss", 10.0, "the loss must exceed the highest of 50 values before so many times");
pub const NORM_JUMP: Limit =
    Limit::times("loss-spike", "norm", 100.0, "the gradient norm must exceed the highest of 50 values before so many times");

/// A loss that climbs slowly is no jump: this many times the lowest that it has been, and so many times what the run began with.
pub const CLIMB: Limit = Limit::times("loss-spike", "climb", 20.0, "a loss that climbs slowly must exceed the lowest before so many times");
const WORSE_THAN_AT_FIRST: f64 = 5.0;
/// The first values of a run, whose highest is what it began with.
const FIRST: u32 = 5;
/// Of a loss that leaps by more from line to line and comes back, a climb says nothing.
const ROUGH: f64 = 4.0;

/// A loss that leaps above what the run began with, and stays there for so many lines, has lost what was learnt; by so many times.
pub const UNDONE_LINES: u32 = 10;
const UNDONE: f64 = 1.8;
/// Before that the newest values hardly differed, and had come down.
const CALM: usize = 10;
const CALM_SPREAD: f64 = 1.1;

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
    pub climb: Climb,
}

/// Where a number that only climbs has come from.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Climb {
    seen: u32,
    rough: bool,
    last: f64,
    /// The highest of the first values.
    pub at_first: f64,
    pub least: f64,
    /// Which value it was, from 1.
    least_at: u32,
    /// The step of the lowest value, where the line names it.
    pub least_step: Option<u64>,
    /// The newest values in a row that are far above both.
    pub values: u32,
}

impl Climb {
    /// It fell well below what it began with. A loss that begins near zero is meant to grow, and a sum over an epoch only grows.
    fn has_learnt(&self) -> bool {
        const NO_LOSS: f64 = 0.01;
        self.least_at > FIRST && self.at_first >= NO_LOSS && self.least <= self.at_first / 2.0
    }

    fn note(&mut self, step: Option<u64>, value: f64) {
        let above = value >= self.least * CLIMB.value() && value >= self.at_first * WORSE_THAN_AT_FIRST;
        let is_above = !self.rough && self.seen >= LEAST as u32 && above && self.has_learnt();
        // How it fell does not matter, nor what it does near zero, nor how it goes on far above.
        let rose = if self.last > 0.0 { value / self.last } else { 1.0 };
        let leaps = rose > ROUGH && value > self.at_first / 10.0;
        self.rough |= value <= 0.0 || self.seen >= FIRST && leaps && !is_above;
        (self.seen, self.last) = (self.seen.saturating_add(1), value);
        if self.seen <= FIRST {
            self.at_first = self.at_first.max(value);
        }
        if self.seen == 1 || value < self.least {
            (self.least, self.least_step, self.least_at) = (value, step, self.seen);
        }
        self.values = if is_above { self.values.saturating_add(1) } else { 0 };
    }
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
    /// It is no leap of orders of magnitude: it tells only if it stays for long.
    pub is_small: bool,
    /// Nothing was left of what the run began with, and it is above even that.
    pub is_from_nothing: bool,
}

/// Which of the numbers of a line it is.
pub struct Number {
    times: &'static Limit,
    /// How many times the highest value may exceed the lowest in a history that something can be held against.
    spread: f64,
    is_loss: bool,
}

pub const LOSS: Number = Number { times: &LOSS_JUMP, spread: 5.0, is_loss: true };
pub const NORM: Number = Number { times: &NORM_JUMP, spread: 20.0, is_loss: false };

impl Usual {
    /// Adds a value.
    /// `beside`: something else tells of the leap, too: the gradient norm of the same line, or the losses of other ranks, which go on.
    pub fn note(&mut self, at: Stamp, step: Option<u64>, value: f64, of: &Number, beside: bool) {
        let Number { times, spread, is_loss } = *of;
        if !value.is_finite() {
            return;
        }
        self.climb.note(step, value);
        let far_above = |(before, share): &(f64, f64)| value >= before * times.value() * share;
        let narrow = if is_loss { self.narrow(value) } else { None };
        let (early, calm) = if is_loss { (self.early(), self.calm_start(value)) } else { (None, None) };
        let far =
            [self.highest(spread).zip(Some(1.0)), narrow, early, calm].into_iter().flatten().find(far_above).map(|(before, _)| before);
        let nothing = if far.is_none() && is_loss { self.above_nothing(value) } else { None };
        let far = far.or(nothing);
        let both = || if is_loss && beside { self.leaves_its_place(value).or_else(|| self.leaves_a_level(value)) } else { None };
        let undone = || if is_loss { self.undone(value).or_else(both) } else { None };
        if let Some((before, is_small)) = far.map(|before| (before, false)).or_else(|| Some((undone()?, true))) {
            // What leaps further is another one.
            self.jump = self.jump.take().filter(|jump| is_small || !jump.is_small);
            let jump = self.jump.get_or_insert(Jump {
                since: at,
                step,
                values: 0,
                least: value,
                before,
                is_small,
                is_from_nothing: nothing.is_some(),
            });
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

    /// The highest of the newest values where they hardly differ and lie well below what the run began with, if `value` is above all that.
    fn undone(&self, value: f64) -> Option<f64> {
        let most = self.calm(CALM_SPREAD)?;
        let has_fallen = most * UNDONE <= self.climb.at_first && self.climb.seen > LEAST as u32;
        (has_fallen && value >= most * UNDONE && value >= self.climb.at_first).then_some(most)
    }

    /// The highest of the newest values, where they hardly differ.
    fn calm(&self, spread: f64) -> Option<f64> {
        self.calm_of(CALM, spread)
    }

    fn calm_of(&self, newest: usize, spread: f64) -> Option<f64> {
        let before = self.values.len().checked_sub(newest)?;
        let values = self.values.iter().skip(before).map(|(_, v)| v);
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
        (least > 0.0 && most <= least * spread).then_some(most)
    }

    /// How many times the least of the newest values the very newest is.
    pub fn above_its_least(&self) -> Option<f64> {
        let newest = self.values.iter().skip(self.values.len().saturating_sub(2 * LEAST)).map(|(_, v)| v);
        let least = newest.fold(f64::INFINITY, f64::min);
        self.values.last().filter(|_| least > 0.0 && least.is_finite()).map(|last| last / least)
    }

    /// From where on a gradient norm leaps: many times the highest of the newest, where those lie near one another. It differs from line to line.
    pub fn leaps_from(&self) -> Option<f64> {
        const SPREAD: f64 = 5.0;
        const TIMES: f64 = 10.0;
        self.calm(SPREAD).map(|most| most * TIMES)
    }

    /// The highest of the newest values where they hardly differ, if `value` is above that and what the run began with: whether it had learnt
    /// something by then does not matter where the gradients leap, too.
    fn leaves_its_place(&self, value: f64) -> Option<f64> {
        const ABOVE: f64 = 1.3;
        let most = self.calm(CALM_SPREAD).filter(|_| self.climb.seen > LEAST as u32)?;
        (value >= most * ABOVE && value >= self.climb.at_first).then_some(most)
    }

    /// The highest of the newest values where they differ by next to nothing, if `value` is well above that: such a loss moves for a reason, and
    /// where the gradients leap, too, another objective is not the first that one thinks of.
    fn leaves_a_level(&self, value: f64) -> Option<f64> {
        const MANY: usize = 16;
        const NOTHING: f64 = 1.05;
        const ABOVE: f64 = 1.35;
        const NO_LOSS: f64 = 0.01;
        self.calm_of(MANY, NOTHING).filter(|most| *most >= NO_LOSS && value >= most * ABOVE)
    }

    /// The highest of the newest values where they hardly differ, and the share of the times that tells then: where `value` undoes most of what the
    /// run has learnt, and none since its first lines was near it.
    fn narrow(&self, value: f64) -> Option<(f64, f64)> {
        const HARDLY: f64 = 1.5;
        const SHARE: f64 = 0.6;
        const NEAR: f64 = 0.5;
        let newest = self.values.len().checked_sub(LEAST)?;
        // What a run begins with is far above what it learns at once.
        let of_jump = self.jump.as_ref().map_or(0, |jump| jump.values as usize);
        let is_start = self.climb.seen as usize <= self.values.len() + of_jump + 1;
        let later = self.values.iter().skip(if is_start { RISING } else { 0 }).map(|(_, v)| v);
        if value < self.climb.at_first * NEAR || later.fold(0.0, f64::max) >= value * NEAR {
            return None;
        }
        let values = self.values.iter().skip(newest).map(|(_, v)| v);
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
        (least > 0.0 && most <= least * HARDLY && most <= self.climb.at_first * NEAR).then_some((most, SHARE))
    }

    /// The highest of few values that lie near one another, and the share of the times that tells then: what leaps by three orders of magnitude
    /// needs no long history.
    fn early(&self) -> Option<(f64, f64)> {
        const FEW: usize = 5;
        const NEAR: f64 = 10.0;
        const SHARE: f64 = 100.0;
        const NO_LOSS: f64 = 0.01;
        let values = || self.values.iter().map(|(_, v)| v);
        let (least, most) = values().fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
        (self.values.len() >= FEW && least >= NO_LOSS && most <= least * NEAR).then_some((most, SHARE))
    }

    /// The highest of few values that hardly differ, at the start of a run, where the last one was on its way up already and `value` goes on from
    /// there: another objective, or two by turns, come at once.
    fn calm_start(&self, value: f64) -> Option<(f64, f64)> {
        const FEW: usize = 8;
        const START: u32 = 60;
        const HARDLY: f64 = 1.5;
        const ON_ITS_WAY: f64 = 2.0;
        const NO_LOSS: f64 = 0.01;
        let settled = self.values.len().checked_sub(1).filter(|n| *n >= FEW && self.climb.seen <= START)?;
        let values = self.values.iter().take(settled).map(|(_, v)| v);
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
        let (_, last) = self.values.iter().next_back()?;
        let rises = last >= most * ON_ITS_WAY && value >= last * HARDLY;
        (rises && least >= NO_LOSS && most <= least * HARDLY).then_some((most, 1.0))
    }

    /// The highest of the newest values where nothing of what the run began with is left in them, be they exactly 0, if `value` is far above even that.
    fn above_nothing(&self, value: f64) -> Option<f64> {
        const LEFT: f64 = 0.01;
        const ABOVE: f64 = 2.0;
        const NO_LOSS: f64 = 0.01;
        let newest = self.values.len().checked_sub(LEAST)?;
        let most = self.values.iter().skip(newest).map(|(_, v)| v.abs()).fold(0.0_f64, f64::max);
        let at_first = self.climb.at_first;
        (at_first >= NO_LOSS && most <= at_first * LEFT && value >= at_first * ABOVE).then_some(most)
    }

    fn highest(&self, spread: f64) -> Option<f64> {
        let settled = self.values.len().checked_sub(RISING).filter(|n| *n >= LEAST)?;
        let values = self.values.iter().take(settled).map(|(_, v)| v);
        let (least, most) = values.fold((f64::INFINITY, 0.0_f64), |(least, most), v| (least.min(v), most.max(v)));
        (least > 0.0 && most <= least * spread).then_some(most)
    }
}

#[cfg(test)]
mod tests {
    use super::{LOSS, Usual};
    use crate::base::time::Stamp;

    /// How many values in a row are far above those before.
    fn above(values: impl IntoIterator<Item = f64>) -> u32 {
        let mut usual = Usual::default();
        values.into_iter().enumerate().for_each(|(at, v)| usual.note(Stamp(at as i64 * 1_000_000_000), None, v, &LOSS, false));
        usual.jump.map_or(0, |jump| jump.values)
    }

    #[test]
    fn a_loss_that_leaps_after_few_lines() {
        let begun = [2.80, 2.39, 2.77, 2.39, 2.37, 2.31, 2.26, 2.39, 2.28, 2.32];
        assert_eq!(above(begun.into_iter().chain([13.4, 28.5, 36.1, 29.8])), 3);
        // At once, it is another objective; one that falls still, or grows by less, is like others.
        assert_eq!(above(begun.into_iter().chain([28.5, 36.1, 29.8])), 0);
        assert_eq!(above(begun.into_iter().chain([13.4, 20.5, 19.1, 13.8])), 0);
        assert_eq!(above([9.80, 7.39, 5.77, 4.39, 3.37, 2.31, 1.26, 1.19, 1.18, 1.12, 99.0, 98.0, 99.0]), 0);
    }

    #[test]
    fn a_loss_that_leaves_its_place_together_with_its_gradients() {
        let above = |beside: bool, values: &[f64]| {
            let mut usual = Usual::default();
            let begun = [6.94, 6.92].into_iter().cycle().take(30).map(|v| (v, false));
            let all = begun.chain(values.iter().map(|v| (*v, beside))).enumerate();
            all.for_each(|(at, (v, beside))| usual.note(Stamp(at as i64 * 1_000_000_000), None, v, &LOSS, beside));
            usual.jump.map_or(0, |jump| jump.values)
        };
        assert_eq!(above(true, &[9.3, 25.2, 44.0, 11.1, 17.0]), 5);
        // Without them it may be another objective; by so little it is another batch.
        assert_eq!(above(false, &[9.3, 25.2, 44.0, 11.1, 17.0]), 0);
        assert_eq!(above(true, &[7.9, 8.1, 7.7]), 0);
    }

    #[test]
    fn a_loss_that_leaves_a_level() {
        let above = |values: &mut dyn Iterator<Item = f64>, beside: bool| {
            let mut usual = Usual::default();
            values.enumerate().for_each(|(at, v)| usual.note(Stamp(at as i64 * 1_000_000_000), None, v, &LOSS, beside));
            usual.jump.map_or(0, |jump| jump.values)
        };
        let level = |spread: f64| [9.01, 6.77, 11.3, 8.45].into_iter().chain([5.70, 5.70 + spread].into_iter().cycle().take(40));
        assert_eq!(above(&mut level(0.03).chain([8.29, 8.27, 8.24, 8.2]), true), 4);
        // By itself it may be another objective.
        assert_eq!(above(&mut level(0.03).chain([8.29, 8.27, 8.24, 8.2]), false), 0);
        // One that differs from line to line, or rises by little, has no level to leave.
        assert_eq!(above(&mut level(0.6).chain([8.29, 8.27, 8.24, 8.2]), true), 0);
        assert_eq!(above(&mut level(0.03).chain([7.1, 7.2, 7.1]), true), 0);
    }

    #[test]
    fn a_loss_that_comes_back_from_nothing() {
        let learnt = || [7.6, 4.5, 1.8, 0.3, 0.02].into_iter().chain(std::iter::repeat_n(0.0, 25));
        assert_eq!(above(learnt().chain([116.0, 114.0, 112.0])), 3);
        // Less than at the start is another batch; a loss that never was one may be anything; and a few zeros are no history.
        assert_eq!(above(learnt().chain([9.0, 8.0, 9.0])), 0);
        assert_eq!(above(std::iter::repeat_n(0.0, 40).chain([116.0, 114.0])), 0);
        assert_eq!(above([7.6, 4.5, 1.8, 0.3, 0.0, 0.0, 0.0, 116.0, 114.0]), 0);
    }
}
