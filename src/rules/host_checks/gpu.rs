//! GPUs: the driver, the daemons that serve it, and what of it NCCL needs.

use super::{Check, Group, Host, Judged, cannot_read, does_not_apply, fail, of_all, pass, some_of, warn};
use crate::base::clean::{clean, clip};
use crate::base::units::counted;
use crate::model::gpu::Gpu;
use crate::observe::facts::{Look, PciFacts, PciKind};
use crate::observe::port::PortKind;
use crate::observe::{SourceId, SourceState};

/// nvmlDeviceGetGpuFabricInfoV, state.
const FABRIC_NOT_SUPPORTED: u32 = 0;
const FABRIC_COMPLETED: u32 = 3;
/// NVIDIA's IMEX guide: an administrator makes channels, they do not outlive a reboot; the nodes of the domain stand one a line.
const CHANNELS: &str = "/dev/nvidia-caps-imex-channels";
const IMEX_NODES: &str = "/etc/nvidia-imex/nodes_config.cfg";
const IMEX_LOG: &str = "/var/log/nvidia-imex.log";
/// Characters of a line of it.
const MOST_OF_LOG: usize = 160;
const PLAIN: Check = Check { id: "", group: Group::Gpu, label: "", reads: &[], healthy: "", why: "", remedy: "", judge: |_| Ok(pass("")) };

