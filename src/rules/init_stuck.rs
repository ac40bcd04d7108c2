//! Rendezvous, initialisation or the first collective of a communicator does not finish.

use super::chain::{Chain, Place};
use super::hang_rank_absent::paused_by_name;
use super::{FactContext, Implies, ONCE, Rule, Stacks, TickContext, told_by};
use crate::base::agent::Agent;
use crate::base::clean::{clean, clip};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::span;
use crate::base::units::{all_here, counted, so_many};
use crate::base::words::rank_words;
use crate::model::Model;
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::process::Process;
use crate::model::signals::{Look, RAS_OLD, RankLook, RasLook};
use crate::observe::evidence::{Evidence, Witness};
use crate::rules::findings::Finding;
use std::collections::BTreeSet;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "init-stuck",
    severity: Severity::Critical,
    title: "Rendezvous, initialisation or the first collective of a communicator does not finish",
    how: "Ranks that began to create a communicator and did not complete it; ranks that are missing; timeouts of the rendezvous; RAS: \
          initialisations in progress for a minute, or a communicator that nobody has used yet while all ranks spin on their CPUs, their GPUs \
          are idle and nothing moves; a launcher that has started no rank, ranks on this node that were not started, an address where ranks meet that does not \
          answer for a minute",
    advice: "Look at the ranks that are missing: a node that was not started, a firewall, another world size. Where all ranks are there, compare \
             the stacks of two: they may use two communicators in different order",
    life: ONCE,
    implies: Implies::Stuck,
    stacks: Stacks::OfAnyone,
    chain: Chain { place: Place::Judgement, yields_to_failure: true, ..Chain::PLAIN },
    on_facts: Some(on_facts),
    on_tick: Some(on_tick),
    limits: &[&WAITED, &NODES_COME, &RANKS_COME, &HELD, &HELD_BY_A_THREAD, &HELD_RANK_0],
    ..Rule::PLAIN
};

/// Connecting thousands of ranks takes less.
const WAITED: Limit = Limit::seconds("init-stuck", "after", 45.0, "initialisation, or the first collective, must have taken this long");

/// Nodes of one job are started within seconds of each other, but for images that are pulled.
const NODES_COME: Limit = Limit::seconds("init-stuck", "after_launch", 60.0, "nodes or ranks must have been waited for this long");
/// Those of one node are started by one loop.
const RANKS_COME: Limit = Limit::seconds("init-stuck", "after_first_rank", 30.0, "ranks of this node must have been waited for this long");
/// Whoever starts late on purpose sleeps for a time; whoever stands does nothing at all.
const HELD: Limit = Limit::seconds(
    "init-stuck",
    "after_standing",
    15.0,
    "a rank must have been found in the same wait for this long before there is a communicator",
);
/// A lock or a queue of its own program may be of a thread that fetches something, above all in rank 0.
const HELD_BY_A_THREAD: Limit = Limit::seconds(
    "init-stuck",
    "after_standing_for_a_thread",
    30.0,
    "the same where it waits for a thread of its own, and all others in a collective of Gloo",
);
const HELD_RANK_0: Limit =
    Limit::seconds("init-stuck", "after_rank_0_standing_for_a_thread", 60.0, "the same of rank 0, which prepares things for all");
const MOST_NAMED: usize = 64;
/// The subject of what waits for nodes or ranks: they may still come.
const MEETING: &str = "rendezvous";
/// The subject of who stands, and how long that holds while a look finds something else.
const STANDS: &str = "standing";
const STANDS_STILL: Duration = Duration::from_secs(15);

/// How long it is kept when it is no longer seen: ranks that were waited for may come. `None`: for good.
pub fn lingers(found: &Finding) -> Option<Duration> {
    let lingers = match found.subject.as_str() {
        MEETING => Duration::from_secs(3),
        STANDS => STANDS_STILL,
        _ => return None,
    };
    (found.rule == RULE.id && found.witness == Witness::Signals).then_some(lingers)
}

/// The launcher of a job that has started no rank yet.
pub fn lone_agent<'a>(model: &'a Model, job: &Job) -> Option<(u32, Agent<'a>)> {
    let launcher = model.processes.get(&job.launcher?).filter(|p| p.is_alive() && job.pids().next().is_none())?;
    Some((launcher.info.pid, Agent::of(&launcher.info.cmdline)?))
}

