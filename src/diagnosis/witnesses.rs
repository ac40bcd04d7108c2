//! Who else said it, and whom the launcher saw end first: what the other lines of a job's logs add to a finding that rests on one of them.

use super::causality::{chain, is_victim};
use crate::base::severity::{Role, Severity};
use crate::base::units::counted;
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
/// Hosts that are named.
const MOST_HOSTS: usize = 3;

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
        let is_present = |a: &&Alarm| model.files.get(&a.file).is_none_or(|file| file.is_present(a.run));
        let alarms = || model.record_of(&job.id).alarms.iter().filter(is_present);
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
        /// Lines: a process may print what it raises twice.
        const MANY: u64 = 3;
        self.gather(f);
        self.name_pids(f);
        if !is_error_of_program(f) {
            return;
        }
        let Some(own) = self.own_alarm(f) else { return };
        raised(own, f, notes);
        self.name_hosts(own, f);
        let Some(said) = self.said(own) else { return };
        // Who prints what others failed with is none of them.
        if own.rank.is_some_and(|rank| !f.ranks.is_empty() && !f.ranks.contains(&rank)) {
            return;
        }
        let mut ranks: BTreeSet<u32> = f.ranks.iter().copied().chain(said.ranks.iter().copied()).collect();
        let first = self.first.filter(|first| first.exit_code.is_some_and(|code| code > 0));
        // Of many that printed it, a launcher that names one alone says only who was first.
        let names_one = || self.model.record_of(&self.job.id).launch.launcher == Some("mpirun") && self.like_first.len() <= 1;
        let is_its = said.nameless > 0 && (said.nameless < MANY || !names_one());
        // Lines without a rank may be those of the one that the launcher saw end.
        if let Some(rank) = first.and_then(|first| first.rank).filter(|_| is_its && said.is_all && !chain(f).is_of_the_start) {
            ranks.insert(rank);
            // Printed more than once, it is of all that ended alike.
            ranks.extend(self.like_first.iter().filter(|_| said.nameless > 1));
        }
        if ranks.len() > 1 && ranks.len() > f.ranks.len() {
            notes.push(format!("{} say the same", rank_words(&ranks.iter().copied().collect::<Vec<_>>())));
        }
        if let Some((rank, host)) = first.and_then(|first| Some((first.rank?, first.host.as_deref())))
            && (ranks.contains(&rank) || said.nameless > 0 && said.is_all && (chain(f).is_of_the_start || !is_its))
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

    /// Puts all who printed one text of NCCL, or of a library below it, in the place of the first of them: `8 processes of node-3: `.
    fn gather(&self, f: &mut Finding) {
        if f.severity < Severity::Error || f.own_role != Role::Root {
            return;
        }
        let Some(own) = self.alarm_at(f) else { return };
        let Some(key) = text_key(own) else { return };
        let before = crate::rules::who_wrote(own.rank, &own.event.origin);
        let Some(text) = f.summary.strip_prefix(&before).filter(|_| !before.is_empty()).map(str::to_owned) else { return };
        let record = self.model.record_of(&self.job.id);
        let alike = || record.alarms.iter().filter(|a| a.run == own.run && text_key(a).as_ref() == Some(&key));
        let ranks: BTreeSet<u32> = alike().filter_map(|a| a.rank).collect();
        let text = match text_of(own) {
            Some(words) => of_all(text, words, alike().filter_map(text_of)),
            None => text,
        };
        let writers: BTreeSet<(Option<&str>, Option<u32>)> =
            alike().map(|a| (a.event.origin.host.as_deref(), a.event.origin.pid)).filter(|(_, pid)| pid.is_some()).collect();
        let hosts: BTreeSet<&str> = writers.iter().filter_map(|(host, _)| *host).collect();
        let devices: BTreeSet<u32> = alike().filter_map(|a| a.event.origin.cuda_dev).collect();
        if ranks.len() > 1 && alike().all(|a| a.rank.is_some()) {
            let ranks: Vec<u32> = ranks.into_iter().collect();
            f.summary = format!("{}: {text}", rank_words(&ranks));
            if ranks.len() <= MAX_NAMED && f.ranks.len() == 1 {
                f.ranks = ranks;
            }
        } else if writers.len() > 1 && !hosts.is_empty() {
            // `2 processes of 10` are none of ten.
            let in_words = |host: &&str| if host.bytes().all(|b| b.is_ascii_digit()) { format!("host {host}") } else { (*host).to_owned() };
            let whose = all_or_some(&hosts.iter().map(in_words).collect::<Vec<_>>());
            f.summary = format!("{} of {whose}: {text}", counted(writers.len(), "process"));
        } else if writers.len() == 1 && devices.len() > 1 {
            // One process with several GPUs.
            let devices: Vec<String> = devices.iter().map(u32::to_string).collect();
            let of_host = hosts.iter().next().map_or(String::new(), |host| format!(" of {host}"));
            f.summary = format!("CUDA devices {}{of_host}: {text}", crate::base::words::all_words(&devices));
        }
    }

    /// Puts all processes of a host that ended in one way, each with a line that names its pid, in the place of the first of them.
    fn name_pids(&self, f: &mut Finding) {
        let Some(own) = self.alarm_at(f).filter(|_| f.severity >= Severity::Error) else { return };
        let of = |a: &Alarm, name: &str| match &a.event.what {
            What::Signed { signature, text, .. } => signature.capture(text, name).map(str::to_owned),
            _ => None,
        };
        let Some(pid) = of(own, "pid").filter(|pid| f.summary.starts_with(&format!("pid {pid} "))) else { return };
        let node = of(own, "node");
        let record = self.model.record_of(&self.job.id);
        let host = &own.event.origin.host;
        let is_like =
            |a: &&Alarm| a.run == own.run && &a.event.origin.host == host && a.event.what.signature() == own.event.what.signature();
        let pids: BTreeSet<u64> =
            record.alarms.iter().filter(is_like).filter(|a| of(a, "node") == node).filter_map(|a| of(a, "pid")?.parse().ok()).collect();
        let whose = match pids.len() {
            0 | 1 => return,
            2..=MAX_NAMED => format!("pids {}", crate::base::words::all_words(&pids.iter().map(u64::to_string).collect::<Vec<_>>())),
            n => format!("{n} processes (pid {pid}, …)"),
        };
        f.summary = format!("{whose}{}", &f.summary["pid ".len() + pid.len()..]);
    }

    /// Puts all hosts, or pods, that printed one error in the place of the first of them, where no line names a rank.
    fn name_hosts(&self, own: &Alarm, f: &mut Finding) {
        let before = crate::rules::who_wrote(own.rank, &own.event.origin);
        let Some(text) = f.summary.strip_prefix(&before).filter(|_| before.starts_with("host ") && f.ranks.is_empty()) else { return };
        let alarms = self.model.record_of(&self.job.id).alarms.iter().filter(|a| a.run == own.run && a.rank.is_none());
        let said = gist(own);
        let hosts: BTreeSet<&String> = alarms.filter(|a| gist(a) == said).filter_map(|a| a.event.origin.host.as_ref()).collect();
        if hosts.len() > 1 {
            let word = if hosts.len() <= MOST_HOSTS { "hosts " } else { "" };
            f.summary = format!("{word}{}: {text}", all_or_some(&hosts.into_iter().cloned().collect::<Vec<_>>()));
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

    /// The line that a finding rests on, if it is an error of a program.
    fn own_alarm(&self, f: &Finding) -> Option<&'a Alarm> {
        self.alarms_at(f).find(|a| gist(a).is_some())
    }

    fn alarm_at(&self, f: &Finding) -> Option<&'a Alarm> {
        self.alarms_at(f).find(|a| text_key(a).is_some())
    }

    fn alarms_at(&self, f: &Finding) -> impl Iterator<Item = &'a Alarm> {
        self.model.alarms_at(&self.job.id, f.evidence.first())
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
        let said = own.event.said_at.as_ref();
        let place = said.and_then(|said| said.raised_at.as_ref()).filter(|place| !f.why.contains(place.as_str()));
        let source = said.and_then(|said| said.source.as_ref()).map_or(String::new(), |source| format!(": `{source}`"));
        // Where its calls go on from there, a library raised it.
        let how = if said.is_none_or(|said| said.calls.is_empty()) { "raised at" } else { "called from" };
        notes.extend(place.map(|place| format!("{how} {place}{source}")));
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

