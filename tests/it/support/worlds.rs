//! Sessions of whole nodes for golden screens: the same every time, made of nothing but observations.
//!
//! `healthy`, `hang` and `straggler` are recordings of real jobs. The others are made by hand: numbers, names and log lines in them are
//! invented, in the form in which the sources tell them; ports and interfaces are read by the real sources from `fixtures/sys`.

use super::tree;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::observe::gpu::{
    Gpm, GpuHealth, GpuInfo, GpuPair, GpuProcess, GpuProcesses, GpuSample, GpuTopology, GpuTrouble, GpuTroubleKind,
};
use nccl_top::observe::host::HostSample;
use nccl_top::observe::inspector::{Inspected, InspectedComm, InspectedPeer};
use nccl_top::observe::log::{Line, Lines, LogFileInfo, RasAnswer};
use nccl_top::observe::port::{NetdevSample, PortSample};
use nccl_top::observe::process::{LogVia, ProcessInfo, ProcessLog, ProcessRole, ProcessSample};
use nccl_top::observe::{Body, Observation, SourceId, SourceReport, SourceState};
use nccl_top::recording::tape::Reader;
use nccl_top::sources::host::Host;
use nccl_top::sources::netdev::Netdevs;
use nccl_top::sources::procs::Procs;
use nccl_top::sources::queue_pairs::Queues;
use nccl_top::sources::rdma::Rdma;
use nccl_top::sources::tail::Tail;
use nccl_top::sources::{Roots, Source};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

/// 2026-11-21 10:00:00 UTC
const START: Stamp = Stamp(1_795_255_200_000_000_000);
const SECOND: Duration = Duration::from_secs(1);
const GIB: u64 = 1 << 30;

