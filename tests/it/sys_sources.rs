//! The sources that read /sys and /proc, on trees of machines that are not here.

use crate::support::tree::{break_file, set, unpack, write};
use nccl_top::observe::Body;
use nccl_top::observe::host::{HostSample, Node};
use nccl_top::observe::port::{NetdevInfo, NetdevSample, PortInfo, PortKind, PortSample};
use nccl_top::sources::host::Host;
use nccl_top::sources::netdev::Netdevs;
use nccl_top::sources::rdma::Rdma;
use nccl_top::sources::{Roots, Source, SourceError};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const GBIT: u64 = 1_000_000_000;
/// Polls until the next listing, at one poll per second.
const POLLS_PER_LISTING: usize = 30;

fn poll(source: &mut dyn Source) -> Vec<Body> {
    let mut out = Vec::new();
    source.poll(&mut out).unwrap();
    out
}

fn rdma(root: &Path) -> Rdma {
    Rdma::new(Roots::below(root), SECOND)
}

/// By device; the ports of a device with two by `device/port`.
fn infos(out: &[Body]) -> BTreeMap<String, PortInfo> {
    let info = |body: &Body| match body {
        Body::PortInfo(info) => Some((port_name(&info.device, info.port), info.clone())),
        _ => None,
    };
    out.iter().filter_map(info).collect()
}

fn samples(out: &[Body]) -> BTreeMap<String, PortSample> {
    let ports = |body: &Body| match body {
        Body::Ports { ports } => ports.clone(),
        _ => Vec::new(),
    };
    out.iter().flat_map(ports).map(|port| (port_name(&port.device, port.port), port)).collect()
}

fn port_name(device: &str, port: u32) -> String {
    if port == 1 { device.to_owned() } else { format!("{device}/{port}") }
}

fn netdevs(out: &[Body]) -> BTreeMap<String, NetdevSample> {
    let netdevs = |body: &Body| match body {
        Body::Netdevs { netdevs } => netdevs.clone(),
        _ => Vec::new(),
    };
    out.iter().flat_map(netdevs).map(|netdev| (netdev.name.clone(), netdev)).collect()
}

fn counters<const N: usize>(pairs: [(&str, u64); N]) -> BTreeMap<String, u64> {
    pairs.map(|(name, value)| (name.to_owned(), value)).into()
}

fn reasons<const N: usize>(pairs: [(&str, &str); N]) -> BTreeMap<String, String> {
    pairs.map(|(name, reason)| (name.to_owned(), reason.to_owned())).into()
}

#[test]
fn a_p5_has_32_efa_ports_in_the_order_of_their_names() {
    let dir = unpack(&["efa-p5"]);
    let out = poll(&mut rdma(dir.path()));
    let infos = infos(&out);
    assert_eq!(infos.len(), 32);
    assert!(infos.values().all(|info| info.kind == PortKind::Efa && info.netdev.is_none() && info.counters_hidden.is_none()));
    let Some(Body::Ports { ports }) = out.last() else { panic!("no ports: {out:?}") };
    let names: Vec<&str> = ports.iter().map(|port| port.device.as_str()).collect();
    assert_eq!(names.len(), 32);
    assert!(names.is_sorted());
    assert_eq!(out.len(), 33);
}

#[test]
fn an_efa_is_told_with_all_that_identifies_it() {
    let dir = unpack(&["efa-p5"]);
    let infos = infos(&poll(&mut rdma(dir.path())));
    let expected = PortInfo {
        device: "rdmap201s0".to_owned(),
        port: 1,
        kind: PortKind::Efa,
        driver: Some("efa".to_owned()),
        link_layer: Some("Unknown".to_owned()),
        bus_id: Some("0000:c9:00.0".to_owned()),
        firmware: Some("0.0.0.0".to_owned()),
        model: Some("0xefa1".to_owned()),
        guid: Some("0a00:27ff:fe00:00c9".to_owned()),
        gpu_direct: Some("NVIDIA peer memory".to_owned()),
        pci_path: Some("/sys/devices/pci0000:c9/0000:c9:00.0".to_owned()),
        ..PortInfo::default()
    };
    assert_eq!(infos["rdmap201s0"], expected);
}

#[test]
fn an_efa_counts_for_its_port_and_for_its_device() {
    let dir = unpack(&["efa-p5"]);
    let port = samples(&poll(&mut rdma(dir.path()))).remove("rdmap79s0").unwrap();
    assert_eq!(port.counters["tx_bytes"], 123_456_789_012_345);
    assert_eq!(port.counters["rdma_write_recv_bytes"], 120_000_000_000_000);
    assert_eq!(port.counters["device/keep_alive_rcvd"], 86_400);
    assert_eq!(port.counters.len(), 22 + 6);
    assert!(!port.counters.keys().any(|name| name.contains("lifespan")));
    assert_eq!(port.state.as_deref(), Some("ACTIVE"));
    assert_eq!(port.phys_state.as_deref(), Some("LinkUp"));
    assert_eq!(port.unreadable, BTreeMap::new());
}

#[test]
fn samples_hold_only_the_counters_that_changed() {
    let dir = unpack(&["efa-p5"]);
    let mut source = rdma(dir.path());
    poll(&mut source);
    assert!(samples(&poll(&mut source)).values().all(|port| port.counters.is_empty() && port.state.is_some()));
    set(dir.path(), "sys/class/infiniband/rdmap80s0/ports/1/hw_counters/tx_bytes", "7");
    set(dir.path(), "sys/class/infiniband/rdmap80s0/hw_counters/reg_mr_err", "1");
    let changed = samples(&poll(&mut source));
    assert_eq!(changed["rdmap80s0"].counters, counters([("device/reg_mr_err", 1), ("tx_bytes", 7)]));
    assert_eq!(changed["rdmap79s0"].counters, BTreeMap::new());
    assert!(samples(&poll(&mut source)).values().all(|port| port.counters.is_empty()));
}

