//! Which processes and log files belong to which job, and which jobs still matter.

use super::bringup::Bringup;
use super::job::{self, Job, job_id};
use super::log::LogFile;
use super::process::Process;
use super::progress::Progress;
use super::{FORGET_AFTER, KEEP_GONE, Model};
use crate::base::agent::Agent;
use crate::base::time::Stamp;
use crate::base::units::counted;
use crate::observe::process::ProcessRole;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

/// Threads that only look whether something came use up to so much of a CPU.
const AT_REST_PCT: f64 = 5.0;

impl Model {
    /// Groups processes and files anew, if any came since the last time.
    pub(crate) fn settle(&mut self) {
        if std::mem::take(&mut self.ungrouped) {
            self.regroup(self.now);
            self.reassign();
        }
    }

    /// Notes when the last process of a job went.
    pub(super) fn end_jobs(&mut self, at: Stamp) {
        let alive = |pid: &u32| self.processes.get(pid).is_some_and(Process::is_alive);
        for job in self.jobs.values_mut().filter(|j| !j.log_only) {
            let no_ranks = job.pids().next().is_none();
            let any = job.ranks.values().chain(&job.unranked).chain(job.launcher.iter().filter(|_| no_ranks)).any(alive);
            match job.ended_at {
                None if !any => job.ended_at = Some(at),
                Some(_) if any => job.ended_at = None,
                _ => {}
            }
        }
    }

    /// Drops what has been over for long, so that weeks of jobs fit into bounded memory.
    pub(super) fn forget(&mut self, at: Stamp) {
        let long_ago = |then: Option<Stamp>| then.is_some_and(|then| at.since(then) > FORGET_AFTER);
        let over: BTreeSet<String> = self.jobs.values().filter(|j| long_ago(j.ended_at)).map(|j| j.id.clone()).collect();
        self.jobs.retain(|id, _| !over.contains(id));
        for file in self.files.values_mut().filter(|f| over.contains(&f.job)) {
            file.bringup = Bringup::default();
            file.progress = Progress::default();
            file.had_writer = false;
            file.of_others = false;
        }
        let held: BTreeSet<u32> = self.jobs.values().flat_map(|j| j.pids().chain(j.launcher)).collect();
        self.processes.retain(|pid, p| held.contains(pid) || p.gone.is_none_or(|g| at.since(g.at) <= KEEP_GONE));
        self.dumps.keep(|pid| self.processes.contains_key(&pid));
        // A recording without processes has nobody that could end.
        let nobody = self.processes.is_empty();
        self.inspected.retain(|pid, _| nobody || self.processes.get(pid).is_some_and(Process::is_alive));
        let before = self.comms.len();
        self.comms.retain(|_, c| !long_ago(c.answered_at.or(c.init_to).or(c.init_from)));
        if self.comms.len() < before {
            self.index_ras();
        }
        self.files.retain(|_, f| f.is_readable() || !long_ago(f.gone_at));
        self.gone_files.retain(|(_, id)| self.files.contains_key(id));
    }

