//! A day of a node in minutes: does the memory of the program stay flat, and does it keep up?
//!
//! `cargo run --release --example endure -- [--for 20m] [--bin PATH] [--rate 100000] [--dir DIR]`
//!
//! A log grows by 100,000 lines a second, 100 of them a WARN like no other, and is rotated. Each minute a job of four ranks ends, well or
//! badly, and another begins; in a directory 300 files come and go every 3 s. The screen (200x60), `watch --json` and `record -o` look on.
//! Prints a table; the exit code is 1 if one of them ends, or needs over 10 % more memory in the last part of the time than after the
//! first quarter (of 20 minutes: after the 5th).

#[path = "../it/support/screen.rs"]
#[allow(dead_code)]
mod screen;

use screen::Screen;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const BLOCKS_PER_S: u32 = 100;
const ROTATED_BYTES: u64 = 400 << 20;
const JOB: Duration = Duration::from_secs(60);
const FILES: Duration = Duration::from_secs(3);
const FILES_AT_ONCE: u64 = 300;
/// A rank of the job is this program again; these say so, and how it ends.
const RANK_ENDS: &str = "ENDURE_RANK_ENDS";

fn main() -> std::process::ExitCode {
    if let Ok(ends) = std::env::var(RANK_ENDS) {
        return rank(&ends);
    }
    let (mut program, mut lasts, mut rate, mut dir) = (beside(), Duration::from_secs(1200), 100_000, None);
    let mut args = std::env::args().skip(1);
    while let Some(flag) = args.next() {
        let value = args.next().unwrap_or_else(|| panic!("a value for {flag}"));
        match flag.as_str() {
            "--for" => lasts = duration(&value).unwrap_or_else(|| panic!("--for {value}: a time such as 20m or 90s")),
            "--bin" => program = PathBuf::from(value),
            "--rate" => rate = value.parse().unwrap_or_else(|err| panic!("--rate {value}: {err}")),
            "--dir" => dir = Some(PathBuf::from(value)),
            other => panic!("unknown option {other}; known are --for, --bin, --rate and --dir"),
        }
    }
    let dir = dir.unwrap_or_else(|| std::env::temp_dir().join(format!("endure-{}", std::process::id())));
    for part in ["many", "home"] {
        fs::create_dir_all(dir.join(part)).unwrap_or_else(|err| panic!("{}: {err}", dir.display()));
    }
    let calm = run(&program.canonicalize().expect("the program"), &dir, lasts, rate);
    fs::remove_dir_all(&dir).unwrap_or_else(|err| panic!("{}: {err}", dir.display()));
    u8::from(!calm).into()
}

fn beside() -> PathBuf {
    let own = std::env::current_exe().expect("this program has a path");
    own.ancestors().nth(2).expect("it lies in target/PROFILE/examples").join("nccl-top")
}

fn duration(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit())?);
    let number: u64 = number.parse().ok()?;
    match unit {
        "s" => Some(Duration::from_secs(number)),
        "m" => Some(Duration::from_secs(60 * number)),
        _ => None,
    }
}

/// Whether all held.
fn run(program: &Path, dir: &Path, lasts: Duration, rate: u32) -> bool {
    let flood = Flood::new(dir.join("flood.log"), rate);
    let [log, many, tape] = ["flood.log", "many", "tape.jsonl.gz"].map(|name| dir.join(name).display().to_string());
    let headless = |args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env("HOME", dir.join("home")).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().expect("the program starts")
    };
    let screen = Screen::start_program(program, &[&log, &many], &dir.join("home"), &[], 60, 200);
    let mut children = [headless(&["watch", "--json", &log, &many]), headless(&["record", "-o", &tape, &log, &many])];
    let mut looks = vec![
        Look::new("screen", screen.child.process_id().expect("a pid")),
        Look::new("watch --json", children[0].id()),
        Look::new("record -o", children[1].id()),
    ];
    let bytes = play(dir, lasts, flood, &mut looks);
    for child in &mut children {
        let _ = child.kill();
        let _ = child.wait();
    }
    report(&looks, lasts, bytes)
}

/// Lets time pass; returns how many bytes were written.
fn play(dir: &Path, lasts: Duration, mut flood: Flood, looks: &mut [Look]) -> u64 {
    let began = Instant::now();
    let (mut block, mut job, mut files, mut second) = (0, Job::default(), Files::default(), 0);
    while began.elapsed() < lasts {
        flood.write(block);
        block += 1;
        job.go_on(dir);
        files.go_on(&dir.join("many"));
        if began.elapsed().as_secs() > second {
            second = began.elapsed().as_secs();
            looks.iter_mut().for_each(|look| look.now());
        }
        let due = Duration::from_secs(1) / BLOCKS_PER_S * block;
        std::thread::sleep(due.saturating_sub(began.elapsed()));
    }
    flood.written
}

