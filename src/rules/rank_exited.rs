//! A rank's process is gone while its job is not over.

mod left_first;

use super::{Implies, ONCE, Rule, TextContext, TickContext, exception_words};
use crate::base::clean::{clean, clip};
use crate::base::exit_code::ended_words;
use crate::base::exit_code::exit_words;
use crate::base::exit_code::signal_of;
use crate::base::exit_code::signal_words;
use crate::base::limit::Limit;
use crate::base::severity::{Confidence, Role, Severity};
use crate::base::time::{Stamp, span};
use crate::base::words::{all_words, rank_words};
use crate::logs::catalog::{self, Part, Scope};
use crate::logs::{What, WorkerFailure};
use crate::model::Model;
use crate::model::alarms::Alarm;
use crate::model::ending::{End, Ending, SETTLES, SIGKILL, TOGETHER, who};
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::process::Process;
use crate::model::signals::Look;
use crate::observe::evidence::Evidence;
use crate::observe::process::LogVia;
use crate::rules::findings::Finding;
use left_first::left_first;
use std::collections::BTreeSet;
use std::time::Duration;

pub const RULE: Rule = Rule {
    id: "rank-exited",
    severity: Severity::Critical,
    title: "The process of a rank is gone while the job is not over",
    says: "ended while the job is not over",
    how: "torchrun's report of a failed worker; the exit codes of its processes (Linux 6.15 and later, or while they are zombies): the first that \
          ended by itself, not by SIGTERM; or a process that vanished from /proc while its siblings wait",
    advice: "Exit code -9 is SIGKILL: look for the kernel's OOM killer, a cgroup limit, the scheduler. -6, -7, -11 are crashes: look for the first \
             error of that rank in the log. Ranks that ended with -15 were taken down afterwards",
    life: ONCE,
    implies: Implies::Failed,
    on_text: Some(on_text),
    on_tick: Some(on_tick),
    limits: &[&GONE_FOR, &LEFT_WAITING],
    ..Rule::PLAIN
};

const SIGABRT: u32 = 6;
/// What a rank still has to do when another has left, before it needs that one.
const LOST_SOON: Duration = Duration::from_secs(30);
const SIGBUS: u32 = 7;
const SIGSEGV: u32 = 11;
const SIGINT: u32 = 2;
const SIGILL: u32 = 4;
const SIGFPE: u32 = 8;
const SIGTERM: i32 = 15;

