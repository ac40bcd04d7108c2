//! Who wrote a line: peels what launchers, loggers and log shippers put in front of it, in any order. Never looks at the message.

pub mod stamp;

use super::{Origin, Written};
use regex::Regex;
use std::sync::LazyLock;

/// A line without its prefixes.
#[derive(Clone, Debug, Default)]
pub struct Peeled<'a> {
    pub origin: Origin,
    /// What is left, indentation included.
    pub rest: &'a str,
    /// A C++ logger of PyTorch (c10 or glog) wrote it.
    pub cpp: bool,
}

/// Deepest stack of prefixes seen in the wild is five.
const MAX_PREFIXES: usize = 10;

/// Taken from a number in front of a line without more evidence, a larger one is a line number.
const MAX_BARE_RANK: u32 = 16_384;

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
/// Ray and TensorFlow the letter alone. A word without a text behind it is none.
pub fn level(text: &str) -> Option<Level> {
    static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r#"(?x)
            (?:^|[\x20\t\[|(*:-])(?:[A-Z]+_)?(?P<word>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|SEVERE|FATAL|CRITICAL)[\x20\t\]|:)*-].{8}
            | (?:^|[\x20,])(?:level|lvl|severity)="?(?P<field>[A-Za-z]+)"?(?:[\x20,]|$)
            | (?:^|\x20)[\[<](?P<low>trace|debug|info|notice|warn|warning|error|err|crit|critical|fatal|alert|emerg)[\]>]\x20
            | (?:^|\x20)(?P<glog>[IWEF])[0-9]{4}(?:[0-9]{4})?\x20[0-9]{2}:[0-9]{2}:[0-9]{2,10}\.[0-9]+\x20.*\]\x20
            | ^(?:\([^)]{1,80}\)\x20)?\[[0-9]{4}-[0-9]{2}-[0-9]{2}\x20[0-9:]{8}[,.][0-9]+\x20(?P<ray>[IWEFC])\x20[0-9]+\x20[0-9]+\]\x20
            | [0-9]:\x20(?P<tensorflow>[IWEF])\x20[A-Za-z0-9_./+-]+\.(?:cc|cpp|cu|h):[0-9]+\]\x20
            | \]\x20?\[(?P<letter>[IWEF])\]\x20
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

pub fn peel(line: &str) -> Peeled<'_> {
    let mut p = Peeled { rest: without_box(line), ..Peeled::default() };
    for turn in 0..MAX_PREFIXES {
        match one(p.rest, &mut p, turn) {
            Some(rest) => p.rest = rest,
            None => break,
        }
    }
    if let Some(rest) = behind_tag(p.rest, &mut p) {
        p.rest = rest;
    }
    p.rest = without_box(p.rest);
    if p.rest.starts_with('[') {
        p.rest = without_unknown(p.rest, &mut p.origin);
    }
    if p.rest.ends_with([']', ')', 'm']) {
        let whole = p.rest;
        p.rest = without_repeats(whole);
        p.origin.stands_for_others = p.rest.len() < whole.len();
    }
    if p.rest.ends_with("]:") {
        p.rest = without_next_prefix(p.rest);
    }
    p
}

/// Without the sides of a box that a viewer, or rich in Python, draws around a text: `│ text   │`.
fn without_box(line: &str) -> &str {
    const SIDES: [&str; 2] = ["\u{2502} ", "\u{2503} "];
    // Most lines end here.
    if line.as_bytes().first() != Some(&0xe2) {
        return line;
    }
    let Some(inner) = SIDES.iter().find_map(|side| line.strip_prefix(side)) else { return line };
    let inner = inner.trim_end();
    inner.strip_suffix(['\u{2502}', '\u{2503}']).unwrap_or(inner).trim_end()
}

/// What stands behind `[1,0]<stderr>:` of MPI, whatever a platform puts in front of it: `UTC master.0 -- [1,0]<stderr>:x`.
fn behind_tag<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    const NEAR: usize = 100;
    let near = &s.as_bytes()[..s.len().min(NEAR)];
    let end = memchr::memmem::find(near, b"]<std")?;
    let start = memchr::memrchr(b'[', &near[..end]).filter(|start| *start > 0 && end - start < 40)?;
    let before = s.get(..start)?;
    (before.ends_with(' ') && !before.contains("%|")).then_some(())?;
    one(&s[start..], p, 1)
}

