//! What nccl-tests measured: its tables in a log, or its JSON; and whether anything is wrong with it.

mod json;
mod text;

pub use json::parse as parse_json;
pub use text::{Tables, begins};

use super::{Judged, size_words};
use crate::findings::{Confidence, Severity};

/// Rows kept of one table. A run has some dozens.
const MAX_ROWS: usize = 4096;
const MAX_FAILURES: usize = 32;

/// One run of one test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// `all_reduce`
    pub collective: Option<String>,
    pub ranks: Option<u32>,
    pub rows: Vec<Row>,
    /// Rows that were read but are too many to keep.
    pub rows_left_out: u64,
    pub peak: Option<Peak>,
    /// As the test printed it: over all sizes, so small sizes pull it down.
    pub avg_busbw_gbytes_per_s: Option<f64>,
    /// Wrong elements in all rows; `None` where results were not checked.
    pub wrong: Option<u64>,
    /// The first row with wrong elements.
    pub first_wrong: Option<Row>,
    /// The run's own count of bad results (rows, or elements in old versions), and whether it called them a failure.
    pub out_of_bounds: Option<OutOfBounds>,
    /// Whether the average reached NCCL_TESTS_MIN_BW, where that was asked.
    pub fast_enough: Option<bool>,
    /// The run came to its end.
    pub complete: bool,
    pub failures: Vec<Failure>,
    pub failures_left_out: u64,
    /// The size that was begun last and has no result, with its line.
    pub unfinished: Option<(u64, u64)>,
    /// It began with a row or a last line: somebody has cut the run out, and its end may be missing for the same reason.
    pub excerpt: bool,
    /// Line numbers from 1; 0 in JSON.
    pub first_line: u64,
    pub last_line: u64,
    /// Its column is the largest error of a row, which rounding makes unequal to 0 (2.12 and older).
    error_column: bool,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Row {
    pub size_bytes: u64,
    /// Elements.
    pub count: u64,
    pub dtype: String,
    /// `sum`, `none`
    pub redop: Option<String>,
    /// `None` without a root.
    pub root: Option<u32>,
    pub out_of_place: Option<Side>,
    pub in_place: Option<Side>,
    /// Line number from 1; 0 in JSON.
    pub line: u64,
}

