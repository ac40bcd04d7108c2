//! The rules: what counts as trouble, how it is known, what to do.
//!
//! **To add a rule**: a file below `rules/` with a `pub const RULE: Rule` and its tests, and its line in [`RULES`]. A rule says what
//! holds now, with its evidence; opening, holding, clearing and counting are the ledger's business.

mod collective_mismatch;
mod collective_timeout;
mod cuda_error;
mod cuda_oom;
pub mod dumps;
mod env_mismatch;
mod env_no_effect;
mod fallback_to_sockets;
mod gpu_driver;
mod gpu_ecc;
mod gpu_lost;
mod gpu_not_answering;
mod gpu_throttled;
mod gpu_xid;
mod grad_overflow;
mod hang_rank_absent;
mod hang_symmetric;
mod init_stuck;
mod job_cancelled;
mod loss_not_finite;
mod nccl_tests_failed;
mod nccl_warn;
mod nic_down;
mod nvlink_down;
mod nvlink_errors;
mod pcie_degraded;
mod python_exception;
mod rank_exited;
mod rank_oom_killed;
mod rank_stopped;
mod rendezvous_failed;
mod several_runs;
mod slow_steps;
mod source_trouble;
mod stale_process;
mod storage_failed;
mod straggler;
mod transport_below_topology;
mod version_mismatch;
mod wording;
mod wrong_interface;

use crate::findings::{Confidence, Evidence, Finding, Found, Ledger, Life, Role, Severity};
use crate::judge::Look;
use crate::machine::Hit;
use crate::model::bringup::Bringup;
use crate::model::bringup::trouble::{Facts, Trouble};
use crate::model::job::Job;
use crate::model::{Model, TextSeen};
use crate::text::What;
use crate::text::signature::{self, Part, Scope, Signature};
use crate::time::Stamp;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

/// One rule, complete: its name, its meaning, its advice and its test.
pub struct Rule {
    pub id: &'static str,
    pub severity: Severity,
    /// What it means, in a sentence.
    pub title: &'static str,
    /// How it is known.
    pub how: &'static str,
    /// What to do about it.
    pub advice: &'static str,
    pub life: Life,
    /// What the job is while it is open.
    pub implies: Implies,
    pub check: Check,
}

/// What an open finding makes of its job's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Implies {
    Nothing,
    Slow,
    Stuck,
    /// The job has failed, unless it goes on all the same.
    Failed,
}

pub enum Check {
    /// Runs on each event of each log line, as it is applied.
    Text(fn(&TextContext, &mut Vec<Found>)),
    /// Runs once a second.
    Tick(fn(&TickContext, &mut Vec<Found>)),
    /// Runs on what logs say of a job's bring-up, whenever that has changed, and when the log has ended.
    Facts(fn(&FactContext, &mut Vec<Found>)),
    /// Runs on bring-up facts, and once a second on how the job moves.
    FactsAndTick(fn(&FactContext, &mut Vec<Found>), fn(&TickContext, &mut Vec<Found>)),
    /// None of its own: its findings come from the signatures that stand under it, and from `check`.
    Signatures,
    /// Both: a process that ended is told by the log, or by its absence.
    Both(fn(&TextContext, &mut Vec<Found>), fn(&TickContext, &mut Vec<Found>)),
}

/// What a rule on text may know.
pub struct TextContext<'a> {
    pub model: &'a Model,
    pub seen: &'a TextSeen<'a>,
    pub ledger: &'a Ledger,
}

/// What a rule on ticks may know.
pub struct TickContext<'a> {
    pub model: &'a Model,
    pub looks: &'a BTreeMap<String, Look>,
    pub ledger: &'a Ledger,
}

/// What a rule on facts may know.
pub struct FactContext<'a> {
    pub model: &'a Model,
    pub ledger: &'a Ledger,
    /// No more lines will come.
    pub ended: bool,
    bringups: Vec<(&'a Job, Bringup)>,
}

