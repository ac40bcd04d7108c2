//! What the watchdogs of all ranks say together: each of them only tells what it waited for, but the one that says nothing, or waits
//! for something else, is the one to look at.

use super::{collective_mismatch, hang_rank_absent, hang_symmetric, send_order_deadlock, work_stacks};
use crate::base::severity::Confidence;
use crate::base::time::Stamp;
use crate::base::units::{all_of, counted};
use crate::base::words::{all_words, rank_words};
use crate::logs::{CollectiveTimeout, What};
use crate::model::Model;
use crate::model::alarms::Alarm;
use crate::model::job::Job;
use crate::model::job_record::Record;
use crate::observe::evidence::{Evidence, Witness};
use crate::rules::findings::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

/// What one rank's watchdog says of one process group.
#[derive(Default)]
struct Report<'a> {
    timeout: Option<(&'a Alarm, &'a CollectiveTimeout)>,
    status: Option<&'a Alarm>,
    /// Rank inside the group.
    pg_rank: Option<u32>,
    seq: Option<u64>,
    enqueued: Option<u64>,
    completed: Option<u64>,
}

impl<'a> Report<'a> {
    /// Its timeout names no group, and nothing else does.
    fn is_unnamed(&self) -> bool {
        self.status.is_none() && self.timeout.is_some_and(|(_, t)| t.group.is_none() && t.guid.is_none())
    }

    /// The operation that it waits in and its number, where that needs data of all ranks of a group that is known.
    fn waits_for_all(&self) -> Option<(&'a Alarm, &'a str, u64)> {
        let (alarm, timeout) = self.timeout?;
        let by_status =
            |a: &Alarm| matches!(&a.event.what, What::CollectiveStatus { group, guid, .. } if group.is_some() || guid.is_some());
        if timeout.group.is_none() && timeout.guid.is_none() && !self.status.is_some_and(by_status) {
            return None;
        }
        let op = words(timeout.op.as_deref()?);
        OF_ALL.contains(&op).then_some((alarm, op, self.seq?))
    }

    /// Its timeout, without the state of its queue that PyTorch prints right behind it, or the other way round.
    fn is_half(&self) -> bool {
        self.timeout.is_some() != self.status.is_some()
    }

    /// Both timed out in the same call.
    fn waits_for(&self, other: &Report) -> bool {
        let call = |r: &Report| r.timeout.and_then(|(_, t)| Some((t.seq?, t.op.clone()?, t.numel_in)));
        call(self).is_some_and(|own| call(other) == Some(own))
    }
}

/// A process group; PyTorch's default one, which is the whole job, and one that is not named have no name.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Group {
    /// The same on all ranks; a description where there is nothing better.
    id: String,
    name: String,
}

impl Group {
    fn of(group: Option<&str>, guid: Option<&str>) -> Group {
        match (group, guid) {
            (None | Some("default_pg" | "0"), None) | (Some("default_pg"), _) | (_, Some("0")) => Group::default(),
            (name, id) => {
                let name = name.or(id).unwrap_or_default();
                Group { id: id.unwrap_or(name).to_owned(), name: name.to_owned() }
            }
        }
    }

    fn is_world(&self) -> bool {
        self.id.is_empty()
    }

    /// ` of group mesh_tp`
    fn words(&self) -> String {
        if self.is_world() { String::new() } else { format!(" of group {}", self.name) }
    }

    /// The global ranks of a group by their ranks inside it, as Flight Recorder dumps list them.
    fn members(&self, logs: &Logs) -> Option<Arc<[u32]>> {
        let dumps = || super::dumps::of_job(logs.model, logs.job).filter_map(|d| d.dump.as_ref().ok());
        let groups = || dumps().flat_map(|d| &d.groups).filter(|(_, g)| !g.ranks.is_empty());
        let by_id = groups().find(|(id, _)| **id == self.id).map(|(_, g)| g.ranks.clone());
        by_id.or_else(|| {
            // A description is as good where only one group has it.
            let mut named = groups().filter(|(_, g)| g.desc.as_deref() == Some(&self.name)).map(|(_, g)| &g.ranks);
            let first = named.next()?;
            named.all(|other| other == first).then(|| first.clone())
        })
    }
}

type Groups<'a> = BTreeMap<Group, BTreeMap<u32, Report<'a>>>;

/// What all watchdogs say, by process group and global rank.
fn groups<'a>(logs: &Logs<'a>) -> Groups<'a> {
    let mut groups = Groups::new();
    let mut members: BTreeMap<Group, Option<Arc<[u32]>>> = BTreeMap::new();
    for alarm in logs.alarms() {
        let (group, guid, pg_rank) = match &alarm.event.what {
            What::CollectiveTimeout(t) => (&t.group, &t.guid, t.pg_rank),
            What::CollectiveStatus { group, guid, pg_rank, .. } => (group, guid, *pg_rank),
            _ => continue,
        };
        // Work-level lines of most versions do not name the group; the status line right behind them does.
        let group = Group::of(group.as_deref(), guid.as_deref());
        let named = || {
            let ranks = members.entry(group.clone()).or_insert_with(|| group.members(logs)).clone();
            ranks?.get(pg_rank? as usize).copied()
        };
        let rank = logs.rank_of(alarm).or_else(|| if group.is_world() { pg_rank } else { None });
        let Some(rank) = rank.or_else(named) else { continue };
        let report = groups.entry(group).or_default().entry(rank).or_default();
        report.pg_rank = report.pg_rank.or(pg_rank);
        match &alarm.event.what {
            What::CollectiveTimeout(t) if report.timeout.is_none() => {
                report.seq = t.seq.or(report.seq);
                report.timeout = Some((alarm, t));
            }
            What::CollectiveStatus { seq, enqueued, completed, .. } if report.status.is_none() => {
                report.status = Some(alarm);
                // What a rank has completed it does not wait in: it hands on what another group's watchdog said.
                report.seq = report.seq.or(seq.filter(|seq| completed.is_none_or(|completed| completed < *seq)));
                (report.enqueued, report.completed) = (*enqueued, *completed);
            }
            _ => {}
        }
    }
    merge_unnamed(&mut groups);
    groups
}

