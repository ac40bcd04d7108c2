//! One or some ranks did not join a collective; the others wait for them.

use super::absent_on_cpus::{by_busy, by_calls, by_calls_elsewhere, by_cpu};
use super::area::Area;
use super::chain::Chain;
use super::{Implies, Rule, Stacks, TickContext, spinning, told_by, while_it_holds};
use crate::base::clean::clean;
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::{Stamp, span};
use crate::base::units::{all_here, so_many};
use crate::base::words::rank_words;
use crate::logs::{Phase, What};
use crate::model::Model;
use crate::model::comm::Odd;
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::{LogLook, Look, Member, RAS_OLD, RankLook, RasLook, Silent};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "hang-rank-absent",
    severity: Severity::Critical,
    title: "One or some ranks did not join a collective, and the others wait for them",
    says: "{has|have} not joined a collective, and the others wait",
    how: "RAS counts that lag behind and no longer change; the other ranks' GPUs at 100 % without computing or moving a byte; the rank's own \
          GPU idle; no step in the log for longer than usual; no I/O of the rank that would explain it. RAS does not count sends, receives, \
          AlltoAll and what runs in a CUDA graph: there GPUs, CPUs and who waits for whom decide. For a rank on another node: what RAS reports \
          of it, all ranks on this node waiting, and a longer wait where it may be saving a checkpoint",
    advice: "Look at the stack of the rank that is named: data loader, a branch that only this rank took, a lock, a file system. The waiting ranks are \
             victims; the watchdog of PyTorch will name them, not the culprit",
    life: while_it_holds(0, 3),
    implies: Implies::Stuck,
    stacks: Stacks::OfCulprits,
    chain: Chain { covered_by: &["rank-stopped", "rank-exited", "collective-mismatch"], ..Chain::HANG },
    on_tick: Some(check),
    limits: &[
        &WAITED,
        &SETTLED,
        &WAITED_ALONE,
        &WAITED_FOR_WORK,
        &WAITED_FAR,
        &WAITED_AT_START,
        &WAITED_AFTER_FIRST,
        &A_LOT,
        &QUEUED,
        &SHORT_S,
        &LONG_S,
    ],
    ..Rule::PLAIN
};

/// GPUs must have waited this long: after work stops, utilisation and power need up to three seconds to settle.
pub(super) const WAITED: Limit = Limit::seconds("hang-rank-absent", "after", 8.0, "GPUs of ranks that wait must have waited this long");
/// What was on its way when GPUs were first seen to wait has come through by then.
pub(super) const SETTLED: Limit =
    Limit::seconds("hang-rank-absent", "settled", 4.0, "RAS counts must have stood still this long where GPUs wait");
/// Without a second kind of signal more time must pass.
pub(super) const WAITED_ALONE: Limit =
    Limit::seconds("hang-rank-absent", "after_alone", 12.0, "the same where only one kind of signal is seen");
/// Who computes may be about to come.
pub(super) const WAITED_FOR_WORK: Limit =
    Limit::seconds("hang-rank-absent", "after_busy", 20.0, "the same where ranks on CPUs wait for one that keeps its CPU busy");
/// What RAS says of a rank elsewhere, of which nothing else is seen, must have held so long.
const WAITED_FAR: Limit =
    Limit::seconds("hang-rank-absent", "after_elsewhere", 10.0, "what RAS says of a rank on another node must have held this long");
/// Before the first steps, ranks wait for downloads, tokenisation and compilation of another: minutes are usual.
pub(super) const WAITED_AT_START: Limit = Limit::seconds(
    "hang-rank-absent",
    "after_at_start",
    120.0,
    "the same before the first steps, and where a rank may be saving a checkpoint",
);

/// After the first step, whoever uses no CPU and moves no data does nothing for the next one.
pub(super) const WAITED_AFTER_FIRST: Limit = Limit::seconds(
    "hang-rank-absent",
    "after_first_steps",
    14.0,
    "the same in the first steps, where the process of the rank that is missed does nothing, and where it waits for an answer over the network",
);

/// A rank that launches ahead of the others fills a queue: so many operations and not more.
pub(super) const A_LOT: Limit = Limit::count(
    "hang-rank-absent",
    "reports_many",
    100.0,
    "in one saved RAS report, of many ranks: operations behind that are more than a queue",
);

/// The operations of one step of a few ranks behind all others: more than a report taken between two of them shows.
pub(super) const QUEUED: Limit = Limit::count(
    "hang-rank-absent",
    "reports_few",
    8.0,
    "in one saved RAS report, of few ranks: operations behind that are more than a queue",
);

