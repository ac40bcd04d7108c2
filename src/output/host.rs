//! What is known about the machine itself, for `snapshot`: as JSON, and as lines of text.

use crate::base::mask::shown;
use crate::base::time::{Stamp, Zone, span};
use crate::base::units::gib;
use crate::model::Model;
use crate::observe::host::{CgroupMemory, DiskSample, Temperature};
use serde_json::{Value, json};

/// The fields `machine`, `memory`, `disks` and `temperatures`.
pub fn json(model: &Model, zone: Zone) -> [(&'static str, Value); 4] {
    let node = model.node.clone().unwrap_or_default();
    let sample = model.host_sample.clone().unwrap_or_default();
    fn text(text: &Option<String>) -> Option<std::borrow::Cow<'_, str>> {
        text.as_deref().map(shown)
    }
    let machine = json!({
        "os": text(&node.os),
        "kernel": text(&node.kernel),
        "vendor": text(&node.vendor),
        "product": text(&node.product),
        "container": text(&node.container),
        "cpu_model": text(&node.cpu_model),
        "cpus": node.cpus,
        "booted_at": booted_at(model).map(|at| zone.rfc3339(at)),
        "uptime_s": booted_at(model).map(|at| model.now.since(at).as_secs()),
    });
    let memory = json!({
        "total_bytes": sample.mem_total_bytes,
        "available_bytes": sample.mem_available_bytes,
        "swap_total_bytes": sample.swap_total_bytes,
        "swap_free_bytes": sample.swap_free_bytes,
        "cgroups": cgroups(model).map(|of| json!({
            "cgroup": shown(&of.cgroup),
            "jobs": jobs_of(model, of),
            "limited_by": text(&of.limited_by),
            "limit_bytes": of.limit_bytes,
            "used_bytes": of.used_bytes,
            "cache_bytes": of.cache_bytes,
            "swap_limit_bytes": of.swap_limit_bytes,
            "swap_used_bytes": of.swap_used_bytes,
        })).collect::<Vec<_>>(),
    });
    let disks = model.disks.iter().map(|disk| {
        json!({
            "mount": shown(&disk.mount),
            "fs": text(&disk.fs),
            "total_bytes": disk.total_bytes,
            "available_bytes": disk.free_bytes,
            "read_only": disk.read_only,
            "inodes_total": disk.inodes_total,
            "inodes_free": disk.inodes_free,
        })
    });
    let temperatures = model
        .temperatures
        .iter()
        .map(|t| json!({ "sensor": shown(&t.sensor), "celsius": t.celsius, "critical_celsius": t.critical_c, "sensors": t.sensors }));
    [("machine", machine), ("memory", memory), ("disks", disks.collect()), ("temperatures", temperatures.collect())]
}

/// The same for people; empty where nothing is known.
pub fn lines(model: &Model) -> Vec<String> {
    let node = model.node.clone().unwrap_or_default();
    let cpus = match (node.cpus, node.cpu_model) {
        (Some(n), Some(model)) => Some(format!("{n} CPUs ({model})")),
        (Some(n), None) => Some(format!("{n} CPUs")),
        (None, model) => model,
    };
    let product = [node.vendor, node.product].into_iter().flatten().collect::<Vec<_>>().join(" ");
    let facts = [
        Some(product).filter(|product| !product.is_empty()),
        node.os,
        node.kernel.map(|kernel| format!("kernel {kernel}")),
        cpus,
        node.container.map(|container| format!("in a container ({container})")),
        booted_at(model).map(|at| format!("up {}", span(model.now.since(at)))),
    ];
    let facts = facts.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let mut lines = Vec::from_iter(Some(facts).filter(|facts| !facts.is_empty()));
    lines.extend(memory(model));
    lines.extend(cgroups(model).filter_map(|of| cgroup(model, of)));
    lines.extend(model.disks.iter().map(disk));
    lines.extend(model.temperatures.iter().map(temperature));
    lines
}

fn booted_at(model: &Model) -> Option<Stamp> {
    let seconds = i64::try_from(model.node.as_ref()?.booted_at_s?).ok()?;
    seconds.checked_mul(1_000_000_000).map(Stamp)
}

/// Each control group once: this program may run in that of a job.
fn cgroups(model: &Model) -> impl Iterator<Item = &CgroupMemory> {
    let mut seen = std::collections::BTreeSet::new();
    model.cgroups.values().flatten().filter(move |of| seen.insert(&of.cgroup))
}

fn jobs_of<'a>(model: &'a Model, of: &CgroupMemory) -> Vec<&'a str> {
    let runs_in = |pid| model.processes.get(&pid).is_some_and(|p| p.info.cgroup.as_ref() == Some(&of.cgroup));
    model.jobs.values().filter(|job| job.pids().any(runs_in)).map(|job| job.id.as_str()).collect()
}

fn memory(model: &Model) -> Option<String> {
    let sample = model.host_sample.as_ref()?;
    let swap = match (sample.swap_total_bytes, sample.swap_free_bytes) {
        (Some(0), _) => ", no swap".to_owned(),
        (Some(total), Some(free)) => format!(", swap {} of {} GiB free", gib(free), gib(total)),
        _ => String::new(),
    };
    Some(format!("memory: {} of {} GiB available{swap}", gib(sample.mem_available_bytes?), gib(sample.mem_total_bytes?)))
}

fn cgroup(model: &Model, of: &CgroupMemory) -> Option<String> {
    let used = gib(of.used_bytes?);
    let jobs = jobs_of(model, of).join(", ");
    let whose = if jobs.is_empty() { String::new() } else { format!(" (job {jobs})") };
    let much = match (of.limit_bytes, of.cache_bytes) {
        (Some(limit), Some(cache)) => format!("{used} of {} GiB used, {} of them for cached files", gib(limit), gib(cache)),
        (Some(limit), None) => format!("{used} of {} GiB used", gib(limit)),
        (None, _) => format!("{used} GiB used, no limit"),
    };
    let above = of.limited_by.as_ref().filter(|above| **above != of.cgroup);
    let above = above.map_or(String::new(), |above| format!(" in {above}"));
    Some(format!("control group {}{whose}: {much}{above}", of.cgroup))
}

fn disk(disk: &DiskSample) -> String {
    let fs = disk.fs.as_deref().unwrap_or("disk");
    let read_only = if disk.read_only == Some(true) { ", read-only" } else { "" };
    let inodes = disk.inodes_free.filter(|free| *free < disk.inodes_total.unwrap_or(0) / 100);
    let inodes = inodes.map_or(String::new(), |free| format!(", room for {free} files"));
    format!("{} ({fs}): {} of {} GiB free{inodes}{read_only}", disk.mount, gib(disk.free_bytes), gib(disk.total_bytes))
}

fn temperature(t: &Temperature) -> String {
    let hottest = if t.sensors > 1 { format!(", the hottest of {}", t.sensors) } else { String::new() };
    let critical = t.critical_c.map_or(String::new(), |c| format!(", critical at {c:.0} °C"));
    format!("{}: {:.0} °C{hottest}{critical}", t.sensor, t.celsius)
}
