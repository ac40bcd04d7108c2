//! The report of `doctor`: one document (`nccl-top.doctor/1`), or [`text`] for people.

use super::check::text::{Ink, Page, Style, ink_of};
use crate::archive::Verdict;
use crate::base::mask::{self, shown};
use crate::base::units::{counted, sentence};
use crate::formats::ras::diagnostics::Diagnostics;
use crate::rules::host_checks::{Checked, Group, State};
use serde_json::{Value, json};

pub const SCHEMA: &str = "nccl-top.doctor/1";

/// The checks that were made, and of what.
pub struct Report {
    pub host: String,
    /// `p5.48xlarge, a virtual machine`
    pub machine: Option<String>,
    pub checked: Vec<Checked>,
    /// What NCCL's RAS answers to `diagnostics`, or why it does not, by the address of each job that runs. It changes no verdict: NCCL
    /// gives what cannot be read the same mark as what differs.
    pub diagnosed: Vec<(String, Result<Diagnostics, String>)>,
    pub took_ms: u64,
}

impl Report {
    fn of(&self, state: State) -> impl Iterator<Item = &Checked> {
        self.checked.iter().filter(move |c| c.answer.state == state)
    }

    pub fn verdict(&self) -> Verdict {
        let any = |state| self.of(state).next().is_some();
        match () {
            () if any(State::Fail) => Verdict::Fail,
            () if any(State::Warn) => Verdict::Warn,
            () if any(State::Pass) => Verdict::Ok,
            () => Verdict::Unknown,
        }
    }
}

pub fn json(report: &Report) -> Value {
    let check = |c: &Checked| {
        json!({
            "id": c.check.id,
            "group": c.check.group,
            "title": c.check.label,
            "status": c.answer.state,
            "value": shown(&c.answer.value),
            "healthy": c.check.healthy,
            "read": c.check.reads.iter().map(|look| look.name()).collect::<Vec<_>>(),
            "why": c.check.why,
            "remedy": c.remedy(),
        })
    };
    let mut document = json!({
        "schema": SCHEMA,
        "verdict": report.verdict(),
        "host": shown(&report.host),
        "machine": report.machine.as_deref().map(shown),
        "took_ms": report.took_ms,
        "checks": report.checked.iter().map(check).collect::<Vec<_>>(),
        "ras_diagnostics": report.diagnosed.iter().map(diagnosed).collect::<Vec<_>>(),
    });
    mask::document(&mut document);
    document
}

fn diagnosed((address, answer): &(String, Result<Diagnostics, String>)) -> Value {
    match answer {
        Ok(found) => json!({"address": shown(address), "answer": found}),
        Err(why) => json!({"address": shown(address), "error": shown(why)}),
    }
}

/// What is not well in full, the rest in a line per group; `all`: every check.
pub fn text(report: &Report, style: &Style, all: bool) -> String {
    let mut page = Page { out: String::new(), style: *style };
    let verdict = report.verdict();
    let counts = [
        (State::Fail, "fail"),
        (State::Warn, "warn"),
        (State::Pass, "pass"),
        (State::CannotRead, "cannot be read"),
        (State::DoesNotApply, "do not apply"),
    ];
    let counts = counts.into_iter().map(|(state, does)| (report.of(state).count(), does)).filter(|(n, _)| *n > 0);
    let counts: Vec<String> = counts.map(|(n, does)| format!("{n} {does}")).collect();
    let machine = report.machine.as_ref().map_or(String::new(), |words| format!(" ({words})"));
    let whole = format!("{}{machine}: {}: {}", report.host, counted(report.checked.len() as u64, "check"), counts.join(", "));
    page.headline(ink_of(verdict), &verdict.as_str().to_uppercase(), &whole);
    for state in [State::Fail, State::Warn] {
        report.of(state).for_each(|c| in_full(&mut page, c));
    }
    if all {
        every(&mut page, report);
    } else {
        briefly(&mut page, report);
    }
    report.diagnosed.iter().for_each(|(address, answer)| of_nccl(&mut page, address, answer, all));
    page.out
}

