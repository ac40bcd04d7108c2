//! What the inputs tell of the run beside what is wrong: how it was started, how NCCL was used, how far training came, and where in it a
//! failure stands.

use super::facts;
use crate::archive::Report;
use crate::archive::at_end::SaidLast;
use crate::base::clean::clean;
use crate::base::time::{Stamp, Zone, span};
use crate::base::units::{counted, group};
use crate::base::words::rank_words;
use crate::logs::header::{detail_rows, last_rows};
use crate::logs::{Doing, Phase, SaidAt, Task, What, error_words, stage_words};
use crate::model::alarms::Alarm;
use crate::model::log::LogFile;
use crate::model::progress::Progress;
use crate::model::series::Series;
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A name for the left column, and the words beside it.
type Row = (&'static str, String);

/// `and went on: train.log:12  the cache is cold (3 lines); train.log:40  UserWarning: …; 2 more kinds`
fn warned_words(report: &Report) -> String {
    let (told, more) = &report.again.warned;
    let mut all: Vec<String> = Vec::new();
    for warned in told {
        let times = if warned.times > 1 { format!(" ({} lines)", group(u64::from(warned.times))) } else { String::new() };
        all.push(format!("{}  {}{times}", warned.said.place(), warned.said.text));
    }
    all.extend((*more > 0).then(|| format!("{} of warnings", counted(*more as u64, "more kind"))));
    if all.is_empty() { String::new() } else { format!("and went on: {}", all.join("; ")) }
}

/// The rows below "The run". `times` is the sign of multiplication.
pub fn rows(report: &Report, zone: Zone, times: &str) -> Vec<Row> {
    let facts = facts::json(report);
    let record = report.record();
    let mut rows: Vec<Row> = Vec::new();
    let mut add =
        |name: &'static str, words: Option<String>| rows.extend(words.filter(|words| !words.is_empty()).map(|words| (name, words)));
    add("job", Some(job_words(&facts, times)));
    add("hosts", host_words(report));
    add("launch", Some(record.launch.words().join(", ")));
    add("ranks", joined_words(report).or_else(|| named_words(report, &facts)));
    add("processes", process_words(report));
    add("software", software_words(&facts));
    // nccl-tests lists its own.
    let is_listed = |row: &str| row == "GPUs" && !record.tables.is_empty();
    detail_rows().filter(|row| !is_listed(row)).for_each(|row| add(row, detail_words(&facts, row)));
    add("fabric", facts::fabric_words(report));
    add("time", time_words(report, zone));
    let planned = || report.model().files.values().find_map(|f| f.progress.total_steps);
    add(
        "training",
        match report.training() {
            Some(progress) => Some(training_words(progress, report.root_cause.is_none() && ends_with_steps(report))),
            None => planned().map(|total| format!("{} steps planned, none seen", group(total))).or_else(|| no_step_words(report)),
        },
    );
    add("its line", report.again.last_step.as_ref().map(|said| format!("{}  {}", said.place(), said.text)));
    let last = |text: &Option<String>| text.as_ref().map(|text| format!("the last: {text}"));
    let first = record.evaluated_first.as_ref().filter(|first| Some(*first) != record.evaluated.as_ref());
    let at_first = first.map_or(String::new(), |first| format!("; the first: {first}"));
    add("resumed", record.resumed.clone());
    add("evaluation", last(&record.evaluated).map(|words| words + &at_first));
    add("result", record.result.clone());
    let as_said = |(text, n): &(String, u64)| {
        if text.contains("{}") { text.replace("{}", &counted(*n, "process")) } else { format!("the last: {text}") }
    };
    let of_many = |(text, n): &(String, u64)| format!("{} told of, the last: {text}", counted(*n, "request"));
    last_rows().for_each(|row| add(row, record.last.get(row).map(|said| if row == "requests" { of_many(said) } else { as_said(said) })));
    add("checkpoint", last(&record.saved));
    // What was measured in the end is told already.
    let is_result =
        |text: &str| record.result.as_ref().and_then(|r| r.split([':', '=', ' ']).next()).is_some_and(|name| text.contains(name));
    for out in report.again.came_out.iter().filter(|out| !is_result(&out.said.text)) {
        add(out.row, Some(format!("{}  {}", out.said.place(), out.said.text)));
    }
    add("server", server_words(report).map(str::to_owned));
    add("attempts", attempt_words(report));
    let is_told = |said: &Evidence| report.again.came_out.iter().any(|out| (&out.said.path, out.said.line) == (&said.path, said.line));
    for table in &report.again.tables {
        add("table", Some(format!("{}  {}", table.place(), table.text)));
    }
    add("warned", Some(warned_words(report)));
    for SaidLast { said, more_below } in report.again.at_end.iter().filter(|last| !is_result(&last.said.text) && !is_told(&last.said)) {
        let row = if *more_below { "near end" } else { "said last" };
        add(row, Some(format!("{}  {}", said.place(), said.text)));
    }
    let tables = facts["nccl_tests"].as_array().map_or(&[][..], Vec::as_slice);
    // What the test lists is the same for all of its tables.
    let mut devices: Vec<String> = record.tables.iter().map(|(_, table)| table.devices.words()).collect();
    devices.dedup();
    devices.into_iter().for_each(|words| add("devices", Some(words.replace('×', times))));
    tables.iter().for_each(|table| add("nccl-tests", Some(table_words(table))));
    rows
}

/// `8 ranks on 2 nodes, 24 channels, 48 × P2P/CUMEM`
fn job_words(facts: &Value, times: &str) -> String {
    let number = |key: &str| facts[key].as_u64();
    let mut job = Vec::new();
    if let Some(n) = number("nranks") {
        let nodes = number("nnodes").map_or(String::new(), |n| format!(" on {}", counted(n, "node")));
        job.push(format!("{}{nodes}", counted(n, "rank")));
    }
    job.extend(number("channels").map(|n| counted(n, "channel")));
    if let Some(map) = facts["transports"].as_object() {
        let mut list: Vec<(&String, u64)> = map.iter().map(|(k, v)| (k, v.as_u64().unwrap_or(0))).collect();
        list.sort_by_key(|(k, n)| (std::cmp::Reverse(*n), k.to_string()));
        job.extend(list.iter().take(4).map(|(k, n)| format!("{n} {times} {k}")));
        if list.len() > 4 {
            job.push(format!("{} more transports", list.len() - 4));
        }
    }
    job.join(", ")
}

/// Hosts that are listed.
const MOST_HOSTS: usize = 8;

/// `node-1: ranks 0 to 7; node-2: ranks 8 to 15`, of several hosts.
fn host_words(report: &Report) -> Option<String> {
    let record = report.record();
    let mut hosts: BTreeMap<&str, Vec<u32>> = record.hosts.iter().map(|host| (host.as_str(), Vec::new())).collect();
    // Which host a task is on is told by its number alone: that may be none of a rank.
    for (rank, seen) in record.ranks.iter().filter(|(_, seen)| !seen.by_task) {
        if let Some(ranks) = seen.host.as_deref().and_then(|host| hosts.get_mut(host)) {
            ranks.push(*rank);
        }
    }
    let of_host = |(host, ranks): (&&str, &Vec<u32>)| match ranks[..] {
        [] => (*host).to_owned(),
        [rank] => format!("{host}: rank {rank}"),
        _ => format!("{host}: ranks {}", ranges(ranks)),
    };
    let more = hosts.len().saturating_sub(MOST_HOSTS);
    let mut words: Vec<String> = hosts.iter().take(MOST_HOSTS).map(of_host).collect();
    if more > 0 {
        words.push(format!("{more} more"));
    }
    (!hosts.is_empty()).then(|| words.join("; "))
}

/// `8 to 15 of 16, in the lines that are known`: others may say more.
fn named_words(report: &Report, facts: &Value) -> Option<String> {
    let record = report.record();
    let by_lines = record.ranks.iter().filter(|(_, seen)| !seen.by_task).map(|(rank, _)| *rank);
    let by_files = report.model().files.values().filter_map(|file| file.rank);
    let named: BTreeSet<u32> = by_lines.chain(by_files).chain(record.alarms.iter().filter_map(|alarm| alarm.rank)).collect();
    let named: Vec<u32> = named.into_iter().collect();
    let world = facts["nranks"].as_u64().and_then(|n| usize::try_from(n).ok());
    let of = match world {
        // All of them say nothing new, and who has a number beyond it is of another group.
        Some(world) if named.len() >= world || named.last().is_some_and(|last| *last as usize >= world) => return None,
        Some(world) => format!(" of {world}"),
        None => String::new(),
    };
    let rank = if named.len() == 1 { "rank " } else { "" };
    (!named.is_empty()).then(|| format!("{rank}{}{of}, in the lines that are known", ranges(&named)))
}

/// Processes of ranks that are listed.
const MOST_PROCESSES: usize = 8;

/// `rank 0: pid 2668, GPU 0; rank 1: pid 2712, GPU 1`
fn process_words(report: &Report) -> Option<String> {
    // nccl-tests lists its own.
    let record = report.record();
    if !record.tables.is_empty() {
        return None;
    }
    let known = || record.ranks.iter().filter_map(|(rank, seen)| Some((rank, seen.pid?, seen.gpu)));
    let gpu = |gpu: Option<u32>| gpu.map_or(String::new(), |gpu| format!(", GPU {gpu}"));
    let mut words: Vec<String> = known().take(MOST_PROCESSES).map(|(rank, pid, on)| format!("rank {rank}: pid {pid}{}", gpu(on))).collect();
    let more = known().count().saturating_sub(MOST_PROCESSES);
    if more > 0 {
        words.push(format!("{more} more"));
    }
    (!words.is_empty()).then(|| words.join("; "))
}

/// Of ranks in ascending order: `0 to 7, 9 and 12`.
fn ranges(ranks: &[u32]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for rank in ranks {
        match runs.last_mut() {
            Some((_, to)) if *to + 1 == *rank => *to = *rank,
            _ => runs.push((*rank, *rank)),
        }
    }
    let words: Vec<String> = runs
        .iter()
        .flat_map(|(from, to)| match to - from {
            0 => vec![from.to_string()],
            1 => vec![from.to_string(), to.to_string()],
            _ => vec![format!("{from} to {to}")],
        })
        .collect();
    crate::base::words::all_words(&words)
}

/// Whatever is done before the first step takes no longer, but for a download.
const LONGEST_START: Duration = Duration::from_secs(3 * 3600);
/// So long before the first line that is known, and after the last one, others may tell of the run: what is further off may be quoted.
const MOST_AROUND: Duration = Duration::from_secs(600);
/// What is longer is no run: a year was assumed that is not that of the other lines.
const LONGEST_RUN: Duration = Duration::from_secs(300 * 24 * 3600);

/// `2026-05-04 22:17:26 to 22:18:26, 1 m 00 s`, by the times that lines carry; not where training had begun before the first of them.
/// The first and the last time that stand in the inputs.
fn lasted(report: &Report) -> Option<(Stamp, Stamp)> {
    let files = || report.model().files.values().filter(|file| file.chronicle.run_began.is_some());
    let marks = || files().map(|file| &file.chronicle.marks);
    let (from, to) = (marks().filter_map(|marks| marks.from).min()?, marks().filter_map(|marks| marks.to).max()?);
    // Lines of which nobody knows more than their time.
    let slack = to.since(from).max(MOST_AROUND);
    let (first, last) = report.again.span.unwrap_or((from, to));
    let from = if first < from && from.since(first) <= slack { first } else { from };
    Some((from, if last > to && last.since(to) <= slack { last } else { to }))
}

fn time_words(report: &Report, zone: Zone) -> Option<String> {
    let files = || report.model().files.values().filter(|file| file.chronicle.run_began.is_some());
    let (from, to) = lasted(report)?;
    let took = to.since(from);
    let date = |at: Stamp| zone.rfc3339(at).split('T').next().unwrap_or_default().to_owned();
    // Without a year the date is assumed.
    let is_dated = !files().any(|file| file.chronicle.assumed && file.chronicle.dated.is_none());
    let clock = |at: Stamp, day: bool| if day && is_dated { format!("{} {}", date(at), zone.hms(at)) } else { zone.hms(at) };
    (took.as_secs() > 0 && took < LONGEST_RUN)
        .then(|| format!("{} to {}, {}", clock(from, true), clock(to, date(from) != date(to)), span(took)))
}

/// `0.0252`, `217.199`, `2.02e-8`: six digits that count at most.
fn short(n: f64) -> String {
    let digits = format!("{n:.5e}").parse::<f64>().unwrap_or(n);
    let is_plain = n == 0.0 || !n.is_finite() || (1e-3..1e6).contains(&n.abs());
    if is_plain { format!("{digits}") } else { format!("{digits:e}") }
}

/// No log says something else after the newest step.
fn ends_with_steps(report: &Report) -> bool {
    let Some(step) = &report.again.last_step else { return true };
    // Of more logs nobody has read what each said last.
    if report.model().files.len() > crate::archive::at_end::MOST_LOGS {
        return false;
    }
    report.again.at_end.iter().all(|SaidLast { said, .. }| said.path != step.path || said.line <= step.line)
}

/// `ends`: nothing is wrong, so where its steps stop the log does.
fn training_words(progress: &Progress, ends: bool) -> String {
    /// A first step that compiles, or connects, takes so many times what the others do.
    const OF_START: f64 = 2.0;
    let mut said = vec![match (progress.step, progress.total_steps) {
        (Some(step), Some(total)) => format!("step {} of {}", group(step), group(total)),
        (Some(step), None) => format!("step {}", group(step)),
        _ if progress.is_empty() => String::new(),
        _ => progress.epoch.map_or("no step number".into(), |epoch| format!("epoch {epoch}")),
    }];
    let of_epoch = progress.epoch.filter(|_| progress.step.is_some()).map(|epoch| format!("epoch {}", (epoch * 100.0).round() / 100.0));
    said.extend(of_epoch);
    // Ranks that print a line each of one step tell of no course.
    let is_later = progress.step.is_none() || progress.step != progress.first_counted;
    let at_first = progress.first_loss.filter(|first| is_later && Some(*first) != progress.loss);
    let at_first = at_first.map(|first| format!("{first:.4} at first"));
    let beside = in_brackets(at_first.into_iter().chain(lowest_words(progress)));
    said.extend(progress.loss.map(|l| format!("loss {l:.4}{beside}")));
    let from = |first: Option<f64>, last| {
        in_brackets(first.filter(|first| short(*first) != short(last)).map(|first| format!("{} at first", short(first))).into_iter())
    };
    said.extend(progress.grad_norm.map(|norm| format!("gradient norm {}{}", short(norm), from(progress.first_grad_norm, norm))));
    said.extend(progress.learning_rate.map(|rate| format!("learning rate {}{}", short(rate), from(progress.first_learning_rate, rate))));
    let by_lines =
        || progress.written_pace_s().map(|s| format!("about {} a step, by the times of the lines", crate::base::units::seconds(s)));
    let first = progress.first_step_time_s.zip(progress.step_time_s).filter(|(first, last)| *first >= last * OF_START);
    let first = first.map(|(first, _)| format!("{} the first", crate::base::units::seconds(first)));
    let usual = progress.step_time_s.and_then(|last| usual(&progress.step_times, last));
    let usual = usual.map(|s| format!("{} as a rule", crate::base::units::seconds(s)));
    let beside = in_brackets(usual.into_iter().chain(first));
    said.extend(progress.step_time_s.map(|s| format!("{} a step{beside}", crate::base::units::seconds(s))).or_else(by_lines));
    said.extend(progress.throughput.map(|t| format!("{} {}", crate::base::units::scaled(t), progress.throughput_unit.unwrap_or(""))));
    said.extend(Some(progress.skipped_steps).filter(|n| *n > 0).map(|n| format!("{} skipped", counted(n, "step"))));
    let is_short = progress.step.zip(progress.total_steps).is_some_and(|(step, total)| step < total);
    said.extend((ends && is_short && progress.done_at.is_none()).then(|| "the log ends there".to_owned()));
    said.extend(progress.done_at.map(|_| "finished".to_owned()));
    if !progress.is_empty() {
        said.push(format!("({})", progress.dialect.as_str()));
    }
    said.retain(|words| !words.is_empty());
    said.join("  ")
}

/// ` (0.6650 at first, 0.3990 at step 200 the lowest)`; nothing where nothing is told.
fn in_brackets(words: impl Iterator<Item = String>) -> String {
    let words = words.collect::<Vec<_>>().join(", ");
    if words.is_empty() { words } else { format!(" ({words})") }
}

/// `0.3990 at step 200 the lowest`, of a loss that has risen since; no two batches have the same.
fn lowest_words(progress: &Progress) -> Option<String> {
    const RISEN: f64 = 1.1;
    let (step, lowest) = progress.lowest_loss.filter(|(step, _)| step.is_some() && *step != progress.first_counted)?;
    let has_risen = lowest > 0.0 && progress.loss? > lowest * RISEN;
    has_risen.then(|| format!("{lowest:.4} at step {} the lowest", group(step.unwrap_or_default())))
}

/// The median of the last values, where the newest is another one: the first step of an epoch waits for its data.
fn usual<const CAP: usize>(values: &Series<CAP>, last: f64) -> Option<f64> {
    const LEAST: usize = 8;
    const MOST: usize = 50;
    const OTHER: f64 = 1.3;
    let median = values.median_of_last(MOST).filter(|median| *median > 0.0 && values.len() >= LEAST)?;
    (last > median * OTHER || last * OTHER < median).then_some(median)
}

/// Of a job that ranks or a launcher tell of, and that is neither a test nor a server: how far it came is not known.
fn no_step_words(report: &Report) -> Option<String> {
    let record = report.record();
    let is_job = record.launch.ranks().is_some() || record.is_present || !report.model().comms.is_empty();
    let does_else = !record.tables.is_empty() || record.details.contains_key("engine") || report.model().files.values().any(serves);
    (is_job && !does_else && report.root_cause.is_none()).then(|| "no step in these inputs".to_owned())
}

fn server_words(report: &Report) -> Option<&'static str> {
    let files = || report.model().files.values();
    // That it answers says the row that has its throughput.
    let last = &report.record().last;
    let answers = last.contains_key("serving") || last.get("requests").is_some_and(|(text, _)| text.contains("\" 200"));
    match (files().any(serves), files().any(|file| file.progress.server_ended)) {
        (true, _) => (!answers).then_some("up; no request is told of"),
        (false, true) => Some("it was up, and was shut down"),
        (false, false) => None,
    }
}

