//! Asks ranks for their Flight Recorder through the pipes that PyTorch makes for that (`TORCH_NCCL_DEBUG_INFO_PIPE_FILE`), only when the
//! user has seen them and said yes. The rank reads whatever comes as the wish for a dump, writes its file, and goes on.

use super::py_spy::{Target, still_runs};
use crate::base::words::{io_words, shell_word};
use rustix::fs::OFlags;
use std::ffi::OsStr;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// In the environment: what the pipe's name begins with. Behind it stand the rank and `.pipe` (ProcessGroupNCCL.hpp, DumpPipe).
const VARIABLE: &[u8] = b"TORCH_NCCL_DEBUG_INFO_PIPE_FILE=";
const MAX_ENVIRON: u64 = 1 << 20;

/// The pipe of a rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pipe {
    pub target: Target,
    /// As this program can open it.
    pub path: PathBuf,
}

/// The pipes that are there of those that these ranks were started with. Reads /proc.
pub fn find(ranks: Vec<Target>) -> Vec<Pipe> {
    let pipe = |target: Target| {
        let path = path_of(target.whose.pid, target.whose.rank?)?;
        let is_pipe = path.symlink_metadata().is_ok_and(|meta| meta.file_type().is_fifo());
        is_pipe.then_some(Pipe { target, path })
    };
    ranks.into_iter().filter_map(pipe).collect()
}

fn path_of(pid: u32, rank: u32) -> Option<PathBuf> {
    let mut environ = Vec::new();
    std::fs::File::open(format!("/proc/{pid}/environ")).ok()?.take(MAX_ENVIRON).read_to_end(&mut environ).ok()?;
    let stem = environ.split(|b| *b == 0).find_map(|entry| entry.strip_prefix(VARIABLE)).filter(|stem| !stem.is_empty())?;
    let name = [stem, format!("{rank}.pipe").as_bytes()].concat();
    let path = Path::new(OsStr::from_bytes(&name));
    let Ok(below) = path.strip_prefix("/") else { return Some(PathBuf::from(format!("/proc/{pid}/cwd")).join(path)) };
    // In a container it is in its file system.
    let inside = PathBuf::from(format!("/proc/{pid}/root")).join(below);
    let place = |path: &Path| path.symlink_metadata().ok().map(|meta| (meta.dev(), meta.ino()));
    if place(path).is_some() && place(path) == place(&inside) { Some(path.to_owned()) } else { Some(inside) }
}

/// What is done, as a shell would take it.
pub fn command(pipes: &[Pipe]) -> String {
    let paths: Vec<String> = pipes.iter().map(|pipe| shell_word(&pipe.path.to_string_lossy())).collect();
    format!("for p in {}; do timeout 2 sh -c 'echo 1 > \"$0\"' \"$p\"; done", paths.join(" "))
}

/// Writes into a pipe. Never waits for a reader.
///
/// # Errors
/// It is no pipe of the rank any more, or nobody reads it.
pub fn ask(pipe: &Pipe) -> Result<(), String> {
    if !still_runs(&pipe.target) {
        return Err("its process has ended".into());
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW).bits();
    let is_pipe = |meta: std::fs::Metadata| meta.file_type().is_fifo();
    if !pipe.path.symlink_metadata().is_ok_and(is_pipe) {
        return Err("it is no pipe".into());
    }
    let opened = OpenOptions::new().write(true).custom_flags(flags as i32).open(&pipe.path);
    let mut file = opened.map_err(|err| match err.raw_os_error() {
        Some(libc::ENXIO) => "nobody reads it: was it started with TORCH_NCCL_TRACE_BUFFER_SIZE?".to_owned(),
        _ => io_words(&err),
    })?;
    if !file.metadata().is_ok_and(is_pipe) {
        return Err("it is no pipe".into());
    }
    file.write_all(b"1\n").map_err(|err| io_words(&err))
}

/// How it went, in a line.
pub fn summary(asked: &[(Pipe, Result<(), String>)]) -> String {
    let done = asked.iter().filter(|(_, result)| result.is_ok()).count();
    let failed = asked.iter().find_map(|(pipe, result)| Some((pipe, result.as_ref().err()?)));
    let why = failed.map_or(String::new(), |(pipe, why)| format!("; {}: {why}", pipe.path.display()));
    format!("{done} of {} ranks asked for their Flight Recorder; the dumps appear among the sources{why}", asked.len())
}
