//! One path: what has it now, what had it before, and how reading passes from one file to the next. Never opens anything but a
//! regular file.

use super::open::{Bookmark, Chunk, Inode, Opened, Progress, Start, inode_of};
use super::print::{HEAD_PRINT, LEAST_PROOF, Print, is_named_after};
use super::sift::Sift;
use crate::base::words::io_words;
use crate::observe::Body;
use crate::observe::log::{LogFileInfo, LogFileState};
use std::collections::{HashMap, VecDeque};
use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::time::{Duration, Instant, SystemTime};

const MOST_BOOKMARKS: usize = 4096;
/// Contents of files that were truncated, deleted or let go, and of which a copy may turn up.
const MOST_PRINTS: usize = 256;

/// How long a file that has lost its path is read after its last byte, unless somebody still has it open for writing.
#[derive(Clone, Copy)]
pub(super) struct Patience {
    pub renamed: Duration,
    /// The disk space of a deleted file is not ours to keep.
    pub deleted: Duration,
}

/// How a path came to be followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// On the command line: waited for, and never given up.
    Named,
    /// In a directory or by a glob.
    Found,
    /// Behind the output of a process.
    Hinted,
    /// It has lost the path that it was followed under, and may still be written to.
    LeftBehind,
}

/// Which files are read already, so that none is read twice.
#[derive(Default)]
pub(super) struct Known {
    open: HashMap<Inode, Print>,
    read: HashMap<Inode, Bookmark>,
    order: VecDeque<Inode>,
    past: VecDeque<Print>,
}

/// What a file that is new has in common with one that is known.
enum Copied {
    Nothing,
    /// All of it stands in a file that is being read. It may be a copy that is not finished.
    All,
    /// It has what was read of that one.
    From(Print),
}

impl Known {
    pub fn is_open(&self, inode: Inode) -> bool {
        self.open.contains_key(&inode)
    }

    /// It was read to its end under another name and has not changed.
    pub fn is_read(&self, meta: &Metadata) -> bool {
        self.read.get(&inode_of(meta)).is_some_and(|b| b.is_at_end_of(meta))
    }

    /// Who reads a file that has lost its path.
    pub fn left_behind(&self, inode: Inode) -> Option<u32> {
        self.open.get(&inode).filter(|print| print.left_behind).map(|print| print.id)
    }

    /// Whether something of a file that was truncated or let go was not read, and is in this copy.
    fn copied(&self, path: &std::path::Path, open: &Opened) -> Copied {
        let is_copy = |print: &Print| print.may_be_at(path, open.size) && print.is_in(open);
        let living = || self.open.iter().filter(|(_, print)| is_copy(print));
        let has_all = |(inode, print): (&Inode, &Print)| {
            let still_has = || fs::metadata(&print.path).is_ok_and(|meta| inode_of(&meta) == *inode && meta.len() >= open.size);
            print.path != path && (print.has(open.size) || still_has())
        };
        if living().any(has_all) {
            return Copied::All;
        }
        let past = self.past.iter().filter(|print| is_copy(print));
        let best = living().map(|(_, print)| print).chain(past).max_by_key(|print| print.offset());
        best.map_or(Copied::Nothing, |print| Copied::From(print.clone()))
    }

    /// A file that holds next to nothing may become a copy of one that is read.
    fn may_become_copy(&self, path: &std::path::Path, open: &Opened) -> bool {
        open.size < LEAST_PROOF as u64 && self.open.values().any(|print| print.begins_like(open) && is_named_after(path, &print.path))
    }

    fn take_bookmark(&mut self, inode: Inode) -> Option<Bookmark> {
        let bookmark = self.read.remove(&inode)?;
        self.order.retain(|i| *i != inode);
        Some(bookmark)
    }

    fn remember(&mut self, print: Print) {
        if self.past.len() >= MOST_PRINTS {
            self.past.pop_front();
        }
        self.past.push_back(print);
    }