/// What one second brings, a hundredth at a time.
struct Flood {
    path: PathBuf,
    file: File,
    lines_per_block: u32,
    here: u64,
    written: u64,
}

impl Flood {
    fn new(path: PathBuf, rate: u32) -> Flood {
        let file = open(&path);
        Flood { path, file, lines_per_block: rate / BLOCKS_PER_S, here: 0, written: 0 }
    }

    fn write(&mut self, block: u32) {
        let mut text = String::with_capacity(100 * self.lines_per_block as usize);
        for n in 0..self.lines_per_block {
            let rank = n % 8;
            text += &match (n.wrapping_mul(7) + block) % 20 {
                0..10 => format!("[rank{rank}]: iteration {block} | loss 2.{:04} | step time {} ms | lr 3e-4\n", n * 3, 90 + n % 30),
                10..14 => format!(
                    "node1:{}:{} [{rank}] NCCL INFO Channel {:02}/0 : {rank}[{rank}] -> {n}[{rank}] via P2P/CUMEM\n",
                    100 + rank,
                    200 + rank,
                    n % 32
                ),
                14..19 => format!("INFO dataloader worker {} loaded shard {n} \x1b[32mok\x1b[0m of {block}\n", n % 13),
                _ => format!("noise {}\n", "x".repeat(n as usize % 300)),
            };
        }
        text += &format!("node1:100:200 [0] NCCL WARN odd thing {} seen\n", letters(block));
        self.file.write_all(text.as_bytes()).expect("room for the log");
        self.here += text.len() as u64;
        self.written += text.len() as u64;
        if self.here > ROTATED_BYTES {
            fs::rename(&self.path, self.path.with_extension("log.1")).expect("a rotation");
            (self.file, self.here) = (open(&self.path), 0);
        }
    }
}

/// Nothing that folds as a number would.
fn letters(mut n: u32) -> String {
    let mut out = String::new();
    for _ in 0..6 {
        out.push(char::from(b'g' + (n % 20) as u8));
        n /= 20;
    }
    out
}

