//! History in one row: a block of one to seven eighths a cell, so that rows above one another stay apart.
//!
//! ```text
//! ▁▁▃▅▇▇▇▁▁
//! ```
//! The lowest block is drawn wherever there is a value, so that zero and "nothing was seen" differ.

use crate::base::time::Stamp;
use ratatui::buffer::Buffer;
use ratatui::style::Style;
use std::time::Duration;

/// The time that all sparklines share: so many columns up to `end`.
///
/// The end is rounded up to a column, so that history moves by whole columns and everything else on the row stays as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Axis {
    pub end: Stamp,
    /// Time of one column.
    pub step: Duration,
    pub columns: usize,
}

impl Axis {
    pub fn new(now: Stamp, window: Duration, columns: usize) -> Axis {
        let step_ms = (window.as_millis() as u64).div_ceil(columns.max(1) as u64).max(500);
        let step_ns = step_ms as i64 * 1_000_000;
        let end = Stamp(now.0.saturating_add(step_ns - 1).div_euclid(step_ns).saturating_mul(step_ns));
        Axis { end, step: Duration::from_millis(step_ms), columns }
    }
}

const LEVELS: [char; 7] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇'];

/// How full a cell is for a value on a scale that ends at `max`.
pub fn block(value: f32, max: f32) -> char {
    let share = if value.is_finite() && max > 0.0 { (value / max).clamp(0.0, 1.0) } else { 0.0 };
    LEVELS[(share * (LEVELS.len() - 1) as f32).round() as usize]
}

/// Draws values, oldest first, one a cell; `max` is the value of a full cell.
pub fn draw(buf: &mut Buffer, x: u16, y: u16, values: &[Option<f32>], max: f32, style: Style) {
    for (i, value) in values.iter().enumerate() {
        let Some(cell) = buf.cell_mut((x + i as u16, y)) else { return };
        match value {
            None => cell.set_char(' '),
            Some(v) => cell.set_char(block(*v, max)).set_style(style),
        };
    }
}
