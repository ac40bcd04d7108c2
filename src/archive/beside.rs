//! The line above the proof of the cause that says why, where the proof itself only says that a process ended.

use super::again::{self, Proof};
use super::{Report, around, error_level};
use crate::base::{clean, mask};
use crate::logs::{known_by, prefix};
use crate::observe::evidence::Evidence;
use crate::rules::END_OF_A_RANK;

/// How far off it may be: programs say why before they end.
const ABOVE: usize = 10;
const LONGEST: usize = 300;
const LEAST_WORDS: usize = 3;

/// What is no sentence of a program: frames of stacks, hexadecimal dumps, the advice of launchers, NCCL's own remarks.
const NO_REASONS: [&str; 15] = [
    "NCCL INFO",
    "Warning: ",
    "File \"",
    "frame #",
    "[0x",
    "(0x",
    "may or may not",
    "Traceback",
    "raise ",
    "self.",
    "for more information",
    "If you ",
    "if you ",
    "help message",
    "Signal code",
];

/// The nearest line of the same writer that gives a reason in words that all programs use, and that nothing else in the report tells.
pub(super) fn of(report: &Report, proof: &Proof) -> Option<Evidence> {
    let cause = &report.findings[report.root_cause?];
    if cause.rule != END_OF_A_RANK || error_level::gives_reason(&cause.summary) {
        return None;
    }
    let told = |line: usize| {
        let is_it = |e: &Evidence| e.path.as_deref() == Some(proof.path) && e.line == Some(line as u64);
        report.findings.iter().flat_map(|f| &f.evidence).any(is_it)
    };
    let writer = prefix::peel(&text_of(proof.own())).origin;
    let mut secrets = mask::Lines::default();
    let near: Vec<(usize, String)> = proof.near(ABOVE, 0).map(|(at, line)| (at, secrets.line(&text_of(line)).into_owned())).collect();
    let says_why = |(at, line): &&(usize, String)| {
        let said = prefix::peel(line);
        *at < proof.line
            && !told(*at)
            && around::may_be_of(&writer, &said.origin)
            && is_reason(line.trim())
            && known_by(line).entry.is_none()
    };
    let (at, line) = near.iter().rfind(says_why)?;
    let words = clean::clip(prefix::peel(line).rest.trim(), LONGEST).into_owned();
    Some(Evidence { path: Some(proof.path.into()), line: Some(*at as u64), ..Evidence::of("line", words) })
}

fn text_of(line: &[u8]) -> String {
    clean::clean(&String::from_utf8_lossy(again::last_drawn(&line[..line.len().min(4096)]))).into_owned()
}

fn is_reason(said: &str) -> bool {
    said.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count() >= LEAST_WORDS
        && NO_REASONS.iter().all(|words| !said.contains(words))
        && error_level::says_why(said)
}

#[cfg(test)]
mod tests {
    use super::is_reason;

    #[test]
    fn a_sentence_of_the_program_is_a_reason_and_a_frame_or_an_advice_is_none() {
        for said in ["solver: the grid must be split over 4 ranks or more", "input deck has an unknown keyword, cannot continue"] {
            assert!(is_reason(said), "{said}");
        }
        for said in [
            "[ 0] /lib/libc.so.6(+0x45330)[0x7f4dd1a45330] invalid",
            "exactly when Open MPI kills them; you may or may not see output, it must be",
            "UserWarning: the value must be a number",
            "invalid",
            "reading the grid of 4 blocks",
            "INFO the optional package apex was not found",
            "WARNING: the option --foo is not supported any more and ignored",
            "step 100 the fp16 mode is not supported by this build, using fp32 instead",
            "residual norm should be below 1e-6 before output",
        ] {
            assert!(!is_reason(said), "{said}");
        }
    }
}
