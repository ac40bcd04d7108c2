//! NCCL's own lines, all versions. A torn line gives nothing, never a wrong fact.

use super::{Init, Origin, TextEvent, What, clean, prefix::stamp};
use memchr::memmem;

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

impl State {
    /// Reads all NCCL records in `line`; the text before the first one comes back, for others to read. `None`: no NCCL here.
    pub fn read<'a>(&mut self, line: &'a str, launcher: &Origin, out: &mut Vec<TextEvent>) -> Option<&'a str> {
        if line.starts_with("NCCL version ") {
            version(line, launcher, out);
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
                    emit(out, &r.origin, What::NcclWarn { site, text: clean::clip(message, 2000).into_owned() });
                    super::cuda::read(message, &r.origin, out);
                }
                Level::Info if r.headed => info(message, &r.origin, out),
                Level::Info | Level::Other => {}
            }
        }
        Some(&line[..first])
    }

    fn records<'a>(&mut self, line: &'a str, launcher: &Origin) -> Vec<Record<'a>> {
        let mut out = Vec::new();
        let mut from = 0;
        for at in memmem::find_iter(line.as_bytes(), " NCCL ") {
            if at < from {
                continue;
            }
            let after = &line[at + 6..];
            let (level, word) = if after.starts_with("INFO ") || after == "INFO" {
                (Level::Info, 5)
            } else if after.starts_with("WARN ") || after == "WARN" {
                (Level::Warn, 5)
            } else if after.starts_with("TRACE ") || after.starts_with("CALL ") {
                (Level::Other, 5)
            } else {
                continue;
            };
            let message = (at + 6 + word).min(line.len());
            let mut r = Record { start: from, level, headed: false, origin: launcher.clone(), site: "", message };
            self.header(&line[from..at], from, &mut r);
            out.push(r);
            from = message;
        }
        out
    }

    /// Splits what stands before ` NCCL INFO`: `…[TIME] HOST:PID:TID [DEV] SITE`.
    fn header<'a>(&mut self, before: &'a str, offset: usize, r: &mut Record<'a>) {
        // The message of the record before, not ours.
        let nothing = offset + before.len();
        let Some(h) = find_header(before) else {
            if offset > 0 {
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

struct Header<'a> {
    start: usize,
    host: &'a str,
    pid: u32,
    tid: u32,
    rest: &'a str,
}

/// The last `HOST:PID:TID ` in `text`.
fn find_header(text: &str) -> Option<Header<'_>> {
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
            || host.len() <= 2 && host.bytes().all(|b| b.is_ascii_digit());
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

fn emit(out: &mut Vec<TextEvent>, origin: &Origin, what: What) {
    out.push(TextEvent { origin: origin.clone(), what, said_at: None });
}

fn info(message: &str, origin: &Origin, out: &mut Vec<TextEvent>) {
    let what = match message.as_bytes().first() {
        Some(b'C') if message.starts_with("Channel ") => channel(message),
        Some(b'C') if message.starts_with("Connected all rings") => Some(What::Connected),
        Some(b'B') => bootstrap(message),
        Some(b'U') => {
            message.strip_prefix("Using network ").map(|n| What::Network { name: n.trim().to_string() }).filter(|_| message.len() > 14)
        }
        Some(b'N') if message.starts_with("NET/Plugin") => plugin(message),
        Some(b'N') if message.starts_with("NCCL version ") => return version(message, origin, out),
        Some(b'R') if message.starts_with("RAS client listening socket at ") => ras(message),
        Some(b'0'..=b'9') => channels(message),
        _ => None,
    };
    let what = what.or_else(|| env(message)).or_else(|| comm(message));
    if let Some(what) = what {
        emit(out, origin, what);
    }
}

/// `NCCL version 2.28.9+cuda13.0`
fn version(message: &str, origin: &Origin, out: &mut Vec<TextEvent>) {
    let Some(word) = message.strip_prefix("NCCL version ").and_then(|t| t.split_whitespace().next()) else { return };
    let (version, cuda) = match word.split_once("+cuda") {
        Some((v, c)) => (v, Some(c)),
        None => (word, None),
    };
    let numbers = version.split('.').take_while(|p| p.starts_with(|c: char| c.is_ascii_digit())).count();
    let cuda_is_whole =
        cuda.is_none_or(|c| c.split('.').count() == 2 && c.split('.').all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit())));
    if numbers >= 3 && cuda_is_whole {
        emit(out, origin, What::NcclVersion { version: version.to_string(), cuda: cuda.map(str::to_string) });
    }
}

