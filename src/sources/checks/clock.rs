//! What the kernel knows of its clock. Unsafe code; decides nothing.
#![allow(unsafe_code)]

use crate::observe::facts::ClockState;
use std::mem;

/// adjtimex(2) without a change to make: reads. `None` where it is forbidden (seccomp).
pub(super) fn state() -> Option<ClockState> {
    // SAFETY: a struct of integers, for which zero is a value; with `modes` 0 the kernel only fills it.
    let mut timex: libc::timex = unsafe { mem::zeroed() };
    // SAFETY: a pointer to an initialised struct that outlives the call.
    let state = unsafe { libc::adjtimex(&mut timex) };
    (state >= 0).then(|| ClockState {
        unsynchronised: timex.status & libc::STA_UNSYNC != 0,
        estimated_error_us: u64::try_from(timex.esterror).unwrap_or(0),
        maximum_error_us: u64::try_from(timex.maxerror).unwrap_or(0),
    })
}
