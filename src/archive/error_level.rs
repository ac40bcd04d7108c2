//! Lines of programs that nobody knows: what a log may still say is which of its lines their writer calls an error.

use crate::base::{clean, mask};
use crate::logs::{Origin, TextEvent, What, catalog, prefix};
use aho_corasick::AhoCorasick;
use regex::Regex;
use std::sync::LazyLock;

/// The entry of the catalogue that such a line stands under.
const ENTRY: &str = "error-level";
/// How far into a line its level is looked for.
const NEAR: usize = 200;
const LONGEST: usize = 300;

/// The entry under which a log stands of which nothing is known, and no line is an error.
const HEALTHY: &str = "program-log";
/// So many lines of a logger show that a file is a program's log.
const LEAST_LOGGED: u8 = 3;

/// Lines as loggers print them where all is well: a time and a level.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Logged {
    lines: u8,
    first: Option<Unknown>,
}

impl Logged {
    /// Counts `line`, if it is one, until there are enough.
    pub fn note(&mut self, no: u64, line: &[u8]) {
        static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
            let level = r"(?:^|[ \t\[|(*:-])(?:DEBUG|INFO|WARNING|WARN)[ \t\]|:)*-]";
            Regex::new(&format!("{level}.*[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}|[0-9]{{2}}:[0-9]{{2}}:[0-9]{{2}}.*{level}")).expect("pattern")
        });
        if self.lines >= LEAST_LOGGED || line.len() > 8 * NEAR {
            return;
        }
        let text = String::from_utf8_lossy(&line[..line.len().min(NEAR)]);
        if LEVEL.is_match(&text) {
            self.lines += 1;
            self.first.get_or_insert_with(|| Unknown { line: no, text: clean::clean(&mask::text(&text)).trim().to_owned() });
        }
    }

    /// The first of the lines, if they are enough.
    pub fn first(self) -> Option<Unknown> {
        self.first.filter(|_| self.lines >= LEAST_LOGGED)
    }
}

/// The first line of that level in a file.
#[derive(Clone, Debug, PartialEq)]
pub struct Unknown {
    /// From 1.
    pub line: u64,
    pub text: String,
}

impl Unknown {
    /// `line`, if it is one.
    pub fn of(no: u64, line: &[u8]) -> Option<Unknown> {
        static WORDS: LazyLock<AhoCorasick> = LazyLock::new(|| {
            let words = ["ERROR", "FATAL", "CRITICAL", "rror: ", "xception: ", "atal: ", ": E ", ": F ", ".cc:", ".cpp:"];
            AhoCorasick::new(words).expect("words")
        });
        let near = &line[..line.len().min(NEAR)];
        // Most lines end here.
        if !WORDS.is_match(near) {
            return None;
        }
        let text = String::from_utf8_lossy(&line[..line.len().min(2 * LONGEST)]);
        let text = mask::text(&text);
        let text = clean::clean(&text);
        let rest = prefix::peel(&text).rest.trim();
        let is_error = has_level(&clean::clip(&text, NEAR)) || is_last_line(rest);
        is_error.then(|| Unknown { line: no, text: clean::clip(rest, LONGEST).into_owned() })
    }

    /// What is read where a log says nothing else.
    pub fn event(&self) -> Option<TextEvent> {
        self.event_of(ENTRY)
    }

    /// What is read where a log is a program's, and holds nothing else.
    pub fn healthy(&self) -> Option<TextEvent> {
        self.event_of(HEALTHY)
    }

    fn event_of(&self, entry: &str) -> Option<TextEvent> {
        let (_, signature) = catalog::by_id(entry)?;
        let what = What::Signed { signature, text: self.text.clone(), tried: false };
        Some(TextEvent { origin: Origin::default(), what, said_at: None })
    }
}

/// A level as loggers print it, with a text behind it: `[ERROR] `, `ERROR:root:`, ` - ERROR - `, `*ERROR*`; of glog and TensorFlow the
/// letter alone.
fn has_level(text: &str) -> bool {
    static LEVEL: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(
            r"(?x)
            (?:^|[\x20\t\[|(*:-])(?:ERROR|FATAL|CRITICAL)[\x20\t\]|:)*-].{8}
            | (?:^|\x20)[EF][0-9]{4}\x20[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]+\x20.*\]\x20
            | [0-9]:\x20[EF]\x20[A-Za-z0-9_./+-]+\.(?:cc|cpp|cu|h):[0-9]+\]\x20
            ",
        )
        .expect("pattern")
    });
    LEVEL.is_match(text)
}

/// `error: …`, `slurmctld: fatal: …`, or an exception that no traceback stands before.
fn is_last_line(rest: &str) -> bool {
    static LAST: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:[\w./-]+: )?(?:[A-Za-z_][\w.]*(?:Error|Exception)|[Ee]rror|[Ff]atal|fatal error): \S").expect("pattern")
    });
    LAST.is_match(rest)
}

#[cfg(test)]
mod tests {
    use super::Unknown;

    #[test]
    fn only_what_its_writer_calls_an_error() {
        let is = |line: &str| Unknown::of(1, line.as_bytes()).is_some();
        for line in [
            "2026-10-20 15:54:35,127 - LearnerExecutor - ERROR - [identity=site-1] no data",
            "[2026-10-20 15:54:35] [ERROR] the shard is empty",
            "ERROR:root:failed to activate new hosts",
            "E1011 08:02:59.084688 1 repository.cc:1919] Poll failed for 'x'",
            "2026-05-25 11:10:57.934361: E tensorflow/core/kernels/x.cc:249] it cannot be done",
            "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout",
            "slurmctld: error: gres/gpu count too low",
            "acme.core.ShardError: shard 7 is empty",
        ] {
            assert!(is(line), "{line}");
        }
        for line in [
            "log_level: ERROR",
            "--log-level ERROR",
            "LEVEL=ERROR nothing else matters here",
            "mean squared error: 0.01",
            "validation ERROR",
            "loss 2.5 error: 0.3",
            "I1011 08:02:59.084688 1 repository.cc:1919] loaded 'x'",
            "TERRORS and others are no level of a logger",
        ] {
            assert!(!is(line), "{line}");
        }
    }
}
