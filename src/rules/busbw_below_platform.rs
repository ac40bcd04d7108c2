//! What nccl-tests measured, against what machines of the kind reach.

use super::{FactContext, Implies, ONCE, Rule};
use crate::base::bandwidth::{self, Does, GBYTES_PER_100_GBITS, Gpu, Reach, Shape, Way};
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Severity};
use crate::base::units::size_words;
use crate::formats::nccl_tests::{Row, Side, Table};
use crate::logs::Ofi;
use crate::model::bringup::Bringup;
use crate::rules::findings::Finding;
use std::collections::BTreeMap;

pub const RULE: Rule = Rule {
    id: "busbw-below-platform",
    severity: Severity::Warning,
    title: "The bandwidth that nccl-tests measured is far below what machines of the kind reach, or falls within its table",
    how: "The largest sizes of the table against published measurements with the same GPUs, as many of them on as many nodes. Nothing is said \
          where these are not all listed, where sizes are small, or where one operation was not measured by itself (-m, -z, -C). Over the \
          network it is a remark, unless NCCL names more ports than so little takes. Without a \
          platform to compare with: two sizes in a row that get a small part of what a smaller one got, and a level that falls at a size of 64 MiB or more and stays low to the end",
    advice: "Run it again with NCCL_DEBUG=INFO and give the log to `nccl-top check`: it shows transports, ports and what was switched off. \
             Within a node look at P2P, NVLinks and NVLS, between nodes at GPUDirect RDMA and at ports that are down or slow",
    life: ONCE,
    implies: Implies::Nothing,
    on_facts: Some(check),
    limits: &[&BELOW, &FALLEN, &EDGE],
    ..Rule::PLAIN
};

/// Healthy machines reach nine tenths and more: Azure's node health checks take 90 % (8 H200) to 99 % (8 A100) as the least.
const BELOW: Limit = Limit::percent("busbw-below-platform", "below", 80.0, "less than this share of what such machines reach is a warning");
/// Algorithms and protocols change with sizes, and cost up to half at a border.
const FALLEN: Limit = Limit::percent(
    "busbw-below-platform",
    "fallen",
    35.0,
    "two sizes in a row that get less than this share of what a smaller one got are a warning",
);
/// A level that lasts to the end of the table.
const EDGE: Limit = Limit::percent(
    "busbw-below-platform",
    "edge",
    70.0,
    "a level that lasts from one size of 64 MiB or more to the end is a warning below this share of the level before it",
);
const EDGE_BYTES: u64 = 64 << 20;
/// Below it latency rules, which varies.
const LARGE_BYTES: u64 = 1 << 20;
/// The slowest port that nodes with NVSwitches are given, Gb/s.
const SLOWEST_PORT: u32 = 100;
/// What makes NCCL slower where it is set, and whoever tests may have set on purpose.
const SETTINGS: &[&str] = &[
    "NCCL_ALGO",
    "NCCL_PROTO",
    "NCCL_NVLS_ENABLE",
    "NCCL_P2P_DISABLE",
    "NCCL_P2P_LEVEL",
    "NCCL_SHM_DISABLE",
    "NCCL_IB_DISABLE",
    "NCCL_IB_HCA",
    "NCCL_NET",
    "NCCL_NET_GDR_LEVEL",
    "NCCL_MAX_NCHANNELS",
    "NCCL_MAX_CTAS",
    "NCCL_MNNVL_ENABLE",
];

/// A table's figure beside that of the platform.
pub(crate) struct Compared {
    pub(crate) reach: &'static Reach,
    pub(crate) busbw: f64,
    pub(crate) size_bytes: u64,
    line: u64,
}

impl Compared {
    /// 1 is all that is reached.
    pub(crate) fn share(&self) -> f64 {
        self.busbw / self.reach.gbytes_per_s
    }
}

/// Without a finding, for the report's facts.
pub(crate) fn compare(table: &Table, bringup: &Bringup) -> Option<Compared> {
    let (model, nodes, per_node) = table.devices.alike().filter(|_| !table.odd_timing)?;
    let shape = Shape { gpu: Gpu::of_name(model)?, nodes, per_node };
    let does = Does::of_name(table.collective.as_deref()?)?;
    let nvls = is_off(bringup).then_some(false);
    let ranks = nodes.checked_mul(per_node).filter(|n| *n > 1)?;
    let found = table.rows.iter().filter_map(|row| {
        let (busbw, _) = row.busbw().filter(|_| is_of(row, does, ranks))?;
        let reach = bandwidth::reach(shape, does, row.size_bytes, busbw, nvls)?;
        Some(Compared { reach, busbw, size_bytes: row.size_bytes, line: row.line })
    });
    found.max_by(|a, b| a.busbw.total_cmp(&b.busbw))
}

