//! The report of `check` for people: the cause first, with its proof and what to do; then what follows from it, how NCCL came up, how
//! far training came, and what was read.

use super::run;
use crate::archive::{Report, Verdict};
use crate::base::clean::{clean, clip};
use crate::base::mask::shown;
use crate::base::severity::{Role, Severity};
use crate::base::time::Zone;
use crate::base::words::{all_words, cuda_words, gpu_words, rank_words, wrap};
use crate::logs::What;
use crate::logs::catalog;
use crate::logs::catalog::{Part, Scope};
use crate::logs::gpu_memory::GpuMemory;
use crate::model::alarms::Alarm;
use crate::model::bringup::{Item, Seen};
use crate::observe::evidence::Evidence;
use crate::rules::END_OF_A_RANK;
use crate::rules::area::Area;
use crate::rules::findings::Finding;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use unicode_width::UnicodeWidthStr;

/// How the text is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    pub color: bool,
    /// Nothing but ASCII.
    pub ascii: bool,
    /// Columns.
    pub width: usize,
}

#[derive(Clone, Copy)]
pub(in crate::output) enum Ink {
    Plain,
    Bold,
    Dim,
    Good,
    Warn,
    Bad,
}

/// The rule whose finding stands below the verdict.
const SEVERAL: &str = "several-runs";
/// Consequences and the like beyond this are counted.
const MOST_LISTED: usize = 8;
const MOST_PROOFS: usize = 4;
const LONGEST_PROOF: usize = 400;
const MOST_INPUTS: usize = 8;
/// Columns of the names on the left.
const LEFT: usize = 11;

pub fn text(report: &Report, zone: Zone, style: &Style) -> String {
    let mut page = Page { out: String::new(), style: *style };
    page.head(report, zone);
    let (rest, context): (Vec<&Finding>, Vec<&Finding>) = report
        .findings
        .iter()
        .enumerate()
        .filter(|(i, _)| Some(*i) != report.root_cause)
        .map(|(_, f)| f)
        .filter(|f| f.rule != SEVERAL)
        .partition(|f| f.role != Role::Context);
    let (follows, own): (Vec<&Finding>, Vec<&Finding>) = rest.into_iter().partition(|f| matches!(f.role, Role::Cascade | Role::Teardown));
    page.list("Also found", &own, true);
    page.list(if report.root_cause.is_some() { "Follows from it" } else { "Seen" }, &follows, false);
    page.list("Worth knowing", &context, false);
    page.around(report);
    page.checklist(report);
    page.facts(report, zone);
    page.inputs(report);
    page.out
}

/// A page of text with a column of names on the left.
pub(in crate::output) struct Page {
    pub(in crate::output) out: String,
    pub(in crate::output) style: Style,
}

/// What stands for a verdict.
pub(in crate::output) fn ink_of(verdict: Verdict) -> Ink {
    match verdict {
        Verdict::Ok => Ink::Good,
        Verdict::Warn => Ink::Warn,
        Verdict::Fail => Ink::Bad,
        Verdict::Unknown => Ink::Dim,
    }
}

