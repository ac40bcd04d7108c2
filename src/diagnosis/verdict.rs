//! The one line on top: what a job is doing, and if it is not well, who is to blame, since when, and what to do now.

use crate::base::clean::{clean, clip};
use crate::base::exit_code::{ended_words, signal_words};
use crate::base::severity::{Role, Severity};
use crate::base::time::{Stamp, span};
use crate::base::units::group;
use crate::base::units::{all_here, all_of, does, so_many, the_other};
use crate::base::words::rank_words;
use crate::logs::Phase;
use crate::model::Model;
use crate::model::ending::{Ending, RESTARTS, SETTLES};
use crate::model::gpu::Activity;
use crate::model::job::Job;
use crate::model::progress::Progress;
use crate::model::signals::{Look, RAS_OLD, RankLook};
use crate::rules::area::Area;
use crate::rules::findings::{Finding, Ledger};
use crate::rules::python_exception::ended_a_thread;
use crate::rules::{Implies, rule};
use serde::Serialize;
use std::time::Duration;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum State {
    /// No job.
    #[default]
    Idle,
    Finished,
    /// Nothing says how it goes.
    Unknown,
    Starting,
    Training,
    /// Checkpoint, evaluation, compilation: named, no alarm.
    Paused,
    Slow,
    Stuck,
    Failed,
}

impl State {
    pub const ALL: [State; 9] = [
        State::Idle,
        State::Finished,
        State::Unknown,
        State::Starting,
        State::Training,
        State::Paused,
        State::Slow,
        State::Stuck,
        State::Failed,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            State::Idle => "idle",
            State::Starting => "starting",
            State::Training => "training",
            State::Paused => "paused",
            State::Slow => "slow",
            State::Stuck => "stuck",
            State::Failed => "failed",
            State::Finished => "finished",
            State::Unknown => "unknown",
        }
    }
}

/// After the last step a program saves, evaluates or uploads, and says so; one that prints nothing for so long is done.
const LAST_STEP: Duration = Duration::from_secs(60);

/// The state of one job, in words.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    pub state: State,
    /// `checkpoint`, `evaluation`, `first step`, …
    pub phase: Option<&'static str>,
    pub since: Stamp,
    pub summary: String,
    /// Key of the finding that decides the state: rule and subject.
    pub because: Option<(&'static str, String)>,
    /// Where that finding's cause lies, if that is known.
    pub area: Option<Area>,
}

impl Verdict {
    /// The state; of a job that works at something else than training, what that is.
    pub fn word(&self) -> &'static str {
        self.phase.filter(|_| self.state == State::Training).unwrap_or(self.state.as_str())
    }
}

/// A job of which nothing else is seen has not saved a `metrics.csv` for this long.
const SAVES: Duration = Duration::from_secs(600);

/// Steps are seen within this time where only a thread of a process has ended.
const GOES_ON: Duration = Duration::from_secs(10);

/// What the evidence makes of a job at this moment; `before` carries when the state began.
/// `cause` is the number of the finding that the others of the job follow from.
pub fn of_job(model: &Model, ledger: &Ledger, job: &Job, look: &Look, cause: Option<u64>, before: Option<&Verdict>) -> Verdict {
    let mut verdict = judge(model, ledger, job, look, cause, before);
    // What a finding decides began when the finding did: the two stand above one another on the screen. The end of a job is known before why.
    let is_told = before.is_some_and(|b| b.because.is_some());
    let by_finding = verdict.because.is_some() && (job.ended_at.is_none() || !is_told);
    verdict.since = match before {
        Some(b) if b.state == verdict.state && b.phase == verdict.phase && !by_finding => b.since,
        _ => verdict.since,
    };
    verdict
}

