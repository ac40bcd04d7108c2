//! Tables of steps: `metrics.csv`, which Lightning's CSVLogger writes, with a header of sorted names, and a row for each time that something
//! was logged, which come when the logger saves and not when steps end; and what a script prints as it goes, `step,loss,seconds`.
//!
//! Source: `lightning/fabric/loggers/csv_logs.py` of Lightning 2.6. The column `step` counts from 0; a name that is new makes it write the
//! file anew.

use super::{Dialect, Step, progress};
use std::borrow::Cow;

/// Which column is what.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    dialect: Dialect,
    separator: char,
    count: usize,
    /// One of the two is there.
    step: Option<usize>,
    epoch: Option<usize>,
    loss: Option<usize>,
    /// Other terms of the same loss.
    terms: Vec<usize>,
    learning_rate: Option<usize>,
    step_time_s: Option<usize>,
    /// Columns of which the names of numbers in text tell what they are.
    others: Vec<(usize, progress::Is)>,
}

/// What rows are known by, and shown as.
pub const DIALECT: Dialect = Dialect::Other("metrics.csv");

/// Names of the training's loss, the best first: that of a step before the mean of an epoch.
const LOSSES: &[&str] = &["train_loss_step", "train/loss_step", "train_loss", "train/loss", "loss_step", "loss"];
const MAX_LINE: usize = 16 << 10;
/// Of a table that a script prints. Whatever else has a time may mean anything by it.
const TABLE: Dialect = Dialect::Other("csv");
const STEPS: &[&str] = &["step", "global_step", "train_step", "iteration", "iter", "it", "update", "batch", "minibatch"];
const TABLE_LOSSES: &[&str] = &[
    "loss",
    "train_loss",
    "train/loss",
    "training_loss",
    "loss_train",
    "avg_loss",
    "train loss",
    "training loss",
    "trn_loss",
    "tr_loss",
    "train nll",
    "nll",
    "train mse",
    "train_mse",
    "mse",
    "train l1",
    "l1",
    "train mae",
    "mae",
    "train bce",
    "bce",
];
const RATES: &[&str] = &["lr", "learning_rate"];
const STEP_TIMES_S: &[&str] = &[
    "step_time",
    "step_time_s",
    "seconds_per_step",
    "sec_per_step",
    "s_per_step",
    "time_per_step",
    "iter_time",
    "s/step",
    "s/batch",
    "s/it",
    "s/iter",
    "sec/step",
    "sec/batch",
    "sec/it",
    "sec/iter",
];
/// A header with more names is no table that somebody reads as it comes.
const MOST_NAMES: usize = 64;
/// The first that a header has separates its names; where it has none, several blanks do.
const SEPARATORS: [char; 8] = [',', '\t', ';', '|', '\u{2502}', '\u{2503}', '\u{2551}', BLANKS];
const BLANKS: char = ' ';
/// Two blanks or more, where names have single ones: DeepXDE's `Step      Train loss      Test loss`. It stands in no header.
const GAPS: char = '\u{2003}';
const LEAST_IN_GAPS: usize = 3;
/// Sides of cells: those around names may be thicker than those around numbers.
const SIDES: [char; 4] = ['|', '\u{2502}', '\u{2503}', '\u{2551}'];
/// Parts of the names of steps and epochs (`step` has `ep`, too). Most lines have none of them.
const PLACES: [&[u8]; 4] = [b"ep", b"it", b"update", b"batch"];

/// The cells of a row. The sides of a table may stand around them.
fn cells(row: &str, separator: char) -> Vec<&str> {
    let row = row.trim();
    if separator == BLANKS {
        return row.split_whitespace().collect();
    }
    if separator == GAPS {
        return row.split("  ").map(str::trim).filter(|cell| !cell.is_empty()).collect();
    }
    if !SIDES.contains(&separator) {
        return row.split(separator).map(str::trim).collect();
    }
    let row = row.strip_prefix(SIDES).unwrap_or(row);
    row.strip_suffix(SIDES).unwrap_or(row).split(SIDES).map(str::trim).collect()
}

