//! What is known about the world: observations in, state out. No clock, no file, no thread.

pub mod alarms;
mod archive;
mod arrivals;
pub mod attempts;
mod bounds;
pub mod bringup;
pub mod chronicle;
pub mod circle;
pub mod comm;
pub mod counting;
pub mod course;
pub mod deeds;
pub mod dumps;
pub mod ending;
pub mod gpu;
mod grouping;
pub mod health;
pub mod identity;
pub mod inspected;
pub mod job;
pub mod job_record;
mod launcher;
pub mod log;
pub mod own_loss;
pub mod peers;
pub mod port;
pub mod process;
pub mod progress;
pub mod quiet;
pub mod reading;
pub mod rhythm;
pub mod room;
pub mod saved_report;
pub mod series;
pub mod signals;
mod told_rate;
pub mod topology;
pub mod usual;
pub mod waits;

use crate::base::time::{Stamp, Zone};
use crate::logs::TextEvent;
use crate::observe::facts::HostFacts;
use crate::observe::host::{CgroupCpu, CgroupMemory, DiskSample, HostSample, Node, Temperature};
use crate::observe::inspector::Inspected;
use crate::observe::log::{KernelLine, LogFileState, RasAnswer};
use crate::observe::port::{QueuePairHolder, QueuePairs};
use crate::observe::process::{ProcessInfo, ProcessRole};
use crate::observe::{Body, Observation, Remark, SourceId, SourceState, gpu::GpuTopology};
use comm::Comm;
use dumps::Dumps;
use gpu::Gpu;
use job::Job;
use job_record::Record;
use log::{LogFile, Logbook};
use port::{Netdev, Port};
use process::{Gone, Process};
use progress::Progress;
use room::{Resource, Room, left_of_cgroup, left_of_disk, left_of_host};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// The state of one host and the jobs on it.
#[derive(Clone, Default, PartialEq)]
pub struct Model {
    pub now: Stamp,
    /// The first observation.
    pub started: Option<Stamp>,
    pub zone: Zone,
    pub host: String,
    pub node: Option<Node>,
    /// What the user noted on findings, as far as it holds.
    pub remarks: BTreeSet<Remark>,
    /// How the host is set up.
    pub facts: Option<Arc<HostFacts>>,
    pub host_sample: Option<HostSample>,
    pub cpu_busy_pct: Option<f64>,
    /// Of the time between the last two looks: how long a task of the host waited for a CPU.
    pub cpu_pressure_pct: Option<f64>,
    host_sampled_at: Stamp,
    /// How control groups with a quota of CPU time were throttled between the last two looks, by path.
    pub throttled: BTreeMap<String, Throttled>,
    /// All file systems that can fill, as last seen. Empty where only some of them are known.
    pub disks: Vec<DiskSample>,
    pub temperatures: Vec<Temperature>,
    /// Of this program and of the jobs' processes, by who looked.
    pub cgroups: BTreeMap<SourceId, Vec<CgroupMemory>>,
    /// How much was left of what can run out.
    pub room: BTreeMap<Resource, Room>,
    /// When the kernel last killed a process for memory.
    pub oom_kills_rose: Option<Rise>,
    pub sources: BTreeMap<SourceId, SourceView>,
    pub gpus: BTreeMap<u32, Gpu>,
    pub topology: Option<GpuTopology>,
    pub ports: BTreeMap<(String, u32), Port>,
    /// By device, with when they were listed.
    queue_pairs: BTreeMap<String, (Stamp, Vec<QueuePairHolder>)>,
    pub netdevs: BTreeMap<String, Netdev>,
    pub processes: BTreeMap<u32, Process>,
    pub jobs: BTreeMap<String, Job>,
    pub files: BTreeMap<u32, LogFile>,
    pub logbook: Logbook,
    pub comms: BTreeMap<u64, Comm>,
    /// The GPUs that RAS names, by the pid of the process in its own namespace. Each process is looked up in each second.
    gpu_by_ras: Arc<HashMap<u32, u32>>,
    /// The ranks that RAS names in the largest communicator, by the same pids, and how many there are in all. What several nodes have of
    /// the same pid is not in it.
    rank_by_ras: Arc<(HashMap<u32, u32>, u32)>,
    /// Names of jobs whose ranks several shells have started, and the one that they are known by.
    met: BTreeMap<String, String>,
    pub ras: RasView,
    pub kernel: VecDeque<(Stamp, KernelLine)>,
    pub dumps: Dumps,
    /// What the NCCL Inspector last wrote of a process, by its pid.
    pub inspected: BTreeMap<u32, Inspected>,
    /// What the logs of each job have reported, by its id.
    pub records: BTreeMap<String, Record>,
    /// Grows with every fact that [`bringup`] may judge differently.
    pub bringup_revision: u64,
    /// Ranks by the pid that a launcher's lines name, of all nodes. `None`: two ranks have the same.
    placed: BTreeMap<u32, Option<u32>>,
    /// Processes or files came since jobs were last put together.
    ungrouped: bool,
    /// When which of `files` went.
    gone_files: BTreeSet<(Stamp, u32)>,
    /// Some process ended since those that had ended were dropped last.
    some_ended: bool,
    /// What there was no room for.
    left_out: bounds::LeftOut,
    /// Jobs known from logs alone whose processes were found: the old id and the new one. Taken by the session.
    pub adopted: Vec<(String, String)>,
    /// When nothing was looked at, from and to: the last of them.
    gaps: VecDeque<(Stamp, Stamp)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SourceView {
    pub state: SourceState,
    pub detail: Option<String>,
    /// What it sees.
    pub title: Option<&'static str>,
    pub since: Stamp,
}

/// Who has so many queue pairs on a port.
#[derive(Clone, Copy, Debug)]
pub struct QueuePairUser<'a> {
    pub job: Option<&'a Job>,
    pub rank: Option<u32>,
    /// `None`: the kernel, or a thread that has ended.
    pub pid: Option<u32>,
    pub kernel: Option<&'a str>,
    pub count: u32,
}

