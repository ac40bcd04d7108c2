//! A script seen by the real sources, in a time of its own: an hour takes as long as reading its files does.

use super::play::{Play, What};
use super::player::Player;
use super::worlds::Node;
use nccl_top::base::time::Stamp;
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::observe::log::{KernelLine, LogFileInfo};
use nccl_top::observe::{Body, Observation, SourceId, SourceReport, SourceState, TICK};
use nccl_top::recording::tape::Header;
use nccl_top::rules::host_checks;
use nccl_top::sources::tail::Tail;
use nccl_top::sources::{Roots, SOURCES, Setup, Source, host, netdev, nvml, procs, rdma};
use std::path::Path;
use std::time::Duration;

/// 2026-11-21 10:00:00 UTC
pub const START: Stamp = Stamp(1_795_255_200_000_000_000);
const SECOND: Duration = Duration::from_secs(1);

struct Lane {
    id: &'static str,
    source: Box<dyn Source>,
    /// ms after the beginning.
    due: u64,
    told: Option<SourceReport>,
}

/// Performs a play and hands on what is seen, second by second. With the header of a tape of it.
pub fn perform(play: Play, mut to: impl FnMut(&Header, Observation)) -> Header {
    let dir = directory();
    let lasts = play.lasts.as_millis() as u64;
    let mut player = Player::new(dir.path(), play);
    let roots = Roots::below(dir.path());
    let header = header(&roots);
    let has_fabric = player.play.cues.iter().any(|cue| matches!(cue.what, What::Fabric { .. }));
    // Only what belongs to the fabric is judged there: that a pod has little shared memory is another matter.
    let looks = if has_fabric { host_checks::looks() } else { Vec::new() };
    let mut setup = Setup { looks, ..Setup::new(roots.clone(), SECOND, Vec::new()) };
    let inbox = setup.tail_inbox.take().expect("nobody has it yet");
    let lane = |id, source| Lane { id, source, due: 0, told: None };
    let mut lanes = [
        lane("procs", procs::make(&mut setup)),
        // Without the threads that wake it.
        lane("tail", Box::new(Tail::new(Vec::new(), false).listening(inbox))),
        lane("rdma", rdma::make(&mut setup)),
        lane("netdev", netdev::make(&mut setup)),
        lane("host", host::make(&mut setup)),
    ];
    let root = dir.path().to_string_lossy().into_owned();
    let mut at = START;
    let see = |at, from, body, to: &mut dyn FnMut(&Header, Observation)| {
        to(&header, Observation { at, host: None, from: SourceId::of(from), body });
    };
    let gpus_modelled = player.play.gpus_modelled;
    let mut fabric = Vec::new();
    for spec in SOURCES.iter().filter(|spec| spec.live_only) {
        for body in if spec.id == "nvml" { gpus(&roots, gpus_modelled) } else { Vec::new() } {
            see(at, spec.id, body, &mut to);
        }
        if spec.id == "nvml" && (gpus_modelled || has_fabric) {
            continue;
        }
        if spec.id == "kmsg" && gpus_modelled {
            see(at, spec.id, Body::Source(spec.report(SourceState::Ok, None)), &mut to);
            continue;
        }
        let why = "off: it asks the live system, and --sysroot is given".to_owned();
        see(at, spec.id, Body::Source(spec.report(SourceState::Absent, Some(why))), &mut to);
    }
    if has_fabric {
        see(at, "nvml", Body::Source(SourceReport { state: SourceState::Ok, detail: None, title: None }), &mut to);
    }
    for second in 0..=lasts / 1000 {
        let now = second * 1000;
        player.advance(now);
        for lane in lanes.iter_mut().filter(|lane| lane.due <= now) {
            for body in lane.poll() {
                see(at, lane.id, tidy(body, &root, at), &mut to);
            }
            lane.due = now + lane.source.every().as_millis() as u64;
        }
        // Every other second: what they show changes little, and makes a third of a tape.
        if gpus_modelled && second % 2 == 0 {
            let is_held = dir.path().join("proc/4200").exists();
            let bodies = NODE.gpus(second, |gpu| player.doing(gpu)).into_iter();
            for body in bodies.filter(|body| is_held || !matches!(body, Body::GpuProcesses { .. })) {
                see(at, "nvml", body, &mut to);
            }
        }
        for text in player.kernel_lines() {
            let line = KernelLine { level: 3, uptime_us: None, text, backlog: false };
            see(at, "kmsg", Body::Kernel { lines: vec![line], uptime_us: None }, &mut to);
        }
        let now = player.fabric();
        if now != fabric {
            fabric.clone_from(&now);
            see(at, "nvml", Body::GpuHealth { gpus: now }, &mut to);
        }
        see(at, "feed", Body::Tick, &mut to);
        at = at.plus(TICK);
    }
    header
}