fn on_text(ctx: &TextContext, out: &mut Vec<Finding>) {
    let (code, pid, rank) = match &ctx.seen.event.what {
        What::WorkerFailed { exit_code, local_rank, pid } => {
            let job = ctx.model.jobs.get(&ctx.seen.job);
            let by_pid = ctx.rank_of_pid(*pid);
            // On one node the local rank is the rank.
            let one_node = job.is_none_or(|j| j.world_size == j.local_world_size);
            (Some(*exit_code), Some(*pid), by_pid.or(one_node.then_some(*local_rank)))
        }
        What::WorkerFailure(f) if f.root => (f.exit_code, f.pid, f.rank),
        _ => return,
    };
    let who = rank.map_or_else(|| pid.map_or("a rank".to_owned(), |p| format!("pid {p}")), |r| format!("rank {r}"));
    let host = match &ctx.seen.event.what {
        What::WorkerFailure(f) => f.host.as_deref(),
        _ => None,
    };
    let pid_words = match pid {
        Some(pid) if rank.is_some() => format!(" (pid {pid})"),
        // Without a rank the pid is its name, and means something on its host only.
        _ => host.filter(|_| rank.is_none()).map_or(String::new(), |host| format!(" on {host}")),
    };
    // Of several nodes the local rank is another one than the rank.
    let of_node = matches!(ctx.seen.event.what, What::WorkerFailed { .. })
        && ctx
            .model
            .jobs
            .get(&ctx.seen.job)
            .is_none_or(|job| job.world_size.is_none() && pid.is_none_or(|pid| ctx.rank_of_pid(pid).is_none()));
    let words = if of_node { format!("local {who}") } else { who.clone() };
    let mut found = ctx.found(&RULE, who.clone(), format!("{words}{pid_words} ended: {}", code.map_or("with an error".into(), exit_words)));
    found.ranks = rank.into_iter().collect();
    found.gpus = rank.and_then(|r| ctx.gpu_of_rank(r)).into_iter().collect();
    found.confidence = Confidence::Certain;
    found.why = format!("the launcher reports it as the first to fail{}", table_words(ctx));
    found.next = Some(next_by_code(code, &who));
    if let Some(all) = code.and_then(|code| crashed_together(ctx, code)) {
        found.summary = format!("{} ended: {}", rank_words(&all), code.map_or(String::new(), exit_words));
        found.gpus = all.iter().filter_map(|rank| ctx.gpu_of_rank(*rank)).collect();
        found.ranks = all;
    }
    match code.and_then(|c| asked_to_end(ctx, c)) {
        Some(Asked::Others) => found.role = Role::Cascade,
        // The job is what was ended: `job-cancelled`.
        Some(Asked::All) => return,
        Some(Asked::Alone) => {
            found.summary = format!("{words}{pid_words} was ended by SIGTERM from outside the job");
            found.why = "SIGTERM ended it alone; only then did the launcher end the others".into();
            found.next = Some(WHO_SENT.into());
        }
        None => {}
    }
    if rank.is_some_and(|rank| code == Some(1) && lost_its_peer(ctx.model, &ctx.seen.job, rank)) {
        found.summary = format!("{words}{pid_words} ended: exit code 1, because its connection to another rank was closed");
        found.why = "the launcher reports it as the first to fail, and its own last words are that a peer went away".into();
        found.next = Some("look for the rank that left: one without an error in its log, or one that ended with code 0".into());
        (found.ranks, found.gpus) = (Vec::new(), Vec::new());
        found.role = Role::Cascade;
    }
    out.push(found);
}

/// What tells why a process ended, by how it ended.
fn next_by_code(code: Option<i32>, who: &str) -> String {
    match code.and_then(signal_of) {
        Some(SIGKILL) => "dmesg -T | grep -i -e 'killed process' -e oom".into(),
        Some(SIGBUS) => {
            format!("df -h /dev/shm where {who} ran: a full one ends whoever maps it (docker --shm-size, an emptyDir with medium: Memory)")
        }
        Some(SIGABRT) => format!(
            "read what {who} printed before its end: PyTorch's watchdog and failed checks of C++ end a process so (\"terminate called\", \"Watchdog \
             caught\", \"Check failed\")"
        ),
        Some(SIGSEGV) => format!(
            "start it again with PYTHONFAULTHANDLER=1, which prints where {who} is when it crashes; dmesg -T | grep -i segfault names the library"
        ),
        Some(_) => format!("read the log above the failure for {who}"),
        None => format!(
            "read the log above the failure for {who}; if it is not there, `--redirects 3 --tee 3` of torchrun keeps what each rank prints, and @record \
             (torch.distributed.elastic) puts the traceback into the table"
        ),
    }
}

/// Its last words are that the connection to another rank was closed: that one left first.
fn lost_its_peer(model: &Model, job: &str, rank: u32) -> bool {
    let is_victim = |a: &Alarm| {
        let of_run = model.files.get(&a.file).is_some_and(|file| file.is_present(a.run));
        let exception = match &a.event.what {
            What::Exception(e) => catalog::find(Scope::Line, &exception_words(e)),
            _ => None,
        };
        of_run && a.rank == Some(rank) && exception.is_some_and(|s| s.rule == "rendezvous-failed" && s.part == Part::Victim)
    };
    let mut exceptions = model.record_of(job).alarms.iter().filter(|a| a.rank == Some(rank) && matches!(a.event.what, What::Exception(_)));
    exceptions.next_back().is_some_and(is_victim)
}

