//! Saved answers of RAS, one after the other: what stands still between them, and who is behind.

mod comm_answer;

use super::{hang_rank_absent, hang_symmetric, init_stuck, nccl_warn, rank_exited, rule, straggler};
use crate::base::severity::{Confidence, Severity};
use crate::base::time::Stamp;
use crate::base::units::so_many;
use crate::base::words::rank_words;
use crate::formats::ras::{self, RasPlace};
use crate::model::Model;
use crate::model::job::Job;
use crate::model::saved_report::SavedReport;
use crate::rules::findings::Finding;
use comm_answer::{Behind, View};
use std::collections::{BTreeMap, BTreeSet};

/// Seconds from the first of these looks to the last, as far as that is known. Times of files that are less than a second apart are
/// those of a copy.
fn seconds(looks: &[&SavedReport]) -> Option<f64> {
    let span = |times: Vec<Stamp>| Some(times.last()?.secs_since(*times.first()?)).filter(|_| times.len() > 1);
    let written = span(looks.iter().filter_map(|look| look.written).collect());
    let told = span(looks.iter().filter_map(|look| look.at).collect()).filter(|secs| *secs >= 1.0);
    match (written, told) {
        (Some(a), Some(b)) if looks.iter().any(|look| look.written.is_none()) => Some(a.max(b)),
        (written, told) => written.or(told),
    }
    .filter(|secs| *secs >= 0.0)
}

fn over(looks: &[&SavedReport]) -> String {
    match seconds(looks) {
        Some(secs) => format!("{} reports over {secs:.0} s", looks.len()),
        None => format!("{} reports", looks.len()),
    }
}

const MAX_REMARKS: usize = 4;
/// Nobody reads more.
const MOST_JUDGED: usize = 200;

/// What the saved answers of a job show.
pub fn of_job(model: &Model, job: &Job) -> Vec<Finding> {
    let mut found = judge(&model.record_of(&job.id).reports);
    found.truncate(MOST_JUDGED);
    for f in &mut found {
        f.job = Some(job.id.clone());
        // Under these names the same is known by watchdogs and dumps: then it is one finding.
        if f.severity > Severity::Info && rule(f.rule).is_some_and(|r| r.chain.is_hang) {
            f.subject = if f.ranks.is_empty() { "all".into() } else { rank_words(&f.ranks) };
        }
    }
    found
}

/// What the answers show, given in the order in which they were taken.
fn judge(looks: &[SavedReport]) -> Vec<Finding> {
    let mut series: Vec<(u64, Vec<View>)> = comm_answer::series(looks);
    // What a rank does to the largest communicator says most.
    series.sort_by_key(|(_, views)| std::cmp::Reverse(views.iter().rev().find_map(|view| view.comm).map_or(0, comm_size)));
    let mut out = Vec::new();
    let mut processes = BTreeSet::new();
    let dead_pids: BTreeSet<u32> = looks.iter().flat_map(|look| &look.report.dead_processes.listed).map(|process| process.pid).collect();
    for (hash, views) in &series {
        let gone = missing(*hash, views, &dead_pids, &mut processes);
        let complaints = complaints(*hash, views);
        let starting = starting(*hash, views);
        if gone.is_none() && complaints.is_none() && starting.is_none() {
            out.extend(behind(*hash, views));
        }
        out.extend(gone.into_iter().flatten());
        out.extend(complaints);
        out.extend(starting);
    }
    // The same process in several communicators, and jobs with very many of them.
    let mut processes = BTreeSet::new();
    out.retain(|found| found.next.is_none() || processes.insert((found.rule, found.next.clone(), found.hosts.clone())));
    let mut remarks = 0;
    out.retain(|found| {
        remarks += usize::from(found.severity == Severity::Info);
        found.severity > Severity::Info || remarks <= MAX_REMARKS
    });
    if out.is_empty() {
        out.extend(unnamed(looks));
    }
    if !out.iter().any(|found| found.severity > Severity::Info) {
        out.extend(still(&series, looks));
    }
    out
}

fn comm_words(hash: u64) -> String {
    format!("comm {:08x}", hash >> 32)
}

