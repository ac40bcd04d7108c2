//! What is read of RDMA devices and interfaces besides their files of counters: the hardware below them, the counters of `ethtool -S`, and
//! how devices are spared that answer badly.

use crate::support::at;
use crate::support::tree::{break_file, set, unpack, write};
use nccl_top::model::port::Netdev;
use nccl_top::observe::port::{NetdevSample, PciLink, PortInfo, PortSample};
use nccl_top::observe::{Body, SourceState};
use nccl_top::sources::ethtool::Ethtool;
use nccl_top::sources::netdev::Netdevs;
use nccl_top::sources::pace::{Answer, Pace};
use nccl_top::sources::rdma::Rdma;
use nccl_top::sources::{Complaint, Hint, Hints, Roots, Source};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn poll(source: &mut dyn Source) -> Vec<Body> {
    let mut out = Vec::new();
    source.poll(&mut out).unwrap();
    out
}

fn rdma(root: &Path) -> Rdma {
    Rdma::new(Roots::below(root), SECOND)
}

fn info(root: &Path, device: &str) -> PortInfo {
    let found = poll(&mut rdma(root)).into_iter().find_map(|body| match body {
        Body::PortInfo(info) if info.device == device => Some(info),
        _ => None,
    });
    found.unwrap()
}

fn samples(out: &[Body]) -> BTreeMap<String, PortSample> {
    let ports = out.iter().flat_map(|body| if let Body::Ports { ports } = body { ports.clone() } else { Vec::new() });
    ports.map(|port| (port.device.clone(), port)).collect()
}

fn netdev(out: &[Body], name: &str) -> NetdevSample {
    let mut netdevs = out.iter().flat_map(|body| if let Body::Netdevs { netdevs } = body { netdevs.clone() } else { Vec::new() });
    netdevs.find(|netdev| netdev.name == name).unwrap()
}

const EFA: &str = "sys/devices/pci0000:4f/0000:4f:00.0";

fn pci_link(root: &Path, function: &str) {
    set(root, &format!("{function}/current_link_speed"), "16.0 GT/s PCIe");
    set(root, &format!("{function}/current_link_width"), "8");
    set(root, &format!("{function}/max_link_speed"), "32.0 GT/s PCIe");
    set(root, &format!("{function}/max_link_width"), "16");
}

const LINK: PciLink = PciLink { gt_per_s: Some(16.0), width: Some(8), max_gt_per_s: Some(32.0), max_width: Some(16) };

#[test]
fn a_device_is_told_with_its_driver_and_its_pci_link() {
    let dir = unpack(&["efa-p5"]);
    set(dir.path(), "sys/module/efa/version", "2.17.3g");
    pci_link(dir.path(), EFA);
    let told = info(dir.path(), "rdmap79s0");
    assert_eq!(told.driver_version.as_deref(), Some("2.17.3g"));
    assert_eq!(told.pci_link, Some(LINK));
    assert_eq!((told.physical_function, told.sub_function), (None, None));
    let other = info(dir.path(), "rdmap80s0");
    assert_eq!(other.pci_link, None, "it does not say");
    set(dir.path(), &format!("{EFA}/current_link_speed"), "Unknown");
    set(dir.path(), &format!("{EFA}/current_link_width"), "255");
    let link = info(dir.path(), "rdmap79s0").pci_link.unwrap();
    assert_eq!((link.gt_per_s, link.width, link.max_width), (None, None, Some(16)));
}

#[test]
fn parts_of_a_device_are_told_as_such() {
    let dir = unpack(&["odd", "efa-p5"]);
    let told = info(dir.path(), "mlx5_4");
    assert_eq!((told.sub_function.as_deref(), told.bus_id.as_deref()), (Some("mlx5_core.sf.4"), Some("0000:08:00.0")));
    assert_eq!(info(dir.path(), "mlx5_0").sub_function, None);
    write(dir.path(), &format!("{EFA}/physfn -> ../../pci0000:4f/0000:4f:01.0"));
    assert_eq!(info(dir.path(), "rdmap79s0").physical_function.as_deref(), Some("0000:4f:01.0"));
}

