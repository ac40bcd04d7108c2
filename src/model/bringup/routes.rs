//! Who talks to whom over what: channel lines by their two ends, and what is needed to know which GPU and NIC they name.

use super::graphs::Graphs;
use super::{Proof, Who};
use crate::logs::{Init, NetDevices, What};
use crate::model::gpu::PciAddress;
use std::collections::BTreeMap;

/// An end of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct End {
    /// In its communicator.
    pub rank: u32,
    /// What stands in brackets, as a hexadecimal number: NVML's index, or, up to NCCL 2.18.1, the packed PCI address.
    pub gpu: Option<u64>,
}

impl End {
    /// Of a rank whose GPU has an index of NVML: index 12 stands in brackets as 12.
    pub fn by_index(rank: u32, index: Option<u32>) -> End {
        End { rank, gpu: index.and_then(|index| u64::from_str_radix(&index.to_string(), 16).ok()) }
    }

    /// As NVML's index, which is written in decimal.
    pub fn index(&self) -> Option<u32> {
        format!("{:x}", self.gpu?).parse().ok()
    }

    /// As `domain << 20 | bus << 12 | device << 4 | function`.
    pub fn address(&self) -> Option<PciAddress> {
        let packed = self.gpu?;
        let domain = u32::try_from(packed >> 20).ok()?;
        Some(PciAddress { domain, bus: (packed >> 12) as u8, device: (packed >> 4) as u8 })
    }
}

/// Channel lines of one host from one rank to another over one transport.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Route {
    /// Of the name of the host that printed it.
    pub host: Option<u64>,
    pub from: End,
    pub to: End,
    /// `P2P/CUMEM`, `NET/IB/3(1)/GDRDMA`
    pub transport: String,
    /// Printed by the end that receives.
    pub receive: bool,
    /// For sends and receives.
    pub p2p: bool,
}

impl Route {
    /// That of a channel line which a host printed.
    pub fn of(what: &What, host: Option<u64>) -> Option<Route> {
        let What::Channel { from_rank, from_gpu, to_rank, to_gpu, transport, receive, p2p, .. } = what else { return None };
        let (from, to) = (End { rank: *from_rank, gpu: *from_gpu }, End { rank: *to_rank, gpu: *to_gpu });
        let route = || Route { host, from, to, transport: transport.clone(), receive: *receive, p2p: *p2p };
        (transport.len() <= MAX_TRANSPORT).then(route)
    }
}

/// How many lines a route has, and the first of them.
#[derive(Clone, Debug, PartialEq)]
pub struct Seen {
    pub lines: u64,
    pub proof: Proof,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// Channels of one direction; the first [`MAX_ROUTES`].
    pub known: BTreeMap<Route, Seen>,
    /// Channel lines beyond those.
    pub others: u64,
    /// The PCI address of a rank's GPU by its Init line; `None` where two of them contradict each other.
    seats: BTreeMap<(Option<u64>, End), Option<PciAddress>>,
    /// Names of devices in the order of their numbers, by transport: `IB`.
    pub devices: BTreeMap<String, Vec<String>>,
    pub graphs: Graphs,
    /// What aws-ofi-nccl joins to one device, by host and its number, then by rail; `None` where two lines contradict each other.
    rails: BTreeMap<(Option<u64>, u32), BTreeMap<u32, Option<PciAddress>>>,
}

/// All pairs of eight GPUs in ten communicators.
pub const MAX_ROUTES: usize = 1024;
const MAX_SEATS: usize = 1024;
/// Transports with a list of devices.
const MAX_LISTS: usize = 8;
const MAX_DEVICES: usize = 128;
/// aws-ofi-nccl joins up to four.
const MAX_RAILS: usize = 16;
const MAX_TRANSPORT: usize = 64;

impl Routes {
    /// Notes what a line says of it. `text` is the line.
    pub(super) fn apply(&mut self, what: &What, who: Who, text: &str, proof: impl FnOnce() -> Proof) {
        match what {
            What::Channel { .. } => {
                if let Some(route) = Route::of(what, who.host) {
                    self.add(&route, 1, proof);
                }
            }
            What::Init(init) => self.seat(init, who.host),
            What::OfiRail { device, rail, address } => self.rail((who.host, *device), *rail, PciAddress::parse(address)),
            // Several ports that NCCL takes as one device stand in braces, and their numbers are not those of devices.
            What::NetDevices(found) if !text.contains("={") => self.name_devices(found),
            _ => {}
        }
        self.graphs.apply(what, who, text);
    }