/// What the rules on facts find now.
pub fn facts(model: &Model, ledger: &Ledger, ended: bool) -> Vec<(&'static Rule, Found)> {
    let bringups = model.jobs.values().map(|job| (job, model.bringup_of(&job.id))).collect();
    let ctx = FactContext { model, ledger, ended, bringups };
    let (mut all, mut found) = (Vec::new(), Vec::new());
    for rule in RULES {
        let (Check::Facts(check) | Check::FactsAndTick(check, _)) = rule.check else { continue };
        check(&ctx, &mut found);
        all.extend(found.drain(..).map(|f| (rule, f)));
    }
    all
}

impl FactContext<'_> {
    /// The bring-up of each job.
    fn each(&self) -> impl Iterator<Item = Facts<'_>> {
        self.bringups.iter().map(|(job, bringup)| {
            let ended = self.ended || job.ended_at.is_some();
            Facts { bringup, model: self.model, job, ended }
        })
    }

    /// One thing that is wrong, as a finding; where it is not sure to cost something, as a warning at most.
    fn found(&self, facts: &Facts, told: Trouble) -> Found {
        let since = told.since.or(told.proofs.iter().map(|p| p.at).min()).unwrap_or(self.model.now);
        let mut found = Found::new(told.subject, told.summary, since);
        found.job = Some(facts.job.id.clone());
        found.severity = (!told.fails).then_some(Severity::Warning);
        found.confidence = told.confidence;
        found.why = told.why;
        found.next = Some(told.advice);
        found.ranks = told.ranks;
        let path = |file: u32| self.model.files.get(&file).map_or("", |f| f.info.path.as_str());
        found.evidence = told.proofs.iter().map(|p| Evidence::line(path(p.file), p.line, &p.text, p.at)).collect();
        found.evidence.extend(told.seen);
        found
    }

    /// An error of another rule is open for this job.
    fn has_failed(&self, rule: &str, job: &str) -> bool {
        self.ledger.open().iter().any(|f| f.rule != rule && f.severity >= Severity::Error && f.found.job.as_deref() == Some(job))
    }
}

/// Seen once, it stays for the life of the run.
pub const ONCE: Life = Life { hold: Duration::ZERO, linger: None };

pub const fn while_it_holds(hold_s: u64, linger_s: u64) -> Life {
    Life { hold: Duration::from_secs(hold_s), linger: Some(Duration::from_secs(linger_s)) }
}

/// All rules. The order is that of the catalogue, not of importance.
pub const RULES: &[Rule] = &[
    hang_rank_absent::RULE,
    hang_symmetric::RULE,
    collective_mismatch::RULE,
    init_stuck::RULE,
    rank_exited::RULE,
    rank_stopped::RULE,
    rank_oom_killed::RULE,
    collective_timeout::RULE,
    rendezvous_failed::RULE,
    job_cancelled::RULE,
    cuda_oom::RULE,
    cuda_error::RULE,
    python_exception::RULE,
    storage_failed::RULE,
    loss_not_finite::RULE,
    grad_overflow::RULE,
    straggler::RULE,
    slow_steps::RULE,
    gpu_lost::RULE,
    gpu_not_answering::RULE,
    gpu_ecc::RULE,
    gpu_xid::RULE,
    gpu_driver::RULE,
    gpu_throttled::RULE,
    nvlink_down::RULE,
    nvlink_errors::RULE,
    pcie_degraded::RULE,
    nic_down::RULE,
    fallback_to_sockets::RULE,
    transport_below_topology::RULE,
    wrong_interface::RULE,
    env_mismatch::RULE,
    env_no_effect::RULE,
    version_mismatch::RULE,
    nccl_warn::RULE,
    nccl_tests_failed::RULE,
    stale_process::RULE,
    source_trouble::RULE,
    several_runs::RULE,
];

