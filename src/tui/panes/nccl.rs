//! How NCCL came up, each fact with the line that says so; and its communicators: who is behind, who does not answer.
//!
//! ```text
//! ✓ NCCL version 2.28.9+cuda13.0    ✓ GPU paths 16 x P2P/CUMEM
//! comm be2de794    8 ranks  1 node    241 ops  unchanged 12 s, rank 3 behind AllReduce 229 of 241
//! ```

mod ranks;

use super::{Ctx, Pane, no_first};
use crate::base::clean::clean;
use crate::base::severity::Severity;
use crate::base::time::span;
use crate::base::units::{counted, size_words};
use crate::base::words::rank_words;
use crate::base::words::wrap;
use crate::diagnosis::verdict::State;
use crate::model::bringup::{Item, Seen};
use crate::model::comm::{Behind, Comm, Odd};
use crate::model::inspected::Fastest;
use crate::model::job::Job;
use crate::model::signals::RAS_OLD;
use crate::rules::host_checks;
use crate::tui::choices::Opened;
use crate::tui::details::{Facts, Subject};
use crate::tui::layout::Want;
use crate::tui::widgets::put::Put;
use crate::tui::widgets::table::{self, Cell, Column, Look, SortKey, plain, whole};
use crate::tui::widgets::{Pen, first_shown, shorten};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

pub const PANE: Pane = Pane {
    id: "nccl",
    shows: "NCCL bring-up and communicators",
    title,
    want,
    rows: |ctx| names(&rows(ctx)),
    first: no_first,
    sorts: |ctx, width| table::sorts(ctx, &columns(), &rows(ctx), width),
    row_at,
    open,
    draw,
};

/// From this width on they stand side by side.
const TWO_COLUMNS: u16 = 70;
/// From this width on if there is no room for them below one another.
const TWO_NARROW: u16 = 50;
/// Columns for the name of a job.
const JOB: usize = 12;
/// Behind for longer than this, a rank keeps the others waiting.
const LATE: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Calm,
    Look,
    Act,
}

/// A communicator and what is known of it.
struct Row<'a> {
    comm: &'a Comm,
    /// Whose it is, where more than one job is there.
    job: Option<String>,
    /// That its ranks run on, where RAS names it.
    hosts: usize,
    operations: u64,
    behind: Vec<Behind>,
    level: Level,
    words: String,
}

fn row<'a>(ctx: &Ctx, comm: &'a Comm, job: Option<String>, is_json: bool) -> Row<'a> {
    let ranks = comm.ranks.values().map(|r| &r.host).chain(comm.missing.values().map(|m| &m.host));
    let hosts = ranks.flatten().collect::<BTreeSet<_>>().len();
    let mut behind = comm.behind();
    // When most are "behind" one or a few, those few have called what the others did not: they are to be seen, not all the others.
    let odd = if behind.len() * 2 > comm.ranks.len() && comm.still_for().is_some() { comm.odd() } else { Vec::new() };
    if !odd.is_empty() {
        behind.retain(|b| odd.iter().any(|o| o.rank == b.rank));
    }
    let (mut level, mut words) = standing(ctx, comm, &behind, &odd, is_json);
    if is_of_another_job(ctx, comm) {
        (level, words) = (Level::Calm, format!("another job: {words}"));
    }
    // The largest says most of bandwidth. In trouble nothing is added to the sentence.
    if level == Level::Calm
        && let Some(fastest) = ctx.session.model.fastest_of(comm).first()
    {
        words.push_str(&format!(", {}", measured_words(fastest)));
    }
    Row { comm, job, hosts, operations: comm.operations(), behind, level, words }
}

/// `AllReduce 256 MiB 312 GB/s (84 %)`
fn measured_words(of: &Fastest) -> String {
    let busbw = of.op.busbw_gbytes_per_s.map_or(String::new(), |g| format!(" {g:.0} GB/s"));
    let share = of.share_pct().map_or(String::new(), |pct| format!(" ({pct:.0} %)"));
    format!("{} {}{busbw}{share}", clean(&of.op.name), size_words(of.op.bytes))
}

