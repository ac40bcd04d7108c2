//! Records of the NCCL Inspector, a profiler plugin: one line for each completed operation, one file for each process.

pub mod prom;

use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, VecDeque};

const MAX_LINE: usize = 1 << 20;
/// Communicators of one process, and groups of operations in each.
const MAX_COMMS: usize = 256;
const MAX_GROUPS: usize = 256;
/// The newest operations of a communicator, kept one by one.
const MAX_OPS: usize = 8192;
/// Values kept of a group: above this, an even choice of them.
const MAX_VALUES: usize = 1024;

/// What one file holds.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inspector {
    pub path: String,
    pub hostname: Option<String>,
    pub pid: Option<u32>,
    /// `v4.0`, `v4.4`
    pub format_version: Option<String>,
    pub records: u64,
    /// Lines that are no record; the last line of a process that was killed often is none.
    pub bad_lines: u64,
    pub first_bad_line: Option<u64>,
    pub comms: Vec<InspectorComm>,
    /// Records of communicators, or groups, that are too many.
    pub left_out: u64,
    dump: Dump,
}

/// A rank of a communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct InspectorComm {
    /// Hexadecimal digits of the hash, without `0x`; the last two may be missing: see [`joins`].
    pub id: String,
    pub name: Option<String>,
    pub rank: u32,
    pub n_ranks: u32,
    pub nnodes: Option<u32>,
    /// Sequence numbers by collective: the first and the last.
    pub sequence: BTreeMap<String, (u64, u64)>,
    pub groups: BTreeMap<Group, Stats>,
    pub(crate) ops: VecDeque<Op>,
    /// Operations that are no longer kept one by one.
    pub(crate) ops_forgotten: u64,
}

/// Operations that may be compared.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Group {
    /// `AllReduce`, `Send`
    pub name: String,
    pub p2p: bool,
    /// Messages from this size up to less than twice as much: a power of two, or 0.
    pub from_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Stats {
    pub count: u64,
    pub smallest_bytes: u64,
    pub largest_bytes: u64,
    pub max_busbw_gbytes_per_s: Option<f64>,
    /// `kernel_gpu`, `kernel_cpu`, `collective_cpu`
    pub timing_source: Option<String>,
    exec_us: Sample,
    busbw: Sample,
}

/// One collective of one rank.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Op {
    pub(crate) name: String,
    pub(crate) sn: u64,
    pub(crate) bytes: u64,
    pub(crate) exec_us: f64,
    /// When it was written, µs since the epoch; later than the operation.
    pub(crate) written_us: u64,
    pub(crate) line: u64,
}

impl Stats {
    pub fn median_exec_us(&self) -> Option<f64> {
        self.exec_us.quantile(0.5)
    }

    pub fn p95_exec_us(&self) -> Option<f64> {
        self.exec_us.quantile(0.95)
    }

    /// In 10⁹ bytes/s.
    pub fn median_busbw_gbytes_per_s(&self) -> Option<f64> {
        self.busbw.quantile(0.5)
    }
}

/// Some of very many values, chosen evenly; all of them while they are few.
#[derive(Clone, Debug, Default, PartialEq)]
struct Sample {
    seen: u64,
    /// With the number that decides whether it is kept when there are too many.
    values: Vec<(u64, f64)>,
    /// Numbers below it are kept; 0 is all.
    keep_below: u64,
}

impl Sample {
    fn add(&mut self, value: f64) {
        self.seen += 1;
        // Spreads the counter over all numbers: every second value would be blind to what happens at every second step.
        let number = self.seen.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ (self.seen.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 29);
        if self.keep_below > 0 && number >= self.keep_below {
            return;
        }
        self.values.push((number, value));
        if self.values.len() > MAX_VALUES {
            self.keep_below = if self.keep_below == 0 { 1 << 63 } else { self.keep_below / 2 };
            self.values.retain(|(number, _)| *number < self.keep_below);
        }
    }

    fn quantile(&self, part: f64) -> Option<f64> {
        let mut values: Vec<f64> = self.values.iter().map(|(_, value)| *value).collect();
        quantile(&mut values, part)
    }
}

/// The value that `part` of all values does not exceed.
pub(crate) fn quantile(values: &mut [f64], part: f64) -> Option<f64> {
    let last = values.len().checked_sub(1)?;
    let at = ((values.len() as f64 * part).ceil() as usize).saturating_sub(1).min(last);
    Some(*values.select_nth_unstable_by(at, f64::total_cmp).1)
}

