//! Who talks to whom over what: channel lines by their two ends, and what is needed to know which GPU and NIC they name.

use super::Who;
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

/// A ring of a communicator, whole.
#[derive(Clone, Debug, PartialEq)]
pub struct Ring {
    pub ranks: Vec<u32>,
    /// Channels that have it.
    pub channels: u64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Routes {
    /// How many lines, channels of one direction; the first [`MAX_ROUTES`].
    pub known: BTreeMap<Route, u64>,
    /// Channel lines beyond those.
    pub others: u64,
    /// The PCI address of a rank's GPU by its Init line; `None` where two of them contradict each other.
    seats: BTreeMap<(Option<u64>, End), Option<PciAddress>>,
    /// Names of devices in the order of their numbers, by transport: `IB`.
    pub devices: BTreeMap<String, Vec<String>>,
    /// Of the largest communicator; the first [`MAX_RINGS`].
    pub rings: Vec<Ring>,
}

/// All pairs of eight GPUs in ten communicators.
pub const MAX_ROUTES: usize = 1024;
const MAX_SEATS: usize = 1024;
const MAX_RINGS: usize = 8;
const MAX_DEVICES: usize = 128;
/// A line has 127 characters for the ranks of a ring.
const MAX_RING: usize = 64;
const MAX_TRANSPORT: usize = 64;

impl Routes {
    /// Notes what a line says of it. `text` is the line.
    pub(in crate::model) fn apply(&mut self, what: &What, who: Who, text: &str) {
        match what {
            What::Channel { from_rank, from_gpu, to_rank, to_gpu, transport, receive, p2p, .. } if transport.len() <= MAX_TRANSPORT => {
                let (from, to) = (End { rank: *from_rank, gpu: *from_gpu }, End { rank: *to_rank, gpu: *to_gpu });
                let route = Route { host: who.host, from, to, transport: transport.clone(), receive: *receive, p2p: *p2p };
                self.add(route, 1);
            }
            What::Init(init) => self.seat(init, who.host),
            // Several ports that NCCL takes as one device stand in braces, and their numbers are not those of devices.
            What::NetDevices(found) if !text.contains("={") => self.name_devices(found),
            What::Ring { ranks, .. } if text.ends_with(|c: char| c.is_ascii_digit() || c.is_whitespace()) => self.ring(ranks, 1),
            _ => {}
        }
    }

    fn add(&mut self, route: Route, lines: u64) {
        if let Some(known) = self.known.get_mut(&route) {
            *known += lines;
        } else if self.known.len() < MAX_ROUTES {
            self.known.insert(route, lines);
        } else {
            self.others += lines;
        }
    }

    fn seat(&mut self, init: &Init, host: Option<u64>) {
        let Some(address) = init.bus_id.as_deref().and_then(PciAddress::parse) else { return };
        // Index 12 stands in brackets as 12.
        let gpu = init.nvml_dev.and_then(|index| u64::from_str_radix(&index.to_string(), 16).ok());
        self.sit((host, End { rank: init.rank, gpu }), Some(address));
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

    fn name_devices(&mut self, found: &NetDevices) {
        let is_new = !self.devices.contains_key(&found.transport);
        if is_new && !found.devices.is_empty() && found.whole && found.transport.len() <= MAX_TRANSPORT && self.devices.len() < MAX_RINGS {
            let names = found.devices.iter().take(MAX_DEVICES).map(|d| d.name.chars().take(MAX_TRANSPORT).collect()).collect();
            self.devices.insert(found.transport.clone(), names);
        }
    }

    fn ring(&mut self, ranks: &[u32], channels: u64) {
        let largest = self.rings.first().map_or(0, |ring| ring.ranks.len());
        if ranks.len() < 2 || ranks.len() < largest || ranks.len() > MAX_RING {
            return;
        }
        if ranks.len() > largest {
            self.rings.clear();
        }
        if let Some(ring) = self.rings.iter_mut().find(|ring| ring.ranks == ranks) {
            ring.channels += channels;
        } else if self.rings.len() < MAX_RINGS {
            self.rings.push(Ring { ranks: ranks.to_vec(), channels });
        }
    }

    pub(super) fn merge(&mut self, other: &Routes) {
        for (route, lines) in &other.known {
            self.add(route.clone(), *lines);
        }
        self.others += other.others;
        for (end, address) in &other.seats {
            self.sit(*end, *address);
        }
        for (transport, names) in &other.devices {
            if self.devices.len() < MAX_RINGS {
                self.devices.entry(transport.clone()).or_insert_with(|| names.clone());
            }
        }
        for ring in &other.rings {
            self.ring(&ring.ranks, ring.channels);
        }
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