/// It waits for other nodes.
fn without_nodes(model: &Model, job: &Job) -> Option<Finding> {
    let (pid, agent) = lone_agent(model, job).filter(|(_, agent)| agent.nodes().is_some())?;
    let for_ = model.now.since(model.watched(job.first_seen));
    if for_ < NODES_COME.duration() {
        return None;
    }
    let mut found = RULE.finding(MEETING, format!("{}, and has started no rank (pid {pid})", agent.words()), job.first_seen);
    found.evidence = vec![Evidence::of("process", format!("pid {pid} has had no rank for {}", span(for_)))];
    let at = agent.meets_at().map_or(String::new(), |at| format!(", and that it reaches {}", clip(&clean(&at), 80)));
    found.next = Some(format!("on each other node see that torchrun runs with the same --nnodes and --rdzv-id{at}"));
    Some(found)
}

fn has_begun(model: &Model, job: &Job) -> bool {
    model.progress_of(&job.id).is_some_and(|p| p.step.is_some()) || model.comms_of(job).next().is_some()
}

/// Ranks that try to reach where the job meets, and get no answer: what drops their packets is no program.
fn without_answer(model: &Model, job: &Job) -> Option<Finding> {
    let trying = || {
        let processes = job.ranks.iter().filter_map(|(rank, pid)| Some((*rank, model.processes.get(pid).filter(|p| p.is_alive())?)));
        processes.filter_map(|(rank, process)| Some((rank, process, process.connects(model.now)?)))
    };
    let (_, first, (to, _)) = trying().next()?;
    let since = trying().map(|(_, _, (_, since))| since).min()?;
    let for_ = model.now.since(model.watched(since));
    if has_begun(model, job) || for_ < NODES_COME.duration() {
        return None;
    }
    let ranks: Vec<u32> = trying().map(|(rank, ..)| rank).collect();
    let to = clip(&clean(to), 80).into_owned();
    let named = first.env("MASTER_ADDR").filter(|name| !to.contains(*name));
    let named = named.map_or(String::new(), |name| format!(" (MASTER_ADDR={})", clip(&clean(name), 80)));
    let gets = if ranks.len() == 1 { "gets" } else { "get" };
    let words = format!("{} {gets} no answer from {to}{named}, where the ranks meet", rank_words(&ranks));
    let mut found = RULE.finding(MEETING, words, since);
    let text = format!("pid {}: connection in SYN_SENT for {}: packets are dropped, not refused", first.info.pid, span(for_));
    found.evidence = vec![Evidence::of("process", text)];
    found.next = Some(format!("see that {to} is the node of rank 0, and that no firewall drops TCP to it from this node"));
    Some(found)
}

/// Ranks that must run on this node, because the job meets on its loopback address, and do not.
fn without_ranks(model: &Model, job: &Job) -> Option<Finding> {
    let process = |pid: u32| model.processes.get(&pid).filter(|p| p.is_alive());
    let meets = |p: &Process| Some((p.env("MASTER_ADDR")?.to_owned(), p.env("MASTER_PORT")?.to_owned()));
    let first = job.ranks.values().find_map(|pid| process(*pid))?;
    let at = meets(first).filter(|(host, _)| host == "localhost" || host == "::1" || host.starts_with("127."))?;
    let world = first.world_size()?;
    let for_ = model.now.since(model.watched(first.first_seen));
    if has_begun(model, job) || for_ < RANKS_COME.duration() {
        return None;
    }
    // Several launchers of one node, for a trial, are several jobs here.
    let at_once = |p: &&Process| meets(p).as_ref() == Some(&at);
    let here: BTreeSet<u32> = model.processes.values().filter(at_once).filter_map(|p| p.rank()).collect();
    let missing: Vec<u32> = (0..world.min(1 << 14)).filter(|rank| !here.contains(rank)).collect();
    if missing.is_empty() {
        return None;
    }
    let (were, them) = if missing.len() == 1 { ("was", "it") } else { ("were", "them") };
    let words = format!(
        "{} of WORLD_SIZE={world} {were} not started on this node; {} for {them}",
        rank_words(&missing),
        so_many(here.len(), "rank", "wait")
    );
    let mut found = RULE.finding(MEETING, words, first.first_seen);
    found.evidence = vec![Evidence::of(
        "process",
        format!("MASTER_ADDR={} is this node, and {} of {world} ranks run after {}", clean(&at.0), here.len(), span(for_)),
    )];
    found.ranks = missing.into_iter().take(MOST_NAMED).collect();
    found.next = Some("start them, or set WORLD_SIZE to the number of ranks that you start".into());
    Some(found)
}

