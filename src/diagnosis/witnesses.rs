//! Who else said it, and whom the launcher saw end first: what the other lines of a job's logs add to a finding that rests on one of them.

use super::causality::{chain, is_victim};
use crate::base::severity::{Role, Severity};
use crate::base::words::{rank_words, shape};
use crate::logs::error_words::exception_words;
use crate::logs::{What, WorkerFailure};
use crate::model::Model;
use crate::model::alarms::Alarm;
use crate::model::job::Job;
use crate::rules::chain::Place;
use crate::rules::findings::Finding;
use std::collections::BTreeSet;

/// Ranks that are named.
const MAX_NAMED: usize = 64;

/// What is known of an error of a program beside its own line.
pub struct Witnesses<'a> {
    model: &'a Model,
    job: &'a Job,
    /// The launcher's word on who failed first.
    first: Option<&'a WorkerFailure>,
    /// The ranks that it lists with the same exit code.
    like_first: Vec<u32>,
    /// Ranks that report no timeout, where others do.
    silent: Vec<u32>,
}

impl<'a> Witnesses<'a> {
    pub fn of(model: &'a Model, job: &'a Job, findings: &[&mut Finding]) -> Witnesses<'a> {
        let failure = |a: &'a Alarm| match &a.event.what {
            What::WorkerFailure(f) if f.root => Some(f),
            _ => None,
        };
        let alarms = || model.record_of(&job.id).alarms.iter();
        let first = alarms().find_map(failure);
        let alike = |a: &Alarm| match &a.event.what {
            What::WorkerFailure(f) if first.is_some_and(|first| f.exit_code == first.exit_code) => f.rank,
            _ => None,
        };
        let like_first = alarms().filter_map(alike).collect();
        let waits = findings.iter().any(|f| chain(f).place == Place::Messenger && f.role != Role::Context);
        let nameless = findings.iter().any(|f| is_error_of_program(f) && f.ranks.is_empty());
        let silent = if waits && nameless { crate::rules::silent_ranks(model, job) } else { Vec::new() };
        Witnesses { model, job, first, like_first, silent }
    }

    /// Names the ranks that printed the same as a finding rests on, and notes what else is known of them.
    pub fn tell(&self, f: &mut Finding, notes: &mut Vec<String>) {
        if !is_error_of_program(f) {
            return;
        }
        let Some(own) = self.own_alarm(f) else { return };
        raised(own, f, notes);
        let Some(said) = self.said(own) else { return };
        let mut ranks: BTreeSet<u32> = f.ranks.iter().copied().chain(said.ranks.iter().copied()).collect();
        let first = self.first.filter(|first| first.exit_code.is_some_and(|code| code > 0));
        // Lines without a rank may be those of the one that the launcher saw end.
        if let Some(rank) = first.and_then(|first| first.rank).filter(|_| said.nameless > 0 && said.is_all && !chain(f).is_of_the_start) {
            ranks.insert(rank);
            // Printed more than once, it is of all that ended alike.
            ranks.extend(self.like_first.iter().filter(|_| said.nameless > 1));
        }
        if ranks.len() > 1 && ranks.len() > f.ranks.len() {
            notes.push(format!("{} say the same", rank_words(&ranks.iter().copied().collect::<Vec<_>>())));
        }
        if let Some((rank, host)) = first.and_then(|first| Some((first.rank?, first.host.as_deref())))
            && ranks.contains(&rank)
        {
            let on = host.map_or(String::new(), |host| format!(", on {}", crate::base::clean::clip(host, 80)));
            notes.push(format!("the launcher saw rank {rank} end first{on}"));
        }
        let alike: Vec<u32> = self.like_first.iter().copied().filter(|rank| !ranks.contains(rank)).collect();
        if !ranks.is_empty() && !alike.is_empty() && alike.len() <= MAX_NAMED && said.is_all {
            notes.push(format!("{} ended with the same exit code", rank_words(&alike)));
        }
        self.rename(f, ranks);
        if f.ranks.is_empty() && !self.silent.is_empty() && self.silent.len() <= 4 {
            let verb = if self.silent.len() == 1 { "reports" } else { "report" };
            notes.push(format!("{} {verb} no timeout while the others wait: probably whose it is", rank_words(&self.silent)));
        }
    }

    fn rename(&self, f: &mut Finding, ranks: BTreeSet<u32>) {
        if ranks.is_empty() || ranks.len() > MAX_NAMED || ranks.len() <= f.ranks.len() {
            return;
        }
        let before = if f.ranks.is_empty() { String::new() } else { format!("{}: ", rank_words(&f.ranks)) };
        f.ranks = ranks.into_iter().collect();
        if let Some(text) = f.summary.strip_prefix(&before) {
            f.summary = format!("{}: {text}", rank_words(&f.ranks));
        }
    }

    /// The line that a finding rests on.
    fn own_alarm(&self, f: &Finding) -> Option<&'a Alarm> {
        let proof = f.evidence.first()?;
        let (path, line) = (proof.path.as_deref()?, proof.line?);
        let mut alarms = self.model.record_of(&self.job.id).alarms.iter();
        alarms.find(|a| a.line == Some(line) && self.model.path_of(a.file) == path && gist(a).is_some())
    }

    /// Who printed the same as the line that a finding rests on.
    fn said(&self, own: &Alarm) -> Option<Said> {
        let record = self.model.record_of(&self.job.id);
        let gist = gist(own)?;
        let mut said = Said { is_all: true, ..Said::default() };
        for alarm in record.alarms.iter().filter(|a| a.run == own.run) {
            let Some(other) = self::gist(alarm) else { continue };
            if other != gist {
                said.is_all &= matches!(&alarm.event.what, What::Exception(e) if e.victim);
                continue;
            }
            match self.model.rank_of_alarm(&self.job.id, alarm) {
                Some(rank) if said.ranks.len() < MAX_NAMED => drop(said.ranks.insert(rank)),
                Some(_) => {}
                None => said.nameless += alarm.count,
            }
        }
        Some(said)
    }
}

/// Where an error that the catalogue knows was raised, and what it came after: of the others their rule tells.
fn raised(own: &Alarm, f: &Finding, notes: &mut Vec<String>) {
    let after = match &own.event.what {
        What::Exception(e) => e.after.as_ref(),
        _ => None,
    };
    if f.signature.is_some() || after.is_none() {
        let place = own.event.said_at.as_ref().and_then(|said| said.raised_at.as_ref()).filter(|place| !f.why.contains(place.as_str()));
        notes.extend(place.map(|place| format!("raised at {place}")));
    }
    notes.extend(
        after
            .filter(|first| !f.why.contains(first.as_str()) && !f.summary.contains(first.as_str()))
            .map(|first| format!("before it came {first}")),
    );
}

#[derive(Default)]
struct Said {
    ranks: BTreeSet<u32>,
    /// Lines that name no rank.
    nameless: u64,
    /// No error of another kind was printed.
    is_all: bool,
}

/// It is what a program failed of, in its own words.
fn is_error_of_program(f: &Finding) -> bool {
    chain(f).says_why && f.severity >= Severity::Error && f.own_role == Role::Root && !is_victim(f)
}

/// What an error says, without what differs from one rank to the next.
fn gist(alarm: &Alarm) -> Option<String> {
    let text = match &alarm.event.what {
        What::Exception(e) => exception_words(e),
        What::CudaError { text } | What::CudaOom { text, .. } => text.clone(),
        _ => return None,
    };
    Some(shape(text.lines().next().unwrap_or_default()))
}
