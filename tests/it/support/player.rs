//! Plays a script into a tree: files change as the kernel would change them. What happens between two looks is counted, too.

use super::play::{Play, Train, What};
use super::worlds::Doing;
use super::{tree, worlds};
use nccl_top::observe::gpu::GpuHealth;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Rates hold for so long.
const PIECE_MS: u64 = 50;
/// USER_HZ
const TICKS_PER_S: f64 = 100.0;
/// What a packet carries: EFA, path MTU 4096 of InfiniBand and RoCE, Ethernet without jumbo frames.
const EFA_PACKET: f64 = 8800.0;
const IB_PACKET: f64 = 4096.0;
const ETH_PACKET: f64 = 1448.0;

/// Counters of fewer than 64 bits that wrap: those of a queue pair's work in mlx5.
const WRAP_AT_32: &[&str] = &[
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "out_of_buffer",
    "out_of_sequence",
    "packet_seq_err",
    "duplicate_request",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "req_cqe_error",
    "resp_cqe_error",
    "req_cqe_flush_error",
    "resp_cqe_flush_error",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
];
/// Those that stay at their greatest value, with their bits.
const SATURATE: &[(&str, u32)] = &[
    ("symbol_error", 16),
    ("port_rcv_errors", 16),
    ("port_xmit_discards", 16),
    ("port_rcv_remote_physical_errors", 16),
    ("port_rcv_switch_relay_errors", 16),
    ("link_error_recovery", 8),
    ("link_downed", 8),
    ("local_link_integrity_errors", 4),
    ("excessive_buffer_overrun_errors", 4),
];

/// A machine in a directory, at a moment of its script.
pub struct Player {
    root: PathBuf,
    pub play: Play,
    now: u64,
    /// Lines of trees written so far, as cues.
    written: usize,
    wires: Vec<Wire>,
    counters: BTreeMap<PathBuf, Counter>,
    widths: BTreeMap<String, u32>,
    /// Lines of steps written so far, by cue.
    steps: BTreeMap<usize, u64>,
    /// Lines of the kernel's log handed on so far.
    kernel_told: usize,
    cpus: f64,
}

/// An RDMA device or an interface.
struct Wire {
    name: String,
    kind: Kind,
    /// The directories of counters.
    dirs: Vec<PathBuf>,
    /// Of a RoCE port.
    netdev: Option<String>,
    down: bool,
    gone: Option<PathBuf>,
    /// Bytes since the files were last written.
    sent: f64,
    received: f64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Efa,
    Mlx5,
    Netdev,
}

struct Counter {
    value: u64,
    /// Less than one.
    rest: f64,
    /// What the file holds.
    written: u64,
    width: Width,
}

#[derive(Clone, Copy)]
enum Width {
    Wraps(u32),
    Saturates(u32),
}

impl Player {
    /// Writes the machine of `play` into `root`, as it is at the beginning.
    pub fn new(root: &Path, play: Play) -> Player {
        tree::write(root, &tree::read(&format!("hosts/{}.tree", play.host)));
        let stat = fs::read_to_string(root.join("proc/stat")).unwrap_or_default();
        let cpus = stat.lines().filter(|line| line.starts_with("cpu")).count().saturating_sub(1) as f64;
        let mut player = Player {
            root: root.to_owned(),
            play,
            now: 0,
            written: 0,
            wires: wires(root),
            counters: BTreeMap::new(),
            widths: BTreeMap::new(),
            steps: BTreeMap::new(),
            kernel_told: 0,
            cpus,
        };
        player.write_lines();
        player
    }

    pub fn is_over(&self) -> bool {
        u128::from(self.now) >= self.play.lasts.as_millis()
    }

    /// A job makes steps.
    pub fn trains(&self) -> bool {
        self.train_at(self.now).is_some()
    }

    /// What a modelled GPU does now.
    pub fn doing(&self, gpu: u32) -> Doing {
        let told = self.play.cues.iter().rev().filter(|cue| cue.holds_at(self.now)).find_map(|cue| match cue.what {
            What::Gpus { gpus: (first, last), doing } if (first..=last).contains(&gpu) => Some(doing),
            _ => None,
        });
        told.unwrap_or(if self.trains() { Doing::Training } else { Doing::Nothing })
    }

    /// Lines of the kernel's log that have come since the last look.
    pub fn kernel_lines(&mut self) -> Vec<String> {
        let lines = self.play.cues.iter().filter(|cue| cue.from <= self.now).filter_map(|cue| match &cue.what {
            What::Kernel(text) => Some(text.clone()),
            _ => None,
        });
        let new: Vec<String> = lines.skip(self.kernel_told).collect();
        self.kernel_told += new.len();
        new
    }

