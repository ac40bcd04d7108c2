//! Some dozens of nodes as `nccl-top export` shows them, written as OpenMetrics text with time stamps: `promtool tsdb create-blocks-from
//! openmetrics` makes a Prometheus of it that always gives the same answers.

use std::collections::BTreeMap;
use std::fmt::Write;

/// When the world begins: 2026-11-21T10:00:00Z.
pub const START: u64 = 1_795_255_200;
/// Between two scrapes of a node, seconds.
pub const SCRAPE: u64 = 15;
pub const RANKS_PER_NODE: u32 = 8;
const STATES: [&str; 9] = ["idle", "finished", "unknown", "starting", "training", "paused", "slow", "stuck", "failed"];
const COMMS: u32 = 4;

/// What happens to a job, from `Job::from_s` on. Ranks and nodes count from 0 within the job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fault {
    None,
    /// A rank does not join; all nodes with RAS name it, by the address of its node.
    Hang {
        rank: u32,
    },
    /// A node falls silent, and the others stand still without knowing why.
    Dead {
        node: u32,
    },
    /// The exporter of a node stops; the job goes on.
    ExporterDead {
        node: u32,
    },
    /// A rank idles while all others wait, and no node has RAS.
    Idle {
        rank: u32,
    },
    /// Counts differ and stand still; no node names anybody.
    Behind {
        node: u32,
    },
    /// All nodes wait for this one at each step.
    Straggler {
        node: u32,
    },
    /// The first node computes more than the others from the beginning, as the first stage of a pipeline may.
    UnevenStages,
    /// One port of one node sends less than the others.
    SlowPort {
        node: u32,
        port: u32,
    },
    /// The port of this name is slow on all nodes.
    SlowRail {
        port: u32,
    },
    /// This node never started its ranks.
    Missing {
        node: u32,
    },
    /// This node has another NCCL.
    OtherVersion {
        node: u32,
    },
    /// A file system hangs: each node reports its own first rank.
    Storage,
}

pub struct Job {
    pub id: &'static str,
    pub first_node: u32,
    pub nodes: u32,
    pub fault: Fault,
    pub from_s: u64,
}

impl Job {
    pub fn healthy(id: &'static str, first_node: u32, nodes: u32) -> Job {
        Job { id, first_node, nodes, fault: Fault::None, from_s: 0 }
    }
}

pub struct World {
    pub jobs: Vec<Job>,
    pub for_s: u64,
}

pub fn node_name(node: u32) -> String {
    format!("node{node:04}")
}

fn address(node: u32) -> String {
    format!("10.0.{}.{}", node / 250, node % 250 + 1)
}

/// Noise from -1 to 1 that is the same each time.
fn noise(a: u64, b: u64) -> f64 {
    let mut x = a.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ b.wrapping_mul(0xC2B2_AE3D_27D4_EB4F);
    x ^= x >> 29;
    x = x.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    x ^= x >> 32;
    (x % 20_001) as f64 / 10_000.0 - 1.0
}

struct Scrape<'a> {
    out: &'a mut String,
    /// Labels of the target.
    target: String,
    at: String,
}

impl Scrape<'_> {
    fn put(&mut self, name: &str, labels: &str, value: f64) {
        let comma = if labels.is_empty() { "" } else { "," };
        let _ = writeln!(self.out, "{name}{{{}{comma}{labels}}} {value} {}", self.target, self.at);
    }
}

impl World {
    /// The whole text.
    pub fn open_metrics(&self) -> String {
        let mut out = String::new();
        let mut counters: BTreeMap<String, f64> = BTreeMap::new();
        for s in (0..=self.for_s).step_by(SCRAPE as usize) {
            for job in &self.jobs {
                for node in 0..job.nodes {
                    job.scrape(node, s, &mut counters, &mut out);
                }
            }
        }
        out.push_str("# EOF\n");
        out
    }
}

