//! Interfaces below /sys/class/net: bootstrap, socket transport, storage and ssh. RDMA traffic does not pass here.

use super::ethtool::{self, Ethtool};
use super::sysfs::{Attribute, Dir, PciFacts, PciFunction, Reader, driver_version, link_name, names, number, polls_per_listing};
use super::{Complaint, Hint, Roots, Setup, Source, SourceError, pace};
use crate::observe::port::{NetdevInfo, NetdevSample};
use crate::observe::{Body, SourceState};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;

const CLASS: &str = "/sys/class/net";

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    let netdevs = Netdevs::new(setup.roots.clone(), setup.interval);
    Box::new(match setup.netdev_inbox.take() {
        Some(inbox) => netdevs.listening(inbox),
        None => netdevs,
    })
}

pub struct Netdevs {
    roots: Roots,
    every: Duration,
    reader: Reader,
    interfaces: Vec<Interface>,
    polls_to_listing: u32,
    ethtool: ethtool::Counters,
    inbox: Option<Receiver<Hint>>,
}

struct Interface {
    dir: PathBuf,
    /// As last reported, without counters: what changes rarely is read again at a listing or when the link went up or down.
    last: NetdevSample,
    operstate: Attribute,
    carrier: Attribute,
    carrier_changes: Attribute,
    counters: Vec<Counter>,
    /// Of hardware, what the next sample reports.
    info: Option<NetdevInfo>,
    ethtool: ethtool::Known,
}

struct Counter {
    /// From the directory of the interface: `statistics/rx_bytes`.
    path: String,
    attribute: Attribute,
    /// As last reported: only changes follow, because most of the two dozen counters never move and tapes hold them all.
    told: Option<u64>,
}

impl Netdevs {
    pub fn new(roots: Roots, every: Duration) -> Self {
        let ethtool = ethtool::Counters::of(&roots, every);
        Netdevs { reader: Reader::keeping_open(&roots), roots, every, interfaces: Vec::new(), polls_to_listing: 0, ethtool, inbox: None }
    }

    /// With another kernel to ask for the counters of `ethtool -S`.
    pub fn asking(roots: Roots, every: Duration, kernel: Box<dyn Ethtool>) -> Self {
        Netdevs { ethtool: ethtool::Counters::asking(kernel, every), ..Netdevs::new(roots, every) }
    }

    /// One that is told what drivers complain about.
    pub fn listening(self, inbox: Receiver<Hint>) -> Self {
        Netdevs { inbox: Some(inbox), ..self }
    }

    fn list(&mut self) -> Result<(), SourceError> {
        let class = self.roots.path(CLASS);
        let found = names(&class).map_err(|err| SourceError::io(Path::new(CLASS), &err))?;
        let before = std::mem::take(&mut self.interfaces).into_iter();
        let mut before: BTreeMap<String, Interface> = before.map(|interface| (interface.last.name.clone(), interface)).collect();
        for name in found {
            let known = before.remove(&name);
            let interface = self.interface(class.join(&name), name, known);
            self.interfaces.extend(interface);
        }
        Ok(())
    }

    /// `None` for what is no interface: `bonding_masters` is a file.
    fn interface(&mut self, path: PathBuf, name: String, before: Option<Interface>) -> Option<Interface> {
        let dir = Dir::open(&path).ok()?;
        let device = path.join("device");
        let function = PciFunction::above(&self.roots, &device);
        let driver = link_name(&device.join("driver"));
        let info = function.as_ref().map(|function| self.info(function, driver.as_deref()));
        let mut last = NetdevSample {
            name,
            arp_type: self.reader.number(&dir, "type"),
            bus_id: function.map(|function| function.bus_id),
            driver,
            ..NetdevSample::default()
        };
        read_link_settings(&mut self.reader, &dir, &mut last);
        let counters = names(&path.join("statistics")).unwrap_or_default();
        // Of the same hardware, files that are open and what the driver can do are as good as before.
        let mut before = before.filter(|before| (&before.last.bus_id, &before.last.driver) == (&last.bus_id, &last.driver));
        let mut files = before.as_mut().map(|before| std::mem::take(&mut before.counters)).unwrap_or_default();
        let mut counter = |name| {
            let path = format!("statistics/{name}");
            let open = files.iter().position(|file| file.path == path).map(|i| files.swap_remove(i).attribute);
            Counter { path, attribute: open.unwrap_or_default(), told: None }
        };
        let counters = counters.into_iter().map(&mut counter).collect();
        let [operstate, carrier, carrier_changes] =
            before.as_mut().map(|b| [&mut b.operstate, &mut b.carrier, &mut b.carrier_changes].map(std::mem::take)).unwrap_or_default();
        let ethtool = before.map(|before| before.ethtool).unwrap_or_default();
        Some(Interface { dir: path, last, operstate, carrier, carrier_changes, counters, info, ethtool })
    }

