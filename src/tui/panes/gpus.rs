//! What the GPUs do. One at 100 % that computes nothing and moves nothing is *waiting*, not busy.

mod cards;

use super::{Ctx, InStep, Pane, TRANSFER, labelled, table_row_at};
use crate::base::clean::clean;
use crate::base::time::span;
use crate::base::units::{counted, gbytes_per_s, gib};
use crate::base::words::ranges;
use crate::diagnosis::verdict::State;
use crate::model::deeds::Doing;
use crate::model::gpu::{Activity, GPM_HOLDS, Gpu, throttle_words};
use crate::observe::gpu::NvLink;
use crate::tui::choices::Opened;
use crate::tui::details::{Facts, Subject};
use crate::tui::layout::Want;
use crate::tui::widgets;
use crate::tui::widgets::spark::Axis;
use crate::tui::widgets::table::{self, Cell, Column, Look, SortKey, plain, whole};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::collections::BTreeMap;

pub const PANE: Pane = Pane {
    id: "gpus",
    shows: "GPUs, their ranks and what they do",
    title,
    want,
    rows: |ctx| names(&rows(ctx)),
    first: |ctx| first_to_see(ctx, &rows(ctx)),
    sorts: |ctx, width| table::sorts(ctx, &columns(), &rows(ctx), width),
    row_at: |ctx, area, y| {
        let rows = rows(ctx);
        table_row_at(ctx, parts(ctx, rows.len(), area).0, y, first_to_see(ctx, &rows))
    },
    open,
    draw,
};

/// A GPU and whose it is, found once a frame.
struct Row<'a> {
    gpu: &'a Gpu,
    job: Option<&'a str>,
    /// Several where they share it; then those that the verdict names, where it names some of them.
    ranks: Vec<u32>,
    /// Of those ranks, or of who works there or was the last to, else of any that holds memory on it.
    pids: Vec<u32>,
    /// Where its cells are read and not drawn, nothing is left out of them.
    is_whole: bool,
}

impl Row<'_> {
    /// `3`, `0-3`; where there is no room for that, `8+4`: it and four more. All of them stand in the detail.
    fn rank_words(&self) -> Option<String> {
        let first = self.ranks.first()?;
        let all = ranges(&self.ranks);
        Some(if self.is_whole || all.len() <= usize::from(RANKS) { all } else { format!("{first}+{}", self.ranks.len() - 1) })
    }
}

impl std::ops::Deref for Row<'_> {
    type Target = Gpu;

    fn deref(&self) -> &Gpu {
        self.gpu
    }
}

/// Cells of the column of ranks.
const RANKS: u16 = 4;

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::index("#", 2, 0, |_, g| Some(g.index)),
        Column::word("job", 7, 12, 1, |ctx, g| plain(ctx.whose(g.job?)?), |_, g| g.job.map_or(SortKey::Absent, SortKey::word)),
        Column::number("rank", RANKS, 0, |_, g| plain(g.rank_words()?), |_, g| SortKey::index(g.ranks.first().copied().map(u64::from))),
        Column::number("pid", 7, 5, pid, |_, g| SortKey::index(g.pids.first().copied().map(u64::from))),
        Column::word("activity", 8, 8, 0, activity, |_, g| SortKey::number(Some(f64::from(g.activity as u8)))),
        Column::amount("util%", 5, 2, |_, g: &Row| g.sample.util_pct.map(f64::from), whole).among(APART_PCT, are_siblings),
        Column::amount("SM%", 3, 1, |_, g: &Row| g.gpm()?.sm_active_pct.map(f64::from), whole).among(APART_PCT, are_siblings),
        Column::amount("tensor", 6, 2, |_, g| g.gpm()?.tensor_active_pct.map(f64::from), whole),
        Column::amount("DRAM%", 5, 6, |_, g| g.gpm()?.dram_active_pct.map(f64::from), whole),
        Column::number(
            "NVLink GB/s",
            11,
            3,
            |_, g| plain(format!("{:>5} {:>5}", gbytes_per_s(g.nvlink_tx_bytes_per_s?), gbytes_per_s(g.nvlink_rx_bytes_per_s?))),
            |_, g| SortKey::number(g.nvlink_tx_bytes_per_s),
        ),
        Column::number("mem GiB", 11, 4, memory, |_, g| SortKey::number(g.sample.mem_used_bytes.map(|b| b as f64)))
            .metered(|_, g| memory_used(g)),
        Column::number("W/limit", 8, 3, power, |_, g| SortKey::number(g.sample.power_mw.map(|w| w as f64))).metered(|_, g| power_used(g)),
        Column::number("°C", 3, 4, temperature, |_, g| SortKey::number(g.sample.temp_c.map(f64::from))).metered(|ctx, g| heat(ctx, g)),
        Column::amount("SM MHz", 6, 7, |_, g| g.sample.sm_clock_mhz.map(f64::from), whole),
        Column::word("note", 5, 24, 8, note, |ctx, g| SortKey::word(note(ctx, g).map_or("~".into(), |n| n.0))),
        Column::spark(8, 120, 6, |_, g, axis| (history(g, axis), 100.0)),
    ]
}

