//! How often frames come before their time. A warning is shown at once; thousands of them must not flood the terminal, which may be at
//! the end of a slow line.

use std::time::{Duration, Instant};

/// What frames before their time take in the long run, all together.
const BYTES_PER_S: f64 = 3000.0;
/// Saved for a moment in which much happens: some ten frames of a large screen.
const MOST: f64 = 24_000.0;
/// What a slow line carries, and what is left of it for the answers to keys: a modem, or a link that is shared with the job's logs.
const SLOW_BYTES_PER_S: f64 = 2400.0 * 0.75;
/// Bytes of a part of a frame, on a slow line: a third of a second of it.
pub const PART: usize = 800;
/// Between two frames, so that each can be seen.
const PAUSE: Duration = Duration::from_millis(40);

/// The bytes that may be drawn.
pub struct Budget {
    /// Of a slow line: each frame waits until the one before has come through.
    is_slow: bool,
    left: f64,
    /// Of the frame before.
    at: Instant,
}

impl Budget {
    pub fn new(now: Instant, is_slow: bool) -> Budget {
        Budget { is_slow, left: if is_slow { 0.0 } else { MOST }, at: now }
    }

    fn per_s(&self) -> f64 {
        if self.is_slow { SLOW_BYTES_PER_S } else { BYTES_PER_S }
    }

    /// A frame took so many bytes.
    pub fn spend(&mut self, bytes: usize, now: Instant) {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * self.per_s();
        self.left = (self.left + earned).min(if self.is_slow { 0.0 } else { MOST }) - bytes as f64;
        self.at = now;
    }

    /// When there may be a frame before its time.
    pub fn next(&self) -> Instant {
        let debt = Duration::from_secs_f64((-self.left).max(0.0) / self.per_s());
        self.at + debt.max(PAUSE)
    }

    /// When there may be a frame that a key asks for: on a slow line, when no more lies in it than one part.
    pub fn urgent(&self) -> Instant {
        let over = if self.is_slow { -self.left - PART as f64 } else { 0.0 };
        self.at + Duration::from_secs_f64(over.max(0.0) / self.per_s())
    }

    /// When there may be a frame that is due at `next_draw`: what a slow line has not taken yet would hold up what a key asks for.
    pub fn regular(&self, next_draw: Instant) -> Instant {
        if self.is_slow { next_draw.max(self.next()) } else { next_draw }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of so many bytes, each as soon as it may be: how many come in so many seconds.
    fn frames(bytes: usize, seconds: u64) -> usize {
        let start = Instant::now();
        let mut budget = Budget::new(start, false);
        let mut frames = 0;
        while budget.next() < start + Duration::from_secs(seconds) {
            budget.spend(bytes, budget.next());
            frames += 1;
        }
        frames
    }

    #[test]
    fn single_warnings_wait_for_nothing_and_a_flood_of_them_keeps_to_the_bounds() {
        assert!((12..15).contains(&frames(2000, 1)), "24 kB at once");
        assert!((26..30).contains(&frames(2000, 10)), "then 3 kB a second");
        assert!(frames(2000, 600) * 2000 / 600 <= 3100);
        let now = Instant::now();
        let mut budget = Budget::new(now, false);
        for s in 1..100 {
            let at = now + Duration::from_secs(s);
            assert!(budget.next() <= at, "one frame a second never waits");
            budget.spend(2900, at);
            assert!(budget.next() <= at + PAUSE);
        }
    }
    #[test]
    fn on_a_slow_line_each_frame_waits_until_the_one_before_is_through() {
        let start = Instant::now();
        let second = Duration::from_secs(1);
        let mut budget = Budget::new(start, true);
        // An hour of silence saves nothing: what lies in the line is what keys wait for.
        budget.spend(3600, start + second * 3600);
        let through = start + second * 3602;
        assert_eq!(budget.regular(start + second * 3601), through, "3.6 kB take two seconds");
        assert_eq!(budget.regular(through + second), through + second, "a frame that is due later is not early");
        let mut fast = Budget::new(start, false);
        fast.spend(100_000, start);
        assert_eq!(fast.regular(start + second), start + second);
        assert_eq!(fast.urgent(), start);
    }

    #[test]
    fn a_key_on_a_slow_line_waits_for_one_part_at_most() {
        let start = Instant::now();
        let mut budget = Budget::new(start, true);
        budget.spend(PART, start);
        assert_eq!(budget.urgent(), start);
        // Keys that are held down are answered together.
        for _ in 0..9 {
            budget.spend(PART, start);
        }
        assert!(budget.urgent() >= start + Duration::from_secs_f64(8.9 * PART as f64 / SLOW_BYTES_PER_S));
        assert!(budget.urgent() < budget.next());
    }
}
