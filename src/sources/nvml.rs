//! GPUs through NVML: decides when each GPU is asked what, and what to say of one that does not answer. Makes no NVML call itself.
//!
//! GPUs are asked one after the other by one thread ([`watched`]). One that does not answer in time costs that poll the deadline,
//! once, and keeps the thread; after that it is only looked at, and reported, until its call returns, and a new thread asks the others.

mod device;
mod events;
mod pci;
mod raw;
mod topology;
mod watched;

pub use events::make_events;
pub use pci::gpus_from_pci;

use super::{Hint, Hints, Setup, Source, SourceError};
use crate::observe::gpu::{GpuHealth, GpuInfo, GpuPair, GpuProcesses, GpuSample, GpuTrouble, GpuTroubleKind};
use crate::observe::{Body, SourceState};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};
use topology::{Links, Topology};
use watched::{Gpu, Hand, Waited, Watched};

/// 0.6 ms a GPU (H200, training).
const PROCESSES_EVERY: Duration = Duration::from_secs(5);
/// 1.7 ms a GPU.
const HEALTH_EVERY: Duration = Duration::from_secs(15);
/// Counters that only matter as a trend, and dear ones: every so many looks at health.
const TREND_EVERY: u32 = 3;
/// A GPU that could not say who it is (lost at start) is asked again.
const INFO_EVERY: Duration = Duration::from_secs(10);

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    let roots = setup.roots.clone();
    let interval = setup.interval;
    let open = Arc::new(move || device::open(&roots, interval));
    // A sweep over 8 GPUs takes some 40 ms; a healthy driver under load has been seen to take 1 s.
    let deadline = Duration::from_secs(2).max(setup.interval * 2);
    Box::new(Nvml::new(open, Pace { interval: setup.interval, deadline }, setup.to_procs.clone()))
}

/// Below `--sysroot` the PCI tree is all there is to tell of GPUs.
pub fn from_pci(roots: &super::Roots) -> Vec<Body> {
    gpus_from_pci(roots).into_iter().map(Body::GpuInfo).collect()
}

/// What a GPU is asked in one go.
#[derive(Clone, Debug, Default)]
struct Ask {
    sample: bool,
    info: bool,
    processes: bool,
    health: bool,
    /// With `health`: error counters of NVLink and PCIe, remapped rows.
    trends: bool,
    links: bool,
    /// The other halves of pairs.
    pairs: Vec<u32>,
}

/// What it answered: `None` also where it could not.
#[derive(Clone, Debug, Default)]
struct Answer {
    sample: Option<GpuSample>,
    info: Option<GpuInfo>,
    processes: Option<GpuProcesses>,
    health: Option<GpuHealth>,
    links: Option<Links>,
    pairs: Vec<GpuPair>,
    gpm_denied: bool,
}

#[derive(Clone, Copy)]
struct Pace {
    interval: Duration,
    deadline: Duration,
}

type Opened = Result<Vec<Box<dyn Gpu>>, SourceError>;
type Open = Arc<dyn Fn() -> Opened + Send + Sync>;

struct Nvml {
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
    fn new(open: Open, pace: Pace, to_procs: Hints) -> Self {
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
            self.state = State::Open(Box::new(Sweep::new(gpus, self.pace.deadline, self.to_procs.clone())));
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
    deadline: Duration,
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
}

/// How long the next GPU is waited for. When one has used up the time, the others still get some: they answer in a few milliseconds.
fn patience(deadline: Duration, wasted: Duration) -> Duration {
    deadline.saturating_sub(wasted).max(deadline / 8)
}

impl Sweep {
    fn new(gpus: Vec<Box<dyn Gpu>>, deadline: Duration, to_procs: Hints) -> Self {
        let now = Instant::now();
        let gpus: Vec<One> = (0..).zip(gpus).map(|(index, gpu)| One::new(index, gpu, now)).collect();
        let topology = Topology::new(gpus.len() as u32, now);
        Sweep { gpus, hand: Hand::start(), deadline, to_procs, processes_due: now, topology, gpm_denied: false }
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
                let patience = patience(self.deadline, wasted);
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
            gpu.info_due = now + INFO_EVERY;
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
        self.gpm_denied |= answer.gpm_denied;
        self.topology.learn(gpu.index, answer.links, answer.pairs);
    }

