//! The checklist of NCCL's bring-up, from lines to rows.

use crate::support::at;
use nccl_top::base::time::Stamp;
use nccl_top::model::Model;
use nccl_top::model::bringup::{Bringup, Layout, MAX_KINDS, MAX_NAMES, MAX_VALUES, Seen};
use nccl_top::model::job::Job;
use nccl_top::model::port::Port;
use nccl_top::observe::log::{Line, LogFileInfo};
use nccl_top::observe::port::{PortInfo, PortKind, PortSample};
use nccl_top::observe::{Body, Observation, SourceId};

fn sees(model: &mut Model, at: Stamp, body: Body) {
    model.apply(&Observation { at, host: None, from: SourceId::of("tail"), body });
}

/// The model after a line every 10 ms of a file that no process is known to write.
fn told<'a>(lines: impl IntoIterator<Item = &'a str>) -> Model {
    let mut model = Model::default();
    sees(&mut model, at(0), Body::LogFile(LogFileInfo { file: 1, path: "/l/x.log".into(), ..Default::default() }));
    for (i, text) in lines.into_iter().enumerate() {
        tell(&mut model, Stamp(i as i64 * 10_000_000), i as u64 + 1, text);
    }
    model
}

fn tell(model: &mut Model, at: Stamp, no: u64, text: &str) {
    model.now = model.now.max(at);
    model.apply_line(at, 1, &Line { no: Some(no), text: text.into(), ..Default::default() }, false, |_, _| {});
}

fn recorded(log: &[u8]) -> Model {
    let text = String::from_utf8_lossy(log);
    told(text.split(['\n', '\r']))
}

fn rows(model: &Model) -> Vec<(&'static str, Seen, String)> {
    let job = model.jobs.get("x.log").cloned().unwrap_or(Job::new("x.log".into(), at(0)));
    model.bringup_of("x.log").items(model, &job).into_iter().map(|i| (i.id, i.state, i.value)).collect()
}

fn row(model: &Model, id: &str) -> (Seen, String) {
    rows(model).into_iter().find(|r| r.0 == id).map(|r| (r.1, r.2)).unwrap()
}

fn port_is_up(model: &mut Model, kind: PortKind) {
    let mut port = Port { info: PortInfo { device: "rdma0".into(), port: 1, kind, ..Default::default() }, ..Default::default() };
    port.apply(at(0), &PortSample { state: Some("ACTIVE".into()), ..Default::default() });
    model.ports.insert(("rdma0".into(), 1), port);
}

#[test]
fn a_recorded_start_is_told_with_its_lines() {
    let mut model = recorded(include_bytes!("../fixtures/logs/hang.log"));
    let said = rows(&model);
    let took = said[5].2.strip_prefix("8 of 8 ranks in ").unwrap().to_owned();
    assert_eq!(
        said,
        [
            ("nccl-version", Seen::Pass, "2.28.9+cuda13.0".to_owned()),
            ("net-plugin", Seen::Pass, "none found".into()),
            ("network", Seen::Pass, "Socket".into()),
            ("socket-ifname", Seen::Pass, "eth0".into()),
            ("gpu-paths", Seen::Pass, "16 x P2P/CUMEM".into()),
            ("init-complete", Seen::Pass, format!("8 of 8 ranks in {took}")),
            ("no-warnings", Seen::Pass, "none (INFO only)".into()),
            ("no-errors", Seen::Fail, "7 lines".into()),
            ("env-settings", Seen::Pass, "NCCL_NVLS_ENABLE=0".into()),
            ("ranks-agree", Seen::Pass, "same on all 8 that report it".into()),
        ]
    );
    let b = model.bringup_of("x.log");
    let first = b.networks.first().unwrap();
    assert_eq!((first.lines, first.proof.file), (8, 1));
    assert!(first.proof.text.contains("NCCL INFO Using network Socket") && first.proof.line.is_some());
    assert_eq!(b.env["NCCL_NVLS_ENABLE"].first().map(|s| (s.value.as_str(), s.lines)), Some(("0", 8)));
    assert_eq!(b.ras.first().map(|s| s.value.as_str()), Some("127.0.0.1:28028"));
    assert_eq!((b.layouts.first().unwrap().value, b.channels.first().unwrap().value), (Layout { nranks: 8, nnodes: 1 }, 24));
    port_is_up(&mut model, PortKind::Infiniband);
    assert_eq!(row(&model, "network").0, Seen::Pass, "inside one node the network does not matter");
}

