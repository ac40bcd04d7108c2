//! What explains what: of all findings of one job the first that nothing explains is the cause, and the others follow from it.
//!
//! Knows no rule and no text by name: what a finding is in a chain stands in its rule ([`Chain`]) and in the catalogue's entry of its text.

use super::driver_chain::{self, APART, SURVIVED, began};
use crate::base::severity::{Role, Severity};
use crate::base::time::{Stamp, span};
use crate::logs::catalog::Part;
use crate::logs::error_words;
use crate::model::Model;
use crate::model::topology::Topology;
use crate::rules::area::Area;
use crate::rules::chain::{Chain, Place};
use crate::rules::findings::Finding;
pub(super) use crate::rules::is_messenger;
use crate::rules::{Implies, rule};
use std::cmp::Reverse;
use std::time::Duration;

/// A job that makes steps so long after something does not fail because of it.
const OUTLIVED: Duration = Duration::from_secs(120);
/// A rank that does not come so soon after an exception of its own does not come because of it.
const JUST_BEFORE: Duration = Duration::from_secs(60);
/// Lines from a wait that was given up to the last frame of the exception that came of it.
const JUST_ABOVE: u64 = 40;
/// Python takes so long to end after an exception.
const SOON_ENDED: Duration = Duration::from_secs(10);
/// What was warned of fails so soon.
const SOON_AFTER: Duration = Duration::from_secs(600);
/// What the kernel reported so long before anything else failed is of another day.
const OF_ANOTHER_DAY: Duration = Duration::from_secs(12 * 3600);

/// Gives each finding of one job its role, and says which of them is the cause.
///
/// The cause is the earliest failure that is not by itself a consequence (a closed connection, a SIGTERM of the launcher). Ranks that
/// waited in vain for somebody are messengers: theirs is the cause only if nothing else is known.
///
/// `outlived` says of a finding that the job made steps for long after it: that is not why it fails now. `near` says of a fault and of
/// ranks that are slow that it is theirs.
pub fn assign(
    findings: &mut [&mut Finding],
    outlived: &dyn Fn(&Finding) -> bool,
    near: &dyn Fn(&Finding, &Finding) -> bool,
) -> Option<usize> {
    for f in findings.iter_mut() {
        f.role = f.own_role;
    }
    reasons_come_first(findings);
    set_old_apart(findings);
    driver_chain::relate(findings, outlived);
    let cause = first_failure(findings, outlived).map(|c| better_explained(findings, c)).map(|c| what_stood(findings, c));
    let cause = cause.map(|c| driver_chain::behind(findings, c).unwrap_or(c)).map(|c| worse_fault(findings, c));
    let cause = cause.map(|c| told_first(findings, c)).map(|c| warned_of(findings, c, outlived));
    give_roles(findings, cause, outlived);
    name_its_rank(findings, cause);
    warnings_follow(findings);
    ends_follow(findings);
    consequences_of_others(findings);
    let slowed_by = slow_downs(findings, near);
    cause.or(slowed_by).or_else(|| suspect(findings)).or_else(|| worst(findings))
}

/// Whether a job whose last step was then made steps for long after a finding.
pub fn outlived(last_step_at: Option<Stamp>) -> impl Fn(&Finding) -> bool {
    move |f| last_step_at.is_some_and(|at| at > f.last_at.max(f.since).plus(OUTLIVED))
}

pub(super) fn chain(f: &Finding) -> &'static Chain {
    rule(f.rule).map_or(&Chain::PLAIN, |r| &r.chain)
}

fn implies(f: &Finding) -> Implies {
    crate::rules::implied(f)
}

/// It ends a job, or keeps it from going on.
pub(super) fn is_failure(f: &Finding) -> bool {
    f.severity >= Severity::Error && f.role != Role::Context && implies(f) != Implies::Slow
}

pub(super) fn is_judgement(f: &Finding) -> bool {
    chain(f).place == Place::Judgement
}