/// Without brackets of programs that nobody knows, in front of a part of a traceback: `[177/train/578 (pid 28936)] [<run>] Traceback …`.
/// Such a line is itself the proof; in front of anything else a bracket may be a part of the text.
fn without_unknown<'a>(s: &'a str, origin: &mut Origin) -> &'a str {
    const MOST: usize = 3;
    let mut rest = s;
    let mut pid = None;
    for _ in 0..MOST {
        let Some((inner, after)) = rest.strip_prefix('[').and_then(|t| t.split_once(']')).filter(|(inner, _)| inner.len() <= 120) else {
            return s;
        };
        let Some(after) = after.strip_prefix(": ").or_else(|| after.strip_prefix(' ')) else { return s };
        pid = pid.or_else(|| inner.split_once("(pid ").and_then(|(_, t)| number(t.strip_suffix(')')?)));
        if is_of_traceback(after) {
            origin.pid = origin.pid.or(pid);
            return after;
        }
        rest = after;
    }
    s
}

/// The head of a traceback, a frame, its code, or the last line.
fn is_of_traceback(s: &str) -> bool {
    let class = || s.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.')).count();
    let is_last = |n: usize| {
        let name = &s[..n];
        ["Error", "Exception", "Interrupt"].iter().any(|end| name.ends_with(end)) && (s[n..].is_empty() || s[n..].starts_with(": "))
    };
    s.starts_with("Traceback (most recent call last)")
        || s.starts_with("  File \"")
        // UCX pads the place in its code, too.
        || s.starts_with("    ") && !s.contains("  UCX  ")
        || s.starts_with(|c: char| c.is_ascii_alphabetic()) && is_last(class())
}

/// Without Ray's ` [repeated 7x across cluster]` at the end.
fn without_repeats(s: &str) -> &str {
    // Most have no bracket at all.
    if memchr::memrchr(b'[', s.as_bytes()).is_none() {
        return s;
    }
    let Some(at) = s.rfind(" [repeated ").filter(|at| s.len() - at < 200) else { return s };
    let digits = s[at + 11..].bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 || !s[at + 11 + digits..].starts_with("x across cluster]") {
        return s;
    }
    let text = s[..at].trim_end();
    // What is left of a colour.
    text.strip_suffix("[32m").map_or(text, str::trim_end)
}

/// Without the `[trainer0|0]:` of an empty record that is glued to the end.
fn without_next_prefix(s: &str) -> &str {
    match s.rfind('[') {
        Some(at) if at > 0 && torchx(&s[at + 1..s.len() - 2]).is_some() => s[..at].trim_end(),
        _ => s,
    }
}

/// The local rank in `trainer0|0`, the inner part of TorchX's prefix.
fn torchx(inner: &str) -> Option<u32> {
    let (role, local) = inner.split_once('|')?;
    let is_role = role.starts_with(|c: char| c.is_ascii_alphabetic()) && role.ends_with(|c: char| c.is_ascii_digit());
    (is_role && role.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))).then_some(())?;
    number(local)
}

/// Cuts a physical line where another record starts in it: bars and other ranks' lines are glued together without a line end.
pub fn records(line: &str) -> Vec<&str> {
    static START: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?x)
            (?:\[rank[0-9]+\]:\x20?)? \[[IWEFV] (?: [0-9]{3,4}\x20[0-9]{2}:[0-9]{2}:[0-9]{2}\. | \x20[A-Za-z_]+\.[a-z]+:[0-9]+\]\x20 )
            | \[rank[0-9]+\]:
            | (?:WARNING|ERROR):torch\.[A-Za-z_.]+:
            | \[[0-9]{4}-[0-9]{2}-[0-9]{2}\x20[0-9]{2}:[0-9]{2}:[0-9]{2},[0-9]{3}\]\x20\[(?:INFO|WARNING|ERROR)\]
            | \[[0-9]{4}-[0-9]{2}-[0-9]{2}\x20[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\x20(?:DP|TP|PP|EP)[0-9]+)*\]\x20[A-Z]
            | [IWEF][0-9]{4}\x20[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{6}\x20[0-9]+\x20[A-Za-z_/.]+:[0-9]+\]
            ",
        )
        .expect("pattern")
    });
    if let Some(at) = behind_bar(line) {
        let (bar, rest) = line.split_at(at);
        return std::iter::once(bar).chain(records(rest)).collect();
    }
    if !may_hold_records(line.as_bytes()) {
        return vec![line];
    }
    let mut out = Vec::new();
    let mut from = 0;
    for found in START.find_iter(line) {
        let at = found.start();
        // `[default0]:[rank0]:` is one prefix, not two records.
        if at > from && !peel(&line[from..at]).rest.trim().is_empty() {
            out.push(&line[from..at]);
            from = at;
        }
    }
    out.push(&line[from..]);
    out
}

