//! Limits, memory, kernel and clock.

use super::{Check, Group, Host, Judged, cannot_read, does_not_apply, of_all, pass, size, some_of, warn};
use crate::base::clean::{clean, clip};
use crate::base::severity::Severity;
use crate::base::units::counted;
use crate::logs::catalog::{self, Scope};
use crate::model::process::Process;
use crate::observe::facts::{BridgeFacts, Look};
use crate::observe::process::{ProcessRole, ProcessSetup};
use crate::observe::{SourceId, SourceState};
use std::collections::BTreeSet;

const LEAST_SHM_BYTES: u64 = 1 << 30;
const LEAST_FILES: u64 = 65_536;
/// A clock that a daemon keeps, and that is further off than this, orders no log.
const MOST_CLOCK_ERROR_US: u64 = 100_000;
/// P2P Request Redirect and P2P Completion Redirect of the ACS control register.
const ACS_REDIRECTS: u16 = 0x4 | 0x8;
const PLAIN: Check = Check { id: "", group: Group::Host, label: "", reads: &[], healthy: "", why: "", remedy: "", judge: |_| Ok(pass("")) };

pub const CHECKS: &[Check] = &[
    Check {
        id: "shm-small",
        label: "/dev/shm",
        reads: &[Look::Call("statvfs(/dev/shm)"), Look::Call("/proc/mounts")],
        healthy: "1 GiB or more",
        why: "NCCL and data loaders share memory there; where it is full, ranks die with \"Error while creating shared memory segment\" or SIGBUS",
        remedy: "mount -o remount,size=50% /dev/shm",
        judge: shm,
        ..PLAIN
    },
    Check {
        id: "memlock-small",
        label: "locked memory",
        reads: &[Look::Call("/proc/self/limits"), Look::Call("/proc/PID/limits")],
        healthy: "unlimited",
        why: "RDMA locks the memory that it registers; beyond the limit ibv_reg_mr fails with \"Cannot allocate memory\"",
        remedy: "ulimit -l unlimited; for good: LimitMEMLOCK=infinity in the service that starts jobs, or memlock in /etc/security/limits.conf",
        judge: memlock,
        ..PLAIN
    },
    Check {
        id: "open-files",
        label: "open files",
        reads: &[Look::Call("/proc/self/limits"), Look::Call("/proc/PID/limits")],
        healthy: "a hard limit of 65536 or more",
        why: "each rank opens sockets to many others, and more for its data loaders; NCCL raises the soft limit to the hard one",
        remedy: "LimitNOFILE=1048576 in the service that starts jobs, or nofile in /etc/security/limits.conf",
        judge: open_files,
        ..PLAIN
    },
    Check {
        id: "iommu-on",
        label: "IOMMU",
        reads: &[
            Look::Names("/sys/class/iommu"),
            Look::File("/proc/cmdline"),
            Look::Call("/sys/bus/pci/devices/*/iommu_group/type"),
            Look::Lines("/proc/cpuinfo", &["flags"]),
        ],
        healthy: "off, or passing through (identity)",
        why: "an IOMMU that translates what GPUs and NICs send to one another slows GPUDirect and P2P down, or makes them hang",
        remedy: "add iommu=pt to the kernel's command line and reboot",
        judge: iommu,
        ..PLAIN
    },
    Check {
        id: "acs",
        label: "PCIe ACS",
        reads: &[Look::Call("/sys/bus/pci/devices/*/config")],
        healthy: "no redirection at the bridges above GPUs and NICs",
        why: "ACS sends P2P traffic up to the root complex: half the rate, or a hang",
        remedy: "turn ACS off in the BIOS, or at each boot: setpci -s BUS_ID ECAP_ACS+6.w=0000",
        judge: acs,
        ..PLAIN
    },
    Check {
        id: "numa-balancing",
        label: "NUMA balancing",
        reads: &[Look::File("/proc/sys/kernel/numa_balancing"), Look::File("/sys/devices/system/node/online")],
        healthy: "0",
        why: "the kernel unmaps pages of running ranks to see who uses them: their steps jitter",
        remedy: "sysctl -w kernel.numa_balancing=0",
        judge: numa_balancing,
        ..PLAIN
    },
    Check {
        id: "thp",
        label: "transparent huge pages",
        reads: &[Look::File("/sys/kernel/mm/transparent_hugepage/enabled")],
        healthy: "madvise or always",
        why: "pinned buffers of 4 KiB pages take longer to register and to reach",
        remedy: "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled",
        judge: thp,
        ..PLAIN
    },
    Check {
        id: "hugepages",
        label: "huge pages",
        reads: &[Look::Lines("/proc/meminfo", &["HugePages_Total:", "HugePages_Free:"])],
        healthy: "some free 2 MiB pages where there is EFA",
        why: "libfabric puts its bounce buffers there; without them it is slower",
        remedy: "sysctl -w vm.nr_hugepages=5128; a pod must ask for hugepages-2Mi",
        judge: hugepages,
        ..PLAIN
    },
    Check {
        id: "cpu-governor",
        label: "CPU governor",
        reads: &[Look::Call("/sys/devices/system/cpu/cpu*/cpufreq/scaling_governor")],
        healthy: "performance",
        why: "NCCL's proxy threads and launches of kernels wait for the CPU to speed up",
        remedy: "cpupower frequency-set -g performance",
        judge: governor,
        ..PLAIN
    },
    Check {
        id: "clock-skew",
        label: "clock",
        reads: &[Look::Call("adjtimex(2)")],
        healthy: "synchronised, less than 0.1 s off",
        why: "logs of several nodes can only be put in order by synchronised clocks",
        remedy: "systemctl enable --now chronyd; chronyc tracking shows how far it is off",
        judge: clock,
        ..PLAIN
    },
    Check {
        id: "namespaces",
        label: "namespaces",
        reads: &[Look::Call("/proc/self/ns/pid"), Look::Call("/proc/PID/ns/{ipc,pid}")],
        healthy: "one IPC and PID namespace for all ranks of a job on this host",
        why: "ranks in different containers may not share memory or CUDA IPC: NCCL goes over the network inside the host",
        remedy: "run the ranks of a host in one container, or with --ipc=host --pid=host (hostIPC, hostPID)",
        judge: namespaces,
        ..PLAIN
    },
    Check {
        id: "kernel-log",
        label: "kernel log",
        reads: &[Look::Call("/dev/kmsg")],
        healthy: "no Xid, PCIe or NIC error since the boot",
        why: "hardware that has failed once since the boot is likely to fail the next job",
        remedy: "dmesg -T -l warn,err,crit,alert,emerg | tail -50; `nccl-top rules` explains each text",
        judge: kernel_log,
        ..PLAIN
    },
];