pub(super) fn is_victim(f: &Finding) -> bool {
    matches!(f.part, Some(Part::Victim | Part::Teardown))
}

/// An end that is known by an exit code alone: nothing says why.
fn is_bare_end(f: &Finding) -> bool {
    crate::rules::is_by_exit_code(f)
}

/// It says why a process ended: by its rule, or as a text of what made the ranks stand, which a check of PyTorch raises as an exception.
fn says_why(f: &Finding) -> bool {
    chain(f).says_why || is_judgement(f) && f.entry.is_some() && f.part == Some(Part::Cause)
}

/// A scheduler's word that a process ended, which yields to whoever knows more of it.
fn is_reported_end(f: &Finding) -> bool {
    f.entry.is_some_and(|entry| entry.yields_to.contains(&f.rule))
}

/// Where its first evidence stands: of two that came at once the first in its file is first.
pub(super) fn place(f: &Finding) -> (Option<&str>, Option<u64>) {
    f.evidence.first().map_or((None, None), |e| (e.path.as_deref(), e.line))
}

/// A line without a time of its own stands in one file below another one.
fn stands_below(f: &Finding, above: &Finding) -> bool {
    !driver_chain::is_timed(f) && place(f).0.is_some() && place(f).0 == place(above).0 && place(f).1 > place(above).1
}

fn earliest(findings: &[&mut Finding], which: impl Fn(&Finding) -> bool) -> Option<usize> {
    const SECOND: Duration = Duration::from_secs(1);
    let all = || findings.iter().enumerate().filter(|(_, f)| which(f));
    let (i, first) = all().min_by_key(|(_, f)| (began(f), place(f)))?;
    // Of one second, written by a logger that leaves out what is less, the line above it is the one before it.
    let is_whole = began(first).0 % SECOND.as_nanos() as i64 == 0 && began(first) > Stamp::default();
    let is_above = |f: &Finding| place(f).0.is_some() && place(f).0 == place(first).0 && place(f).1 < place(first).1;
    let within = |f: &Finding| is_whole && is_above(f) && began(f).since(began(first)) < SECOND;
    all().filter(|(_, f)| within(f)).min_by_key(|(_, f)| place(f)).map(|(i, _)| i).or(Some(i))
}

