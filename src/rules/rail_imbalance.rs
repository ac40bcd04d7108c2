//! One rail carries less than the others all the time: collectives wait for it.

use super::area::Area;
use super::chain::{Chain, Slows};
use super::ports::talking_job;
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::Severity;
use crate::base::time::{Stamp, span};
use crate::base::units::bits_per_s;
use crate::model::Model;
use crate::model::job::Job;
use crate::model::port::{Link, Port};
use crate::model::series::Trend;
use crate::observe::evidence::Evidence;
use crate::observe::port::PortKind;
use crate::rules::findings::Finding;
use std::collections::BTreeMap;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "rail-imbalance",
    severity: Severity::Warning,
    title: "One rail carries less than the others all the time; collectives are as fast as the slowest rail",
    says: "{carries|carry} less than the other rails",
    how: "Bytes sent and received by RDMA ports of one kind, line rate and card, while most of them carry about the same: a port that stays behind in \
          each third of the time; of a shorter time where the steps of the job have become longer meanwhile. Ports that never took part, and uneven bursts, are fine",
    advice: "Look at the port's cable, its PCIe link (`lspci -vv`: LnkSta), the switch port, and the GPU that it is near to",
    life: while_it_holds(5, 30),
    implies: Implies::Nothing,
    area: Some(Area::Network),
    chain: Chain { slows: Slows::StepsByTraffic, ..Chain::OF_THE_NETWORK },
    limits: &[&SHARE, &LEAST, &WINDOW, &SOON],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const SHARE: Limit =
    Limit::percent("rail-imbalance", "share", 60.0, "a rail that carries less than this part of what its siblings carry lags");
const LEAST: Limit = Limit::percent("rail-imbalance", "least", 1.0, "siblings must use this much of their line rate, else nothing can lag");
const WINDOW: Limit = Limit::seconds("rail-imbalance", "window", 30.0, "rails are compared over each third of this time");

const SOON: Limit = Limit::seconds(
    "rail-imbalance",
    "soon",
    12.0,
    "rails are compared over each third of this time, and of two steps at least, where the steps became longer before it",
);

/// Of what siblings carry: what carries less takes no part, and is no rail.
const TAKES_PART: f64 = 0.05;
/// So far from the median a rail is like the others, and so many must be.
const ALIKE: f64 = 0.25;
const MOST_ALIKE: f64 = 0.75;
const FEWEST: usize = 4;
/// Where the line rate is not known.
const LEAST_BYTES_PER_S: f64 = 20e6;
/// What names another cause of the same.
const OTHER_CAUSES: &[&str] = &["nic-down", "nic-flapping", "nic-errors", "fabric-retransmits", "congestion", "port-below-line-rate"];

/// Ports of one kind, line rate, model, and number of ports on a card: storage often hangs on cards of two.
type Like<'a> = (PortKind, Option<u64>, Option<&'a str>, usize);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    Out,
    In,
}

impl Way {
    fn trend(self, port: &Port) -> &Trend {
        match self {
            Way::Out => &port.tx,
            Way::In => &port.rx,
        }
    }
}

/// How many ports are on the card of each.
pub fn ports_of_cards<'a>(ports: impl Iterator<Item = &'a Port>) -> BTreeMap<&'a str, usize> {
    let mut cards: BTreeMap<&str, usize> = BTreeMap::new();
    ports.filter_map(|p| p.info.sys_image_guid.as_deref()).for_each(|guid| *cards.entry(guid).or_default() += 1);
    cards
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let model = ctx.model;
    // Of two jobs each has its own rails, and waiting ranks move nothing.
    let talking = model.jobs.values().filter(|j| j.ended_at.is_none() && !j.archived && j.has_ranks_elsewhere()).count();
    if talking > 1 || ctx.moves() == Some(false) {
        return;
    }
    let cards = ports_of_cards(model.ports.values());
    let mut groups: BTreeMap<Like, Vec<&Port>> = BTreeMap::new();
    for port in model.ports.values().filter(|p| p.link.now == Link::Up) {
        let of_card = port.info.sys_image_guid.as_deref().and_then(|guid| cards.get(guid)).copied().unwrap_or(1);
        let like = (port.info.kind, port.sample.line_rate_bits_per_s, port.info.model.as_deref(), of_card);
        groups.entry(like).or_default().push(port);
    }
    let job = talking_job(model);
    let window = window(model, job);
    for ports in groups.values().filter(|ports| ports.len() >= FEWEST) {
        for port in ports {
            if !ctx.has_trouble(OTHER_CAUSES, &port.name()) {
                out.extend([Way::Out, Way::In].into_iter().find_map(|way| behind(ctx, job, ports, port, way, window)));
            }
        }
    }
}

/// How long a rail must have stayed behind. Steps that became longer say that something has changed, and when.
fn window(model: &Model, job: Option<&Job>) -> Duration {
    /// A third holds as much.
    const STEPS: f64 = 2.0;
    let shorter = || {
        let progress = model.progress_of(&job?.id)?;
        let slowed = model.now.since(progress.slow?.since);
        let step_s = progress.step_times.median_of_last(3)?;
        let soon = SOON.duration().max(Duration::from_secs_f64((step_s * STEPS * 3.0).min(WINDOW.value())));
        (slowed >= soon).then_some(soon)
    };
    shorter().unwrap_or(WINDOW.duration()).min(WINDOW.duration())
}

