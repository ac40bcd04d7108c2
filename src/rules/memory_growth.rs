//! Memory of a rank grows all the time, and will be used up.

use super::chain::{Chain, Explains};
use super::{Implies, Rule, TickContext, has_trained, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::time::span;
use crate::base::units::gib;
use crate::base::words::rank_words;
use crate::model::Model;
use crate::model::job::Job;
use crate::model::process::Process;
use crate::model::room::{Resource, left_of_cgroup, left_of_host};
use crate::model::signals::{Look, RankLook};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use std::time::Duration;

const EXPLAINS: &[Explains] = &[
    Explains { rule: "cuda-oom", of_its_ranks: true },
    Explains { rule: "rank-oom-killed", of_its_ranks: false },
    Explains { rule: "host-memory-low", of_its_ranks: false },
];

pub const RULE: Rule = Rule {
    id: "memory-growth",
    severity: Severity::Warning,
    title: "Memory of a rank grows all the time and will be used up within hours",
    says: "{takes|take} more memory all the time",
    how: "Used memory of the rank's GPU; or its resident memory, while the memory that is left to the machine or to its control group shrinks \
          as steadily, so that files that are mapped or cached do not count. It grew in each quarter of the time since training began, five \
          minutes at least, and as fast in the newer half as to be used up in time. Of one rank alone 22 s are enough, on its GPU or on \
          the host, where its memory will be used up within half an hour",
    advice: "GPU: a tensor that keeps its graph (a loss that is summed without .item()), lists of outputs, ever longer sequences; \
             torch.cuda.memory._snapshot() names who allocated. Host: objects copied into each data-loader worker, a cache without bound",
    life: while_it_holds(10, 60),
    implies: Implies::Nothing,
    chain: Chain { explains: EXPLAINS, ..Chain::PLAIN },
    limits: &[&WITHIN, &GROWN, &WATCHED, &ALONE, &SOON],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const WITHIN: Limit = Limit::seconds("memory-growth", "within", 7200.0, "memory that will be used up in less than this is reported");
const GROWN: Limit =
    Limit::percent("memory-growth", "grown", 0.5, "where it grew by this part of all of it, or more, while it was watched");
const WATCHED: Limit = Limit::seconds("memory-growth", "watched", 300.0, "it must have grown for this long");
const ALONE: Limit = Limit::seconds(
    "memory-growth",
    "alone",
    12.0,
    "that of one rank alone must have grown in both halves of this time, and for ten seconds more, where it will be used up soon",
);
const SOON: Limit = Limit::seconds("memory-growth", "soon", 1800.0, "that of one rank alone must be used up in less than this");
/// What lies further back says nothing of how it goes on.
const FURTHEST: Duration = Duration::from_secs(1800);
/// Of what a rank takes, so much at least must be missing from what is left.
const MISSING: f64 = 0.5;

/// How something grows.
struct Growth {
    bytes_per_s: f64,
    /// Until nothing is left.
    left_s: f64,
}

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id).filter(|_| has_trained(look)) else { continue };
        let long = over_long(ctx.model, job);
        if long.is_empty() {
            out.extend(of_one_alone(ctx.model, job, look));
        }
        out.extend(long);
    }
}

/// What grows all the time since training began.
fn over_long(model: &Model, job: &Job) -> Vec<Finding> {
    // A model that is loaded, and what warms up, grows, too.
    let steady = model.progress_of(&job.id).and_then(|p| p.steady_since).map(|at| model.now.since(at));
    let known = job.worked.max(steady.unwrap_or_default()).min(FURTHEST);
    if known < WATCHED.duration() {
        return Vec::new();
    }
    let ranks = job.ranks.iter().filter_map(|(rank, pid)| Some((*rank, model.processes.get(pid).filter(|p| p.is_alive())?)));
    ranks
        .flat_map(|(rank, process)| [of_gpu(model, job, rank, process, known), of_host(model, job, rank, process, known)])
        .flatten()
        .collect()
}

