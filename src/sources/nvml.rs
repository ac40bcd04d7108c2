//! GPUs through NVML: decides when each GPU is asked what, and what to say of one that does not answer. Makes no NVML call itself.
//!
//! GPUs are asked one after the other by one thread ([`watched`]). One that does not answer in time costs that poll the deadline,
//! once, and keeps the thread; after that it is only looked at, and reported, until its call returns, and a new thread asks the others.

mod device;
mod driver_events;
mod pci;
mod raw;
mod topology;
mod watched;

pub use device::{GpmPace, cannot_open, gpm_of, link_rates, sm_count};
pub use driver_events::{Ear, Events, make_events};
pub use pci::{bus_id, gpus_from_pci};
pub use topology::{Links, PAIRS_PER_POLL, Topology};
pub use watched::{Doing, Gpu};

use super::{Hint, Hints, Setup, Source, SourceError};
use crate::observe::gpu::{GpuHealth, GpuInfo, GpuPair, GpuProcesses, GpuSample, GpuTrouble, GpuTroubleKind, NvLinks};
use crate::observe::{Body, SourceState};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use watched::{Hand, Waited, Watched};

/// 0.6 ms a GPU (H200, training).
const PROCESSES_EVERY: Duration = Duration::from_secs(5);
/// 1.7 ms a GPU.
const HEALTH_EVERY: Duration = Duration::from_secs(15);
/// Counters that only matter as a trend, and dear ones: every so many looks at health.
const TREND_EVERY: u32 = 3;

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    let roots = setup.roots.clone();
    let interval = setup.interval;
    let open = Arc::new(move || device::open(&roots, interval));
    Box::new(Nvml::new(open, Pace::usual(interval), setup.to_procs.clone()))
}

/// Below `--sysroot` the PCI tree is all that shows GPUs.
pub fn from_pci(roots: &super::Roots) -> Vec<Body> {
    gpus_from_pci(roots).into_iter().map(Body::GpuInfo).collect()
}

/// What a GPU is asked in one go.
#[derive(Clone, Debug, Default)]
pub struct Ask {
    pub sample: bool,
    pub info: bool,
    pub processes: bool,
    pub health: bool,
    /// With `health`: error counters of NVLink and PCIe, remapped rows.
    pub trends: bool,
    pub links: bool,
    /// The other halves of pairs.
    pub pairs: Vec<u32>,
}

/// What it answered: `None` also where it could not.
#[derive(Clone, Debug, Default)]
pub struct Answer {
    pub sample: Option<GpuSample>,
    pub info: Option<GpuInfo>,
    pub processes: Option<GpuProcesses>,
    pub health: Option<GpuHealth>,
    pub links: Option<Links>,
    /// Where something of it is new.
    pub nvlinks: Option<NvLinks>,
    pub pairs: Vec<GpuPair>,
    pub gpm_denied: bool,
}

/// How often GPUs are asked, and how long they are waited for.
#[derive(Clone, Copy)]
pub struct Pace {
    pub interval: Duration,
    /// For an answer of all GPUs together.
    pub deadline: Duration,
    /// Until a GPU that could not say who it is (lost at start) is asked again.
    pub info: Duration,
}

impl Pace {
    /// With the times that suit a driver under load, for polls at this interval.
    pub fn usual(interval: Duration) -> Pace {
        // A sweep over 8 GPUs takes some 40 ms; a healthy driver under load has been seen to take 1 s.
        Pace { interval, deadline: Duration::from_secs(2).max(interval * 2), info: Duration::from_secs(10) }
    }

    /// How long the next GPU is waited for. When one has used up the time, the others still get some: they answer in a few milliseconds.
    pub fn patience(&self, wasted: Duration) -> Duration {
        self.deadline.saturating_sub(wasted).max(self.deadline / 8)
    }
}

/// All GPUs, in the order of their indexes.
pub type Opened = Result<Vec<Box<dyn Gpu>>, SourceError>;
/// Loads NVML. May block.
pub type Open = Arc<dyn Fn() -> Opened + Send + Sync>;

/// The source of everything that NVML is asked for.
pub struct Nvml {
    open: Open,
    pace: Pace,
    to_procs: Hints,
    state: State,
}

enum State {
    Closed,
    /// NVML is being loaded, by a thread, because that may block as well.
    Opening {
        opened: Receiver<Opened>,
        since: Instant,
    },
    Open(Box<Sweep>),
}

impl Nvml {
    pub fn new(open: Open, pace: Pace, to_procs: Hints) -> Self {
        Nvml { open, pace, to_procs, state: State::Closed }
    }

