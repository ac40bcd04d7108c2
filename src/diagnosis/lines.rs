//! Judges what logs report: line by line as it comes, and the log of a job as a whole.

use super::causality::{chain, is_victim};
use super::driver_chain::is_timed;
use super::odd_one;
use super::witnesses::Witnesses;
use crate::base::exit_code::exit_words;
use crate::base::severity::{Role, Severity};
use crate::base::time::Stamp;
use crate::base::units::counted;
use crate::base::words::rank_words;
use crate::logs::catalog::{self, Part, Scope, Signature};
use crate::logs::{TextEvent, What, error_words, prefix};
use crate::model::alarms::Alarm;
use crate::model::chronicle::Chronicle;
use crate::model::comm::{Comm, MissingRank};
use crate::model::gpu::PciAddress;
use crate::model::job::Job;
use crate::model::{Model, TextSeen};
use crate::observe::evidence::Witness;
use crate::rules::chain::Place;
use crate::rules::findings::{Finding, Ledger, Life};
use crate::rules::{self, Implies, RULES, TextContext};
use regex::Regex;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;
use std::time::Duration;

/// Ranks that print one text within this time report one thing.
const AT_ONCE: Duration = Duration::from_secs(2);
const MAX_NAMED: usize = 64;
/// Why findings of a run that is over are cleared.
pub const NEW_RUN: &str = "a new run began";

/// Runs the rules on text on one event.
pub fn judge_line(model: &Model, seen: &TextSeen, ledger: &mut Ledger) {
    if seen.event.what == What::RunStart && model.files.get(&seen.file).is_none_or(|file| file.chronicle.is_new_run) {
        let once = |f: &Finding| rules::rule(f.rule).is_some_and(|r| r.life.linger.is_none());
        ledger.clear_where(seen.at, NEW_RUN, |f| f.job.as_deref() == Some(&seen.job) && once(f));
        ledger.forget_left_out(|job| job == seen.job);
    }
    let named = in_the_catalogue(seen);
    let seen = &TextSeen { event: named.as_ref().unwrap_or(seen.event), job: seen.job.clone(), ..*seen };
    if let Some((signature, text)) = (TextContext { model, seen, ledger }).signature()
        && let Some(rule) = rules::rule_of_text(signature, model, &seen.job)
    {
        let found = (TextContext { model, seen, ledger }).signed(rule, signature, &text);
        // A text reports it once and for all; only what is looked at again and again has to hold for a while.
        let life = Life { hold: Duration::ZERO, ..rule.life };
        ledger.saw(seen.at, found, life, seen.times);
    }
    let mut found = Vec::new();
    let mut over = None;
    for rule in RULES {
        let Some(check) = rule.on_text else { continue };
        let ctx = TextContext { model, seen, ledger };
        over = over.or_else(|| Some(rule.takes_back?(&ctx)?.no));
        check(&ctx, &mut found);
        for f in found.drain(..) {
            ledger.saw(seen.at, f, rule.life, seen.times);
        }
    }
    if let Some(no) = over {
        ledger.clear_where(seen.at, "the log shows that it is over", |f| f.no == no);
    }
}

const SIGINT: i32 = 2;

/// Watchdogs and launchers that end a job say why in texts that no rule of its own reads: they are texts of the catalogue.
fn in_the_catalogue(seen: &TextSeen) -> Option<TextEvent> {
    let raw = || prefix::peel(seen.text).rest;
    let who = || seen.rank.map_or(String::new(), |rank| format!("rank {rank}: "));
    let (found, text) = match &seen.event.what {
        What::TakingDown { text } => (catalog::find(Scope::Line, text), format!("{}{text}", who())),
        What::LauncherSignalled { signal } => {
            let how = exit_words(-signal).replace("killed by ", "");
            (catalog::find(Scope::Line, raw()), format!("the launcher received {how} and shut its workers down"))
        }
        What::CollectiveStatus { seq: Some(seq), enqueued, completed, .. } => {
            let number = |n: &Option<u64>| n.map_or("none".into(), |n| n.to_string());
            let queue = format!("last enqueued {}, last completed {}", number(enqueued), number(completed));
            let words = format!("{}the watchdog found that collective {seq} failed or timed out; {queue}", who());
            (catalog::find(Scope::Line, raw()), words)
        }
        _ => return None,
    };
    // Who types ^C knows why the job ends.
    let tried = matches!(seen.event.what, What::LauncherSignalled { signal: SIGINT });
    let what = What::Signed { signature: found?, text, tried };
    Some(TextEvent { what, ..seen.event.clone() })
}