fn serves(file: &LogFile) -> bool {
    file.progress.phase().is_some_and(|(phase, _)| phase == Phase::Serving)
}

fn attempt_words(report: &Report) -> Option<String> {
    let attempt = report.attempt().filter(|attempt| attempt.no > 1)?;
    let back = report.went_back().map_or(String::new(), |(from, to)| format!("; steps went back from {} to {}", group(from), group(to)));
    Some(format!("{}: the launcher started the ranks again{back}", attempt.no))
}

/// Where in the run the line stands that a finding rests on: `12 m 04 s after the log begins, after step 7,200 of 60,000 (epoch 2)`.
pub fn when_words(report: &Report, f: &Finding) -> Option<String> {
    let alarm = report.alarm_of(f)?;
    let position = &alarm.position;
    let after = |began: Stamp, at: Stamp| Some(at.since(began)).filter(|took| took.as_secs() > 0 && *took < LONGEST_RUN && at >= began);
    // The line above it may carry a time where its own does not.
    let above = report.again.above.map(|(at, _)| at).filter(|_| !alarm.is_timed);
    let at = alarm.at.into_iter().chain(report.again.before.as_ref().and_then(|before| before.at)).chain(above).max();
    // When a line without a time was written, those above it tell at the earliest.
    let least = if alarm.is_timed { "" } else { "at least " };
    let elapsed = position
        .began
        .zip(at)
        .and_then(|(began, at)| after(began, at))
        .map(|took| format!("{}{} after the run's first line", least, span(took)));
    let epoch = position.epoch.map(|epoch| format!("epoch {}", (epoch * 100.0).round() / 100.0));
    let step = match (position.step, position.total_steps) {
        (Some(step), Some(total)) => Some(format!("step {} of {}", group(step), group(total))),
        (Some(step), None) => Some(format!("step {}", group(step))),
        _ => None,
    };
    let progress = match (step, epoch) {
        (Some(step), Some(epoch)) => Some(format!("after {step} ({epoch})")),
        (step, epoch) => step.or(epoch).map(|said| format!("after {said}")),
    };
    let record = report.record();
    let begins = || report.model().files.get(&alarm.file).is_some_and(|file| file.chronicle.starts);
    let is_job = || record.launch.ranks().is_some() || record.is_present || !report.model().comms.is_empty() || begins();
    let has_stepped = position.has_trained || report.training().is_some();
    // Where the inputs begin in the middle, all that can be said is that they show none.
    let of_program = alarm.rank.is_some() || record.launch.launcher.is_some() || matches!(alarm.event.what, What::Exception(_));
    let at_start = report.model().files.get(&alarm.file).and_then(|file| file.progress.at_start);
    let doing = doing_of(report, alarm);
    // Who saves a checkpoint has trained, and its name tells how far.
    let saves = tracebacks(report, alarm).any(|said| matches!(said.doing.task, Some((Task::SavingCheckpoint, _))));
    let named = || report.again.before.as_ref().and_then(|before| step_named(&before.text)).filter(|_| saves);
    let is_long = lasted(report).is_some_and(|(from, to)| to.since(from) > LONGEST_START);
    let before = || match (has_stepped, is_job()) {
        _ if saves => named().map(|step| format!("at step {}, by the name of the checkpoint", group(step))),
        (true, _) => None,
        _ if at_start.is_some() => Some(format!("before any step (a bar stands at 0 of {})", group(at_start.unwrap_or(0)))),
        // Of what ran for long, the steps stand in another file.
        (false, true) if !is_long => Some("before any step".to_owned()),
        (false, true) => Some("no step in these inputs".to_owned()),
        (false, false) => of_program.then(|| "no step in these inputs".to_owned()),
    };
    let stage = doing.and_then(|doing| doing.stage.as_ref());
    // What comes once, before the first step, says that there was none.
    let of_start = || doing.filter(|doing| doing.starts && doing.task.is_none() && !has_stepped).map(|_| "before any step".to_owned());
    let training_loop = doing
        .filter(|doing| position.step.is_none() && doing.stage.as_ref().is_none_or(|(stage, _)| stage.is_of_a_step()))
        .and_then(|doing| doing.training_loop.as_ref());
    let looping = training_loop.map(|function| format!("in its training loop ({})", clean(function)));
    let words = elapsed
        .into_iter()
        .chain(progress.or_else(of_start).or_else(before))
        .chain(looping)
        .chain(stage.map(stage_words))
        .chain(report.again.call.clone());
    let words: Vec<String> = words.collect();
    (!words.is_empty()).then(|| words.join(", "))
}

