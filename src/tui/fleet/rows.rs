//! What the panes of the fleet's screen list: rows with cells, and what each row leads to.

use super::choices::Place;
use crate::base::clean::clean;
use crate::base::severity::{Role, Severity};
use crate::base::time::span;
use crate::base::units::{group, significant};
use crate::base::words::natural;
use crate::diagnosis::verdict::State;
use crate::fleet::asking::{Focus, Frame};
use crate::fleet::model::{Job, Rank, ranks_of};
use crate::fleet::rules::{Finding, weight_of, whom};
use crate::tui::theme::{Theme, severity_mark, state_mark};
use crate::tui::widgets::table::SortKey;
use ratatui::style::Style;
use std::collections::BTreeMap;
use std::time::Duration;

/// Head, least and greatest width, numbers on the right, and the highest rank leaves first.
pub type Head = (&'static str, u16, u16, bool, u8);

/// What stands in a column of a row, and by what it is sorted.
pub struct Cell {
    pub text: String,
    pub style: Option<Style>,
    by: SortKey,
}

impl Cell {
    fn styled(self, style: Option<Style>) -> Cell {
        Cell { style, ..self }
    }

    /// Sorted by this number, the highest first, and not by the text.
    fn by(self, number: Option<f64>) -> Cell {
        Cell { by: SortKey::number(number), ..self }
    }
}

pub struct Row {
    /// By which it stays selected.
    pub name: String,
    pub cells: Vec<Cell>,
    /// The verdict names it.
    pub bad: Option<Severity>,
    pub opens: Option<Focus>,
}

impl Row {
    /// All of it as one text, to filter by.
    fn text(&self) -> String {
        self.cells.iter().map(|cell| cell.text.as_str()).collect::<Vec<_>>().join(" ")
    }
}

pub const JOBS: &[Head] = &[
    ("job", 8, 16, false, 0),
    ("name", 8, 18, false, 5),
    ("user", 6, 10, false, 7),
    ("state", 10, 10, false, 0),
    ("for", 9, 9, true, 1),
    ("culprit", 24, 64, false, 0),
    ("step", 9, 11, true, 3),
    ("left", 9, 9, true, 4),
    ("nodes", 7, 7, true, 2),
    ("ranks", 9, 9, true, 6),
];

pub const FINDINGS: &[Head] =
    &[("finding", 18, 22, false, 0), ("job", 6, 12, false, 2), ("for", 9, 9, true, 1), ("what", 18, 200, false, 0)];

fn cell(text: impl Into<String>) -> Cell {
    let text = clean(&text.into()).into_owned();
    Cell { by: SortKey::word(natural(&text)), style: None, text }
}

fn dash(text: Option<String>) -> Cell {
    text.map_or(Cell { text: "–".into(), style: None, by: SortKey::Absent }, cell)
}

/// A number with its words; a dash where it is not known.
fn amount(value: Option<f64>, words: impl Fn(f64) -> String) -> Cell {
    dash(value.map(words)).by(value)
}

/// How long something lasts.
fn lasting(time: Option<Duration>) -> Cell {
    dash(time.map(span)).by(time.map(|time| time.as_secs_f64()))
}

/// The finding that a job is judged by.
pub fn cause<'a>(frame: &'a Frame, job: &str) -> Option<&'a Finding> {
    frame.findings.iter().find(|f| f.job.as_deref() == Some(job) && f.role == Role::Root && f.severity > Severity::Info)
}

/// All jobs, the worst first.
pub fn ordered(frame: &Frame) -> Vec<(&String, &Job)> {
    let mut jobs: Vec<(&String, &Job)> = frame.fleet.jobs.iter().collect();
    jobs.sort_by_cached_key(|(id, job)| weight_of(id, job, &frame.findings));
    jobs
}

/// `node0006, rank 43: hang-rank-absent`
fn blamed(found: &Finding) -> String {
    // The rank says enough where there is little room.
    let who = whom(&Finding { gpus: if found.ranks.is_empty() { found.gpus.clone() } else { Vec::new() }, ..found.clone() });
    if found.nodes.is_empty() && found.ranks.is_empty() { found.rule.clone() } else { format!("{who}: {}", found.rule) }
}

