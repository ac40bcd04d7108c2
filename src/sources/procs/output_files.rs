//! Where the output of a process goes, and which log NCCL writes for it. Asks for names and inodes; opens nothing, because who reads
//! from a pipe steals from its reader.

use super::read::{Reader, is_gone};
use super::{ask, environ, writes};
use crate::observe::process::{LogVia, ProcessLog};
use crate::sources::files::MOST_ENTRIES;
use std::fs::Metadata;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// What fd 1 and 2 are.
///
/// # Errors
/// Only what is worth telling: that the links may not be read.
pub fn output(reader: &Reader, pid: u32) -> io::Result<Vec<ProcessLog>> {
    let mut logs = Vec::new();
    for (fd, via) in [("fd/1", LogVia::Stdout), ("fd/2", LogVia::Stderr)] {
        let magic = reader.path(pid, fd);
        match std::fs::read_link(&magic) {
            Ok(target) => logs.push(one_output(reader, via, &magic, &target)),
            // Closed, or the process left.
            Err(err) if is_gone(&err) => {}
            Err(err) => return Err(err),
        }
    }
    Ok(logs)
}

/// Files that a process writes besides its own output, such as those of `srun -o FILE` and `tee`.
pub fn written(reader: &mut Reader, pid: u32) -> Vec<ProcessLog> {
    /// It has a dozen of descriptors.
    const MAX_FDS: usize = 64;
    let fds = std::fs::read_dir(reader.path(pid, "fd")).into_iter().flatten().flatten().take(MAX_FDS);
    let mut logs = Vec::new();
    for fd in fds.filter(|fd| !matches!(fd.file_name().to_str(), Some("0" | "1" | "2"))) {
        if let Ok(target) = std::fs::read_link(fd.path())
            && target.starts_with("/")
            && writes::is_written(reader, pid, &fd.file_name())
        {
            let log = one_output(reader, LogVia::Stdout, &fd.path(), &target);
            logs.extend(Some(log).filter(|log| log.inode.is_some()));
        }
    }
    logs
}

/// `slurm-4711.out` in the directory that a batch job was submitted from: what sbatch calls its output by default, which a node that does not
/// run the script sees in no other way.
pub fn batch_output(reader: &Reader, pid: u32, start_ticks: u64, environ: &[u8]) -> Option<ProcessLog> {
    let number = |name: &str| Some(std::str::from_utf8(environ::variable(environ, name)?).ok()?.parse::<u64>().ok()?.to_string());
    let array = || Some(format!("{}_{}", number("SLURM_ARRAY_JOB_ID")?, number("SLURM_ARRAY_TASK_ID")?));
    let name = format!("slurm-{}.out", array().or_else(|| number("SLURM_JOB_ID"))?);
    let directory = Path::new(std::ffi::OsStr::from_bytes(environ::variable(environ, "SLURM_SUBMIT_DIR")?));
    let log = find_in_view(reader, pid, &directory.join(name))?;
    is_written_since(reader, &log, start_ticks).then_some(ProcessLog { via: LogVia::Stdout, ..log })
}

fn one_output(reader: &Reader, via: LogVia, magic: &Path, target: &Path) -> ProcessLog {
    // stat follows the link to the open file itself, even where its name is gone or belongs to another mount namespace.
    match ask::metadata(magic).ok().filter(Metadata::is_file) {
        None => ProcessLog { via, path: super::printable(target.as_os_str().as_bytes()), inode: None, device: None },
        Some(open) => {
            let named = [target.to_path_buf(), reader.roots().path(target)];
            let path = named.into_iter().find(|path| is_same(path, &open)).unwrap_or_else(|| magic.to_path_buf());
            regular(via, path, magic, &open)
        }
    }
}

/// `NCCL_DEBUG_FILE` as NCCL itself expands it, if that file is there by now.
pub fn nccl_debug_file(reader: &Reader, pid: u32, ns_pid: u32, environ: &[u8]) -> Option<ProcessLog> {
    let pattern = environ::variable(environ, "NCCL_DEBUG_FILE").filter(|pattern| !pattern.is_empty())?;
    // A container has a name of its own, which only its processes know.
    let host = reader.roots().table("/proc/sys/kernel/hostname").unwrap_or_default();
    let pod = environ::variable(environ, "HOSTNAME").unwrap_or_default();
    [host.as_bytes().trim_ascii(), pod].into_iter().find_map(|host| {
        let name = expand(pattern, host, ns_pid);
        let relative = Path::new(std::ffi::OsStr::from_bytes(&name));
        find_in_view(reader, pid, relative)
    })
}

/// Looks for a file by the name that the process gives it: its root and working directory may not be ours.
fn find_in_view(reader: &Reader, pid: u32, name: &Path) -> Option<ProcessLog> {
    let (theirs, ours) = match name.strip_prefix("/") {
        Ok(below) => (reader.path(pid, "root").join(below), reader.roots().path(name)),
        Err(_) => {
            let cwd = reader.path(pid, "cwd");
            (cwd.join(name), std::fs::read_link(&cwd).ok()?.join(name))
        }
    };
    let at = |path: &PathBuf| ask::metadata(path).ok().filter(Metadata::is_file);
    match at(&theirs) {
        Some(open) if is_same(&ours, &open) => Some(regular(LogVia::NcclDebugFile, ours, &theirs, &open)),
        Some(open) => Some(regular(LogVia::NcclDebugFile, theirs.clone(), &theirs, &open)),
        None => at(&ours).map(|open| regular(LogVia::NcclDebugFile, ours.clone(), &ours, &open)),
    }
}

