//! The fleet's screen.
//!
//! ```text
//!  nccl-top fleet · prometheus:9090 · 1,000 nodes, 1 does not answer · 16 jobs              10:04:09 ● live
//!  ■ STUCK 4 m 12 s  job 4417: rank 43 on node0006: One or some ranks did not join a collective, …
//!    why: 12 nodes report it: node0001, node0002, node0003, node0004 and 8 more
//!    next: ssh -t -- node0006 nccl-top
//! ╭ Jobs: 16 ────────────────────────────────────────────────────────────────────────────────────╮
//! │ job   state       for     culprit                                  step      left   nodes    │
//! ╰──────────────────────────────────────────────────────────────────────────────────────────────╯
//! ╭ Findings: 1 ─────────────────────────────────────────────────────────────────────────────────╮
//!  enter open   / filter   p pause   ← back   ? help   q quit
//! ```

use super::choices::{ACTIONS, FleetUi, What};
use super::rows::{self, Head, Row};
use super::{grid, ports};
use crate::base::clean::clean;
use crate::base::time::{Stamp, span};
use crate::base::units::{counted, group};
use crate::base::words::wrap;
use crate::diagnosis::verdict::State;
use crate::fleet::asking::{Focus, Frame};
use crate::fleet::model::Job;
use crate::fleet::rules::open_command;
use crate::tui::actions::{Action, KEYS};
use crate::tui::help::{self, Subjects};
use crate::tui::layout;
use crate::tui::panes::{blame_row, select_row};
use crate::tui::theme::{Theme, state_mark};
use crate::tui::view::{draw_popup, fitted, frame, sign, wrap_to};
use crate::tui::widgets::put::Put;
use crate::tui::widgets::table::{Extra, Wanted, put, spread};
use crate::tui::widgets::{first_shown, spark};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};
use std::collections::BTreeMap;
use std::time::Duration;
use unicode_width::UnicodeWidthStr;

/// What there is to draw.
pub struct Shown<'a> {
    /// The last answers that came whole, and what they were asked for.
    pub frame: Option<(&'a Frame, &'a Focus)>,
    /// Since when the server has not answered, and why.
    pub failing: Option<&'a (Stamp, String)>,
    pub server: &'a str,
    /// The present.
    pub now: Stamp,
    /// An answer is on its way.
    pub asked: bool,
}

/// Answers older than this are marked as such.
const FRESH: Duration = Duration::from_secs(12);
const LEAST: (u16, u16) = (40, 10);
/// Verdicts of jobs that stand on top.
const MOST_VERDICTS: usize = 3;

const WORDS: &[(&str, &str)] = &[
    ("● ◐ ○", "training or finished; starting or paused for a named reason; idle or unknown"),
    ("▲ ■", "look: slow, a warning; act: stuck, failed, an error"),
    ("►", "the node that a finding names: look there first"),
    ("▅ ░ ▁", "a rank of the grid, by what it did most of the last minute: works, higher where it works more; waits in collectives; idles"),
    ("% waiting", "the share of the last minute that the ranks of a node waited: all wait for the one that waits least"),
    ("no answer", "the node had the job when Prometheus last reached it, within the hour, and is not reached now"),
    ("11/12", "of 12 nodes of the job 11 answer; of ranks: so many are reported by some node"),
    ("–", "not known: no log shows it, or no source of the node does"),
    ("↳", "a consequence of another finding of the same job"),
    ("for, left", "how long it has been so; the time that the steps still take at the usual pace"),
];

