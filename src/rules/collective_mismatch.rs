//! Ranks called different collectives, or the same one with different sizes, at the same place.

use super::area::Area;
use super::chain::Chain;
use super::hang_rank_absent::{SETTLED, WAITED, WAITED_ALONE, has_trained, patience, paused_by_name, standing_still};
use super::{Implies, ONCE, Rule, Stacks, TickContext, told_by};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::{Stamp, span};
use crate::base::units::{all_here, counted};
use crate::base::words::{py_spy, rank_words};
use crate::model::comm::{Behind, Odd};
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::signals::{Look, Member, RAS_OLD, RankLook, RasLook};
use crate::observe::evidence::Evidence;
use crate::rules::findings::{Finding, Life};
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "collective-mismatch",
    severity: Severity::Critical,
    title: "Ranks called different collectives, or the same one with different sizes, at the same place",
    says: "called another collective than the others, or one of another size",
    how: "RAS counts per kind of operation that differ and stand still while every GPU waits, before the first steps only where a rank is \
          ahead in one kind and behind in another, or all GPUs have waited in kernels of NCCL for 12 s; without counts, the number of channels or the power \
          of one waiting GPU that is not that of the others; Flight Recorder dumps; watchdog lines that differ at one sequence number; PyTorch's or NCCL's own check",
    advice: "Look at the code of the rank that differs: a branch that depends on rank or data, uneven batches, another order of groups",
    life: Life { renews: true, ..ONCE },
    implies: Implies::Stuck,
    area: Some(Area::Code),
    stacks: Stacks::OfAnyone,
    chain: Chain { covered_by: &["rank-stopped", "rank-exited", "hang-rank-absent"], ..Chain::HANG },
    on_tick: Some(check),
    limits: &[&SAME_POWER, &OTHER_POWER, &SAME_SM_PCT, &OTHER_SM_PCT],
    ..Rule::PLAIN
};

/// GPUs that wait in the same collective draw the same power, within this share (measured: 3 %); in another one, less or more.
const SAME_POWER: Limit =
    Limit::percent("collective-mismatch", "same_power", 8.0, "GPUs that wait in the same collective draw the same power within this share");
const OTHER_POWER: Limit =
    Limit::percent("collective-mismatch", "other_power", 20.0, "a GPU that waits in another collective draws so much more or less");
/// While they wait, the kernels of one collective have the same number of channels on all ranks, each on an SM of its own: one more or less
/// is 0.6 % of the SMs or more (B200 has 148, H200 132). The same kernel reads the same within 0.01.
const SAME_SM_PCT: Limit =
    Limit::percent("collective-mismatch", "same_sm", 0.2, "kernels of the same collective use the same share of the SMs within this");
pub(super) const OTHER_SM_PCT: Limit =
    Limit::percent("collective-mismatch", "other_sm", 0.5, "a kernel of another collective uses so much more or less of the SMs");

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        let dead: Vec<u32> = look.ranks.keys().copied().collect();
        if !ctx.is_covered(&RULE, id, &dead) {
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
    /// Where to look first, if that is not a named rank of this node.
    next: Option<String>,
}

pub(super) fn judge(job: &Job, look: &Look) -> Option<Finding> {
    if look.alive().any(|r| r.activity == Activity::Working || r.stopped() || r.does_io()) || paused_by_name(look) {
        return None;
    }
    let told = if has_trained(look) {
        by_circle(look).or_else(|| by_ras(look)).or_else(|| crossing(look)).or_else(|| apart(look)).or_else(|| by_kernel(job, look))?
    } else {
        crossing(look).or_else(|| apart(look).filter(|_| all_wait_measured(look)))?
    };
    let subject = if told.ranks.is_empty() { "all".to_owned() } else { rank_words(&told.ranks) };
    let mut found = RULE.finding(subject, told.words, told.since);
    found.job = Some(job.id.clone());
    found.confidence = told.confidence;
    found.gpus = look.gpus_of(&told.ranks);
    let named = told.ranks.iter().find_map(|r| look.ranks.get(r));
    let anyone = || look.alive().next().filter(|_| told.ranks.is_empty());
    found.next = told.next.or_else(|| named.or_else(anyone).map(|r| py_spy(r.pid)));
    found.ranks = told.ranks;
    found.evidence = told.evidence;
    let waiting = look.with(Activity::Waiting, Duration::from_secs(3));
    if let Some(since) = waiting.iter().map(|r| r.activity_since).max() {
        found.evidence.push(Evidence::of("gpu", super::spinning(waiting.len(), look.at.since(since))));
    }
    told_by(&mut found, look);
    Some(found)
}