pub const CHECKS: &[Check] = &[
    Check {
        id: "gpu-driver",
        label: "driver",
        reads: &[Look::File("/proc/driver/nvidia/version"), Look::Call("nvmlSystemGetDriverVersion")],
        healthy: "the kernel module is loaded, and its library has the same version",
        why: "CUDA starts with neither a missing module nor a library of another version (error 803)",
        remedy: "modprobe nvidia; after an upgrade of the driver reload its modules, or reboot",
        judge: driver,
        ..PLAIN
    },
    Check {
        id: "gpu-count",
        label: "number of GPUs",
        reads: &[
            Look::Call("/sys/bus/pci/devices"),
            Look::Call("nvmlDeviceGetCount_v2"),
            Look::Call("/sys/devices/virtual/dmi/id/product_name"),
        ],
        healthy: "as many as this kind of machine has, all known to the driver",
        why: "a job that wants all GPUs does not start, or starts with a rank less",
        remedy: "dmesg -T | grep -i -e xid -e 'fallen off the bus'; nvidia-smi -L; drain the node",
        judge: count,
        ..PLAIN
    },
    Check {
        id: "gpu-answers",
        label: "GPUs answer",
        reads: &[Look::Call("NVML")],
        healthy: "all answer without an error",
        why: "the rank on a GPU that does not answer hangs, and all others wait for it",
        remedy: "nvidia-smi -q; dmesg -T | grep -i xid; drain the node and reset the GPU",
        judge: answers,
        ..PLAIN
    },
    Check {
        id: "gpu-reset",
        label: "pending resets",
        reads: &[Look::Call("nvmlDeviceGetFieldValues(144, 145, 230)")],
        healthy: "no reset, reboot or row remapping is pending",
        why: "the driver asks for it because memory or the device is damaged: jobs on it may fail at any time",
        remedy: "drain the node, then nvidia-smi --gpu-reset -i GPU, or reboot; a failed remapping means a new GPU",
        judge: reset,
        ..PLAIN
    },
    Check {
        id: "fabric-manager",
        label: "fabric manager",
        reads: &[Look::Call("nvmlDeviceGetGpuFabricInfoV"), Look::Call("/proc/*/comm"), Look::Call("/sys/bus/pci/devices")],
        healthy: "where there are NVSwitches: fabric state completed, or nv-fabricmanager runs",
        why: "without it CUDA does not start on NVSwitch machines (error 802, system not yet initialized)",
        remedy: "systemctl enable --now nvidia-fabricmanager; its version must be that of the driver",
        judge: fabric_manager,
        ..PLAIN
    },
    Check {
        id: "imex",
        label: "IMEX",
        reads: &[Look::Names(CHANNELS), Look::Call("/proc/*/comm"), Look::File(IMEX_NODES), Look::Last(IMEX_LOG, "[ERROR]")],
        healthy: "on NVL72: a channel, and nvidia-imex runs, with the nodes of the domain in its configuration",
        why: "without it NVLink ends at the tray: NCCL does not reach GPUs of other trays by it (MNNVL)",
        remedy: "systemctl enable --now nvidia-imex; nvidia-imex-ctl -N; a container needs /dev/nvidia-caps-imex-channels/channel0",
        judge: imex,
        ..PLAIN
    },
    Check {
        id: "persistence",
        label: "persistence mode",
        reads: &[Look::Call("nvmlDeviceGetPersistenceMode"), Look::Call("/proc/*/comm")],
        healthy: "on",
        why: "without it the driver wakes every GPU anew: seconds at each start, and settings are lost",
        remedy: "systemctl enable --now nvidia-persistenced, or nvidia-smi -pm 1",
        judge: persistence,
        ..PLAIN
    },
    Check {
        id: "mig",
        label: "MIG",
        reads: &[Look::Call("nvmlDeviceGetMigMode")],
        healthy: "off",
        why: "between instances there is neither P2P nor NVLink: NCCL goes through host memory",
        remedy: "nvidia-smi -mig 0, with no process on the GPU",
        judge: mig,
        ..PLAIN
    },
    Check {
        id: "gpu-pcie-link",
        label: "PCIe of GPUs",
        reads: &[Look::Call("/sys/bus/pci/devices/*/{current,max}_link_width")],
        healthy: "as wide as GPU and slot allow",
        why: "a narrow link slows loading, checkpoints and GPUDirect RDMA of this GPU, and so all ranks",
        remedy: "lspci -s BUS_ID -vv | grep -i lnksta; reseat the board or its riser",
        judge: pcie_link,
        ..PLAIN
    },
    Check {
        id: "gpu-direct",
        label: "GPUDirect RDMA",
        reads: &[
            Look::File("/sys/module/nvidia_peermem/version"),
            Look::File("/sys/kernel/mm/memory_peers/nv_mem/version"),
            Look::File("/sys/kernel/mm/memory_peers/nv_mem_nc/version"),
            Look::Call("/proc/sys/kernel/osrelease"),
            Look::File("/proc/driver/nvidia/version"),
            Look::Call("/sys/class/infiniband/*/device/p2p"),
        ],
        healthy: "nvidia_peermem, or DMA-BUF (kernel 5.12 and the open kernel module); of EFA, p2p names NVIDIA",
        why: "without it each byte between nodes is copied through host memory",
        remedy: "modprobe nvidia_peermem, or install the open kernel module of the driver",
        judge: gpu_direct,
        ..PLAIN
    },
    Check {
        id: "gdrcopy",
        label: "GDRCopy",
        reads: &[Look::File("/sys/module/gdrdrv/version"), Look::Link("/dev/gdrdrv")],
        healthy: "gdrdrv loaded and its device file there; optional",
        why: "small messages of NVSHMEM and of NCCL's plugin for EFA are faster with it",
        remedy: "give /dev/gdrdrv to the container (--device /dev/gdrdrv)",
        judge: gdrcopy,
        ..PLAIN
    },
];

/// `GPU 3`, `GPUs 3, 5`
fn names(gpus: &[&Gpu]) -> String {
    let list: Vec<String> = gpus.iter().map(|gpu| gpu.index.to_string()).collect();
    format!("GPU{} {}", if list.len() == 1 { "" } else { "s" }, some_of(&list))
}

/// `580.159.04` of `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build …`
fn version(text: &str) -> Option<&str> {
    let is_version = |word: &&str| word.split('.').count() >= 2 && word.split('.').all(|part| part.parse::<u32>().is_ok());
    text.lines().next()?.split_whitespace().find(is_version)
}

fn driver(host: &Host) -> Judged {
    let nvml = host.model.sources.get(&SourceId::of("nvml"));
    if let Some(detail) = nvml.filter(|v| v.state == SourceState::Failed).and_then(|v| v.detail.as_deref())
        && detail.contains("version mismatch")
    {
        return Ok(fail(detail));
    }
    host.any_gpu()?;
    let gpus = host.pci(PciKind::Gpu).count();
    let Some(text) = host.read("/proc/driver/nvidia/version")? else {
        return Ok(fail(format!("{} on the PCI bus, and no NVIDIA kernel module is loaded", counted(gpus as u64, "GPU"))));
    };
    let module = version(text).ok_or_else(|| cannot_read("/proc/driver/nvidia/version shows no version"))?;
    let library = host.model.gpus.values().find_map(|gpu| gpu.info.driver.as_deref());
    Ok(match library {
        Some(library) if library != module => fail(format!("kernel module {module}, library {library}")),
        Some(_) => pass(module),
        None if nvml.is_some_and(|v| v.state == SourceState::Absent) && host.facts.is_live => {
            warn(format!("kernel module {module}, and libnvidia-ml.so.1 cannot be loaded"))
                .remedy("start the container with the NVIDIA runtime (--gpus all), or install the driver's libraries")
        }
        None => pass(format!("kernel module {module}; its library was not asked")),
    })
}