/// Judgements of one kind: nobody reads more.
const MOST_JUDGED: usize = 200;

/// Names the ranks that did not come, or that called something else, where the watchdogs of a job tell.
pub fn judge(model: &Model, job: &Job) -> Vec<Finding> {
    let logs = Logs::of(model, job);
    let groups = groups(&logs);
    let mut found = groups.iter().filter_map(|(group, reports)| of_group(&logs, group, reports)).collect::<Vec<_>>();
    // Who waits for one call has made it, wherever in its program.
    let is_one_call = |reports: &BTreeMap<u32, Report>| {
        let mut waiting = reports.values().filter(|r| r.timeout.is_some());
        let first = waiting.next();
        first.is_some_and(|first| waiting.clone().next().is_some() && waiting.all(|r| r.waits_for(first)))
    };
    if let Some(apart) = work_stacks::apart(&logs.stacks(), groups.len()).filter(|_| !groups.values().any(is_one_call)) {
        match found.iter_mut().find(|f| f.rule == hang_rank_absent::RULE.id || f.rule == collective_mismatch::RULE.id) {
            Some(told) => {
                told.why = format!("{}; {} ({})", told.why, apart.summary, apart.why);
                told.evidence.extend(apart.evidence);
            }
            None => found.push(apart),
        }
    }
    found.into_iter().take(MOST_JUDGED).map(|f| Finding { job: Some(job.id.clone()), witness: Witness::Watchdogs, ..f }).collect()
}

/// What the watchdogs of a job leave open: ranks that report nothing, and ranks that wait elsewhere.
pub fn note(model: &Model, job: &Job) -> Option<String> {
    let logs = Logs::of(model, job);
    let words: Vec<String> =
        [open_questions(&logs), stood_words(&logs), queue_words(&logs), overrun_words(&logs), work_stacks::words(&logs.stacks())]
            .into_iter()
            .flatten()
            .collect();
    (!words.is_empty()).then(|| words.join("; "))
}

/// The ranks that report no timeout while others of the job do, where that is at most half of them.
pub fn silent(model: &Model, job: &Job) -> Vec<u32> {
    let logs = Logs::of(model, job);
    let spoke: BTreeMap<u32, ()> = groups(&logs).values().flat_map(|g| g.keys()).map(|rank| (*rank, ())).collect();
    absentees_of_job(&logs, &spoke).map_or(Vec::new(), |(silent, _)| silent)
}

/// How far the ranks of the group with most reports had come: what they had enqueued and completed, and whether it was their first collective.
fn queue_words(logs: &Logs) -> Option<String> {
    let groups = groups(logs);
    // Who only hands on that another group's call timed out has completed all of its own.
    let timed_out = |reports: &BTreeMap<u32, Report>| reports.values().any(|r| r.seq.is_some());
    let first = |reports: &BTreeMap<u32, Report>| {
        reports.values().filter_map(|r| r.timeout.map(|t| t.0).or(r.status)).map(|a| (a.file, a.line)).min()
    };
    let rank_of = |(_, reports): &(&Group, &BTreeMap<u32, Report>)| (timed_out(reports), reports.len(), std::cmp::Reverse(first(reports)));
    let (group, reports) = groups.iter().max_by_key(rank_of)?;
    let is_one_of_several = groups.values().filter(|reports| timed_out(reports)).count() > 1;
    let of_which = if is_one_of_several { group.words() } else { String::new() };
    let told: Vec<&Report> = reports.values().filter(|r| r.status.is_some() && r.enqueued.is_some()).collect();
    let of_all = if told.len() > 1 { format!(" on {}", all_of(told.len(), "rank")) } else { String::new() };
    let is_first = reports.values().filter_map(|r| r.seq).min().is_some_and(|seq| seq <= 1);
    let range = |of: &dyn Fn(&Report) -> Option<u64>| -> Option<String> {
        let (low, high) = (told.iter().filter_map(|r| of(r)).min()?, told.iter().filter_map(|r| of(r)).max()?);
        Some(if low == high { low.to_string() } else { format!("{low} to {high}") })
    };
    let enqueued = range(&|r| r.enqueued).map(|n| format!("last enqueued {n}{of_all}{of_which}"));
    let nothing = told.iter().all(|r| r.completed.is_none());
    let completed = match nothing {
        true if told.is_empty() => None,
        true => Some("none was ever completed".to_owned()),
        false => range(&|r| r.completed).map(|n| format!("last completed {n}")),
    };
    let first = (is_first || nothing && !told.is_empty()).then(|| {
        let of_group = if group.is_world() { "".to_owned() } else { group.words() };
        format!(
            "it is the first collective{of_group}: either others are not there yet (data, model, another start), or nothing can pass between \
             these ranks (run once with NCCL_DEBUG=INFO; NCCL_P2P_DISABLE=1 tells whether it is P2P)"
        )
    });
    let words: Vec<String> = completed.into_iter().chain(enqueued).chain(first).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// Of ranks that their watchdogs aborted, those that the launcher had to end: they may not have waited with the others.
fn stood_words(logs: &Logs) -> Option<String> {
    const SIGABRT: i32 = -6;
    const SIGTERM: i32 = -15;
    let ended = |code: i32| -> BTreeSet<u32> {
        let of = |a: &Alarm| if let What::WorkerFailure(f) = &a.event.what { f.rank.filter(|_| f.exit_code == Some(code)) } else { None };
        logs.alarms().filter_map(of).collect()
    };
    let (aborted, stood) = (ended(SIGABRT), ended(SIGTERM));
    let waited = |rank: &u32| logs.alarms().any(|a| matches!(a.event.what, What::CollectiveTimeout(_)) && logs.rank_of(a) == Some(*rank));
    let is_told = stood.is_empty() || aborted.len() < 2 || stood.len() * 4 > aborted.len() || stood.iter().any(waited);
    let stood: Vec<u32> = stood.into_iter().collect();
    (!is_told).then(|| {
        format!("{} aborted, and the launcher had to end {}: look there first", counted(aborted.len(), "rank"), rank_words(&stood))
    })
}

/// A watchdog looks many times a minute: one that speaks long after its limit stood still itself.
fn overrun_words(logs: &Logs) -> Option<String> {
    const LATE: u64 = 60_000;
    let late = |a: &Alarm| match &a.event.what {
        What::CollectiveTimeout(t) => t.ran_ms.zip(t.timeout_ms).filter(|(ran, limit)| *limit > 0 && *ran > limit.saturating_add(LATE)),
        _ => None,
    };
    let (ran, limit) = logs.alarms().filter_map(late).max_by_key(|(ran, limit)| ran - limit)?;
    let s = |ms: u64| crate::base::units::group(ms / 1000);
    Some(format!(
        "it ran {} s although the limit is {} s: the watchdog itself, or the whole machine, stood still meanwhile",
        s(ran),
        s(limit)
    ))
}

/// The job made steps after the last of its watchdogs spoke.
pub fn went_on(model: &Model, job: &Job) -> bool {
    let speaks = |a: &&Alarm| matches!(a.event.what, What::CollectiveTimeout(_));
    let spoke = Logs::of(model, job).alarms().filter(speaks).map(|a| a.seen_at).max();
    let step = model.progress_of(&job.id).and_then(|p| p.last_step_at);
    !job.archived && step.zip(spoke).is_some_and(|(step, spoke)| step > spoke.plus(SURVIVED))
}

/// Steps that came so long after a watchdog were made after it.
const SURVIVED: Duration = Duration::from_secs(5);

/// The logs of one job.
struct Logs<'a> {
    model: &'a Model,
    job: &'a Job,
    record: &'a Record,
}