    fn retire(&mut self, inode: Inode, bookmark: Option<Bookmark>) {
        if let Some(print) = self.open.remove(&inode) {
            self.remember(print);
        }
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

/// What may stand beside a path whose file is another one now.
#[derive(Clone, Copy, Debug)]
pub(super) enum Search {
    /// Files that had the path for a moment: made since then.
    MadeSince(Option<SystemTime>),
    /// Copies of what was truncated.
    Copies,
}

/// What the path leads to, compared with the file that is open.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Path {
    Same,
    Other,
    Nothing,
}

/// Whether what was put in the place of a file's content is compared with the logs that it may be a copy of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Replaced {
    No,
    /// Just now. The logs it may be a copy of are read first.
    JustNow,
    /// It may be a copy that is not finished, and is not read until that is clear.
    Waiting,
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
    replaced: Replaced,
    /// Nothing has the path. Since then, or since the last byte that came after.
    gone_since: Option<Instant>,
    said: Option<(LogFileState, Option<String>)>,
    /// What was waited for under this name, or was a file, is a directory: its logs are followed each by itself.
    has_become_directory: bool,
    written_by: Option<Vec<u32>>,
    is_attributed: bool,
    /// The file that was open last.
    last: Option<Inode>,
    is_news: bool,
    /// When that was made.
    last_made: Option<SystemTime>,
    /// The file that was open last and may still be written to.
    left: Option<Opened>,
    search: Option<Search>,
    /// The path leads to this file, which is read after it had lost its own path.
    wants: Option<Inode>,
}

impl Followed {
    pub fn new(id: u32, path: PathBuf, origin: Origin, start: Start) -> Self {
        Followed {
            id,
            path,
            origin,
            start,
            open: None,
            leads_to: Path::Same,
            replaced: Replaced::No,
            gone_since: None,
            said: None,
            has_become_directory: false,
            written_by: None,
            is_attributed: false,
            last: None,
            is_news: true,
            last_made: None,
            left: None,
            search: None,
            wants: None,
        }
    }

    /// Goes on with a file whose path has passed on to another one.
    pub fn left_behind(id: u32, followed_at: &std::path::Path, open: Opened, desk: &mut Desk<'_>) -> Self {
        let path = open.present_path().unwrap_or_else(|| followed_at.to_path_buf());
        if let Some(print) = desk.known.open.get_mut(&open.inode) {
            print.id = id;
            print.left_behind = true;
        }
        let file = Followed::new(id, path, Origin::LeftBehind, Start::Fresh);
        let is_unread = open.is_at_start() && open.coming() > 0;
        let replaced = if is_unread { Replaced::JustNow } else { Replaced::No };
        Followed { replaced, last: Some(open.inode), gone_since: Some(Instant::now()), open: Some(open), ..file }
    }

    /// Takes over a file that was left behind and that the path leads to.
    pub fn adopt(&mut self, mut other: Followed, desk: &mut Desk<'_>) {
        self.left = self.open.take();
        if other.said.is_some() {
            other.say(LogFileState::Gone, Some("followed under another name".into()), desk.out);
        }
        let Some(open) = other.open.take() else { return };
        if let Some(print) = desk.known.open.get_mut(&open.inode) {
            print.id = self.id;
            print.left_behind = false;
        }
        self.has_opened(open, desk);
    }

    /// Nothing is or will be known under this path, and nobody asked for it by name.
    pub fn is_over(&self) -> bool {
        match self.origin {
            Origin::Named => self.has_become_directory,
            Origin::LeftBehind => self.open.is_none(),
            Origin::Found | Origin::Hinted => self.open.is_none() && self.trouble().is_none(),
        }
    }

    /// The file, if nothing came for so long that it is let go unless somebody still has it open.
    pub fn is_due(&self, patience: Patience) -> Option<Inode> {
        let open = self.open.as_ref()?;
        let after = if open.links == 0 { patience.deleted } else { patience.renamed };
        let has_no_path = self.origin == Origin::LeftBehind || (self.leads_to == Path::Nothing && open.links == 0);
        (has_no_path && self.coming() == 0 && self.gone_since?.elapsed() >= after).then_some(open.inode)
    }

    /// Somebody still has it open.
    pub fn wait_on(&mut self) {
        self.gone_since = Some(Instant::now());
    }

    /// A file that was left behind, and since when nothing has come to it.
    pub fn idle(&self) -> Option<(Instant, Inode)> {
        let open = self.open.as_ref().filter(|_| self.origin == Origin::LeftBehind)?;
        Some((self.gone_since?, open.inode))
    }