/// What differs between the ranks line by line, the rest in one.
fn of_nccl(page: &mut Page, address: &str, answer: &Result<Diagnostics, String>, all: bool) {
    page.title(&format!("NCCL's own diagnostics (RAS at {address})"));
    let found = match answer {
        Ok(found) => found,
        Err(why) => return page.row("not read", Ink::Dim, &shown(why)),
    };
    for line in found.lines.iter().filter(|line| all || !line.ok) {
        let (mark, ink) = if line.ok { ("ok", Ink::Plain) } else { ("differs or unread", Ink::Warn) };
        page.row(mark, ink, &shown(&format!("{}: {}", line.check, line.text)));
    }
    let mut well: Vec<&str> = found.lines.iter().filter(|line| line.ok).map(|line| line.check.as_str()).collect();
    well.dedup();
    if !all && !well.is_empty() {
        page.row("ok", Ink::Plain, &shown(&well.join(", ")));
    }
    if let Some(peers) = found.peers {
        page.row("asked", Ink::Dim, &format!("{} answered", if peers == 1 { "1 process".into() } else { format!("{peers} processes") }));
    }
}

fn in_full(page: &mut Page, c: &Checked) {
    let (mark, ink) = mark(c.answer.state);
    page.title(&format!("{} ({}, {})", c.check.label, c.check.group.as_str(), c.check.id));
    page.row(mark, ink, &c.answer.value);
    page.row("healthy", Ink::Plain, c.check.healthy);
    page.row("why", Ink::Plain, &sentence(c.check.why));
    page.row("read", Ink::Dim, &c.reads());
    if let Some(remedy) = c.remedy() {
        page.row("do", Ink::Bold, remedy);
    }
}

fn briefly(page: &mut Page, report: &Report) {
    for (state, title) in [(State::Pass, "Well"), (State::CannotRead, "Cannot be read"), (State::DoesNotApply, "Does not apply")] {
        if report.of(state).next().is_none() {
            continue;
        }
        page.title(title);
        for group in Group::ALL {
            let of_group: Vec<&Checked> = report.of(state).filter(|c| c.check.group == group).collect();
            match state {
                _ if of_group.is_empty() => {}
                State::Pass => {
                    let many = counted(of_group.len() as u64, "check");
                    page.row(group.as_str(), Ink::Plain, &format!("{many}: {}", labels(&of_group)));
                }
                State::DoesNotApply => why_not(page, group, &of_group),
                _ => of_group.iter().for_each(|c| page.row(group.as_str(), Ink::Dim, &words(c))),
            }
        }
    }
}

fn labels(checked: &[&Checked]) -> String {
    checked.iter().map(|c| c.check.label).collect::<Vec<_>>().join(", ")
}

/// Most have the same reason: each once.
fn why_not(page: &mut Page, group: Group, checked: &[&Checked]) {
    const MOST_NAMED: usize = 4;
    let mut rest = checked.to_vec();
    while let Some(first) = rest.first().map(|c| c.answer.value.clone()) {
        let (same, others): (Vec<&Checked>, Vec<&Checked>) = rest.into_iter().partition(|c| c.answer.value == first);
        let which = if same.len() > MOST_NAMED { counted(same.len() as u64, "check") } else { labels(&same) };
        page.row(group.as_str(), Ink::Dim, &format!("{which}: {first}"));
        rest = others;
    }
}

fn every(page: &mut Page, report: &Report) {
    for group in Group::ALL {
        let mut of_group = report.checked.iter().filter(|c| c.check.group == group).peekable();
        if of_group.peek().is_some() {
            page.title(group.as_str());
        }
        for c in of_group {
            let (mark, ink) = mark(c.answer.state);
            page.row(mark, ink, &words(c));
            page.row("", Ink::Dim, &format!("{}; healthy: {}", c.reads(), c.check.healthy));
        }
    }
}

/// What was found; of what cannot be read, what would help.
fn words(c: &Checked) -> String {
    let remedy = c.remedy().filter(|_| c.answer.state == State::CannotRead).map_or(String::new(), |remedy| format!(" ({remedy})"));
    format!("{}: {}{remedy}", c.check.label, c.answer.value)
}

fn mark(state: State) -> (&'static str, Ink) {
    match state {
        State::Fail => ("FAIL", Ink::Bad),
        State::Warn => ("WARN", Ink::Warn),
        State::CannotRead => ("not read", Ink::Dim),
        State::Pass => ("pass", Ink::Plain),
        State::DoesNotApply => ("n/a", Ink::Dim),
    }
}
