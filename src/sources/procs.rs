//! Ranks and launchers, by what /proc says: who they are, where their output goes, how they are. Groups nothing into jobs and judges
//! nothing; opens no pipe, and no log but that of a process that may train alone ([`trainer`]).
//!
//! A full scan every three seconds finds processes ([`process_table`], [`choose`]); the known ones are looked at every interval, and when one
//! dies ([`pidfd`]).

mod ask;
mod by_argument;
mod choose;
pub mod environ;
mod locks;
mod output_files;
mod passed_on;
pub mod pidfd;
mod pods;
mod process;
mod process_table;
pub mod program;
pub mod read;
pub mod setup;
mod sockets;
mod spawned;
pub mod stat;
mod trainer;
mod waits;
mod writes;

use super::{Hint, Hints, RasAddress, Roots, Setup, Source, SourceError, addresses, cgroup, sysfs};
use crate::base::words::io_words;
use crate::observe::process::{Helpers, ProcessGone, ProcessInfo, ProcessLog, ProcessRole, ProcessSample, WrittenDir};
use crate::observe::{Body, SourceState};
use passed_on::PassedOn;
use pidfd::Pidfd;
use process_table::Table;
use read::{Reader, is_gone};
use rustix::io::Errno;
use stat::{Io, Stat, Status, exit_code};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;
use std::time::Duration;

const SCAN_EVERY: Duration = Duration::from_secs(3);
/// Where nothing runs, it is asked so often whether anything was started.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Memory of control groups is looked at every fifteen seconds.
const SCANS_PER_MEMORY: u32 = 5;
/// The processes of a job share one, or have one each.
const MAX_CGROUPS: usize = 64;
/// A rank has hundreds of threads: they are counted once in so many looks, unless the main one is stuck itself.
const THREADS_TURN: u32 = 5;
/// A process that uses less than a fifth of a CPU at so many looks in a row waits for something: then, and at each of so many looks
/// after that, it is looked at for what.
const CALM_LOOKS: u32 = 3;
const CALM_TURN: u32 = 4;
/// Helpers of a rank that was calm between the last two looks are looked at once in so many.
const LOADER_TURN: u32 = 5;
/// Of one look to the next, in clock ticks a second.
const CALM_TICKS_PER_S: f64 = 20.0;
/// A rank that prints nothing is searched so often for a log of its own.
const OWN_LOOKS: u32 = 40;
/// A node has some ranks per GPU and core; the rest of the descriptors is for logs.
const MAX_PIDFDS: usize = 256;
/// Ranks die one after the other: after the first, they are looked at no sooner than this.
const BETWEEN_DEATHS: Duration = Duration::from_millis(50);
/// Where NCCL's RAS service listens by default.
const RAS_ADDRESS: &str = "localhost:28028";

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    let procs = Procs::new(setup.roots.clone(), setup.interval, setup.procs_inbox.take());
    let to_ranks = vec![setup.to_flight.clone(), setup.to_debug.clone(), setup.to_inspector.clone()];
    Box::new(procs.telling(setup.to_tail.clone(), setup.to_ras.clone()).telling_of_ranks(to_ranks))
}

pub struct Procs {
    reader: Reader,
    interval: Duration,
    inbox: Option<Receiver<Hint>>,
    to_tail: Option<Hints>,
    to_ras: Option<Hints>,
    /// Who wants to know the ranks.
    of_ranks: Vec<Hints>,
    /// NVML's last word. `None`: it has not spoken.
    gpu_pids: Option<HashSet<u32>>,
    table: Table,
    known: BTreeMap<u32, Known>,
    polls_to_scan: u32,
    passed_on: PassedOn,
    /// The newest process of the host at the last scan. `None`: not known.
    last_pid: Option<u32>,
    scans_to_memory: u32,
    /// Of the known processes.
    cgroups: BTreeSet<String>,
    samples: u32,
    hidepid: bool,
    /// Why a process is without a pidfd: no such call, or no descriptor left.
    without_pidfd: Option<Errno>,
    /// A death ended the last wait.
    woken: bool,
}

