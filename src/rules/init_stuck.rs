//! Rendezvous, initialisation or the first collective of a communicator does not finish.

use super::chain::{Chain, Place};
use super::hang_rank_absent::paused_by_name;
use super::{FactContext, Implies, ONCE, Rule, Stacks, TickContext, told_by};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::span;
use crate::base::units::{all_here, counted};
use crate::base::words::{py_spy, rank_words};
use crate::model::gpu::Activity;
use crate::model::signals::{Look, RAS_OLD, RankLook, RasLook};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "init-stuck",
    severity: Severity::Critical,
    title: "Rendezvous, initialisation or the first collective of a communicator does not finish",
    how: "Ranks that began to create a communicator and did not complete it; ranks that are missing; timeouts of the rendezvous; RAS: \
          initialisations in progress for a minute, or a communicator that nobody has used yet while all ranks spin on their CPUs, their GPUs \
          are idle and nothing moves",
    advice: "Look at the ranks that are missing: a node that was not started, a firewall, another world size. Where all ranks are there, compare \
             the stacks of two: they may use two communicators in different order",
    life: ONCE,
    implies: Implies::Stuck,
    stacks: Stacks::OfAnyone,
    chain: Chain { place: Place::Judgement, yields_to_failure: true, ..Chain::PLAIN },
    on_facts: Some(on_facts),
    on_tick: Some(on_tick),
    limits: &[&WAITED],
    ..Rule::PLAIN
};

/// Connecting thousands of ranks takes less.
const WAITED: Limit = Limit::seconds("init-stuck", "after", 45.0, "initialisation, or the first collective, must have taken this long");

fn on_tick(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(ras) = look.ras.as_ref().filter(|r| r.age <= RAS_OLD) else { continue };
        let moves = look.alive().any(|r| r.activity == Activity::Working || r.stopped() || r.does_io()) || !look.quiet_log();
        if moves || paused_by_name(look) || look.alive().count() < look.local_ranks {
            continue;
        }
        if let Some(mut found) = in_progress(look, ras).or_else(|| first_collective(look, ras)) {
            found.job = Some(id.clone());
            found.gpus = look.gpus_of(&found.ranks);
            told_by(&mut found, look);
            out.push(found);
        }
    }
}

/// Ranks that say themselves that their initialisation is not done.
fn in_progress(look: &Look, ras: &RasLook) -> Option<Finding> {
    let since = ras.in_init_since.filter(|since| look.at.since(*since) >= WAITED.duration())?;
    let missing: Vec<u32> = ras.missing.iter().filter_map(|m| m.rank).collect();
    let waiting: Vec<u32> = ras.in_init.iter().filter_map(|m| m.rank).collect();
    let comm = format!("comm {:08x}", ras.hash >> 32);
    let words = match missing.as_slice() {
        [] => format!("initialisation of {comm} does not finish on {}", rank_words(&waiting)),
        some => format!("{} did not come to {comm}; its initialisation does not finish", rank_words(some)),
    };
    let mut found = RULE.finding("initialisation", words, since);
    found.confidence = Confidence::Certain;
    found.evidence =
        vec![Evidence::of("ras", format!("{} in progress for {}", counted(ras.in_init.len(), "rank"), span(look.at.since(since))))];
    found.next = look.alive().next().map(|r| py_spy(r.pid));
    found.ranks = missing;
    Some(found)
}

/// The first collective of a communicator connects its ranks, on the CPU: if they come to two communicators in different order, all spin.
fn first_collective(look: &Look, ras: &RasLook) -> Option<Finding> {
    let idle = |r: &RankLook| r.activity == Activity::Unknown || r.is(Activity::Idle, look.at, Duration::from_secs(10));
    if ras.unused.is_empty() || ras.still_answers < 3 || ras.still_for < WAITED.duration() || !ras.missing.is_empty() || !ras.odd.is_empty()
    {
        return None;
    }
    let ranks: Vec<&RankLook> = look.alive().collect();
    if ranks.len() < 2 || !ranks.iter().all(|r| r.spins() && idle(r)) {
        return None;
    }
    let comms: Vec<String> = ras.unused.iter().take(4).map(|hash| format!("{:08x}", hash >> 32)).collect();
    let which = if comms.len() == 1 { "comm" } else { "comms" };
    let words = format!(
        "the first collective of {which} {} does not finish: {} while they connect",
        comms.join(", "),
        all_here(ranks.len(), "spin")
    );
    let mut found = RULE.finding("first collective", words, ras.still_since);
    found.confidence = Confidence::Likely;
    found.evidence = vec![
        Evidence::of("ras", format!("nothing launched in {which} {}, all counts still for {}", comms.join(", "), span(ras.still_for))),
        Evidence::of("process", format!("{} ranks at 80 % of a CPU or more, their GPUs idle", ranks.len())),
    ];
    found.next = ranks.first().map(|r| py_spy(r.pid));
    Some(found)
}

fn on_facts(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        let Some(told) = facts.init() else { continue };
        let mut found = ctx.found(&RULE, &facts, told);
        // A job that died of something else did not get to the end of it, either.
        if ctx.has_failed(RULE.id, &facts.job.id) {
            found.role = Role::Cascade;
        }
        out.push(found);
    }
}
