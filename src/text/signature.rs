//! Texts that are known: what a line means, whether it is a cause, and what to do. The tables are in [`crate::text::signatures`]; this
//! finds the row that a text belongs to.
//!
//! **To add a text**: a row in the table of the program that prints it, with an example line, which a test reads. If the gate does not
//! let the line through yet, the same test says so.

use super::signatures::TABLES;
use crate::findings::{Role, Severity};
use aho_corasick::AhoCorasick;
use regex::Regex;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::{LazyLock, OnceLock};

/// One text, or a few of one meaning, of one program.
#[derive(Debug)]
pub struct Signature {
    /// Stable; in lower case with dashes, as in the references of NCCL and its kin: `shm-no-space`.
    pub id: &'static str,
    /// The rule that its findings stand under: an id of [`crate::rules::RULES`].
    pub rule: &'static str,
    pub severity: Severity,
    pub part: Part,
    /// Any of them. Matched anywhere in the text, case-sensitively: `*` stands for anything, `#` for digits, `^` in front and `$` at the
    /// end for the ends of the text; `\` takes a sign's meaning away. Of several signatures that match, the one with the longest
    /// literal text counts.
    pub texts: &'static [&'static str],
    /// In a sentence or two: what happened.
    pub means: &'static str,
    /// What to do now, most useful first. A command where there is one.
    pub next: &'static str,
    /// Who prints it and where: `NCCL misc/socket.cc`.
    pub source: &'static str,
    /// `all`, `2.24+`, `2.16 to 2.23`, `PyTorch 2.6+`
    pub versions: &'static str,
    /// Whole lines as logs have them, prefix included. Each is found as this signature.
    pub examples: &'static [&'static str],
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

/// Texts are kept up to here.
pub const MAX_TEXT: usize = 600;

/// What a text tells in a chain of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// It may be where things began.
    Cause,
    /// Whoever says it waited for somebody else: a cause only while nothing harder is known.
    Messenger,
    /// Something else failed first, often on another rank or host.
    Victim,
    /// The job is being ended, by its own programs.
    Teardown,
    /// It looks bad and is not, or is worth knowing only.
    Harmless,
}

impl Part {
    pub fn role(self) -> Role {
        match self {
            Part::Cause | Part::Messenger => Role::Root,
            Part::Victim => Role::Cascade,
            Part::Teardown => Role::Teardown,
            Part::Harmless => Role::Context,
        }
    }

    pub fn as_str(self) -> &'static str {
        match self {
            Part::Cause => "may be the cause",
            Part::Messenger => "tells of a wait for somebody else",
            Part::Victim => "follows from another failure",
            Part::Teardown => "part of the job's end",
            Part::Harmless => "harmless",
        }
    }
}

/// Which texts a table is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Messages of NCCL and its plugins, what stands behind `NCCL WARN ` or `NCCL INFO `. NCCL prints the same text on either level.
    Nccl,
    /// Lines of everybody else without their prefixes, the kernel log included.
    Line,
}

/// Signatures of one kind of program.
pub struct Table {
    /// `InfiniBand and RoCE`
    pub title: &'static str,
    pub scope: Scope,
    pub rows: &'static [Signature],
}

/// All signatures, with their tables.
pub fn all() -> impl Iterator<Item = (&'static Table, &'static Signature)> {
    TABLES.iter().flat_map(|t| t.rows.iter().map(move |s| (*t, s)))
}

pub fn by_id(id: &str) -> Option<(&'static Table, &'static Signature)> {
    all().find(|(_, s)| s.id == id)
}

/// Rules and signatures that say the same as this text, and more.
pub fn yields_to(id: &str) -> &'static [&'static str] {
    match id {
        "child-failed" => &["rank-exited"],
        "nccl-test-failure" => &["nccl-tests-failed"],
        "gdr-off-for-nic" => &["transport-below-topology"],
        "pg-dump-start" | "pg-dump-first" => &["*", "collective-timeout"],
        _ => &[],
    }
}

/// Texts that follow from this one, and what is to be noted on them.
pub fn leads_to(id: &str) -> Option<[(&'static str, &'static str); 2]> {
    const REFUSED: &str = "before it, connections to another rank were refused again and again";
    (id == "sock-connect-retry").then_some([("nccl-internal-error", REFUSED), ("nccl-system-error", REFUSED)])
}

