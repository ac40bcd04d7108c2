//! All processes of the host, as far as finding ranks needs them. Remembers who is of no interest, so that a host at rest with a
//! thousand processes costs next to nothing.

use super::environ::{RankKey, Signs};
use super::program::Program;
use super::read::{Reader, is_gone};
use super::sockets;
use super::stat::Stat;
use crate::base::agent::{Agent, is_python, may_be_agent};
use crate::observe::process::{Place, ProcessRole};
use std::collections::{BTreeSet, HashMap, HashSet};
use std::io;

/// A process that is younger than this many scans may still exec into something else.
const YOUNG_SCANS: u32 = 10;
/// … unless it is older than this when first seen. The kernel shows times to users in hundredths of a second everywhere.
const OLD_TICKS: u64 = 30 * 100;
/// Of the processes of no interest, one in so many is looked at again per scan.
const SETTLED_TURN: u32 = 4;
/// … and of the kernel's threads, most of the processes of a large machine: they never turn into something else, only their number is used again.
const KERNEL_TURN: u32 = 20;
/// A rank holds a few hundred descriptors; whoever holds more is not read to the end.
const MAX_FDS: usize = 4096;
/// Who sleeps and wakes up now and then uses no more of a CPU from one look to the next.
const BUSY_TICKS: u64 = 2;
/// How far above a rank its launcher is looked for.
pub const LAUNCHER_LEVELS: usize = 6;

/// Slurm's client.
pub const SRUN: &[u8] = b"srun";
pub const RAYLET: &[u8] = b"raylet";

/// How a process is known to hold a GPU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gpu {
    #[default]
    No,
    /// It has /dev/nvidia<N> open. Children inherit that, and whoever only counts GPUs has it too.
    OpenDevice,
    /// NVML lists it.
    Nvml,
}

#[derive(Clone, Debug)]
pub struct Entry {
    pub ppid: u32,
    pub start_ticks: u64,
    pub comm: Vec<u8>,
    pub dead: bool,
    pub kernel_thread: bool,
    pub signs: Signs,
    pub program: Option<Program>,
    /// It waits for other nodes, and then starts ranks.
    pub agent: bool,
    pub gpu: Gpu,
    /// What it was chosen to be. Stays while it lives.
    pub role: Option<ProcessRole>,
    /// Where its rank follows from what the launcher gave to others.
    pub place: Option<Place>,
    /// The srun that has started its step.
    pub client: Option<u32>,
    /// Of an srun: the ports of ranks at which it was found to listen.
    pub listens: Option<u16>,
    /// It was seen below a rank with the same rank in its environment. If the rank dies first, its orphan is still no rank.
    pub helper: bool,
    pub first_scan: u32,
    cpu_ticks: u64,
    /// It was looked at in this scan, and has used a CPU since the last look.
    pub busy: bool,
    last_scan: u32,
    old_at_first: bool,
}

#[derive(Default)]
pub struct Table {
    pub entries: HashMap<u32, Entry>,
    pub scan: u32,
    /// `None` where /proc/uptime cannot be read: then nobody counts as old.
    uptime_ticks: Option<u64>,
}

impl Table {
    /// Looks at every process that is new, young or of interest.
    pub fn refresh(&mut self, reader: &mut Reader, own_pid: Option<u32>) -> io::Result<()> {
        let pids = reader.pids()?;
        self.scan = self.scan.wrapping_add(1);
        self.uptime_ticks = reader.uptime_ticks();
        for pid in pids {
            if Some(pid) != own_pid {
                self.look_at(pid, reader);
            }
        }
        let scan = self.scan;
        self.entries.retain(|_, entry| entry.last_scan == scan);
        Ok(())
    }

