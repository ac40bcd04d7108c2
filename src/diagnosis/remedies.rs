//! What to do next about a finding: all commands for its culprits, from one place. The first is the finding's own; the screen copies it,
//! and events, snapshots and the evidence bundle tell all of them. Nothing here runs anything.

use crate::base::words::py_spy;
use crate::base::words::shell_word;
use crate::model::Model;
use crate::model::ending::Ending;
use crate::model::job::Job;
use crate::model::process::Process;
use crate::rules::findings::Finding;
use crate::rules::{Stacks, job_cancelled, rule};

/// One thing to do: a command, or words where there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    pub what: String,
    /// What it tells, or costs. May be empty.
    pub note: &'static str,
}

/// How the note of a step begins that disturbs the job.
pub const LAST_RESORT: &str = "last resort";

/// So many culprits get commands of their own.
const MOST_RANKS: usize = 4;

/// Everything worth doing, in this order.
pub fn of(model: &Model, finding: &Finding) -> Vec<Step> {
    let mut steps = Vec::new();
    let mut say = |what: String, note| {
        if !steps.iter().any(|s: &Step| s.what == what) {
            steps.push(Step { what, note });
        }
    };
    if let Some(next) = first(model, finding) {
        say(next, "");
    }
    let processes = culprits(model, finding);
    for process in &processes {
        for (what, note) in of_process(process) {
            say(what, note);
        }
    }
    if let Some(job) = finding.job.as_ref().and_then(|id| model.jobs.get(id)).filter(|_| stacks(finding) != Stacks::OfNobody)
        && let Some(trigger) = trigger(model, job)
    {
        say(trigger, "all ranks on this node write their Flight Recorder dumps; the job goes on");
    }
    for process in processes.iter().take(1).filter(|p| !p.is_stopped()) {
        let pid = process.info.pid;
        say(format!("gdb -p {pid} --batch -ex 'thread apply all bt'"), "last resort: stops the process while it looks");
        if rule(finding.rule).is_some_and(|rule| rule.chain.is_hang) {
            say(format!("cuda-gdb -p {pid} --batch -ex 'info cuda kernels'"), "last resort: stops process and GPU while it looks");
        }
    }
    steps
}

/// The finding's own next step, as long as there is still a process to take it on.
pub fn first(model: &Model, finding: &Finding) -> Option<String> {
    let next = finding.next.as_ref()?;
    let job = finding.job.as_ref().and_then(|id| model.jobs.get(id));
    let gone = |pid: &u32| model.processes.get(pid).is_some_and(|p| !p.is_alive());
    match job.is_some_and(|job| job.pids().any(|pid| gone(&pid) && *next == py_spy(pid))) {
        true => Some("its process is gone: read what it wrote last, and Flight Recorder's dumps if there are any".into()),
        false => Some(next.clone()),
    }
}

/// What to do about a job that failed where no finding says why: to ask who ended it, or to read what its launcher wrote.
pub fn of_ended(model: &Model, job: &Job) -> String {
    match model.ending_of(job) {
        Ending::Launcher { .. } | Ending::Failed { .. } => "read what the launcher and the ranks wrote last, to their files too".into(),
        Ending::Stopped { .. } | Ending::Untold | Ending::Well => job_cancelled::ask(Some(job), model),
    }
}

/// The processes to look at, as far as they are on this node and alive.
pub fn culprits<'a>(model: &'a Model, finding: &Finding) -> Vec<&'a Process> {
    let Some(job) = finding.job.as_ref().and_then(|id| model.jobs.get(id)).filter(|_| stacks(finding) != Stacks::OfNobody) else {
        return Vec::new();
    };
    // Where nobody is to blame, two stacks side by side say most.
    let ranks: Vec<u32> = match finding.ranks.as_slice() {
        [] if stacks(finding) == Stacks::OfAnyone => job.ranks.keys().copied().take(2).collect(),
        ranks => ranks.iter().copied().take(MOST_RANKS).collect(),
    };
    let processes = ranks.iter().filter_map(|rank| model.processes.get(job.ranks.get(rank)?));
    processes.filter(|p| p.is_alive()).collect()
}

fn stacks(finding: &Finding) -> Stacks {
    rule(finding.rule).map_or(Stacks::OfNobody, |rule| rule.stacks)
}

fn of_process(process: &Process) -> Vec<(String, &'static str)> {
    let pid = process.info.pid;
    let program = process.info.cmdline.first().map_or("", |arg| arg.rsplit('/').next().unwrap_or(arg));
    let python = program.starts_with("python") || process.info.comm.starts_with("python") || process.info.comm.starts_with("pt_");
    let stack = || (py_spy(pid), "where it is in Python; does not stop it");
    match process.sample.state {
        Some('T') => vec![(format!("kill -CONT {pid}"), "resumes it")],
        Some('t') => vec![(format!("grep TracerPid /proc/{pid}/status"), "the debugger that holds it")],
        state => {
            let mut out = Vec::new();
            let in_kernel = state == Some('D') || process.sample.threads_in_d.is_some_and(|n| n > 0);
            if in_kernel {
                out.push((format!("sudo cat /proc/{pid}/stack"), "where it waits in the kernel"));
                out.push((format!("cat /proc/{pid}/wchan"), "the same in a word"));
            }
            if python {
                out.push(stack());
            }
            out
        }
    }
}

/// Makes the ranks on this node write Flight Recorder dumps, where the job was started so that they can be asked.
fn trigger(model: &Model, job: &Job) -> Option<String> {
    let alive = job.ranks.values().filter_map(|pid| model.processes.get(pid)).filter(|p| p.is_alive());
    let listens = |p: &'_ Process| p.env("TORCH_NCCL_DEBUG_INFO_PIPE_FILE").filter(|prefix| !prefix.is_empty()).map(str::to_owned);
    let (process, prefix) = alive.filter_map(|p| Some((p, listens(p)?))).next()?;
    // In a container the pipes are in its file system.
    let inside = process.info.ns_pid.is_some_and(|inner| inner != process.info.pid);
    let root = if inside { format!("/proc/{}/root", process.info.pid) } else { String::new() };
    let pipes = shell_word(&format!("{root}{prefix}"));
    // Without a reader the shell would wait for one.
    Some(format!("for p in {pipes}*.pipe; do timeout 2 sh -c 'echo 1 > \"$0\"' \"$p\"; done"))
}
