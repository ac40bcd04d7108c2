//! Which lines are worth a look: a million uninteresting ones must cost almost nothing.

use super::catalog;
use super::catalog::grams::{BIT_WORDS, Index, Keys, Tried, search, stands};
use memchr::{memchr, memchr_iter, memchr2_iter, memmem};
use regex::bytes::Regex;
use std::borrow::Cow;
use std::sync::{LazyLock, OnceLock};

/// How much a line matters before anybody has parsed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Class {
    /// Nothing that any reader understands. May be dropped under pressure.
    Noise,
    /// Bring-up, progress, phases. Kept if at all possible.
    Fact,
    /// WARN or worse. Always counted.
    Alarm,
}

/// What makes a line worth a look besides the texts of the catalogue, which [`catalog::gate`] knows: what readers of the program need,
/// and how programs begin lines that tell of trouble. Four letters or more that are no digits.
#[rustfmt::skip]
const ALARMS: &[&str] = &[
    // NCCL, where a colour stands in place of the blanks around it
    "CCL WARN", "CCOM WARN", "WARN: Function: ",
    // Python
    "Traceback (most recent call last)", "Exception ignored in", "--- Logging error ---", " failed with parameters: ", "Fatal Python error", "terminated with the following error",
    // PyTorch's watchdogs
    "Watchdog caught", "watchdog thread terminated", "watchdog got stuck", "detected by watchdog", "timed out in blocking wait",
    "Timeout at NCCL work", "Timeout at collective: ", "following async exception", "found async exception", "taking the entire process down",
    "Some NCCL operations have failed", "dump signal", "timeout signal from", "global timeout from", "signal dumping",
    "Heartbeat monitor timed out", "NCCL monitor thread timeout", "detects no heartbeat", "Terminating the process after",
    "remote error detected", "Aborting process on rank", "nccl hit async error", "Async error on rank", "Operation timed out after",
    "what():", "ncclRemoteError", "FlightRecorder", "retrieving ncclUniqueId", "[c10d] The", "[c10d] TCP", "[c10d] waitForInput", "[c10d] recv",
    "[c10d] send", "gloo/transport/", "Unknown NCCL error", "Unknown NCCL Error", "Detected mismatch between",
    // CUDA and NVML
    "CUDA error: ", "CUDA out of memory", "CUBLAS_STATUS_", "CUDNN_STATUS_", "Cuda failure ", "Failed: Cuda error ", "CUDA_ERROR_", "Assertion `", "NVMLError",
    "initialize NVML", "GPU is lost", "fabric manager ", "nvidia-fabricmanager", "nvidia-container-cli", "nvidia-peermem",
    // launchers
    "failed (exitcode: ", "Root Cause (first", "Failures:", " closing signal ", " death signal", "forcefully exiting via",
    "Killing subprocess", "exits with return code", "crashed with exit code", "exited with code", "terminated with code",
    "terminated with signal", "terminated with exit code", "exited on signal", " via signal SIG", "Process name: [", " RUNNING AT ", "slurmstepd",
    "srun: error", "srun: fatal", "srun: Force", "srun: Terminating", "srun: Job step", "srun: launch", "Test failure ", "Test NCCL failure ",
    "Test CUDA failure ",
    // the system
    "Segmentation fault", "Bus error", "core dumped)", "Too many open files", "DataLoader worker", "unable to write to ", "unable to open ",
    "unable to allocate ", "oom-kill", "oom_kill", "Oom-kill", "Oom_kill", "Kill process", "Killed process", "systemd-oomd", "NVRM: ", "SXid (",
    "fallen off the bus", "Kernel panic", "general protection fault", "segfault at ", "AER: ", "PCIe Bus Error", "pciehp: ", "mlx5_core ",
    "efa 0000:", "infiniband rdmap", "Libfabric EFA", "nfs: server ", "nfs4: server ", "Lustre: ", "LustreError: ", "I/O error", "EDAC MC",
    "Hardware Error", "Hardware error", "Sending SIGBUS",
];

