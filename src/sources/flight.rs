//! Flight Recorder dumps: watches the places where the ranks on this node would write them, and reports each that appears, whole.
//!
//! A dump is written in place: it is taken when it has not changed between two looks and reads as one. What is older than the process
//! that would have written it is of another run. Opens regular files only, of that process's user, and never more than a dump has.

use super::procs::environ::{self, Signs};
use super::procs::read::Reader;
use super::procs::stat::{Stat, Status};
use super::{Hint, Roots, Setup, Source, SourceError};
use crate::base::units::counted;
use crate::base::words::io_words;
use crate::formats::flight_recorder;
use crate::observe::flight::{FlightDump, MAX_BYTES};
use crate::observe::{Body, SourceState};
use rustix::fs::OFlags;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs::{File, Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::mpsc::Receiver;
use std::time::Duration;

/// Of one dump, compressed and as letters; and of all that are reported. What is left out is named.
const MAX_PACKED: usize = 1 << 20;
const MAX_ALL_PACKED: usize = 4 << 20;
const MAX_PLACES: usize = 4096;
/// Folders are listed for other nodes' ranks once in so many looks.
const LIST_TURN: u32 = 3;
const MAX_LISTED: usize = 20_000;
/// Looks at a file that no longer changes and is still no dump, before that is reported.
const PATIENCE: u32 = 10;
/// Looks for what a process leaves behind when it ends.
const KEEP_ENDED: u32 = 120;
/// Clocks of a file server and of this node differ.
const SLACK_NS: i64 = 1_000_000_000;

pub fn make(setup: &mut Setup) -> Box<dyn Source> {
    Box::new(Flight::new(setup.roots.clone(), setup.interval, setup.flight_inbox.take()))
}

pub struct Flight {
    reader: Reader,
    interval: Duration,
    inbox: Option<Receiver<Hint>>,
    /// Wall clock at boot, ns.
    boot_ns: Option<i64>,
    ranks: BTreeMap<u32, Rank>,
    places: BTreeMap<PathBuf, Place>,
    looks: u32,
    /// Processes whose environment may not be read.
    hidden: BTreeSet<u32>,
}

/// A rank on this node.
struct Rank {
    start_ticks: u64,
    rank: u32,
    world: Option<u32>,
    uid: Option<u32>,
    started_ns: Option<i64>,
    prefixes: Vec<Prefix>,
    /// Looks since it ended.
    ended: u32,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Prefix {
    dir: PathBuf,
    stem: Vec<u8>,
    /// The job's own choice: then what lies beside is of the same job, even if of another node.
    chosen: bool,
}

/// Where a dump may be.
struct Place {
    rank: u32,
    pid: u32,
    uid: Option<u32>,
    not_before: Option<i64>,
    /// As it was when first looked at, where times cannot say whether it is of this run.
    stale: Option<Mark>,
    seen: Option<Mark>,
    /// Looks at which it was the same.
    same: u32,
    told: Option<Mark>,
    packed: usize,
    looked: bool,
}

/// What a file was at a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    device: u64,
    inode: u64,
    size: u64,
    modified_ns: i64,
}

impl Mark {
    fn of(meta: &Metadata) -> Mark {
        let modified_ns = meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec());
        Mark { device: meta.dev(), inode: meta.ino(), size: meta.len(), modified_ns }
    }
}

impl Flight {
    pub fn new(roots: Roots, interval: Duration, inbox: Option<Receiver<Hint>>) -> Self {
        Flight {
            reader: Reader::new(roots),
            interval: interval.max(Duration::from_millis(200)),
            inbox,
            boot_ns: None,
            ranks: BTreeMap::new(),
            places: BTreeMap::new(),
            looks: 0,
            hidden: BTreeSet::new(),
        }
    }

    fn listen(&mut self) {
        let Some(Hint::Ranks(now)) = self.inbox.iter().flat_map(Receiver::try_iter).filter(|h| matches!(h, Hint::Ranks(_))).last() else {
            return;
        };
        let now: BTreeMap<u32, u64> = now.into_iter().collect();
        self.hidden.retain(|pid| now.contains_key(pid));
        for (pid, start_ticks) in &now {
            if self.ranks.get(pid).is_none_or(|known| known.start_ticks != *start_ticks) {
                self.learn(*pid, *start_ticks);
            }
        }
        for (pid, rank) in &mut self.ranks {
            if !now.contains_key(pid) {
                rank.ended = rank.ended.max(1);
            }
        }
    }

