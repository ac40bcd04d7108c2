//! Small tools that say at their end what came out. A new one has its reader here, and a row in [`TOOLS`].

use super::measured::MOST;
use super::words_of;
use crate::base::units::counted;
use regex::Regex;
use std::collections::BTreeSet;
use std::sync::LazyLock;

/// What a line makes of what its tool has said.
pub enum Said {
    Nothing,
    /// It is the last of what came out.
    Came(String),
    /// In place of what came out before, which it takes back.
    Instead(Option<String>),
}

trait Reader {
    fn read(&mut self, line: &str) -> Said;
}

struct Tool {
    /// What is told of it begins so.
    name: &'static str,
    /// It tells of all that was done. Of the others a line above may say that all is not well: they tell how a part of it came out, or what somebody
    /// else wrote down.
    tells_all: bool,
    reader: fn() -> Box<dyn Reader>,
}

const TOOLS: &[Tool] = &[
    Tool { name: "CUDA sample", tells_all: true, reader: || Box::new(Sample) },
    Tool { name: "gdrcopy_copybw", tells_all: true, reader: || Box::<Gdrcopy>::default() },
    Tool { name: "TransferBench", tells_all: true, reader: || Box::<TransferBench>::default() },
    Tool { name: "ibdiagnet", tells_all: true, reader: || Box::<Ibdiagnet>::default() },
    Tool { name: "gpu-burn", tells_all: true, reader: || Box::<GpuBurn>::default() },
    Tool { name: "ucx_perftest", tells_all: true, reader: || Box::<UcxPerftest>::default() },
    Tool { name: "Intel MPI Benchmarks", tells_all: false, reader: || Box::<Imb>::default() },
    Tool { name: "CUDA sample's result", tells_all: false, reader: || Box::<SampleResult>::default() },
    Tool { name: "DCGM's diagnostic", tells_all: true, reader: || Box::<DcgmDiag>::default() },
    Tool { name: "DCGM health", tells_all: true, reader: || Box::<DcgmHealth>::default() },
    Tool { name: "IOR", tells_all: false, reader: || Box::<Ior>::default() },
    Tool { name: "HTCondor", tells_all: false, reader: || Box::<Condor>::default() },
    Tool { name: "seff", tells_all: false, reader: || Box::<Seff>::default() },
    Tool { name: "NCCL's topology", tells_all: false, reader: || Box::<Dump>::default() },
    Tool { name: "nvidia-smi topo", tells_all: false, reader: || Box::<Topo>::default() },
];

/// Whether that is what one of them told, and whether it tells of all that was done.
pub fn told_by(text: &str) -> Option<bool> {
    let is_its = |tool: &&Tool| text.strip_prefix(tool.name).is_some_and(|tail| tail.starts_with(": "));
    TOOLS.iter().find(is_its).map(|tool| tool.tells_all)
}

/// What `time` says of a tool, a rule below it, what all of CUDA's samples say, and the prompt of the shell.
pub fn is_below(line: &str) -> bool {
    static BELOW: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(r"^(?:real|user|sys)\s+[0-9]|^[=+-]{5,}$|^NOTE: The CUDA Samples |^[\[(]?\w[\w.-]*@[\w.-]+[^\n]{0,80}[$#]$")
            .expect("pattern")
    });
    BELOW.is_match(line.trim_end())
}

pub struct Tools {
    /// Up to here nothing but blank lines stands below the last that was told.
    blank_to: usize,
    readers: Vec<(&'static str, Box<dyn Reader>)>,
    pub told: Vec<(usize, String)>,
}

impl Default for Tools {
    fn default() -> Self {
        Tools { readers: TOOLS.iter().map(|tool| (tool.name, (tool.reader)())).collect(), told: Vec::new(), blank_to: 0 }
    }
}

impl Tools {
    const MOST: usize = 8;

