//! A rank that is stopped and let go again and again: cpulimit does so many times a second, a debugger at each of its stops. It goes on, slowly,
//! and all others at its pace.

use super::RULE;
use crate::base::severity::Confidence;
use crate::base::units::the_other;
use crate::model::job::Job;
use crate::model::signals::{Look, RankLook};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

/// In so many looks of the last 12 s it was stopped as in the one before, although it had run in between.
const TIMES: usize = 3;

pub fn is_stopped_again(rank: &RankLook) -> bool {
    rank.times_stopped_again >= TIMES
}

pub(super) fn judge(job: &Job, look: &Look) -> Option<Finding> {
    let stopped: Vec<&RankLook> = look.alive().filter(|rank| is_stopped_again(rank)).collect();
    let [rank] = stopped.as_slice() else { return None };
    let words = format!(
        "{} is stopped and continued over and over; {} for it",
        rank.name(),
        the_other(look.alive().count().saturating_sub(1), "rank", "wait")
    );
    let mut found = RULE.finding(format!("rank {}", rank.rank), words, rank.state_since);
    found.job = Some(job.id.clone());
    found.confidence = Confidence::Certain;
    found.ranks = vec![rank.rank];
    found.gpus = look.gpus_of(&found.ranks);
    found.why = "somebody sends it SIGSTOP and SIGCONT, as cpulimit does, or traces it".into();
    found.next = Some("ps -eo pid,user,args | grep -E '[c]pulimit|[g]db|[s]trace'".into());
    let cpu = rank.cpu_pct.map_or(String::new(), |pct| format!(", and it uses {pct:.0} % of a CPU"));
    let seen =
        format!("/proc/{}/stat: state T in {} looks of the last 12 s as in the one before each{cpu}", rank.pid, rank.times_stopped_again);
    found.evidence = vec![Evidence::of("process", seen)];
    Some(found)
}
