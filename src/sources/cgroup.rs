//! Memory and CPU time of control groups, of version 2 and of version 1: what a limit leaves, wherever above the group it stands.

use super::Roots;
use super::sysfs::{Dir, Reader};
use crate::observe::host::{CgroupCpu, CgroupMemory};
use std::path::Path;

/// Names of the files of one version.
struct Files {
    root: &'static str,
    limit: &'static str,
    used: &'static str,
    /// The kernel gives these up before it kills anybody.
    cache: [&'static str; 2],
    swap_limit: &'static str,
    swap_used: &'static str,
    /// The two of swap count memory, too.
    swap_is_sum: bool,
    cpu_root: &'static str,
}

const V2: Files = Files {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    cache: ["inactive_file", "active_file"],
    swap_limit: "memory.swap.max",
    swap_used: "memory.swap.current",
    swap_is_sum: false,
    cpu_root: "/sys/fs/cgroup",
};
const V1: Files = Files {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: ["total_inactive_file", "total_active_file"],
    swap_limit: "memory.memsw.limit_in_bytes",
    swap_used: "memory.memsw.usage_in_bytes",
    swap_is_sum: true,
    cpu_root: "/sys/fs/cgroup/cpu",
};
/// No machine has so much memory: version 1 writes "no limit" as a number of pages near the largest there is.
const NO_LIMIT: u64 = 1 << 60;
/// Levels above a group.
const DEEPEST: usize = 32;

/// Memory of the group at `path` as /proc/PID/cgroup names it. `None`: there is no such group, or nothing counts its memory.
pub fn memory(roots: &Roots, reader: &mut Reader, path: &str) -> Option<CgroupMemory> {
    let unified = roots.path("/sys/fs/cgroup/cgroup.controllers").is_file();
    let files = if unified { &V2 } else { &V1 };
    let relative = Path::new(path.trim_start_matches('/'));
    // From within a container, groups outside of it are `/../…`; and its own may be mounted in the place of the root.
    let inside = relative.components().all(|part| matches!(part, std::path::Component::Normal(_)));
    let root = roots.path(files.root);
    let start = if inside && root.join(relative).is_dir() { relative } else { Path::new("") };
    let levels = start.ancestors().take(DEEPEST).filter_map(|level| {
        let dir = Dir::open(&root.join(level)).ok()?;
        let used: u64 = reader.number(&dir, files.used)?;
        let limit = limited(reader.number(&dir, files.limit));
        Some((level, dir, used, limit))
    });
    let levels: Vec<_> = levels.collect();
    let tightest =
        levels.iter().filter(|(.., limit)| limit.is_some()).min_by_key(|(_, _, used, limit)| limit.map(|l| l.saturating_sub(*used)));
    let (level, dir, used, limit) = tightest.or(levels.first())?;
    let cache = limit.and_then(|_| cache_bytes(reader.table(&root.join(level).join("memory.stat")).ok()?, files));
    let swap_used: Option<u64> = reader.number(dir, files.swap_used);
    let swap_limit = limited(reader.number(dir, files.swap_limit));
    let without = |sum: u64, part: u64| if files.swap_is_sum { sum.saturating_sub(part) } else { sum };
    Some(CgroupMemory {
        cgroup: path.to_owned(),
        limited_by: limit.map(|_| format!("/{}", level.display())),
        limit_bytes: *limit,
        used_bytes: Some(*used),
        cache_bytes: cache,
        swap_limit_bytes: swap_limit.map(|sum| without(sum, limit.unwrap_or(0))),
        swap_used_bytes: swap_used.map(|sum| without(sum, *used)),
        cpu: cpu(&roots.path(files.cpu_root), start, reader),
    })
}

/// CPU time of the level at or above `start` that was throttled most, of those that have a quota.
fn cpu(root: &Path, start: &Path, reader: &mut Reader) -> Option<CgroupCpu> {
    let levels = start.ancestors().take(DEEPEST).filter_map(|level| {
        let dir = root.join(level);
        let quota = cpu_quota(&dir, reader)?;
        let stat = reader.table(&dir.join("cpu.stat")).ok()?;
        let (periods, throttled) = (super::host::field(stat, "nr_periods")?, super::host::field(stat, "nr_throttled")?);
        Some(CgroupCpu { limited_by: format!("/{}", level.display()), limit_cpus: Some(quota), periods, throttled })
    });
    levels.max_by_key(|level| level.throttled)
}

/// How many CPUs a group may use: `400000 100000` of cpu.max, or the two files of version 1. `None`: all.
fn cpu_quota(dir: &Path, reader: &mut Reader) -> Option<f64> {
    let mut numbers = |name: &str| -> Option<(i64, Option<i64>)> {
        let text = String::from_utf8_lossy(reader.table(&dir.join(name)).ok()?).into_owned();
        let mut words = text.split_ascii_whitespace().map(|word| word.parse::<i64>().ok());
        Some((words.next()??, words.next().flatten()))
    };
    let (quota, period) = match numbers("cpu.max") {
        Some((quota, period)) => (quota, period?),
        None => (numbers("cpu.cfs_quota_us")?.0, numbers("cpu.cfs_period_us")?.0),
    };
    (quota > 0 && period > 0).then(|| quota as f64 / period as f64)
}

fn limited(bytes: Option<u64>) -> Option<u64> {
    bytes.filter(|bytes| *bytes < NO_LIMIT)
}

fn cache_bytes(stat: &[u8], files: &Files) -> Option<u64> {
    files.cache.iter().map(|name| super::host::field(stat, name)).sum()
}
