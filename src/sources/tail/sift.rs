//! Decides which of the lines that one read brought are passed on. Counts every line that is not.

use super::cut::{Cutter, End, LONGEST, Piece, hash_of};
use crate::logs::is_only_warning;
use crate::logs::prefilter::{self, Class};
use crate::observe::log::{Line, Lines};
use memchr::memmem;
use regex::bytes::Regex;
use std::collections::HashMap;
use std::sync::LazyLock;
use std::time::Instant;

/// More than this many bytes of one file at once, and its lines are sifted.
pub const PRESSURE_BYTES: u64 = 256 << 10;
/// At most so many lines, and so many bytes of text, are passed on of facts, as many of alarms, and when these are full as many errors.
pub const MOST_LINES: usize = 4096;
const MOST_BYTES: usize = 1 << 20;
/// How often the same alarm is passed on before it is only counted.
const SAME_ALARM: u32 = 4;
/// Noise that is kept, so that the screen has something to show.
const LAST_NOISE: usize = 50;
/// A file that brings more than this a second, 20,000 lines or so, is a flood: nobody reads it line by line, steps least of all.
const FLOOD_BYTES_PER_S: f64 = (2 << 20) as f64;
/// Of a flood, in one read, the lines of one form that are passed on besides the newest, and the noise that is kept.
const SAME_FACT: u32 = 8;
const FLOOD_NOISE: usize = 8;
/// Forms of lines that are distinguished in one read.
const MOST_FORMS: usize = 256;

pub type Classify = fn(&[u8]) -> Class;

/// How to go on when more is worth telling than fits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Excess {
    /// Leave it out and count it: the screen must not fall behind.
    Drop,
    /// Tell it all; the reader asks [`Sift::is_full`] and goes on at the next poll.
    Defer,
}

/// How hard a file presses when it is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pressure {
    #[default]
    None,
    /// Much has come at once.
    Once,
    /// It is a flood.
    Lasting,
}

/// How much one file brings, over the last second.
#[derive(Debug, Default)]
pub struct Flow {
    since: Option<Instant>,
    bytes: u64,
    is_flood: bool,
}

impl Flow {
    /// `coming` bytes are there to be read now.
    pub fn meets(&mut self, coming: u64, now: Instant) -> Pressure {
        let since = *self.since.get_or_insert(now);
        let elapsed = now.duration_since(since).as_secs_f64();
        if elapsed >= 1.0 {
            self.is_flood = self.bytes as f64 > FLOOD_BYTES_PER_S * elapsed;
            (self.since, self.bytes) = (Some(now), 0);
        }
        self.bytes = self.bytes.saturating_add(coming);
        match () {
            () if self.is_flood => Pressure::Lasting,
            () if coming > PRESSURE_BYTES => Pressure::Once,
            () => Pressure::None,
        }
    }
}

/// One buffer for one line that may never be passed on, used again and again.
#[derive(Default)]
struct Slot {
    seq: u64,
    no: Option<u64>,
    offset: u64,
    len: u64,
    transient: bool,
    text: Vec<u8>,
}

impl Slot {
    fn fill(&mut self, seq: u64, piece: Piece<'_>) {
        self.seq = seq;
        self.no = piece.no;
        self.offset = piece.offset;
        self.len = piece.len;
        self.transient = piece.end == End::Return;
        self.text.clear();
        self.text.extend_from_slice(piece.text);
        self.text.shrink_to(4096.max(piece.text.len()));
    }

    fn piece(&self) -> Piece<'_> {
        let end = if self.transient { End::Return } else { End::Line };
        Piece { text: &self.text, offset: self.offset, len: self.len, no: self.no, end }
    }
}

#[derive(Default)]
struct Room {
    lines: usize,
    bytes: usize,
}

impl Room {
    fn is_full(&self) -> bool {
        self.lines >= MOST_LINES || self.bytes >= MOST_BYTES
    }

    fn take(&mut self, text: &[u8]) {
        self.lines += 1;
        self.bytes += text.len();
    }
}

/// The lines of one read of one file. [`begin`](Sift::begin), [`take`](Sift::take) each, [`finish`](Sift::finish).
pub struct Sift {
    classify: Classify,
    excess: Excess,
    pressure: Pressure,
    seq: u64,
    told: Vec<(u64, Line)>,
    facts: Room,
    alarms: Room,
    /// Of errors, once that of all alarms is full.
    errors: Room,
    seen_alarms: HashMap<u64, u32>,
    /// Ring of the newest noise; `noise_count` says how much there was.
    noise: Vec<Slot>,
    noise_count: usize,
    /// By form, how many facts of a flood there were, and the place of the newest in `newest`.
    forms: HashMap<u64, (u32, Option<usize>)>,
    newest: Vec<Slot>,
    newest_count: usize,
    form: Vec<u8>,
    /// A bar that the next one may replace.
    bar: Slot,
    has_bar: bool,
    dropped_lines: u64,
    dropped_bytes: u64,
    folded_alarms: u64,
    alarms_left_out: u64,
}

