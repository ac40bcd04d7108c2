//! One line per finding opened or cleared and per state change: JSON (`nccl-top.event/1`), or a sentence that reads well aloud.

use crate::base::mask::{self, shown};
use crate::base::time::{Stamp, Zone};
use crate::base::units::sentence;
use crate::diagnosis::countdown::Countdown;
use crate::diagnosis::session::{Event, Session};
use crate::rules::area::Area;
use crate::rules::findings::{Change, Finding};
use serde::Serialize;
use serde_json::{Map, Value, json};

pub const SCHEMA: &str = "nccl-top.event/1";

/// The JSON line of an event, without its line feed.
pub fn json_line(session: &Session, zone: Zone, at: Stamp, event: &Event) -> String {
    let mut line = Map::new();
    line.insert("schema".into(), SCHEMA.into());
    let started = session.model.started.unwrap_or(at);
    line.insert("t_s".into(), json!((at.secs_since(started) * 1e3).round() / 1e3));
    line.insert("at".into(), zone.rfc3339(at).into());
    match event {
        Event::State { job, state, phase, area, summary } => {
            line.insert("event".into(), "state".into());
            line.insert("job".into(), json!(job));
            line.insert("state".into(), json!(state));
            line.insert("phase".into(), json!(phase));
            line.insert("area".into(), json!(area));
            line.insert("summary".into(), shown(summary).into());
        }
        Event::Finding(Change::Opened(finding)) => {
            line.insert("event".into(), "opened".into());
            finding_fields(&mut line, finding, zone);
            line.insert("steps".into(), steps(session, finding));
            line.insert("watchdog".into(), watchdog(session, finding));
        }
        Event::Finding(Change::Cleared { finding, reason }) => {
            line.insert("event".into(), "cleared".into());
            finding_fields(&mut line, finding, zone);
            line.insert("summary".into(), json!(reason));
        }
    }
    let mut line = Value::Object(line);
    mask::document(&mut line);
    line.to_string()
}

/// The fields that every contract gives to a finding.
pub fn finding_fields(line: &mut Map<String, Value>, finding: &Finding, zone: Zone) {
    let f = finding;
    let mut put = |key: &str, value: Value| line.insert(key.into(), value);
    put("job", json!(f.job));
    put("rule", finding.rule.into());
    put("signature", json!(f.signature));
    put("severity", json!(finding.severity));
    put("role", json!(f.role));
    put("confidence", json!(f.confidence));
    put("area", json!(Area::of(f)));
    put("ranks", json!(f.ranks));
    put("gpus", json!(f.gpus));
    put("ports", json!(f.ports));
    put("summary", shown(&f.summary).into());
    put("why", shown(&f.whole_why()).into());
    put("next", json!(f.next.as_deref().map(shown)));
    put("count", finding.count.into());
    put("since", zone.rfc3339(f.since).into());
    let evidence: Vec<Value> = f.evidence.iter().map(|e| evidence_json(e, zone)).collect();
    put("evidence", evidence.into());
}

/// The commands, the first of which is `next`.
pub fn steps(session: &Session, finding: &Finding) -> Value {
    crate::diagnosis::remedies::of(&session.model, finding).iter().map(|s| Value::from(shown(&s.what))).collect()
}

/// When PyTorch's watchdog ends a hang, where its timeout is known.
pub fn watchdog(session: &Session, finding: &Finding) -> Value {
    let now = session.model.now;
    let countdown = Countdown::of(&session.model, finding);
    countdown.map_or(Value::Null, |c| json!({ "timeout_s": c.timeout.as_secs_f64(), "left_s": c.left_s(now), "source": shown(&c.source) }))
}

fn evidence_json(evidence: &crate::observe::evidence::Evidence, zone: Zone) -> Value {
    #[derive(Serialize)]
    struct Shown<'a> {
        kind: &'a str,
        path: Option<&'a str>,
        line: Option<u64>,
        text: &'a str,
        at: Option<String>,
    }
    let text = shown(&evidence.text);
    let path = evidence.path.as_deref().map(shown);
    let shown =
        Shown { kind: evidence.kind, path: path.as_deref(), line: evidence.line, text: &text, at: evidence.at.map(|at| zone.rfc3339(at)) };
    json!(shown)
}

/// The line for people. No columns, no symbols: a screen reader reads it as it stands.
pub fn spoken(session: &Session, zone: Zone, at: Stamp, event: &Event) -> String {
    let time = zone.hms(at);
    let job = |job: &Option<String>| job.as_ref().map_or(String::new(), |j| format!("job {j} "));
    let text = match event {
        Event::State { job: j, state, phase, area, summary } => {
            let phase = phase.or(area.map(Area::as_str)).map_or(String::new(), |p| format!(" ({p})"));
            let who = if j.is_none() { "the node ".to_owned() } else { job(j) };
            format!("{time} {who}is {}{phase}: {summary}", state.as_str())
        }
        Event::Finding(Change::Opened(f)) => {
            let role = match f.role {
                crate::base::severity::Role::Root => String::new(),
                other => format!(", {}", other.as_str()),
            };
            let why = if f.whole_why().is_empty() { String::new() } else { format!(" Why: {}", sentence(&f.whole_why())) };
            let next = f.next.as_ref().map_or(String::new(), |n| format!(" Next: {n}"));
            let ends = Countdown::of(&session.model, f).map_or(String::new(), |c| format!(" {}.", c.words(session.model.now)));
            format!("{time} {} {}{role}: {}{why}{ends}{next}", f.severity.as_str(), f.rule, sentence(&f.summary))
        }
        Event::Finding(Change::Cleared { finding, reason }) => {
            format!("{time} cleared {}: {}; {reason}", finding.rule, finding.summary)
        }
    };
    shown(&text).into_owned()
}