/// A control group that may use only so many CPUs.
#[derive(Clone, Debug, PartialEq)]
pub struct Throttled {
    pub limited_by: String,
    pub limit_cpus: Option<f64>,
    /// Of the periods in which it ran: those in which its quota was used up.
    pub share_pct: f64,
}

impl Throttled {
    fn between(before: &CgroupCpu, now: &CgroupCpu) -> Option<Throttled> {
        let periods = now.periods.checked_sub(before.periods).filter(|n| *n > 0)?;
        let share_pct = now.throttled.checked_sub(before.throttled)? as f64 / periods as f64 * 100.0;
        Some(Throttled { limited_by: now.limited_by.clone(), limit_cpus: now.limit_cpus, share_pct })
    }
}

/// A count that grew.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rise {
    pub at: Stamp,
    pub before: u64,
    pub after: u64,
}

/// How asking RAS goes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasView {
    pub nccl_version: Option<String>,
    pub answered_at: Option<Stamp>,
    pub took_ms: Option<f64>,
    pub error: Option<String>,
}

/// An event of a log line, with everything about the line that rules need.
pub struct TextSeen<'a> {
    /// When it was read.
    pub at: Stamp,
    /// When it was written, as far as that is known better.
    pub since: Stamp,
    pub file: u32,
    pub line: Option<u64>,
    /// Cleaned.
    pub text: &'a str,
    pub event: &'a TextEvent,
    /// Global rank of the writer, from the line, or from its pid.
    pub rank: Option<u32>,
    pub job: String,
    pub backlog: bool,
    /// How often it was printed: more than once where equal lines were folded.
    pub times: u64,
}

/// A log that has not grown for so long is silent.
const SILENT: Duration = Duration::from_secs(30);
/// Kernel lines kept for the screen.
const MAX_KERNEL: usize = 200;
/// How long a job that ended is shown.
const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// How long a process that is gone is known, if no job needs it.
const KEEP_GONE: Duration = Duration::from_secs(60);
/// Processes and communicators beyond this are not jobs of one node.
const MAX_PROCESSES: usize = 4096;
const MAX_COMMS: usize = 4096;
/// Twice what the host source reports.
const MAX_DISKS: usize = 128;
const MAX_CGROUPS: usize = 128;
/// Groups come and go with their pods.
const MAX_RESOURCES: usize = 512;
/// What is older than these is silent for long anyway.
const MAX_GAPS: usize = 16;
/// Twice what the tailer follows.
const MAX_FILES: usize = 2048;

