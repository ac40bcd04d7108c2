//! What the loop of the screen waits for: signals, keys, what was done beside it, what sources have seen, and the clock.

use super::beside::Work;
use crate::edge::{QUEUE, Signals};
use crate::observe::Observation;
use crate::recording::tape;
use crate::recording::without::{self, Without};
use crate::sources::feed::Batch;
use crossterm::event::Event as Input;
use std::iter::from_fn;
use std::sync::Arc;
use std::time::Instant;
use tokio::signal::unix::SignalKind;
use tokio::sync::{Notify, mpsc};

pub(super) enum Message {
    /// `None`: the terminal is gone.
    Input(Option<Input>),
    Signal(SignalKind),
    Work(Work),
    Batch(Batch),
    Tape(FromTape),
}

/// Everything that the loop waits for, but the clock.
pub(super) struct Inbox {
    pub(super) signals: Signals,
    pub(super) inputs: mpsc::Receiver<Option<Input>>,
    pub(super) works: mpsc::UnboundedReceiver<Work>,
    /// Without a sender where a tape is shown.
    pub(super) batches: mpsc::Receiver<Batch>,
    /// Without a sender where the job itself is shown.
    pub(super) tape: mpsc::Receiver<FromTape>,
    /// The terminal has taken something.
    pub(super) sent: Arc<Notify>,
}

impl Inbox {
    /// What comes first, until then. Signals before keys: no flood of input may keep the program from ending.
    pub(super) async fn next(&mut self, wants_tape: bool, until: Instant) -> Option<Message> {
        tokio::select! {
            biased;
            kind = self.signals.next() => Some(Message::Signal(kind)),
            Some(input) = self.inputs.recv() => Some(Message::Input(input)),
            Some(work) = self.works.recv() => Some(Message::Work(work)),
            () = self.sent.notified() => None,
            Some(batch) = self.batches.recv() => Some(Message::Batch(batch)),
            Some(seen) = self.tape.recv(), if wants_tape => Some(Message::Tape(seen)),
            () = tokio::time::sleep_until(until.into()) => None,
        }
    }

    /// What else is there already, so much of each that none keeps the others out.
    pub(super) fn rest(&mut self) -> Vec<Message> {
        let mut rest: Vec<Message> = from_fn(|| self.inputs.try_recv().ok()).take(QUEUE).map(Message::Input).collect();
        rest.extend(from_fn(|| self.works.try_recv().ok()).take(QUEUE).map(Message::Work));
        rest.extend(from_fn(|| self.batches.try_recv().ok()).take(QUEUE).map(Message::Batch));
        rest
    }
}

/// From the thread that reads a tape ahead.
pub(super) enum FromTape {
    Seen(Box<Observation>),
    /// The tape is at its end, or broke; with the reason.
    End(Option<String>),
}

/// Reads a tape to its end, in a thread of its own.
pub(super) fn read(mut reader: tape::Reader, without: &[Without], tx: &mpsc::Sender<FromTape>) {
    loop {
        let message = match reader.read() {
            Ok(Some(seen)) => match without::filter(seen, without) {
                Some(seen) => FromTape::Seen(Box::new(seen)),
                None => continue,
            },
            Ok(None) => FromTape::End(reader.cut_off()),
            Err(err) => FromTape::End(Some(err.to_string())),
        };
        let last = matches!(message, FromTape::End(_));
        if tx.blocking_send(message).is_err() || last {
            return;
        }
    }
}

/// The program goes on after a stop.
pub(super) fn resumed() -> SignalKind {
    SignalKind::from_raw(libc::SIGCONT)
}