fn is_off(bringup: &Bringup) -> bool {
    let set = |name: &str| bringup.env.get(name).and_then(|values| Some(values.first()?.value.as_str()));
    set("NCCL_NVLS_ENABLE") == Some("0")
        || set("NCCL_ALGO").is_some_and(|algo| !algo.starts_with('^') && !algo.to_lowercase().contains("nvls"))
}

/// The factor between both bandwidths is that of so many ranks: programs built without MPI run each rank by itself.
fn is_of(row: &Row, does: Does, ranks: u32) -> bool {
    let n = f64::from(ranks);
    let expected = match does {
        Does::AllReduce => 2.0 * (n - 1.0) / n,
        Does::AllToAll => (n - 1.0) / n,
        Does::Gather if row.root.is_some() => 1.0,
        Does::Gather => (n - 1.0) / n,
    };
    let fits = |side: &Side| side.algbw.zip(side.busbw).is_some_and(|(algbw, busbw)| (busbw / algbw / expected - 1.0).abs() < 0.02);
    [row.out_of_place, row.in_place].iter().flatten().any(fits)
}

fn check(ctx: &FactContext, out: &mut Vec<Finding>) {
    for facts in ctx.each() {
        // Of runs of one kind the slowest.
        let mut slowest: BTreeMap<(Does, u32, u32), (&str, String, Compared)> = BTreeMap::new();
        for (path, table) in &ctx.model.record_of(&facts.job.id).tables {
            let Some(compared) = compare(table, facts.bringup) else { continue };
            let key = (compared.reach.does, compared.reach.nodes, compared.reach.per_node);
            if slowest.get(&key).is_none_or(|(_, _, known)| compared.share() < known.share()) {
                slowest.insert(key, (path, table.name(), compared));
            }
        }
        for (path, name, compared) in slowest.into_values() {
            let found = finding(&name, path, &compared, facts.bringup);
            out.push(Finding { job: Some(facts.job.id.clone()), ..found });
        }
        let tables = &ctx.model.record_of(&facts.job.id).tables;
        out.extend(
            tables
                .iter()
                .filter_map(|(path, table)| {
                    Some(Finding { job: Some(facts.job.id.clone()), ..fall(path, table).or_else(|| edge(path, table))? })
                })
                .take(MOST_FALLS),
        );
    }
}

/// Findings of one job.
const MOST_FALLS: usize = 4;

/// Larger messages get a small part of what smaller ones got: the network loses packets at their rate, or another path carries them.
fn fall(path: &str, table: &Table) -> Option<Finding> {
    let rows: Vec<(&Row, f64)> = table.rows.iter().filter(|_| !table.odd_timing).filter_map(|row| Some((row, row.busbw()?.0))).collect();
    // Several runs of one table, and sizes that grow by little, are no series; one rank copies within its GPU, faster within its caches.
    let doubles = |pair: &[(&Row, f64)]| pair[1].0.size_bytes >= pair[0].0.size_bytes.saturating_mul(2);
    if !rows.windows(2).all(doubles) || table.ranks == Some(1) {
        return None;
    }
    let mut best: Option<(&Row, f64)> = None;
    for (i, &(row, busbw)) in rows.iter().enumerate().filter(|(_, (row, _))| row.size_bytes >= LARGE_BYTES) {
        let Some((top, most)) = best else {
            best = Some((row, busbw));
            continue;
        };
        let least = most * FALLEN.value() / 100.0;
        if busbw < least && rows.get(i + 1).is_some_and(|(_, next)| *next < least) {
            let last = rows[i..].iter().take_while(|(_, busbw)| *busbw < least).last()?.0;
            let (name, size) = (table.name(), size_words(row.size_bytes));
            let ends = rows.last().is_some_and(|(end, _)| end.size_bytes == last.size_bytes);
            let until = if ends { "and stays there".to_owned() } else { format!("until {}", size_words(last.size_bytes)) };
            let summary = format!(
                "{name}: bus bandwidth falls from {most:.1} GB/s at {} to {busbw:.1} GB/s at {size}, {until}",
                size_words(top.size_bytes)
            );
            let line = |row: &Row| (row.line > 0).then_some(row.line);
            let found = RULE
                .weighed(Severity::Warning, Confidence::Likely, summary)
                .because("larger messages get at least what smaller ones get, apart from borders between algorithms: packets are lost or paused, or go another way")
                .proved("line", path, line(top), format!("{most:.2} GB/s at {}", size_words(top.size_bytes)))
                .proved("line", path, line(row), format!("{busbw:.2} GB/s at {size}"));
            let next = "run it again and read the counters of the ports meanwhile (`nccl-top`, pane Network: retransmits, pauses, ECN marks); \
                        compare with fewer nodes, and with another algorithm or protocol (NCCL_ALGO, NCCL_PROTO)";
            return Some(Finding { subject: format!("fall of {path}"), next: Some(next.into()), ..found });
        }
        if busbw > most {
            best = Some((row, busbw));
        }
    }
    None
}

