//! Numbers in text, by hand: every function is linear in what it reads.

/// `1,234.5`, `92_160`, `-1e-5`, `nan`, `-inf` at the start of `text`, and how long it is. A number glued to a letter that is no unit is none.
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
    let (mut mantissa, mut digits, mut decimals, mut points, mut commas) = (0u64, 0, 0, 0, false);
    let mut exponent = false;
    while let Some(b) = bytes.get(at) {
        match b {
            b'0'..=b'9' => {
                mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(b - b'0'));
                digits += 1;
                decimals += usize::from(points > 0);
            }
            b'.' => points += 1,
            // Thousands: three digits behind it, digits before it.
            b',' if at > sign && points == 0 && group_of_three(&bytes[at + 1..]) => commas = true,
            // Python's own mark of thousands, which names have, too: `1000_200`.
            b'_' if (at > sign && at <= sign + 3 || commas) && points == 0 && group_of_three(&bytes[at + 1..]) => commas = true,
            b'e' | b'E' if at > sign => {
                let signed = usize::from(matches!(bytes.get(at + 1), Some(b'-' | b'+')));
                let power = bytes[at + 1 + signed..].iter().take_while(|b| b.is_ascii_digit()).count();
                exponent = power > 0;
                at += if exponent { 1 + signed + power } else { 0 };
                break;
            }
            _ => break,
        }
        at += 1;
    }
    // The full stop of a sentence.
    let text = text[..at].trim_end_matches('.');
    if points > at - text.len() + 1 || digits == 0 {
        return None;
    }
    let value = match POWERS.get(decimals).filter(|_| digits <= 15 && !exponent) {
        // Exact as it is.
        Some(power) => mantissa as f64 / power,
        None if commas => return Some((text.replace([',', '_'], "").parse().ok()?, text.len())),
        None => return Some((text.parse().ok()?, text.len())),
    };
    Some((if bytes[0] == b'-' { -value } else { value }, text.len()))
}

/// A double holds these, and whole numbers of fifteen digits: a quotient of the two is the nearest double.
const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];

fn group_of_three(bytes: &[u8]) -> bool {
    bytes.len() >= 3 && bytes[..3].iter().all(u8::is_ascii_digit) && !bytes.get(3).is_some_and(u8::is_ascii_digit)
}

/// A whole number that is not negative: `12`, `1,200`, `794.0`. Larger ones than a double can count to are none.
pub fn count(text: &str) -> Option<(f64, usize)> {
    const MAX: f64 = (1u64 << 53) as f64;
    let (v, n) = scaled(text).filter(|(v, _)| (0.0..MAX).contains(v) && *v == *v as u64 as f64)?;
    text.starts_with(|c: char| c.is_ascii_digit()).then_some((v, n))
}

/// `1.25K`, `30.0it`, `1.00kit`: a number with or without a letter for its scale, and the length of both.
pub fn scaled(text: &str) -> Option<(f64, usize)> {
    let (v, n) = number(text)?;
    let scale = match text.as_bytes().get(n) {
        Some(b'k' | b'K') => 1e3,
        Some(b'M') => 1e6,
        Some(b'G' | b'B') => 1e9,
        Some(b'T') => 1e12,
        _ => return Some((v, n)),
    };
    let behind = &text[n + 1..];
    let is_unit = behind.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_') && !behind.starts_with("it");
    Some(if is_unit || !v.is_finite() { (v, n) } else { ((v * scale * 1e3).round() / 1e3, n + 1) })
}

/// A number that ends the line may have been cut: whether `rest`, behind a number, may be more of it.
pub fn is_cut(rest: &str) -> bool {
    rest.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'e' | b'E' | b'+' | b'-'))
}

/// Whether `text` begins with `start`, which is in lower case, in any case.
pub fn starts_with(text: &str, start: &str) -> bool {
    let first = |text: &str| text.bytes().next().map(|b| b.to_ascii_lowercase());
    first(text) == start.bytes().next() && text.as_bytes().get(..start.len()).is_some_and(|t| t.eq_ignore_ascii_case(start.as_bytes()))
}

/// Skips what stands between a name and its value: blanks, `:`, `=`, quotes.
pub fn value(tail: &str) -> &str {
    tail.trim_start_matches([' ', '\t', ':', '=', '"', '\''])
}

