//! Judges a case: what every alarm is, what all inputs together show, and what of it is one and the same.

use super::alarms::Alarm;
use super::case::{Case, FileSeen};
use super::{roles, timeouts};
use crate::findings::{Confidence, Finding, Found, Ledger, Role, Severity};
use crate::model::TextSeen;
use crate::model::log::Progress;
use crate::reports::Judged;
use crate::reports::{inspector, nccl_tests};
use crate::rules::{self, Check, Implies, Rule};
use crate::text::signature::{self, Part, Scope};
use crate::text::{TextEvent, What, prefix};
use crate::time::Stamp;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::time::Duration;

/// Ranks that print one text within this time tell of one thing.
const AT_ONCE: Duration = Duration::from_secs(2);
/// A job that makes so many steps after a failure has survived it.
const SURVIVED_STEPS: u32 = 3;
const MAX_NAMED: usize = 64;
/// Judgements of one kind of input: nobody reads more.
pub const MOST_JUDGED: usize = 200;

impl Case {
    /// Judges it all: the findings, the cause first, and which of them it is.
    pub fn judge(&mut self) -> (Vec<Finding>, Option<usize>) {
        let mut ledger = Ledger::default();
        let runs: BTreeMap<u32, u32> = self.alarms.iter().map(|a| (a.file, a.run)).fold(BTreeMap::new(), |mut runs, (file, run)| {
            let last = runs.entry(file).or_insert(run);
            *last = run.max(*last);
            runs
        });
        let name = self.job().map(|j| j.id.clone()).unwrap_or_default();
        self.learn_pids();
        let start = self.files.values().map(|f| f.modified).min().unwrap_or_default();
        let mut last = None;
        for (no, (at, alarm)) in self.in_order().into_iter().enumerate() {
            // What has no time comes after what was said before it.
            let at = at.or(last).unwrap_or(start.plus(Duration::from_nanos(no as u64)));
            last = Some(at);
            let job = if alarm.run < runs[&alarm.file] { format!("{name} (earlier run)") } else { name.clone() };
            let seen = TextSeen {
                at,
                file: alarm.file,
                line: Some(alarm.line),
                text: &alarm.text,
                event: &alarm.event,
                rank: self.rank_of(alarm),
                job,
                backlog: true,
                times: alarm.count,
            };
            // What a reader has taken in its own words, the catalogue may know by its text.
            let named = in_the_catalogue(alarm);
            let seen = TextSeen { event: named.as_ref().unwrap_or(&alarm.event), ..seen };
            crate::session::judge_text(&self.model, &seen, &mut ledger, &mut Vec::new());
        }
        let mut out = self.judgements();
        out.extend(ledger.open().into_iter().cloned());
        out.extend(rules::facts(&self.model, &ledger, true).into_iter().map(|(rule, found)| {
            let severity = found.severity.unwrap_or(rule.severity);
            finding(rule, found.since, severity, found)
        }));
        out.extend(self.losses.open().into_iter().cloned());
        out.append(&mut self.replayed);
        self.complete(&mut out, &name);
        roles::tidy(&mut out);
        roles::assign(out)
    }

    /// torchrun's table tells which global rank a process was; its line of the failure has only the local one.
    fn learn_pids(&mut self) {
        let of_table = |a: &Alarm| if let What::WorkerFailure(f) = &a.event.what { f.rank.zip(f.pid) } else { None };
        let pids: Vec<(u32, u32)> = self.alarms.iter().filter_map(of_table).collect();
        if let Some(job) = self.model.jobs.values_mut().next() {
            for (rank, pid) in pids {
                job.ranks.entry(rank).or_insert(pid);
            }
        }
    }

    /// What no line says alone: all watchdogs, all dumps, all answers of RAS together, and what tables show.
    fn judgements(&mut self) -> Vec<Finding> {
        let mut hangs = super::flight::judge(self);
        hangs.extend(timeouts::judge(self).into_iter().take(MOST_JUDGED));
        let mut out: Vec<Finding> = Vec::new();
        for (rule, at, found) in hangs {
            add(&mut out, finding(rule, at, rule.severity, found));
        }
        out.extend(super::runs::judge(self).map(|(rule, at, found)| finding(rule, at, rule.severity, found)));
        let mut judged = super::ras::judge(self);
        judged.truncate(MOST_JUDGED);
        judged.extend(self.tables.iter().flat_map(|(path, table)| nccl_tests::judge(table, path)));
        judged.extend(inspector::judge(&self.inspectors).into_iter().take(MOST_JUDGED));
        judged.extend(self.model.files.values().filter_map(|f| skipped_steps(&f.progress)).take(MOST_JUDGED));
        for j in judged {
            let Some(rule) = rules::rule(j.rule) else { continue };
            let at = j.since.unwrap_or_default();
            let mut found = Found::new(j.summary.clone(), j.summary, at);
            (found.role, found.confidence, found.why, found.next) = (j.role, j.confidence, j.why, j.next);
            (found.ranks, found.gpus, found.hosts, found.evidence) = (j.ranks, j.gpus, j.hosts, j.evidence);
            add(&mut out, finding(rule, at, j.severity, found));
        }
        out
    }

