//! Ports below /sys/class/infiniband, whatever the driver: EFA, InfiniBand, RoCE, iWARP. Tells counters raw and cumulative, and never
//! takes a name for a fact.

use super::netdev::speed_mbits_per_s;
use super::pace::{self, Answer, Pace};
use super::sysfs::{Attribute, Dir, PciFacts, PciFunction, Reader, driver_version, link_name, names, number, polls_per_listing};
use super::{Complaint, Hint, Roots, Setup, Source, SourceError};
use crate::base::platforms::efa_line_rate;
use crate::base::words::io_words;
use crate::observe::port::{PortInfo, PortKind, PortSample};
use crate::observe::{Body, SourceState};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

const CLASS: &str = "/sys/class/infiniband";
const COUNTERS_HIDDEN: &str = "counters hidden by network namespace";

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    let rdma = Rdma::new(setup.roots.clone(), setup.interval);
    Box::new(match setup.rdma_inbox.take() {
        Some(inbox) => rdma.listening(inbox),
        None => rdma,
    })
}

pub struct Rdma {
    roots: Roots,
    every: Duration,
    reader: Reader,
    /// Every port ever seen, in the order of names. One that is gone stays and is reported as unreadable: that it went is news.
    ports: Vec<Port>,
    polls_to_listing: u32,
    inbox: Option<Receiver<Hint>>,
}

struct Port {
    info: PortInfo,
    dir: PathBuf,
    netdev_dir: Option<PathBuf>,
    product: Option<String>,
    sets: Vec<CounterSet>,
    state: Option<String>,
    state_attribute: Attribute,
    phys_state: Option<String>,
    phys_state_attribute: Attribute,
    line_rate_bits_per_s: Option<u64>,
    rate: Rate,
    presence: Presence,
    /// Of the device: that of its first port counts.
    pace: Pace,
}

/// Reading `rate` and `speed` makes drivers ask the firmware, so it is done at a listing and when the port changed its state.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rate {
    Due,
    Known,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    There,
    Gone,
}

/// One directory of counters.
struct CounterSet {
    /// As in `PortSample::unreadable`.
    name: &'static str,
    /// Before the names of its files.
    prefix: &'static str,
    dir: PathBuf,
    files: Vec<CounterFile>,
}

struct CounterFile {
    name: String,
    attribute: Attribute,
    /// What was reported last. Samples hold only what changed since: most of a port's thirty counters count errors and stand still, and
    /// on a tape of 32 ports at one sample per second they would be nine tenths of the bytes.
    told: Option<u64>,
    reads: Reads,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Reads {
    AtEveryPoll,
    /// It could never be read (`N/A (no PMA)`, EINVAL): tried again at the next listing.
    AtListing,
}

impl Rdma {
    pub fn new(roots: Roots, every: Duration) -> Self {
        Rdma { reader: Reader::keeping_open(&roots), roots, every, ports: Vec::new(), polls_to_listing: 0, inbox: None }
    }

    /// One that is told what drivers complain about.
    pub fn listening(self, inbox: Receiver<Hint>) -> Self {
        Rdma { inbox: Some(inbox), ..self }
    }

    fn list(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        let class = self.roots.path(CLASS);
        let devices = names(&class).map_err(|err| match err.kind() {
            io::ErrorKind::NotFound => SourceError::Absent(format!("{CLASS} does not exist: no RDMA driver loaded")),
            _ => SourceError::io(Path::new(CLASS), &err),
        })?;
        if devices.is_empty() {
            return Err(SourceError::Absent(format!("{CLASS} is empty")));
        }
        let product = product(&self.roots, &mut self.reader);
        for device in devices {
            self.list_device(&class.join(&device), &device, product.as_deref(), out);
        }
        self.polls_to_listing = polls_per_listing(self.every);
        Ok(())
    }

