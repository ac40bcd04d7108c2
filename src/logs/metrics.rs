//! `metrics.csv`, which Lightning's CSVLogger writes: a header of sorted names, and a row for each time that something was logged. Rows
//! come when the logger saves, not when steps end.
//!
//! Source: `lightning/fabric/loggers/csv_logs.py` of Lightning 2.6. The column `step` counts from 0; a name that is new makes it write the
//! file anew.

use super::{Dialect, Step};

/// Which column is what.
#[derive(Clone, Debug, PartialEq)]
pub struct Columns {
    count: usize,
    step: usize,
    epoch: usize,
    loss: Option<usize>,
    learning_rate: Option<usize>,
}

/// What rows are known by, and shown as.
pub const DIALECT: Dialect = Dialect::Other("metrics.csv");

/// Names of the training's loss, the best first: that of a step before the mean of an epoch.
const LOSSES: &[&str] = &["train_loss_step", "train/loss_step", "train_loss", "train/loss", "loss_step", "loss"];
const MAX_LINE: usize = 16 << 10;

impl Columns {
    /// Of the first line of a file; `None` where it is no such header.
    pub fn of(header: &str) -> Option<Columns> {
        let header = header.trim_end_matches('\r');
        let names: Vec<&str> = header.split(',').collect();
        let place = |name: &str| names.iter().position(|n| *n == name);
        let is_sorted = names.is_sorted() && header.len() <= MAX_LINE;
        Some(Columns {
            count: names.len(),
            step: place("step").filter(|_| is_sorted)?,
            epoch: place("epoch")?,
            loss: LOSSES.iter().find_map(|name| place(name)),
            learning_rate: names.iter().position(|name| name.starts_with("lr-")),
        })
    }

    /// A row. One of a validation has no loss of the training: it is no step.
    pub fn row(&self, line: &str) -> Option<Step> {
        let line = line.trim_end_matches('\r');
        let cells: Vec<&str> = line.split(',').take(self.count + 1).collect();
        let number = |at: usize| cells.get(at)?.parse::<f64>().ok();
        let loss = self.loss.and_then(number);
        if cells.len() != self.count || line.len() > MAX_LINE || self.loss.is_some() && loss.is_none() {
            return None;
        }
        Some(Step {
            dialect: DIALECT,
            step: Some(cells.get(self.step)?.parse().ok()?),
            epoch: number(self.epoch),
            loss,
            learning_rate: self.learning_rate.and_then(number),
            ..Step::default()
        })
    }
}
