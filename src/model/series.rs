//! A bounded history of one number: by sample, to judge by, or by second, to draw.

use crate::base::time::Stamp;
use std::collections::VecDeque;
use std::time::Duration;

/// The newest samples, as many as `CAP`, oldest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series<const CAP: usize> {
    samples: VecDeque<(Stamp, f32)>,
}

impl<const CAP: usize> Series<CAP> {
    pub fn push(&mut self, at: Stamp, value: f64) {
        if self.samples.len() == CAP {
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

    /// By how much it grows in a second, over the samples of `window` before `end`; 0 where it shrinks.
    pub fn growth_per_s(&self, end: Stamp, window: Duration) -> Option<f64> {
        let from = end.minus(window);
        let mut inside = self.iter().filter(|s| s.0 >= from && s.0 <= end);
        let first = inside.next()?;
        let last = inside.next_back()?;
        let dt = last.0.secs_since(first.0);
        (dt > 0.0).then(|| ((last.1 - first.1) / dt).max(0.0))
    }

    /// The same of each of the last `parts` stretches of this length, oldest first; `None` where one was not seen.
    pub fn growth_by_part(&self, now: Stamp, part: Duration, parts: u32) -> Option<Vec<f64>> {
        (0..parts).rev().map(|i| self.growth_per_s(now.minus(part * i), part)).collect()
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

/// The samples of one second. 20 bytes, because there are many: two trends per port, five per GPU.
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

/// Many are kept for each GPU and port.
const _: () = assert!(size_of::<Bucket>() <= 20);

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
        let nanos = |time: Duration| i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let (step, hold) = (nanos(step).max(1), nanos(hold));
        let start = end.0.saturating_sub(step.saturating_mul(i64::try_from(n).unwrap_or(i64::MAX)));
        // What was sampled long before the first column says nothing of it.
        let reach = Stamp(start.saturating_sub(hold).saturating_sub(NS_PER_S));
        let mut buckets = self.buckets.range(self.buckets.partition_point(|b| b.at() < reach)..);
        let mut next = buckets.next();
        let mut held: Option<&Bucket> = None;
        let mut columns = Vec::with_capacity(n);
        let mut begins = start;
        for _ in 0..n {
            let ends = begins.saturating_add(step);
            while let Some(b) = next.filter(|b| b.at().0 <= begins) {
                (held, next) = (Some(b), buckets.next());
            }
            let (mut sum, mut samples) = (0.0, 0.0);
            while let Some(b) = next.filter(|b| b.at().0 <= ends) {
                (held, next) = (Some(b), buckets.next());
                sum += f64::from(b.mean) * f64::from(b.samples);
                samples += f64::from(b.samples);
            }
            let still = || held.filter(|b| b.at().0.saturating_add(hold) > begins).map(|b| b.mean);
            columns.push(if samples > 0.0 { Some((sum / samples) as f32) } else { still() });
            begins = ends;
        }
        columns
    }
}

/// What a cumulative counter grew by, per second; `None` when it went back (reset) or no time has passed.
pub fn rate(before: (Stamp, u64), after: (Stamp, u64)) -> Option<f64> {
    let dt = after.0.secs_since(before.0);
    (dt > 0.0 && after.1 >= before.1).then(|| (after.1 - before.1) as f64 / dt)
}
