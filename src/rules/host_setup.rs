//! Host checks that are not well while a job may run, as findings: five rules that differ in their texts alone. They concern every job of the
//! host and accuse none.

use super::area::Area;
use super::host_checks::{find, runs};
use super::{Rule, while_it_holds};
use crate::base::severity::Severity;

const CHECK: Rule = Rule { severity: Severity::Warning, life: while_it_holds(3, 10), area: Some(Area::Host), ..Rule::PLAIN };

pub const SHM_SMALL: Rule = Rule {
    id: "shm-small",
    title: "/dev/shm is too small for NCCL and data loaders",
    how: "statvfs of /dev/shm: less than 1 GiB",
    advice: "In a container --shm-size=16g, --ipc=host, or an emptyDir with medium: Memory; else mount -o remount,size=50% /dev/shm",
    on_tick: Some(|ctx, out| find(&SHM_SMALL, ctx, out)),
    ..CHECK
};

pub const MEMLOCK_SMALL: Rule = Rule {
    id: "memlock-small",
    title: "The limit on locked memory is too small for RDMA",
    how: "Max locked memory in /proc/PID/limits of this program and of ranks, where there is an RDMA device",
    advice: "Unlimited: LimitMEMLOCK=infinity in the service that starts jobs; in a container --ulimit memlock=-1:-1",
    on_tick: Some(|ctx, out| find(&MEMLOCK_SMALL, ctx, out)),
    ..CHECK
};

pub const IOMMU_ON: Rule = Rule {
    id: "iommu-on",
    title: "The IOMMU translates what GPUs and NICs send to one another",
    how: "/sys/class/iommu, the type of the devices' IOMMU groups, the kernel's command line; on bare metal only",
    advice: "Add iommu=pt to the kernel's command line and reboot",
    on_tick: Some(|ctx, out| find(&IOMMU_ON, ctx, out)),
    ..CHECK
};

pub const FABRIC_MANAGER: Rule = Rule {
    id: "fabric-manager",
    area: Some(Area::Nvlink),
    title: "NVSwitches are not set up: the fabric manager does not run",
    how: "The fabric state of each GPU (NVML); else the process nv-fabricmanager where NVSwitches are on the PCI bus",
    advice: "systemctl status nvidia-fabricmanager; its version must be that of the driver",
    // Where it runs, what it has not finished is for `fabric-state` to say.
    on_tick: Some(|ctx, out| match runs(ctx.model, "nv-fabricmanage") {
        Some(true) => {}
        _ => find(&FABRIC_MANAGER, ctx, out),
    }),
    ..CHECK
};

pub const CLOCK_SKEW: Rule = Rule {
    id: "clock-skew",
    severity: Severity::Info,
    title: "No daemon keeps the clock: logs of several nodes cannot be put in order",
    how: "adjtimex(2): the flag STA_UNSYNC, and the estimated error",
    advice: "systemctl enable --now chronyd; chronyc tracking",
    on_tick: Some(|ctx, out| find(&CLOCK_SKEW, ctx, out)),
    ..CHECK
};
