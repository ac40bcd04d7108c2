//! Words that findings, panes and messages share.

use crate::base::clean::clean;
use unicode_width::UnicodeWidthStr;

/// `rank 3`, `ranks 3, 5 and 7`, `24 ranks`
pub fn rank_words(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".into(),
        [one] => format!("rank {one}"),
        [first @ .., last] if ranks.len() <= 8 => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("ranks {} and {last}", first.join(", "))
        }
        many => format!("{} ranks ({}, {}, …)", many.len(), many[0], many[1]),
    }
}

/// The command that shows where a process is, without stopping it.
pub fn py_spy(pid: u32) -> String {
    format!("py-spy dump --nonblocking --pid {pid}")
}

/// An I/O error without Rust's "(os error 2)".
pub fn io_words(err: &std::io::Error) -> String {
    let text = err.to_string();
    let end = text.find(" (os error").unwrap_or(text.len());
    text[..end].to_lowercase()
}

/// The text without what differs from rank to rank: numbers, addresses, pointers.
pub fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len().min(200));
    let mut digits = false;
    for c in text.chars().take(200) {
        let digit = c.is_ascii_digit();
        if !digit {
            shape.push(c);
        } else if !digits {
            shape.push('#');
        }
        digits = digit || (digits && c.is_ascii_hexdigit());
        if digits && !digit {
            shape.pop();
        }
    }
    shape
}

/// Cuts a text into lines at spaces; a word that is wider than a line is cut, too.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in clean(text).split(' ') {
        let mut word = word;
        match lines.last_mut() {
            Some(line) if line.width() + 1 + word.width() <= width => {
                line.push(' ');
                line.push_str(word);
                continue;
            }
            _ => {}
        }
        while word.width() > width {
            let mut end = 0;
            let mut used = 0;
            for (at, c) in word.char_indices() {
                let w = unicode_width::UnicodeWidthChar::width(c).unwrap_or(0);
                if used + w > width && end > 0 {
                    break;
                }
                used += w;
                end = at + c.len_utf8();
            }
            lines.push(word[..end].to_owned());
            word = &word[end..];
        }
        if !word.is_empty() || lines.is_empty() {
            lines.push(word.to_owned());
        }
    }
    lines
}

/// A word for the shell, whatever is in it: this comes from another process, and is pasted by somebody who may be root.
pub fn shell_word(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./=:,+@".contains(c);
    if !text.is_empty() && text.chars().all(plain) { text.to_owned() } else { format!("'{}'", text.replace('\'', "'\\''")) }
}
