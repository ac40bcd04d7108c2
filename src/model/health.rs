//! What counters of a GPU's health have done while they were watched: what was there before says nothing of this run.

use super::gpu::Activity;
use crate::base::time::Stamp;
use crate::observe::gpu::GpuHealth;
use std::collections::VecDeque;
use std::time::Duration;

/// A count that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grown {
    /// What it was when it was first seen.
    pub first: u64,
    pub now: u64,
    /// When it was first seen to have grown.
    pub since: Option<Stamp>,
}

impl Grown {
    fn saw(slot: &mut Option<Grown>, at: Stamp, value: Option<u64>) {
        let Some(value) = value else { return };
        match slot {
            // It starts anew when the driver is loaded again.
            Some(grown) if value >= grown.now => {
                if value > grown.now {
                    grown.since.get_or_insert(at);
                }
                grown.now = value;
            }
            _ => *slot = Some(Grown { first: value, now: value, since: None }),
        }
    }
}

/// A state, since when it is so, and whether it was seen to become so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held<T> {
    pub value: T,
    pub since: Stamp,
    pub became: bool,
}

impl<T: PartialEq + Copy> Held<T> {
    fn saw(slot: &mut Option<Held<T>>, at: Stamp, value: Option<T>) {
        let Some(value) = value else { return };
        match slot {
            Some(held) if held.value == value => {}
            before => *before = Some(Held { value, since: at, became: before.is_some() }),
        }
    }
}

/// The last looks at an error counter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Looks(VecDeque<(Stamp, u64)>);

/// A counter that has grown at several looks in a row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rising {
    pub from: u64,
    pub to: u64,
    pub since: Stamp,
    pub per_min: f64,
}

impl Looks {
    const KEPT: usize = 8;
    /// It has grown at each of so many looks in a row.
    const ROSE: usize = 3;
    /// Fewer than these are within what healthy links count.
    const LEAST: u64 = 10;
    /// Looks are 45 s apart, with long intervals minutes.
    const STALE: Duration = Duration::from_secs(600);

    fn saw(&mut self, at: Stamp, value: Option<u64>) {
        let Some(value) = value else { return };
        if self.0.back().is_some_and(|(_, before)| value < *before) {
            self.0.clear();
        }
        if self.0.len() == Self::KEPT {
            self.0.pop_front();
        }
        self.0.push_back((at, value));
    }

    /// `None` unless it grows look after look, and not by a few.
    pub fn rising(&self, now: Stamp) -> Option<Rising> {
        let (last, to) = *self.0.back().filter(|(at, _)| now.since(*at) <= Self::STALE)?;
        let steps = self.0.iter().zip(self.0.iter().skip(1)).rev().take_while(|((_, before), (_, after))| after > before).count();
        let (since, from) = *self.0.get(self.0.len() - 1 - steps)?;
        let minutes = last.secs_since(since) / 60.0;
        (steps >= Self::ROSE && to - from >= Self::LEAST && minutes > 0.0).then(|| Rising {
            from,
            to,
            since,
            per_min: (to - from) as f64 / minutes,
        })
    }
}

/// When a counter rose, of one that should stand still: a rise a day is no rate, and yet says more than any other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rises(VecDeque<(Stamp, u64)>);

impl Rises {
    const KEPT: usize = 32;
    /// Rises closer together are one event: a link that is trained again counts several times.
    const APART: Duration = Duration::from_secs(20 * 60);
    const ROSE: usize = 3;
    /// What rose last so long ago has stopped.
    const STALE: Duration = Duration::from_secs(24 * 3600);

    fn saw(&mut self, at: Stamp, value: Option<u64>) {
        let Some(value) = value else { return };
        let known = self.0.len();
        match self.0.back_mut() {
            Some((_, before)) if value == *before => return,
            Some((_, before)) if value < *before => self.0.clear(),
            Some((then, before)) if known > 1 && at.since(*then) < Self::APART => {
                *before = value;
                return;
            }
            _ => {}
        }
        if self.0.len() == Self::KEPT {
            self.0.pop_front();
        }
        self.0.push_back((at, value));
    }

    /// How often it rose, and how: `None` unless it did so again and again, hours long.
    pub fn chronic(&self, now: Stamp) -> Option<(usize, Rising)> {
        let ((since, from), (last, to)) = (*self.0.front()?, *self.0.back()?);
        let rises = self.0.len() - 1;
        let minutes = (last.secs_since(since) / 60.0).max(1.0);
        let rising = Rising { from, to, since, per_min: (to - from) as f64 / minutes };
        (rises >= Self::ROSE && now.since(last) <= Self::STALE).then_some((rises, rising))
    }
}

/// One NVLink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkWatch {
    /// 0 off, 1 active, 2 sleep.
    pub state: Option<u32>,
    pub since: Stamp,
    pub was_up: bool,
}

impl LinkWatch {
    pub fn is_down(&self) -> bool {
        self.state == Some(0)
    }

    pub fn is_up(&self) -> bool {
        matches!(self.state, Some(1 | 2))
    }
}