/// Where something else begins behind a bar of tqdm: behind its times (`… 366/903 [5:15:39<6:53:09, 46.16s/it]HW Exception`), or, where it
/// was printed over, with the first words of another program (`Epoch 0:  83%|█████ERROR: …`). Each bar is cut off by itself, so that no text
/// makes this slow.
pub fn behind_bar(line: &str) -> Option<usize> {
    const BEGIN: [&str; 6] =
        ["ERROR:", "WARNING:", "CRITICAL:", "Traceback (most recent call last)", "terminate called ", "RuntimeError: "];
    const MOST_BARS: usize = 10_000;
    let next_bar = |from: usize| memchr::memmem::find(&line.as_bytes()[from..], b"%|").map(|at| from + at + 2);
    let mut bar = next_bar(0)?;
    // Bars whose carriage returns were lost stand one behind another.
    for _ in 0..MOST_BARS {
        let tail = &line[bar..];
        let free = |at: usize| !tail[..at].ends_with(|c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '=' | '"' | '\''));
        let end = end_of_times(tail);
        let next = next_bar(bar);
        let own = &tail[..next.map_or(tail.len(), |next| next - bar)];
        let words = BEGIN.iter().filter_map(|begin| own.find(begin)).filter(|at| *at > 0 && free(*at)).min();
        let end = end.filter(|end| *end <= own.len() && words.is_none_or(|at| *end <= at));
        // Another bar, and what belongs to this one, begin with a blank or a digit.
        let glued = end.filter(|end| tail[*end..].starts_with(|c: char| c.is_ascii_alphabetic() || matches!(c, '(' | '`')));
        if let Some(at) = glued.or(words) {
            return Some(bar + at);
        }
        bar = next?;
    }
    None
}

/// Behind the bracket of a bar: `[00:12<06:31,  1.24it/s, loss=2.5]`.
fn end_of_times(tail: &str) -> Option<usize> {
    const LONGEST: usize = 600;
    let times = memchr::memmem::find(tail.as_bytes(), b" [")? + 2;
    let near = &tail.as_bytes()[times..tail.len().min(times + LONGEST)];
    let is_clock = near.first().is_some_and(u8::is_ascii_digit) && near.iter().take(12).any(|b| *b == b':');
    memchr::memchr(b']', near).filter(|_| is_clock).map(|end| times + end + 1)
}

/// Whether another record may begin behind the start of a line: with a bracket, with the name of a logger, or with a time and, further
/// on, a place in a file and the end of a bracket.
fn may_hold_records(line: &[u8]) -> bool {
    const SHORTEST: usize = "E0101 00:00:00.000000 1 a:1]".len();
    static LOGGER: LazyLock<memchr::memmem::Finder<'_>> = LazyLock::new(|| memchr::memmem::Finder::new(":torch."));
    let opens = |at: usize| match line.get(at + 1) {
        Some(b'I' | b'W' | b'E' | b'F' | b'V' | b'r') => true,
        // A year.
        Some(b'0'..=b'9') => line.get(at + 5) == Some(&b'-'),
        _ => false,
    };
    let closes = |at: usize| {
        let digits = line[..at].iter().rev().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && line[..at - digits].ends_with(b":")
    };
    memchr::memchr_iter(b'[', line).any(|at| at > 0 && opens(at))
        || memchr::memchr_iter(b']', line).any(|at| at >= SHORTEST && closes(at))
        || LOGGER.find(line).is_some()
}

fn one<'a>(s: &'a str, p: &mut Peeled<'_>, turn: usize) -> Option<&'a str> {
    match s.as_bytes().first()? {
        b'[' => bracket(s, p),
        b'(' => ray(s, p).or_else(|| module_place(s)),
        b'0'..=b'9' => tensorflow(s, p).or_else(|| stamped(s, p)).or_else(|| zap(s)).or_else(|| task(s, p)).or_else(|| host(s, p)),
        b' ' if turn == 0 => padded(s, p),
        b'|' if p.origin.written.is_some() => s.strip_prefix("| "),
        c if c.is_ascii_lowercase() && p.origin.written.is_some() && p.origin.host.is_none() => syslog(s, p).or_else(|| host(s, p)),
        b'-' if p.origin.written.is_some() => logger(s),
        // A failed test, as pytest shows it.
        b'E' if s.starts_with("E   ") && s.len() > 4 => s[1..].strip_prefix("       ").or_else(|| s[1..].strip_prefix("   ")),
        c if c.is_ascii_uppercase() && turn < 2 && p.origin.written.is_none() && leveled(s).is_some() => stamped(leveled(s)?, p),
        c if c.is_ascii_uppercase() => glog(s, p).or_else(|| vllm(s, p)).or_else(|| mpi_time(s, p)).or_else(|| journal(s, p)),
        b's' if s.starts_with("stderr: ") || s.starts_with("stdout: ") => Some(&s["stderr: ".len()..]),
        c if c.is_ascii_lowercase() => host(s, p).or_else(|| stern(s, p)).or_else(|| replica(s, p)),
        _ => None,
    }
}