fn shm(host: &Host) -> Judged {
    let bytes = host.facts.shm_bytes.ok_or_else(|| cannot_read("no file system at /dev/shm is seen"))?;
    if bytes >= LEAST_SHM_BYTES {
        return Ok(pass(size(bytes)));
    }
    let found = warn(size(bytes));
    Ok(match host.container() {
        None => found,
        Some("kubernetes") => found.remedy("mount an emptyDir with medium: Memory at /dev/shm"),
        Some(_) => found.remedy("start the container with --shm-size=16g (docker's default is 64 MiB), or --ipc=host"),
    })
}

fn ranks<'a>(host: &Host<'a>) -> impl Iterator<Item = &'a Process> {
    host.model.processes.values().filter(|p| p.info.role == ProcessRole::Rank && p.is_alive())
}

/// The ranks that run, each with what it may use; without any this program, because what is started like it may use as much.
fn users(host: &Host) -> Vec<(String, ProcessSetup)> {
    let ranks: Vec<_> = ranks(host).filter_map(|p| Some((format!("pid {}", p.info.pid), p.info.setup.clone()?))).collect();
    if ranks.is_empty() { vec![("this program".to_owned(), host.facts.own.clone())] } else { ranks }
}

/// Those below a limit, the first of them, and the least that anybody has.
fn least(host: &Host, of: impl Fn(&ProcessSetup) -> Option<u64>, enough: u64) -> Result<(u64, Option<String>), super::Answer> {
    let known: Vec<(String, u64)> = users(host).into_iter().filter_map(|(who, setup)| Some((who, of(&setup)?))).collect();
    let least = known.iter().map(|(_, limit)| *limit).min().ok_or_else(|| cannot_read("/proc/self/limits cannot be read"))?;
    let below: Vec<String> = known.into_iter().filter(|(_, limit)| *limit < enough).map(|(who, _)| who).collect();
    Ok((least, (!below.is_empty()).then(|| some_of(&below))))
}