/// Whether the id of a header (format v4.0 prints no more than 14 digits) is that of a communicator.
pub fn joins(id_prefix: &str, full: u64) -> bool {
    let digits = id_prefix.strip_prefix("0x").unwrap_or(id_prefix).to_ascii_lowercase();
    let whole = format!("{full:x}");
    digits == whole || digits.len() >= 12 && (whole.starts_with(&digits) || format!("{full:016x}").starts_with(&digits))
}

/// What the lines of one dump of a communicator take over from its first line: from format v4.3 on, that `dump_stats` line alone has a
/// header and metadata. Up to v4.2 each line has its own. Source: `inspectorCommInfoDump` of NCCL's `inspector_json.cc`.
#[derive(Clone, Debug, Default, PartialEq)]
struct Dump(Option<(Header, Option<Metadata>)>);

impl Dump {
    /// `None`: it is no record, or nothing says of which communicator.
    fn record(&mut self, line: &str) -> Option<(Header, Record)> {
        let record = if line.len() <= MAX_LINE { serde_json::from_str(line).ok() } else { None };
        let Some(mut record): Option<Record> = record else {
            // It may have begun the dump of another communicator.
            if !OF_A_DUMP.iter().any(|begin| line.starts_with(begin)) {
                self.0 = None;
            }
            return None;
        };
        if let Some(header) = record.header.take() {
            if record.dump_stats.is_some() {
                self.0 = Some((header.clone(), record.metadata.clone()));
            }
            return Some((header, record));
        }
        if record.coll_perf.is_none() && record.p2p_perf.is_none() && record.proxy_trace.is_none() {
            return None;
        }
        let (header, metadata) = self.0.clone()?;
        record.metadata = record.metadata.or(metadata);
        Some((header, record))
    }
}

/// How a line begins that begins no dump.
const OF_A_DUMP: [&str; 3] = ["{\"coll_perf\"", "{\"p2p_perf\"", "{\"proxy_trace\""];

#[derive(Deserialize)]
struct Record {
    header: Option<Header>,
    metadata: Option<Metadata>,
    /// From v4.1 on, before the operations of each dump.
    dump_stats: Option<IgnoredAny>,
    coll_perf: Option<Coll>,
    p2p_perf: Option<P2p>,
    /// From v4.4 on.
    proxy_trace: Option<IgnoredAny>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Header {
    id: String,
    comm_name: Option<String>,
    rank: u32,
    n_ranks: u32,
    nnodes: Option<u32>,
}

#[derive(Clone, Debug, Deserialize, PartialEq)]
struct Metadata {
    inspector_output_format_version: Option<String>,
    dump_timestamp_us: Option<u64>,
    hostname: Option<String>,
    pid: Option<u32>,
}

#[derive(Deserialize)]
struct Coll {
    coll: String,
    coll_sn: u64,
    coll_msg_size_bytes: u64,
    #[serde(default, deserialize_with = "number")]
    coll_exec_time_us: Option<f64>,
    coll_timing_source: Option<String>,
    #[serde(default, deserialize_with = "number")]
    coll_algobw_gbs: Option<f64>,
    #[serde(default, deserialize_with = "number")]
    coll_busbw_gbs: Option<f64>,
}

#[derive(Deserialize)]
struct P2p {
    p2p: String,
    #[serde(default)]
    p2p_sn: u64,
    /// The rank of the other end in the communicator: the argument of `ncclSend` or `ncclRecv` (`ncclTaskP2p::root`).
    p2p_peer: Option<u32>,
    p2p_msg_size_bytes: u64,
    #[serde(default, deserialize_with = "number")]
    p2p_exec_time_us: Option<f64>,
    p2p_timing_source: Option<String>,
    #[serde(default, deserialize_with = "number")]
    p2p_algobw_gbs: Option<f64>,
    #[serde(default, deserialize_with = "number")]
    p2p_busbw_gbs: Option<f64>,
}

/// What both kinds of records tell.
struct Measured {
    name: String,
    p2p: bool,
    peer: Option<u32>,
    sn: u64,
    bytes: u64,
    exec_us: Option<f64>,
    timing_source: Option<String>,
    algbw: Option<f64>,
    busbw: Option<f64>,
}

fn measured(coll: Option<Coll>, p2p: Option<P2p>) -> Option<Measured> {
    match (coll, p2p) {
        (Some(coll), _) => Some(Measured {
            name: coll.coll,
            p2p: false,
            peer: None,
            sn: coll.coll_sn,
            bytes: coll.coll_msg_size_bytes,
            exec_us: coll.coll_exec_time_us,
            timing_source: coll.coll_timing_source,
            algbw: coll.coll_algobw_gbs,
            busbw: coll.coll_busbw_gbs,
        }),
        (None, Some(p2p)) => Some(Measured {
            name: p2p.p2p,
            p2p: true,
            peer: p2p.p2p_peer,
            sn: p2p.p2p_sn,
            bytes: p2p.p2p_msg_size_bytes,
            exec_us: p2p.p2p_exec_time_us,
            timing_source: p2p.p2p_timing_source,
            algbw: p2p.p2p_algobw_gbs,
            busbw: p2p.p2p_busbw_gbs,
        }),
        (None, None) => None,
    }
}

/// The newest operation of each kind and size, as a file grows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Latest {
    comms: BTreeMap<(String, u32), LatestComm>,
    /// Operations so far.
    pub records: u64,
    dump: Dump,
}

