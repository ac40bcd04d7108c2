//! The panes of the network and of NCCL, drawn over whole nodes.

use crate::support::svg;
use crate::support::worlds;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::model::comm::{Comm, CommRank, LookBack, MissingRank};
use nccl_top::model::port::{Link, Port, capacity};
use nccl_top::observe::gpu::GpuInfo;
use nccl_top::observe::port::{NetdevSample, PortInfo, PortKind, PortSample};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::tui::actions::Action;
use nccl_top::tui::choices::{Effect, Ui};
use nccl_top::tui::panes::{Ctx, PANES};
use nccl_top::tui::theme::{Depth, Theme};
use nccl_top::tui::view;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::collections::BTreeMap;
use std::time::Duration;

fn theme() -> Theme {
    Theme::load("dark", Depth::True).unwrap()
}

fn ui_at(size: (u16, u16)) -> Ui {
    Ui { size, ..Ui::new(Zone::UTC) }
}

/// A pane alone, without frame.
fn pane(session: &Session, id: &str, zoomed: bool, size: (u16, u16)) -> Buffer {
    let theme = theme();
    let mut ui = ui_at(size);
    let pane = view::pane_index(id);
    ui.zoom = zoomed.then_some(pane);
    let ctx = Ctx { session, ui: &ui, theme: &theme, pane, zoomed, focused: true };
    // With a margin that must stay as it is.
    let mut buf = Buffer::empty(Rect::new(0, 0, size.0 + 2, size.1 + 2));
    (PANES[pane].draw)(&ctx, Rect::new(1, 1, size.0, size.1), &mut buf);
    buf
}

fn lines(buf: &Buffer) -> Vec<String> {
    let width = usize::from(buf.area().width);
    buf.content().chunks(width).map(|row| row.iter().map(|c| c.symbol()).collect::<String>().trim().to_owned()).collect()
}

/// The only line with a text.
fn line<'a>(lines: &'a [String], with: &str) -> &'a str {
    let found: Vec<&String> = lines.iter().filter(|l| l.contains(with)).collect();
    assert_eq!(found.len(), 1, "{with:?} in\n{}", lines.join("\n"));
    found[0]
}

pub fn zoomed(session: &Session, id: &str) -> Vec<String> {
    lines(&pane(session, id, true, (120, 40)))
}

fn overview(session: &Session, id: &str, size: (u16, u16)) -> Vec<String> {
    lines(&pane(session, id, false, size))
}

fn rows(session: &Session, id: &str, zoomed: bool) -> Vec<String> {
    let (theme, ui) = (theme(), ui_at((120, 40)));
    let pane = view::pane_index(id);
    (PANES[pane].rows)(&Ctx { session, ui: &ui, theme: &theme, pane, zoomed, focused: true })
}

/// What a style was used for.
fn styled(buf: &Buffer, is: impl Fn(&Theme) -> ratatui::style::Style) -> String {
    let color = is(&theme()).fg;
    assert!(color.is_some());
    buf.content().iter().filter(|c| Some(c.fg) == color).map(|c| c.symbol()).collect()
}

/// Ports change their state, a second later.
fn go(session: &mut Session, ports: &[&str], state: Option<&str>) {
    let at = session.model.now.plus(Duration::from_secs(1));
    let sample = |name: &&str| {
        let known = &session.model.ports[&((*name).to_owned(), 1)].sample;
        let unreadable = if state.is_none() { BTreeMap::from([("state".into(), "no such file".into())]) } else { BTreeMap::new() };
        PortSample { state: state.map(str::to_owned), unreadable, ..known.clone() }
    };
    let ports = ports.iter().map(sample).collect();
    session.apply(&Observation { at, host: None, from: SourceId::of("rdma"), body: Body::Ports { ports } }, &mut Vec::new());
}

