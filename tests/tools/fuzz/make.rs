//! Makes inputs: of recorded files and known lines, damaged; of tokens; of anything.

use crate::parsers::Parser;
use crate::tree;
use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;

/// The files of one run.
pub type Input = Vec<Vec<u8>>;

/// xorshift64*
pub struct Rng(u64);

impl Rng {
    /// The generator of one input.
    pub fn of(seed: u64, no: u64) -> Rng {
        let mut z = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ no.wrapping_mul(0xd1b5_4a32_d192_ed03) ^ 0x1234_5678_9abc_def1;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        Rng((z ^ z >> 31) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next()) * n.max(1) as u128) >> 64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub fn pick<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }

    /// Small numbers more often than large ones.
    fn skewed(&mut self, most: usize) -> usize {
        let bits = self.below(usize::BITS as usize - most.leading_zeros() as usize + 1);
        self.below((1 << bits).min(most) + 1)
    }

    fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.next() as u8).collect()
    }
}

pub const NUMBERS: &[&str] = &[
    "0",
    "-0",
    "1",
    "-1",
    "7",
    "00",
    "64",
    "127",
    "128",
    "255",
    "256",
    "65535",
    "65536",
    "1048576",
    "16777216",
    "2147483647",
    "2147483648",
    "-2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "340282366920938463463374607431768211456",
    "1e308",
    "1e309",
    "-1e309",
    "1e-400",
    "1e18",
    "1e19",
    "1e20",
    "0.1",
    "-0.5",
    ".5",
    "5.",
    "1.5e",
    "nan",
    "NaN",
    "-nan",
    "inf",
    "Infinity",
    "-inf",
    "0x",
    "0xffffffffffffffff",
    "0x1ffffffffffffffff",
    "1,000,000",
    "1_000",
    "1k",
    "1.5M",
    "100%",
    "-9",
    "1969",
    "9999",
    "99",
    "60",
    "24",
    "13",
    "2026-02-30",
    "9999-12-31T23:59:60.999999999Z",
    "-9999-01-01 00:00:00",
    "0000-00-00 00:00:00,000",
    "2026-11-21T25:61:61+99:99",
    "23:59:60",
    "99999999999999999999:59:59",
    "7 days, 23:59:59",
];