fn of_gpu(model: &Model, job: &Job, rank: u32, process: &Process, known: Duration) -> Option<Finding> {
    let gpu = model.gpus.get(&model.gpu_of_pid(process.info.pid)?)?;
    let (used, total) = (gpu.sample.mem_used_bytes?, gpu.mem_total_bytes()?);
    let rate = rate(model, &Resource::GpuMemory(gpu.index), known)?;
    let growth = used_up(rate, total.saturating_sub(used), total, known)?;
    let summary = format!("GPU memory of rank {rank} (GPU {}) {}", gpu.index, growth.words());
    let proof = format!("{} of {} GiB are used", gib(used), gib(total));
    let mut found = finished(model, job, rank, format!("gpu {}", gpu.index), summary, known, proof);
    found.gpus = vec![gpu.index];
    Some(found)
}

fn of_host(model: &Model, job: &Job, rank: u32, process: &Process, known: Duration) -> Option<Finding> {
    let own = rate(model, &Resource::Process(process.info.pid), known)?;
    let host = model.host_sample.as_ref().and_then(|s| Some((Resource::Memory, left_of_host(s)?, s.mem_total_bytes?)));
    let groups = model.cgroups.values().flatten().filter(|of| process.info.cgroup.as_deref() == Some(&of.cgroup));
    let groups = groups.filter_map(|of| Some((Resource::Cgroup(of.cgroup.clone()), left_of_cgroup(of)?, of.limit_bytes?)));
    let ends = host.into_iter().chain(groups).filter_map(|(what, left, total)| {
        let all = rate(model, &what, known).filter(|all| *all >= own * MISSING)?;
        let growth = used_up(all, left, total, known)?;
        Some((growth.left_s, what, left))
    });
    let (left_s, what, left) = ends.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let of = match &what {
        Resource::Cgroup(name) => format!("the limit of control group {name}"),
        _ => "the machine's memory".into(),
    };
    let growth = Growth { bytes_per_s: own, left_s };
    let summary = format!("host memory of rank {rank} (pid {}) {}", process.info.pid, growth.words());
    let held = process.sample.rss_bytes.map_or(String::new(), |rss| format!("it holds {} GiB; ", gib(rss)));
    Some(finished(model, job, rank, "host".into(), summary, known, format!("{held}{} GiB of {of} are left", gib(left))))
}

/// Two parts of a short time.
const PARTS: u32 = 2;

/// One rank takes far more in each part of a short time, and no other rank does: a cache that all of them fill, or a start, is no such thing.
fn of_one_alone(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    if look.phase.is_some() || look.quiet_log() || look.alive().count() < look.local_ranks.max(2) {
        return None;
    }
    gpu_of_one_alone(model, job, look).or_else(|| host_of_one_alone(model, job, look))
}

/// The rank that takes more by itself, and the bytes a second in the slower part. `parts`: what a rank takes in each part, bytes a second.
fn alone(look: &Look, parts: impl Fn(&RankLook) -> Option<Vec<f64>>) -> Option<(&RankLook, f64)> {
    /// What the others may take, of what it takes.
    const OTHERS: f64 = 0.1;
    const STEADY: f64 = 2.0;
    let mut all = Vec::new();
    for rank in look.alive() {
        let (least, most) = parts(rank)?.iter().fold((f64::INFINITY, 0.0_f64), |(least, most), rate| (least.min(*rate), most.max(*rate)));
        all.push((least, most, rank));
    }
    all.sort_by(|a, b| b.0.total_cmp(&a.0));
    let (&(least, most, rank), others) = all.split_first()?;
    (most <= least * STEADY && others.iter().all(|(_, most, _)| *most <= least * OTHERS)).then_some((rank, least))
}