    fn list_device(&mut self, path: &Path, name: &str, product: Option<&str>, out: &mut Vec<Body>) {
        let Ok(dir) = Dir::open(path) else { return };
        let device = identity(&self.roots, &mut self.reader, path, &dir, name);
        let mut ports: Vec<u32> = names(&path.join("ports")).unwrap_or_default().iter().filter_map(|name| name.parse().ok()).collect();
        ports.sort_unstable();
        for (nth, &port) in ports.iter().enumerate() {
            let port_path = path.join("ports").join(port.to_string());
            let Ok(port_dir) = Dir::open(&port_path) else { continue };
            let mut info = PortInfo { port, ..device.clone() };
            info.link_layer = self.reader.text(&port_dir, "link_layer");
            info.kind = kind(&info, self.reader.text(&dir, "node_type").as_deref());
            info.counters_hidden = counters_hidden(&info, &port_path);
            info.netdev = netdev(&mut self.reader, path, &info);
            let mut sets = vec![
                CounterSet::new("counters", "", port_path.join("counters")),
                // Kernels before 4.5 kept the 64-bit counters apart.
                CounterSet::new("counters_ext", "", port_path.join("counters_ext")),
                CounterSet::new("hw_counters", "", port_path.join("hw_counters")),
            ];
            if nth == 0 {
                // Counters of the device are reported once, with its first port, lest sums over ports count them twice.
                sets.push(CounterSet::new("device/hw_counters", "device/", path.join("hw_counters")));
            }
            let port = self.port(info, port_path, sets, out);
            port.product = product.map(str::to_owned);
            port.rate = Rate::Due;
            port.sets.iter_mut().for_each(CounterSet::list);
        }
        let net = self.roots.path("/sys/class/net");
        for port in self.ports.iter_mut().filter(|port| port.info.device == name) {
            port.netdev_dir = port.info.netdev.as_ref().map(|netdev| net.join(netdev));
        }
    }

    /// The port that `info` is about, reported if it is new or changed.
    fn port(&mut self, info: PortInfo, dir: PathBuf, sets: Vec<CounterSet>, out: &mut Vec<Body>) -> &mut Port {
        let found = self.ports.binary_search_by(|port| (&port.info.device, port.info.port).cmp(&(&info.device, info.port)));
        match found {
            Ok(i) => {
                if self.ports[i].info != info {
                    out.push(Body::PortInfo(info.clone()));
                    self.ports[i].info = info;
                }
                &mut self.ports[i]
            }
            Err(i) => {
                out.push(Body::PortInfo(info.clone()));
                self.ports.insert(i, Port::new(info, dir, sets));
                &mut self.ports[i]
            }
        }
    }
}

impl Source for Rdma {
    fn every(&self) -> Duration {
        self.every
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        let listed = if self.polls_to_listing == 0 { self.list(out) } else { Ok(()) };
        self.polls_to_listing = self.polls_to_listing.saturating_sub(1);
        for Complaint { bus_id, line } in pace::complaints(self.inbox.as_ref()) {
            // The pace of a device is that of its first port.
            let first = self.ports.iter_mut().find(|port| port.info.bus_id.as_deref() == Some(&bus_id));
            if let Some(port) = first {
                port.pace.complained(line);
            }
        }
        let mut ports = Vec::with_capacity(self.ports.len());
        for device in self.ports.chunk_by_mut(|a, b| a.info.device == b.info.device) {
            if !device[0].pace.is_due() {
                continue;
            }
            let began = Instant::now();
            let mut failed = false;
            for port in device.iter_mut() {
                let before = port.presence;
                let (sample, fails) = port.sample(&mut self.reader);
                ports.push(sample);
                failed |= fails;
                // Once: while a port stays away, the half minute is soon enough to look for it.
                if before != port.presence {
                    self.polls_to_listing = 0;
                }
            }
            // Files of another root are as slow as its disk, which is no driver's fault.
            let took = if self.roots.is_live() { began.elapsed() } else { Duration::ZERO };
            device[0].pace.answered(if failed { Answer::Failed } else { Answer::within(took, self.every) });
        }
        if !ports.is_empty() {
            out.push(Body::Ports { ports });
        }
        listed
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        pace::remark(self.ports.iter().filter_map(|port| Some(format!("{}: {}", port.info.device, port.pace.words(self.every)?))))
    }
}

impl Port {
    fn new(info: PortInfo, dir: PathBuf, sets: Vec<CounterSet>) -> Self {
        Port {
            info,
            dir,
            netdev_dir: None,
            product: None,
            sets,
            state: None,
            state_attribute: Attribute::default(),
            phys_state: None,
            phys_state_attribute: Attribute::default(),
            line_rate_bits_per_s: None,
            rate: Rate::Due,
            presence: Presence::There,
            pace: Pace::default(),
        }
    }