    /// What NVML shows of the NVLink fabric now; of a GPU the last that was begun holds.
    pub fn fabric(&self) -> Vec<GpuHealth> {
        let mut gpus = BTreeMap::new();
        for cue in self.play.cues.iter().filter(|cue| cue.holds_at(self.now)) {
            if let What::Fabric { gpus: (first, last), health } = &cue.what {
                gpus.extend((*first..=*last).map(|index| (index, GpuHealth { index, ..(**health).clone() })));
            }
        }
        gpus.into_values().collect()
    }

    /// Goes on to `to`, ms after the beginning, and writes what is then to be seen.
    pub fn advance(&mut self, to: u64) {
        let from = self.now;
        while self.now < to {
            let next = (self.now + PIECE_MS).min(to);
            self.flow(next - self.now);
            self.now = next;
        }
        self.write_lines();
        self.switch_links(from);
        self.count(from);
        self.work(from);
        self.write_steps();
        self.flush();
    }

    /// The lines of trees, resets and widths that are due.
    fn write_lines(&mut self) {
        while let Some(cue) = self.play.cues.get(self.written).filter(|cue| cue.from <= self.now) {
            match &cue.what {
                What::Tree(line) => {
                    tree::write(&self.root, line);
                    // Counters go on from what it says.
                    if let Some((path, _)) = line.split_once(" = ") {
                        let path = self.root.join(path);
                        let real = fs::canonicalize(&path).unwrap_or(path);
                        self.counters.remove(&real);
                    }
                }
                What::Ends { pids: (first, last) } => {
                    for pid in *first..=*last {
                        fs::remove_dir_all(self.root.join(format!("proc/{pid}"))).expect("a process to end");
                    }
                }
                What::Width { counter, bits } => drop(self.widths.insert(counter.clone(), *bits)),
                What::Reset { ports } => {
                    let dirs: Vec<PathBuf> =
                        self.wires.iter().filter(|wire| ports.has(&wire.name)).flat_map(|wire| wire.dirs.clone()).collect();
                    for dir in dirs {
                        for file in fs::read_dir(&dir).into_iter().flatten().flatten() {
                            if file.file_name() != "lifespan" {
                                tree::put(&file.path(), "0\n");
                                self.counters.remove(&file.path());
                            }
                        }
                    }
                }
                _ => {}
            }
            self.written += 1;
        }
    }

    /// What is sent and received in `ms` from now.
    fn flow(&mut self, ms: u64) {
        let at = self.now;
        let train = self.train_at(at);
        for wire in &mut self.wires {
            let (mut sent, mut received, mut share) = (0.0, 0.0, 1.0);
            for cue in self.play.cues.iter().filter(|cue| cue.holds_at(at)) {
                match &cue.what {
                    What::Traffic { ports, send, receive, steady } if ports.has(&wire.name) => {
                        let now = match &train {
                            _ if *steady => 1.0,
                            Some((train, ms)) => burst(train, *ms, &wire.name, self.play.seed),
                            None => 0.0,
                        };
                        sent += send * now;
                        received += receive * now;
                    }
                    What::Slow { ports, share: left } if ports.has(&wire.name) => share *= left,
                    What::Down { ports } | What::Gone { ports } if ports.has(&wire.name) => share = 0.0,
                    _ => {}
                }
            }
            let seconds = ms as f64 / 1e3;
            wire.sent += sent * share * seconds;
            wire.received += received * share * seconds;
        }
    }

    /// The training that runs, and for how long.
    fn train_at(&self, at: u64) -> Option<(Train, u64)> {
        let cue = self.play.cues.iter().rev().find(|cue| cue.holds_at(at) && matches!(cue.what, What::Train(_)))?;
        let What::Train(train) = &cue.what else { return None };
        Some((train.clone(), at - cue.from))
    }