/// What the log of a job reports in the run that it is of now, in the order in which it was written.
pub fn judge_whole(model: &Model, job: &Job) -> Ledger {
    let mut ledger = Ledger::default();
    judge_alarms(model, job, &mut ledger, false);
    ledger
}

/// What an archived log reports; earlier runs of a file are jobs of their own.
pub fn judge_archive(model: &Model, job: &Job, ledger: &mut Ledger) {
    judge_alarms(model, job, ledger, true);
}

/// The job that an earlier run of one of its files is.
pub fn earlier_run(job: &str) -> String {
    format!("{job} (earlier run)")
}

fn judge_alarms(model: &Model, job: &Job, ledger: &mut Ledger, earlier_too: bool) {
    let start = model.files_of(&job.id).map(|f| f.modified(job.first_seen)).min().unwrap_or_default();
    let mut last = None;
    for (no, (at, alarm)) in in_order(model, job).into_iter().enumerate() {
        // What has no time comes after what was reported before it.
        let at = at.or(last).unwrap_or(if job.archived { start.plus(Duration::from_nanos(no as u64)) } else { alarm.seen_at });
        last = Some(at);
        let is_earlier = model.files.get(&alarm.file).is_some_and(|f| !f.is_present(alarm.run));
        if is_earlier && !earlier_too {
            continue;
        }
        let seen = TextSeen {
            at,
            since: at,
            file: alarm.file,
            line: alarm.line,
            text: &alarm.text,
            event: &alarm.event,
            rank: model.rank_of_alarm(&job.id, alarm),
            job: if is_earlier { earlier_run(&job.id) } else { job.id.clone() },
            backlog: true,
            times: alarm.count,
        };
        judge_line(model, &seen, ledger);
    }
    for f in ledger.of_job(Some(&job.id)) {
        if f.witness == Witness::Text {
            whom(model, job, f);
            of_driver(model, job, f);
            place(model, f);
        }
    }
}

/// Alarms in the order of time, as far as it is known, with the time. A line without one stands where its file has it.
fn in_order<'a>(model: &'a Model, job: &Job) -> Vec<(Option<Stamp>, &'a Alarm)> {
    let began = |file: u32| model.files.get(&file).and_then(|f| f.chronicle.began);
    let alarms = model.record_of(&job.id).alarms.iter();
    let mut all: Vec<_> = alarms.map(|a| (a.at.or_else(|| began(a.file)), a)).collect();
    all.sort_by_key(|(_, a)| (a.file, a.line));
    never_back(&mut all);
    // A file without any times comes last: nothing says that it was first.
    all.sort_by_key(|(at, _)| at.unwrap_or(Stamp(i64::MAX)));
    all
}

/// Of two lines of one rank in a file the first came first, although their times may say otherwise by less than a second: PyTorch's C++
/// logger reads seconds and their fraction from two clocks, and was seen to print `22.038` right below `22.958` (2.11).
fn never_back(in_files: &mut [(Option<Stamp>, &Alarm)]) {
    const LOGGERS_ERROR: Duration = Duration::from_secs(1);
    let mut newest: BTreeMap<(u32, Option<u32>), Stamp> = BTreeMap::new();
    for (at, alarm) in in_files.iter_mut() {
        let Some(own) = *at else { continue };
        let last = newest.entry((alarm.file, alarm.rank)).or_insert(own);
        *last = if *last > own && last.since(own) < LOGGERS_ERROR { *last } else { own };
        *at = Some(*last);
    }
}

