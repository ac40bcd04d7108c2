//! The host checks: of each the healthy value, a bad one and one that cannot be read, by the program on trees; and what no tree can show,
//! by observations.

use crate::support::tree;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::model::bringup::Seen;
use nccl_top::observe::facts::{ClockState, HostFacts, PciFacts, PciKind};
use nccl_top::observe::gpu::{GpuHealth, GpuInfo, GpuSample, GpuTrouble, GpuTroubleKind};
use nccl_top::observe::host::Node;
use nccl_top::observe::log::KernelLine;
use nccl_top::observe::process::{ProcessInfo, ProcessRole, ProcessSetup};
use nccl_top::observe::{Body, Observation, SourceId, SourceReport, SourceState};
use nccl_top::rules::host_checks::{self, Group, State};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

/// Eight GPUs, each below a bridge with an InfiniBand device; NVSwitches. Bare metal, and all is well.
const METAL: &str = "
proc/stat = cpu  1 2 3 4 5 6 7 8\\ncpu0 1 2 3 4 5 6 7 8
proc/sys/kernel/hostname = node-1
proc/sys/kernel/osrelease = 6.8.0-60-generic
proc/sys/kernel/numa_balancing = 0
proc/cpuinfo = processor : 0\\nflags : fpu sse avx
proc/cmdline = BOOT_IMAGE=/vmlinuz root=/dev/sda1
proc/meminfo = MemTotal:       2113564744 kB\\nHugePages_Total:       0\\nHugePages_Free:        0
proc/mounts = proc /proc proc rw 0 0\\ntmpfs /dev/shm tmpfs rw,nosuid,nodev 0 0
proc/self/limits = Limit  Soft Limit  Hard Limit  Units\\nMax open files  1024  1048576  files\\nMax locked memory  unlimited  unlimited  bytes
proc/self/status = CapEff:\t0000000000000000
proc/self/ns/pid -> pid:[4026531836]
proc/700/comm = nv-fabricmanage
proc/701/comm = nvidia-persiste
proc/driver/nvidia/version = NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build
sys/devices/system/node/online = 0-1
sys/devices/system/cpu/cpu0/cpufreq/scaling_governor = performance
sys/devices/virtual/dmi/id/product_name = DGXH100
sys/devices/virtual/dmi/id/sys_vendor = NVIDIA
sys/kernel/mm/transparent_hugepage/enabled = always [madvise] never
sys/class/iommu/dmar0/
sys/module/nvidia_peermem/version = 580.159.04
sys/module/gdrdrv/version = 2.5
sys/module/ib_core/parameters/netns_mode = Y
sys/bus/pci/devices/0000:07:00.0/class = 0x068000
sys/bus/pci/devices/0000:07:00.0/vendor = 0x10de
sys/bus/pci/devices/0000:07:00.0/iommu_group/type = identity
dev/gdrdrv =
for 0,10,11,12 1,20,21,22 2,30,31,32 3,40,41,42 4,50,51,52 5,60,61,62 6,70,71,72 7,80,81,82
  sys/devices/pci0000:{1}/0000:{1}:01.0/max_link_speed = 32.0 GT/s PCIe
  sys/devices/pci0000:{1}/0000:{1}:01.0/max_link_width = 16
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{2}:00.0/class = 0x030200
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{2}:00.0/vendor = 0x10de
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{2}:00.0/current_link_width = 16
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{2}:00.0/max_link_width = 16
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{2}:00.0/iommu_group/type = identity
  sys/bus/pci/devices/0000:{2}:00.0 -> ../../../devices/pci0000:{1}/0000:{1}:01.0/0000:{2}:00.0
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{3}:00.0/class = 0x020700
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{3}:00.0/current_link_speed = 32.0 GT/s PCIe
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{3}:00.0/max_link_speed = 32.0 GT/s PCIe
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{3}:00.0/current_link_width = 16
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{3}:00.0/max_link_width = 16
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{3}:00.0/iommu_group/type = identity
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{3}:00.0/infiniband/mlx5_{0}/
  sys/devices/pci0000:{1}/0000:{1}:01.0/0000:{3}:00.0/driver -> ../../../../bus/pci/drivers/mlx5_core
  sys/bus/pci/devices/0000:{3}:00.0 -> ../../../devices/pci0000:{1}/0000:{1}:01.0/0000:{3}:00.0
  sys/class/infiniband/mlx5_{0}/device -> ../../../bus/pci/devices/0000:{3}:00.0
  sys/class/infiniband/mlx5_{0}/node_type = 1: CA
  sys/class/infiniband/mlx5_{0}/ports/1/state = 4: ACTIVE
  sys/class/infiniband/mlx5_{0}/ports/1/phys_state = 5: LinkUp
  sys/class/infiniband/mlx5_{0}/ports/1/link_layer = InfiniBand
  sys/class/infiniband/mlx5_{0}/ports/1/rate = 400 Gb/sec (4X NDR)
  sys/class/infiniband/mlx5_{0}/ports/1/hw_counters/out_of_sequence = 0
  sys/class/infiniband_verbs/uverbs{0}/
  dev/infiniband/uverbs{0} =
  sys/class/net/ib{0}/device -> ../../../bus/pci/devices/0000:{3}:00.0
  sys/class/net/ib{0}/operstate = up
  sys/class/net/ib{0}/carrier = 1
  sys/class/net/ib{0}/speed = 400000
  sys/class/net/ib{0}/mtu = 4092
  sys/class/net/ib{0}/type = 32
