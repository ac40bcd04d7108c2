//! What was seen, kept so that any moment of it can be shown again: live the last minutes, in a replay the tape as far as it was read.
//! No clock, no file, no thread.
//!
//! Observations are kept as lines of a tape, in chunks, the closed ones compressed. Some chunks have a keyframe: a copy of the session
//! as it was before the chunk. The session of a moment is made from the keyframe before it and the observations between the two.

use crate::base::time::Stamp;
use crate::diagnosis::session::{Event, Session};
use crate::observe::Observation;
use crate::recording::tape;
use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::Arc;
use std::time::Duration;

/// How much is kept.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Back from the newest observation. `Duration::MAX`: as far as `bytes` go.
    pub depth: Duration,
    /// Of memory, for lines and keyframes. The chunk that is being written, and the oldest and the newest keyframe, are always there.
    pub bytes: usize,
}

/// A chunk is closed at this length, or this size in JSON, whichever comes first.
const CHUNK_SPAN: Duration = Duration::from_secs(60);
const CHUNK_BYTES: usize = 1 << 20;
/// Beside that of the oldest chunk. Twelve over half an hour are a few minutes apart: tens of milliseconds of judging.
const MAX_KEYFRAMES: usize = 12;

/// Everything seen, from the oldest that is still kept.
pub struct Timeline {
    limits: Limits,
    chunks: VecDeque<Chunk>,
    /// The number of the oldest chunk. They are numbered from 0, and numbers stay when old ones are dropped.
    first: u64,
    /// The state before the oldest chunk: it always has a keyframe.
    base: Keyframe,
    /// The state before the chunk that was last looked into, so that scrubbing around there need not begin at a keyframe far away.
    near: Option<(u64, Keyframe)>,
    /// The chunk that a playhead is in. When reading ahead of it, only what lies before is dropped.
    played: u64,
}

struct Chunk {
    /// Of its first and last observation.
    from: Stamp,
    to: Stamp,
    /// Lines of a tape, with their ends.
    /// Shared with copies that are being written out.
    stored: Arc<Vec<u8>>,
    packed: bool,
    /// Bytes stored before it since the beginning: distances between chunks are taken in what it costs to go them.
    begins: u64,
    keyframe: Option<Keyframe>,
}

/// A session of an earlier moment.
struct Keyframe {
    session: Box<Session>,
    /// Estimate.
    bytes: usize,
}

impl Keyframe {
    fn of(session: &Session) -> Self {
        Keyframe { session: Box::new(session.clone()), bytes: session.bytes() }
    }
}

impl Chunk {
    /// Its lines, made plain in `room` where they are compressed.
    fn plain(&self, room: &mut Vec<u8>) {
        room.clear();
        // What this program compressed can be read; if it could not, what was read until then is what there is.
        let _ = DeflateDecoder::new(&self.stored[..]).read_to_end(room);
    }

    fn close(&mut self) {
        let mut packed = DeflateEncoder::new(Vec::with_capacity(self.stored.len() / 6), Compression::fast());
        let done: io::Result<Vec<u8>> = packed.write_all(&self.stored).and_then(|()| packed.finish());
        if let Ok(packed) = done {
            (self.stored, self.packed) = (Arc::new(packed), true);
        }
        Arc::make_mut(&mut self.stored).shrink_to_fit();
    }

    fn ends(&self) -> u64 {
        self.begins + self.stored.len() as u64
    }
}

impl Timeline {
    /// `start` is the session before anything was seen.
    pub fn new(limits: Limits, start: &Session) -> Self {
        Timeline { limits, chunks: VecDeque::new(), first: 0, base: Keyframe::of(start), near: None, played: 0 }
    }

    /// Live: adds an observation. `before` is the session that it has not been applied to yet. What is beyond the limits is dropped,
    /// whether a playhead is there or not.
    pub fn push(&mut self, seen: &Observation, before: &Session) {
        let begun = self.add(seen);
        if begun {
            if self.chunks.len() == 1 {
                self.base = Keyframe::of(before);
            } else {
                self.offer(self.last(), before);
            }
            self.trim(u64::MAX);
        }
    }

