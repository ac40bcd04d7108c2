//! Values in text: what a number means, and patterns that say where it stands.

use super::scan;
use crate::logs::Step;
use memchr::memmem::{self, Finder};
use serde::Deserialize;
use serde::de::value::StrDeserializer;

/// What a number means, and its unit. The tables have these names in small letters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    /// It has to be there; what it means does not matter.
    #[default]
    #[serde(rename = "")]
    Anything,
    Step,
    /// The step of the whole run, where the line counts those of the epoch too.
    StepOfRun,
    TotalSteps,
    /// Belongs to the step that is not that of the run.
    StepsOfEpoch,
    /// The number of the last step, of a line that counts from 0.
    LastStep,
    Epoch,
    Loss,
    GradNorm,
    LearningRate,
    /// In seconds, unless a unit stands behind it.
    #[serde(rename = "step_time_s")]
    StepTime,
    StepTimeMs,
    #[serde(rename = "steps_per_s")]
    StepsPerSecond,
    /// A time that may be that of a step, if a loss stands beside it.
    #[serde(rename = "some_time_s")]
    SomeTime,
    /// As a clock.
    Left,
    /// In hours, or in what [`Is::UnitOfLeft`] names.
    LeftHours,
    UnitOfLeft,
    /// Of this place in [`scan::RATES`], by whose names it goes.
    #[serde(skip)]
    Rate(u8),
    /// Skipped steps since the line before, and since the start.
    Skipped,
    SkippedSoFar,
    NanSteps,
    /// Samples of one step on all ranks.
    GlobalBatch,
    /// What the gradients of fp16 are multiplied with from now on.
    LossScale,
    /// Of dictionaries: the training is over, an evaluation is.
    Done,
    Evaluated,
}

impl Is {
    pub fn named(name: &str) -> Option<Is> {
        let rate = scan::RATES.iter().position(|unit| *unit == name).map(|at| Is::Rate(at as u8));
        rate.or_else(|| Is::deserialize(StrDeserializer::<serde::de::value::Error>::new(name)).ok())
    }

    /// The value at the start of `text`, in SI units, and its length.
    pub fn read(self, text: &str) -> Option<(f64, usize)> {
        match self {
            Is::Step | Is::StepOfRun | Is::TotalSteps | Is::StepsOfEpoch | Is::LastStep | Is::Skipped | Is::SkippedSoFar => {
                scan::count(text)
            }
            Is::Rate(_) => scan::scaled(text),
            Is::StepTime | Is::SomeTime => scan::duration(text, 1.0),
            Is::StepTimeMs => scan::duration(text, 1e-3),
            Is::Left => scan::left(text),
            Is::UnitOfLeft => {
                let seconds = match text.trim_end() {
                    "seconds" => 1.0,
                    "minutes" => 60.0,
                    "days" => 86_400.0,
                    _ => 3600.0,
                };
                Some((seconds, text.len()))
            }
            _ => scan::number(text),
        }
    }
}

/// What was read of one line so far: of each kind of value the best, and how good it is. The smaller the rank, the better; of equals
/// the first counts.
#[derive(Clone)]
pub struct Found {
    ranks: [u8; 20],
    values: [f64; 20],
}

impl Default for Found {
    fn default() -> Self {
        Found { ranks: [u8::MAX; 20], values: [0.0; 20] }
    }
}

/// The place of a kind of value in [`Found`]. What is in the first ones says where in the run a line is.
fn slot(is: Is) -> usize {
    match is {
        Is::Step | Is::StepOfRun => 0,
        Is::TotalSteps | Is::LastStep => 1,
        Is::StepsOfEpoch => 2,
        Is::Epoch => 3,
        Is::UnitOfLeft => 4,
        Is::Loss => 5,
        Is::GradNorm => 6,
        Is::LearningRate => 7,
        Is::StepTime | Is::StepTimeMs | Is::StepsPerSecond => 8,
        Is::SomeTime => 9,
        Is::Left | Is::LeftHours => 10,
        Is::Rate(_) => 11,
        Is::Skipped => 12,
        Is::SkippedSoFar => 13,
        Is::NanSteps => 14,
        Is::Done => 15,
        Is::Evaluated => 16,
        Is::Anything => 17,
        Is::LossScale => 18,
        Is::GlobalBatch => 19,
    }
}

/// `dt=93.2` may be in milliseconds: a time without a name of its own is believed below this.
const LONGEST_SOME_TIME_S: f64 = 60.0;

impl Found {
    /// Those of the run go before steps of the epoch.
    const RANK_IN_EPOCH: u8 = 20;
    const PLACE: usize = 5;

    pub fn put(&mut self, is: Is, rank: u8, v: f64) {
        let (rank, v) = match is {
            Is::Step => (rank + Found::RANK_IN_EPOCH, v),
            // The order of the units is that of their worth.
            Is::Rate(unit) => (unit, v),
            Is::LastStep => (rank, v + 1.0),
            Is::StepsPerSecond => (rank, 1.0 / v),
            Is::LeftHours => (rank, v * 3600.0),
            _ => (rank, v),
        };
        let at = slot(is);
        if rank < self.ranks[at] {
            (self.ranks[at], self.values[at]) = (rank, v);
        }
    }

