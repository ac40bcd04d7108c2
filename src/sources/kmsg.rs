//! The kernel log: Xids, NIC resets, PCIe errors, the OOM killer. Starts no program and forwards only lines that may concern a job.

use super::{Complaint, Hint, Hints, Roots, Setup, Source, SourceError};
use crate::base::file;
use crate::base::words::io_words;
use crate::observe::log::KernelLine;
use crate::observe::{Body, SourceState};
use regex::bytes::Regex;
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, read, retry_on_intr};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

const DEVICE: &str = "/dev/kmsg";
/// Where syslog daemons copy the kernel log, for users who may not read the device.
const FILES: &[&str] = &["/var/log/kern.log", "/var/log/dmesg"];
/// A read of a record that is longer than the buffer fails; the kernel makes none longer than 8 KiB.
const RECORD_BYTES: usize = 16 << 10;
const LINE_BYTES: usize = 4 << 10;
/// Lines forwarded and records read by one poll. What is left stays in the kernel's buffer for the next one.
const LINES_PER_POLL: usize = 2000;
const RECORDS_PER_POLL: usize = 100_000;
/// How much of a file one poll reads, and how far before its end the first one starts.
const FILE_BYTES: u64 = 1 << 20;
/// A copy in a file has no level; this is the kernel's own default (KERN_WARNING).
const LEVEL_OF_COPIES: u8 = 4;

/// Short words are bounded: `oom` is in `room`, `ena` in `enabled`.
static INTERESTING: LazyLock<Regex> = LazyLock::new(|| {
    let any_case = [
        r"nvrm",
        r"\bs?xid\b",
        r"nvidia",
        r"amdgpu .*(?:hardware error|gpu reset)",
        r"nvlink",
        r"mlx5",
        r"bnxt_en",
        r"\befa\b",
        r"\bena\b",
        r"infiniband",
        r"rdma",
        r"\boom",
        r"out of memory",
        r"killed process",
        r"blocked for more than",
        r"segfault",
        r"pcieport",
        r"link is (?:down|up)\b",
        r"machine check",
        r"\bmce\b",
        r"\bedac\b",
        r"sending sigbus",
        r"soft lockup",
        r"hard lockup",
        r"page allocation failure",
        r"netdev watchdog",
        r"definitely down",
        r"pciehp",
        r"\bdpc:",
        r"io_page_fault",
        r"\bdmar:",
        r"cpu clock throttled",
        r"\bnfs4?:",
        r"\blustre(?:error)?:",
        r"i/o error",
        r"\bnvme\b",
        r"remounting filesystem",
        r"kernel panic",
        r"\bbug:",
        r"general protection fault",
        r"trap invalid opcode",
    ];
    let text = format!(r"(?i-u:{})|(?-u:\bAER\b)|\[Hardware Error\]", any_case.join("|"));
    Regex::new(&text).expect("the pattern is constant")
});

/// What drivers log when they cannot do what reading counters asks of them. Each text stands in a line with one of its commands: mlx5/core/cmd.c
/// (mlx5_cmd_out_err, wait_func), bnxt_hwrm.c (PORT_QSTATS, STAT_CTX_QUERY, PORT_QSTATS_EXT), efa_com.c, ena_com.c.
const COMPLAINTS: &[(&str, &[&str], &[&str])] = &[
    (
        "mlx5_core",
        &["failed", "timeout"],
        &["QUERY_Q_COUNTER(", "QUERY_VPORT_COUNTER(", "ACCESS_REG(", "QUERY_CONG_STATISTICS(", "QUERY_CONG_PARAMS("],
    ),
    ("bnxt_en", &["hwrm req_type ", "Error (timeout"], &["0x23 ", "0xb2 ", "0xb4 "]),
    ("efa", &["Failed to process command", "Failed to submit command"], &["GET_STATS"]),
    ("ena", &["Failed to get stats"], &[""]),
];
/// Of a line in the words of another source.
const COMPLAINT_CHARS: usize = 160;