/// One level up to a size, and another from the next size to the end: large messages take one path with one protocol, so that no border
/// between these explains it.
fn edge(path: &str, table: &Table) -> Option<Finding> {
    /// Rows on each side, and how near those behind must be to one another.
    const ROWS: usize = 4;
    const LEVEL: f64 = 0.75;
    let large = |row: &&Row| row.size_bytes >= EDGE_BYTES && !table.odd_timing;
    let rows: Vec<(&Row, f64)> = table.rows.iter().filter(large).filter_map(|row| Some((row, row.busbw()?.0))).collect();
    // Several runs of one table are no series; one rank copies within its GPU.
    if rows.windows(2).any(|pair| pair[1].0.size_bytes <= pair[0].0.size_bytes) || table.ranks == Some(1) {
        return None;
    }
    let least_of = |rows: &[(&Row, f64)]| rows.iter().map(|(_, busbw)| *busbw).fold(f64::INFINITY, f64::min);
    let most_of = |rows: &[(&Row, f64)]| rows.iter().map(|(_, busbw)| *busbw).fold(0.0, f64::max);
    let is_edge = |at: &usize| most_of(&rows[*at..]) < least_of(&rows[*at - ROWS..*at]) * EDGE.value() / 100.0;
    let at = (ROWS..(rows.len() + 1).saturating_sub(ROWS)).find(is_edge)?;
    // What goes on falling is no level.
    if least_of(&rows[at..]) < most_of(&rows[at..]) * LEVEL {
        return None;
    }
    let ((before, high), (behind, low)) = (rows[at - 1], rows[at]);
    let (name, size) = (table.name(), size_words(behind.size_bytes));
    let summary = format!(
        "{name}: bus bandwidth falls at {size} from {high:.1} to {low:.1} GB/s, and stays there up to {}",
        size_words(rows[rows.len() - 1].0.size_bytes)
    );
    let line = |row: &Row| (row.line > 0).then_some(row.line);
    let found = RULE
        .weighed(Severity::Warning, Confidence::Likely, summary)
        .because("messages of these sizes all take one path and one protocol: from that size on something else limits them, as memory that is registered anew")
        .proved("line", path, line(before), format!("{high:.2} GB/s at {}", size_words(before.size_bytes)))
        .proved("line", path, line(behind), format!("{low:.2} GB/s at {size}"));
    let several = table.devices.alike().is_none_or(|(_, nodes, _)| nodes > 1);
    let next = if several {
        "compare the settings of all nodes (NCCL_DEBUG=INFO on all of them: `NET/IB/…/GDRDMA` in both directions, `set by environment` on each; \
         mpirun needs -x for each variable), and run it again with -R 1 and with one size on each side"
    } else {
        "run it again with NCCL_DEBUG=INFO and with one size on each side; compare with fewer GPUs, and with another algorithm or protocol (NCCL_ALGO, NCCL_PROTO)"
    };
    Some(Finding { subject: format!("edge of {path}"), next: Some(next.into()), ..found })
}