#[test]
fn many_ports_are_one_line_and_the_slow_one_stands_out() {
    let p5 = worlds::p5();
    let buf = pane(&p5, "network", false, (76, 10));
    let shown = lines(&buf);
    let group = line(&shown, "32 × efa 100G");
    for part in ["32 up", "in  ", "out  ", "loss 0.", "worst rdmap147s0  4"] {
        assert!(group.contains(part), "{part:?} in {group:?}");
    }
    let strip = line(&shown, "out ▅");
    let cells: Vec<char> = strip.chars().skip(4).take(32).collect();
    assert_eq!(cells.iter().filter(|c| **c == '▅').count(), 31, "{strip}");
    // 0x93 is the 17th of the buses.
    assert_eq!(cells[16], '▃', "{strip}");
    let look = styled(&buf, |t| t.look);
    assert_eq!(look.matches('▃').count(), 2, "its cells of both directions: {look:?}");
    assert!(look.contains("rdmap147s0") && !look.contains('▅'), "{look:?}");
    assert!(line(&shown, "▲ rdmap181s0").contains("retrans_pkts") || line(&shown, "▲ rdmap181s0").contains("loss"));
    assert!(!shown.iter().any(|l| l.contains("rdmap79s0")), "the others have no rows");
    assert_eq!(overview(&p5, "network", (76, 1))[1], *group, "one row is enough for it");
    assert_eq!(rows(&p5, "network", true).len(), 8 + 1, "a group for each GPU, and an interface");
}

#[test]
fn a_port_that_goes_down_is_listed() {
    let mut p5 = worlds::p5();
    go(&mut p5, &["rdmap79s0"], Some("DOWN"));
    go(&mut p5, &["rdmap80s0"], None);
    assert_eq!(p5.model.ports[&("rdmap79s0".to_owned(), 1)].link.now, Link::Down);
    let buf = pane(&p5, "network", false, (90, 10));
    let shown = lines(&buf);
    assert!(line(&shown, "32 × efa 100G").contains("2 DOWN  30 up"), "{shown:?}");
    assert!(line(&shown, "■ rdmap79s0").contains("down for 1 s"), "{shown:?}");
    assert!(line(&shown, "■ rdmap80s0").contains("gone for"), "{shown:?}");
    assert!(line(&shown, "in  ××▅").contains('▅'));
    let act = styled(&buf, |t| t.act);
    assert_eq!(act.matches('×').count(), 4, "{act}");
    assert_eq!(rows(&p5, "network", false)[..2], ["rdmap79s0/1", "rdmap80s0/1"]);
    let all: Vec<String> = p5.model.ports.keys().map(|k| k.0.clone()).collect();
    go(&mut p5, &all.iter().map(String::as_str).collect::<Vec<_>>(), Some("DOWN"));
    let shown = overview(&p5, "network", (90, 10));
    assert!(line(&shown, "32 × efa").contains("32 DOWN  0 up"), "{shown:?}");
    assert!(line(&shown, "more ports are down").contains("29 more"), "{shown:?}");
}

/// The pane alone in a terminal of that size, after these were done on it.
fn alone(session: &Session, size: (u16, u16), done: &[Action]) -> Vec<String> {
    let (theme, mut ui) = (theme(), ui_at(size));
    ui.act(Action::Pane(4), session, &theme);
    done.iter().for_each(|action| assert_eq!(ui.act(*action, session, &theme), Effect::Draw));
    let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
    view::draw(&mut buf, session, &ui, &theme);
    lines(&buf)
}