impl Model {
    /// Applies everything but log lines, which come one by one through [`Model::apply_line`].
    pub fn apply(&mut self, seen: &Observation) {
        self.started.get_or_insert(seen.at);
        self.now = self.now.max(seen.at);
        let at = seen.at;
        match &seen.body {
            Body::Remark(remark) => self.apply_remark(remark),
            Body::Lines(_) | Body::GpuEvents { .. } | Body::Unknown => {}
            Body::Tick => {
                self.show_left_out();
                self.settle();
                self.end_jobs(at);
                self.sense_rhythms(at);
                self.forget(at);
                self.reassign();
                self.remember_ranks();
            }
            Body::End => self.show_left_out(),
            Body::Gap { for_ms } => {
                if self.gaps.len() == MAX_GAPS {
                    self.gaps.pop_front();
                }
                let gap = Duration::from_millis(*for_ms);
                self.gaps.push_back((at.minus(gap), at));
                self.files.values_mut().for_each(|file| file.progress.stood_still(at, gap));
            }
            Body::Source(_) if self.sources.len() >= bounds::SOURCES && !self.sources.contains_key(&seen.from) => {
                self.leave_out("a source", 1, bounds::SOURCES);
            }
            Body::Source(report) => {
                let since = self.sources.get(&seen.from).filter(|v| v.state == report.state).map_or(at, |v| v.since);
                self.sources.insert(
                    seen.from.clone(),
                    SourceView { state: report.state, detail: report.detail.clone(), title: report.title, since },
                );
            }
            Body::Node(node) => self.node = Some(node.clone()),
            Body::HostFacts(facts) => self.facts = Some(Arc::new(bounds::facts(facts))),
            Body::Host(sample) => self.apply_host(at, sample),
            Body::Cgroups { cgroups } => {
                self.apply_cgroups(at, &seen.from, cgroups);
            }
            Body::GpuInfo(info) => self.gpu(info.index, |gpu| gpu.info = info.clone()),
            Body::Gpus { gpus } => {
                for sample in gpus {
                    self.gpu(sample.index, |gpu| gpu.apply(at, sample));
                    if let Some(used) = sample.mem_used_bytes {
                        self.held(at, Resource::GpuMemory(sample.index), used);
                    }
                }
            }
            Body::GpuProcesses { gpus } => {
                for of in gpus {
                    let (kept, more) = of.processes.split_at(of.processes.len().min(bounds::GPU_PROCESSES));
                    self.leave_out("a process on a GPU", more.len(), bounds::GPU_PROCESSES);
                    self.gpu(of.index, |gpu| gpu.held_by(kept.to_vec()));
                }
            }
            Body::GpuHealth { gpus } => {
                for health in gpus {
                    let mut health = health.clone();
                    self.leave_out("an NVLink", health.nvlink_states.len().saturating_sub(bounds::NVLINKS), bounds::NVLINKS);
                    health.nvlink_states.truncate(bounds::NVLINKS);
                    health.nvlink_tx_mbytes_per_s.truncate(bounds::NVLINKS);
                    health.nvlink_rx_mbytes_per_s.truncate(bounds::NVLINKS);
                    self.gpu(health.index, |gpu| gpu.apply_health(at, &health));
                }
            }
            Body::Nvlinks(links) => {
                let mut links = links.clone();
                links.links.truncate(bounds::NVLINKS);
                self.gpu(links.index, |gpu| gpu.nvlinks.saw(links));
            }
            Body::GpuTopology(topology) => {
                self.topology = Some(topology.clone());
                self.bringup_revision += 1;
            }
            Body::Netdevs { netdevs } => {
                let there: BTreeSet<&str> = netdevs.iter().map(|n| n.name.as_str()).collect();
                self.netdevs.retain(|name, _| there.contains(name.as_str()));
                for sample in netdevs {
                    match bounds::entry(&mut self.netdevs, sample.name.clone(), bounds::NETDEVS) {
                        Some(netdev) => netdev.apply(at, sample),
                        None => self.leave_out("an interface", 1, bounds::NETDEVS),
                    }
                }
            }
            Body::PortInfo(info) => {
                match bounds::entry(&mut self.ports, (info.device.clone(), info.port), bounds::PORTS) {
                    Some(port) => port.info = info.clone(),
                    None => self.leave_out("a port", 1, bounds::PORTS),
                }
                self.bringup_revision += 1;
            }
            Body::Ports { ports } => {
                for sample in ports {
                    match bounds::entry(&mut self.ports, (sample.device.clone(), sample.port), bounds::PORTS) {
                        Some(port) => port.apply(at, sample),
                        None => self.leave_out("a port", 1, bounds::PORTS),
                    }
                }
            }
            Body::QueuePairs { devices } => {
                for QueuePairs { device, holders } in devices {
                    match bounds::entry(&mut self.queue_pairs, device.clone(), bounds::PORTS) {
                        Some(known) => *known = (at, holders.iter().take(bounds::HOLDERS).cloned().collect()),
                        None => self.leave_out("queue pairs of a device", 1, bounds::PORTS),
                    }
                }
            }
            Body::Process(info) => {
                self.apply_process(at, info);
                self.bringup_revision += 1;
            }
            Body::Processes { processes } => {
                for sample in processes {
                    if let Some(process) = self.processes.get_mut(&sample.pid) {
                        process.apply(at, sample);
                    }
                }
                for sample in processes {
                    let is_rank = self.processes.get(&sample.pid).is_some_and(|p| p.info.role == ProcessRole::Rank);
                    if let Some(held) = sample.rss_bytes.filter(|_| is_rank) {
                        self.held(at, Resource::Process(sample.pid), held);
                    }
                }
            }
            Body::ProcessGone(gone) => {
                if let Some(process) = self.processes.get_mut(&gone.pid)
                    && process.info.start_ticks == gone.start_ticks
                {
                    process.gone.get_or_insert(Gone { at, exit_code: gone.exit_code });
                    self.some_ended = true;
                    self.room.remove(&Resource::Process(gone.pid));
                }
            }
            Body::LogFile(info) if info.archived => self.archive_log(at, info),
            Body::LogFile(info) if !self.has_room_for_log(info.file) => self.leave_out("a log", 1, MAX_FILES),
            Body::LogFile(info) => {
                let file = self.files.entry(info.file).or_insert_with(|| LogFile::new(info.clone()));
                if matches!(info.state, LogFileState::Rotated | LogFileState::Truncated) {
                    file.reader = crate::logs::Reader::default();
                }
                if info.state == LogFileState::Truncated {
                    file.progress = Progress::default();
                    file.bringup = bringup::Bringup::default();
                }
                let gone_at = matches!(info.state, LogFileState::Gone | LogFileState::Failed).then_some(at);
                if let Some(before) = std::mem::replace(&mut file.gone_at, gone_at) {
                    self.gone_files.remove(&(before, info.file));
                }
                self.gone_files.extend(gone_at.map(|at| (at, info.file)));
                file.info = info.clone();
                self.ungrouped = true;
            }
            Body::Ras(answer) => self.apply_ras(at, answer),
            Body::FlightDump(dump) => {
                let before = self.dumps.ignored;
                self.dumps.apply(at, dump);
                self.leave_out("a Flight Recorder dump", (self.dumps.ignored - before) as usize, dumps::MAX_DUMPS);
            }
            Body::Inspector(seen) => self.apply_inspected(seen),
            Body::Kernel { lines, .. } => {
                for line in lines {
                    if self.kernel.len() == MAX_KERNEL {
                        self.kernel.pop_front();
                    }
                    self.kernel.push_back((at, line.clone()));
                }
            }
        }
    }