    pub fn rank(&self, is: Is) -> Option<u8> {
        Some(self.ranks[slot(is)]).filter(|rank| *rank < u8::MAX)
    }

    pub fn get(&self, is: Is) -> Option<f64> {
        self.rank(is).map(|_| self.values[slot(is)])
    }

    /// A whole number.
    pub fn count(&self, is: Is) -> Option<u64> {
        self.get(is).map(|v| v as u64)
    }

    pub fn step_of_run(&self) -> Option<u64> {
        self.count(Is::Step).filter(|_| self.rank(Is::Step) < Some(Found::RANK_IN_EPOCH))
    }

    pub fn total_steps(&self) -> Option<u64> {
        let of_step = |rank: u8| self.rank(Is::Step) == Some(rank + Found::RANK_IN_EPOCH);
        let of_epoch = || self.count(Is::StepsOfEpoch).filter(|_| self.rank(Is::StepsOfEpoch).is_some_and(of_step));
        self.count(Is::TotalSteps).or_else(of_epoch).filter(|total| *total > 0)
    }

    /// Something besides the place in the run was found.
    pub fn says_something(&self) -> bool {
        self.ranks[Found::PLACE..].iter().any(|rank| *rank < u8::MAX)
    }

    /// Puts what `to` does not have into it. What cannot be is left out: only a loss and the norm of a gradient may be any number.
    pub fn fill(&self, to: &mut Step) {
        let positive = |is| self.get(is).filter(|v| v.is_finite() && *v >= 0.0);
        to.loss = to.loss.or(self.get(Is::Loss));
        to.step = to.step.or(self.count(Is::Step));
        to.total_steps = to.total_steps.or(self.total_steps());
        to.epoch = to.epoch.or(positive(Is::Epoch));
        to.grad_norm = to.grad_norm.or(self.get(Is::GradNorm));
        to.learning_rate = to.learning_rate.or(self.get(Is::LearningRate));
        to.step_time_s = to
            .step_time_s
            .or(positive(Is::StepTime))
            .or(positive(Is::SomeTime).filter(|time| to.loss.is_some() && *time < LONGEST_SOME_TIME_S));
        to.remaining_s = to.remaining_s.or(positive(Is::Left));
        to.global_batch = to.global_batch.or(positive(Is::GlobalBatch));
        if let (None, Some(rate), Some(unit)) = (to.throughput, positive(Is::Rate(0)), self.rank(Is::Rate(0))) {
            (to.throughput, to.throughput_unit) = (Some(rate), scan::RATES.get(usize::from(unit)).copied());
        }
    }
}

/// A piece of a pattern.
enum Token {
    Text(String),
    /// Any blanks, or none.
    Blanks,
    Value(Is),
    /// Anything up to the next piece, which is a text.
    Anything,
    /// Anything but letters and digits.
    Ornament,
    /// Without a blank, and with another start than this.
    Word(String),
    /// The end of the line.
    End,
}

/// A line or a part of one: text with values in braces.
#[derive(Deserialize)]
#[serde(try_from = "String")]
pub struct Pattern {
    /// The ASCII characters that a line needs to have, and those that it may begin with, a bit each.
    pub letters: u128,
    pub firsts: u128,
    tokens: Vec<Token>,
    /// Its first text, if it may begin at any word, not at the start only.
    anywhere: Option<Finder<'static>>,
    /// The last value may end the line. Elsewhere such a number may have been cut.
    open: bool,
}

/// A meaning, and what such a value stands behind, the best first.
#[derive(Deserialize)]
#[serde(try_from = "Vec<String>")]
pub struct Field {
    pub is: Is,
    patterns: Vec<Pattern>,
}

impl TryFrom<Vec<String>> for Field {
    type Error = String;

    fn try_from(row: Vec<String>) -> Result<Field, String> {
        let (meaning, keys) = row.split_first().ok_or("an empty row")?;
        let is = Is::named(meaning).ok_or_else(|| format!("no meaning {meaning:?}"))?;
        Ok(Field { is, patterns: keys.iter().map(|key| Pattern::field(key, meaning)).collect::<Result<_, _>>()? })
    }
}

impl Field {
    /// Reads the value, if it is in a text which has no other letters than these. Whether it is.
    pub fn find(&self, text: &str, letters: u128, found: &mut Found) -> bool {
        self.patterns.iter().any(|p| p.letters & !letters == 0 && p.find(text, found).is_some())
    }
}

impl TryFrom<String> for Pattern {
    type Error = String;

    fn try_from(text: String) -> Result<Pattern, String> {
        Pattern::parsed(&text).ok_or_else(|| format!("cannot read the pattern {text:?}"))
    }
}

/// Values of one pattern.
type Values = [(Is, f64); 8];

/// Further places of a pattern in one line are not tried.
const MAX_PLACES: usize = 16;

