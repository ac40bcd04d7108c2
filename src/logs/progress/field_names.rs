//! Numbers by the names that many programs give them: in text, in dictionaries, behind bars. The names are in `assets/progress/names.toml`.

use super::shape::{Found, Is};
use super::{Line, scan};
use crate::logs::{Dialect, Step};
use serde::Deserialize;
use std::sync::LazyLock;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    both: Vec<Vec<String>>,
    text: Vec<Vec<String>>,
    behind: Vec<Vec<String>>,
    dictionary: Vec<Vec<String>>,
    turns: Vec<String>,
    not_of_training: Vec<String>,
    /// How words begin in the name of a logger or a function that is not the training's.
    of_another: Vec<String>,
    not_a_step: Vec<String>,
    not_of_a_step: Vec<String>,
    no_step: Vec<String>,
    no_step_with: Vec<String>,
}

/// What a name means. The smaller the rank, the better the name.
#[derive(Clone)]
struct Name {
    is: Is,
    rank: u8,
    /// The words that stand before it, the nearest first.
    front: Vec<Vec<u8>>,
    /// The value may stand before it.
    behind: bool,
}

/// Names by their words, in places that depend on a few letters: most words are no names.
struct Words(Vec<Vec<(Vec<u8>, Name)>>);

const PLACES: usize = 1024;

impl Words {
    fn place(word: &[u8]) -> usize {
        let letter = |at: usize| usize::from(word.get(at).copied().unwrap_or(0));
        (letter(0) * 31 + letter(word.len() / 2) * 7 + letter(word.len().wrapping_sub(1)) * 3 + word.len() * 57) & (PLACES - 1)
    }

    fn add(&mut self, word: Vec<u8>, name: Name) {
        let names = &mut self.0[Words::place(&word)];
        names.push((word, name));
        names.sort_by_key(|(_, name)| std::cmp::Reverse(name.front.len()));
    }

    /// What `word` may mean, in lower case, names of more words first.
    fn of(&self, word: &[u8]) -> impl Iterator<Item = &Name> {
        self.0[Words::place(word)].iter().filter(move |(w, _)| w == word).map(|(_, name)| name)
    }
}

struct Names {
    /// By the last word of a name, and by all of it.
    words: Words,
    keys: Words,
    file: File,
}

static NAMES: LazyLock<Names> = LazyLock::new(|| Names::new().expect("assets/progress/names.toml"));

/// Names that stand in text only are worse than others of the same meaning; worst is a place in brackets.
const RANK_IN_TEXT: usize = 100;
const RANK_OF_BRACKETS: u8 = 200;

impl Names {
    fn new() -> Result<Names, String> {
        let file: File = toml::from_str(include_str!("../../../assets/progress/names.toml")).map_err(|e| e.to_string())?;
        let [mut words, mut keys] = [(); 2].map(|()| Words(vec![Vec::new(); PLACES]));
        let mut add = |rows: &[Vec<String>], least: usize, in_text: bool, in_keys: bool, behind: bool| {
            for row in rows {
                let is = Is::named(&row[0]).ok_or_else(|| format!("meaning {:?}", row[0]))?;
                for (at, key) in row[1..].iter().enumerate() {
                    let mut all = key.rsplit(' ').map(|word| word.as_bytes().to_vec());
                    let word = all.next().unwrap_or_default();
                    let name = Name { is, rank: u8::try_from(least + at).unwrap_or(RANK_OF_BRACKETS), front: all.collect(), behind };
                    if in_keys {
                        keys.add(key.clone().into_bytes(), name.clone());
                    }
                    if in_text {
                        words.add(word, name);
                    }
                }
            }
            Ok::<_, String>(())
        };
        add(&file.both, 0, true, true, false)?;
        add(&file.text, RANK_IN_TEXT, true, false, false)?;
        add(&file.behind, RANK_IN_TEXT, true, false, true)?;
        add(&file.dictionary, RANK_IN_TEXT, false, true, false)?;
        Ok(Names { words, keys, file })
    }

