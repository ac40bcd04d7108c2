//! A GPU is slowed by heat or by its power supply, or runs slower than the others.

use super::area::Area;
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::{Stamp, span};
use crate::model::gpu::{Activity, Gpu, THROTTLE_BITS, throttle_words};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "gpu-throttled",
    severity: Severity::Warning,
    title: "A GPU is slowed down by heat or by its power supply, or runs slower than the others; in data parallel training it slows down every rank",
    says: "{is|are} slowed down by heat or power, or {runs|run} slower than the others",
    how: "NVML clock event reasons 0x8, 0x20, 0x40 or 0x80 for ten seconds; an SM clock more than 10 % below the median of the job's other \
          GPUs while all work. The power cap (0x4) is usual under load: alone it is told only of a GPU that runs below the others, as information. \
          The driver's own thermal slowdown (0x20) is information, too, unless clock or steps show what it costs",
    advice: "Compare temperature and clock with the other GPUs: one hot GPU is a cooling fault of the node; a power brake is the rack's",
    life: while_it_holds(10, 15),
    implies: Implies::Nothing,
    area: Some(Area::Gpu),
    on_tick: Some(check),
    limits: &[&WINDOW, &BELOW],
    ..Rule::PLAIN
};

const POWER_CAP: u64 = 0x4;
/// The driver lowers the clock by as little as one notch, at temperatures that are none for the GPU's own slowdown.
const SOFT: u64 = 0x20;
const WINDOW: Limit = Limit::seconds("gpu-throttled", "window", 10.0, "clocks are compared over this time");
/// Healthy GPUs of one job differ by a few percent.
const BELOW: Limit = Limit::percent("gpu-throttled", "clock", 90.0, "a clock below this share of the others' at the same work is too low");

/// What tells that the steps of a job have become slow.
const SLOWS: [&str; 2] = ["slow-steps", "straggler"];

/// A GPU that runs slower than the others at the same work.
struct Lag {
    mhz: f64,
    others_mhz: f64,
    others: usize,
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for gpu in ctx.model.gpus.values() {
        let lag = lag(ctx, gpu);
        if gpu.throttled.is_none() && lag.is_none() {
            continue;
        }
        let lately = || (ctx.model.now.minus(WINDOW.duration()), gpu.reasons_within(ctx.model.now, WINDOW.duration()));
        let (since, bits) = gpu.throttled.unwrap_or_else(lately);
        out.push(found(ctx, gpu, since, bits, lag));
    }
}

fn found(ctx: &TickContext, gpu: &Gpu, since: Stamp, bits: u64, lag: Option<Lag>) -> Finding {
    let words = match throttle_words(bits)[..] {
        [] => "no reason reported".to_owned(),
        ref words => words.join(", "),
    };
    let temp = gpu.sample.temp_c.map_or(String::new(), |t| format!(", {t} °C"));
    let clock = gpu.sample.sm_clock_mhz.map_or(String::new(), |c| format!(", SM {c} MHz"));
    let (mut found, name) = ctx.of_gpu(&RULE, gpu.index, format!("GPU {}", gpu.index), since);
    found.confidence = Confidence::Certain;
    found.next = Some(format!("nvidia-smi -q -i {} -d PERFORMANCE,TEMPERATURE,POWER", gpu.index));
    let mut proof = format!("clock event reasons {bits:#x}{temp}{clock}");
    found.why = format!("{words} for {}{temp}{clock}", span(ctx.model.now.since(since)));
    found.summary = format!("{name}: {words}{temp}");
    if lag.is_none() && bits & THROTTLE_BITS == SOFT && !costs_pace(ctx, gpu, since, found.job.as_deref()) {
        found.severity = Severity::Info;
        found.why = format!("{}; neither clock nor steps show that it costs anything", found.why);
    }
    if let Some(Lag { mhz, others_mhz, others }) = lag {
        found.summary = format!("{name} runs at {mhz:.0} MHz, the others at {others_mhz:.0}: {words}{temp}");
        let below = (1.0 - mhz / others_mhz) * 100.0;
        found.why = format!("{below:.0} % below them at the same work: it makes the job slower · {words}");
        proof = format!("{proof}; over {} s {mhz:.0} MHz, median of {others} others {others_mhz:.0} MHz", WINDOW.duration().as_secs());
        let told = bits & !0x1;
        if told == POWER_CAP {
            found.severity = Severity::Info;
            found.why = format!("{below:.0} % below them: usual for a GPU that has more to compute; slower only where all have the same");
        }
    }
    found.evidence = vec![Evidence::of("gpu", proof)];
    found
}

