//! The time of a step where no log names one: how often the traffic of a job swells and ebbs while its GPUs compute.
//!
//! Only bytes of NVLink and of RDMA ports can tell it. How busy a GPU is, and what power it draws, falls just as regularly when a loader
//! brings the batches of all its workers at once, a step for each.

use super::Model;
use super::job::Job;
use super::series::Trend;
use crate::base::time::Stamp;
use std::f64::consts::TAU;
use std::time::Duration;

/// What repeats, and how often.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rhythm {
    pub period_s: f64,
    pub of: Traffic,
    /// GPUs or ports that agree, and how many carry traffic.
    pub agree: usize,
    pub all: usize,
    /// How often it was seen.
    pub times: usize,
    /// When it was last seen.
    pub at: Stamp,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Traffic {
    NvLink,
    Ports,
}

impl Traffic {
    pub fn as_str(self) -> &'static str {
        match self {
            Traffic::NvLink => "NVLink traffic",
            Traffic::Ports => "traffic of RDMA ports",
        }
    }
}

impl Rhythm {
    /// Looks for it so often; one that was not found for longer than two looks is over.
    pub const EVERY: Duration = Duration::from_secs(5);

    pub fn is_current(&self, now: Stamp) -> bool {
        now.since(self.at) <= Rhythm::EVERY * 2
    }

    /// `~4.2 s, estimated from NVLink traffic`
    pub fn words(&self) -> String {
        format!("~{:.1} s, estimated from {}", self.period_s, self.of.as_str())
    }
}

/// Samples are means of a second: a period of fewer of them may be the echo of a shorter one.
const LEAST_S: usize = 4;
/// What repeats more seldom is an evaluation or a checkpoint rather than a step.
const MOST_S: usize = 30;
/// It is believed once it was seen so often.
const TIMES: usize = 5;
const WINDOW_S: usize = MOST_S * TIMES;
/// Correlation with itself one period later; and where a shorter lag may be the period.
const REPEATS: f64 = 0.7;
const MAY_REPEAT: f64 = 0.4;
/// Estimates that differ by less are the same.
const ALIKE: f64 = 0.05;
/// The least swing around the mean, as a share of the mean. Of bytes, which are never below 0, the mean of a second keeps at most 0.6 of
/// a period that 4 s or more would be the echo of (2 sinc 0.75); and two thirds of a period are 0.76 of one of 4 s.
const SWING: f64 = 0.75;
/// What repeats with a multiple of the period, as a share of what repeats with it.
const PARTS_DIFFER: f64 = 0.15;
/// Less than this is no work of a job, bytes/s.
const TRAFFIC: f64 = 1e6;
/// Who computes while no bytes move draws this share of what it draws while they do; who waits for data or in a collective, less.
const COMPUTES: f64 = 0.6;

impl Model {
    /// The time of a step of a job whose logs name none.
    pub fn rhythm_of(&self, job: &Job) -> Option<Rhythm> {
        job.rhythm.filter(|rhythm| rhythm.is_current(self.now))
    }

    /// Looks anew for the rhythms of jobs of which no step can be read.
    pub(super) fn sense_rhythms(&mut self, now: Stamp) {
        let due = |job: &&Job| job.ended_at.is_none() && job.sensed_at.is_none_or(|at| now.since(at) >= Rhythm::EVERY);
        let sensed: Vec<(String, Option<Rhythm>)> =
            self.jobs.values().filter(due).map(|job| (job.id.clone(), self.sense(job, now))).collect();
        for (id, rhythm) in sensed {
            if let Some(job) = self.jobs.get_mut(&id) {
                job.sensed_at = Some(now);
                job.rhythm = rhythm.or(job.rhythm);
            }
        }
    }

    fn sense(&self, job: &Job, now: Stamp) -> Option<Rhythm> {
        if self.progress_of(&job.id).is_some_and(|progress| progress.step.is_some()) {
            return None;
        }
        let began = job.restarted_at.unwrap_or(job.first_seen).max(now.minus(Duration::from_secs(WINDOW_S as u64)));
        let gpus: Vec<_> = job.pids().filter_map(|pid| self.gpus.get(&self.gpu_of_pid(pid)?)).collect();
        let by_second = |trend: &Trend| seconds(trend, began, now);
        let power = sum(gpus.iter().map(|gpu| by_second(&gpu.power_trend)));
        let nvlink = of_members(gpus.iter().map(|gpu| by_second(&gpu.nvlink_trend)).collect(), &power, Traffic::NvLink);
        // Whose the bytes of a port are is known where there is one job.
        let alone = self.jobs.values().filter(|job| job.ended_at.is_none() && !job.ranks.is_empty()).count() == 1;
        let ports = self.ports.values().filter(|_| alone).map(|port| sum([by_second(&port.tx), by_second(&port.rx)].into_iter()));
        let ports = of_members(ports.collect(), &power, Traffic::Ports);
        match (nvlink, ports) {
            // Two that differ are one and its part, and which of them is the step is not known.
            (Some(one), Some(other)) if !is_near(one.period_s, other.period_s) => None,
            (one, other) => one.or(other).map(|found| Rhythm { at: now, ..found }),
        }
    }
}