/// What torchrun's table says of the process that failed first, and of the others that it names above that one.
struct Listed<'a> {
    first: &'a WorkerFailure,
    /// By how they ended, in the order in which they stand.
    others: Vec<(Option<i32>, Vec<u32>)>,
    /// All of them ended within one second.
    at_once: bool,
}

fn table<'a>(ctx: &TextContext<'a>) -> Option<Listed<'a>> {
    let record = ctx.model.record_of(&ctx.seen.job);
    // The line above the table names the same process.
    let in_table = |pid: u32| {
        record.alarms.iter().find_map(|a| match &a.event.what {
            What::WorkerFailure(f) if f.root && f.pid == Some(pid) => Some(f),
            _ => None,
        })
    };
    let first = match &ctx.seen.event.what {
        What::WorkerFailure(first) => Some(first),
        What::WorkerFailed { pid, .. } => in_table(*pid),
        _ => None,
    }?;
    // The table of an earlier run in the same file is of other processes.
    let own = record.alarms.iter().find(|a| a.file == ctx.seen.file && a.line == ctx.seen.line && a.event.what == ctx.seen.event.what);
    let of_run = |a: &&Alarm| own.is_none_or(|own| a.file != own.file || a.run == own.run);
    let mut others: Vec<(Option<i32>, Vec<u32>)> = Vec::new();
    let mut at_once = first.time.is_some();
    for alarm in record.alarms.iter().filter(of_run) {
        let What::WorkerFailure(f) = &alarm.event.what else { continue };
        let Some(rank) = f.rank.filter(|rank| Some(*rank) != first.rank) else { continue };
        at_once &= f.time == first.time;
        match others.iter_mut().find(|(code, _)| *code == f.exit_code) {
            Some((_, ranks)) if !ranks.contains(&rank) => ranks.push(rank),
            Some(_) => {}
            None => others.push((f.exit_code, vec![rank])),
        }
    }
    others.iter_mut().for_each(|(_, ranks)| ranks.sort_unstable());
    Some(Listed { first, others, at_once })
}

/// `, at 08:10:57, on node-1; it lists rank 12 (exit code 1) as failed, too`
fn table_words(ctx: &TextContext) -> String {
    let Some(Listed { first, others, at_once }) = table(ctx) else { return String::new() };
    let clock = |f: &WorkerFailure| f.time.as_ref().map(|t| format!("{:02}:{:02}:{:02}", t.hour, t.minute, t.second));
    let at = clock(first).map_or(String::new(), |at| format!(", at {at}"));
    let on = first.host.as_ref().map_or(String::new(), |host| format!(", on {}", clip(&clean(host), 80)));
    if others.is_empty() {
        return format!("{at}{on}");
    }
    let words = |(code, ranks): &(Option<i32>, Vec<u32>)| {
        format!("{}{}", rank_words(ranks), code.map_or(String::new(), |code| format!(" ({})", exit_words(code))))
    };
    let listed: Vec<String> = others.iter().take(MOST_KINDS).map(words).collect();
    let order = if at_once { "; all of them ended within one second, so the table does not prove which was first" } else { "" };
    format!("{at}{on}; it lists {} as failed, too{order}", all_words(&listed))
}

/// All ranks of the table, where each crashed of the same signal within one second: none of them is the first. Who aborts, or is killed, may have
/// been made to.
fn crashed_together(ctx: &TextContext, code: i32) -> Option<Vec<u32>> {
    const MOST: usize = 16;
    let is_crash = signal_of(code).is_some_and(|signal| matches!(signal, SIGSEGV | SIGBUS | SIGILL | SIGFPE));
    let Listed { first, others, at_once } = table(ctx).filter(|_| is_crash)?;
    let [(Some(other), ranks)] = &others[..] else { return None };
    let mut all = ranks.clone();
    all.push(first.rank?);
    all.sort_unstable();
    (at_once && *other == code && first.exit_code == Some(code) && all.len() <= MOST).then_some(all)
}

