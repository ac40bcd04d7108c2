//! What a log warns of on the way, where the run goes on behind it: who reads such a line wants to know whether it stopped anything.

use super::error_level::{self, line::Line};
use super::inputs::Input;
use super::{Report, Verdict, again};
use crate::base::{clean, mask};
use crate::logs::catalog::{self, Scope};
use crate::logs::prefix::Level;
use crate::observe::evidence::Evidence;
use memchr::memmem;
use std::collections::HashMap;

/// Of more logs nobody reads what each warned of.
const MOST_LOGS: usize = 3;
/// Kinds that are told.
const MOST_TOLD: usize = 3;
/// Kinds that are counted.
const MOST_KINDS: usize = 64;
/// How far into a line its level is looked for, and what lines of one kind have in common without their digits.
const NEAR: usize = 200;
const LONGEST: usize = 140;
const LEAST: usize = 12;
/// Shapes of lines that are remembered; lines of more are passed by.
const MOST_SHAPES: usize = 4096;

/// What was warned of, and how many lines did.
#[derive(Debug)]
pub struct Warned {
    pub said: Evidence,
    pub times: u32,
}

/// The kinds of warnings that no finding speaks of, in the order of their lines; and how many more there are.
pub(super) fn of(report: &Report, inputs: &[Input]) -> (Vec<Warned>, usize) {
    let paths: Vec<&String> = report.model().files.values().map(|log| &log.info.path).collect();
    if report.root_cause.is_some() || matches!(report.verdict, Verdict::Fail | Verdict::Unknown) || paths.len() > MOST_LOGS {
        return (Vec::new(), 0);
    }
    let mut all: Vec<Warned> = Vec::new();
    for path in paths {
        let Some(text) = again::text_of(path, inputs) else { continue };
        let is_told = |line: u64| {
            let evidence = report.findings.iter().flat_map(|found| &found.evidence);
            evidence.clone().any(|said| said.line == Some(line) && said.path.as_ref() == Some(path))
        };
        all.extend(kinds(&text).into_iter().filter(|kind| !is_told(kind.line)).map(|kind| Warned {
            said: Evidence { path: Some(path.clone()), line: Some(kind.line), ..Evidence::of("line", kind.words) },
            times: kind.times,
        }));
    }
    let more = all.len().saturating_sub(MOST_TOLD);
    all.truncate(MOST_TOLD);
    (all, more)
}

struct OfAKind {
    line: u64,
    words: String,
    times: u32,
}

fn kinds(text: &[u8]) -> Vec<OfAKind> {
    // What is indented, or blank, goes on with the line above.
    let is_own = |line: &[u8]| line.first().is_some_and(|b| !b.is_ascii_whitespace());
    let last = text.split(|b| *b == b'\n').enumerate().filter(|(_, line)| is_own(line)).map(|(at, _)| at).last().unwrap_or(0);
    // Shapes of lines, and the kind that they are of, if they warn.
    let mut shapes: HashMap<Vec<u8>, Option<usize>> = HashMap::new();
    let mut kinds: Vec<OfAKind> = Vec::new();
    for (at, line) in text.split(|b| *b == b'\n').enumerate().take(last) {
        let line = again::last_drawn(line);
        let near = &line[..line.len().min(NEAR)];
        if memmem::find(near, b"arn").is_none() && memmem::find(near, b"WARN").is_none() && near.first() != Some(&b'W') {
            continue;
        }
        let shape: Vec<u8> = near.iter().copied().filter(|b| !b.is_ascii_digit()).collect();
        let known = shapes.get(&shape).copied();
        let kind = known.unwrap_or_else(|| {
            let words = warning(line)?;
            let is_same = |kind: &OfAKind| error_level::shape_of(&kind.words) == error_level::shape_of(&words);
            let same = kinds.iter().position(is_same);
            same.or_else(|| {
                if kinds.len() >= MOST_KINDS {
                    return None;
                }
                kinds.push(OfAKind { line: at as u64 + 1, words, times: 0 });
                Some(kinds.len() - 1)
            })
        });
        if known.is_none() {
            if shapes.len() >= MOST_SHAPES {
                break;
            }
            shapes.insert(shape, kind);
        }
        if let Some(kind) = kind {
            kinds[kind].times += 1;
        }
    }
    kinds
}

/// What a line warns of, by its level or as Python's module `warnings` prints it; none of what the catalogue knows.
fn warning(line: &[u8]) -> Option<String> {
    let text = String::from_utf8_lossy(&line[..line.len().min(8 * LONGEST)]);
    let text = mask::text(&text);
    let text = clean::clean(&text);
    let words = match error_level::is_python_warning(line) {
        true => of_python(&text)?.to_owned(),
        false => {
            let read = Line::of(&text);
            (read.level == Some(Level::Warning) && !read.is_inner).then(|| read.words())?
        }
    };
    let is_told = words.chars().filter(|c| c.is_alphabetic()).count() >= LEAST
        && catalog::find(Scope::Line, &text).is_none()
        && catalog::find(Scope::Nccl, &text).is_none();
    is_told.then(|| clean::clip(words.trim(), LONGEST).into_owned())
}

/// `UserWarning: the scheduler is called before the optimizer` behind its place.
fn of_python(text: &str) -> Option<&str> {
    let end = text.find("Warning: ")?;
    let class = text[..end].bytes().rev().take_while(u8::is_ascii_alphanumeric).count();
    text.get(end - class..)
}

#[cfg(test)]
mod tests {
    use super::kinds;

    fn told(log: &str) -> Vec<String> {
        kinds(log.as_bytes()).into_iter().map(|kind| format!("{}: {} ({})", kind.line, kind.words, kind.times)).collect()
    }

    #[test]
    fn what_a_run_warns_of_and_goes_on() {
        let log = "start\n/opt/lib/optim.py:138: UserWarning: the pace is set before it is known.\n  warnings.warn(\nstep 1\n\
                   2026-03-04 10:00:00,120 - WARNING - store - shard 7 is slow to open\nstep 2\n\
                   2026-03-04 10:00:09,311 - WARNING - store - shard 9 is slow to open\nstep 3\nwarmup steps: 5\nlearning rate warmed up\nstep 4\nstep 5\n";
        assert_eq!(told(log), ["2: UserWarning: the pace is set before it is known. (1)", "5: shard 7 is slow to open (2)"]);
        // The last words of a log may be why it ends.
        assert!(told("step 1\nstep 2\n[WARNING] the lease of this node runs out\n").is_empty());
    }
}