/// Makes a world once, however many tests look at it, and gives each of them its own.
macro_rules! worlds {
    ($($(#[$doc:meta])* $name:ident: $make:expr;)*) => {$(
        $(#[$doc])*
        pub fn $name() -> Session {
            static MADE: LazyLock<Session> = LazyLock::new($make);
            MADE.clone()
        }
    )*};
}

worlds! {
    /// A recording: 4 ranks that train.
    healthy: || recorded("none", 45);
    /// A recording: rank 3 has not joined a collective, 15 s ago.
    hang: || recorded("hang", 70);
    /// A recording: rank 2 is late every step.
    straggler: || recorded("slow", 61);
    /// A recording: two jobs of 2 ranks side by side, the one slow, the other with a loss that is no number.
    two_jobs: || recorded("two-jobs-slow-nan", 60);
    /// A p5.48xlarge, one of 8 nodes of a job that trains: 8 H100, 32 EFA devices. One device carries less than the others, one retransmits.
    p5: make_p5;
    /// A job known from its log alone, on a machine without GPU or RDMA.
    no_gpu: make_no_gpu;
    /// Every source is absent, denied or failed, and no job is known.
    absent: make_absent;
    /// One of 80 nodes of a job that stands still: rank 13, here, is far behind, rank 407 a little, and rank 500 does not answer.
    ranks_640: make_ranks_640;
    /// 1,024 ranks on 128 nodes: rank 13 is behind, rank 500 does not answer.
    ranks_1024: || many_ranks(1024);
    /// 300 logs of one job in one stream, with all that logs hold: noise, progress, errors, a traceback, and text that no terminal should get.
    busy_log: make_busy_log;
}

/// What a recording shows after so many seconds.
pub fn recorded(name: &str, seconds: u64) -> Session {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/tapes/{name}.jsonl.gz"));
    let mut reader = Reader::open(&path).expect("the recording");
    let mut session = reader.header().session();
    let mut changes = Vec::new();
    let mut until = None;
    while let Some(seen) = reader.read().expect("a whole recording") {
        if seen.at > *until.get_or_insert(seen.at.plus(Duration::from_secs(seconds))) {
            break;
        }
        session.apply(&seen, &mut changes);
    }
    session
}

fn make_p5() -> Session {
    const UP_AT: u64 = 8;
    let mut world = World::new("node-17");
    let node = Node { gpus: 8, first_rank: 16, world: 64, launcher: 4100, job: "2890", log: "/fsx/jobs/2890/train.log" };
    let dir = tree::unpack(&["efa-p5", "host"]);
    let (told, _) = asked(&mut Host::new(Roots::below(dir.path()), SECOND));
    // How full the disks below the tree are is a matter of the machine that runs the test.
    told.into_iter().filter(|body| matches!(body, Body::Node(_))).for_each(|body| world.see("host", body));
    world.all_is_well();
    world.bodies("nvml", node.gpu_facts());
    world.bodies("procs", node.processes());
    world.see("tail", Body::LogFile(log_file(1, node.log)));
    let mut network = Network::new(dir.path());
    for second in 0..150 {
        let up = second >= UP_AT;
        world.bodies("rdma", network.rdma(second, up));
        world.bodies("netdev", network.netdevs(second));
        world.bodies("nvml", node.gpus(second, |_| if up { Doing::Training } else { Doing::Nothing }));
        world.bodies("procs", node.process_samples(|_| second));
        if second % 5 == 0 {
            world.see("host", Body::Host(host_sample(second)));
            let answer = if up { ras_2_27(64, 8) } else { String::new() };
            let error = (!up).then(|| "connection refused".to_owned());
            world.see("ras", ras_answer(answer, "text", error));
        }
        match second {
            3 => world.say(1, &node.bring_up()),
            7 => world.say(1, &node.channels()),
            _ => {}
        }
        world.say(1, &steps(UP_AT, second));
        world.tick();
    }
    world.session
}

fn make_no_gpu() -> Session {
    let mut world = World::new("login-2");
    let dir = tree::unpack(&["host"]);
    let roots = || Roots::below(dir.path());
    let no_driver = "libnvidia-ml.so.1 not found: no NVIDIA driver; GPU panes are off, logs and network still work";
    world.reports("nvml", SourceState::Absent, no_driver);
    world.reports("events", SourceState::Absent, "no events of GPUs: NVML cannot be opened");
    world.asks("procs", &mut Procs::new(roots(), SECOND, None));
    world.reports("ras", SourceState::Absent, "no job with RAS seen; it is asked when ranks appear");
    world.reports("flight", SourceState::Absent, "no rank that could write dumps");
    world.reports("debug", SourceState::Absent, "no rank that could have started it");
    world.reports("inspector", SourceState::Absent, "no rank runs with NCCL_INSPECTOR_ENABLE=1");
    world.asks("rdma", &mut Rdma::new(roots(), SECOND));
    world.asks("netdev", &mut Netdevs::new(roots(), SECOND));
    for id in ["tail", "kmsg", "host"] {
        world.see(id, Body::Source(SourceReport { state: SourceState::Ok, detail: None, title: None }));
    }
    world.see("tail", Body::LogFile(log_file(1, "/home/user/train.log")));
    for second in 0..60 {
        if second % 5 == 0 {
            world.see("host", Body::Host(host_sample(second)));
        }
        world.say(1, &steps(0, second));
        world.tick();
    }
    world.session
}

fn make_absent() -> Session {
    let mut world = World::new("node-17");
    let dir = tempfile::tempdir().expect("a directory");
    tree::write(dir.path(), "proc/stat !");
    let roots = || Roots::below(dir.path());
    let not_allowed = "nvmlInit_v2: the current user does not have permission to perform this operation; \
                       are /dev/nvidiactl and /dev/nvidia* given to this container?";
    world.reports("nvml", SourceState::Denied, not_allowed);
    world.reports("events", SourceState::Absent, "no events of GPUs: NVML cannot be opened");
    let hidden = "no process of a training job found; /proc is mounted with hidepid: only own processes are seen";
    world.reports("procs", SourceState::Absent, hidden);
    world.asks("tail", &mut Tail::new(Vec::new(), false));
    world.reports("ras", SourceState::Absent, "no job with RAS seen; it is asked when ranks appear");
    world.reports("flight", SourceState::Absent, "no rank that could write dumps");
    world.reports("debug", SourceState::Absent, "no rank that could have started it");
    world.reports("inspector", SourceState::Absent, "no rank runs with NCCL_INSPECTOR_ENABLE=1");
    world.asks("rdma", &mut Rdma::new(roots(), SECOND));
    world.asks("qpairs", &mut Queues::new(roots()));
    world.asks("netdev", &mut Netdevs::new(roots(), SECOND));
    let restricted = "kernel log: /dev/kmsg: operation not permitted (kernel.dmesg_restrict); Xid lines will be missed";
    world.reports("kmsg", SourceState::Denied, restricted);
    world.asks("host", &mut Host::new(roots(), SECOND));
    (0..20).for_each(|_| world.tick());
    world.session
}

fn make_ranks_640() -> Session {
    const STUCK_AT: u64 = 40;
    let mut world = World::new("node-01");
    let node = Node { gpus: 8, first_rank: 8, world: 640, launcher: 51_000, job: "77120", log: "/fsx/jobs/77120/train.log" };
    world.all_is_well();
    world.bodies("nvml", node.gpu_facts());
    world.bodies("procs", node.processes());
    world.see("tail", Body::LogFile(log_file(1, node.log)));
    for second in 0..200 {
        let stuck = second >= STUCK_AT;
        let doing = |gpu| match gpu {
            _ if !stuck => Doing::Training,
            5 => Doing::Nothing,
            _ => Doing::Waiting,
        };
        world.bodies("nvml", node.gpus(second, doing));
        world.bodies("procs", node.process_samples(|gpu| if gpu == 5 { second.min(STUCK_AT) } else { second }));
        if second % 10 == 5 {
            let launched = second.min(STUCK_AT) * 12;
            let answer = ras_json(node.world, |rank| match rank {
                _ if !stuck => Some(launched),
                13 => Some(launched - 12),
                407 => Some(launched - 1),
                500 => None,
                _ => Some(launched),
            });
            world.see("ras", ras_answer(answer, "json", None));
        }
        if !stuck {
            world.say(1, &steps(4, second));
        }
        world.tick();
    }
    world.session
}

/// When the worlds of [`elsewhere`] stop.
pub const STOPS_AT: u64 = 40;

/// The second of two nodes of a job of 16 ranks, whose processes have the same pids on both, as in containers. After [`STOPS_AT`] all
/// GPUs of this node wait, and RAS answers what `answer` makes of the operations launched. With what was said, by second.
pub fn elsewhere(seconds: u64, answer: impl Fn(u64) -> String) -> (Session, Vec<(f64, Event)>) {
    elsewhere_after(0, seconds, answer)
}

/// The same after each rank here has written so many bytes in the 20 s before.
pub fn elsewhere_after(written: u64, seconds: u64, answer: impl Fn(u64) -> String) -> (Session, Vec<(f64, Event)>) {
    let mut world = World::new("node-02");
    let node = Node { gpus: 8, first_rank: 8, world: 16, launcher: 51_000, job: "77121", log: "/fsx/jobs/77121/train.log" };
    world.all_is_well();
    world.bodies("nvml", node.gpu_facts());
    world.bodies("procs", node.processes());
    world.see("tail", Body::LogFile(log_file(1, node.log)));
    for second in 0..STOPS_AT + seconds {
        let stuck = second >= STOPS_AT;
        world.bodies("nvml", node.gpus(second, |_| if stuck { Doing::Waiting } else { Doing::Training }));
        let mut samples = node.process_samples(|_| second);
        for sample in
            samples.iter_mut().flat_map(|b| if let Body::Processes { processes } = b { processes.as_mut_slice() } else { &mut [] })
        {
            sample.wchar_bytes = sample.wchar_bytes.map(|n| n + second.clamp(STOPS_AT - 20, STOPS_AT) * (written / 20));
        }
        world.bodies("procs", samples);
        // As the client asks: every 5 s while counts move.
        if second % 5 == 3 || (second > STOPS_AT + 8 && second.is_multiple_of(3)) {
            let answer = if stuck { answer(STOPS_AT * 12) } else { ras_json(node.world, |_| Some(second * 12)) };
            world.see("ras", ras_answer(answer, "json", None));
        }
        if !stuck {
            world.say(1, &steps(4, second));
        }
        world.tick();
    }
    let said = world.changes.into_iter().map(|(at, event)| (at.secs_since(START) - STOPS_AT as f64, event)).collect();
    (world.session, said)
}

/// A node of a job that sends and receives, and stands still after [`STOPS_AT`].
pub struct Pipeline {
    pub gpus: u32,
    pub first_rank: u32,
    pub world: u32,
    /// GPUs of ranks that then sleep; all others wait. Where it goes on, their processes sleep half of the time.
    pub asleep: &'static [u32],
    /// Added to the command line of each rank.
    pub arguments: &'static [&'static str],
    /// Pairs of ranks between which channels for sends and receives are connected.
    pub channels: Vec<(u32, u32)>,
    /// Each of the first has received from the second of a pair, by the Inspector.
    pub inspected: Vec<(u32, u32)>,
    /// Its steps go on, and this is what a GPU does in a second.
    pub goes_on: Option<fn(u32, u64) -> Doing>,
    /// The share of the SMs that the kernel of each GPU takes while it waits, %; 18.18 where none is named.
    pub kernels: &'static [f32],
    /// There is no NVML.
    pub no_nvml: bool,
    /// There is no GPM, and this is what each GPU draws while it waits, W.
    pub no_gpm_w: Option<u64>,
}

impl Default for Pipeline {
    fn default() -> Self {
        Pipeline {
            gpus: 4,
            first_rank: 0,
            world: 4,
            asleep: &[],
            arguments: &[],
            channels: Vec::new(),
            inspected: Vec::new(),
            goes_on: None,
            kernels: &[],
            no_nvml: false,
            no_gpm_w: None,
        }
    }
}

/// It trains for 40 s and then stands for so many. RAS answers what `answer` makes of the second, up to which it trained.
pub fn pipeline(it: &Pipeline, seconds: u64, answer: impl Fn(u64) -> Option<String>) -> (Session, Vec<(f64, Event)>) {
    let mut world = World::new("node-02");
    let node = Node {
        gpus: it.gpus,
        first_rank: it.first_rank,
        world: it.world,
        launcher: 51_000,
        job: "77123",
        log: "/fsx/jobs/77123/train.log",
    };
    world.all_is_well();
    if !it.no_nvml {
        world.bodies("nvml", node.gpu_facts());
    }
    let mut processes = node.processes();
    for info in processes.iter_mut().filter_map(|b| if let Body::Process(info) = b { Some(info) } else { None }) {
        info.cmdline.extend(it.arguments.iter().map(|word| word.to_string()));
    }
    world.bodies("procs", processes);
    world.see("tail", Body::LogFile(log_file(1, node.log)));
    let gpu_of = |rank: u32| rank.checked_sub(it.first_rank).unwrap_or(rank) % 8;
    let channels: Vec<String> = it
        .channels
        .iter()
        .flat_map(|(a, b)| [(*a, *b), (*b, *a)])
        .filter_map(|(from, to)| {
            let here = |rank: u32| (it.first_rank..it.first_rank + it.gpus).contains(&rank);
            let (own, via) = match (here(from), here(to)) {
                (true, true) => (from, "via P2P/CUMEM"),
                (true, false) => (from, "[send] via NET/IB/0/GDRDMA"),
                (false, true) => (to, "[receive] via NET/IB/0/GDRDMA"),
                (false, false) => return None,
            };
            let head = node.head(gpu_of(own)).replace("ip-10-0-0-3", "node-02");
            Some(format!("{head} NCCL INFO Channel 00/1 : {from}[{}] -> {to}[{}] {via}", gpu_of(from), gpu_of(to)))
        })
        .collect();
    world.say(1, &channels);
    for (rank, peer) in &it.inspected {
        let peers = vec![InspectedPeer { peer: *peer, sent: false, bytes: 64 << 20, sn: 118 }];
        let comm = InspectedComm { id: "5c1de7706f19ab".into(), rank: *rank, n_ranks: it.world, peers, ..InspectedComm::default() };
        let pid = 51_100 + gpu_of(*rank);
        world.see("inspector", Body::Inspector(Inspected { pid, path: "/d/x".into(), comms: vec![comm] }));
    }
    for second in 0..STOPS_AT + seconds {
        let stuck = second >= STOPS_AT && it.goes_on.is_none();
        let doing = |gpu| match it.goes_on {
            Some(doing) => doing(gpu, second),
            None if !stuck => Doing::Training,
            None if it.asleep.contains(&gpu) => Doing::Nothing,
            None => Doing::Waiting,
        };
        let mut seen = node.gpus(second, doing);
        for sample in seen.iter_mut().flat_map(|b| if let Body::Gpus { gpus } = b { gpus.as_mut_slice() } else { &mut [] }) {
            let kernel = it.kernels.get(sample.index as usize).copied().unwrap_or(18.18);
            let waits = doing(sample.index) == Doing::Waiting;
            sample.gpm.iter_mut().filter(|_| waits).for_each(|gpm| gpm.sm_active_pct = Some(kernel));
            if let Some(watts) = it.no_gpm_w {
                sample.gpm = None;
                sample.power_mw = if waits { Some(watts * 1000) } else { sample.power_mw };
            }
        }
        if !it.no_nvml {
            world.bodies("nvml", seen);
        }
        let ran = |gpu| match it.goes_on {
            _ if !it.asleep.contains(&gpu) => second,
            Some(_) => second / 2,
            None => second.min(STOPS_AT),
        };
        world.bodies("procs", node.process_samples(ran));
        if second % 5 == 3 || (stuck && second > STOPS_AT + 8 && second.is_multiple_of(3)) {
            match answer(if stuck { STOPS_AT } else { second }) {
                Some(reply) => world.see("ras", ras_answer(reply, "json", None)),
                None => world.see("ras", ras_answer(String::new(), "json", Some("connection refused".into()))),
            }
        }
        if !stuck {
            world.say(1, &steps(4, second));
        }
        world.tick();
    }
    let said = world.changes.into_iter().map(|(at, event)| (at.secs_since(START) - STOPS_AT as f64, event)).collect();
    (world.session, said)
}

/// So many ranks, of which RAS has answered thrice.
pub fn many_ranks(ranks: u32) -> Session {
    let mut world = World::new("node-01");
    let node = Node { gpus: 8, first_rank: 8, world: ranks, launcher: 51_000, job: "77122", log: "/fsx/jobs/77122/train.log" };
    world.all_is_well();
    world.bodies("nvml", node.gpu_facts());
    world.bodies("procs", node.processes());
    for second in 0..30 {
        world.bodies(
            "nvml",
            node.gpus(second, |gpu| match gpu {
                _ if second < 15 => Doing::Training,
                5 => Doing::Nothing,
                _ => Doing::Waiting,
            }),
        );
        world.bodies("procs", node.process_samples(|gpu| if gpu == 5 { second.min(15) } else { second }));
        if second % 10 == 5 {
            let answer = ras_json(node.world, |rank| match rank {
                _ if second < 15 => Some(240),
                13 => Some(468),
                500 => None,
                _ => Some(480),
            });
            world.see("ras", ras_answer(answer, "json", None));
        }
        world.tick();
    }
    world.session
}

fn make_busy_log() -> Session {
    const FILES: u32 = 300;
    const LINES: u64 = 3000;
    let mut world = World::new("node-17");
    world.see("tail", Body::Source(SourceReport { state: SourceState::Ok, detail: None, title: None }));
    for rank in 0..FILES {
        world.see("tail", Body::LogFile(log_file(rank + 1, &format!("/fsx/jobs/3117/rank-{rank:03}.log"))));
        let (pid, gpu) = (20_000 + rank, rank % 8);
        let init =
            format!("comm 0x55d0{rank:04x} rank {rank} nranks {FILES} cudaDev {gpu} nvmlDev {gpu} busId {:x}000", BUSES[gpu as usize]);
        let head = format!("node-17:{pid}:{pid} [{gpu}] NCCL INFO");
        world.say(rank + 1, &[format!("{head} ncclCommInitRankConfig {init} commId 0x1f6a90c3b2d4e851 - Init COMPLETE")]);
    }
    for n in 0..LINES {
        let rank = (n * 7 % u64::from(FILES)) as u32;
        world.say(rank + 1, &[busy_line(n, rank)]);
        if n == LINES / 2 {
            world.say(212, &TRACEBACK.map(str::to_owned));
        }
        if n % 100 == 99 {
            world.tick();
        }
    }
    world.session
}

/// A session and the clock of what it sees.
struct World {
    session: Session,
    now: Stamp,
    changes: Vec<(Stamp, Event)>,
    /// Lines and bytes told so far, by file.
    told: BTreeMap<u32, (u64, u64)>,
}

impl World {
    fn new(host: &str) -> World {
        World { session: Session::new(host, Zone::UTC), now: START, changes: Vec::new(), told: BTreeMap::new() }
    }

    fn see(&mut self, from: &'static str, body: Body) {
        self.session.apply(&Observation { at: self.now, host: None, from: SourceId::of(from), body }, &mut self.changes);
    }

    fn bodies(&mut self, from: &'static str, bodies: Vec<Body>) {
        bodies.into_iter().for_each(|body| self.see(from, body));
    }

    /// A second passes.
    fn tick(&mut self) {
        self.now = self.now.plus(SECOND);
        self.see("feed", Body::Tick);
    }

    fn reports(&mut self, from: &'static str, state: SourceState, detail: &str) {
        self.see(from, Body::Source(SourceReport { state, detail: Some(detail.to_owned()), title: None }));
    }

    /// One poll of a real source.
    fn asks(&mut self, from: &'static str, source: &mut dyn Source) {
        let (bodies, report) = asked(source);
        self.bodies(from, bodies);
        self.see(from, Body::Source(report));
    }

    fn all_is_well(&mut self) {
        for source in nccl_top::sources::SOURCES {
            self.see(source.id, Body::Source(SourceReport { state: SourceState::Ok, detail: None, title: None }));
        }
    }

    fn say(&mut self, file: u32, texts: &[String]) {
        if texts.is_empty() {
            return;
        }
        let (no, offset) = self.told.entry(file).or_default();
        let lines = texts.iter().map(|text| {
            let line = Line { no: Some(*no + 1), offset: *offset, text: text.clone(), transient: false };
            (*no, *offset) = (*no + 1, *offset + text.len() as u64 + 1);
            line
        });
        let lines = Lines { file, lines: lines.collect(), ..Lines::default() };
        self.see("tail", Body::Lines(lines));
    }
}

/// What a poll brings, and the report that the feed makes of its result.
fn asked(source: &mut dyn Source) -> (Vec<Body>, SourceReport) {
    let mut bodies = Vec::new();
    let report = match source.poll(&mut bodies) {
        Ok(()) => SourceReport { state: SourceState::Ok, detail: None, title: None },
        Err(err) => SourceReport { state: err.state(), detail: Some(err.to_string()), title: None },
    };
    (bodies, report)
}

/// What a rank's GPU does.
#[derive(Clone, Copy, PartialEq)]
pub enum Doing {
    Training,
    /// It trains for five eighths of each step, and waits in NCCL for the rest.
    Slowed,
    Waiting,
    Nothing,
    /// It fell off the bus.
    Lost,
}

impl Doing {
    pub fn named(name: &str) -> Option<Doing> {
        match name {
            "training" => Some(Doing::Training),
            "slowed" => Some(Doing::Slowed),
            "waiting" => Some(Doing::Waiting),
            "nothing" => Some(Doing::Nothing),
            "lost" => Some(Doing::Lost),
            _ => None,
        }
    }
}

/// A node of a job that torchrun started below Slurm.
pub struct Node {
    pub gpus: u32,
    pub first_rank: u32,
    pub world: u32,
    pub launcher: u32,
    pub job: &'static str,
    pub log: &'static str,
}

/// Of a p5.48xlarge, in the order of NVML.
const BUSES: [u32; 8] = [0x53, 0x64, 0x75, 0x86, 0x97, 0xa8, 0xb9, 0xca];
const MEM_TOTAL: u64 = 81_559 << 20;

impl Node {
    fn pid(&self, gpu: u32) -> u32 {
        self.launcher + 100 + gpu
    }

    pub fn gpu_facts(&self) -> Vec<Body> {
        let info = |index: u32| GpuInfo {
            index,
            name: Some("NVIDIA H100 80GB HBM3".into()),
            bus_id: Some(format!("0000:{:02x}:00.0", BUSES[index as usize])),
            minor: Some(index),
            numa: Some(index / 4),
            driver: Some("570.172.08".into()),
            cuda_driver: Some(12_090),
            power_limit_mw: Some(700_000),
            power_limit_default_mw: Some(700_000),
            sm_clock_max_mhz: Some(1980),
            mem_total_bytes: Some(MEM_TOTAL),
            slowdown_c: Some(89),
            sm_count: Some(132),
            gpm: Some(true),
            mig: Some(false),
            ..GpuInfo::default()
        };
        let mut bodies: Vec<Body> = (0..self.gpus).map(|gpu| Body::GpuInfo(info(gpu))).collect();
        let pair = |a, b| GpuPair { a, b, pcie_level: Some(50), nvlinks: Some(18), p2p_read: Some(0) };
        let pairs = (0..self.gpus).flat_map(|a| (a + 1..self.gpus).map(move |b| pair(a, b))).collect();
        bodies.push(Body::GpuTopology(GpuTopology { pairs }));
        bodies
    }

    /// A sweep, and every so often who holds the GPUs and how well they are.
    pub fn gpus(&self, second: u64, doing: impl Fn(u32) -> Doing) -> Vec<Body> {
        let gpus = (0..self.gpus).map(|gpu| gpu_sample(gpu, second, doing(gpu))).collect();
        let mut bodies = vec![Body::Gpus { gpus }];
        if second.is_multiple_of(5) {
            let held = |gpu| GpuProcesses { index: gpu, processes: vec![GpuProcess { pid: self.pid(gpu), mem_bytes: Some(71 * GIB) }] };
            bodies.push(Body::GpuProcesses { gpus: (0..self.gpus).map(held).collect() });
        }
        if second.is_multiple_of(15) {
            let health = |index| GpuHealth {
                index,
                ecc_uncorrected_volatile: Some(0),
                ecc_corrected_volatile: Some(0),
                remapped_correctable: Some(0),
                remapped_uncorrectable: Some(0),
                remap_pending: Some(false),
                remap_failed: Some(false),
                recovery_action: Some(0),
                pcie_gen: Some(5),
                pcie_gen_max: Some(5),
                pcie_width: Some(16),
                pcie_width_max: Some(16),
                pcie_replays: Some(0),
                nvlink_states: vec![Some(1); 18],
                nvlink_replays: Some(0),
                nvlink_recoveries: Some(0),
                nvlink_crc_errors: Some(0),
                power_limit_mw: Some(700_000),
                fabric_state: Some(3),
                ..GpuHealth::default()
            };
            bodies.push(Body::GpuHealth { gpus: (0..self.gpus).map(health).collect() });
        }
        bodies
    }

    fn processes(&self) -> Vec<Body> {
        let log = |via| ProcessLog { via, path: self.log.to_owned(), inode: Some(1001), device: Some(2049) };
        let process = |pid, ppid, role, comm: &str, cmdline: &str, env: Vec<(&str, String)>| {
            Body::Process(ProcessInfo {
                pid,
                ppid,
                start_ticks: 700_000 + u64::from(pid),
                role,
                uid: 1000,
                comm: comm.to_owned(),
                cmdline: cmdline.split(' ').map(str::to_owned).collect(),
                env: Some(env.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()),
                ns_pid: Some(pid),
                cwd: Some("/fsx/train".to_owned()),
                logs: vec![log(LogVia::Stdout), log(LogVia::Stderr)],
                ..ProcessInfo::default()
            })
        };
        let launched = "/opt/venv/bin/python /opt/venv/bin/torchrun --nproc-per-node 8 train.py --config llama.yaml";
        let slurm = vec![("SLURM_JOB_ID", self.job.to_owned())];
        let mut bodies = vec![process(self.launcher, 4000, ProcessRole::Launcher, "pt_elastic", launched, slurm)];
        bodies.extend((0..self.gpus).map(|gpu| {
            let env = vec![
                ("LOCAL_RANK", gpu.to_string()),
                ("LOCAL_WORLD_SIZE", self.gpus.to_string()),
                ("MASTER_ADDR", "10.0.0.1".to_owned()),
                ("MASTER_PORT", "29500".to_owned()),
                ("NCCL_DEBUG", "INFO".to_owned()),
                ("RANK", (self.first_rank + gpu).to_string()),
                ("SLURM_JOB_ID", self.job.to_owned()),
                ("WORLD_SIZE", self.world.to_string()),
            ];
            let run = "/opt/venv/bin/python -u train.py --config llama.yaml";
            process(self.pid(gpu), self.launcher, ProcessRole::Rank, "python", run, env)
        }));
        bodies
    }

    /// `ran`: how many seconds of CPU each rank has used.
    fn process_samples(&self, ran: impl Fn(u32) -> u64) -> Vec<Body> {
        let rank = |gpu| ProcessSample {
            pid: self.pid(gpu),
            state: Some('S'),
            cpu_ticks: Some(40_000 + ran(gpu) * 101),
            threads: Some(112),
            rss_bytes: Some(18 * GIB),
            rchar_bytes: Some(9_000_000_000 + ran(gpu) * 20_000),
            wchar_bytes: Some(200_000 + ran(gpu) * 120),
            read_bytes: Some(0),
            write_bytes: Some(4096),
            threads_in_d: Some(0),
            ..ProcessSample::default()
        };
        vec![Body::Processes { processes: (0..self.gpus).map(rank).collect() }]
    }

    /// Everything up to `Init COMPLETE`, as NCCL 2.27 and the plugin for EFA word it.
    fn bring_up(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for gpu in 0..self.gpus {
            let (head, rank) = (self.head(gpu), self.first_rank + gpu);
            let bus = BUSES[gpu as usize];
            let comm =
                format!("comm 0x{:x} rank {rank} nranks {} cudaDev {gpu} nvmlDev {gpu} busId {bus:x}000", 0x55d0_9000 + gpu, self.world);
            lines.extend(
                [
                    "cudaDriverVersion 12090".to_owned(),
                    "Bootstrap: Using eth0:10.0.0.3<0>".to_owned(),
                    "NCCL version 2.27.5+cuda12.9".to_owned(),
                    "NCCL_NET_PLUGIN set by environment to ofi".to_owned(),
                    "NET/OFI Initializing aws-ofi-nccl 1.16.3".to_owned(),
                    "NET/OFI Using Libfabric version 2.1".to_owned(),
                    "NET/OFI Using CUDA driver version 12090 with runtime 12090".to_owned(),
                    "NET/OFI Configuring AWS-specific options".to_owned(),
                    "NET/OFI Setting provider_filter to efa".to_owned(),
                    "NET/OFI Internode latency set at 75.0 us".to_owned(),
                    "NET/OFI Using transport protocol RDMA (platform set)".to_owned(),
                    "NET/OFI Selected provider is efa, fabric is efa (found 32 nics)".to_owned(),
                    "NET/OFI Created device with 4 rails".to_owned(),
                    "NET/Plugin: Loaded net plugin AWS Libfabric (v10)".to_owned(),
                    "Successfully loaded external plugin libnccl-net-ofi.so".to_owned(),
                    "Using network AWS Libfabric".to_owned(),
                    format!("ncclCommInitRankConfig {comm} commId 0x8f3c61d2a4e5b790 - Init START"),
                    "RAS client listening socket at 127.0.0.1<28028>".to_owned(),
                    "16 coll channels, 16 collnet channels, 0 nvls channels, 16 p2p channels, 2 p2p channels per peer".to_owned(),
                    format!("ncclCommInitRankConfig {comm} commId 0x8f3c61d2a4e5b790 - Init COMPLETE"),
                    format!(
                        "Init timings - ncclCommInitRankConfig: rank {rank} nranks {} total 3.{}4 (kernels 0.31, alloc 0.82, bootstrap 0.95, \
                         allgathers 0.11, topo 0.74, graphs 0.06, connections 0.18, rest 0.07)",
                        self.world,
                        gpu + 1,
                    ),
                ]
                .map(|text| format!("{head} NCCL INFO {text}")),
            );
        }
        lines
    }

    /// 8 rings, each through a rail of one GPU.
    fn channels(&self) -> Vec<String> {
        let mut lines = Vec::new();
        let (first, last) = (self.first_rank, self.first_rank + self.gpus - 1);
        for ring in 0..16 {
            let rail = ring % self.gpus;
            let (next, before) = (last + 1 + rail, first - self.gpus + rail);
            let here = first + rail;
            for gpu in 0..self.gpus {
                let (a, b) = (first + gpu, first + (gpu + 1) % self.gpus);
                // The ring leaves the node from the GPU before the one at which it came in.
                let text = if (gpu + 1) % self.gpus == rail {
                    format!("Channel {ring:02}/0 : {a}[{gpu}] -> {next}[{rail}] [send] via NET/AWS Libfabric/{gpu}/GDRDMA")
                } else {
                    format!("Channel {ring:02}/0 : {a}[{gpu}] -> {b}[{}] via P2P/CUMEM", (gpu + 1) % self.gpus)
                };
                lines.push(format!("{} NCCL INFO {text}", self.head(gpu)));
            }
            let out = (rail + self.gpus - 1) % self.gpus;
            let text = format!("Channel {ring:02}/0 : {before}[{out}] -> {here}[{rail}] [receive] via NET/AWS Libfabric/{rail}/GDRDMA");
            lines.push(format!("{} NCCL INFO {text}", self.head(rail)));
        }
        lines.extend((0..self.gpus).map(|gpu| format!("{} NCCL INFO Connected all rings, use ring PXN 0 GDR 1", self.head(gpu))));
        lines
    }

    fn head(&self, gpu: u32) -> String {
        let pid = self.pid(gpu);
        format!("ip-10-0-0-3:{pid}:{pid} [{gpu}]")
    }
}

fn gpu_sample(gpu: u32, second: u64, doing: Doing) -> GpuSample {
    let about = |value: f64, spread: f64, what: u64| value + spread * noise(what * 1000 + u64::from(gpu), second);
    let (util, sm, tensor, dram, link, watts, mhz) = match doing {
        Doing::Lost => {
            let trouble = GpuTrouble { kind: GpuTroubleKind::Lost, detail: "GPU is lost".into() };
            return GpuSample { index: gpu, trouble: Some(trouble), ..GpuSample::default() };
        }
        Doing::Training => (
            100,
            about(84.0, 4.0, 1),
            about(43.0, 5.0, 2),
            about(37.0, 3.0, 3),
            about(59e9, 4e9, 4),
            about(688.0, 9.0, 5),
            about(1650.0, 90.0, 6),
        ),
        Doing::Slowed => (
            100,
            about(59.0, 3.0, 1),
            about(27.0, 3.0, 2),
            about(23.0, 2.0, 3),
            about(37e9, 3e9, 4),
            about(524.0, 7.0, 5),
            about(1800.0, 60.0, 6),
        ),
        Doing::Waiting => (100, about(18.0, 0.3, 1), 0.0, 0.0, 0.0, about(252.0, 5.0, 5), 1980.0),
        Doing::Nothing => (0, 0.0, 0.0, 0.0, 0.0, about(121.0, 2.0, 5), 1980.0),
    };
    let warm = match doing {
        Doing::Training => 58,
        Doing::Slowed => 52,
        _ => 36,
    };
    GpuSample {
        index: gpu,
        util_pct: Some(util),
        mem_util_pct: Some(dram as u32),
        mem_used_bytes: Some(71 * GIB + u64::from(gpu) * 9_000_000),
        mem_total_bytes: Some(MEM_TOTAL),
        power_mw: Some((watts * 1e3) as u64),
        sm_clock_mhz: Some(mhz as u32),
        mem_clock_mhz: Some(2619),
        temp_c: Some(warm + gpu * 5 % 7),
        throttle_bits: Some(if doing == Doing::Training { 4 } else { 0 }),
        gpm: Some(Gpm {
            graphics_active_pct: Some(util as f32),
            sm_active_pct: Some(sm as f32),
            sm_occupancy_pct: Some((sm / 4.0) as f32),
            tensor_active_pct: Some(tensor as f32),
            dram_active_pct: Some(dram as f32),
            pcie_tx_bytes_per_s: Some(link / 4000.0),
            pcie_rx_bytes_per_s: Some(link / 2000.0),
            nvlink_tx_bytes_per_s: Some(link),
            nvlink_rx_bytes_per_s: Some(link),
        }),
        ..GpuSample::default()
    }
}

/// The ports of a tree: its files grow for the first polls, what those told grows on without files.
struct Network<'a> {
    root: &'a Path,
    rdma: Rdma,
    netdev: Netdevs,
    ports: Vec<PortSample>,
    netdevs: Vec<NetdevSample>,
}