    /// Whether one more log can be kept: the one that has been gone for longest gives way.
    fn has_room_for_log(&mut self, file: u32) -> bool {
        if self.files.len() < MAX_FILES || self.files.contains_key(&file) {
            return true;
        }
        self.gone_files.pop_first().is_some_and(|(_, id)| self.files.remove(&id).is_some())
    }

    /// The moment from which silence is counted that began at this one: as much later as nothing was looked at since.
    pub fn watched(&self, since: Stamp) -> Stamp {
        let unseen = self.gaps.iter().map(|(from, to)| to.since(since.max(*from)));
        since.plus(unseen.sum())
    }

    fn gpu(&mut self, index: u32, change: impl FnOnce(&mut Gpu)) {
        if self.gpus.len() < bounds::GPUS || self.gpus.contains_key(&index) {
            change(self.gpus.entry(index).or_insert_with(|| Gpu::new(index)));
        } else {
            self.leave_out("a GPU", 1, bounds::GPUS);
        }
    }

    fn apply_remark(&mut self, remark: &Remark) {
        let held = Remark { over: false, ..remark.clone() };
        if remark.over {
            self.remarks.remove(&held);
        } else if self.remarks.len() < bounds::REMARKS {
            self.remarks.insert(held);
        }
    }

    fn apply_host(&mut self, at: Stamp, sample: &HostSample) {
        if let Some(before) = &self.host_sample
            && let (Some(b0), Some(b1)) = (before.cpu_busy_ticks, sample.cpu_busy_ticks)
            && let (Some(i0), Some(i1)) = (before.cpu_idle_ticks, sample.cpu_idle_ticks)
        {
            let (busy, idle) = (b1.saturating_sub(b0) as f64, i1.saturating_sub(i0) as f64);
            self.cpu_busy_pct = (busy + idle > 0.0).then(|| busy / (busy + idle) * 100.0);
        }
        let before = self.host_sample.as_ref().and_then(|h| h.cpu_pressure_us).zip(Some(self.host_sampled_at));
        let waited = before.zip(sample.cpu_pressure_us).and_then(|((before, then), now)| series::rate((then, before), (at, now)));
        self.cpu_pressure_pct = waited.map(|us_per_s| (us_per_s / 1e4).min(100.0));
        self.host_sampled_at = at;
        if let (Some(before), Some(after)) = (self.host_sample.as_ref().and_then(|h| h.oom_kills), sample.oom_kills)
            && after > before
        {
            self.oom_kills_rose = Some(Rise { at, before, after });
        }
        if sample.disks.iter().any(|disk| disk.fs.is_some()) {
            self.disks = sample.disks.iter().take(MAX_DISKS).cloned().collect();
            let left: Vec<_> =
                self.disks.iter().filter_map(|disk| Some((Resource::Disk(disk.mount.clone()), left_of_disk(disk)?))).collect();
            left.into_iter().for_each(|(what, left)| self.left(at, what, left));
        }
        if !sample.temperatures.is_empty() {
            self.temperatures = sample.temperatures.iter().take(MAX_DISKS).cloned().collect();
        }
        if let Some(left) = left_of_host(sample) {
            self.left(at, Resource::Memory, left);
        }
        self.host_sample = Some(sample.clone());
    }

