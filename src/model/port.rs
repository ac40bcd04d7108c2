//! RDMA ports and network interfaces: counters become rates here.

use super::series::{Trend, rate};
use crate::observe::port::{NetdevSample, PortInfo, PortKind, PortSample};
use crate::time::Stamp;
use std::collections::BTreeMap;

/// Whether traffic can flow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Link {
    #[default]
    Unknown,
    Up,
    Down,
}

impl Link {
    pub fn as_str(self) -> &'static str {
        match self {
            Link::Unknown => "unknown",
            Link::Up => "up",
            Link::Down => "down",
        }
    }
}

/// Link state with its history: what was up and is down now is a fault, what was never up is not.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinkHistory {
    pub now: Link,
    pub since: Stamp,
    pub was_up: bool,
}

impl LinkHistory {
    fn saw(&mut self, at: Stamp, link: Link) {
        if link != self.now {
            (self.now, self.since) = (link, at);
        }
        self.was_up |= link == Link::Up;
    }
}

/// Cumulative counters and their rates per second.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    values: BTreeMap<String, (Stamp, u64)>,
    rates: BTreeMap<String, f64>,
}

impl Counters {
    /// `changed` holds the counters that changed; one that is absent has not.
    fn apply(&mut self, at: Stamp, changed: &BTreeMap<String, u64>) {
        for (name, (then, value)) in &mut self.values {
            if !changed.contains_key(name) {
                if at > *then {
                    self.rates.insert(name.clone(), 0.0);
                }
                *then = at;
                let _ = value;
            }
        }
        for (name, &value) in changed {
            if let Some(&before) = self.values.get(name) {
                match rate(before, (at, value)) {
                    Some(r) => self.rates.insert(name.clone(), r),
                    None => self.rates.remove(name),
                };
            }
            self.values.insert(name.clone(), (at, value));
        }
    }

    pub fn value(&self, name: &str) -> Option<u64> {
        self.values.get(name).map(|v| v.1)
    }

    pub fn rate(&self, name: &str) -> Option<f64> {
        self.rates.get(name).copied()
    }

    pub fn rates(&self) -> &BTreeMap<String, f64> {
        &self.rates
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Port {
    pub info: PortInfo,
    pub sample: PortSample,
    pub link: LinkHistory,
    pub counters: Counters,
    /// Bytes/s, to draw.
    pub tx: Trend,
    pub rx: Trend,
}

impl Port {
    pub fn apply(&mut self, at: Stamp, sample: &PortSample) {
        let link = match sample.state.as_deref() {
            Some("ACTIVE" | "ACTIVE_DEFER") => Link::Up,
            Some(_) => Link::Down,
            None => Link::Unknown,
        };
        self.link.saw(at, link);
        self.counters.apply(at, &sample.counters);
        self.sample = PortSample { counters: BTreeMap::new(), ..sample.clone() };
        let (tx, rx) = (self.tx_bytes_per_s(), self.rx_bytes_per_s());
        for (trend, value) in [(&mut self.tx, tx), (&mut self.rx, rx)] {
            if let Some(value) = value {
                trend.push(at, value);
            }
        }
    }

    pub fn name(&self) -> String {
        format!("{}/{}", self.info.device, self.info.port)
    }

    /// Bytes on the wire. EFA and bnxt_re count bytes; the IB port counters count words of four.
    fn bytes_per_s(&self, plain: &str, words: &str) -> Option<f64> {
        self.counters
            .rate(plain)
            .filter(|_| self.info.kind == PortKind::Efa || self.counters.rate(words).is_none())
            .or_else(|| self.counters.rate(words).map(|w| w * 4.0))
    }

    pub fn tx_bytes_per_s(&self) -> Option<f64> {
        self.bytes_per_s("tx_bytes", "port_xmit_data")
    }

    pub fn rx_bytes_per_s(&self) -> Option<f64> {
        self.bytes_per_s("rx_bytes", "port_rcv_data")
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Netdev {
    pub sample: NetdevSample,
    pub link: LinkHistory,
    pub counters: Counters,
    /// Bytes/s, to draw.
    pub tx: Trend,
    pub rx: Trend,
}

impl Netdev {
    pub fn apply(&mut self, at: Stamp, sample: &NetdevSample) {
        // "unknown" is what loopback and many virtual interfaces say while they work: carrier decides.
        let link = match (sample.operstate.as_deref(), sample.carrier) {
            (Some("up"), _) | (Some("unknown"), Some(true)) => Link::Up,
            (Some("down" | "lowerlayerdown"), _) | (_, Some(false)) => Link::Down,
            _ => Link::Unknown,
        };
        self.link.saw(at, link);
        self.counters.apply(at, &sample.counters);
        self.sample = NetdevSample { counters: BTreeMap::new(), ..sample.clone() };
        for (trend, name) in [(&mut self.tx, "tx_bytes"), (&mut self.rx, "rx_bytes")] {
            if let Some(value) = self.counters.rate(name) {
                trend.push(at, value);
            }
        }
    }

    pub fn is_loopback(&self) -> bool {
        self.sample.arp_type == Some(772)
    }

    pub fn is_physical(&self) -> bool {
        self.sample.bus_id.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> Stamp {
        Stamp(s * 1_000_000_000)
    }

    fn sample(state: &str, counters: &[(&str, u64)]) -> PortSample {
        PortSample {
            state: Some(state.into()),
            counters: counters.iter().map(|(n, v)| ((*n).to_owned(), *v)).collect(),
            ..Default::default()
        }
    }

    #[test]
    fn infiniband_counts_words_and_efa_counts_bytes() {
        let mut ib = Port::default();
        ib.info.kind = PortKind::Infiniband;
        ib.apply(at(0), &sample("ACTIVE", &[("port_xmit_data", 0)]));
        ib.apply(at(1), &sample("ACTIVE", &[("port_xmit_data", 1000)]));
        assert_eq!(ib.tx_bytes_per_s(), Some(4000.0));
        let mut efa = Port::default();
        efa.info.kind = PortKind::Efa;
        efa.apply(at(0), &sample("ACTIVE", &[("tx_bytes", 0)]));
        efa.apply(at(2), &sample("ACTIVE", &[("tx_bytes", 1000)]));
        assert_eq!(efa.tx_bytes_per_s(), Some(500.0));
        efa.apply(at(3), &sample("ACTIVE", &[]));
        assert_eq!((efa.tx_bytes_per_s(), efa.counters.value("tx_bytes")), (Some(0.0), Some(1000)), "absent means unchanged");
        efa.apply(at(4), &sample("ACTIVE", &[("tx_bytes", 3000)]));
        assert_eq!(efa.tx_bytes_per_s(), Some(2000.0), "over one second, not over two");
    }

    #[test]
    fn only_a_port_that_was_up_can_go_down() {
        let mut port = Port::default();
        port.apply(at(0), &sample("DOWN", &[]));
        assert!(!port.link.was_up);
        port.apply(at(1), &sample("ACTIVE", &[]));
        port.apply(at(5), &sample("INIT", &[]));
        port.apply(at(6), &sample("INIT", &[]));
        assert_eq!((port.link.now, port.link.since, port.link.was_up), (Link::Down, at(5), true));
    }
}