impl<'a> Logs<'a> {
    fn of(model: &'a Model, job: &'a Job) -> Logs<'a> {
        Logs { model, job, record: model.record_of(&job.id) }
    }

    /// Those of the run that each file is of now.
    fn alarms(&self) -> impl Iterator<Item = &'a Alarm> {
        let model = self.model;
        let is_of_now = move |a: &&Alarm| model.files.get(&a.file).is_none_or(|f| f.is_present(a.run));
        self.record.alarms.iter().filter(is_of_now)
    }

    /// Where the ranks called what timed out in the present run.
    fn stacks(&self) -> work_stacks::Stacks<'a> {
        self.record.work_stacks.iter().filter(|(_, told)| self.is_of_now(told.file, told.run)).map(|(rank, told)| (*rank, told)).collect()
    }

    fn is_of_now(&self, file: u32, run: u32) -> bool {
        self.model.files.get(&file).is_none_or(|f| f.is_present(run))
    }

    fn rank_of(&self, alarm: &Alarm) -> Option<u32> {
        self.model.rank_of_alarm(&self.job.id, alarm)
    }

    fn world_size(&self) -> Option<u32> {
        self.model.world_size_of(self.job)
    }

    fn has_dump(&self, rank: u32) -> bool {
        super::dumps::of_job(self.model, self.job).any(|d| d.seen.rank == rank)
    }

    fn proof(&self, alarm: &Alarm) -> Evidence {
        self.model.proof(alarm)
    }

    fn py_spy(&self, rank: u32) -> Option<String> {
        self.model.py_spy(self.job, rank)
    }
}

/// What the reports leave open: ranks that say nothing, and ranks that wait elsewhere.
fn open_questions(logs: &Logs) -> Option<String> {
    let groups = groups(logs);
    let Some(world) = groups.get(&Group::default()) else { return elsewhere(logs, &groups) };
    // Lines of most versions do not name the group: a rank whose timeout was found to be of another one may still be of this one.
    let elsewhere = groups.values().flatten().filter(|(_, r)| r.timeout.is_some_and(|(_, t)| t.group.is_none() && t.guid.is_none()));
    let reports: BTreeMap<u32, u64> = elsewhere.chain(world).filter_map(|(rank, r)| Some((*rank, r.seq?))).collect();
    let highest = *reports.values().max()?;
    let behind: Vec<(u32, u64)> = reports.iter().filter(|(_, seq)| **seq < highest).map(|(rank, seq)| (*rank, *seq)).collect();
    if let Some(words) = of_several_groups(logs) {
        return Some(words);
    }
    if let [(rank, at)] = behind.as_slice() {
        return Some(format!(
            "rank {rank} waits at {at}, the others at {highest}: if they are of one process group, rank {rank} is behind"
        ));
    }
    // Nobody is silent who reports a timeout in another group.
    let speaks = |rank: &u32| groups.values().any(|g| g.contains_key(rank));
    let (silent, size) = absentees_of_job(logs, &reports)?;
    let silent: Vec<u32> = silent.into_iter().filter(|rank| !speaks(rank)).collect();
    if silent.is_empty() {
        let joined = reports.len() > 1 && behind.is_empty() && reports.len() == size as usize;
        if let Some(of_group) = size_by_call(logs).filter(|n| joined && *n > reports.len() as u64) {
            return Some(format!(
                "{} of the {of_group} ranks that its sizes tell of wait in it; the others report no timeout in these inputs: look there first",
                reports.len()
            ));
        }
        let words = format!(
            "all {} ranks that these inputs know wait in it, so nobody is missing among them: either the job has more ranks, whose logs \
             are not here, or the transfer itself stands still (network, NVLink, a GPU, or one rank's stream that waits for something else)",
            reports.len()
        );
        return joined.then_some(words);
    }
    let verb = if silent.len() == 1 { "reports" } else { "report" };
    Some(format!("{} {verb} no timeout in these inputs: look there first", rank_words(&silent)))
}

