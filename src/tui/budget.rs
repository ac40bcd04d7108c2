//! How often frames come before their time. A warning is shown at once; thousands of them must not flood the terminal, which may be at
//! the end of a slow line.

use std::time::{Duration, Instant};

/// What all frames together take in the long run, as far as it can be chosen.
const BYTES_PER_S: f64 = 3000.0;
/// Saved for a moment in which much happens: some ten frames of a large screen.
const MOST: f64 = 24_000.0;
/// Between two frames, so that each can be seen.
const PAUSE: Duration = Duration::from_millis(40);

/// The bytes that may be drawn.
pub struct Budget {
    left: f64,
    /// Of the frame before.
    at: Instant,
}

impl Budget {
    pub fn new(now: Instant) -> Budget {
        Budget { left: MOST, at: now }
    }

    /// A frame took so many bytes.
    pub fn spend(&mut self, bytes: usize, now: Instant) {
        let earned = now.saturating_duration_since(self.at).as_secs_f64() * BYTES_PER_S;
        self.left = (self.left + earned).min(MOST) - bytes as f64;
        self.at = now;
    }

    /// When there may be a frame before its time.
    pub fn next(&self) -> Instant {
        let debt = Duration::from_secs_f64((-self.left).max(0.0) / BYTES_PER_S);
        self.at + debt.max(PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of so many bytes, each as soon as it may be: how many come in so many seconds.
    fn frames(bytes: usize, seconds: u64) -> usize {
        let start = Instant::now();
        let mut budget = Budget::new(start);
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
        let mut budget = Budget::new(now);
        for s in 1..100 {
            let at = now + Duration::from_secs(s);
            assert!(budget.next() <= at, "one frame a second never waits");
            budget.spend(2900, at);
            assert!(budget.next() <= at + PAUSE);
        }
    }
}
