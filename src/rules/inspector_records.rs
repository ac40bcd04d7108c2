//! Who is late. A collective ends for all ranks together and begins for each when it arrives: who arrives last has the shortest time
//! of its own, and the others have waited for it.

use super::{slow_steps, straggler};
use crate::base::severity::{Confidence, Severity};
use crate::formats::inspector::{Inspector, InspectorComm, Op, bucket, quantile};
use crate::model::Model;
use crate::model::job::Job;
use crate::rules::findings::Finding;
use std::collections::BTreeMap;

/// Less is no wait that matters, and healthy ranks that queue collectives are up to 0.3 ms apart for dozens of them.
const LEAST_WAIT_US: f64 = 1000.0;
/// How often a rank must be late before it is called so: start-up makes ranks late once or twice.
const LEAST_EVENTS: usize = 3;
/// Of the time that passed, what the others must have lost by waiting. A checkpoint now and then costs less.
const LEAST_LOSS: f64 = 0.1;

/// What the Inspector's files of a job show.
pub fn of_job(model: &Model, job: &Job) -> Vec<Finding> {
    let found = judge(&model.record_of(&job.id).inspectors);
    found.into_iter().take(MOST_JUDGED).map(|f| Finding { job: Some(job.id.clone()), ..f }).collect()
}

/// Nobody reads more.
const MOST_JUDGED: usize = 200;

/// What several files of one run show together; of a single file, only whether times changed in it.
fn judge(files: &[Inspector]) -> Vec<Finding> {
    let mut comms: BTreeMap<&str, Vec<(&Inspector, &InspectorComm)>> = BTreeMap::new();
    for file in files {
        for comm in &file.comms {
            let members = comms.entry(&comm.id).or_default();
            // A rank that has two files was started again: the later one counts.
            members.retain(|(_, known)| known.rank != comm.rank);
            members.push((file, comm));
        }
    }
    let mut out = Vec::new();
    for members in comms.values_mut() {
        members.sort_by_key(|(_, comm)| comm.rank);
        match members.as_slice() {
            [(file, comm)] => out.extend(changed(file, comm)),
            several => out.extend(late(several)),
        }
    }
    out
}

/// The same collective as several ranks measured it.
struct Joined<'a> {
    /// Index of the member, its operation.
    ops: Vec<(usize, &'a Op)>,
    at_us: u64,
    /// Until the last one had ended.
    longest_us: f64,
}

/// A collective at which somebody was late.
struct Event<'a> {
    /// Which of the joined collectives, in order of time.
    at: usize,
    late: Vec<usize>,
    wait_us: f64,
    /// Of the one that was late last.
    op: &'a Op,
}

fn late(members: &[(&Inspector, &InspectorComm)]) -> Vec<Finding> {
    let joined = join(members);
    let events = events(&joined);
    let mut out = Vec::new();
    let mut late_of: Vec<Vec<&Event>> = vec![Vec::new(); members.len()];
    for event in &events {
        event.late.iter().for_each(|member| late_of[*member].push(event));
    }
    for ((file, comm), mine) in members.iter().zip(&late_of) {
        let Some(run) = longest_run(mine) else { continue };
        let (Some(first), Some(last)) = (run.first(), run.last()) else { continue };
        let lost_us: f64 = run.iter().map(|event| event.wait_us).sum();
        let passed_us = passed(&joined, first, last);
        let part = if passed_us > 0.0 { (lost_us / passed_us).min(1.0) } else { 0.0 };
        if run.len() < LEAST_EVENTS || part < LEAST_LOSS {
            continue;
        }
        let mut waits: Vec<f64> = run.iter().map(|event| event.wait_us).collect();
        let wait_ms = quantile(&mut waits, 0.5).unwrap_or_default() / 1000.0;
        let collectives = last.at - first.at + 1;
        let whole = members.len() >= comm.n_ranks as usize;
        let since = if first.at == 0 && comm.ops_forgotten > 0 { "from before" } else { "from" };
        let summary = format!(
            "rank {} is late: the others wait {wait_ms:.0} ms for it at {} of {collectives} collectives, {since} {} {} on",
            comm.rank,
            run.len(),
            first.op.name,
            first.op.sn
        );
        let confidence = if whole && run.len() >= 5 { Confidence::Certain } else { Confidence::Likely };
        let mut why =
            format!("{:.0} % of the time is lost by waiting; its own collectives are short because it arrives last", part * 100.0);
        if !whole {
            why.push_str(&format!(" (records of {} of {} ranks)", members.len(), comm.n_ranks));
        }
        let mut found = straggler::RULE.weighed(Severity::Warning, confidence, summary).because(why);
        found.ranks = vec![comm.rank];
        found.hosts = file.hostname.iter().cloned().collect();
        found.next = file.pid.map(|pid| format!("py-spy dump --nonblocking --pid {pid}"));
        let text = format!("{}: {} {} took {:.0} µs", file.process(), first.op.name, first.op.sn, first.op.exec_us);
        found = found.proved("line", &file.path, Some(first.op.line), text);
        let victims = joined.get(first.at).into_iter().flat_map(|joined| &joined.ops);
        for (victim, op) in victims.filter(|(victim, _)| !first.late.contains(victim)).take(2) {
            let Some((theirs, waiting)) = members.get(*victim) else { continue };
            let text = format!("rank {} waited: {} {} took {:.0} µs", waiting.rank, op.name, op.sn, op.exec_us);
            found = found.proved("line", &theirs.path, Some(op.line), text);
        }
        out.push(found);
    }
    out
}