fn judge(model: &Model, ledger: &Ledger, job: &Job, look: &Look, cause: Option<u64>, before: Option<&Verdict>) -> Verdict {
    let now = model.now;
    let say = |state, phase, summary: String| Verdict { state, phase, since: now, summary, because: None, area: None };
    let mine: Vec<&Finding> = ledger.open().into_iter().filter(|f| f.job.as_deref() == Some(&job.id)).collect();
    let implied = |what: Implies| mine.iter().copied().filter(move |f| crate::rules::implied(f) == what);
    // A consequence may decide the state; the line names what it follows from.
    let root = mine.iter().copied().find(|f| Some(f.no) == cause && f.role == Role::Root);
    let because = |state, f: &Finding| {
        let least = if state == State::Slow { Severity::Warning } else { Severity::Error };
        let named = root.filter(|root| f.role == Role::Cascade && root.severity >= least).unwrap_or(f);
        let (because, area) = (Some((named.rule, named.subject.clone())), Area::of(named));
        Verdict { state, phase: None, since: f.since, summary: named.summary.clone(), because, area }
    };
    // Kernel and driver are read once a second: what a program says of the same fault may come a moment earlier.
    let told_at = |f: &Finding| f.opened_at.minus(if f.machine { Duration::from_secs(5) } else { Duration::ZERO });
    let may_go_on = |f: &Finding| job.ended_at.is_none() && ended_a_thread(f) && now.since(f.opened_at) < GOES_ON;
    let fails = |f: &&Finding| f.severity >= Severity::Error && !may_go_on(f) && !goes_on(model, f, look);
    let failed = implied(Implies::Failed).filter(fails).min_by_key(|f| (f.role, told_at(f)));
    if let Some(f) = failed.filter(|f| f.role == Role::Root) {
        return because(State::Failed, f);
    }
    if let Some(f) = implied(Implies::Stuck).min_by_key(|f| (f.role, f.opened_at)) {
        return match job.ended_at {
            Some(_) => ended_stuck(because(State::Failed, f)),
            // Of a job of which only the log is seen, the failures that follow in it say that it is over.
            None if job.log_only && failed.is_some() => because(State::Failed, f),
            None => because(State::Stuck, f),
        };
    }
    // What only followed from a hang does not stand in its place when the hang ends with the job.
    let was_stuck = before.and_then(|b| rule(b.because.as_ref()?.0)).is_some_and(|r| r.implies == Implies::Stuck);
    if let Some(f) = failed.filter(|_| job.ended_at.is_none() || !was_stuck) {
        return because(State::Failed, f);
    }
    let progress = model.progress_of(&job.id);
    if let Some(at) = job.ended_at {
        if let Some(b) = before.filter(|b| matches!(b.state, State::Stuck | State::Failed) && b.because.is_some()) {
            let ended = Verdict { state: State::Failed, since: at, ..b.clone() };
            return if b.state == State::Stuck { ended_stuck(ended) } else { ended };
        }
        if job.taking_down_at.is_some() && progress.is_none_or(|p| p.done_at.is_none()) {
            return say(State::Failed, None, "terminated from outside: its launcher received a signal".into());
        }
        // The launcher may still have to say why.
        let launcher_lives = job.launcher.and_then(|pid| model.processes.get(&pid)).is_some_and(|p| p.is_alive());
        if !launcher_lives || now.since(at) > RESTARTS {
            let ending = model.ending_of(job);
            match (&ending, before) {
                // It becomes a finding unless the log says more.
                (Ending::Failed { .. }, Some(b)) if now.since(at) <= SETTLES => return b.clone(),
                (Ending::Stopped { signal, .. }, _) => {
                    let words = format!("terminated from outside by {}", signal_words(*signal));
                    return say(State::Failed, None, words);
                }
                (Ending::Launcher { pid, exit_code, .. }, _) => {
                    let but = match job.pids().next() {
                        Some(_) => "; which rank failed is not known",
                        None => " before any of its ranks was seen",
                    };
                    let words = format!("its launcher (pid {pid}) {}{but}", ended_words(*exit_code));
                    return say(State::Failed, None, words);
                }
                (Ending::Well, _) if model.files_of(&job.id).all(|f| f.lines == 0) => {
                    return say(State::Finished, None, "all processes ended with exit code 0".into());
                }
                _ => {}
            }
            if ending != Ending::Well && job.launcher.is_some() && job.pids().next().is_none() {
                return say(State::Failed, None, "its launcher ended before any of its ranks was seen".into());
            }
            if model.files_of(&job.id).all(|f| f.lines == 0) {
                let how = ended_alike(model, job)
                    .map_or("all processes ended; no log shows how".into(), |how| format!("{how}; no log shows why"));
                return say(State::Unknown, None, how);
            }
            let step = progress.and_then(|p| p.step).map_or(String::new(), |s| format!(" at step {s}"));
            let total = progress.filter(|p| p.done_at.is_none()).and_then(|p| p.total_steps.filter(|total| p.step < Some(*total)));
            if let (Ending::Untold, Some(total)) = (&ending, total) {
                let words = format!("all processes ended{step} of {}; nothing shows how", group(total));
                return say(State::Unknown, None, words);
            }
            return say(State::Finished, None, format!("all processes ended{step}"));
        }
        if now.since(at) > SETTLES && model.ending_of(job) == Ending::Well {
            return say(State::Finished, None, "all ranks ended with exit code 0; the launcher still runs".into());
        }
        if let Some(b) = before {
            return b.clone();
        }
    }
    if job.log_only && progress.is_some_and(|p| p.done_at.is_some()) {
        return say(State::Finished, None, "its log says that it finished".into());
    }
    if let Some((phase, summary)) = pause(model, look) {
        return say(State::Paused, Some(phase), summary);
    }
    if let Some(f) = mine.iter().find(|f| crate::rules::may_be_a_pause(f)) {
        return say(State::Paused, Some(Phase::DataLoading.as_str()), f.summary.clone());
    }
    if let Some(f) = implied(Implies::Slow).filter(|f| f.severity >= Severity::Warning).min_by_key(|f| (f.role, f.opened_at)) {
        return because(State::Slow, f);
    }
    let is_server = look.phase.is_some_and(|(phase, _)| phase == Phase::Serving);
    if is_server && progress.is_none_or(|p| p.step.is_none()) {
        return say(State::Training, Some(Phase::Serving.as_str()), "a server that answers requests".to_owned());
    }
    // Epochs, trials and curricula count from 0 again: that is no new start, unless its launcher has made one.
    let went_on = |b: &Verdict| {
        let has_run = matches!(b.state, State::Training | State::Slow | State::Paused);
        has_run && b.phase != Some(Phase::Serving.as_str()) && job.restarted_at.is_none_or(|at| at < b.since)
    };
    let has_stepped = progress.is_some_and(|p| p.step.is_some());
    let trained = crate::rules::has_trained(look) || has_stepped && before.is_some_and(went_on);
    let steps = progress.and_then(|p| p.step).map(|step| match progress.and_then(|p| p.total_steps) {
        None if look.saved.is_some() => format!("step {} when metrics.csv was last saved", group(step)),
        Some(total) => format!("step {} of {}", group(step), group(total)),
        None => format!("step {}", group(step)),
    });
    // Dictionaries of Hugging Face have an epoch and no step.
    let steps = steps.or_else(|| {
        let (loss, epoch) = progress.map(|p| (p.loss, p.epoch))?;
        let epoch = epoch.map_or(String::new(), |epoch| format!(" at epoch {epoch:.2}"));
        Some(format!("loss {:.4}{epoch}; the log has no step numbers", loss?))
    });
    if trained || (job.log_only && steps.is_some()) {
        // Where nothing else is seen, a logger saves often enough.
        let unseen_for = if look.saved.is_some() && !look.knows_gpus() { SAVES } else { Duration::from_secs(20) };
        let lately = look.moved_at.is_some_and(|at| now.since(at) < unseen_for) || !look.quiet_log();
        let ended = job.log_only && progress.is_some_and(Progress::has_made_its_last_step);
        return match steps {
            Some(steps) if ended && look.moved_at.is_some_and(|at| now.since(at) > LAST_STEP) => {
                say(State::Finished, None, format!("{steps}, the last; nothing has come since"))
            }
            Some(steps) if lately => say(State::Training, None, format!("{steps}{}", one_at_work(look))),
            None if lately => {
                let rhythm = model.rhythm_of(job).map_or(String::new(), |rhythm| format!("; a step takes {}", rhythm.words()));
                say(State::Training, None, format!("collectives advance; no log has step lines{rhythm}"))
            }
            steps => {
                let quiet = look
                    .moved_at
                    .map_or("nothing has been seen to move".to_owned(), |at| format!("nothing has moved for {}", span(now.since(at))));
                let steps = steps.map_or(String::new(), |s| format!("{s}; "));
                let in_gloo = |r: &RankLook| r.waits.first().and_then(|wait| wait.in_gloo);
                let why = match look.alive().any(|r| r.activity == Activity::Waiting || in_gloo(r) == Some(true)) {
                    _ if look.shared_is(Activity::Waiting) => "",
                    _ if job.log_only => "; only its log is visible here",
                    true => "",
                    // Of ranks on CPUs nothing else tells whether they wait.
                    false if look.alive().all(|r| r.gpu.is_none() && in_gloo(r).is_none()) => "",
                    false => "; no rank is waiting in a collective",
                };
                say(State::Unknown, None, format!("{steps}{quiet}{why}"))
            }
        };
    }
    if job.log_only {
        return say(State::Unknown, None, "no step line yet".into());
    }
    if let Some(words) = unseen(model, job, look) {
        return say(State::Unknown, None, words);
    }
    let (phase, summary) = start(model, job, look);
    say(State::Starting, Some(phase), summary)
}

