//! A bounded history of one number.

use crate::time::Stamp;
use std::collections::VecDeque;
use std::time::Duration;

/// The newest `cap` samples, oldest first.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    cap: usize,
    samples: VecDeque<(Stamp, f32)>,
}

impl Series {
    pub fn new(cap: usize) -> Self {
        Series { cap, samples: VecDeque::new() }
    }

    pub fn push(&mut self, at: Stamp, value: f64) {
        if self.samples.len() == self.cap {
            self.samples.pop_front();
        }
        self.samples.push_back((at, value as f32));
    }

    pub fn last(&self) -> Option<f64> {
        self.samples.back().map(|s| f64::from(s.1))
    }

    pub fn len(&self) -> usize {
        self.samples.len()
    }

    pub fn is_empty(&self) -> bool {
        self.samples.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Stamp, f64)> + '_ {
        self.samples.iter().map(|s| (s.0, f64::from(s.1)))
    }

    /// Samples not older than `window` at `now`.
    pub fn within(&self, now: Stamp, window: Duration) -> impl Iterator<Item = f64> + '_ {
        let from = now.minus(window);
        self.samples.iter().rev().take_while(move |s| s.0 >= from).map(|s| f64::from(s.1))
    }

    pub fn mean_within(&self, now: Stamp, window: Duration) -> Option<f64> {
        let (n, sum) = self.within(now, window).fold((0u32, 0.0), |(n, sum), v| (n + 1, sum + v));
        (n > 0).then(|| sum / f64::from(n))
    }

    /// The middle of the newest `n` samples.
    pub fn median_of_last(&self, n: usize) -> Option<f64> {
        let mut values: Vec<f32> = self.samples.iter().rev().take(n).map(|s| s.1).filter(|v| v.is_finite()).collect();
        if values.is_empty() {
            return None;
        }
        values.sort_by(f32::total_cmp);
        Some(f64::from(values[values.len() / 2]))
    }
}

/// What a cumulative counter grew by, per second; `None` when it went back (reset) or no time has passed.
pub fn rate(before: (Stamp, u64), after: (Stamp, u64)) -> Option<f64> {
    let dt = after.0.secs_since(before.0);
    (dt > 0.0 && after.1 >= before.1).then(|| (after.1 - before.1) as f64 / dt)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> Stamp {
        Stamp(s * 1_000_000_000)
    }

    #[test]
    fn history_is_bounded_and_windows_are_by_time() {
        let mut s = Series::new(4);
        for i in 0..10 {
            s.push(at(i), i as f64);
        }
        assert_eq!(s.len(), 4);
        assert_eq!(s.mean_within(at(9), Duration::from_secs(1)), Some(8.5));
        assert_eq!(s.median_of_last(3), Some(8.0));
        assert_eq!(s.mean_within(at(99), Duration::from_secs(1)), None);
    }

    #[test]
    fn a_counter_that_goes_back_has_no_rate() {
        assert_eq!(rate((at(0), 10), (at(2), 30)), Some(10.0));
        assert_eq!(rate((at(0), 30), (at(2), 10)), None);
        assert_eq!(rate((at(2), 30), (at(2), 40)), None);
    }
}
