//! One number over time, large: braille, with the scale at its left and the times below.
//!
//! ```text
//! 2.41 ⠉⠒⢄
//!         ⠑⠢⣀⡀
//! 1.02        ⠈⠉⠒⠤
//!      last 2 min       now
//! ```

use super::graph::Graph;
use super::put::Put;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;

/// Columns of the scale at the left.
pub const SCALE: u16 = 9;

pub struct Chart<'a> {
    pub values: &'a [Option<f32>],
    /// The least and the greatest value, where columns are means of more than these.
    pub range: Option<(f32, f32)>,
    /// Where it begins and where it ends, in words: `last 2 min` and `now`.
    pub span: (&'a str, &'a str),
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
        let drawn = || finite().reduce(f32::min).zip(finite().reduce(f32::max));
        let Some((low, high)) = self.range.or_else(drawn) else { return };
        // A flat line is drawn in the middle of a scale around it.
        let (low, high) = if high - low > high.abs() * 1e-6 {
            (low, high)
        } else {
            // Of nothing but 0 a hundredth says nothing.
            let around = if low == 0.0 { 1.0 } else { low.abs() * 0.01 };
            (low - around, high + around)
        };
        Graph { values: self.values, low, high, filled: false, hangs: false }.draw(plot, buf, &|_| self.line);
        let right = usize::from(SCALE) - 1;
        buf.put(area.x, plot.y, format!("{:>right$}", (self.word)(f64::from(high))), right, self.scale);
        if plot.height > 1 {
            buf.put(area.x, plot.bottom() - 1, format!("{:>right$}", (self.word)(f64::from(low))), right, self.scale);
        }
        let (from, until) = self.span;
        buf.put(plot.x, plot.bottom(), from, usize::from(plot.width), self.scale);
        if usize::from(plot.width) > from.len() + until.len() + 2 {
            buf.put(plot.right() - until.len() as u16, plot.bottom(), until, until.len(), self.scale);
        }
    }
}
