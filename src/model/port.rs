//! RDMA ports and network interfaces: counters become rates here.

use super::bounds;
use super::series::{Series, Trend};
use crate::base::port_counters::{Class, Meaning, meaning};
use crate::base::time::{Stamp, span};
use crate::observe::port::{NetdevInfo, NetdevSample, PortInfo, PortKind, PortSample};
use std::collections::{BTreeMap, VecDeque};
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
    /// When it went down, while it is not up again.
    pub down_at: Option<Stamp>,
    /// From and to of the newest times in which it was down, as polls saw them.
    pub outages: VecDeque<(Stamp, Stamp)>,
    /// How often it came up again, and how long it was down until then, in all.
    pub times: u32,
    pub down_for: Duration,
}

impl LinkHistory {
    const OUTAGES: usize = 16;

    fn saw(&mut self, at: Stamp, link: Link) {
        if link != self.now {
            (self.now, self.since) = (link, at);
        }
        match link {
            Link::Down if self.was_up => _ = self.down_at.get_or_insert(at),
            Link::Up => {
                if let Some(from) = self.down_at.take() {
                    if self.outages.len() == Self::OUTAGES {
                        self.outages.pop_front();
                    }
                    self.outages.push_back((from, at));
                    self.times = self.times.saturating_add(1);
                    self.down_for = self.down_for.saturating_add(at.since(from));
                }
            }
            _ => {}
        }
        self.was_up |= link == Link::Up;
    }

    /// Outages that ended after this.
    pub fn outages_since(&self, from: Stamp) -> usize {
        self.outages.iter().filter(|(_, to)| *to > from).count()
    }
}

/// Cumulative counters, their rates per second, and what each has grown by of late.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counters {
    values: BTreeMap<String, Counter>,
    rates: BTreeMap<String, f64>,
    sampled_at: Option<Stamp>,
    every: Duration,
}

/// One counter.
#[derive(Clone, Debug, PartialEq)]
struct Counter {
    /// `None`: traffic, or not known.
    meaning: Option<&'static Meaning>,
    /// When it was last read.
    at: Stamp,
    value: u64,
    /// From when on all that it grew by is known.
    since: Stamp,
    steps: VecDeque<Step>,
}

/// A time in which a counter grew, up to [`Counter::STEP`] or from one sample to the next.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Step {
    began: Stamp,
    ended: Stamp,
    before: u64,
    by: u64,
}

/// What a counter did within a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Growth {
    pub by: u64,
    /// Its value before it began to grow, and now.
    pub from: u64,
    pub to: u64,
    /// How much of the time it was watched.
    pub over: Duration,
    /// When it was last seen to grow.
    pub last: Option<Stamp>,
}

impl Growth {
    pub fn per_s(&self) -> f64 {
        if self.over.is_zero() { 0.0 } else { self.by as f64 / self.over.as_secs_f64() }
    }

    /// `symbol_error 4 -> 904 in 30 s`
    pub fn words(&self, name: &str) -> String {
        format!("{name} {} -> {} in {}", self.from, self.to, span(self.over))
    }
}

/// Counters of the port that stay at their greatest value, by bits: drivers/infiniband/core/sysfs.c, PortCounters of the InfiniBand
/// specification.
const SATURATE: &[(&str, u32)] = &[
    ("symbol_error", 16),
    ("link_error_recovery", 8),
    ("link_downed", 8),
    ("port_rcv_errors", 16),
    ("port_rcv_remote_physical_errors", 16),
    ("port_rcv_switch_relay_errors", 16),
    ("port_xmit_discards", 16),
    ("port_xmit_constraint_errors", 8),
    ("port_rcv_constraint_errors", 8),
    ("local_link_integrity_errors", 4),
    ("excessive_buffer_overrun_errors", 4),
    ("VL15_dropped", 16),
    ("port_xmit_wait", 32),
];

