//! One rank idles while all others wait for it, and no node has RAS to say so.

use super::{Ctx, Finding, FleetRule, open_command};
use crate::base::limit::Limit;
use crate::base::severity::Severity;
use crate::base::units::counted;
use crate::base::words::rank_words;
use crate::diagnosis::verdict::State;
use crate::fleet::model::Rank;
use crate::rules::{Implies, Rule};

pub const RULE: FleetRule = FleetRule {
    about: Rule {
        id: "idle-rank",
        severity: Severity::Critical,
        title: "The ranks of one node idle while all others of a stuck job wait in collectives",
        how: "Seconds that each rank was working, waiting and idle, counted on its node, over four scrapes: all ranks of the job are reported, nearly \
              all wait, and those that idle are on one node. Where a node has named a culprit, or does not answer, nobody is accused",
        advice: "Open the node: its process shows where the rank is (`x` there runs py-spy). With NCCL 2.24 or newer and RAS reachable, the nodes \
                 name such a rank themselves",
        implies: Implies::Stuck,
        limits: &[&IDLE, &WAITING],
        ..Rule::PLAIN
    },
    judge,
};

const IDLE: Limit = Limit::percent("idle-rank", "idle", 50.0, "who is to blame must have been idle this share of the time");
const WAITING: Limit = Limit::percent("idle-rank", "waiting", 80.0, "all others must have waited this share of the time");

fn judge(ctx: &Ctx, out: &mut Vec<Finding>) {
    for (id, job) in &ctx.fleet.jobs {
        let ranks = &job.detail.ranks;
        let all_known = job.world_size.is_some_and(|world| ranks.len() >= world as usize && ranks.len() > 1);
        if job.state() != State::Stuck || !all_known || !job.silent().is_empty() || !ctx.stands_long_enough(job) || ctx.is_explained(id) {
            continue;
        }
        let is_idle = |rank: &&Rank| rank.idle * 100.0 > IDLE.value() && rank.waiting < 0.2;
        let idle: Vec<&Rank> = ranks.iter().filter(is_idle).collect();
        let waiting = ranks.iter().filter(|rank| rank.waiting * 100.0 > WAITING.value()).count();
        let Some(first) = idle.first() else { continue };
        let on_one_node = idle.iter().all(|rank| rank.instance == first.instance);
        if !on_one_node || idle.len() * 2 > ranks.len() || idle.len() + waiting < ranks.len() {
            continue;
        }
        let blamed: Vec<u32> = idle.iter().map(|rank| rank.rank).collect();
        let verb = if blamed.len() == 1 { "idles" } else { "idle" };
        let mut found = Finding::new(
            &RULE.about,
            Some(id),
            format!("{} on {} {verb} while {} wait", rank_words(&blamed), first.instance, counted(waiting as u64, "rank")),
        );
        found.since = job.since();
        found.next = Some(open_command(ctx.fleet, &first.instance));
        found.gpus = idle.iter().filter_map(|rank| rank.gpu).collect();
        found.nodes = vec![first.instance.clone()];
        found.ranks = blamed;
        out.push(found.proved("gpu", format!("idle {:.0} % of the last scrapes, all others wait", first.idle * 100.0)));
    }
}
