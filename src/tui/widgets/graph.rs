//! Values over time in braille, two columns of four dots a cell, as a line or with all below it filled.
//!
//! ```text
//!      ⢀⣀⣤⣶⣿⣿
//! ⣶⣶⣶⣿⣿⣿⣿⣿⣿⣿
//! ```

use crate::tui::theme::{Theme, between};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

pub struct Graph<'a> {
    /// Two for each cell, oldest first.
    pub values: &'a [Option<f32>],
    /// What stands at the lowest and at the highest dot.
    pub low: f32,
    pub high: f32,
    pub filled: bool,
    /// It hangs from the top: `low` stands there.
    pub hangs: bool,
}

/// Bits of the dots of a braille cell: column, then row from above.
const DOTS: [[u8; 4]; 2] = [[0x01, 0x02, 0x04, 0x40], [0x08, 0x10, 0x20, 0x80]];

impl Graph<'_> {
    /// `style` is that of a row, counted from above. Cells without a value stay as they are.
    pub fn draw(&self, area: Rect, buf: &mut Buffer, style: &dyn Fn(u16) -> Style) {
        let (width, height) = (usize::from(area.width), usize::from(area.height));
        let (rows, span) = (height * 4, self.high - self.low);
        if rows == 0 || width == 0 || !span.is_finite() || span <= 0.0 {
            return;
        }
        let mut bits = vec![0u8; width * height];
        let mut before: Option<usize> = None;
        for (column, value) in self.values.iter().take(width * 2).enumerate() {
            let Some(v) = value.filter(|v| v.is_finite()) else {
                before = None;
                continue;
            };
            let share = ((self.high - v) / span).clamp(0.0, 1.0);
            let row = ((share * (rows - 1) as f32).round() as usize).min(rows - 1);
            // Joined to the value before, so that a steep change is a line and not two dots.
            let (from, to) = match before {
                _ if self.filled => (row, rows - 1),
                Some(b) if b < row => (b + 1, row),
                Some(b) => (row, b.saturating_sub(1).max(row)),
                None => (row, row),
            };
            for r in from.min(row)..=to.max(row) {
                let r = if self.hangs { rows - 1 - r } else { r };
                bits[r / 4 * width + column / 2] |= DOTS[column % 2][r % 4];
            }
            before = Some(row);
        }
        let styles: Vec<Style> = (0..area.height).map(style).collect();
        for (i, bits) in bits.iter().enumerate().filter(|(_, b)| **b != 0) {
            let (x, y) = ((i % width) as u16, (i / width) as u16);
            if let Some(cell) = buf.cell_mut((area.x + x, area.y + y)) {
                cell.set_char(char::from_u32(0x2800 + u32::from(*bits)).unwrap_or(' ')).set_style(styles[usize::from(y)]);
            }
        }
    }
}

/// Two quantities on one scale from a line in the middle: the first upwards, the second downwards. Both have as many rows, where they are
/// even.
pub fn mirrored(up: &[Option<f32>], down: &[Option<f32>], high: f32, area: Rect, buf: &mut Buffer, theme: &Theme) {
    let above = Rect { height: area.height.div_ceil(2), ..area };
    let below = Rect { y: above.bottom(), height: area.height - above.height, ..area };
    let share = |row: u16, rows: u16| f32::from(row) / f32::from(rows.max(1));
    let (up_rows, down_rows) = (above.height, below.height);
    Graph { values: up, low: 0.0, high, filled: true, hangs: false }.draw(above, buf, &|row| theme.graded(1.0 - share(row, up_rows)));
    Graph { values: down, low: 0.0, high, filled: true, hangs: true }
        .draw(below, buf, &|row| between(theme.chart2, theme.text, 0.5 * share(row, down_rows)));
}

/// A round number that is not less.
pub fn round_up(value: f32) -> f32 {
    const ROUND: [f32; 11] = [1.0, 1.2, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0];
    if !value.is_finite() || value <= 0.0 {
        return 1.0;
    }
    let unit = 10f32.powf(value.log10().floor());
    ROUND.into_iter().map(|r| r * unit).find(|r| *r >= value * 1.02).unwrap_or(unit * 12.0)
}
