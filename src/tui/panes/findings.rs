//! Findings, open ones first, and of the selected one everything: evidence, why, next step.

use super::{Ctx, Pane, no_first, no_sorts};
use crate::base::clean::clean;
use crate::base::severity::{Role, Severity};
use crate::base::time::span;
use crate::base::units::counted;
use crate::diagnosis::countdown::Countdown;
use crate::diagnosis::session::Session;
use crate::rules::findings::Finding;
use crate::tui::choices::{Opened, Ui};
use crate::tui::details::Subject;
use crate::tui::filter::Filter;
use crate::tui::layout::{self, Want};
use crate::tui::log_view::says_more;
use crate::tui::theme::severity_mark;
use crate::tui::widgets::put::Put;
use crate::tui::widgets::{first_shown, labelled};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use unicode_width::UnicodeWidthStr;

pub const PANE: Pane = Pane {
    id: "findings",
    shows: "findings with evidence and next step",
    title,
    want,
    rows: |ctx| listed(ctx.session, ctx.ui).iter().map(|f| name(f)).collect(),
    first: no_first,
    sorts: no_sorts,
    row_at: |ctx, area, y| {
        let findings = listed(ctx.session, ctx.ui);
        let names: Vec<String> = findings.iter().map(|f| name(f)).collect();
        let line = usize::from(y.checked_sub(area.y)?);
        shown(ctx, &findings, ctx.selected(&names), area).get(line).map(|(i, _)| *i)
    },
    open,
    draw,
};

/// Fewer rows show no evidence.
const DETAIL: u16 = 6;

/// Open ones, worst first; then past ones, newest first.
pub fn all(session: &Session) -> Vec<&Finding> {
    session.ledger.open().into_iter().chain(session.ledger.past()).collect()
}

/// Those of [`all`] that pass the filter.
fn listed<'a>(session: &'a Session, ui: &Ui) -> Vec<&'a Finding> {
    let filter = ui.filter_of(crate::tui::view::pane_index(PANE.id));
    let mut findings = all(session);
    findings.retain(|f| filter.is_empty() || passes(filter, f));
    // What needs no attention any more stands below what does, and a note of the chosen job below an error of another.
    let is_note = |f: &Finding| f.severity == Severity::Info;
    let is_of_another = |f: &Finding| ui.job.as_ref().zip(f.job.as_ref()).is_some_and(|(shown, of)| shown != of);
    findings.sort_by_key(|f| (f.cleared_at.is_some(), ui.is_quiet(f), is_note(f), is_of_another(f)));
    findings
}

fn passes(filter: &Filter, f: &Finding) -> bool {
    let words = [f.rule, f.severity.as_str(), f.role.as_str(), f.job.as_deref().unwrap_or(""), &f.summary];
    let file = f.evidence.iter().filter_map(|e| e.path.as_deref()).collect::<Vec<_>>().join(" ");
    filter.matches_text(&words.join(" "), &f.ranks, &file)
}

/// As a row is named.
pub fn name(f: &Finding) -> String {
    format!("{}/{}/{}/{}", f.rule, f.job.as_deref().unwrap_or(""), f.subject, f.opened_at.0)
}

/// The finding that is looked at, where findings are looked at.
pub fn selected(session: &Session, ui: &Ui) -> Option<Finding> {
    if let Some(subject) = ui.detail() {
        let of_detail = all(session).into_iter().find(|f| subject.kind == "finding" && name(f) == subject.key);
        return of_detail.cloned();
    }
    let pane = crate::tui::view::pane_index(PANE.id);
    // The row that looks selected is the one that keys are about.
    if ui.zoom.unwrap_or_else(|| ui.focus_in(session)) != pane {
        return None;
    }
    let findings = listed(session, ui);
    let names: Vec<String> = findings.iter().map(|f| name(f)).collect();
    ui.lists[pane].position(&names).and_then(|i| findings.get(i)).map(|f| (*f).clone())
}

/// `1 note`: how many open findings are only good to know, where there are any. They are no findings in anybody's sense of the word.
pub fn notes(session: &Session) -> Option<String> {
    let notes = session.ledger.open().iter().filter(|f| f.severity == Severity::Info).count() as u64;
    (notes > 0).then(|| counted(notes, "note"))
}

