//! Asks what a file is, without waiting for a server that does not answer: that a rank hangs there is to be seen, not to be shared.

use std::fs::Metadata;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::time::Duration;

/// A server that is only busy answers sooner.
const PATIENCE: Duration = Duration::from_millis(300);
/// Threads that wait for an answer. They cannot be ended, so there are no more.
const MOST: usize = 4;

thread_local! {
    /// Those that this thread has made: it asks for one file at a time, so that one that waits is one that got no answer.
    static WAITING: Arc<AtomicUsize> = Arc::default();
}

/// # Errors
/// Those of the file system, and `TimedOut` where it does not answer soon, or has not answered before.
pub fn metadata(path: &Path) -> io::Result<Metadata> {
    WAITING.with(|waiting| soon(waiting, path, |path| path.metadata()))
}

/// A file system was asked and has not answered yet.
pub fn is_waiting() -> bool {
    WAITING.with(|waiting| waiting.load(Ordering::Relaxed)) > 0
}

fn soon(waiting: &Arc<AtomicUsize>, path: &Path, ask: fn(&Path) -> io::Result<Metadata>) -> io::Result<Metadata> {
    if waiting.load(Ordering::Relaxed) >= MOST {
        return Err(io::ErrorKind::TimedOut.into());
    }
    let (answer, answered) = mpsc::channel();
    let path = path.to_owned();
    waiting.fetch_add(1, Ordering::Relaxed);
    let counted = Arc::clone(waiting);
    let asks = move || {
        let found = ask(&path);
        counted.fetch_sub(1, Ordering::Relaxed);
        let _ = answer.send(found);
    };
    if let Err(err) = std::thread::Builder::new().name("ask".into()).spawn(asks) {
        waiting.fetch_sub(1, Ordering::Relaxed);
        return Err(err);
    }
    answered.recv_timeout(PATIENCE).unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
}

#[cfg(test)]
#[test]
fn a_file_system_that_does_not_answer_is_waited_for_a_moment_only() {
    let own = Arc::new(AtomicUsize::new(0));
    fn never(_: &Path) -> io::Result<Metadata> {
        std::thread::sleep(Duration::from_secs(3600));
        Err(io::ErrorKind::Other.into())
    }
    assert!(metadata(Path::new("/proc")).is_ok_and(|found| found.is_dir()));
    for _ in 0..MOST + 2 {
        assert_eq!(soon(&own, Path::new("/x"), never).unwrap_err().kind(), io::ErrorKind::TimedOut);
    }
    assert_eq!(own.load(Ordering::Relaxed), MOST);
}
