//! Physical lines that hold several records.

use super::peel;
use regex::Regex;
use std::sync::LazyLock;

/// Cuts a physical line where another record starts in it: bars and other ranks' lines are glued together without a line end.
pub fn records(line: &str) -> Vec<&str> {
    static START: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?x)
            (?:\[rank[0-9]+\]:\x20?)? \[[IWEFV] (?: [0-9]{3,4}\x20[0-9]{2}:[0-9]{2}:[0-9]{2}\. | \x20[A-Za-z_]+\.[a-z]+:[0-9]+\]\x20 )
            | \[rank[0-9]+\]:
            | (?:WARNING|ERROR):torch\.[A-Za-z_.]+:
            | \[[0-9]{4}-[0-9]{2}-[0-9]{2}\x20[0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{3}\]\x20\[(?:INFO|WARNING|ERROR)\]
            | \[[0-9]{4}-[0-9]{2}-[0-9]{2}\x20[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\x20(?:DP|TP|PP|EP)[0-9]+)*\]\x20[A-Z]
            | [IWEF][0-9]{4}\x20[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\x20[0-9]+\x20[A-Za-z_/.]+:[0-9]+\]
            ",
        )
        .expect("pattern")
    });
    if let Some(at) = behind_bar(line) {
        let (bar, rest) = line.split_at(at);
        return std::iter::once(bar).chain(records(rest)).collect();
    }
    if !may_hold_records(line.as_bytes()) {
        return vec![line];
    }
    let mut out = Vec::new();
    let mut from = 0;
    for found in START.find_iter(line) {
        let at = found.start();
        // `[default0]:[rank0]:` is one prefix, not two records.
        if at > from && !peel(&line[from..at]).rest.trim().is_empty() {
            out.push(&line[from..at]);
            from = at;
        }
    }
    out.push(&line[from..]);
    out
}

/// Where something else begins behind a bar of tqdm: behind its times (`… 366/903 [5:15:39<6:53:09, 46.16s/it]HW Exception`), or, where it
/// was printed over, with the first words of another program (`Epoch 0:  83%|█████ERROR: …`). Each bar is cut off by itself, so that no text
/// makes this slow.
pub fn behind_bar(line: &str) -> Option<usize> {
    const BEGIN: [&str; 6] =
        ["ERROR:", "WARNING:", "CRITICAL:", "Traceback (most recent call last)", "terminate called ", "RuntimeError: "];
    const MOST_BARS: usize = 10_000;
    let next_bar = |from: usize| memchr::memmem::find(&line.as_bytes()[from..], b"%|").map(|at| from + at + 2);
    let mut bar = next_bar(0)?;
    // Bars whose carriage returns were lost stand one behind another.
    for _ in 0..MOST_BARS {
        let tail = &line[bar..];
        let free = |at: usize| !tail[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '=' | '"' | '\''));
        let end = end_of_times(tail);
        let next = next_bar(bar);
        let own = &tail[..next.map_or(tail.len(), |next| next - bar)];
        let words = BEGIN.iter().filter_map(|begin| own.find(begin)).filter(|at| *at > 0 && free(*at)).min();
        let end = end.filter(|end| *end <= own.len() && words.is_none_or(|at| *end <= at));
        // Another bar, and what belongs to this one, begin with a blank or a digit.
        let is_stamped =
            |text: &str| text.starts_with('[') && text.as_bytes().get(1..5).is_some_and(|year| year.iter().all(u8::is_ascii_digit));
        let begins = |text: &str| text.starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '(' | '`')) || is_stamped(text);
        let glued = end.filter(|end| begins(&tail[*end..]));
        if let Some(at) = glued.or(words) {
            return Some(bar + at);
        }
        bar = next?;
    }
    None
}

/// Behind the bracket of a bar: `[00:12<06:31,  1.24it/s, loss=2.5]`.
fn end_of_times(tail: &str) -> Option<usize> {
    const LONGEST: usize = 600;
    let times = memchr::memmem::find(tail.as_bytes(), b" [")? + 2;
    let near = &tail.as_bytes()[times..tail.len().min(times + LONGEST)];
    let is_clock = near.first().is_some_and(u8::is_ascii_digit) && near.iter().take(12).any(|b| *b == b':');
    memchr::memchr(b']', near).filter(|_| is_clock).map(|end| times + end + 1)
}

/// Whether another record may begin behind the start of a line: with a bracket, with the name of a logger, or with a time and, further
/// on, a place in a file and the end of a bracket.
fn may_hold_records(line: &[u8]) -> bool {
    const SHORTEST: usize = "E0101 00:00:00.000000 1 a:1]".len();
    static LOGGER: LazyLock<memchr::memmem::Finder<'_>> = LazyLock::new(|| memchr::memmem::Finder::new(":torch."));
    let opens = |at: usize| match line.get(at + 1) {
        Some(b'I' | b'W' | b'E' | b'F' | b'V' | b'r') => true,
        // A year.
        Some(b'0'..=b'9') => line.get(at + 5) == Some(&b'-'),
        _ => false,
    };
    let closes = |at: usize| {
        let digits = line[..at].iter().rev().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && line[..at - digits].ends_with(b":")
    };
    memchr::memchr_iter(b'[', line).any(|at| at > 0 && opens(at))
        || memchr::memchr_iter(b']', line).any(|at| at >= SHORTEST && closes(at))
        || LOGGER.find(line).is_some()
}

#[cfg(test)]
mod tests {
    use super::may_hold_records;

    #[test]
    fn a_line_with_one_record_is_known_without_search() {
        for line in ["[rank5]:   File \"x.py\", line 3, in f", "node-01:2601:3001 [1] x.cc:12 NCCL WARN odd", "step 7 | loss 2.5"] {
            assert!(!may_hold_records(line.as_bytes()), "{line}");
        }
    }
}
