//! The table of metrics. To add one: a row of [`METRICS`] and the function that reads it from the session.
//!
//! What is not known is absent and never 0. A finding is a series while it is open. Labels are bounded in number and length; what changes
//! from look to look (pids, ages, texts) is never one.

use super::jobs::{self, SharedJob};
use super::own::Own;
use crate::base::clean::clean;
use crate::diagnosis::session::Session;
use crate::diagnosis::verdict::State;
use crate::model::comm::Comm;
use crate::model::gpu::{Gpu, THROTTLE_REASONS};
use crate::model::port::{Counters, Link};
use crate::model::progress::Progress;
use crate::model::signals::{self, RAS_OLD};
use crate::observe::SourceState;
use crate::rules::findings::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
}

/// A row of the table.
pub struct Metric {
    pub name: &'static str,
    pub kind: Kind,
    pub help: &'static str,
    pub labels: &'static [&'static str],
    read: fn(&View, &mut Samples),
}

/// A metric with all that is known of it now.
pub struct Family {
    pub metric: &'static Metric,
    /// By the values of its labels, in the order of [`Metric::labels`].
    pub samples: Samples,
}

/// Bounds: more is left out, and `nccltop_export_truncated` says so.
const MOST_JOBS: usize = 8;
const MOST_COMMS: usize = 16;
const MOST_PORTS: usize = 64;
const MOST_FINDINGS: usize = 64;
/// A node has 8 or 16 GPUs, and a rank on each.
const MOST_RANKS: usize = 64;
const MOST_LABEL_BYTES: usize = 128;

/// Values by labels: no two of the same.
#[derive(Default)]
pub struct Samples(BTreeMap<Vec<String>, f64>);

