//! Where a process writes: the directories of files that it has open for writing. Looked at only while it writes much, because a rank
//! has hundreds of files open.

use super::read::Reader;
use crate::observe::process::WrittenDir;
use std::fs::Metadata;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// After so many bytes that it wrote, its files are looked at again. Logs take minutes for that, a checkpoint a moment.
pub const MUCH_BYTES: u64 = 32 << 20;
/// Directories of one process.
const MAX_DIRS: usize = 8;
/// Open files of one process that are looked at.
const MAX_FILES: usize = 1024;
/// O_ACCMODE, open(2).
const ACCESS_MODE: u32 = 0o3;

/// Adds directories that are not known yet.
pub fn look(reader: &mut Reader, pid: u32, dirs: &mut Vec<WrittenDir>) {
    let Ok(fds) = std::fs::read_dir(reader.path(pid, "fd")) else { return };
    for fd in fds.flatten().take(MAX_FILES) {
        if dirs.len() >= MAX_DIRS {
            return;
        }
        let Ok(target) = std::fs::read_link(fd.path()) else { continue };
        let Some(path) = target.parent().filter(|_| target.starts_with("/")) else { continue };
        let path = super::printable(path.as_os_str().as_bytes());
        if dirs.iter().any(|dir| dir.path == path) || !is_written(reader, pid, &fd.file_name()) {
            continue;
        }
        // stat follows the link to the open file itself.
        if let Some(file) = super::ask::metadata(&fd.path()).ok().filter(Metadata::is_file) {
            dirs.push(WrittenDir { path, device: file.dev() });
        }
    }
}

/// Whether it is open for writing.
pub fn is_written(reader: &mut Reader, pid: u32, fd: &std::ffi::OsStr) -> bool {
    access(reader, pid, fd).is_some_and(|mode| mode != 0)
}

/// Whether it is open for writing alone, as logs are.
pub fn is_only_written(reader: &mut Reader, pid: u32, fd: &std::ffi::OsStr) -> bool {
    const WRITE_ONLY: u32 = 0o1;
    access(reader, pid, fd) == Some(WRITE_ONLY)
}

fn access(reader: &mut Reader, pid: u32, fd: &std::ffi::OsStr) -> Option<u32> {
    let info = Path::new("fdinfo").join(fd);
    let info = reader.read(pid, &info.to_string_lossy()).ok()?;
    flags(info).map(|flags| flags & ACCESS_MODE)
}

/// `flags:\t0100001`, in octal, of /proc/PID/fdinfo/FD.
fn flags(info: &[u8]) -> Option<u32> {
    let line = info.split(|b| *b == b'\n').find_map(|line| line.strip_prefix(b"flags:"))?;
    u32::from_str_radix(std::str::from_utf8(line).ok()?.trim(), 8).ok()
}