/// `400` of `…/actor/global_step_400`, `checkpoint-400`, `iter_0000400`: of what is being written. `checkpoint-20.pth` is named by an epoch.
fn step_named(text: &str) -> Option<u64> {
    let lower = text.to_ascii_lowercase();
    if ["delet", "remov", "load", "resum", "restor", "older"].iter().any(|other| lower.contains(other)) {
        return None;
    }
    let number = |mark: &&str| {
        let tail = &text[text.rfind(*mark)? + mark.len()..];
        let digits = tail.bytes().take_while(u8::is_ascii_digit).count();
        let ends = !tail[digits..].starts_with(['.', '_']);
        tail[..digits].parse().ok().filter(|_| ends)
    };
    ["global_step_", "global_step", "checkpoint-", "step_", "step-", "iter_"].iter().find_map(number)
}

/// The way from the program's own functions to the one that raised.
pub fn calls(report: &Report, f: &Finding) -> Option<String> {
    let calls = |said: &SaidAt| Some(clean(&said.calls).to_string()).filter(|calls| !calls.is_empty());
    let of_python = tracebacks(report, report.alarm_of(f)?).find_map(calls);
    let is_cause = || report.root_cause.is_some_and(|cause| std::ptr::eq(&report.findings[cause], f));
    of_python.or_else(|| report.again.calls.as_deref().filter(|_| is_cause()).map(|calls| clean(calls).to_string()))
}

