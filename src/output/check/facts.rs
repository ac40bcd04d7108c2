//! What the inputs tell besides failures: `facts` of the report. Absent is `null`, never 0.

use crate::archive::Report;
use crate::archive::outcome::CameOut;
use crate::archive::warned::Warned;
use crate::formats::nccl_tests::Table;
use crate::logs::header::{Launch, nccl_version};
use crate::logs::{Ofi, PluginKind, PluginState, What};
use crate::model::bringup::Bringup;
use crate::rules::busbw_of_platform;
use serde_json::{Map, Value, json};
use std::collections::{BTreeMap, BTreeSet};

/// The `facts` object of `nccl-top.check/1`.
pub fn json(report: &Report) -> Value {
    let bringup = report.bringup();
    let version = bringup.nccl_versions.first().map(|s| s.value.clone());
    let version = version.or_else(|| version_in_errors(report));
    let (nccl, cuda) = match version.as_deref().map(|v| v.split_once("+cuda").unwrap_or((v, ""))) {
        Some((nccl, cuda)) => (Some(nccl.to_owned()), Some(cuda.to_owned()).filter(|c| !c.is_empty())),
        None => (None, None),
    };
    let nnodes = match bringup.counts_gpus_as_nodes() {
        true => u32::try_from(report.record().hosts.len()).ok().filter(|n| *n > 0),
        false => bringup.layouts.said.iter().map(|s| s.value.nnodes).max(),
    };
    let said = report.model().comms.values().map(|c| c.nranks).max().or_else(|| bringup.layouts.said.iter().map(|s| s.value.nranks).max());
    let nranks = said
        .or(report.record().ring_ranks)
        .or_else(|| report.record().launch.ranks())
        .or_else(|| report.record().tables.iter().filter(|(_, t)| t.devices.nodes().is_some()).filter_map(|(_, t)| t.ranks).max());
    // What nccl-tests lists, host by host.
    let listed = || report.record().tables.iter().filter(|(_, t)| t.ranks == nranks).filter_map(|(_, t)| t.devices.nodes()).max();
    let nnodes = nnodes.or_else(listed);
    let network = bringup.networks.first().map(|s| s.value.clone()).or_else(|| network_in_use(report));
    let env: Map<String, Value> =
        bringup.env.iter().filter_map(|(name, said)| Some((name.clone(), said.first()?.value.clone().into()))).collect();
    let said = if bringup.bootstraps.said.is_empty() { &bringup.sockets } else { &bringup.bootstraps };
    let interfaces: BTreeSet<&String> = said.said.iter().map(|s| &s.value).collect();
    let loaded = [PluginState::Initialized, PluginState::Loaded].iter().find_map(|state| bringup.plugins.get(&(PluginKind::Net, *state)));
    // NCCL speaks of its own transports as plugins, too.
    let own = |name: &&String| matches!(name.as_str(), "" | "IB" | "Socket");
    let net_plugin = loaded.and_then(|names| names.said.iter().map(|s| &s.value).find(|name| !own(name)));
    let hosts: Vec<&String> = report.record().hosts.iter().take(1024).collect();
    json!({
        "nccl_version": nccl,
        "cuda_version": cuda,
        "driver_cuda_version": bringup.drivers.first().map(|s| s.value.as_str()),
        "network": network,
        "net_plugin": net_plugin,
        "socket_ifname": interfaces,
        "nranks": nranks,
        "nnodes": nnodes,
        "ranks_seen": ranks_seen(report),
        "hosts_seen": hosts,
        "channels": bringup.channels.said.iter().map(|s| s.value).max(),
        "transports": report.record().transports,
        "comms": comms(report),
        "env": env,
        "nccl_tests": report.record().tables.iter().map(|(_, t)| table(t, &bringup)).collect::<Vec<_>>(),
        "inspector": inspector(report),
        "training": report.training().map(crate::output::snapshot::training),
        "last_step": report.again.last_step.as_ref().map(super::line),
        "outcome": report.again.came_out.iter().map(came_out).collect::<Vec<_>>(),
        "said_last": report.again.at_end.iter().map(|last| super::line(&last.said)).collect::<Vec<_>>(),
        "warned": report.again.warned.0.iter().map(warned).collect::<Vec<_>>(),
        "tables": report.again.tables.iter().map(super::line).collect::<Vec<_>>(),
        "software": software(report, &bringup),
        "details": details(report),
        "last": report.record().last.iter().map(|(row, (text, n))| ((*row).to_owned(), json!({ "text": text, "lines": n }))).collect::<Map<_, _>>(),
        "launch": launch(report),
        "attempt": report.attempt().map(|attempt| attempt.no),
        "went_back": report.went_back().map(|(from, to)| json!({ "from": from, "to": to })),
    })
}

