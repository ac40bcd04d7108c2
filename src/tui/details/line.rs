//! A line of the log: whole, and what the catalogue knows of it.

use super::{Kind, Page, Subject};
use crate::logs::catalog;
use crate::logs::prefilter::Class;
use crate::model::log::Kept;
use crate::tui::choices::Opened;
use crate::tui::panes::{Ctx, findings};

pub const KIND: Kind = Kind { id: "line", write };

fn write(ctx: &Ctx, key: &str, page: &mut Page) -> Option<String> {
    let number = key.parse().ok()?;
    let model = &ctx.session.model;
    let line = model.logbook.get(number)?;
    let theme = ctx.theme;
    let style = match line.class {
        Class::Alarm => theme.act,
        Class::Fact => theme.text,
        Class::Noise => theme.dim,
    };
    page.text(&line.text, style);
    page.head("Where it stands");
    let file = model.files.get(&line.file);
    let path = file.map_or("–", |file| file.info.path.as_str());
    let place = line.no.map_or(path.to_owned(), |no| format!("{path}:{no}"));
    page.fact("file", &place, theme.text);
    page.fact("read at", &ctx.ui.zone.rfc3339(line.at), theme.text);
    if let Some(job) = file.map(|file| file.job.as_str()).filter(|job| !job.is_empty()) {
        page.fact("job", job, theme.text);
    }
    if let Some(rank) = line.rank {
        let pid = file.and_then(|file| model.jobs.get(&file.job)?.ranks.get(&rank).copied());
        match pid {
            Some(pid) => page.link(&format!("rank {rank}  pid {pid}"), theme.text, Opened::Detail(Subject::new("process", pid))),
            None => page.fact("rank", &rank.to_string(), theme.text),
        }
    }
    page.head("What it means");
    explain(ctx, line, page);
    let proves = |f: &crate::rules::findings::Finding| {
        f.evidence.iter().any(|e| e.path.as_deref() == Some(path) && (e.line.is_some() && e.line == line.no || *e.text == *line.text))
    };
    let proven = findings::all(ctx.session).into_iter().any(proves);
    if proven {
        page.findings(proves);
    }
    Some(format!("line {}", line.no.map_or(String::new(), |no| no.to_string())).trim_end().to_owned())
}

fn explain(ctx: &Ctx, line: &Kept, page: &mut Page) {
    let theme = ctx.theme;
    let known = crate::logs::known_by(&line.text);
    let Some(entry) = known.entry else {
        return page.note(&match known.reader {
            Some(reader) if line.class == Class::Alarm => format!("the catalogue does not know its text; it counts as {reader}"),
            Some(reader) => format!("nccl-top reads this kind of line: {reader}"),
            None => "the catalogue does not know it, and no reader takes anything from it".to_owned(),
        });
    };
    page.fact("entry", entry.id, theme.text);
    page.fact("means", entry.means, theme.text);
    page.fact("next", entry.next, theme.accent);
    page.fact("it is", entry.part.as_str(), theme.text);
    if let Some(rule) = crate::rules::rule(entry.rule) {
        page.fact("rule", &format!("{}: {}", rule.id, rule.title), theme.text);
    }
    page.fact("printed by", &format!("{} ({})", entry.source, entry.versions), theme.dim);
    if let Some((table, _)) = catalog::by_id(entry.id) {
        page.fact("listed in", table.file, theme.dim);
    }
}
