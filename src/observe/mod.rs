//! The vocabulary: everything that can enter the program from outside, as data. Nothing here is derived: counters stay cumulative,
//! texts stay raw, and a value that could not be read is `None`, never 0.
//!
//! A tape is these values as JSON lines, so a field may be added (`#[serde(default)]`), but not renamed or given another meaning.

pub mod evidence;
pub mod facts;
pub mod flight;
pub mod gpu;
pub mod host;
pub mod inspector;
pub mod log;
pub mod masking;
pub mod port;
pub mod process;

use crate::base::time::Stamp;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::sync::Arc;
use std::time::Duration;

/// How often [`Body::Tick`] comes while the program is live: so often silence is judged.
pub const TICK: Duration = Duration::from_secs(1);

/// Which source speaks, by its name in [`crate::sources::SOURCES`].
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SourceId(pub Cow<'static, str>);

impl SourceId {
    pub const fn of(name: &'static str) -> Self {
        SourceId(Cow::Borrowed(name))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// One thing seen, by one source, at one instant, on one host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Observation {
    /// Nanoseconds since the Unix epoch, on the clock of the observing host.
    #[serde(rename = "at_ns")]
    pub at: Stamp,
    /// `None`: the host that the tape's header names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub host: Option<Arc<str>>,
    pub from: SourceId,
    #[serde(flatten)]
    pub body: Body,
}

/// What was seen. One variant per kind of fact; a new source adds its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[non_exhaustive]
pub enum Body {
    /// A second has passed. Rules that judge silence run on this and on nothing else.
    Tick,
    /// There is no more input.
    End,
    /// The program stood still until now: it was stopped, the machine slept, or nobody read its output. What happened meanwhile was not
    /// seen, and that nothing was seen is no silence.
    Gap { for_ms: u64 },
    /// How a source is doing.
    Source(SourceReport),
    /// Facts about the host that do not change while it is up.
    Node(host::Node),
    /// How the host is set up: limits, modules, mounts, PCI links, the clock.
    HostFacts(Box<facts::HostFacts>),
    /// CPU, memory, shared memory, disk and load.
    Host(host::HostSample),
    /// Memory of control groups: that of this program, or those of the jobs' processes, all of them.
    Cgroups { cgroups: Vec<host::CgroupMemory> },
    /// Identity of one GPU.
    GpuInfo(gpu::GpuInfo),
    /// One sweep over the GPUs, fast lane.
    Gpus { gpus: Vec<gpu::GpuSample> },
    /// Compute processes per GPU.
    GpuProcesses { gpus: Vec<gpu::GpuProcesses> },
    /// ECC, remapped rows, NVLink and PCIe state, slow lane.
    GpuHealth { gpus: Vec<gpu::GpuHealth> },
    /// What the driver reports of GPUs by itself: Xids, ECC errors, retired rows.
    GpuEvents { events: Vec<gpu::GpuEvent> },
    /// How GPUs are joined.
    GpuTopology(gpu::GpuTopology),
    /// NVLinks of one GPU, link by link.
    Nvlinks(gpu::NvLinks),
    /// Network interfaces.
    Netdevs { netdevs: Vec<port::NetdevSample> },
    /// Identity of one RDMA port.
    PortInfo(port::PortInfo),
    /// Counters and state of RDMA ports.
    Ports { ports: Vec<port::PortSample> },
    /// Queue pairs of RDMA devices, by process: of each device all that it has. One that is not there was not asked.
    QueuePairs { devices: Vec<port::QueuePairs> },
    /// A process that belongs to a job, when first seen and whenever its facts change.
    Process(process::ProcessInfo),
    /// State and counters of the processes that belong to jobs.
    Processes { processes: Vec<process::ProcessSample> },
    /// A process that belonged to a job is gone.
    ProcessGone(process::ProcessGone),
    /// A log file was found, came back or was rotated.
    LogFile(log::LogFileInfo),
    /// Lines of a log.
    Lines(log::Lines),
    /// An answer of NCCL's RAS service, as it was received.
    Ras(log::RasAnswer),
    /// Kernel log lines.
    Kernel {
        lines: Vec<log::KernelLine>,
        /// Microseconds since boot when they were read: with it a line's own time is a time of day.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        uptime_us: Option<u64>,
    },
    /// A Flight Recorder dump that appeared.
    FlightDump(flight::FlightDump),
    /// What the NCCL Inspector last wrote of a process.
    Inspector(inspector::Inspected),
    /// What the user noted on a finding while it was watched.
    Remark(Remark),
    /// A kind this version does not know: skipped.
    #[serde(other)]
    Unknown,
}

/// A note of the user: of a finding, that it is acknowledged; of a rule, that it is muted. Or that it is so no longer.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Remark {
    pub rule: String,
    /// Together with the rule and the job it names the finding; of a rule there is neither.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// It was taken back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub over: bool,
}

/// The health of a source is data like any other.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    pub state: SourceState,
    /// In words, with the path or call that failed: `/sys/class/infiniband is empty`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// What the source sees: `GPUs through NVML`. Not on tape, whose reader knows it by the source's name.
    #[serde(skip)]
    pub title: Option<&'static str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceState {
    Ok,
    /// Nothing of the kind is on this machine, or it was turned off. Not a fault.
    Absent,
    /// It is there, but this user may not read it.
    Denied,
    /// It answers later than it should.
    Slow,
    Failed,
}

impl SourceState {
    pub fn as_str(self) -> &'static str {
        match self {
            SourceState::Ok => "ok",
            SourceState::Absent => "absent",
            SourceState::Denied => "denied",
            SourceState::Slow => "slow",
            SourceState::Failed => "failed",
        }
    }
}