struct Known {
    info: ProcessInfo,
    /// Descendants that are no ranks: data loader workers, checkpoint writers.
    helpers: Vec<u32>,
    pidfd: Option<Pidfd>,
    /// Dead at the last look, and only its parent could know how: it may have been reaped since.
    awaited: bool,
    /// When its open files were last looked at: bytes that it had passed to write calls.
    wchar_bytes: Option<u64>,
    writes: Vec<WrittenDir>,
    /// Logs of its own beside its output, once they were looked for.
    own_logs: Vec<ProcessLog>,
    own_looks: u32,
    /// Clock ticks that it had used at the last look, and at how many looks in a row it had used hardly any.
    cpu_ticks: Option<u64>,
    calm_looks: u32,
}

impl Known {
    fn new(info: ProcessInfo) -> Self {
        Known {
            info,
            helpers: Vec::new(),
            pidfd: None,
            awaited: false,
            wchar_bytes: None,
            writes: Vec::new(),
            own_logs: Vec::new(),
            own_looks: 0,
            cpu_ticks: None,
            calm_looks: 0,
        }
    }

    /// Whether it is to be looked at for what it waits in, at a look that comes so long after the last.
    fn waits(&mut self, cpu_ticks: u64, every: Duration, turn: u32) -> bool {
        let calm = self.cpu_ticks.is_some_and(|before| cpu_ticks.saturating_sub(before) as f64 <= CALM_TICKS_PER_S * every.as_secs_f64());
        self.cpu_ticks = Some(cpu_ticks);
        self.calm_looks = if calm { self.calm_looks.saturating_add(1) } else { 0 };
        let still = self.calm_looks >= CALM_LOOKS && (self.calm_looks - CALM_LOOKS).is_multiple_of(CALM_TURN);
        // A loader that cannot keep up lets its rank sleep for parts of a second.
        still || calm && !self.helpers.is_empty() && turn.is_multiple_of(LOADER_TURN)
    }
}

/// What a look says of whether a process is gone.
enum Fate {
    Alive,
    /// Dead, and the next look may show more.
    Awaited,
    Gone(Option<i32>),
}

impl Procs {
    pub fn new(roots: Roots, interval: Duration, inbox: Option<Receiver<Hint>>) -> Self {
        Procs {
            reader: Reader::new(roots),
            interval: interval.max(Duration::from_millis(10)),
            inbox,
            to_tail: None,
            to_ras: None,
            of_ranks: Vec::new(),
            gpu_pids: None,
            table: Table::default(),
            known: BTreeMap::new(),
            polls_to_scan: 0,
            passed_on: PassedOn::default(),
            last_pid: None,
            scans_to_memory: 0,
            cgroups: BTreeSet::new(),
            samples: 0,
            hidepid: false,
            without_pidfd: None,
            woken: false,
        }
    }

    /// Who else wants to know what is found.
    pub fn telling(mut self, to_tail: Hints, to_ras: Hints) -> Self {
        (self.to_tail, self.to_ras) = (Some(to_tail), Some(to_ras));
        self
    }

    /// Who wants to know the ranks.
    pub fn telling_of_ranks(mut self, to: Vec<Hints>) -> Self {
        self.of_ranks = to;
        self
    }

    fn listen(&mut self) {
        for hint in self.inbox.iter().flat_map(Receiver::try_iter) {
            if let Hint::GpuPids(pids) = hint {
                let pids: HashSet<u32> = pids.into_iter().collect();
                if self.gpu_pids.as_ref() != Some(&pids) {
                    self.polls_to_scan = 0;
                }
                self.gpu_pids = Some(pids);
            }
        }
    }

    /// Tells which of the known processes are gone.
    fn reap(&mut self, out: &mut Vec<Body>) {
        let mut gone = Vec::new();
        for (pid, known) in &mut self.known {
            match fate(&mut self.reader, *pid, known) {
                Fate::Alive => {}
                Fate::Awaited => known.awaited = true,
                Fate::Gone(exit_code) => gone.push(ProcessGone { pid: *pid, start_ticks: known.info.start_ticks, exit_code }),
            }
        }
        for process in gone {
            self.known.remove(&process.pid);
            self.table.entries.remove(&process.pid);
            // What replaces it is likely to be there already.
            self.polls_to_scan = 0;
            out.push(Body::ProcessGone(process));
        }
    }