    fn report_silence(&mut self, at: usize, found: &mut Found) {
        let gpu = &mut self.gpus[at];
        let trouble = match gpu.watched.silent() {
            Some((silent, call)) if silent >= self.deadline => {
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicBool, Ordering};
    use watched::Doing;

    /// Where a GPU does not answer.
    const DEADLINE: Duration = Duration::from_millis(200);
    /// Where all answer, however busy the machine.
    const PATIENT: Duration = Duration::from_secs(60);

    /// A GPU whose call blocks while `stuck` is set, and which is lost while `lost` is.
    #[derive(Default)]
    struct Switches {
        stuck: AtomicBool,
        lost: AtomicBool,
        asked: Mutex<Vec<Ask>>,
    }

    struct Fake {
        index: u32,
        switches: Arc<Switches>,
    }

    impl Gpu for Fake {
        fn answer(&mut self, ask: &Ask, doing: &Doing) -> Answer {
            self.switches.asked.lock().unwrap().push(ask.clone());
            doing.set("nvmlDeviceGetUtilizationRates");
            while self.switches.stuck.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            let index = self.index;
            if self.switches.lost.load(Ordering::Relaxed) {
                let trouble = GpuTrouble { kind: GpuTroubleKind::Lost, detail: "lost".into() };
                return Answer { sample: Some(GpuSample { index, trouble: Some(trouble), ..GpuSample::default() }), ..Answer::default() };
            }
            Answer {
                sample: Some(GpuSample { index, util_pct: Some(98), ..GpuSample::default() }),
                info: ask.info.then(|| GpuInfo { index, bus_id: Some(format!("0000:0{index}:00.0")), ..GpuInfo::default() }),
                processes: ask.processes.then(|| GpuProcesses {
                    index,
                    processes: vec![crate::observe::gpu::GpuProcess { pid: 100 + index, mem_bytes: None }],
                }),
                health: ask.health.then(|| GpuHealth { index, ..GpuHealth::default() }),
                links: ask.links.then(|| Links { to_switch: 18 - index, peers: Vec::new() }),
                pairs: ask.pairs.iter().map(|&b| GpuPair { a: index, b, pcie_level: Some(30), ..GpuPair::default() }).collect(),
                gpm_denied: false,
            }
        }
    }

    struct Bench {
        source: Nvml,
        gpus: Vec<Arc<Switches>>,
        hints: Receiver<Hint>,
    }

    fn bench(count: u32, deadline: Duration) -> Bench {
        let gpus: Vec<Arc<Switches>> = (0..count).map(|_| Arc::default()).collect();
        let shared = gpus.clone();
        let open = move || -> Opened {
            let fake = |(index, switches): (u32, &Arc<Switches>)| Box::new(Fake { index, switches: switches.clone() }) as Box<dyn Gpu>;
            Ok((0..).zip(&shared).map(fake).collect())
        };
        let (to_procs, hints) = Hints::line();
        let pace = Pace { interval: Duration::from_millis(10), deadline };
        Bench { source: Nvml::new(Arc::new(open), pace, to_procs), gpus, hints }
    }

    impl Bench {
        fn poll(&mut self) -> Vec<Body> {
            let mut out = Vec::new();
            self.source.poll(&mut out).unwrap();
            out
        }

        fn samples(&mut self) -> Vec<GpuSample> {
            self.poll().into_iter().find_map(|body| if let Body::Gpus { gpus } = body { Some(gpus) } else { None }).unwrap_or_default()
        }
    }

    /// Polls until the GPUs have these troubles: a thread that answers may have to wait for the processor longer than a deadline.
    fn until(bench: &mut Bench, wanted: &[Option<GpuTroubleKind>]) -> Vec<GpuSample> {
        let began = Instant::now();
        loop {
            let samples = bench.samples();
            if troubles(&samples) == wanted {
                return samples;
            }
            assert!(began.elapsed() < PATIENT, "{:?}", troubles(&samples));
        }
    }

    fn troubles(samples: &[GpuSample]) -> Vec<Option<GpuTroubleKind>> {
        samples.iter().map(|s| s.trouble.as_ref().map(|t| t.kind)).collect()
    }

    #[test]
    fn the_first_poll_tells_who_the_gpus_are_and_how_they_do() {
        let mut bench = bench(3, PATIENT);
        let kinds: Vec<&str> = bench
            .poll()
            .iter()
            .map(|body| match body {
                Body::GpuInfo(_) => "info",
                Body::Gpus { gpus } if gpus.len() == 3 => "samples",
                Body::GpuProcesses { gpus } if gpus.len() == 3 => "processes",
                Body::GpuHealth { gpus } if gpus.len() == 3 => "health",
                _ => "other",
            })
            .collect();
        assert_eq!(kinds, ["info", "info", "info", "samples", "processes", "health"]);
        assert_eq!(bench.hints.try_recv(), Ok(Hint::GpuPids(vec![100, 101, 102])));
        assert_eq!(bench.samples().len(), 3, "and the second one only how they do");
    }

    #[test]
    fn a_gpu_that_blocks_is_named_and_the_others_go_on() {
        let mut bench = bench(4, DEADLINE);
        bench.poll();
        bench.gpus[1].stuck.store(true, Ordering::Relaxed);

        let first = until(&mut bench, &[None, Some(GpuTroubleKind::NotAnswering), None, None]);
        assert!(first[1].trouble.as_ref().unwrap().detail.starts_with("nvmlDeviceGetUtilizationRates has not returned for "));
        let (state, text) = bench.source.remark().unwrap();
        assert_eq!((state, text.as_str()), (SourceState::Slow, "GPU 1 does not answer; the others do"));

        let asked_before = bench.gpus[1].asked.lock().unwrap().len();
        assert_eq!(bench.samples()[1].trouble.as_ref().map(|t| t.kind), Some(GpuTroubleKind::NotAnswering));
        assert_eq!(bench.gpus[1].asked.lock().unwrap().len(), asked_before, "it is not asked again, and so not waited for");

        bench.gpus[1].stuck.store(false, Ordering::Relaxed);
        let back = until(&mut bench, &[None; 4]);
        assert_eq!(back[1].util_pct, Some(98));
        assert_eq!(bench.source.remark(), None);
    }

    #[test]
    fn all_gpus_may_block_and_the_poll_still_ends() {
        let mut bench = bench(8, DEADLINE);
        bench.poll();
        for gpu in &bench.gpus {
            gpu.stuck.store(true, Ordering::Relaxed);
        }
        until(&mut bench, &[Some(GpuTroubleKind::NotAnswering); 8]);
        for gpu in &bench.gpus {
            gpu.stuck.store(false, Ordering::Relaxed);
        }
        let wasted = (0..8).fold(Duration::ZERO, |wasted, _| wasted + patience(DEADLINE, wasted));
        assert!(wasted < DEADLINE * 2, "{wasted:?}");
    }

    #[test]
    fn a_lost_gpu_keeps_its_row_and_is_asked_who_it_is_when_it_is_back() {
        let mut bench = bench(2, PATIENT);
        bench.gpus[0].lost.store(true, Ordering::Relaxed);
        let first = bench.poll();
        let named: Vec<u32> = first.iter().filter_map(|b| if let Body::GpuInfo(info) = b { Some(info.index) } else { None }).collect();
        assert_eq!(named, [1]);
        assert_eq!(troubles(&bench.samples()), [Some(GpuTroubleKind::Lost), None]);
        assert_eq!(bench.source.remark().unwrap().0, SourceState::Ok);

        bench.gpus[0].lost.store(false, Ordering::Relaxed);
        if let State::Open(sweep) = &mut bench.source.state {
            sweep.gpus[0].info_due = Instant::now();
        }
        let back = bench.poll();
        assert!(back.iter().any(|b| matches!(b, Body::GpuInfo(info) if info.index == 0)));
    }

    #[test]
    fn the_topology_is_asked_a_little_at_a_time_and_told_once() {
        let mut bench = bench(8, PATIENT);
        let mut told = Vec::new();
        for _ in 0..12 {
            told.extend(bench.poll().into_iter().filter_map(|b| if let Body::GpuTopology(t) = b { Some(t) } else { None }));
        }
        let [topology] = told.as_slice() else { panic!("{told:?}") };
        assert_eq!(topology.pairs.len(), 28);
        assert_eq!((topology.pairs[0].a, topology.pairs[0].b, topology.pairs[0].nvlinks), (0, 1, Some(17)), "min of 18 and 17");
        let most = bench.gpus.iter().flat_map(|g| g.asked.lock().unwrap().iter().map(|a| a.pairs.len()).collect::<Vec<_>>()).max();
        assert_eq!(most, Some(topology::PAIRS_PER_POLL));
    }

    #[test]
    fn opening_that_fails_or_blocks_is_said_in_words() {
        let (to_procs, _hints) = Hints::line();
        let pace = |deadline| Pace { interval: Duration::from_millis(10), deadline };
        let refuse = || -> Opened { Err(SourceError::Absent("no driver".into())) };
        let mut source = Nvml::new(Arc::new(refuse), pace(PATIENT), to_procs.clone());
        for _ in 0..2 {
            assert_eq!(source.poll(&mut Vec::new()), Err(SourceError::Absent("no driver".into())));
        }
        let blocked = Arc::new(AtomicBool::new(true));
        let told = blocked.clone();
        let block = move || -> Opened {
            while told.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(5));
            }
            Ok(Vec::new())
        };
        let mut source = Nvml::new(Arc::new(block), pace(Duration::from_millis(4)), to_procs);
        assert_eq!(source.poll(&mut Vec::new()), Err(SourceError::Failed("nvmlInit_v2 has not returned for 0 s".into())));
        blocked.store(false, Ordering::Relaxed);
        let began = Instant::now();
        while source.poll(&mut Vec::new()) != Ok(()) {
            assert!(began.elapsed() < PATIENT);
        }
    }

