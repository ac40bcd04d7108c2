//! Tables of the OSU micro-benchmarks and of nvbandwidth that have come to their end.

use super::words_of;
use crate::base::units::counted;
use regex::Regex;
use std::sync::LazyLock;

/// What is told of each of them begins so.
pub const BEGINNINGS: [&str; 2] = ["OSU ", "nvbandwidth: "];

/// No latency and no bandwidth is as much.
pub const MOST: f64 = 1e15;

/// The tables of the OSU micro-benchmarks: a row for each size, up to one that is known beforehand. Nothing stands below the last row.
#[derive(Default)]
pub struct Osu {
    test: String,
    /// Of the last column that is told: what it measures.
    column: Option<String>,
    rows: u64,
    newest: Option<(usize, String)>,
    /// The largest size that the command asks for.
    asked: Option<u64>,
    told: Vec<(usize, String)>,
}

impl Osu {
    const MOST: usize = 8;
    /// The largest size by default, of tests between two ranks and of collectives, and the one that most ask for: a table that ends with
    /// another one may have been cut or stand.
    const LAST_OF_PAIRS: u64 = 4 << 20;
    const LAST_OF_COLLECTIVES: u64 = 1 << 20;
    const LAST_ASKED: u64 = 1 << 30;

    pub fn read(&mut self, no: usize, line: &str) {
        static TEST: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^# (OSU \S.{3,60}? Test)\b").expect("pattern"));
        static ASKED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bosu_\w+.*\s-m\s*(?:\d*:)?(\d+)").expect("pattern"));
        let line = line.trim_end();
        if let Some(asked) = ASKED.captures(line) {
            self.asked = asked[1].parse().ok();
        }
        if let Some(test) = TEST.captures(line) {
            self.end();
            (self.test, self.column, self.rows) = (words_of(&test[1], 70), None, 0);
        } else if self.test.is_empty() || line.is_empty() {
        } else if let Some(head) = line.strip_prefix("# Size").filter(|_| self.column.is_none()) {
            self.column = head.split("  ").map(str::trim).find(|name| !name.is_empty()).map(|name| words_of(name, 40));
        } else if !line.starts_with('#') {
            self.row(no, line);
        }
    }

    fn row(&mut self, no: usize, line: &str) {
        let mut cells = line.split_whitespace();
        let numbers = cells.clone().all(|cell| cell.parse::<f64>().is_ok() || cell == "Pass");
        let row = cells.next().and_then(|size| size.parse::<u64>().ok()).zip(cells.next().and_then(|value| value.parse::<f64>().ok()));
        self.newest = None;
        let (Some((size, value)), Some(column), true) = (row, &self.column, numbers) else {
            // Another line in the table is no good sign.
            (self.test, self.column) = (String::new(), None);
            return;
        };
        self.rows += 1;
        let is_pair =
            !self.test.contains("All") && !["Bcast", "Reduce", "Gather", "Scatter", "Barrier"].iter().any(|op| self.test.contains(op));
        let last = if is_pair { Self::LAST_OF_PAIRS } else { Self::LAST_OF_COLLECTIVES };
        let is_last = self.asked.map_or(size == last || size == Self::LAST_ASKED, |asked| size == asked);
        if value > 0.0 && value < MOST && is_last {
            let words = format!("{}: {}, the last {value} {column} at {size} bytes", self.test, counted(self.rows as usize, "row"));
            self.newest = Some((no, words));
        }
    }

    fn end(&mut self) {
        if self.told.len() == Self::MOST && self.newest.is_some() {
            self.told.remove(0);
        }
        self.told.extend(self.newest.take());
    }

    pub fn told(mut self) -> Vec<(usize, String)> {
        // One that has begun and has no end may stand: those before it end nothing.
        if self.newest.is_none() && !self.test.is_empty() {
            return Vec::new();
        }
        self.end();
        self.told
    }
}

/// `SUM host_to_device_memcpy_ce 12.98`, for each test of nvbandwidth, and a note when all are over.
#[derive(Default)]
pub struct Nvbandwidth {
    is_one: bool,
    tests: u64,
    best: Option<(f64, String)>,
    told: Option<(usize, String)>,
}

impl Nvbandwidth {
    pub fn read(&mut self, no: usize, line: &str) {
        if line.starts_with("nvbandwidth Version: ") {
            *self = Nvbandwidth { is_one: true, ..Nvbandwidth::default() };
        }
        if !self.is_one {
            return;
        }
        let mut words = line.split_whitespace();
        if let (Some("SUM"), Some(test), Some(value), None) = (words.next(), words.next(), words.next(), words.next()) {
            let known = value.parse::<f64>().ok().filter(|value| *value > 0.0 && *value < MOST && !test.contains("latency"));
            self.tests += 1;
            if let Some(value) = known.filter(|value| self.best.as_ref().is_none_or(|(best, _)| value > best)) {
                self.best = Some((value, words_of(test, 60)));
            }
        } else if line.starts_with("NOTE: The reported results may not reflect") && self.tests > 0 {
            let best = self.best.as_ref().map_or(String::new(), |(value, test)| format!(", the most in {test}: {value} GB/s"));
            self.told = Some((no, format!("nvbandwidth: {}{best}", counted(self.tests as usize, "test"))));
        } else if line.starts_with("Performance can vary with software drivers")
            && let Some((last, _)) = &mut self.told
        {
            *last = no;
        }
    }

    pub fn told(self) -> Option<(usize, String)> {
        self.told
    }
}

#[cfg(test)]
mod tests {
    use super::super::of;

    fn told(text: &str) -> Vec<String> {
        of(text).into_iter().map(|(no, words)| format!("{no} {words}")).collect()
    }

    #[test]
    fn a_table_of_osu_is_told_where_its_last_size_is_there() {
        let table = |test: &str, last: u64| format!("# OSU {test} v7.5\n# Size      Bandwidth (MB/s)\n1      0.18\n{last}      43436.60\n");
        assert_eq!(
            told(&table("MPI-CUDA Bandwidth Test", 4 << 20)),
            ["4 OSU MPI-CUDA Bandwidth Test: 2 rows, the last 43436.6 Bandwidth (MB/s) at 4194304 bytes"]
        );
        // It may stand there, or was cut.
        assert!(told(&table("MPI-CUDA Bandwidth Test", 1 << 20)).is_empty());
        assert_eq!(told(&table("MPI Allreduce Latency Test", 1 << 20)).len(), 1);
        assert!(told(&format!("{}node-3: connection lost\n", table("MPI-CUDA Bandwidth Test", 4 << 20))).is_empty());
        // The next test gives no row; the command asks for larger sizes.
        assert!(told(&format!("{}# OSU MPI-CUDA Latency Test v7.5\n", table("MPI-CUDA Bandwidth Test", 4 << 20))).is_empty());
        assert!(told(&format!("$ mpirun osu_allreduce -m :4194304\n{}", table("MPI Allreduce Latency Test", 1 << 20))).is_empty());
    }

    #[test]
    fn nvbandwidth_is_over_with_its_note() {
        let run = "nvbandwidth Version: v0.8\nSUM host_to_device_memcpy_ce 12.98\n\nSUM host_device_latency_sm 613.22\n";
        assert!(told(run).is_empty());
        assert_eq!(
            told(&format!("{run}\nNOTE: The reported results may not reflect the full capabilities of the platform.\n")),
            ["6 nvbandwidth: 2 tests, the most in host_to_device_memcpy_ce: 12.98 GB/s"]
        );
    }
}