    /// When its file was last written to, nanoseconds since the Unix epoch; `None`: it has none, or there is more of it to read.
    pub fn stale_since(&self) -> Option<i64> {
        self.open.as_ref().map_or(Some(i64::MIN), |open| (self.coming() == 0).then(|| open.modified_ns()))
    }

    pub fn take_left(&mut self) -> Option<Opened> {
        self.left.take()
    }

    pub fn take_search(&mut self) -> Option<Search> {
        self.search.take()
    }

    pub fn take_want(&mut self) -> Option<Inode> {
        self.wants.take()
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
        let is_left_behind = self.origin == Origin::LeftBehind;
        let found = || fs::metadata(&self.path);
        let Some(open) = &mut self.open else {
            let found = found();
            self.try_open(found, desk);
            return self.coming();
        };
        if !is_left_behind {
            self.leads_to = match found() {
                Ok(meta) if inode_of(&meta) == open.inode => Path::Same,
                Ok(_) => Path::Other,
                Err(err) if err.kind() == ErrorKind::NotFound => Path::Nothing,
                Err(_) => Path::Same,
            };
        }
        let was_replaced = self.replaced != Replaced::No;
        let head = desk.known.open.get(&open.inode).map_or(&[][..], |print| &print.head);
        match open.refresh(head) {
            Ok(Progress::Truncated) => self.restart(desk),
            Ok(Progress::Read(_)) if was_replaced => self.compare(desk),
            Ok(Progress::Read(_)) => {}
            Err(err) => self.fail(&err, desk),
        }
        match self.leads_to {
            Path::Nothing if self.gone_since.is_none() => {
                self.gone_since = Some(Instant::now());
                self.say(LogFileState::Gone, None, desk.out);
            }
            Path::Same if !is_left_behind && self.gone_since.take().is_some() => self.say(LogFileState::Open, None, desk.out),
            _ => {}
        }
        self.coming()
    }

    /// Reads up to `budget` bytes.
    pub fn read(&mut self, budget: u64, desk: &mut Desk<'_>) {
        self.introduce(desk);
        let Some(open) = &mut self.open else { return };
        if self.gone_since.is_some() {
            self.gone_since = Some(Instant::now());
        }
        let outcome = open.read(self.id, budget, desk.chunk, desk.sift, desk.out);
        match outcome {
            Ok(Progress::Read(_)) => self.note(desk),
            Ok(Progress::Truncated) => self.restart(desk),
            Err(err) => self.fail(&err, desk),
        }
    }

    /// A file that was left behind is reported when more of it comes: most never grow again.
    fn introduce(&mut self, desk: &mut Desk<'_>) {
        if self.said.is_none() {
            self.say(LogFileState::Open, None, desk.out);
        }
    }

    fn note(&self, desk: &mut Desk<'_>) {
        let Some(open) = &self.open else { return };
        if let Some(print) = desk.known.open.get_mut(&open.inode) {
            open.note_in(print);
        }
    }

    /// Passes on to the file that has the path now, once the old one is read to its end. Returns whether there is more to read at
    /// once.
    pub fn settle(&mut self, desk: &mut Desk<'_>) -> bool {
        if self.replaced == Replaced::JustNow {
            return self.open.is_some();
        }
        let coming = self.coming() > 0;
        let Some(open) = &mut self.open else { return false };
        if self.leads_to == Path::Same {
            if !coming && open.waits_longer_than(desk.unfinished_after) {
                self.introduce(desk);
                let Some(open) = &mut self.open else { return false };
                open.give_up_waiting(self.id, desk.sift, desk.out);
                self.note(desk);
            }
            return coming;
        }
        // It may have been written to until just before it was renamed.
        if coming || (self.replaced == Replaced::No && open.refresh(&[]).is_ok() && open.coming() > 0) {
            return true;
        }
        match self.leads_to {
            Path::Other => {
                let found = fs::metadata(&self.path);
                if let Ok(meta) = &found
                    && desk.known.is_open(inode_of(meta))
                {
                    // Another path still reads it: its turn comes when that one has passed on.
                    self.wants = Some(inode_of(meta));
                    return false;
                }
                self.left = self.open.take();
                self.start = Start::Fresh;
                self.try_open(found, desk);
                self.coming() > 0
            }
            _ => false,
        }
    }