fn count(host: &Host) -> Judged {
    let on_bus = host.pci(PciKind::Gpu).count();
    // A container has those that it was given, and PCI shows all.
    let seen = if host.nvml().is_ok() { Some(host.model.gpus.len()) } else { None };
    let most = on_bus.max(seen.unwrap_or(0));
    let platform = host.platform().filter(|platform| platform.gpus > 0);
    if platform.is_none() {
        host.any_gpu()?;
    }
    if let Some(seen) = seen.filter(|seen| *seen < on_bus && host.container().is_none()) {
        return Ok(fail(format!("{on_bus} on the PCI bus, the driver knows {seen}")));
    }
    Ok(match platform {
        Some(of) if most < of.gpus as usize => fail(format!("{most} of the {} of a {}", of.gpus, of.name)),
        Some(of) => pass(format!("{most} of the {} of a {}", of.gpus, of.name)),
        None => pass(format!("{most}; how many this machine should have is not known")),
    })
}

fn answers(host: &Host) -> Judged {
    let sick: Vec<&Gpu> = host.model.gpus.values().filter(|gpu| gpu.trouble.is_some()).collect();
    if let Some((_, trouble)) = sick.first().and_then(|gpu| gpu.trouble.as_ref()) {
        return Ok(fail(format!("{}: {}", names(&sick), trouble.detail)));
    }
    host.nvml()?;
    Ok(pass(counted(host.model.gpus.len() as u64, "GPU")))
}

fn reset(host: &Host) -> Judged {
    host.nvml()?;
    let health = || host.model.gpus.values().filter_map(|gpu| Some((gpu, gpu.health.as_ref()?)));
    if health().next().is_none() {
        return Err(cannot_read("NVML has not shown it"));
    }
    let of = |bad: fn(&crate::observe::gpu::GpuHealth) -> bool| health().filter(|(_, h)| bad(h)).map(|(gpu, _)| gpu).collect::<Vec<_>>();
    let (failed, asked, pending) = (
        of(|h| h.remap_failed == Some(true)),
        of(|h| h.recovery_action.is_some_and(|action| action != 0)),
        of(|h| h.remap_pending == Some(true)),
    );
    Ok(match (&failed[..], &asked[..], &pending[..]) {
        ([_, ..], ..) => fail(format!("{}: a row of memory could not be replaced", names(&failed))),
        (_, [_, ..], _) => fail(format!("{}: the driver asks for a reset or reboot", names(&asked))),
        (.., [_, ..]) => warn(format!("{}: a row of memory is replaced at the next reset", names(&pending))),
        _ => pass("none"),
    })
}

fn fabric_manager(host: &Host) -> Judged {
    host.any_gpu()?;
    let states: Vec<(&Gpu, u32)> = host
        .model
        .gpus
        .values()
        .filter_map(|gpu| Some((gpu, gpu.health.as_ref()?.fabric_state?)))
        .filter(|(_, state)| *state != FABRIC_NOT_SUPPORTED)
        .collect();
    let waiting: Vec<&Gpu> = states.iter().filter(|(_, state)| *state != FABRIC_COMPLETED).map(|(gpu, _)| *gpu).collect();
    let runs = host.runs("nv-fabricmanage");
    let switches = host.pci(PciKind::NvSwitch).count();
    if !waiting.is_empty() {
        let daemon = if runs == Some(true) { "nv-fabricmanager runs" } else { "no nv-fabricmanager is seen" };
        return Ok(fail(format!("{}: fabric state not completed; {daemon}", names(&waiting))));
    }
    if !states.is_empty() {
        return Ok(pass("fabric state completed"));
    }
    if switches == 0 && runs == Some(true) {
        return Ok(pass("runs"));
    }
    if switches == 0 {
        return Err(does_not_apply("no NVSwitch on the PCI bus; in a virtual machine it runs on the host"));
    }
    match runs {
        Some(true) => Ok(pass(format!("runs, for {}", counted(switches as u64, "NVSwitch")))),
        Some(false) if host.sees_all_processes() && host.container().is_none() => {
            Ok(fail(format!("{} and no nv-fabricmanager", counted(switches as u64, "NVSwitch"))))
        }
        _ => Err(cannot_read("processes outside of this container are not seen")),
    }
}