/// The words of a line of NCCL or of a library.
fn text_of(alarm: &Alarm) -> Option<&str> {
    match &alarm.event.what {
        What::NcclWarn { text, .. } | What::Signed { text, .. } => text.lines().next(),
        _ => None,
    }
}

/// A text of one writer with what the others have in its place: `mlx5_2:1, mlx5_3:1 and mlx5_4:1`. Addresses in memory are nobody's but its own.
fn of_all<'t>(mut text: String, own: &str, others: impl Iterator<Item = &'t str>) -> String {
    const MOST: usize = 8;
    let split = |line: &'t str| line.split(' ').collect::<Vec<_>>();
    let own: Vec<&str> = own.split(' ').collect();
    let mut values: Vec<BTreeSet<&str>> = vec![BTreeSet::new(); own.len()];
    for other in others.map(split).filter(|other| other.len() == own.len()) {
        for (all, word) in values.iter_mut().zip(other).filter(|(all, _)| all.len() <= MOST) {
            all.insert(word);
        }
    }
    let is_half = |word: &str| word.starts_with(['(', '[']) != word.ends_with([')', ']']);
    let halves = own.iter().zip(&values).filter(|(word, all)| all.len() > 1 && is_half(word)).count();
    for (word, all) in own.iter().zip(&values).filter(|(_, all)| all.len() > 1) {
        if text.matches(*word).count() != 1 {
            continue;
        }
        let hex = word.trim_start_matches('(').strip_prefix("0x").map(|hex| hex.trim_end_matches([')', ',', ':', ';', '.']));
        let is_in_memory = hex.is_some_and(|hex| !hex.is_empty() && hex.bytes().all(|b| b.is_ascii_hexdigit()));
        // `(3 != 1)` of one and `(2 != 0)` of another: what belongs together would be taken apart.
        let is_listed = all.len() <= MOST && !is_in_memory && (halves < 2 || !is_half(word)) && word.bytes().any(|b| b.is_ascii_digit());
        let instead = match is_listed {
            true => crate::base::words::all_words(&all.iter().map(|w| (*w).to_owned()).collect::<Vec<_>>()),
            // What is one writer's does not stand for the others'.
            false => "…".to_owned(),
        };
        text = text.replacen(word, &instead, 1);
    }
    text
}

/// What lines of NCCL and of libraries are alike by: their entry of the catalogue, else their words without numbers. Exceptions only by their
/// entry.
fn text_key(alarm: &Alarm) -> Option<String> {
    let text = match &alarm.event.what {
        What::NcclWarn { text, .. } => text,
        What::Signed { text, .. } => text,
        What::Exception(_) => return alarm.event.what.signature().map(|entry| entry.id.to_owned()),
        _ => return None,
    };
    Some(alarm.event.what.signature().map_or_else(|| shape(text), |entry| entry.id.to_owned()))
}

/// `a, b and c`, `5 hosts (a, b, c, …)`
fn all_or_some(hosts: &[String]) -> String {
    match hosts.get(..MOST_HOSTS) {
        Some(first) if hosts.len() > MOST_HOSTS => format!("{} hosts ({}, …)", hosts.len(), first.join(", ")),
        _ => crate::base::words::all_words(hosts),
    }
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