fn skip_space(s: &str) -> &str {
    s.strip_prefix(' ').unwrap_or(s)
}

fn number(s: &str) -> Option<u32> {
    (!s.is_empty() && s.bytes().all(|b| b.is_ascii_digit())).then(|| s.parse().ok()).flatten()
}

fn set(slot: &mut Option<u32>, value: u32) {
    slot.get_or_insert(value);
}

fn set_time(p: &mut Peeled<'_>, w: Written) {
    p.origin.written = Some(w);
}

fn bracket<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    // A colour whose escape was lost: `[0m `.
    let colour = s[1..].bytes().take_while(|b| b.is_ascii_digit() || *b == b';').count();
    if (1..=8).contains(&colour) && s.as_bytes().get(1 + colour) == Some(&b'm') {
        return Some(skip_space(&s[2 + colour..]));
    }
    let end = memchr::memchr(b']', s.as_bytes().get(..s.len().min(300))?)?;
    let inner = &s[1..end];
    let after = &s[end + 1..];
    // The kernel's clock: `[ 1843.308148] `, `[  +0.000844] ` of `dmesg -e`
    let clock = inner.trim_start();
    if let Some((seconds, micros)) = clock.strip_prefix('+').unwrap_or(clock).split_once('.')
        && micros.len() == 6
        && number(micros).is_some()
        && number(seconds).is_some()
    {
        return Some(skip_space(after));
    }
    if let Some(rest) = after.strip_prefix(':') {
        if let Some(local) = torchx(inner) {
            p.origin.local_rank = Some(local);
            return Some(skip_space(rest));
        }
        let digits = inner.bytes().rev().take_while(u8::is_ascii_digit).count();
        let (name, n) = inner.split_at(inner.len() - digits);
        let n = number(n)?;
        return match name {
            "rank" => {
                p.origin.rank = Some(n);
                Some(skip_space(rest))
            }
            // torchrun --tee: role name and local rank, no space behind it.
            _ if !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.')) => {
                p.origin.local_rank = Some(n);
                Some(rest)
            }
            _ => None,
        };
    }
    if let Some((rank, rest)) = mpi_tag(inner, after, p) {
        p.origin.rank = Some(rank);
        return Some(rest);
    }
    if let Some(n) = number(inner) {
        // A torn NCCL header begins like this, too: there it is the CUDA device.
        let rest = after.strip_prefix(' ').filter(|r| !r.starts_with("NCCL ") && !r.contains(" NCCL WARN ") && !is_metrics(r))?;
        if n < MAX_BARE_RANK {
            set(&mut p.origin.rank, n);
        }
        return Some(rest);
    }
    if let Some(n) = inner.strip_prefix("rank: ").or_else(|| inner.strip_prefix("RANK ")).and_then(number) {
        p.origin.rank = Some(n);
        return Some(skip_space(after));
    }
    // PyTorch's tutorials: `[GPU0] Epoch 9 | …`.
    if let Some(n) = inner.strip_prefix("GPU").and_then(number).filter(|_| after.starts_with(" Epoch ")) {
        p.origin.local_rank = Some(n);
        return Some(skip_space(after));
    }
    if let Some(pod) = inner.strip_prefix("pod/") {
        p.origin.host = Some(pod.split('/').next()?.to_string());
        return Some(skip_space(after));
    }
    if let Some((w, n)) = stamp::iso(inner)
        && let Some(tail) = inner.get(n..)
        && (tensorflow_place(tail) == Some("") || is_level_and_ids(tail))
    {
        set_time(p, w);
        p.cpp = true;
        return Some(skip_space(after));
    }
    if let Some((w, _)) = stamp::iso(inner).or_else(|| stamp::ctime(inner)).filter(|(_, n)| *n == inner.len()) {
        set_time(p, w);
        let rest = skip_space(after);
        // Determined: `[<time>] <container> || text`.
        let container = |id: &str| (4..=64).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-');
        return Some(rest.split_once(" ||").filter(|(id, _)| container(id)).map_or(rest, |(_, t)| skip_space(t)));
    }
    // ESPnet: `[node-1] 2026-04-23 04:59:25,764 (trainer:793) INFO: `.
    if let Some(tail) = after.strip_prefix(' ')
        && let Some((w, n)) = stamp::iso(tail)
        && let Some(rest) = tail[n..].strip_prefix(' ').and_then(module_place)
    {
        set_time(p, w);
        p.origin.host = p.origin.host.take().or_else(|| Some(inner.to_owned()));
        return Some(rest);
    }
    // PaddleDetection, detectron2: `[08/15 04:02:30] `, `[08/15 04:02:30 d2.utils.events]: `.
    if let Some((w, n)) = stamp::month_day(inner).filter(|(_, n)| inner[*n..].is_empty() || inner[*n..].starts_with(' ')) {
        set_time(p, w);
        return Some(skip_space(after.strip_prefix(':').filter(|_| n < inner.len()).unwrap_or(after)));
    }
    if let Some(rank) = sglang(inner, p) {
        p.origin.rank = rank.or(p.origin.rank);
        return Some(skip_space(after));
    }
    if let Some(tail) = inner.strip_prefix("NeMo ") {
        if let Some((w, _)) = tail.get(2..).and_then(stamp::iso) {
            set_time(p, w);
        }
        return Some(skip_space(after));
    }
    if matches!(inner, "INFO" | "WARNING" | "ERROR" | "DEBUG" | "CRITICAL" | "titan") || is_code_place(inner) {
        return Some(skip_space(after));
    }
    cpp_head(inner, p)?;
    p.cpp = true;
    Some(skip_space(after))
}