/// GPUs of one job that differ by more do not do the same.
const APART_PCT: f64 = 30.0;

fn are_siblings(one: &Row, other: &Row) -> bool {
    one.job.is_some() && one.job == other.job && one.index != other.index
}

/// SM activity where GPM reports it, else utilisation.
fn history(gpu: &Gpu, axis: Axis) -> Vec<Option<f32>> {
    let trend = if gpu.sm_trend.is_empty() { &gpu.util_trend } else { &gpu.sm_trend };
    let mut values = trend.columns(axis.end, axis.step, axis.columns, GPM_HOLDS);
    // What was read last does not stand for a GPU that does not answer.
    if let Some((since, _)) = &gpu.trouble {
        let ago = axis.end.since(*since).as_nanos() / axis.step.as_nanos().max(1);
        let lost = axis.columns.saturating_sub(usize::try_from(ago).unwrap_or(usize::MAX));
        values.iter_mut().skip(lost).for_each(|value| *value = None);
    }
    values
}

/// As the timeline calls it.
fn word(gpu: &Gpu) -> Option<&'static str> {
    match gpu.doing() {
        Some(Doing::Communicating) => Some(TRANSFER),
        _ => gpu.activity.as_str(),
    }
}

fn activity(ctx: &Ctx, gpu: &Row) -> Cell {
    let theme = ctx.theme;
    if !gpu.is_fresh(ctx.session.model.now) && gpu.sampled_at.is_some() {
        return Some(("stale".into(), Some(theme.look)));
    }
    // What still has memory on it is of others, or not given back yet.
    let has_ended = |pid: &u32| ctx.session.model.processes.get(pid).is_some_and(|process| !process.is_alive());
    if gpu.activity == Activity::Idle && gpu.processes.is_empty() && !gpu.pids.is_empty() && gpu.pids.iter().all(has_ended) {
        return Some(("ended".to_owned(), Some(theme.dim)));
    }
    let word = word(gpu)?;
    // From one sample to the next it computes, communicates and idles: what it is in the whole of a step says more.
    let is_in_steps = matches!(gpu.activity, Activity::Working | Activity::Idle | Activity::Waiting);
    if let Some(in_step) = ctx.in_step(gpu.index).filter(|_| is_in_steps) {
        return Some(match in_step {
            InStep::Late => ("late".to_owned(), Some(theme.act)),
            InStep::Waits => ("waits".to_owned(), Some(theme.look)),
        });
    }
    let siblings_wait = || ctx.session.model.gpus.values().any(|g| g.activity == Activity::Waiting);
    Some(match gpu.activity {
        Activity::Waiting => (word.to_owned(), Some(theme.look)),
        Activity::Lost => ("LOST".to_owned(), Some(theme.act)),
        // One that idles while others wait for it is the one to look at.
        Activity::Idle if siblings_wait() && !gpu.processes.is_empty() => match (ctx.state(), hesitates(ctx)) {
            (State::Stuck, _) => ("IDLE".to_owned(), Some(theme.act)),
            (_, true) => (word.to_owned(), Some(theme.look)),
            // In a pause that has a name, one that idles has its reason.
            _ => (word.to_owned(), None),
        },
        // What is to blame does not work well.
        Activity::Working if ctx.culprits().gpu(gpu.index).is_some() => (word.to_owned(), Some(theme.look)),
        Activity::Working => (word.to_owned(), Some(theme.good)),
        _ => (word.to_owned(), None),
    })
}

