//! The state of the node as one document (`nccl-top.snapshot/1`), or as text.

use super::events::{finding_fields, steps, watchdog};
use crate::base::time::Zone;
use crate::diagnosis::session::Session;
use crate::model::gpu::{Gpu, throttle_words};
use crate::model::identity;
use crate::model::inspected::Fastest;
use crate::model::job::Job;
use crate::model::process::Process;
use crate::model::progress::Progress;
use crate::model::topology::{Place, Topology};
use crate::model::{Model, QueuePairUser};
use serde_json::{Map, Value, json};

pub const SCHEMA: &str = "nccl-top.snapshot/1";

/// Absent values are `null`, never 0.
pub fn json(session: &Session, zone: Zone) -> Value {
    let model = &session.model;
    let (state, summary) = session.state();
    let mut document = json!({
        "schema": SCHEMA,
        "at": zone.rfc3339(model.now),
        "host": model.host,
        "state": state,
        "summary": summary,
        "jobs": model.jobs.values().map(|j| job(session, j, zone)).collect::<Vec<_>>(),
        "gpus": model.gpus.values().map(|g| gpu(model, g)).collect::<Vec<_>>(),
        "ports": ports(model),
        "comms": comms(model),
        "findings": session.ledger.open().into_iter().map(|f| {
            let mut fields = Map::new();
            finding_fields(&mut fields, f, zone);
            fields.insert("steps".into(), steps(session, f));
            fields.insert("watchdog".into(), watchdog(session, f));
            Value::Object(fields)
        }).collect::<Vec<_>>(),
        "sources": model.sources.iter().map(|(id, v)| json!({
            "id": id, "state": v.state, "detail": v.detail,
        })).collect::<Vec<_>>(),
    });
    for (field, value) in super::host::json(model, zone) {
        document[field] = value;
    }
    crate::base::mask::document(&mut document);
    document
}

fn job(session: &Session, job: &Job, zone: Zone) -> Value {
    let model = &session.model;
    let verdict = session.verdicts.get(&job.id);
    let ranks: Vec<Value> = job
        .ranks
        .iter()
        .map(|(rank, pid)| {
            let process = model.processes.get(pid);
            json!({
                "rank": rank,
                "local_rank": process.and_then(Process::local_rank),
                "pid": pid,
                "gpu": model.gpu_of_pid(*pid),
                "process_state": process.filter(|p| p.is_alive()).and_then(|p| p.sample.state),
            })
        })
        .collect();
    let logs: Vec<&str> = model.files_of(&job.id).filter(|f| f.is_readable()).map(|f| f.info.path.as_str()).collect();
    let identity = identity::of(model, job);
    json!({
        "id": job.id,
        "shared_id": identity.id,
        "slurm": identity.slurm.map(|slurm| json!({
            "job_id": slurm.job_id,
            "job_name": slurm.name,
            "user": slurm.user,
            "account": slurm.account,
            "partition": slurm.partition,
            "cluster": slurm.cluster,
        })),
        "pod": identity.pod.map(|pod| json!({
            "namespace": pod.namespace,
            "name": pod.name,
            "container": pod.container,
            "uid": pod.uid,
        })),
        "state": verdict.map(|v| v.state),
        "phase": verdict.and_then(|v| v.phase),
        "area": verdict.and_then(|v| v.area),
        "summary": verdict.map(|v| v.summary.as_str()),
        "startup": session.startups.get(&job.id).map(|startup| {
            startup.took(model.now).into_iter().map(|(phase, took)| json!({ "phase": phase, "s": took.as_secs_f64() })).collect::<Vec<_>>()
        }),
        "attempt": model.attempt_of(job).map(|attempt| attempt.no),
        "went_back": model.went_back(job).map(|(from, to)| json!({ "from": from, "to": to })),
        "launcher": model.launcher_name(job),
        "world_size": job.world_size,
        "ranks": ranks,
        "logs": logs,
        "estimated_step": model.rhythm_of(job).map(|rhythm| json!({
            "step_time_s": rhythm.period_s,
            "from": rhythm.of.as_str(),
            "agree": rhythm.agree,
            "of": rhythm.all,
            "times_seen": rhythm.times,
        })),
        "quiet": session.hesitates(&job.id).map(|quiet| json!({ "for_s": quiet.lasts.as_secs_f64(), "usual_s": quiet.usual_s })),
        "training": model.progress_of(&job.id).filter(|p| !p.is_empty()).map(|p| {
            let mut fields = training(p);
            fields.insert("last_progress_at".into(), json!(p.last_step_at.map(|at| zone.rfc3339(at))));
            fields
        }),
    })
}

/// How far training came. JSON has no NaN: a loss that is not finite is null here, and has its finding.
pub fn training(progress: &Progress) -> Map<String, Value> {
    let fields = json!({
        "dialect": progress.dialect.as_str(),
        "step": progress.step,
        "total_steps": progress.total_steps,
        "epoch": progress.epoch,
        "loss": progress.loss.filter(|l| l.is_finite()),
        "step_time_s": progress.step_time_s,
        "throughput": progress.throughput,
        "throughput_unit": progress.throughput_unit,
        "finished": progress.done_at.is_some(),
    });
    match fields {
        Value::Object(fields) => fields,
        _ => Map::new(),
    }
}