#[test]
fn identities_are_told_once_and_again_when_they_change() {
    let dir = unpack(&["efa-p5"]);
    let mut source = rdma(dir.path());
    assert_eq!(infos(&poll(&mut source)).len(), 32);
    set(dir.path(), "sys/class/infiniband/rdmap80s0/device/p2p", "");
    let mut later: Vec<PortInfo> = Vec::new();
    for _ in 0..2 * POLLS_PER_LISTING {
        later.extend(infos(&poll(&mut source)).into_values());
    }
    let [info] = &later[..] else { panic!("{later:?}") };
    assert_eq!((info.device.as_str(), info.gpu_direct.as_deref()), ("rdmap80s0", Some("")));
}

#[test]
fn the_rate_of_an_efa_is_that_of_its_instance_type() {
    let dir = unpack(&["efa-p5"]);
    for (product, gbit) in [("p5.48xlarge", 100), ("p5en.48xlarge", 200), ("p6-b200.48xlarge", 400), ("unheard-of.metal", 100)] {
        set(dir.path(), "sys/devices/virtual/dmi/id/product_name", product);
        let port = samples(&poll(&mut rdma(dir.path()))).remove("rdmap79s0").unwrap();
        assert_eq!(port.line_rate_bits_per_s, Some(gbit * GBIT), "{product}");
    }
}

#[test]
fn an_old_efa_driver_counts_everything_for_the_port() {
    let dir = unpack(&["efa-old"]);
    let out = poll(&mut rdma(dir.path()));
    let port = &samples(&out)["efa_90"];
    assert_eq!(port.counters, counters([("rx_bytes", 200), ("submitted_cmds", 300), ("tx_bytes", 100)]));
    assert_eq!(port.unreadable, BTreeMap::new(), "what never could be read is absent, not broken");
    assert_eq!(port.line_rate_bits_per_s, Some(100 * GBIT));
    let info = &infos(&out)["efa_90"];
    assert_eq!(info.kind, PortKind::Efa);
    assert_eq!(info.guid, None, "a GUID of zeros is none");
    assert_eq!(info.netdev, None, "an EFA never has a netdev");
    assert_eq!(info.gpu_direct.as_deref(), Some("NVIDIA"));
    assert_eq!(info.numa, Some(1));
    assert_eq!(info.bus_id.as_deref(), Some("0000:90:1b.0"));
    assert_eq!(info.counters_hidden, None);
}

#[test]
fn a_dgx_h100_has_eight_infiniband_ports_and_two_of_roce() {
    let dir = unpack(&["dgx-h100"]);
    let out = poll(&mut rdma(dir.path()));
    let infos = infos(&out);
    let of_kind = |kind| infos.values().filter(|info| info.kind == kind).map(|info| info.device.as_str()).collect::<Vec<_>>();
    assert_eq!(of_kind(PortKind::Infiniband), ["mlx5_0", "mlx5_10", "mlx5_11", "mlx5_3", "mlx5_4", "mlx5_5", "mlx5_6", "mlx5_9"]);
    assert_eq!(of_kind(PortKind::Roce), ["mlx5_1", "mlx5_7"]);
    let rates: Vec<_> = ["mlx5_10", "mlx5_1"].iter().map(|name| samples(&out)[*name].line_rate_bits_per_s).collect();
    assert_eq!(rates, [Some(400 * GBIT), Some(200 * GBIT)]);
}

#[test]
fn an_infiniband_port_is_told_raw_with_its_place_in_the_machine() {
    let dir = unpack(&["dgx-h100"]);
    let out = poll(&mut rdma(dir.path()));
    let info = &infos(&out)["mlx5_10"];
    assert_eq!(info.bus_id.as_deref(), Some("0000:ce:00.0"));
    assert_eq!(info.pci_path.as_deref(), Some("/sys/devices/pci0000:ce/0000:ce:01.0/0000:ce:00.0"));
    assert_eq!(info.model.as_deref(), Some("MT4129"));
    assert_eq!(info.driver.as_deref(), Some("mlx5_core"));
    assert_eq!(info.firmware.as_deref(), Some("28.41.1000"));
    assert_eq!(info.netdev.as_deref(), Some("ibp206s0"));
    assert_eq!(info.numa, Some(1));
    let port = &samples(&out)["mlx5_10"];
    assert_eq!(port.counters["port_xmit_data"], 8_847_360_000, "words of four bytes stay words");
    assert_eq!(port.counters["out_of_sequence"], 7);
    assert_eq!(port.counters.len(), 8);
}

#[test]
fn a_roce_port_takes_the_speed_of_its_netdev_where_the_kernel_guesses_the_rate() {
    let dir = unpack(&["spark-roce"]);
    let out = poll(&mut rdma(dir.path()));
    let infos = infos(&out);
    let half = &infos["roceP2p1s0f0"];
    assert_eq!((half.kind, half.bus_id.as_deref()), (PortKind::Roce, Some("0002:01:00.0")));
    assert_eq!(half.netdev.as_deref(), Some("enP2p1s0f0np0"), "the first entry that can be read, by number");
    assert_eq!(half.sys_image_guid, infos["rocep1s0f0"].sys_image_guid);
    assert_eq!(samples(&out)["roceP2p1s0f0"].line_rate_bits_per_s, Some(200 * GBIT));
}

#[test]
fn a_roce_port_whose_netdev_has_no_speed_has_no_guessed_rate() {
    let dir = unpack(&["spark-roce"]);
    set(dir.path(), "sys/class/net/enp1s0f0np0/speed", "-1");
    break_file(dir.path(), "sys/class/net/enP2p1s0f0np0/speed");
    let ports = samples(&poll(&mut rdma(dir.path())));
    assert_eq!(ports["rocep1s0f0"].line_rate_bits_per_s, None);
    assert_eq!(ports["roceP2p1s0f0"].line_rate_bits_per_s, None);
}

#[test]
fn a_rate_is_read_again_when_the_port_comes_up() {
    let dir = unpack(&["odd"]);
    let mut source = rdma(dir.path());
    let down = samples(&poll(&mut source)).remove("mlx5_0").unwrap();
    assert_eq!((down.state.as_deref(), down.phys_state.as_deref()), (Some("DOWN"), Some("Polling")));
    assert_eq!(down.line_rate_bits_per_s, None, "without a link the kernel says SDR");
    assert_eq!(down.counters, counters([("link_downed", 3)]));
    let port = "sys/class/infiniband/mlx5_0/ports/1";
    set(dir.path(), &format!("{port}/state"), "4: ACTIVE");
    set(dir.path(), &format!("{port}/phys_state"), "5: LinkUp");
    set(dir.path(), &format!("{port}/rate"), "400 Gb/sec (4X NDR)");
    let up = samples(&poll(&mut source)).remove("mlx5_0").unwrap();
    assert_eq!((up.state.as_deref(), up.line_rate_bits_per_s), (Some("ACTIVE"), Some(400 * GBIT)));
}

