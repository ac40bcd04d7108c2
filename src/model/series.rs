//! A bounded history of one number: by sample, to judge by, or by second, to draw.

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

/// The means of up to 900 seconds in which something was sampled, oldest first: minutes of history at any rate of samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trend {
    buckets: VecDeque<Bucket>,
}

/// The samples of one second. 20 bytes, because there are many: two trends per port, four per GPU.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Bucket {
    /// Seconds since the Unix epoch.
    second: u32,
    mean: f32,
    least: f32,
    most: f32,
    /// Stays at its greatest.
    samples: u16,
}

const NS_PER_S: i64 = 1_000_000_000;

impl Bucket {
    fn at(&self) -> Stamp {
        Stamp(i64::from(self.second) * NS_PER_S)
    }
}

impl Trend {
    /// 15 minutes where something is sampled every second.
    pub const MAX_BUCKETS: usize = 900;

    /// Adds a sample to its second. What is not finite cannot be drawn and is left out.
    pub fn push(&mut self, at: Stamp, value: f64) {
        let (mean, Ok(second)) = (value as f32, u32::try_from(at.0.div_euclid(NS_PER_S))) else { return };
        if !mean.is_finite() {
            return;
        }
        match self.buckets.binary_search_by_key(&second, |b| b.second) {
            Ok(i) => {
                let b = &mut self.buckets[i];
                let n = f64::from(b.samples);
                b.mean = ((f64::from(b.mean) * n + f64::from(mean)) / (n + 1.0)) as f32;
                b.samples = b.samples.saturating_add(1);
                (b.least, b.most) = (b.least.min(mean), b.most.max(mean));
            }
            Err(i) => {
                self.buckets.insert(i, Bucket { second, mean, least: mean, most: mean, samples: 1 });
                if self.buckets.len() > Self::MAX_BUCKETS {
                    self.buckets.pop_front();
                }
            }
        }
    }

    /// The start of each second in which something was sampled, and the mean of its samples.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (Stamp, f32)> + '_ {
        self.buckets.iter().map(|b| (b.at(), b.mean))
    }

    /// The mean of the newest second.
    pub fn last(&self) -> Option<f32> {
        self.buckets.back().map(|b| b.mean)
    }

    /// Seconds that are kept.
    pub fn len(&self) -> usize {
        self.buckets.len()
    }

    pub fn is_empty(&self) -> bool {
        self.buckets.is_empty()
    }

    /// The least and the greatest sample of the seconds that began within `window` before `end`.
    pub fn range(&self, end: Stamp, window: Duration) -> Option<(f32, f32)> {
        let from = end.minus(window);
        let inside = self.buckets.iter().rev().take_while(|b| b.at() >= from);
        inside.map(|b| (b.least, b.most)).reduce(|a, b| (a.0.min(b.0), a.1.max(b.1)))
    }

    /// Means over `n` spans of `step`, oldest first; the last one ends at `end`, inclusive. `None` where nothing was sampled: absent is
    /// not zero. A value that is read less often than once a `step` stands for `hold` after its second began, or until the next one.
    ///
    /// Columns keep their samples from frame to frame if `end` moves by whole steps.
    pub fn columns(&self, end: Stamp, step: Duration, n: usize, hold: Duration) -> Vec<Option<f32>> {
        let step = step.as_nanos().clamp(1, i64::MAX as u128) as i128;
        let hold = hold.as_nanos().min(i64::MAX as u128) as i128;
        let end = i128::from(end.0);
        // How many steps before the last column.
        let column = |b: &Bucket| (end - i128::from(b.at().0)).div_euclid(step);
        let mut buckets = self.buckets.iter().peekable();
        let mut held: Option<&Bucket> = None;
        let mut columns = Vec::with_capacity(n);
        for back in (0..n as i128).rev() {
            while let Some(b) = buckets.next_if(|b| column(b) > back) {
                held = Some(b);
            }
            let (mut sum, mut samples) = (0.0, 0.0);
            while let Some(b) = buckets.next_if(|b| column(b) == back) {
                held = Some(b);
                sum += f64::from(b.mean) * f64::from(b.samples);
                samples += f64::from(b.samples);
            }
            let begins = end - (back + 1) * step;
            let still = held.filter(|b| i128::from(b.at().0) + hold > begins).map(|b| b.mean);
            columns.push(if samples > 0.0 { Some((sum / samples) as f32) } else { still });
        }
        columns
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
    use proptest::prelude::*;

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

    #[test]
    fn a_trend_keeps_minutes_however_often_it_is_sampled() {
        let mut trend = Trend::default();
        for i in 0..20_000 {
            trend.push(Stamp(i * NS_PER_S / 10), (i / 10) as f64);
        }
        assert_eq!(trend.iter().count(), Trend::MAX_BUCKETS);
        assert_eq!((trend.iter().next(), trend.last()), (Some((at(1100), 1100.0)), Some(1999.0)));
        assert!(size_of::<Bucket>() <= 20);
        for absent in [f64::NAN, f64::INFINITY, 1e300] {
            trend.push(at(5000), absent);
        }
        assert_eq!(trend.last(), Some(1999.0), "what is no number is not drawn");
        trend.push(at(1500), 0.0);
        assert_eq!(trend.iter().find(|(s, _)| *s == at(1500)).map(|(_, v)| (v * 11.0).round()), Some(15_000.0), "a late sample");
    }

    #[test]
    fn columns_are_means_and_absent_is_not_zero() {
        let mut trend = Trend::default();
        for (s, v) in [(1, 10.0), (2, 20.0), (2, 40.0), (7, 5.0)] {
            trend.push(at(s), v);
        }
        let s = Duration::from_secs;
        assert_eq!(trend.columns(at(8), s(2), 4, s(0)), [Some(70.0 / 3.0), None, None, Some(5.0)]);
        assert_eq!(trend.columns(at(4), s(1), 3, s(0)), [Some(30.0), None, None]);
        assert_eq!(trend.columns(at(8), s(1), 8, s(3))[..6], [Some(10.0), Some(30.0), Some(30.0), Some(30.0), Some(30.0), None]);
        assert_eq!(trend.columns(at(60), s(1), 2, s(60)), [Some(5.0); 2], "held from before the first column");
        assert_eq!(trend.columns(at(0), s(1), 2, s(60)), [None; 2], "nothing is known ahead of its time");
    }

    proptest! {
        #[test]
        fn columns_never_panic_and_hold_nothing_that_was_not_sampled(
            samples in prop::collection::vec((0i64..2000, -1e30f64..1e30), 0..60),
            end in prop_oneof![any::<i64>(), (0i64..2000).prop_map(|s| s * NS_PER_S)],
            step in prop_oneof![any::<u64>(), 0u64..100 * NS_PER_S as u64],
            hold in prop_oneof![any::<u64>(), 0u64..100 * NS_PER_S as u64],
            n in 0usize..200,
        ) {
            let mut trend = Trend::default();
            samples.iter().for_each(|(s, v)| trend.push(at(*s), *v));
            let columns = trend.columns(Stamp(end), Duration::from_nanos(step), n, Duration::from_nanos(hold));
            prop_assert_eq!(columns.len(), n);
            let (min, max) = samples.iter().fold((f32::MAX, f32::MIN), |(lo, hi), s| (lo.min(s.1 as f32), hi.max(s.1 as f32)));
            prop_assert!(columns.iter().flatten().all(|v| (min..=max).contains(v)));
            let longest = trend.columns(Stamp(end), Duration::MAX, 1, Duration::MAX);
            prop_assert_eq!(longest.len(), 1);
        }
    }
}
