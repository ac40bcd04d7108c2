//! A GPU, and what it is doing: not its "utilisation", which reads 100 % for one that waits.

use super::deeds::{Deeds, Doing};
use super::health::HealthWatch;
use super::series::{Series, Trend, rate};
use crate::base::time::Stamp;
use crate::observe::gpu::{Gpm, GpuHealth, GpuInfo, GpuProcess, GpuSample, GpuTrouble, NvLink, NvLinks};
use std::collections::VecDeque;
use std::time::Duration;

/// What a GPU does, from GPM where there is one, else from memory utilisation, link bytes and power.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Activity {
    #[default]
    Unknown,
    /// No kernel is resident.
    Idle,
    /// A kernel is resident, but neither computes nor moves bytes: it spins in a collective.
    Waiting,
    Working,
    /// It does not answer, or fell off the bus.
    Lost,
}

impl Activity {
    pub fn as_str(self) -> Option<&'static str> {
        match self {
            Activity::Unknown => None,
            Activity::Idle => Some("idle"),
            Activity::Waiting => Some("waiting"),
            Activity::Working => Some("working"),
            Activity::Lost => Some("lost"),
        }
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Gpu {
    pub index: u32,
    pub info: GpuInfo,
    pub sample: GpuSample,
    pub sampled_at: Option<Stamp>,
    /// Time between the last two samples.
    every: Duration,
    /// The last GPM reading: it holds until the next, because it is read anew whenever utilisation or power change.
    gpm: Option<(Stamp, Gpm)>,
    pub health: Option<GpuHealth>,
    pub nvlinks: LinksSeen,
    /// What its counters have done while they were watched.
    pub watch: HealthWatch,
    pub processes: Vec<GpuProcess>,
    /// Lists of processes in a row that left much of its used memory unexplained.
    unexplained: u8,
    /// The job and its ranks that last worked here, several where they share it: they may have ended.
    pub had: Option<(String, Vec<u32>)>,
    pub activity: Activity,
    pub activity_since: Stamp,
    /// GPM, or differences of fields 138 and 139; bytes/s.
    pub nvlink_tx_bytes_per_s: Option<f64>,
    pub nvlink_rx_bytes_per_s: Option<f64>,
    /// Set while it does not answer, with the time since when.
    pub trouble: Option<(Stamp, GpuTrouble)>,
    /// Clock event reasons that hold a GPU back, since when.
    pub throttled: Option<(Stamp, u64)>,
    /// To judge by.
    pub util_pct: Series<600>,
    /// W, while its memory or its links worked for the processes that hold it.
    at_work: Series<60>,
    /// GiB in use, of all processes.
    pub mem_used_gib: Series<120>,
    /// MHz, to compare with that of other GPUs.
    pub sm_clock: Series<60>,
    /// How long each of [`THROTTLE_REASONS`] has held it back while it was watched.
    pub throttled_for: [Duration; THROTTLE_REASONS.len()],
    /// Clock event reasons of the last samples: under load they come and go.
    reasons: VecDeque<(Stamp, u64)>,
    /// Share of the time with a kernel on it, %: by GPM, each the mean since the reading before.
    pub kernel_pct: Series<256>,
    pub util_trend: Trend,
    /// To draw.
    pub deeds: Deeds,
    /// SMs active, %: only from GPM, at the moments when it was read; each reading stands for up to [`GPM_HOLDS`].
    pub sm_trend: Trend,
    /// W
    pub power_trend: Trend,
    /// Both directions, bytes/s; from GPM like [`Gpu::sm_trend`], else from field differences of every sample.
    pub nvlink_trend: Trend,
    /// What of it goes out.
    pub nvlink_tx_trend: Trend,
}

/// The NVLinks of a GPU, and what their counters were when they were first seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LinksSeen {
    pub now: NvLinks,
    first: Vec<NvLink>,
}