/// `moving`, `unchanged 12 s, rank 3 behind AllReduce 229 of 241 (+1)`, `rank 500 missing`
fn standing(ctx: &Ctx, comm: &Comm, behind: &[Behind], odd: &[Odd], is_json: bool) -> (Level, String) {
    let model = &ctx.session.model;
    let Some(answered) = comm.answered_at else {
        let ras = match model.ras.answered_at {
            None => "RAS has not answered",
            Some(_) if is_json => "not listed by RAS",
            Some(_) => "RAS reports no trouble",
        };
        let init = match comm.init_complete.len() {
            0 => String::new(),
            1 => ", init complete on 1 rank here".into(),
            n => format!(", init complete on {n} ranks here"),
        };
        return (Level::Calm, format!("{ras}{init}"));
    };
    let age = model.now.since(answered);
    if model.ras.answered_at.is_some_and(|at| at > answered) {
        let words = if comm.ranks.is_empty() { "RAS last reported it" } else { "RAS last listed it" };
        return (Level::Calm, format!("{words} {} ago", span(age)));
    }
    let still = comm.still_for();
    let mut parts = Vec::new();
    let mut level = Level::Calm;
    // The last answer outlives the processes that it is about.
    let mut jobs = model.jobs.values().filter(|j| model.comms_of(j).any(|c| c.hash == comm.hash)).peekable();
    if jobs.peek().is_some() && jobs.all(|j| j.pids().all(|pid| model.processes.get(&pid).is_none_or(|p| !p.is_alive()))) {
        return (Level::Calm, "its processes have ended".into());
    }
    parts.extend(still.map(|s| format!("unchanged {}", span(s))));
    if !comm.missing.is_empty() {
        let missing: Vec<u32> = comm.missing.keys().copied().collect();
        let word = if comm.missing.values().all(|m| m.considered_dead) { "dead" } else { "missing" };
        parts.push(format!("{} {word}", rank_words(&missing)));
        level = Level::Act;
    }
    match (behind.first(), still) {
        (_, Some(still)) if !odd.is_empty() => {
            let counts = odd[0].more.first().or(odd[0].fewer.first());
            let counts = counts.map_or(String::new(), |(op, have, usual)| format!(": {} {have}, others {usual}", clean(op)));
            let more = if odd.len() > 1 { format!(" (+{})", odd.len() - 1) } else { String::new() };
            parts.push(format!("rank {} differs{counts}{more}", of_job(ctx, comm, odd[0].rank)));
            level = level.max(if still > LATE { Level::Act } else { Level::Look });
        }
        (Some(b), Some(still)) => {
            let more = if behind.len() > 1 { format!(" (+{})", behind.len() - 1) } else { String::new() };
            parts.push(format!("rank {} behind {} {} of {}{more}", of_job(ctx, comm, b.rank), clean(&b.collective), b.have, b.max));
            level = level.max(if still > LATE { Level::Act } else { Level::Look });
        }
        // What it waits in may be a call that has no count.
        (None, Some(_)) if comm.missing.is_empty() && stands(ctx, comm) => {
            parts.insert(0, "counts equal; sends and receives are not counted".into());
        }
        (None, Some(_)) if comm.missing.is_empty() => parts.push("no rank behind".into()),
        (_, Some(_)) => {}
        // The verdict knows more than an answer of a few seconds ago.
        (_, None) if stands(ctx, comm) => parts.push(format!("still moving {} ago", span(age))),
        (_, None) => parts.push(moving_words(ctx, comm)),
    }
    // What the verdict only warns of is no more here.
    let warned = |id: &str| ctx.session.deciding(id).is_some_and(|f| f.severity == Severity::Warning);
    if jobs_of(ctx, comm).any(warned) {
        level = level.min(Level::Look);
    }
    // In a pause that has a name, ranks wait for the one that saves.
    if jobs_of(ctx, comm).any(|job| is_in(ctx, job, State::Paused)) {
        level = Level::Calm;
    }
    if age > RAS_OLD {
        let over = model.jobs.values().filter(|j| !j.log_only).all(|j| j.ended_at.is_some());
        level = if over { Level::Calm } else { level.min(Level::Look) };
        parts.insert(0, format!("no answer for {}, before that", span(age)));
    }
    (level, parts.join(", ").replace("before that, ", "before that "))
}

