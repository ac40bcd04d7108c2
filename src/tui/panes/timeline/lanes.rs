//! A strip of cells for each GPU: what it did, on one time axis.

use crate::base::severity::Severity;
use crate::base::time::Stamp;
use crate::base::units::counted;
use crate::base::words::ranges;
use crate::diagnosis::verdict::State;
use crate::model::deeds::Doing;
use crate::model::gpu::Gpu;
use crate::model::job::Job;
use crate::rules::straggler::{LAG_PCT, SIBLINGS_PCT};
use crate::tui::panes::{Ctx, InStep, TRANSFER};
use crate::tui::theme::Theme;
use crate::tui::widgets::put::Put;
use crate::tui::widgets::spark;
use crate::tui::widgets::time_axis::TimeAxis;
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// What a cell shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Did {
    Working,
    /// Works, and much less of the time than all its siblings, which wait for it within each step.
    Late,
    /// For the late one, in each step.
    Awaiting,
    Communicating,
    Waiting,
    /// Idle while its siblings wait in a job that is stuck.
    Absent,
    Paused,
    Idle,
    Lost,
    Unknown,
    /// Before the first thing was seen, or when the job was not there.
    Before,
}

/// All, as the legend has them.
pub(super) const KINDS: [Did; 11] = [
    Did::Working,
    Did::Late,
    Did::Awaiting,
    Did::Communicating,
    Did::Waiting,
    Did::Absent,
    Did::Paused,
    Did::Idle,
    Did::Lost,
    Did::Unknown,
    Did::Before,
];

impl Did {
    pub(super) fn word(self) -> &'static str {
        match self {
            Did::Working => "working",
            Did::Late => "late",
            Did::Awaiting => "waits for the late rank",
            Did::Communicating => TRANSFER,
            Did::Waiting => "waiting",
            Did::Absent => "idle, others wait",
            Did::Paused => "paused",
            Did::Idle => "idle",
            Did::Lost => "lost",
            Did::Unknown => "no data",
            Did::Before => "",
        }
    }

    pub(super) const fn is_trouble(self) -> bool {
        matches!(self, Did::Late | Did::Absent | Did::Lost)
    }

    /// Each has a shape of its own, so that colour is not needed. `busy` is the share of the time with a kernel, %.
    pub(super) fn sign(self, busy: f32) -> char {
        match self {
            // The lowest block is kept for idle.
            Did::Working => spark::block(busy.max(17.0), 100.0),
            Did::Late => '▚',
            Did::Awaiting => '▓',
            Did::Communicating => '═',
            Did::Waiting => '░',
            Did::Absent => '×',
            Did::Paused => '▒',
            Did::Idle => '▁',
            Did::Lost => '†',
            Did::Unknown => '╌',
            Did::Before => ' ',
        }
    }

    pub(super) fn style(self, theme: &Theme) -> Style {
        match self {
            Did::Working => theme.good,
            Did::Communicating => theme.chart2,
            Did::Awaiting | Did::Waiting => theme.look,
            Did::Late | Did::Absent | Did::Lost => theme.act,
            Did::Paused | Did::Idle | Did::Unknown | Did::Before => theme.dim,
        }
    }
}

/// A cell, and how busy the GPU was, %.
pub(super) type Cell = (Did, f32);

pub(super) struct Lane {
    /// Several where they share the GPU; none: not known.
    pub(super) ranks: Vec<u32>,
    /// `None`: it stands for several.
    pub(super) gpu: Option<u32>,
    pub(super) count: usize,
    /// It is what the finding that decides the state is about.
    pub(super) culprit: Option<Severity>,
    /// A port that is blamed is nearest to it.
    pub(super) is_near: bool,
    /// Up to now.
    pub(super) cells: Vec<Cell>,
}

/// What the rule asks for holds over so long.
const LATE_OVER: Duration = Duration::from_secs(6);

