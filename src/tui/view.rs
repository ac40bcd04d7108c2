//! The screen.
//!
//! ```text
//!  nccl-top node-17 · job 2890 · 8 ranks here of 8 · NCCL 2.28.9 · torchrun               10:04:09 ● live
//!  ■ STUCK 14 s  rank 3 (GPU 3, pid 2939) has not joined AllReduce 236; 7 ranks wait
//!    why: AllReduce 229 of 241, 12 behind, unchanged for 12 s · 7 GPUs spin, no bytes moved for 12 s
//!    next: py-spy dump --nonblocking --pid 2939
//! ╭ Training ──────────────────────────╮╭ Findings: 1 open ───────────────────────────────────────────────╮
//! │ …                                  ││ …                                                              │
//!  1 overview   / search   p pause   ? help   q quit
//! ```

use super::actions::{Action, KEYS};
use super::choices::{Ask, Content, Mode, Ui};
use super::filter::Filter;
use super::layout::{self, Place, Want};
use super::panes::{Ctx, PANES, Pane, has_rows};
use super::theme::{Theme, severity_mark, state_mark};
use super::widgets::shorten;
use crate::base::clean::clean;
use crate::base::severity::Severity;
use crate::base::time::span;
use crate::base::units::counted;
use crate::base::words::wrap;
use crate::diagnosis::countdown::Countdown;
use crate::diagnosis::session::Session;
use crate::diagnosis::verdict::{State, Verdict};
use crate::model::gpu::Activity;
use crate::rules::findings::Finding;
use crate::tui::widgets::put::Put;
use ratatui::buffer::Buffer;
use ratatui::layout::{Position, Rect};
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Clear, Widget};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::ops::Range;
use unicode_width::UnicodeWidthStr;

/// Below this there is room for one sentence.
const LEAST: (u16, u16) = (40, 10);

/// Cells of a row with a title that are no title.
const TITLE_AROUND: usize = 6;

pub fn pane_index(id: &str) -> usize {
    PANES.iter().position(|p| p.id == id).unwrap_or(0)
}

pub fn draw(buf: &mut Buffer, session: &Session, ui: &Ui, theme: &Theme) {
    let area = *buf.area();
    buf.set_style(area, theme.text);
    if area.width < LEAST.0 || area.height < LEAST.1 {
        draw_sentence(buf, session, ui, theme, area);
        return;
    }
    let verdict = verdict_lines(session, ui, theme, area);
    let body = between(ui, verdict.len());
    let mut put = |y: u16, line: &Line| buf.put_line(area.x, y, line, area.width);
    put(0, &header(session, ui, theme, area.width));
    for (line, y) in verdict.iter().zip(1..) {
        put(y, line);
    }
    let caption = caption_rows(ui);
    let caption_style = if cut_off(ui).is_some() { theme.look } else { theme.accent };
    for (part, y) in caption.iter().zip(area.height.saturating_sub(1 + caption.len() as u16)..) {
        put(y, &Line::styled(format!(" {part}"), caption_style));
    }
    for place in places_in(body, session, ui, theme) {
        draw_pane(buf, session, ui, theme, &place);
    }
    draw_footer(buf, session, ui, theme, area);
    if let Some(sheet) = &ui.sheet {
        super::sheet::draw(&ui.ctx(session, theme), sheet, body, buf);
    }
    if let Some(prompt) = &ui.prompt
        && let Ask::Run { processes } = prompt.kind
    {
        let how = match processes {
            1 => "for 10 s at most; it reads the process's memory and does not stop it".to_owned(),
            n => format!(
                "on {n} processes, {} at a time, each for 10 s at most; it reads their memory and does not stop them",
                n.min(crate::edge::py_spy::AT_A_TIME)
            ),
        };
        // A command that is asked about is shown whole.
        draw_popup(buf, area, theme, "Run this?", &format!("{}\n\ny runs it, {how}. n does not.", prompt.text));
    }
    if let Some(prompt) = &ui.prompt
        && let Ask::Dump { ranks } = prompt.kind
    {
        let how = format!(
            "y does it: {} of this node write their Flight Recorder to files and go on. n does not.",
            counted(ranks as u64, "rank")
        );
        draw_popup(buf, area, theme, "Ask for dumps?", &format!("{}\n\n{how}", prompt.text));
    }
    if let Some((title, text)) = &ui.popup {
        draw_popup(buf, area, theme, title, text);
    }
}

