//! A process of a job, alive or gone.

use super::job::{LOCAL_RANK_VARS, RANK_VARS, WORLD_VARS};
use super::series::Series;
use crate::base::time::Stamp;
use crate::observe::process::{Place, ProcessInfo, ProcessRole, ProcessSample, Wait};
use std::time::Duration;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Process {
    pub info: ProcessInfo,
    pub sample: ProcessSample,
    pub first_seen: Stamp,
    pub state_since: Stamp,
    pub gone: Option<Gone>,
    /// Its rank, where a line of its launcher names it, or where RAS corrects the order in which ranks were started.
    pub placed: Option<u32>,
    /// Bytes passed to read and write calls since it was first seen.
    io_bytes: Series<LOOKS>,
    cpu_ticks: Series<LOOKS>,
    /// 1 for each look at which it, or one of its threads, was in state D, else 0.
    in_d: Series<LOOKS>,
    /// 1 for each look at which it was stopped as at the one before, although it had run in between, else 0.
    stopped_again: Series<LOOKS>,
    /// Bytes passed to write calls, CPU time of its helpers, and time that it waited for a CPU, ms, since it was first seen.
    written_bytes: Series<LOOKS>,
    helper_ticks: Series<LOOKS>,
    run_delay_ms: Series<LOOKS>,
    resident_bytes: Series<LOOKS>,
    /// Where it and its helpers waited when that was last looked at, and when.
    waits: Option<(Stamp, Vec<Wait>)>,
    /// Since when each look has found it itself in the same wait.
    waits_since: Stamp,
    connects: Option<Connects>,
    io_base: Option<u64>,
    cpu_base: Option<u64>,
    written_base: Option<u64>,
    helper_base: Option<u64>,
    delay_base: Option<u64>,
    resident_base: Option<u64>,
}

/// An address that does not answer.
#[derive(Clone, Debug, PartialEq)]
struct Connects {
    to: String,
    since: Stamp,
    last_at: Stamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gone {
    pub at: Stamp,
    /// Exit code, or minus the signal, where it could be read.
    pub exit_code: Option<i32>,
}

/// Samples of a process that are kept.
const LOOKS: usize = 120;
/// Itself and the helpers that the source looks at.
const MAX_WAITS: usize = 16;
/// A process is looked at every few seconds while it waits.
const FRESH: Duration = Duration::from_secs(15);
/// Clock ticks a second on every Linux that NCCL runs on (USER_HZ).
const TICKS_PER_S: f64 = 100.0;
/// What a process that is on its way to being stopped may still use.
const RAN_TICKS: u64 = 5;

impl Process {
    pub fn new(at: Stamp, info: ProcessInfo) -> Self {
        Process { info, first_seen: at, state_since: at, ..Process::default() }
    }

    pub fn apply(&mut self, at: Stamp, sample: &ProcessSample) {
        if sample.state != self.sample.state {
            self.state_since = at;
        }
        let in_d = sample.state == Some('D') || sample.threads_in_d.is_some_and(|n| n > 0);
        self.in_d.push(at, f64::from(u8::from(in_d)));
        // Stopped now and before, and yet it has run in between. A tracer (state t) may hold its first thread alone.
        let stopped = |state| state == Some('T');
        let ran = sample.cpu_ticks.zip(self.sample.cpu_ticks).is_some_and(|(now, before)| now >= before.saturating_add(RAN_TICKS));
        self.stopped_again.push(at, f64::from(u8::from(stopped(sample.state) && stopped(self.sample.state) && ran)));
        if let (Some(r), Some(w)) = (sample.rchar_bytes, sample.wchar_bytes) {
            let total = r.saturating_add(w);
            // Small numbers keep their precision in a series of f32.
            let base = *self.io_base.get_or_insert(total);
            self.io_bytes.push(at, total.saturating_sub(base) as f64);
        }
        if let Some(ticks) = sample.cpu_ticks {
            let base = *self.cpu_base.get_or_insert(ticks);
            self.cpu_ticks.push(at, ticks.saturating_sub(base) as f64);
        }
        let grown = |series: &mut Series<LOOKS>, base: &mut Option<u64>, value: Option<u64>| {
            if let Some(value) = value {
                series.push(at, value.saturating_sub(*base.get_or_insert(value)) as f64);
            }
        };
        grown(&mut self.written_bytes, &mut self.written_base, sample.wchar_bytes);
        grown(&mut self.helper_ticks, &mut self.helper_base, sample.helpers.map(|h| h.cpu_ticks));
        grown(&mut self.run_delay_ms, &mut self.delay_base, sample.run_delay_ns.map(|ns| ns / 1_000_000));
        grown(&mut self.resident_bytes, &mut self.resident_base, sample.rss_bytes);
        if let Some(waits) = &sample.waits {
            if let Some(to) = waits.first().and_then(|wait| wait.connects.as_ref()) {
                /// Where the kernel gives up, after two minutes, the program tries again.
                const NEXT_TRY: Duration = Duration::from_secs(30);
                let same = self.connects.take().filter(|known| known.to == *to && at.since(known.last_at) <= NEXT_TRY);
                self.connects = Some(Connects { to: to.clone(), since: same.map_or(at, |known| known.since), last_at: at });
            }
            let own = |waits: &[Wait]| waits.first().map(|wait| (wait.pid, wait.call.clone(), wait.place.clone(), wait.file.clone()));
            if own(self.waits(at)) != own(waits) {
                self.waits_since = at;
            }
            self.waits = Some((at, waits.iter().take(MAX_WAITS).cloned().collect()));
        }
        self.sample = ProcessSample { waits: None, ..sample.clone() };
    }