/// Polls that really read the tree.
const READ: u64 = 3;

impl<'a> Network<'a> {
    fn new(root: &'a Path) -> Self {
        let roots = || Roots::below(root);
        let (rdma, netdev) = (Rdma::new(roots(), SECOND), Netdevs::new(roots(), SECOND));
        Network { root, rdma, netdev, ports: Vec::new(), netdevs: Vec::new() }
    }

    fn rdma(&mut self, second: u64, busy: bool) -> Vec<Body> {
        if second == 0 {
            let (bodies, _) = asked(&mut self.rdma);
            let ports = |body: &Body| if let Body::Ports { ports } = body { ports.clone() } else { Vec::new() };
            self.ports = bodies.iter().flat_map(ports).collect();
            return bodies;
        }
        let mut changed = Vec::new();
        for port in &mut self.ports {
            let mut sample = PortSample { counters: BTreeMap::new(), ..port.clone() };
            let grown = if busy { efa_traffic(&port.device, second) } else { vec![("tx_bytes", 900), ("rx_bytes", 900)] };
            for (name, more) in grown {
                if let Some(value) = port.counters.get_mut(name) {
                    *value += more;
                    sample.counters.insert(name.to_owned(), *value);
                }
            }
            changed.push(sample);
        }
        if second >= READ {
            return vec![Body::Ports { ports: changed }];
        }
        for port in &changed {
            let counters = format!("sys/class/infiniband/{}/ports/{}/hw_counters", port.device, port.port);
            port.counters.iter().for_each(|(name, value)| tree::set(self.root, &format!("{counters}/{name}"), &value.to_string()));
        }
        let (bodies, _) = asked(&mut self.rdma);
        assert_eq!(bodies, [Body::Ports { ports: changed }], "the source tells what was made up to go on with");
        bodies
    }