    fn scan(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        let own_pid = self.reader.roots().is_live().then(std::process::id);
        let listed = self.table.refresh(&mut self.reader, own_pid);
        listed.map_err(|err| SourceError::io(&self.reader.roots().path("/proc"), &err))?;
        self.table.weigh(&mut self.reader, self.gpu_pids.as_ref());
        self.table.find_clients(&self.reader);
        spawned::choose(&mut self.table, &mut self.reader);
        by_argument::choose(&mut self.table, &mut self.reader);
        choose::choose(&mut self.table);
        self.hidepid = self.is_hidepid();

        let mut chosen: Vec<(u32, ProcessRole)> =
            self.table.entries.iter().filter(|(_, entry)| !entry.dead).filter_map(|(pid, entry)| Some((*pid, entry.role?))).collect();
        // Launchers first: who reads in order then knows the parent before its ranks.
        chosen.sort_unstable_by_key(|(pid, role)| (*role != ProcessRole::Launcher, *pid));
        self.look_at(&chosen, out);
        // Those that are of a job are known by now, and what they write to.
        let of_jobs = self.known.values().filter(|known| known.info.role != ProcessRole::Trainer);
        let taken = of_jobs.flat_map(|known| &known.info.logs).filter_map(|log| log.device.zip(log.inode)).collect();
        let alone = trainer::choose(&mut self.table, &mut self.reader, &mut self.passed_on, &taken);
        self.look_at(&alone.into_iter().map(|pid| (pid, ProcessRole::Trainer)).collect::<Vec<_>>(), out);
        self.hold();
        self.assign_helpers();
        self.tell_others();
        self.look_at_memory(out);
        Ok(())
    }

    /// Reports processes that are new, or of which a fact has changed.
    fn look_at(&mut self, chosen: &[(u32, ProcessRole)], out: &mut Vec<Body>) {
        for &(pid, role) in chosen {
            let Some(mut info) = process::of(&mut self.reader, pid, role) else { continue };
            if let Some(entry) = self.table.get(pid) {
                info.place.clone_from(&entry.place);
                info.client = entry.client;
            }
            let files = self.passed_on.files(&self.table, &mut self.reader, pid, &info.logs);
            info.logs.extend(files);
            if let Some(known) = self.known.get_mut(&pid) {
                info.writes.clone_from(&known.writes);
                let may_keep_one =
                    role != ProcessRole::Launcher && known.own_logs.is_empty() && known.own_looks < OWN_LOOKS && !ask::is_waiting();
                if may_keep_one && output_files::is_silent(&self.reader, info.start_ticks, &info.logs) {
                    known.own_looks += 1;
                    known.own_logs = output_files::own_logs(&mut self.reader, pid, info.start_ticks, &info.logs);
                }
                info.logs.extend(known.own_logs.iter().cloned());
                // Where its output goes is not seen while the file system there does not answer.
                if ask::is_waiting() && known.info.start_ticks == info.start_ticks {
                    info.logs.clone_from(&known.info.logs);
                }
            }
            match self.known.get_mut(&pid) {
                Some(known) if known.info == info => {}
                // Another process by now: `reap` first reports that the old one is gone.
                Some(known) if known.info.start_ticks != info.start_ticks => {}
                Some(known) => {
                    known.info = info.clone();
                    out.push(Body::Process(info));
                }
                None => {
                    out.push(Body::Process(info.clone()));
                    self.known.insert(pid, Known::new(info));
                }
            }
        }
    }

    /// Something was started since the last scan, or what was young then may have become another program.
    fn may_have_job(&self) -> bool {
        let last = self.reader.last_pid();
        last.is_none() || last != self.last_pid || self.table.has_young()
    }

    /// Where nothing runs, one small file tells every second whether a process was started: a job may live no longer than that.
    fn wait_for_processes(&self, timeout: Duration) {
        let mut left = timeout;
        while !left.is_zero() {
            let step = left.min(LOOK_EVERY);
            std::thread::sleep(step);
            left -= step;
            if self.last_pid.is_some() && self.reader.last_pid() != self.last_pid {
                return;
            }
        }
    }

