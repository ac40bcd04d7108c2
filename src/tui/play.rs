//! What the screen shows, and when: the job as it is, an earlier moment of it, or a tape at its own pace.

use super::choices::{Mode, Move};
use super::inbox::FromTape;
use crate::base::time::{Stamp, Zone, span};
use crate::diagnosis::session::{Event, Session};
use crate::export::Exporter;
use crate::observe::{Observation, Remark};
use crate::recording::demo::Demo;
use crate::recording::timeline::{Kept, Limits, Playhead, Timeline};
use crate::rules::findings::Change;
use crate::sources::Setup;
use crate::sources::feed::{Batch, Feed};
use std::time::{Duration, Instant};

/// Memory for what can be shown again, live.
const LIVE_BYTES: usize = 6 << 20;
/// And of a tape: hours of it.
const TAPE_BYTES: usize = 96 << 20;
/// A tape is read so far ahead.
const AHEAD_BYTES: usize = 16 << 20;
/// The screen answers at least this often while a tape is gone through as fast as possible.
const SLICE: Duration = Duration::from_millis(30);

/// What a tape holds for so short a time is applied at once: it is drawn much less often, and each wake-up costs.
const TOGETHER: Duration = Duration::from_millis(100);

pub enum World {
    Live(Box<Live>),
    Tape(Box<Player>),
}

pub struct Live {
    session: Session,
    feed: Feed,
    timeline: Timeline,
    depth: Duration,
    /// Shows to others what holds now, wherever the screen stands.
    exporter: Option<Exporter>,
    /// The earlier moment that is shown, and the findings opened since it was chosen.
    paused: Option<(Box<Session>, usize)>,
}

/// A tape that is played.
pub struct Player {
    timeline: Timeline,
    head: Playhead,
    name: Option<&'static str>,
    /// `None`: as fast as possible.
    speed: Option<f64>,
    /// Its pace follows what happens, unless the user says otherwise.
    demo: Option<&'static Demo>,
    captions: Option<&'static Demo>,
    playing: bool,
    /// The moment on the tape that it is, and when it was that.
    clock: Stamp,
    last: Instant,
    /// To be reached as fast as possible.
    target: Option<Target>,
    /// Why the tape ended, once all of it is read.
    read_all: Option<Option<String>>,
}

#[derive(Clone, Copy, PartialEq)]
enum Target {
    /// After the first observation.
    Offset(Duration),
    At(Stamp),
}

impl World {
    pub fn live(session: Session, depth: Duration, exporter: Option<Exporter>) -> World {
        let timeline = Timeline::new(Limits { depth, bytes: LIVE_BYTES }, &session);
        World::Live(Box::new(Live { session, feed: Feed::new(), timeline, depth, exporter, paused: None }))
    }

    /// How far back the live screen can be moved, and how often its sources look.
    pub fn set_pace(&mut self, depth: Duration, interval: Duration) {
        if let World::Live(live) = self {
            live.depth = depth;
            live.timeline.set_depth(depth);
            live.feed.set_interval(interval);
        }
    }

    /// Starts the sources.
    pub fn start(&mut self, setup: Setup, send: &crate::sources::feed::Send) {
        if let World::Live(live) = self {
            live.feed.start(setup, send);
        }
    }

    pub fn shown(&self) -> &Session {
        match self {
            World::Live(live) => live.paused.as_ref().map_or(&live.session, |(session, _)| session),
            World::Tape(player) => &player.head.session,
        }
    }

    /// The job as it is, where it is live.
    pub fn live_session(&self) -> Option<&Session> {
        match self {
            World::Live(live) => Some(&live.session),
            World::Tape(_) => None,
        }
    }

    /// What happens now is shown at once.
    pub fn is_current(&self) -> bool {
        !matches!(self, World::Live(live) if live.paused.is_some())
    }

    pub fn mode(&self) -> Mode {
        match self {
            World::Live(live) => match &live.paused {
                None => Mode::Live,
                Some((_, missed)) => Mode::Paused { now: live.session.model.now, missed: *missed },
            },
            World::Tape(player) => player.mode(),
        }
    }