/// From and to of the times in which a job was in a state; the last one lasts.
fn times(ctx: &Ctx, job: &str, state: State) -> Vec<(Stamp, Stamp)> {
    let chapters: Vec<_> = ctx.session.story.of(job).collect();
    let ends = chapters.iter().skip(1).map(|c| c.since).chain([Stamp(i64::MAX)]);
    chapters.iter().zip(ends).filter(|(c, _)| c.state == state).map(|(c, end)| (c.since, end)).collect()
}

/// The pauses of a job, by the verdict and by its log.
fn pauses(ctx: &Ctx, job: &str) -> Vec<(Stamp, Stamp)> {
    let mut pauses = times(ctx, job, State::Paused);
    for file in ctx.session.model.files_of(job) {
        pauses.extend(file.progress.phases.iter().map(|(_, from, to)| (*from, *to)));
    }
    let ended_at = ctx.session.model.jobs.get(job).and_then(|job| job.ended_at);
    pauses.extend(ctx.session.model.phase_of(job).map(|(_, from)| (from, ended_at.unwrap_or(Stamp(i64::MAX)))));
    pauses
}

/// The job of each GPU, and its ranks there.
type Owners<'a> = BTreeMap<u32, (&'a str, Vec<u32>)>;

fn owners<'a>(ctx: &Ctx<'a>) -> Owners<'a> {
    let model = &ctx.session.model;
    let mut owners: Owners = BTreeMap::new();
    let main = ctx.main_job().map(|(id, _)| id);
    // A GPU that another job works on, too, is that of the job that the screen is of.
    let (own, others): (Vec<&Job>, Vec<&Job>) =
        model.jobs.values().filter(|j| !model.is_stale(j)).partition(|j| Some(j.id.as_str()) == main);
    for job in own.into_iter().chain(others) {
        for pid in job.pids().filter(|pid| model.processes.get(pid).is_some_and(|p| p.is_alive())) {
            if let Some(gpu) = model.gpu_of_pid(pid) {
                let (owner, ranks) = owners.entry(gpu).or_insert((job.id.as_str(), Vec::new()));
                if *owner == job.id {
                    ranks.extend(job.rank_of(pid));
                }
            }
        }
    }
    // What ranks did is theirs when they have ended, too.
    for (index, gpu) in &model.gpus {
        if let Some((job, ranks)) = gpu.had.as_ref().filter(|(job, _)| Some(job.as_str()) == main) {
            owners.entry(*index).or_insert_with(|| (job, ranks.clone()));
        }
    }
    for (job, ranks) in owners.values_mut() {
        ranks.sort_unstable();
        *ranks = ctx.named_or_all(job, std::mem::take(ranks));
    }
    owners
}

/// The GPUs that are shown: all, or where there are several jobs those of the one that the screen is of, whose steps stand above them. None, where
/// that has ended and its GPUs are others' now.
fn shown_of<'a>(ctx: &Ctx<'a>, owners: &Owners) -> Vec<&'a Gpu> {
    let model = &ctx.session.model;
    let main = ctx.main_job().map(|(id, _)| id).filter(|_| model.jobs.len() > 1);
    let is_its = |gpu: &&Gpu| owners.get(&gpu.index).is_some_and(|(job, _)| Some(*job) == main);
    let its: Vec<&Gpu> = model.gpus.values().filter(is_its).collect();
    // Of one that has ended, and whose GPUs others have by now, nothing is known any more.
    let is_over = main.and_then(|id| model.jobs.get(id)).is_some_and(|job| job.ended_at.is_some());
    if its.is_empty() && !is_over { model.gpus.values().collect() } else { its }
}

/// The GPUs that have lanes.
pub(super) fn gpus<'a>(ctx: &Ctx<'a>) -> Vec<&'a Gpu> {
    match ctx.session.model.jobs.len() {
        0 | 1 => ctx.session.model.gpus.values().collect(),
        _ => shown_of(ctx, &owners(ctx)),
    }
}

/// How many lanes there are.
pub(super) fn count(ctx: &Ctx) -> usize {
    match ctx.session.model.jobs.len() {
        0 | 1 => ctx.session.model.gpus.len(),
        _ => shown_of(ctx, &owners(ctx)).len(),
    }
}

