//! Where a process waits in the kernel: the system call that it is in, the kernel's function, the file and the mount that it is about.
//!
//! Nothing here may wait itself: what a link below /proc/PID/fd points to is read, the file is never asked for anything, because the
//! server behind it may be what does not answer.

use super::read::Reader;
use super::stat::Stat;
use super::{bounded, locks, printable, sockets};
use crate::base::fs_kind::{LOCAL, of_place, same_kind};
use crate::observe::process::{Mount, Wait};
use std::os::unix::ffi::OsStrExt;

/// Helpers of one rank that are looked at: loaders have up to 16 workers, and all wait for the same.
const MAX_HELPERS: usize = 8;
const MAX_CHARS: usize = 256;
/// A rank has hundreds of threads.
const MAX_THREADS: usize = 512;
/// PyTorch (2.5 and later) runs Gloo's collectives in threads of this name; some builds (2.8 of PyPI) give them no name.
const GLOO_THREAD: &[u8] = b"pt_gloo_runloop";
const FUTEX: &str = "futex";
/// FUTEX_CLOCK_REALTIME, futex(2).
const CLOCK_OF_THE_DAY: u64 = 0x100;
/// Mounts of one namespace: nodes with many containers have thousands, of which few are network file systems.
const MAX_MOUNTS: usize = 4096;

/// System calls that may wait, by number. What is not listed has no name.
#[cfg(target_arch = "x86_64")]
const CALLS: &[(u64, &str)] = &[
    (0, "read"),
    (1, "write"),
    (2, "open"),
    (3, "close"),
    (4, "stat"),
    (5, "fstat"),
    (6, "lstat"),
    (7, "poll"),
    (9, "mmap"),
    (16, "ioctl"),
    (17, "pread64"),
    (18, "pwrite64"),
    (19, "readv"),
    (20, "writev"),
    (23, "select"),
    (26, "msync"),
    (35, "nanosleep"),
    (40, "sendfile"),
    (42, "connect"),
    (43, "accept"),
    (44, "sendto"),
    (45, "recvfrom"),
    (46, "sendmsg"),
    (47, "recvmsg"),
    (61, "wait4"),
    (72, "fcntl"),
    (73, "flock"),
    (74, "fsync"),
    (75, "fdatasync"),
    (77, "ftruncate"),
    (78, "getdents"),
    (82, "rename"),
    (83, "mkdir"),
    (87, "unlink"),
    (137, "statfs"),
    (138, "fstatfs"),
    (202, "futex"),
    (208, "io_getevents"),
    (217, "getdents64"),
    (230, "clock_nanosleep"),
    (232, "epoll_wait"),
    (247, "waitid"),
    (257, "openat"),
    (258, "mkdirat"),
    (262, "newfstatat"),
    (263, "unlinkat"),
    (264, "renameat"),
    (270, "pselect6"),
    (271, "ppoll"),
    (277, "sync_file_range"),
    (281, "epoll_pwait"),
    (285, "fallocate"),
    (288, "accept4"),
    (295, "preadv"),
    (296, "pwritev"),
    (306, "syncfs"),
    (316, "renameat2"),
    (326, "copy_file_range"),
    (332, "statx"),
    (426, "io_uring_enter"),
    (441, "epoll_pwait2"),
];

/// System calls that may wait, by number. What is not listed has no name.
#[cfg(not(target_arch = "x86_64"))]
const CALLS: &[(u64, &str)] = &[
    (4, "io_getevents"),
    (22, "epoll_pwait"),
    (25, "fcntl"),
    (29, "ioctl"),
    (32, "flock"),
    (34, "mkdirat"),
    (35, "unlinkat"),
    (38, "renameat"),
    (43, "statfs"),
    (44, "fstatfs"),
    (46, "ftruncate"),
    (47, "fallocate"),
    (56, "openat"),
    (57, "close"),
    (61, "getdents64"),
    (63, "read"),
    (64, "write"),
    (65, "readv"),
    (66, "writev"),
    (67, "pread64"),
    (68, "pwrite64"),
    (69, "preadv"),
    (70, "pwritev"),
    (71, "sendfile"),
    (72, "pselect6"),
    (73, "ppoll"),
    (79, "newfstatat"),
    (80, "fstat"),
    (82, "fsync"),
    (83, "fdatasync"),
    (84, "sync_file_range"),
    (95, "waitid"),
    (98, "futex"),
    (101, "nanosleep"),
    (115, "clock_nanosleep"),
    (202, "accept"),
    (203, "connect"),
    (206, "sendto"),
    (207, "recvfrom"),
    (211, "sendmsg"),
    (212, "recvmsg"),
    (222, "mmap"),
    (227, "msync"),
    (242, "accept4"),
    (260, "wait4"),
    (267, "syncfs"),
    (276, "renameat2"),
    (285, "copy_file_range"),
    (291, "statx"),
    (426, "io_uring_enter"),
    (441, "epoll_pwait2"),
];