    /// Passes the unfinished line on and lets go of the file.
    fn close(&mut self, desk: &mut Desk<'_>) {
        if self.open.as_ref().is_some_and(Opened::has_unfinished) {
            self.introduce(desk);
        }
        if let Some(mut open) = self.open.take() {
            open.finish(self.id, desk.sift, desk.out);
            // The number of a deleted file is free for another one.
            desk.known.retire(open.inode, (open.links > 0).then(|| open.bookmark()));
        }
    }

    /// Nobody writes to it any more, or there are too many like it.
    pub fn let_go(&mut self, why: &str, desk: &mut Desk<'_>) {
        self.close(desk);
        if self.said.is_some() && self.origin == Origin::LeftBehind {
            self.say(LogFileState::Gone, Some(why.into()), desk.out);
        }
    }

    /// Passes the unfinished line on.
    pub fn finish(&mut self, desk: &mut Desk<'_>) {
        if self.open.as_ref().is_some_and(Opened::has_unfinished) {
            self.introduce(desk);
        }
        if let Some(open) = &mut self.open {
            open.finish(self.id, desk.sift, desk.out);
        }
    }

    fn coming(&self) -> u64 {
        self.open.as_ref().filter(|_| self.replaced == Replaced::No).map_or(0, Opened::coming)
    }

    fn try_open(&mut self, found: io::Result<Metadata>, desk: &mut Desk<'_>) {
        let meta = match found {
            Ok(meta) => meta,
            Err(err) if err.kind() == ErrorKind::NotFound => {
                let detail = match self.path.is_symlink() {
                    true => "a link that leads nowhere yet; it will be followed when it does",
                    false => "no such file yet; it will be followed when it appears",
                };
                if self.last.is_none() {
                    self.start = Start::Fresh;
                    match self.origin {
                        Origin::Named => self.say(LogFileState::Gone, Some(detail.into()), desk.out),
                        Origin::Found | Origin::Hinted | Origin::LeftBehind => self.said = None,
                    }
                } else if !matches!(self.said, Some((LogFileState::Gone, _))) {
                    self.say(LogFileState::Gone, None, desk.out);
                }
                return;
            }
            Err(err) => return self.say(LogFileState::Failed, Some(io_words(&err)), desk.out),
        };
        if meta.is_dir() && self.origin == Origin::Named {
            self.has_become_directory = true;
            return self.say(LogFileState::Gone, Some("a directory; the logs in it are followed".into()), desk.out);
        }
        if !meta.is_file() {
            return self.say(LogFileState::Failed, crate::sources::files::refusal(&Ok(meta), &self.path), desk.out);
        }
        let inode = inode_of(&meta);
        if desk.known.is_open(inode) {
            self.wants = Some(inode).filter(|_| self.origin != Origin::LeftBehind);
            return;
        }
        match Opened::open(&self.path, &meta, self.start) {
            Ok(mut open) => {
                let bookmark = desk.known.take_bookmark(inode);
                if !bookmark.is_some_and(|bookmark| open.resume(bookmark)) {
                    match desk.known.copied(&self.path, &open) {
                        Copied::Nothing if self.start == Start::Copy => return,
                        Copied::Nothing if self.origin == Origin::Found && desk.known.may_become_copy(&self.path, &open) => return,
                        Copied::Nothing => {}
                        // It had the path for a moment, and may have begun like its predecessor: nobody looks for it again.
                        Copied::All if self.origin == Origin::LeftBehind && open.size < HEAD_PRINT as u64 => {}
                        Copied::All => return,
                        Copied::From(print) => open.skip_copied(&print),
                    }
                }
                if self.origin != Origin::Named && open.is_copied_whole() {
                    desk.known.retire(inode, Some(open.bookmark()));
                    return;
                }
                desk.known.open.insert(inode, Print::new(self.id, self.path.clone()));
                self.has_opened(open, desk);
            }
            // Something else took the path in between: the next look decides.
            Err(err) if err.kind() == ErrorKind::Interrupted => {}
            Err(err) => self.say(LogFileState::Failed, Some(io_words(&err)), desk.out),
        }
    }

