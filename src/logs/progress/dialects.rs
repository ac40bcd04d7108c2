//! The lines and texts of `assets/progress`, and what a line says that looks like one of them.

use super::shape::{Field, Found, Is, Pattern};
use super::{Line, Memory, field_names};
use crate::logs::{Dialect, Phase, Step, What};
use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use std::sync::LazyLock;

/// What a line says that looks like its entry.
#[derive(Clone, Copy, PartialEq, Deserialize)]
#[serde(try_from = "String")]
enum Says {
    Step(Dialect),
    SkippedStep,
    Done,
    /// Without a flag, the place in it tells whether it is over.
    Phase(Phase, Option<bool>),
}

impl TryFrom<String> for Says {
    type Error = String;

    fn try_from(text: String) -> Result<Says, String> {
        let phase = |name| Phase::ALL.into_iter().find(|p| p.as_str() == name);
        let says = match text.rsplit_once(' ') {
            Some(("step of", dialect)) => Some(Says::Step(Dialect::named(dialect))),
            Some(("skipped", "step")) => Some(Says::SkippedStep),
            Some((name, "begins")) => phase(name).map(|p| Says::Phase(p, Some(true))),
            Some((name, "ends")) => phase(name).map(|p| Says::Phase(p, Some(false))),
            None if text == "done" => Some(Says::Done),
            _ => phase(&text).map(|p| Says::Phase(p, None)),
        };
        says.ok_or_else(|| format!("nothing is said by {text:?}"))
    }
}

impl Says {
    fn event(self, found: &Found) -> Option<What> {
        Some(match self {
            Says::Step(_) => return None,
            Says::SkippedStep => What::SkippedStep { scale: found.get(Is::LossScale) },
            Says::Done => What::Done,
            Says::Phase(phase, begins) => What::Phase { phase, begins: begins.unwrap_or(found.count(Is::Step) < found.total_steps()) },
        })
    }
}

/// A kind of line: what each key means stands in `dialects.toml`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    says: Says,
    is: Vec<Pattern>,
    #[serde(default)]
    fields: Vec<Field>,
    #[serde(default)]
    needs: Vec<String>,
    #[serde(default)]
    unless: Vec<String>,
    behind_loss: Option<Field>,
    #[serde(default)]
    block: Vec<String>,
    #[serde(default)]
    alone: bool,
    #[serde(default)]
    bar: bool,
    #[serde(default)]
    names: bool,
    #[serde(default)]
    epoch_above: bool,
}

/// More in one line than this is a counter that began somewhere else.
const MAX_SKIPPED: u64 = 1000;

impl Entry {
    /// Whether the line counts, of which a pattern stands before `rest` and behind `before`.
    fn takes(&self, before: &str, rest: &str) -> bool {
        !self.unless.iter().any(|text| before.trim_end().ends_with(text.as_str()))
            && (self.needs.is_empty() || self.needs.iter().any(|text| memmem::find(rest.as_bytes(), text.as_bytes()).is_some()))
    }

    /// Tells what the line says; of a step, also what stands behind the pattern. `false`: it names a step and nothing else.
    fn tell(&self, (at, letters): (usize, u128), mut found: Found, rest: &str, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
        let Says::Step(dialect) = self.says else {
            if self.says == Says::SkippedStep && !memory.skipped.is_new(found.count(Is::Step)) {
                return true;
            }
            self.says.event(&found).into_iter().for_each(tell);
            return true;
        };
        let mut step = Step { dialect, bar: self.bar, ..Step::default() };
        if !self.block.is_empty() {
            found.fill(&mut step);
            memory.block.head = Some((at, step.clone()));
            if self.alone {
                tell(What::Step(step));
            }
            return true;
        }
        for field in &self.fields {
            if found.rank(field.is).is_none_or(|rank| rank > 0) {
                field.find(rest, letters, &mut found);
            }
        }
        if !found.says_something() && !self.alone && !self.names {
            return false;
        }
        found.fill(&mut step);
        if self.names {
            field_names::read(rest).fill(&mut step);
        }
        if self.epoch_above {
            step.epoch = step.epoch.or(memory.epoch);
        }
        let skipped = found.count(Is::Skipped).unwrap_or(0);
        let only_skipped = skipped > 0 && found.get(Is::NanSteps) == Some(0.0);
        let is_behind_loss = || self.behind_loss.as_ref().is_some_and(|field| field.find(rest, letters, &mut Found::default()));
        step.loss_missing = step.loss.is_none() && !only_skipped && is_behind_loss();
        memory.bars.step_seen();
        if self.names && step.loss.is_none() {
            memory.broken = Some(step.clone());
        }
        tell(What::Step(step));
        let skipped = found.count(Is::SkippedSoFar).map_or(skipped, |now| memory.skipped.grown(now));
        (0..skipped.min(MAX_SKIPPED)).for_each(|_| tell(What::SkippedStep { scale: None }));
        true
    }
}

/// The head of a block of lines, and what the lines below it contain.
#[derive(Clone, Default, PartialEq)]
pub struct Block {
    /// The place of its entry in the table, and the step that the head names.
    head: Option<(usize, Step)>,
    /// The place in the table of the rate that counts.
    rate: Option<usize>,
    left_unit: Option<f64>,
}

