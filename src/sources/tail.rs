//! Follows logs: files, globs, directories, standard input, and the files behind the output of jobs. Reads them a bounded piece at a
//! time; never interprets a line, and never opens anything but a regular file.

pub mod cut;
mod follow;
mod holders;
mod input;
mod open;
mod print;
pub mod sift;
mod targets;
mod wake;

use super::{Hint, Roots, Setup, Source, SourceError};
use crate::base::units::group;
use crate::observe::log::{LogFileInfo, LogFileState};
use crate::observe::{Body, SourceState};
use follow::{Desk, Followed, Known, Origin, Patience, Search};
use input::Input;
use open::{Chunk, Inode, Start};
use sift::{Excess, Sift};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::io::{IsTerminal, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};
use targets::{Candidate, Targets};
use wake::Waker;

/// A process that died in the middle of a line will not end it.
const UNFINISHED: Duration = Duration::from_secs(4);

/// Leaves room below the usual limit of 1024 open files.
const MOST_FILES: usize = 768;
/// Not written to for so long, a file makes room for one that is.
const STALE_NS: i64 = 10_000_000_000;
/// As many as a scan can find in a directory.
const MOST_KEPT_IDS: usize = 20_000;
/// Files that have lost their path to another one, and may still be written to.
const MOST_LEFT_BEHIND: usize = 128;
const PATIENCE: Patience = Patience { renamed: Duration::from_secs(15 * 60), deleted: Duration::from_secs(60) };
/// Bytes that one poll reads in all.
const BYTES_PER_POLL: u64 = 8 << 20;
/// All files are looked at so often where the kernel wakes us, and where it does not.
const SWEEP_WOKEN: Duration = Duration::from_secs(1);
const SWEEP_POLLED: Duration = Duration::from_millis(300);
/// When there is more to read.
const AT_ONCE: Duration = Duration::from_millis(2);
/// Who writes the files that were given may change: it is looked for that often.
const ATTRIBUTE: Duration = Duration::from_secs(15);
/// … and less often where it takes long, as among thousands of processes: this many times as long as it took, but no less often than that.
const ATTRIBUTE_PAUSE: u32 = 500;
const ATTRIBUTE_AT_LEAST: Duration = Duration::from_secs(300);
const RESCAN: Duration = Duration::from_secs(2);
const SLOW_SCAN: Duration = Duration::from_millis(50);

/// Which files the next poll looks at.
enum Scope {
    All,
    Only(BTreeSet<u32>),
}

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    Box::new(Tail::of(setup))
}

/// The tailer. As built by [`new`](Tail::new) it has no thread: each [`poll`](Source::poll) looks at everything.
pub struct Tail {
    targets: Targets,
    whole_logs: bool,
    rescan_every: Duration,
    unfinished_after: Duration,
    patience: Patience,
    /// Whether and when it was last looked for who writes the files that were given.
    attributes: bool,
    /// When that was last done, and how long it took.
    attributed: Option<(Instant, Duration)>,
    roots: Roots,
    inbox: Option<Receiver<Hint>>,
    input: Option<Input>,
    refused_input: Option<&'static str>,
    waker: Option<Waker>,
    files: BTreeMap<u32, Followed>,
    paths: HashSet<PathBuf>,
    /// The ids of those that made room, which keep them when they are taken up again: each id is a log of its own to the model.
    kept_ids: HashMap<PathBuf, u32>,
    next_id: u32,
    known: Known,
    chunk: Chunk,
    sift: Sift,
    scope: Scope,
    /// Files that have more to read, and whether standard input has.
    behind: BTreeSet<u32>,
    input_behind: bool,
    swept: Option<Instant>,
    scanned: Option<Instant>,
    scan_took: Duration,
    /// A file that a scan had found has made room for another one.
    scan_now: bool,
    /// Rotated files that were let go although somebody may write to them.
    lost_sight: usize,
    left_out: usize,
}

