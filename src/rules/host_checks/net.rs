//! RDMA devices and interfaces: are they all there, up, at full speed, and may a job use them?

use super::gpu::{common, is_spark, narrow};
use super::{Check, Group, Host, Judged, State, cannot_read, does_not_apply, fail, of_all, pass, some_of, warn};
use crate::base::platforms;
use crate::base::units::{counted, scaled};
use crate::model::port::{Link, Netdev, Port};
use crate::observe::facts::{Look, PciFacts, PciKind};
use std::collections::{BTreeMap, BTreeSet};

const PLAIN: Check = Check { id: "", group: Group::Net, label: "", reads: &[], healthy: "", why: "", remedy: "", judge: |_| Ok(pass("")) };
/// Interfaces that reach no other node, by the beginning of their names.
const LOCAL: &[&str] = &["docker", "virbr", "veth", "cni", "br-"];

pub const CHECKS: &[Check] = &[
    Check {
        id: "nic-count",
        label: "number of RDMA devices",
        reads: &[Look::Call("/sys/class/infiniband"), Look::Call("/sys/devices/virtual/dmi/id/product_name")],
        healthy: "as many as this kind of machine has",
        why: "NCCL uses those that there are: the job is slower by what is missing, and rings may fall back to sockets",
        remedy: "lspci -d 1d0f: (EFA) or lspci -d 15b3: (mlx5); on AWS compare the network cards of the launch template",
        judge: count,
        ..PLAIN
    },
    Check {
        id: "rdma-device-files",
        label: "RDMA device files",
        reads: &[Look::Names("/dev/infiniband"), Look::Names("/sys/class/infiniband_verbs")],
        healthy: "a uverbs file for each device, readable and writable",
        why: "libibverbs opens these files; without them NCCL finds no RDMA device and takes sockets",
        remedy: "modprobe ib_uverbs rdma_ucm",
        judge: device_files,
        ..PLAIN
    },
    Check {
        id: "rdma-counters",
        label: "RDMA counters",
        reads: &[Look::Call("/sys/class/infiniband/*/ports/*/hw_counters"), Look::File("/sys/module/ib_core/parameters/netns_mode")],
        healthy: "visible",
        why: "outside of the host's network namespace the kernel hides them: rates and errors of ports are not seen",
        remedy: "run nccl-top on the host, or with --network=host (hostNetwork: true)",
        judge: counters,
        ..PLAIN
    },
    Check {
        id: "ports-active",
        label: "RDMA ports",
        reads: &[Look::Call("/sys/class/infiniband/*/ports/*/state")],
        healthy: "all ACTIVE",
        why: "NCCL leaves out a port that is not ACTIVE, and a rank whose near port is down takes a far one",
        remedy: "ibstat, or ip -brief link; look at the cable and the switch port; INIT means that no subnet manager answers",
        judge: ports_active,
        ..PLAIN
    },
    Check {
        id: "nic-pcie-link",
        label: "PCIe of RDMA devices",
        reads: &[Look::Call("/sys/bus/pci/devices/*/{current,max}_link_{speed,width}")],
        healthy: "as fast and wide as device and slot allow",
        why: "a port cannot carry more than its PCIe link: one slow rail slows every ring",
        remedy: "lspci -s BUS_ID -vv | grep -i lnksta; reseat the card",
        judge: pcie_link,
        ..PLAIN
    },
    Check {
        id: "efa-peers",
        label: "EFA reaches its peers",
        reads: &[
            Look::Call("/sys/class/infiniband/*/ports/1/hw_counters/{tx_bytes,rx_bytes,unresponsive_remote_events}"),
            Look::Call("/sys/class/infiniband/*/hw_counters/create_ah_err"),
        ],
        healthy: "bytes come back where bytes were sent",
        why: "a security group that does not let all traffic of its own members in and out makes jobs hang at their start",
        remedy: "allow all traffic from and to the security group itself, in both directions; all nodes in one subnet",
        judge: efa_peers,
        ..PLAIN
    },
    Check {
        id: "socket-ifname",
        label: "NCCL_SOCKET_IFNAME",
        reads: &[Look::Lines("/etc/nccl.conf", &["NCCL_SOCKET_IFNAME"]), Look::Call("/proc/PID/environ"), Look::Call("/sys/class/net")],
        healthy: "not set, or names an interface that is up and reaches other nodes",
        why: "ranks find one another over it: with a wrong name NCCL does not start (\"no socket interface found\")",
        remedy: "ip -brief address shows what there is; the value is a prefix; = in front for exact, ^ to exclude",
        judge: socket_ifname,
        ..PLAIN
    },
    Check {
        id: "mtu",
        label: "MTU",
        reads: &[Look::Call("/sys/class/net/*/mtu")],
        healthy: "one for all interfaces of a kind",
        why: "where ends differ, small messages pass and large ones hang",
        remedy: "ip link set dev NAME mtu 9000, alike on all nodes and switches",
        judge: mtu,
        ..PLAIN
    },
];