    /// Reading ahead: adds an observation whose session is not known yet. What lies before the playhead is dropped when it is beyond
    /// the limits; what lies ahead of it is not, see [`Timeline::ahead_bytes`].
    pub fn append(&mut self, seen: &Observation) {
        if self.add(seen) {
            self.trim(self.played);
        }
    }

    /// The earliest and the newest moment that can be shown; `None` while nothing was seen.
    pub fn span(&self) -> Option<(Stamp, Stamp)> {
        Some((self.chunks.front()?.from, self.chunks.back()?.to))
    }

    /// The state after every observation not later than `at`, which is brought into the span.
    pub fn session_at(&mut self, at: Stamp) -> Session {
        let played = self.played;
        let playhead = Playhead::at(self, at);
        self.played = played;
        playhead.session
    }

    /// Memory held, keyframes as estimated.
    pub fn bytes(&self) -> usize {
        let chunks = self.chunks.iter().map(|c| c.stored.len() + c.keyframe.as_ref().map_or(0, |k| k.bytes));
        chunks.sum::<usize>() + self.base.bytes + self.near.as_ref().map_or(0, |n| n.1.bytes)
    }

    /// Bytes, as they are kept, of the chunks after the one that `playhead` is in: a reader of a tape waits while there are many.
    pub fn ahead_bytes(&self, playhead: &Playhead) -> usize {
        let Some(newest) = self.chunks.back() else { return 0 };
        let passed = self.chunk(playhead.chunk).map_or(self.chunks[0].begins, Chunk::ends);
        usize::try_from(newest.ends() - passed).unwrap_or(usize::MAX)
    }

    /// Whether a new chunk was begun for it.
    fn add(&mut self, seen: &Observation) -> bool {
        // As in the model, time does not go back, whatever a tape says.
        let at = seen.at.max(self.chunks.back().map_or(self.base.session.model.now, |c| c.to));
        let begin = self.chunks.back().is_none_or(|c| c.stored.len() >= CHUNK_BYTES || at.since(c.from) >= CHUNK_SPAN);
        if begin {
            if let Some(full) = self.chunks.back_mut() {
                full.close();
            }
            let begins = self.chunks.back().map_or(0, Chunk::ends);
            self.chunks.push_back(Chunk { from: at, to: at, stored: Arc::new(Vec::new()), packed: false, begins, keyframe: None });
        }
        if let Some(open) = self.chunks.back_mut() {
            open.to = at;
            let stored = Arc::make_mut(&mut open.stored);
            let whole = stored.len();
            if tape::put_line(seen, stored).is_err() {
                stored.truncate(whole);
            }
        }
        begin
    }

    /// All that is kept up to a moment, to be written out elsewhere. Copies no lines.
    pub fn kept(&self, until: Stamp) -> Kept {
        let shown = self.chunks.iter().filter(|c| c.from <= until);
        let chunks = shown.map(|c| (c.stored.clone(), c.packed, c.to <= until)).collect();
        Kept { before: self.base.session.clone(), until, chunks }
    }

    fn last(&self) -> u64 {
        self.first + (self.chunks.len() as u64).saturating_sub(1)
    }

    fn index(&self, chunk: u64) -> Option<usize> {
        usize::try_from(chunk.checked_sub(self.first)?).ok().filter(|i| *i < self.chunks.len())
    }

    fn chunk(&self, chunk: u64) -> Option<&Chunk> {
        self.index(chunk).map(|i| &self.chunks[i])
    }

    /// The state before a chunk, where it is kept.
    fn before(&self, chunk: u64) -> Option<&Session> {
        if chunk == self.first {
            return Some(&self.base.session);
        }
        let near = self.near.as_ref().filter(|n| n.0 == chunk).map(|n| &n.1);
        self.chunk(chunk)?.keyframe.as_ref().or(near).map(|k| &*k.session)
    }

    /// The chunk whose observations make the state at `at`, and the nearest before it with a keyframe.
    fn chunks_for(&self, at: Stamp) -> (u64, u64) {
        // Equal stamps may lie on both sides of a border: the later chunk is taken, all of the earlier one is in its keyframe.
        let target = self.first + (self.chunks.partition_point(|c| c.from <= at) as u64).saturating_sub(1);
        let start = (self.first..=target).rev().find(|c| self.before(*c).is_some());
        (target, start.unwrap_or(self.first))
    }