fn gpu(model: &Model, gpu: &Gpu) -> Value {
    let sample = &gpu.sample;
    let gpm = gpu.gpm().unwrap_or_default();
    let owner = model.ranks_on_gpu(gpu.index);
    json!({
        "index": gpu.index,
        "uuid": gpu.info.uuid,
        "name": gpu.info.name,
        "bus_id": gpu.info.bus_id,
        "numa": gpu.info.numa,
        "job": owner.as_ref().map(|(job, _)| job.id.as_str()),
        "rank": model.only_rank_on_gpu(gpu.index).map(|(_, rank)| rank),
        "ranks": owner.map_or_else(Vec::new, |(_, ranks)| ranks),
        "pids": gpu.processes.iter().map(|p| p.pid).collect::<Vec<_>>(),
        "activity": gpu.activity.as_str(),
        "util_pct": sample.util_pct,
        "sm_active_pct": gpm.sm_active_pct.map(tenths),
        "tensor_active_pct": gpm.tensor_active_pct.map(tenths),
        "dram_active_pct": gpm.dram_active_pct.map(tenths),
        "mem_used_bytes": sample.mem_used_bytes,
        "mem_total_bytes": gpu.mem_total_bytes(),
        "power_mw": sample.power_mw,
        "power_limit_mw": gpu.info.power_limit_mw,
        "temp_c": sample.temp_c,
        "sm_clock_mhz": sample.sm_clock_mhz,
        "throttle": sample.throttle_bits.map(throttle_words),
        "nvlink_tx_bytes_per_s": gpu.nvlink_tx_bytes_per_s,
        "nvlink_rx_bytes_per_s": gpu.nvlink_rx_bytes_per_s,
        "nvlink_links_up": gpu.nvlinks_up(),
        "nvlink_line_rate_bytes_per_s": gpu.nvlinks.line_rate_bytes_per_s(),
        "nvlinks": nvlinks(gpu),
        "pcie_tx_bytes_per_s": gpm.pcie_tx_bytes_per_s,
        "pcie_rx_bytes_per_s": gpm.pcie_rx_bytes_per_s,
        "trouble": gpu.trouble.as_ref().map(|(_, t)| t.detail.as_str()),
    })
}

/// Link by link; empty where there is none, or nothing is known of it.
fn nvlinks(gpu: &Gpu) -> Vec<Value> {
    let health = gpu.health.clone().unwrap_or_default();
    let bytes = |of: &[u32], no: usize| of.get(no).map(|mbytes| f64::from(*mbytes) * 1e6);
    let links = gpu.nvlinks.now.links.iter().enumerate();
    links
        .map(|(no, link)| {
            json!({
                "link": no,
                "state": health.nvlink_states.get(no).copied().flatten().map(|state| match state {
                    0 => "off",
                    1 => "active",
                    2 => "sleep",
                    _ => "unknown",
                }),
                "generation": link.generation(),
                "line_rate_bytes_per_s": link.speed_mbytes_per_s.map(|mbytes| mbytes as f64 * 1e6),
                "remote": link.remote,
                "tx_bytes_per_s": bytes(&health.nvlink_tx_mbytes_per_s, no),
                "rx_bytes_per_s": bytes(&health.nvlink_rx_mbytes_per_s, no),
                "replays": link.replays,
                "recoveries": link.recoveries,
                "crc_errors": link.crc_errors,
                "receive_errors": link.receive_errors,
                "effective_errors": link.effective_errors,
            })
        })
        .collect()
}

/// GPM's own resolution is no better.
fn tenths(pct: f32) -> f64 {
    (f64::from(pct) * 10.0).round() / 10.0
}

