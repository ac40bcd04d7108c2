//! Ranks called different collectives, or the same one with different sizes, at the same place.

use super::hang_rank_absent::{WAITED_ALONE, has_trained, patience, paused_by_name, standing_still};
use super::{Check, Implies, ONCE, Rule, TickContext, py_spy, rank_words, told_by};
use crate::findings::{Confidence, Evidence, Found, Severity};
use crate::judge::{Look, Member, RAS_OLD, RankLook};
use crate::model::comm::Odd;
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::time::{Stamp, span};
use crate::units::{all_here, so_many};
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "collective-mismatch",
    severity: Severity::Critical,
    title: "Ranks called different collectives, or the same one with different sizes, at the same place",
    how: "RAS counts per kind of operation that differ and stand still while every GPU waits; the power of one waiting GPU that is not that of \
          the others; Flight Recorder dumps; watchdog lines that differ at one sequence number; PyTorch's or NCCL's own check",
    advice: "Look at the code of the rank that differs: a branch that depends on rank or data, uneven batches, another order of groups",
    life: ONCE,
    implies: Implies::Stuck,
    check: Check::Tick(check),
};

/// GPUs that wait in the same collective draw the same power, within this share (measured: 3 %); in another one, less or more.
const SAME_POWER: f64 = 0.08;
const OTHER_POWER: f64 = 0.20;

fn check(ctx: &TickContext, out: &mut Vec<Found>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        let dead: Vec<u32> = look.ranks.keys().copied().collect();
        if !ctx.explained_by(&["rank-stopped", "rank-exited", "hang-rank-absent"], id, &dead) {
            out.extend(judge(job, look));
        }
    }
}

/// Who differs, if anybody does.
struct Differs {
    ranks: Vec<u32>,
    since: Stamp,
    confidence: Confidence,
    words: String,
    evidence: Vec<Evidence>,
    /// The next step, if it is on another node.
    far: Option<String>,
}

pub(super) fn judge(job: &Job, look: &Look) -> Option<Found> {
    if look.alive().any(|r| r.activity == Activity::Working || r.stopped() || r.does_io()) || paused_by_name(look) || !has_trained(look) {
        return None;
    }
    let told = by_ras(look).or_else(|| by_power(look))?;
    let mut found = Found::new(rank_words(&told.ranks), told.words, told.since);
    found.job = Some(job.id.clone());
    found.confidence = told.confidence;
    found.gpus = look.gpus_of(&told.ranks);
    found.next = told.ranks.iter().find_map(|r| look.ranks.get(r)).map(|r| py_spy(r.pid)).or(told.far);
    found.ranks = told.ranks;
    found.evidence = told.evidence;
    let waiting = look.with(Activity::Waiting, Duration::from_secs(3));
    if let Some(since) = waiting.iter().map(|r| r.activity_since).max() {
        found.evidence.push(Evidence::of(
            "gpu",
            format!("{} without a byte for {}", so_many(waiting.len(), "GPU", "spin"), span(look.at.since(since))),
        ));
    }
    told_by(&mut found, look);
    Some(found)
}

