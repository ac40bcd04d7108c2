//! Text from outside: logs, kernel log, RAS answers. Hostile: it may hold anything, and it is kept as it came, bounded, until
//! `crate::logs` reads it.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// A log file, when found and whenever its identity changes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LogFileInfo {
    /// Small number that [`Lines::file`] refers to; unique on a tape.
    pub file: u32,
    pub path: String,
    pub state: LogFileState,
    pub inode: Option<u64>,
    pub device: Option<u64>,
    /// Bytes at that moment.
    pub size_bytes: Option<u64>,
    /// Last modification, nanoseconds since the Unix epoch.
    pub modified_ns: Option<i64>,
    /// When it was made, nanoseconds since the Unix epoch (`statx`, `stx_btime`). Not every file system keeps it.
    pub made_ns: Option<i64>,
    /// Bytes at the start of the file that were not read, because only the end was asked for.
    pub skipped_bytes: Option<u64>,
    pub detail: Option<String>,
    /// The processes that write it, seen by its open descriptors, with those before them in a pipeline, above and below them. Empty:
    /// nobody is seen. `None`: not looked for, or it is written for processes out of sight, as by a container runtime.
    pub written_by: Option<Vec<u32>>,
    /// It was written before and is read as a whole: what its lines report is judged in the order in which they were written.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub archived: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum LogFileState {
    #[default]
    Open,
    /// Another file now has the path; reading goes on at its start.
    Rotated,
    /// The file became shorter; reading goes on at its start.
    Truncated,
    /// Nothing has the path.
    Gone,
    /// It cannot be read; `detail` says why.
    #[serde(other)]
    Failed,
}

/// New lines of one file, in order.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Lines {
    pub file: u32,
    pub lines: Vec<Line>,
    /// Lines read and left out because there were too many: none of them WARN or worse.
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_lines: u64,
    #[serde(skip_serializing_if = "is_zero")]
    pub dropped_bytes: u64,
    /// Lines that are WARN or worse and were counted, but left out because equal ones came with them. Old recordings count here, too,
    /// what is `alarms_left_out` now.
    #[serde(skip_serializing_if = "is_zero")]
    pub folded_alarms: u64,
    /// Lines that are WARN or worse and were left out because too many different ones came with them. Errors give way to errors only.
    #[serde(skip_serializing_if = "is_zero")]
    pub alarms_left_out: u64,
    /// The lines were in the file before the program looked: their time is not the time of reading.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backlog: bool,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Line {
    /// From 1, counted in the file as it was read; `None` when the start was skipped or lines before it were not counted.
    pub no: Option<u64>,
    /// Byte offset of the line's start in the file.
    pub offset: u64,
    /// The bytes as lossy UTF-8, without NUL and line end, cut at 64 KiB.
    pub text: String,
    /// It ended in `\r`: the next one overwrites it on a terminal.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub transient: bool,
}

/// One question to NCCL's RAS service and its answer.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RasAnswer {
    /// `127.0.0.1:28028`
    pub address: String,
    /// What came back, whole, or up to the cut.
    pub reply: String,
    /// `json`, `text`
    pub format: String,
    pub took_ms: f64,
    /// Connection refused, timed out, cut off; the reply may still hold a part.
    pub error: Option<String>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct KernelLine {
    /// syslog priority & 7: 0 emerg to 7 debug.
    pub level: u8,
    /// Microseconds since boot (CLOCK_MONOTONIC), as the kernel stamps it.
    pub uptime_us: Option<u64>,
    pub text: String,
    /// It was in the buffer before the program looked.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub backlog: bool,
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}