/// Its rank in the job, as the verdict says it, where the process is known; else that in the communicator.
fn of_job(ctx: &Ctx, comm: &Comm, rank: u32) -> u32 {
    let model = &ctx.session.model;
    // Processes of several hosts have the same numbers.
    let of_one_host = comm.ranks.values().map(|known| &known.host).collect::<BTreeSet<_>>().len() == 1;
    let Some(pid) = comm.ranks.get(&rank).and_then(|known| known.pid).filter(|_| of_one_host) else { return rank };
    let inner = |pid: u32| model.processes.get(&pid).map_or(pid, |process| process.info.ns_pid.unwrap_or(pid));
    let in_job = |id: &str| model.jobs.get(id)?.ranks.iter().find(|(_, own)| inner(**own) == pid).map(|(rank, _)| *rank);
    jobs_of(ctx, comm).find_map(in_job).unwrap_or(rank)
}

/// A job of this communicator makes no step.
fn stands(ctx: &Ctx, comm: &Comm) -> bool {
    jobs_of(ctx, comm).any(|job| is_in(ctx, job, State::Stuck) || ctx.session.hesitates(job).is_some())
}

fn jobs_of<'a>(ctx: &Ctx<'a>, comm: &Comm) -> impl Iterator<Item = &'a str> {
    let (model, hash) = (&ctx.session.model, comm.hash);
    model.jobs.values().filter(move |job| model.comms_of(job).any(|c| c.hash == hash)).map(|job| job.id.as_str())
}

/// RAS answers for every job of the node that it can reach; the verdict is none of a job whose processes are not known here.
fn is_of_another_job(ctx: &Ctx, comm: &Comm) -> bool {
    let model = &ctx.session.model;
    let names_pids = comm.ranks.values().any(|r| r.pid.is_some());
    // Pids inside of containers are not those of here; GPUs are.
    let own: BTreeSet<u32> = comm.ranks.values().filter_map(|rank| rank.nvml_dev).collect();
    let held: BTreeSet<u32> = model.jobs.values().flat_map(|job| job.pids()).filter_map(|pid| model.gpu_of_pid(pid)).collect();
    let on_others = || !own.is_empty() && !held.is_empty() && own.is_disjoint(&held);
    let others = || model.jobs.values().any(|job| model.comms_of(job).next().is_some()) || on_others();
    names_pids && jobs_of(ctx, comm).next().is_none() && others()
}

fn is_in(ctx: &Ctx, job: &str, state: State) -> bool {
    ctx.session.verdicts.get(job).is_some_and(|verdict| verdict.state == state)
}

/// What answers say of one whose counts do not stand still.
fn moving_words(ctx: &Ctx, comm: &Comm) -> String {
    if comm.ranks.values().all(|r| r.counts.is_empty()) {
        return "RAS reports no counts".into();
    }
    match often_last(comm) {
        // One answer alone shows no movement.
        _ if comm.looks.len() < 2 => "one answer so far".into(),
        Some((rank, n)) => format!("moving, rank {} behind in {n} of {} answers", of_job(ctx, comm, rank), comm.looks.len()),
        None => "moving".into(),
    }
}

/// The rank that most recent answers found behind, and how many.
fn often_last(comm: &Comm) -> Option<(u32, usize)> {
    let mut found: BTreeMap<u32, usize> = BTreeMap::new();
    // When many are behind, nobody is late: the counts were read while they changed.
    let few = comm.looks.iter().filter(|l| l.behind.len() <= 2);
    few.flat_map(|l| &l.behind).for_each(|rank| *found.entry(*rank).or_default() += 1);
    let most = found.into_iter().max_by_key(|(rank, n)| (*n, std::cmp::Reverse(*rank)))?;
    (most.1 >= 3 && most.1 * 2 > comm.looks.len()).then_some(most)
}