/// Texts that only say what this one says the reason of.
pub fn explains(id: &str) -> &'static [&'static str] {
    match id {
        "slurm-time-limit" | "slurm-preempted" | "slurm-signal" | "slurm-node-failure" | "slurm-oom" => &["slurm-cancelled"],
        _ => &[],
    }
}

/// The signature of a text: of all that match the one with most literal text; the first in the tables if there are several.
pub fn find(scope: Scope, text: &str) -> Option<&'static Signature> {
    thread_local!(static NEWEST: RefCell<VecDeque<Found>> = const { RefCell::new(VecDeque::new()) });
    NEWEST.with_borrow_mut(|newest| {
        if let Some(found) = newest.iter().find(|f| f.scope == scope && f.text == text) {
            return found.signature;
        }
        let index = match scope {
            Scope::Nccl => &NCCL,
            Scope::Line => &LINE,
        };
        let signature = index.find(text);
        let mut found = if newest.len() < NEWEST_KEPT { None } else { newest.pop_front() }.unwrap_or_default();
        found.text.clear();
        found.text.push_str(text);
        (found.scope, found.signature) = (scope, signature);
        newest.push_back(found);
        signature
    })
}

/// What was looked up: each reader and rule that a line meets asks for the same text again.
struct Found {
    scope: Scope,
    text: String,
    signature: Option<&'static Signature>,
}

impl Default for Found {
    fn default() -> Self {
        Found { scope: Scope::Line, text: String::new(), signature: None }
    }
}

const NEWEST_KEPT: usize = 4;

static NCCL: LazyLock<Index> = LazyLock::new(|| Index::of(Scope::Nccl));
static LINE: LazyLock<Index> = LazyLock::new(|| Index::of(Scope::Line));

/// Patterns by their longest literal piece.
struct Index {
    pieces: AhoCorasick,
    /// In the order of `pieces`.
    patterns: Vec<Pattern>,
}

struct Pattern {
    signature: &'static Signature,
    text: &'static str,
    /// Literal bytes.
    weight: usize,
    /// `None` while it has not been needed; a pattern of one piece without anchors needs none.
    regex: OnceLock<Regex>,
    plain: bool,
}

impl Index {
    fn of(scope: Scope) -> Index {
        let rows = TABLES.iter().filter(|t| t.scope == scope).flat_map(|t| t.rows);
        let (mut patterns, mut pieces) = (Vec::new(), Vec::new());
        for signature in rows {
            for text in signature.texts {
                let tokens = tokens(text);
                let literals = tokens.iter().filter_map(|t| if let Token::Text(t) = t { Some(t.as_str()) } else { None });
                let weight = literals.clone().map(str::len).sum();
                pieces.push(literals.max_by_key(|l| l.len()).unwrap_or("").to_owned());
                patterns.push(Pattern { signature, text, weight, regex: OnceLock::new(), plain: tokens.len() == 1 });
            }
        }
        Index { pieces: AhoCorasick::new(&pieces).expect("signature texts"), patterns }
    }

    fn find(&self, text: &str) -> Option<&'static Signature> {
        thread_local!(static SEEN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
        let mut best: Option<&Pattern> = None;
        SEEN.with_borrow_mut(|seen| {
            seen.clear();
            for hit in self.pieces.find_overlapping_iter(text) {
                let no = hit.pattern().as_u32();
                let pattern = &self.patterns[no as usize];
                if best.is_some_and(|b| b.weight >= pattern.weight) || seen.contains(&no) {
                    continue;
                }
                seen.push(no);
                if pattern.plain || pattern.regex.get_or_init(|| regex_of(pattern.text)).is_match(text) {
                    best = Some(pattern);
                }
            }
        });
        best.map(|p| p.signature)
    }
}

#[derive(Debug, PartialEq)]
enum Token {
    Text(String),
    Anything,
    Digits,
    Start,
    End,
}

fn tokens(pattern: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut chars = pattern.chars().enumerate().peekable();
    while let Some((i, c)) = chars.next() {
        let literal = match c {
            '*' => {
                out.push(Token::Anything);
                continue;
            }
            '#' => {
                out.push(Token::Digits);
                continue;
            }
            '^' if i == 0 => {
                out.push(Token::Start);
                continue;
            }
            '$' if chars.peek().is_none() => {
                out.push(Token::End);
                continue;
            }
            '\\' => chars.next().map_or('\\', |(_, c)| c),
            c => c,
        };
        match out.last_mut() {
            Some(Token::Text(text)) => text.push(literal),
            _ => out.push(Token::Text(literal.into())),
        }
    }
    out
}

