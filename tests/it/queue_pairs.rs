//! Queue pairs by process: the kernel's RDMA netlink is spoken as include/uapi/rdma/rdma_netlink.h has it, what it lists is counted by
//! process, and shown with ranks.

use crate::support::tree::set;
use crate::support::worlds;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::observe::port::{PortInfo, PortKind, PortSample, QueuePairHolder, QueuePairs};
use nccl_top::observe::process::{ProcessInfo, ProcessRole};
use nccl_top::observe::{Body, Observation, SourceId, SourceState};
use nccl_top::output::snapshot;
use nccl_top::recording::without::{Without, filter};
use nccl_top::sources::queue_pairs::{Counts, Device, Dump, Netlink, Queues, open, take};
use nccl_top::sources::{Roots, Source, SourceError};
use proptest::prelude::*;
use std::collections::VecDeque;
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

// linux/netlink.h
const ERROR: u16 = 2;
const DONE: u16 = 3;
const MULTI: u16 = 2;
const NESTED: u16 = 1 << 15;
// RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_GET), and of RDMA_NLDEV_CMD_RES_QP_GET
const GET: u16 = 0x1401;
const QP_GET: u16 = 0x140a;
// enum rdma_nldev_attr
const DEV_INDEX: u16 = 1;
const DEV_NAME: u16 = 2;
const PORT_INDEX: u16 = 3;
const FW_VERSION: u16 = 5;
const RES_QP: u16 = 19;
const RES_QP_ENTRY: u16 = 20;
const RES_LQPN: u16 = 21;
const RES_TYPE: u16 = 26;
const RES_PID: u16 = 28;
const RES_KERN_NAME: u16 = 29;

fn attribute(kind: u16, value: &[u8]) -> Vec<u8> {
    let length = (4 + value.len()) as u16;
    let mut out = [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), value].concat();
    out.resize(out.len().next_multiple_of(4), 0);
    out
}

fn number(kind: u16, value: u32) -> Vec<u8> {
    attribute(kind, &value.to_ne_bytes())
}

fn string(kind: u16, value: &str) -> Vec<u8> {
    attribute(kind, &[value.as_bytes(), b"\0"].concat())
}

fn message(kind: u16, sequence: u32, payload: &[u8]) -> Vec<u8> {
    let length = (16 + payload.len()) as u32;
    [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &MULTI.to_ne_bytes(), &sequence.to_ne_bytes(), &77u32.to_ne_bytes(), payload].concat()
}

fn done(sequence: u32) -> Vec<u8> {
    message(DONE, sequence, &0u32.to_ne_bytes())
}

/// struct nlmsgerr: the errno, and the header of the question.
fn refused(sequence: u32, errno: i32) -> Vec<u8> {
    message(ERROR, sequence, &[&(-errno).to_ne_bytes()[..], &[0; 16]].concat())
}

/// As fill_res_qp_entry writes it: the owner comes last.
fn queue_pair(number_of_it: u32, port: Option<u32>, owner: &[u8]) -> Vec<u8> {
    let port = port.map(|port| number(PORT_INDEX, port)).unwrap_or_default();
    attribute(RES_QP_ENTRY, &[port, number(RES_LQPN, number_of_it), attribute(RES_TYPE, &[2]), owner.to_vec()].concat())
}

fn listed(index: u32, name: &str, pairs: &[Vec<u8>]) -> Vec<u8> {
    [number(DEV_INDEX, index), string(DEV_NAME, name), attribute(RES_QP | NESTED, &pairs.concat())].concat()
}

fn device(index: u32, name: &str, ports: u32) -> Vec<u8> {
    [number(DEV_INDEX, index), string(DEV_NAME, name), number(PORT_INDEX, ports), string(FW_VERSION, "28.39.1002")].concat()
}

/// Messages, and the entries of each.
type List = Vec<Vec<Vec<u8>>>;