    /// A launcher has no ranks yet: they may live no longer than a moment.
    fn awaits_ranks(&self) -> bool {
        let agents = self.known.keys().filter(|pid| self.table.get(**pid).is_some_and(|entry| entry.agent));
        let has_ranks = |pid: u32| self.known.keys().any(|rank| self.table.ancestors(*rank).any(|above| above == pid));
        agents.into_iter().any(|pid| !has_ranks(*pid))
    }

    /// Tells what the control groups of the known processes have left, once in some scans.
    fn look_at_memory(&mut self, out: &mut Vec<Body>) {
        let paths: BTreeSet<String> = self.known.values().filter_map(|known| known.info.cgroup.clone()).take(MAX_CGROUPS).collect();
        self.scans_to_memory = self.scans_to_memory.saturating_sub(1);
        if self.scans_to_memory > 0 && paths == self.cgroups {
            return;
        }
        (self.scans_to_memory, self.cgroups) = (SCANS_PER_MEMORY, paths);
        let mut reader = sysfs::Reader::default();
        let memory = |path: &String| cgroup::memory(self.reader.roots(), &mut reader, path);
        let cgroups: Vec<_> = self.cgroups.iter().filter_map(memory).collect();
        if !cgroups.is_empty() {
            out.push(Body::Cgroups { cgroups });
        }
    }

    /// Takes hold of the known processes, so that it is seen how they end.
    fn hold(&mut self) {
        self.without_pidfd = None;
        let room = MAX_PIDFDS.saturating_sub(self.known.values().filter(|known| known.pidfd.is_some()).count());
        if !self.reader.roots().is_live() {
            return;
        }
        for (pid, known) in self.known.iter_mut().filter(|(_, known)| known.pidfd.is_none()).take(room) {
            match held(&mut self.reader, *pid, known.info.start_ticks) {
                Ok(pidfd) => known.pidfd = Some(pidfd),
                // The next look sees it.
                Err(Errno::SRCH) => {}
                Err(errno) => {
                    self.without_pidfd = Some(errno);
                    break;
                }
            }
        }
    }

    fn assign_helpers(&mut self) {
        let children = self.table.children();
        let pids: HashSet<u32> = self.known.keys().copied().collect();
        for (pid, known) in &mut self.known {
            known.helpers.clear();
            if known.info.role != ProcessRole::Launcher {
                collect_helpers(*pid, &children, &pids, &mut known.helpers);
            }
        }
    }

    fn tell_others(&self) {
        if let Some(to_tail) = &self.to_tail {
            let mut inodes = BTreeSet::new();
            let files = self.known.values().flat_map(|known| &known.info.logs).filter(|log| log.inode.is_some());
            // Ranks often share a file, under its name or as /proc/PID/fd/1.
            let paths: Vec<PathBuf> =
                files.filter(|log| inodes.insert((log.device, log.inode))).map(|log| PathBuf::from(&log.path)).collect();
            if !paths.is_empty() {
                to_tail.send(Hint::Logs(paths));
            }
        }
        for to in &self.of_ranks {
            let ranks = self.known.values().filter(|known| known.info.role == ProcessRole::Rank);
            to.send(Hint::Ranks(ranks.map(|known| (known.info.pid, known.info.start_ticks)).collect()));
        }
        if let Some(to_ras) = &self.to_ras {
            let mut found: BTreeMap<(String, Option<Option<Ipv4Addr>>), Vec<u32>> = BTreeMap::new();
            for info in self.known.values().map(|known| &known.info) {
                if let Some(name) = ras_address(info) {
                    let apart = addresses::apart(self.reader.roots(), info);
                    found.entry((name, apart)).or_default().push(info.ns_pid.unwrap_or(info.pid));
                }
            }
            // Some hold GPUs, and none of them may be seen.
            if self.known.is_empty() && self.hidepid && self.gpu_pids.as_ref().is_some_and(|pids| !pids.is_empty()) {
                found.insert((RAS_ADDRESS.to_owned(), None), Vec::new());
            }
            if !found.is_empty() {
                let address = |((name, apart), pids)| RasAddress { name, pids, apart };
                to_ras.send(Hint::RasAddresses(found.into_iter().map(address).collect()));
            }
        }
    }

