//! The rules: what counts as trouble, how it is known, what to do.
//!
//! **To add a rule**: a file below `rules/` with a `pub const RULE: Rule` and its tests, and its line in [`RULES`]. A rule says what
//! holds now, with its evidence; opening, holding, clearing and counting are the ledger's business.

mod collective_timeout;
mod cuda_error;
mod cuda_oom;
mod gpu_not_answering;
mod gpu_throttled;
mod hang_rank_absent;
mod hang_symmetric;
mod loss_not_finite;
mod nccl_warn;
mod nic_down;
mod python_exception;
mod rank_exited;
mod rank_stopped;
mod source_trouble;
mod stale_process;
mod straggler;

use crate::findings::{Confidence, Found, Ledger, Life, Role, Severity};
use crate::judge::Look;
use crate::model::{Model, TextSeen};
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

/// Seen once, it stays for the life of the run.
pub const ONCE: Life = Life { hold: Duration::ZERO, linger: None };

pub const fn while_it_holds(hold_s: u64, linger_s: u64) -> Life {
    Life { hold: Duration::from_secs(hold_s), linger: Some(Duration::from_secs(linger_s)) }
}

/// All rules. The order is that of the catalogue, not of importance.
pub const RULES: &[Rule] = &[
    hang_rank_absent::RULE,
    hang_symmetric::RULE,
    rank_exited::RULE,
    rank_stopped::RULE,
    collective_timeout::RULE,
    cuda_oom::RULE,
    cuda_error::RULE,
    python_exception::RULE,
    loss_not_finite::RULE,
    straggler::RULE,
    gpu_not_answering::RULE,
    gpu_throttled::RULE,
    nic_down::RULE,
    nccl_warn::RULE,
    stale_process::RULE,
    source_trouble::RULE,
];

pub(crate) use hang_rank_absent::has_trained;

pub fn rule(id: &str) -> Option<&'static Rule> {
    RULES.iter().find(|r| r.id == id)
}

/// `rank 3`, `ranks 3, 5 and 7`, `24 ranks`
pub fn rank_words(ranks: &[u32]) -> String {
    match ranks {
        [] => "no rank".into(),
        [one] => format!("rank {one}"),
        [first @ .., last] if ranks.len() <= 8 => {
            let first: Vec<String> = first.iter().map(u32::to_string).collect();
            format!("ranks {} and {last}", first.join(", "))
        }
        many => format!("{} ranks ({}, {}, …)", many.len(), many[0], many[1]),
    }
}

/// The first two sentences: what happened, and the figure that goes with it.
pub fn first_sentences(text: &str) -> String {
    let end = text.match_indices(". ").nth(1).map_or(text.len(), |(at, _)| at);
    crate::text::clean::clip(&text[..end], 160).into_owned()
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
        found.why = "the first of its kind in this run; later ones of other ranks are counted, not opened".into();
        found.next = Some(next.into());
        if self.follows_a_root(rule) {
            found.role = Role::Cascade;
        }
        found
    }

    pub fn gpu_of_rank(&self, rank: u32) -> Option<u32> {
        let pid = self.model.jobs.get(&self.seen.job)?.ranks.get(&rank)?;
        self.model.gpu_of_pid(*pid)
    }

    /// An error of this job is open already, of another kind: what comes now follows from it.
    pub fn follows_a_root(&self, rule: &str) -> bool {
        self.ledger.open().iter().any(|f| {
            f.rule != rule
                && f.severity >= Severity::Error
                && f.found.role == Role::Root
                && f.found.job.as_deref() == Some(&self.seen.job)
                && self::rule(f.rule).is_some_and(|r| r.implies == Implies::Failed)
        })
    }
}

impl TickContext<'_> {
    /// A finding of the same job, of one of these rules, that names one of these ranks is open.
    pub fn explained_by(&self, rules: &[&str], job: &str, ranks: &[u32]) -> bool {
        self.ledger
            .open()
            .iter()
            .any(|f| rules.contains(&f.rule) && f.found.job.as_deref() == Some(job) && ranks.iter().any(|r| f.found.ranks.contains(r)))
    }
}

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

    #[test]
    fn ranks_are_named_up_to_eight() {
        assert_eq!(rank_words(&[3]), "rank 3");
        assert_eq!(rank_words(&[3, 5, 7]), "ranks 3, 5 and 7");
        assert_eq!(rank_words(&(0..24).collect::<Vec<_>>()), "24 ranks (0, 1, …)");
    }
}