fn hesitates(ctx: &Ctx) -> bool {
    ctx.main_job().is_some_and(|(job, _)| ctx.session.hesitates(job).is_some())
}

/// Those of several are in the detail.
fn pid(_: &Ctx, gpu: &Row) -> Cell {
    match gpu.pids.as_slice() {
        [] => None,
        [one] => plain(one.to_string()),
        more => plain(counted(more.len(), "pid")),
    }
}

fn memory(_: &Ctx, gpu: &Row) -> Cell {
    plain(format!("{}/{}", gib(gpu.sample.mem_used_bytes?), gpu.mem_total_bytes().map_or("–".into(), gib)))
}

fn power(_: &Ctx, gpu: &Row) -> Cell {
    let limit = gpu.info.power_limit_mw.map_or("–".into(), |l| (l / 1000).to_string());
    plain(format!("{}/{limit}", gpu.sample.power_mw? / 1000))
}

fn temperature(ctx: &Ctx, gpu: &Row) -> Cell {
    Some((gpu.sample.temp_c?.to_string(), heat(ctx, gpu).and_then(|(_, alarm)| alarm)))
}

/// A share of a limit, and how it looks where it should be less.
type Used = Option<(f32, Option<Style>)>;

fn memory_used(gpu: &Gpu) -> Used {
    Some((gpu.sample.mem_used_bytes? as f32 / gpu.mem_total_bytes().filter(|total| *total > 0)? as f32, None))
}

fn power_used(gpu: &Gpu) -> Used {
    Some((gpu.sample.power_mw? as f32 / gpu.info.power_limit_mw.filter(|limit| *limit > 0)? as f32, None))
}

/// Of the temperature at which it slows down.
fn heat(ctx: &Ctx, gpu: &Gpu) -> Used {
    let (celsius, limit) = (gpu.sample.temp_c?, gpu.info.slowdown_c.filter(|limit| *limit > 0)?);
    Some((celsius as f32 / limit as f32, (celsius + 3 >= limit).then_some(ctx.theme.act)))
}

/// What is not as it should be.
fn note(ctx: &Ctx, gpu: &Row) -> Cell {
    if let Some(at) = gpu.sampled_at.filter(|_| !gpu.is_fresh(ctx.session.model.now)) {
        return Some((format!("no sample for {}", span(ctx.session.model.now.since(at))), Some(ctx.theme.look)));
    }
    if let Some((since, trouble)) = &gpu.trouble {
        return Some((format!("{} for {}", clean(&trouble.detail), span(ctx.session.model.now.since(*since))), Some(ctx.theme.act)));
    }
    if let Some((_, bits)) = gpu.throttled {
        return Some((throttle_words(bits).join(", "), Some(ctx.theme.look)));
    }
    let health = gpu.health.as_ref()?;
    if let Some(errors) = health.ecc_uncorrected_volatile.filter(|n| *n > 0) {
        return Some((format!("{errors} ECC uncorrected"), Some(ctx.theme.act)));
    }
    if health.remap_failed == Some(true) {
        return Some(("row remap failed".into(), Some(ctx.theme.act)));
    }
    if health.remap_pending == Some(true) {
        return Some(("row remap pending".into(), Some(ctx.theme.look)));
    }
    None
}

fn row<'a>(ctx: &Ctx<'a>, gpu: &'a Gpu) -> Row<'a> {
    let model = &ctx.session.model;
    // A rank that has ended stays beside its GPU until somebody else works there: it is the one that everybody looks for.
    let ended = || {
        let (id, ranks) = gpu.had.as_ref().filter(|_| gpu.processes.is_empty())?;
        let job = model.jobs.get(id).filter(|job| !model.is_stale(job))?;
        Some((job, ranks.clone()))
    };
    let Some((job, ranks)) = model.ranks_on_gpu(gpu.index).or_else(ended) else {
        return Row { gpu, job: None, ranks: Vec::new(), pids: gpu.processes.first().map(|p| p.pid).into_iter().collect(), is_whole: true };
    };
    let mut pids: Vec<u32> = ranks.iter().filter_map(|rank| job.ranks.get(rank).copied()).collect();
    if pids.is_empty() {
        pids.extend(model.owner_of_gpu(gpu.index).map(|(_, pid)| pid));
    }
    Row { gpu, job: Some(&job.id), ranks, pids, is_whole: true }
}

