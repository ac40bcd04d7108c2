//! Events that may be failures, kept until all inputs are read: only then is their order in time known.

use crate::base::time::Stamp;
use crate::logs::catalog;
use crate::logs::{TextEvent, What};
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
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
    /// The line itself says it.
    pub is_timed: bool,
    /// How often it was printed, by this rank or by one that is not known.
    pub count: u64,
}

/// Alarms, folded and bounded: of equal ones of one rank the first is kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Alarms {
    /// Shared by the sessions that are kept of earlier moments.
    kept: Vec<Arc<Alarm>>,
    /// Event, writer and run: index into `kept`.
    known: HashMap<u64, u32>,
    /// Not kept, because there were too many different ones.
    pub overflow: u64,
}

/// 16,384 ranks that say one thing each, and some more.
const MOST: usize = 20_000;
const MAX_TEXT: usize = 400;

impl Alarms {
    /// Counts one more of an alarm; where it is the first of its kind, `alarm` makes it.
    pub fn push(&mut self, said: &Said<'_>, alarm: impl FnOnce() -> Alarm) {
        let key = key(said);
        if let Some(&at) = self.known.get(&key) {
            let kept = Arc::make_mut(&mut self.kept[at as usize]);
            kept.count += 1;
            // The rank of a process may become known after its first line.
            kept.rank = kept.rank.or(said.rank);
            return;
        }
        if self.kept.len() >= MOST {
            self.overflow += 1;
            return;
        }
        let mut alarm = alarm();
        alarm.text = crate::base::clean::clip(&alarm.text, MAX_TEXT).into_owned();
        self.known.insert(key, self.kept.len() as u32);
        self.kept.push(Arc::new(alarm));
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &Alarm> + ExactSizeIterator {
        self.kept.iter().map(Arc::as_ref)
    }

    pub fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }
}

/// What tells one alarm from another.
pub struct Said<'a> {
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
    match &alarm.event.what {
        What::NcclWarn { site, text } => match catalog::find_warn(site.as_deref(), text) {
            Some(signature) => signature.id.hash(&mut h),
            None => crate::base::words::shape(text).hash(&mut h),
        },
        What::Signed { signature, text, .. } => {
            signature.id.hash(&mut h);
            signature.thing(text, alarm.event.origin.host.as_deref()).hash(&mut h);
        }
        What::Exception(e) => (&e.class, crate::base::words::shape(&e.message)).hash(&mut h),
        What::CudaError { text } | What::CudaOom { text, .. } | What::TakingDown { text } => crate::base::words::shape(text).hash(&mut h),
        What::CollectiveTimeout(t) => (&t.group, &t.guid, t.pg_rank, t.seq, &t.op, t.numel_in).hash(&mut h),
        What::CollectiveStatus { group, guid, pg_rank, seq, enqueued, .. } => (group, guid, pg_rank, seq, enqueued).hash(&mut h),
        What::WorkerFailed { pid, exit_code, .. } => (pid, exit_code).hash(&mut h),
        What::WorkerFailure(f) => (f.rank, f.pid, f.root).hash(&mut h),
        _ => {}
    }
    h.finish()
}