fn memlock(host: &Host) -> Judged {
    host.rdma()?;
    // On a host it is root that has the capability, and jobs are users; a container's job has what this program has.
    let in_container = host.container().is_some();
    let limit = |setup: &ProcessSetup| if in_container && setup.locks_freely == Some(true) { Some(u64::MAX) } else { setup.memlock_bytes };
    let (bytes, below) = least(host, limit, u64::MAX)?;
    let Some(who) = below else {
        let lifted = users(host).iter().any(|(_, setup)| setup.memlock_bytes != Some(u64::MAX));
        return Ok(pass(if lifted { "no limit: CAP_IPC_LOCK" } else { "unlimited" }));
    };
    let found = warn(format!("{} for {who}", size(bytes)));
    Ok(match host.container() {
        None => found,
        Some("kubernetes") => {
            found.remedy("add the capability IPC_LOCK to the container, or LimitMEMLOCK=infinity to the service of containerd")
        }
        Some(_) => found.remedy("start the container with --ulimit memlock=-1:-1, or --cap-add=IPC_LOCK"),
    })
}

fn open_files(host: &Host) -> Judged {
    let (files, below) = least(host, |setup| setup.open_files, LEAST_FILES)?;
    let words = if files == u64::MAX { "unlimited".into() } else { format!("{files} at most") };
    Ok(match below {
        None => pass(words),
        Some(who) if host.container().is_some() => {
            warn(format!("{words} for {who}")).remedy("start the container with --ulimit nofile=1048576:1048576")
        }
        Some(who) => warn(format!("{words} for {who}")),
    })
}

fn iommu(host: &Host) -> Judged {
    host.unless_virtual()?;
    let devices: Vec<_> = host.facts.pci.iter().collect();
    if devices.is_empty() {
        return Err(does_not_apply("no GPU and no RDMA device on the PCI bus"));
    }
    let units = host.names("/sys/class/iommu")?.unwrap_or_default();
    if units.is_empty() {
        return Ok(pass("off"));
    }
    let translated: Vec<String> =
        devices.iter().filter(|d| d.iommu_type.as_deref().is_some_and(|kind| kind.starts_with("DMA"))).map(|d| d.bus_id.clone()).collect();
    if units.iter().any(|unit| unit.starts_with("smmu")) {
        return Err(does_not_apply("an ARM server: its SMMU serves GPUs and NICs by ATS"));
    }
    if !translated.is_empty() {
        let part = of_all(translated.len(), devices.len(), "device");
        return Ok(warn(format!("on, and translates for {part} ({})", some_of(&translated))));
    }
    if devices.iter().all(|d| d.iommu_type.as_deref() == Some("identity")) {
        return Ok(pass("on, passes through (identity)"));
    }
    let options: BTreeSet<&str> = host.there("/proc/cmdline")?.split_whitespace().collect();
    if ["iommu=pt", "iommu.passthrough=1"].iter().any(|option| options.contains(option)) {
        return Ok(pass("on, passes through (iommu=pt)"));
    }
    Err(cannot_read("on; neither the groups of the devices nor the kernel's command line show whether it translates"))
}

fn acs(host: &Host) -> Judged {
    host.unless_virtual()?;
    let bridges = &host.facts.bridges;
    if bridges.is_empty() {
        return Err(does_not_apply("no bridge above a GPU or RDMA device"));
    }
    let redirects = |b: &&BridgeFacts| b.acs_control.is_some_and(|control| control & ACS_REDIRECTS != 0);
    let bad: Vec<String> = bridges.iter().filter(redirects).map(|b| b.bus_id.clone()).collect();
    if !bad.is_empty() {
        return Ok(warn(format!("{} redirect ({})", of_all(bad.len(), bridges.len(), "bridge"), some_of(&bad))));
    }
    let hidden = bridges.iter().filter(|b| b.hidden).count();
    if hidden > 0 {
        let why = format!("{}: config space beyond 64 bytes needs root", of_all(hidden, bridges.len(), "bridge"));
        return Err(cannot_read(why).remedy("sudo nccl-top doctor --only host"));
    }
    Ok(pass(format!("off at {}", counted(bridges.len() as u64, "bridge"))))
}

fn numa_balancing(host: &Host) -> Judged {
    // `0-1`
    if host.read("/sys/devices/system/node/online")?.is_some_and(|nodes| !nodes.contains(['-', ','])) {
        return Err(does_not_apply("one NUMA node"));
    }
    match host.read("/proc/sys/kernel/numa_balancing")? {
        None => Ok(pass("not in this kernel")),
        Some("0") => Ok(pass("0")),
        Some(mode) => Ok(warn(mode)),
    }
}

