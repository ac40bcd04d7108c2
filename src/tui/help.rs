//! Long texts over the panes; among them the help: keys from the table, what the marks mean, why something is absent.

use super::actions::{Group, KEYS};
use super::choices::{Content, Sheet, Ui};
use super::theme::Theme;
use super::view::fitted;
use super::widgets::labelled;
use crate::base::clean::clean;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::text::Line;
use ratatui::widgets::{Clear, Widget};
use std::borrow::Cow;

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
    ("▂▅▇ ═ ░ ▁ ▒", "a GPU in the timeline: working, higher where it is busier; only communicating; waiting; idle; paused"),
    ("late ×", "in the alarm colour: far less busy than its siblings, which wait for it; × missing from the collective; † lost; ╌ no data"),
    ("│ W", "in the timeline: the state of the job changed; a WARN line came"),
    ("× 23", "in the log: 23 lines that differ only in their numbers, with the range of each; a line that is selected unfolds them"),
    ("root, cascade", "where to look first; what only follows from it"),
    ("certain, likely", "how sure a finding is, from the signals that were there"),
];

fn lines(ui: &Ui, theme: &Theme, width: usize) -> Vec<Line<'static>> {
    let mut out = Vec::new();
    let entry = |left: String, text: &str, out: &mut Vec<Line<'static>>| {
        out.extend(labelled(&format!("  {left:<24} "), theme.accent, text, theme.text, width.max(47)));
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

/// What a sheet holds, in lines of this width.
fn content<'a>(ui: &Ui, theme: &Theme, content: &'a Content, width: usize) -> (Cow<'a, str>, Vec<Line<'a>>) {
    match content {
        Content::Help => ("Help".into(), lines(ui, theme, width)),
        Content::Text { title, lines } => (clean(title), lines.iter().map(|line| Line::styled(line.as_str(), theme.text)).collect()),
    }
}

/// How far it can be scrolled on a screen of this height.
pub fn last(ui: &Ui, sheet: &Content, height: u16) -> usize {
    let (_, lines) = content(ui, &Theme::mono(), sheet, usize::from(ui.size.0.saturating_sub(2)));
    lines.len().saturating_sub(usize::from(height.saturating_sub(1)))
}

/// A long text in place of the panes, from the line to which it is scrolled.
pub fn draw(buf: &mut Buffer, area: Rect, ui: &Ui, theme: &Theme, sheet: &Sheet) {
    if area.height == 0 {
        return;
    }
    Clear.render(area, buf);
    buf.set_style(area, theme.text);
    let width = usize::from(area.width);
    let (title, lines) = content(ui, theme, &sheet.content, width.saturating_sub(2));
    let last = lines.len().saturating_sub(usize::from(area.height - 1));
    let first = sheet.scroll.min(last);
    let more = if last > first { format!("  {} more lines below", last - first) } else { String::new() };
    buf.set_stringn(area.x, area.y, fitted(&format!(" {title}{more}"), width), width, theme.focus);
    for (text, y) in lines.iter().skip(first).zip(area.y + 1..area.bottom()) {
        super::panes::line(buf, Rect { x: area.x + 1, width: area.width.saturating_sub(2), ..area }, y, text);
    }
}