fn ended_stuck(mut verdict: Verdict) -> Verdict {
    if !verdict.summary.starts_with("it ended ") {
        verdict.summary.insert_str(0, "it ended while stuck: ");
    }
    verdict
}

/// A job may survive a fault of its machine; one that does not stands still, and soon.
fn goes_on(model: &Model, finding: &Finding, look: &Look) -> bool {
    if !finding.machine || finding.severity == Severity::Critical {
        return false;
    }
    let trained = crate::rules::has_trained(look);
    let moved_at = look.moved_at.unwrap_or_default().max(finding.opened_at);
    let allowed = Duration::from_secs(if trained { 5 } else { 60 });
    let told_at = if finding.signature.is_some() { finding.last_at } else { finding.since };
    let long_before = look.moved_at.is_some_and(|at| at.since(told_at) > Duration::from_secs(60));
    long_before || look.at.since(moved_at) < allowed || pause(model, look).is_some()
}

/// What GPUs and disks do for so long is no part of a step.
const SHOWN_AFTER: Duration = Duration::from_secs(5);

/// `; rank 3 computes alone and the other 3 ranks wait, no step for 14 s`: it may be evaluating or generating, or never come to an end.
fn one_at_work(look: &Look) -> String {
    let quiet = look.log.as_ref().filter(|l| l.quiet_for > l.patience.max(SHOWN_AFTER));
    let waiting = look.with(Activity::Waiting, SHOWN_AFTER).len();
    match (quiet, look.with(Activity::Working, SHOWN_AFTER).as_slice()) {
        (Some(log), [only]) if waiting > 0 && waiting + 1 == look.alive().count() => {
            let others = the_other(waiting, "rank", "wait");
            format!("; rank {} computes alone and {others}, no step for {}", only.rank, span(log.quiet_for))
        }
        _ => String::new(),
    }
}

