//! A rank's process is gone while its job is not over.

use super::{Check, Implies, ONCE, Rule, TextContext, TickContext};
use crate::findings::{Confidence, Evidence, Found, Role, Severity};
use crate::model::gpu::Activity;
use crate::text::What;
use crate::time::span;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "rank-exited",
    severity: Severity::Critical,
    title: "The process of a rank is gone while the job is not over",
    how: "torchrun's report of a failed worker, or a process that vanished from /proc while its siblings wait",
    advice: "Exit code -9 is SIGKILL: look for the kernel's OOM killer, a cgroup limit, the scheduler. -6, -7, -11 are crashes: look for the first \
             error of that rank in the log. Ranks that ended with -15 were taken down afterwards",
    life: ONCE,
    implies: Implies::Failed,
    check: Check::Both(on_text, on_tick),
};

const SIGTERM: i32 = 15;

/// Exit codes as torchrun prints them: negative is a signal, 128 + n the same through a shell.
pub fn exit_words(code: i32) -> String {
    let signal = if code < 0 { Some(code.unsigned_abs()) } else { (129..=159).contains(&code).then(|| code.unsigned_abs() - 128) };
    match signal {
        Some(n) => {
            let name = match n {
                1 => " (SIGHUP)",
                2 => " (SIGINT)",
                4 => " (SIGILL)",
                6 => " (SIGABRT)",
                7 => " (SIGBUS)",
                8 => " (SIGFPE)",
                9 => " (SIGKILL)",
                11 => " (SIGSEGV)",
                15 => " (SIGTERM)",
                _ => "",
            };
            format!("killed by signal {n}{name}")
        }
        None => format!("exit code {code}"),
    }
}

fn on_text(ctx: &TextContext, out: &mut Vec<Found>) {
    let (code, pid, rank) = match &ctx.seen.event.what {
        What::WorkerFailed { exit_code, local_rank, pid } => {
            let job = ctx.model.jobs.get(&ctx.seen.job);
            let by_pid = job.and_then(|j| j.rank_of(*pid));
            // On one node the local rank is the rank.
            let one_node = job.is_none_or(|j| j.world_size == j.local_world_size);
            (Some(*exit_code), Some(*pid), by_pid.or(one_node.then_some(*local_rank)))
        }
        What::WorkerFailure(f) if f.root => (f.exit_code, f.pid, f.rank),
        _ => return,
    };
    let who = rank.map_or_else(|| pid.map_or("a rank".to_owned(), |p| format!("pid {p}")), |r| format!("rank {r}"));
    let pid_words = pid.map_or(String::new(), |p| format!(" (pid {p})"));
    // Of several nodes the local rank is another one than the rank.
    let of_node = matches!(ctx.seen.event.what, What::WorkerFailed { .. })
        && ctx.model.jobs.get(&ctx.seen.job).is_none_or(|job| job.world_size.is_none() && pid.is_none_or(|pid| job.rank_of(pid).is_none()));
    let words = if of_node { format!("local {who}") } else { who.clone() };
    let mut found = ctx.found(who.clone(), format!("{words}{pid_words} ended: {}", code.map_or("with an error".into(), exit_words)));
    found.ranks = rank.into_iter().collect();
    found.gpus = rank.and_then(|r| ctx.gpu_of_rank(r)).into_iter().collect();
    found.confidence = Confidence::Certain;
    found.why = "the launcher reports it as the first to fail".into();
    found.next = Some(match code {
        Some(-9 | 137) => "dmesg -T | grep -i -e 'killed process' -e oom".into(),
        _ => format!("read the log above the failure for {who}"),
    });
    let taken_down = code.is_some_and(|c| c == -SIGTERM || c == 128 + SIGTERM);
    if ctx.follows_a_root(RULE.id) || taken_down {
        found.role = Role::Cascade;
    }
    out.push(found);
}

fn on_tick(ctx: &TickContext, out: &mut Vec<Found>) {
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        if job.taking_down_at.is_some() {
            continue;
        }
        for rank in look.ranks.values() {
            let Some(gone) = rank.gone_at else { continue };
            // At the normal end ranks leave within seconds of each other, and nobody waits for anybody.
            let waiting = look.alive().filter(|r| r.is(Activity::Waiting, look.at, Duration::from_secs(4))).count();
            let bad_code = rank.exit_code.filter(|c| *c != 0 && *c != -SIGTERM);
            if look.at.since(gone) < Duration::from_secs(4) || (bad_code.is_none() && waiting == 0) || look.alive().count() == 0 {
                continue;
            }
            let code = rank.exit_code.map_or(String::new(), |c| format!(" ({})", exit_words(c)));
            let mut found = Found::new(
                format!("rank {}", rank.rank),
                format!("rank {} (pid {}) is gone{code}; {} ranks are left", rank.rank, rank.pid, look.alive().count()),
                gone,
            );
            found.job = Some(id.clone());
            found.confidence = if waiting > 0 { Confidence::Certain } else { Confidence::Likely };
            found.ranks = vec![rank.rank];
            found.gpus = rank.gpu.into_iter().collect();
            found.next = Some("dmesg -T | tail -50".into());
            found.evidence = vec![Evidence::of("process", format!("pid {} left /proc {} ago", rank.pid, span(look.at.since(gone))))];
            if waiting > 0 {
                found.evidence.push(Evidence::of("gpu", format!("{waiting} GPUs spin without a byte")));
            }
            found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
            out.push(found);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::exit_words;

    #[test]
    fn exit_codes_are_said_as_signals_where_they_are() {
        assert_eq!(exit_words(-9), "killed by signal 9 (SIGKILL)");
        assert_eq!(exit_words(137), "killed by signal 9 (SIGKILL)");
        assert_eq!(exit_words(1), "exit code 1");
        assert_eq!(exit_words(i32::MIN), "killed by signal 2147483648");
    }
}
