//! Ranks that still waited for others in the barrier on the store, with which `init_process_group` ends, when their log ended. Each says how many
//! have come; who does not say that it waits is missing.

use super::init_stuck;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::counted;
use crate::base::words::rank_words;
use crate::logs::What;
use crate::model::Model;
use crate::model::alarms::Alarm;
use crate::model::job::Job;
use crate::observe::evidence::Witness;
use crate::rules::findings::Finding;
use std::collections::BTreeMap;

/// The catalogue's entry for that line.
const WAITS: &str = "store-barrier-waits";
/// Missing ranks that are named.
const MOST_NAMED: usize = 16;

/// What such a line has for one name; nothing of another line.
fn capture<'a>(alarm: &'a Alarm, name: &str) -> Option<&'a str> {
    let What::Signed { signature, text, .. } = &alarm.event.what else { return None };
    signature.capture(text, name).filter(|_| signature.id == WAITS)
}

/// Names the ranks that had not come, where the log ends with the wait.
pub fn judge(model: &Model, job: &Job) -> Option<Finding> {
    // Live, others may still come.
    if !job.archived {
        return None;
    }
    let record = model.record_of(&job.id);
    let is_present = |a: &&Alarm| model.files.get(&a.file).is_none_or(|f| f.is_present(a.run));
    let said = |a: &Alarm, name: &str| capture(a, name).and_then(|value| value.parse::<u32>().ok());
    // Something came of it, which is told.
    if record.alarms.iter().filter(is_present).any(|a| a.event.what.is_failure()) {
        return None;
    }
    let all: Vec<&Alarm> = record.alarms.iter().filter(is_present).filter(|a| said(a, "rank").is_some()).collect();
    // Who had come by the last word of it.
    let newest = *all.iter().max_by_key(|a| (said(a, "count"), a.line))?;
    // The barrier of a group that was made later has another key: then the first has let all through.
    if all.iter().any(|a| capture(a, "key") != capture(newest, "key")) {
        return None;
    }
    let waits: BTreeMap<u32, &Alarm> = all.iter().filter_map(|a| Some((said(a, "rank")?, *a))).collect();
    let (world, come) = (said(newest, "world")?, said(newest, "count")?);
    let has_stepped = model.progress_of(&job.id).is_some_and(|p| !p.is_empty());
    // A program that went on has written something else.
    let went_on = model.files.iter().any(|(id, log)| {
        let own = || all.iter().filter(|a| a.file == *id);
        let said: u64 = own().map(|a| a.count).sum();
        own().filter_map(|a| a.line).min().is_some_and(|first| log.lines >= first + said)
    });
    if has_stepped || went_on || come >= world || world > 1 << 14 || !model.comms.is_empty() {
        return None;
    }
    let missing: Vec<u32> = (0..world).filter(|rank| !waits.contains_key(rank)).collect();
    // Where others have come that do not say so here, who is missing is not known.
    let are_known = missing.len() == (world - come) as usize && missing.len() <= MOST_NAMED;
    let who = if are_known { rank_words(&missing) } else { counted(world - come, "rank") };
    let verb = if world - come == 1 { "has" } else { "have" };
    let words = format!("{who} {verb} not come to the start: {come} of {world} wait in the barrier on the store, and the log ends");
    let mut found = init_stuck::RULE.finding("store barrier".to_owned(), words, newest.at.unwrap_or(newest.seen_at));
    found.job = Some(job.id.clone());
    (found.severity, found.own_severity) = (Severity::Warning, Severity::Warning);
    found.witness = Witness::Text;
    found.confidence = Confidence::Possible;
    let limit = capture(newest, "limit").unwrap_or_default();
    found.why = format!(
        "the ranks that are there say that they wait, after 10 s at least; the limit is {limit}. NCCL has not begun yet, and the store works"
    );
    let whose = if are_known { who } else { "the others".to_owned() };
    found.next = Some(format!(
        "look at what {whose} printed last, and whether as many processes were started as the world size of {world} wants (`ps`, the launcher's output on each node)"
    ));
    found.ranks = if are_known { missing } else { Vec::new() };
    found.evidence = waits.values().rev().take(3).map(|alarm| model.proof(alarm)).collect();
    Some(found)
}