    /// Prints what a machine with GPUs says, and what asking costs:
    /// `cargo test --release --lib what_this_machine_says -- --ignored --nocapture`
    #[test]
    #[ignore = "needs NVIDIA GPUs"]
    #[allow(clippy::print_stdout)]
    fn what_this_machine_says() {
        let setup = Setup::new(crate::sources::Roots::live(), Duration::from_secs(1), Vec::new());
        let roots = setup.roots.clone();
        let pace = Pace { interval: setup.interval, deadline: Duration::from_secs(2) };
        let mut source = Nvml::new(Arc::new(move || device::open(&roots, pace.interval)), pace, setup.to_procs.clone());
        let ticks = || -> u64 {
            let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
            stat.rsplit(") ").next().unwrap().split(' ').skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum()
        };
        let mut measured_from = (ticks(), Instant::now());
        for poll in 0..40 {
            let (mut out, began) = (Vec::new(), Instant::now());
            let result = source.poll(&mut out);
            println!("poll {poll}: {:.1} ms, {result:?}, {:?}", began.elapsed().as_secs_f64() * 1e3, source.remark());
            for body in out.iter().filter(|body| poll < 3 || matches!(body, Body::GpuTopology(_))) {
                println!("  {}", serde_json::to_string(body).unwrap());
            }
            if poll == 10 {
                measured_from = (ticks(), Instant::now());
            }
            source.wait(source.every());
        }
        let (cpu, wall) = (ticks() - measured_from.0, measured_from.1.elapsed());
        if let State::Open(sweep) = &source.state {
            for gpu in &sweep.gpus[..1] {
                for (call, (n, spent)) in gpu.watched.doing.spent() {
                    println!("GPU {}: {n:>4} x {:>8.1} us  {call}", gpu.index, spent.as_secs_f64() * 1e6 / f64::from(n));
                }
            }
        }
        println!("CPU since poll 10: {:.2} % of a core", cpu as f64 / wall.as_secs_f64());
    }
}