#[rustfmt::skip]
const FACTS: &[&str] = &[
    // Ray Train, DeepSpeed, HF Trainer
    ") world_rank=", "exits successfully", "workers successfully finished", "' succeeded", "train_runtime", " for minibatches ", "\"torchelastic.",
    // NCCL
    "NCCL version", "RCCL version", "vLLM is using nccl==", "INFO Bootstrap", "INFO Using network ", "INFO Using tuner ", "/Plugin:", "/Plugin :",
    "INFO RAS client listening", " set by environment to ", "INFO cudaDriverVersion ", "GPU Direct RDMA ", "NET/OFI ", " NET plugin ",
    "loaded external ", "INFO External ", "INFO Plugin name set", "INFO Plugin Path ", "INFO P2P plugin ", "INFO Disabling external", "INFO Assigned ", "INFO Comm config ",
    "INFO DMA-BUF is", "INFO Invalid value ", "ENV NCCL_", "ENV: NCCL_", "Affinity for GPU ", "affinity for GPU ", "] via P2P", "] via SHM",
    "] via NET", "] via COLLNET", "] via direct", " coll channels, ", "INFO Connected all rings", "timings: ", "INFO Init timings",
    "INFO Check P2P Type", "INFO NVLS multicast", "disabling CollNet",
    // around a traceback
    "  File \"", "During handling of the above", "The above exception was", "ncclInvalidUsage: ", "Last error:",
    // torchrun and PyTorch
    "waiting for other agents", "Setting OMP_NUM_THREADS", "ProcessGroupNCCL initialization options",
    // progress
    "Loss", "loss", "LOSS", "it/s", "s/it", "iteration", "step", "Step", "Iter ", "iter ", "iters: ", "SamplesPerSec", "[batch=",
    "OVERFLOW", "Overflow", "overflow on", "Gradient overflow", "train_runtime", "'eval_", "Checkpoint", "checkpoint", "Evaluat", "evaluat",
    "Validat", "validat", "Compil", "compil", "_inductor/", "Uvicorn running", "startup complete", "shutdown complete", "Shutting down FastAPI", "API server on", "ready to roll",
    "Listening at: http", "Running on http", "Avg prompt throughput", "Prefill batch", "Decode batch", "Loading", "loading", "Building", "building", "dataset",
    " : Up. ", "Finished mdrun", "Total running time", "raining complete", "raining finished", "raining Finished", "Training done", "eached max", "MAX EPOCHS", "Launcher: Done", "images/sec: ", "training is done", "stopped: ", "exiting program", "train_iters",
    "done training", "Load weight ", "Capture cuda graph ", "** Running ", "[Eval batch=", "Train throughput/", "Train time/remaining", "Train lr-", "Train l2_norm/", "Acc@1", "Test: ",
    "(val)", "(test)", "train_num_batches", "wandb: ", "|    episodes ", "Iteration time: ",
];

