//! What PyTorch's Flight Recorder wrote down of one rank's collectives (torch 2.2 and newer), and what the dumps of all ranks say
//! together: who did not join, and who called something else. Bytes in, structures out: reads no file and knows no clock.

mod compare;
mod difference;
mod op;
mod pickle;
mod schema;
mod tally;
mod tree;
mod waits;

pub use compare::{GroupState, Judgement, Progress, judge};
pub use difference::{FlightFinding, FlightKind, Late, OrderSide, Seen, Side};
pub use op::Op;

use std::collections::BTreeMap;
use std::sync::Arc;

/// What one rank's process wrote. What a version of torch does not write is empty or `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dump {
    /// `2.10` is (2, 10). Torch 2.2 writes none.
    pub version: Option<(u32, u32)>,
    /// `pg_config`: process groups by name, those that this rank has used.
    pub groups: BTreeMap<String, Group>,
    /// `pg_status`, by the `pg_id` of this process.
    pub status: BTreeMap<u64, Status>,
    /// The oldest first.
    pub entries: Vec<Entry>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    pub desc: Option<Arc<str>>,
    /// Global ranks, in the order of their ranks inside the group.
    pub ranks: Arc<[u32]>,
}

/// The last collective of a group that this rank has put in line, begun and ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Status {
    pub enqueued: Option<u64>,
    /// Known only with `TORCH_NCCL_ENABLE_TIMING`.
    pub started: Option<u64>,
    pub completed: Option<u64>,
}

/// Sizes of each tensor. Shared by the entries of a dump that have the same.
pub type Sizes = Arc<[Arc<[i64]>]>;

/// One call.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Entry {
    pub record_id: Option<u64>,
    pub pg_id: Option<u64>,
    /// The name of its process group.
    pub group: Option<Arc<str>>,
    pub group_desc: Option<Arc<str>>,
    /// Counts the collectives of the group. All calls of a coalesced block have the same.
    pub seq: Option<u64>,
    pub p2p_seq: Option<u64>,
    /// `nccl:all_reduce`, `nccl:send 0->1`
    pub name: Arc<str>,
    /// When it was called.
    pub created_ns: Option<u64>,
    pub started_ns: Option<u64>,
    pub completed_ns: Option<u64>,
    pub input_sizes: Sizes,
    pub output_sizes: Sizes,
    pub input_dtypes: Arc<[Arc<str>]>,
    pub output_dtypes: Arc<[Arc<str>]>,
    pub state: Option<State>,
    /// The watchdog no longer looks at it: it has ended or timed out.
    pub retired: Option<bool>,
    pub timeout_ms: Option<u64>,
    pub is_p2p: bool,
    /// Where it was called, the innermost first.
    pub frames: Arc<[Arc<Frame>]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Scheduled,
    Started,
    Completed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The function.
    pub name: Arc<str>,
    pub file: Arc<str>,
    pub line: u64,
}

/// Why bytes are no dump.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DumpError {
    #[error("the file is empty: its process may have died before it wrote, or still be writing")]
    Empty,
    #[error("{0} bytes are more than a Flight Recorder dump has; 256 MiB are read")]
    TooLarge(usize),
    #[error("neither a pickle nor JSON; it begins {0:?}")]
    Unrecognised(String),
    #[error("cut off after {at} bytes: its process may have died while it wrote, or still be writing")]
    CutOff { at: usize },
    #[error("refused: at byte {at} it would {} ({opcode}); a Flight Recorder dump never does", deed(.calls.as_deref()))]
    Refused { at: usize, opcode: &'static str, calls: Option<String> },
    #[error("not a dump: byte {at} is no opcode of plain data ({byte:#04x})")]
    UnknownOpcode { at: usize, byte: u8 },
    #[error("not a dump: at byte {at}, {what}")]
    Malformed { at: usize, what: &'static str },
    #[error("not the JSON of a dump: {0}")]
    Json(String),
    #[error("no Flight Recorder dump: {0}")]
    NotADump(&'static str),
}

fn deed(calls: Option<&str>) -> String {
    calls.map_or("import, call or build something".into(), |name| format!("call {name}"))
}

/// More are not read.
const MAX_BYTES: usize = 256 << 20;

/// Reads a dump, pickle or JSON.
///
/// # Errors
/// The bytes are no dump, not a whole one, or a pickle that would call something.
pub fn read(bytes: &[u8]) -> Result<Dump, DumpError> {
    if bytes.is_empty() {
        return Err(DumpError::Empty);
    }
    if bytes.len() > MAX_BYTES {
        return Err(DumpError::TooLarge(bytes.len()));
    }
    let (tree, root) = if pickle::looks_like(bytes) {
        pickle::read(bytes)?
    } else if matches!(bytes.trim_ascii_start().first(), Some(b'{' | b'[')) {
        tree::from_json(bytes)?
    } else if bytes == [0x80] {
        return Err(DumpError::CutOff { at: 1 });
    } else {
        let begin = &bytes[..bytes.len().min(40)];
        return Err(DumpError::Unrecognised(String::from_utf8_lossy(begin).into_owned()));
    };
    schema::dump(&tree, root)
}

/// The first bytes are worth [`read`]ing.
pub fn looks_like(bytes: &[u8]) -> bool {
    let has = |word: &[u8]| memchr::memmem::find(bytes, word).is_some();
    pickle::looks_like(bytes) || bytes.trim_ascii_start().starts_with(b"{") && (has(b"\"entries\"") || has(b"\"pg_config\""))
}

/// The rank that torch puts at the end of the name: 12 of `nccl_trace_rank_12`, 3 of `fr_3.pickle.gz`.
pub fn rank_of_name(file_name: &str) -> Option<u32> {
    let mut stem = file_name.rsplit(['/', '\\']).next()?;
    while let Some((front, "gz" | "json" | "pickle" | "pkl" | "bin" | "zst")) = stem.rsplit_once('.') {
        stem = front;
    }
    let digits = stem.len() - stem.bytes().rev().take_while(u8::is_ascii_digit).count();
    stem[digits..].parse().ok()
}