/// `pid 2939 on 192.0.2.2, GPU 3`
fn place_words(place: &RasPlace) -> String {
    let pid = place.pid.map(|pid| format!("pid {pid}"));
    let host = place.host.as_ref().map(|host| format!("on {host}"));
    let gpu = place.nvml_dev.or(place.cuda_dev).map(|gpu| format!("GPU {gpu}"));
    let process = [pid, host].into_iter().flatten().collect::<Vec<_>>().join(" ");
    [Some(process).filter(|words| !words.is_empty()), gpu].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Puts ranks and where they run into a finding.
fn naming(mut found: Finding, ranks: &[(u32, RasPlace)]) -> Finding {
    found.ranks = ranks.iter().map(|(rank, _)| *rank).collect();
    found.gpus = ranks.iter().filter_map(|(_, place)| place.nvml_dev.or(place.cuda_dev)).collect();
    found.hosts = ranks.iter().filter_map(|(_, place)| place.host.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    found.next = ranks.iter().find_map(|(_, place)| place.pid).map(|pid| format!("py-spy dump --nonblocking --pid {pid}"));
    found
}

/// Ranks of which RAS has nothing. A process is reported once, whatever communicators it is in.
fn missing(
    hash: u64,
    views: &[View],
    dead_pids: &BTreeSet<u32>,
    told: &mut BTreeSet<(Option<u32>, Option<String>)>,
) -> Option<Vec<Finding>> {
    let last = views.last()?;
    let comm = last.comm.filter(|comm| comm.missing_count > 0)?;
    let mut out = Vec::new();
    let is_dead = |place: &RasPlace, said: Option<bool>| said == Some(true) || place.pid.is_some_and(|pid| dead_pids.contains(&pid));
    let (gone, left): (Vec<_>, Vec<_>) = comm.missing.iter().partition(|rank| rank.unresponsive != Some(false));
    for dead in [true, false] {
        let ranks: Vec<(u32, RasPlace)> = gone
            .iter()
            .filter(|rank| is_dead(&rank.place, rank.considered_dead) == dead)
            .map(|rank| (rank.rank, rank.place.clone()))
            .collect();
        let new = ranks.iter().filter(|(_, place)| place.pid.is_none() || told.insert((place.pid, place.host.clone()))).count();
        if new == 0 {
            continue;
        }
        let named: Vec<u32> = ranks.iter().map(|(rank, _)| *rank).collect();
        let seen = views.iter().filter(|view| named.iter().any(|rank| view.misses(*rank))).count();
        let does = if named.len() == 1 { "does" } else { "do" };
        let (rule, severity, confidence, what) = match (dead, seen) {
            (true, _) => (rank_exited::RULE, Severity::Critical, Confidence::Certain, "is dead for RAS: unreachable for a minute"),
            (false, 1) => (hang_rank_absent::RULE, Severity::Error, Confidence::Likely, "RAS: stopped, dead, or cut off from the network"),
            (false, _) => {
                (hang_rank_absent::RULE, Severity::Critical, Confidence::Likely, "RAS: stopped, dead, or cut off from the network")
            }
        };
        let summary =
            if dead { format!("{} {what}", rank_words(&named)) } else { format!("{} {does} not answer {what}", rank_words(&named)) };
        let words: Vec<String> = ranks.iter().take(4).map(|(rank, place)| format!("rank {rank}: {}", place_words(place))).collect();
        let why = format!(
            "{} of {} ranks of {} answer; {}",
            comm_size(comm).saturating_sub(comm.missing_count),
            comm_size(comm),
            comm_words(hash),
            words.join("; ")
        );
        let mut found = naming(rule.weighed(severity, confidence, summary), &ranks).because(why);
        found.since = views
            .iter()
            .find(|view| named.iter().any(|rank| view.misses(*rank)))
            .and_then(|view| view.look.written.or(view.look.at))
            .unwrap_or_default();
        let waits = last.look.report.timeouts_count;
        let text = if waits > 0 { format!("{}; RAS waited {waits} times without an answer", words.join("; ")) } else { words.join("; ") };
        out.push(found.proved("ras", &last.look.path, None, text));
    }
    if gone.is_empty() && !left.is_empty() {
        let ranks: Vec<(u32, RasPlace)> = left.iter().map(|rank| (rank.rank, rank.place.clone())).collect();
        let named: Vec<u32> = ranks.iter().map(|(rank, _)| *rank).collect();
        let summary = format!("{} answers RAS, but is not in {} any more, or not yet", rank_words(&named), comm_words(hash));
        let found = naming(hang_rank_absent::RULE.weighed(Severity::Info, Confidence::Possible, summary), &ranks);
        out.push(found.proved("ras", &last.look.path, None, "not unresponsive, but missing".to_owned()));
    }
    if comm.missing.is_empty() {
        let summary = match comm.missing_count {
            1 => format!("a rank of {} does not answer RAS", comm_words(hash)),
            n => format!("{n} ranks of {} do not answer RAS", comm_words(hash)),
        };
        let found = hang_rank_absent::RULE.weighed(Severity::Error, Confidence::Likely, summary);
        out.push(found.proved("ras", &last.look.path, None, "too many to be listed".to_owned()));
    }
    Some(out)
}

fn comm_size(comm: &ras::RasComm) -> u32 {
    comm.size.unwrap_or((comm.ranks.len() as u32).saturating_add(comm.missing_count))
}

/// Errors that ranks report.
fn complaints(hash: u64, views: &[View]) -> Option<Finding> {
    let last = views.last()?;
    let said = last.complaints();
    let (what, _) = said.first()?;
    let ranks: Vec<(u32, RasPlace)> = said.iter().flat_map(|(_, ranks)| ranks.clone()).collect();
    let named: Vec<u32> = ranks.iter().map(|(rank, _)| *rank).collect();
    let summary = format!("{} of {} reports to RAS: {what}", rank_words(&named), comm_words(hash));
    let found = naming(nccl_warn::RULE.weighed(Severity::Error, Confidence::Likely, summary), &ranks);
    Some(found.proved("ras", &last.look.path, None, what.clone()))
}

/// Ranks that do not get through initialisation.
fn starting(hash: u64, views: &[View]) -> Option<Finding> {
    let last = views.last()?;
    let since = views.iter().rposition(|view| !view.starts()).map_or(0, |at| at + 1);
    let run: Vec<&SavedReport> = views[since..].iter().map(|view| view.look).collect();
    if run.len() < 2 || seconds(&run).is_some_and(|secs| secs < hang_symmetric::PAUSE_S.value()) {
        return None;
    }
    let summary = format!("{} does not get through its initialisation", comm_words(hash));
    let found = init_stuck::RULE.weighed(Severity::Critical, Confidence::Likely, summary);
    Some(found.because(format!("still in progress in {}", over(&run))).proved("ras", &last.look.path, None, "initialisation in progress"))
}

/// Counts that differ.
fn behind(hash: u64, views: &[View]) -> Option<Finding> {
    let last = views.last()?;
    let now = last.behind()?;
    let still = views.windows(2).rev().take_while(|pair| pair[0].moved(&pair[1]) == Some(false)).count() + 1;
    let run = &views[views.len() - still..];
    let looks: Vec<&SavedReport> = run.iter().map(|view| view.look).collect();
    if still == 1 {
        return late(hash, views).or_else(|| (views.len() == 1).then(|| one_look(hash, last, &now)));
    }
    // Where most are "behind", it is the few who are ahead.
    if now.are_most() || now.ranks.is_empty() {
        return None;
    }
    let gap = now.most - now.have;
    let secs = seconds(&looks);
    let (severity, confidence) = match (gap, secs) {
        (1, Some(secs)) if secs < hang_rank_absent::LONG_S.value() => (Severity::Info, Confidence::Possible),
        (1, _) => (Severity::Warning, Confidence::Possible),
        (_, Some(secs)) if secs < hang_rank_absent::SHORT_S.value() => (Severity::Info, Confidence::Possible),
        (_, Some(secs)) if secs >= hang_rank_absent::LONG_S.value() => (Severity::Critical, Confidence::Certain),
        _ => (Severity::Critical, Confidence::Likely),
    };
    let who = rank_words(&now.rank_numbers());
    let has = if now.ranks.len() == 1 { "has" } else { "have" };
    let wait = now.of - now.count;
    let summary = match severity {
        Severity::Info => {
            format!("{who} {has} not joined {} {} of {}: too early to call it a hang", now.op, now.have + 1, comm_words(hash))
        }
        _ => format!(
            "{who} {has} not joined {} {} of {}; {}",
            now.op,
            now.have + 1,
            comm_words(hash),
            so_many(wait as usize, "rank", "wait")
        ),
    };
    let mut why = format!("{} {} of {}, and no count moved in {}", now.op, now.have, now.most, over(&looks));
    if gap == 1 && severity != Severity::Info {
        why.push_str("; a rank that saves a checkpoint while the others wait looks the same");
    }
    let mut found = naming(hang_rank_absent::RULE.weighed(severity, confidence, summary), &now.ranks).because(why);
    found.since = looks.first().and_then(|look| look.written.or(look.at)).unwrap_or_default();
    for view in [run.first(), run.last()].into_iter().flatten() {
        found = found.proved("ras", &view.look.path, None, now.words());
    }
    Some(found)
}

/// A rank that is behind at every look although all counts move.
fn late(hash: u64, views: &[View]) -> Option<Finding> {
    let all: Vec<Behind> = views.iter().map(View::behind).collect::<Option<_>>()?;
    let moved = views.windows(2).all(|pair| pair[0].moved(&pair[1]) == Some(true));
    let first = all.first()?;
    let same = all.iter().all(|seen| seen.rank_numbers() == first.rank_numbers() && seen.op == first.op);
    if all.len() < 2 || !moved || !same || first.ranks.is_empty() || first.are_most() {
        return None;
    }
    let least = all.iter().map(|seen| seen.most - seen.have).min()?;
    let (severity, confidence) = match (least, all.len()) {
        (0 | 1, _) => (Severity::Info, Confidence::Possible),
        (_, 2) => (Severity::Warning, Confidence::Possible),
        _ => (Severity::Warning, Confidence::Likely),
    };
    let who = rank_words(&first.rank_numbers());
    let is = if first.ranks.len() == 1 { "is" } else { "are" };
    let operations = if least == 1 { "1 operation".to_owned() } else { format!("{least} operations") };
    let summary =
        format!("{who} {is} late: {operations} of {} behind in each of {} reports while all counts move", comm_words(hash), all.len());
    let looks: Vec<&SavedReport> = views.iter().map(|view| view.look).collect();
    let mut found = naming(straggler::RULE.weighed(severity, confidence, summary), &first.ranks)
        .because(format!("behind in {}, and the counts moved between them", over(&looks)));
    for (view, seen) in views.iter().zip(&all).take(4) {
        found = found.proved("ras", &view.look.path, None, seen.words());
    }
    Some(found)
}

fn one_look(hash: u64, view: &View, now: &Behind) -> Finding {
    let gap = now.most - now.have;
    let minority = !now.are_most() && !now.ranks.is_empty();
    let few = u64::from(now.count) * 4 <= u64::from(now.of);
    if gap > if few { hang_rank_absent::QUEUED.value() as u64 } else { hang_rank_absent::A_LOT.value() as u64 } && minority {
        let summary = format!(
            "{} is {gap} operations of {} behind: it has not joined {} {}",
            rank_words(&now.rank_numbers()),
            comm_words(hash),
            now.op,
            now.have + 1
        );
        let found = naming(hang_rank_absent::RULE.weighed(Severity::Warning, Confidence::Possible, summary), &now.ranks);
        return found.because("one report cannot tell whether it moves; take another after ten seconds").proved(
            "ras",
            &view.look.path,
            None,
            now.words(),
        );
    }
    let summary = format!("ranks of {} differ by {gap} in their {} counts; one look is not enough", comm_words(hash), now.op);
    let found =
        naming(hang_rank_absent::RULE.weighed(Severity::Info, Confidence::Possible, summary), if minority { &now.ranks } else { &[] });
    let mut found = found.because("running jobs differ by a few operations; take another report after ten seconds");
    found.next = None;
    found.proved("ras", &view.look.path, None, now.words())
}

/// Processes that the text report misses without saying of which communicator.
fn unnamed(looks: &[SavedReport]) -> Option<Finding> {
    let last = looks.last()?;
    let (rule, processes, what) = match (&last.report.dead_processes, &last.report.missing_processes) {
        (dead, _) if dead.count > 0 => (rank_exited::RULE, dead, "dead for RAS"),
        (_, missing) if missing.count > 0 => (hang_rank_absent::RULE, missing, "missing: they do not answer RAS"),
        _ => return None,
    };
    let summary = format!("{} of the job's processes are {what}", processes.count);
    let mut found = rule.weighed(Severity::Error, Confidence::Likely, summary);
    found.hosts = processes.listed.iter().map(|process| process.host.clone()).collect::<BTreeSet<_>>().into_iter().collect();
    let listed: Vec<String> = processes.listed.iter().take(4).map(|process| format!("pid {} on {}", process.pid, process.host)).collect();
    Some(found.proved("ras", &last.path, None, listed.join("; ")))
}

/// More operations than the start of a job has.
const HAS_TRAINED: u64 = 50;

/// Counts that are equal, and do not move; or that are zero and stay so.
fn still(series: &[(u64, Vec<View>)], looks: &[SavedReport]) -> Vec<Finding> {
    let told: Vec<&SavedReport> = looks.iter().filter(|look| look.json).collect();
    let counts = |look: &SavedReport| -> BTreeMap<u64, Vec<(u32, u64)>> {
        let total = |comm: &ras::RasComm| comm.ranks.iter().map(|rank| (rank.rank, rank.operations())).collect();
        look.report.comms.iter().map(|comm| (comm.hash, total(comm))).collect()
    };
    let Some(last) = told.last() else { return Vec::new() };
    let steps = told.windows(2).rev().take_while(|pair| counts(pair[0]) == counts(pair[1])).count();
    let run = &told[told.len() - 1 - steps..];
    let differ = series.iter().any(|(_, views)| views.last().is_some_and(|view| view.behind().is_some() || view.starts()));
    if differ || last.report.comms.is_empty() || last.report.comms.iter().any(|comm| comm.missing_count > 0) {
        return Vec::new();
    }
    let idle: Vec<(u64, Vec<&SavedReport>)> = series.iter().filter_map(|(hash, views)| Some((*hash, comm_answer::idle(views)?))).collect();
    let long = |looks: &[&SavedReport], least: f64| looks.len() >= 2 && seconds(looks).is_none_or(|secs| secs >= least);
    let all_still = long(run, hang_symmetric::PAUSE_S.value());
    let idle: Vec<(u64, Vec<&SavedReport>)> =
        idle.into_iter().filter(|(_, looks)| long(looks, 2.0 * hang_symmetric::PAUSE_S.value()) || all_still && looks.len() > 1).collect();
    if let Some((_, looks)) = idle.first() {
        let shared = comm_answer::share_processes(&idle.iter().map(|(hash, _)| *hash).collect(), &last.report);
        // Where others have worked for long, one without counts may well be that of a pipeline.
        let trained = last.report.comms.iter().flat_map(|comm| &comm.ranks).any(|rank| rank.operations() >= HAS_TRAINED);
        let (severity, confidence) = match (all_still, shared) {
            (true, _) if shared || !trained => (Severity::Critical, Confidence::Likely),
            (true, _) | (false, true) => (Severity::Warning, Confidence::Possible),
            // A communicator for sends and receives, which are not counted, or one that nobody uses.
            (false, false) => (Severity::Info, Confidence::Possible),
        };
        let names: Vec<String> = idle.iter().take(4).map(|(hash, _)| comm_words(*hash)).collect();
        let noun = if idle.len() == 1 { "1 communicator has".to_owned() } else { format!("{} communicators have", idle.len()) };
        let summary = format!("{noun} all their ranks and no finished collective: the first may be stuck ({})", names.join(", "));
        let summary = if idle.len() == 1 { summary.replace("all their ranks", "all its ranks") } else { summary };
        let why = match (all_still, shared) {
            (true, false) if trained => {
                format!("no count of any communicator moved in {}; sends and receives are not counted, so it may be in use", over(run))
            }
            (true, _) => format!("no count of any communicator moved in {}", over(run)),
            (_, true) => format!(
                "counts of 0 in {} on communicators of the same processes: used in different order, they wait for each other",
                over(looks)
            ),
            _ => format!("counts of 0 in {}; sends and receives are not counted, so it may be in use, or not needed", over(looks)),
        };
        let found = init_stuck::RULE.weighed(severity, confidence, summary).because(why);
        return vec![found.proved("ras", &last.path, None, format!("counts of 0 on {}", names.join(", ")))];
    }
    if !all_still {
        return Vec::new();
    }
    let summary = format!("no rank is behind and no count moves in {}: all ranks may wait for each other", over(run));
    let mut found = hang_symmetric::RULE.weighed(Severity::Warning, Confidence::Possible, summary).because(
        "equal counts that stand still: a deadlock, a lost connection, a pause (checkpoint, evaluation), or sends and receives, which are not \
         counted; RAS cannot tell one from the other",
    );
    found.since = run.first().and_then(|look| look.written.or(look.at)).unwrap_or_default();
    for look in [run.first(), run.last()].into_iter().flatten() {
        let each = look.report.comms.iter().filter_map(|comm| comm.ranks.first()).map(ras::RasRank::operations);
        let total = each.fold(0_u64, u64::saturating_add);
        found = found.proved("ras", &look.path, None, format!("{total} operations in {} communicators", look.report.comms.len()));
    }
    vec![found]
}