/// A pause between two steps, or the time that RAS itself takes.
pub(super) const SHORT_S: Limit =
    Limit::seconds("hang-rank-absent", "reports_short", 4.0, "saved RAS reports that are closer together prove no hang");

/// Ranks launch ahead, then wait while one saves a checkpoint.
pub(super) const LONG_S: Limit =
    Limit::seconds("hang-rank-absent", "reports_long", 60.0, "saved RAS reports with the same counts over this long are certain");

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        if let Some(found) = judge(job, look)
            && !ctx.is_covered(&RULE, id, &found.ranks)
            && !all_have_waited(ctx.model, id, &found.ranks)
        {
            out.push(found);
        }
    }
}

/// Their own watchdogs have reported a collective that timed out: they had come to that, and waited.
fn all_have_waited(model: &Model, job: &str, ranks: &[u32]) -> bool {
    const LATELY: Duration = Duration::from_secs(120);
    let alarms = || model.record_of(job).alarms.iter().filter(|alarm| model.now.since(alarm.last_seen_at) < LATELY);
    let has = |rank: &u32| alarms().any(|alarm| alarm.rank == Some(*rank) && matches!(alarm.event.what, What::CollectiveTimeout(_)));
    !ranks.is_empty() && ranks.iter().all(has)
}

/// Who is absent, if anybody is.
pub(super) struct Absent {
    pub(super) ranks: Vec<u32>,
    pub(super) since: Stamp,
    pub(super) confidence: Confidence,
    /// What they have not joined; `None`: the others wait in sends and receives.
    pub(super) what: Option<String>,
    pub(super) evidence: Vec<Evidence>,
    /// Those that are not on this node.
    pub(super) far: Option<Far>,
}

/// Culprits of which only RAS knows.
pub(super) struct Far {
    pub(super) one: bool,
    pub(super) subject: String,
    pub(super) named: String,
    pub(super) next: Option<String>,
    /// All of them are silent, for that reason.
    pub(super) silent: Option<Silent>,
}

