//! One path: what has it now, what had it before, and how reading passes from one file to the next. Never opens anything but a
//! regular file.

use super::open::{Bookmark, Chunk, Inode, Opened, Progress, Start, inode_of};
use super::sift::Sift;
use crate::base::words::io_words;
use crate::observe::Body;
use crate::observe::log::{LogFileInfo, LogFileState};
use std::collections::{HashMap, VecDeque};
use std::fs::{self, FileType, Metadata};
use std::io::{self, ErrorKind};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A deleted file is held open so long after its last byte: its disk space is not ours to keep.
const GONE_GRACE: Duration = Duration::from_secs(10);
const MOST_BOOKMARKS: usize = 4096;

/// How a path came to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// On the command line: waited for, and never given up.
    Named,
    /// In a directory or by a glob.
    Found,
    /// Behind the output of a process.
    Hinted,
}

/// Which files are read already, so that none is read twice.
#[derive(Default)]
pub(super) struct Known {
    open: HashMap<Inode, u32>,
    read: HashMap<Inode, Bookmark>,
    order: VecDeque<Inode>,
}

impl Known {
    pub fn is_open(&self, inode: Inode) -> bool {
        self.open.contains_key(&inode)
    }

    /// It was read to its end under another name and has not grown.
    pub fn is_read(&self, inode: Inode, size: u64) -> bool {
        self.read.get(&inode).is_some_and(|b| b.offset == size)
    }

    fn retire(&mut self, inode: Inode, bookmark: Option<Bookmark>) {
        self.open.remove(&inode);
        let Some(bookmark) = bookmark else { return };
        if self.read.insert(inode, bookmark).is_none() {
            self.order.push_back(inode);
        }
        if self.order.len() > MOST_BOOKMARKS
            && let Some(oldest) = self.order.pop_front()
        {
            self.read.remove(&oldest);
        }
    }
}

/// What the path leads to, compared with the file that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Same,
    Other,
    Nothing,
}

/// What a poll works with.
pub(super) struct Desk<'a> {
    pub known: &'a mut Known,
    pub chunk: &'a mut Chunk,
    pub sift: &'a mut Sift,
    pub out: &'a mut Vec<Body>,
    /// How long a line may wait for its end.
    pub unfinished_after: Duration,
}

pub(super) struct Followed {
    pub id: u32,
    pub path: PathBuf,
    pub origin: Origin,
    start: Start,
    open: Option<Opened>,
    leads_to: Path,
    /// Nothing has the path. Since then, or since the last byte that came after.
    gone_since: Option<Instant>,
    said: Option<(LogFileState, Option<String>)>,
    /// The file that was open last.
    last: Option<Inode>,
    is_news: bool,
}

impl Followed {
    pub fn new(id: u32, path: PathBuf, origin: Origin, start: Start) -> Self {
        Followed { id, path, origin, start, open: None, leads_to: Path::Same, gone_since: None, said: None, last: None, is_news: true }
    }

    /// Nothing is or will be known under this path, and nobody asked for it by name.
    pub fn is_over(&self) -> bool {
        self.open.is_none() && self.origin != Origin::Named && self.trouble().is_none()
    }

    /// True once after the path has got a file, or first had none: the moment to watch its directory.
    pub fn take_news(&mut self) -> bool {
        std::mem::take(&mut self.is_news)
    }

    pub fn trouble(&self) -> Option<&str> {
        match &self.said {
            Some((LogFileState::Failed, Some(detail))) => Some(detail),
            _ => None,
        }
    }

    /// Looks at the path and the file, and opens what can be opened. Returns how many bytes there are to read.
    pub fn look(&mut self, desk: &mut Desk<'_>) -> u64 {
        let found = fs::metadata(&self.path);
        let Some(open) = &mut self.open else {
            self.try_open(found, desk);
            return self.coming();
        };
        self.leads_to = match &found {
            Ok(meta) if inode_of(meta) == open.inode => Path::Same,
            Ok(_) => Path::Other,
            Err(err) if err.kind() == ErrorKind::NotFound => Path::Nothing,
            Err(_) => Path::Same,
        };
        match open.refresh() {
            Ok(Progress::Truncated) => self.restart(desk),
            Ok(Progress::Read(_)) => {}
            Err(err) => self.fail(&err, desk),
        }
        match self.leads_to {
            Path::Nothing if self.gone_since.is_none() => {
                self.gone_since = Some(Instant::now());
                self.say(LogFileState::Gone, None, desk.out);
            }
            Path::Same if self.gone_since.take().is_some() => self.say(LogFileState::Open, None, desk.out),
            _ => {}
        }
        self.coming()
    }

    /// Reads up to `budget` bytes.
    pub fn read(&mut self, budget: u64, desk: &mut Desk<'_>) {
        let Some(open) = &mut self.open else { return };
        if self.gone_since.is_some() {
            self.gone_since = Some(Instant::now());
        }
        match open.read(self.id, budget, desk.chunk, desk.sift, desk.out) {
            Ok(Progress::Read(_)) => {}
            Ok(Progress::Truncated) => self.restart(desk),
            Err(err) => self.fail(&err, desk),
        }
    }