pub fn draw(buf: &mut Buffer, shown: &Shown, ui: &FleetUi, theme: &Theme) {
    let area = *buf.area();
    ui.forget_spots();
    buf.set_style(area, theme.text);
    let mut lines = vec![header(shown, ui, theme, area.width)];
    lines.extend(trouble(shown, theme, area.width));
    let is_small = area.width < LEAST.0 || area.height < LEAST.1;
    if let Some((frame, _)) = shown.frame {
        let most = usize::from(area.height.saturating_sub(8)).max(1);
        let mut verdicts = verdicts(frame, ui.focus(), theme, area);
        verdicts.truncate(most);
        lines.extend(verdicts);
    } else if shown.failing.is_none() {
        lines.push(Line::styled("   the first answers are on their way", theme.dim));
    }
    let top = (lines.len() as u16).min(area.height.saturating_sub(u16::from(!is_small)));
    for (line, y) in lines.iter().zip(0..top) {
        buf.put_line(area.x, y, line, area.width);
    }
    if is_small {
        return;
    }
    let body = Rect { y: top, height: area.height.saturating_sub(top + 1), ..area };
    if let Some((frame, of)) = shown.frame {
        match ui.focus() {
            focus if focus != of => paragraph(buf, body, "the answers are on their way", theme),
            Focus::Overview => overview(buf, body, frame, ui, theme),
            Focus::Job(id) => match frame.fleet.jobs.get(id) {
                Some(job) => self::job(buf, body, frame, (id, job), ui, theme),
                None => paragraph(buf, body, "no node reports this job at this moment; esc goes back", theme),
            },
            Focus::Node(node, _) => self::node(buf, body, frame, node, ui, theme),
        }
    }
    if let Some((from, only)) = &ui.help {
        draw_help(buf, body, ui, (*from, only), theme);
    }
    footer(buf, area, shown, ui, theme);
    if let Some(text) = &ui.popup {
        draw_popup(buf, area, theme, "Sent to the clipboard", text);
    }
}

fn header(shown: &Shown, ui: &FleetUi, theme: &Theme, width: u16) -> Line<'static> {
    let server = shown.server.split_once("://").map_or(shown.server, |(_, host)| host);
    let mut parts = vec!["nccl-top fleet".to_owned()];
    match ui.focus() {
        Focus::Overview => {}
        Focus::Job(job) => parts.push(format!("job {job}")),
        Focus::Node(node, _) => parts.push(node.clone()),
    }
    if let Some((frame, _)) = shown.frame {
        let nodes = &frame.fleet.nodes;
        let silent = nodes.values().filter(|node| !node.answers).count();
        let silent = match silent {
            0 => String::new(),
            1 => ", 1 does not answer".into(),
            n => format!(", {} do not answer", group(n as u64)),
        };
        let nodes = if nodes.len() == 1 { "1 node".into() } else { format!("{} nodes", group(nodes.len() as u64)) };
        parts.push(format!("{nodes}{silent}"));
        parts.push(counted(frame.fleet.jobs.len() as u64, "job"));
    }
    parts.push(server.to_owned());
    let (mode, style) = mode(shown, ui, theme);
    let at = shown.frame.map_or(shown.now, |(frame, _)| frame.fleet.at);
    let right = format!("{}  ", ui.zone.hms(at));
    let room = usize::from(width).saturating_sub(right.width() + mode.width() + 2);
    while parts.len() > 1 && clean(&parts.join(" · ")).width() + 1 > room {
        parts.pop();
    }
    let left = fitted(&format!(" {}", clean(&parts.join(" · "))), room);
    let gap = " ".repeat(room.saturating_sub(left.width()) + 1);
    Line::from(vec![Span::styled(left, theme.title), Span::raw(gap), Span::styled(right, theme.dim), Span::styled(mode, style)])
}

fn mode(shown: &Shown, ui: &FleetUi, theme: &Theme) -> (String, Style) {
    let age = shown.frame.map(|(frame, _)| shown.now.since(frame.fleet.at));
    match (ui.at, shown.failing, age) {
        (Some(at), ..) if shown.frame.is_some_and(|(frame, _)| frame.fleet.at != at) => ("‖ asks".into(), theme.dim),
        (Some(_), _, Some(age)) => (format!("‖ {} ago", span(age)), theme.look),
        (_, Some((since, _)), _) => (format!("✗ no answer for {}", span(shown.now.since(*since))), theme.act),
        (None, None, Some(age)) if age > FRESH => (format!("○ {} old", span(age)), theme.look),
        (None, None, Some(_)) => ("● live".into(), theme.good),
        _ => ("○ asks".into(), theme.dim),
    }
}

