//! How GPUs and NICs are joined and what NCCL uses of it, as one document (`nccl-top.topology/1`), or as text in the form of
//! `nvidia-smi topo -m`.

use crate::base::mask::shown;
use crate::base::time::Zone;
use crate::base::units::counted;
use crate::diagnosis::session::Session;
use crate::model::Model;
use crate::model::topology::used::{InUse, Judged, Used, Verdict};
use crate::model::topology::{LEGEND, Topology, UNKNOWN};
use serde_json::{Value, json};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

pub const SCHEMA: &str = "nccl-top.topology/1";

/// Sentences that are printed; JSON has all.
const MOST_SENTENCES: usize = 16;
/// Edges of a tree that are printed.
const MOST_EDGES: usize = 32;
/// Columns of what names a row, and of a cell.
const LEFT: usize = 8;
const CELL: usize = 6;

/// Nothing is known of any GPU or NIC, and no line says what NCCL uses.
pub fn is_empty(session: &Session) -> bool {
    let model = &session.model;
    model.gpus.is_empty() && model.ports.is_empty() && jobs(session).is_empty()
}

/// Jobs of which something is known, with what they use. Rings and trees are there before the first channel.
fn jobs(session: &Session) -> Vec<(&str, &InUse)> {
    let all = session.model.jobs.keys().filter_map(|id| Some((id.as_str(), &**session.in_use(id)?)));
    all.filter(|(_, in_use)| in_use.used.seen || !in_use.used.beside.is_empty()).collect()
}

/// Absent values are `null`, never 0.
pub fn json(session: &Session, zone: Zone) -> Value {
    let model = &session.model;
    let topology = Topology::of(model);
    let gpus: Vec<u32> = topology.gpus.keys().copied().collect();
    let label = |distance: Option<crate::model::topology::Distance>| distance.map(|d| d.label());
    let pairs = gpus.iter().enumerate().flat_map(|(i, a)| gpus[i + 1..].iter().map(move |b| (*a, *b))).map(|(a, b)| {
        json!({
            "a": format!("GPU{a}"),
            "b": format!("GPU{b}"),
            "label": label(topology.gpu_to_gpu(a, b)),
            "nvlinks": topology.pair(a, b).and_then(|p| p.nvlinks),
            "pcie": label(topology.gpu_to_gpu_over_pcie(a, b)),
        })
    });
    let to_nics = gpus.iter().flat_map(|gpu| topology.nics.iter().map(move |nic| (*gpu, nic))).map(|(gpu, nic)| {
        let label = label(topology.gpu_to_nic(gpu, nic.device));
        json!({ "a": format!("GPU{gpu}"), "b": nic.device, "label": label, "nvlinks": null, "pcie": label })
    });
    let between_nics = topology.nics.iter().enumerate().flat_map(|(i, a)| topology.nics[i + 1..].iter().map(move |b| (a, b)));
    let between_nics = between_nics.map(|(a, b)| {
        let label = label(a.place.distance(&b.place));
        json!({ "a": a.device, "b": b.device, "label": label, "nvlinks": null, "pcie": label })
    });
    let mut document = json!({
        "schema": SCHEMA,
        "at": zone.rfc3339(model.now),
        "host": model.host,
        "flat": topology.is_flat(),
        "remarks": topology.remarks(),
        "gpus": model.gpus.values().map(|gpu| json!({
            "index": gpu.index,
            "name": gpu.info.name,
            "bus_id": gpu.info.bus_id,
            "numa": gpu.info.numa,
            "cpu_affinity": gpu.info.cpus,
            "numa_affinity": gpu.info.numa_affinity,
            "near_nics": topology.near_nics(gpu.index),
        })).collect::<Vec<_>>(),
        "nics": topology.nics.iter().map(|nic| {
            let near = topology.nearest_gpus(&nic.place);
            json!({
                "device": nic.device,
                "bus_id": nic.place.bus_id,
                "numa": nic.place.numa,
                "nearest_gpu": near.first(),
                "near_gpus": near,
            })
        }).collect::<Vec<_>>(),
        "links": pairs.chain(to_nics).chain(between_nics).collect::<Vec<_>>(),
        "nccl": jobs(session).iter().map(|(id, in_use)| nccl(model, &topology, id, &in_use.used)).collect::<Vec<_>>(),
    });
    crate::base::mask::document(&mut document);
    document
}

