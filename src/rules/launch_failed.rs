//! The job could not start: its command line, its files or its environment are wrong.

use super::chain::Chain;
use super::rank_exited::read_output;
use super::{FactContext, Implies, ONCE, Rule, TickContext};
use crate::base::clean::clean;
use crate::base::exit_code::ended_words;
use crate::base::severity::{Confidence, Severity};
use crate::base::words::rank_words;
use crate::model::ending::{Ending, SETTLES};
use crate::model::job::{Job, RANK_VARS};
use crate::model::process::Process;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "launch-failed",
    severity: Severity::Error,
    title: "The job could not start: its command line, its files or its environment are wrong",
    how: "Texts of shells, Python, torchrun and PyTorch before the first step: a script that is not there, arguments that nobody knows, \
          a variable of the rendezvous that is not set, no GPU where one is needed; a process whose rank is not below its world size; ranks \
          that were given different addresses, ports or world sizes, or that begin twice while others never do; a launcher that ends before it has started a rank",
    advice: "Nothing has trained yet: fix the command line, the path or the environment that the text names, and start again",
    life: ONCE,
    implies: Implies::Failed,
    chain: Chain { says_why: true, is_of_the_start: true, ..Chain::PLAIN },
    on_tick: Some(check),
    on_facts: Some(on_facts),
    ..Rule::PLAIN
};

fn on_facts(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        out.extend(facts.gpu_twice().map(|told| ctx.found(&RULE, &facts, told)));
    }
    ranks_twice(ctx, out);
}

/// Of so many ranks one may be seen once only.
const LEAST_TWICE: usize = 3;
/// So many ranks begin after one that begins again.
const LEAST_AFTER: usize = 2;

/// Ranks begin twice, and the others never do: two nodes were given the same place.
fn ranks_twice(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        let record = facts.model.record_of(&facts.job.id);
        let (Some(members), Some(again)) = (record.members, &record.joined_again) else { continue };
        let begun = record.joined.len();
        let times = record.joined.values().max().copied().unwrap_or_default();
        // The line of one may be lost, or be printed by one process only.
        let few = record.joined.values().filter(|n| **n != times).count();
        // Ranks of a node that are started again begin when all of them had begun, but for one whose line was lost.
        let at_once = begun - again.after >= LEAST_AFTER;
        let all_alike = few == 0 || few == 1 && begun >= LEAST_TWICE;
        // Who has made a step waits for nobody.
        let is_up = facts.model.progress_of(&facts.job.id).is_some_and(|progress| !progress.is_empty());
        if times < 2 || is_up || !at_once || !all_alike || begun as u32 * times != members {
            continue;
        }
        let ranks: Vec<u32> = record.joined.iter().filter(|(_, n)| **n == times).map(|(rank, _)| *rank).collect();
        let never: Vec<u32> = (0..members).filter(|rank| !record.joined.contains_key(rank)).collect();
        let words = format!(
            "{} of {members} began {times} times each, and {} never did: nodes were given the same ranks",
            rank_words(&ranks),
            rank_words(&never)
        );
        let mut found = RULE.finding("ranks twice", words, again.at);
        found.job = Some(facts.job.id.clone());
        found.confidence = Confidence::Certain;
        found.why = "each node counts its ranks from 0, as if it was the first: the job waits in its start for ranks that nobody is".into();
        found.next = Some(
            "give each node its own NODE_RANK (--node_rank of torchrun, `srun` with one task for each GPU: --ntasks-per-node=GPUS, and num_nodes in the \
             trainer); `env | grep -e RANK -e SLURM_` on both nodes"
                .into(),
        );
        found.evidence = vec![Evidence { at: None, ..Evidence::line(facts.model.path_of(again.file), again.line, &again.text, again.at) }];
        out.push(found);
    }
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    impossible_ranks(ctx, out);
    for job in ctx.model.jobs.values().filter(|job| !job.log_only) {
        out.extend(different_meetings(ctx, job).or_else(|| without_ranks(ctx, job)));
    }
}

/// What all ranks of a job must have alike.
const ALIKE: &[&str] = &["MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"];

