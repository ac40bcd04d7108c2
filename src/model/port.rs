//! RDMA ports and network interfaces: counters become rates here.

use super::bounds;
use super::series::{Series, Trend, rate};
use crate::base::time::Stamp;
use crate::observe::port::{NetdevInfo, NetdevSample, PortInfo, PortKind, PortSample};
use std::collections::BTreeMap;
use std::time::Duration;

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
        for (name, (then, _)) in &mut self.values {
            // Those that are asked for more seldom are all there when they are.
            if !changed.contains_key(name) && !name.starts_with("ethtool/") {
                if at > *then {
                    self.rates.insert(name.clone(), 0.0);
                }
                *then = at;
            }
        }
        for (name, &value) in changed {
            if self.values.len() >= bounds::COUNTERS && !self.values.contains_key(name) {
                continue;
            }
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

/// Counters of packets that were lost, damaged or had to be sent again, of events that come of that. Names of files; what a driver does
/// not have is not counted.
///
/// EFA: `efa_port_stats_descs` in drivers/infiniband/hw/efa/efa_verbs.c. SRD sends again what the network dropped, so a little of it is
/// no fault.
const LOSS_EFA: &[&str] = &[
    "rx_drops",
    "retrans_pkts",
    "retrans_timeout_events",
    "unresponsive_remote_events",
    "impaired_remote_conn_events",
    "rdma_read_wr_err",
    "rdma_write_wr_err",
];

/// InfiniBand, RoCE and iWARP. `counters/`: PortCounters of the InfiniBand specification, as drivers/infiniband/core/sysfs.c names them,
/// without port_xmit_wait (waiting is no loss), VL15_dropped (management only) and port_rcv_switch_relay_errors (a port's own multicast
/// counts there). `hw_counters/`: drivers/infiniband/hw/mlx5/counters.c, then drivers/infiniband/hw/bnxt_re/hw_counters.c.
const LOSS_IB: &[&str] = &[
    "symbol_error",
    "link_error_recovery",
    "link_downed",
    "port_rcv_errors",
    "port_rcv_remote_physical_errors",
    "port_rcv_constraint_errors",
    "port_xmit_constraint_errors",
    "port_xmit_discards",
    "local_link_integrity_errors",
    "excessive_buffer_overrun_errors",
    "out_of_sequence",
    "out_of_buffer",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "rnr_nak_retry_err",
    "rx_icrc_encapsulated",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "to_retransmits",
    "seq_err_naks_rcvd",
    "max_retry_exceeded",
    "oos_drop_count",
    "rx_roce_discards",
    "tx_roce_discards",
    "rx_roce_errors",
    "tx_roce_errors",
];

/// Documentation/networking/statistics.rst. `rx_dropped` also counts frames that no protocol wants.
const LOSS_NETDEV: &[&str] = &["rx_errors", "tx_errors", "rx_dropped", "tx_dropped"];

/// What [`Loss::per_s`] is the mean of: seldom events stay in sight, what is over goes.
const LOSS_WINDOW: Duration = Duration::from_secs(30);

/// What traffic is the mean of: training sends in bursts, and ports are compared.
const TRAFFIC_WINDOW: Duration = Duration::from_secs(5);

/// Losses per second, of the last samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss(Series<60>);

impl Loss {
    fn saw(&mut self, at: Stamp, names: &[&str], counters: &Counters) {
        let rates = names.iter().filter_map(|name| counters.rate(name));
        if let Some(sum) = rates.reduce(|a, b| a + b) {
            self.0.push(at, sum);
        }
    }

    /// Losses per second in the last half minute.
    pub fn per_s(&self, now: Stamp) -> Option<f64> {
        self.0.mean_within(now, LOSS_WINDOW)
    }
}

/// The mean of the newest seconds; `None` where nothing was sampled in them.
fn newest(trend: &Trend, now: Stamp) -> Option<f64> {
    let from = now.minus(TRAFFIC_WINDOW);
    let values = trend.iter().rev().take_while(|(at, _)| *at >= from);
    let (n, sum) = values.fold((0u32, 0.0), |(n, sum), (_, v)| (n + 1, sum + f64::from(v)));
    (n > 0).then(|| sum / f64::from(n))
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
    pub loss: Loss,
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
        self.loss.saw(at, self.loss_counters(), &self.counters);
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

    /// Bytes/s sent, over the last seconds.
    pub fn tx_newest(&self, now: Stamp) -> Option<f64> {
        newest(&self.tx, now).or_else(|| self.tx_bytes_per_s())
    }

    /// Bytes/s received, over the last seconds.
    pub fn rx_newest(&self, now: Stamp) -> Option<f64> {
        newest(&self.rx, now).or_else(|| self.rx_bytes_per_s())
    }

    /// Names of the counters that mean loss.
    pub fn loss_counters(&self) -> &'static [&'static str] {
        if self.info.kind == PortKind::Efa { LOSS_EFA } else { LOSS_IB }
    }

    /// Which plug of the machine it sends through: functions of one chip with one number share it, as the two halves of each plug of a DGX
    /// Spark, and those of a NIC in two slots.
    pub fn plug(&self) -> Option<(&str, &str, u32)> {
        let (_, function) = self.info.bus_id.as_deref()?.rsplit_once('.')?;
        Some((self.info.sys_image_guid.as_deref()?, function, self.info.port))
    }

    /// It was there before, and is not now.
    pub fn is_gone(&self) -> bool {
        self.sample.state.is_none() && self.sample.unreadable.contains_key("state")
    }
}

