//! The machine: CPU, memory, load, shared memory, disks and temperatures, and once what it is. Reads /proc and /sys; of the live host
//! sysinfo knows memory, file systems and what it is.

mod sensors;
mod this_machine;

use super::checks::Checks;
use super::procs::setup::limit;
use super::procs::stat::cgroup;
use super::sysfs::{Dir, Reader, names};
use super::{Roots, Setup, Source, SourceError};
use crate::observe::host::{DiskSample, HostSample, Node};
use crate::observe::{Body, SourceState};
use std::path::Path;
use std::time::Duration;
use this_machine::Live;

/// Memory and disks fill over minutes, so this lane is slower than that of the links.
const PERIOD: Duration = Duration::from_secs(5);
/// What changes over minutes is looked at so often.
const SLOW_PERIOD: Duration = Duration::from_secs(15);
/// How the host is set up changes when somebody sets it up anew.
const CHECKS_PERIOD: Duration = Duration::from_secs(300);
/// File systems that jobs fill, where not all are known: the root, and the place of temporary files if that is another one.
const DISKS: &[&str] = &["/", "/tmp"];

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    let checks = Checks::new(setup.roots.clone(), setup.looks.clone());
    Box::new(Host { checks, ..Host::new(setup.roots.clone(), setup.interval) })
}

pub struct Host {
    roots: Roots,
    every: Duration,
    reader: Reader,
    node: NodeState,
    /// `None` below `--sysroot`.
    live: Option<Live>,
    /// Polls until the next look at what changes slowly.
    polls_to_slow: u32,
    checks: Checks,
    polls_to_checks: u32,
}

#[derive(PartialEq, Eq)]
enum NodeState {
    Untold,
    Told,
}

impl Host {
    /// `interval` is that of the fast lanes: this one is not faster than [`PERIOD`].
    pub fn new(roots: Roots, interval: Duration) -> Self {
        let live = roots.is_live().then(Live::new);
        Host {
            every: interval.max(PERIOD),
            reader: Reader::default(),
            node: NodeState::Untold,
            live,
            polls_to_slow: 0,
            checks: Checks::new(roots.clone(), Vec::new()),
            polls_to_checks: 0,
            roots,
        }
    }

    fn table(&mut self, path: &str) -> Option<&[u8]> {
        self.reader.table(&self.roots.path(path)).ok()
    }

    /// One line, trimmed.
    fn line(&mut self, dir: &str, name: &str) -> Option<String> {
        let dir = Dir::open(&self.roots.path(dir)).ok()?;
        self.reader.text(&dir, name)
    }

    fn node(&mut self) -> Node {
        let mut node = Node {
            hostname: self.line("/proc/sys/kernel", "hostname").unwrap_or_default(),
            boot_id: self.line("/proc/sys/kernel/random", "boot_id"),
            kernel: self.line("/proc/sys/kernel", "osrelease"),
            vendor: self.line("/sys/devices/virtual/dmi/id", "sys_vendor"),
            product: self.line("/sys/devices/virtual/dmi/id", "product_name"),
            cpus: self.table("/proc/stat").and_then(cpus),
            container: self.container().map(str::to_owned),
            iommu: names(&self.roots.path("/sys/class/iommu")).ok().map(|units| !units.is_empty()),
            memlock_bytes: self.table("/proc/self/limits").and_then(|table| limit(table, "Max locked memory", 1)),
            ..Node::default()
        };
        if self.live.is_some() {
            Live::describe(&mut node);
        }
        node
    }

