//! Files of the NCCL Inspector, as ranks on this node write them: found by their environment, followed as they grow, read for the newest
//! operation of each kind and size. What the names are, and what a file holds: NCCL's `plugins/profiler/inspector`.
//!
//! Opens regular files only, of that process's user, and skips what it cannot keep up with.

use super::procs::environ;
use super::procs::read::Reader;
use super::procs::stat::{Stat, Status};
use super::{Hint, Roots, Setup, Source, SourceError};
use crate::formats::inspector::{Latest, LatestComm};
use crate::observe::inspector::{Inspected, InspectedComm, InspectedOp, InspectedPeer};
use crate::observe::{Body, SourceState};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Read of a file at one look; what is more is skipped: only the newest matters.
const MAX_READ: u64 = 512 << 10;
/// Longer lines are no records.
const MAX_PART: usize = 64 << 10;
const MAX_LISTED: usize = 20_000;
/// A folder is listed for a file that is not there yet once in so many looks.
const LIST_TURN: u32 = 5;

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    Box::new(Inspectors::new(setup.roots.clone(), setup.interval, setup.inspector_inbox.take()))
}

pub struct Inspectors {
    reader: Reader,
    interval: Duration,
    inbox: Option<Receiver<Hint>>,
    /// Ranks whose environment was read, also those without the Inspector.
    ranks: BTreeMap<u32, Rank>,
    looks: u32,
}

struct Rank {
    start_ticks: u64,
    uid: Option<u32>,
    /// Where its files are, and how their names end; `None` without the Inspector.
    place: Option<(PathBuf, String)>,
    file: Option<Followed>,
}

struct Followed {
    path: PathBuf,
    inode: (u64, u64),
    offset: u64,
    /// A line that has no end yet.
    part: Vec<u8>,
    /// The line that is being read began before what was read.
    skipping: bool,
    latest: Latest,
}

impl Inspectors {
    pub fn new(roots: Roots, interval: Duration, inbox: Option<Receiver<Hint>>) -> Self {
        let interval = interval.max(Duration::from_millis(500));
        Inspectors { reader: Reader::new(roots), interval, inbox, ranks: BTreeMap::new(), looks: 0 }
    }

    fn listen(&mut self) {
        let Some(Hint::Ranks(now)) = self.inbox.iter().flat_map(Receiver::try_iter).filter(|h| matches!(h, Hint::Ranks(_))).last() else {
            return;
        };
        let now: BTreeMap<u32, u64> = now.into_iter().collect();
        self.ranks.retain(|pid, rank| now.get(pid) == Some(&rank.start_ticks));
        for (pid, start_ticks) in now {
            if !self.ranks.contains_key(&pid)
                && let Some(rank) = self.learn(pid, start_ticks)
            {
                self.ranks.insert(pid, rank);
            }
        }
    }

    /// `None` while its environment cannot be read.
    fn learn(&mut self, pid: u32, start_ticks: u64) -> Option<Rank> {
        let raw = self.reader.read(pid, "environ").ok()?.to_vec();
        let is_it = self.reader.read(pid, "stat").ok().and_then(Stat::parse).is_some_and(|s| s.start_ticks == start_ticks);
        let status = self.reader.read(pid, "status").map(Status::parse).unwrap_or_default();
        let dir = dump_dir(&raw).filter(|_| is_it).and_then(|dir| self.reader.seen_by(pid, Path::new(OsStr::from_bytes(&dir))));
        let place = dir.map(|dir| (dir, format!("-pid{}.log", status.ns_pid.unwrap_or(pid))));
        is_it.then_some(Rank { start_ticks, uid: status.uid, place, file: None })
    }

    fn look(&mut self, out: &mut Vec<Body>) {
        let lists = self.looks.is_multiple_of(LIST_TURN) && self.ranks.values().any(|rank| rank.place.is_some() && rank.file.is_none());
        let host = if lists { self.reader.roots().table("/proc/sys/kernel/hostname").unwrap_or_default() } else { String::new() };
        for (pid, rank) in &mut self.ranks {
            let Some((dir, end)) = &rank.place else { continue };
            if rank.file.is_none() && lists {
                rank.file = find(dir, end, host.trim()).map(Followed::new);
            }
            let Some(file) = &mut rank.file else { continue };
            match file.read(rank.uid) {
                Some(true) => out.push(Body::Inspector(file.seen(*pid))),
                Some(false) => {}
                None => rank.file = None,
            }
        }
        self.looks = self.looks.wrapping_add(1);
    }
}