impl Samples {
    /// Of two values with the same labels the first counts. One that is not finite is not known.
    fn put<const N: usize>(&mut self, labels: [&str; N], value: impl Into<Option<f64>>) {
        if let Some(value) = value.into().filter(|value| value.is_finite()) {
            self.0.entry(labels.iter().map(|label| bounded(label)).collect()).or_insert(value);
        }
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl<'a> IntoIterator for &'a Samples {
    type Item = (&'a Vec<String>, &'a f64);
    type IntoIter = std::collections::btree_map::Iter<'a, Vec<String>, f64>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Without what a terminal would take for a command, and cut between two characters.
fn bounded(label: &str) -> String {
    let clean = clean(label);
    clean
        .chars()
        .scan(0, |bytes, c| {
            *bytes += c.len_utf8();
            (*bytes <= MOST_LABEL_BYTES).then_some(c)
        })
        .collect()
}

/// What rows read.
struct View<'a> {
    session: &'a Session,
    own: &'a Own,
    jobs: Vec<SharedJob<'a>>,
    /// Of each of the jobs, in the same order.
    comms: Vec<Vec<&'a Comm>>,
    ports: Vec<PortView<'a>>,
    findings: Vec<&'a Finding>,
    /// What was left out, and how much of it.
    truncated: BTreeMap<&'static str, usize>,
}

/// An RDMA port, or an interface where there are none.
struct PortView<'a> {
    name: String,
    kind: &'static str,
    link: Link,
    bits_per_s: Option<u64>,
    counters: &'a Counters,
    /// What was received and sent: a counter, and how many bytes each of it is.
    received: (&'static str, f64),
    sent: (&'static str, f64),
}

/// All metrics, in the order of the table.
pub fn read(session: &Session, own: &Own) -> Vec<Family> {
    let view = View::of(session, own);
    let families = METRICS.iter().map(|metric| {
        let mut samples = Samples::default();
        (metric.read)(&view, &mut samples);
        Family { metric, samples }
    });
    families.collect()
}

/// Moves all moments among the values by so many seconds.
pub fn move_stamps(families: &mut [Family], by: f64) {
    for family in families.iter_mut().filter(|family| by != 0.0 && family.metric.name.ends_with("_timestamp_seconds")) {
        family.samples.0.values_mut().for_each(|at| *at += by);
    }
}

const fn gauge(name: &'static str, help: &'static str, labels: &'static [&'static str], read: fn(&View, &mut Samples)) -> Metric {
    Metric { name, kind: Kind::Gauge, help, labels, read }
}

const fn counter(name: &'static str, help: &'static str, labels: &'static [&'static str], read: fn(&View, &mut Samples)) -> Metric {
    Metric { name, kind: Kind::Counter, help, labels, read }
}

const JOB_INFO: &[&str] = &[
    "job_id",
    "slurm_job_id",
    "job_name",
    "user",
    "account",
    "partition",
    "cluster",
    "namespace",
    "pod",
    "container",
    "pod_uid",
    "launcher",
    "nccl_version",
];
const FINDING: &[&str] = &["job_id", "rule", "severity", "role", "rank", "gpu", "port", "node"];

#[rustfmt::skip]
pub const METRICS: &[Metric] = &[
    gauge("nccltop_build_info", "Version of nccl-top; the value is always 1.", &["version"], |_, out| out.put([env!("CARGO_PKG_VERSION")], 1.0)),
    gauge("nccltop_node_address_info", "An address by which RAS on other nodes names this node; the value is always 1.", &["address"], addresses),
    gauge("nccltop_source_up", "Whether a source of signals answers. Absent where the machine has nothing of the kind.", &["source"], sources),
    gauge("nccltop_job_info", "What Slurm, Kubernetes and NCCL call the job; the value is always 1.", JOB_INFO, job_info),
    gauge("nccltop_job_state", "Whether the job is in this state: 1 for one of them, 0 for the others.", &["job_id", "state"], job_state),
    gauge("nccltop_job_state_start_timestamp_seconds", "When the state of the job began.", &["job_id"], |v, out| v.each(out, |v, job| Some(v.session.verdicts.get(&job.main.id)?.since.secs_since_epoch()))),
    gauge("nccltop_job_step", "The last step that a log names.", &["job_id"], |v, out| v.each(out, |v, job| Some(v.progress(job)?.step? as f64))),
    gauge("nccltop_job_steps_planned", "The step at which training ends, where a log names it.", &["job_id"], |v, out| v.each(out, |v, job| Some(v.progress(job)?.total_steps? as f64))),
    gauge("nccltop_job_step_time_seconds", "How long the last step took.", &["job_id"], |v, out| v.each(out, |v, job| v.progress(job)?.step_time_s)),
    gauge("nccltop_job_step_time_usual_seconds", "The median of steps, before they became slower if they did.", &["job_id"], |v, out| v.each(out, |v, job| v.progress(job)?.usual_step_s().map(|usual| usual.0))),
    gauge("nccltop_job_last_step_timestamp_seconds", "When the step last grew.", &["job_id"], |v, out| v.each(out, |v, job| v.progress(job)?.last_step_at.map(|at| at.secs_since_epoch()))),
    gauge("nccltop_job_loss", "The last loss that a log names; absent where it is not finite.", &["job_id"], |v, out| v.each(out, |v, job| v.progress(job)?.loss)),
    gauge("nccltop_job_throughput_per_second", "The last throughput that a log names, in the unit of the log.", &["job_id", "unit"], throughput),
    gauge("nccltop_job_world_size", "Ranks of the whole job.", &["job_id"], |v, out| v.each(out, |_, job| job.main.world_size.map(f64::from))),
    gauge("nccltop_job_local_ranks", "Ranks of the job that this node reports, alive or not.", &["job_id"], |v, out| v.each(out, |_, job| Some(job.parts.iter().map(|part| part.ranks.len()).sum::<usize>()).filter(|n| *n > 0).map(|n| n as f64))),
    counter("nccltop_job_restarts_total", "How often the ranks were started anew.", &["job_id"], |v, out| v.each(out, |v, job| Some(f64::from(v.session.model.restarts_of(job.main))))),
    gauge("nccltop_job_waiting_least_ratio", "Share of time that ranks of this node waited for others in a collective, on average: the least of the last three times 4 s.", &["job_id"], |v, out| v.each(out, |_, job| Some(job.main.waited()?.0))),
    gauge("nccltop_job_waiting_most_ratio", "The same: the largest of the last three times 4 s.", &["job_id"], |v, out| v.each(out, |_, job| Some(job.main.waited()?.1))),
    gauge("nccltop_rank_info", "A rank of this node; the value is always 1.", &["job_id", "rank", "local_rank", "gpu"], rank_info),
    counter("nccltop_rank_activity_seconds_total", "What the GPU of a rank spent its time with: working, waiting for others in a collective, idle, or other (not known, stopped, gone).", &["job_id", "rank", "gpu", "activity"], rank_activity),
    gauge("nccltop_rank_step_lag_seconds", "By how much later than the first rank of this node a rank made its last step; only where each rank has a log.", &["job_id", "rank"], step_lag),
    gauge("nccltop_comm_still_seconds", "How long no count of operations has changed in a communicator, by RAS; 0 while they change.", &["job_id", "comm"], comm_still),
    gauge("nccltop_comm_operations_min", "Operations launched by the rank of this node that has launched fewest, by RAS.", &["job_id", "comm"], |v, out| comm_operations(v, out, |range| range.0)),
    gauge("nccltop_comm_operations_max", "Operations launched by the rank of this node that has launched most, by RAS.", &["job_id", "comm"], |v, out| comm_operations(v, out, |range| range.1)),
    gauge("nccltop_finding_open", "A finding that is open, once for each rank that it blames; the value is always 1.", FINDING, findings),
    counter("nccltop_findings_total", "Findings opened.", &["rule", "severity"], |v, out| v.session.ledger.totals().iter().for_each(|((rule, severity), n)| out.put([rule, severity.as_str()], *n as f64))),
    gauge("nccltop_gpu_info", "A GPU of this node; the value is always 1.", &["gpu", "uuid", "pci_bus_id", "model", "driver"], gpu_info),
    gauge("nccltop_gpu_sm_active_ratio", "Share of SMs with a kernel on them, by GPM.", &["gpu"], |v, out| v.gpus(out, |gpu| Some(share(gpu.gpm()?.sm_active_pct?)))),
    gauge("nccltop_gpu_tensor_active_ratio", "Share of time in which tensor cores worked, by GPM.", &["gpu"], |v, out| v.gpus(out, |gpu| Some(share(gpu.gpm()?.tensor_active_pct?)))),
    gauge("nccltop_gpu_power_watts", "Power drawn.", &["gpu"], |v, out| v.gpus(out, |gpu| Some(gpu.sample.power_mw? as f64 / 1e3))),
    gauge("nccltop_gpu_sm_clock_hertz", "Clock of the SMs.", &["gpu"], |v, out| v.gpus(out, |gpu| Some(f64::from(gpu.sample.sm_clock_mhz?) * 1e6))),
    gauge("nccltop_gpu_temperature_celsius", "Temperature.", &["gpu"], |v, out| v.gpus(out, |gpu| Some(f64::from(gpu.sample.temp_c?)))),
    gauge("nccltop_gpu_memory_used_bytes", "Memory in use.", &["gpu"], |v, out| v.gpus(out, |gpu| Some(gpu.sample.mem_used_bytes? as f64))),
    gauge("nccltop_gpu_nvlink_transmit_bytes_per_second", "What the GPU sends over NVLink.", &["gpu"], |v, out| v.gpus(out, |gpu| gpu.nvlink_tx_bytes_per_s)),
    gauge("nccltop_gpu_nvlinks_up", "NVLinks that are active.", &["gpu"], |v, out| v.gpus(out, |gpu| gpu.nvlinks_up().map(f64::from))),
    counter("nccltop_gpu_throttled_seconds_total", "How long hardware or heat has held the clocks of a GPU down.", &["gpu", "reason"], throttled),
    counter("nccltop_gpu_xid_total", "Xids reported by kernel and driver since nccl-top began.", &["gpu", "xid"], |v, out| v.session.xids().iter().for_each(|((gpu, xid), n)| out.put([&gpu.to_string(), &xid.to_string()], *n as f64))),
    counter("nccltop_gpu_ecc_uncorrected_total", "Uncorrected ECC errors since the driver was loaded.", &["gpu"], |v, out| v.gpus(out, |gpu| Some(gpu.health.as_ref()?.ecc_uncorrected_volatile? as f64))),
    counter("nccltop_gpu_nvlink_errors_total", "Errors of all NVLinks of a GPU since the driver was loaded.", &["gpu", "kind"], nvlink_errors),
    counter("nccltop_port_receive_bytes_total", "Bytes received by a port.", &["port", "kind"], |v, out| v.ports(out, |port| port.bytes(port.received))),
    counter("nccltop_port_transmit_bytes_total", "Bytes sent by a port.", &["port", "kind"], |v, out| v.ports(out, |port| port.bytes(port.sent))),
    counter("nccltop_port_loss_total", "What a port lost, refused or sent again: the sum of its counters that mean loss.", &["port", "kind"], |v, out| v.ports(out, |port| port.lost())),
    gauge("nccltop_port_up", "Whether traffic can flow.", &["port", "kind"], |v, out| v.ports(out, |port| (port.link != Link::Unknown).then_some(f64::from(u8::from(port.link == Link::Up))))),
    gauge("nccltop_port_line_rate_bytes_per_second", "What a port can carry each way.", &["port", "kind"], |v, out| v.ports(out, |port| port.bits_per_s.map(|bits| bits as f64 / 8.0))),
    counter("nccltop_log_events_total", "Lines of logs that report a failure or warn of one.", &["job_id", "severity"], log_events),
    gauge("nccltop_poll_duration_seconds", "How long the last poll of a source took.", &["source"], |v, out| v.own.polls.iter().for_each(|(source, took)| out.put([source], took.as_secs_f64()))),
    gauge("nccltop_export_truncated", "How many were left out, because there are more than the exporter shows.", &["what"], |v, out| v.truncated.iter().for_each(|(what, n)| out.put([what], *n as f64))),
    counter("process_cpu_seconds_total", "CPU time of nccl-top.", &[], |v, out| out.put([], v.own.cpu_s)),
    gauge("process_resident_memory_bytes", "Memory of nccl-top.", &[], |v, out| out.put([], v.own.resident_bytes)),
    gauge("process_open_fds", "Open files of nccl-top.", &[], |v, out| out.put([], v.own.open_files)),
    gauge("process_start_time_seconds", "When nccl-top began.", &[], |v, out| out.put([], v.own.started_s)),
];

impl<'a> View<'a> {
    fn of(session: &'a Session, own: &'a Own) -> View<'a> {
        let model = &session.model;
        let mut truncated = BTreeMap::new();
        let mut left_out = |what, n: usize| {
            if n > 0 {
                *truncated.entry(what).or_default() += n;
            }
        };
        let mut jobs = jobs::shared(session);
        left_out("jobs", jobs.len().saturating_sub(MOST_JOBS));
        jobs.truncate(MOST_JOBS);
        let comms = jobs.iter().map(|job| {
            let mut comms: BTreeMap<u64, &Comm> = job.parts.iter().flat_map(|part| model.comms_of(part)).map(|c| (c.hash, c)).collect();
            comms.retain(|_, comm| comm.nranks > 1 && comm.answered_at.is_some_and(|at| model.now.since(at) <= RAS_OLD));
            let mut comms: Vec<&Comm> = comms.into_values().collect();
            // What stands still is what is asked for.
            let is_still = |comm: &Comm| comm.still_for().is_some_and(|still| still > Duration::from_secs(30));
            comms.sort_by_key(|comm| std::cmp::Reverse((is_still(comm), comm.nranks, comm.operations(), comm.hash)));
            left_out("comms", comms.len().saturating_sub(MOST_COMMS));
            comms.truncate(MOST_COMMS);
            comms
        });
        let comms = comms.collect();
        let mut ports: Vec<PortView> = model.ports.values().map(PortView::rdma).collect();
        if ports.is_empty() {
            ports = model.netdevs.values().filter(|netdev| netdev.is_physical()).map(PortView::interface).collect();
        }
        left_out("ports", ports.len().saturating_sub(MOST_PORTS));
        ports.truncate(MOST_PORTS);
        let findings = session.ledger.open();
        View { session, own, jobs, comms, ports, findings, truncated: BTreeMap::new() }.with(truncated)
    }