pub(crate) use hang_rank_absent::{has_trained, works_unseen};
pub(crate) use nccl_warn::shape;
pub(crate) use rank_exited::{ended_words, exit_words, is_by_exit_code, signal_words};
use wording::nccl_words;
pub use wording::{exception_words, first_sentences, last_error, rank_words};

/// A rule whose texts say why a rank ended.
pub(crate) fn tells_why(rule: &str) -> bool {
    names_its_rank(rule) || ["storage-failed", "loss-not-finite"].contains(&rule)
}

/// One whose texts are of one rank alone.
pub(crate) fn names_its_rank(rule: &str) -> bool {
    ["python-exception", "cuda-oom", "cuda-error"].contains(&rule)
}

pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.id == id)
}

/// Ends a finding of the judge of progress: what it rests on, and what could not be seen.
pub fn told_by(found: &mut Found, look: &Look) {
    if let Some(log) = look.log.as_ref().filter(|l| l.last_step_at.is_some() && l.quiet_for > l.patience) {
        found.evidence.push(Evidence::of("line", format!("no step in the log for {}", crate::time::span(log.quiet_for))));
    }
    if !look.lacks.is_empty() {
        found.evidence.push(Evidence::of("source", format!("not seen: {}", look.lacks.join(", "))));
    }
    found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
}

/// The command that shows where a process is, without stopping it.
pub fn py_spy(pid: u32) -> String {
    format!("py-spy dump --nonblocking --pid {pid}")
}