fn by_ras(look: &Look) -> Option<Differs> {
    let (ras, waiting) = standing_still(look)?;
    if ras.odd.is_empty() || !ras.missing.is_empty() {
        return None;
    }
    let knows_gpus = look.knows_gpus();
    let waits = |member: &Member| member.rank.and_then(|r| look.ranks.get(&r)).map(|r| r.activity);
    let all_wait = look.alive().all(|r| r.activity == Activity::Waiting);
    // Another kind of operation, or one too many, needs no more proof than that nobody works; one too few may be a rank that is still to
    // come, unless it waits, too.
    let differs = |(member, odd): &&(Member, Odd)| match (odd.more.is_empty(), odd.fewer.is_empty()) {
        (false, false) => true,
        (false, true) => all_wait || !knows_gpus,
        (true, false) => waits(member) == Some(Activity::Waiting),
        (true, true) => false,
    };
    let odd: Vec<&(Member, Odd)> = ras.odd.iter().filter(differs).collect();
    // Of two, each differs from the other, and one that only has fewer is who did not come.
    if odd.is_empty() || odd.len() < ras.odd.len() || (odd.len() * 2 > ras.nranks as usize && ras.nranks > 2) {
        return None;
    }
    let kinds = odd.iter().any(|(_, o)| !o.more.is_empty() && !o.fewer.is_empty());
    let mut ranks: Vec<u32> = odd.iter().filter_map(|(m, _)| m.rank).collect();
    ranks.sort_unstable();
    ranks.dedup();
    let comm = format!("comm {:08x}", ras.hash >> 32);
    let (member, first) = odd.first()?;
    let count = |list: &[(String, u64, u64)]| {
        list.iter().map(|(op, have, usual)| format!("{op} {have} instead of {usual}")).collect::<Vec<_>>().join(", ")
    };
    let who = match (odd.as_slice(), member.rank.and_then(|r| look.ranks.get(&r))) {
        ([_], Some(rank)) => rank.name(),
        ([_], None) => member.far_name(ras.hash),
        (_, _) if ranks.is_empty() => format!("{} ranks", odd.len()),
        (_, _) => rank_words(&ranks),
    };
    let what = match (first.more.first(), first.fewer.first()) {
        (Some((more, ..)), Some((fewer, ..))) if odd.len() == 1 => format!("called {more} where the others called {fewer}"),
        (Some((more, ..)), None) if odd.len() == 1 => format!("called one {more} more than the others, or another shape"),
        (None, Some((fewer, ..))) if odd.len() == 1 => format!("left out a {fewer} that the others called"),
        _ => "called different collectives".to_owned(),
    };
    let evidence = odd.iter().take(4).map(|(m, o)| {
        let counts = [count(&o.more), count(&o.fewer)].into_iter().filter(|c| !c.is_empty()).collect::<Vec<_>>().join(", ");
        Evidence::of("ras", format!("{} of {comm}: {counts}, still for {}", m.name(ras.hash), span(ras.still_for)))
    });
    let confidence = match (kinds, knows_gpus) {
        (true, _) => Confidence::Certain,
        (false, true) => Confidence::Likely,
        (false, false) => Confidence::Possible,
    };
    let since = waiting.iter().map(|r| r.activity_since).min().map_or(ras.still_since, |at| at.min(ras.still_since));
    let far = odd.iter().all(|(m, _)| m.elsewhere);
    let here = look.alive().count();
    let rest = match here {
        _ if far && all_wait => format!("; {}: the cause is not here", all_here(here, "wait")),
        _ => "; nothing moves".to_owned(),
    };
    let command = odd.iter().filter(|_| far && !look.contained).find_map(|(m, _)| m.far_command());
    let words =
        if member.rank.is_none() && odd.len() == 1 { format!("{who} {what}{rest}") } else { format!("{who} {what} in {comm}{rest}") };
    Some(Differs { ranks, since, confidence, words, evidence: evidence.collect(), far: command })
}

/// Without counts: one GPU waits at another power than the others, which all draw the same.
fn by_power(look: &Look) -> Option<Differs> {
    if look.ras.as_ref().is_some_and(|r| r.age <= RAS_OLD) || !look.quiet_log() {
        return None;
    }
    let waiting = look.with(Activity::Waiting, patience(look, WAITED_ALONE));
    if waiting.len() < 4 || waiting.len() < look.alive().count() {
        return None;
    }
    let mut by_power: Vec<(f64, &RankLook)> = waiting.iter().filter_map(|r| Some((r.power_mw? as f64 / 1e3, *r))).collect();
    if by_power.len() < waiting.len() {
        return None;
    }
    by_power.sort_by(|a, b| a.0.total_cmp(&b.0));
    let odd_one = |odd: (f64, &RankLook), others: &[(f64, &RankLook)]| {
        let usual = others[others.len() / 2].0;
        let same = others.iter().all(|o| (o.0 - usual).abs() <= usual * SAME_POWER);
        (same && (odd.0 - usual).abs() >= usual * OTHER_POWER).then_some((odd.0, usual, odd.1.rank))
    };
    let (first, last) = (by_power[0], by_power[by_power.len() - 1]);
    let (watts, usual, rank) = odd_one(first, &by_power[1..]).or_else(|| odd_one(last, &by_power[..by_power.len() - 1]))?;
    let since = waiting.iter().map(|r| r.activity_since).max()?;
    let who = look.ranks.get(&rank)?;
    Some(Differs {
        ranks: vec![rank],
        since,
        confidence: Confidence::Possible,
        words: format!("{} waits in another kernel than the other {}; nothing moves", who.name(), waiting.len() - 1),
        evidence: vec![Evidence::of("gpu", format!("it draws {watts:.0} W, the others {usual:.0} W"))],
        far: None,
    })
}
