//! Rules on ports: each with its fault, the near miss, how long it must hold, and how it ends.

use nccl_top::base::severity::{Role, Severity};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::causality;
use nccl_top::diagnosis::session::Session;
use nccl_top::observe::facts::{HostFacts, Reading};
use nccl_top::observe::gpu::{Fabric, GpuHealth, GpuInfo, GpuProcess, GpuProcesses, GpuSample};
use nccl_top::observe::host::{CgroupMemory, Node};
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::port::{NetdevSample, PortInfo, PortKind, PortSample};
use nccl_top::observe::process::{LogVia, ProcessGone, ProcessInfo, ProcessLog, ProcessRole};
use nccl_top::observe::{Body, Observation, SourceId, SourceReport, SourceState};
use nccl_top::rules::findings::Finding;
use std::collections::BTreeMap;

const GBIT: u64 = 1_000_000_000;
const GB: u64 = 1_000_000_000;
const PID: u32 = 4000;
const JOB: &str = "3900";

/// A node with ports and interfaces whose counters the test moves, second by second.
struct Net {
    session: Session,
    second: i64,
    ports: BTreeMap<String, (PortInfo, PortSample)>,
    netdevs: BTreeMap<String, NetdevSample>,
    /// GPUs of a job at work; 0: no job.
    gpus: u32,
    works: bool,
}

impl Net {
    fn new() -> Net {
        let mut net = Net {
            session: Session::new("node", Zone::UTC),
            second: 1_000_000,
            ports: BTreeMap::new(),
            netdevs: BTreeMap::new(),
            gpus: 0,
            works: true,
        };
        for source in ["nvml", "procs", "rdma", "netdev"] {
            net.sees(source, Body::Source(SourceReport { state: SourceState::Ok, detail: None, title: None }));
        }
        net
    }

    fn of(kind: PortKind, devices: u32, gbits: u64) -> Net {
        let mut net = Net::new();
        for n in 0..devices {
            net.add(&device(kind, n), kind, gbits);
        }
        net
    }

    fn add(&mut self, device: &str, kind: PortKind, gbits: u64) {
        let bytes: &[&str] = match kind {
            PortKind::Efa => &["tx_bytes", "rx_bytes", "tx_pkts", "rx_pkts", "retrans_pkts", "retrans_timeout_events"],
            _ => &["port_xmit_data", "port_rcv_data", "local_ack_timeout_err", "packet_seq_err", "out_of_sequence", "symbol_error"],
        };
        let info = PortInfo {
            device: device.into(),
            port: 1,
            kind,
            model: Some(if kind == PortKind::Efa { "0xefa2".into() } else { "MT4129".into() }),
            sys_image_guid: (kind != PortKind::Efa).then(|| device.to_owned()),
            ..Default::default()
        };
        let sample = PortSample {
            device: device.into(),
            port: 1,
            state: Some("ACTIVE".into()),
            line_rate_bits_per_s: Some(gbits * GBIT),
            // What months have left does not matter.
            counters: bytes.iter().map(|name| ((*name).to_owned(), 7_777)).collect(),
            ..Default::default()
        };
        self.sees("rdma", Body::PortInfo(info.clone()));
        self.ports.insert(device.to_owned(), (info, sample));
    }

    fn netdev(&mut self, name: &str) -> &mut NetdevSample {
        self.netdevs.entry(name.to_owned()).or_insert_with(|| NetdevSample {
            name: name.to_owned(),
            operstate: Some("up".into()),
            carrier: Some(true),
            carrier_changes: Some(40),
            bus_id: Some("0000:05:00.0".into()),
            counters: [("tx_bytes".to_owned(), 5), ("rx_bytes".to_owned(), 5), ("rx_errors".to_owned(), 900)].into(),
            ..Default::default()
        })
    }

    fn job(mut self, world_size: u32) -> Net {
        self.gpus = 8;
        for rank in 0..8 {
            let env = [("RANK", rank), ("WORLD_SIZE", world_size), ("LOCAL_WORLD_SIZE", 8), ("NCCL_IB_TIMEOUT", 18)];
            self.sees("nvml", Body::GpuInfo(GpuInfo { index: rank, ..Default::default() }));
            self.sees(
                "procs",
                Body::Process(ProcessInfo {
                    pid: PID + rank,
                    ppid: 3900,
                    start_ticks: 10,
                    role: ProcessRole::Rank,
                    comm: "python3".into(),
                    env: Some(env.iter().map(|(k, v)| ((*k).to_owned(), v.to_string())).collect()),
                    logs: vec![ProcessLog { path: "/l/1".into(), inode: Some(1), device: Some(1), via: LogVia::Stdout }],
                    ..Default::default()
                }),
            );
            let processes = vec![GpuProcess { pid: PID + rank, mem_bytes: Some(1 << 30) }];
            self.sees("nvml", Body::GpuProcesses { gpus: vec![GpuProcesses { index: rank, processes }] });
        }
        self.sees(
            "tail",
            Body::LogFile(LogFileInfo { file: 1, path: "/l/1".into(), inode: Some(1), device: Some(1), ..Default::default() }),
        );
        self
    }

