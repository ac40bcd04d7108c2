//! Who holds a lock of a file that another process waits for: `/proc/locks`, which the kernel writes for everybody.

use super::bounded;
use super::read::Reader;
use crate::observe::process::Holder;
use rustix::process::{Pid, test_kill_process};

const MAX_CHARS: usize = 64;

/// `fd` is the open file whose lock is waited for. `None`: the kernel does not list it. Locks of another namespace of processes, and those that
/// a server of files keeps, are not there.
pub fn holder(reader: &mut Reader, waits: u32, fd: Option<u64>) -> Option<Holder> {
    // Linux 5.14 and later.
    let inode = fd.and_then(|fd| inode_of(reader.read(waits, &format!("fdinfo/{fd}")).ok()?));
    let (pid, others) = held_by(&reader.roots().table("/proc/locks").ok()?, waits, inode)?;
    let comm = reader.read(pid, "comm").ok().map(|comm| bounded(comm.trim_ascii(), MAX_CHARS));
    // Another user's process may be hidden, and is there nevertheless.
    let is_gone = || {
        let known = i32::try_from(pid).ok().and_then(Pid::from_raw);
        known.is_some_and(|known| test_kill_process(known) == Err(rustix::io::Errno::SRCH))
    };
    let ended = comm.is_none() && reader.roots().is_live() && is_gone();
    Some(Holder { pid, comm, ended, others })
}

/// `ino:\t131` of /proc/PID/fdinfo/FD.
fn inode_of(info: &[u8]) -> Option<u64> {
    let info = std::str::from_utf8(info).ok()?;
    info.lines().find_map(|line| line.strip_prefix("ino:"))?.trim().parse().ok()
}

/// A line of /proc/locks.
struct Row<'a> {
    no: &'a str,
    waits: bool,
    pid: i64,
    inode: Option<u64>,
}

impl Row<'_> {
    /// Kind, whether it is advisory, what for, whose, and of which file: -1 is whose a lock of an open file is, which belongs to no process.
    fn of(line: &str) -> Option<Row<'_>> {
        let mut words = line.split_ascii_whitespace().peekable();
        let no = words.next()?;
        let waits = words.next_if_eq(&"->").is_some();
        let of_process = matches!(words.next()?, "FLOCK" | "POSIX");
        let pid = words.nth(2)?.parse().ok().filter(|_| of_process).unwrap_or(-1);
        let inode = words.next().and_then(|file| file.rsplit(':').next()?.parse().ok());
        Some(Row { no, waits, pid, inode })
    }
}

/// The process that holds what `waits` waits for, and how many more do. A lock has a line, and below it one for each process that waits for it,
/// which repeats its number:
///
/// ```text
/// 7: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF
/// 7: -> FLOCK  ADVISORY  WRITE 4712 fe:00:131 0 EOF
/// ```
fn held_by(text: &str, waits: u32, inode: Option<u64>) -> Option<(u32, u32)> {
    let rows: Vec<Row> = text.lines().filter_map(Row::of).collect();
    let is_it = |row: &&Row| row.waits && row.pid == i64::from(waits) && (inode.is_none() || row.inode == inode);
    let mut waiting = rows.iter().filter(is_it);
    // Threads of one process may wait for several.
    let row = waiting.next().filter(|row| waiting.all(|other| other.inode == row.inode))?;
    let holders: Vec<&Row> = rows.iter().filter(|held| !held.waits && held.inode == row.inode && held.pid > 0).collect();
    let first = holders.iter().find(|held| held.no == row.no)?;
    Some((u32::try_from(first.pid).ok()?, u32::try_from(holders.len() - 1).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_waits_is_listed_below_who_holds() {
        let text = "1: FLOCK  ADVISORY  WRITE 4711 fe:00:131 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 4712 fe:00:131 0 EOF\n\
                    1:  -> FLOCK  ADVISORY  WRITE 4713 fe:00:131 0 EOF\n2: POSIX  ADVISORY  READ 800 00:2d:12 0 EOF\n\
                    3: OFDLCK ADVISORY  WRITE -1 fe:00:9 0 EOF\n3: -> OFDLCK ADVISORY  WRITE -1 fe:00:9 0 EOF\n\
                    4: FLOCK  ADVISORY  WRITE 900 fe:00:132 0 EOF\n4: -> FLOCK  ADVISORY  WRITE 4711 fe:00:132 0 EOF\n";
        let by = |waits: u32| held_by(text, waits, None).map(|(pid, _)| pid);
        assert_eq!([by(4712), by(4713), by(4711), by(900)], [Some(4711), Some(4711), Some(900), None]);
        let itself = "1: FLOCK  ADVISORY  WRITE 7 fe:00:131 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 7 fe:00:131 0 EOF\n";
        assert_eq!(held_by(itself, 7, Some(131)), Some((7, 0)), "by another open file");
        assert_eq!(held_by("1: FLOCK", 1, None), None);
    }

    /// Two threads of a process wait for two locks; two processes share one.
    #[test]
    fn the_file_tells_which_lock_is_meant() {
        let text = "1: FLOCK  ADVISORY  WRITE 30 fe:00:2 0 EOF\n1: -> FLOCK  ADVISORY  WRITE 9 fe:00:2 0 EOF\n\
                    2: FLOCK  ADVISORY  READ 31 fe:00:1 0 EOF\n2: -> FLOCK  ADVISORY  WRITE 9 fe:00:1 0 EOF\n\
                    3: FLOCK  ADVISORY  READ 32 fe:00:1 0 EOF\n";
        assert_eq!(held_by(text, 9, Some(1)), Some((31, 1)));
        assert_eq!(held_by(text, 9, Some(2)), Some((30, 0)));
        assert_eq!(held_by(text, 9, None), None, "which of them is not known");
        assert_eq!(inode_of(b"pos:\t0\nflags:\t0100002\nmnt_id:\t30\nino:\t131\n"), Some(131));
    }
}