    /// All files back to back: the first read of `hw_counters/` makes the driver fetch the whole set from the device, and the others
    /// are served from that for 10 ms. Tells too whether most of a directory could not be read.
    fn sample(&mut self, reader: &mut Reader) -> (PortSample, bool) {
        let mut sample = PortSample { device: self.info.device.clone(), port: self.info.port, ..PortSample::default() };
        let dir = match Dir::open(&self.dir) {
            Ok(dir) => dir,
            Err(err) => {
                self.presence = Presence::Gone;
                sample.unreadable.insert("state".to_owned(), io_words(&err));
                return (sample, false);
            }
        };
        self.presence = Presence::There;
        sample.state = reader.again(&mut self.state_attribute, &dir, "state").ok().and_then(state_word);
        sample.phys_state = reader.again(&mut self.phys_state_attribute, &dir, "phys_state").ok().and_then(state_word);
        if self.rate == Rate::Due || sample.state != self.state || sample.phys_state != self.phys_state {
            self.state.clone_from(&sample.state);
            self.phys_state.clone_from(&sample.phys_state);
            self.line_rate_bits_per_s = self.read_line_rate(reader, &dir);
            self.rate = Rate::Known;
        }
        sample.line_rate_bits_per_s = self.line_rate_bits_per_s;
        let mut failed = false;
        for set in &mut self.sets {
            failed |= set.sweep(reader, &mut sample);
        }
        (sample, failed)
    }

    fn read_line_rate(&self, reader: &mut Reader, dir: &Dir) -> Option<u64> {
        let netdev_dir = self.netdev_dir.as_ref().and_then(|path| Dir::open(path).ok());
        let speed = netdev_dir.and_then(|dir| speed_mbits_per_s(reader, &dir));
        let rate = reader.text(dir, "rate");
        line_rate(&self.info, rate.as_deref(), speed, self.product.as_deref())
    }
}

impl CounterSet {
    fn new(name: &'static str, prefix: &'static str, dir: PathBuf) -> Self {
        CounterSet { name, prefix, dir, files: Vec::new() }
    }

    /// Looks for new files. One that was reported stays although it is gone, so that it is reported as unreadable.
    fn list(&mut self) {
        let Ok(names) = names(&self.dir) else { return };
        self.files.retain(|file| file.told.is_some());
        for name in names {
            // How long the driver keeps a set, in ms: no counter.
            if name != "lifespan" && !self.files.iter().any(|file| file.name == name) {
                self.files.push(CounterFile { name, attribute: Attribute::default(), told: None, reads: Reads::AtEveryPoll });
            }
        }
    }