/// `accuracy=0.61, loss=2.31` of clu, in front of which the step stands in brackets.
fn is_metrics(text: &str) -> bool {
    let is_field = |field: &str| {
        field.trim().split_once('=').is_some_and(|(name, value)| {
            !name.is_empty() && !name.contains(' ') && value.trim().trim_matches(['[', ']']).parse::<f64>().is_ok()
        })
    };
    text.contains('=') && text.split(", ").take(3).all(is_field)
}

/// `2026-04-21 07:28:41 TP5` and `2026-04-21 07:28:41 DP1 TP5 EP5` of SGLang, also without the date. With one stage the tensor-parallel
/// rank is the rank.
fn sglang(inner: &str, p: &mut Peeled<'_>) -> Option<Option<u32>> {
    let clock = || inner.bytes().take_while(|b| b.is_ascii_digit() || *b == b':').count();
    let (w, n) = stamp::iso(inner).map_or_else(|| (None, clock()), |(w, n)| (Some(w), n));
    (n >= 8).then_some(())?;
    let parts = inner.get(n..)?.strip_prefix(' ')?;
    let mut rank = None;
    for part in parts.split(' ') {
        let (axis, no) = part.split_at_checked(2).filter(|(axis, _)| matches!(*axis, "TP" | "DP" | "EP" | "PP"))?;
        let no = number(no)?;
        rank = if axis == "TP" { Some(no) } else { rank };
    }
    if let Some(w) = w {
        set_time(p, w);
    }
    Some(rank.filter(|_| !parts.contains("PP")))
}

/// `[1,12]<stdout>:`: job and rank. Open MPI 5 writes `[prterun-host-1@1,12]<stdout>: `, SageMaker `[1,mpirank:12,algo-2]<stdout>:`,
/// horovodrun `[12]<stdout>:`.
fn mpi_tag<'a>(inner: &str, after: &'a str, p: &mut Peeled<'_>) -> Option<(u32, &'a str)> {
    let rest = ["<stdout>:", "<stderr>:", "<stddiag>:"].iter().find_map(|t| after.strip_prefix(t))?;
    let Some((job, rank)) = inner.split_once(',') else { return Some((number(inner)?, rest)) };
    if let Some((rank, host)) = rank.strip_prefix("mpirank:").and_then(|t| t.split_once(',')) {
        number(job)?;
        let rank = number(rank)?;
        p.origin.host = Some(host.to_string());
        return Some((rank, rest));
    }
    if let Some((_, no)) = job.rsplit_once('@') {
        number(no)?;
        return Some((number(rank)?, skip_space(rest)));
    }
    number(job)?;
    Some((number(rank)?, rest))
}

/// `E1121 00:04:23.008941232 ProcessGroupNCCL.cpp:689`, or without a time before torch 2.4.
fn cpp_head(inner: &str, p: &mut Peeled<'_>) -> Option<()> {
    let tail = inner.strip_prefix(['I', 'W', 'E', 'F', 'V'])?;
    let (w, place) = match stamp::glog(tail) {
        Some((w, n)) => (Some(w), tail[n..].strip_prefix(' ')?),
        None => (None, tail.strip_prefix(' ')?),
    };
    let (file, line) = place.rsplit_once(':')?;
    number(line)?;
    if !file.contains('.') || file.contains(' ') {
        return None;
    }
    if let Some(w) = w {
        set_time(p, w);
    }
    Some(())
}