    pub fn caption(&self) -> Option<&'static str> {
        match self {
            World::Live(_) => None,
            World::Tape(player) => player.captions.map(|demo| demo.caption_at(player.offset())),
        }
    }

    /// What a source has seen.
    pub fn accept(&mut self, batch: Batch, events: &mut Vec<(Stamp, Event)>) {
        if let World::Live(live) = self {
            let Live { session, feed, timeline, paused, .. } = live.as_mut();
            feed.accept(batch, |seen| apply(session, timeline, paused, &seen, events));
        }
    }

    /// What the user notes stands in what is kept of a live job, as on a recording of it.
    pub fn note(&mut self, remark: Remark, events: &mut Vec<(Stamp, Event)>) {
        if let World::Live(live) = self {
            let Live { session, feed, timeline, paused, .. } = live.as_mut();
            feed.note(remark, |seen| apply(session, timeline, paused, &seen, events));
        }
    }

    /// A second has passed. Whether the screen may have to be drawn.
    pub fn tick(&mut self, events: &mut Vec<(Stamp, Event)>) -> bool {
        let World::Live(live) = self else { return false };
        let Live { session, feed, timeline, paused, exporter, .. } = live.as_mut();
        feed.tick(|seen| apply(session, timeline, paused, &seen, events));
        if let Some(exporter) = exporter {
            exporter.publish(session);
        }
        true
    }

    /// When [`World::play`] has something to do.
    pub fn next_due(&mut self) -> Option<Instant> {
        match self {
            World::Live(_) => None,
            World::Tape(player) => player.next_due(),
        }
    }

    /// What is applied now has passed long ago; it is only gone through on the way to the moment asked for.
    pub fn is_rushing(&self) -> bool {
        matches!(self, World::Tape(player) if player.target.is_some())
    }

    /// Whether the next observation of a tape should be read by now.
    pub fn wants_more(&self) -> bool {
        matches!(self, World::Tape(player) if player.wants_more())
    }

    /// What was read of a tape.
    pub fn read(&mut self, read: FromTape) {
        match (self, read) {
            (World::Live(_), _) => {}
            (World::Tape(player), FromTape::Seen(seen)) => player.read(&seen),
            (World::Tape(player), FromTape::End(why)) => player.read_all = Some(why),
        }
    }

    /// Goes on with a tape. Whether anything was applied.
    pub fn play(&mut self, events: &mut Vec<(Stamp, Event)>) -> bool {
        match self {
            World::Live(_) => false,
            World::Tape(player) => player.play(events),
        }
    }

    /// What is known now, and what is kept of how it came: of the job as it is, wherever the screen stands; of a tape up to the moment
    /// that is shown.
    pub fn evidence(&self) -> (Box<Session>, Kept) {
        let (session, kept) = match self {
            World::Live(live) => (&live.session, live.timeline.kept(Stamp(i64::MAX))),
            World::Tape(player) => (&player.head.session, player.timeline.kept(player.head.session.model.now)),
        };
        (Box::new(session.clone()), kept)
    }

    /// The process that lives now with this number, by its start.
    pub fn start_of(&self, pid: u32) -> Option<u64> {
        let World::Live(live) = self else { return None };
        live.session.model.processes.get(&pid).filter(|p| p.is_alive()).map(|p| p.info.start_ticks)
    }

    /// The living processes of a job: rank, pid, start.
    pub fn ranks_of(&self, job: &str) -> Vec<(Option<u32>, u32, u64)> {
        let World::Live(live) = self else { return Vec::new() };
        let Some(job) = live.session.model.jobs.get(job) else { return Vec::new() };
        job.pids().filter_map(|pid| Some((job.rank_of(pid), pid, self.start_of(pid)?))).collect()
    }

    /// Moves on the time axis. A text says why it did not go as asked.
    pub fn go(&mut self, to: Move) -> Option<String> {
        match self {
            World::Live(live) => live.go(to),
            World::Tape(player) => player.go(to),
        }
    }
}

