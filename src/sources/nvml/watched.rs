//! GPUs asked one at a time by one thread, so that a driver call that does not return holds up its GPU and nothing else: the thread is
//! then left to that GPU, and a new one asks the others. Knows nothing of NVML.
//!
//! One thread for all, and not one each, because that costs half (measured on 8 GPUs).

use super::{Answer, Ask};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What can be asked about one GPU. May block for ever.
pub(super) trait Gpu: Send {
    fn answer(&mut self, ask: &Ask, doing: &Doing) -> Answer;
}

/// The call that a GPU is asked with right now, for others to see.
#[derive(Clone, Default)]
pub(super) struct Doing(Arc<Mutex<Calls>>);

#[derive(Default)]
struct Calls {
    now: &'static str,
    /// For the test that prints what each call costs on a machine with GPUs.
    #[cfg(test)]
    since: Option<Instant>,
    #[cfg(test)]
    spent: std::collections::BTreeMap<&'static str, (u32, Duration)>,
}

impl Doing {
    pub fn set(&self, call: &'static str) {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        #[cfg(test)]
        {
            let before = calls.now;
            if let Some(since) = calls.since.replace(Instant::now()) {
                let spent = calls.spent.entry(before).or_default();
                *spent = (spent.0 + 1, spent.1 + since.elapsed());
            }
        }
        calls.now = call;
    }

    fn get(&self) -> &'static str {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).now
    }

    /// Calls made and time spent in each.
    #[cfg(test)]
    pub fn spent(&self) -> std::collections::BTreeMap<&'static str, (u32, Duration)> {
        self.0.lock().unwrap().spent.clone()
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
    pub doing: Doing,
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
