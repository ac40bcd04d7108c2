//! Errors of one GPU that the driver reports one after the other: the first is what happened, the others are what came of it.
//!
//! A halt of its micro-controller is followed by page faults and by channels that are reset, an error of its memory by rows that are
//! replaced and by the advice to reset it. Errors of different GPUs, nodes or days have nothing to do with each other.

use super::causality::{chain, is_victim, place};
use crate::base::severity::{Role, Severity};
use crate::base::time::Stamp;
use crate::logs::catalog::Part;
use crate::rules::findings::Finding;
use regex::Regex;
use std::sync::LazyLock;
use std::time::Duration;

/// Errors so far apart are two, of one GPU too.
pub(super) const APART: Duration = Duration::from_secs(600);
/// What a job has survived for so long is not why something fails later.
pub(super) const SURVIVED: Duration = Duration::from_secs(120);
/// The driver prints what belongs to one error within this time, in any order.
const AT_ONCE: Duration = Duration::from_secs(5);

/// Gives all but the first of each chain the role of a consequence.
pub fn relate(findings: &mut [&mut Finding], outlived: &dyn Fn(&Finding) -> bool) {
    let mut order: Vec<usize> = (0..findings.len()).filter(|&at| is_of_driver(findings[at])).collect();
    order.sort_by(|&a, &b| (findings[a].since, place(findings[a])).cmp(&(findings[b].since, place(findings[b]))));
    let follows = |at: usize, of: usize| {
        let (first, f) = (&*findings[at], &*findings[of]);
        starts(first) && is_one_gpu(first, f) == Some(true) && gap(first, f) <= APART && !(gap(first, f) >= SURVIVED && outlived(first))
    };
    let is_consequence = |(nth, &of): (usize, &usize)| {
        let f = &*findings[of];
        let together = |&at: &usize| gap(findings[at], f).max(gap(f, findings[at])) <= AT_ONCE;
        match f.own_role {
            // What says of itself that it is harmless belongs to what came with it.
            Role::Context => f.part == Some(Part::Harmless) && order[..nth].iter().any(|at| together(at) && follows(*at, of)),
            _ if starts(f) => order[..nth].iter().any(|at| follows(*at, of)),
            _ => {
                order[..nth].iter().any(|at| follows(*at, of))
                    || order[nth..].iter().any(|at| *at != of && together(at) && follows(*at, of))
            }
        }
    };
    let consequences: Vec<usize> = order.iter().enumerate().filter(|one| is_consequence(*one)).map(|(_, &of)| of).collect();
    consequences.into_iter().for_each(|of| findings[of].role = Role::Cascade);
}

/// The driver reports it, or its counters do, and it is of a card that is known.
pub(super) fn is_of_driver(f: &Finding) -> bool {
    chain(f).from_kernel && (f.card.is_some() || f.machine && !f.gpus.is_empty())
}

/// Others may follow from it.
fn starts(f: &Finding) -> bool {
    f.severity >= Severity::Error && f.own_role == Role::Root && !is_victim(f)
}

/// Whether two findings are of one GPU; `None` where that is not known.
pub(super) fn is_one_gpu(a: &Finding, b: &Finding) -> Option<bool> {
    let have_none_in_common = |a: &[String], b: &[String]| !a.is_empty() && !b.is_empty() && a.iter().all(|x| !b.contains(x));
    if have_none_in_common(&a.hosts, &b.hosts) {
        return Some(false);
    }
    // Machines of one kind have their cards at the same addresses.
    let one_node = || a.machine && b.machine || !a.hosts.is_empty() && !b.hosts.is_empty() || place(a).0 == place(b).0;
    match (a.card, b.card) {
        (Some(a), Some(b)) if a != b => Some(false),
        (Some(_), Some(_)) => one_node().then_some(true),
        _ if a.gpus.is_empty() || b.gpus.is_empty() => None,
        _ => Some(a.gpus.iter().any(|gpu| b.gpus.contains(gpu))),
    }
}

/// From the last time that one was reported to the beginning of the other; nothing if that was before.
pub(super) fn gap(before: &Finding, after: &Finding) -> Duration {
    let uptimes = uptime(before).zip(uptime(after));
    match uptimes.filter(|_| !is_timed(before) && !is_timed(after) && place(before).0 == place(after).0) {
        // The clock begins anew when the machine does.
        Some((before_s, after_s)) if after_s < before_s && place(before) < place(after) => Duration::MAX,
        Some((before_s, after_s)) => Duration::from_secs_f64((after_s - before_s).max(0.0)),
        None => after.since.since(before.last_at.max(before.since)),
    }
}

/// When it happened is known, not only in which order it was printed.
pub(super) fn is_timed(f: &Finding) -> bool {
    f.machine || f.evidence.iter().any(|e| e.at.is_some())
}

/// Seconds since the machine came up, as the kernel prints them: `[93297.027938] NVRM: …`
fn uptime(f: &Finding) -> Option<f64> {
    static UPTIME: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\[ *([0-9]{1,10}\.[0-9]{1,9})\] ").expect("constant"));
    let text = &f.evidence.first()?.text;
    UPTIME.captures(text)?[1].parse().ok()
}

/// When it began, for what the kernel reports: it is read, or its clock is, up to some seconds late.
pub(super) fn began(f: &Finding) -> Stamp {
    if f.machine || f.card.is_some() { f.since.minus(AT_ONCE) } else { f.since }
}

/// The error of the driver that the failure of a rank follows from, where the kernel's log has no times and names that rank's process.
pub(super) fn behind(findings: &[&mut Finding], failure: usize) -> Option<usize> {
    let what = &findings[failure];
    let names_it = |f: &Finding| !is_timed(f) && f.ranks.iter().any(|rank| what.ranks.contains(rank));
    if is_of_driver(what) {
        return None;
    }
    findings.iter().position(|f| is_of_driver(f) && starts(f) && f.role == Role::Root && names_it(f))
}