impl LinksSeen {
    pub(super) fn saw(&mut self, links: NvLinks) {
        let began_anew = |(now, first): (&NvLink, &NvLink)| LinksSeen::counts(now, first).any(|(_, grown, _)| grown.is_none());
        if self.first.len() != links.links.len() || links.links.iter().zip(&self.first).any(began_anew) {
            self.first.clone_from(&links.links);
        }
        self.now = links;
    }

    pub fn is_known(&self) -> bool {
        !self.now.links.is_empty()
    }

    /// Of each counter that both have its name, by how much it grew (`None`: it is smaller than it was), and what it is.
    fn counts<'a>(now: &'a NvLink, first: &'a NvLink) -> impl Iterator<Item = (&'static str, Option<u64>, u64)> + 'a {
        let all = [
            ("replays", now.replays, first.replays),
            ("recoveries", now.recoveries, first.recoveries),
            ("CRC errors", now.crc_errors, first.crc_errors),
            ("receive errors", now.receive_errors, first.receive_errors),
            ("effective errors", now.effective_errors, first.effective_errors),
        ];
        all.into_iter().filter_map(|(name, now, first)| Some((name, now?.checked_sub(first?), now?)))
    }

    /// Counters that grew while they were watched: link, name, by how much, what they are now.
    pub fn grown(&self) -> impl Iterator<Item = (usize, &'static str, u64, u64)> + '_ {
        let links = self.now.links.iter().zip(&self.first).enumerate();
        links
            .flat_map(|(no, (now, first))| LinksSeen::counts(now, first).filter_map(move |(name, by, is)| Some((no, name, by?, is))))
            .filter(|(_, _, by, _)| *by > 0)
    }

    /// What all links reach together each way; `None` unless each says so.
    pub fn line_rate_bytes_per_s(&self) -> Option<f64> {
        let sum: Option<u64> = self.now.links.iter().map(|link| link.speed_mbytes_per_s).sum();
        sum.filter(|sum| *sum > 0).map(|sum| sum as f64 * 1e6)
    }
}

/// Longer than the pause between two readings while nothing changes, or no kernel runs.
pub const GPM_HOLDS: Duration = Duration::from_secs(40);

const MAX_REASONS: usize = 60;

/// Links that carry less are not in use.
const LINK_BYTES_PER_S: f64 = 50e6;

/// Reasons that mean hardware or heat, not the power budget: HW slowdown, SW thermal, HW thermal, HW power brake.
pub const THROTTLE_BITS: u64 = 0x8 | 0x20 | 0x40 | 0x80;

/// These one by one, each with a name for labels.
pub const THROTTLE_REASONS: [(u64, &str); 4] = [(0x8, "hw_slowdown"), (0x20, "sw_thermal"), (0x40, "hw_thermal"), (0x80, "hw_power_brake")];

/// Clock event reason bits in words (NVML nvmlClocksEventReasons).
pub fn throttle_words(bits: u64) -> Vec<&'static str> {
    [
        (0x8, "HW slowdown"),
        (0x40, "HW thermal slowdown"),
        (0x80, "HW power brake"),
        (0x20, "SW thermal slowdown"),
        (0x4, "power cap"),
        (0x10, "sync boost"),
        (0x2, "application clocks"),
    ]
    .into_iter()
    .filter(|(bit, _)| bits & bit != 0)
    .map(|(_, word)| word)
    .collect()
}

impl Gpu {
    pub fn new(index: u32) -> Self {
        Gpu { index, info: GpuInfo { index, ..Default::default() }, every: Duration::from_secs(1), ..Gpu::default() }
    }