    fn add(&mut self, route: &Route, lines: u64, proof: impl FnOnce() -> Proof) {
        if let Some(known) = self.known.get_mut(route) {
            known.lines += lines;
        } else if self.known.len() < MAX_ROUTES {
            self.known.insert(route.clone(), Seen { lines, proof: proof() });
        } else {
            self.others += lines;
        }
    }

    /// Further lines of a route that is known; `None`: of those beyond what is kept.
    pub(in crate::model) fn more(&mut self, route: Option<&Route>, lines: u64) {
        match route.and_then(|route| self.known.get_mut(route)) {
            Some(known) => known.lines += lines,
            None => self.others += lines,
        }
    }

    fn seat(&mut self, init: &Init, host: Option<u64>) {
        let Some(address) = init.bus_id.as_deref().and_then(PciAddress::parse) else { return };
        self.sit((host, End::by_index(init.rank, init.nvml_dev)), Some(address));
    }

    fn sit(&mut self, end: (Option<u64>, End), address: Option<PciAddress>) {
        if let Some(known) = self.seats.get_mut(&end) {
            if *known != address {
                *known = None;
            }
        } else if self.seats.len() < MAX_SEATS {
            self.seats.insert(end, address);
        }
    }

    fn rail(&mut self, device: (Option<u64>, u32), rail: u32, address: Option<PciAddress>) {
        if self.rails.len() >= MAX_DEVICES && !self.rails.contains_key(&device) {
            return;
        }
        let rails = self.rails.entry(device).or_default();
        if let Some(known) = rails.get_mut(&rail) {
            if *known != address {
                *known = None;
            }
        } else if rails.len() < MAX_RAILS {
            rails.insert(rail, address);
        }
    }

    /// The devices that aws-ofi-nccl joins to the one of this number, if lines name all of them.
    pub fn rails_of(&self, host: Option<u64>, device: u32) -> Option<Vec<PciAddress>> {
        let rails = self.rails.get(&(host, device))?;
        let is_whole = rails.keys().copied().eq(0..rails.len() as u32);
        rails.values().copied().collect::<Option<Vec<PciAddress>>>().filter(|_| is_whole)
    }

    /// Numbers of devices that aws-ofi-nccl lists on a host.
    pub fn devices_with_rails(&self, host: Option<u64>) -> impl Iterator<Item = u32> {
        self.rails.keys().filter(move |(of, _)| *of == host).map(|(_, device)| *device)
    }

    fn name_devices(&mut self, found: &NetDevices) {
        let is_new = !self.devices.contains_key(&found.transport);
        if is_new && !found.devices.is_empty() && found.whole && found.transport.len() <= MAX_TRANSPORT && self.devices.len() < MAX_LISTS {
            let names = found.devices.iter().take(MAX_DEVICES).map(|d| d.name.chars().take(MAX_TRANSPORT).collect()).collect();
            self.devices.insert(found.transport.clone(), names);
        }
    }

    pub(super) fn merge(&mut self, other: &Routes) {
        for (route, seen) in &other.known {
            self.add(route, seen.lines, || seen.proof.clone());
            if let Some(known) = self.known.get_mut(route).filter(|known| seen.proof.is_before(&known.proof)) {
                known.proof = seen.proof.clone();
            }
        }
        self.others += other.others;
        for (end, address) in &other.seats {
            self.sit(*end, *address);
        }
        for (device, rails) in &other.rails {
            rails.iter().for_each(|(rail, address)| self.rail(*device, *rail, *address));
        }
        for (transport, names) in &other.devices {
            if self.devices.len() < MAX_LISTS {
                self.devices.entry(transport.clone()).or_insert_with(|| names.clone());
            }
        }
        self.graphs.merge(&other.graphs);
    }

    /// Lines of the host of `route` for its other end, as ranks of one node print them.
    pub fn has_other_end(&self, route: &Route) -> bool {
        let first = Route { transport: String::new(), receive: false, p2p: false, ..route.clone() };
        let same = |known: &&Route| (known.host, known.from, known.to) == (route.host, route.from, route.to);
        self.known.range(first..).map(|(known, _)| known).take_while(same).any(|known| known.receive != route.receive)
    }

    /// The PCI address of an end's GPU, by the lines about its initialisation. `None`: none tells; `Some(None)`: they contradict each other.
    pub fn address_of(&self, host: Option<u64>, end: End) -> Option<Option<PciAddress>> {
        self.seats.get(&(host, end)).copied()
    }
}
