//! The help: keys from the table, and what the marks mean.

use super::actions::{Action, Group, KEYS};
use super::choices::Ui;
use super::keys::Keymap;
use super::theme::Theme;
use super::widgets::labelled;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

/// Sign or word, and what it means on this screen.
const WORDS: &[(&str, &str)] = &[
    ("● ◐ ○", "training or finished; starting or paused for a named reason; idle or unknown"),
    ("▲ ■", "look: slow, a warning; act: stuck, failed, an error"),
    ("►", "what the verdict names: the rank, GPU, port or finding to look at first"),
    ("NO STEP", "no step for longer than this job has shown so far: worth a look, and not a verdict yet"),
    ("18 s ago", "numbers behind an age are not of now"),
    ("–", "not measured: the source is missing, not permitted or too old. The sources pane says which, and why"),
    (
        "waiting",
        "a kernel is resident but computes nothing and moves no bytes: the GPU spins in a collective, even though utilisation reads 100 %",
    ),
    ("working", "tensor or DRAM activity, or bytes on NVLink or PCIe"),
    ("transfer", "bytes move over NVLink or PCIe, and next to nothing is computed"),
    ("late, waits", "in a job with a straggler: the rank that is late in each step, and those that spin in a collective until it comes"),
    ("idle", "no kernel is resident"),
    ("SM% tensor DRAM%", "activity in percent, from GPM (Hopper and newer); on older GPUs it is inferred from utilisation and power"),
    ("disk", "share of the last 10 s in uninterruptible sleep (state D): usually a disk or a network file system"),
    ("NVLink GB/s", "out and in, all links of the GPU, decimal"),
    ("share", "rate against the line rate of the port, the busier direction"),
    ("▁▃▅▇", "history, on one time axis for all panes; the lowest block is zero, a blank means no data"),
    ("▂▅▇ ═ ░ ▁ ▒", "a GPU in the timeline: working, higher where it is busier; transfer; waiting; idle; paused"),
    ("▚ ▓ × † ╌", "late in each step; waits for the late one in each step; idle while others wait in a collective; lost; no data"),
    ("│ W", "in the timeline: the state of the job changed; a WARN line came"),
    ("× 23", "in the log: 23 lines that differ only in their numbers, with the range of each; a line that is selected unfolds them"),
    ("root, cascade", "the cause, where to look first; a consequence of it"),
    ("certain, likely", "how sure a finding is, given the signals available"),
];

/// What can be done with the mouse.
const MOUSE: &[(&str, &str)] = &[
    (
        "click",
        "focuses a pane and selects a row; on a title it zooms; on the footer it does what stands there; on a line that leads somewhere it opens it",
    ),
    ("wheel", "moves in the list below the pointer"),
];

/// Cells that a column of the help has at least, and those of what stands at its left, at least and at most.
const LEAST: usize = 56;
const LEFT: usize = 8;
const MOST_LEFT: usize = 22;
const MOST_COLUMNS: usize = 4;

/// What of the help holds this text, in as many columns as the width has room for.
pub fn lines(ui: &Ui, theme: &Theme, width: usize, only: &str) -> Vec<Line<'static>> {
    lines_of(&Subjects { keys: &ui.keys, has: &|_| true, words: WORDS, mouse: MOUSE }, theme, width, only)
}

/// What a screen's help is about.
pub struct Subjects<'a> {
    pub keys: &'a Keymap,
    /// Whether the screen knows the key.
    pub has: &'a dyn Fn(Action) -> bool,
    pub words: &'a [(&'a str, &'a str)],
    pub mouse: &'a [(&'a str, &'a str)],
}

/// As [`lines`], of any screen.
pub fn lines_of(about: &Subjects, theme: &Theme, width: usize, only: &str) -> Vec<Line<'static>> {
    let columns = (width / LEAST).clamp(1, MOST_COLUMNS);
    let each = width / columns;
    let blocks = blocks(about, theme, each.saturating_sub(usize::from(columns > 1) * 2), only);
    // As low as the columns can be if nothing is broken.
    let all: usize = blocks.iter().map(Vec::len).sum();
    let fits = |rows: &usize| {
        let filled = fill(&blocks, *rows);
        filled.len() <= columns && filled.iter().all(|column| column.len() <= *rows)
    };
    let rows = (all.div_ceil(columns)..=all).find(fits).unwrap_or(all);
    let mut out = vec![Line::default(); rows];
    for (no, column) in fill(&blocks, rows).into_iter().enumerate() {
        for (row, line) in out.iter_mut().zip(column) {
            let gap = (no * each).saturating_sub(row.width());
            row.push_span(Span::raw(" ".repeat(gap)));
            row.spans.extend(line.spans.iter().map(|span| span.clone().patch_style(line.style)));
        }
    }
    out
}

/// Columns of so many rows; no block is broken, and none begins with the empty line in front of a title.
fn fill<'a>(blocks: &'a [Vec<Line<'static>>], rows: usize) -> Vec<Vec<&'a Line<'static>>> {
    let mut columns: Vec<Vec<&Line>> = vec![Vec::new()];
    for block in blocks {
        let is_full = columns.last().is_some_and(|column| !column.is_empty() && column.len() + block.len() > rows);
        if is_full {
            columns.push(Vec::new());
        }
        let Some(column) = columns.last_mut() else { continue };
        let from = usize::from(column.is_empty() && block.first().is_some_and(|line| line.width() == 0));
        column.extend(&block[from..]);
    }
    columns
}

/// What stays together: an entry, and a title with its first one.
fn blocks(about: &Subjects, theme: &Theme, width: usize, only: &str) -> Vec<Vec<Line<'static>>> {
    let keys = Group::ALL.map(|group| {
        let of_group = KEYS.iter().filter(|key| key.group == group && (about.has)(key.action));
        let entries = of_group.map(|key| (about.keys.words(key.action).join("  "), key.help)).filter(|(words, _)| !words.is_empty());
        (group.as_str(), entries.collect::<Vec<_>>())
    });
    let words = [("Marks and words", about.words), ("Mouse", about.mouse)];
    let words = words.map(|(title, table)| (title, table.iter().map(|(word, text)| ((*word).to_owned(), *text)).collect()));
    let mut out: Vec<Vec<Line>> = Vec::new();
    for (title, mut entries) in keys.into_iter().chain(words) {
        entries.retain(|(left, text)| super::sheet::holds(&format!("{left} {text}"), only));
        let mut title = vec![Line::styled(title, theme.title)];
        if !out.is_empty() {
            title.insert(0, Line::default());
        }
        let left = entries.iter().map(|(left, _)| left.width()).max().unwrap_or(0).clamp(LEFT, MOST_LEFT);
        for (key, text) in entries {
            let mut block = std::mem::take(&mut title);
            block.extend(labelled(&format!("  {key:<left$} "), theme.accent, text, theme.text, width));
            out.push(block);
        }
    }
    out
}
