//! Who began it: of all failures of a run, one is the cause, and the others follow from it.

use crate::findings::{Finding, Role, Severity};
use crate::rules::{Implies, rule};
use crate::text::signature::{self, Part};
use crate::time::Stamp;
use std::time::Duration;

/// The findings in the order of importance, with their roles, and which of them is the cause.
///
/// The cause is the earliest failure that is not by itself a consequence (a closed connection, a SIGTERM from the launcher). Ranks that
/// waited in vain for somebody are messengers: theirs is the cause only if nothing else is known.
pub fn assign(mut findings: Vec<Finding>) -> (Vec<Finding>, Option<usize>) {
    set_old_apart(&mut findings);
    let messengers = findings.iter().filter(|f| is_failure(f) && is_messenger(f));
    let began = messengers.map(|f| f.found.since).filter(|since| *since > Stamp::default()).min();
    // A judgement over all ranks explains what the messengers said; something hard explains it if it came first.
    let test = findings.iter().any(is_stopped_test);
    let explains = |f: &Finding| {
        let first = began.is_none_or(|began| f.found.since <= began) && !(test && f.rule == "rank-exited");
        is_judgement(f) || (!is_messenger(f) && first)
    };
    let cause = {
        let roots: Vec<usize> = findings
            .iter()
            .enumerate()
            .filter(|(_, f)| is_failure(f) && matches!(f.found.role, Role::Root | Role::Cascade) && !is_victim(f))
            .map(|(i, _)| i)
            .collect();
        let earliest = |which: &dyn Fn(&Finding) -> bool| {
            roots.iter().copied().filter(|i| which(&findings[*i])).min_by_key(|i| (findings[*i].found.since, place(&findings[*i])))
        };
        earliest(&|f| explains(f) && !is_judgement(f))
            .or_else(|| earliest(&is_judgement))
            .or_else(|| earliest(&is_messenger))
            .or_else(|| earliest(&|_| true))
    };
    // Whoever is missed because it failed is not missed without a reason; whoever was killed for its memory did not just end.
    let own = |f: &Finding| OWN_FAILURES.contains(&f.rule) && is_failure(f) && !is_victim(f) && !f.found.ranks.is_empty();
    let cause = cause.map(|c| {
        let missed = &findings[c];
        let of_missed = |f: &Finding| own(f) && f.found.ranks.iter().all(|r| missed.found.ranks.contains(r));
        let better = match missed.rule {
            "hang-rank-absent" => findings.iter().position(of_missed),
            "rank-exited" => findings.iter().position(|f| f.rule == "rank-oom-killed" && is_failure(f)),
            _ => None,
        };
        better.unwrap_or(c)
    });
    // A job that stands is ended by somebody in the end: that it stood is the cause, even where it is not certain.
    let stood = |f: &Finding| is_judgement(f) && f.severity >= Severity::Warning && f.found.role == Role::Root;
    let cause = match cause.filter(|c| findings[*c].rule == "job-cancelled") {
        Some(_) => findings.iter().position(stood).or(cause),
        None => cause,
    };
    for (i, f) in findings.iter_mut().enumerate() {
        if Some(i) == cause {
            f.found.role = Role::Root;
        } else if f.found.role == Role::Root && is_failure(f) && cause.is_some() {
            f.found.role = Role::Cascade;
        }
    }
    // Nothing but consequences, or nothing but warnings. What may explain a consequence is worth more than the consequence.
    let suspect = || {
        let warns = |f: &&Finding| f.severity >= Severity::Warning && f.found.role == Role::Root && !is_victim(f);
        let suspects = findings.iter().filter(warns).filter(|f| rule(f.rule).is_some_and(|r| r.implies != Implies::Nothing));
        let first = suspects.min_by_key(|f| (f.found.since, place(f)))?;
        findings.iter().position(|f| std::ptr::eq(f, first))
    };
    let cause = cause.or_else(suspect).or_else(|| {
        let worst = findings.iter().map(|f| f.severity).filter(|s| *s >= Severity::Warning).max()?;
        let of_worst = findings.iter().enumerate().filter(|(_, f)| f.severity == worst && f.found.role != Role::Context);
        of_worst.min_by_key(|(_, f)| (f.found.role, f.found.since, place(f))).map(|(i, _)| i)
    });
    let mut order: Vec<usize> = (0..findings.len()).collect();
    order.sort_by_key(|&i| {
        let f = &findings[i];
        (Some(i) != cause, f.found.role, std::cmp::Reverse(f.severity), f.found.since, place(f))
    });
    let root = cause.and_then(|c| order.iter().position(|i| *i == c));
    let mut slots: Vec<Option<Finding>> = findings.into_iter().map(Some).collect();
    (order.into_iter().filter_map(|i| slots[i].take()).collect(), root)
}

