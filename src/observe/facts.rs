//! How the host is set up for jobs: what the host checks judge. Raw: files as they read, numbers as the kernel gave them.

use super::process::ProcessSetup;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// What a check wants to have looked at. A path is absolute, as on a live system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// A small text file.
    File(&'static str),
    /// The first line of a table that begins with each of these.
    Lines(&'static str, &'static [&'static str]),
    /// The names in a directory.
    Names(&'static str),
    /// The last line of a log that holds this.
    Last(&'static str, &'static str),
    /// Where a link leads.
    Link(&'static str),
    /// Something that another source, or a field of [`HostFacts`], holds: only its name is shown.
    Call(&'static str),
}

impl Look {
    /// The file or call.
    pub fn name(self) -> &'static str {
        match self {
            Look::File(name) | Look::Lines(name, _) | Look::Last(name, _) | Look::Names(name) | Look::Link(name) | Look::Call(name) => name,
        }
    }
}

/// What a look at one path gave.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reading {
    /// Without white space around it; names in a directory one a line. Lines of a table as they are.
    Text(String),
    /// There is no such file.
    Absent,
    /// Why not: `permission denied`.
    Unreadable(String),
}

/// Sent once, and again when it changed.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostFacts {
    /// By path.
    pub looked: BTreeMap<String, Reading>,
    /// The live host, not a tree below `--sysroot`.
    pub is_live: bool,
    /// What this program may use; a job that is started likewise may use the same.
    pub own: ProcessSetup,
    /// Size of /dev/shm: statvfs, or the mount's option below `--sysroot`.
    pub shm_bytes: Option<u64>,
    /// adjtimex(2), live only.
    pub clock: Option<ClockState>,
    /// Those of the daemons that checks ask for which run, by /proc/PID/comm (15 characters). `None`: /proc cannot be listed.
    pub daemons: Option<Vec<String>>,
    /// CPUs by their scaling_governor. Empty: no CPU has one.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub governors: BTreeMap<String, u32>,
    /// Device files below /dev/infiniband that this user may not open for reading and writing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// Variables of this program's environment that name interfaces, live only: in a job's step they are the job's.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    /// GPUs, NVSwitches and RDMA devices, in bus order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pci: Vec<PciFacts>,
    /// The bridges above them.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub bridges: Vec<BridgeFacts>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClockState {
    /// STA_UNSYNC: no daemon keeps it.
    pub unsynchronised: bool,
    /// esterror and maxerror, µs.
    pub estimated_error_us: u64,
    pub maximum_error_us: u64,
}

/// /sys/bus/pci/devices/BUS_ID
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PciFacts {
    pub bus_id: String,
    pub what: PciKind,
    /// iommu_group/type: `identity`, `DMA`, `DMA-FQ`.
    pub iommu_type: Option<String>,
    pub link: PcieLink,
    /// What the bridge right above it can do.
    pub upstream: PcieLink,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PciKind {
    Gpu,
    NvSwitch,
    Rdma,
    #[default]
    #[serde(other)]
    Other,
}

/// {current,max}_link_{speed,width}: GT/s and lanes.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PcieLink {
    pub speed_gt_per_s: Option<f64>,
    pub speed_max_gt_per_s: Option<f64>,
    pub width: Option<u32>,
    pub width_max: Option<u32>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BridgeFacts {
    pub bus_id: String,
    /// The control register of the extended capability 0x000d in its configuration space; `None`: it has none, or cannot be read.
    pub acs_control: Option<u16>,
    /// Only root sees more than the first 64 bytes.
    pub hidden: bool,
}