    fn with(mut self, mut truncated: BTreeMap<&'static str, usize>) -> View<'a> {
        let more = self.findings.len().saturating_sub(MOST_FINDINGS);
        if more > 0 {
            truncated.insert("findings", more);
        }
        self.findings.truncate(MOST_FINDINGS);
        self.truncated = truncated;
        self
    }

    /// A value of each job.
    fn each(&self, out: &mut Samples, value: impl Fn(&Self, &SharedJob) -> Option<f64>) {
        self.jobs.iter().for_each(|job| out.put([&job.identity.id], value(self, job)));
    }

    fn gpus(&self, out: &mut Samples, value: impl Fn(&Gpu) -> Option<f64>) {
        let model = &self.session.model;
        // What a GPU did when it was last asked says nothing about now.
        let fresh = model.gpus.values().filter(|gpu| gpu.is_fresh(model.now));
        fresh.for_each(|gpu| out.put([&gpu.index.to_string()], value(gpu)));
    }

    fn ports(&self, out: &mut Samples, value: impl Fn(&PortView) -> Option<f64>) {
        self.ports.iter().for_each(|port| out.put([&port.name, port.kind], value(port)));
    }

    fn progress(&self, job: &SharedJob) -> Option<&'a Progress> {
        let known = job.parts.iter().filter_map(|part| self.session.model.progress_of(&part.id));
        known.max_by_key(|progress| (progress.last_step_at, progress.step))
    }