/// A pause that is no hang, by what the log names, or by what processes and GPUs do.
fn pause(model: &Model, look: &Look) -> Option<(&'static str, String)> {
    /// Who writes a checkpoint so slowly waits for its disk; who compiles writes what it has compiled.
    const BUSY_PCT: f64 = 25.0;
    const LITTLE_BYTES_PER_S: f64 = 16e6;
    if let Some((phase, since)) = look.phase {
        let word = phase.as_str();
        if phase == Phase::Serving {
            let moves = look.moved_at.is_some_and(|at| look.at.since(at) < SHOWN_AFTER);
            return (!moves).then(|| (word, "a server waiting for requests".to_owned()));
        }
        return Some((word, format!("{word} for {}", span(look.at.since(since)))));
    }
    if !crate::rules::has_trained(look) {
        return None;
    }
    let quiet = look.log.as_ref().filter(|l| l.quiet_for > l.patience.max(SHOWN_AFTER));
    let waiting = look.with(Activity::Waiting, SHOWN_AFTER);
    let writing: Vec<u32> = look.alive().filter(|r| r.does_io()).map(|r| r.rank).collect();
    if !writing.is_empty() && !waiting.is_empty() && (quiet.is_some() || look.log.is_none()) {
        let who = rank_words(&writing);
        if let Some(log) = quiet.filter(|_| look.alive().filter(|r| r.does_io()).all(RankLook::only_reads)) {
            let verb = if writing.len() == 1 { "works on its CPU" } else { "work on their CPUs" };
            let others = so_many(waiting.len(), "rank", "wait");
            return Some(("work on the CPU", format!("{who} {verb}, {others}, no step for {}", span(log.quiet_for))));
        }
        let verb = if writing.len() == 1 { "reads or writes" } else { "read or write" };
        return Some((
            Phase::Checkpoint.as_str(),
            format!("{who} {verb}, {}: probably a checkpoint", so_many(waiting.len(), "rank", "wait")),
        ));
    }
    // The trace of a profiler, tokens, an index: what it makes is not on a disk yet.
    let building: Vec<u32> = look.alive().filter(|r| r.builds()).map(|r| r.rank).collect();
    if let Some(log) = quiet
        && !building.is_empty()
        && !waiting.is_empty()
        && building.len() + waiting.len() == look.alive().count()
    {
        let verb =
            if building.len() == 1 { "computes on its CPU and takes more memory" } else { "compute on the CPU and take more memory" };
        let words =
            format!("{} {verb}, {}, no step for {}", rank_words(&building), the_other(waiting.len(), "rank", "wait"), span(log.quiet_for));
        return Some(("work on the CPU", words));
    }
    let idles = |r: &RankLook| r.activity == Activity::Unknown && !r.spins() || r.is(Activity::Idle, look.at, SHOWN_AFTER);
    let busy = |r: &RankLook| r.cpu_pct.is_some_and(|pct| pct >= BUSY_PCT) && !r.in_d;
    let little = |r: &RankLook| r.written_bytes_per_s.is_some_and(|b| b < LITTLE_BYTES_PER_S);
    if quiet.is_some() && look.alive().any(|r| r.writes()) && look.alive().all(|r| busy(r) && little(r) && idles(r)) {
        let words = format!("{} on the CPU, and no GPU works: probably a compilation", all_here(look.alive().count(), "compute"));
        return Some((Phase::Compilation.as_str(), words));
    }
    if quiet.is_some() && look.alive().any(|r| r.writes() || r.in_d) && look.alive().all(|r| r.writes() || r.in_d || r.sleeps() && idles(r))
    {
        return Some((Phase::Checkpoint.as_str(), all_write(model, look)));
    }
    if let (Some(log), [only]) = (quiet, look.with(Activity::Working, SHOWN_AFTER).as_slice())
        && only.rank == 0
        && !waiting.is_empty()
        && waiting.len() + 1 == look.alive().count()
    {
        let words = format!(
            "rank 0 computes alone and {}, no step for {}: probably an evaluation",
            the_other(waiting.len(), "rank", "wait"),
            span(log.quiet_for)
        );
        return Some((Phase::Evaluation.as_str(), words));
    }
    let behind = look.ras.as_ref().filter(|r| r.age <= RAS_OLD && r.still_answers > 0).map_or(&[][..], |r| r.behind.as_slice());
    if let (Some(log), [only]) = (quiet, behind)
        && only.who.rank == Some(0)
        && look.ranks.get(&0).is_some_and(crate::rules::works_unseen)
    {
        let words = format!(
            "rank 0 works while the others wait for it, no step for {}: probably an evaluation, but its GPU is not seen",
            span(log.quiet_for)
        );
        return Some((Phase::Evaluation.as_str(), words));
    }
    let working = look.with(Activity::Working, SHOWN_AFTER).len();
    if let Some(log) = quiet
        && working > 0
        && working == look.alive().count()
    {
        return Some((
            Phase::Evaluation.as_str(),
            match working < look.local_ranks {
                // The others have ended: who is left saves, exports or evaluates.
                true => format!(
                    "{} of {} {}; no step for {}: probably an evaluation or an export",
                    working,
                    crate::base::units::counted(look.local_ranks as u64, "rank"),
                    if working == 1 { "is left and computes" } else { "are left and compute" },
                    span(log.quiet_for)
                ),
                false => {
                    let compute = if working == 1 { "its GPU computes" } else { "all GPUs compute" };
                    format!("{compute}, but no step for {}: probably an evaluation", span(log.quiet_for))
                }
            },
        ));
    }
    None
}