#[test]
fn alone_many_ports_are_a_group_for_each_gpu_and_open_on_demand() {
    let p5 = worlds::p5();
    let shown = alone(&p5, (120, 40), &[]);
    let head = line(&shown, "share%");
    assert!(head.contains("in b/s") && head.contains("out b/s") && head.contains("loss/s") && head.contains("line b/s"), "{head}");
    assert!(!head.contains("near GPU"), "their NUMA nodes are not known: {head}");
    assert_eq!(shown.iter().filter(|l| l.contains("│ + rdmap") && l.contains("4 up") && l.contains("400G")).count(), 8, "{shown:#?}");
    let slow = line(&shown, "│ + rdmap147s0 ");
    assert!(slow.contains("▃▅▅▅"), "each port has a cell: {slow}");
    assert!(line(&shown, "ports ").contains("rdmap79s0") && line(&shown, "traffic").contains("Gbit/s"), "{shown:#?}");
    let shown = alone(&p5, (120, 40), &[Action::Open, Action::Down, Action::Down]);
    assert!(line(&shown, "│ - rdmap79s0 ").contains("400G"));
    let second = line(&shown, "│   rdmap80s0");
    assert!(second.contains("efa") && second.contains("up") && second.contains("100G"), "{second}");
    assert!(line(&shown, "link  ").contains("rdmap80s0"), "the selected one is told: {shown:#?}");
    let traffic = line(&shown, "traffic");
    assert!(traffic.contains("RDMA read") && traffic.contains("packets "), "{traffic}");
    assert!(line(&shown, "sent again").contains("none now") && line(&shown, "errors").contains("none now"));
    assert!(line(&shown, "device").contains("driver efa"));
    let shut = alone(&p5, (120, 40), &[Action::Open, Action::Open]);
    assert!(
        line(&shut, "│ + rdmap79s0 ").contains("4 up") && !shut.iter().any(|l| l.contains("│   rdmap80s0")),
        "it is shut by the same key"
    );
    let all = alone(&p5, (120, 40), &[Action::Open, Action::Down, Action::Open]);
    assert!(all[3].starts_with("efa  rdmap79s0"), "a port opens as whatever else: {all:#?}");
    assert!(alone(&p5, (80, 24), &[]).iter().filter(|l| l.contains("│ + rdmap")).count() == 8, "all 32 fit on a small screen");
    assert!(alone(&p5, (220, 70), &[]).iter().any(|l| l.contains("│   rdmap201s0")), "where there is room all are open");
    assert!(alone(&p5, (220, 70), &[Action::Open]).iter().any(|l| l.contains("│ + rdmap79s0 ")));
}

#[test]
fn ports_stand_with_the_gpus_that_they_are_near_to() {
    let gpus = (0..4).map(|n| gpu((n, "", n)));
    let ports = (0..16).map(|n| port(&format!("mlx5_{n}"), Some(n % 4), &format!("0000:{n:02x}:00.0")));
    let session = seen(gpus.chain(ports));
    let groups = |session: &Session| rows(session, "network", true).into_iter().filter(|row| row.starts_with("group")).collect::<Vec<_>>();
    assert_eq!(groups(&session), (0..4).map(|n| format!("group infiniband GPU {n}")).collect::<Vec<_>>());
    let few = seen((0..8).map(|n| port(&format!("mlx5_{n}"), Some(0), "")));
    assert_eq!(rows(&few, "network", true).len(), 8, "eight need no groups");
    let unknown = seen((0..9).map(|n| port(&format!("mlx5_{n}"), None, "")));
    assert_eq!(groups(&unknown), ["group infiniband 9 infiniband"]);
}

#[test]
fn ports_of_one_plug_share_its_rate() {
    let half = |device: &str, bus: &str| {
        let info = PortInfo {
            kind: PortKind::Roce,
            sys_image_guid: Some("30c5:9903:0012:3456".into()),
            ..PortInfo { device: device.into(), port: 1, bus_id: Some(bus.into()), ..PortInfo::default() }
        };
        let sample = PortSample { line_rate_bits_per_s: Some(200_000_000_000), state: Some("ACTIVE".into()), ..PortSample::default() };
        let mut port = Port { info, ..Port::default() };
        port.apply(Stamp(0), &sample);
        port
    };
    let spark = [half("a", "0000:01:00.0"), half("b", "0000:01:00.1"), half("c", "0002:01:00.0"), half("d", "0002:01:00.1")];
    assert_eq!(capacity(spark.iter()), 400_000_000_000, "two cables, not four");
    let mut others = spark.clone();
    others.iter_mut().for_each(|port| port.info.sys_image_guid = None);
    assert_eq!(capacity(others.iter()), 800_000_000_000, "which chip they are on is not known");
}

