//! The jobs of this node as other nodes know them: by an id that all nodes of a job have. Processes that this node has put into several
//! jobs, such as those of two pods, may be of one.

use crate::diagnosis::session::Session;
use crate::model::identity::{self, Identity};
use crate::model::job::Job;
use std::collections::BTreeMap;

/// A job, as all its nodes know it.
pub struct SharedJob<'a> {
    pub identity: Identity,
    /// The one that matters most of those that this node has put its processes into.
    pub main: &'a Job,
    /// Those that run; else the main one. Each rank is one of the first that has it.
    pub parts: Vec<&'a Job>,
}

/// The jobs to export, those that matter most first.
pub fn shared(session: &Session) -> Vec<SharedJob<'_>> {
    let mut by_id: BTreeMap<String, (Identity, Vec<&Job>)> = BTreeMap::new();
    for job in session.verdicts.keys().filter_map(|id| session.model.jobs.get(id)) {
        let identity = identity::of(&session.model, job);
        by_id.entry(identity.id.clone()).or_insert_with(|| (identity, Vec::new())).1.push(job);
    }
    let mut jobs: Vec<SharedJob> = by_id
        .into_values()
        .filter_map(|(_, mut all)| {
            all.sort_by_key(|job| std::cmp::Reverse(session.weight_of(&job.id)));
            let main = *all.first()?;
            let running: Vec<&Job> = all.iter().copied().filter(|job| job.ended_at.is_none()).collect();
            let parts = if running.is_empty() { vec![main] } else { running };
            Some(SharedJob { identity: identity::of(&session.model, main), main, parts })
        })
        .collect();
    jobs.sort_by_key(|job| std::cmp::Reverse(session.weight_of(&job.main.id)));
    jobs
}
