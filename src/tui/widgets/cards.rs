//! Places of one size for things of one kind, so that they can be compared.

use ratatui::layout::Rect;

/// How many times wider than high a card looks best, in cells.
const SHAPE: f32 = 5.0;

/// Places for `n` cards of at least so many columns and rows, in rows of equal length; empty where they do not all fit. A column stays
/// free between two.
pub fn grid(area: Rect, n: usize, (least_width, least_height): (u16, u16)) -> Vec<Rect> {
    const GAP: u16 = 2;
    let n = n.min(64) as u16;
    let size = |columns: u16| {
        let rows = n.div_ceil(columns);
        let width = (area.width + GAP).checked_div(columns)?.checked_sub(GAP)?;
        let height = area.height / rows.max(1);
        (width >= least_width && height >= least_height).then_some((columns, width, height))
    };
    let strange = |(columns, width, height): &(u16, u16, u16)| {
        let shape = f32::from(*width) / (f32::from(*height) * SHAPE);
        // A row that is not full is a hole.
        shape.ln().abs() + if n.is_multiple_of(*columns) { 0.0 } else { 1.0 }
    };
    let best = (1..=n).filter_map(size).min_by(|a, b| strange(a).total_cmp(&strange(b)));
    let Some((columns, width, height)) = best else { return Vec::new() };
    let place = |i: u16| Rect { x: area.x + i % columns * (width + GAP), y: area.y + i / columns * height, width, height };
    (0..n).map(place).collect()
}