#[test]
fn an_interface_is_told_with_the_hardware_below_it() {
    let dir = unpack(&["host"]);
    let function = "sys/devices/pci0000:00/0000:00:03.0";
    pci_link(dir.path(), function);
    set(dir.path(), &format!("{function}/numa_node"), "1");
    set(dir.path(), "sys/module/virtio_net/version", "9.1");
    set(dir.path(), "sys/class/net/eth0/carrier_down_count", "4");
    let mut source = Netdevs::new(Roots::below(dir.path()), SECOND);
    let out = poll(&mut source);
    let told = netdev(&out, "eth0");
    assert_eq!((told.bus_id.as_deref(), told.carrier_down_count), (Some("0000:00:03.0"), Some(4)));
    let info = told.info.clone().unwrap();
    assert_eq!((info.numa, info.driver_version.as_deref(), info.pci_link), (Some(1), Some("9.1"), Some(LINK)));
    assert_eq!(info.pci_path.as_deref(), Some("/sys/devices/pci0000:00/0000:00:03.0"));
    assert_eq!(netdev(&out, "lo").info, None);
    let later = netdev(&poll(&mut source), "eth0");
    assert_eq!(later.info, None, "once, until the next listing");
    let mut model = Netdev::default();
    model.apply(at(0), &told);
    model.apply(at(1), &later);
    assert_eq!((model.info.numa, model.sample.carrier_down_count), (Some(1), Some(4)), "the model keeps it");
    let again: Vec<bool> = (0..30).map(|_| netdev(&poll(&mut source), "eth0").info.is_some()).collect();
    assert_eq!(again.iter().filter(|told| **told).count(), 1, "{again:?}");
}

/// Answers as a driver does, of every interface.
#[derive(Clone, Default)]
struct Driver(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    firmware: &'static str,
    counters: Vec<(String, u64)>,
    errno: Option<i32>,
    /// The numbers of the questions.
    asked: Vec<u32>,
}

impl Driver {
    fn set(&self, counters: &[(&str, u64)]) {
        self.0.lock().unwrap().counters = counters.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    }

    fn asked(&self) -> Vec<u32> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }
}

impl Ethtool for Driver {
    fn ask(&mut self, interface: &str, buffer: &mut [u8]) -> io::Result<()> {
        assert_eq!(interface, "eth0", "lo is not hardware");
        let mut state = self.0.lock().unwrap();
        let question = u32::from_ne_bytes(buffer[..4].try_into().unwrap());
        state.asked.push(question);
        if let Some(errno) = state.errno {
            return Err(io::Error::from_raw_os_error(errno));
        }
        let count = (state.counters.len() as u32).to_ne_bytes();
        match question {
            0x3 => {
                buffer[68..68 + state.firmware.len()].copy_from_slice(state.firmware.as_bytes());
                buffer[180..184].copy_from_slice(&count);
            }
            0x1b => {
                assert_eq!(buffer[4..8], 1u32.to_ne_bytes(), "the set of counters");
                buffer[8..12].copy_from_slice(&count);
                for (room, (name, _)) in buffer[12..].chunks_exact_mut(32).zip(&state.counters) {
                    room.fill(0);
                    room[..name.len()].copy_from_slice(name.as_bytes());
                }
            }
            0x1d => {
                buffer[4..8].copy_from_slice(&count);
                for (room, (_, value)) in buffer[8..].chunks_exact_mut(8).zip(&state.counters) {
                    room.copy_from_slice(&value.to_ne_bytes());
                }
            }
            other => panic!("{other:#x} is not for everybody"),
        }
        Ok(())
    }
}

/// An interface of hardware whose driver answers, and the next poll of it.
struct Asked {
    _dir: tempfile::TempDir,
    driver: Driver,
    source: Netdevs,
}

