//! Where the ranks called the collective that timed out, by the stacks that their watchdogs print: ranks of one process group that wait at
//! different places of their program did not make the same calls.

use super::collective_mismatch;
use crate::base::severity::Confidence;
use crate::base::units::counted;
use crate::base::words::{all_words, rank_words};
use crate::logs::{PythonCall, WorkStack};
use crate::model::job_record::Told;
use crate::rules::findings::Finding;
use std::collections::BTreeMap;

/// Operations of which each rank has a part of its own, and calls it where it pleases.
const OF_ROLES: &[&str] = &["send", "recv", "batch_", "broadcast", "scatter", "gather", "reduce", "barrier", "object"];
/// Operations that all ranks call alike, whatever stands in their names.
const OF_ALL: &[&str] = &["all_reduce", "all_gather", "all_to_all", "reduce_scatter"];
/// More different places are nobody's mistake.
const MOST_PLACES: usize = 4;

/// What each rank has printed last, of the present run.
pub(super) type Stacks<'a> = BTreeMap<u32, &'a Told<WorkStack>>;
type Place<'a> = (&'a WorkStack, Vec<u32>);

/// The ranks by where they called, those of the first rank first.
fn places<'a>(stacks: &Stacks<'a>) -> Vec<Place<'a>> {
    let mut places: Vec<Place> = Vec::new();
    for (rank, told) in stacks {
        let stack = &told.what;
        match places.iter().position(|(known, _)| *known == stack) {
            Some(at) => places[at].1.push(*rank),
            None if places.len() > MOST_PLACES => {}
            None => places.push((stack, vec![*rank])),
        }
    }
    places
}

fn is_of_roles(stack: &WorkStack) -> bool {
    let has = |names: &[&str]| names.iter().any(|name| stack.op.contains(name));
    has(OF_ROLES) && !has(OF_ALL) || stack.op.contains("object")
}

/// `all_reduce in sync_grads (train.py:88)`, by the innermost call of the program itself.
pub(super) fn words(stacks: &Stacks) -> Option<String> {
    let places = places(stacks);
    let [(stack, ranks)] = places.as_slice() else { return None };
    let call = stack.calls.iter().find(|call| call.is_own).or(stack.calls.first())?;
    let who = if ranks.len() == 1 { rank_words(ranks) } else { format!("all {} that print it", counted(ranks.len() as u64, "rank")) };
    Some(format!("{who} called it by {} in {} ({})", stack.op, call.function, call.place))
}

/// Ranks that wait at different places of their program. `groups` is how many process groups have reported: who waits in another group waits
/// elsewhere for a reason.
pub(super) fn apart(all: &Stacks, groups: usize) -> Option<Finding> {
    let mut places = places(all);
    if places.len() < 2 || places.len() > MOST_PLACES || groups > 1 || places.iter().any(|(stack, _)| is_of_roles(stack)) {
        return None;
    }
    let stacks: Vec<&WorkStack> = places.iter().map(|(stack, _)| *stack).collect();
    // A stack that was cut has lost its outermost calls: then nothing is known to be common.
    let outer = Some(common(&stacks)).filter(|outer| *outer > 0)?;
    // The call in which each is, right below the one in which they part.
    let parting: Option<Vec<&PythonCall>> = stacks.iter().map(|stack| inner(stack, outer, 0)).collect();
    let same_function = parting.as_ref().filter(|calls| calls.iter().all(|call| call.function == calls[0].function));
    let depth = usize::from(same_function.is_some());
    let below = |stack: &'_ WorkStack| inner(stack, outer, depth).or_else(|| inner(stack, outer, 0)).cloned();
    let told: BTreeMap<u32, String> = places
        .iter()
        .filter_map(|(stack, ranks)| {
            let call = below(stack)?;
            Some((ranks[0], format!("in {} of {} ({})", stack.op, call.function, call.place)))
        })
        .collect();
    if told.len() < places.len() {
        return None;
    }
    places.sort_by_key(|(_, ranks)| (ranks.len(), ranks[0]));
    let said: Vec<String> = places
        .iter()
        .enumerate()
        .map(|(i, (_, ranks))| {
            let verb = if ranks.len() == 1 { " waits" } else { " wait" };
            format!("{}{} {}", rank_words(ranks), if i == 0 { verb } else { "" }, told[&ranks[0]])
        })
        .collect();
    let summary = format!("{}: they did not make the same calls", all_words(&said));
    let (fewest, others) = (&places[0].1, places[1..].iter().map(|(_, ranks)| ranks.len()).sum::<usize>());
    let differs = if places.len() == 2 && fewest.len() < others { fewest.clone() } else { Vec::new() };
    let mut found =
        collective_mismatch::RULE.finding("stacks".to_owned(), summary, all.values().map(|told| told.proof.at).min()?.unwrap_or_default());
    found.confidence = Confidence::Likely;
    let parts = same_function.map(|calls| {
        let mut at: Vec<String> = calls.iter().map(|call| call.place.clone()).collect();
        at.dedup();
        format!("; they part in {} ({})", calls[0].function, all_words(&at))
    });
    found.why = format!("the stacks that their watchdogs print{}", parts.unwrap_or_default());
    found.next = Some("look there for a branch, an exception or a retry that not all ranks take alike".into());
    found.evidence = places.iter().filter_map(|(_, ranks)| Some(all.get(ranks.first()?)?.proof.clone())).collect();
    found.ranks = differs;
    Some(found)
}