/// `mlx5_core 0000:1a:00.0: mlx5_cmd_out_err:808:(pid 4711): ACCESS_REG(0x805) op_mod(0x1) failed, status bad parameter(0x3), …`
fn complaint(text: &str) -> Option<Complaint> {
    let (driver, rest) = text.split_once(' ')?;
    let (_, texts, commands) = COMPLAINTS.iter().find(|(known, ..)| *known == driver)?;
    let (bus_id, rest) = rest.split_once(' ')?;
    let has = |all: &[&str]| all.iter().any(|one| rest.contains(one));
    let line = || text.chars().take(COMPLAINT_CHARS).collect();
    (has(texts) && has(commands)).then(|| Complaint { bus_id: bus_id.trim_end_matches(':').to_owned(), line: line() })
}

/// The thread whose command it was: mlx5 names it.
fn thread(line: &str) -> Option<u32> {
    line.split_once("(pid ")?.1.split_once(')')?.0.parse().ok()
}

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    let readers = vec![setup.to_rdma.clone(), setup.to_netdev.clone()];
    Box::new(Kmsg::new(setup.roots.clone(), setup.interval).telling(readers))
}

pub struct Kmsg {
    roots: Roots,
    every: Duration,
    way: Way,
    /// Those who read counters.
    readers: Vec<Hints>,
}

/// How the log is read.
enum Way {
    Unknown,
    Device(Records),
    Copy { file: Copied, why_not_device: String },
}

impl Kmsg {
    pub fn new(roots: Roots, every: Duration) -> Self {
        Kmsg { roots, every, way: Way::Unknown, readers: Vec::new() }
    }

    /// One that tells those who read counters what drivers complain about.
    pub fn telling(self, readers: Vec<Hints>) -> Self {
        Kmsg { readers, ..self }
    }

    /// The device, or else a copy of the log in a file.
    fn find_way(&self) -> Result<Way, SourceError> {
        let refused = match Records::open(&self.roots.path(DEVICE)) {
            Ok(records) => return Ok(Way::Device(records)),
            Err(err) => err,
        };
        let why_not_device = why_not_device(&refused);
        let readable = FILES.iter().find(|file| file::open(&self.roots.path(file)).is_ok());
        match readable {
            Some(path) => Ok(Way::Copy { file: Copied::new(path), why_not_device }),
            None => {
                let text = format!("kernel log: {why_not_device}; Xid lines will be missed");
                Err(match refused.kind() {
                    io::ErrorKind::PermissionDenied => SourceError::Denied(text),
                    io::ErrorKind::NotFound => SourceError::Absent(text),
                    _ => SourceError::Failed(text),
                })
            }
        }
    }

    /// The second number of /proc/uptime is of no use here; the first has hundredths of a second.
    fn uptime_us(&self) -> Option<u64> {
        let text = self.roots.table("/proc/uptime").ok()?;
        let secs: f64 = text.split_whitespace().next()?.parse().ok()?;
        (0.0..1e12).contains(&secs).then_some((secs * 1e6) as u64)
    }
}

fn why_not_device(err: &io::Error) -> String {
    let hint = if err.kind() == io::ErrorKind::PermissionDenied { " (kernel.dmesg_restrict)" } else { "" };
    format!("{DEVICE}: {}{hint}", io_words(err))
}

