//! A process, most often a rank: what the kernel says of it, where it stands in its communicators, its stack if one was asked for, its lines.

use super::page::{Facts, MOST};
use super::{Kind, Page, Subject};
use crate::model::comm::Comm;
use crate::model::job::Job;
use crate::model::process::Process;
use crate::tui::choices::Opened;
use crate::tui::log_view;
use crate::tui::panes::{Ctx, nccl, processes};

pub const KIND: Kind = Kind { id: "process", write };

/// Lines of its log that are shown.
const LINES: usize = 20;

fn write(ctx: &Ctx, key: &str, page: &mut Page) -> Option<String> {
    let model = &ctx.session.model;
    let process = model.processes.get(&key.parse().ok()?)?;
    let pid = process.info.pid;
    let job = model.jobs.values().find(|job| job.launcher == Some(pid) || job.pids().any(|p| p == pid));
    let rank = job.and_then(|job| job.rank_of(pid));
    let cells: Facts = processes::cells(ctx, pid).into_iter().filter(|(head, _)| *head != "command").collect();
    page.facts(&cells);
    for (label, text) in processes::facts(process, job) {
        page.fact(label, &text, ctx.theme.text);
    }
    if let Some(gpu) = model.gpu_of_pid(pid) {
        page.link(&format!("GPU {gpu}"), ctx.theme.text, Opened::Detail(Subject::new("gpu", gpu)));
    }
    if let Some(job) = job {
        communicators(ctx, job, process, rank, page);
    }
    stack(ctx, pid, page);
    if let (Some(job), Some(rank)) = (job, rank) {
        page.findings(|f| f.job.as_deref() == Some(&*job.id) && f.ranks.contains(&rank));
        log(ctx, job, rank, page);
    }
    let whose = job.map_or(String::new(), |job| format!(" of job {}", job.id));
    let what = match rank {
        Some(rank) => format!("rank {rank}{whose}  "),
        None if job.is_some_and(|job| job.launcher == Some(pid)) => format!("launcher{whose}  "),
        None => String::new(),
    };
    Some(format!("{what}pid {pid}"))
}

fn communicators(ctx: &Ctx, job: &Job, process: &Process, rank: Option<u32>, page: &mut Page) {
    let is_it = |pid: Option<u32>| pid.is_some() && (pid == Some(process.info.pid) || pid == process.info.ns_pid);
    // By its pid, else, where the communicator is that of all ranks, by its rank.
    let place = |comm: &Comm| {
        let by_pid = comm.ranks.iter().find(|(_, r)| is_it(r.pid)).map(|(rank, _)| *rank);
        let missing = || comm.missing.iter().find(|(_, r)| is_it(r.pid)).map(|(rank, _)| *rank);
        by_pid.or_else(missing).or(rank.filter(|_| Some(comm.nranks) == job.world_size))
    };
    let known: Vec<(&Comm, u32)> = ctx.session.model.comms_of(job).filter_map(|comm| Some((comm, place(comm)?))).take(MOST).collect();
    if known.is_empty() {
        return;
    }
    page.head("Communicators");
    for (comm, rank) in known {
        let words = format!("comm {}  rank {rank} of {}  {}", nccl::short(comm), comm.nranks, position(comm, rank));
        page.link(&words, ctx.theme.text, Opened::Detail(Subject::new("comm", format!("{:016x}", comm.hash))));
    }
}

/// `AllReduce 229 of 241, 12 behind`
pub(super) fn position(comm: &Comm, rank: u32) -> String {
    if let Some(missing) = comm.missing.get(&rank) {
        return if missing.considered_dead { "dead" } else { "does not answer" }.to_owned();
    }
    let counts = comm.ranks.get(&rank).map(|r| &r.counts).filter(|counts| !counts.is_empty());
    let Some(counts) = counts else { return "its counts are not known".to_owned() };
    let most = |name: &String| comm.ranks.values().filter_map(|r| r.counts.get(name)).max().copied().unwrap_or(0);
    let one = |(name, have): (&String, &u64)| {
        let most = Some(most(name)).filter(|most| *most > 0)?;
        let behind = if most > *have { format!(", {} behind", most - have) } else { String::new() };
        Some(format!("{name} {have} of {most}{behind}"))
    };
    counts.iter().filter_map(one).collect::<Vec<_>>().join("  ")
}

fn stack(ctx: &Ctx, pid: u32, page: &mut Page) {
    page.head("Stack");
    match ctx.ui.stacks.get(&pid) {
        Some(stack) => {
            page.note(&format!("{} at {}", stack.command, ctx.ui.zone.hms(stack.at)));
            for line in &stack.lines {
                page.fact("", line, ctx.theme.text);
            }
        }
        None => page.note("not asked for; x asks py-spy for it"),
    }
}

/// The newest lines of the rank. How NCCL came up is told elsewhere, and stands there where the rank has said nothing else.
fn log(ctx: &Ctx, job: &Job, rank: u32, page: &mut Page) {
    let model = &ctx.session.model;
    let of_job = |file: u32| model.files.get(&file).is_some_and(|f| f.job == job.id);
    let newest = || model.logbook.numbered().rev().filter(|(_, line)| line.rank == Some(rank) && of_job(line.file));
    let mut lines: Vec<_> = newest().filter(|(_, line)| log_view::says_more(line)).take(LINES).collect();
    if lines.is_empty() {
        lines = newest().take(LINES).collect();
    }
    if lines.is_empty() {
        return;
    }
    lines.reverse();
    page.head("Its last lines");
    for (no, line) in lines {
        let words = format!("{} {}", line.came(ctx.ui.zone), line.text);
        page.link(&words, ctx.theme.text, Opened::LogLine(no));
    }
}
