//! GPUs asked one at a time by one thread, so that a driver call that does not return holds up its GPU and nothing else: the thread is
//! then left to that GPU, and a new one asks the others. Knows nothing of NVML.
//!
//! One thread for all, and not one each, because that costs half (measured on 8 GPUs).

use super::{Answer, Ask};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What can be asked about one GPU. May block for ever.
pub trait Gpu: Send {
    /// Answers all that is asked. `doing` shows others the call that it is in.
    fn answer(&mut self, ask: &Ask, doing: &Doing) -> Answer;
}

/// The call that a GPU is asked with right now, for others to see.
#[derive(Clone, Default)]
pub struct Doing(Arc<Mutex<&'static str>>);

impl Doing {
    /// The call that comes now; empty after the last.
    pub fn set(&self, call: &'static str) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = call;
    }

    fn get(&self) -> &'static str {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// The thread that asks. Dropping it lets the thread end when its call returns.
pub(super) struct Hand {
    jobs: Option<Sender<Job>>,
}

impl Hand {
    pub fn start() -> Hand {
        let (jobs, inbox) = channel::<Job>();
        let work = move || {
            while let Ok(job) = inbox.recv() {
                job();
            }
        };
        let started = std::thread::Builder::new().name("nvml sweep".into()).spawn(work);
        Hand { jobs: started.is_ok().then_some(jobs) }
    }

    fn give(&self, job: Job) -> bool {
        self.jobs.as_ref().is_some_and(|jobs| jobs.send(job).is_ok())
    }
}

/// One GPU and the question that is open, if any.
pub(super) struct Watched {
    gpu: Arc<Mutex<Box<dyn Gpu>>>,
    answers: Receiver<Answer>,
    outbox: Sender<Answer>,
    doing: Doing,
    state: State,
}

#[derive(Clone, Copy)]
enum State {
    Idle,
    Asked {
        since: Instant,
    },
    /// The thread that asked it ended, or could not be started.
    Dead,
}

/// How a wait ended.
pub(super) enum Waited {
    Answer(Box<Answer>),
    NotYet,
    Dead,
}

impl Watched {
    pub fn new(gpu: Box<dyn Gpu>) -> Watched {
        let (outbox, answers) = channel();
        Watched { gpu: Arc::new(Mutex::new(gpu)), answers, outbox, doing: Doing::default(), state: State::Idle }
    }

    /// Nothing is outstanding: it may be asked.
    pub fn is_idle(&self) -> bool {
        matches!(self.state, State::Idle)
    }

    pub fn ask(&mut self, ask: Ask, hand: &Hand) {
        self.doing.set("its thread");
        let (gpu, outbox, doing) = (Arc::clone(&self.gpu), self.outbox.clone(), self.doing.clone());
        let job = move || {
            let answer = gpu.lock().unwrap_or_else(PoisonError::into_inner).answer(&ask, &doing);
            doing.set("");
            // Nobody waits any more when the program ends.
            let _ = outbox.send(answer);
        };
        self.state = if hand.give(Box::new(job)) { State::Asked { since: Instant::now() } } else { State::Dead };
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
