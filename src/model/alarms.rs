//! Events that may be failures, kept until all inputs are read: only then is their order in time known.

use crate::base::severity::Severity;
use crate::base::time::Stamp;
use crate::logs::catalog;
use crate::logs::gpu_memory::GpuMemory;
use crate::logs::{TextEvent, What};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::mem::{Discriminant, discriminant};
use std::sync::Arc;

/// One event of one line.
#[derive(Clone, Debug, PartialEq)]
pub struct Alarm {
    pub file: u32,
    /// The run of the file that it belongs to, counted from 0.
    pub run: u32,
    /// From 1, where lines were counted.
    pub line: Option<u64>,
    /// Cleaned and cut.
    pub text: String,
    pub event: TextEvent,
    /// Global rank of the writer.
    pub rank: Option<u32>,
    /// As the line says, or the line before it that does; else `None`.
    pub at: Option<Stamp>,
    /// When it was read.
    pub seen_at: Stamp,
    /// When it was last read again.
    pub last_seen_at: Stamp,
    /// The line itself says it.
    pub is_timed: bool,
    /// How often it was printed, by this rank or by one that is not known.
    pub count: u64,
    /// How far its file had come.
    pub position: Position,
}

/// How far training had come, by the lines of one file up to a failure.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Position {
    pub step: Option<u64>,
    pub total_steps: Option<u64>,
    pub epoch: Option<f64>,
    /// A line told of a step, with a number or without.
    pub has_trained: bool,
    /// A line told that the training was at its end.
    pub was_done: bool,
    /// The first time that a line of the run carried.
    pub began: Option<Stamp>,
}

/// Alarms, folded and bounded: of equal ones of one rank the first is kept. What is an error has room of its own, and each kind of text has
/// some, so that nothing hides what is worse or rarer than itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alarms {
    /// Shared by the sessions that are kept of earlier moments.
    kept: Vec<Arc<Alarm>>,
    /// Event, writer and run: index into `kept`.
    known: HashMap<u64, u32>,
    /// How many are kept of each kind.
    of_kind: HashMap<Kind, usize>,
    /// How many are kept of those below an error.
    minor: usize,
    /// What texts that the catalogue does not know say, without numbers and ids: those below an error, and errors.
    texts: [HashSet<u64>; 2],
    /// Not kept, because there were too many different ones: how often they were printed.
    pub overflow: u64,
    /// The most severe of those.
    pub overflow_worst: Option<Severity>,
}

/// 16,384 ranks that say one thing each, and some more. So many below an error, and as many errors.
const MOST: usize = 20_000;
/// So many of each kind are kept, whatever others take.
const OF_KIND: usize = 8;
/// Different texts that the catalogue does not know, below an error, and as many errors. Nobody reads more; how many more there were is counted.
const MOST_TEXTS: usize = 1024;
const MAX_TEXT: usize = 400;

impl Alarms {
    /// Counts one more of an alarm; where it is the first of its kind, `alarm` makes it.
    pub fn push(&mut self, said: &Said<'_>, alarm: impl FnOnce() -> Alarm) {
        let key = key(said);
        if let Some(&at) = self.known.get(&key) {
            let kept = Arc::make_mut(&mut self.kept[at as usize]);
            kept.count += 1;
            kept.last_seen_at = said.at;
            // The rank of a process may become known after its first line.
            kept.rank = kept.rank.or(said.rank);
            // A line alone may be told again at the end of a traceback, which says what the program was doing.
            if kept.event.said_at.is_none() {
                kept.event.said_at.clone_from(&said.event.said_at);
            }
            return;
        }
        if !self.has_room(&said.event.what) {
            self.overflow += 1;
            self.overflow_worst = self.overflow_worst.max(Some(Kind::of(&said.event.what).severity));
            return;
        }
        let mut alarm = alarm();
        alarm.text = crate::base::clean::clip(&alarm.text, MAX_TEXT).into_owned();
        self.known.insert(key, self.kept.len() as u32);
        self.kept.push(Arc::new(alarm));
    }

