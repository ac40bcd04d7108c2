//! How GPUs and NICs are joined, which is near to which, and what NCCL uses between them.

use crate::support::{tree, worlds};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::model::bringup::routes::{MAX_ROUTES, Route};
use nccl_top::model::topology::used::{Used, Verdict};
use nccl_top::model::topology::{Distance, FLAT, Place, Topology};
use nccl_top::observe::gpu::{GpuPair, GpuTopology};
use nccl_top::observe::log::{Line, Lines, LogFileInfo, LogFileState};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::output::{snapshot, topology};
use nccl_top::rules::findings::Finding;
use nccl_top::sources::nvml::gpus_from_pci;
use nccl_top::sources::rdma::Rdma;
use nccl_top::sources::{Roots, Source};
use nccl_top::tui::choices::{Opened, Ui};
use nccl_top::tui::panes::{Ctx, PANES};
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// Two sockets. GPU0 and mlx5_0 below one switch; GPU1 below a switch that is below that of mlx5_1; mlx5_2 at a port of its own; GPU2 alone;
/// GPU3 and mlx5_3 below one switch. The firmware names no node for mlx5_10, and siw0 is no hardware.
const TWO_SOCKETS: &str = "
sys/devices/system/node/online = 0-1
proc/sys/kernel/hostname = node-17
for 10/0000:10:01.0/0000:11:00.0/0000:12:00.0/0000:1b:00.0,1b,0 20/0000:20:01.0/0000:21:00.0/0000:22:00.0/0000:23:00.0/0000:24:00.0/0000:2b:00.0,2b,0 80/0000:80:01.0/0000:81:00.0/0000:82:00.0/0000:3b:00.0,3b,1 90/0000:90:01.0/0000:91:00.0/0000:92:00.0/0000:4b:00.0,4b,1
  sys/bus/pci/devices/0000:{1}:00.0 -> ../../../devices/pci0000:{0}
  sys/devices/pci0000:{0}/vendor = 0x10de
  sys/devices/pci0000:{0}/class = 0x030200
  sys/devices/pci0000:{0}/numa_node = {2}
  sys/devices/pci0000:{0}/local_cpulist = {2}-55
end
for 0,10/0000:10:01.0/0000:11:00.0/0000:12:01.0/0000:1c:00.0,0 1,20/0000:20:01.0/0000:21:00.0/0000:22:01.0/0000:2c:00.0,0 2,30/0000:30:01.0/0000:31:00.0,0 3,90/0000:90:01.0/0000:91:00.0/0000:92:01.0/0000:4c:00.0,1 10,a0/0000:a0:01.0/0000:a1:00.0,-1
  sys/class/infiniband/mlx5_{0} -> ../../devices/pci0000:{1}/infiniband/mlx5_{0}
  sys/devices/pci0000:{1}/numa_node = {2}
  sys/devices/pci0000:{1}/infiniband/mlx5_{0}/device -> ../..
  sys/devices/pci0000:{1}/infiniband/mlx5_{0}/ports/1/state = 4: ACTIVE
  sys/devices/pci0000:{1}/infiniband/mlx5_{0}/ports/1/link_layer = InfiniBand
end
sys/class/infiniband/siw0/node_type = 4: RNIC
sys/class/infiniband/siw0/ports/1/state = 4: ACTIVE
";

/// Eight GPUs of a virtual machine, and a NIC.
const FLAT_MACHINE: &str = "
sys/devices/system/node/online = 0
proc/sys/kernel/hostname = vm
for 06 07 08 09 0a 0b 0c 0d
  sys/bus/pci/devices/0000:00:{0}.0 -> ../../../devices/pci0000:00/0000:00:{0}.0
  sys/devices/pci0000:00/0000:00:{0}.0/vendor = 0x10de
  sys/devices/pci0000:00/0000:00:{0}.0/class = 0x030200
  sys/devices/pci0000:00/0000:00:{0}.0/numa_node = -1
  sys/devices/pci0000:00/0000:00:{0}.0/local_cpulist = 0-127
end
sys/class/infiniband/efa_0 -> ../../devices/pci0000:00/0000:00:10.0/infiniband/efa_0
sys/devices/pci0000:00/0000:00:10.0/infiniband/efa_0/device -> ../..
sys/devices/pci0000:00/0000:00:10.0/infiniband/efa_0/ports/1/state = 4: ACTIVE
";

fn apply(session: &mut Session, from: &'static str, body: Body) {
    session.apply(&Observation { at: Stamp(1_000_000_000), host: None, from: SourceId::of(from), body }, &mut Vec::new());
}

fn machine(text: &str) -> Session {
    let dir = tempfile::tempdir().unwrap();
    tree::write(dir.path(), text);
    let roots = || Roots::below(dir.path());
    let mut session = Session::new(if text.contains("node-17") { "node-17.cluster" } else { "vm" }, Zone::UTC);
    let mut seen: Vec<Body> = gpus_from_pci(&roots()).into_iter().map(Body::GpuInfo).collect();
    Rdma::new(roots(), Duration::from_secs(1)).poll(&mut seen).unwrap();
    seen.into_iter().for_each(|body| apply(&mut session, "rdma", body));
    session
}

/// NVLinks join GPUs 0 and 1, and NVML knows the others.
fn with_nvlink(mut session: Session) -> Session {
    let pair = |a, b, nvlinks, level| GpuPair { a, b, pcie_level: Some(level), nvlinks: Some(nvlinks), p2p_read: Some(0) };
    let pairs = vec![pair(0, 1, 18, 40), pair(0, 2, 0, 50), pair(2, 3, 0, 10)];
    apply(&mut session, "nvml", Body::GpuTopology(GpuTopology { pairs }));
    session
}

fn say(session: &mut Session, file: u32, lines: &[String]) {
    let info = LogFileInfo { file, path: format!("/tmp/train-{file}.log"), state: LogFileState::Open, ..LogFileInfo::default() };
    apply(session, "tail", Body::LogFile(info));
    let lines = lines.iter().map(|text| Line { text: text.clone(), ..Line::default() }).collect();
    apply(session, "tail", Body::Lines(Lines { file, lines, ..Lines::default() }));
    apply(session, "tick", Body::Tick);
}

fn info(lines: &[&str]) -> Vec<String> {
    lines.iter().map(|line| format!("node-17:100:100 [0] NCCL INFO {line}")).collect()
}

fn used(session: &Session) -> Used {
    let model = &session.model;
    let job = model.jobs.values().next().expect("a job");
    Used::of(model, job, &model.bringup_of(&job.id))
}

/// Over what two GPUs talk: what a cell shows, what is thought of it, and the sentence.
fn pair(session: &Session, from: u32, to: u32) -> (&'static str, Verdict, String) {
    let judged = used(session).pair(&Topology::of(&session.model), from, to);
    (judged.used, judged.verdict, judged.why)
}

