//! Who still has a file open for writing, by `/proc/PID/fd`, as far as this user may see.

use super::open::{Inode, inode_of};
use crate::sources::procs::stat::Stat;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A link of `/proc/PID/fd` is writable by its owner if the file is open for writing.
const WRITES: u32 = 0o200;
/// So many programs of a pipeline, and so many processes above each, are named.
const LEVELS: usize = 8;
const MOST_BELOW: usize = 1024;
/// What writes a log for processes that cannot be seen from it: those in a container, or on another node.
const CARRIERS: &[&str] = &[
    "containerd",
    "containerd-shim",
    "dockerd",
    "docker",
    "conmon",
    "crio",
    "podman",
    "kubelet",
    "kubectl",
    "ssh",
    "sshd",
    "sshd-session",
    "srun",
    "slurmstepd",
    "mpirun",
    "mpiexec",
    "prted",
    "orted",
    "rsyslogd",
];

/// Those of `files` that a process below `proc` may write to.
pub(super) fn held(proc: &Path, files: &HashSet<Inode>) -> HashSet<Inode> {
    let links = processes(proc).filter_map(|(_, fd)| fs::read_dir(fd).ok()).flatten().filter_map(Result::ok);
    links.filter_map(|entry| written(&entry.path())).filter(|inode| files.contains(inode)).collect()
}

/// The processes that write to each of `files`: who has it open, what that one has started, who feeds it through pipes
/// (`torchrun | tee FILE`), and the parents of all. Empty where nobody is seen; a file that is written for processes out of sight is
/// left out.
pub(super) fn writers(proc: &Path, files: &HashSet<Inode>) -> HashMap<Inode, BTreeSet<u32>> {
    let mut holders: HashMap<Inode, BTreeSet<u32>> = files.iter().map(|inode| (*inode, BTreeSet::new())).collect();
    let mut feeders: HashMap<PathBuf, Vec<u32>> = HashMap::new();
    let mut parents: BTreeMap<u32, u32> = BTreeMap::new();
    for (pid, fd) in processes(proc) {
        parents.extend(parent(proc, pid).map(|ppid| (pid, ppid)));
        for out in ["1", "2"] {
            if let Some(pipe) = pipe(&fd.join(out)) {
                feeders.entry(pipe).or_default().push(pid);
            }
        }
        for entry in fs::read_dir(fd).into_iter().flatten().filter_map(Result::ok) {
            if let Some(pids) = written(&entry.path()).and_then(|inode| holders.get_mut(&inode)) {
                pids.insert(pid);
            }
        }
    }
    holders.retain(|_, pids| !pids.iter().any(|pid| is_carrier(proc, *pid)));
    let above = |pid: u32| std::iter::successors(parents.get(&pid), |ppid| parents.get(ppid)).copied().take(LEVELS);
    for pids in holders.values_mut() {
        let below: Vec<u32> = parents.keys().copied().filter(|pid| above(*pid).any(|above| pids.contains(&above))).collect();
        add_pipeline(proc, &feeders, pids);
        pids.extend(pids.clone().into_iter().flat_map(above));
        pids.extend(below.into_iter().take(MOST_BELOW));
    }
    holders
}

fn processes(proc: &Path) -> impl Iterator<Item = (u32, PathBuf)> {
    let entries = fs::read_dir(proc).into_iter().flatten().filter_map(Result::ok);
    entries.filter_map(|entry| Some((entry.file_name().to_str()?.parse().ok()?, entry.path().join("fd"))))
}

fn add_pipeline(proc: &Path, feeders: &HashMap<PathBuf, Vec<u32>>, pids: &mut BTreeSet<u32>) {
    let mut last: Vec<u32> = pids.iter().copied().collect();
    for _ in 0..LEVELS {
        let pipes = last.iter().filter_map(|pid| pipe(&proc.join(format!("{pid}/fd/0"))));
        let before: BTreeSet<u32> = pipes.filter_map(|pipe| feeders.get(&pipe)).flatten().copied().collect();
        last = before.into_iter().filter(|pid| pids.insert(*pid)).collect();
    }
}

/// `None`: it has none but process 1.
fn parent(proc: &Path, pid: u32) -> Option<u32> {
    Some(Stat::parse(&fs::read(proc.join(format!("{pid}/stat"))).ok()?)?.ppid).filter(|ppid| *ppid > 1)
}

fn is_carrier(proc: &Path, pid: u32) -> bool {
    let comm = fs::read_to_string(proc.join(format!("{pid}/comm"))).unwrap_or_default();
    CARRIERS.contains(&comm.trim_end())
}

fn pipe(link: &Path) -> Option<PathBuf> {
    fs::read_link(link).ok().filter(|target| target.to_str().is_some_and(|target| target.starts_with("pipe:")))
}

/// The file that a link leads to. Asks the file system about nothing but what is open for writing and has a path: one that hangs would
/// keep us, too.
fn written(link: &Path) -> Option<Inode> {
    let is_written = fs::symlink_metadata(link).is_ok_and(|meta| meta.mode() & WRITES != 0);
    let is_file = is_written && fs::read_link(link).is_ok_and(|target| target.is_absolute() && !target.starts_with("/dev"));
    is_file.then(|| fs::metadata(link).ok().map(|meta| inode_of(&meta))).flatten()
}