fn draw_pane(buf: &mut Buffer, session: &Session, ui: &Ui, theme: &Theme, place: &Place) {
    let pane = pane_index(place.pane);
    let focused = ui.zoom.unwrap_or_else(|| ui.focus_in(session)) == pane;
    let ctx = Ctx { session, ui, theme, pane, zoomed: ui.zoom.is_some(), focused };
    let spec: &Pane = &PANES[pane];
    // A shape says it where there is no colour.
    let title = format!("{}{}", if focused && ui.zoom.is_none() { "▸ " } else { "" }, clean(&(spec.title)(&ctx)));
    let title = with_filter(&title, ui.filter_of(pane), place.area.width);
    frame(
        buf,
        place.area,
        is_framed(ui),
        &title,
        if focused { theme.focus } else { theme.border },
        if focused { theme.focus } else { theme.title },
    );
    let inside = inside(ui, place.area);
    if inside.width > 0 && inside.height > 0 {
        (spec.draw)(&ctx, inside, buf);
    }
}

/// A title with what the rows are filtered by: of the two, the filter stays whole.
fn with_filter(title: &str, filter: &Filter, width: u16) -> String {
    if filter.is_empty() {
        return title.to_owned();
    }
    let only = format!(", only {}", clean(&filter.words()));
    let room = usize::from(width).saturating_sub(TITLE_AROUND + only.width()).max(8);
    format!("{}{only}", fitted(title, room))
}

/// A frame, or the line that stands for it.
pub(super) fn frame(buf: &mut Buffer, area: Rect, framed: bool, title: &str, border: Style, words: Style) {
    if area.width < 4 || area.height == 0 {
        return;
    }
    let (left, right) = (area.x, area.right() - 1);
    let room = usize::from(area.width).saturating_sub(TITLE_AROUND);
    let title = fitted(title, room);
    let (first, last) = if framed { ('╭', '╮') } else { ('─', '─') };
    buf.put_many(left, area.y, '─', area.width, border);
    buf.put_many(left, area.y, first, 1, border);
    buf.put_many(left + 1, area.y, ' ', 1, border);
    let (end, _) = buf.put(left + 2, area.y, title, room, words);
    buf.put_many(end, area.y, ' ', 1, border);
    buf.put_many(right, area.y, last, 1, border);
    if !framed || area.height < 2 {
        return;
    }
    for y in area.y + 1..area.bottom() - 1 {
        buf.put_many(left, y, '│', 1, border);
        buf.put_many(right, y, '│', 1, border);
    }
    buf.put_many(left, area.bottom() - 1, '─', area.width, border);
    buf.put_many(left, area.bottom() - 1, '╰', 1, border);
    buf.put_many(right, area.bottom() - 1, '╯', 1, border);
}

/// The text with `…` at its end when it is too wide.
pub fn fitted(text: &str, width: usize) -> String {
    if text.width() <= width {
        return text.to_owned();
    }
    let mut out = String::new();
    for c in text.chars() {
        if out.width() + unicode_width::UnicodeWidthChar::width(c).unwrap_or(0) + 1 > width {
            break;
        }
        out.push(c);
    }
    out.push('…');
    out
}

fn is_framed(ui: &Ui) -> bool {
    ui.zoom.is_some() || ui.layout.is_framed(ui.size.0)
}

/// What is inside a pane's frame.
pub fn inside(ui: &Ui, area: Rect) -> Rect {
    layout::inside(area, is_framed(ui))
}

/// Why a recording that stands at its end has no more, where that is not the usual reason.
fn cut_off(ui: &Ui) -> Option<&str> {
    match &ui.mode {
        Mode::Replay { ended: Some(why), .. } => Some(why.as_str()).filter(|why| !why.is_empty()),
        _ => None,
    }
}

/// What a demo says, or that the recording is not whole, in as many rows as it needs, two at most.
fn caption_rows(ui: &Ui) -> Vec<String> {
    let caption = cut_off(ui).map(|why| clean(why)).or(ui.caption.map(Into::into));
    caption.map_or(Vec::new(), |caption| wrap_to(&caption, usize::from(ui.size.0.saturating_sub(2)), 2))
}

/// Between verdict and footer.
pub fn body(session: &Session, ui: &Ui, theme: &Theme) -> Rect {
    let area = Rect::new(0, 0, ui.size.0, ui.size.1);
    between(ui, verdict_lines(session, ui, theme, area).len())
}

/// As [`body`], below so many lines of verdicts.
fn between(ui: &Ui, verdict: usize) -> Rect {
    let area = Rect::new(0, 0, ui.size.0, ui.size.1);
    let (top, below) = (1 + verdict as u16, 1 + caption_rows(ui).len() as u16);
    Rect { y: top.min(area.height), height: area.height.saturating_sub(top + below), ..area }
}

/// The panes on the screen.
pub fn places(session: &Session, ui: &Ui, theme: &Theme) -> Vec<Place> {
    places_in(body(session, ui, theme), session, ui, theme)
}