    /// Finds out where a rank would write.
    fn learn(&mut self, pid: u32, start_ticks: u64) {
        let Ok(raw) = self.reader.read(pid, "environ").map(<[u8]>::to_vec) else {
            self.hidden.insert(pid);
            return;
        };
        self.hidden.remove(&pid);
        let Some(key) = Signs::read(&raw).key else { return };
        let is_it = self.reader.read(pid, "stat").ok().and_then(Stat::parse).is_some_and(|s| s.start_ticks == start_ticks);
        let uid = self.reader.read(pid, "status").ok().and_then(|text| Status::parse(text).uid);
        if !is_it {
            return;
        }
        if self.boot_ns.is_none() {
            self.boot_ns = boot_ns(self.reader.roots());
        }
        let started_ns = self.boot_ns.map(|boot| boot.saturating_add_unsigned(start_ticks.saturating_mul(10_000_000)));
        let prefixes: Vec<Prefix> = prefixes(&raw).into_iter().filter_map(|(path, chosen)| self.seen_by(pid, &path, chosen)).collect();
        let rank = Rank { start_ticks, rank: key.rank, world: key.world, uid, started_ns, prefixes, ended: 0 };
        for prefix in &rank.prefixes {
            let path = prefix.file(rank.rank);
            let place = Place::of(rank.rank, pid, &rank);
            // Another process of the same rank: the one before has ended.
            if self.places.get(&path).is_none_or(|known| known.pid != pid || known.not_before != place.not_before) {
                self.places.insert(path, place);
            }
        }
        self.ranks.insert(pid, rank);
    }

    fn seen_by(&self, pid: u32, prefix: &[u8], chosen: bool) -> Option<Prefix> {
        let cut = prefix.iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
        let (dir, stem) = prefix.split_at(cut);
        let dir = self.reader.seen_by(pid, Path::new(OsStr::from_bytes(dir)))?;
        Some(Prefix { dir, stem: stem.to_vec(), chosen })
    }

    /// Looks for dumps of other nodes' ranks beside those of ours.
    fn list(&mut self) {
        let mut firsts: BTreeMap<Prefix, u32> = BTreeMap::new();
        for (pid, rank) in &self.ranks {
            for prefix in rank.prefixes.iter().filter(|p| p.chosen && rank.ended == 0) {
                firsts.entry(prefix.clone()).or_insert(*pid);
            }
        }
        for (prefix, pid) in firsts {
            let Some(rank) = self.ranks.get(&pid) else { continue };
            let Ok(names) = std::fs::read_dir(&prefix.dir) else { continue };
            for name in names.flatten().take(MAX_LISTED).map(|entry| entry.file_name()) {
                let digits = name.as_bytes().strip_prefix(&prefix.stem[..]).filter(|d| d.len() <= 6 && d.iter().all(u8::is_ascii_digit));
                let number = digits.and_then(|d| std::str::from_utf8(d).ok()?.parse::<u32>().ok());
                let Some(number) = number.filter(|n| rank.world.is_some_and(|world| *n < world)) else { continue };
                let path = prefix.dir.join(&name);
                if self.places.len() < MAX_PLACES && !self.places.contains_key(&path) && path == prefix.file(number) {
                    self.places.insert(path, Place::of(number, pid, rank));
                }
            }
        }
    }

    fn look(&mut self, out: &mut Vec<Body>) {
        let mut packed: usize = self.places.values().map(|p| p.packed).sum();
        for (path, place) in &mut self.places {
            let Some(told) = place.look(path, MAX_ALL_PACKED.saturating_sub(packed - place.packed)) else { continue };
            packed = packed - place.packed + told.packed.len();
            place.packed = told.packed.len();
            out.push(Body::FlightDump(told));
        }
    }

    /// Gives up what ended long ago.
    fn tidy(&mut self) {
        for rank in self.ranks.values_mut().filter(|r| r.ended > 0) {
            rank.ended += 1;
        }
        self.ranks.retain(|_, rank| rank.ended <= KEEP_ENDED);
        let ranks = &self.ranks;
        self.places.retain(|_, place| ranks.contains_key(&place.pid));
    }
}

impl Prefix {
    fn file(&self, rank: u32) -> PathBuf {
        let name = [&self.stem[..], rank.to_string().as_bytes()].concat();
        self.dir.join(OsStr::from_bytes(&name))
    }
}

impl Place {
    fn of(number: u32, pid: u32, rank: &Rank) -> Place {
        Place {
            rank: number,
            pid,
            uid: rank.uid,
            not_before: rank.started_ns.map(|ns| ns - SLACK_NS),
            stale: None,
            seen: None,
            same: 0,
            told: None,
            packed: 0,
            looked: false,
        }
    }

    /// A new dump, once it is whole.
    fn look(&mut self, path: &Path, room: usize) -> Option<FlightDump> {
        let first = !std::mem::replace(&mut self.looked, true);
        // What the name is a link to is nobody's dump.
        let meta = std::fs::symlink_metadata(path).ok().filter(Metadata::is_file)?;
        let mark = Mark::of(&meta);
        if first && self.not_before.is_none() {
            self.stale = Some(mark);
        }
        let of_another = self.uid.is_some_and(|uid| meta.uid() != uid && meta.uid() != 0 && meta.uid() != 65_534);
        let old = self.not_before.is_some_and(|ns| mark.modified_ns < ns) || self.stale == Some(mark);
        if of_another || old || self.told == Some(mark) {
            return None;
        }
        if self.seen != Some(mark) {
            (self.seen, self.same) = (Some(mark), 0);
            return None;
        }
        self.same += 1;
        let dump = |packed, problem| FlightDump {
            rank: self.rank,
            pid: self.pid,
            path: path.to_string_lossy().into_owned(),
            size_bytes: mark.size,
            modified_ns: Some(mark.modified_ns),
            packed,
            problem,
            archived: false,
        };
        let told = match read(path, mark) {
            Ok(bytes) => match FlightDump::pack(&bytes) {
                packed if packed.len() <= MAX_PACKED.min(room) => dump(packed, None),
                _ => dump(String::new(), Some("too large to be kept here: give it to `nccl-top check`".to_owned())),
            },
            Err(_) if self.same < PATIENCE => return None,
            Err(problem) => dump(String::new(), Some(problem)),
        };
        self.told = Some(mark);
        Some(told)
    }
}