/// Words that count only in a form. A digit in a form is any digit.
#[rustfmt::skip]
const FORMS: &[(Class, &str, &str)] = &[
    (Class::Alarm, "Error", r"[A-Za-z]Error(?::|$|\r)"),
    (Class::Alarm, "Exception", r"[A-Za-z]Exception(?::|$|\r)"),
    (Class::Alarm, "Interrupt", r"[A-Za-z]Interrupt(?::|$|\r)"),
    (Class::Alarm, "SystemExit", r"[A-Za-z]SystemExit(?::|$|\r)|(?:^|[\r\]: ])SystemExit"),
    (Class::Alarm, ".cpp:", r"\[[EF] [A-Za-z]+\.cpp:"),
    (Class::Alarm, "NCCL.cpp:", r"\[E[0-9]+ [0-9:.]+ ProcessGroupNCCL\.cpp:"),
    (Class::Alarm, " failed", r"NCCL [A-Za-z]+ failed"),
    // NCCL 2.0 to 2.2
    (Class::Alarm, " WARN ", r":[0-9]+:[0-9]+ \[[0-9]+\] [A-Za-z0-9_./-]+\.[a-z]+:[0-9]+ WARN "),
    (Class::Alarm, "libfabric:", r"libfabric:[0-9]"),
    // Horovod
    (Class::Alarm, "Missing ranks:", r"Missing ranks:\s*$"),
    (Class::Alarm, "Stalled ranks:", r"Stalled ranks:\s*$"),
    (Class::Fact, " set to ", r"INFO NCCL_[A-Z_]+ set to "),
    (Class::Fact, "INFO NET/", r"INFO NET/(?:(?:IB|Socket) ?: ?(?:Using|No device)|[0-9A-Fa-f-]+ :)"),
    (Class::Fact, "INFO GPU/", r"INFO GPU/[0-9A-Fa-f-]+ :"),
    (Class::Fact, "comm 0x", r"comm 0x[0-9a-f]+ rank "),
    (Class::Fact, "INFO MNNVL ", r"INFO MNNVL (?:[0-9] cliqueId|busId 0x)"),
    (Class::Fact, "INFO Channel ", r"INFO Channel [0-9]+/[0-9]+ : +[0-9]+(?: |$)"),
    (Class::Fact, "INFO Trees ", r"INFO Trees \[[0-9]+\] "),
    (Class::Fact, "INFO Pattern ", r"INFO Pattern [0-9]"),
    (Class::Fact, "Error: ", r"nccl[A-Z][A-Za-z]+Error: "),
    (Class::Fact, "  time", r"  time +: "),
    (Class::Fact, "  host", r"  host +: "),
    (Class::Fact, "  rank", r"  rank +: "),
    (Class::Fact, "  exitcode", r"  exitcode +: "),
    (Class::Fact, "  traceback", r"  traceback +: "),
    (Class::Fact, "done in ", r"done in [0-9]"),
    (Class::Fact, "%)   ", r"[0-9] \([0-9]+\.[0-9]+%\) +[0-9.]+ m?s .*[0-9] [KM]\s*$"),
    (Class::Fact, "Epoch", r"Epoch[ :#\[]+[0-9].*(?:[Aa]cc|MSE|mse|L1|l1|MAE|mae|BCE|bce)"),
    (Class::Fact, "epoch", r"epoch[ :#\[=]+[0-9].*(?:[Aa]cc|MSE|mse|L1|l1|MAE|mae|BCE|bce)"),
    (Class::Fact, "Epoch", r"Epoch[ :#\[]+[0-9]+(?: ?/ ?[0-9]+)?[\]: =*-]*$"),
    (Class::Fact, "epoch", r"epoch[ :#\[]+[0-9]+(?: ?/ ?[0-9]+)?[\]: =*-]*$"),
    (Class::Fact, "Done", r"(?:^|[ \]])Done[!.]?[ \r]*$"),
    (Class::Fact, "Start ", r"^ +Start +[0-9]+: "),
    (Class::Fact, "nll ", r"nll +[0-9]"),
    (Class::Fact, "nll=", r"nll=[0-9]"),
    (Class::Fact, "nll: ", r"nll: +[0-9]"),
    (Class::Fact, "mse ", r"mse +[0-9]"),
    (Class::Fact, "mse=", r"mse=[0-9]"),
    (Class::Fact, "mse: ", r"mse: +[0-9]"),
    (Class::Fact, "mae ", r"mae +[0-9]"),
    (Class::Fact, "mae=", r"mae=[0-9]"),
    (Class::Fact, "mae: ", r"mae: +[0-9]"),
    (Class::Fact, "bce ", r"bce +[0-9]"),
    (Class::Fact, "bce=", r"bce=[0-9]"),
    (Class::Fact, "bce: ", r"bce: +[0-9]"),
];