fn nccl(model: &Model, topology: &Topology, job: &str, used: &Used) -> Value {
    let judged = |a: String, b: &str, judged: Judged, transports: &std::collections::BTreeMap<String, u64>| {
        json!({
            "from": a,
            "to": b,
            "label": judged.distance.map(|d| d.label()),
            "transports": transports,
            "verdict": judged.verdict.as_str(),
            "why": judged.why,
        })
    };
    let none = std::collections::BTreeMap::new();
    let all_pairs: std::collections::BTreeSet<(u32, u32)> = used.pairs.keys().chain(used.beside.keys()).copied().collect();
    let pairs = all_pairs.iter().map(|pair @ (from, to)| {
        let transports = used.pairs.get(pair).unwrap_or(&none);
        let mut fields = judged(format!("GPU{from}"), &format!("GPU{to}"), used.pair(topology, *from, *to), transports);
        let beside = used.beside.get(pair).copied().unwrap_or_default();
        fields["ring_channels"] = beside.ring.into();
        fields["tree_channels"] = beside.tree.into();
        fields
    });
    let nets = used.nets.iter().map(|((gpu, device), net)| {
        let mut fields = judged(format!("GPU{gpu}"), device, used.net(model, topology, *gpu, device), &net.transports);
        fields["sends"] = net.sends.into();
        fields["receives"] = net.receives.into();
        fields["gpu_direct"] = net.gpu_direct.into();
        fields["pxn"] = net.pxn.into();
        fields
    });
    json!({
        "job": job,
        "pairs": pairs.collect::<Vec<_>>(),
        "nets": nets.collect::<Vec<_>>(),
        "rings": used.rings.iter().map(|ring| json!({ "ranks": ring.ranks, "channels": ring.channels, "whole": ring.whole })).collect::<Vec<_>>(),
        "trees": used.trees.iter().map(|tree| json!({ "edges": tree.edges, "channels": tree.channels })).collect::<Vec<_>>(),
        "unplaced_lines": used.unplaced,
        "of_another_host": used.of_another_host,
    })
}

/// The same for people.
pub fn text(session: &Session, color: bool) -> String {
    let model = &session.model;
    let topology = Topology::of(model);
    let mut page = Page { out: String::new(), color };
    if !topology.gpus.is_empty() || !topology.nics.is_empty() {
        page.matrix(model, &topology);
        page.legend(&topology);
    }
    for remark in topology.remarks() {
        page.line(&format!("\nNote: {remark}."));
    }
    let jobs = jobs(session);
    for (id, in_use) in &jobs {
        page.used(model, &topology, id, in_use);
    }
    if jobs.is_empty() {
        page.line("\nWhat NCCL uses is not known: no log that was read has its channel lines, which NCCL_DEBUG=INFO prints.");
    }
    page.out
}

struct Page {
    out: String,
    color: bool,
}

impl Page {
    /// Names in it come from elsewhere.
    fn line(&mut self, text: &str) {
        for line in text.split('\n') {
            let _ = writeln!(self.out, "{}", shown(line).trim_end());
        }
    }

    fn head(&mut self, columns: &[String], more: &str) {
        let cells: String = columns.iter().map(|name| format!("{name:<CELL$}")).collect();
        self.line(&format!("{:LEFT$}{cells}{more}", ""));
    }

