//! The report of `check`: one document (`nccl-top.check/1`), or [`text`] for people.

pub mod facts;
pub mod run;
pub mod text;

use super::events::finding_fields;
use crate::archive::Report;
use crate::base::mask::{self, shown};
use crate::base::time::Zone;
use crate::model::bringup::{Item, Seen};
use crate::observe::evidence::Evidence;
use crate::rules::area::Area;
use crate::rules::findings::Finding;
use serde_json::{Map, Value, json};

pub const SCHEMA: &str = "nccl-top.check/1";

pub fn json(report: &Report, zone: Zone) -> Value {
    let mut document = json!({
        "schema": SCHEMA,
        "verdict": report.verdict,
        "inputs": report.inputs,
        "facts": facts::json(report),
        "checklist": report.checklist.iter().map(|i| item(report, i)).collect::<Vec<_>>(),
        "findings": report.findings.iter().map(|f| finding(f, zone)).collect::<Vec<_>>(),
        "root_cause": report.root_cause.map(|i| root_cause(report, &report.findings[i], zone)),
    });
    mask::document(&mut document);
    document
}

fn finding(f: &Finding, zone: Zone) -> Value {
    let mut fields = Map::new();
    finding_fields(&mut fields, f, zone);
    // Which link it was, no rule knows as yet.
    fields.insert("links".into(), json!([]));
    fields.insert("hosts".into(), json!(f.hosts.iter().map(|h| shown(h)).collect::<Vec<_>>()));
    // What carried no time has none.
    if f.evidence.iter().all(|e| e.at.is_none()) {
        fields.insert("since".into(), Value::Null);
    }
    Value::Object(fields)
}

/// A line as it was printed.
pub(super) fn line(said: &Evidence) -> Value {
    json!({ "path": said.path, "line": said.line, "text": shown(&said.text) })
}

fn root_cause(report: &Report, f: &Finding, zone: Zone) -> Value {
    json!({
        "rule": f.rule,
        "signature": f.signature,
        "summary": shown(&f.summary),
        "ranks": f.ranks,
        "gpus": f.gpus,
        "confidence": f.confidence,
        "area": Area::of(f),
        "when": run::when_words(report, f),
        "calls": run::calls(report, f),
        "around": report.again.around.iter().map(line).collect::<Vec<_>>(),
        "before": report.again.before.as_ref().map(line),
        "beside": report.again.beside.as_ref().map(line),
        "above_at": report.again.above.map(|(at, _)| zone.rfc3339(at)),
    })
}

fn item(report: &Report, item: &Item) -> Value {
    let evidence = item.proof.as_ref().map(|p| {
        json!({
            "kind": "line",
            "path": report.model().files.get(&p.file).map(|f| f.info.path.as_str()),
            "line": p.line,
            "text": shown(&p.text),
        })
    });
    json!({
        "id": item.id,
        "title": item.label,
        "status": status(item.state),
        "value": item.value,
        "evidence": evidence,
        "advice": item.advice.as_deref().map(shown),
    })
}

fn status(seen: Seen) -> &'static str {
    match seen {
        Seen::Pass => "pass",
        Seen::Warn => "warn",
        Seen::Fail => "fail",
        Seen::NotSeen => "not seen",
    }
}
