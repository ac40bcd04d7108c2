//! Who is absent, by what the processes of a job on CPUs wait in, or by CPUs alone where neither RAS nor GPUs tell.

use super::hang_rank_absent::{Absent, Far, WAITED_AFTER_FIRST, WAITED_ALONE, WAITED_AT_START, WAITED_FOR_WORK, has_trained, patience};
use crate::base::severity::Confidence;
use crate::base::time::span;
use crate::base::units::{all_here, so_many};
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::{Look, RAS_OLD, RankLook, RasLook};
use crate::observe::evidence::Evidence;
use crate::observe::process::Wait;
use std::time::Duration;

/// Neither RAS nor GPUs tell: of ranks that wait in a collective, the process spins; who did not come to it may sleep. A rank that
/// spins elsewhere, and processes that wait asleep, are not told apart.
pub(super) fn by_cpu(look: &Look) -> Option<Absent> {
    let abstains =
        |r: &RasLook| r.age > RAS_OLD || r.still_answers > 0 && r.behind.is_empty() && r.missing.is_empty() && look.has_uncounted();
    let blind = look.ras.as_ref().is_none_or(abstains) && look.alive().all(|r| r.activity == Activity::Unknown);
    let log = look.log.as_ref().filter(|l| l.quiet_for > l.patience.max(patience(look, WAITED_ALONE.duration())))?;
    if !blind || !has_trained(look) || look.alive().count() < look.local_ranks {
        return None;
    }
    let spins = look.alive().filter(|r| r.spins()).count();
    let asleep: Vec<&RankLook> = look.alive().filter(|r| r.sleeps()).collect();
    // What rank 0 does alone and asleep is often an upload.
    if spins == 0
        || asleep.is_empty()
        || asleep.len() > spins
        || spins + asleep.len() < look.alive().count()
        || asleep.iter().any(|r| r.rank == 0)
    {
        return None;
    }
    let evidence = vec![Evidence::of("process", format!("{} on the CPU", so_many(spins, "other rank", "spin")))];
    let since = log.last_step_at?;
    Some(Absent {
        ranks: asleep.iter().map(|r| r.rank).collect(),
        since,
        confidence: Confidence::Possible,
        what: Some("a collective".into()),
        evidence,
        far: None,
    })
}

/// The call that a rank sleeps in, where all of its job sleep and hold no GPU, or one that is not at work while Gloo's threads tell whom they
/// wait for. `None`: it is no such job.
pub(super) fn calls_of_sleepers(look: &Look, least: Duration) -> Option<Vec<(&RankLook, &str)>> {
    let quiet = look.log.as_ref().is_some_and(|l| l.quiet_for > l.patience.max(patience(look, least)));
    let blind = look.ras.is_none() && look.alive().count() >= look.local_ranks.max(2);
    let is_told = |r: &RankLook| r.waits.first().is_some_and(|wait| wait.pid == r.pid && wait.in_gloo.is_some());
    let off_gpu = |r: &RankLook| match r.gpu {
        None => r.activity == Activity::Unknown,
        Some(_) => matches!(r.activity, Activity::Unknown | Activity::Idle) && is_told(r),
    };
    let rests = |r: &RankLook| off_gpu(r) && r.sleeps() && r.io_bytes_per_s.is_some() && !r.does_io();
    if !quiet || !blind || !has_trained(look) || !look.alive().all(rests) {
        return None;
    }
    let call = |r: &'_ &RankLook| r.waits.first().filter(|w| w.pid == r.pid).is_some_and(|w| w.call.is_some());
    let told = look.alive().all(|r| call(&r));
    told.then(|| look.alive().filter_map(|r| Some((r, r.waits.first()?.call.as_deref()?))).collect())
}

/// It has waited for what one socket is to bring for longer than a server thinks about it. Who uploads sends meanwhile.
fn is_unanswered(rank: &RankLook) -> bool {
    let of_socket = |wait: &Wait| wait.file.as_deref().is_some_and(|file| file.starts_with("socket:"));
    let receives = |wait: &Wait| matches!(wait.call.as_deref(), Some("recvfrom" | "recvmsg" | "read")) && of_socket(wait);
    rank.waits_for >= WAITED_AFTER_FIRST.duration() && rank.waits.first().is_some_and(|wait| wait.pid == rank.pid && receives(wait))
}

/// Its workers wait for work themselves, each for a lock or for what a pipe is to bring, and none of them uses a CPU: nobody makes what it waits for.
fn has_idle_workers(rank: &RankLook) -> bool {
    let by_pipe = |wait: &Wait| wait.call.as_deref() == Some("read") && wait.file.as_deref().is_some_and(|file| file.starts_with("pipe:"));
    let waits_for_work = |wait: &Wait| wait.call.as_deref() == Some(WAITS_FOR_OTHERS) || by_pipe(wait);
    let mut workers = rank.waits.iter().filter(|wait| wait.pid != rank.pid).peekable();
    workers.peek().is_some() && workers.all(waits_for_work) && !rank.helpers_work()
}

/// Calls in which nothing is sent or fetched meanwhile.
const IDLE_CALLS: [&str; 3] = ["nanosleep", "clock_nanosleep", "flock"];

/// What a thread of Gloo waits in until the other ranks have come.
pub(super) const WAITS_FOR_OTHERS: &str = "futex";

/// It waits in Gloo, as far as its threads show it.
pub(super) fn waits_in_gloo(rank: &RankLook, call: &str) -> bool {
    call == WAITS_FOR_OTHERS && rank.waits.first().is_none_or(|wait| wait.in_gloo != Some(false))
}