/// `logging.py:96:log_dist`
fn is_code_place(inner: &str) -> bool {
    inner.split_once(".py:").is_some_and(|(file, line)| !file.contains(' ') && line.starts_with(|c: char| c.is_ascii_digit()))
}

/// `W1121 00:10:00.838000 31792 torch/distributed/run.py:851] `; C++ builds with glog look the same, with a thread.
fn glog<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let tail = s.strip_prefix(['I', 'W', 'E', 'F', 'V'])?;
    let (w, n) = stamp::glog(tail).map(|(w, n)| (Some(w), n)).or_else(|| Some((None, before_abseil(tail)?)))?;
    let tail = s[1 + n..].strip_prefix(' ')?.trim_start_matches(' ');
    let (id, tail) = tail.split_once(' ')?;
    let id: u64 = id.parse().ok()?;
    let end = memchr::memchr(b']', &tail.as_bytes()[..tail.len().min(300)])?;
    let (file, line) = tail[..end].rsplit_once(':')?;
    number(line)?;
    p.cpp = !file.ends_with(".py");
    // torch 2.3 has a pthread id here.
    if let Some(id) = u32::try_from(id).ok().filter(|id| *id <= 1 << 22) {
        let slot = if p.cpp { &mut p.origin.tid } else { &mut p.origin.pid };
        *slot = Some(id);
    }
    if let Some(w) = w {
        set_time(p, w);
    }
    Some(skip_space(&tail[end + 1..]))
}

/// `0000 00:00:1729001122.101010` of abseil's log before it knows the zone: seconds since 1970.
fn before_abseil(tail: &str) -> Option<usize> {
    let (seconds, rest) = tail.strip_prefix("0000 00:00:")?.split_once('.')?;
    number(seconds)?;
    let micros = rest.bytes().take_while(u8::is_ascii_digit).count();
    (micros > 0).then_some(tail.len() - rest.len() + micros)
}

/// `ERROR 11-18 20:27:21 [core.py:708] ` of vLLM; without the first bracket before 0.8.
fn vllm<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (level, tail) = s.split_once(' ')?;
    matches!(level, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL").then_some(())?;
    let (w, n) = stamp::month_day(tail)?;
    let (place, rest) = tail[n..].strip_prefix(' ')?.split_once(']')?;
    is_code_place(place.strip_prefix('[').unwrap_or(place)).then_some(())?;
    set_time(p, w);
    Some(skip_space(rest))
}

/// `(RayWorkerWrapper pid=248, ip=10.0.3.8) `, `(pid=248)`, `(MapWorker(MapBatches(f)) pid=248)`
fn ray<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let near = s.as_bytes().get(..s.len().min(200))?;
    // The name of a task may hold brackets, what stands behind it does not.
    let name = memchr::memmem::find(near, b"pid=")?;
    let end = name + memchr::memchr(b')', &near[name..])?;
    let inner = &s[1..end];
    let tail = inner.strip_prefix("pid=").or_else(|| inner.split_once(" pid=").map(|(_, t)| t))?;
    // vLLM: `(VllmWorker rank=3 pid=2301)`
    if let Some(rank) = inner.split_once(" rank=").and_then(|(_, t)| number(t.split([' ', ',']).next()?)) {
        set(&mut p.origin.rank, rank);
    }
    let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
    p.origin.pid = Some(number(&tail[..digits])?);
    if let Some(ip) = tail[digits..].strip_prefix(", ip=") {
        p.origin.host = Some(ip.to_string());
    }
    let after = &s[end + 1..];
    Some(skip_space(after.strip_prefix("[0m").unwrap_or(after)))
}

/// `(trainer:793) INFO: ` of Python's logging, as ESPnet has it.
fn module_place(s: &str) -> Option<&str> {
    let (place, tail) = s.strip_prefix('(')?.split_once(") ")?;
    let (module, line) = place.split_once(':')?;
    let is_module = !module.is_empty() && module.len() <= 40 && module.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    let (level, rest) = tail.split_once(": ").filter(|_| is_module && number(line).is_some())?;
    matches!(level, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL").then_some(rest)
}

fn stamped<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (w, n) = stamp::iso(s).or_else(|| stamp::american(s))?;
    let rest = &s[n..];
    // A log shipper may put a colon between it and the launcher's prefix.
    let rest = rest.strip_prefix(':').filter(|r| r.starts_with(" [")).unwrap_or(rest);
    if !rest.is_empty() && !rest.starts_with([' ', '[']) {
        return None;
    }
    set_time(p, w);
    Some(skip_space(rest))
}

