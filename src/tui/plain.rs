//! Drawing for terminals and fonts that lack characters: whatever a pane drew, only what they have leaves this place.

use ratatui::buffer::Buffer;

/// What graphs are drawn with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Graphs {
    /// Eight dots a cell.
    #[default]
    Braille,
    /// Four quarters a cell, for fonts whose braille is missing or hard to see.
    Block,
    /// Signs by how full a cell is.
    Ascii,
}

/// A cell by the quarters that are full: upper left 8, upper right 4, lower left 2, lower right 1.
const QUARTERS: [char; 16] = [' ', '▗', '▖', '▄', '▝', '▐', '▞', '▟', '▘', '▚', '▌', '▙', '▀', '▜', '▛', '█'];

/// Draws graphs with other characters, cell by cell.
pub fn redraw_graphs(buf: &mut Buffer, graphs: Graphs) {
    for cell in buf.content.iter_mut().filter(|_| graphs != Graphs::Braille) {
        let Some(c) = cell.symbol().chars().next() else { continue };
        match (c, graphs) {
            ('\u{2800}'..='\u{28ff}', Graphs::Block) => cell.set_char(quarters_of(c as u32 - 0x2800)),
            ('\u{2581}'..='\u{2587}' | '\u{2800}'..='\u{28ff}', Graphs::Ascii) => cell.set_char(ascii_of(c)),
            _ => continue,
        };
    }
}

/// A quarter is full where one of its two dots is set.
fn quarters_of(dots: u32) -> char {
    const MASKS: [u32; 4] = [0x03, 0x18, 0x44, 0xa0];
    let full = MASKS.iter().fold(0, |full, mask| full * 2 + usize::from(dots & mask != 0));
    QUARTERS[full]
}

/// Replaces every character beyond ASCII by the nearest one, cell by cell, so that columns stay where they are.
pub fn to_ascii(buf: &mut Buffer) {
    for cell in &mut buf.content {
        let symbol = cell.symbol();
        if symbol.is_ascii() {
            continue;
        }
        let first = symbol.chars().next().unwrap_or(' ');
        cell.set_char(ascii_of(first));
    }
}

fn ascii_of(c: char) -> char {
    match c {
        '─' | '━' | '┄' | '–' | '—' | '‐' => '-',
        '│' | '┃' | '┆' => '|',
        '═' => '%',
        '╌' => ',',
        '\u{2500}'..='\u{257f}' => '+',
        '▚' => 'l',
        '■' | '█' | '▓' | '\u{2596}'..='\u{259f}' => '#',
        '▲' => '!',
        '●' | '✓' => '*',
        '○' | '°' => 'o',
        '◐' => 'c',
        '░' => 'w',
        '▒' => 'p',
        '▸' | '▶' | '►' | '→' | '›' => '>',
        '◂' | '◀' | '←' | '‹' => '<',
        '↑' => '^',
        '↓' | '▼' => 'v',
        '·' | '•' => '.',
        '×' => 'x',
        'µ' => 'u',
        '†' => '+',
        '±' => '~',
        '≥' => '>',
        '≤' => '<',
        '…' => '~',
        '✗' => 'x',
        '‖' => '|',
        '“' | '”' => '"',
        '‘' | '’' => '\'',
        '\u{a0}' => ' ',
        // Bars and braille by how full they are.
        '\u{2581}'..='\u{2587}' => b"_.::--="[c as usize - 0x2581].into(),
        '\u{2801}'..='\u{28ff}' => b" ..:-=+*#"[(c as u32 - 0x2800).count_ones() as usize].into(),
        '\u{2800}' => ' ',
        _ => '?',
    }
}

/// Whether the terminal can show more than ASCII: whether the locale says UTF-8, by the rule of POSIX: LC_ALL, else LC_CTYPE, else LANG. Nothing set is the C locale.
pub fn is_utf8(var: &dyn Fn(&str) -> Option<String>) -> bool {
    // The console's own font has neither corners nor blocks.
    if var("TERM").is_some_and(|t| t == "linux" || t.starts_with("vt")) {
        return false;
    }
    let set = |name: &str| var(name).filter(|v| !v.is_empty());
    let locale = set("LC_ALL").or_else(|| set("LC_CTYPE")).or_else(|| set("LANG")).unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}