impl Asked {
    fn new() -> Asked {
        let (dir, driver) = (unpack(&["host"]), Driver::default());
        let source = Netdevs::asking(Roots::below(dir.path()), SECOND, Box::new(driver.clone()));
        Asked { _dir: dir, driver, source }
    }

    fn sample(&mut self) -> NetdevSample {
        netdev(&poll(&mut self.source), "eth0")
    }

    fn counters(&mut self) -> Vec<(String, u64)> {
        self.sample().counters.into_iter().filter_map(|(name, value)| Some((name.strip_prefix("ethtool/")?.to_owned(), value))).collect()
    }
}

fn pairs(pairs: &[(&str, u64)]) -> Vec<(String, u64)> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect()
}

const ENA: &[(&str, u64)] = &[
    ("tx_timeout", 0),
    ("suspend", 0),
    ("wd_expired", 1),
    ("bw_in_allowance_exceeded", 7),
    ("conntrack_allowance_available", 136_812),
    ("ena_srd_mode", 1),
    ("queue_0_tx_cnt", 99),
];

#[test]
fn what_ena_was_not_allowed_is_read_every_five_seconds() {
    let mut eth0 = Asked::new();
    eth0.driver.0.lock().unwrap().firmware = "1.2";
    eth0.driver.set(ENA);
    let kept = [
        ("bw_in_allowance_exceeded", 7),
        ("conntrack_allowance_available", 136_812),
        ("ena_srd_mode", 1),
        ("tx_timeout", 0),
        ("wd_expired", 1),
    ];
    let first = eth0.sample();
    assert_eq!(first.info.unwrap().firmware.as_deref(), Some("1.2"));
    assert_eq!(first.counters["ethtool/bw_in_allowance_exceeded"], 7);
    assert_eq!(eth0.driver.asked(), [0x3, 0x1b, 0x1d]);
    for _ in 0..4 {
        assert_eq!(eth0.counters(), []);
    }
    assert_eq!(eth0.counters(), pairs(&kept), "all, also those that stand still: absent is not asked");
    assert_eq!(eth0.driver.asked(), [0x1d], "names are read once");
}

#[test]
fn pauses_and_damaged_frames_of_other_drivers_are_kept() {
    for (all, kept) in [
        (
            &[
                "rx_prio3_pause",
                "rx_prio3_pause_duration",
                "tx_prio7_pause",
                "rx_prio_pause",
                "rx7_packets",
                "rx_discards_phy",
                "tx_errors_phy",
            ][..],
            4,
        ),
        (&["rx_pfc_ena_frames_pri3", "rx_fcs_err_frames", "link_down_events", "rx_good_frames"], 3),
        (&["rx_priority_3_xoff.nic", "rx_priority_3_xon.nic", "rx_crc_errors.nic", "rx_unicast.nic"], 2),
    ] {
        let mut eth0 = Asked::new();
        eth0.driver.set(&all.iter().map(|name| (*name, 5)).collect::<Vec<_>>());
        assert_eq!(eth0.counters().len(), kept, "{all:?}");
    }
}

#[test]
fn a_driver_that_has_no_such_counters_is_not_asked_again() {
    for (errno, counters) in [(Some(95), ENA), (None, &[("queue_0_tx_cnt", 1)]), (None, &[])] {
        let mut eth0 = Asked::new();
        eth0.driver.0.lock().unwrap().errno = errno;
        eth0.driver.set(counters);
        assert_eq!(eth0.counters(), []);
        assert!(!eth0.driver.asked().is_empty());
        for _ in 0..60 {
            assert_eq!(eth0.counters(), []);
        }
        assert!(eth0.driver.asked().is_empty(), "{errno:?} {counters:?}: not after a new listing, either");
        assert_eq!(eth0.source.remark(), None);
    }
}

