//! Numbers and keys in text, by hand: every function is linear in the line.

/// `1,234.5`, `-1e-5`, `nan`, `-inf` at the start of `text`, and how long it is. A number glued to a letter that is no unit is none.
pub fn number(text: &str) -> Option<(f64, usize)> {
    let bytes = text.as_bytes();
    let sign = usize::from(matches!(bytes.first(), Some(b'-' | b'+')));
    let word = text[sign..].bytes().take_while(u8::is_ascii_alphabetic).count();
    if word > 0 {
        let value = match &text[sign..sign + word] {
            w if w.eq_ignore_ascii_case("nan") => f64::NAN,
            w if w.eq_ignore_ascii_case("inf") || w.eq_ignore_ascii_case("infinity") => f64::INFINITY,
            _ => return None,
        };
        return Some((if bytes[0] == b'-' { -value } else { value }, sign + word));
    }
    let mut at = sign;
    let (mut commas, mut point) = (false, false);
    while let Some(b) = bytes.get(at) {
        match b {
            b'0'..=b'9' => {}
            b'.' => point = true,
            // Thousands: three digits behind it, digits before it.
            b',' if at > sign && !point && group_of_three(&bytes[at + 1..]) => commas = true,
            b'e' | b'E' if at > sign => {
                let signed = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
                let digits = bytes[at + 1 + signed..].iter().take_while(|b| b.is_ascii_digit()).count();
                if digits > 0 {
                    at += 1 + signed + digits;
                }
                break;
            }
            _ => break,
        }
        at += 1;
    }
    // The full stop of a sentence.
    let digits = text[..at].trim_end_matches('.');
    if !commas {
        return Some((digits.parse().ok()?, digits.len()));
    }
    let mut plain = [0; 40];
    let mut n = 0;
    for b in digits.bytes().filter(|b| *b != b',') {
        *plain.get_mut(n)? = b;
        n += 1;
    }
    Some((std::str::from_utf8(&plain[..n]).ok()?.parse().ok()?, digits.len()))
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
    if text.is_empty() {
        return None;
    }
    keys.iter().find_map(|k| words(text, k).find_map(|(_, tail)| Some(number(value(tail))?.0)))
}

/// `11.9 ms`, `0.5s`, in seconds; without a unit, in `default` seconds.
pub fn duration(text: &str, default: f64) -> Option<f64> {
    let (v, n) = number(text)?;
    let unit = text[n..].trim_start_matches(' ');
    let unit = &unit[..unit.bytes().take_while(u8::is_ascii_alphabetic).count()];
    Some(match unit {
        "ms" | "msec" | "milliseconds" => v / 1e3,
        "us" | "usec" => v / 1e6,
        "s" | "sec" | "secs" | "seconds" => v,
        // A `ms` that the line's end has cut.
        "m" if text[n..].trim_start_matches(' ') == unit => return None,
        "m" | "min" | "minutes" => v * 60.0,
        _ => v * default,
    })
}

pub const TOKENS: &str = "tokens/s";
pub const TOKENS_GPU: &str = "tokens/s/GPU";
pub const SAMPLES: &str = "samples/s";
pub const TFLOPS_GPU: &str = "TFLOP/s/GPU";

/// What a word in lower case counts, if it is a rate: `tok/s`, `samples_per_sec`.
pub fn unit_of(word: &[u8]) -> Option<&'static str> {
    let word =
        word.strip_prefix(b"train/").or_else(|| word.strip_prefix(b"train_")).or_else(|| word.strip_prefix(b"throughput/")).unwrap_or(word);
    let n = word.iter().take_while(|b| b.is_ascii_lowercase()).count();
    let (what, per) = word.split_at(n);
    let count = match what {
        b"tokens" | b"token" | b"tok" | b"toks" | b"words" => TOKENS,
        b"samples" | b"sample" | b"images" | b"image" | b"img" | b"imgs" | b"examples" | b"example" | b"seq" | b"seqs" | b"sequences"
        | b"frames" => SAMPLES,
        b"tps" | b"wps" if per.is_empty() => return Some(TOKENS),
        b"tgs" if per.is_empty() => return Some(TOKENS_GPU),
        _ => return None,
    };
    let tail = per
        .strip_prefix(b"/")
        .or_else(|| per.strip_prefix(b"_per_"))
        .or_else(|| per.strip_prefix(b"-per-"))
        .or_else(|| per.strip_prefix(b" per "))?;
    let n = tail.iter().take_while(|b| b.is_ascii_lowercase()).count();
    let (time, each) = tail.split_at(n);
    if !matches!(time, b"s" | b"sec" | b"second" | b"seconds") {
        return None;
    }
    match each {
        b"" => Some(count),
        b"/gpu" | b"/device" | b"_per_gpu" | b"-per-gpu" | b"_per_device" | b" per gpu" if count == TOKENS => Some(TOKENS_GPU),
        _ => None,
    }
}