fn thp(host: &Host) -> Judged {
    let Some(modes) = host.read("/sys/kernel/mm/transparent_hugepage/enabled")? else {
        return Err(does_not_apply("not in this kernel"));
    };
    // `always [madvise] never`
    let mode = modes.split_once('[').and_then(|(_, rest)| rest.split(']').next()).unwrap_or(modes);
    Ok(if mode == "never" { warn(mode) } else { pass(mode) })
}

fn hugepages(host: &Host) -> Judged {
    host.rdma()?;
    if host.efa().next().is_none() {
        return Err(does_not_apply("no EFA"));
    }
    let table = host.there("/proc/meminfo")?;
    let number = |name| table.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<u64>().ok());
    let (Some(total), Some(free)) = (number("HugePages_Total:"), number("HugePages_Free:")) else {
        return Err(cannot_read("/proc/meminfo does not count them"));
    };
    Ok(match (total, free) {
        (0, _) => warn("none"),
        // A job that runs may hold them all.
        (_, 0) if ranks(host).next().is_none() => warn(format!("all {total} are in use")),
        _ => pass(format!("{free} of {total} free")),
    })
}

fn governor(host: &Host) -> Judged {
    let governors = &host.facts.governors;
    if governors.is_empty() {
        return Err(does_not_apply("the kernel does not set the clock of these CPUs"));
    }
    let words = governors.iter().map(|(name, cpus)| format!("{name} on {}", counted(*cpus, "CPU"))).collect::<Vec<_>>().join(", ");
    Ok(if governors.keys().all(|name| name == "performance") { pass(words) } else { warn(words) })
}

fn clock(host: &Host) -> Judged {
    let Some(clock) = &host.facts.clock else {
        let why = if host.facts.is_live { "adjtimex(2) is forbidden here" } else { "it asks the live kernel, and --sysroot is given" };
        return Err(cannot_read(why));
    };
    if clock.unsynchronised {
        return Ok(warn("no daemon synchronises it (STA_UNSYNC)"));
    }
    // The kernel's bound on the error grows from one correction to the next; the estimate is the daemon's.
    let words = format!("synchronised, about {:.1} ms off", clock.estimated_error_us as f64 / 1e3);
    Ok(if clock.estimated_error_us > MOST_CLOCK_ERROR_US { warn(words) } else { pass(words) })
}

fn namespaces(host: &Host) -> Judged {
    for job in host.model.jobs.values().filter(|job| job.ended_at.is_none()) {
        let ranks = job.ranks.values().filter_map(|pid| host.model.processes.get(pid)).filter(|p| p.is_alive());
        let setups: Vec<(&Process, &ProcessSetup)> = ranks.filter_map(|p| Some((p, p.info.setup.as_ref()?))).collect();
        for (name, of) in
            [("IPC", (|s| s.ipc_namespace.as_deref()) as fn(&ProcessSetup) -> Option<&str>), ("PID", |s| s.pid_namespace.as_deref())]
        {
            let known: Vec<(u32, &str)> = setups.iter().filter_map(|(p, s)| Some((p.info.pid, of(s)?))).collect();
            if let Some(first) = known.first()
                && let Some(other) = known.iter().find(|(_, ns)| *ns != first.1)
            {
                return Ok(warn(format!("pids {} and {} of one job are in different {name} namespaces", first.0, other.0)));
            }
        }
    }
    if !host.sees_all_processes() {
        return Err(cannot_read("a PID namespace of its own: processes outside of this container are not seen"));
    }
    Ok(pass("processes of the whole host are seen"))
}

fn kernel_log(host: &Host) -> Judged {
    let view = host.model.sources.get(&SourceId::of("kmsg"));
    let errors: Vec<&str> = host
        .model
        .kernel
        .iter()
        .map(|(_, line)| line.text.as_str())
        // That a program crashed says nothing of the machine.
        .filter(|text| {
            let known = catalog::find(Scope::Line, &clean(text));
            known.is_some_and(|s| s.severity >= Severity::Error && !s.muted && s.id != "segfault-kernel")
        })
        .collect();
    if let Some(last) = errors.last() {
        return Ok(warn(format!("{}; the last: {}", counted(errors.len() as u64, "error"), clip(&clean(last), 160))));
    }
    match view {
        Some(view) if view.state == SourceState::Ok => Ok(pass("no error")),
        Some(view) => {
            let unread = cannot_read(view.detail.clone().unwrap_or_else(|| view.state.as_str().into()));
            Err(if view.state == SourceState::Denied { unread.remedy("sudo nccl-top doctor --only host") } else { unread })
        }
        None => Err(cannot_read("not looked at")),
    }
}