fn imex(host: &Host) -> Judged {
    host.any_gpu()?;
    let is_nvl = |name: &str| name.contains("GB200") || name.contains("GB300");
    let gpus = host.model.gpus.values().filter_map(|gpu| gpu.info.name.as_deref());
    if !gpus.chain(host.product()).any(is_nvl) {
        return Err(does_not_apply("no NVLink between trays on this kind of machine"));
    }
    imex_state(host)
}

/// Channels, the daemon and its configuration.
pub(super) fn imex_state(host: &Host) -> Judged {
    let channels = host.names(CHANNELS)?.unwrap_or_default();
    let channels = channels.iter().filter(|name| name.starts_with("channel")).count();
    // The daemon of a container has its own files.
    let seen = host.sees_all_processes() && host.container().is_none();
    let complaint = || match host.read(IMEX_LOG) {
        Ok(Some(line)) if !line.is_empty() => format!("; its log: {}", clip(&clean(line), MOST_OF_LOG)),
        _ => String::new(),
    };
    if channels == 0 {
        return Ok(warn(format!("no channel in {CHANNELS}")));
    }
    let channels = counted(channels as u64, "channel");
    match host.runs("nvidia-imex") {
        Some(false) if seen => return Ok(warn(format!("{channels}, and nvidia-imex does not run{}", complaint()))),
        Some(true) => {}
        _ => return Ok(pass(format!("{channels}; whether nvidia-imex runs is not seen from here"))),
    }
    let nodes = match host.read(IMEX_NODES) {
        Ok(Some(text)) => text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#')).count(),
        // Another file may be named in its configuration.
        Ok(None) => return Ok(pass(format!("{channels}, nvidia-imex runs"))),
        Err(unread) => return Ok(pass(format!("{channels}, nvidia-imex runs; {}", unread.value))),
    };
    if nodes == 0 {
        return Ok(warn(format!("{channels}, nvidia-imex runs, and {IMEX_NODES} names no node{}", complaint())));
    }
    Ok(pass(format!("{channels}, nvidia-imex runs for {}", counted(nodes as u64, "node"))))
}

fn persistence(host: &Host) -> Judged {
    host.any_gpu()?;
    let known: Vec<&Gpu> = host.model.gpus.values().filter(|gpu| gpu.info.persistence.is_some()).collect();
    let off: Vec<&Gpu> = known.iter().copied().filter(|gpu| gpu.info.persistence == Some(false)).collect();
    match (known.is_empty(), host.runs("nvidia-persiste")) {
        (false, _) if off.is_empty() => Ok(pass("on")),
        (_, Some(true)) => Ok(pass("nvidia-persistenced runs")),
        (false, _) => Ok(warn(format!("off: {}", names(&off)))),
        (true, _) => host.nvml().and_then(|()| Err(cannot_read("NVML has not shown it"))),
    }
}

fn mig(host: &Host) -> Judged {
    host.nvml()?;
    let on: Vec<&Gpu> = host.model.gpus.values().filter(|gpu| gpu.info.mig == Some(true)).collect();
    if on.is_empty() {
        return Ok(pass("off"));
    }
    let instances: u32 = on.iter().filter_map(|gpu| gpu.info.mig_instances).sum();
    Ok(warn(format!("on: {} with {}", names(&on), counted(instances, "instance"))))
}

/// The lanes that device and slot have in common: a card with 16 lanes in a slot with 8 is as wide as it can be.
pub(super) fn common<T: PartialOrd + Copy>(own: Option<T>, slot: Option<T>) -> Option<T> {
    match (own, slot) {
        (Some(own), Some(slot)) => Some(if slot < own { slot } else { own }),
        (own, slot) => own.or(slot),
    }
}