    fn netdevs(&mut self, second: u64) -> Vec<Body> {
        if second == 0 {
            let (bodies, _) = asked(&mut self.netdev);
            let netdevs = |body: &Body| if let Body::Netdevs { netdevs } = body { netdevs.clone() } else { Vec::new() };
            self.netdevs = bodies.iter().flat_map(netdevs).collect();
            return bodies;
        }
        let grown = self.netdevs.iter_mut().map(|netdev| {
            if netdev.name == "eth0" {
                for (name, most) in [("rx_bytes", 400_000.0), ("tx_bytes", 150_000.0)] {
                    *netdev.counters.entry(name.to_owned()).or_default() += (most * (1.0 + noise(7, second))) as u64;
                }
            }
            netdev.clone()
        });
        vec![Body::Netdevs { netdevs: grown.collect() }]
    }
}

/// What a second of training adds: some 60 % of 100 Gb/s each way.
fn efa_traffic(device: &str, second: u64) -> Vec<(&'static str, u64)> {
    const LINE_BYTES_PER_S: f64 = 12.5e9;
    let seed = device.bytes().fold(0, |seed, byte| seed * 31 + u64::from(byte));
    let share = if device == "rdmap147s0" { 0.41 } else { 0.6 };
    let bytes = |what| (LINE_BYTES_PER_S * (share + 0.03 * noise(seed + what, second))) as u64;
    let (out, into) = (bytes(1), bytes(2));
    let mut grown = vec![
        ("tx_bytes", out),
        ("rx_bytes", into),
        ("tx_pkts", out / 8800),
        ("rx_pkts", into / 8800),
        ("rdma_write_bytes", out - out / 50),
        ("rdma_write_wrs", out / 500_000),
        ("rdma_write_recv_bytes", into - into / 50),
    ];
    if device == "rdmap181s0" && second.is_multiple_of(4) {
        grown.extend([("retrans_bytes", 3 * 8800), ("retrans_pkts", 3)]);
    }
    grown
}

