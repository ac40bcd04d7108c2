//! The ledger: what opens, counts, and clears.

use crate::support::at;
use nccl_top::base::severity::{Role, Severity};
use nccl_top::rules::findings::{Change, Finding, Ledger, Life};
use std::time::Duration;

const CONDITION: Life = Life { hold: Duration::from_secs(3), linger: Some(Duration::from_secs(5)), renews: false };

fn found(subject: &str, s: i64) -> Finding {
    Finding::new("r", Severity::Error, subject, "it holds", at(s))
}

fn look(ledger: &mut Ledger, s: i64, holds: bool) -> Vec<Change> {
    if holds {
        ledger.saw(at(s), found("x", s), CONDITION, 0);
    }
    ledger.settle(at(s), |_| CONDITION.linger);
    ledger.take_changes()
}

#[test]
fn the_first_of_some_is_found_as_in_the_whole_order() {
    let mut ledger = Ledger::default();
    let life = Life { hold: Duration::ZERO, ..CONDITION };
    let said = [("a", Severity::Warning, Role::Root, 1), ("b", Severity::Error, Role::Cascade, 1), ("c", Severity::Error, Role::Root, 3)];
    for (subject, severity, role, s) in said.into_iter().chain([("d", Severity::Error, Role::Root, 2)]) {
        ledger.saw(at(s), Finding { role, severity, ..found(subject, s) }, life, 1);
    }
    let order: Vec<&str> = ledger.open().iter().map(|f| f.subject.as_str()).collect();
    assert_eq!(order, ["d", "c", "a", "b"]);
    let first = |which: &dyn Fn(&Finding) -> bool| ledger.first_open(which).map(|f| f.subject.as_str());
    assert_eq!(first(&|_| true), Some("d"));
    assert_eq!(first(&|f| f.subject != "d"), Some("c"));
    assert_eq!(first(&|f| f.role == Role::Cascade), Some("b"));
    assert_eq!(first(&|f| f.rule == "other"), None);
}

#[test]
fn what_is_said_of_a_job_under_two_names_is_said_once() {
    let mut ledger = Ledger::default();
    let life = Life { hold: Duration::ZERO, linger: None, renews: false };
    for (s, job, times) in [(1, "train.log", 2), (3, "2890", 1)] {
        ledger.saw(at(s), Finding { job: Some(job.into()), ..found("x", s) }, life, times);
    }
    ledger.adopt("train.log", "2890");
    let open: Vec<_> = ledger.open().iter().map(|f| (f.job.as_deref(), f.count, f.opened_at, f.last_at)).collect();
    assert_eq!(open, [(Some("2890"), 3, at(1), at(3))]);
    ledger.clear_where(at(5), "over", |_| true);
    ledger.adopt("2890", "17.0");
    assert!(ledger.past().all(|f| f.job.as_deref() == Some("17.0")));
}

#[test]
fn a_condition_opens_after_its_hold_once_and_clears_after_its_linger() {
    let mut ledger = Ledger::default();
    let mut seen = Vec::new();
    for s in 0..20 {
        for change in look(&mut ledger, s, (2..10).contains(&s)) {
            seen.push((s, matches!(change, Change::Opened(_))));
        }
    }
    assert_eq!(seen, [(5, true), (14, false)]);
    assert_eq!(ledger.past().count(), 1);
}

#[test]
fn a_condition_that_flickers_never_opens() {
    let mut ledger = Ledger::default();
    assert!((0..60).all(|s| look(&mut ledger, s, s % 3 != 0).is_empty()));
}

#[test]
fn text_opens_at_once_counts_and_stays() {
    let text = Life { hold: Duration::ZERO, linger: None, renews: false };
    let mut ledger = Ledger::default();
    for s in 0..3 {
        ledger.saw(at(s), found("same", s), text, 1);
        ledger.settle(at(s + 1000), |_| None);
    }
    assert_eq!(ledger.take_changes().len(), 1);
    assert_eq!(ledger.open()[0].count, 3);
}

#[test]
fn findings_beyond_the_bound_are_counted() {
    let text = Life { hold: Duration::ZERO, linger: None, renews: false };
    let mut ledger = Ledger::default();
    for i in 0..Ledger::MAX_OF_KIND + 7 {
        ledger.saw(at(0), found(&i.to_string(), 0), text, 1);
    }
    let left_out: Vec<u64> = ledger.left_out().map(|(_, _, left)| left.times).collect();
    assert_eq!((ledger.open().len(), left_out), (Ledger::MAX_OF_KIND, vec![7]));
}

#[test]
fn what_has_no_room_when_a_log_is_judged_anew_is_counted_once() {
    let text = Life { hold: Duration::ZERO, linger: None, renews: false };
    let of_job = |i: usize| Finding { job: Some("train.log".into()), ..found(&i.to_string(), 0) };
    let whole = |to: usize| {
        let mut whole = Ledger::default();
        (0..to).for_each(|i| whole.saw(at(0), of_job(i), text, 1));
        whole
    };
    let mut ledger = Ledger::default();
    let left_out = |ledger: &Ledger| ledger.left_out().map(|(_, _, left)| left.times).sum::<u64>();
    for _ in 0..3 {
        ledger.replace_text(at(1), "train.log", whole(Ledger::MAX_OF_KIND + 7));
        assert_eq!((ledger.open().len(), left_out(&ledger)), (Ledger::MAX_OF_KIND, 7));
    }
    let mut full = Ledger::default();
    (0..Ledger::MAX_OF_KIND).for_each(|i| full.saw(at(0), found(&i.to_string(), 0), text, 1));
    full.replace_text(at(1), "train.log", whole(3));
    assert!(left_out(&full) >= 3, "what has no room beside others is counted");
}

#[test]
fn a_rank_that_is_missed_after_an_exception_of_its_own_is_no_second_root() {
    let finding = |rule, severity, s| Finding { ranks: vec![1], ..Finding::new(rule, severity, "x", "it holds", at(s)) };
    let roles = |exception_s: i64, severity| {
        let (mut exception, mut hang) =
            (finding("python-exception", severity, exception_s), finding("hang-rank-absent", Severity::Critical, 100));
        let mut findings = [&mut exception, &mut hang];
        let cause = nccl_top::diagnosis::causality::assign(&mut findings, &|_| false, &|_, _| false);
        (cause, exception.role, hang.role)
    };
    assert_eq!(roles(90, Severity::Error), (Some(0), Role::Root, Role::Cascade));
    // The others made steps after it: it was taken for survived.
    assert_eq!(roles(90, Severity::Warning), (Some(0), Role::Root, Role::Cascade));
    assert_eq!(roles(10, Severity::Warning).0, Some(1), "that was a minute before");
}
