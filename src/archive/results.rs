//! What well-known benchmarks say of themselves: HPL, NAS Parallel Benchmarks, Google Benchmark, perftest, and MLPerf's log.

mod measured;
mod tools;

use crate::base::clean::clip;
use crate::base::units::{counted, group};
use measured::{Nvbandwidth, Osu};
use regex::Regex;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::LazyLock;
use tools::Tools;

/// Of each kind the last, with its line from 1.
pub(super) fn of(text: &str) -> Vec<(usize, String)> {
    let (mut hpl, mut mlperf, mut npb, mut timed) = (Hpl::default(), Mlperf::default(), Npb::default(), Timed::default());
    let (mut perftest, mut osu, mut nvbandwidth) = (Perftest::default(), Osu::default(), Nvbandwidth::default());
    let mut tools = Tools::default();
    for (at, line) in text.lines().enumerate() {
        let no = at + 1;
        if let Some(json) = line.split_once(":::MLLOG ").map(|(_, json)| json) {
            mlperf.read(no, json);
        } else if !hpl.read(no, line) {
            npb.read(no, line);
            timed.read(no, line);
            perftest.read(no, line);
            osu.read(no, line);
            nvbandwidth.read(no, line);
            tools.read(no, line);
        }
    }
    [hpl.told(), mlperf.told(), timed.told(), nvbandwidth.told()]
        .into_iter()
        .flatten()
        .chain(npb.told)
        .chain(perftest.told)
        .chain(osu.told())
        .chain(tools.told)
        .collect()
}

/// What is told of the tables of Google Benchmark begins so.
pub(super) const TIMED: &str = "Google Benchmark: ";
/// The same of those of perftest that have come to their end, and of HPL.
const PERFTEST: &str = "perftest ";
const HPL: &str = "HPL: ";
/// So it ends where no test of HPL failed.
const NONE_FAILED: &str = " passed residual checks, 0 failed";

/// It is told of a test of links, or of a small tool, that has come to its end.
pub(super) fn is_measured(text: &str) -> bool {
    let is_hpl = text.starts_with(HPL) && text.ends_with(NONE_FAILED);
    is_hpl
        || text.starts_with(PERFTEST)
        || measured::BEGINNINGS.iter().any(|words| text.starts_with(words))
        || tools::told_by(text).is_some()
}

/// The same of one that tells of all that was done, whatever is said above it.
pub(super) fn tells_all(text: &str) -> bool {
    is_measured(text) && tools::told_by(text) != Some(false)
}

/// The tables of Google Benchmark: below a head the names of what was timed, each with its times, a rate and counters.
#[derive(Default)]
struct Timed {
    below_head: bool,
    rows: u64,
    first: Option<(usize, String)>,
    last: String,
}

impl Timed {
    fn read(&mut self, no: usize, line: &str) {
        static ROW: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"^(\S.*?)\s+([0-9][0-9.e+-]* (?:ns|us|ms|s))\s+[0-9][0-9.e+-]* (?:ns|us|ms|s)\s").expect("pattern")
        });
        if line.starts_with("Benchmark ") && ["Time", "CPU", "Iterations"].iter().all(|column| line.contains(column)) {
            self.below_head = true;
        } else if self.below_head
            && let Some(row) = ROW.captures(line)
        {
            let words = format!("{} {}", words_of(&row[1], 100), &row[2]);
            self.rows += 1;
            self.first.get_or_insert_with(|| (no, words.clone()));
            self.last = words;
        }
    }

    fn told(self) -> Option<(usize, String)> {
        let (no, first) = self.first?;
        let last = if self.rows > 1 { format!("; last {}", self.last) } else { String::new() };
        Some((no, format!("{TIMED}{}: first {first}{last}", counted(self.rows, "row"))))
    }
}

/// The tables of perftest (`ib_write_bw`, `ib_read_lat`): below a head a row for each size, and a rule when the test is over.
#[derive(Default)]
struct Perftest {
    test: String,
    device: String,
    /// Of the table that is not over: the place of what it measures, and that in words.
    column: Option<(usize, String)>,
    rows: u64,
    last: Option<String>,
    /// The newest of them.
    told: Vec<(usize, String)>,
}

impl Perftest {
    const MOST: usize = 8;