fn title(ctx: &Ctx) -> String {
    let ledger = &ctx.session.ledger;
    let left_out: u64 = ledger.left_out().map(|(_, _, left)| left.times).sum();
    let more = if left_out > 0 { format!(", {} more not kept", crate::base::units::group(left_out)) } else { String::new() };
    let open = ledger.open();
    let findings = open.iter().filter(|f| f.severity > Severity::Info).count();
    let notes = notes(ctx.session).map_or(String::new(), |notes| format!(", {notes}"));
    let quiet = open.iter().filter(|f| f.severity > Severity::Info && ctx.ui.is_quiet(f)).count();
    let quiet = if quiet > 0 { format!(" ({quiet} acknowledged or muted)") } else { String::new() };
    format!("Findings: {findings} open{quiet}, {} past{notes}{more}", ledger.past().count())
}

fn want(ctx: &Ctx, width: u16) -> Option<Want> {
    // The first of them may take two rows each, where there is room.
    const WRAPPED: usize = 8;
    let all = all(ctx.session);
    let wrapped = |most: usize| all.iter().take(most).map(|f| entry(ctx, f, usize::from(width), 2).len()).sum::<usize>();
    let rows = (wrapped(WRAPPED) + all.len().saturating_sub(WRAPPED)).clamp(1, 200) as u16;
    let open = wrapped(ctx.session.ledger.open().len().min(WRAPPED)).clamp(1, 5) as u16;
    // Beside others it keeps its height, so that nothing moves when a finding opens. On a large screen there is room for the evidence.
    let is_bad = ctx.session.ledger.first_open(|f| f.severity > Severity::Info).is_some();
    let evidence = match layout::is_large(ctx.ui.size) {
        true if is_bad => 16,
        true => crate::sources::SOURCES.len() as u16 + open + 2,
        false => 0,
    };
    let comfort = if width > 60 { open } else { open.max(5) }.max(evidence);
    let rows = rows.max(evidence);
    Some(Want { width: 36, least: 1, comfort, all: rows, priority: 2, late: false, grows: false })
}

/// Where a text goes on below a long name, and cells of it that its first row has at least.
const INDENT: usize = 12;
const LEAST_WORDS: usize = 12;

/// A finding in as many rows as it needs, if not more than `most`.
fn entry(ctx: &Ctx, f: &Finding, width: usize, most: usize) -> Vec<Line<'static>> {
    let whole = row(ctx, f);
    if whole.width() <= width || most < 2 {
        return vec![whole];
    }
    let Some(words) = whole.spans.last().cloned() else { return vec![whole] };
    let head = whole.width() - words.width();
    // Behind a long name little room is left: what goes on does so below the name.
    let is_long = head * 2 > width;
    let indent = if is_long { head.min(INDENT) } else { head };
    let first = crate::base::words::wrap(&words.content, width.saturating_sub(head)).into_iter().next().unwrap_or_default();
    let rest = clean(&words.content).get(first.len()..).unwrap_or_default().trim_start().to_owned();
    if is_long && first.width() < LEAST_WORDS || rest.is_empty() {
        return vec![whole];
    }
    let mut lines = vec![Line::from([&whole.spans[..whole.spans.len() - 1], &[Span::styled(first, words.style)]].concat())];
    let parts = crate::tui::view::wrap_to(&rest, width.saturating_sub(indent), most - 1);
    lines.extend(parts.into_iter().map(|part| Line::from(vec![Span::raw(" ".repeat(indent)), Span::styled(part, words.style)])));
    lines
}