/// One stands where nobody will call it, and the others wait for it, in a job of which no communicator, no step and no work of a GPU was seen:
/// before there is a process group, or on CPUs without a log.
fn held(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    // A GPU that has worked, or spins, has had a communicator, although RAS tells of none.
    let spins = |r: &RankLook| r.activity == Activity::Waiting;
    if has_begun(model, job) || job.has_ranks_elsewhere() || !look.worked.is_zero() || look.alive().any(spins) {
        return None;
    }
    let (standing, least) = Some((look.held(), HELD)).filter(|(held, _)| !held.is_empty()).or_else(|| held_by_a_thread(look))?;
    let held_for = standing.iter().map(|r| r.waits_for).min().filter(|held_for| *held_for >= least.duration())?;
    let ranks: Vec<u32> = standing.iter().map(|r| r.rank).collect();
    let wait = standing.first()?.stands()?.words();
    let (verb, them) = if ranks.len() == 1 { ("waits", "it") } else { ("wait", "them") };
    let others = so_many(look.alive().count() - ranks.len(), "rank", "wait");
    let words = format!("{} {verb} in {wait}; {others} for {them}", rank_words(&ranks));
    let mut found = RULE.finding(STANDS, words, look.at.minus(held_for));
    found.confidence = Confidence::Likely;
    found.gpus = look.gpus_of(&ranks);
    let told = |r: &&RankLook| format!("pid {}: the same wait for {}, 0 % CPU and no I/O", r.pid, span(r.waits_for));
    found.evidence = standing.iter().take(4).map(|r| Evidence::of("process", told(r))).collect();
    found.next = standing.first().map(|r| r.next());
    found.ranks = ranks;
    Some(found)
}

/// Who stands in wait for another thread of its own, where all others wait in a collective of Gloo.
fn held_by_a_thread(look: &Look) -> Option<(Vec<&RankLook>, Limit)> {
    let standing = look.standing();
    let all_others_meet = look.alive().all(|r| standing.iter().any(|s| s.rank == r.rank) || r.is_in_gloo());
    let least = if standing.iter().any(|r| r.rank == 0) { HELD_RANK_0 } else { HELD_BY_A_THREAD };
    (!standing.is_empty() && all_others_meet).then_some((standing, least))
}

fn on_tick(ctx: &TickContext, out: &mut Vec<Finding>) {
    for job in ctx.model.jobs.values().filter(|job| !job.log_only && job.ended_at.is_none()) {
        let held = || ctx.looks.get(&job.id).and_then(|look| held(ctx.model, job, look));
        let found = without_nodes(ctx.model, job).or_else(|| without_ranks(ctx.model, job)).or_else(|| without_answer(ctx.model, job));
        if let Some(mut found) = found.or_else(held) {
            found.job = Some(job.id.clone());
            found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
            out.push(found);
        }
    }
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
        some => format!("{} never joined {comm}; its initialisation does not finish", rank_words(some)),
    };
    let mut found = RULE.finding("initialisation", words, since);
    found.confidence = Confidence::Certain;
    found.evidence =
        vec![Evidence::of("ras", format!("{} in progress for {}", counted(ras.in_init.len(), "rank"), span(look.at.since(since))))];
    found.next = look.alive().next().map(|r| r.next());
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
        Evidence::of("ras", format!("nothing launched in {which} {}, all counts unchanged for {}", comms.join(", "), span(ras.still_for))),
        Evidence::of("process", format!("{} ranks at 80 % CPU or more, their GPUs idle", ranks.len())),
    ];
    found.next = ranks.first().map(|r| r.next());
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