pub(super) fn judge(job: &Job, look: &Look) -> Option<Finding> {
    if paused_by_name(look) {
        return None;
    }
    // Where ranks share a GPU that computes, one of them computes.
    if look.shared_is(Activity::Working) {
        return None;
    }
    let works = look.alive().any(|r| r.activity == Activity::Working);
    let absent = if works {
        busy_elsewhere(look)
    } else {
        by_ras(look)
            .or_else(|| by_gpus(look))
            .or_else(|| by_peers(job, look))
            .or_else(|| by_cpu(look))
            .or_else(|| by_calls(look))
            .or_else(|| by_busy(look))
            .or_else(|| by_calls_elsewhere(job, look))
    }?;
    let culprits: Vec<&RankLook> = absent.ranks.iter().filter_map(|r| look.ranks.get(r)).collect();
    if culprits.iter().any(|r| r.does_io() && !r.only_reads()) {
        return None;
    }
    // Rank 0 is who writes checkpoints and evaluates. Where its I/O may not be seen, or what its GPU does while its process works, it is
    // not accused before that would be over. Nor is any whose process works and keeps what it makes.
    let may_work = |r: &&RankLook| r.rank == 0 && (r.io_bytes_per_s.is_none() || works_unseen(r));
    let may_work = |r: &&RankLook| may_work(r) || may_serve(look, r) || r.builds() || r.only_reads();
    if culprits.iter().any(may_work) && look.at.since(absent.since) < WAITED_AT_START.duration() {
        return None;
    }
    let waiting = look.with(Activity::Waiting, Duration::from_secs(3)).len();
    let here = look.alive().count();
    // One of this node that is not seen may be the one.
    let not_here = absent.far.is_some() && culprits.is_empty() && here >= look.local_ranks;
    let waits = match waiting {
        0 => String::new(),
        _ if absent.what.is_none() && absent.far.is_none() => who_waits(look, &absent.ranks),
        n if not_here && n == here => format!("; {}: the cause is on another node", all_here(n, "wait")),
        n => format!("; {}", so_many(n, "rank", "wait")),
    };
    let named = match (&absent.far, culprits.as_slice()) {
        (Some(far), []) => far.named.clone(),
        (Some(far), [one]) => format!("{} here and {}", one.name(), far.named),
        (Some(far), some) => format!("{} here and {}", rank_words(&some.iter().map(|r| r.rank).collect::<Vec<_>>()), far.named),
        (None, [one]) if absent.ranks.len() == 1 => format!("{}{}", one.name(), of_stage(look, &absent.ranks)),
        (None, _) if absent.ranks.is_empty() => "a rank".into(),
        (None, _) => format!("{}{}", rank_words(&absent.ranks), of_stage(look, &absent.ranks)),
    };
    let one = absent.far.as_ref().map_or(absent.ranks.len() <= 1, |far| far.one && culprits.is_empty());
    let has = if one { "has" } else { "have" };
    let words = match (absent.far.as_ref().and_then(|f| f.silent), &absent.what) {
        (Some(Silent::Dead), _) => format!("{named} {} gone: no answer to RAS for a minute{waits}", if one { "is" } else { "are" }),
        (Some(Silent::NoAnswer), _) => format!("{named} {} not answer RAS{waits}", if one { "does" } else { "do" }),
        (Some(Silent::NotIn), Some(what)) => format!("{named} {has} left {what}{waits}"),
        (_, Some(what)) => format!("{named} {has} not joined {what}{waits}"),
        (_, None) if one => format!("{named} neither sends nor receives{waits}"),
        (_, None) => format!("{named} neither send nor receive{waits}"),
    };
    let subject = match &absent.far {
        Some(far) if culprits.is_empty() => far.subject.clone(),
        _ => rank_words(&absent.ranks),
    };
    let mut found = RULE.finding(subject, words, absent.since);
    found.job = Some(job.id.clone());
    found.confidence = absent.confidence;
    found.gpus = look.gpus_of(&absent.ranks);
    let exchanged = look.peers.last_exchanges(&absent.ranks);
    found.ranks = absent.ranks;
    // Of two, either may work for the other: a server that answers, and who waits for it.
    let is_pair = culprits.len() * 2 >= here;
    if culprits.iter().any(|r| r.activity == Activity::Working && (is_pair || !r.is(Activity::Working, look.at, ALONE))) {
        (found.severity, found.confidence) = (Severity::Warning, Confidence::Possible);
        found.summary = format!("{}; an evaluation of one rank alone looks the same", found.summary);
    }
    if culprits.iter().any(|r| r.only_reads()) {
        (found.severity, found.confidence) = (Severity::Warning, Confidence::Possible);
        found.summary = format!("{}; its process works and reads", found.summary);
    }
    if culprits.iter().any(|r| may_serve(look, r)) {
        (found.severity, found.confidence) = (Severity::Warning, Confidence::Possible);
        found.summary = format!("{}; or it is a server without requests", found.summary);
    }
    found.next = culprits.first().map(|r| r.next()).or(absent.far.and_then(|far| far.next));
    found.evidence = absent.evidence;
    found.evidence.extend(exchanged);
    for rank in culprits.iter().filter(|r| r.state.is_some()) {
        let state = rank.state.unwrap_or('?');
        let cpu = rank.cpu_pct.map_or(String::new(), |c| format!(", {c:.0} % CPU"));
        let io = rank.io_bytes_per_s.map_or(", I/O not readable".into(), |b| format!(", {:.0} kB/s I/O", b / 1e3));
        found.evidence.push(Evidence::of("process", format!("pid {} in state {state}{cpu}{io}", rank.pid)));
    }
    if let Some((loader, is_loader)) = culprits.iter().find_map(|r| super::input_stall::of_absent(r)) {
        found.summary = format!("{}; {}", found.summary, loader.text);
        found.evidence.push(loader);
        let saves = look.phase.is_some_and(|(phase, _)| phase == Phase::Checkpoint);
        found.area = if saves { Some(Area::Storage) } else { is_loader.then_some(Area::Input) };
    }
    told_by(&mut found, look);
    Some(found)
}

/// ` of stage 3 of 4`, where all of them are of one.
fn of_stage(look: &Look, ranks: &[u32]) -> String {
    look.peers.stage_of(ranks).map_or(String::new(), |stage| format!(" of {}", stage.words()))
}

/// `; rank 2 of stage 3 of 4 waits for it, 2 more behind it`: who is known to exchange with those that are missed, and all others that wait.
fn who_waits(look: &Look, missed: &[u32]) -> String {
    let all: Vec<u32> = look.with(Activity::Waiting, Duration::from_secs(3)).iter().map(|r| r.rank).collect();
    let (near, rest): (Vec<u32>, Vec<u32>) =
        all.iter().partition(|rank| look.peers.neighbours(**rank).any(|other| missed.contains(&other)));
    if near.is_empty() {
        return format!("; {}", so_many(all.len(), "rank", "wait"));
    }
    let waits = if near.len() == 1 { "waits" } else { "wait" };
    let them = if missed.len() == 1 { "it" } else { "them" };
    let behind = if rest.is_empty() { String::new() } else { format!(", {} more behind", rest.len()) };
    format!("; {}{} {waits} for {them}{behind}", rank_words(&near), of_stage(look, &near))
}

