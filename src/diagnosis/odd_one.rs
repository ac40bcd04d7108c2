//! What the lines of several ranks show together: who differs from the others, and who has printed nothing.

use crate::base::words::rank_words;
use crate::logs::catalog::Signature;
use crate::logs::{What, error_words::exception_words};
use crate::model::Model;
use crate::model::alarms::Alarm;
use crate::rules::findings::Finding;
use std::collections::{BTreeMap, BTreeSet};

/// The entries whose lines are put together: PyTorch's check of two fingerprints, and the store's count of those who came.
const FINGERPRINTS: &str = "collective-mismatch";
const CAME: &str = "store-wait-workers";

const SILENT: &str = " printed nothing in these inputs";

/// Names the rank that differs, or that has printed nothing, in the words of a finding.
pub fn tell(model: &Model, job: &str, f: &mut Finding) {
    match f.signature {
        Some(FINGERPRINTS) => differs(model, job, f),
        Some(CAME) if !f.summary.ends_with(SILENT) => has_not_begun(model, job, f),
        _ => {}
    }
}

fn text_of(alarm: &Alarm) -> Option<String> {
    match &alarm.event.what {
        What::Exception(e) => Some(exception_words(e)),
        What::Signed { text, .. } => Some(text.clone()),
        _ => None,
    }
}

/// Each line compares two ranks. What most of them called is known where three or more are compared.
fn differs(model: &Model, job: &str, f: &mut Finding) {
    let Some(entry) = f.entry else { return };
    let record = model.record_of(job);
    let own = model.alarms_at(job, f.evidence.first()).next();
    // An earlier attempt in the same file had a mismatch of its own.
    let of_run = |a: &&Alarm| own.is_none_or(|own| a.file != own.file || a.run == own.run);
    let alarms = record.alarms.iter().filter(of_run).filter(|a| a.event.what.signature().is_some_and(|s| s.id == entry.id));
    let mut calls: BTreeMap<u32, String> = BTreeMap::new();
    for text in alarms.filter_map(text_of) {
        for (rank, call) in
            [called(entry, &text, ["one", "op", "shape"]), called(entry, &text, ["other", "other_op", "other_shape"])].into_iter().flatten()
        {
            calls.entry(rank).or_insert(call);
        }
    }
    let mut by_call: BTreeMap<&str, Vec<u32>> = BTreeMap::new();
    calls.iter().for_each(|(rank, call)| by_call.entry(call).or_default().push(*rank));
    let Some((most, usual)) = by_call.iter().max_by_key(|(_, ranks)| ranks.len()) else { return };
    let odd: Vec<(&&str, &Vec<u32>)> = by_call.iter().filter(|(call, _)| *call != most).collect();
    let [(call, ranks)] = odd[..] else { return };
    if calls.len() < 3 || usual.len() <= ranks.len() {
        return;
    }
    f.summary = format!("{} called {call} where {} called {most}", rank_words(ranks), rank_words(usual));
    f.ranks = ranks.clone();
}

/// `ALLREDUCE of shape [272]`
fn called(entry: &Signature, text: &str, [rank, op, shape]: [&str; 3]) -> Option<(u32, String)> {
    let rank = entry.capture(text, rank)?.parse().ok()?;
    let shape = entry.capture(text, shape).map_or(String::new(), |shape| format!(" of shape [{shape}]"));
    Some((rank, format!("{}{shape}", entry.capture(text, op)?)))
}

/// As many as came have said that they began: the others are those who did not come.
fn has_not_begun(model: &Model, job: &str, f: &mut Finding) {
    const MOST: usize = 4;
    let record = model.record_of(job);
    let Some(entry) = f.entry else { return };
    let counts = record.alarms.iter().filter(|a| a.event.what.signature() == Some(entry)).find_map(text_of);
    let number = |name: &str| entry.capture(counts.as_deref()?, name)?.parse::<u32>().ok();
    let Some((came, all)) = number("came").zip(number("all")) else { return };
    let begun: BTreeSet<u32> = record.joined.keys().chain(record.ranks.keys()).copied().collect();
    let absent: Vec<u32> = (0..all.min(4096)).filter(|rank| !begun.contains(rank)).collect();
    if begun.len() == came as usize && !absent.is_empty() && absent.len() <= MOST && absent.len() == (all - came.min(all)) as usize {
        // Its log may be missing here: that is no proof.
        f.summary = format!("{}; {}{SILENT}", f.summary, rank_words(&absent));
    }
}
