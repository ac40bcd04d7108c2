//! How much of a limit is used, in one row: its length says it, and where there are colours its end does, too.
//!
//! ```text
//! ■■■■■■■···
//! ```

use crate::tui::theme::Theme;
use ratatui::buffer::Buffer;
use ratatui::style::Style;

/// Fewer cells show no difference.
pub const LEAST: u16 = 4;

/// Draws `share`, from 0 to 1, in so many cells. `alarm` is the look of one that is at its limit and should not be.
pub fn draw(buf: &mut Buffer, (x, y, width): (u16, u16, u16), share: f32, alarm: Option<Style>, theme: &Theme) {
    let share = if share.is_finite() { share.clamp(0.0, 1.0) } else { 0.0 };
    // What is not nothing has a cell.
    let full = (share * f32::from(width)).round().max(if share > 0.0 { 1.0 } else { 0.0 }) as u16;
    for i in 0..width {
        let Some(cell) = buf.cell_mut((x + i, y)) else { return };
        if i < full {
            cell.set_char('■').set_style(alarm.unwrap_or_else(|| theme.graded(f32::from(i) / f32::from(width.max(2) - 1))));
        } else {
            cell.set_char('·').set_style(theme.dim);
        }
    }
}