impl Tail {
    /// `logs` are files, globs and directories; `-` is left to [`reading`](Tail::reading). With `whole_logs` big files are read from
    /// their start and no fact is left out; otherwise only their head and their end.
    pub fn new(logs: Vec<String>, whole_logs: bool) -> Self {
        Tail {
            targets: Targets::new(logs.into_iter().filter(|log| log != "-").collect()),
            whole_logs,
            rescan_every: RESCAN,
            unfinished_after: Duration::MAX,
            patience: PATIENCE,
            attributes: false,
            attributed: None,
            roots: Roots::live(),
            inbox: None,
            input: None,
            refused_input: None,
            waker: None,
            files: BTreeMap::new(),
            paths: HashSet::new(),
            kept_ids: HashMap::new(),
            next_id: 1,
            known: Known::default(),
            chunk: Chunk::new(),
            sift: Sift::new(if whole_logs { Excess::Defer } else { Excess::Drop }),
            scope: Scope::All,
            behind: BTreeSet::new(),
            input_behind: false,
            swept: None,
            scanned: None,
            scan_took: Duration::ZERO,
            scan_now: false,
            lost_sight: 0,
            left_out: 0,
        }
    }

    /// All that `setup` asks for, with the threads that it takes.
    pub fn of(setup: &mut Setup) -> Self {
        let mut tail = Tail::new(setup.logs.clone(), setup.whole_logs).woken().unfinished_after(UNFINISHED);
        tail.roots = setup.roots.clone();
        tail = if tail.roots.is_live() { tail.attributing() } else { tail };
        if let Some(inbox) = setup.tail_inbox.take() {
            tail = tail.listening(inbox);
        }
        if setup.logs.iter().any(|log| log == "-") {
            let stdin = std::io::stdin();
            tail = if stdin.is_terminal() { tail.refusing_input("a terminal; not read") } else { tail.reading(stdin) };
        }
        tail
    }

    /// Follows the files that hints name, too.
    pub fn listening(mut self, inbox: Receiver<Hint>) -> Self {
        self.inbox = Some(inbox);
        self
    }

    /// Lets the kernel end a wait when a followed file changes.
    pub fn woken(mut self) -> Self {
        self.waker = Some(Waker::new());
        self
    }

    /// Reads `input` as the file `-`, on a thread of its own.
    pub fn reading(mut self, input: impl Read + Send + 'static) -> Self {
        let id = self.take_id();
        match Input::spawn(id, input, self.waker.as_ref().map(Waker::sender)) {
            Ok(input) => self.input = Some(input),
            Err(_) => self.refused_input = Some("no thread to read it"),
        }
        self
    }

    /// Looks for the processes that write the files that were given.
    pub fn attributing(mut self) -> Self {
        self.attributes = true;
        self
    }

    /// Says once that standard input is not read, and why.
    pub fn refusing_input(mut self, why: &'static str) -> Self {
        self.refused_input = Some(why);
        self
    }

    /// How often globs and directories are looked through for new files; 2 s if not set.
    pub fn rescan_every(mut self, pause: Duration) -> Self {
        self.rescan_every = pause;
        self
    }

    /// A line whose end has not come for that long is passed on as it is. Without this it waits for its end.
    pub fn unfinished_after(mut self, pause: Duration) -> Self {
        self.unfinished_after = pause;
        self
    }

    /// How long a rotated or deleted file is read after its last byte, unless somebody still has it open for writing; 15 min and 60 s
    /// if not set.
    pub fn let_go_after(mut self, pause: Duration) -> Self {
        self.patience = Patience { renamed: pause, deleted: pause };
        self
    }

    /// Nothing more was there to read at the last poll; standard input, if it is read, has ended.
    pub fn is_caught_up(&self) -> bool {
        self.swept.is_some() && !self.is_behind() && self.input.as_ref().is_none_or(Input::has_ended)
    }

    /// Tells the unfinished last lines. For when there will be no further poll.
    pub fn finish(&mut self, out: &mut Vec<Body>) {
        let Tail { known, chunk, sift, unfinished_after, .. } = self;
        let mut desk = Desk { known, chunk, sift, out, unfinished_after: *unfinished_after };
        self.files.values_mut().for_each(|file| file.finish(&mut desk));
        if let Some(input) = &mut self.input {
            input.finish(&mut self.sift, out);
        }
    }