/// A kernel with devices, each with the datagrams of its queue pairs, or an errno.
#[derive(Clone, Default)]
struct Kernel(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    /// Name, ports, what it has.
    devices: Vec<(&'static str, u32, Result<List, i32>)>,
    asked: Vec<Vec<u8>>,
    opened: u32,
}

struct Socket {
    kernel: Kernel,
    to_come: VecDeque<Vec<u8>>,
}

impl Netlink for Socket {
    fn send(&mut self, request: &[u8]) -> io::Result<()> {
        let mut state = self.kernel.0.lock().unwrap();
        state.asked.push(request.to_vec());
        let u16_at = |at: usize| u16::from_ne_bytes(request[at..at + 2].try_into().unwrap());
        let u32_at = |at: usize| u32::from_ne_bytes(request[at..at + 4].try_into().unwrap());
        let sequence = u32_at(8);
        // What is left of another dump does not count.
        self.to_come.push_back(message(u16_at(4), sequence.wrapping_sub(1), &device(9, "stale", 1)));
        if u16_at(4) == GET {
            let all = state.devices.iter().enumerate().map(|(index, (name, ports, _))| device(index as u32, name, *ports));
            let all: Vec<u8> = all.flat_map(|payload| message(GET, sequence, &payload)).collect();
            self.to_come.extend([all, done(sequence)]);
            return Ok(());
        }
        let index = u32_at(20);
        let (name, _, pairs) = &state.devices[index as usize];
        match pairs {
            Ok(parts) => {
                let parts = parts.iter().map(|pairs| message(QP_GET, sequence, &listed(index, name, pairs)));
                self.to_come.extend(parts.chain([done(sequence)]));
            }
            Err(errno) => self.to_come.push_back(refused(sequence, *errno)),
        }
        Ok(())
    }

    fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let datagram = self.to_come.pop_front().ok_or(io::ErrorKind::WouldBlock)?;
        buffer[..datagram.len()].copy_from_slice(&datagram);
        Ok(datagram.len())
    }
}

impl Kernel {
    fn source(&self, root: &Path) -> Queues {
        let kernel = self.clone();
        let open = move || {
            kernel.0.lock().unwrap().opened += 1;
            Ok(Box::new(Socket { kernel: kernel.clone(), to_come: VecDeque::new() }) as Box<dyn Netlink>)
        };
        Queues::asking(Roots::below(root), Box::new(open))
    }

    fn asked(&self) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.0.lock().unwrap().asked)
    }
}

fn poll(source: &mut Queues) -> Result<Vec<QueuePairs>, SourceError> {
    let mut out = Vec::new();
    source.poll(&mut out)?;
    let devices = out.into_iter().flat_map(|body| if let Body::QueuePairs { devices } = body { devices } else { panic!("{body:?}") });
    Ok(devices.collect())
}

fn holder(port: u32, pid: Option<u32>, kernel: Option<&str>, count: u32) -> QueuePairHolder {
    QueuePairHolder { port, pid, kernel: kernel.map(str::to_owned), count }
}

/// A machine with two devices and two processes, of which the one has threads.
fn machine() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    set(dir.path(), "sys/class/infiniband/mlx5_0/node_type", "1: CA");
    set(dir.path(), "sys/class/infiniband/mlx5_1/node_type", "1: CA");
    for (thread, process) in [(4711, 4711), (4720, 4711), (4721, 4711), (5000, 5000)] {
        set(dir.path(), &format!("proc/{thread}/status"), &format!("Name:\tpython3\nTgid:\t{process}\nPid:\t{thread}"));
    }
    dir
}

fn kernel() -> Kernel {
    let kernel = Kernel::default();
    let of = |pid| number(RES_PID, pid);
    let first = vec![queue_pair(1, Some(1), &string(RES_KERN_NAME, "ib_core")), queue_pair(70, Some(1), &of(4720))];
    let second = vec![queue_pair(71, None, &of(4721)), queue_pair(72, Some(1), &of(5000)), queue_pair(73, Some(1), &[])];
    kernel.0.lock().unwrap().devices =
        vec![("mlx5_0", 1, Ok(vec![first, second])), ("mlx5_1", 2, Ok(vec![vec![queue_pair(8, None, &of(5000))]]))];
    kernel
}