impl Sift {
    pub fn new(excess: Excess) -> Self {
        Sift::with(prefilter::classify, excess)
    }

    /// With another judgement of lines.
    pub fn with(classify: Classify, excess: Excess) -> Self {
        Sift {
            classify,
            excess,
            pressure: Pressure::None,
            seq: 0,
            told: Vec::new(),
            facts: Room::default(),
            alarms: Room::default(),
            errors: Room::default(),
            seen_alarms: HashMap::new(),
            noise: Vec::new(),
            noise_count: 0,
            forms: HashMap::new(),
            newest: Vec::new(),
            newest_count: 0,
            form: Vec::new(),
            bar: Slot::default(),
            has_bar: false,
            dropped_lines: 0,
            dropped_bytes: 0,
            folded_alarms: 0,
            alarms_left_out: 0,
        }
    }

    /// `coming` is how many bytes the file has to offer.
    pub fn begin(&mut self, coming: u64) {
        self.begin_under(if coming > PRESSURE_BYTES { Pressure::Once } else { Pressure::None });
    }

    pub fn begin_under(&mut self, pressure: Pressure) {
        self.pressure = pressure;
    }

    pub fn is_full(&self) -> bool {
        self.excess == Excess::Defer && (self.facts.is_full() || self.alarms.is_full())
    }

    pub fn is_alarm(&self, text: &[u8]) -> bool {
        (self.classify)(text) == Class::Alarm
    }

    pub fn take(&mut self, piece: Piece<'_>) {
        if piece.end == End::Line {
            self.settle_bar();
            self.sort_in(piece);
        } else if self.is_alarm(piece.text) {
            // A message that is glued to a bar goes the way of the bar, but is not replaced by the next one.
            self.settle_bar();
            self.sort_in(piece);
        } else {
            self.bar.fill(0, piece);
            self.has_bar = true;
        }
    }

    /// Passes on an unfinished bar, if there is one and it is new. One that is an alarm waits for its end.
    pub fn glimpse(&mut self, cutter: &mut Cutter) {
        let mut bar = None;
        cutter.glimpse(|text| self.is_alarm(text), &mut |p| bar = Some((p.text.to_vec(), p.offset, p.len, p.no)));
        if let Some((text, offset, len, no)) = bar {
            self.take(Piece { text: &text, offset, len, no, end: End::Return });
        }
    }

    /// What is to be passed on, or `None` if there was nothing. Ready for the next file afterwards.
    pub fn finish(&mut self, file: u32, backlog: bool) -> Option<Lines> {
        self.settle_bar();
        let mut told = std::mem::take(&mut self.told);
        let noise = &self.noise[..self.noise_count.min(self.noise_room())];
        for slot in noise.iter().chain(&self.newest[..self.newest_count]) {
            told.push((slot.seq, line_of(slot.piece())));
        }
        told.sort_unstable_by_key(|(seq, _)| *seq);
        let lines = Lines {
            file,
            lines: told.into_iter().map(|(_, line)| line).collect(),
            dropped_lines: std::mem::take(&mut self.dropped_lines),
            dropped_bytes: std::mem::take(&mut self.dropped_bytes),
            folded_alarms: std::mem::take(&mut self.folded_alarms),
            alarms_left_out: std::mem::take(&mut self.alarms_left_out),
            backlog,
        };
        self.noise_count = 0;
        self.newest_count = 0;
        self.forms.clear();
        self.facts = Room::default();
        self.alarms = Room::default();
        self.errors = Room::default();
        self.seen_alarms.clear();
        let nothing = lines.lines.is_empty() && lines.dropped_lines + lines.folded_alarms + lines.alarms_left_out == 0;
        (!nothing).then_some(lines)
    }

    fn settle_bar(&mut self) {
        if std::mem::take(&mut self.has_bar) {
            let bar = std::mem::take(&mut self.bar);
            self.sort_in(bar.piece());
            self.bar = bar;
        }
    }

    fn sort_in(&mut self, piece: Piece<'_>) {
        self.seq += 1;
        // Empty lines cost memory too: very many lines are pressure however short they are.
        let pressed = self.pressure != Pressure::None || self.told.len() >= MOST_LINES;
        let class = match pressed {
            true if is_head(piece.text) => Class::Fact,
            true => (self.classify)(piece.text),
            false => Class::Fact,
        };
        match class {
            Class::Noise => self.keep_noise(piece),
            Class::Alarm => self.tell_alarm(piece),
            Class::Fact if self.is_one_more(piece.text) => self.keep_newest(piece),
            Class::Fact if pressed && self.excess == Excess::Drop && self.facts.is_full() => self.drop(piece.len),
            Class::Fact => {
                self.facts.take(piece.text);
                self.tell(piece);
            }
        }
    }

