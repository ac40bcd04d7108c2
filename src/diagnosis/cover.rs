//! Which findings only say again, with less, what another finding of the same job says: those are not shown.

use super::causality::{chain, is_failure, is_judgement, is_messenger, is_victim};
use crate::base::severity::{Role, Severity};
use crate::logs::catalog::Part;
use crate::rules::chain::Place;
use crate::rules::findings::Finding;
use std::collections::BTreeSet;

/// In place of an id: whatever failed.
const ANY_FAILURE: &str = "*";

/// The numbers of the findings of one job that others cover.
pub fn covered(findings: &[&mut Finding]) -> BTreeSet<u64> {
    let mut covered = BTreeSet::new();
    for cover in [by_better_text, by_failure, by_same_words, by_better_judgement, by_first_of_the_watchdogs] {
        let left: Vec<&Finding> = findings.iter().map(|f| &**f).filter(|f| !covered.contains(&f.no)).collect();
        covered.extend(cover(&left));
    }
    covered
}

/// A text of which the catalogue says that a rule, or another text, says the same and more.
fn by_better_text(findings: &[&Finding]) -> Vec<u64> {
    let covers = |to: &[&str], o: &Finding| {
        let fails = to.contains(&ANY_FAILURE) && is_failure(o) && !is_victim(o);
        fails || to.contains(&o.rule) && says_it_itself(o) || o.signature.is_some_and(|s| to.contains(&s))
    };
    let yields = |f: &&&Finding| {
        let to = f.entry.map_or(&[][..], |entry| entry.yields_to);
        findings.iter().any(|o| o.no != f.no && covers(to, o))
    };
    findings.iter().filter(yields).map(|f| f.no).collect()
}

/// In the words of its rule, not in those of a text.
fn says_it_itself(f: &Finding) -> bool {
    f.signature.is_none()
}

/// Who failed did not come to the end of its initialisation, either.
fn by_failure(findings: &[&Finding]) -> Vec<u64> {
    let hard = |f: &&Finding| is_failure(f) && !is_judgement(f) && !is_messenger(f) && !is_victim(f);
    let yields = |f: &&&Finding| chain(f).yields_to_failure && says_it_itself(f) && f.own_role == Role::Cascade;
    if !findings.iter().any(hard) {
        return Vec::new();
    }
    findings.iter().filter(yields).map(|f| f.no).collect()
}

fn by_same_words(findings: &[&Finding]) -> Vec<u64> {
    let mut known = BTreeSet::new();
    findings.iter().filter(|f| !known.insert((f.rule, f.summary.as_str()))).map(|f| f.no).collect()
}

/// Of several judgements of why a job hangs: whoever sees less says that nobody is to blame, or takes a wrong call for an absence.
fn by_better_judgement(findings: &[&Finding]) -> Vec<u64> {
    let is_hang = |f: &&Finding| chain(f).is_hang && !f.witness.is_text();
    let blames = |f: &Finding| !f.ranks.is_empty();
    let better = |k: &Finding, f: &Finding| {
        let knows_more = (k.confidence, k.witness, std::cmp::Reverse(k.no)) > (f.confidence, f.witness, std::cmp::Reverse(f.no));
        k.no != f.no && k.severity > Severity::Info && (blames(k) || !blames(f)) && knows_more
    };
    let all: Vec<&&Finding> = findings.iter().filter(|f| is_hang(f)).collect();
    let yields = |f: &&&&Finding| {
        let same = |k: &&&Finding| k.no != f.no && k.rule == f.rule && k.ranks == f.ranks && k.severity > Severity::Info;
        match f.severity {
            Severity::Info => all.iter().any(same),
            _ => all.iter().any(|k| better(k, f)),
        }
    };
    all.iter().filter(yields).map(|f| f.no).collect()
}

/// A timeout, the state of a queue, a heartbeat that stopped and the end of the process all say that a collective did not end: the one that
/// says most is kept.
fn by_first_of_the_watchdogs(findings: &[&Finding]) -> Vec<u64> {
    let worth = |f: &Finding| match f.part {
        _ if chain(f).place != Place::Messenger || f.own_role == Role::Context => None,
        None => Some(0),
        Some(Part::Messenger) => Some(1),
        // Another rank's end, reported by this one, is worth its count.
        Some(Part::Victim) => f.signature.filter(|s| s.starts_with("pg")).map(|_| 2),
        Some(Part::Teardown) => Some(3),
        Some(Part::Cause | Part::Harmless) => None,
    };
    // That a process was aborted says less than the monitor that did it.
    let fails = |f: &Finding| is_failure(f) && worth(f).is_none() && !is_victim(f) && !crate::rules::is_abort(f);
    let says_why = |f: &&Finding| is_judgement(f) || fails(f);
    // A teardown says nothing that the failure before it does not say.
    let explained = findings.iter().any(says_why);
    let Some(least) = findings.iter().filter_map(|f| worth(f)).min() else { return Vec::new() };
    let mut kept = false;
    let yields = |f: &&&Finding| match worth(f) {
        None | Some(0) => false,
        Some(n) if n > least || (explained && n >= 2) => true,
        Some(_) => std::mem::replace(&mut kept, true),
    };
    findings.iter().filter(yields).map(|f| f.no).collect()
}