/// Ways to end that are told apart.
const MOST_KINDS: usize = 4;

/// The kernel keeps no record of who sends a signal.
const WHO_SENT: &str = "nothing records who sent it: look for kill, pkill and health checks on that host; to catch the next one: \
     bpftrace -e 'tracepoint:signal:signal_generate /args->sig == 15/ { printf(\"%s %d to %d\\n\", comm, pid, args->pid) }'";

/// To whom the SIGTERM went that ended the rank of which the launcher reports that it failed first.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// To the launcher too, or to whom the log already names.
    Others,
    /// To all of them at once: the launcher had none left to end.
    All,
    /// To this one: the launcher had to end the others.
    Alone,
}

/// `None`: it ended otherwise.
pub fn asked_to_end(ctx: &TextContext, exit_code: i32) -> Option<Asked> {
    // Nobody but a person sends it, and to all of them.
    if signal_of(exit_code) == Some(SIGINT) {
        return Some(Asked::All);
    }
    if signal_of(exit_code) != Some(SIGTERM.unsigned_abs()) {
        return None;
    }
    let job = ctx.model.jobs.get(&ctx.seen.job)?;
    let cancelled = ctx.ledger.is_open("job-cancelled", Some(&job.id));
    Some(match () {
        () if job.launcher_signalled || cancelled && job.launcher_signals => Asked::Others,
        () if job.launcher_signals => Asked::Alone,
        () => Asked::All,
    })
}

/// The capture of an entry that is the number of a task of Slurm.
pub const TASK: &str = "task";

/// The rank that a task of Slurm is, where it is one rank and not the launcher of several.
pub fn rank_of_task(ctx: &TextContext, task: u32) -> Option<u32> {
    let job = ctx.model.jobs.get(&ctx.seen.job)?;
    if !job.log_only {
        let is_its = |pid: &u32| ctx.model.processes.get(pid).is_some_and(|p| p.env_number(&["SLURM_PROCID"]) == Some(task));
        let mut ranks = job.ranks.iter().filter(|(_, pid)| is_its(pid)).map(|(rank, _)| *rank);
        return ranks.next().filter(|_| ranks.next().is_none());
    }
    let record = ctx.model.record_of(&job.id);
    let of_torchrun = job.launcher_signals || !record.launched.is_empty();
    let named = |alarm: &Alarm| match &alarm.event.what {
        What::Signed { signature, text, .. } => signature.capture(text, TASK)?.parse().ok(),
        _ => None,
    };
    let highest = record.alarms.iter().filter_map(named).fold(task, u32::max);
    // Ranks beyond the tasks that end are those of a launcher inside of each task.
    (!of_torchrun && record.ranks.keys().all(|rank| *rank <= highest)).then_some(task)
}

/// At the normal end ranks leave within seconds of each other, and nobody waits for anybody. Processes are read once a second: this is
/// from the third look without it on.
const GONE_FOR: Limit = Limit::seconds("rank-exited", "after", 2.5, "a process must have been gone this long while others of its job wait");
/// Of a GPU that is read once a second three readings in a row: the first may still tell of the work before, which fades within one.
const LEFT_WAITING: Limit =
    Limit::seconds("rank-exited", "left_waiting", 2.0, "the GPUs of the ranks that are left must have waited this long");

