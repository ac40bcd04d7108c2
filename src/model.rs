//! What is known about the world: observations in, state out. No clock, no file, no thread.

pub mod comm;
pub mod gpu;
pub mod job;
pub mod log;
pub mod port;
pub mod process;
pub mod series;

use crate::observe::host::{HostSample, Node};
use crate::observe::log::{KernelLine, LogFileState, RasAnswer};
use crate::observe::process::{ProcessInfo, ProcessRole};
use crate::observe::{Body, Observation, SourceId, SourceState, gpu::GpuTopology};
use crate::text::{TextEvent, What, gate};
use crate::time::{Stamp, Zone};
use comm::Comm;
use gpu::Gpu;
use job::{Job, job_id};
use log::{Kept, LogFile, Logbook};
use port::{Netdev, Port};
use process::{Gone, Process};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

/// The state of one host and the jobs on it.
#[derive(Default)]
pub struct Model {
    pub now: Stamp,
    /// The first observation.
    pub started: Option<Stamp>,
    pub zone: Zone,
    pub host: String,
    pub node: Option<Node>,
    pub host_sample: Option<HostSample>,
    pub cpu_busy_pct: Option<f64>,
    pub sources: BTreeMap<SourceId, SourceView>,
    pub gpus: BTreeMap<u32, Gpu>,
    pub topology: Option<GpuTopology>,
    pub ports: BTreeMap<(String, u32), Port>,
    pub netdevs: BTreeMap<String, Netdev>,
    pub processes: BTreeMap<u32, Process>,
    pub jobs: BTreeMap<String, Job>,
    pub files: BTreeMap<u32, LogFile>,
    pub logbook: Logbook,
    pub comms: BTreeMap<u64, Comm>,
    pub ras: RasView,
    pub kernel: VecDeque<(Stamp, KernelLine)>,
    /// Processes or files came since jobs were last put together.
    ungrouped: bool,
    /// Jobs known from logs alone whose processes were found: the old id and the new one. Taken by the session.
    pub adopted: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct SourceView {
    pub state: SourceState,
    pub detail: Option<String>,
    pub since: Stamp,
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
    pub at: Stamp,
    pub file: u32,
    pub line: Option<u64>,
    /// Cleaned.
    pub text: &'a str,
    pub event: &'a TextEvent,
    /// Global rank of the writer, from the line, or from its pid.
    pub rank: Option<u32>,
    pub job: String,
    pub backlog: bool,
}

/// Kernel lines kept for the screen.
const MAX_KERNEL: usize = 200;
/// How long a job that ended is shown.
const FORGET_AFTER: Duration = Duration::from_secs(15 * 60);
/// How long a process that is gone is known, if no job needs it.
const KEEP_GONE: Duration = Duration::from_secs(60);
/// Processes and communicators beyond this are not jobs of one node.
const MAX_PROCESSES: usize = 4096;
const MAX_COMMS: usize = 4096;
/// Twice what the tailer follows.
const MAX_FILES: usize = 2048;

impl Model {
    /// Applies everything but log lines, which come one by one through [`Model::apply_line`].
    pub fn apply(&mut self, seen: &Observation) {
        self.started.get_or_insert(seen.at);
        self.now = self.now.max(seen.at);
        let at = seen.at;
        match &seen.body {
            Body::Lines(_) | Body::Unknown => {}
            Body::Tick => {
                self.settle();
                self.end_jobs(at);
                self.forget(at);
                self.reassign();
            }
            Body::End => {}
            Body::Source(report) => {
                let since = self.sources.get(&seen.from).filter(|v| v.state == report.state).map_or(at, |v| v.since);
                self.sources.insert(seen.from.clone(), SourceView { state: report.state, detail: report.detail.clone(), since });
            }
            Body::Node(node) => self.node = Some(node.clone()),
            Body::Host(sample) => self.apply_host(sample),
            Body::GpuInfo(info) => self.gpu(info.index).info = info.clone(),
            Body::Gpus { gpus } => gpus.iter().for_each(|sample| self.gpu(sample.index).apply(at, sample)),
            Body::GpuProcesses { gpus } => gpus.iter().for_each(|g| self.gpu(g.index).processes.clone_from(&g.processes)),
            Body::GpuHealth { gpus } => gpus.iter().for_each(|h| self.gpu(h.index).apply_health(h)),
            Body::GpuTopology(topology) => self.topology = Some(topology.clone()),
            Body::Netdevs { netdevs } => {
                for sample in netdevs {
                    self.netdevs.entry(sample.name.clone()).or_default().apply(at, sample);
                }
                self.netdevs.retain(|name, _| netdevs.iter().any(|n| n.name == *name));
            }
            Body::PortInfo(info) => self.ports.entry((info.device.clone(), info.port)).or_default().info = info.clone(),
            Body::Ports { ports } => {
                for sample in ports {
                    self.ports.entry((sample.device.clone(), sample.port)).or_default().apply(at, sample);
                }
            }
            Body::Process(info) => self.apply_process(at, info),
            Body::Processes { processes } => {
                for sample in processes {
                    if let Some(process) = self.processes.get_mut(&sample.pid) {
                        process.apply(at, sample);
                    }
                }
            }
            Body::ProcessGone(gone) => {
                if let Some(process) = self.processes.get_mut(&gone.pid)
                    && process.info.start_ticks == gone.start_ticks
                {
                    process.gone.get_or_insert(Gone { at, exit_code: gone.exit_code });
                }
            }
            Body::LogFile(info) if self.files.len() >= MAX_FILES && !self.files.contains_key(&info.file) => {}
            Body::LogFile(info) => {
                let file = self.files.entry(info.file).or_insert_with(|| LogFile::new(info.clone()));
                if matches!(info.state, LogFileState::Rotated | LogFileState::Truncated) {
                    file.reader = crate::text::Reader::default();
                }
                if info.state == LogFileState::Truncated {
                    file.progress = log::Progress::default();
                }
                file.gone_at = matches!(info.state, LogFileState::Gone | LogFileState::Failed).then_some(at);
                file.info = info.clone();
                self.ungrouped = true;
            }
            Body::Ras(answer) => self.apply_ras(at, answer),
            Body::Kernel { lines } => {
                for line in lines {
                    if self.kernel.len() == MAX_KERNEL {
                        self.kernel.pop_front();
                    }
                    self.kernel.push_back((at, line.clone()));
                }
            }
        }
    }

