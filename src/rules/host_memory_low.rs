//! Host memory is nearly used up: the kernel will soon kill somebody for it.

use super::area::Area;
use super::chain::{Chain, Explains};
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::{gib, minutes_up};
use crate::base::words::rank_words;
use crate::model::Model;
use crate::model::job::Job;
use crate::model::process::Process;
use crate::model::room::{Resource, left_of_cgroup, left_of_host};
use crate::observe::evidence::Evidence;
use crate::observe::host::CgroupMemory;
use crate::rules::findings::Finding;
use std::time::Duration;

const EXPLAINS: &[Explains] = &[Explains { rule: "rank-oom-killed", of_its_ranks: false }];

pub const RULE: Rule = Rule {
    id: "host-memory-low",
    severity: Severity::Warning,
    title: "Host memory, or the limit of a job's control group, is nearly used up",
    how: "MemAvailable and free swap of the machine; memory.max, memory.current and memory.stat of the control groups of ranks and of those \
          above them, without the cache of files that the kernel can take back",
    advice: "The kernel kills a process when nothing is left, most likely a rank. Fewer data-loader workers, less pinned memory and \
             checkpoint staging, or a higher limit for the job",
    life: while_it_holds(5, 15),
    implies: Implies::Nothing,
    area: Some(Area::Host),
    chain: Chain { explains: EXPLAINS, ..Chain::PLAIN },
    limits: &[&LEFT, &SHRINKING, &WITHIN],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const LEFT: Limit = Limit::percent("host-memory-low", "left", 2.0, "memory of which less than this part is left is low");
const SHRINKING: Limit =
    Limit::percent("host-memory-low", "shrinking", 10.0, "so is memory of which less than this part is left, where it shrinks steadily");
const WITHIN: Limit = Limit::seconds("host-memory-low", "within", 600.0, "and will be used up in less than this");
/// It must have shrunk steadily for this long. What loads a model stops before.
const WATCHED: Duration = Duration::from_secs(240);

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let model = ctx.model;
    out.extend(of_host(model));
    for (id, job) in &model.jobs {
        let mut groups: Vec<&CgroupMemory> =
            model.cgroups.values().flatten().filter(|of| process_of(model, job, Some(&of.cgroup)).is_some()).collect();
        // Ranks in groups of their own may share the limit above them.
        groups.sort_by_key(|of| &of.limited_by);
        groups.dedup_by_key(|of| &of.limited_by);
        out.extend(groups.into_iter().filter_map(|of| of_cgroup(model, id, job, of)));
    }
}

fn of_host(model: &Model) -> Option<Finding> {
    let sample = model.host_sample.as_ref()?;
    let (left, total) = (left_of_host(sample)?, sample.mem_total_bytes?);
    let soon = low(model, &Resource::Memory, left, total)?;
    let proof = format!("MemAvailable and free swap: {} GiB, MemTotal {} GiB", gib(left), gib(total));
    let evidence = Evidence { path: Some("/proc/meminfo".into()), ..Evidence::of("counter", proof) };
    let jobs: Vec<(&String, &Job)> = model.jobs.iter().filter(|(_, job)| process_of(model, job, None).is_some()).collect();
    let mut found =
        RULE.finding("host", format!("host memory is nearly used up: {} of {} GiB are left{soon}", gib(left), gib(total)), model.now);
    found.evidence = vec![evidence];
    if let [(id, job)] = jobs[..] {
        found.job = Some(id.clone());
        found.evidence.extend(process_of(model, job, None).map(largest));
    }
    Some(finished(found))
}

fn of_cgroup(model: &Model, id: &str, job: &Job, of: &CgroupMemory) -> Option<Finding> {
    let (left, limit) = (left_of_cgroup(of)?, of.limit_bytes?);
    let soon = low(model, &Resource::Cgroup(of.cgroup.clone()), left, limit)?;
    let group = of.limited_by.as_deref().unwrap_or(&of.cgroup);
    let summary =
        format!("the memory limit of control group {group} is nearly used up: {} of {} GiB are left{soon}", gib(left), gib(limit));
    let used = of.used_bytes.map_or(String::new(), gib);
    let proof = format!(
        "memory.current {used} GiB, of which {} GiB are cache; memory.max {} GiB",
        of.cache_bytes.map_or("?".into(), gib),
        gib(limit)
    );
    let mut found = RULE.finding(group, summary, model.now);
    found.job = Some(id.to_owned());
    found.evidence = vec![Evidence { path: Some(format!("/sys/fs/cgroup{group}")), ..Evidence::of("counter", proof) }];
    found.evidence.extend(process_of(model, job, Some(&of.cgroup)).map(largest));
    Some(finished(found))
}

fn finished(mut found: Finding) -> Finding {
    found.confidence = Confidence::Certain;
    found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
    found.next = Some("ps -eo pid,rss,comm --sort=-rss | head".into());
    found
}

/// Whether so little is left; with when it is used up, where that can be foreseen.
fn low(model: &Model, what: &Resource, left: u64, total: u64) -> Option<String> {
    let part = left as f64 / total.max(1) as f64 * 100.0;
    let rate = || model.room.get(what)?.shrinks_by_bytes_per_s(model.now, WATCHED, WATCHED);
    let left_s = || rate().map(|rate| left as f64 / rate).filter(|s| *s < WITHIN.value());
    match () {
        () if part < LEFT.value() => Some(String::new()),
        () if part < SHRINKING.value() => left_s().map(|s| format!(", and at this rate nothing within {}", minutes_up(s))),
        () => None,
    }
}

/// The rank of a job, in a control group if one is named, that holds most memory.
fn process_of<'a>(model: &'a Model, job: &Job, cgroup: Option<&str>) -> Option<(u32, &'a Process)> {
    let ranks = job.ranks.iter().filter_map(|(rank, pid)| Some((*rank, model.processes.get(pid).filter(|p| p.is_alive())?)));
    ranks.filter(|(_, p)| cgroup.is_none() || p.info.cgroup.as_deref() == cgroup).max_by_key(|(_, p)| p.sample.rss_bytes)
}

fn largest((rank, process): (u32, &Process)) -> Evidence {
    let held = process.sample.rss_bytes.map_or("an unknown amount".into(), |bytes| format!("{} GiB", gib(bytes)));
    Evidence::of("process", format!("{} (pid {}) holds {held}, more than its other ranks", rank_words(&[rank]), process.info.pid))
}