fn on_tick(ctx: &TickContext, out: &mut Vec<Finding>) {
    let mut known = BTreeSet::new();
    for job in ctx.model.jobs.values().filter(|job| !job.log_only && !ctx.model.is_stale(job)) {
        if job.taking_down_at.is_some() {
            out.extend(left_first(ctx, job));
            continue;
        }
        let ending = ctx.model.ending_of(job);
        if matches!(ending, Ending::Failed { .. } | Ending::Stopped { .. }) {
            known.insert(job.id.as_str());
        }
        out.extend(left_first(ctx, job).or_else(|| by_exit_codes(ctx, job, &ending)));
    }
    for (id, look) in ctx.looks {
        let Some(job) = ctx.model.jobs.get(id) else { continue };
        if job.taking_down_at.is_some() || known.contains(id.as_str()) {
            continue;
        }
        for rank in look.ranks.values() {
            let Some(gone) = rank.gone_at else { continue };
            let waiting = waiting(look);
            let stand = waiting > 0
                || rank.exit_code.is_some_and(|code| signal_of(code) == Some(SIGTERM.unsigned_abs())) && others_stand(ctx, job, look, gone);
            if look.at.since(gone) < GONE_FOR.duration() || !stand || look.alive().count() == 0 {
                continue;
            }
            let code = rank.exit_code.map_or(String::new(), |c| format!(" ({})", exit_words(c)));
            let mut found = RULE.finding(
                format!("rank {}", rank.rank),
                format!("rank {} (pid {}) is gone{code}; {}", rank.rank, rank.pid, left(look)),
                gone,
            );
            found.job = Some(id.clone());
            found.confidence = Confidence::Certain;
            found.ranks = vec![rank.rank];
            found.gpus = rank.gpu.into_iter().collect();
            let by_signal = rank.exit_code.is_some_and(|code| signal_of(code) == Some(SIGTERM.unsigned_abs()));
            found.next = Some(if by_signal { WHO_SENT } else { "dmesg -T | tail -50" }.into());
            found.evidence = vec![
                Evidence::of("process", format!("pid {} left /proc", rank.pid)),
                match waiting {
                    0 => Evidence::of("process", format!("no step since, and nothing ended the others: {}", left(look))),
                    n => Evidence::of("gpu", super::spins(n) + "; no bytes move"),
                },
            ];
            found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
            out.push(found);
        }
    }
}

/// Whoever ends a whole job with SIGTERM gives its ranks half a minute before SIGKILL; bare processes are ended one by one.
const LET_END: Duration = Duration::from_secs(35);
const LET_FOLLOW: Duration = Duration::from_secs(5);

/// Where no GPU is seen: the others make no step since a rank was ended by SIGTERM, and nobody ends them.
fn others_stand(ctx: &TickContext, job: &Job, look: &Look, gone: Stamp) -> bool {
    let launched = job.launcher.and_then(|pid| ctx.model.processes.get(&pid)).is_some_and(|p| p.is_alive());
    let stepped = look.log.as_ref().and_then(|log| log.last_step_at).is_some_and(|step| step > gone);
    let unseen = look.alive().all(|rank| rank.activity == Activity::Unknown && !rank.does_io());
    unseen && !stepped && look.at.since(gone) >= if launched { LET_END } else { LET_FOLLOW }
}

/// `1 rank is left`, `3 ranks are left`
fn left(look: &Look) -> String {
    match look.alive().count() {
        1 => "1 rank is left".to_owned(),
        n => format!("{n} ranks are left"),
    }
}

fn waiting(look: &Look) -> usize {
    look.alive().filter(|r| r.is(Activity::Waiting, look.at, LEFT_WAITING.duration())).count()
}

/// A finding that rests on exit codes alone: what the log says of the same rank is why it ended.
pub fn is_by_exit_code(finding: &Finding) -> bool {
    finding.rule == RULE.id && finding.signature.is_none() && finding.evidence.iter().all(|e| e.kind == "process")
}

/// An end by SIGABRT, of which nothing tells why: by exit code, or in a launcher's words.
pub fn is_abort(finding: &Finding) -> bool {
    let is_report = finding.entry.is_some_and(|entry| entry.yields_to.contains(&RULE.id));
    let is_bare = finding.signature.is_none() || is_report;
    finding.rule == RULE.id && is_bare && ["SIGABRT", "Aborted"].iter().any(|word| finding.summary.contains(word))
}

