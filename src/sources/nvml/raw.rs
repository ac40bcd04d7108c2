//! The NVML calls that nvml-wrapper lacks or gets wrong. Unsafe code; decides nothing.
#![allow(unsafe_code)]

use crate::observe::gpu::{Fabric, GpuEvent};
use nvml_wrapper::error::{NvmlError, nvml_sym, nvml_try};
use nvml_wrapper::gpm::GpmSample;
use nvml_wrapper::{Device, Nvml};
use nvml_wrapper_sys::bindings as sys;
use std::mem;

/// A field id and its scope: 0, a link, or [`ALL_LINKS`].
pub(super) type Field = (u32, u32);

/// The scope that sums a field over all NVLinks.
pub(super) const ALL_LINKS: u32 = u32::MAX;

/// Not an NVML code: what an entry holds until NVML has written to it. NVML leaves entries untouched now and then and returns success.
const UNTOUCHED: u32 = 999;

/// Entries of nobody in front of those that are asked for, and behind them, where a sum over all links is asked for.
///
/// Asked for one, NVML (driver 580.159, H100 and H200) writes now and then beyond the entries that it was given, and the heap is damaged: without room
/// 4 of 8 processes that asked some 5,000 times each were ended by glibc's checks, with it none of 9. Which side it writes to, and how far, was not
/// seen: a number so large that it is not reached is a guess.
const SPARE: usize = 64;

/// nvmlDeviceGetFieldValues, because the wrapper cannot set the scope. One result per field, in order. Keep a batch of one kind:
/// in mixed ones NVML has been seen to skip entries.
pub(super) fn fields(device: &Device<'static>, asked: &[Field]) -> Result<Vec<Result<u64, NvmlError>>, NvmlError> {
    let call = *nvml_sym(device.nvml().lib().nvmlDeviceGetFieldValues.as_ref())?;
    let entry = |&(field, scope): &Field| sys::nvmlFieldValue_t {
        fieldId: field,
        scopeId: scope,
        timestamp: 0,
        latencyUsec: 0,
        valueType: 0,
        nvmlReturn: UNTOUCHED,
        value: sys::nvmlValue_t { ullVal: 0 },
    };
    let room = if asked.iter().any(|(_, scope)| *scope == ALL_LINKS) { SPARE } else { 0 };
    let spare = vec![(0, 0); room];
    let mut values: Vec<sys::nvmlFieldValue_t> = spare.iter().chain(asked).chain(&spare).map(entry).collect();
    let count = i32::try_from(asked.len()).map_err(|_| NvmlError::InvalidArg)?;
    // SAFETY: the handle comes from a live `Device`, whose `Nvml` is never shut down; `values` holds `count` initialised entries from index `room`
    // on, and outlives the call. A write beyond them, which NVML must not do and does, lands in the spare entries: the pointer is that of the whole.
    nvml_try(unsafe { call(device.handle(), count, values.as_mut_ptr().add(room)) })?;
    let (front, rest) = values.split_at(room);
    let (its, behind) = rest.split_at(asked.len());
    // Where it wrote to others, it may have done so among those that were asked for, too.
    let is_stray =
        |entry: &sys::nvmlFieldValue_t| (entry.fieldId, entry.scopeId, entry.timestamp, entry.nvmlReturn) != (0, 0, 0, UNTOUCHED);
    if front.iter().chain(behind).any(is_stray) {
        return Err(NvmlError::NoData);
    }
    Ok(its.iter().map(field_value).collect())
}

fn field_value(entry: &sys::nvmlFieldValue_t) -> Result<u64, NvmlError> {
    if entry.nvmlReturn == UNTOUCHED || (entry.nvmlReturn == 0 && entry.timestamp == 0) {
        return Err(NvmlError::NoData);
    }
    nvml_try(entry.nvmlReturn)?;
    let value = entry.value;
    // SAFETY: all eight bytes were initialised in `fields`, every bit pattern is valid for each of these types, and NVML names in
    // `valueType` the one that it wrote.
    let number = unsafe {
        match entry.valueType {
            0 if value.dVal.is_finite() && value.dVal >= 0.0 => Some(value.dVal as u64),
            1 => Some(u64::from(value.uiVal)),
            2 => Some(value.ulVal),
            3 => Some(value.ullVal),
            4 => u64::try_from(value.sllVal).ok(),
            5 => u64::try_from(value.siVal).ok(),
            6 => Some(u64::from(value.usVal)),
            _ => None,
        }
    };
    number.ok_or(NvmlError::UnexpectedVariant(entry.valueType))
}