    pub fn read(&mut self, no: usize, line: &str) {
        let line = line.trim_end();
        if line.is_empty() {
            self.blank_to = if self.blank_to + 1 == no || self.told.last().is_some_and(|(last, _)| *last + 1 == no) { no } else { 0 };
            return;
        }
        let follows = |last: usize| last + 1 == no || last < no && self.blank_to + 1 == no;
        if let Some((last, _)) = self.told.last_mut().filter(|(last, _)| follows(*last) && is_below(line)) {
            *last = no;
            return;
        }
        for (name, reader) in &mut self.readers {
            let words = match reader.read(line) {
                Said::Nothing => continue,
                Said::Came(words) => Some(words),
                Said::Instead(words) => {
                    self.told.retain(|(_, told)| !told.starts_with(*name));
                    words
                }
            };
            if self.told.len() == Self::MOST {
                self.told.remove(0);
            }
            self.told.extend(words.map(|words| (no, format!("{name}: {words}"))));
        }
    }
}

struct Sample;

impl Reader for Sample {
    fn read(&mut self, line: &str) -> Said {
        let name = line.strip_prefix("&&&& ").and_then(|rest| rest.strip_suffix(" PASSED")).filter(|name| !name.contains(' '));
        name.map_or(Said::Nothing, |name| Said::Came(format!("{} passed", words_of(name, 80))))
    }
}

/// `Result = PASS` of `deviceQuery` and `bandwidthTest`.
#[derive(Default)]
struct SampleResult {
    is_one: bool,
    has_failed: bool,
}

impl Reader for SampleResult {
    fn read(&mut self, line: &str) -> Said {
        self.is_one |= line.ends_with(" Starting...");
        self.has_failed |= line == "Result = FAIL";
        let passed = line == "Result = PASS" && self.is_one && !self.has_failed;
        if passed { Said::Came("passed".to_owned()) } else { Said::Nothing }
    }
}

/// `write BW: median 22360.8MB/s`, and the same of reading.
#[derive(Default)]
struct Gdrcopy(Vec<String>);

impl Reader for Gdrcopy {
    fn read(&mut self, line: &str) -> Said {
        static COPY: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(write|read) BW: median ([0-9.]+ ?[kMGT]?B/s)").expect("pattern"));
        if let Some(copy) = COPY.captures(line) {
            self.0.truncate(1);
            self.0.push(format!("{} {}", &copy[1], words_of(&copy[2], 30)));
        } else if line == "closing gdrdrv" && !self.0.is_empty() {
            return Said::Came(std::mem::take(&mut self.0).join(", "));
        }
        Said::Nothing
    }
}

#[derive(Default)]
struct TransferBench {
    has_transfers: bool,
}

impl Reader for TransferBench {
    fn read(&mut self, line: &str) -> Said {
        static AGGREGATE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^\s*Aggregate (?:Bandwidth )?\([A-Za-z ]+\)\s*\|\s*([0-9.]+ GB/s)").expect("pattern"));
        self.has_transfers |= line.starts_with(" Transfer ") && line.contains("GB/s");
        match AGGREGATE.captures(line).filter(|_| self.has_transfers) {
            Some(all) => Said::Came(format!("{} in all", words_of(&all[1], 30))),
            None => Said::Nothing,
        }
    }
}

/// In its last table: stages, and the warnings and errors that they found.
#[derive(Default)]
struct Ibdiagnet(Option<(u64, u64, u64)>);

impl Reader for Ibdiagnet {
    fn read(&mut self, line: &str) -> Said {
        static STAGE: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^-I- \S.{0,40}?\s+([0-9]+)\s+([0-9]+)\s*(?:\S.*)?$").expect("pattern"));
        if line.starts_with("-I- Stage ") && line.contains("Warnings") && line.contains("Errors") {
            self.0 = Some((0, 0, 0));
            return Said::Nothing;
        }
        let (Some((stages, warnings, errors)), Some(row)) = (self.0, STAGE.captures(line)) else {
            self.0 = None;
            return Said::Nothing;
        };
        let number = |at: usize| row[at].parse::<u64>().unwrap_or(u64::MAX);
        let (warnings, errors) = (warnings.saturating_add(number(1)), errors.saturating_add(number(2)));
        self.0 = Some((stages + 1, warnings, errors));
        let words = || format!("{} without an error, {}", counted(stages + 1, "stage"), counted(warnings, "warning"));
        Said::Instead((errors == 0).then(words))
    }
}

/// How many GPUs it has tested, and how many of them are well so far.
#[derive(Default)]
struct GpuBurn(Option<(u64, u64)>);

impl Reader for GpuBurn {
    fn read(&mut self, line: &str) -> Said {
        static BURNT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^Tested ([0-9]{1,4}) GPUs:$").expect("pattern"));
        static WELL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^\s*GPU [0-9]+: OK$").expect("pattern"));
        if let Some(burnt) = BURNT.captures(line) {
            self.0 = burnt[1].parse().ok().map(|gpus| (gpus, 0));
        } else if let Some((gpus, well)) = self.0.filter(|_| WELL.is_match(line)) {
            self.0 = Some((gpus, well + 1)).filter(|_| well + 1 < gpus);
            if self.0.is_none() {
                return Said::Came(format!("{} well", counted(gpus as usize, "GPU")));
            }
        }
        Said::Nothing
    }
}

/// The last row has as many iterations as were asked for: a million by default, else mostly a round number; those before it are of each second.
#[derive(Default)]
struct UcxPerftest {
    has_head: bool,
}

impl Reader for UcxPerftest {
    fn read(&mut self, line: &str) -> Said {
        if line.contains("# iterations |") && line.contains("| overall |") {
            self.has_head = true;
        } else if let Some(words) = self.has_head.then(|| of_last_row(line)).flatten() {
            self.has_head = false;
            return Said::Came(words);
        }
        Said::Nothing
    }
}

fn of_last_row(line: &str) -> Option<String> {
    const COLUMNS: usize = 8;
    const OVERALL_LATENCY: usize = 3;
    const OVERALL_RATE: usize = 5;
    let cells: Vec<&str> = line.split_whitespace().filter(|cell| *cell != "|" && *cell != "[thread" && *cell != "0]").collect();
    let numbers: Vec<f64> = cells.iter().map(|cell| cell.parse().ok()).collect::<Option<_>>()?;
    let iterations = cells.first()?.parse::<u64>().ok().filter(|n| [1_000, 10_000, 100_000, 1_000_000, 10_000_000].contains(n))?;
    let (latency, rate) = (numbers.get(OVERALL_LATENCY)?, numbers.get(OVERALL_RATE)?);
    let is_one = numbers.len() == COLUMNS && *latency < MOST && *rate < MOST;
    is_one.then(|| format!("{iterations} iterations, {latency} us and {rate} MB/s overall"))
}

/// A table for each benchmark and number of processes; the last line stands below the last table.
#[derive(Default)]
struct Imb {
    is_one: bool,
    benchmark: String,
    processes: String,
    /// The name of the last column but those that count mistakes, and its place.
    measures: String,
    at: usize,
    /// The place of the column that counts mistakes.
    defects: Option<usize>,
    has_defects: bool,
    tables: usize,
    last_row: Option<String>,
}

impl Reader for Imb {
    fn read(&mut self, line: &str) -> Said {
        static PROCESSES: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^# #processes = ([0-9]{1,7})\b").expect("pattern"));
        let line = line.trim();
        if line.starts_with('#') && line.contains("MPI Benchmarks") {
            *self = Imb { is_one: true, ..Imb::default() };
        } else if let Some(name) = line.strip_prefix("# Benchmarking ") {
            self.benchmark = words_of(name, 40);
        } else if let Some(found) = PROCESSES.captures(line) {
            found[1].clone_into(&mut self.processes);
        } else if line.starts_with("#bytes ") {
            let columns: Vec<&str> = line.split_whitespace().collect();
            self.defects = columns.iter().position(|column| *column == "defects");
            self.at = columns.iter().rposition(|column| *column != "defects").unwrap_or_default();
            self.measures = words_of(columns.get(self.at).copied().unwrap_or_default(), 20);
            self.tables += 1;
        } else if line == "# All processes entering MPI_Finalize" {
            let Imb { benchmark, processes, measures, tables, last_row, has_defects, .. } = std::mem::take(self);
            let more = if tables > 1 { format!("{} before it; ", counted(tables - 1, "table")) } else { String::new() };
            return match last_row.filter(|_| !benchmark.is_empty() && !has_defects) {
                Some(row) => Said::Came(format!("{more}{benchmark} of {processes} processes: {row} {measures}")),
                None => Said::Nothing,
            };
        } else if self.is_one && !self.measures.is_empty() {
            let cells: Vec<&str> = line.split_whitespace().collect();
            if let (Some(bytes), Some(value)) = (cells.first(), cells.get(self.at))
                && cells.iter().all(|cell| cell.parse::<f64>().is_ok_and(|number| number.is_finite() && number < MOST))
            {
                self.has_defects |= self.defects.and_then(|at| cells.get(at)?.parse::<f64>().ok()).is_some_and(|defects| defects > 0.0);
                self.last_row = Some(format!("{} bytes, {}", words_of(bytes, 20), words_of(value, 20)));
            }
        }
        Said::Nothing
    }
}

/// The tree of a host that NCCL prints with NCCL_DEBUG_SUBSYS=GRAPH. Each rank prints one; they are told once.
#[derive(Default)]
struct Dump {
    is_one: bool,
    gpus: usize,
    nets: usize,
    links: BTreeSet<String>,
}

impl Reader for Dump {
    fn read(&mut self, line: &str) -> Said {
        static NODE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\+ ([A-Z]{3,4})\[[0-9.]+\] - (GPU|NET)/\S+( \()?").expect("pattern"));
        let Some((_, text)) = line.split_once(" NCCL INFO ") else { return Said::Nothing };
        if text.starts_with("=== System : ") {
            *self = Dump { is_one: true, ..Dump::default() };
        } else if text.starts_with("=====") {
            let Dump { is_one: true, gpus: 1.., .. } = self else { return Said::Nothing };
            let Dump { gpus, nets, links, .. } = std::mem::take(self);
            let links = match links.into_iter().collect::<Vec<_>>().as_slice() {
                [] => String::new(),
                links => format!("; GPUs are joined by {}", links.join(" and ")),
            };
            return Said::Instead(Some(format!("{}, {}{links}", counted(gpus, "GPU"), counted(nets, "network port"))));
        } else if let Some(node) = NODE.captures(text).filter(|_| self.is_one) {
            match (&node[2], node.get(3)) {
                ("GPU", Some(_)) => self.gpus += 1,
                ("NET", Some(_)) => self.nets += 1,
                // A GPU that stands elsewhere in the tree.
                ("GPU", None) if self.links.len() < 4 => drop(self.links.insert(words_of(&node[1], 8))),
                _ => {}
            }
        }
        Said::Nothing
    }
}

/// A table of `dcgmi diag`: all that it lists passed, or was left out.
#[derive(Default)]
struct DcgmDiag {
    is_one: bool,
    passed: usize,
    else_said: bool,
}

impl Reader for DcgmDiag {
    fn read(&mut self, line: &str) -> Said {
        if line.starts_with("| Diagnostic ") && line.contains("| Result ") {
            *self = DcgmDiag { is_one: true, ..DcgmDiag::default() };
        } else if self.is_one && line.starts_with('|') {
            match line.trim_end_matches('|').rsplit_once('|').map(|(_, result)| result.trim()) {
                Some(result) if result.starts_with("Pass") => self.passed += 1,
                Some(result) if ["Fail", "Warn", "Error"].iter().any(|bad| result.starts_with(bad)) => self.else_said = true,
                _ => {}
            }
        } else if self.is_one
            && line.starts_with("+---------")
            && line.trim_matches(['+', '-']).is_empty()
            && self.passed > 0
            && !self.else_said
        {
            return Said::Instead(Some(format!("{} passed", counted(self.passed, "check"))));
        }
        Said::Nothing
    }
}

/// Its report has said so in its first row.
#[derive(Default)]
struct DcgmHealth {
    is_healthy: bool,
}

impl Reader for DcgmHealth {
    fn read(&mut self, line: &str) -> Said {
        if line.starts_with("| Overall Health ") {
            self.is_healthy = line.trim_end_matches(['|', ' ']).ends_with("| Healthy");
        } else if line.starts_with("+---") && std::mem::take(&mut self.is_healthy) {
            return Said::Came("all that is watched is healthy".to_owned());
        }
        Said::Nothing
    }
}

/// `write 2069.94 MiB/s`, and the same of reading.
#[derive(Default)]
struct Ior {
    stored: Vec<String>,
    /// It has found other data than it had written, or warned of something else.
    warned: bool,
}

impl Reader for Ior {
    fn read(&mut self, line: &str) -> Said {
        static STORED: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^Max (Write|Read):\s+([0-9.]+) MiB/sec\b").expect("pattern"));
        if let Some(stored) = STORED.captures(line) {
            self.stored.truncate(1);
            self.stored.push(format!("{} {} MiB/s", stored[1].to_lowercase(), words_of(&stored[2], 20)));
        } else if ["WARNING: ", "ior WARNING", "ior ERROR"].iter().any(|head| line.starts_with(head)) {
            self.warned = true;
        } else if line.starts_with("IOR-") {
            *self = Ior::default();
        } else if line.starts_with("Finished  ") && !self.stored.is_empty() && !self.warned {
            return Said::Came(std::mem::take(&mut self.stored).join(", "));
        }
        Said::Nothing
    }
}

/// The log that HTCondor keeps of jobs: events, and a line of three dots behind each.
#[derive(Default)]
struct Condor {
    /// The job whose end is being told, and whether that was with exit code 0.
    ended: Option<(String, bool)>,
    /// Jobs that were submitted and have not ended.
    submitted: u64,
    /// One of them failed, was held or was taken away.
    has_failed: bool,
}

impl Reader for Condor {
    fn read(&mut self, line: &str) -> Said {
        static EVENT: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^(0[0-9]{2}) \(([0-9]+\.[0-9]+)\.[0-9]+\) ").expect("pattern"));
        if let Some(event) = EVENT.captures(line) {
            match &event[1] {
                "000" => self.submitted += 1,
                "005" => {
                    self.submitted = self.submitted.saturating_sub(1);
                    self.ended = Some((words_of(&event[2], 40), false));
                }
                // Errors of its daemons, aborted, held.
                "002" | "007" | "009" | "012" => self.has_failed = true,
                _ => {}
            }
        } else if let Some(code) = line.trim_start().strip_prefix("(1) Normal termination (return value ") {
            self.has_failed |= code != "0)";
            self.ended.iter_mut().for_each(|(_, well)| *well = code == "0)");
        } else if line.trim_start().starts_with("(0) Abnormal termination") {
            self.has_failed = true;
        } else if line == "..."
            && let Some((job, true)) = self.ended.take()
            && self.submitted == 0
            && !self.has_failed
        {
            return Said::Came(format!("job {job} ended with exit code 0"));
        }
        Said::Nothing
    }
}

/// What Slurm wrote down of a job, for each that was asked for.
#[derive(Default)]
struct Seff {
    has_completed: bool,
    /// Another state of one of them.
    has_not: bool,
}

impl Reader for Seff {
    fn read(&mut self, line: &str) -> Said {
        if line.starts_with("Job ID: ") {
            self.has_completed = false;
        } else if line.starts_with("State: ") {
            self.has_completed = line == "State: COMPLETED (exit code 0)";
            self.has_not |= !self.has_completed;
        } else if line.starts_with("Memory Efficiency: ") && std::mem::take(&mut self.has_completed) && !self.has_not {
            return Said::Came("the job is completed, exit code 0".to_owned());
        }
        Said::Nothing
    }
}

/// GPUs that have a row in the matrix.
#[derive(Default)]
struct Topo(u64);

impl Reader for Topo {
    fn read(&mut self, line: &str) -> Said {
        static ROW: LazyLock<Regex> =
            LazyLock::new(|| Regex::new(r"^GPU[0-9]+\s+(?:(?:X|NV[0-9]+|SYS|NODE|PHB|PXB|PIX)\s+)+").expect("pattern"));
        if ROW.is_match(line) {
            self.0 += 1;
        } else if line.trim_start().starts_with("NV#  = Connection traversing a bonded set") && self.0 > 0 {
            return Said::Came(counted(std::mem::take(&mut self.0) as usize, "GPU"));
        }
        Said::Nothing
    }
}

#[cfg(test)]
mod tests {
    use super::super::of;