    fn look_at(&mut self, pid: u32, reader: &mut Reader) {
        let scan = self.scan;
        if let Some(entry) = self.entries.get_mut(&pid)
            && entry.is_settled(scan)
            && !pid.wrapping_add(scan).is_multiple_of(if entry.kernel_thread { KERNEL_TURN } else { SETTLED_TURN })
        {
            entry.last_scan = scan;
            entry.busy = false;
            return;
        }
        let Some(stat) = reader.read(pid, "stat").ok().and_then(Stat::parse) else { return };
        let known = self.entries.remove(&pid).filter(|entry| entry.start_ticks == stat.start_ticks);
        let execed = known.as_ref().is_some_and(|entry| entry.comm != stat.comm);
        let mut entry = known.unwrap_or_else(|| Entry {
            ppid: stat.ppid,
            start_ticks: stat.start_ticks,
            comm: Vec::new(),
            dead: false,
            kernel_thread: stat.kernel_thread,
            signs: Signs::default(),
            program: None,
            agent: false,
            gpu: Gpu::No,
            role: None,
            place: None,
            client: None,
            listens: None,
            helper: false,
            first_scan: scan,
            cpu_ticks: 0,
            busy: false,
            last_scan: scan,
            old_at_first: self.uptime_ticks.is_some_and(|now| now.saturating_sub(stat.start_ticks) > OLD_TICKS),
        });
        entry.ppid = stat.ppid;
        entry.dead = stat.is_dead();
        entry.last_scan = scan;
        entry.busy = stat.cpu_ticks > entry.cpu_ticks.saturating_add(BUSY_TICKS);
        entry.cpu_ticks = stat.cpu_ticks;
        let new = entry.first_scan == scan;
        if execed || new {
            entry.comm = stat.comm.to_vec();
            entry.program = None;
        }
        if entry.dead {
            entry.signs = Signs::default();
            entry.gpu = Gpu::No;
        } else if !entry.kernel_thread && (execed || new || entry.is_young(scan)) {
            entry.program = None;
            entry.read_signs(pid, reader);
        }
        self.entries.insert(pid, entry);
    }

    /// Who holds a GPU, and what the processes that matter run.
    pub fn weigh(&mut self, reader: &mut Reader, nvml: Option<&HashSet<u32>>) {
        // In a container without the host's pids NVML's list is empty or names strangers: open device files show it instead.
        let nvml = nvml.filter(|pids| pids.iter().any(|pid| self.entries.contains_key(pid)));
        let probe = nvml.is_none() && (!reader.roots().is_live() || reader.roots().path("/dev/nvidiactl").exists());
        for (pid, entry) in &mut self.entries {
            match nvml {
                Some(pids) => entry.gpu = if pids.contains(pid) && !entry.dead { Gpu::Nvml } else { Gpu::No },
                None if probe => entry.probe_devices(*pid, self.scan, reader),
                None => {}
            }
        }
        let matters =
            |entry: &Entry| entry.signs.key.is_some() || entry.gpu != Gpu::No || entry.is_ray_worker() || entry.actor_of_ray().is_some();
        let mut wanted: Vec<u32> = self.entries.iter().filter(|(_, entry)| matters(entry)).map(|(pid, _)| *pid).collect();
        let may_launch = |e: &Entry| e.comm == SRUN || std::str::from_utf8(&e.comm).is_ok_and(may_be_agent);
        wanted.extend(self.entries.iter().filter(|(_, entry)| entry.program.is_none() && may_launch(entry)).map(|(pid, _)| *pid));
        for at in 0..wanted.len() {
            let above: Vec<u32> = self.ancestors(wanted[at]).take(LAUNCHER_LEVELS).collect();
            wanted.extend(above);
        }
        wanted.sort_unstable();
        wanted.dedup();
        for pid in wanted {
            if let Some(entry) = self.entries.get_mut(&pid).filter(|entry| entry.program.is_none()) {
                let args = reader.read(pid, "cmdline").map(super::process::raw_arguments).unwrap_or_default();
                entry.program = Some(Program::of(&String::from_utf8_lossy(&entry.comm), &args));
                entry.agent = Agent::of(&args).is_some();
            }
        }
    }

    /// Finds the srun of each step by the port that its tasks report to. One that was called from a login shell has no number of a job in its
    /// own environment.
    pub fn find_clients(&mut self, reader: &Reader) {
        let mut ports: BTreeSet<u16> =
            self.entries.values().filter(|entry| entry.signs.key.is_some()).filter_map(|entry| entry.signs.srun_port).collect();
        for known in self.entries.values().filter_map(|entry| entry.listens) {
            ports.remove(&known);
        }
        if ports.is_empty() {
            return;
        }
        for (pid, entry) in self.entries.iter_mut().filter(|(_, entry)| entry.comm == SRUN && !entry.dead && entry.listens.is_none()) {
            entry.listens = sockets::listens(reader, *pid, &ports);
        }
    }

    /// One that may still exec into something else.
    pub fn has_young(&self) -> bool {
        self.entries.values().any(|entry| !entry.kernel_thread && !entry.dead && entry.is_young(self.scan))
    }