    /// Whether more of what could be read before failed than not: a driver whose command fails fails for all that it would have fetched.
    fn sweep(&mut self, reader: &mut Reader, sample: &mut PortSample) -> bool {
        if self.files.is_empty() {
            return false;
        }
        let dir = match Dir::open(&self.dir) {
            Ok(dir) => dir,
            Err(err) => {
                if self.files.iter().any(|file| file.told.is_some()) {
                    sample.unreadable.insert(self.name.to_owned(), io_words(&err));
                }
                return false;
            }
        };
        let (mut good, mut failed) = (0, 0);
        for file in self.files.iter_mut().filter(|file| file.reads == Reads::AtEveryPoll) {
            match file.read(reader, &dir) {
                Ok(value) => {
                    good += 1;
                    if file.told != Some(value) {
                        sample.counters.insert(format!("{}{}", self.prefix, file.name), value);
                        file.told = Some(value);
                    }
                }
                Err(reason) if file.told.is_some() => {
                    failed += 1;
                    sample.unreadable.insert(format!("{}{}", self.prefix, file.name), reason);
                }
                Err(_) => file.reads = Reads::AtListing,
            }
        }
        failed > good
    }
}

impl CounterFile {
    fn read(&mut self, reader: &mut Reader, dir: &Dir) -> Result<u64, String> {
        let bytes = reader.again(&mut self.attribute, dir, &self.name).map_err(|err| io_words(&err))?;
        number(bytes).ok_or_else(|| format!("not a number: {}", String::from_utf8_lossy(&bytes[..bytes.len().min(40)])))
    }
}

/// What holds for all ports of a device.
fn identity(roots: &Roots, reader: &mut Reader, path: &Path, dir: &Dir, name: &str) -> PortInfo {
    let function = PciFunction::above(roots, &path.join("device"));
    // The driver of the PCI function, not of a sub-function below it: that one is `mlx5_core.sf`.
    let driver_link = match &function {
        Some(function) => roots.path(&function.path).join("driver"),
        None => path.join("device/driver"),
    };
    let pci = function.as_ref().map(|function| PciFacts::of(roots, reader, function)).unwrap_or_default();
    let driver = link_name(&driver_link);
    PortInfo {
        device: name.to_owned(),
        driver_version: driver_version(roots, reader, driver.as_deref()),
        driver,
        numa: pci.numa,
        firmware: reader.text(dir, "fw_ver"),
        model: reader.text(dir, "hca_type").or_else(|| {
            let function = Dir::open(&roots.path(&function.as_ref()?.path)).ok()?;
            reader.text(&function, "device")
        }),
        guid: guid(reader, dir, "node_guid"),
        sys_image_guid: guid(reader, dir, "sys_image_guid"),
        gpu_direct: gpu_direct(reader, dir),
        pci_link: pci.link,
        physical_function: pci.physical_function,
        pci_path: function.as_ref().map(|function| function.path.to_string_lossy().into_owned()),
        sub_function: function.as_ref().and_then(|function| function.sub_function.clone()),
        bus_id: function.map(|function| function.bus_id),
        ..PortInfo::default()
    }
}

/// EFA drivers before 2.12 have none and say all zeros.
fn guid(reader: &mut Reader, dir: &Dir, name: &str) -> Option<String> {
    reader.text(dir, name).filter(|guid| guid.bytes().any(|b| b != b'0' && b != b':'))
}

/// Empty when the driver found no accelerator to work with. EFA drivers before 2.6 only show 1 or 0, and knew no other than NVIDIA.
fn gpu_direct(reader: &mut Reader, dir: &Dir) -> Option<String> {
    if let Ok(provider) = reader.bytes(dir, "device/p2p") {
        return Some(String::from_utf8_lossy(provider).into_owned());
    }
    let works = reader.number::<u8>(dir, "device/gdr")? != 0;
    Some(if works { "NVIDIA".to_owned() } else { String::new() })
}

/// By driver, verbs type and link layer. Names follow a udev policy and mean nothing.
fn kind(info: &PortInfo, node_type: Option<&str>) -> PortKind {
    let is_efa = info.driver.as_deref() == Some("efa") || info.model.as_deref().is_some_and(|model| model.starts_with("0xefa"));
    // `1: CA`
    let node_type = node_type.and_then(|text| text.split(':').next()?.trim().parse::<u8>().ok());
    match (node_type, info.link_layer.as_deref()) {
        _ if is_efa => PortKind::Efa,
        (Some(4), _) => PortKind::Iwarp,
        (Some(1..=3) | None, Some("InfiniBand")) => PortKind::Infiniband,
        (Some(1) | None, Some("Ethernet")) => PortKind::Roce,
        _ => PortKind::Other,
    }
}

/// Outside the host's network namespace the kernel shows devices without their counters: the directories are not there.
fn counters_hidden(info: &PortInfo, port: &Path) -> Option<String> {
    let always_counts = matches!(info.driver.as_deref(), Some("efa" | "mlx5_core" | "bnxt_en"));
    let is_missing = |name: &str| matches!(port.join(name).symlink_metadata(), Err(err) if err.kind() == io::ErrorKind::NotFound);
    (always_counts && is_missing("hw_counters") && is_missing("counters")).then(|| COUNTERS_HIDDEN.to_owned())
}

/// The netdev of a port, as `ibdev2netdev` finds it.
fn netdev(reader: &mut Reader, device: &Path, info: &PortInfo) -> Option<String> {
    // The ENA interface beside an EFA is another PCI function.
    if info.kind == PortKind::Efa {
        return None;
    }
    let found = netdev_of_gids(reader, device, info.port)
        .or_else(|| netdev_of_function(reader, device, info.port))
        // Software devices of old kernels.
        .or_else(|| reader.text(&Dir::open(device).ok()?, "parent"));
    found.filter(|name| !name.contains('/') && name != "." && name != "..")
}

/// Exact for RoCE, also with bonds. An unused entry reads as EINVAL.
fn netdev_of_gids(reader: &mut Reader, device: &Path, port: u32) -> Option<String> {
    let path = device.join(format!("ports/{port}/gid_attrs/ndevs"));
    let mut entries: Vec<u32> = names(&path).ok()?.iter().filter_map(|name| name.parse().ok()).collect();
    entries.sort_unstable();
    let dir = Dir::open(&path).ok()?;
    entries.iter().find_map(|entry| reader.text(&dir, &entry.to_string()))
}

/// The netdev of the same PCI function that has the port's number, which starts from 0 there.
fn netdev_of_function(reader: &mut Reader, device: &Path, port: u32) -> Option<String> {
    let path = device.join("device/net");
    let number = port.checked_sub(1)?;
    names(&path).ok()?.into_iter().find(|name| {
        let Ok(dir) = Dir::open(&path.join(name)) else { return false };
        let dev_port = reader.number(&dir, "dev_port").or_else(|| {
            let dev_id = reader.text(&dir, "dev_id")?;
            u32::from_str_radix(dev_id.trim_start_matches("0x"), 16).ok()
        });
        dev_port == Some(number)
    })
}

/// The word of `4: ACTIVE`.
fn state_word(bytes: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(bytes);
    let word = text.split_once(':').map_or(&*text, |(_, word)| word).trim();
    (!word.is_empty()).then(|| word.to_owned())
}

/// /sys/devices/virtual/dmi/id/product_name: on AWS the instance type.
fn product(roots: &Roots, reader: &mut Reader) -> Option<String> {
    let dir = Dir::open(&roots.path("/sys/devices/virtual/dmi/id")).ok()?;
    reader.text(&dir, "product_name")
}

/// bits/s, from the source that can be believed for this kind of port.
fn line_rate(info: &PortInfo, rate: Option<&str>, netdev_mbits_per_s: Option<u64>, product: Option<&str>) -> Option<u64> {
    let netdev = netdev_mbits_per_s.and_then(|mbits| mbits.checked_mul(1_000_000));
    // A kernel that does not know the newest lane speed, and a port without link, fall into the last case of a switch: SDR.
    let is_guess = info.driver.as_deref() == Some("mlx5_core") && rate.is_some_and(|rate| rate.contains("SDR"));
    let rate = rate.filter(|_| !is_guess).and_then(parse_rate);
    match info.kind {
        // Drivers before 2.13 say 100 Gb/s of every device.
        PortKind::Efa => product.and_then(efa_line_rate).or(rate),
        PortKind::Roce | PortKind::Iwarp => netdev.or(rate),
        PortKind::Infiniband | PortKind::Other => rate.or(netdev),
    }
}

/// `400 Gb/sec (4X NDR)`, `2.5 Gb/sec (1X SDR)`
fn parse_rate(text: &str) -> Option<u64> {
    let (number, _) = text.split_once("Gb/sec")?;
    let gbits: f64 = number.trim().parse().ok()?;
    (gbits > 0.0 && gbits < 1e6).then_some((gbits * 1e9) as u64)
}
