//! Words that findings, panes and messages share.

use crate::base::clean::clean;
use unicode_width::UnicodeWidthStr;

/// `rank 3`, `ranks 3, 5 and 7`, `24 ranks`
pub fn rank_words(ranks: &[u32]) -> String {
    numbered("rank", ranks)
}

/// `GPU 3`, `GPUs 3, 5 and 7`
pub fn gpu_words(gpus: &[u32]) -> String {
    numbered("GPU", gpus)
}

/// `0-3,6`, of numbers in ascending order.
pub fn ranges(sorted: &[u32]) -> String {
    let mut parts: Vec<(u32, u32)> = Vec::new();
    for &n in sorted {
        match parts.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(n) => *last = n,
            _ => parts.push((n, n)),
        }
    }
    let word = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    parts.iter().map(word).collect::<Vec<_>>().join(",")
}

/// The numbers of [`ranges`]; none where it is no such text, or of more numbers than anything here has.
pub fn from_ranges(text: &str) -> Vec<u32> {
    const MOST: u32 = 1 << 16;
    let part = |part: &str| {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let (from, to) = (from.parse::<u32>().ok()?, to.parse::<u32>().ok()?);
        (to.checked_sub(from)? < MOST).then_some(from..=to)
    };
    text.split(',').map(part).collect::<Option<Vec<_>>>().map_or_else(Vec::new, |parts| parts.into_iter().flatten().collect())
}

/// `CUDA device 3`, as the process counts them.
pub fn cuda_words(devices: &[u32]) -> String {
    numbered("CUDA device", devices)
}

/// `a, b and c`
pub fn all_words(words: &[String]) -> String {
    match words {
        [] => String::new(),
        [one] => one.clone(),
        [first @ .., last] => format!("{} and {last}", first.join(", ")),
    }
}

fn numbered(what: &str, numbers: &[u32]) -> String {
    match numbers {
        [] => format!("no {what}"),
        [one] => format!("{what} {one}"),
        [first @ .., last] if numbers.len() <= 8 => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("{what}s {} and {last}", first.join(", "))
        }
        many => format!("{} {what}s ({}, {}, …)", many.len(), many[0], many[1]),
    }
}

/// Of `{is|are} late` the word for so many.
pub fn agree(text: &str, n: usize) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, (words, after))) = rest.split_once('{').and_then(|(before, rest)| Some((before, rest.split_once('}')?))) {
        let (one, many) = words.split_once('|').unwrap_or((words, words));
        out.push_str(before);
        out.push_str(if n == 1 { one } else { many });
        rest = after;
    }
    out + rest
}

/// Numbers in names count as numbers, so that `mlx5_2` stands before `mlx5_10`.
pub fn natural(name: &str) -> String {
    let mut out = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let end = if digits > 0 { digits } else { c.len_utf8() };
        out.extend(std::iter::repeat_n('0', 10usize.saturating_sub(digits) * usize::from(digits > 0)));
        out.push_str(&rest[..end]);
        rest = &rest[end..];
    }
    out
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

/// The longest shape, in characters.
const MAX_SHAPE: usize = 200;
/// Hexadecimal digits without `0x` in front are a pointer or an id from so many on: no shorter word needs to be told from a name.
const LEAST_HEX: usize = 8;

/// The text without what differs each time that it is printed: numbers, pointers, ids, network addresses. Names of devices stay, as far as
/// digits do not make them up.
pub fn shape(text: &str) -> String {
    let mut shape = String::with_capacity(text.len().min(MAX_SHAPE));
    let mut left = MAX_SHAPE;
    let mut rest = text;
    let mut in_word = false;
    while let Some(c) = rest.chars().next().filter(|_| left > 0) {
        let (taken, becomes) = if in_word { None } else { identifier(rest) }.unwrap_or_else(|| piece(rest, c));
        shape.push_str(becomes);
        left = left.saturating_sub(becomes.chars().count());
        in_word = rest[..taken].ends_with(|c: char| c.is_alphanumeric());
        rest = &rest[taken..];
    }
    shape
}

/// A character, or a number with what of hexadecimal digits hangs on it, and what becomes of it.
fn piece(rest: &str, c: char) -> (usize, &str) {
    if c.is_ascii_digit() { (count(rest, |b| b.is_ascii_hexdigit()), "#") } else { (c.len_utf8(), &rest[..c.len_utf8()]) }
}