/// Half of a row. Bandwidths in 10⁹ bytes/s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Side {
    pub time_us: Option<f64>,
    pub algbw: Option<f64>,
    pub busbw: Option<f64>,
    /// Elements; `None` where they were not checked.
    pub wrong: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Peak {
    pub busbw_gbytes_per_s: f64,
    pub size_bytes: u64,
    pub in_place: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutOfBounds {
    pub count: u64,
    pub ok: bool,
    pub line: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub line: u64,
    pub text: String,
    /// It ends the run. Otherwise it is what NCCL said last, which may have been no more than a warning.
    pub fatal: bool,
}

impl Row {
    fn wrong(&self) -> Option<u64> {
        let sides = [self.out_of_place, self.in_place];
        let counts = sides.into_iter().flatten().filter_map(|side| side.wrong);
        counts.fold(None, |sum, wrong| Some(sum.unwrap_or(0_u64).saturating_add(wrong)))
    }

    /// The faster side.
    fn busbw(&self) -> Option<(f64, bool)> {
        let sides = [(self.out_of_place, false), (self.in_place, true)];
        let known = sides.into_iter().filter_map(|(side, in_place)| Some((side?.busbw?, in_place)));
        known.filter(|(busbw, _)| busbw.is_finite()).max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

impl Table {
    pub fn peak_busbw_gbytes_per_s(&self) -> Option<f64> {
        self.peak.map(|peak| peak.busbw_gbytes_per_s)
    }

    fn add(&mut self, row: Row) {
        if let Some((busbw, in_place)) = row.busbw()
            && self.peak.is_none_or(|peak| busbw > peak.busbw_gbytes_per_s)
        {
            self.peak = Some(Peak { busbw_gbytes_per_s: busbw, size_bytes: row.size_bytes, in_place });
        }
        if let Some(wrong) = row.wrong() {
            self.wrong = Some(self.wrong.unwrap_or(0).saturating_add(wrong));
            if wrong > 0 && self.first_wrong.is_none() {
                self.first_wrong = Some(row.clone());
            }
        }
        if self.rows.len() < MAX_ROWS {
            self.rows.push(row);
        } else {
            self.rows_left_out += 1;
        }
    }

    fn fail(&mut self, line: u64, text: &str, fatal: bool) {
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(Failure { line, text: crate::text::clean::clip(text.trim(), 300).into_owned(), fatal });
        } else {
            self.failures_left_out += 1;
        }
    }

    /// What the rows and the last lines tell together, once all of them are read.
    fn conclude(&mut self) {
        if self.error_column {
            self.wrong = self.out_of_bounds.map(|seen| seen.count);
        }
        if self.collective.is_none() {
            self.collective = self.guess().map(str::to_owned);
        }
    }

    /// The collective, by its columns and the factor between its two bandwidths.
    fn guess(&self) -> Option<&'static str> {
        let row = self.rows.iter().rev().find(|row| row.busbw().is_some())?;
        let side = row.in_place.or(row.out_of_place)?;
        let factor = side.algbw.filter(|algbw| *algbw >= 1.0).and_then(|algbw| Some(side.busbw? / algbw));
        let reduces = row.redop.as_deref().is_some_and(|op| op != "none");
        match (reduces, row.root, factor?) {
            (true, Some(_), _) => Some("reduce"),
            (true, None, f) if f > 1.03 => Some("all_reduce"),
            (true, None, f) if f < 0.97 => Some("reduce_scatter"),
            (false, Some(_), f) if f > 0.97 => Some("broadcast"),
            // all_gather, alltoall and others have the same columns and the same factor; two ranks have none.
            _ => None,
        }
    }

    fn name(&self) -> String {
        match &self.collective {
            Some(collective) => format!("nccl-tests {collective}"),
            None => "nccl-tests".into(),
        }
    }
}

/// Below this part of the peak, the largest size is slow. Curves of healthy nodes rise, or lose a tenth where the algorithm changes.
const ODD_PART: f64 = 0.7;
/// Smaller than this, latency decides.
const ODD_SIZE: u64 = 64 << 20;

/// What is wrong with a run. `path` is where it stands, for the evidence.
pub fn judge(table: &Table, path: &str) -> Vec<Judged> {
    let mut out = Vec::new();
    let failed = |severity, confidence, summary: String| Judged::new("nccl-tests-failed", severity, confidence, summary);
    let name = table.name();
    let line = |line: u64| (line > 0).then_some(line);
    let bad = table.out_of_bounds.filter(|seen| !seen.ok);
    if table.wrong.is_some_and(|wrong| wrong > 0) || bad.is_some() {
        let wrong = table.wrong.filter(|wrong| *wrong > 0).or(bad.map(|seen| seen.count)).unwrap_or(0);
        let elements = if table.first_wrong.is_some() { "wrong elements" } else { "results out of bounds" };
        let mut found = failed(Severity::Error, Confidence::Certain, format!("{name}: {wrong} {elements}"))
            .because("the data that arrived is not the data that was sent; a training run on these GPUs would compute nonsense");
        found.next = Some("run the test on pairs of GPUs (-g 2) to find the bad one; look at ECC and NVLink errors".into());
        if let Some(row) = &table.first_wrong {
            let text = format!("{} wrong at {}", row.wrong().unwrap_or(0), size_words(row.size_bytes));
            found = found.proved("line", path, line(row.line), text);
        }
        if let Some(seen) = bad {
            found = found.proved("line", path, line(seen.line), format!("Out of bounds values : {} FAILED", seen.count));
        }
        out.push(found);
    }
    let fatal: Vec<&Failure> = table.failures.iter().filter(|failure| failure.fatal).collect();
    if let Some(first) = fatal.first() {
        let mut found = failed(Severity::Error, Confidence::Certain, format!("{name} failed: {}", first.text));
        if let Some((size, _)) = table.unfinished {
            found.why = format!("it stopped at {}", size_words(size));
        }
        for failure in fatal.iter().take(5) {
            found = found.proved("line", path, line(failure.line), failure.text.clone());
        }
        out.push(found);
    } else if !table.complete && table.out_of_bounds.is_none() && !table.excerpt {
        let at = match (table.unfinished, table.rows.last()) {
            (Some((size, _)), _) => format!(" at {}", size_words(size)),
            (None, Some(row)) => format!(" after {}", size_words(row.size_bytes)),
            (None, None) => " before its first result".into(),
        };
        let last = table.unfinished.map_or(table.last_line, |(_, line)| line);
        out.push(
            failed(Severity::Warning, Confidence::Likely, format!("{name} did not finish: it stopped{at}"))
                .because("its last lines are missing: it hangs, was killed, or still runs")
                .proved("line", path, line(last), "the last line of the run".to_owned()),
        );
    } else if let Some(said) = table.failures.first() {
        out.push(
            failed(Severity::Warning, Confidence::Possible, format!("{name} finished, but NCCL's last error was: {}", said.text)).proved(
                "line",
                path,
                line(said.line),
                said.text.clone(),
            ),
        );
    }
    if table.fast_enough == Some(false) {
        let average = table.avg_busbw_gbytes_per_s.unwrap_or_default();
        let summary = format!("{name}: average of {average:.1} GB/s is below the bandwidth that was asked (NCCL_TESTS_MIN_BW)");
        out.push(failed(Severity::Error, Confidence::Certain, summary).proved(
            "line",
            path,
            line(table.last_line),
            format!("Avg bus bandwidth : {average} FAILED"),
        ));
    }
    out.extend(odd_curve(table, path));
    out
}

/// Bandwidth that falls again with size.
fn odd_curve(table: &Table, path: &str) -> Option<Judged> {
    let peak = table.peak.filter(|peak| peak.busbw_gbytes_per_s >= 1.0)?;
    let largest = table.rows.iter().filter(|row| row.busbw().is_some()).max_by_key(|row| row.size_bytes)?;
    let (busbw, _) = largest.busbw()?;
    if largest.size_bytes < ODD_SIZE || largest.size_bytes <= peak.size_bytes || busbw >= peak.busbw_gbytes_per_s * ODD_PART {
        return None;
    }
    let summary = format!(
        "{}: {busbw:.1} GB/s at {}, but {:.1} GB/s at {}",
        table.name(),
        size_words(largest.size_bytes),
        peak.busbw_gbytes_per_s,
        size_words(peak.size_bytes)
    );
    let found = Judged::new("nccl-tests-failed", Severity::Info, Confidence::Possible, summary)
        .because("bandwidth should not fall with size: memory, buffers or a throttled GPU may be the limit");
    let line = (largest.line > 0).then_some(largest.line);
    Some(found.proved("line", path, line, format!("{busbw:.2} GB/s at {}", size_words(largest.size_bytes))))
}