#[test]
fn hidden_counters_are_told_as_hidden() {
    let dir = unpack(&["container"]);
    let out = poll(&mut rdma(dir.path()));
    for name in ["efa_0", "mlx5_0"] {
        assert_eq!(infos(&out)[name].counters_hidden.as_deref(), Some("counters hidden by network namespace"), "{name}");
    }
    assert_eq!(infos(&out)["efa_0"].gpu_direct.as_deref(), Some(""), "the driver looked and found no GPU driver");
    let efa = &samples(&out)["efa_0"];
    assert_eq!(efa.counters, counters([("device/keep_alive_rcvd", 60)]));
    assert_eq!(efa.unreadable, BTreeMap::new());
    assert_eq!(efa.line_rate_bits_per_s, Some(200 * GBIT));
}

#[test]
fn kinds_and_bus_ids_come_from_the_tree_and_not_from_names() {
    let dir = unpack(&["odd"]);
    let infos = infos(&poll(&mut rdma(dir.path())));
    let told: Vec<_> = infos.values().map(|i| (i.device.as_str(), i.port, i.kind, i.driver.as_deref(), i.bus_id.as_deref())).collect();
    let expected = [
        ("efa_7", 1, PortKind::Infiniband, Some("mlx4_core"), Some("0000:05:00.0")),
        ("efa_7", 2, PortKind::Roce, Some("mlx4_core"), Some("0000:05:00.0")),
        ("irdma0", 1, PortKind::Iwarp, Some("ice"), Some("0000:3b:00.0")),
        ("mlx5_0", 1, PortKind::Infiniband, Some("mlx5_core"), Some("0000:18:00.0")),
        ("mlx5_4", 1, PortKind::Roce, Some("mlx5_core"), Some("0000:08:00.0")),
        ("rxe0", 1, PortKind::Roce, None, None),
    ];
    assert_eq!(told, expected);
    assert_eq!(infos["rxe0"].netdev.as_deref(), Some("eth0"));
    assert_eq!(infos["efa_7"].netdev.as_deref(), Some("eth4"));
    assert_eq!(infos["efa_7/2"].netdev.as_deref(), Some("eth5"), "by dev_id, in hexadecimal, where there is no dev_port");
    assert!(infos.values().all(|info| info.counters_hidden.is_none()), "only drivers that always count can be hidden");
}

#[test]
fn counters_of_a_device_are_told_with_its_first_port_only() {
    let dir = unpack(&["odd"]);
    let ports = samples(&poll(&mut rdma(dir.path())));
    assert_eq!(ports["efa_7"].counters, counters([("device/resets", 2), ("port_xmit_data_64", 1)]));
    assert_eq!(ports["efa_7/2"].counters, counters([("port_xmit_data_64", 2)]));
}

#[test]
fn a_counter_that_could_be_read_and_cannot_is_unreadable_until_it_can() {
    let dir = unpack(&["dgx-h100"]);
    let mut source = rdma(dir.path());
    poll(&mut source);
    let path = "sys/class/infiniband/mlx5_0/ports/1";
    break_file(dir.path(), &format!("{path}/hw_counters/out_of_sequence"));
    std::fs::remove_file(dir.path().join(format!("{path}/counters/symbol_error"))).unwrap();
    set(dir.path(), &format!("{path}/counters/link_downed"), "N/A (no PMA)");
    let expected = reasons([
        ("link_downed", "not a number: N/A (no PMA)"),
        ("out_of_sequence", "is a directory"),
        ("symbol_error", "no such file or directory"),
    ]);
    for _ in 0..2 * POLLS_PER_LISTING {
        assert_eq!(samples(&poll(&mut source))["mlx5_0"].unreadable, expected);
    }
    set(dir.path(), &format!("{path}/counters/symbol_error"), "0");
    set(dir.path(), &format!("{path}/counters/link_downed"), "2");
    let port = samples(&poll(&mut source)).remove("mlx5_0").unwrap();
    assert_eq!(port.unreadable, reasons([("out_of_sequence", "is a directory")]));
    assert_eq!(port.counters, counters([("link_downed", 2)]), "symbol_error is as it was told before");
}

#[test]
fn a_counter_that_appears_is_found_at_the_next_listing() {
    let dir = unpack(&["efa-old"]);
    let mut source = rdma(dir.path());
    poll(&mut source);
    set(dir.path(), "sys/class/infiniband/efa_10/ports/1/hw_counters/retrans_pkts", "5");
    set(dir.path(), "sys/class/infiniband/efa_10/ports/1/counters/port_xmit_data", "6");
    let told: Vec<_> = (0..POLLS_PER_LISTING).map(|_| samples(&poll(&mut source)).remove("efa_10").unwrap().counters).collect();
    let (last, before) = told.split_last().unwrap();
    assert!(before.iter().all(BTreeMap::is_empty));
    assert_eq!(*last, counters([("port_xmit_data", 6), ("retrans_pkts", 5)]));
}

#[test]
fn a_directory_of_counters_that_goes_away_is_told_as_one() {
    let dir = unpack(&["efa-p5"]);
    let mut source = rdma(dir.path());
    poll(&mut source);
    std::fs::remove_dir_all(dir.path().join("sys/class/infiniband/rdmap79s0/ports/1/hw_counters")).unwrap();
    let port = samples(&poll(&mut source)).remove("rdmap79s0").unwrap();
    assert_eq!(port.unreadable, reasons([("hw_counters", "no such file or directory")]));
}

