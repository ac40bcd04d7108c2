//! What the ranks of a job report of Gloo: each of them only tells that it waited in vain. Where all but one do, that one did not come.

use super::hang_rank_absent;
use crate::base::severity::Confidence;
use crate::base::units::counted;
use crate::base::words::rank_words;
use crate::logs::What;
use crate::logs::catalog::{self, Scope};
use crate::logs::error_words::exception_words;
use crate::model::Model;
use crate::model::alarms::Alarm;
use crate::model::job::Job;
use crate::observe::evidence::Witness;
use crate::rules::findings::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// The catalogue's entry for a wait that took too long.
const TIMED_OUT: &str = "gloo-timeout";

/// Names the one rank that the others waited for, where the ranks of a job are known.
pub fn judge(model: &Model, job: &Job) -> Option<Finding> {
    let record = model.record_of(&job.id);
    let mut waited: BTreeMap<u32, &Alarm> = BTreeMap::new();
    let mut failed: BTreeSet<u32> = BTreeSet::new();
    for alarm in record.alarms.iter().filter(|a| model.files.get(&a.file).is_none_or(|f| f.is_present(a.run))) {
        let What::Exception(exception) = &alarm.event.what else { continue };
        let Some(rank) = model.rank_of_alarm(&job.id, alarm) else { continue };
        match catalog::find(Scope::Line, &exception_words(exception)).map(|s| s.id) {
            Some(TIMED_OUT) => drop(waited.entry(rank).or_insert(alarm)),
            _ => drop(failed.insert(rank)),
        }
    }
    let first = waited.values().min_by_key(|a| (a.at, a.line))?;
    // A launcher's table of failures names whom it had to end, too.
    let known = job.ranks.keys().chain(record.ranks.keys()).chain(record.launched.values()).copied();
    let size = model.world_size_of(job).or_else(|| known.max()?.checked_add(1))?;
    // Where less than half report, silence says little.
    if waited.len() + failed.len() + 1 < size as usize {
        return None;
    }
    let mut silent = (0..size).filter(|rank| !waited.contains_key(rank) && !failed.contains(rank));
    let (Some(rank), None) = (silent.next(), silent.next()) else { return None };
    let who = rank_words(&waited.keys().copied().collect::<Vec<_>>());
    let summary = format!("rank {rank} never arrived; {} waited for it in Gloo until the timeout", counted(waited.len(), "rank"));
    let mut found = hang_rank_absent::RULE.finding(format!("rank {rank}"), summary, first.at.unwrap_or(first.seen_at));
    found.job = Some(job.id.clone());
    found.witness = Witness::Watchdogs;
    found.confidence = Confidence::Likely;
    found.ranks = vec![rank];
    found.why = format!("{who} reported \"Timed out waiting\"; of the {size} ranks of the job only rank {rank} reports nothing");
    found.next = Some(model.py_spy(job, rank).unwrap_or_else(|| format!("read what rank {rank} printed last")));
    found.evidence = waited.values().take(3).map(|alarm| model.proof(alarm)).collect();
    Some(found)
}
