//! Tables of steps: `metrics.csv`, which Lightning's CSVLogger writes, with a header of sorted names, and a row for each time that something
//! was logged, which come when the logger saves and not when steps end; and what a script prints as it goes, `step,loss,seconds`.
//!
//! Source: `lightning/fabric/loggers/csv_logs.py` of Lightning 2.6. The column `step` counts from 0; a name that is new makes it write the
//! file anew.

use super::{Dialect, Step};

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
    learning_rate: Option<usize>,
    step_time_s: Option<usize>,
}

/// What rows are known by, and shown as.
pub const DIALECT: Dialect = Dialect::Other("metrics.csv");

/// Names of the training's loss, the best first: that of a step before the mean of an epoch.
const LOSSES: &[&str] = &["train_loss_step", "train/loss_step", "train_loss", "train/loss", "loss_step", "loss"];
const MAX_LINE: usize = 16 << 10;
/// Of a table that a script prints. Whatever else has a time may mean anything by it.
const TABLE: Dialect = Dialect::Other("csv");
const STEPS: &[&str] = &["step", "global_step", "train_step", "iteration", "iter", "it", "update"];
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
const STEP_TIMES_S: &[&str] = &["step_time", "step_time_s", "seconds_per_step", "sec_per_step", "s_per_step", "time_per_step", "iter_time"];
/// A header with more names is no table that somebody reads as it comes.
const MOST_NAMES: usize = 64;
/// The first that a header has separates its names; where it has none, several blanks do.
const SEPARATORS: [char; 6] = [',', '\t', ';', '|', '\u{2502}', BLANKS];
const BLANKS: char = ' ';

/// The cells of a row. The sides of a table may stand around them.
fn cells(row: &str, separator: char) -> Vec<&str> {
    let row = row.trim();
    if separator == BLANKS {
        return row.split_whitespace().collect();
    }
    let is_side = matches!(separator, '|' | '\u{2502}');
    let row = if is_side { row.strip_prefix(separator).unwrap_or(row) } else { row };
    let row = if is_side { row.strip_suffix(separator).unwrap_or(row) } else { row };
    row.split(separator).map(str::trim).collect()
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
    first.is_some_and(u8::is_ascii_digit) || line.starts_with("\u{2502}".as_bytes())
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
            learning_rate: names.iter().position(|name| name.starts_with("lr-")),
            step_time_s: None,
        })
    }

    /// Of a line of names, separated by commas, tabs, blanks or the sides of cells, one of which is a step or an epoch and one a loss.
    pub fn of_table(header: &str) -> Option<Columns> {
        let separator = SEPARATORS.into_iter().find(|c| header.trim().contains(*c)).filter(|_| header.len() <= MAX_LINE)?;
        if separator == BLANKS && !is_spaced(header) {
            return None;
        }
        let names: Vec<String> = cells(header, separator).into_iter().map(str::to_ascii_lowercase).collect();
        let is_name = |name: &String| {
            name.starts_with(|c: char| c.is_ascii_lowercase()) && name.chars().all(|c| c.is_ascii_alphanumeric() || "_/.- ()".contains(c))
        };
        let place = |known: &[&str]| known.iter().find_map(|k| names.iter().position(|name| name == k));
        let (step, epoch) = (place(STEPS), place(&["epoch", "ep"]));
        if names.len() > MOST_NAMES || !names.iter().all(is_name) || step.or(epoch).is_none() {
            return None;
        }
        Some(Columns {
            dialect: TABLE,
            separator,
            count: names.len(),
            step,
            epoch,
            loss: Some(place(TABLE_LOSSES)?),
            learning_rate: place(RATES),
            step_time_s: place(STEP_TIMES_S),
        })
    }

    /// A row. One of a validation has no loss of the training: it is no step.
    pub fn row(&self, line: &str) -> Option<Step> {
        let line = line.trim_end_matches('\r');
        if line.len() > MAX_LINE {
            return None;
        }
        let cells = cells(line, self.separator);
        let number = |at: usize| cells.get(at)?.parse::<f64>().ok();
        let loss = self.loss.and_then(number);
        let (step, epoch) = (self.step.map(|at| cells.get(at)?.parse().ok()), self.epoch.and_then(number));
        let is_nowhere = step == Some(None) || step.is_none() && epoch.is_none();
        if cells.len() != self.count || self.loss.is_some() && loss.is_none() || is_nowhere {
            return None;
        }
        Some(Step {
            dialect: self.dialect,
            step: step.flatten(),
            epoch,
            loss,
            learning_rate: self.learning_rate.and_then(number),
            step_time_s: self.step_time_s.and_then(number),
            ..Step::default()
        })
    }
}
