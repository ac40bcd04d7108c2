//! What lines that tell no time of a step say of the pace: how much is done a second. Where a line stands for several steps, few of them come,
//! and each of them tells more than the time at which it came.

use super::progress::{COVER, SLOWER, SlowSince};
use crate::base::time::Stamp;

/// Lines that are usual before one can be called slow, besides the first, which has the start in it.
const LEAST_BEFORE: usize = 6;
/// More are no better.
const MOST: usize = 60;
/// Slow lines in a row, and slow steps.
const LEAST_LINES: u32 = 3;
const LEAST_STEPS: u64 = 6;

/// The rates of a job's lines, and since when they are far lower.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ToldRate {
    seen: u32,
    /// Of the usual lines, the newest ones: the rate, and how long they took a step.
    usual: Vec<(f64, f64)>,
    late: Option<Late>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
struct Late {
    since: Stamp,
    lines: u32,
    steps: u64,
    /// By how many times the rate is lower, at least.
    least: f64,
}

impl ToldRate {
    /// A line of so many steps, which began at `from` or later. Since when the rate is lower for good, where its lines came later, too.
    pub fn note(&mut self, from: Stamp, at: Stamp, steps: u64, rate: f64) -> Option<SlowSince> {
        self.seen = self.seen.saturating_add(1);
        let per_step_s = at.secs_since(from) / steps.max(1) as f64;
        if self.seen == 1 || rate <= 0.0 || !rate.is_finite() || per_step_s <= 0.0 {
            return None;
        }
        let Some((usual_rate, usual_s)) = self.usual_of() else {
            self.keep(rate, per_step_s);
            return None;
        };
        let times = usual_rate / rate;
        if times <= SLOWER.value() {
            self.late = None;
            self.keep(rate, per_step_s);
            return None;
        }
        let late = self.late.get_or_insert(Late { since: from, lines: 0, steps: 0, least: f64::INFINITY });
        (late.lines, late.steps, late.least) = (late.lines + 1, late.steps.saturating_add(steps), late.least.min(times));
        // Each line speaks for a change by as much as it exceeds what was usual, on a scale of ratios: six by 1.4, three by 2.
        let told = f64::from(late.lines) * late.least.ln() >= LEAST_STEPS as f64 * SLOWER.value().ln();
        let lasts = at.since(late.since) >= COVER.duration();
        let by_arrival = at.secs_since(late.since) / late.steps.max(1) as f64 >= usual_s * SLOWER.value();
        let since = late.since;
        (late.lines >= LEAST_LINES && late.steps >= LEAST_STEPS && told && lasts && by_arrival).then(|| {
            *self = ToldRate { seen: self.seen, ..ToldRate::default() };
            SlowSince { since, before_s: usual_s }
        })
    }

    /// A low rate of the usual lines, one of ten is lower, and how long most of them take a step.
    fn usual_of(&self) -> Option<(f64, f64)> {
        if self.usual.len() < LEAST_BEFORE {
            return None;
        }
        let sorted = |of: fn(&(f64, f64)) -> f64| {
            let mut all: Vec<f64> = self.usual.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all
        };
        let (rates, times) = (sorted(|line| line.0), sorted(|line| line.1));
        Some((rates[(rates.len() - 1) / 10], times[times.len() / 2]))
    }

    fn keep(&mut self, rate: f64, per_step_s: f64) {
        if self.usual.len() == MOST {
            self.usual.remove(0);
        }
        self.usual.push((rate, per_step_s));
    }
}

#[cfg(test)]
mod tests {
    use super::ToldRate;
    use crate::base::time::Stamp;

    /// Lines of four steps: how long each took, and its rate. When the pace fell, if it did.
    fn slow_from(lines: &[(f64, f64)]) -> Option<f64> {
        let mut told = ToldRate::default();
        let mut at_s = 0.0;
        let stamp = |s: f64| Stamp((s * 1e9) as i64);
        lines.iter().find_map(|(took_s, rate)| {
            let from = at_s;
            at_s += took_s;
            told.note(stamp(from), stamp(at_s), 4, *rate).map(|slow| slow.since.0 as f64 / 1e9)
        })
    }

    #[test]
    fn few_lines_that_tell_a_rate_tell_the_pace() {
        let line = |took: f64, rate: f64, n: usize| std::iter::repeat_n((took, rate), n);
        let before = || line(2.0, 23_000.0, 1).chain(line(0.85, 153_000.0, 7));
        let all = |after: Vec<(f64, f64)>| before().chain(after).collect::<Vec<_>>();
        assert_eq!(slow_from(&all(line(3.0, 42_000.0, 3).collect())).map(|s| (s * 100.0).round()), Some(795.0));
        // Two lines are a pause; lines that come as fast as before are not slow, whatever they tell; nor are those of one that was never faster.
        assert_eq!(slow_from(&all(line(3.0, 42_000.0, 2).chain(line(0.85, 153_000.0, 5)).collect())), None);
        assert_eq!(slow_from(&all(line(0.85, 42_000.0, 20).collect())), None);
        assert_eq!(slow_from(&all(line(3.0, 153_000.0, 20).collect())), None);
        assert_eq!(slow_from(&line(2.0, 23_000.0, 1).chain(line(3.0, 42_000.0, 20)).collect::<Vec<_>>()), None);
    }
}
