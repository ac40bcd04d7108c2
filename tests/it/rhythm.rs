//! The time of a step by the rhythm of the traffic, where no log names one. Samples are made as the sources take them: the mean of what
//! went on since the sample before, about once a second.

use crate::support::worlds::noise;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::model::Model;
use nccl_top::model::rhythm::Rhythm;
use nccl_top::observe::gpu::{Gpm, GpuProcess, GpuProcesses, GpuSample};
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::port::PortSample;
use nccl_top::observe::process::{LogVia, ProcessInfo, ProcessLog, ProcessRole};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::tape::Reader;
use nccl_top::recording::without::{Without, filter};
use std::path::Path;

const START_S: f64 = 1_795_255_200.0;
const GPUS: u32 = 4;
/// Where a logger of its job would save.
pub const METRICS: &str = "/w/lightning_logs/version_0/metrics.csv";

/// Of a step: share of its time, traffic as a share of the most, watts.
pub type Parts = &'static [(f64, f64, f64)];

/// Gradients are reduced in one go at the end.
pub const REDUCE_LAST: Parts = &[(0.7, 0.0, 600.0), (0.3, 1.0, 520.0)];
/// Two thirds are backward, and gradients are reduced beside it.
const OVERLAPPED: Parts = &[(0.4, 0.0, 600.0), (0.6, 1.0, 620.0)];
/// Weights are gathered all the time.
const SHARDED: Parts = &[(0.05, 0.4, 400.0), (0.45, 0.8, 600.0), (0.5, 1.0, 620.0)];
/// Four micro batches, and gradients only after the last.
const ACCUMULATED: Parts = &[
    (0.22, 0.0, 600.0),
    (0.03, 0.0, 450.0),
    (0.22, 0.0, 600.0),
    (0.03, 0.0, 450.0),
    (0.22, 0.0, 600.0),
    (0.03, 0.0, 450.0),
    (0.1, 0.0, 600.0),
    (0.15, 1.0, 600.0),
];
/// Two reductions, one of them larger.
const UNEQUAL: Parts = &[(0.3, 0.0, 600.0), (0.2, 0.6, 600.0), (0.3, 0.0, 600.0), (0.2, 1.0, 600.0)];
/// Batches come eight at a time; until the next come, nothing runs.
const LOADER: Parts = &[(0.3, 1.0, 600.0), (0.7, 0.0, 130.0)];

/// Four ranks on GPUs, whose log says nothing.
pub struct Node {
    pub session: Session,
    parts: Parts,
    period_s: f64,
    /// Where the job is: seconds, and the part of the step, which ends then.
    now_s: f64,
    part: usize,
    part_ends_s: f64,
    step: u64,
    /// GPUs that show the traffic.
    linked: u32,
    ports: u32,
    port_bytes: f64,
    /// GPM is read only in every so many samples.
    gpm_every: u64,
    sample: u64,
    /// Nobody sees the GPUs.
    pub unseen: bool,
    /// The last GPU runs nothing, and the others wait for it.
    absent: bool,
    moved: f64,
    spent_j: f64,
    since_gpm_s: f64,
}

impl Node {
    pub fn new(period_s: f64, parts: Parts) -> Node {
        let mut node = Node {
            session: Session::new("node-17", Zone::UTC),
            parts,
            period_s,
            now_s: START_S,
            part: parts.len() - 1,
            part_ends_s: START_S,
            step: 0,
            linked: GPUS,
            ports: 0,
            port_bytes: 0.0,
            gpm_every: 1,
            sample: 0,
            unseen: false,
            absent: false,
            moved: 0.0,
            spent_j: 0.0,
            since_gpm_s: 0.0,
        };
        node.see(Body::LogFile(LogFileInfo { file: 1, path: "/l/out.log".into(), inode: Some(7), device: Some(1), ..Default::default() }));
        for rank in 0..GPUS {
            let env = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", GPUS), ("LOCAL_WORLD_SIZE", GPUS), ("SLURM_JOB_ID", 7)];
            let log = ProcessLog { via: LogVia::Stdout, path: "/l/out.log".into(), inode: Some(7), device: Some(1) };
            let metrics = ProcessLog { via: LogVia::Other, path: METRICS.into(), inode: Some(9), device: Some(1) };
            node.see(Body::Process(ProcessInfo {
                pid: 100 + rank,
                start_ticks: 5,
                role: ProcessRole::Rank,
                env: Some(env.map(|(name, value)| (name.to_owned(), value.to_string())).into()),
                logs: vec![log, metrics],
                ..ProcessInfo::default()
            }));
        }
        let on = |index| GpuProcesses { index, processes: vec![GpuProcess { pid: 100 + index, mem_bytes: Some(1 << 30) }] };
        node.see(Body::GpuProcesses { gpus: (0..GPUS).map(on).collect() });
        node
    }

    pub fn see(&mut self, body: Body) {
        let at = Stamp::from_secs_f64(self.now_s);
        self.session.apply(&Observation { at, host: None, from: SourceId::of("host"), body }, &mut Vec::new());
    }