/// How many ranks the group has in which all wait that report: a gather has what each gives as often as there are ranks. `None` where
/// several sizes are reported.
fn size_by_call(logs: &Logs) -> Option<u64> {
    let of = |alarm: &Alarm| {
        let What::CollectiveTimeout(t) = &alarm.event.what else { return None };
        let (small, large) = match t.op.as_deref()? {
            "ALLGATHER" | "_ALLGATHER_BASE" => (t.numel_in?, t.numel_out?),
            "REDUCE_SCATTER" | "_REDUCE_SCATTER_BASE" => (t.numel_out?, t.numel_in?),
            _ => return None,
        };
        (small > 0 && large % small == 0).then(|| large / small)
    };
    let sizes: BTreeSet<u64> = logs.alarms().filter_map(of).collect();
    sizes.first().copied().filter(|_| sizes.len() == 1)
}

/// One rank waits at several numbers in lines that name no group: each group counts for itself, so that numbers of different ranks tell nothing.
fn of_several_groups(logs: &Logs) -> Option<String> {
    let mut waits: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
    for alarm in logs.alarms() {
        let What::CollectiveTimeout(t) = &alarm.event.what else { continue };
        let (true, Some(seq), Some(rank)) = (t.group.is_none() && t.guid.is_none(), t.seq, logs.rank_of(alarm).or(t.pg_rank)) else {
            continue;
        };
        waits.entry(rank).or_default().insert(seq);
    }
    let (rank, numbers) = waits.iter().max_by_key(|(_, numbers)| numbers.len()).filter(|(_, numbers)| numbers.len() > 1)?;
    // Lines of the same watchdog name the group that a number is of.
    let name = |seq: &u64| {
        logs.alarms().find_map(|alarm| match &alarm.event.what {
            What::CollectiveStatus { group: Some(group), seq: at, .. } if *at == Some(*seq) && logs.rank_of(alarm) == Some(*rank) => {
                Some(group)
            }
            _ => None,
        })
    };
    let named: Vec<String> = numbers.iter().take(MOST_NUMBERS).filter_map(|seq| Some(format!("{} ({seq})", name(seq)?))).collect();
    if named.len() == numbers.len() {
        return Some(format!(
            "rank {rank} waits in {} at once: each group counts for itself, so look at the other ranks of these groups, the smallest first; Flight \
             Recorder dumps (TORCH_FR_BUFFER_SIZE=2000) name who is behind in each",
            all_words(&named)
        ));
    }
    let numbers: Vec<String> = numbers.iter().take(MOST_NUMBERS).map(u64::to_string).collect();
    Some(format!(
        "rank {rank} waits at {} at once, so these are several process groups, which no line names: each counts for itself, and who is behind cannot be \
         told from the numbers; Flight Recorder dumps (TORCH_FR_BUFFER_SIZE=2000) name group and rank",
        all_words(&numbers)
    ))
}

/// Numbers of one rank that are named.
const MOST_NUMBERS: usize = 4;

/// Numbers below `size` that are not known, unless those are more than the known ones: a damaged line may tell any number.
fn absentees<T>(size: u32, known: &BTreeMap<u32, T>) -> Option<Vec<u32>> {
    (size as usize <= known.len() * 2).then(|| (0..size).filter(|n| !known.contains_key(n)).collect())
}

/// The ranks of the job that are not known, and how many it has. Where nothing tells its size but the highest rank that speaks, a few that
/// do tell nothing of the others.
fn absentees_of_job<T>(logs: &Logs, known: &BTreeMap<u32, T>) -> Option<(Vec<u32>, u32)> {
    let last = *known.keys().next_back()?;
    let told = logs.world_size().or(logs.record.launch.ranks()).filter(|size| *size > last);
    let size = told.unwrap_or(last.saturating_add(1));
    let is_enough = told.is_some() || known.len() == size as usize || known.len() >= LEAST_SPEAKERS && are_most(known.len(), size);
    Some((absentees(size, known).filter(|_| is_enough)?, size))
}

/// So many ranks at least, where the highest of them is all that tells how many there are.
const LEAST_SPEAKERS: usize = 3;

/// Those that say nothing are few beside these.
fn are_most(known: usize, size: u32) -> bool {
    known * 4 >= size as usize * 3
}