    /// Whether `name` stands at `start`, and means the training.
    fn takes(&self, name: &Name, text: &[u8], start: usize) -> bool {
        let mut at = start;
        for word in &name.front {
            let before = word_before(text, at);
            if !before.eq_ignore_ascii_case(word) {
                return false;
            }
            at = offset(text, before);
        }
        let file = &self.file;
        let not: &[&[String]] = match name.is {
            Is::Step if name.front.is_empty() => &[&file.not_of_training, &file.not_a_step],
            Is::Loss => &[&file.not_of_training],
            Is::SomeTime => &[&file.not_of_a_step],
            _ => return true,
        };
        let before = word_before(text, at);
        before.is_empty() || !not.iter().copied().flatten().any(|word| before.eq_ignore_ascii_case(word.as_bytes()))
    }
}

fn offset(text: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - text.as_ptr() as usize
}

/// The word in front of `at`, if nothing but blanks is between.
fn word_before(text: &[u8], at: usize) -> &[u8] {
    let end = at - text[..at].iter().rev().take_while(|b| **b == b' ').count();
    if end == at {
        return b"";
    }
    let n = text[..end].iter().rev().take(MAX_WORD + 1).take_while(|b| is_word(**b)).count();
    &text[end - n..end]
}

/// Takes the value at the start of `text` in, whatever stands between it and its name.
fn take(found: &mut Found, is: Is, rank: u8, text: &str) {
    let value = match is {
        Is::Step | Is::StepOfRun => return take_step(found, is, rank, step(text)),
        Is::Done | Is::Evaluated => Some(1.0),
        Is::TotalSteps => scan::count(scan::value(text)).map(|(n, _)| n),
        Is::Epoch => value(text.trim_start_matches([' ', ':', '['])),
        Is::StepTime | Is::SomeTime => duration(text, 1.0),
        Is::StepTimeMs => duration(text, 1e-3),
        Is::Left => scan::left(text.trim_start_matches([' ', ':', '='])).map(|(v, _)| v),
        _ => value(text),
    };
    value.into_iter().for_each(|v| found.put(is, rank, v));
}

fn take_step(found: &mut Found, is: Is, rank: u8, place: Option<(f64, Option<f64>)>) {
    let Some((n, total)) = place else { return };
    found.put(is, rank, n);
    if let Some(total) = total {
        found.put(if is == Is::Step { Is::StepsOfEpoch } else { Is::TotalSteps }, rank, total);
    }
}

/// Takes `key: text` of a dictionary in.
pub fn take_key(found: &mut Found, key: &str, text: &str) {
    let mut lower = [0; MAX_WORD];
    let Some(lower) = lower_case(key.as_bytes(), &mut lower) else { return };
    match (NAMES.keys.of(lower).next(), scan::unit_of(lower)) {
        (Some(name), _) => take(found, name.is, name.rank, text),
        (None, Some(unit)) => take(found, Is::Rate(unit), 0, text),
        (None, None) => {
            take_in_group(found, lower, text);
            take_loss(found, lower, text);
        }
    }
}

/// `perf/step_time_s`, `throughput/tokens_per_s`: what a logger puts into a group of its speed or of the training is what it is without it. Other
/// groups have steps of their own: a rollout, a validation, a data loader.
fn take_in_group(found: &mut Found, name: &[u8], text: &str) {
    const GROUPS: &[&[u8]] = &[b"perf", b"performance", b"throughput", b"speed", b"train", b"training", b"trainer"];
    let Some(at) = memchr::memrchr(b'/', name) else { return };
    let (groups, own) = (&name[..at], &name[at + 1..]);
    if !groups.split(|b| *b == b'/').all(|group| GROUPS.contains(&group)) {
        return;
    }
    match (NAMES.keys.of(own).find(|name| matches!(name.is, Is::StepTime | Is::StepTimeMs)), scan::unit_of(own)) {
        (Some(name), _) => take(found, name.is, name.rank, text),
        (None, Some(unit)) => take(found, Is::Rate(unit), 0, text),
        (None, None) => {}
    }
}

/// `, 17 ms`: a time without a name, behind a comma or a bar, and the only one of its line.
fn is_lone_time(text: &str, (start, _): (usize, usize)) -> bool {
    let is_apart = text[..start].trim_end().ends_with([',', '|', ';', '(']);
    is_apart && memchr::memmem::find_iter(text.as_bytes(), b" ms").count() == 1
}