    fn open(&mut self) -> Result<(), SourceError> {
        if matches!(self.state, State::Closed) {
            let (sender, opened) = channel();
            let open = Arc::clone(&self.open);
            std::thread::Builder::new()
                .name("nvml open".into())
                .spawn(move || sender.send(open()))
                .map_err(|err| SourceError::Failed(format!("thread for NVML: {}", super::io_words(&err))))?;
            self.state = State::Opening { opened, since: Instant::now() };
        }
        if let State::Opening { opened, since } = &self.state {
            // Without persistence mode the driver wakes every GPU first: seconds.
            let gpus = match opened.recv_timeout(self.pace.deadline * 5) {
                Ok(Ok(gpus)) => gpus,
                Ok(Err(err)) => {
                    self.state = State::Closed;
                    return Err(err);
                }
                Err(RecvTimeoutError::Timeout) => {
                    return Err(SourceError::Failed(format!("nvmlInit_v2 has not returned for {} s", since.elapsed().as_secs())));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    self.state = State::Closed;
                    return Err(SourceError::Failed("NVML could not be opened: its thread ended".into()));
                }
            };
            self.state = State::Open(Box::new(Sweep::new(gpus, self.pace, self.to_procs.clone())));
        }
        Ok(())
    }
}

impl Source for Nvml {
    fn every(&self) -> Duration {
        self.pace.interval
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        self.open()?;
        if let State::Open(sweep) = &mut self.state {
            sweep.run(out);
        }
        Ok(())
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        match &self.state {
            State::Open(sweep) => sweep.remark(),
            State::Closed | State::Opening { .. } => None,
        }
    }
}

/// The GPUs and how far each is behind with what.
struct Sweep {
    gpus: Vec<One>,
    hand: Hand,
    pace: Pace,
    to_procs: Hints,
    processes_due: Instant,
    topology: Topology,
    gpm_denied: bool,
}

struct One {
    index: u32,
    watched: Watched,
    bus_id: Option<String>,
    known: bool,
    info_due: Instant,
    /// `None`: not asked yet.
    health_due: Option<Instant>,
    health_looks: u32,
    pids: Vec<u32>,
    trouble: Option<GpuTrouble>,
}

/// What a sweep has gathered so far.
#[derive(Default)]
struct Found {
    infos: Vec<GpuInfo>,
    samples: Vec<GpuSample>,
    processes: Vec<GpuProcesses>,
    health: Vec<GpuHealth>,
    nvlinks: Vec<NvLinks>,
}

impl Sweep {
    fn new(gpus: Vec<Box<dyn Gpu>>, pace: Pace, to_procs: Hints) -> Self {
        let now = Instant::now();
        let gpus: Vec<One> = (0..).zip(gpus).map(|(index, gpu)| One::new(index, gpu, now)).collect();
        let topology = Topology::new(gpus.len() as u32, now);
        Sweep { gpus, hand: Hand::start(), pace, to_procs, processes_due: now, topology, gpm_denied: false }
    }

    fn run(&mut self, out: &mut Vec<Body>) {
        let began = Instant::now();
        let processes = began >= self.processes_due;
        if processes {
            self.processes_due = began + PROCESSES_EVERY;
        }
        let mut found = Found::default();
        let mut wasted = Duration::ZERO;
        for at in 0..self.gpus.len() {
            self.collect_late(at, &mut found);
            if self.gpus[at].watched.is_idle() {
                let ask = self.next_ask(at, processes, began);
                self.gpus[at].watched.ask(ask, &self.hand);
                let patience = self.pace.patience(wasted);
                let waited = self.gpus[at].watched.wait(patience);
                if matches!(waited, Waited::NotYet) {
                    wasted += patience;
                    // The thread is in a call that may never return: it is left to this GPU.
                    self.hand = Hand::start();
                }
                self.take(at, waited, &mut found, true);
            }
            self.report_silence(at, &mut found);
        }
        self.tell(found, processes, out);
    }

    fn next_ask(&mut self, at: usize, processes: bool, now: Instant) -> Ask {
        let busy: Vec<bool> = self.gpus.iter().map(|gpu| !gpu.watched.is_idle()).collect();
        let count = self.gpus.len() as u32;
        let gpu = &mut self.gpus[at];
        let info = !gpu.known && now >= gpu.info_due;
        if info {
            gpu.info_due = now + self.pace.info;
        }
        let health = gpu.health_due.is_none_or(|due| now >= due);
        if health {
            // The first round comes at once; after it each GPU has its own turn.
            let wait = if gpu.health_due.is_none() { HEALTH_EVERY * (gpu.index + 1) / count } else { HEALTH_EVERY };
            gpu.health_due = Some(now + wait);
        }
        let trends = health && gpu.health_looks.is_multiple_of(TREND_EVERY);
        gpu.health_looks += u32::from(health);
        let (links, pairs) = self.topology.next(gpu.index, &busy);
        Ask { sample: true, info, processes, health, trends, links, pairs }
    }

