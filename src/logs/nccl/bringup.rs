//! Versions, plugins, network devices, bootstrap, environment.

use super::types::{FabricLine, NetDevice, NetDevices, Plugin, PluginKind, PluginState, whole_name};
use crate::logs::What;

pub(super) fn read(message: &str) -> Option<What> {
    match message.as_bytes().first()? {
        b'c' if message.starts_with("cudaDriverVersion ") => driver(message),
        b'N' | b'R' if message.starts_with("NCCL version ") || message.starts_with("RCCL version") => version(message),
        b'B' if message.starts_with("Bootstrap timings") => None,
        b'B' => bootstrap(message),
        b'U' if message.starts_with("Using network ") => Some(What::Network { name: whole_name(message.strip_prefix("Using network ")?)? }),
        b'R' if message.starts_with("RAS client listening socket at ") => ras(message),
        b'N' if message.starts_with("NET/IB") || message.starts_with("NET/Socket") => devices(message),
        b'M' if message.starts_with("MNNVL ") => mnnvl(message),
        b'D' if message.starts_with("DMA-BUF is available on GPU device ") => Some(What::DmaBuf),
        b'I' if message.starts_with("Invalid value ") => invalid(message),
        b'W' | b'E' if message.starts_with("Warning: ENV ") || message.starts_with("ENV: ") => unused(message),
        _ => None,
    }
    .or_else(|| plugin(message))
}

/// `cudaDriverVersion 12090`: 1000 for each major, 10 for each minor version.
fn driver(message: &str) -> Option<What> {
    let n: u32 = message.strip_prefix("cudaDriverVersion ")?.trim_end().parse().ok()?;
    // A number that lost its end is too small, or no multiple of ten.
    (9000..100_000).contains(&n).then_some(())?;
    n.is_multiple_of(10).then(|| What::CudaDriver { version: format!("{}.{}", n / 1000, n % 1000 / 10) })
}

/// `MNNVL busId 0x801000 fabric UUID 8f1e.a2b3 cliqueId 0x1 state 3 healthMask 0x156`, `MNNVL 1 cliqueId 1 cliqueSize 72 cliqueRank 4`
fn mnnvl(message: &str) -> Option<What> {
    let words: Vec<&str> = message.split_whitespace().take(16).collect();
    let after = |key: &str| words.iter().position(|word| *word == key).and_then(|at| words.get(at + 1).copied());
    let hex = |key: &str| u32::from_str_radix(after(key)?.trim_start_matches("0x"), 16).ok();
    if words.get(1) == Some(&"busId") {
        let uuid = after("UUID").filter(|uuid| uuid.len() <= 33 && uuid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'.'))?;
        let cluster = uuid.bytes().any(|b| !matches!(b, b'0' | b'.')).then(|| uuid.to_owned());
        // The last number may have lost its end; one that is torn off is no line.
        let (clique, state, health) = (hex("cliqueId")?, after("state")?.parse().ok()?, hex("healthMask")?);
        return Some(What::Fabric(FabricLine { cluster, clique, state, health }));
    }
    // The rank stands behind the size, which is whole then.
    after("cliqueRank")?;
    Some(What::Clique { used: *words.get(1)? == "1", size: after("cliqueSize")?.parse().ok()? })
}

/// `NCCL version 2.28.9+cuda13.0`, `RCCL version 2.18.3+hip6.0 HEAD:2f6d59e`, `RCCL version : 2.22.3-develop:12ab`
pub(super) fn version(message: &str) -> Option<What> {
    // RCCL prints the version of NCCL that it is made from in NCCL's words, too.
    let rccl = message.starts_with("RCCL") || message.contains("+hip");
    let tail = message.strip_prefix("NCCL version ").or_else(|| message.strip_prefix("RCCL version"))?;
    let word = tail.trim_start_matches([' ', ':']).split_whitespace().next()?;
    let (version, runtime) = match word.split_once('+') {
        Some((v, r)) => (v, Some(r)),
        None => (word.split_once('-').filter(|_| rccl).map_or(word, |(v, _)| v), None),
    };
    let numbers = version.split('.').take_while(|p| p.starts_with(|c: char| c.is_ascii_digit())).count();
    (numbers >= 3 && version.len() <= 40).then_some(())?;
    let cuda = match runtime {
        None => None,
        Some(r) => {
            let number = r.strip_prefix("cuda").or_else(|| r.strip_prefix("hip"))?;
            let whole = number.split('.').count() == 2 && number.split('.').all(|p| !p.is_empty() && p.bytes().all(|b| b.is_ascii_digit()));
            // A build that was given no version of CUDA prints the names of its macros, or a full stop.
            let is_unset = matches!(number, "CUDA_MAJOR.CUDA_MINOR" | ".");
            (whole || is_unset).then_some(())?;
            (!rccl && whole).then(|| number.to_string())
        }
    };
    Some(What::NcclVersion { version: if rccl { format!("RCCL {version}") } else { version.to_string() }, cuda })
}