fn places_in(area: Rect, session: &Session, ui: &Ui, theme: &Theme) -> Vec<Place> {
    if ui.size.0 < LEAST.0 || ui.size.1 < LEAST.1 || area.height < 2 {
        return Vec::new();
    }
    if let Some(zoom) = ui.zoom {
        return vec![Place { pane: PANES[zoom].id, area }];
    }
    let want = |id: &str, width: u16| -> Option<Want> {
        let pane = pane_index(id);
        (PANES[pane].want)(&Ctx { session, ui, theme, pane, zoomed: false, focused: ui.focus_in(session) == pane }, width)
    };
    layout::place(area, &ui.layout.bands(ui.size.0), ui.layout.is_framed(ui.size.0), &want)
}

/// The rows in which a pane stands.
pub fn rows_of(session: &Session, ui: &Ui, theme: &Theme, pane: usize) -> Range<u16> {
    let place = places(session, ui, theme).into_iter().find(|place| place.pane == PANES[pane].id);
    place.map_or(0..0, |place| place.area.y..place.area.bottom().min(ui.size.1))
}

/// Columns that a pane has for its content.
pub fn width_of(session: &Session, ui: &Ui, theme: &Theme, pane: usize) -> u16 {
    let place = places(session, ui, theme).into_iter().find(|place| place.pane == PANES[pane].id);
    place.map_or(0, |place| inside(ui, place.area).width)
}

/// Whether a pane has a place in the arrangement of this width.
pub fn is_shown(ui: &Ui, pane: usize) -> bool {
    let bands = ui.layout.bands(ui.size.0);
    ui.size.1 >= 24 && bands.iter().flatten().any(|slot| slot.0 == PANES[pane].id)
}

fn header(session: &Session, ui: &Ui, theme: &Theme, width: u16) -> Line<'static> {
    let model = &session.model;
    let mut parts = vec![format!("nccl-top {}", model.host)];
    if let Some((id, _)) = ui.main_job(session) {
        let jobs = ui.jobs(session);
        let no = jobs.iter().position(|job| *job == id).map_or(0, |at| at + 1);
        let key = ui.keys.words(Action::NextJob).first().map_or(String::new(), |key| format!(" ({key})"));
        parts.push(if jobs.len() > 1 { format!("job {no} of {}{key}: {id}", jobs.len()) } else { format!("job {id}") });
        if let Some(job) = model.jobs.get(id).filter(|j| !j.log_only) {
            let alive = job.ranks.values().filter(|pid| model.processes.get(pid).is_some_and(|p| p.is_alive())).count();
            parts.push(match job.world_size {
                Some(world) => format!("{} here of {world}", counted(alive, "rank")),
                // What trains alone, or on GPUs without a number.
                None if job.ranks.is_empty() => counted(job.unranked.len(), "process"),
                None => counted(alive, "rank"),
            });
        }
    }
    if let Some(version) = &model.ras.nccl_version {
        parts.push(format!("NCCL {version}"));
    }
    let launcher = ui.main_job(session).and_then(|(id, _)| model.launcher_name(model.jobs.get(id)?));
    parts.extend(launcher.map(str::to_owned));
    let dropped: u64 = model.files.values().map(|f| f.dropped_lines).sum();
    let dropped = if dropped > 0 { format!("{dropped} lines dropped  ") } else { String::new() };
    let (mode, style) = mode_words(session, ui, theme);
    let failed = if ui.alert_error.is_some() { "alert not sent  " } else { "" };
    let right = format!("{failed}{dropped}{}  ", ui.zone.hms(model.now));
    let room = usize::from(width).saturating_sub(right.width() + mode.width() + 2);
    // Whole parts leave, what matters least first.
    while parts.len() > 1 && clean(&parts.join(" · ")).width() + 1 > room {
        parts.pop();
    }
    let left = fitted(&format!(" {}", clean(&parts.join(" · "))), room);
    let gap = room.saturating_sub(left.width()) + 1;
    Line::from(vec![Span::styled(left, theme.title), Span::raw(" ".repeat(gap)), Span::styled(right, theme.dim), Span::styled(mode, style)])
}

/// `● live`, `‖ paused −1 m 05 s`, `▶ replay 4x 33 s of 1 m 28 s`
fn mode_words(session: &Session, ui: &Ui, theme: &Theme) -> (String, Style) {
    let now = session.model.now;
    match &ui.mode {
        Mode::Live => ("● live".into(), theme.good),
        Mode::Paused { now: present, missed, .. } => {
            let missed = match missed {
                0 => String::new(),
                1 => ", 1 new finding".into(),
                n => format!(", {n} new findings"),
            };
            (format!("‖ paused, {} ago{missed}", span(present.since(now))), theme.look)
        }
        Mode::Replay { name, speed, playing, from, to, ended } => {
            let name = name.map_or("replay".into(), |n| format!("demo {n}"));
            let speed = match speed {
                Some(s) if (*s - 1.0).abs() < 1e-9 => String::new(),
                Some(s) if *s < 1.0 => format!(" 1/{:.0}x", 1.0 / s),
                Some(s) => format!(" {s}x"),
                None => " max".into(),
            };
            let mark = if *playing { "▶" } else { "‖" };
            // Why stands above the footer.
            let (end, style) = match ended.as_deref() {
                None => ("", theme.text),
                Some("") => (" · end", theme.text),
                Some(_) => (" · cut off", theme.look),
            };
            (format!("{mark} {name}{speed} {} of {}{end}", span(now.since(*from)), span(to.since(*from))), style)
        }
    }
}