    fn matrix(&mut self, model: &Model, topology: &Topology) {
        let widest = |words: &mut dyn Iterator<Item = usize>, head: &str| words.max().unwrap_or(0).max(head.len()) + 2;
        let cpus = widest(&mut model.gpus.values().filter_map(|g| Some(g.info.cpus.as_ref()?.len())), "CPU Affinity");
        let gpus: Vec<u32> = topology.gpus.keys().copied().collect();
        let names = gpus.iter().map(|gpu| format!("GPU{gpu}")).chain((0..topology.nics.len()).map(|n| format!("NIC{n}")));
        let names: Vec<String> = names.collect();
        let affinity = if gpus.is_empty() { String::new() } else { format!("{:<cpus$}NUMA Affinity  GPU NUMA ID", "CPU Affinity") };
        self.head(&names, &affinity);
        let cell = |distance: Option<crate::model::topology::Distance>| distance.map_or_else(|| UNKNOWN.to_owned(), |d| d.label());
        for (row, name) in names.iter().enumerate() {
            let mut line = format!("{name:<LEFT$}");
            for column in 0..names.len() {
                let text = match (gpus.get(row), gpus.get(column)) {
                    _ if row == column => " X".to_owned(),
                    (Some(a), Some(b)) => cell(topology.gpu_to_gpu(*a, *b)),
                    (Some(gpu), None) => cell(topology.gpu_to_nic(*gpu, topology.nics[column - gpus.len()].device)),
                    (None, Some(gpu)) => cell(topology.gpu_to_nic(*gpu, topology.nics[row - gpus.len()].device)),
                    (None, None) => cell(topology.nics[row - gpus.len()].place.distance(&topology.nics[column - gpus.len()].place)),
                };
                let _ = write!(line, "{text:<CELL$}");
            }
            if let Some(gpu) = gpus.get(row).and_then(|gpu| model.gpus.get(gpu)) {
                let node = gpu.info.numa_affinity.or(gpu.info.numa).map_or_else(|| "N/A".to_owned(), |n| n.to_string());
                let _ = write!(line, "{:<cpus$}{node:<15}N/A", gpu.info.cpus.as_deref().unwrap_or("N/A"));
            }
            self.line(&line);
        }
    }

    fn legend(&mut self, topology: &Topology) {
        self.line("\nLegend:\n");
        for (label, meaning) in LEGEND {
            self.line(&format!("  {label:<4} = {meaning}"));
        }
        self.line(&format!("  {UNKNOWN:<4} = Not known: the firmware names no NUMA node, or the device is no PCI function"));
        if !topology.nics.is_empty() {
            self.line("\nNIC Legend:\n");
        }
        for (no, nic) in topology.nics.iter().enumerate() {
            self.line(&format!("  NIC{no}: {}", nic.device));
        }
    }

    /// What NCCL uses, in the form of the matrix; only devices that are used have a column.
    fn used(&mut self, model: &Model, topology: &Topology, job: &str, in_use: &InUse) {
        let used = &in_use.used;
        self.line(&format!("\nWhat NCCL uses (job {job}; a row sends to a column):\n"));
        let of_pairs = used.pairs.keys().flat_map(|(a, b)| [*a, *b]);
        let mut gpus: Vec<u32> = topology.gpus.keys().copied().chain(of_pairs).chain(used.nets.keys().map(|(gpu, _)| *gpu)).collect();
        gpus.sort_unstable();
        gpus.dedup();
        let mut devices: Vec<&str> = used.nets.keys().map(|(_, device)| device.as_str()).collect();
        devices.sort_by_cached_key(|device| crate::base::words::natural(device));
        devices.dedup();
        let head =
            |device: &&str| topology.nics.iter().position(|nic| nic.device == *device).map_or((*device).to_owned(), |n| format!("NIC{n}"));
        let heads: Vec<String> = gpus.iter().map(|gpu| format!("GPU{gpu}")).chain(devices.iter().map(head)).collect();
        let widths: Vec<usize> = heads.iter().map(|head| (head.width() + 2).max(CELL)).collect();
        let line: String = heads.iter().zip(&widths).map(|(head, width)| format!("{head:<width$}")).collect();
        self.line(&format!("{:LEFT$}{line}", ""));
        for row in &gpus {
            let mut line = format!("{:<LEFT$}", format!("GPU{row}"));
            for (column, width) in widths.iter().enumerate() {
                let judged = match gpus.get(column) {
                    Some(to) if to == row => None,
                    Some(to) => Some(used.pair(topology, *row, *to)),
                    None => Some(used.net(model, topology, *row, devices[column - gpus.len()])),
                };
                line += &judged.map_or_else(|| format!("{:<width$}", " X"), |judged| self.cell(&judged, *width));
            }
            let _ = writeln!(self.out, "{}", line.trim_end());
        }
        self.line("");
        self.used_legend(used);
        self.rings_and_trees(used);
        let troubles = &in_use.troubles;
        for why in troubles.iter().take(MOST_SENTENCES) {
            let mark = self.ink("31", "!");
            let _ = writeln!(self.out, "  {mark} {}", shown(why));
        }
        if troubles.len() > MOST_SENTENCES {
            self.line(&format!("    and {} more, with --json", troubles.len() - MOST_SENTENCES));
        }
        if used.of_another_host {
            self.line("  Note: the lines name another host than this one: they may be of another machine.");
        }
        if used.unplaced > 0 {
            self.line(&format!("  Note: {} channel lines name GPUs that are not seen here.", used.unplaced));
        }
    }

