//! A leftover of an earlier job holds a GPU.

use super::{Implies, Rule, TickContext, while_it_holds};
use crate::base::severity::{Confidence, Severity};
use crate::observe::evidence::Evidence;
use crate::rules::findings::Finding;

pub const RULE: Rule = Rule {
    id: "stale-process",
    severity: Severity::Warning,
    title: "A stopped, dying or orphaned process of an earlier job holds a GPU; the running job is not to blame",
    how: "The launcher of its job is gone, ranks of it are missing, and it is stopped, a zombie or uses no CPU, but NVML lists it on a GPU",
    advice: "If nobody needs it, end it: a stopped process takes SIGKILL only. Its memory is not available to the running job",
    life: while_it_holds(6, 5),
    implies: Implies::Nothing,
    on_tick: Some(check),
    ..Rule::PLAIN
};

fn check(ctx: &TickContext, out: &mut Vec<Finding>) {
    let model = ctx.model;
    for job in model.jobs.values().filter(|j| model.is_stale(j)) {
        for process in job.pids().filter_map(|pid| model.processes.get(&pid)).filter(|p| p.is_alive()) {
            let pid = process.info.pid;
            let Some(gpu) = model.gpu_of_pid(pid) else { continue };
            let mem = model.gpus.get(&gpu).and_then(|g| g.processes.iter().find(|p| p.pid == pid)?.mem_bytes);
            let mem = mem.map_or(String::new(), |b| format!(" ({:.1} GiB)", b as f64 / f64::from(1 << 30)));
            let what = match process.sample.state {
                Some('T' | 't') => "stopped",
                Some('Z') => "a zombie",
                _ => "orphaned",
            };
            let since = process.state_since.min(process.first_seen);
            let mut found =
                RULE.finding(format!("pid {pid}"), format!("pid {pid} of an earlier job is {what} and holds GPU {gpu}{mem}"), since);
            found.job = Some(job.id.clone());
            found.confidence = Confidence::Likely;
            found.gpus = vec![gpu];
            found.why = format!("its launcher is gone, state {}", process.sample.state.unwrap_or('?'));
            found.next = Some(format!("kill -9 {pid}"));
            found.evidence = vec![
                Evidence::of("process", format!("/proc/{pid}/stat: state {}", process.sample.state.unwrap_or('?'))),
                Evidence::of("gpu", format!("NVML lists pid {pid} on GPU {gpu}{mem}")),
            ];
            out.push(found);
        }
    }
}