/// Each waits in a communicator for one that waits in another: they call them in different orders, or one of them has left a call out.
fn by_circle(look: &Look) -> Option<Differs> {
    let (ras, waiting) = standing_still(look)?;
    if ras.circle.is_empty() || !look.alive().all(|r| r.activity == Activity::Waiting || !look.knows_gpus()) {
        return None;
    }
    let comm = |hash: u64| format!("comm {:08x}", hash >> 32);
    let mut ranks: Vec<u32> = ras.circle.iter().filter_map(|link| link.who.rank).collect();
    ranks.sort_unstable();
    let evidence = ras.circle.iter().take(8).map(|link| {
        let (who, late, b) = (link.who.name(link.comm), link.late.name(link.comm), &link.behind);
        let words = format!("{who} waits in {} for {late}: {} {} of {}", comm(link.comm), b.collective, b.have, b.max);
        Evidence::of("ras", format!("{words}, unchanged for {}", span(ras.still_for)))
    });
    let since = waiting.iter().map(|r| r.activity_since).min().map_or(ras.still_since, |at| at.min(ras.still_since));
    let all = if ranks.len() > 2 { "wait for each other in a circle" } else { "wait for each other" };
    let circle = format!("{} {all}, each in another communicator", rank_words(&ranks));
    let mut left_out = ras.circle.iter().filter(|link| link.left_out);
    let (words, ranks) = match (left_out.next().and_then(|link| Some((link, link.late.rank?))), left_out.next()) {
        (Some((link, rank)), None) => (format!("{}; {circle}", left_out_words(look, &link.late, &link.behind, link.comm)), vec![rank]),
        // In each of these communicators all others agree.
        _ if ras.circle.first().is_some_and(|first| first.alone.is_some() && ras.circle.iter().all(|link| link.alone == first.alone)) => {
            let rank = ras.circle.first().and_then(|first| first.alone).unwrap_or_default();
            let who = look.ranks.get(&rank).map_or_else(|| format!("rank {rank}"), RankLook::name);
            (format!("{who} has called other collectives than all the other ranks; {circle}"), vec![rank])
        }
        // Of all ranks, none is more to blame than another.
        _ if ranks.len() >= look.alive().count().max(ras.nranks as usize) => {
            (format!("{circle}: not all call in the same order"), Vec::new())
        }
        _ => (format!("{circle}: they call in different orders, or one left a call out"), ranks),
    };
    Some(Differs { ranks, since, confidence: Confidence::Likely, words, evidence: evidence.collect(), next: None })
}

/// `rank 1 (GPU 1, pid 5) has not made 2 AllReduce calls in comm 43db1c10 that the groups like it have made`
fn left_out_words(look: &Look, late: &Member, behind: &Behind, comm: u64) -> String {
    let who = late.rank.and_then(|rank| look.ranks.get(&rank)).map_or_else(|| late.far_name(comm), RankLook::name);
    let calls = counted(behind.max.saturating_sub(behind.have), &format!("{} call", behind.collective));
    format!("{who} has not made {calls} in comm {:08x} that the groups like it have made", comm >> 32)
}

