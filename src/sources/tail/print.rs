//! What is remembered of the content of a file that is or was followed, so that a copy of it is not read again.

use super::cut::Cutter;
use super::open::{Mark, Opened};
use std::collections::VecDeque;
use std::path::{Path, PathBuf};

/// So many of a file's first bytes are remembered.
pub(super) const HEAD_PRINT: usize = 512;
/// Fewer bytes than this are no proof that one file is the copy of another.
pub(super) const LEAST_PROOF: usize = 32;
/// So many places up to which it was read.
const MOST_MARKS: usize = 64;

/// The beginning of a file, and how far it was read.
#[derive(Clone)]
pub(super) struct Print {
    /// Who reads it.
    pub id: u32,
    /// Where it was when it was opened.
    pub path: PathBuf,
    /// Its path has passed on to another file.
    pub left_behind: bool,
    pub head: Vec<u8>,
    size: u64,
    offset: u64,
    marks: VecDeque<Mark>,
    /// Where the line begins that was read in part. A copy has all of it.
    begun: Option<u64>,
    no: Option<u64>,
}

impl Print {
    pub fn new(id: u32, path: PathBuf) -> Self {
        Print { id, path, left_behind: false, head: Vec::new(), size: 0, offset: 0, marks: VecDeque::new(), begun: None, no: None }
    }

    /// The file was truncated. What was known of it comes back.
    pub fn begin_anew(&mut self) -> Print {
        let empty = Print { left_behind: self.left_behind, ..Print::new(self.id, self.path.clone()) };
        std::mem::replace(self, empty)
    }

    /// It was read up to `mark`. `begun`: where the unfinished line begins.
    pub fn note(&mut self, size: u64, mark: Mark, begun: Option<u64>, no: Option<u64>) {
        (self.size, self.offset, self.begun, self.no) = (size, mark.offset, begun, no);
        if mark.is_proof() && self.marks.back().is_none_or(|last| last.offset < mark.offset) {
            self.marks.push_back(mark);
        }
        if self.marks.len() > MOST_MARKS {
            self.marks.pop_front();
        }
    }

    /// Whether what has that path may be a copy: named after this one, or put in its place.
    pub fn may_be_at(&self, path: &Path, size: u64) -> bool {
        // A new log under the old name often begins as the one before did: only all of it is proof.
        if path == self.path { self.head.len() == HEAD_PRINT && size >= self.offset } else { is_named_after(path, &self.path) }
    }

    /// Whether `other` begins as this one did, as far as both go.
    pub fn begins_like(&self, other: &Opened) -> bool {
        let common = usize::try_from(other.size).map_or(self.head.len(), |size| size.min(self.head.len()));
        !self.head.is_empty() && other.begins_with(&self.head[..common])
    }

    /// Whether `other` holds what was read here, or the beginning of it.
    pub fn is_in(&self, other: &Opened) -> bool {
        if other.size < LEAST_PROOF as u64 || self.head.len() < LEAST_PROOF || !self.begins_like(other) {
            return false;
        }
        if other.size <= self.head.len() as u64 {
            return true;
        }
        match self.marks.iter().rev().find(|mark| mark.offset <= other.size) {
            Some(mark) => other.has(mark),
            None => self.head.len() == HEAD_PRINT,
        }
    }

    /// How far it was read.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// It has at least as much as a copy of that size.
    pub fn has(&self, size: u64) -> bool {
        size <= self.size
    }

    /// Where reading goes on in a copy of that size.
    pub fn rest(&self, size: u64) -> (u64, Cutter) {
        let from = self.begun.unwrap_or(self.offset);
        if size < from { (size, Cutter::at_line(size, None)) } else { (from, Cutter::at_line(from, self.no)) }
    }
}

/// `app.log.1`, `app.log-20261122`, `app-20261122.log`, `app.old` of `app.log`.
pub(super) fn is_named_after(path: &Path, original: &Path) -> bool {
    let (Some(name), Some(of)) = (path.file_name().and_then(|n| n.to_str()), original.file_name().and_then(|n| n.to_str())) else {
        return false;
    };
    let stem = of.rsplit_once('.').map_or(of, |(stem, _)| stem);
    let stem = if stem.is_empty() { of } else { stem };
    let rest = name.strip_prefix(stem).unwrap_or("x");
    name != of && !of.starts_with(name) && !rest.starts_with(char::is_alphanumeric)
}