pub fn jobs(frame: &Frame, theme: &Theme) -> Vec<Row> {
    let row = |(id, job): (&String, &Job)| {
        let state = job.state();
        let cause = cause(frame, id);
        let bad = cause.map(|f| f.severity);
        let silent = job.silent().len();
        let style = match (state, bad) {
            (State::Training | State::Finished, Some(severity)) => theme.severity(severity),
            _ => theme.state(state),
        };
        let nodes = if silent > 0 { format!("{}/{}", job.answering(), job.members.len()) } else { job.members.len().to_string() };
        let ranks = match (job.ranks_seen, job.world_size) {
            (Some(seen), Some(world)) if seen < world => cell(format!("{seen}/{world}")).styled(Some(theme.look)),
            (seen, world) => dash(world.or(seen).map(|n| n.to_string())),
        };
        Row {
            name: id.clone(),
            cells: vec![
                cell(id),
                dash(job.name().map(str::to_owned)),
                dash(job.info.get("user").cloned()),
                cell(format!("{} {}", state_mark(state), state.as_str())).styled(Some(style)).by(Some(f64::from(state as u8))),
                lasting(job.since().map(|since| frame.fleet.at.since(since))),
                dash(cause.map(blamed)).styled(bad.map(|bad| theme.severity(bad))),
                amount(job.step, |step| group(step as u64)),
                lasting(job.eta()),
                cell(nodes).styled((silent > 0).then_some(theme.look)).by(Some(job.members.len() as f64)),
                ranks.by(job.world_size.or(job.ranks_seen).map(f64::from)),
            ],
            bad: bad.filter(|_| state >= State::Slow),
            opens: Some(Focus::Job(id.clone())),
        }
    };
    ordered(frame).into_iter().map(row).collect()
}

/// Findings that a screen is about.
pub fn findings_of<'a>(frame: &'a Frame, focus: &Focus) -> Vec<&'a Finding> {
    let is_about = |f: &&Finding| match focus {
        Focus::Overview => f.role != Role::Context || f.severity > Severity::Info,
        Focus::Job(job) => f.job.as_deref() == Some(job),
        Focus::Node(node, _) => f.nodes.contains(node) || f.witnesses.contains(node),
    };
    frame.findings.iter().filter(is_about).collect()
}

fn finding_name(f: &Finding) -> String {
    format!("{} {} {}", f.rule, f.job.as_deref().unwrap_or_default(), f.nodes.join(","))
}

pub fn findings(frame: &Frame, focus: &Focus, theme: &Theme) -> Vec<Row> {
    let row = |f: &Finding| {
        let follows = if f.role == Role::Root { "" } else { "↳ " };
        let what = if f.why.is_empty() { f.summary.clone() } else { format!("{} ({})", f.summary, f.why) };
        let opens = match focus {
            Focus::Overview => f.job.clone().map(Focus::Job).or_else(|| f.nodes.first().map(|node| Focus::Node(node.clone(), None))),
            Focus::Job(job) => f.nodes.first().map(|node| Focus::Node(node.clone(), Some(job.clone()))),
            Focus::Node(..) => f.job.clone().map(Focus::Job),
        };
        Row {
            name: finding_name(f),
            cells: vec![
                cell(format!("{follows}{} {}", severity_mark(f.severity), f.rule)).styled(Some(theme.severity(f.severity))),
                // All are of the same one there: a column in which nothing is known is left out.
                dash(f.job.clone().filter(|_| !matches!(focus, Focus::Job(_)))),
                lasting(f.since.map(|since| frame.fleet.at.since(since))),
                cell(what),
            ],
            bad: None,
            opens,
        }
    };
    findings_of(frame, focus).into_iter().map(row).collect()
}

/// A node in the grid of a job.
pub struct Tile {
    pub node: String,
    pub ranks: Vec<Rank>,
    pub waiting: Option<f64>,
    pub is_silent: bool,
    pub bad: Option<Severity>,
}

/// The nodes of a job, in the order of their names.
pub fn tiles(frame: &Frame, id: &str) -> Vec<Tile> {
    let Some(job) = frame.fleet.jobs.get(id) else { return Vec::new() };
    let mut ranks: BTreeMap<&str, Vec<Rank>> = BTreeMap::new();
    for rank in &job.detail.ranks {
        ranks.entry(&rank.instance).or_default().push(rank.clone());
    }
    let blames = |node: &String| {
        let about = frame.findings.iter().filter(|f| f.job.as_deref() == Some(id) && f.role == Role::Root && f.nodes.contains(node));
        about.map(|f| f.severity).filter(|severity| *severity > Severity::Info).max()
    };
    let mut tiles: Vec<Tile> = job
        .members
        .iter()
        .map(|(node, member)| Tile {
            node: node.clone(),
            ranks: ranks.remove(node.as_str()).unwrap_or_default(),
            waiting: member.waiting,
            is_silent: member.is_silent,
            bad: blames(node),
        })
        .collect();
    tiles.sort_by_cached_key(|tile| natural(&tile.node));
    tiles
}

