//! The help: keys from the table, what the marks mean, why something is absent.

use super::keys::{Group, KEYS};
use super::theme::Theme;
use super::ui::{Help, Ui};
use crate::base::words::wrap;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

/// Sign or word, and what it means on this screen.
const WORDS: &[(&str, &str)] = &[
    ("● ◐ ○", "training or finished; starting or paused for a named reason; idle or unknown"),
    ("▲ ■", "look: slow, a warning; act: stuck, failed, an error"),
    ("–", "not measured: the source is absent, denied or too old for it. The sources pane says which and why"),
    ("waiting", "a kernel is resident, but computes nothing and moves no byte: the GPU spins in a collective, though utilisation is 100 %"),
    ("working", "tensor or DRAM activity, or bytes on NVLink or PCIe"),
    ("idle", "no kernel is resident"),
    ("SM% tens% DRAM%", "activity by GPM, Hopper and newer; before that, utilisation and power have to do"),
    ("NVLink GB/s", "out and in, all links of the GPU, decimal"),
    ("share", "rate against the line rate of the port, the busier direction"),
    ("▁▃▅▇", "history on one time axis for all panes; the lowest block is zero, nothing drawn is nothing seen"),
    ("root, cascade", "where to look first; what only follows from it"),
    ("certain, likely", "how sure a finding is, from the signals that were there"),
];

fn lines(ui: &Ui, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    let entry = |left: String, text: &str, out: &mut Vec<Line<'static>>| {
        const LEFT: usize = 24;
        for (i, part) in wrap(text, width.saturating_sub(LEFT + 3).max(20)).into_iter().enumerate() {
            let shown = if i == 0 { left.clone() } else { String::new() };
            let pad = " ".repeat(LEFT.saturating_sub(shown.width()));
            out.push(Line::from(vec![Span::styled(format!("  {shown}{pad} "), theme.accent), Span::styled(part, theme.text)]));
        }
    };
    for group in Group::ALL {
        out.push(Line::styled(group.as_str(), theme.title));
        for key in KEYS.iter().filter(|k| k.group == group) {
            let words = ui.keys.words(key.action);
            if !words.is_empty() {
                entry(words.join("  "), key.help, &mut out);
            }
        }
        out.push(Line::default());
    }
    out.push(Line::styled("Marks and words", theme.title));
    for (word, meaning) in WORDS {
        entry((*word).to_owned(), meaning, &mut out);
    }
    out.push(Line::default());
    out.push(Line::styled("Mouse", theme.title));
    entry("click".into(), "focuses a pane and selects a row; on a title it zooms; on the footer it does what stands there", &mut out);
    entry("wheel".into(), "moves in the list below the pointer", &mut out);
    out
}

/// How far it can be scrolled on a screen of this size.
pub fn last(ui: &Ui, height: u16) -> usize {
    let theme = Theme::mono();
    lines(ui, &theme, usize::from(ui.size.0.saturating_sub(2))).len().saturating_sub(usize::from(height.saturating_sub(1)))
}

pub fn draw(buf: &mut Buffer, area: Rect, ui: &Ui, theme: &Theme, help: Help) {
    if area.height == 0 {
        return;
    }
    for position in area.positions() {
        if let Some(cell) = buf.cell_mut(position) {
            cell.reset();
        }
    }
    buf.set_style(area, theme.text);
    let lines = lines(ui, theme, usize::from(area.width.saturating_sub(2)));
    let height = usize::from(area.height.saturating_sub(1));
    let last = lines.len().saturating_sub(height);
    let first = help.scroll.min(last);
    let more = if last > first { format!("  {} more lines below", last - first) } else { String::new() };
    buf.set_stringn(area.x, area.y, format!(" Help{more}"), usize::from(area.width), theme.focus);
    for (line, y) in lines.iter().skip(first).zip(area.y + 1..area.bottom()) {
        buf.set_line(area.x + 1, y, line, area.width.saturating_sub(2));
    }
}