#[test]
fn queue_pairs_are_counted_by_process_and_port() {
    let (dir, kernel) = (machine(), kernel());
    let mut source = kernel.source(dir.path());
    let devices = poll(&mut source).unwrap();
    let mlx5_0 = vec![
        holder(1, None, None, 1),
        holder(1, None, Some("ib_core"), 1),
        // Two threads of one process; what is not bound yet can only be bound to the one port.
        holder(1, Some(4711), None, 2),
        holder(1, Some(5000), None, 1),
    ];
    let mlx5_1 = vec![holder(0, Some(5000), None, 1)];
    let named = |name: &str, holders| QueuePairs { device: name.into(), holders };
    assert_eq!(devices, [named("mlx5_0", mlx5_0), named("mlx5_1", mlx5_1)]);
    let all = |kind: u16, length: u32, sequence: u32, rest: &[u8]| {
        [&length.to_ne_bytes()[..], &kind.to_ne_bytes(), &0x301u16.to_ne_bytes(), &sequence.to_ne_bytes(), &[0; 4], rest].concat()
    };
    let questions = [all(GET, 16, 1, &[]), all(QP_GET, 24, 2, &number(DEV_INDEX, 0)), all(QP_GET, 24, 3, &number(DEV_INDEX, 1))];
    assert_eq!(kernel.asked(), questions);
    poll(&mut source).unwrap();
    assert_eq!(kernel.0.lock().unwrap().opened, 1, "the socket is kept");
    assert_eq!((source.remark(), source.every()), (None, Duration::from_secs(15)));
}

#[test]
fn a_device_that_fails_is_asked_less_often_and_the_others_as_before() {
    let (dir, kernel) = (machine(), kernel());
    // EIO: its firmware does not answer.
    kernel.0.lock().unwrap().devices[1].2 = Err(5);
    let mut source = kernel.source(dir.path());
    let mut asked = [0, 0];
    for _ in 0..16 {
        assert_eq!(poll(&mut source).unwrap().len(), 1);
        for request in kernel.asked().iter().filter(|request| request.len() == 24) {
            asked[usize::from(request[20])] += 1;
        }
    }
    assert_eq!(asked, [16, 4], "at 0, 2, 6 and 14");
    let remark = "mlx5_1: 4 of 4 reads fail, asked every 4 m 00 s".to_owned();
    assert_eq!(source.remark(), Some((SourceState::Slow, remark)));
}

#[test]
fn what_the_kernel_does_not_have_or_not_allow_is_a_state_of_the_source() {
    let (dir, kernel) = (machine(), kernel());
    let refused = |errno: i32| Queues::asking(Roots::below(dir.path()), Box::new(move || Err(io::Error::from_raw_os_error(errno))));
    let words = |source: &mut Queues| poll(source).map_err(|err| (err.state(), err.to_string())).unwrap_err();
    let (state, text) = words(&mut refused(93));
    assert_eq!((state, &text[..30]), (SourceState::Absent, "the kernel has no RDMA netlink"));
    assert_eq!(words(&mut refused(1)), (SourceState::Denied, "RDMA netlink: operation not permitted".into()));
    for (errno, state) in [(22, SourceState::Absent), (1, SourceState::Denied)] {
        kernel.0.lock().unwrap().devices.iter_mut().for_each(|device| device.2 = Err(errno));
        let mut source = kernel.source(dir.path());
        assert_eq!(words(&mut source).0, state);
        assert_eq!(source.remark(), None, "that is no trouble of a device");
    }
}

#[test]
fn without_an_rdma_device_no_socket_is_opened() {
    let dir = tempfile::tempdir().unwrap();
    let none = || Queues::asking(Roots::below(dir.path()), Box::new(|| panic!("it loads ib_core")));
    let text = poll(&mut none()).unwrap_err().to_string();
    assert_eq!(text, "/sys/class/infiniband does not exist: no RDMA driver loaded");
    set(dir.path(), "sys/class/infiniband/x", "");
    std::fs::remove_file(dir.path().join("sys/class/infiniband/x")).unwrap();
    assert_eq!(poll(&mut none()).unwrap_err(), SourceError::Absent("/sys/class/infiniband is empty".into()));
}