/// A rank of a communicator.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatestComm {
    /// As in [`InspectorComm::id`].
    pub id: String,
    pub rank: u32,
    pub n_ranks: u32,
    pub nnodes: Option<u32>,
    seen: u64,
    /// By name, and size as in [`Group`].
    pub ops: BTreeMap<(String, u64), LatestOp>,
    /// The newest send to each rank of the communicator (`true`), and the newest receive from each.
    pub peers: BTreeMap<(u32, bool), LatestOp>,
}

/// The newest operation of its kind and size. Bandwidths in 10⁹ bytes/s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LatestOp {
    pub bytes: u64,
    pub sn: u64,
    pub exec_us: Option<f64>,
    pub algbw: Option<f64>,
    pub busbw: Option<f64>,
    seen: u64,
}

/// Of one process; what has not come for longest gives way.
const MAX_LATEST_COMMS: usize = 16;
const MAX_LATEST_OPS: usize = 32;
const MAX_LATEST_PEERS: usize = 32;
const MAX_NAME: usize = 64;

impl Latest {
    /// What is no record changes nothing: the last line may be half written.
    pub fn line(&mut self, line: &str) {
        let Some((header, Record { coll_perf, p2p_perf, .. })) = self.dump.record(line) else { return };
        let Some(op) = measured(coll_perf, p2p_perf) else { return };
        self.records += 1;
        let short = |text: &str| crate::base::clean::clip(text, MAX_NAME).into_owned();
        let id = short(header.id.strip_prefix("0x").unwrap_or(&header.id)).to_ascii_lowercase();
        let comm = newest(&mut self.comms, (id.clone(), header.rank), MAX_LATEST_COMMS, |comm| comm.seen);
        (comm.id, comm.rank, comm.n_ranks, comm.seen) = (id, header.rank, header.n_ranks, self.records);
        comm.nnodes = header.nnodes.or(comm.nnodes);
        let latest = newest(&mut comm.ops, (short(&op.name), bucket(op.bytes)), MAX_LATEST_OPS, |op| op.seen);
        *latest = LatestOp { bytes: op.bytes, sn: op.sn, exec_us: op.exec_us, algbw: op.algbw, busbw: op.busbw, seen: self.records };
        if let (Some(peer), "Send" | "Recv") = (op.peer, op.name.as_str()) {
            let of_peer = latest.clone();
            *newest(&mut comm.peers, (peer, op.name == "Send"), MAX_LATEST_PEERS, |op| op.seen) = of_peer;
        }
    }

    /// Lines were left out: of which communicator the next ones are is not known before the next dump.
    pub fn skipped(&mut self) {
        self.dump = Dump::default();
    }

    pub fn comms(&self) -> impl Iterator<Item = &LatestComm> {
        self.comms.values()
    }
}

/// The value of a key. Where there is no room for one more, the one that was seen least recently goes.
fn newest<K: Ord + Clone, V: Default>(map: &mut BTreeMap<K, V>, key: K, most: usize, seen: impl Fn(&V) -> u64) -> &mut V {
    if map.len() >= most
        && !map.contains_key(&key)
        && let Some(oldest) = map.iter().min_by_key(|(_, value)| seen(value)).map(|(key, _)| key.clone())
    {
        map.remove(&oldest);
    }
    map.entry(key).or_default()
}

/// A number, or the string `nan` in its place.
fn number<'de, D: Deserializer<'de>>(from: D) -> Result<Option<f64>, D::Error> {
    let value = serde_json::Value::deserialize(from)?;
    Ok(value.as_f64().filter(|value| value.is_finite() && *value >= 0.0))
}

impl Inspector {
    pub fn new(path: impl Into<String>) -> Self {
        Inspector { path: path.into(), ..Inspector::default() }
    }