    /// Fills in what all inputs together know: GPUs and processes of ranks, whole counts.
    fn complete(&self, findings: &mut [Finding], job: &str) {
        let path = |file: u32| self.model.files.get(&file).map_or("", |f| f.info.path.as_str());
        let survived = |f: &FileSeen| f.steps_since >= SURVIVED_STEPS && (f.ended_well || f.goes_on());
        let survived: HashMap<&str, &FileSeen> = self.files.iter().filter(|(_, f)| survived(f)).map(|(file, f)| (path(*file), f)).collect();
        let timed: HashSet<(&str, u64)> = self.alarms.iter().filter(|a| a.is_timed).map(|a| (path(a.file), a.line)).collect();
        let note = timeouts::note(self);
        let refused = findings.iter().any(|f| f.found.signature == Some("sock-connect-retry"));
        for finding in findings {
            let found = &mut finding.found;
            if refused && matches!(found.signature, Some("nccl-internal-error" | "nccl-system-error")) {
                found.why = format!("before it, connections to another rank were refused again and again. {}", found.why);
            }
            let place = found.evidence.first().and_then(|e| e.path.as_deref());
            // A job makes its steps over a slow network, too: that it does is no excuse.
            let excused = finding.rule != "loss-not-finite"
                && !rules::rule(finding.rule).is_some_and(|r| matches!(r.check, Check::Facts(_)) && r.implies == Implies::Nothing);
            let went_on = place.and_then(|p| survived.get(p)).filter(|_| finding.severity >= Severity::Error && excused);
            if let Some(file) = went_on {
                finding.severity = Severity::Warning;
                let how = if file.ended_well {
                    "came to its end".into()
                } else {
                    format!("made {}{} more steps", if file.went_far() { "at least " } else { "" }, file.steps_since)
                };
                found.why = format!("the job went on after it, and {how}; {}", found.why);
            }
            // An order was needed to judge by; a time is told only where a line has one.
            for e in &mut found.evidence {
                let is_timed = e.path.as_deref().zip(e.line).is_none_or(|at| timed.contains(&at));
                e.at = e.at.filter(|_| is_timed);
            }
            if finding.rule == "collective-timeout"
                && found.role != Role::Context
                && let Some(note) = &note
            {
                found.why = format!("{}; {note}", found.why);
            }
            if let Some(signature) = found.signature {
                self.whom(signature, finding.severity, found);
            }
            if found.gpus.is_empty() {
                found.gpus = found.ranks.iter().filter_map(|r| self.ranks.get(r)?.gpu).collect();
                found.gpus.dedup();
            }
            if found.hosts.is_empty() {
                found.hosts = self.hosts_of(found);
            }
            if found.job.as_deref().is_some_and(|j| j != job) {
                found.role = Role::Context;
                found.why = format!("in an earlier run of the same file; {}", found.why);
            }
            found.job = None;
        }
    }

    /// Where the ranks of a finding run; else the host that wrote its first line.
    fn hosts_of(&self, found: &Found) -> Vec<String> {
        let of_ranks: BTreeSet<String> = found.ranks.iter().filter_map(|r| self.ranks.get(r)?.host.clone()).collect();
        if !of_ranks.is_empty() || !found.ranks.is_empty() {
            return of_ranks.into_iter().take(MAX_NAMED).collect();
        }
        let proof = found.evidence.first();
        let Some((path, line)) = proof.and_then(|e| Some((e.path.as_deref()?, e.line?))) else { return Vec::new() };
        let is_it = |a: &&Alarm| a.line == line && self.path_of(a.file) == path;
        self.alarms.iter().find(is_it).and_then(|a| a.event.origin.host.clone()).into_iter().collect()
    }

