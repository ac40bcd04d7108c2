//! NCCL chose TCP sockets although an RDMA device or plugin was there or asked for.

use super::area::Area;
use super::ports::talking_job;
use super::rail_imbalance::thirds;
use super::{FactContext, Implies, ONCE, Rule, TickContext};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::units::{bits_per_s, counted};
use crate::model::port::{Link, Netdev, Port};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "fallback-to-sockets",
    severity: Severity::Warning,
    title: "NCCL chose TCP sockets although an RDMA device or plugin was there or asked for",
    how: "\"Using network Socket\" beside a plugin that was named, looked for or failed to load, or beside EFA, InfiniBand or RoCE devices. Between nodes \
          without any of them: reported as an info, which fails nothing. Counters, where no log says it: while a job of several nodes moves, an interface \
          sends and receives about as much in each third of the time, and no RDMA port carries anything. Storage reads or writes, but not both alike",
    advice: "Read the lines of the network plugin above \"Using network\": the library or its device is missing in the container. On EFA /dev/infiniband and aws-ofi-nccl must be there; NCCL_NET=\"AWS Libfabric\" or NCCL_NET=IB makes the fallback an error",
    life: ONCE,
    implies: Implies::Nothing,
    area: Some(Area::Network),
    limits: &[&MEGABYTES, &WINDOW],
    on_tick: Some(by_counters),
    on_facts: Some(check),
    ..Rule::PLAIN
};

const MEGABYTES: Limit = Limit::count(
    "fallback-to-sockets",
    "megabytes",
    50.0,
    "an interface that carries fewer megabytes a second than this carries no collectives",
);
const WINDOW: Limit = Limit::seconds("fallback-to-sockets", "window", 60.0, "counters of ports and interfaces are compared over this time");
/// The lesser direction must be so much of the greater.
const ALIKE: f64 = 0.5;
/// More on any RDMA port, bytes/s: it is in use.
const SILENT_BYTES_PER_S: f64 = 1e6;

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        if let Some(told) = facts.mixed_networks() {
            let mut found = ctx.found(&RULE, &facts, told);
            found.severity = Severity::Error;
            out.push(found);
            continue;
        }
        out.extend(facts.sockets().into_iter().map(|told| ctx.found(&RULE, &facts, told)));
        // Where nothing faster is known to be there, nothing is known to be wrong.
        out.extend(facts.plain_sockets().map(|told| {
            let mut found = ctx.found(&RULE, &facts, told);
            (found.severity, found.role) = (Severity::Info, Role::Context);
            found
        }));
    }
}

/// What the counters show while a job moves, whatever its log says.
fn by_counters(ctx: &TickContext, out: &mut Vec<Finding>) {
    let model = ctx.model;
    let Some(job) = talking_job(model).filter(|_| ctx.moves() == Some(true)) else { return };
    let up: Vec<&Port> = model.ports.values().filter(|p| p.link.now == Link::Up).collect();
    let carried = |port: &&Port| {
        let grown = port.byte_counters().map(|(name, each)| Some((port.counters.grown(name, model.now, WINDOW.duration())?, each)));
        let [Some((out, each)), Some((into, _))] = grown else { return None };
        (out.over.min(into.over) >= WINDOW.duration().mul_f64(0.9)).then(|| (out.per_s() + into.per_s()) * each)
    };
    // One that cannot be read may carry all of it.
    let carried: Option<Vec<f64>> = up.iter().map(carried).collect();
    let Some(most) = carried.and_then(|all| all.into_iter().reduce(f64::max)).filter(|most| *most < SILENT_BYTES_PER_S) else { return };
    let busy = model.netdevs.values().filter(|n| n.is_physical()).filter_map(|n| Some((n, both_ways(ctx, n)?)));
    let Some((netdev, rate)) = busy.max_by(|a, b| a.1.total_cmp(&b.1)) else { return };
    let name = &netdev.sample.name;
    let by_log = ctx.ledger.first_open(|f| f.rule == RULE.id && f.job.as_deref() == Some(&job.id) && f.subject == "network");
    let networks = model.bringup_of(&job.id).networks;
    // NCCL's own word for another network counts more: the traffic is somebody else's.
    if networks.said.iter().any(|said| said.value != "Socket") {
        return;
    }
    let ports = counted(up.len(), "RDMA port");
    let mut found = RULE.finding("network", format!("collectives go over TCP ({name}) while {ports} carry nothing"), model.now);
    found.job = Some(job.id.clone());
    found.why = "the job moves, an interface carries as much out as in, and RDMA is silent: so do sockets of NCCL".into();
    found.next =
        Some("NCCL_DEBUG=INFO shows \"Using network\" and why; /dev/infiniband and the network plugin must be in the container".into());
    if let Some(known) = by_log {
        (found.summary, found.why, found.severity) = (known.summary.clone(), known.why.clone(), known.severity);
        (found.confidence, found.next) = (Confidence::Certain, known.next.clone());
    }
    found.ports = vec![name.clone()];
    let tcp = format!("{name}: {}b/s each way, in each third of the last {:.0} s", bits_per_s(rate), WINDOW.value());
    let rdma = format!("{ports}: {}b/s at most", bits_per_s(most));
    found.evidence = vec![
        Evidence { path: Some(format!("/sys/class/net/{name}/statistics")), ..Evidence::of("counter", tcp) },
        Evidence { path: Some("/sys/class/infiniband".into()), ..Evidence::of("counter", rdma) },
    ];
    out.push(found);
}

/// Bytes/s in the lesser direction, if the interface was busy both ways all the time.
fn both_ways(ctx: &TickContext, netdev: &Netdev) -> Option<f64> {
    let of = |trend| thirds(trend, ctx.model.now, WINDOW.duration());
    let (out, into) = of(&netdev.tx).zip(of(&netdev.rx))?;
    let each = out.into_iter().zip(into).map(|(out, into)| (out.min(into), out.max(into)));
    let alike = each.clone().all(|(less, more)| less >= MEGABYTES.value() * 1e6 && less >= more * ALIKE);
    alike.then(|| each.map(|(less, _)| less).fold(f64::MAX, f64::min))
}