fn net(session: &Session, gpu: u32, device: &str) -> (&'static str, Verdict, String) {
    let judged = used(session).net(&session.model, &Topology::of(&session.model), gpu, device);
    (judged.used, judged.verdict, judged.why)
}

#[test]
fn distances_follow_from_paths_and_nodes() {
    use Distance::{Node, Phb, Pix, Pxb, Sys};
    let switch = "/sys/devices/pci0000:10/0000:10:01.0/0000:11:00.0";
    let at = |path: &str| if path.starts_with('/') { path.to_owned() } else { format!("{switch}/{path}") };
    for (a, b, nodes, want) in [
        ("0000:12:00.0/0000:13:00.0", "0000:12:01.0/0000:14:00.0", (None, None), Some(Pix)),
        // Two functions of one card.
        ("0000:12:00.0/0000:13:00.0", "0000:12:00.0/0000:13:00.1", (None, None), Some(Pix)),
        // A second switch below the first one, and a NIC with a switch of its own.
        ("0000:12:00.0/0000:13:00.0", "0000:12:01.0/0000:14:00.0/0000:15:00.0/0000:16:00.0", (None, None), Some(Pxb)),
        ("0000:12:00.0/0000:13:00.0", "/sys/devices/pci0000:10/0000:10:02.0/0000:20:00.0", (None, None), Some(Phb)),
        ("/sys/devices/pci0000:00/0000:00:06.0", "/sys/devices/pci0000:00/0000:00:07.0", (None, None), Some(Phb)),
        ("0000:13:00.0", "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", (Some(0), Some(0)), Some(Node)),
        ("0000:13:00.0", "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", (Some(0), Some(1)), Some(Sys)),
        ("0000:13:00.0", "/sys/devices/pci0000:80/0000:80:01.0/0000:81:00.0", (Some(0), None), None),
        // On Arm the host bridge stands below what is no PCI device.
        ("/sys/devices/platform/NVDA:00/pci0002:00/0002:00:00.0/0002:01:00.0", "/sys/devices/pci0000:00/0000:00:00.0", (None, None), None),
        ("/sys/devices/virtual/x", "0000:13:00.0", (None, None), None),
    ] {
        let (a_path, b_path) = (at(a), at(b));
        let (a, b) = (Place::new(None, Some(&a_path), nodes.0), Place::new(None, Some(&b_path), nodes.1));
        assert_eq!((a.distance(&b), b.distance(&a)), (want, want), "{a_path} {b_path}");
    }
}

#[test]
fn functions_of_one_card_are_near_wherever_it_is_plugged_in() {
    let at = |function: u32| (format!("0000:29:00.{function}"), format!("/sys/devices/pci0000:29/0000:29:00.{function}"));
    let (first, second, other) = (at(0), at(1), ("0000:29:01.0".to_owned(), "/sys/devices/pci0000:29/0000:29:01.0".to_owned()));
    let place = |(bus_id, path): &(String, String)| {
        Place::new(Some(bus_id), Some(path), Some(0)).distance(&Place::new(Some(&first.0), Some(&first.1), Some(0)))
    };
    assert_eq!((place(&second), place(&other)), (Some(Distance::Pix), Some(Distance::Phb)));
}

#[test]
fn gpus_and_nics_of_two_sockets() {
    let session = with_nvlink(machine(TWO_SOCKETS));
    let topology = Topology::of(&session.model);
    let names: Vec<&str> = topology.nics.iter().map(|nic| nic.device).collect();
    assert_eq!(names, ["mlx5_0", "mlx5_1", "mlx5_2", "mlx5_3", "mlx5_10", "siw0"]);
    let label = |d: Option<Distance>| d.map_or("?".into(), Distance::label);
    let row = |gpu| names.iter().map(|nic| label(topology.gpu_to_nic(gpu, nic))).collect::<Vec<_>>().join(" ");
    assert_eq!(row(0), "PIX NODE NODE SYS ? ?");
    assert_eq!(row(1), "NODE PXB NODE SYS ? ?");
    assert_eq!(row(3), "SYS SYS SYS PIX ? ?");
    let gpus = |a| (0..4).map(|b| if a == b { "X".into() } else { label(topology.gpu_to_gpu(a, b)) }).collect::<Vec<_>>().join(" ");
    assert_eq!(gpus(0), "X NV18 SYS SYS", "by NVML where it answers, by the tree where not");
    assert_eq!(gpus(3), "SYS SYS PIX X");
    let nearest = |nic: &str| topology.nearest_gpus(&topology.nic(nic).unwrap().place);
    assert_eq!(nearest("mlx5_0"), [0]);
    assert_eq!(nearest("mlx5_1"), [1]);
    assert_eq!(nearest("mlx5_2"), [0, 1], "on the same node");
    assert_eq!(nearest("mlx5_10"), [0u32; 0]);
    assert_eq!(nearest("siw0"), [0u32; 0]);
    assert_eq!(topology.near_nics(3), ["mlx5_3"]);
    assert!(!topology.is_flat() && topology.remarks().is_empty());
}

#[test]
fn the_snapshot_names_the_nearest_gpu() {
    let session = machine(TWO_SOCKETS);
    let json = snapshot::json(&session, Zone::UTC);
    let near: Vec<(&str, Option<u64>)> =
        json["ports"].as_array().unwrap().iter().map(|p| (p["device"].as_str().unwrap(), p["nearest_gpu"].as_u64())).collect();
    assert!(near.contains(&("mlx5_1", Some(1))) && near.contains(&("mlx5_3", Some(3))) && near.contains(&("siw0", None)), "{near:?}");
}

#[test]
fn a_flat_tree_makes_nothing_near() {
    let session = machine(FLAT_MACHINE);
    let topology = Topology::of(&session.model);
    assert_eq!(topology.gpu_to_gpu(0, 7), Some(Distance::Phb));
    assert_eq!(topology.gpu_to_nic(3, "efa_0"), Some(Distance::Phb));
    assert!(topology.nearest_gpus(&topology.nics[0].place).is_empty() && topology.near_nics(0).is_empty());
    assert_eq!(topology.remarks(), [FLAT]);
    // Where there are several host bridges, they tell which devices belong together.
    let on_two = "
for 10,0 20,1
  sys/bus/pci/devices/0000:{0}:1c.0 -> ../../../devices/pci0000:{0}/0000:{0}:1c.0
  sys/devices/pci0000:{0}/0000:{0}:1c.0/vendor = 0x10de
  sys/devices/pci0000:{0}/0000:{0}:1c.0/class = 0x030200
  sys/class/infiniband/efa_{1} -> ../../devices/pci0000:{0}/0000:{0}:1b.0/infiniband/efa_{1}
  sys/devices/pci0000:{0}/0000:{0}:1b.0/infiniband/efa_{1}/device -> ../..
  sys/devices/pci0000:{0}/0000:{0}:1b.0/infiniband/efa_{1}/ports/1/state = 4: ACTIVE
  sys/devices/pci0000:{0}/0000:{0}:1b.0/numa_node = {1}
  sys/devices/pci0000:{0}/0000:{0}:1c.0/numa_node = {1}
end";
    let two = machine(on_two);
    let topology = Topology::of(&two.model);
    assert!(!topology.is_flat());
    assert_eq!((topology.near_nics(0), topology.near_nics(1)), (vec!["efa_0"], vec!["efa_1"]));
    let info = &session.model.gpus[&7].info;
    assert_eq!((info.numa, info.numa_affinity, info.cpus.as_deref()), (None, Some(0), Some("0-127")));
}

