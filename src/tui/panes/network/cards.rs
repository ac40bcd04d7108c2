//! What went out and came in over each port or group, where the table leaves room: out from a line in the middle upwards, in downwards.

use super::rows::Nic;
use crate::base::units::bits_per_s;
use crate::model::series::Trend;
use crate::tui::panes::{CULPRIT, Ctx};
use crate::tui::widgets::Pen;
use crate::tui::widgets::cards::grid;
use crate::tui::widgets::graph::{mirrored, round_up};
use crate::tui::widgets::put::Put;
use crate::tui::widgets::time_axis::TimeAxis;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// A title, and a row for each way.
const LEAST: (u16, u16) = (24, 3);
/// Columns for the newest value of a graph.
const LABEL: u16 = 11;
/// What was last read of a counter stands so long.
const HOLD: Duration = Duration::from_secs(3);

type Values = Vec<Option<f32>>;

/// Rows that have a card: ports in use, and groups; not the members of a group.
fn shown<'b, 'a>(rows: &'b [Nic<'a>]) -> Vec<&'b Nic<'a>> {
    let is_alone = |nic: &&Nic| !nic.name.starts_with("  ");
    rows.iter().filter(|nic| is_alone(nic) && (nic.is_up() || nic.is_lost()) && nic.kind != "virtual").collect()
}

/// Whether there is room for all of them.
pub(super) fn fit(rows: &[Nic], area: Rect) -> bool {
    !grid(area, shown(rows).len(), LEAST).is_empty()
}

pub(super) fn draw(ctx: &Ctx, rows: &[Nic], selected: Option<&str>, area: Rect, buf: &mut Buffer) {
    let nics = shown(rows);
    let places = grid(area, nics.len(), LEAST);
    let Some(first) = places.first() else { return };
    let cells = usize::from(first.width.saturating_sub(LABEL));
    let axis = ctx.time_axis(cells);
    let ways: Vec<(Values, Values)> = nics.iter().map(|nic| (sum(nic, &axis, |n| n.trends.0), sum(nic, &axis, |n| n.trends.1))).collect();
    // On one scale, so that they can be compared.
    let high = ways.iter().flat_map(|(out, into)| out.iter().chain(into)).flatten().copied().fold(0.0, f32::max);
    for ((nic, place), (out, into)) in nics.iter().zip(&places).zip(&ways) {
        title(ctx, nic, selected == Some(nic.id.as_str()), *place, buf);
        let below = Rect { y: place.y + 1, height: place.height - 1, ..*place };
        let plot = Rect { x: below.x + LABEL, width: below.width - LABEL, ..below };
        mirrored(out, into, round_up(high), plot, buf, ctx.theme);
        let word = |rate: Option<f64>| rate.map_or("–".to_owned(), bits_per_s);
        for (y, name, rate) in [(below.y, "out", nic.tx), (below.y + below.height.div_ceil(2), "in", nic.rx)] {
            let value = word(rate);
            buf.put(below.x, y, name, usize::from(LABEL), ctx.theme.dim);
            buf.put(below.x + (LABEL - 1).saturating_sub(value.width() as u16), y, value, usize::from(LABEL), ctx.theme.text);
        }
    }
}

/// Of a port, or of all of a group.
fn sum<'a>(nic: &Nic<'a>, axis: &TimeAxis, of: fn(&Nic<'a>) -> &'a Trend) -> Values {
    let own = std::slice::from_ref(nic);
    let members = if nic.is_group() { nic.members.as_slice() } else { own };
    let mut all = vec![None; axis.cells * 2];
    for member in members {
        for (sum, value) in all.iter_mut().zip(axis.values(of(member), 2, HOLD)) {
            *sum = value.map_or(*sum, |value| Some(sum.unwrap_or(0.0) + value));
        }
    }
    all
}

fn title(ctx: &Ctx, nic: &Nic, selected: bool, area: Rect, buf: &mut Buffer) {
    let theme = ctx.theme;
    let bad = super::blamed(ctx, nic);
    let (border, plain) = if selected { (theme.focus, theme.focus) } else { (theme.border, theme.title) };
    let mut pen = Pen::new(buf, area);
    pen.put("─", border);
    let mark = bad.map_or(String::new(), |_| format!("{CULPRIT} "));
    let name = nic.name.trim_start_matches(['+', '-', ' ']);
    pen.put(&format!(" {mark}{name} "), bad.map_or(plain, |bad| theme.severity(bad)));
    if nic.is_lost() {
        pen.put("down ", theme.act);
    }
    pen.put(&"─".repeat(usize::from(pen.room())), border);
}