    /// Takes the place for one more.
    fn has_room(&mut self, what: &What) -> bool {
        let kind = Kind::of(what);
        let is_error = kind.severity >= Severity::Error;
        let of_kind = self.of_kind.get(&kind).copied().unwrap_or(0);
        let kept = if is_error { self.kept.len() - self.minor } else { self.minor };
        if kept >= MOST && of_kind >= OF_KIND {
            return false;
        }
        if let Some(text) = unknown_text(what) {
            let mut hasher = DefaultHasher::new();
            (kind, crate::base::words::shape(text)).hash(&mut hasher);
            let text = hasher.finish();
            let texts = &mut self.texts[usize::from(is_error)];
            if texts.len() >= MOST_TEXTS && of_kind >= OF_KIND && !texts.contains(&text) {
                return false;
            }
            texts.insert(text);
        }
        self.of_kind.insert(kind, of_kind + 1);
        self.minor += usize::from(!is_error);
        true
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Alarm> + ExactSizeIterator {
        self.kept.iter().map(Arc::as_ref)
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// Alarms that share room: those of one entry of the catalogue, or of one sort that it does not know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Kind {
    severity: Severity,
    entry: Option<&'static str>,
    sort: Discriminant<What>,
}

impl Kind {
    fn of(what: &What) -> Kind {
        let severity = what.severity().unwrap_or(Severity::Info);
        Kind { severity, entry: what.signature().map(|s| s.id), sort: discriminant(what) }
    }
}

/// The text that distinguishes an alarm from others of its kind, where the catalogue does not know it: anybody may have written it.
fn unknown_text(what: &What) -> Option<&str> {
    let text = match what {
        What::NcclWarn { text, .. } | What::CudaError { text } | What::TakingDown { text } => text,
        What::Exception(e) => &e.message,
        _ => return None,
    };
    what.signature().is_none().then_some(text)
}

/// What tells one alarm from another.
pub struct Said<'a> {
    pub at: Stamp,
    pub file: u32,
    pub run: u32,
    pub rank: Option<u32>,
    pub event: &'a TextEvent,
}

/// Equal for alarms that say the same of the same rank.
fn key(alarm: &Said<'_>) -> u64 {
    let mut h = DefaultHasher::new();
    std::mem::discriminant(&alarm.event.what).hash(&mut h);
    let who = &alarm.event.origin;
    (alarm.file, alarm.run, who.rank, &who.host, who.pid).hash(&mut h);
    // One process may drive several GPUs, and workers of one name have numbers of their own.
    if who.rank.is_none() {
        (who.local_rank, who.cuda_dev, &who.worker).hash(&mut h);
    }
    match &alarm.event.what {
        What::NcclWarn { site, text } => match catalog::find_warn(site.as_deref(), text) {
            Some(signature) => signature.id.hash(&mut h),
            None => crate::base::words::shape(text).hash(&mut h),
        },
        What::Signed { signature, text, .. } => {
            signature.id.hash(&mut h);
            signature.thing(text, alarm.event.origin.host.as_deref()).hash(&mut h);
            signature.ranks.iter().for_each(|name| signature.capture(text, name).hash(&mut h));
            // Of processes that ended alike each is one.
            if signature.rule == "rank-exited" {
                signature.capture(text, "pid").hash(&mut h);
            }
        }
        What::Exception(e) => (&e.class, crate::base::words::shape(&e.message)).hash(&mut h),
        // GPUs of processes without a rank are told apart.
        What::CudaOom { text, .. } => (crate::base::words::shape(text), GpuMemory::of(text).gpu).hash(&mut h),
        What::CudaError { text } | What::TakingDown { text } => crate::base::words::shape(text).hash(&mut h),
        What::CollectiveTimeout(t) => (&t.group, &t.guid, t.pg_rank, t.seq, &t.op, t.numel_in).hash(&mut h),
        What::CollectiveStatus { group, guid, pg_rank, seq, enqueued, .. } => (group, guid, pg_rank, seq, enqueued).hash(&mut h),
        What::WorkerFailed { pid, exit_code, .. } => (pid, exit_code).hash(&mut h),
        What::Terminating { pid, .. } => pid.hash(&mut h),
        What::WorkerFailure(f) => (f.rank, f.pid, f.root).hash(&mut h),
        _ => {}
    }
    h.finish()
}
