//! One number over time, large: braille, with the scale at its left and the times below.
//!
//! ```text
//! 2.41 ⠉⠒⢄
//!         ⠑⠢⣀⡀
//! 1.02        ⠈⠉⠒⠤
//!      last 2 min       now
//! ```

use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns of the scale at the left.
pub const SCALE: u16 = 9;

pub struct Chart<'a> {
    pub values: &'a [Option<f32>],
    /// Where the time begins, in words: `last 2 min`.
    pub since: &'a str,
    /// A value of the scale in words.
    pub word: fn(f64) -> String,
    pub line: Style,
    pub scale: Style,
}

impl Chart<'_> {
    /// Needs two rows and more columns than the scale; draws nothing in less.
    pub fn draw(&self, area: Rect, buf: &mut Buffer) {
        if area.width <= SCALE + 2 || area.height < 2 {
            return;
        }
        let plot = Rect { x: area.x + SCALE, width: area.width - SCALE, height: area.height - 1, ..area };
        let finite = || self.values.iter().flatten().copied().filter(|v| v.is_finite());
        let (Some(low), Some(high)) = (finite().reduce(f32::min), finite().reduce(f32::max)) else { return };
        // A flat line is drawn in the middle of a scale around it.
        let (low, high) = if high - low > high.abs() * 1e-6 {
            (low, high)
        } else {
            (low - low.abs().max(1e-6) * 0.01, high + high.abs().max(1e-6) * 0.01)
        };
        let rows = usize::from(plot.height) * 4;
        let mut bits = vec![0u8; usize::from(plot.width) * usize::from(plot.height)];
        let mut before: Option<usize> = None;
        for (column, value) in self.values.iter().take(usize::from(plot.width) * 2).enumerate() {
            let Some(v) = value.filter(|v| v.is_finite()) else {
                before = None;
                continue;
            };
            let row = ((high - v) / (high - low) * (rows - 1) as f32).round() as usize;
            let row = row.min(rows - 1);
            // Joined to the value before, so that a steep change is a line and not two dots.
            let (from, to) = before.map_or((row, row), |b| if b < row { (b + 1, row) } else { (row, b.saturating_sub(1).max(row)) });
            for r in from.min(row)..=to.max(row) {
                bits[r / 4 * usize::from(plot.width) + column / 2] |= DOTS[column % 2][r % 4];
            }
            before = Some(row);
        }
        for (i, bits) in bits.iter().enumerate().filter(|(_, b)| **b != 0) {
            let (x, y) = (i % usize::from(plot.width), i / usize::from(plot.width));
            if let Some(cell) = buf.cell_mut((plot.x + x as u16, plot.y + y as u16)) {
                cell.set_char(char::from_u32(0x2800 + u32::from(*bits)).unwrap_or(' ')).set_style(self.line);
            }
        }
        let right = usize::from(SCALE) - 1;
        buf.set_stringn(area.x, plot.y, format!("{:>right$}", (self.word)(f64::from(high))), right, self.scale);
        if plot.height > 1 {
            buf.set_stringn(area.x, plot.bottom() - 1, format!("{:>right$}", (self.word)(f64::from(low))), right, self.scale);
        }
        let from = self.since;
        buf.set_stringn(plot.x, plot.bottom(), from, usize::from(plot.width), self.scale);
        let now = "now";
        if usize::from(plot.width) > from.len() + now.len() + 2 {
            buf.set_stringn(plot.right() - now.len() as u16, plot.bottom(), now, now.len(), self.scale);
        }
    }
}

/// Bits of the dots of a braille cell: column, then row from above.
const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];