    /// Takes a keyframe for a chunk, unless it would be the next to be given up.
    fn offer(&mut self, chunk: u64, session: &Session) {
        let Some(index) = self.index(chunk).filter(|i| *i > 0 && self.chunks[*i].keyframe.is_none()) else { return };
        let keyframes = (0..self.chunks.len()).filter(|i| *i == 0 || *i == index || self.chunks[*i].keyframe.is_some());
        let mut places: Vec<usize> = keyframes.collect();
        // Half of the memory at most; a big node's sessions are big.
        let most = (self.limits.bytes / 2 / session.bytes().max(1)).min(MAX_KEYFRAMES);
        while places.len() - 1 > most {
            let gap = |i: usize| self.chunks[places[i + 1]].begins - self.chunks[places[i - 1]].begins;
            // The newest stays: what comes next is reached from it.
            let Some(closest) = (1..places.len() - 1).min_by_key(|i| gap(*i)) else { break };
            let place = places.remove(closest);
            if place == index {
                return;
            }
            self.chunks[place].keyframe = None;
        }
        self.chunks[index].keyframe = Some(Keyframe::of(session));
    }

    /// From now on this much of what is past is kept.
    pub fn set_depth(&mut self, depth: Duration) {
        self.limits.depth = depth;
    }

    /// Drops the oldest chunks that are beyond the limits, none from `keep` on.
    fn trim(&mut self, keep: u64) {
        let too_old = |t: &Timeline| t.chunks[t.chunks.len() - 1].to.since(t.chunks[1].from) >= t.limits.depth;
        // Looking back must not cost what there is to look at.
        if self.bytes() > self.limits.bytes {
            self.near = None;
        }
        while self.first < keep && self.chunks.len() > 1 && (self.bytes() > self.limits.bytes || too_old(self)) {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        let near = self.near.take_if(|n| n.0 <= self.first + 1).filter(|n| n.0 == self.first + 1).map(|n| n.1);
        let kept = self.chunks.get_mut(1).and_then(|c| c.keyframe.take()).or(near);
        self.base = kept.unwrap_or_else(|| {
            let mut playhead = Playhead::before(self.first, std::mem::take(&mut *self.base.session));
            let mut events = Vec::new();
            while playhead.peek(self).is_some() && playhead.chunk == self.first {
                playhead.apply_next(&mut events);
                events.clear();
            }
            Keyframe { bytes: playhead.session.bytes(), session: Box::new(playhead.session) }
        });
        self.chunks.pop_front();
        self.first += 1;
    }
}

/// What a timeline keeps, taken out of it.
pub struct Kept {
    /// The state before the first line.
    pub before: Box<Session>,
    until: Stamp,
    /// Lines, whether they are compressed, and whether all of them count.
    chunks: Vec<(Arc<Vec<u8>>, bool, bool)>,
}

impl Kept {
    /// Hands on the lines of the tape, each with its end, and how many parts of all are done.
    ///
    /// # Errors
    /// As `each`.
    pub fn lines<E>(&self, mut each: impl FnMut(&[u8], (usize, usize)) -> Result<(), E>) -> Result<(), E> {
        let mut plain = Vec::new();
        for (i, (stored, packed, whole)) in self.chunks.iter().enumerate() {
            if *packed {
                plain.clear();
                // As in `Chunk::plain`.
                let _ = DeflateDecoder::new(&stored[..]).read_to_end(&mut plain);
            }
            for line in (if *packed { &plain } else { stored.as_ref() }).split_inclusive(|b| *b == b'\n') {
                if *whole || tape::read_observation(line).is_ok_and(|seen| seen.at <= self.until) {
                    each(line, (i, self.chunks.len()))?;
                }
            }
        }
        Ok(())
    }
}

/// A place on a timeline, the session there, and the way on. It is of one timeline, and follows while that grows and drops what is old.
pub struct Playhead {
    pub session: Session,
    /// Where the line after `next` begins; where there is no `next`, the line that is to be read.
    chunk: u64,
    offset: usize,
    /// Read, and not yet applied.
    next: Option<Observation>,
    /// `next` is the first of its chunk: the session is a keyframe.
    enters: bool,
    /// The lines of a compressed chunk, and which.
    plain: Vec<u8>,
    plain_of: Option<u64>,
}

impl Playhead {
    /// At the oldest chunk that is kept, with nothing of it applied.
    pub fn new(timeline: &Timeline) -> Self {
        Playhead::before(timeline.first, timeline.base.session.as_ref().clone())
    }

