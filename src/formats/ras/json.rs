//! The JSON report of NCCL 2.28.7 and newer.

use super::{Collective, RasComm, RasError, RasMissing, RasPlace, RasRank, RasReport};
use memchr::memmem;
use serde::Deserialize;
use std::borrow::Cow;

#[derive(Deserialize)]
struct Report {
    nccl_version: Option<String>,
    communicators: Vec<Comm>,
    ras: Option<Ras>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Ras {
    collection_time_sec: Option<f64>,
    timeouts_count: Option<u64>,
}

#[derive(Deserialize)]
struct Comm {
    hash: String,
    size: Option<u32>,
    missing_ranks_count: Option<u32>,
    #[serde(default)]
    ranks: Vec<Rank>,
    #[serde(default)]
    missing_ranks: Vec<Rank>,
}

/// Of `ranks` and of `missing_ranks`, which differ in their status.
#[derive(Deserialize)]
struct Rank {
    rank: u32,
    host: Option<String>,
    /// -1 where RAS does not know it.
    pid: Option<i64>,
    cuda_dev: Option<i64>,
    nvml_dev: Option<i64>,
    #[serde(default)]
    status: Status,
    #[serde(default)]
    collective_counts: Counts,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Status {
    init_state: i32,
    async_error: i32,
    finalize_called: bool,
    destroy_flag: bool,
    abort_flag: bool,
    unresponsive: Option<bool>,
    considered_dead: Option<bool>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "PascalCase")]
struct Counts {
    broadcast: Option<u64>,
    reduce: Option<u64>,
    all_gather: Option<u64>,
    reduce_scatter: Option<u64>,
    all_reduce: Option<u64>,
}

/// Of 16,384 ranks in one communicator there are 49,152. Each takes some hundred bytes of memory, and three of a file.
const MAX_OBJECTS: usize = 1 << 18;

pub(super) fn parse(text: &str) -> Result<RasReport, RasError> {
    if memchr::memchr2_iter(b'{', b'[', text.as_bytes()).nth(MAX_OBJECTS).is_some() {
        return Err(RasError::Json(format!("more than {MAX_OBJECTS} objects, as no job has")));
    }
    let text = with_commas(text);
    let mut reader = serde_json::Deserializer::from_str(&text);
    let report = Report::deserialize(&mut reader).map_err(|err| match err.is_eof() {
        true => RasError::CutOff(format!("after {} bytes", text.len())),
        false => RasError::Json(err.to_string()),
    })?;
    let ras = report.ras.unwrap_or_default();
    Ok(RasReport {
        nccl_version: report.nccl_version,
        comms: report.communicators.into_iter().filter_map(comm).collect(),
        timeouts_count: ras.timeouts_count.unwrap_or(0),
        collection_time_s: ras.collection_time_sec,
        ..RasReport::default()
    })
}

/// NCCL 2.28.7 and 2.28.9 forget the comma between `"nvml_dev": 4` of a missing rank and the `"status"` that follows.
fn with_commas(text: &str) -> Cow<'_, str> {
    let bytes = text.as_bytes();
    let skip = |mut at: usize, wanted: fn(&u8) -> bool| {
        while bytes.get(at).is_some_and(wanted) {
            at += 1;
        }
        at
    };
    let mut repaired = String::new();
    let mut copied = 0;
    const KEY: &[u8] = b"\"nvml_dev\"";
    for found in memmem::find_iter(bytes, KEY) {
        let colon = skip(found + KEY.len(), u8::is_ascii_whitespace);
        if bytes.get(colon) != Some(&b':') {
            continue;
        }
        let number = skip(colon + 1, u8::is_ascii_whitespace);
        let end = skip(number, |b| b.is_ascii_digit() || *b == b'-');
        if end > number && bytes.get(skip(end, u8::is_ascii_whitespace)) == Some(&b'"') {
            repaired.push_str(&text[copied..end]);
            repaired.push(',');
            copied = end;
        }
    }
    if copied == 0 {
        return Cow::Borrowed(text);
    }
    repaired.push_str(&text[copied..]);
    Cow::Owned(repaired)
}

/// `None` for a communicator without a readable name: nothing could be reported about it.
fn comm(comm: Comm) -> Option<RasComm> {
    let missing: Vec<RasMissing> = comm.missing_ranks.into_iter().map(missing).collect();
    Some(RasComm {
        hash: u64::from_str_radix(comm.hash.strip_prefix("0x")?, 16).ok()?,
        size: comm.size,
        missing_count: comm.missing_ranks_count.unwrap_or(missing.len() as u32),
        ranks: comm.ranks.into_iter().map(rank).collect(),
        missing,
        ..RasComm::default()
    })
    .map(|comm| RasComm { nnodes: nodes(&comm), ..comm })
}

/// Addresses that ranks name, missing ones included.
fn nodes(comm: &RasComm) -> Option<u32> {
    let places = comm.ranks.iter().map(|rank| &rank.place).chain(comm.missing.iter().map(|rank| &rank.place));
    let hosts: std::collections::BTreeSet<&str> = places.filter_map(|place| place.host.as_deref()).collect();
    (!hosts.is_empty()).then_some(hosts.len() as u32)
}

fn place(rank: &mut Rank) -> RasPlace {
    let known = |number: Option<i64>| number.and_then(|n| u32::try_from(n).ok());
    RasPlace {
        host: rank.host.take().filter(|host| host != "unknown"),
        pid: known(rank.pid),
        cuda_dev: known(rank.cuda_dev),
        nvml_dev: known(rank.nvml_dev),
    }
}

fn rank(mut rank: Rank) -> RasRank {
    let counts = rank.collective_counts;
    let all = [
        (Collective::Broadcast, counts.broadcast),
        (Collective::Reduce, counts.reduce),
        (Collective::AllGather, counts.all_gather),
        (Collective::ReduceScatter, counts.reduce_scatter),
        (Collective::AllReduce, counts.all_reduce),
    ];
    rank.collective_counts = Counts::default();
    RasRank {
        rank: rank.rank,
        place: place(&mut rank),
        init_state: rank.status.init_state,
        async_error: rank.status.async_error,
        finalized: rank.status.finalize_called,
        destroyed: rank.status.destroy_flag,
        aborted: rank.status.abort_flag,
        counts: all.into_iter().filter_map(|(op, count)| Some((op, count?))).collect(),
    }
}

fn missing(mut rank: Rank) -> RasMissing {
    RasMissing {
        rank: rank.rank,
        place: place(&mut rank),
        unresponsive: rank.status.unresponsive,
        considered_dead: rank.status.considered_dead,
    }
}
