//! What nccl-tests measured: its tables in a log, or its JSON; and whether anything is wrong with it.

mod json;
mod text;

pub use json::parse as parse_json;
pub use text::{Tables, begins, ends};

use std::collections::{BTreeMap, BTreeSet};

/// Rows kept of one table. A run has some dozens.
const MAX_ROWS: usize = 4096;
const MAX_FAILURES: usize = 32;
const MAX_HOSTS: usize = 1 << 14;
const MAX_SEATS: usize = 1 << 14;
const MAX_MODELS: usize = 8;

/// One run of one test.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// `all_reduce`
    pub collective: Option<String>,
    pub ranks: Option<u32>,
    pub devices: Devices,
    /// It measures something else than one operation after the other: several in one launch (`-m`), each waited for (`-z`), or the time of
    /// the CPU (`-C`).
    pub odd_timing: bool,
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
    /// It was told to check nothing (`-c 0`).
    unchecked: bool,
    /// Its column is the largest error of a row, which rounding makes unequal to 0 (2.12 and older).
    error_column: bool,
}

/// The GPUs that the test lists.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Devices {
    listed: u32,
    /// Ranks were left out, or a line names no host.
    gaps: bool,
    /// Ranks on a GPU that a rank above has, too.
    shared: u32,
    /// GPUs by host, each once.
    hosts: BTreeMap<String, u32>,
    /// Addresses of GPUs on the PCI bus, by host.
    seats: BTreeSet<(String, String)>,
    models: BTreeSet<String>,
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
    /// As the line names it.
    pub host: Option<String>,
    /// It ends the run. Otherwise it is what NCCL printed last, which may have been no more than a warning.
    pub fatal: bool,
}

impl Devices {
    /// So many GPUs of a process, in the order of ranks. `bus` is empty where a line does not name it.
    fn add(&mut self, first_rank: u32, count: u32, host: Option<&str>, bus: &str, model: &str) {
        self.gaps |= first_rank != self.listed || host.is_none() || model.is_empty();
        self.listed = self.listed.saturating_add(count);
        let host = host.unwrap_or_default();
        // Old versions print a part of the address, and containers a name that others have, too.
        let is_seat = count == 1 && bus.contains(':') && host != "localhost";
        if is_seat && self.seats.len() < MAX_SEATS && !self.seats.insert((host.to_owned(), bus.to_owned())) {
            self.shared = self.shared.saturating_add(1);
            return;
        }
        if self.hosts.len() < MAX_HOSTS || self.hosts.contains_key(host) {
            let on = self.hosts.entry(host.to_owned()).or_default();
            *on = on.saturating_add(count);
        }
        if self.models.len() < MAX_MODELS {
            self.models.insert(model.to_owned());
        }
    }

    /// How many hosts there are, where all ranks are listed and all lines name one.
    pub fn nodes(&self) -> Option<u32> {
        u32::try_from(self.hosts.len()).ok().filter(|n| *n > 0 && !self.gaps)
    }

    /// `2 nodes (n1, n2) of 8 NVIDIA H100 80GB HBM3`, `3 GPUs on n1 and 1 on n2`, `1 × H100 on n1 for 2 ranks`; empty where the test lists none.
    pub fn words(&self) -> String {
        let words = self.words_of_gpus();
        if words.is_empty() || self.shared == 0 { words } else { format!("{words} for {} ranks", self.listed) }
    }

    fn words_of_gpus(&self) -> String {
        const MOST: usize = 8;
        let models = self.models.iter().map(String::as_str).filter(|model| !model.is_empty()).collect::<Vec<_>>().join(" and ");
        let models = if models.is_empty() { "GPU" } else { models.as_str() };
        let named: Vec<&str> = self.hosts.keys().map(String::as_str).filter(|host| !host.is_empty()).collect();
        if named.is_empty() || self.gaps {
            return String::new();
        }
        let more = if named.len() > MOST { ", …" } else { "" };
        let list = named[..named.len().min(MOST)].join(", ");
        match self.hosts.values().copied().collect::<BTreeSet<u32>>().into_iter().collect::<Vec<_>>()[..] {
            [each] if named.len() == 1 => format!("{each} × {models} on {list}"),
            [each] => format!("{} nodes ({list}{more}) of {each} × {models}", named.len()),
            _ => format!("{} × {models} on {} nodes ({list}{more})", self.listed - self.shared, named.len()),
        }
    }