/// All wait in groups that are a part of the job.
fn elsewhere(logs: &Logs, groups: &Groups) -> Option<String> {
    let open = groups.iter().filter(|(group, _)| group.members(logs).is_none());
    let Some((group, reports)) = open.max_by_key(|(_, reports)| reports.len()) else {
        // The rank inside the group is all that its lines tell.
        let of = |a: &Alarm| {
            if let What::CollectiveTimeout(t) = &a.event.what { Some(Group::of(t.group.as_deref(), t.guid.as_deref())) } else { None }
        };
        let group = logs.alarms().find_map(of).filter(|g| groups.is_empty() && !g.is_world())?;
        return Some(format!(
            "it was reported in process group {}, which is a part of the job, and with ranks inside the group: which ranks of the job these are, and \
             who is missing, cannot be told; Flight Recorder dumps (TORCH_FR_BUFFER_SIZE=2000) list them",
            group.name
        ));
    };
    let ranks: Vec<u32> = reports.keys().copied().collect();
    let verb = if ranks.len() == 1 { "reports" } else { "report" };
    let mut at: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
    reports.iter().filter_map(|(rank, r)| Some((*rank, r.seq?))).for_each(|(rank, seq)| at.entry(seq).or_default().push(rank));
    let apart = at.iter().zip(at.iter().nth(1)).next().map_or(String::new(), |((low, behind), (high, ahead))| {
        let (wait, wait_too) = (if behind.len() == 1 { "waits" } else { "wait" }, if ahead.len() == 1 { "waits" } else { "wait" });
        format!("{} {wait} at {low}, which {} passed and {wait_too} at {high}; ", rank_words(behind), rank_words(ahead))
    });
    Some(format!(
        "{apart}{} {verb} it in process group {}, which is a part of the job: these inputs do not say which other ranks are in it, so who is missing \
         cannot be told; Flight Recorder dumps (TORCH_FR_BUFFER_SIZE=2000) list them",
        rank_words(&ranks),
        group.name
    ))
}

/// Timeouts without a group's name belong to the group in which the same rank has the same number; where the rank is in none, to the only
/// group in which others wait for the same call: a rank that waits for it has joined it.
fn merge_unnamed(groups: &mut Groups) {
    let Some(unnamed) = groups.remove(&Group::default()) else { return };
    let mut left = BTreeMap::new();
    for (rank, report) in unnamed {
        let home = groups.values_mut().find_map(|g| g.get_mut(&rank).filter(|r| r.timeout.is_none() && r.seq == report.seq));
        match home {
            Some(home) if report.status.is_none() => home.timeout = report.timeout,
            _ => {
                left.insert(rank, report);
            }
        }
    }
    let mut world = BTreeMap::new();
    for (rank, report) in left {
        let mut waits_for_it =
            groups.values_mut().filter(|g| !g.contains_key(&rank) && report.is_unnamed() && g.values().any(|r| r.waits_for(&report)));
        match (waits_for_it.next(), waits_for_it.next()) {
            (Some(home), None) => {
                home.insert(rank, report);
            }
            _ => {
                world.insert(rank, report);
            }
        }
    }
    if !world.is_empty() {
        groups.insert(Group::default(), world);
    }
}

fn of_group(logs: &Logs, group: &Group, reports: &BTreeMap<u32, Report>) -> Option<Finding> {
    let timed_out: Vec<(&u32, &Report)> = reports.iter().filter(|(_, r)| r.timeout.is_some() || r.seq.is_some()).collect();
    // The collective that they wait in is the lowest: who got further than the others did so because it needed nobody.
    let seq = timed_out.iter().filter_map(|(_, r)| r.seq).min()?;
    let waiting: Vec<(u32, &Report)> = timed_out.iter().filter(|(_, r)| r.seq == Some(seq)).map(|(rank, r)| (**rank, *r)).collect();
    let first = waiting.iter().filter_map(|(_, r)| r.timeout).min_by_key(|(a, _)| (a.at, a.line))?;
    let since = began(first.0, first.1);
    if timed_out.iter().any(|(_, r)| r.timeout.is_some_and(|(_, t)| t.is_p2p())) {
        return of_transfers(logs, group, reports, since);
    }
    let what = format!("{}{}", name(first.1, seq), group.words());
    mismatch(logs, &waiting, seq, since)
        .or_else(|| diverged(logs, reports, &waiting, since))
        .or_else(|| absent(logs, reports, &waiting, &what, since, group))
}

/// The ranks of a group that say nothing, by the numbers that the others have inside it and in the job: groups of parallel training
/// have every so many-th rank. With how it is known.
fn gaps(reports: &BTreeMap<u32, Report>) -> Option<(Vec<u32>, String)> {
    // Two numbers are always evenly apart.
    const LEAST: usize = 3;
    let pairs: BTreeMap<u32, u32> = reports.iter().filter_map(|(rank, r)| Some((r.pg_rank?, *rank))).collect();
    if pairs.len() < LEAST {
        return None;
    }
    let ((p0, g0), (p1, g1)) = (pairs.iter().next()?, pairs.iter().nth(1)?);
    let step = g1.checked_sub(*g0)?.checked_div(p1 - p0).filter(|step| *step > 0)?;
    let start = g0.checked_sub(step.checked_mul(*p0)?)?;
    let rank_at = |p: u32| step.checked_mul(p)?.checked_add(start);
    if pairs.len() != reports.len() || pairs.iter().any(|(p, g)| rank_at(*p) != Some(*g)) {
        return None;
    }
    let last = *pairs.keys().next_back()?;
    let size = last.saturating_add(1);
    let missing = absentees(size, &pairs).filter(|missing| !missing.is_empty() && are_most(pairs.len(), size))?;
    let known = pairs.iter().take(3).map(|(p, g)| format!("{p} is rank {g}")).collect::<Vec<_>>().join(", ");
    let why = format!("{} inside the group says nothing, and the others are numbered evenly ({known})", rank_words(&missing));
    Some((missing.into_iter().filter_map(rank_at).collect(), why))
}