fn first_failure(findings: &[&mut Finding], outlived: &dyn Fn(&Finding) -> bool) -> Option<usize> {
    let messengers = || findings.iter().filter(|f| is_failure(f) && is_messenger(f));
    let waited = messengers().map(|f| f.since).filter(|since| *since > Stamp::default()).min();
    let is_root = |f: &Finding| is_failure(f) && matches!(f.role, Role::Root | Role::Cascade) && !is_victim(f);
    // That a process ended is no cause where its own words say why, or where a messenger ended it.
    let same = |a: &Finding, b: &Finding| a.ranks.is_empty() || b.ranks.is_empty() || a.ranks.iter().any(|r| b.ranks.contains(r));
    // Of two at one time only lines of one file tell which came first.
    let behind = |f: &Finding, m: &Finding| began(f) == began(m) && place(f).0 == place(m).0 && place(f).1 > place(m).1;
    let gave_up_before = |f: &Finding| messengers().any(|m| began(m) < began(f) || behind(f, m) || stands_below(f, m));
    // A job that stands is ended by somebody in the end.
    let is_asked_after = |f: &Finding| chain(f).place == Place::Request && gave_up_before(f);
    // A watchdog ends its process by SIGABRT, and what reports that end may be printed before its own words.
    let is_watchdogs = |end: &Finding| {
        let soon = |m: &Finding| !driver_chain::is_timed(end) || m.since.since(end.since) <= JUST_BEFORE;
        crate::rules::is_abort(end) && messengers().any(|m| chain(m).place == Place::Messenger && soon(m))
    };
    // Who ended the whole job said so before the launcher saw the first of them end.
    let is_on_purpose = |end: &Finding| {
        let ended_it = |m: &Finding| m.part == Some(Part::Messenger) && m.rule == end.rule && behind(end, m);
        end.rule == crate::rules::END_OF_A_RANK && end.signature.is_none() && messengers().any(|m| ended_it(m))
    };
    // An exception that only hands on what another line says, above it or just below.
    let is_handed_on = |end: &Finding| {
        let soon = |f: &Finding| f.since.since(end.since) <= JUST_BEFORE;
        // Who gave up after it may have waited for this one.
        let waited_for_it = |f: &Finding| is_messenger(f) && (began(f), place(f)) > (began(end), place(end));
        let says = |f: &Finding| is_root(f) && !waited_for_it(f) && f.signature.is_some() && chain(f).place == Place::Failure;
        let only_hands_on =
            chain(end).is_of_its_writer && end.signature.is_none() && error_words::hands_on(error_words::without_who(&end.summary));
        only_hands_on && findings.iter().any(|f| f.no != end.no && says(f) && same(f, end) && soon(f))
    };
    // An exception ends its process with code 1, or in abort(); whom another signal ended had not died of it.
    let is_launchers_word = |end: &Finding| {
        let of_exception = end.summary.ends_with("exit code 1") || end.summary.contains("SIGABRT");
        end.rule == crate::rules::END_OF_A_RANK && end.signature.is_none() && of_exception
    };
    let names_one_of = |f: &Finding, end: &Finding| f.ranks.iter().any(|r| end.ranks.contains(r));
    // Who waited for a rank that had failed is ended by its own watchdog, by SIGABRT and without a word of why.
    let is_wordless_abort =
        |end: &Finding| crate::rules::is_abort(end) && end.rule == crate::rules::END_OF_A_RANK && end.signature.is_none();
    let fails_before = |f: &Finding, end: &Finding| {
        let of_another = !f.ranks.is_empty() && !names_one_of(f, end);
        of_another && chain(f).is_of_its_writer && (!driver_chain::is_timed(f) || began(f) <= began(end))
    };
    let is_explained = |end: &Finding| {
        if is_watchdogs(end) || is_on_purpose(end) || is_handed_on(end) {
            return true;
        }
        is_reported_end(end) && (gave_up_before(end) || findings.iter().any(|f| is_root(f) && says_why(f) && same(f, end)))
            || is_bare_end(end) && findings.iter().any(|f| is_root(f) && says_why(f) && same(f, end))
            // A launcher's clock stands in front of the end that it reports; what its rank said of it may have no time at all.
            || is_launchers_word(end) && findings.iter().any(|f| is_root(f) && says_why(f) && names_one_of(f, end))
            || is_wordless_abort(end) && findings.iter().any(|f| is_root(f) && says_why(f) && fails_before(f, end))
            || messengers().any(|m| chain(m).explains.iter().any(|e| e.rule == end.rule))
    };
    // What a machine reports without a time was printed before all that stands below it; when the wait began, only the watchdog says.
    let stands_above_all = |f: &Finding| {
        let above = |m: &Finding| place(f).0.is_some() && place(f).0 == place(m).0 && place(f).1 < place(m).1;
        chain(f).from_kernel && f.evidence.iter().all(|e| e.at.is_none()) && messengers().all(|m| above(m))
    };
    // Something hard explains what the messengers say only if it came first.
    let never_after = |f: &Finding, m: &Finding| {
        m.rule != crate::rules::END_OF_A_RANK && !names_one_of(f, m) && f.entry.is_some_and(|entry| entry.explains.contains(&m.rule))
    };
    let is_never_after = |f: &Finding| messengers().all(|m| never_after(f, m));
    let first = |f: &Finding| waited.is_none_or(|waited| began(f) <= waited) || stands_above_all(f) || is_never_after(f);
    let hard = |f: &Finding| is_root(f) && !is_messenger(f) && (!is_judgement(f) || says_why(f));
    let explains = |f: &Finding| hard(f) && first(f) && !is_explained(f) && !is_asked_after(f);
    earliest(findings, |f| explains(f) && !outlived(f))
        .or_else(|| earliest(findings, |f| is_root(f) && is_judgement(f)))
        .or_else(|| earliest(findings, |f| is_root(f) && is_messenger(f)))
        .or_else(|| earliest(findings, |f| is_root(f) && !outlived(f)))
        .or_else(|| earliest(findings, is_root))
}