fn host_sample(second: u64) -> HostSample {
    HostSample {
        cpu_busy_ticks: Some(1_000_000 + second * 1300),
        cpu_idle_ticks: Some(90_000_000 + second * 17_900),
        cpu_iowait_ticks: Some(400),
        load_1m: Some(12.4),
        procs_running: Some(11),
        mem_total_bytes: Some(2048 * GIB),
        mem_available_bytes: Some(1710 * GIB),
        shm_total_bytes: Some(1024 * GIB),
        shm_free_bytes: Some(1003 * GIB),
        oom_kills: Some(0),
        ..HostSample::default()
    }
}

fn log_file(file: u32, path: &str) -> LogFileInfo {
    let inode = Some(1000 + u64::from(file));
    LogFileInfo { file, path: path.to_owned(), inode, device: Some(2049), size_bytes: Some(0), ..LogFileInfo::default() }
}

/// The lines of this second of a training that began at `from`.
fn steps(from: u64, second: u64) -> Vec<String> {
    let due = |second: u64| second.saturating_sub(from) * 100 / 131;
    (due(second.saturating_sub(1))..due(second)).map(|n| step_line(1200 + n)).collect()
}

fn step_line(step: u64) -> String {
    let loss = 2.31 + 0.04 * noise(11, step) - step as f64 * 1e-5;
    let ms = 1310.0 + 14.0 * noise(12, step);
    format!("step {step}/50000 | loss {loss:.4} | step_time {ms:.1} ms | tokens/s {:.0}", 4_194_304.0 / ms * 1e3)
}

