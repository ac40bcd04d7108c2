//! NCCL's own lines, all versions. A torn line gives nothing, never a wrong fact.
//!
//! Here a physical line is cut into records; what their messages say is read below `nccl/`.

mod bringup;
mod comm;
mod graph;
mod ofi;
mod transport;
pub mod types;

use super::prefix::stamp;
use super::{Origin, TextEvent, What, catalog};
use crate::base::clean;
use crate::base::severity::Severity;
use memchr::memmem;
use regex::Regex;
use std::sync::LazyLock;

/// Host names that began a line of this file: with them, a header glued to other text can still be cut off.
#[derive(Clone, Default, PartialEq)]
pub struct State {
    hosts: Vec<String>,
}

const MAX_HOSTS: usize = 32;

#[derive(Clone, Copy, PartialEq)]
enum Level {
    Info,
    Warn,
    Other,
}

/// One NCCL record inside a physical line.
struct Record<'a> {
    /// Where its header begins.
    start: usize,
    level: Level,
    /// There is a whole `HOST:PID:TID [DEV]` in front.
    headed: bool,
    origin: Origin,
    site: &'a str,
    /// Where its message begins.
    message: usize,
}

/// Letters in front of `CCL` in the name of a library that came of NCCL.
const MOST_CAPITALS: usize = 3;

/// Without the number that an editor or `grep -n` puts in front of a line: `455 NCCL version 2.4.8+cuda10.0`, `455:NCCL version`.
pub fn unnumbered(line: &str) -> &str {
    let rest = line.trim_start_matches(|c: char| c.is_ascii_digit());
    let rest = if rest.len() < line.len() { rest.trim_start_matches([' ', '\t', ':']) } else { rest };
    if rest.starts_with("NCCL version ") || rest.starts_with("RCCL version") { rest } else { line }
}

