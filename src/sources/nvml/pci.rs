//! GPUs as the PCI tree shows them: names of devices, NUMA nodes, and a list of GPUs where NVML cannot be asked.

use crate::observe::gpu::GpuInfo;
use crate::sources::Roots;
use std::path::Path;

/// The bus id as sysfs writes it: `00000000:B7:00.0` is `0000:b7:00.0`. A domain that needs more digits keeps them.
pub(super) fn bus_id(nvml: &str) -> String {
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bus_ids_are_written_as_sysfs_does() {
        assert_eq!(bus_id("00000000:B7:00.0"), "0000:b7:00.0");
        assert_eq!(bus_id("00010000:01:00.0"), "10000:01:00.0");
        assert_eq!(bus_id("FFFFFFFF:FF:FF.0"), "ffffffff:ff:ff.0");
        assert_eq!(bus_id("nonsense"), "nonsense");
    }

    #[test]
    fn gpus_are_found_in_the_pci_tree_in_bus_order() {
        let dir = tempfile::tempdir().unwrap();
        let device = |id: &str, vendor: &str, class: &str, numa: &str| {
            let path = dir.path().join("sys/bus/pci/devices").join(id);
            std::fs::create_dir_all(&path).unwrap();
            for (name, text) in [("vendor", vendor), ("class", class), ("numa_node", numa)] {
                std::fs::write(path.join(name), format!("{text}\n")).unwrap();
            }
        };
        device("10000:01:00.0", "0x10de", "0x030200", "1");
        device("0000:b7:00.0", "0x10de", "0x030200", "-1");
        device("0000:07:00.0", "0x10de", "0x030000", "0");
        device("0000:08:00.0", "0x10de", "0x068000", "0");
        device("0000:09:00.0", "0x1a03", "0x030000", "0");

        let found = gpus_from_pci(&Roots::below(dir.path()));

        let seen: Vec<_> = found.iter().map(|g| (g.index, g.bus_id.as_deref().unwrap(), g.numa)).collect();
        assert_eq!(seen, [(0, "0000:07:00.0", Some(0)), (1, "0000:b7:00.0", None), (2, "10000:01:00.0", Some(1))]);
        assert!(found.iter().all(|g| g.name.is_none()));
        assert!(gpus_from_pci(&Roots::below(dir.path().join("nowhere"))).is_empty());
    }
}