impl TextContext<'_> {
    /// The finding's frame: job, rank, GPU, the line as evidence. Errors that follow another root of the same job are its cascade.
    pub fn found(&self, subject: impl Into<String>, summary: impl Into<String>) -> Found {
        let seen = self.seen;
        let path = self.model.files.get(&seen.file).map_or("", |f| f.info.path.as_str());
        let mut found = Found::new(subject, summary, seen.at);
        found.job = Some(seen.job.clone());
        found.evidence = vec![crate::findings::Evidence::line(path, seen.line, seen.text, seen.at)];
        if let Some(rank) = seen.rank {
            found.ranks = vec![rank];
            found.gpus = self.gpu_of_rank(rank).into_iter().collect();
        }
        found
    }

    /// A failure that one rank tells first and the others repeat: they are counted, not opened.
    pub fn first_of_its_kind(&self, rule: &str, text: &str, next: &str) -> Found {
        let who = self.seen.rank.map_or(String::new(), |r| format!("{}: ", rank_words(&[r])));
        let mut found = self.found("first", format!("{who}{}", first_sentences(text)));
        found.confidence = Confidence::Certain;
        found.why = "the first of its kind in this run".into();
        found.next = Some(next.into());
        if self.follows_a_root(rule) {
            found.role = Role::Cascade;
        }
        found
    }

    /// What an event is in the catalogue of texts, if it is in it; what other rules tell in their own words is left to them.
    pub fn signature(&self) -> Option<(&'static Signature, Cow<'_, str>)> {
        let other_than = |rule: &str, text: String| {
            let signature = signature::find(Scope::Line, &text).filter(|s| s.rule != rule)?;
            Some((signature, Cow::Owned(text)))
        };
        match &self.seen.event.what {
            What::Signed { signature, text, .. } => Some((signature, text.into())),
            What::NcclWarn { site, text } => signature::find_warn(site.as_deref(), text).map(|s| (s, text.into())),
            What::Exception(e) if self.repeats(e) => None,
            What::Exception(e) => {
                // NCCL's own last words say more than the kind of its error.
                let by_reason = last_error(&e.message).and_then(|reason| signature::find(Scope::Nccl, reason));
                match by_reason {
                    Some(signature) => Some((signature, Cow::Owned(exception_words(e)))),
                    None => other_than("python-exception", exception_words(e)),
                }
            }
            What::CudaError { text } => other_than("cuda-error", text.clone()),
            _ => None,
        }
    }

    /// The same words of NCCL were told as its WARN, which the catalogue knows.
    fn warned(&self, text: &str) -> bool {
        text.starts_with("Cuda failure ") && self.seen.text.contains("NCCL WARN") && signature::find(Scope::Nccl, text).is_some()
    }

    /// Adds to a finding what the catalogue knows of its text.
    pub fn sign(&self, found: &mut Found, text: &str) {
        if let Some(signature) = signature::find(Scope::Line, text) {
            found.signature = Some(signature.id);
            found.severity = signature::user::severity_of(signature.id);
            found.why = if found.why.is_empty() { signature.means.into() } else { format!("{} · {}", signature.means, found.why) };
            found.next = Some(signature.next.into());
        }
    }

    /// A text of the catalogue as a finding.
    pub fn signed(&self, signature: &'static Signature, text: &str) -> Found {
        let told = signature.tell(text, self.seen.event.origin.host.as_deref());
        let subject = match told.thing {
            // The same process is killed in several words; a GPU has several troubles.
            Some(thing) if signature.rule == "rank-oom-killed" => thing,
            Some(thing) => format!("{} {thing}", signature.id),
            None => signature.id.to_owned(),
        };
        let summary = told.headline.map_or_else(|| first_sentences(text), |words| crate::text::clean::clip(&words, 220).into_owned());
        let mut found = self.found(subject, summary);
        // NCCL's INFO tells of what it does without, too.
        let most = match (&self.seen.event.what, signature.part) {
            (What::Signed { tried: true, .. }, Part::Harmless) => Severity::Info,
            (What::Signed { tried: true, .. }, _) => Severity::Warning,
            _ => Severity::Critical,
        };
        found.severity = Some(signature.severity.min(most));
        if let Some(ranks) = told.ranks {
            (found.ranks, found.gpus) = (ranks, Vec::new());
        } else if signature.rule == "collective-timeout" && signature.part != Part::Cause {
            // Who reports has waited for somebody else.
            (found.ranks, found.gpus) = (Vec::new(), Vec::new());
        }
        let explained_by = told.follows.unwrap_or(signature);
        found.signature = Some(signature.id);
        found.confidence = signature.confidence;
        found.why = explained_by.means.into();
        found.next = Some(explained_by.next.into());
        found.role = match signature.part.role() {
            Role::Root if self.follows_a_root(signature.rule) => Role::Cascade,
            role => role,
        };
        found
    }

    pub fn gpu_of_rank(&self, rank: u32) -> Option<u32> {
        let pid = self.model.jobs.get(&self.seen.job)?.ranks.get(&rank)?;
        self.model.gpu_of_pid(*pid)
    }

    /// ChildFailedError and its like only repeat what is known.
    pub fn repeats(&self, e: &crate::text::Exception) -> bool {
        let teardown = || signature::find(Scope::Line, &exception_words(e)).is_some_and(|s| s.part == Part::Teardown);
        e.victim && (self.follows_a_root("python-exception") || self.exited_first()) && teardown()
    }

    /// A rank of this job is known to have ended, another one than the writer, or in other words.
    pub fn exited_first(&self) -> bool {
        let of_job = |f: &Finding| f.rule == rank_exited::RULE.id && f.found.job.as_deref() == Some(&self.seen.job);
        self.ledger.first_open(|f| of_job(f) && !self.is_end_of_writer(f)).is_some()
    }

    /// A finding that knows of the writer of this line that it ended, and not why.
    fn is_end_of_writer(&self, f: &Finding) -> bool {
        rank_exited::is_by_exit_code(f) && (f.found.ranks.is_empty() || self.seen.rank.is_none_or(|rank| f.found.ranks.contains(&rank)))
    }

    /// An error of this job is open already, of another kind: what comes now follows from it.
    pub fn follows_a_root(&self, rule: &str) -> bool {
        /// What a job has survived for so long is not why it fails now.
        const SURVIVED: Duration = Duration::from_secs(120);
        self.ledger.open().iter().any(|f| {
            f.rule != rule
                && !(tells_why(rule) && self.is_end_of_writer(f))
                && (!f.found.machine || self.seen.at.since(f.last_at) < SURVIVED)
                && f.severity >= Severity::Error
                && f.found.role == Role::Root
                && f.found.job.as_deref() == Some(&self.seen.job)
                && self::rule(f.rule).is_some_and(|r| r.implies == Implies::Failed)
        })
    }
}

