//! Network interfaces and RDMA ports, as sysfs shows them. Counters are cumulative and in the kernel's own unit and name.

use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// /sys/class/net/NAME
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetdevSample {
    pub name: String,
    /// operstate: `up`, `down`, `unknown`, `lowerlayerdown`, `dormant`.
    pub operstate: Option<String>,
    pub carrier: Option<bool>,
    /// How often the carrier came or went, cumulative: what lies between two samples is seen, too.
    pub carrier_changes: Option<u64>,
    /// How often it went.
    pub carrier_down_count: Option<u64>,
    /// Mb/s; `None` when unknown (-1 or EINVAL).
    pub speed_mbits_per_s: Option<u64>,
    pub mtu: Option<u32>,
    /// `type`: 1 Ethernet, 32 InfiniBand, 772 loopback.
    pub arp_type: Option<u32>,
    /// Bus id of the PCI function below it; `None` for virtual interfaces.
    pub bus_id: Option<String>,
    pub driver: Option<String>,
    /// Of interfaces of hardware, now and then. Absent means unchanged.
    pub info: Option<NetdevInfo>,
    /// Files of `statistics/`, by name: those that changed since the last sample of this interface. Absent means unchanged, or that the
    /// file cannot be read. As `ethtool/NAME`, what the driver shows of itself to `ethtool -S`: absent means not asked this time.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
}

/// The hardware below an interface.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct NetdevInfo {
    pub numa: Option<u32>,
    /// As in `PortInfo`.
    pub driver_version: Option<String>,
    /// fw_version of the ioctl ETHTOOL_GDRVINFO.
    pub firmware: Option<String>,
    /// As in `PortInfo`.
    pub pci_path: Option<String>,
    pub pci_link: Option<PciLink>,
    /// As in `PortInfo`.
    pub physical_function: Option<String>,
}

/// A PCIe link as it runs and as it could: `{current,max}_link_{speed,width}` of the PCI function. Virtual machines often hide it.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PciLink {
    /// Transfers per second and lane, 10^9: 32 is PCIe 5.
    pub gt_per_s: Option<f64>,
    /// Lanes.
    pub width: Option<u32>,
    pub max_gt_per_s: Option<f64>,
    pub max_width: Option<u32>,
}

/// What a port is: by its driver and link layer, never by its name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PortKind {
    Efa,
    Infiniband,
    Roce,
    /// iWARP
    Iwarp,
    #[default]
    #[serde(other)]
    Other,
}

impl PortKind {
    pub fn as_str(self) -> &'static str {
        match self {
            PortKind::Efa => "efa",
            PortKind::Infiniband => "infiniband",
            PortKind::Roce => "roce",
            PortKind::Iwarp => "iwarp",
            PortKind::Other => "rdma",
        }
    }
}

/// Identity of /sys/class/infiniband/DEVICE/ports/PORT; sent once, and again when it changes.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortInfo {
    pub device: String,
    pub port: u32,
    /// On a tape `kind` is what an observation is.
    #[serde(rename = "port_kind")]
    pub kind: PortKind,
    /// Basename of device/driver: `efa`, `mlx5_core`, `bnxt_en`.
    pub driver: Option<String>,
    /// /sys/module/DRIVER/version; drivers of the kernel itself have none.
    pub driver_version: Option<String>,
    /// `InfiniBand`, `Ethernet`, `Unknown`.
    pub link_layer: Option<String>,
    pub netdev: Option<String>,
    pub bus_id: Option<String>,
    pub numa: Option<u32>,
    pub firmware: Option<String>,
    /// `MT4129`; PCI device id for EFA (`0xefa2`).
    pub model: Option<String>,
    pub guid: Option<String>,
    pub sys_image_guid: Option<String>,
    /// Why counters that this kind always has are missing: `counters hidden by network namespace`.
    pub counters_hidden: Option<String>,
    /// device/p2p of an EFA: `NVIDIA…` when GPUDirect RDMA is there.
    pub gpu_direct: Option<String>,
    /// The parent chain in sysfs, for distances to GPUs: `/sys/devices/pci0000:00/…` without the root.
    pub pci_path: Option<String>,
    pub pci_link: Option<PciLink>,
    /// Of a virtual function, the bus id of the physical one.
    pub physical_function: Option<String>,
    /// The auxiliary device of a sub-function, which shares its PCI function with others: `mlx5_core.sf.4`.
    pub sub_function: Option<String>,
}

/// All queue pairs of one RDMA device, by who has them: RDMA_NLDEV_CMD_RES_QP_GET of the kernel's RDMA netlink.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueuePairs {
    pub device: String,
    pub holders: Vec<QueuePairHolder>,
}

/// A process, or a part of the kernel, and how many queue pairs it has on a port.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueuePairHolder {
    /// 0 where they are not bound to one yet.
    pub port: u32,
    /// `None`: the kernel has them, or the thread that made them has ended.
    pub pid: Option<u32>,
    /// The part of the kernel: `ib_core`.
    pub kernel: Option<String>,
    pub count: u32,
}

/// State and counters of one port.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PortSample {
    pub device: String,
    pub port: u32,
    /// The word of `state`: `ACTIVE`, `DOWN`, `INIT`, `ARMED`.
    pub state: Option<String>,
    /// The word of `phys_state`: `LinkUp`, `Polling`, `Disabled`.
    pub phys_state: Option<String>,
    /// From `rate`, or the netdev's speed or a table where `rate` is known to lie; bits/s.
    pub line_rate_bits_per_s: Option<u64>,
    /// Files of `counters/`, `hw_counters/` and the device's `hw_counters/` (as `device/NAME`).
    /// On a tape only those that changed since the last sample of this port: absent means unchanged.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counters: BTreeMap<String, u64>,
    /// Files that were there before and could not be read now, with the reason: a counter under its name, `state` when the port is
    /// gone, a whole directory under `counters`, `hw_counters` or `device/hw_counters`. Told again with every sample while it lasts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub unreadable: BTreeMap<String, String>,
}