    /// The job goes on for so long.
    fn go_on(&mut self, seconds: f64) {
        let until = self.now_s + seconds;
        while self.now_s < until {
            if self.part_ends_s <= self.now_s {
                self.part = (self.part + 1) % self.parts.len();
                self.step += u64::from(self.part == 0);
                // Steps differ by some percent.
                let length = self.parts[self.part].0 * self.period_s * (1.0 + 0.02 * noise(1, self.step));
                self.part_ends_s = self.now_s + length;
            }
            let to = until.min(self.part_ends_s);
            let (_, traffic, watts) = self.parts[self.part];
            self.moved += traffic * (to - self.now_s);
            self.spent_j += watts * (to - self.now_s);
            self.now_s = to;
        }
        self.since_gpm_s += seconds;
    }

    pub fn after(&mut self, seconds: f64) -> &mut Node {
        const EVERY_S: f64 = 1.003;
        for _ in 0..(seconds / EVERY_S) as u64 {
            self.go_on(EVERY_S);
            self.sample += 1;
            let read = self.sample.is_multiple_of(self.gpm_every);
            let rate = self.moved / self.since_gpm_s * 200e9;
            let (absent, works) = (self.absent, f32::from(u8::from(!self.absent)));
            let (sample_no, watts) = (self.sample, self.spent_j / EVERY_S);
            let sample = |index: u32| {
                let about = |value: f64, seed: u64| value * (1.0 + 0.02 * noise(seed + u64::from(index), sample_no));
                let link = Some(about(if index < self.linked { rate } else { 0.0 }, 10));
                let gpm = Gpm {
                    sm_active_pct: Some(if absent && index == GPUS - 1 { 0.0 } else { 18.0 }),
                    tensor_active_pct: Some(30.0 * works),
                    dram_active_pct: Some(20.0 * works),
                    nvlink_tx_bytes_per_s: link,
                    nvlink_rx_bytes_per_s: link,
                    ..Gpm::default()
                };
                GpuSample {
                    index,
                    util_pct: Some(if absent && index == GPUS - 1 { 0 } else { 100 }),
                    power_mw: Some((about(watts, 20) * 1e3) as u64),
                    gpm: read.then_some(gpm),
                    ..GpuSample::default()
                }
            };
            let gpus = (0..GPUS).map(sample).collect();
            self.port_bytes += self.moved * 20e9;
            let port = |no: u32| {
                let device = format!("mlx5_{no}");
                let words = (self.port_bytes / 4.0) as u64;
                let counters = [("port_xmit_data".to_owned(), words), ("port_rcv_data".to_owned(), words)].into();
                PortSample { device, port: 1, state: Some("ACTIVE".into()), counters, ..PortSample::default() }
            };
            let ports = (0..self.ports).map(port).collect();
            self.spent_j = 0.0;
            if read {
                (self.moved, self.since_gpm_s) = (0.0, 0.0);
            }
            if !self.unseen {
                self.see(Body::Gpus { gpus });
            }
            if self.ports > 0 {
                self.see(Body::Ports { ports });
            }
            self.see(Body::Tick);
        }
        self
    }

    /// From now on it does this.
    pub fn set(&mut self, parts: Parts) {
        (self.parts, self.part, self.part_ends_s) = (parts, 0, self.now_s);
    }

    fn rhythm(&self) -> Option<Rhythm> {
        self.session.model.rhythm_of(&self.session.model.jobs["7"])
    }

    fn estimate(&self) -> Option<f64> {
        self.rhythm().map(|rhythm| rhythm.period_s)
    }

    pub fn job(&self) -> serde_json::Value {
        nccl_top::output::snapshot::json(&self.session, Zone::UTC)["jobs"][0].clone()
    }
}

#[test]
fn steps_of_four_seconds_and_more_are_known_by_the_traffic_that_they_end_with() {
    for (parts, what) in [(REDUCE_LAST, "reduced last"), (OVERLAPPED, "overlapped"), (ACCUMULATED, "accumulated")] {
        for period_s in [5.1, 7.3, 10.0, 14.7, 21.9, 28.3] {
            let found = Node::new(period_s, parts).after((period_s * 7.0).max(60.0)).estimate();
            assert!(found.is_some_and(|s| (s / period_s - 1.0).abs() < 0.03), "{what}, {period_s} s: {found:?}");
        }
    }
}

#[test]
fn steps_that_samples_of_a_second_cannot_show_give_no_estimate_and_no_echo() {
    for parts in [REDUCE_LAST, OVERLAPPED, ACCUMULATED, UNEQUAL] {
        for period_s in [0.05, 0.1, 0.31, 0.49, 0.72, 0.8, 0.9, 0.97, 1.0, 1.05, 1.2, 1.33, 1.6, 2.0, 2.3, 2.5, 2.7, 3.0, 3.3] {
            for seconds in [40.0, 150.0] {
                let found = Node::new(period_s, parts).after(seconds).estimate();
                assert_eq!(found, None, "steps of {period_s} s, after {seconds} s");
            }
        }
    }
}

