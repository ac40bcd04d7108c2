//! Numbers and keys in text, by hand: every function is linear in the line.

/// `1,234.5`, `-1e-5`, `nan`, `-inf` at the start of `text`, and how long it is. A number glued to a letter that is no unit is none.
pub fn number(text: &str) -> Option<(f64, usize)> {
    let bytes = text.as_bytes();
    let sign = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let word = text[sign..].bytes().take_while(u8::is_ascii_alphabetic).count();
    if word > 0 {
        let value = match text[sign..sign + word].to_ascii_lowercase().as_str() {
            "nan" => f64::NAN,
            "inf" | "infinity" => f64::INFINITY,
            _ => return None,
        };
        return Some((if bytes[0] == b'-' { -value } else { value }, sign + word));
    }
    let mut at = sign;
    let mut clean = String::with_capacity(16);
    clean.push_str(&text[..sign]);
    while let Some(b) = bytes.get(at) {
        match b {
            b'0'..=b'9' | b'.' => clean.push(*b as char),
            // Thousands: three digits behind it, digits before it.
            b',' if at > sign && !clean.contains('.') && group_of_three(&bytes[at + 1..]) => {}
            b'e' | b'E' if at > sign => {
                let signed = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
                let digits = bytes[at + 1 + signed..].iter().take_while(|b| b.is_ascii_digit()).count();
                if digits > 0 {
                    clean.push_str(&text[at..at + 1 + signed + digits]);
                    at += 1 + signed + digits;
                }
                break;
            }
            _ => break,
        }
        at += 1;
    }
    // The full stop of a sentence.
    let trailing = clean.len() - clean.trim_end_matches('.').len();
    clean.truncate(clean.len() - trailing);
    Some((clean.parse().ok()?, at - trailing))
}

fn group_of_three(bytes: &[u8]) -> bool {
    bytes.len() >= 3 && bytes[..3].iter().all(u8::is_ascii_digit) && !bytes.get(3).is_some_and(u8::is_ascii_digit)
}

/// A whole, non-negative number at the start of `text`: `12`, `1,200`.
pub fn integer(text: &str) -> Option<(u64, usize)> {
    let bytes = text.as_bytes();
    let mut value = 0u64;
    let mut at = 0;
    while let Some(b) = bytes.get(at) {
        match b {
            b'0'..=b'9' => value = value.checked_mul(10)?.checked_add(u64::from(b - b'0'))?,
            b',' if at > 0 && group_of_three(&bytes[at + 1..]) => {}
            _ => break,
        }
        at += 1;
    }
    let fraction = bytes.get(at) == Some(&b'.') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit);
    (at > 0 && !fraction && !bytes.get(at).is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_')).then_some((value, at))
}

/// Every place where `key` stands as a word of its own, as the text behind it.
pub fn words<'a>(text: &'a str, key: &'a str) -> impl Iterator<Item = (usize, &'a str)> {
    memchr::memmem::find_iter(text.as_bytes(), key.as_bytes()).filter_map(move |at| {
        let before = text.as_bytes()[..at].last();
        let tail = text.get(at + key.len()..)?;
        let starts = !before.is_some_and(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'/' | b'-' | b'.'));
        let ends = !tail.starts_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '/'));
        (starts && ends).then_some((at, tail))
    })
}

/// Skips what stands between a key and its value: blanks, `:`, `=`, quotes.
pub fn value(tail: &str) -> &str {
    tail.trim_start_matches([' ', '\t', ':', '=', '"', '\''])
}

/// The number behind the first of `keys` that has one.
pub fn keyed(text: &str, keys: &[&str]) -> Option<f64> {
    keys.iter().find_map(|k| words(text, k).find_map(|(_, tail)| Some(number(value(tail))?.0)))
}

/// A duration behind one of `keys`, in seconds; without a unit, in `default` seconds.
pub fn seconds(text: &str, keys: &[&str], default: f64) -> Option<f64> {
    keys.iter().find_map(|k| words(text, k).find_map(|(_, tail)| duration(value(tail), default)))
}

/// `11.9 ms`, `0.5s`
pub fn duration(text: &str, default: f64) -> Option<f64> {
    let (v, n) = number(text)?;
    let unit = text[n..].trim_start_matches(' ');
    let unit = &unit[..unit.bytes().take_while(u8::is_ascii_alphabetic).count()];
    Some(match unit {
        "ms" | "msec" | "milliseconds" => v / 1e3,
        "us" | "usec" => v / 1e6,
        "s" | "sec" | "secs" | "seconds" => v,
        "m" | "min" | "minutes" => v * 60.0,
        _ => v * default,
    })
}

const TOKENS: &str = "tokens/s";
const TOKENS_GPU: &str = "tokens/s/GPU";
const SAMPLES: &str = "samples/s";