/// Whoever is missed because it failed is not missed without a reason; whoever was killed for its memory did not just end.
fn better_explained(findings: &[&mut Finding], cause: usize) -> usize {
    let what = &findings[cause];
    // A process that is reported as dead after the others gave up waiting was ended by its own watchdog.
    let gave_up = |m: &Finding| is_failure(m) && is_messenger(m);
    let came_after = |f: &Finding| is_reported_end(f) && findings.iter().any(|m| gave_up(m) && stands_below(f, m));
    let explains = |f: &Finding| {
        let of_it = chain(f).explains.iter().find(|e| e.rule == what.rule);
        let ranks = || !f.ranks.is_empty() && f.ranks.iter().all(|r| what.ranks.contains(r));
        // What looked survived a moment ago, because others went on, is not when its rank does not come any more.
        let just_before = || {
            f.severity >= Severity::Warning
                && f.own_role == Role::Root
                && f.since <= what.since
                && what.since.since(f.last_at) <= JUST_BEFORE
        };
        let fails = is_failure(f) || of_it.is_some_and(|e| e.of_its_ranks) && just_before();
        fails && !is_victim(f) && !came_after(f) && of_it.is_some_and(|e| !e.of_its_ranks || ranks())
    };
    findings.iter().position(|f| explains(f)).unwrap_or(cause)
}

/// A job that stands is ended by somebody in the end: that it stood is the cause, even where it is not certain.
fn what_stood(findings: &[&mut Finding], cause: usize) -> usize {
    let stood = |f: &Finding| is_judgement(f) && f.severity >= Severity::Warning && f.role == Role::Root;
    match chain(findings[cause]).place {
        Place::Request => findings.iter().position(|f| stood(f)).unwrap_or(cause),
        _ => cause,
    }
}

/// Of errors of the driver that have nothing to do with each other, and where nothing else failed: one of the hardware is worth more than
/// one that a program may have made.
fn worse_fault(findings: &[&mut Finding], cause: usize) -> usize {
    let what = &findings[cause];
    let by_program = |f: &Finding| driver_chain::is_of_driver(f) && Area::of(f).is_none();
    if !by_program(what) || findings.iter().any(|f| is_failure(f) && !chain(f).from_kernel) {
        return cause;
    }
    let is_worse = |f: &Finding| {
        let by_itself = is_failure(f) && f.role == Role::Root && driver_chain::is_of_driver(f);
        by_itself && Area::of(f).is_some() && !are_related(what, f)
    };
    earliest(findings, is_worse).unwrap_or(cause)
}

/// One end of one rank, which the kernel's log and the launcher both report: who came first has been told as the cause, and stays it.
fn told_first(findings: &[&mut Finding], cause: usize) -> usize {
    const ONE_END: Duration = Duration::from_secs(10);
    let what = &findings[cause];
    let apart = |f: &Finding| f.since.since(what.since).max(what.since.since(f.since));
    let same = |f: &Finding| {
        let one_rank = f.rule == what.rule && f.ranks == what.ranks && what.ranks.len() == 1;
        one_rank && f.no < what.no && !f.machine && is_failure(f) && f.role != Role::Context && apart(f) <= ONE_END
    };
    findings.iter().position(|f| same(f)).filter(|_| what.machine).unwrap_or(cause)
}