/// A number, or the sum of those in brackets: `[1.54e+01, 2.07e-01]` are the terms of one loss.
fn parts_of(cell: &str) -> Option<f64> {
    match cell.strip_prefix('[').and_then(|list| list.strip_suffix(']')) {
        Some(list) => list.split(',').map(|part| part.trim().parse::<f64>().ok()).sum(),
        None => cell.parse().ok(),
    }
}

/// Between all of its words stand several blanks.
fn is_spaced(header: &str) -> bool {
    let header = header.trim();
    let lone = |(at, _): (usize, &str)| !header[..at].ends_with(' ') && !header[at + 1..].starts_with(' ');
    !header.match_indices(' ').any(lone)
}

/// What a row of a table may begin with.
pub fn may_be_row(line: &[u8]) -> bool {
    let first = line.iter().find(|b| !matches!(b, b' ' | b'|'));
    first.is_some_and(u8::is_ascii_digit) || SIDES[1..].iter().any(|side| line.starts_with(side.encode_utf8(&mut [0; 4]).as_bytes()))
}

impl Columns {
    /// Of the first line of a file; `None` where it is no such header.
    pub fn of(header: &str) -> Option<Columns> {
        let header = header.trim_end_matches('\r');
        let names: Vec<&str> = header.split(',').collect();
        let place = |name: &str| names.iter().position(|n| *n == name);
        let is_sorted = names.is_sorted() && header.len() <= MAX_LINE;
        Some(Columns {
            dialect: DIALECT,
            separator: ',',
            count: names.len(),
            step: Some(place("step").filter(|_| is_sorted)?),
            epoch: Some(place("epoch")?),
            loss: LOSSES.iter().find_map(|name| place(name)),
            terms: Vec::new(),
            learning_rate: names.iter().position(|name| name.starts_with("lr-")),
            step_time_s: None,
            others: Vec::new(),
        })
    }

    /// Of a line of names, with one of [`SEPARATORS`] between them, one of which is a step or an epoch and one a loss, or a step and
    /// its time. What has neither may be the table of a benchmark or of checkpoints.
    pub fn of_table(header: &str) -> Option<Columns> {
        if let Some(columns) = Columns::of_spacy(header) {
            return Some(columns);
        }
        let lower = header.to_ascii_lowercase();
        if !PLACES.iter().any(|place| memchr::memmem::find(lower.as_bytes(), place).is_some()) {
            return None;
        }
        let separator = SEPARATORS.into_iter().find(|c| header.trim().contains(*c)).filter(|_| header.len() <= MAX_LINE)?;
        let separator = if separator == BLANKS && !is_spaced(header) { GAPS } else { separator };
        if separator == GAPS && cells(header, GAPS).len() < LEAST_IN_GAPS {
            return None;
        }
        let names: Vec<String> = cells(&lower, separator).into_iter().map(str::to_owned).collect();
        let is_twice = |name: &String| names.iter().filter(|other| *other == name).count() > 1;
        let is_name = |name: &String| {
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_/.- ()".contains(c))
        };
        let place = |known: &[&str]| known.iter().find_map(|k| names.iter().position(|name| name == k));
        let (step, epoch) = (place(STEPS), place(&["epoch", "ep"]));
        if names.len() > MOST_NAMES || !names.iter().all(is_name) || names.iter().any(is_twice) || step.or(epoch).is_none() {
            return None;
        }
        let (loss, learning_rate, step_time_s) = (place(TABLE_LOSSES), place(RATES), place(STEP_TIMES_S));
        let taken = [step, epoch, loss, learning_rate, step_time_s];
        let open = names.iter().enumerate().filter(|(at, _)| !taken.contains(&Some(*at)));
        let others: Vec<_> = open.filter_map(|(at, name)| Some((at, progress::named(name)?))).collect();
        let loss = loss.or_else(|| others.iter().find(|(_, is)| *is == progress::Is::Loss).map(|(at, _)| *at));
        // What is measured for batches of many sizes is a benchmark.
        let counts_steps = step.is_some_and(|at| names[at] != "batch");
        let is_of_steps = loss.is_some() || counts_steps && step_time_s.is_some();
        is_of_steps.then_some(Columns {
            dialect: TABLE,
            separator,
            count: names.len(),
            step,
            epoch,
            loss,
            terms: Vec::new(),
            learning_rate,
            step_time_s,
            others,
        })
    }

