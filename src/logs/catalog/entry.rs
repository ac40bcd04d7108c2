//! What an entry of the catalogue is. Shared with `build.rs`: nothing here may use the rest of the crate.

use super::pattern::Pattern;
use super::template::Template;
use super::{Confidence, Severity};

/// One text, or a few of one meaning, of one program.
#[derive(Clone, Debug)]
pub struct Signature {
    /// Stable; in lower case with dashes, as in the references of NCCL and its kin: `shm-no-space`.
    pub id: &'static str,
    pub scope: Scope,
    /// The rule that its findings stand under: an id of [`crate::rules::RULES`].
    pub rule: &'static str,
    pub severity: Severity,
    pub part: Part,
    /// Any of them. Of several signatures that match, the one with the longest literal text counts.
    pub texts: &'static [Pattern],
    /// So many of the first texts make a line worth a look by themselves. The others say something only where the line is looked at for
    /// another reason: in an exception, in an error of PyTorch.
    pub alone: usize,
    /// The source file that must have printed the message, as NCCL writes it in front of a WARN: `transport/nvls.cc`. Empty: any.
    pub site: &'static str,
    /// Patterns that add captures to those of the text and need not match; of each name the first that does counts.
    pub captures: &'static [Pattern],
    /// The first whose captures are all there; none: the text's first two sentences.
    pub headline: &'static [Template],
    /// What the finding is about, where lines of one entry may be about several things (a GPU, a process that was killed): two things
    /// are two findings.
    pub thing: Option<Template>,
    /// The captures that are the ranks which the text itself names as those it is about, whoever printed it.
    pub ranks: &'static [&'static str],
    /// The id of the entry that explains this one, where the text names its cause: its meaning and next step are shown.
    pub follows: Option<Template>,
    /// How sure the finding is that stands on this text alone.
    pub confidence: Confidence,
    /// Ids of rules or signatures: where a finding of one of them is open for the same job, this one says nothing new and is not shown.
    pub yields_to: &'static [&'static str],
    /// Ids of signatures that are only a part of the teardown where this one is open for the same job; of rules whose waits are never why
    /// it came, however late it is printed.
    pub explains: &'static [&'static str],
    /// Ids of signatures or rules whose findings come of this one, where it came before them: then it is the cause, however mild it sounds.
    pub causes: &'static [&'static str],
    /// Ids of signatures on which this text throws light, and what is noted on them: nothing is the headline of its own finding.
    pub hints: &'static [&'static str],
    pub hint: &'static str,
    /// A line with this text is a fact that a reader knows (progress, bring-up), or a message that NCCL prints as INFO, too.
    pub is_fact: bool,
    /// The constant of the entry's form: `79` of Xid 79. Empty: none.
    pub code: &'static str,
    /// What the code is called. Empty: none.
    pub name: &'static str,
    /// In a sentence or two: what happened.
    pub means: &'static str,
    /// What to do now, most useful first. A command where there is one.
    pub next: &'static str,
    /// Who prints it and where: `NCCL misc/socket.cc`.
    pub source: &'static str,
    /// `all`, `2.24+`, `2.16 to 2.23`, `PyTorch 2.6+`
    pub versions: &'static str,
    /// Whole lines as logs have them, prefix included, at most three. Each is found as this signature.
    pub examples: &'static [&'static str],
    /// The user wants no finding of it.
    pub muted: bool,
}

impl PartialEq for Signature {
    fn eq(&self, other: &Self) -> bool {
        self.id == other.id
    }
}

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

/// Which texts an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    /// Messages of NCCL and its plugins, what stands behind `NCCL WARN ` or `NCCL INFO `. NCCL prints the same text on either level.
    Nccl,
    /// Lines of everybody else without their prefixes, the kernel log included.
    Line,
}

/// The entries of one file.
#[derive(Debug)]
pub struct Table {
    /// `InfiniBand and RoCE`
    pub title: &'static str,
    /// `assets/catalog/nccl-ib.toml`, or the path of a user's file.
    pub file: &'static str,
    pub is_users: bool,
    pub rows: &'static [Signature],
}

/// A small table that headlines look words up in: `ibv_wc_status`, by number.
#[derive(Debug)]
pub struct Words {
    pub name: &'static str,
    pub words: &'static [(&'static str, &'static str)],
}

impl Words {
    pub fn get(&self, key: &str) -> Option<&'static str> {
        self.words.iter().find(|(k, _)| *k == key).map(|(_, word)| *word)
    }
}
