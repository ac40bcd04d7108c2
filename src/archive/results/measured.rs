//! Tables of the OSU micro-benchmarks, of nvbandwidth and of small tools that have come to their end. A new one has its reader here, and the words
//! that it begins with in [`BEGINNINGS`].

use super::words_of;
use crate::base::units::counted;
use regex::Regex;
use std::sync::LazyLock;

/// What is told of each of them begins so.
pub const BEGINNINGS: [&str; 13] = [
    "OSU ",
    "nvbandwidth: ",
    "CUDA sample ",
    "gdrcopy_copybw: ",
    "TransferBench: ",
    "ibdiagnet: ",
    "IOR: ",
    "HTCondor: ",
    "gpu-burn: ",
    "nvidia-smi topo: ",
    "seff: ",
    "ucx_perftest: ",
    "DCGM health: ",
];

/// Those of which a line above may say that all is not well: they tell how a part of what was done came out, or what others wrote down of it.
pub const OF_A_PART: [&str; 4] = ["IOR: ", "HTCondor: ", "seff: ", "nvidia-smi topo: "];

/// No latency and no bandwidth is as much.
const MOST: f64 = 1e15;

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

/// Small tools that say at their end what came out.
#[derive(Default)]
pub struct Tools {
    /// `write BW: median 22360.8MB/s`, and the same of reading.
    copied: Vec<String>,
    has_transfers: bool,
    /// In the last table of ibdiagnet: stages and what they found.
    stages: Option<(u64, u64, u64)>,
    /// `write 2069.94 MiB/s`, and the same of reading, of IOR.
    stored: Vec<String>,
    /// It has found other data than it had written, or warned of something else.
    stored_badly: bool,
    /// The job of HTCondor that has ended, and whether with exit code 0.
    ended: Option<(String, bool)>,
    /// Jobs of HTCondor that were submitted and have not ended; one of them failed, was held or was taken away.
    submitted: u64,
    has_failed: bool,
    /// How many GPUs gpu-burn has tested, and how many of them are well so far.
    burnt: Option<(u64, u64)>,
    /// GPUs that have a row in nvidia-smi's matrix.
    rows: u64,
    has_completed: bool,
    /// Slurm wrote down another state of one.
    has_not: bool,
    /// The head of a table of ucx_perftest is there.
    has_ucx: bool,
    /// DCGM's report of health has said so in its first row.
    is_healthy: bool,
    pub told: Vec<(usize, String)>,
}

impl Tools {
    const MOST: usize = 8;