    fn used_legend(&mut self, used: &Used) {
        const WORDS: &[(&str, &str)] = &[
            ("P2P", "from GPU to GPU directly, over NVLink or PCIe; so is P2P/CUMEM/read"),
            ("ind", "by way of another GPU"),
            ("SHM", "through shared memory of the host"),
            ("NET", "over the network, through memory of the host"),
            ("GDR", "over the network by GPUDirect RDMA"),
        ];
        let rows: Vec<&str> = used.pairs.values().flat_map(|t| t.keys()).map(|t| crate::model::topology::used::short(t)).collect();
        let is_there = |word: &str| match word {
            "GDR" => used.nets.values().any(|net| net.gpu_direct),
            "NET" => rows.contains(&"NET") || used.nets.values().any(|net| !net.gpu_direct),
            word => rows.contains(&word),
        };
        for (word, meaning) in WORDS.iter().filter(|(word, _)| is_there(word)) {
            self.line(&format!("  {word:<4} = {meaning}"));
        }
        self.line(if used.seen { "  .    = no channel between the two" } else { "  ?    = no log has channel lines yet" });
    }

    /// Of the largest communicator by ranks, and which GPUs are beside one another in all of them.
    fn rings_and_trees(&mut self, used: &Used) {
        for ring in &used.rings {
            let ranks: Vec<String> = ring.ranks.iter().map(u32::to_string).collect();
            let more = if ring.whole { "" } else { " …" };
            self.line(&format!("  Ring of ranks on {}: {}{more}", counted(ring.channels, "channel"), ranks.join(" ")));
        }
        for tree in &used.trees {
            let edges: Vec<String> = tree.edges.iter().take(MOST_EDGES).map(|(up, down)| format!("{up}-{down}")).collect();
            let more = if tree.edges.len() > MOST_EDGES { " …" } else { "" };
            self.line(&format!("  Tree of ranks on {}, upper first: {}{more}", counted(tree.channels, "channel"), edges.join(" ")));
        }
        // By GPU, as a ring or a tree of ranks says nothing of this node's GPUs.
        let rings = used.beside.iter().filter(|(_, beside)| beside.ring > 0).map(|((a, b), beside)| (format!("{a}>{b}"), beside.ring));
        self.beside("rings, from GPU to GPU", rings.collect());
        let trees = used.beside.iter().filter(|((a, b), beside)| beside.tree > 0 && a < b);
        self.beside("trees", trees.map(|((a, b), beside)| (format!("{a}-{b}"), beside.tree)).collect());
    }

    fn beside(&mut self, of: &str, pairs: Vec<(String, u64)>) {
        if !pairs.is_empty() {
            let pairs: Vec<String> = pairs.iter().map(|(pair, channels)| format!("{pair} ({channels})")).collect();
            self.line(&format!("  GPUs beside one another in {of} (channels): {}", pairs.join("  ")));
        }
    }

    fn cell(&self, judged: &Judged, width: usize) -> String {
        let (word, code) = match judged.verdict {
            Verdict::NotSeen => (UNKNOWN, "2"),
            Verdict::Unused => (".", "2"),
            Verdict::NotJudged => (judged.used, "33"),
            Verdict::Matches => (judged.used, "32"),
            Verdict::Below => (judged.used, "1;31"),
        };
        // Without colour a mark tells it.
        let word = if judged.verdict == Verdict::Below { format!("{word}!") } else { word.to_owned() };
        format!("{}{}", self.ink(code, &word), " ".repeat(width.saturating_sub(word.len())))
    }

    fn ink(&self, code: &str, text: &str) -> String {
        if self.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }
}
