//! The machine should have more RDMA devices or GPUs than are there.

use super::ports::{Wire, talking_job, was_used};
use super::rail_imbalance::ports_of_cards;
use super::{FactContext, Implies, Rule, TickContext, while_it_holds};
use crate::base::platforms::{self, Fabric, Platform};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::base::units::counted;
use crate::model::Model;
use crate::model::port::{Link, Port};
use crate::observe::evidence::Evidence;
use crate::observe::port::PortKind;
use crate::observe::{SourceId, SourceState};
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "missing-nic",
    severity: Severity::Warning,
    title: "The machine has fewer RDMA devices or GPUs than it should",
    how: "The number of devices below /sys/class/infiniband and of GPUs that NVML sees, against what the machine has by its product name \
          (/sys/devices/virtual/dmi/id/product_name); a device that was there and is gone; NCCL's list of ports, shorter on one host than on another. Not in a container, which may see fewer by design",
    advice: "EFA: the launch template must ask for all network cards. A device that went away: `dmesg -T` and `lspci`; restart the instance or drain the \
             node. GPUs: `nvidia-smi`, `lspci | grep -i nvidia`",
    life: while_it_holds(10, 30),
    implies: Implies::Nothing,
    on_tick: Some(check),
    on_facts: Some(on_facts),
    ..Rule::PLAIN
};

/// Sources have listed all that there is.
const LISTED_AFTER: Duration = Duration::from_secs(10);

/// Where more GPUs are not seen, somebody was given a part of the machine.
const MOST_MISSING: usize = 2;

fn on_facts(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        out.extend(facts.fewer_ports().into_iter().map(|told| ctx.found(&RULE, &facts, told)));
    }
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    out.extend(ctx.model.ports.values().filter(|p| p.is_gone() && p.link.was_up).map(|port| gone(ctx, port)));
    let model = ctx.model;
    let seen_for = model.started.map_or(Duration::ZERO, |at| model.now.since(at));
    let Some(platform) = whole_host(model).filter(|p| !p.likely && seen_for >= LISTED_AFTER) else { return };
    out.extend(devices(ctx, platform));
    out.extend(gpus(model, platform));
}

/// What this machine is, where all of it is seen.
fn whole_host(model: &Model) -> Option<&'static Platform> {
    let node = model.node.as_ref().filter(|n| n.container.is_none())?;
    let hidden = model.ports.values().any(|p| p.info.counters_hidden.is_some());
    node.product.as_deref().filter(|_| !hidden).and_then(platforms::of_product)
}

fn gone(ctx: &TickContext, port: &Port) -> Finding {
    let since = port.link.since;
    let job = talking_job(ctx.model).filter(|_| was_used(port, since));
    let wire = Wire { name: port.name(), port: Some(port), netdev: None };
    let mut found = ctx.of_wire(&RULE, &wire, format!("port {} is gone: its device was there before", port.name()), since, job);
    let still = found.job.as_ref().and_then(|id| ctx.model.jobs.get(id)).and_then(|job| ctx.moved_at(job));
    let goes_on = still.is_some_and(|at| at > since.plus(Duration::from_secs(60)));
    found.severity = if goes_on { Severity::Warning } else { Severity::Error };
    found.confidence = Confidence::Certain;
    found.why = format!("gone for {}", span(ctx.model.now.since(since)));
    found.next = Some("dmesg -T | grep -i -e efa -e mlx5 -e AER | tail; lspci | grep -i -e mellanox -e efa".into());
    let path = format!("/sys/class/infiniband/{}", port.info.device);
    let reason = port.sample.unreadable.get("state").cloned().unwrap_or_default();
    found.evidence = vec![Evidence { path: Some(path), ..Evidence::of("counter", reason) }];
    found.machine = true;
    found
}

