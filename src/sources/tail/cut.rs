//! Cuts a stream of bytes into lines, chunk by chunk. Reads nothing itself and keeps at most one line.

use memchr::{memchr, memchr2};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A line is cut here; the rest of it is read and forgotten.
pub const LONGEST: usize = 64 << 10;

/// What ended a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// `\n`, `\r\n`, or the end of a file that will not grow any more.
    Line,
    /// `\r`: the next piece overwrites this one.
    Return,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece<'a> {
    /// Without NUL and line end, cut at [`LONGEST`].
    pub text: &'a [u8],
    pub offset: u64,
    /// Bytes in the file, with the line end.
    pub len: u64,
    pub no: Option<u64>,
    pub end: End,
}

/// Where the piece that is being read began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Began {
    /// After `\n` or at the start of the file.
    Line,
    /// After `\r`: it redraws a line.
    Return,
    /// Somewhere inside a line: it is worth nothing.
    Inside,
}

pub struct Cutter {
    /// Offset of the next byte.
    at: u64,
    /// Offset at which the current piece began.
    start: u64,
    no: Option<u64>,
    began: Began,
    /// The current piece as far as earlier chunks had it.
    kept: Vec<u8>,
    /// `\r` came after the piece. Whether it ends a line or redraws it is known with the next byte.
    returned: bool,
    /// What was last shown of an unfinished piece.
    shown: Option<u64>,
}

impl Cutter {
    /// The next byte fed is the first of line `no`, at `offset`.
    pub fn at_line(offset: u64, no: Option<u64>) -> Self {
        Cutter { at: offset, start: offset, no, began: Began::Line, kept: Vec::new(), returned: false, shown: None }
    }

    /// The next byte fed, at `offset`, belongs to a line whose start was not read.
    pub fn inside_line(offset: u64) -> Self {
        Cutter { began: Began::Inside, ..Cutter::at_line(offset, None) }
    }

    /// Offset of the next byte.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// Offset at which the piece began that is not finished.
    pub fn start(&self) -> u64 {
        self.start
    }

    /// Number of the line that the next byte belongs to.
    pub fn no(&self) -> Option<u64> {
        self.no
    }

    pub fn feed(&mut self, chunk: &[u8], sink: &mut impl FnMut(Piece<'_>)) {
        let has_nul = memchr(0, chunk).is_some();
        let mut rest = chunk;
        while let Some(&first) = rest.first() {
            if self.returned {
                match first {
                    b'\n' => {
                        self.advance(1);
                        self.end(End::Line, None, sink);
                    }
                    // `\r\r\n` is what two terminals in a row make of a line end.
                    b'\r' | 0 => self.advance(1),
                    _ => {
                        self.end(End::Return, None, sink);
                        continue;
                    }
                }
                rest = &rest[1..];
                continue;
            }
            let Some(i) = memchr2(b'\n', b'\r', rest) else {
                self.keep(rest, has_nul);
                self.advance(rest.len());
                return;
            };
            let (text, after) = (&rest[..i], &rest[i + 1..]);
            self.advance(i + 1);
            if rest[i] == b'\r' {
                self.keep(text, has_nul);
                self.returned = true;
            } else if self.kept.is_empty() && !has_nul {
                self.end(End::Line, Some(text), sink);
            } else {
                self.keep(text, has_nul);
                self.end(End::Line, None, sink);
            }
            rest = after;
        }
    }

    /// Shows an unfinished piece if it is a redrawn line and differs from what was shown before: tqdm writes `\r` in front of its
    /// bar, so the newest bar never has an end. The piece stays and is passed on again when a `\n` completes it.
    ///
    /// One that `refuse` accepts is not shown before it is complete, so that it is never passed on twice.
    pub fn glimpse(&mut self, refuse: impl Fn(&[u8]) -> bool, sink: &mut impl FnMut(Piece<'_>)) {
        let redrawn = self.returned || self.began == Began::Return;
        if !redrawn || self.began == Began::Inside || is_blank(&self.kept) || refuse(&self.kept) {
            return;
        }
        let hash = hash_of(&self.kept);
        if self.shown != Some(hash) {
            self.shown = Some(hash);
            sink(Piece { text: &self.kept, offset: self.start, len: self.at - self.start, no: self.no, end: End::Return });
        }
    }

    /// Nothing has come for a while, and perhaps nothing will: passes the unfinished piece on as one that may be overwritten. What comes
    /// later is another piece of the same line.
    pub fn give_up_waiting(&mut self, sink: &mut impl FnMut(Piece<'_>)) {
        if !self.returned && !is_blank(&self.kept) {
            self.end(End::Return, None, sink);
        }
    }

    /// There will be no more bytes: passes the unfinished piece on.
    pub fn finish(&mut self, sink: &mut impl FnMut(Piece<'_>)) {
        let end = if self.returned || self.began == Began::Return { End::Return } else { End::Line };
        if !self.kept.is_empty() {
            self.end(end, None, sink);
        }
        self.kept = Vec::new();
    }

    /// The unfinished piece.
    pub fn unfinished(&self) -> &[u8] {
        if self.began == Began::Inside { &[] } else { &self.kept }
    }

    fn advance(&mut self, n: usize) {
        self.at += n as u64;
    }

    fn keep(&mut self, text: &[u8], has_nul: bool) {
        if self.began == Began::Inside {
            return;
        }
        if !has_nul {
            let room = LONGEST - self.kept.len();
            self.kept.extend_from_slice(&text[..text.len().min(room)]);
            return;
        }
        for part in text.split(|b| *b == 0).filter(|p| !p.is_empty()) {
            self.keep(part, false);
        }
    }

    fn end(&mut self, end: End, whole: Option<&[u8]>, sink: &mut impl FnMut(Piece<'_>)) {
        let text = whole.unwrap_or(&self.kept);
        let text = &text[..text.len().min(LONGEST)];
        let wanted = match (self.began, end) {
            (Began::Inside, _) => false,
            (_, End::Line) => true,
            (_, End::Return) => !is_blank(text) && self.shown.is_none_or(|shown| shown != hash_of(text)),
        };
        if wanted {
            sink(Piece { text, offset: self.start, len: self.at - self.start, no: self.no, end });
        }
        self.start = self.at;
        self.returned = false;
        self.shown = None;
        self.kept.clear();
        if self.kept.capacity() > 4096 {
            self.kept = Vec::new();
        }
        match end {
            End::Line => {
                self.began = Began::Line;
                self.no = self.no.map(|no| no + 1);
            }
            End::Return => self.began = Began::Return,
        }
    }
}

/// Nothing that a terminal would show: a bar that was wiped, by spaces or by `ESC[K`.
fn is_blank(mut text: &[u8]) -> bool {
    loop {
        text = text.trim_ascii_start();
        let Some(sequence) = text.strip_prefix(b"\x1b[") else { return text.is_empty() };
        let Some(last) = sequence.iter().position(|b| (0x40..=0x7e).contains(b)) else { return false };
        text = &sequence[last + 1..];
    }
}

pub fn hash_of(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}
