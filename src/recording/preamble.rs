//! What a session knows, as observations again: the beginning of a recording whose first part is no longer kept. Judged from here
//! on, findings are those that the whole would give, as far as facts and kept lines carry them. No clock, no file, no thread.

use crate::base::time::Stamp;
use crate::model::Model;
use crate::observe::gpu::GpuProcesses;
use crate::observe::log::{Line, Lines};
use crate::observe::process::{ProcessGone, ProcessRole};
use crate::observe::{Body, Observation, SourceId, SourceReport};

/// Empty for a session that has seen nothing.
pub fn of(model: &Model) -> Vec<Observation> {
    let Some(start) = model.started else { return Vec::new() };
    let mut out = Vec::new();
    let mut tell = |at: Stamp, from: &SourceId, body| out.push(Observation { at, host: None, from: from.clone(), body });
    let of = SourceId::of;
    for (id, view) in &model.sources {
        tell(start, id, Body::Source(SourceReport { state: view.state, detail: view.detail.clone(), title: view.title }));
    }
    if let Some(node) = &model.node {
        tell(start, &of("host"), Body::Node(node.clone()));
    }
    if let Some(facts) = &model.facts {
        tell(start, &of("host"), Body::HostFacts(Box::new(facts.as_ref().clone())));
    }
    for gpu in model.gpus.values() {
        tell(start, &of("nvml"), Body::GpuInfo(gpu.info.clone()));
    }
    if let Some(topology) = &model.topology {
        tell(start, &of("nvml"), Body::GpuTopology(topology.clone()));
    }
    for gpu in model.gpus.values().filter(|g| g.nvlinks.is_known()) {
        tell(start, &of("nvml"), Body::Nvlinks(gpu.nvlinks.now.clone()));
    }
    for port in model.ports.values().filter(|p| !p.info.device.is_empty()) {
        tell(start, &of("rdma"), Body::PortInfo(port.info.clone()));
    }
    // Who reads in order knows the parent before its ranks.
    let mut processes: Vec<_> = model.processes.values().collect();
    processes.sort_by_key(|p| (p.info.role != ProcessRole::Launcher, p.info.pid));
    for process in processes {
        tell(process.first_seen.max(start), &of("procs"), Body::Process(process.info.clone()));
        if let Some(gone) = process.gone {
            let told = ProcessGone { pid: process.info.pid, start_ticks: process.info.start_ticks, exit_code: gone.exit_code };
            tell(gone.at, &of("procs"), Body::ProcessGone(told));
        }
    }
    for file in model.files.values() {
        tell(start, &of("tail"), Body::LogFile(file.info.clone()));
    }
    for line in model.logbook.iter() {
        let text = Line { no: line.no, text: line.text.to_string(), ..Line::default() };
        tell(line.at.max(start), &of("tail"), Body::Lines(Lines { file: line.file, lines: vec![text], ..Lines::default() }));
    }
    for (at, line) in &model.kernel {
        tell((*at).max(start), &of("kmsg"), Body::Kernel { lines: vec![line.clone()], uptime_us: None });
    }
    for dump in model.dumps.iter() {
        tell(dump.at, &of("flight"), Body::FlightDump(dump.seen.as_ref().clone()));
    }
    for remark in &model.remarks {
        tell(model.now, &of("feed"), Body::Remark(remark.clone()));
    }
    for seen in model.inspected.values() {
        tell(model.now, &of("inspector"), Body::Inspector(seen.clone()));
    }
    let held: Vec<GpuProcesses> = model.gpus.values().map(|g| GpuProcesses { index: g.index, processes: g.processes.clone() }).collect();
    if !held.is_empty() {
        tell(model.now, &of("nvml"), Body::GpuProcesses { gpus: held });
        let health: Vec<_> = model.gpus.values().filter_map(|g| g.health.clone()).collect();
        if !health.is_empty() {
            tell(model.now, &of("nvml"), Body::GpuHealth { gpus: health });
        }
    }
    // Stable: at one instant facts come before lines.
    out.sort_by_key(|seen| seen.at);
    out
}