/// `Bootstrap : Using eth0:10.0.0.1<0>`, `Bootstrap: Using mlx5_0:1`, `Bootstrap: Using [eth0]:[fe80::1]<0>`
fn bootstrap(message: &str) -> Option<What> {
    let tail = message.strip_prefix("Bootstrap")?.trim_start().strip_prefix(':')?.trim_start().strip_prefix("Using ")?.trim_end();
    // Up to NCCL 2.8 it lists all, with their numbers: `[0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>`.
    let tail = match tail.strip_prefix("[0]") {
        Some(list) => list.split(' ').next()?,
        None => tail,
    };
    match tail.split_once('<') {
        Some(_) => {
            let (interface, address) = interface(tail)?;
            Some(What::Bootstrap { interface, address: Some(address) })
        }
        None => {
            let (device, port) = tail.split_once(':')?;
            port.parse::<u16>().ok()?;
            Some(What::Bootstrap { interface: device.to_string(), address: None })
        }
    }
}

/// `eth0:10.0.0.1<0>`, `[eth0]:[fe80::1]<0>`
fn interface(text: &str) -> Option<(String, String)> {
    let unbracket = |s: &str| s.trim_start_matches('[').trim_end_matches(']').to_string();
    let (place, port) = text.split_once('<')?;
    port.strip_suffix('>')?.parse::<u16>().ok()?;
    let (interface, address) = place.split_once("]:").or_else(|| place.split_once(':'))?;
    Some((unbracket(interface), unbracket(address)))
}

fn ras(message: &str) -> Option<What> {
    let (address, port) = message.strip_prefix("RAS client listening socket at ")?.split_once('<')?;
    let port: u16 = port.trim_end().strip_suffix('>')?.parse().ok()?;
    Some(What::RasListening { address: format!("{address}:{port}") })
}

/// `NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE [RO]; OOB eth0:10.0.0.1<0>`, `[0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB}`,
/// `NET/Socket : Using [0]eth0:10.0.0.1<0> [1]eth1:10.0.1.1<0>`, `NET/IB : No device found.`
fn devices(message: &str) -> Option<What> {
    let (transport, tail) = message.strip_prefix("NET/")?.split_once(':')?;
    let transport = transport.trim().to_string();
    let tail = tail.trim();
    let none = |oob, relaxed_ordering, whole| NetDevices { transport: transport.clone(), devices: vec![], relaxed_ordering, oob, whole };
    if tail == "No device found." {
        return Some(What::NetDevices(none(None, false, true)));
    }
    let list = tail.strip_prefix("Using ")?;
    list.starts_with('[').then_some(())?;
    let (list, oob) = match list.split_once("; OOB ") {
        Some((list, oob)) => (list, interface(oob.trim()).map(|(name, _)| name)),
        None => (list, None),
    };
    let mut found = none(oob.clone(), list.contains("[RO]"), oob.is_some());
    // Each begins with its number in brackets.
    let ends_whole = oob.is_some() || list.ends_with(['>', '}']);
    let mut parts = list.split('[').skip(1).peekable();
    while let Some(part) = parts.next() {
        let Some((index, device)) = part.split_once(']').filter(|(i, _)| !i.is_empty() && i.bytes().all(|b| b.is_ascii_digit())) else {
            continue;
        };
        let _ = index;
        let device = device.trim_matches(|c: char| matches!(c, '=' | '{' | '}' | ',' | ';' | ' '));
        // The last one may have lost its end.
        if device.is_empty() || (parts.peek().is_none() && !ends_whole) {
            continue;
        }
        found.devices.push(if device.ends_with('>') {
            let (name, link) = interface(device)?;
            NetDevice { name, port: None, link }
        } else {
            // `mlx5_0:1/IB/SHARP` with NVIDIA's plugin of collectives.
            let (place, link) = device.split_once('/')?;
            let link = link.split('/').next().unwrap_or(link);
            let mut words = place.split(':');
            let name = words.next()?.to_string();
            NetDevice { name, port: Some(words.next()?.parse().ok()?), link: link.to_string() }
        });
    }
    if transport == "Socket" {
        found.whole = ends_whole;
    }
    (!found.devices.is_empty() || found.oob.is_some()).then_some(What::NetDevices(found))
}

