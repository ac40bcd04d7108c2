//! The job could not start: its command line, its files or its environment are wrong.

use super::chain::Chain;
use super::{Implies, ONCE, Rule, TickContext};
use crate::base::severity::{Confidence, Severity};
use crate::model::job::RANK_VARS;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "launch-failed",
    severity: Severity::Error,
    title: "The job could not start: its command line, its files or its environment are wrong",
    how: "Texts of shells, Python, torchrun and PyTorch before the first step: a script that is not there, arguments that nobody knows, \
          a variable of the rendezvous that is not set, no GPU where one is needed; a process whose rank is not below its world size",
    advice: "Nothing has trained yet: mend the command line, the path or the environment that the text names, and start again",
    life: ONCE,
    implies: Implies::Failed,
    chain: Chain { says_why: true, ..Chain::PLAIN },
    on_tick: Some(check),
    ..Rule::PLAIN
};

/// A rank that the job cannot have waits for ever, and writes nothing.
fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
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
