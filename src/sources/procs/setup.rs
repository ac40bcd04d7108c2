//! What a process may use, and which namespaces it is in.

use super::stat::Status;
use crate::base::file::read_table;
use crate::observe::process::ProcessSetup;
use std::path::Path;

/// /proc/PID/limits and status are a page at most.
const TABLE_BYTES: u64 = 16 << 10;
/// Of linux/capability.h.
const CAP_IPC_LOCK: u32 = 14;

/// Of the process with this directory below /proc.
pub fn of(dir: &Path) -> ProcessSetup {
    let limits = read_table(&dir.join("limits"), TABLE_BYTES).unwrap_or_default();
    let text = read_table(&dir.join("status"), TABLE_BYTES).unwrap_or_default();
    let status = Status::parse(&text);
    let namespace = |name| Some(std::fs::read_link(dir.join("ns").join(name)).ok()?.to_string_lossy().into_owned());
    ProcessSetup {
        memlock_bytes: limit(&limits, "Max locked memory", 0),
        memlock_hard_bytes: limit(&limits, "Max locked memory", 1),
        open_files: limit(&limits, "Max open files", 1),
        locks_freely: status.capabilities.map(|all| all >> CAP_IPC_LOCK & 1 == 1),
        cpus: cpus(&text),
        ipc_namespace: namespace("ipc"),
        pid_namespace: namespace("pid"),
    }
}

/// `Cpus_allowed_list:\t0-15,64-79`
fn cpus(status: &[u8]) -> Option<String> {
    const MOST: usize = 256;
    let line = status.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"Cpus_allowed_list:"))?;
    Some(super::bounded(line.trim_ascii(), MOST)).filter(|list| !list.is_empty())
}

/// `Max locked memory         8388608              unlimited            bytes`: the soft one (0), then the hard one (1).
pub fn limit(table: &[u8], name: &str, column: usize) -> Option<u64> {
    let table = std::str::from_utf8(table).ok()?;
    let limits = table.lines().find_map(|line| line.strip_prefix(name))?;
    match limits.split_ascii_whitespace().nth(column)? {
        "unlimited" => Some(u64::MAX),
        number => number.parse().ok(),
    }
}