/// Who ended by itself, before the others were ended.
fn by_exit_codes(ctx: &TickContext, job: &Job, ending: &Ending) -> Option<Finding> {
    /// A job that makes steps this long after has survived it.
    const SURVIVED: Duration = Duration::from_secs(5);
    // A launcher without ranks is told of by `launch-failed`.
    if !matches!(ending, Ending::Failed { .. } | Ending::Launcher { .. }) || job.pids().next().is_none() {
        return None;
    }
    // What others have left unburied is of a job that was over before anybody looked.
    if job.pids().chain(job.launcher).all(|pid| ctx.model.processes.get(&pid).is_some_and(Process::was_found_dead)) {
        return None;
    }
    let (now, ends) = (ctx.model.now, ctx.model.ends_of(job));
    let (at, mut found) = match ending {
        Ending::Failed { first, unseen } => {
            let at = first.first()?.at;
            let words: Vec<String> = first.iter().take(4).map(|e| format!("{} {}", e.name(), words_of(e))).collect();
            let more = if first.len() > words.len() { format!(", and {} more", first.len() - words.len()) } else { String::new() };
            let ranks: Vec<u32> = first.iter().filter_map(|e| e.rank).collect();
            let mut found = RULE.finding(who(first), format!("{}{more}", words.join(", ")), at);
            found.evidence = first.iter().take(4).map(|e| told(e.pid, words_of(e), e.at)).collect();
            found.confidence = if first.len() == 1 { Confidence::Certain } else { Confidence::Likely };
            found.next = Some(next(ctx, first.first()?));
            // Watchdogs abort the ranks that wait for one of another node.
            let aborted = job.has_ranks_elsewhere() && first.iter().all(|e| e.exit_code.and_then(signal_of) == Some(SIGABRT));
            if job.has_ranks_elsewhere() {
                found.confidence = Confidence::Possible;
                found.summary.push_str("; a rank of another node may have failed before");
            }
            // Whoever ends with code 1 right behind one that left may have lost its connection to it.
            let code_1 = first.iter().all(|e| e.exit_code == Some(1));
            let left: Vec<End> =
                ends.iter().filter(|e| code_1 && e.exit_code == Some(0) && e.at < at && at.since(e.at) <= LOST_SOON).copied().collect();
            if let Some(last) = left.last() {
                found.confidence = Confidence::Possible;
                let before = span(at.since(last.at));
                found.summary.push_str(&format!("; {} had left with code 0 {before} before, which may be why", who(&left)));
                found.evidence.extend(left.iter().take(4).map(|e| told(e.pid, words_of(e), e.at)));
            } else if aborted {
                found.subject = "aborted".into();
            } else if code_1 && !ranks.is_empty() && ranks.iter().all(|rank| lost_its_peer(ctx.model, &job.id, *rank)) {
                found.subject = "peer".into();
                found.confidence = Confidence::Likely;
                // Who lost it is not to blame: it does not stand first.
                found.summary = format!("the connection to the store, or to another rank, was closed: {}", found.summary);
                found.why = "the last words of whoever ended first are that a peer went away".into();
                found.next = Some(
                    "look for what ended the other side: the process that hosts the store (MASTER_ADDR and MASTER_PORT), or a rank that left without an error".into(),
                );
            } else if unseen.is_empty() {
                found.gpus = ranks.iter().filter_map(|rank| ctx.model.gpu_of_pid(*job.ranks.get(rank)?)).collect();
                found.ranks = ranks;
            } else {
                // One of those may have been the first.
                found.confidence = Confidence::Possible;
                found.summary.push_str(&format!("; how {} ended is not known", who(unseen)));
            }
            (at, found)
        }
        Ending::Launcher { pid, at, exit_code } => {
            let words = ended_words(*exit_code);
            let (of_ranks, next) = match ends.iter().all(|e| e.exit_code.is_some()) {
                true => ("its ranks on this node with code 0", "read what the launcher wrote; a rank of another node may have failed"),
                false => ("and nothing tells how its ranks did", "read what the launcher wrote: it names the rank that failed first"),
            };
            let mut found = RULE.finding("launcher", format!("the launcher (pid {pid}) {words}, {of_ranks}"), *at);
            found.evidence = vec![told(*pid, words, *at)];
            // It may have been ended by hand.
            found.severity = Severity::Error;
            found.confidence = Confidence::Likely;
            found.next = Some(next.into());
            (*at, found)
        }
        _ => return None,
    };
    let went_on = ctx.model.progress_of(&job.id).and_then(|p| p.last_step_at).is_some_and(|step| step > at.plus(SURVIVED));
    // What a scheduler reports of a task yields to exit codes: it does not know who was first.
    let yields = |f: &Finding| f.part == Some(Part::Teardown) || f.entry.is_some_and(|entry| entry.yields_to.contains(&RULE.id));
    let is_told = |f: &Finding| f.rule == RULE.id && f.own_role == Role::Root && f.job.as_deref() == Some(&job.id);
    let told_in_words = |f: &Finding| is_told(f) && !is_by_exit_code(f) && !yields(f);
    if now.since(at) < SETTLES || went_on || ctx.ledger.first_open(told_in_words).is_some() {
        return None;
    }
    found.job = Some(job.id.clone());
    // It crashed on its way out.
    if ctx.model.said_done(job) {
        found.severity = Severity::Warning;
    }
    match ctx.explained(&RULE, job, at) {
        // Watchdogs abort ranks that hang.
        Some(Implies::Stuck) => return None,
        Some(_) => found.role = Role::Cascade,
        None => {}
    }
    found.evidence.extend(followers(&ends, at));
    if let Some(look) = ctx.looks.get(&job.id) {
        found.evidence.push(Evidence::of("process", left(look)));
    }
    found.why = found.evidence.iter().map(|e| e.text.as_str()).collect::<Vec<_>>().join(" · ");
    Some(found)
}