/// The rows that are shown: number of the finding, and the line. Where all fit, the room that is left is for long texts.
fn shown(ctx: &Ctx, findings: &[&Finding], selected: Option<usize>, area: Rect) -> Vec<(usize, Line<'static>)> {
    let height = usize::from(list_rows(ctx, area));
    let first = first_shown(findings.len(), selected, height);
    // What is only good to know leaves its row to the words of what is wrong, but for the first of it.
    let is_open = |f: &&Finding| f.severity > Severity::Info && f.cleared_at.is_none();
    let calm = findings.iter().filter(|f| !is_open(f)).count();
    let least = findings.len() - calm + calm.min(1);
    let gives_way = selected.is_none_or(|i| i < least) && first == 0 && findings.len() <= height;
    let keeps = if gives_way { least } else { findings.len() };
    let mut spare = height.saturating_sub(keeps);
    let mut rows = Vec::new();
    for (i, f) in findings.iter().enumerate().skip(first).take(height) {
        let most = if is_open(f) { 1 + spare } else { 1 };
        let lines = entry(ctx, f, usize::from(area.width), most);
        spare -= lines.len() - 1;
        rows.extend(lines.into_iter().map(|line| (i, line)));
        if i == 0 && is_open(f) && height == usize::from(area.height) {
            let more = unsaid(ctx, f).take(spare).collect::<Vec<_>>();
            spare -= more.len();
            rows.extend(more.into_iter().map(|line| (i, line)));
        }
    }
    rows.truncate(height);
    rows
}

/// The evidence that neither the words of a finding nor its reason have said.
fn unsaid<'a>(ctx: &'a Ctx, f: &'a Finding) -> impl Iterator<Item = Line<'static>> + 'a {
    let why = f.whole_why();
    let is_said = move |text: &str| why.contains(text) || f.summary.contains(text);
    let more = f.evidence.iter().filter(move |e| !is_said(&e.text));
    more.map(|e| Line::styled(format!("  › {}", clean(&e.placed())), ctx.theme.dim))
}

fn row(ctx: &Ctx, f: &Finding) -> Line<'static> {
    let theme = ctx.theme;
    let now = ctx.session.model.now;
    // A process ends once, however many report it.
    let counts = f.count > 1 && f.rule != crate::rules::END_OF_A_RANK;
    let count = if counts { format!(" ×{}", f.count) } else { String::new() };
    let role = if f.role == Role::Cascade { " (a consequence)" } else { "" };
    let (mark, age, style, words) = match f.cleared_at {
        None => (severity_mark(f.severity), span(now.on_clock_since(f.since)), theme.severity(f.severity), theme.text),
        Some(at) => ("✓", span(now.since(at)), theme.dim, theme.dim),
    };
    let past = if f.cleared_at.is_some() { "was: " } else { "" };
    let whose = f.job.as_deref().and_then(|id| ctx.whose(id)).map_or(String::new(), |id| format!("job {id}: "));
    let (style, words) = if ctx.ui.is_quiet(f) { (theme.dim, theme.dim) } else { (style, words) };
    let quiet = match (ctx.ui.muted.contains(f.rule), ctx.ui.is_quiet(f)) {
        (true, _) => "muted: ",
        (false, true) => "acknowledged: ",
        (false, false) => "",
    };
    Line::from(vec![
        Span::styled(format!("{mark} {age:>8}  {}  ", f.rule), style),
        Span::styled(format!("{quiet}{past}{whose}{}{count}{role}", clean(&f.summary)), words),
    ])
}

/// Where nothing is wrong, a large screen shows what that rests on.
pub fn shows_sources(ctx: &Ctx) -> bool {
    let is_calm = || {
        let open = ctx.session.ledger.first_open(|f| f.severity > Severity::Info);
        open.is_none() && !super::sources::has_trouble(&ctx.session.model)
    };
    ctx.ui.zoom.is_none() && layout::is_large(ctx.ui.size) && is_calm()
}