    /// `no` counts from 1.
    pub fn line(&mut self, line: &str, no: u64) {
        if line.trim().is_empty() {
            return;
        }
        let Some((header, record)) = self.dump.record(line) else {
            self.bad_lines += 1;
            self.first_bad_line.get_or_insert(no);
            return;
        };
        self.records += 1;
        let mut written_us = 0;
        if let Some(about) = record.metadata {
            written_us = about.dump_timestamp_us.unwrap_or(0);
            self.hostname = about.hostname.or(self.hostname.take());
            self.pid = about.pid.or(self.pid);
            self.format_version = about.inspector_output_format_version.or(self.format_version.take());
        }
        let Some(measured) = measured(record.coll_perf, record.p2p_perf) else { return };
        match self.comm(header) {
            Some(comm) => {
                if !comm.add(measured, written_us, no) {
                    self.left_out += 1;
                }
            }
            None => self.left_out += 1,
        }
    }

    fn comm(&mut self, header: Header) -> Option<&mut InspectorComm> {
        let id = header.id.strip_prefix("0x").unwrap_or(&header.id).to_ascii_lowercase();
        let known = self.comms.iter().position(|comm| comm.id == id && comm.rank == header.rank);
        let at = match known {
            Some(at) => at,
            None if self.comms.len() >= MAX_COMMS => return None,
            None => {
                let comm = InspectorComm {
                    id,
                    name: header.comm_name.filter(|name| !name.is_empty()),
                    rank: header.rank,
                    n_ranks: header.n_ranks,
                    nnodes: header.nnodes,
                    ..InspectorComm::default()
                };
                self.comms.push(comm);
                self.comms.len() - 1
            }
        };
        self.comms.get_mut(at)
    }

    /// Who wrote it, in words.
    pub(crate) fn process(&self) -> String {
        match (self.pid, &self.hostname) {
            (Some(pid), Some(host)) => format!("pid {pid} on {host}"),
            (Some(pid), None) => format!("pid {pid}"),
            (None, _) => self.path.clone(),
        }
    }
}

impl InspectorComm {
    /// `false` where there are too many groups.
    fn add(&mut self, op: Measured, written_us: u64, line: u64) -> bool {
        let group = Group { name: op.name.clone(), p2p: op.p2p, from_bytes: bucket(op.bytes) };
        if self.groups.len() >= MAX_GROUPS && !self.groups.contains_key(&group) {
            return false;
        }
        let stats = self.groups.entry(group).or_default();
        stats.smallest_bytes = if stats.count == 0 { op.bytes } else { stats.smallest_bytes.min(op.bytes) };
        stats.largest_bytes = stats.largest_bytes.max(op.bytes);
        stats.count += 1;
        stats.timing_source = op.timing_source.or(stats.timing_source.take());
        if let Some(busbw) = op.busbw {
            stats.busbw.add(busbw);
            stats.max_busbw_gbytes_per_s = Some(stats.max_busbw_gbytes_per_s.map_or(busbw, |max| max.max(busbw)));
        }
        if let Some(exec_us) = op.exec_us {
            stats.exec_us.add(exec_us);
        }
        if op.p2p {
            return true;
        }
        let seen = self.sequence.entry(op.name.clone()).or_insert((op.sn, op.sn));
        *seen = (seen.0.min(op.sn), seen.1.max(op.sn));
        if let Some(exec_us) = op.exec_us {
            if self.ops.len() == MAX_OPS {
                self.ops.pop_front();
                self.ops_forgotten += 1;
            }
            self.ops.push_back(Op { name: op.name, sn: op.sn, bytes: op.bytes, exec_us, written_us, line });
        }
        true
    }
}

/// The power of two at or below.
pub(crate) fn bucket(bytes: u64) -> u64 {
    bytes.checked_ilog2().map_or(0, |log| 1 << log)
}

#[cfg(test)]
mod tests {
    use super::{MAX_VALUES, Sample};

    #[test]
    fn a_sample_of_very_many_values_stays_small_and_even() {
        let mut sample = Sample::default();
        (0..200_000).for_each(|i| sample.add(f64::from(i % 1000)));
        assert!(sample.values.len() <= MAX_VALUES && sample.values.len() > MAX_VALUES / 4);
        assert!((400.0..600.0).contains(&sample.quantile(0.5).unwrap()), "{:?}", sample.quantile(0.5));
        assert!((900.0..990.0).contains(&sample.quantile(0.95).unwrap()), "{:?}", sample.quantile(0.95));
        assert_eq!(Sample::default().quantile(0.5), None);
    }
}