/// What the program was doing, by the traceback that it ended with.
fn doing_of<'a>(report: &'a Report, alarm: &'a Alarm) -> Option<&'a Doing> {
    tracebacks(report, alarm).map(|said| &said.doing).find(|doing| doing.stage.is_some() || doing.training_loop.is_some())
}

/// The traceback that an alarm rests on; where NCCL or a library spoke first, the next ones of the same rank.
fn tracebacks<'a>(report: &'a Report, alarm: &'a Alarm) -> impl Iterator<Item = &'a SaidAt> {
    /// Lines between the words of a library and the traceback that came of them; ranks of a node print theirs one after the other.
    const NEAR: u64 = 400;
    let is_near = move |a: &&'a Alarm| {
        let apart = a.line.zip(alarm.line).and_then(|(line, first)| line.checked_sub(first));
        (a.file, a.run) == (alarm.file, alarm.run) && apart.is_some_and(|lines| lines <= NEAR)
    };
    // NCCL's own lines name a process, PyTorch's a rank: where one rank alone speaks of NCCL, it is that one.
    let hands_on = |a: &&Alarm| matches!(&a.event.what, What::Exception(e) if error_words::nccl_words(&e.message).is_some());
    let mut of_nccl = report.record().alarms.iter().filter(is_near).filter(hands_on).map(|a| a.rank);
    let is_alone = matches!(alarm.event.what, What::NcclWarn { .. })
        && alarm.rank.is_none()
        && of_nccl.next().is_some_and(|first| first.is_some() && of_nccl.all(|rank| rank == first));
    let is_next = move |a: &&'a Alarm| {
        let (own, other) = (&alarm.event.origin, &a.event.origin);
        let is_same = alarm.rank.is_some() && a.rank == alarm.rank || own.pid.is_some() && own.pid == other.pid;
        is_near(a) && (is_same || is_alone && hands_on(a))
    };
    std::iter::once(alarm).chain(report.record().alarms.iter().filter(is_next)).filter_map(|a| a.event.said_at.as_ref())
}