/// What messages of NCCL begin with that nobody reads: the dump of the topology, rings and trees one by one, each operation, each
/// step of a proxy. In a log of all subsystems they are nine lines of ten. From four letters to sixteen.
#[rustfmt::skip]
const CHATTER: &[&str] = &[
    "AllReduce: ", "AllGather: ", "ReduceScatter: ", "Broadcast: ", "Reduce: ", "Send: ", "Recv: ", "AlltoAll: ", "Gather: ", "Scatter: ",
    "Connected to pro", "Received and ini", "resp.opId", "proxyProgressAsy", "ncclPollProxyRes", "channel{Lo", "ProxyCall", "New proxy",
    "              ", "+ PCI[", "+ NVL[", "+ SYS[", "+ NET[", "+ C2C[", "Ring ", "Tree ", "UDS: ", "proxyUDS", "UDS proxy", "UDS conn", "UDS converted", "Import", "Allocated ", "Topology",
    "[Proxy ", "NVLS Trees", "CPU/", "NIC/", "NET/0-", "=======", "=== System", "P2P Chunksize", "threadThresholds", " 0 : ", " 1 : ", " 2 : ", " 3 : ",
    " 4 : ", " 5 : ", " 6 : ", " 7 : ", " 8 : ", " 9 : ", "10 : ", "11 : ", "channel.cc:",
];

/// Looks for the lines of a chunk that may matter, a few gigabytes a second.
///
/// Most of a large log is chatter of NCCL, known by the first letters of its message. What is glued to the end of a line of chatter is
/// passed over with it, but for a WARN.
pub struct Sieve<'a> {
    chunk: &'a [u8],
    /// The start of the next line.
    pub at: usize,
    /// Where the message began in the last line that had NCCL's header.
    message: usize,
    ends: memchr::Memchr<'a>,
    /// The next WARN at or behind `at`.
    warn: usize,
    chatter: &'static Chatter,
}

/// A line that may matter, without its end, and how many lines were passed over before it.
pub struct Candidate<'a> {
    pub passed: u64,
    pub line: Option<&'a [u8]>,
    /// Where the message begins if it has NCCL's header, of level INFO; else 0.
    pub message: usize,
}

impl<'a> Sieve<'a> {
    /// `chunk` begins with a line.
    pub fn new(chunk: &'a [u8]) -> Self {
        let mut sieve = Sieve { chunk, at: 0, message: 0, ends: memchr_iter(b'\n', chunk), warn: 0, chatter: &CHATTER_TABLE };
        sieve.find_warn();
        sieve
    }

    /// Whether a line so far had NCCL's header.
    pub fn has_nccl(&self) -> bool {
        self.message > 0
    }

    fn find_warn(&mut self) {
        self.warn = warn_in(&self.chunk[self.at..]).map_or(self.chunk.len(), |n| self.at + n);
    }

    /// The next line, whatever it is, without its end.
    pub fn line(&mut self) -> &'a [u8] {
        let end = self.end();
        self.line_to(end)
    }

    #[inline]
    fn end(&mut self) -> usize {
        self.ends.next().unwrap_or(self.chunk.len())
    }

    #[inline(always)]
    fn line_to(&mut self, end: usize) -> &'a [u8] {
        let line = &self.chunk[self.at..end];
        self.at = end + 1;
        if self.warn < end && end < self.chunk.len() {
            self.find_warn();
        }
        line.strip_suffix(b"\r").unwrap_or(line)
    }

    pub fn next_candidate(&mut self) -> Candidate<'a> {
        let mut passed = 0;
        let (chunk, chatter) = (self.chunk, self.chatter);
        while self.at < chunk.len() {
            let end = self.end();
            let line = &chunk[self.at..end];
            if !line.is_empty() {
                let message = self.message_of(line);
                if message == 0 || self.warn < end || !chatter.has(&line[message..]) {
                    return Candidate { passed, line: Some(self.line_to(end)), message };
                }
            }
            self.at = end + 1;
            passed += 1;
        }
        Candidate { passed, line: None, message: 0 }
    }

    /// Where the message begins of a line with NCCL's header, of level INFO; else 0.
    #[inline]
    fn message_of(&mut self, line: &[u8]) -> usize {
        const MARK: &[u8; 12] = b"] NCCL INFO ";
        // Process and thread ids of one log are mostly as long as those of the line before.
        let mark = self.message.saturating_sub(MARK.len());
        if mark > 0 && line.get(mark..self.message).is_some_and(|at| at == MARK) {
            return self.message;
        }
        let from = after_header(&line[..line.len().min(160)]);
        if from > 0 {
            self.message = from + "INFO ".len();
            return self.message;
        }
        0
    }
}