    /// An answer that came after the last sweep had stopped waiting for it.
    fn collect_late(&mut self, at: usize, found: &mut Found) {
        if self.gpus[at].watched.silent().is_some() {
            let waited = self.gpus[at].watched.wait(Duration::ZERO);
            self.take(at, waited, found, false);
        }
    }

    /// Keeps what came. A late sample is dropped: nobody knows when it was taken, and a new one follows at once.
    fn take(&mut self, at: usize, waited: Waited, found: &mut Found, in_time: bool) {
        let gpu = &mut self.gpus[at];
        let answer = match waited {
            Waited::Answer(answer) => *answer,
            Waited::NotYet | Waited::Dead => return,
        };
        if in_time {
            gpu.trouble = answer.sample.as_ref().and_then(|sample| sample.trouble.clone());
            found.samples.extend(answer.sample);
        }
        if let Some(info) = answer.info {
            gpu.known = true;
            gpu.bus_id = info.bus_id.clone();
            found.infos.push(info);
        }
        if let Some(processes) = answer.processes {
            gpu.pids = processes.processes.iter().map(|p| p.pid).collect();
            found.processes.push(processes);
        }
        found.health.extend(answer.health);
        found.nvlinks.extend(answer.nvlinks);
        self.gpm_denied |= answer.gpm_denied;
        self.topology.learn(gpu.index, answer.links, answer.pairs);
    }

    fn report_silence(&mut self, at: usize, found: &mut Found) {
        let gpu = &mut self.gpus[at];
        let trouble = match gpu.watched.silent() {
            Some((silent, call)) if silent >= self.pace.deadline => {
                GpuTrouble { kind: GpuTroubleKind::NotAnswering, detail: format!("{call} has not returned for {} s", silent.as_secs()) }
            }
            Some(_) => return,
            None if gpu.watched.is_idle() => return,
            None => GpuTrouble { kind: GpuTroubleKind::Failed, detail: "the thread that asks this GPU has ended".into() },
        };
        gpu.trouble = Some(trouble.clone());
        found.samples.push(GpuSample { index: gpu.index, trouble: Some(trouble), ..GpuSample::default() });
    }

    fn tell(&mut self, found: Found, processes: bool, out: &mut Vec<Body>) {
        out.extend(found.infos.into_iter().map(Body::GpuInfo));
        if !found.samples.is_empty() {
            out.push(Body::Gpus { gpus: found.samples });
        }
        if !found.processes.is_empty() {
            out.push(Body::GpuProcesses { gpus: found.processes });
        }
        if processes {
            let pids: BTreeSet<u32> = self.gpus.iter().flat_map(|gpu| &gpu.pids).copied().collect();
            self.to_procs.send(Hint::GpuPids(pids.into_iter().collect()));
        }
        if !found.health.is_empty() {
            out.push(Body::GpuHealth { gpus: found.health });
        }
        out.extend(found.nvlinks.into_iter().map(Body::Nvlinks));
        let bus_ids: Vec<Option<&str>> = self.gpus.iter().map(|gpu| gpu.bus_id.as_deref()).collect();
        out.extend(self.topology.take(&bus_ids).map(Body::GpuTopology));
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        let sick = |kind| {
            let of_kind =
                self.gpus.iter().filter(move |gpu| gpu.trouble.as_ref().is_some_and(|t| (t.kind == GpuTroubleKind::NotAnswering) == kind));
            of_kind.map(|gpu| gpu.index.to_string()).collect::<Vec<_>>().join(", ")
        };
        let silent = sick(true);
        if !silent.is_empty() {
            return Some((SourceState::Slow, format!("GPU {silent} does not answer; the others do")));
        }
        let failing = sick(false);
        if !failing.is_empty() {
            return Some((SourceState::Ok, format!("GPU {failing} answers with errors only")));
        }
        let text = "SM, tensor and DRAM activity (GPM) are closed to this user: run as root, or set NVreg_RestrictProfilingToAdminUsers=0";
        self.gpm_denied.then(|| (SourceState::Ok, text.into()))
    }
}

impl One {
    fn new(index: u32, gpu: Box<dyn Gpu>, now: Instant) -> One {
        One {
            index,
            watched: Watched::new(gpu),
            bus_id: None,
            known: false,
            info_due: now,
            health_due: None,
            health_looks: 0,
            pids: Vec::new(),
            trouble: None,
        }
    }
}
