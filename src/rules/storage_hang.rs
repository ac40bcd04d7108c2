//! A file system does not answer: a rank does not come back from a read or a write, or a checkpoint does not end.

use super::area::Area;
use super::chain::Chain;
use super::{Implies, Rule, Stacks, TickContext, told_by, while_it_holds};
use crate::base::fs_kind::{LOCAL, is_remote, of_place};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::{Stamp, span};
use crate::base::units::does;
use crate::base::words::py_spy;
use crate::base::words::{rank_words, shell_word};
use crate::logs::Phase;
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::{Look, RankLook};
use crate::model::waits::{WaitsFor, mount_words};
use crate::observe::evidence::Evidence;
use crate::observe::process::{Mount, Wait};
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "storage-hang",
    severity: Severity::Critical,
    title: "A rank waits for a file system that does not answer, or a checkpoint does not end",
    says: "{waits|wait} for a file system that does not answer",
    how: "State D of the rank's first thread at every look, in a call or a function of the kernel that belongs to a file system, and nothing \
          read or written; or a checkpoint that the log names, that has lasted much longer than those before, and that writes nothing",
    advice: "Ask the server or the mount that is named: `nfsstat -m`, `lfs check servers`, the log of the FUSE program, `dmesg`. A process in \
             state D cannot be killed before its file system answers",
    life: while_it_holds(0, 5),
    implies: Implies::Stuck,
    stacks: Stacks::OfCulprits,
    chain: Chain { covered_by: &["rank-exited", "rank-stopped"], ..Chain::HANG },
    on_tick: Some(check),
    limits: &[&AFTER_REMOTE, &AFTER_LOCAL],
    ..Rule::PLAIN
};

const AFTER_REMOTE: Limit =
    Limit::seconds("storage-hang", "after", 30.0, "a rank must have waited this long for a network file system or FUSE");
const AFTER_LOCAL: Limit = Limit::seconds(
    "storage-hang",
    "after_local",
    120.0,
    "the same for a local one, and where it is not known: writing back gigabytes to a slow disk takes a minute",
);
/// Less than this is not data.
const NOTHING_BYTES_PER_S: f64 = 16e3;

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        if let Some(found) = in_state_d(job, look).or_else(|| checkpoint(job, look))
            && !ctx.is_covered(&RULE, id, &found.ranks)
        {
            out.push(found);
        }
    }
}

/// What a rank waits for, if that is its storage.
struct Stuck<'a> {
    rank: &'a RankLook,
    wait: Option<&'a Wait>,
    since: Stamp,
}

fn stuck<'a>(look: &Look, rank: &'a RankLook) -> Option<Stuck<'a>> {
    let still = rank.io_bytes_per_s.is_none_or(|b| b < NOTHING_BYTES_PER_S);
    if rank.state != Some('D') || !still || rank.activity == Activity::Lost {
        return None;
    }
    let wait = rank.waits.iter().find(|wait| wait.pid == rank.pid && wait.is_seen());
    // A driver's call, or one that nothing is known of, is no matter of storage.
    if wait.is_some_and(|wait| wait.what() != WaitsFor::Storage) {
        return None;
    }
    let remote = |wait: &Wait| match &wait.mount {
        Some(mount) => is_remote(&mount.fs),
        None => wait.place.as_deref().and_then(of_place).is_some_and(|kind| kind != LOCAL),
    };
    let least = if wait.is_some_and(remote) { AFTER_REMOTE } else { AFTER_LOCAL }.duration();
    (look.at.since(rank.state_since) >= least).then_some(Stuck { rank, wait, since: rank.state_since })
}

fn in_state_d(job: &Job, look: &Look) -> Option<Finding> {
    let all: Vec<Stuck> = look.alive().filter_map(|rank| stuck(look, rank)).collect();
    let first = all.iter().min_by_key(|s| (s.wait.is_none(), s.since))?;
    let ranks: Vec<u32> = all.iter().map(|s| s.rank.rank).collect();
    let for_s = span(look.at.since(first.since));
    let mount = first.wait.and_then(|wait| wait.mount.as_ref());
    let what = match (mount, first.wait) {
        (Some(mount), Some(wait)) => format!("for {} in {}", mount_words(mount), wait.call.as_deref().unwrap_or("the kernel")),
        (None, Some(wait)) => format!("for storage in {}", wait.words()),
        _ => "in uninterruptible sleep; for which file system is not seen".into(),
    };
    let mut found = finding(job, &ranks, look, first.since);
    found.summary = format!("{} {} {what}, for {for_s}", rank_words(&ranks), does(ranks.len(), "wait"));
    found.confidence = if mount.is_some() { Confidence::Certain } else { Confidence::Likely };
    if first.wait.is_none() {
        found.confidence = Confidence::Possible;
    }
    found.next = Some(next(mount, first.rank.pid));
    found.evidence = all.iter().take(8).map(evidence).collect();
    told_by(&mut found, look);
    Some(found)
}

fn evidence(stuck: &Stuck) -> Evidence {
    let place = stuck.wait.map_or(String::new(), |wait| format!(" in {}", wait.words()));
    Evidence::of("process", format!("pid {} of rank {} in state D{place}, nothing read or written", stuck.rank.pid, stuck.rank.rank))
}

fn finding(job: &Job, ranks: &[u32], look: &Look, since: Stamp) -> Finding {
    let mut found = RULE.finding("storage", "", since);
    found.job = Some(job.id.clone());
    found.gpus = look.gpus_of(ranks);
    found.ranks = ranks.to_vec();
    found.area = Some(Area::Storage);
    found
}