    pub fn apply(&mut self, at: Stamp, sample: &GpuSample) {
        let fields = |before: Option<u64>, now: Option<u64>| {
            let then = self.sampled_at?;
            rate((then, before?), (at, now?)).map(|kib| kib * 1024.0)
        };
        if let Some(gpm) = sample.gpm {
            self.gpm = Some((at, gpm));
        }
        self.gpm = self.gpm.filter(|(read, _)| at.since(*read) <= GPM_HOLDS && sample.trouble.is_none());
        let gpm = self.gpm().unwrap_or_default();
        let tx = gpm.nvlink_tx_bytes_per_s.or_else(|| fields(self.sample.nvlink_tx_kib, sample.nvlink_tx_kib));
        let rx = gpm.nvlink_rx_bytes_per_s.or_else(|| fields(self.sample.nvlink_rx_kib, sample.nvlink_rx_kib));
        (self.nvlink_tx_bytes_per_s, self.nvlink_rx_bytes_per_s) = (tx, rx);
        self.trouble = sample.trouble.clone().map(|t| (self.trouble.as_ref().map_or(at, |(since, _)| *since), t));
        let bits = sample.throttle_bits.unwrap_or(0) & THROTTLE_BITS;
        self.throttled = (bits != 0).then(|| (self.throttled.map_or(at, |(since, _)| since), bits));
        if let Some(clock) = sample.sm_clock_mhz {
            self.sm_clock.push(at, f64::from(clock));
        }
        if let Some(bits) = sample.throttle_bits {
            if self.reasons.len() == MAX_REASONS {
                self.reasons.pop_front();
            }
            self.reasons.push_back((at, bits));
        }
        let util = sample.util_pct.map(f64::from).filter(|_| !self.belies_utilisation(sample));
        if let Some(util) = util {
            self.util_pct.push(at, util);
        }
        if let Some(pct) = sample.gpm.and_then(|gpm| gpm.graphics_active_pct) {
            self.kernel_pct.push(at, f64::from(pct));
        }
        // A reading that only holds is not sampled anew.
        let link_is_read = sample.gpm.is_some() || gpm.nvlink_tx_bytes_per_s.is_none();
        for (trend, value) in [
            (&mut self.util_trend, util),
            (&mut self.sm_trend, sample.gpm.and_then(|g| g.sm_active_pct).map(f64::from)),
            (&mut self.power_trend, sample.power_mw.map(|mw| mw as f64 / 1e3)),
            (&mut self.nvlink_trend, tx.zip(rx).filter(|_| link_is_read).map(|(tx, rx)| tx + rx)),
            (&mut self.nvlink_tx_trend, tx.zip(rx).filter(|_| link_is_read).map(|(tx, _)| tx)),
        ] {
            if let Some(value) = value {
                trend.push(at, value);
            }
        }
        if let Some(bytes) = sample.mem_used_bytes {
            self.mem_used_gib.push(at, bytes as f64 / f64::from(1 << 30));
        }
        self.every = self.sampled_at.map_or(self.every, |before| at.since(before));
        let passed = self.every.min(self.holds());
        for ((bit, _), held) in THROTTLE_REASONS.iter().zip(&mut self.throttled_for) {
            if bits & bit != 0 {
                *held = held.saturating_add(passed);
            }
        }
        self.sample = sample.clone();
        self.sample.util_pct = util.map(|pct| pct as u32);
        self.sampled_at = Some(at);
        let activity = self.classify();
        if let Some(mw) = sample.power_mw.filter(|_| self.moves_bytes()) {
            self.at_work.push(at, mw as f64 / 1e3);
        }
        if activity != self.activity {
            (self.activity, self.activity_since) = (activity, at);
        }
        self.deeds.push(at, self.doing());
    }

    /// A driver may go on to give 0 % for a GPU whose memory is in use and which draws as much as one at work (H200, driver 580).
    fn belies_utilisation(&self, sample: &GpuSample) -> bool {
        const MEM_PCT: u32 = 10;
        let limit = self.info.power_limit_mw.filter(|limit| *limit > 0);
        let draws = limit.zip(sample.power_mw).is_some_and(|(limit, power)| power * 2 >= limit);
        let kernels = sample.gpm.and_then(|gpm| gpm.graphics_active_pct).is_some_and(|pct| pct >= 50.0);
        sample.util_pct == Some(0) && sample.mem_util_pct.is_some_and(|pct| pct >= MEM_PCT) && (draws || kernels)
    }