/// Takes what a name ends in that ends in `loss`; one beside that of the training only says that the line is of it.
fn take_loss(found: &mut Found, name: &[u8], text: &str) {
    match loss_of(name) {
        Some(OfLoss::Training) => take(found, Is::Loss, RANK_OF_BRACKETS, text),
        Some(OfLoss::Part) => take(found, Is::Anything, RANK_OF_BRACKETS, text),
        None => {}
    }
}

/// A word in small letters that tells of an evaluation, or of something else than the training itself.
pub fn is_not_of_training(word: &str) -> bool {
    NAMES.file.not_of_training.iter().any(|other| other == word)
}

enum OfLoss {
    /// `contrastive_loss`, `train/mse_loss`: that of the training, whatever it is called, where the line has none of a better name.
    Training,
    /// `d_loss`, `kl_loss`
    Part,
}

fn loss_of(name: &[u8]) -> Option<OfLoss> {
    /// Losses beside that of the training, which leap and grow in healthy runs, and sums.
    const PARTS: &[&[u8]] = &[
        b"kl",
        b"z",
        b"mtp",
        b"router",
        b"entropy",
        b"value",
        b"vf",
        b"critic",
        b"commit",
        b"commitment",
        b"vq",
        b"reg",
        b"balance",
        b"g",
        b"d",
        b"gen",
        b"disc",
        b"epoch",
        b"running",
        b"sum",
    ];
    let parts = || name.split(|b| matches!(b, b'_' | b'/'));
    let of_a_part = || parts().any(|part| part.ends_with(b"ing") || PARTS.contains(&part));
    // `loss_g`
    let is_part = parts().next() == Some(b"loss") && parts().count() == 2 && parts().next_back().is_some_and(|part| PARTS.contains(&part));
    if is_part {
        return Some(OfLoss::Part);
    }
    let is_loss = parts().count() > 1
        && parts().next_back() == Some(b"loss")
        && !parts().any(|part| std::str::from_utf8(part).is_ok_and(is_not_of_training));
    is_loss.then(|| if of_a_part() { OfLoss::Part } else { OfLoss::Training })
}

/// No name that means anything is longer.
const MAX_WORD: usize = 32;

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'/')
}

fn lower_case<'a>(word: &[u8], space: &'a mut [u8; MAX_WORD]) -> Option<&'a [u8]> {
    let lower = space.get_mut(..word.len())?;
    for (to, from) in lower.iter_mut().zip(word) {
        *to = from.to_ascii_lowercase();
    }
    Some(lower)
}

/// Any line that names a step and beside it a loss or a step time: `step 100 loss 2.31`, `[100/5000] loss: 2.31`, key=value.
///
/// `counts`: steps with numbers were seen, so that what an epoch's line sums up is no step beside them.
pub fn line(line: &Line<'_>, counts: bool) -> Option<Step> {
    let text = line.head;
    let file = &NAMES.file;
    if file.no_step.iter().any(|start| scan::starts_with(text, start)) || file.no_step_with.iter().any(|words| text.contains(words)) {
        return None;
    }
    let mut found = read(text);
    if found.rank(Is::Step).is_none() && found.rank(Is::Loss).is_some() {
        numbered(line).into_iter().for_each(|n| found.put(Is::Step, RANK_OF_BRACKETS, n));
    }
    let has = |is| found.rank(is).is_some();
    let has_rate = (0..scan::RATES.len()).any(|unit| has(Is::Rate(unit as u8)));
    // A line for each epoch: what was learnt stands beside its number.
    let sums_up = || !has(Is::Step) && (has(Is::Loss) && !counts && !has_fraction(text) || names_accuracy(text));
    let is_epoch = has(Is::Epoch) && starts_with_epoch(text) && (sums_up() || names_training(text));
    let is_step = has(Is::Step) && (has(Is::Loss) || has(Is::Anything) || has(Is::StepTime) || has_rate) || is_epoch;
    let mut step = Step { dialect: Dialect::Plain, ..Step::default() };
    found.fill(&mut step);
    if is_epoch && counts_batches(text) {
        // How many there are in each epoch.
        (step.step, step.total_steps) = (None, None);
    } else if is_epoch && !has(Is::Step) && !has(Is::StepTime) {
        // A time beside it is that of the epoch.
        step.step_time_s = None;
    }
    // Of two nets that learn against each other, one may have nothing to learn for a while.
    if step.loss == Some(0.0) && text.to_ascii_lowercase().matches("loss").count() > 1 {
        step.loss = None;
    }
    // The mean of nothing is no number, and the line says that it was a mean of nothing.
    if step.loss.is_some_and(|loss| !loss.is_finite()) && OF_NOTHING.iter().any(|words| text.contains(words)) {
        step.loss = None;
    }
    is_step.then_some(step)
}