/// `all 4 ranks write 452 MB/s to /ckpt/run7: probably a checkpoint`
fn all_write(model: &Model, look: &Look) -> String {
    let writers: Vec<&RankLook> = look.alive().filter(|r| r.writes()).collect();
    if writers.is_empty() {
        let waiting: Vec<u32> = look.alive().filter(|r| r.in_d).map(|r| r.rank).collect();
        return format!("{} {} for storage: probably a checkpoint", rank_words(&waiting), does(waiting.len(), "wait"));
    }
    let rate: f64 = writers.iter().filter_map(|r| r.written_bytes_per_s).sum();
    let dirs = writers.iter().filter_map(|r| model.processes.get(&r.pid)?.info.writes.last());
    let to = dirs.map(|dir| dir.path.as_str()).next().map_or(String::new(), |dir| format!(" to {}", clip(&clean(dir), 80)));
    let who = match writers.len() {
        n if n == look.alive().count() => all_of(n, "rank"),
        _ => rank_words(&writers.iter().map(|r| r.rank).collect::<Vec<_>>()),
    };
    format!("{who} {} {:.0} MB/s{to}: probably a checkpoint", does(writers.len(), "write"), rate / 1e6)
}

/// Of ranks on CPUs without a log that tells steps: after so long they need not be at their imports any more.
fn unseen(model: &Model, job: &Job, look: &Look) -> Option<String> {
    const IMPORTS: Duration = Duration::from_secs(60);
    let for_ = runs_for(model, job);
    let here = look.alive().count();
    let blind = model.gpus.is_empty() && model.comms_of(job).next().is_none() && look.alive().all(|r| r.gpu.is_none());
    let of_cpus = blind && here > 0 && here >= look.local_ranks && for_ >= IMPORTS;
    let words = || format!("{} for {}; no log has step lines, and no GPU is seen on this node", so_many(here, "rank", "run"), span(for_));
    of_cpus.then(words)
}