/// What `job8.part` starts.
const NODE: Node = Node { gpus: 8, first_rank: 8, world: 16, launcher: 4100, job: "2890", log: "fsx/jobs/2890/train.log" };

/// GPUs by their place in the PCI tree, and all the rest of what NVML would say of them.
fn gpus(roots: &Roots, modelled: bool) -> Vec<Body> {
    let found = nvml::from_pci(roots);
    if !modelled {
        return found;
    }
    let mut bodies = NODE.gpu_facts();
    for (body, found) in bodies.iter_mut().zip(found) {
        if let (Body::GpuInfo(info), Body::GpuInfo(found)) = (body, found) {
            (info.bus_id, info.pci_path, info.cpus) = (found.bus_id, found.pci_path, found.cpus);
            (info.numa, info.numa_affinity) = (found.numa, found.numa_affinity);
        }
    }
    bodies.insert(0, Body::Source(SourceReport { state: SourceState::Ok, detail: None, title: None }));
    bodies
}

/// Performs a play before a judge.
pub fn judged(play: Play) -> (Session, Vec<(Stamp, Event)>) {
    let mut session: Option<Session> = None;
    let mut events = Vec::new();
    perform(play, |header, seen| session.get_or_insert_with(|| header.session()).apply(&seen, &mut events));
    (session.expect("a tick at least"), events)
}

/// Hundreds of files change every second: in memory where there is room.
fn directory() -> tempfile::TempDir {
    const ROOM: u64 = 1 << 30;
    let has_room = rustix::fs::statvfs("/dev/shm").is_ok_and(|fs| fs.f_bavail.saturating_mul(fs.f_frsize) > ROOM);
    let in_memory = if has_room { tempfile::tempdir_in("/dev/shm").ok() } else { None };
    in_memory.unwrap_or_else(|| tempfile::tempdir().expect("a directory"))
}

fn header(roots: &Roots) -> Header {
    let host = roots.table("/proc/sys/kernel/hostname").unwrap_or_default().trim().to_owned();
    let boot_id = roots.table("/proc/sys/kernel/random/boot_id").ok().map(|id| id.trim().to_owned());
    Header {
        tape: "nccl-top".into(),
        version: nccl_top::recording::tape::VERSION,
        program: env!("CARGO_PKG_VERSION").into(),
        host,
        zone_offset_s: 0,
        boot_id,
        interval_ms: 1000,
        started_ns: START,
    }
}

impl Lane {
    fn poll(&mut self) -> Vec<Body> {
        let mut bodies = Vec::new();
        let (state, detail) = match self.source.poll(&mut bodies) {
            Ok(()) => self.source.remark().map_or((SourceState::Ok, None), |(state, text)| (state, Some(text))),
            Err(err) => (err.state(), Some(err.to_string())),
        };
        let report = SourceReport { state, detail, title: None };
        if self.told.as_ref() != Some(&report) {
            self.told = Some(report.clone());
            bodies.push(Body::Source(report));
        }
        bodies
    }
}

/// Without what is of the machine that performs: the directory, its disks, the times and numbers of its files.
fn tidy(mut body: Body, root: &str, now: Stamp) -> Body {
    let short = |path: &mut String| {
        if let Some(rest) = path.strip_prefix(root) {
            *path = rest.to_owned();
        }
    };
    match &mut body {
        Body::Host(sample) => {
            sample.disks = Vec::new();
            (sample.shm_total_bytes, sample.shm_free_bytes) = (None, None);
        }
        Body::Process(info) => {
            info.cwd.iter_mut().for_each(short);
            for log in &mut info.logs {
                short(&mut log.path);
                if log.inode.is_some() {
                    (log.inode, log.device) = (Some(number_of(&log.path)), Some(1));
                }
            }
        }
        Body::LogFile(LogFileInfo { path, inode, device, modified_ns, .. }) => {
            short(path);
            (*inode, *device, *modified_ns) = (Some(number_of(path)), Some(1), Some(now.0));
        }
        _ => {}
    }
    body
}

/// An inode for a path.
fn number_of(path: &str) -> u64 {
    Path::new(path).as_os_str().as_encoded_bytes().iter().fold(1000, |n, byte| (n * 31 + u64::from(*byte)) % 1_000_000)
}