/// A device may have several ports.
fn devices(ports: &[&Port]) -> usize {
    ports.iter().map(|port| port.info.device.as_str()).collect::<BTreeSet<_>>().len()
}

fn count(host: &Host) -> Judged {
    let Some(of) = host.platform().filter(|platform| platform.rdma > 0) else {
        let n = devices(&host.rdma()?);
        return Ok(pass(format!("{n}; how many this machine should have is not known")));
    };
    let n = match host.rdma() {
        Ok(ports) => devices(&ports),
        Err(unread) if unread.state == State::CannotRead => return Err(unread),
        Err(_) => 0,
    };
    let words = format!("{n} of the {} of a {}", of.rdma, of.name);
    Ok(match host.container() {
        _ if n >= of.rdma as usize => pass(words),
        None => fail(words),
        Some(_) => {
            fail(words).remedy("give the container all RDMA devices: --device /dev/infiniband, or vpc.amazonaws.com/efa in its limits")
        }
    })
}

fn device_files(host: &Host) -> Judged {
    host.rdma()?;
    let verbs = host.names("/sys/class/infiniband_verbs")?;
    let files = host.names("/dev/infiniband")?;
    if verbs.is_none() && files.is_none() && !host.facts.is_live {
        return Err(cannot_read("neither /sys/class/infiniband_verbs nor /dev/infiniband is in this tree"));
    }
    let Some(verbs) = verbs else { return Ok(fail("ib_uverbs is not loaded")) };
    let wanted: Vec<&str> = verbs.into_iter().filter(|name| name.starts_with("uverbs")).collect();
    let files: BTreeSet<&str> = files.unwrap_or_default().into_iter().collect();
    let missing: Vec<String> = wanted.iter().filter(|name| !files.contains(*name)).map(|name| (*name).to_owned()).collect();
    if !missing.is_empty() {
        let words = format!("{} missing in /dev/infiniband ({})", of_all(missing.len(), wanted.len(), "file"), some_of(&missing));
        return Ok(match host.container() {
            None => fail(words).remedy("udevadm trigger --subsystem-match=infiniband_verbs"),
            // It may have been given a part of them.
            Some(_) => {
                let found = if missing.len() < wanted.len() { warn(words) } else { fail(words) };
                found.remedy("start the container with --device /dev/infiniband, or with the device plugin of the NICs")
            }
        });
    }
    if !host.facts.refused.is_empty() {
        let found = fail(format!("this user may not open {}", some_of(&host.facts.refused)));
        return Ok(found.remedy("chmod 0666 /dev/infiniband/uverbs* /dev/infiniband/rdma_cm, for good by a udev rule"));
    }
    Ok(pass(counted(wanted.len() as u64, "file")))
}

fn counters(host: &Host) -> Judged {
    let ports = host.rdma()?;
    let hidden: Vec<String> = ports.iter().filter(|p| p.info.counters_hidden.is_some()).map(|p| p.name()).collect();
    if !hidden.is_empty() {
        let mode = host.read("/sys/module/ib_core/parameters/netns_mode").ok().flatten();
        let mode = mode.map_or(String::new(), |mode| format!("; netns_mode {mode}"));
        let why = format!("hidden by the network namespace for {}{mode}", of_all(hidden.len(), ports.len(), "port"));
        return Err(cannot_read(why).remedy("run it on the host, or with --network=host (hostNetwork: true)"));
    }
    Ok(pass(counted(ports.len() as u64, "port")))
}