const TOKENS: &[&str] = &[
    "\0",
    "\r",
    "\n",
    "\r\n",
    "\t",
    " ",
    "   ",
    "\u{b}",
    "\u{c}",
    "\u{1b}",
    "\u{1b}[31m",
    "\u{1b}[",
    "\u{1b}]0;title\u{7}",
    "\u{1b}]8;;",
    "\u{1b}[2K",
    "\u{9b}31m",
    "\u{7f}",
    "\u{8}",
    "\u{feff}",
    "\u{202e}",
    "\u{200b}",
    "\u{2028}",
    "\u{85}",
    "é",
    "█",
    "日本語",
    "🦀",
    "e\u{301}",
    "\u{fffd}",
    "İ",
    "ß",
    "K",
    "\"",
    "'",
    "\\",
    "\\\"",
    "\\u0000",
    "\\ud800",
    "\\",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    "<",
    ">",
    "{}",
    "[]",
    ":",
    ",",
    ";",
    "=",
    "|",
    "/",
    "-",
    "->",
    "%",
    "%|",
    "#",
    "# ",
    "*",
    "^",
    "$",
    ".",
    "..",
    "?",
    "null",
    "true",
    "false",
    "None",
    "[rank3]:",
    "[rank4294967296]: ",
    "[default3]:",
    "[1,3]<stderr>:",
    "3: ",
    "[pod/job-0/trainer] ",
    "(Worker pid=7) ",
    "[E1121 00:10:37.678827192 ProcessGroupNCCL.cpp:1] ",
    "[2026-11-21 00:00:01,123] ",
    "2026-11-21T00:05:26.1Z ",
    "vm:2692:2692 [0] NCCL INFO ",
    "vm:1:2 [0] a.cc:1 NCCL WARN ",
    " NCCL WARN ",
    " NCCL INFO ",
    "vm:1:2 [0]",
    "NCCL version ",
    "Channel 00/0 : ",
    "Channel 00/24 : 0 1 2 3",
    "1[1] -> 2[2]",
    " [send]",
    " [receive]",
    " via ",
    "P2P/CUMEM",
    "NET/Socket/0",
    "Trees [0] 1/-1/-1->0->-1 ",
    "Traceback (most recent call last):\n",
    "  File \"x.py\", line 1, in f\n",
    "ValueError: ",
    "torch.distributed.DistBackendError: ",
    "During handling of the above exception, another exception occurred:\n",
    "Failures:\n",
    "Root Cause (first observed failure):\n",
    "[0]:\n",
    "  rank      : 1 (local_rank: 1)\n",
    "  exitcode  : -9 (pid: 3)\n",
    "  time      : 2026-11-21_00:00:01\n",
    "======\n",
    "------\n",
    "loss",
    "loss: ",
    "step ",
    "step: ",
    "iteration 1/2 |",
    "Iter ",
    "epoch ",
    "{'loss': 1.0, 'epoch': 1}",
    "10%|█ | 1/10 [00:01<00:09, 1.00it/s]",
    "it/s]",
    "s/it",
    "| 1/2 [0:1<",
    "last enqueued work: ",
    "last completed work: ",
    "Rank ",
    "[PG ID 0 PG GUID 0(default_pg) Rank 2] ",
    "Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1) ran for 1 milliseconds",
    "SeqNum=",
    "NumelIn=",
    "Timeout(ms)=",
    "comm 0x1 ",
    "rank 1 ",
    "nranks 2 ",
    "cudaDev 0 nvmlDev 0 busId 1000 commId 0x1 - Init START",
    "- Init COMPLETE",
    "CUDA error: ",
    "Cuda failure ",
    "CUDA out of memory. Tried to allocate 1.00 GiB. ",
    "what(): ",
    "terminate called after throwing an instance of ",
    "failed (exitcode: -9) local_rank: 5 (pid: 3239) of binary: x",
    "Sending process 3234 closing signal SIGTERM",
    "NVRM: Xid (PCI:0000:1b:00): 79, ",
    "kernel: ",
    "[12345.678901] ",
    "<6>[",
    "OMP_NUM_THREADS",
    "*****************************************\n",
    "# nccl-tests version 2.19.6\n",
    "# Collective test starting: all_reduce_perf\n",
    "# nThread 1 nGpus 8 minBytes 8\n",
    "# Out of bounds values : 0 OK\n",
    "# Avg bus bandwidth    : 1.5\n",
    "# Collective test concluded: all_reduce_perf\n",
    "     1048576        262144     float     sum      -1    31.1   33.7   58.9      0    30.9  33.9   59.4      0\n",
    "Test NCCL failure ",
    "SERVER PROTOCOL 2\n",
    "OK\n",
    "ERROR: ",
    "# EXC ",
    "# took ",
    "NCCL version 2.28.9 compiled with CUDA 13.0\n",
    "Job summary\n",
    "Communicators...",
    "\"communicators\"",
    "\"timestamp\": \"2026-11-21 00:00:01\"",
    "nccl_bus_bandwidth_gbs{",
    "\",collective=\"AllReduce\"",
    "} 1.5\n",
    "\"entries\"",
    "\"pg_config\"",
    "\u{1}",
    "checkpoint",
    "saving",
    "validation",
    "Saving model checkpoint to ",
    "compil",
    "srun: error: ",
    "slurmstepd: ",
];

pub struct Maker {
    parser: &'static Parser,
    pub files: Vec<Vec<u8>>,
    pub lines: Vec<Vec<u8>>,
}

/// A damaged file is no larger than this; large files are cut to a window of lines.
const MOST_BYTES: usize = 48 << 10;

