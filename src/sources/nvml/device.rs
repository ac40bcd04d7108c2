//! One GPU through NVML: which calls make up a lane, and what their answers mean. Keeps no time and starts no thread.

mod links;

use super::pci;
use super::raw::{self, ALL_LINKS, Field};
use super::topology::Links;
use super::watched::{Doing, Gpu};
use super::{Answer, Ask};
use crate::observe::gpu::{Gpm, GpuHealth, GpuInfo, GpuPair, GpuProcess, GpuProcesses, GpuSample, GpuTrouble, GpuTroubleKind};
use crate::sources::{Roots, SourceError};
use nvml_wrapper::enum_wrappers::device::{Clock, TemperatureSensor, TemperatureThreshold};
use nvml_wrapper::enums::device::UsedGpuMemory;
use nvml_wrapper::error::NvmlError;
use nvml_wrapper::gpm::GpmSample;
use nvml_wrapper::{Device, Nvml};
use std::time::Duration;

/// Loads and starts NVML, and makes a [`Gpu`] of each device. About 0.1 s for 8 GPUs with persistence mode, seconds without.
pub(super) fn open(roots: &Roots, interval: Duration) -> Result<Vec<Box<dyn Gpu>>, SourceError> {
    let nvml = Nvml::init().map_err(|err| cannot_open(&err))?;
    let count = nvml.device_count().map_err(|err| cannot_open(&err))?;
    if count == 0 {
        let text = "NVML shows no GPU here: none is given to this container or machine";
        return Err(SourceError::Absent(text.into()));
    }
    // Never shut down: a thread that a sick GPU holds in a call may outlive everything else.
    let nvml: &'static Nvml = Box::leak(Box::new(nvml));
    Ok((0..count).map(|index| Box::new(NvmlGpu::new(nvml, index, roots.clone(), interval)) as Box<dyn Gpu>).collect())
}

/// What a user is to know of an NVML that cannot be opened.
pub fn cannot_open(err: &NvmlError) -> SourceError {
    match err {
        NvmlError::LibloadingError(_) | NvmlError::LibraryNotFound => {
            SourceError::Absent("libnvidia-ml.so.1 not found: no NVIDIA driver; GPU panes are off, logs and network still work".into())
        }
        NvmlError::DriverNotLoaded => SourceError::Absent(
            "libnvidia-ml.so.1 is there, but the NVIDIA kernel module is not loaded; GPU panes are off, logs and network still work".into(),
        ),
        NvmlError::NoPermission | NvmlError::OperatingSystem => {
            SourceError::Denied(format!("nvmlInit_v2: {err}; are /dev/nvidiactl and /dev/nvidia* given to this container?"))
        }
        NvmlError::LibRmVersionMismatch => SourceError::Failed(
            "nvmlInit_v2: driver/library version mismatch: the driver was upgraded while its kernel module stayed; reload the module or reboot"
                .into(),
        ),
        NvmlError::GpuLost => SourceError::Failed("nvmlInit_v2: a GPU has fallen off the bus; the machine must be restarted".into()),
        err => SourceError::Failed(format!("nvmlInit_v2: {err}")),
    }
}