/// The first cell of which something was seen.
fn seen(ctx: &Ctx, axis: &TimeAxis) -> usize {
    ctx.session.model.started.and_then(|started| axis.cell(started)).unwrap_or(0)
}

/// The cells that are of a job: from its start to its end where there are several.
pub(super) fn cells_of(ctx: &Ctx, job: &str, axis: &TimeAxis) -> Range<usize> {
    let jobs = &ctx.session.model.jobs;
    let (seen, shown) = (seen(ctx, axis), axis.newest() + 1);
    let Some(known) = jobs.get(job).filter(|_| jobs.len() > 1) else { return seen..shown.max(seen) };
    let from = ctx.began_at(job).and_then(|began| axis.cell(began)).unwrap_or(0).max(seen);
    let to = match known.ended_at {
        Some(ended) if ended < axis.from => 0,
        Some(ended) => axis.cell(ended).map_or(shown, |last| last + 1),
        None => shown,
    };
    from..to.max(from)
}

/// One lane for each GPU, in their order.
pub(super) fn lanes(ctx: &Ctx, axis: &TimeAxis) -> Vec<Lane> {
    let owners = owners(ctx);
    let main = ctx.main_job().map(|(id, _)| id);
    let shown_gpus = shown_of(ctx, &owners);
    let shown = axis.newest() + 1;
    let mut by_job: BTreeMap<Option<&str>, Vec<usize>> = BTreeMap::new();
    let mut lanes = Vec::with_capacity(shown_gpus.len());
    for (at, gpu) in shown_gpus.into_iter().enumerate() {
        let owner = owners.get(&gpu.index);
        // What an earlier or a later job did on the same GPU is not of this one.
        let its = owner.map_or(seen(ctx, axis)..shown, |(job, _)| cells_of(ctx, job, axis));
        by_job.entry(owner.map(|(job, _)| *job).or(main)).or_default().push(at);
        let deeds = gpu.deeds.columns(axis.from, axis.step, shown, gpu.holds());
        let busy = axis.values(&gpu.util_trend, 1, gpu.holds());
        let cell = |(doing, busy): (Option<Doing>, Option<f32>)| {
            let did = match doing {
                None => Did::Unknown,
                Some(Doing::Idle) => Did::Idle,
                Some(Doing::Waiting) => Did::Waiting,
                Some(Doing::Communicating) => Did::Communicating,
                Some(Doing::Working) => Did::Working,
                Some(Doing::Lost) => Did::Lost,
            };
            (did, busy.unwrap_or(100.0))
        };
        lanes.push(Lane {
            ranks: owner.map_or_else(Vec::new, |(_, ranks)| ranks.clone()),
            gpu: Some(gpu.index),
            count: 1,
            culprit: ctx.culprits().gpu(gpu.index),
            is_near: ctx.culprits().is_near(gpu.index),
            cells: deeds
                .into_iter()
                .zip(busy)
                .enumerate()
                .map(|(i, did)| if its.contains(&i) { cell(did) } else { (Did::Before, 0.0) })
                .collect(),
        });
    }
    for (job, members) in by_job {
        let Some(job) = job else { continue };
        mark_late(&mut lanes, &members, axis);
        mark_named(ctx, job, &mut lanes, &members, axis);
        let within = |times: &[(Stamp, Stamp)], i: usize| {
            let at = axis.start(i).plus(axis.step / 2);
            times.iter().any(|(from, to)| (*from..*to).contains(&at))
        };
        let (pauses, stuck) = (pauses(ctx, job), times(ctx, job, State::Stuck));
        for i in 0..shown {
            let waited_for = || members.iter().any(|m| lanes[*m].cells[i].0 == Did::Waiting);
            let idle = if !stuck.is_empty() && within(&stuck, i) && waited_for() {
                Some(Did::Absent)
            } else if !pauses.is_empty() && within(&pauses, i) {
                Some(Did::Paused)
            } else {
                None
            };
            let Some(idle) = idle else { continue };
            for member in &members {
                let did = &mut lanes[*member].cells[i].0;
                *did = match *did {
                    Did::Idle => idle,
                    Did::Waiting if idle == Did::Paused => idle,
                    other => other,
                };
            }
        }
    }
    lanes
}

