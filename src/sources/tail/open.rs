//! One open file: reads what is new, and notices when the bytes before it are no longer the ones that were read.

use super::cut::{Cutter, hash_of};
use super::print::{HEAD_PRINT, Print};
use super::sift::{Flow, Sift};
use crate::observe::Body;
use std::fs::{File, Metadata, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Of a big file these parts are read: its head, because the bring-up stands there, and its end.
const HEAD_BYTES: u64 = 1 << 20;
const END_BYTES: u64 = 4 << 20;
/// So many of the last bytes read are remembered, to recognise the file.
const MARK_BYTES: usize = 256;
const CHUNK_BYTES: usize = 256 << 10;

/// What a file is, whatever its name.
pub(super) type Inode = (u64, u64);

pub(super) fn inode_of(meta: &Metadata) -> Inode {
    (meta.dev(), meta.ino())
}

/// Which part of a file is read when it is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    /// All of it; it was written while we looked on.
    Fresh,
    /// All of it; it was there before.
    Whole,
    /// It was there before; of a big file only the head and the end.
    Parts,
    /// What it has more than the file of which it is a copy; nothing, if it is none.
    Copy,
}

/// How far a file was read that is no longer followed under the name it had. It may turn up under another one.
pub(super) struct Bookmark {
    offset: u64,
    modified_ns: i64,
    no: Option<u64>,
    mark: Vec<u8>,
}

impl Bookmark {
    /// The file is as it was when it was let go. Its number alone does not say so: that of a deleted file is given to another one.
    pub fn is_at_end_of(&self, meta: &Metadata) -> bool {
        self.offset == meta.len() && self.modified_ns == modified_ns(meta)
    }
}

/// A place up to which a file was read, with the hash of so many bytes before it.
#[derive(Clone)]
pub(super) struct Mark {
    pub offset: u64,
    len: usize,
    hash: u64,
}

impl Mark {
    /// Long enough to tell one place from another.
    pub fn is_proof(&self) -> bool {
        self.len >= 64 || self.len as u64 == self.offset
    }
}

/// The buffer all files are read through.
pub(super) struct Chunk(Vec<u8>);

impl Chunk {
    pub fn new() -> Self {
        Chunk(vec![0; MARK_BYTES + CHUNK_BYTES])
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// So many bytes were read.
    Read(u64),
    /// The file is shorter than it was, or holds something else where we were: reading starts again.
    Truncated,
}

pub(super) struct Opened {
    file: File,
    pub inode: Inode,
    pub size: u64,
    pub links: u64,
    modified_ns: i64,
    /// When it was made, where the file system knows.
    pub made: Option<SystemTime>,
    offset: u64,
    cutter: Cutter,
    flow: Flow,
    mark: Vec<u8>,
    /// What was skipped stands in another file.
    is_copy: bool,
    /// From where to where the middle is left out.
    jump: Option<(u64, u64)>,
    backlog_until: u64,
    /// When bytes last came.
    read_at: Instant,
}

impl Opened {
    /// Opens the regular file that `seen` describes. Never waits and never takes over a terminal, whatever the path has become.
    pub fn open(path: &Path, seen: &Metadata, start: Start) -> io::Result<Self> {
        let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
        let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
        let meta = file.metadata()?;
        if !meta.is_file() || inode_of(&meta) != inode_of(seen) {
            return Err(io::Error::new(io::ErrorKind::Interrupted, "another file took its place"));
        }
        let size = meta.len();
        let jump = (start == Start::Parts && size > HEAD_BYTES + END_BYTES).then(|| (HEAD_BYTES, size - END_BYTES));
        Ok(Opened {
            file,
            inode: inode_of(&meta),
            size,
            links: meta.nlink(),
            modified_ns: modified_ns(&meta),
            made: meta.created().ok(),
            offset: 0,
            cutter: Cutter::at_line(0, Some(1)),
            flow: Flow::default(),
            mark: Vec::new(),
            is_copy: false,
            jump,
            backlog_until: if matches!(start, Start::Fresh | Start::Copy) { 0 } else { size },
            read_at: Instant::now(),
        })
    }

    pub fn skipped_bytes(&self) -> Option<u64> {
        self.jump.map(|(from, to)| to - from)
    }

    pub fn modified_ns(&self) -> i64 {
        self.modified_ns
    }

    pub fn made_ns(&self) -> Option<i64> {
        let since_epoch = self.made?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(since_epoch.as_nanos()).ok()
    }

    /// Goes on where a bookmark was left, if the file still has the bytes before it. Returns whether it has.
    pub fn resume(&mut self, bookmark: Bookmark) -> bool {
        // An empty mark proves nothing.
        if bookmark.mark.is_empty() || !self.has_mark(&bookmark.mark, bookmark.offset) {
            return false;
        }
        self.offset = bookmark.offset;
        self.cutter = Cutter::at_line(bookmark.offset, bookmark.no);
        self.mark = bookmark.mark;
        self.jump = None;
        true
    }