    /// Links that went down, came up, or both, since `from`.
    fn switch_links(&mut self, from: u64) {
        let now = self.now;
        for at in 0..self.wires.len() {
            let (mut fell, mut rose, mut is_down, mut is_gone) = (0u64, 0u64, false, false);
            let wire = &self.wires[at];
            for cue in &self.play.cues {
                match &cue.what {
                    What::Down { ports } if ports.has(&wire.name) && wire.kind != Kind::Efa => {
                        fell += u64::from(from < cue.from && cue.from <= now);
                        rose += u64::from(from < cue.to && cue.to <= now);
                        is_down |= cue.holds_at(now);
                    }
                    What::Gone { ports } if ports.has(&wire.name) => is_gone |= cue.holds_at(now),
                    _ => {}
                }
            }
            let (name, kind, netdev) = (wire.name.clone(), wire.kind, wire.netdev.clone());
            if fell > 0 && kind == Kind::Mlx5 {
                self.add(at, "link_downed", fell as f64);
            }
            let interface = if kind == Kind::Netdev { Some(name.clone()) } else { netdev };
            if fell + rose > 0
                && let Some(interface) = &interface
            {
                let path = self.root.join(format!("sys/class/net/{interface}/carrier_changes"));
                add_to_file(&path, fell + rose);
            }
            if is_down != self.wires[at].down {
                self.wires[at].down = is_down;
                let (state, phys, operstate, carrier) =
                    if is_down { ("1: DOWN", "2: Polling", "down", "0") } else { ("4: ACTIVE", "5: LinkUp", "up", "1") };
                if kind == Kind::Mlx5 {
                    tree::set(&self.root, &format!("sys/class/infiniband/{name}/ports/1/state"), state);
                    tree::set(&self.root, &format!("sys/class/infiniband/{name}/ports/1/phys_state"), phys);
                }
                if let Some(interface) = &interface {
                    tree::set(&self.root, &format!("sys/class/net/{interface}/operstate"), operstate);
                    tree::set(&self.root, &format!("sys/class/net/{interface}/carrier"), carrier);
                }
            }
            self.take_away(at, is_gone);
        }
    }

    /// Removes a device, or brings it back.
    fn take_away(&mut self, at: usize, gone: bool) {
        let wire = &mut self.wires[at];
        let class = if wire.kind == Kind::Netdev { "net" } else { "infiniband" };
        let link = self.root.join("sys/class").join(class).join(&wire.name);
        match (gone, wire.gone.take()) {
            (true, None) => {
                wire.gone = fs::read_link(&link).ok();
                fs::remove_file(&link).unwrap_or_else(|err| panic!("{}: {err}", link.display()));
            }
            (false, Some(target)) => {
                std::os::unix::fs::symlink(target, &link).unwrap_or_else(|err| panic!("{}: {err}", link.display()));
            }
            (_, kept) => wire.gone = kept,
        }
    }

    /// Traffic becomes counters, and others grow besides.
    fn count(&mut self, from: u64) {
        for at in 0..self.wires.len() {
            let wire = &mut self.wires[at];
            let (sent, received) = (std::mem::take(&mut wire.sent), std::mem::take(&mut wire.received));
            let seconds = (self.now - from) as f64 / 1e3;
            match wire.kind {
                Kind::Efa => self.count_efa(at, sent, received, seconds),
                Kind::Mlx5 => {
                    self.add(at, "port_xmit_data", sent / 4.0);
                    self.add(at, "port_rcv_data", received / 4.0);
                    for name in ["port_xmit_packets", "unicast_xmit_packets"] {
                        self.add(at, name, sent / IB_PACKET);
                    }
                    for name in ["port_rcv_packets", "unicast_rcv_packets"] {
                        self.add(at, name, received / IB_PACKET);
                    }
                    self.add(at, "rx_write_requests", received / 524_288.0);
                    // A busy healthy port waits for credits, too.
                    self.add(at, "port_xmit_wait", sent / 2000.0);
                }
                Kind::Netdev => {
                    self.add(at, "tx_bytes", sent);
                    self.add(at, "rx_bytes", received);
                    self.add(at, "tx_packets", sent / ETH_PACKET);
                    self.add(at, "rx_packets", received / ETH_PACKET);
                }
            }
            let name = &self.wires[at].name;
            let more: Vec<(String, f64)> = self
                .play
                .cues
                .iter()
                .filter_map(|cue| match &cue.what {
                    What::Count { ports, counter, per_s } if ports.has(name) => {
                        let seconds = self.now.min(cue.to).saturating_sub(from.max(cue.from)) as f64 / 1e3;
                        Some((counter.clone(), per_s * seconds))
                    }
                    _ => None,
                })
                .collect();
            more.iter().for_each(|(counter, amount)| self.add(at, counter, *amount));
        }
    }

