//! Ranks and launchers: what the kernel says of each process.

use super::{Ctx, Pane, table_row_at};
use crate::base::clean::clean;
use crate::base::time::span;
use crate::base::units::{gib, scaled};
use crate::model::job::Job;
use crate::model::process::Process;
use crate::observe::process::ProcessRole;
use crate::tui::choices::Opened;
use crate::tui::details::{Facts, Subject};
use crate::tui::layout::Want;
use crate::tui::widgets::labelled;
use crate::tui::widgets::table::{self, Cell, Column, Look, SortKey, plain, whole};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::time::Duration;

pub const PANE: Pane = Pane {
    id: "processes",
    shows: "ranks and launchers",
    title,
    want,
    rows: |ctx| names(&rows(ctx)),
    first: |ctx| first_to_see(ctx, &rows(ctx)),
    sorts: |ctx, width| table::sorts(ctx, &columns(), &rows(ctx), width),
    row_at: |ctx, area, y| {
        let list = Rect { height: area.height.saturating_sub(detail_rows(ctx, area.height)), ..area };
        table_row_at(ctx, list, y, first_to_see(ctx, &rows(ctx)))
    },
    open,
    draw,
};

/// CPU and I/O are means over this.
const WINDOW: Duration = Duration::from_secs(10);

/// Ranks of one job whose CPU time differs by more, in per cent of a core, do not do the same.
const APART_PCT: f64 = 50.0;

fn are_siblings(one: &Row, other: &Row) -> bool {
    let job = |row: &Row| row.rank.and(row.job).map(|job| job.id.clone());
    job(one).is_some() && job(one) == job(other) && one.rank != other.rank
}

struct Row<'a> {
    job: Option<&'a Job>,
    rank: Option<u32>,
    process: &'a Process,
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::word(
            "job",
            7,
            12,
            1,
            |ctx, r| plain(ctx.whose(&r.job?.id)?),
            |_, r| r.job.map_or(SortKey::Absent, |job| SortKey::word(&*job.id)),
        ),
        Column::index("rank", 5, 0, |_, r| r.rank),
        Column::index("local", 5, 6, |_, r| r.process.local_rank()),
        Column::index("pid", 7, 0, |_, r| Some(r.process.info.pid)),
        Column::index("GPU", 3, 3, |ctx, r| ctx.session.model.gpu_of_pid(r.process.info.pid)),
        Column::word("state", 12, 18, 0, state, |_, r| SortKey::word(format!("{:?}", r.process.sample.state))),
        Column::amount("CPU%", 5, 2, |ctx, r: &Row| live(r)?.cpu_pct(ctx.session.model.now, WINDOW), whole).among(APART_PCT, are_siblings),
        Column::amount("I/O B/s", 7, 3, |ctx, r| live(r)?.io_bytes_per_s(ctx.session.model.now, WINDOW), scaled),
        Column::amount("disk", 4, 5, |ctx, r| live(r)?.share_in_d(ctx.session.model.now, WINDOW), |v| format!("{:.0}%", v * 100.0)),
        Column::amount("RSS GiB", 7, 4, |_, r| live(r)?.sample.rss_bytes.map(|b| b as f64), |b| gib(b as u64)),
        Column::amount("threads", 7, 7, |_, r| live(r)?.sample.threads.map(f64::from), whole),
        Column::word("command", 10, 200, 4, |_, r| plain(command(r.process)), |_, r| SortKey::word(command(r.process))),
    ]
}

/// The process while it lives: what is gone has no rates.
fn live<'a>(row: &Row<'a>) -> Option<&'a Process> {
    row.process.is_alive().then_some(row.process)
}

fn command(process: &Process) -> String {
    let words = process.info.cmdline.join(" ");
    clean(if words.is_empty() { &process.info.comm } else { &words }).into_owned()
}

/// The letter of /proc/PID/stat in a word, since when where it matters, or how it ended.
fn state(ctx: &Ctx, row: &Row) -> Cell {
    let process = row.process;
    let theme = ctx.theme;
    if let Some(gone) = process.gone {
        let how = match gone.exit_code {
            Some(code @ ..0) => format!("signal {}", code.unsigned_abs()),
            Some(code) => format!("exit {code}"),
            None => "gone".into(),
        };
        return Some((how, Some(if gone.exit_code.is_none_or(|code| code == 0) { theme.dim } else { theme.act })));
    }
    let letter = process.sample.state?;
    let word = match letter {
        'R' => "running",
        'S' => "sleeping",
        'D' => "disk",
        'T' => "stopped",
        't' => "traced",
        'Z' => "zombie",
        'I' => "idle",
        _ => return plain(letter.to_string()),
    };
    let long = matches!(letter, 'T' | 't' | 'Z' | 'D');
    let since = if long { format!(" {}", span(ctx.session.model.now.since(process.state_since))) } else { String::new() };
    Some((format!("{word}{since}"), matches!(letter, 'T' | 't' | 'Z').then_some(theme.act)))
}

fn row<'a>(ctx: &Ctx<'a>, process: &'a Process) -> Row<'a> {
    let pid = process.info.pid;
    let job = ctx.session.model.jobs.values().find(|j| j.launcher == Some(pid) || j.pids().any(|p| p == pid));
    Row { job, rank: job.and_then(|j| j.rank_of(pid)), process }
}