/// `Bootstrap : Using eth0:10.0.0.1<0>`, `Bootstrap: Using mlx5_0:1`, `Bootstrap: Using [eth0]:[fe80::1]<0>`
fn bootstrap(message: &str) -> Option<What> {
    let tail = message.strip_prefix("Bootstrap")?.trim_start().strip_prefix(':')?.trim_start().strip_prefix("Using ")?.trim_end();
    let unbracket = |s: &str| s.trim_start_matches('[').trim_end_matches(']').to_string();
    match tail.split_once('<') {
        Some((place, port)) => {
            port.strip_suffix('>')?.parse::<u16>().ok()?;
            let (interface, address) = if let Some((i, a)) = place.split_once("]:") { (i, a) } else { place.split_once(':')? };
            Some(What::Bootstrap { interface: unbracket(interface), address: Some(unbracket(address)) })
        }
        None => {
            let (device, port) = tail.split_once(':')?;
            port.parse::<u16>().ok()?;
            Some(What::Bootstrap { interface: device.to_string(), address: None })
        }
    }
}

fn plugin(message: &str) -> Option<What> {
    let tail = message.strip_prefix("NET/Plugin")?.trim_start().strip_prefix(':')?.trim_start();
    if let Some(name) = tail.strip_prefix("Loaded net plugin ") {
        let (name, v) = name.rsplit_once(" (")?;
        v.ends_with(')').then_some(())?;
        return Some(What::NetPlugin { name: Some(name.to_string()) });
    }
    let absent = tail.starts_with("Could not find: ") && tail.contains("libnccl-net") || tail.contains("No plugin found");
    absent.then_some(What::NetPlugin { name: None })
}

fn ras(message: &str) -> Option<What> {
    let (address, port) = message.strip_prefix("RAS client listening socket at ")?.split_once('<')?;
    let port: u16 = port.trim_end().strip_suffix('>')?.parse().ok()?;
    Some(What::RasListening { address: format!("{address}:{port}") })
}

/// `24 coll channels, 24 collnet channels, …`
fn channels(message: &str) -> Option<What> {
    let (n, tail) = message.split_once(" coll channels, ")?;
    tail.contains("p2p channels").then_some(())?;
    Some(What::Channels { coll: n.parse().ok()? })
}

/// `NCCL_SOCKET_IFNAME set by environment to eth0`; numbers have a full stop behind them.
fn env(message: &str) -> Option<What> {
    let (name, value) = message.split_once(" set by environment to ")?;
    if name.is_empty() || !name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_') {
        return None;
    }
    let number = value.strip_suffix('.').filter(|v| v.parse::<i64>().is_ok());
    Some(What::EnvSet { name: name.to_string(), value: number.unwrap_or(value).to_string() })
}

/// `Channel 00/0 : 3[3] -> 4[4] [send] via NET/IB/0/GDRDMA`
fn channel(message: &str) -> Option<What> {
    let (_, tail) = message.strip_prefix("Channel ")?.split_once(" : ")?;
    let (path, transport) = tail.split_once(" via ")?;
    let (from, to) = path.split_once(" -> ")?;
    let (to, receive) = match to.strip_suffix(" [receive]") {
        Some(to) => (to, true),
        None => (to.strip_suffix(" [send]").unwrap_or(to), false),
    };
    let peer = |text: &str| {
        let (rank, place) = text.split_once('[')?;
        let place = place.strip_suffix(']')?;
        (!place.is_empty() && place.bytes().all(|b| b.is_ascii_hexdigit())).then_some(())?;
        rank.parse::<u32>().ok()
    };
    let transport = transport.trim();
    is_transport(transport).then_some(())?;
    Some(What::Channel { from_rank: peer(from)?, to_rank: peer(to)?, transport: transport.to_string(), receive })
}