/// Where the first WARN begins. Looking for one letter of it is far cheaper, as long as there are few others of that letter.
fn warn_in(text: &[u8]) -> Option<usize> {
    const WARN: &[u8] = b" NCCL WARN ";
    const BEFORE: usize = b" NCCL ".len();
    const PATIENCE: usize = 1000;
    static FINDER: LazyLock<memmem::Finder> = LazyLock::new(|| memmem::Finder::new(WARN));
    for (n, at) in memchr_iter(b'W', text).enumerate() {
        let begin = at.saturating_sub(BEFORE);
        if text[begin..].starts_with(WARN) {
            return Some(begin);
        }
        if n == PATIENCE {
            return FINDER.find(&text[begin..]).map(|at| begin + at);
        }
    }
    None
}

/// What chatter begins with, by its first four letters.
struct Chatter {
    /// Those of one place stand together.
    starts: Vec<Start>,
    /// Where those of a place begin; the next place's begin where they end.
    places: [u8; 257],
}

/// The start of a message, as numbers: up to sixteen letters at once.
#[derive(Clone, Copy)]
struct Start {
    mask: u128,
    letters: u128,
}

static CHATTER_TABLE: LazyLock<Chatter> = LazyLock::new(|| {
    // A user may be interested in it.
    let is_wanted = |start: &&&str| catalog::gate::of_users().any(|pattern| pattern.may_begin(start));
    let mut starts: Vec<Start> = CHATTER
        .iter()
        .filter(|start| !is_wanted(start))
        .map(|text| {
            let bytes = text.as_bytes();
            let n = bytes.len().min(16);
            let mut letters = [0; 16];
            letters[..n].copy_from_slice(&bytes[..n]);
            Start { mask: u128::MAX >> (8 * (16 - n)), letters: u128::from_le_bytes(letters) }
        })
        .collect();
    starts.sort_by_key(|s| Chatter::place(s.letters));
    let before = |place: usize| starts.partition_point(|s| Chatter::place(s.letters) < place);
    let places = std::array::from_fn(|place| u8::try_from(before(place)).expect("few starts"));
    Chatter { starts, places }
});

impl Chatter {
    fn place(letters: u128) -> usize {
        ((letters as u32).wrapping_mul(0x9e37_79b1) >> 24) as usize
    }

    #[inline]
    fn has(&self, message: &[u8]) -> bool {
        let letters = match message.first_chunk::<16>() {
            Some(sixteen) => u128::from_le_bytes(*sixteen),
            None => {
                let mut sixteen = [0; 16];
                sixteen[..message.len()].copy_from_slice(message);
                u128::from_le_bytes(sixteen)
            }
        };
        let place = Chatter::place(letters);
        let here = usize::from(self.places[place])..usize::from(self.places[place + 1]);
        self.starts[here].iter().any(|s| letters & s.mask == s.letters)
    }
}

/// A text that is looked for.
struct Word {
    class: Class,
    text: &'static str,
    /// Where in it the four bytes stand that it is found by.
    key_at: usize,
    form: Option<&'static str>,
    /// Of the form, once it has been needed.
    regex: OnceLock<Regex>,
}