/// What lines name of the model and how it is spread, by the row of the report: `"parallel": ["tensor 2"]`.
fn details(report: &Report) -> Map<String, Value> {
    let words = |told: &Vec<(&str, String)>| told.iter().map(|(of, value)| Value::from(of.replace("{}", value))).collect();
    report.record().details.iter().map(|(row, told)| ((*row).to_owned(), words(told))).collect()
}

/// The versions of programs that lines name, and what the network plugin of EFA says of itself.
fn software(report: &Report, bringup: &Bringup) -> Map<String, Value> {
    let mut software: BTreeMap<&str, Vec<String>> = report.record().software.iter().map(|(name, v)| (*name, v.clone())).collect();
    for said in &bringup.ofi.said {
        let (name, version) = match &said.value {
            Ofi::Version(version) => ("aws-ofi-nccl", version),
            Ofi::Libfabric(version) => ("libfabric", version),
            _ => continue,
        };
        let known = software.entry(name).or_default();
        if !known.contains(version) {
            known.push(version.clone());
        }
    }
    software.into_iter().map(|(name, versions)| (name.to_owned(), json!(versions))).collect()
}

/// How the job was started, as far as lines say.
fn launch(report: &Report) -> Value {
    let launch = &report.record().launch;
    if *launch == Launch::default() {
        return Value::Null;
    }
    json!({
        "launcher": launch.launcher,
        "nodes": launch.nodes,
        "processes_per_node": launch.per_node,
        "world_size": launch.world,
        "endpoint": launch.endpoint,
        "max_restarts": launch.restarts,
    })
}

/// What the network plugin of EFA says that it uses: provider, its NICs, the machine, the protocol.
pub fn fabric_words(report: &Report) -> Option<String> {
    let bringup = report.bringup();
    let mut words: Vec<String> = Vec::new();
    for said in &bringup.ofi.said {
        let word = match &said.value {
            Ofi::Provider { name, nics, .. } => format!("{name} with {}", crate::base::units::counted(*nics, "NIC")),
            Ofi::Topology { instance, .. } => format!("on {instance}"),
            Ofi::Protocol { name, .. } => format!("protocol {name}"),
            _ => continue,
        };
        if !words.contains(&word) {
            words.push(word);
        }
    }
    (!words.is_empty()).then(|| words.join(", "))
}

/// Errors of PyTorch name the version where NCCL itself was not configured to print it.
fn version_in_errors(report: &Report) -> Option<String> {
    let of = |text: &str| {
        let word = text.split_once("NCCL version ")?.1.split(|c: char| !c.is_ascii_digit() && c != '.').next()?;
        let version = word.trim_end_matches('.');
        (version.split('.').count() == 3).then(|| in_parts(version))
    };
    report
        .record()
        .alarms
        .iter()
        .find_map(|a| of(&a.text).or_else(|| if let What::Exception(e) = &a.event.what { of(&e.message) } else { None }))
}

/// PyTorch up to 1.12 took NCCL's number apart as before 2.9: its `21.0.3` is 2.10.3.
fn in_parts(version: &str) -> String {
    let parts: Vec<u32> = version.split('.').filter_map(|part| part.parse().ok()).collect();
    match parts[..] {
        [major, minor, patch] if (20..30).contains(&major) && minor < 10 && patch < 100 => nccl_version(major * 1000 + minor * 100 + patch),
        _ => version.to_owned(),
    }
}

/// What the channels over the network go by, where no line says which network was chosen.
fn network_in_use(report: &Report) -> Option<String> {
    let nets = report.record().transports.iter().filter_map(|(transport, lines)| {
        let name = transport.strip_prefix("NET/")?.split('/').next()?;
        Some((*lines, name))
    });
    let by_errors = || {
        let ib =
            |text: &str| text.starts_with("NET/IB : Got ") || text.starts_with("NET/IB: Got ") || text.starts_with("Call to ibv_modify_qp");
        report.record().alarms.iter().any(|a| matches!(&a.event.what, What::NcclWarn { text, .. } if ib(text))).then(|| "IB".to_owned())
    };
    nets.max().map(|(_, name)| name.to_owned()).or_else(by_errors)
}

/// Ranks that wrote anything, or began or finished the initialisation of the largest communicator.
fn ranks_seen(report: &Report) -> BTreeSet<u32> {
    let world = report.model().comms.values().max_by_key(|c| c.nranks);
    let by_init = world.into_iter().flat_map(|c| c.init_started.iter().chain(&c.init_complete).copied());
    report.record().ranks.keys().copied().chain(by_init).collect()
}