/// `2026-04-13 13:53:31.851506: W tensorflow/core/kernels/data.cc:588] `, which Horovod puts into brackets as a whole.
fn tensorflow<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (w, n) = stamp::iso(s)?;
    let rest = tensorflow_place(&s[n..])?.strip_prefix(']')?;
    set_time(p, w);
    p.cpp = true;
    Some(skip_space(rest))
}

/// ` E 27497 27511` of Ray's C++ logger: level, process and thread.
fn is_level_and_ids(tail: &str) -> bool {
    let ids = tail.strip_prefix(' ').and_then(|tail| tail.strip_prefix(['D', 'I', 'W', 'E', 'C', 'F'])).and_then(|t| t.strip_prefix(' '));
    ids.and_then(|ids| ids.split_once(' ')).is_some_and(|(pid, tid)| number(pid).is_some() && number(tid).is_some())
}

/// What stands behind `: W tensorflow/core/kernels/data.cc:588`.
fn tensorflow_place(tail: &str) -> Option<&str> {
    let tail = tail.strip_prefix(": ")?.strip_prefix(['I', 'W', 'E', 'F'])?.strip_prefix(' ')?;
    let end = memchr::memchr(b']', &tail.as_bytes()[..tail.len().min(300)]).unwrap_or(tail.len());
    let (file, line) = tail.get(..end)?.rsplit_once(':')?;
    number(line)?;
    (file.contains('.') && !file.contains(' ')).then(|| &tail[end..])
}

/// What stands behind the level of a logger that prints it in front of the time: `INFO 2026-12-02 14:52:20,806 hooks.py: 27: text`.
fn leveled(s: &str) -> Option<&str> {
    let (level, tail) = s.split_once(' ')?;
    matches!(level, "DEBUG" | "INFO" | "WARNING" | "ERROR" | "CRITICAL").then_some(())?;
    stamp::iso(tail).map(|_| tail)
}

/// Kubernetes operators: `1.7e+09 DEBUG events text`.
fn zap(s: &str) -> Option<&str> {
    let mut words = s.splitn(4, [' ', '\t']);
    let at = words.next().filter(|t| t.ends_with("e+09"))?;
    at.parse::<f64>().ok()?;
    words.next().filter(|level| matches!(*level, "DEBUG" | "INFO" | "WARN" | "ERROR"))?;
    words.next()?;
    words.next()
}

/// `- root - INFO - `, `- INFO - __main__ - `
fn logger(s: &str) -> Option<&str> {
    let (first, tail) = s.strip_prefix("- ")?.split_once(" - ")?;
    let (second, rest) = tail.split_once(" - ")?;
    let level = |w: &str| matches!(w, "INFO" | "WARNING" | "ERROR" | "DEBUG" | "CRITICAL");
    (level(first) || level(second)).then_some(rest)
}

/// `srun -l`: `3: `
fn task<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let digits = s.bytes().take_while(u8::is_ascii_digit).count();
    let rest = s[digits..].strip_prefix(": ").or_else(|| s[digits..].strip_prefix(':').filter(|r| r.is_empty()))?;
    let n = number(&s[..digits]).filter(|n| *n < MAX_BARE_RANK)?;
    set(&mut p.origin.rank, n);
    Some(rest)
}

/// `  3: ` of `srun -l`, and `  | <time> | ` of log viewers.
fn padded<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let inner = s.trim_start_matches(' ');
    if let Some(tail) = inner.strip_prefix("| ") {
        let (w, n) = stamp::iso(tail)?;
        let rest = match tail[n..].strip_prefix(" | ") {
            Some(rest) => rest,
            // CloudWatch's table may hold the text twice: `  | <time>text | text`.
            None => {
                let both = tail[n..].trim_end();
                let (once, again) = (both.get(..both.len().checked_sub(3)? / 2)?, both.get(both.len().div_ceil(2) + 1..)?);
                (once == again && both[once.len()..].starts_with(" | ")).then_some(again)?
            }
        };
        set_time(p, w);
        return Some(rest);
    }
    // Megatron starts its lines with a space.
    if s.len() - inner.len() == 1 && inner.strip_prefix('[').is_some_and(|t| stamp::iso(t).is_some()) {
        return bracket(inner, p);
    }
    if s.len() - inner.len() > 5 {
        return None;
    }
    task(inner, p)
}