    fn says(&mut self, text: &str) {
        self.sees(
            "tail",
            Body::Lines(Lines { file: 1, lines: vec![Line { text: text.into(), ..Default::default() }], ..Default::default() }),
        );
    }

    fn sees(&mut self, from: &'static str, body: Body) {
        let at = Stamp(self.second * 1_000_000_000);
        self.session.apply(&Observation { at, host: None, from: SourceId::of(from), body }, &mut Vec::new());
    }

    fn state(&mut self, device: &str, state: &str) {
        self.ports.get_mut(device).expect("a port").1.state = Some(state.into());
    }

    fn grow(&mut self, device: &str, counter: &str, by: u64) {
        let counters = match self.ports.get_mut(device) {
            Some((_, sample)) => &mut sample.counters,
            None => &mut self.netdev(device).counters,
        };
        *counters.entry(counter.to_owned()).or_insert(0) += by;
    }

    /// So many bytes a second over a port, each way.
    fn carries(&mut self, device: &str, bytes: u64) {
        let is_efa = self.ports[device].0.kind == PortKind::Efa;
        for (plain, words) in [("tx_bytes", "port_xmit_data"), ("rx_bytes", "port_rcv_data")] {
            if is_efa { self.grow(device, plain, bytes) } else { self.grow(device, words, bytes / 4) }
        }
        if is_efa {
            self.grow(device, "tx_pkts", bytes / 8800);
        }
    }

    fn all(&self) -> Vec<String> {
        self.ports.keys().cloned().collect()
    }

    /// Seconds, before each of which `change` moves counters.
    fn runs(&mut self, seconds: u32, mut change: impl FnMut(&mut Net, u32)) {
        for s in 0..seconds {
            change(self, s);
            self.second += 1;
            self.sees("rdma", Body::Ports { ports: self.ports.values().map(|(_, sample)| sample.clone()).collect() });
            self.sees("netdev", Body::Netdevs { netdevs: self.netdevs.values().cloned().collect() });
            let busy = if self.works { 40 } else { 0 };
            let of = |index| GpuSample { index, util_pct: Some(98), mem_util_pct: Some(busy), ..Default::default() };
            self.sees("nvml", Body::Gpus { gpus: (0..self.gpus).map(of).collect() });
            self.sees("feed", Body::Tick);
        }
    }

    fn found(&self) -> Vec<Finding> {
        self.session.ledger.open().into_iter().filter(|f| f.rule != "source-trouble").cloned().collect()
    }

    /// Rule, subject, severity and job of all that is open.
    fn lines(&self) -> Vec<String> {
        let one = |f: &Finding| format!("{} [{}] {} {}", f.rule, f.subject, f.severity.as_str(), f.job.as_deref().unwrap_or("-"));
        self.found().iter().map(one).collect()
    }

    fn only(&self) -> Finding {
        assert_eq!(self.found().len(), 1, "{:?}", self.lines());
        self.found().remove(0)
    }
}

fn device(kind: PortKind, n: u32) -> String {
    if kind == PortKind::Efa { format!("rdmap{n}s0") } else { format!("mlx5_{n}") }
}

/// Traffic of a ring: the same over all.
fn ring(net: &mut Net, bytes: u64) {
    for device in net.all() {
        net.carries(&device, bytes);
    }
}

fn proof(found: &Finding) -> String {
    found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join("; ")
}

#[test]
fn a_port_that_is_down_counts_down_to_the_end_of_the_job() {
    let mut net = Net::of(PortKind::Infiniband, 8, 400).job(16);
    net.runs(40, |net, _| ring(net, 5 * GB));
    assert_eq!(net.lines(), [""; 0]);
    net.state("mlx5_3", "DOWN");
    net.works = false;
    net.runs(4, |_, _| ());
    let found = net.only();
    assert_eq!(net.lines(), [format!("nic-down [mlx5_3/1] error {JOB}")]);
    assert_eq!(found.why, "down for 3 s; NCCL gives up in 4 s, 7 s after it went down (4.096 µs x 2^18 x 7 retries)");
    assert_eq!(found.ports, ["mlx5_3/1"]);
    net.runs(10, |_, _| ());
    assert!(net.only().why.contains("NCCL gave up 7 s after it went down"), "{}", net.only().why);
    net.says("node:4003:1 [3] transport/net_ib.cc:1339 NCCL WARN NET/IB : Got completion from peer 10.0.0.7<4> with error 12, opcode 1, len 0, vendor err 129");
    net.state("mlx5_3", "ACTIVE");
    net.runs(20, |_, _| ());
    let found = net.found();
    assert_eq!((found[0].rule, found[0].role.as_str()), ("nic-down", "root"), "it stays, because it ended the job: {:?}", net.lines());
    assert!(found[0].why.starts_with("up again, but NCCL gave up 7 s after it went down"), "{}", found[0].why);
    let follows = found.iter().find(|f| f.signature == Some("ib-retry-exceeded")).expect("what NCCL reports");
    assert_eq!(follows.role.as_str(), "cascade");
}