/// Before the first steps, who is behind may be downloading or compiling; later, steps may take that long. Who is behind in one kind of
/// operation and ahead in another is not late: whatever it does, it no longer makes the calls of the others.
fn crossing(look: &Look) -> Option<Differs> {
    let ras = look.ras.as_ref().filter(|r| r.age <= RAS_OLD && r.still_answers >= 1 && r.still_for >= SETTLED.duration())?;
    let waiting = look.with(Activity::Waiting, WAITED.duration());
    if !ras.odd.iter().all(|(_, odd)| odd.crosses()) || waiting.is_empty() || waiting.len() < look.alive().count() {
        return None;
    }
    by_counts(look, ras, &waiting)
}

/// Where all ranks are here and all GPUs wait, nobody else is to come. What the others wait in has been called by the one that is ahead, too,
/// unless its calls are others: however long steps take, it would be over at once. One that is behind waits in a call as well, and all that
/// the others have made with it have ended for them.
fn apart(look: &Look) -> Option<Differs> {
    let ras = look.ras.as_ref().filter(|r| r.age <= RAS_OLD && r.still_answers >= 1 && r.still_for >= SETTLED.duration())?;
    let one_way = |(_, odd): &(Member, Odd)| odd.more.is_empty() != odd.fewer.is_empty();
    let measured = |(_, odd): &(Member, Odd)| odd.fewer.is_empty() || look.alive().all(|r| r.by_gpm);
    let waiting = look.with(Activity::Waiting, WAITED.duration());
    let all = ras.nranks as usize == waiting.len() && waiting.len() == look.alive().count();
    let quiet = look.log.as_ref().is_none_or(|log| log.last_step_at.is_none_or(|at| at < ras.still_since));
    (all && quiet && ras.odd.len() == 1 && ras.odd.iter().all(|odd| one_way(odd) && measured(odd)))
        .then(|| by_counts(look, ras, &waiting))?
}

/// Before the first steps a rank may compile for long; its GPU does not wait in a kernel of NCCL then.
fn all_wait_measured(look: &Look) -> bool {
    look.with(Activity::Waiting, WAITED_ALONE.duration()).len() == look.alive().count() && look.alive().all(|r| r.by_gpm)
}

fn by_ras(look: &Look) -> Option<Differs> {
    let (ras, waiting) = standing_still(look)?;
    by_counts(look, ras, &waiting)
}

/// Who differs from the others in how often it called each kind of operation.
fn by_counts(look: &Look, ras: &RasLook, waiting: &[&RankLook]) -> Option<Differs> {
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
        (_, _) if ranks.is_empty() => counted(odd.len(), "rank"),
        (_, _) => rank_words(&ranks),
    };
    let what = match (first.more.first(), first.fewer.first()) {
        (Some((more, ..)), Some((fewer, ..))) if odd.len() == 1 => format!("called {more} where the others called {fewer}"),
        (Some((more, have, usual)), None) if odd.len() == 1 => {
            format!("made {} more than the others, or one of another shape", counted(have.saturating_sub(*usual), &format!("{more} call")))
        }
        (None, Some((fewer, ..))) if odd.len() == 1 => {
            format!("left out {} {fewer} that the others called", if fewer.starts_with(['A', 'a', 'E', 'I', 'O']) { "an" } else { "a" })
        }
        _ => "called different collectives".to_owned(),
    };
    let evidence = odd.iter().take(4).map(|(m, o)| {
        let counts = [count(&o.more), count(&o.fewer)].into_iter().filter(|c| !c.is_empty()).collect::<Vec<_>>().join(", ");
        Evidence::of("ras", format!("{} of {comm}: {counts}, unchanged for {}", m.name(ras.hash), span(ras.still_for)))
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
        _ if far && all_wait => format!("; {}: the cause is on another node", all_here(here, "wait")),
        _ => "; nothing moves".to_owned(),
    };
    let command = odd.iter().filter(|_| far && !look.contained).find_map(|(m, _)| m.far_command());
    // Of two that differ, the other groups tell which one it is.
    if let Some(late) = ras.behind.first().filter(|_| ras.left_out && ranks.len() == 2) {
        let words = format!("{}{rest}", left_out_words(look, &late.who, &late.behind, ras.hash));
        let ranks = late.who.rank.into_iter().collect();
        return Some(Differs { ranks, since, confidence, words, evidence: evidence.collect(), next: command });
    }
    // Of all, none is more to blame than another.
    let ranks = if ranks.len() >= look.alive().count().max(ras.nranks as usize) { Vec::new() } else { ranks };
    let words =
        if member.rank.is_none() && odd.len() == 1 { format!("{who} {what}{rest}") } else { format!("{who} {what} in {comm}{rest}") };
    Some(Differs { ranks, since, confidence, words, evidence: evidence.collect(), next: command })
}

