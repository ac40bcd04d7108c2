//! What a rank that is to blame for a hang wrote last, where it is more than every rank writes.

use crate::base::words::shape;
use crate::model::Model;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::collections::BTreeMap;

/// Newest lines that are looked at.
const LOOKED_AT: usize = 400;

/// Of ranks that are blamed, by job: as long as no line comes, nothing is looked at again.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LastWords {
    /// The logbook's end when it was looked at, and the line that was found.
    known: BTreeMap<(String, u32), (u64, Option<Evidence>)>,
}

impl LastWords {
    /// Ranks that are remembered.
    const MOST: usize = 64;

    /// The newest line of the rank that a finding blames which no other rank wrote and it wrote once: `caught signal 15 (node drain)`. Steps
    /// and set-up are written again and again, or by all.
    pub fn of_culprit(&mut self, model: &Model, found: &Finding) -> Option<Evidence> {
        let (job, &[rank]) = (found.job.as_deref()?, found.ranks.as_slice()) else { return None };
        let end = model.logbook.end();
        let key = (job.to_owned(), rank);
        if let Some((_, line)) = self.known.get(&key).filter(|(at, _)| *at == end) {
            return line.clone();
        }
        if self.known.len() >= Self::MOST {
            self.known.clear();
        }
        let line = newest(model, job, rank);
        self.known.insert(key, (end, line.clone()));
        line
    }
}

fn newest(model: &Model, job: &str, rank: u32) -> Option<Evidence> {
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