/// Marks where one of a job's GPUs works far less of the time than all others, which have a kernel all the time: they wait in it. It must
/// be so for all of the time around a cell that counts.
fn mark_late(lanes: &mut [Lane], members: &[usize], axis: &TimeAxis) {
    if members.len() < 2 {
        return;
    }
    let (siblings, lag) = (SIBLINGS_PCT.value() as f32, LAG_PCT.value() as f32);
    let half = (LATE_OVER.as_millis() / axis.step.as_millis().max(1) / 2) as usize;
    let shown = lanes[members[0]].cells.len();
    // How busy each was up to each cell, summed up.
    let sums = |m: &usize| {
        let mut sum = 0.0;
        [0.0]
            .into_iter()
            .chain(lanes[*m].cells.iter().map(|cell| {
                sum += cell.1;
                sum
            }))
            .collect::<Vec<f32>>()
    };
    let sums: Vec<(usize, Vec<f32>)> = members.iter().map(|m| (*m, sums(m))).collect();
    let mut late = Vec::new();
    for i in 0..shown {
        // What is drawn stays: where it is not known yet what follows, nothing is said.
        if i + half >= shown {
            break;
        }
        let around = i.saturating_sub(half)..i + half + 1;
        let busy = |sums: &[f32]| (sums[around.end] - sums[around.start]) / around.len() as f32;
        let (mut own, mut least, mut next) = (f32::INFINITY, members[0], f32::INFINITY);
        for (member, sums) in &sums {
            let busy = busy(sums);
            if busy < own {
                (own, least, next) = (busy, *member, own);
            } else {
                next = next.min(busy);
            }
        }
        if next < siblings || own > next - lag {
            continue;
        }
        let did = |m: usize| lanes[m].cells[around.clone()].iter().map(|c| c.0);
        let works = |did: Did| matches!(did, Did::Working | Did::Communicating);
        let others_work = members.iter().filter(|m| **m != least).all(|m| did(*m).all(works));
        if others_work && did(least).all(|did| works(did) || did == Did::Idle) {
            late.push((least, i));
        }
    }
    // Once is not every step.
    let mut runs: Vec<Vec<(usize, usize)>> = Vec::new();
    for (member, i) in late {
        match runs.last_mut().filter(|run| run.last() == Some(&(member, i.wrapping_sub(1)))) {
            Some(run) => run.push((member, i)),
            None => runs.push(vec![(member, i)]),
        }
    }
    for (late, i) in runs.into_iter().filter(|run| run.len() > half).flatten() {
        for member in members {
            lanes[*member].cells[i].0 = if *member == late { Did::Late } else { Did::Awaiting };
        }
    }
}

/// Marks the same since the verdict names one, where it was other signals than this that told.
fn mark_named(ctx: &Ctx, job: &str, lanes: &mut [Lane], members: &[usize], axis: &TimeAxis) {
    let Some(finding) = ctx.straggler(job) else { return };
    if finding.since > axis.now {
        return;
    }
    let first = axis.cell(finding.since).unwrap_or(0);
    for member in members {
        let lane = &mut lanes[*member];
        let Some(in_step) = lane.gpu.and_then(|gpu| ctx.in_step(gpu)) else { continue };
        for (did, _) in lane.cells.iter_mut().skip(first) {
            *did = match (in_step, *did) {
                (InStep::Late, Did::Working | Did::Communicating | Did::Waiting | Did::Idle) => Did::Late,
                (InStep::Waits, Did::Working | Did::Communicating | Did::Waiting) => Did::Awaiting,
                (_, other) => other,
            };
        }
    }
}