/// Collectives that at least two ranks have measured, in order of time.
fn join<'a>(members: &[(&'a Inspector, &'a InspectorComm)]) -> Vec<Joined<'a>> {
    let mut by_number: BTreeMap<(&str, u64), Vec<(usize, &Op)>> = BTreeMap::new();
    for (member, (_, comm)) in members.iter().enumerate() {
        for op in &comm.ops {
            let ops = by_number.entry((&op.name, op.sn)).or_default();
            // Of the same number the last one counts.
            match ops.last_mut() {
                Some((known, last)) if *known == member => *last = op,
                _ => ops.push((member, op)),
            }
        }
    }
    let several = by_number.into_values().filter(|ops| ops.len() > 1 && ops.iter().all(|(_, op)| op.bytes == ops[0].1.bytes));
    let mut joined: Vec<Joined> = several
        .map(|ops| Joined {
            at_us: ops.iter().map(|(_, op)| op.written_us).min().unwrap_or(0),
            longest_us: ops.iter().map(|(_, op)| op.exec_us).fold(0.0, f64::max),
            ops,
        })
        .collect();
    joined.sort_by_key(|joined| joined.at_us);
    joined
}

fn events<'a>(joined: &[Joined<'a>]) -> Vec<Event<'a>> {
    let shortest = |joined: &Joined| joined.ops.iter().map(|(_, op)| op.exec_us).fold(f64::INFINITY, f64::min);
    let mut typical: BTreeMap<(&str, u64), Vec<f64>> = BTreeMap::new();
    for joined in joined {
        let (_, op) = joined.ops[0];
        typical.entry((&op.name, bucket(op.bytes))).or_default().push(shortest(joined));
    }
    let typical: BTreeMap<_, f64> =
        typical.into_iter().filter_map(|(group, mut values)| Some((group, quantile(&mut values, 0.5)?))).collect();
    let mut out = Vec::new();
    for (at, joined) in joined.iter().enumerate() {
        let (_, any) = joined.ops[0];
        let usual = typical.get(&(any.name.as_str(), bucket(any.bytes))).copied().unwrap_or_default();
        let shortest = shortest(joined);
        let longest = joined.longest_us;
        if longest - shortest < LEAST_WAIT_US.max(3.0 * usual) {
            continue;
        }
        let border = shortest + (longest - shortest) / 4.0;
        let (late, waiting): (Vec<_>, Vec<_>) = joined.ops.iter().partition(|(_, op)| op.exec_us < border);
        // One that is early is no fault of the many.
        if late.len() > waiting.len() {
            continue;
        }
        let mut waits: Vec<f64> = waiting.iter().map(|(_, op)| op.exec_us - shortest).collect();
        let Some(wait_us) = quantile(&mut waits, 0.5) else { continue };
        let Some((_, op)) = late.iter().min_by(|a, b| a.1.exec_us.total_cmp(&b.1.exec_us)) else { continue };
        out.push(Event { at, late: late.iter().map(|(member, _)| *member).collect(), wait_us, op });
    }
    out
}