/// Every column of a process.
pub fn cells(ctx: &Ctx, pid: u32) -> Facts {
    let process = ctx.session.model.processes.get(&pid);
    process.map_or(Vec::new(), |process| table::facts(ctx, &columns(), &row(ctx, process)))
}

fn open(ctx: &Ctx) -> Opened {
    let rows = rows(ctx);
    let row = selected(ctx, &rows).and_then(|at| rows.get(at));
    row.map_or(Opened::Nothing, |row| Opened::Detail(Subject::new("process", row.process.info.pid)))
}

/// Until one was chosen, the one that is to blame, else the first of the job that the user went to.
fn selected(ctx: &Ctx, rows: &[Row]) -> Option<usize> {
    ctx.selected_or(&names(rows), first_to_see(ctx, rows))
}

/// By job, those that have ended last; launchers first, then ranks in their order.
fn rows<'a>(ctx: &Ctx<'a>) -> Vec<Row<'a>> {
    let mut rows: Vec<Row> = ctx.session.model.processes.values().map(|process| row(ctx, process)).collect();
    // What is gone and belongs to no job says nothing any more.
    rows.retain(|r| r.job.is_some() || r.process.is_alive());
    rows.sort_by_key(|r| {
        let has_ended = r.job.is_some_and(|j| j.ended_at.is_some());
        (has_ended, r.job.map(|j| j.id.clone()), r.process.info.role != ProcessRole::Launcher, r.rank.is_none(), r.rank, r.process.info.pid)
    });
    table::retain(ctx, &columns(), &mut rows);
    table::sort(ctx, &columns(), &mut rows);
    rows
}

fn first_to_see(ctx: &Ctx, rows: &[Row]) -> Option<String> {
    let main = ctx.main_job().map(|(id, _)| id);
    let of_main = |r: &&Row| r.job.is_some_and(|job| Some(job.id.as_str()) == main);
    let named = rows.iter().filter(of_main).find(|r| ctx.culprits().pid(r.process.info.pid).is_some());
    let own = || rows.iter().filter(|_| ctx.ui.job.is_some()).find(of_main);
    named.or_else(own).map(|r| r.process.info.pid.to_string())
}

fn names(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|r| r.process.info.pid.to_string()).collect()
}

fn title(ctx: &Ctx) -> String {
    let model = &ctx.session.model;
    let alive = model.processes.values().filter(|p| p.is_alive()).count();
    let stopped = model.processes.values().filter(|p| p.is_stopped()).count();
    let stopped = if stopped > 0 { format!(", {stopped} stopped") } else { String::new() };
    let cpu = model.cpu_busy_pct.map_or(String::new(), |p| format!(" · CPU {p:.0} %"));
    let load = model.host_sample.as_ref().and_then(|h| h.load_1m).map_or(String::new(), |l| format!(" · load {l:.1}"));
    format!("Processes: {alive}{stopped}{cpu}{load}")
}

fn want(ctx: &Ctx, _: u16) -> Option<Want> {
    let count = ctx.session.model.processes.len() as u16;
    let all = count + 1;
    (count > 0).then_some(Want { width: 40, least: 3, comfort: all.min(10), all, priority: 7, late: true, grows: false })
}

fn detail_rows(ctx: &Ctx, height: u16) -> u16 {
    if ctx.zoomed && height >= 16 { (height / 3).min(10) } else { 0 }
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let rows = rows(ctx);
    let selected = selected(ctx, &rows);
    let below = detail_rows(ctx, area.height);
    let (list, detail) = super::split_detail(ctx, area, below, buf);
    if rows.is_empty() {
        let why = ctx.why_empty(|| ctx.source_detail("procs").unwrap_or_else(|| "no process of a job seen".into()));
        super::paragraph(ctx, area, buf, &why);
        return;
    }
    table::draw(ctx, &columns(), &rows, selected, |r| Look { culprit: ctx.culprits().pid(r.process.info.pid), is_old: false }, list, buf);
    let Some(row) = selected.and_then(|s| rows.get(s)).filter(|_| below > 0) else { return };
    let mut lines = Vec::new();
    for (label, text) in facts(row.process, row.job) {
        lines.extend(labelled(&format!("{label:<13}"), ctx.theme.dim, &text, ctx.theme.text, usize::from(detail.width)));
    }
    super::lines(detail, buf, &lines);
}

/// What there is no column for, of one process.
pub fn facts(process: &Process, job: Option<&Job>) -> Vec<(&'static str, String)> {
    let info = &process.info;
    let job = job.map_or("–", |j| j.id.as_str());
    let inner = info.ns_pid.filter(|p| *p != info.pid).map_or(String::new(), |p| format!(", pid {p} inside its container"));
    let mut out = vec![("job", format!("{job}, parent {}{inner}, user {}", info.ppid, info.uid))];
    let logs: std::collections::BTreeSet<&str> = info.logs.iter().map(|l| l.path.as_str()).collect();
    out.push(("logs", if logs.is_empty() { "–".into() } else { logs.into_iter().collect::<Vec<_>>().join("  ") }));
    if !info.hidden.is_empty() {
        out.push(("hidden", info.hidden.join("; ")));
    }
    let nccl = info.env.iter().flatten().filter(|(k, _)| k.starts_with("NCCL_") || k.starts_with("FI_") || k.starts_with("TORCH_"));
    let env: Vec<String> = nccl.map(|(k, v)| format!("{k}={v}")).collect();
    if !env.is_empty() {
        out.push(("environment", env.join(" ")));
    }
    out.push(("command", command(process)));
    out
}