#[test]
fn a_job_that_goes_on_did_not_need_the_port_and_an_efa_has_no_deadline() {
    let mut net = Net::of(PortKind::Infiniband, 8, 400).job(16);
    net.runs(40, |net, _| ring(net, 5 * GB));
    net.state("mlx5_3", "DOWN");
    net.runs(70, |_, _| ());
    assert_eq!(net.lines(), [format!("nic-down [mlx5_3/1] warning {JOB}")]);
    net.state("mlx5_3", "ACTIVE");
    net.runs(5, |_, _| ());
    assert_eq!(net.lines(), [""; 0]);
    // A port over which nothing went is none of the job's.
    let mut net = Net::of(PortKind::Infiniband, 8, 400).job(16);
    net.runs(40, |_, _| ());
    net.state("mlx5_3", "DOWN");
    net.runs(4, |_, _| ());
    assert_eq!((net.lines(), net.only().why.as_str()), (vec!["nic-down [mlx5_3/1] error -".to_owned()], "down for 3 s"));
    net.state("mlx5_3", "ACTIVE");
    net.runs(9, |_, _| ());
    net.state("mlx5_3", "DOWN");
    net.runs(4, |_, _| ());
    assert!(net.found().iter().any(|f| f.why == "down for 3 s; it was down once before, 4 s in all"), "{:?}", net.found());
}

#[test]
fn a_port_and_the_interface_over_it_are_one_unless_only_the_interface_is_down() {
    let mut net = Net::of(PortKind::Infiniband, 2, 400);
    net.netdev("ib0");
    net.ports.get_mut("mlx5_1").unwrap().0.netdev = Some("ib0".into());
    let info = net.ports["mlx5_1"].0.clone();
    net.sees("rdma", Body::PortInfo(info));
    net.runs(5, |_, _| ());
    net.netdev("ib0").operstate = Some("down".into());
    net.runs(4, |_, _| ());
    assert_eq!(net.lines(), ["nic-down [ib0] error -"]);
    net.state("mlx5_1", "DOWN");
    net.runs(8, |_, _| ());
    assert_eq!(net.lines(), ["nic-down [mlx5_1/1] error -"]);
}

#[test]
fn flaps_between_two_polls_are_counted() {
    let mut net = Net::of(PortKind::Roce, 4, 400);
    net.netdev("ens1np0");
    net.ports.get_mut("mlx5_1").unwrap().0.netdev = Some("ens1np0".into());
    let info = net.ports["mlx5_1"].0.clone();
    net.sees("rdma", Body::PortInfo(info));
    net.runs(10, |_, _| ());
    let flap = |net: &mut Net| *net.netdev("ens1np0").carrier_changes.as_mut().unwrap() += 2;
    flap(&mut net);
    net.runs(10, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "once may be anybody's work");
    flap(&mut net);
    flap(&mut net);
    // What a link counts while it comes up again is no trouble of its own.
    net.runs(1, |net, _| net.grow("mlx5_1", "symbol_error", 40));
    net.runs(3, |net, _| net.grow("mlx5_1", "symbol_error", 4));
    assert_eq!(net.lines(), ["nic-flapping [mlx5_1/1] error -"]);
    assert_eq!(net.only().summary, "roce mlx5_1/1 went down 3 times within 10 m 00 s");
    assert!(proof(&net.only()).starts_with("carrier_changes 40 -> 46 in "), "{}", proof(&net.only()));
    net.runs(600, |_, _| ());
    assert_eq!(net.lines().len(), 1, "{:?}", net.lines());
    net.runs(150, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "it is over");
}

#[test]
fn errors_count_where_they_go_on() {
    let mut net = Net::of(PortKind::Infiniband, 4, 400);
    net.grow("mlx5_2", "excessive_buffer_overrun_errors", 15);
    net.runs(30, |net, s| net.grow("mlx5_2", "symbol_error", if s == 9 { 300 } else { 0 }));
    assert_eq!(net.lines(), [""; 0], "one burst");
    net.runs(120, |net, s| net.grow("mlx5_2", "symbol_error", u64::from(s.is_multiple_of(30))));
    assert_eq!(net.lines(), [""; 0], "two a minute");
    net.runs(40, |net, _| net.grow("mlx5_2", "symbol_error", 20));
    assert_eq!(net.lines(), ["nic-errors [mlx5_2/1] warning -"]);
    let found = net.only();
    assert!(found.summary.starts_with("infiniband mlx5_2/1 counts errors: "), "{}", found.summary);
    assert!(found.why.ends_with("1 counter at the greatest value and cannot show more: excessive_buffer_overrun_errors"), "{}", found.why);
    assert!(proof(&found).starts_with("symbol_error ") && proof(&found).contains(" -> "), "{}", proof(&found));
    assert_eq!(found.evidence[0].path.as_deref(), Some("/sys/class/infiniband/mlx5_2/ports/1"));
    net.runs(130, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "it is over");
    net.runs(60, |net, _| net.grow("eth0", "ethtool/rx_discards_phy", 5));
    assert_eq!(net.lines(), [""; 0], "TCP bears some");
    net.runs(60, |net, _| net.grow("eth0", "rx_crc_errors", 5));
    assert_eq!(net.lines(), ["nic-errors [eth0] warning -"]);
}