    fn gpu(&mut self, index: u32) -> &mut Gpu {
        self.gpus.entry(index).or_insert_with(|| Gpu::new(index))
    }

    fn apply_host(&mut self, sample: &HostSample) {
        if let Some(before) = &self.host_sample
            && let (Some(b0), Some(b1)) = (before.cpu_busy_ticks, sample.cpu_busy_ticks)
            && let (Some(i0), Some(i1)) = (before.cpu_idle_ticks, sample.cpu_idle_ticks)
        {
            let (busy, idle) = (b1.saturating_sub(b0) as f64, i1.saturating_sub(i0) as f64);
            self.cpu_busy_pct = (busy + idle > 0.0).then(|| busy / (busy + idle) * 100.0);
        }
        self.host_sample = Some(sample.clone());
    }

    fn apply_process(&mut self, at: Stamp, info: &ProcessInfo) {
        match self.processes.get_mut(&info.pid) {
            Some(known) if known.info.start_ticks == info.start_ticks => known.info = info.clone(),
            _ => {
                if self.processes.len() >= MAX_PROCESSES {
                    self.processes.retain(|_, p| p.is_alive());
                }
                if self.processes.len() >= MAX_PROCESSES {
                    return;
                }
                self.processes.insert(info.pid, Process::new(at, info.clone()));
            }
        }
        self.ungrouped = true;
    }

    /// Groups processes and files anew, if any came since the last time.
    fn settle(&mut self) {
        if std::mem::take(&mut self.ungrouped) {
            self.regroup(self.now);
            self.reassign();
        }
    }

    /// Notes when the last process of a job went.
    fn end_jobs(&mut self, at: Stamp) {
        let alive = |pid: &u32| self.processes.get(pid).is_some_and(Process::is_alive);
        for job in self.jobs.values_mut().filter(|j| !j.log_only) {
            let any = job.ranks.values().chain(&job.unranked).any(alive);
            match job.ended_at {
                None if !any => job.ended_at = Some(at),
                Some(_) if any => job.ended_at = None,
                _ => {}
            }
        }
    }