    pub fn bookmark(&self) -> Bookmark {
        Bookmark { offset: self.offset, modified_ns: self.modified_ns, no: self.cutter.no(), mark: self.mark.clone() }
    }

    /// Goes on behind what another file had, of which this one is a copy.
    pub fn skip_copied(&mut self, print: &Print) {
        // Its original is truncated when the copy is whole, which it need not have been when it was opened.
        self.size = self.file.metadata().map_or(self.size, |meta| meta.len().max(self.size));
        (self.offset, self.cutter) = print.rest(self.size);
        // Without a mark nobody would notice that the copy is overwritten.
        let mut mark = vec![0; usize::try_from(self.offset).map_or(MARK_BYTES, |n| n.min(MARK_BYTES))];
        let from = self.offset - mark.len() as u64;
        let is_read = self.file.read_exact_at(&mut mark, from).is_ok();
        self.mark = if is_read { mark } else { Vec::new() };
        self.is_copy = true;
        self.jump = None;
    }

    /// It is a copy of what was read, and no more.
    pub fn is_copied_whole(&self) -> bool {
        self.is_copy && self.offset > 0 && self.offset == self.size
    }

    /// Keeps in `print` how far this file was read.
    pub fn note_in(&self, print: &mut Print) {
        if print.head.len() < HEAD_PRINT && self.offset > print.head.len() as u64 {
            let mut head = vec![0; usize::try_from(self.offset).map_or(HEAD_PRINT, |read| read.min(HEAD_PRINT))];
            if self.file.read_exact_at(&mut head, 0).is_ok() {
                print.head = head;
            }
        }
        let unfinished = self.cutter.unfinished();
        let begun = (!unfinished.is_empty()).then(|| self.cutter.start());
        let mark = Mark { offset: self.offset, len: self.mark.len(), hash: hash_of(&self.mark) };
        print.note(self.size, mark, begun, self.cutter.no());
    }

    /// Whether the bytes before a place that another file was read up to are the same here.
    pub fn has(&self, mark: &Mark) -> bool {
        let mut there = vec![0; mark.len];
        self.file.read_exact_at(&mut there, mark.offset - mark.len as u64).is_ok() && hash_of(&there) == mark.hash
    }

    /// Whether the file begins with these bytes.
    pub fn begins_with(&self, head: &[u8]) -> bool {
        let mut there = [0; HEAD_PRINT];
        let there = &mut there[..head.len().min(HEAD_PRINT)];
        self.file.read_exact_at(there, 0).is_ok() && there == head
    }

    /// The name that the open file has now, or had last.
    pub fn present_path(&self) -> Option<PathBuf> {
        std::fs::read_link(format!("/proc/self/fd/{}", self.file.as_raw_fd())).ok()
    }

    /// Looks at the file again. `Truncated` if what was read is gone; `head` is what it began with.
    pub fn refresh(&mut self, head: &[u8]) -> io::Result<Progress> {
        let meta = self.file.metadata()?;
        let touched = self.modified_ns != modified_ns(&meta);
        self.size = meta.len();
        self.links = meta.nlink();
        self.modified_ns = modified_ns(&meta);
        let end_is_gone = self.jump.is_some_and(|(_, to)| self.size < to);
        // What stands before the offset may be the same by chance, as in a row of dashes: then the beginning is not.
        let is_same = || self.has_mark(&self.mark, self.offset) && self.begins_with(head);
        let is_other = end_is_gone || self.size < self.offset || (touched && !is_same());
        Ok(if is_other { Progress::Truncated } else { Progress::Read(0) })
    }

    /// Bytes that can be read now.
    pub fn coming(&self) -> u64 {
        let middle = self.jump.map_or(0, |(from, to)| to - from);
        self.size.saturating_sub(self.offset).saturating_sub(middle)
    }

    /// Reads up to `budget` bytes and passes their lines on.
    pub fn read(&mut self, file: u32, budget: u64, chunk: &mut Chunk, sift: &mut Sift, out: &mut Vec<Body>) -> io::Result<Progress> {
        let coming = self.coming();
        let pressure = self.flow.meets(if self.offset < self.backlog_until { 0 } else { coming }, Instant::now());
        let (mut left, mut outcome) = (budget, Ok(Progress::Read(0)));
        let first = self.offset;
        while left > 0 && self.offset < self.size {
            let backlog = self.offset < self.backlog_until;
            // What was there before is read fast, and is no flood.
            if backlog {
                sift.begin(coming);
            } else {
                sift.begin_under(pressure);
            }
            let stop = self.stop().min(self.offset.saturating_add(left));
            let before = self.offset;
            outcome = self.read_to(stop, chunk, sift);
            let read = self.offset - before;
            left -= read.min(left);
            let pause = sift.is_full();
            if self.offset == self.size {
                sift.glimpse(&mut self.cutter);
            }
            self.jump_if_due();
            out.extend(sift.finish(file, backlog).map(Body::Lines));
            if read == 0 || pause || !matches!(outcome, Ok(Progress::Read(_))) {
                break;
            }
        }
        let outcome = outcome?;
        if outcome == Progress::Read(0) && self.offset == first {
            // Files of sysfs say that they are longer than they are.
            self.size = self.offset;
        }
        Ok(outcome)
    }