impl Maker {
    pub fn new(parser: &'static Parser) -> Maker {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        for dir in parser.seeds {
            let mut paths = Vec::new();
            walk(&root.join(dir), &mut paths);
            paths.sort();
            files.extend(paths.iter().map(|path| unpacked(std::fs::read(path).expect("a seed"))));
        }
        let mut lines: Vec<Vec<u8>> = Vec::new();
        if parser.has_lines {
            lines.extend(files.iter().flat_map(|file| file.split(|b| *b == b'\n').map(<[u8]>::to_vec)));
        }
        if parser.has_catalogue {
            // As often as all of the rest together.
            let examples: Vec<Vec<u8>> =
                nccl_top::text::signature::all().flat_map(|(_, s)| s.examples.iter().map(|e| e.as_bytes().to_vec())).collect();
            let times = (lines.len() / examples.len().max(1)).max(1);
            (0..times).for_each(|_| lines.extend(examples.iter().cloned()));
        }
        for dir in parser.sources {
            let mut paths = Vec::new();
            walk(&root.join(dir), &mut paths);
            paths.sort();
            for literal in paths.iter().flat_map(|path| literals(&String::from_utf8_lossy(&std::fs::read(path).expect("a source")))) {
                if literal.len() > 120 && (literal.contains('\n') || literal.starts_with('{')) {
                    files.push(literal.clone().into_bytes());
                }
                if parser.has_lines {
                    (0..3).for_each(|_| lines.extend(literal.split('\n').map(|l| l.as_bytes().to_vec())));
                }
            }
        }
        if files.is_empty() {
            files = lines.clone();
        }
        Maker { parser, files, lines }
    }

    pub fn make(&self, rng: &mut Rng) -> Input {
        let parts = if rng.one_in(2) { 1 } else { 1 + rng.below(self.parser.parts) };
        let near = rng.below(self.files.len());
        let mut input: Input = (0..parts).map(|i| self.file(rng, near + i)).collect();
        if rng.one_in(100) {
            let file = rng.below(parts);
            repeat_much(&mut input[file], rng);
        }
        if self.parser.packs && rng.one_in(24) {
            let mut packed = packed(&input[0]);
            (0..rng.below(3)).for_each(|_| self.damage(&mut packed, rng));
            input[0] = packed;
        }
        input
    }

    fn file(&self, rng: &mut Rng, near: usize) -> Vec<u8> {
        let structured = self.parser.dumps;
        match rng.below(12) {
            0..=2 if !structured || rng.one_in(12) => {
                let mut bytes = self.window(rng, near);
                (0..rng.skewed(6)).for_each(|_| self.damage(&mut bytes, rng));
                bytes
            }
            3..=5 if !self.lines.is_empty() => self.some_lines(rng),
            6 => self.some_tokens(rng),
            7 => {
                let mut bytes = if rng.one_in(2) { Vec::new() } else { self.start_of_seed(rng) };
                let n = rng.skewed(4096);
                bytes.extend(rng.bytes(n));
                bytes
            }
            _ if structured => {
                let entries = rng.skewed(60);
                let mut bytes = tree::dump_file(rng, entries, 0);
                (0..rng.skewed(3)).for_each(|_| self.damage(&mut bytes, rng));
                bytes
            }
            8..=10 => self.tree(rng, near, 0),
            _ => {
                let mut bytes = self.window(rng, near);
                (0..rng.skewed(60)).for_each(|_| self.damage(&mut bytes, rng));
                bytes
            }
        }
    }

    /// A seed near another, whole or the lines that fit.
    fn window(&self, rng: &mut Rng, near: usize) -> Vec<u8> {
        let seed = if rng.one_in(4) { rng.pick(&self.files) } else { &self.files[near % self.files.len()] };
        if seed.len() <= MOST_BYTES || !self.parser.has_lines {
            return seed.clone();
        }
        let lines: Vec<&[u8]> = seed.split_inclusive(|b| *b == b'\n').collect();
        // Of JSON lines the first says what it is.
        let mut out = if seed.starts_with(b"{") { lines[0].to_vec() } else { Vec::new() };
        let most = 1024 + rng.skewed(MOST_BYTES);
        for line in &lines[rng.below(lines.len())..] {
            out.extend_from_slice(line);
            if out.len() > most {
                break;
            }
        }
        out
    }

    fn start_of_seed(&self, rng: &mut Rng) -> Vec<u8> {
        let seed = rng.pick(&self.files);
        seed[..rng.below(seed.len().min(200) + 1)].to_vec()
    }

    fn some_lines(&self, rng: &mut Rng) -> Vec<u8> {
        let mut out = if self.parser.has_header { self.header(rng) } else { Vec::new() };
        let end: &[u8] = if rng.one_in(12) {
            b"\r"
        } else if rng.one_in(12) {
            b"\r\n"
        } else {
            b"\n"
        };
        for _ in 0..1 + rng.skewed(40) {
            let mut line = rng.pick(&self.lines).clone();
            if rng.one_in(2) {
                (0..1 + rng.skewed(3)).for_each(|_| self.damage(&mut line, rng));
            }
            out.extend(line);
            out.extend_from_slice(end);
        }
        out
    }

    fn header(&self, rng: &mut Rng) -> Vec<u8> {
        let seed = rng.pick(&self.files);
        let mut line = seed.split_inclusive(|b| *b == b'\n').next().unwrap_or_default().to_vec();
        line.truncate(MOST_BYTES);
        line
    }

    fn some_tokens(&self, rng: &mut Rng) -> Vec<u8> {
        let mut out = if rng.one_in(3) { self.start_of_seed(rng) } else { Vec::new() };
        (0..rng.skewed(80)).for_each(|_| out.extend(self.token(rng)));
        out
    }

    fn token(&self, rng: &mut Rng) -> Vec<u8> {
        match rng.below(10) {
            0..=4 => rng.pick(TOKENS).as_bytes().to_vec(),
            5 | 6 => rng.pick(NUMBERS).as_bytes().to_vec(),
            7 => {
                let n = rng.skewed(400);
                vec![*rng.pick(b"0123456789af .-:[]{}()\"'\\/,|=\xff\x80"); n]
            }
            8 => {
                let seed = if self.lines.is_empty() { rng.pick(&self.files) } else { rng.pick(&self.lines) };
                let from = rng.below(seed.len() + 1);
                let len = rng.skewed(60);
                seed[from..(from + len).min(seed.len())].to_vec()
            }
            _ => {
                let n = 1 + rng.below(4);
                rng.bytes(n)
            }
        }
    }

    /// One change.
    pub fn damage(&self, bytes: &mut Vec<u8>, rng: &mut Rng) {
        let len = bytes.len();
        let at = rng.below(len + 1);
        let cut = |rng: &mut Rng, most: usize| at..(at + rng.skewed(most.min(len - at))).min(len);
        match rng.below(20) {
            0 if at < len => bytes[at] ^= 1 << rng.below(8),
            1 if at < len => bytes[at] = *rng.pick(&[0, 1, 0x7f, 0x80, 0xff, b'\n', b'\r', b' ', 0x1b, b'"', b'{', b'9', b'-']),
            2..=4 => {
                let token = self.token(rng);
                bytes.splice(at..at, token);
            }
            5 | 6 => {
                let range = cut(rng, 200);
                bytes.drain(range);
            }
            7 | 8 => {
                let range = cut(rng, 500);
                let block = bytes[range].to_vec();
                let times = 1 + rng.skewed(20);
                bytes.splice(at..at, block.repeat(times));
            }
            9 => {
                let other = if self.lines.is_empty() { rng.pick(&self.files) } else { rng.pick(&self.lines) };
                let from = rng.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..(from + MOST_BYTES).min(other.len())]);
            }
            10 if rng.one_in(3) => bytes.truncate(at),
            11 if rng.one_in(3) => drop(bytes.drain(..at)),
            12..=14 => {
                // A number becomes another.
                if let Some(first) = bytes[at..].iter().position(u8::is_ascii_digit) {
                    let from = at + first;
                    let to = from + bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
                    bytes.splice(from..to, rng.pick(NUMBERS).bytes());
                }
            }
            15 => {
                let deep = rng.skewed(300);
                let (open, close) = *rng.pick(&[("[", "]"), ("{\"a\":", "}"), ("(", ")"), ("[[", ""), ("{'a': ", "}")]);
                let nest = format!("{}1{}", open.repeat(deep), close.repeat(deep));
                bytes.splice(at..at, nest.into_bytes());
            }
            16 | 17 => {
                let mut lines: Vec<Vec<u8>> = bytes.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect();
                let (a, b) = (rng.below(lines.len()), rng.below(lines.len()));
                match rng.below(4) {
                    0 => lines.swap(a, b),
                    1 => drop(lines.remove(a)),
                    2 => lines.insert(b, lines[a].clone()),
                    _ if !self.lines.is_empty() => lines.insert(a, rng.pick(&self.lines).clone()),
                    _ => {}
                }
                *bytes = lines.join(&b'\n');
            }
            18 => {
                let range = cut(rng, 60);
                let (old, new) = (*rng.pick(b" \n:,\""), *rng.pick(b"\t\0\xff \r\n\x1b"));
                bytes[range].iter_mut().filter(|b| **b == old).for_each(|b| *b = new);
            }
            _ => {
                // Numbers of fixed width, as binary formats have them.
                let number = *rng.pick(&[0_u64, 1, 0xff, 0x7fff_ffff, 0xffff_ffff, 1 << 40, u64::MAX, i64::MAX as u64]);
                let width = *rng.pick(&[1, 2, 4, 8]);
                let end = (at + width).min(len);
                bytes.splice(at..end, number.to_le_bytes()[..width].to_vec());
            }
        }
    }

    /// JSON as a tree: one value of it changes, or its parts come many times. `grow` is the size it grows to.
    fn tree(&self, rng: &mut Rng, near: usize, grow: usize) -> Vec<u8> {
        let seed = if rng.one_in(3) { rng.pick(&self.files) } else { &self.files[near % self.files.len()] };
        if seed.len() <= MOST_BYTES
            && let Ok(mut value) = serde_json::from_slice::<Value>(seed)
        {
            (0..1 + rng.skewed(4)).for_each(|_| tree::change(&mut value, rng));
            if grow > 0 {
                tree::grow(&mut value, rng, grow);
            }
            return serde_json::to_vec(&value).unwrap_or_default();
        }
        // Lines of JSON.
        let mut out = if self.parser.has_header { self.header(rng) } else { Vec::new() };
        let from = if self.parser.has_header || self.lines.is_empty() { seed.as_slice() } else { b"" };
        let all: Vec<&[u8]> = from.split(|b| *b == b'\n').collect();
        let count = if grow > 0 { 1 + rng.below(3) } else { 1 + rng.skewed(12) };
        for _ in 0..count {
            let line = if all.len() > 1 {
                *rng.pick(&all)
            } else if self.lines.is_empty() {
                seed
            } else {
                rng.pick(&self.lines)
            };
            match serde_json::from_slice::<Value>(line) {
                Ok(mut value) if line.len() < MOST_BYTES => {
                    (0..1 + rng.skewed(3)).for_each(|_| tree::change(&mut value, rng));
                    if grow > 0 {
                        tree::grow(&mut value, rng, grow / count);
                    }
                    out.extend(serde_json::to_vec(&value).unwrap_or_default());
                }
                _ => out.extend_from_slice(&line[..line.len().min(MOST_BYTES)]),
            }
            out.push(b'\n');
        }
        out
    }

    /// An input of about this size in which something comes again and again. Of two sizes, it is the same shape twice.
    pub fn grown(&self, rng: &mut Rng, size: usize) -> Input {
        let way = rng.below(8);
        if way == 0 && self.parser.parts > 3 {
            // More and more files.
            let near = rng.below(self.files.len());
            let mut out = Input::new();
            let mut bytes = 0;
            while bytes < size && out.len() < 400 {
                let mut file = if self.parser.dumps { tree::dump_file(rng, 8, 0) } else { self.window(rng, near + out.len()) };
                if rng.one_in(2) {
                    self.damage(&mut file, rng);
                }
                bytes += file.len().max(1);
                out.push(file);
            }
            return out;
        }
        if self.parser.dumps && way < 6 {
            return vec![tree::dump_file(rng, 4, size)];
        }
        if way < 3 {
            let near = rng.below(self.files.len());
            return vec![self.tree(rng, near, size)];
        }
        let mut out = match rng.below(4) {
            0 => self.start_of_seed(rng),
            1 if self.parser.has_header => self.header(rng),
            2 => self.some_tokens(rng),
            _ => Vec::new(),
        };
        if self.parser.has_header && out.is_empty() {
            out = self.header(rng);
        }
        let mut block = match rng.below(4) {
            0 => self.token(rng),
            1 if !self.lines.is_empty() => [rng.pick(&self.lines).as_slice(), b"\n"].concat(),
            2 => {
                let mut some = self.some_lines_of(rng, 4);
                some.push(b'\n');
                some
            }
            _ => [self.token(rng), self.token(rng)].concat(),
        };
        if rng.one_in(3) {
            self.damage(&mut block, rng);
        }
        block.truncate(4096);
        if block.is_empty() {
            block.push(b'a');
        }
        let end = if rng.one_in(2) { self.token(rng) } else { Vec::new() };
        let counts = rng.one_in(2);
        let digits = block.iter().position(u8::is_ascii_digit);
        let after = digits.map_or(0, |from| from + block[from..].iter().take_while(|b| b.is_ascii_digit()).count());
        let mut no = 0_usize;
        while out.len() < size {
            match digits.filter(|_| counts) {
                Some(from) => {
                    out.extend_from_slice(&block[..from]);
                    out.extend(no.to_string().into_bytes());
                    out.extend_from_slice(&block[after..]);
                }
                None => out.extend_from_slice(&block),
            }
            no += 1;
        }
        out.extend(end);
        vec![out]
    }

    fn some_lines_of(&self, rng: &mut Rng, most: usize) -> Vec<u8> {
        if self.lines.is_empty() {
            return self.token(rng);
        }
        let lines: Vec<&[u8]> = (0..1 + rng.below(most)).map(|_| rng.pick(&self.lines).as_slice()).collect();
        lines.join(&b'\n')
    }
}