    /// Passes on to the file that has the path now, once the old one is read to its end. Returns whether there is more to read at
    /// once.
    pub fn settle(&mut self, desk: &mut Desk<'_>) -> bool {
        let Some(open) = &mut self.open else { return false };
        if self.leads_to == Path::Same {
            if open.coming() == 0 {
                open.give_up_waiting(self.id, desk.unfinished_after, desk.sift, desk.out);
            }
            return open.coming() > 0;
        }
        // It may have been written to until just before it was renamed.
        if open.coming() > 0 || (open.refresh().is_ok() && open.coming() > 0) {
            return true;
        }
        match self.leads_to {
            Path::Other => {
                let found = fs::metadata(&self.path);
                if found.as_ref().is_ok_and(|meta| desk.known.is_open(inode_of(meta))) {
                    // Another path still reads it: its turn comes when that one has passed on.
                    return false;
                }
                self.close(desk);
                self.start = Start::Fresh;
                self.try_open(found, desk);
                self.coming() > 0
            }
            _ => {
                if open.links == 0 && self.gone_since.is_some_and(|since| since.elapsed() > GONE_GRACE) {
                    self.close(desk);
                }
                false
            }
        }
    }

    /// Passes the unfinished line on and lets go of the file.
    pub fn close(&mut self, desk: &mut Desk<'_>) {
        if let Some(mut open) = self.open.take() {
            open.finish(self.id, desk.sift, desk.out);
            // The number of a deleted file is free for another one.
            desk.known.retire(open.inode, (open.links > 0).then(|| open.bookmark()));
        }
    }

    /// Passes the unfinished line on.
    pub fn finish(&mut self, desk: &mut Desk<'_>) {
        if let Some(open) = &mut self.open {
            open.finish(self.id, desk.sift, desk.out);
        }
    }

    fn coming(&self) -> u64 {
        self.open.as_ref().map_or(0, Opened::coming)
    }

    fn try_open(&mut self, found: io::Result<Metadata>, desk: &mut Desk<'_>) {
        let meta = match found {
            Ok(meta) => meta,
            Err(err) if err.kind() == ErrorKind::NotFound => {
                let detail = "no such file yet; it will be followed when it appears";
                if self.last.is_none() {
                    self.start = Start::Fresh;
                    match self.origin {
                        Origin::Named => self.say(LogFileState::Gone, Some(detail.into()), desk.out),
                        Origin::Found | Origin::Hinted => self.said = None,
                    }
                } else if !matches!(self.said, Some((LogFileState::Gone, _))) {
                    self.say(LogFileState::Gone, None, desk.out);
                }
                return;
            }
            Err(err) => return self.say(LogFileState::Failed, Some(io_words(&err)), desk.out),
        };
        if !meta.is_file() {
            let detail = format!("{}, not a regular file; not opened", kind_of(meta.file_type()));
            return self.say(LogFileState::Failed, Some(detail), desk.out);
        }
        let inode = inode_of(&meta);
        if desk.known.is_open(inode) {
            return;
        }
        match Opened::open(&self.path, &meta, self.start) {
            Ok(mut open) => {
                if let Some(bookmark) = desk.known.read.remove(&inode) {
                    desk.known.order.retain(|i| *i != inode);
                    open.resume(bookmark);
                }
                desk.known.open.insert(inode, self.id);
                let state = if self.last.is_some_and(|last| last != inode) { LogFileState::Rotated } else { LogFileState::Open };
                self.open = Some(open);
                self.is_news = true;
                self.leads_to = Path::Same;
                self.last = Some(inode);
                self.gone_since = None;
                self.said = None;
                self.say(state, None, desk.out);
            }
            // Something else took the path in between: the next look decides.
            Err(err) if err.kind() == ErrorKind::Interrupted => {}
            Err(err) => self.say(LogFileState::Failed, Some(io_words(&err)), desk.out),
        }
    }

    fn restart(&mut self, desk: &mut Desk<'_>) {
        if let Some(open) = &mut self.open {
            open.restart(self.id, desk.sift, desk.out);
            self.said = None;
            self.say(LogFileState::Truncated, None, desk.out);
        }
    }

    fn fail(&mut self, err: &io::Error, desk: &mut Desk<'_>) {
        self.close(desk);
        self.say(LogFileState::Failed, Some(io_words(err)), desk.out);
    }

    /// Reports how the file is, unless that is what was reported last.
    fn say(&mut self, state: LogFileState, detail: Option<String>, out: &mut Vec<Body>) {
        let news = (state, detail);
        if self.said.as_ref() == Some(&news) {
            return;
        }
        let open = self.open.as_ref().filter(|_| state != LogFileState::Gone);
        out.push(Body::LogFile(LogFileInfo {
            file: self.id,
            path: self.path.display().to_string(),
            state,
            inode: open.map(|o| o.inode.1),
            device: open.map(|o| o.inode.0),
            size_bytes: open.map(|o| o.size),
            modified_ns: open.map(Opened::modified_ns),
            skipped_bytes: open.and_then(Opened::skipped_bytes),
            detail: news.1.clone(),
            archived: false,
        }));
        self.said = Some(news);
    }
}

fn kind_of(kind: FileType) -> &'static str {
    if kind.is_fifo() {
        "a FIFO"
    } else if kind.is_socket() {
        "a socket"
    } else if kind.is_dir() {
        "a directory"
    } else {
        "a device"
    }
}