impl Source for Kmsg {
    fn every(&self) -> Duration {
        self.every
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        if let Way::Unknown = self.way {
            self.way = self.find_way()?;
        }
        let mut lines = Vec::new();
        let polled = match &mut self.way {
            Way::Unknown => Ok(()),
            Way::Device(records) => records.read(&mut lines).map_err(|err| SourceError::io(Path::new(DEVICE), &err)),
            Way::Copy { file, .. } => file.read(&self.roots, &mut lines).map_err(|err| SourceError::io(Path::new(file.path), &err)),
        };
        // Of many lines about one device the last will do. What others ask of it, and fail, is theirs.
        let is_own = |thread: u32| self.roots.path(format!("/proc/self/task/{thread}")).exists();
        let complaints = lines.iter().filter(|line| !line.backlog).filter_map(|line| complaint(&line.text));
        let complaints = complaints.filter(|complaint| thread(&complaint.line).is_none_or(is_own));
        let complaints: BTreeMap<String, Complaint> = complaints.map(|complaint| (complaint.bus_id.clone(), complaint)).collect();
        for complaint in complaints.into_values() {
            self.readers.iter().for_each(|reader| reader.send(Hint::Complaint(complaint.clone())));
        }
        if !lines.is_empty() {
            out.push(Body::Kernel { lines, uptime_us: self.uptime_us() });
        }
        polled
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        match &self.way {
            Way::Unknown => None,
            Way::Device(records) if records.overwritten == 0 => None,
            Way::Device(records) => {
                Some((SourceState::Ok, format!("{} kernel messages were overwritten before they were read", records.overwritten)))
            }
            Way::Copy { file, why_not_device } => Some((SourceState::Ok, format!("reading {}: {why_not_device}", file.path))),
        }
    }
}

/// /dev/kmsg: one record per read, from the oldest that the kernel still has.
struct Records {
    device: OwnedFd,
    buf: Vec<u8>,
    next_seq: Option<u64>,
    overwritten: u64,
    age: Age,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Age {
    Backlog,
    New,
}

impl Records {
    fn open(path: &Path) -> io::Result<Records> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let device = rustix::fs::open(path, flags, Mode::empty())?;
        Ok(Records { device, buf: vec![0; RECORD_BYTES], next_seq: None, overwritten: 0, age: Age::Backlog })
    }

    fn read(&mut self, lines: &mut Vec<KernelLine>) -> io::Result<()> {
        for _ in 0..RECORDS_PER_POLL {
            if lines.len() >= LINES_PER_POLL {
                return Ok(());
            }
            match retry_on_intr(|| read(&self.device, &mut self.buf)) {
                // A regular file in the place of the device has an end.
                Ok(0) | Err(Errno::AGAIN) => {
                    self.age = Age::New;
                    return Ok(());
                }
                Ok(n) => {
                    if let Some(record) = Record::parse(&self.buf[..n]) {
                        let lost = self.next_seq.map_or(0, |next| record.seq.saturating_sub(next));
                        self.overwritten = self.overwritten.saturating_add(lost);
                        self.next_seq = record.seq.checked_add(1);
                        lines.extend(record.line(self.age));
                    }
                }
                // The next record was overwritten; the read after this one gives the oldest that is left, and the gap in the
                // sequence says how many are lost.
                Err(Errno::PIPE) => {}
                Err(err) => return Err(err.into()),
            }
        }
        Ok(())
    }
}

/// `prio,seq,usec,flags;text`, then lines ` KEY=value` that say which device it is about.
#[derive(Debug, PartialEq, Eq)]
struct Record<'a> {
    level: u8,
    seq: u64,
    uptime_us: u64,
    text: &'a [u8],
}

impl<'a> Record<'a> {
    fn parse(bytes: &'a [u8]) -> Option<Record<'a>> {
        let split = bytes.iter().position(|&b| b == b';')?;
        let (head, text) = (std::str::from_utf8(&bytes[..split]).ok()?, &bytes[split + 1..]);
        // Later kernels may add fields before the semicolon.
        let mut fields = head.split(',');
        let priority: u64 = fields.next()?.parse().ok()?;
        let seq = fields.next()?.parse().ok()?;
        let uptime_us = fields.next()?.parse().ok()?;
        let text = text.split(|&b| b == b'\n').next()?;
        // Above the three bits of the level is the facility: root may write lines into the log, too.
        Some(Record { level: (priority & 7) as u8, seq, uptime_us, text })
    }

    fn line(&self, age: Age) -> Option<KernelLine> {
        INTERESTING.is_match(self.text).then(|| KernelLine {
            level: self.level,
            uptime_us: Some(self.uptime_us),
            text: bounded(self.text),
            backlog: age == Age::Backlog,
        })
    }
}

fn bounded(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(LINE_BYTES)]).into_owned()
}