    fn read(&mut self, no: usize, line: &str) {
        static COLUMNS: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"#bytes|#iterations|[A-Za-z0-9.%_]+(?: (?:peak|average|percentile))?\[[^\]]{1,12}\]").expect("pattern")
        });
        static DEVICE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bDevice\s+:\s(\S+)").expect("pattern"));
        static TEST: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^\s{3,}([A-Za-z_ -]{3,40} (?:Test|Latency|BW)(?: Test)?)\s*$").expect("pattern"));
        let line = line.trim_end();
        let Some((column, what)) = &self.column else {
            if line.trim_start().starts_with("#bytes") && line.contains("#iterations") {
                let names: Vec<&str> = COLUMNS.find_iter(line).map(|m| m.as_str()).collect();
                let wanted = |name: &&str| name.starts_with("BW average[") || name.starts_with("t_avg[");
                self.column = names.iter().position(wanted).map(|at| (at, words_of(names[at], 40)));
                (self.rows, self.last) = (0, None);
            } else if let Some(test) = TEST.captures(line) {
                self.test = words_of(&test[1], 60);
            } else if let Some(device) = DEVICE.captures(line) {
                self.device = words_of(&device[1], 40);
            }
            return;
        };
        let cells: Vec<&str> = line.split_whitespace().collect();
        let numbers: Vec<f64> = cells.iter().map_while(|cell| cell.parse().ok()).collect();
        if numbers.len() == cells.len() && cells.len() > *column {
            // A row of zeros measured nothing.
            self.last = (numbers[*column] > 0.0).then(|| format!("{what} {} at {} bytes", cells[*column], cells[0]));
            self.rows += 1;
        } else if line.len() >= 20 && line.bytes().all(|b| b == b'-') {
            if let Some(last) = self.last.take() {
                let on = if self.device.is_empty() { String::new() } else { format!(" on {}", self.device) };
                let name = if self.test.is_empty() { "test" } else { &self.test };
                if self.told.len() >= Self::MOST {
                    self.told.remove(0);
                }
                self.told.push((no, format!("{PERFTEST}{name}{on}: {}, the last {last}", counted(self.rows, "row"))));
            }
            self.column = None;
        } else if !line.is_empty() && !line.contains("CPU frequency") && !line.contains("CPU Frequency") {
            // Another line in the table is no good sign: what it measured is not told.
            self.column = None;
        }
    }
}

/// The block that each of the NAS Parallel Benchmarks prints in the end, from ` SP Benchmark Completed.` on.
#[derive(Default)]
struct Npb {
    name: Option<String>,
    fields: BTreeMap<&'static str, String>,
    /// The newest of them, which are run one after the other.
    told: Vec<(usize, String)>,
}

impl Npb {
    const MOST: usize = 8;
    const FIELDS: [&'static str; 6] = ["Class", "Iterations", "Time in seconds", "Total processes", "Mop/s total", "Verification"];

    fn read(&mut self, no: usize, line: &str) {
        if let Some(name) = line.trim().strip_suffix(" Benchmark Completed.").or_else(|| line.trim().strip_suffix(" Benchmark Completed")) {
            *self = Npb { name: Some(words_of(name, 20)), told: std::mem::take(&mut self.told), ..Npb::default() };
            return;
        }
        let Some(name) = &self.name else { return };
        let Some((field, value)) = line.split_once('=') else { return };
        let Some(field) = Self::FIELDS.into_iter().find(|known| *known == field.trim()) else { return };
        self.fields.insert(field, words_of(value.trim(), 40));
        if field == "Verification" {
            let of = |field: &str| self.fields.get(field).map(String::as_str);
            let mut said = Vec::new();
            said.extend(of("Class").map(|class| format!("class {class}")));
            said.extend(of("Total processes").map(|n| format!("{n} processes")));
            said.extend(of("Iterations").map(|n| format!("{n} iterations")));
            said.extend(of("Time in seconds").map(|s| format!("{s} s")));
            said.extend(of("Mop/s total").map(|rate| format!("{rate} Mop/s")));
            said.extend(of("Verification").map(|word| format!("verification {}", word.to_lowercase())));
            let words = format!("NPB {name}: {}", said.join(", "));
            self.name = None;
            if self.told.len() < Self::MOST {
                self.told.push((no, words));
            }
        }
    }
}

/// Without what a terminal would obey, and not longer than `most`.
fn words_of(text: &str, most: usize) -> String {
    clip(&crate::base::clean::clean(text), most).into_owned()
}

/// The last row of HPL, and what it counts at its end.
#[derive(Default)]
struct Hpl {
    row: Option<(usize, String)>,
    /// Tests that passed their residual checks, that failed them, and that were not made.
    checks: Option<(u32, u32)>,
    skipped: u32,
    /// Its last line, or that of the rule or of the prompt below it.
    end: Option<usize>,
}

impl Hpl {
    /// Whether it is a line of HPL.
    fn read(&mut self, no: usize, line: &str) -> bool {
        let n = || line.split_whitespace().next().and_then(|n| n.parse().ok());
        if let Some(row) = Self::row(line) {
            *self = Hpl { row: Some((no, row)), ..Hpl::default() };
        } else if line.contains(" residual checks") {
            // `1 tests completed and passed residual checks,`
            let (passed, failed) = self.checks.unwrap_or_default();
            match n() {
                Some(n) if line.contains(" passed ") => self.checks = Some((n, failed)),
                Some(n) if line.contains(" failed ") => self.checks = Some((passed, n)),
                _ => {}
            }
        } else if line.contains(" tests skipped because of illegal input values") {
            self.skipped = n().unwrap_or_default();
        } else if self.row.is_some() && line == "End of Tests." || self.end.is_some_and(|end| end + 1 == no) && tools::is_below(line) {
            self.end = Some(no);
        } else {
            return false;
        }
        true
    }