/// Most machines that run tests have none, and say so; one that has lists what it has.
#[test]
fn the_own_kernel_answers_or_says_that_it_cannot() {
    let dir = machine();
    let mut source = Queues::asking(Roots::below(dir.path()), Box::new(open));
    match poll(&mut source) {
        Ok(devices) => assert!(devices.iter().all(|device| !device.device.is_empty())),
        Err(err) => assert!(err.to_string().contains("RDMA netlink"), "{err}"),
    }
}

#[test]
fn below_another_root_a_file_stands_in_for_the_kernel() {
    let dir = machine();
    let err = poll(&mut Queues::new(Roots::below(dir.path()))).unwrap_err();
    assert!(err.state() == SourceState::Absent && err.to_string().contains("--sysroot") && err.to_string().contains(".res_qp"), "{err}");
    let printed = "link mlx5_0/1 lqpn 1 type GSI state RTS sq-psn 0 comm [ib_core]\n\
                   link mlx5_0/1 lqpn 212 rqpn 99 type RC state RTS rq-psn 5 sq-psn 6 path-mig-state MIGRATED pid 4720 comm python3\n\
                   link mlx5_0/1 lqpn 213 rqpn 98 type RC state RTS rq-psn 5 sq-psn 6 path-mig-state MIGRATED pid 4711 comm python3\n\
                   link mlx5_0/- lqpn 214 type UD state RESET pid x comm\nnothing\n";
    set(dir.path(), "sys/class/infiniband/mlx5_0/.res_qp", printed);
    let [device] = poll(&mut Queues::new(Roots::below(dir.path()))).unwrap().try_into().unwrap();
    let holders = [holder(0, None, None, 1), holder(1, None, Some("ib_core"), 1), holder(1, Some(4711), None, 2)];
    assert_eq!((device.device.as_str(), &device.holders[..]), ("mlx5_0", &holders[..]));
}

fn seen(second: i64, from: &'static str, body: Body) -> Observation {
    Observation { at: Stamp((1_000_000 + second) * 1_000_000_000), host: None, from: SourceId::of(from), body }
}

fn rank(pid: u32, rank: u32) -> ProcessInfo {
    let env = [("RANK", rank), ("WORLD_SIZE", 16), ("LOCAL_WORLD_SIZE", 2)].map(|(name, value)| (name.to_owned(), value.to_string()));
    ProcessInfo {
        pid,
        ppid: 3900,
        start_ticks: 10,
        role: ProcessRole::Rank,
        comm: "python3".into(),
        env: Some(env.into()),
        ..Default::default()
    }
}

fn session() -> Session {
    let mut session = Session::new("node", Zone::UTC);
    let port = PortInfo { device: "mlx5_0".into(), port: 1, kind: PortKind::Roce, ..PortInfo::default() };
    let sample = PortSample { device: "mlx5_0".into(), port: 1, state: Some("ACTIVE".into()), ..PortSample::default() };
    let bodies = [
        ("procs", Body::Process(rank(4711, 3))),
        ("procs", Body::Process(rank(4712, 5))),
        // It may come before the port is known.
        ("qpairs", Body::QueuePairs { devices: vec![held()] }),
        ("rdma", Body::PortInfo(port)),
        ("rdma", Body::Ports { ports: vec![sample] }),
        ("feed", Body::Tick),
    ];
    bodies.into_iter().for_each(|(from, body)| session.apply(&seen(0, from, body), &mut Vec::new()));
    session
}

fn held() -> QueuePairs {
    let holders = vec![
        holder(1, None, Some("ib_core\u{1b}[2J"), 2),
        holder(1, Some(999), None, 1),
        holder(1, Some(4711), None, 16),
        holder(1, Some(4712), None, 8),
        holder(2, Some(4712), None, 4),
    ];
    QueuePairs { device: "mlx5_0".into(), holders }
}