/// A copy of the log in a file that grows and is rotated.
struct Copied {
    path: &'static str,
    inode: Option<u64>,
    offset: u64,
    age: Age,
}

impl Copied {
    fn new(path: &'static str) -> Self {
        Copied { path, inode: None, offset: 0, age: Age::Backlog }
    }

    /// Whole lines only: the rest of the last one is read when its end is there.
    fn read(&mut self, roots: &Roots, lines: &mut Vec<KernelLine>) -> io::Result<()> {
        let file = file::open(&roots.path(self.path))?;
        let meta = file.metadata()?;
        match self.inode {
            None => self.offset = meta.len().saturating_sub(FILE_BYTES),
            Some(inode) if inode != meta.ino() || meta.len() < self.offset => self.offset = 0,
            Some(_) => {}
        }
        self.inode = Some(meta.ino());
        let mut bytes = vec![0; FILE_BYTES.min(meta.len().saturating_sub(self.offset)) as usize];
        let n = file.read_at(&mut bytes, self.offset)?;
        let whole = match bytes[..n].iter().rposition(|&b| b == b'\n') {
            Some(end) => end + 1,
            // A megabyte without a line end is no log.
            None if n as u64 == FILE_BYTES => n,
            None => 0,
        };
        self.offset += whole as u64;
        for line in bytes[..whole].split(|&b| b == b'\n') {
            if self.age == Age::Backlog && is_boot(line) {
                lines.clear();
            }
            lines.extend(copied_line(line, self.age));
        }
        lines.drain(..lines.len().saturating_sub(LINES_PER_POLL));
        if self.offset >= meta.len() || whole == 0 {
            self.age = Age::New;
        }
        Ok(())
    }
}

/// The first line of a boot. What a file has from before it is over.
fn is_boot(line: &[u8]) -> bool {
    let (_, text) = split_uptime(line);
    let text = text.trim_ascii_start();
    text.strip_prefix(b"kernel: ").unwrap_or(text).starts_with(b"Linux version ")
}

fn copied_line(line: &[u8], age: Age) -> Option<KernelLine> {
    let (uptime_us, text) = split_uptime(line);
    INTERESTING.is_match(text).then(|| KernelLine { level: LEVEL_OF_COPIES, uptime_us, text: bounded(text), backlog: age == Age::Backlog })
}

/// `Nov 21 01:02:03 node-1 kernel: [  123.456789] text`; without brackets, what follows `kernel: `, or the whole line.
fn split_uptime(line: &[u8]) -> (Option<u64>, &[u8]) {
    let message = match memchr::memmem::find(line, b"kernel: ") {
        Some(at) if !line.starts_with(b"[") => &line[at + b"kernel: ".len()..],
        _ => line,
    };
    match bracketed_uptime_us(message) {
        Some((uptime_us, text)) => (Some(uptime_us), text),
        None => (None, message),
    }
}

/// `[  123.456789] `
fn bracketed_uptime_us(message: &[u8]) -> Option<(u64, &[u8])> {
    let rest = message.strip_prefix(b"[")?;
    let end = memchr::memchr(b']', &rest[..rest.len().min(32)])?;
    let (secs, micros) = std::str::from_utf8(&rest[..end]).ok()?.trim().split_once('.')?;
    if micros.len() != 6 {
        return None;
    }
    let uptime_us = secs.parse::<u64>().ok()?.checked_mul(1_000_000)?.checked_add(micros.parse().ok()?)?;
    Some((uptime_us, rest[end + 1..].trim_ascii_start()))
}

#[cfg(test)]
#[test]
fn a_refusal_names_the_setting_behind_it() {
    let refused = io::Error::from(Errno::PERM);
    assert_eq!(why_not_device(&refused), "/dev/kmsg: operation not permitted (kernel.dmesg_restrict)");
}