impl Job {
    fn scrape(&self, node: u32, s: u64, counters: &mut BTreeMap<String, f64>, out: &mut String) {
        let number = self.first_node + node;
        let is_on = s >= self.from_s && self.fault != Fault::None;
        // Nodes are scraped at different instants.
        let at_ms = (START + s) * 1000 + u64::from(number * 7919 % 15_000);
        let target = format!(r#"instance="{}",job="nccl-top""#, node_name(number));
        let mut scrape = Scrape { out, target, at: format!("{}.{:03}", at_ms / 1000, at_ms % 1000) };
        let gone = is_on && matches!(self.fault, Fault::Dead { node: n } | Fault::ExporterDead { node: n } if n == node);
        scrape.put("up", "", if gone { 0.0 } else { 1.0 });
        if gone {
            return;
        }
        let stands = is_on
            && matches!(self.fault, Fault::Hang { .. } | Fault::Dead { .. } | Fault::Idle { .. } | Fault::Behind { .. } | Fault::Storage);
        let state = match self.fault {
            _ if stands => "stuck",
            Fault::SlowPort { .. } | Fault::SlowRail { .. } if is_on => "slow",
            Fault::Missing { .. } => "starting",
            _ => "training",
        };
        let since = if stands || state == "starting" { START + self.from_s } else { START - 3600 };
        scrape.put("nccltop_build_info", r#"version="0.1.0""#, 1.0);
        scrape.put("nccltop_node_address_info", &format!(r#"address="{}""#, address(number)), 1.0);
        for source in ["nvml", "procs", "ras", "log"] {
            let seen = source != "ras" || !matches!(self.fault, Fault::Idle { .. } | Fault::Dead { .. });
            scrape.put("nccltop_source_up", &format!(r#"source="{source}""#), f64::from(u8::from(seen)));
        }
        let gpus = 0..RANKS_PER_NODE;
        for gpu in gpus.clone() {
            let labels = format!(r#"gpu="{gpu}",uuid="GPU-{number}-{gpu}",model="H200",driver="570.86.15""#);
            scrape.put("nccltop_gpu_info", &labels, 1.0);
        }
        if self.fault == (Fault::Missing { node }) {
            return;
        }
        self.job_series(node, state, since, s, &mut scrape);
        self.rank_series(node, s, stands, is_on, counters, &mut scrape);
        self.comm_series(node, s, stands, &mut scrape);
        self.port_series(node, s, stands, is_on, counters, &mut scrape);
        if is_on {
            self.findings(node, &mut scrape);
        }
    }

    fn job_series(&self, node: u32, state: &str, since: u64, s: u64, scrape: &mut Scrape) {
        let id = self.id;
        let version = if self.fault == (Fault::OtherVersion { node }) { "2.27.3" } else { "2.28.9" };
        let info = format!(
            r#"job_id="{id}",slurm_job_id="{id}",job_name="pretrain-{id}",user="ada",account="ml",partition="h200",namespace="",pod="",launcher="torchrun",nccl_version="{version}""#
        );
        scrape.put("nccltop_job_info", &info, 1.0);
        let job = format!(r#"job_id="{id}""#);
        for one in STATES {
            scrape.put("nccltop_job_state", &format!(r#"{job},state="{one}""#), f64::from(u8::from(one == state)));
        }
        scrape.put("nccltop_job_state_start_timestamp_seconds", &job, since as f64);
        if state != "starting" {
            let last = if state == "stuck" { self.from_s.min(s) } else { s };
            scrape.put("nccltop_job_step", &job, (1000 + last) as f64);
            scrape.put("nccltop_job_steps_planned", &job, 50_000.0);
            scrape.put("nccltop_job_step_time_seconds", &job, 1.0);
            scrape.put("nccltop_job_step_time_usual_seconds", &job, 1.0);
            scrape.put("nccltop_job_last_step_timestamp_seconds", &job, (START + last) as f64);
            scrape.put("nccltop_job_loss", &job, 2.5);
            scrape.put("nccltop_job_throughput_per_second", &format!(r#"{job},unit="tokens""#), 81_000.0);
        }
        scrape.put("nccltop_job_world_size", &job, f64::from(self.nodes * RANKS_PER_NODE));
        scrape.put("nccltop_job_local_ranks", &job, f64::from(RANKS_PER_NODE));
        scrape.put("nccltop_job_restarts_total", &job, 0.0);
    }

    fn rank_series(&self, node: u32, s: u64, stands: bool, is_on: bool, counters: &mut BTreeMap<String, f64>, scrape: &mut Scrape) {
        let number = u64::from(self.first_node + node);
        for gpu in 0..RANKS_PER_NODE {
            let rank = node * RANKS_PER_NODE + gpu;
            let usual = 0.35 + 0.03 * noise(number, s) + 0.02 * noise(u64::from(rank) + 77, s);
            let is_absent = matches!(self.fault, Fault::Hang { rank: r } | Fault::Idle { rank: r } if r == rank);
            let (waiting, idle) = match self.fault {
                _ if stands && is_absent => (0.0, 1.0),
                _ if stands => (1.0, 0.0),
                Fault::Straggler { node: late } if is_on => (if late == node { 0.06 } else { usual + 0.25 }, 0.02),
                Fault::UnevenStages => (if node == 0 { 0.05 } else { usual + 0.2 }, 0.02),
                _ => (usual, 0.02),
            };
            let labels = format!(r#"job_id="{}",rank="{rank}""#, self.id);
            scrape.put("nccltop_rank_info", &format!(r#"{labels},local_rank="{gpu}",gpu="{gpu}""#), 1.0);
            let shares = [("working", 1.0 - waiting - idle), ("waiting", waiting), ("idle", idle), ("other", 0.0)];
            for (activity, share) in shares {
                let labels = format!(r#"{labels},gpu="{gpu}",activity="{activity}""#);
                let sum = counters.entry(format!("{} {labels}", self.id)).or_default();
                *sum += share.max(0.0) * SCRAPE as f64;
                scrape.put("nccltop_rank_activity_seconds_total", &labels, *sum);
            }
        }
    }

    fn comm_series(&self, node: u32, s: u64, stands: bool, scrape: &mut Scrape) {
        if matches!(self.fault, Fault::Idle { .. } | Fault::Dead { .. }) {
            return;
        }
        for comm in 0..COMMS {
            let labels = format!(r#"job_id="{}",comm="c{comm:04x}""#, self.id);
            let behind = stands
                && match self.fault {
                    Fault::Hang { rank } => rank / RANKS_PER_NODE == node,
                    Fault::Behind { node: n } => n == node,
                    _ => false,
                };
            // What moves differs from node to node, because nodes are scraped at different instants.
            let shift = if stands { 0 } else { u64::from((self.first_node + node) * 7919 % 15_000) / 100 };
            let count = (if stands { self.from_s } else { s }) * 10 + shift - u64::from(behind);
            scrape.put("nccltop_comm_operations_min", &labels, count as f64);
            scrape.put("nccltop_comm_operations_max", &labels, count as f64);
            scrape.put("nccltop_comm_still_seconds", &labels, if stands { (s - self.from_s) as f64 } else { 0.0 });
        }
    }

    fn port_series(&self, node: u32, s: u64, stands: bool, is_on: bool, counters: &mut BTreeMap<String, f64>, scrape: &mut Scrape) {
        let number = u64::from(self.first_node + node);
        for port in 0..RANKS_PER_NODE {
            let labels = format!(r#"port="mlx5_{port}/1",kind="ib""#);
            let slow = is_on
                && match self.fault {
                    Fault::SlowPort { node: n, port: p } => n == node && p == port,
                    Fault::SlowRail { port: p } => p == port,
                    _ => false,
                };
            let rate = 20e9 * (1.0 + 0.05 * noise(number * 8 + u64::from(port), s)) * if slow { 0.4 } else { 1.0 };
            let sum = counters.entry(format!("{} {node} {labels}", self.id)).or_default();
            *sum += if stands { 0.0 } else { rate * SCRAPE as f64 };
            scrape.put("nccltop_port_transmit_bytes_total", &labels, *sum);
            scrape.put("nccltop_port_loss_total", &labels, 0.0);
            scrape.put("nccltop_port_up", &labels, 1.0);
        }
    }

    fn findings(&self, node: u32, scrape: &mut Scrape) {
        let (rule, rank, on) = match self.fault {
            Fault::Hang { rank } => ("hang-rank-absent", rank, rank / RANKS_PER_NODE),
            Fault::Storage => ("storage-hang", node * RANKS_PER_NODE, node),
            _ => return,
        };
        let named = if on == node { String::new() } else { format!(r#",node="{}""#, address(self.first_node + on)) };
        let labels = format!(
            r#"job_id="{}",rule="{rule}",severity="critical",role="root",rank="{rank}",gpu="{}"{named}"#,
            self.id,
            rank % RANKS_PER_NODE
        );
        scrape.put("nccltop_finding_open", &labels, 1.0);
    }
}
