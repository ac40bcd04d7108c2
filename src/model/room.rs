//! What is left of something that can run out: space of a file system, memory of the machine or of a control group.

use super::series::Series;
use crate::base::time::Stamp;
use crate::observe::host::{CgroupMemory, DiskSample, HostSample};
use std::time::Duration;

/// What can run out.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Resource {
    /// Bytes of the file system at this mount point.
    Disk(String),
    /// Bytes of memory and swap of the machine.
    Memory,
    /// Bytes that the limit leaves to the control group of this name.
    Cgroup(String),
    /// Memory of the GPU of this NVML index.
    GpuMemory(u32),
    /// What the rank with this pid holds of the machine's memory.
    Process(u32),
}

/// How much of it was left, an hour back at most.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Room(Series<SAMPLES>);

/// Samples of one resource: those of an hour, at one in 15 s.
const SAMPLES: usize = 240;
const EVERY: Duration = Duration::from_secs(15);
/// Each part of what is known must have less than the part before it.
const PARTS: usize = 4;

impl Room {
    pub fn push(&mut self, at: Stamp, left_bytes: u64) {
        self.0.push(at, left_bytes as f64);
    }

    /// What is held of it, where that is known and not what is left: it shrinks as that grows. Samples of every second are thinned.
    pub fn hold(&mut self, at: Stamp, held_bytes: u64) {
        if self.0.iter().next_back().is_none_or(|(last, _)| at.since(last) >= EVERY) {
            self.0.push(at, -(held_bytes as f64));
        }
    }

    /// Bytes a second that it lost from the first to the last sample of `window`; below zero where it grew.
    pub fn lost_bytes_per_s(&self, now: Stamp, window: Duration) -> Option<f64> {
        let from = now.minus(window);
        let mut inside = self.0.iter().filter(|(at, _)| *at >= from && *at <= now);
        let (first, last) = (inside.next()?, inside.next_back()?);
        Some((first.1 - last.1) / last.0.secs_since(first.0).max(1.0))
    }

    /// Bytes a second by which it shrinks at `now`, in the longest time up to `most` that is known, at least `least`. `None` where it
    /// does not shrink all the time: who deletes what is old, or wrote one large file, does not fill a disk.
    pub fn shrinks_by_bytes_per_s(&self, now: Stamp, least: Duration, most: Duration) -> Option<f64> {
        let known = now.since(self.0.iter().next()?.0).min(most);
        if known < least {
            return None;
        }
        let part = known / PARTS as u32;
        let lowest = |no: usize| {
            let (from, to) = (now.minus(part * (PARTS - no) as u32), now.minus(part * (PARTS - 1 - no) as u32));
            self.0.iter().filter(|(at, _)| *at >= from && *at <= to).map(|(_, left)| left).min_by(f64::total_cmp)
        };
        let lowest: Vec<f64> = (0..PARTS).map(lowest).collect::<Option<_>>()?;
        let mean = (lowest[0] - lowest[PARTS - 1]) / (PARTS - 1) as f64;
        // A part in which hardly anything was added is a pause.
        let steady = lowest.windows(2).all(|two| two[0] - two[1] > mean / 4.0);
        (steady && mean > 0.0).then(|| mean / part.as_secs_f64())
    }
}

/// Bytes of memory and swap that the machine can still give. `None`: not known.
pub fn left_of_host(sample: &HostSample) -> Option<u64> {
    Some(sample.mem_available_bytes?.saturating_add(sample.swap_free_bytes.unwrap_or(0)))
}

/// Bytes that the limit of a control group leaves, with what the kernel can take back from the cache of files, and with its swap. `None`:
/// there is no limit, or what is used is not known.
pub fn left_of_cgroup(memory: &CgroupMemory) -> Option<u64> {
    let used = memory.used_bytes?.saturating_sub(memory.cache_bytes?);
    let swap = memory.swap_limit_bytes.zip(memory.swap_used_bytes).map_or(0, |(limit, used)| limit.saturating_sub(used));
    Some(memory.limit_bytes?.saturating_sub(used).saturating_add(swap))
}

/// Free bytes of a file system that can be written to.
pub fn left_of_disk(disk: &DiskSample) -> Option<u64> {
    (disk.read_only != Some(true) && disk.total_bytes > 0).then_some(disk.free_bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn rate(left_gib: impl Fn(u64) -> u64, minutes: u64) -> Option<f64> {
        let mut room = Room::default();
        let at = |s: u64| Stamp((s * 1_000_000_000) as i64);
        (0..=minutes * 4).for_each(|n| room.push(at(n * 15), left_gib(n * 15) * GIB));
        let rate = room.shrinks_by_bytes_per_s(at(minutes * 60), Duration::from_secs(600), Duration::from_secs(3600));
        rate.map(|rate| (rate * 60.0 / GIB as f64).round())
    }

    #[test]
    fn only_what_shrinks_all_the_time_shrinks() {
        assert_eq!(rate(|s| 1000 - s / 6, 20), Some(10.0), "10 GiB a minute");
        assert_eq!(rate(|s| 1000 - s / 6, 9), None, "too short to tell");
        assert_eq!(rate(|_| 5, 30), None);
        assert_eq!(rate(|s| if s > 900 { 700 } else { 1000 }, 20), None, "one checkpoint");
        assert_eq!(rate(|s| 1000 - s % 600 / 6, 40), None, "what is old is deleted");
        assert_eq!(rate(|s| 1000 - s / 600 * 100, 40), Some(10.0), "a checkpoint every ten minutes");
        assert_eq!(rate(|s| 500 + s / 6, 30), None);
    }

    #[test]
    fn what_the_kernel_can_take_back_is_left() {
        let memory = CgroupMemory {
            limit_bytes: Some(64 * GIB),
            used_bytes: Some(63 * GIB),
            cache_bytes: Some(40 * GIB),
            ..CgroupMemory::default()
        };
        assert_eq!(left_of_cgroup(&memory), Some(41 * GIB));
        assert_eq!(left_of_cgroup(&CgroupMemory { limit_bytes: None, ..memory.clone() }), None);
        assert_eq!(left_of_cgroup(&CgroupMemory { swap_limit_bytes: Some(8 * GIB), swap_used_bytes: Some(GIB), ..memory }), Some(48 * GIB));
    }
}
