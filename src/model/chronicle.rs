//! When the lines of one file were written, which run they are of, and whether the job went on after what it reported.

use super::bringup::Bringup;
use crate::base::time::{Stamp, Zone};
use crate::logs::{Init, Origin, Step, TextEvent, What, WorkerFailure, Written, when};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::LazyLock;
use std::time::Duration;

/// The story that the lines of one file tell.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Chronicle {
    /// The last time that a line of it carried.
    pub at: Option<Stamp>,
    /// The last few of them, with their lines.
    times: VecDeque<(u64, Stamp)>,
    /// The first one, or when a wait began that a watchdog reports, if that was earlier.
    pub began: Option<Stamp>,
    /// The first time that a line of the present run carried, if no step came before it.
    pub run_began: Option<Stamp>,
    has_stepped: bool,
    /// A line tells of the start of a run.
    pub starts: bool,
    /// Times came without zone or year, which were assumed.
    pub assumed: bool,
    /// The first and the last time that had a year.
    pub dated: Option<(Stamp, Stamp)>,
    /// Counted from 0; a run that failed is followed by another one.
    pub run: u32,
    /// The line read last begins a run.
    pub is_new_run: bool,
    /// Something failed in this run.
    failed: bool,
    /// The last run in which something failed.
    pub last_failed_run: u32,
    /// Progress lines since the last failure, and whether the end of the job was reported since then.
    pub steps_since: u32,
    pub ended_well: bool,
    /// The lines of those, of which the first [`WATCHED_STEPS`] are looked at; the highest step, the bytes and the bars among them.
    lines_since: u64,
    step_since: Option<u64>,
    bytes_since: usize,
    bars_since: u32,
    /// Those whose own lines carry a time behind that of the failure.
    later_since: u32,
    failed_at: Option<Stamp>,
    /// The last failure is the word of a launcher that a process had ended: nothing that it held back comes any more.
    by_launcher: bool,
    /// Lines that stand in the first [`BUFFER`] bytes and before any failure, and whether a step is among them.
    early_lines: u64,
    early_step: bool,
    early_over: bool,
    /// What tells its run from others.
    pub marks: Marks,
    /// How NCCL came up in the run before the last one.
    before: Bringup,
}

/// What a process that prints into a file holds back, until so much has come together or it ends.
pub const BUFFER: usize = 8192;

/// Step lines after a failure that show whether the job goes on.
pub const WATCHED_STEPS: u64 = 1024;
/// A job that makes so many steps after a failure has survived it.
const SURVIVED_STEPS: u32 = 3;
const MOST_TIMES: usize = 16;
/// The longest that lie between a line that has a year and one that gets its year from it.
const NO_LATER: Duration = Duration::from_secs(60 * 24 * 3600);
/// Clocks of several hosts differ by less.
const LATER: Duration = Duration::from_secs(2);

impl Chronicle {
    /// Takes what a line says; `modified` is when the file was last changed.
    pub fn apply(&mut self, events: &[TextEvent], line: Option<u64>, bytes: usize, modified: Stamp, zone: Zone) {
        self.is_new_run = false;
        for event in events {
            self.date(event, modified, zone);
        }
        let line = line.unwrap_or(0);
        if let Some(at) = self.at.filter(|at| self.times.back().is_none_or(|(_, last)| last != at)) {
            // The first one stays.
            if self.times.len() >= MOST_TIMES {
                self.times.remove(1);
            }
            self.times.push_back((line, at));
        }
        for event in events {
            match &event.what {
                What::Step(step) => {
                    let later =
                        event.origin.written.is_some() && self.at.zip(self.failed_at).is_some_and(|(at, failed)| at.since(failed) > LATER);
                    self.later_since += u32::from(later);
                    self.stepped(step, line, bytes);
                }
                What::Done => self.ended_well = true,
                What::Init(init) => self.marks.init(&event.origin, init),
                what if what.is_failure() => {
                    self.has_failed();
                    self.by_launcher = matches!(what, What::WorkerFailed { .. });
                }
                _ => {}
            }
        }
    }

