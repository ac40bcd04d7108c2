//! Everything that is reported about one process, read at once. What may not be read is named, not guessed.

use super::process_table::SRUN;
use super::read::{Reader, is_gone};
use super::stat::{self, Stat, Status};
use super::{environ, output_files, pods, setup};
use crate::base::mask;
use crate::base::words::io_words;
use crate::observe::process::{ProcessInfo, ProcessRole};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

const MAX_ARGS: usize = 64;
const MAX_ARG_CHARS: usize = 256;
/// A job script may come as one argument of a megabyte.
const MAX_MASKED_CHARS: usize = 4096;

/// `None`: it is gone.
pub fn of(reader: &mut Reader, pid: u32, role: ProcessRole) -> Option<ProcessInfo> {
    let mut info = ProcessInfo { pid, role, ..ProcessInfo::default() };
    let stat = Stat::parse(reader.read(pid, "stat").ok()?)?;
    (info.ppid, info.start_ticks) = (stat.ppid, stat.start_ticks);
    info.comm = super::printable(stat.comm);
    info.cmdline = reader.read(pid, "cmdline").map(shown_arguments).unwrap_or_default();
    let status = reader.read(pid, "status").map(Status::parse).unwrap_or_default();
    info.uid = status.uid.or_else(|| Some(std::fs::metadata(reader.path(pid, "")).ok()?.uid()))?;
    info.ns_pid = status.ns_pid;
    info.cgroup = reader.read(pid, "cgroup").ok().and_then(stat::cgroup);
    let pod = info.cgroup.as_deref().and_then(|cgroup| pods::of(reader.roots(), cgroup));
    let cwd = std::fs::read_link(reader.path(pid, "cwd"));
    info.cwd = told("cwd", cwd, &mut info.hidden).map(|path| super::printable(path.as_os_str().as_bytes()));
    let output = output_files::output(reader, pid);
    info.logs = told("fd", output, &mut info.hidden).unwrap_or_default();
    if let Some((pod, container)) = pod {
        // The output of a container is a pipe to its runtime, which writes it to a file.
        if info.logs.iter().any(|log| log.inode.is_none()) {
            info.logs.extend(container.and_then(|container| pods::log(&container)));
        }
        info.pod = Some(pod);
    }
    info.setup = Some(setup::of(&reader.path(pid, "")));
    let io = reader.read(pid, "io").map(drop);
    told("io", io, &mut info.hidden);
    let raw = reader.read(pid, "environ").map(<[u8]>::to_vec);
    if let Some(raw) = told("environ", raw, &mut info.hidden) {
        info.env = Some(environ::shown(&raw));
        if info.logs.iter().all(|log| log.inode.is_none()) {
            info.logs.extend(output_files::batch_output(reader, pid, info.start_ticks, &raw));
        }
        info.logs.extend(output_files::nccl_debug_file(reader, pid, status.ns_pid.unwrap_or(pid), &raw));
    }
    if role == ProcessRole::Launcher {
        if info.comm.as_bytes() == SRUN {
            info.logs.extend(output_files::written(reader, pid));
        }
    } else {
        info.logs.extend(output_files::metrics(reader, pid, info.start_ticks));
    }
    Some(info)
}

/// Was the environment kept from us?
pub fn is_hidden(info: &ProcessInfo) -> bool {
    info.hidden.iter().any(|what| what.starts_with("environ:"))
}

fn told<T>(file: &str, result: io::Result<T>, hidden: &mut Vec<String>) -> Option<T> {
    match result {
        Ok(value) => Some(value),
        Err(err) if is_gone(&err) => None,
        Err(err) => {
            hidden.push(format!("{file}: {}", io_words(&err)));
            None
        }
    }
}

/// The first arguments as they are, for recognising programs. Never shown.
pub fn raw_arguments(raw: &[u8]) -> Vec<String> {
    split(raw).take(16).map(|arg| String::from_utf8_lossy(arg).into_owned()).collect()
}

/// Masked before cut: half a secret is a secret too.
fn shown_arguments(raw: &[u8]) -> Vec<String> {
    let args: Vec<String> = split(raw).take(MAX_ARGS).map(|arg| super::bounded(arg, MAX_MASKED_CHARS)).collect();
    mask::arguments(&args).into_iter().map(|arg| super::bounded(arg.as_bytes(), MAX_ARG_CHARS)).collect()
}

fn split(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    let end = raw.iter().rposition(|b| *b != 0).map_or(0, |last| last + 1);
    raw[..end].split(|b| *b == 0).filter(move |_| end > 0)
}
