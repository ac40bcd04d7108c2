//! Lines that differ in their numbers alone, as one: `step 386 to 395 | loss 2.26 to 2.31 | step_time 334.5 to 338.4 ms`.

/// A number in a line, and the least and the greatest that lines have had in its place.
#[derive(Clone, Copy, Debug)]
struct Slot<'a> {
    /// Where it stands in the newest line.
    from: usize,
    to: usize,
    least: (f64, &'a str),
    most: (f64, &'a str),
}

/// Lines of one form, the newest first.
#[derive(Clone, Debug)]
pub struct Run<'a> {
    newest: &'a str,
    slots: Vec<Slot<'a>>,
    pub lines: usize,
}

/// The end of the number that begins at a place: digits with `.` and `,` between them, and an exponent.
fn number(text: &[u8], at: usize) -> Option<usize> {
    let digit = |i: usize| text.get(i).is_some_and(u8::is_ascii_digit);
    // Asked of each character of many lines: what most of them are comes first.
    if !digit(at) || at > 0 && (text[at - 1].is_ascii_alphanumeric() || matches!(text[at - 1], b'_' | b'.')) {
        return None;
    }
    let mut end = at + 1;
    while digit(end) || matches!(text.get(end), Some(b'.' | b',')) && digit(end + 1) {
        end += 1;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'+' | b'-')));
        let from = end + 1 + sign;
        let exponent = (from..text.len()).take_while(|i| digit(*i)).count();
        end = if exponent > 0 { from + exponent } else { end };
    }
    Some(end)
}

/// Parts of times, dates and addresses are no quantities: `10:02:31`, `2026-11-22`.
fn is_part_of_time(text: &[u8], from: usize, to: usize) -> bool {
    let joins = |i: Option<usize>| i.and_then(|i| text.get(i)).is_some_and(|c| matches!(c, b':' | b'-'));
    let digit = |i: Option<usize>| i.and_then(|i| text.get(i)).is_some_and(u8::is_ascii_alphanumeric);
    joins(from.checked_sub(1)) && digit(from.checked_sub(2)) || joins(Some(to)) && digit(Some(to + 1))
}

fn value(text: &str) -> f64 {
    let mut plain = [0u8; 32];
    let digits = text.bytes().filter(|c| *c != b',');
    let length = digits.zip(&mut plain).map(|(c, place)| *place = c).count();
    std::str::from_utf8(&plain[..length]).ok().and_then(|t| t.parse().ok()).unwrap_or(f64::NAN)
}

impl<'a> Run<'a> {
    pub fn new(newest: &'a str) -> Run<'a> {
        let mut run = Run { newest, slots: Vec::new(), lines: 1 };
        let mut at = 0;
        while at < newest.len() {
            match number(newest.as_bytes(), at) {
                Some(end) => {
                    let text = &newest[at..end];
                    let value = if is_part_of_time(newest.as_bytes(), at, end) { f64::NAN } else { value(text) };
                    run.slots.push(Slot { from: at, to: end, least: (value, text), most: (value, text) });
                    at = end;
                }
                None => at += 1,
            }
        }
        run
    }

    /// Takes an older line of the same form. Whether it is one.
    pub fn take(&mut self, older: &'a str) -> bool {
        const MOST: usize = 24;
        let (a, b) = (self.newest.as_bytes(), older.as_bytes());
        if self.slots.is_empty() || self.slots.len() > MOST {
            return false;
        }
        let mut found: [(f64, &str); MOST] = [(f64::NAN, ""); MOST];
        let (mut i, mut j) = (0, 0);
        for (slot, found) in self.slots.iter().zip(&mut found) {
            let same = slot.from - i;
            if b.get(j..j + same) != Some(&a[i..slot.from]) {
                return false;
            }
            j += same;
            let Some(end) = number(b, j) else { return false };
            // A NaN here is a part of a time: that of the newest line stands. The number of the newest line is known already.
            if !slot.least.0.is_nan() && a[slot.from..slot.to] != b[j..end] {
                *found = (value(&older[j..end]), &older[j..end]);
            }
            (i, j) = (slot.to, end);
        }
        if a[i..] != b[j..] {
            return false;
        }
        for (slot, found) in self.slots.iter_mut().zip(found) {
            if found.0 < slot.least.0 {
                slot.least = found;
            }
            if found.0 > slot.most.0 {
                slot.most = found;
            }
        }
        self.lines += 1;
        true
    }

    /// The newest line, with `from to` in place of each number that differs.
    pub fn words(&self) -> String {
        let mut out = String::with_capacity(self.newest.len() + 32);
        let (mut at, mut slots) = (0, self.slots.iter());
        let text = self.newest;
        while at < text.len() {
            let end = number(text.as_bytes(), at).unwrap_or(at);
            if end == at {
                let next = (at + 1..=text.len()).find(|i| text.is_char_boundary(*i)).unwrap_or(text.len());
                out.push_str(&text[at..next]);
                at = next;
                continue;
            }
            match slots.next().filter(|slot| slot.least.1 != slot.most.1) {
                Some(slot) => {
                    out.push_str(slot.least.1);
                    out.push_str(" to ");
                    out.push_str(slot.most.1);
                }
                None => out.push_str(&text[at..end]),
            }
            at = end;
        }
        out
    }
}
