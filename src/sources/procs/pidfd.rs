//! A handle on a process that outlives it, for those who are not its parent: it shows that the process is dead, and then how it ended.
//!
//! `pidfd_open` is of Linux 5.3 and asks for no permission; the descriptor becomes readable when the last thread is dead. The wait status
//! can be asked for from Linux 6.15 on, once the parent has reaped the process, whoever asks (`PIDFD_GET_INFO` with `PIDFD_INFO_EXIT`,
//! include/uapi/linux/pidfd.h and fs/pidfs.c).
#![allow(unsafe_code)]

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::ioctl::{Updater, ioctl, opcode};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::os::fd::OwnedFd;
use std::time::Duration;

#[derive(Debug)]
pub struct Pidfd(OwnedFd);

/// `struct pidfd_info` as far as its first 64 bytes (`PIDFD_INFO_SIZE_VER0`). The size is part of the ioctl's number; later kernels write
/// no more than the caller has room for.
#[repr(C)]
#[derive(Default)]
struct Info {
    /// What is asked for, and then what was answered.
    mask: u64,
    cgroupid: u64,
    /// pid, tgid, ppid, and four pairs of uid and gid.
    ids: [u32; 11],
    /// A wait status. Spare, and zero, before Linux 6.15.
    exit_code: i32,
}

const GET_INFO: rustix::ioctl::Opcode = opcode::read_write::<Info>(0xFF, 11);
const INFO_EXIT: u64 = 1 << 3;

/// What the kernel says of how a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Status {
    /// The wait status: exit code times 256, or the signal.
    Told(i32),
    /// Not yet: it lives, or nobody has reaped it.
    NotYet,
    /// It does not know: too old, or not of a process of this pid namespace.
    Never,
}

impl Pidfd {
    /// # Errors
    /// ESRCH: it is gone. ENOSYS, EPERM: no such call here. EMFILE: too many files are open.
    pub fn open(pid: u32) -> Result<Pidfd, Errno> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
        pidfd_open(pid, PidfdFlags::empty()).map(Pidfd)
    }

    pub fn is_dead(&self) -> bool {
        let mut fds = [PollFd::new(&self.0, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec::default())).is_ok_and(|n| n > 0) && fds[0].revents().contains(PollFlags::IN)
    }

    pub fn status(&self) -> Status {
        let mut info = Info { mask: INFO_EXIT, ..Info::default() };
        // SAFETY: the descriptor is a pidfd, and the number is that of PIDFD_GET_INFO for a struct of the size of `Info`. The kernel reads
        // `mask` and writes at most those 64 bytes, which are valid numbers whatever they hold.
        match unsafe { ioctl(&self.0, Updater::<GET_INFO, Info>::new(&mut info)) } {
            Ok(()) if info.mask & INFO_EXIT != 0 => Status::Told(info.exit_code),
            Ok(()) => Status::NotYet,
            Err(_) => Status::Never,
        }
    }
}

/// Blocks until one of them dies or `timeout` has passed. Is one dead?
pub fn wait<'a>(pidfds: impl Iterator<Item = &'a Pidfd>, timeout: Duration) -> bool {
    let mut fds: Vec<PollFd<'a>> = pidfds.map(|p| PollFd::new(&p.0, PollFlags::IN)).collect();
    if fds.is_empty() {
        std::thread::sleep(timeout);
        return false;
    }
    let timeout = Timespec { tv_sec: i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX), tv_nsec: timeout.subsec_nanos().into() };
    poll(&mut fds, Some(&timeout)).is_ok_and(|n| n > 0)
}

#[cfg(test)]
#[test]
fn the_request_is_that_of_the_kernels_header() {
    assert_eq!((size_of::<Info>(), std::mem::offset_of!(Info, exit_code)), (64, 60));
    // _IOWR(0xFF, 11, 64 bytes)
    assert_eq!(GET_INFO as u64 & 0xFFFF_FFFF, 3 << 30 | 64 << 16 | 0xFF << 8 | 11);
}
