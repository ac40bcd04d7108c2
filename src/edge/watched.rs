//! A small file that is read again whenever it is saved. Where the system sends no events, as for changes that another host makes on a network
//! file system, it is not.

use crate::base::file::read_text;
use notify::{Event, EventKind, RecursiveMode, Watcher};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

/// An editor saves in several steps: what comes within this time is one change.
const SETTLED: Duration = Duration::from_millis(100);
const MOST_STEPS: usize = 20;
/// Who writes in place empties the file first, and may then be held up: an empty file is believed after this time.
const EMPTIED: Duration = Duration::from_secs(1);

/// The text of the file; `None`: there is none.
pub type Text = Result<Option<String>, String>;

/// Tells the text of the file at `path`, and each that it gets, by whatever way: written, replaced, made, removed, or a link led elsewhere. Returns when
/// nobody wants to know, or where its directory cannot be watched.
pub fn follow(path: &Path, most_bytes: u64, tell: impl Fn(Text) -> bool) {
    let mut last = None;
    // Links on the way may lead elsewhere after each change.
    while let Some((_watcher, changes)) = watch(path) {
        let now = read(path, most_bytes);
        if matches!(&now, Ok(Some(text)) if text.is_empty()) && changes.recv_timeout(EMPTIED).is_ok() {
            settle(&changes);
            continue;
        }
        // What cannot be read from the start is known already.
        let is_news = last.as_ref().map_or(now.is_ok(), |last| now != *last);
        last = Some(now.clone());
        if is_news && !tell(now) {
            return;
        }
        if changes.recv().is_err() {
            return;
        }
        settle(&changes);
    }
}

fn settle(changes: &Receiver<()>) {
    (0..MOST_STEPS).take_while(|_| changes.recv_timeout(SETTLED).is_ok()).for_each(drop);
}

fn read(path: &Path, most_bytes: u64) -> Text {
    match path.symlink_metadata() {
        Err(err) if err.kind() == std::io::ErrorKind::NotFound => Ok(None),
        _ => read_text(path, most_bytes).map(Some),
    }
}

/// Something comes from the channel when the file may have changed.
fn watch(path: &Path) -> Option<(impl Watcher + use<>, Receiver<()>)> {
    let path = std::path::absolute(path).ok()?;
    let places: Vec<PathBuf> = [path.canonicalize().ok(), Some(path)].into_iter().flatten().collect();
    let names: BTreeSet<OsString> = places.iter().filter_map(|place| Some(place.file_name()?.to_owned())).collect();
    let (tx, rx) = sync_channel(1);
    let changed = move |event: notify::Result<Event>| {
        let is_ours = |event: &Event| {
            let named = event.paths.iter().filter_map(|path| path.file_name()).any(|name| names.contains(name));
            event.need_rescan() || named && !matches!(event.kind, EventKind::Access(_))
        };
        if event.as_ref().map_or(true, is_ours) {
            let _ = tx.try_send(());
        }
    };
    let mut watcher = notify::recommended_watcher(changed).ok()?;
    let folders: BTreeSet<&Path> = places.iter().filter_map(|place| place.parent()).collect();
    let watched = folders.into_iter().filter(|folder| watcher.watch(folder, RecursiveMode::NonRecursive).is_ok()).count();
    (watched > 0).then_some((watcher, rx))
}