/// Of ranks on CPUs, which sleep while they wait for others: who sleeps in something else has not come. Rank 0 may upload alone, but not
/// while it sleeps for a time or waits for a lock, nor for an answer that does not come; and who has workers may wait for its data, which
/// has a rule of its own.
pub(super) fn by_calls(look: &Look) -> Option<Absent> {
    let calls = calls_of_sleepers(look, WAITED_ALONE.duration())?;
    let (waiting, elsewhere): (Vec<_>, Vec<_>) = calls.into_iter().partition(|(r, call)| waits_in_gloo(r, call));
    // Batches come by a pipe or a queue. Whoever has asked over TCP waits for no worker of its own.
    let by_tcp = |r: &RankLook| r.waits.first().is_some_and(|wait| wait.peer.is_some());
    let has_workers =
        |r: &RankLook| r.helpers.is_some_and(|h| h.alive + h.dead > 0) && !(by_tcp(r) && is_unanswered(r)) && !has_idle_workers(r);
    if elsewhere.is_empty()
        || elsewhere.len() > waiting.len()
        || elsewhere.iter().any(|(r, call)| r.rank == 0 && !IDLE_CALLS.contains(call) && !is_unanswered(r) || has_workers(r))
    {
        return None;
    }
    let where_to = |call: &str| if call == WAITS_FOR_OTHERS { ", but in no collective of Gloo" } else { "" };
    let whom = |r: &RankLook| r.waits.first().map_or(String::new(), Wait::peer_words);
    let words = elsewhere.iter().take(4).map(|(r, call)| format!("rank {} sleeps in {call}{}{}", r.rank, whom(r), where_to(call)));
    let others = so_many(waiting.len(), "other rank", "wait");
    Some(Absent {
        ranks: elsewhere.iter().map(|(r, _)| r.rank).collect(),
        since: look.log.as_ref()?.last_step_at?,
        confidence: if elsewhere.iter().any(|(r, _)| r.rank == 0) { Confidence::Possible } else { Confidence::Likely },
        what: Some("the others in a collective".into()),
        evidence: vec![Evidence::of("process", format!("{}; {others} in {WAITS_FOR_OTHERS}", words.collect::<Vec<_>>().join(", ")))],
        far: None,
    })
}

/// The same where whoever has not come keeps its CPU busy, and neither moves anything nor keeps what it makes.
pub(super) fn by_busy(look: &Look) -> Option<Absent> {
    let log = look.log.as_ref().filter(|l| l.quiet_for > l.patience.max(patience(look, WAITED_FOR_WORK.duration())))?;
    if look.ras.is_some() || !has_trained(look) || look.alive().count() < look.local_ranks.max(2) {
        return None;
    }
    let meets =
        |r: &RankLook| r.sleeps() && r.waits.first().and_then(|wait| wait.call.as_deref()).is_some_and(|call| waits_in_gloo(r, call));
    let (waiting, busy): (Vec<&RankLook>, Vec<&RankLook>) = look.alive().partition(|r| meets(r));
    let alone = |r: &RankLook| r.gpu.is_none() && r.spins() && r.io_bytes_per_s.is_some() && r.helper_cpu_pct.is_none_or(|pct| pct < 1.0);
    if busy.is_empty() || busy.len() > waiting.len() || !busy.iter().all(|r| alone(r)) {
        return None;
    }
    let words = busy.iter().take(4).map(|r| format!("rank {} uses {:.0} % of a CPU", r.rank, r.cpu_pct.unwrap_or_default()));
    let others = so_many(waiting.len(), "other rank", "wait");
    Some(Absent {
        ranks: busy.iter().map(|r| r.rank).collect(),
        since: log.last_step_at?,
        confidence: Confidence::Possible,
        what: Some("the others in a collective".into()),
        evidence: vec![Evidence::of("process", format!("{}; {others} in a collective of Gloo", words.collect::<Vec<_>>().join(", ")))],
        far: None,
    })
}

/// All ranks here are on CPUs and wait in a collective of Gloo: somebody on another node has not come. Where rank 0 is there, it may save or
/// evaluate for all.
pub(super) fn by_calls_elsewhere(job: &Job, look: &Look) -> Option<Absent> {
    let least = if look.ranks.contains_key(&0) { WAITED_FOR_WORK.duration() } else { WAITED_AT_START.duration() };
    let log = look.log.as_ref().filter(|l| l.quiet_for > l.patience.max(patience(look, least)))?;
    let meets = |r: &RankLook| r.gpu.is_none() && r.sleeps() && !r.does_io() && r.is_in_gloo();
    let here = look.alive().count();
    if !job.has_ranks_elsewhere() || look.ras.is_some() || !has_trained(look) || here < look.local_ranks || !look.alive().all(meets) {
        return None;
    }
    let waits = format!("{} in a collective of Gloo, no step for {}", all_here(here, "wait"), span(log.quiet_for));
    let far = Far {
        one: true,
        subject: "a rank of another node".into(),
        named: "a rank of another node".into(),
        next: Some(
            "look on the other nodes, with nccl-top or `ps -eo pid,stat,wchan:24,args`: who is not in a collective there has not come"
                .into(),
        ),
        silent: None,
    };
    Some(Absent {
        ranks: Vec::new(),
        since: log.last_step_at?,
        confidence: Confidence::Likely,
        what: Some("the collective in which the ranks here wait".into()),
        evidence: vec![Evidence::of("process", waits)],
        far: Some(far),
    })
}