    pub fn get(&self, pid: u32) -> Option<&Entry> {
        self.entries.get(&pid)
    }

    pub fn key(&self, pid: u32) -> Option<RankKey> {
        self.entries.get(&pid)?.signs.key
    }

    /// Parent, grandparent, … as far as they can be seen.
    pub fn ancestors(&self, pid: u32) -> impl Iterator<Item = u32> {
        // What is read while processes come and go may hold a circle.
        std::iter::successors(Some(pid), |pid| {
            let ppid = self.entries.get(pid)?.ppid;
            self.entries.contains_key(&ppid).then_some(ppid)
        })
        .skip(1)
        .take(64)
    }

    pub fn children(&self) -> HashMap<u32, Vec<u32>> {
        let mut children: HashMap<u32, Vec<u32>> = HashMap::new();
        for (pid, entry) in &self.entries {
            children.entry(entry.ppid).or_default().push(*pid);
        }
        children
    }
}

impl Entry {
    fn is_young(&self, scan: u32) -> bool {
        !self.old_at_first && scan.wrapping_sub(self.first_scan) < YOUNG_SCANS
    }

    /// Old enough, and neither a rank nor near one.
    fn is_settled(&self, scan: u32) -> bool {
        self.kernel_thread || !self.is_young(scan) && self.signs.key.is_none() && self.gpu == Gpu::No && self.role.is_none()
    }

    fn read_signs(&mut self, pid: u32, reader: &mut Reader) {
        match reader.read(pid, "environ") {
            // Empty: in the middle of exec or exit.
            Ok([]) => {}
            Ok(raw) => self.signs = Signs::read(raw),
            Err(err) if is_gone(&err) => {}
            Err(_) => self.signs = Signs::default(),
        }
    }

    /// Expensive, so only for who may train, and no longer once found.
    fn probe_devices(&mut self, pid: u32, scan: u32, reader: &Reader) {
        let may_train = self.signs.key.is_some() || self.is_python() || self.comm.starts_with(b"ray::");
        let turn = self.is_young(scan) || pid.wrapping_add(scan).is_multiple_of(5);
        if self.dead || self.gpu != Gpu::No || !may_train || !turn {
            return;
        }
        let Ok(fds) = std::fs::read_dir(reader.path(pid, "fd")) else { return };
        let held = fds
            .flatten()
            .take(MAX_FDS)
            .any(|fd| std::fs::read_link(fd.path()).is_ok_and(|target| target.to_str().is_some_and(is_gpu_device)));
        if held {
            self.gpu = Gpu::OpenDevice;
        }
    }

    pub fn runs(&self) -> Program {
        self.program.unwrap_or(Program::Other)
    }

    pub fn is_python(&self) -> bool {
        std::str::from_utf8(&self.comm).is_ok_and(is_python)
    }

    /// A process of Ray has the name of its actor or of the call that it runs, cut to 15 characters: `ray::RayTrainWorker`,
    /// `ray::_RayTrainWorker__execute.get_next`.
    pub fn is_ray_worker(&self) -> bool {
        [b"ray::RayTrainWo", b"ray::_RayTrainW"].iter().any(|name| self.comm == *name)
    }

    /// The class of an actor of Ray that somebody wrote: `PolicyMode` of `ray::PolicyModelActor.fit`.
    pub fn actor_of_ray(&self) -> Option<&[u8]> {
        const OF_RAY_ITSELF: &[&[u8]] = &[b"DashboardA", b"RuntimeEnv", b"TrainContr"];
        let class = self.comm.strip_prefix(b"ray::")?.split(|byte| *byte == b'.').next()?;
        let is_own = self.is_ray_worker() || class.starts_with(b"IDLE") || OF_RAY_ITSELF.contains(&class);
        (!is_own && !class.is_empty()).then_some(class)
    }

    /// Ray Train's controller, which prints the places of the workers.
    pub fn is_ray_controller(&self) -> bool {
        self.comm == b"ray::TrainContr"
    }
}

/// `/dev/nvidia3`, but not `/dev/nvidiactl`, which everyone opens who asks for a version.
fn is_gpu_device(target: &str) -> bool {
    target.strip_prefix("/dev/nvidia").is_some_and(|minor| !minor.is_empty() && minor.bytes().all(|b| b.is_ascii_digit()))
}
