//! A finding: what the pane shows of it, its evidence with the way to where it stands, and all that it is about.

use super::{Kind, Page, Subject};
use crate::diagnosis::session::Session;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use crate::tui::choices::Opened;
use crate::tui::log_view;
use crate::tui::panes::{Ctx, findings};

pub const KIND: Kind = Kind { id: "finding", write };

fn write(ctx: &Ctx, key: &str, page: &mut Page) -> Option<String> {
    let f = findings::all(ctx.session).into_iter().find(|f| findings::name(f) == key)?;
    let theme = ctx.theme;
    let (above, below) = findings::facts(ctx, f);
    for (label, text, style) in above {
        page.fact(label, &text, style);
    }
    page.head("Evidence");
    if f.evidence.is_empty() {
        page.note("no single line or value; it follows from what was compared");
    }
    for evidence in &f.evidence {
        match place_of(ctx.session, f, evidence) {
            Some(place) => page.link(&evidence.placed(), theme.text, place),
            None => page.note(&evidence.placed()),
        }
    }
    if let Some(then) = lines_of_that_time(ctx.session, f) {
        page.link("the log at this moment", theme.text, Opened::LogLine(then));
    }
    page.head("What to do");
    for (label, text, style) in below {
        page.fact(label, &text, style);
    }
    let job = f.job.as_deref().and_then(|id| ctx.session.model.jobs.get(id));
    let pids: Vec<(u32, u32)> = f.ranks.iter().filter_map(|rank| Some((*rank, *job?.ranks.get(rank)?))).collect();
    if !pids.is_empty() || !f.gpus.is_empty() || !f.ports.is_empty() {
        page.head("About");
    }
    for (rank, pid) in pids {
        page.link(&format!("rank {rank}  pid {pid}"), theme.text, Opened::Detail(Subject::new("process", pid)));
    }
    for gpu in &f.gpus {
        page.link(&format!("GPU {gpu}"), theme.text, Opened::Detail(Subject::new("gpu", gpu)));
    }
    for port in &f.ports {
        page.link(port, theme.text, Opened::Detail(Subject::new("port", port)));
    }
    Some(format!("{}  {}", f.rule, f.summary))
}

/// Where a piece of evidence stands: its line in the log, or else the thing that was looked at; `None` where it stands nowhere else.
fn place_of(session: &Session, f: &Finding, evidence: &Evidence) -> Option<Opened> {
    let detail = |kind, key: Option<String>| key.map(|key| Opened::Detail(Subject::new(kind, key)));
    let job = || session.model.jobs.get(f.job.as_deref()?);
    let process = || f.ranks.first().and_then(|rank| job()?.ranks.get(rank)).map(u32::to_string);
    let comm =
        || job().and_then(|job| session.model.comms_of(job).max_by_key(|comm| comm.nranks)).map(|comm| format!("{:016x}", comm.hash));
    let gpu = || f.gpus.first().map(u32::to_string);
    let found = match evidence.kind {
        "gpu" => detail("gpu", gpu()),
        "process" => detail("process", process()),
        "ras" => detail("comm", comm()),
        "counter" => detail("port", f.ports.first().cloned()).or_else(|| detail("gpu", gpu())),
        "source" if f.rule == "source-trouble" => detail("source", Some(f.subject.clone())),
        _ => None,
    };
    let line = || {
        let path = evidence.path.as_deref()?;
        log_view::line_of(session, path, evidence.line, &evidence.text).map(Opened::LogLine)
    };
    found.or_else(line).or_else(|| not_here(evidence))
}

/// Where it can be looked for outside of this program.
fn not_here(evidence: &Evidence) -> Option<Opened> {
    let path = evidence.path.as_deref()?;
    Some(Opened::Notice(match evidence.line {
        Some(line) => format!("that line of {path} is no longer kept here: sed -n {line}p {path}"),
        None => format!("it stands in {path}"),
    }))
}

/// What no line proves is best read in the lines of that time.
fn lines_of_that_time(session: &Session, f: &Finding) -> Option<u64> {
    if f.evidence.iter().any(|e| e.kind == "line" && e.path.is_some()) {
        return None;
    }
    session.model.logbook.numbered().rev().find(|(_, l)| l.at <= f.since).map(|(n, _)| n)
}