impl Pattern {
    /// `* iteration {step}/{total_steps} |`: see `assets/progress/dialects.toml` for what can stand in it.
    fn parsed(text: &str) -> Option<Pattern> {
        let (text, anywhere) = text.strip_prefix("* ").map_or((text, false), |t| (t, true));
        let (mut rest, open) = text.strip_suffix('$').map_or((text, false), |t| (t, true));
        let mut tokens = Vec::new();
        while !rest.is_empty() {
            if let Some(inner) = rest.strip_prefix('{') {
                let (name, tail) = inner.split_once('}')?;
                tokens.push(match name {
                    "*" => Token::Anything,
                    "-" => Token::Ornament,
                    "end" => Token::End,
                    "word" => Token::Word(String::new()),
                    _ if name.starts_with("word but ") => Token::Word(name["word but ".len()..].to_owned()),
                    _ => Token::Value(Is::named(name)?),
                });
                rest = tail;
            } else if rest.starts_with(' ') {
                tokens.push(Token::Blanks);
                rest = rest.trim_start_matches(' ');
            } else {
                let end = rest.find(['{', ' ']).unwrap_or(rest.len());
                tokens.push(Token::Text(rest[..end].to_owned()));
                rest = &rest[end..];
            }
        }
        let values = tokens.iter().filter(|t| matches!(t, Token::Value(_))).count();
        let letters = tokens.iter().fold(0, |all, t| if let Token::Text(t) = t { all | super::letters(t.as_bytes()) } else { all });
        let firsts = match tokens.first() {
            Some(Token::Text(first)) if !anywhere => super::letters(&first.as_bytes()[..1]),
            Some(Token::Value(_)) if !anywhere => super::letters(b"0123456789"),
            _ => u128::MAX,
        };
        let anywhere = match tokens.first() {
            Some(Token::Text(first)) if anywhere => Some(Finder::new(first).into_owned()),
            _ => None,
        };
        (values <= Values::default().len()).then_some(Pattern { letters, firsts, tokens, anywhere, open })
    }

    /// The value of a field stands behind its name, or where the name says.
    fn field(key: &str, is: &str) -> Result<Pattern, String> {
        if key.contains(&format!("{{{is}}}")) {
            return Pattern::try_from(format!("* {key}"));
        }
        let (key, open) = key.strip_suffix('$').map_or((key, ""), |k| (k, "$"));
        Pattern::try_from(format!("* {key}{{{is}}}{open}"))
    }

    /// Where the pattern begins and ends in `text`. What it reads is put into `found`, if all of it is there.
    pub fn find(&self, text: &str, found: &mut Found) -> Option<(usize, usize)> {
        let Some(first) = &self.anywhere else { return Some((0, self.run(text, 0, found)?)) };
        let bytes = text.as_bytes();
        let at_word = |at: usize| at == 0 || !bytes[at].is_ascii_alphanumeric() || !is_inside_word(bytes[at - 1]);
        let mut from = 0;
        for _ in 0..MAX_PLACES {
            let at = from + first.find(&bytes[from..])?;
            if at_word(at)
                && let Some(end) = self.run(text, at, found)
            {
                return Some((at, end));
            }
            from = at + first.needle().len();
        }
        None
    }

    /// The end of the pattern if it stands at `from`.
    fn run(&self, text: &str, from: usize, found: &mut Found) -> Option<usize> {
        let (mut at, mut read, mut values) = (from, 0, Values::default());
        let mut tokens = self.tokens.iter();
        while let Some(token) = tokens.next() {
            let tail = &text[at..];
            at += match token {
                Token::Text(t) => tail.starts_with(t.as_str()).then_some(t.len())?,
                Token::Blanks => blanks(tail),
                Token::Anything => match tokens.next() {
                    Some(Token::Text(t)) => memmem::find(tail.as_bytes(), t.as_bytes())? + t.len(),
                    _ => tail.len(),
                },
                Token::Ornament => tail.find(|c: char| c.is_ascii_alphanumeric()).unwrap_or(tail.len()),
                Token::Word(not) => {
                    let n = memchr::memchr2(b' ', b'\t', tail.as_bytes()).unwrap_or(tail.len());
                    (n > 0 && (not.is_empty() || !tail.starts_with(not.as_str()))).then_some(n)?
                }
                Token::End => (tail.len() == blanks(tail)).then_some(0)?,
                Token::Value(is) => {
                    let skipped = blanks(tail);
                    let (v, n) = is.read(&tail[skipped..])?;
                    if !self.open && scan::is_cut(&tail[skipped + n..]) {
                        return None;
                    }
                    values[read] = (*is, v);
                    read += 1;
                    skipped + n
                }
            };
        }
        values[..read].iter().for_each(|(is, v)| found.put(*is, 0, *v));
        Some(at)
    }
}

fn blanks(text: &str) -> usize {
    text.bytes().take_while(|b| matches!(b, b' ' | b'\t')).count()
}

fn is_inside_word(before: u8) -> bool {
    before.is_ascii_alphanumeric() || matches!(before, b'_' | b'/' | b'-' | b'.')
}
