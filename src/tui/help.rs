//! The help: keys from the table, and what the marks mean.

use super::actions::{Group, KEYS};
use super::choices::Ui;
use super::theme::Theme;
use super::widgets::labelled;
use ratatui::text::Line;

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

/// All of it, for this width.
pub fn lines(ui: &Ui, theme: &Theme, width: usize) -> Vec<Line<'static>> {
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