/// All words, and the bits of their keys and of the catalogue's.
struct Gate {
    bits: [u64; BIT_WORDS],
    index: Index,
    words: Vec<Word>,
}

static GATE: LazyLock<Gate> = LazyLock::new(|| {
    let plain =
        [(Class::Alarm, ALARMS), (Class::Fact, FACTS)].into_iter().flat_map(|(class, list)| list.iter().map(move |t| (class, *t, None)));
    let forms = FORMS.iter().map(|(class, text, form)| (*class, *text, Some(*form)));
    let headers = super::header::words().map(|text| (Class::Fact, text, None));
    let all: Vec<(Class, &str, Option<&str>)> = plain.chain(forms).chain(headers).collect();
    let keys = Keys::of(all.iter().map(|(_, text, _)| *text));
    let word = |(class, text, form): (Class, &'static str, Option<&'static str>)| {
        let (_, key_at, key) = keys.best(std::iter::once(text), false)?;
        Some((key, Word { class, text, key_at, form, regex: OnceLock::new() }))
    };
    let (keys, words): (Vec<_>, Vec<_>) = all.into_iter().filter_map(word).unzip();
    let index = Index::build(keys.into_iter());
    let mut bits = catalog::gate::bits();
    bits.iter_mut().zip(index.bits).for_each(|(all, own)| *all |= own);
    Gate { bits, index, words }
});

impl Word {
    fn is_in(&self, line: &[u8], at: usize, any_digits: bool) -> bool {
        stands(self.text.as_bytes(), line, at, self.key_at, any_digits)
    }

    fn has_form(&self, line: &[u8]) -> bool {
        self.form.is_none_or(|form| self.regex.get_or_init(|| regex_of(form)).is_match(line))
    }
}

fn regex_of(form: &str) -> Regex {
    Regex::new(&format!("(?-u){form}")).expect("a form")
}

/// The class that words and texts give a line, looked through from `from` on; `any_digits`: or might give it if it had other digits.
fn look(line: &[u8], from: usize, any_digits: bool) -> Class {
    if has_glog(line) {
        return Class::Alarm;
    }
    let class = if ends_a_table(line) || has_bar(line) { Class::Fact } else { Class::Noise };
    let mut look = Look { line, any_digits, class, text: None, words: Tried::default(), texts: catalog::gate::Search::default() };
    let gate: &Gate = &GATE;
    search(&gate.bits, line, from, |at, key| look.hit(gate, at, key));
    look.class
}

/// One line, as far as it has been looked through.
struct Look<'a> {
    line: &'a [u8],
    any_digits: bool,
    class: Class,
    /// The line, where it has been needed.
    text: Option<Cow<'a, str>>,
    words: Tried,
    texts: catalog::gate::Search,
}

impl Look<'_> {
    /// Four bytes that are a key stand at `at`. True where nothing more can come of the line.
    #[cold]
    #[inline(never)]
    fn hit(&mut self, gate: &Gate, at: usize, key: u32) -> bool {
        for no in gate.index.at(key) {
            let word = &gate.words[no];
            // A form is looked for in the whole line.
            let may_be = word.class > self.class && word.is_in(self.line, at, self.any_digits) && self.words.is_first(no);
            if may_be && word.has_form(self.line) {
                self.class = word.class;
            }
        }
        let Look { line, any_digits, class, text, texts, .. } = self;
        texts.each(key, line, at, *any_digits, |signature, pattern| {
            let of_entry = if signature.is_fact { Class::Fact } else { Class::Alarm };
            if of_entry > *class {
                let text = text.get_or_insert_with(|| String::from_utf8_lossy(line));
                let has = if *any_digits { pattern.may_match(text) } else { catalog::gate::has(text, signature.scope, pattern) };
                *class = if has { of_entry } else { *class };
            }
        });
        self.class == Class::Alarm
    }
}