#[test]
fn retransmissions_of_one_efa_are_its_own_and_those_of_all_the_fabrics() {
    let mut net = Net::of(PortKind::Efa, 8, 100).job(16);
    net.runs(90, |net, s| {
        ring(net, 6 * GB);
        // One a minute on each, and a burst of a moment on one.
        ring_grow(net, "retrans_pkts", u64::from(s.is_multiple_of(60)));
        net.grow("rdmap5s0", "retrans_pkts", if s == 40 { 4000 } else { 0 });
    });
    assert_eq!(net.lines(), [""; 0]);
    net.runs(25, |net, _| {
        ring(net, 6 * GB);
        net.grow("rdmap5s0", "retrans_pkts", 700);
    });
    assert_eq!(net.lines(), [format!("fabric-retransmits [rdmap5s0/1] warning {JOB}")]);
    assert_eq!(net.only().ports, ["rdmap5s0/1"]);
    assert!(net.only().why.contains("% of the packets sent"), "{}", net.only().why);
    net.runs(110, |net, _| ring(net, 6 * GB));
    assert_eq!(net.lines(), [""; 0], "it is over");
    net.runs(30, |net, _| {
        ring(net, 6 * GB);
        ring_grow(net, "retrans_pkts", 700);
    });
    assert_eq!(net.lines(), [format!("fabric-retransmits [all ports] warning {JOB}")]);
    assert_eq!(net.only().summary, "8 of 8 ports retransmit: the fabric or a peer is dropping packets");
    assert_eq!(net.only().ports.len(), 8);
}

fn ring_grow(net: &mut Net, counter: &str, by: u64) {
    for device in net.all() {
        net.grow(&device, counter, by);
    }
}

#[test]
fn packets_out_of_order_are_no_loss_timeouts_are() {
    let mut net = Net::of(PortKind::Roce, 4, 400);
    net.runs(60, |net, _| net.grow("mlx5_0", "out_of_sequence", 100_000));
    assert_eq!(net.lines(), [""; 0], "adaptive routing");
    net.runs(60, |net, s| net.grow("mlx5_0", "local_ack_timeout_err", u64::from(s.is_multiple_of(30))));
    assert_eq!(net.lines(), [""; 0], "two a minute");
    net.runs(30, |net, _| net.grow("mlx5_0", "local_ack_timeout_err", 1));
    assert_eq!(net.lines(), ["fabric-retransmits [mlx5_0/1] warning -"]);
    assert!(net.only().why.contains("packets are lost, not only late"), "{}", net.only().why);
}

#[test]
fn a_counter_of_32_bits_that_wraps_is_no_fault() {
    let mut net = Net::of(PortKind::Roce, 4, 400);
    let set = |net: &mut Net, value: u64| _ = net.ports.get_mut("mlx5_0").unwrap().1.counters.insert("packet_seq_err".into(), value);
    set(&mut net, u64::from(u32::MAX));
    net.runs(30, |_, _| ());
    set(&mut net, 3);
    net.runs(30, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "four more, at once");
    set(&mut net, 4_000_000_000);
    net.runs(5, |_, _| ());
    set(&mut net, 2_000_000_000);
    net.runs(60, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "it began anew");
}

#[test]
fn congestion_is_a_high_rate_for_long() {
    let mut net = Net::of(PortKind::Roce, 4, 400);
    net.runs(60, |net, _| net.grow("mlx5_0", "rp_cnp_handled", 150));
    assert_eq!(net.lines(), [""; 0], "some are usual");
    net.runs(40, |net, _| net.grow("mlx5_0", "rp_cnp_handled", 9000));
    assert_eq!(net.lines(), ["congestion [mlx5_0/1] warning -"]);
    assert_eq!(net.only().why, "it sends slower because the network reports congestion on the way");
    net.runs(100, |_, _| ());
    assert_eq!(net.lines(), [""; 0]);
    net.runs(60, |net, _| net.grow("eth2", "ethtool/tx_prio3_pause", 5000));
    assert_eq!(net.lines(), ["congestion [eth2] warning -"]);
    assert_eq!(net.only().why, "it pauses the switch: this host takes in data too slowly");
    assert!(proof(&net.only()).starts_with("ethtool -S eth2: tx_prio3_pause "), "{}", proof(&net.only()));
}

#[test]
fn what_holds_up_most_ports_is_one_finding() {
    let mut net = Net::of(PortKind::Roce, 4, 400);
    net.runs(40, |net, _| (0..3).for_each(|no| net.grow(&format!("mlx5_{no}"), "np_cnp_sent", 9000)));
    assert_eq!(net.lines(), ["congestion [all ports] warning -"]);
    let found = net.only();
    assert_eq!(found.ports, ["mlx5_0/1", "mlx5_1/1", "mlx5_2/1"]);
    assert!(found.summary.starts_with("3 of 4 ports are congested: ") && found.evidence.len() == 3, "{}", found.summary);
}