#[test]
fn pairs_are_judged_by_what_joins_them() {
    let mut session = with_nvlink(machine(TWO_SOCKETS));
    say(&mut session, 1, &info(&["NCCL version 2.28.9+cuda13.0", "Channel 00/04 : 0 1 2 3"]));
    let (used, verdict, why) = pair(&session, 0, 1);
    assert_eq!((used, verdict), ("", Verdict::NotSeen), "{why}");
    assert!(why.ends_with("no log has its channel lines, which NCCL_DEBUG=INFO prints"), "{why}");
    say(
        &mut session,
        1,
        &info(&[
            "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM",
            "Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM",
            "Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct",
            "Channel 00/0 : 2[2] -> 3[3] via P2P/CUMEM/read",
            "Channel 00/0 : 3[3] -> 2[2] via P2P/indirect/0[0]",
            "Channel 00/0 : 1[1] -> 2[2] via SHM/direct/direct",
            "NCCL_P2P_DISABLE set by environment to 1.",
        ]),
    );
    assert_eq!(
        pair(&session, 0, 1),
        ("P2P", Verdict::Matches, "GPU0-GPU1: NV18: 18 NVLinks; NCCL uses P2P/CUMEM (2 channels): the fastest way".into())
    );
    let (used, verdict, why) = pair(&session, 1, 0);
    assert_eq!((used, verdict), ("SHM", Verdict::Below));
    assert!(why.ends_with("SHM/direct/direct (1 channel): slower than the link between them (NCCL_P2P_DISABLE=1)"), "{why}");
    let (_, verdict, why) = pair(&session, 2, 3);
    assert!(verdict == Verdict::Matches && why.ends_with("(read: GPU3 reads the memory of GPU2 directly): the fastest way"), "{why}");
    assert_eq!(pair(&session, 3, 2).1, Verdict::Below, "by way of another GPU");
    let (_, verdict, why) = pair(&session, 1, 2);
    assert!(verdict == Verdict::Matches && why.contains("SYS") && why.contains("P2P is not used that far"), "{why}");
    let (_, verdict, why) = pair(&session, 0, 3);
    assert!(verdict == Verdict::Unused && why.ends_with("NCCL has no channel between them"), "{why}");
}

#[test]
fn nics_are_judged_by_how_near_they_are() {
    let mut session = machine(TWO_SOCKETS);
    say(
        &mut session,
        1,
        &info(&[
            "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>",
            "Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/0/GDRDMA",
            "Channel 01/0 : 9[1] -> 0[0] [receive] via NET/IB/0/GDRDMA",
            "Channel 00/0 : 1[1] -> 9[1] [send] via NET/IB/3/GDRDMA",
            "Channel 00/0 : 2[2] -> 9[1] [send] via NET/IB/3(3)/GDRDMA",
            "Channel 00/0 : 3[3] -> 9[1] [send] via NET/IB/3",
            "Channel 00/0 : 3[3] -> 9[1] [send] via NET/AWS Libfabric/7/GDRDMA/Shared",
        ]),
    );
    let (used_, verdict, why) = net(&session, 0, "mlx5_0");
    assert_eq!((used_, verdict), ("GDR", Verdict::Matches), "{why}");
    assert!(why.contains("PIX: one PCIe switch; NCCL uses NET/IB/GDRDMA (1 channel out, 1 in): the nearest way"), "{why}");
    let (_, verdict, why) = net(&session, 1, "mlx5_3");
    assert!(verdict == Verdict::Below && why.contains("far, mlx5_1 is nearer (PXB)"), "{why}");
    assert_eq!(net(&session, 2, "mlx5_3").1, Verdict::Matches, "by way of rank 3, which is near");
    let (used_, verdict, why) = net(&session, 3, "mlx5_3");
    assert_eq!((used_, verdict), ("NET", Verdict::Below), "{why}");
    assert!(why.contains("without GPUDirect RDMA"), "{why}");
    assert!(used(&session).nets.contains_key(&(3, "AWS Libfabric/7".into())), "no line names it");
    assert!(used(&session).pairs.is_empty(), "the other ends are on another node");
    // A nearer NIC that is down is none.
    let down = nccl_top::observe::port::PortSample { device: "mlx5_1".into(), port: 1, state: Some("DOWN".into()), ..Default::default() };
    apply(&mut session, "rdma", Body::Ports { ports: vec![down] });
    assert_eq!(net(&session, 1, "mlx5_3").1, Verdict::Matches);
}

#[test]
fn ranks_of_one_node_that_talk_over_the_network_are_a_pair() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs/twohosts.log")).unwrap();
    let mut session = machine(FLAT_MACHINE);
    say(&mut session, 1, &text.lines().map(str::to_owned).collect::<Vec<_>>());
    assert_eq!(pair(&session, 0, 4).0, "NET");
    assert_eq!(pair(&session, 0, 4).1, Verdict::Below);
    assert_eq!(pair(&session, 0, 1).0, "P2P");
    assert_eq!(pair(&session, 2, 6).1, Verdict::Unused);
    let used = used(&session);
    assert_eq!(used.rings[0].ranks, [0, 3, 2, 1, 4, 7, 6, 5]);
    assert!(used.nets.contains_key(&(0, "eth0".into())));
    assert_eq!((used.of_another_host, used.unplaced), (false, 0));
}

#[test]
fn a_gpu_is_known_by_its_address_where_that_is_told() {
    // Up to 2.18.1 brackets hold the address.
    let mut session = machine(TWO_SOCKETS);
    say(&mut session, 1, &info(&["Channel 00 : 0[1b000] -> 1[4b000] via P2P/IPC"]));
    assert_eq!(used(&session).pairs.keys().copied().collect::<Vec<_>>(), [(0, 3)]);
    // A container counts its own GPUs from 0.
    let mut session = machine(TWO_SOCKETS);
    let init = |rank: u32, bus: &str| {
        format!("ncclCommInitRank comm 0x1 rank {rank} nranks 2 cudaDev 0 nvmlDev 0 busId {bus} commId 0x77 - Init COMPLETE")
    };
    let (first, second) = (init(0, "3b000"), init(1, "4b000"));
    say(&mut session, 1, &info(&[&first, &second, "Channel 00/0 : 0[0] -> 1[0] via SHM/direct/direct"]));
    assert_eq!(used(&session).pairs.keys().copied().collect::<Vec<_>>(), [(2, 3)]);
    // Two that contradict each other tell nothing.
    say(&mut session, 1, &info(&[&init(0, "1b000")]));
    assert!(used(&session).pairs.is_empty());
    assert_eq!(used(&session).unplaced, 1);
}