fn apply(
    session: &mut Session,
    timeline: &mut Timeline,
    paused: &mut Option<(Box<Session>, usize)>,
    seen: &Observation,
    events: &mut Vec<(Stamp, Event)>,
) {
    timeline.push(seen, session);
    let before = events.len();
    session.apply(seen, events);
    if let Some((_, missed)) = paused {
        *missed += events[before..].iter().filter(|(_, e)| matches!(e, Event::Finding(Change::Opened(_)))).count();
    }
}

impl Live {
    fn go(&mut self, to: Move) -> Option<String> {
        let (from, now) = self.timeline.span()?;
        let shown = self.paused.as_ref().map_or(now, |(session, _)| session.model.now);
        let at = match to {
            Move::Toggle if self.paused.is_some() => {
                self.paused = None;
                return None;
            }
            Move::Toggle => now,
            Move::End => {
                self.paused = None;
                return None;
            }
            Move::By(s) if s > 0 && shown.plus(Duration::from_secs(s.unsigned_abs())) >= now => {
                self.paused = None;
                return None;
            }
            Move::By(s) if s > 0 => shown.plus(Duration::from_secs(s.unsigned_abs())),
            Move::By(s) => shown.minus(Duration::from_secs(s.unsigned_abs())),
            Move::Start => from,
            Move::Speed(_) => return Some("only recordings have a playback speed".into()),
        };
        let missed = self.paused.as_ref().map_or(0, |(_, missed)| *missed);
        let session = if at >= now { self.session.clone() } else { self.timeline.session_at(at) };
        self.paused = Some((Box::new(session), missed));
        (at < from).then(|| {
            format!("history begins here: {} kept so far, {} at most (history in the config)", span(now.since(from)), span(self.depth))
        })
    }
}

impl Player {
    pub fn new(session: Session, speed: Option<f64>, at: Duration, captions: Option<&'static Demo>, demo: Option<&'static Demo>) -> Player {
        let timeline = Timeline::new(Limits { depth: Duration::MAX, bytes: TAPE_BYTES }, &session);
        let head = Playhead::new(&timeline);
        let target = (!at.is_zero()).then_some(Target::Offset(at));
        let (clock, last) = (Stamp::default(), Instant::now());
        Player { timeline, head, name: captions.map(|d| d.name), speed, demo, captions, playing: true, clock, last, target, read_all: None }
    }

    fn wants_more(&self) -> bool {
        self.read_all.is_none() && self.timeline.ahead_bytes(&self.head) < AHEAD_BYTES
    }

    fn read(&mut self, seen: &Observation) {
        self.timeline.append(seen);
        if self.clock == Stamp::default() {
            (self.clock, self.last) = (seen.at, Instant::now());
        }
    }

    fn span(&self) -> (Stamp, Stamp) {
        self.timeline.span().unwrap_or_default()
    }

    fn offset(&self) -> Duration {
        self.clock.since(self.span().0)
    }

    /// The moment that is to be reached as fast as possible.
    fn goal(&self) -> Option<Stamp> {
        self.target.map(|target| match target {
            Target::Offset(offset) => self.span().0.plus(offset),
            Target::At(at) => at,
        })
    }

    /// The speed at this moment; `None` is as fast as possible.
    fn pace(&self) -> Option<f64> {
        match (self.demo, self.target) {
            (_, Some(_)) => None,
            (Some(demo), None) => Some(demo.speed_at(self.offset())),
            (None, None) => self.speed,
        }
    }

    fn is_over(&mut self) -> bool {
        self.read_all.is_some() && self.head.next_due(&self.timeline).is_none()
    }

    fn mode(&self) -> Mode {
        let (from, to) = self.span();
        let ended = self.read_all.as_ref().filter(|_| self.head.session.model.now >= to).map(|why| why.clone().unwrap_or_default());
        let speed = self.demo.map_or(self.speed, |demo| Some(demo.speed_at(self.offset())));
        Mode::Replay { name: self.name, speed, playing: self.playing && ended.is_none(), from, to, ended }
    }

    fn next_due(&mut self) -> Option<Instant> {
        if !self.playing && self.target.is_none() {
            return None;
        }
        let due = self.head.next_due(&self.timeline)?;
        let Some(speed) = self.pace() else { return Some(Instant::now()) };
        let ahead = Duration::try_from_secs_f64(due.since(self.clock).as_secs_f64() / speed).unwrap_or(Duration::from_secs(3600));
        Some(self.last + ahead.max(TOGETHER))
    }