/// Whole, not the torn start of one.
fn is_transport(t: &str) -> bool {
    if let Some(p2p) = t.strip_prefix("P2P/") {
        let p2p = p2p.strip_suffix("/CE").unwrap_or(p2p);
        let p2p = p2p.strip_suffix("/read").unwrap_or(p2p);
        let indirect = p2p.strip_prefix("indirect/").and_then(|t| t.strip_suffix(']')).and_then(|t| t.split_once('['));
        return matches!(p2p, "direct pointer" | "IPC" | "CUMEM" | "MNNVL")
            || indirect.is_some_and(|(r, d)| r.parse::<u32>().is_ok() && !d.is_empty());
    }
    if let Some(shm) = t.strip_prefix("SHM/") {
        return shm.split('/').all(|w| matches!(w, "direct" | "CE"));
    }
    if let Some(net) = t.strip_prefix("NET/") {
        let net = net.strip_suffix("/Shared").unwrap_or(net);
        let net = net.strip_suffix("/GDRDMA").or_else(|| net.strip_suffix("/GDRDMA(PCI)")).unwrap_or(net);
        return net.rsplit_once('/').is_some_and(|(name, dev)| {
            let dev = dev.split_once('(').map_or(dev, |(d, _)| d);
            !name.is_empty() && dev.parse::<u32>().is_ok()
        });
    }
    // RCCL and 2.12.
    matches!(t, "direct shared memory" | "P2P" | "COLLNET") || t.starts_with("COLLNET/")
}

/// Lines about one communicator: `… comm 0x… rank 3 nranks 8 … - Init COMPLETE`.
fn comm(message: &str) -> Option<What> {
    let at = message.find("comm 0x")?;
    if at > 0 && !message[..at].ends_with(' ') {
        return None;
    }
    let (fields, state) = match message.rfind("- ").filter(|at| message[at + 2..].starts_with(|c: char| c.is_ascii_uppercase())) {
        Some(dash) => (&message[at..dash], &message[dash + 2..]),
        None => (&message[at..], ""),
    };
    let mut f = Fields::default();
    let mut words = fields.split_whitespace();
    while let (Some(key), Some(value)) = (words.next(), words.next()) {
        f.take(key, value)?;
    }
    let comm = f.comm?;
    let rank = f.rank?;
    let nranks = f.nranks.filter(|n| *n > rank && *n < 1 << 24)?;
    match state.trim_end() {
        state @ ("Init START" | "Init COMPLETE") => Some(What::Init(Init {
            comm,
            rank,
            nranks,
            cuda_dev: f.cuda_dev,
            nvml_dev: f.nvml_dev,
            bus_id: f.bus_id.map(bus_id),
            comm_id: f.comm_id,
            complete: state == "Init COMPLETE",
        })),
        "Destroy COMPLETE" => Some(What::CommEnded { comm, rank, aborted: false }),
        "Abort COMPLETE" => Some(What::CommEnded { comm, rank, aborted: true }),
        "" => Some(What::Layout { rank, nranks, nnodes: f.nnodes?, local_ranks: f.local_ranks? }),
        _ => None,
    }
}

#[derive(Default)]
struct Fields {
    comm: Option<String>,
    rank: Option<u32>,
    nranks: Option<u32>,
    cuda_dev: Option<u32>,
    nvml_dev: Option<u32>,
    bus_id: Option<u64>,
    comm_id: Option<u64>,
    nnodes: Option<u32>,
    local_ranks: Option<u32>,
}

impl Fields {
    /// `None` when a known field holds nonsense: then the line is torn.
    fn take(&mut self, key: &str, value: &str) -> Option<()> {
        let number = || value.parse::<u32>().ok();
        match key {
            "comm" => {
                self.comm = Some(
                    value
                        .strip_prefix("0x")
                        .filter(|h| !h.is_empty() && h.bytes().all(|b| b.is_ascii_hexdigit()))
                        .map(|_| value.to_string())?,
                )
            }
            "rank" => self.rank = Some(number()?),
            "nranks" | "nRanks" => self.nranks = Some(number()?),
            "cudaDev" => self.cuda_dev = Some(number()?),
            "nvmlDev" => self.nvml_dev = Some(number()?),
            "busId" => self.bus_id = Some(u64::from_str_radix(value, 16).ok()?),
            "commId" => self.comm_id = Some(u64::from_str_radix(value.strip_prefix("0x")?, 16).ok()?),
            "nNodes" => self.nnodes = Some(number()?),
            "localRanks" => self.local_ranks = Some(number()?),
            _ => {}
        }
        Some(())
    }
}

/// `domain << 20 | bus << 12 | device << 4 | function`
fn bus_id(packed: u64) -> String {
    format!("{:04x}:{:02x}:{:02x}.{:x}", packed >> 20, packed >> 12 & 0xff, packed >> 4 & 0xff, packed & 0xf)
}

#[cfg(test)]
#[path = "nccl_tests.rs"]
mod tests;