/// nvmlDeviceGetCurrentClocksEventReasons, by its older name where the driver has no other. The wrapper drops bits it does not know.
pub(super) fn clock_reasons(device: &Device<'static>) -> Result<u64, NvmlError> {
    let lib = device.nvml().lib();
    let mut bits = 0u64;
    let call = match lib.nvmlDeviceGetCurrentClocksEventReasons.as_ref() {
        Ok(call) => *call,
        Err(_) => *nvml_sym(lib.nvmlDeviceGetCurrentClocksThrottleReasons.as_ref())?,
    };
    // SAFETY: a live handle, and a pointer to an initialised integer that outlives the call. Both names have this signature.
    nvml_try(unsafe { call(device.handle(), &mut bits) })?;
    Ok(bits)
}

/// nvmlDeviceGetMemoryInfo, for drivers older than `_v2`: used and total bytes, the driver's own share counted as used.
pub(super) fn memory_v1(device: &Device<'static>) -> Result<(u64, u64), NvmlError> {
    let call = *nvml_sym(device.nvml().lib().nvmlDeviceGetMemoryInfo.as_ref())?;
    // SAFETY: a struct of integers, for which zero is a value.
    let mut memory: sys::nvmlMemory_t = unsafe { mem::zeroed() };
    // SAFETY: a live handle, and a pointer to an initialised struct that outlives the call.
    nvml_try(unsafe { call(device.handle(), &mut memory) })?;
    Ok((memory.used, memory.total))
}

/// nvmlDeviceGetGpuFabricInfoV: the state, the health mask, and the rest. Version 3 first; drivers that do not know it answer 25 and take version 2.
pub(super) fn fabric(device: &Device<'static>) -> Result<(u32, u32, Fabric), NvmlError> {
    const VERSION_MISMATCH: u32 = 25;
    let call = *nvml_sym(device.nvml().lib().nvmlDeviceGetGpuFabricInfoV.as_ref())?;
    // SAFETY: a struct of integers, for which zero is a value.
    let mut fabric: sys::nvmlGpuFabricInfoV_t = unsafe { mem::zeroed() };
    fabric.version = mem::size_of::<sys::nvmlGpuFabricInfo_v3_t>() as u32 | (3 << 24);
    // SAFETY: a live handle, and a pointer to a version 3 struct that says so.
    let mut code = unsafe { call(device.handle(), &mut fabric) };
    if code == VERSION_MISMATCH {
        fabric.version = mem::size_of::<sys::nvmlGpuFabricInfo_v2_t>() as u32 | (2 << 24);
        // SAFETY: version 2 is a prefix of version 3: NVML writes less than there is room for.
        code = unsafe { call(device.handle(), &mut fabric) };
    }
    nvml_try(code)?;
    let is_v3 = fabric.version >> 24 == 3;
    let rest = Fabric {
        cluster: cluster(fabric.clusterUuid),
        clique: fabric.cliqueId,
        status: fabric.status,
        summary: is_v3.then_some(u32::from(fabric.healthSummary)),
    };
    Ok((u32::from(fabric.state), fabric.healthMask, rest))
}

/// All zero where the fabric ends at this host.
fn cluster(uuid: [u8; 16]) -> Option<String> {
    (uuid != [0; 16]).then(|| format!("{:032x}", u128::from_be_bytes(uuid)))
}

