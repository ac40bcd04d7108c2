//! Interfaces of a real kernel, against what is known to have passed them: a pair of them in network namespaces, limited to a rate.
//!
//! `sudo env PATH="$PATH" cargo test --test it veth:: -- --ignored --nocapture`, half a minute; needs `ip` and `tc` (iproute2).

#![allow(clippy::print_stdout)]

use nccl_top::base::time::Stamp;
use nccl_top::observe::Body;
use nccl_top::recording::tape::Reader;
use std::net::UdpSocket;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Of the limit, with its own letters for `tc`.
const LIMIT: &str = "80mbit";
const LIMIT_BYTES_PER_S: f64 = 10e6;
/// A datagram that fills a frame: 1472 bytes, with 8 of UDP, 20 of IP and 14 of Ethernet.
const PAYLOAD: usize = 1472;
const FRAME: u64 = 1514;
/// Eight seconds at the limit.
const DATAGRAMS: u64 = 52_840;
const ADDRESSES: [&str; 2] = ["10.77.0.1", "10.77.0.2"];
const PORT: u16 = 7777;

/// Two namespaces with an interface each, joined by a cable; both are gone with this.
struct Cable([String; 2]);

fn run(program: &str, arguments: &str) {
    let status = Command::new(program).args(arguments.split_whitespace()).status();
    let worked = status.as_ref().is_ok_and(std::process::ExitStatus::success);
    assert!(worked, "{program} {arguments}: {status:?}; it needs root and iproute2");
}

impl Cable {
    fn new(name: &str) -> Cable {
        let cable = Cable(["a", "b"].map(|end| format!("nccltop-{name}-{}-{end}", std::process::id())));
        cable.0.iter().for_each(|space| run("ip", &format!("netns add {space}")));
        let [a, b] = &cable.0;
        run("ip", &format!("-n {a} link add va type veth peer name vb netns {b}"));
        for ((space, end), address) in [(a, "va"), (b, "vb")].into_iter().zip(ADDRESSES) {
            run("ip", &format!("-n {space} address add {address}/24 dev {end}"));
            run("ip", &format!("-n {space} link set {end} up"));
        }
        cable
    }

    /// A program in one of the namespaces, which sees the interfaces of that one in /sys.
    fn inside(&self, end: usize, program: &Path) -> Command {
        let mut command = Command::new("ip");
        command.args(["netns", "exec", &self.0[end]]).arg(program);
        command
    }

    /// What nccl-top records on the first end in some seconds.
    fn record(&self, tape: &Path, seconds: u32) -> Running {
        let mut command = self.inside(0, Path::new(env!("CARGO_BIN_EXE_nccl-top")));
        command.args(["record", "--for", &format!("{seconds}s"), "--without", "nvml", "--without", "ras", "-o"]).arg(tape);
        Running(command.stdout(std::process::Stdio::null()).spawn().unwrap())
    }
}

impl Drop for Cable {
    fn drop(&mut self) {
        for space in &self.0 {
            let _ = Command::new("ip").args(["netns", "del", space]).status();
        }
    }
}

struct Running(Child);

