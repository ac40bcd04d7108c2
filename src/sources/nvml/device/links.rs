//! The NVLinks of one GPU, link by link, and C2C: what they are, and what their counters of errors are.

use super::{ALL_LINKS, Call, Doing, Field, LINK_ERRORS, LINK_REMOTE, LINK_REMOTE_TYPE, Links, MAX_LINKS, NvmlGpu, pci, raw};
use crate::observe::gpu::{C2c, NvLink, NvLinks};

const LINK_COUNT: Call = Call(17, "nvmlDeviceGetFieldValues(91)");
const LINK_STATES: Call = Call(18, "nvmlDeviceGetFieldValues(165)");
const LINK_SPEED: Call = Call(32, "nvmlDeviceGetFieldValues(164)");
const LINK_VERSION: Call = Call(33, "nvmlDeviceGetFieldValues(166)");
const LINK_ERRORS_EACH: Call = Call(34, "nvmlDeviceGetFieldValues(161-163) of each link");
const LINK_ERRORS_5: Call = Call(35, "nvmlDeviceGetFieldValues(208, 215, 219) of each link");
const C2C: Call = Call(36, "nvmlDeviceGetFieldValues(170-172, 231, 232)");

const FIELD_LINK_COUNT: u32 = 91;
/// Replays, recoveries, CRC errors: up to NVLink 4.
const FIELDS_ERRORS: [u32; 3] = [161, 162, 163];
const FIELD_LINK_SPEED: u32 = 164;
const FIELD_LINK_STATE: u32 = 165;
const FIELD_LINK_VERSION: u32 = 166;
/// Packets received with errors, recoveries, errors that FEC could not correct: NVLink 5.
const FIELDS_ERRORS_5: [u32; 3] = [208, 215, 219];
const FIELD_C2C_COUNT: u32 = 170;
/// Status, bandwidth in MB/s, errors, replays.
const FIELDS_C2C: [u32; 4] = [171, 172, 231, 232];

/// What is kept between two looks.
#[derive(Default)]
pub(super) struct Kept {
    /// Number of NVLinks, asked once.
    count: Option<u32>,
    now: NvLinks,
    told: NvLinks,
    /// The sums when each link was asked last.
    sums: [Option<u64>; 3],
}

impl Kept {
    pub fn count(&self) -> u32 {
        self.count.unwrap_or(0)
    }

    /// What is new since it was reported last.
    pub fn news(&mut self) -> Option<NvLinks> {
        (self.now != self.told).then(|| {
            self.told = self.now.clone();
            self.now.clone()
        })
    }
}

impl NvmlGpu {
    /// Field 165 per link; empty where there is no NVLink or it cannot be asked.
    pub(super) fn link_states(&mut self, doing: &Doing) -> Vec<Option<u32>> {
        if self.links.count.is_none() {
            let [count] = self.fields(doing, LINK_COUNT, [(FIELD_LINK_COUNT, 0)]);
            let supported = !self.is_unsupported(LINK_COUNT);
            self.links.count = count.map(|n| n.min(MAX_LINKS) as u32).or((!supported).then_some(0));
        }
        let states = self.each_link(doing, LINK_STATES, FIELD_LINK_STATE);
        states.into_iter().map(|state| state.and_then(|n| u32::try_from(n).ok())).collect()
    }

    /// One field of each link; empty where there is none, or it is not supported.
    fn each_link(&mut self, doing: &Doing, call: Call, field: u32) -> Vec<Option<u64>> {
        let asked: Vec<Field> = (0..self.links.count()).map(|link| (field, link)).collect();
        if asked.is_empty() {
            return Vec::new();
        }
        let got = self.ask(doing, call, |d| raw::fields(d, &asked)).unwrap_or_default();
        if self.none_supported(&got) {
            self.unsupported |= 1 << call.0;
            return Vec::new();
        }
        got.into_iter().map(Result::ok).collect()
    }