    fn is_behind(&self) -> bool {
        !self.behind.is_empty() || self.input_behind
    }

    fn sweep_every(&self) -> Duration {
        match &self.waker {
            Some(waker) if waker.trouble().is_none() => SWEEP_WOKEN,
            _ => SWEEP_POLLED,
        }
    }

    fn take_id(&mut self) -> u32 {
        let id = self.next_id;
        self.next_id += 1;
        id
    }

    fn take_hints(&mut self) {
        let Some(inbox) = &self.inbox else { return };
        let paths: Vec<PathBuf> = inbox.try_iter().flat_map(|hint| if let Hint::Logs(paths) = hint { paths } else { Vec::new() }).collect();
        for path in paths {
            if self.paths.contains(&path) {
                continue;
            }
            let Ok(meta) = fs::metadata(&path) else { continue };
            if meta.is_file() && !self.known.is_open(open::inode_of(&meta)) && !self.known.is_read(&meta) {
                self.follow(Candidate { path, origin: Origin::Hinted, meta: Some(meta) }, self.start_of_old());
            }
        }
    }

    fn scan_if_due(&mut self, out: &mut Vec<Body>) {
        // A huge or slow directory is looked through less often.
        let pause = if self.scan_took > SLOW_SCAN { self.rescan_every.max(self.scan_took * 20) } else { self.rescan_every };
        if self.scanned.is_some_and(|at| at.elapsed() < pause) && !std::mem::take(&mut self.scan_now) {
            return;
        }
        let begin = Instant::now();
        // What was not there at the scan before was written since. If some had to be left out, nobody knows.
        let start = if self.scanned.is_none() || self.left_out > 0 { self.start_of_old() } else { Start::Fresh };
        let mut found = self.targets.scan(&self.paths, &self.known);
        let mut room = MOST_FILES.saturating_sub(self.with_path());
        if found.len() > room {
            targets::newest_first(&mut found);
            room += self.make_room(&found[room..], out);
        }
        let left_out = found.split_off(room.min(found.len()));
        // One that was read to its end is found again when it grows.
        let is_unread = |c: &&Candidate| c.meta.as_ref().is_some_and(|meta| !self.known.is_read(meta));
        self.left_out = left_out.iter().filter(is_unread).count();
        found.into_iter().for_each(|candidate| self.follow(candidate, start));
        self.scan_took = begin.elapsed();
        self.scanned = Some(begin);
    }

    /// Lets go of files that nothing was written to for a while, for others that are `newer`, the newest first. Returns how many.
    fn make_room(&mut self, newer: &[Candidate], out: &mut Vec<Body>) -> usize {
        let with_path = self.files.iter().filter(|(_, file)| file.origin != Origin::LeftBehind);
        let mut stale: Vec<(i64, u32)> = with_path.filter_map(|(id, file)| Some((file.stale_since()?, *id))).collect();
        stale.sort_unstable();
        let is_newer = |(candidate, (since, _)): &(&Candidate, &(i64, u32))| {
            candidate.meta.as_ref().is_some_and(|meta| open::modified_ns(meta) > since.saturating_add(STALE_NS))
        };
        let gone: Vec<u32> = newer.iter().zip(&stale).take_while(is_newer).map(|(_, (_, id))| *id).collect();
        let Tail { known, chunk, sift, files, unfinished_after, .. } = self;
        let mut desk = Desk { known, chunk, sift, out, unfinished_after: *unfinished_after };
        for id in &gone {
            if let Some(mut file) = files.remove(id) {
                file.let_go("others are written to, and there are too many", &mut desk);
                self.paths.remove(&file.path);
                if self.kept_ids.len() < MOST_KEPT_IDS {
                    self.kept_ids.insert(file.path.clone(), *id);
                }
                self.behind.remove(id);
                self.waker.iter_mut().for_each(|waker| waker.forget(*id));
            }
        }
        gone.len()
    }

    fn with_path(&self) -> usize {
        self.files.values().filter(|file| file.origin != Origin::LeftBehind).count()
    }

    fn start_of_old(&self) -> Start {
        if self.whole_logs { Start::Whole } else { Start::Parts }
    }