#[test]
fn virtual_interfaces_that_are_down_take_no_rows_of_the_overview() {
    let netdev = |name: &str, operstate: &str, bus: Option<&str>| NetdevSample {
        name: name.into(),
        operstate: Some(operstate.into()),
        bus_id: bus.map(str::to_owned),
        ..NetdevSample::default()
    };
    let netdevs = vec![
        netdev("docker0", "up", None),
        netdev("eth0", "up", Some("0000:00:03.0")),
        netdev("eth1", "down", Some("0000:00:04.0")),
        netdev("ifb0", "down", None),
    ];
    let session = seen([Body::Netdevs { netdevs }]);
    assert_eq!(rows(&session, "network", false), ["eth0", "eth1", "docker0"]);
    assert_eq!(rows(&session, "network", true), ["eth0", "eth1", "docker0", "ifb0"]);
}

#[test]
fn what_is_healthy_stands_beside_what_counts() {
    let at = |n: i64| Stamp(0).plus(Duration::from_secs(n as u64));
    let mut session = seen([port("mlx5_0", None, "")]);
    for n in 0..3 {
        let counters = [("out_of_sequence", 40), ("np_cnp_sent", 10), ("local_ack_timeout_err", 0), ("port_xmit_data", 7)];
        let counters = counters.iter().map(|(name, by)| ((*name).to_owned(), by * n)).collect();
        let sample = PortSample { device: "mlx5_0".into(), port: 1, state: Some("ACTIVE".into()), counters, ..PortSample::default() };
        let body = Body::Ports { ports: vec![sample] };
        session.apply(&Observation { at: at(n as i64), host: None, from: SourceId::of("rdma"), body }, &mut Vec::new());
    }
    let shown = alone(&session, (160, 40), &[]);
    assert!(line(&shown, "sent again").contains("out_of_sequence 40/s (healthy: none; many with adaptive routing)"), "{shown:#?}");
    assert!(line(&shown, "congestion").contains("np_cnp_sent 10/s (healthy: some, under load)"));
    let head = line(&shown, "resent/s");
    assert!(head.contains("cong/s"), "{head}");
}

#[test]
fn what_is_not_there_is_said() {
    let shown = overview(&worlds::no_gpu(), "network", (76, 8));
    line(&shown, "RDMA: /sys/class/infiniband does not exist");
    line(&shown, "eth0");
    let shown = overview(&worlds::absent(), "network", (76, 8));
    line(&shown, "RDMA: ");
    let shown = zoomed(&worlds::absent(), "nccl");
    line(&shown, "no NCCL lines in the logs, and RAS does not answer; with NCCL_DEBUG=INFO, NCCL logs its start");
    line(&shown, "RAS: no job with RAS seen");
}

#[test]
fn the_communicator_that_hangs_says_who_is_behind() {
    let hang = worlds::hang();
    let comm = hang.model.comms.values().next().unwrap();
    let hash = format!("{:08x}", comm.hash >> 32);
    let shown = overview(&hang, "nccl", (110, 6));
    let row = line(&shown, "comm ");
    assert!(row.starts_with(&format!("►comm {hash}  ")) && row.contains("1 node") && row.contains(" ops  unchanged "), "{row}");
    assert!(row.contains("rank 3 behind AllReduce "), "{row}");
    assert!(shown.iter().any(|l| l.contains("✓ NCCL version") || l.contains("· NCCL version")), "{shown:?}");
    assert_eq!(rows(&hang, "nccl", true), [format!("{:016x}", comm.hash)]);
    assert_eq!(overview(&hang, "nccl", (110, 1))[1], *row, "in one row it is what matters");
    let shown = zoomed(&hang, "nccl");
    let head = line(&shown, " pid ");
    assert!(head.contains("rank") && head.contains("host") && head.contains("GPU") && head.contains("AllReduce"), "{head}");
    let ranks: Vec<&String> = shown.iter().filter(|l| l.starts_with("►▼")).collect();
    assert_eq!(ranks.len(), 1, "{shown:?}");
    assert!(ranks[0].contains("behind"), "{ranks:?}");
    assert!(styled(&pane(&hang, "nccl", true, (120, 40)), |t| t.act).contains('▼'));
}