#[test]
fn ranks_stand_beside_the_queue_pairs_of_a_port() {
    let mut session = session();
    let shown = crate::network_panes::zoomed(&session, "network").join("\n").replace('\u{a0}', " ");
    assert!(shown.contains("queue pairs"), "{shown}");
    assert!(shown.contains("rank 3 (pid 4711) 16  rank 5 (pid 4712) 8  pid 999 1  ib_core 2"), "{shown}");
    let json = snapshot::json(&session, Zone::UTC);
    let pairs = &json["ports"][0]["queue_pairs"];
    assert_eq!(pairs.as_array().unwrap().len(), 4, "{pairs}");
    let first = &pairs[0];
    assert_eq!((first["rank"].as_u64(), first["pid"].as_u64(), first["count"].as_u64()), (Some(3), Some(4711), Some(16)));
    assert!(first["job"].is_string() && first["kernel"].is_null(), "{first}");
    assert_eq!(pairs[3]["count"].as_u64(), Some(2));
    session.apply(&seen(90, "feed", Body::Tick), &mut Vec::new());
    let shown = crate::network_panes::zoomed(&session, "network").join("\n");
    assert!(shown.contains("1 m 30 s ago"), "what is old says so: {shown}");
    let none = worlds::p5();
    assert!(snapshot::json(&none, Zone::UTC)["ports"][0]["queue_pairs"].is_null(), "not known is not none");
}

#[test]
fn they_stand_on_the_tape_and_without_rdma_leaves_them_out() {
    let told = seen(0, "qpairs", Body::QueuePairs { devices: vec![held()] });
    let line = serde_json::to_string(&told).unwrap();
    assert!(line.contains(r#""kind":"queue_pairs""#), "{line}");
    assert_eq!(serde_json::from_str::<Observation>(&line).unwrap(), told);
    assert_eq!(filter(told, &[Without::Rdma]), None);
    assert!(Without::Rdma.sources().contains(&"qpairs"));
}

/// The answers of a whole dump, as one datagram.
fn datagram() -> Vec<u8> {
    let pairs: Vec<Vec<u8>> = (0..9).map(|n| queue_pair(n, Some(1), &number(RES_PID, 4000 + n % 3))).collect();
    [message(QP_GET, 7, &listed(0, "mlx5_0", &pairs)), message(GET, 7, &device(0, "mlx5_0", 1)), done(7)].concat()
}

fn read(datagram: &[u8]) -> (Dump, Counts, Vec<Device>) {
    let (mut counts, mut devices) = (Counts::new(), Vec::new());
    let device = Device { index: 0, name: "mlx5_0".into(), ports: 1 };
    let end = take(datagram, 7, |payload| {
        device.count(payload, &mut counts);
        devices.extend(Device::of(payload));
    });
    (end, counts, devices)
}

#[test]
fn a_whole_dump_is_read() {
    let (end, counts, devices) = read(&datagram());
    assert_eq!((end, counts.len(), counts.values().sum::<u32>(), devices.len()), (Dump::Ends, 3, 9, 2));
}

proptest! {
    /// Whatever stands in a datagram, it is read to an end, and no more is made of it than it can hold.
    #[test]
    fn bytes_of_anybody_are_read_within_bounds(
        bytes in prop::collection::vec(any::<u8>(), 0..600),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..12),
        cut in any::<prop::sample::Index>(),
    ) {
        let mut damaged = datagram();
        for (at, byte) in changes {
            let at = at.index(damaged.len());
            damaged[at] = byte;
        }
        damaged.truncate(cut.index(damaged.len() + 1));
        for input in [bytes, damaged] {
            let (_, counts, devices) = read(&input);
            // The smallest entry has four bytes.
            prop_assert!(counts.values().sum::<u32>() as usize <= input.len() / 4);
            prop_assert!(devices.len() <= input.len() / 16 && devices.iter().all(|d| d.name.len() <= 3 * 64));
        }
    }
}

#[test]
fn a_list_without_an_end_and_one_that_stops_are_given_up() {
    struct Endless(bool);
    impl Netlink for Endless {
        fn send(&mut self, _: &[u8]) -> io::Result<()> {
            Ok(())
        }

        fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            buffer[..16].fill(0);
            if self.0 { Ok(16) } else { Err(io::ErrorKind::WouldBlock.into()) }
        }
    }
    let dir = machine();
    for endless in [true, false] {
        let mut source = Queues::asking(Roots::below(dir.path()), Box::new(move || Ok(Box::new(Endless(endless)))));
        assert_eq!(poll(&mut source).unwrap_err().state(), SourceState::Failed);
    }
}