fn comms(report: &Report) -> Vec<Value> {
    let mut comms: Vec<_> = report.model().comms.values().collect();
    comms.sort_by_key(|c| (std::cmp::Reverse(c.nranks), c.hash));
    comms
        .into_iter()
        .take(256)
        .map(|c| {
            let seen: BTreeSet<u32> = c.init_started.iter().chain(&c.init_complete).chain(c.ranks.keys()).copied().collect();
            let inspected = report.record().inspectors.iter().flat_map(|file| &file.comms);
            let inspected: BTreeSet<u32> = inspected.filter(|i| crate::formats::inspector::joins(&i.id, c.hash)).map(|i| i.rank).collect();
            let hosts: BTreeSet<&String> = c.ranks.values().filter_map(|r| r.host.as_ref()).collect();
            json!({
                "id": format!("{:#x}", c.hash),
                "nranks": c.nranks,
                "nnodes": (!hosts.is_empty()).then_some(hosts.len()),
                "ranks_seen": seen,
                "ranks_inspected": inspected,
                "init_s": init_s(report, c.nranks),
            })
        })
        .collect()
}

/// The communicators that lines and answers of RAS name.
fn hashes(report: &Report) -> BTreeSet<u64> {
    let answered = report.record().reports.iter().flat_map(|look| look.report.comms.iter().map(|c| c.hash));
    report.model().comms.keys().copied().chain(answered).collect()
}

/// The Inspector's id of a communicator as the others name it: it may lack its last two digits.
fn whole_id(hashes: &BTreeSet<u64>, digits: &str) -> String {
    let mut same = hashes.iter().filter(|hash| crate::formats::inspector::joins(digits, **hash));
    match (same.next(), same.next()) {
        (Some(hash), None) => format!("{hash:#x}"),
        _ => format!("0x{digits}"),
    }
}

/// How long the slowest rank took to create a communicator. The line names no communicator, so it is known where only one has the size.
fn init_s(report: &Report, nranks: u32) -> Option<f64> {
    let only = report.model().comms.values().filter(|c| c.nranks == nranks).count() == 1;
    report.record().init_s.get(&nranks).copied().filter(|_| only)
}

fn came_out(out: &CameOut) -> Value {
    let mut value = super::line(&out.said);
    value["is"] = out.row.into();
    value
}

fn warned(warned: &Warned) -> Value {
    let mut value = super::line(&warned.said);
    value["times"] = warned.times.into();
    value
}

fn table(t: &Table, bringup: &Bringup) -> Value {
    let platform = busbw_of_platform(t, bringup).map(|seen| {
        json!({
            "is": seen.reach.words(),
            "busbw_gbytes_per_s": seen.reach.gbytes_per_s,
            "measured_gbytes_per_s": seen.busbw,
            "size_bytes": seen.size_bytes,
            "share_pct": (seen.share() * 1000.0).round() / 10.0,
            "source": seen.reach.source,
        })
    });
    json!({
        "collective": t.collective,
        "rows": t.rows.len() as u64 + t.rows_left_out,
        "from_bytes": t.rows.iter().map(|row| row.size_bytes).min(),
        "to_bytes": t.rows.iter().map(|row| row.size_bytes).max(),
        "peak_busbw_gbytes_per_s": t.peak_busbw_gbytes_per_s(),
        "largest_busbw_gbytes_per_s": t.largest_busbw_gbytes_per_s(),
        "avg_busbw_gbytes_per_s": t.avg_busbw_gbytes_per_s,
        "least_time_us": t.least_time_us(),
        "wrong": t.wrong,
        "complete": t.complete,
        "platform": platform,
    })
}

/// The operations that the Inspector saw, by communicator, collective and size.
fn inspector(report: &Report) -> Vec<Value> {
    let hashes = &hashes(report);
    let rows = report.record().inspectors.iter().flat_map(|file| file.comms.iter()).flat_map(|comm| {
        comm.groups.iter().map(move |(group, stats)| {
            json!({
                "comm": whole_id(hashes, &comm.id),
                "rank": comm.rank,
                "collective": group.name,
                "from_bytes": group.from_bytes,
                "count": stats.count,
                "median_exec_us": stats.median_exec_us(),
                "p95_exec_us": stats.p95_exec_us(),
                "median_busbw_gbytes_per_s": stats.median_busbw_gbytes_per_s(),
                "max_busbw_gbytes_per_s": stats.max_busbw_gbytes_per_s,
                "timing_source": stats.timing_source,
            })
        })
    });
    rows.take(1024).collect()
}
