//! What the GPUs do.

use super::{Pane, or_dash};
use crate::model::Model;
use crate::model::gpu::{Activity, Gpu};
use crate::session::Session;
use crate::tui::{Ui, theme::Theme};
use crate::units::{gbytes_per_s, gib};
use ratatui::text::{Line, Span};

/// Eight rows and their head: what a node has, usually.
pub const PANE: Pane = Pane { title, least: 9, priority: 1, keeps_end: false, lines };

fn title(session: &Session) -> String {
    let gpus = &session.model.gpus;
    let names: std::collections::BTreeSet<&str> = gpus.values().filter_map(|g| g.info.name.as_deref()).collect();
    match names.len() {
        0 => format!("GPUs: {}", gpus.len()),
        1 => format!("GPUs: {} × {}", gpus.len(), names.first().copied().unwrap_or("")),
        _ => format!("GPUs: {} of {} kinds", gpus.len(), names.len()),
    }
}

/// One column: everything about it in one row.
struct Column {
    head: &'static str,
    width: usize,
    cell: fn(&Model, &Gpu) -> Option<String>,
}

const COLUMNS: &[Column] = &[
    Column { head: "#", width: 2, cell: |_, g| Some(g.index.to_string()) },
    Column { head: "rank", width: 5, cell: |m, g| rank(m, g).map(|r| r.to_string()) },
    Column { head: "pid", width: 7, cell: |_, g| g.processes.first().map(|p| p.pid.to_string()) },
    Column { head: "activity", width: 8, cell: |_, g| g.activity.as_str().map(str::to_owned) },
    Column { head: "util%", width: 5, cell: |_, g| g.sample.util_pct.map(|u| u.to_string()) },
    Column { head: "SM%", width: 4, cell: |_, g| pct(g.gpm()?.sm_active_pct) },
    Column { head: "tens%", width: 5, cell: |_, g| pct(g.gpm()?.tensor_active_pct) },
    Column { head: "DRAM%", width: 5, cell: |_, g| pct(g.gpm()?.dram_active_pct) },
    Column {
        head: "NVLink GB/s",
        width: 12,
        cell: |_, g| Some(format!("{:>5} {:>5}", gbytes_per_s(g.nvlink_tx_bytes_per_s?), gbytes_per_s(g.nvlink_rx_bytes_per_s?))),
    },
    Column { head: "mem GiB", width: 12, cell: |_, g| Some(format!("{}/{}", gib(g.sample.mem_used_bytes?), gib(g.mem_total_bytes()?))) },
    Column {
        head: "W/limit",
        width: 8,
        cell: |_, g| {
            let limit = g.info.power_limit_mw.map_or("–".into(), |l| (l / 1000).to_string());
            Some(format!("{}/{limit}", g.sample.power_mw? / 1000))
        },
    },
    Column { head: "°C", width: 3, cell: |_, g| g.sample.temp_c.map(|t| t.to_string()) },
    Column { head: "SM MHz", width: 6, cell: |_, g| g.sample.sm_clock_mhz.map(|c| c.to_string()) },
];

fn pct(value: Option<f32>) -> Option<String> {
    value.map(|v| format!("{v:.0}"))
}

fn rank(model: &Model, gpu: &Gpu) -> Option<u32> {
    model
        .jobs
        .values()
        .filter(|j| !model.is_stale(j))
        .find_map(|job| job.ranks.iter().find(|(_, pid)| gpu.processes.iter().any(|p| p.pid == **pid)).map(|(rank, _)| *rank))
}

fn lines(session: &Session, _ui: &Ui, theme: &Theme, width: u16) -> Vec<Line<'static>> {
    let model = &session.model;
    if model.gpus.is_empty() {
        let why = model.sources.get(&crate::observe::SourceId::of("nvml")).and_then(|v| v.detail.clone());
        return vec![Line::styled(format!(" {}", why.unwrap_or_else(|| "no GPU seen yet".into())), theme.dim)];
    }
    let mut columns = Vec::new();
    let mut used = 0;
    for column in COLUMNS {
        let all_absent = model.gpus.values().all(|g| (column.cell)(model, g).is_none());
        if used + column.width < usize::from(width) && !(all_absent && column.head != "rank") {
            used += column.width + 1;
            columns.push(column);
        }
    }
    let head: String = columns.iter().map(|c| format!(" {:>w$}", c.head, w = c.width)).collect();
    let mut lines = vec![Line::styled(head, theme.dim)];
    for gpu in model.gpus.values() {
        let spans: Vec<Span> = columns
            .iter()
            .map(|c| {
                let text = format!(" {:>w$}", or_dash((c.cell)(model, gpu)), w = c.width);
                let style = match (c.head, gpu.activity) {
                    ("activity", Activity::Waiting) => theme.look,
                    ("activity", Activity::Lost) => theme.act,
                    ("activity", Activity::Working) => theme.good,
                    _ => theme.text,
                };
                Span::styled(text, style)
            })
            .collect();
        lines.push(Line::from(spans));
    }
    lines
}
