//! Lets the kernel end a wait. Only ever shortens it: network file systems may send no events, so nothing depends on one.

use notify::{EventKind, RecommendedWatcher, RecursiveMode, Watcher, event::ModifyKind};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

const MOST_DIRECTORIES: usize = 256;
const MOST_PENDING: usize = 1024;
/// After a wake-up, so that a busy log causes some polls a second and not thousands.
const GATHER: Duration = Duration::from_millis(20);
/// The watcher's thread works so long, then rests: while it does, the kernel merges the events of a busy file into one.
const BURST: Duration = Duration::from_millis(1);
const REST: Duration = Duration::from_millis(15);

pub(super) enum Wake {
    Path(PathBuf),
    /// Standard input has something.
    Input,
    /// Events were lost.
    Anything,
}

/// What ended a wait.
#[derive(Default)]
pub(super) struct Woken {
    pub files: BTreeSet<u32>,
    pub anything: bool,
    input: bool,
}

impl Woken {
    fn is_something(&self) -> bool {
        !self.files.is_empty() || self.anything || self.input
    }
}

pub(super) struct Waker {
    watcher: Option<RecommendedWatcher>,
    tx: SyncSender<Wake>,
    rx: Receiver<Wake>,
    directories: HashSet<PathBuf>,
    /// Which files an event is about: by their paths, and by where links lead.
    files: HashMap<PathBuf, BTreeSet<u32>>,
    trouble: Option<String>,
}

impl Waker {
    pub fn new() -> Self {
        let (tx, rx) = sync_channel(MOST_PENDING);
        let (watcher, trouble) = match notify::recommended_watcher(handler(tx.clone())) {
            Ok(watcher) => (Some(watcher), None),
            Err(err) => (None, Some(words(&err))),
        };
        Waker { watcher, tx, rx, directories: HashSet::new(), files: HashMap::new(), trouble }
    }

    pub fn sender(&self) -> SyncSender<Wake> {
        self.tx.clone()
    }

    /// Why there are no events, or not for all files.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Wakes when one of `files` changes, appears, or is replaced.
    pub fn watch_files<'a>(&mut self, files: impl Iterator<Item = (u32, &'a Path)>) {
        let mut directories = BTreeSet::new();
        for (id, path) in files {
            for path in [resolve_parent(path), path.canonicalize().ok()].into_iter().flatten() {
                directories.extend(path.parent().map(Path::to_path_buf));
                self.files.entry(path).or_default().insert(id);
            }
        }
        directories.iter().for_each(|dir| self.watch(dir));
    }

    pub fn forget(&mut self, id: u32) {
        self.files.retain(|_, files| {
            files.remove(&id);
            !files.is_empty()
        });
    }

    /// `dir` has no symbolic links in it: the kernel knows one watch per directory, and events carry the name it had last. Watching
    /// again is cheap, and needed if the directory was deleted and made anew.
    fn watch(&mut self, dir: &Path) {
        let Some(watcher) = &mut self.watcher else { return };
        if self.directories.len() >= MOST_DIRECTORIES && !self.directories.contains(dir) {
            self.trouble = Some(format!("more than {MOST_DIRECTORIES} directories hold logs"));
            return;
        }
        match watcher.watch(dir, RecursiveMode::NonRecursive) {
            Ok(()) => {
                self.directories.insert(dir.to_path_buf());
            }
            Err(err) if matches!(err.kind, notify::ErrorKind::PathNotFound) => {}
            Err(err) => self.trouble = Some(words(&err)),
        }
    }

    pub fn wait(&mut self, timeout: Duration) -> Woken {
        let deadline = Instant::now() + timeout;
        let mut woken = Woken::default();
        while !woken.is_something() {
            match self.rx.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(wake) => self.note(wake, &mut woken),
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => return woken,
            }
        }
        std::thread::sleep(GATHER.min(timeout));
        let pending: Vec<Wake> = self.rx.try_iter().take(MOST_PENDING).collect();
        woken.anything |= pending.len() == MOST_PENDING;
        pending.into_iter().for_each(|wake| self.note(wake, &mut woken));
        woken
    }

    fn note(&self, wake: Wake, woken: &mut Woken) {
        match wake {
            Wake::Path(path) => woken.files.extend(self.files.get(&path).into_iter().flatten()),
            Wake::Input => woken.input = true,
            Wake::Anything => woken.anything = true,
        }
    }
}

/// The path with everything but its last part resolved.
fn resolve_parent(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    Some(path.parent()?.canonicalize().ok()?.join(path.file_name()?))
}

fn handler(tx: SyncSender<Wake>) -> impl FnMut(notify::Result<notify::Event>) + Send + 'static {
    let mut since = Instant::now();
    move |event| {
        // A full channel is as good as any: the receiver then looks at everything.
        match event {
            Ok(event) if event.need_rescan() => drop(tx.try_send(Wake::Anything)),
            Ok(event) if is_about_content(event.kind) => event.paths.into_iter().for_each(|path| drop(tx.try_send(Wake::Path(path)))),
            // Our own opening and reading is among these: no reason to rest either.
            Ok(_) => {}
            Err(_) => drop(tx.try_send(Wake::Anything)),
        }
        if since.elapsed() > BURST {
            std::thread::sleep(REST);
            since = Instant::now();
        }
    }
}

fn is_about_content(kind: EventKind) -> bool {
    !matches!(kind, EventKind::Access(_) | EventKind::Modify(ModifyKind::Metadata(_)))
}

fn words(err: &notify::Error) -> String {
    match &err.kind {
        notify::ErrorKind::MaxFilesWatch => "the limit fs.inotify.max_user_watches is reached".into(),
        notify::ErrorKind::Io(err) if err.raw_os_error() == Some(libc::EMFILE) => {
            "the limit fs.inotify.max_user_instances is reached".into()
        }
        notify::ErrorKind::Io(err) => crate::base::words::io_words(err),
        _ => err.to_string(),
    }
}