    /// The ranks of a job on this node: number, process, GPU.
    fn ranks(&self, job: &SharedJob<'a>) -> Vec<(u32, u32, String)> {
        let gpu = |pid| self.session.model.gpu_of_pid(pid).map_or(String::new(), |gpu| gpu.to_string());
        let own = job.parts.iter().flat_map(|part| part.ranks.iter().map(|(rank, pid)| (*rank, *pid)));
        // Where processes may not be seen, those that logs or RAS name.
        let looks = job.parts.iter().filter(|part| part.log_only).filter_map(|part| self.session.look(&part.id));
        let unseen = looks.flat_map(|look| look.ranks.values().map(|rank| (rank.rank, rank.pid)));
        own.chain(unseen).take(MOST_RANKS).map(|(rank, pid)| (rank, pid, gpu(pid))).collect()
    }
}

impl<'a> PortView<'a> {
    fn rdma(port: &'a crate::model::port::Port) -> PortView<'a> {
        let [sent, received] = port.byte_counters();
        PortView {
            name: port.name(),
            kind: port.info.kind.as_str(),
            link: port.link.now,
            bits_per_s: port.sample.line_rate_bits_per_s,
            counters: &port.counters,
            received,
            sent,
        }
    }

    fn interface(netdev: &'a crate::model::port::Netdev) -> PortView<'a> {
        PortView {
            name: netdev.sample.name.clone(),
            kind: "netdev",
            link: netdev.link.now,
            bits_per_s: netdev.sample.speed_mbits_per_s.map(|mbits| mbits.saturating_mul(1_000_000)),
            counters: &netdev.counters,
            received: ("rx_bytes", 1.0),
            sent: ("tx_bytes", 1.0),
        }
    }

    fn bytes(&self, (name, bytes): (&str, f64)) -> Option<f64> {
        Some(self.counters.value(name)? as f64 * bytes)
    }

    fn lost(&self) -> Option<f64> {
        self.counters.meaningful().filter(|known| known.meaning.is_loss).map(|known| known.value as f64).reduce(|a, b| a + b)
    }
}

/// GPM's own resolution is no better.
fn share(pct: f32) -> f64 {
    (f64::from(pct) * 100.0).round() / 1e4
}

fn addresses(view: &View, out: &mut Samples) {
    let model = &view.session.model;
    let by_ras = view.jobs.iter().filter_map(|job| {
        let look = view.session.look(&job.main.id)?;
        signals::name_here(model, job.main, &look.ranks)
    });
    let all: BTreeSet<String> = view.own.addresses.iter().cloned().chain(by_ras).collect();
    all.iter().for_each(|address| out.put([address], 1.0));
}

fn sources(view: &View, out: &mut Samples) {
    for (id, source) in view.session.model.sources.iter().filter(|(_, source)| source.state != SourceState::Absent) {
        out.put([id.as_str()], f64::from(u8::from(source.state == SourceState::Ok)));
    }
}

fn job_info(view: &View, out: &mut Samples) {
    let model = &view.session.model;
    for job in &view.jobs {
        let slurm = job.identity.slurm.clone().unwrap_or_default();
        let pod = job.identity.pod.clone().unwrap_or_default();
        let or_none = |value: &Option<String>| value.clone().unwrap_or_default();
        let version = model.nccl_version_of(job.main);
        out.put(
            [
                &job.identity.id,
                &slurm.job_id,
                &or_none(&slurm.name),
                &or_none(&slurm.user),
                &or_none(&slurm.account),
                &or_none(&slurm.partition),
                &or_none(&slurm.cluster),
                &or_none(&pod.namespace),
                &or_none(&pod.name),
                &or_none(&pod.container),
                &pod.uid,
                model.launcher_name(job.main).unwrap_or_default(),
                &version.unwrap_or_default(),
            ],
            1.0,
        );
    }
}

fn job_state(view: &View, out: &mut Samples) {
    for job in &view.jobs {
        let Some(verdict) = view.session.verdicts.get(&job.main.id) else { continue };
        for state in State::ALL {
            out.put([&job.identity.id, state.as_str()], f64::from(u8::from(state == verdict.state)));
        }
    }
}

fn throughput(view: &View, out: &mut Samples) {
    for job in &view.jobs {
        let Some(progress) = view.progress(job) else { continue };
        out.put([&job.identity.id, progress.throughput_unit.unwrap_or_default()], progress.throughput);
    }
}

fn rank_info(view: &View, out: &mut Samples) {
    for job in &view.jobs {
        for (rank, pid, gpu) in view.ranks(job) {
            let local = view.session.model.processes.get(&pid).and_then(|process| process.local_rank());
            out.put([&job.identity.id, &rank.to_string(), &local.map_or(String::new(), |n| n.to_string()), &gpu], 1.0);
        }
    }
}

fn rank_activity(view: &View, out: &mut Samples) {
    for job in &view.jobs {
        for (rank, _, gpu) in view.ranks(job) {
            let Some(spent) = job.parts.iter().find_map(|part| part.spent.get(&rank)) else { continue };
            for (activity, time) in spent.parts() {
                out.put([&job.identity.id, &rank.to_string(), &gpu, activity], time.as_millis() as f64 / 1e3);
            }
        }
    }
}

fn step_lag(view: &View, out: &mut Samples) {
    for job in &view.jobs {
        let files = job.parts.iter().flat_map(|part| view.session.model.files_of(&part.id));
        let steps: BTreeMap<u32, _> = files.filter_map(|file| Some((file.rank?, file.progress.last_step_at?))).collect();
        let Some(first) = steps.values().max().filter(|_| steps.len() > 1) else { continue };
        for (rank, at) in steps.iter().take(MOST_RANKS) {
            out.put([&job.identity.id, &rank.to_string()], first.secs_since(*at));
        }
    }
}

fn comm_name(comm: u64) -> String {
    format!("{comm:016x}")
}

fn comm_still(view: &View, out: &mut Samples) {
    for (job, comms) in view.jobs.iter().zip(&view.comms) {
        for comm in comms.iter().filter(|comm| comm.ranks.values().any(|rank| !rank.counts.is_empty())) {
            out.put([&job.identity.id, &comm_name(comm.hash)], comm.still_for().unwrap_or_default().as_secs_f64());
        }
    }
}

fn comm_operations(view: &View, out: &mut Samples, which: fn((u64, u64)) -> u64) {
    for (job, comms) in view.jobs.iter().zip(&view.comms) {
        let mut here: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for part in &job.parts {
            let Some(look) = view.session.look(&part.id) else { continue };
            for (comm, (min, max)) in signals::operations_here(&view.session.model, part, &look.ranks) {
                here.entry(comm).and_modify(|known| *known = (known.0.min(min), known.1.max(max))).or_insert((min, max));
            }
        }
        for comm in comms {
            out.put([&job.identity.id, &comm_name(comm.hash)], here.get(&comm.hash).map(|range| which(*range) as f64));
        }
    }
}

fn findings(view: &View, out: &mut Samples) {
    for finding in &view.findings {
        let job =
            finding.job.as_ref().and_then(|id| view.jobs.iter().find(|job| job.main.id == *id || job.parts.iter().any(|p| p.id == *id)));
        let one = |all: &[String]| if let [one] = all { one.clone() } else { String::new() };
        let port = one(&finding.ports);
        let blames_one = finding.ranks.len() == 1;
        let mut put = |rank: Option<u32>| {
            let place = rank.zip(job).and_then(|(rank, job)| place_of(view, job, rank));
            let of_one = finding.gpus.first().filter(|_| finding.gpus.len() == 1 && (blames_one || rank.is_none())).map(u32::to_string);
            let (gpu, node) = match place {
                Some(Place::Here { gpu }) => (gpu.or(of_one), None),
                Some(Place::There { node }) => (None, Some(node)),
                None => (of_one, Some(one(&finding.hosts)).filter(|host| *host != view.session.model.host)),
            };
            out.put(
                [
                    job.map_or("", |job| &job.identity.id),
                    finding.rule,
                    finding.severity.as_str(),
                    finding.role.as_str(),
                    &rank.map_or(String::new(), |rank| rank.to_string()),
                    &gpu.unwrap_or_default(),
                    &port,
                    &node.unwrap_or_default(),
                ],
                1.0,
            );
        };
        if finding.ranks.is_empty() {
            put(None);
        }
        finding.ranks.iter().take(MOST_RANKS).for_each(|rank| put(Some(*rank)));
    }
}

enum Place {
    Here { gpu: Option<String> },
    There { node: String },
}

/// Where a rank runs: here, or on the node that RAS names.
fn place_of(view: &View, job: &SharedJob, rank: u32) -> Option<Place> {
    let model = &view.session.model;
    if let Some(pid) = job.parts.iter().find_map(|part| part.ranks.get(&rank)) {
        return Some(Place::Here { gpu: model.gpu_of_pid(*pid).map(|gpu| gpu.to_string()) });
    }
    let mut whole = model.comms_of(job.main).filter(|comm| job.main.world_size == Some(comm.nranks));
    let host = |comm: &Comm| {
        let missing = comm.missing.get(&rank).and_then(|known| known.host.clone());
        missing.or_else(|| comm.ranks.get(&rank)?.host.clone())
    };
    whole.find_map(host).map(|node| Place::There { node })
}

fn gpu_info(view: &View, out: &mut Samples) {
    for gpu in view.session.model.gpus.values() {
        let known = |value: &Option<String>| value.clone().unwrap_or_default();
        let info = &gpu.info;
        out.put([&gpu.index.to_string(), &known(&info.uuid), &known(&info.bus_id), &known(&info.name), &known(&info.driver)], 1.0);
    }
}

fn throttled(view: &View, out: &mut Samples) {
    for gpu in view.session.model.gpus.values() {
        for ((_, reason), held) in THROTTLE_REASONS.iter().zip(gpu.throttled_for).filter(|(_, held)| !held.is_zero()) {
            out.put([&gpu.index.to_string(), reason], held.as_secs_f64());
        }
    }
}

fn nvlink_errors(view: &View, out: &mut Samples) {
    for gpu in view.session.model.gpus.values() {
        let Some(health) = &gpu.health else { continue };
        for (kind, n) in [("replay", health.nvlink_replays), ("recovery", health.nvlink_recoveries), ("crc", health.nvlink_crc_errors)] {
            out.put([&gpu.index.to_string(), kind], n.map(|n| n as f64));
        }
    }
}

fn log_events(view: &View, out: &mut Samples) {
    for job in &view.jobs {
        let Some(record) = view.session.model.records.get(&job.main.id) else { continue };
        for (severity, n) in &record.said {
            out.put([&job.identity.id, severity.as_str()], *n as f64);
        }
    }
}