    fn tell(&mut self, piece: Piece<'_>) {
        self.told.push((self.seq, line_of(piece)));
    }

    fn tell_alarm(&mut self, piece: Piece<'_>) {
        let times = self.seen_alarms.entry(hash_of(piece.text)).or_default();
        *times = times.saturating_add(1);
        if *times > SAME_ALARM {
            self.folded_alarms += 1;
            return;
        }
        if self.excess == Excess::Drop && self.alarms.is_full() {
            // However many warnings there are, an error still has room.
            if self.errors.is_full() || is_only_warning(piece.text) {
                self.alarms_left_out += 1;
                return;
            }
            self.errors.take(piece.text);
        } else {
            self.alarms.take(piece.text);
        }
        self.tell(piece);
    }

    /// Whether enough lines of this form have been passed on: those of a flood that differ in nothing but numbers, steps and channels.
    /// Of what else NCCL prints each line may be that of another rank.
    fn is_one_more(&mut self, text: &[u8]) -> bool {
        if self.pressure != Pressure::Lasting || self.excess != Excess::Drop || counts_each(text) {
            return false;
        }
        self.form.clear();
        for byte in text {
            let byte = if byte.is_ascii_digit() { b'0' } else { *byte };
            if byte != b'0' || self.form.last() != Some(&b'0') {
                self.form.push(byte);
            }
        }
        let form = hash_of(&self.form);
        if self.forms.len() >= MOST_FORMS && !self.forms.contains_key(&form) {
            return false;
        }
        let (times, _) = self.forms.entry(form).or_default();
        *times = times.saturating_add(1);
        *times > SAME_FACT
    }

    /// Keeps a fact of the form that [`Sift::is_one_more`] has looked at, in place of the one before it.
    fn keep_newest(&mut self, piece: Piece<'_>) {
        let Some((_, place)) = self.forms.get_mut(&hash_of(&self.form)) else { return };
        let before = *place;
        let at = *place.get_or_insert(self.newest_count);
        match before {
            Some(_) => self.drop(self.newest[at].len),
            None if at == self.newest.len() => self.newest.push(Slot::default()),
            None => {}
        }
        self.newest_count = self.newest_count.max(at + 1);
        self.newest[at].fill(self.seq, piece);
    }

    fn noise_room(&self) -> usize {
        if self.pressure == Pressure::Lasting { FLOOD_NOISE } else { LAST_NOISE }
    }

    fn keep_noise(&mut self, piece: Piece<'_>) {
        let room = self.noise_room();
        let i = self.noise_count % room;
        if self.noise_count >= room {
            self.drop(self.noise[i].len);
        } else if i == self.noise.len() {
            self.noise.push(Slot::default());
        }
        self.noise[i].fill(self.seq, piece);
        self.noise_count += 1;
    }

    fn drop(&mut self, len: u64) {
        self.dropped_lines += 1;
        self.dropped_bytes += len;
    }
}

/// Whether a line is not one of hundreds of thousands of which the newest says enough: such are only those of channels and of progress.
/// Of the lines of a traceback, of a table of failures, and of what else NCCL prints, each may be that of another rank.
fn counts_each(text: &[u8]) -> bool {
    match memmem::find(text, b"NCCL ") {
        Some(at) => !text[at..].starts_with(b"NCCL INFO Channel "),
        None => !PROGRESS.is_match(text) || BLOCKS.is_match(text),
    }
}

/// `[3]:`, which begins an entry of a table of failures.
fn is_head(text: &[u8]) -> bool {
    let Some(text) = text.trim_ascii_end().strip_suffix(b"]:") else { return false };
    let digits = text.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
    digits > 0 && text[..text.len() - digits].ends_with(b"[")
}

static PROGRESS: LazyLock<Regex> = LazyLock::new(|| {
    let words = "loss|step|iter|epoch|batch|it/s|s/it|samples|throughput|train[_ ]|test: |eval|validat|acc@|loading|building|compil|checkpoint|dataset";
    Regex::new(&format!("(?i-u){words}")).expect("pattern")
});
/// Lines that readers of blocks put together.
static BLOCKS: LazyLock<Regex> = LazyLock::new(|| {
    let rows = "(?:^|  )(?:time|host|rank|exitcode|error_file|traceback) +: ";
    let lines = "File \"|The above exception was|During handling of the above|Last error:|nccl[A-Z][A-Za-z]+: ";
    Regex::new(&format!("(?-u){rows}|{lines}")).expect("pattern")
});

fn line_of(piece: Piece<'_>) -> Line {
    let mut text = String::from_utf8_lossy(piece.text).into_owned();
    // Every invalid byte has become three.
    if text.len() > LONGEST {
        let cut = (0..=LONGEST).rev().find(|i| text.is_char_boundary(*i)).unwrap_or(0);
        text.truncate(cut);
    }
    Line { no: piece.no, offset: piece.offset, text, transient: piece.end == End::Return }
}
