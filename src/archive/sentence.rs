//! Sentences that go on in the next lines, as launchers print them between dashes: what is known by its first words is read with the rest.

use crate::logs::prefilter::{self, Class};
use crate::logs::{Origin, known_by, prefix};
use memchr::memmem;

/// How long a line is that somebody wrapped.
const WRAPPED: std::ops::RangeInclusive<usize> = 40..=250;
/// Lines behind the first one, and fields below the sentence, that are taken.
const MOST_LINES: usize = 3;
const MOST_FIELDS: usize = 3;
const LONGEST: usize = 1000;
const LEAST_DASHES: usize = 20;
/// Of the lines of one file so many are looked at for a sentence that goes on.
pub const MOST_TRIES: u32 = 20_000;
/// The same of records whose next line may belong to them.
pub const MOST_RECORDS: u32 = 5_000;

/// Lines that belong together.
pub struct Sentence {
    pub text: Vec<u8>,
    /// Lines behind the first one.
    pub further: u64,
    /// Readers know it; else it is what a launcher reports below a line of dashes.
    pub is_known: bool,
}

/// The sentence that begins with `line`, where the lines behind it go on with it: below a line of dashes, or where readers know the whole and
/// nothing of its first line; with the fields below, where it ends with a colon: `cannot access an executable: Executable: ./train, Node:
/// node-3`.
///
/// `tries` are how often more is looked for where no dashes stand before it: most lines are no sentences.
pub fn whole(before: &[u8], line: &[u8], behind: &[u8], tries: &mut u32) -> Option<Sentence> {
    if !WRAPPED.contains(&line.len()) {
        return None;
    }
    let mut lines = behind.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).peekable();
    let begins = line.ends_with(b":") || lines.peek().is_some_and(|next| goes_on(line, next));
    let is_below_dashes = || is_dashes(before.strip_suffix(b"\n").unwrap_or(before).rsplit(|b| *b == b'\n').next().unwrap_or_default());
    // Most lines end here.
    if !begins && !line.ends_with(b".") {
        return None;
    }
    if !is_below_dashes() {
        if !begins || *tries == 0 {
            return None;
        }
        *tries -= 1;
        if prefilter::classify(line) != Class::Noise {
            return None;
        }
    }
    let mut text = line.trim_ascii_end().to_vec();
    let mut added = 0;
    // What is known by itself needs no other line.
    while added < MOST_LINES && lines.peek().is_some_and(|next| goes_on(&text, next) && !is_known(next)) {
        let next = lines.next()?;
        text.push(b' ');
        text.extend_from_slice(next.trim_ascii());
        added += 1;
    }
    let mut further = added as u64;
    let mut fields = 0;
    if text.ends_with(b":") {
        let is_blank = lines.next_if(|line| line.trim_ascii().is_empty()).is_some();
        further += u64::from(is_blank);
        // Below a blank line of a launcher's report they may stand at its beginning.
        let at_start = is_blank && is_below_dashes();
        let belongs = |line: &[u8]| is_field(line) && (line.starts_with(b" ") || at_start && is_word(line) && !is_known(line));
        while let Some(field) = lines.next_if(|line| fields < MOST_FIELDS && belongs(line)) {
            text.extend_from_slice(if fields == 0 { b" " } else { b", " });
            text.extend(field.trim_ascii().iter().copied());
            (fields, further) = (fields + 1, further + 1);
        }
    }
    if text.len() > LONGEST {
        return None;
    }
    let is_known = is_known(&text);
    (is_known && further > 0 || !is_known && is_below_dashes()).then_some(Sentence { text, further, is_known })
}

/// The record that begins with `line`, which says who wrote it, where somebody wrapped it: the catalogue knows the whole and nothing of its
/// first line.
pub fn wrapped(line: &[u8], behind: &[u8], tries: &mut u32) -> Option<Sentence> {
    let mut lines = behind.split(|b| *b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).peekable();
    let may_go_on = |next: &&[u8]| {
        let text = next.trim_ascii_start();
        WRAPPED.end() >= &next.len() && text.first().is_some_and(|b| b.is_ascii_alphanumeric() || b"(\"'/<".contains(b))
    };
    let is_open = WRAPPED.contains(&line.len()) && !line.trim_ascii_end().ends_with(b".");
    if !is_open || !lines.peek().is_some_and(may_go_on) || *tries == 0 || prefilter::classify(line) != Class::Alarm {
        return None;
    }
    *tries -= 1;
    let entry = |text: &[u8]| known_by(&String::from_utf8_lossy(text)).entry;
    if !has_head(line) || entry(line).is_some() {
        return None;
    }
    let mut text = line.trim_ascii_end().to_vec();
    for further in 1..=MOST_LINES {
        let next = lines.next_if(may_go_on).filter(|next| !has_head(next) && entry(next).is_none())?;
        text.push(b' ');
        text.extend_from_slice(next.trim_ascii());
        if entry(&text).is_some() {
            return Some(Sentence { text, further: further as u64, is_known: true });
        }
    }
    None
}

/// It says who wrote it, or when. NCCL's own head is read with its message.
fn has_head(line: &[u8]) -> bool {
    memmem::find(line, b"CCL WARN ").or_else(|| memmem::find(line, b"CCL INFO ")).is_some()
        || prefix::peel(&String::from_utf8_lossy(line)).origin != Origin::default()
}

fn is_known(text: &[u8]) -> bool {
    prefilter::classify(text) == Class::Alarm && known_by(&String::from_utf8_lossy(text)).reader.is_some()
}

pub fn is_dashes(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.len() >= LEAST_DASHES && line.iter().all(|b| *b == b'-')
}

/// Whether a sentence may go on: the text before ends with a word, and this line begins in the middle of one.
pub fn goes_on(before: &[u8], line: &[u8]) -> bool {
    let ends = match before.trim_ascii_end() {
        // A line of dashes is none.
        [.., before, b'-'] => before.is_ascii_alphanumeric(),
        text => text.last().is_some_and(|b| b.is_ascii_alphanumeric() || b",(".contains(b)),
    };
    let word = line.split(|b| *b == b' ').next().unwrap_or_default();
    let is_date = word.first().is_some_and(u8::is_ascii_digit) && word.contains(&b'-');
    let has_head = is_date || word.iter().any(|b| b":[]=|/".contains(b));
    ends && !has_head && line.first().is_some_and(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'(')
}

/// `   Node: gpu-7`
fn is_field(line: &[u8]) -> bool {
    let text = line.trim_ascii();
    let name = text.split(|b| *b == b':').next().unwrap_or_default();
    name.len() < text.len() && (1..=30).contains(&name.len()) && name.iter().all(|b| b.is_ascii_alphanumeric() || b" _-".contains(b))
}

/// Its name is one word, and that of no exception: `Executable: /srv/solve`.
fn is_word(line: &[u8]) -> bool {
    const OTHERS: [&[u8]; 4] = [b"Error", b"Exception", b"Warning", b"Traceback"];
    let name = line.split(|b| *b == b':').next().unwrap_or_default();
    line.first().is_some_and(u8::is_ascii_uppercase) && !name.contains(&b' ') && !OTHERS.iter().any(|other| name.ends_with(other))
}