#[test]
fn of_640_ranks_those_in_trouble_stand_out() {
    let session = worlds::ranks_640();
    let shown = overview(&session, "nccl", (130, 6));
    let row = line(&shown, "comm 5c1de770");
    assert!(row.contains("640 ranks  80 nodes"), "{row}");
    assert!(row.contains("rank 500 missing, rank 13 behind AllReduce 468 of 480 (+1)"), "{row}");
    for size in [(76, 20), (116, 36), (216, 56)] {
        let buf = pane(&session, "nccl", true, size);
        let shown = lines(&buf);
        assert!(line(&shown, "▼ rank  13").contains("AllReduce 468 of 480, 12 behind"), "{shown:#?}");
        assert!(line(&shown, "× rank 500").contains("no answer for "), "{shown:#?}");
        // By name, in the grid, in the legend.
        assert!(styled(&buf, |t| t.act).matches('▼').count() >= 3, "{size:?}");
        let legend = line(&shown, "in step");
        assert!(legend.contains("637 in step") && legend.contains("2 behind") && legend.contains("1 missing"), "{legend}");
        let grid: String = shown.join("\n");
        assert!(grid.contains("10.0.0.2") && grid.contains("·····▼··"), "{grid}");
        assert!(grid.contains("10.0.0.63") && grid.contains("····×···"), "{grid}");
        assert_eq!(legend.contains("not shown"), size.1 < 30, "{legend}");
    }
}

fn comm(nranks: u32, known: u32, host: impl Fn(u32) -> Option<String>) -> Comm {
    let rank = |r| CommRank { host: host(r), counts: BTreeMap::from([("AllReduce".into(), 100)]), ..CommRank::default() };
    let ranks = (0..known).map(|r| (r, rank(r))).collect();
    Comm { hash: 0xab12_cd34_0000_0001, nranks, ranks, answered_at: Some(Stamp(0)), ..Comm::default() }
}

/// The pane alone, with this communicator.
fn communicator(comm: &Comm, size: (u16, u16)) -> Vec<String> {
    let mut session = Session::new("node", Zone::UTC);
    session.model.comms.insert(comm.hash, comm.clone());
    lines(&pane(&session, "nccl", true, size))
}

#[test]
fn ranks_without_hosts_stand_in_rows_of_64() {
    let mut c = comm(1024, 1024, |_| None);
    c.missing.insert(130, MissingRank::default());
    let rows = communicator(&c, (100, 30));
    let eight = "········";
    assert!(rows.contains(&format!("64  {}", [eight; 8].join(" "))), "{rows:#?}");
    let third = rows.iter().find(|r| r.starts_with("128 ")).unwrap();
    assert!(third.starts_with("128 ··×·····"), "{third}");
    assert_eq!(rows.iter().filter(|r| r.ends_with(&format!("{eight} {eight}"))).count(), 16, "{rows:#?}");
    assert!(rows.iter().any(|r| r.contains("1023 in step") && r.contains("1 missing") && !r.contains("not shown")), "{rows:#?}");
}

#[test]
fn trouble_comes_first_where_not_all_fits() {
    let mut c = comm(800, 800, |r| Some(format!("h{}", r / 8)));
    c.missing.insert(799, MissingRank { host: Some("h99".into()), considered_dead: true, ..MissingRank::default() });
    let rows = communicator(&c, (60, 14));
    assert!(rows.iter().any(|r| r.contains("h99 ·······†")), "{rows:#?}");
    assert!(rows.iter().any(|r| r.contains("rank 799") && r.contains("dead")), "{rows:#?}");
    assert!(rows.iter().any(|r| r.contains("ranks not shown")), "{rows:#?}");
}

#[test]
fn what_ras_claims_fills_no_memory() {
    let mut c = comm(u32::MAX, 9, |r| (r < 3).then(|| "\u{1b}[31mh".repeat(200)));
    c.missing.insert(u32::MAX, MissingRank::default());
    let rows = communicator(&c, (80, 24));
    assert!(rows.iter().any(|r| r.contains("9 in step")) && !rows.concat().contains('\u{1b}'), "{rows:#?}");
    for (width, height) in (0..30).flat_map(|h| [0, 1, 7, 9, 24, 80].map(|w| (w, h))) {
        communicator(&c, (width.max(1), height.max(1)));
    }
}