    fn count_efa(&mut self, at: usize, sent: f64, received: f64, seconds: f64) {
        self.add(at, "tx_bytes", sent);
        self.add(at, "rx_bytes", received);
        self.add(at, "tx_pkts", sent / EFA_PACKET);
        self.add(at, "rx_pkts", received / EFA_PACKET);
        // Where there are no RDMA writes, the plugin sends and receives.
        if self.has(at, "rdma_write_bytes") {
            self.add(at, "rdma_write_bytes", sent * 0.98);
            self.add(at, "rdma_write_wrs", sent / 500_000.0);
            self.add(at, "rdma_write_recv_bytes", received * 0.98);
        } else {
            self.add(at, "send_bytes", sent * 0.98);
            self.add(at, "send_wrs", sent / 500_000.0);
            self.add(at, "recv_bytes", received * 0.98);
            self.add(at, "recv_wrs", received / 500_000.0);
        }
        for name in ["keep_alive_rcvd", "submitted_cmds", "completed_cmds"] {
            self.add(at, name, seconds);
        }
    }

    fn has(&self, at: usize, name: &str) -> bool {
        self.wires[at].dirs.iter().any(|dir| dir.join(name).is_file())
    }

    /// Adds to a counter, where the port has it.
    fn add(&mut self, at: usize, name: &str, amount: f64) {
        if amount <= 0.0 || self.wires[at].gone.is_some() {
            return;
        }
        for dir in &self.wires[at].dirs {
            let path = if name.starts_with("ethtool/") { dir.with_file_name(name) } else { dir.join(name) };
            if !self.counters.contains_key(&path) {
                let Some(value) = counter_of(&path) else { continue };
                let counter = Counter { value, rest: 0.0, written: value, width: width(name, &self.widths) };
                self.counters.insert(path.clone(), counter);
            }
            if let Some(counter) = self.counters.get_mut(&path) {
                counter.add(amount);
            }
        }
    }

    /// CPUs, and time.
    fn work(&mut self, from: u64) {
        let seconds = (self.now - from) as f64 / 1e3;
        let running: Vec<(u32, u32, f64)> = self
            .play
            .cues
            .iter()
            .filter_map(|cue| match &cue.what {
                What::Runs { pids, cpus } if cue.holds_at(self.now) => Some((pids.0, pids.1, *cpus)),
                _ => None,
            })
            .collect();
        let mut busy = 0.02 * self.cpus;
        for (first, last, cpus) in running {
            busy += f64::from(last - first + 1) * cpus;
            for pid in first..=last {
                let path = self.root.join(format!("proc/{pid}/stat"));
                let Ok(text) = fs::read_to_string(&path) else { continue };
                tree::put(&path, &with_more(&text, 13, (cpus * seconds * TICKS_PER_S) as u64));
            }
        }
        let path = self.root.join("proc/stat");
        let text = fs::read_to_string(&path).expect("proc/stat");
        let (cpu, rest) = text.split_once('\n').expect("a line");
        let cpu = with_more(&cpu.replacen("  ", " ", 1), 1, (busy * seconds * TICKS_PER_S) as u64);
        let idle = (self.cpus - busy).max(0.0);
        let cpu = with_more(&cpu, 4, (idle * seconds * TICKS_PER_S) as u64);
        tree::put(&path, &format!("{}\n{rest}", cpu.replacen(' ', "  ", 1)));
        let up = 86_400.0 + self.now as f64 / 1e3;
        tree::set(&self.root, "proc/uptime", &format!("{up:.2} {:.2}", up * self.cpus * 0.9));
    }

    /// A line for each step that has ended.
    fn write_steps(&mut self) {
        for (at, cue) in self.play.cues.iter().enumerate() {
            let What::Train(train @ Train { log: Some(log), from, every_ms, .. }) = &cue.what else { continue };
            let done = self.now.min(cue.to).saturating_sub(cue.from) / every_ms;
            let told = self.steps.entry(at).or_default();
            for n in *told..done {
                tree::append(&self.root, log, &step_line(from + n, train, self.play.seed));
            }
            *told = done;
        }
    }

    fn flush(&mut self) {
        for (path, counter) in &mut self.counters {
            if counter.value != counter.written {
                counter.written = counter.value;
                put_counter(path, counter.value);
            }
        }
    }
}

impl Counter {
    fn add(&mut self, amount: f64) {
        self.rest += amount;
        let whole = self.rest.floor();
        self.rest -= whole;
        let sum = self.value.wrapping_add(whole as u64);
        self.value = match self.width {
            Width::Wraps(64) => sum,
            Width::Wraps(bits) => sum % (1 << bits),
            Width::Saturates(bits) => sum.min((1 << bits) - 1),
        };
    }
}

/// Where the path is that of a counter of `ethtool -S`: the file that stands in for it, and how the counter's line begins.
fn stand_in(path: &Path) -> Option<(PathBuf, String)> {
    let dir = path.parent().filter(|dir| dir.ends_with("ethtool"))?;
    Some((dir.with_file_name(".ethtool"), format!("{}:", path.file_name()?.to_str()?)))
}