    fn follow(&mut self, candidate: Candidate, start: Start) {
        if self.with_path() >= MOST_FILES {
            self.left_out += 1;
            return;
        }
        let id = self.kept_ids.remove(&candidate.path).unwrap_or_else(|| self.take_id());
        self.paths.insert(candidate.path.clone());
        self.files.insert(id, Followed::new(id, candidate.path, candidate.origin, start));
        if let Scope::Only(ids) = &mut self.scope {
            ids.insert(id);
        }
    }

    /// Looks at the files of this poll's scope and reads them, each its share.
    fn read(&mut self, out: &mut Vec<Body>) {
        let ids: Vec<u32> = match std::mem::replace(&mut self.scope, Scope::All) {
            Scope::Only(ids) => ids.into_iter().collect(),
            Scope::All => {
                self.swept = Some(Instant::now());
                self.files.keys().copied().collect()
            }
        };
        let Tail { known, chunk, sift, files, unfinished_after, .. } = self;
        let mut desk = Desk { known, chunk, sift, out, unfinished_after: *unfinished_after };
        let coming: Vec<u64> = ids.iter().map(|id| files.get_mut(id).map_or(0, |file| file.look(&mut desk))).collect();
        self.attribute(out);
        let Tail { known, chunk, sift, files, unfinished_after, .. } = self;
        let mut desk = Desk { known, chunk, sift, out, unfinished_after: *unfinished_after };
        for (id, share) in ids.iter().zip(shares(&coming, BYTES_PER_POLL)) {
            let Some(file) = files.get_mut(id) else { continue };
            if share > 0 {
                file.read(share, &mut desk);
            }
            if file.settle(&mut desk) {
                self.behind.insert(*id);
            } else {
                self.behind.remove(id);
            }
        }
        ids.iter().for_each(|id| self.pass_on(*id, out));
    }

    /// Looks for who writes the files that were given: before their first line is passed on, and now and then.
    fn attribute(&mut self, out: &mut Vec<Body>) {
        let is_due = self.attributed.is_none_or(|(at, took)| at.elapsed() >= until_next_attribution(took))
            || self.files.values().any(Followed::is_unattributed);
        let inodes: HashSet<Inode> = self.files.values().filter_map(Followed::of_unknown_writer).collect();
        if !self.attributes || !is_due || inodes.is_empty() {
            return;
        }
        let begin = Instant::now();
        let writers = holders::writers(&self.roots.path("/proc"), &inodes);
        let took = begin.elapsed();
        for file in self.files.values_mut() {
            if let Some(inode) = file.of_unknown_writer() {
                file.attribute(writers.get(&inode).map(|pids| pids.iter().copied().collect()), out);
            }
        }
        self.attributed = Some((Instant::now(), took));
    }

    /// Goes on with a file that has lost its path, takes over the one that a path leads to and that had lost its own, and looks for what
    /// came between two files of a path.
    fn pass_on(&mut self, id: u32, out: &mut Vec<Body>) {
        self.leave_behind(id, out);
        if let Some(other) = self.files.get_mut(&id).and_then(Followed::take_want).and_then(|inode| self.known.left_behind(inode)) {
            self.hand_over(other, id, out);
        }
        let Some(file) = self.files.get_mut(&id) else { return };
        match file.take_search() {
            // What it was found in is looked through anyway.
            Some(_) if file.origin == Origin::Found => self.scan_now = true,
            Some(search) => {
                let path = file.path.clone();
                self.look_beside(&path, search, out);
            }
            None => {}
        }
    }

    fn leave_behind(&mut self, id: u32, out: &mut Vec<Body>) {
        let Some((open, path)) = self.files.get_mut(&id).and_then(|file| Some((file.take_left()?, file.path.clone()))) else { return };
        let left = self.take_id();
        let Tail { known, chunk, sift, files, unfinished_after, .. } = self;
        let mut desk = Desk { known, chunk, sift, out, unfinished_after: *unfinished_after };
        files.insert(left, Followed::left_behind(left, &path, open, &mut desk));
    }

