//! The machines of `tests/fixtures/hosts`, as the sources see them below `--sysroot`.

use crate::support::tree::unpack_host;
use nccl_top::observe::Body;
use nccl_top::observe::port::{PortInfo, PortKind};
use nccl_top::sources::host::Host;
use nccl_top::sources::netdev::Netdevs;
use nccl_top::sources::rdma::Rdma;
use nccl_top::sources::{Roots, Source, nvml};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::time::Duration;

const HOSTS: [&str; 10] = ["p4d", "p5", "p5en", "p6-b200", "dgx-h100", "roce-node", "dgx-spark", "gb200-tray", "k8s-pod", "laptop"];

/// A line for all ports that are alike, then GPUs and interfaces.
fn seen(host: &str) -> String {
    const SECOND: Duration = Duration::from_secs(1);
    let dir = unpack_host(host);
    let roots = || Roots::below(dir.path());
    let mut bodies = Vec::new();
    Host::new(roots(), SECOND).poll(&mut bodies).unwrap();
    let mut out = String::new();
    for body in &bodies {
        let Body::Node(node) = body else { continue };
        let product = node.product.as_deref().unwrap_or("-");
        let _ = writeln!(out, "{host}: {product}, {} CPUs, container {}", node.cpus.unwrap_or(0), node.container.as_deref().unwrap_or("-"));
    }
    let mut bodies = Vec::new();
    let absent = Rdma::new(roots(), SECOND).poll(&mut bodies).err();
    let infos: BTreeMap<String, PortInfo> = bodies
        .iter()
        .filter_map(|body| if let Body::PortInfo(info) = body { Some((info.device.clone(), info.clone())) } else { None })
        .collect();
    let mut alike: BTreeMap<String, u32> = BTreeMap::new();
    for body in &bodies {
        let Body::Ports { ports } = body else { continue };
        for port in ports {
            let info = &infos[&port.device];
            let rate = port.line_rate_bits_per_s.map_or("-".to_owned(), |rate| format!("{} Gb/s", rate / 1_000_000_000));
            let hidden = info.counters_hidden.as_deref().unwrap_or(if port.counters.is_empty() { "no counters" } else { "counters" });
            let state = port.state.as_deref().unwrap_or("-");
            assert!(port.unreadable.is_empty(), "{port:?}");
            *alike
                .entry(format!("{} {} {state} {rate}, {hidden}", info.kind.as_str(), info.driver.as_deref().unwrap_or("-")))
                .or_default() += 1;
            if info.kind != PortKind::Efa {
                assert!(info.kind == PortKind::Infiniband || info.netdev.is_some(), "{info:?}");
            }
        }
    }
    for (port, n) in alike {
        let _ = writeln!(out, "  {n:2} x {port}");
    }
    if let Some(why) = absent {
        let _ = writeln!(out, "  no ports: {why}");
    }
    let gpus: Vec<_> = nvml::from_pci(&roots()).into_iter().filter(|body| matches!(body, Body::GpuInfo(_))).collect();
    let _ = writeln!(out, "  {:2} x GPU", gpus.len());
    let mut bodies = Vec::new();
    Netdevs::new(roots(), SECOND).poll(&mut bodies).unwrap();
    for body in &bodies {
        let Body::Netdevs { netdevs } = body else { continue };
        let names: Vec<String> =
            netdevs.iter().map(|netdev| format!("{} {}", netdev.name, netdev.operstate.as_deref().unwrap_or("-"))).collect();
        let _ = writeln!(out, "  {}", names.join(", "));
    }
    out
}

#[test]
fn the_sources_see_each_machine_as_it_is() {
    let all: String = HOSTS.iter().map(|host| seen(host)).collect();
    insta::assert_snapshot!("machines", all);
}

/// What rails have in common with their GPU: distances are counted along this path.
#[test]
fn rail_nics_and_their_gpus_are_below_one_switch() {
    for (host, nic, gpu) in [
        ("dgx-h100", "class/infiniband/mlx5_4/device", "bus/pci/devices/0000:52:00.0"),
        ("roce-node", "class/infiniband/mlx5_7/device", "bus/pci/devices/0000:d0:00.0"),
        ("p5", "class/infiniband/rdmap201s0/device", "bus/pci/devices/0000:ca:00.0"),
        ("p6-b200", "class/infiniband/rdmap79s0/device", "bus/pci/devices/0000:53:00.0"),
    ] {
        let dir = unpack_host(host);
        let real = |path: &str| std::fs::canonicalize(dir.path().join("sys").join(path)).unwrap();
        let (nic, gpu) = (real(nic), real(gpu));
        // Below the upstream port: a downstream port and the function.
        let switch = |path: &std::path::Path| path.ancestors().nth(2).unwrap().to_path_buf();
        assert_eq!(switch(&nic), switch(&gpu), "{host}");
    }
}