/// Bytes a second in the newest thirds of the time, the newest first. `None`: not all of it was watched.
pub fn thirds(trend: &Trend, now: Stamp, window: Duration) -> Option<[f64; 3]> {
    let third = window / 3;
    let newest: Vec<(Stamp, f32)> = trend.iter().rev().take_while(|(at, _)| *at >= now.minus(third * 3)).collect();
    let mean = |n: u32| {
        let (to, from) = (now.minus(third * n), now.minus(third * (n + 1)));
        let inside: Vec<f64> = newest.iter().filter(|(at, _)| *at > from && *at <= to).map(|(_, v)| f64::from(*v)).collect();
        (!inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
    };
    Some([mean(0)?, mean(1)?, mean(2)?])
}

fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn behind(ctx: &TickContext, job: Option<&Job>, ports: &[&Port], port: &Port, way: Way, window: Duration) -> Option<Finding> {
    let now = ctx.model.now;
    let own = thirds(way.trend(port), now, window)?;
    let others: Vec<[f64; 3]> = ports.iter().filter(|p| p.info != port.info).filter_map(|p| thirds(way.trend(p), now, window)).collect();
    let line = port.sample.line_rate_bits_per_s.map(|bits| bits as f64 / 8.0);
    let least = line.map_or(LEAST_BYTES_PER_S, |line| line * LEAST.value() / 100.0);
    let mut shares = Vec::new();
    for n in 0..3 {
        let of_others: Vec<f64> = others.iter().map(|o| o[n]).collect();
        let usual = median(of_others.clone()).filter(|usual| *usual >= least)?;
        let alike = of_others.iter().filter(|v| (**v - usual).abs() <= usual * ALIKE).count();
        let share = own[n] / usual;
        if (alike as f64) < of_others.len() as f64 * MOST_ALIKE || share * 100.0 >= SHARE.value() {
            return None;
        }
        shares.push(share);
    }
    let is_rail = shares.iter().all(|s| *s >= TAKES_PART) && answers(ctx, ports, port, way, window)
        || took_part(job, ports, port, way, now.minus(window));
    if !is_rail || !is_taken(ctx, job, port) {
        return None;
    }
    let (newest, usual) = (own[0], median(others.iter().map(|o| o[0]).collect())?);
    let percent = newest / usual * 100.0;
    let verb = if way == Way::Out { "sends" } else { "receives" };
    let summary = format!("rail {} {verb} {percent:.0} % of what its {} siblings do", port.name(), ports.len() - 1);
    let wire = super::ports::Wire { name: port.name(), port: None, netdev: None };
    let mut found = ctx.of_wire(&RULE, &wire, summary, now.minus(window), job);
    found.why =
        format!("the others carry about the same, and it stayed behind for {}: a ring is as fast as its slowest rail", span(window));
    found.next = Some(format!("lspci -vv -s {} | grep LnkSta", port.info.bus_id.as_deref().unwrap_or("ADDRESS")));
    let [out, into] = port.byte_counters();
    let (counter, _) = if way == Way::Out { out } else { into };
    let rates = format!("{counter}: {}b/s over the last {:.0} s", bits_per_s(newest), window.as_secs_f64() / 3.0);
    let text = format!("{rates}, the median of its siblings {}b/s", bits_per_s(usual));
    let path = format!("/sys/class/infiniband/{}/ports/{}", port.info.device, port.info.port);
    found.evidence = vec![Evidence { path: Some(path), ..Evidence::of("counter", text) }];
    Some(found)
}

/// A rail carries data both ways; who reads from storage only receives.
fn answers(ctx: &TickContext, ports: &[&Port], port: &Port, way: Way, window: Duration) -> bool {
    let back = if way == Way::Out { Way::In } else { Way::Out };
    let now = ctx.model.now;
    let Some(own) = thirds(back.trend(port), now, window) else { return false };
    let usual = median(ports.iter().filter_map(|p| thirds(back.trend(p), now, window)).map(|t| t[0]).collect());
    usual.is_some_and(|usual| own[0] >= usual * TAKES_PART)
}

/// It carried as much as its siblings before, in the life of the job: a rail that fell silent.
fn took_part(job: Option<&Job>, ports: &[&Port], port: &Port, way: Way, to: Stamp) -> bool {
    const LONG: Duration = Duration::from_secs(30);
    let Some(job) = job else { return false };
    let from = job.first_seen;
    let mean = |p: &Port| {
        let inside: Vec<f64> = way.trend(p).iter().filter(|(at, _)| *at >= from && *at < to).map(|(_, v)| f64::from(v)).collect();
        (to.since(from) >= LONG && !inside.is_empty()).then(|| inside.iter().sum::<f64>() / inside.len() as f64)
    };
    let usual = median(ports.iter().filter_map(|p| mean(p)).collect());
    mean(port).zip(usual).is_some_and(|(own, usual)| usual > 0.0 && own >= usual * SHARE.value() / 100.0)
}

/// Where NCCL lists the devices that it took, others are no rails.
fn is_taken(ctx: &TickContext, job: Option<&Job>, port: &Port) -> bool {
    let Some(job) = job else { return true };
    let devices = ctx.model.bringup_of(&job.id).devices;
    // Several that it took for one card are one: `mlx5_0+mlx5_1`.
    let names = |value: &str| value.split(['+', ':', '/']).any(|name| name == port.info.device);
    devices.said.is_empty() || devices.others > 0 || devices.said.iter().any(|said| names(&said.value))
}