#[test]
fn names_are_read_again_when_their_number_changes() {
    let mut eth0 = Asked::new();
    eth0.driver.set(ENA);
    eth0.counters();
    eth0.driver.set(&[&[("queue_7_tx_cnt", 3)], ENA].concat());
    for _ in 0..4 {
        eth0.counters();
    }
    assert_eq!(eth0.counters(), [], "the places are others now");
    (0..4).for_each(|_| drop(eth0.counters()));
    assert!(eth0.counters().contains(&("bw_in_allowance_exceeded".to_owned(), 7)));
}

#[test]
fn an_interface_whose_counters_fail_is_asked_less_often() {
    const EIO: i32 = 5;
    let mut eth0 = Asked::new();
    eth0.driver.set(ENA);
    eth0.driver.0.lock().unwrap().errno = Some(EIO);
    for _ in 0..120 {
        eth0.counters();
    }
    // At 0, 10, 30 and 70 s.
    assert_eq!(eth0.driver.asked(), [0x3; 4]);
    let remark = "eth0: 4 of 4 reads of ethtool counters fail, asked every 1 m 20 s";
    assert_eq!(eth0.source.remark(), Some((SourceState::Slow, remark.to_owned())));
}

#[test]
fn rates_of_counters_that_are_read_seldom_span_the_time_between() {
    let mut eth0 = Netdev::default();
    let sample = |value: Option<u64>| NetdevSample {
        counters: value.map(|value| ("ethtool/rx_prio3_pause".to_owned(), value)).into_iter().collect(),
        ..NetdevSample::default()
    };
    for second in 0..=10 {
        eth0.apply(at(second), &sample((second % 5 == 0).then_some(second as u64 / 5 * 100)));
    }
    assert_eq!(eth0.counters.rate("ethtool/rx_prio3_pause"), Some(20.0));
    eth0.apply(at(11), &sample(None));
    assert_eq!(eth0.counters.rate("ethtool/rx_prio3_pause"), Some(20.0), "not asked is not silent");
    eth0.apply(at(15), &sample(Some(200)));
    assert_eq!(eth0.counters.rate("ethtool/rx_prio3_pause"), Some(0.0));
}

#[test]
fn below_another_root_a_file_stands_in_for_the_ioctl() {
    let dir = unpack(&["host"]);
    set(dir.path(), "sys/class/net/eth0/.ethtool", "NIC statistics:\n     pps_allowance_exceeded: 12\n     suspend: 1\n     tx_timeout: x");
    let told = netdev(&poll(&mut Netdevs::new(Roots::below(dir.path()), SECOND)), "eth0");
    let told: Vec<_> = told.counters.iter().filter(|(name, _)| name.starts_with("ethtool/")).collect();
    assert_eq!(told, [(&"ethtool/pps_allowance_exceeded".to_owned(), &12)]);
}

/// What this machine's own driver has nobody knows; that it is asked does no harm.
#[test]
fn the_own_interfaces_can_be_asked() {
    let mut source = Netdevs::new(Roots::live(), SECOND);
    let out = poll(&mut source);
    assert!(matches!(&out[..], [Body::Netdevs { netdevs }] if !netdevs.is_empty()), "{out:?}");
}

#[test]
fn a_device_that_answers_badly_is_asked_at_half_the_pace_each_time() {
    let mut pace = Pace::default();
    let mut asked = Vec::new();
    for second in 0..300 {
        if pace.is_due() {
            asked.push(second);
            pace.answered(Answer::Failed);
        }
    }
    assert_eq!(asked, [0, 2, 6, 14, 30, 62, 126, 190, 254], "a minute at most");
    assert_eq!(pace.words(SECOND).as_deref(), Some("8 of 8 reads fail, asked every 1 m 04 s"));
    for good in 0..3 {
        assert!(!pace.is_normal(), "{good}");
        pace.answered(Answer::Good);
    }
    assert_eq!((pace.is_due(), pace.words(SECOND)), (true, None));
}