impl State {
    /// Reads all NCCL records in `line`; the text before the first one comes back, for others to read. `None`: no NCCL here.
    pub fn read<'a>(&mut self, line: &'a str, launcher: &Origin, out: &mut Vec<TextEvent>) -> Option<&'a str> {
        // A colour or a table's column may have left a space.
        let bare = unnumbered(line.trim_start());
        if bare.starts_with("NCCL version ") || bare.starts_with("RCCL version") {
            out.extend(bringup::version(bare).map(|what| TextEvent { origin: launcher.clone(), what, said_at: None }));
            return Some("");
        }
        if let Some((site, text)) = of_plugin_test(bare) {
            emit(out, launcher, What::NcclWarn { site: Some(site), text: clean::clip(text, 2000).into_owned() });
            return Some("");
        }
        if is_bare(bare) {
            // The level went with the head. What the catalogue has from lines of INFO, too, may be one of those.
            match catalog::find_warn(None, bare).filter(|s| !s.is_fact && s.severity >= Severity::Error) {
                Some(_) => emit(out, launcher, What::NcclWarn { site: None, text: clean::clip(bare, 2000).into_owned() }),
                None => info(bare, launcher, out),
            }
            return Some("");
        }
        let records = self.records(line, launcher);
        let first = records.first()?.start;
        for (i, r) in records.iter().enumerate() {
            let end = records.get(i + 1).map_or(line.len(), |next| next.start);
            let message = line.get(r.message..end).unwrap_or("").trim_end();
            match r.level {
                Level::Warn => {
                    let site = (!r.site.is_empty()).then(|| r.site.to_string());
                    let is_muted = catalog::user::has_mutes() && catalog::find_warn(site.as_deref(), message).is_some_and(|s| s.muted);
                    emit(out, &r.origin, What::NcclWarn { site, text: clean::clip(message, 2000).into_owned() });
                    if !is_muted {
                        super::cuda::read(message, &r.origin, out);
                    }
                }
                Level::Info if r.headed => info(message, &r.origin, out),
                Level::Info | Level::Other => {}
            }
        }
        Some(&line[..first])
    }

    /// All records in a line.
    fn records<'a>(&mut self, line: &'a str, launcher: &Origin) -> Vec<Record<'a>> {
        let mut out = Vec::new();
        let mut from = 0;
        static NCCL: LazyLock<memmem::Finder<'_>> = LazyLock::new(|| memmem::Finder::new("CCL "));
        for end in NCCL.find_iter(line.as_bytes()) {
            let capitals = line[..end].bytes().rev().take_while(u8::is_ascii_uppercase).count();
            // Libraries that came of NCCL print their own names in their lines: `VCCL WARN`, `MCCL INFO`.
            let of_nccl = line[..end].ends_with('N');
            if !of_nccl && !(1..=MOST_CAPITALS).contains(&capitals) {
                continue;
            }
            let found = if of_nccl { end - 1 } else { end - capitals };
            // Where a colour stood, or a record was glued, the blank in front of a WARN may be missing: `misc/socket.cc:50NCCL WARN `.
            let at = match line.as_bytes()[..found].last() {
                Some(b' ') => found - 1,
                Some(b'0'..=b'9' | b']') if line[found..].starts_with("NCCL WARN ") => found,
                // Who pasted it left out who wrote it.
                None => found,
                _ => continue,
            };
            if at < from {
                continue;
            }
            let after = &line[end + 4..];
            let (level, word) = if after.starts_with("INFO ") || after == "INFO" {
                (Level::Info, 5)
            } else if after.starts_with("WARN ") || after == "WARN" {
                (Level::Warn, 5)
            } else if after.starts_with("TRACE ") || after.starts_with("CALL ") {
                (Level::Other, 5)
            } else {
                continue;
            };
            let message = (end + 4 + word).min(line.len());
            let mut r = Record { start: from, level, headed: false, origin: launcher.clone(), site: "", message };
            self.header(&line[from..at], from, &mut r);
            if !of_nccl && !r.headed {
                continue;
            }
            r.headed |= at == 0;
            out.push(r);
            from = message;
        }
        if out.is_empty() && may_be_early(line) {
            out.extend(self.early_record(line, launcher));
        }
        out
    }

    /// A record of NCCL 2.0 to 2.2, which had no `NCCL` in front of the level: `HOST:PID:TID [DEV] FILE:LINE WARN …`.
    fn early_record<'a>(&mut self, line: &'a str, launcher: &Origin) -> Option<Record<'a>> {
        static EARLY: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r":[0-9]+:[0-9]+ \[[0-9]+\](?: [A-Za-z0-9_./-]+\.(?:cu|cc|h):[0-9]+ (WARN)| (INFO)) ").expect("constant")
        });
        let Some(found) = EARLY.captures(line) else { return neurons(line, launcher) };
        let (level, word) = found.get(1).map(|w| (Level::Warn, w)).or_else(|| found.get(2).map(|w| (Level::Info, w)))?;
        let mut r = Record { start: 0, level, headed: false, origin: launcher.clone(), site: "", message: word.end() + 1 };
        self.header(&line[..word.start() - 1], 0, &mut r);
        r.headed.then_some(r)
    }

    /// Splits what stands before ` NCCL INFO`: `…[TIME] HOST:PID:TID [DEV] SITE`.
    fn header<'a>(&mut self, before: &'a str, offset: usize, r: &mut Record<'a>) {
        // The message of the record before, not ours.
        let nothing = offset + before.len();
        let Some(h) = find_header(before) else {
            // Who pasted it left out host and process: `[3] NCCL INFO …`.
            let device = || {
                let (device, site) = before.trim_start().strip_prefix('[')?.split_once(']')?;
                Some((device.parse::<u32>().ok().filter(|device| *device < 1024)?, site.trim()))
            };
            if offset == 0
                && let Some((device, site)) = device()
            {
                (r.origin.cuda_dev, r.site, r.start, r.headed) = (Some(device), site, 0, true);
            } else if offset > 0 {
                r.start = nothing;
            } else if r.level == Level::Warn {
                r.site = before.trim();
                r.start = 0;
            }
            return;
        };
        let glued = before[..h.start].chars().next_back().is_some_and(|c| !matches!(c, ' ' | ']' | '>' | '|' | '\t' | ':'));
        let mut name = h.host;
        let longer = self.hosts.iter().find(|k| name.len() > k.len() && name.ends_with(k.as_str()));
        if let Some(known) = longer.filter(|_| h.start > 0 || offset > 0) {
            name = &name[name.len() - known.len()..];
        }
        let known = self.hosts.iter().any(|k| k == name);
        if h.start == 0 && offset == 0 && !known && self.hosts.len() < MAX_HOSTS && name.len() <= 64 {
            self.hosts.push(name.to_string());
        }
        r.start = offset + h.start + (h.host.len() - name.len());
        if known || !glued {
            r.origin.host = Some(name.to_string());
        }
        r.origin.pid = Some(h.pid);
        r.origin.tid = Some(h.tid);
        r.headed = true;
        let mut rest = h.rest;
        if let Some((dev, tail)) = rest.strip_prefix('[').and_then(|t| t.split_once(']')) {
            // Uninitialised when the CUDA call failed, through 2.28.
            r.origin.cuda_dev = dev.parse::<i64>().ok().and_then(|d| u32::try_from(d).ok()).filter(|d| *d < 1024);
            rest = tail;
        }
        r.site = rest.trim();
        let head = &before[..h.start];
        if let Some((open, w)) =
            head.strip_suffix("] ").and_then(|t| t.rfind('[')).and_then(|open| Some((open, stamp::iso(&head[open + 1..])?.0)))
        {
            r.origin.written = Some(w);
            r.start = offset + open;
        }
    }
}

