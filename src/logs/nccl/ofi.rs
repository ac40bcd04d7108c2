//! Lines of aws-ofi-nccl, the network plugin of EFA.

use super::types::Ofi;
use crate::logs::What;

pub(super) fn read(message: &str) -> Option<What> {
    let tail = message.strip_prefix("NET/OFI ")?.trim_end();
    if let Some((device, tail)) = tail.strip_prefix("NIC group ").and_then(|t| t.split_once(" device #")) {
        return rail(device, tail);
    }
    let told = if let Some(v) = tail.strip_prefix("Initializing aws-ofi-nccl ").or_else(|| tail.strip_prefix("Using aws-ofi-nccl ")) {
        let v = v.split_whitespace().next()?;
        let whole = v.split('.').filter(|p| p.starts_with(|c: char| c.is_ascii_digit())).count() >= 3 && !v.ends_with(['.', '-']);
        (whole || v.ends_with("-dev")).then(|| Ofi::Version(v.to_string()))?
    } else if let Some(v) = tail.strip_prefix("Using Libfabric version ") {
        let (major, minor) = v.split_once('.')?;
        (major.parse::<u32>().is_ok() && minor.parse::<u32>().is_ok()).then(|| Ofi::Libfabric(v.to_string()))?
    } else if let Some(name) = tail.strip_prefix("Plugin selected platform: ") {
        matches!(name, "AWS" | "Default").then(|| Ofi::Platform(name.to_string()))?
    } else if let Some(name) = tail.strip_prefix("Using transport protocol ") {
        let (name, set_by) = match name.split_once(" (") {
            Some((name, by)) => (name, Some(by.strip_suffix(')')?.to_string())),
            None => (name, None),
        };
        matches!(name, "SENDRECV" | "RDMA").then(|| Ofi::Protocol { name: name.to_string(), set_by })?
    } else if let Some(tail) = tail.strip_prefix("Selected Provider is ").or_else(|| tail.strip_prefix("Selected provider is ")) {
        let (what, nics) = tail.split_once(" (found ")?;
        let nics = nics.strip_suffix(" nics)").or_else(|| nics.strip_suffix(" nic)"))?.parse().ok()?;
        let (name, fabric) = match what.split_once(", fabric is ") {
            Some((name, fabric)) => (name, Some(fabric.to_string())),
            None => (what, None),
        };
        Ofi::Provider { name: name.to_string(), fabric, nics }
    } else if let Some((instance, tail)) = tail.strip_prefix("Running on ").and_then(|t| t.split_once(" platform, ")) {
        let starts =
            ["topology file ", "Setting NCCL_TOPO_FILE environment variable to ", "NCCL_TOPO_FILE environment variable is already set to "];
        let file = starts.iter().find_map(|s| tail.strip_prefix(s))?;
        file.ends_with(".xml").then(|| Ofi::Topology { instance: instance.to_string(), file: file.to_string() })?
    } else if tail == "Could not disable CUDA API usage for HMEM, disabling GDR" {
        Ofi::NoGpuDirect
    } else if tail == "No eligible providers were found" {
        Ofi::NoProvider
    } else {
        return None;
    };
    Some(What::Ofi(told))
}

/// `1 0000:51:00.0`: torn, it has no function.
fn rail(device: &str, tail: &str) -> Option<What> {
    let (rail, address) = tail.split_once(' ')?;
    let (place, function) = address.split_once('.')?;
    let is_whole = function.len() == 1 && function.bytes().all(|b| b.is_ascii_hexdigit()) && place.len() == "0000:51:00".len();
    is_whole.then_some(What::OfiRail { device: device.parse().ok()?, rail: rail.parse().ok()?, address: address.to_owned() })
}