#[test]
fn sockets_between_nodes_are_looked_at_where_something_faster_is_up() {
    let mut model = recorded(include_bytes!("../fixtures/logs/twohosts.log"));
    assert_eq!(row(&model, "network"), (Seen::Warn, "Socket between nodes".into()));
    assert_eq!(row(&model, "gpu-paths"), (Seen::Pass, "28 x P2P/CUMEM, 8 x NET/Socket".into()));
    port_is_up(&mut model, PortKind::Efa);
    assert_eq!(row(&model, "network"), (Seen::Fail, "NCCL uses TCP sockets although rdma0/1 is up".into()));
    assert_eq!(row(&model, "net-plugin"), (Seen::Fail, "none found, and an EFA port is up".into()));
}

#[test]
fn trouble_told_at_level_info_stands_beside_no_warn() {
    let told = "node-04:7120:7188 [0] NCCL INFO PXN Disabled as plugin is v4\n";
    assert_eq!(row(&recorded(told.repeat(2).as_bytes()), "no-warnings"), (Seen::Pass, "none (INFO only)".into()));
    let proof = recorded(told.as_bytes()).bringup_of("x.log").first_noted.expect("the line");
    assert!(proof.text.ends_with("PXN Disabled as plugin is v4"));
    let warned = format!("{told}node-04:7120:7188 [0] NCCL WARN something odd\n");
    assert_eq!(row(&recorded(warned.as_bytes()), "no-warnings"), (Seen::Warn, "1 line".into()));
}

#[test]
fn what_no_line_said_is_not_seen() {
    let mut model = recorded(include_bytes!("../fixtures/logs/ifname.log"));
    assert_eq!(row(&model, "socket-ifname"), (Seen::NotSeen, "NCCL_SOCKET_IFNAME=nope0".into()));
    assert_eq!(row(&model, "no-warnings"), (Seen::Warn, "1 line".into()));
    assert_eq!(row(&model, "network"), (Seen::NotSeen, String::new()));
    assert!(model.bringup_of("x.log").newest_warning.is_some_and(|p| p.text.contains("no socket interface found")));
    model = recorded(include_bytes!("../fixtures/logs/kill.log"));
    assert_eq!(row(&model, "nccl-version"), (Seen::Pass, "2.28.9+cuda13.0".into()));
    assert_eq!(row(&model, "no-warnings").0, Seen::NotSeen, "at this level NCCL would not print one");
    model = Model::default();
    assert!(rows(&model).iter().all(|r| r.1 == Seen::NotSeen && r.2.is_empty()));
    model.ras.nccl_version = Some("2.27.3".into());
    assert_eq!(row(&model, "nccl-version"), (Seen::Pass, "2.27.3 (RAS)".into()));
}

const START: &str =
    "vm:1:9 [0] NCCL INFO ncclCommInitRankConfig comm 0x1 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 60 commId 0xab - Init START";