/// The lanes that fit into so many rows: the worst have their own, and what most of the others did stands for them.
pub(super) fn fold(mut lanes: Vec<Lane>, rows: usize) -> Vec<Lane> {
    if lanes.len() <= rows || rows == 0 {
        lanes.truncate(rows);
        return lanes;
    }
    let most = usual(&lanes);
    let differs = |lane: &Lane| lane.cells.iter().zip(&most).filter(|(own, most)| own.0 != most.0).count();
    let rank = |lane: &Lane| (lane.culprit.is_some(), lane.is_near, differs(lane));
    let mut order: Vec<usize> = (0..lanes.len()).collect();
    order.sort_by_cached_key(|i| std::cmp::Reverse(rank(&lanes[*i])));
    let mut kept: Vec<usize> = order.into_iter().take(rows - 1).collect();
    kept.sort_unstable();
    let mut rest = Vec::new();
    let mut shown = Vec::new();
    for (i, lane) in lanes.into_iter().enumerate() {
        if kept.binary_search(&i).is_ok() { shown.push(lane) } else { rest.push(lane) }
    }
    let culprit = rest.iter().filter_map(|lane| lane.culprit).max();
    shown.push(Lane { ranks: Vec::new(), gpu: None, count: rest.len(), culprit, is_near: false, cells: usual(&rest) });
    shown
}

/// What most of the lanes did, and how busy those were.
fn usual(lanes: &[Lane]) -> Vec<Cell> {
    let cells = lanes.first().map_or(0, |lane| lane.cells.len());
    let cell = |i: usize| {
        let mut times = [(0u32, 0.0f32); KINDS.len()];
        for (did, busy) in lanes.iter().map(|lane| lane.cells[i]) {
            let of = &mut times[did as usize];
            *of = (of.0 + 1, of.1 + busy);
        }
        let most = KINDS.into_iter().max_by_key(|did| (times[*did as usize].0, std::cmp::Reverse(*did))).unwrap_or(Did::Unknown);
        let (n, busy) = times[most as usize];
        (most, busy / n.max(1) as f32)
    };
    (0..cells).map(cell).collect()
}

/// `► rank 3  GPU 3`, `  ranks 0-3 GPU 0`
fn label(lane: &Lane, room: usize, digits: (usize, usize)) -> String {
    let wide = room >= 14;
    let mark = match lane.culprit {
        Some(_) => '►',
        None if lane.is_near => '›',
        None => ' ',
    };
    let gpu = lane.gpu.map_or(String::new(), |gpu| format!("GPU {gpu:>0$}", digits.1));
    match lane.ranks.as_slice() {
        _ if lane.gpu.is_none() => format!("{mark} {}", counted(lane.count, "other")),
        [] => format!("{mark} {gpu}"),
        [rank] if wide => format!("{mark} rank {rank:>0$} {gpu}", digits.0),
        [rank] => format!("{mark} rank {rank}"),
        several => {
            let gpu = if wide { format!(" {gpu}") } else { String::new() };
            let all = format!("{mark} ranks {}{gpu}", ranges(several));
            if all.width() <= room { all } else { format!("{mark} {} ranks{gpu}", several.len()) }
        }
    }
}

/// Draws them one below the other, with the labels at the left.
pub(super) fn draw(ctx: &Ctx, lanes: &[Lane], area: Rect, labels: u16, buf: &mut Buffer) {
    let theme = ctx.theme;
    let digits = |of: fn(&Lane) -> Option<u32>| lanes.iter().filter_map(of).max().map_or(1, |n| n.to_string().len());
    let digits = (digits(|l| l.ranks.first().copied()), digits(|l| l.gpu));
    for (lane, y) in lanes.iter().zip(area.y..area.bottom()) {
        let style = lane.culprit.map_or(theme.dim, |severity| theme.severity(severity));
        buf.put(area.x, y, label(lane, usize::from(labels - 1), digits), usize::from(labels - 1), style);
        for ((did, busy), x) in lane.cells.iter().zip(area.x + labels..area.right()) {
            if let Some(cell) = buf.cell_mut((x, y)) {
                cell.set_char(did.sign(*busy)).set_style(did.style(theme));
            }
        }
    }
}