/// nvmlDeviceGetNvLinkRemoteDeviceType, because the wrapper writes the answer into a temporary: 0 GPU, 1 NPU, 2 switch, 255 unknown.
pub(super) fn link_remote_type(device: &Device<'static>, link: u32) -> Result<u32, NvmlError> {
    let call = *nvml_sym(device.nvml().lib().nvmlDeviceGetNvLinkRemoteDeviceType.as_ref())?;
    let mut kind = 255;
    // SAFETY: a live handle, and a pointer to an initialised integer that outlives the call.
    nvml_try(unsafe { call(device.handle(), link, &mut kind) })?;
    Ok(kind)
}

/// nvmlDeviceGetP2PStatus READ as NVML's number, so that one the wrapper does not know is not lost.
pub(super) fn p2p_read(a: &Device<'static>, b: &Device<'static>) -> Result<u32, NvmlError> {
    const READ: u32 = 0;
    let call = *nvml_sym(a.nvml().lib().nvmlDeviceGetP2PStatus.as_ref())?;
    let mut status = 0;
    // SAFETY: two live handles, and a pointer to an initialised integer that outlives the call.
    nvml_try(unsafe { call(a.handle(), b.handle(), READ, &mut status) })?;
    Ok(status)
}

/// nvmlDeviceGetTopologyCommonAncestor as NVML's number.
pub(super) fn common_ancestor(a: &Device<'static>, b: &Device<'static>) -> Result<u32, NvmlError> {
    let call = *nvml_sym(a.nvml().lib().nvmlDeviceGetTopologyCommonAncestor.as_ref())?;
    let mut level = 0;
    // SAFETY: two live handles, and a pointer to an initialised integer that outlives the call.
    nvml_try(unsafe { call(a.handle(), b.handle(), &mut level) })?;
    Ok(level)
}

/// nvmlGpmSampleGet into a sample that exists: the wrapper allocates a new one each time.
pub(super) fn gpm_refill(device: &Device<'static>, sample: &mut GpmSample<'static>) -> Result<(), NvmlError> {
    let call = *nvml_sym(device.nvml().lib().nvmlGpmSampleGet.as_ref())?;
    // SAFETY: a live handle; the sample was allocated by the same library and `&mut` means that nobody else uses it meanwhile.
    nvml_try(unsafe { call(device.handle(), sample.handle()) })
}

/// nvmlGpmMetricsGet for up to [`GPM_MAX`] metrics, one value for each: NaN where a metric has none.
pub(super) fn gpm_metrics(
    nvml: &'static Nvml,
    from: &GpmSample<'static>,
    to: &GpmSample<'static>,
    ids: &[u32],
) -> Result<Vec<f64>, NvmlError> {
    let ids = &ids[..ids.len().min(GPM_MAX)];
    let call = *nvml_sym(nvml.lib().nvmlGpmMetricsGet.as_ref())?;
    // SAFETY: integers, floats and pointers that NVML only writes: zero is a value for each.
    let mut request: sys::nvmlGpmMetricsGet_t = unsafe { mem::zeroed() };
    request.version = sys::NVML_GPM_METRICS_GET_VERSION;
    request.numMetrics = ids.len() as u32;
    for (metric, id) in request.metrics.iter_mut().zip(ids) {
        metric.metricId = *id;
        metric.nvmlReturn = UNTOUCHED;
    }
    // SAFETY: both samples are alive and were filled; NVML only reads them, and this thread alone has them.
    unsafe {
        request.sample1 = from.handle();
        request.sample2 = to.handle();
    }
    // SAFETY: `request` is initialised, says its version, and holds room for `numMetrics` metrics.
    nvml_try(unsafe { call(&mut request) })?;
    let value = |metric: &sys::nvmlGpmMetric_t| if metric.nvmlReturn == 0 { metric.value } else { f64::NAN };
    Ok(request.metrics[..ids.len()].iter().map(value).collect())
}

const GPM_MAX: usize = 210;

/// nvmlEventSet_t, with the events of some GPUs. The wrapper's own drops the kinds of event that it does not know.
pub(super) struct EventSet {
    nvml: &'static Nvml,
    set: sys::nvmlEventSet_t,
    /// Handles, as numbers to compare with, and indexes of the GPUs in it.
    gpus: Vec<(usize, u32)>,
}