    fn hand_over(&mut self, from: u32, to: u32, out: &mut Vec<Body>) {
        let Some(other) = self.files.remove(&from) else { return };
        self.waker.iter_mut().for_each(|waker| waker.forget(from));
        self.behind.remove(&from);
        let Tail { known, chunk, sift, files, unfinished_after, .. } = self;
        let mut desk = Desk { known, chunk, sift, out, unfinished_after: *unfinished_after };
        if let Some(file) = files.get_mut(&to) {
            file.adopt(other, &mut desk);
        }
        self.behind.insert(to);
        self.leave_behind(to, out);
    }

    fn look_beside(&mut self, path: &Path, search: Search, out: &mut Vec<Body>) {
        for (path, meta) in targets::siblings(path, &self.known) {
            let start = match search {
                Search::MadeSince(Some(then)) if meta.created().is_ok_and(|made| made >= then) => Start::Fresh,
                _ => Start::Copy,
            };
            self.look_at_sibling(path, start, out);
        }
    }

    fn look_at_sibling(&mut self, path: PathBuf, start: Start, out: &mut Vec<Body>) {
        let id = self.take_id();
        let mut file = Followed::new(id, path, Origin::LeftBehind, start);
        let Tail { known, chunk, sift, unfinished_after, .. } = self;
        let coming = file.look(&mut Desk { known, chunk, sift, out, unfinished_after: *unfinished_after });
        if !file.is_over() {
            self.files.insert(id, file);
            self.behind.extend((coming > 0).then_some(id));
        }
    }

    /// Lets go of files without a path that nobody writes to, and of those that are too many.
    fn let_go(&mut self, out: &mut Vec<Body>) {
        let due: Vec<(u32, Inode)> = self.files.iter().filter_map(|(id, file)| Some((*id, file.is_due(self.patience)?))).collect();
        let mut left: Vec<(Instant, Inode, u32)> =
            self.files.iter().filter_map(|(id, file)| file.idle().map(|(since, inode)| (since, inode, *id))).collect();
        let surplus = left.len().saturating_sub(MOST_LEFT_BEHIND);
        if due.is_empty() && surplus == 0 {
            return;
        }
        let inodes = due.iter().map(|(_, inode)| *inode).chain(left.iter().filter(|_| surplus > 0).map(|(_, inode, _)| *inode));
        let held = holders::held(&self.roots.path("/proc"), &inodes.collect());
        left.sort_by_key(|(since, inode, _)| (held.contains(inode), *since));
        let Tail { known, chunk, sift, files, unfinished_after, .. } = self;
        let mut desk = Desk { known, chunk, sift, out, unfinished_after: *unfinished_after };
        for (id, inode) in due {
            match files.get_mut(&id) {
                Some(file) if held.contains(&inode) => file.wait_on(),
                Some(file) => file.let_go("nobody is seen to have it open", &mut desk),
                None => {}
            }
        }
        for (_, inode, id) in left.into_iter().take(surplus) {
            self.lost_sight += usize::from(held.contains(&inode));
            if let Some(file) = files.get_mut(&id) {
                file.let_go("too many rotated files are read", &mut desk);
            }
        }
    }

    fn tidy(&mut self) {
        let Tail { files, paths, waker, behind, .. } = self;
        files.retain(|id, file| {
            let stays = !file.is_over();
            if !stays {
                if file.origin != Origin::LeftBehind {
                    paths.remove(&file.path);
                }
                behind.remove(id);
                waker.iter_mut().for_each(|waker| waker.forget(*id));
            }
            stays
        });
        let Some(waker) = waker else { return };
        let news: Vec<u32> = files.iter_mut().filter_map(|(id, file)| file.take_news().then_some(*id)).collect();
        waker.watch_files(news.iter().filter_map(|id| Some((*id, files.get(id)?.path.as_path()))));
    }

    fn read_input(&mut self, out: &mut Vec<Body>) {
        if let Some(why) = self.refused_input.take() {
            let file = self.take_id();
            let detail = Some(why.to_string());
            out.push(Body::LogFile(LogFileInfo { file, path: "-".into(), state: LogFileState::Failed, detail, ..Default::default() }));
        }
        self.input_behind = self.input.as_mut().is_some_and(|input| input.poll(&mut self.sift, out));
    }
}

