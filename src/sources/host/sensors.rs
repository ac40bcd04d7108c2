//! Temperatures of the machine, from /sys/class/hwmon.
//!
//! Not from sysinfo: it takes sensors of equal names for one, and a node has two sockets, eight NICs and as many disks of one kind.

use crate::observe::host::Temperature;
use crate::sources::Roots;
use crate::sources::sysfs::{Dir, Reader, names};
use std::collections::BTreeMap;

/// Kinds of sensors that are kept.
const MOST: usize = 64;
/// Outside of this a sensor is not connected, or broken.
const PLAUSIBLE_C: std::ops::RangeInclusive<f64> = -60.0..=200.0;

/// The hottest sensor of each kind.
pub(super) fn temperatures(roots: &Roots, reader: &mut Reader) -> Vec<Temperature> {
    let class = roots.path("/sys/class/hwmon");
    let mut hottest: BTreeMap<String, Temperature> = BTreeMap::new();
    for chip in names(&class).unwrap_or_default() {
        let path = class.join(chip);
        let (Ok(dir), Ok(files)) = (Dir::open(&path), names(&path)) else { continue };
        let Some(name) = reader.text(&dir, "name") else { continue };
        for sensor in files.iter().filter_map(|file| file.strip_suffix("_input")).filter(|sensor| sensor.starts_with("temp")) {
            let mut celsius =
                |what: &str| Some(reader.number::<i32>(&dir, &format!("{sensor}_{what}"))?).map(|milli| f64::from(milli) / 1000.0);
            let Some(now) = celsius("input").filter(|now| PLAUSIBLE_C.contains(now)) else { continue };
            let critical_c = celsius("crit").filter(|c| *c > 0.0 && PLAUSIBLE_C.contains(c));
            let label = reader.text(&dir, &format!("{sensor}_label")).unwrap_or_default();
            let kind = kind(&name, &label);
            if hottest.len() >= MOST && !hottest.contains_key(&kind) {
                continue;
            }
            let known = hottest.entry(kind.clone()).or_insert(Temperature { sensor: kind, celsius: now, critical_c, sensors: 0 });
            known.sensors += 1;
            if now > known.celsius {
                (known.celsius, known.critical_c) = (now, critical_c);
            }
        }
    }
    hottest.into_values().collect()
}

/// `coretemp` and `Core 12` are `coretemp Core`, `k10temp` and `Tccd3` are `k10temp Tccd`.
fn kind(name: &str, label: &str) -> String {
    let words = label.split_whitespace().map(|word| word.trim_end_matches(|c: char| c.is_ascii_digit()));
    std::iter::once(name).chain(words).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}