/// They report at the end of the wait.
fn began(alarm: &Alarm, timeout: &CollectiveTimeout) -> Stamp {
    alarm.at.unwrap_or_default().minus(timeout.waited())
}

/// `AllReduce 236`
fn name(timeout: &CollectiveTimeout, seq: u64) -> String {
    let op = match timeout.op.as_deref() {
        Some("COALESCED") if timeout.is_p2p() => "batch of sends and receives",
        op => op.map_or("collective", words),
    };
    format!("{op} {seq}")
}

/// NCCL's word for PyTorch's operation type.
fn words(op: &str) -> &str {
    match op {
        "ALLREDUCE" | "ALLREDUCE_COALESCED" => "AllReduce",
        "ALLGATHER" | "_ALLGATHER_BASE" | "ALLGATHER_COALESCED" => "AllGather",
        "REDUCE_SCATTER" | "_REDUCE_SCATTER_BASE" | "REDUCE_SCATTER_TENSOR_COALESCED" => "ReduceScatter",
        "BROADCAST" => "Broadcast",
        "REDUCE" => "Reduce",
        "GATHER" => "Gather",
        "SCATTER" => "Scatter",
        "ALLTOALL" | "ALLTOALL_BASE" => "AlltoAll",
        "SEND" => "Send",
        "RECV" | "RECVANYSOURCE" => "Recv",
        "BARRIER" => "Barrier",
        "COALESCED" => "coalesced operations",
        other => other,
    }
}

/// Some wait in sends and receives. Their numbers are those of each rank alone: only who reports nothing tells, and that all send.
fn of_transfers(logs: &Logs, group: &Group, reports: &BTreeMap<u32, Report>, since: Stamp) -> Option<Finding> {
    let came: Vec<(u32, &Alarm, &CollectiveTimeout)> =
        reports.iter().filter_map(|(rank, r)| r.timeout.map(|(a, t)| (*rank, a, t))).collect();
    // Where more are missing than came, nobody is named.
    let members: Vec<u32> = match group.is_world() {
        true => (0..logs.world_size().filter(|n| *n as usize <= came.len() * 2)?).collect(),
        false => group.members(logs)?.to_vec(),
    };
    let silent: Vec<u32> = members.iter().copied().filter(|rank| !reports.contains_key(rank)).collect();
    let in_what = came.iter().take(4).map(|(rank, _, t)| format!("rank {rank} in {}", t.op.as_deref().map_or("a call", words)));
    let in_what = in_what.collect::<Vec<_>>().join(", ");
    let ranks: Vec<u32> = came.iter().map(|(rank, ..)| *rank).collect();
    let mut found = if silent.is_empty() && came.len() > 1 && came.iter().all(|(_, _, t)| t.op.as_deref() == Some("SEND")) {
        let summary = format!("{} wait in sends{}, and nobody receives", rank_words(&ranks), group.words());
        let mut found = send_order_deadlock::RULE.finding(rank_words(&ranks), summary, since);
        found.next = Some(send_order_deadlock::ADVICE.into());
        found.ranks = if ranks.len() == 2 { ranks } else { Vec::new() };
        found
    } else if !silent.is_empty() && came.len() >= silent.len() {
        let verb = if silent.len() == 1 { "neither sends nor receives" } else { "neither send nor receive" };
        let waited = format!("{} waited until the watchdog ended it", counted(came.len(), "rank"));
        let summary = format!("{} {verb}{}; {waited}", rank_words(&silent), group.words());
        let mut found = hang_rank_absent::RULE.finding(rank_words(&silent), summary, since);
        let seen = silent.iter().all(|r| logs.record.ranks.contains_key(r) || logs.has_dump(*r));
        found.confidence = if seen && came.len() > silent.len() { Confidence::Likely } else { Confidence::Possible };
        found.next = silent.first().map(|rank| logs.py_spy(*rank).unwrap_or_else(|| format!("read what rank {rank} printed last")));
        found.ranks = silent;
        found
    } else {
        return None;
    };
    found.why =
        format!("{in_what}; sends and receives have no number in common, so the one that reports nothing is the one that never arrived");
    found.evidence = came.iter().take(3).map(|(_, alarm, _)| logs.proof(alarm)).collect();
    Some(found)
}

