//! What a process that waits in the kernel waits for: storage, another machine, or nothing but time.

use crate::base::clean::{clean, clip};
use crate::base::fs_kind::{is_remote, of_place};
use crate::observe::process::{Holder, Mount, Wait};

/// What the name of a worker of PyTorch's DataLoader begins with, from PyTorch 2.6 on. Before, it has that of its rank.
const LOADER: &str = "pt_data";

/// Calls that wait for a file system where they wait for anything.
const OF_STORAGE: &[&str] = &[
    "open",
    "openat",
    "stat",
    "lstat",
    "newfstatat",
    "statx",
    "statfs",
    "fstatfs",
    "pread64",
    "pwrite64",
    "preadv",
    "pwritev",
    "fsync",
    "fdatasync",
    "sync_file_range",
    "syncfs",
    "msync",
    "fallocate",
    "ftruncate",
    "getdents",
    "getdents64",
    "flock",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "mkdir",
    "mkdirat",
    "copy_file_range",
];
const WRITES: &[&str] =
    &["write", "writev", "pwrite64", "pwritev", "fsync", "fdatasync", "sync_file_range", "syncfs", "msync", "fallocate"];
const OF_NETWORK: &[&str] = &["connect", "recvfrom", "recvmsg", "sendto", "sendmsg"];
/// Calls that wait for any of several: sockets, pipes, queues. Which ones is not seen.
const OF_ANY: &[&str] = &["poll", "ppoll", "select", "pselect6", "epoll_wait", "epoll_pwait", "epoll_pwait2"];
const OF_TIME: &[&str] = &["nanosleep", "clock_nanosleep"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WaitsFor {
    Storage,
    Network,
    Time,
    /// A lock, a queue, another process: what a rank does in a collective on the CPU, and a worker without work.
    Others,
}

impl Wait {
    /// What it waits for, as far as that can be seen.
    pub fn what(&self) -> WaitsFor {
        let call = self.call.as_deref().unwrap_or("");
        let file = self.file.as_deref().unwrap_or("");
        // Drivers sleep uninterrupted, too.
        let of_driver = call == "ioctl" || file.starts_with("/dev/");
        let in_file_system = self.place.as_deref().and_then(of_place).is_some();
        if in_file_system || !of_driver && (OF_STORAGE.contains(&call) || file.starts_with('/')) {
            WaitsFor::Storage
        } else if OF_NETWORK.contains(&call) || file.starts_with("socket:") {
            WaitsFor::Network
        } else if OF_TIME.contains(&call) {
            WaitsFor::Time
        } else {
            WaitsFor::Others
        }
    }

    /// It waits for somebody to send: in a call of sockets, or in one that waits for sockets, pipes or queues; or for the kernel to tell of
    /// something, as that a directory has a new file.
    pub fn is_for_a_message(&self) -> bool {
        let is_told = || self.reads() && self.file.as_deref().is_some_and(|file| file.starts_with("anon_inode:"));
        self.what() == WaitsFor::Network || self.call.as_deref().is_some_and(|call| OF_ANY.contains(&call)) || is_told()
    }

    fn reads(&self) -> bool {
        matches!(self.call.as_deref(), Some("read" | "readv"))
    }

    /// It waits for a program that is none of its own to open the other end of a pipe, or to give a file's lease back, or for a key.
    pub fn is_for_a_stranger(&self) -> bool {
        matches!(self.place.as_deref(), Some("wait_for_partner" | "__break_lease")) || self.reads_a_terminal() || self.reads_a_named_pipe()
    }

    /// It waits for a key.
    pub fn reads_a_terminal(&self) -> bool {
        self.reads() && self.file.as_deref().is_some_and(|file| file.starts_with("/dev/pts/") || file.starts_with("/dev/tty"))
    }

    /// It reads what another program writes into a pipe that has a name.
    pub fn reads_a_named_pipe(&self) -> bool {
        let is_pipe = self.place.as_deref().is_some_and(|place| place.contains("pipe_read"));
        self.reads() && is_pipe && self.file.as_deref().is_some_and(|file| file.starts_with('/'))
    }

    /// It waits for that, for a lock of a file, or for the end of a process: no request and no batch comes by any of these.
    pub fn is_held(&self) -> bool {
        let for_an_end = matches!(self.call.as_deref(), Some("wait4" | "waitid"));
        self.is_for_a_stranger() || self.is_for_a_file_lock() || for_an_end
    }

    /// It has made a process, and may not go on before that has become another program or ended (vfork, posix_spawn): state D, and no disk.
    pub fn is_for_a_child(&self) -> bool {
        const PLACES: &[&str] = &["kernel_clone", "wait_for_vfork_done", "_do_fork", "do_fork"];
        self.state == Some('D') && self.place.as_deref().is_some_and(|place| PLACES.contains(&place))
    }

    /// Nothing is computed, moved or counted down while it waits: the same, or for another thread, or for what comes or goes by a pipe.
    pub fn is_standstill(&self) -> bool {
        let from_pipe = || self.file.as_deref().is_some_and(|file| file.starts_with("pipe:"));
        self.is_held()
            || self.is_for_a_child()
            || match self.call.as_deref() {
                Some("read" | "readv" | "write" | "writev") => from_pipe(),
                Some("futex") => self.in_gloo != Some(true),
                _ => false,
            }
    }

    pub fn writes(&self) -> bool {
        self.call.as_deref().is_some_and(|call| WRITES.contains(&call))
    }

    /// Something of where it waits could be read.
    pub fn is_seen(&self) -> bool {
        self.call.is_some() || self.place.is_some()
    }

    /// It loads data for the rank that `own` is of.
    pub fn is_loader_of(&self, own: &Wait) -> bool {
        self.pid != own.pid && (self.comm.starts_with(LOADER) || self.comm == own.comm)
    }

    /// It serves, and nobody has called: no rank waits for it.
    pub fn listens(&self) -> bool {
        matches!(self.call.as_deref(), Some("accept" | "accept4"))
    }

    /// It calls itself a worker of a DataLoader.
    pub fn says_loader(&self) -> bool {
        self.comm.starts_with(LOADER)
    }

    /// ` of 10.0.0.7:443`
    pub fn peer_words(&self) -> String {
        self.peer.as_deref().map_or(String::new(), |peer| format!(" of {}", clean(peer)))
    }

    /// `, which pid 4711 (python) holds`
    fn holder_words(&self) -> String {
        let Some(Holder { pid, comm, ended, others }) = self.holder.as_ref() else { return String::new() };
        if *pid == self.pid {
            return ", which it holds itself".into();
        }
        if *ended {
            return format!(", which pid {pid} took; it has ended, and a child of it still has the file open");
        }
        let name = comm.as_deref().map_or(String::new(), |comm| format!(" ({})", clean(comm)));
        match others {
            0 => format!(", which pid {pid}{name} holds"),
            n => format!(", which pid {pid}{name} and {n} more hold"),
        }
    }

    /// `openat (wait_for_partner)`, `recvfrom of 10.0.0.7:443`, `read of /data/part-07.tar on /data (nfs4 from filer:/vol7)`
    pub fn words(&self) -> String {
        const MOST: usize = 120;
        let call = self.call.as_deref().map_or("the kernel".into(), clean);
        let file = match self.file.as_deref() {
            // inotify(7): the descriptor has no path.
            Some(file) if file.starts_with("anon_inode:") && file.contains("inotify") => Some("inotify, which tells of new files"),
            file => file.filter(|file| file.starts_with('/')),
        };
        let file = file.map_or(String::new(), |file| format!(" of {}", clip(&clean(file), MOST)));
        let place = match (&self.place, file.is_empty() || self.state == Some('D')) {
            (Some(place), true) => format!(" ({})", clean(place)),
            _ => String::new(),
        };
        // Where the name of a pipe lies has nothing to do with it: a process is to write to it, or to read.
        let is_pipe = self.place.as_deref().is_some_and(|place| place.contains("pipe_") || place == "wait_for_partner");
        let mount = self.mount.as_ref().filter(|_| !is_pipe).map_or(String::new(), |mount| format!(" on {}", mount_words(mount)));
        let pipe = if is_pipe && !file.is_empty() { ", a pipe" } else { "" };
        format!("{call}{file}{pipe}{}{place}{mount}{}", self.peer_words(), self.holder_words())
    }
}

/// `/data (nfs4 from filer:/vol7)`
pub fn mount_words(mount: &Mount) -> String {
    let from = if is_remote(&mount.fs) { "from" } else { "on" };
    format!("{} ({} {from} {})", clean(&mount.at), clean(&mount.fs), clean(&mount.source))
}

/// Several that wait for the same, in words, of which the first is described: `openat (wait_for_partner)`.
pub fn common<'a>(waits: impl Iterator<Item = &'a Wait>) -> Option<(usize, &'a Wait)> {
    let waits: Vec<&Wait> = waits.collect();
    let alike = |wait: &Wait| waits.iter().filter(|w| (&w.call, &w.place, &w.mount) == (&wait.call, &wait.place, &wait.mount)).count();
    let most = waits.iter().copied().rev().max_by_key(|wait| alike(wait))?;
    Some((waits.len(), most))
}
