//! The Inspector's metrics for Prometheus, of both generations of labels: NCCL 2.29.3 to 2.29.7, and 2.30.3 and newer.

use std::collections::BTreeMap;

const MAX_ROWS: usize = 8192;
const MAX_LINE: usize = 4096;

/// What one file holds: a file for each GPU, written anew every 30 s.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Prom {
    pub rows: Vec<PromRow>,
    /// Metrics that are too many.
    pub left_out: u64,
    pub bad_lines: u64,
}

/// The metrics with one set of labels. Newer versions average over operations, older ones give the last.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PromRow {
    /// `comm_id`, or the communicator's name.
    pub comm: Option<String>,
    pub rank: Option<u32>,
    pub n_ranks: Option<u32>,
    pub host: Option<String>,
    /// `0`
    pub gpu: Option<u32>,
    /// `AllReduce`, or the operation of a send or receive.
    pub operation: String,
    pub p2p: bool,
    /// Bytes, or a range such as `4-5GB`.
    pub message_size: String,
    /// `Ring_ll`
    pub algo_proto: Option<String>,
    pub coll_sn: Option<u64>,
    /// In 10⁹ bytes/s.
    pub algbw_gbytes_per_s: Option<f64>,
    pub busbw_gbytes_per_s: Option<f64>,
    pub exec_time_us: Option<f64>,
}

const METRICS: [&str; 5] = [
    "nccl_algorithm_bandwidth_gbs",
    "nccl_bus_bandwidth_gbs",
    "nccl_collective_exec_time_microseconds",
    "nccl_p2p_bus_bandwidth_gbs",
    "nccl_p2p_exec_time_microseconds",
];

pub(crate) fn is_metric(name: &str) -> bool {
    METRICS.contains(&name)
}

pub fn parse(text: &str) -> Prom {
    let mut out = Prom::default();
    let mut places: BTreeMap<(&str, bool), usize> = BTreeMap::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let Some((name, labels, value)) = sample(line).filter(|_| line.len() <= MAX_LINE) else {
            out.bad_lines += 1;
            continue;
        };
        if !is_metric(name) {
            continue;
        }
        let p2p = name.starts_with("nccl_p2p_");
        let at = match places.get(&(labels, p2p)) {
            Some(at) => *at,
            None if out.rows.len() >= MAX_ROWS => {
                out.left_out += 1;
                continue;
            }
            None => {
                out.rows.push(row(labels, p2p));
                places.insert((labels, p2p), out.rows.len() - 1);
                out.rows.len() - 1
            }
        };
        let Some(row) = out.rows.get_mut(at) else { continue };
        let slot = match name {
            "nccl_algorithm_bandwidth_gbs" => &mut row.algbw_gbytes_per_s,
            "nccl_bus_bandwidth_gbs" | "nccl_p2p_bus_bandwidth_gbs" => &mut row.busbw_gbytes_per_s,
            _ => &mut row.exec_time_us,
        };
        *slot = value.is_finite().then_some(value);
    }
    out
}

/// `name{labels} value`
fn sample(line: &str) -> Option<(&str, &str, f64)> {
    let (name, tail) = line.split_once('{')?;
    let (labels, value) = tail.rsplit_once('}')?;
    Some((name.trim(), labels, value.split_ascii_whitespace().next()?.parse().ok()?))
}

fn row(labels: &str, p2p: bool) -> PromRow {
    let mut out = PromRow { p2p, ..PromRow::default() };
    for (key, value) in pairs(labels) {
        let number = || value.parse().ok();
        match key {
            "comm_id" | "comm_name" => out.comm = Some(value.clone()).filter(|name| !name.is_empty()),
            "rank" => out.rank = number(),
            "nranks" => out.n_ranks = number(),
            "hostname" | "node" => out.host = Some(value.clone()),
            "gpu" | "gpu_device_id" => out.gpu = value.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().ok(),
            "collective" | "p2p_operation" => out.operation.clone_from(&value),
            "message_size" => out.message_size.clone_from(&value),
            "algo_proto" => out.algo_proto = Some(value.clone()),
            "coll_sn" => out.coll_sn = value.parse().ok(),
            _ => {}
        }
    }
    out
}

/// `key="value",…`, where a value may hold `\"` and commas.
fn pairs(labels: &str) -> Vec<(&str, String)> {
    let mut out = Vec::new();
    let mut rest = labels;
    while let Some((key, tail)) = rest.split_once("=\"") {
        let mut value = String::new();
        let mut end = tail.len();
        let mut chars = tail.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => value.extend(chars.next().map(|(_, escaped)| if escaped == 'n' { '\n' } else { escaped })),
                '"' => {
                    end = at + 1;
                    break;
                }
                _ => value.push(c),
            }
        }
        out.push((key.trim_matches([',', ' ']), value));
        rest = &tail[end..];
    }
    out
}