#[test]
fn peers_that_do_not_answer_are_told_while_the_job_runs() {
    let fault = |net: &mut Net, s: u32| net.grow("rdmap1s0", "unresponsive_remote_events", u64::from(s.is_multiple_of(4)));
    let mut net = Net::of(PortKind::Efa, 4, 100).job(16);
    net.runs(40, |net, _| net.grow("rdmap1s0", "unresponsive_remote_events", 0));
    net.runs(30, fault);
    assert_eq!(net.lines(), [format!("congestion [rdmap1s0/1] warning {JOB}")]);
    // The ranks of a job do not end all in one moment.
    let mut net = Net::of(PortKind::Efa, 4, 100).job(16);
    net.runs(40, |net, _| net.grow("rdmap1s0", "unresponsive_remote_events", 0));
    for rank in 0..8 {
        net.sees("procs", Body::ProcessGone(ProcessGone { pid: PID + rank, start_ticks: 10, exit_code: Some(0) }));
    }
    net.gpus = 0;
    net.runs(30, fault);
    assert!(net.lines().iter().all(|l| !l.starts_with("congestion")), "{:?}", net.lines());
}

#[test]
fn a_rail_that_lags_is_named() {
    let mut net = Net::of(PortKind::Infiniband, 8, 400).job(16);
    let half = |net: &mut Net, _| {
        for device in net.all() {
            net.carries(&device, if device == "mlx5_5" { 11 * GB } else { 22 * GB });
        }
    };
    net.runs(60, |net, _| ring(net, 22 * GB));
    net.runs(25, half);
    assert_eq!(net.lines(), [""; 0], "not before all of the time shows it");
    net.runs(15, half);
    assert_eq!(net.lines(), [format!("rail-imbalance [mlx5_5/1] warning {JOB}")]);
    assert_eq!(net.only().summary, "rail mlx5_5/1 sends 50 % of what its 7 siblings do");
    assert!(proof(&net.only()).starts_with("port_xmit_data: 88.0Gb/s over the last 10 s"), "{}", proof(&net.only()));
    net.runs(60, |net, _| ring(net, 22 * GB));
    assert_eq!(net.lines(), [""; 0], "it is over");
    // It falls silent: a rail it was.
    net.runs(40, |net, _| {
        for device in net.all().into_iter().filter(|d| d != "mlx5_5") {
            net.carries(&device, 22 * GB);
        }
    });
    assert_eq!(net.lines(), [format!("rail-imbalance [mlx5_5/1] warning {JOB}")]);
}

#[test]
fn what_is_no_rail_does_not_lag() {
    type Traffic = fn(&mut Net, u32);
    let cases: [(&str, Traffic); 8] = [
        ("storage alone on one port", |net, _| net.carries("mlx5_5", 20 * GB)),
        ("a ring, and storage besides", |net, _| {
            ring(net, 9 * GB);
            net.carries("mlx5_5", 12 * GB);
        }),
        ("one port by design", |net, _| net.carries("mlx5_0", 20 * GB)),
        ("half of them by design", |net, _| (0..4).for_each(|n| net.carries(&device(PortKind::Infiniband, n), 20 * GB))),
        ("seven by design", |net, _| (0..7).for_each(|n| net.carries(&device(PortKind::Infiniband, n), 20 * GB))),
        ("reads from storage on a port that is no rail", |net, _| {
            (0..7).for_each(|n| net.carries(&device(PortKind::Infiniband, n), 20 * GB));
            net.grow("mlx5_7", "port_rcv_data", 2 * GB / 4);
        }),
        ("bursts of uneven size", |net, s| {
            for (n, device) in net.all().into_iter().enumerate() {
                let turn = (u64::from(s) * 7 + n as u64 * 3) % 8;
                net.carries(&device, turn * turn * GB / 3);
            }
        }),
        ("few bytes", |net, _| {
            for (n, device) in net.all().into_iter().enumerate() {
                net.carries(&device, if n == 5 { 100_000 } else { 1_000_000 });
            }
        }),
    ];
    for (name, traffic) in cases {
        let mut net = Net::of(PortKind::Infiniband, 8, 400).job(16);
        net.runs(200, traffic);
        assert_eq!(net.lines(), [""; 0], "{name}");
    }
}

#[test]
fn a_rate_that_fell_is_certain_and_one_card_alone_is_likely() {
    let mut net = Net::of(PortKind::Infiniband, 8, 400);
    net.runs(20, |_, _| ());
    net.ports.get_mut("mlx5_6").unwrap().1.line_rate_bits_per_s = Some(200 * GBIT);
    net.runs(5, |_, _| ());
    assert_eq!(net.lines(), [""; 0]);
    net.runs(10, |_, _| ());
    assert_eq!(net.only().summary, "port mlx5_6/1 runs at 200Gb/s instead of 400Gb/s");
    assert_eq!((net.only().why.as_str(), net.only().rule), ("it had more before", "port-below-line-rate"));
    net.ports.get_mut("mlx5_6").unwrap().1.line_rate_bits_per_s = Some(400 * GBIT);
    net.runs(40, |_, _| ());
    assert_eq!(net.lines(), [""; 0]);
    let slow = |ports: u32, slow: u32| {
        let mut net = Net::of(PortKind::Infiniband, ports, 400);
        (0..slow).for_each(|n| net.ports.get_mut(&device(PortKind::Infiniband, n)).unwrap().1.line_rate_bits_per_s = Some(200 * GBIT));
        net.runs(30, |_, _| ());
        net.lines()
    };
    assert_eq!(slow(8, 1), ["port-below-line-rate [mlx5_0/1] warning -"]);
    assert_eq!(slow(9, 1), [""; 0], "the ninth is for storage");
    assert_eq!(slow(8, 2), [""; 0]);
    assert_eq!(slow(2, 1), [""; 0]);
}

