//! Reads small files of /proc into one buffer that is used again and again.

use crate::base::file;
use crate::sources::Roots;
use std::collections::BTreeSet;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

pub struct Reader {
    roots: Roots,
    buf: Vec<u8>,
}

/// Environments of batch jobs reach hundreds of KiB; nothing else here comes near.
const LIMIT: u64 = 1 << 20;
/// More than the tables of one process.
const PIECE: usize = 4096;
/// Files of /proc/PID that end with a line and come as a whole.
const WHOLE: &[&str] = &["stat", "status", "io"];

impl Reader {
    pub fn new(roots: Roots) -> Self {
        Reader { roots, buf: Vec::with_capacity(16 << 10) }
    }

    pub fn roots(&self) -> &Roots {
        &self.roots
    }

    pub fn path(&self, pid: u32, file: &str) -> PathBuf {
        self.roots.path(format!("/proc/{pid}/{file}"))
    }

    pub fn read(&mut self, pid: u32, name: &str) -> io::Result<&[u8]> {
        self.buf.clear();
        let mut file = file::open_at_once(&self.path(pid, name))?;
        let mut piece = [0; PIECE];
        let n = file.read(&mut piece)?;
        self.buf.extend_from_slice(&piece[..n]);
        // Asking for their end would cost as much again. What has many records comes in pieces of whole lines: `mountinfo`, `net/tcp`.
        let is_whole = WHOLE.iter().any(|whole| name.ends_with(whole)) && n < PIECE && piece[..n].ends_with(b"\n");
        if !is_whole {
            file.take(LIMIT).read_to_end(&mut self.buf)?;
        }
        Ok(&self.buf)
    }

    /// The sockets that a process has open, by inode; of one with very many, only some.
    pub fn sockets(&self, pid: u32) -> BTreeSet<u64> {
        const MAX_FDS: usize = 4096;
        let names = std::fs::read_dir(self.path(pid, "fd")).into_iter().flatten().flatten().take(MAX_FDS);
        let targets = names.filter_map(|entry| std::fs::read_link(entry.path()).ok());
        targets.filter_map(|target| target.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok()).collect()
    }

    pub fn uptime_ticks(&self) -> Option<u64> {
        let text = self.roots.table("/proc/uptime").ok()?;
        let secs: f64 = text.split_whitespace().next()?.parse().ok()?;
        Some((secs * 100.0) as u64)
    }

    /// The newest process of this pid namespace: the last word of /proc/loadavg. `None` below another root, where it does not tell.
    pub fn last_pid(&self) -> Option<u32> {
        let text = std::fs::read_to_string("/proc/loadavg").ok().filter(|_| self.roots.is_live())?;
        text.split_whitespace().last()?.parse().ok()
    }

    /// A path of a process as this host can open it: its root and its working directory may not be ours.
    pub fn seen_by(&self, pid: u32, path: &Path) -> Option<PathBuf> {
        match path.strip_prefix("/") {
            Ok(below) => Some(self.root_of(pid).map_or_else(|| self.roots.path(path), |root| root.join(below))),
            Err(_) => Some(self.path(pid, "cwd").read_link().ok()?.join(path)),
        }
    }

    /// The root of a process that sees another file system than we do.
    fn root_of(&self, pid: u32) -> Option<PathBuf> {
        let root = self.path(pid, "root");
        if self.roots.is_live() {
            let space = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt")).ok();
            let same = space(&pid.to_string()) == space("self") && root.read_link().is_ok_and(|root| root == Path::new("/"));
            return (!same && root.metadata().is_ok()).then_some(root);
        }
        root.metadata().is_ok().then_some(root)
    }

    /// All process numbers.
    pub fn pids(&self) -> io::Result<Vec<u32>> {
        let names = std::fs::read_dir(self.roots.path("/proc"))?;
        Ok(names.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
    }
}

/// The process left while it was being read: no error, only a race.
pub fn is_gone(err: &io::Error) -> bool {
    const ESRCH: i32 = 3;
    err.kind() == io::ErrorKind::NotFound || err.raw_os_error() == Some(ESRCH)
}
