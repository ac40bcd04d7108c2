//! The texts of an evidence bundle: verdict and findings, and the processes. For somebody who was not there.

use crate::base::mask::shown;
use crate::base::time::{Zone, span};
use crate::diagnosis::countdown::Countdown;
use crate::diagnosis::session::Session;
use crate::model::process::Process;
use crate::observe::SourceState;
use crate::observe::process::{LogVia, ProcessRole};
use crate::rules::findings::Finding;
use crate::sources::SOURCES;
use std::fmt::Write;

/// Past findings beyond these are counted.
const MOST_PAST: usize = 100;

/// Verdict, each finding with evidence and next steps, what sources lacked.
pub fn findings(session: &Session, zone: Zone) -> String {
    let model = &session.model;
    let mut out = String::new();
    let mut say = |text: &str| {
        out.push_str(&shown(text));
        out.push('\n');
    };
    say(&format!("nccl-top {} on {}, {}", env!("CARGO_PKG_VERSION"), model.host, zone.rfc3339(model.now)));
    if let Some(started) = model.started {
        say(&format!("observed since {} ({})", zone.rfc3339(started), span(model.now.since(started))));
    }
    say("");
    if session.verdicts.is_empty() {
        say(&format!("no job on this node{}", model.left_over_words()));
    }
    for (id, verdict) in &session.verdicts {
        let phase = verdict.phase.map_or(String::new(), |p| format!(" ({p})"));
        say(&format!("job {id} is {}{phase} since {}: {}", verdict.state.as_str(), zone.rfc3339(verdict.since), verdict.summary));
    }
    let open = session.ledger.open();
    say(&format!("\nOpen findings: {}", open.len()));
    for finding in open {
        one(&mut say, session, finding, zone);
    }
    let past: Vec<&Finding> = session.ledger.past().collect();
    if !past.is_empty() {
        say(&format!("\nPast findings: {}", past.len()));
        for finding in past.iter().take(MOST_PAST) {
            let until = finding.cleared_at.map_or(String::new(), |at| format!(" to {}", zone.rfc3339(at)));
            say(&format!("  {} {} {}{until}: {}", finding.severity.as_str(), finding.rule, zone.rfc3339(finding.since), finding.summary));
        }
    }
    say("\nSources");
    for spec in SOURCES {
        let view = model.sources.iter().find(|(id, _)| id.as_str() == spec.id).map(|(_, v)| v);
        let state = view.map_or("no report", |v| v.state.as_str());
        let detail = view.and_then(|v| v.detail.as_deref()).map_or(String::new(), |d| format!(": {d}"));
        let lacking = if view.is_some_and(|v| v.state == SourceState::Ok) { "" } else { "not seen: " };
        say(&format!("  {lacking}{} ({}), {state}{detail}", spec.title, spec.id));
    }
    out
}

fn one(say: &mut impl FnMut(&str), session: &Session, finding: &Finding, zone: Zone) {
    let f = finding;
    let words = |words: [&str; 4]| words.join(", ");
    say("");
    say(&format!("* {}", f.summary));
    say(&format!("  what      {}", words([finding.rule, finding.severity.as_str(), f.role.as_str(), f.confidence.as_str()])));
    let numbers = |name: &str, numbers: &[u32]| {
        let numbers: Vec<String> = numbers.iter().map(u32::to_string).collect();
        (!numbers.is_empty()).then(|| format!("{name} {}", numbers.join(", ")))
    };
    let who: Vec<String> = [
        f.job.as_ref().map(|job| format!("job {job}")),
        numbers("ranks", &f.ranks),
        numbers("GPUs", &f.gpus),
        (!f.ports.is_empty()).then(|| format!("ports {}", f.ports.join(", "))),
    ]
    .into_iter()
    .flatten()
    .collect();
    if !who.is_empty() {
        say(&format!("  who       {}", who.join("; ")));
    }
    let times = if finding.count > 1 { format!(", {} times", finding.count) } else { String::new() };
    say(&format!("  since     {}, found {}{times}", zone.rfc3339(f.since), zone.rfc3339(finding.opened_at)));
    if !f.whole_why().is_empty() {
        say(&format!("  why       {}", f.whole_why()));
    }
    if let Some(countdown) = Countdown::of(&session.model, f) {
        say(&format!("  timeout   {}", countdown.words(session.model.now)));
    }
    for e in &f.evidence {
        say(&format!("  evidence  {}", e.placed()));
    }
    for step in crate::diagnosis::remedies::of(&session.model, finding) {
        let note = if step.note.is_empty() { String::new() } else { format!("   # {}", step.note) };
        say(&format!("  next      {}{note}", step.what));
    }
}

/// Ranks and launchers: numbers, state, command line, allow-listed environment.
pub fn processes(session: &Session) -> String {
    let model = &session.model;
    let mut out = String::new();
    let mut known = std::collections::BTreeSet::new();
    for job in model.jobs.values() {
        let _ = writeln!(out, "job {}", shown(&job.id));
        let launcher = job.launcher.into_iter().map(|pid| (None, pid));
        let ranks = job.ranks.iter().map(|(rank, pid)| (Some(*rank), *pid));
        for (rank, pid) in launcher.chain(ranks).chain(job.unranked.iter().map(|pid| (None, *pid))) {
            if let Some(process) = model.processes.get(&pid).filter(|_| known.insert(pid)) {
                put(&mut out, session, rank, process);
            }
        }
        out.push('\n');
    }
    if out.is_empty() {
        out.push_str("no process of a job is known\n");
    }
    out
}

fn role(role: ProcessRole) -> &'static str {
    match role {
        ProcessRole::Rank => "rank",
        ProcessRole::Launcher => "launcher",
        ProcessRole::GpuUser => "GPU user",
        ProcessRole::Trainer => "trainer",
    }
}

fn put(out: &mut String, session: &Session, rank: Option<u32>, process: &Process) {
    let info = &process.info;
    let mut say = |text: String| {
        out.push_str("  ");
        out.push_str(&shown(&text));
        out.push('\n');
    };
    let who = rank.map_or_else(|| role(info.role).to_owned(), |rank| format!("rank {rank}"));
    let gpu = session.model.gpu_of_pid(info.pid).map_or(String::new(), |gpu| format!(", GPU {gpu}"));
    let state = match (process.gone, process.sample.state) {
        (Some(gone), _) => match gone.exit_code {
            Some(code) => format!("gone ({})", crate::base::exit_code::exit_words(code)),
            None => "gone".into(),
        },
        (None, Some(state)) => format!("state {state} for {}", span(session.model.now.since(process.state_since))),
        (None, None) => "state unknown".into(),
    };
    say(format!("{who}, pid {}, parent {}{gpu}, {state}", info.pid, info.ppid));
    say(format!("  command  {}", info.cmdline.join(" ")));
    if let Some(cwd) = &info.cwd {
        say(format!("  in       {cwd}"));
    }
    for log in &info.logs {
        let via = match log.via {
            LogVia::Stdout => "stdout",
            LogVia::Stderr => "stderr",
            LogVia::NcclDebugFile => "NCCL log",
            LogVia::TorchrunLogDir | LogVia::Other => "log",
        };
        say(format!("  {via:<8} {}", log.path));
    }
    for (name, value) in info.env.iter().flatten() {
        say(format!("  env      {name}={value}"));
    }
    for what in &info.hidden {
        say(format!("  hidden   {what}"));
    }
}