#[test]
fn a_port_that_goes_away_is_told_as_gone_and_found_again() {
    let dir = unpack(&["efa-p5"]);
    let mut source = rdma(dir.path());
    poll(&mut source);
    let link = dir.path().join("sys/class/infiniband/rdmap79s0");
    let target = std::fs::read_link(&link).unwrap();
    std::fs::remove_file(&link).unwrap();
    for _ in 0..3 {
        let ports = samples(&poll(&mut source));
        assert_eq!(ports.len(), 32);
        let gone = &ports["rdmap79s0"];
        assert_eq!((&gone.state, &gone.unreadable), (&None, &reasons([("state", "no such file or directory")])));
    }
    std::os::unix::fs::symlink(target, &link).unwrap();
    let back = samples(&poll(&mut source)).remove("rdmap79s0").unwrap();
    assert_eq!((back.state.as_deref(), back.unreadable.len()), (Some("ACTIVE"), 0));
}

#[test]
fn a_machine_without_rdma_says_which_directory_is_missing_or_empty() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = rdma(dir.path());
    let mut out = Vec::new();
    let missing = "/sys/class/infiniband does not exist: no RDMA driver loaded";
    assert_eq!(source.poll(&mut out), Err(SourceError::Absent(missing.to_owned())));
    write(dir.path(), "sys/class/infiniband/");
    assert_eq!(source.poll(&mut out), Err(SourceError::Absent("/sys/class/infiniband is empty".to_owned())));
    assert_eq!(out, []);
}

#[test]
fn a_driver_loaded_later_is_seen_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = rdma(dir.path());
    source.poll(&mut Vec::new()).unwrap_err();
    write(dir.path(), "sys/class/infiniband/rxe0/ports/1/state = 4: ACTIVE");
    assert_eq!(samples(&poll(&mut source))["rxe0"].state.as_deref(), Some("ACTIVE"));
}

#[test]
fn ports_that_were_there_stay_told_when_the_driver_is_unloaded() {
    let dir = unpack(&["container"]);
    let mut source = rdma(dir.path());
    poll(&mut source);
    std::fs::remove_dir_all(dir.path().join("sys/class/infiniband")).unwrap();
    poll(&mut source);
    let mut out = Vec::new();
    assert!(matches!(source.poll(&mut out), Err(SourceError::Absent(_))));
    assert!(samples(&out).values().all(|port| port.unreadable.contains_key("state")));
    assert_eq!(samples(&out).len(), 2);
}

/// The only port of a machine: its kind, state and line rate, as these files say.
fn only_port(driver: &str, link_layer: &str, node_type: &str, more: &str) -> (PortKind, Option<String>, Option<u64>) {
    let dir = tempfile::tempdir().unwrap();
    let device = "sys/devices/pci0000:00/0000:18:00.0/infiniband/x";
    write(
        dir.path(),
        &format!("sys/class/infiniband/x -> ../../devices/pci0000:00/0000:18:00.0/infiniband/x\n{device}/device -> ../../../0000:18:00.0"),
    );
    write(dir.path(), &format!("{device}/node_type = {node_type}\n{device}/ports/1/link_layer = {link_layer}"));
    if !driver.is_empty() {
        write(dir.path(), &format!("sys/devices/pci0000:00/0000:18:00.0/driver -> ../../../bus/pci/drivers/{driver}"));
    }
    for line in more.split("; ").filter(|line| !line.is_empty()) {
        let (name, value) = line.split_once('=').unwrap();
        let path = match name {
            "product" => "sys/devices/virtual/dmi/id/product_name".to_owned(),
            "speed" => "sys/class/net/eth0/speed".to_owned(),
            name => format!("{device}/ports/1/{name}"),
        };
        set(dir.path(), &path, value);
    }
    set(dir.path(), &format!("{device}/ports/1/gid_attrs/ndevs/0"), "eth0");
    let out = poll(&mut rdma(dir.path()));
    let (info, sample) = (&infos(&out)["x"], &samples(&out)["x"]);
    (info.kind, sample.state.clone(), sample.line_rate_bits_per_s)
}

#[test]
fn the_kind_comes_from_driver_verbs_type_and_link_layer() {
    for (driver, link_layer, node_type, kind) in [
        ("efa", "Unknown", "7: <unknown>", PortKind::Efa),
        ("mlx5_core", "InfiniBand", "1: CA", PortKind::Infiniband),
        ("mlx5_core", "Ethernet", "1: CA", PortKind::Roce),
        ("ice", "Ethernet", "4: RNIC", PortKind::Iwarp),
        ("", "Ethernet", "1: CA", PortKind::Roce),
        ("enic", "Ethernet", "6: usNIC UDP", PortKind::Other),
        ("", "Unknown", "garbage", PortKind::Other),
    ] {
        assert_eq!(only_port(driver, link_layer, node_type, "").0, kind, "{driver} {link_layer} {node_type}");
    }
}

#[test]
fn states_are_told_as_their_word() {
    for (state, word) in [
        ("4: ACTIVE", Some("ACTIVE")),
        ("2: Polling", Some("Polling")),
        ("6: <unknown>", Some("<unknown>")),
        ("LinkUp", Some("LinkUp")),
        ("4:", None),
    ] {
        assert_eq!(only_port("mlx5_core", "InfiniBand", "1: CA", &format!("state={state}")).1.as_deref(), word, "{state}");
    }
}

#[test]
fn the_line_rate_is_from_the_source_that_can_be_believed() {
    for (driver, link_layer, says, mbit) in [
        ("mlx5_core", "InfiniBand", "rate=400 Gb/sec (4X NDR)", Some(400_000)),
        ("ib_qib", "InfiniBand", "rate=2.5 Gb/sec (1X SDR)", Some(2500)),
        // An SDR rate of mlx5 is a guess.
        ("mlx5_core", "InfiniBand", "rate=10 Gb/sec (4X SDR)", None),
        ("mlx5_core", "InfiniBand", "rate=10 Gb/sec (4X SDR); speed=800000", Some(800_000)),
        ("ib_qib", "InfiniBand", "rate=10 Gb/sec (4X SDR)", Some(10_000)),
        ("bnxt_en", "Ethernet", "rate=100 Gb/sec (4X EDR); speed=200000", Some(200_000)),
        ("bnxt_en", "Ethernet", "rate=100 Gb/sec (4X EDR)", Some(100_000)),
        ("mlx5_core", "InfiniBand", "rate=100 Gb/sec (4X EDR); speed=200000", Some(100_000)),
        // Of an instance type that is not known, an EFA has the rate that its driver reports.
        ("efa", "Unknown", "rate=400 Gb/sec (8X HDR); product=p9.48xlarge", Some(400_000)),
        ("efa", "Unknown", "rate=100 Gb/sec (4X EDR); product=p5en.48xlarge", Some(200_000)),
        ("efa", "Unknown", "", None),
    ] {
        assert_eq!(only_port(driver, link_layer, "1: CA", says).2, mbit.map(|mbit| mbit * 1_000_000), "{driver}: {says}");
    }
    for nonsense in ["", "400", "-1 Gb/sec", "NaN Gb/sec", "inf Gb/sec", "0 Gb/sec", "1e300 Gb/sec", "four Gb/sec"] {
        assert_eq!(only_port("ib_qib", "InfiniBand", "1: CA", &format!("rate={nonsense}")).2, None, "{nonsense:?}");
    }
}