impl Source for Tail {
    fn every(&self) -> Duration {
        if self.is_behind() { AT_ONCE } else { self.sweep_every() }
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        self.take_hints();
        self.scan_if_due(out);
        self.read(out);
        self.let_go(out);
        self.tidy();
        self.read_input(out);
        if !self.files.is_empty() || self.input.is_some() {
            return Ok(());
        }
        Err(SourceError::Absent(match self.targets.args() {
            [] => "no log file known; name one on the command line".into(),
            args => format!("no log file matches {} yet", args.join(", ")),
        }))
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        let mut notes = Vec::new();
        let troubled: Vec<(&Path, &str)> = self.files.values().filter_map(|file| Some((file.path.as_path(), file.trouble()?))).collect();
        if !troubled.is_empty() {
            notes.push(format!("{} of {} files not read ({})", troubled.len(), self.files.len(), some_of(&troubled)));
        }
        let refused: Vec<(&Path, &str)> = self.targets.left_out().iter().map(|(path, why)| (path.as_path(), why.as_str())).collect();
        if !refused.is_empty() {
            notes.push(format!("{} not followed ({})", refused.len(), some_of(&refused)));
        }
        if self.left_out > 0 {
            let (followed, left_out) = (group(self.with_path() as u64), group(self.left_out as u64));
            notes.push(format!(
                "{followed} files followed, {left_out} more left out: no more than {MOST_FILES} are followed, those that were written to \
                 last; name fewer, and give the others to nccl-top check"
            ));
        }
        if self.lost_sight > 0 {
            let lost = group(self.lost_sight as u64);
            notes.push(format!("{lost} rotated files no longer followed that are open for writing: no more than {MOST_LEFT_BEHIND} are"));
        }
        if let Some(trouble) = self.waker.as_ref().and_then(Waker::trouble) {
            notes.push(format!("looked at every {} ms: {trouble}", SWEEP_POLLED.as_millis()));
        }
        (!notes.is_empty()).then(|| (SourceState::Ok, notes.join("; ")))
    }

    fn wait(&mut self, timeout: Duration) {
        let sweep_every = self.sweep_every();
        let woken = match &mut self.waker {
            Some(waker) => waker.wait(timeout),
            None => {
                std::thread::sleep(timeout);
                return;
            }
        };
        let is_due = self.swept.is_none_or(|at| at.elapsed() >= sweep_every);
        self.scope = if is_due || woken.anything { Scope::All } else { Scope::Only(woken.files.union(&self.behind).copied().collect()) };
    }
}

/// The first few, with what is wrong with each.
fn some_of(files: &[(&Path, &str)]) -> String {
    const SOME: usize = 5;
    let mut words: Vec<String> = files.iter().take(SOME).map(|(path, why)| format!("{}: {why}", path.display())).collect();
    words.extend((files.len() > SOME).then(|| format!("and {} more", files.len() - SOME)));
    words.join("; ")
}

/// Divides `budget` so that nobody gets more than it wants and nobody starves.
pub fn shares(wants: &[u64], budget: u64) -> Vec<u64> {
    let mut order: Vec<usize> = (0..wants.len()).filter(|i| wants[*i] > 0).collect();
    order.sort_by_key(|i| wants[*i]);
    let mut shares = vec![0; wants.len()];
    let mut left = budget;
    for (taken, i) in order.iter().enumerate() {
        let even = left / (order.len() - taken) as u64;
        shares[*i] = wants[*i].min(even);
        left -= shares[*i];
    }
    shares
}

fn until_next_attribution(took: Duration) -> Duration {
    (took * ATTRIBUTE_PAUSE).clamp(ATTRIBUTE, ATTRIBUTE_AT_LEAST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writers_are_looked_for_less_often_where_that_takes_long() {
        let next = |ms| until_next_attribution(Duration::from_millis(ms)).as_secs();
        assert_eq!([0, 1, 30].map(next), [15; 3], "no more than 0.2 % of a core");
        assert_eq!([100, 400, 5000].map(next), [50, 200, 300]);
    }
}