fn open(path: &Path) -> File {
    OpenOptions::new().create(true).append(true).open(path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

/// One job after another, each with a log of its own.
#[derive(Default)]
struct Job {
    began: Option<Instant>,
    no: u32,
    ranks: Vec<Child>,
}

impl Job {
    fn go_on(&mut self, dir: &Path) {
        if self.began.is_some_and(|began| began.elapsed() < JOB) {
            // A launcher would not leave its ranks as zombies.
            self.ranks.retain_mut(|rank| !matches!(rank.try_wait(), Ok(Some(_))));
            return;
        }
        for rank in &mut self.ranks {
            let _ = rank.kill();
            let _ = rank.wait();
        }
        self.no += 1;
        self.began = Some(Instant::now());
        let own = std::env::current_exe().expect("this program has a path");
        let ends = ["well", "badly", "never"][self.no as usize % 3];
        let start = |rank: u32| {
            let log = open(&dir.join(format!("home/run-{}.log", self.no)));
            let mut command = Command::new(&own);
            command.arg0("python3").arg("train.py").current_dir(dir.join("home")).stdin(Stdio::null());
            command.stdout(log.try_clone().expect("a descriptor")).stderr(log);
            command.env(RANK_ENDS, ends).env("RANK", rank.to_string()).env("LOCAL_RANK", rank.to_string()).env("WORLD_SIZE", "4");
            command.env("SLURM_JOB_ID", self.no.to_string()).spawn().expect("a rank starts")
        };
        self.ranks = (0..4).map(start).collect();
    }
}

/// A rank of a job: steps, and an end.
#[allow(clippy::print_stdout)]
fn rank(ends: &str) -> std::process::ExitCode {
    let rank: u32 = std::env::var("RANK").ok().and_then(|r| r.parse().ok()).unwrap_or(0);
    let pid = std::process::id();
    println!(
        "node1:{pid}:{pid} [{rank}] NCCL INFO ncclCommInitRank comm 0x55d{pid:x} rank {rank} nranks 4 cudaDev {rank} nvmlDev {rank} busId {rank}000 commId 0x9{pid:x} - Init COMPLETE"
    );
    let last = if ends == "never" { u32::MAX } else { 450 };
    for step in 0..last {
        println!("step {step} | loss {:.4} | step time 100 ms", 8.0 / f64::from(step + 1));
        std::thread::sleep(Duration::from_millis(100));
    }
    if ends == "badly" && rank == 1 {
        println!(
            "Traceback (most recent call last):\n  File \"train.py\", line 7, in <module>\nRuntimeError: the loss of rank 1 went away"
        );
        return 1.into();
    }
    0.into()
}

/// Logs that come and go.
#[derive(Default)]
struct Files {
    began: Option<Instant>,
    next: u64,
}

impl Files {
    fn go_on(&mut self, dir: &Path) {
        if self.began.is_some_and(|began| began.elapsed() < FILES) {
            return;
        }
        self.began = Some(Instant::now());
        let path = |n: u64| dir.join(format!("run{n}.log"));
        for n in self.next.saturating_sub(FILES_AT_ONCE)..self.next {
            let _ = fs::remove_file(path(n));
        }
        for n in self.next..self.next + FILES_AT_ONCE {
            let text =
                format!("n:1:2 [0] NCCL INFO comm 0x{n:x} rank 0 nranks 8 cudaDev 0 busId 1000 - Init COMPLETE\nstep {n} | loss 2.0\n");
            fs::write(path(n), text.repeat(3)).expect("room for files");
        }
        self.next += FILES_AT_ONCE;
    }
}

/// A program that is looked at.
struct Look {
    name: &'static str,
    pid: u32,
    /// Resident, one a second, KiB; none when it has ended.
    rss_kib: Vec<Option<u64>>,
    cpu_ticks: u64,
    descriptors: usize,
}

impl Look {
    fn new(name: &'static str, pid: u32) -> Look {
        Look { name, pid, rss_kib: Vec::new(), cpu_ticks: 0, descriptors: 0 }
    }

    fn now(&mut self) {
        let read = |file: &str| fs::read_to_string(format!("/proc/{}/{file}", self.pid)).unwrap_or_default();
        let rss = read("status").lines().find_map(|l| l.strip_prefix("VmRSS:")?.split_whitespace().next()?.parse().ok());
        self.rss_kib.push(rss);
        let stat = read("stat");
        let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
        if let (Some(Ok(user)), Some(Ok(system))) = (fields.get(11).map(|n| n.parse::<u64>()), fields.get(12).map(|n| n.parse::<u64>())) {
            self.cpu_ticks = user + system;
        }
        self.descriptors = fs::read_dir(format!("/proc/{}/fd", self.pid)).map_or(0, |fds| fds.count());
    }

    /// The median of a part of the time, given in twentieths.
    fn median_kib(&self, from: usize, to: usize) -> Option<u64> {
        let part = &self.rss_kib[self.rss_kib.len() * from / 20..self.rss_kib.len() * to / 20];
        let mut known: Vec<u64> = part.iter().copied().collect::<Option<_>>()?;
        known.sort_unstable();
        known.get(known.len() / 2).copied()
    }
}

#[allow(clippy::print_stdout)]
fn report(looks: &[Look], lasts: Duration, bytes: u64) -> bool {
    let mib = |kib: u64| kib as f64 / 1024.0;
    println!("{} s, {:.1} GB of log\n", lasts.as_secs(), bytes as f64 / 1e9);
    println!(
        "| | memory after a quarter, MiB | at the end | most | growth | CPU, % of a core | open files |\n| --- | --- | --- | --- | --- | --- | --- |"
    );
    let mut calm = true;
    for look in looks {
        let (Some(early), Some(late)) = (look.median_kib(4, 5), look.median_kib(19, 20)) else {
            println!("| {} | it ended | | | | | |", look.name);
            calm = false;
            continue;
        };
        let growth = late as f64 / early as f64 - 1.0;
        let most = look.rss_kib.iter().flatten().max().copied().unwrap_or(0);
        // The kernel counts in hundredths of a second, on all machines that this is built for.
        let cpu = look.cpu_ticks as f64 / lasts.as_secs_f64();
        println!(
            "| {} | {:.1} | {:.1} | {:.1} | {:+.1} % | {cpu:.1} | {} |",
            look.name,
            mib(early),
            mib(late),
            mib(most),
            growth * 100.0,
            look.descriptors
        );
        calm &= growth <= 0.1;
    }
    calm
}