fn finding(name: &str, path: &str, seen: &Compared, bringup: &Bringup) -> Finding {
    let (reach, busbw) = (seen.reach, seen.busbw);
    let measured = format!("{name}: {busbw:.1} GB/s at {}", size_words(seen.size_bytes));
    let (platform, all) = (reach.words(), format!("{:.0} GB/s", reach.gbytes_per_s));
    let share = seen.share() * 100.0;
    let prove = |found: Finding| {
        let text = format!("{busbw:.2} GB/s at {}", size_words(seen.size_bytes));
        found.proved("line", path, (seen.line > 0).then_some(seen.line), text).proved(
            "platform",
            "",
            None,
            format!("{all}: {}", reach.source),
        )
    };
    if share >= BELOW.value() {
        let summary = if share > 105.0 {
            format!("{measured}: more than {platform} ({all})")
        } else {
            format!("{measured}: {share:.0} % of what {platform} ({all})")
        };
        return prove(RULE.weighed(Severity::Info, Confidence::Likely, summary).because("as fast as machines of the kind are"));
    }
    let (severity, looks) = suspect(seen, bringup);
    let summary = format!("{measured}: {share:.0} % of what {platform} ({all}): {looks}");
    let mut found = prove(RULE.weighed(severity, Confidence::Likely, summary));
    let set: Vec<String> = SETTINGS.iter().filter_map(|name| Some(format!("{name}={}", bringup.env.get(*name)?.first()?.value))).collect();
    found.why = match (set.is_empty(), severity, reach.way) {
        (false, _, _) => format!("the log shows {}, which may be why", set.join(", ")),
        (true, Severity::Info, Way::Network { .. }) => {
            "the ports of the nodes are not known: with fewer or slower ones this may be all they can do".to_owned()
        }
        _ => "a training run on these machines waits that much longer for each collective".to_owned(),
    };
    found.next = Some(next(reach.way));
    found
}

/// Ports or EFA devices that NCCL says it found on a node.
fn ports_named(bringup: &Bringup) -> u32 {
    let efa = bringup.ofi.said.iter().filter_map(|said| if let Ofi::Provider { nics, .. } = said.value { Some(nics) } else { None });
    efa.max().unwrap_or(0).max(u32::try_from(bringup.devices.said.len()).unwrap_or(u32::MAX)).min(256)
}

/// How bad that is, and what carries so little.
fn suspect(seen: &Compared, bringup: &Bringup) -> (Severity, String) {
    let (reach, busbw) = (seen.reach, seen.busbw);
    match reach.way {
        Way::Network { ports, gbits } => {
            let port = f64::from(gbits) / 100.0 * GBYTES_PER_100_GBITS;
            let named = ports_named(bringup);
            let sockets = bringup.networks.said.iter().any(|s| s.value == "Socket") && named == 0;
            // A node with one port of its own has no other.
            let sure = ports == 1 || busbw < BELOW.value() / 100.0 * f64::from(named * SLOWEST_PORT) / 100.0 * GBYTES_PER_100_GBITS;
            let severity = if sure || sockets { Severity::Warning } else { Severity::Info };
            let like = (busbw / port).round();
            let of = if named > 0 { format!(", and NCCL found {named}") } else { String::new() };
            let looks = match (sockets, like as u32) {
                (true, _) => "TCP carries that, not RDMA".to_owned(),
                _ if ports == 1 && (0.38..0.62).contains(&seen.share()) => "half of it: looks like one rail of two".to_owned(),
                (_, 0) => format!("less than one port of {gbits} Gb/s carries{of}"),
                _ if ports == 1 => format!("less than a port of {gbits} Gb/s carries"),
                (_, 1) => format!("about what one port of {gbits} Gb/s carries{of}"),
                (_, n) if n * 2 == ports => {
                    format!("about what {n} of {ports} ports of {gbits} Gb/s carry: looks like one rail of two{of}")
                }
                (_, n) => format!("about what {n} ports of {gbits} Gb/s carry{of}"),
            };
            (severity, looks)
        }
        Way::NvLink if reach.nodes > 1 => {
            (Severity::Info, "are the nodes in one NVLink domain (IMEX, NCCL_MNNVL_ENABLE), or does the network carry it?".to_owned())
        }
        Way::NvLink | Way::Nvls => {
            let by_pcie = reach.gpu.pcie_gbytes_per_s().is_some_and(|pcie| busbw <= pcie);
            let links = f64::from(reach.gpu.nvlinks());
            let looks = match (seen.share() * links).round() as u32 {
                _ if by_pcie => "PCIe or shared memory carries that: NVLink is not used".to_owned(),
                n => format!("about what {n} of {links:.0} NVLinks carry"),
            };
            (Severity::Warning, looks)
        }
    }
}

fn next(way: Way) -> String {
    match way {
        Way::Network { .. } => {
            "run it with NCCL_DEBUG=INFO: are all ports in the line `NET/IB : Using`, do Channel lines end in GDRDMA? Then `ib_write_bw` on each port"
        }
        Way::NvLink | Way::Nvls => {
            "run it with NCCL_DEBUG=INFO: are Channel lines via P2P, are there nvls channels? Then `nvidia-smi nvlink -s` and `nvidia-smi topo -m`"
        }
    }
    .to_owned()
}
