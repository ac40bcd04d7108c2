//! Many nodes, as one JSON document.

use crate::base::mask;
use crate::base::severity::{Role, Severity};
use crate::base::time::{Stamp, Zone};
use crate::fleet::asking::Frame;
use crate::fleet::model::Job;
use crate::fleet::rules::{Finding, weight_of};
use crate::rules;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};

const SCHEMA: &str = "nccl-top.fleet/1";

/// How bad the worst root finding is; `ok` where there is none at warning or above.
pub fn verdict(frame: &Frame) -> &'static str {
    match frame.findings.iter().filter(|f| f.role == Role::Root).map(|f| f.severity).max() {
        Some(Severity::Error | Severity::Critical) => "fail",
        Some(Severity::Warning) => "warn",
        _ => "ok",
    }
}

/// `server` is the URL as it may be shown.
pub fn json(frame: &Frame, server: &str, zone: Zone) -> Value {
    let fleet = &frame.fleet;
    let mut jobs: Vec<(&String, &Job)> = fleet.jobs.iter().collect();
    jobs.sort_by_cached_key(|(id, job)| weight_of(id, job, &frame.findings));
    let silent: Vec<&String> = fleet.nodes.iter().filter(|(_, node)| !node.answers).map(|(name, _)| name).collect();
    let mut document = json!({
        "schema": SCHEMA,
        "verdict": verdict(frame),
        "at": zone.rfc3339(fleet.at),
        "server": server,
        "took_ms": u64::try_from(frame.took.as_millis()).unwrap_or(u64::MAX),
        "scrape_interval_s": fleet.scrape.as_secs_f64(),
        "nodes": { "answering": fleet.nodes.len() - silent.len(), "silent": silent },
        "jobs": jobs.iter().map(|(id, job)| job_json(id, job, frame, zone)).collect::<Vec<_>>(),
        "findings": frame.findings.iter().filter(|f| f.severity > Severity::Info).map(|found| finding(found, zone)).collect::<Vec<_>>(),
        "notes": notes(&frame.findings),
        "missing_sources": fleet.blind,
        "remarks": fleet.remarks,
    });
    mask::document(&mut document);
    document
}

fn job_json(id: &str, job: &Job, frame: &Frame, zone: Zone) -> Value {
    let time = |at: Option<Stamp>| at.map(|at| zone.rfc3339(at));
    let cause = frame.findings.iter().find(|f| f.job.as_deref() == Some(id) && f.role == Role::Root);
    json!({
        "id": id,
        "labels": job.info,
        "state": job.state(),
        "since": time(job.since()),
        "states": job.states.iter().map(|(state, nodes)| (state.as_str().to_owned(), json!(nodes))).collect::<serde_json::Map<_, _>>(),
        "nodes": { "answering": job.answering(), "silent": job.silent() },
        "world_size": job.world_size,
        "ranks_seen": job.ranks_seen,
        "restarts": job.restarts,
        "step": job.step,
        "total_steps": job.steps,
        "step_time_s": job.step_time_s,
        "usual_step_time_s": job.usual_step_time_s,
        "last_step_at": time(job.last_step_at),
        "eta_s": job.eta().map(|left| left.as_secs()),
        "loss": job.loss,
        "throughput": job.throughput,
        "culprit": cause.map(|f| json!({ "rule": f.rule, "ranks": f.ranks, "gpus": f.gpus, "ports": f.ports, "nodes": f.nodes })),
    })
}

/// What is only worth knowing, once for each rule, with the nodes that report it: most of it is the same everywhere.
fn notes(findings: &[Finding]) -> Vec<Value> {
    let mut by_rule: BTreeMap<&str, (BTreeSet<&str>, BTreeSet<&str>)> = BTreeMap::new();
    for found in findings.iter().filter(|f| f.severity <= Severity::Info) {
        let (jobs, nodes) = by_rule.entry(&found.rule).or_default();
        jobs.extend(found.job.as_deref());
        nodes.extend(found.nodes.iter().chain(&found.witnesses).map(String::as_str));
    }
    let title = |rule: &str| rules::rule(rule).or_else(|| crate::fleet::rules::rule(rule)).map(|known| known.title);
    by_rule.into_iter().map(|(rule, (jobs, nodes))| json!({ "rule": rule, "title": title(rule), "jobs": jobs, "nodes": nodes })).collect()
}

fn finding(found: &Finding, zone: Zone) -> Value {
    json!({
        "rule": found.rule,
        "severity": found.severity,
        "role": found.role,
        "confidence": found.confidence,
        "job": found.job,
        "since": found.since.map(|at| zone.rfc3339(at)),
        "summary": found.summary,
        "why": found.why,
        "next": found.next,
        "ranks": found.ranks,
        "gpus": found.gpus,
        "ports": found.ports,
        "nodes": found.nodes,
        "witnesses": found.witnesses,
        "evidence": found.evidence,
    })
}