/// The head of a line of glog or c10 at severity E or F: `E1121 00:05:26.947000`, `[E1121 00:10:`.
fn has_glog(line: &[u8]) -> bool {
    memchr2_iter(b'E', b'F', line).any(|at| {
        let behind = &line[at + 1..];
        let digits = behind.iter().take(5).take_while(|b| b.is_ascii_digit()).count();
        let is_time = |time: &[u8], like: &[u8]| {
            time.len() >= like.len() && time.iter().zip(like).all(|(b, l)| if *l == b'0' { b.is_ascii_digit() } else { b == l })
        };
        match line[..at].last() {
            Some(b'[') if matches!(digits, 3 | 4) => is_time(&behind[digits..], b" 00:"),
            None | Some(b'\r' | b']' | b':' | b' ') if digits == 4 => is_time(&behind[digits..], b" 00:00:00."),
            _ => false,
        }
    })
}

/// A line of torchrun's table of failures that ends it: `[3]:`.
fn ends_a_table(line: &[u8]) -> bool {
    let is_end = |piece: &[u8]| {
        let inside = piece.strip_suffix(b"]:").unwrap_or(b"");
        let digits = inside.iter().rev().take_while(|b| b.is_ascii_digit()).count();
        digits > 0 && inside[..inside.len() - digits].ends_with(b"[")
    };
    is_end(line) || (memchr(b'\r', line).is_some() && line.split(|b| *b == b'\r').any(is_end))
}

/// A progress bar: ` 12%|██`.
fn has_bar(line: &[u8]) -> bool {
    memchr_iter(b'%', line).any(|at| line[at..].starts_with(b"%|") && at > 0 && line[at - 1].is_ascii_digit())
}

/// Classifies one raw line.
pub fn classify(line: &[u8]) -> Class {
    if warn_in(line).is_some() { Class::Alarm } else { look(line, after_header(line), false) }
}

/// Whether a line is noise, and would be with any other digits in the place of those that it has.
pub fn is_noise_with_any_digits(line: &[u8]) -> bool {
    look(line, 0, true) == Class::Noise
}

/// Where the message of a line begins that starts with NCCL's own header; the search may begin there, at the level.
fn after_header(line: &[u8]) -> usize {
    const MARK: &[u8] = b"] NCCL INFO ";
    let Some(space) = memchr(b' ', &line[..line.len().min(100)]) else { return 0 };
    let Some(dev) = line[space + 1..].strip_prefix(b"[") else { return 0 };
    let digits = dev.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits > 0 && dev[digits..].starts_with(MARK) && line[..space].iter().filter(|b| **b == b':').count() == 2 {
        space + 2 + digits + "] NCCL ".len()
    } else {
        0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_can_be_found() {
        let forms = FORMS.iter().map(|(_, text, form)| {
            assert!(Regex::new(form).is_ok() && !form.contains(r"\d") && !form.contains(r"\w"), "{form}");
            text
        });
        for text in ALARMS.iter().chain(FACTS).chain(forms) {
            assert!(
                text.as_bytes().windows(4).any(|w| !w.iter().any(u8::is_ascii_digit)),
                "{text}: four letters that are no digits are needed"
            );
        }
    }

    /// Nothing that a reader understands may stand in the list.
    #[test]
    fn chatter_is_noise() {
        for start in CHATTER {
            assert!((4..=16).contains(&start.len()), "{start}");
            for tail in [
                "x",
                "0 -> 1 -> 2",
                "comm 0x7f nRanks 8",
                "opCount 1a sendbuff 0x7f recvbuff 0x7f count 4 datatype 9 op 0 root 0 comm 0x7f0a [nranks=8]",
            ] {
                let line = format!("vm:1:1 [0] NCCL INFO {start}{tail}");
                assert_eq!(classify(line.as_bytes()), Class::Noise, "{line}");
            }
        }
    }
}