/// What a line says of a batch in which nothing is learnt from.
const OF_NOTHING: [&str; 5] = ["fully masked", "all masked", "contributes nothing", "no target tokens", "no valid tokens"];

/// `   12 len=4096  loss=9.918`, `5 | train/loss 1.33`: a column of numbers in front. One without blanks before it or a bar behind may be a
/// rank.
fn numbered(line: &Line<'_>) -> Option<f64> {
    let (n, len) = scan::count(line.head)?;
    let rest = &line.head[len..];
    let is_column = line.blanks >= 2 && rest.starts_with([' ', '\t']) || rest.trim_start().starts_with(['|', '│']);
    is_column.then_some(n)
}

/// `Epoch: 10, …`, `epoch 3/90 - …`, `[Epoch 12] …`, `[00:43:24] epoch 1/10 …`, `… | INFO | main:train:16 - Epoch 1 …`, `Rank 0, epoch 2 …`:
/// in front of it stands nothing but what a logger puts there, and that the epoch is over.
fn starts_with_epoch(text: &str) -> bool {
    const WORD: &str = "epoch";
    let front = text.as_bytes().get(..text.len().min(MOST_OF_LOGGER)).unwrap_or_default();
    let at = memchr::memchr2_iter(b'e', b'E', front).find(|at| {
        let is_whole = *at == 0 || !front[at - 1].is_ascii_alphanumeric() && front[at - 1] != b'_';
        is_whole && scan::starts_with(&text[*at..], WORD)
    });
    at.and_then(|at| text.get(..at)).is_some_and(is_of_logger)
}

/// A time, a level, a place in the source, a name and a device take no more room.
const MOST_OF_LOGGER: usize = 140;