#[test]
fn devices_that_the_machine_should_have() {
    let on = |product: &str, container: Option<&str>, devices: u32, kind| {
        let mut net = Net::of(kind, devices, 100);
        let container = container.map(str::to_owned);
        net.sees("host", Body::Node(Node { product: Some(product.into()), container, ..Default::default() }));
        net.runs(30, |_, _| ());
        net.lines()
    };
    assert_eq!(on("p5.48xlarge", None, 32, PortKind::Efa), [""; 0]);
    assert_eq!(on("p5.48xlarge", None, 31, PortKind::Efa), ["missing-nic [devices] warning -"]);
    assert_eq!(on("p5.48xlarge", Some("kubernetes"), 4, PortKind::Efa), [""; 0], "it sees fewer by design");
    assert_eq!(on("p5.48xlarge", None, 0, PortKind::Efa), [""; 0], "nobody wants them");
    assert_eq!(on("p5.24xlarge", None, 1, PortKind::Efa), [""; 0], "not known");
    assert_eq!(on("DGXH100", None, 7, PortKind::Infiniband), ["missing-nic [devices] warning -"]);
    assert_eq!(on("DGXH100", None, 10, PortKind::Infiniband), [""; 0], "and two for storage");
    // A device goes away while it is watched.
    let mut net = Net::of(PortKind::Efa, 4, 100);
    net.runs(20, |_, _| ());
    let sample = &mut net.ports.get_mut("rdmap2s0").unwrap().1;
    *sample = PortSample {
        device: "rdmap2s0".into(),
        port: 1,
        unreadable: [("state".to_owned(), "gone".to_owned())].into(),
        ..Default::default()
    };
    net.runs(15, |_, _| ());
    assert_eq!(net.lines(), ["missing-nic [rdmap2s0/1] error -"]);
    // Seven of eight GPUs.
    let mut net = Net::of(PortKind::Efa, 32, 100);
    net.sees("host", Body::Node(Node { product: Some("p5.48xlarge".into()), ..Default::default() }));
    (0..7).for_each(|index| net.sees("nvml", Body::GpuInfo(GpuInfo { index, ..Default::default() })));
    net.runs(30, |_, _| ());
    assert_eq!(net.only().summary, "only 7 of 8 GPUs found: p5.48xlarge has 8");
    let cgroups = vec![CgroupMemory { cgroup: "/system.slice/slurmstepd.scope/job_7/step_0".into(), ..Default::default() }];
    net.sees("host", Body::Cgroups { cgroups });
    net.runs(40, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "those of its own job are all that it may see");
}

#[test]
fn sockets_in_place_of_rdma_show_in_the_counters() {
    let tcp = |net: &mut Net, out: u64, into: u64| {
        net.grow("eth0", "tx_bytes", out);
        net.grow("eth0", "rx_bytes", into);
    };
    let mut net = Net::of(PortKind::Efa, 4, 100).job(16);
    net.runs(62, |net, _| tcp(net, 2 * GB, 2 * GB));
    net.runs(8, |net, _| tcp(net, 2 * GB, 2 * GB));
    assert_eq!(net.lines(), [format!("fallback-to-sockets [network] warning {JOB}")]);
    assert_eq!(net.only().summary, "collectives go over TCP (eth0) while 4 RDMA ports carry nothing");
    for (name, world, works, traffic) in [
        ("a checkpoint over NFS", 16, true, (3 * GB, GB / 50, 0)),
        ("data is read", 16, true, (GB / 50, 3 * GB, 0)),
        ("RDMA carries it", 16, true, (GB, GB, 5 * GB)),
        ("one node", 8, true, (2 * GB, 2 * GB, 0)),
        ("the ranks wait", 16, false, (2 * GB, 2 * GB, 0)),
        ("bootstrap", 16, true, (GB / 1000, GB / 1000, 0)),
    ] {
        let mut net = Net::of(PortKind::Efa, 4, 100).job(world);
        net.works = works;
        net.runs(100, |net, _| {
            tcp(net, traffic.0, traffic.1);
            ring(net, traffic.2);
        });
        assert!(net.lines().iter().all(|l| !l.starts_with("fallback")), "{name}: {:?}", net.lines());
    }
    // What cannot be read may carry all of it.
    let mut net = Net::of(PortKind::Efa, 4, 100).job(16);
    net.ports.values_mut().for_each(|(_, sample)| sample.counters.clear());
    net.runs(100, |net, _| tcp(net, 2 * GB, 2 * GB));
    assert_eq!(net.lines(), [""; 0]);
}

#[test]
fn an_allowance_that_is_exceeded_all_the_time() {
    let mut net = Net::new();
    net.runs(40, |net, s| net.grow("eth0", "ethtool/bw_out_allowance_exceeded", if s == 20 { 5000 } else { 0 }));
    assert_eq!(net.lines(), [""; 0], "a moment");
    net.runs(25, |net, _| net.grow("eth0", "ethtool/bw_out_allowance_exceeded", 80));
    assert_eq!(net.lines(), ["ena-allowance [eth0] warning -"]);
    net.runs(100, |_, _| ());
    assert_eq!(net.lines(), [""; 0]);
}