    /// Model, nodes and GPUs of each, where all ranks are listed and all nodes are alike.
    pub fn alike(&self) -> Option<(&str, u32, u32)> {
        let per_node = *self.hosts.values().next()?;
        let same = !self.gaps && self.models.len() == 1 && self.hosts.values().all(|n| *n == per_node);
        let nodes = u32::try_from(self.hosts.len()).ok()?;
        let whole = same && nodes.checked_mul(per_node) == Some(self.listed);
        whole.then_some((self.models.first()?.as_str(), nodes, per_node))
    }
}

impl Row {
    pub fn wrong(&self) -> Option<u64> {
        let sides = [self.out_of_place, self.in_place];
        let counts = sides.into_iter().flatten().filter_map(|side| side.wrong);
        counts.fold(None, |sum, wrong| Some(sum.unwrap_or(0_u64).saturating_add(wrong)))
    }

    /// The faster side.
    pub fn busbw(&self) -> Option<(f64, bool)> {
        let sides = [(self.out_of_place, false), (self.in_place, true)];
        let known = sides.into_iter().filter_map(|(side, in_place)| Some((side?.busbw?, in_place)));
        known.filter(|(busbw, _)| busbw.is_finite()).max_by(|a, b| a.0.total_cmp(&b.0))
    }
}

impl Table {
    pub fn peak_busbw_gbytes_per_s(&self) -> Option<f64> {
        self.peak.map(|peak| peak.busbw_gbytes_per_s)
    }

    /// Bus bandwidth of the largest size, the faster of its sides.
    pub fn largest_busbw_gbytes_per_s(&self) -> Option<f64> {
        let largest = self.rows.iter().max_by_key(|row| row.size_bytes)?;
        largest.busbw().map(|(busbw, _)| busbw)
    }

    /// The shortest time of small sizes, microseconds: what an operation takes at least.
    pub fn least_time_us(&self) -> Option<f64> {
        /// Larger ones take time for their bytes.
        const SMALL_BYTES: u64 = 32 << 10;
        let rows = self.rows.iter().filter(|row| (1..=SMALL_BYTES).contains(&row.size_bytes) && !self.odd_timing && self.ranks != Some(1));
        let times = rows.flat_map(|row| [row.out_of_place, row.in_place]).filter_map(|side| side?.time_us);
        times.filter(|us| *us > 0.0 && us.is_finite()).min_by(f64::total_cmp)
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

    fn fail(&mut self, line: u64, text: &str, fatal: bool, host: Option<String>) {
        if self.failures.len() < MAX_FAILURES {
            self.failures.push(Failure { line, text: crate::base::clean::clip(text.trim(), 300).into_owned(), host, fatal });
        } else {
            self.failures_left_out += 1;
        }
    }

    /// What the rows and the last lines tell together, once all of them are read.
    fn conclude(&mut self) {
        if self.error_column {
            // The last line of a run that checks nothing counts 0 all the same.
            self.wrong = self.out_of_bounds.map(|seen| seen.count).filter(|_| !self.unchecked);
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
        // Of one rank it is 0 for all of them.
        match (reduces, row.root, factor.filter(|factor| *factor > 0.0)?) {
            (true, Some(_), _) => Some("reduce"),
            (true, None, f) if f > 1.03 => Some("all_reduce"),
            (true, None, f) if f < 0.97 => Some("reduce_scatter"),
            (false, Some(_), f) if f > 0.97 => Some("broadcast"),
            // all_gather, alltoall and others have the same columns and the same factor; two ranks have none.
            _ => None,
        }
    }

    pub fn name(&self) -> String {
        match &self.collective {
            Some(collective) => format!("nccl-tests {collective}"),
            None => "nccl-tests".into(),
        }
    }
}