/// Processes that are listed.
pub const MOST_PIDS: usize = 16;

/// `the launcher ended 5 other processes by SIGTERM (pids 24317, …): they are not to blame`. Who ended by itself when the signal came is none of
/// them; where ranks only waited for somebody, anybody may be the one, and where several failed alike, these may have, too.
pub fn ended_words(report: &Report, f: &Finding) -> Option<String> {
    let record = report.record();
    // DeepSpeed's launcher says it of those that have died, too.
    if record.launch.launcher == Some("DeepSpeed") {
        return None;
    }
    let tells_apart = crate::rules::ends_a_rank(f) && f.ranks.len() <= 1;
    let own: Vec<u32> = f.ranks.iter().filter_map(|rank| record.ranks.get(rank)?.pid).collect();
    let run = report.alarm_of(f).map(|alarm| (alarm.file, alarm.run));
    let of_run = |alarm: &&Alarm| run.is_none_or(|run| run == (alarm.file, alarm.run));
    let mut pids: BTreeSet<u32> = BTreeSet::new();
    let mut signals: BTreeSet<&str> = BTreeSet::new();
    // Where nothing says which process is the one to blame, it may be among them.
    let mut tells_others = !own.is_empty() && own.len() == f.ranks.len();
    for alarm in record.alarms.iter().filter(of_run) {
        if let What::Terminating { pid: Some(pid), signal } = &alarm.event.what {
            pids.extend(Some(*pid).filter(|pid| !own.contains(pid)));
            signals.insert(signal);
        }
    }
    for alarm in record.alarms.iter().filter(of_run) {
        let ended = match &alarm.event.what {
            What::WorkerFailed { pid, exit_code, .. } => Some((*pid, Some(*exit_code))),
            What::WorkerFailure(failure) => failure.pid.map(|pid| (pid, failure.exit_code)),
            _ => None,
        };
        if let Some((pid, _)) = ended.filter(|(_, code)| *code != Some(-SIGTERM)) {
            pids.remove(&pid);
            tells_others = true;
        }
    }
    // Nor where not all of those to blame are known by their number.
    tells_others &= f.ranks.len() <= 1 || own.len() == f.ranks.len();
    let listed: Vec<String> = pids.iter().take(MOST_PIDS).map(u32::to_string).collect();
    let more = if pids.len() > MOST_PIDS { ", …" } else { "" };
    let by = signals.into_iter().collect::<Vec<_>>().join(" and ");
    let are = if pids.len() == 1 { "it is" } else { "they are" };
    let word = if pids.len() == 1 { "pid" } else { "pids" };
    let ended = counted(pids.len(), if tells_others { "other process" } else { "process" });
    let blame = if tells_apart && tells_others { format!("{are} not to blame") } else { "which follows from it".to_owned() };
    (!pids.is_empty()).then(|| format!("the launcher ended {ended} by {by} ({word} {}{more}): {blame}", listed.join(", ")))
}

