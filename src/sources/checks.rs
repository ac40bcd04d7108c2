//! How the host is set up: limits, modules, mounts, PCI links, the clock. Reads what the host checks ask for; the source of the host
//! looks once at the start and seldom again. Judges nothing.

mod clock;
mod pci;

use super::Roots;
use super::procs::setup;
use super::sysfs::{Dir, Reader, names};
use crate::base::file::{read_end, read_table};
use crate::base::words::io_words;
use crate::observe::facts::{HostFacts, Look, Reading};
use rustix::fs::Access;
use std::collections::BTreeMap;
use std::io;
use std::path::Path;

/// What checks look for stands at the beginning of a table.
const TABLE_BYTES: u64 = 64 << 10;
/// Of one file, line or directory.
const MOST_CHARS: usize = 4096;
/// Daemons that checks ask for, as /proc/PID/comm cuts their names.
const DAEMONS: &[&str] = &["nv-fabricmanage", "nvidia-imex", "nvidia-persiste"];
/// Where users name interfaces to NCCL.
const VARIABLES: &[&str] = &["NCCL_SOCKET_IFNAME"];

pub struct Checks {
    roots: Roots,
    looks: Vec<Look>,
    reader: Reader,
    told: Option<HostFacts>,
}

impl Checks {
    pub fn new(roots: Roots, looks: Vec<Look>) -> Self {
        Checks { roots, looks, reader: Reader::default(), told: None }
    }

    /// `None`: nothing is asked for, or all is as it was at the last look.
    pub fn news(&mut self) -> Option<HostFacts> {
        if self.looks.is_empty() {
            return None;
        }
        let facts = self.facts();
        let is_new = self.told.as_ref() != Some(&facts);
        is_new.then(|| self.told.insert(facts).clone())
    }

    fn facts(&mut self) -> HostFacts {
        let looked = self.looks.iter().filter_map(|look| Some((look.name().to_owned(), self.look(*look)?))).collect();
        let (pci, bridges) = pci::of(&self.roots, &mut self.reader);
        let is_live = self.roots.is_live();
        let variable = |name: &&str| Some(((*name).to_owned(), std::env::var(name).ok()?));
        HostFacts {
            looked,
            is_live,
            own: setup::of(&self.roots.path("/proc/self")),
            shm_bytes: if is_live { self.shm_bytes() } else { self.shm_bytes_of_mount() },
            clock: if is_live { clock::state() } else { None },
            daemons: self.daemons(),
            governors: self.governors(),
            refused: self.refused(),
            env: if is_live { VARIABLES.iter().filter_map(variable).collect() } else { BTreeMap::new() },
            pci,
            bridges,
        }
    }

    fn look(&self, look: Look) -> Option<Reading> {
        let path = self.roots.path(look.name());
        let read = match look {
            Look::Call(_) => return None,
            Look::File(_) => read_table(&path, TABLE_BYTES).map(|bytes| String::from_utf8_lossy(bytes.trim_ascii()).into_owned()),
            Look::Lines(_, prefixes) => read_table(&path, TABLE_BYTES).map(|bytes| first_lines(&String::from_utf8_lossy(&bytes), prefixes)),
            Look::Last(_, word) => read_end(&path, TABLE_BYTES).map(|bytes| last_line(&String::from_utf8_lossy(&bytes), word)),
            Look::Names(_) => names(&path).map(|names| names.join("\n")),
            Look::Link(_) => std::fs::read_link(&path).map(|target| target.to_string_lossy().into_owned()),
        };
        Some(match read {
            Ok(text) => Reading::Text(text.chars().take(MOST_CHARS).collect()),
            // A part of the path is a file in some containers.
            Err(err) if matches!(err.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Reading::Absent,
            Err(err) => Reading::Unreadable(io_words(&err)),
        })
    }

    fn shm_bytes(&self) -> Option<u64> {
        let fs = rustix::fs::statvfs(self.roots.path("/dev/shm")).ok()?;
        Some(fs.f_blocks.saturating_mul(fs.f_frsize))
    }

    /// The directory of a tree lies on this machine's disk. A tmpfs without the option has half of the memory (Linux,
    /// shmem_default_max_blocks).
    fn shm_bytes_of_mount(&self) -> Option<u64> {
        let mounts = self.roots.table("/proc/mounts").or_else(|_| self.roots.table("/proc/self/mounts")).ok()?;
        let is_shm = |line: &&str| line.split(' ').nth(1) == Some("/dev/shm");
        let options = mounts.lines().rfind(is_shm)?.split(' ').nth(3)?;
        if let Some(size) = options.split(',').find_map(|option| option.strip_prefix("size=")) {
            let digits = size.trim_end_matches(|c: char| c.is_ascii_alphabetic());
            let unit = match &size[digits.len()..] {
                "" => 0,
                "k" => 10,
                "m" => 20,
                "g" => 30,
                _ => return None,
            };
            return digits.parse::<u64>().ok()?.checked_mul(1 << unit);
        }
        let memory = self.roots.table("/proc/meminfo").ok()?;
        Some(super::host::field(memory.as_bytes(), "MemTotal:")?.checked_mul(1024)? / 2)
    }

    fn daemons(&mut self) -> Option<Vec<String>> {
        let is_pid = |name: &String| name.bytes().all(|b| b.is_ascii_digit());
        let entries = std::fs::read_dir(self.roots.path("/proc")).ok()?;
        let pids = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok()).filter(is_pid);
        let mut found = Vec::new();
        for pid in pids {
            let Ok(dir) = Dir::open(&self.roots.path("/proc").join(pid)) else { continue };
            let Some(comm) = self.reader.text(&dir, "comm") else { continue };
            // Below another root names may be whole.
            let comm: String = comm.chars().take(15).collect();
            if DAEMONS.contains(&comm.as_str()) && !found.contains(&comm) {
                found.push(comm);
            }
        }
        found.sort_unstable();
        Some(found)
    }

    fn governors(&mut self) -> BTreeMap<String, u32> {
        let mut governors = BTreeMap::new();
        let cpus = Path::new("/sys/devices/system/cpu");
        for cpu in names(&self.roots.path(cpus)).unwrap_or_default().iter().filter(|name| name.starts_with("cpu")) {
            let Ok(dir) = Dir::open(&self.roots.path(cpus.join(cpu).join("cpufreq"))) else { continue };
            if let Some(governor) = self.reader.text(&dir, "scaling_governor") {
                *governors.entry(governor).or_default() += 1;
            }
        }
        governors
    }

    fn refused(&self) -> Vec<String> {
        let dir = self.roots.path("/dev/infiniband");
        let device = |name: &String| name.starts_with("uverbs") || name == "rdma_cm";
        let may = |name: &String| rustix::fs::access(dir.join(name), Access::READ_OK | Access::WRITE_OK).is_ok();
        names(&dir).unwrap_or_default().into_iter().filter(|name| device(name) && !may(name)).collect()
    }
}

/// The first line that begins with each of these.
fn first_lines(table: &str, prefixes: &[&str]) -> String {
    prefixes.iter().filter_map(|prefix| table.lines().find(|line| line.starts_with(prefix))).collect::<Vec<_>>().join("\n")
}

/// The last line that holds this; empty where none does.
fn last_line(text: &str, word: &str) -> String {
    text.lines().rfind(|line| line.contains(word)).unwrap_or_default().trim().to_owned()
}
