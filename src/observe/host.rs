//! The machine itself.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Facts that hold until the next boot.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Node {
    pub hostname: String,
    /// /proc/sys/kernel/random/boot_id
    pub boot_id: Option<String>,
    /// /proc/sys/kernel/osrelease
    pub kernel: Option<String>,
    /// /sys/devices/virtual/dmi/id/{sys_vendor,product_name}: on AWS the instance type.
    pub vendor: Option<String>,
    pub product: Option<String>,
    pub cpus: Option<u32>,
    /// Name and version of the distribution: `Ubuntu 24.04`.
    pub os: Option<String>,
    /// As the CPUs call themselves: `AMD EPYC 9R14`.
    pub cpu_model: Option<String>,
    /// Seconds since the epoch.
    pub booted_at_s: Option<u64>,
    /// What kind of container this process runs in: `docker`, `podman`, `kubernetes`; `None` outside.
    pub container: Option<String>,
    /// /sys/class/iommu is not empty.
    pub iommu: Option<bool>,
    /// Hard limit of this process for locked memory, bytes; `u64::MAX` is unlimited.
    pub memlock_bytes: Option<u64>,
}

/// /proc/stat, /proc/meminfo, /proc/loadavg, statvfs and /sys/class/hwmon. Counters are cumulative since boot.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HostSample {
    /// user + nice + system + irq + softirq + steal, clock ticks, all CPUs.
    pub cpu_busy_ticks: Option<u64>,
    /// idle + iowait, clock ticks, all CPUs.
    pub cpu_idle_ticks: Option<u64>,
    pub cpu_iowait_ticks: Option<u64>,
    pub load_1m: Option<f64>,
    pub procs_running: Option<u64>,
    pub mem_total_bytes: Option<u64>,
    pub mem_available_bytes: Option<u64>,
    pub swap_total_bytes: Option<u64>,
    pub swap_free_bytes: Option<u64>,
    /// statvfs("/dev/shm")
    pub shm_total_bytes: Option<u64>,
    pub shm_free_bytes: Option<u64>,
    /// Of the live host all file systems that can fill, once in a while; else those of / and /tmp. Empty: not looked at this time.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub disks: Vec<DiskSample>,
    /// The hottest sensor of each kind, once in a while. Empty: not looked at this time, or there is none.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub temperatures: Vec<Temperature>,
    /// /proc/vmstat oom_kill: cumulative.
    pub oom_kills: Option<u64>,
    /// /proc/pressure: how long at least one task waited for a CPU, or for storage, µs since boot.
    pub cpu_pressure_us: Option<u64>,
    pub io_pressure_us: Option<u64>,
}

/// A file system, by statvfs.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskSample {
    pub mount: String,
    pub total_bytes: u64,
    /// What an ordinary user may still write.
    pub free_bytes: u64,
    /// Its type: `ext4`, `nfs4`. `None`: as recorded before it was known, or below `--sysroot`.
    pub fs: Option<String>,
    pub read_only: Option<bool>,
    /// `None`: it has no fixed number of them.
    pub inodes_total: Option<u64>,
    pub inodes_free: Option<u64>,
    /// st_dev of its files, where they have one in common.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<u64>,
    /// Which of /tmp and /dev/shm lie on it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub places: Vec<String>,
}

/// The hottest of all sensors of one kind, /sys/class/hwmon.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Temperature {
    /// Chip and label, without numbers: `coretemp Core`.
    pub sensor: String,
    pub celsius: f64,
    /// Where the chip says that it takes harm.
    pub critical_c: Option<f64>,
    /// How many there are of this kind.
    pub sensors: u32,
}

/// Memory of a control group, at the limit that leaves it least: its own, or that of a group above it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupMemory {
    /// As /proc/PID/cgroup names it.
    pub cgroup: String,
    /// The group whose limit it is. `None`: there is no limit, and the numbers are the group's own.
    pub limited_by: Option<String>,
    /// memory.max
    pub limit_bytes: Option<u64>,
    /// memory.current: with the cache of files.
    pub used_bytes: Option<u64>,
    /// What of it the kernel can take back before it kills: inactive_file + active_file of memory.stat. Only where there is a limit.
    pub cache_bytes: Option<u64>,
    /// memory.swap.max
    pub swap_limit_bytes: Option<u64>,
    /// memory.swap.current
    pub swap_used_bytes: Option<u64>,
    pub cpu: Option<CgroupCpu>,
}

/// The CPU time that a control group may use, at the level that was throttled most: its own, or a group above it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CgroupCpu {
    pub limited_by: String,
    /// How many CPUs it may use: quota / period of cpu.max.
    pub limit_cpus: Option<f64>,
    /// Periods in which it ran, and those in which it had used its quota before the end: cpu.stat, cumulative.
    pub periods: u64,
    pub throttled: u64,
}
