//! Memory of control groups, of version 2 and of version 1: what a limit leaves, wherever above the group it stands.

use super::Roots;
use super::sysfs::{Dir, Reader};
use crate::observe::host::CgroupMemory;
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
}

const V2: Files = Files {
    root: "/sys/fs/cgroup",
    limit: "memory.max",
    used: "memory.current",
    cache: ["inactive_file", "active_file"],
    swap_limit: "memory.swap.max",
    swap_used: "memory.swap.current",
    swap_is_sum: false,
};
const V1: Files = Files {
    root: "/sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    cache: ["total_inactive_file", "total_active_file"],
    swap_limit: "memory.memsw.limit_in_bytes",
    swap_used: "memory.memsw.usage_in_bytes",
    swap_is_sum: true,
};
/// No machine has so much memory: version 1 writes "no limit" as a number of pages near the largest there is.
const NO_LIMIT: u64 = 1 << 60;
/// Levels above a group.
const DEEPEST: usize = 32;

/// Memory of the group at `path` as /proc/PID/cgroup names it. `None`: there is no such group, or nothing counts its memory.
pub(super) fn memory(roots: &Roots, reader: &mut Reader, path: &str) -> Option<CgroupMemory> {
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
    })
}

fn limited(bytes: Option<u64>) -> Option<u64> {
    bytes.filter(|bytes| *bytes < NO_LIMIT)
}

fn cache_bytes(stat: &[u8], files: &Files) -> Option<u64> {
    files.cache.iter().map(|name| super::host::field(stat, name)).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("sys/fs/cgroup").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        root
    }

    fn of(root: &tempfile::TempDir, path: &str) -> Option<CgroupMemory> {
        memory(&Roots::below(root.path()), &mut Reader::new(), path)
    }

    #[test]
    fn the_limit_that_leaves_least_counts_wherever_it_stands() {
        let root = tree(&[
            ("cgroup.controllers", "cpu memory"),
            ("slurm/memory.max", "1000"),
            ("slurm/memory.current", "990"),
            ("slurm/memory.stat", "anon 900\nfile 80\ninactive_file 30\nactive_file 40\nshmem 10"),
            ("slurm/memory.swap.max", "max"),
            ("slurm/memory.swap.current", "7"),
            ("slurm/job_7/memory.max", "500"),
            ("slurm/job_7/memory.current", "100"),
            ("slurm/job_7/step_0/memory.max", "max"),
            ("slurm/job_7/step_0/memory.current", "90"),
        ]);
        let found = of(&root, "/slurm/job_7/step_0").unwrap();
        let expected = CgroupMemory {
            cgroup: "/slurm/job_7/step_0".into(),
            limited_by: Some("/slurm".into()),
            limit_bytes: Some(1000),
            used_bytes: Some(990),
            cache_bytes: Some(70),
            swap_limit_bytes: None,
            swap_used_bytes: Some(7),
        };
        assert_eq!(found, expected);
        std::fs::write(root.path().join("sys/fs/cgroup/slurm/memory.max"), "max\n").unwrap();
        let found = of(&root, "/slurm/job_7/step_0").unwrap();
        assert_eq!((found.limited_by.as_deref(), found.limit_bytes, found.used_bytes), (Some("/slurm/job_7"), Some(500), Some(100)));
        std::fs::write(root.path().join("sys/fs/cgroup/slurm/job_7/memory.max"), "max\n").unwrap();
        let found = of(&root, "/slurm/job_7/step_0").unwrap();
        assert_eq!((found.limited_by, found.limit_bytes, found.used_bytes), (None, None, Some(90)));
    }

    #[test]
    fn version_1_has_other_names_and_counts_memory_as_swap() {
        let root = tree(&[
            ("memory/memory.usage_in_bytes", "5000"),
            ("memory/memory.limit_in_bytes", "9223372036854771712"),
            ("memory/job/memory.usage_in_bytes", "600"),
            ("memory/job/memory.limit_in_bytes", "800"),
            ("memory/job/memory.memsw.usage_in_bytes", "650"),
            ("memory/job/memory.memsw.limit_in_bytes", "1000"),
            ("memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 20\ntotal_active_file 30"),
        ]);
        let found = of(&root, "/job").unwrap();
        assert_eq!((found.limit_bytes, found.used_bytes, found.cache_bytes), (Some(800), Some(600), Some(50)));
        assert_eq!((found.swap_limit_bytes, found.swap_used_bytes), (Some(200), Some(50)));
        // In a container the group outside is not there, and its own stands in the place of the root.
        assert_eq!(of(&root, "/docker/0123").unwrap().used_bytes, Some(5000));
        assert_eq!(of(&root, "/../job").unwrap().used_bytes, Some(5000), "nothing is read outside");
    }

    #[test]
    fn without_control_groups_nothing_is_known() {
        assert_eq!(of(&tree(&[]), "/job"), None);
        assert_eq!(of(&tree(&[("cgroup.controllers", "cpu"), ("job/cpu.max", "max")]), "/job"), None);
        assert_eq!(of(&tree(&[("cgroup.controllers", ""), ("job/memory.current", "no number")]), "/job"), None);
    }
}
