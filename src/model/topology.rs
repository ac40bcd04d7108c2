//! How the GPUs and NICs of a node are joined, in the words of `nvidia-smi topo -m`, and what is near to what. What NCCL makes of it is in
//! [`used`].
//!
//! A virtual machine may show all functions on one bus, whatever is below it: then PHB is what the tree says, and means nothing.

pub mod used;

use super::Model;
use super::port::{Link, Netdev};
use crate::base::words::natural;
use crate::observe::gpu::{GpuInfo, GpuPair};
use crate::observe::port::PortInfo;
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What lies between two functions of the PCI tree, the nearest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Distance {
    /// So many NVLinks, directly or through NVSwitch.
    Nvlink(u32),
    /// One bridge at most: one switch.
    Pix,
    /// Several bridges, no host bridge.
    Pxb,
    /// The host bridge.
    Phb,
    /// Two host bridges of one NUMA node.
    Node,
    /// The link between NUMA nodes.
    Sys,
}

/// Label and meaning of what has no number, in the order and the words of `nvidia-smi topo -m`.
pub const LEGEND: &[(&str, &str)] = &[
    ("X", "Self"),
    ("SYS", "Connection traversing PCIe as well as the SMP interconnect between NUMA nodes (e.g., QPI/UPI)"),
    ("NODE", "Connection traversing PCIe as well as the interconnect between PCIe Host Bridges within a NUMA node"),
    ("PHB", "Connection traversing PCIe as well as a PCIe Host Bridge (typically the CPU)"),
    ("PXB", "Connection traversing multiple PCIe bridges (without traversing the PCIe Host Bridge)"),
    ("PIX", "Connection traversing at most a single PCIe bridge"),
    ("NV#", "Connection traversing a bonded set of # NVLinks"),
];

/// What the matrix shows where neither NVML nor sysfs tells.
pub const UNKNOWN: &str = "?";

/// What a flat tree means.
pub const FLAT: &str = "the PCI tree is flat, as virtual machines show it: PHB, NODE and SYS mean nothing here, and no NIC is near to a GPU; \
                        NCCL goes by NCCL_TOPO_FILE, where that is set";

impl Distance {
    /// `NV18`, `PIX`
    pub fn label(self) -> String {
        match self {
            Distance::Nvlink(n) => format!("NV{n}"),
            Distance::Pix => "PIX".into(),
            Distance::Pxb => "PXB".into(),
            Distance::Phb => "PHB".into(),
            Distance::Node => "NODE".into(),
            Distance::Sys => "SYS".into(),
        }
    }

    /// `18 NVLinks`, `over the link between NUMA nodes`
    pub fn words(self) -> String {
        match self {
            Distance::Nvlink(1) => "1 NVLink".into(),
            Distance::Nvlink(n) => format!("{n} NVLinks"),
            Distance::Pix => "one PCIe switch".into(),
            Distance::Pxb => "several PCIe switches".into(),
            Distance::Phb => "over the CPU's host bridge".into(),
            Distance::Node => "over two host bridges of one NUMA node".into(),
            Distance::Sys => "over the link between NUMA nodes".into(),
        }
    }

    /// By PCIe switches alone: GPUDirect RDMA and P2P are used up to there.
    pub fn is_by_switch(self) -> bool {
        self <= Distance::Pxb
    }

    /// nvmlGpuTopologyLevel_t. Level 0, one board, has one bridge.
    fn of_level(level: u32) -> Option<Distance> {
        match level {
            0 | 10 => Some(Distance::Pix),
            20 => Some(Distance::Pxb),
            30 => Some(Distance::Phb),
            40 => Some(Distance::Node),
            50 => Some(Distance::Sys),
            _ => None,
        }
    }
}

/// A function of the PCI tree.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Place<'a> {
    pub bus_id: Option<&'a str>,
    pub numa: Option<u32>,
    /// From the host bridge (`pci0000:80`) over all bridges to the function itself; empty where sysfs was not read.
    path: Vec<&'a str>,
}

