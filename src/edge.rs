//! Where a live program meets the world: one loop on one thread, which waits for signals, batches of the sources, the terminal and the
//! clock at once and never for anything else. What blocks has a thread of its own and sends through a bounded channel.

pub mod outlet;

use crate::feed::{self, Batch};
use anyhow::{Context as _, Result};
use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;

/// Batches wait here while the loop is busy; then the sources wait.
pub const QUEUE: usize = 64;

/// Runs the loop. Threads are not waited for at its end: a driver call or a file system may hang in one.
///
/// # Errors
/// If the system refuses an epoll descriptor, or those of `work`.
pub fn run<T>(work: impl Future<Output = Result<T>>) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().context("the event loop")?;
    let result = runtime.block_on(work);
    runtime.shutdown_background();
    result
}

/// The channel from the sources to the loop.
pub fn batches() -> (feed::Send, mpsc::Receiver<Batch>) {
    let (tx, rx) = mpsc::channel(QUEUE);
    (Arc::new(move |batch| tx.blocking_send(batch).is_ok()), rx)
}

/// The signals that end the program in an orderly way.
pub fn ending() -> [SignalKind; 3] {
    [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::hangup()]
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