#[test]
fn interfaces_are_told_with_their_function_and_all_readable_counters() {
    let dir = unpack(&["host"]);
    let netdevs = netdevs(&poll(&mut Netdevs::new(Roots::below(dir.path()), SECOND)));
    let eth0 = NetdevSample {
        name: "eth0".to_owned(),
        operstate: Some("up".to_owned()),
        carrier: Some(true),
        carrier_changes: Some(1),
        speed_mbits_per_s: None,
        mtu: Some(1500),
        arp_type: Some(1),
        bus_id: Some("0000:00:03.0".to_owned()),
        driver: Some("virtio_net".to_owned()),
        info: Some(NetdevInfo { pci_path: Some("/sys/devices/pci0000:00/0000:00:03.0".to_owned()), ..NetdevInfo::default() }),
        counters: counters([("rx_bytes", 1000), ("tx_bytes", 2000)]),
        ..NetdevSample::default()
    };
    let lo = NetdevSample {
        name: "lo".to_owned(),
        operstate: Some("unknown".to_owned()),
        carrier: Some(true),
        carrier_changes: Some(0),
        mtu: Some(65_536),
        arp_type: Some(772),
        counters: counters([("rx_bytes", 42)]),
        ..NetdevSample::default()
    };
    assert_eq!(netdevs.into_values().collect::<Vec<_>>(), [eth0, lo]);
}

#[test]
fn an_interface_is_told_at_every_poll_and_its_counters_when_they_change() {
    let dir = unpack(&["dgx-h100"]);
    let mut source = Netdevs::new(Roots::below(dir.path()), SECOND);
    let first = netdevs(&poll(&mut source));
    let again = netdevs(&poll(&mut source));
    assert_eq!(again.keys().collect::<Vec<_>>(), first.keys().collect::<Vec<_>>());
    assert!(again.values().all(|n| n.counters.is_empty()), "nothing has changed");
    set(dir.path(), "sys/class/net/enp41s0f0np0/statistics/tx_bytes", "5");
    assert_eq!(netdevs(&poll(&mut source))["enp41s0f0np0"].counters, counters([("tx_bytes", 5)]));
    let storage = &first["enp41s0f0np0"];
    assert_eq!((storage.speed_mbits_per_s, storage.driver.as_deref()), (Some(200_000), Some("mlx5_core")));
    assert_eq!(storage.counters, counters([("rx_bytes", u64::MAX), ("tx_bytes", 1)]));
}

#[test]
fn a_link_that_goes_down_is_told_at_once_with_its_new_speed() {
    let dir = unpack(&["dgx-h100"]);
    let mut source = Netdevs::new(Roots::below(dir.path()), SECOND);
    poll(&mut source);
    set(dir.path(), "sys/class/net/enp41s0f0np0/operstate", "down");
    set(dir.path(), "sys/class/net/enp41s0f0np0/carrier", "0");
    set(dir.path(), "sys/class/net/enp41s0f0np0/carrier_changes", "3");
    set(dir.path(), "sys/class/net/enp41s0f0np0/speed", "-1");
    let netdevs = netdevs(&poll(&mut source));
    let down = &netdevs["enp41s0f0np0"];
    assert_eq!((down.operstate.as_deref(), down.carrier, down.carrier_changes), (Some("down"), Some(false), Some(3)));
    assert_eq!(down.speed_mbits_per_s, None);
    assert_eq!(netdevs["enp170s0f0np0"].speed_mbits_per_s, Some(200_000));
}

#[test]
fn counters_of_an_interface_that_stays_down_are_read_when_it_comes_up() {
    let dir = unpack(&["dgx-h100"]);
    let eth = |file: &str, content: &str| set(dir.path(), &format!("sys/class/net/enp41s0f0np0/{file}"), content);
    let mut source = Netdevs::new(Roots::below(dir.path()), SECOND);
    let mut told = || netdevs(&poll(&mut source))["enp41s0f0np0"].counters.clone();
    told();
    eth("operstate", "down");
    eth("statistics/tx_bytes", "5");
    assert_eq!(told(), counters([("tx_bytes", 5)]), "what it had sent before");
    eth("statistics/tx_bytes", "6");
    assert_eq!(told(), counters([]));
    eth("operstate", "up");
    assert_eq!(told(), counters([("tx_bytes", 6)]));
}

#[test]
fn interfaces_that_come_and_go_are_followed() {
    let dir = unpack(&["host"]);
    let mut source = Netdevs::new(Roots::below(dir.path()), SECOND);
    assert_eq!(netdevs(&poll(&mut source)).len(), 2);
    std::fs::remove_file(dir.path().join("sys/class/net/eth0")).unwrap();
    write(dir.path(), "sys/class/net/veth1/operstate = up");
    let names = |out: Vec<Body>| netdevs(&out).into_keys().collect::<Vec<_>>();
    assert_eq!(names(poll(&mut source)), ["lo"]);
    assert_eq!(names(poll(&mut source)), ["lo", "veth1"]);
}

/// What of this process is open below a directory.
fn open_below(dir: &str) -> usize {
    let open = std::fs::read_dir("/proc/self/fd").unwrap().flatten();
    open.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|file| file.starts_with(dir))).count()
}