/// What a library warned of before, in a text that the catalogue knows as the cause of what failed: it is the cause, and as grave as that. Of
/// another process, of another host, of long before and what the job went on after it is not.
fn warned_of(findings: &mut [&mut Finding], cause: usize, outlived: &dyn Fn(&Finding) -> bool) -> usize {
    let what = findings[cause].clone();
    let names_it = |f: &Finding| {
        f.entry
            .is_some_and(|entry| entry.causes.iter().any(|id| Some(*id) == what.signature || *id == what.rule && what.signature.is_none()))
    };
    // An exception that the end of the log cuts says only that there was one: what its process waited for in vain just before says more.
    let is_nameless = what.signature.is_none() && chain(&what).is_of_its_writer && what.part == Some(Part::Messenger);
    let near = |f: &Finding| place(&what).1.zip(place(f).1).is_some_and(|(below, above)| below - above <= JUST_ABOVE);
    let is_its = |f: &Finding| what.ranks.is_empty() || f.ranks.iter().any(|rank| what.ranks.contains(rank));
    // Of one second, written by a logger that leaves out what is less, the line above it is the one before it.
    let is_above = |f: &Finding| place(f).0.is_some() && place(f).0 == place(&what).0 && place(f).1 < place(&what).1;
    let gave_up = |f: &Finding| is_nameless && chain(f).says_who_waited && is_messenger(f) && is_above(f) && near(f) && is_its(f);
    // The driver tells of one moment in any order.
    let are_of_driver = |f: &Finding| chain(f).from_kernel && chain(&what).from_kernel;
    let are_timed = |f: &Finding| are_of_driver(f) || driver_chain::is_timed(f) && driver_chain::is_timed(&what);
    // The state of a host may stand in a file of its own, without a time.
    let is_state = |f: &Finding| f.hosts.is_empty() && Area::of(f) == Some(Area::Host);
    let begins_before = |f: &Finding| began(f) <= began(&what) || is_above(f) && began(f).since(began(&what)) < Duration::from_secs(1);
    let is_before = |f: &Finding| match are_timed(f) {
        true => begins_before(f) && began(&what).since(began(f)) <= SOON_AFTER,
        false if place(f).0 == place(&what).0 => place(f).1 <= place(&what).1,
        false => is_state(f),
    };
    let is_hers = |f: &Finding| {
        let of_rank = f.ranks.is_empty() || what.ranks.is_empty() || f.ranks.iter().any(|r| what.ranks.contains(r));
        of_rank && f.hosts.iter().all(|host| what.hosts.contains(host))
    };
    let warned = earliest(findings, |f| f.no != what.no && (names_it(f) || gave_up(f)) && is_before(f) && is_hers(f) && !outlived(f));
    let Some(warned) = warned else { return cause };
    findings[warned].severity = what.severity;
    warned
}

fn give_roles(findings: &mut [&mut Finding], cause: Option<usize>, outlived: &dyn Fn(&Finding) -> bool) {
    let Some(cause) = cause else { return };
    findings[cause].role = Role::Root;
    let what = findings[cause].clone();
    for (i, f) in findings.iter_mut().enumerate() {
        if i == cause || f.role != Role::Root || !is_failure(f) {
            continue;
        }
        if f.since < what.since && outlived(f) {
            f.role = Role::Context;
        } else if are_related(&what, f) {
            f.role = Role::Cascade;
        }
    }
}

/// The entry of gfortran's runtime, whose text ends its process.
const ONCE_A_PROCESS: &str = "fortran-signal";