/// Its process works, and whether its GPU does cannot be seen.
pub(crate) fn works_unseen(rank: &RankLook) -> bool {
    rank.activity == Activity::Unknown && rank.spins()
}

/// It waits for a message while others wait for it, in a job of which no step was ever seen: so does the front of a server without requests.
pub(crate) fn may_serve(look: &Look, rank: &RankLook) -> bool {
    let steps = look.log.as_ref().is_some_and(|l| l.last_step_at.is_some()) || look.counted.is_some_and(|counted| counted.steady);
    !steps && look.saved.is_none() && rank.awaits_a_message().is_some()
}

/// A checkpoint or an evaluation that the log names, that has not lasted longer than such things do, and for which somebody does something.
pub(super) fn paused_by_name(look: &Look) -> bool {
    let somebody_acts = || look.standing().is_empty();
    look.phase.is_some_and(|(phase, _)| phase == Phase::Serving || phase != Phase::DataLoading && somebody_acts())
}

/// The job has trained: what stops now was moving before.
pub(crate) fn has_trained(look: &Look) -> bool {
    // Operations alone prove nothing: weights are spread with hundreds of broadcasts before the first step. Nor do the reductions of one
    // forward pass, with which a server measures its memory.
    let worked = |s| look.worked >= Duration::from_secs(s);
    // A loss without a step number is one of steps that are counted nowhere.
    look.server_hangs
        || look.log.as_ref().is_some_and(|l| l.step.map_or(l.last_step_at.is_some(), |step| step >= 3))
        || look.saved.is_some_and(|(step, _)| step >= 3)
        || worked(4) && look.ras.as_ref().is_some_and(|r| r.reductions >= 500)
        || worked(4) && look.ras.as_ref().is_some_and(|r| r.reductions >= 100 && r.moves >= 2)
        || worked(3) && look.counted.is_some() && look.ras.as_ref().is_some_and(|r| r.reductions >= 20)
        || worked(10) && look.ras.as_ref().is_some_and(|r| r.operations >= 50)
        || worked(25) && look.log.as_ref().is_none_or(|l| l.last_step_at.is_none())
}

/// How long GPUs must have waited before that means something for this job.
pub(super) fn patience(look: &Look, least: Duration) -> Duration {
    // Whoever downloads, tokenises or compiles does something for it.
    if !has_trained(look) && look.held().is_empty() {
        let has_stepped = look.log.as_ref().is_some_and(|l| l.last_step_at.is_some());
        let rests = has_stepped && !look.standing().is_empty();
        return if rests { WAITED_AFTER_FIRST.duration() } else { WAITED_AT_START.duration() };
    }
    // A job whose ranks regularly wait for a slow one waits for most of a step.
    let by_log = look.log.as_ref().map(|l| l.longer_than_waits);
    // What is estimated may only add patience.
    let estimated = look.counted.map(|counted| counted.every).max(look.rhythm);
    let step = by_log.or(estimated.map(|period| period.mul_f64(1.5))).unwrap_or_default();
    if step > Duration::from_secs(10) { least.max(step) } else { least }
}

/// What RAS says, and the ranks whose GPUs wait, where counts have stood still for long enough to mean something.
pub(super) fn standing_still(look: &Look) -> Option<(&RasLook, Vec<&RankLook>)> {
    let ras = look.ras.as_ref().filter(|r| r.age <= RAS_OLD && r.operations > 0)?;
    let waiting = look.with(Activity::Waiting, patience(look, WAITED.duration()));
    // With GPUs that say the same, two equal answers do; without, it must have been still for longer.
    let still = if look.knows_gpus() {
        !waiting.is_empty() && (ras.still_answers >= 1 && ras.still_for >= SETTLED.duration() || told_in_standstill(look, ras))
    } else {
        // Counts only grow: two equal answers say the same of all the time between as many would.
        let waited = patience(look, WAITED_ALONE.duration());
        let quiet = look.log.as_ref().is_some_and(|l| l.last_step_at.is_some() && l.quiet_for >= waited);
        look.quiet_log()
            && ras.still_answers >= 1
            && (ras.still_for >= waited || quiet && ras.still_for >= SETTLED.duration() && cpus_agree(look, ras))
    };
    // The log has made steps since, and not long ago.
    let moved = |l: &LogLook| l.last_step_at.is_some_and(|last| last > ras.still_since && l.quiet_for < WAITED.duration());
    (still && !look.log.as_ref().is_some_and(moved)).then_some((ras, waiting))
}