/// `the only process was killed by SIGKILL`, where it is known of all, and of all the same.
fn ended_alike(model: &Model, job: &Job) -> Option<String> {
    let codes: Vec<i32> = job.pids().map(|pid| model.processes.get(&pid)?.gone?.exit_code).collect::<Option<_>>()?;
    let first = *codes.first()?;
    let who = if codes.len() == 1 { "the only process".to_owned() } else { format!("each of {} processes", codes.len()) };
    codes.iter().all(|code| *code == first).then(|| format!("{who} {}", ended_words(first)))
}

/// How long its ranks have run.
fn runs_for(model: &Model, job: &Job) -> Duration {
    model.now.since(job.restarted_at.unwrap_or(job.first_seen))
}

fn start(model: &Model, job: &Job, look: &Look) -> (&'static str, String) {
    let seen = look.alive().count();
    let expected = look.local_ranks;
    if let Some((_, agent)) = crate::rules::lone_agent(model, job) {
        return ("launch", format!("{} ({})", agent.words(), span(model.now.since(job.first_seen))));
    }
    if seen < expected {
        return ("launch", format!("{seen} of {expected} ranks on this node are up"));
    }
    let comm = model.comms_of(job).max_by_key(|c| c.nranks);
    let for_s = span(runs_for(model, job));
    match comm {
        None if look.alive().all(|r| r.gpu.is_none()) => {
            let alive = |pid: &&u32| model.processes.get(pid).is_some_and(|p| p.is_alive());
            let others = job.unranked.iter().filter(alive).count();
            // Processes that nothing numbers hold GPUs, too.
            let holders = job.unranked.iter().filter(alive).filter(|pid| model.gpu_of_pid(**pid).is_some()).count();
            if holders > 0 {
                let a_gpu = if holders == 1 { "a GPU" } else { "GPUs" };
                return ("first step", format!("{} {a_gpu}, no step line yet ({for_s})", so_many(holders, "process", "hold")));
            }
            let who = if seen > 0 { so_many(seen, "rank", "run") } else { so_many(others, "process", "run") };
            // Of a node without GPUs, or without their driver, nothing tells imports from what comes behind them.
            match model.gpus.is_empty() {
                true => ("imports", format!("{who}, no step line yet, and no GPU is seen on this node ({for_s})")),
                false => ("imports", format!("{who}, none holds a GPU yet ({for_s})")),
            }
        }
        None if model.only_rank(job).is_some() => ("first step", format!("it holds a GPU, no step line yet ({for_s})")),
        None => (
            "NCCL initialisation",
            format!("{} {}, no communicator yet ({for_s})", so_many(seen, "rank", "hold"), if seen == 1 { "a GPU" } else { "GPUs" }),
        ),
        Some(c) if !c.missing.is_empty() => {
            ("NCCL initialisation", format!("communicator of {} ranks, {} of them missing", c.nranks, c.missing.len()))
        }
        Some(c) => {
            let made = look.log.as_ref().and_then(|log| log.step).map_or("no step yet".to_owned(), |step| format!("step {step} so far"));
            ("first step", format!("communicator of {} ranks is up, {made} ({for_s})", c.nranks))
        }
    }
}