/// Whether all words of a text are of those that loggers put in front of a message.
fn is_of_logger(text: &str) -> bool {
    const LEVELS: &[&str] = &["INFO", "DEBUG", "NOTICE", "info", "debug", "Info"];
    const WHO: &[&str] = &["rank", "gpu", "cuda", "device", "node", "worker", "process", "pid", "line", "master", "main"];
    const OVER: &[&str] = &["end", "of", "finished", "completed", "after", "done", "summary", "train", "training"];
    const MONTHS: &[&str] = &["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let mut has_level = false;
    text.split(|c: char| c.is_whitespace() || matches!(c, '|' | ',' | ';' | '-' | '=' | '>' | '*' | '#' | '(' | ')')).all(|word| {
        let bare = word.trim_matches(['[', ']', ':', '<', '\'', '"']);
        let lower = bare.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches(':').to_ascii_lowercase();
        let is_number = bare.bytes().all(|b| b.is_ascii_digit() || matches!(b, b':' | b'.' | b'/' | b'T' | b'Z' | b'+'));
        // `main:train:16`, `trainer.core`, `train.py`, `__main__`
        let tells_of_another = || bare.split(|c: char| !c.is_ascii_alphanumeric()).any(is_of_another);
        let is_place = (bare.contains(['.', ':']) || bare.starts_with("__")) && !tells_of_another();
        let is_name = (word.starts_with('[') || has_level && word.ends_with(':')) && !tells_of_another();
        has_level |= LEVELS.iter().any(|level| bare.split(':').next() == Some(level));
        is_number
            || is_place
            || is_name
            || LEVELS.contains(&bare)
            || MONTHS.contains(&bare)
            || WHO.contains(&lower.as_str())
            || OVER.contains(&lower.as_str())
    })
}

/// A name, or a part of one, of an evaluation or of what was kept: `Validator`, `evaluate`, `ema`, `checkpoint`.
fn is_of_another(part: &str) -> bool {
    let lower = part.to_ascii_lowercase();
    NAMES.file.of_another.iter().any(|start| lower.starts_with(start.as_str())) || is_not_of_training(&lower)
}

/// `loss 3/4` is none.
fn has_fraction(text: &str) -> bool {
    text.match_indices("oss ").any(|(at, word)| {
        let tail = text[at + word.len()..].trim_start();
        scan::number(tail).is_some_and(|(_, n)| tail[n..].starts_with('/'))
    })
}

/// `epoch=2 dt=0.67 train_loss=0.176`; `Epoch 9 | Batchsize: 32 | Steps: 32` of PyTorch's tutorials, which has no loss.
fn names_training(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    counts_batches(text) || ["train_loss", "train loss", "training loss"].iter().any(|name| lower.contains(name))
}

fn counts_batches(text: &str) -> bool {
    text.contains("| Batchsize: ")
}

/// An accuracy with its number, not one of an evaluation.
fn names_accuracy(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    ["accuracy", "acc"].iter().any(|name| {
        lower.match_indices(name).any(|(at, _)| {
            let before = lower[..at].trim_end_matches([' ', '_', '-', '/']);
            let is_word = !lower[at + name.len()..].starts_with(|c: char| c.is_ascii_alphabetic());
            let of_training = !["val", "valid", "validation", "eval", "test", "best"].iter().any(|word| before.ends_with(word));
            is_word && of_training && value(&text[at + name.len()..]).is_some()
        })
    })
}

/// Everything in `text` that has a name, in one pass over its words.
pub fn read(text: &str) -> Found {
    let bytes = text.as_bytes();
    let (mut found, table) = (Found::default(), &*NAMES);
    let mut space = [0; MAX_WORD];
    // Where the last number begins and ends.
    let mut number = (0, 0);
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        if b == b'[' {
            let place = counts(&text[at + 1..]).filter(|(_, total)| total.is_some());
            take_step(&mut found, Is::Step, RANK_OF_BRACKETS, place);
        }
        if !is_word(b) {
            at += 1;
            continue;
        }
        let start = at;
        at += bytes[at..].iter().take_while(|b| is_word(**b)).count();
        if b.is_ascii_digit() {
            // `1.745e6`, `1,745,000`
            at += bytes[at..].iter().take_while(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'e' | b'+')).count();
            // `global_step 12Loss 3.4`
            if let Some(digits) =
                bytes[start..at].iter().position(|b| !b.is_ascii_digit()).filter(|n| bytes[start + n..at].starts_with(GLUED))
            {
                at = start + digits;
            }
            // `2.0e-05`, `2.0E-05`
            at += usize::from(bytes.get(at) == Some(&b'E') && bytes.get(at + 1) == Some(&b'-'));
            if matches!(bytes[at - 1], b'e' | b'E') && bytes.get(at) == Some(&b'-') && bytes.get(at + 1).is_some_and(u8::is_ascii_digit) {
                at += 1 + bytes[at + 1..].iter().take_while(|b| b.is_ascii_digit()).count();
            }
            number = (start, at);
            continue;
        }
        let part_of_more = start > 0 && matches!(bytes[start - 1], b'-' | b'.' | b'/');
        // `step-time 28.7 sec` is `step_time`.
        let end = at + bytes[at..].iter().take_while(|b| is_word(**b) || **b == b'-').count();
        if end > at
            && !part_of_more
            && let Some(name) = hyphened(&bytes[start..end], &mut space)
        {
            take(&mut found, name.is, name.rank, &text[end..]);
            at = end;
            continue;
        }
        let Some(lower) = lower_case(&bytes[start..at], &mut space).filter(|_| !part_of_more) else { continue };
        if lower == b"ms"
            && is_lone_time(text, number)
            && let Some((ms, _)) = beside(text, number, start).and_then(scan::number)
        {
            found.put(Is::SomeTime, RANK_OF_BRACKETS, ms / 1e3);
            continue;
        }
        if let Some(place) = table.file.turns.iter().any(|turn| turn.as_bytes() == lower).then(|| place_before(text, start)).flatten() {
            take_step(&mut found, Is::Step, RANK_OF_BRACKETS, Some(place));
            continue;
        }
        let mut names = table.words.of(lower).peekable();
        if names.peek().is_none() && loss_of(lower).is_some() {
            take_loss(&mut found, lower, &text[at..]);
            continue;
        }
        if names.peek().is_none() {
            at = rate(text, start, at, number, &mut found);
            continue;
        }
        let Some(name) = names.find(|name| table.takes(name, bytes, start)) else { continue };
        // `grad_norm=0.8 sec/step=0.67`: what has a value of its own does not take that before it.
        let rest = &text[at..];
        let has_own = rest.starts_with('=')
            || rest.strip_prefix(':').is_some_and(|value| scan::value(value).starts_with(|c: char| c.is_ascii_digit()));
        let before = if name.behind && !has_own { beside(text, number, start) } else { None };
        match before {
            Some(number) => take(&mut found, name.is, name.rank, number),
            None => take(&mut found, name.is, name.rank, rest),
        }
    }
    found
}