/// Counters of the queue pairs of mlx5, of 32 bits, which begin again at 0: drivers/infiniband/hw/mlx5/counters.c.
const WRAP: &[&str] = &[
    "rx_write_requests",
    "rx_read_requests",
    "rx_atomic_requests",
    "rx_dct_connect",
    "out_of_buffer",
    "out_of_sequence",
    "duplicate_request",
    "rnr_nak_retry_err",
    "packet_seq_err",
    "implied_nak_seq_err",
    "local_ack_timeout_err",
    "resp_local_length_error",
    "resp_cqe_error",
    "req_cqe_error",
    "req_remote_invalid_request",
    "req_remote_access_errors",
    "resp_remote_access_errors",
    "resp_cqe_flush_error",
    "req_cqe_flush_error",
    "req_transport_retries_exceeded",
    "req_rnr_retries_exceeded",
    "roce_adp_retrans",
    "roce_adp_retrans_to",
    "roce_slow_restart",
    "roce_slow_restart_cnps",
    "roce_slow_restart_trans",
];

/// It stands at the greatest value that it can have, and counts no more.
fn is_full(name: &str, value: u64) -> bool {
    value >= 15 && SATURATE.iter().any(|(full, bits)| *full == name && value >= (1 << bits) - 1)
}

/// What a counter grew by; `None` where it began anew, so that nobody knows.
fn delta(name: &str, before: u64, after: u64) -> Option<u64> {
    const QUARTER: u64 = 1 << 30;
    // One that begins anew stands anywhere; one that wraps was near its end and is near its beginning.
    let wraps = || WRAP.contains(&name) && before <= u64::from(u32::MAX) && before >= 3 * QUARTER && after < QUARTER;
    after.checked_sub(before).or_else(|| wraps().then(|| after + 4 * QUARTER - before))
}

impl Counter {
    const STEP: Duration = Duration::from_secs(5);
    /// Five minutes of one that grows all the time; of one that seldom does, any time.
    const STEPS: usize = 64;

    fn new(name: &str, at: Stamp, value: u64) -> Counter {
        Counter::that_means(meaning(name), at, value)
    }

    fn that_means(meaning: Option<&'static Meaning>, at: Stamp, value: u64) -> Counter {
        Counter { meaning, at, value, since: at, steps: VecDeque::new() }
    }

    fn grew(&mut self, at: Stamp, by: u64) {
        let (began, before) = (self.at, self.value);
        match self.steps.back_mut().filter(|last| at.since(last.began) <= Self::STEP) {
            Some(last) => (last.ended, last.by) = (at, last.by.saturating_add(by)),
            None => {
                if self.steps.len() == Self::STEPS
                    && let Some(lost) = self.steps.pop_front()
                {
                    self.since = lost.ended;
                }
                self.steps.push_back(Step { began, ended: at, before, by });
            }
        }
    }
}

impl Counters {
    /// After so many times the usual time between samples, nobody looked.
    const HOLE: u32 = 5;
    const LEAST_HOLE: Duration = Duration::from_secs(10);

    /// `changed` holds the counters that changed; one that is absent has not, unless it is unreadable.
    fn apply(&mut self, at: Stamp, changed: &BTreeMap<String, u64>, is_unreadable: impl Fn(&str) -> bool) {
        let took = self.sampled_at.map_or(Duration::ZERO, |before| at.since(before));
        let is_hole = !self.every.is_zero() && took > (self.every * Self::HOLE).max(Self::LEAST_HOLE);
        (self.sampled_at, self.every) = (Some(at), if is_hole { self.every } else { took });
        if is_hole {
            self.rates.clear();
        }
        // Those of ethtool are asked for more seldom, and are all there when they are.
        let is_due = |name: &str| !changed.contains_key(name) && !name.starts_with("ethtool/");
        for (name, counter) in self.values.iter_mut().filter(|(name, _)| is_due(name)) {
            if is_unreadable(name) || is_full(name, counter.value) {
                self.rates.remove(name);
            } else if at > counter.at && !is_hole {
                self.rates.insert(name.clone(), 0.0);
            }
            if !is_unreadable(name) {
                counter.at = counter.at.max(at);
            }
        }
        for (name, &value) in changed {
            let Some(counter) = self.values.get_mut(name) else {
                if self.values.len() < bounds::COUNTERS {
                    self.values.insert(name.clone(), Counter::new(name, at, value));
                }
                continue;
            };
            let dt = at.secs_since(counter.at);
            let by = delta(name, counter.value, value);
            match by.filter(|_| dt > 0.0) {
                Some(by) if !is_hole => self.rates.insert(name.clone(), by as f64 / dt),
                _ => self.rates.remove(name),
            };
            match by {
                Some(by) if by > 0 => counter.grew(at, by),
                Some(_) => {}
                None => *counter = Counter::that_means(counter.meaning, at, value),
            }
            (counter.at, counter.value) = (counter.at.max(at), value);
        }
    }