    /// Drops what has been over for long, so that weeks of jobs fit into bounded memory.
    fn forget(&mut self, at: Stamp) {
        let long_ago = |then: Option<Stamp>| then.is_some_and(|then| at.since(then) > FORGET_AFTER);
        self.jobs.retain(|_, job| !long_ago(job.ended_at));
        let held: BTreeSet<u32> = self.jobs.values().flat_map(|j| j.pids().chain(j.launcher)).collect();
        self.processes.retain(|pid, p| held.contains(pid) || p.gone.is_none_or(|g| at.since(g.at) <= KEEP_GONE));
        self.comms.retain(|_, c| !long_ago(c.answered_at.or(c.init_to).or(c.init_from)));
        self.files.retain(|_, f| f.is_readable() || !long_ago(f.gone_at));
    }

    /// Puts the processes into jobs. Facts about a launcher may come after its ranks, so all are looked at.
    fn regroup(&mut self, at: Stamp) {
        let mut members: BTreeMap<String, (Vec<u32>, Option<u32>)> = BTreeMap::new();
        for (&pid, process) in &self.processes {
            if process.info.role == ProcessRole::Launcher {
                continue;
            }
            let launcher = self.launcher_of(pid);
            let entry = members.entry(job_id(process, launcher)).or_default();
            entry.0.push(pid);
            entry.1 = entry.1.or(launcher);
        }
        // A process whose facts came late may have been in another job before.
        let mut before: BTreeMap<String, BTreeMap<u32, u32>> = BTreeMap::new();
        for job in self.jobs.values_mut().filter(|j| !j.log_only) {
            before.insert(job.id.clone(), std::mem::take(&mut job.ranks));
            job.unranked.clear();
        }
        let mut restarted: Vec<String> = Vec::new();
        for (id, (pids, launcher)) in members {
            let first_seen = pids.iter().map(|pid| self.processes[pid].first_seen).min().unwrap_or(at);
            let job = self.jobs.entry(id.clone()).or_insert_with(|| Job::new(id, first_seen));
            job.launcher = launcher.or(job.launcher);
            for pid in pids {
                let process = &self.processes[&pid];
                match process.env_number(job::RANK_VARS).filter(|_| process.info.role == ProcessRole::Rank) {
                    Some(rank) => {
                        // After a restart two processes have had the rank: the living one holds it, else the younger.
                        let strength = |p: &Process| (p.is_alive(), p.info.start_ticks);
                        let holder = job.ranks.get(&rank).copied();
                        let loser = match holder {
                            Some(other) if strength(&self.processes[&other]) > strength(process) => Some(pid),
                            _ => job.ranks.insert(rank, pid),
                        };
                        job.unranked.extend(loser.filter(|l| self.processes[l].is_alive()));
                        job.world_size = process.env_number(job::WORLD_VARS).or(job.world_size);
                        job.local_world_size = process.env_number(job::LOCAL_WORLD_VARS).or(job.local_world_size);
                    }
                    None => {
                        job.unranked.insert(pid);
                    }
                }
            }
            let replaced = |(rank, old): (&u32, &u32)| {
                job.ranks.get(rank).is_some_and(|new| new != old) && self.processes.get(old).is_none_or(|p| !p.is_alive())
            };
            let alive = job.pids().any(|pid| self.processes[&pid].is_alive());
            if (alive && job.ended_at.is_some()) || before.get(&job.id).is_some_and(|ranks| ranks.iter().any(replaced)) {
                job.restart(at);
                restarted.push(job.id.clone());
            }
            if alive {
                job.ended_at = None;
            }
        }
        for file in self.files.values_mut().filter(|f| restarted.contains(&f.job)) {
            file.progress = log::Progress::default();
        }
        self.jobs.retain(|_, j| j.log_only || !j.ranks.is_empty() || !j.unranked.is_empty());
    }

