//! The heat grid of a job: a tile for each node, a cell for each rank, column after column, so that up and down go through all nodes.
//!
//! ```text
//!  node0005 ░░░░░░░░ 100    node0017 ░░░░░░░░ 100
//! ►node0006 ░░░▁░░░░  88    node0018 no answer
//! ```

use super::rows::Tile;
use crate::base::clean::clean;
use crate::fleet::model::Rank;
use crate::tui::panes::{blame_row, select_row};
use crate::tui::theme::Theme;
use crate::tui::widgets::spark;
use crate::tui::widgets::table::put;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use unicode_width::UnicodeWidthStr;

/// Columns for the share that waits, with the gaps around it and the mark of the next tile.
const AROUND: u16 = 7;
const LONGEST_NAME: usize = 24;

/// What the cells mean, for the title.
pub const LEGEND: &str = "▅ works ░ waits ▁ idles, % waiting";

/// A cell: what the rank does most of its time.
fn cell(rank: &Rank, theme: &Theme) -> (char, Style) {
    match rank {
        r if r.idle > 0.5 => ('▁', theme.act),
        r if r.waiting > 0.5 => ('░', theme.look),
        r => (spark::block(r.working.max(0.3) as f32, 1.0), theme.good),
    }
}

/// The tiles that are shown, each with its place.
fn places(tiles: &[Tile], selected: Option<usize>, area: Rect) -> Vec<(usize, Rect)> {
    let name = tiles.iter().map(|tile| clean(&tile.node).width()).max().unwrap_or(0).min(LONGEST_NAME) as u16;
    let ranks = tiles.iter().map(|tile| tile.ranks.len()).max().unwrap_or(0).clamp(8, 16) as u16;
    let width = (name + 1 + ranks + AROUND).min(area.width.max(1));
    let (columns, rows) = (usize::from((area.width + 2) / width).max(1), usize::from(area.height).max(1));
    let page = columns * rows;
    let first = selected.map_or(0, |at| at / page * page);
    let shown = (first..tiles.len()).take(page);
    shown
        .map(|at| {
            let (column, row) = ((at - first) / rows, (at - first) % rows);
            let x = area.x + column as u16 * width;
            (at, Rect { x, y: area.y + row as u16, width: (width - 2).min(area.right().saturating_sub(x)), height: 1 })
        })
        .collect()
}

/// Draws the tiles that fit; which stand where.
pub fn draw(buf: &mut Buffer, area: Rect, tiles: &[Tile], selected: Option<usize>, focused: bool, theme: &Theme) -> Vec<(usize, Rect)> {
    let name = tiles.iter().map(|tile| clean(&tile.node).width()).max().unwrap_or(0).min(LONGEST_NAME) as u16;
    let places = places(tiles, selected, area);
    for &(at, place) in &places {
        let tile = &tiles[at];
        put(buf, (place.x, place.y, name.min(place.width)), &clean(&tile.node), false, theme.text);
        let mut x = place.x + name + 1;
        if tile.is_silent {
            put(buf, (x, place.y, place.right().saturating_sub(x)), "no answer", false, theme.look);
        } else {
            for rank in tile.ranks.iter().take(16) {
                let (shape, style) = cell(rank, theme);
                if let Some(cell) = buf.cell_mut((x, place.y)).filter(|_| x < place.right()) {
                    cell.set_char(shape).set_style(style);
                }
                x += 1;
            }
            let waits = tile.waiting.map_or_else(|| "–".into(), |share| format!("{:.0}", share.clamp(0.0, 1.0) * 100.0));
            let right = place.right().saturating_sub(4).max(x);
            put(buf, (right, place.y, 4), &waits, true, theme.dim);
        }
        if let Some(bad) = tile.bad {
            blame_row(theme, place, bad, buf);
        }
        if focused && selected == Some(at) {
            select_row(theme, place, buf);
        }
    }
    places
}