fn words_of(end: &End) -> String {
    end.exit_code.map_or("ended".into(), ended_words)
}

fn told(pid: u32, words: String, at: Stamp) -> Evidence {
    Evidence { at: Some(at), ..Evidence::of("process", format!("pid {pid} {words}")) }
}

/// `ranks 0 and 2 were killed by SIGTERM within 0.4 s after it`
fn followers(ends: &[End], at: Stamp) -> Option<Evidence> {
    let asked = |e: &&End| e.exit_code.and_then(signal_of).is_some_and(|s| s == SIGTERM.unsigned_abs() || s == SIGKILL) && e.at >= at;
    // Who died of the same at the same moment is named already.
    let together = |e: &&End| e.at >= at && e.at.since(at) <= TOGETHER;
    let first: Vec<&End> = ends.iter().filter(together).filter(|e| e.exit_code.is_some_and(|c| c != -SIGTERM)).collect();
    let after: Vec<&End> = ends.iter().filter(asked).filter(|e| !first.contains(e)).collect();
    let last = after.last()?;
    let after_all: Vec<End> = after.iter().map(|end| **end).collect();
    let signal = last.exit_code.and_then(signal_of).map_or(String::new(), signal_words);
    let when = if last.at == at { "at the same look".to_owned() } else { format!("within {} after it", span(last.at.since(at))) };
    Some(Evidence { at: Some(last.at), ..Evidence::of("process", format!("{}: {signal} {when}", who(&after_all))) })
}

fn next(ctx: &TickContext, end: &End) -> String {
    if end.exit_code.and_then(signal_of) == Some(SIGKILL) {
        return "dmesg -T | grep -i -e 'killed process' -e oom".into();
    }
    let who = who(&[*end]);
    ctx.model.processes.get(&end.pid).map_or_else(|| format!("read what {who} printed last"), |p| read_output(&who, p))
}

/// Where to read why a process ended.
pub fn read_output(who: &str, process: &Process) -> String {
    let output = process.info.logs.iter().find(|log| matches!(log.via, LogVia::Stderr | LogVia::Stdout));
    match output {
        Some(log) if log.inode.is_none() => {
            format!("its output went to {}, which is not read here: look there, or run it with its output in a file", log.path)
        }
        _ => format!("read what {who} printed last"),
    }
}