/// An end that a library puts into words names no rank; where a launcher reports one end, by its exit code, it is that one's.
fn name_its_rank(findings: &mut [&mut Finding], cause: Option<usize>) {
    let Some(cause) = cause else { return };
    let of = &findings[cause];
    if !of.ranks.is_empty() || of.own_role != Role::Root {
        return;
    }
    let is_end = |f: &Finding| of.entry.is_some() && f.rule == of.rule && f.signature.is_none() && !is_of_another_process(of, f);
    // Each process prints it once: of several the launcher names only the one that it saw first.
    if of.signature == Some(ONCE_A_PROCESS) && of.count > 1 {
        // It was counted before, when there were fewer.
        let text = of.summary.split_once(" processes: ").map_or(of.summary.as_str(), |(_, text)| text);
        findings[cause].summary = format!("{} processes: {text}", of.count);
        return;
    }
    // Who does not come any more right after somebody failed is who failed.
    let is_missed = |f: &Finding| {
        let soon = f.since >= of.since && f.since.since(of.since) <= JUST_BEFORE;
        soon && chain(of).is_of_its_writer && chain(of).explains.iter().any(|e| e.rule == f.rule && e.of_its_ranks)
    };
    // By exit codes: who ended first is who raised it. Where others lost their connection, they lost it to that one.
    let ended_of_it = |f: &Finding| {
        // A line without a time of its own stands in its place.
        let soon = !driver_chain::is_timed(of) || f.since.since(of.since).max(of.since.since(f.since)) <= SOON_ENDED;
        let is_its_own = of.entry.is_none() || !chain(of).from_kernel && of.part == Some(Part::Cause) && chain(of).says_why;
        // By the word of a launcher, too, where the error is one that its writer does not survive.
        let by_launcher = of.entry.is_some() && f.rule == crate::rules::END_OF_A_RANK && f.signature.is_none();
        soon && chain(of).is_of_its_writer && is_its_own && (is_bare_end(f) || by_launcher)
    };
    // The driver names the process whose channel it stopped for the same error.
    let is_its_xid = |f: &Finding| {
        let soon = f.since >= of.since && f.since.since(of.since) <= SOON_ENDED;
        soon && of.rule == crate::rules::CUDA_ERROR && f.machine && chain(f).from_kernel && f.ranks.len() == 1
    };
    let lost_it = findings.iter().any(|f| f.part == Some(Part::Victim) && f.role == Role::Cascade);
    let first_of = |f: &Finding| f.ranks.iter().copied().take(if lost_it && ended_of_it(f) { 1 } else { usize::MAX }).collect::<Vec<u32>>();
    let told = findings.iter().filter(|f| f.role == Role::Cascade && (is_end(f) || is_missed(f) || ended_of_it(f) || is_its_xid(f)));
    let mut ranks = told.flat_map(|f| first_of(f));
    let Some(rank) = ranks.next().filter(|rank| ranks.all(|other| other == *rank)) else { return };
    findings[cause].ranks = vec![rank];
    findings[cause].summary = format!("rank {rank}: {}", findings[cause].summary);
}

/// Both name their process, and not the same: `[node-0:23442]` of Open MPI's handler, `pid 4257` of its launcher.
fn is_of_another_process(of: &Finding, f: &Finding) -> bool {
    fn number(text: &str) -> Option<u32> {
        text.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
    }
    let own = of.evidence.first().and_then(|e| number(e.text.strip_prefix('[')?.split_once(':')?.1));
    let its = f.summary.split_once("(pid ").and_then(|(_, tail)| number(tail));
    own.zip(its).is_some_and(|(own, its)| own != its)
}