    fn has_opened(&mut self, open: Opened, desk: &mut Desk<'_>) {
        let inode = open.inode;
        let is_other = self.last.is_some_and(|last| last != inode);
        let state = if is_other { LogFileState::Rotated } else { LogFileState::Open };
        if is_other {
            self.search = Some(Search::MadeSince(self.last_made));
        }
        self.last_made = open.made;
        self.open = Some(open);
        self.replaced = Replaced::No;
        self.is_news = true;
        self.leads_to = Path::Same;
        self.last = Some(inode);
        self.gone_since = (self.origin == Origin::LeftBehind).then(Instant::now);
        self.said = None;
        (self.written_by, self.is_attributed) = (None, false);
        self.say(state, None, desk.out);
        self.note(desk);
    }

    fn restart(&mut self, desk: &mut Desk<'_>) {
        if let Some(open) = &mut self.open {
            if let Some(print) = desk.known.open.get_mut(&open.inode) {
                let emptied = print.begin_anew();
                desk.known.remember(emptied);
            }
            self.search.get_or_insert(Search::Copies);
            open.restart(self.id, desk.sift, desk.out);
            self.replaced = if open.is_at_start() { Replaced::JustNow } else { Replaced::No };
            self.said = None;
            self.say(LogFileState::Truncated, None, desk.out);
        }
    }

    /// Goes on behind what was read elsewhere, if the new content is a copy; waits as long as it may become one.
    fn compare(&mut self, desk: &mut Desk<'_>) {
        let Some(open) = &mut self.open else { return };
        self.replaced = match desk.known.copied(&self.path, open) {
            Copied::All => Replaced::Waiting,
            Copied::Nothing if desk.known.may_become_copy(&self.path, open) => Replaced::Waiting,
            Copied::Nothing => Replaced::No,
            Copied::From(print) => {
                open.skip_copied(&print);
                Replaced::No
            }
        };
        self.note(desk);
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
        out.push(Body::LogFile(self.info(&news)));
        self.said = Some(news);
    }

    fn info(&self, (state, detail): &(LogFileState, Option<String>)) -> LogFileInfo {
        let open = self.open.as_ref().filter(|_| *state != LogFileState::Gone);
        LogFileInfo {
            file: self.id,
            path: self.path.display().to_string(),
            state: *state,
            inode: open.map(|o| o.inode.1),
            device: open.map(|o| o.inode.0),
            size_bytes: open.map(|o| o.size),
            modified_ns: open.map(Opened::modified_ns),
            made_ns: open.and_then(Opened::made_ns),
            skipped_bytes: open.and_then(Opened::skipped_bytes),
            detail: detail.clone(),
            written_by: self.written_by.clone().filter(|_| open.is_some()),
            archived: false,
        }
    }

    /// The file that is read, where it has to be found out who writes it: what was found behind a process's output is that one's.
    pub fn of_unknown_writer(&self) -> Option<Inode> {
        let is_given = matches!(self.origin, Origin::Named | Origin::Found);
        self.open.as_ref().filter(|_| is_given && self.said.is_some()).map(|open| open.inode)
    }

    /// Its writers have not been looked for since it was opened.
    pub fn is_unattributed(&self) -> bool {
        self.of_unknown_writer().is_some() && !self.is_attributed
    }

    /// Reports who writes it, unless that was reported last.
    pub fn attribute(&mut self, written_by: Option<Vec<u32>>, out: &mut Vec<Body>) {
        let is_first = !std::mem::replace(&mut self.is_attributed, true);
        if written_by == self.written_by && !is_first {
            return;
        }
        self.written_by = written_by;
        let Some((state, detail)) = self.said.clone() else { return };
        // What was reported in the same look is completed: nobody should take the log for another job's in between.
        let same = |body: &&mut Body| matches!(body, Body::LogFile(info) if info.file == self.id);
        match out.iter_mut().rev().find(same) {
            Some(Body::LogFile(info)) => info.written_by.clone_from(&self.written_by),
            // It goes on where it was: a state that says that reading begins anew is over.
            _ if self.written_by.is_some() => {
                let state = if state == LogFileState::Gone { state } else { LogFileState::Open };
                out.push(Body::LogFile(self.info(&(state, detail))));
            }
            _ => {}
        }
    }
}