/// Longest first: `tokens/s/GPU` also holds `tokens/s`.
const RATES: &[(&str, &str)] = &[
    ("tokens-per-second-per-gpu", TOKENS_GPU),
    ("tokens/s/gpu", TOKENS_GPU),
    ("tokens/sec/gpu", TOKENS_GPU),
    ("tok/s/gpu", TOKENS_GPU),
    ("toks/s/device", TOKENS_GPU),
    ("tps", TOKENS_GPU),
    ("wps", TOKENS_GPU),
    ("tokens_per_second", TOKENS),
    ("tokens_per_sec", TOKENS),
    ("tokens/second", TOKENS),
    ("tokens/sec", TOKENS),
    ("tokens/s", TOKENS),
    ("tok/sec", TOKENS),
    ("tok/s", TOKENS),
    ("samples_per_second", SAMPLES),
    ("samples_per_sec", SAMPLES),
    ("samples per second", SAMPLES),
    ("samples/second", SAMPLES),
    ("samples/sec", SAMPLES),
    ("samples/s", SAMPLES),
    ("images/sec", SAMPLES),
    ("images/s", SAMPLES),
    ("img/s", SAMPLES),
    ("examples/s", SAMPLES),
];

/// `tokens/s 2,741,882`, `1745000 tok/s`; `lower` is in lower case.
pub fn throughput(lower: &str) -> Option<(f64, &'static str)> {
    if !["/s", "per", "tps", "wps"].iter().any(|m| lower.contains(m)) {
        return None;
    }
    RATES.iter().find_map(|(key, unit)| {
        let (at, tail) = words(lower, key).next()?;
        let behind = number(value(tail)).map(|(v, _)| v);
        // `1771 toks/s/device`
        let before = lower[..at].trim_end();
        let start = before.bytes().rev().take_while(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'e' | b'+')).count();
        let before = number(&before[before.len() - start..]).filter(|(_, n)| *n == start && at > 0).map(|(v, _)| v);
        let assigned = tail.trim_start().starts_with([':', '=', '"', '\'']);
        let v = if assigned { behind } else { before.filter(|_| start > 0).or(behind) };
        Some((v?, *unit))
    })
}

/// `MM:SS`, `H:MM:SS`, as tqdm counts.
pub fn clock(text: &str) -> Option<f64> {
    let mut total = 0.0;
    let mut parts = 0;
    for part in text.split(':') {
        if part.is_empty() || !part.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        total = total * 60.0 + part.parse::<f64>().ok()?;
        parts += 1;
    }
    (2..=3).contains(&parts).then_some(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        for (text, want, n) in [
            ("2,741,882 x", 2_741_882.0, 9),
            ("1.733e-05'", 1.733e-5, 9),
            ("2.504220E+00 |", 2.50422, 12),
            ("-inf", f64::NEG_INFINITY, 4),
            ("2.31, lr", 2.31, 4),
            ("2.31.", 2.31, 4),
            ("1,23", 1.0, 1),
            ("5e", 5.0, 1),
        ] {
            assert_eq!(number(text), Some((want, n)), "{text}");
        }
        assert!(number("nan,").unwrap().0.is_nan());
        assert!(number("NaN").unwrap().0.is_nan());
        for none in ["", "x", "n/a", "-", ".", "name"] {
            assert_eq!(number(none), None, "{none}");
        }
        assert_eq!(integer("1,200/3"), Some((1200, 5)));
        assert_eq!(integer("0.5"), None);
        assert_eq!(integer("3rd"), None);
        assert_eq!(integer("99999999999999999999"), None);
    }

    #[test]
    fn rates_before_and_behind_their_unit() {
        assert_eq!(throughput("step_time 11.9 ms | tokens/s 2,741,882"), Some((2_741_882.0, TOKENS)));
        assert_eq!(throughput("55% bf16 mfu | 1745000 tok/s"), Some((1_745_000.0, TOKENS)));
        assert_eq!(throughput("speed: 1771 toks/s/device"), Some((1771.0, TOKENS_GPU)));
        assert_eq!(throughput("tps: 5,856  tflops: 339.16"), Some((5856.0, TOKENS_GPU)));
        assert_eq!(throughput("dt: 95.12ms | tok/sec: 5512345.67"), Some((5_512_345.67, TOKENS)));
        assert_eq!(throughput("no rate"), None);
    }

    #[test]
    fn durations_and_clocks() {
        assert_eq!(seconds("step_time 11.9 ms", &["step_time"], 1.0), Some(0.0119));
        assert_eq!(seconds("time: 0.35  data", &["time"], 1.0), Some(0.35));
        assert_eq!(clock("878:01:48"), Some(3_160_908.0));
        assert_eq!(clock("00:07"), Some(7.0));
        assert_eq!(clock("?"), None);
    }
}
