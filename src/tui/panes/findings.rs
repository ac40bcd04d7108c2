//! Findings, open ones first, and of the selected one everything: evidence, why, next step.

use super::{Ctx, Pane, no_sorts};
use crate::base::clean::clean;
use crate::base::severity::{Role, Severity};
use crate::base::time::span;
use crate::base::words::wrap;
use crate::diagnosis::countdown::Countdown;
use crate::diagnosis::session::Session;
use crate::rules::findings::Finding;
use crate::tui::choices::{Opened, Ui};
use crate::tui::layout::Want;
use crate::tui::log_view;
use crate::tui::theme::severity_mark;
use crate::tui::widgets::{first_shown, labelled};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

pub const PANE: Pane = Pane {
    id: "findings",
    shows: "findings with evidence and next step",
    title,
    want,
    rows: |ctx| all(ctx.session).iter().map(|f| name(f)).collect(),
    sorts: no_sorts,
    row_at: |ctx, area, y| {
        let findings = all(ctx.session);
        let names: Vec<String> = findings.iter().map(|f| name(f)).collect();
        let line = usize::from(y.checked_sub(area.y)?);
        shown(ctx, &findings, ctx.selected(&names), area).get(line).map(|(i, _)| *i)
    },
    open,
    draw,
};

/// Open ones, worst first; then past ones, newest first.
fn all(session: &Session) -> Vec<&Finding> {
    session.ledger.open().into_iter().chain(session.ledger.past()).collect()
}

fn name(f: &Finding) -> String {
    format!("{}/{}/{}/{}", f.rule, f.job.as_deref().unwrap_or(""), f.subject, f.opened_at.0)
}

/// The finding that is looked at, where findings are looked at.
pub fn selected(session: &Session, ui: &Ui) -> Option<Finding> {
    let pane = crate::tui::view::pane_index(PANE.id);
    if ui.target() != pane || (ui.zoom.is_none() && ui.lists[pane].row.is_none()) {
        return None;
    }
    let findings = all(session);
    let names: Vec<String> = findings.iter().map(|f| name(f)).collect();
    ui.lists[pane].position(&names).and_then(|i| findings.get(i)).map(|f| (*f).clone())
}

fn title(ctx: &Ctx) -> String {
    let ledger = &ctx.session.ledger;
    let left_out: u64 = ledger.left_out().map(|(_, _, left)| left.times).sum();
    let more = if left_out > 0 { format!(", {} more not kept", crate::base::units::group(left_out)) } else { String::new() };
    let open = ledger.open();
    // What is only good to know is no finding in anybody's sense of the word.
    let notes = open.iter().filter(|f| f.severity == Severity::Info).count();
    let notes_words = match notes {
        0 => String::new(),
        1 => ", 1 note".into(),
        n => format!(", {n} notes"),
    };
    format!("Findings: {} open, {} past{notes_words}{more}", open.len() - notes, ledger.past().count())
}

fn want(ctx: &Ctx, width: u16) -> Option<Want> {
    // The first of them may take two rows each, where there is room.
    const WRAPPED: usize = 8;
    let all = all(ctx.session);
    let wrapped = |most: usize| all.iter().take(most).map(|f| entry(ctx, f, usize::from(width), 2).len()).sum::<usize>();
    let rows = (wrapped(WRAPPED) + all.len().saturating_sub(WRAPPED)).clamp(1, 200) as u16;
    let open = wrapped(ctx.session.ledger.open().len().min(WRAPPED)).clamp(1, 5) as u16;
    // Beside others it keeps its height, so that nothing moves when a finding opens.
    let comfort = if width > 60 { open } else { open.max(5) };
    Some(Want { width: 36, least: 1, comfort, all: rows, priority: 2, late: false, grows: false })
}

/// A finding in as many rows as it needs, if not more than `most`.
fn entry(ctx: &Ctx, f: &Finding, width: usize, most: usize) -> Vec<Line<'static>> {
    let whole = row(ctx, f);
    if whole.width() <= width || most < 2 {
        return vec![whole];
    }
    let Some(words) = whole.spans.last().cloned() else { return vec![whole] };
    let head = whole.width() - words.width();
    let parts = wrap(&words.content, width.saturating_sub(head));
    if parts.len() > most || head * 2 > width {
        return vec![whole];
    }
    let line = |(i, part): (usize, String)| {
        let mut spans = if i == 0 { whole.spans[..whole.spans.len() - 1].to_vec() } else { vec![Span::raw(" ".repeat(head))] };
        spans.push(Span::styled(part, words.style));
        Line::from(spans)
    };
    parts.into_iter().enumerate().map(line).collect()
}

/// The rows that are shown: number of the finding, and the line. Where all fit, the room that is left is for long texts.
fn shown(ctx: &Ctx, findings: &[&Finding], selected: Option<usize>, area: Rect) -> Vec<(usize, Line<'static>)> {
    let height = usize::from(list_rows(ctx, area.height));
    let first = first_shown(findings.len(), selected, height);
    let mut spare = height.saturating_sub(findings.len());
    let mut rows = Vec::new();
    for (i, f) in findings.iter().enumerate().skip(first).take(height) {
        let most = if f.severity > Severity::Info { 1 + spare } else { 1 };
        let lines = entry(ctx, f, usize::from(area.width), most);
        spare -= lines.len() - 1;
        rows.extend(lines.into_iter().map(|line| (i, line)));
    }
    rows
}

