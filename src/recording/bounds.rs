//! How large a tape may be. Tapes are untrusted, and a few KiB of gzip hold gigabytes: what a line may have, and what it may take to
//! judge the whole, is bounded, so that any tape is read in little memory and ends soon.

/// RAS answers of 16,384 ranks are 9 MiB, and no source passes on one of more than 16 MiB.
pub const LINE_BYTES: u64 = 20 << 20;
/// Values in one line: 4096 interfaces with all their counters have fewer. Each takes up to some hundred bytes of memory.
const LINE_VALUES: usize = 1 << 17;
/// Steps of judging, as [`crate::diagnosis::session::Session::effort`] counts them. An hour of a real job takes a million or two, and
/// less than one for each byte.
const FREE_EFFORT: u64 = 300_000_000;
const EFFORT_PER_BYTE: u64 = 16;
/// A large job that hangs writes little, and is judged every second all the same. No more of it than a day: any tape may claim years.
const EFFORT_PER_SECOND: u64 = 20_000;
const DAY_S: u64 = 24 * 3600;

/// What is wrong with the size of a line, if anything is.
pub fn of_line(line: &[u8]) -> Result<(), String> {
    // A value takes a byte at least, and a comma or a bracket.
    if line.len() > LINE_VALUES && values(line) > LINE_VALUES {
        return Err(format!("a line of more than {LINE_VALUES} values, which no source reports at once"));
    }
    Ok(())
}

/// Whether a tape of so many bytes, unpacked, and of so many seconds may take so many steps to judge.
pub fn of_effort(unpacked: u64, seconds: u64, steps: u64) -> Result<(), String> {
    let of_time = seconds.min(DAY_S) * EFFORT_PER_SECOND;
    if steps > FREE_EFFORT.saturating_add(of_time).saturating_add(unpacked.saturating_mul(EFFORT_PER_BYTE)) {
        return Err("so many jobs, processes or findings at once, again and again, that judging it would take too long".into());
    }
    Ok(())
}

/// Items of lists and fields of objects: commas and opening brackets outside of strings.
fn values(json: &[u8]) -> usize {
    let mut count = 0;
    let mut rest = json;
    loop {
        let text = memchr::memchr(b'"', rest).unwrap_or(rest.len());
        count += rest[..text].iter().filter(|b| matches!(b, b',' | b'[' | b'{')).count();
        let Some(inside) = rest.get(text + 1..) else { return count };
        rest = after_string(inside);
    }
}

fn after_string(mut rest: &[u8]) -> &[u8] {
    while let Some(at) = memchr::memchr2(b'"', b'\\', rest) {
        if rest[at] == b'"' {
            return &rest[at + 1..];
        }
        rest = rest.get(at + 2..).unwrap_or_default();
    }
    &[]
}