fn style(ctx: &Ctx, level: Level) -> Style {
    match level {
        Level::Calm => ctx.theme.text,
        Level::Look => ctx.theme.look,
        Level::Act => ctx.theme.act,
    }
}

/// As findings name it.
pub fn short(comm: &Comm) -> String {
    format!("{:08x}", comm.hash >> 32)
}

/// Those of the job that the screen is of first; of them what is in trouble, then the largest.
fn all_rows<'a>(ctx: &Ctx<'a>) -> Vec<Row<'a>> {
    // JSON holds every communicator there is, text only those with something to report.
    let model = &ctx.session.model;
    let is_json = model.comms.values().any(|c| !c.ranks.is_empty() && c.answered_at == model.ras.answered_at);
    let mut owners: BTreeMap<u64, String> = BTreeMap::new();
    for job in model.jobs.values() {
        let Some(name) = ctx.whose(&job.id) else { break };
        owners.extend(model.comms_of(job).map(|c| (c.hash, name.clone())));
    }
    let mut rows: Vec<Row> = model.comms.values().map(|c| row(ctx, c, owners.remove(&c.hash), is_json)).collect();
    let main = ctx.main_job().and_then(|(id, _)| model.jobs.get(id));
    let own: BTreeSet<u64> = main.into_iter().flat_map(|job| model.comms_of(job)).map(|comm| comm.hash).collect();
    rows.sort_by_key(|r| {
        let answers = r.comm.answered_at == ctx.session.model.ras.answered_at;
        (std::cmp::Reverse((own.contains(&r.comm.hash), r.level, answers, r.comm.nranks)), r.comm.hash)
    });
    rows
}

/// Those of [`all_rows`] that pass the filter, as the user sorted them.
fn rows<'a>(ctx: &Ctx<'a>) -> Vec<Row<'a>> {
    let mut rows = all_rows(ctx);
    table::retain(ctx, &columns(), &mut rows);
    table::sort(ctx, &columns(), &mut rows);
    rows
}

/// Every column of a communicator.
pub fn cells(ctx: &Ctx, hash: u64) -> Facts {
    all_rows(ctx).iter().find(|row| row.comm.hash == hash).map_or(Vec::new(), |row| table::facts(ctx, &columns(), row))
}

/// A communicator rank by rank.
pub fn draw_ranks(ctx: &Ctx, hash: u64, area: Rect, buf: &mut Buffer) {
    if let Some(row) = all_rows(ctx).iter().find(|row| row.comm.hash == hash) {
        ranks::details(ctx, row, area, buf);
    }
}

fn open(ctx: &Ctx) -> Opened {
    let names = names(&rows(ctx));
    let name = ctx.selected(&names).and_then(|at| names.get(at));
    name.map_or(Opened::Nothing, |name| Opened::Detail(Subject::new("comm", name)))
}

fn names(rows: &[Row]) -> Vec<String> {
    rows.iter().map(|r| format!("{:016x}", r.comm.hash)).collect()
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::word("comm", 8, 8, 0, |_, r| plain(short(r.comm)), |_, r| SortKey::word(short(r.comm))),
        Column::word("job", 7, 12, 1, |_, r| plain(r.job.clone()?), |_, r| r.job.clone().map_or(SortKey::Absent, SortKey::Word)),
        Column::amount("ranks", 5, 1, |_, r| Some(r.comm.nranks.into()), whole),
        Column::amount("nodes", 5, 4, |_, r| (r.hosts > 0).then_some(r.hosts as f64), whole),
        Column::number("ops", 7, 2, |_, r| answered(r, r.operations, None), |_, r| SortKey::number(Some(r.operations as f64))),
        Column::number(
            "behind",
            6,
            3,
            |ctx, r| answered(r, r.behind.len() as u64, (!r.behind.is_empty()).then(|| style(ctx, r.level))),
            |_, r| SortKey::number(Some(r.behind.len() as f64)),
        ),
        Column::number(
            "missing",
            7,
            3,
            |ctx, r| answered(r, r.comm.missing.len() as u64, (!r.comm.missing.is_empty()).then(|| style(ctx, r.level))),
            |_, r| SortKey::number(Some(r.comm.missing.len() as f64)),
        ),
        Column::number(
            "answered",
            9,
            5,
            |ctx, r| plain(span(ctx.session.model.now.since(r.comm.answered_at?))),
            |ctx, r| SortKey::number(r.comm.answered_at.map(|at| -ctx.session.model.now.since(at).as_secs_f64())),
        ),
        Column::word(
            "state",
            12,
            300,
            0,
            |ctx, r| Some((r.words.clone(), Some(style(ctx, r.level)))),
            |_, r| SortKey::number(Some(f64::from(r.level as u8))),
        ),
    ]
}