fn ports(model: &Model) -> Vec<Value> {
    let topology = Topology::of(model);
    let nearest = |place: Place| topology.nearest_gpus(&place).first().copied();
    let rdma = model.ports.values().map(|p| {
        let (info, sample) = (&p.info, &p.sample);
        json!({
            "device": info.device,
            "port": info.port,
            "netdev": info.netdev,
            "kind": info.kind.as_str(),
            "state": p.link.now.as_str(),
            "physical_state": sample.phys_state,
            "link_layer": info.link_layer,
            "bus_id": info.bus_id,
            "numa": info.numa,
            "nearest_gpu": nearest(Place::of_port(info)),
            "driver": info.driver,
            "driver_version": info.driver_version,
            "firmware": info.firmware,
            "model": info.model,
            "guid": info.guid,
            "pci_link": info.pci_link,
            "physical_function": info.physical_function,
            "sub_function": info.sub_function,
            "gpu_direct": info.gpu_direct,
            "counters_hidden": info.counters_hidden,
            "unreadable": sample.unreadable,
            "line_rate_bits_per_s": sample.line_rate_bits_per_s,
            "tx_bytes_per_s": p.tx_bytes_per_s(),
            "rx_bytes_per_s": p.rx_bytes_per_s(),
            "rates": p.counters.rates(),
            "queue_pairs": model.queue_pairs_of(p).map(|(_, users)| users.iter().map(queue_pairs).collect::<Vec<_>>()),
        })
    });
    let netdevs = model.netdevs.values().filter(|n| !n.is_loopback()).map(|n| {
        let (info, sample) = (&n.info, &n.sample);
        json!({
            "device": sample.name,
            "port": Value::Null,
            "netdev": sample.name,
            "kind": "netdev",
            "state": n.link.now.as_str(),
            "carrier_changes": sample.carrier_changes,
            "carrier_down_count": sample.carrier_down_count,
            "mtu": sample.mtu,
            "bus_id": sample.bus_id,
            "numa": info.numa,
            "nearest_gpu": nearest(topology.place_of_interface(n)),
            "driver": sample.driver,
            "driver_version": info.driver_version,
            "firmware": info.firmware,
            "pci_link": info.pci_link,
            "physical_function": info.physical_function,
            "line_rate_bits_per_s": sample.speed_mbits_per_s.map(|m| m.saturating_mul(1_000_000)),
            "tx_bytes_per_s": n.counters.rate("tx_bytes"),
            "rx_bytes_per_s": n.counters.rate("rx_bytes"),
            "rates": n.counters.rates(),
        })
    });
    rdma.chain(netdevs).collect()
}

/// Of a process, or of the kernel.
fn queue_pairs(user: &QueuePairUser) -> Value {
    json!({
        "job": user.job.map(|job| &job.id),
        "rank": user.rank,
        "pid": user.pid,
        "kernel": user.kernel,
        "count": user.count,
    })
}

/// The newest operation of its kind and size that the NCCL Inspector has measured on this node.
fn inspected(of: &Fastest) -> Value {
    json!({
        "collective": of.op.name,
        "size_bytes": of.op.bytes,
        "exec_us": of.op.exec_us,
        "algbw_gbytes_per_s": of.op.algbw_gbytes_per_s,
        "busbw_gbytes_per_s": of.op.busbw_gbytes_per_s,
        "share_pct": of.share_pct().map(|pct| (pct * 10.0).round() / 10.0),
        "platform": of.reach.map(|reach| json!({
            "is": reach.words(),
            "busbw_gbytes_per_s": reach.gbytes_per_s,
            "source": reach.source,
        })),
    })
}

fn comms(model: &Model) -> Vec<Value> {
    let comms = model.comms.values().map(|comm| {
        let mut counts: Map<String, Value> = Map::new();
        let names: std::collections::BTreeSet<&String> = comm.ranks.values().flat_map(|r| r.counts.keys()).collect();
        for name in names {
            let max = comm.ranks.values().filter_map(|r| r.counts.get(name)).max().copied().unwrap_or(0);
            let behind: Map<String, Value> = comm
                .ranks
                .iter()
                .filter_map(|(rank, r)| Some((rank.to_string(), *r.counts.get(name)?)))
                .filter(|(_, have)| *have < max)
                .map(|(rank, have)| (rank, have.into()))
                .collect();
            if max > 0 {
                counts.insert(name.clone(), json!({ "max": max, "behind": behind }));
            }
        }
        let hosts: std::collections::BTreeSet<&String> = comm.ranks.values().filter_map(|r| r.host.as_ref()).collect();
        json!({
            "id": format!("{:#x}", comm.hash),
            "nranks": comm.nranks,
            "nnodes": (!hosts.is_empty()).then_some(hosts.len()),
            "missing_ranks": comm.missing.keys().collect::<Vec<_>>(),
            "counts": counts,
            "inspector": model.fastest_of(comm).iter().map(inspected).collect::<Vec<_>>(),
        })
    });
    comms.collect()
}

/// The same for people, with panes as text: the title of each, and its lines.
pub fn text(session: &Session, zone: Zone, panes: Vec<(String, Vec<String>)>) -> String {
    use crate::base::mask::shown;
    use std::fmt::Write;
    let model = &session.model;
    let mut out = String::new();
    let (state, summary) = session.state();
    let _ = writeln!(out, "{} at {}: {}: {summary}", model.host, zone.rfc3339(model.now), state.as_str());
    for finding in session.ledger.open() {
        let _ = writeln!(out, "  {} {}: {}", finding.severity.as_str(), finding.rule, finding.summary);
        if let Some(next) = crate::diagnosis::remedies::first(model, finding) {
            let _ = writeln!(out, "    next: {next}");
        }
    }
    let machine = super::host::lines(model).into_iter().map(|line| format!(" {line}")).collect();
    for (title, lines) in
        std::iter::once(("Machine".to_owned(), machine)).chain(panes).filter(|(_, lines): &(_, Vec<String>)| !lines.is_empty())
    {
        let _ = writeln!(out, "\n{title}");
        for line in lines {
            let _ = writeln!(out, "  {}", line.trim_end());
        }
    }
    // Line by line, because cleaning takes line feeds away.
    out.lines().map(|l| format!("{}\n", shown(l))).collect()
}