#[test]
fn lines_of_other_hosts_are_not_of_this_one() {
    let mut session = machine(TWO_SOCKETS);
    let of = |host: &str, line: &str| format!("{host}:100:100 [0] NCCL INFO {line}");
    let lines =
        [of("node-18", "Channel 00/0 : 8[0] -> 9[1] via SHM/direct/direct"), of("node-17", "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM")];
    say(&mut session, 1, &lines);
    assert_eq!(pair(&session, 0, 1).0, "P2P");
    let mut session = machine(TWO_SOCKETS);
    say(&mut session, 1, &lines[..1]);
    assert!(used(&session).of_another_host && pair(&session, 0, 1).0 == "SHM", "one host may have two names");
    say(&mut session, 1, &[of("node-19", "Channel 00/0 : 16[0] -> 17[1] via SHM/direct/direct")]);
    assert!(!used(&session).seen, "which of two it is nobody knows");
}

#[test]
fn a_log_of_a_million_pairs_is_kept_in_part() {
    let mut session = machine(FLAT_MACHINE);
    let lines: Vec<String> =
        (0..MAX_ROUTES as u32 + 50).map(|n| format!("vm:1:1 [0] NCCL INFO Channel 00/0 : {n}[0] -> {}[1] via P2P/CUMEM", n + 1)).collect();
    say(&mut session, 1, &lines);
    let job = session.model.jobs.keys().next().unwrap().clone();
    let routes = session.model.bringup_of(&job).routes;
    assert_eq!((routes.known.len(), routes.others), (MAX_ROUTES, 50));
}

fn topo(root: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    command.args(["--sysroot", &root.display().to_string(), "topo"]).args(args).env("HOME", root).current_dir(root);
    command.stdin(Stdio::null()).output().unwrap()
}

#[test]
fn topo_prints_matrix_legend_and_what_nccl_uses() {
    let dir = tempfile::tempdir().unwrap();
    tree::write(dir.path(), TWO_SOCKETS);
    let mut log = String::new();
    for line in info(&["Channel 00/0 : 0[0] -> 1[1] via SHM/direct/direct", "Channel 00/0 : 2[2] -> 3[3] via P2P/CUMEM"]) {
        writeln!(log, "{line}").unwrap();
    }
    std::fs::write(dir.path().join("train.log"), log).unwrap();
    let out = topo(dir.path(), &["--wait", "3s", "train.log"]);
    let text = String::from_utf8(out.stdout).unwrap();
    assert_eq!(out.status.code(), Some(0), "{text}");
    assert!(!text.contains('\x1b'), "a pipe gets no colours");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let row = |starts: &str| rows.iter().find(|row| row.first() == Some(&starts) && row.contains(&"X")).unwrap_or_else(|| panic!("{text}"));
    assert_eq!(row("GPU0"), &["GPU0", "X", "NODE", "SYS", "SYS", "PIX", "NODE", "NODE", "SYS", "?", "?", "0-55", "0", "N/A"]);
    assert_eq!(row("NIC5"), &["NIC5", "?", "?", "?", "?", "?", "?", "?", "?", "?", "X"]);
    assert!(text.contains("CPU Affinity  NUMA Affinity  GPU NUMA ID") && text.contains("  NIC4: mlx5_10\n"), "{text}");
    assert!(text.contains("PIX  = Connection traversing at most a single PCIe bridge\n"), "{text}");
    assert!(rows.iter().any(|row| row[..] == ["GPU2", ".", ".", "X", "P2P"]), "{text}");
    assert!(rows.iter().any(|row| row[..] == ["GPU0", "X", "SHM", ".", "."]), "{text}");
    let json: Value = serde_json::from_slice(&topo(dir.path(), &["--wait", "3s", "--json", "train.log"]).stdout).unwrap();
    assert_eq!(json["schema"], "nccl-top.topology/1");
    assert_eq!(json["nics"][1]["nearest_gpu"], 1);
    let links = json["links"].as_array().unwrap();
    assert_eq!(links.len(), 10 * 9 / 2);
    assert!(links.iter().any(|l| l["a"] == "GPU3" && l["b"] == "mlx5_3" && l["label"] == "PIX"));
    assert_eq!(json["nccl"][0]["pairs"][1]["verdict"], "matches");
}

#[test]
fn topo_of_a_machine_without_any_says_why() {
    let dir = tempfile::tempdir().unwrap();
    let out = topo(dir.path(), &["--wait", "600ms", "missing.log"]);
    let said = String::from_utf8_lossy(&out.stderr).into_owned();
    assert!(said.contains("missing.log: "), "{said}");
    assert_eq!((out.status.code(), out.stdout.len()), (Some(2), 0), "{said}");
    assert!(said.contains("no GPU and no RDMA device is seen") && said.contains("/sys/class/infiniband"), "{said}");
    tree::write(dir.path(), FLAT_MACHINE);
    let out = topo(dir.path(), &["--wait", "600ms", "missing.log"]);
    assert_eq!(out.status.code(), Some(2), "a log that was named was not read");
    assert!(
        String::from_utf8_lossy(&out.stdout).contains("means nothing") || String::from_utf8_lossy(&out.stdout).contains("mean nothing")
    );
}

#[test]
fn names_of_devices_reach_nobody_as_commands() {
    let mut session = machine(FLAT_MACHINE);
    let mut info = session.model.ports.values().next().unwrap().info.clone();
    info.device = "a\x1b[31m\u{202e}b".into();
    apply(&mut session, "rdma", Body::PortInfo(info));
    let text = topology::text(&session, false);
    assert!(!text.contains('\x1b') && !text.contains('\u{202e}') && text.contains("NIC1"), "{text}");
}

fn drawn(session: &Session, size: (u16, u16), row: usize) -> (Vec<String>, Opened) {
    let theme = Theme::load("dark", Depth::True).unwrap();
    let mut ui = Ui { size, ..Ui::new(Zone::UTC) };
    let pane = view::pane_index("topology");
    ui.zoom = Some(pane);
    ui.lists[pane].index = row;
    let ctx = Ctx { session, ui: &ui, theme: &theme, pane, zoomed: true, focused: true };
    let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    (PANES[pane].draw)(&ctx, *buf.area(), &mut buf);
    let rows =
        buf.content().chunks(usize::from(size.0)).map(|row| row.iter().map(|c| c.symbol()).collect::<String>().trim_end().to_owned());
    (rows.collect(), (PANES[pane].open)(&ctx))
}