    /// The nearest launcher above a process.
    fn launcher_of(&self, pid: u32) -> Option<u32> {
        let mut above = self.processes.get(&pid)?.info.ppid;
        for _ in 0..8 {
            match self.processes.get(&above) {
                Some(parent) if parent.info.role == ProcessRole::Launcher => return Some(above),
                Some(parent) => above = parent.info.ppid,
                None => return None,
            }
        }
        None
    }

    fn apply_ras(&mut self, at: Stamp, answer: &RasAnswer) {
        self.ras.took_ms = Some(answer.took_ms);
        self.ras.error.clone_from(&answer.error);
        if answer.reply.is_empty() {
            return;
        }
        match crate::ras::parse(&answer.reply) {
            Ok(report) => {
                self.ras.nccl_version = report.nccl_version.clone().or(self.ras.nccl_version.take());
                self.ras.answered_at = Some(at);
                comm::apply_report(&mut self.comms, at, &report, MAX_COMMS);
            }
            Err(err) => self.ras.error = Some(err.to_string()),
        }
    }

    /// Reads one log line and applies what it says. Each event is handed to `each` after it was applied, so that rules see the
    /// model of that very moment, however lines were batched.
    pub fn apply_line(
        &mut self,
        at: Stamp,
        file: u32,
        line: &crate::observe::log::Line,
        backlog: bool,
        mut each: impl FnMut(&Model, &TextSeen),
    ) {
        self.settle();
        let Some(log) = self.files.get_mut(&file) else { return };
        log.lines += u64::from(!line.transient);
        log.last_line_at = Some(at);
        let class = gate::classify(line.text.as_bytes());
        let mut events = Vec::new();
        if class > gate::Class::Noise || log.reader.is_inside() {
            log.reader.at_line(line.no);
            log.reader.line(&line.text, &mut events);
        }
        let clean = crate::text::clean::clean(&line.text);
        if let Some(rank) = events.iter().find_map(|e| e.origin.rank) {
            self.keep(at, file, line, Some(rank), class, &clean);
        } else {
            let rank = events.iter().find_map(|e| e.origin.pid).and_then(|pid| self.rank_of_ns_pid(file, pid));
            self.keep(at, file, line, rank, class, &clean);
        }
        if events.is_empty() {
            return;
        }
        let clean = clean.into_owned();
        self.apply_events(at, file, &events, (line.no, &clean), backlog, &mut each);
    }

    /// A second has passed: what the readers of silent files held back, because more of it might have come, is told now.
    pub fn apply_silence(&mut self, at: Stamp, mut each: impl FnMut(&Model, &TextSeen)) {
        let silent: Vec<u32> =
            self.files.iter().filter(|(_, f)| f.reader.is_inside() && f.last_line_at.is_some_and(|l| l < at)).map(|(id, _)| *id).collect();
        for file in silent {
            let mut events = Vec::new();
            if let Some(log) = self.files.get_mut(&file) {
                log.reader.idle(&mut events);
            }
            self.apply_events(at, file, &events, (None, ""), false, &mut each);
        }
    }

    fn apply_events(
        &mut self,
        at: Stamp,
        file: u32,
        events: &[TextEvent],
        (line, text): (Option<u64>, &str),
        backlog: bool,
        each: &mut dyn FnMut(&Model, &TextSeen),
    ) {
        let job = self.job_of_file(file);
        for event in events {
            let rank = event.origin.rank.or_else(|| event.origin.pid.and_then(|pid| self.rank_of_ns_pid(file, pid)));
            self.apply_event(at, file, event, rank, &job, backlog);
            let (line, text) = event.said_at.as_ref().map_or((line, text), |s| (s.line, s.text.as_str()));
            each(self, &TextSeen { at, file, line, text, event, rank, job: job.clone(), backlog });
        }
    }

    fn keep(&mut self, at: Stamp, file: u32, line: &crate::observe::log::Line, rank: Option<u32>, class: gate::Class, text: &str) {
        if text.trim().is_empty() {
            return;
        }
        let was_transient = self.files.get(&file).is_some_and(|f| f.transient);
        self.logbook.push(Kept { at, file, no: line.no, rank, class, text: text.to_owned() }, was_transient);
        if let Some(f) = self.files.get_mut(&file) {
            f.transient = line.transient;
        }
    }