    /// [`Gpu::activity`] as a second of it is drawn: work that is communication alone is told apart.
    pub fn doing(&self) -> Option<Doing> {
        /// More is read and written by kernels that compute.
        const COMPUTES_DRAM_PCT: f32 = 10.0;
        let computes =
            |gpm: &Gpm| gpm.tensor_active_pct.is_none_or(|t| t >= 1.0) || gpm.dram_active_pct.is_none_or(|d| d >= COMPUTES_DRAM_PCT);
        let only_moves = || self.link_bytes_per_s() >= LINK_BYTES_PER_S && self.gpm().is_some_and(|gpm| !computes(&gpm));
        Some(match self.activity {
            Activity::Unknown => return None,
            Activity::Idle => Doing::Idle,
            Activity::Waiting => Doing::Waiting,
            Activity::Working if only_moves() => Doing::Communicating,
            Activity::Working => Doing::Working,
            Activity::Lost => Doing::Lost,
        })
    }

    /// Thresholds from measurements on H200: waiting shows tensor, DRAM and link at 0 whatever the number of channels; the slowest
    /// real work seen is over 1 % tensor or DRAM activity.
    ///
    /// PCIe alone is no sign of work: streams that wait for each other's events (FSDP) poll host memory with up to 6.6 GB/s, and DRAM
    /// stays at the 0.0003 to 0.0006 % of an idle GPU, in pipelines (two communicators on one GPU) at up to 0.01 %. A copy reads or writes
    /// DRAM, too: 0.03 % at 1.5 GB/s.
    fn classify(&self) -> Activity {
        const PCIE_BYTES_PER_S: f64 = 200e6;
        const COPY_DRAM_PCT: f32 = 0.002;
        const COPY_BESIDE_KERNEL_DRAM_PCT: f32 = 0.015;
        let s = &self.sample;
        if s.trouble.is_some() {
            return Activity::Lost;
        }
        let link = self.link_bytes_per_s();
        let Some(util) = s.util_pct.or_else(|| self.gpm().and_then(|g| g.graphics_active_pct).map(|p| p as u32)) else {
            return if self.moves_bytes() { Activity::Working } else { Activity::Unknown };
        };
        if let Some(gpm) = self.gpm().filter(|g| g.sm_active_pct.is_some() && g.dram_active_pct.is_some()) {
            let dram = gpm.dram_active_pct.unwrap_or(0.0);
            let tensor = gpm.tensor_active_pct.unwrap_or(0.0);
            let sm = gpm.sm_active_pct.unwrap_or(0.0);
            let pcie = gpm.pcie_tx_bytes_per_s.unwrap_or(0.0) + gpm.pcie_rx_bytes_per_s.unwrap_or(0.0);
            let spins = util >= 50 || sm >= 0.3;
            let copies = pcie >= PCIE_BYTES_PER_S && dram >= if spins { COPY_BESIDE_KERNEL_DRAM_PCT } else { COPY_DRAM_PCT };
            return if dram >= 1.0 || tensor >= 1.0 || sm >= 50.0 || link >= LINK_BYTES_PER_S || copies {
                Activity::Working
            } else if spins {
                Activity::Waiting
            } else {
                Activity::Idle
            };
        }
        let share = match (s.power_mw, self.info.power_limit_mw) {
            (Some(power), Some(limit)) if limit > 0 => Some(power as f64 / limit as f64),
            _ => None,
        };
        if self.moves_bytes() || util < 90 && share.is_some_and(|p| p >= 0.5) {
            return Activity::Working;
        }
        // Without GPM a waiting kernel and a memory-light one look alike but for power.
        match self.draws_as_at_work() {
            _ if util < 10 => Activity::Idle,
            _ if util < 90 => Activity::Working,
            Some(true) => Activity::Working,
            Some(false) => Activity::Waiting,
            None if share.is_some_and(|p| p >= 0.5) => Activity::Working,
            None if s.mem_util_pct.is_none() && s.power_mw.is_none() => Activity::Unknown,
            None => Activity::Waiting,
        }
    }