/// How many of the outermost calls all have in common.
fn common(stacks: &[&WorkStack]) -> usize {
    let at = |stack: &WorkStack, n: usize| stack.calls.iter().rev().nth(n).cloned();
    (0..).take_while(|n| at(stacks[0], *n).is_some_and(|call| stacks.iter().all(|s| at(s, *n).as_ref() == Some(&call)))).count()
}

/// The call so many below the outer ones.
fn inner(stack: &WorkStack, outer: usize, depth: usize) -> Option<&PythonCall> {
    stack.calls.iter().rev().nth(outer + depth)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::evidence::Evidence;

    fn stack(op: &str, calls: &[(&str, u32)]) -> WorkStack {
        let call =
            |(function, line): &(&str, u32)| PythonCall { function: (*function).into(), place: format!("fit.py:{line}"), is_own: true };
        WorkStack { op: op.into(), calls: calls.iter().map(call).collect() }
    }

    fn told(stacks: &[WorkStack]) -> Vec<Told<WorkStack>> {
        let told = |what: &WorkStack| Told { what: what.clone(), proof: Evidence::of("line", "stack"), file: 1, run: 0 };
        stacks.iter().map(told).collect()
    }

    fn parted(stacks: &[WorkStack], groups: usize) -> Option<Finding> {
        apart(&(0..).zip(&told(stacks)).collect(), groups)
    }

    #[test]
    fn ranks_that_wait_at_different_places_part_in_a_function() {
        let saves = stack("all_reduce", &[("agree", 40), ("save", 31), ("main", 9), ("run", 90)]);
        let trains = stack("all_gather_into_tensor", &[("gather", 70), ("step", 55), ("main", 12), ("run", 90)]);
        let found = parted(&[trains.clone(), trains.clone(), saves.clone()], 1).expect("they part");
        assert_eq!(
            found.summary,
            "rank 2 waits in all_reduce of save (fit.py:31) and ranks 0 and 1 in all_gather_into_tensor of step (fit.py:55): they did not make \
             the same calls"
        );
        assert_eq!(found.ranks, [2]);
        assert!(found.why.ends_with("; they part in main (fit.py:12 and fit.py:9)"), "{}", found.why);
        // Nobody differs from the other alone.
        assert_eq!(parted(&[trains.clone(), saves.clone()], 1).expect("they part").ranks, [0; 0]);
        // Each group has its own calls.
        assert_eq!(parted(&[trains.clone(), saves], 2), None);
        assert_eq!(parted(&[trains.clone(), trains.clone()], 1), None);
        assert_eq!(
            words(&(0..).zip(&told(&[trains.clone(), trains])).collect()).as_deref(),
            Some("all 2 ranks that print it called it by all_gather_into_tensor in gather (fit.py:70)")
        );
    }

    #[test]
    fn who_sends_calls_elsewhere_than_who_receives() {
        let first = stack("broadcast", &[("give", 40), ("main", 9)]);
        let others = stack("broadcast", &[("take", 44), ("main", 9)]);
        assert_eq!(parted(&[first, others], 1), None);
        let of_objects = |line| stack("all_gather_object", &[("share", line), ("main", 9)]);
        assert_eq!(parted(&[of_objects(4), of_objects(6)], 1), None);
    }
}
