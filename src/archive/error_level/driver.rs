//! Drivers of what training needs, in the kernel's log.

use super::MOST_DEVICES;
use crate::base::clean;
use crate::logs::{Origin, prefix};
use regex::Regex;
use std::sync::LazyLock;

/// The first error of a driver, and the devices of which it reports the like.
#[derive(Debug)]
pub struct OfDriver {
    pub line: u64,
    pub origin: Origin,
    driver: String,
    devices: Vec<String>,
    text: String,
    /// In its words, that a device did not come up, or is gone.
    down: Option<String>,
}

impl OfDriver {
    /// `[ 72.99] habanalabs hl2: Failed to communicate with Device CPU`: a driver of what training needs, and what it says of a device.
    pub fn of(no: u64, text: &str) -> Option<OfDriver> {
        static LINE: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(
                r"(?x)^(?P<driver>amdgpu|habanalabs|i915|xe|nvidia[a-z-]*|mlx[45]_[a-z0-9_]+|infiniband|ib_[a-z]+|irdma|ice|bnxt_(?:en|re)|qedr?e?|hfi1|cxi[a-z0-9_-]*|cxgb4
                    |efa|ena|rdmap[0-9a-z]+|hns_[a-z]+|erdma|nvme[0-9a-z]*|neuron|davinci[a-z_]*)
                (?:/[0-9]+)?(?:\x20(?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f]|[a-z]+_?[0-9][a-z0-9_]*))?:\x20(?P<text>.+)$",
            )
            .expect("pattern")
        });
        // Any other driver, of a device on the PCI bus.
        static CARD: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(
                r"^(?P<driver>[a-z][a-z0-9_-]{1,20}) (?P<device>[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-9a-f])(?: [a-z][a-z0-9_]{1,15})?(?: \([^)]{1,20}\))?: (?P<text>.+)$",
            )
            .expect("pattern")
        });
        static FAULT: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"(?i)\bfail|\berror\b|time(?:d )?-?out|page fault|not usable|\bhang|\bhung|\blost\b|fatal|unrecover")
                .expect("pattern")
        });
        static DOWN: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(
                r"(?i)^probe\b|probe[^;]{0,60}fail|failed with error -[0-9]+|fatal|not usable|unrecover|device is (?:gone|dead|lost)",
            )
            .expect("pattern")
        });
        let in_kernel = prefix::is_of_kernel(text) || prefix::peel(text).origin.written.is_some();
        if !in_kernel {
            return None;
        }
        let peeled = prefix::peel(text);
        let rest = peeled.rest.trim_start();
        let found = LINE.captures(rest).or_else(|| CARD.captures(rest))?;
        let words = found["text"].trim();
        // A module that is not signed works.
        if !FAULT.is_match(words) || words.contains("tainting kernel") {
            return None;
        }
        let driver = found["driver"].to_owned();
        let probe = || words.strip_prefix("probe of ")?.split_once(' ').map(|(device, _)| device.to_owned());
        // `mlx5_bond_0/1: QP …`: a device, not a driver.
        let own_name = || driver.ends_with(|c: char| c.is_ascii_digit()).then(|| driver.clone());
        let device = found.name("device").map(|m| m.as_str().to_owned()).or_else(probe).or_else(own_name);
        let driver = driver.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('_').to_owned();
        let words = words.strip_prefix("amdgpu: ").unwrap_or(words).trim();
        let words = clean::clip(words, 120).into_owned();
        Some(OfDriver {
            down: DOWN.is_match(&words).then(|| words.clone()),
            line: no,
            origin: peeled.origin,
            driver,
            devices: device.into_iter().collect(),
            text: words,
        })
    }

    /// Takes over the device of another error of the same driver.
    pub fn add(&mut self, other: OfDriver) {
        let device = other.devices.into_iter().next().filter(|device| !self.devices.contains(device));
        if other.driver == self.driver && self.devices.len() < MOST_DEVICES {
            self.devices.extend(device);
            self.down = self.down.take().or(other.down);
        }
    }

    pub fn wants_devices(&self) -> bool {
        self.devices.len() < MOST_DEVICES
    }

    /// A device did not come up, or is gone.
    pub fn is_down(&self) -> bool {
        self.down.is_some()
    }

    pub fn text(&self) -> String {
        let devices = match self.devices.as_slice() {
            [] => String::new(),
            devices => format!(" an error of {}", devices.join(", ")),
        };
        let down = self.down.as_ref().filter(|down| **down != self.text).map_or(String::new(), |down| format!("; then {down}"));
        format!("{} reports{devices}: {}{down}", self.driver, self.text)
    }
}