/// `6 days, 15:22:46`, `0:31:22`, `1 day, 2:03:04`: what is left, in seconds, when it does not end the line in its middle.
pub fn left(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let (days, text) = match text.find(" day") {
        Some(at) if at <= 6 => {
            let days: f64 = text[..at].parse().ok()?;
            (days, text[at + 4..].trim_start_matches('s').strip_prefix(',')?.trim_start())
        }
        _ => (0.0, text),
    };
    let n = text.bytes().take_while(|b| b.is_ascii_digit() || *b == b':').count();
    Some(days * 86_400.0 + clock(&text[..n])?)
}

/// The number at the start of `text` and what stands behind it; `None` where the line ends with it, because it may have been cut.
pub fn whole(text: &str) -> Option<(f64, &str)> {
    let (v, n) = number(text)?;
    let rest = &text[n..];
    let cut = rest.is_empty() || rest.strip_prefix(',').is_some_and(|r| r.len() < 3 && r.bytes().all(|b| b.is_ascii_digit()));
    (!cut).then_some((v, rest))
}

/// The text behind `key`, without blanks in front.
pub fn after<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let at = memchr::memmem::find(text.as_bytes(), key.as_bytes())?;
    Some(text[at + key.len()..].trim_start_matches([' ', '\t']))
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
    fn rates() {
        for (word, unit) in [
            ("tokens/s", TOKENS),
            ("tok/sec", TOKENS),
            ("train_tokens_per_second", TOKENS),
            ("tps", TOKENS),
            ("tokens/s/gpu", TOKENS_GPU),
            ("toks/s/device", TOKENS_GPU),
            ("tokens-per-second-per-gpu", TOKENS_GPU),
            ("img/s", SAMPLES),
            ("samples per second", SAMPLES),
            ("throughput/samples_per_sec", SAMPLES),
        ] {
            assert_eq!(unit_of(word.as_bytes()), Some(unit), "{word}");
        }
        for word in ["it/s", "tokens", "samples/epoch", "tokens/step", "steps_per_second", "gb/s", "tokens/s/x"] {
            assert_eq!(unit_of(word.as_bytes()), None, "{word}");
        }
    }

    #[test]
    fn a_number_that_ends_the_line_may_have_been_cut() {
        assert_eq!(whole("12.5, x"), Some((12.5, ", x")));
        assert_eq!(whole("12.5"), None);
        assert_eq!(whole("5,8"), None);
        assert_eq!(whole("5,856  x"), Some((5856.0, "  x")));
    }

    #[test]
    fn what_is_left() {
        assert_eq!(left("6 days, 15:22:46, time"), Some(6.0 * 86_400.0 + 55_366.0));
        assert_eq!(left("1 day, 0:00:01"), Some(86_401.0));
        assert_eq!(left("0:31:22  lr"), Some(1882.0));
        assert_eq!(left("?"), None);
    }

    #[test]
    fn durations_and_clocks() {
        assert_eq!(duration("11.9 ms", 1.0), Some(0.0119));
        assert_eq!(duration("0.35  data", 1.0), Some(0.35));
        assert_eq!(duration("250", 1e-3), Some(0.25));
        assert_eq!(duration("99.6 m", 1.0), None, "cut");
        assert_eq!(clock("878:01:48"), Some(3_160_908.0));
        assert_eq!(clock("00:07"), Some(7.0));
        assert_eq!(clock("?"), None);
    }
}
