//! GPUs, as NVML reports them.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// Identity of one GPU; sent once, and again when it changes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuInfo {
    /// NVML index: that of `nvidia-smi` in the same container.
    pub index: u32,
    pub uuid: Option<String>,
    pub name: Option<String>,
    /// Lower case, four-digit domain where it fits: `0000:00:09.0`.
    pub bus_id: Option<String>,
    /// The N of /dev/nvidiaN.
    pub minor: Option<u32>,
    /// `None` where the firmware does not say (-1 in sysfs).
    pub numa: Option<u32>,
    /// The node whose memory is near: `numa`, or, where the firmware does not say, the only node that the machine has.
    pub numa_affinity: Option<u32>,
    /// `local_cpulist` of the PCI function: `0-47,96-143`.
    pub cpus: Option<String>,
    /// The parent chain in sysfs, for distances: `/sys/devices/pci0000:00/…` without the root.
    pub pci_path: Option<String>,
    pub driver: Option<String>,
    /// CUDA version of the driver, 1000 * major + 10 * minor.
    pub cuda_driver: Option<u32>,
    pub power_limit_mw: Option<u64>,
    pub power_limit_default_mw: Option<u64>,
    pub sm_clock_max_mhz: Option<u32>,
    pub mem_total_bytes: Option<u64>,
    /// Temperature at which the GPU slows itself down, °C.
    pub slowdown_c: Option<u32>,
    pub sm_count: Option<u32>,
    /// GPM (SM, tensor, DRAM activity) is there: Hopper and newer.
    pub gpm: Option<bool>,
    pub mig: Option<bool>,
    /// With MIG mode on: instances that there are.
    pub mig_instances: Option<u32>,
    /// Persistence mode.
    pub persistence: Option<bool>,
}

/// One look at one GPU, fast lane.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuSample {
    pub index: u32,
    /// `Some` when the GPU did not answer: the NVML error or deadline in words. The other fields are then `None`.
    pub trouble: Option<GpuTrouble>,
    /// Share of the last sampling period in which a kernel was resident, %. A waiting collective counts.
    pub util_pct: Option<u32>,
    /// Share of the period in which device memory was read or written, %.
    pub mem_util_pct: Option<u32>,
    pub mem_used_bytes: Option<u64>,
    pub mem_total_bytes: Option<u64>,
    /// Mean over about a second on Ampere and newer.
    pub power_mw: Option<u64>,
    pub sm_clock_mhz: Option<u32>,
    pub mem_clock_mhz: Option<u32>,
    pub temp_c: Option<u32>,
    /// nvmlDeviceGetCurrentClocksEventReasons, raw bits.
    pub throttle_bits: Option<u64>,
    /// GPM, means since it was last read. `None` where GPM is missing, for NaN, and when it was not read this time: it is read seldom
    /// while utilisation and power stay as they are, at every sample when they change.
    pub gpm: Option<Gpm>,
    /// Field 138 and 139, scope all links, KiB since the driver was loaded.
    pub nvlink_tx_kib: Option<u64>,
    pub nvlink_rx_kib: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct GpuTrouble {
    pub kind: GpuTroubleKind,
    /// NVML's words or the deadline that passed.
    pub detail: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GpuTroubleKind {
    /// A call has not returned within the deadline.
    NotAnswering,
    /// NVML_ERROR_GPU_IS_LOST: it fell off the bus.
    Lost,
    /// NVML_ERROR_RESET_REQUIRED
    ResetRequired,
    Failed,
}

/// NVML GPM metrics 1, 2, 3, 5, 10, 20, 21, 60, 61. Percent, or bytes per second from the GPU's side of the link.
#[skip_serializing_none]
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Gpm {
    pub graphics_active_pct: Option<f32>,
    pub sm_active_pct: Option<f32>,
    pub sm_occupancy_pct: Option<f32>,
    pub tensor_active_pct: Option<f32>,
    pub dram_active_pct: Option<f32>,
    pub pcie_tx_bytes_per_s: Option<f64>,
    pub pcie_rx_bytes_per_s: Option<f64>,
    pub nvlink_tx_bytes_per_s: Option<f64>,
    pub nvlink_rx_bytes_per_s: Option<f64>,
}

/// nvmlDeviceGetComputeRunningProcesses
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuProcesses {
    pub index: u32,
    pub processes: Vec<GpuProcess>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuProcess {
    pub pid: u32,
    /// `None` where NVML reports all ones.
    pub mem_bytes: Option<u64>,
}

/// Slow lane. All counters cumulative. What is absent was not asked this time, or is not supported.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuHealth {
    pub index: u32,
    /// Field 4: uncorrected, since driver load.
    pub ecc_uncorrected_volatile: Option<u64>,
    /// Field 3: corrected, since driver load.
    pub ecc_corrected_volatile: Option<u64>,
    /// Field 6: uncorrected, lifetime.
    pub ecc_uncorrected_aggregate: Option<u64>,
    /// Fields 142-145.
    pub remapped_correctable: Option<u64>,
    pub remapped_uncorrectable: Option<u64>,
    pub remap_pending: Option<bool>,
    pub remap_failed: Option<bool>,
    /// Field 230: 0 none, 1 GPU reset, 2 node reboot, 3 drain P2P, 4 drain and reset.
    pub recovery_action: Option<u32>,
    pub pcie_gen: Option<u32>,
    pub pcie_gen_max: Option<u32>,
    pub pcie_width: Option<u32>,
    pub pcie_width_max: Option<u32>,
    pub pcie_replays: Option<u64>,
    /// Field 165 per link: 0 off, 1 active, 2 sleep. Empty where there is no NVLink.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nvlink_states: Vec<Option<u32>>,
    /// Fields 161-163, scope all links.
    pub nvlink_replays: Option<u64>,
    pub nvlink_recoveries: Option<u64>,
    pub nvlink_crc_errors: Option<u64>,
    /// GPM metrics 62 to 97: out and in per link, the mean since GPM was read before. Empty where GPM is missing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nvlink_tx_mbytes_per_s: Vec<u32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub nvlink_rx_mbytes_per_s: Vec<u32>,
    pub power_limit_mw: Option<u64>,
    /// nvmlDeviceGetGpuFabricInfoV state: 0 not supported, 1 not started, 2 in progress, 3 completed.
    pub fabric_state: Option<u32>,
    /// Its health mask, of version 2 and newer.
    pub fabric_health: Option<u32>,
    /// The rest of its answer.
    pub fabric: Option<Fabric>,
}

/// Where a GPU stands in the NVLink fabric: nvmlDeviceGetGpuFabricInfoV.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Fabric {
    /// clusterUuid, 32 hexadecimal digits. `None` where it is zero: the fabric ends at this host.
    pub cluster: Option<String>,
    /// GPUs of one cluster and clique reach one another over NVLink.
    pub clique: u32,
    /// How the GPU's registration ended, as an nvmlReturn_t: 0 is well. It counts once the state is 3.
    pub status: u32,
    /// healthSummary of version 3: 0 not supported, 1 healthy, 2 unhealthy, 3 limited capacity.
    pub summary: Option<u32>,
}