fn mpi_time<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (w, n) = stamp::ctime(s)?;
    let rest = s[n..].strip_prefix('[').map(|_| &s[n..])?;
    set_time(p, w);
    Some(rest)
}

/// `10.0.3.7: ` and `worker-1: ` of pdsh, `worker-1 | ` of docker compose. Words that are no host names also end in a colon, so
/// a name needs a digit and a dash or dot.
fn host<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let n = s.bytes().take(64).take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'.')).count();
    let (name, after) = s.split_at(n);
    let rest = after.strip_prefix(": ").or_else(|| column(after)).or_else(|| after.strip_prefix(':').filter(|r| r.is_empty()))?;
    let digit = name.bytes().any(|b| b.is_ascii_digit());
    let joint = name.bytes().any(|b| matches!(b, b'-' | b'.'));
    let lower = !name.bytes().any(|b| b.is_ascii_uppercase());
    let address = name.split('.').count() == 4 && name.split('.').all(|part| part.parse::<u8>().is_ok());
    let float = name.parse::<f64>().is_ok();
    let word =
        ["epoch", "step", "iter", "rank", "layer", "loss", "phase", "stage", "torch", "python", "cuda", "gpu", "nvidia-", "slurmstepd-"];
    if !(address || digit && joint && lower && !float && name.starts_with(|c: char| c.is_ascii_lowercase()))
        || word.iter().any(|w| name.starts_with(w))
    {
        return None;
    }
    p.origin.host = Some(name.to_string());
    Some(rest)
}

/// `worker-1  | ` of docker compose, which makes all names equally wide.
fn column(after: &str) -> Option<&str> {
    let rest = after.trim_start_matches(' ');
    rest.strip_prefix("| ").filter(|_| (1..=32).contains(&(after.len() - rest.len())))
}

/// `trainer/0 [1]:` of TorchX: role, replica and local rank.
fn replica<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    // Most lines end here.
    let n = s.bytes().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-')).count();
    s[n..].starts_with('/').then_some(())?;
    let (place, tail) = s.split_once(" [")?;
    let (role, no) = place.split_once('/')?;
    (role.len() <= 32 && role.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'))).then_some(())?;
    number(no)?;
    let (local, rest) = tail.split_once("]:")?;
    p.origin.local_rank = Some(number(local)?);
    Some(skip_space(rest))
}

/// `trainer-0 pytorch ` of stern: a pod and its container. Two words are no proof, so only usual names are taken.
fn stern<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (pod, tail) = s.split_once(' ')?;
    let (container, rest) = tail.split_once(' ')?;
    let usual = matches!(container, "pytorch" | "trainer" | "worker" | "main" | "master" | "launcher" | "node" | "mpi" | "app");
    let number = || pod.rsplit_once('-').is_some_and(|(_, n)| !n.is_empty() && n.len() <= 5 && n.bytes().any(|b| b.is_ascii_digit()));
    let name = || pod.len() <= 253 && pod.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'-' | b'.'));
    (usual && number() && name()).then_some(())?;
    p.origin.host = Some(pod.to_string());
    Some(rest)
}

/// `Nov 21 00:05:26 node-01 python[1234]: `
fn journal<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (w, n) = stamp::syslog(s)?;
    let tail = s[n..].strip_prefix(' ')?;
    // A log of one host may leave its name out.
    let rest = tail.strip_prefix("kernel: ").or_else(|| syslog(tail, p))?;
    set_time(p, w);
    Some(rest)
}

/// `node-01 python[1234]: `, `node-01 kernel: `, behind a time. The process may be the one that collects the output of containers.
fn syslog<'a>(s: &'a str, p: &mut Peeled<'_>) -> Option<&'a str> {
    let (host, tail) = s.split_once(' ')?;
    let word =
        |w: &str| !w.is_empty() && w.len() <= 64 && w.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.' | b'/'));
    let rest = match tail.strip_prefix("kernel: ") {
        Some(rest) => rest,
        None => {
            let (program, rest) = tail.split_once("]: ")?;
            let (name, pid) = program.split_once('[')?;
            number(pid).filter(|_| word(name))?;
            rest
        }
    };
    word(host).then_some(())?;
    p.origin.host = Some(host.to_string());
    Some(rest)
}

#[cfg(test)]
mod tests {
    use super::may_hold_records;

    #[test]
    fn a_line_with_one_record_is_known_without_search() {
        for line in ["[rank5]:   File \"x.py\", line 3, in f", "node-01:2601:3001 [1] x.cc:12 NCCL WARN odd", "step 7 | loss 2.5"] {
            assert!(!may_hold_records(line.as_bytes()), "{line}");
        }
    }
}