/// Rows of the list; the rest is for the finding that is looked at.
fn list_rows(ctx: &Ctx, area: Rect) -> u16 {
    let findings = listed(ctx.session, ctx.ui);
    if ctx.zoomed && area.height >= 10 {
        return (findings.len().max(1) as u16).min(area.height / 3);
    }
    let is_bad = findings.first().is_some_and(|f| f.cleared_at.is_none() && f.severity > Severity::Info);
    if ctx.zoomed || !is_bad || area.height < DETAIL + 2 {
        return area.height;
    }
    let wrapped = findings.iter().take(3).map(|f| entry(ctx, f, usize::from(area.width), 3).len()).sum::<usize>();
    let rows = wrapped + findings.len().saturating_sub(3);
    (rows.min(1000) as u16).min(area.height - DETAIL)
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let findings = listed(ctx.session, ctx.ui);
    let names: Vec<String> = findings.iter().map(|f| name(f)).collect();
    let selected = ctx.selected(&names);
    if shows_sources(ctx) && ctx.filter().is_empty() {
        let list = findings.len().max(1) as u16;
        let below = area.height.saturating_sub(list + 1).min(crate::sources::SOURCES.len() as u16 + 1);
        let place = Rect { y: area.y + list + 1, height: below, ..area };
        super::lines(place, buf, &super::sources::seen(ctx));
    }
    if findings.is_empty() {
        return super::paragraph(ctx, area, buf, &ctx.why_empty(|| "none".into()));
    }
    let height = list_rows(ctx, area);
    let mut above = None;
    for ((i, text), y) in shown(ctx, &findings, selected, area).into_iter().zip(area.y..) {
        super::line(buf, area, y, &text);
        // Of the job that was chosen, where one was: the sign is for whom the screen is about.
        let is_shown = |job: &String| ctx.ui.job.as_ref().is_none_or(|chosen| chosen == job);
        let bad = ctx.culprits().finding(findings[i]).filter(|_| findings[i].job.as_ref().is_none_or(is_shown));
        let row = Rect { y, height: 1, ..area };
        // A long text goes on below its first row, which alone has the sign.
        match (above.replace(i) == Some(i), bad) {
            (true, Some(bad)) => super::tint(ctx, row, bad, buf),
            (true, None) => {}
            (false, bad) => super::mark_culprit(ctx, row, bad, buf),
        }
        if selected == Some(i) && ctx.focused {
            super::mark_selected(ctx, Rect { y, height: 1, ..area }, buf);
        }
    }
    // In the overview that one which stands on top, until another is chosen.
    if height < area.height
        && let Some(f) = selected.or((!ctx.zoomed).then_some(0)).and_then(|i| findings.get(i))
    {
        let below = Rect { y: area.y + height + 1, height: area.height - height - 1, ..area };
        buf.put(area.x, area.y + height, "─".repeat(usize::from(area.width)), usize::from(area.width), ctx.theme.border);
        let mut told = detail(ctx, f, usize::from(area.width));
        let rows = usize::from(below.height);
        if told.len() > rows && rows > 1 {
            told.truncate(rows - 1);
            told.push(Line::styled("… enter shows all of it", ctx.theme.dim));
        }
        super::lines(below, buf, &told);
    }
}

/// Everything about one finding. In the overview verdict and list have said what it is.
fn detail(ctx: &Ctx, f: &Finding, width: usize) -> Vec<Line<'static>> {
    let (above, below) = facts(ctx, f);
    let (steps, rule): (Vec<Said>, Vec<Said>) = below.into_iter().partition(|said| matches!(said.0, "next" | ""));
    let proofs = f.evidence.iter().enumerate().map(|(i, e)| (if i == 0 { "evidence" } else { "" }, e.placed(), ctx.theme.text));
    let above = above.into_iter().filter(|said| ctx.zoomed || said.0 != "what");
    let all = above.chain(proofs).chain(steps).chain(of_culprit(ctx, f)).chain(rule);
    let mut lines = Vec::new();
    for (label, text, style) in all {
        lines.extend(labelled(&format!("{label:>9}  "), ctx.theme.dim, &text, style, width));
    }
    lines
}