#[test]
fn what_may_be_no_step_or_a_part_of_one_gives_no_estimate() {
    for period_s in [5.1, 7.3, 12.0, 22.0] {
        for (parts, what) in
            [(LOADER, "GPUs idle between the batches that workers bring together"), (SHARDED, "traffic at all times"), (UNEQUAL, "halves")]
        {
            let found = Node::new(period_s, parts).after(period_s * 8.0).estimate();
            assert_eq!(found, None, "{what}, {period_s} s");
        }
        let mut one = Node::new(period_s, REDUCE_LAST);
        one.linked = 1;
        assert_eq!(one.after(period_s * 8.0).estimate(), None, "nobody confirms it");
    }
    assert_eq!(Node::new(7.3, REDUCE_LAST).after(7.3 * 4.0).estimate(), None, "seen four times");
    assert_eq!(Node::new(45.0, REDUCE_LAST).after(400.0).estimate(), None, "too slow for a step");
}

#[test]
fn ports_tell_it_too_and_readings_that_were_left_out_do_not_hide_it() {
    let mut far = Node::new(6.2, REDUCE_LAST);
    (far.linked, far.ports) = (0, 4);
    let found = far.after(60.0).rhythm().unwrap();
    assert!((found.period_s / 6.2 - 1.0).abs() < 0.03 && found.words().ends_with("s, estimated from traffic of RDMA ports"), "{found:?}");
    let mut seldom = Node::new(14.7, REDUCE_LAST);
    seldom.gpm_every = 3;
    let found = seldom.after(120.0).estimate();
    assert!(found.is_some_and(|s| (s / 14.7 - 1.0).abs() < 0.03), "{found:?}");
}

#[test]
fn it_is_shown_as_estimated_beside_what_is_measured_and_only_where_nothing_is() {
    let mut node = Node::new(7.3, REDUCE_LAST);
    node.after(80.0);
    let step = node.job()["estimated_step"].clone();
    assert_eq!((&step["from"], &step["agree"], &step["of"]), (&"NVLink traffic".into(), &4.into(), &4.into()), "{step}");
    assert!((step["step_time_s"].as_f64().unwrap() / 7.3 - 1.0).abs() < 0.03 && step["times_seen"].as_u64() >= Some(5), "{step}");
    assert!(node.job()["training"].is_null(), "what is estimated is not mixed with what is measured");
    let summary = node.job()["summary"].clone();
    let (words, estimate) = summary.as_str().unwrap().split_once("; a step takes ~7.").unwrap();
    assert_eq!((words, estimate.get(1..)), ("collectives advance; no log has step lines", Some(" s, estimated from NVLink traffic")));
    let line = Line { no: Some(1), text: "step 12 | loss 2.5".into(), ..Default::default() };
    node.see(Body::Lines(Lines { file: 1, lines: vec![line], ..Default::default() }));
    node.after(20.0);
    assert!(node.job()["estimated_step"].is_null(), "a log names steps now");
    assert_eq!(node.job()["training"]["step_time_s"], serde_json::Value::Null);
}

#[test]
fn a_wait_within_a_step_by_its_rhythm_is_no_hang_yet() {
    let mut node = Node::new(22.0, REDUCE_LAST);
    assert!(node.after(160.0).estimate().is_some());
    node.absent = true;
    node.set(&[(1.0, 0.0, 250.0)]);
    let hangs = |node: &Node| node.session.ledger.open().into_iter().any(|f| f.rule == "hang-rank-absent");
    node.after(25.0);
    assert!(!hangs(&node), "a step takes 22 s");
    node.after(25.0);
    assert!(hangs(&node));
}

#[test]
fn it_ends_with_the_traffic() {
    let mut node = Node::new(5.1, REDUCE_LAST);
    assert!(node.after(60.0).estimate().is_some());
    node.set(&[(1.0, 0.0, 250.0)]);
    assert_eq!(node.after(40.0).estimate(), None);
}

/// Steps of the recordings last 16 ms to 1 s, samples were taken once a second or less often: nothing can be estimated.
#[test]
fn no_recording_gives_an_estimate() {
    let mut judged = 0;
    for dir in ["tests/tapes", "tests/fixtures/stalls", "assets/demo"] {
        for entry in std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(dir)).unwrap() {
            let path = entry.unwrap().path();
            if !path.to_string_lossy().ends_with(".jsonl.gz") {
                continue;
            }
            let mut reader = Reader::open(&path).unwrap();
            let mut model = Model::default();
            while let Some(seen) = reader.read().unwrap() {
                let Some(seen) = filter(seen, &[Without::Log]) else { continue };
                model.apply(&seen);
                let found: Vec<_> = model.jobs.values().filter_map(|job| job.rhythm).collect();
                assert!(found.is_empty(), "{}: {found:?}", path.display());
            }
            assert!(!model.jobs.is_empty(), "{}: no job is known", path.display());
            judged += 1;
        }
    }
    assert!(judged >= 80, "{judged}");
}