#[test]
fn only_one_that_is_late_again_and_again_is_named() {
    let look = |behind: &[u32]| LookBack { at: Stamp(0), behind: behind.to_vec(), moved: true };
    let mut c = comm(4, 4, |_| None);
    c.looks = vec![look(&[2]), look(&[]), look(&[2, 3]), look(&[2]), look(&[0, 1, 3])];
    let state = |c: &Comm| line(&communicator(c, (120, 30)), "moving").to_owned();
    assert!(state(&c).contains("moving, rank 2 behind in 3 of 5 answers"), "{}", state(&c));
    c.looks.extend([look(&[]), look(&[])]);
    assert!(!state(&c).contains("rank 2"), "{}", state(&c));
}

/// A node of which this was seen, all in one second.
fn seen(bodies: impl IntoIterator<Item = Body>) -> Session {
    let mut session = Session::new("node", Zone::UTC);
    for body in bodies {
        session.apply(&Observation { at: Stamp(0), host: None, from: SourceId::of("rdma"), body }, &mut Vec::new());
    }
    session
}

fn port(device: &str, numa: Option<u32>, bus: &str) -> Body {
    let info =
        PortInfo { device: device.into(), port: 1, kind: PortKind::Infiniband, numa, bus_id: Some(bus.into()), ..PortInfo::default() };
    Body::PortInfo(info)
}

fn gpu((index, bus, numa): (u32, &str, u32)) -> Body {
    Body::GpuInfo(GpuInfo { index, bus_id: Some(bus.into()), numa: Some(numa), ..GpuInfo::default() })
}

#[test]
fn numbers_in_names_are_numbers() {
    let names = ["bond0", "mlx5_2", "mlx5_10", "rdmap79s0", "rdmap113s0", "é7"];
    let session = seen([3, 1, 5, 2, 0, 4].map(|n| port(names[n], None, "")));
    assert_eq!(rows(&session, "network", true), names.map(|name| format!("{name}/1")));
}

#[test]
fn only_what_is_certain_is_near() {
    let three = [(0, "0000:53:00.0", 0), (1, "00000000:64:00.0", 0), (2, "0000:75:00.0", 1)];
    let flat = [(0, "0000:00:04.0", 0), (1, "0000:00:05.0", 0)];
    let many = [(0, "", 0), (1, "", 0), (2, "", 0), (3, "", 0), (6, "", 0), (7, "", 1), (u32::MAX, "", 1)];
    for (gpus, numa, bus, near) in [
        (&three[..], Some(0), "0000:18:00.0", Some("0-1")),
        // The same bus is nearer than the same node.
        (&three, Some(0), "0000:64:00.1", Some("1")),
        (&three, None, "0000:4f:00.0", None),
        (&three, Some(3), "", None),
        // All are as near.
        (&flat, Some(0), "0000:00:03.0", None),
        (&many, Some(0), "", Some("0-3,6")),
    ] {
        let shown = zoomed(&seen(gpus.iter().copied().map(gpu).chain([port("a", numa, bus)])), "network");
        let (head, row) = (&shown[1], &shown[2]);
        let end = head.find("near GPU").map(|at| head[..at].chars().count() + 8);
        let cell = end.map(|end| row.chars().take(end).skip(end - 8).collect::<String>());
        assert_eq!(cell.as_deref().map(str::trim), near, "{numa:?} {bus}\n{head}\n{row}");
    }
}

#[test]
fn a_port_that_is_down_stays_with_its_siblings() {
    let ports = |count: u32, state: &str, gbits: u64, only: Option<u32>| {
        let sample = |n: u32| PortSample {
            device: format!("a{n}"),
            port: 1,
            state: Some(state.into()),
            line_rate_bits_per_s: Some(gbits * 1_000_000_000),
            ..PortSample::default()
        };
        Body::Ports { ports: (0..count).filter(|n| only.is_none_or(|only| *n == only)).map(sample).collect() }
    };
    let known = |count: u32| (0..count).map(|n| port(&format!("a{n}"), None, ""));
    let session = |count| seen(known(count).chain([ports(count, "ACTIVE", 400, None), ports(count, "DOWN", 10, Some(2))]));
    let starts = |count, height: u16| -> Vec<String> {
        let shown = overview(&session(count), "network", (90, height));
        shown[1..=usize::from(height)].iter().map(|line| line.chars().take(10).collect::<String>().trim_end().to_owned()).collect()
    };
    let (group, trouble) = ("6 × infini", "■ a2  down");
    assert_eq!(starts(6, 9)[..4], [group, "in  ··×···", "out ··×···", trouble]);
    assert_eq!(starts(6, 2), [group, trouble]);
    assert_eq!(starts(6, 1), [group]);
    assert_eq!(rows(&session(4), "network", false), ["a0/1", "a1/1", "a2/1", "a3/1"], "few have a row each");
}