/// The next step to copy, a command where there is one: of the selected finding where findings are looked at, else the one that stands on top, else of any finding.
pub fn command(session: &Session, ui: &Ui) -> Option<String> {
    let first = |finding: &Finding| crate::diagnosis::remedies::first(&session.model, finding);
    let selected = || first(&super::panes::selected_finding(session, ui)?);
    let main = ui.main_job(session).map(|(job, _)| job);
    let is_shown = |job: &str| ui.job.is_none() || main == Some(job);
    let mut jobs: Vec<&String> = session.verdicts.keys().filter(|id| is_shown(id)).collect();
    jobs.sort_by_cached_key(|id| Reverse(session.weight_of(id)));
    let on_top = || jobs.iter().find_map(|id| first(session.named(id)?));
    // As the verdict of a job that failed has it, where no finding says more.
    let of_ended = || {
        let (id, verdict) = ui.main_job(session)?;
        let is_unexplained = verdict.state == State::Failed && session.deciding(id).is_none();
        let job = session.model.jobs.get(id).filter(|_| is_unexplained)?;
        Some(crate::diagnosis::remedies::of_ended(&session.model, job))
    };
    let any =
        || first(session.ledger.first_open(|f| f.severity > Severity::Info && f.next.is_some() && f.job.as_deref().is_none_or(is_shown))?);
    selected().or_else(on_top).or_else(of_ended).or_else(any)
}

/// The finding that `command` is of.
fn told(session: &Session, ui: &Ui) -> Option<Finding> {
    if let Some(finding) = super::panes::selected_finding(session, ui) {
        return Some(finding);
    }
    let (job, _) = ui.main_job(session)?;
    session.named(job).cloned()
}

/// What else there is to do about it, besides the command that is copied.
pub fn other_steps(session: &Session, ui: &Ui) -> Vec<crate::diagnosis::remedies::Step> {
    let command = command(session, ui);
    let steps = told(session, ui).map_or(Vec::new(), |finding| crate::diagnosis::remedies::of(&session.model, &finding));
    steps.into_iter().filter(|step| Some(&step.what) != command.as_ref()).collect()
}

/// The process that the finding blames, or why there is none to look at.
pub fn culprit(session: &Session, ui: &Ui) -> Result<u32, String> {
    let of_detail = ui.detail().filter(|subject| subject.kind == "process").and_then(|subject| subject.key.parse().ok());
    if let Some(pid) = of_detail {
        return Ok(pid);
    }
    let finding = told(session, ui).ok_or("no finding names a process to look at")?;
    let process = crate::diagnosis::remedies::culprits(&session.model, &finding).first().map(|p| p.info.pid);
    process.ok_or_else(|| format!("{} names no process that is alive on this node", finding.rule))
}

/// The job that the selected finding is of, else the one on top.
pub fn job_told(session: &Session, ui: &Ui) -> Option<String> {
    told(session, ui).and_then(|finding| finding.job).or_else(|| Some(ui.main_job(session)?.0.to_owned()))
}

/// The head of a verdict: `■ STUCK 14 s since 02:49:24`, and the sentence after it.
fn head_and_sentence(session: &Session, ui: &Ui, job: &str, verdict: &Verdict, several: bool, width: usize) -> (String, String) {
    let model = &session.model;
    let quiet = session.hesitates(job);
    let lasted = model.now.on_clock_since(verdict.since);
    // Two digits keep their place when a third is not needed.
    let lasted = format!("{:>4}", span(lasted));
    let phase = verdict.phase.map_or(String::new(), |p| format!(" ({p})"));
    let for_s = match verdict.state {
        State::Idle | State::Training => String::new(),
        State::Paused if width >= 100 => format!("{phase} since {}", ui.zone.hms_of_day(verdict.since, model.now)),
        // What it waits for is shown with its own time.
        State::Starting | State::Paused => phase,
        State::Slow | State::Stuck | State::Failed if width >= 100 => {
            format!(" {lasted} since {}", ui.zone.hms_of_day(verdict.since, model.now))
        }
        _ => format!(" {lasted}"),
    };
    let mut sentence = verdict.summary.clone();
    if quiet.is_some() {
        let parts = [super::panes::training::last_step(session, job), gpus_do(session, job)];
        sentence = parts.into_iter().flatten().collect::<Vec<_>>().join("; ");
    } else if verdict.state == State::Training {
        sentence = super::panes::training::sentence(session, job, &sentence);
    }
    let startup = session.startups.get(job).filter(|_| verdict.state == State::Starting);
    if let Some(so_far) = startup.and_then(|startup| startup.words(model.now)) {
        sentence.push_str(&format!("; so far: {so_far}"));
    }
    if several {
        sentence = format!("job {job}: {sentence}");
    }
    let mark = look_of(session, job, verdict).map_or(state_mark(verdict.state), severity_mark);
    let area = verdict.area.map_or(String::new(), |area| format!(" ({})", area.as_str()));
    // Amber at once, from the job's own rhythm; the verdict takes longer.
    let state = match quiet {
        Some(quiet) => quiet.words().replacen("no step", "NO STEP", 1),
        None => verdict.word().to_uppercase(),
    };
    (format!(" {mark} {state}{area}{for_s}  "), sentence)
}