    fn link_bytes_per_s(&self) -> f64 {
        self.nvlink_tx_bytes_per_s.unwrap_or(0.0) + self.nvlink_rx_bytes_per_s.unwrap_or(0.0)
    }

    /// Its memory or its links are in use, whatever GPM would tell.
    fn moves_bytes(&self) -> bool {
        self.sample.mem_util_pct.is_some_and(|m| m >= 2) || self.link_bytes_per_s() >= LINK_BYTES_PER_S
    }

    /// W, what it usually draws while it works for the processes that hold it. `None` until that is known.
    pub fn at_work_w(&self) -> Option<f64> {
        const LEAST: usize = 10;
        self.at_work.median_of_last(60).filter(|_| self.at_work.len() >= LEAST)
    }

    /// Whether it draws what it draws while it works, or far less. A kernel that only waits draws 0.2 to 0.35 of it (H200), and its clocks are
    /// not held down by power. `None` in between, and where it is not known.
    pub fn draws_as_at_work(&self) -> Option<bool> {
        const AS_MUCH: f64 = 0.85;
        const FAR_LESS: f64 = 0.6;
        let share = self.sample.power_mw? as f64 / 1e3 / self.at_work_w()?;
        (share >= AS_MUCH || share <= FAR_LESS).then_some(share >= AS_MUCH)
    }

    /// Those that hold it now. What it drew for others says nothing about them.
    pub(super) fn held_by(&mut self, processes: Vec<GpuProcess>) {
        // With what drivers before 510 count as used for themselves, up to 1 GiB. Without any process it is what one left behind.
        const MUCH: u64 = 3 << 29;
        let held: Option<u64> = processes.iter().map(|p| p.mem_bytes).sum();
        let rest = held.filter(|held| *held > 0).zip(self.sample.mem_used_bytes).map(|(held, used)| used.saturating_sub(held));
        self.unexplained = if rest.is_some_and(|rest| rest >= MUCH) { self.unexplained.saturating_add(1) } else { 0 };
        if !processes.is_empty() && !processes.iter().any(|p| self.processes.iter().any(|old| old.pid == p.pid)) {
            self.at_work = Series::default();
        }
        self.processes = processes;
    }

    /// A process holds memory of it that the driver does not name here: one of another container, which has pids of its own.
    pub fn has_unseen_process(&self) -> bool {
        // What a process takes while it is asked for is in one of both answers alone.
        const LISTS: u8 = 3;
        self.unexplained >= LISTS
    }

    /// Counters that were not asked this time keep their last value.
    pub fn apply_health(&mut self, at: Stamp, told: &GpuHealth) {
        self.watch.saw(at, told, self.activity, self.activity_since);
        let before = self.health.take().unwrap_or_default();
        self.health = Some(GpuHealth {
            remapped_correctable: told.remapped_correctable.or(before.remapped_correctable),
            remapped_uncorrectable: told.remapped_uncorrectable.or(before.remapped_uncorrectable),
            remap_pending: told.remap_pending.or(before.remap_pending),
            remap_failed: told.remap_failed.or(before.remap_failed),
            pcie_gen_max: told.pcie_gen_max.or(before.pcie_gen_max),
            pcie_width_max: told.pcie_width_max.or(before.pcie_width_max),
            pcie_replays: told.pcie_replays.or(before.pcie_replays),
            nvlink_replays: told.nvlink_replays.or(before.nvlink_replays),
            nvlink_recoveries: told.nvlink_recoveries.or(before.nvlink_recoveries),
            nvlink_crc_errors: told.nvlink_crc_errors.or(before.nvlink_crc_errors),
            fabric_state: told.fabric_state.or(before.fabric_state),
            fabric_health: told.fabric_health.or(before.fabric_health),
            fabric: told.fabric.clone().or(before.fabric),
            ..told.clone()
        });
    }

    /// All clock event reasons seen within a time.
    pub fn reasons_within(&self, now: Stamp, window: Duration) -> u64 {
        self.reasons.iter().filter(|(at, _)| now.since(*at) <= window).fold(0, |all, (_, bits)| all | bits)
    }

