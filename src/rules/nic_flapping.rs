//! A port goes down and comes up again and again.

use super::area::Area;
use super::chain::Chain;
use super::ports::{counted_times, flaps, talking_job, was_used, wires};
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "nic-flapping",
    severity: Severity::Error,
    title: "A network port goes down and comes up again and again",
    says: "{goes|go} down and {comes|come} up again and again",
    how: "carrier_changes below /sys/class/net, link_downed below /sys/class/infiniband, ethtool's link_down_events_phy, and states that polls \
          saw: what happens between two polls counts, too",
    advice: "Clean or change cable and optics, look at the switch port. Outages add up: a job survives a few seconds at a time, \
             but one that runs for days fails in the end. NCCL_IB_TIMEOUT=22 rides out longer ones",
    life: while_it_holds(0, 120),
    implies: Implies::Nothing,
    area: Some(Area::Network),
    chain: Chain::OF_THE_NETWORK,
    limits: &[&TIMES, &WITHIN, &GOES_ON],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const TIMES: Limit = Limit::count("nic-flapping", "times", 2.0, "a port that went down so often flaps");
const WITHIN: Limit = Limit::seconds("nic-flapping", "within", 600.0, "the time in which it went down so often");
const GOES_ON: Limit = Limit::seconds(
    "nic-flapping",
    "goes-on",
    60.0,
    "a job that still moves so long after the port began to flap survives it: a warning then",
);

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let now = ctx.model.now;
    for wire in wires(ctx.model) {
        let (times, proofs) = flaps(&wire, now, WITHIN.duration());
        if times < TIMES.value() as u64 {
            continue;
        }
        let job = talking_job(ctx.model).filter(|_| wire.port.is_some_and(|p| was_used(p, now)));
        let summary = format!("{} {} went down {} within {}", wire.kind(), wire.name, counted_times(times), span(WITHIN.duration()));
        let mut found = ctx.of_wire(&RULE, &wire, summary, now, job);
        let began = ctx.open_on(&RULE, &wire.name).map_or(now, |f| f.since);
        let job = found.job.as_ref().and_then(|id| ctx.model.jobs.get(id));
        let goes_on = job.and_then(|job| ctx.moved_at(job)).is_some_and(|at| at > began.plus(GOES_ON.duration()));
        // A laptop's radio comes and goes.
        if goes_on || wire.port.is_none() {
            found.severity = Severity::Warning;
        }
        let link = wire.port.map(|p| &p.link).or(wire.netdev.map(|n| &n.link));
        let seen = link.filter(|l| l.times > 0).map(|l| format!("; polls saw it down for {} in all", span(l.down_for)));
        found.why = format!("each time what goes over it stops for seconds{}", seen.unwrap_or_default());
        found.confidence = Confidence::Certain;
        found.next = Some("dmesg -T | grep -i -e link | tail; `mlxlink -d DEVICE -m -c` shows cable and optics".into());
        found.evidence = proofs;
        found.machine = true;
        out.push(found);
    }
}