    /// At a moment, as [`Playhead::seek`].
    pub fn at(timeline: &mut Timeline, at: Stamp) -> Self {
        let (_, start) = timeline.chunks_for(at);
        let session = timeline.before(start).cloned().unwrap_or_default();
        let mut playhead = Playhead::before(start, session);
        playhead.seek(timeline, at);
        playhead
    }

    fn before(chunk: u64, session: Session) -> Self {
        Playhead { session, chunk, offset: 0, next: None, enters: false, plain: Vec::new(), plain_of: None }
    }

    /// To the state after every observation not later than `at`, which is brought into the span. Where nothing was played yet there
    /// are no keyframes: all that lies between is judged.
    pub fn seek(&mut self, timeline: &mut Timeline, at: Stamp) {
        let Some((from, to)) = timeline.span() else {
            *self = Playhead::new(timeline);
            return;
        };
        let at = at.clamp(from, to);
        let (target, start) = timeline.chunks_for(at);
        // Forward, unless a keyframe is nearer.
        if (self.session.model.now > at || self.chunk < start)
            && let Some(session) = timeline.before(start)
        {
            self.go(start, session.clone());
        }
        let mut events = Vec::new();
        while self.next_due(timeline).is_some_and(|due| due <= at) {
            let enters = self.enters && self.chunk == target;
            self.enter(timeline);
            if enters && timeline.before(target).is_none() {
                timeline.near = Some((target, Keyframe::of(&self.session)));
            }
            self.apply_next(&mut events);
            events.clear();
        }
        timeline.played = self.chunk;
    }

    /// When the next observation is due; `None` while there is none. A playhead whose place was dropped goes to the oldest moment.
    pub fn next_due(&mut self, timeline: &Timeline) -> Option<Stamp> {
        if self.chunk < timeline.first {
            self.go(timeline.first, timeline.base.session.as_ref().clone());
        }
        let at = self.peek(timeline)?.at;
        Some(at.max(self.session.model.now))
    }

    /// Applies the next observation; what changed is added to `out`. `false`: there is none.
    pub fn step(&mut self, timeline: &mut Timeline, out: &mut Vec<(Stamp, Event)>) -> bool {
        if self.next_due(timeline).is_none() {
            return false;
        }
        self.enter(timeline);
        timeline.played = self.chunk;
        self.apply_next(out)
    }

    /// Leaves a keyframe where a chunk begins.
    fn enter(&mut self, timeline: &mut Timeline) {
        if std::mem::take(&mut self.enters) {
            timeline.offer(self.chunk, &self.session);
        }
    }

    fn go(&mut self, chunk: u64, session: Session) {
        (self.chunk, self.session, self.offset, self.next) = (chunk, session, 0, None);
    }

    fn apply_next(&mut self, out: &mut Vec<(Stamp, Event)>) -> bool {
        let next = self.next.take();
        if let Some(seen) = &next {
            self.session.apply(seen, out);
        }
        next.is_some()
    }

    fn peek(&mut self, timeline: &Timeline) -> Option<&Observation> {
        while self.next.is_none() {
            let chunk = timeline.chunk(self.chunk)?;
            let lines = if chunk.packed {
                if self.plain_of != Some(self.chunk) {
                    chunk.plain(&mut self.plain);
                    self.plain_of = Some(self.chunk);
                }
                &self.plain
            } else {
                &*chunk.stored
            };
            let rest = lines.get(self.offset..).unwrap_or_default();
            let Some(end) = memchr::memchr(b'\n', rest) else {
                if self.chunk == timeline.last() {
                    return None;
                }
                (self.chunk, self.offset) = (self.chunk + 1, 0);
                continue;
            };
            self.enters = self.offset == 0;
            self.next = tape::read_observation(&rest[..end]).ok();
            self.offset += end + 1;
        }
        self.next.as_ref()
    }
}