    /// `WC0   264192  1024   4   2   37.49   3.279e+05 ( 4.099e+04)`: variant, N, NB, P, Q, seconds, Gflops.
    fn row(line: &str) -> Option<String> {
        static ROW: LazyLock<Regex> = LazyLock::new(|| {
            Regex::new(r"^W[A-Z0-9]{2,9}\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+)\s+(\d+\.\d+)\s+(\d\.\d+e[+]\d+)\b").expect("pattern")
        });
        let row = ROW.captures(line)?;
        let n = row[1].parse().ok()?;
        Some(format!("{HPL}N {}, NB {}, {} x {} processes: {} s, {} Gflops", group(n), &row[2], &row[3], &row[4], &row[5], &row[6]))
    }

    /// Where all that was to be done passed, its place is its end.
    fn told(self) -> Option<(usize, String)> {
        let (no, row) = self.row?;
        let Some((passed, failed)) = self.checks else { return Some((no, row)) };
        let end = self.end.filter(|_| passed > 0 && failed == 0 && self.skipped == 0);
        Some((end.unwrap_or(no), format!("{row}; {passed} passed residual checks, {failed} failed")))
    }
}

/// What MLPerf's log has said so far.
#[derive(Default)]
struct Mlperf {
    line: usize,
    benchmark: Option<String>,
    began_ms: Option<f64>,
    took_s: Option<f64>,
    status: Option<String>,
    accuracy: Option<(f64, Option<f64>)>,
}

impl Mlperf {
    fn read(&mut self, no: usize, json: &str) {
        let Ok(record) = serde_json::from_str::<Value>(json.trim()) else { return };
        let of = |name: &str| &record["metadata"][name];
        let at = || record["time_ms"].as_f64();
        match record["key"].as_str().unwrap_or_default() {
            "submission_benchmark" => self.benchmark = record["value"].as_str().map(str::to_owned),
            "run_start" => *self = Mlperf { benchmark: self.benchmark.take(), began_ms: at(), ..Mlperf::default() },
            "run_stop" => {
                self.took_s = at().zip(self.began_ms).map(|(to, from)| (to - from) / 1e3).filter(|s| *s > 0.0);
                self.status = of("status").as_str().map(str::to_owned);
            }
            "eval_accuracy" => self.accuracy = record["value"].as_f64().map(|value| (value, of("epoch_num").as_f64())),
            _ => return,
        }
        self.line = no;
    }