/// Fewer than the machine has. One that is gone has a finding of its own.
fn devices(ctx: &TickContext, platform: &Platform) -> Option<Finding> {
    let model = ctx.model;
    let is_one = |p: &&Port| match platform.fabric {
        Fabric::Efa => p.info.kind == PortKind::Efa,
        Fabric::Mlx5 => matches!(p.info.kind, PortKind::Infiniband | PortKind::Roce),
    };
    let mut there: Vec<&Port> = model.ports.values().filter(is_one).collect();
    let cards = ports_of_cards(model.ports.values());
    let is_single = |p: &Port| p.info.sys_image_guid.as_deref().is_none_or(|guid| cards.get(guid) == Some(&1));
    // Beside cards of one port, those of several are for storage.
    if there.iter().any(|p| is_single(p)) {
        there.retain(|p| is_single(p));
    }
    let expected = platform.rdma as usize;
    // Without any, nobody wants them, unless a job talks to other nodes.
    let wanted = !there.is_empty() || talking_job(model).is_some();
    if there.len() < expected && wanted && rdma_was_listed(model) {
        let kind = if platform.fabric == Fabric::Efa { "EFA" } else { "RDMA" };
        let words = format!("{} of {} devices", there.len(), counted(expected, kind));
        let mut found = RULE.finding("devices", format!("only {words} found: {} has {expected}", platform.name), model.now);
        found.why = "NCCL takes what it finds: the job is slower by as much".into();
        found.next = Some("ls /sys/class/infiniband; the network cards of the launch template".into());
        found.evidence = vec![product(platform), Evidence { path: Some("/sys/class/infiniband".into()), ..Evidence::of("counter", words) }];
        return Some(found);
    }
    never_up(ctx, platform, &there)
}

/// All devices are there, and one has not come up, though its siblings have.
fn never_up(ctx: &TickContext, platform: &Platform, rails: &[&Port]) -> Option<Finding> {
    let up = rails.iter().filter(|p| p.link.now == Link::Up).count();
    let down = rails.iter().find(|p| p.link.now == Link::Down && !p.link.was_up)?;
    if rails.len() != platform.rdma as usize || up + 1 != rails.len() {
        return None;
    }
    let wire = Wire { name: down.name(), port: Some(down), netdev: None };
    let summary = format!("port {} has not come up; its {} have", down.name(), counted(up, "sibling"));
    let mut found = ctx.of_wire(&RULE, &wire, summary, down.link.since, None);
    found.why = format!("{} uses all {} of them", platform.name, rails.len());
    found.next = Some(format!("ibstat {0}; mlxlink -d {0}", down.info.device));
    let path = format!("/sys/class/infiniband/{}/ports/{}/phys_state", down.info.device, down.info.port);
    let said = down.sample.phys_state.clone().or_else(|| down.sample.state.clone()).unwrap_or_default();
    found.evidence = vec![Evidence { path: Some(path), ..Evidence::of("counter", said) }];
    Some(found)
}

fn rdma_was_listed(model: &Model) -> bool {
    let state = model.sources.get(&SourceId::of("rdma")).map(|s| s.state);
    !model.ports.is_empty() || state == Some(SourceState::Absent)
}

fn gpus(model: &Model, platform: &Platform) -> Option<Finding> {
    let answers = model.sources.get(&SourceId::of("nvml")).is_some_and(|s| s.state == SourceState::Ok);
    let (there, expected) = (model.gpus.len(), platform.gpus as usize);
    // Slurm shows a job its own GPUs alone.
    let own = model.cgroups.get(&SourceId::of("host")).into_iter().flatten();
    let is_confined = own.into_iter().any(|c| c.cgroup.contains("slurm") || c.cgroup.contains("/job_"));
    if !answers || is_confined || there >= expected || there + MOST_MISSING < expected {
        return None;
    }
    let words = format!("{there} of {}", counted(expected, "GPU"));
    let mut found = RULE.finding("GPUs", format!("only {words} found: {} has {expected}", platform.name), model.now);
    found.why = "a GPU that fell off the bus before nccl-top began is not seen at all".into();
    found.next = Some("nvidia-smi -L; lspci | grep -i nvidia; dmesg -T | grep -i -e xid -e 'fallen off'".into());
    found.evidence = vec![product(platform), Evidence::of("gpu", format!("NVML sees {words}"))];
    Some(found)
}

fn product(platform: &Platform) -> Evidence {
    Evidence { path: Some("/sys/devices/virtual/dmi/id/product_name".into()), ..Evidence::of("file", platform.name) }
}
