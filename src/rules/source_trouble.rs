//! A source of nccl-top itself has nothing to tell: what it would have seen goes unseen.

use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::severity::{Confidence, Role, Severity};
use crate::observe::SourceState;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "source-trouble",
    severity: Severity::Info,
    title: "A source is absent, denied, slow or failing, or leaves something out: verdicts are made without it",
    how: "The state that each source reports of itself, files that are not followed, and polls that do not return",
    advice: "Read the detail: it names the path or call and the remedy. Running as the job's user or root shows more",
    life: while_it_holds(3, 3),
    implies: Implies::Nothing,
    on_tick: Some(check),
    ..Rule::PLAIN
};

/// Their absence is a fact about the machine; that of the others only means that no job runs.
const MISSED_WHEN_ABSENT: &[&str] = &["nvml", "rdma", "kmsg"];
/// These remark, while all is well, on what they leave out.
const LEAVES_OUT: &[&str] = &["tail"];

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, view) in &ctx.model.sources {
        let id = id.as_str();
        match view.state {
            SourceState::Ok if view.detail.is_none() || !LEAVES_OUT.contains(&id) => continue,
            SourceState::Absent if !MISSED_WHEN_ABSENT.contains(&id) => continue,
            _ => {}
        }
        let detail = view.detail.as_deref().unwrap_or("no detail");
        let summary = match view.state {
            SourceState::Ok => format!("{id}: {detail}"),
            state => format!("{id} {}: {detail}", state.as_str()),
        };
        let mut found = RULE.finding(id, summary, view.since);
        found.role = Role::Context;
        found.confidence = Confidence::Certain;
        let part = if view.state == SourceState::Ok { "seen in part" } else { "not seen" };
        found.why = format!("{part}: {}", view.title.unwrap_or(id));
        found.evidence = vec![Evidence::of("source", detail)];
        out.push(found);
    }
}
