//! The loop that live commands without a screen share: sources, ticks, signals, a tape.

use super::Env;
use crate::feed::{Batch, Feed, TICK};
use crate::observe::Observation;
use crate::sources::Setup;
use crate::tape;
use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::io::Write;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::{Duration, Instant};

/// Batches wait here while the main loop is busy; then the sources wait.
pub const QUEUE: usize = 64;

enum Message {
    Batch(Batch),
    Signal,
}

/// Observes until a signal comes, `duration` is over, or `each` breaks. Everything is put on the tape before `each` sees it; `each`
/// also gets the last observation, `End`. `is_all` says that the recording is all that is wanted: without it there is no point.
///
/// # Errors
/// If the tape cannot be created or written, or `each` fails.
pub fn observe(
    env: &Env,
    setup: Setup,
    output: Option<&Path>,
    is_all: bool,
    duration: Option<Duration>,
    mut each: impl FnMut(Observation) -> Result<ControlFlow<()>>,
) -> Result<()> {
    let mut tape = output.map(|path| tape::Writer::create(path, &env.header())).transpose()?;
    let (tx, rx) = sync_channel::<Message>(QUEUE);
    on_signals(tx.clone(), || Message::Signal)?;
    let mut feed = Feed::start(setup, &sender(tx, Message::Batch));
    let started = Instant::now();
    let mut next_tick = started + TICK;
    let mut over = false;
    while !over {
        let mut seen = Vec::new();
        let until = duration.map_or(next_tick, |d| next_tick.min(started + d));
        match rx.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(Message::Batch(batch)) => feed.accept(batch, |o| seen.push(o)),
            Ok(Message::Signal) => over = true,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        let ticked = Instant::now() >= next_tick;
        if ticked {
            feed.tick(|o| seen.push(o));
            next_tick = (next_tick + TICK).max(Instant::now());
        }
        over |= duration.is_some_and(|d| started.elapsed() >= d);
        if over {
            seen.push(feed.end());
        }
        for observation in seen {
            let written = tape.as_mut().map_or(Ok(()), |tape| tape.write(&observation));
            if lost(written, output, is_all)? {
                tape = None;
                over |= is_all;
            }
            over |= each(observation)?.is_break();
        }
        let flushed = tape.as_mut().filter(|_| ticked).map_or(Ok(()), tape::Writer::flush);
        if lost(flushed, output, is_all)? {
            tape = None;
            over |= is_all;
        }
    }
    lost(tape.map_or(Ok(()), tape::Writer::finish), output, is_all).map(drop)
}

/// Whether the recording ended here: nobody reads it any more, or the disk is full. That ends a command whose purpose it is, and
/// is only said by one that has more to do.
fn lost(written: std::io::Result<()>, output: Option<&Path>, is_all: bool) -> Result<bool> {
    match written {
        Ok(()) => Ok(false),
        Err(err) if err.kind() == std::io::ErrorKind::BrokenPipe => Ok(true),
        Err(err) if is_all => Err(err).with_context(|| writing(output)),
        Err(err) => {
            let _ = writeln!(std::io::stderr(), "nccl-top: {}: {}", writing(output), crate::sources::io_words(&err));
            Ok(true)
        }
    }
}

fn writing(output: Option<&Path>) -> String {
    format!("{}: the recording ends here", output.map_or("-".into(), |p| p.display().to_string()))
}

/// A sender for the feed that wraps batches into the loop's own message.
pub fn sender<M: Send + 'static>(tx: SyncSender<M>, wrap: fn(Batch) -> M) -> crate::feed::Send {
    Arc::new(move |batch| tx.send(wrap(batch)).is_ok())
}

/// Sends a message at SIGINT, SIGTERM and SIGHUP.
///
/// # Errors
/// If the handlers cannot be installed.
pub fn on_signals<M: Send + 'static>(tx: SyncSender<M>, message: fn() -> M) -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("signal handlers")?;
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for _ in signals.forever() {
                if tx.send(message()).is_err() {
                    return;
                }
            }
        })
        .context("a thread for signals")?;
    Ok(())
}