/// One text stands for all ranks that printed it at that time, or that it names.
fn whom(model: &Model, job: &Job, found: &mut Finding) {
    let Some(known) = found.entry.filter(|s| s.scope == Scope::Nccl && s.part == Part::Cause) else { return };
    if found.severity < Severity::Error {
        return;
    }
    let soon = |a: &Alarm| a.at.is_none_or(|at| at.since(found.since) <= AT_ONCE);
    let mut ranks: BTreeSet<u32> = found.ranks.iter().copied().collect();
    for alarm in model.record_of(&job.id).alarms.iter().filter(|a| soon(a)) {
        let What::NcclWarn { site, text } = &alarm.event.what else { continue };
        if ranks.len() < MAX_NAMED && catalog::find_warn(site.as_deref(), text) == Some(known) {
            ranks.extend(known.tell(text, None).ranks.unwrap_or_else(|| alarm.rank.into_iter().collect()));
        }
    }
    found.ranks = ranks.into_iter().collect();
}

/// The driver names a card and often a process. Where logs show whose they are, it is that rank's; of a card that is no rank's it is only
/// worth knowing.
fn of_driver(model: &Model, job: &Job, found: &mut Finding) {
    let (Some(card), Some(entry), Some(proof)) = (found.card, found.entry, found.evidence.first()) else { return };
    let record = model.record_of(&job.id);
    let hosts = hosts_of(model, &job.id, found);
    let short = |host: &str| host.split('.').next().unwrap_or_default().to_owned();
    let here = |host: &Option<String>| host.as_ref().is_none_or(|host| hosts.is_empty() || hosts.iter().any(|h| short(h) == short(host)));
    let pid = entry.captures(&proof.text).iter().find(|(name, _)| *name == "pid").and_then(|(_, digits)| digits.parse().ok());
    let wrote = |a: &&Alarm| pid.is_some() && a.event.origin.pid == pid && here(&a.event.origin.host);
    let by_line = || record.alarms.iter().find(wrote).and_then(|a| model.rank_of_alarm(&job.id, a));
    let by_pid = pid.and_then(|pid| record.rank_of_pid(pid, None)).or_else(by_line);
    let seats: Vec<(u32, PciAddress)> =
        record.ranks.iter().filter(|(_, seen)| here(&seen.host)).filter_map(|(rank, seen)| Some((*rank, seen.card?))).collect();
    let at_card: Vec<u32> = seats.iter().filter(|(_, at)| *at == card).map(|(rank, _)| *rank).collect();
    // Lines without a time may be of any day.
    let by_card = || if let [rank] = at_card[..] { Some(rank).filter(|_| proof.at.is_some()) } else { None };
    if let Some(rank) = by_pid.or_else(by_card) {
        found.ranks = vec![rank];
        found.summary = format!("{}: {}", rank_words(&found.ranks), found.summary);
        return;
    }
    let all_known = record.world_size() == Some(record.ranks.len() as u32) && record.ranks.values().all(|seen| seen.card.is_some());
    if all_known && !seats.is_empty() && at_card.is_empty() {
        (found.role, found.own_role) = (Role::Context, Role::Context);
        found.own_severity = found.own_severity.min(Severity::Warning);
        found.severity = found.own_severity;
        found.why = format!("it is none of the GPUs of this job · {}", found.why);
    }
}

/// Fills in the GPUs and hosts of a finding that rests on logs or reports, as far as these name them.
pub fn place(model: &Model, found: &mut Finding) {
    let Some(job) = found.job.clone() else { return };
    let record = model.record_of(&job);
    if found.gpus.is_empty() {
        found.gpus = found.ranks.iter().filter_map(|r| record.ranks.get(r)?.gpu).collect();
        found.gpus.dedup();
    }
    if found.hosts.is_empty() {
        found.hosts = hosts_of(model, &job, found);
    }
}

/// Where the ranks of a finding run; else the host that wrote its first line.
fn hosts_of(model: &Model, job: &str, found: &Finding) -> Vec<String> {
    let record = model.record_of(job);
    let of_ranks: BTreeSet<String> = found.ranks.iter().filter_map(|r| record.ranks.get(r)?.host.clone()).collect();
    if !of_ranks.is_empty() || !found.ranks.is_empty() {
        return of_ranks.into_iter().take(MAX_NAMED).collect();
    }
    let proof = found.evidence.first();
    let Some((path, line)) = proof.and_then(|e| Some((e.path.as_deref()?, e.line?))) else { return Vec::new() };
    let is_it = |a: &&Alarm| a.line == Some(line) && model.path_of(a.file) == path;
    record.alarms.iter().find(is_it).and_then(|a| a.event.origin.host.clone()).into_iter().collect()
}