#[test]
fn a_fabric_that_does_not_come_up_and_one_that_is_ill() {
    let health = |net: &mut Net, state, mask| {
        let of = |index| GpuHealth { index, fabric_state: Some(state), fabric_health: mask, ..Default::default() };
        net.sees("nvml", Body::GpuHealth { gpus: (0..8).map(of).collect() });
    };
    let mut net = Net::new();
    health(&mut net, 1, Some(0));
    net.runs(50, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "it is starting");
    net.runs(20, |_, _| ());
    assert_eq!(net.only().summary, "the NVSwitch fabric has not come up: 8 GPUs are not part of it (not started)");
    health(&mut net, 3, Some(0));
    net.runs(65, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "as H100 and H200 report it");
    health(&mut net, 3, Some(0b01_10_10_01 | 1 << 8));
    net.runs(1, |_, _| ());
    assert_eq!(net.lines().len(), 8);
    assert!(
        net.found()[0]
            .summary
            .ends_with("the NVSwitch fabric reports that bandwidth is degraded, accesses have timed out and are being recovered")
    );
    // CUDA works: whatever the state means, it is not that.
    let mut net = Net::new().job(8);
    health(&mut net, 1, None);
    net.runs(90, |_, _| ());
    assert_eq!(net.lines(), [""; 0]);
}

/// Eight GPUs in a cluster of several hosts, each changed by `change`.
fn in_cluster(net: &mut Net, change: impl Fn(u32, &mut GpuHealth)) {
    let of = |index| {
        let fabric = Fabric { cluster: Some("8f1e00000000a2b3".into()), clique: 1, status: 0, summary: Some(1) };
        let mut health = GpuHealth {
            index,
            fabric_state: Some(3),
            fabric_health: Some(0b10_10_10_10 | 1 << 8),
            fabric: Some(fabric),
            ..Default::default()
        };
        change(index, &mut health);
        health
    };
    net.sees("nvml", Body::GpuHealth { gpus: (0..8).map(of).collect() });
}

fn fabric(health: &mut GpuHealth) -> &mut Fabric {
    health.fabric.as_mut().expect("it is set")
}

#[test]
fn gpus_of_one_host_in_different_cliques() {
    let mut net = Net::new();
    in_cluster(&mut net, |_, _| ());
    net.runs(70, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "all in one");
    in_cluster(&mut net, |index, health| fabric(health).clique += u32::from(index == 5));
    net.runs(2, |_, _| ());
    let found = net.only();
    assert_eq!((found.summary.as_str(), &found.gpus[..]), ("GPU 5 is not in the NVLink clique of the host's other GPUs", &[5][..]));
    in_cluster(&mut net, |index, health| fabric(health).clique += index / 4);
    net.runs(2, |_, _| ());
    assert_eq!(net.only().summary, "GPUs 0, 1, 2, 3, 4, 5, 6 and 7 are in 2 different NVLink cliques");
    // One that has no cluster at all, and one that has not come up, which is another matter.
    in_cluster(&mut net, |index, health| match index {
        2 => fabric(health).cluster = None,
        7 => (health.fabric_state, fabric(health).clique) = (Some(2), 0),
        _ => {}
    });
    net.runs(2, |_, _| ());
    assert_eq!(net.only().summary, "GPU 2 is not in the NVLink clique of the host's other GPUs");
    in_cluster(&mut net, |_, _| ());
    net.runs(65, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "mended");
    // HGX boards have no cluster.
    in_cluster(&mut net, |index, health| (fabric(health).cluster, fabric(health).clique) = (None, index));
    net.runs(5, |_, _| ());
    assert_eq!(net.lines(), [""; 0]);
}

#[test]
fn a_gpu_that_the_fabric_refused_and_one_whose_summary_is_bad() {
    let mut net = Net::new();
    in_cluster(&mut net, |index, health| match index {
        1 => fabric(health).status = 999,
        6 => fabric(health).summary = Some(3),
        _ => {}
    });
    net.runs(1, |_, _| ());
    let summaries: Vec<String> = net.found().into_iter().map(|f| f.summary).collect();
    assert_eq!(
        summaries,
        [
            "GPU 1: the NVSwitch fabric reports that the GPU could not be registered (NVML error 999)",
            "GPU 6: the NVSwitch fabric reports that its capacity is limited"
        ]
    );
}