pub const GPUS: &[Head] = &[
    ("GPU", 3, 3, true, 0),
    ("rank", 5, 5, true, 0),
    ("job", 8, 20, false, 4),
    ("working", 7, 7, true, 1),
    ("waiting", 7, 7, true, 0),
    ("idle", 5, 5, true, 1),
    ("SM%", 4, 4, true, 2),
    ("tensor", 6, 6, true, 3),
    ("W", 5, 5, true, 3),
    ("°C", 3, 3, true, 3),
    ("mem GiB", 7, 7, true, 4),
];

/// The GPUs of a node, as its last scrapes show them.
pub fn gpus(frame: &Frame, theme: &Theme) -> Vec<Row> {
    let ranks = ranks_of(&frame.node, "node-activity");
    let mut by_gpu: BTreeMap<u32, BTreeMap<String, f64>> = BTreeMap::new();
    for (series, value) in crate::fleet::model::values(&frame.node, "gpus") {
        if let Some(gpu) = series.number("gpu") {
            by_gpu.entry(gpu).or_default().insert(series.label("__name__").trim_start_matches("nccltop_gpu_").to_owned(), value);
        }
    }
    for rank in &ranks {
        by_gpu.entry(rank.gpu.unwrap_or(rank.rank)).or_default();
    }
    let row = |(gpu, facts): (u32, BTreeMap<String, f64>)| {
        let rank = ranks.iter().find(|rank| rank.gpu == Some(gpu) || rank.gpu.is_none() && rank.rank == gpu);
        let fact = |name: &str, times: f64| amount(facts.get(name).copied(), |value| format!("{:.0}", value * times));
        let share = |of: fn(&Rank) -> f64| amount(rank.map(of), |share| format!("{:.0} %", share * 100.0));
        let waiting = rank.map_or(0.0, |rank| rank.waiting);
        Row {
            name: gpu.to_string(),
            cells: vec![
                cell(gpu.to_string()),
                dash(rank.map(|rank| rank.rank.to_string())),
                dash(job_of(frame, rank)),
                share(|rank| rank.working),
                share(|rank| rank.waiting).styled((waiting > 0.5).then_some(theme.look)),
                share(|rank| rank.idle),
                fact("sm_active_ratio", 100.0),
                fact("tensor_active_ratio", 100.0),
                fact("power_watts", 1.0),
                fact("temperature_celsius", 1.0),
                fact("memory_used_bytes", 1.0 / f64::from(1 << 30)),
            ],
            bad: None,
            opens: None,
        }
    };
    by_gpu.into_iter().map(row).collect()
}

fn job_of(frame: &Frame, rank: Option<&Rank>) -> Option<String> {
    let rank = rank?;
    let mut of = crate::fleet::model::values(&frame.node, "node-activity").filter(|(series, _)| series.number("rank") == Some(rank.rank));
    of.next().map(|(series, _)| series.label("job_id").to_owned())
}

/// The rows of a pane that pass its filter.
pub fn shown(frame: &Frame, place: &Place, pane: usize, theme: &Theme) -> Vec<Row> {
    let filter = &place.lists[pane].filter;
    let mut rows = match (&place.focus, pane) {
        (Focus::Overview, 0) => jobs(frame, theme),
        (Focus::Node(..), 0) => gpus(frame, theme),
        (Focus::Job(job), 0) => tiles(frame, job).into_iter().map(|tile| tile.row(job)).collect(),
        (focus, _) => findings(frame, focus, theme),
    };
    if !filter.is_empty() {
        rows.retain(|row| filter.matches_text(&row.text(), &[], ""));
    }
    let list = &place.lists[pane];
    if let Some(column) = list.sort.checked_sub(1) {
        let key = |row: &Row| row.cells.get(column).map_or(SortKey::Absent, |cell| cell.by.clone());
        rows.sort_by(|a, b| key(a).order(&key(b), list.reverse));
    } else if list.reverse {
        rows.reverse();
    }
    rows
}