/// All lines about plugins; the name of the library may hold paths, that of the plugin spaces.
fn plugin(message: &str) -> Option<What> {
    use PluginKind::*;
    use PluginState::*;
    let told = |kind, state, name: Option<String>| Some(What::Plugin(Plugin { kind, state, name, api: None, why: None }));
    let kind_of = |word: &str| {
        let known = [("network", Net), ("net", Net), ("collnet", CollNet), ("coll", CollNet), ("tuner", Tuner), ("profiler", Profiler)];
        let more = [("env", Env), ("gin", Gin), ("rma", Rma)];
        known.into_iter().chain(more).find(|(w, _)| word.eq_ignore_ascii_case(w)).map(|(_, k)| k)
    };
    if let Some(tail) = message.strip_prefix("Successfully loaded external ") {
        let (kind, name) = tail.split_once("plugin ")?;
        // 2.27 does not say of what kind it is.
        let by_name = || [("tuner", Tuner), ("profiler", Profiler)].into_iter().find(|(w, _)| name.contains(w)).map_or(Net, |(_, k)| k);
        return told(kind_of(kind.trim()).unwrap_or_else(by_name), LibraryLoaded, library(name));
    }
    if let Some(tail) = message.strip_prefix("External ").and_then(|t| t.strip_suffix(" is unsupported")) {
        let (kind, name) = tail.split_once(" plugin ")?;
        return told(kind_of(kind)?, Unsupported, Some(name.to_string()));
    }
    for (start, state) in [("Initialized ", Initialized), ("Failed to initialize ", FailedToInitialize)] {
        if let Some((kind, name)) = message.strip_prefix(start).and_then(|t| t.split_once(" plugin ")) {
            return told(kind_of(kind)?, state, Some(whole_name(name)?));
        }
    }
    if let Some((kind, name)) =
        message.strip_prefix("Assigned ").and_then(|t| t.strip_suffix(" to comm")).and_then(|t| t.split_once(" plugin "))
    {
        return told(kind_of(kind)?, Assigned, Some(name.to_string()));
    }
    if let Some(list) = message.strip_prefix("Disabling external plugins: ") {
        return told(Net, Disabled, Some(list.trim_end().to_string()));
    }
    // 2.18 to 2.20, without the part's name in front.
    if let Some(name) = message.strip_prefix("Plugin name set by env to ") {
        return told(Net, SetByEnv, library(name));
    }
    // NVIDIA's own plugin, nccl-rdma-sharp: its library, and which of its networks carries the traffic.
    if let Some(name) = message.strip_prefix("Plugin Path : ") {
        return told(Net, LibraryLoaded, library(name));
    }
    if let Some(name) = message.strip_prefix("P2P plugin ") {
        return told(Net, Loaded, Some(whole_name(name)?));
    }
    if let Some(name) = message.strip_prefix("Using tuner plugin: '").and_then(|t| t.strip_suffix('\'')) {
        return told(Tuner, Loaded, Some(name.to_string()));
    }
    let (part, tail) = message.split_once("/Plugin")?;
    let kind = kind_of(part)?;
    let tail = tail.trim_start().strip_prefix(':')?.trim();
    if tail.starts_with("Could not find: ") || tail.contains("No plugin found") {
        return told(kind, NotFound, None);
    }
    if tail.starts_with("Using internal ") && tail.contains(" plugin") {
        return told(kind, Internal, None);
    }
    if let Some(name) = tail.strip_prefix("Plugin name set by env to ") {
        return told(kind, SetByEnv, library(name));
    }
    for word in
        ["Loaded net plugin ", "Loaded collnet plugin ", "Loaded coll plugin ", "Loaded ", "Using tuner plugin ", "Using ", "loaded "]
    {
        let Some(name) = tail.strip_prefix(word) else { continue };
        let kind = if word.contains("coll") { CollNet } else { kind };
        let (name, api) = match name.rsplit_once(" (v") {
            Some((name, api)) => (name, Some(api.strip_suffix(')')?.parse().ok()?)),
            // Only these are without a number.
            None if matches!(word, "Using tuner plugin " | "loaded ") => (name, None),
            None => return None,
        };
        return Some(What::Plugin(Plugin { kind, state: Loaded, name: Some(name.to_string()), api, why: None }));
    }
    if let Some(name) = tail.strip_prefix("Assigned plugin ").and_then(|t| t.strip_suffix(" to comm")) {
        let name = name.split_once(" type ").map_or(name, |(n, _)| n);
        return told(kind, Assigned, Some(name.to_string()));
    }
    if let Some(returned) = tail.strip_prefix("Plugin load (") {
        let (name, why) = returned.split_once(") returned ")?;
        return failed(kind, name, why.split_once(" : ").map_or(why, |(_, w)| w));
    }
    if let Some(why) = tail.strip_prefix("dlerror=") {
        return failed(kind, "", why);
    }
    let (name, why) = tail.split_once(": ")?;
    failed(kind, name, why)
}