/// The name that words with hyphens between them are with underscores.
fn hyphened(word: &[u8], space: &mut [u8; MAX_WORD]) -> Option<&'static Name> {
    let n = lower_case(word, space)?.len();
    space[..n].iter_mut().filter(|b| **b == b'-').for_each(|b| *b = b'_');
    NAMES.words.of(&space[..n]).find(|name| name.front.is_empty() && !name.behind)
}

/// `340/10000` in front of a word.
fn place_before(text: &str, at: usize) -> Option<(f64, Option<f64>)> {
    let before = text[..at].trim_end_matches(' ');
    let digits = |text: &str| text.bytes().rev().take_while(u8::is_ascii_digit).count();
    let front = before[..before.len() - digits(before)].trim_end_matches(' ').strip_suffix('/')?.trim_end_matches(' ');
    let from = front.len() - digits(front);
    let is_whole = from < front.len() && !before[..from].ends_with(|c: char| c.is_alphanumeric() || matches!(c, '.' | '/'));
    counts(&before[from..]).filter(|(_, total)| is_whole && total.is_some())
}

/// A step and, with a slash, the total.
fn step(tail: &str) -> Option<(f64, Option<f64>)> {
    counts(tail.trim_start_matches([' ', '\t', ':', '=', '#', '[', '(', '"', '\'']))
}

/// What some programs print right behind a number.
const GLUED: &[u8] = b"Loss";

fn counts(tail: &str) -> Option<(f64, Option<f64>)> {
    let tail = tail.trim_start_matches(' ');
    let is_glued = |rest: &str| rest.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && !rest.as_bytes().starts_with(GLUED);
    let (n, len) = scan::count(tail).filter(|(_, n)| !is_glued(&tail[*n..]))?;
    let rest = tail[len..].trim_start();
    let total = rest.strip_prefix('/').or_else(|| rest.strip_prefix("of ")).and_then(|t| scan::count(t.trim_start())).map(|(t, _)| t);
    Some((n, total.filter(|t| *t >= n)))
}

/// The number behind a name; `tensor(…)` is unwrapped.
fn value(tail: &str) -> Option<f64> {
    let tail = scan::value(tail);
    let (v, n) = scan::scaled(tail.strip_prefix("tensor(").unwrap_or(tail))?;
    // `loss 3rd`
    let glued = tail[n..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (!glued || tail.starts_with("tensor(")).then_some(v)
}

/// `11.9 ms`, `(ms): 11.9`, `0.35`
fn duration(tail: &str, default: f64) -> Option<f64> {
    for (unit, factor) in [(" (ms)", 1e3), ("(ms)", 1e3), (" (s)", 1.0), ("(s)", 1.0)] {
        if let Some(tail) = tail.strip_prefix(unit) {
            return value(tail).map(|v| v / factor);
        }
    }
    let tail = scan::value(tail);
    // The time of day is none: `Time=08:29:39`.
    let is_clock = |n: usize| tail[n..].strip_prefix(':').is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()));
    scan::duration(tail, default).filter(|(s, n)| !is_clock(*n) && *s < LONGEST_STEP_S).map(|(v, _)| v)
}

/// What is longer is a date: seconds since 1970.
const LONGEST_STEP_S: f64 = 1e6;

/// The number that ends just before `at`: `1745000 tok/s`.
fn beside(text: &str, (start, end): (usize, usize), at: usize) -> Option<&str> {
    let number = text[start..end].trim_end_matches(['.', ',', 'e', '+']);
    (end > start && number.len() == end - start && text[end..at].bytes().all(|b| b == b' ')).then_some(number)
}