fn counter_of(path: &Path) -> Option<u64> {
    let text = match stand_in(path) {
        Some((file, name)) => fs::read_to_string(file).ok()?.lines().find_map(|line| line.trim().strip_prefix(&name).map(str::to_owned))?,
        None => fs::read_to_string(path).ok()?,
    };
    text.trim().parse().ok()
}

fn put_counter(path: &Path, value: u64) {
    let Some((file, name)) = stand_in(path) else { return tree::put(path, &format!("{value}\n")) };
    let text = fs::read_to_string(&file).unwrap_or_default();
    let with = |line: &str| if line.trim().starts_with(&name) { format!("     {name} {value}\n") } else { format!("{line}\n") };
    tree::put(&file, &text.lines().map(with).collect::<String>());
}

fn width(name: &str, widths: &BTreeMap<String, u32>) -> Width {
    if let Some(bits) = widths.get(name) {
        return Width::Wraps(*bits);
    }
    match SATURATE.iter().find(|(known, _)| *known == name) {
        Some((_, bits)) => Width::Saturates(*bits),
        None => Width::Wraps(if WRAP_AT_32.contains(&name) { 32 } else { 64 }),
    }
}

/// All RDMA devices with counters, and all interfaces.
fn wires(root: &Path) -> Vec<Wire> {
    let names = |class: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(root.join("sys/class").join(class)).into_iter().flatten().flatten();
        entries.filter(|entry| entry.path().is_dir()).filter_map(|entry| entry.file_name().into_string().ok()).collect()
    };
    let wire = |name: String, kind, dirs: Vec<PathBuf>, netdev| Wire {
        name,
        kind,
        dirs: dirs.iter().filter_map(|dir| fs::canonicalize(dir).ok()).collect(),
        netdev,
        down: false,
        gone: None,
        sent: 0.0,
        received: 0.0,
    };
    let rdma = names("infiniband").into_iter().map(|name| {
        let dir = root.join("sys/class/infiniband").join(&name);
        let is_efa = fs::read_to_string(dir.join("node_type")).is_ok_and(|text| text.starts_with('7'));
        let netdev = fs::read_to_string(dir.join("ports/1/gid_attrs/ndevs/0")).ok().map(|text| text.trim().to_owned());
        let dirs = ["ports/1/counters", "ports/1/hw_counters", "hw_counters"].map(|name| dir.join(name)).to_vec();
        wire(name, if is_efa { Kind::Efa } else { Kind::Mlx5 }, dirs, netdev)
    });
    let net = names("net").into_iter().map(|name| {
        let dir = root.join("sys/class/net").join(&name).join("statistics");
        wire(name, Kind::Netdev, vec![dir], None)
    });
    rdma.chain(net).collect()
}

/// How much more than the mean flows: nothing in the quiet part of a step, and more or less by port and step.
fn burst(train: &Train, ms: u64, port: &str, seed: u64) -> f64 {
    let step = ms / train.every_ms;
    let phase = (ms % train.every_ms) as f64 / train.every_ms as f64;
    if phase >= train.busy {
        return 0.0;
    }
    let port = port.bytes().fold(seed, |seed, byte| seed.wrapping_mul(31).wrapping_add(u64::from(byte)));
    (1.0 + train.uneven * worlds::noise(port, step)) / train.busy
}

fn step_line(step: u64, train: &Train, seed: u64) -> String {
    let noise = worlds::noise(seed + 11, step);
    let loss = match train.falls {
        Some(falls) => 2.2 + 0.012 * noise + falls * (1300.0 - step as f64),
        None => 2.31 + 0.04 * noise - step as f64 * 1e-5,
    };
    let loss = if train.nan { "nan".to_owned() } else { format!("{loss:.4}") };
    let ms = train.every_ms as f64 * (1.0 + 0.1 * train.uneven * worlds::noise(seed + 12, step));
    format!("step {step}/50000 | loss {loss} | step_time {ms:.1} ms | tokens/s {:.0}", 4_194_304.0 / ms * 1e3)
}

/// The text with `more` added to the number that is its `field`th word.
fn with_more(text: &str, field: usize, more: u64) -> String {
    let mut words: Vec<String> = text.split(' ').map(str::to_owned).collect();
    if let Some(value) = words.get(field).and_then(|word| word.trim().parse::<u64>().ok()) {
        words[field] = (value + more).to_string();
    }
    words.join(" ")
}

fn add_to_file(path: &Path, more: u64) {
    let value: u64 = fs::read_to_string(path).ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    tree::put(path, &format!("{}\n", value + more));
}
