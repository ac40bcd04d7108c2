//! Where a live program meets the world: one loop on one thread, which waits for signals, batches of the sources, the terminal and the
//! clock at once and never for anything else. What blocks has a thread of its own and sends through a bounded channel.

pub mod courier;
pub mod diagnostics;
pub mod dump_pipes;
pub mod outlet;
pub mod pager;
pub mod private;
pub mod py_spy;
pub mod stacks;
pub mod watched;

use anyhow::{Context as _, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::future::poll_fn;
use std::task::Poll;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Batches wait here while the loop is busy; then the sources wait.
pub const QUEUE: usize = 64;

/// Files of logs, processes and counters are kept open: as many as the system allows this user, up to this.
const DESCRIPTORS: u64 = 8192;

/// Raises the limit of this process on open files. Before anything is opened that is kept.
pub fn allow_more_descriptors() {
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.unwrap_or(DESCRIPTORS).min(DESCRIPTORS);
    if limit.current.is_some_and(|now| now < wanted) {
        // What cannot be kept open is opened at each look.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}

/// Runs the loop. Threads are not waited for at its end: a driver call or a file system may hang in one.
///
/// # Errors
/// If the system refuses an epoll descriptor, or those of `work`.
pub fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the event loop")?;
    let result = runtime.block_on(async {
        // A limit on the size of files is to fail the write, which is reported, and not to kill.
        let _limit = signal(SignalKind::from_raw(libc::SIGXFSZ)).context("signal handlers")?;
        work.await
    });
    runtime.shutdown_background();
    result
}

/// The signals that end the program in an orderly way. A hangup that was ignored from the start (`nohup`) stays ignored.
pub fn ending() -> Vec<SignalKind> {
    let hangup = SignalKind::hangup();
    let all = [SignalKind::interrupt(), SignalKind::terminate(), hangup];
    let ignored = std::fs::read_to_string("/proc/self/status").ok().and_then(|status| ignored_signals(&status)).unwrap_or(0);
    let is_ignored = ignored >> (hangup.as_raw_value() - 1) & 1 == 1;
    all.into_iter().filter(|kind| *kind != hangup || !is_ignored).collect()
}

/// A bit for each, as /proc/PID/status has them.
fn ignored_signals(status: &str) -> Option<u64> {
    let bits = status.lines().find_map(|line| line.strip_prefix("SigIgn:"))?;
    u64::from_str_radix(bits.trim(), 16).ok()
}

/// Signals as they come.
pub struct Signals(Vec<(SignalKind, Signal)>);

impl Signals {
    /// Must be called within [`run`].
    ///
    /// # Errors
    /// If the handlers cannot be installed.
    pub fn of(kinds: &[SignalKind]) -> Result<Signals> {
        let all: std::io::Result<_> = kinds.iter().map(|kind| Ok((*kind, signal(*kind)?))).collect();
        Ok(Signals(all.context("signal handlers")?))
    }

    pub async fn next(&mut self) -> SignalKind {
        poll_fn(|cx| {
            let come = self.0.iter_mut().find_map(|(kind, signal)| signal.poll_recv(cx).is_ready().then_some(*kind));
            come.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}
