//! What NCCL's RAS service answers, in JSON (2.28.7 and newer) or as text (2.24 and newer), as one report. Reads no socket and knows
//! no clock; judges nothing.

pub mod diagnostics;
mod json;
mod text;

use std::collections::BTreeMap;

/// One answer. What a format does not tell is empty or `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasReport {
    /// `2.28.9`
    pub nccl_version: Option<String>,
    /// In JSON every communicator; in text only those with something to report.
    pub comms: Vec<RasComm>,
    /// The table of the text report: communicators by shape and status. Empty in JSON.
    pub groups: Vec<RasGroup>,
    /// Text: processes that gave nothing, and how many there are, which may be more than are listed.
    pub missing_processes: RasProcesses,
    /// Text: processes that RAS has given up (unreachable for 60 s). In JSON see [`RasMissing::considered_dead`].
    pub dead_processes: RasProcesses,
    /// How often RAS itself waited in vain while it gathered this.
    pub timeouts_count: u64,
    pub collection_time_s: Option<f64>,
}

/// A communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasComm {
    /// `commId` of the Init lines.
    pub hash: u64,
    pub size: Option<u32>,
    pub nnodes: Option<u32>,
    /// Ranks that answered. Empty in text: see `spreads`.
    pub ranks: Vec<RasRank>,
    /// Ranks that did not. Text lists them only when they are few.
    pub missing: Vec<RasMissing>,
    /// How many did not, at least.
    pub missing_count: u32,
    /// What ranks disagree about, as the text report says it. Empty in JSON: see [`RasComm::op_counts`].
    pub spreads: Vec<RasSpread>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasRank {
    pub rank: u32,
    pub place: RasPlace,
    /// ncclResult: 0 is done, 7 in progress, anything else an error.
    pub init_state: i32,
    pub async_error: i32,
    pub finalized: bool,
    pub destroyed: bool,
    pub aborted: bool,
    /// Operations launched so far.
    pub counts: BTreeMap<Collective, u64>,
}

/// A rank of a communicator of which RAS has nothing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasMissing {
    pub rank: u32,
    pub place: RasPlace,
    /// Its process does not answer. `Some(false)`: it does, but no longer (or not yet) belongs to the communicator.
    pub unresponsive: Option<bool>,
    pub considered_dead: Option<bool>,
}

/// Where a rank runs, as far as RAS knows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasPlace {
    /// An IP address, not a name.
    pub host: Option<String>,
    /// In the process's own PID namespace.
    pub pid: Option<u32>,
    /// Index after CUDA_VISIBLE_DEVICES.
    pub cuda_dev: Option<u32>,
    pub nvml_dev: Option<u32>,
}