/// What is wrong with the server, and since when what is shown no longer holds.
fn trouble(shown: &Shown, theme: &Theme, width: u16) -> Vec<Line<'static>> {
    let Some((_, why)) = shown.failing else { return Vec::new() };
    let old = match shown.frame {
        Some((frame, _)) => format!("; what is shown is {} old", span(shown.now.since(frame.fleet.at))),
        None => String::new(),
    };
    let text = format!("{}: {}{old}", clean(shown.server), clean(why));
    let parts = wrap_to(&text, usize::from(width.saturating_sub(4)), 3).into_iter().enumerate();
    parts.map(|(i, part)| Line::styled(format!(" {} {part}", if i == 0 { "✗" } else { " " }), theme.act)).collect()
}

/// State, culprit, since, evidence, next step: of the job that is looked at, or of the worst.
fn verdicts(frame: &Frame, focus: &Focus, theme: &Theme, area: Rect) -> Vec<Line<'static>> {
    let is_bad =
        |id: &str, job: &Job| rows::cause(frame, id).is_some() || matches!(job.state(), State::Slow | State::Stuck | State::Failed);
    let jobs: Vec<(&String, &Job)> = match focus {
        Focus::Overview => rows::ordered(frame).into_iter().filter(|(id, job)| is_bad(id, job)).collect(),
        Focus::Job(wanted) | Focus::Node(_, Some(wanted)) => frame.fleet.jobs.get_key_value(wanted).into_iter().collect(),
        Focus::Node(_, None) => Vec::new(),
    };
    let mut lines = Vec::new();
    let few = jobs.len() > 1 && area.height < 30;
    for (no, (id, job)) in jobs.iter().enumerate() {
        if no >= MOST_VERDICTS || no > 0 && few {
            let more = crate::tui::view::more_jobs(jobs[no..].iter().map(|(_, job)| job.state()));
            lines.push(Line::styled(fitted(&format!("   {more}"), usize::from(area.width)), theme.dim));
            break;
        }
        lines.extend(verdict(frame, id, job, theme, area));
    }
    if lines.is_empty() && *focus == Focus::Overview {
        lines.push(all_well(frame, theme));
    }
    lines
}

/// `● 14 training, 1 starting   no findings`
fn all_well(frame: &Frame, theme: &Theme) -> Line<'static> {
    let mut states: BTreeMap<State, usize> = BTreeMap::new();
    frame.fleet.jobs.values().for_each(|job| *states.entry(job.state()).or_default() += 1);
    let words: Vec<String> = states.iter().rev().map(|(state, n)| format!("{n} {}", state.as_str())).collect();
    let words = if words.is_empty() { "no job on any node".to_owned() } else { words.join(", ") };
    let worst = states.keys().next_back().copied().unwrap_or(State::Idle);
    let others = frame.findings.iter().filter(|f| f.severity > crate::base::severity::Severity::Info).count();
    let findings = if others == 0 { "no findings".into() } else { counted(others as u64, "finding") };
    Line::from(vec![
        Span::styled(format!(" {} {words}", state_mark(worst)), theme.state(worst)),
        Span::styled(format!("   {findings}"), theme.dim),
    ])
}

fn verdict(frame: &Frame, id: &str, job: &Job, theme: &Theme, area: Rect) -> Vec<Line<'static>> {
    let width = usize::from(area.width);
    let state = job.state();
    let cause = rows::cause(frame, id);
    let lasts = job.since().map_or(String::new(), |since| format!(" {}", span(frame.fleet.at.since(since))));
    let head = format!(" {} {}{lasts}  ", state_mark(state), state.as_str().to_uppercase());
    let style = match cause {
        Some(f) if state <= State::Paused => theme.severity(f.severity),
        _ => theme.state(state),
    };
    let disagree = job.states.len() > 1;
    let nodes = |(state, n): (&State, &usize)| format!("{} on {n}", state.as_str());
    let states = disagree.then(|| job.states.iter().rev().map(nodes).collect::<Vec<_>>().join(", "));
    let what = match cause {
        Some(f) => clean(&f.summary).into_owned(),
        None if matches!(state, State::Stuck | State::Failed) => "no node and no rule of the fleet names a culprit".into(),
        None => rows::job_facts(frame, job),
    };
    let sentence = format!("job {}: {what}", clean(id));
    let indent = " ".repeat(head.width().min(width / 3));
    let mut lines: Vec<Line> = wrap_to(&sentence, width.saturating_sub(head.width() + 1).max(20), 2)
        .into_iter()
        .enumerate()
        .map(|(i, part)| {
            let head = if i == 0 { Span::styled(head.clone(), style) } else { Span::raw(indent.clone()) };
            Line::from(vec![head, Span::styled(part, theme.text)])
        })
        .collect();
    let why = cause.map(|f| f.why.clone()).into_iter().chain(states).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" · ");
    let mut labelled = |label: &str, parts: Vec<String>, style: Style| {
        for (i, part) in parts.into_iter().enumerate() {
            let label = if i == 0 { format!("   {label}: ") } else { " ".repeat(label.len() + 5) };
            lines.push(Line::from(vec![Span::styled(label, theme.dim), Span::styled(part, style)]));
        }
    };
    if !why.is_empty() {
        labelled("why", wrap_to(&why, width.saturating_sub(9), 2), theme.text);
    }
    if let Some(next) = cause.and_then(|f| f.next.as_ref()) {
        labelled("next", wrap(next, width.saturating_sub(9)), theme.accent);
    }
    lines
}