/// Of several processes of one name that say the same, none is named: `6 processes of RayWorkerWrapper: CUDA out of memory`.
fn name_workers(model: &Model, job: &str, f: &mut Finding) {
    const MOST_NAMES: usize = 8;
    let Some(proof) = f.evidence.first().filter(|_| f.ranks.is_empty()) else { return };
    let alarms = &model.record_of(job).alarms;
    let Some(first) = alarms.iter().find(|a| a.line == proof.line && Some(model.path_of(a.file)) == proof.path.as_deref()) else { return };
    let Some(worker) =
        first.event.origin.worker.as_deref().filter(|_| f.summary.starts_with(&*rules::who_wrote(None, &first.event.origin)))
    else {
        return;
    };
    let is_same = |a: &&Alarm| match (&first.event.what, &a.event.what) {
        (What::Exception(one), What::Exception(other)) => (&one.class, &one.message) == (&other.class, &other.message),
        (one, other) => one.signature().is_some() && one.signature() == other.signature(),
    };
    let same = || alarms.iter().filter(is_same);
    let pids: BTreeSet<u32> = same().filter_map(|a| a.event.origin.pid).collect();
    let names: BTreeSet<&str> = same().filter_map(|a| a.event.origin.worker.as_deref()).collect();
    if pids.len() > 1 {
        // vLLM numbers them in their names: `Worker_TP3`.
        let whose = match names.len() {
            0 | 1 => format!("{} of {worker}", counted(pids.len(), "process")),
            2..=MOST_NAMES => crate::base::words::all_words(&names.into_iter().map(str::to_owned).collect::<Vec<_>>()),
            n => format!("{n} processes ({worker}, …)"),
        };
        f.summary = format!("{whose}: {}", error_words::without_who(&f.summary));
    }
}