/// At one sequence number ranks called different things.
fn mismatch(logs: &Logs, waiting: &[(u32, &Report)], seq: u64, since: Stamp) -> Option<Finding> {
    type Call<'a> = (Option<&'a str>, Option<u64>, Option<u64>);
    let mut calls: BTreeMap<Call, Vec<(u32, &Alarm)>> = BTreeMap::new();
    for (rank, report) in waiting {
        let Some((alarm, t)) = report.timeout else { continue };
        // Send and Recv count by pair; gather and scatter differ by rank on purpose.
        if matches!(t.op.as_deref(), None | Some("SEND" | "RECV" | "RECVANYSOURCE" | "GATHER" | "SCATTER" | "COALESCED" | "UNKNOWN")) {
            return None;
        }
        calls.entry((t.op.as_deref(), t.numel_in, t.numel_out)).or_default().push((*rank, alarm));
    }
    if calls.len() < 2 {
        return None;
    }
    let most = calls.iter().max_by_key(|(_, who)| who.len()).map(|(call, _)| *call)?;
    let majority = calls[&most].len();
    let differs: Vec<u32> = calls.iter().filter(|(call, _)| **call != most).flat_map(|(_, who)| who.iter().map(|w| w.0)).collect();
    let even = differs.len() >= majority;
    let say = |call: &Call| {
        let op = call.0.map_or("a collective", words);
        call.1.map_or(op.to_owned(), |n| format!("{op} of {n} elements"))
    };
    let called: Vec<String> = calls
        .iter()
        .map(|(call, who)| format!("{} called {}", rank_words(&who.iter().map(|w| w.0).collect::<Vec<_>>()), say(call)))
        .collect();
    let summary = if even {
        format!("at sequence number {seq} {}", called.join(", "))
    } else {
        let verb = if differs.len() == 1 { "differs" } else { "differ" };
        format!("{} {verb} at sequence number {seq}: {}", rank_words(&differs), called.join(", "))
    };
    let subject = if even { "all".to_owned() } else { rank_words(&differs) };
    let mut found = collective_mismatch::RULE.finding(subject, summary, since);
    found.confidence = if even { Confidence::Possible } else { Confidence::Likely };
    found.why = "the watchdogs of a process group report one sequence number with different operations or sizes".into();
    found.ranks = if even { Vec::new() } else { differs };
    found.next = Some(match found.ranks.first() {
        Some(rank) => format!("look at the code of rank {rank} before its collective {seq}: a branch, a batch or an order of its own"),
        None => {
            "look for a branch that depends on the rank; Flight Recorder dumps (TORCH_FR_BUFFER_SIZE=2000) show where each rank was".into()
        }
    });
    found.evidence = calls.values().filter_map(|who| who.first()).map(|(_, alarm)| logs.proof(alarm)).collect();
    Some(found)
}

/// Operations that nobody can finish without data of all ranks.
const OF_ALL: &[&str] = &["AllReduce", "AllGather", "ReduceScatter", "AlltoAll"];

/// A rank waits in a collective that another one has finished, and more of them behind it: what has the same number there was another
/// call.
fn diverged(logs: &Logs, reports: &BTreeMap<u32, Report>, waiting: &[(u32, &Report)], since: Stamp) -> Option<Finding> {
    let (behind, (first, op, seq)) = waiting.iter().find_map(|(rank, r)| Some((*rank, r.waits_for_all()?)))?;
    let is_ahead = |r: &Report, other: &str| r.completed.is_some_and(|done| done > seq) && other != op;
    let (ahead, report, (second, other, at)) =
        reports.iter().find_map(|(rank, r)| Some((*rank, r, r.waits_for_all()?)).filter(|(_, r, (_, other, _))| is_ahead(r, other)))?;
    let summary = format!("rank {behind} waits in {op} {seq}, and rank {ahead} in {other} {at}: they did not call the same collectives");
    let mut found = collective_mismatch::RULE.finding("order".to_owned(), summary, since);
    found.confidence = Confidence::Likely;
    found.why = format!(
        "rank {ahead} finished its collectives up to {}, which no rank can without rank {behind}: their numbers no longer mean the same calls",
        report.completed?
    );
    found.next = Some(
        "look for a branch that depends on rank or data (uneven batches, layers that one rank skips, evaluation on one rank); Flight Recorder \
         dumps (TORCH_FR_BUFFER_SIZE=2000) show where the calls part"
            .into(),
    );
    found.evidence = [first, second].map(|alarm| logs.proof(alarm)).into();
    Some(found)
}