fn is_framed(ui: &FleetUi) -> bool {
    ui.size.0 >= layout::NARROW
}

/// A pane with its title; what is inside is returned.
fn pane(buf: &mut Buffer, area: Rect, title: &str, focused: bool, ui: &FleetUi, theme: &Theme) -> Rect {
    let (border, words) = if focused { (theme.focus, theme.focus) } else { (theme.border, theme.title) };
    let title = format!("{}{}", if focused { "▸ " } else { "" }, clean(title));
    frame(buf, area, is_framed(ui), &title, border, words);
    layout::inside(area, is_framed(ui))
}

/// The title of a list: how many there are, and what they are filtered by.
fn titled(what: &str, count: usize, ui: &FleetUi, no: usize) -> String {
    let filter = &ui.place().lists[no].filter;
    let only = if filter.is_empty() { String::new() } else { format!(", only {}", filter.words()) };
    format!("{what}: {}{only}", group(count as u64))
}

fn paragraph(buf: &mut Buffer, area: Rect, text: &str, theme: &Theme) {
    for (part, y) in wrap(text, usize::from(area.width.saturating_sub(2))).iter().zip(area.y..area.bottom()) {
        buf.put(area.x + 1, y, part, usize::from(area.width.saturating_sub(1)), theme.dim);
    }
}

/// A table that keeps its columns where they are.
fn table(buf: &mut Buffer, area: Rect, (no, heads): (usize, &[Head]), rows: &[Row], selected: Option<usize>, ui: &FleetUi, theme: &Theme) {
    if area.height == 0 {
        return;
    }
    let columns = rows::known(rows, heads.len());
    let wants: Vec<Wanted> =
        columns.iter().map(|at| Wanted { width: heads[*at].1, widest: heads[*at].2, rank: heads[*at].4, extra: Extra::None }).collect();
    let places: Vec<(usize, u16, u16)> = spread(&wants, area).into_iter().map(|(no, x, width)| (columns[no], x, width)).collect();
    let order = &ui.place().lists[no];
    for (at, x, width) in &places {
        let sorted = order.sort == at + 1;
        let sign = if order.reverse { "▲" } else { "▼" };
        let head = if sorted { format!("{}{sign}", heads[*at].0) } else { heads[*at].0.to_owned() };
        put(buf, (*x, area.y, *width), &head, heads[*at].3, theme.dim);
        ui.spot(Rect { x: *x, y: area.y, width: *width, height: 1 }, no, What::Head(*at));
    }
    let body = Rect { y: area.y + 1, height: area.height - 1, ..area };
    let first = first_shown(rows.len(), selected, usize::from(body.height));
    for ((row_no, row), y) in rows.iter().enumerate().skip(first).zip(body.y..body.bottom()) {
        for (at, x, width) in &places {
            if let Some(cell) = row.cells.get(*at) {
                let plain = if cell.text == "–" { theme.dim } else { theme.text };
                put(buf, (*x, y, *width), &cell.text, heads[*at].3, cell.style.unwrap_or(plain));
            }
        }
        let line = Rect { y, height: 1, ..body };
        ui.spot(line, no, What::Row(row_no));
        if let Some(bad) = row.bad {
            blame_row(theme, line, bad, buf);
        }
        if selected == Some(row_no) {
            select_row(theme, line, buf);
        }
    }
}

