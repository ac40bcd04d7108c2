//! Cuts a stream of bytes into lines, chunk by chunk. Reads nothing itself and keeps at most one line.

use memchr::{memchr, memchr2};
use std::hash::{DefaultHasher, Hash, Hasher};

/// A line is cut here; the rest of it is read and forgotten.
pub(super) const LONGEST: usize = 64 << 10;

/// What ended a piece of text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// `\n`, `\r\n`, or the end of a file that will not grow any more.
    Line,
    /// `\r`: the next piece overwrites this one.
    Return,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Piece<'a> {
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

pub(super) struct Cutter {
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
    /// bar, so the newest bar never has an end. The piece stays and is told again when a `\n` completes it.
    ///
    /// One that `refuse` accepts is not shown before it is complete, so that it is never told twice.
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

    /// Nothing has come for a while, and perhaps nothing will: tells the unfinished piece as one that may be overwritten. What comes
    /// later is another piece of the same line.
    pub fn give_up_waiting(&mut self, sink: &mut impl FnMut(Piece<'_>)) {
        if !self.returned && !is_blank(&self.kept) {
            self.end(End::Return, None, sink);
        }
    }

    /// There will be no more bytes: tells the unfinished piece.
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

pub(super) fn hash_of(text: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    type Told = (String, u64, Option<u64>, End);

    fn tell(out: &mut Vec<Told>) -> impl FnMut(Piece<'_>) {
        |p| out.push((String::from_utf8_lossy(p.text).into_owned(), p.offset, p.no, p.end))
    }

    /// Feeds `text` whole and byte by byte; both must tell the same.
    fn cut(text: &[u8]) -> Vec<Told> {
        let (mut whole, mut bytewise) = (Vec::new(), Vec::new());
        Cutter::at_line(0, Some(1)).feed(text, &mut tell(&mut whole));
        let mut cutter = Cutter::at_line(0, Some(1));
        for b in text {
            cutter.feed(&[*b], &mut tell(&mut bytewise));
        }
        assert_eq!(whole, bytewise);
        whole
    }

    fn line(text: &str, offset: u64, no: u64) -> Told {
        (text.into(), offset, Some(no), End::Line)
    }

    fn bar(text: &str, offset: u64, no: u64) -> Told {
        (text.into(), offset, Some(no), End::Return)
    }

    #[test]
    fn lines_are_numbered_and_carry_their_offset() {
        assert_eq!(cut(b"one\n\nthree\r\nfour"), [line("one", 0, 1), line("", 4, 2), line("three", 5, 3)]);
    }

    #[test]
    fn pieces_of_one_physical_line_share_its_number() {
        assert_eq!(cut(b"\r10%\r20%\r30%\nnext\n"), [bar("10%", 1, 1), bar("20%", 5, 1), line("30%", 9, 1), line("next", 13, 2)]);
    }

    #[test]
    fn a_wiped_bar_is_nothing() {
        assert_eq!(cut(b"\r10%\r      \rmessage\n\r\x1b[K\r20%\r "), [bar("10%", 1, 1), line("message", 12, 1), bar("20%", 25, 2)]);
    }

    #[test]
    fn a_line_end_may_have_several_returns() {
        assert_eq!(cut(b"one\r\r\ntwo\r\n"), [line("one", 0, 1), line("two", 6, 2)]);
    }

    #[test]
    fn nul_bytes_vanish_wherever_they_are() {
        assert_eq!(cut(b"a\0b\n\0\0Traceback\nx\r\0\n"), [line("ab", 0, 1), line("Traceback", 4, 2), line("x", 16, 3)]);
    }

    #[test]
    fn a_long_line_is_cut_and_its_successor_is_whole() {
        let mut text = vec![b'x'; LONGEST + 10];
        text.extend_from_slice(b"\nnext\n");
        let told = cut(&text);
        assert_eq!(told[0].0.len(), LONGEST);
        assert_eq!(told[1], line("next", LONGEST as u64 + 11, 2));
    }

    #[test]
    fn a_bar_without_end_is_shown_once_and_told_again_when_complete() {
        let mut out = Vec::new();
        let mut cutter = Cutter::at_line(0, Some(1));
        cutter.feed(b"\r10%", &mut tell(&mut out));
        cutter.glimpse(|_| false, &mut tell(&mut out));
        cutter.glimpse(|_| false, &mut tell(&mut out));
        assert_eq!(out, [bar("10%", 1, 1)]);
        cutter.feed(b" done\n", &mut tell(&mut out));
        assert_eq!(out[1..], [line("10% done", 1, 1)]);
    }

    #[test]
    fn a_bar_that_was_shown_is_not_told_again_by_its_return() {
        let mut out = Vec::new();
        let mut cutter = Cutter::at_line(0, Some(1));
        cutter.feed(b"\r10%", &mut tell(&mut out));
        cutter.glimpse(|_| false, &mut tell(&mut out));
        cutter.feed(b"\r20%", &mut tell(&mut out));
        cutter.glimpse(|_| false, &mut tell(&mut out));
        assert_eq!(out, [bar("10%", 1, 1), bar("20%", 5, 1)]);
    }

    #[test]
    fn a_line_whose_end_does_not_come_is_told_once_and_its_rest_later() {
        let mut cutter = Cutter::at_line(0, Some(1));
        let mut told = Vec::new();
        cutter.feed(b"ValueError: b", &mut tell(&mut told));
        cutter.give_up_waiting(&mut tell(&mut told));
        cutter.give_up_waiting(&mut tell(&mut told));
        cutter.feed(b"ad\nnext\n", &mut tell(&mut told));
        assert_eq!(told, [bar("ValueError: b", 0, 1), line("ad", 13, 1), line("next", 16, 2)]);
    }

    #[test]
    fn what_is_refused_waits_for_its_end() {
        let mut out = Vec::new();
        let mut cutter = Cutter::at_line(0, Some(1));
        cutter.feed(b"\r10% WARN", &mut tell(&mut out));
        cutter.glimpse(|_| true, &mut tell(&mut out));
        assert_eq!(out, []);
        cutter.finish(&mut tell(&mut out));
        assert_eq!(out, [bar("10% WARN", 1, 1)]);
    }

    #[test]
    fn reading_that_begins_inside_a_line_begins_with_the_next_one() {
        let mut out = Vec::new();
        let mut cutter = Cutter::inside_line(100);
        cutter.feed(b"torn\nwhole\n", &mut tell(&mut out));
        assert_eq!(out, [("whole".to_string(), 105, None, End::Line)]);
    }
}