    pub fn read(&mut self, no: usize, line: &str) {
        static SAMPLE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^&&&& (\S{2,80}) PASSED\s*$").expect("pattern"));
        static COPY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(write|read) BW: median ([0-9.]+ ?[kMGT]?B/s)").expect("pattern"));
        static AGGREGATE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^\s*Aggregate (?:Bandwidth )?\([A-Za-z ]+\)\s*\|\s*([0-9.]+ GB/s)").expect("pattern"));
        static STAGE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^-I- \S.{0,40}?\s+([0-9]+)\s+([0-9]+)\s*(?:\S.*)?$").expect("pattern"));
        static STORED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^Max (Write|Read):\s+([0-9.]+) MiB/sec\b").expect("pattern"));
        // The log that HTCondor keeps of a job: events, and a line of three dots behind each.
        static ENDED: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^005 \(([0-9]+\.[0-9]+)\.[0-9]+\) .*Job terminated\.").expect("pattern"));
        static EVENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(0[0-9]{2}) \([0-9]+\.[0-9]+\.[0-9]+\) ").expect("pattern"));
        static TIMED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(?:real|user|sys)\s+[0-9]").expect("pattern"));
        static BURNT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^Tested ([0-9]{1,4}) GPUs:$").expect("pattern"));
        static WELL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\s*GPU [0-9]+: OK$").expect("pattern"));
        static ROW: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^GPU[0-9]+\s+(?:(?:X|NV[0-9]+|SYS|NODE|PHB|PXB|PIX)\s+)+").expect("pattern"));
        let line = line.trim_end();
        if let Some(event) = EVENT.captures(line) {
            match &event[1] {
                "000" => self.submitted += 1,
                "005" => self.submitted = self.submitted.saturating_sub(1),
                // Errors of its daemons, aborted, held.
                "002" | "007" | "009" | "012" => self.has_failed = true,
                _ => {}
            }
        }
        self.has_failed |= line.trim_start().starts_with("(0) Abnormal termination");
        if line.starts_with("| Overall Health ") && line.trim_end_matches(['|', ' ']).ends_with("| Healthy") {
            self.is_healthy = true;
        } else if line.starts_with("+---") && std::mem::take(&mut self.is_healthy) {
            self.tell(no, "DCGM health: all that is watched is healthy".to_owned());
        } else if let Some(burnt) = BURNT.captures(line) {
            self.burnt = burnt[1].parse().ok().map(|gpus| (gpus, 0));
        } else if let Some((gpus, well)) = self.burnt.filter(|_| WELL.is_match(line)) {
            self.burnt = Some((gpus, well + 1)).filter(|_| well + 1 < gpus);
            if self.burnt.is_none() {
                self.tell(no, format!("gpu-burn: {} well", counted(gpus as usize, "GPU")));
            }
        } else if line.contains("# iterations |") && line.contains("| overall |") {
            self.has_ucx = true;
        } else if let Some(words) = self.has_ucx.then(|| of_ucx(line)).flatten() {
            self.has_ucx = false;
            self.tell(no, words);
        } else if ROW.is_match(line) {
            self.rows += 1;
        } else if line.trim_start().starts_with("NV#  = Connection traversing a bonded set") && self.rows > 0 {
            let rows = std::mem::take(&mut self.rows);
            self.tell(no, format!("nvidia-smi topo: {}", counted(rows as usize, "GPU")));
        } else if line.starts_with("Job ID: ") {
            self.has_completed = false;
        } else if line.starts_with("State: ") {
            self.has_completed = line == "State: COMPLETED (exit code 0)";
            self.has_not |= !self.has_completed;
        } else if line.starts_with("Memory Efficiency: ") && std::mem::take(&mut self.has_completed) && !self.has_not {
            self.tell(no, "seff: the job is completed, exit code 0".to_owned());
        } else if let Some(stored) = STORED.captures(line) {
            self.stored.truncate(1);
            self.stored.push(format!("{} {} MiB/s", stored[1].to_lowercase(), words_of(&stored[2], 20)));
        } else if line.starts_with("WARNING: ") || line.starts_with("ior ERROR") {
            self.stored_badly = true;
        } else if line.starts_with("IOR-") {
            (self.stored_badly, self.stored) = (false, Vec::new());
        } else if line.starts_with("Finished  ") && !self.stored.is_empty() && !self.stored_badly {
            let stored = std::mem::take(&mut self.stored).join(", ");
            self.tell(no, format!("IOR: {stored}"));
        } else if let Some((last, _)) = self.told.last_mut().filter(|(last, _)| *last + 1 == no && TIMED.is_match(line)) {
            *last = no;
        } else if let Some(ended) = ENDED.captures(line) {
            self.ended = Some((words_of(&ended[1], 40), false));
        } else if let (Some((_, well)), Some(code)) =
            (&mut self.ended, line.trim_start().strip_prefix("(1) Normal termination (return value "))
        {
            *well = code == "0)";
            self.has_failed |= !*well;
        } else if line == "..." {
            if let Some((job, true)) = self.ended.take().filter(|_| self.submitted == 0 && !self.has_failed) {
                self.tell(no, format!("HTCondor: job {job} ended with exit code 0"));
            }
        } else if let Some(sample) = SAMPLE.captures(line) {
            self.tell(no, format!("CUDA sample {} passed", words_of(&sample[1], 80)));
        } else if let Some(copy) = COPY.captures(line) {
            self.copied.truncate(1);
            self.copied.push(format!("{} {}", &copy[1], words_of(&copy[2], 30)));
        } else if line == "closing gdrdrv" && !self.copied.is_empty() {
            let copied = std::mem::take(&mut self.copied).join(", ");
            self.tell(no, format!("gdrcopy_copybw: {copied}"));
        } else if line.starts_with(" Transfer ") && line.contains("GB/s") {
            self.has_transfers = true;
        } else if let Some(all) = AGGREGATE.captures(line).filter(|_| self.has_transfers) {
            self.tell(no, format!("TransferBench: {} in all", words_of(&all[1], 30)));
        } else if line.starts_with("-I- Stage ") && line.contains("Warnings") && line.contains("Errors") {
            self.stages = Some((0, 0, 0));
        } else if let (Some((stages, warnings, errors)), Some(row)) = (self.stages, STAGE.captures(line)) {
            let number = |at: usize| row[at].parse::<u64>().unwrap_or(u64::MAX);
            let (warnings, errors) = (warnings.saturating_add(number(1)), errors.saturating_add(number(2)));
            self.stages = Some((stages + 1, warnings, errors));
            self.told.retain(|(_, words)| !words.starts_with("ibdiagnet: "));
            if errors == 0 {
                self.tell(no, format!("ibdiagnet: {} without an error, {}", counted(stages + 1, "stage"), counted(warnings, "warning")));
            }
        } else {
            self.stages = None;
        }
    }

    fn tell(&mut self, no: usize, words: String) {
        if self.told.len() == Self::MOST {
            self.told.remove(0);
        }
        self.told.push((no, words));
    }
}