/// A pane with a table whose rows keys may go to.
fn list(buf: &mut Buffer, area: Rect, (what, no, heads): (&str, usize, &[Head]), frame: &Frame, ui: &FleetUi, theme: &Theme, empty: &str) {
    if area.height < 2 {
        return;
    }
    let rows = rows::shown(frame, ui.place(), no, theme);
    let focused = ui.place().pane == no;
    let inside = pane(buf, area, &titled(what, rows.len(), ui, no), focused, ui, theme);
    ui.spot(area, no, What::Pane);
    if rows.is_empty() {
        let filtered = !ui.place().lists[no].filter.is_empty();
        paragraph(
            buf,
            Rect { x: inside.x.saturating_sub(1), ..inside },
            if filtered { "nothing passes the filter; esc clears it" } else { empty },
            theme,
        );
        return;
    }
    let names: Vec<String> = rows.iter().map(|row| row.name.clone()).collect();
    let selected = focused.then(|| rows::selected(frame, ui.place(), &names)).flatten();
    table(buf, inside, (no, heads), &rows, selected, ui, theme);
}

/// The first area as high as `wanted`, if that leaves `least` to the second.
fn split(area: Rect, wanted: u16, least: u16) -> (Rect, Rect) {
    let first = wanted.min(area.height.saturating_sub(least)).max(area.height / 3).min(area.height);
    (Rect { height: first, ..area }, Rect { y: area.y + first, height: area.height - first, ..area })
}

fn overview(buf: &mut Buffer, area: Rect, frame: &Frame, ui: &FleetUi, theme: &Theme) {
    let (_, chrome) = layout::chrome(is_framed(ui));
    let notes = notes(frame, usize::from(area.width.saturating_sub(2)));
    let area = above(buf, area, &notes, theme);
    let most = frame.history.iter().fold(1.0, |most: f64, (_, n)| most.max(*n));
    let area = history(buf, area, frame, ("findings", most), ui, theme);
    let (jobs, found) = (frame.fleet.jobs.len() as u16, rows::findings_of(frame, &Focus::Overview).len() as u16);
    let (top, below) = split(area, jobs.saturating_add(1 + chrome), found.saturating_add(1 + chrome).min(area.height / 2));
    list(buf, top, ("Jobs", 0, rows::JOBS), frame, ui, theme, "no node reports a job");
    list(buf, below, ("Findings", 1, rows::FINDINGS), frame, ui, theme, "none");
}

/// The half hour before the moment that is shown, in one line; what is left below it.
fn history(buf: &mut Buffer, area: Rect, frame: &Frame, (what, most): (&str, f64), ui: &FleetUi, theme: &Theme) -> Rect {
    let Some((first, _)) = frame.history.first().filter(|_| area.height > 12) else { return area };
    let label = format!("{what} since {} ", ui.zone.hms(*first));
    buf.set_string(area.x + 3, area.y, &label, theme.dim);
    let x = area.x + 3 + label.width() as u16;
    let cells = usize::from(area.right().saturating_sub(x + 1)).min(frame.history.len());
    let values: Vec<Option<f32>> = frame.history[frame.history.len() - cells..].iter().map(|(_, v)| Some(*v as f32)).collect();
    spark::draw(buf, x, area.y, &values, most as f32, theme.chart);
    Rect { y: area.y + 1, height: area.height - 1, ..area }
}

/// What was not seen, and what the server remarks.
fn notes(frame: &Frame, width: usize) -> Vec<String> {
    let mut parts: Vec<String> =
        frame.fleet.blind.iter().map(|(source, nodes)| format!("no {source} on {}", counted(*nodes as u64, "node"))).collect();
    if !parts.is_empty() {
        parts = vec![format!("not seen: {}", parts.join(", "))];
    }
    parts.extend(frame.fleet.remarks.iter().take(3).cloned());
    if parts.is_empty() { Vec::new() } else { wrap_to(&parts.join(" · "), width, 2) }
}