    /// The most telling sign first: a pod is a container too.
    fn container(&mut self) -> Option<&'static str> {
        const MARKS: &[(&str, &str)] = &[
            ("/var/run/secrets/kubernetes.io/serviceaccount", "kubernetes"),
            ("/run/secrets/kubernetes.io/serviceaccount", "kubernetes"),
            ("/run/.containerenv", "podman"),
            ("/.dockerenv", "docker"),
        ];
        let mark = MARKS.iter().find(|(path, _)| self.roots.path(path).symlink_metadata().is_ok());
        if let Some((_, name)) = mark {
            return Some(name);
        }
        if let Some(name) = self.table("/proc/1/cgroup").and_then(container_of_cgroup) {
            return Some(name);
        }
        // Readable by root only.
        self.table("/proc/1/environ").and_then(container_of_environ)
    }

    fn sample(&mut self, slow: bool) -> Result<HostSample, SourceError> {
        let mut sample = HostSample::default();
        if let Some(live) = &mut self.live {
            live.memory(&mut sample);
        } else if let Some(table) = self.table("/proc/meminfo") {
            sample.mem_total_bytes = kib(table, "MemTotal:");
            sample.mem_available_bytes = kib(table, "MemAvailable:");
            sample.swap_total_bytes = kib(table, "SwapTotal:");
            sample.swap_free_bytes = kib(table, "SwapFree:");
        }
        sample.load_1m = self.table("/proc/loadavg").and_then(load_1m);
        let mut pressure = |of: &str| self.table(&format!("/proc/pressure/{of}")).and_then(pressure_us);
        (sample.cpu_pressure_us, sample.io_pressure_us) = (pressure("cpu"), pressure("io"));
        sample.oom_kills = self.table("/proc/vmstat").and_then(|table| field(table, "oom_kill"));
        if let Some(shm) = self.disk("/dev/shm") {
            sample.shm_total_bytes = Some(shm.total_bytes);
            sample.shm_free_bytes = Some(shm.free_bytes);
        }
        sample.disks = match &mut self.live {
            None => self.disks(),
            Some(live) if slow => live.disks(),
            Some(_) => Vec::new(),
        };
        if slow {
            sample.temperatures = sensors::temperatures(&self.roots, &mut self.reader);
        }
        let table = self.reader.table(&self.roots.path("/proc/stat"));
        let table = table.map_err(|err| SourceError::io(Path::new("/proc/stat"), &err))?;
        if let Some(cpu) = CpuTicks::parse(table) {
            sample.cpu_busy_ticks = Some(cpu.busy);
            sample.cpu_idle_ticks = Some(cpu.idle);
            sample.cpu_iowait_ticks = Some(cpu.iowait);
        }
        sample.procs_running = field(table, "procs_running");
        Ok(sample)
    }

    /// Each file system once, although several of the paths may lie on it.
    fn disks(&self) -> Vec<DiskSample> {
        let mut devices = Vec::new();
        let is_new = |path: &&&str| {
            let device = rustix::fs::stat(self.roots.path(path)).map(|stat| stat.st_dev);
            let is_new = device.is_ok_and(|device| !devices.contains(&device));
            devices.extend(device);
            is_new
        };
        DISKS.iter().filter(is_new).filter_map(|path| self.disk(path)).collect()
    }

    fn disk(&self, mount: &str) -> Option<DiskSample> {
        let fs = rustix::fs::statvfs(self.roots.path(mount)).ok()?;
        // What an ordinary user may still write; root has a reserve beyond that.
        let bytes = |blocks: u64| blocks.saturating_mul(fs.f_frsize);
        Some(DiskSample {
            mount: mount.to_owned(),
            total_bytes: bytes(fs.f_blocks),
            free_bytes: bytes(fs.f_bavail),
            ..DiskSample::default()
        })
    }
}

