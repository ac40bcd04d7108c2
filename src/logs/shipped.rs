//! Lines that a log shipper wraps into JSON.

use super::prefix;
use serde::Deserialize;

/// A record of a log shipper: JSON that holds the text of a program, with the ends of its lines spelled out.
#[derive(Deserialize)]
struct Shipped {
    #[serde(alias = "message", alias = "msg", alias = "MESSAGE")]
    log: String,
    #[serde(default, alias = "timestamp", alias = "@timestamp")]
    time: Option<serde_json::Value>,
}

/// The lines that a log shipper put into one record (`{"log":"ValueError: x\n","time":"2026-05-04T10:00:00Z"}`), each behind its time.
pub(super) fn unwrapped(line: &str) -> Option<String> {
    if !line.starts_with('{') || !line.contains("\\n") {
        return None;
    }
    let shipped: Shipped = serde_json::from_str(line.trim_end()).ok()?;
    let time =
        shipped.time.as_ref().and_then(|time| time.as_str()).filter(|time| prefix::stamp::iso(time).is_some_and(|(_, n)| n == time.len()));
    let before = time.map_or(String::new(), |time| format!("{time} "));
    let lines = shipped.log.lines().filter(|text| !text.trim().is_empty());
    Some(lines.map(|text| format!("{before}{text}\n")).collect())
}

/// The value of a line of JSON that is spread over lines: `"message": "no such node",`.
pub(super) fn without_json(text: &str) -> &str {
    let value = || text.strip_prefix('"')?.split_once("\": \"")?.1.trim_end_matches(',').strip_suffix('"');
    value().map_or(text, |value| value.trim_end_matches([':', ' ']))
}