#[test]
fn imex_is_missing_where_nccl_uses_nvlink_between_hosts_or_could() {
    const USED: &str = "n:4000:4000 [0] NCCL INFO comm 0x1 rank 0 nRanks 16 nNodes 2 localRanks 8 localRank 0 MNNVL 1";
    let unused = USED.replace("MNNVL 1", "MNNVL 0");
    let channels = |net: &mut Net, reading| {
        let looked = [("/dev/nvidia-caps-imex-channels".to_owned(), reading)].into();
        net.sees("host", Body::HostFacts(Box::new(HostFacts { looked, daemons: Some(vec!["nvidia-imex".into()]), ..Default::default() })));
    };
    let there = || Reading::Text("channel0".into());
    let mut net = Net::new().job(16);
    in_cluster(&mut net, |_, _| ());
    channels(&mut net, Reading::Absent);
    net.says("step 7");
    net.runs(2, |_, _| ());
    assert_eq!(net.lines(), [""; 0], "no line says how NCCL goes");
    net.says(USED);
    net.runs(2, |_, _| ());
    assert_eq!(net.only().summary, "NCCL uses NVLink between hosts, and IMEX is not healthy: no channel in /dev/nvidia-caps-imex-channels");
    assert_eq!(net.lines(), [format!("fabric-state [imex] warning {JOB}")]);
    // What cannot be read accuses nobody.
    for reading in [there(), Reading::Unreadable("permission denied".into())] {
        channels(&mut net, reading);
        net.runs(65, |_, _| ());
        assert_eq!(net.lines(), [""; 0]);
    }
    for (name, set, expected) in
        [("NVIDIA GB200", "", 1), ("NVIDIA GB200", "NCCL_MNNVL_ENABLE set by environment to 0.", 0), ("NVIDIA B200", "", 0)]
    {
        let mut net = Net::new().job(16);
        in_cluster(&mut net, |_, _| ());
        for index in 0..8 {
            net.sees("nvml", Body::GpuInfo(GpuInfo { index, name: Some(name.into()), ..Default::default() }));
        }
        channels(&mut net, Reading::Absent);
        net.says(&format!("n:4000:4000 [0] NCCL INFO {set}"));
        net.says(&unused);
        net.runs(2, |_, _| ());
        assert_eq!(net.lines().len(), expected, "{name} {set}: {:?}", net.lines());
    }
}

#[test]
fn a_straggler_follows_from_a_fault_of_the_port_of_its_gpu_alone() {
    let at = |second: i64| Stamp(second * 1_000_000_000);
    // Which rule is the cause, and whether the late rank follows from it.
    let judged = |rule: &'static str, port: &str, began| {
        let mut late = Finding::new("straggler", Severity::Warning, "rank 3", "", at(1000));
        (late.ranks, late.gpus) = (vec![3], vec![3]);
        let mut fault = Finding::new(rule, Severity::Warning, port, "", at(began));
        fault.ports = vec![format!("{port}/1")];
        let near = |fault: &Finding, late: &Finding| late.gpus.iter().any(|gpu| fault.ports == [format!("mlx5_{gpu}/1")]);
        let mut all = [&mut late, &mut fault];
        let cause = causality::assign(&mut all, &|_| false, &near).map(|at| all[at].rule);
        (cause.unwrap(), late.role == Role::Cascade, fault.role == Role::Cascade)
    };
    assert_eq!(judged("nic-errors", "mlx5_3", 990), ("nic-errors", true, false));
    assert_eq!(judged("nic-errors", "mlx5_4", 990), ("straggler", false, false), "the port of another GPU");
    assert_eq!(judged("nic-errors", "mlx5_3", 900), ("straggler", false, false), "long before");
    assert_eq!(judged("nic-errors", "mlx5_3", 1030), ("straggler", false, false), "afterwards");
    // Traffic follows the steps.
    assert_eq!(judged("rail-imbalance", "mlx5_3", 1010), ("rail-imbalance", true, false), "no later than either is known to");
    assert_eq!(judged("rail-imbalance", "mlx5_4", 1030), ("straggler", false, true));
    assert_eq!(judged("rail-imbalance", "mlx5_4", 1300), ("straggler", false, false), "another matter");
    assert_eq!(judged("nvlink-errors", "mlx5_3", 1000).0, "straggler", "no fault of the network");
}

#[test]
fn healthy_hours_have_nothing_to_report() {
    let mut net = Net::of(PortKind::Roce, 8, 400).job(16);
    for n in ["excessive_buffer_overrun_errors", "local_link_integrity_errors"] {
        ring_grow(&mut net, n, 15);
    }
    net.runs(3000, |net, s| {
        // Steps with pauses, a checkpoint now and then, NFS, an evaluation, probes.
        if s % 600 < 540 {
            ring(net, if s % 3 == 0 { 2 } else { 12 } * GB + u64::from(s * 7919 % 1000) * 1_000_000);
        }
        net.grow("eth0", "tx_bytes", if s % 600 > 540 { 2 * GB } else { 90_000 });
        net.grow("eth0", "rx_bytes", if s % 90 < 20 { GB } else { 40_000 });
        ring_grow(net, "out_of_sequence", 3000);
        ring_grow(net, "rp_cnp_handled", 60);
        net.grow("mlx5_4", "packet_seq_err", u64::from(s.is_multiple_of(60)));
        net.grow("mlx5_2", "local_ack_timeout_err", u64::from(s.is_multiple_of(300)));
        net.grow("mlx5_1", "symbol_error", u64::from(s.is_multiple_of(40)));
    });
    assert_eq!(net.lines(), [""; 0]);
    let past: Vec<_> = net.session.ledger.past().map(|f| f.rule).collect();
    assert_eq!(past, [""; 0]);
    assert!(net.session.ledger.open().iter().all(|f| f.severity < Severity::Warning));
}