/// `11.9 ms`, `0.5s`, in seconds; without a unit, in `default` seconds. And the length of the number.
pub fn duration(text: &str, default: f64) -> Option<(f64, usize)> {
    let (v, n) = number(text)?;
    let behind = text[n..].trim_start_matches(' ');
    let unit = &behind[..behind.bytes().take_while(u8::is_ascii_alphabetic).count()];
    let scale = match unit {
        "ms" | "msec" | "milliseconds" => 1e-3,
        "us" | "usec" => 1e-6,
        "s" | "sec" | "secs" | "seconds" => 1.0,
        // A `ms` that the line's end has cut.
        "m" if behind == unit => return None,
        "K" => default * 1e3,
        "m" | "min" | "minutes" => 60.0,
        _ => default,
    };
    // A division is exact where the product of a fraction is not.
    Some((if scale < 1.0 { v / (1.0 / scale).round() } else { v * scale }, n))
}

/// `6 days, 15:22:46`, `0:31:22`, `1h 14m 28s`: what is left, in seconds, and the length of that text.
pub fn left(text: &str) -> Option<(f64, usize)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let days = text[digits..].strip_prefix(" day").map(|t| t.strip_prefix('s').unwrap_or(t)).and_then(|t| t.strip_prefix(", "));
    let (days, clock_at) = match days {
        Some(tail) => (text[..digits].parse().ok()?, text.len() - tail.len()),
        None => (0.0, 0),
    };
    let n = text[clock_at..].bytes().take_while(|b| b.is_ascii_digit() || *b == b':').count();
    match clock(&text[clock_at..clock_at + n]) {
        Some(time) => Some((days * 86_400.0 + time, clock_at + n)),
        None => spelled(text),
    }
}

/// `1d 2h 3m 4s`
fn spelled(text: &str) -> Option<(f64, usize)> {
    let (mut total, mut at) = (0.0, 0);
    loop {
        let tail = text[at..].trim_start_matches(' ');
        let digits = tail.bytes().take_while(|b| b.is_ascii_digit() || *b == b'.').count();
        let unit = match tail.as_bytes().get(digits) {
            Some(b'd') => 86_400.0,
            Some(b'h') => 3600.0,
            Some(b'm') => 60.0,
            Some(b's') => 1.0,
            _ => break,
        };
        if digits == 0 || tail.as_bytes().get(digits + 1).is_some_and(u8::is_ascii_alphabetic) {
            break;
        }
        total += tail[..digits].parse::<f64>().ok()? * unit;
        at = text.len() - tail.len() + digits + 1;
    }
    (at > 0).then_some((total, at))
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

/// All units of throughput; where a line has several, the first here counts.
pub const RATES: [&str; 6] = ["tokens/s", "tokens/s/GPU", "samples/s", "samples/s/GPU", "TFLOP/s/GPU", "TFLOP/s"];
const TOKENS: u8 = 0;
const TOKENS_GPU: u8 = 1;
const SAMPLES: u8 = 2;
const SAMPLES_GPU: u8 = 3;

/// The place in [`RATES`] of a word in lower case: `tok/s`, `samples_per_sec`, `tok_s_gpu`, `tokens_per_gpu_per_second`.
pub fn unit_of(word: &[u8]) -> Option<u8> {
    // A letter that each begins with.
    if !matches!(word.first(), Some(b't' | b's' | b'i' | b'e' | b'f' | b'w' | b'p')) {
        return None;
    }
    let mut parts = word.split(|b| matches!(b, b'/' | b'_' | b'-' | b' ')).peekable();
    while parts.next_if(|part| matches!(*part, b"train" | b"throughput" | b"perf")).is_some() {}
    let what = parts.next()?;
    let count = match what {
        b"tokens" | b"token" | b"tok" | b"toks" | b"words" => TOKENS,
        b"samples" | b"sample" | b"images" | b"image" | b"img" | b"imgs" | b"examples" | b"example" | b"seq" | b"seqs" | b"sequences"
        | b"frames" => SAMPLES,
        b"tps" | b"wps" if parts.peek().is_none() => return Some(TOKENS),
        b"tgs" if parts.peek().is_none() => return Some(TOKENS_GPU),
        _ => return None,
    };
    // `sample_s` is a time, `samples_s` a rate.
    let behind_what = what.as_ptr() as usize + what.len() - word.as_ptr() as usize;
    let mut is_rate = memchr::memchr(b'/', &word[behind_what..]).is_some();
    let is_plural = what == b"tok" || what.ends_with(b"s");
    let (mut times, mut devices) = (0, 0);
    for part in parts {
        match part {
            b"per" => is_rate = true,
            b"s" if is_plural => (times, is_rate) = (times + 1, true),
            b"s" | b"sec" | b"second" | b"seconds" => times += 1,
            b"gpu" | b"device" => devices += 1,
            _ => return None,
        }
    }
    if !is_rate {
        return None;
    }
    match (times, devices, count) {
        (1, 0, _) => Some(count),
        (1, 1, TOKENS) => Some(TOKENS_GPU),
        (1, 1, _) => Some(SAMPLES_GPU),
        _ => None,
    }
}