/// How bad it looks where the state alone does not say so: of a job that still trains.
pub(super) fn look_of(session: &Session, job: &str, verdict: &Verdict) -> Option<Severity> {
    let open = || session.worst(job).map(|f| f.severity);
    let quiet = session.hesitates(job).map(|_| Severity::Warning);
    match verdict.state {
        State::Training => open().max(quiet),
        // A state that rests on a warning is shown no worse than that, here as everywhere.
        State::Stuck => session.deciding(job).map(|f| f.severity).filter(|severity| *severity == Severity::Warning),
        _ => None,
    }
}

/// `GPU 3 is idle, 3 GPUs wait`: of the GPUs of a job, where that is known.
fn gpus_do(session: &Session, job: &str) -> Option<String> {
    let model = &session.model;
    let gpus: Vec<_> = model.jobs.get(job)?.pids().filter_map(|pid| model.gpus.get(&model.gpu_of_pid(pid)?)).collect();
    let words = |activity: Activity, one: &str, more: &str| {
        let those: Vec<u32> = gpus.iter().filter(|g| g.activity == activity && g.is_fresh(model.now)).map(|g| g.index).collect();
        match those.as_slice() {
            [] => None,
            [index] => Some(format!("GPU {index} {one}")),
            all => Some(format!("{} GPUs {more}", all.len())),
        }
    };
    let each = [
        words(Activity::Lost, "does not answer", "do not answer"),
        words(Activity::Idle, "is idle", "are idle"),
        words(Activity::Waiting, "waits", "wait"),
        words(Activity::Working, "works", "work"),
    ];
    Some(each.into_iter().flatten().collect::<Vec<_>>().join(", ")).filter(|words| !words.is_empty())
}

/// `1 more job: finished`, `3 more jobs: finished`, `4 more jobs: 1 failed, 3 finished`; the worst first.
pub fn more_jobs(states: impl Iterator<Item = State>) -> String {
    let mut count = BTreeMap::<Reverse<State>, usize>::new();
    states.for_each(|state| *count.entry(Reverse(state)).or_default() += 1);
    let all: usize = count.values().sum();
    let jobs = if all == 1 { "job" } else { "jobs" };
    let each: Vec<String> = match count.first_key_value() {
        Some((state, _)) if count.len() == 1 => vec![state.0.as_str().to_owned()],
        _ => count.iter().map(|(state, n)| format!("{n} {}", state.0.as_str())).collect(),
    };
    format!("{all} more {jobs}: {}", each.join(", "))
}