/// Whether one may have to do with the other. Two faults of machines have not, where they are of different hosts, of different GPUs long
/// apart, or where the job went on for minutes in between.
fn are_related(cause: &Finding, f: &Finding) -> bool {
    let from_kernel = |f: &Finding| chain(f).from_kernel || f.entry.is_some_and(|entry| entry.source.starts_with("kernel "));
    let is_fault = |f: &Finding| f.machine || from_kernel(f);
    let differ = |a: &[String], b: &[String]| !a.is_empty() && !b.is_empty() && a.iter().all(|x| !b.contains(x));
    let apart = driver_chain::gap(cause, f).max(driver_chain::gap(f, cause));
    let joined = joins(cause, f);
    let gpus_differ = !joined && driver_chain::is_one_gpu(cause, f) == Some(false);
    let elsewhere = differ(&cause.hosts, &f.hosts) || gpus_differ || cause.subject != f.subject && apart > APART;
    // That what is computed is wrong may come of it; nothing proves it.
    let unproved = |a: &Finding, b: &Finding| driver_chain::is_of_driver(a) && chain(b).is_of_numbers;
    if unproved(cause, f) || unproved(f, cause) {
        return false;
    }
    let survived = cause.machine && f.since.since(cause.last_at) >= SURVIVED;
    !(survived || is_fault(cause) && is_fault(f) && elsewhere)
}

/// A link has two ends, and a GPU that is lost leaves those of others: what joins GPUs is of several.
fn joins(cause: &Finding, f: &Finding) -> bool {
    let explained = chain(cause).joins_gpus || chain(cause).explains.iter().any(|e| e.rule == f.rule);
    chain(f).joins_gpus && explained || chain(cause).joins_gpus && is_victim(f)
}

/// What is only a warning follows from a failure of another kind that came before it.
fn warnings_follow(findings: &mut [&mut Finding]) {
    let fails = |f: &Finding| f.severity >= Severity::Error && f.own_role == Role::Root && implies(f) == Implies::Failed;
    let failures: Vec<Finding> = findings.iter().filter(|f| fails(f)).map(|f| (**f).clone()).collect();
    for f in findings.iter_mut().filter(|f| f.role == Role::Root && !is_failure(f) && f.witness.is_text()) {
        let before = |cause: &Finding| {
            let survived = cause.machine && f.since.since(cause.last_at) >= SURVIVED;
            cause.no < f.no && cause.rule != f.rule && !survived && are_related(cause, f)
        };
        if failures.iter().any(before) {
            f.role = Role::Cascade;
        }
    }
}

/// What the driver reports as a consequence, but not of anything that is known here, does not follow from the cause either.
fn consequences_of_others(findings: &mut [&mut Finding]) {
    let roots: Vec<Finding> = findings.iter().filter(|f| f.role == Role::Root && is_failure(f)).map(|f| (**f).clone()).collect();
    let is_its = |f: &Finding| f.role == Role::Cascade && f.own_role == Role::Cascade && driver_chain::is_of_driver(f);
    for f in findings.iter_mut().filter(|f| is_its(f)) {
        if !roots.is_empty() && !roots.iter().any(|root| are_related(root, f)) {
            f.role = Role::Root;
        }
    }
}

/// Steps became slow when something began that slows them: then that is the cause, unless something else that is not explained makes the
/// job slow, too. What is known by traffic alone, and began after the steps became slow, follows from them.
fn slow_downs(findings: &mut [&mut Finding], near: &dyn Fn(&Finding, &Finding) -> bool) -> Option<usize> {
    let is_slow = |f: &Finding| f.role == Role::Root && f.severity >= Severity::Warning && implies(f) == Implies::Slow;
    let slow: Vec<usize> = (0..findings.len()).filter(|&at| is_slow(findings[at])).collect();
    let why = |slow: &Finding| {
        let may = |f: &Finding| {
            f.role == Role::Root
                && f.severity >= Severity::Warning
                && chain(f).explains.iter().any(|e| e.rule == slow.rule)
                && chain(f).slows.explains(f.since, slow.since)
                && near(f, slow)
        };
        earliest(findings, may)
    };
    let causes: Vec<Option<usize>> = slow.iter().map(|&at| why(findings[at])).collect();
    let explained = causes.iter().all(Option::is_some);
    for &at in &slow {
        let since = findings[at].since;
        if explained {
            findings[at].role = Role::Cascade;
        } else {
            let follows = |f: &&mut &mut Finding| f.role == Role::Root && chain(f).slows.follows(f.since, since);
            findings.iter_mut().filter(follows).for_each(|f| f.role = Role::Cascade);
        }
    }
    causes.into_iter().flatten().min_by_key(|&at| began(findings[at])).filter(|_| explained)
}