impl TickContext<'_> {
    /// A finding about a GPU, with the rank that works on it and its job, and the name of the GPU: `GPU 3 (0000:3b:00.0), rank 3`.
    pub fn of_gpu(&self, rule: &str, index: u32, subject: String, since: Stamp) -> (Found, String) {
        let mut hit = Hit::of_gpu(self.model, index);
        // What began with a job that has ended since is still its.
        if hit.job.is_none()
            && let Some(open) = self.ledger.open().iter().find(|f| f.rule == rule && f.found.subject == subject && f.found.job.is_some())
        {
            hit.job.clone_from(&open.found.job);
            hit.rank = open.found.ranks.first().copied();
        }
        let mut found = Found::new(subject, "", since);
        hit.mark(&mut found);
        (found, hit.name(self.model).unwrap_or_else(|| format!("GPU {index}")))
    }

    /// Where kernel or driver have told of the same fault of a GPU already, its subject: what counters say then belongs to it.
    pub fn told_already(&self, rule: &str, gpu: u32) -> Option<String> {
        let told =
            |f: &&&crate::findings::Finding| f.rule == rule && f.found.machine && f.found.signature.is_some() && f.found.gpus == [gpu];
        let open = self.ledger.open();
        open.iter().filter(|f| f.found.role != crate::findings::Role::Context).find(told).map(|f| f.found.subject.clone())
    }

    /// What a cause of another rule makes of a job that ended then, if one is open or was when it ended.
    pub fn explained(&self, rule: &Rule, job: &Job, at: Stamp) -> Option<Implies> {
        let still = self.ledger.open().into_iter().filter(|f| f.found.role == Role::Root);
        let then = self.ledger.past().filter(|f| f.found.role == Role::Root && f.cleared_at.is_some_and(|cleared| cleared >= at));
        // Ctrl-C is told as a warning, and explains all the same.
        let tells = |f: &&Finding| f.severity >= Severity::Error || f.rule == job_cancelled::RULE.id;
        let others = still.chain(then).filter(|f| f.rule != rule.id).filter(tells);
        // What a job has survived for two minutes is not why it fails now.
        let near = |f: &&Finding| !f.found.machine || at.since(f.last_at) < Duration::from_secs(120);
        let mine = others.filter(|f| f.found.job.as_deref() == Some(&job.id)).filter(near);
        mine.filter_map(|f| self::rule(f.rule)).map(|r| r.implies).filter(|implies| *implies >= Implies::Stuck).max()
    }

    /// A finding of the same job, of one of these rules, that names one of these ranks is open.
    pub fn explained_by(&self, rules: &[&str], job: &str, ranks: &[u32]) -> bool {
        self.ledger
            .open()
            .iter()
            .any(|f| rules.contains(&f.rule) && f.found.job.as_deref() == Some(job) && ranks.iter().any(|r| f.found.ranks.contains(r)))
    }
}

#[cfg(test)]
mod ends_tests;
#[cfg(test)]
mod facts_tests;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_rule_says_what_it_means_how_it_is_known_and_what_to_do() {
        let mut ids = std::collections::BTreeSet::new();
        for rule in RULES {
            assert!(ids.insert(rule.id), "{} stands twice", rule.id);
            for text in [rule.title, rule.how, rule.advice] {
                assert!(text.len() > 20, "{}: {text:?}", rule.id);
            }
        }
    }
}