fn regex_of(pattern: &str) -> Regex {
    let parts: Vec<String> = tokens(pattern)
        .into_iter()
        .map(|t| match t {
            Token::Text(text) => regex::escape(&text),
            Token::Anything => ".*?".into(),
            Token::Digits => "[0-9]+".into(),
            Token::Start => "^".into(),
            Token::End => r"\s*$".into(),
        })
        .collect();
    Regex::new(&format!("(?s){}", parts.concat())).expect("signature text")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::text::{Reader, What, gate};
    use std::collections::BTreeSet;

    #[test]
    fn a_pattern_is_what_it_says() {
        let is = |pattern: &str, text: &str| regex_of(pattern).is_match(text);
        assert!(is("Call to * failed", "x Call to bind failed : y"));
        assert!(!is("^Call to", "x Call to bind"));
        assert!(is("task #: Out", "task 12: Out") && !is("task #: Out", "task a: Out"));
        assert!(is(r"\*\*\* STEP #", "*** STEP 12.0"));
        assert!(is("^Killed$", "Killed ") && !is("^Killed$", "Killed x"));
        assert_eq!(tokens("a^b$c"), [Token::Text("a^b$c".into())]);
    }

    #[test]
    fn every_row_is_whole() {
        let mut ids = BTreeSet::new();
        for (table, s) in all() {
            assert!(ids.insert(s.id), "{} stands twice", s.id);
            assert!(s.id.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-'), "{}", s.id);
            assert!(crate::rules::rule(s.rule).is_some(), "{}: no rule {}", s.id, s.rule);
            assert!(!s.texts.is_empty() && !s.examples.is_empty(), "{}: no text or no example", s.id);
            assert!(s.means.len() > 15 && s.next.len() > 10 && !s.source.is_empty() && !s.versions.is_empty(), "{}: a field is thin", s.id);
            assert!(s.part != Part::Harmless || s.severity <= Severity::Warning, "{}: harmless and {:?}", s.id, s.severity);
            for text in s.texts {
                let longest = tokens(text).iter().map(|t| if let Token::Text(t) = t { t.len() } else { 0 }).max().unwrap_or(0);
                assert!(longest >= 5, "{}: {text:?} has no piece of text that is worth looking for", s.id);
                regex_of(text);
            }
            let _ = table.title;
        }
    }

    /// Each example goes the whole way: through the gate, off with its prefix, to its signature and no other.
    #[test]
    fn every_example_is_found_as_what_it_is() {
        let mut wrong = Vec::new();
        for (table, s) in all() {
            for example in s.examples {
                if let Err(why) = check(table.scope, s, example) {
                    wrong.push(format!("{}: {why}\n    {example}", s.id));
                }
            }
            for text in s.texts {
                let shown = s.examples.iter().any(|e| regex_of(text.trim_start_matches('^')).is_match(e));
                if !shown {
                    wrong.push(format!("{}: no example shows {text:?}", s.id));
                }
            }
        }
        assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
    }

    fn check(scope: Scope, s: &Signature, example: &str) -> Result<(), String> {
        let mut events = Vec::new();
        let mut reader = Reader::default();
        for line in example.split('\n') {
            if !reader.is_inside() && gate::classify(line.as_bytes()) == gate::Class::Noise {
                return Err(format!("the gate lets {line:?} not through"));
            }
            reader.line(line, &mut events);
        }
        reader.idle(&mut events);
        let texts = events.iter().filter_map(|e| match &e.what {
            What::Signed { signature, .. } => Some(Ok(*signature)),
            What::NcclWarn { text, .. } => Some(Err((Scope::Nccl, text.clone()))),
            What::CudaError { text } | What::CudaOom { text, .. } => Some(Err((Scope::Line, text.clone()))),
            What::Exception(e) => Some(Err((Scope::Line, format!("{}: {}", e.class, e.message)))),
            _ => None,
        });
        let found: Vec<&str> = texts
            .filter_map(|t| match t {
                Ok(signature) => Some(signature),
                Err((scope, text)) => find(scope, &text),
            })
            .map(|f| f.id)
            .collect();
        match found.first() {
            Some(id) if *id == s.id => Ok(()),
            // Lines that a reader takes whole (the watchdog's, torchrun's) are known by their text alone.
            None if scope == Scope::Line && find(scope, &crate::text::clean::clean(example)).is_some_and(|f| f.id == s.id) => Ok(()),
            _ => Err(format!("found {found:?}")),
        }
    }
}