impl Page {
    fn ink(&self, ink: Ink, text: &str) -> String {
        let code = match ink {
            Ink::Plain => return text.to_owned(),
            Ink::Bold => "1",
            Ink::Dim => "2",
            Ink::Good => "32",
            Ink::Warn => "33",
            Ink::Bad => "1;31",
        };
        if self.style.color { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    fn shown(&self, text: &str) -> String {
        let text = shown(text);
        if !self.style.ascii {
            return text.into_owned();
        }
        text.chars().map(|c| if c.is_ascii() { c.to_string() } else { ascii(c).to_owned() }).collect()
    }

    /// `left` in its columns, `text` wrapped beside it.
    pub(in crate::output) fn row(&mut self, left: &str, ink: Ink, text: &str) {
        let width = self.style.width.saturating_sub(LEFT + 2).max(20);
        let text = self.shown(text);
        for (i, line) in wrap(&text, width).into_iter().enumerate() {
            let left = if i == 0 { left } else { "" };
            let pad = LEFT.saturating_sub(left.width());
            let line = self.ink(ink, &line);
            let _ = writeln!(self.out, "  {left}{}{line}", " ".repeat(pad));
        }
    }

    pub(in crate::output) fn title(&mut self, text: &str) {
        let text = self.ink(Ink::Bold, text);
        let _ = writeln!(self.out, "\n{text}");
    }

    /// The verdict in a word, and a sentence beside it.
    pub(in crate::output) fn headline(&mut self, ink: Ink, word: &str, sentence: &str) {
        let sentence = self.shown(sentence);
        let width = self.style.width.saturating_sub(word.len() + 2).max(20);
        for (i, line) in wrap(&sentence, width).into_iter().enumerate() {
            let left = if i == 0 { self.ink(ink, word) } else { " ".repeat(word.len()) };
            let _ = writeln!(self.out, "{left}  {}", self.ink(Ink::Bold, &line));
        }
    }

    /// The verdict and the cause.
    fn head(&mut self, report: &Report, zone: Zone) {
        let ink = ink_of(report.verdict);
        let cause = report.root_cause.map(|i| &report.findings[i]);
        let area = cause.and_then(Area::of).map_or(String::new(), |area| format!(" ({})", area.as_str()));
        let word = format!("{}{area}", report.verdict.as_str().to_uppercase());
        let sentence = match (cause, report.verdict) {
            (Some(f), _) => f.summary.clone(),
            (None, Verdict::Ok) => "nothing wrong was found".into(),
            (None, Verdict::Unknown) => "nothing was recognised".into(),
            // What only warns is no cause.
            (None, _) => {
                report.findings.iter().find(|f| f.severity >= Severity::Warning).map_or_else(|| "see below".into(), |f| f.summary.clone())
            }
        };
        let unread = report.inputs.iter().filter(|i| i.error.is_some()).count();
        let unread = match unread {
            0 => String::new(),
            1 => " (1 input could not be judged)".into(),
            n => format!(" ({n} inputs could not be judged)"),
        };
        let alike = cause.map_or(0, |f| report.findings.iter().filter(|other| is_alike(f, other)).count());
        let alike = if alike > 0 { format!("; {alike} more like it, below") } else { String::new() };
        self.headline(ink, &word, &format!("{sentence}{alike}{unread}"));
        if let Some(runs) = report.findings.iter().find(|f| f.rule == SEVERAL) {
            self.row("note", Ink::Warn, &runs.summary);
        }
        let Some(f) = cause else { return };
        let mut about = vec![f.severity.as_str().to_owned(), name(f), f.confidence.as_str().to_owned()];
        let assumed = if report.session.model.files.values().any(|f| f.chronicle.assumed) { " (zone or year assumed)" } else { "" };
        if f.count > 1 && f.rule != END_OF_A_RANK {
            about.push(format!("{} lines", f.count));
        }
        if f.evidence.iter().any(|e| e.at.is_some()) {
            about.push(format!("since {}{assumed}", zone.rfc3339(f.since)));
        } else if let Some((at, line)) = report.again.above {
            about.push(format!("after {}{assumed}, by line {line}", zone.rfc3339(at)));
        }
        self.row("what", Ink::Plain, &about.join(", "));
        if let Some(when) = run::when_words(report, f) {
            self.row("when", Ink::Plain, &when);
        }
        if let Some(before) = report.again.before.as_ref().filter(|before| report.again.around.iter().all(|e| e.line != before.line)) {
            self.row("before it", Ink::Plain, &format!("{}  {}", before.place(), before.text));
        }
        if is_consequence(f) {
            self.row("", Ink::Warn, "This follows from something that is not in these inputs: look at the other ranks' and hosts' logs.");
        }
        if let Some(who) = said_by(report, f) {
            self.row("said by", Ink::Plain, &who);
        }
        if !f.whole_why().is_empty() {
            self.row("why", Ink::Plain, &f.whole_why());
        }
        if let Some(beside) = &report.again.beside {
            self.row("also said", Ink::Plain, &format!("{}  {}", beside.place(), beside.text));
        }
        if let Some(calls) = run::calls(report, f) {
            self.row("calls", Ink::Plain, &calls);
        }
        if let Some(ended) = run::ended_words(report, f) {
            self.row("also ended", Ink::Plain, &ended);
        }
        self.proofs(&f.evidence);
        if let Some(next) = &f.next {
            self.row("next", Ink::Bold, next);
            // Of a log nobody knows whether its processes still run.
            if next.starts_with("py-spy dump ") {
                self.row("", Ink::Dim, "while it runs; afterwards Flight Recorder's dumps of all ranks show where each was");
            }
        }
    }

    fn proofs(&mut self, evidence: &[Evidence]) {
        for (i, e) in evidence.iter().take(MOST_PROOFS).enumerate() {
            let at = e.place();
            let text =
                if at.is_empty() { e.text.clone() } else { format!("{at}  {}", crate::base::clean::clip(e.text.trim(), LONGEST_PROOF)) };
            self.row(if i == 0 { "proof" } else { "" }, Ink::Dim, &text);
        }
        if evidence.len() > MOST_PROOFS {
            self.row("", Ink::Dim, &format!("and {} more, with --json", evidence.len() - MOST_PROOFS));
        }
    }

    fn list(&mut self, title: &str, findings: &[&Finding], with_next: bool) {
        if findings.is_empty() {
            return;
        }
        self.title(title);
        for f in findings.iter().take(MOST_LISTED) {
            let ink = match f.severity {
                Severity::Info => Ink::Dim,
                Severity::Warning => Ink::Warn,
                _ if with_next => Ink::Bad,
                _ => Ink::Plain,
            };
            // A launcher tells of one exit in several lines.
            let is_exit = f.rule == END_OF_A_RANK && f.signature.is_none();
            let times = if f.count > 1 && !is_exit { format!(" ({} lines)", f.count) } else { String::new() };
            let at = f.evidence.first().map(Evidence::place).filter(|at| !at.is_empty()).map_or(String::new(), |at| format!(", {at}"));
            // What a known text means is shorter than the text, and says more.
            let headline = || Some(catalog::by_id(f.signature?)?.1.tell(&f.evidence.first()?.text, None).headline.is_some());
            let what = match f.severity {
                // Where the catalogue has no words for this text alone, its meaning says more than the text.
                Severity::Info if f.signature.is_some() && headline() != Some(true) => {
                    f.why.split(". ").next().unwrap_or("").trim_end_matches('.')
                }
                _ => f.summary.as_str(),
            };
            // What a reader need not worry about says so.
            let (left, name) = match f.part {
                Some(Part::Harmless) if f.severity == Severity::Info => ("harmless", f.signature.unwrap_or(f.rule).to_owned()),
                _ => (f.severity.as_str(), name(f)),
            };
            self.row(left, ink, &format!("{name}: {what}{times}{at}"));
            if with_next && let Some(next) = &f.next {
                self.row("", Ink::Plain, &format!("next: {next}"));
            }
        }
        if findings.len() > MOST_LISTED {
            self.row("", Ink::Dim, &format!("and {} more, with --json", findings.len() - MOST_LISTED));
        }
    }

    /// The proof of the cause among the lines around it, by their numbers.
    fn around(&mut self, report: &Report) {
        let around = &report.again.around;
        let Some(proof) = report.root_cause.and_then(|cause| report.findings[cause].evidence.first()).filter(|_| !around.is_empty()) else {
            return;
        };
        self.title("The log there");
        let number = |e: &Evidence| e.line.map_or(String::new(), |line| line.to_string());
        let (above, below): (Vec<&Evidence>, Vec<&Evidence>) = around.iter().partition(|e| e.line < proof.line);
        above.into_iter().for_each(|e| self.row(&number(e), Ink::Dim, &e.text));
        self.row(&format!("{} >", number(proof)), Ink::Plain, &clean(&clip(proof.text.trim(), LONGEST_PROOF)));
        below.into_iter().for_each(|e| self.row(&number(e), Ink::Dim, &e.text));
    }

    fn checklist(&mut self, report: &Report) {
        // What went wrong stands above.
        let above = |i: &&Item| matches!(i.id, "no-warnings" | "no-errors") && i.state != Seen::Pass;
        let items = || report.checklist.iter().filter(|i| !above(i));
        if items().all(|i| i.state == Seen::NotSeen || matches!(i.id, "no-warnings" | "no-errors")) {
            return;
        }
        self.title("How NCCL came up");
        let missing: Vec<&str> = items().filter(|i| i.state == Seen::NotSeen).map(|i| i.label).collect();
        for item in items().filter(|i| i.state != Seen::NotSeen) {
            self.item(report, item);
        }
        if !missing.is_empty() {
            self.row("not seen", Ink::Dim, &missing.join(", "));
        }
    }

    fn item(&mut self, report: &Report, item: &Item) {
        let (mark, ink) = match item.state {
            Seen::Pass => ("pass", Ink::Plain),
            Seen::Warn => ("WARN", Ink::Warn),
            Seen::Fail => ("FAIL", Ink::Bad),
            Seen::NotSeen => ("", Ink::Dim),
        };
        let at = item.proof.as_ref().and_then(|p| {
            let path = &report.model().files.get(&p.file)?.info.path;
            Some(p.line.map_or(path.to_owned(), |line| format!("{path}:{line}")))
        });
        let at = at.map_or(String::new(), |at| format!("  ({at})"));
        self.row(mark, ink, &format!("{}: {}{at}", item.label, item.value));
        if let Some(advice) = &item.advice {
            self.row("", Ink::Plain, advice);
        }
    }

    fn facts(&mut self, report: &Report, zone: Zone) {
        let rows = run::rows(report, zone, if self.style.ascii { "x" } else { "×" });
        if !rows.is_empty() {
            self.title("The run");
            for (left, text) in rows {
                self.row(left, Ink::Plain, &text);
            }
        }
    }

    fn inputs(&mut self, report: &Report) {
        if report.inputs.len() == 1 && report.inputs[0].error.is_none() && report.inputs[0].note.is_none() {
            return;
        }
        self.title("Read");
        let (bad, good): (Vec<_>, Vec<_>) = report.inputs.iter().partition(|i| i.error.is_some());
        for input in good.iter().take(MOST_INPUTS) {
            let lines = input.lines.map_or(String::new(), |n| format!(", {} lines", crate::base::units::group(n)));
            let note = input.note.map_or(String::new(), |note| format!(": {note}"));
            self.row("", Ink::Dim, &format!("{} ({}{lines}){note}", input.path, input.kind.unwrap_or("")));
        }
        if good.len() > MOST_INPUTS {
            self.row("", Ink::Dim, &format!("and {} more", good.len() - MOST_INPUTS));
        }
        for input in bad {
            self.row("not read", Ink::Warn, &format!("{}: {}", input.path, input.error.as_deref().unwrap_or("")));
        }
    }
}

/// The same happened to another GPU, switch or process, and not because of the first.
fn is_alike(f: &Finding, other: &Finding) -> bool {
    let kind = |f: &Finding| (f.rule, f.signature, f.severity);
    f.signature.is_some() && kind(other) == kind(f) && other.subject != f.subject && other.role != Role::Cascade
}

/// Rank, host and GPU of the process that printed the first proof.
fn said_by(report: &Report, f: &Finding) -> Option<String> {
    let alarm = report.alarm_of(f)?;
    let origin = &alarm.event.origin;
    let mut said: Vec<String> = alarm.rank.map(|rank| format!("rank {rank}")).into_iter().collect();
    said.extend(origin.local_rank.filter(|_| alarm.rank.is_none()).map(|rank| format!("local rank {rank}")));
    let placed = || report.record().ranks.get(&alarm.rank?)?.host.as_ref();
    said.extend(origin.host.as_ref().or_else(placed).map(|host| format!("host {host}")));
    said.extend(origin.cuda_dev.map(|dev| format!("CUDA device {dev}")));
    said.extend(origin.pid.map(|pid| format!("pid {pid}")));
    // Who has no name is told by his GPU, where another one ran out of memory, too.
    let gpus: BTreeSet<u32> = report.record().alarms.iter().filter_map(full_gpu).collect();
    said.extend(full_gpu(alarm).filter(|_| said.is_empty() && gpus.len() > 1).map(|gpu| format!("GPU {gpu}, as its process counts them")));
    if said.is_empty() {
        return only_host(report).filter(|_| is_of_a_process(alarm));
    }
    Some(format!("{}{}", said.join(", "), said_by_others(report, alarm)))
}

/// What a process says of itself: a launcher and a kernel tell of others.
fn is_of_a_process(alarm: &Alarm) -> bool {
    match &alarm.event.what {
        What::Exception(_) | What::CudaError { .. } | What::NcclWarn { .. } => true,
        what => what.signature().is_some_and(|entry| entry.scope == Scope::Nccl),
    }
}

/// The host, where the inputs name one alone: `its line does not say; host node-a is the only one that these inputs name`.
fn only_host(report: &Report) -> Option<String> {
    let record = report.record();
    let host = Some(&record.hosts).filter(|hosts| hosts.len() == 1)?.first()?;
    (record.ranks.len() < 2).then(|| format!("its line does not say; host {host} is the only one that these inputs name"))
}

/// `; ranks 1 to 7, too`, `; all 8 ranks say it: it is not one of them`: others that printed the same.
fn said_by_others(report: &Report, first: &Alarm) -> String {
    let call = |a: &Alarm| match &a.event.what {
        What::CollectiveTimeout(t) => Some((t.seq, t.op.clone())),
        _ => None,
    };
    let is_same = |a: &&Alarm| match first.event.what.signature() {
        Some(entry) => a.event.what.signature() == Some(entry),
        None => {
            call(first).is_some() && call(a) == call(first) || exception_key(first).is_some() && exception_key(a) == exception_key(first)
        }
    };
    let others = || report.record().alarms.iter().filter(is_same);
    let numbers = |of: &dyn Fn(&Alarm) -> Option<u32>| -> Vec<u32> {
        let own = of(first);
        let all: BTreeSet<u32> = others().filter_map(of).filter(|n| Some(*n) != own).collect();
        if own.is_some() { all.into_iter().collect() } else { Vec::new() }
    };
    let ranks = numbers(&|a| a.rank);
    if !ranks.is_empty() {
        let record = report.record();
        let world = record.launch.ranks().or(record.members).max(record.ring_ranks);
        let all = ranks.len() as u32 + 1;
        // Who waited, or was only hit, is not the cause anyway; of several attempts each has ranks of its own.
        let entry = first.event.what.signature();
        let fails = !matches!(first.event.what, What::CollectiveTimeout(_)) && entry.is_none_or(|entry| entry.part == Part::Cause);
        let is_one_attempt = report.attempt().is_none_or(|attempt| attempt.no <= 1) && record.launch.restarts.is_none_or(|n| n == 0);
        return if world == Some(all) && fails && is_one_attempt {
            format!("; all {all} ranks say it: it is not one of them")
        } else {
            format!("; {}, too", rank_words(&ranks))
        };
    }
    if let Some(words) = same_place(report, first) {
        return words;
    }
    let gpus = numbers(&full_gpu);
    if !gpus.is_empty() {
        return format!("; {} ran out of memory, too", gpu_words(&gpus));
    }
    let origin = &first.event.origin;
    let devices = numbers(&|a| a.event.origin.cuda_dev.filter(|_| a.rank.is_none() && a.event.origin.host == origin.host));
    if !devices.is_empty() {
        return format!("; {} of it, too", cuda_words(&devices));
    }
    let pids = numbers(&|a| a.event.origin.pid);
    let words: Vec<String> = pids.iter().take(run::MOST_PIDS).map(u32::to_string).collect();
    match pids.len() {
        0 => String::new(),
        1 => format!("; pid {}, too", words[0]),
        n if n > run::MOST_PIDS => format!("; {n} other processes, too"),
        _ => format!("; pids {}, too", all_words(&words)),
    }
}

/// `; rank 0 at the same place, too: ValueError: b.weight doesn't have any device set.`: others that failed alike, of something else.
fn same_place(report: &Report, first: &Alarm) -> Option<String> {
    let (class, _, own) = exception_key(first)?;
    let (rank, own) = (first.rank?, own?);
    let place = |a: &Alarm| if let What::Exception(e) = &a.event.what { e.place.clone() } else { None };
    let alike = |a: &&Alarm| {
        let is_same = exception_key(a).is_some_and(|key| (key.0, key.2) == (class, Some(own))) && place(a) == place(first);
        // What the catalogue knows is told by itself.
        is_same && a.rank.is_some_and(|r| r != rank) && a.event.what.signature().is_none()
    };
    let others: BTreeMap<u32, &Alarm> = report.record().alarms.iter().filter(alike).filter_map(|a| Some((a.rank?, a))).collect();
    let ranks: Vec<u32> = others.keys().copied().collect();
    let words = format!("; {} at the same place, too", rank_words(&ranks));
    match others.values().next().map(|a| &a.event.what) {
        Some(What::Exception(e)) if others.len() == 1 => {
            Some(format!("{words}: {}", clean(&clip(e.message.lines().next().unwrap_or(""), 200))))
        }
        _ => (!others.is_empty()).then_some(words),
    }
}

/// What an exception is, whoever raised it: its class, its words without numbers, and the program's own function.
fn exception_key(alarm: &Alarm) -> Option<(&str, String, Option<&str>)> {
    let What::Exception(e) = &alarm.event.what else { return None };
    let words = e.message.lines().next().unwrap_or("").chars().filter(|c| !c.is_ascii_digit()).collect();
    let own = e.called_from.as_deref().or(e.place.as_deref());
    (!e.class.is_empty() && !e.victim).then_some((&e.class, words, own))
}

/// The GPU that ran out of memory, of a process without a rank.
fn full_gpu(alarm: &Alarm) -> Option<u32> {
    match &alarm.event.what {
        What::CudaOom { text, .. } if alarm.rank.is_none() => GpuMemory::of(text).gpu,
        _ => None,
    }
}

fn name(f: &Finding) -> String {
    f.signature.map_or(f.rule.to_owned(), |s| if s == f.rule { s.to_owned() } else { format!("{} ({s})", f.rule) })
}

fn is_consequence(f: &Finding) -> bool {
    matches!(f.role, Role::Cascade | Role::Teardown)
}

fn ascii(c: char) -> &'static str {
    match c {
        '…' => "...",
        '–' | '—' => "-",
        '×' => "x",
        '·' => ",",
        'µ' => "u",
        '→' => "->",
        '‘' | '’' => "'",
        '“' | '”' => "\"",
        _ => "?",
    }
}
