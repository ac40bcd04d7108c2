//! Flight Recorder dumps that appeared while we looked, the newest of each file.

use crate::base::time::Stamp;
use crate::formats::flight_recorder::{self, Dump};
use crate::observe::flight::FlightDump;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Dumps {
    by_path: BTreeMap<String, Dumped>,
    /// Grows with every dump.
    pub revision: u64,
    pub changed_at: Stamp,
    /// Bytes of all dumps that were read, kept or not.
    pub bytes_read: u64,
    /// Left out because there were too many.
    pub ignored: u64,
}

/// Cheap to copy: a session is copied for every moment that is kept.
#[derive(Clone, Debug, PartialEq)]
pub struct Dumped {
    pub at: Stamp,
    pub seen: Arc<FlightDump>,
    /// Or why it could not be read.
    pub dump: Result<Arc<Dump>, String>,
}

/// More than a node has ranks; on a shared file system other nodes' are seen too.
pub const MAX_DUMPS: usize = 256;
/// More than any job has ranks.
const MAX_ARCHIVED: usize = 1 << 16;
/// Of all, as they are on the tape.
const MAX_PACKED_BYTES: usize = 16 << 20;
/// Calls in all of them together: 256 dumps of 2000.
const MAX_ENTRIES: usize = 1 << 19;

impl Dumps {
    pub fn apply(&mut self, at: Stamp, seen: &FlightDump) {
        let others = self.by_path.iter().filter(|(path, _)| **path != seen.path);
        let entries = |d: &Dumped| d.dump.as_ref().map_or(0, |dump| dump.entries.len());
        let (count, bytes, calls) =
            others.fold((0, 0, 0), |(n, sum, calls), (_, d)| (n + 1, sum + d.seen.packed.len(), calls + entries(d)));
        if count >= MAX_DUMPS || bytes + seen.packed.len() > MAX_PACKED_BYTES {
            self.ignore(at, &seen.path);
            return;
        }
        let dump = match (&seen.problem, seen.bytes()) {
            (Some(problem), _) => Err(problem.clone()),
            (None, None) => Err("the recording holds no whole dump".to_owned()),
            (None, Some(bytes)) => {
                self.bytes_read += bytes.len() as u64;
                flight_recorder::read(&bytes).map(Arc::new).map_err(|err| err.to_string())
            }
        };
        if dump.as_ref().is_ok_and(|dump| calls + dump.entries.len() > MAX_ENTRIES) {
            self.ignore(at, &seen.path);
            return;
        }
        self.by_path.insert(seen.path.clone(), Dumped { at, seen: Arc::new(seen.clone()), dump });
        self.revision += 1;
        self.changed_at = at;
    }

    /// Leaves out the newest dump of a file. The one before it goes, too: beside newer ones of other ranks it would accuse its rank.
    fn ignore(&mut self, at: Stamp, path: &str) {
        self.ignored += 1;
        if self.by_path.remove(path).is_some() {
            self.revision += 1;
            self.changed_at = at;
        }
    }

    /// Takes one that was read already.
    pub fn add(&mut self, at: Stamp, seen: FlightDump, dump: Dump) {
        if self.by_path.len() >= MAX_ARCHIVED {
            self.ignored += 1;
            return;
        }
        self.by_path.insert(seen.path.clone(), Dumped { at, seen: Arc::new(seen), dump: Ok(Arc::new(dump)) });
        self.revision += 1;
        self.changed_at = at;
    }

    pub fn iter(&self) -> impl Iterator<Item = &Dumped> {
        self.by_path.values()
    }

    /// Forgets those of processes that are not `known`.
    pub fn keep(&mut self, known: impl Fn(u32) -> bool) {
        self.by_path.retain(|_, d| known(d.seen.pid));
    }

    pub fn is_empty(&self) -> bool {
        self.by_path.is_empty()
    }
}

impl Dumped {
    /// When its process wrote it.
    pub fn written(&self) -> Stamp {
        self.seen.modified_ns.filter(|ns| *ns > 0).map_or(self.at, Stamp)
    }
}