#[test]
fn init_that_does_not_end_is_looked_at() {
    let other = START.replace("vm:1:9", "vm:2:9").replace("rank 0", "rank 1");
    let mut model = told([START, &other]);
    tell(&mut model, at(1), 3, &START.replace("START", "COMPLETE"));
    model.now = at(20);
    assert_eq!(row(&model, "init-complete"), (Seen::NotSeen, "1 of 2 ranks".into()));
    model.now = at(45);
    assert_eq!(row(&model, "init-complete"), (Seen::Fail, "initialisation finished on 1 of 2 ranks after 45 s: rank 1 began".into()));
    let mut stepping = told([START, &other]);
    tell(&mut stepping, at(40), 4, "step 5 | loss 2.5");
    assert_eq!(row(&stepping, "init-complete"), (Seen::NotSeen, "0 of 2 ranks".into()), "a COMPLETE line was lost");
    tell(&mut model, at(50), 5, &other.replace("START", "COMPLETE"));
    assert_eq!(row(&model, "init-complete"), (Seen::Pass, "2 of 2 ranks in 50.00 s".into()));
    let one_node_of_two = told([START, &START.replace("START", "COMPLETE")]);
    assert_eq!(row(&one_node_of_two, "init-complete"), (Seen::Pass, "1 of 2 ranks in 10.0 ms, all that are logged here".into()));
}

#[test]
fn ranks_that_differ_are_looked_at() {
    let network = |name: &str| format!("vm:1:9 [0] NCCL INFO Using network {name}");
    let model = told([network("IB"), network("IB"), network("Socket")].iter().map(String::as_str));
    assert_eq!(row(&model, "network"), (Seen::Warn, "IB (2 lines), Socket (1 line)".into()));
    let names: Vec<String> = (0..20).map(|i| network(&format!("Net{i}"))).collect();
    let b = told(names.iter().map(String::as_str)).bringup_of("x.log");
    assert_eq!((b.networks.said.len(), b.networks.others), (MAX_VALUES, 12));
}

#[test]
fn paths_are_counted_without_their_devices() {
    for (line, folded) in [
        ("NET/AWS Libfabric/3/GDRDMA", "NET/AWS Libfabric/GDRDMA"),
        ("NET/IB/0(1)/GDRDMA/Shared", "NET/IB/GDRDMA/Shared"),
        ("SHM/direct/direct", "SHM/direct/direct"),
        ("P2P/indirect/3[1a0]", "P2P/indirect"),
        ("P2P/CUMEM/read", "P2P/CUMEM/read"),
    ] {
        let model = told([format!("vm:1:9 [0] NCCL INFO Channel 00/0 : 3[3] -> 4[4] via {line}").as_str()]);
        assert_eq!(model.bringup_of("x.log").paths.keys().collect::<Vec<_>>(), [folded]);
    }
    let net = |way: &str, i: u32| format!("vm:1:9 [0] NCCL INFO Channel 0{i}/0 : 3[3] -> 4[4] {way} via NET/AWS Libfabric/{i}/GDRDMA");
    let lines: Vec<String> = (0..8).flat_map(|i| [net("[send]", i), net("[receive]", i)]).collect();
    let model = told(lines.iter().map(String::as_str));
    assert_eq!(row(&model, "gpu-paths"), (Seen::Pass, "8 x NET/AWS Libfabric/GDRDMA".into()));
    let many: Vec<String> = (0..40).map(|i| net("[send]", 1).replace("Libfabric", &format!("N{i}"))).collect();
    let b = told(many.iter().map(String::as_str)).bringup_of("x.log");
    assert_eq!((b.paths.len(), b.other_paths), (MAX_KINDS, 8));
}

#[test]
fn hostile_lines_fill_no_memory() {
    let set = |i: usize| format!("vm:1:9 [0] NCCL INFO NCCL_V{i} set by environment to {}", "x".repeat(5000));
    let lines: Vec<String> = (0..300).map(set).collect();
    let b = told(lines.iter().map(String::as_str)).bringup_of("x.log");
    assert_eq!(b.env.len(), MAX_NAMES);
    assert!(b.env.values().all(|v| v.said[0].value.chars().count() <= 200 && v.said[0].proof.text.chars().count() <= 300));
}

#[test]
fn a_new_run_begins_anew() {
    let mut model = told(["vm:1:9 [0] NCCL INFO Using network IB", "vm:1:9 [0] x.cc:1 NCCL WARN no"]);
    tell(&mut model, at(9), 3, "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default");
    tell(&mut model, at(9), 4, "the data are loaded");
    assert_eq!(model.bringup_of("x.log"), Bringup::default());
}