    fn apply_cgroups(&mut self, at: Stamp, from: &SourceId, cgroups: &[CgroupMemory]) {
        let cgroups: Vec<CgroupMemory> = cgroups.iter().take(MAX_CGROUPS).cloned().collect();
        for of in &cgroups {
            if let Some(left) = left_of_cgroup(of) {
                self.left(at, Resource::Cgroup(of.cgroup.clone()), left);
            }
        }
        for of in &cgroups {
            let before = self.cgroups.get(from).and_then(|known| known.iter().find(|c| c.cgroup == of.cgroup)).and_then(|c| c.cpu.as_ref());
            let share = before.zip(of.cpu.as_ref()).and_then(|(before, now)| Throttled::between(before, now));
            if let Some(share) = share
                && (self.throttled.len() < MAX_RESOURCES || self.throttled.contains_key(&of.cgroup))
            {
                self.throttled.insert(of.cgroup.clone(), share);
            }
        }
        self.cgroups.insert(from.clone(), cgroups);
    }

    fn held(&mut self, at: Stamp, what: Resource, bytes: u64) {
        if self.room.len() < MAX_RESOURCES || self.room.contains_key(&what) {
            self.room.entry(what).or_default().hold(at, bytes);
        }
    }

    fn left(&mut self, at: Stamp, what: Resource, left_bytes: u64) {
        if self.room.len() < MAX_RESOURCES || self.room.contains_key(&what) {
            self.room.entry(what).or_default().push(at, left_bytes);
        }
    }