/// Lines of one card, as far as they name it, of one host, in one file and of one moment.
fn is_of_the_same(hint: &Finding, f: &Finding) -> bool {
    const AT_ONCE: Duration = Duration::from_secs(60);
    // Functions of one card are numbered behind the dot: `0000:0d:00.1`.
    static CARD: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\b[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\b").expect("pattern"));
    let card = |f: &Finding| f.evidence.first().and_then(|e| CARD.find(&e.text)).map(|found| found.as_str().to_owned());
    let path = |f: &Finding| f.evidence.first().and_then(|e| e.path.clone());
    let apart = hint.since.since(f.since).max(f.since.since(hint.since));
    let is_same_card = card(hint).zip(card(f)).is_none_or(|(own, other)| own == other);
    is_same_card && hint.hosts == f.hosts && path(hint) == path(f) && apart <= AT_ONCE
}

/// Both are events of the one object that `kubectl describe` was asked for, and the second came later: the table does not name it in its lines.
fn stands_below_in_events(hint: &Finding, f: &Finding) -> bool {
    let event = |f: &Finding, kind: &str| {
        let proof = f.evidence.first().filter(|proof| proof.text.trim_start().starts_with(kind))?;
        Some((proof.path.clone(), proof.line?))
    };
    let (good, bad) = (event(hint, "Normal "), event(f, "Warning "));
    hint.part == Some(Part::Harmless) && good.zip(bad).is_some_and(|((path, line), (of, before))| path == of && line > before)
}

/// What other lines tell of a finding is not said more often.
const MOST_HINTS: usize = 4;

/// Adds to the findings of one job what all of its logs and findings together show: what it survived, and what is open.
pub fn complete(model: &Model, job: &str, question: Option<&str>, findings: &mut [&mut Finding]) {
    let log_only = model.jobs.get(job).is_some_and(|j| j.log_only);
    let hints: Vec<(&'static Signature, Finding)> =
        findings.iter().filter_map(|f| Some((f.entry.filter(|entry| !entry.hints.is_empty())?, (**f).clone()))).collect();
    // What says that something is all right again, as often as it was not.
    let is_recovery = |f: &&mut Finding| f.part == Some(Part::Harmless) && f.entry.is_some_and(|entry| !entry.hints.is_empty());
    let recovered: Vec<(String, u64, &'static Signature)> =
        findings.iter().filter(|f| is_recovery(f)).filter_map(|f| Some((thing_of(f)?, f.count, f.entry?))).collect();
    own_hints(findings);
    let damages = |f: &&&mut Finding| rules::may_damage_data(f) && f.own_role != Role::Context && is_timed(f);
    let faults: Vec<Finding> = findings.iter().filter(damages).map(|f| (**f).clone()).collect();
    let others: Vec<Option<Others>> = if log_only { findings.iter().map(|f| of_others(f, findings)).collect() } else { Vec::new() };
    let fell_back = findings.iter().any(|f| f.rule == "fallback-to-sockets" && f.signature.is_none());
    let witnesses = model.jobs.get(job).filter(|j| j.log_only).map(|j| Witnesses::of(model, j, findings));
    for (at, f) in findings.iter_mut().enumerate() {
        f.severity = f.own_severity;
        if log_only {
            name_workers(model, job, f);
        }
        odd_one::tell(model, job, f);
        let mut notes: Vec<String> = others.get(at).cloned().flatten().map(|others| others.tell(f)).into_iter().collect();
        witnesses.iter().for_each(|witnesses| witnesses.tell(f, &mut notes));
        if let Some(reason) = last_error(model, job, f) {
            // Whom it lost, and which check failed, stands in NCCL's own words alone.
            let words = crate::base::clean::clip(without_address(&reason), 120);
            match f.signature {
                Some("nccl-remote-error" | "nccl-internal-error") if f.summary.contains(&*words) => {}
                Some("nccl-remote-error" | "nccl-internal-error") => f.summary.push_str(&format!(": {words}")),
                _ => notes.push(format!("NCCL's last error was {}", crate::base::clean::clip(&reason, 200))),
            }
        }
        notes.extend(missed_by_ras(model, job, f));
        notes.extend(setting_behind(model, job, f));
        if let Some(fault) = faults.iter().find(|fault| chain(f).is_of_numbers && is_timed(f) && came_together(fault, f)) {
            notes.push(format!("may be damaged data: {}", fault.summary));
            f.next = Some("stop the run, test that GPU (`dcgmi diag -r 3`), and go back to a checkpoint before it".into());
            let proof = fault.evidence.first().filter(|proof| f.evidence.iter().all(|e| e.text != proof.text));
            f.evidence.extend(proof.cloned());
        }
        let of_it = |(entry, hint): &&(&Signature, Finding)| {
            f.signature.is_some_and(|s| entry.hints.contains(&s)) && (!entry.hint.is_empty() || is_of_the_same(hint, f))
        };
        let of_it: Vec<_> = hints.iter().filter(of_it).take(MOST_HINTS).collect();
        for (entry, hint) in of_it {
            if stands_below_in_events(hint, f) {
                f.severity = Severity::Info;
                let told = format!("; it was so for a while: {}", hint.summary);
                // A finding is told again each time that its log is judged.
                if !f.summary.ends_with(&told) {
                    f.summary.push_str(&told);
                }
                continue;
            }
            notes.push(if entry.hint.is_empty() { hint.summary.clone() } else { entry.hint.to_owned() });
        }
        if recovered.iter().any(|(subject, count, entry)| {
            f.signature.is_some_and(|s| entry.hints.contains(&s)) && Some(subject) == thing_of(f).as_ref() && *count >= f.count
        }) {
            f.severity = f.severity.min(Severity::Warning);
        }
        if let Some(how) = chronicle_of(model, job, f).filter(|_| log_only).and_then(Chronicle::survival)
            && f.severity >= Severity::Error
            && can_be_survived(f)
        {
            f.severity = Severity::Warning;
            notes.push(format!("the job went on after it, and {how}"));
        }
        if log_only && f.severity >= Severity::Error && f.rule == rules::END_OF_A_RANK && was_done(model, job, f) {
            f.severity = Severity::Warning;
            notes.push("the training had come to its end: it crashed on its way out".into());
        }
        if f.own_role == Role::Root && f.signature.is_some_and(|s| s.starts_with("ofi-")) && fell_back {
            f.severity = f.severity.min(Severity::Warning);
            notes.push("NCCL went on over TCP sockets".into());
        }
        if chain(f).place == Place::Messenger && f.role != Role::Context {
            notes.extend(question.map(str::to_owned));
        }
        f.note = (!notes.is_empty()).then(|| notes.join("; "));
    }
}

/// What else the same text is reported of, for the first finding of several: the other GPU, server or host.
fn of_others(f: &Finding, findings: &[&mut Finding]) -> Option<Others> {
    let own = thing_of(f).filter(|_| f.own_severity >= Severity::Error && f.own_role == Role::Root)?;
    let tail = |f: &Finding, thing: &str| f.summary.strip_prefix(&format!("process {} ", thing.trim())).map(str::to_owned);
    let own_tail = tail(f, &own);
    // Of processes that ended in other ways something else is reported.
    let is_alike = |o: &Finding| own_tail.is_none() || thing_of(o).and_then(|thing| tail(o, &thing)) == own_tail;
    let same = |o: &&&mut Finding| o.signature == f.signature && o.own_severity >= Severity::Error && o.no != f.no && is_alike(o);
    if findings.iter().filter(same).any(|o| o.no < f.no) {
        return None;
    }
    let mut things: Vec<String> = findings.iter().filter(same).filter_map(|o| thing_of(o)).map(|thing| thing.trim().to_owned()).collect();
    things.retain(|thing| *thing != own.trim());
    (!things.is_empty()).then(|| Others { own: own.trim().to_owned(), things })
}

/// Other things that a text is reported of: `190319 of edu02`.
#[derive(Clone)]
struct Others {
    own: String,
    things: Vec<String>,
}

impl Others {
    /// The note; processes of one host that ended alike are counted in the headline.
    fn tell(mut self, f: &mut Finding) -> String {
        const MOST: usize = 8;
        let host = |thing: &str| thing.split_once(" of ").map(|(_, host)| host.to_owned());
        let all_of = host(&self.own).filter(|own| self.things.iter().all(|thing| host(thing).as_ref() == Some(own)));
        let tail = f.summary.strip_prefix(&format!("process {} ", self.own)).map(str::to_owned);
        if let Some((host, tail)) = all_of.zip(tail) {
            // More are not kept.
            const MOST_KEPT: usize = 100;
            let least = if self.things.len() >= MOST_KEPT { "at least " } else { "" };
            f.summary = format!("{least}{} of {host} {tail}", counted(self.things.len() + 1, "process"));
        }
        let more = if self.things.len() > MOST { ", …" } else { "" };
        self.things.truncate(MOST);
        format!("the same is reported of {}{more}", self.things.join(", "))
    }
}

/// `ncclNetPluginShim_test()` of `@     0x79139d98e78c  ncclNetPluginShim_test()`, the frame of a handler's stack.
fn without_address(reason: &str) -> &str {
    let frame = reason.strip_prefix('@').map(str::trim_start).filter(|tail| tail.starts_with("0x"));
    frame.and_then(|tail| Some(tail.split_once(' ')?.1.trim_start())).unwrap_or(reason)
}

/// The reason that NCCL gives in the lines behind an error of it, where the finding does not have it.
fn last_error(model: &Model, job: &str, f: &Finding) -> Option<String> {
    // The text that it rests on is PyTorch's word for the kind of an error.
    f.entry.filter(|entry| entry.next.contains("\"Last error\""))?;
    let of = |a: &Alarm| match &a.event.what {
        What::Exception(e) => error_words::last_error(&e.message).map(str::to_owned),
        _ => None,
    };
    let reason = model.record_of(job).alarms.iter().find_map(of)?;
    let is_told = f.summary.contains(&reason) || f.evidence.iter().any(|e| e.text.contains(&reason));
    (!is_told).then_some(reason)
}

/// `NCCL_SOCKET_IFNAME=eth0`, where what a text means depends on that setting, and the log tells it.
fn setting_behind(model: &Model, job: &str, f: &Finding) -> Option<String> {
    let means = f.entry.filter(|_| f.role == Role::Root && f.severity >= Severity::Error)?.means;
    let mut words = means.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|word| word.starts_with("NCCL_"));
    let named = words.next()?;
    let bringup = model.bringup_of(job);
    let (value, _) = bringup.env_value(named)?;
    let note = format!("{named}={}", crate::base::clean::clean(value));
    (!f.summary.contains(&note)).then_some(note)
}

/// Whom RAS misses, for one that only says that some other rank is gone.
fn missed_by_ras(model: &Model, job: &str, f: &Finding) -> Option<String> {
    const MOST: usize = 4;
    let job = model.jobs.get(job).filter(|_| is_victim(f) && f.ranks.is_empty() && f.severity >= Severity::Error)?;
    let whole = |comm: &&Comm| job.world_size == Some(comm.nranks) && !comm.missing.is_empty();
    let missing = &model.comms_of(job).find(whole)?.missing;
    let place = |m: &MissingRank| m.host.as_ref().map_or(String::new(), |host| format!(" on {}", crate::base::clean::clean(host)));
    let named: Vec<String> = missing.iter().take(MOST).map(|(rank, m)| format!("rank {rank}{}", place(m))).collect();
    let more = if missing.len() > MOST { ", …" } else { "" };
    Some(format!("RAS misses {}{more}", named.join(", ")))
}

/// What a finding is about, without the entry that it stands under, where that may be about several things.
fn thing_of(f: &Finding) -> Option<String> {
    let thing = f.subject.strip_prefix(f.signature?)?;
    (!thing.is_empty()).then(|| thing.to_owned())
}

/// Whose line a text without a rank is, where it throws light on lines that have one: a kernel's assertion is of the ranks whose CUDA call
/// fails of it.
fn own_hints(findings: &mut [&mut Finding]) {
    let of = |hints: &[&str]| -> Vec<u32> {
        let hinted = findings.iter().filter(|f| f.signature.is_some_and(|s| hints.contains(&s)));
        hinted.flat_map(|f| &f.ranks).copied().collect::<BTreeSet<u32>>().into_iter().take(MAX_NAMED).collect()
    };
    let hints_of = |f: &Finding| f.entry.map(|entry| entry.hints).filter(|hints| f.ranks.is_empty() && !hints.is_empty());
    let ranks: Vec<Option<Vec<u32>>> = findings.iter().map(|f| hints_of(f).map(of)).collect();
    for (f, ranks) in findings.iter_mut().zip(ranks) {
        let Some(ranks) = ranks.filter(|ranks| !ranks.is_empty()) else { continue };
        f.summary = format!("{}: {}", rank_words(&ranks), f.summary);
        f.ranks = ranks;
    }
}

/// A fault of memory and numbers that went wrong at that time: before them, or reported a moment after.
fn came_together(fault: &Finding, numbers: &Finding) -> bool {
    const SHORTLY: Duration = Duration::from_secs(600);
    const LATE: Duration = Duration::from_secs(60);
    numbers.since.since(fault.last_at.max(fault.since)) <= SHORTLY && fault.since.since(numbers.since) <= LATE
}

/// A job makes its steps over a slow network, too: that it does is no excuse. Nor is it one for a loss that is no number.
fn can_be_survived(f: &Finding) -> bool {
    let changes_nothing = rules::rule(f.rule).is_some_and(|r| r.implies == Implies::Nothing);
    !(changes_nothing && matches!(f.witness, Witness::Bringup | Witness::Progress))
}

/// The training was at its end before the line stands that a finding rests on.
fn was_done(model: &Model, job: &str, f: &Finding) -> bool {
    // DeepSpeed's launcher says of each process that it has ended well.
    let of_all = model.record_of(job).launch.launcher != Some("DeepSpeed");
    of_all && model.alarms_at(job, f.evidence.first()).any(|alarm| alarm.position.was_done)
}

/// The story of the file in which its first proof stands.
fn chronicle_of<'a>(model: &'a Model, job: &str, f: &Finding) -> Option<&'a Chronicle> {
    let path = f.evidence.first()?.path.as_deref()?;
    model.files_of(job).find(|log| log.info.path == path).map(|log| &log.chronicle)
}