/// A number that only RAS knows.
fn answered(row: &Row, n: u64, style: Option<Style>) -> Cell {
    row.comm.answered_at.map(|_| (n.to_string(), style))
}

fn job<'a>(ctx: &Ctx<'a>) -> Option<&'a Job> {
    let (id, _) = ctx.main_job()?;
    ctx.session.model.jobs.get(id)
}

fn items(ctx: &Ctx) -> Vec<Item> {
    let model = &ctx.session.model;
    let Some(job) = job(ctx) else { return Vec::new() };
    let mut items = model.bringup_of(&job.id).items(model, job);
    items.extend(host_checks::items(model));
    items
}

fn title(ctx: &Ctx) -> String {
    // The checklist is that of one job, communicators are those of all.
    let whose = job(ctx).and_then(|job| ctx.whose(&job.id)).map_or(String::new(), |id| format!(" of job {id}"));
    match ctx.session.model.comms.len() {
        0 => format!("NCCL bring-up{whose} and communicators"),
        n if whose.is_empty() => format!("NCCL bring-up, {}", counted(n, "communicator")),
        n => format!("NCCL bring-up{whose}, {} of all jobs", counted(n, "communicator")),
    }
}

/// Of the overview: the items of which something is known, and the names of the others, where these are many: one line does for them.
fn known(items: Vec<Item>) -> (Vec<Item>, Vec<&'static str>) {
    const FEW: usize = 3;
    let is_unseen = |item: &Item| item.state == Seen::NotSeen && item.value.is_empty();
    if items.iter().filter(|item| is_unseen(item)).count() <= FEW {
        return (items, Vec::new());
    }
    let (unseen, seen): (Vec<Item>, Vec<Item>) = items.into_iter().partition(is_unseen);
    (seen, unseen.into_iter().map(|item| item.label).collect())
}