/// Whether a fault of a port is that of ranks that are slow: where they are known one by one, it is if the port is near their GPUs.
pub fn near(model: &Model) -> impl Fn(&Finding, &Finding) -> bool {
    move |fault, slow| {
        if slow.ranks.is_empty() && slow.gpus.is_empty() {
            return true;
        }
        let topology = Topology::of(model);
        let of = |nic: &str, port: &str| port.strip_prefix(nic).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
        let near: Vec<&str> = slow.gpus.iter().flat_map(|gpu| topology.near_nics(*gpu)).collect();
        fault.ports.iter().any(|port| near.iter().any(|nic| of(nic, port)))
    }
}

/// That a process ended with an exit code follows from whatever says why.
fn ends_follow(findings: &mut [&mut Finding]) {
    if findings.iter().any(|f| f.role == Role::Root && says_why(f)) {
        findings.iter_mut().filter(|f| f.role == Role::Root && is_bare_end(f)).for_each(|f| f.role = Role::Cascade);
    }
}

/// Where there are only consequences, or only warnings: what may explain a consequence is worth more than the consequence.
fn suspect(findings: &[&mut Finding]) -> Option<usize> {
    let warns = |f: &Finding| f.severity >= Severity::Warning && f.role == Role::Root && !is_victim(f);
    earliest(findings, |f| warns(f) && implies(f) != Implies::Nothing)
}

fn worst(findings: &[&mut Finding]) -> Option<usize> {
    let worst = findings.iter().map(|f| f.severity).filter(|s| *s >= Severity::Warning).max()?;
    let of_worst = findings.iter().enumerate().filter(|(_, f)| f.severity == worst && f.role != Role::Context);
    of_worst.min_by_key(|(_, f)| (f.role, f.since, place(f))).map(|(i, _)| i)
}

/// Why a scheduler ended a job says more than that it did.
fn reasons_come_first(findings: &mut [&mut Finding]) {
    let all: Vec<&'static str> = findings.iter().filter_map(|f| f.entry).flat_map(|entry| entry.explains).copied().collect();
    findings.iter_mut().filter(|f| f.signature.is_some_and(|s| all.contains(&s))).for_each(|f| f.role = Role::Teardown);
}

/// What the kernel reported long before anything else failed is of another day.
fn set_old_apart(findings: &mut [&mut Finding]) {
    let timed = |f: &&&mut Finding| is_failure(f) && f.since > Stamp::default();
    let first = findings.iter().filter(timed).filter(|f| !chain(f).from_kernel).map(|f| f.since).min();
    let Some(first) = first else { return };
    for f in findings.iter_mut().filter(|f| chain(f).from_kernel && f.evidence.iter().any(|e| e.at.is_some())) {
        let before = first.since(f.since);
        if before > OF_ANOTHER_DAY {
            f.role = Role::Context;
            f.severity = f.severity.min(Severity::Warning);
            f.note = Some(format!("{} before the job failed", span(before)));
        }
    }
}

/// The order of a report: the cause first, then what it explains, the worst first.
pub fn order(findings: &mut Vec<Finding>, cause: Option<usize>) -> Option<usize> {
    let mut at: Vec<usize> = (0..findings.len()).collect();
    at.sort_by_key(|&i| {
        let f = &findings[i];
        (Some(i) != cause, f.role, Reverse(f.severity), f.since, place(f))
    });
    let mut slots: Vec<Option<Finding>> = std::mem::take(findings).into_iter().map(Some).collect();
    findings.extend(at.into_iter().filter_map(|i| slots[i].take()));
    cause.map(|_| 0)
}