    fn play(&mut self, events: &mut Vec<(Stamp, Event)>) -> bool {
        let began = Instant::now();
        if let Some(at) = self.goal() {
            return self.rush(began, Some(at), events);
        }
        if !self.playing {
            self.last = began;
            return false;
        }
        let Some(speed) = self.pace() else { return self.rush(began, None, events) };
        if self.clock == Stamp::default() {
            return false;
        }
        // While the program was stopped, the tape stood.
        let passed = began.duration_since(self.last).min(Duration::from_secs(1)).mul_f64(speed);
        // A tape that could not be read in time does not make up for it.
        let newest = self.span().1;
        self.clock = self.clock.plus(passed).min(if self.read_all.is_some() { Stamp(i64::MAX) } else { newest.max(self.clock) });
        self.last = began;
        let mut any = false;
        while self.head.next_due(&self.timeline).is_some_and(|due| due <= self.clock) && began.elapsed() < SLICE * 4 {
            any |= self.head.step(&mut self.timeline, events);
        }
        if self.is_over() {
            self.clock = self.head.session.model.now;
        }
        any
    }

    /// Applies as much as fits into a moment, up to `until`.
    fn rush(&mut self, began: Instant, until: Option<Stamp>, events: &mut Vec<(Stamp, Event)>) -> bool {
        let mut any = false;
        while began.elapsed() < SLICE {
            match self.head.next_due(&self.timeline) {
                Some(due) if until.is_none_or(|until| due <= until) => any |= self.head.step(&mut self.timeline, events),
                // More of it may still come.
                None if self.read_all.is_none() => break,
                _ => {
                    self.target = None;
                    break;
                }
            }
        }
        self.last = Instant::now();
        self.clock = match (self.target, until) {
            (None, Some(until)) if self.clock != Stamp::default() => until.min(self.span().1).max(self.head.session.model.now),
            _ => self.head.session.model.now,
        };
        any
    }

    fn go(&mut self, to: Move) -> Option<String> {
        let (from, newest) = match (self.timeline.span(), to) {
            (Some(span), _) => span,
            (None, Move::By(_) | Move::Start) => return None,
            // It may be paused, and sent to its end, before the first of it is read.
            (None, _) => Default::default(),
        };
        // Keys add up, though what was asked for before may not be reached yet.
        let heading = self.goal().map_or(self.clock, |at| at.min(newest));
        let at = match to {
            Move::Toggle if self.is_over() => return Some("this is the end of the recording".into()),
            Move::Toggle => {
                // On the way elsewhere, it stops where it is.
                let rushes = self.target.take().is_some();
                self.playing = !rushes && !self.playing;
                self.last = Instant::now();
                return None;
            }
            Move::By(s) if s > 0 => heading.plus(Duration::from_secs(s.unsigned_abs())),
            Move::By(s) => heading.minus(Duration::from_secs(s.unsigned_abs())),
            Move::Start => from,
            Move::End => Stamp(i64::MAX),
            Move::Speed(factor) => {
                let now = self.pace().or(self.speed).unwrap_or(64.0);
                self.demo = None;
                // A speed that was asked for may lie beyond what keys lead to.
                self.speed = Some((now * factor).clamp(now.min(1.0 / 16.0), now.max(1024.0)));
                return None;
            }
        };
        if at > self.clock {
            self.target = Some(Target::At(at));
            return None;
        }
        self.target = None;
        // Whoever goes back from the end wants to look at that moment: at many times its speed the tape would be at its end again.
        if matches!(to, Move::By(_)) && self.is_over() {
            self.playing = false;
        }
        self.head.seek(&mut self.timeline, at);
        self.clock = at.clamp(from, newest);
        self.last = Instant::now();
        let partly = self.head.session.model.started.is_some_and(|started| started < from);
        (at < from && partly)
            .then(|| format!("earlier parts of this tape are no longer kept; use --at to begin there ({})", Zone::UTC.hms(from)))
    }
}