/// The folder that an environment names: `NCCL_INSPECTOR_DUMP_DIR`, else one of the working directory. `None` where the Inspector is off.
pub fn dump_dir(raw: &[u8]) -> Option<Vec<u8>> {
    let variable = |name| environ::variable(raw, name).filter(|value| !value.is_empty());
    variable("NCCL_INSPECTOR_ENABLE").filter(|value| *value != b"0")?;
    // Then it writes metrics in another form.
    if variable("NCCL_INSPECTOR_PROM_DUMP").is_some_and(|value| value != b"0") {
        return None;
    }
    let below = || [b"nccl-inspector-", variable("SLURM_JOBID").unwrap_or(b"unknown-jobid")].concat();
    Some(variable("NCCL_INSPECTOR_DUMP_DIR").map_or_else(below, <[u8]>::to_vec))
}

/// The file of a process. Other nodes' processes may have the same number and write to the same folder.
fn find(dir: &Path, end: &str, host: &str) -> Option<PathBuf> {
    let names = std::fs::read_dir(dir).ok()?.flatten().take(MAX_LISTED).map(|entry| entry.file_name());
    let mut ours: Vec<_> = names.filter(|name| name.as_bytes().ends_with(end.as_bytes())).collect();
    let here = ours.iter().position(|name| !host.is_empty() && name.as_bytes().starts_with(host.as_bytes()));
    match here {
        Some(at) => Some(dir.join(ours.swap_remove(at))),
        None if ours.len() == 1 => Some(dir.join(ours.remove(0))),
        None => None,
    }
}

impl Followed {
    fn new(path: PathBuf) -> Followed {
        Followed { path, inode: (0, 0), offset: 0, part: Vec::new(), skipping: false, latest: Latest::default() }
    }

    /// Reads what is new, and says whether there was a record; `None`: it is no file of the process any more.
    fn read(&mut self, uid: Option<u32>) -> Option<bool> {
        // Never waits, never takes over a terminal, follows no link, whatever the path has become.
        let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW).bits();
        let mut file: File = OpenOptions::new().read(true).custom_flags(flags as i32).open(&self.path).ok()?;
        let meta = file.metadata().ok().filter(|meta| meta.is_file() && uid.is_none_or(|uid| meta.uid() == uid || meta.uid() == 65_534))?;
        let inode = (meta.dev(), meta.ino());
        if self.inode != inode || meta.len() < self.offset {
            *self = Followed { inode, ..Followed::new(std::mem::take(&mut self.path)) };
        }
        if meta.len() - self.offset > MAX_READ {
            self.offset = meta.len() - MAX_READ;
            self.part.clear();
            self.skipping = true;
        }
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(self.offset)).ok()?;
        self.offset += file.take(MAX_READ).read_to_end(&mut bytes).ok()? as u64;
        let before = self.latest.records;
        for piece in bytes.split_inclusive(|b| *b == b'\n') {
            self.skipping |= self.part.len() + piece.len() > MAX_PART;
            if self.skipping {
                self.part.clear();
                self.latest.skipped();
            } else {
                self.part.extend_from_slice(piece);
            }
            if piece.ends_with(b"\n") {
                self.latest.line(&String::from_utf8_lossy(&std::mem::take(&mut self.part)));
                self.skipping = false;
            }
        }
        Some(self.latest.records > before)
    }

    fn seen(&self, pid: u32) -> Inspected {
        let comms = self.latest.comms().map(comm).collect();
        Inspected { pid, path: self.path.to_string_lossy().into_owned(), comms }
    }
}

fn comm(of: &LatestComm) -> InspectedComm {
    let ops = of.ops.iter().map(|((name, _), op)| InspectedOp {
        name: name.clone(),
        bytes: op.bytes,
        sn: op.sn,
        exec_us: op.exec_us,
        algbw_gbytes_per_s: op.algbw,
        busbw_gbytes_per_s: op.busbw,
    });
    let peers = of.peers.iter().map(|((peer, sent), op)| InspectedPeer { peer: *peer, sent: *sent, bytes: op.bytes, sn: op.sn });
    InspectedComm { id: of.id.clone(), rank: of.rank, n_ranks: of.n_ranks, nnodes: of.nnodes, ops: ops.collect(), peers: peers.collect() }
}

impl Source for Inspectors {
    fn every(&self) -> Duration {
        self.interval
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        self.listen();
        self.look(out);
        if self.ranks.values().all(|rank| rank.place.is_none()) {
            return Err(SourceError::Absent("no rank runs with NCCL_INSPECTOR_ENABLE=1".to_owned()));
        }
        Ok(())
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        let expected: Vec<&Rank> = self.ranks.values().filter(|rank| rank.place.is_some()).collect();
        let written = expected.iter().filter(|rank| rank.file.as_ref().is_some_and(|file| file.latest.records > 0)).count();
        let (dir, _) = expected.first()?.place.as_ref()?;
        let dir = dir.display();
        let text = match written {
            0 => format!("no record in {dir} yet: NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS must be set for it to write"),
            n => format!("records of {n} of {} ranks in {dir}", expected.len()),
        };
        Some((SourceState::Ok, text))
    }
}