/// Bits/s that ports can carry together: those of one plug share its rate.
pub fn capacity<'a>(ports: impl Iterator<Item = &'a Port>) -> u64 {
    let mut plugs = BTreeMap::new();
    let mut alone = 0u64;
    for port in ports {
        let rate = port.sample.line_rate_bits_per_s.unwrap_or(0);
        match port.plug() {
            Some(plug) => {
                let most: &mut u64 = plugs.entry(plug).or_default();
                *most = rate.max(*most);
            }
            None => alone = rate.saturating_add(alone),
        }
    }
    plugs.values().fold(alone, |sum: u64, rate| sum.saturating_add(*rate))
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Netdev {
    pub sample: NetdevSample,
    /// As last reported; empty for virtual interfaces.
    pub info: NetdevInfo,
    pub link: LinkHistory,
    pub counters: Counters,
    /// Bytes/s, to draw.
    pub tx: Trend,
    pub rx: Trend,
    pub loss: Loss,
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
        self.loss.saw(at, LOSS_NETDEV, &self.counters);
        self.sample = NetdevSample { counters: BTreeMap::new(), ..sample.clone() };
        if let Some(info) = self.sample.info.take() {
            self.info = info;
        }
        for (trend, name) in [(&mut self.tx, "tx_bytes"), (&mut self.rx, "rx_bytes")] {
            if let Some(value) = self.counters.rate(name) {
                trend.push(at, value);
            }
        }
    }

    /// Bytes/s sent, over the last seconds.
    pub fn tx_newest(&self, now: Stamp) -> Option<f64> {
        newest(&self.tx, now).or_else(|| self.counters.rate("tx_bytes"))
    }

    /// Bytes/s received, over the last seconds.
    pub fn rx_newest(&self, now: Stamp) -> Option<f64> {
        newest(&self.rx, now).or_else(|| self.counters.rate("rx_bytes"))
    }

    /// Names of the counters that mean loss.
    pub fn loss_counters(&self) -> &'static [&'static str] {
        LOSS_NETDEV
    }

    pub fn is_loopback(&self) -> bool {
        self.sample.arp_type == Some(772)
    }

    pub fn is_physical(&self) -> bool {
        self.sample.bus_id.is_some()
    }
}