    /// Puts the processes into jobs. Facts about a launcher may come after its ranks, so all are looked at.
    pub(super) fn regroup(&mut self, at: Stamp) {
        self.place_processes();
        // A launcher that ends before its ranks leaves them in the job that they were in, and there they stay when they have ended, too.
        let launched = self.jobs.values().filter(|j| !j.log_only && j.launcher.is_some());
        let stays = |j: &Job, pid: &u32| j.ended_at.is_none() || self.processes.get(pid).is_some_and(|p| !p.is_alive());
        let left: BTreeMap<u32, &str> =
            launched.flat_map(|j| j.pids().filter(|pid| stays(j, pid)).map(|pid| (pid, j.id.as_str()))).collect();
        let mut placed: Vec<(u32, String, Option<u32>)> = Vec::with_capacity(self.processes.len());
        for (&pid, process) in &self.processes {
            if process.info.role == ProcessRole::Launcher || process.info.role == ProcessRole::Rank && self.is_started_by_rank(pid) {
                continue;
            }
            let launcher = self.launcher_of(pid);
            let id = match left.get(&pid).filter(|_| launcher.is_none()) {
                Some(job) => (*job).to_owned(),
                None => job_id(process, launcher),
            };
            // It stays with those that it has met, when they have ended, too. A process that ends loses its environment first.
            let ends = !process.is_alive() || process.info.cmdline.is_empty();
            let stays = |known: &&String| ends || self.jobs.get(*known).is_some_and(|job| job.pids().any(|of| of == pid));
            let met = self.met.get(&id).filter(stays).cloned();
            placed.push((pid, met.unwrap_or(id), launcher));
        }
        let meet = self.that_meet(&placed);
        let mut members: BTreeMap<String, (Vec<u32>, Option<u32>)> = BTreeMap::new();
        for (pid, id, launcher) in placed {
            let entry = members.entry(meet.get(&id).cloned().unwrap_or(id)).or_default();
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
        let by_pid = self.rank_by_ras.clone();
        for (id, (pids, launcher)) in members {
            let first_seen = pids.iter().map(|pid| self.processes[pid].first_seen).min().unwrap_or(at);
            let job = self.jobs.entry(id.clone()).or_insert_with(|| Job::new(id, first_seen));
            job.launcher = launcher.or(job.launcher);
            for pid in pids {
                let process = &self.processes[&pid];
                let own = process.rank().filter(|_| process.info.role == ProcessRole::Rank);
                let by_ras = rank_by_ras(&by_pid, process).filter(|_| own.is_none());
                job.world_size = by_ras.map(|(_, nranks)| nranks).or(job.world_size);
                match own.or(by_ras.map(|(rank, _)| rank)) {
                    Some(rank) => {
                        // After a restart two processes have had the rank: the living one holds it, else the younger.
                        let strength = |p: &Process| (p.is_alive(), p.info.start_ticks);
                        let holder = job.ranks.get(&rank).copied();
                        let loser = match holder {
                            Some(other) if strength(&self.processes[&other]) > strength(process) => Some(pid),
                            _ => job.ranks.insert(rank, pid),
                        };
                        job.unranked.extend(loser.filter(|l| self.processes[l].is_alive()));
                        job.world_size = process.world_size().or(job.world_size);
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
                // Its first ranks may have ended before the last was seen.
                let old = before.get(&job.id);
                let is_new = |(rank, pid): &(&u32, &u32)| old.is_none_or(|ranks| ranks.get(rank) != Some(pid));
                let began = job.ranks.iter().filter(is_new).filter_map(|(_, pid)| Some(self.processes.get(pid)?.first_seen)).min();
                job.step_before_restart = self.files.values().filter(|f| f.job == job.id).filter_map(|f| f.progress.step).max();
                job.restart(began.unwrap_or(at));
                restarted.push(job.id.clone());
            }
            if alive {
                job.ended_at = None;
            }
        }
        for file in self.files.values_mut().filter(|f| restarted.contains(&f.job)) {
            file.progress = Progress::default();
            file.bringup = Bringup::default();
        }
        let agents = self.lone_agents();
        for (id, pid) in &agents {
            let first_seen = self.processes[pid].first_seen;
            self.jobs.entry(id.clone()).or_insert_with(|| Job::new(id.clone(), first_seen)).launcher = Some(*pid);
        }
        self.jobs.retain(|id, j| j.log_only || !j.ranks.is_empty() || !j.unranked.is_empty() || agents.contains_key(id));
        self.met.extend(meet);
        self.met.retain(|_, known| self.jobs.contains_key(known));
    }

    /// Ranks that several shells have started without a launcher are of one job where they meet at one address, and no two of them are the same
    /// rank: of each such job its other names, and the one that it is known by.
    fn that_meet(&self, placed: &[(u32, String, Option<u32>)]) -> BTreeMap<String, String> {
        let mut by_store: BTreeMap<_, Vec<(u32, &String)>> = BTreeMap::new();
        for (pid, id, _) in placed.iter().filter(|(.., launcher)| launcher.is_none()) {
            let process = &self.processes[pid];
            let is_rank = process.info.role == ProcessRole::Rank && process.is_alive();
            let of_torch = || Some(format!("{}:{}", process.env("MASTER_ADDR")?, process.env("MASTER_PORT")?));
            let of_others =
                || ["JAX_COORDINATOR_ADDRESS", "PADDLE_MASTER"].into_iter().find_map(|name| process.env(name)).map(str::to_owned);
            let at = of_torch().or_else(of_others).filter(|_| is_rank);
            let (Some(at), Some(rank), Some(world)) = (at, process.rank(), process.world_size()) else { continue };
            // In a container of its own the address is another one.
            let place = (at, world, process.info.uid, process.info.cgroup.as_deref());
            by_store.entry(place).or_default().push((rank, id));
        }
        let mut names = BTreeMap::new();
        for ranks in by_store.into_values() {
            let ids: BTreeSet<&String> = ranks.iter().map(|(_, id)| *id).collect();
            let distinct: BTreeSet<u32> = ranks.iter().map(|(rank, _)| *rank).collect();
            if ids.len() < 2 || distinct.len() < ranks.len() {
                continue;
            }
            let Some(known) = ids.iter().copied().min_by_key(|id| (!self.jobs.contains_key(*id), id.len(), *id)) else { continue };
            names.extend(ids.iter().filter(|id| **id != known).map(|id| ((*id).clone(), known.clone())));
        }
        names
    }

    /// Gives the ranks that Ray Train's controller prints to its workers. It prints pids of all nodes: one with two ranks names nobody. Those that were
    /// numbered in the order of their start may have told themselves other numbers, which NCCL knows.
    fn place_processes(&mut self) {
        let by_pid = self.rank_by_ras.clone();
        for process in self.processes.values_mut().filter(|p| p.info.role == ProcessRole::Rank) {
            let pid = process.info.ns_pid.unwrap_or(process.info.pid);
            let of_world = |nranks: u32| process.info.place.as_ref().is_some_and(|place| place.world_size == Some(nranks));
            let by_ras = || rank_by_ras(&by_pid, process).filter(|(_, nranks)| of_world(*nranks)).map(|(rank, _)| rank);
            let by_log = self.placed.get(&pid).copied().flatten().filter(|_| process.is_of_ray());
            process.placed = by_log.or_else(by_ras);
        }
    }

    /// Launchers that wait for other nodes and have started no rank that was seen, by the job that those would be of.
    fn lone_agents(&self) -> BTreeMap<String, u32> {
        let parents: BTreeSet<u32> = self.processes.keys().filter_map(|pid| self.launcher_of(*pid)).collect();
        let is_lone = |p: &&Process| p.info.role == ProcessRole::Launcher && Agent::of(&p.info.cmdline).is_some();
        let lone = self.processes.values().filter(is_lone).map(|p| (job_id(p, Some(p.info.pid)), p.info.pid));
        let has_ranks = |id: &str| self.jobs.get(id).is_some_and(|j| j.pids().next().is_some());
        lone.filter(|(id, pid)| !parents.contains(pid) && !has_ranks(id)).collect()
    }

    /// The nearest launcher above a process.
    pub(super) fn launcher_of(&self, pid: u32) -> Option<u32> {
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

    /// A rank started it, without a launcher in between: a filter for its output, an evaluation with ranks of its own. It has the rank's
    /// variables, or others of the same names, and is no rank of the job. The same of one that holds no GPU, below a process that does and was given
    /// no rank itself: that sets the variables as it runs, and a decoder or a filter inherits them.
    fn is_started_by_rank(&self, pid: u32) -> bool {
        const DEEP: usize = 8;
        let parent = |pid: &u32| self.processes.get(pid).map(|p| p.info.ppid);
        let above = std::iter::successors(parent(&pid), parent).take(DEEP).filter_map(|pid| self.processes.get(&pid));
        // Lightning's rank 0 has started the others, and leads them.
        let is_led = self.processes.get(&pid).is_some_and(|p| p.info.place.is_some());
        let starts = |role: &ProcessRole| matches!(role, ProcessRole::Launcher | ProcessRole::Rank | ProcessRole::GpuUser);
        !is_led
            && match above.map(|p| p.info.role).find(starts) {
                Some(ProcessRole::Rank) => true,
                Some(ProcessRole::GpuUser) => self.gpu_of_pid(pid).is_none(),
                _ => false,
            }
    }

    /// Says anew which job every file belongs to, after processes or files came or went.
    pub(super) fn reassign(&mut self) {
        let written: BTreeSet<u32> = self.files.keys().copied().filter(|file| self.writer_of(*file).is_some()).collect();
        for (file, log) in &mut self.files {
            let is_held = log.info.written_by.as_ref().is_some_and(|pids| !pids.is_empty());
            log.of_others = !written.contains(file) && (log.of_others || is_held);
        }
        let owners: Vec<(u32, String, Option<u32>, bool)> = self
            .files
            .keys()
            .map(|&file| {
                let writer = self.writer_of(file);
                let is_written = writer.is_some();
                let job = writer.unwrap_or_else(|| self.owner_of(file));
                let rank = self.rank_of_file(file, &job);
                (file, job, rank, is_written)
            })
            .collect();
        let several = self.jobs.values().filter(|j| !j.log_only && self.is_running(j)).count() > 1;
        for (file, job, rank, is_written) in owners {
            if let Some(log) = self.files.get_mut(&file) {
                log.rank = rank;
                log.had_writer |= is_written;
                log.of_one_of_several |= several && !is_written;
            }
            let Some(log) = self.files.get_mut(&file).filter(|f| f.job != job) else { continue };
            match self.jobs.get(&log.job) {
                Some(before) if before.log_only => self.adopted.push((log.job.clone(), job.clone())),
                // Its lines were about that one.
                Some(_) => log.bringup = Bringup::default(),
                None => {}
            }
            log.job = job;
        }
        let used: BTreeSet<&str> = self.files.values().map(|f| f.job.as_str()).collect();
        self.jobs.retain(|id, j| !j.log_only || used.contains(id.as_str()));
    }

    /// The one rank of a job whose output a file is, and no launcher's, which speaks of all ranks.
    fn rank_of_file(&self, file: u32, job: &str) -> Option<u32> {
        let info = &self.files.get(&file)?.info;
        let owns = |pid: &u32| self.processes.get(pid).is_some_and(|p| job::owns_log(p, info.device, info.inode, &info.path));
        let job = self.jobs.get(job)?;
        let mut ranks = job.ranks.iter().filter(|(_, pid)| owns(pid));
        let (rank, pid) = ranks.next().filter(|_| ranks.next().is_none())?;
        let mut launchers = std::iter::successors(self.launcher_of(*pid), |pid| self.launcher_of(*pid)).take(8);
        (!launchers.any(|pid| owns(&pid))).then_some(*rank)
    }

    /// The job whose processes have a file as their output. A second run into the same file takes it over.
    fn writer_of(&self, file: u32) -> Option<String> {
        let info = &self.files.get(&file)?.info;
        let owns = |job: &&Job| {
            let client = |pid: u32| self.processes.get(&pid)?.info.client;
            let launchers = job.launcher.into_iter().flat_map(|pid| std::iter::successors(Some(pid), |pid| self.launcher_of(*pid)).take(8));
            let mut pids = job.pids().chain(launchers).chain(job.pids().filter_map(client));
            let holds = |pid: u32| info.written_by.iter().flatten().any(|writer| *writer == pid);
            let is_output = |p: &Process| job::owns_log(p, info.device, info.inode, &info.path) || p.is_alive() && holds(p.info.pid);
            pids.any(|pid| self.processes.get(&pid).is_some_and(is_output))
        };
        let owners: Vec<&Job> = self.jobs.values().filter(|j| !j.log_only).filter(owns).collect();
        // What a rank starts while it trains, an evaluation of its own, prints below it.
        let is_inside = |job: &Job| owners.iter().any(|outer| self.is_started_by_rank_of(job, outer));
        owners.iter().filter(|job| !is_inside(job)).max_by_key(|j| (self.is_running(j), j.first_seen)).map(|job| job.id.clone())
    }

    /// A rank of `outer` started the launcher of `job`, or what started that.
    fn is_started_by_rank_of(&self, job: &Job, outer: &Job) -> bool {
        const DEEP: usize = 8;
        let ranks: BTreeSet<u32> = outer.pids().collect();
        let first = job.launcher.or_else(|| job.pids().next());
        let parent = |pid: &u32| self.processes.get(pid).map(|p| p.info.ppid);
        job.id != outer.id && std::iter::successors(first.as_ref().and_then(parent), parent).take(DEEP).any(|pid| ranks.contains(&pid))
    }

    /// A file that nobody owns belongs to the only running job, else to the job that is known from logs alone.
    fn owner_of(&self, file: u32) -> String {
        let Some(log) = self.files.get(&file) else { return String::new() };
        // What an earlier job wrote says nothing of the one that runs now.
        if log.had_writer {
            return log.job.clone();
        }
        let real = || self.jobs.values().filter(|j| !j.log_only);
        if let Some(named) = real().find(|j| self.names_ranks_of(log, j)) {
            return named.id.clone();
        }
        let mut running = real().filter(|j| self.is_running(j));
        match (running.next(), running.next()) {
            // It may be that of one that has ended since.
            (Some(only), None) if !log.of_one_of_several && !log.of_others && !self.was_over_before(log, only) => only.id.clone(),
            // Between two jobs a log stays with the one that it was last of.
            _ if !log.of_others && real().any(|j| j.id == log.job) => log.job.clone(),
            // All files that nobody owns are taken for one job: its name is that of the first.
            _ => {
                let unowned = |f: &&LogFile| f.job.is_empty() || self.jobs.get(&f.job).is_none_or(|j| j.log_only);
                self.files.values().find(unowned).unwrap_or(log).name().to_owned()
            }
        }
    }

    /// Its lines name processes of the job, each with its rank.
    fn names_ranks_of(&self, log: &LogFile, job: &Job) -> bool {
        let inner = |pid: &u32| self.processes.get(pid).map(|p| p.info.ns_pid.unwrap_or(p.info.pid));
        let is_of = |(pid, rank): (&u32, &u32)| job.ranks.get(rank).and_then(inner) == Some(*pid);
        log.rank_of_pid.iter().any(is_of)
    }

    /// Nobody is seen to write it, and its last line was written before the job began.
    fn was_over_before(&self, log: &LogFile, job: &Job) -> bool {
        /// Two clocks: that of the kernel, and that of the file system, which may be another machine's.
        const APART: Duration = Duration::from_secs(60);
        let Some(modified) = log.info.modified_ns.map(Stamp).filter(|_| log.info.written_by.as_ref().is_some_and(Vec::is_empty)) else {
            return false;
        };
        self.began_at(job).is_some_and(|began| began.since(modified) > APART)
    }

    /// When the first of its processes here began, its launcher too.
    pub fn began_at(&self, job: &Job) -> Option<Stamp> {
        job.pids().chain(job.launcher).filter_map(|pid| self.started_at(self.processes.get(&pid)?)).min()
    }

    /// When a process began. `None`: it is not known when the machine was booted.
    pub fn started_at(&self, process: &Process) -> Option<Stamp> {
        let booted_ns = i64::try_from(self.node.as_ref()?.booted_at_s?).ok()?.checked_mul(1_000_000_000)?;
        let ticks_ns = i64::try_from(process.info.start_ticks).ok()?.checked_mul(10_000_000)?;
        booted_ns.checked_add(ticks_ns).map(Stamp)
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
                p.is_stopped()
                    || p.sample.state == Some('Z')
                    || p.cpu_pct(self.now, Duration::from_secs(10)).is_some_and(|c| c < AT_REST_PCT)
            })
    }

    /// What is left of earlier jobs, for the end of a sentence: `; pid 310 is left of an earlier one`. Empty where nothing is.
    pub fn left_over_words(&self) -> String {
        let of_stale = self.jobs.values().filter(|job| self.is_stale(job)).flat_map(Job::pids);
        let left: Vec<u32> = of_stale.filter(|pid| self.processes.get(pid).is_some_and(Process::is_alive)).collect();
        match left.as_slice() {
            [] => String::new(),
            [pid] => format!("; pid {pid} is left of an earlier one"),
            all => format!("; {} are left of earlier ones", counted(all.len() as u64, "process")),
        }
    }

    /// The job whose output a file is.
    pub fn job_of_file(&self, file: u32) -> String {
        self.files.get(&file).map(|f| f.job.clone()).unwrap_or_default()
    }
}

/// The rank of a process whose environment may not be read, or which was told its rank in another way, as RAS names it, and how many ranks there
/// are.
fn rank_by_ras((ranks, nranks): &(HashMap<u32, u32>, u32), process: &Process) -> Option<(u32, u32)> {
    let pid = process.info.ns_pid.unwrap_or(process.info.pid);
    ranks.get(&pid).filter(|_| process.may_be_numbered_by_ras()).map(|rank| (*rank, *nranks))
}