/// Events that follow each other about as often as they usually do. What happened once at start-up is not among them.
fn longest_run<'a, 'b>(events: &'b [&'a Event<'a>]) -> Option<&'b [&'a Event<'a>]> {
    // Records may be missing between two: then their numbers tell how far apart they are.
    let gap = |a: &Event, b: &Event| {
        let numbers = if a.op.name == b.op.name { b.op.sn.saturating_sub(a.op.sn) } else { 0 };
        numbers.max((b.at - a.at) as u64) as f64
    };
    let mut gaps: Vec<f64> = events.windows(2).map(|pair| gap(pair[0], pair[1])).collect();
    let most = (quantile(&mut gaps, 0.5).unwrap_or_default() * 4.0).max(8.0);
    let runs = events.chunk_by(|a, b| gap(a, b) <= most);
    let lost = |run: &[&Event]| run.iter().map(|event| event.wait_us).sum::<f64>();
    runs.max_by(|a, b| lost(a).total_cmp(&lost(b)))
}

/// Time from the first wait to the end of the last, µs.
fn passed(joined: &[Joined], first: &Event, last: &Event) -> f64 {
    let Some(run) = joined.get(first.at..=last.at) else { return 0.0 };
    let (Some(begin), Some(end)) = (run.first(), run.last()) else { return 0.0 };
    let busy: f64 = run.iter().map(|joined| joined.longest_us).sum();
    if begin.at_us == 0 {
        return busy;
    }
    (end.at_us.saturating_sub(begin.at_us) as f64 + first.wait_us).max(busy)
}

/// Each side of a change must have this many operations.
const LEAST_OPS: usize = 20;

/// One rank alone: whether its collectives of one kind became slower. It cannot tell whose fault that is.
fn changed(file: &Inspector, comm: &InspectorComm) -> Option<Finding> {
    let mut groups: BTreeMap<(&str, u64), Vec<&Op>> = BTreeMap::new();
    for op in &comm.ops {
        groups.entry((&op.name, bucket(op.bytes))).or_default().push(op);
    }
    let busiest = groups.into_values().max_by_key(Vec::len)?;
    let at = split(&busiest.iter().map(|op| op.exec_us).collect::<Vec<_>>())?;
    let mean = |ops: &[&Op]| ops.iter().map(|op| op.exec_us).sum::<f64>() / ops.len() as f64;
    let median = |ops: &[&Op]| quantile(&mut ops.iter().map(|op| op.exec_us).collect::<Vec<_>>(), 0.5).unwrap_or_default();
    let (before, after) = (mean(&busiest[..at]), mean(&busiest[at..]));
    // A single long one moves the mean, and a slow drift the order: both must agree.
    if after < before * 1.5 || after - before < LEAST_WAIT_US / 4.0 || median(&busiest[at..]) < median(&busiest[..at]) * 1.25 {
        return None;
    }
    let op = busiest[at];
    let summary = format!(
        "{} on rank {} takes longer from about {} {} on: {:.2} ms on average, {:.2} ms before",
        op.name,
        comm.rank,
        op.name,
        op.sn,
        after / 1000.0,
        before / 1000.0
    );
    let found = slow_steps::RULE.weighed(Severity::Info, Confidence::Possible, summary).because(
        "one rank's records cannot tell who is slow: a rank that waits for another has long collectives. Add the files of the other ranks",
    );
    let text = format!("{}: {} {} took {:.0} µs", file.process(), op.name, op.sn, op.exec_us);
    Some(found.proved("line", &file.path, Some(op.line), text))
}

/// Where values differ most from those before, if that is no chance. Only their order counts: a few may be a thousand times the others.
fn split(values: &[f64]) -> Option<usize> {
    let n = values.len();
    if n < 2 * LEAST_OPS {
        return None;
    }
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut places = vec![0.0; n];
    for (place, at) in order.into_iter().enumerate() {
        places[at] = place as f64;
    }
    let sum: f64 = places.iter().sum();
    let mut left = 0.0;
    let mut best: Option<(f64, f64, usize)> = None;
    for (i, place) in places.iter().enumerate() {
        let (before, after) = (i as f64, (n - i) as f64);
        if i >= LEAST_OPS && n - i >= LEAST_OPS {
            let apart = (sum - left) / after - left / before;
            // Of places of one and the same kind this is about 1, seldom above 4.
            let certainty = apart / (n as f64 * (1.0 / (12.0 * before) + 1.0 / (12.0 * after)).sqrt());
            let between = before * after * apart * apart;
            if best.is_none_or(|(most, _, _)| between > most) {
                best = Some((between, certainty, i));
            }
        }
        left += place;
    }
    best.filter(|(_, certainty, _)| *certainty > 4.5).map(|(_, _, at)| at)
}