/// State, culprit, since, evidence, next step: of every job, the one that the user has chosen first, then the worst.
fn verdict_lines(session: &Session, ui: &Ui, theme: &Theme, area: Rect) -> Vec<Line<'static>> {
    let width = usize::from(area.width);
    let mut jobs: Vec<_> = session.verdicts.iter().collect();
    jobs.sort_by_cached_key(|(id, _)| (ui.job.as_ref() != Some(*id), Reverse(session.weight_of(id))));
    let mut lines = Vec::new();
    // Beside the verdicts there must be room for a pane, and one line says what there was none for.
    let most = usize::from(area.height.saturating_sub(6)).max(1);
    for (i, (id, verdict)) in jobs.iter().enumerate() {
        if i > 0 && (i >= 3 || lines.len() + 3 > most) {
            lines.push(Line::styled(fitted(&format!("   {}", more_jobs(jobs[i..].iter().map(|(_, v)| v.state))), width), theme.dim));
            break;
        }
        let (head, sentence) = head_and_sentence(session, ui, id, verdict, jobs.len() > 1, width);
        let style = look_of(session, id, verdict).map_or(theme.state(verdict.state), |bad| theme.severity(bad));
        let indent = head.width().min(width / 3);
        let room = width.saturating_sub(head.width() + 1).max(20);
        for (i, part) in wrap_to(&sentence, room, if area.height >= 30 { 3 } else { 2 }).into_iter().enumerate() {
            let head = if i == 0 { Span::styled(head.clone(), style) } else { Span::raw(" ".repeat(indent)) };
            lines.push(Line::from(vec![head, Span::styled(part, theme.text)]));
        }
        // Half a command would be another command: it is shown whole, or on as many lines as it needs.
        let next_lines = |next: &str| {
            let label = |i: usize| Span::styled(if i == 0 { "   next: " } else { "         " }, theme.dim);
            let line = |(i, part)| Line::from(vec![label(i), Span::styled(part, theme.accent)]);
            wrap(next, width.saturating_sub(9)).into_iter().enumerate().map(line).collect::<Vec<_>>()
        };
        let next = |f: &Finding| crate::diagnosis::remedies::first(&session.model, f).map_or(Vec::new(), |next| next_lines(&next));
        if let Some(finding) = session.deciding(id) {
            // Evidence may take a second line; a command is never cut into two. A pane that is alone needs the rows itself.
            let why_rows = match area.height {
                0..30 if ui.zoom.is_some() => 0,
                0..45 => 2,
                _ => 3,
            };
            let why = match Countdown::of(&session.model, finding) {
                Some(countdown) => format!("{}; {}", countdown.words(session.model.now), finding.whole_why()),
                None => finding.whole_why(),
            };
            for (i, part) in wrap_to(&why, width.saturating_sub(9), why_rows).into_iter().enumerate() {
                let label = if i == 0 { "   why: " } else { "        " };
                lines.push(Line::from(vec![Span::styled(label, theme.dim), Span::styled(part, theme.text)]));
            }
            lines.extend(next(finding));
        } else if let Some(finding) = session.worst(id).filter(|_| !matches!(verdict.state, State::Failed | State::Finished)) {
            // It does not stop the job, but it is what there is to look at.
            let since = span(session.model.now.since(finding.since));
            let clock =
                if width >= 100 { format!(" since {}", ui.zone.hms_of_day(finding.since, session.model.now)) } else { String::new() };
            let told = format!("   {} {}  {since}{clock}  {}", severity_mark(finding.severity), finding.rule, clean(&finding.summary));
            lines.push(Line::styled(fitted(&told, width), theme.severity(finding.severity)));
            lines.extend(next(finding));
        } else if verdict.state == State::Failed {
            // Nobody of it is to blame, as far as is known: who ended it may know.
            let next = session.model.jobs.get(*id).map(|job| crate::diagnosis::remedies::of_ended(&session.model, job));
            lines.extend(next.iter().flat_map(|next| next_lines(next)));
        } else if jobs.len() == 1 && area.height >= 20 && session.worst(id).is_none() {
            let watched = session.model.started.map_or(String::new(), |at| format!(" in {}", span(session.model.now.since(at))));
            let notes = super::panes::findings::notes(session).map_or(String::new(), |notes| format!(", {notes}"));
            let is_its = |f: &&crate::rules::findings::Finding| f.severity >= Severity::Warning && f.job.as_deref() == Some(id.as_str());
            let none = match session.ledger.past().filter(is_its).count() {
                0 => "no findings".to_owned(),
                past => format!("no open findings, {past} past"),
            };
            lines.push(Line::styled(format!("   {none}{notes}{watched}"), theme.dim));
        }
    }
    lines.truncate(most);
    if lines.is_empty() {
        let none = format!("no job on this node yet{}", session.model.left_over_words());
        lines.push(Line::from(vec![Span::styled(" ○ IDLE  ", theme.text), Span::styled(none, theme.dim)]));
        if area.height >= 20 && width >= 80 {
            let hint = "It is found by itself when it starts. `nccl-top doctor` checks this host, `nccl-top demo` shows a job.";
            lines.extend(wrap(hint, width - 4).into_iter().map(|part| Line::styled(format!("   {part}"), theme.dim)));
        }
    }
    lines
}

/// All of the verdict that a small screen can take: the sentence, and with what is left the next step.
fn draw_sentence(buf: &mut Buffer, session: &Session, ui: &Ui, theme: &Theme, area: Rect) {
    let width = usize::from(area.width);
    let (text, style, next) = match ui.main_job(session) {
        None => (format!("○ IDLE  no job on this node yet{}", session.model.left_over_words()), theme.text, None),
        Some((id, verdict)) => {
            let (head, sentence) = head_and_sentence(session, ui, id, verdict, session.verdicts.len() > 1, width);
            let next = session.named(id).and_then(|f| crate::diagnosis::remedies::first(&session.model, f));
            let style = look_of(session, id, verdict).map_or(theme.state(verdict.state), |bad| theme.severity(bad));
            (format!("{}{sentence}", head.trim_start()), style, next)
        }
    };
    let mut lines: Vec<(String, Style)> = wrap_to(&text, width, usize::from(area.height)).into_iter().map(|part| (part, style)).collect();
    let left = usize::from(area.height).saturating_sub(lines.len());
    let next = next.map(|n| wrap(&format!("next: {n}"), width)).filter(|n| n.len() <= left);
    lines.extend(next.into_iter().flatten().map(|part| (part, theme.accent)));
    for ((part, style), y) in lines.iter().zip(area.y..area.bottom()) {
        buf.put(area.x, y, part, width, *style);
    }
}

