//! What live commands without a screen share: sources, ticks and signals in, lines and a tape out.

use super::Env;
use crate::base::clean::escape;
use crate::base::words::io_words;
use crate::edge::diagnostics::complain;
use crate::edge::outlet::{Outlet, Stdout, is_gone};
use crate::edge::{self, Signals};
use crate::observe::Observation;
use crate::observe::TICK;
use crate::recording::tape;
use crate::sources::Setup;
use crate::sources::feed::{Batch, Feed};
use anyhow::{Context as _, Result};
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::sync::mpsc::Receiver;
use tokio::time::{Instant, sleep_until};

/// What is seen, one after the other; what it puts into the text is printed.
pub trait Each: FnMut(Observation, &mut String) -> Result<()> {}
impl<F: FnMut(Observation, &mut String) -> Result<()>> Each for F {}

/// Whose going away ends a command, besides signals and time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum For {
    /// Who reads what is printed.
    Reader,
    /// The recording: it is all that is wanted.
    Tape,
    /// Nobody: what is printed comes last, and the exit code matters as much.
    Result,
}

/// Observes until a signal comes, `duration` is over, or whom it is `for_` is gone. Everything is put on the tape before `each` sees it;
/// `each` also gets the last observation, `End`. Whether the recording, if one was asked for, holds all of that.
///
/// Neither a reader that does not read nor a disk that hangs keeps signals from ending it. What is printed and recorded is queued; while
/// a queue is full, nothing more is taken from the sources, which wait in turn, so that nothing is lost for a reader that is only slow.
///
/// # Errors
/// If the tape cannot be created or written, or `each` fails.
pub fn observe(env: &Env, setup: Setup, output: Option<&Path>, for_: For, duration: Option<Duration>, each: impl Each) -> Result<bool> {
    let tape = output.map(|path| tape::Writer::create(path, &env.header())).transpose()?;
    let (send, batches) = crate::sources::feed::channel();
    let mut feed = Feed::new();
    feed.start(setup, &send);
    edge::run(async {
        let done = Arc::default();
        let outputs = Outputs {
            printed: Outlet::start("output", Stdout::open()?, &done)?,
            tape: tape.map(|tape| Outlet::start("tape", tape, &done)).transpose()?,
            done,
            name: output.map_or("-".into(), |path| path.display().to_string()),
            for_,
            is_recorded: true,
        };
        let mut signals = Signals::of(&edge::ending())?;
        let mut live = Live { feed, batches, outputs, each, line: Vec::new() };
        let asked = live.go_round(&mut signals, duration.map(|d| Instant::now() + d)).await?;
        live.outputs.finish(&mut signals, asked).await
    })
}

struct Live<E> {
    feed: Feed,
    batches: Receiver<Batch>,
    outputs: Outputs,
    each: E,
    line: Vec<u8>,
}

impl<E: Each> Live<E> {
    /// Whether a signal ended it.
    async fn go_round(&mut self, signals: &mut Signals, end: Option<Instant>) -> Result<bool> {
        let mut next_tick = Instant::now() + TICK;
        loop {
            let has_room = self.outputs.has_room();
            let until = if has_room { Some(end.map_or(next_tick, |end| end.min(next_tick))) } else { end };
            let mut seen = Vec::new();
            let (mut asked, mut ticked) = (false, false);
            tokio::select! {
                biased;
                _ = signals.next() => asked = true,
                () = self.outputs.done.notified() => {}
                Some(batch) = self.batches.recv(), if has_room => self.feed.accept(batch, |o| seen.push(o)),
                () = sleep_until(until.unwrap_or(next_tick)), if until.is_some() => {}
            }
            let now = Instant::now();
            if has_room && now >= next_tick {
                self.feed.tick(|o| seen.push(o));
                next_tick = (next_tick + TICK).max(now);
                ticked = true;
            }
            // A reader that went away while there is nothing to print shows in no failed write.
            let deserted = ticked && self.outputs.for_ == For::Reader && is_gone(&io::stdout());
            let over = asked || deserted || self.outputs.are_over().await? || end.is_some_and(|end| now >= end);
            if over {
                seen.push(self.feed.end());
            }
            self.put(seen)?;
            if ticked {
                self.outputs.flush();
            }
            if over {
                return Ok(asked);
            }
        }
    }

    fn put(&mut self, seen: Vec<Observation>) -> Result<()> {
        let mut text = String::new();
        for observation in seen {
            if let Some(tape) = &self.outputs.tape {
                self.line.clear();
                tape::put_line(&observation, &mut self.line)?;
                tape.push(&self.line);
            }
            (self.each)(observation, &mut text)?;
        }
        self.outputs.printed.push(escape(&text).as_bytes());
        Ok(())
    }
}

struct Outputs {
    printed: Outlet,
    tape: Option<Outlet>,
    /// One of them has done something.
    done: Arc<Notify>,
    /// Of the tape.
    name: String,
    for_: For,
    /// Nothing was lost on the way to the tape.
    is_recorded: bool,
}

impl Outputs {
    fn has_room(&self) -> bool {
        self.printed.has_room() && self.tape.as_ref().is_none_or(Outlet::has_room)
    }

    fn flush(&self) {
        if let Some(tape) = &self.tape {
            tape.flush();
        }
    }

    /// Nobody takes what the command is for.
    async fn are_over(&mut self) -> Result<bool> {
        match self.tape.take_if(|tape| tape.has_ended()) {
            Some(tape) => self.lost(tape.end().await),
            None => Ok(self.printed.has_ended()),
        }
    }

    /// What became of the recording: nobody reads it any more, or the disk is full. That ends a command whose purpose it is, and is only
    /// reported by one that has more to do.
    fn lost(&mut self, written: io::Result<()>) -> Result<bool> {
        let why = match written {
            Ok(()) => return Ok(false),
            Err(err) if err.kind() == io::ErrorKind::BrokenPipe => return Ok(self.for_ == For::Tape),
            Err(err) => format!("{}: the recording ends here: {}{}", self.name, io_words(&err), remedy(err.kind())),
        };
        anyhow::ensure!(self.for_ != For::Tape, why);
        self.is_recorded = false;
        complain(&why);
        Ok(false)
    }

    /// Waits until everything is written, as [`Outlet::finish`] does.
    async fn finish(mut self, signals: &mut Signals, mut asked: bool) -> Result<bool> {
        if let Some(tape) = self.tape.take() {
            self.lost(tape.finish(signals, &mut asked).await)?;
        }
        match self.printed.finish(signals, &mut asked).await {
            Err(err) if !matches!(err.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::TimedOut) => Err(err).context("standard output"),
            _ => Ok(self.is_recorded),
        }
    }
}

/// What can be done about a recording that could not be written.
fn remedy(kind: io::ErrorKind) -> &'static str {
    match kind {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "; make room there, or record to another disk with -o FILE",
        io::ErrorKind::FileTooLarge => "; raise the limit (ulimit -f), or record to FILE.jsonl.gz, which is smaller",
        _ => "",
    }
}