/// Where GPUs are not seen: the processes of those that RAS has behind sleep, and all others of this node spin, as who waits in a
/// collective does. What rank 0 does alone and asleep is often an upload.
fn cpus_agree(look: &Look, ras: &RasLook) -> bool {
    let behind = |r: &RankLook| ras.behind.iter().any(|l| l.who.rank == Some(r.rank));
    let agrees = |r: &RankLook| if behind(r) { r.rank != 0 && r.sleeps() } else { r.spins() };
    look.alive().count() >= look.local_ranks && look.alive().any(behind) && look.alive().all(agrees)
}

/// One answer does where it came while nothing moved: no GPU of those that it tells of has begun or ended anything since, so that the next
/// answer would say the same. Where jobs share a port it may not come for long.
fn told_in_standstill(look: &Look, ras: &RasLook) -> bool {
    let elsewhere = ras.behind.iter().map(|l| &l.who).chain(ras.odd.iter().map(|(m, _)| m)).chain(&ras.missing).any(|m| m.elsewhere);
    let stood = |r: &RankLook| {
        matches!(r.activity, Activity::Waiting | Activity::Idle) && ras.answered_at >= r.activity_since.plus(SETTLED.duration())
    };
    look.quiet_log() && !elsewhere && look.alive().count() >= look.local_ranks && look.alive().all(stood)
}

