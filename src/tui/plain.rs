//! Drawing for terminals that have no UTF-8: whatever a pane drew, only ASCII leaves this place.

use ratatui::buffer::Buffer;

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
        '■' | '█' | '▓' => '#',
        '▲' => '!',
        '●' | '✓' => '*',
        '○' | '°' => 'o',
        '◐' => 'c',
        '░' => 'w',
        '▒' => 'p',
        '▸' | '►' | '▶' | '→' | '›' => '>',
        '◂' | '◀' | '←' | '‹' => '<',
        '↑' => '^',
        '↓' | '▼' => 'v',
        '·' | '•' => '.',
        '×' => 'x',
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