/// An NVML function: a bit for the set of those not worth asking again, and its name.
#[derive(Clone, Copy)]
struct Call(u32, &'static str);

const HANDLE: Call = Call(0, "nvmlDeviceGetHandleByIndex_v2");
const UTILIZATION: Call = Call(1, "nvmlDeviceGetUtilizationRates");
const MEMORY: Call = Call(2, "nvmlDeviceGetMemoryInfo_v2");
const MEMORY_V1: Call = Call(3, "nvmlDeviceGetMemoryInfo");
const POWER: Call = Call(4, "nvmlDeviceGetPowerUsage");
const SM_CLOCK: Call = Call(5, "nvmlDeviceGetClockInfo(SM)");
const MEM_CLOCK: Call = Call(6, "nvmlDeviceGetClockInfo(MEM)");
const TEMPERATURE: Call = Call(7, "nvmlDeviceGetTemperature");
const REASONS: Call = Call(8, "nvmlDeviceGetCurrentClocksEventReasons");
const GPM_SUPPORT: Call = Call(9, "nvmlGpmQueryDeviceSupport");
const GPM_SAMPLE: Call = Call(10, "nvmlGpmSampleGet");
const GPM_METRICS: Call = Call(11, "nvmlGpmMetricsGet");
const NVLINK_BYTES: Call = Call(12, "nvmlDeviceGetFieldValues(138, 139)");
const PROCESSES: Call = Call(13, "nvmlDeviceGetComputeRunningProcesses_v3");
const ECC: Call = Call(14, "nvmlDeviceGetFieldValues(3, 4, 6)");
const REMAPPED: Call = Call(15, "nvmlDeviceGetFieldValues(142-145)");
const RECOVERY: Call = Call(16, "nvmlDeviceGetFieldValues(230)");
const LINK_ERRORS: Call = Call(19, "nvmlDeviceGetFieldValues(161-163)");
const PCIE_GEN: Call = Call(20, "nvmlDeviceGetCurrPcieLinkGeneration");
const PCIE_GEN_MAX: Call = Call(21, "nvmlDeviceGetMaxPcieLinkGeneration");
const PCIE_WIDTH: Call = Call(22, "nvmlDeviceGetCurrPcieLinkWidth");
const PCIE_WIDTH_MAX: Call = Call(23, "nvmlDeviceGetMaxPcieLinkWidth");
const PCIE_REPLAYS: Call = Call(24, "nvmlDeviceGetPcieReplayCounter");
const POWER_LIMIT: Call = Call(25, "nvmlDeviceGetEnforcedPowerLimit");
const FABRIC: Call = Call(26, "nvmlDeviceGetGpuFabricInfoV");
const LINK_REMOTE: Call = Call(27, "nvmlDeviceGetNvLinkRemotePciInfo_v2");
const LINK_REMOTE_TYPE: Call = Call(28, "nvmlDeviceGetNvLinkRemoteDeviceType");
const ANCESTOR: Call = Call(29, "nvmlDeviceGetTopologyCommonAncestor");
const P2P: Call = Call(30, "nvmlDeviceGetP2PStatus");
/// The calls that are made once, for [`GpuInfo`].
const IDENTITY: Call = Call(31, "nvmlDeviceGetUUID and the like");

const FIELD_ECC_SBE_VOLATILE: u32 = 3;
const FIELD_ECC_DBE_VOLATILE: u32 = 4;
const FIELD_ECC_DBE_AGGREGATE: u32 = 6;
const FIELD_DATA_TX: u32 = 138;
const FIELD_DATA_RX: u32 = 139;
const FIELD_REMAPPED: [u32; 4] = [142, 143, 144, 145];
const FIELD_RECOVERY_ACTION: u32 = 230;

/// More than any GPU has (36 in the newest header): a bound on what a confused driver can make us allocate.
const MAX_LINKS: u64 = 64;

/// No GPU is split into more than seven.
const MAX_MIG_INSTANCES: u32 = 64;

const GPM_METRICS_ASKED: [u32; 9] = [1, 2, 3, 5, 10, 20, 21, 60, 61];

/// NVML_GPM_METRIC_NVLINK_L0_TX_PER_SEC; RX is the number before it, the next link two numbers on, up to link 17.
const GPM_LINK_0_TX: u32 = 63;
const GPM_LINKS: u32 = 18;

/// Those of the GPU, and those of its first so many NVLinks: how many are asked does not change what it costs.
fn gpm_metrics_asked(links: u32) -> Vec<u32> {
    let of_links = (0..links.min(GPM_LINKS)).flat_map(|link| [GPM_LINK_0_TX + 2 * link, GPM_LINK_0_TX + 2 * link - 1]);
    GPM_METRICS_ASKED.into_iter().chain(of_links).collect()
}

/// Bytes/s out and in of each link; empty unless all are known.
pub fn link_rates(values: &[f64]) -> Vec<(f64, f64)> {
    let known = values.iter().all(|value| value.is_finite() && *value >= 0.0);
    let (pairs, _) = values.as_chunks::<2>();
    pairs.iter().filter(|_| known).map(|[tx, rx]| (tx * NVLINK_UNIT, rx * NVLINK_UNIT)).collect()
}

/// GPM calls both MiB/s. That is so for PCIe; for NVLink the value times 1,024,000 is what fields 138 and 139 count (measured on H200).
const PCIE_UNIT: f64 = 1_048_576.0;
const NVLINK_UNIT: f64 = 1_024_000.0;

struct NvmlGpu {
    nvml: &'static Nvml,
    index: u32,
    roots: Roots,
    /// `None` until NVML hands it out: a lost GPU has no handle.
    device: Option<Device<'static>>,
    /// Calls that this GPU does not support: a bit per [`Call`].
    unsupported: u64,
    gpm: GpmState,
    pace: GpmPace,
    links: links::Kept,
    /// Bytes/s out and in of each NVLink, as GPM gave them last.
    link_rates: Vec<(f64, f64)>,
    /// The worst error since the current question.
    fault: Option<GpuTrouble>,
    /// Calls that gave something since the current question.
    answered: u32,
}

enum GpmState {
    Unknown,
    Absent,
    Denied,
    /// The last sample, and the one to fill next.
    Running(Box<[GpmSample<'static>; 2]>),
}

/// When to compute GPM metrics. nvmlGpmMetricsGet takes 1.6 ms a GPU however few are asked (H200, driver 580): each second on eight
/// GPUs that alone is more than the whole program may cost. So: seldom while utilisation and power stay as they are, and at once and
/// for a few seconds when they change, which is when it matters.
pub struct GpmPace {
    /// Polls between two readings while nothing changes.
    seldom: u32,
    since: u32,
    /// Readings at every poll that are still to come.
    hot: u32,
    /// Utilisation, memory at work or not, power, at the last reading.
    last: Option<(u32, bool, u64)>,
}

impl GpmPace {
    const SELDOM: Duration = Duration::from_secs(8);
    /// With no kernel resident all of GPM is 0, until utilisation says otherwise.
    const WHILE_IDLE: u32 = 4;
    /// The first reading after a change still holds time from before it.
    const HOT: u32 = 3;

    /// Of the GPU with this index, for polls at this interval.
    pub fn new(index: u32, interval: Duration) -> Self {
        let seldom = Self::SELDOM.as_millis().div_ceil(interval.as_millis().max(1)) as u32;
        // GPUs take turns, so that no poll is much longer than another.
        GpmPace { seldom, since: index % seldom.max(1), hot: Self::HOT, last: None }
    }

    /// Whether to read them after this sample.
    pub fn is_due(&mut self, sample: &GpuSample) -> bool {
        let now = (sample.util_pct.unwrap_or(0), sample.mem_util_pct.unwrap_or(0) > 0, sample.power_mw.unwrap_or(0));
        let changed = self.last.is_none_or(|(util, memory, power)| {
            now.0.abs_diff(util) >= 15 || now.1 != memory || now.2.abs_diff(power) > (power / 7).max(15_000)
        });
        if changed {
            self.hot = Self::HOT;
        }
        self.since += 1;
        let seldom = if now.0 == 0 { self.seldom * Self::WHILE_IDLE } else { self.seldom };
        let due = self.hot > 0 || self.since >= seldom;
        if due {
            self.last = Some(now);
            self.since = 0;
            self.hot = self.hot.saturating_sub(1);
        }
        due
    }
}

/// Places that hold no instance are errors.
fn mig_instances(device: &Device<'static>) -> Result<u32, NvmlError> {
    let places = device.mig_device_count()?.min(MAX_MIG_INSTANCES);
    Ok((0..places).filter(|place| device.mig_device_by_index(*place).is_ok()).count() as u32)
}

impl Gpu for NvmlGpu {
    fn answer(&mut self, ask: &Ask, doing: &Doing) -> Answer {
        let mut answer = Answer::default();
        // The samples come first, so that they are taken at an even pace whatever else is asked.
        if ask.sample {
            answer.sample = Some(self.sample(doing));
        }
        if ask.info {
            answer.info = self.info(doing);
        }
        if ask.processes {
            answer.processes = self.processes(doing);
        }
        if ask.health {
            answer.health = self.health(doing, ask.trends);
        }
        if ask.links {
            answer.links = self.identify_links(doing);
        }
        answer.nvlinks = self.links.news();
        answer.pairs = ask.pairs.iter().map(|&other| self.pair(other, doing)).collect();
        answer.gpm_denied = matches!(self.gpm, GpmState::Denied);
        answer
    }
}

impl NvmlGpu {
    fn new(nvml: &'static Nvml, index: u32, roots: Roots, interval: Duration) -> Self {
        let pace = GpmPace::new(index, interval);
        NvmlGpu {
            nvml,
            index,
            roots,
            device: None,
            unsupported: 0,
            gpm: GpmState::Unknown,
            pace,
            links: links::Kept::default(),
            link_rates: Vec::new(),
            fault: None,
            answered: 0,
        }
    }

    /// Makes one call, unless it is known to lead nowhere.
    fn ask<T>(&mut self, doing: &Doing, call: Call, read: impl FnOnce(&Device<'static>) -> Result<T, NvmlError>) -> Option<T> {
        if self.unsupported & (1 << call.0) != 0 || self.is_gone() {
            return None;
        }
        if self.device.is_none() {
            doing.set(HANDLE.1);
            match self.nvml.device_by_index(self.index) {
                Ok(device) => self.device = Some(device),
                Err(err) => {
                    self.note(HANDLE, &err);
                    return None;
                }
            }
        }
        let device = self.device.as_ref()?;
        doing.set(call.1);
        match read(device) {
            Ok(value) => {
                self.answered += 1;
                Some(value)
            }
            Err(err) => {
                self.note(call, &err);
                None
            }
        }
    }

    fn note(&mut self, call: Call, err: &NvmlError) {
        let kind = match err {
            NvmlError::NotSupported | NvmlError::FailedToLoadSymbol(_) | NvmlError::FunctionNotFound => {
                self.unsupported |= 1 << call.0;
                return;
            }
            NvmlError::GpuLost => GpuTroubleKind::Lost,
            NvmlError::ResetRequired => GpuTroubleKind::ResetRequired,
            _ => GpuTroubleKind::Failed,
        };
        let worse = kind != GpuTroubleKind::Failed || self.fault.is_none();
        if worse {
            self.fault = Some(GpuTrouble { kind, detail: format!("{}: {err}", call.1) });
        }
    }

    fn is_unsupported(&self, call: Call) -> bool {
        self.unsupported & (1 << call.0) != 0
    }

    /// Every further call would fail the same way.
    fn is_gone(&self) -> bool {
        self.fault.as_ref().is_some_and(|fault| fault.kind != GpuTroubleKind::Failed)
    }

    fn begin(&mut self) {
        self.fault = None;
        self.answered = 0;
    }

    fn fields<const N: usize>(&mut self, doing: &Doing, call: Call, asked: [Field; N]) -> [Option<u64>; N] {
        let got = self.ask(doing, call, |device| raw::fields(device, &asked)).unwrap_or_default();
        if self.none_supported(&got) {
            self.unsupported |= 1 << call.0;
        }
        let mut got = got.into_iter();
        std::array::from_fn(|_| got.next().and_then(Result::ok))
    }

    fn none_supported(&self, got: &[Result<u64, NvmlError>]) -> bool {
        // InvalidArg: an id that this driver does not know.
        !got.is_empty() && got.iter().all(|value| matches!(value, Err(NvmlError::NotSupported | NvmlError::InvalidArg)))
    }

    fn sample(&mut self, doing: &Doing) -> GpuSample {
        self.begin();
        let mut sample = GpuSample { index: self.index, ..GpuSample::default() };
        if let Some(util) = self.ask(doing, UTILIZATION, Device::utilization_rates) {
            sample.util_pct = Some(util.gpu);
            sample.mem_util_pct = Some(util.memory);
        }
        if let Some((used, total)) = self.memory(doing) {
            sample.mem_used_bytes = Some(used);
            sample.mem_total_bytes = Some(total);
        }
        sample.power_mw = self.ask(doing, POWER, Device::power_usage).map(u64::from);
        sample.sm_clock_mhz = self.ask(doing, SM_CLOCK, |d| d.clock_info(Clock::SM));
        sample.mem_clock_mhz = self.ask(doing, MEM_CLOCK, |d| d.clock_info(Clock::Memory));
        sample.temp_c = self.ask(doing, TEMPERATURE, |d| d.temperature(TemperatureSensor::Gpu));
        sample.throttle_bits = self.ask(doing, REASONS, raw::clock_reasons);
        if self.pace.is_due(&sample) {
            sample.gpm = self.gpm(doing);
        }
        if !matches!(self.gpm, GpmState::Running(_)) {
            let kib = self.fields(doing, NVLINK_BYTES, [(FIELD_DATA_TX, ALL_LINKS), (FIELD_DATA_RX, ALL_LINKS)]);
            [sample.nvlink_tx_kib, sample.nvlink_rx_kib] = kib;
        }
        if self.is_gone() || self.answered == 0 {
            return GpuSample { index: self.index, trouble: self.fault.clone(), ..GpuSample::default() };
        }
        sample
    }

    /// Bytes used and in all. The second version leaves the driver's own share out of what is used, as nvidia-smi does.
    fn memory(&mut self, doing: &Doing) -> Option<(u64, u64)> {
        let new = self.ask(doing, MEMORY, |d| d.memory_info().map(|m| (m.used, m.total)));
        match new {
            None if self.unsupported & (1 << MEMORY.0) != 0 => self.ask(doing, MEMORY_V1, raw::memory_v1),
            new => new,
        }
    }

    fn gpm(&mut self, doing: &Doing) -> Option<Gpm> {
        let mut gpm = None;
        self.gpm = match std::mem::replace(&mut self.gpm, GpmState::Unknown) {
            GpmState::Unknown => self.gpm_start(doing),
            GpmState::Running(mut samples) => {
                let refilled = self.ask(doing, GPM_SAMPLE, |d| unless_denied(raw::gpm_refill(d, &mut samples[1])));
                match refilled {
                    Some(Ok(())) => {
                        let nvml = self.nvml;
                        let asked = gpm_metrics_asked(self.links.count());
                        let read = |_: &Device<'static>| unless_denied(raw::gpm_metrics(nvml, &samples[0], &samples[1], &asked));
                        let values = self.ask(doing, GPM_METRICS, read);
                        samples.swap(0, 1);
                        match values {
                            Some(Ok(values)) => {
                                let (of_gpu, of_links) = values.split_at(GPM_METRICS_ASKED.len());
                                gpm = of_gpu.try_into().ok().and_then(gpm_of);
                                self.link_rates = link_rates(of_links);
                                GpmState::Running(samples)
                            }
                            Some(Err(Denied)) => GpmState::Denied,
                            None if self.unsupported & (1 << GPM_METRICS.0) != 0 => GpmState::Absent,
                            None => GpmState::Running(samples),
                        }
                    }
                    Some(Err(Denied)) => GpmState::Denied,
                    None if self.unsupported & (1 << GPM_SAMPLE.0) != 0 => GpmState::Absent,
                    // It may be filled in part: the next one starts anew, from the older sample.
                    None => GpmState::Running(samples),
                }
            }
            settled @ (GpmState::Absent | GpmState::Denied) => settled,
        };
        gpm
    }

    fn gpm_start(&mut self, doing: &Doing) -> GpmState {
        match self.ask(doing, GPM_SUPPORT, |d| unless_denied(d.gpm_support())) {
            Some(Ok(true)) => {}
            Some(Err(Denied)) => return GpmState::Denied,
            None if self.unsupported & (1 << GPM_SUPPORT.0) == 0 => return GpmState::Unknown,
            Some(Ok(false)) | None => return GpmState::Absent,
        }
        let both = self.ask(doing, GPM_SAMPLE, |d| unless_denied(d.gpm_sample().and_then(|last| Ok([last, d.gpm_sample()?]))));
        match both {
            Some(Ok(both)) => GpmState::Running(Box::new(both)),
            Some(Err(Denied)) => GpmState::Denied,
            None if self.is_gone() => GpmState::Unknown,
            None => GpmState::Absent,
        }
    }

    fn info(&mut self, doing: &Doing) -> Option<GpuInfo> {
        self.begin();
        let bus_id = self.once(doing, IDENTITY, |d| Ok(d.pci_info()?.bus_id)).map(|id| pci::bus_id(&id));
        self.device.as_ref()?;
        let mig = self.once(doing, IDENTITY, Device::mig_mode).map(|mode| mode.current == 1);
        let mig_instances = mig.filter(|on| *on).and_then(|_| self.once(doing, IDENTITY, mig_instances));
        let persistence = self.once(doing, IDENTITY, Device::is_in_persistent_mode);
        let cores = self.once(doing, IDENTITY, Device::num_cores);
        let capability = self.once(doing, IDENTITY, Device::cuda_compute_capability);
        let mut info = GpuInfo {
            index: self.index,
            uuid: self.once(doing, IDENTITY, Device::uuid),
            name: self.once(doing, IDENTITY, Device::name),
            minor: self.once(doing, IDENTITY, Device::minor_number),
            bus_id,
            driver: self.nvml.sys_driver_version().ok(),
            cuda_driver: self.nvml.sys_cuda_driver_version().ok().and_then(|v| u32::try_from(v).ok()),
            power_limit_mw: self.ask(doing, POWER_LIMIT, Device::enforced_power_limit).map(u64::from),
            power_limit_default_mw: self.once(doing, IDENTITY, Device::power_management_limit_default).map(u64::from),
            sm_clock_max_mhz: self.once(doing, IDENTITY, |d| d.max_clock_info(Clock::SM)),
            mem_total_bytes: self.memory(doing).map(|(_, total)| total),
            slowdown_c: self.once(doing, IDENTITY, |d| d.temperature_threshold(TemperatureThreshold::Slowdown)),
            sm_count: cores.zip(capability).and_then(|(cores, cc)| sm_count(cores, cc.major, cc.minor)),
            gpm: match self.gpm {
                GpmState::Unknown => None,
                GpmState::Running(_) => Some(true),
                GpmState::Absent | GpmState::Denied => Some(false),
            },
            mig,
            mig_instances,
            persistence,
            ..GpuInfo::default()
        };
        pci::place(&self.roots, &mut info);
        // A GPU that was lost half-way is asked again when it is back.
        (!self.is_gone()).then_some(info)
    }

    /// Like [`Self::ask`] for what is asked once per GPU or link: that it is not supported need not be kept.
    fn once<T>(&mut self, doing: &Doing, call: Call, read: impl FnOnce(&Device<'static>) -> Result<T, NvmlError>) -> Option<T> {
        let value = self.ask(doing, call, read);
        self.unsupported &= !(1 << call.0);
        value
    }

    fn processes(&mut self, doing: &Doing) -> Option<GpuProcesses> {
        self.begin();
        let list = |d: &Device<'static>| match d.running_compute_processes() {
            // More of them than a moment before, by more than the slack.
            Err(NvmlError::InsufficientSize(_)) => d.running_compute_processes(),
            other => other,
        };
        let found = self.ask(doing, PROCESSES, list)?;
        let processes = found
            .into_iter()
            .map(|p| GpuProcess {
                pid: p.pid,
                mem_bytes: match p.used_gpu_memory {
                    UsedGpuMemory::Used(bytes) => Some(bytes),
                    UsedGpuMemory::Unavailable => None,
                },
            })
            .collect();
        Some(GpuProcesses { index: self.index, processes })
    }

    fn health(&mut self, doing: &Doing, trends: bool) -> Option<GpuHealth> {
        self.begin();
        let ecc = [FIELD_ECC_DBE_VOLATILE, FIELD_ECC_SBE_VOLATILE, FIELD_ECC_DBE_AGGREGATE].map(|id| (id, 0));
        let [ecc_uncorrected_volatile, ecc_corrected_volatile, ecc_uncorrected_aggregate] = self.fields(doing, ECC, ecc);
        let remapped = if trends { self.fields(doing, REMAPPED, FIELD_REMAPPED.map(|id| (id, 0))) } else { [None; 4] };
        let [remapped_correctable, remapped_uncorrectable, pending, failed] = remapped;
        let [recovery] = self.fields(doing, RECOVERY, [(FIELD_RECOVERY_ACTION, 0)]);
        let nvlink_states = self.link_states(doing);
        let [nvlink_replays, nvlink_recoveries, nvlink_crc_errors] = if trends { self.link_errors(doing) } else { [None; 3] };
        let (nvlink_tx_mbytes_per_s, nvlink_rx_mbytes_per_s) =
            self.link_rates.iter().map(|(tx, rx)| ((tx / 1e6).round() as u32, (rx / 1e6).round() as u32)).unzip();
        let fabric = self.trend(trends, doing, FABRIC, raw::fabric);
        let health = GpuHealth {
            index: self.index,
            ecc_uncorrected_volatile,
            ecc_corrected_volatile,
            ecc_uncorrected_aggregate,
            remapped_correctable,
            remapped_uncorrectable,
            remap_pending: pending.map(|n| n != 0),
            remap_failed: failed.map(|n| n != 0),
            recovery_action: recovery.and_then(|n| u32::try_from(n).ok()),
            pcie_gen: self.ask(doing, PCIE_GEN, Device::current_pcie_link_gen),
            pcie_gen_max: self.trend(trends, doing, PCIE_GEN_MAX, Device::max_pcie_link_gen),
            pcie_width: self.ask(doing, PCIE_WIDTH, Device::current_pcie_link_width),
            pcie_width_max: self.trend(trends, doing, PCIE_WIDTH_MAX, Device::max_pcie_link_width),
            pcie_replays: self.trend(trends, doing, PCIE_REPLAYS, Device::pcie_replay_counter).map(u64::from),
            nvlink_states,
            nvlink_replays,
            nvlink_recoveries,
            nvlink_crc_errors,
            nvlink_tx_mbytes_per_s,
            nvlink_rx_mbytes_per_s,
            power_limit_mw: self.ask(doing, POWER_LIMIT, Device::enforced_power_limit).map(u64::from),
            fabric_state: fabric.as_ref().map(|f| f.0),
            fabric_health: fabric.as_ref().map(|f| f.1),
            fabric: fabric.map(|f| f.2),
        };
        // The fast lane says what is wrong with a GPU that answers nothing.
        (!self.is_gone() && self.answered > 0).then_some(health)
    }

    /// Like [`Self::ask`], when it is the turn of the counters that only matter as a trend.
    fn trend<T>(
        &mut self,
        turn: bool,
        doing: &Doing,
        call: Call,
        read: impl FnOnce(&Device<'static>) -> Result<T, NvmlError>,
    ) -> Option<T> {
        if turn { self.ask(doing, call, read) } else { None }
    }

    fn pair(&mut self, other: u32, doing: &Doing) -> GpuPair {
        self.begin();
        let nvml = self.nvml;
        let mut pair = GpuPair { a: self.index, b: other, ..GpuPair::default() };
        if let Some(peer) = self.once(doing, HANDLE, |_| nvml.device_by_index(other)) {
            pair.pcie_level = self.ask(doing, ANCESTOR, |d| raw::common_ancestor(d, &peer));
            pair.p2p_read = self.ask(doing, P2P, |d| raw::p2p_read(d, &peer));
        }
        pair
    }
}

/// NVML_ERROR_NO_PERMISSION: the administrator has closed the profiling counters.
struct Denied;

/// Takes denial out of the errors: it is an answer, and it stays.
fn unless_denied<T>(got: Result<T, NvmlError>) -> Result<Result<T, Denied>, NvmlError> {
    match got {
        Ok(value) => Ok(Ok(value)),
        Err(NvmlError::NoPermission) => Ok(Err(Denied)),
        Err(err) => Err(err),
    }
}

/// Metrics in the order of [`GPM_METRICS_ASKED`]. `None` if there is not one value among them.
pub fn gpm_of(values: [f64; 9]) -> Option<Gpm> {
    let known = |value: f64| (value.is_finite() && value >= 0.0).then_some(value);
    let pct = |value| known(value).map(|v| v as f32);
    let [graphics, sm, occupancy, tensor, dram, pcie_tx, pcie_rx, nvlink_rx, nvlink_tx] = values;
    let gpm = Gpm {
        graphics_active_pct: pct(graphics),
        sm_active_pct: pct(sm),
        sm_occupancy_pct: pct(occupancy),
        tensor_active_pct: pct(tensor),
        dram_active_pct: pct(dram),
        pcie_tx_bytes_per_s: known(pcie_tx).map(|v| v * PCIE_UNIT),
        pcie_rx_bytes_per_s: known(pcie_rx).map(|v| v * PCIE_UNIT),
        nvlink_tx_bytes_per_s: known(nvlink_tx).map(|v| v * NVLINK_UNIT),
        nvlink_rx_bytes_per_s: known(nvlink_rx).map(|v| v * NVLINK_UNIT),
    };
    (gpm != Gpm::default()).then_some(gpm)
}

/// NVML counts CUDA cores; how many make an SM depends on the architecture. `None` for one that is not known yet.
pub fn sm_count(cores: u32, major: i32, minor: i32) -> Option<u32> {
    let per_sm = match (major, minor) {
        (6, 0) | (7, _) | (8, 0) => 64,
        (6, _) | (8..=12, _) => 128,
        _ => return None,
    };
    (cores > 0 && cores.is_multiple_of(per_sm)).then(|| cores / per_sm)
}