/// Takes `tokens/s 2,741,882` or `1745000 tok/s` in, if the word is a rate, and returns where it ends.
fn rate(text: &str, start: usize, at: usize, number: (usize, usize), found: &mut Found) -> usize {
    let mut space = [0; MAX_WORD];
    let end = start + rate_name(&text.as_bytes()[start..]);
    let Some(unit) = lower_case(&text.as_bytes()[start..end], &mut space).and_then(scan::unit_of) else { return at };
    let is_assigned = text[end..].trim_start().starts_with([':', '=']);
    let tail = scan::value(&text[end..]);
    // `lr 2.0e-05  tokens/s 28127`: the number in front is the value of another name.
    let next = scan::scaled(tail).map_or("", |(_, n)| tail[n..].trim_start());
    let has_unit = scan::unit_of(next[..rate_name(next.as_bytes())].to_ascii_lowercase().as_bytes()).is_some();
    let is_named = tail.starts_with(|c: char| c.is_ascii_digit()) && !has_unit && has_name(&text[..number.0]);
    match beside(text, number, start).filter(|_| !is_assigned && !is_named) {
        Some(number) => take(found, Is::Rate(unit), 0, number),
        // Thousands that the line's end has cut are no number.
        None if scan::scaled(tail).is_some_and(|(_, n)| n == tail.len() || !scan::is_cut(&tail[n..])) => {
            take(found, Is::Rate(unit), 0, tail);
        }
        None => {}
    }
    end
}

/// Whether a text ends with the name of a number: `… lr `, `loss: `.
fn has_name(before: &str) -> bool {
    let mut space = [0; MAX_WORD];
    let before = before.trim_end_matches([' ', ':', '=']);
    let start = before.len() - before.bytes().rev().take_while(|b| is_word(*b)).count();
    let word = lower_case(&before.as_bytes()[start..], &mut space);
    word.is_some_and(|word| NAMES.words.of(word).any(|name| !name.behind) || loss_of(word).is_some())
}

/// Length of the name of a rate: `tokens/s`, `tokens-per-second-per-gpu`, `samples per second`.
fn rate_name(bytes: &[u8]) -> usize {
    let n = bytes.iter().take_while(|b| is_word(**b) || **b == b'-').count();
    let tail = &bytes[n..];
    let is = |words: &&&[u8]| tail.get(..words.len()).is_some_and(|t| t.eq_ignore_ascii_case(words));
    n + [&b" per second per gpu"[..], b" per second", b" per sec"].iter().find(is).map_or(0, |words| words.len())
}

/// `Epoch 3`, `INFO Epoch: 3/10`, and nothing else.
pub fn lone_epoch(text: &str) -> Option<f64> {
    const LONGEST: usize = 40;
    let text = without_level(text).trim_matches(['-', '=', '*', '#', ' ', ':', '[', ']']);
    let tail = text.strip_prefix("Epoch").or_else(|| text.strip_prefix("epoch")).or_else(|| text.strip_prefix("EPOCH"))?;
    let tail = tail.trim_start_matches([' ', ':', '#', '[']);
    let (epoch, n) = scan::number(tail).filter(|_| text.len() <= LONGEST)?;
    let rest = tail[n..].trim_start_matches([' ', '/']).trim_start_matches("of ");
    rest.bytes().all(|b| b.is_ascii_digit()).then_some(epoch)
}

/// `Training loss: 0.046`, `INFO   train loss = 0.046`, and nothing else.
pub fn lone_loss(text: &str) -> Option<f64> {
    let text = without_level(text.trim_start_matches([':', ' '])).trim_start();
    let starts =
        ["Training loss", "training loss", "Train loss", "train loss", "Train Loss", "Training Loss", "train_loss", "Loss", "loss"];
    let tail = starts.iter().find_map(|start| text.strip_prefix(start))?.trim_start_matches([' ', ':', '=']);
    scan::number(tail).filter(|(_, n)| tail[*n..].trim().is_empty()).map(|(loss, _)| loss)
}

/// The line without the level that a logger put in front of it.
fn without_level(text: &str) -> &str {
    ["INFO", "[INFO]", "INFO:"].iter().find_map(|level| text.strip_prefix(level)?.strip_prefix([' ', ':'])).unwrap_or(text).trim()
}

/// The loss of a line that has names and numbers and nothing else: `train_loss: 1.044 v_num: 1.000`.
pub fn only_metrics(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    while let Some(name) = words.next() {
        name.strip_suffix(':')?;
        scan::number(words.next()?)?;
    }
    read(text).get(Is::Loss)
}