#[test]
fn counters_of_this_machine_are_kept_open_and_still_read_anew() {
    const LO: &str = "/sys/devices/virtual/net/lo/statistics";
    if !Path::new(LO).exists() {
        return;
    }
    nccl_top::edge::allow_more_descriptors();
    let mut source = Netdevs::new(Roots::live(), SECOND);
    let first = netdevs(&poll(&mut source));
    let open = open_below(LO);
    assert!(open >= 20, "{open} are open");
    let before = first["lo"].counters["rx_bytes"];
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.send_to(&[0; 1000], socket.local_addr().unwrap()).unwrap();
    let after = netdevs(&poll(&mut source))["lo"].counters["rx_bytes"];
    assert!(after >= before + 1000, "{before}, then {after}");
    assert_eq!(open_below(LO), open);
    drop(source);
    assert!(open_below(LO) < open, "and given back");
}

#[test]
fn files_below_another_root_are_opened_at_each_look() {
    let dir = unpack(&["dgx-h100"]);
    let mut source = Netdevs::new(Roots::below(dir.path()), SECOND);
    poll(&mut source);
    // Another file of the same name, as whoever copies a tree anew leaves it.
    let file = "sys/class/net/enp41s0f0np0/statistics/tx_bytes";
    std::fs::remove_file(dir.path().join(file)).unwrap();
    set(dir.path(), file, "7");
    assert_eq!(netdevs(&poll(&mut source))["enp41s0f0np0"].counters, counters([("tx_bytes", 7)]));
}

#[test]
fn without_the_class_of_interfaces_the_source_is_absent() {
    let dir = tempfile::tempdir().unwrap();
    let err = Netdevs::new(Roots::below(dir.path()), SECOND).poll(&mut Vec::new()).unwrap_err();
    assert_eq!(err, SourceError::Absent("/sys/class/net: no such file or directory".to_owned()));
}

fn host(root: &Path) -> Host {
    Host::new(Roots::below(root), SECOND)
}

fn nodes(out: &[Body]) -> Vec<Node> {
    let node = |body: &Body| match body {
        Body::Node(node) => Some(node.clone()),
        _ => None,
    };
    out.iter().filter_map(node).collect()
}

#[test]
fn a_node_is_told_once() {
    let dir = unpack(&["host"]);
    let mut source = host(dir.path());
    let expected = Node {
        hostname: "node-1".to_owned(),
        boot_id: Some("11111111-2222-3333-4444-555555555555".to_owned()),
        kernel: Some("6.8.0-1015-aws".to_owned()),
        vendor: Some("Amazon EC2".to_owned()),
        product: Some("p5.48xlarge".to_owned()),
        cpus: Some(2),
        container: None,
        iommu: Some(false),
        memlock_bytes: Some(u64::MAX),
        ..Node::default()
    };
    assert_eq!(nodes(&poll(&mut source)), [expected]);
    assert_eq!(nodes(&poll(&mut source)), []);
    assert_eq!(source.every(), Duration::from_secs(5));
}

#[test]
fn a_host_sample_is_cumulative_and_in_bytes() {
    let dir = unpack(&["host"]);
    let out = poll(&mut host(dir.path()));
    let Some(Body::Host(sample)) = out.last() else { panic!("{out:?}") };
    let here = rustix::fs::statvfs(dir.path()).unwrap();
    assert_eq!(sample.shm_total_bytes, Some(here.f_blocks * here.f_frsize));
    let [disk] = &sample.disks[..] else { panic!("/tmp is on the same file system: {:?}", sample.disks) };
    assert_eq!((disk.mount.as_str(), disk.total_bytes), ("/", here.f_blocks * here.f_frsize));
    let expected = HostSample {
        cpu_busy_ticks: Some(1341),
        cpu_idle_ticks: Some(40_500),
        cpu_iowait_ticks: Some(500),
        load_1m: Some(95.12),
        procs_running: Some(3),
        mem_total_bytes: Some(2_113_564_744 * 1024),
        mem_available_bytes: Some(2_000_000_000 * 1024),
        oom_kills: Some(2),
        shm_total_bytes: sample.shm_total_bytes,
        shm_free_bytes: sample.shm_free_bytes,
        disks: sample.disks.clone(),
        ..HostSample::default()
    };
    assert_eq!(*sample, expected);
}

#[test]
fn containers_and_iommus_are_recognised_by_their_marks() {
    for (mark, container) in [
        ("run/secrets/kubernetes.io/serviceaccount/", "kubernetes"),
        ("run/.containerenv =", "podman"),
        (".dockerenv =", "docker"),
        ("proc/1/cgroup = 5:cpu:/docker/0123456789ab", "docker"),
        ("proc/1/cgroup = 11:memory:/kubepods/burstable/pod1/abc", "kubernetes"),
        ("proc/1/environ = PATH=/bin\0container=lxc\0", "lxc"),
        ("proc/1/environ = container=my-own\0", "container"),
    ] {
        let dir = unpack(&["host"]);
        write(dir.path(), mark);
        write(dir.path(), "sys/class/iommu/dmar0/");
        let [node] = &nodes(&poll(&mut host(dir.path())))[..] else { panic!("one node") };
        assert_eq!((node.container.as_deref(), node.iommu), (Some(container), Some(true)), "{mark}");
    }
}

#[test]
fn what_only_looks_like_a_mark_of_a_container_is_none() {
    let dir = unpack(&["host"]);
    write(dir.path(), "proc/1/environ = xcontainer=lxc\\0");
    assert_eq!(nodes(&poll(&mut host(dir.path())))[0].container, None);
}

/// A sample of the machine in `host.tree`, with one file that is another.
fn sample_with(file: &str) -> HostSample {
    let dir = unpack(&["host"]);
    write(dir.path(), file);
    let Some(Body::Host(sample)) = poll(&mut host(dir.path())).pop() else { panic!("no sample") };
    sample
}

#[test]
fn cpu_time_is_busy_or_idle_and_guests_are_not_counted_twice() {
    for (stat, ticks) in [
        ("cpu  100 20 30 4000 500 6 7 8 90 1\\ncpu0 1 2 3 4 5 6 7 8 9 0", [Some(171), Some(4500), Some(500)]),
        ("cpu  1 2 x", [None; 3]),
        ("cpu0 1 2 3 4 5 6 7 8 9 0", [None; 3]),
    ] {
        let sample = sample_with(&format!("proc/stat = {stat}"));
        assert_eq!([sample.cpu_busy_ticks, sample.cpu_idle_ticks, sample.cpu_iowait_ticks], ticks, "{stat}");
    }
}

