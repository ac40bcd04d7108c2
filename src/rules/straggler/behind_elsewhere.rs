//! Whom RAS has behind again and again since steps became slower, where no GPU of this node can be compared with that rank's: it runs on
//! another node, or alone on this one.

use super::{RULE, SIBLINGS_PCT, busy};
use crate::base::severity::Confidence;
use crate::base::time::Stamp;
use crate::base::units::{all_here, the_other};
use crate::base::words::py_spy;
use crate::model::Model;
use crate::model::comm::{Comm, LookBack};
use crate::model::job::Job;
use crate::model::progress::Progress;
use crate::model::signals::{Look, Member};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use crate::rules::told_by;
use std::time::Duration;

/// Answers since steps became slower. RAS is asked every 5 s.
const LEAST: usize = 3;
/// Where nothing is known of before: whose CPU is a little slower than the others' is behind all its life, and nobody waits for it.
const LEAST_ALONE: usize = 6;
/// RAS must have answered so lately.
const LATELY: Duration = Duration::from_secs(15);

pub(super) fn judge(model: &Model, job: &Job, look: &Look, progress: Option<&Progress>) -> Option<Finding> {
    let slow = progress?.slow?;
    // Numbers of a smaller communicator are not ranks of the job.
    let whole = model.comms_of(job).filter(|c| c.answered_at.is_some() && job.world_size == Some(c.nranks));
    let comm = whole.max_by_key(|c| c.operations())?;
    let (rank, seen) = always_behind(comm, slow.since, look.at)?;
    let own = look.ranks.get(&rank);
    let others = look.alive().filter(|r| r.rank != rank).count();
    let is_alone = own.is_some() && others == 0;
    if own.is_some() && !is_alone || comm.missing.contains_key(&rank) {
        return None;
    }
    // Who waits spins. Where the GPUs of this node have pauses of their own, the cause may be here.
    let window = look.at.since(slow.since).min(LATELY);
    let waits = busy(model, look, look.at.minus(window), look.at).and_then(|busy| busy.first().map(|(least, _)| *least));
    if !is_alone && waits.is_some_and(|least| least < SIBLINGS_PCT.value()) {
        return None;
    }
    let known = comm.ranks.get(&rank)?;
    let who = Member {
        rank: Some(rank),
        comm_rank: rank,
        pid: known.pid,
        host: known.host.clone(),
        elsewhere: own.is_none(),
        first: rank == 0,
        silent: None,
    };
    let (name, waiting) = match own {
        Some(own) => (own.name(), the_other(comm.nranks.saturating_sub(1) as usize, "rank", "wait")),
        None => (who.far_name(comm.hash), all_here(others, "wait")),
    };
    let mut found = RULE.finding(format!("rank {rank}"), format!("{name} is late every step; {waiting} for it"), slow.since);
    found.job = Some(job.id.clone());
    found.confidence = Confidence::Likely;
    found.ranks = vec![rank];
    found.gpus = look.gpus_of(&found.ranks);
    found.next = own.map(|own| py_spy(own.pid)).or_else(|| who.far_command().filter(|_| !look.contained));
    found.evidence = vec![Evidence::of("ras", seen)];
    if let Some(least) = waits.filter(|_| !is_alone) {
        let words = format!("{}: busy {least:.0} % of the time since, as who waits in NCCL is", all_here(others, "spin"));
        found.evidence.push(Evidence::of("gpu", words));
    }
    told_by(&mut found, look);
    Some(found)
}

/// The only rank that was behind in most answers since then, while all counts advanced, and was not before; with that in words.
fn always_behind(comm: &Comm, slow_since: Stamp, now: Stamp) -> Option<(u32, String)> {
    let moved: Vec<&LookBack> = comm.looks.iter().filter(|look| look.moved).collect();
    let (before, since): (Vec<&LookBack>, Vec<&LookBack>) = moved.into_iter().partition(|look| look.at <= slow_since);
    let rank = *since.iter().find_map(|look| look.behind.first())?;
    let alone = since.iter().filter(|look| look.behind == [rank]).count();
    let other = since.iter().any(|look| look.behind.iter().any(|behind| *behind != rank));
    let usually = before.iter().filter(|look| look.behind.contains(&rank)).count();
    let least = if before.is_empty() { LEAST_ALONE } else { LEAST };
    let is_recent = since.last().is_some_and(|last| now.since(last.at) <= LATELY);
    if other || !is_recent || since.len() < least || alone * 4 < since.len() * 3 || !before.is_empty() && usually * 2 >= before.len() {
        return None;
    }
    let words = match before.len() {
        0 => format!("the only rank behind in {alone} of {} RAS answers, while all counts advanced", since.len()),
        n => format!(
            "the only rank behind in {alone} of {} RAS answers since steps became slower, in {usually} of {n} before, while all counts advanced",
            since.len()
        ),
    };
    Some((rank, words))
}
