//! A thread per GPU, asked one at a time: a driver call that does not return holds up its GPU and nothing else. Knows nothing of NVML.

use super::{Answer, Ask};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What can be asked about one GPU. May block for ever.
pub(super) trait Gpu: Send {
    fn answer(&mut self, ask: &Ask, doing: &Doing) -> Answer;
}

/// The call that a GPU's thread is in, for others to see.
#[derive(Clone, Default)]
pub(super) struct Doing(Arc<Mutex<&'static str>>);

impl Doing {
    pub fn set(&self, call: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    fn get(&self) -> &'static str {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One GPU behind its thread.
pub(super) struct Watched {
    asks: Sender<Ask>,
    answers: Receiver<Answer>,
    doing: Doing,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Idle,
    Asked {
        since: Instant,
    },
    /// Its thread ended, or could not be started.
    Dead,
}

/// How a wait ended.
pub(super) enum Waited {
    Answer(Box<Answer>),
    NotYet,
    Dead,
}

impl Watched {
    /// The thread ends when this value is dropped, or never, if it is blocked then.
    pub fn start(index: u32, mut gpu: Box<dyn Gpu>) -> Watched {
        let (asks, inbox) = channel::<Ask>();
        let (outbox, answers) = channel();
        let doing = Doing::default();
        let told = doing.clone();
        let work = move || {
            while let Ok(ask) = inbox.recv() {
                if outbox.send(gpu.answer(&ask, &told)).is_err() {
                    break;
                }
            }
        };
        let started = std::thread::Builder::new().name(format!("nvml gpu{index}")).spawn(work);
        let state = if started.is_ok() { State::Idle } else { State::Dead };
        Watched { asks, answers, doing, state }
    }

    /// Nothing is outstanding: it may be asked.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    pub fn ask(&mut self, ask: Ask) {
        self.doing.set("its thread");
        self.state = match self.asks.send(ask) {
            Ok(()) => State::Asked { since: Instant::now() },
            Err(_) => State::Dead,
        };
    }

    /// Waits for the answer to what was asked, however long ago that was.
    pub fn wait(&mut self, patience: Duration) -> Waited {
        if matches!(self.state, State::Dead) {
            return Waited::Dead;
        }
        match self.answers.recv_timeout(patience) {
            Ok(answer) => {
                self.state = State::Idle;
                Waited::Answer(Box::new(answer))
            }
            Err(RecvTimeoutError::Timeout) => Waited::NotYet,
            Err(RecvTimeoutError::Disconnected) => {
                self.state = State::Dead;
                Waited::Dead
            }
        }
    }

    /// For how long the question has been open, and the call that it is in.
    pub fn silent(&self) -> Option<(Duration, &'static str)> {
        match self.state {
            State::Asked { since } => Some((since.elapsed(), self.doing.get())),
            State::Idle | State::Dead => None,
        }
    }
}