#[test]
fn a_field_is_found_by_its_whole_name_and_one_that_is_too_large_is_none() {
    assert_eq!(sample_with("proc/vmstat = oom_kill_other 9\\noom_kill 3").oom_kills, Some(3));
    assert_eq!(sample_with("proc/meminfo = MemTotal: 18446744073709551615 kB").mem_total_bytes, None);
}

#[test]
fn the_hard_limit_of_locked_memory_is_the_second_column() {
    for (limits, bytes) in [
        ("Max locked memory         65536                8388608              bytes", Some(8_388_608)),
        ("Max locked memory         65536                unlimited            bytes", Some(u64::MAX)),
        ("Max open files 1 2 files", None),
    ] {
        let dir = unpack(&["host"]);
        write(
            dir.path(),
            &format!("proc/self/limits = Limit                     Soft Limit           Hard Limit           Units\\n{limits}"),
        );
        assert_eq!(nodes(&poll(&mut host(dir.path())))[0].memlock_bytes, bytes, "{limits}");
    }
}

#[test]
fn of_sensors_of_one_kind_the_hottest_is_kept() {
    let dir = unpack(&["host"]);
    for (chip, name, sensor, label, now, critical) in [
        ("hwmon0", "coretemp", "temp1", "Package id 0", 61_000, 100_000),
        ("hwmon0", "coretemp", "temp2", "Core 0", 55_000, 100_000),
        ("hwmon0", "coretemp", "temp3", "Core 17", 64_500, 100_000),
        ("hwmon1", "coretemp", "temp1", "Package id 1", 71_000, 100_000),
        ("hwmon2", "mlx5", "temp1", "asic", 66_000, 105_000),
        ("hwmon3", "mlx5", "temp1", "asic", 58_000, 105_000),
        ("hwmon3", "mlx5", "temp2", "Module0", -128_000, 0),
    ] {
        let at = format!("sys/class/hwmon/{chip}");
        write(
            dir.path(),
            &format!("{at}/name = {name}\n{at}/{sensor}_label = {label}\n{at}/{sensor}_input = {now}\n{at}/{sensor}_crit = {critical}"),
        );
    }
    let Some(Body::Host(sample)) = poll(&mut host(dir.path())).pop() else { panic!("no sample") };
    let found: Vec<_> = sample.temperatures.iter().map(|t| (t.sensor.as_str(), t.celsius, t.critical_c, t.sensors)).collect();
    let expected =
        [("coretemp Core", 64.5, Some(100.0), 2), ("coretemp Package id", 71.0, Some(100.0), 2), ("mlx5 asic", 66.0, Some(105.0), 2)];
    assert_eq!(found, expected);
    assert!(sample_with("sys/class/hwmon/").temperatures.is_empty());
}

#[test]
fn a_root_without_proc_is_told_as_such() {
    let dir = tempfile::tempdir().unwrap();
    let mut out = Vec::new();
    let err = host(dir.path()).poll(&mut out).unwrap_err();
    assert_eq!(err, SourceError::Absent("/proc/stat: no such file or directory".to_owned()));
    assert_eq!(nodes(&out), [Node::default()]);
}

#[test]
fn a_pipe_in_the_place_of_a_file_stops_no_source() {
    let dir = unpack(&["host", "spark-roce"]);
    for path in ["sys/class/net/eth0/mtu", "sys/class/infiniband/rocep1s0f0/ports/1/counters/port_rcv_data", "proc/loadavg"] {
        let path = dir.path().join(path);
        std::fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0).unwrap();
    }
    for source in sources(dir.path()).iter_mut() {
        poll(source.as_mut());
    }
}

/// They list at every second poll.
fn sources(root: &Path) -> [Box<dyn Source>; 3] {
    let (roots, every) = (Roots::below(root), Duration::from_secs(15));
    [Box::new(Rdma::new(roots.clone(), every)), Box::new(Netdevs::new(roots.clone(), every)), Box::new(Host::new(roots, every))]
}

/// What may be found in the place of a file.
#[derive(Clone, Debug)]
enum Damage {
    Bytes(Vec<u8>),
    Directory,
    Nothing,
    Loop,
}

impl Damage {
    fn any() -> impl Strategy<Value = Damage> {
        prop_oneof![
            4 => proptest::collection::vec(any::<u8>(), 0..64).prop_map(Damage::Bytes),
            4 => "[-0-9.: x/a-f]{0,24}|cpu [0-9 ]{0,200}|[0-9]: .{0,4}|[0-9.e]{1,9} Gb/sec.*".prop_map(|s| Damage::Bytes(s.into_bytes())),
            1 => (4000usize..9000).prop_map(|n| Damage::Bytes(vec![b'9'; n])),
            1 => Just(Damage::Directory),
            1 => Just(Damage::Nothing),
            1 => Just(Damage::Loop),
        ]
    }

    fn apply(&self, path: &Path) {
        let is_dir = path.symlink_metadata().is_ok_and(|meta| meta.is_dir());
        if is_dir {
            std::fs::remove_dir_all(path).ok()
        } else {
            std::fs::remove_file(path).ok()
        };
        match self {
            Damage::Bytes(bytes) => std::fs::write(path, bytes).ok(),
            Damage::Directory => std::fs::create_dir(path).ok(),
            Damage::Nothing => None,
            Damage::Loop => std::os::unix::fs::symlink(path, path).ok(),
        };
    }
}