/// As [`wrap`], but not more than `most` lines; what was left out says so.
pub(super) fn wrap_to(text: &str, width: usize, most: usize) -> Vec<String> {
    let mut lines = wrap(text, width);
    if lines.len() > most {
        lines.truncate(most);
        if let Some(last) = lines.last_mut() {
            *last = fitted(&format!("{last} …"), width);
        }
    }
    lines
}

/// A key in as few cells as possible. In ASCII the signs of arrows would be those of other keys.
pub(super) fn sign(ascii: bool, key: &str) -> String {
    match key {
        _ if ascii => key.to_owned(),
        "left" => "←".into(),
        "right" => "→".into(),
        "up" => "↑".into(),
        "down" => "↓".into(),
        other => other.to_owned(),
    }
}

fn is_replay(ui: &Ui) -> bool {
    matches!(ui.mode, Mode::Replay { .. })
}

/// What the footer offers: key, word, action.
fn offers(session: &Session, ui: &Ui, theme: &Theme) -> Vec<(String, &'static str, Action)> {
    let word = |action: Action| KEYS.iter().find(|k| k.action == action).and_then(|k| k.footer).unwrap_or("");
    let first = |action: Action| ui.keys.words(action).first().map(|key| sign(ui.ascii, key));
    let mut out: Vec<(String, &'static str, Action)> = Vec::new();
    let mut offer = |action: Action, word: &'static str| {
        if let Some(key) = first(action) {
            out.push((key, word, action));
        }
    };
    if ui.sheet.is_some() {
        offer(Action::Back, "back");
        offer(Action::Down, "scroll");
        offer(Action::Filter, "search");
        if ui.sheet.as_ref().is_some_and(|sheet| sheet.content == Content::Options) {
            offer(Action::Later, "change");
            offer(Action::Sort, "save");
        }
        if ui.detail().is_some() {
            offer(Action::Open, word(Action::Open));
            offer(Action::NextPane, "next link");
            offer(Action::Copy, word(Action::Copy));
        }
        offer(Action::Quit, "close");
        return out;
    }
    if ui.zoom.is_some() {
        offer(Action::Pane(1), word(Action::Pane(1)));
    }
    if ui.zoom.is_some() && ui.target() == pane_index("log") {
        offer(Action::Bottom, "follow");
        offer(Action::Filter, word(Action::Filter));
        offer(Action::Search, "find");
        offer(Action::FilterRank, "rank");
        offer(Action::FilterSeverity, "severity");
        offer(Action::Open, word(Action::Open));
        if let Some((action, word)) = of_time(&ui.mode).first() {
            offer(*action, word);
        }
    } else {
        let is_table = ui.zoom.is_some() && has_rows(&ui.ctx(session, theme)) && ui.target() != pane_index("findings");
        // What is done with rows stands before what is done with time: a narrow screen leaves out the last.
        if is_table {
            offer(Action::Open, word(Action::Open));
            offer(Action::Filter, word(Action::Filter));
            offer(Action::Sort, "sort");
        }
        if command(session, ui).is_some() {
            offer(Action::Copy, word(Action::Copy));
        }
        if ui.zoom.is_some() && ui.target() == pane_index("findings") {
            // It is offered there all the same, and says why not.
            offer(Action::Acknowledge, "acknowledge");
            offer(Action::Stack, if is_replay(ui) { "stack (live only)" } else { word(Action::Stack) });
        }
        // Nobody looks for a key in the help while a job is failing.
        let trouble = session.ledger.first_open(|f| f.severity > Severity::Info).is_some();
        if trouble && ui.zoom.is_none() || ui.zoom.is_some() && ui.target() == pane_index("findings") {
            offer(Action::Evidence, word(Action::Evidence));
        }
        for (action, word) in of_time(&ui.mode) {
            offer(*action, word);
        }
        if !is_table {
            offer(Action::Filter, word(Action::Filter));
        }
        if !is_table && (ui.zoom.is_none() || ui.target() != pane_index("training")) {
            offer(Action::Open, word(Action::Open));
        }
    }
    offer(Action::Help, word(Action::Help));
    offer(Action::Quit, word(Action::Quit));
    if ui.zoom.is_none()
        && let (Some(from), Some(to)) = (first(Action::Pane(1)), first(super::actions::LAST_DIGIT))
    {
        out.insert(0, (format!("{from}-{to}"), "panes", Action::Pane(1)));
    }
    out
}