/// Writes lines at the bottom of an area; what is left above them.
fn above(buf: &mut Buffer, area: Rect, notes: &[String], theme: &Theme) -> Rect {
    let height = area.height.saturating_sub(notes.len() as u16);
    for (note, y) in notes.iter().zip(area.y + height..) {
        buf.put(area.x + 1, y, clean(note), usize::from(area.width.saturating_sub(2)), theme.dim);
    }
    Rect { height, ..area }
}

fn job(buf: &mut Buffer, area: Rect, frame: &Frame, (id, job): (&str, &Job), ui: &FleetUi, theme: &Theme) {
    let (_, chrome) = layout::chrome(is_framed(ui));
    let mut facts = vec![rows::job_facts(frame, job), rows::job_labels(job)];
    facts.retain(|line| !line.is_empty());
    let each = if ui.size.1 < 30 { 1 } else { 2 };
    let facts: Vec<String> = facts.iter().flat_map(|line| wrap_to(line, usize::from(area.width.saturating_sub(4)), each)).collect();
    for (line, y) in facts.iter().zip(area.y..area.bottom()) {
        buf.put(area.x + 3, y, line, usize::from(area.width.saturating_sub(3)), theme.text);
    }
    let used = (facts.len() as u16).min(area.height);
    let area = Rect { y: area.y + used, height: area.height - used, ..area };
    let area = history(buf, area, frame, ("waiting", 1.0), ui, theme);
    let found = rows::findings_of(frame, ui.focus()).len() as u16;
    let below = (found + 1 + chrome).clamp(2 + chrome, 8 + chrome);
    let (counts, rails) = (comm_lines(job), ports::of_job(job));
    let tiles = rows::tiles(frame, id);
    let (grid_area, rest) = if ui.size.0 >= 120 {
        let left = area.width * 3 / 5;
        (Rect { width: left, ..area }, Rect { x: area.x + left, width: area.width - left, ..area })
    } else {
        split(area, (tiles.len() as u16).saturating_add(chrome), (below + counts.len().min(3) as u16 + chrome).min(area.height / 2))
    };
    nodes_of_job(buf, grid_area, frame, tiles, ui, theme);
    let (findings, rest) = split(rest, below, if rest.height >= below + 2 * chrome + 4 { 2 * chrome + 4 } else { 0 });
    list(buf, findings, ("Findings", 1, rows::FINDINGS), frame, ui, theme, "none");
    let (first, second) =
        split(rest, (counts.len() as u16).saturating_add(chrome), (rails.len() as u16).saturating_add(chrome).min(rest.height / 2));
    let none = if job.detail.comms.is_empty() { "no node reports counts: RAS does not answer" } else { "none: all move" };
    lines_pane(buf, first, "Communicators that stand still", &counts, none, ui, theme);
    lines_pane(buf, second, "Ports by name: GB/s sent, median of nodes", &rails, "no node reports RDMA ports", ui, theme);
}

fn nodes_of_job(buf: &mut Buffer, area: Rect, frame: &Frame, tiles: Vec<rows::Tile>, ui: &FleetUi, theme: &Theme) {
    let filter = &ui.place().lists[0].filter;
    let tiles: Vec<rows::Tile> = tiles.into_iter().filter(|tile| filter.is_empty() || filter.matches_text(&tile.node, &[], "")).collect();
    let focused = ui.place().pane == 0;
    let title = format!("{} ({})", titled("Nodes", tiles.len(), ui, 0), grid::LEGEND);
    let inside = pane(buf, area, &title, focused, ui, theme);
    let names: Vec<String> = tiles.iter().map(|tile| tile.node.clone()).collect();
    let place = ui.place();
    let selected = if focused { rows::selected(frame, place, &names) } else { place.lists[0].position(&names) };
    ui.spot(area, 0, What::Pane);
    for (at, place) in grid::draw(buf, inside, &tiles, selected, focused, theme) {
        ui.spot(place, 0, What::Row(at));
    }
}

/// A line and whether it stands out.
pub type Told = (String, bool);