    fn told(self) -> Option<(usize, String)> {
        let mut said: Vec<String> = Vec::new();
        said.extend(self.accuracy.map(|(value, epoch)| {
            let epoch = epoch.map_or(String::new(), |epoch| format!(" at epoch {epoch}"));
            format!("eval_accuracy {value:.4}{epoch}")
        }));
        said.extend(self.status.map(|status| format!("run_stop: {}", crate::base::clean::clean(&status))));
        said.extend(self.took_s.map(|s| format!("{} from run_start on", crate::base::units::seconds(s))));
        let of = self.benchmark.map_or(String::new(), |name| format!(" {}", crate::base::clean::clean(&name)));
        (!said.is_empty()).then(|| (self.line, format!("MLPerf{of}: {}", said.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use super::of;

    #[test]
    fn what_benchmarks_say_in_the_end() {
        let told = |text: &str| of(text).into_iter().map(|(no, words)| format!("{no}: {words}")).collect::<Vec<_>>();
        let hpl = "T/V                N    NB     P     Q         Time          Gflops (   per GPU)\n\
                   WC0            92160   576     2     1        15.25       3.425e+04 ( 1.713e+04)\n\
                   \x20             1 tests completed and passed residual checks,\n              0 tests completed and failed residual checks,\n";
        assert_eq!(told(hpl), ["2: HPL: N 92,160, NB 576, 2 x 1 processes: 15.25 s, 3.425e+04 Gflops; 1 passed residual checks, 0 failed"]);
        // All passed: its place is its end, with the rule and the prompt below it.
        let row = "WR11C2R4       16152   192     3     2              75.74              3.710e+01\n";
        let whole = |failed: u32, skipped: u32| {
            format!(
                "{row}1 tests completed and passed residual checks,\n{failed} tests completed and failed residual checks,\n\
                 {skipped} tests skipped because of illegal input values.\nEnd of Tests.\n======\n[u@host a]$\n"
            )
        };
        let place = |text: &str| told(text)[0].split(':').next().map(str::to_owned).unwrap();
        assert_eq!([place(&whole(0, 0)), place(&whole(1, 0)), place(&whole(0, 3))], ["7", "1", "1"]);
        let mlperf = ":::MLLOG {\"time_ms\": 1000, \"key\": \"run_start\", \"value\": null}\n\
                      :::MLLOG {\"time_ms\": 9000, \"key\": \"eval_accuracy\", \"value\": 0.7512, \"metadata\": {\"epoch_num\": 3}}\n\
                      :::MLLOG {\"time_ms\": 9500, \"key\": \"run_stop\", \"value\": null, \"metadata\": {\"status\": \"success\"}}\n";
        assert_eq!(told(mlperf), ["3: MLPerf: eval_accuracy 0.7512 at epoch 3, run_stop: success, 8.50 s from run_start on"]);
        let npb = " LU Benchmark Completed.\n Class           =                        B\n Size            =            102x 102x 102\n \
                   Iterations      =                      250\n Time in seconds =                     4.18\n Total processes =                       64\n \
                   Mop/s total     =                119358.22\n Verification    =               SUCCESSFUL\n";
        assert_eq!(told(npb), ["8: NPB LU: class B, 64 processes, 250 iterations, 4.18 s, 119358.22 Mop/s, verification successful"]);
        let timed = "Benchmark                Time             CPU   Iterations UserCounters...\n-----\n\
                     BM_copy<float>/256    0.215 ms        0.218 ms         3252 MB (In)=0.26\nsome words\nBM_copy<float>/512    1.61 ms     1.62 ms   435\n";
        assert_eq!(told(timed), ["3: Google Benchmark: 2 rows: first BM_copy<float>/256 0.215 ms; last BM_copy<float>/512 1.61 ms"]);
        assert!(told("BM_copy<float>/256    0.215 ms        0.218 ms         3252\n").is_empty());
        let head = "                    RDMA_Read Latency Test\n Dual-port       : OFF          Device         : mlx4_0\n\
                    \x20#bytes #iterations    t_min[usec]    t_max[usec]  t_typical[usec]    t_avg[usec]    t_stdev[usec]   99% percentile[usec]\n\
                    Conflicting CPU frequency values detected: 2400.000000 != 1873.463000. CPU Frequency is not max.\n";
        let (row, rule) = (
            " 2       1000          1.76           6.12         1.79                1.80             0.06            1.88\n",
            "-".repeat(87),
        );
        assert_eq!(
            told(&format!("{head}{row}{rule}\n")),
            ["6: perftest RDMA_Read Latency Test on mlx4_0: 1 row, the last t_avg[usec] 1.80 at 2 bytes"]
        );
        // It stopped in the middle, failed, or measured nothing.
        for rest in ["", row, &format!("{row}Completion with error at client\n{rule}\n"), &format!("{rule}\n")] {
            assert!(told(&format!("{head}{rest}")).is_empty(), "{rest}");
        }
        assert!(told(&format!("{head}{}{rule}\n", row.replace("1.80", "0.00"))).is_empty());
        let bw = format!(
            " #bytes     #iterations    BW peak[MB/sec]    BW average[MB/sec]   MsgRate[Mpps]\n 65536      1000             11023.49            11021.86		     0.176350\n{rule}\n"
        );
        assert_eq!(told(&bw), ["3: perftest test: 1 row, the last BW average[MB/sec] 11021.86 at 65536 bytes"]);
        assert!(told("Warning: WC0 is no row\nWindow 1 2 3\n").is_empty());
    }
}