/// Ranks that go to different places wait for one another for half an hour, and write nothing.
fn different_meetings(ctx: &TickContext, job: &Job) -> Option<Finding> {
    // Nobody has trained: of those that have, some launchers change the port that they show.
    let trained = ctx.model.progress_of(&job.id).is_some_and(|p| p.step.is_some());
    let alive = |(rank, pid): (&u32, &u32)| Some((*rank, ctx.model.processes.get(pid).filter(|p| p.is_alive())?));
    let ranks: Vec<(u32, &Process)> = job.ranks.iter().filter_map(alive).filter(|(_, p)| p.env("RANK").is_some()).collect();
    let (first, rest) = ranks.split_first().filter(|_| !trained && job.ended_at.is_none())?;
    let differs = |name: &str| {
        let value = first.1.env(name)?;
        rest.iter().find_map(|(rank, p)| Some((*rank, p.env(name).filter(|other| *other != value)?, value.to_owned())))
    };
    let (name, (rank, other, value)) = ALIKE.iter().find_map(|name| Some((*name, differs(name)?)))?;
    let (other, value) = (clean(other), clean(&value).into_owned());
    let words = format!("rank {} has {name}={value} and rank {rank} {name}={other}: they wait for each other in vain", first.0);
    let mut found = RULE.finding(name, words, ctx.model.now);
    found.job = Some(job.id.clone());
    found.confidence = Confidence::Certain;
    found.next = Some(format!("start all ranks with the same {name}"));
    let of = |rank: u32, p: &Process, value: &str| {
        Evidence::of("process", format!("environment of pid {} (rank {rank}): {name}={value}", p.info.pid))
    };
    found.evidence = vec![of(first.0, first.1, &value)];
    found.evidence.extend(rest.iter().find(|(r, _)| *r == rank).map(|(r, p)| of(*r, p, &other)));
    found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
    Some(found)
}

/// The launcher gave up, or failed, before it had started a rank that was seen.
fn without_ranks(ctx: &TickContext, job: &Job) -> Option<Finding> {
    if job.pids().next().is_some() {
        return None;
    }
    let Ending::Launcher { pid, at, exit_code } = ctx.model.ending_of(job) else { return None };
    let explained = |f: &Finding| f.job.as_deref() == Some(&job.id) && f.severity >= Severity::Error && f.rule != RULE.id;
    let told = |f: &Finding| f.job.as_deref() == Some(&job.id) && f.rule == RULE.id && f.signature.is_some();
    if ctx.model.now.since(at) < SETTLES || ctx.ledger.first_open(|f| explained(f) || told(f)).is_some() {
        return None;
    }
    let words = format!("the launcher (pid {pid}) {} before any of its ranks was seen", ended_words(exit_code));
    let mut found = RULE.finding("launcher", words, at);
    found.job = Some(job.id.clone());
    found.next = Some(ctx.model.processes.get(&pid).map_or("read what it wrote".into(), |p| read_output("the launcher", p)));
    found.evidence = vec![Evidence { at: Some(at), ..Evidence::of("process", format!("pid {pid} {}", ended_words(exit_code))) }];
    found.why = found.evidence[0].text.clone();
    Some(found)
}

/// A rank that the job cannot have waits for ever, and writes nothing.
fn impossible_ranks(ctx: &TickContext, out: &mut Vec<Finding>) {
    for job in ctx.model.jobs.values().filter(|job| !job.log_only && job.ended_at.is_none()) {
        for pid in job.pids() {
            let Some(env) = ctx.model.processes.get(&pid).filter(|p| p.is_alive()).and_then(|p| p.info.env.as_ref()) else { continue };
            // The launcher's own numbers go together: the pair of one family.
            let number = |name: &str| env.get(name).and_then(|v| v.parse::<u32>().ok());
            let pair = RANK_VARS.iter().zip(WORLD_OF_RANK).find_map(|(rank, world)| Some((*rank, number(rank)?, *world, number(world)?)));
            let Some((rank_var, rank, world_var, world)) = pair.filter(|(_, rank, _, world)| rank >= world) else { continue };
            let words = format!("pid {pid} has {rank_var}={rank} in a job of {world_var}={world}: it waits for ranks that do not exist");
            let mut found = RULE.finding(format!("rank {rank}"), words, ctx.model.now);
            found.job = Some(job.id.clone());
            found.ranks = vec![rank];
            found.confidence = Confidence::Certain;
            found.next =
                Some(format!("ranks count from 0: give each process a {rank_var} below {world_var}, the same {world_var} everywhere"));
            found.evidence = vec![Evidence::of("process", format!("environment of pid {pid}: {rank_var}={rank}, {world_var}={world}"))];
            found.why = found.evidence[0].text.clone();
            out.push(found);
        }
    }
}

/// The variable of the world size that goes with each of [`RANK_VARS`].
const WORLD_OF_RANK: &[&str] = &["WORLD_SIZE", "OMPI_COMM_WORLD_SIZE", "", "PMI_SIZE", "MV2_COMM_WORLD_SIZE", "SLURM_NTASKS"];
