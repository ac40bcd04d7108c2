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

/// `11.9 ms`, `1.31 s`, `2 m 05 s`
pub fn seconds(s: f64) -> String {
    match s {
        s if s < 1.0 => format!("{:.1} ms", s * 1e3),
        s if s < 60.0 => format!("{s:.2} s"),
        s => crate::time::span(std::time::Duration::try_from_secs_f64(s).unwrap_or_default()),
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

/// `both ranks of this node wait`
pub fn all_here(n: usize, verb: &str) -> String {
    format!("{} of this node {}", all_of(n, "rank"), does(n, verb))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_are_worded_as_people_say_them() {
        assert_eq!([1u32, 2, 24].map(|n| counted(n, "rank")), ["1 rank", "2 ranks", "24 ranks"]);
        assert_eq!([1u64, 2].map(|n| counted(n, "process")), ["1 process", "2 processes"]);
        assert_eq!([1, 2].map(|n| so_many(n, "GPU", "spin")), ["1 GPU spins", "2 GPUs spin"]);
        let here = ["the only rank of this node waits", "both ranks of this node wait", "all 8 ranks of this node wait"];
        assert_eq!([1, 2, 8].map(|n| all_here(n, "wait")), here);
        assert_eq!([1, 3].map(|n| the_other(n, "rank", "wait")), ["the other rank waits", "the other 3 wait"]);
    }

    #[test]
    fn a_sentence_ends_in_one_full_stop() {
        let texts = ["it waits", "ignoring (GPU 3).", "may be off to a …", "is it?", "CPU affinity = 0-63). "];
        assert_eq!(texts.map(sentence), ["it waits.", "ignoring (GPU 3).", "may be off to a …", "is it?", "CPU affinity = 0-63)."]);
    }

    #[test]
    fn three_digits_are_enough() {
        assert_eq!([0.0, 0.04, 7.0, 831.4, 2_729_113.0, 98.4e9].map(scaled), ["0", "0", "7", "831", "2.7M", "98.4G"]);
        assert_eq!([100e9 as u64, 25e9 as u64, 2_500_000_000].map(line_rate), ["100G", "25G", "2.5G"]);
        assert_eq!([0.0119, 1.31, 125.0].map(seconds), ["11.9 ms", "1.31 s", "2 m 05 s"]);
    }

    #[test]
    fn thousands_are_grouped() {
        assert_eq!([0, 999, 1240, 50_000, 1_234_567].map(group), ["0", "999", "1,240", "50,000", "1,234,567"]);
    }
}