/// Of ranks that share it those that the verdict names, where it names some.
fn named<'a>(ctx: &Ctx<'a>, row: Row<'a>) -> Row<'a> {
    let Some(job) = row.job.and_then(|id| ctx.session.model.jobs.get(id)).filter(|_| row.ranks.len() > 1) else {
        return Row { is_whole: false, ..row };
    };
    let ranks = ctx.named_or_all(&job.id, row.ranks.clone());
    let pids = ranks.iter().filter_map(|rank| job.ranks.get(rank).copied()).collect();
    Row { ranks, pids, is_whole: false, ..row }
}

/// Every column of a GPU, and all of the ranks that share it.
pub fn cells(ctx: &Ctx, index: u32) -> Facts {
    let Some(gpu) = ctx.session.model.gpus.get(&index) else { return Vec::new() };
    let row = row(ctx, gpu);
    let mut facts = table::facts(ctx, &columns(), &row);
    let of_all = |head: &str| match head {
        "rank" => Some(ranges(&row.ranks)),
        "pid" => Some(row.pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ")),
        _ => None,
    };
    for (head, value) in &mut facts {
        *value = value.take().map(|shown| of_all(head).unwrap_or(shown));
    }
    facts
}

fn open(ctx: &Ctx) -> Opened {
    let rows = rows(ctx);
    let row = selected(ctx, &rows).and_then(|at| rows.get(at));
    row.map_or(Opened::Nothing, |row| Opened::Detail(Subject::new("gpu", row.index)))
}

/// Until one was chosen, the one that is to blame, else the first of the job that the user went to.
fn selected(ctx: &Ctx, rows: &[Row]) -> Option<usize> {
    ctx.selected_or(&names(rows), first_to_see(ctx, rows))
}

fn rows<'a>(ctx: &Ctx<'a>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row> = ctx.session.model.gpus.values().map(|gpu| row(ctx, gpu)).collect();
    table::retain(ctx, &columns(), &mut rows);
    let mut rows: Vec<Row> = rows.into_iter().map(|row| named(ctx, row)).collect();
    table::sort(ctx, &columns(), &mut rows);
    rows
}

fn first_to_see(ctx: &Ctx, rows: &[Row]) -> Option<String> {
    let main = ctx.main_job().map(|(id, _)| id);
    let of_main = |g: &&Row| g.job.is_none_or(|job| Some(job) == main);
    let named = || rows.iter().filter(of_main).find(|g| ctx.culprits().gpu(g.index).is_some());
    let near = || rows.iter().filter(of_main).find(|g| ctx.culprits().is_near(g.index));
    let own = || rows.iter().find(|g| g.job.is_some() && g.job == ctx.ui.job.as_deref());
    named().or_else(near).or_else(own).map(|g| g.index.to_string())
}

fn names(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|g| g.index.to_string()).collect()
}

fn title(ctx: &Ctx) -> String {
    let gpus = &ctx.session.model.gpus;
    let names: std::collections::BTreeSet<&str> = gpus.values().filter_map(|g| g.info.name.as_deref()).collect();
    let mut parts = vec![match names.len() {
        0 => format!("GPUs: {}", gpus.len()),
        1 => format!("GPUs: {} × {}", gpus.len(), names.first().copied().unwrap_or("")),
        _ => format!("GPUs: {} of {} kinds", gpus.len(), names.len()),
    }];
    let links: std::collections::BTreeSet<Option<u32>> = gpus.values().map(Gpu::nvlinks_up).collect();
    if let (Some(Some(up)), 1) = (links.first(), links.len()) {
        parts.push(format!("{up} NVLinks each"));
    }
    parts.join(" · ")
}

fn want(ctx: &Ctx, width: u16) -> Option<Want> {
    // Without one, why there is none.
    let count = ctx.session.model.gpus.len().min(2000) as u16;
    let all = if count == 0 { 2 } else { count + 1 };
    Some(Want {
        width: 36,
        least: match count {
            0 => 1,
            _ if ctx.culprits().are_ports() && width < 100 => all.min(5),
            _ => all.min(9),
        },
        comfort: all.min(17),
        all,
        priority: 1,
        late: false,
        grows: false,
    })
}

fn detail_rows(ctx: &Ctx, height: u16) -> u16 {
    match height {
        22.. if ctx.zoomed => 11,
        18.. if ctx.zoomed => 8,
        _ => 0,
    }
}

