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
    /// Name and version of the distribution: `Ubuntu 24.04`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub os: Option<String>,
    /// As the CPUs call themselves: `AMD EPYC 9R14`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu_model: Option<String>,
    /// Seconds since the epoch.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booted_at_s: Option<u64>,
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

/// /proc/stat, /proc/meminfo, /proc/loadavg, statvfs and /sys/class/hwmon. Counters are cumulative since boot.
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
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_free_bytes: Option<u64>,
    /// statvfs("/dev/shm")
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shm_total_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shm_free_bytes: Option<u64>,
    /// Of the live host all file systems that can fill, once in a while; else those of / and /tmp. Empty: not looked at this time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskSample>,
    /// The hottest sensor of each kind, once in a while. Empty: not looked at this time, or there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub temperatures: Vec<Temperature>,
    /// /proc/vmstat oom_kill: cumulative.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub oom_kills: Option<u64>,
}

/// A file system, by statvfs.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskSample {
    pub mount: String,
    pub total_bytes: u64,
    /// What an ordinary user may still write.
    pub free_bytes: u64,
    /// Its type: `ext4`, `nfs4`. `None`: as recorded before it was known, or below `--sysroot`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fs: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_only: Option<bool>,
    /// `None`: it has no fixed number of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_total: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub inodes_free: Option<u64>,
    /// st_dev of its files, where they have one in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u64>,
    /// Which of /tmp and /dev/shm lie on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
}

/// The hottest of all sensors of one kind, /sys/class/hwmon.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Temperature {
    /// Chip and label, without numbers: `coretemp Core`.
    pub sensor: String,
    pub celsius: f64,
    /// Where the chip says that it takes harm.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub critical_c: Option<f64>,
    /// How many there are of this kind.
    pub sensors: u32,
}

/// Memory of a control group, at the limit that leaves it least: its own, or that of a group above it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupMemory {
    /// As /proc/PID/cgroup names it.
    pub cgroup: String,
    /// The group whose limit it is. `None`: there is no limit, and the numbers are the group's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limited_by: Option<String>,
    /// memory.max
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit_bytes: Option<u64>,
    /// memory.current: with the cache of files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub used_bytes: Option<u64>,
    /// What of it the kernel can take back before it kills: inactive_file + active_file of memory.stat. Only where there is a limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
    /// memory.swap.max
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_limit_bytes: Option<u64>,
    /// memory.swap.current
    #[serde(skip_serializing_if = "Option::is_none")]
    pub swap_used_bytes: Option<u64>,
}