    fn date(&mut self, event: &TextEvent, modified: Stamp, zone: Zone) {
        let newest = self.marks.to;
        if let Some(written) = &event.origin.written {
            self.assumed |= written.year.is_none() || written.offset_s.is_none();
            let at = self.stamp_of(written, modified, zone);
            at.into_iter().for_each(|at| self.marks.timed(at));
            at.into_iter().for_each(|at| self.has_year(written, at));
            self.at = at.or(self.at);
        }
        if let What::WorkerFailure(WorkerFailure { time: Some(time), .. }) = &event.what {
            // It has whole seconds: what was printed in that second was printed before.
            let known = when::stamp_of(time, modified, zone).map(|at| at.plus(Duration::from_millis(999)));
            self.at = known.or(self.at);
        }
        self.began = self.began.or(self.at);
        self.run_began = self.run_began.or(self.at.filter(|_| event.origin.written.is_some() && !self.has_stepped));
        if let What::CollectiveTimeout(t) = &event.what {
            self.began = self.began.min(self.at.map(|at| at.minus(t.waited())));
        }
        // What began before the newest line is what another node printed beside it, pasted behind it.
        let is_beside = event.origin.written.is_some() && self.at.zip(newest).is_some_and(|(at, newest)| at < newest);
        self.starts |= event.what == What::RunStart;
        if event.what == What::RunStart && !is_beside {
            self.is_new_run = true;
            self.run_began = self.at.filter(|_| event.origin.written.is_some());
            self.has_stepped = false;
            self.run += u32::from(std::mem::take(&mut self.failed));
            // A run before this one may have written all that it held back.
            if std::mem::take(&mut self.early_step) {
                (self.early_lines, self.early_over) = (0, true);
            }
        }
    }

    /// When that was. Of a log that is kept for years the lines that have a year tell that of those near them.
    pub fn stamp_of(&self, written: &Written, modified: Stamp, zone: Zone) -> Option<Stamp> {
        let by_dated = self.dated.map(|(_, to)| to.plus(NO_LATER)).filter(|by| written.year.is_none() && *by < modified);
        let near = |at: &Stamp| self.dated.is_some_and(|(from, _)| at.plus(NO_LATER) >= from);
        let by_dated = by_dated.and_then(|by| when::stamp_of(written, by, zone)).filter(near);
        by_dated.or_else(|| when::stamp_of(written, modified, zone))
    }

    /// Widens the time of which the year is known.
    fn has_year(&mut self, written: &Written, at: Stamp) {
        // A clock that was never set begins in 1970.
        if written.year.is_some_and(|year| year >= 2000) {
            self.dated = Some(self.dated.map_or((at, at), |(from, to)| (from.min(at), to.max(at))));
        }
    }

    /// An alarm of this file was kept.
    pub fn alarmed(&mut self) {
        self.failed = true;
        self.last_failed_run = self.run;
    }

    /// A line that is read as it comes begins here.
    pub fn at_offset(&mut self, offset: u64, line: Option<u64>) {
        if offset < BUFFER as u64 && !self.early_over {
            self.early_lines = self.early_lines.max(line.unwrap_or(0));
        }
    }

    /// The first lines of the file that were written in one go, if the process held its output back.
    pub fn set_early_lines(&mut self, lines: u64) {
        self.early_lines = lines;
    }

    /// The time of a line that says nothing else: near the start of the file, or near its end.
    pub fn spans(&mut self, written: &Written, at_start: bool, modified: Stamp, zone: Zone) {
        let Some(at) = self.stamp_of(written, modified, zone) else { return };
        self.assumed |= written.year.is_none() || written.offset_s.is_none();
        self.has_year(written, at);
        self.marks.timed(at);
        if at_start {
            self.run_began = self.run_began.or(Some(at));
        }
    }

    /// When an event was written, as far as the lines up to its own say.
    pub fn at_of(&self, event: &TextEvent) -> Option<Stamp> {
        match event.said_at.as_ref().and_then(|said| said.line) {
            Some(line) if event.origin.written.is_none() => self.times.iter().rfind(|(at, _)| *at <= line).map(|(_, at)| *at),
            _ => self.at,
        }
    }

    fn stepped(&mut self, step: &Step, line: u64, bytes: usize) {
        self.has_stepped = true;
        self.lines_since += 1;
        if self.lines_since > WATCHED_STEPS {
            return;
        }
        // Ranks that stand still print the same step once more when they end.
        if step.step.is_none() || step.step > self.step_since {
            self.steps_since += 1;
            self.bars_since += u32::from(step.bar);
        }
        self.step_since = self.step_since.max(step.step);
        self.bytes_since = self.bytes_since.saturating_add(bytes);
        self.early_step |= line <= self.early_lines;
    }