end
";

/// An instance of EC2 with a GPU and an EFA, in a container.
const EFA: &str = "
.dockerenv =
proc/stat = cpu  1 2 3 4 5 6 7 8\\ncpu0 1 2 3 4 5 6 7 8
proc/sys/kernel/hostname = ip-10-0-0-7
proc/sys/kernel/osrelease = 6.8.0-1015-aws
proc/cpuinfo = processor : 0\\nflags : fpu sse hypervisor avx
proc/meminfo = MemTotal:       263564744 kB\\nHugePages_Total:    5128\\nHugePages_Free:     5128
proc/mounts = shm /dev/shm tmpfs rw,nosuid,nodev,noexec,relatime,size=16777216k 0 0
proc/self/limits = Max open files  1024  1048576  files\\nMax locked memory  65536  65536  bytes
proc/self/status = CapEff:\t0000000000004000
proc/self/ns/pid -> pid:[4026532511]
proc/driver/nvidia/version = NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build
sys/devices/system/node/online = 0
sys/devices/virtual/dmi/id/product_name = p5.4xlarge
sys/devices/virtual/dmi/id/sys_vendor = Amazon EC2
sys/kernel/mm/transparent_hugepage/enabled = always [madvise] never
sys/class/iommu/
sys/bus/pci/devices/0000:31:00.0/class = 0x030200
sys/bus/pci/devices/0000:31:00.0/vendor = 0x10de
sys/bus/pci/devices/0000:32:00.0/class = 0x020000
sys/bus/pci/devices/0000:32:00.0/infiniband/rdmap50s0/
sys/bus/pci/devices/0000:32:00.0/p2p = NVIDIA peer memory
sys/bus/pci/devices/0000:32:00.0/driver -> ../../drivers/efa
sys/class/infiniband/rdmap50s0/device -> ../../../bus/pci/devices/0000:32:00.0
sys/class/infiniband/rdmap50s0/node_type = 7: unspecified
sys/class/infiniband/rdmap50s0/ports/1/state = 4: ACTIVE
sys/class/infiniband/rdmap50s0/ports/1/hw_counters/tx_bytes = 5000000
sys/class/infiniband/rdmap50s0/ports/1/hw_counters/rx_bytes = 4000000
sys/class/infiniband/rdmap50s0/ports/1/hw_counters/unresponsive_remote_events = 3
sys/class/infiniband/rdmap50s0/hw_counters/create_ah_err = 0
sys/class/infiniband_verbs/uverbs0/
dev/infiniband/uverbs0 =
sys/class/net/ens5/operstate = up
sys/class/net/ens5/mtu = 9001
";

const PASS: &str = "pass";
const WARN: &str = "warn";
const FAIL: &str = "fail";
const NOT_READ: &str = "cannot read";
const N_A: &str = "does not apply";

/// The program on a tree: its output and exit code.
fn doctor(root: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    command.arg("--sysroot").arg(root).arg("doctor").args(args).args(["--wait", "60s"]);
    command.env("HOME", root).env_remove("NCCL_SOCKET_IFNAME").output().unwrap()
}

/// Each check's status and value, by id.
fn checks(root: &Path) -> BTreeMap<String, (String, String)> {
    let out = doctor(root, &["--json"]);
    let document: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|err| panic!("{err}: {out:?}"));
    assert_eq!(document["schema"], "nccl-top.doctor/1");
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    document["checks"].as_array().unwrap().iter().map(|c| (text(&c["id"]), (text(&c["status"]), text(&c["value"])))).collect()
}

/// A tree with changes: lines of a tree, and `- PATH` for what is taken away.
fn changed(base: &str, changes: &str) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    tree::write(dir.path(), base);
    for line in changes.lines().map(str::trim).filter(|line| !line.is_empty()) {
        // A link is written anew, a file in the place of a directory, too.
        if line.contains(" -> ") {
            tree::remove(dir.path(), line.split(' ').next().unwrap());
        }
        tree::write(dir.path(), line);
    }
    dir
}

#[test]
fn a_healthy_machine_is_well() {
    let metal = changed(METAL, "");
    let all = checks(metal.path());
    let of = |status: &str| all.iter().filter(|(_, (s, _))| s == status).map(|(id, _)| id.as_str()).collect::<Vec<_>>();
    assert_eq!((of(FAIL), of(WARN)), (vec![], vec![]), "{all:#?}");
    assert_eq!(of(N_A), ["efa-peers", "hugepages", "imex"], "{all:#?}");
    // What asks the live system, and configuration spaces that are not in the tree.
    assert_eq!(of(NOT_READ), ["acs", "clock-skew", "gpu-answers", "gpu-reset", "kernel-log", "mig"], "{all:#?}");
    assert_eq!(all.len(), 31);
    assert_eq!(doctor(metal.path(), &["--strict"]).status.code(), Some(0));

    let efa = changed(EFA, "");
    let all = checks(efa.path());
    let bad: Vec<_> = all.iter().filter(|(_, (s, _))| s == FAIL || s == WARN).collect();
    assert!(bad.is_empty(), "{bad:#?}");
    for (id, status, value) in [
        ("memlock-small", PASS, "CAP_IPC_LOCK"),
        ("iommu-on", N_A, "virtual machine"),
        ("acs", N_A, "virtual machine"),
        ("numa-balancing", N_A, "one NUMA node"),
        ("cpu-governor", N_A, "does not set the clock"),
        ("namespaces", NOT_READ, "processes outside of this container are not seen"),
        ("fabric-manager", N_A, "no NVSwitch"),
        ("gpu-direct", PASS, "1 EFA device by p2p"),
        ("gdrcopy", N_A, "optional"),
        ("hugepages", PASS, "5128 of 5128 free"),
        ("efa-peers", PASS, "5.0MB sent, 4.0MB received"),
        ("gpu-count", PASS, "1 of the 1 of a p5.4xlarge"),
        ("nic-count", PASS, "1 of the 1 of a p5.4xlarge"),
        ("shm-small", PASS, "16.0 GiB"),
    ] {
        let (found, words) = &all[id];
        assert!(found == status && words.contains(value), "{id}: {found} {words}, not {status} {value}");
    }
}

