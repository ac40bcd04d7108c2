//! Interfaces below /sys/class/net: bootstrap, socket transport, storage and ssh. RDMA traffic does not pass here.

use super::sysfs::{Attribute, Dir, PciFunction, Reader, link_name, names, number, polls_per_listing};
use super::{Roots, Setup, Source, SourceError};
use crate::observe::Body;
use crate::observe::port::NetdevSample;
use std::path::{Path, PathBuf};
use std::time::Duration;

const CLASS: &str = "/sys/class/net";

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    Box::new(Netdevs::new(setup.roots.clone(), setup.interval))
}

pub struct Netdevs {
    roots: Roots,
    every: Duration,
    reader: Reader,
    interfaces: Vec<Interface>,
    polls_to_listing: u32,
}

struct Interface {
    dir: PathBuf,
    /// As last reported, without counters: what changes rarely is read again at a listing or when the link went up or down.
    last: NetdevSample,
    operstate: Attribute,
    carrier: Attribute,
    carrier_changes: Attribute,
    counters: Vec<Counter>,
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
        Netdevs { reader: Reader::keeping_open(&roots), roots, every, interfaces: Vec::new(), polls_to_listing: 0 }
    }

    fn list(&mut self) -> Result<(), SourceError> {
        let class = self.roots.path(CLASS);
        let found = names(&class).map_err(|err| SourceError::io(Path::new(CLASS), &err))?;
        self.interfaces = found.into_iter().filter_map(|name| self.interface(class.join(&name), name)).collect();
        Ok(())
    }

    /// `None` for what is no interface: `bonding_masters` is a file.
    fn interface(&mut self, path: PathBuf, name: String) -> Option<Interface> {
        let dir = Dir::open(&path).ok()?;
        let device = path.join("device");
        let mut last = NetdevSample {
            name,
            arp_type: self.reader.number(&dir, "type"),
            bus_id: PciFunction::above(&self.roots, &device).map(|function| function.bus_id),
            driver: link_name(&device.join("driver")),
            ..NetdevSample::default()
        };
        read_link_settings(&mut self.reader, &dir, &mut last);
        let counters = names(&path.join("statistics")).unwrap_or_default();
        let counter = |name| Counter { path: format!("statistics/{name}"), attribute: Attribute::default(), told: None };
        let counters = counters.into_iter().map(counter).collect();
        let [operstate, carrier, carrier_changes] = Default::default();
        Some(Interface { dir: path, last, operstate, carrier, carrier_changes, counters })
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
        let mut netdevs = Vec::with_capacity(self.interfaces.len());
        for interface in &mut self.interfaces {
            match interface.sample(&mut self.reader) {
                Some(sample) => netdevs.push(sample),
                None => self.polls_to_listing = 0,
            }
        }
        out.push(Body::Netdevs { netdevs });
        Ok(())
    }
}

impl Interface {
    /// `None` when the interface is gone, as those of containers often are.
    fn sample(&mut self, reader: &mut Reader) -> Option<NetdevSample> {
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
        Some(sample)
    }
}

fn read_link_settings(reader: &mut Reader, dir: &Dir, sample: &mut NetdevSample) {
    sample.mtu = reader.number(dir, "mtu");
    sample.speed_mbits_per_s = speed_mbits_per_s(reader, dir);
}

/// -1 and 0 stand for unknown; without a link it is EINVAL.
pub(crate) fn speed_mbits_per_s(reader: &mut Reader, dir: &Dir) -> Option<u64> {
    let speed: i64 = reader.number(dir, "speed")?;
    // SPEED_UNKNOWN of drivers that print it unsigned.
    let known = 1..i64::from(u32::MAX);
    known.contains(&speed).then_some(speed.unsigned_abs())
}