/// A record of AWS Neuron's collectives, which came of NCCL: `PID:TID [DEV] SITE CCOM WARN …`. The device is none of CUDA's.
fn neurons<'a>(line: &'a str, launcher: &Origin) -> Option<Record<'a>> {
    static CCOM: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|[ :])([0-9]+):([0-9]+) \[-?[0-9]+\] (\S+) CCOM (WARN|INFO) ").expect("constant"));
    let found = line.contains(" CCOM ").then(|| CCOM.captures(line))??;
    let number = |group: usize| found.get(group).and_then(|n| n.as_str().parse().ok());
    let level = if found.get(4).is_some_and(|word| word.as_str() == "WARN") { Level::Warn } else { Level::Info };
    let (site, message) = (found.get(3).map_or("", |site| site.as_str()), found.get(0).map_or(0, |whole| whole.end()));
    let origin = Origin { pid: number(1), tid: number(2), ..launcher.clone() };
    Some(Record { start: 0, level, headed: true, origin, site, message })
}

/// Whether a line may hold a record of NCCL 2.0 to 2.2, which does not name NCCL.
pub(super) fn may_be_early(line: &str) -> bool {
    static WORDS: LazyLock<[memmem::Finder<'_>; 2]> = LazyLock::new(|| [" WARN ", "] INFO "].map(memmem::Finder::new));
    WORDS.iter().any(|word| word.find(line.as_bytes()).is_some())
}

struct Header<'a> {
    start: usize,
    host: &'a str,
    pid: u32,
    tid: u32,
    rest: &'a str,
}

/// The last `HOST:PID:TID ` in `text`.
fn find_header(text: &str) -> Option<Header<'_>> {
    with_thread(text).or_else(|| without_thread(text))
}

/// `HOST:PID [DEV] `, without a thread: what some builds print.
fn without_thread(text: &str) -> Option<Header<'_>> {
    let bracket = text.rfind(" [")?;
    let (place, rest) = (&text[..bracket], &text[bracket + 1..]);
    (rest[1..].bytes().take_while(u8::is_ascii_digit).count() > 0 && rest.contains(']')).then_some(())?;
    let (host, pid) = place.rsplit_once(':')?;
    let pid = pid.parse().ok().filter(|pid| *pid > 0)?;
    let start = host.len() - host.bytes().rev().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')).count();
    let host = &host[start..];
    // Else it may be the end of a time.
    host.bytes().any(|b| b.is_ascii_alphabetic()).then_some(Header { start, host, pid, tid: pid, rest })
}