/// Which tree, the changes, the check, its status, and what its value holds.
type Case = (&'static str, &'static str, &'static str, &'static str, &'static str);

/// A tray whose IMEX has a channel and runs.
macro_rules! nvl72 {
    () => {
        "sys/devices/virtual/dmi/id/product_name = NVIDIA GB200 NVL72\ndev/nvidia-caps-imex-channels/channel0 =\nproc/702/comm = nvidia-imex\n"
    };
}

#[rustfmt::skip]
const CASES: &[Case] = &[
    (METAL, "proc/mounts = shm /dev/shm tmpfs rw,size=65536k 0 0", "shm-small", WARN, "64 MiB"),
    (METAL, "proc/mounts = proc /proc proc rw 0 0", "shm-small", NOT_READ, "no file system at /dev/shm"),
    (METAL, "proc/self/limits = Max open files  1024  4096  files\nproc/self/status =", "open-files", WARN, "4096 at most for this program"),
    (METAL, "proc/self/limits = Max locked memory  65536  65536  bytes", "memlock-small", WARN, "64 KiB for this program"),
    (METAL, "proc/self/limits = Max locked memory  65536  65536  bytes\nproc/self/status = CapEff:\t000001ffffffffff", "memlock-small", WARN, "64 KiB"),
    (METAL, "- proc/self/limits", "memlock-small", NOT_READ, "/proc/self/limits"),
    (METAL, "- proc/self/limits", "open-files", NOT_READ, "/proc/self/limits"),
    (METAL, "- sys/class/infiniband", "memlock-small", N_A, "no RDMA device"),
    (EFA, "proc/self/status = CapEff:\t0000000000000000", "memlock-small", WARN, "64 KiB"),
    (METAL, "sys/bus/pci/devices/0000:11:00.0/iommu_group/type = DMA-FQ", "iommu-on", WARN, "17 devices (0000:11:00.0)"),
    (METAL, "- sys/class/iommu/dmar0", "iommu-on", PASS, "off"),
    (METAL, "- sys/bus/pci/devices/0000:11:00.0/iommu_group", "iommu-on", NOT_READ, "neither the groups"),
    (METAL, "- sys/bus/pci/devices/0000:11:00.0/iommu_group\nproc/cmdline = ro iommu=pt", "iommu-on", PASS, "iommu=pt"),
    (METAL, "- sys/class/iommu/dmar0\nsys/class/iommu/smmu3.0x5000000/", "iommu-on", N_A, "ARM"),
    (METAL, "proc/sys/kernel/numa_balancing = 1", "numa-balancing", WARN, "1"),
    (METAL, "proc/sys/kernel/numa_balancing !", "numa-balancing", NOT_READ, "is a directory"),
    (METAL, "sys/kernel/mm/transparent_hugepage/enabled = always madvise [never]", "thp", WARN, "never"),
    (METAL, "sys/kernel/mm/transparent_hugepage/enabled !", "thp", NOT_READ, "is a directory"),
    (EFA, "proc/meminfo = MemTotal: 9 kB\\nHugePages_Total: 0\\nHugePages_Free: 0", "hugepages", WARN, "none"),
    (EFA, "proc/meminfo = MemTotal: 9 kB\\nHugePages_Total: 128\\nHugePages_Free: 0", "hugepages", WARN, "all 128 are in use"),
    (EFA, "proc/meminfo = MemTotal: 9 kB", "hugepages", NOT_READ, "does not count them"),
    (METAL, "sys/devices/system/cpu/cpu1/cpufreq/scaling_governor = powersave", "cpu-governor", WARN, "performance on 1 CPU, powersave on 1 CPU"),
    (METAL, "- proc/driver/nvidia/version", "gpu-driver", FAIL, "8 GPUs on the PCI bus, and no NVIDIA kernel module"),
    (METAL, "proc/driver/nvidia/version = nonsense", "gpu-driver", NOT_READ, "shows no version"),
    (METAL, "- sys/bus/pci/devices/0000:11:00.0", "gpu-count", FAIL, "7 of the 8 of a DGX H100"),
    (METAL, "sys/devices/virtual/dmi/id/product_name = X13", "gpu-count", PASS, "8; how many this machine should have is not known"),
    (EFA, "- sys/bus/pci/devices/0000:31:00.0", "gpu-count", FAIL, "0 of the 1 of a p5.4xlarge"),
    (METAL, "- proc/700", "fabric-manager", FAIL, "1 NVSwitch and no nv-fabricmanager"),
    (METAL, "- proc/700\nproc/self/ns/pid -> pid:[4026532511]", "fabric-manager", NOT_READ, "not seen"),
    (METAL, "- proc/701", "persistence", NOT_READ, "NVML"),
    (METAL, "sys/devices/virtual/dmi/id/product_name = NVIDIA GB200 NVL72", "imex", WARN, "no channel"),
    (METAL, "sys/devices/virtual/dmi/id/product_name = NVIDIA GB200 NVL72\ndev/nvidia-caps-imex-channels/channel0 =", "imex", WARN, "1 channel, and nvidia-imex does not run"),
    (METAL, "sys/devices/virtual/dmi/id/product_name = NVIDIA GB200 NVL72\ndev/nvidia-caps-imex-channels/channel0 =\nproc/702/comm = nvidia-imex", "imex", PASS, "1 channel, nvidia-imex runs"),
    (METAL, concat!(nvl72!(), "etc/nvidia-imex/nodes_config.cfg = # the rack\\n10.3.0.1\\n10.3.0.2"), "imex", PASS, "nvidia-imex runs for 2 nodes"),
    (METAL, concat!(nvl72!(), "etc/nvidia-imex/nodes_config.cfg =\nvar/log/nvidia-imex.log = [INFO] up\\n[ERROR] no quorum\\n[INFO] x"), "imex", WARN, "names no node; its log: [ERROR] no quorum"),
    (METAL, concat!(nvl72!(), "etc/nvidia-imex/nodes_config.cfg !"), "imex", PASS, "/etc/nvidia-imex/nodes_config.cfg: is a directory"),
    (METAL, "sys/devices/virtual/dmi/id/product_name = NVIDIA GB200 NVL72\ndev/nvidia-caps-imex-channels !", "imex", WARN, "no channel"),
    (METAL, "sys/bus/pci/devices/0000:11:00.0/current_link_width = 8", "gpu-pcie-link", WARN, "0000:11:00.0 x8 of x16"),
    (METAL, "sys/bus/pci/devices/0000:11:00.0/current_link_width = 8\nsys/devices/pci0000:10/0000:10:01.0/max_link_width = 8", "gpu-pcie-link", PASS, "full width"),
    (EFA, "", "gpu-pcie-link", NOT_READ, "no link width"),
    (METAL, "- sys/module/nvidia_peermem", "gpu-direct", PASS, "DMA-BUF"),
    (METAL, "- sys/module/nvidia_peermem\nproc/sys/kernel/osrelease = 5.4.0-200-generic", "gpu-direct", WARN, "no nvidia_peermem"),
    (METAL, "- sys/module/nvidia_peermem\nproc/driver/nvidia/version = NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04", "gpu-direct", WARN, "not the open one"),
    (METAL, "- sys/module/nvidia_peermem\nsys/kernel/mm/memory_peers/nv_mem/version = 1.3", "gpu-direct", PASS, "nv_peer_mem 1.3"),
    (METAL, "sys/module/nvidia_peermem/version !", "gpu-direct", NOT_READ, "is a directory"),
    (EFA, "sys/bus/pci/devices/0000:32:00.0/p2p =", "gpu-direct", WARN, "the EFA device without a p2p provider"),
    (EFA, "- sys/bus/pci/devices/0000:32:00.0/p2p", "gpu-direct", NOT_READ, "does not show it"),
    (METAL, "- dev/gdrdrv", "gdrcopy", WARN, "/dev/gdrdrv is not here"),
    (METAL, "sys/module/gdrdrv/version !", "gdrcopy", NOT_READ, "is a directory"),
    (METAL, "- sys/class/infiniband/mlx5_3", "nic-count", FAIL, "7 of the 8 of a DGX H100"),
    (EFA, "- sys/class/infiniband", "nic-count", FAIL, "0 of the 1 of a p5.4xlarge"),
    (METAL, "- sys/class/infiniband\nsys/class/infiniband =", "nic-count", NOT_READ, "rdma: /sys/class/infiniband"),
    (METAL, "- dev/infiniband/uverbs3", "rdma-device-files", FAIL, "1 of 8 files missing in /dev/infiniband (uverbs3)"),
    (METAL, "- dev/infiniband/uverbs3\ndev/infiniband/uverbs3 -> nowhere", "rdma-device-files", FAIL, "this user may not open uverbs3"),
    (METAL, "- dev/infiniband\n- sys/class/infiniband_verbs", "rdma-device-files", NOT_READ, "in this tree"),
    (METAL, "- sys/class/infiniband_verbs", "rdma-device-files", FAIL, "ib_uverbs is not loaded"),
    (METAL, "- sys/class/infiniband/mlx5_0/ports/1/hw_counters", "rdma-counters", NOT_READ, "hidden by the network namespace for 1 of 8 ports; netns_mode Y"),
    (METAL, "sys/class/infiniband/mlx5_0/ports/1/state = 1: DOWN\nsys/class/infiniband/mlx5_0/ports/1/phys_state = 3: Disabled", "ports-active", WARN, "mlx5_0/1 DOWN (Disabled)"),
    (METAL, "sys/class/infiniband/mlx5_9/node_type = 1: CA\nsys/class/infiniband/mlx5_9/ports/1/state = 1: DOWN", "ports-active", PASS, "8 of 9 ports ACTIVE"),
    (EFA, "sys/class/infiniband/rdmap50s0/ports/1/state = 1: DOWN", "ports-active", FAIL, "none is ACTIVE"),
    (EFA, "sys/class/infiniband/rdmap50s0/ports/1/state !", "ports-active", NOT_READ, "no port shows its state"),
    (METAL, "sys/bus/pci/devices/0000:12:00.0/current_link_speed = 16.0 GT/s PCIe", "nic-pcie-link", WARN, "0000:12:00.0 16 of 32 GT/s"),
    (METAL, "sys/bus/pci/devices/0000:12:00.0/current_link_width = 4", "nic-pcie-link", WARN, "0000:12:00.0 x4 of x16"),
    (EFA, "", "nic-pcie-link", N_A, "no RDMA device shows a PCIe link"),
    (EFA, "sys/class/infiniband/rdmap50s0/ports/1/hw_counters/rx_bytes = 0", "efa-peers", WARN, "5.0MB sent, 0B received, 3 times no answer"),
    (EFA, "sys/class/infiniband/rdmap50s0/ports/1/hw_counters/rx_bytes = 0\nsys/class/infiniband/rdmap50s0/ports/1/hw_counters/unresponsive_remote_events = 0\nsys/class/infiniband/rdmap50s0/hw_counters/create_ah_err = 2", "efa-peers", WARN, "2 addresses"),
    (EFA, "sys/class/infiniband/rdmap50s0/ports/1/hw_counters/rx_bytes !", "efa-peers", NOT_READ, "rx_bytes"),
    (METAL, "etc/nccl.conf = NCCL_DEBUG=WARN\\nNCCL_SOCKET_IFNAME=eth1", "socket-ifname", FAIL, "eth1 (/etc/nccl.conf) names no interface"),
    (METAL, "etc/nccl.conf = NCCL_SOCKET_IFNAME=ib2\nsys/class/net/ib2/operstate = down", "socket-ifname", FAIL, "names ib2, which is down"),
    (METAL, "etc/nccl.conf = NCCL_SOCKET_IFNAME=docker0\nsys/class/net/docker0/operstate = up", "socket-ifname", WARN, "docker0, which reaches no other node"),
    (METAL, "etc/nccl.conf = NCCL_SOCKET_IFNAME=^docker,lo", "socket-ifname", PASS, "^docker,lo"),
    (METAL, "etc/nccl.conf = NCCL_SOCKET_IFNAME==ib", "socket-ifname", FAIL, "=ib (/etc/nccl.conf) names no interface"),
    (METAL, "etc/nccl.conf = NCCL_SOCKET_IFNAME=ib\n- sys/class/net", "socket-ifname", N_A, "no interface"),
    (METAL, "sys/class/net/ib3/mtu = 2044", "mtu", WARN, "ib0 has 4092, ib3 has 2044"),
    (METAL, "- sys/class/net", "mtu", N_A, "no interface"),
];

#[test]
fn each_check_knows_good_bad_and_unknown() {
    let wrong = |case: &Case| {
        let (base, changes, id, status, value) = case;
        let dir = changed(base, changes);
        let (found, words) = &checks(dir.path())[*id];
        let is_right = found == status && words.contains(value);
        (!is_right).then(|| format!("{id} with {changes:?}: {found} {words:?}, not {status} {value:?}"))
    };
    let wrong: Vec<String> = std::thread::scope(|scope| {
        let parts: Vec<_> = CASES.chunks(CASES.len().div_ceil(4)).collect();
        let hands: Vec<_> = parts.iter().map(|part| scope.spawn(|| part.iter().filter_map(wrong).collect::<Vec<_>>())).collect();
        hands.into_iter().flat_map(|hand| hand.join().unwrap()).collect()
    });
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn acs_is_read_from_configuration_space() {
    let dir = changed(METAL, "");
    let bridge = |n: u32| dir.path().join(format!("sys/devices/pci0000:{n}0/0000:{n}0:01.0/config"));
    // Two capabilities: the second is ACS, with its control register behind the six bytes.
    let config = |control: u16| {
        let mut bytes = vec![0u8; 4096];
        bytes[0x100..0x104].copy_from_slice(&(0x0001u32 | 1 << 16 | 0x148 << 20).to_le_bytes());
        bytes[0x148..0x14c].copy_from_slice(&(0x000du32 | 1 << 16).to_le_bytes());
        bytes[0x14e..0x150].copy_from_slice(&control.to_le_bytes());
        bytes
    };
    for n in 1..=8 {
        fs::write(bridge(n), config(0)).unwrap();
    }
    assert_eq!(checks(dir.path())["acs"], (PASS.into(), "off at 8 bridges".into()));
    fs::write(bridge(3), config(0x1d)).unwrap();
    assert_eq!(checks(dir.path())["acs"], (WARN.into(), "1 of 8 bridges redirect (0000:30:01.0)".into()));
    // What a user sees; and a list of capabilities that leads back to its own start.
    fs::write(bridge(3), &config(0x1d)[..64]).unwrap();
    let mut circle = config(0);
    circle[0x100..0x104].copy_from_slice(&(0x0001u32 | 0x100 << 20).to_le_bytes());
    fs::write(bridge(4), circle).unwrap();
    let (status, why) = &checks(dir.path())["acs"];
    assert!(status == NOT_READ && why.contains("1 of 8 bridges: config space beyond 64 bytes needs root"), "{status} {why}");
}

#[test]
fn the_report_shows_what_is_not_well_in_full_and_the_rest_in_short() {
    let dir = changed(METAL, "proc/sys/kernel/numa_balancing = 1\n- dev/infiniband/uverbs3\nproc/sys/kernel/hostname = a\u{1b}[2Jb");
    let out = doctor(dir.path(), &[]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(1));
    assert!(!text.contains('\u{1b}'), "{text}");
    for line in [
        "FAIL  ",
        "NUMA balancing (host, numa-balancing)\n  WARN       1\n  healthy    0\n  why        the kernel unmaps pages",
        "  do         sysctl -w kernel.numa_balancing=0\n",
        "  FAIL       1 of 8 files missing in /dev/infiniband (uverbs3)\n",
        "\nWell\n  host       ",
        "\nCannot be read\n  host       PCIe ACS: 8 of 8 bridges: config space beyond 64 bytes needs root (sudo nccl-top doctor",
    ] {
        assert!(text.contains(line), "{line:?} is not in\n{text}");
    }
    assert!(text.find("(net, rdma-device-files)") < text.find("(host, numa-balancing)"), "what fails comes first:\n{text}");
    let all = String::from_utf8(doctor(dir.path(), &["-v", "--only", "gpu,net"]).stdout).unwrap();
    assert!(all.contains("  pass       GPUDirect RDMA: nvidia_peermem 580.159.04\n") && !all.contains("NUMA"), "{all}");
}

#[test]
fn the_exit_code_is_that_of_check() {
    let code = |base, changes, args: &[&str]| doctor(changed(base, changes).path(), args).status.code();
    assert_eq!(code(METAL, "proc/sys/kernel/numa_balancing = 1", &[]), Some(0), "a warning");
    assert_eq!(code(METAL, "proc/sys/kernel/numa_balancing = 1", &["--strict"]), Some(1));
    assert_eq!(code(METAL, "proc/sys/kernel/numa_balancing = 1", &["--strict", "--only", "net"]), Some(0));
    assert_eq!(code(METAL, "- dev/infiniband/uverbs3", &["--only", "host,net", "--json"]), Some(1));
    assert_eq!(code("proc/stat = cpu 1 2 3 4", "", &["--only", "gpu"]), Some(2), "nothing is there to be judged");
    let out = doctor(Path::new("/"), &["--only", "disk"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("expected host, gpu or net"));
}

/// A live machine with a GPU, by what its sources report.
struct Seer(Session);

const AT: Stamp = Stamp(1_795_255_200_000_000_000);

impl Seer {
    fn new() -> Seer {
        let mut seer = Seer(Session::new("node-1", Zone::UTC));
        let own = ProcessSetup { memlock_bytes: Some(u64::MAX), open_files: Some(1 << 20), ..ProcessSetup::default() };
        let gpu = PciFacts { bus_id: "0000:11:00.0".into(), what: PciKind::Gpu, ..PciFacts::default() };
        let clock = ClockState { estimated_error_us: 120, ..ClockState::default() };
        let facts = HostFacts {
            is_live: true,
            own,
            clock: Some(clock),
            shm_bytes: Some(1 << 34),
            daemons: Some(vec![]),
            pci: vec![gpu],
            ..HostFacts::default()
        };
        seer.facts(|known| *known = facts.clone());
        seer.sees("host", Body::Node(Node { vendor: Some("NVIDIA".into()), ..Node::default() }));
        seer.sees(
            "nvml",
            Body::GpuInfo(GpuInfo { driver: Some("580.1".into()), persistence: Some(true), mig: Some(false), ..GpuInfo::default() }),
        );
        for id in ["nvml", "kmsg", "rdma", "netdev"] {
            seer.source(id, SourceState::Ok, None);
        }
        seer
    }

    fn sees(&mut self, from: &'static str, body: Body) {
        self.0.apply(&Observation { at: AT, host: None, from: SourceId::of(from), body }, &mut Vec::new());
    }

    fn source(&mut self, id: &'static str, state: SourceState, detail: Option<&str>) {
        self.sees(id, Body::Source(SourceReport { state, detail: detail.map(str::to_owned), title: None }));
    }

    fn facts(&mut self, change: impl FnOnce(&mut HostFacts)) {
        let mut facts = self.0.model.facts.as_deref().cloned().unwrap_or_default();
        change(&mut facts);
        self.sees("host", Body::HostFacts(Box::new(facts)));
    }

    fn health(&mut self, health: GpuHealth) {
        self.sees("nvml", Body::GpuHealth { gpus: vec![health] });
    }

    #[track_caller]
    fn finds(&self, id: &str, state: State, value: &str) {
        let all = host_checks::judge(&self.0.model, &Group::ALL);
        let found = &all.iter().find(|c| c.check.id == id).unwrap().answer;
        assert!(found.state == state && found.value.contains(value), "{id}: {found:?}, not {state:?} {value}");
    }
}

#[test]
fn what_the_driver_says_is_judged() {
    let mut seer = Seer::new();
    seer.finds("persistence", State::Pass, "on");
    seer.finds("mig", State::Pass, "off");
    seer.finds("gpu-answers", State::Pass, "1 GPU");
    seer.finds("gpu-reset", State::CannotRead, "has not shown");
    seer.health(GpuHealth { recovery_action: Some(0), fabric_state: Some(3), ..GpuHealth::default() });
    seer.finds("gpu-reset", State::Pass, "none");
    seer.finds("fabric-manager", State::Pass, "completed");
    seer.health(GpuHealth { remap_pending: Some(true), fabric_state: Some(1), ..GpuHealth::default() });
    seer.finds("gpu-reset", State::Warn, "GPU 0");
    seer.finds("fabric-manager", State::Fail, "fabric state not completed");
    seer.health(GpuHealth { recovery_action: Some(2), ..GpuHealth::default() });
    seer.finds("gpu-reset", State::Fail, "asks for a reset");
    let info =
        GpuInfo { driver: Some("580.1".into()), persistence: Some(false), mig: Some(true), mig_instances: Some(7), ..GpuInfo::default() };
    seer.sees("nvml", Body::GpuInfo(info));
    seer.finds("persistence", State::Warn, "off: GPU 0");
    seer.finds("mig", State::Warn, "on: GPU 0 with 7 instances");
    seer.facts(|facts| facts.daemons = Some(vec!["nvidia-persiste".into()]));
    seer.finds("persistence", State::Pass, "nvidia-persistenced");
    let trouble = GpuTrouble { kind: GpuTroubleKind::Lost, detail: "nvmlDeviceGetPowerUsage: GPU is lost".into() };
    seer.sees("nvml", Body::Gpus { gpus: vec![GpuSample { trouble: Some(trouble), ..GpuSample::default() }] });
    seer.finds("gpu-answers", State::Fail, "GPU is lost");
    seer.facts(|facts| facts.pci.push(PciFacts { bus_id: "0000:21:00.0".into(), what: PciKind::Gpu, ..PciFacts::default() }));
    seer.finds("gpu-count", State::Fail, "2 on the PCI bus, the driver knows 1");
    seer.source("nvml", SourceState::Failed, Some("nvmlInit_v2: driver/library version mismatch: the driver was upgraded"));
    seer.finds("gpu-driver", State::Fail, "version mismatch");
}

#[test]
fn a_driver_that_does_not_answer_cannot_be_read() {
    let mut seer = Seer(Session::new("node-1", Zone::UTC));
    seer.facts(|facts| facts.pci.push(PciFacts { what: PciKind::Gpu, ..PciFacts::default() }));
    seer.source("nvml", SourceState::Slow, Some("no answer within 2.5 s"));
    for id in ["gpu-answers", "gpu-reset", "mig", "persistence"] {
        seer.finds(id, State::CannotRead, "no answer within 2.5 s");
    }
    // Whether there are RDMA devices is not known either.
    seer.finds("memlock-small", State::CannotRead, "rdma: not looked at");
    let mut seer = Seer(Session::new("node-1", Zone::UTC));
    seer.source("host", SourceState::Slow, Some("no answer within 2.5 s"));
    for check in host_checks::all() {
        seer.finds(check.id, State::CannotRead, "no answer within 2.5 s");
    }
}

#[test]
fn clock_and_kernel_log_are_judged() {
    let mut seer = Seer::new();
    seer.finds("clock-skew", State::Pass, "about 0.1 ms off");
    seer.facts(|facts| facts.clock.as_mut().unwrap().estimated_error_us = 400_000);
    seer.finds("clock-skew", State::Warn, "400.0 ms off");
    seer.facts(|facts| facts.clock.as_mut().unwrap().unsynchronised = true);
    seer.finds("clock-skew", State::Warn, "STA_UNSYNC");
    seer.facts(|facts| facts.clock = None);
    seer.finds("clock-skew", State::CannotRead, "forbidden");
    seer.finds("kernel-log", State::Pass, "no error");
    let line = |text: &str| KernelLine { text: text.into(), ..KernelLine::default() };
    let lines = vec![
        line("NVRM: Xid (PCI:0000:11:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."),
        line("nvidia-nvlink: Nvlink Core is being initialized, major device number 235"),
    ];
    seer.sees("kmsg", Body::Kernel { lines, uptime_us: None });
    seer.finds("kernel-log", State::Warn, "1 error; the last: NVRM: Xid (PCI:0000:11:00): 79");
    // That a program crashed says nothing of the machine; that its memory fails does.
    let mut seer = Seer::new();
    let crash = "traps: python3[412] trap invalid opcode ip:7f2a4c0d1e2f sp:7ffd1a2b3c40 error:0 in libsolve.so";
    seer.sees("kmsg", Body::Kernel { lines: vec![line(crash)], uptime_us: None });
    seer.finds("kernel-log", State::Pass, "no error");
    seer.sees("kmsg", Body::Kernel { lines: vec![line("EDAC MC0: 1 UE memory read error on CPU_SrcID#0")], uptime_us: None });
    seer.finds("kernel-log", State::Warn, "EDAC MC0");
    let mut seer = Seer::new();
    seer.source("kmsg", SourceState::Denied, Some("/dev/kmsg: operation not permitted (kernel.dmesg_restrict)"));
    seer.finds("kernel-log", State::CannotRead, "kernel.dmesg_restrict");
}

#[test]
fn limits_and_namespaces_of_ranks_count() {
    let mut seer = Seer::new();
    let rank = |pid: u32, ipc: &str| ProcessInfo {
        pid,
        ppid: 40,
        start_ticks: 100_000,
        role: ProcessRole::Rank,
        env: Some(
            [("RANK", &*(pid - 50).to_string()), ("WORLD_SIZE", "2"), ("MASTER_PORT", "1")].map(|(k, v)| (k.into(), v.into())).into(),
        ),
        setup: Some(ProcessSetup { open_files: Some(4096), ipc_namespace: Some(ipc.into()), ..ProcessSetup::default() }),
        ..ProcessInfo::default()
    };
    seer.finds("open-files", State::Pass, "1048576 at most");
    seer.sees("procs", Body::Process(rank(50, "ipc:[4026531839]")));
    seer.sees("procs", Body::Process(rank(51, "ipc:[4026531839]")));
    seer.sees("feed", Body::Tick);
    seer.finds("open-files", State::Warn, "4096 at most for pid 50, pid 51");
    // What the shell may use in which this program was started does not matter then.
    seer.facts(|facts| facts.own.open_files = Some(1024));
    seer.finds("open-files", State::Warn, "4096 at most for pid 50, pid 51");
    seer.finds("namespaces", State::Pass, "whole host");
    seer.sees("procs", Body::Process(rank(51, "ipc:[4026532222]")));
    seer.sees("feed", Body::Tick);
    seer.finds("namespaces", State::Warn, "pids 50 and 51 of one job are in different IPC namespaces");
}

#[test]
fn the_checklist_has_what_is_not_well_and_one_row_for_the_rest() {
    let mut seer = Seer::new();
    assert!(host_checks::items(&Session::new("x", Zone::UTC).model).is_empty(), "an old recording has none");
    let items = host_checks::items(&seer.0.model);
    assert_eq!((items.len(), items[0].state, items[0].id), (1, Seen::Pass, "host-checks"), "{items:?}");
    assert!(items[0].value.starts_with("host 4, gpu 4, net 1 pass; "), "{}", items[0].value);
    seer.facts(|facts| facts.shm_bytes = Some(64 << 20));
    let items = host_checks::items(&seer.0.model);
    assert_eq!((items.len(), items[1].state, &*items[1].value), (2, Seen::Warn, "64 MiB"));
    assert!(items[1].advice.as_ref().unwrap().contains("mount"));
}

#[test]
fn five_checks_are_findings_that_accuse_nobody() {
    let mut seer = Seer::new();
    let open = |seer: &mut Seer, second: i64| {
        let at = Stamp(AT.0 + second * 1_000_000_000);
        seer.0.apply(&Observation { at, host: None, from: SourceId::of("feed"), body: Body::Tick }, &mut Vec::new());
        let open = seer.0.ledger.open().into_iter().filter(|f| host_checks::all().any(|c| c.id == f.rule));
        open.map(|f| format!("{} {} {}", f.severity.as_str(), f.role.as_str(), f.rule)).collect::<Vec<_>>()
    };
    assert!((0..10).all(|second| open(&mut seer, second).is_empty()), "a healthy host says nothing");
    seer.facts(|facts| {
        facts.shm_bytes = Some(64 << 20);
        facts.clock = Some(ClockState { unsynchronised: true, ..ClockState::default() });
    });
    let found: Vec<String> = (10..20).map(|second| open(&mut seer, second)).last().unwrap();
    assert_eq!(found, ["warning context shm-small", "info context clock-skew"]);
    let all: Vec<&str> = host_checks::all().map(|c| c.id).collect();
    for rule in ["shm-small", "memlock-small", "iommu-on", "fabric-manager", "clock-skew"] {
        assert!(all.contains(&rule) && nccl_top::rules::rule(rule).is_some(), "{rule}");
    }
}

#[test]
fn every_check_says_what_why_and_what_to_do() {
    let mut ids = std::collections::BTreeSet::new();
    for check in host_checks::all() {
        assert!(ids.insert(check.id), "{} stands twice", check.id);
        assert!(!check.label.is_empty() && !check.reads.is_empty() && !check.healthy.is_empty(), "{}", check.id);
        assert!(check.why.len() > 20 && !check.remedy.is_empty(), "{}", check.id);
    }
}

/// The report of `doctor` holds what NCCL's RAS answers, and its verdict does not depend on it.
#[test]
fn nccls_own_diagnostics_stand_in_the_report() {
    use nccl_top::formats::ras::diagnostics;
    use nccl_top::output::check::text::Style;
    use nccl_top::output::doctor::{Report, json, text};
    let reply = "n:1 NCCL DIAG [OK]   ECC: no uncorrected volatile errors across 8 ranks in comm 0x1\n\
                 n:1 NCCL DIAG [INFO] NCCL environment: NCCL_DEBUG=WARN on rank(s) {4,5}\n\
                 n:1 NCCL DIAG RAS diagnostics completed in 12.3 ms across 8 RAS peers\n";
    let diagnosed = vec![
        ("localhost:28028".to_owned(), Ok(diagnostics::parse(reply).unwrap())),
        ("localhost:28029".to_owned(), Err("connection refused".to_owned())),
    ];
    let report = Report { host: "n".into(), machine: None, checked: Vec::new(), diagnosed, took_ms: 1 };
    let document = json(&report);
    assert_eq!(document["ras_diagnostics"][0]["answer"]["lines"][1]["check"], "NCCL environment");
    assert_eq!(document["ras_diagnostics"][1]["error"], "connection refused");
    assert_eq!(document["verdict"], "unknown");
    let page = text(&report, &Style { color: false, ascii: true, width: 120 }, false);
    for words in ["NCCL_DEBUG=WARN on rank(s) {4,5}", "ECC", "8 processes answered", "connection refused"] {
        assert!(page.contains(words), "{words} in\n{page}");
    }
    assert!(!page.contains("uncorrected"), "what is well is one row:\n{page}");
}
