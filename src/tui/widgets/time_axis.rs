//! A time axis that stands still: what was drawn keeps its column until the right edge is reached, and then everything moves by several
//! columns at once. A screen far away gets only the new cells.
//!
//! ```text
//! ┆10:03:40      ┆10:03:50  ▼STUCK
//! ```

use crate::base::time::{Stamp, Zone};
use crate::model::series::Trend;
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeAxis {
    /// Where the first cell begins.
    pub from: Stamp,
    /// Time of one cell: a part of a second, or whole seconds.
    pub step: Duration,
    pub cells: usize,
    /// The moment that is shown.
    pub now: Stamp,
}

/// Milliseconds of one cell.
const STEPS_MS: [u64; 26] = [
    250, 333, 400, 500, 667, 800, 1_000, 1_167, 1_333, 1_500, 1_667, 1_833, 2_000, 2_500, 3_000, 4_000, 5_000, 7_500, 10_000, 15_000,
    20_000, 30_000, 45_000, 60_000, 90_000, 120_000,
];
/// Seconds of a recording that is younger than its window.
const SPANS: [u64; 12] = [20, 25, 30, 37, 45, 52, 60, 70, 80, 90, 105, 120];
/// Seconds between two times that are written.
const TICKS: [u64; 13] = [5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400];
/// The axis moves by this share of its cells.
const JUMP: usize = 8;

impl TimeAxis {
    /// `since` is when the first thing was seen: it stands at the left until the axis is full. The axis covers about `window` or more.
    pub fn new(since: Stamp, now: Stamp, window: Duration, cells: usize) -> TimeAxis {
        let cells = cells.max(1);
        // What other panes call by the name of the window.
        let least = window.as_millis() as u64 * 95 / 100;
        let ms = STEPS_MS.into_iter().find(|ms| ms * cells as u64 >= least).unwrap_or(STEPS_MS[STEPS_MS.len() - 1]);
        let step = Duration::from_millis(ms);
        let ns = ms as i64 * 1_000_000;
        let floor = |at: Stamp| at.0.div_euclid(ns).saturating_mul(ns);
        let first = floor(since.min(now));
        let over = floor(now).saturating_add(ns).saturating_sub(first).saturating_sub(ns.saturating_mul(cells as i64)).max(0);
        let jump = ns * (cells / JUMP).max(2) as i64;
        let jumps = over.saturating_add(jump - 1) / jump;
        TimeAxis { from: Stamp(first.saturating_add(jumps.saturating_mul(jump))), step, cells, now }
    }

    /// The same for what is watched live: it shows half of the window until that is full, so that the first minute is not drawn in a corner.
    /// All is drawn anew only once, and a screen far away is sent less than by shorter cells.
    pub fn of_live(since: Stamp, now: Stamp, window: Duration, cells: usize) -> TimeAxis {
        TimeAxis::new(since, now, TimeAxis::window_of_live(now.since(since), window), cells)
    }

    /// How much of what was seen for so long is shown of what is watched live.
    fn window_of_live(seen: Duration, window: Duration) -> Duration {
        if seen < window / 2 { window / 2 } else { window }
    }

    /// The same of a recording: as long as there is less than the window, all of it.
    fn window_of_recording(seen: Duration, window: Duration) -> Duration {
        let lasted = seen.mul_f64(1.15);
        SPANS.into_iter().map(Duration::from_secs).find(|span| *span >= lasted).map_or(window, |span| span.min(window))
    }

    /// The same for a recording, which is looked at more than it is waited for: what is newest stands near the right edge from the start. It
    /// moves more often in its first minutes, which a screen far away would be sent.
    pub fn of_recording(since: Stamp, now: Stamp, window: Duration, cells: usize) -> TimeAxis {
        let window = TimeAxis::window_of_recording(now.since(since), window);
        let axis = TimeAxis::new(since, now, window, cells);
        let before = axis.cells - (axis.cells / JUMP).max(2).min(axis.cells);
        TimeAxis::new(since.min(now).minus(axis.step * before as u32), now, window, cells)
    }

    pub fn end(&self) -> Stamp {
        self.from.plus(self.step * self.cells as u32)
    }

    /// The cell of a moment that is shown.
    pub fn cell(&self, at: Stamp) -> Option<usize> {
        let cell = usize::try_from(at.0.checked_sub(self.from.0)?.div_euclid(self.step.as_nanos() as i64)).ok()?;
        (cell < self.cells && at <= self.now).then_some(cell)
    }

    /// The cell that is being filled.
    pub fn newest(&self) -> usize {
        self.cell(self.now).unwrap_or(self.cells - 1)
    }

    /// The start of a cell.
    pub fn start(&self, cell: usize) -> Stamp {
        self.from.plus(self.step * cell as u32)
    }

    /// Means over so many parts of each cell, up to now.
    pub fn values(&self, trend: &Trend, parts: usize, hold: Duration) -> Vec<Option<f32>> {
        let step = self.step / parts as u32;
        let all = self.cells * parts;
        let mut values = trend.columns(Stamp(self.end().0 - 1), step, all, hold);
        // What comes is not known, although a value may stand for longer.
        let known = self.now.since(self.from).as_nanos() / step.as_nanos().max(1) + 1;
        let known = usize::try_from(known).map_or(all, |known| known.min(all));
        values[known..].fill(None);
        values
    }

    /// The times that are written below or above the axis, each with its cell.
    pub fn times(&self, zone: Zone) -> Vec<(usize, String)> {
        const LABEL: u64 = 9;
        let step_ms = self.step.as_millis() as u64;
        let tick = TICKS.into_iter().find(|t| t * 1000 / step_ms >= LABEL + 5).unwrap_or(TICKS[TICKS.len() - 1]);
        let ns = tick as i64 * 1_000_000_000;
        let first = self.from.0.saturating_add(ns - 1).div_euclid(ns).saturating_mul(ns);
        let ticks = (0..).map(|i| Stamp(first.saturating_add(ns.saturating_mul(i)))).take_while(|at| *at < self.end());
        let cell = |at: Stamp| (at.since(self.from).as_nanos() / self.step.as_nanos().max(1)) as usize;
        ticks.map(|at| (cell(at), format!("┆{}", zone.hms(at)))).collect()
    }
}