    /// One text stands for all ranks that printed it at that time, or that it names.
    fn whom(&self, signature: &str, severity: Severity, found: &mut Found) {
        let Some((_, known)) = signature::by_id(signature).filter(|(_, s)| s.scope == Scope::Nccl && s.part == Part::Cause) else { return };
        if severity < Severity::Error {
            return;
        }
        let soon = |a: &Alarm| a.at.is_none_or(|at| at.since(found.since) <= AT_ONCE);
        let mut ranks: BTreeSet<u32> = found.ranks.iter().copied().collect();
        for alarm in self.alarms.iter().filter(|a| soon(a)) {
            let What::NcclWarn { site, text } = &alarm.event.what else { continue };
            if ranks.len() < MAX_NAMED && signature::find_warn(site.as_deref(), text) == Some(known) {
                ranks.extend(known.tell(text, None).ranks.unwrap_or_else(|| alarm.rank.into_iter().collect()));
            }
        }
        found.ranks = ranks.into_iter().collect();
    }
}

/// Most steps were left out because gradients overflowed: a few at the start are how fp16 finds its scale.
fn skipped_steps(progress: &Progress) -> Option<Judged> {
    let step = progress.step.filter(|step| *step >= 100)?;
    let skipped = progress.skipped_steps.min(step);
    (skipped * 2 > step).then_some(())?;
    let count = crate::verdict::group;
    let summary = format!("{} of {} steps were skipped because gradients overflowed", count(skipped), count(step));
    let mut found = Judged::new("grad-overflow", Severity::Warning, Confidence::Certain, summary);
    found.why = "the run goes on, but it learns nothing from a step that is skipped".into();
    found.next = Some("train in bf16, or lower the learning rate; look at the data where it began".into());
    Some(found)
}

/// Watchdogs and launchers that end a job say why in texts that no rule of its own reads: they are told as texts of the catalogue.
fn in_the_catalogue(alarm: &Alarm) -> Option<TextEvent> {
    let raw = prefix::peel(&alarm.text).rest;
    let who = alarm.rank.map_or(String::new(), |rank| format!("rank {rank}: "));
    let (found, text) = match &alarm.event.what {
        What::TakingDown { text } => (signature::find(Scope::Line, text), format!("{who}{text}")),
        What::LauncherSignalled { signal } => {
            let how = rules::exit_words(-signal).replace("killed by ", "");
            (signature::find(Scope::Line, raw), format!("the launcher received {how} and shut its workers down"))
        }
        What::CollectiveStatus { seq: Some(seq), enqueued, completed, .. } => {
            let number = |n: &Option<u64>| n.map_or("none".into(), |n| n.to_string());
            let queue = format!("last enqueued {}, last completed {}", number(enqueued), number(completed));
            (signature::find(Scope::Line, raw), format!("{who}the watchdog found that collective {seq} failed or timed out; {queue}"))
        }
        _ => return None,
    };
    let what = What::Signed { signature: found?, text, tried: false };
    Some(TextEvent { what, ..alarm.event.clone() })
}

fn finding(rule: &'static Rule, at: Stamp, severity: Severity, found: Found) -> Finding {
    Finding { rule: rule.id, severity, found, opened_at: at, last_at: at, cleared_at: None, count: 1 }
}

/// Adds what one kind of input shows. Where another has shown the same, it is one finding with the proofs of both.
fn add(all: &mut Vec<Finding>, new: Finding) {
    let blames = |f: &Finding| !f.found.ranks.is_empty();
    if !is_of_hangs(&new) {
        all.push(new);
        return;
    }
    if let Some(known) = all.iter_mut().find(|k| k.rule == new.rule && k.found.ranks == new.found.ranks && is_hang(k)) {
        if new.severity == Severity::Info {
            return;
        }
        known.found.confidence = known.found.confidence.max(new.found.confidence);
        known.severity = known.severity.max(new.severity);
        known.found.evidence.extend(new.found.evidence);
        if new.found.since.0 > 0 && (known.found.since.0 <= 0 || new.found.since < known.found.since) {
            known.found.since = new.found.since;
        }
        return;
    }
    // Who sees less says that nobody is to blame, or takes a wrong call for an absence.
    let better = |k: &Finding| is_hang(k) && (blames(k) || !blames(&new)) && k.found.confidence >= new.found.confidence;
    if is_hang(&new) && all.iter().any(better) {
        return;
    }
    all.push(new);
}

fn is_of_hangs(f: &Finding) -> bool {
    matches!(f.rule, "hang-rank-absent" | "hang-symmetric" | "collective-mismatch")
}

fn is_hang(f: &Finding) -> bool {
    is_of_hangs(f) && f.severity > Severity::Info
}