/// The pointer, id or address that a text begins with, and what becomes of it.
fn identifier(rest: &str) -> Option<(usize, &str)> {
    if rest.starts_with("GPU-") || rest.starts_with("MIG-") {
        return groups(&rest[4..], b'-', 5).map(|n| (n + 4, &rest[..n + 4]));
    }
    if let Some(hex) = rest.strip_prefix("0x").or_else(|| rest.strip_prefix("0X")) {
        return Some(count(hex, |b| b.is_ascii_hexdigit())).filter(|n| *n > 0).map(|n| (n + 2, "#x#"));
    }
    let word = count(rest, |b| b.is_ascii_hexdigit());
    let id = || Some(word).filter(|n| *n >= LEAST_HEX && ends_word(&rest[*n..]));
    let found = groups(rest, b'-', 3).or_else(|| network_address(rest)).or_else(id);
    found.map(|n| (n, "#"))
}

/// The length of groups of hexadecimal digits, as a UUID has them: at least `least` of them, and 16 digits in all.
fn groups(rest: &str, between: u8, least: usize) -> Option<usize> {
    let n = count(rest, |b| b.is_ascii_hexdigit() || b == between);
    let text = rest[..n].trim_end_matches(char::from(between));
    let number = text.split(char::from(between)).filter(|group| !group.is_empty()).count();
    (number >= least && text.len() + 1 - number >= 16 && ends_word(&rest[text.len()..])).then_some(text.len())
}

/// The length of an IPv6 address, a MAC address, or a GID or GUID of InfiniBand. A PCI address names a device: it is none of them.
fn network_address(rest: &str) -> Option<usize> {
    let n = count(rest, |b| b.is_ascii_hexdigit() || b == b':');
    let text = rest[..n].strip_suffix(':').filter(|text| !text.ends_with(':')).unwrap_or(&rest[..n]);
    let colons = text.bytes().filter(|b| *b == b':').count();
    let short = text.split(':').all(|group| group.len() <= 4);
    // `abc::def` is a name of C++.
    let is_short_one = colons == 2 && text.contains("::") && text.bytes().any(|b| b.is_ascii_digit());
    let is_one = short && (colons >= 3 || is_short_one);
    // `::ffff:10.0.0.1` ends in one of version 4.
    let mapped = count(&rest[text.len()..], |b| b.is_ascii_digit() || b == b'.');
    let end = text.len() + if text.contains("::") { mapped } else { 0 };
    (is_one && ends_word(&rest[end..])).then_some(end)
}

fn count(text: &str, is: impl Fn(u8) -> bool) -> usize {
    text.bytes().take_while(|b| is(*b)).count()
}

fn ends_word(rest: &str) -> bool {
    !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_')
}

/// Whether a line does not end between these words: `for 23` and `s` on the next one is hard to read.
fn is_unit(before: &str, word: &str) -> bool {
    const UNITS: [&str; 18] =
        ["s", "ms", "us", "m", "h", "d", "%", "W", "b/s", "Gb/s", "Mb/s", "GB/s", "MB/s", "KiB", "MiB", "GiB", "TiB", "°C"];
    let ends = before.rsplit(' ').next().unwrap_or_default().trim_start_matches('(');
    let is_number = ends.starts_with(|c: char| c.is_ascii_digit()) && ends.bytes().all(|b| b.is_ascii_digit() || b".,".contains(&b));
    is_number && UNITS.contains(&word.trim_end_matches([',', ';', ':', '.', ')', '?']))
}

/// Cuts a text into lines at spaces, but not between a number and its unit; a word that is wider than a line is cut, too.
pub fn wrap(text: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let text = clean(text);
    let mut words: Vec<std::borrow::Cow<'_, str>> = Vec::new();
    for word in text.split(' ') {
        match words.last_mut() {
            Some(last) if is_unit(last, word) && last.width() + 1 + word.width() <= width => *last = format!("{last} {word}").into(),
            _ => words.push(word.into()),
        }
    }
    let mut lines: Vec<String> = Vec::new();
    for word in &words {
        let word: &str = word;
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