/// What a rank does not come back from.
const OWN_FAILURES: &[&str] = &["python-exception", "cuda-oom", "cuda-error", "rank-oom-killed", "storage-failed"];
/// A kernel keeps its lines for weeks.
const FROM_THE_KERNEL: &[&str] = &["gpu-xid", "gpu-lost", "gpu-ecc", "nvlink-down", "rank-oom-killed", "nic-down"];
const OLD: Duration = Duration::from_secs(12 * 3600);

/// What the kernel told long before anything else failed is of another day.
fn set_old_apart(findings: &mut [Finding]) {
    let from_kernel = |f: &Finding| FROM_THE_KERNEL.contains(&f.rule);
    let timed = |f: &&Finding| is_failure(f) && f.found.since > Stamp::default();
    let Some(first) = findings.iter().filter(timed).filter(|f| !from_kernel(f)).map(|f| f.found.since).min() else { return };
    for f in findings.iter_mut().filter(|f| from_kernel(f) && f.found.evidence.iter().any(|e| e.at.is_some())) {
        let before = first.since(f.found.since);
        if before > OLD {
            f.found.role = Role::Context;
            f.severity = f.severity.min(Severity::Warning);
            f.found.why = format!("{} before the job failed; {}", crate::time::span(before), f.found.why);
        }
    }
}

const SLURM_REASONS: &[&str] = &["slurm-time-limit", "slurm-preempted", "slurm-signal", "slurm-node-failure", "slurm-oom"];