/// A block ten thousand times.
fn repeat_much(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let at = rng.below(bytes.len() + 1);
    let len = 1 + rng.skewed(100);
    let mut block = bytes[at..(at + len).min(bytes.len())].to_vec();
    if block.is_empty() {
        block = rng.pick(TOKENS).as_bytes().to_vec();
    }
    let times = *rng.pick(&[100, 1000, 10_000]);
    bytes.splice(at..at, block.repeat(times));
}

fn walk(at: &Path, out: &mut Vec<std::path::PathBuf>) {
    if at.is_file() {
        out.push(at.to_owned());
        return;
    }
    for entry in std::fs::read_dir(at).expect("a directory of seeds").flatten() {
        walk(&entry.path(), out);
    }
}

fn unpacked(bytes: Vec<u8>) -> Vec<u8> {
    if !bytes.starts_with(&[0x1f, 0x8b]) {
        return bytes;
    }
    let mut out = Vec::new();
    flate2::read::MultiGzDecoder::new(bytes.as_slice()).read_to_end(&mut out).expect("gzip");
    out
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(bytes).expect("memory");
    out.finish().expect("memory")
}

/// The string literals of a source file: what its tests read.
fn literals(source: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut rest = source;
    while let Some(at) = rest.find('"') {
        let raw = rest[..at].ends_with("r#");
        let body = &rest[at + 1..];
        if raw {
            let end = body.find("\"#").unwrap_or(body.len());
            out.push(body[..end].to_owned());
            rest = body.get(end + 2..).unwrap_or("");
            continue;
        }
        let mut text = String::new();
        let mut end = body.len();
        let mut chars = body.char_indices().peekable();
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    end = i + 1;
                    break;
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => text.push('\n'),
                    Some('r') => text.push('\r'),
                    Some('t') => text.push('\t'),
                    Some('\n') => while chars.next_if(|(_, c)| c.is_whitespace()).is_some() {},
                    Some('x') => {
                        let hex: String = chars.by_ref().take(2).map(|(_, c)| c).collect();
                        text.extend(u8::from_str_radix(&hex, 16).map(char::from));
                    }
                    Some(c) => text.push(c),
                    None => {}
                },
                c => text.push(c),
            }
        }
        out.push(text);
        rest = &body[end..];
    }
    out.retain(|text| text.len() >= 12);
    out
}