/// Calls whose first argument is a descriptor.
const OF_A_FILE: &[&str] = &[
    "read",
    "write",
    "close",
    "fstat",
    "ioctl",
    "pread64",
    "pwrite64",
    "readv",
    "writev",
    "sendfile",
    "connect",
    "accept",
    "accept4",
    "sendto",
    "recvfrom",
    "sendmsg",
    "recvmsg",
    "fcntl",
    "flock",
    "fsync",
    "fdatasync",
    "ftruncate",
    "getdents",
    "getdents64",
    "fstatfs",
    "sync_file_range",
    "fallocate",
    "preadv",
    "pwritev",
    "syncfs",
];

/// A process and those of its helpers that tell most: who is in state D first.
pub fn look(reader: &mut Reader, pid: u32, helpers: &[u32]) -> Vec<Wait> {
    let mut mounts = None;
    let mut waits: Vec<Wait> = of_process(reader, pid, &mut mounts).into_iter().collect();
    if let Some(own) = waits.first_mut().filter(|own| own.call.as_deref() == Some(FUTEX)) {
        own.in_gloo = in_gloo(reader, pid);
    }
    if let Some(own) = waits.first_mut() {
        own.peer = own.file.as_deref().and_then(|file| sockets::peer(reader, pid, file));
    }
    let mut state = |pid: &u32| reader.read(*pid, "stat").ok().and_then(Stat::parse).map(|stat| stat.state);
    let mut by_state: Vec<(bool, u32)> = helpers.iter().filter_map(|pid| Some((state(pid)? != 'D', *pid))).collect();
    by_state.sort_unstable();
    waits.extend(by_state.iter().take(MAX_HELPERS).filter_map(|(_, helper)| of_process(reader, *helper, &mut mounts)));
    waits
}

/// `None`: it is gone, or dead. What may not be read is not told.
fn of_process(reader: &mut Reader, pid: u32, mounts: &mut Option<Vec<Mount>>) -> Option<Wait> {
    let stat = Stat::parse(reader.read(pid, "stat").ok()?)?;
    if stat.is_dead() {
        return None;
    }
    let mut wait = Wait { pid, comm: printable(stat.comm), state: Some(stat.state), ..Wait::default() };
    let call = reader.read(pid, "syscall").ok().and_then(Call::parse);
    wait.call = call.as_ref().and_then(|call| call.name).map(str::to_owned);
    wait.place = place(reader, pid);
    let fd = call.filter(|call| call.name.is_some_and(|name| OF_A_FILE.contains(&name))).map(|call| call.first);
    wait.file = fd.and_then(|fd| {
        let target = std::fs::read_link(reader.path(pid, &format!("fd/{fd}"))).ok()?;
        Some(bounded(target.as_os_str().as_bytes(), MAX_CHARS))
    });
    if wait.state == Some('D') || wait.file.as_ref().is_some_and(|file| file.starts_with('/')) {
        let mounts = mounts.get_or_insert_with(|| reader.read(pid, "mountinfo").map(parse_mounts).unwrap_or_default());
        wait.mount = mount_of(&wait, mounts).cloned();
    }
    if wait.is_for_a_file_lock() {
        wait.holder = locks::holder(reader, pid, fd);
    }
    Some(wait)
}

fn mount_of<'a>(wait: &Wait, mounts: &'a [Mount]) -> Option<&'a Mount> {
    if let Some(file) = wait.file.as_deref().filter(|file| file.starts_with('/')) {
        return mounts.iter().filter(|mount| is_below(file, &mount.at)).max_by_key(|mount| mount.at.len());
    }
    let kind = of_place(wait.place.as_deref()?)?;
    let mut of_kind = mounts.iter().filter(|mount| same_kind(kind, &mount.fs));
    of_kind.next().filter(|_| of_kind.next().is_none())
}