/// Without counts: one GPU waits in another kernel than the others, which all wait in the same.
fn by_kernel(job: &Job, look: &Look) -> Option<Differs> {
    // Sends of different sizes have different numbers of channels.
    if look.ras.as_ref().is_some_and(|r| r.age <= RAS_OLD) || !look.quiet_log() || look.has_uncounted() {
        return None;
    }
    let waiting = look.with(Activity::Waiting, patience(look, WAITED_ALONE.duration()));
    if waiting.len() < 2 || waiting.len() < look.alive().count() {
        return None;
    }
    let since = waiting.iter().map(|r| r.activity_since).max()?;
    // Of all, or it says nothing.
    let all = |value: &dyn Fn(&RankLook) -> Option<f64>| -> Option<Vec<(f64, u32)>> {
        waiting.iter().map(|r| Some((value(r)?, r.rank))).collect()
    };
    let same = |value: f64, usual: f64| (value - usual).abs() <= SAME_SM_PCT.value();
    let other = |value: f64, usual: f64| (value - usual).abs() >= OTHER_SM_PCT.value();
    let channels = || {
        let (one, of_others, rank) = stands_out(all(&|r| r.sm_active_pct)?, same, other)?;
        Some((rank, format!("its kernel is on {one:.1} % of the SMs, that of the others on {of_others:.1} %: another number of channels")))
    };
    let power = || {
        let same = |value: f64, usual: f64| (value - usual).abs() <= usual * SAME_POWER.value() / 100.0;
        let other = |value: f64, usual: f64| (value - usual).abs() >= usual * OTHER_POWER.value() / 100.0;
        let (one, of_others, rank) = stands_out(all(&|r| Some(r.power_mw? as f64 / 1e3))?, same, other)?;
        Some((rank, format!("it draws {one:.0} W, the others {of_others:.0} W")))
    };
    // Of fewer, two that are alike may both be the ones.
    let Some((rank, proof)) = Some(()).filter(|()| waiting.len() >= 4).and_then(|()| channels().or_else(power)) else {
        // Ranks that wait for another node may rightly do so in several communicators.
        let (low, high) =
            Some(()).filter(|()| !job.has_ranks_elsewhere()).and_then(|()| two_kinds(all(&|r| r.sm_active_pct)?, same, other))?;
        let side = |(pct, ranks): &Alike| format!("{} on {pct:.1} % of the SMs", rank_words(ranks));
        return Some(Differs {
            ranks: Vec::new(),
            since,
            confidence: Confidence::Possible,
            words: format!("{} and {} wait in different kernels; nothing moves", rank_words(&low.1), rank_words(&high.1)),
            evidence: vec![Evidence::of("gpu", format!("{}, {}: another number of channels", side(&low), side(&high)))],
            next: None,
        });
    };
    // In a grid of groups it may be the only one that came to the right call: a victim of its group.
    let who = look.ranks.get(&rank)?;
    Some(Differs {
        ranks: Vec::new(),
        since,
        confidence: Confidence::Possible,
        words: format!("{} waits in another kernel than the other {}; nothing moves", who.name(), waiting.len() - 1),
        evidence: vec![Evidence::of("gpu", proof)],
        next: Some(py_spy(who.pid)),
    })
}