    /// Activity by GPM, as last read.
    pub fn gpm(&self) -> Option<Gpm> {
        self.gpm.map(|(_, gpm)| gpm)
    }

    /// Activity by GPM, if it was read then or later.
    pub fn gpm_since(&self, then: Stamp) -> Option<Gpm> {
        self.gpm.filter(|(read, _)| *read >= then).map(|(_, gpm)| gpm)
    }

    /// How long a sample stands while no other comes.
    pub fn holds(&self) -> Duration {
        (self.every * 5 / 2).clamp(Duration::from_secs(3), Duration::from_secs(150))
    }

    /// What went over its links, bytes/s: out, and in, each as `columns` has it.
    pub fn nvlink_ways(&self, columns: impl Fn(&Trend) -> Vec<Option<f32>>) -> (Vec<Option<f32>>, Vec<Option<f32>>) {
        let out = columns(&self.nvlink_tx_trend);
        let both = columns(&self.nvlink_trend);
        let into = both.into_iter().zip(&out).map(|(both, out)| Some((both? - (*out)?).max(0.0))).collect();
        (out, into)
    }

    /// The last sample is about now, not about some time ago.
    pub fn is_fresh(&self, now: Stamp) -> bool {
        self.sampled_at.is_some_and(|at| now.since(at) <= self.holds())
    }

    /// Bytes a second by which its used memory grows in each of the last `parts` stretches of this length, oldest first.
    pub fn mem_growth_by_part(&self, now: Stamp, part: Duration, parts: u32) -> Option<Vec<f64>> {
        let growth = self.mem_used_gib.growth_by_part(now, part, parts)?;
        Some(growth.into_iter().map(|gib| gib * f64::from(1 << 30)).collect())
    }

    /// Whether its used memory has fallen by so much within what is kept: who gives back what it took takes it again.
    pub fn has_given_back(&self, bytes: f64) -> bool {
        let mut most = f64::NEG_INFINITY;
        self.mem_used_gib.iter().any(|(_, used)| {
            most = most.max(used);
            (most - used) * f64::from(1 << 30) >= bytes
        })
    }

    pub fn mem_total_bytes(&self) -> Option<u64> {
        self.sample.mem_total_bytes.or(self.info.mem_total_bytes)
    }

    /// Links in state "active"; `None` where NVLink states are not known.
    pub fn nvlinks_up(&self) -> Option<u32> {
        let states = &self.health.as_ref()?.nvlink_states;
        (!states.is_empty()).then(|| states.iter().filter(|s| **s == Some(1)).count() as u32)
    }
}

/// Domain, bus and device of a PCI address, however it is written: `0000:3b:00.0`, `00000000:3B:00.0`, `PCI:0000:3b:00`, `3b:00.0`. One
/// board has one device, so that its functions do not matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PciAddress {
    pub domain: u32,
    pub bus: u8,
    pub device: u8,
}

impl PciAddress {
    pub fn parse(text: &str) -> Option<PciAddress> {
        let text = text.trim();
        let text = text.strip_prefix("PCI:").unwrap_or(text).split([' ', ',']).next()?;
        let mut parts = text.rsplit(':');
        let (device, bus) = (parts.next()?, parts.next()?);
        let domain = parts.next().unwrap_or("0");
        let device = device.split('.').next()?;
        if parts.next().is_some() || domain.len() > 8 || device.len() != 2 || bus.len() != 2 {
            return None;
        }
        let hex = |text: &str| u32::from_str_radix(text, 16).ok().filter(|_| text.bytes().all(|b| b.is_ascii_hexdigit()));
        Some(PciAddress { domain: hex(domain)?, bus: hex(bus)? as u8, device: hex(device)? as u8 })
    }
}

impl Gpu {
    pub fn is_at(&self, address: PciAddress) -> bool {
        self.info.bus_id.as_deref().and_then(PciAddress::parse) == Some(address)
    }
}