    /// `E    #       LOSS TAGGER  LOSS NER  ENTS_F  SPEED   SCORE`, the head of spaCy's own table (`spacy/training/loggers.py` of spaCy 3): epoch,
    /// step, and a loss for each part of the pipeline, with two blanks or more between the names.
    fn of_spacy(header: &str) -> Option<Columns> {
        let header = header.trim();
        if !header.starts_with("E ") || header.len() > MAX_LINE {
            return None;
        }
        let names: Vec<String> = header.split("  ").map(|name| name.trim().to_ascii_lowercase()).filter(|name| !name.is_empty()).collect();
        let loss = names.iter().position(|name| name.starts_with("loss "));
        let is_its = names.len() <= MOST_NAMES && names.get(1).is_some_and(|name| name == "#") && loss.is_some();
        let open = || names.iter().enumerate().skip(2).filter(|(at, name)| Some(*at) != loss && !name.starts_with("loss "));
        is_its.then(|| Columns {
            dialect: Dialect::Other("spacy"),
            separator: BLANKS,
            count: names.len(),
            step: Some(1),
            epoch: Some(0),
            loss,
            terms: names.iter().enumerate().filter(|(at, name)| Some(*at) != loss && name.starts_with("loss ")).map(|(at, _)| at).collect(),
            learning_rate: None,
            step_time_s: None,
            others: open().filter_map(|(at, name)| Some((at, progress::named(name)?))).collect(),
        })
    }

    /// `12,500` in a drawn table is 12500. In a list it may as well be 12.5, as some countries write it.
    fn plain<'a>(&self, cell: &'a str) -> Cow<'a, str> {
        let is_drawn = SIDES.contains(&self.separator) || self.separator == BLANKS;
        let mut groups = cell.split('.').next().unwrap_or_default().split(',');
        let first = groups.next().unwrap_or_default();
        let in_groups = (1..=3).contains(&first.len()) && !first.starts_with('0') && groups.all(|group| group.len() == 3);
        if is_drawn && in_groups && cell.contains(',') { Cow::from(cell.replace(',', "")) } else { Cow::from(cell) }
    }

    /// Whether the line names the columns of another table, which has as many.
    pub fn is_over(&self, line: &str) -> bool {
        if self.dialect != TABLE
            || line.len() > MAX_LINE
            || self.separator != GAPS && !line.contains(self.separator)
            || self.separator == BLANKS && !is_spaced(line)
        {
            return false;
        }
        let cells = cells(line, self.separator);
        let is_name = |cell: &&str| cell.starts_with(|c: char| c.is_alphabetic()) && !cell.contains(' ');
        cells.len() == self.count && cells.iter().all(is_name)
    }

    /// A row. One of a validation has no loss of the training: it is no step.
    pub fn row(&self, line: &str) -> Option<Step> {
        let line = line.trim_end_matches('\r');
        if line.len() > MAX_LINE {
            return None;
        }
        let cells = cells(line, self.separator);
        let plain = |at: usize| cells.get(at).map(|cell| self.plain(cell));
        let number = |at: usize| parts_of(&plain(at)?);
        let loss = self.loss.and_then(|at| number(at).map(|loss| loss + self.terms.iter().filter_map(|at| number(*at)).sum::<f64>()));
        let (step, epoch) = (self.step.map(|at| plain(at)?.parse().ok()), self.epoch.and_then(number));
        let is_nowhere = step == Some(None) || step.is_none() && epoch.is_none();
        if cells.len() != self.count || self.loss.is_some() && loss.is_none() || is_nowhere {
            return None;
        }
        let mut said = Step {
            dialect: self.dialect,
            step: step.flatten(),
            epoch,
            loss,
            learning_rate: self.learning_rate.and_then(number),
            step_time_s: self.step_time_s.and_then(number),
            ..Step::default()
        };
        progress::fill(self.others.iter().filter_map(|(at, is)| Some((*is, number(*at)?))), &mut said);
        Some(said)
    }
}