impl Source for Host {
    fn every(&self) -> Duration {
        self.every
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        if self.node == NodeState::Untold {
            out.push(Body::Node(self.node()));
            self.node = NodeState::Told;
        }
        if self.polls_to_checks == 0 {
            self.polls_to_checks = polls(CHECKS_PERIOD, self.every);
            out.extend(self.checks.news().map(|facts| Body::HostFacts(Box::new(facts))));
        }
        self.polls_to_checks -= 1;
        let slow = self.polls_to_slow == 0;
        if slow {
            self.polls_to_slow = polls(SLOW_PERIOD, self.every);
            let own = self.table("/proc/self/cgroup").and_then(cgroup);
            let own = own.and_then(|path| super::cgroup::memory(&self.roots, &mut self.reader, &path));
            out.extend(own.map(|own| Body::Cgroups { cgroups: vec![own] }));
        }
        self.polls_to_slow -= 1;
        out.push(Body::Host(self.sample(slow)?));
        Ok(())
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        self.live.as_ref().and_then(Live::trouble)
    }
}

fn polls(period: Duration, every: Duration) -> u32 {
    u32::try_from(period.as_millis() / every.as_millis()).unwrap_or(0).max(1)
}

/// The `cpu` line of /proc/stat.
struct CpuTicks {
    busy: u64,
    idle: u64,
    iowait: u64,
}

impl CpuTicks {
    /// user nice system idle iowait irq softirq steal; guest time is in user already.
    fn parse(table: &[u8]) -> Option<CpuTicks> {
        let line = lines(table).find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<u64> = line.split_ascii_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
        let &[user, nice, system, idle, iowait, ref rest @ ..] = &ticks[..] else { return None };
        let busy = [user, nice, system].iter().chain(rest).fold(0u64, |sum, &n| sum.saturating_add(n));
        Some(CpuTicks { busy, idle: idle.saturating_add(iowait), iowait })
    }
}

/// CPUs that are online: lines `cpu0`, `cpu1`, … of /proc/stat.
fn cpus(table: &[u8]) -> Option<u32> {
    let is_cpu = |line: &&str| line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    u32::try_from(lines(table).filter(is_cpu).count()).ok().filter(|&n| n > 0)
}

/// `MemTotal:  2113564744 kB`
fn kib(table: &[u8], name: &str) -> Option<u64> {
    field(table, name)?.checked_mul(1024)
}

/// The number after `name` on the line that starts with it.
pub(super) fn field(table: &[u8], name: &str) -> Option<u64> {
    lines(table).find_map(|line| {
        let mut words = line.split_ascii_whitespace();
        (words.next() == Some(name)).then(|| words.next()?.parse().ok()).flatten()
    })
}

/// `some avg10=1.53 avg60=0.87 avg300=0.63 total=1234567`
fn pressure_us(table: &[u8]) -> Option<u64> {
    lines(table).find_map(|line| line.strip_prefix("some "))?.rsplit_once("total=")?.1.parse().ok()
}

fn load_1m(table: &[u8]) -> Option<f64> {
    let load: f64 = lines(table).next()?.split_ascii_whitespace().next()?.parse().ok()?;
    (load.is_finite() && load >= 0.0).then_some(load)
}

/// Version 1 of cgroups names the runtime in the path of pid 1; on a host that is `/` or `/init.scope`.
fn container_of_cgroup(table: &[u8]) -> Option<&'static str> {
    const PATHS: &[(&str, &str)] =
        &[("kubepods", "kubernetes"), ("libpod", "podman"), ("docker", "docker"), ("containerd", "containerd"), ("lxc", "lxc")];
    let (_, name) = PATHS.iter().find(|(path, _)| lines(table).any(|line| line.contains(path)))?;
    Some(name)
}

/// `container=` in the environment of pid 1 is how runtimes greet systemd.
fn container_of_environ(table: &[u8]) -> Option<&'static str> {
    const VALUES: &[&str] = &["docker", "podman", "lxc", "systemd-nspawn", "oci", "enroot"];
    let value = table.split(|&b| b == 0).find_map(|entry| entry.strip_prefix(b"container="))?;
    Some(VALUES.iter().find(|name| name.as_bytes() == value).copied().unwrap_or("container"))
}

fn lines(table: &[u8]) -> impl Iterator<Item = &str> {
    table.split(|&b| b == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}