/// Takes out what only says again that a collective did not end: of a timeout, the state of a queue, a heartbeat that stopped and the
/// end of the process the one that tells most is kept.
pub fn tidy(findings: &mut Vec<Finding>) {
    // The table of a test says what its lines say.
    if findings.iter().any(|f| f.found.signature.is_none() && is_stopped_test(f)) {
        findings.retain(|f| f.found.signature != Some("nccl-test-failure"));
    }
    // The table of failures stands right below it.
    if findings.iter().any(|f| f.rule == "rank-exited" && f.found.signature.is_none()) {
        findings.retain(|f| f.found.signature != Some("child-failed"));
    }
    // Whom the kernel killed says more than who asked for memory at that moment.
    if findings.iter().any(|f| f.rule == "rank-oom-killed" && f.found.subject.starts_with("pid ")) {
        findings.retain(|f| f.found.signature != Some("oom-invoked"));
    }
    // What became of it stands beside the channels.
    if findings.iter().any(|f| f.rule == "transport-below-topology" && f.found.subject == "gpudirect") {
        findings.retain(|f| f.found.signature != Some("gdr-off-for-nic"));
    }
    // Why Slurm ended a job says more than that it did.
    if findings.iter().any(|f| f.found.signature.is_some_and(|s| SLURM_REASONS.contains(&s))) {
        findings.iter_mut().filter(|f| f.found.signature == Some("slurm-cancelled")).for_each(|f| f.found.role = Role::Teardown);
    }
    // Who failed did not come to the end of its initialisation, either.
    let hard = findings.iter().any(|f| is_failure(f) && !is_judgement(f) && !is_messenger(f) && !is_victim(f));
    findings.retain(|f| !(hard && f.rule == "init-stuck" && f.found.signature.is_none() && f.found.role == Role::Cascade));
    let mut told: Vec<(&'static str, String)> = Vec::new();
    findings.retain(|f| {
        let thing = (f.rule, f.found.summary.clone());
        let again = told.contains(&thing);
        told.push(thing);
        !again
    });
    let tells = |f: &Finding| match part(f) {
        _ if f.rule != "collective-timeout" || f.found.role == Role::Context => None,
        None => Some(0),
        Some(Part::Messenger) => Some(1),
        // Another rank's end, told by this one, is worth its count.
        Some(Part::Victim) => f.found.signature.filter(|s| s.starts_with("pg")).map(|_| 2),
        Some(Part::Teardown) => Some(3),
        Some(Part::Cause | Part::Harmless) => None,
    };
    let is_told = |f: &Finding| is_judgement(f) || (is_failure(f) && tells(f).is_none() && !is_victim(f));
    if findings.iter().any(|f| tells(f).is_some() || is_told(f)) {
        findings.retain(|f| !f.found.signature.is_some_and(|s| matches!(s, "pg-dump-start" | "pg-dump-first")));
    }
    let least = match findings.iter().filter_map(tells).min() {
        Some(least) => least,
        None => return,
    };
    // A teardown says nothing that the failure before it does not say.
    let explained = findings.iter().any(is_told);
    let mut kept = false;
    findings.retain(|f| match tells(f) {
        None => true,
        Some(n) if n > least || (explained && n >= 2) => false,
        Some(0) => true,
        Some(_) => !std::mem::replace(&mut kept, true),
    });
}

/// Where its first evidence stands.
fn place(f: &Finding) -> (Option<String>, Option<u64>) {
    f.found.evidence.first().map_or((None, None), |e| (e.path.clone(), e.line))
}

/// It ends a job, or keeps it from going on.
fn is_failure(f: &Finding) -> bool {
    f.severity >= Severity::Error && f.found.role != Role::Context && rule(f.rule).is_some_and(|r| r.implies != Implies::Slow)
}

/// It says only that somebody else did not come.
fn is_messenger(f: &Finding) -> bool {
    f.rule == "collective-timeout" || part(f) == Some(Part::Messenger) || is_stopped_test(f)
}

/// A test of nccl-tests ends itself because a call failed: NCCL's own lines say why.
fn is_stopped_test(f: &Finding) -> bool {
    f.rule == "nccl-tests-failed" && f.found.summary.contains("Test ") && f.found.summary.contains("ailure ")
}

/// What all ranks together show, however late the last of them told.
fn is_judgement(f: &Finding) -> bool {
    matches!(f.rule, "hang-rank-absent" | "hang-symmetric" | "collective-mismatch" | "init-stuck")
}

fn is_victim(f: &Finding) -> bool {
    matches!(part(f), Some(Part::Victim | Part::Teardown)) || (f.rule == "python-exception" && f.found.subject == "victim")
}

fn part(f: &Finding) -> Option<Part> {
    Some(signature::by_id(f.found.signature?)?.1.part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::{Found, Severity};
    use crate::time::Stamp;

    fn found(rule: &'static str, signature: Option<&'static str>, summary: &str) -> Finding {
        let severity = Severity::Error;
        let mut found = Found::new(summary, summary, Stamp(1));
        found.signature = signature;
        Finding { rule, severity, found, opened_at: Stamp(1), last_at: Stamp(1), cleared_at: None, count: 1 }
    }

    fn left(mut findings: Vec<Finding>) -> Vec<String> {
        tidy(&mut findings);
        findings.into_iter().map(|f| f.found.summary).collect()
    }

    #[test]
    fn of_what_says_again_that_a_collective_did_not_end_the_best_is_kept() {
        let heartbeat = || found("collective-timeout", Some("pg-heartbeat-timeout"), "heartbeat");
        let teardown = || found("collective-timeout", Some("pg-teardown"), "teardown");
        let timeout = || found("collective-timeout", None, "timeout");
        assert_eq!(left(vec![heartbeat(), teardown(), timeout()]), ["timeout"]);
        assert_eq!(left(vec![teardown(), heartbeat()]), ["heartbeat"]);
        assert_eq!(left(vec![teardown()]), ["teardown"]);
        assert_eq!(left(vec![teardown(), found("cuda-error", None, "fault")]), ["fault"]);
    }

    #[test]
    fn slurm_says_why_and_tables_say_what() {
        let mut both =
            vec![found("job-cancelled", Some("slurm-cancelled"), "that"), found("job-cancelled", Some("slurm-time-limit"), "why")];
        tidy(&mut both);
        let (ordered, root) = assign(both);
        assert_eq!(root.map(|i| ordered[i].found.summary.as_str()), Some("why"));
        assert_eq!(left(vec![found("rank-exited", None, "rank 1"), found("rank-exited", Some("child-failed"), "child")]), ["rank 1"]);
        assert_eq!(left(vec![found("nccl-warn", None, "same"), found("nccl-warn", None, "same")]), ["same"]);
    }
}
