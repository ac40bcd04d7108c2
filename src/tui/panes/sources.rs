//! How the sources are: what is not seen, and why.

use super::{Ctx, Pane, no_first, table_row_at};
use crate::base::clean::clean;
use crate::base::time::span;
use crate::model::{Model, SourceView};
use crate::observe::{SourceId, SourceState};
use crate::sources::{SOURCES, SourceSpec};
use crate::tui::choices::Opened;
use crate::tui::details::{Facts, Subject};
use crate::tui::layout::Want;
use crate::tui::widgets::table::{self, Column, SortKey, plain};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};

pub const PANE: Pane = Pane {
    id: "sources",
    shows: "what can be read, and what cannot and why",
    title,
    want,
    rows: |ctx| rows(ctx).iter().map(|r| r.spec.id.to_owned()).collect(),
    first: no_first,
    sorts: |ctx, width| table::sorts(ctx, &columns(), &rows(ctx), width),
    row_at: |ctx, area, y| table_row_at(ctx, area, y, None),
    open,
    draw,
};

struct Row<'a> {
    spec: &'static SourceSpec,
    view: Option<&'a SourceView>,
}

fn columns<'a>() -> Vec<Column<Row<'a>>> {
    vec![
        Column::word("source", 8, 8, 0, |_, r| plain(r.spec.id), |_, r| SortKey::word(r.spec.id)),
        Column::word("state", 7, 7, 0, state, |_, r| SortKey::number(r.view.map(|v| f64::from(v.state as u8)))),
        Column::number(
            "for",
            9,
            3,
            |ctx, r| plain(span(ctx.session.model.now.since(r.view?.since))),
            |ctx, r| SortKey::number(r.view.map(|v| ctx.session.model.now.since(v.since).as_secs_f64())),
        ),
        Column::word("detail", 24, 400, 1, |ctx, r| plain(words(ctx, r)), |ctx, r| SortKey::word(words(ctx, r))),
    ]
}

fn state(ctx: &Ctx, row: &Row) -> table::Cell {
    let view = row.view?;
    Some((view.state.as_str().to_owned(), Some(style(ctx, view.state))))
}

fn words(ctx: &Ctx, row: &Row) -> String {
    let title = row.spec.title;
    match row.view {
        None => format!("no answer yet ({title})"),
        Some(SourceView { detail: Some(detail), .. }) => clean(detail).into_owned(),
        Some(_) if row.spec.id == "host" => host(&ctx.session.model).unwrap_or_else(|| title.to_owned()),
        Some(_) => title.to_owned(),
    }
}

/// What of the machine comes nearest to its limit; `None`: it is not known whole.
fn host(model: &Model) -> Option<String> {
    let used = |total: u64, free: u64| total.saturating_sub(free) as f64 / total.max(1) as f64 * 100.0;
    let sample = model.host_sample.as_ref()?;
    let memory = used(sample.mem_total_bytes?, sample.mem_available_bytes?);
    let writable = model.disks.iter().filter(|disk| disk.read_only != Some(true));
    let (full, disk) = writable.map(|disk| (used(disk.total_bytes, disk.free_bytes), disk)).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let hottest = model.temperatures.iter().max_by(|a, b| a.celsius.total_cmp(&b.celsius));
    let hottest = hottest.map_or(String::new(), |t| format!(", {} at {:.0} °C", clean(&t.sensor), t.celsius));
    Some(format!("memory {memory:.0} % used, {} {full:.0} % full{hottest}", clean(&disk.mount)))
}

fn rows<'a>(ctx: &Ctx<'a>) -> Vec<Row<'a>> {
    let view = |id| ctx.session.model.sources.get(&SourceId::of(id));
    let mut rows: Vec<Row> = SOURCES.iter().map(|spec| Row { spec, view: view(spec.id) }).collect();
    // Where not all have room, those in trouble must be seen.
    rows.sort_by_key(|r| !r.view.is_some_and(|v| in_trouble(v.state)));
    table::retain(ctx, &columns(), &mut rows);
    table::sort(ctx, &columns(), &mut rows);
    rows
}

/// Every column of a source.
pub fn cells(ctx: &Ctx, id: &str) -> Option<Facts> {
    let spec = SOURCES.iter().find(|spec| spec.id == id)?;
    let view = ctx.session.model.sources.get(&SourceId::of(spec.id));
    Some(table::facts(ctx, &columns(), &Row { spec, view }))
}

fn open(ctx: &Ctx) -> Opened {
    let rows: Vec<String> = rows(ctx).iter().map(|r| r.spec.id.to_owned()).collect();
    let id = ctx.selected(&rows).and_then(|at| rows.get(at));
    id.map_or(Opened::Nothing, |id| Opened::Detail(Subject::new("source", id)))
}

fn in_trouble(state: SourceState) -> bool {
    matches!(state, SourceState::Denied | SourceState::Slow | SourceState::Failed)
}

fn title(ctx: &Ctx) -> String {
    let states = || ctx.session.model.sources.values().map(|v| v.state);
    let well = states().filter(|s| *s == SourceState::Ok).count();
    let trouble = states().filter(|s| in_trouble(*s)).count();
    let trouble = if trouble > 0 { format!(", {trouble} in trouble") } else { String::new() };
    format!("Sources: {well} of {} answer{trouble}", SOURCES.len())
}

fn want(ctx: &Ctx, _: u16) -> Option<Want> {
    if super::findings::shows_sources(ctx) {
        return None;
    }
    let all = SOURCES.len() as u16 + 1;
    Some(Want { width: 30, least: 3, comfort: all.min(8), all, priority: 8, late: true, grows: false })
}

fn draw(ctx: &Ctx, area: Rect, buf: &mut Buffer) {
    let rows = rows(ctx);
    if rows.is_empty() {
        return super::paragraph(ctx, area, buf, &ctx.why_empty(String::new));
    }
    let selected = ctx.selected(&rows.iter().map(|r| r.spec.id.to_owned()).collect::<Vec<_>>());
    table::draw(ctx, &columns(), &rows, selected, |_| table::Look::default(), area, buf);
}

/// One of them cannot be read that is there.
pub fn has_trouble(model: &Model) -> bool {
    model.sources.values().any(|view| in_trouble(view.state))
}

/// What is watched and what is not, a line for each source: `✓ nvml   GPUs through NVML`.
pub fn seen(ctx: &Ctx) -> Vec<Line<'static>> {
    let ctx = &Ctx { pane: crate::tui::view::pane_index(PANE.id), ..*ctx };
    let line = |row: &Row| {
        let (mark, look) = match row.view.map(|view| view.state) {
            Some(SourceState::Ok) => ("✓", ctx.theme.good),
            _ => ("·", ctx.theme.dim),
        };
        Line::from(vec![Span::styled(format!("{mark} {:<10}", row.spec.id), look), Span::styled(words(ctx, row), ctx.theme.dim)])
    };
    rows(ctx).iter().map(line).collect()
}

fn style(ctx: &Ctx, state: SourceState) -> Style {
    match state {
        SourceState::Ok => ctx.theme.good,
        SourceState::Absent => ctx.theme.dim,
        SourceState::Slow | SourceState::Failed | SourceState::Denied => ctx.theme.look,
    }
}