/// The mean of each second from `from` on; `None` where nothing was sampled.
fn seconds(trend: &Trend, from: Stamp, now: Stamp) -> Vec<Option<f64>> {
    let second = |at: Stamp| at.0.div_euclid(1_000_000_000);
    let first = second(from) + 1;
    let mut all = vec![None; usize::try_from(second(now) - first).unwrap_or(0).min(WINDOW_S)];
    for (at, mean) in trend.iter().rev().take_while(|(at, _)| second(*at) >= first) {
        if let Some(place) = usize::try_from(second(at) - first).ok().and_then(|i| all.get_mut(i)) {
            *place = Some(f64::from(mean));
        }
    }
    all
}

fn sum(mut parts: impl Iterator<Item = Vec<Option<f64>>>) -> Vec<Option<f64>> {
    let first = parts.next().unwrap_or_default();
    parts.fold(first, |all, part| all.iter().zip(&part).map(|(a, b)| Some((*a)? + (*b)?)).collect())
}

fn is_near(one: f64, other: f64) -> bool {
    (one - other).abs() <= one.max(other) * ALIKE
}

/// The period that three of four members with traffic agree on, two at least.
fn of_members(members: Vec<Vec<Option<f64>>>, power: &[Option<f64>], of: Traffic) -> Option<Rhythm> {
    let filled: Vec<(Vec<f64>, usize)> = members.iter().filter_map(|samples| filled(samples)).collect();
    let carrying: Vec<_> = filled.iter().filter(|(samples, _)| mean(samples) >= TRAFFIC).collect();
    let found = |(samples, apart): &&(Vec<f64>, usize)| period(samples, *apart).filter(|_| computes_between(samples, power));
    let mut periods: Vec<f64> = carrying.iter().filter_map(found).collect();
    periods.sort_by(f64::total_cmp);
    let middle = periods.get(periods.len() / 2).copied()?;
    let agree = periods.iter().filter(|period| is_near(**period, middle)).count();
    let times = carrying.iter().map(|(samples, _)| samples.len()).min()? as f64 / middle;
    (agree >= 2 && agree * 4 >= carrying.len() * 3).then_some(Rhythm {
        period_s: middle,
        of,
        agree,
        all: carrying.len(),
        times: times as usize,
        at: Stamp::default(),
    })
}

/// From the first sample to the last, and the most seconds from one to the next. A rate is the mean since the sample before: it stands for
/// the seconds between, too.
fn filled(samples: &[Option<f64>]) -> Option<(Vec<f64>, usize)> {
    let first = samples.iter().position(Option::is_some)?;
    let mut all: Vec<f64> = Vec::with_capacity(samples.len());
    let (mut apart, mut missing) = (1, 0);
    for sample in &samples[first..] {
        missing += 1;
        if let Some(value) = sample {
            all.extend(std::iter::repeat_n(*value, missing));
            apart = apart.max(missing);
            missing = 0;
        }
    }
    // What does not reach up to now is of another time.
    (missing <= apart.max(2)).then_some((all, apart))
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / samples.len().max(1) as f64
}

/// In the seconds with less traffic than the mean, the GPUs draw almost as much as in those with more.
fn computes_between(samples: &[f64], power: &[Option<f64>]) -> bool {
    let middle = mean(samples);
    // Both end now.
    let beside = || samples.iter().rev().zip(power.iter().rev()).filter_map(|(sample, watts)| Some((*sample, (*watts)?)));
    let drawn = |loud: bool| {
        let watts: Vec<f64> = beside().filter(|(sample, _)| (*sample >= middle) == loud).map(|(_, watts)| watts).collect();
        (!watts.is_empty()).then(|| mean(&watts))
    };
    matches!((drawn(false), drawn(true)), (Some(quiet), Some(loud)) if quiet >= loud * COMPUTES)
}