/// The table, the cards below it, and what there is no column for. Cards stand where all of them fit.
fn parts(ctx: &Ctx, rows: usize, area: Rect) -> (Rect, Rect, u16) {
    let below = detail_rows(ctx, area.height);
    let room = area.height - below;
    let table = (rows.min(1000) as u16 + 1).min(room);
    let cards = Rect { y: area.y + table, height: room - table, ..area };
    if !ctx.zoomed || widgets::cards::grid(cards, rows, cards::LEAST).is_empty() {
        return (Rect { height: room, ..area }, Rect { height: 0, ..area }, below);
    }
    (Rect { height: table, ..area }, cards, below)
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let rows = rows(ctx);
    if rows.is_empty() {
        super::paragraph(ctx, area, buf, &ctx.why_empty(|| ctx.source_detail("nvml").unwrap_or_else(|| "no GPU seen yet".into())));
        return;
    }
    let selected = selected(ctx, &rows);
    let (list, places, below) = parts(ctx, rows.len(), area);
    let (_, detail) = super::split_detail(ctx, area, below, buf);
    // What was true some time ago must not look like what is true now.
    let look = |g: &Row| Look { culprit: ctx.culprits().gpu(g.index), is_old: !g.is_fresh(ctx.session.model.now) };
    table::draw(ctx, &columns(), &rows, selected, look, list, buf);
    cards::draw(ctx, &rows, selected, places, buf);
    if let Some(gpu) = selected.and_then(|s| rows.get(s)).filter(|_| below > 0) {
        super::lines(detail, buf, &details(ctx, gpu));
    }
}

/// Links that are alike together: `18 x NVLink 4.0 to NVSwitch`.
fn links_in_words(ctx: &Ctx, gpu: &Gpu) -> Option<String> {
    let mut alike: BTreeMap<(String, &str), usize> = BTreeMap::new();
    for link in gpu.nvlinks.now.links.iter() {
        let to = match link.remote.as_deref()? {
            NvLink::SWITCH => "NVSwitch".to_owned(),
            id => ctx
                .session
                .model
                .gpus
                .values()
                .find(|g| g.info.bus_id.as_deref() == Some(id))
                .map_or(id.to_owned(), |g| format!("GPU {}", g.index)),
        };
        *alike.entry((to, link.generation().unwrap_or("?"))).or_default() += 1;
    }
    let words: Vec<String> = alike.iter().map(|((to, generation), n)| format!("{n} x NVLink {generation} to {to}")).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// One number where all are about the same, which they are while nothing is wrong.
fn per_link(mbytes_per_s: &[u32]) -> Option<String> {
    let gbytes = |mbytes: u32| gbytes_per_s(f64::from(mbytes) * 1e6);
    let (least, most) = (*mbytes_per_s.iter().min()?, *mbytes_per_s.iter().max()?);
    if most - least <= most / 20 {
        return Some(format!("{} each", gbytes(most)));
    }
    Some(mbytes_per_s.iter().map(|mbytes| gbytes(*mbytes)).collect::<Vec<_>>().join(" "))
}

/// `waiting for 12 s`; of one that is late or waits for such a one, that.
fn in_words(ctx: &Ctx, gpu: &Gpu) -> Option<String> {
    match ctx.in_step(gpu.index) {
        Some(InStep::Late) => Some("late in each step; the others wait for it".into()),
        Some(InStep::Waits) => Some("waits for the late one in each step".into()),
        None => word(gpu).map(|a| format!("{a} for {}", span(ctx.session.model.now.since(gpu.activity_since)))),
    }
}

/// What there is no column for, of one GPU.
fn details(ctx: &Ctx, gpu: &Gpu) -> Vec<Line<'static>> {
    // What was true some time ago must not look like what is true now.
    let text = if gpu.is_fresh(ctx.session.model.now) { ctx.theme.text } else { ctx.theme.dim };
    let line = |parts: Facts| {
        let spans: Vec<Span> = parts
            .into_iter()
            .enumerate()
            .flat_map(|(i, (label, value))| {
                let gap = (i > 0).then(|| Span::raw("   "));
                gap.into_iter().chain(labelled(ctx, label, value.map(|v| clean(&v).into_owned()), text))
            })
            .collect();
        Line::from(spans)
    };
    facts(ctx, gpu).into_iter().map(line).collect()
}

