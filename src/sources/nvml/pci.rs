//! GPUs as the PCI tree shows them: names of devices, NUMA nodes, and a list of GPUs where NVML cannot be asked.

use crate::observe::gpu::GpuInfo;
use crate::sources::Roots;
use crate::sources::sysfs::real_path;
use std::path::Path;

const DEVICES: &str = "/sys/bus/pci/devices";
/// Of a machine with every second of 8192 CPUs near a GPU.
const MAX_CPU_LIST: usize = 32 << 10;

/// The bus id as sysfs writes it: `00000000:B7:00.0` is `0000:b7:00.0`. A domain that needs more digits keeps them.
pub fn bus_id(nvml: &str) -> String {
    let lower = nvml.trim().to_ascii_lowercase();
    match lower.split_once(':') {
        Some((domain, rest)) => match u32::from_str_radix(domain, 16) {
            Ok(domain) => format!("{domain:04x}:{rest}"),
            Err(_) => lower,
        },
        None => lower,
    }
}

/// Where a GPU stands in the tree of PCI bridges, and near which CPUs and memory, by its bus id.
pub(super) fn place(roots: &Roots, info: &mut GpuInfo) {
    let Some(bus_id) = &info.bus_id else { return };
    let device = roots.path(DEVICES).join(bus_id);
    let read = |name| std::fs::read_to_string(device.join(name)).ok();
    // -1: the firmware does not say.
    info.numa = read("numa_node").and_then(|node| node.trim().parse().ok());
    info.numa_affinity = info.numa.or_else(|| only_node(roots));
    info.cpus = read("local_cpulist").map(|list| list.trim().to_owned()).filter(|list| is_cpu_list(list));
    info.pci_path = real_path(roots, &device).map(|path| path.to_string_lossy().into_owned());
}

/// The NUMA node of a machine that has one.
fn only_node(roots: &Roots) -> Option<u32> {
    // A list such as `0-1` is no number.
    roots.table("/sys/devices/system/node/online").ok()?.trim().parse().ok()
}

fn is_cpu_list(text: &str) -> bool {
    !text.is_empty() && text.len() <= MAX_CPU_LIST && text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b',' | b'-'))
}

/// The NVIDIA GPUs below /sys/bus/pci/devices, in bus order: what is known of them where NVML is off (`--sysroot`).
pub fn gpus_from_pci(roots: &Roots) -> Vec<GpuInfo> {
    let Ok(entries) = std::fs::read_dir(roots.path(DEVICES)) else { return Vec::new() };
    let mut ids: Vec<String> = entries.flatten().filter(|e| is_gpu(&e.path())).filter_map(|e| e.file_name().into_string().ok()).collect();
    // By number, because a five-digit domain would sort before a four-digit one.
    ids.sort_by_key(|id| (id.split(':').next().and_then(|domain| u32::from_str_radix(domain, 16).ok()), id.clone()));
    let gpu = |(index, id): (usize, String)| {
        let mut info = GpuInfo { index: index as u32, bus_id: Some(id), ..GpuInfo::default() };
        place(roots, &mut info);
        info
    };
    ids.into_iter().enumerate().map(gpu).collect()
}

/// Class 0x0302 is a 3D controller (data-centre boards), 0x0300 a VGA controller (boards with a display). 0x0680 would be an NVSwitch.
fn is_gpu(device: &Path) -> bool {
    let read = |name| std::fs::read_to_string(device.join(name)).unwrap_or_default();
    let class = read("class");
    read("vendor").trim() == "0x10de" && (class.starts_with("0x0302") || class.starts_with("0x0300"))
}