/// The NVLinks of one GPU, by number; sent once, and again when a counter has moved.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvLinks {
    pub index: u32,
    pub links: Vec<NvLink>,
    /// `None` where the GPU has none: only Grace machines do.
    pub c2c: Option<C2c>,
}

/// What one NVLink is, and its counters of errors since the driver was loaded. What is absent is not supported.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NvLink {
    /// Field 166: 1 is NVLink 1.0, 2 2.0, 3 2.2, 4 3.0, 5 3.1, 6 4.0, 7 5.0.
    pub version: Option<u32>,
    /// Field 164, each way.
    pub speed_mbytes_per_s: Option<u64>,
    /// [`NvLink::SWITCH`], or the bus id of the GPU at the other end. `None` where the link is off or does not say.
    pub remote: Option<String>,
    /// Fields 161 to 163; of NVLink 5 recoveries are field 215.
    pub replays: Option<u64>,
    pub recoveries: Option<u64>,
    pub crc_errors: Option<u64>,
    /// NVLink 5, field 208: packets received with errors.
    pub receive_errors: Option<u64>,
    /// NVLink 5, field 219: errors that forward error correction did not mend.
    pub effective_errors: Option<u64>,
}

impl NvLink {
    pub const SWITCH: &str = "switch";

    /// `4.0`
    pub fn generation(&self) -> Option<&'static str> {
        let known = ["1.0", "2.0", "2.2", "3.0", "3.1", "4.0", "5.0"];
        known.get(self.version?.checked_sub(1)? as usize).copied()
    }
}

/// NVLink-C2C between Grace and the GPU: fields 170 to 172, 231, 232, summed over its links.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct C2c {
    pub links: u32,
    pub links_up: Option<u32>,
    pub speed_mbytes_per_s: Option<u64>,
    pub errors: Option<u64>,
    pub replays: Option<u64>,
}

/// nvmlEventData_t: one thing that the driver reported by itself.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuEvent {
    /// `None` where NVML names no GPU of its list.
    pub index: Option<u32>,
    /// nvmlEventType, one bit: 0x2 uncorrected ECC error, 0x8 Xid, 0x200 storm of corrected errors, 0x400 row retired, 0x800 its failure,
    /// 0x1000 and 0x2000 poison, 0x4000 GPU unavailable, 0x8000 recovery action changed.
    pub event_bits: u64,
    /// eventData: of an Xid its number.
    pub data: u64,
    /// Instance of a partitioned GPU; `None` for a whole one.
    pub mig_instance: Option<u32>,
}

/// GPU by GPU. `pairs` holds each unordered pair once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuTopology {
    pub pairs: Vec<GpuPair>,
}

#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GpuPair {
    pub a: u32,
    pub b: u32,
    /// nvmlDeviceGetTopologyCommonAncestor: 0, 10 PIX, 20 PXB, 30 PHB, 40 NODE, 50 SYS.
    pub pcie_level: Option<u32>,
    /// Active NVLinks that join the two, directly or through NVSwitch.
    pub nvlinks: Option<u32>,
    /// nvmlDeviceGetP2PStatus READ: 0 is OK.
    pub p2p_read: Option<u32>,
}
