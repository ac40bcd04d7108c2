//! What a rank that is to blame for a hang wrote last, where it is more than every rank writes.

use crate::base::words::shape;
use crate::model::Model;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::collections::BTreeMap;

/// Newest lines that are looked at: it is done again as long as the hang lasts.
const LOOKED_AT: usize = 400;

/// The newest line of the rank that a finding blames which no other rank wrote and it wrote once: `caught signal 15 (node drain)`. Steps
/// and set-up are written again and again, or by all.
pub fn of_culprit(model: &Model, found: &Finding) -> Option<Evidence> {
    let (job, &[rank]) = (found.job.as_deref()?, found.ranks.as_slice()) else { return None };
    let of_job = |file: u32| model.files.get(&file).is_some_and(|f| f.job == job);
    let newest = || model.logbook.numbered().rev().take(LOOKED_AT).map(|(_, line)| line).filter(|line| of_job(line.file));
    newest().find(|line| line.rank == Some(rank))?;
    let mut times: BTreeMap<String, usize> = BTreeMap::new();
    for line in newest() {
        *times.entry(shape(&line.text)).or_default() += 1;
    }
    let is_own = |text: &str| times.get(&shape(text)) == Some(&1) && !text.contains(" NCCL INFO ");
    // Whoever went on to make steps has left it behind.
    let last_step = model.progress_of(job).and_then(|p| p.last_step_at);
    let line = newest().find(|line| line.rank == Some(rank) && is_own(&line.text))?;
    last_step.is_none_or(|at| line.at >= at).then(|| Evidence::line(model.path_of(line.file), line.no, &line.text, line.at))
}
