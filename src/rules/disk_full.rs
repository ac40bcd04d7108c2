//! A file system that a job needs is full, or will be soon.

use super::area::Area;
use super::chain::{Chain, Explains};
use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::{gib, minutes_up, scaled};
use crate::base::words::{rank_words, shell_word};
use crate::model::Model;
use crate::model::room::{Resource, left_of_disk};
use crate::observe::evidence::Evidence;
use crate::observe::host::DiskSample;
use crate::rules::findings::Finding;
use std::collections::BTreeSet;
use std::time::Duration;

/// Whoever finds no room to write to fails because of it.
const EXPLAINS: &[Explains] = &[Explains { rule: "storage-failed", of_its_ranks: false }];

pub const RULE: Rule = Rule {
    id: "disk-full",
    severity: Severity::Error,
    title: "A file system that a job needs is full, or will be within the hour",
    how: "statvfs of the file systems of the log, of directories that a rank writes much to, of /tmp and of /dev/shm, every 15 s: free bytes \
          and inodes, and how steadily they shrink. Read-only file systems do not count",
    advice: "Delete what is old, or point checkpoints and TMPDIR elsewhere, before the next checkpoint: one that is cut off cannot be read. \
             In a container, a larger --shm-size for /dev/shm",
    life: while_it_holds(0, 20),
    implies: Implies::Nothing,
    area: Some(Area::Storage),
    chain: Chain { explains: EXPLAINS, ..Chain::PLAIN },
    limits: &[&LEFT, &WITHIN, &WATCHED],
    on_tick: Some(check),
    ..Rule::PLAIN
};

const LEFT: Limit = Limit::percent("disk-full", "left", 1.0, "a file system with less than this part of its bytes or inodes left is full");
const WITHIN: Limit =
    Limit::seconds("disk-full", "within", 3600.0, "one that will be full in less than this, at the rate it fills, is a warning");
const WATCHED: Limit = Limit::seconds("disk-full", "watched", 600.0, "it must have filled steadily for this long");
/// One percent of a large file system is room enough for hours.
const LITTLE_BYTES: u64 = 1 << 30;
const FEW_INODES: u64 = 1000;
const LONGEST: Duration = Duration::from_secs(3600);

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let disks = ctx.model.disks.iter().filter(|disk| left_of_disk(disk).is_some());
    out.extend(disks.filter_map(|disk| full(ctx.model, disk).or_else(|| soon(ctx.model, disk))));
}

/// Who needs the file system.
struct Uses {
    /// `the log train.log`, `where rank 3 writes (/ckpt/run7)`, `/tmp`
    are: Vec<String>,
    jobs: BTreeSet<String>,
}

impl Uses {
    fn of(model: &Model, disk: &DiskSample) -> Uses {
        let (mut are, mut jobs) = (Vec::new(), BTreeSet::new());
        let here = |device: Option<u64>| device.is_some() && device == disk.device;
        for file in model.files.values().filter(|file| here(file.info.device) && !file.info.archived) {
            are.push(format!("the log {}", file.info.path));
            jobs.insert(file.job.clone());
        }
        for (id, job) in &model.jobs {
            for (rank, pid) in &job.ranks {
                let dirs = model.processes.get(pid).map_or(&[][..], |process| &process.info.writes);
                if let Some(dir) = dirs.iter().find(|dir| here(Some(dir.device)) && !disk.places.contains(&dir.path)) {
                    are.push(format!("where {} writes ({})", rank_words(&[*rank]), dir.path));
                    jobs.insert(id.clone());
                }
            }
        }
        are.extend(disk.places.iter().cloned());
        Uses { are, jobs }
    }
}

fn full(model: &Model, disk: &DiskSample) -> Option<Finding> {
    let part = LEFT.value() / 100.0;
    let is_out = |free: u64, total: u64, few: u64| (free as f64) < total as f64 * part && free < few;
    let bytes = format!("{} of {} GiB are free", gib(disk.free_bytes), gib(disk.total_bytes));
    let (what, proof) = if is_out(disk.free_bytes, disk.total_bytes, LITTLE_BYTES) {
        ("is full", bytes)
    } else {
        let (free, total) = disk.inodes_free.zip(disk.inodes_total)?;
        if !is_out(free, total, FEW_INODES) {
            return None;
        }
        ("has no inodes left", format!("{free} of {total} inodes are free, and {bytes}"))
    };
    let mut found = of_disk(model, disk, format!("the file system {} {what}: {proof}", disk.mount), proof)?;
    found.confidence = Confidence::Certain;
    Some(found)
}

fn soon(model: &Model, disk: &DiskSample) -> Option<Finding> {
    let room = model.room.get(&Resource::Disk(disk.mount.clone()))?;
    let rate = room.shrinks_by_bytes_per_s(model.now, WATCHED.duration(), LONGEST)?;
    let left_s = disk.free_bytes as f64 / rate;
    if left_s > WITHIN.value() {
        return None;
    }
    let when = minutes_up(left_s);
    let proof = format!("{} of {} GiB are free, shrinking by {}B/s", gib(disk.free_bytes), gib(disk.total_bytes), scaled(rate));
    let mut found = of_disk(model, disk, format!("the file system {} will be full within {when}", disk.mount), proof)?;
    found.severity = Severity::Warning;
    Some(found)
}

/// `None`: no job needs it.
fn of_disk(model: &Model, disk: &DiskSample, summary: String, proof: String) -> Option<Finding> {
    let uses = Uses::of(model, disk);
    if uses.are.is_empty() {
        return None;
    }
    let mut found = RULE.finding(disk.mount.clone(), summary, model.now);
    found.job = uses.jobs.first().filter(|_| uses.jobs.len() == 1).cloned();
    let more = uses.are.len().saturating_sub(3);
    let more = if more > 0 { format!(", and {more} more") } else { String::new() };
    found.why = format!("it holds {}{more}", uses.are.iter().take(3).cloned().collect::<Vec<_>>().join(", "));
    found.next = Some(format!("df -h {0}; df -i {0}", shell_word(&disk.mount)));
    found.evidence = vec![Evidence { path: Some(disk.mount.clone()), ..Evidence::of("counter", proof) }];
    Some(found)
}