fn gpu_of_one_alone(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    /// Of all its memory, so much at least while it was watched: an allocator that goes on to fit takes less.
    const GROWN_OF_ALL: f64 = 0.02;
    let gpu = |rank: &RankLook| model.gpus.get(&model.gpu_of_pid(rank.pid)?);
    let (rank, rate) = alone(look, |rank| gpu(rank)?.mem_growth_by_part(model.now, ALONE.duration() / PARTS, PARTS))?;
    let gpu = gpu(rank)?;
    let (used, total) = (gpu.sample.mem_used_bytes?, gpu.mem_total_bytes()?);
    let growth = Growth { bytes_per_s: rate, left_s: total.saturating_sub(used) as f64 / rate };
    // What others take there is none of its doing.
    if gpu.has_unseen_process() || gpu.processes.iter().any(|process| process.pid != rank.pid) {
        return None;
    }
    let has_given_back = gpu.has_given_back(total as f64 * GROWN_OF_ALL);
    if growth.left_s >= SOON.value() || rate * ALONE.value() < total as f64 * GROWN_OF_ALL || has_given_back {
        return None;
    }
    let summary = format!("GPU memory of rank {} (GPU {}) {}", rank.rank, gpu.index, growth.words());
    let proof = format!("{} of {} GiB are used; no other rank here grows like that", gib(used), gib(total));
    let mut found = finished(model, job, rank.rank, format!("gpu {}", gpu.index), summary, ALONE.duration(), proof);
    found.gpus = vec![gpu.index];
    Some(found)
}

fn host_of_one_alone(model: &Model, job: &Job, look: &Look) -> Option<Finding> {
    let part = ALONE.duration() / PARTS;
    let (rank, least) = alone(look, |rank| model.processes.get(&rank.pid)?.resident_growth_by_part(model.now, part, PARTS))?;
    let process = model.processes.get(&rank.pid)?;
    // Files that are mapped or cached take nothing that is missed.
    let missing = model.room.get(&Resource::Memory)?.lost_bytes_per_s(model.now, ALONE.duration())?;
    if missing < least * MISSING {
        return None;
    }
    let groups = model.cgroups.values().flatten().filter(|of| process.info.cgroup.as_deref() == Some(&of.cgroup));
    let left = groups.filter_map(left_of_cgroup).chain(model.host_sample.as_ref().and_then(left_of_host)).min()?;
    let growth = Growth { bytes_per_s: least, left_s: left as f64 / least };
    (growth.left_s < SOON.value()).then(|| {
        let held = process.sample.rss_bytes.map_or(String::new(), |rss| format!("it holds {} GiB; ", gib(rss)));
        let summary = format!("host memory of rank {} (pid {}) {}", rank.rank, rank.pid, growth.words());
        let proof = format!("{held}{} GiB are left; no other rank here grows like that", gib(left));
        finished(model, job, rank.rank, "host".into(), summary, ALONE.duration(), proof)
    })
}

impl Growth {
    fn words(&self) -> String {
        /// Above it nobody thinks in hours.
        const FAST_BYTES_PER_S: f64 = 1e8;
        let left = span(Duration::from_secs_f64(self.left_s.min(1e6)));
        let (seconds, unit) = if self.bytes_per_s >= FAST_BYTES_PER_S { (60.0, "minute") } else { (3600.0, "hour") };
        // How long is left stands first: a narrow screen cuts the end.
        format!(
            "will be used up in {left}: it grows by {} GiB {} {unit}",
            gib((self.bytes_per_s * seconds) as u64),
            if unit == "hour" { "an" } else { "a" }
        )
    }
}

/// Bytes a second, the slower of all that is known and of its newer half: what levels off is no leak.
fn rate(model: &Model, what: &Resource, known: Duration) -> Option<f64> {
    let room = model.room.get(what)?;
    let of = |time: Duration| room.shrinks_by_bytes_per_s(model.now, time.min(WATCHED.duration()), time);
    Some(of(known)?.min(of(known / 2)?))
}

fn used_up(bytes_per_s: f64, left: u64, total: u64, known: Duration) -> Option<Growth> {
    let left_s = left as f64 / bytes_per_s;
    let grown = bytes_per_s * known.as_secs_f64() / total.max(1) as f64 * 100.0;
    (left_s < WITHIN.value() && grown >= GROWN.value()).then_some(Growth { bytes_per_s, left_s })
}

fn finished(model: &Model, job: &Job, rank: u32, of: String, summary: String, known: Duration, proof: String) -> Finding {
    let mut found = RULE.finding(format!("{} {of}", rank_words(&[rank])), summary, model.now.minus(known));
    found.job = Some(job.id.clone());
    found.ranks = vec![rank];
    found.confidence = Confidence::Likely;
    found.why = format!("it has grown in each part of the last {}; {proof}", span(known));
    found.evidence = vec![Evidence::of("counter", proof)];
    found.next = Some("write a checkpoint now; then look for what keeps growing".into());
    found
}