impl<'a> Place<'a> {
    /// `pci_path` is a path below /sys/devices.
    pub fn new(bus_id: Option<&'a str>, pci_path: Option<&'a str>, numa: Option<u32>) -> Place<'a> {
        let path = pci_path.map_or(Vec::new(), |path| {
            let is_root = |part: &&str| part.strip_prefix("pci").is_some_and(|id| id.contains(':'));
            path.split('/').skip_while(|part| !is_root(part)).take(MAX_DEPTH).collect()
        });
        Place { bus_id: bus_id.filter(|id| !id.is_empty()), numa, path }
    }

    pub fn of_gpu(info: &'a GpuInfo) -> Place<'a> {
        Place::new(info.bus_id.as_deref(), info.pci_path.as_deref(), info.numa)
    }

    pub fn of_port(info: &'a PortInfo) -> Place<'a> {
        Place::new(info.bus_id.as_deref(), info.pci_path.as_deref(), info.numa)
    }

    /// What lies between the two; `None` where the tree does not tell.
    pub fn distance(&self, other: &Place) -> Option<Distance> {
        // Functions of one card.
        let card = self.bus_id.and_then(|id| id.split_once('.'));
        if card.is_some_and(|(card, _)| other.bus_id.and_then(|id| id.split_once('.')).is_some_and(|(of, _)| of == card)) {
            return Some(Distance::Pix);
        }
        let (Some(root), Some(other_root)) = (self.path.first(), other.path.first()) else { return self.distance_by_bus(other) };
        if root != other_root {
            return self.distance_by_numa(other);
        }
        let common = self.path.iter().zip(&other.path).take_while(|(a, b)| a == b).count();
        if common == 1 {
            return Some(Distance::Phb);
        }
        let (below, other_below) = (self.path.len() - common, other.path.len() - common);
        // A switch is an upstream port, below which each function has a downstream port of its own.
        Some(if below == other_below && below <= 2 { Distance::Pix } else { Distance::Pxb })
    }

    /// Without the tree: what shares a bus has one bridge above it, but for bus 0, which is that of the host bridge.
    fn distance_by_bus(&self, other: &Place) -> Option<Distance> {
        match (self.bus(), other.bus()) {
            (Some(bus), Some(other_bus)) if bus == other_bus => {
                let is_root = bus.1 == 0 || self.path.len() == 2 || other.path.len() == 2;
                Some(if is_root { Distance::Phb } else { Distance::Pix })
            }
            _ => self.distance_by_numa(other),
        }
    }

    fn distance_by_numa(&self, other: &Place) -> Option<Distance> {
        Some(if self.numa? == other.numa? { Distance::Node } else { Distance::Sys })
    }

    /// Domain, which is written with four digits or eight, and bus.
    fn bus(&self) -> Option<(u32, u32)> {
        let mut parts = self.bus_id?.split(':');
        let domain = u32::from_str_radix(parts.next()?, 16).ok()?;
        Some((domain, u32::from_str_radix(parts.next()?, 16).ok()?))
    }

    /// The host bridge that it hangs on itself: cards of real machines have a port above them. `Some(None)`: it has one.
    fn bare_root(&self) -> Option<Option<String>> {
        match self.path.as_slice() {
            [] => self.bus().map(|(domain, bus)| (bus == 0).then(|| format!("pci{domain:04x}:00"))),
            [root, _] => Some(Some((*root).to_owned())),
            _ => Some(None),
        }
    }

    /// The bridges above it, from the host bridge.
    pub fn parents(&self) -> &[&'a str] {
        self.path.split_last().map_or(&[], |(_, parents)| parents)
    }
}

/// Changes with all that decides what is near to what, and over what ranks may talk: GPUs, ports, what joins them, and who has which GPU.
pub fn revision(model: &Model) -> u64 {
    let mut hasher = DefaultHasher::new();
    for gpu in model.gpus.values() {
        let info = &gpu.info;
        (gpu.index, &info.bus_id, &info.pci_path, info.numa).hash(&mut hasher);
        gpu.processes.iter().for_each(|process| process.pid.hash(&mut hasher));
    }
    for port in model.ports.values() {
        let info = &port.info;
        (&info.device, info.port, &info.bus_id, &info.pci_path, info.numa, port.link.now == Link::Up).hash(&mut hasher);
    }
    for pair in model.topology.iter().flat_map(|topology| &topology.pairs) {
        (pair.a, pair.b, pair.pcie_level, pair.nvlinks, pair.p2p_read).hash(&mut hasher);
    }
    for job in model.jobs.values() {
        (&job.id, &job.ranks).hash(&mut hasher);
    }
    hasher.finish()
}

/// Deeper than any tree of switches.
const MAX_DEPTH: usize = 32;

/// A NIC: a device of /sys/class/infiniband, whatever number of ports it has.
#[derive(Clone, Debug, PartialEq)]
pub struct Nic<'a> {
    pub device: &'a str,
    pub place: Place<'a>,
}

/// The GPUs and NICs of a node.
#[derive(Clone, Debug, Default)]
pub struct Topology<'a> {
    pub gpus: BTreeMap<u32, Place<'a>>,
    /// As `nvidia-smi` numbers them: in the order of their names.
    pub nics: Vec<Nic<'a>>,
    pairs: BTreeMap<(u32, u32), &'a GpuPair>,
}

