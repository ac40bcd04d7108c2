//! GPUs, NVSwitches and RDMA devices on the PCI bus, the bridges above them, and how their links are.

use crate::base::file;
use crate::observe::facts::{BridgeFacts, PciFacts, PciKind, PcieLink};
use crate::sources::Roots;
use crate::sources::sysfs::{Dir, Reader, is_bus_id, names, real_path};
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

const DEVICES: &str = "/sys/bus/pci/devices";
/// A large machine has some dozens of them, and a few hundred bridges.
const MOST_DEVICES: usize = 256;
const MOST_BRIDGES: usize = 512;
/// What everybody sees of configuration space.
const HEADER: usize = 64;
/// Where that of old PCI ends; capabilities of PCI Express follow.
const EXTENDED: usize = 0x100;
const CONFIG_BYTES: usize = 4096;
/// Access Control Services.
const ACS: u16 = 0x000d;

pub(super) fn of(roots: &Roots, reader: &mut Reader) -> (Vec<PciFacts>, Vec<BridgeFacts>) {
    let mut found = Vec::new();
    let mut above = BTreeSet::new();
    for bus_id in names(&roots.path(DEVICES)).unwrap_or_default() {
        let path = roots.path(DEVICES).join(&bus_id);
        let Ok(dir) = Dir::open(&path) else { continue };
        let Some(what) = kind(reader, &dir, &path) else { continue };
        if found.len() == MOST_DEVICES {
            break;
        }
        // The device and the bridges that it hangs on: `/sys/devices/pci0000:80/0000:80:01.1/0000:86:00.0`.
        let place = real_path(roots, &path).unwrap_or_default();
        let bridges: Vec<PathBuf> = place.ancestors().skip(1).filter(|dir| name(dir).is_some_and(is_bus_id)).map(Path::to_owned).collect();
        let upstream = bridges.first().and_then(|dir| Dir::open(&roots.path(dir)).ok());
        found.push(PciFacts {
            bus_id,
            what,
            iommu_type: Dir::open(&path.join("iommu_group")).ok().and_then(|group| reader.text(&group, "type")),
            link: link(reader, &dir),
            upstream: upstream.map(|dir| link(reader, &dir)).unwrap_or_default(),
        });
        above.extend(bridges);
    }
    let bridges = above.iter().take(MOST_BRIDGES).map(|path| bridge(roots, path)).collect();
    (found, bridges)
}

fn name(dir: &Path) -> Option<&str> {
    dir.file_name()?.to_str()
}

/// `None`: none of those that jobs use.
fn kind(reader: &mut Reader, dir: &Dir, path: &Path) -> Option<PciKind> {
    let class = reader.text(dir, "class")?;
    let is_nvidia = |reader: &mut Reader| reader.text(dir, "vendor").as_deref() == Some("0x10de");
    match class.get(..6)? {
        "0x0302" | "0x0300" if is_nvidia(reader) => Some(PciKind::Gpu),
        "0x0680" if is_nvidia(reader) => Some(PciKind::NvSwitch),
        _ if path.join("infiniband").is_dir() => Some(PciKind::Rdma),
        _ => None,
    }
}

fn link(reader: &mut Reader, dir: &Dir) -> PcieLink {
    // `32.0 GT/s PCIe`; `Unknown` where there is no link.
    let mut speed = |name| reader.text(dir, name)?.split(' ').next()?.parse::<f64>().ok().filter(|speed| speed.is_finite());
    let (speed_gt_per_s, speed_max_gt_per_s) = (speed("current_link_speed"), speed("max_link_speed"));
    // 255 stands for unknown.
    let mut width = |name| reader.number::<u32>(dir, name).filter(|lanes| (1..=32).contains(lanes));
    PcieLink { speed_gt_per_s, speed_max_gt_per_s, width: width("current_link_width"), width_max: width("max_link_width") }
}

fn bridge(roots: &Roots, path: &Path) -> BridgeFacts {
    let config = config(&roots.path(path).join("config")).unwrap_or_default();
    let bus_id = name(path).unwrap_or_default().to_owned();
    BridgeFacts { bus_id, acs_control: acs_control(&config), hidden: config.len() <= HEADER }
}

fn config(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = vec![0; CONFIG_BYTES];
    let n = file::open(path).ok()?.read_at(&mut bytes, 0).ok()?;
    bytes.truncate(n);
    Some(bytes)
}

/// Extended capabilities are a list: id in 16 bits, version in 4, place of the next one in 12. The control register of this one stands 6
/// bytes behind (PCI Express Base Specification, 7.7.11).
fn acs_control(config: &[u8]) -> Option<u16> {
    let word = |at: usize| config.get(at..at + 4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let mut at = EXTENDED;
    // No more fit, and a list that leads back to its start ends, too.
    for _ in 0..CONFIG_BYTES / 8 {
        let head = word(at)?;
        if head as u16 == ACS {
            return word(at + 4).map(|word| (word >> 16) as u16);
        }
        at = (head >> 20) as usize & !3;
        if at < EXTENDED {
            return None;
        }
    }
    None
}