fn with_thread(text: &str) -> Option<Header<'_>> {
    let bytes = text.as_bytes();
    for colon in memchr::memrchr_iter(b':', bytes) {
        let tid_end = colon + 1 + digits_at(bytes, colon + 1);
        if tid_end == colon + 1 || !(tid_end == bytes.len() || bytes[tid_end] == b' ') {
            continue;
        }
        let pid_start = colon - bytes[..colon].iter().rev().take_while(|b| b.is_ascii_digit()).count();
        if pid_start == colon || pid_start == 0 || bytes[pid_start - 1] != b':' {
            continue;
        }
        let host_end = pid_start - 1;
        let host_len = bytes[..host_end].iter().rev().take_while(|b| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.')).count();
        let host = &text[host_end - host_len..host_end];
        let rest = text[tid_end..].strip_prefix(' ').unwrap_or("");
        // `2026-01-02T10:24:28 ` of a log shipper has the same shape.
        let time = host.len() >= 13 && stamp::iso(&text[host_end - host_len..]).is_some()
            || host.len() <= 2 && host.bytes().all(|b| b.is_ascii_digit()) && (colon - pid_start, tid_end - colon - 1) == (2, 2);
        if host.is_empty() || time {
            continue;
        }
        let (Ok(pid), Ok(tid)) = (text[pid_start..colon].parse::<u32>(), text[colon + 1..tid_end].parse::<u32>()) else { continue };
        if pid == 0 || !(rest.is_empty() || rest.starts_with('[')) {
            continue;
        }
        return Some(Header { start: host_end - host_len, host, pid, tid, rest });
    }
    None
}

fn digits_at(bytes: &[u8], at: usize) -> usize {
    bytes[at..].iter().take_while(|b| b.is_ascii_digit()).count()
}

/// `init.cc:1248 -> 3` of `/build/rccl/src/init.cc:1248 -> 3`: RCCL has the whole path of its sources.
fn without_folder(message: &str) -> &str {
    let path = message.split(' ').next().filter(|path| path.starts_with('/') && message[path.len()..].starts_with(" -> "));
    path.and_then(|path| path.rfind('/')).map_or(message, |at| &message[at + 1..])
}

fn emit(out: &mut Vec<TextEvent>, origin: &Origin, what: What) {
    out.push(TextEvent { origin: origin.clone(), what, said_at: None });
}

/// Whether it is a message of the plugin for EFA whose head was cut off by who pasted it.
pub fn is_bare(line: &str) -> bool {
    line.starts_with("NET/OFI ")
}

pub const OF_PLUGIN_TEST: &str = "WARN: Function: ";

/// What aws-ofi-nccl prints in its own tests, which run without NCCL: `WARN: Function: ofi_init Line: 543: NET/OFI …`.
fn of_plugin_test(line: &str) -> Option<(String, &str)> {
    let (function, tail) = line.strip_prefix(OF_PLUGIN_TEST)?.split_once(" Line: ")?;
    let (number, text) = tail.split_once(": ")?;
    number.parse::<u32>().ok()?;
    Some((format!("{function}:{number}"), text))
}

fn info(message: &str, origin: &Origin, out: &mut Vec<TextEvent>) {
    let message = without_folder(message);
    let what = match message.as_bytes().first() {
        Some(b'0'..=b'9' | b'C' | b'G' | b'M' | b'N' | b'P' | b'R' | b'T') => {
            ofi::read(message).or_else(|| transport::read(message)).or_else(|| graph::read(message)).or_else(|| bringup::read(message))
        }
        _ => bringup::read(message),
    };
    let what = what.or_else(|| bringup::env(message)).or_else(|| comm::read(message));
    // A fact that is trouble, too, gives both events.
    let signed = what.as_ref().is_none_or(types::tells_trouble).then(|| catalog::find(catalog::Scope::Nccl, message)).flatten();
    if let Some(what) = what {
        emit(out, origin, what);
    }
    if let Some(signature) = signed {
        emit(out, origin, What::Signed { signature, text: clean::clip(message, catalog::MAX_TEXT).into_owned(), tried: true });
    }
}
