//! Who still has a file open for writing, by `/proc/PID/fd`, as far as this user may see.

use super::open::{Inode, inode_of};
use std::collections::HashSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A link of `/proc/PID/fd` is writable by its owner if the file is open for writing.
const WRITES: u32 = 0o200;

/// Those of `files` that a process below `proc` may write to.
pub(super) fn held(proc: &Path, files: &HashSet<Inode>) -> HashSet<Inode> {
    let processes = fs::read_dir(proc).into_iter().flatten().filter_map(Result::ok);
    let is_process = |name: &str| name.bytes().all(|b| b.is_ascii_digit());
    let tables = processes.filter(|entry| entry.file_name().to_str().is_some_and(is_process)).map(|entry| entry.path().join("fd"));
    let links = tables.filter_map(|fd| fs::read_dir(fd).ok()).flatten().filter_map(Result::ok).map(|entry| entry.path());
    let files = links
        .filter(|link| may_be_log(link))
        .filter_map(|link| Some(inode_of(&fs::metadata(link).ok()?)))
        .filter(|inode| files.contains(inode));
    files.collect()
}

/// Asks the file system about nothing but what is open for writing and has a path: one that hangs would keep us, too.
fn may_be_log(link: &Path) -> bool {
    let is_written = fs::symlink_metadata(link).is_ok_and(|meta| meta.mode() & WRITES != 0);
    is_written && fs::read_link(link).is_ok_and(|target| target.is_absolute() && !target.starts_with("/dev"))
}