/// The bytes of a file that is a whole dump and did not change meanwhile.
fn read(path: &Path, mark: Mark) -> Result<Vec<u8>, String> {
    if mark.size > MAX_BYTES {
        return Err(format!("{} MiB are more than is read here: give it to `nccl-top check`", mark.size >> 20));
    }
    // Never waits, never takes over a terminal, follows no link, whatever the path has become.
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW).bits();
    let words = |err: std::io::Error| io_words(&err);
    let file: File = OpenOptions::new().read(true).custom_flags(flags as i32).open(path).map_err(words)?;
    let is_it = || file.metadata().map(|meta| meta.is_file() && Mark::of(&meta) == mark).map_err(words);
    let mut bytes = Vec::new();
    if is_it()? {
        (&file).take(MAX_BYTES + 1).read_to_end(&mut bytes).map_err(words)?;
    }
    if !is_it()? || bytes.len() as u64 != mark.size {
        return Err("it is being written".to_owned());
    }
    flight_recorder::read(&bytes).map_err(|err| err.to_string())?;
    Ok(bytes)
}

/// Prefixes of dump files, and whether the job has chosen them. Where it has not, they depend on the version of torch.
pub fn prefixes(raw: &[u8]) -> Vec<(Vec<u8>, bool)> {
    let variable = |name| environ::variable(raw, name).filter(|value| !value.is_empty());
    if let Some(chosen) = ["TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE"].into_iter().find_map(variable) {
        return vec![(chosen.to_vec(), true)];
    }
    let below = |dir: &[u8], name: &[u8]| ([dir, name].concat(), false);
    let mut out = vec![below(b"/tmp", b"/nccl_trace_rank_")];
    if let Some(home) = variable("HOME") {
        out.push(below(home, b"/.cache/torch/nccl_trace_rank_"));
        out.push(below(home, b"/.cache/torch/comm_lib_trace_rank_"));
    }
    if let Some(cache) = variable("XDG_CACHE_HOME") {
        out.push(below(cache, b"/torch/comm_lib_trace_rank_"));
    }
    out
}

fn boot_ns(roots: &Roots) -> Option<i64> {
    let text = roots.table("/proc/stat").ok()?;
    let secs: i64 = text.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()?;
    secs.checked_mul(1_000_000_000)
}

impl Source for Flight {
    fn every(&self) -> Duration {
        self.interval
    }

    fn poll(&mut self, out: &mut Vec<Body>) -> Result<(), SourceError> {
        self.listen();
        if self.looks.is_multiple_of(LIST_TURN) {
            self.list();
        }
        self.looks = self.looks.wrapping_add(1);
        self.look(out);
        self.tidy();
        if self.ranks.is_empty() {
            let why = match self.hidden.len() {
                0 => "no rank that could write dumps".to_owned(),
                n => format!("the environment of {n} ranks may not be read: where they would write dumps is not known"),
            };
            return Err(SourceError::Absent(why));
        }
        Ok(())
    }

    fn remark(&self) -> Option<(SourceState, String)> {
        let ranks: BTreeSet<u32> = self.ranks.values().map(|r| r.rank).collect();
        let first = self.ranks.values().next()?.prefixes.first()?;
        let place = first.dir.join(OsStr::from_bytes(&first.stem)).to_string_lossy().into_owned();
        let told = |p: &&Place| p.told.is_some();
        let read: BTreeSet<u32> = self.places.values().filter(told).filter(|p| p.packed > 0).map(|p| p.rank).collect();
        let refused: BTreeSet<u32> = self.places.values().filter(told).filter(|p| p.packed == 0).map(|p| p.rank).collect();
        let mut text = format!("waits for dumps of {} at {place}N", counted(ranks.len(), "rank"));
        if !read.is_empty() {
            let none: Vec<u32> = ranks.difference(&read).copied().collect();
            let none = if none.is_empty() { String::new() } else { format!(", none of {} so far", crate::base::words::rank_words(&none)) };
            text = format!("dumps of {} read{none}", crate::base::words::rank_words(&read.into_iter().collect::<Vec<_>>()));
        }
        if !refused.is_empty() {
            text.push_str(&format!(
                "; those of {} cannot be read",
                crate::base::words::rank_words(&refused.into_iter().collect::<Vec<_>>())
            ));
        }
        Some((SourceState::Ok, text))
    }
}