    /// Bytes read and written per second over `window`; `None` where /proc/PID/io may not be read.
    pub fn io_bytes_per_s(&self, now: Stamp, window: Duration) -> Option<f64> {
        self.io_bytes.growth_per_s(now, window)
    }

    /// Bytes passed to write calls per second.
    pub fn written_bytes_per_s(&self, now: Stamp, window: Duration) -> Option<f64> {
        self.written_bytes.growth_per_s(now, window)
    }

    /// How fast its resident memory grows; 0 where it shrinks.
    pub fn resident_growth_bytes_per_s(&self, now: Stamp, window: Duration) -> Option<f64> {
        self.resident_bytes.growth_per_s(now, window)
    }

    /// How fast its resident memory grew over each of the last `parts` stretches of this length, oldest first; `None` where one was not seen.
    pub fn resident_growth_by_part(&self, now: Stamp, part: Duration, parts: u32) -> Option<Vec<f64>> {
        self.resident_bytes.growth_by_part(now, part, parts)
    }

    /// It was dead when it was first looked at, and nobody had waited for it.
    pub fn was_found_dead(&self) -> bool {
        self.sample.state.is_none() && self.gone.is_some_and(|gone| gone.at.since(self.first_seen) < Duration::from_millis(500))
    }

    /// CPU time of its helpers, % of one core.
    pub fn helper_cpu_pct(&self, now: Stamp, window: Duration) -> Option<f64> {
        self.helper_ticks.growth_per_s(now, window).map(|ticks| ticks / TICKS_PER_S * 100.0)
    }

    /// Share of the time in which its first thread was ready to run and got no CPU, %.
    pub fn run_delay_pct(&self, now: Stamp, window: Duration) -> Option<f64> {
        self.run_delay_ms.growth_per_s(now, window).map(|ms_per_s| ms_per_s / 10.0)
    }

    /// CPU time over each of the last `parts` stretches of this length, oldest first, % of one core; `None` where one was not seen.
    pub fn cpu_pct_by_part(&self, now: Stamp, part: Duration, parts: u32) -> Option<Vec<f64>> {
        let growth = self.cpu_ticks.growth_by_part(now, part, parts)?;
        Some(growth.into_iter().map(|ticks| ticks / TICKS_PER_S * 100.0).collect())
    }

    /// The address that it tries to reach and that does not answer, and since when.
    pub fn connects(&self, now: Stamp) -> Option<(&str, Stamp)> {
        self.connects.as_ref().filter(|known| now.since(known.last_at) <= FRESH).map(|known| (known.to.as_str(), known.since))
    }

    /// Where it and its helpers wait, itself first. Empty: not looked at of late.
    pub fn waits(&self, now: Stamp) -> &[Wait] {
        self.waits.as_ref().filter(|(at, _)| now.since(*at) <= FRESH).map_or(&[], |(_, waits)| waits)
    }

    /// How long each look has found it itself in the same wait.
    pub fn waits_for(&self, now: Stamp) -> Duration {
        if self.waits(now).is_empty() { Duration::ZERO } else { now.since(self.waits_since) }
    }

    /// Share of the looks within `window` at which it was in state D, 0 to 1.
    pub fn share_in_d(&self, now: Stamp, window: Duration) -> Option<f64> {
        self.in_d.mean_within(now, window)
    }

    /// In how many looks of late it was found stopped as in the one before, although it had run in between: it is stopped and let go, many times
    /// a second (cpulimit).
    pub fn times_stopped_again(&self, now: Stamp) -> usize {
        const LATELY: Duration = Duration::from_secs(12);
        self.stopped_again.within(now, LATELY).filter(|again| *again > 0.0).count()
    }

    /// CPU time used over `window`, % of one core.
    pub fn cpu_pct(&self, now: Stamp, window: Duration) -> Option<f64> {
        self.cpu_ticks.growth_per_s(now, window).map(|ticks| ticks / TICKS_PER_S * 100.0)
    }

    pub fn is_alive(&self) -> bool {
        self.gone.is_none()
    }

    pub fn is_stopped(&self) -> bool {
        self.is_alive() && matches!(self.sample.state, Some('T' | 't'))
    }

    pub fn env(&self, name: &str) -> Option<&str> {
        self.info.env.as_ref()?.get(name).map(String::as_str)
    }

    /// A worker of Ray: its name is that of its actor.
    pub fn is_of_ray(&self) -> bool {
        self.info.cmdline.first().is_some_and(|first| first.starts_with("ray::"))
    }

    pub fn rank(&self) -> Option<u32> {
        self.placed.or_else(|| self.by_place(|place| place.rank, RANK_VARS))
    }

    /// RAS tells more of it than is known: its environment may not be read, or it is a rank that was told its number by a message or an argument.
    pub fn may_be_numbered_by_ras(&self) -> bool {
        self.info.env.is_none() || self.info.role == ProcessRole::Rank && (!self.names_rank() || self.info.place.is_some())
    }

    /// Its environment, or who placed it, says which rank it is.
    pub fn names_rank(&self) -> bool {
        self.by_place(|place| place.rank, RANK_VARS).is_some()
    }

    /// Its number among the ranks on this node.
    pub fn local_rank(&self) -> Option<u32> {
        self.by_place(|place| place.local_rank, LOCAL_RANK_VARS)
    }

    pub fn world_size(&self) -> Option<u32> {
        self.by_place(|place| place.world_size, WORLD_VARS)
    }

    fn by_place(&self, of: impl Fn(&Place) -> Option<u32>, names: &[&str]) -> Option<u32> {
        self.info.place.as_ref().map_or_else(|| self.env_number(names), of)
    }

    /// The first of `names` that is set and a number.
    pub fn env_number(&self, names: &[&str]) -> Option<u32> {
        names.iter().find_map(|name| self.env(name)?.trim().parse().ok())
    }
}
