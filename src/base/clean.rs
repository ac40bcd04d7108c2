//! Makes hostile text safe to print: no escape sequences, no control characters, nothing that reorders or hides what stands beside it.
//! Never changes what is left.

use memchr::{memchr2, memchr3};
use std::borrow::Cow;

/// `line` without ANSI sequences (also those that lost their ESC at the line's start, or had it spelled out by a log shipper), control,
/// bidi and zero-width characters. Tabs become spaces.
pub fn clean(line: &str) -> Cow<'_, str> {
    if is_plain(line) {
        return Cow::Borrowed(line);
    }
    let mut out = String::with_capacity(line.len());
    let mut rest = line;
    while let Some(next) = bare_colour(rest) {
        rest = next;
    }
    while let Some(c) = rest.chars().next() {
        rest = match c {
            '\x1b' => after_escape(&rest[1..]),
            '\u{9b}' => after_csi(&rest[2..]),
            '\\' | '^' => match spelled_out(rest) {
                Some(next) => next,
                None => {
                    out.push(c);
                    &rest[1..]
                }
            },
            '\t' => {
                out.push(' ');
                &rest[1..]
            }
            _ => {
                if !is_unsafe(c) {
                    out.push(c);
                }
                &rest[c.len_utf8()..]
            }
        };
        if out.is_empty() {
            while let Some(next) = bare_colour(rest) {
                rest = next;
            }
        }
    }
    Cow::Owned(out)
}

/// The same text with each character that a terminal would take for a command, and each that hides or reorders text, written as `\u009b`: in
/// JSON that is the same character. Line feeds, tabs and the colours that this program prints stay.
pub fn escape(text: &str) -> Cow<'_, str> {
    let is_kept = |at: usize, c: char| match c {
        '\n' | '\t' => true,
        '\x1b' => bare_colour(&text[at + 1..]).is_some(),
        _ => !is_unsafe(c),
    };
    let ascii = text.bytes().fold(true, |plain, b| plain & (0x20..0x7f).contains(&b));
    if ascii || text.char_indices().all(|(at, c)| is_kept(at, c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for (at, c) in text.char_indices() {
        if is_kept(at, c) {
            out.push(c);
        } else {
            c.encode_utf16(&mut [0; 2]).iter().for_each(|unit| out.push_str(&format!("\\u{unit:04x}")));
        }
    }
    Cow::Owned(out)
}

/// The first `max_chars` characters, with `…` in place of the last one when something was cut.
pub fn clip(text: &str, max_chars: usize) -> Cow<'_, str> {
    if text.len() <= max_chars || text.char_indices().nth(max_chars).is_none() {
        return Cow::Borrowed(text);
    }
    let end = text.char_indices().nth(max_chars.saturating_sub(1)).map_or(0, |(at, _)| at);
    Cow::Owned(format!("{}…", &text[..end]))
}

fn is_plain(line: &str) -> bool {
    // Without a way out in between, many bytes are looked at at once.
    let ascii = line.bytes().fold(true, |plain, b| plain & (0x20..0x7f).contains(&b));
    bare_colour(line).is_none() && (ascii || !line.chars().any(is_unsafe)) && memchr3(b'\t', b'\\', b'^', line.as_bytes()).is_none()
}

/// Control characters, and what hides or reorders text.
fn is_unsafe(c: char) -> bool {
    match c {
        ' '..='~' => false,
        '\u{0}'..='\u{1f}' | '\u{7f}'..='\u{9f}' => true,
        '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{180b}'..='\u{180f}' => true,
        '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => true,
        '\u{3164}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' => true,
        // Variation selectors and skin tones: terminals differ in how wide they make what stands before.
        '\u{fe00}'..='\u{fe0f}' | '\u{1f3fb}'..='\u{1f3ff}' => true,
        '\u{e0000}'..='\u{e0fff}' => true,
        _ => false,
    }
}

/// `[36m` at the start of a line whose ESC was lost on the way.
fn bare_colour(s: &str) -> Option<&str> {
    let inner = s.strip_prefix('[')?;
    let digits = inner.bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
    if digits == 0 || digits > 24 {
        return None;
    }
    inner[digits..].strip_prefix('m')
}

/// How programs and viewers write the start of an escape sequence as text.
pub(super) const SPELLED: &[&str] = &["\\x1b[", "\\x1B[", "\\u001b[", "\\u001B[", "\\033[", "\\e[", "^[["];

/// `\x1b[31m`, `\u001b[31m`, `\033[31m`, `^[[31m` as text.
fn spelled_out(s: &str) -> Option<&str> {
    let inner = SPELLED.iter().find_map(|p| s.strip_prefix(*p))?;
    let params = inner.bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
    let after = &inner[params..];
    after.starts_with(|c: char| c.is_ascii_alphabetic()).then(|| &after[1..])
}

fn after_escape(s: &str) -> &str {
    match s.as_bytes().first() {
        Some(b'[') => after_csi(&s[1..]),
        Some(b']' | b'P' | b'X' | b'^' | b'_') => after_string(&s[1..]),
        // nF sequences such as `ESC ( B`, and the two-byte ones.
        Some(b' '..=b'/') => {
            let n = s.bytes().take_while(|b| (0x20..0x30).contains(b)).count();
            let last = s.as_bytes().get(n).is_some_and(|b| (0x30..0x7f).contains(b));
            &s[n + usize::from(last)..]
        }
        Some(b'7' | b'8' | b'=' | b'>' | b'c' | b'D' | b'E' | b'H' | b'M' | b'N' | b'O' | b'Z' | b'\\') => &s[1..],
        _ => s,
    }
}

fn after_csi(s: &str) -> &str {
    let n = s.bytes().take_while(|b| (0x20..0x40).contains(b)).count();
    let last = s.as_bytes().get(n).is_some_and(|b| (0x40..0x7f).contains(b));
    if n <= 64 { &s[n + usize::from(last)..] } else { s }
}

/// OSC, DCS and their kin end with BEL or `ESC \`. Without an end nothing is hidden: the text stays.
fn after_string(s: &str) -> &str {
    match memchr2(0x07, 0x1b, s.as_bytes()) {
        Some(at) if s.as_bytes()[at] == 0x07 => &s[at + 1..],
        Some(at) if s[at + 1..].starts_with('\\') => &s[at + 2..],
        _ => s,
    }
}
