//! The processes of the job did not find one another.

use super::chain::Chain;
use super::{FactContext, Facts, Implies, ONCE, Rule};
use crate::base::clean::{clean, clip};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::model::alarms::Alarm;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "rendezvous-failed",
    severity: Severity::Error,
    title: "The processes of the job did not find one another",
    how: "Messages of PyTorch's store and rendezvous, or of NCCL's bootstrap; a host name that does not resolve, or a connection of NCCL that is not answered, however often it is tried",
    advice: "Same MASTER_ADDR, MASTER_PORT and world size on all nodes; the port reachable from all of them; no process of an earlier run left on it",
    life: ONCE,
    chain: Chain { is_of_the_start: true, says_who_waited: true, ..Chain::PLAIN },
    implies: Implies::Failed,
    limits: &[&TRIED],
    on_facts: Some(on_facts),
    ..Rule::PLAIN
};

/// The names of a cluster's services may come some seconds after their pods.
const TRIED: Limit = Limit::seconds("rendezvous-failed", "after", 15.0, "a host name must not have resolved for this long");
/// PyTorch waits up to a minute from one try to the next.
const BETWEEN_TRIES: Duration = Duration::from_secs(75);
/// The text of a name that does not resolve, which is tried again until the timeout.
const HOST_UNKNOWN: &str = "store-host-unknown";
/// The text of a connection of NCCL to which there was not even a refusal. Each takes Linux 127 s by `net.ipv4.tcp_syn_retries`.
const UNANSWERED: &str = "sock-connect-unanswered";
const UNANSWERED_TIMES: u64 = 3;
/// Lines of launchers and libraries around the tries: of a log with more, the job went on.
const OTHER_LINES: u64 = 60;

fn on_facts(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        let tries = tries(&facts, HOST_UNKNOWN);
        if let Some(first) = tries.first().filter(|_| goes_on(ctx, &facts, &tries)) {
            out.push(unresolved(&facts, first, &tries));
        }
        let tries = self::tries(&facts, UNANSWERED);
        if let Some(first) = tries.first().filter(|_| is_never_answered(&facts, &tries)) {
            out.push(unanswered(&facts, first, &tries));
        }
    }
}

/// Lines of a text of the run that the log shows last.
fn tries<'a>(facts: &Facts<'a>, id: &str) -> Vec<&'a Alarm> {
    let of_run = |a: &&Alarm| facts.model.files.get(&a.file).is_some_and(|file| file.is_present(a.run));
    let is_it = |a: &&Alarm| a.event.what.signature().is_some_and(|s| s.id == id);
    facts.model.record_of(&facts.job.id).alarms.iter().filter(of_run).filter(is_it).collect()
}

fn times(tries: &[&Alarm]) -> u64 {
    tries.iter().map(|a| a.count).sum()
}

fn has_stepped(facts: &Facts) -> bool {
    facts.model.progress_of(&facts.job.id).is_some_and(|p| p.step.is_some() || p.done_at.is_some())
}

/// The log ends, or the job stands, while a connection is tried again and again; nothing has come of it.
fn is_never_answered(facts: &Facts, tries: &[&Alarm]) -> bool {
    /// The longest from one try to the next: what Linux waits, and NCCL's sleep after it.
    const BETWEEN: Duration = Duration::from_secs(180);
    /// Lines of other ranks, and of the terminal, in a log that ends so.
    const OTHERS: u64 = 12;
    let times = times(tries);
    let came_up = facts.bringup.inits.values().any(|lines| lines.newest_complete.is_some());
    let has_result = !facts.model.record_of(&facts.job.id).tables.iter().all(|(_, table)| table.rows.is_empty());
    // Several ranks that try once each meet one another a moment later.
    let is_again = tries.iter().any(|a| a.count >= UNANSWERED_TIMES);
    if !is_again || came_up || has_result || has_stepped(facts) {
        return false;
    }
    if facts.ended || facts.job.archived {
        // Of the file in which they stand: others may be those of ranks that wait in silence.
        return tries.iter().all(|first| {
            let behind = facts.model.files.get(&first.file).zip(first.line).map(|(file, line)| file.lines.saturating_sub(line));
            behind.is_some_and(|behind| behind < times + OTHERS)
        });
    }
    let last = tries.iter().map(|a| a.last_seen_at).max();
    last.is_some_and(|last| facts.model.now.since(facts.model.watched(last)) <= BETWEEN)
}

