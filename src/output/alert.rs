//! Which findings somebody is to be called for, and what is sent then: one JSON document (`nccl-top.alert/1`) in the form of an Alertmanager
//! webhook, with the `text` that Slack and its like show.

use super::events::{finding_fields, steps};
use crate::base::mask::{self, shown};
use crate::base::severity::{Role, Severity};
use crate::base::time::{Stamp, Zone};
use crate::diagnosis::session::Session;
use crate::edge::courier::Message;
use crate::rules::findings::Finding;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;
use std::time::Duration;

pub const SCHEMA: &str = "nccl-top.alert/1";

/// A finding must have been open this long: the cause may be found a moment after what follows from it.
const SETTLED: Duration = Duration::from_secs(2);

/// What was sent, and when.
#[derive(Default)]
pub struct Alerts {
    /// Findings by their numbers in the ledger.
    sent: BTreeSet<(&'static str, u64)>,
    last: Option<Stamp>,
}

impl Alerts {
    /// The finding to send now, to be asked once a second: critical, a root, not sent yet, and not `quiet`. At most one in `every`; others wait,
    /// and are sent if they are still open then.
    pub fn due(&mut self, session: &Session, zone: Zone, every: Duration, quiet: impl Fn(&Finding) -> bool) -> Option<Message> {
        let now = session.model.now;
        if self.last.is_some_and(|last| now.since(last) < every) {
            return None;
        }
        let is_new = |f: &Finding| !self.sent.contains(&(f.rule, f.no)) && now.since(f.opened_at) >= SETTLED;
        let finding = session.ledger.first_open(|f| f.severity == Severity::Critical && f.role == Role::Root && is_new(f) && !quiet(f))?;
        let open: BTreeSet<_> = session.ledger.open().iter().map(|f| (f.rule, f.no)).collect();
        self.sent.retain(|known| open.contains(known));
        self.sent.insert((finding.rule, finding.no));
        self.last = Some(now);
        Some(message(session, zone, finding))
    }
}

/// What is sent of a finding.
pub fn message(session: &Session, zone: Zone, finding: &Finding) -> Message {
    let host = shown(&session.model.host).into_owned();
    let (severity, at) = (finding.severity.as_str(), zone.rfc3339(session.model.now));
    let (summary, why) = (shown(&finding.summary).into_owned(), shown(&finding.whole_why()).into_owned());
    let next = finding.next.as_deref().map_or(String::new(), |next| shown(next).into_owned());
    let job = finding.job.as_deref().map_or(String::new(), |job| shown(job).into_owned());
    let of_job = if job.is_empty() { String::new() } else { format!(", job {job}") };
    let then = if next.is_empty() { String::new() } else { format!("\nNext: {next}") };
    let text = format!("{host}{of_job}: {severity} {}: {summary}{then}", finding.rule);
    let ranks = finding.ranks.iter().map(u32::to_string).collect::<Vec<_>>().join(",");

    let mut fields = Map::new();
    finding_fields(&mut fields, finding, zone);
    fields.insert("steps".into(), steps(session, finding));
    let labels = json!({ "alertname": finding.rule, "severity": severity, "instance": host, "job": job });
    let annotations = json!({ "summary": summary, "description": why, "next": next });
    let key = format!("{}/{host}/{job}/{}", finding.rule, shown(&finding.subject));
    let mut document = json!({
        "schema": SCHEMA,
        "text": text,
        "at": at,
        "host": host,
        "finding": Value::Object(fields),
        "version": "4",
        "status": "firing",
        "receiver": "nccl-top",
        "groupKey": key,
        "groupLabels": { "alertname": finding.rule },
        "commonLabels": labels,
        "commonAnnotations": annotations,
        "externalURL": "",
        "truncatedAlerts": 0,
        "alerts": [{
            "status": "firing",
            "labels": labels,
            "annotations": annotations,
            "startsAt": zone.rfc3339(finding.since),
            "endsAt": "0001-01-01T00:00:00Z",
            "generatorURL": "",
            "fingerprint": key,
        }],
    });
    mask::document(&mut document);
    let variables = vec![
        ("NCCL_TOP_TEXT", text),
        ("NCCL_TOP_AT", at),
        ("NCCL_TOP_HOST", host),
        ("NCCL_TOP_JOB", job),
        ("NCCL_TOP_RULE", finding.rule.to_owned()),
        ("NCCL_TOP_SEVERITY", severity.to_owned()),
        ("NCCL_TOP_SUMMARY", summary),
        ("NCCL_TOP_WHY", why),
        ("NCCL_TOP_NEXT", next),
        ("NCCL_TOP_RANKS", ranks),
    ];
    Message { json: document.to_string(), variables }
}

/// One that is no alert, to try whether it arrives.
pub fn sample(host: &str, zone: Zone, now: Stamp) -> Message {
    let mut session = Session::new(host, zone);
    session.model.now = now;
    let mut finding = Finding::new("test-alert", Severity::Critical, "test", "this is a test; nothing is wrong", now);
    finding.next = Some("nothing; alert.command and alert.url work".into());
    message(&session, zone, &finding)
}