/// Ranks that did not come at all.
fn absent(
    logs: &Logs,
    reports: &BTreeMap<u32, Report>,
    waiting: &[(u32, &Report)],
    what: &str,
    since: Stamp,
    group: &Group,
) -> Option<Finding> {
    let seq = waiting.first().and_then(|(_, r)| r.seq)?;
    // Who issued less than the others stopped issuing.
    let behind: Vec<(u32, u64)> = reports.iter().filter_map(|(rank, r)| Some((*rank, r.enqueued?))).filter(|(_, e)| *e < seq).collect();
    let came: BTreeSet<u32> = reports.keys().copied().filter(|r| behind.iter().all(|(b, _)| b != r)).collect();
    let is_world = group.is_world();
    // Where the log stops while ranks report, those that say nothing yet may be the next to do so.
    let goes_on = reports.values().any(|r| !r.is_half()) && reports.values().filter(|r| r.is_half()).count() > 1;
    let members = if is_world { None } else { group.members(logs) };
    let size = if is_world { logs.world_size() } else { members.as_ref().map(|m| m.len() as u32) };
    let size = size.filter(|n| *n as usize >= came.len());
    // In a group that is not the whole world silence of others proves nothing. Where its size is not known, the highest rank gives it.
    let highest = logs.record.ranks.keys().chain(&came).max().map_or(0, |r| r.saturating_add(1));
    let guessed = is_world && size.is_none() && highest >= 4 && came.len() * 8 >= highest as usize * 7;
    let evenly = gaps(reports).filter(|_| !is_world && members.is_none() && behind.is_empty());
    let silent: Vec<u32> = match size.or(guessed.then_some(highest)) {
        _ if goes_on => Vec::new(),
        _ if evenly.is_some() => evenly.as_ref().map_or(Vec::new(), |(ranks, _)| ranks.clone()),
        Some(n) if !is_world && behind.is_empty() && came.len() * 2 >= n as usize => {
            members.iter().flat_map(|m| m.iter()).copied().filter(|r| !came.contains(r)).collect()
        }
        _ if !is_world => Vec::new(),
        Some(n) if behind.is_empty() && came.len() * 2 > n as usize => (0..n).filter(|r| !came.contains(r)).collect(),
        _ => Vec::new(),
    };
    let waits = format!("{} waited in it", counted(came.len(), "rank"));
    let enqueued: BTreeSet<u64> = waiting.iter().filter_map(|(_, r)| r.enqueued).collect();
    // Who is silent may lack in the inputs, unless only few are, or other lines of theirs are here.
    let has_lines = |rank: &u32| logs.record.ranks.contains_key(rank) || logs.has_dump(*rank);
    let is_sure = size.is_none_or(|n| !is_world || are_most(came.len(), n)) || silent.iter().all(has_lines);
    let silent = if is_sure { silent } else { Vec::new() };
    let issued = match (enqueued.first(), enqueued.last()) {
        (Some(a), Some(b)) if a == b => format!("the others had enqueued up to {b}"),
        (Some(a), Some(b)) => format!("the others had enqueued up to {a} to {b}"),
        _ => format!("{} reported it", rank_words(&came.iter().copied().collect::<Vec<_>>())),
    };
    let mut evidence: Vec<Evidence> = Vec::new();
    let left = if is_world { gone_before(logs, waiting, &came) } else { Vec::new() };
    let (rule, ranks, summary, why, confidence) = if behind.is_empty() && !left.is_empty() {
        let ranks: Vec<u32> = left.iter().map(|(rank, _)| *rank).collect();
        evidence.extend(left.iter().take(3).map(|(_, proof)| (*proof).clone()));
        let whose = if ranks.len() == 1 { "its communicator" } else { "their communicators" };
        let summary = format!("{} took {whose} down and did not join {what}; {waits} until the watchdog ended it", rank_words(&ranks));
        let why = format!("who destroys a communicator is done with its work: uneven data, an early end, or a branch of its own; {issued}");
        (hang_rank_absent::RULE, ranks, summary, why, Confidence::Likely)
    } else if !behind.is_empty() {
        let ranks: Vec<u32> = behind.iter().map(|b| b.0).collect();
        evidence.extend(ranks.iter().take(3).filter_map(|r| reports[r].status).map(|a| logs.proof(a)));
        let last: Vec<String> = behind.iter().take(3).map(|(r, e)| format!("rank {r} had enqueued up to {e}")).collect();
        let summary = format!("{} did not join {what}; {waits} until the watchdog ended it", rank_words(&ranks));
        (hang_rank_absent::RULE, ranks, summary, format!("{}; {issued}", last.join(", ")), Confidence::Certain)
    } else if !silent.is_empty() {
        let summary = format!("{} did not join {what}; {waits} until the watchdog ended it", rank_words(&silent));
        let all = match size {
            Some(n) if !is_world => format!("the dumps list {n} ranks in group {}", group.name),
            Some(n) => format!("the group has {n} ranks"),
            None => format!("ranks up to {} are seen", highest - 1),
        };
        let why = match &evenly {
            Some((_, why)) => format!("{why}; {issued}"),
            None => format!("{} no timeout in these inputs, although {all}; {issued}", report_words(silent.len())),
        };
        // Whoever has written nothing at all may only lack in the inputs.
        let seen = is_world || silent.iter().all(has_lines);
        (hang_rank_absent::RULE, silent, summary, why, if size.is_some() && seen { Confidence::Likely } else { Confidence::Possible })
    } else if size == Some(came.len() as u32) {
        let summary = format!("{} joined {what}, and it did not finish", all_of(came.len(), "rank"));
        let why = "every rank reports the same collective: none is absent; the network, a GPU, or another communicator holds it".into();
        (hang_symmetric::RULE, Vec::new(), summary, why, Confidence::Possible)
    } else {
        return None;
    };
    evidence.extend(waiting.iter().take(2).filter_map(|(_, r)| r.timeout).map(|(a, _)| logs.proof(a)));
    evidence.extend(waiting.first().and_then(|(_, r)| r.status).map(|a| logs.proof(a)));
    let subject = if ranks.is_empty() { "all".to_owned() } else { rank_words(&ranks) };
    let mut found = rule.finding(subject, summary, since);
    found.next = match ranks.first() {
        Some(rank) => Some(logs.py_spy(*rank).unwrap_or_else(|| logs.model.what_it_left(logs.job, *rank))),
        None => Some("look for NCCL WARN and network errors before it; NCCL's RAS (ncclras -v) and Flight Recorder dumps tell more".into()),
    };
    found.why = why;
    found.ranks = ranks;
    found.confidence = confidence;
    found.evidence = evidence;
    Some(found)
}

/// Ranks that had destroyed the communicator of all ranks before the first of those that waited reported it.
fn gone_before<'a>(logs: &Logs<'a>, waiting: &[(u32, &Report)], came: &BTreeSet<u32>) -> Vec<(u32, &'a Evidence)> {
    let reports = || waiting.iter().filter_map(|(_, r)| r.timeout).map(|(alarm, _)| alarm);
    let is_before = |gone: &Evidence, alarm: &Alarm| match gone.path.as_deref() == Some(logs.model.path_of(alarm.file)) {
        true => gone.line < alarm.line,
        false => gone.at.zip(alarm.at).is_some_and(|(gone, at)| gone < at),
    };
    let gone = || logs.record.left.iter().filter(|(_, told)| logs.is_of_now(told.file, told.run)).map(|(rank, told)| (rank, &told.proof));
    let before = |proof: &Evidence| reports().all(|alarm| is_before(proof, alarm));
    // Where some that came have destroyed one too, it was not the one that they all wait in.
    if gone().any(|(rank, proof)| came.contains(rank) && before(proof)) {
        return Vec::new();
    }
    let all = gone().filter(|(rank, proof)| !came.contains(*rank) && before(proof));
    all.map(|(rank, gone)| (*rank, gone)).collect()
}

fn report_words(n: usize) -> &'static str {
    if n == 1 { "it reported" } else { "they reported" }
}