/// A row of the communicators table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasGroup {
    pub group: u32,
    pub comms: u32,
    pub nodes_per_comm: u32,
    pub ranks_per_comm: u32,
    /// Ranks of the whole group that answered.
    pub ranks_in_group: u32,
    /// `RUNNING`
    pub status: String,
    /// `OK`, or of `INCOMPLETE`, `ERROR`, `MISMATCH`, joined by commas.
    pub errors: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasProcesses {
    pub count: u32,
    pub listed: Vec<RasProcess>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct RasProcess {
    pub pid: u32,
    pub host: String,
    /// CUDA indices.
    pub gpus: Vec<u32>,
}

/// One thing about which the ranks of a communicator differ, or some of them complain.
#[derive(Clone, Debug, PartialEq)]
pub struct RasSpread {
    pub of: SpreadOf,
    pub parts: Vec<RasPart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpreadOf {
    /// Operations launched; `None` before NCCL 2.26, which counted all collectives together.
    Count(Option<Collective>),
    Status,
    InitError,
    AsyncError,
}

/// Ranks that agree.
#[derive(Clone, Debug, PartialEq)]
pub struct RasPart {
    pub value: PartValue,
    pub rank_count: u32,
    /// Who they are, unless they are too many to be listed.
    pub ranks: Vec<(u32, RasPlace)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartValue {
    /// Has launched up to this operation; 0 is none.
    Count(u64),
    /// `RUNNING`, or `Unhandled CUDA error`.
    Said(String),
}

/// The operations that RAS counts. Send, Recv and what is built from them are not among them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collective {
    Broadcast,
    Reduce,
    AllGather,
    ReduceScatter,
    AllReduce,
}

impl Collective {
    pub const ALL: [Collective; 5] =
        [Collective::Broadcast, Collective::Reduce, Collective::AllGather, Collective::ReduceScatter, Collective::AllReduce];

    pub fn as_str(self) -> &'static str {
        match self {
            Collective::Broadcast => "Broadcast",
            Collective::Reduce => "Reduce",
            Collective::AllGather => "AllGather",
            Collective::ReduceScatter => "ReduceScatter",
            Collective::AllReduce => "AllReduce",
        }
    }

    pub fn named(name: &str) -> Option<Collective> {
        Collective::ALL.into_iter().find(|op| op.as_str() == name)
    }
}

impl RasRank {
    /// Of all kinds.
    pub fn operations(&self) -> u64 {
        self.counts.values().fold(0, |sum, count| sum.saturating_add(*count))
    }
}

impl RasPart {
    /// There are more of them than are listed.
    pub fn has_unlisted(&self) -> bool {
        self.ranks.len() < self.rank_count as usize
    }
}

impl RasComm {
    /// Ranks that it lists, each as often as it does.
    pub fn members(&self) -> usize {
        let listed: usize = self.spreads.iter().flat_map(|spread| &spread.parts).map(|part| part.ranks.len()).sum();
        self.ranks.len() + self.missing.len() + listed
    }

    /// The ranks by their count of `op`, the furthest behind first. From either format; empty where text reports no difference.
    pub fn op_counts(&self, op: Collective) -> Vec<RasPart> {
        let mut parts: Vec<RasPart> = match self.spreads.iter().find(|spread| spread.of == SpreadOf::Count(Some(op))) {
            Some(spread) => spread.parts.clone(),
            None => {
                let mut by_count: BTreeMap<u64, Vec<(u32, RasPlace)>> = BTreeMap::new();
                for rank in &self.ranks {
                    if let Some(&count) = rank.counts.get(&op) {
                        by_count.entry(count).or_default().push((rank.rank, rank.place.clone()));
                    }
                }
                let part =
                    |(count, ranks): (u64, Vec<_>)| RasPart { value: PartValue::Count(count), rank_count: ranks.len() as u32, ranks };
                by_count.into_iter().map(part).collect()
            }
        };
        parts.sort_by_key(|part| match part.value {
            PartValue::Count(count) => count,
            PartValue::Said(_) => u64::MAX,
        });
        parts
    }
}

/// Why an answer is no report.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RasError {
    #[error("the answer is empty")]
    Empty,
    #[error("RAS answered {0:?}")]
    Refused(String),
    #[error("the answer is not a RAS report; it begins {0:?}")]
    NotAReport(String),
    #[error("the answer is cut off: {0}")]
    CutOff(String),
    #[error("this NCCL has no diagnostics: they are there from NCCL 2.31 on")]
    NoDiagnostics,
    #[error("the answer is not the JSON that NCCL prints: {0}")]
    Json(String),
}

/// Reads an answer, with or without the lines of the protocol before it.
///
/// # Errors
/// The answer is no report, or not a whole one.
pub fn parse(reply: &str) -> Result<RasReport, RasError> {
    let (report, refusal) = without_chatter(reply);
    match report.as_bytes().first() {
        Some(b'{') => json::parse(report),
        Some(_) if report.starts_with("NCCL version ") => text::parse(report),
        Some(_) => Err(RasError::NotAReport(report.chars().take(60).collect())),
        None => Err(refusal.map_or(RasError::Empty, |line| RasError::Refused(line.chars().take(200).collect()))),
    }
}

/// The report, and the last line with which the service refused something.
pub(crate) fn without_chatter(reply: &str) -> (&str, Option<&str>) {
    let mut rest = reply.trim_start();
    let mut refusal = None;
    loop {
        let (line, after) = rest.split_once('\n').unwrap_or((rest, ""));
        match line.trim_end() {
            "OK" => {}
            // A server that does not know a command echoes it and goes on.
            line if line.starts_with("ERROR:") => refusal = Some(line),
            line if line.starts_with("SERVER PROTOCOL ") => {}
            _ => return (rest, refusal),
        }
        rest = after.trim_start();
    }
}