    fn apply_process(&mut self, at: Stamp, info: &ProcessInfo) {
        let info = bounds::process(info.clone());
        match self.processes.get_mut(&info.pid) {
            Some(known) if known.info.start_ticks == info.start_ticks => {
                let before = std::mem::replace(&mut known.info, info);
                // A process that is ending has lost its arguments and environment; who it was stays known.
                if known.info.cmdline.is_empty() {
                    known.info.cmdline = before.cmdline;
                }
                if known.info.env.is_none() && before.env.is_some() {
                    (known.info.env, known.info.role) = (before.env, before.role);
                }
            }
            _ => {
                // Looked for once: a hostile tape brings each of many more processes that there is no room for.
                if self.processes.len() >= MAX_PROCESSES && std::mem::take(&mut self.some_ended) {
                    self.processes.retain(|_, p| p.is_alive());
                }
                if self.processes.len() >= MAX_PROCESSES {
                    self.leave_out("a process", 1, MAX_PROCESSES);
                    return;
                }
                self.processes.insert(info.pid, Process::new(at, info));
            }
        }
        self.ungrouped = true;
    }

    fn apply_ras(&mut self, at: Stamp, answer: &RasAnswer) {
        self.ras.took_ms = Some(answer.took_ms);
        self.ras.error.clone_from(&answer.error);
        if answer.reply.is_empty() {
            return;
        }
        match crate::formats::ras::parse(&answer.reply) {
            Ok(report) => {
                self.ras.nccl_version = report.nccl_version.clone().or(self.ras.nccl_version.take());
                self.ras.answered_at = Some(at);
                let left_out = comm::apply_report(&mut self.comms, at, &report, MAX_COMMS);
                self.leave_out("a communicator", left_out, MAX_COMMS);
                self.index_ras();
            }
            Err(err) => self.ras.error = Some(err.to_string()),
        }
    }

    /// How long a pause that a log of the job names may last before it is no longer believed: that of the longest like it before, and more.
    /// `all_stand`: no rank uses a CPU, or reads or writes a file.
    pub fn pause_limit(&self, job: &str, phase: crate::logs::Phase, all_stand: bool) -> Duration {
        /// Where none was seen to end.
        const UNKNOWN: Duration = Duration::from_secs(600);
        const LEAST: Duration = Duration::from_secs(240);
        const MOST: Duration = Duration::from_secs(3600);
        if phase == crate::logs::Phase::Serving {
            return Duration::MAX;
        }
        let alike = |f: &LogFile| f.progress.phases.iter().filter(|p| p.0 == phase).map(|(_, from, to)| to.since(*from)).max();
        let longest = self.files_of(job).filter_map(alike).max();
        const STANDS: Duration = Duration::from_secs(14);
        match longest {
            None => UNKNOWN,
            Some(longest) if all_stand => (longest * 10).clamp(STANDS, LEAST),
            Some(longest) => (longest * 3 + Duration::from_secs(60)).clamp(LEAST, MOST),
        }
    }

    /// The pause that a log of the job names, the newest.
    pub fn phase_of(&self, job: &str) -> Option<(crate::logs::Phase, Stamp)> {
        let last_step = self.progress_of(job).and_then(|p| p.last_step_at);
        let phases = self.files_of(job).filter_map(|f| f.progress.phase());
        phases.filter(|(_, since)| last_step.is_none_or(|at| at <= *since)).max_by_key(|(_, since)| *since)
    }

    pub fn files_of(&self, job: &str) -> impl Iterator<Item = &LogFile> {
        self.files.values().filter(move |f| f.job == job)
    }

    /// A log of a job of which no process is seen has come to its end, or to a stop.
    pub fn is_silent(&self, file: &LogFile) -> bool {
        let log_only = self.jobs.get(&file.job).is_some_and(|j| j.log_only);
        log_only && file.last_line_at.is_some_and(|at| self.now.since(self.watched(at)) >= SILENT)
    }