/// The columns of a pane, if it is a table.
pub fn heads(place: &Place, pane: usize) -> &'static [Head] {
    match (&place.focus, pane) {
        (Focus::Overview, 0) => JOBS,
        (Focus::Node(..), 0) => GPUS,
        (Focus::Job(_), 0) => &[],
        _ => FINDINGS,
    }
}

/// The columns in which something is known, by their place.
pub fn known(rows: &[Row], columns: usize) -> Vec<usize> {
    (0..columns).filter(|at| rows.is_empty() || rows.iter().any(|row| row.cells.get(*at).is_some_and(|cell| cell.text != "–"))).collect()
}

impl Tile {
    fn row(self, job: &str) -> Row {
        let opens = Some(Focus::Node(self.node.clone(), Some(job.to_owned())));
        Row { cells: vec![cell(&self.node)], name: self.node, bad: self.bad, opens }
    }
}

/// The names of the rows that keys go to.
pub fn names(frame: &Frame, place: &Place) -> Vec<String> {
    shown(frame, place, place.pane, &Theme::mono()).into_iter().map(|row| row.name).collect()
}

/// The row that keys go to: until one was chosen, the one to blame.
pub fn selected(frame: &Frame, place: &Place, names: &[String]) -> Option<usize> {
    let list = &place.lists[place.pane];
    let untouched = list.row.is_none() && list.index == 0;
    if let (true, Focus::Job(job), 0) = (untouched, &place.focus, place.pane)
        && let Some(worst) = tiles(frame, job).into_iter().filter(|tile| tile.bad.is_some()).max_by_key(|tile| tile.bad)
    {
        return names.iter().position(|name| *name == worst.node).or_else(|| list.position(names));
    }
    list.position(names)
}

/// What enter opens.
pub fn opens(frame: &Frame, place: &Place) -> Option<Focus> {
    let mut rows = shown(frame, place, place.pane, &Theme::mono());
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let at = selected(frame, place, &names)?;
    rows.swap_remove(at).opens
}

/// The command to run next, of what is looked at.
pub fn command(frame: &Frame, place: &Place) -> Option<String> {
    let next = |job: &str| cause(frame, job)?.next.clone();
    match &place.focus {
        Focus::Node(node, _) => Some(crate::fleet::rules::open_command(&frame.fleet, node)),
        Focus::Job(job) => next(job),
        Focus::Overview => ordered(frame).first().and_then(|(id, _)| next(id)),
    }
}

/// How a job goes, in one line.
pub fn job_facts(frame: &Frame, job: &Job) -> String {
    let mut parts = Vec::new();
    if let Some(step) = job.step {
        let of = job.steps.map_or(String::new(), |steps| format!(" of {}", group(steps as u64)));
        parts.push(format!("step {}{of}", group(step as u64)));
    }
    if let Some(pace) = job.step_time_s {
        let usual = job.usual_step_time_s.map_or(String::new(), |usual| format!(" (usually {usual:.2})"));
        parts.push(format!("{pace:.2} s/step{usual}"));
    }
    parts.extend(job.last_step_at.map(|at| format!("last step {} ago", span(frame.fleet.at.since(at)))));
    parts.extend(job.loss.map(|loss| format!("loss {}", significant(loss))));
    parts.extend(job.throughput.iter().map(|(unit, rate)| format!("{} {unit}/s", crate::base::units::scaled(*rate))));
    parts.extend(job.eta().map(|left| format!("{} left", span(left))));
    parts.extend(job.restarts.filter(|n| *n > 0).map(|n| format!("attempt {}", n + 1)));
    clean(&parts.join(" · ")).into_owned()
}

/// Whose it is and where it runs, in one line.
pub fn job_labels(job: &Job) -> String {
    let label = |name: &&str| job.info.get(*name).map(|value| format!("{} {value}", name.replace("job_", "")));
    let mut parts: Vec<String> = ["job_name", "user", "account", "partition", "namespace", "launcher"].iter().filter_map(label).collect();
    let mut versions: BTreeMap<&str, usize> = BTreeMap::new();
    job.members.values().filter(|m| !m.nccl_version.is_empty()).for_each(|m| *versions.entry(&m.nccl_version).or_default() += 1);
    let several = versions.len() > 1;
    parts.extend(
        versions.iter().map(|(version, nodes)| if several { format!("NCCL {version} on {nodes}") } else { format!("NCCL {version}") }),
    );
    clean(&parts.join(" · ")).into_owned()
}
