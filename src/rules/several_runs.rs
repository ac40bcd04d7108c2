//! The files that were given to `check` are of several runs. Only what cannot be otherwise counts: the logs of two nodes of one job have
//! different hosts, different ranks and, for groups inside a node, different communicators of the same size.

use super::{FactContext, Implies, ONCE, Rule};
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::Stamp;
use crate::logs::What;
use crate::model::Model;
use crate::model::chronicle::Chronicle;
use crate::model::job::Job;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

pub const RULE: Rule = Rule {
    id: "several-runs",
    severity: Severity::Info,
    title: "The files given to check are of several runs: their ranks are taken for those of one job",
    how: "Different Slurm job ids; another process with the same rank on the same GPU; or runs that came up one after the other, without a common communicator",
    advice: "Give each run to a check of its own",
    life: ONCE,
    implies: Implies::Nothing,
    on_facts: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    let archived = |job: &&Job| ctx.model.files_of(&job.id).any(|f| f.info.archived);
    out.extend(ctx.model.jobs.values().filter(|_| ctx.ended).filter(archived).filter_map(|job| judge(ctx.model, job)));
}

/// Files beyond these are not compared.
const MOST_FILES: usize = 256;
const MOST_NAMED: usize = 4;

/// What is known of the run that a file is of.
struct Run<'a> {
    path: String,
    chronicle: &'a Chronicle,
    /// Slurm's, where only one is named.
    job: Option<String>,
    /// It tells how NCCL began.
    began: bool,
}

/// Says so, where the files are of several runs.
fn judge(model: &Model, job: &Job) -> Option<Finding> {
    let mut jobs: BTreeMap<u32, BTreeSet<String>> = BTreeMap::new();
    for alarm in model.record_of(&job.id).alarms.iter() {
        if let What::Signed { signature, text, .. } = &alarm.event.what {
            jobs.entry(alarm.file).or_default().extend(signature.capture(text, "job").map(str::to_owned));
        }
    }
    let runs: Vec<Run> = model
        .files
        .iter()
        .filter(|(_, log)| log.job == job.id)
        .take(MOST_FILES)
        .map(|(file, log)| {
            let said = jobs.get(file).filter(|said| said.len() == 1).and_then(|said| said.first().cloned());
            let began = log.bringup.nccl_versions.first().is_some() || log.bringup.bootstraps.first().is_some();
            let path = log.info.path.clone();
            Run { job: said.or_else(|| job_of_path(&path)), path, chronicle: &log.chronicle, began }
        })
        .collect();
    // Files of one run: they have a communicator or a job in common.
    let mut group: Vec<usize> = (0..runs.len()).collect();
    let mut differ: Vec<(usize, usize, String)> = Vec::new();
    for b in 0..runs.len() {
        for a in 0..b {
            if runs[a].is_with(&runs[b]) {
                let (from, to) = (group[b], group[a]);
                group.iter_mut().filter(|g| **g == from).for_each(|g| *g = to);
            } else if let Some(why) = runs[a].differs(&runs[b]) {
                differ.push((a, b, why));
            }
        }
    }
    differ.retain(|(a, b, _)| group[*a] != group[*b]);
    let why = differ.first()?.2.clone();
    // As many as all differ from one another.
    let apart = |a: usize, b: usize| differ.iter().any(|(x, y, _)| (group[*x], group[*y]) == (a, b) || (group[*x], group[*y]) == (b, a));
    let mut kinds: Vec<usize> = Vec::new();
    for (a, b, _) in &differ {
        for g in [group[*a], group[*b]] {
            if !kinds.contains(&g) && kinds.iter().all(|k| apart(*k, g)) {
                kinds.push(g);
            }
        }
    }
    let names = kinds.iter().take(MOST_NAMED).map(|kind| {
        let of_it: Vec<&Run> = runs.iter().zip(&group).filter(|(_, g)| *g == kind).map(|(run, _)| run).collect();
        let job = of_it.iter().find_map(|r| r.job.as_ref()).map_or(String::new(), |job| format!("job {job}: "));
        let more = if of_it.len() > 1 { format!(" and {} more", of_it.len() - 1) } else { String::new() };
        format!("{job}{}{more}", of_it[0].path)
    });
    let more = if kinds.len() > MOST_NAMED { " · …" } else { "" };
    let names = names.collect::<Vec<_>>().join(" · ");
    let words = format!("these files look like {} runs: {names}{more}; give each to its own check", kinds.len());
    let mut found = RULE.finding("runs", words, Stamp::default());
    found.job = Some(job.id.clone());
    (found.role, found.confidence, found.why) = (Role::Context, Confidence::Likely, why.clone());
    found.next = Some("give each run to its own check: nccl-top check FILES-OF-ONE-RUN".into());
    let (a, b, _) = &differ[0];
    found.evidence = [a, b].map(|i| Evidence { path: Some(runs[*i].path.clone()), ..Evidence::of("file", why.clone()) }).into();
    Some(found)
}

impl Run<'_> {
    fn is_with(&self, other: &Run) -> bool {
        let job = self.job.is_some() && self.job == other.job;
        job || self.chronicle.marks.comms.intersection(&other.chronicle.marks.comms).next().is_some()
    }

    /// Why they cannot be of one run.
    fn differs(&self, other: &Run) -> Option<String> {
        if let (Some(a), Some(b)) = (&self.job, &other.job) {
            return Some(format!("Slurm jobs {a} and {b}"));
        }
        let (a, b) = (&self.chronicle.marks, &other.chronicle.marks);
        if a.comms.is_empty() || b.comms.is_empty() {
            return None;
        }
        let taken = a.seats.iter().find(|(seat, pids)| b.seats.get(seat).is_some_and(|others| others.is_disjoint(pids)));
        if let Some((seat, _)) = taken {
            return Some(format!("rank {} of {} is another process on GPU {} of {}", seat.rank, seat.nranks, seat.gpu, seat.host));
        }
        let times = a.from.zip(a.to).zip(b.from.zip(b.to))?;
        let ((a_from, a_to), (b_from, b_to)) = times;
        let apart = a_to < b_from || b_to < a_from;
        (apart && self.began && other.began).then(|| "one began after the other had ended, and they have no communicator in common".into())
    }
}

/// `slurm-4711.out`, `slurm-4711_3.out`. Small numbers are those of tasks.
fn job_of_path(path: &str) -> Option<String> {
    static NAME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"(?:^|/)slurm-([0-9]{4,}(?:_[0-9]+)?)(?:[._-][^/]*)?$").expect("pattern"));
    Some(NAME.captures(path)?[1].to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_slurms_own_output_tell_the_job() {
        for (path, job) in [
            ("slurm-4711.out", Some("4711")),
            ("a/slurm-4711_3.out.gz", Some("4711_3")),
            ("slurm-4711-node1.out", Some("4711")),
            ("slurm-3.out", None),
            ("myslurm-4711.out", None),
            ("slurm-4711/train.log", None),
        ] {
            assert_eq!(job_of_path(path).as_deref(), job, "{path}");
        }
    }
}