    fn has_failed(&mut self) {
        (self.steps_since, self.ended_well) = (0, false);
        (self.lines_since, self.step_since, self.bytes_since, self.bars_since) = (0, None, 0, 0);
        (self.later_since, self.failed_at) = (0, self.at);
        // What a short run held back is all there is, and stands behind this.
        (self.early_lines, self.early_over) = (0, true);
    }

    /// The job made steps after its last failure, and not only on paper. In words how it went on.
    pub fn survival(&self) -> Option<String> {
        // Two that carry a later time are enough where the job says that it came to its end.
        let came_to_its_end = self.ended_well && (self.steps_since >= SURVIVED_STEPS || self.later_since > 1);
        if !came_to_its_end && (self.steps_since < SURVIVED_STEPS || !self.goes_on()) {
            return None;
        }
        let at_least = if self.lines_since > WATCHED_STEPS { "at least " } else { "" };
        Some(if self.ended_well { "came to its end".into() } else { format!("made {at_least}{} more steps", self.steps_since) })
    }

    /// The steps behind a failure were made after it. What a process held back is written when it ends, behind its traceback: that is
    /// ruled out by more than it holds back, by bars, which are not held back, by a step that came too early for that, by the times of
    /// the steps themselves, and by a launcher that had seen it end.
    pub fn goes_on(&self) -> bool {
        self.by_launcher || self.early_step || self.bytes_since > BUFFER || self.bars_since > 2 || self.later_since >= SURVIVED_STEPS
    }

    /// A further run begins: how NCCL came up in the one before is set aside.
    pub fn set_aside(&mut self, bringup: Bringup) {
        if bringup != Bringup::default() {
            self.before = bringup;
        }
    }

    /// How NCCL came up in the run before the last one, which is forgotten.
    pub fn take_before(&mut self) -> Bringup {
        std::mem::take(&mut self.before)
    }
}

/// What tells one run from another, of one file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Marks {
    /// The first and last times that its lines carry.
    pub from: Option<Stamp>,
    pub to: Option<Stamp>,
    pub comms: BTreeSet<u64>,
    /// Of the largest communicators: by host, GPU, rank and size the processes.
    pub seats: BTreeMap<Seat, BTreeSet<u32>>,
}

/// The place of a rank.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Seat {
    pub host: String,
    pub gpu: String,
    pub rank: u32,
    pub nranks: u32,
}

const MOST_MARKS: usize = 1024;

impl Marks {
    fn timed(&mut self, at: Stamp) {
        self.from = Some(self.from.map_or(at, |from| from.min(at)));
        self.to = Some(self.to.map_or(at, |to| to.max(at)));
    }

    fn init(&mut self, origin: &Origin, init: &Init) {
        if self.comms.len() < MOST_MARKS {
            self.comms.extend(init.comm_id);
        }
        let (Some(host), Some(gpu), Some(pid)) = (&origin.host, &init.bus_id, origin.pid) else { return };
        let largest = self.seats.keys().next().map_or(0, |s| s.nranks);
        if init.nranks < largest || self.seats.len() >= MOST_MARKS {
            return;
        }
        if init.nranks > largest {
            self.seats.clear();
        }
        let seat = Seat { host: host.clone(), gpu: gpu.clone(), rank: init.rank, nranks: init.nranks };
        self.seats.entry(seat).or_default().insert(pid);
    }
}

/// A rank as a path names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PathRank {
    Global(u32),
    Local(u32),
}

/// `attempt_0/3/stderr.log` of torchrun, `rank_3.log`, `rank-3/out.txt`.
pub fn rank_of_path(path: &str) -> Option<PathRank> {
    static ATTEMPT: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|/)attempt_[0-9]+/([0-9]{1,4})/std(?:out|err)\.log").expect("pattern"));
    static RANK: LazyLock<Regex> =
        LazyLock::new(|| Regex::new(r"(?:^|[^A-Za-z])(local[_-]?)?[Rr]ank[_-]?([0-9]{1,5})(?:[^0-9]|$)").expect("pattern"));
    if let Some(found) = ATTEMPT.captures(path) {
        return found[1].parse().ok().map(PathRank::Local);
    }
    let found = RANK.captures_iter(path).last()?;
    let rank = found[2].parse().ok()?;
    Some(if found.get(1).is_some() { PathRank::Local(rank) } else { PathRank::Global(rank) })
}