/// The period of samples that are a second apart, seconds, where nothing else can be meant.
fn period(samples: &[f64], apart: usize) -> Option<f64> {
    let most = (samples.len().saturating_sub(1) / TIMES).min(MOST_S);
    let middle = mean(samples);
    let variance = samples.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / samples.len().max(1) as f64;
    // A swing of that size alone has this variance.
    if most < LEAST_S || middle <= 0.0 || variance < (SWING * middle).powi(2) / 2.0 {
        return None;
    }
    let again: Vec<f64> = (0..(most * 4 + 2).min(samples.len().saturating_sub(8))).map(|lag| correlation(samples, lag)).collect();
    let peaks = (2..=most).filter(|lag| again.get(lag + 1).is_some_and(|next| again[lag - 1] <= again[*lag] && *next < again[*lag]));
    let best = peaks.clone().map(|lag| again[lag]).fold(0.0, f64::max);
    let first = peaks.clone().find(|lag| again[*lag] >= MAY_REPEAT)?;
    // The samples of a period of 4.5 s look alike only after two of them: the first peak may be lower.
    if best < REPEATS || again[first] < best - 0.3 || first < LEAST_S || first < apart * 3 {
        return None;
    }
    let period = refined(&again, first).filter(|period| *period >= LEAST_S as f64)?;
    let own = swing(samples, period, period);
    let parts = (2..=(period / 2.0) as usize).map(|part| swing(samples, period, period / part as f64));
    // Where it is a part of the step, such as a micro batch, parts differ, and that repeats with the step.
    let fit = |times: &f64| samples.len() as f64 >= 2.0 * times * period;
    let wholes = [2.0, 3.0, 4.0].into_iter().filter(fit).map(|times| swing(samples, times * period, times * period));
    // What has ended still fills most of the samples.
    let lately = swing(&samples[samples.len() - (2.0 * period) as usize..], period, period);
    let is_it = own >= SWING * middle
        && parts.fold(0.0, f64::max) <= own
        && wholes.fold(0.0, f64::max) <= own * PARTS_DIFFER
        && lately >= own / 2.0;
    is_it.then_some(period)
}

/// Pearson's, of the samples with those `lag` later.
fn correlation(samples: &[f64], lag: usize) -> f64 {
    let (from, to) = (&samples[..samples.len() - lag], &samples[lag..]);
    let (a, b) = (mean(from), mean(to));
    let (mut both, mut one, mut other) = (0.0, 0.0, 0.0);
    for (x, y) in from.iter().zip(to) {
        both += (x - a) * (y - b);
        one += (x - a).powi(2);
        other += (y - b).powi(2);
    }
    if one > 0.0 && other > 0.0 { both / (one * other).sqrt() } else { 0.0 }
}

/// The lag of the fourth period, or of as many as there are, by their number; `None` where it does not repeat so often.
fn refined(again: &[f64], first: usize) -> Option<f64> {
    let mut period = first as f64;
    for times in 2..=4 {
        let (about, around) = (period * f64::from(times), (first as f64 / 4.0).max(1.0));
        let (from, to) = ((about - around) as usize, (about + around).ceil() as usize);
        if to + 1 >= again.len() {
            break;
        }
        let top = (from..=to).max_by(|a, b| again[*a].total_cmp(&again[*b]))?;
        if again[top] < REPEATS - 0.1 {
            return None;
        }
        // The top of the parabola through it and its neighbours.
        let (before, here, after) = (again[top - 1], again[top], again[top + 1]);
        let bend = before - 2.0 * here + after;
        let beside = if bend < 0.0 { 0.5 * (before - after) / bend } else { 0.0 };
        period = (top as f64 + beside.clamp(-0.5, 0.5)) / f64::from(times);
    }
    Some(period)
}

/// How far the sine of that period swings around the mean, in as many whole `unit`s as there are up to now: of these, other periods
/// that fit into them add nothing.
fn swing(samples: &[f64], unit: f64, period: f64) -> f64 {
    let units = (samples.len() as f64 / unit).floor() * unit;
    let samples = &samples[samples.len().saturating_sub(units.round() as usize)..];
    let (mut sine, mut cosine, middle) = (0.0, 0.0, mean(samples));
    for (second, value) in samples.iter().enumerate() {
        let (s, c) = (TAU * second as f64 / period).sin_cos();
        (sine, cosine) = (sine + (value - middle) * s, cosine + (value - middle) * c);
    }
    // Not `hypot`: it needs glibc 2.35.
    2.0 * (sine * sine + cosine * cosine).sqrt() / samples.len().max(1) as f64
}