const SIGTERM: i32 = 15;

/// `0 and 1 of 4 have begun, 2 and 3 not in these inputs`
fn joined_words(report: &Report) -> Option<String> {
    let record = report.record();
    let members = record.members.filter(|n| *n as usize <= 2 * MOST_RANKS && *n as usize > record.joined.len())?;
    let seen: Vec<u32> = record.joined.keys().copied().collect();
    // Who has another line here has begun, too; and all have where steps are made.
    let is_first = report.attempt().is_none_or(|attempt| attempt.no <= 1) && record.joined_again.is_none();
    let trains = is_first && report.training().is_some_and(|progress| !progress.is_empty());
    let unseen: Vec<u32> = (0..members).filter(|rank| !record.joined.contains_key(rank) && !record.ranks.contains_key(rank)).collect();
    if unseen.is_empty() || trains {
        return None;
    }
    Some(format!("{} of {members} began; {} did not in these inputs", rank_words(&seen), rank_words(&unseen)))
}

/// Ranks of a start that are listed.
const MOST_RANKS: usize = 4096;

/// `tensor 2, pipeline 4, data 8`
fn detail_words(facts: &Value, row: &str) -> Option<String> {
    let told = facts["details"][row].as_array()?;
    Some(told.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", "))
}

/// `NCCL 2.21.5, CUDA 12.4, driver for CUDA 12.9, PyTorch 2.4.0, aws-ofi-nccl 1.14.2`
fn software_words(facts: &Value) -> Option<String> {
    let one = |key: &str, name: &str| facts[key].as_str().map(|version| format!("{name} {version}"));
    let own = [one("nccl_version", "NCCL"), one("cuda_version", "CUDA"), one("driver_cuda_version", "driver for CUDA")];
    let told = facts["software"].as_object().into_iter().flatten().filter_map(|(name, versions)| {
        let versions: Vec<&str> = versions.as_array()?.iter().filter_map(Value::as_str).collect();
        Some(format!("{name} {}", versions.join(" and ")))
    });
    // NCCL's own line says its version, and which CUDA it was built for.
    let (has_cuda, has_nccl) = (facts["cuda_version"].is_string(), facts["nccl_version"].is_string());
    let is_own = |words: &String| has_cuda && words.starts_with("CUDA ") || has_nccl && words.starts_with("NCCL ");
    let words: Vec<String> = own.into_iter().flatten().chain(told.filter(|words| !is_own(words))).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

fn table_words(t: &Value) -> String {
    let gbs = |key: &str| t[key].as_f64().map(|g| format!("{g:.1} GB/s"));
    let size = |key: &str| t[key].as_u64().map(crate::base::units::size_words);
    let span = size("from_bytes")
        .zip(size("to_bytes"))
        .filter(|(from, to)| from != to)
        .map_or(String::new(), |(from, to)| format!(" from {from} to {to}"));
    let rows = t["rows"].as_u64().filter(|n| *n > 0);
    let mut said = vec![t["collective"].as_str().unwrap_or("unnamed").to_owned()];
    said.push(rows.map_or("its rows are not here".into(), |n| format!("{n} size{}{span}", if n == 1 { "" } else { "s" })));
    said.extend(gbs("peak_busbw_gbytes_per_s").map(|g| format!("peak busbw {g}")));
    // Where the largest is not the fastest, it tells what large messages get.
    let largest = t["to_bytes"].as_u64().filter(|_| t["largest_busbw_gbytes_per_s"] != t["peak_busbw_gbytes_per_s"]);
    said.extend(
        largest.zip(gbs("largest_busbw_gbytes_per_s")).map(|(to, busbw)| format!("{busbw} at {}", crate::base::units::size_words(to))),
    );
    said.extend(gbs("avg_busbw_gbytes_per_s").map(|g| format!("average {g}")));
    said.extend(t["least_time_us"].as_f64().map(|us| format!("latency {us:.1} us")));
    // Only the head of its rows tells whether it checks its results.
    said.extend(rows.map(|_| t["wrong"].as_u64().map_or("results not checked".into(), |n| format!("{n} wrong"))));
    if t["complete"] == Value::Bool(false) {
        said.push("not complete".into());
    }
    said.join(", ")
}