/// Everything below `dir` that is not the directory itself, links not followed.
fn entries(dir: &Path, found: &mut Vec<std::path::PathBuf>) {
    let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    for path in paths {
        let is_dir = path.symlink_metadata().unwrap().is_dir();
        found.push(path.clone());
        if is_dir {
            entries(&path, found);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_content_of_any_file_makes_a_source_panic(
        before in proptest::collection::vec((any::<prop::sample::Index>(), Damage::any()), 0..12),
        after in proptest::collection::vec((any::<prop::sample::Index>(), Damage::any()), 1..12),
    ) {
        let dir = unpack(&["host", "spark-roce", "odd"]);
        let mut sources = sources(dir.path());
        for damages in [before, after] {
            let mut paths = Vec::new();
            entries(dir.path(), &mut paths);
            for (index, damage) in damages {
                let path: &std::path::PathBuf = index.get(&paths);
                damage.apply(path);
            }
            for source in &mut sources {
                for _ in 0..3 {
                    source.poll(&mut Vec::new()).ok();
                }
            }
        }
    }
}

mod control_groups {
    use nccl_top::observe::host::{CgroupCpu, CgroupMemory};
    use nccl_top::sources::Roots;
    use nccl_top::sources::cgroup::memory;
    use nccl_top::sources::sysfs::Reader;
    fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join("sys/fs/cgroup").join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        root
    }

    fn of(root: &tempfile::TempDir, path: &str) -> Option<CgroupMemory> {
        memory(&Roots::below(root.path()), &mut Reader::default(), path)
    }

    #[test]
    fn the_limit_that_leaves_least_counts_wherever_it_stands() {
        let root = tree(&[
            ("cgroup.controllers", "cpu memory"),
            ("slurm/memory.max", "1000"),
            ("slurm/memory.current", "990"),
            ("slurm/memory.stat", "anon 900\nfile 80\ninactive_file 30\nactive_file 40\nshmem 10"),
            ("slurm/memory.swap.max", "max"),
            ("slurm/memory.swap.current", "7"),
            ("slurm/job_7/memory.max", "500"),
            ("slurm/job_7/memory.current", "100"),
            ("slurm/job_7/cpu.max", "250000 100000"),
            ("slurm/job_7/cpu.stat", "usage_usec 5\nnr_periods 900\nnr_throttled 120\nthrottled_usec 77"),
            ("slurm/job_7/step_0/cpu.max", "max 100000"),
            ("slurm/job_7/step_0/cpu.stat", "nr_periods 0\nnr_throttled 0"),
            ("slurm/job_7/step_0/memory.max", "max"),
            ("slurm/job_7/step_0/memory.current", "90"),
        ]);
        let found = of(&root, "/slurm/job_7/step_0").unwrap();
        let expected = CgroupMemory {
            cgroup: "/slurm/job_7/step_0".into(),
            limited_by: Some("/slurm".into()),
            limit_bytes: Some(1000),
            used_bytes: Some(990),
            cache_bytes: Some(70),
            swap_limit_bytes: None,
            swap_used_bytes: Some(7),
            cpu: Some(CgroupCpu { limited_by: "/slurm/job_7".into(), limit_cpus: Some(2.5), periods: 900, throttled: 120 }),
        };
        assert_eq!(found, expected);
        std::fs::write(root.path().join("sys/fs/cgroup/slurm/memory.max"), "max\n").unwrap();
        let found = of(&root, "/slurm/job_7/step_0").unwrap();
        assert_eq!((found.limited_by.as_deref(), found.limit_bytes, found.used_bytes), (Some("/slurm/job_7"), Some(500), Some(100)));
        std::fs::write(root.path().join("sys/fs/cgroup/slurm/job_7/memory.max"), "max\n").unwrap();
        let found = of(&root, "/slurm/job_7/step_0").unwrap();
        assert_eq!((found.limited_by, found.limit_bytes, found.used_bytes), (None, None, Some(90)));
    }

    #[test]
    fn version_1_has_other_names_and_counts_memory_as_swap() {
        let root = tree(&[
            ("memory/memory.usage_in_bytes", "5000"),
            ("memory/memory.limit_in_bytes", "9223372036854771712"),
            ("memory/job/memory.usage_in_bytes", "600"),
            ("memory/job/memory.limit_in_bytes", "800"),
            ("memory/job/memory.memsw.usage_in_bytes", "650"),
            ("memory/job/memory.memsw.limit_in_bytes", "1000"),
            ("memory/job/memory.stat", "inactive_file 1\ntotal_inactive_file 20\ntotal_active_file 30"),
        ]);
        let found = of(&root, "/job").unwrap();
        assert_eq!((found.limit_bytes, found.used_bytes, found.cache_bytes), (Some(800), Some(600), Some(50)));
        assert_eq!((found.swap_limit_bytes, found.swap_used_bytes), (Some(200), Some(50)));
        // In a container the group outside is not there, and its own stands in the place of the root.
        assert_eq!(of(&root, "/docker/0123").unwrap().used_bytes, Some(5000));
        assert_eq!(of(&root, "/../job").unwrap().used_bytes, Some(5000), "nothing is read outside");
    }

    #[test]
    fn without_control_groups_nothing_is_known() {
        assert_eq!(of(&tree(&[]), "/job"), None);
        assert_eq!(of(&tree(&[("cgroup.controllers", "cpu"), ("job/cpu.max", "max")]), "/job"), None);
        assert_eq!(of(&tree(&[("cgroup.controllers", ""), ("job/memory.current", "no number")]), "/job"), None);
    }
}

mod sysfs {
    use nccl_top::sources::sysfs::{Reader, is_bus_id, polls_per_listing};
    use std::time::Duration;
    #[test]
    fn bus_ids_are_told_from_other_names_in_the_tree() {
        for yes in ["0000:86:00.0", "000f:01:00.0", "10000:e1:00.0", "0000:10:1b.7"] {
            assert!(is_bus_id(yes), "{yes}");
        }
        for no in ["pci0000:80", "0000:86", "mlx5_core.sf.4", "virtio0", "000:86:00.0", "0000:86:00.00", "0000:8g:00.0", "0000:86:00"] {
            assert!(!is_bus_id(no), "{no}");
        }
    }

    #[test]
    fn listings_come_every_half_minute_whatever_the_interval() {
        assert_eq!(polls_per_listing(Duration::from_secs(1)), 30);
        assert_eq!(polls_per_listing(Duration::from_millis(250)), 120);
        assert_eq!(polls_per_listing(Duration::from_secs(60)), 1);
        assert_eq!(polls_per_listing(Duration::ZERO), 30_000);
    }

    #[test]
    fn a_table_longer_than_one_read_is_read_whole() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("stat");
        let text = "intr 0 0 0 0 0 0 0\n".repeat(1000);
        std::fs::write(&path, &text).unwrap();
        assert_eq!(Reader::default().table(&path).unwrap(), text.as_bytes());
    }
}