#[test]
fn the_pane_marks_cells_and_explains_rows() {
    let mut session = with_nvlink(machine(TWO_SOCKETS));
    let lines = ["Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "Channel 00/0 : 1[1] -> 0[0] via SHM/direct/direct"];
    say(&mut session, 1, &info(&lines));
    let (shown, opened) = drawn(&session, (78, 22), 1);
    let all = shown.join("\n");
    let row = |name: &str| shown.iter().find(|row| row.starts_with(name)).unwrap_or_else(|| panic!("{all}")).clone();
    assert!(row("GPU0").contains("NV18✓") && row("GPU1").contains("NV18▲"), "{all}");
    assert!(all.contains("NCCL uses SHM/direct/direct (1 channel): slower"), "{all}");
    assert!(!all.contains("NUMA 1 ─"), "no room for a drawing");
    let Opened::Text(title, text) = opened else { panic!("{all}") };
    assert_eq!(title, "GPU1");
    assert!(text.starts_with("GPU0: NV18: 18 NVLinks; NCCL uses SHM"), "the worst comes first: {text}");
    let (shown, _) = drawn(&session, (118, 36), 0);
    let all = shown.join("\n");
    assert!(all.contains("NUMA 0 ─") && all.contains("NUMA 1 ─"), "{all}");
    let line = shown.iter().find(|row| row.contains(" 10:01.0 ")).unwrap_or_else(|| panic!("{all}"));
    assert!(line.contains("├ 10:01.0 ┬ GPU0"), "{all}");
    assert!(all.contains("└ NIC0  mlx5_0      PIX"), "{all}");
}

#[test]
fn the_pane_of_a_recording_shows_what_moves() {
    let (shown, _) = drawn(&worlds::hang(), (100, 30), 0);
    let all = shown.join("\n");
    let row = shown.iter().find(|row| row.starts_with("GPU0")).unwrap_or_else(|| panic!("{all}"));
    assert!(row.contains("NV18") && row.contains("GB"), "{all}");
    assert!(all.contains("no log has its channel lines"), "{all}");
    assert!(drawn(&worlds::no_gpu(), (100, 30), 0).0[0].starts_with("no GPU and no RDMA device is seen"));
}

const LISTED: &str = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/IB [2]mlx5_2:1/IB [3]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>";
/// GPU 1 has mlx5_1 near it, and uses mlx5_3 of the other socket.
const FAR: &str = "Channel 02/0 : 1[1] -> 9[1] [send] via NET/IB/3/GDRDMA";

/// What `wrong-rail` finds after these lines.
fn wrong_rail(session: &mut Session, lines: &[&str]) -> Option<Finding> {
    say(session, 1, &info(lines));
    session.ledger.open().iter().find(|found| found.rule == "wrong-rail").map(|found| (*found).clone())
}

#[test]
fn a_far_nic_is_shown_by_the_first_of_its_lines() {
    let mut session = machine(TWO_SOCKETS);
    let info_line = |no: u64, text: &str| Line { text: info(&[text]).remove(0), no: Some(no), ..Line::default() };
    let file = LogFileInfo { file: 7, path: "/tmp/rank.log".into(), state: LogFileState::Open, ..LogFileInfo::default() };
    apply(&mut session, "tail", Body::LogFile(file));
    let near = "Channel 00/0 : 0[0] -> 9[1] [send] via NET/IB/0/GDRDMA";
    let lines = vec![info_line(11, LISTED), info_line(12, near), info_line(14, FAR), info_line(15, &FAR.replace("02/0", "03/0"))];
    apply(&mut session, "tail", Body::Lines(Lines { file: 7, lines, ..Lines::default() }));
    apply(&mut session, "tick", Body::Tick);
    let found = session.ledger.open().iter().find(|found| found.rule == "wrong-rail").map(|found| (*found).clone()).expect("a far NIC");
    assert_eq!((found.gpus.as_slice(), found.ports.as_slice()), ([1].as_slice(), ["mlx5_3/1".to_owned()].as_slice()));
    let evidence = &found.evidence[0];
    assert_eq!((found.evidence.len(), evidence.place().as_str()), (1, "/tmp/rank.log:14"));
    assert!(evidence.text.contains("GPU 1: 2 channel lines via NET/IB/GDRDMA over mlx5_3 (SYS); mlx5_1 is at PXB"), "{}", evidence.text);
    assert!(evidence.text.ends_with(&format!("the first: {FAR}")), "{}", evidence.text);
}

#[test]
fn only_variables_that_choose_nics_excuse_a_far_one() {
    let set = |name: &str, value: &str| format!("{name} set by environment to {value}.");
    for (settings, excused) in [
        (vec![], false),
        (vec![set("NCCL_NET_GDR_LEVEL", "SYS")], false),
        (vec![set("NCCL_NET", "IB")], false),
        (vec![set("NCCL_NET_GDR_READ", "1"), set("NCCL_CROSS_NIC", "1")], false),
        (vec![set("NCCL_CROSS_NIC", "0")], false),
        (vec![set("NCCL_CROSS_NIC", "0"), set("NCCL_PXN_DISABLE", "1")], true),
        (vec![set("NCCL_IB_HCA", "^mlx5_10")], false),
        (vec![set("NCCL_IB_HCA", "=mlx5_0,mlx5_3")], true),
        (vec![set("NCCL_GRAPH_FILE", "/etc/graph.xml")], true),
    ] {
        let mut session = machine(TWO_SOCKETS);
        let lines: Vec<&str> = settings.iter().map(String::as_str).chain([LISTED, FAR]).collect();
        let found = wrong_rail(&mut session, &lines);
        assert_eq!(found.is_none(), excused, "{settings:?}");
    }
}

#[test]
fn a_far_nic_is_right_where_no_near_one_can_be_used() {
    let mut session = machine(TWO_SOCKETS);
    let down = nccl_top::observe::port::PortSample { device: "mlx5_1".into(), port: 1, state: Some("DOWN".into()), ..Default::default() };
    apply(&mut session, "rdma", Body::Ports { ports: vec![down] });
    assert_eq!(wrong_rail(&mut session, &[LISTED, FAR]), None, "the near one is down");
    let listed = "NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_2:1/IB [2]mlx5_3:1/IB [RO]; OOB eth0:10.0.0.1<0>";
    let far = FAR.replace("IB/3", "IB/2");
    assert_eq!(wrong_rail(&mut machine(TWO_SOCKETS), &[listed, &far]), None, "NCCL does not list the near one");
    assert!(wrong_rail(&mut machine(TWO_SOCKETS), &[LISTED, &FAR.replace("IB/3", "IB/3(3)")]).is_none(), "by way of another GPU");
    let flat = FLAT_MACHINE.replace("efa_0", "mlx5_0");
    assert!(
        wrong_rail(&mut machine(&flat), &["NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>", &FAR.replace("IB/3", "IB/0")])
            .is_none()
    );
}

/// The routes of a log, with how many lines they have and where the first stands.
fn routes_of(session: &Session) -> Vec<(Route, u64, Option<u64>)> {
    let job = session.model.jobs.keys().next().expect("a job");
    let routes = session.model.bringup_of(job).routes;
    routes.known.into_iter().map(|(route, seen)| (route, seen.lines, seen.proof.line)).collect()
}

#[test]
fn check_keeps_the_routes_that_the_screen_keeps() {
    for name in ["hang.log", "twohosts.log", "all-subsystems.log"] {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/logs").join(name);
        let report = nccl_top::archive::check(&[path.display().to_string()], Zone::UTC, &mut |_, _| {});
        let mut live = Session::new("", Zone::UTC);
        apply(&mut live, "tail", Body::LogFile(LogFileInfo { file: 1, path: "x.log".into(), ..LogFileInfo::default() }));
        let text = std::fs::read_to_string(&path).unwrap();
        let lines = text.lines().zip(1..).map(|(text, no)| Line { text: text.into(), no: Some(no), ..Line::default() }).collect();
        apply(&mut live, "tail", Body::Lines(Lines { file: 1, lines, ..Lines::default() }));
        let routes = routes_of(&live);
        assert!(!routes.is_empty(), "{name}");
        assert_eq!(routes_of(&report.session), routes, "{name}");
    }
}

/// Four ranks of one communicator come up, and one of them prints rings.
fn four_ranks(session: &mut Session, more: &[&str]) {
    let mut lines = Vec::new();
    for rank in 0..4_u32 {
        let bus = ["1b000", "2b000", "3b000", "4b000"][rank as usize];
        let head = format!("node-17:{}:{} [{rank}] NCCL INFO", 100 + rank, 200 + rank);
        lines.push(format!(
            "{head} ncclCommInitRank comm 0x{rank} rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {bus} commId 0x77 - Init START"
        ));
        lines.extend(more.iter().filter_map(|line| Some(format!("{head} {}", line.strip_prefix(&format!("{rank}: "))?))));
    }
    say(session, 1, &lines);
}

#[test]
fn neighbours_in_rings_and_trees() {
    let mut session = machine(TWO_SOCKETS);
    let lines = [
        "0: Channel 00/02 :    0   1   2   3",
        "0: Channel 01/02 :    0   3   2   1",
        "0: Trees [0] 1/-1/-1->0->-1 [1] 2/-1/-1->0->1",
        "1: Trees [0] 2/3/-1->1->0 [1] 0/3/-1->1->-1",
        "2: Trees [0] -1/-1/-1->2->1 [1] -1/-1/-1->2->0",
        "3: Trees [0] -1/-1/-1->3->1 [1] -1/-1/-1->3->1",
    ];
    four_ranks(&mut session, &lines);
    let used = used(&session);
    assert!(!used.seen, "there is no channel yet");
    let beside = |from, to| used.beside.get(&(from, to)).map_or((0, 0), |beside| (beside.ring, beside.tree));
    assert_eq!([beside(0, 1), beside(1, 0), beside(3, 0), beside(0, 3)], [(1, 2), (1, 2), (1, 0), (1, 0)]);
    assert_eq!([beside(1, 2), beside(1, 3), beside(0, 2), beside(2, 3)], [(1, 1), (0, 2), (0, 1), (1, 0)]);
    let trees: Vec<(Vec<(u32, u32)>, u64)> = used.trees.iter().map(|tree| (tree.edges.iter().copied().collect(), tree.channels)).collect();
    assert_eq!(trees, [(vec![(0, 1), (1, 2), (1, 3)], 1), (vec![(0, 2), (1, 0), (1, 3)], 1)]);
    let text = topology::text(&session, false);
    assert!(text.contains("Tree of ranks on 1 channel, upper first: 0-1 1-2 1-3\n"), "{text}");
    assert!(text.contains("in trees (channels): 0-1 (2)  0-2 (1)  1-2 (1)  1-3 (2)\n"), "{text}");
    assert!(text.contains("in rings, from GPU to GPU (channels): 0>1 (1)  0>3 (1)  1>0 (1)  1>2 (1)"), "{text}");
    let json = topology::json(&session, Zone::UTC);
    let pairs = json["nccl"][0]["pairs"].as_array().unwrap();
    let pair = pairs.iter().find(|p| p["from"] == "GPU1" && p["to"] == "GPU3").unwrap_or_else(|| panic!("{json:#}"));
    assert_eq!((&pair["ring_channels"], &pair["tree_channels"], &pair["verdict"]), (&0.into(), &2.into(), &"not-seen".into()));
    assert_eq!(json["nccl"][0]["trees"][0]["edges"][2], serde_json::json!([1, 3]));
    let (_, opened) = drawn(&session, (118, 36), 0);
    let Opened::Text(_, text) = opened else { panic!() };
    assert!(text.contains("rings: to GPU1 on 1 channel, to GPU3 on 1 channel, from GPU1 on 1 channel, from GPU3 on 1 channel"), "{text}");
    assert!(text.contains("trees: GPU1 on 2 channels, GPU2 on 1 channel"), "{text}");
}

#[test]
fn rings_and_trees_belong_to_their_communicator() {
    let mut session = machine(TWO_SOCKETS);
    four_ranks(&mut session, &["0: Channel 00/01 : 0 1 2 3"]);
    // A second one, of ranks on GPU 2 and 3, which are its ranks 0 and 1.
    let second = |rank: u32| {
        let (gpu, bus) = [(2, "3b000"), (3, "4b000")][rank as usize];
        let head = format!("node-17:{}:{} [{gpu}] NCCL INFO", 102 + rank, 202 + rank);
        [
            format!(
                "{head} ncclCommSplit comm 0x9 rank {rank} nranks 2 cudaDev {gpu} nvmlDev {gpu} busId {bus} parent 0x1 color 5 key 0- Init START"
            ),
            format!("{head} Trees [0] {}", ["1/-1/-1->0->-1", "-1/-1/-1->1->0"][rank as usize]),
        ]
    };
    let lines: Vec<String> = second(0).into_iter().chain(second(1)).collect();
    say(&mut session, 1, &lines);
    let used = used(&session);
    assert_eq!(used.beside[&(2, 3)].tree, 1);
    assert!(!used.beside.contains_key(&(0, 1)) || used.beside[&(0, 1)].tree == 0, "{:?}", used.beside);
    assert_eq!(used.rings[0].ranks, [0, 1, 2, 3], "those of the largest are listed");
}

#[test]
fn a_ring_that_had_no_room_has_no_end() {
    let ring = |line: &str, nranks: u32| {
        let mut session = machine(FLAT_MACHINE);
        let init = format!("ncclCommInitRank comm 0x1 rank 0 nranks {nranks} cudaDev 0 nvmlDev 0 busId 60 commId 0x77 - Init START");
        let lines: Vec<String> = [init.as_str(), line].iter().map(|line| format!("vm:1:1 [0] NCCL INFO {line}")).collect();
        say(&mut session, 1, &lines);
        used(&session).rings.first().map(|ring| (ring.ranks.len(), ring.whole))
    };
    let twenty = (0..20).map(|rank| format!("{rank:4}")).collect::<String>();
    assert_eq!(ring(&format!("Channel 00/02 :{twenty}"), 32), Some((20, false)), "up to 2.22 only 20 ranks are printed");
    assert_eq!(ring(&format!("Channel 00/02 :{twenty}"), 20), Some((20, true)));
    assert_eq!(ring("Channel 00/02 : 0 1 2 3 1...", 64), Some((4, false)), "the last one may be a piece");
    assert_eq!(ring("Channel 00/02 : 0 1 2 9", 4), None, "no rank of it");
    assert_eq!(ring("Channel 00/02 : 0 1 2 2", 4), None);
}

#[test]
fn a_log_of_a_thousand_communicators_is_kept_in_part() {
    let mut session = machine(FLAT_MACHINE);
    let lines: Vec<String> = (0..1000_u32)
        .flat_map(|n| {
            let head = format!("vm:{}:1 [0] NCCL INFO", n + 1);
            let branches: String = (0..64).map(|c| format!(" [{c}] {}/-1/-1->{n}->-1", (n + c) % 2000)).collect();
            [
                format!("{head} ncclCommInitRank comm 0x1 rank {n} nranks 2000 cudaDev 0 nvmlDev 0 busId 60 commId 0x{n:x}1 - Init START"),
                format!("{head} Trees{branches}"),
            ]
        })
        .collect();
    say(&mut session, 1, &lines);
    let graphs = session.model.bringup_of(session.model.jobs.keys().next().unwrap()).routes.graphs;
    assert_eq!(graphs.all().count(), 16);
    assert!(graphs.all().map(|graph| graph.edges().len()).sum::<usize>() <= 16 * 256);
}

/// A GPU with two EFA devices below its switch, and one on the other socket.
const EFA_MACHINE: &str = "
sys/devices/system/node/online = 0-1
proc/sys/kernel/hostname = node-17
sys/bus/pci/devices/0000:53:00.0 -> ../../../devices/pci0000:4c/0000:4c:01.0/0000:4d:00.0/0000:4e:04.0/0000:53:00.0
in sys/devices/pci0000:4c/0000:4c:01.0/0000:4d:00.0/0000:4e:04.0/0000:53:00.0
  vendor = 0x10de
  class = 0x030200
  numa_node = 0
end
for rdmap79s0,4c/0000:4c:01.0/0000:4d:00.0/0000:4e:00.0/0000:4f:00.0,0 rdmap80s0,4c/0000:4c:01.0/0000:4d:00.0/0000:4e:01.0/0000:50:00.0,0 rdmap160s0,90/0000:90:01.0/0000:91:00.0/0000:92:00.0/0000:a0:00.0,1
  sys/class/infiniband/{0} -> ../../devices/pci0000:{1}/infiniband/{0}
  sys/devices/pci0000:{1}/numa_node = {2}
  sys/devices/pci0000:{1}/infiniband/{0}/device -> ../..
  sys/devices/pci0000:{1}/infiniband/{0}/ports/1/state = 4: ACTIVE
end
";

#[test]
fn devices_of_aws_ofi_nccl_have_names_where_it_lists_them() {
    let groups = [
        "NET/OFI Using transport protocol RDMA (platform set)",
        "NET/OFI NIC group 0 device #0 0000:50:00.0",
        "NET/OFI NIC group 0 device #1 0000:4f:00.0",
        "NET/OFI NIC group 1 device #0 0000:a0:00.0",
        "NET/OFI NIC group 2 device #0 0000:dd:00.0",
    ];
    let sends = ["0", "1", "2", "3"].map(|n| format!("Channel 0{n}/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/{n}/GDRDMA"));
    let with = |lines: &[&str]| {
        let mut session = machine(EFA_MACHINE);
        let all: Vec<&str> = lines.iter().copied().chain(sends.iter().map(String::as_str)).collect();
        say(&mut session, 1, &info(&all));
        let nets: Vec<String> = used(&session).nets.into_keys().map(|(_, device)| device).collect();
        (nets, session)
    };
    let (nets, session) = with(&groups);
    assert_eq!(nets, ["AWS Libfabric/2", "AWS Libfabric/3", "rdmap160s0", "rdmap79s0", "rdmap80s0"], "what is not there stays a number");
    assert_eq!((net(&session, 0, "rdmap79s0").1, net(&session, 0, "rdmap160s0").1), (Verdict::Matches, Verdict::Below));
    let far = session.ledger.open().iter().any(|found| found.rule == "wrong-rail" && found.ports == ["rdmap160s0/1"]);
    assert!(far, "the plugin lists near ones: {:?}", session.ledger.open());
    let numbers = ["AWS Libfabric/0", "AWS Libfabric/1", "AWS Libfabric/2", "AWS Libfabric/3"];
    assert_eq!(with(&[]).0, numbers);
    assert_eq!(with(&groups[..2]).0[0], "AWS Libfabric/1", "a group of one is a device");
    assert_eq!(with(&[groups[0], groups[2]]).0, numbers, "a group without its first device is torn");
    let contradicting = [&groups[..], &["NET/OFI NIC group 1 device #0 0000:4f:00.0"]].concat();
    assert!(with(&contradicting).0.contains(&"AWS Libfabric/1".to_owned()), "two lines contradict each other");
    let sendrecv = [&groups[1..], &["NET/OFI Using transport protocol SENDRECV"]].concat();
    assert_eq!(with(&sendrecv).0, numbers, "its numbers are those of libfabric");
}

#[test]
fn the_only_efa_device_is_number_0() {
    let only: String = EFA_MACHINE.replace(" rdmap80s0,4c/0000:4c:01.0/0000:4d:00.0/0000:4e:01.0/0000:50:00.0,0", "");
    let only = only.replace(" rdmap160s0,90/0000:90:01.0/0000:91:00.0/0000:92:00.0/0000:a0:00.0,1", "");
    let only = only.replace("for rdmap79s0,", "sys/module/efa/version = 2.17\nfor rdmap79s0,");
    let lines = [
        "NET/OFI Using transport protocol SENDRECV (platform set)",
        "NET/OFI Selected provider is efa, fabric is efa (found 1 nics)",
        "Channel 00/0 : 0[0] -> 8[0] [send] via NET/AWS Libfabric/0/GDRDMA",
    ];
    let mut session = machine(&only);
    for port in session.model.ports.values_mut() {
        port.info.kind = nccl_top::observe::port::PortKind::Efa;
    }
    say(&mut session, 1, &info(&lines));
    assert!(used(&session).nets.contains_key(&(0, "rdmap79s0".into())), "{:?}", used(&session).nets);
}

/// A machine of tests/fixtures/hosts.
fn host(name: &str) -> Session {
    let dir = tree::unpack_host(name);
    let roots = || Roots::below(dir.path());
    let mut session = Session::new("node-17", Zone::UTC);
    let mut seen: Vec<Body> = gpus_from_pci(&roots()).into_iter().map(Body::GpuInfo).collect();
    Rdma::new(roots(), Duration::from_secs(1)).poll(&mut seen).unwrap();
    seen.into_iter().for_each(|body| apply(&mut session, "rdma", body));
    session
}

#[test]
fn nics_are_seen_on_a_small_screen_and_drawn_on_a_middling_one() {
    let session = host("p5");
    // What a terminal of 80x24 leaves to a pane.
    let (shown, _) = drawn(&session, (78, 14), 0);
    let all = shown.join("\n");
    let row = |name: &str| shown.iter().find(|row| row.starts_with(name)).unwrap_or_else(|| panic!("{name}: {all}")).clone();
    assert_eq!(row("NIC0-3").split_whitespace().take(4).collect::<Vec<_>>(), ["NIC0-3", "PIX", "NODE", "NODE"], "{all}");
    assert!(shown[0].starts_with("1-12/16"), "{all}");
    let (shown, opened) = drawn(&session, (78, 14), 15);
    assert!(shown.iter().any(|row| row.starts_with("NIC28-31")), "{}", shown.join("\n"));
    let Opened::Text(title, text) = opened else { panic!() };
    assert_eq!(title, "NIC28-31 rdmap198s0…201s0 4×");
    assert!(text.contains("GPU7: PIX: one PCIe switch") && text.contains("\nrdmap200s0: "), "{text}");
    // A terminal of 120x40 leaves 30 rows: the whole matrix and the whole drawing.
    let (shown, _) = drawn(&session, (118, 30), 0);
    let all = shown.join("\n");
    assert!(shown.iter().any(|row| row.starts_with("NIC28-31")), "{all}");
    for text in ["├ 4c:01.0 ┬ GPU0", "│         └ rdmap79s0…82s0 4×   PIX", "NUMA 1 ─", "└ c3:01.0 ┬ GPU7", "└ rdmap198s0…201s0 4× PIX"]
    {
        assert!(all.contains(text), "{text}: {all}");
    }
    let (shown, _) = drawn(&session, (218, 50), 0);
    assert!(shown[0].contains("NIC8-11 NIC12-15 NIC16-19 "), "{}", shown[0]);
    // Few of them are not folded.
    let (shown, _) = drawn(&host("p4d"), (78, 20), 0);
    assert!(shown.iter().any(|row| row.starts_with("NIC1 ")), "{}", shown.join("\n"));
}

#[test]
fn cpus_near_to_gpus_are_known_of_each_machine() {
    for (name, first, last) in [
        ("p4d", "0-23,48-71", "24-47,72-95"),
        ("p5", "0-47,96-143", "48-95,144-191"),
        ("dgx-h100", "0-55,112-167", "56-111,168-223"),
        ("roce-node", "0-47,96-143", "48-95,144-191"),
        ("gb200-tray", "0-71", "72-143"),
        ("dgx-spark", "0-19", "0-19"),
    ] {
        let session = host(name);
        let cpus: Vec<&str> = session.model.gpus.values().filter_map(|gpu| gpu.info.cpus.as_deref()).collect();
        assert_eq!((cpus.first(), cpus.last()), (Some(&first), Some(&last)), "{name}");
    }
}

#[test]
fn demos_of_the_network_show_which_nics_are_near() {
    for (name, device, near) in [("efa", "rdmap79s0", "PIX"), ("roce-rail", "mlx5_0", "PIX")] {
        let demo = nccl_top::recording::demo::DEMOS.iter().find(|demo| demo.name == name).unwrap();
        let mut reader = demo.open().unwrap();
        let mut session = reader.header().session();
        while let Some(seen) = reader.read().unwrap() {
            session.apply(&seen, &mut Vec::new());
        }
        let topology = Topology::of(&session.model);
        assert_eq!(topology.gpu_to_nic(0, device).map(Distance::label).as_deref(), Some(near), "{name}");
        assert!(session.model.gpus[&7].info.cpus.is_some(), "{name}");
        let (_, verdict, why) = net(&session, 0, device);
        assert_eq!(verdict, Verdict::Matches, "{name}: {why}");
    }
}

#[test]
fn a_rule_on_facts_looks_again_when_ports_change() {
    let mut session = machine(TWO_SOCKETS);
    assert!(wrong_rail(&mut session, &[LISTED, FAR]).is_some());
    let port = |state: &str| {
        let port =
            nccl_top::observe::port::PortSample { device: "mlx5_1".into(), port: 1, state: Some(state.into()), ..Default::default() };
        Body::Ports { ports: vec![port] }
    };
    let mut session = machine(TWO_SOCKETS);
    apply(&mut session, "rdma", port("DOWN"));
    assert!(wrong_rail(&mut session, &[LISTED, FAR]).is_none());
    apply(&mut session, "rdma", port("ACTIVE"));
    apply(&mut session, "tick", Body::Tick);
    assert!(session.ledger.open().iter().any(|found| found.rule == "wrong-rail"), "no further line came");
}

#[test]
fn routes_are_put_together_once_until_something_changes() {
    let mut session = machine(TWO_SOCKETS);
    say(&mut session, 1, &info(&[LISTED, FAR]));
    let job = session.model.jobs.keys().next().unwrap().clone();
    let in_use = |session: &Session| session.in_use(&job).cloned().unwrap();
    let first = in_use(&session);
    for _ in 0..10 {
        apply(&mut session, "tick", Body::Tick);
    }
    assert!(Arc::ptr_eq(&first, &in_use(&session)), "nothing has changed");
    say(&mut session, 1, &info(&["Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"]));
    assert!(!Arc::ptr_eq(&first, &in_use(&session)) && in_use(&session).used.pairs.len() == 1);
}

/// What a frame of the pane costs with as many routes as are kept of eight files, and what putting them together costs, which every frame did.
#[test]
#[ignore = "it measures, and judges nothing"]
#[allow(clippy::print_stdout)]
fn what_a_frame_costs() {
    let mut session = host("p5");
    for file in 0..8_u32 {
        let route = |n: u32| match n % 2 {
            0 => format!("Channel 00/0 : {}[{}] -> {}[{}] via P2P/CUMEM", n % 512, n % 8, n % 509, (n + 1) % 8),
            _ => format!("Channel 00/0 : {}[{}] -> {}[{}] [send] via NET/AWS Libfabric/{}/GDRDMA", n % 512, n % 8, n, n % 8, n % 8),
        };
        let lines: Vec<String> = (0..1024).map(|n| route(n + file * 3)).collect();
        say(&mut session, file + 1, &info(&lines.iter().map(String::as_str).collect::<Vec<_>>()));
    }
    let timed = |what: &str, times: u32, work: &mut dyn FnMut()| {
        let begin = std::time::Instant::now();
        (0..times).for_each(|_| work());
        println!("{what}: {:.0} µs", begin.elapsed().as_secs_f64() * 1e6 / f64::from(times));
    };
    timed("a frame of the pane", 50, &mut || drop(drawn(&session, (118, 30), 0)));
    timed("putting routes together", 50, &mut || drop(used(&session)));
    timed("a second without anything new", 50, &mut || apply(&mut session.clone(), "tick", Body::Tick));
}