/// What the process of the rank does that it blames, its stack, where one was asked for, and the last lines of its log.
fn of_culprit(ctx: &Ctx, f: &Finding) -> Vec<Said> {
    const LINES: usize = 6;
    /// Lines that are looked at for them: it is done for each frame.
    const LOOKED_AT: usize = 1000;
    let mut out = Vec::new();
    let model = &ctx.session.model;
    let (Some(job), &[rank]) = (f.job.as_deref().and_then(|id| model.jobs.get(id)), f.ranks.as_slice()) else { return out };
    if let Some(pid) = job.ranks.get(&rank) {
        let does = super::processes::cells(ctx, *pid).into_iter().filter(|(head, _)| !matches!(*head, "command" | "local"));
        let does: Vec<String> = does.filter_map(|(head, value)| Some(format!("{head} {}", clean(&value?)))).collect();
        out.extend((!does.is_empty()).then(|| ("process", does.join("  "), ctx.theme.text)));
        let stack = ctx.ui.stacks.get(pid).map_or(&[][..], |stack| stack.lines.as_slice());
        out.extend(stack.iter().enumerate().map(|(i, line)| (if i == 0 { "stack" } else { "" }, line.clone(), ctx.theme.text)));
    }
    let of_job = |file: u32| model.files.get(&file).is_some_and(|file| file.job == job.id);
    let newest = model.logbook.numbered().rev().take(LOOKED_AT).map(|(_, line)| line);
    let own = newest.filter(|line| line.rank == Some(rank) && of_job(line.file) && says_more(line));
    let mut lines: Vec<_> = own.take(LINES).collect();
    lines.reverse();
    let words = lines.into_iter().map(|line| format!("{} {}", line.came(ctx.ui.zone), clean(&line.text)));
    out.extend(words.enumerate().map(|(i, words)| (if i == 0 { "its log" } else { "" }, words, ctx.theme.dim)));
    out
}

/// A label, the text behind it, and how it looks.
pub type Said = (&'static str, String, Style);

fn role_words(role: Role) -> &'static str {
    match role {
        Role::Root => "root cause",
        Role::Cascade => "a consequence",
        Role::Teardown => "the job is taken down",
        Role::Context => "context",
    }
}

/// What stands above the evidence of a finding, and what below it.
pub fn facts(ctx: &Ctx, f: &Finding) -> (Vec<Said>, Vec<Said>) {
    let theme = ctx.theme;
    let time = |at| ctx.ui.zone.hms_of_day(at, ctx.session.model.now);
    let severity = if f.severity >= Severity::Warning { theme.severity(f.severity) } else { theme.text };
    let mut above = vec![("what", f.summary.clone(), severity)];
    let mut kind = format!("{} · {} · {} · {}", f.rule, f.severity.as_str(), role_words(f.role), f.confidence.as_str());
    if let Some(signature) = f.signature {
        kind.push_str(&format!(" · {signature}"));
    }
    above.push(("rule", kind, theme.text));
    let cleared = f.cleared_at.map_or(String::new(), |at| format!(", cleared {}", time(at)));
    let count = if f.count > 1 { format!(", {} times, last {}", f.count, time(f.last_at)) } else { String::new() };
    above.push(("since", format!("{}, found {}{count}{cleared}", time(f.since), time(f.opened_at)), theme.text));
    // Where it only puts the evidence into one line, the evidence stands below.
    let told: Vec<&str> = f.evidence.iter().map(|e| e.text.as_str()).collect();
    if !f.whole_why().is_empty() && f.whole_why() != told.join(" · ") {
        above.push(("why", f.whole_why(), theme.text));
    }
    let model = &ctx.session.model;
    if let Some(countdown) = Countdown::of(model, f).filter(|_| f.cleared_at.is_none()) {
        above.push(("timeout", countdown.words(model.now), theme.text));
    }
    let mut below = Vec::new();
    for (i, step) in crate::diagnosis::remedies::of(model, f).iter().enumerate() {
        let note = if step.note.is_empty() { String::new() } else { format!("  # {}", step.note) };
        below.push((if i == 0 { "next" } else { "" }, format!("{}{note}", step.what), theme.accent));
    }
    if let Some(rule) = crate::rules::rule(f.rule) {
        below.push(("meaning", rule.title.to_owned(), theme.dim));
        below.push(("based on", rule.how.to_owned(), theme.dim));
        below.push(("advice", rule.advice.to_owned(), theme.dim));
    }
    (above, below)
}

fn open(ctx: &Ctx) -> Opened {
    selected(ctx.session, ctx.ui).map_or(Opened::Nothing, |f| Opened::Detail(Subject::new("finding", name(&f))))
}