    fn told(text: &str) -> Vec<String> {
        of(text).into_iter().map(|(no, words)| format!("{no} {words}")).collect()
    }

    #[test]
    fn small_tools_say_what_came_out() {
        assert_eq!(
            told("Test Summary:  Error amount = 0.000000\n&&&& conjugateGradient PASSED\n"),
            ["2 CUDA sample: conjugateGradient passed"]
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
        let table = "#bytes #repetitions t[usec] Mbytes/sec\n  0  1000  14.13  0.00\n4194304  10  1474.58  2844.40\n";
        let imb = format!("# Intel(R) MPI Benchmarks 2018, MPI-1 part\n# Benchmarking PingPong\n# #processes = 2\n{table}");
        assert!(told(&imb).is_empty());
        let whole = format!("{imb}\n# All processes entering MPI_Finalize\n");
        assert_eq!(told(&whole), ["8 Intel MPI Benchmarks: PingPong of 2 processes: 4194304 bytes, 2844.40 Mbytes/sec"]);
        let node = "node-1:26:76 [0] NCCL INFO";
        let dump = format!(
            "{node} === System : maxWidth 12.5 totalWidth 72.0 ===\n{node} + PCI[24.0] - GPU/47000 (0)\n{node}    + XGMI[24.0] - GPU/4C000\n\
             {node} + NET[12.5] - NET/0 (64300003fd7010/1/12.500000)\n"
        );
        assert!(told(&dump).is_empty());
        let whole = format!("{dump}{node} ==========================================\n");
        assert_eq!(told(&format!("{whole}{whole}")), ["10 NCCL's topology: 1 GPU, 1 network port; GPUs are joined by XGMI"]);
        let device =
            "[CUDA Bandwidth Test] - Starting...\nResult = PASS\n\nNOTE: The CUDA Samples are not meant for performance measurements.\n";
        assert_eq!(told(device), ["4 CUDA sample's result: passed"]);
        let diag = |of_memory: &str| {
            let rule = "+-----------+----------+\n";
            format!("{rule}| Diagnostic | Result |\n| PCIe | Pass - All |\n| GPU Memory | {of_memory} |\n{rule}")
        };
        assert_eq!(told(&diag("Pass - All")), ["5 DCGM's diagnostic: 2 checks passed"]);
        assert!(told(&diag("Fail - GPU: 0")).is_empty());
        let wrong = format!("{imb}\n# All processes entering MPI_Finalize\n")
            .replace("Mbytes/sec", "Mbytes/sec defects")
            .replace("0.00\n", "0.00 0.00\n")
            .replace("2844.40", "2844.40 7.00");
        assert!(told(&wrong).is_empty(), "{:?}", told(&wrong));
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
}