fn comm_lines(job: &Job) -> Vec<Told> {
    let still_from = job.still.values().copied().fold(f64::INFINITY, f64::min).min(45.0);
    let mut still: Vec<_> = job.detail.comms.iter().filter(|(_, comm)| comm.still_s.is_some_and(|s| s >= still_from)).collect();
    still.sort_by(|(_, a), (_, b)| b.still_s.partial_cmp(&a.still_s).unwrap_or(std::cmp::Ordering::Equal));
    let count = |n: f64| group(n.max(0.0) as u64);
    let line = |(name, comm): (&String, &crate::fleet::model::Comm)| {
        let lasts = span(Duration::try_from_secs_f64(comm.still_s.unwrap_or(0.0)).unwrap_or_default());
        let differ = comm.least < comm.most;
        let counts = match (comm.least, comm.most) {
            (Some(least), Some(most)) if least < most => format!("{} … {} operations", count(least), count(most)),
            (Some(least), _) => format!("{} operations everywhere", count(least)),
            _ => String::new(),
        };
        let behind: Vec<&str> = job.detail.behind.iter().filter(|(of, ..)| of == name).map(|(_, node, _)| node.as_str()).take(3).collect();
        let behind = if behind.is_empty() { String::new() } else { format!(", least on {}", behind.join(", ")) };
        (format!("{name}  {lasts}  {counts}{behind}"), differ)
    };
    still.into_iter().map(line).collect()
}

fn lines_pane(buf: &mut Buffer, area: Rect, title: &str, lines: &[Told], empty: &str, ui: &FleetUi, theme: &Theme) {
    if area.height < 2 {
        return;
    }
    let inside = pane(buf, area, title, false, ui, theme);
    if lines.is_empty() {
        paragraph(buf, Rect { x: inside.x.saturating_sub(1), ..inside }, empty, theme);
    }
    for ((line, odd), y) in lines.iter().zip(inside.y..inside.bottom()) {
        put(buf, (inside.x, y, inside.width), &clean(line), false, if *odd { theme.look } else { theme.text });
    }
}

fn node(buf: &mut Buffer, area: Rect, frame: &Frame, name: &str, ui: &FleetUi, theme: &Theme) {
    let (_, chrome) = layout::chrome(is_framed(ui));
    let node = frame.fleet.nodes.get(name);
    let answers = match node {
        Some(node) if node.answers => "answers",
        Some(_) => "does not answer: its exporter, the node or the way to it is down",
        None => "is not among the targets of the server",
    };
    let jobs = node.map_or(String::new(), |node| node.jobs.iter().cloned().collect::<Vec<_>>().join(", "));
    let missing: Vec<String> = crate::fleet::model::values(&frame.node, "sources")
        .filter(|(_, up)| *up == 0.0)
        .map(|(s, _)| s.label("source").to_owned())
        .collect();
    let history: Vec<String> = crate::fleet::model::values(&frame.node, "history")
        .filter(|(_, n)| *n >= 0.5)
        .map(|(s, n)| format!("{} × {n:.0}", s.label("rule")))
        .collect();
    let mut facts = vec![
        ("node", format!("{name} {answers}")),
        ("open it", open_command(&frame.fleet, name)),
        ("jobs", jobs),
        ("not seen", missing.join(", ")),
        ("last day", history.join(", ")),
    ];
    facts.retain(|(_, text)| !text.is_empty());
    let mut y = area.y;
    for (label, text) in facts {
        for (i, part) in wrap_to(&text, usize::from(area.width.saturating_sub(14)), 2).into_iter().enumerate() {
            if y < area.bottom() {
                let style = if label == "open it" { theme.accent } else { theme.text };
                buf.put(area.x + 3, y, if i == 0 { label } else { "" }, 10, theme.dim);
                buf.put(area.x + 13, y, part, usize::from(area.width.saturating_sub(13)), style);
                y += 1;
            }
        }
    }
    let area = Rect { y, height: area.bottom().saturating_sub(y), ..area };
    let gpus = rows::gpus(frame, theme).len() as u16;
    let (top, rest) = split(area, gpus.saturating_add(1 + chrome), 4 + chrome);
    list(buf, top, ("GPUs", 0, rows::GPUS), frame, ui, theme, "the node reports none");
    let found = rows::findings_of(frame, ui.focus()).len() as u16;
    let (findings, rest) = split(rest, found.saturating_add(1 + chrome), 3 + chrome);
    list(buf, findings, ("Findings about it, or by it", 1, rows::FINDINGS), frame, ui, theme, "none");
    lines_pane(buf, rest, "Ports: GB/s sent", &ports::of_node(frame), "the node reports no RDMA ports", ui, theme);
}