pub fn ras_answer(reply: String, format: &str, error: Option<String>) -> Body {
    Body::Ras(RasAnswer { address: "127.0.0.1:28028".into(), reply, format: format.into(), took_ms: 4.2, error })
}

/// NCCL 2.27 answers in text only, and tells no counts while ranks agree.
fn ras_2_27(ranks: u32, nodes: u32) -> String {
    let here = ranks / nodes;
    format!(
        "SERVER PROTOCOL 2\nOK\nNCCL version 2.27.5 compiled with CUDA 12.9\nCUDA runtime version 12090, driver version 12090\n\n\
         Job summary\n===========\n\n  Nodes  Processes         GPUs  Processes     GPUs\n(total)   per node  per process    (total)  (total)\n\
         {nodes:7} {here:10} {:12} {ranks:10} {ranks:8}\n\nCommunicators... (0.004s)\n=============\n\n\
         Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
         \x20   #  in group  per comm  per node  per comm  in group\n\
         {:5} {:9} {nodes:9} {here:9} {ranks:9} {ranks:9}   RUNNING      OK\n\nErrors\n======\n\nWarnings\n========\n\n",
        1, 0, 1,
    )
}

/// NCCL 2.28.9: 8 ranks a node, each with its number of AllReduce; a rank without a number does not answer.
/// An answer; `None` is missing.
pub fn ras_json(ranks: u32, launched: impl Fn(u32) -> Option<u64>) -> String {
    let place = |rank: u32| {
        let (node, gpu) = (rank / 8, rank % 8);
        // What `Node::pid` makes of it, on every node.
        let pid = 51_100 + gpu;
        format!(r#""rank": {rank}, "host": "10.0.0.{}", "pid": {pid}, "cuda_dev": {gpu}, "nvml_dev": {gpu}"#, node + 1)
    };
    let (mut answering, mut missing) = (String::new(), String::new());
    let mut missing_count = 0;
    for rank in 0..ranks {
        match launched(rank) {
            Some(count) => {
                let comma = if answering.is_empty() { "" } else { "," };
                let _ = write!(
                    answering,
                    r#"{comma}{{{}, "status": {{"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false}}, "collective_counts": {{"Broadcast": 5, "Reduce": 0, "AllGather": 1, "ReduceScatter": 0, "AllReduce": {count}}}}}"#,
                    place(rank),
                );
            }
            None => {
                missing_count += 1;
                let comma = if missing.is_empty() { "" } else { "," };
                // NCCL forgets the comma before "status".
                let _ = write!(missing, r#"{comma}{{{} "status": {{"unresponsive": true, "considered_dead": false}}}}"#, place(rank));
            }
        }
    }
    format!(
        r#"{{"nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000, "communicators_count": 1, "communicators": [{{"hash": "0x5c1de7706f19ab34", "size": {ranks}, "ranks_count": {}, "missing_ranks_count": {missing_count}, "ranks": [{answering}], "missing_ranks": [{missing}]}}], "ras": {{"collection_time_sec": 0.112, "timeouts_count": {missing_count}}}}}"#,
        ranks - missing_count,
    )
}

fn busy_line(n: u64, rank: u32) -> String {
    let pid = 20_000 + rank;
    let gpu = rank % 8;
    let head = format!("node-17:{pid}:{pid} [{gpu}]");
    match n % 25 {
        0 => format!("{head} NCCL INFO Trees [0] 1/-1/-1->0->-1 [1] 1/-1/-1->0->-1 [2] 1/-1/-1->0->-1 [3] 1/-1/-1->0->-1"),
        1 => format!("{head} NCCL INFO Channel {:02}/0 : {rank}[{gpu}] -> {}[{}] via P2P/CUMEM", n % 16, rank + 1, (gpu + 1) % 8),
        2 => format!("{head} NCCL INFO TUNER/Plugin: Could not find: libnccl-tuner.so"),
        3 if n % 500 == 3 => format!(
            "[2026-11-21 10:00:00] {head} misc/socket.cc:587 NCCL WARN socketPollConnect: connect to 10.0.0.9<41234> returned Connection timed out(110) after 1 attempts"
        ),
        4 => format!("[rank{rank}]: エポック 3：検証データを読み込み中です（分片 {n}/3000）"),
        5 => format!("[rank{rank}]: 正在加载第 {n} 个数据分片，请稍候…"),
        6 => format!("user \u{202e}gol.terces\u{202c} and \u{2066}isolated\u{2069} text, file {n}"),
        7 => format!("zero\u{200b}width\u{feff} joi\u{200d}ned co\u{301}mbined {n}"),
        8 => format!("\x1b[31;1mred and bold\x1b[0m \x1b[38;2;1;2;3mtrue colour\x1b[0m {n}"),
        9 => format!("\x1b]52;c;ZXZpbA==\x07clip\x1b]0;owned\x07board \x1b]8;;http://example.invalid/\x1b\\link\x1b]8;;\x1b\\ {n}"),
        10 => format!("\x1b[2J\x1b[1;1Hcursor\x1b[10A moved\x08\x08\x1b[?1049l {n}"),
        11 => format!("{head} NCCL INFO {}", "a very long line, ".repeat(1200)),
        12 => format!("{}{n}", "長".repeat(400)),
        13 => format!("\ttabs\tand\u{85}controls\u{9b}31m {n}"),
        _ => step_line(n / 10),
    }
}

const TRACEBACK: [&str; 6] = [
    "[rank211]: Traceback (most recent call last):",
    "[rank211]:   File \"/fsx/train/train.py\", line 75, in <module>",
    "[rank211]:     batch = next(batches)",
    "[rank211]:   File \"/fsx/train/data.py\", line 58, in __next__",
    "[rank211]:     raise ValueError(\"bad sample in shard 17\")",
    "[rank211]: ValueError: bad sample in shard 17",
];

/// From -1 to 1, the same for the same numbers.
pub fn noise(seed: u64, at: u64) -> f64 {
    let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(at.wrapping_mul(0xd1b5_4a32_d192_ed03));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    (z >> 40) as f64 / f64::from(1 << 23) - 1.0
}
