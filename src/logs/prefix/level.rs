//! How bad a line is by the word that its writer put in front of it, in plain text and in JSON.

use super::{number, stamp};
use regex::Regex;
use std::sync::LazyLock;

/// How bad a line is by the word of its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// INFO, DEBUG and the like.
    Low,
    Warning,
    Error,
    /// The writer ends itself.
    Fatal,
}

/// The level that a logger put in front of a text: `[ERROR] `, `ERROR:root:`, ` - ERROR - `, `|CCL_ERROR|`, `[E]`, `level=error`; of glog,
/// PyTorch, Ray and TensorFlow the letter alone. A word without a text behind it is none.
pub fn level(text: &str) -> Option<Level> {
    static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?x)
            (?:^|[\x20\t\[|(*:-])(?:[A-Z]+_)?(?P<word>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|SEVERE|FATAL|CRITICAL)[\x20\t\]|:)*-].{8}
            | (?:^|[\x20,])(?:level|lvl|severity)="?(?P<field>[A-Za-z]+)"?(?:[\x20,]|$)
            | (?:^|\x20)[\[<](?P<low>trace|debug|info|notice|warn|warning|error|err|crit|critical|fatal|alert|emerg)[\]>]\x20
            | (?:^|[\x20\[])(?P<glog>[IWEF])[0-9]{4}(?:[0-9]{4})?\x20[0-9]{2}:[0-9]{2}:[0-9]{2,10}\.[0-9]+\x20.*\]\x20
            | ^(?:\([^)]{1,80}\)\x20)?\[[0-9]{4}-[0-9]{2}-[0-9]{2}\x20[0-9:]{8}[,.][0-9]+\x20(?P<ray>[IWEFC])\x20[0-9]+\x20[0-9]+\]\x20
            | [0-9]:\x20(?P<tensorflow>[IWEF])\x20[A-Za-z0-9_./+-]+\.(?:cc|cpp|cu|h):[0-9]+\]\x20
            | \]\x20?\[(?P<letter>[IWEF])\]\x20
            | (?:^|\])\[(?P<torch>[IWEF])\x20[A-Za-z]\w*\.cpp:[0-9]+\]\x20
            "#,
        )
        .expect("pattern")
    });
    let found = LEVEL.captures(text)?;
    let word = found.iter().skip(1).flatten().next()?.as_str();
    match word.to_ascii_uppercase().as_str() {
        "W" | "WARN" | "WARNING" => Some(Level::Warning),
        "E" | "ERR" | "ERROR" => Some(Level::Error),
        "F" | "C" | "FATAL" | "CRITICAL" | "CRIT" | "SEVERE" | "ALERT" | "EMERG" | "PANIC" | "DPANIC" => Some(Level::Fatal),
        "I" | "INFO" | "TRACE" | "DEBUG" | "NOTICE" => Some(Level::Low),
        _ => None,
    }
}

/// `[ 1843.308148] ` of the kernel in front of a line.
pub fn has_kernel_clock(text: &str) -> bool {
    let clock = text.strip_prefix('[').and_then(|tail| tail.split_once("] ")).and_then(|(clock, _)| clock.trim_start().split_once('.'));
    clock.is_some_and(|(seconds, part)| number(seconds).is_some() && number(part).is_some())
}

/// A line of the kernel's log.
pub fn is_of_kernel(text: &str) -> bool {
    has_kernel_clock(text) || text.contains(" kernel: ") || text.contains("kern: ")
}

/// A record of a logger that writes JSON, as another would write it: `{"level":"error","ts":"2026-05-04T10:00:00Z","msg":"x","err":"y"}`
/// as `2026-05-04T10:00:00Z ERROR x: y`. What has no level and no text is none.
pub fn of_json(line: &str) -> Option<String> {
    const MOST: usize = 8 << 10;
    let line = line.trim();
    if !line.starts_with('{') || !line.ends_with('}') || line.len() > MOST {
        return None;
    }
    let record: serde_json::Map<String, serde_json::Value> = serde_json::from_str(line).ok()?;
    let text = |keys: &[&str]| keys.iter().find_map(|key| record.get(*key)?.as_str());
    let number = || record.get("level")?.as_u64().and_then(level_of_number).map(str::to_owned);
    let level = text(&["level", "severity", "lvl", "levelname", "log.level"]).map(str::to_ascii_uppercase).or_else(number)?;
    let inner = || record.get("fields")?.get("message")?.as_str();
    let message = text(&["message", "msg", "event", "log", "MESSAGE"]).or_else(inner)?;
    let time = text(&["timestamp", "time", "ts", "@timestamp"]).filter(|time| stamp::iso(time).is_some_and(|(_, n)| n == time.len()));
    let before = time.map_or(String::new(), |time| format!("{time} "));
    let error = text(&["error", "err", "exception"]).map_or(String::new(), |error| format!(": {error}"));
    let rank = |map: &serde_json::Map<String, serde_json::Value>| map.get("rank")?.as_u64();
    let rank = rank(&record).or_else(|| rank(record.get("span")?.as_object()?)).map_or(String::new(), |rank| format!(" rank={rank}"));
    let host = text(&["host_name", "hostname", "node", "pod", "node_name"]).filter(|host| !message.contains(host));
    let host = host.map_or(String::new(), |host| format!("{host}: "));
    Some(format!("{before}{level} {host}{message}{error}{rank}"))
}

/// Loggers of JavaScript and Go write 30 for info, 50 for an error.
fn level_of_number(number: u64) -> Option<&'static str> {
    match number {
        10 | 20 => Some("DEBUG"),
        30 => Some("INFO"),
        40 => Some("WARN"),
        50 => Some("ERROR"),
        60 => Some("FATAL"),
        _ => None,
    }
}