    /// The progress of the file that tells most recently how far the job is.
    pub fn progress_of(&self, job: &str) -> Option<&Progress> {
        self.files_of(job)
            .map(|f| &f.progress)
            .filter(|p| !p.is_empty() || p.phase().is_some() || p.done_at.is_some())
            .max_by_key(|p| (p.last_step_at, p.step))
    }

    /// The GPU that a process holds: NVML's word, else RAS's.
    pub fn gpu_of_pid(&self, pid: u32) -> Option<u32> {
        // A forgotten set_device leaves every rank a small context on GPU 0: the largest one is where it works.
        let holds = |g: &Gpu| g.processes.iter().find(|p| p.pid == pid).map(|p| (p.mem_bytes, std::cmp::Reverse(g.index)));
        let by_nvml = self.gpus.values().filter_map(holds).max().map(|(_, index)| index.0);
        by_nvml.or_else(|| {
            let inner = self.processes.get(&pid)?.info.ns_pid.unwrap_or(pid);
            let dev = *self.gpu_by_ras.get(&inner)?;
            self.gpus.contains_key(&dev).then_some(dev)
        })
    }

    fn index_ras(&mut self) {
        let ranks = self.comms.values().flat_map(|c| c.ranks.values());
        let mut by_pid = HashMap::new();
        for (pid, dev) in ranks.filter_map(|r| r.pid.zip(r.nvml_dev)) {
            by_pid.entry(pid).or_insert(dev);
        }
        self.gpu_by_ras = Arc::new(by_pid);
        let answered = || self.comms.values().filter(|c| c.answered_at.is_some());
        let nranks = answered().map(|c| c.nranks).max().unwrap_or_default();
        let mut ranks: HashMap<u32, u32> = HashMap::new();
        // Of two of that size with different numbers nobody knows which are meant.
        let mut twice = HashSet::new();
        for comm in answered().filter(|c| c.nranks == nranks) {
            let mut own = HashSet::new();
            for (rank, pid) in comm.ranks.iter().filter_map(|(rank, known)| Some((*rank, known.pid?))) {
                if !own.insert(pid) || ranks.insert(pid, rank).is_some_and(|before| before != rank) {
                    twice.insert(pid);
                }
            }
        }
        ranks.retain(|pid, _| !twice.contains(pid));
        let named = (ranks, nranks);
        let hidden = |p: &Process| p.may_be_numbered_by_ras() && p.is_alive();
        if *self.rank_by_ras != named && !named.0.is_empty() {
            self.ungrouped |= self.processes.values().any(hidden);
            self.rank_by_ras = Arc::new(named);
        }
    }

    /// The rank of a job of one process, which has nobody to exchange anything with. A process that names its rank and no world may be one of many.
    pub fn only_rank(&self, job: &Job) -> Option<u32> {
        let rank = job.only_seen_rank()?;
        let is_one_of_many = || job.ranks.get(&rank).and_then(|pid| self.processes.get(pid)).is_none_or(Process::names_rank);
        let in_logs =
            || self.files_of(&job.id).flat_map(|file| &file.comms).filter_map(|hash| self.comms.values().find(|c| c.hash == *hash));
        let exchanges = || self.comms_of(job).chain(in_logs()).any(|comm| comm.nranks > 1);
        let is_alone = (job.world_size.is_some() || !is_one_of_many()) && !exchanges();
        is_alone.then_some(rank)
    }

    /// The job that works on a GPU, and the pid of its process there; of several the one that has a rank there, and then the one with most
    /// processes: who computes beside a rank is a stranger.
    pub fn owner_of_gpu(&self, index: u32) -> Option<(&Job, u32)> {
        let at_work = self.jobs.values().filter(|j| !self.is_stale(j)).filter_map(|job| {
            let works = |pid: &u32| self.gpu_of_pid(*pid) == Some(index) && self.processes.get(pid).is_some_and(Process::is_alive);
            Some((job, job.pids().find(works)?))
        });
        at_work.rev().max_by_key(|(job, pid)| (job.rank_of(*pid).is_some(), job.pids().count()))
    }