fn by_ras(look: &Look) -> Option<Absent> {
    let (ras, waiting) = standing_still(look)?;
    let gap = ras.behind.first().map(|b| b.behind.max - b.behind.have);
    // One elsewhere that has launched more of another kind has come, but to something else.
    let differs = |who: &Member| who.elsewhere && ras.odd.iter().any(|(m, odd)| m == who && !odd.more.is_empty());
    let late = ras.behind.iter().filter(|l| Some(l.behind.max - l.behind.have) == gap && !differs(&l.who)).map(|l| &l.who);
    let mut members: Vec<&Member> = late.chain(&ras.missing).collect();
    let gpu_is = |member: &&Member, what: Activity| {
        member.rank.and_then(|r| look.ranks.get(&r)).is_some_and(|r| r.is(what, look.at, patience(look, WAITED.duration())))
    };
    // Who waits in another communicator for one that waits for it has come, but to another call. Whose GPU is idle waits in none.
    members.retain(|m| gpu_is(m, Activity::Idle) || !ras.circle.iter().any(|link| link.who.rank == m.rank));
    // Who is behind and waits in another call waits for those who wait in none.
    if members.iter().any(|m| !gpu_is(m, Activity::Waiting)) {
        members.retain(|m| !gpu_is(m, Activity::Waiting));
    }
    // When most are "behind", the few are not the ones to ask for, unless the GPUs of all those are idle. One whose GPU waits, too, has
    // come, but to another collective.
    let most = members.len() * 2 > ras.nranks as usize;
    if members.is_empty()
        || (most && !members.iter().all(|m| gpu_is(m, Activity::Idle)))
        || members.iter().all(|m| gpu_is(m, Activity::Waiting))
    {
        return None;
    }
    // Who is behind in one kind and ahead in another has come, but to something else.
    let crosses = |who: &Member| ras.odd.iter().any(|(m, odd)| m == who && odd.crosses());
    if members.iter().all(|m| !m.elsewhere && crosses(m)) || members.iter().all(|m| !m.elsewhere) && may_wait_unseen(look, ras, &members) {
        return None;
    }
    let mut ranks: Vec<u32> = members.iter().filter_map(|m| m.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let comm = format!("comm {:08x}", ras.hash >> 32);
    // What those are behind in that are named, not others.
    let of_members = ras.behind.iter().find(|l| members.contains(&&l.who));
    let first = of_members.or(ras.behind.first()).map(|l| &l.behind);
    let what = match first {
        Some(b) => format!("{} {} of {comm}", b.collective, b.have + 1),
        None => format!("{comm}: RAS gets no answer from it"),
    };
    let mut evidence = vec![match first {
        Some(b) => Evidence::of(
            "ras",
            format!("{} {} of {}, {} behind, unchanged for {}", b.collective, b.have, b.max, b.max - b.have, span(ras.still_for)),
        ),
        None => Evidence::of("ras", format!("{} missing, counts unchanged for {}", members[0].name(ras.hash), span(ras.still_for))),
    }];
    evidence.extend(gpu_evidence(look, &ranks));
    if members.iter().any(|m| m.elsewhere) {
        let confidence = of_far(look, ras, &members, gap)?;
        let since = waiting.iter().map(|r| r.activity_since).min().map_or(ras.still_since, |at| at.min(ras.still_since));
        if let (Some(_), [one, ..]) = (first, ras.missing.as_slice()) {
            evidence.push(Evidence::of("ras", format!("{} does not answer", one.far_name(ras.hash))));
        }
        if look.contained {
            evidence.push(Evidence::of("ras", "pids on other nodes are those inside containers".to_owned()));
        }
        let what = if first.is_some() { what } else { comm };
        return Some(Absent { ranks, since, confidence, what: Some(what), evidence, far: Some(far(look, ras, &members)) });
    }
    let agrees = !waiting.is_empty() && !waiting.iter().any(|r| ranks.contains(&r.rank));
    let confidence = if agrees { Confidence::Certain } else { Confidence::Likely };
    let since = waiting.iter().map(|r| r.activity_since).min().map_or(ras.still_since, |at| at.min(ras.still_since));
    Some(Absent { ranks, since, confidence, what: Some(what), evidence, far: None })
}

/// Where GPUs are not seen, who is behind may wait, too: in another kind of collective, which is counted, or, of two, in one that is not
/// (AlltoAll) for the other, who has called one more of a kind that is.
fn may_wait_unseen(look: &Look, ras: &RasLook, members: &[&Member]) -> bool {
    if look.knows_gpus() || !ras.missing.is_empty() {
        return false;
    }
    let called_more = ras.odd.iter().any(|(who, odd)| members.contains(&who) && !odd.more.is_empty());
    let awake = |who: &Member| who.rank.and_then(|r| look.ranks.get(&r)).is_none_or(|r| !r.sleeps());
    // Who waits in one operation lacks what came behind that: of several kinds it is more than one.
    let lacks = |odd: &Odd| odd.fewer.iter().map(|(_, have, usual)| usual - have).sum::<u64>();
    let by_one = ras.behind.iter().all(|late| late.behind.max - late.behind.have == 1)
        && ras.odd.iter().filter(|(who, _)| members.contains(&who)).all(|(_, odd)| lacks(odd) == 1);
    let half = members.len() * 2 >= ras.nranks as usize;
    called_more || half && by_one && members.iter().all(|m| awake(m))
}

/// How sure it is that ranks are absent of which some are elsewhere: what a process does there cannot be seen. It may well be saving
/// a checkpoint, while all others wait at the barrier behind it.
fn of_far(look: &Look, ras: &RasLook, members: &[&Member], gap: Option<u64>) -> Option<Confidence> {
    if !look.quiet_log() {
        return None;
    }
    let named = |r: &&RankLook| !members.iter().any(|m| m.rank == Some(r.rank));
    // Where a GPU is not seen, or is another's, too: who waits for the GPU in a collective spins on its CPU.
    let waits = |r: &RankLook| r.is(Activity::Waiting, look.at, patience(look, WAITED.duration())) || works_unseen(r);
    let all_wait = look.alive().count() >= look.local_ranks && look.alive().any(|r| named(&r)) && look.alive().filter(named).all(waits);
    // Who saves for all is the first of a communicator; when all save, this node has just saved, too.
    let saves = ras.missing.is_empty()
        && gap == Some(1)
        && (members.iter().any(|m| m.elsewhere && m.first) || look.alive().any(|r| r.much_io_lately));
    if all_wait && !saves && ras.still_for >= WAITED_FAR.duration() {
        return Some(Confidence::Likely);
    }
    (ras.still_for >= WAITED_AT_START.duration()).then_some(Confidence::Possible)
}

/// How culprits are called that are not on this node.
fn far(look: &Look, ras: &RasLook, all: &[&Member]) -> Far {
    let members: Vec<&Member> = all.iter().copied().filter(|m| m.elsewhere).collect();
    let mut ranks: Vec<u32> = members.iter().filter_map(|m| m.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let mut hosts: Vec<&str> = members.iter().filter_map(|m| m.host.as_deref()).collect();
    hosts.sort_unstable();
    hosts.dedup();
    let who = match members.as_slice() {
        [one] if one.rank.is_none() => format!("rank {} of comm {:08x}", one.comm_rank, ras.hash >> 32),
        _ if ranks.len() == members.len() => rank_words(&ranks),
        _ => format!("{} ranks of comm {:08x}", members.len(), ras.hash >> 32),
    };
    let place = match hosts.as_slice() {
        [] => "other nodes".to_owned(),
        [one] => clean(one).into_owned(),
        [one, other] => format!("{} and {}", clean(one), clean(other)),
        [one, other, ..] => format!("{} nodes ({}, {}, …)", hosts.len(), clean(one), clean(other)),
    };
    let named = match members.as_slice() {
        [one] => one.far_name(ras.hash),
        _ => format!("{who} on {place}"),
    };
    let next = members.iter().find_map(|m| m.far_command()).filter(|_| !look.contained);
    let all_silent = all.iter().all(|m| m.silent.is_some());
    Far { one: members.len() == 1, subject: who, named, next, silent: members.iter().filter_map(|m| m.silent).max().filter(|_| all_silent) }
}

fn by_gpus(look: &Look) -> Option<Absent> {
    // That those who wait spin and the others sleep is a second kind of signal.
    let sleeps = |r: &RankLook| r.activity != Activity::Idle || r.sleeps();
    let agree = look.alive().all(|r| sleeps(r) && (r.activity != Activity::Waiting || r.spins()));
    let least = patience(look, if agree { WAITED.duration() } else { WAITED_ALONE.duration() });
    let waiting = look.with(Activity::Waiting, least);
    let idle = look.with(Activity::Idle, least);
    let stands_since = waiting.iter().chain(&idle).map(|r| r.activity_since).max()?;
    let ras = look.ras.as_ref().filter(|r| r.age < Duration::from_secs(15));
    if ras.is_some_and(|r| knows_better(look, r, stands_since)) || !look.quiet_log() {
        return None;
    }
    if waiting.is_empty() || idle.is_empty() || idle.len() > waiting.len() || waiting.len() + idle.len() < look.alive().count() {
        return None;
    }
    let ranks: Vec<u32> = idle.iter().map(|r| r.rank).collect();
    let mut evidence: Vec<Evidence> = gpu_evidence(look, &ranks).into_iter().collect();
    evidence.extend(ras.map(not_counted));
    let since = waiting.iter().map(|r| r.activity_since).min()?;
    let what = match ras {
        _ if look.has_uncounted() => None,
        Some(_) => Some("what the others wait in, which RAS does not count".into()),
        None => Some("a collective".into()),
    };
    Some(Absent { ranks, since, confidence: Confidence::Likely, what, evidence, far: None })
}

/// RAS that has seen something move since the GPUs stand, or that has somebody behind who does not himself wait, knows better than
/// utilisation. That its counts are equal says nothing: there are calls that it does not count.
fn knows_better(look: &Look, ras: &RasLook, stands_since: Stamp) -> bool {
    let waits = |who: &Member| who.rank.and_then(|r| look.ranks.get(&r)).is_some_and(|r| r.activity == Activity::Waiting);
    let moved = ras.still_answers == 0 && ras.moved_after.is_none_or(|at| at >= stands_since);
    let differs = !ras.missing.is_empty() || ras.behind.iter().any(|late| !waits(&late.who));
    moved || differs && (ras.still_for > WAITED.duration() || ras.answered_at >= stands_since.plus(SETTLED.duration()))
}

fn not_counted(ras: &RasLook) -> Evidence {
    let counts = if ras.behind.is_empty() { "counts equal" } else { "who is behind waits" };
    Evidence::of("ras", format!("{counts}: sends, receives, AlltoAll and CUDA graphs are not counted"))
}

/// All of this node wait in sends and receives, and ranks elsewhere belong to the job: a stage on another node.
fn by_peers(job: &Job, look: &Look) -> Option<Absent> {
    let waiting = look.with(Activity::Waiting, patience(look, WAITED_ALONE.duration()));
    let here = look.alive().count();
    // All save their part of a checkpoint, and the first to be done waits.
    let saves = look.alive().any(|r| r.much_io_lately || r.does_io() || r.stopped());
    if here == 0 || waiting.len() < here || here < look.local_ranks || !job.has_ranks_elsewhere() || saves {
        return None;
    }
    let ras = look.ras.as_ref().filter(|r| r.age <= RAS_OLD);
    if !look.has_uncounted()
        || !look.quiet_log()
        || ras.is_some_and(|r| r.still_answers < 2 || !r.behind.is_empty() || !r.missing.is_empty())
    {
        return None;
    }
    let mut ranks: Vec<u32> =
        look.ranks.keys().flat_map(|rank| look.peers.neighbours(*rank)).filter(|rank| !look.ranks.contains_key(rank)).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let own = look.ranks.keys().filter_map(|rank| look.peers.stage(*rank)).max();
    let stage = look.peers.stage_of(&ranks).map(|stage| stage.words());
    let named = match (stage, ranks.as_slice()) {
        (Some(stage), some) => format!("{stage} ({} on another node)", rank_words(some)),
        (None, []) => "a stage on another node".to_owned(),
        (None, some) => format!("a stage on another node ({})", rank_words(some)),
    };
    let mut evidence: Vec<Evidence> = gpu_evidence(look, &[]).into_iter().collect();
    evidence.extend(own.map(|own| Evidence::of("process", format!("this node has {}", own.words()))));
    evidence.extend(ras.map(not_counted));
    let since = waiting.iter().map(|r| r.activity_since).max()?;
    let far = Far { one: true, subject: "a stage on another node".into(), named, next: None, silent: None };
    Some(Absent { ranks: Vec::new(), since, confidence: Confidence::Possible, what: None, evidence, far: Some(far) })
}

/// A few GPUs compute and all others wait for them, for longer than the work of a step: a kernel that does not end, a loop of one rank
/// alone. Rank 0 evaluates and converts weights alone, that is no hang.
fn busy_elsewhere(look: &Look) -> Option<Absent> {
    busy_for(look, ALONE).or_else(|| busy_for(look, many_waits(look)?).filter(|absent| absent.confidence == Confidence::Likely))
}

/// What one rank does alone for so long is no evaluation any more.
const ALONE: Duration = Duration::from_secs(60);

/// Where one rank other than the first is at work and RAS has it behind: many times as long as anybody has waited for anybody so far.
fn many_waits(look: &Look) -> Option<Duration> {
    const TIMES: f64 = 12.0;
    const LEAST: Duration = Duration::from_secs(12);
    let mut at_work = look.alive().filter(|r| r.activity == Activity::Working);
    let only = at_work.next().filter(|_| at_work.next().is_none())?;
    // The first of a node merges and converts what is of all of it.
    let is_first_here = look.ranks.keys().next() == Some(&only.rank);
    let log = look.log.as_ref().filter(|log| !is_first_here && log.step.is_some_and(|step| step >= 3))?;
    Some(log.longer_than_waits.mul_f64(TIMES).max(LEAST)).filter(|alone| *alone < ALONE)
}

fn busy_for(look: &Look, alone: Duration) -> Option<Absent> {
    let busy: Vec<u32> = look.with(Activity::Working, alone).iter().map(|r| r.rank).collect();
    let waiting = look.with(Activity::Waiting, patience(look, alone));
    if busy.is_empty()
        || busy.contains(&0)
        || busy.len() > waiting.len()
        || busy.len() + waiting.len() < look.alive().count()
        || !look.quiet_log()
    {
        return None;
    }
    let ras = look.ras.as_ref().filter(|r| r.age <= RAS_OLD);
    let behind = |r: &crate::model::signals::RasLook| r.behind.iter().filter_map(|l| l.who.rank).collect::<std::collections::BTreeSet<_>>();
    let equal = |r: &RasLook| r.behind.is_empty() && r.missing.is_empty() && look.has_uncounted();
    // Of two of a kind only RAS says which is late.
    if busy.len() == waiting.len() && ras.is_none_or(equal) {
        return None;
    }
    if ras.is_some_and(|r| r.still_for < alone / 2 || !equal(r) && behind(r) != busy.iter().copied().collect()) {
        return None;
    }
    let since = waiting.iter().map(|r| r.activity_since).min()?;
    let mut evidence: Vec<Evidence> = gpu_evidence(look, &busy).into_iter().collect();
    let confidence = if ras.is_some_and(|r| !equal(r)) { Confidence::Likely } else { Confidence::Possible };
    evidence.extend(ras.map(|r| match equal(r) {
        true => not_counted(r),
        false => Evidence::of("ras", format!("behind, counts unchanged for {}", span(r.still_for))),
    }));
    Some(Absent { ranks: busy, since, confidence, what: Some("a collective: it computes something else".into()), evidence, far: None })
}

fn gpu_evidence(look: &Look, culprits: &[u32]) -> Option<Evidence> {
    let waiting: Vec<&RankLook> = look.alive().filter(|r| r.activity == Activity::Waiting && !culprits.contains(&r.rank)).collect();
    let since = waiting.iter().map(|r| r.activity_since).max()?;
    let theirs: Vec<String> = culprits
        .iter()
        .filter_map(|r| look.ranks.get(r))
        .filter_map(|r| Some(format!("GPU {} is {}", r.gpu?, r.activity.as_str()?)))
        .take(4)
        .collect();
    let theirs = if theirs.is_empty() { String::new() } else { format!("{}, ", theirs.join(", ")) };
    Some(Evidence::of("gpu", format!("{theirs}{}", spinning(waiting.len(), look.at.since(since)))))
}