impl Block {
    /// A line of the block that has begun. Each has one field.
    fn line(&mut self, line: &Line<'_>, tell: &mut dyn FnMut(What)) -> bool {
        let text = line.head;
        let Some((entry, step)) = &self.head else { return false };
        let Entry { block, fields, .. } = &TABLE.entries[*entry];
        if !block.iter().any(|start| text.starts_with(start.as_str())) {
            return false;
        }
        let mut found = Found::default();
        let Some(at) = fields.iter().position(|field| field.find(text, line.letters, &mut found)) else { return true };
        let mut step = step.clone();
        found.fill(&mut step);
        match fields[at].is {
            Is::UnitOfLeft => {
                self.left_unit = found.get(Is::UnitOfLeft);
                return true;
            }
            // One rate of a block counts: that which stands first in the table.
            Is::Rate(_) if self.rate.is_some_and(|best| best < at) => return true,
            Is::Rate(_) => self.rate = Some(at),
            Is::LeftHours => step.remaining_s = step.remaining_s.map(|left| left / 3600.0 * self.left_unit.unwrap_or(3600.0)),
            _ => {}
        }
        if step != self.head.as_ref().map_or(Step::default(), |(_, head)| head.clone()) {
            tell(What::Step(step));
        }
        true
    }
}

/// The counter of skipped steps that some reports carry.
#[derive(Clone, Default, PartialEq)]
pub struct Skipped {
    last: Option<u64>,
    /// Told by lines of their own since then.
    told: u64,
    /// The number of the last one of those, where it has one.
    at: Option<u64>,
}

impl Skipped {
    /// A line tells of one; several ranks may print it, each its own.
    fn is_new(&mut self, at: Option<u64>) -> bool {
        let repeats = at.is_some() && self.at == at;
        self.at = at;
        self.told += u64::from(!repeats);
        !repeats
    }

    fn grown(&mut self, now: u64) -> u64 {
        let new = self.last.map_or(0, |last| now.saturating_sub(last)).saturating_sub(self.told);
        *self = Skipped { last: Some(now), told: 0, at: self.at };
        new
    }
}

/// `dialects.toml`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    #[serde(rename = "line")]
    entries: Vec<Entry>,
    /// For each ASCII character the entries whose lines may begin with it, each behind the letters above `?` that all its patterns have.
    #[serde(skip)]
    by_first: Vec<Vec<(u64, usize)>>,
}

/// `phases.toml`
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Texts {
    /// Lines that name the number of all steps.
    total_steps: Vec<Pattern>,
    /// One look that tells most lines to be none of the texts.
    words: Text,
    /// A server is at work, where no step was seen.
    serves: Text,
    /// The end, where a step was seen.
    done_after_steps: Text,
    /// In order: the first that matches counts.
    text: Vec<Said>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Said {
    says: Says,
    is: Text,
}

#[derive(Deserialize)]
#[serde(try_from = "Vec<String>")]
struct Text(Regex);

impl TryFrom<Vec<String>> for Text {
    type Error = regex::Error;

    fn try_from(texts: Vec<String>) -> Result<Text, regex::Error> {
        RegexBuilder::new(&texts.join("|")).case_insensitive(true).unicode(false).build().map(Text)
    }
}

static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let mut table: Table = toml::from_str(include_str!("../../../assets/progress/dialects.toml")).expect("dialects.toml");
    let begins = |entry: &Entry, first: u8| entry.is.iter().any(|p| p.firsts & super::letters(&[first]) != 0);
    let letters = |entry: &Entry| entry.is.iter().fold(u64::MAX, |all, p| all & upper(p.letters));
    let of = |first| table.entries.iter().enumerate().filter(move |(_, e)| begins(e, first)).map(|(at, e)| (letters(e), at)).collect();
    table.by_first = (0..128).map(of).collect();
    table
});
static TEXTS: LazyLock<Texts> =
    LazyLock::new(|| toml::from_str(include_str!("../../../assets/progress/phases.toml")).expect("phases.toml"));

fn upper(letters: u128) -> u64 {
    (letters >> 64) as u64
}

/// Reads a line that a dialect knows.
pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    let table = &*TABLE;
    let first = line.head.as_bytes().first().map_or(0, |b| b & 0x7f);
    let (missing, begin) = (!upper(line.letters), super::letters(&[first]));
    for &(_, at) in table.by_first[usize::from(first)].iter().filter(|(letters, _)| letters & missing == 0) {
        let entry = &table.entries[at];
        for pattern in entry.is.iter().filter(|p| p.firsts & begin != 0 && p.letters & !line.letters == 0) {
            let mut found = Found::default();
            let Some((from, end)) = pattern.find(line.head, &mut found) else { continue };
            let rest = &line.head[end..];
            if entry.takes(&line.head[..from], rest) && entry.tell((at, line.letters), found, rest, memory, tell) {
                return true;
            }
        }
    }
    memory.block.line(line, tell)
}

/// Nothing longer is a sentence.
const MAX_SENTENCE: usize = 600;

/// Reads the number of all steps, a named pause, or the end. `trains`: the file has shown a step.
pub fn read_text(line: &Line<'_>, trains: bool, tell: &mut dyn FnMut(What)) {
    let text = line.head;
    // A frame of a stack that is printed names files of the compiler, too.
    if text.trim_start().starts_with("File \"") {
        return;
    }
    // One of these letters is in every word.
    if text.len() > MAX_SENTENCE || line.letters & super::letters(b"acdgvACDGV") == 0 || !TEXTS.words.0.is_match(text.as_bytes()) {
        return;
    }
    let mut found = Found::default();
    if TEXTS.total_steps.iter().any(|p| p.find(text, &mut found).is_some()) {
        return found.total_steps().into_iter().for_each(|total| tell(What::TotalSteps { total }));
    }
    if !trains && TEXTS.serves.0.is_match(text.as_bytes()) {
        return tell(What::Phase { phase: Phase::Serving, begins: true });
    }
    if trains && TEXTS.done_after_steps.0.is_match(text.as_bytes()) {
        return tell(What::Done);
    }
    let said = TEXTS.text.iter().find(|said| said.is.0.is_match(text.as_bytes()));
    said.and_then(|said| said.says.event(&found)).into_iter().for_each(tell);
}