/// What the footer offers of time: only what leads anywhere from here. The first one alone stands beside the log.
fn of_time(mode: &Mode) -> &'static [(Action, &'static str)] {
    match mode {
        Mode::Live => &[(Action::Pause, "pause"), (Action::Earlier, "back")],
        Mode::Paused { .. } => &[(Action::Pause, "resume"), (Action::Earlier, "back"), (Action::Later, "forward"), (Action::ToEnd, "now")],
        Mode::Replay { ended: Some(_), .. } => &[(Action::ToStart, "from the start"), (Action::Earlier, "back")],
        Mode::Replay { playing: true, .. } => {
            &[(Action::Pause, "pause"), (Action::Earlier, "back"), (Action::Later, "forward"), (Action::Faster, "faster")]
        }
        Mode::Replay { .. } => {
            &[(Action::Pause, "play"), (Action::Earlier, "back"), (Action::Later, "forward"), (Action::Faster, "faster")]
        }
    }
}

/// The offers that fit, each with its first column.
fn footer_places(session: &Session, ui: &Ui, theme: &Theme) -> Vec<(u16, String, &'static str, Action)> {
    let width = usize::from(ui.size.0);
    let mut offers = offers(session, ui, theme);
    // Beside a message stand those that there is room for.
    let told = ui.notice.as_ref().map_or(0, |notice| clean(notice).width() + 3);
    let width = width.saturating_sub(told);
    let wide = |o: &[(String, &'static str, Action)]| o.iter().map(|(k, w, _)| k.width() + w.width() + 3).sum::<usize>();
    while wide(&offers) > width && offers.len() > 2 {
        // The way back to the start is offered at the end of a recording alone, where hardly anything else is left to do.
        let keep = |a: &Action| matches!(a, Action::ToStart | Action::Help | Action::Quit);
        let last = (0..offers.len()).rev().find(|i| !keep(&offers[*i].2)).unwrap_or(0);
        offers.remove(last);
    }
    if wide(&offers) > width {
        return Vec::new();
    }
    let mut x = 1 + told as u16;
    let mut out = Vec::new();
    for (key, word, action) in offers {
        let next = x + (key.width() + word.width()) as u16 + 3;
        out.push((x, key, word, action));
        x = next;
    }
    out
}

/// The offer at a place of the screen.
pub fn footer_at(session: &Session, ui: &Ui, theme: &Theme, at: Position) -> Option<Action> {
    if at.y.checked_add(1) != Some(ui.size.1) || ui.prompt.is_some() {
        return None;
    }
    let hit = |(x, key, word, _): &(u16, String, &str, Action)| (*x..*x + (key.width() + word.width()) as u16 + 1).contains(&at.x);
    footer_places(session, ui, theme).into_iter().find(hit).map(|o| o.3)
}

fn draw_footer(buf: &mut Buffer, session: &Session, ui: &Ui, theme: &Theme, area: Rect) {
    let y = area.bottom() - 1;
    if let Some(prompt) = &ui.prompt {
        let label = format!(" {}: ", prompt.kind.label());
        let error = prompt.error.as_ref().map_or(String::new(), |error| format!("  {}", clean(error)));
        // Both ends of what is typed stay in sight, and all of what is wrong with it.
        let room = usize::from(area.width).saturating_sub(label.width() + error.width() + 1).max(8);
        let text = shorten(&clean(&prompt.text), room);
        let style = if prompt.proposed { theme.text.patch(theme.selected) } else { theme.text };
        let mut spans = vec![Span::styled(label, theme.focus), Span::styled(text, style), Span::styled("█", theme.focus)];
        spans.push(Span::styled(error, theme.act));
        buf.put_line(area.x, y, &Line::from(spans), area.width);
        return;
    }
    if let Some(notice) = &ui.notice {
        buf.put(area.x, y, format!(" {}", clean(notice)), usize::from(area.width), theme.text);
    }
    for (x, key, word, action) in footer_places(session, ui, theme) {
        let room = usize::from(area.width.saturating_sub(x));
        let style = if action == Action::Stack && is_replay(ui) { theme.dim } else { theme.accent };
        let line = Line::from(vec![Span::styled(key, style), Span::styled(format!(" {word}"), theme.dim)]);
        buf.put_line(x, y, &line, room as u16);
    }
}

/// A text in the middle of the screen.
pub(super) fn draw_popup(buf: &mut Buffer, area: Rect, theme: &Theme, title: &str, text: &str) {
    let width = area.width.saturating_sub(4).min(100);
    let lines: Vec<String> = text.lines().flat_map(|l| wrap(l, usize::from(width.saturating_sub(4)))).collect();
    let height = (lines.len() as u16 + 2).min(area.height);
    let place = Rect { x: (area.width - width) / 2, y: (area.height - height) / 2, width, height };
    Clear.render(place, buf);
    buf.set_style(place, theme.text);
    frame(buf, place, true, title, theme.focus, theme.focus);
    for (line, y) in lines.iter().zip(place.y + 1..place.bottom().saturating_sub(1)) {
        buf.put(place.x + 2, y, line, usize::from(width.saturating_sub(4)), theme.text);
    }
}