    fn info(&mut self, function: &PciFunction, driver: Option<&str>) -> NetdevInfo {
        let pci = PciFacts::of(&self.roots, &mut self.reader, function);
        NetdevInfo {
            numa: pci.numa,
            driver_version: driver_version(&self.roots, &mut self.reader, driver),
            firmware: None,
            pci_path: Some(function.path.to_string_lossy().into_owned()),
            pci_link: pci.link,
            physical_function: pci.physical_function,
        }
    }
}

impl Source for Netdevs {
    fn every(&self) -> Duration {
        self.every
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        if self.polls_to_listing == 0 {
            self.list()?;
            self.polls_to_listing = polls_per_listing(self.every);
        }
        self.polls_to_listing -= 1;
        for Complaint { bus_id, line } in pace::complaints(self.inbox.as_ref()) {
            let below = self.interfaces.iter_mut().filter(|interface| interface.last.bus_id.as_deref() == Some(&bus_id));
            below.for_each(|interface| interface.ethtool.complained(&line));
        }
        let mut netdevs = Vec::with_capacity(self.interfaces.len());
        let mut ethtool = self.ethtool.is_due().then_some(&mut self.ethtool);
        for interface in &mut self.interfaces {
            match interface.sample(&mut self.reader, ethtool.as_deref_mut()) {
                Some(sample) => netdevs.push(sample),
                None => self.polls_to_listing = 0,
            }
        }
        out.push(Body::Netdevs { netdevs });
        Ok(())
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        let words = self.interfaces.iter().find_map(|interface| self.ethtool.remark(&interface.last.name, &interface.ethtool))?;
        Some((SourceState::Slow, words))
    }
}

impl Interface {
    /// `None` when the interface is gone, as those of containers often are.
    fn sample(&mut self, reader: &mut Reader, ethtool: Option<&mut ethtool::Counters>) -> Option<NetdevSample> {
        let dir = Dir::open(&self.dir).ok()?;
        let operstate = reader.again(&mut self.operstate, &dir, "operstate").ok().filter(|state| !state.is_empty());
        let operstate = operstate.map(|state| String::from_utf8_lossy(state).into_owned());
        let carrier_changes = reader.again(&mut self.carrier_changes, &dir, "carrier_changes").ok().and_then(number);
        let link_moved = operstate != self.last.operstate || carrier_changes != self.last.carrier_changes;
        self.last.operstate = operstate;
        self.last.carrier_changes = carrier_changes;
        // Nothing passes an interface that stays down, and a host has many of them.
        let stays_down = !link_moved && self.last.operstate.as_deref() == Some("down");
        if !stays_down {
            // EINVAL while the interface is administratively down.
            self.last.carrier = reader.again(&mut self.carrier, &dir, "carrier").ok().and_then(number::<u8>).map(|carrier| carrier != 0);
        }
        if link_moved {
            read_link_settings(reader, &dir, &mut self.last);
        }
        let mut sample = self.last.clone();
        for Counter { path, attribute, told } in self.counters.iter_mut().filter(|_| !stays_down) {
            if let Some(value) = reader.again(attribute, &dir, path).ok().and_then(number)
                && *told != Some(value)
            {
                *told = Some(value);
                sample.counters.insert(path["statistics/".len()..].to_owned(), value);
            }
        }
        if let Some(ethtool) = ethtool.filter(|_| !stays_down && sample.bus_id.is_some()) {
            ethtool.sweep(&sample.name, &self.dir, &mut self.ethtool, &mut sample.counters);
        }
        sample.info = self.info.take();
        if let Some(info) = &mut sample.info {
            info.firmware = self.ethtool.firmware().map(str::to_owned);
        }
        Some(sample)
    }
}

fn read_link_settings(reader: &mut Reader, dir: &Dir, sample: &mut NetdevSample) {
    sample.mtu = reader.number(dir, "mtu");
    sample.speed_mbits_per_s = speed_mbits_per_s(reader, dir);
    sample.carrier_down_count = reader.number(dir, "carrier_down_count");
}

/// -1 and 0 stand for unknown; without a link it is EINVAL.
pub(crate) fn speed_mbits_per_s(reader: &mut Reader, dir: &Dir) -> Option<u64> {
    let speed: i64 = reader.number(dir, "speed")?;
    // SPEED_UNKNOWN of drivers that print it unsigned.
    let known = 1..i64::from(u32::MAX);
    known.contains(&speed).then_some(speed.unsigned_abs())
}