fn is_below(file: &str, dir: &str) -> bool {
    dir == "/" || file.strip_prefix(dir).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// Whether one of Gloo's threads, or a receive in the first thread, waits for another rank. Both do so with a timeout, by the clock of the day
/// in the first thread, where Python's own locks with a timeout use another clock. `None`: there are no such threads, or they have no name and
/// none of them waits so.
fn in_gloo(reader: &mut Reader, pid: u32) -> Option<bool> {
    let tids = std::fs::read_dir(reader.path(pid, "task")).ok()?.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let tids: Vec<u32> = tids.take(MAX_THREADS).collect();
    let is_gloos = |tid: &&u32| reader.read(pid, &format!("task/{tid}/comm")).is_ok_and(|comm| comm.trim_ascii() == GLOO_THREAD);
    let threads: Vec<u32> = tids.iter().filter(is_gloos).copied().collect();
    let mut call = |tid: u32| reader.read(pid, &format!("task/{tid}/syscall")).ok().and_then(Call::parse);
    let waits = |call: &Call, clock: u64| call.name == Some(FUTEX) && call.timeout != 0 && call.second & clock == clock;
    if threads.is_empty() {
        // Gloo's own thread stands in epoll_wait meanwhile, but for the moments in which it looks around, a hundred times a second.
        let others: Vec<u32> = tids.iter().filter(|tid| **tid != pid).copied().collect();
        let polls = (0..3)
            .any(|_| others.iter().any(|tid| call(*tid).is_some_and(|call| call.name.is_some_and(|name| name.starts_with("epoll_")))));
        return (polls && others.iter().any(|tid| call(*tid).is_some_and(|call| waits(&call, CLOCK_OF_THE_DAY)))).then_some(true);
    }
    let in_thread = threads.iter().any(|tid| call(*tid).is_some_and(|call| waits(&call, 0)));
    Some(in_thread || call(pid).is_some_and(|call| waits(&call, CLOCK_OF_THE_DAY)))
}

/// What /proc/PID/syscall says.
#[derive(Debug, Default, PartialEq, Eq)]
struct Call {
    name: Option<&'static str>,
    /// Its first argument.
    first: u64,
    second: u64,
    /// The fourth argument: where `futex` has the address of its timeout.
    timeout: u64,
}

impl Call {
    /// `0 0x7 0x7f… …`, `-1 0x7ffd… 0x7f…` outside of any, `running`. `None`: it does not wait.
    fn parse(text: &[u8]) -> Option<Call> {
        let text = std::str::from_utf8(text).ok()?;
        let mut words = text.split_ascii_whitespace();
        let number: i64 = words.next()?.parse().ok()?;
        let mut argument = || words.next().and_then(|word| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok()).unwrap_or(0);
        let (first, second, _, timeout) = (argument(), argument(), argument(), argument());
        let name = match u64::try_from(number) {
            Ok(number) => CALLS.iter().find(|(no, _)| *no == number).map(|(_, name)| *name),
            Err(_) => Some("page fault"),
        };
        Some(Call { name, first, second, timeout })
    }
}

/// The function of the kernel that it sleeps in. The stack is for root, and its first function says less than those that called it
/// where that one only schedules.
fn place(reader: &mut Reader, pid: u32) -> Option<String> {
    let stack = reader.read(pid, "stack").ok().and_then(first_telling);
    stack.or_else(|| {
        let wchan = bounded(reader.read(pid, "wchan").ok()?.trim_ascii(), MAX_CHARS);
        (!wchan.is_empty() && wchan != "0").then_some(wchan)
    })
}

/// `[<0>] rpc_wait_bit_killable+0x1e/0xb0 [sunrpc]`: the first function that tells of a file system, else the first of all.
fn first_telling(stack: &[u8]) -> Option<String> {
    let stack = std::str::from_utf8(stack).ok()?;
    let function = |line: &str| {
        let (_, rest) = line.split_once("] ")?;
        Some(rest.split(['+', ' ', '.']).next()?.to_owned()).filter(|name| !name.is_empty())
    };
    let names: Vec<String> = stack.lines().take(32).filter_map(function).collect();
    // Pages and blocks are waited for on behalf of file systems of servers, too.
    let of_server = names.iter().find(|name| of_place(name).is_some_and(|kind| kind != LOCAL));
    of_server.or_else(|| names.iter().find(|name| of_place(name).is_some())).or(names.first()).cloned()
}

/// /proc/PID/mountinfo: later lines lie over earlier ones at the same place.
fn parse_mounts(text: &[u8]) -> Vec<Mount> {
    let mut mounts: Vec<Mount> = Vec::new();
    for line in String::from_utf8_lossy(text).lines().take(MAX_MOUNTS) {
        let Some((left, right)) = line.split_once(" - ") else { continue };
        let (Some(at), mut right) = (left.split(' ').nth(4), right.split(' ')) else { continue };
        let (Some(fs), Some(source)) = (right.next(), right.next()) else { continue };
        let text = |word: &str| bounded(unescaped(word).as_bytes(), MAX_CHARS);
        let mount = Mount { at: text(at), fs: text(fs), source: text(source) };
        mounts.retain(|known| known.at != mount.at);
        mounts.push(mount);
    }
    mounts
}

/// `\040` is a space.
fn unescaped(word: &str) -> String {
    [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")]
        .iter()
        .fold(word.to_owned(), |word, (from, to)| word.replace(from, to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_call_has_its_name_and_first_argument() {
        let (number, _) = CALLS.iter().find(|(_, name)| *name == "read").unwrap();
        let text = format!("{number} 0x7 0x7ffd 0x20000 0x0 0x0 0x0 0x7ffee 0x7f29\n");
        assert_eq!(Call::parse(text.as_bytes()), Some(Call { name: Some("read"), first: 7, second: 0x7ffd, timeout: 0 }));
        assert_eq!(Call::parse(b"-1 0x7ffee 0x7f29\n").and_then(|call| call.name), Some("page fault"));
        assert_eq!(Call::parse(b"running\n"), None);
        assert_eq!(Call::parse(b"99999 0x1\n").map(|call| call.name), Some(None));
        assert_eq!(Call::parse(b"\xff\n"), None);
    }

    #[test]
    fn the_stack_names_the_file_system_where_one_is_in_it() {
        let nfs = b"[<0>] rpc_wait_bit_killable+0x1e/0xb0 [sunrpc]\n[<0>] nfs_file_fsync+0x1/0x2 [nfs]\n";
        assert_eq!(first_telling(nfs).as_deref(), Some("rpc_wait_bit_killable"));
        let lustre = b"[<0>] folio_wait_bit_common+0x138/0x310\n[<0>] ll_file_read+0x1/0x2 [lustre]\n";
        assert_eq!(first_telling(lustre).as_deref(), Some("ll_file_read"));
        assert_eq!(first_telling(b"[<0>] poll_schedule_timeout.constprop.0+0x37/0x90\n").as_deref(), Some("poll_schedule_timeout"));
        assert_eq!(first_telling(b""), None);
    }

    #[test]
    fn the_mount_is_the_one_of_the_file_or_the_only_one_of_its_kind() {
        let text = b"22 1 8:1 / / rw - ext4 /dev/sda1 rw\n40 22 0:50 / /data\\040set rw shared:1 - nfs4 filer:/vol7 rw,vers=4.2\n";
        let mounts = parse_mounts(text);
        let by_file = Wait { file: Some("/data set/part-07.tar".into()), ..Wait::default() };
        assert_eq!(mount_of(&by_file, &mounts).map(|m| m.source.as_str()), Some("filer:/vol7"));
        let by_place = Wait { place: Some("rpc_wait_bit_killable".into()), ..Wait::default() };
        assert_eq!(mount_of(&by_place, &mounts).map(|m| m.at.as_str()), Some("/data set"));
        let elsewhere = Wait { file: Some("/data settings/x".into()), ..Wait::default() };
        assert_eq!(mount_of(&elsewhere, &mounts).map(|m| m.fs.as_str()), Some("ext4"));
        assert_eq!(mount_of(&Wait { place: Some("futex_wait_queue".into()), ..Wait::default() }, &mounts), None);
    }
}