impl<'a> Topology<'a> {
    pub fn of(model: &'a Model) -> Topology<'a> {
        let mut nics: Vec<Nic> = Vec::new();
        // Ports of one device follow one another.
        for port in model.ports.values().filter(|p| !p.info.device.is_empty()) {
            if nics.last().is_none_or(|last| last.device != port.info.device) {
                nics.push(Nic { device: &port.info.device, place: Place::of_port(&port.info) });
            }
        }
        nics.sort_by_cached_key(|nic| natural(nic.device));
        let pairs = model.topology.iter().flat_map(|t| &t.pairs).map(|pair| ((pair.a.min(pair.b), pair.a.max(pair.b)), pair)).collect();
        Topology { gpus: model.gpus.values().map(|gpu| (gpu.index, Place::of_gpu(&gpu.info))).collect(), nics, pairs }
    }

    /// What NVML says of two GPUs.
    pub fn pair(&self, a: u32, b: u32) -> Option<&'a GpuPair> {
        self.pairs.get(&(a.min(b), a.max(b))).copied()
    }

    /// NVLinks where there are any, else the way over PCIe: by NVML, else by sysfs.
    pub fn gpu_to_gpu(&self, a: u32, b: u32) -> Option<Distance> {
        let pair = self.pair(a, b);
        let nvlinks = pair.and_then(|p| p.nvlinks).filter(|n| *n > 0).map(Distance::Nvlink);
        nvlinks.or_else(|| self.gpu_to_gpu_over_pcie(a, b))
    }

    pub fn gpu_to_gpu_over_pcie(&self, a: u32, b: u32) -> Option<Distance> {
        let by_nvml = self.pair(a, b).and_then(|p| p.pcie_level).and_then(Distance::of_level);
        by_nvml.or_else(|| self.gpus.get(&a)?.distance(self.gpus.get(&b)?))
    }

    pub fn gpu_to_nic(&self, gpu: u32, device: &str) -> Option<Distance> {
        self.gpus.get(&gpu)?.distance(&self.nic(device)?.place)
    }

    pub fn nic(&self, device: &str) -> Option<&Nic<'a>> {
        self.nics.iter().find(|nic| nic.device == device)
    }

    /// The GPUs than which none is nearer to `place`. Empty where that says nothing: all are as far, or it is not known.
    pub fn nearest_gpus(&self, place: &Place) -> Vec<u32> {
        // The only GPU is the nearest one, whatever lies between.
        nearest(self.gpus.iter().map(|(index, gpu)| (*index, gpu.distance(place))), true)
    }

    /// Where an interface is: as the RDMA device of the same function, else by what is seen of it.
    pub fn place_of_interface<'b>(&'b self, netdev: &'b Netdev) -> Place<'b> {
        let (bus_id, info) = (netdev.sample.bus_id.as_deref(), &netdev.info);
        let same = self.nics.iter().find(|nic| bus_id.is_some() && nic.place.bus_id == bus_id);
        same.map_or_else(|| Place::new(bus_id, info.pci_path.as_deref(), info.numa), |nic| nic.place.clone())
    }

    /// The NICs than which none is nearer to a GPU. Empty where that says nothing.
    pub fn near_nics(&self, gpu: u32) -> Vec<&'a str> {
        let Some(place) = self.gpus.get(&gpu) else { return Vec::new() };
        nearest(self.nics.iter().map(|nic| (nic.device, nic.place.distance(place))), false)
    }

    /// All GPUs, or without any all NICs, hang on one host bridge itself.
    pub fn is_flat(&self) -> bool {
        let flat = |places: &mut dyn Iterator<Item = &Place>| {
            let mut roots = places.filter_map(Place::bare_root);
            let first = roots.next().flatten();
            first.is_some() && roots.all(|root| root == first)
        };
        if self.gpus.is_empty() { flat(&mut self.nics.iter().map(|nic| &nic.place)) } else { flat(&mut self.gpus.values()) }
    }

    /// What has to be known to read the matrix.
    pub fn remarks(&self) -> Vec<&'static str> {
        let mut out = Vec::new();
        if self.gpus.len() + self.nics.len() > 1 && self.is_flat() {
            out.push(FLAT);
        }
        out
    }
}

fn nearest<T>(of: impl Iterator<Item = (T, Option<Distance>)>, even_alone: bool) -> Vec<T> {
    let all: Vec<(T, Option<Distance>)> = of.collect();
    let (count, whole) = (all.len(), all.iter().all(|(_, distance)| distance.is_some()));
    let Some(best) = all.iter().filter_map(|(_, distance)| *distance).min() else { return Vec::new() };
    let found: Vec<T> = all.into_iter().filter(|(_, distance)| *distance == Some(best)).map(|(one, _)| one).collect();
    // Beyond switches it says something only where another one is farther, and none may be nearer.
    let tells = best.is_by_switch() || whole && (found.len() < count || even_alone && count == 1);
    if tells { found } else { Vec::new() }
}