fn all() -> Vec<(&'static str, Session)> {
    vec![
        ("hang", worlds::hang()),
        ("healthy", worlds::healthy()),
        ("straggler", worlds::straggler()),
        ("p5", worlds::p5()),
        ("no-gpu", worlds::no_gpu()),
        ("absent", worlds::absent()),
        ("ranks-640", worlds::ranks_640()),
    ]
}

#[test]
fn any_size_is_survived_and_nothing_is_drawn_outside() {
    for (name, session) in all() {
        for id in ["network", "nccl"] {
            for zoomed in [false, true] {
                for (width, height) in
                    (1..=24).flat_map(|h| [1, 2, 5, 13, 39, 40, 69, 70, 120].map(|w| (w, h))).chain([(300, 90), (30, 90), (76, 300)])
                {
                    let buf = pane(&session, id, zoomed, (width, height));
                    let area = *buf.area();
                    let edge = area
                        .rows()
                        .flat_map(|r| r.positions())
                        .filter(|p| p.x == 0 || p.y == 0 || p.x + 1 == area.width || p.y + 1 == area.height);
                    // In the margin stands who the verdict names.
                    for p in edge.filter(|p| p.x > 0 || buf[*p].symbol() != "►") {
                        assert_eq!(buf[p].symbol(), " ", "{name} {id} {zoomed} {width}x{height} at {p}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_row_on_the_screen_is_the_row_that_is_selected() {
    for (name, session) in all() {
        for id in ["network", "nccl"] {
            for zoomed in [false, true] {
                let theme = theme();
                let mut ui = ui_at((120, 40));
                let index = view::pane_index(id);
                ui.zoom = zoomed.then_some(index);
                let names = rows(&session, id, zoomed);
                for row in &names {
                    ui.lists[index].row = Some(row.clone());
                    let ctx = Ctx { session: &session, ui: &ui, theme: &theme, pane: index, zoomed, focused: true };
                    let area = Rect::new(0, 0, 116, 24);
                    let mut buf = Buffer::empty(area);
                    (PANES[index].draw)(&ctx, area, &mut buf);
                    let lit: Vec<u16> = (0..24).filter(|y| Some(buf[(0, *y)].bg) == theme.selected.bg).collect();
                    let hit = lit.iter().map(|y| (PANES[index].row_at)(&ctx, area, *y).map(|i| names[i].clone())).collect::<Vec<_>>();
                    assert_eq!(hit, [Some(row.clone())], "{name} {id} {zoomed}: lines {lit:?}");
                }
            }
        }
    }
}

/// With `PICTURES=DIR` in the environment the pictures are kept there.
#[test]
fn pictures() {
    let Some(dir) = std::env::var_os("PICTURES") else { return };
    for (name, session) in all() {
        for size in [(80, 24), (120, 40), (220, 60)] {
            for id in ["", "network", "nccl"] {
                let mut ui = ui_at(size);
                ui.zoom = (!id.is_empty()).then(|| view::pane_index(id));
                let mut buf = Buffer::empty(Rect::new(0, 0, size.0, size.1));
                view::draw(&mut buf, &session, &ui, &theme());
                let picture = svg::picture(&svg::Cells::of_buffer(&buf), name, &svg::DARK);
                let file = format!("{name}-{id}-{}.svg", size.0);
                std::fs::write(std::path::Path::new(&dir).join(file), picture).unwrap();
            }
        }
    }
}