    fn sample(&mut self) -> Vec<ProcessSample> {
        self.samples = self.samples.wrapping_add(1);
        let turn = self.samples;
        let mut samples = Vec::with_capacity(self.known.len());
        for (pid, known) in &mut self.known {
            let Some(stat) = self.reader.read(*pid, "stat").ok().and_then(Stat::parse) else { continue };
            if stat.start_ticks != known.info.start_ticks || stat.is_dead() {
                continue;
            }
            let mut sample = ProcessSample {
                pid: *pid,
                state: Some(stat.state),
                cpu_ticks: Some(stat.cpu_ticks),
                threads: Some(stat.threads),
                ..ProcessSample::default()
            };
            // Not stat's rss: that counts pages, whose size another host need not share.
            sample.rss_bytes = self.reader.read(*pid, "status").ok().and_then(|text| Status::parse(text).rss_bytes);
            if let Some(io) = io_with_helpers(&mut self.reader, *pid, &known.helpers) {
                sample.rchar_bytes = Some(io.rchar);
                sample.wchar_bytes = Some(io.wchar);
                sample.read_bytes = Some(io.read);
                sample.write_bytes = Some(io.write);
                let looked_at = *known.wchar_bytes.get_or_insert(io.wchar);
                if io.wchar.saturating_sub(looked_at) >= writes::MUCH_BYTES {
                    known.wchar_bytes = Some(io.wchar);
                    writes::look(&mut self.reader, *pid, &mut known.writes);
                }
            }
            let due = turn.wrapping_add(*pid) % THREADS_TURN == 0;
            if known.info.role != ProcessRole::Launcher {
                if due || sample.state == Some('D') {
                    sample.threads_in_d = threads_in_d(&mut self.reader, *pid);
                }
                sample.run_delay_ns = self.reader.read(*pid, "schedstat").ok().and_then(stat::run_delay);
                sample.helpers = Some(helpers(&mut self.reader, &known.helpers));
                if known.waits(sample.cpu_ticks.unwrap_or(0), self.interval, turn) {
                    let mut waits = waits::look(&mut self.reader, *pid, &known.helpers);
                    if let (Some(own), Some(port)) = (waits.first_mut(), meeting_port(&known.info))
                        && own.pid == *pid
                        && sockets::may_connect(own.call.as_deref())
                    {
                        own.connects = sockets::unanswered(&self.reader, *pid, known.info.uid, port);
                    }
                    sample.waits = Some(waits);
                }
            }
            samples.push(sample);
        }
        samples
    }

    /// hidepid hides other users' processes, unless we are privileged: then process 1 can be read nevertheless.
    fn is_hidepid(&mut self) -> bool {
        let mounts = self.reader.roots().table("/proc/mounts").unwrap_or_default();
        let hiding = mounts.as_bytes().split(|b| *b == b'\n').any(|line| {
            let mut words = line.split(|b| *b == b' ').skip(1);
            let (at, kind, options) = (words.next(), words.next(), words.next());
            at == Some(b"/proc")
                && kind == Some(b"proc")
                && options
                    .unwrap_or_default()
                    .split(|b| *b == b',')
                    .any(|o| o.starts_with(b"hidepid=") && o != b"hidepid=0" && o != b"hidepid=off")
        });
        hiding && self.reader.read(1, "stat").is_err()
    }

    fn polls_per_scan(&self) -> u32 {
        u32::try_from(SCAN_EVERY.as_millis().div_ceil(self.interval.as_millis().max(1))).unwrap_or(u32::MAX).max(1)
    }
}

