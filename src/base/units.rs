//! Numbers as people read them. NICs in bits, NVLink and PCIe in bytes, all decimal; memory in GiB.

use std::fmt::Display;

/// `12.4` GiB
pub fn gib(bytes: u64) -> String {
    format!("{:.1}", bytes as f64 / f64::from(1 << 30))
}

/// Bytes a second as bits: `0`, `831k`, `61.2M`, `98.4G`.
pub fn bits_per_s(bytes_per_s: f64) -> String {
    scaled(bytes_per_s * 8.0)
}

/// `100G`, `25G`, `1G`
pub fn line_rate(bits_per_s: u64) -> String {
    scaled(bits_per_s as f64).replace(".0", "")
}

/// `59.1` GB/s
pub fn gbytes_per_s(bytes_per_s: f64) -> String {
    format!("{:.1}", bytes_per_s / 1e9)
}

/// A number with three significant digits and a decimal prefix: `2.73M`.
pub fn scaled(value: f64) -> String {
    let (value, prefix) = match value.abs() {
        v if v >= 1e12 => (value / 1e12, "T"),
        v if v >= 1e9 => (value / 1e9, "G"),
        v if v >= 1e6 => (value / 1e6, "M"),
        v if v >= 1e3 => (value / 1e3, "k"),
        _ => (value, ""),
    };
    match value.abs() {
        v if v < 0.05 => "0".into(),
        v if v >= 100.0 || (prefix.is_empty() && v.fract() == 0.0) => format!("{value:.0}{prefix}"),
        _ => format!("{value:.1}{prefix}"),
    }
}

/// A loss or a gradient norm, with four digits that mean something: `2.713`, `1.2e7`.
pub fn significant(value: f64) -> String {
    let exact = if value != 0.0 && !(1e-3..1e5).contains(&value.abs()) { format!("{value:.1e}") } else { format!("{value:.3}") };
    let whole = exact.trim_end_matches('0').trim_end_matches('.');
    if exact.contains('e') { exact } else { whole.to_owned() }
}

/// `1.2 MiB`, as sizes are given to nccl-tests.
pub fn size_words(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < units.len() {
        value /= 1024.0;
        unit += 1;
    }
    if value.fract() < 0.05 { format!("{value:.0} {}", units[unit]) } else { format!("{value:.1} {}", units[unit]) }
}

/// `0.31 µs`, `11.9 ms`, `1.31 s`, `2 m 05 s`
pub fn seconds(s: f64) -> String {
    match s {
        s if s > 0.0 && s < 1e-4 => format!("{:.2} µs", s * 1e6),
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        s => crate::base::time::span(std::time::Duration::try_from_secs_f64(s).unwrap_or_default()),
    }
}

/// `1 rank`, `24 ranks`, `2 processes`
pub fn counted<N: Display + PartialEq + From<u8>>(n: N, word: &str) -> String {
    let more = match n == N::from(1) {
        true => "",
        false if word.ends_with('s') => "es",
        false => "s",
    };
    format!("{n} {word}{more}")
}

/// What so many do, from the form for several: `waits`, `wait`.
pub fn does(n: usize, verb: &str) -> String {
    format!("{verb}{}", if n == 1 { "s" } else { "" })
}

/// `1 rank waits`, `24 ranks wait`
pub fn so_many(n: usize, word: &str, verb: &str) -> String {
    format!("{} {}", counted(n, word), does(n, verb))
}

/// `the only rank`, `both ranks`, `all 24 ranks`
pub fn all_of(n: usize, word: &str) -> String {
    match n {
        1 => format!("the only {word}"),
        2 => format!("both {word}s"),
        n => format!("all {n} {word}s"),
    }
}

/// `both ranks on this node wait`
pub fn all_here(n: usize, verb: &str) -> String {
    format!("{} on this node {}", all_of(n, "rank"), does(n, verb))
}

/// `97 % or more`; there is nothing above `100 %`.
pub fn at_least_pct(least: f64) -> String {
    let more = if least.round() < 100.0 { " or more" } else { "" };
    format!("{least:.0} %{more}")
}

/// `3 % or less`; there is nothing below `0 %`.
pub fn at_most_pct(most: f64) -> String {
    let less = if most.round() > 0.0 { " or less" } else { "" };
    format!("{most:.0} %{less}")
}

/// Those besides one: `the other rank waits`, `the other 23 wait`
pub fn the_other(n: usize, word: &str, verb: &str) -> String {
    match n {
        1 => format!("the other {word} {}", does(n, verb)),
        n => format!("the other {n} {}", does(n, verb)),
    }
}

/// A text as a sentence: with a full stop, unless it ends in something like one.
pub fn sentence(text: &str) -> String {
    let ends = text.trim_end().ends_with(['.', '!', '?', '…']);
    format!("{}{}", text.trim_end(), if ends { "" } else { "." })
}

/// `1240` as `1,240`.
pub fn group(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Of what is foreseen, rounded up: `1 minute`, `35 minutes`.
pub fn minutes_up(seconds: f64) -> String {
    counted((seconds / 60.0).ceil().max(1.0) as u64, "minute")
}