impl Running {
    fn end(mut self) {
        assert!(self.0.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test: sends datagrams from within a namespace.
#[test]
#[ignore = "is started by another test"]
fn sender() {
    let Some(count) = std::env::var("VETH_DATAGRAMS").ok().and_then(|count| count.parse::<u64>().ok()) else { return };
    let socket = UdpSocket::bind((ADDRESSES[0], 0)).unwrap();
    socket.connect((ADDRESSES[1], PORT)).unwrap();
    // The room of the socket is smaller than that of the queue: it waits, and nothing is dropped.
    for _ in 0..count {
        assert_eq!(socket.send(&[7; PAYLOAD]).unwrap(), PAYLOAD);
    }
}

/// Not a test: takes datagrams, so that nobody refuses them.
#[test]
#[ignore = "is started by another test"]
fn sink() {
    let Some(ready) = std::env::var_os("VETH_READY").map(PathBuf::from) else { return };
    let socket = UdpSocket::bind((ADDRESSES[1], PORT)).unwrap();
    std::fs::write(ready, "").unwrap();
    while socket.recv(&mut [0; PAYLOAD]).is_ok() {}
}

fn helper(cable: &Cable, end: usize, name: &str, variable: (&str, &str)) -> Running {
    let mut command = cable.inside(end, &std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored"]).env(variable.0, variable.1).stdout(std::process::Stdio::null());
    Running(command.spawn().unwrap())
}

fn wait_for(path: &Path) {
    let began = Instant::now();
    while !path.exists() {
        assert!(began.elapsed() < Duration::from_secs(30), "{}", path.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
#[ignore = "needs root and iproute2: sudo env PATH=\"$PATH\" cargo test --test it veth:: -- --ignored --nocapture"]
fn rates_of_an_interface_are_those_of_the_traffic() {
    let dir = tempfile::tempdir().unwrap();
    let (tape, ready) = (dir.path().join("x.jsonl"), dir.path().join("ready"));
    let cable = Cable::new("rate");
    run("tc", &format!("-n {} qdisc add dev va root tbf rate {LIMIT} burst 64kb limit 4mb", cable.0[0]));
    let _sink = helper(&cable, 1, "veth::sink", ("VETH_READY", ready.to_str().unwrap()));
    wait_for(&ready);
    let recording = cable.record(&tape, 14);
    std::thread::sleep(Duration::from_secs(3));
    helper(&cable, 0, "veth::sender", ("VETH_DATAGRAMS", &DATAGRAMS.to_string())).end();
    recording.end();

    let mut reader = Reader::open(&tape).unwrap();
    let mut session = reader.header().session();
    let (mut rates, mut first, mut last, mut best) = (Vec::new(), None, 0, 0.0f64);
    while let Some(seen) = reader.read().unwrap() {
        session.apply(&seen, &mut Vec::new());
        let is_sample = matches!(seen.body, Body::Netdevs { .. });
        let Some(netdev) = session.model.netdevs.get("va").filter(|_| is_sample) else { continue };
        last = netdev.counters.value("tx_bytes").unwrap();
        first.get_or_insert(last);
        rates.extend(netdev.counters.rate("tx_bytes").filter(|rate| *rate > LIMIT_BYTES_PER_S / 2.0));
        best = best.max(netdev.tx_newest(seen.at).unwrap_or(0.0));
    }
    rates.sort_by(f64::total_cmp);
    let median = rates[rates.len() / 2];
    let (passed, sent) = ((last - first.unwrap()) as f64, (DATAGRAMS * FRAME) as f64);
    println!("sent {sent} bytes, counted {passed} ({:+.2} %)", (passed / sent - 1.0) * 100.0);
    println!(
        "limit {LIMIT_BYTES_PER_S} bytes/s, {} samples, median {median:.0} ({:+.2} %)",
        rates.len(),
        (median / LIMIT_BYTES_PER_S - 1.0) * 100.0
    );
    println!("mean of five seconds, as shown: {best:.0} ({:+.2} %)", (best / LIMIT_BYTES_PER_S - 1.0) * 100.0);
    assert!((passed / sent - 1.0).abs() < 0.02, "{passed} of {sent} bytes");
    assert!((median / LIMIT_BYTES_PER_S - 1.0).abs() < 0.02, "{rates:?}");
    assert!((best / LIMIT_BYTES_PER_S - 1.0).abs() < 0.02, "{best}");
}

#[test]
#[ignore = "needs root and iproute2: sudo env PATH=\"$PATH\" cargo test --test it veth:: -- --ignored --nocapture"]
fn flaps_between_two_polls_of_a_real_interface_are_counted_and_named() {
    let dir = tempfile::tempdir().unwrap();
    let (tape, batch) = (dir.path().join("x.jsonl"), dir.path().join("flaps"));
    let cable = Cable::new("flap");
    let recording = cable.record(&tape, 8);
    std::thread::sleep(Duration::from_secs(4));
    std::fs::write(&batch, "link set vb down\nlink set vb up\n".repeat(3)).unwrap();
    let began = Instant::now();
    run("ip", &format!("-n {} -batch {}", cable.0[1], batch.display()));
    println!("three flaps in {:.0} ms", began.elapsed().as_secs_f64() * 1e3);
    recording.end();

    let mut reader = Reader::open(&tape).unwrap();
    let mut session = reader.header().session();
    let mut down = 0;
    while let Some(mut seen) = reader.read().unwrap() {
        if let Body::Netdevs { netdevs } = &mut seen.body {
            for netdev in netdevs.iter_mut().filter(|netdev| netdev.name == "va") {
                down += usize::from(netdev.carrier == Some(false));
                // Rules look at hardware alone.
                netdev.bus_id = Some("0000:05:00.0".into());
            }
        }
        session.apply(&seen, &mut Vec::new());
    }
    let now: Stamp = session.model.now;
    let grown = session.model.netdevs["va"].counters.grown("carrier_changes", now, Duration::from_secs(60)).unwrap();
    println!("carrier_changes {} -> {}, seen down by {down} polls", grown.from, grown.to);
    assert_eq!(grown.by, 6);
    let named: Vec<_> = session.ledger.open().into_iter().filter(|f| f.rule == "nic-flapping").map(|f| f.summary.clone()).collect();
    assert_eq!(named, ["interface va went down 3 times within 10 m 00 s"]);
    println!("{}", named[0]);
}