fn ports_active(host: &Host) -> Judged {
    let ports = host.rdma()?;
    let known: Vec<&&Port> = ports.iter().filter(|port| port.sample.state.is_some()).collect();
    if known.is_empty() {
        return Err(cannot_read("no port shows its state"));
    }
    let bad: Vec<&&&Port> = known.iter().filter(|port| port.link.now != Link::Up).collect();
    let words = |port: &&&&Port| {
        let phys = port.sample.phys_state.as_deref().map_or(String::new(), |phys| format!(" ({phys})"));
        format!("{} {}{phys}", port.name(), port.sample.state.as_deref().unwrap_or_default())
    };
    let names: Vec<String> = bad.iter().map(words).collect();
    let active = known.len() - bad.len();
    Ok(match (bad.len(), active) {
        (0, n) => pass(format!("{} ACTIVE", counted(n as u64, "port"))),
        (_, 0) => fail(format!("none is ACTIVE: {}", some_of(&names))),
        // Its two cages need not both have a cable; and where all rails are up, the others are spare.
        (_, n) if is_spark(host) || all_rails_are_up(host, &known) => {
            pass(format!("{n} of {} ACTIVE", counted(known.len() as u64, "port")))
        }
        _ => warn(some_of(&names)),
    })
}

/// As many ports are ACTIVE at the line rate of this kind of machine as it has for jobs.
fn all_rails_are_up(host: &Host, ports: &[&&Port]) -> bool {
    let is_rail = |port: &&&&Port, rate| port.link.now == Link::Up && port.sample.line_rate_bits_per_s >= Some(rate);
    // A number that nobody has confirmed accuses nothing, and may acquit.
    let platform = host.product().and_then(platforms::of_product);
    platform.is_some_and(|of| ports.iter().filter(|port| is_rail(port, of.rdma_bits_per_s)).count() >= of.rdma as usize)
}

/// `0000:3b:00.0 16 of 32 GT/s`
fn slow(device: &PciFacts) -> Option<String> {
    let (now, most) = (device.link.speed_gt_per_s?, common(device.link.speed_max_gt_per_s, device.upstream.speed_max_gt_per_s)?);
    (now < most).then(|| format!("{} {now} of {most} GT/s", device.bus_id))
}

fn pcie_link(host: &Host) -> Judged {
    host.rdma()?;
    let known: Vec<&PciFacts> = host.pci(PciKind::Rdma).filter(|d| d.link.width.is_some()).collect();
    if known.is_empty() {
        return Err(does_not_apply("no RDMA device shows a PCIe link"));
    }
    let bad: Vec<String> = known.iter().filter_map(|device| narrow(device).or_else(|| slow(device))).collect();
    Ok(if bad.is_empty() { pass(format!("{}, full speed", counted(known.len() as u64, "device"))) } else { warn(some_of(&bad)) })
}

/// Counters count from when the driver was loaded: peers that ended are among them. Where nothing ever came back it is something else.
fn efa_peers(host: &Host) -> Judged {
    host.rdma()?;
    let sum = |name: &str| host.efa().filter_map(|port| port.counters.value(name)).reduce(u64::saturating_add);
    if host.efa().next().is_none() {
        return Err(does_not_apply("no EFA"));
    }
    let (Some(sent), Some(received)) = (sum("tx_bytes"), sum("rx_bytes")) else {
        return Err(cannot_read("no tx_bytes and rx_bytes of an EFA"));
    };
    let (lost, refused) = (sum("unresponsive_remote_events").unwrap_or(0), sum("device/create_ah_err").unwrap_or(0));
    let words = format!("{}B sent, {}B received", scaled(sent as f64), scaled(received as f64));
    Ok(if received == 0 && lost > 0 {
        warn(format!("{words}, {lost} times no answer"))
    } else if received == 0 && refused > 0 {
        warn(format!("{words}, {refused} addresses of peers were refused"))
    } else if sent == 0 && received == 0 {
        return Err(cannot_read("nothing has been sent since the driver was loaded"));
    } else {
        pass(words)
    })
}

