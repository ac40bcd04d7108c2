//! GPUs as the PCI tree shows them: names of devices, NUMA nodes, and a list of GPUs where NVML cannot be asked.

use crate::observe::gpu::GpuInfo;
use crate::sources::Roots;
use std::path::Path;

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

/// The NUMA node of a PCI device; `None` where the firmware does not say (-1).
pub(super) fn numa(roots: &Roots, bus_id: &str) -> Option<u32> {
    let path = roots.path("/sys/bus/pci/devices").join(bus_id).join("numa_node");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

/// The NVIDIA GPUs below /sys/bus/pci/devices, in bus order: what is known of them where NVML is off (`--sysroot`).
pub fn gpus_from_pci(roots: &Roots) -> Vec<GpuInfo> {
    let Ok(entries) = std::fs::read_dir(roots.path("/sys/bus/pci/devices")) else { return Vec::new() };
    let mut ids: Vec<String> = entries.flatten().filter(|e| is_gpu(&e.path())).filter_map(|e| e.file_name().into_string().ok()).collect();
    // By number, because a five-digit domain would sort before a four-digit one.
    ids.sort_by_key(|id| (id.split(':').next().and_then(|domain| u32::from_str_radix(domain, 16).ok()), id.clone()));
    let gpu =
        |(index, id): (usize, String)| GpuInfo { index: index as u32, numa: numa(roots, &id), bus_id: Some(id), ..GpuInfo::default() };
    ids.into_iter().enumerate().map(gpu).collect()
}

/// Class 0x0302 is a 3D controller (data-centre boards), 0x0300 a VGA controller (boards with a display). 0x0680 would be an NVSwitch.
fn is_gpu(device: &Path) -> bool {
    let read = |name| std::fs::read_to_string(device.join(name)).unwrap_or_default();
    let class = read("class");
    read("vendor").trim() == "0x10de" && (class.starts_with("0x0302") || class.starts_with("0x0300"))
}
