//! Runs the sources while the program is live: a thread each, one bounded channel, stamps, ticks, and their health as observations.

use crate::base::time::{Clock, Stamp, span};
use crate::edge::{self, QUEUE};
use crate::observe::masking::Masking;
use crate::observe::{Body, Observation, Remark, SourceId, SourceReport, SourceState};
use crate::sources::{SOURCES, Setup, Source, SourceError, SourceSpec};
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::sync::mpsc;

/// Nothing, not even a tick, for so long means that the program stood still: it was stopped, the machine slept, or nobody read its output.
const STOOD_STILL: Duration = Duration::from_secs(3);
/// What happened meanwhile was not seen. Until the sources have looked again, silence is not judged.
const LOOK_AGAIN: Duration = Duration::from_secs(3);

/// What the feed itself says (ticks, the end) comes from here.
pub const FEED: SourceId = SourceId::of("feed");

/// What one poll brought.
#[derive(Debug)]
pub struct Batch {
    pub from: SourceId,
    pub at: Stamp,
    pub bodies: Vec<Body>,
}

/// Takes batches to the main loop; blocks while it is busy, returns `false` when it is gone.
pub type Send = Arc<dyn Fn(Batch) -> bool + std::marker::Send + Sync>;

/// The channel from the sources to the loop.
pub fn channel() -> (Send, mpsc::Receiver<Batch>) {
    let (tx, rx) = mpsc::channel(QUEUE);
    let send = move |batch| match tx.try_send(batch) {
        // The loop's own thread comes here, too, but only while there is room.
        Err(mpsc::error::TrySendError::Full(batch)) => tx.blocking_send(batch).is_ok(),
        sent => sent.is_ok(),
    };
    (Arc::new(send), rx)
}