/// The PCIe link of a GPU at work: at rest it is slowed down to save power.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcieAtWork {
    pub generation: u32,
    /// Since when it has been this one.
    pub since: Stamp,
}

/// All of it for one GPU.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HealthWatch {
    pub ecc_uncorrected: Option<Grown>,
    pub remap_pending: Option<Held<bool>>,
    pub remap_failed: Option<Held<bool>>,
    pub recovery_action: Option<Held<u32>>,
    pub fabric_state: Option<Held<u32>>,
    pub nvlink_crc_errors: Looks,
    pub nvlink_replays: Looks,
    pub nvlink_recoveries: Looks,
    pub nvlink_recovered: Rises,
    pub pcie_replays: Looks,
    pub links: Vec<LinkWatch>,
    pub pcie_at_work: Option<PcieAtWork>,
    pub pcie_width: Option<Held<u32>>,
}

impl HealthWatch {
    /// A GPU that has worked this long has its link at full speed.
    const AT_WORK: Duration = Duration::from_secs(3);

    pub fn saw(&mut self, at: Stamp, told: &GpuHealth, activity: Activity, activity_since: Stamp) {
        Grown::saw(&mut self.ecc_uncorrected, at, told.ecc_uncorrected_volatile);
        Held::saw(&mut self.remap_pending, at, told.remap_pending);
        Held::saw(&mut self.remap_failed, at, told.remap_failed);
        Held::saw(&mut self.recovery_action, at, told.recovery_action);
        Held::saw(&mut self.fabric_state, at, told.fabric_state);
        Held::saw(&mut self.pcie_width, at, told.pcie_width);
        self.nvlink_crc_errors.saw(at, told.nvlink_crc_errors);
        self.nvlink_replays.saw(at, told.nvlink_replays);
        self.nvlink_recoveries.saw(at, told.nvlink_recoveries);
        self.nvlink_recovered.saw(at, told.nvlink_recoveries);
        self.pcie_replays.saw(at, told.pcie_replays);
        if told.nvlink_states.len() != self.links.len() && !told.nvlink_states.is_empty() {
            self.links = told.nvlink_states.iter().map(|&state| LinkWatch { state, since: at, was_up: false }).collect();
        }
        for (link, state) in self.links.iter_mut().zip(&told.nvlink_states) {
            if link.state != *state && state.is_some() {
                (link.state, link.since) = (*state, at);
            }
            link.was_up |= link.is_up();
        }
        if let Some(generation) = told.pcie_gen.filter(|_| activity == Activity::Working && at.since(activity_since) >= Self::AT_WORK) {
            let same = self.pcie_at_work.filter(|p| p.generation == generation);
            self.pcie_at_work = Some(same.unwrap_or(PcieAtWork { generation, since: at }));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(s: i64) -> Stamp {
        Stamp(s * 1_000_000_000)
    }

    #[test]
    fn what_was_there_before_is_no_growth() {
        let mut slot = None;
        for (s, value) in [(0, 7), (15, 7), (30, 9), (45, 12)] {
            Grown::saw(&mut slot, at(s), Some(value));
        }
        assert_eq!(slot, Some(Grown { first: 7, now: 12, since: Some(at(30)) }));
        Grown::saw(&mut slot, at(60), Some(0));
        assert_eq!(slot, Some(Grown { first: 0, now: 0, since: None }), "the driver was reloaded");
    }

    #[test]
    fn a_counter_rises_when_it_grows_at_every_look_and_not_by_a_few() {
        let rising = |values: &[u64]| {
            let mut looks = Looks::default();
            values.iter().enumerate().for_each(|(i, v)| looks.saw(at(i as i64 * 45), Some(*v)));
            looks.rising(at((values.len() as i64 - 1) * 45))
        };
        assert_eq!(rising(&[4, 4, 5, 7]), None, "single digits are usual");
        assert_eq!(rising(&[4, 900]), None, "once is no trend");
        assert_eq!(rising(&[4, 900, 900, 900, 900]), None, "it is over");
        let found = rising(&[4, 4, 100, 200, 304]).expect("it rises");
        assert_eq!((found.from, found.to, found.since, found.per_min.round()), (4, 304, at(45), 133.0));
        assert_eq!(rising(&[900, 1000, 5, 10]), None, "it began anew");
        assert_eq!(rising(&[]), None);
    }

    #[test]
    fn a_pcie_generation_counts_at_work_only() {
        let mut watch = HealthWatch::default();
        let told = GpuHealth { pcie_gen: Some(1), ..Default::default() };
        watch.saw(at(9), &told, Activity::Idle, at(0));
        watch.saw(at(9), &told, Activity::Working, at(8));
        assert_eq!(watch.pcie_at_work, None);
        watch.saw(at(20), &told, Activity::Working, at(8));
        watch.saw(at(35), &told, Activity::Working, at(8));
        assert_eq!(watch.pcie_at_work, Some(PcieAtWork { generation: 1, since: at(20) }));
    }
}