    pub fn value(&self, name: &str) -> Option<u64> {
        self.values.get(name).map(|c| c.value)
    }

    pub fn rate(&self, name: &str) -> Option<f64> {
        self.rates.get(name).copied()
    }

    pub fn rates(&self) -> &BTreeMap<String, f64> {
        &self.rates
    }

    /// Those that mean something, in the order of their names.
    pub fn meaningful(&self) -> impl Iterator<Item = Known<'_>> {
        self.values.iter().filter_map(|(name, c)| Some(Known { name, value: c.value, rate: self.rate(name), meaning: c.meaning? }))
    }

    /// Events per second, of all of a class; `None` where none of them is known.
    pub fn class_rate(&self, class: Class) -> Option<f64> {
        sum(self.meaningful().filter(|known| known.meaning.class == class && !known.meaning.is_time))
    }

    /// Those that mean something and have grown of late, or that seldom do.
    pub fn growing(&self) -> impl Iterator<Item = (&str, &'static Meaning)> {
        self.values.iter().filter(|(_, c)| !c.steps.is_empty()).filter_map(|(name, c)| Some((name.as_str(), c.meaning?)))
    }

    /// Times of growth that are kept of all of them.
    pub fn kept(&self) -> usize {
        self.values.values().map(|c| c.steps.len()).sum()
    }

    /// What a counter did in the time before `now`. `None` where that is not known: it is not there, was not read in that time, or stands
    /// at its greatest value and cannot show any more.
    ///
    /// What it grew by while nobody looked for longer than `window` is left out: it may have been long ago.
    pub fn grown(&self, name: &str, now: Stamp, window: Duration) -> Option<Growth> {
        let counter = self.values.get(name)?;
        let from = now.minus(window).max(counter.since);
        let inside = |s: &&Step| s.ended > from && s.ended.since(s.began) <= window.max(Counter::STEP);
        let mut steps = counter.steps.iter().filter(inside).peekable();
        let begins = steps.peek().map_or(from, |first| first.began.min(from)).max(counter.since);
        let before = steps.peek().map_or(counter.value, |first| first.before);
        let (by, last) = steps.fold((0u64, None), |(by, _), s| (by.saturating_add(s.by), Some(s.ended)));
        let over = counter.at.since(begins);
        let known = !over.is_zero() && (by > 0 || !is_full(name, counter.value));
        known.then_some(Growth { by, from: before, to: counter.value, over, last })
    }

    /// In how many of three equal parts of the time before `now` a counter grew, by a tenth of all at least: what comes in a burst is in one
    /// of them, whatever dribbles after it.
    pub fn parts(&self, name: &str, now: Stamp, window: Duration) -> usize {
        let Some(counter) = self.values.get(name) else { return 0 };
        let mut parts = [0u64; 3];
        for step in counter.steps.iter().filter(|s| s.ended.since(s.began) <= window && s.ended <= now) {
            let part = now.since(step.ended).as_nanos() * 3 / window.as_nanos().max(1);
            if let Some(part) = usize::try_from(part).ok().and_then(|part| parts.get_mut(part)) {
                *part = part.saturating_add(step.by);
            }
        }
        let all = parts.iter().fold(0u64, |all, by| all.saturating_add(*by));
        parts.iter().filter(|by| **by > 0 && **by >= all / 10).count()
    }

    /// Counters that stand at their greatest value: what happens now they do not show.
    pub fn full(&self) -> impl Iterator<Item = &str> {
        self.values.iter().filter(|(name, c)| is_full(name, c.value)).map(|(name, _)| name.as_str())
    }
}

/// A counter that means something.
#[derive(Clone, Copy, Debug)]
pub struct Known<'a> {
    pub name: &'a str,
    pub value: u64,
    /// Per second.
    pub rate: Option<f64>,
    pub meaning: &'static Meaning,
}

fn sum<'a>(known: impl Iterator<Item = Known<'a>>) -> Option<f64> {
    known.filter_map(|known| known.rate).reduce(|a, b| a + b)
}

