//! More was reported than is kept: how much, and of what.

use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::Stamp;
use crate::base::units::group;
use crate::rules::findings::{Finding, Ledger, LeftOut};
use std::collections::BTreeMap;

pub const RULE: Rule = Rule {
    id: Ledger::LEFT_OUT,
    severity: Severity::Warning,
    title: "More was reported than is kept: the rest is counted",
    how: "The lines, and the conditions, that had no room among the open findings: those of one text and severity are bounded, and all \
          together are. What is more severe takes the room of what is less. Lines that differ only in numbers, pointers, ids and addresses \
          are one finding and are not left out",
    advice: "Read these lines in the log itself: `grep -n WARN FILE`",
    life: while_it_holds(0, 20),
    implies: Implies::Nothing,
    on_tick: Some(check),
    ..Rule::PLAIN
};

/// What was left out of one job, or of the host.
#[derive(Default)]
struct Left {
    since: Option<Stamp>,
    of_rule: BTreeMap<&'static str, LeftOut>,
    /// Lines that were not even judged.
    unread: u64,
    /// The most severe of those, where they were read that far.
    unread_worst: Option<Severity>,
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let mut jobs: BTreeMap<Option<&str>, Left> = BTreeMap::new();
    for (job, rule, left) in ctx.ledger.left_out() {
        let of_job = jobs.entry(job).or_default();
        of_job.since = Some(of_job.since.map_or(left.since, |since| since.min(left.since)));
        of_job.of_rule.insert(rule, left);
    }
    for job in ctx.model.jobs.values() {
        let from_files: u64 = ctx.model.files_of(&job.id).map(|f| f.alarms_left_out).sum();
        // What comes live is judged when it comes, whether it is kept for the whole or not.
        let alarms = &ctx.model.record_of(&job.id).alarms;
        let (from_record, worst) = if job.archived { (alarms.overflow, alarms.overflow_worst) } else { (0, None) };
        if from_files + from_record > 0 {
            let of_job = jobs.entry(Some(&job.id)).or_default();
            of_job.unread += from_files + from_record;
            of_job.unread_worst = of_job.unread_worst.max(worst);
        }
    }
    out.extend(jobs.into_iter().map(|(job, left)| finding(job, &left, ctx.model.now)));
}

fn finding(job: Option<&str>, left: &Left, now: Stamp) -> Finding {
    let count = left.of_rule.values().map(|left| left.times).sum::<u64>() + left.unread;
    let (lines, were) = if count == 1 { ("line", "was") } else { ("lines", "were") };
    let summary = format!("{} more {lines} that report trouble {were} counted and not kept", group(count));
    let mut found = RULE.finding("all", summary, left.since.unwrap_or(now));
    found.job = job.map(str::to_owned);
    found.count = count;
    found.role = Role::Context;
    found.confidence = Confidence::Certain;
    let of_rule = left.of_rule.iter().map(|(rule, left)| format!("{} of {rule} ({} at most)", group(left.times), left.worst.as_str()));
    let worst = left.unread_worst.map_or(String::new(), |worst| format!(" ({} at most)", worst.as_str()));
    let unread = (left.unread > 0).then(|| format!("{} that came together with too many others{worst}", group(left.unread)));
    let parts: Vec<String> = of_rule.chain(unread).collect();
    found.why = format!("{}; {} findings of one text are kept at a time", parts.join(", "), Ledger::MAX_OF_KIND);
    found.next = Some("read these lines in the log itself: `grep -n WARN FILE`".into());
    found
}
