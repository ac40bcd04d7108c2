//! The lines around the proof of the cause, as the log has them: what an engineer would open the file for.

use super::again::{self, Proof};
use crate::base::words::shape;
use crate::base::{clean, mask};
use crate::logs::Origin;
use crate::logs::prefix;
use crate::observe::evidence::Evidence;
use memchr::memrchr;
use std::collections::{BTreeMap, HashSet};

/// Lines that are told on each side, how far off they may be, and bytes of each.
const MOST: usize = 4;
const NEAR: usize = 16;
const LONGEST: usize = 240;
const LEAST_LETTERS: usize = 3;
/// Lines above the proof in which a private key may begin.
const SECRET: usize = 240;

/// Up to four lines above the proof and four below it, in their order, of the process that wrote it as far as lines tell. What differs from a
/// line that is told already in numbers alone is left out.
pub(super) fn of(proof: &Proof) -> Vec<Evidence> {
    let own = whole(proof.own());
    let writer = prefix::peel(&own).origin;
    let mut told = HashSet::from([shape(&own)]);
    // What is secret may stand in several lines, of which the first is further above.
    let mut mask = mask::Lines::default();
    let masked: BTreeMap<usize, String> = proof.near(SECRET, NEAR).map(|(at, line)| (at, mask.line(&whole(line)).into_owned())).collect();
    let mut take = |lines: &mut dyn Iterator<Item = (&usize, &String)>| {
        let says = |line: &str| prefix::peel(line).rest.chars().filter(|c| c.is_alphabetic()).count() >= LEAST_LETTERS;
        let said = lines.take(NEAR).filter(|(_, line)| says(line) && may_be_of(&writer, &prefix::peel(line).origin));
        said.filter(|(_, line)| told.insert(shape(line))).take(MOST).map(|(at, line)| (*at, line.clone())).collect::<Vec<_>>()
    };
    let mut lines = take(&mut masked.range(..proof.line).rev());
    lines.extend(take(&mut masked.range(proof.line + 1..)));
    lines.sort_unstable_by_key(|(at, _)| *at);
    let evidence = |(at, line): (usize, String)| {
        let text = clean::clip(line.trim_end(), LONGEST).into_owned();
        Evidence { path: Some(proof.path.into()), line: Some(at as u64), ..Evidence::of("line", text) }
    };
    lines.into_iter().map(evidence).collect()
}

/// What is read of a line. Of a longer one the last word is left out, which may be half of a secret.
const MOST_BYTES: usize = 4096;

fn whole(line: &[u8]) -> String {
    let line = again::last_drawn(line);
    let head = &line[..line.len().min(MOST_BYTES)];
    let head = if head.len() < line.len() { &head[..memrchr(b' ', head).unwrap_or(0)] } else { head };
    clean::clean(&String::from_utf8_lossy(head)).into_owned()
}

/// Lines that do not say who wrote them may be anybody's.
pub(super) fn may_be_of(writer: &Origin, other: &Origin) -> bool {
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

    #[test]
    fn the_lines_of_a_private_key_are_not_told() {
        let log = "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNzaC1rZXktdjEAAAAABG5vbmUAAAAEbm9uZQ\nAAAAC3NzaC1lZDI1NTE5AAAAIJxAbCdEfGhIjKlM\n-----END OPENSSH PRIVATE KEY-----\nKeyError: 7\n";
        let lines = told(log, 5).join("\n");
        assert!(!lines.contains("AAAAC3Nza") && !lines.contains("b3Blbn"), "{lines}");
    }
}