impl Source for Procs {
    fn every(&self) -> Duration {
        if self.known.is_empty() { SCAN_EVERY } else { self.interval }
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        self.listen();
        self.reap(out);
        if self.polls_to_scan == 0 || self.known.is_empty() && self.may_have_job() || self.awaits_ranks() {
            self.last_pid = self.reader.last_pid();
            self.scan(out)?;
            self.polls_to_scan = self.polls_per_scan();
        }
        self.polls_to_scan -= 1;
        if self.known.is_empty() {
            let mut text = "no process of a training job found".to_owned();
            if self.hidepid {
                text.push_str("; ");
                text.push_str(HIDEPID);
            }
            return Err(SourceError::Absent(text));
        }
        let processes = self.sample();
        if !processes.is_empty() {
            out.push(Body::Processes { processes });
        }
        Ok(())
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        let hidden = self.known.values().filter(|known| process::is_hidden(&known.info)).count();
        let mut texts = Vec::new();
        if hidden > 0 {
            texts.push(format!(
                "{hidden} of {} processes belong to other users: environ and logs are hidden; run as the job's user or root",
                self.known.len()
            ));
        }
        if self.hidepid {
            texts.push(HIDEPID.to_owned());
        }
        if let Some(errno) = self.without_pidfd {
            let why = io_words(&errno.into());
            texts.push(format!("pidfd_open: {why}: how a process ended is seen only while it is a zombie"));
        }
        (!texts.is_empty()).then(|| (SourceState::Ok, texts.join("; ")))
    }

    fn wait(&mut self, timeout: Duration) {
        if self.known.is_empty() {
            return self.wait_for_processes(timeout);
        }
        let calm = if self.woken { BETWEEN_DEATHS.min(timeout) } else { Duration::ZERO };
        std::thread::sleep(calm);
        // One that was dead at the last look would end every wait at once.
        let pidfds = self.known.values().filter(|known| !known.awaited).filter_map(|known| known.pidfd.as_ref());
        self.woken = pidfd::wait(pidfds, timeout.saturating_sub(calm));
    }
}

/// Is it dead, and how did it end? Known from its pidfd, even when its number is another's by now; else from /proc alone.
fn fate(reader: &mut Reader, pid: u32, known: &Known) -> Fate {
    let told = match &known.pidfd {
        Some(pidfd) if !pidfd.is_dead() => return Fate::Alive,
        Some(pidfd) => pidfd.status(),
        None => pidfd::Status::Never,
    };
    if let pidfd::Status::Told(wait_status) = told {
        return Fate::Gone(Some(exit_code(wait_status)));
    }
    // Reaped between two questions.
    let told_now = || match known.pidfd.as_ref().map(Pidfd::status) {
        Some(pidfd::Status::Told(wait_status)) => Some(exit_code(wait_status)),
        _ => None,
    };
    match reader.read(pid, "stat") {
        Ok(text) => match Stat::parse(text) {
            Some(stat) if stat.start_ticks != known.info.start_ticks => Fate::Gone(told_now()),
            // To who may not trace the process the kernel shows 0 whatever happened, and that would be a lie.
            Some(stat) if stat.is_dead() && process::is_hidden(&known.info) => match told {
                pidfd::Status::NotYet if !known.awaited => Fate::Awaited,
                _ => Fate::Gone(None),
            },
            Some(stat) if stat.is_dead() => Fate::Gone(stat.wait_status.map(exit_code)),
            _ => Fate::Alive,
        },
        Err(err) if is_gone(&err) => Fate::Gone(told_now()),
        Err(_) => Fate::Alive,
    }
}

/// A pidfd of this very process: what is opened by number may be another's by then.
fn held(reader: &mut Reader, pid: u32, start_ticks: u64) -> Result<Pidfd, Errno> {
    let pidfd = Pidfd::open(pid)?;
    let same = reader.read(pid, "stat").ok().and_then(Stat::parse).is_some_and(|stat| stat.start_ticks == start_ticks);
    if same { Ok(pidfd) } else { Err(Errno::SRCH) }
}

const HIDEPID: &str = "/proc is mounted with hidepid: only own processes are seen";