    fn apply_event(&mut self, at: Stamp, file: u32, event: &TextEvent, rank: Option<u32>, job: &str, backlog: bool) {
        let modified = self.files.get(&file).and_then(|f| f.info.modified_ns).map(Stamp);
        // Lines that were there before us were written no later than the file was last changed.
        let when = if backlog { modified.filter(|m| *m <= at).unwrap_or(at) } else { at };
        let matters = !matches!(event.what, What::EnvSet { .. } | What::Bootstrap { .. } | What::NcclVersion { .. });
        if matters && !self.jobs.contains_key(job) {
            let mut new = Job::new(job.to_owned(), at);
            new.log_only = true;
            self.jobs.insert(job.to_owned(), new);
        }
        let Some(log) = self.files.get_mut(&file) else { return };
        match &event.what {
            What::Step(step) => {
                log.progress.apply(when, step, backlog);
                if let Some(job) = self.jobs.get_mut(job) {
                    job.moved_at = Some(when);
                }
            }
            What::TotalSteps { total } => log.progress.total_steps = Some(*total),
            What::Phase { phase, begins } => log.progress.phase_said(when, *phase, *begins),
            What::Done => log.progress.done_at = Some(when),
            What::Terminating { .. } | What::LauncherSignalled { .. } | What::WorkerFailed { .. } => {
                if let Some(job) = self.jobs.get_mut(job) {
                    job.taking_down_at.get_or_insert(when);
                }
            }
            What::RunStart => {
                if let Some(job) = self.jobs.get_mut(job).filter(|j| j.log_only) {
                    job.restart(at);
                }
                log.progress = log::Progress::default();
                log.rank_of_pid.clear();
            }
            What::Init(init) => {
                if let Some(pid) = event.origin.pid
                    && rank.is_none()
                    && log.rank_of_pid.len() < MAX_PROCESSES
                {
                    log.rank_of_pid.insert(pid, init.rank);
                }
                if let Some(hash) = init.comm_id
                    && (self.comms.len() < MAX_COMMS || self.comms.contains_key(&hash))
                {
                    let comm = self.comms.entry(hash).or_default();
                    comm.hash = hash;
                    comm.nranks = comm.nranks.max(init.nranks);
                    comm.init_from.get_or_insert(when);
                    if init.complete {
                        comm.init_complete.insert(init.rank);
                        comm.init_to = Some(when);
                    } else {
                        comm.init_started.insert(init.rank);
                    }
                }
            }
            _ => {}
        }
    }

    /// The rank of a process that a line names by the pid of its own namespace.
    fn rank_of_ns_pid(&self, file: u32, pid: u32) -> Option<u32> {
        let by_process = || {
            let process = self.processes.values().find(|p| p.info.ns_pid.unwrap_or(p.info.pid) == pid)?;
            process.env_number(job::RANK_VARS)
        };
        by_process().or_else(|| self.files.get(&file)?.rank_of_pid.get(&pid).copied())
    }

    /// The job whose output a file is.
    pub fn job_of_file(&self, file: u32) -> String {
        self.files.get(&file).map(|f| f.job.clone()).unwrap_or_default()
    }

    /// Says anew which job every file belongs to, after processes or files came or went.
    fn reassign(&mut self) {
        let owners: Vec<(u32, String)> = self.files.keys().map(|&file| (file, self.owner_of(file))).collect();
        let log_only = |jobs: &BTreeMap<String, Job>, id: &str| jobs.get(id).is_some_and(|j| j.log_only);
        for (file, job) in owners {
            let Some(log) = self.files.get_mut(&file).filter(|f| f.job != job) else { continue };
            if log_only(&self.jobs, &log.job) {
                self.adopted.push((log.job.clone(), job.clone()));
            }
            log.job = job;
        }
        let used: BTreeSet<&str> = self.files.values().map(|f| f.job.as_str()).collect();
        self.jobs.retain(|id, j| !j.log_only || used.contains(id.as_str()));
    }