    /// The job that works on a GPU, and its ranks there in ascending order: several where they share it, none where its processes have no ranks.
    pub fn ranks_on_gpu(&self, index: u32) -> Option<(&Job, Vec<u32>)> {
        let (job, _) = self.owner_of_gpu(index)?;
        let works = |pid: &u32| self.gpu_of_pid(*pid) == Some(index) && self.processes.get(pid).is_some_and(Process::is_alive);
        Some((job, job.ranks.iter().filter(|(_, pid)| works(pid)).map(|(rank, _)| *rank).collect()))
    }

    /// The one rank that works on a GPU, and its job. None where several share it: what the GPU tells is of no one of them.
    pub fn only_rank_on_gpu(&self, index: u32) -> Option<(&Job, u32)> {
        let (job, ranks) = self.ranks_on_gpu(index)?;
        <[u32; 1]>::try_from(ranks).ok().map(|[rank]| (job, rank))
    }

    /// Keeps of each GPU which ranks work there, for when they have ended.
    fn remember_ranks(&mut self) {
        let had = |index: u32| self.ranks_on_gpu(index).filter(|(_, ranks)| !ranks.is_empty()).map(|(job, ranks)| (job.id.clone(), ranks));
        let all: Vec<(u32, (String, Vec<u32>))> = self.gpus.keys().filter_map(|index| Some((*index, had(*index)?))).collect();
        for (index, had) in all {
            if self.gpus.get(&index).is_some_and(|gpu| gpu.had.as_ref() != Some(&had)) {
                self.gpu(index, |gpu| gpu.had = Some(had));
            }
        }
    }

    /// Who has queue pairs on a port, ranks first, and when they were listed. `None`: not known.
    pub fn queue_pairs_of(&self, port: &Port) -> Option<(Stamp, Vec<QueuePairUser<'_>>)> {
        let (at, holders) = self.queue_pairs.get(&port.info.device)?;
        let rank = |pid: u32| self.jobs.values().filter(|job| !self.is_stale(job)).find_map(|job| Some((job, job.rank_of(pid)?)));
        let of_port = holders.iter().filter(|holder| holder.port == port.info.port);
        let mut users: Vec<QueuePairUser> = of_port
            .map(|QueuePairHolder { pid, kernel, count, .. }| {
                let rank = pid.and_then(rank);
                let (job, rank) = (rank.map(|(job, _)| job), rank.map(|(_, rank)| rank));
                QueuePairUser { job, rank, pid: *pid, kernel: kernel.as_deref(), count: *count }
            })
            .collect();
        users.sort_by_key(|user| (user.rank.is_none(), user.rank, user.pid.is_none(), user.pid));
        Some((*at, users))
    }

    /// Communicators whose processes are this job's.
    pub fn comms_of<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Comm> {
        // Where no process may be seen, the lines of its logs name its communicators. If they do not, and no other job is known, those
        // are its own whose processes hold GPUs here.
        let told: BTreeSet<u64> = self.files_of(&job.id).filter(|_| job.log_only).flat_map(|f| f.comms.iter().copied()).collect();
        let only = job.log_only && told.is_empty() && self.jobs.len() == 1 && self.processes.is_empty();
        let held = self.gpus.values().filter(|_| only).flat_map(|g| g.processes.iter().map(|p| p.pid));
        let inner: HashSet<u32> =
            job.pids().map(|pid| self.processes.get(&pid).and_then(|p| p.info.ns_pid).unwrap_or(pid)).chain(held).collect();
        // A text report names few pids, and perhaps none of ours: then the lines of the logs, or its size, say whose it is.
        let in_logs: BTreeSet<u64> = self.files_of(&job.id).flat_map(|f| f.comms.iter().copied()).collect();
        let alone = self.jobs.values().filter(|j| j.ended_at.is_none()).take(2).count() == 1;
        let by_text = move |comm: &Comm| comm.in_text && (in_logs.contains(&comm.hash) || (alone && job.world_size == Some(comm.nranks)));
        self.comms.values().filter(move |comm| {
            told.contains(&comm.hash)
                || by_text(comm)
                || comm
                    .ranks
                    .values()
                    .filter_map(|r| r.pid)
                    .chain(comm.missing.values().filter_map(|m| m.pid))
                    .any(|pid| inner.contains(&pid))
        })
    }
}