/// The last row of a table of ucx_perftest has as many iterations as were asked for: a million by default, else mostly a round number; those
/// before it are of each second.
fn of_ucx(line: &str) -> Option<String> {
    const COLUMNS: usize = 8;
    const OVERALL_LATENCY: usize = 3;
    const OVERALL_RATE: usize = 5;
    let cells: Vec<&str> = line.split_whitespace().filter(|cell| *cell != "|" && *cell != "[thread" && *cell != "0]").collect();
    let numbers: Vec<f64> = cells.iter().map(|cell| cell.parse().ok()).collect::<Option<_>>()?;
    let iterations = cells.first()?.parse::<u64>().ok().filter(|n| [1_000, 10_000, 100_000, 1_000_000, 10_000_000].contains(n))?;
    let (latency, rate) = (numbers.get(OVERALL_LATENCY)?, numbers.get(OVERALL_RATE)?);
    let is_one = numbers.len() == COLUMNS && *latency < MOST && *rate < MOST;
    is_one.then(|| format!("ucx_perftest: {iterations} iterations, {latency} us and {rate} MB/s overall"))
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
    fn small_tools_say_what_came_out() {
        assert_eq!(
            told("Test Summary:  Error amount = 0.000000\n&&&& conjugateGradient PASSED\n"),
            ["2 CUDA sample conjugateGradient passed"]
        );
        assert!(told("&&&& conjugateGradient FAILED\n").is_empty());
        let copied = "write BW: median 22360.8MB/s, min 20661.2MB/s\nread BW: median 890.824MB/s, min 841.881MB/s\n";
        assert!(told(copied).is_empty());
        assert_eq!(told(&format!("{copied}closing gdrdrv\n")), ["3 gdrcopy_copybw: write 22360.8MB/s, read 890.824MB/s"]);
        let stored = "Max Write: 2069.94 MiB/sec (2170.49 MB/sec)\nMax Read:  2784.22 MiB/sec (2919.47 MB/sec)\n";
        let badly = format!("WARNING: Incorrect data on read (12 errors found).\n{stored}Finished            : Thu Jul 28 08:14:46 2022\n");
        assert!(told(stored).is_empty() && told(&badly).is_empty());
        let stored = format!("{stored}Finished            : Thu Jul 28 08:14:46 2022\nreal 125.27\nuser 50.90\n");
        assert_eq!(told(&stored), ["5 IOR: write 2069.94 MiB/s, read 2784.22 MiB/s"]);
        let burnt = |of_last: &str| format!("Tested 2 GPUs:\n GPU 0: OK\n GPU 1: {of_last}\n");
        assert_eq!(told(&burnt("OK")), ["3 gpu-burn: 2 GPUs well"]);
        assert!(told(&burnt("FAULTY")).is_empty());
        let matrix = "\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV1\t0-63\nGPU1\tNV1\t X \t0-63\n\nLegend:\n\n  NV#  = Connection traversing a bonded set of # NVLinks\n";
        assert_eq!(told(matrix), ["7 nvidia-smi topo: 2 GPUs"]);
        let seff = |state: &str| format!("Job ID: 4120\nState: {state}\nMemory Efficiency: 0.10% of 1000.00 MB\n");
        assert_eq!(told(&seff("COMPLETED (exit code 0)")), ["3 seff: the job is completed, exit code 0"]);
        assert!(told(&seff("FAILED (exit code 1)")).is_empty());
        assert!(told(&(seff("DEADLINE (exit code 0)") + &seff("COMPLETED (exit code 0)"))).is_empty());
        let head = "| # iterations | typical | average | overall |  average |  overall |   average |   overall |\n";
        let row =
            |iterations: u32| format!("       {iterations}     0.844     0.848     0.851       4.50       4.48      589339      587686\n");
        assert!(told(&format!("{head}{}", row(586_527))).is_empty());
        assert_eq!(
            told(&format!("{head}{}{}", row(586_527), row(1_000_000))),
            ["3 ucx_perftest: 1000000 iterations, 0.851 us and 4.48 MB/s overall"]
        );
        let ended = |code: u32| {
            let how = format!("\t(1) Normal termination (return value {code})\n");
            format!("005 (4120.000.000) 2026-05-05 06:16:47 Job terminated.\n{how}\t0  -  Run Bytes Sent By Job\n...\n")
        };
        assert_eq!(told(&ended(0)), ["4 HTCondor: job 4120.000 ended with exit code 0"]);
        assert!(told(&ended(1)).is_empty() && told(&(ended(1) + &ended(0))).is_empty());
        let submitted = "000 (4121.000.000) 2026-05-05 06:16:40 Job submitted from host: <192.0.2.7:9618>\n...\n";
        assert!(told(&format!("{submitted}{submitted}{}", ended(0))).is_empty());
        let stages = |errors: u32| {
            format!("-I- Stage       Warnings   Errors     Comment\n-I- Discovery   3          0\n-I- Routing     0          {errors}\n")
        };
        assert_eq!(told(&stages(0)), ["3 ibdiagnet: 2 stages without an error, 3 warnings"]);
        assert!(told(&stages(2)).is_empty());
        assert!(told(&format!("{}-I- Other       0          0\n", stages(2))).is_empty());
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