fn row(ctx: &Ctx, f: &Finding) -> Line<'static> {
    let theme = ctx.theme;
    let now = ctx.session.model.now;
    let count = if f.count > 1 { format!(" ×{}", f.count) } else { String::new() };
    let role = if f.role == Role::Cascade { " (a consequence)" } else { "" };
    let (mark, age, style, words) = match f.cleared_at {
        None => (severity_mark(f.severity), span(now.since(f.since)), theme.severity(f.severity), theme.text),
        Some(at) => ("✓", span(now.since(at)), theme.dim, theme.dim),
    };
    let past = if f.cleared_at.is_some() { "was: " } else { "" };
    let whose = f.job.as_deref().and_then(|id| ctx.whose(id)).map_or(String::new(), |id| format!("job {id}: "));
    Line::from(vec![
        Span::styled(format!("{mark} {age:>8}  {}  ", f.rule), style),
        Span::styled(format!("{past}{whose}{}{count}{role}", clean(&f.summary)), words),
    ])
}

/// Rows of the list; the rest is for the selected finding.
fn list_rows(ctx: &Ctx, height: u16) -> u16 {
    if !ctx.zoomed || height < 10 {
        return height;
    }
    let rows = all(ctx.session).len().max(1) as u16;
    rows.min(height / 3)
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let findings = all(ctx.session);
    let names: Vec<String> = findings.iter().map(|f| name(f)).collect();
    let selected = ctx.selected(&names);
    if findings.is_empty() {
        buf.set_stringn(area.x, area.y, "none", usize::from(area.width), ctx.theme.dim);
        return;
    }
    let height = list_rows(ctx, area.height);
    for ((i, text), y) in shown(ctx, &findings, selected, area).into_iter().zip(area.y..) {
        super::line(buf, area, y, &text);
        if selected == Some(i) && ctx.focused {
            super::mark_selected(ctx, Rect { y, height: 1, ..area }, buf);
        }
    }
    if height < area.height
        && ctx.zoomed
        && let Some(f) = selected.and_then(|i| findings.get(i))
    {
        let below = Rect { y: area.y + height + 1, height: area.height - height - 1, ..area };
        buf.set_stringn(area.x, area.y + height, "─".repeat(usize::from(area.width)), usize::from(area.width), ctx.theme.border);
        super::lines(below, buf, &detail(ctx, f, usize::from(area.width)));
    }
}

/// Everything about one finding.
fn detail(ctx: &Ctx, f: &Finding, width: usize) -> Vec<Line<'static>> {
    let theme = ctx.theme;
    let zone = ctx.ui.zone;
    let mut out = Vec::new();
    let mut say = |label: &str, text: &str, style: Style| {
        out.extend(labelled(&format!("{label:>9}  "), theme.dim, text, style, width));
    };
    let severity = if f.severity >= Severity::Warning { theme.severity(f.severity) } else { theme.text };
    say("what", &f.summary, severity);
    let mut kind = format!("{} · {} · {} · {}", f.rule, f.severity.as_str(), f.role.as_str(), f.confidence.as_str());
    if let Some(signature) = f.signature {
        kind.push_str(&format!(" · {signature}"));
    }
    say("rule", &kind, theme.text);
    let cleared = f.cleared_at.map_or(String::new(), |at| format!(", cleared {}", zone.hms(at)));
    let count = if f.count > 1 { format!(", {} times, last {}", f.count, zone.hms(f.last_at)) } else { String::new() };
    say("since", &format!("{}, found {}{count}{cleared}", zone.hms(f.since), zone.hms(f.opened_at)), theme.text);
    // Where it only puts the evidence into one line, the evidence stands below.
    let told: Vec<&str> = f.evidence.iter().map(|e| e.text.as_str()).collect();
    if !f.whole_why().is_empty() && f.whole_why() != told.join(" · ") {
        say("why", &f.whole_why(), theme.text);
    }
    let model = &ctx.session.model;
    if let Some(countdown) = Countdown::of(model, f).filter(|_| f.cleared_at.is_none()) {
        say("timeout", &countdown.words(model.now), theme.text);
    }
    for (i, e) in f.evidence.iter().enumerate() {
        say(if i == 0 { "evidence" } else { "" }, &e.placed(), theme.text);
    }
    for (i, step) in crate::diagnosis::remedies::of(&ctx.session.model, f).iter().enumerate() {
        let note = if step.note.is_empty() { String::new() } else { format!("  # {}", step.note) };
        say(if i == 0 { "next" } else { "" }, &format!("{}{note}", step.what), theme.accent);
    }
    if let Some(rule) = crate::rules::rule(f.rule) {
        say("meaning", rule.title, theme.dim);
        say("known by", rule.how, theme.dim);
        say("advice", rule.advice, theme.dim);
    }
    out
}

/// The log at the first line that is evidence.
fn open(ctx: &Ctx) -> Opened {
    let Some(f) = selected(ctx.session, ctx.ui) else { return Opened::Nothing };
    let mut lines = f.evidence.iter().filter(|e| e.kind == "line" && e.path.is_some()).peekable();
    if lines.peek().is_none() {
        // What no line proves is best read in the lines of that time.
        let book = &ctx.session.model.logbook;
        let then = book.numbered().rev().find(|(_, l)| l.at <= f.since).map(|(n, _)| n);
        return then.map_or_else(|| Opened::Notice("no line of that time is kept".into()), Opened::LogLine);
    }
    let found = lines.clone().find_map(|e| log_view::line_of(ctx.session, e.path.as_deref()?, e.line, &e.text));
    match (found, lines.next()) {
        (Some(number), _) => Opened::LogLine(number),
        (None, Some(e)) => {
            let path = e.path.as_deref().unwrap_or("the log");
            let line = e.line.map_or(String::new(), |l| format!(": sed -n {l}p {path}"));
            Opened::Notice(format!("that line of {path} is no longer kept here{line}"))
        }
        (None, None) => Opened::Nothing,
    }
}