    /// Where the links lead and what they are. Asked once.
    pub(super) fn identify_links(&mut self, doing: &Doing) -> Option<Links> {
        const SWITCH: u32 = 2;
        self.begin();
        let states = self.link_states(doing);
        let mut links = Links::default();
        let mut found = vec![NvLink::default(); states.len()];
        let active = (0..).zip(&mut found).zip(states).filter(|(_, state)| matches!(state, Some(1 | 2)));
        for ((link, found), _) in active {
            let kind = self.once(doing, LINK_REMOTE_TYPE, |d| raw::link_remote_type(d, link));
            let remote = match kind {
                Some(SWITCH) => None,
                _ => match self.once(doing, LINK_REMOTE, |d| Ok(d.link_wrapper_for(link).remote_pci_info()?.bus_id)) {
                    // What a virtual machine shows of a switch that it was not given.
                    Some(id) if id.to_ascii_uppercase().starts_with("FFFFFFFF") => None,
                    Some(id) => Some(pci::bus_id(&id)),
                    None => continue,
                },
            };
            match remote.clone() {
                None => links.to_switch += 1,
                Some(id) => links.peers.push(id),
            }
            found.remote = Some(remote.unwrap_or_else(|| NvLink::SWITCH.into()));
        }
        for (link, speed) in found.iter_mut().zip(self.each_link(doing, LINK_SPEED, FIELD_LINK_SPEED)) {
            link.speed_mbytes_per_s = speed;
        }
        for (link, version) in found.iter_mut().zip(self.each_link(doing, LINK_VERSION, FIELD_LINK_VERSION)) {
            link.version = version.and_then(|n| u32::try_from(n).ok());
        }
        self.links.now = NvLinks { index: self.index, links: found, c2c: None };
        self.count_each(doing);
        self.look_at_c2c(doing);
        (!self.is_gone()).then_some(links)
    }

    /// Sums over the links: replays, recoveries, CRC errors. Each link is asked, which takes 15 ms where there are 18, only when one of
    /// the sums has grown, or where the driver has no sums.
    pub(super) fn link_errors(&mut self, doing: &Doing) -> [Option<u64>; 3] {
        if self.links.count() == 0 {
            return [None; 3];
        }
        let sums = self.fields(doing, LINK_ERRORS, FIELDS_ERRORS.map(|id| (id, ALL_LINKS)));
        if sums != self.links.sums || self.is_unsupported(LINK_ERRORS) {
            self.links.sums = sums;
            self.count_each(doing);
        }
        self.look_at_c2c(doing);
        let sum = |of: fn(&NvLink) -> Option<u64>| self.links.now.links.iter().filter_map(of).reduce(u64::saturating_add);
        let [replays, recoveries, crc] = sums;
        [replays.or_else(|| sum(|l| l.replays)), recoveries.or_else(|| sum(|l| l.recoveries)), crc.or_else(|| sum(|l| l.crc_errors))]
    }

    fn count_each(&mut self, doing: &Doing) {
        let old = FIELDS_ERRORS.map(|field| self.each_link(doing, LINK_ERRORS_EACH, field));
        // Those of NVLink 5 are asked where the old ones are not there.
        let is_new = old.iter().all(Vec::is_empty);
        let new = if is_new { FIELDS_ERRORS_5.map(|field| self.each_link(doing, LINK_ERRORS_5, field)) } else { Default::default() };
        let at = |values: &[Option<u64>], link: usize| values.get(link).copied().flatten();
        for (no, link) in self.links.now.links.iter_mut().enumerate() {
            link.replays = at(&old[0], no).or(link.replays);
            link.recoveries = at(&old[1], no).or(at(&new[1], no)).or(link.recoveries);
            link.crc_errors = at(&old[2], no).or(link.crc_errors);
            link.receive_errors = at(&new[0], no).or(link.receive_errors);
            link.effective_errors = at(&new[2], no).or(link.effective_errors);
        }
    }

    /// NVLink between Grace and the GPU; other GPUs have none.
    fn look_at_c2c(&mut self, doing: &Doing) {
        let [count] = self.fields(doing, C2C, [(FIELD_C2C_COUNT, 0)]);
        let count = count.unwrap_or(0).min(MAX_LINKS) as u32;
        if count == 0 {
            return;
        }
        let asked: Vec<Field> = FIELDS_C2C.iter().flat_map(|&field| (0..count).map(move |link| (field, link))).collect();
        let got = self.ask(doing, C2C, |d| raw::fields(d, &asked)).unwrap_or_default();
        let values: Vec<Option<u64>> = got.into_iter().map(Result::ok).collect();
        let mut of = values.chunks(count as usize);
        let mut sum = || of.next().and_then(|of| of.iter().flatten().copied().reduce(u64::saturating_add));
        self.links.now.c2c = Some(C2c {
            links: count,
            links_up: sum().and_then(|up| u32::try_from(up).ok()),
            speed_mbytes_per_s: sum(),
            errors: sum(),
            replays: sum(),
        });
    }
}