fn unanswered(facts: &Facts, first: &Alarm, tries: &[&Alarm]) -> Finding {
    let signature = first.event.what.signature();
    let peer = signature.and_then(|s| s.thing(&first.text, None)).map_or_else(String::new, |peer| format!("{}, ", clip(&clean(&peer), 80)));
    let words = format!("TCP connections to {peer}another rank are not answered: {} tries", times(tries));
    let since = first.at.unwrap_or(first.seen_at);
    let mut found = RULE.finding("unanswered", words, since);
    found.job = Some(facts.job.id.clone());
    found.confidence = Confidence::Likely;
    found.why = signature.map_or_else(String::new, |s| s.means.to_owned());
    found.next = signature.map(|s| s.next.to_owned());
    found.evidence = vec![Evidence::line(facts.model.path_of(first.file), first.line, &first.text, since)];
    found
}

/// It was tried in vain until now, or until the end of the log.
fn goes_on(ctx: &FactContext, facts: &Facts, tries: &[&Alarm]) -> bool {
    let (model, job) = (facts.model, facts.job);
    let times = times(tries);
    if has_stepped(facts) || !facts.bringup.inits.is_empty() || times < 2 {
        return false;
    }
    let (from, to) = (tries.iter().map(|a| a.seen_at).min(), tries.iter().map(|a| a.last_seen_at).max());
    let (Some(from), Some(to)) = (from, to) else { return false };
    if facts.ended || job.archived {
        let lines: u64 = model.files_of(&job.id).map(|f| f.lines).sum();
        let gave_up = ctx.ledger.first_open(|f| f.rule == RULE.id && f.severity >= Severity::Error && f.job.as_deref() == Some(&job.id));
        return facts.ended && (lines.saturating_sub(times) <= OTHER_LINES || gave_up.is_some());
    }
    let last_line = model.files_of(&job.id).filter_map(|f| f.last_line_at).max();
    let is_last = last_line.is_none_or(|at| at <= to.plus(Duration::from_secs(1)));
    is_last && to.since(from) >= TRIED.duration() && model.now.since(model.watched(to)) <= BETWEEN_TRIES
}

/// It may resolve in the end: time alone may change the answer.
pub fn may_pass(found: &Finding) -> bool {
    found.rule == RULE.id && found.signature.is_none()
}

fn unresolved(facts: &Facts, first: &Alarm, tries: &[&Alarm]) -> Finding {
    let signature = first.event.what.signature();
    let name = signature.and_then(|s| s.thing(&first.text, None)).unwrap_or_else(|| "of the store".into());
    let words = format!("rendezvous: the host name {} does not resolve on this host", clip(&clean(&name), 80));
    let since = first.at.unwrap_or(first.seen_at);
    let mut found = RULE.finding("host name", words, since);
    found.job = Some(facts.job.id.clone());
    found.confidence = Confidence::Certain;
    let times = times(tries);
    let over = tries.iter().map(|a| a.last_seen_at).max().map_or(Duration::ZERO, |last| last.since(first.seen_at));
    let for_ = if over >= Duration::from_secs(1) { format!(" in {}", span(over)) } else { String::new() };
    found.why = format!("tried {times} times{for_}, and never found");
    found.next = signature.map(|s| s.next.to_owned());
    found.evidence = vec![Evidence::line(facts.model.path_of(first.file), first.line, &first.text, since)];
    found
}
