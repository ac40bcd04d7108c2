//! A GPU: all its figures, their history, who uses it, its links, its health.

use super::page::{Facts, MOST};
use super::{Kind, Page, Subject};
use crate::base::time::span;
use crate::base::units::{gbytes_per_s, gib};
use crate::base::words::rank_words;
use crate::model::gpu::{GPM_HOLDS, Gpu, throttle_words};
use crate::model::series::Trend;
use crate::observe::gpu::NvLink;
use crate::tui::choices::Opened;
use crate::tui::panes::{Ctx, gpus};
use crate::tui::widgets::table::whole;
use std::time::Duration;

pub const KIND: Kind = Kind { id: "gpu", write };

/// Reasons for a lower clock are looked for in so much of the past.
const REASONS: Duration = Duration::from_secs(60);
/// Every sample stands until the next.
const HOLD: Duration = Duration::from_secs(3);

fn write(ctx: &Ctx, key: &str, page: &mut Page) -> Option<String> {
    let gpu = ctx.session.model.gpus.get(&key.parse().ok()?)?;
    let theme = ctx.theme;
    if let Some((since, trouble)) = &gpu.trouble {
        page.fact("trouble", &format!("{} for {}", trouble.detail, span(ctx.session.model.now.since(*since))), theme.act);
    }
    // What the pane has in its columns and below them is told once: what it does first.
    let without = |facts: Facts, told: &[&str]| facts.into_iter().filter(|(label, _)| !told.contains(label)).collect::<Facts>();
    let mut below = gpus::facts(ctx, gpu).into_iter().map(|facts| without(facts, &["GPU", "clock limited by"]));
    let place = below.next();
    page.facts(&below.next().unwrap_or_default());
    page.facts(&without(gpus::cells(ctx, gpu.index), &["#", "activity", "SM MHz"]));
    place.into_iter().chain(below).for_each(|facts| page.facts(&facts));
    page.facts(&more(gpu));
    let limits = gpu.reasons_within(ctx.session.model.now, REASONS);
    let words = throttle_words(limits);
    let words = if words.is_empty() { "nothing".to_owned() } else { words.join(", ") };
    page.fact("clock limited", &format!("in the last minute by {words}"), theme.text);

    page.head("History");
    let busy = if gpu.sm_trend.is_empty() { ("utilisation %", &gpu.util_trend) } else { ("SM activity %", &gpu.sm_trend) };
    page.chart(busy.0, busy.1, 1.0, GPM_HOLDS, whole);
    page.chart("power, W", &gpu.power_trend, 1.0, HOLD, whole);
    page.chart("NVLink out and in, GB/s", &gpu.nvlink_trend, 1e-9, GPM_HOLDS, |v| format!("{v:.1}"));
    let mut clock = Trend::default();
    gpu.sm_clock.iter().for_each(|(at, mhz)| clock.push(at, mhz));
    page.chart("SM clock, MHz", &clock, 1.0, HOLD, whole);

    page.head("Processes");
    if gpu.processes.is_empty() {
        page.note("none");
    }
    for process in gpu.processes.iter().take(MOST) {
        let job = ctx.session.model.jobs.values().find_map(|job| Some((job, job.rank_of(process.pid)?)));
        let rank = job.map_or(String::new(), |(job, rank)| format!("  rank {rank} of job {}", job.id));
        let memory = process.mem_bytes.map_or(String::new(), |bytes| format!("  {} GiB", gib(bytes)));
        let words = format!("pid {}{memory}{rank}", process.pid);
        page.link(&words, theme.text, Opened::Detail(Subject::new("process", process.pid)));
    }
    links(ctx, gpu, page);
    page.findings(|f| f.gpus.contains(&gpu.index));
    let name = gpu.info.name.as_deref().unwrap_or("");
    let rank = ctx
        .session
        .model
        .ranks_on_gpu(gpu.index)
        .filter(|(_, ranks)| !ranks.is_empty())
        .map(|(job, ranks)| format!("  {} of job {}", rank_words(&ranks), job.id));
    Some(format!("GPU {}  {name}{}", gpu.index, rank.unwrap_or_default()))
}

/// What there is no room for in the pane.
fn more(gpu: &Gpu) -> Facts {
    let Some(health) = &gpu.health else { return Vec::new() };
    let yes = |flag: Option<bool>| flag.map(|flag| if flag { "yes" } else { "no" }.to_owned());
    vec![
        ("remapped corrected", health.remapped_correctable.map(|n| n.to_string())),
        ("remap pending", yes(health.remap_pending)),
        ("failed", yes(health.remap_failed)),
        ("recovery action", health.recovery_action.map(|n| n.to_string())),
    ]
}

/// A row for each link that says something of itself.
fn links(ctx: &Ctx, gpu: &Gpu, page: &mut Page) {
    let links = &gpu.nvlinks.now.links;
    if links.is_empty() {
        return;
    }
    page.head("NVLinks");
    for (no, link) in links.iter().enumerate().take(MOST) {
        page.fact(&format!("link {no}"), &link_words(gpu, no, link), ctx.theme.text);
    }
}

/// `4.0 to NVSwitch  25.0 GB/s each way  out 11.2 in 11.3 GB/s  replays 0  recoveries 0  CRC errors 0`
fn link_words(gpu: &Gpu, no: usize, link: &NvLink) -> String {
    let to = match link.remote.as_deref() {
        Some(NvLink::SWITCH) => "to NVSwitch".to_owned(),
        Some(id) => format!("to {id}"),
        None => "off".to_owned(),
    };
    let mut parts = vec![format!("{} {to}", link.generation().unwrap_or("–"))];
    parts.extend(link.speed_mbytes_per_s.map(|m| format!("{} GB/s each way", gbytes_per_s(m as f64 * 1e6))));
    let moves = |of: &[u32]| of.get(no).map(|m| gbytes_per_s(f64::from(*m) * 1e6));
    if let Some(health) = &gpu.health
        && let (Some(out), Some(into)) = (moves(&health.nvlink_tx_mbytes_per_s), moves(&health.nvlink_rx_mbytes_per_s))
    {
        parts.push(format!("out {out} in {into} GB/s"));
    }
    let counts = [
        ("replays", link.replays),
        ("recoveries", link.recoveries),
        ("CRC errors", link.crc_errors),
        ("receive errors", link.receive_errors),
        ("effective errors", link.effective_errors),
    ];
    parts.extend(counts.into_iter().filter_map(|(name, count)| Some(format!("{name} {}", count?))));
    parts.join("  ")
}