/// The steps of its job are slow, or its clock is low since then: below what it was before, or below its highest where no power cap holds it.
fn costs_pace(ctx: &TickContext, gpu: &Gpu, since: Stamp, job: Option<&str>) -> bool {
    let below = |mhz: f64, usual: f64| mhz < usual * BELOW.value() / 100.0;
    let (n, sum) = gpu.sm_clock.iter().filter(|(at, _)| *at < since).fold((0u32, 0.0), |(n, sum), (_, mhz)| (n + 1, sum + mhz));
    let before = (n >= 5).then(|| sum / f64::from(n));
    let highest = gpu.info.sm_clock_max_mhz.filter(|_| gpu.reasons_within(ctx.model.now, WINDOW.duration()) & POWER_CAP == 0);
    let usual = before.or(highest.map(f64::from));
    let is_low = gpu.sm_clock.mean_within(ctx.model.now, WINDOW.duration()).zip(usual).is_some_and(|(mhz, usual)| below(mhz, usual));
    is_low || SLOWS.iter().any(|rule| job.is_some() && ctx.ledger.is_open(rule, job))
}

/// A GPU that only moves bytes for the others runs at its highest clock, and draws far less than one that computes.
fn at_same_work(gpu: &Gpu, other: &Gpu, now: Stamp) -> bool {
    const LEAST: f64 = 0.75;
    let watts = |gpu: &Gpu| {
        let from = now.minus(WINDOW.duration());
        let (n, sum) = gpu
            .power_trend
            .iter()
            .rev()
            .take_while(|(at, _)| *at >= from)
            .fold((0u32, 0.0), |(n, sum), (_, w)| (n + 1, sum + f64::from(w)));
        (n > 0).then(|| sum / f64::from(n))
    };
    watts(gpu).zip(watts(other)).is_none_or(|(own, others)| others >= own * LEAST)
}

/// How far it is behind the other GPUs of its job, where all of them work.
fn lag(ctx: &TickContext, gpu: &Gpu) -> Option<Lag> {
    let look = ctx.looks.values().find(|look| look.alive().any(|r| r.gpu == Some(gpu.index)))?;
    // Stages of a pipeline differ in what they compute.
    let stage = |rank: u32| look.peers.stage_of(&[rank]);
    let own_stage = look.alive().find(|r| r.gpu == Some(gpu.index)).and_then(|r| stage(r.rank));
    let mut clocks = Vec::new();
    for rank in look.alive() {
        let other = ctx.model.gpus.get(&rank.gpu?)?;
        if !rank.is(Activity::Working, look.at, WINDOW.duration()) || other.sm_clock.within(ctx.model.now, WINDOW.duration()).count() < 5 {
            return None;
        }
        if other.index != gpu.index && !at_same_work(gpu, other, ctx.model.now) {
            return None;
        }
        if other.index != gpu.index && stage(rank.rank) == own_stage {
            clocks.push(other.sm_clock.mean_within(ctx.model.now, WINDOW.duration())?);
        }
    }
    clocks.sort_by(f64::total_cmp);
    let (mhz, others) = (gpu.sm_clock.mean_within(ctx.model.now, WINDOW.duration())?, clocks.len());
    let others_mhz = match others {
        0 => return None,
        n if n % 2 == 1 => clocks[n / 2],
        n => (clocks[n / 2 - 1] + clocks[n / 2]) / 2.0,
    };
    (mhz < others_mhz * BELOW.value() / 100.0).then_some(Lag { mhz, others_mhz, others })
}