#[test]
fn words_say_how_many_answers_were_bad() {
    let mut pace = Pace::default();
    pace.answered(Answer::Slow);
    assert_eq!(pace.words(SECOND).as_deref(), Some("1 of 1 reads are slow, asked every 2 s"));
    pace.answered(Answer::Good);
    pace.answered(Answer::Failed);
    assert_eq!(pace.words(SECOND).as_deref(), Some("2 of 3 reads fail, asked every 4 s"));
    let within = |ms| Answer::within(Duration::from_millis(ms), SECOND);
    assert_eq!((within(50), within(51)), (Answer::Good, Answer::Slow));
}

#[test]
fn one_device_that_fails_does_not_slow_the_others() {
    let dir = unpack(&["efa-p5"]);
    let mut source = rdma(dir.path());
    poll(&mut source);
    assert_eq!(source.remark(), None);
    let counters = dir.path().join("sys/class/infiniband/rdmap79s0/ports/1/hw_counters");
    let names: Vec<String> = std::fs::read_dir(&counters).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    // A refresh that fails fails for every file.
    for name in &names {
        break_file(&counters, name);
    }
    let polls: Vec<_> = (0..16).map(|_| samples(&poll(&mut source))).collect();
    let asked: Vec<usize> = (0..16).filter(|i| polls[*i].contains_key("rdmap79s0")).collect();
    assert_eq!(asked, [0, 2, 6, 14]);
    assert!(polls.iter().all(|ports| ports.len() >= 31 && ports.contains_key("rdmap80s0")));
    let remark = "rdmap79s0: 4 of 4 reads fail, asked every 16 s";
    assert_eq!(source.remark(), Some((SourceState::Slow, remark.to_owned())));
    for name in &names {
        std::fs::remove_dir(counters.join(name)).unwrap();
        std::fs::write(counters.join(name), "1\n").unwrap();
    }
    (0..64).for_each(|_| drop(poll(&mut source)));
    assert_eq!(source.remark(), None, "it is well again");
}

fn complaint(bus_id: &str) -> Hint {
    let line = format!("x {bus_id}: GET_STATS failed");
    Hint::Complaint(Complaint { bus_id: bus_id.into(), line })
}

#[test]
fn a_device_whose_driver_logs_errors_is_asked_less_and_less_often() {
    let dir = unpack(&["efa-p5"]);
    let (hints, inbox) = Hints::line();
    let mut source = rdma(dir.path()).listening(inbox);
    let asked = |source: &mut Rdma| samples(&poll(source)).contains_key("rdmap79s0");
    assert!(asked(&mut source));
    let mut at = Vec::new();
    for second in 1..=70 {
        // The line comes with the poll after the one that caused it, and once more.
        if at.last().is_none_or(|last| *last + 1 == second) {
            hints.send(complaint("0000:4f:00.0"));
            hints.send(complaint("0000:4f:00.0"));
        }
        if asked(&mut source) {
            at.push(second);
        }
    }
    assert_eq!(at, [2, 6, 14, 30, 62], "the answers themselves are good");
    let remark = source.remark().unwrap();
    assert_eq!(remark.0, SourceState::Slow);
    let words = "rdmap79s0: 6 of 6 reads fail, asked every 1 m 04 s (kernel log: x 0000:4f:00.0: GET_STATS failed)";
    assert_eq!(remark.1, words, "and no other device");
    (0..64 * 3).for_each(|_| _ = poll(&mut source));
    assert_eq!(source.remark(), None, "three good answers without a complaint");
}

#[test]
fn counters_of_ethtool_are_spared_as_well() {
    let mut eth0 = Asked::new();
    eth0.driver.set(ENA);
    let (hints, inbox) = Hints::line();
    eth0.source = eth0.source.listening(inbox);
    eth0.sample();
    hints.send(complaint("0000:00:03.0"));
    let asked: Vec<usize> = (1..=40).filter(|_| !eth0.counters().is_empty()).collect();
    assert_eq!(asked, [10, 20, 30, 35, 40], "at half the pace, until three answers were good");
    assert_eq!(eth0.source.remark(), None);
}
