//! A port came up slower than it should.

use super::area::Area;
use super::chain::Chain;
use super::ports::{Wire, talking_job};
use super::rail_imbalance::ports_of_cards;
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::platforms::{self, Fabric};
use crate::base::severity::{Confidence, Severity};
use crate::base::units::{counted, line_rate};
use crate::model::Model;
use crate::model::port::{Link, Port};
use crate::observe::evidence::Evidence;
use crate::observe::port::PortKind;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "port-below-line-rate",
    severity: Severity::Warning,
    title: "An RDMA port has negotiated a lower rate than it had before, or than its siblings have",
    says: "negotiated a lower rate than before, or than the others",
    how: "rate below /sys/class/infiniband, or the speed of the interface over it, of ports that are up: lower than before, or of one card alone among \
          cards of the same model, as many as GPUs need. Storage cards of another rate are fine. Traffic does not matter",
    advice: "Lanes or optics have failed, or the switch port is set to another speed: `mlxlink -d DEVICE`, `ibstat`, `ethtool IFACE`; seat the cable \
             again",
    life: while_it_holds(10, 30),
    implies: Implies::Nothing,
    area: Some(Area::Network),
    chain: Chain::OF_THE_NETWORK,
    on_tick: Some(check),
    ..Rule::PLAIN
};

/// Fewer siblings do not show which one is wrong.
const FEWEST: usize = 3;

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for port in ctx.model.ports.values().filter(|p| p.link.now == Link::Up) {
        let Some(rate) = port.sample.line_rate_bits_per_s else { continue };
        let fell = port.best_line_rate.filter(|best| *best > rate).map(|best| (best, "it had more before".to_owned(), Confidence::Certain));
        let Some((better, why, confidence)) = fell.or_else(|| alone(ctx.model, port, rate)) else { continue };
        let summary = format!("port {} runs at {}b/s instead of {}b/s", port.name(), line_rate(rate), line_rate(better));
        let wire = Wire { name: port.name(), port: Some(port), netdev: None };
        let mut found = ctx.of_wire(&RULE, &wire, summary, port.line_rate_since, talking_job(ctx.model));
        (found.why, found.confidence) = (why, confidence);
        found.next = Some(format!("mlxlink -d {} -m -c; ibstat {}", port.info.device, port.info.device));
        let path = format!("/sys/class/infiniband/{}/ports/{}/rate", port.info.device, port.info.port);
        let text = format!("{}b/s now, {}b/s expected", line_rate(rate), line_rate(better));
        found.evidence = vec![Evidence { path: Some(path), ..Evidence::of("counter", text) }];
        out.push(found);
    }
}

/// The only card of its kind that is slower: what its siblings have.
fn alone(model: &Model, port: &Port, rate: u64) -> Option<(u64, String, Confidence)> {
    // The rate of an EFA is known from the type of the instance; it is not negotiated.
    if !matches!(port.info.kind, PortKind::Infiniband | PortKind::Roce) {
        return None;
    }
    let cards = ports_of_cards(model.ports.values());
    let is_single = |p: &Port| p.info.sys_image_guid.as_deref().is_none_or(|guid| cards.get(guid) == Some(&1));
    let alike = |p: &&Port| p.info.kind == port.info.kind && p.info.model == port.info.model && is_single(p) && p.link.now == Link::Up;
    let others: Vec<u64> =
        model.ports.values().filter(alike).filter(|p| p.info != port.info).filter_map(|p| p.sample.line_rate_bits_per_s).collect();
    let better = *others.first().filter(|first| **first > rate && others.iter().all(|r| r == *first))?;
    if !is_single(port) || others.len() < FEWEST || !is_full_set(model, others.len() + 1, better) {
        return None;
    }
    let why = format!("its {} of the same model have {}b/s", counted(others.len(), "sibling"), line_rate(better));
    Some((better, why, Confidence::Likely))
}

/// So many cards are what the machine has for its GPUs: none of them is for storage.
fn is_full_set(model: &Model, cards: usize, bits_per_s: u64) -> bool {
    let product = model.node.as_ref().and_then(|n| n.product.as_deref());
    let known = product.and_then(platforms::of_product).filter(|p| !p.likely && p.fabric == Fabric::Mlx5);
    let gpus = model.gpus.len();
    match known {
        Some(platform) => cards == platform.rdma as usize && platform.rdma_bits_per_s == bits_per_s,
        None if gpus > 0 => cards.is_multiple_of(gpus) || gpus.is_multiple_of(cards),
        None => cards.is_power_of_two(),
    }
}