/// The same as facts, those of one line together.
pub fn facts(ctx: &Ctx, gpu: &Gpu) -> Vec<Facts> {
    let now = ctx.session.model.now;
    let old = gpu.sampled_at.filter(|_| !gpu.is_fresh(now)).map(|at| span(now.since(at)));
    let info = &gpu.info;
    let health = gpu.health.clone().unwrap_or_default();
    let number = |n: Option<u64>| n.map(|n| n.to_string());
    let pair = |now: Option<u32>, max: Option<u32>| Some(format!("{} of {}", now?, max.map_or("–".into(), |m| m.to_string())));
    let processes: Vec<String> =
        gpu.processes.iter().map(|p| format!("{}{}", p.pid, p.mem_bytes.map_or(String::new(), |b| format!(" ({} GiB)", gib(b))))).collect();
    let gpm = gpu.gpm().unwrap_or_default();
    let grown = gpu.nvlinks.grown().map(|(no, what, by, is)| format!("{no}: {what} {} -> {is}", is - by)).collect::<Vec<_>>().join(", ");
    vec![
        vec![
            ("GPU", Some(gpu.index.to_string())),
            ("bus", info.bus_id.clone()),
            ("NUMA", info.numa.map(|n| n.to_string())),
            ("driver", info.driver.clone()),
            ("uuid", info.uuid.clone()),
        ],
        vec![
            match &old {
                Some(old) => ("no sample for", Some(format!("{old}; the values below are that old"))),
                None => ("activity", in_words(ctx, gpu)),
            },
            ("occupancy %", gpm.sm_occupancy_pct.map(|p| format!("{p:.0}"))),
            ("graphics engine %", gpm.graphics_active_pct.map(|p| format!("{p:.0}"))),
            ("memory controller %", gpu.sample.mem_util_pct.map(|p| p.to_string())),
        ],
        vec![
            ("SM MHz", pair(gpu.sample.sm_clock_mhz, info.sm_clock_max_mhz)),
            ("memory MHz", gpu.sample.mem_clock_mhz.map(|m| m.to_string())),
            ("slowdown at °C", info.slowdown_c.map(|c| c.to_string())),
            (
                "clock limited by",
                gpu.sample.throttle_bits.map(|b| {
                    let words = throttle_words(b);
                    if words.is_empty() { "nothing".into() } else { words.join(", ") }
                }),
            ),
        ],
        vec![
            ("PCIe gen", pair(health.pcie_gen, health.pcie_gen_max)),
            ("width", pair(health.pcie_width, health.pcie_width_max)),
            (
                "GB/s out, in",
                gpm.pcie_tx_bytes_per_s.zip(gpm.pcie_rx_bytes_per_s).map(|(tx, rx)| format!("{} {}", gbytes_per_s(tx), gbytes_per_s(rx))),
            ),
            ("replays", number(health.pcie_replays)),
        ],
        vec![
            ("NVLinks up", gpu.nvlinks_up().map(|up| format!("{up} of {}", health.nvlink_states.len()))),
            ("replays", number(health.nvlink_replays)),
            ("recoveries", number(health.nvlink_recoveries)),
            ("CRC errors", number(health.nvlink_crc_errors)),
            ("C2C up", gpu.nvlinks.now.c2c.as_ref().and_then(|c2c| pair(c2c.links_up, Some(c2c.links)))),
        ],
        vec![
            ("ECC uncorrected", number(health.ecc_uncorrected_volatile)),
            ("corrected", number(health.ecc_corrected_volatile)),
            ("lifetime uncorrected", number(health.ecc_uncorrected_aggregate)),
            ("remapped rows", health.remapped_uncorrectable.map(|n| n.to_string())),
        ],
        vec![("processes", (!processes.is_empty()).then(|| processes.join("  ")))],
        vec![("links", links_in_words(ctx, gpu)), ("line rate GB/s each way", gpu.nvlinks.line_rate_bytes_per_s().map(gbytes_per_s))],
        vec![("GB/s out by link", per_link(&health.nvlink_tx_mbytes_per_s)), ("in", per_link(&health.nvlink_rx_mbytes_per_s))],
        vec![("errors per link", Some(grown).filter(|grown| !grown.is_empty()))],
    ]
}
