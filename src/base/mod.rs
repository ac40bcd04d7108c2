//! What everything may use, and what uses nothing of this program: time, units, words, sanitising, thresholds, what machines have.

pub mod agent;
pub mod allocator;
pub mod bandwidth;
pub mod clean;
pub mod exit_code;
pub mod file;
pub mod fs_kind;
pub mod limit;
pub mod mask;
pub mod platforms;
pub mod port_counters;
pub mod severity;
pub mod time;
pub mod units;
pub mod words;
