//! Lines about one communicator: its beginning, its layout, its end, and how long they took.

use super::types::{Ending, Timings};
use crate::logs::{Init, What};

pub(super) fn read(message: &str) -> Option<What> {
    timings(message).or_else(|| comm(message))
}

/// `… comm 0x… rank 3 nranks 8 … - Init COMPLETE`
fn comm(message: &str) -> Option<What> {
    // 2.29 and later begin a START with the rank.
    let message = match message.strip_prefix("[Rank ").and_then(|t| t.split_once("] ")) {
        Some((rank, tail)) if rank.bytes().all(|b| b.is_ascii_digit()) => tail,
        _ => message,
    };
    let at = message.find("comm 0x")?;
    if at > 0 && !message[..at].ends_with(' ') {
        return None;
    }
    let function = message[..at].trim_end();
    let named = function.starts_with("nccl") && function.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    if !function.is_empty() && !named {
        return None;
    }
    let (fields, state) = match message.rfind("- ").filter(|at| message[at + 2..].starts_with(|c: char| c.is_ascii_uppercase())) {
        Some(dash) => (&message[at..dash], message[dash + 2..].trim_end()),
        None => (&message[at..], ""),
    };
    let mut f = Fields::default();
    let mut words = fields.split_whitespace();
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        f.take(key, value)?;
    }
    let comm = f.comm?;
    let rank = f.rank?;
    let nranks = f.nranks.filter(|n| *n > rank && *n < 1 << 24)?;
    let (state, complete) = match state.split_once(", result ") {
        Some((state, _)) => (state, true),
        None => (state, state.ends_with(" COMPLETE")),
    };
    let ending = match state.split_once(' ').filter(|(_, t)| matches!(*t, "START" | "COMPLETE")) {
        Some(("Init", _)) => {
            return Some(What::Init(Init {
                comm,
                rank,
                nranks,
                cuda_dev: f.cuda_dev,
                nvml_dev: f.nvml_dev,
                bus_id: f.bus_id.map(bus_id),
                comm_id: f.comm_id,
                function: named.then(|| function.to_string()),
                parent: f.parent,
                color: f.color,
                complete,
            }));
        }
        Some(("Destroy", _)) => Some(Ending::Destroy),
        Some(("Abort", _)) => Some(Ending::Abort),
        Some(("Revoke", _)) => Some(Ending::Revoke),
        _ => None,
    };
    if let Some(how) = ending {
        return Some(if complete { What::CommEnded { comm, rank, nranks, how } } else { What::CommEnding { comm, rank, nranks, how } });
    }
    // The numbers before the last are whole.
    (state.is_empty() && f.local_rank.is_some())
        .then_some(What::Layout { rank, nranks, nnodes: f.nnodes?, local_ranks: f.local_ranks?, mnnvl: f.mnnvl })
        .filter(|_| f.local_ranks.is_some_and(|l| l > 0 && l <= nranks) && f.nnodes.is_some_and(|n| n > 0 && n <= nranks))
}

#[derive(Default)]
struct Fields {
    comm: Option<String>,
    parent: Option<String>,
    color: Option<i64>,
    rank: Option<u32>,
    nranks: Option<u32>,
    cuda_dev: Option<u32>,
    nvml_dev: Option<u32>,
    bus_id: Option<u64>,
    comm_id: Option<u64>,
    nnodes: Option<u32>,
    local_ranks: Option<u32>,
    local_rank: Option<u32>,
    mnnvl: Option<bool>,
}

impl Fields {
    /// `None` when a known field holds nonsense: then the line is torn.
    fn take(&mut self, key: &str, value: &str) -> Option<()> {
        let number = || value.parse::<u32>().ok();
        match key {
            "comm" => self.comm = Some(pointer(value)?),
            "parent" => self.parent = Some(pointer(value)?),
            "color" => self.color = Some(value.parse().ok()?),
            "rank" => self.rank = Some(number()?),
            "nranks" | "nRanks" => self.nranks = Some(number()?),
            "cudaDev" => self.cuda_dev = Some(number()?),
            "nvmlDev" => self.nvml_dev = Some(number()?),
            "busId" => self.bus_id = Some(u64::from_str_radix(value, 16).ok()?),
            "commId" => self.comm_id = Some(u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()?),
            "nNodes" => self.nnodes = Some(number()?),
            "localRanks" => self.local_ranks = Some(number()?),
            "localRank" => self.local_rank = Some(number()?),
            "MNNVL" => self.mnnvl = Some(number()? != 0),
            _ => {}
        }
        Some(())
    }
}

pub(super) fn pointer(value: &str) -> Option<String> {
    let hex = value.strip_prefix("0x")?;
    (!hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit())).then(|| value.to_string())
}

/// `domain << 20 | bus << 12 | device << 4 | function`
fn bus_id(packed: u64) -> String {
    format!("{:04x}:{:02x}:{:02x}.{:x}", packed >> 20, packed >> 12 & 0xff, packed >> 4 & 0xff, packed & 0xf)
}

/// `Bootstrap timings total 0.0 (create 0.0, …)`, `Init timings - ncclCommInitRank: rank 3 nranks 8 total 0.4 (kernels 0.1, …)`,
/// `timings: rank 3 nranks 8 P2p connect done in 1.25`
fn timings(message: &str) -> Option<What> {
    if let Some(tail) = message.strip_prefix("Bootstrap timings ") {
        let (total_s, parts) = total(tail)?;
        return Some(What::Timings(Timings { of: "bootstrap", function: None, rank: None, nranks: None, total_s, parts }));
    }
    let ranks = |text: &str| -> Option<(u32, u32)> {
        let (rank, nranks) = text.trim().strip_prefix("rank ")?.split_once(" nranks ")?;
        let (rank, nranks) = (rank.parse().ok()?, nranks.parse().ok()?);
        (rank < nranks).then_some((rank, nranks))
    };
    if let Some(tail) = message.strip_prefix("Init timings") {
        let (function, tail) = tail.split_once(": ")?;
        let function = function.strip_prefix(" - ").map(str::to_string);
        let at = tail.find(" total ")?;
        let (rank, nranks) = ranks(&tail[..at])?;
        let (total_s, parts) = total(&tail[at + 1..])?;
        return Some(What::Timings(Timings { of: "init", function, rank: Some(rank), nranks: Some(nranks), total_s, parts }));
    }
    let (who, took) = message.strip_prefix("timings: ")?.split_once(" P2p connect done in ")?;
    let (rank, nranks) = ranks(who)?;
    let took = took.trim_end();
    // Two digits behind the point, or one is missing.
    took.split_once('.').filter(|(_, d)| d.len() >= 2)?;
    let total_s = seconds(took)?;
    Some(What::Timings(Timings { of: "p2p connect", function: None, rank: Some(rank), nranks: Some(nranks), total_s, parts: Vec::new() }))
}

/// `total 0.45 (kernels 0.21, bootstrap 0.10)`
fn total(text: &str) -> Option<(f64, Vec<(String, f64)>)> {
    let (total, parts) = text.strip_prefix("total ")?.split_once(" (")?;
    let parts = parts.trim_end().strip_suffix(')')?.split(", ");
    let parts: Option<Vec<(String, f64)>> =
        parts.map(|part| part.rsplit_once(' ').and_then(|(name, s)| Some((name.to_string(), seconds(s)?)))).collect();
    Some((seconds(total)?, parts?))
}

fn seconds(text: &str) -> Option<f64> {
    text.parse().ok().filter(|s: &f64| s.is_finite() && *s >= 0.0 && *s < 1e7)
}
