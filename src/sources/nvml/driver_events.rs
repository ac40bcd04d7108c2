//! What the driver reports of GPUs by itself, through NVML's events: Xids at once, also for users who may not read the kernel's log.
//! Only what happens after it has been asked for is reported.

use super::raw;
use crate::observe::gpu::GpuEvent;
use crate::observe::{Body, SourceState};
use crate::sources::{Setup, Source, SourceError};
use nvml_wrapper::Nvml;
use nvml_wrapper::error::NvmlError;
use std::sync::OnceLock;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

/// Uncorrected ECC errors, Xids, a storm of corrected errors, retired rows and their failure, poison, a GPU that is not available,
/// another recovery action.
const WANTED: u64 = 0x2 | XID | 0x200 | 0x400 | 0x800 | 0x1000 | 0x2000 | 0x4000 | 0x8000;
const XID: u64 = 0x8;
/// A GPU that goes mad reports thousands; what is left comes with the next poll.
const EVENTS_PER_POLL: usize = 256;
/// Longest time in one call of the driver.
const WAIT: Duration = Duration::from_secs(1);

pub fn make_events(setup: &mut Setup) -> Box<dyn Source> {
    Box::new(Events::new(setup.interval, Box::new(Thread::start)))
}

/// Something that gives one event after the other.
pub trait Ear: Send {
    /// The next event, `None` if none came in time.
    ///
    /// # Errors
    /// If it cannot hear any more.
    fn next(&mut self, patience: Duration) -> Result<Option<GpuEvent>, SourceError>;

    /// What it cannot hear.
    fn deaf_to(&self) -> Option<String>;
}

/// Begins to listen.
pub type Open = Box<dyn FnMut() -> Result<Box<dyn Ear>, SourceError> + Send>;

/// The source of what is heard.
pub struct Events {
    every: Duration,
    open: Open,
    ear: Option<Box<dyn Ear>>,
    /// What came while it waited.
    arrived: Option<Result<GpuEvent, SourceError>>,
}

impl Events {
    pub fn new(every: Duration, open: Open) -> Events {
        Events { every, open, ear: None, arrived: None }
    }
}

impl Source for Events {
    fn every(&self) -> Duration {
        self.every
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        let ear = match &mut self.ear {
            Some(ear) => ear,
            none => none.insert((self.open)()?),
        };
        let mut events = Vec::new();
        let mut trouble = None;
        let mut next = self.arrived.take().map(|first| first.map(Some));
        while events.len() < EVENTS_PER_POLL {
            match next.take().unwrap_or_else(|| ear.next(Duration::ZERO)) {
                Ok(Some(event)) => events.push(event),
                Ok(None) => break,
                Err(err) => {
                    trouble = Some(err);
                    break;
                }
            }
        }
        if !events.is_empty() {
            out.push(Body::GpuEvents { events });
        }
        match trouble {
            None => Ok(()),
            Some(err) => {
                // Without the GPU that is gone the others are heard again.
                self.ear = None;
                Err(err)
            }
        }
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        Some((SourceState::Ok, self.ear.as_ref()?.deaf_to()?))
    }

    fn wait(&mut self, timeout: Duration) {
        match &mut self.ear {
            Some(ear) if self.arrived.is_none() => self.arrived = ear.next(timeout.min(WAIT)).transpose(),
            _ => std::thread::sleep(timeout),
        }
    }
}

/// A thread of its own, which waits in the driver: it may not come back, and needs more stack than a source has.
struct Thread {
    told: Receiver<Result<GpuEvent, SourceError>>,
    /// GPUs that give no events, and why.
    deaf: Vec<(u32, String)>,
}

/// Started once, and never shut down: see `device::open`.
static NVML: OnceLock<Nvml> = OnceLock::new();

impl Thread {
    fn start() -> Result<Box<dyn Ear>, SourceError> {
        let (opened, opening) = channel();
        let (tell, told) = channel();
        let work = move || match listen() {
            Ok((mut set, deaf)) => {
                let mut wanted = opened.send(Ok(deaf)).is_ok();
                while wanted {
                    let next = match set.wait(WAIT.as_millis() as u32) {
                        Ok(None) => continue,
                        Ok(Some(event)) => Ok(event),
                        Err(err) => Err(SourceError::Failed(format!("nvmlEventSetWait_v2: {err}"))),
                    };
                    wanted = next.is_ok();
                    wanted &= tell.send(next).is_ok();
                }
            }
            // Whoever has asked waits for it.
            Err(err) => drop(opened.send(Err(err))),
        };
        std::thread::Builder::new()
            .name("nvml events".into())
            .spawn(work)
            .map_err(|err| SourceError::Failed(format!("thread for events: {}", crate::base::words::io_words(&err))))?;
        let deaf = opening.recv().unwrap_or_else(|_| Err(SourceError::Failed("the thread for events has ended".into())))?;
        Ok(Box::new(Thread { told, deaf }))
    }
}

fn listen() -> Result<(raw::EventSet, Vec<(u32, String)>), SourceError> {
    let nvml = match NVML.get() {
        Some(nvml) => nvml,
        None => {
            let started = Nvml::init().map_err(|err| without_nvml(&err))?;
            NVML.get_or_init(|| started)
        }
    };
    let count = nvml.device_count().map_err(|err| without_nvml(&err))?;
    if count == 0 {
        return Err(SourceError::Absent("NVML shows no GPU here".into()));
    }
    let mut set = raw::EventSet::new(nvml).map_err(|err| SourceError::Failed(format!("nvmlEventSetCreate: {err}")))?;
    let mut deaf = Vec::new();
    let mut denied = false;
    for index in 0..count {
        if let Err(err) = nvml.device_by_index(index).and_then(|device| set.register(index, &device, WANTED)) {
            denied |= matches!(err, NvmlError::NoPermission);
            deaf.push((index, err.to_string()));
        }
    }
    match deaf.first() {
        Some((_, why)) if deaf.len() == count as usize => {
            let text = format!("nvmlDeviceRegisterEvents: {why}; Xids are seen in the kernel log only");
            Err(if denied { SourceError::Denied(text) } else { SourceError::Absent(text) })
        }
        _ => Ok((set, deaf)),
    }
}

/// The source that asks NVML for everything else reports why.
fn without_nvml(_: &NvmlError) -> SourceError {
    SourceError::Absent("no events of GPUs: NVML cannot be opened".into())
}

impl Ear for Thread {
    fn next(&mut self, patience: Duration) -> Result<Option<GpuEvent>, SourceError> {
        match self.told.recv_timeout(patience) {
            Ok(told) => told.map(Some),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(SourceError::Failed("the thread for events has ended".into())),
        }
    }

    fn deaf_to(&self) -> Option<String> {
        let (_, why) = self.deaf.first()?;
        let which: Vec<String> = self.deaf.iter().map(|(index, _)| index.to_string()).collect();
        Some(format!("no events of GPU {}: {why}", which.join(", ")))
    }
}