/// A value of NCCL_SOCKET_IFNAME and who has it.
fn interfaces_asked_for(host: &Host) -> BTreeMap<String, String> {
    const NAME: &str = "NCCL_SOCKET_IFNAME";
    let mut asked = BTreeMap::new();
    for process in host.model.processes.values().filter(|p| p.is_alive()) {
        if let Some(value) = process.info.env.as_ref().and_then(|env| env.get(NAME)) {
            asked.entry(value.clone()).or_insert_with(|| format!("pid {}", process.info.pid));
        }
    }
    if let Some(value) = host.facts.env.get(NAME) {
        asked.entry(value.clone()).or_insert_with(|| "this environment".into());
    }
    let file = host.read("/etc/nccl.conf").ok().flatten().unwrap_or_default();
    if let Some((_, value)) = file.lines().find_map(|line| line.split_once('=')) {
        asked.entry(value.trim().to_owned()).or_insert_with(|| "/etc/nccl.conf".into());
    }
    asked
}

/// As NCCL matches it: a list of prefixes; `=` means whole names, `^` all others.
fn is_asked_for(value: &str, name: &str) -> bool {
    let (excludes, value) = value.strip_prefix('^').map_or((false, value), |rest| (true, rest));
    let (exact, value) = value.strip_prefix('=').map_or((false, value), |rest| (true, rest));
    let entries = value.split(',').map(|entry| entry.split(':').next().unwrap_or(entry)).filter(|entry| !entry.is_empty());
    let matches = entries.into_iter().any(|entry| if exact { name == entry } else { name.starts_with(entry) });
    matches != excludes
}

fn socket_ifname(host: &Host) -> Judged {
    let asked = interfaces_asked_for(host);
    if asked.is_empty() {
        return Ok(pass("not set"));
    }
    if host.model.netdevs.is_empty() {
        return Err(host.without("netdev", "no interface"));
    }
    let mut good = Vec::new();
    for (value, who) in &asked {
        let found: Vec<&Netdev> = host.model.netdevs.values().filter(|n| is_asked_for(value, &n.sample.name)).collect();
        let up: Vec<&Netdev> = found.iter().copied().filter(|n| n.link.now != Link::Down).collect();
        let setting = format!("{value} ({who})");
        let is_local = |n: &&Netdev| n.is_loopback() || LOCAL.iter().any(|prefix| n.sample.name.starts_with(prefix));
        if found.is_empty() {
            return Ok(fail(format!("{setting} names no interface of this host")));
        } else if up.is_empty() {
            return Ok(fail(format!("{setting} names {}, which is down", found[0].sample.name)));
        } else if up.iter().all(is_local) {
            return Ok(warn(format!("{setting} names {}, which reaches no other node", up[0].sample.name)));
        }
        good.push(setting);
    }
    Ok(pass(some_of(&good)))
}

fn mtu(host: &Host) -> Judged {
    if host.model.netdevs.is_empty() {
        return Err(host.without("netdev", "no interface"));
    }
    // Rails have one driver and one speed; what serves storage or ssh mostly has another.
    let mut kinds: BTreeMap<(&str, u64), Vec<(&str, u32)>> = BTreeMap::new();
    for netdev in host.model.netdevs.values().filter(|n| n.is_physical() && n.link.now == Link::Up) {
        let of = &netdev.sample;
        if let (Some(driver), Some(speed), Some(mtu)) = (&of.driver, of.speed_mbits_per_s, of.mtu) {
            kinds.entry((driver, speed)).or_default().push((&of.name, mtu));
        }
    }
    kinds.retain(|_, all| all.len() > 1);
    for all in kinds.values() {
        let Some(other) = all.iter().find(|(_, mtu)| *mtu != all[0].1) else { continue };
        return Ok(warn(format!("{} has {}, {} has {}", all[0].0, all[0].1, other.0, other.1)));
    }
    if kinds.is_empty() {
        return Err(does_not_apply("no two interfaces of a kind"));
    }
    Ok(pass(kinds.values().map(|all| format!("{} on {}", all[0].1, counted(all.len() as u64, "interface"))).collect::<Vec<_>>().join(", ")))
}