/// What [`Loss::per_s`] is the mean of: seldom events stay in sight, what is over goes.
const LOSS_WINDOW: Duration = Duration::from_secs(30);

/// What traffic is the mean of: training sends in bursts, and ports are compared.
const TRAFFIC_WINDOW: Duration = Duration::from_secs(5);

/// Losses per second, of the last samples.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loss(Series<60>);

impl Loss {
    fn saw(&mut self, at: Stamp, counters: &Counters) {
        if let Some(sum) = sum(counters.meaningful().filter(|known| known.meaning.is_loss)) {
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
    /// The highest line rate that it has had while it was up, and since when it has the one that it has; bits/s.
    pub best_line_rate: Option<u64>,
    pub line_rate_since: Stamp,
}

impl Port {
    pub fn apply(&mut self, at: Stamp, sample: &PortSample) {
        let link = match sample.state.as_deref() {
            Some("ACTIVE" | "ACTIVE_DEFER") => Link::Up,
            Some(_) => Link::Down,
            None => Link::Unknown,
        };
        self.link.saw(at, link);
        self.counters.apply(at, &sample.counters, |name| is_unreadable(sample, name));
        self.loss.saw(at, &self.counters);
        // What a port reports of its rate while it is down is no rate.
        if link == Link::Up {
            self.best_line_rate = self.best_line_rate.max(sample.line_rate_bits_per_s);
        }
        if sample.line_rate_bits_per_s != self.sample.line_rate_bits_per_s {
            self.line_rate_since = at;
        }
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

    /// The counters of what was sent and received, and how many bytes each of them is. EFA and bnxt_re count bytes, the IB port counters
    /// words of four.
    pub fn byte_counters(&self) -> [(&'static str, f64); 2] {
        let of = |plain, words| {
            let by_words = self.info.kind != PortKind::Efa && self.counters.value(words).is_some();
            if by_words { (words, 4.0) } else { (plain, 1.0) }
        };
        [of("tx_bytes", "port_xmit_data"), of("rx_bytes", "port_rcv_data")]
    }

    fn bytes_per_s(&self, (name, bytes): (&str, f64)) -> Option<f64> {
        Some(self.counters.rate(name)? * bytes)
    }

    pub fn tx_bytes_per_s(&self) -> Option<f64> {
        self.bytes_per_s(self.byte_counters()[0])
    }

    pub fn rx_bytes_per_s(&self) -> Option<f64> {
        self.bytes_per_s(self.byte_counters()[1])
    }

    /// Bytes/s sent, over the last seconds.
    pub fn tx_newest(&self, now: Stamp) -> Option<f64> {
        newest(&self.tx, now).or_else(|| self.tx_bytes_per_s())
    }

    /// Bytes/s received, over the last seconds.
    pub fn rx_newest(&self, now: Stamp) -> Option<f64> {
        newest(&self.rx, now).or_else(|| self.rx_bytes_per_s())
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

/// A file or the directory that it is in cannot be read. Of a counter it is not known in which of the port's directories it is.
fn is_unreadable(sample: &PortSample, name: &str) -> bool {
    let of_port = || ["counters", "counters_ext", "hw_counters"].iter().any(|dir| sample.unreadable.contains_key(*dir));
    let dir = || if name.starts_with("device/") { sample.unreadable.contains_key("device/hw_counters") } else { of_port() };
    !sample.unreadable.is_empty() && (sample.unreadable.contains_key(name) || sample.unreadable.contains_key("state") || dir())
}

/// The name under which [`NetdevSample::carrier_changes`] stands among the counters of an interface: two for each time that it was down.
pub const CARRIER_CHANGES: &str = "carrier_changes";

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
        let mut counters = sample.counters.clone();
        counters.extend(sample.carrier_changes.map(|n| (CARRIER_CHANGES.to_owned(), n)));
        self.counters.apply(at, &counters, |name| name == CARRIER_CHANGES && sample.carrier_changes.is_none());
        self.loss.saw(at, &self.counters);
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

    pub fn is_loopback(&self) -> bool {
        self.sample.arp_type == Some(772)
    }

    pub fn is_physical(&self) -> bool {
        self.sample.bus_id.is_some()
    }
}