/// What the loader says; that a library which nobody asked for is not there is no failure.
fn failed(kind: PluginKind, name: &str, why: &str) -> Option<What> {
    let words = [
        "cannot open shared object",
        "undefined symbol",
        "not found",
        "cannot allocate",
        "wrong ELF class",
        "invalid ELF",
        "file too short",
    ];
    let whole = words.iter().any(|w| why.contains(w)) && (name.is_empty() || (name.contains(".so") && !name.contains(' ')));
    whole.then_some(())?;
    let own = why.starts_with(name) || name.is_empty();
    let state = if own && why.contains("No such file or directory") { PluginState::NotFound } else { PluginState::FailedToLoad };
    let name = (!name.is_empty()).then(|| name.to_string());
    let why = (state == PluginState::FailedToLoad).then(|| why.to_string());
    Some(What::Plugin(Plugin { kind, state, name: name.filter(|_| why.is_some()), api: None, why }))
}

/// A library's name at the end of a line.
fn library(name: &str) -> Option<String> {
    let name = name.trim_end().trim_end_matches('.');
    (!name.is_empty() && name.len() <= 300).then(|| name.to_string())
}

/// Parameters that are text although they may look like numbers; all others that are numbers have a full stop behind them.
fn is_text(name: &str) -> bool {
    let ends =
        ["_IFNAME", "_HCA", "_FILE", "_PLUGIN", "_ALGO", "_PROTO", "_HOSTID", "_COMM_ID", "_NET", "_LEVEL", "_SUBSYS", "_PREFIX", "_ADDR"];
    // ncclGetLevel in NCCL's paths.cc prints what forbids P2P as it does the level.
    let words = ["NCCL_P2P_DISABLE", "NCCL_DEBUG", "NCCL_LAUNCH_MODE", "NCCL_IB_MERGE_NICS", "NCCL_COMM_BLOCKING", "NCCL_CROSS_NIC"];
    !name.starts_with("NCCL_") || ends.iter().any(|e| name.ends_with(e)) || words.contains(&name)
}

fn is_name(name: &str) -> bool {
    name.len() > 3 && name.bytes().all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_')
}

/// `NCCL_SOCKET_IFNAME set by environment to eth0`; numbers have a full stop behind them. `NCCL_SOCKET_IFNAME set to eth0` of NVIDIA's network plugin.
pub(super) fn env(message: &str) -> Option<What> {
    let (name, value) = message
        .split_once(" set by environment to ")
        .or_else(|| message.split_once(" set to ").filter(|(_, value)| !value.trim_end().contains(' ')))?;
    is_name(name).then_some(())?;
    let value = value.trim_end();
    let number = value.strip_suffix('.').filter(|v| v.parse::<i64>().is_ok());
    // Without it the number may have lost its end; some builds print none, and a switch is 0 or 1.
    let is_cut = number.is_none() && value.parse::<i64>().is_ok() && !matches!(value, "0" | "1") && !is_text(name);
    if value.is_empty() || is_cut {
        return None;
    }
    Some(What::EnvSet { name: name.to_string(), value: number.unwrap_or(value).to_string() })
}

/// `Invalid value abc for NCCL_IB_TIMEOUT, using default 20.`
fn invalid(message: &str) -> Option<What> {
    let (value, tail) = message.strip_prefix("Invalid value ")?.split_once(" for ")?;
    let (name, _) = tail.split_once(", using default ")?;
    is_name(name).then(|| What::EnvInvalid { name: name.to_string(), value: value.to_string() })
}

/// `Warning: ENV NCCL_X is unused. Setting it has no effect.`
fn unused(message: &str) -> Option<What> {
    let tail = message.strip_prefix("Warning: ENV ").or_else(|| message.strip_prefix("ENV: "))?;
    let (name, tail) = tail.split_once(" is ")?;
    let how = ["unused", "deprecated", "private"].into_iter().find(|how| tail.strip_prefix(how).is_some_and(|t| t.starts_with('.')))?;
    is_name(name).then(|| What::EnvUnused { name: name.to_string(), how })
}