/// The newest `metrics.csv` of Lightning's CSVLogger below the working directory, where this process may have written it: its logger
/// does not keep it open.
pub fn metrics(reader: &Reader, pid: u32, start_ticks: u64) -> Option<ProcessLog> {
    let logs = reader.path(pid, "cwd").join("lightning_logs");
    let version = |entry: std::fs::DirEntry| entry.file_name().to_str()?.strip_prefix("version_")?.parse::<u32>().ok();
    let newest = std::fs::read_dir(logs).ok()?.take(MOST_ENTRIES).flatten().filter_map(version).max()?;
    let log = find_in_view(reader, pid, &Path::new("lightning_logs").join(format!("version_{newest}/metrics.csv")))?;
    is_written_since(reader, &log, start_ticks).then_some(ProcessLog { via: LogVia::Other, ..log })
}

/// So long nothing has come out of a process whose own files are looked at for its log.
const SILENT: Duration = Duration::from_secs(10);

/// Whether nothing has come out of a process for a while, or nothing that can be seen, though it has run for as long.
pub fn is_silent(reader: &Reader, start_ticks: u64, logs: &[ProcessLog]) -> bool {
    let runs = reader.uptime_ticks().map(|now| now.saturating_sub(start_ticks) / 100);
    if runs.is_none_or(|s| s < SILENT.as_secs()) {
        return false;
    }
    let is_old = |log: &ProcessLog| {
        let written = ask::metadata(Path::new(&log.path)).and_then(|found| found.modified());
        written.is_ok_and(|at| SystemTime::now().duration_since(at).is_ok_and(|age| age >= SILENT))
    };
    logs.iter().filter(|log| log.inode.is_some()).all(is_old)
}

/// The log that a program keeps of its own, as `logging.FileHandler` does: a text file that it has open for writing, and that is called a log.
pub fn own_logs(reader: &mut Reader, pid: u32, start_ticks: u64, known: &[ProcessLog]) -> Vec<ProcessLog> {
    /// Logs are opened before what a rank opens by the hundred.
    const MAX_FDS: usize = 96;
    const MOST: usize = 2;
    let fds = std::fs::read_dir(reader.path(pid, "fd")).into_iter().flatten().flatten().take(MAX_FDS);
    let mut logs: Vec<ProcessLog> = Vec::new();
    for fd in fds {
        let Some(target) = std::fs::read_link(fd.path()).ok().filter(|target| is_called_a_log(target)) else { continue };
        if !writes::is_only_written(reader, pid, &fd.file_name()) {
            continue;
        }
        let log = one_output(reader, LogVia::Other, &fd.path(), &target);
        let is_known = known.iter().chain(&logs).any(|other| (other.device, other.inode) == (log.device, log.inode));
        if log.inode.is_some() && !is_known && is_written_since(reader, &log, start_ticks) {
            logs.push(log);
        }
        if logs.len() == MOST {
            break;
        }
    }
    logs
}

/// `outputs/train.log`, `log.txt`, `metrics_0.jsonl`; not what trackers keep for themselves, nor what a model wrote.
fn is_called_a_log(path: &Path) -> bool {
    const OF_TRACKERS: &[&str] = &["wandb", "mlruns", ".neptune", ".cache", "ray"];
    const LOGS: &[&str] = &["log", "logs", "train", "training", "metrics"];
    const MADE: &[&str] =
        &["sample", "samples", "generation", "generations", "rollout", "rollouts", "predictions", "output", "outputs", "data"];
    let is_trackers = path.iter().any(|part| OF_TRACKERS.iter().any(|name| part == *name));
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default().to_ascii_lowercase();
    let has = |words: &[&str]| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|word| words.contains(&word));
    let text = [".txt", ".out", ".jsonl", ".csv"].iter().any(|end| name.ends_with(end));
    path.starts_with("/") && !is_trackers && !has(MADE) && (name.ends_with(".log") || text && has(LOGS))
}

/// Whether anything was written to it since a process began.
pub fn is_written_since(reader: &Reader, log: &ProcessLog, start_ticks: u64) -> bool {
    let since = || {
        let runs_for = Duration::from_millis(reader.uptime_ticks()?.saturating_sub(start_ticks).saturating_mul(10));
        SystemTime::now().checked_sub(runs_for)
    };
    let written = ask::metadata(Path::new(&log.path)).and_then(|found| found.modified());
    written.is_ok_and(|written| since().is_some_and(|since| written >= since))
}

fn expand(pattern: &[u8], host: &[u8], pid: u32) -> Vec<u8> {
    let mut name = Vec::with_capacity(pattern.len() + 16);
    let mut rest = pattern.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            name.push(byte);
            continue;
        }
        match rest.next() {
            Some(b'h') => name.extend(host.split(|b| *b == b'.').next().unwrap_or_default()),
            Some(b'p') => name.extend(pid.to_string().bytes()),
            Some(b'%') => name.push(b'%'),
            Some(other) => name.extend([b'%', other]),
            None => name.push(b'%'),
        }
    }
    name
}

fn is_same(path: &Path, open: &Metadata) -> bool {
    path.to_str().is_some() && ask::metadata(path).is_ok_and(|found| (found.dev(), found.ino()) == (open.dev(), open.ino()))
}

fn regular(via: LogVia, path: PathBuf, otherwise: &Path, open: &Metadata) -> ProcessLog {
    let path = path.to_str().unwrap_or_else(|| otherwise.to_str().unwrap_or_default()).to_owned();
    ProcessLog { via, path, inode: Some(open.ino()), device: Some(open.dev()) }
}