/// Rows of items in so many columns, with the line of what was not seen.
fn item_rows(items: &(Vec<Item>, Vec<&'static str>), width: u16, room: u16) -> u16 {
    let seen = items.0.len() as u16;
    seen.div_ceil(item_columns(width, seen, room)) + u16::from(!items.1.is_empty())
}

/// Columns of so many items, in so many rows at most.
fn item_columns(width: u16, items: u16, rows: u16) -> u16 {
    if width >= TWO_COLUMNS || (width >= TWO_NARROW && rows < items) { 2 } else { 1 }
}

fn want(ctx: &Ctx, width: u16) -> Option<Want> {
    let comms = ctx.session.model.comms.len().min(500) as u16;
    let rows = item_rows(&known(items(ctx)), width, 0);
    let (all, comfort) = ((rows + comms).max(2), (rows + comms.min(2)).max(1));
    Some(Want { width: 30, least: 1, comfort, all, priority: 5, late: false, grows: false })
}

/// Of the overview: how many rows items and communicators get.
fn overview_rows(items: &(Vec<Item>, Vec<&'static str>), area: Rect, comms: usize) -> (u16, u16) {
    let room = area.height - (comms as u16).min(1).min(area.height);
    let items = item_rows(items, area.width, room).min(room);
    (items, (comms.min(5000) as u16).min(area.height - items))
}

struct Zoomed {
    items: Rect,
    table: Rect,
    /// With the line above it.
    detail: Rect,
}

/// Items with their lines above, the table, and the selected communicator.
fn zoomed(items: &[Item], area: Rect, comms: usize) -> Zoomed {
    let proofs = items.iter().any(|i| i.proof.is_some());
    let seen = items.iter().filter(|i| i.state != Seen::NotSeen).count().max(1) as u16;
    let columns = item_columns(area.width, items.len() as u16, 0);
    let items = match items.len() as u16 {
        n if comms == 0 || (area.height >= 24 && proofs) => n.min(area.height),
        0 => 0,
        n if area.height >= 24 => n.div_ceil(columns),
        // What is not seen says nothing.
        _ => seen.div_ceil(columns).min(area.height / 3),
    };
    let items = Rect { height: items, ..area };
    let gap = u16::from(items.height > 0 && area.height > items.height + 6);
    let room = area.height - items.height - gap;
    let table = if comms == 0 { 0 } else { (1 + comms.min(100) as u16).min((room / 3).max(2)).min(room) };
    let table = Rect { y: items.bottom() + gap, height: table, ..area };
    let below = area.bottom() - table.bottom();
    // If there is nothing below, the table may have it all.
    if below < 4 || comms == 0 {
        return Zoomed { items, table: Rect { height: if comms == 0 { 0 } else { room }, ..table }, detail: Rect { height: 0, ..area } };
    }
    Zoomed { items, table, detail: Rect { y: table.bottom(), height: below, ..area } }
}

fn row_at(ctx: &Ctx, area: Rect, y: u16) -> Option<usize> {
    let names = names(&rows(ctx));
    let (list, head) = if ctx.zoomed {
        (zoomed(&items(ctx), area, names.len()).table, 1)
    } else {
        let (items, comms) = overview_rows(&known(items(ctx)), area, names.len());
        (Rect { y: area.y + items, height: comms, ..area }, 0)
    };
    let line = usize::from(y.checked_sub(list.y + head).filter(|_| y < list.bottom())?);
    let height = usize::from(list.height - head);
    let row = first_shown(names.len(), ctx.selected(&names), height) + line;
    (row < names.len()).then_some(row)
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let items = items(ctx);
    let rows = rows(ctx);
    if rows.is_empty() && items.iter().all(|i| i.state == Seen::NotSeen && i.value.is_empty()) {
        nothing(ctx, area, buf);
        return;
    }
    let selected = ctx.selected(&names(&rows));
    if ctx.zoomed {
        let places = zoomed(&items, area, rows.len());
        if usize::from(places.items.height) >= items.len() {
            proven(ctx, &items, places.items, buf);
        } else {
            compact(ctx, &items, places.items, buf);
        }
        if places.table.y > places.items.bottom() && places.items.height > 0 {
            let line = "─".repeat(usize::from(area.width));
            buf.put(area.x, places.items.bottom(), line, usize::from(area.width), ctx.theme.border);
        }
        if !rows.is_empty() {
            table::draw(ctx, &columns(), &rows, selected, |row| Look { culprit: blamed(ctx, row), is_old: false }, places.table, buf);
        } else if places.items.bottom() < area.bottom() {
            let below = Rect { y: places.table.y, height: area.bottom() - places.table.y, ..area };
            said(ctx, &ctx.why_empty(|| format!("no communicator known: {}", ras_words(ctx))), below, buf);
        }
        if let Some(row) = selected.and_then(|s| rows.get(s)).filter(|_| places.detail.height > 1) {
            let (_, inner) = super::split_detail(ctx, places.detail, places.detail.height, buf);
            ranks::details(ctx, row, inner, buf);
        }
        return;
    }
    let items = known(items);
    let (item_rows, comm_rows) = overview_rows(&items, area, rows.len());
    let unseen = u16::from(!items.1.is_empty() && item_rows > u16::from(!items.0.is_empty()));
    compact(ctx, &items.0, Rect { height: item_rows - unseen, ..area }, buf);
    if unseen > 0 {
        let place = Rect { y: area.y + item_rows - 1, height: 1, ..area };
        Pen::new(buf, place).put(&format!("· not in any log: {}", items.1.join(", ")), ctx.theme.dim);
    }
    let list = Rect { y: area.y + item_rows, height: comm_rows, ..area };
    let first = first_shown(rows.len(), selected, usize::from(comm_rows));
    let shown = &rows[first..rows.len().min(first + usize::from(comm_rows))];
    let wide = |text: &dyn Fn(&Row) -> String| shown.iter().map(|r| text(r).width()).max().unwrap_or(0);
    let (ranks, nodes, jobs) = (wide(&ranks_words), wide(&nodes_words), wide(&job_words));
    for (i, (row, y)) in shown.iter().zip(list.y..list.bottom()).enumerate() {
        let place = Rect { y, height: 1, ..area };
        let mut pen = Pen::new(buf, place);
        pen.put("comm ", ctx.theme.dim);
        pen.put(&short(row.comm), ctx.theme.text);
        if jobs > 0 {
            pen.put(&format!("  {:<jobs$}", job_words(row)), ctx.theme.text);
        }
        pen.put(&format!("  {:>ranks$}", ranks_words(row)), ctx.theme.text);
        // On a narrow screen the sentence is worth more.
        if area.width >= 76 && nodes > 0 {
            pen.put(&format!("  {:>nodes$}", nodes_words(row)), ctx.theme.text);
        }
        if area.width >= 86 {
            let operations = row.comm.answered_at.map_or("–".into(), |_| row.operations.to_string());
            pen.put(&format!("  {operations:>6} ops"), ctx.theme.text);
        }
        pen.put(&format!("  {}", row.words), if row.level == Level::Calm { ctx.theme.dim } else { style(ctx, row.level) });
        super::mark_culprit(ctx, place, blamed(ctx, row), buf);
        if selected == Some(first + i) && ctx.focused {
            super::mark_selected(ctx, place, buf);
        }
    }
}

/// Whether the verdict names a rank that does not keep up in this communicator.
fn blamed(ctx: &Ctx, row: &Row) -> Option<Severity> {
    let late = |rank: &u32| row.comm.missing.contains_key(rank) || row.behind.iter().any(|b| b.rank == *rank);
    ctx.culprits().of_comm(&ctx.session.model, row.comm).into_iter().filter(|(rank, _)| late(rank)).map(|(_, bad)| bad).max()
}

fn ranks_words(row: &Row) -> String {
    counted(row.comm.nranks, "rank")
}

fn nodes_words(row: &Row) -> String {
    if row.hosts == 0 { String::new() } else { counted(row.hosts as u64, "node") }
}

/// `job 2890`, in as many columns as may be taken from the sentence.
fn job_words(row: &Row) -> String {
    row.job.as_ref().map_or(String::new(), |id| format!("job {}", shorten(id, JOB)))
}

/// What RAS or its source says of itself.
fn ras_words(ctx: &Ctx) -> String {
    let ras = &ctx.session.model.ras;
    let words = ras.error.clone().or_else(|| ctx.source_detail("ras")).unwrap_or_else(|| match ras.answered_at {
        Some(_) => "RAS answers, and reports no communicators".into(),
        None => "RAS has not answered".into(),
    });
    clean(&words).into_owned()
}

fn nothing(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let ras = ctx.session.model.ras.answered_at.is_some();
    let first = if ras {
        "no NCCL lines in the logs, and RAS reports no communicators; with NCCL_DEBUG=INFO, NCCL logs its start"
    } else {
        "no NCCL lines in the logs, and RAS does not answer; with NCCL_DEBUG=INFO, NCCL logs its start"
    };
    said(ctx, first, area, buf);
    let used = (wrap(first, usize::from(area.width)).len() as u16).min(area.height);
    said(ctx, &format!("RAS: {}", ras_words(ctx)), Rect { y: area.y + used, height: area.height - used, ..area }, buf);
}

/// A dim text, wrapped.
fn said(ctx: &Ctx, text: &str, area: Rect, buf: &mut Buffer) {
    for (part, y) in wrap(text, usize::from(area.width)).iter().zip(area.y..area.bottom()) {
        Pen::new(buf, Rect { y, height: 1, ..area }).put(part, ctx.theme.dim);
    }
}

fn mark(ctx: &Ctx, item: &Item) -> (&'static str, Style) {
    match item.state {
        Seen::Pass => ("✓ ", ctx.theme.good),
        Seen::Warn => ("▲ ", ctx.theme.look),
        Seen::Fail => ("× ", ctx.theme.act),
        Seen::NotSeen => ("· ", ctx.theme.dim),
    }
}

/// Mark, label and value.
fn put_item(ctx: &Ctx, pen: &mut Pen, item: &Item, label: usize) {
    let (sign, mark_style) = mark(ctx, item);
    pen.put(sign, mark_style);
    pen.put(&format!("{:<label$} ", item.label), ctx.theme.dim);
    let value = if item.value.is_empty() { "–".into() } else { clean(&item.value) };
    let style = match item.state {
        Seen::Warn => ctx.theme.look,
        Seen::Fail => ctx.theme.act,
        Seen::NotSeen => ctx.theme.dim,
        Seen::Pass => ctx.theme.text,
    };
    pen.put(&value, style);
}

/// Without their lines; what does not fit is what needs no look.
fn compact(ctx: &Ctx, items: &[Item], area: Rect, buf: &mut Buffer) {
    let columns = item_columns(area.width, items.len() as u16, area.height);
    let room = usize::from(area.height) * usize::from(columns);
    let mut shown: Vec<&Item> = items.iter().collect();
    if room < shown.len() {
        shown.sort_by_key(|i| match i.state {
            Seen::Fail => 0,
            Seen::Warn => 1,
            Seen::Pass => 2,
            Seen::NotSeen => 3,
        });
        shown.truncate(room);
    }
    let down = shown.len().div_ceil(usize::from(columns)).max(1);
    let wide = area.width / columns;
    let label = |shown: &[&Item]| if wide >= 44 { shown.iter().map(|i| i.label.width()).max().unwrap_or(0) } else { 0 };
    for (column, items) in shown.chunks(down).enumerate() {
        let label = label(items);
        for (item, y) in items.iter().zip(area.y..area.bottom()) {
            let x = area.x + column as u16 * wide;
            // A gap between the columns.
            let width = if column + 1 < usize::from(columns) { wide.saturating_sub(2) } else { area.right() - x };
            put_item(ctx, &mut Pen::new(buf, Rect { x, y, width, height: 1 }), item, label);
        }
    }
}

/// Each with the line that proves it.
fn proven(ctx: &Ctx, items: &[Item], area: Rect, buf: &mut Buffer) {
    let label = items.iter().map(|i| i.label.width()).max().unwrap_or(0);
    let value = items.iter().map(|i| i.value.width()).max().unwrap_or(0) as u16;
    let left = (2 + label as u16 + 1 + value).min(area.width * 3 / 5).max(area.width.min(40));
    for (item, y) in items.iter().zip(area.y..area.bottom()) {
        // Without a proof the value may take the row.
        let width = if item.proof.is_some() { left } else { area.width };
        put_item(ctx, &mut Pen::new(buf, Rect { y, width, height: 1, ..area }), item, label);
        let Some(proof) = &item.proof else { continue };
        let mut pen = Pen::new(buf, Rect { y, height: 1, ..area });
        pen.skip(left + 2);
        let file = ctx.session.model.files.get(&proof.file).map_or("–".into(), |f| clean(f.name()).into_owned());
        let line = proof.line.map_or(String::new(), |n| format!(":{n}"));
        pen.put(&format!("{file}{line}  "), ctx.theme.dim);
        // Who wrote the line matters less than what it says.
        let text = clean(&proof.text);
        pen.put(text.split_once(" NCCL INFO ").map_or(&*text, |(_, said)| said), ctx.theme.dim);
    }
}