/// The one whose value is another than that of all others, which have the same: its value, the usual one, and its rank.
fn stands_out(mut by_value: Vec<(f64, u32)>, same: impl Fn(f64, f64) -> bool, other: impl Fn(f64, f64) -> bool) -> Option<(f64, f64, u32)> {
    if by_value.len() < 3 {
        return None;
    }
    by_value.sort_by(|a, b| a.0.total_cmp(&b.0));
    let odd = |odd: (f64, u32), others: &[(f64, u32)]| {
        let usual = others[others.len() / 2].0;
        (others.iter().all(|o| same(o.0, usual)) && other(odd.0, usual)).then_some((odd.0, usual, odd.1))
    };
    odd(by_value[0], &by_value[1..]).or_else(|| odd(by_value[by_value.len() - 1], &by_value[..by_value.len() - 1]))
}

/// A value, and the ranks that have it.
type Alike = (f64, Vec<u32>);

/// The values and ranks of two groups, if there are exactly two: which of them is right nobody knows.
fn two_kinds(mut by_value: Vec<(f64, u32)>, same: impl Fn(f64, f64) -> bool, other: impl Fn(f64, f64) -> bool) -> Option<(Alike, Alike)> {
    by_value.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (low, high) = (by_value.first()?.0, by_value.last()?.0);
    let (lower, upper): (Vec<_>, Vec<_>) = by_value.into_iter().partition(|(value, _)| same(*value, low));
    let ranks = |group: Vec<(f64, u32)>| {
        let mut ranks: Vec<u32> = group.into_iter().map(|(_, rank)| rank).collect();
        ranks.sort_unstable();
        ranks
    };
    (other(low, high) && upper.iter().all(|(value, _)| same(*value, high))).then(|| ((low, ranks(lower)), (high, ranks(upper))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_kinds_are_told_apart_and_three_are_not() {
        let kinds = |values: &[f64]| {
            let values: Vec<(f64, u32)> = values.iter().copied().zip(0..).collect();
            let same = |value: f64, usual: f64| (value - usual).abs() <= SAME_SM_PCT.value();
            two_kinds(values, same, |value, usual| (value - usual).abs() >= OTHER_SM_PCT.value()).map(|(low, high)| (low.1, high.1))
        };
        assert_eq!(kinds(&[0.7578, 18.1821]), Some((vec![0], vec![1])), "measured: one rank reduces 7 numbers, the other a gradient");
        assert_eq!(kinds(&[18.18, 0.76, 18.18, 0.76]), Some((vec![1, 3], vec![0, 2])));
        assert_eq!(kinds(&[18.18, 18.181]), None);
        assert_eq!(kinds(&[18.18, 0.76, 9.0]), None);
        assert_eq!(kinds(&[]), None);
    }

    #[test]
    fn one_of_at_least_three_stands_out_only_if_all_others_are_the_same() {
        let odd = |values: &[f64]| {
            let values: Vec<(f64, u32)> = values.iter().copied().zip(0..).collect();
            let same = |value: f64, usual: f64| (value - usual).abs() <= SAME_SM_PCT.value();
            stands_out(values, same, |value, usual| (value - usual).abs() >= OTHER_SM_PCT.value()).map(|told| told.2)
        };
        assert_eq!(odd(&[18.18, 0.76, 18.18, 18.18]), Some(1));
        assert_eq!(odd(&[18.18, 18.18, 18.18, 18.94]), Some(3), "one channel more");
        assert_eq!(odd(&[18.18, 18.179, 18.181, 18.184]), None);
        assert_eq!(odd(&[18.18, 0.76, 18.18, 0.76]), None, "halves");
        assert_eq!(odd(&[18.18, 0.76]), None, "of two, either may be the one");
    }
}
