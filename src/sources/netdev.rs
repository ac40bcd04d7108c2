//! Interfaces below /sys/class/net: bootstrap, socket transport, storage and ssh. RDMA traffic does not pass here.

use super::sysfs::{Dir, PciFunction, Reader, link_name, names, polls_per_listing};
use super::{Roots, Setup, Source, SourceError};
use crate::observe::Body;
use crate::observe::port::NetdevSample;
use std::collections::BTreeMap;
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
    /// Paths of counters from `dir`: `statistics/rx_bytes`.
    counters: Vec<String>,
    /// Values as last reported: only changes follow, because most of the two dozen counters never move and tapes hold them all.
    told: BTreeMap<String, u64>,
}

impl Netdevs {
    pub fn new(roots: Roots, every: Duration) -> Self {
        Netdevs { roots, every, reader: Reader::default(), interfaces: Vec::new(), polls_to_listing: 0 }
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
        let counters = counters.into_iter().map(|counter| format!("statistics/{counter}")).collect();
        Some(Interface { dir: path, last, counters, told: BTreeMap::new() })
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
        let operstate = reader.text(&dir, "operstate");
        let carrier_changes = reader.number(&dir, "carrier_changes");
        let link_moved = operstate != self.last.operstate || carrier_changes != self.last.carrier_changes;
        self.last.operstate = operstate;
        self.last.carrier_changes = carrier_changes;
        // EINVAL while the interface is administratively down.
        self.last.carrier = reader.number::<u8>(&dir, "carrier").map(|carrier| carrier != 0);
        if link_moved {
            read_link_settings(reader, &dir, &mut self.last);
        }
        let mut sample = self.last.clone();
        for path in &self.counters {
            if let Some(value) = reader.number(&dir, path)
                && self.told.get(path) != Some(&value)
            {
                self.told.insert(path.clone(), value);
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
