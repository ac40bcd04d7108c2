//! What the exporter reports of itself and of the host that it runs on, besides what the session knows.

use crate::base::time::Stamp;
use crate::sources::feed::Polls;
use crate::sources::{Roots, addresses};
use std::collections::BTreeMap;
use std::time::Duration;

/// Addresses seldom change.
const LOOK_AT_ADDRESSES: Duration = Duration::from_secs(60);
/// Clock ticks a second on every Linux that NCCL runs on (USER_HZ).
const TICKS_PER_S: f64 = 100.0;

/// Facts of this moment. `None`, or empty: not known, as in a replay.
pub struct Own {
    roots: Option<Roots>,
    polled: Polls,
    looked_at: Option<Stamp>,
    pub addresses: Vec<String>,
    /// How long the last poll of each source took.
    pub polls: BTreeMap<&'static str, Duration>,
    pub cpu_s: Option<f64>,
    pub resident_bytes: Option<f64>,
    pub open_files: Option<f64>,
    pub started_s: Option<f64>,
}

impl Own {
    pub fn new(roots: Roots, polled: Polls) -> Own {
        Own { roots: Some(roots), polled, ..Own::unknown() }
    }

    /// Of a recording, which holds nothing of the kind.
    pub fn unknown() -> Own {
        Own {
            roots: None,
            polled: Polls::default(),
            looked_at: None,
            addresses: Vec::new(),
            polls: BTreeMap::new(),
            cpu_s: None,
            resident_bytes: None,
            open_files: None,
            started_s: None,
        }
    }

    pub fn look(&mut self, now: Stamp) {
        let Some(roots) = &self.roots else { return };
        self.polls = self.polled.all();
        if self.looked_at.is_none_or(|at| now.since(at) >= LOOK_AT_ADDRESSES) {
            self.looked_at = Some(now);
            self.addresses = addresses::of_host(roots);
        }
        // Of this program itself, wherever the host's files are read.
        let own = Roots::live();
        let stat = own.table("/proc/self/stat").unwrap_or_default();
        // After the name, which may hold anything: state is field 3 of proc_pid_stat(5).
        let fields: Vec<&str> = stat.rsplit_once(')').map_or(Vec::new(), |(_, rest)| rest.split_whitespace().collect());
        let field = |no: usize| fields.get(no - 3)?.parse::<f64>().ok();
        self.cpu_s = field(14).zip(field(15)).map(|(user, system)| (user + system) / TICKS_PER_S);
        let status = own.table("/proc/self/status").unwrap_or_default();
        let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.trim().strip_suffix(" kB")?.parse::<f64>().ok());
        self.resident_bytes = resident.map(|kib| kib * 1024.0);
        self.open_files = std::fs::read_dir("/proc/self/fd").ok().map(|dir| dir.count() as f64);
        if self.started_s.is_none() {
            let stat = own.table("/proc/stat").unwrap_or_default();
            let booted = stat.lines().find_map(|line| line.strip_prefix("btime ")?.trim().parse::<f64>().ok());
            self.started_s = booted.zip(field(22)).map(|(booted, ticks)| booted + ticks / TICKS_PER_S);
        }
    }
}