    /// A file that nobody owns belongs to the only running job, else to the job that is known from logs alone.
    fn owner_of(&self, file: u32) -> String {
        let Some(log) = self.files.get(&file) else { return String::new() };
        let info = &log.info;
        let owns = |job: &&Job| {
            let mut pids = job.pids().chain(job.launcher);
            pids.any(|pid| self.processes.get(&pid).is_some_and(|p| job::owns_log(p, info.device, info.inode, &info.path)))
        };
        // A second run into the same file takes it over.
        let real = || self.jobs.values().filter(|j| !j.log_only);
        if let Some(job) = real().filter(owns).max_by_key(|j| (self.is_running(j), j.first_seen)) {
            return job.id.clone();
        }
        let mut running = real().filter(|j| self.is_running(j));
        match (running.next(), running.next()) {
            (Some(only), None) => only.id.clone(),
            // Between two jobs a log stays with the one that it was last of.
            _ if real().any(|j| j.id == log.job) => log.job.clone(),
            // All files that nobody owns are taken for one job: its name is that of the first.
            _ => {
                let unowned = |f: &&LogFile| f.job.is_empty() || self.jobs.get(&f.job).is_none_or(|j| j.log_only);
                self.files.values().find(unowned).unwrap_or(log).name().to_owned()
            }
        }
    }

    /// At least one of its processes is alive, and not as a leftover. A launcher alone may still have to say why its ranks are gone.
    pub fn is_running(&self, job: &Job) -> bool {
        let alive = |pid: u32| self.processes.get(&pid).is_some_and(Process::is_alive);
        !self.is_stale(job) && job.pids().chain(job.launcher).any(alive)
    }

    /// The leftovers of an earlier job: its launcher is gone, and only some of its ranks are left, stopped, dying or orphaned.
    pub fn is_stale(&self, job: &Job) -> bool {
        if job.log_only {
            return false;
        }
        let alive: Vec<&Process> = job.pids().filter_map(|pid| self.processes.get(&pid)).filter(|p| p.is_alive()).collect();
        let launcher_lives = job.launcher.is_some_and(|pid| self.processes.get(&pid).is_some_and(Process::is_alive));
        let expected = job.local_world_size.unwrap_or(job.ranks.len() as u32).max(1) as usize;
        let orphaned = |p: &&Process| p.info.ppid <= 1 || job.launcher.is_some();
        !alive.is_empty()
            && !launcher_lives
            && alive.iter().all(orphaned)
            && (alive.len() < expected || alive.iter().all(|p| p.is_stopped()))
            && alive.iter().all(|p| {
                p.is_stopped() || p.sample.state == Some('Z') || p.cpu_pct(self.now, Duration::from_secs(10)).is_some_and(|c| c < 2.0)
            })
    }

    /// The pause that a log of the job names, the newest.
    pub fn phase_of(&self, job: &str) -> Option<(crate::text::Phase, Stamp)> {
        let last_step = self.progress_of(job).and_then(|p| p.last_step_at);
        let phases = self.files_of(job).filter_map(|f| f.progress.phase());
        phases.filter(|(_, since)| last_step.is_none_or(|at| at <= *since)).max_by_key(|(_, since)| *since)
    }

    pub fn files_of(&self, job: &str) -> impl Iterator<Item = &LogFile> {
        self.files.values().filter(move |f| f.job == job)
    }

    /// The progress of the file that tells most recently how far the job is.
    pub fn progress_of(&self, job: &str) -> Option<&log::Progress> {
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
            let ranks = self.comms.values().flat_map(|c| c.ranks.values());
            let dev = ranks.filter(|r| r.pid == Some(inner)).find_map(|r| r.nvml_dev)?;
            self.gpus.contains_key(&dev).then_some(dev)
        })
    }

    /// Communicators whose processes are this job's.
    pub fn comms_of<'a>(&'a self, job: &'a Job) -> impl Iterator<Item = &'a Comm> {
        let inner: Vec<u32> = job.pids().map(|pid| self.processes.get(&pid).and_then(|p| p.info.ns_pid).unwrap_or(pid)).collect();
        self.comms.values().filter(move |comm| {
            comm.ranks.values().filter_map(|r| r.pid).chain(comm.missing.values().filter_map(|m| m.pid)).any(|pid| inner.contains(&pid))
        })
    }
}
