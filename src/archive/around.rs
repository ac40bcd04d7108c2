//! The lines around the proof of the cause, as the log has them: what an engineer would open the file for.

use super::again::{self, Proof};
use crate::base::words::shape;
use crate::base::{clean, mask};
use crate::logs::Origin;
use crate::logs::prefix;
use crate::observe::evidence::Evidence;
use std::collections::HashSet;

/// Lines that are told on each side, how far off they may be, and bytes of each.
const MOST: usize = 4;
const NEAR: usize = 16;
const LONGEST: usize = 240;
const LEAST_LETTERS: usize = 3;

/// Up to four lines above the proof and four below it, in their order, of the process that wrote it as far as lines tell. What differs from a
/// line that is told already in numbers alone is left out.
pub(super) fn of(proof: &Proof) -> Vec<Evidence> {
    let own = whole(proof.own());
    let writer = prefix::peel(&own).origin;
    let mut told = HashSet::from([shape(&own)]);
    let mut take = |lines: &mut dyn Iterator<Item = (usize, &[u8])>| {
        let said = lines.take(NEAR).map(|(at, line)| (at, whole(line)));
        let said = said.filter(|(_, line)| line.chars().filter(|c| c.is_alphabetic()).count() >= LEAST_LETTERS);
        let said = said.filter(|(_, line)| may_be_of(&writer, &prefix::peel(line).origin));
        said.filter(|(_, line)| told.insert(shape(line))).take(MOST).collect::<Vec<_>>()
    };
    let mut lines = take(&mut proof.above());
    lines.extend(take(&mut proof.below().enumerate().map(|(i, line)| (proof.line + 1 + i, line))));
    lines.sort_unstable_by_key(|(at, _)| *at);
    let evidence = |(at, line): (usize, String)| {
        let text = clean::clip(&mask::text(line.trim_end()), LONGEST).into_owned();
        Evidence { path: Some(proof.path.into()), line: Some(at as u64), ..Evidence::of("line", text) }
    };
    lines.into_iter().map(evidence).collect()
}

fn whole(line: &[u8]) -> String {
    clean::clean(&String::from_utf8_lossy(again::last_drawn(line))).into_owned()
}

/// Lines that do not say who wrote them may be anybody's.
fn may_be_of(writer: &Origin, other: &Origin) -> bool {
    let alike = |own: Option<u32>, other: Option<u32>| own.is_none() || other.is_none() || own == other;
    let is_host = |host: &String| writer.host.as_ref().is_none_or(|own| own == host);
    other.host.as_ref().is_none_or(is_host)
        && alike(writer.rank, other.rank)
        && alike(writer.local_rank, other.local_rank)
        && alike(writer.pid, other.pid)
}

#[cfg(test)]
mod tests {
    use super::super::again::Proof;

    fn told(log: &str, line: usize) -> Vec<String> {
        let lines = super::of(&Proof::of("train.log", line, log));
        lines.iter().map(|e| format!("{}: {}", e.line.unwrap_or_default(), e.text)).collect()
    }

    #[test]
    fn lines_of_other_ranks_and_repeated_ones_are_left_out() {
        let log = "[rank0]: opening shard 7\n[rank1]: opening shard 9\n\n[rank0]: shard 7 is cut\n[rank0]: at byte 4096\n[rank0]: at byte 8192\nstep 4\n";
        assert_eq!(told(log, 4), ["1: [rank0]: opening shard 7", "5: [rank0]: at byte 4096", "7: step 4"]);
    }

    #[test]
    fn at_most_four_lines_stand_on_each_side() {
        let log: String = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"].join(" shard\n");
        let lines = told(&log, 6);
        assert_eq!(lines.len(), 8);
        assert_eq!((lines[0].as_str(), lines[7].as_str()), ("2: two shard", "10: ten shard"));
    }
}