/// A command that cannot hang itself.
fn next(mount: Option<&Mount>, pid: u32) -> String {
    match mount {
        Some(mount) => format!("timeout 5 stat -f {}; dmesg | tail", shell_word(&mount.at)),
        None => format!("cat /proc/{pid}/stack; dmesg | tail"),
    }
}

/// A checkpoint that the log names, longer than any before, and nobody writes.
fn checkpoint(job: &Job, look: &Look) -> Option<Finding> {
    const STILL: Duration = Duration::from_secs(30);
    let (_, since) = look.overdue.filter(|(phase, _)| *phase == Phase::Checkpoint)?;
    let written = |r: &RankLook| r.written_bytes_per_s.is_none_or(|b| b >= NOTHING_BYTES_PER_S);
    if look.alive().next().is_none() || look.alive().any(|r| written(r) || r.activity == Activity::Working) || !look.quiet_log() {
        return None;
    }
    // A pipe to a program that writes for it, and reads no more.
    let to_a_pipe = |r: &RankLook| r.stands().is_some_and(Wait::writes);
    let held = |r: &&RankLook| {
        to_a_pipe(r) || r.waits.iter().any(|wait| wait.what() == WaitsFor::Storage) || r.in_d && look.at.since(r.state_since) >= STILL
    };
    let ranks: Vec<u32> = look.alive().filter(held).map(|r| r.rank).collect();
    let mut found = finding(job, &ranks, look, since);
    let so_far = format!("{} so far, much longer than usual, and nothing is written", span(look.at.since(since)));
    found.summary = format!("the checkpoint does not end: {so_far}");
    // Who waits stands first: it is what the reader looks for, and a narrow screen cuts the end.
    let who_waits = |what: &str| format!("{what}; the checkpoint takes {so_far}");
    let storage = |r: &'_ RankLook| r.waits.iter().find(|wait| wait.what() == WaitsFor::Storage).cloned();
    let waits: Vec<(u32, Wait)> = look.alive().filter_map(|r| Some((r.rank, storage(r)?))).collect();
    if let Some(mount) = waits.iter().find_map(|(_, wait)| wait.mount.as_ref()) {
        found.summary = who_waits(&format!("{} {} for {}", rank_words(&ranks), does(ranks.len(), "wait"), mount_words(mount)));
        found.next = Some(next(Some(mount), 0));
    }
    // Who holds the lock of a file is to blame, not what the file lies on.
    let locked = |r: &'_ RankLook| r.waits.iter().find(|wait| wait.pid == r.pid && wait.holder.is_some()).cloned();
    if let Some((rank, wait)) = look.alive().find_map(|r| Some((r, locked(r)?))) {
        found.summary = who_waits(&format!("{} waits in {}", rank.name(), wait.words()));
        found.next = Some(rank.next());
        found.area = None;
    }
    let pipes: Vec<&RankLook> = look.alive().filter(|r| to_a_pipe(r)).collect();
    if let Some(first) = pipes.first().filter(|_| found.next.is_none()) {
        let who: Vec<u32> = pipes.iter().map(|r| r.rank).collect();
        found.summary = who_waits(&format!("{} {} in write to a pipe that nobody reads", rank_words(&who), does(who.len(), "wait")));
        found.next = Some(py_spy(first.pid));
    }
    if let Some((rank, wait)) = look.alive().find_map(|r| Some((r, r.awaits_an_answer()?))).filter(|_| ranks.is_empty()) {
        // What it asks may be busy with a large part.
        (found.severity, found.confidence) = (Severity::Warning, Confidence::Possible);
        // Of several, one may wait for the job's store only.
        if look.alive().count() == 1 {
            found.summary = who_waits(&format!("{} waits in {}", rank.name(), wait.words()));
            (found.ranks, found.gpus) = (vec![rank.rank], look.gpus_of(&[rank.rank]));
            found.next = Some(py_spy(rank.pid));
        }
    }
    // Nobody waits for a file system: they stand in locks, or in a collective that not all have come to.
    let by_lock = |r: &RankLook| r.waits.iter().any(|wait| wait.pid == r.pid && wait.what() == WaitsFor::Others);
    if ranks.is_empty() && found.ranks.is_empty() && look.alive().count() > 1 && look.alive().all(by_lock) {
        let in_gloo = look.alive().filter(|r| r.is_in_gloo()).count();
        let where_to = if in_gloo > 0 { "in locks and in Gloo" } else { "in locks" };
        found.summary = format!("the checkpoint does not end: {so_far}; all ranks wait {where_to}, and none for a file system");
        found.area = None;
        found.next = look.alive().next().map(|r| py_spy(r.pid));
    }
    found.next = found.next.or_else(|| look.alive().next().map(|r| next(None, r.pid)));
    found.evidence =
        waits.iter().take(8).map(|(rank, wait)| Evidence::of("process", format!("rank {rank} waits in {}", wait.words()))).collect();
    let piped = pipes.iter().filter_map(|r| Some(format!("pid {} of rank {} waits in {}", r.pid, r.rank, r.stands()?.words())));
    found.evidence.extend(piped.take(8).map(|words| Evidence::of("process", words)));
    found.evidence.push(Evidence::of("line", format!("a checkpoint began {} ago", span(look.at.since(since)))));
    told_by(&mut found, look);
    Some(found)
}