    /// Starts again at the beginning of a file that was truncated. An unfinished line is forgotten, because nobody knows how it went
    /// on, unless it is an alarm already.
    pub fn restart(&mut self, file: u32, sift: &mut Sift, out: &mut Vec<Body>) {
        if sift.is_alarm(self.cutter.unfinished()) {
            self.finish(file, sift, out);
        }
        self.jump = None;
        self.is_copy = false;
        self.backlog_until = 0;
        self.mark.clear();
        // A writer that does not append leaves a hole where the text was cut off: nothing to read there.
        let data = rustix::fs::seek(&self.file, rustix::fs::SeekFrom::Data(0)).unwrap_or(0);
        self.offset = data.min(self.size);
        self.cutter = Cutter::at_line(self.offset, Some(1));
    }

    /// Nothing of it is read yet, nor is a hole passed over.
    pub fn is_at_start(&self) -> bool {
        self.offset == 0
    }

    pub fn has_unfinished(&self) -> bool {
        !self.cutter.unfinished().is_empty()
    }

    /// The end of a line has not come for that long.
    pub fn waits_longer_than(&self, pause: Duration) -> bool {
        self.has_unfinished() && self.read_at.elapsed() >= pause
    }

    /// Passes on the line whose end has not come.
    pub fn give_up_waiting(&mut self, file: u32, sift: &mut Sift, out: &mut Vec<Body>) {
        sift.begin(0);
        let backlog = self.offset <= self.backlog_until;
        self.cutter.give_up_waiting(&mut |piece| sift.take(piece));
        out.extend(sift.finish(file, backlog).map(Body::Lines));
    }

    /// Passes the unfinished line on: the file is given up.
    pub fn finish(&mut self, file: u32, sift: &mut Sift, out: &mut Vec<Body>) {
        sift.begin(0);
        let backlog = self.offset <= self.backlog_until;
        self.cutter.finish(&mut |piece| sift.take(piece));
        out.extend(sift.finish(file, backlog).map(Body::Lines));
    }

    fn stop(&self) -> u64 {
        match self.jump {
            Some((from, _)) => from,
            None if self.offset < self.backlog_until => self.backlog_until.min(self.size),
            None => self.size,
        }
    }

    fn jump_if_due(&mut self) {
        if let Some((from, to)) = self.jump
            && self.offset == from
        {
            self.jump = None;
            // From the byte before: if that is a line end, the line at `to` is whole.
            self.offset = to - 1;
            self.cutter = Cutter::inside_line(self.offset);
            self.mark.clear();
        }
    }

    fn read_to(&mut self, stop: u64, chunk: &mut Chunk, sift: &mut Sift) -> io::Result<Progress> {
        let begin = self.offset;
        let mut before = self.mark.len();
        while self.offset < stop && !sift.is_full() {
            let room = before + usize::try_from(stop - self.offset).map_or(CHUNK_BYTES, |n| n.min(CHUNK_BYTES));
            let got = match self.file.read_at(&mut chunk.0[..room], self.offset - before as u64) {
                Err(err) if err.kind() == io::ErrorKind::Interrupted => continue,
                got => got?,
            };
            let bytes = &chunk.0[..got];
            // The bytes that were read last are read again with the first chunk: if they differ, the file was truncated and has
            // grown beyond our place since.
            if got < before || bytes[..before] != self.mark[self.mark.len() - before..] {
                return Ok(Progress::Truncated);
            }
            let new = &bytes[before..];
            if new.is_empty() {
                break;
            }
            self.cutter.feed(new, &mut |piece| sift.take(piece));
            self.read_at = Instant::now();
            self.offset += new.len() as u64;
            remember(&mut self.mark, new);
            before = 0;
        }
        debug_assert_eq!(self.cutter.at(), self.offset);
        Ok(Progress::Read(self.offset - begin))
    }

    fn has_mark(&self, mark: &[u8], offset: u64) -> bool {
        let mut there = vec![0; mark.len()];
        offset >= mark.len() as u64 && self.file.read_exact_at(&mut there, offset - mark.len() as u64).is_ok() && there == mark
    }
}

pub(super) fn modified_ns(meta: &Metadata) -> i64 {
    meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec())
}

fn remember(mark: &mut Vec<u8>, new: &[u8]) {
    if new.len() >= MARK_BYTES {
        mark.clear();
        mark.extend_from_slice(&new[new.len() - MARK_BYTES..]);
    } else {
        let surplus = (mark.len() + new.len()).saturating_sub(MARK_BYTES);
        mark.drain(..surplus);
        mark.extend_from_slice(new);
    }
}