impl EventSet {
    pub fn new(nvml: &'static Nvml) -> Result<EventSet, NvmlError> {
        let call = *nvml_sym(nvml.lib().nvmlEventSetCreate.as_ref())?;
        let mut set: sys::nvmlEventSet_t = std::ptr::null_mut();
        // SAFETY: a pointer to an initialised pointer that outlives the call.
        nvml_try(unsafe { call(&mut set) })?;
        Ok(EventSet { nvml, set, gpus: Vec::new() })
    }

    /// Adds a GPU, with as many of the wanted kinds as it supports.
    pub fn register(&mut self, index: u32, device: &Device<'static>, wanted: u64) -> Result<(), NvmlError> {
        let lib = self.nvml.lib();
        let (supported, register) =
            (*nvml_sym(lib.nvmlDeviceGetSupportedEventTypes.as_ref())?, *nvml_sym(lib.nvmlDeviceRegisterEvents.as_ref())?);
        let mut kinds = 0;
        // SAFETY: a live handle, and a pointer to an initialised integer that outlives the call.
        nvml_try(unsafe { supported(device.handle(), &mut kinds) })?;
        if kinds & wanted == 0 {
            return Err(NvmlError::NotSupported);
        }
        // SAFETY: a live handle and a live set.
        nvml_try(unsafe { register(device.handle(), kinds & wanted, self.set) })?;
        // SAFETY: the handle is only compared.
        self.gpus.push((unsafe { device.handle() } as usize, index));
        Ok(())
    }

    /// nvmlEventSetWait_v2: `None` when none came in time.
    pub fn wait(&mut self, millis: u32) -> Result<Option<GpuEvent>, NvmlError> {
        /// What NVML says instead of an instance for a GPU that is not partitioned.
        const WHOLE: u32 = u32::MAX;
        let call = *nvml_sym(self.nvml.lib().nvmlEventSetWait_v2.as_ref())?;
        // SAFETY: integers and a pointer, for which zero is a value.
        let mut data: sys::nvmlEventData_t = unsafe { mem::zeroed() };
        // SAFETY: a live set, and a pointer to an initialised struct that outlives the call.
        match nvml_try(unsafe { call(self.set, &mut data, millis) }) {
            Err(NvmlError::Timeout) => Ok(None),
            Err(err) => Err(err),
            Ok(()) => Ok(Some(GpuEvent {
                index: self.gpus.iter().find(|(handle, _)| *handle == data.device as usize).map(|(_, index)| *index),
                event_bits: data.eventType,
                data: data.eventData,
                mig_instance: (data.gpuInstanceId != WHOLE).then_some(data.gpuInstanceId),
            })),
        }
    }
}

impl Drop for EventSet {
    fn drop(&mut self) {
        if let Ok(call) = self.nvml.lib().nvmlEventSetFree.as_ref() {
            // SAFETY: a live set, which nobody can use any more. What NVML answers changes nothing.
            let _ = unsafe { call(self.set) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_that_nvml_did_not_touch_is_no_value() {
        let entry = |code, timestamp, kind, bits| {
            let value = sys::nvmlValue_t { ullVal: bits };
            let entry =
                sys::nvmlFieldValue_t { fieldId: 4, scopeId: 0, timestamp, latencyUsec: 0, valueType: kind, nvmlReturn: code, value };
            field_value(&entry).ok()
        };
        assert_eq!(entry(0, 1, 3, 7), Some(7));
        assert_eq!(entry(0, 1, 1, 0xdead_0000_0007), Some(7));
        assert_eq!(entry(0, 1, 0, 2.5f64.to_bits()), Some(2));
        assert_eq!(entry(0, 1, 5, u64::from(u32::MAX)), None, "-1");
        assert_eq!(entry(0, 1, 0, f64::NAN.to_bits()), None);
        assert_eq!(entry(0, 0, 3, 0), None, "timestamp 0");
        assert_eq!(entry(UNTOUCHED, 0, 3, 0), None);
        assert_eq!(entry(3, 1, 3, 0), None);
    }
}