/// How long the last poll of each source took, as far as one is over.
#[derive(Clone, Default)]
pub struct Polls(Arc<Mutex<BTreeMap<&'static str, Duration>>>);

impl Polls {
    fn put(&self, source: &'static str, took: Duration) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(source, took);
    }

    pub fn all(&self) -> BTreeMap<&'static str, Duration> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The running sources.
pub struct Feed {
    clock: Clock,
    watches: Vec<Watch>,
    reports: BTreeMap<SourceId, SourceReport>,
    last: Stamp,
    silent_until: Stamp,
    masking: Masking,
    pace: Pace,
}

/// The interval of the fast lanes: as sources were made with, and as it is now, ms.
#[derive(Clone, Default)]
struct Pace {
    made: Duration,
    now_ms: Arc<AtomicU64>,
}

impl Pace {
    fn of(interval: Duration) -> Pace {
        let pace = Pace { made: interval, now_ms: Arc::default() };
        pace.set(interval);
        pace
    }

    fn set(&self, interval: Duration) {
        self.now_ms.store(u64::try_from(interval.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    /// How long a source waits that was made to wait for `every`: what has a time of its own keeps it.
    fn wait(&self, every: Duration) -> Duration {
        if every == self.made { Duration::from_millis(self.now_ms.load(Ordering::Relaxed)) } else { every }
    }
}

/// What the main loop can see of a source's thread without asking it.
struct Watch {
    spec: &'static SourceSpec,
    id: SourceId,
    /// When the poll in progress began, ns since the epoch; 0 between polls.
    busy_since: Arc<AtomicI64>,
    every: Duration,
    called_slow: bool,
}

impl Feed {
    /// A feed without sources.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Feed {
        let clock = Clock::start();
        Feed {
            clock,
            watches: Vec::new(),
            reports: BTreeMap::new(),
            last: clock.now(),
            silent_until: Stamp::default(),
            masking: Masking::default(),
            pace: Pace::default(),
        }
    }

    /// Starts a thread per source. Threads are never joined: a driver call that blocks forever must not keep the program.
    pub fn start(&mut self, setup: Setup, send: &Send) {
        self.start_some(setup, send, |_| true);
    }

    /// The same with those sources alone that are wanted.
    pub fn start_some(&mut self, mut setup: Setup, send: &Send, wanted: impl Fn(&SourceSpec) -> bool) {
        let clock = self.clock;
        self.pace = Pace::of(setup.interval);
        edge::allow_more_descriptors();
        // Before there are threads that could fill the queue, which nobody empties yet.
        let off = |spec: &SourceSpec, why: String, mut bodies: Vec<Body>| {
            bodies.push(Body::Source(spec.report(SourceState::Absent, Some(why))));
            let _ = send(Batch { from: SourceId::of(spec.id), at: clock.now(), bodies });
        };
        let mut on = Vec::new();
        for spec in SOURCES.iter().filter(|spec| wanted(spec)) {
            if let Some((_, option)) = setup.left_out.iter().find(|(id, _)| *id == spec.id) {
                off(spec, format!("off: {option} is given"), Vec::new());
            } else if spec.live_only && !setup.roots.is_live() {
                let bodies = spec.instead.map(|told| told(&setup.roots)).unwrap_or_default();
                off(spec, "off: it asks the live system, and --sysroot is given".into(), bodies);
            } else {
                on.push(spec);
            }
        }
        for spec in on {
            let id = SourceId::of(spec.id);
            let source = (spec.make)(&mut setup);
            let busy_since = Arc::new(AtomicI64::new(0));
            self.watches.push(Watch { spec, id: id.clone(), busy_since: busy_since.clone(), every: source.every(), called_slow: false });
            let polls = setup.polls.clone();
            let run = Run { spec, id, source, clock, busy_since, polls, send: send.clone(), told: None, pace: self.pace.clone() };
            // If the system refuses another thread, the source's absence from the list of states says so.
            let _ = std::thread::Builder::new().name(format!("source:{}", spec.id)).stack_size(512 << 10).spawn(move || run.forever());
        }
    }

    /// From their next look on, sources of the fast lanes look this often.
    pub fn set_interval(&self, interval: Duration) {
        self.pace.set(interval);
    }

    pub fn now(&self) -> Stamp {
        self.clock.now()
    }

    /// Puts a batch on the stream, without what is secret in it. Threads stamp before they queue, so stamps are made to never go back.
    pub fn accept(&mut self, batch: Batch, mut to: impl FnMut(Observation)) {
        self.go_on_to(batch.at, &mut to);
        for mut body in batch.bodies {
            self.masking.apply(&mut body);
            if let Body::Source(report) = &body {
                self.reports.insert(batch.from.clone(), report.clone());
            }
            to(Observation { at: self.last, host: None, from: batch.from.clone(), body });
        }
    }

    /// The stream reaches this moment: after a gap, if nothing came for long.
    fn go_on_to(&mut self, at: Stamp, to: &mut impl FnMut(Observation)) {
        let gap = at.since(self.last);
        self.last = self.last.max(at);
        if gap > STOOD_STILL {
            self.silent_until = at.plus(LOOK_AGAIN);
            let for_ms = u64::try_from(gap.as_millis()).unwrap_or(u64::MAX);
            to(Observation { at: self.last, host: None, from: FEED, body: Body::Gap { for_ms } });
        }
    }

    /// A second has passed: says which sources are overdue, then ticks.
    pub fn tick(&mut self, mut to: impl FnMut(Observation)) {
        let now = self.clock.now();
        self.go_on_to(now, &mut to);
        if now < self.silent_until {
            return;
        }
        for watch in &mut self.watches {
            let since = Stamp(watch.busy_since.load(Ordering::Relaxed));
            let overdue = since.0 != 0 && now.since(since) > (self.pace.wait(watch.every) * 3).max(Duration::from_secs(5));
            if !overdue && !watch.called_slow {
                continue;
            }
            let report = if overdue {
                watch.spec.report(SourceState::Slow, Some(format!("no answer for {}", span(now.since(since)))))
            } else {
                // It answered again; what it was before holds until it says otherwise.
                self.reports.get(&watch.id).cloned().unwrap_or_else(|| watch.spec.report(SourceState::Ok, None))
            };
            watch.called_slow = overdue;
            to(Observation { at: self.last, host: None, from: watch.id.clone(), body: Body::Source(report) });
        }
        to(Observation { at: self.last, host: None, from: FEED, body: Body::Tick });
    }

    /// Puts what the user noted on the stream.
    pub fn note(&mut self, remark: Remark, mut to: impl FnMut(Observation)) {
        let now = self.clock.now();
        self.go_on_to(now, &mut to);
        let mut body = Body::Remark(remark);
        self.masking.apply(&mut body);
        to(Observation { at: self.last, host: None, from: FEED, body });
    }

    /// The last observation of the stream.
    pub fn end(&mut self) -> Observation {
        self.last = self.last.max(self.clock.now());
        Observation { at: self.last, host: None, from: FEED, body: Body::End }
    }
}

/// One source and its thread.
struct Run {
    spec: &'static SourceSpec,
    id: SourceId,
    source: Box<dyn Source>,
    clock: Clock,
    busy_since: Arc<AtomicI64>,
    polls: Polls,
    send: Send,
    told: Option<SourceReport>,
    pace: Pace,
}

impl Run {
    fn forever(mut self) {
        let mut failures = 0u32;
        loop {
            let began = self.clock.now();
            self.busy_since.store(began.0, Ordering::Relaxed);
            let mut bodies = Vec::new();
            let result = catch_unwind(AssertUnwindSafe(|| self.source.poll(&mut bodies))).unwrap_or_else(|cause| {
                let text =
                    cause.downcast_ref::<String>().map(String::as_str).or(cause.downcast_ref::<&str>().copied()).unwrap_or("no message");
                Err(SourceError::Failed(format!("a defect of nccl-top: it panicked: {text}")))
            });
            self.busy_since.store(0, Ordering::Relaxed);
            self.polls.put(self.spec.id, self.clock.now().since(began));
            let (report, wait) = match result {
                Ok(()) => {
                    failures = 0;
                    let (state, detail) = self.source.remark().map_or((SourceState::Ok, None), |(state, text)| (state, Some(text)));
                    (self.spec.report(state, detail), self.pace.wait(self.source.every()))
                }
                Err(err) => {
                    failures += 1;
                    let wait = self.source.every().saturating_mul(1 << failures.min(8)).min(self.spec.retry.max(self.source.every()));
                    (self.spec.report(err.state(), Some(err.to_string())), wait)
                }
            };
            if self.told.as_ref() != Some(&report) {
                self.told = Some(report.clone());
                bodies.push(Body::Source(report));
            }
            if !bodies.is_empty() && !(self.send)(Batch { from: self.id.clone(), at: self.clock.now(), bodies }) {
                return;
            }
            self.source.wait(wait);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(seen: &[Observation]) -> Vec<&'static str> {
        seen.iter()
            .map(|o| match o.body {
                Body::Gap { for_ms } if (59_000..70_000).contains(&for_ms) => "a gap of a minute",
                Body::Tick => "tick",
                _ => "else",
            })
            .collect()
    }

    #[test]
    fn silence_is_not_judged_right_after_the_program_stood_still() {
        let mut feed = Feed::new();
        let clock = feed.clock;
        let tick = |feed: &mut Feed| {
            let mut seen = Vec::new();
            feed.tick(|o| seen.push(o));
            seen
        };
        assert_eq!(kinds(&tick(&mut feed)), ["tick"]);
        feed.last = clock.now().minus(Duration::from_secs(60));
        assert_eq!(kinds(&tick(&mut feed)), ["a gap of a minute"], "the sources have not looked again");
        assert!(tick(&mut feed).is_empty());
        feed.silent_until = clock.now();
        assert_eq!(kinds(&tick(&mut feed)), ["tick"]);
    }

    #[test]
    fn the_first_that_comes_after_the_program_stood_still_comes_after_the_gap() {
        let mut feed = Feed::new();
        let now = feed.clock.now();
        feed.last = now.minus(Duration::from_secs(60));
        let mut seen = Vec::new();
        let batch = |at| Batch { from: SourceId::of("host"), at, bodies: vec![Body::Unknown] };
        // Queued before the stop, and after.
        feed.accept(batch(now.minus(Duration::from_secs(60))), |o| seen.push(o));
        feed.accept(batch(now), |o| seen.push(o));
        assert_eq!(kinds(&seen), ["else", "a gap of a minute", "else"]);
        assert!(seen.is_sorted_by_key(|o| o.at));
    }
}