fn collect_helpers(pid: u32, children: &HashMap<u32, Vec<u32>>, known: &HashSet<u32>, helpers: &mut Vec<u32>) {
    const MOST: usize = 1024;
    let mut todo = vec![pid];
    while let Some(parent) = todo.pop() {
        for child in children.get(&parent).into_iter().flatten() {
            if !known.contains(child) && *child != pid && !helpers.contains(child) && helpers.len() < MOST {
                helpers.push(*child);
                todo.push(*child);
            }
        }
    }
}

/// When a helper ends, the kernel adds its counters to those of its parent: the sum stays cumulative.
fn io_with_helpers(reader: &mut Reader, pid: u32, helpers: &[u32]) -> Option<Io> {
    let own = reader.read(pid, "io").ok().and_then(Io::parse)?;
    Some(helpers.iter().fold(own, |sum, helper| match reader.read(*helper, "io").ok().and_then(Io::parse) {
        Some(io) => sum.plus(io),
        None => sum,
    }))
}

fn helpers(reader: &mut Reader, pids: &[u32]) -> Helpers {
    let mut helpers = Helpers::default();
    for pid in pids {
        match reader.read(*pid, "stat").ok().and_then(Stat::parse) {
            Some(stat) if stat.is_dead() => helpers.dead += 1,
            Some(stat) => {
                helpers.alive += 1;
                helpers.cpu_ticks = helpers.cpu_ticks.saturating_add(stat.cpu_ticks);
            }
            None => {}
        }
    }
    helpers
}

fn threads_in_d(reader: &mut Reader, pid: u32) -> Option<u32> {
    let tids: Vec<u32> =
        std::fs::read_dir(reader.path(pid, "task")).ok()?.flatten().filter_map(|e| e.file_name().to_str()?.parse().ok()).collect();
    let stuck = tids.iter().filter(|tid| {
        let text = reader.read(pid, &format!("task/{tid}/stat"));
        text.ok().and_then(Stat::parse).is_some_and(|stat| stat.state == 'D')
    });
    u32::try_from(stuck.count()).ok()
}

/// The port at which the ranks of an `env://` job meet.
fn meeting_port(info: &ProcessInfo) -> Option<u16> {
    info.env.as_ref()?.get("MASTER_PORT")?.trim().parse().ok()
}

/// Where the RAS service of this process's job would answer.
fn ras_address(info: &ProcessInfo) -> Option<String> {
    let variable = |name: &str| info.env.as_ref()?.get(name).map(String::as_str);
    match info.role {
        ProcessRole::Launcher => None,
        // The address of another user's process cannot be read: the usual one is worth a try.
        _ if info.env.is_none() => Some(RAS_ADDRESS.to_owned()),
        ProcessRole::GpuUser | ProcessRole::Trainer => None,
        ProcessRole::Rank if variable("NCCL_RAS_ENABLE") == Some("0") => None,
        ProcessRole::Rank => Some(variable("NCCL_RAS_ADDR").unwrap_or(RAS_ADDRESS).to_owned()),
    }
}

/// Bytes from another process as text that cannot move a cursor.
fn printable(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().map(|c| if c.is_control() { char::REPLACEMENT_CHARACTER } else { c }).collect()
}

fn bounded(bytes: &[u8], chars: usize) -> String {
    // A character has at most four bytes.
    let enough = &bytes[..bytes.len().min(chars * 4)];
    printable(enough).chars().take(chars).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_started_is_noticed_before_the_next_scan() {
        let mut procs = Procs::new(Roots::live(), Duration::from_secs(1), None);
        assert!(procs.may_have_job(), "nothing was read yet");
        // What was there for long cannot become a job.
        procs.last_pid = procs.reader.last_pid();
        assert!(procs.last_pid.is_some());
        std::process::Command::new("true").status().unwrap();
        assert!(procs.may_have_job());
    }

    #[test]
    fn a_number_that_is_another_processs_by_now_is_not_held() {
        let mut reader = Reader::new(Roots::live());
        let own = std::process::id();
        let start_ticks = Stat::parse(reader.read(own, "stat").unwrap()).unwrap().start_ticks;
        assert!(held(&mut reader, own, start_ticks).is_ok());
        assert_eq!(held(&mut reader, own, start_ticks + 1).unwrap_err(), Errno::SRCH);
    }
}