fn draw_help(buf: &mut Buffer, area: Rect, ui: &FleetUi, (from, only): (usize, &str), theme: &Theme) {
    Clear.render(area, buf);
    buf.set_style(area, theme.text);
    let about = Subjects {
        keys: &ui.keys,
        has: &|action| ACTIONS.contains(&action),
        words: WORDS,
        mouse: &[("wheel", "moves in the list"), ("click", "selects a row, sorts by a head; on the selected row: opens it")],
    };
    let lines = help::lines_of(&about, theme, usize::from(area.width.saturating_sub(2)), only);
    let rows = usize::from(area.height.saturating_sub(1));
    let first = from.min(lines.len().saturating_sub(rows));
    let more = lines.len().saturating_sub(first + rows);
    let more = if more > 0 { format!("  {} below", crate::base::units::counted(more, "more line")) } else { String::new() };
    let title = if only.is_empty() { " Help".to_owned() } else { format!(" Help, only {}", clean(only)) };
    buf.put(area.x, area.y, format!("{title}{more}"), usize::from(area.width), theme.focus);
    for (line, y) in lines.iter().skip(first).zip(area.y + 1..area.bottom()) {
        buf.put_line(area.x + 1, y, line, area.width.saturating_sub(2));
    }
}

fn footer(buf: &mut Buffer, area: Rect, shown: &Shown, ui: &FleetUi, theme: &Theme) {
    let y = area.bottom().saturating_sub(1);
    let width = usize::from(area.width);
    if let Some((text, error)) = &ui.prompt {
        let spans = vec![
            Span::styled(" show only: ", theme.focus),
            Span::styled(clean(text).into_owned(), theme.text),
            Span::styled("█", theme.focus),
            Span::styled(error.as_ref().map_or(String::new(), |error| format!("  {}", clean(error))), theme.act),
        ];
        buf.put_line(area.x, y, &Line::from(spans), area.width);
        return;
    }
    if let Some(notice) = &ui.notice {
        buf.put(area.x, y, format!(" {}", clean(notice)), width, theme.accent);
        return;
    }
    let word = |action: Action| KEYS.iter().find(|k| k.action == action).and_then(|k| k.footer).unwrap_or("");
    let is_overview = *ui.focus() == Focus::Overview;
    let mut offers = vec![(Action::Open, word(Action::Open)), (Action::Filter, word(Action::Filter)), (Action::Copy, word(Action::Copy))];
    if !is_overview {
        offers.insert(0, (Action::Back, "back"));
    }
    offers.extend([(Action::NextPane, "next pane"), (Action::Earlier, "earlier")]);
    if ui.at.is_some() {
        offers.extend([(Action::Later, "later"), (Action::ToEnd, "live")]);
    } else {
        offers.push((Action::Pause, word(Action::Pause)));
    }
    offers.extend([(Action::Help, word(Action::Help)), (Action::Quit, word(Action::Quit))]);
    let took =
        shown.frame.filter(|_| width >= 100).map_or(String::new(), |(frame, _)| format!("asked in {:.1} s ", frame.took.as_secs_f64()));
    let mut places: Vec<(String, &str, Action)> =
        offers.into_iter().filter_map(|(action, word)| Some((sign(ui.ascii, ui.keys.words(action).first()?), word, action))).collect();
    let wide = |places: &[(String, &str, Action)]| places.iter().map(|(key, word, _)| key.width() + word.width() + 3).sum::<usize>();
    // What has no room leaves, but for help and quit.
    while wide(&places) > width && places.len() > 2 {
        places.remove(places.len() - 3);
    }
    let mut x = 1usize;
    for (key, word, _) in places {
        let line = Line::from(vec![Span::styled(key.clone(), theme.accent), Span::styled(format!(" {word}"), theme.dim)]);
        buf.put_line(area.x + x as u16, y, &line, area.width.saturating_sub(x as u16));
        x += key.width() + word.width() + 3;
    }
    if x + took.width() < width {
        buf.set_string(area.right() - took.width() as u16, y, took, theme.dim);
    }
}
