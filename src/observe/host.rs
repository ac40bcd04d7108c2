//! The machine itself.

use serde::{Deserialize, Serialize};

/// Facts that hold until the next boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub hostname: String,
    /// /proc/sys/kernel/random/boot_id
    #[serde(skip_serializing_if = "Option::is_none")]
    pub boot_id: Option<String>,
    /// /proc/sys/kernel/osrelease
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// /sys/devices/virtual/dmi/id/{sys_vendor,product_name}: on AWS the instance type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub vendor: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub product: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u32>,
    /// What kind of container this process runs in: `docker`, `podman`, `kubernetes`; `None` outside.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub container: Option<String>,
    /// /sys/class/iommu is not empty.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub iommu: Option<bool>,
    /// Hard limit of this process for locked memory, bytes; `u64::MAX` is unlimited.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memlock_bytes: Option<u64>,
}

/// /proc/stat, /proc/meminfo, /proc/loadavg and statvfs. Counters are cumulative since boot.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSample {
    /// user + nice + system + irq + softirq + steal, clock ticks, all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_busy_ticks: Option<u64>,
    /// idle + iowait, clock ticks, all CPUs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_idle_ticks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_iowait_ticks: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub load_1m: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub procs_running: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mem_available_bytes: Option<u64>,
    /// statvfs("/dev/shm")
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shm_total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shm_free_bytes: Option<u64>,
    /// Free bytes of the file systems that hold the job's logs and working directories, and /tmp.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskSample>,
    /// /proc/vmstat oom_kill: cumulative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskSample {
    pub mount: String,
    pub total_bytes: u64,
    pub free_bytes: u64,
}