/// `0000:3b:00.0 x8 of x16`
pub(super) fn narrow(device: &PciFacts) -> Option<String> {
    let (now, most) = (device.link.width?, common(device.link.width_max, device.upstream.width_max)?);
    (now < most).then(|| format!("{} x{now} of x{most}", device.bus_id))
}

fn pcie_link(host: &Host) -> Judged {
    host.any_gpu()?;
    let known: Vec<&PciFacts> = host.pci(PciKind::Gpu).filter(|d| d.link.width.is_some()).collect();
    if known.is_empty() {
        return Err(cannot_read("no link width below /sys/bus/pci/devices"));
    }
    // Its speed is no sign: an idle GPU slows its link down.
    let bad: Vec<String> = known.iter().filter_map(|device| narrow(device)).collect();
    Ok(if bad.is_empty() { pass(format!("{}, full width", counted(known.len() as u64, "GPU"))) } else { warn(some_of(&bad)) })
}

fn gpu_direct(host: &Host) -> Judged {
    host.any_gpu()?;
    let ports = host.rdma()?;
    if is_spark(host) {
        return Err(does_not_apply("GB10 has no GPUDirect RDMA: GPU and NIC share the memory"));
    }
    if ports.iter().all(|port| port.info.kind == PortKind::Efa) {
        let known: Vec<_> = ports.iter().filter(|port| port.info.gpu_direct.is_some()).collect();
        let bad: Vec<String> =
            known.iter().filter(|port| port.info.gpu_direct.as_deref() == Some("")).map(|p| p.info.device.clone()).collect();
        return match known.len() {
            0 => Err(cannot_read("this EFA driver does not show it (device/p2p)")),
            _ if bad.is_empty() => Ok(pass(format!("{} by p2p", counted(known.len() as u64, "EFA device")))),
            n => Ok(warn(format!("{} without a p2p provider ({})", of_all(bad.len(), n, "EFA device"), some_of(&bad)))
                .remedy("load the nvidia module before efa: modprobe -r efa; modprobe nvidia; modprobe efa. Driver 580 needs EFA 2.17.3")),
        };
    }
    for (module, path) in [
        ("nvidia_peermem", "/sys/module/nvidia_peermem/version"),
        ("nv_peer_mem", "/sys/kernel/mm/memory_peers/nv_mem/version"),
        ("nv_peer_mem", "/sys/kernel/mm/memory_peers/nv_mem_nc/version"),
    ] {
        if let Some(version) = host.read(path)? {
            return Ok(pass(format!("{module} {version}")));
        }
    }
    let kernel = host.model.node.as_ref().and_then(|n| n.kernel.as_deref()).ok_or_else(|| cannot_read("/proc/sys/kernel/osrelease"))?;
    let mut numbers = kernel.split(['.', '-']).map(|part| part.parse::<u32>().unwrap_or(0));
    let is_new = (numbers.next(), numbers.next()) >= (Some(5), Some(12));
    let is_open = host.there("/proc/driver/nvidia/version")?.contains("Open Kernel Module");
    Ok(match (is_new, is_open) {
        (true, true) => pass(format!("DMA-BUF: kernel {kernel}, open kernel module")),
        (false, _) => warn(format!("no nvidia_peermem, and kernel {kernel} has no DMA-BUF for RDMA")),
        (true, false) => warn("no nvidia_peermem, and the driver's kernel module is not the open one"),
    })
}

/// DGX Spark and its like.
pub(super) fn is_spark(host: &Host) -> bool {
    let names = host.model.gpus.values().filter_map(|gpu| gpu.info.name.as_deref()).chain(host.product());
    names.into_iter().any(|name| name.contains("GB10") || name.contains("Spark"))
}

fn gdrcopy(host: &Host) -> Judged {
    host.any_gpu()?;
    let Some(version) = host.read("/sys/module/gdrdrv/version")? else {
        return Err(does_not_apply("not loaded; it is optional"));
    };
    // It is no link: that reading it fails as one means that it is there.
    let is_there = !matches!(host.facts.looked.get("/dev/gdrdrv"), None | Some(crate::observe::facts::Reading::Absent));
    Ok(if is_there { pass(format!("gdrdrv {version}")) } else { warn(format!("gdrdrv {version} is loaded, and /dev/gdrdrv is not here")) })
}
