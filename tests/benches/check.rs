//! `nccl-top check` and `rg` on the same large log, each on one core: `cargo bench --bench check [-- BYTES]`. The bar is twice the
//! time of rg.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

#[path = "../tools/big_log.rs"]
#[allow(dead_code)]
mod big_log;

/// What somebody who looks for trouble, and for progress, would search for.
const WORDS: &[&str] = &[
    "NCCL WARN",
    "Watchdog caught",
    "NCCL version",
    "Using network",
    "Init COMPLETE",
    " via ",
    "Traceback",
    "CUDA error",
    "out of memory",
    "loss",
    "iteration",
    "it/s",
];
const RUNS: usize = 5;

#[allow(clippy::print_stdout, clippy::print_stderr)]
fn main() -> ExitCode {
    let bytes = std::env::args().skip(1).find_map(|a| a.parse().ok()).unwrap_or(1_000_000_000);
    let file = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("big.log");
    if std::fs::metadata(&file).map_or(0, |m| m.len()) < bytes
        && let Err(err) = big_log::write(&file, bytes)
    {
        eprintln!("{}: {err}", file.display());
        return ExitCode::FAILURE;
    }
    let size = std::fs::metadata(&file).map_or(0, |m| m.len());
    println!("{}: {:.2} GB", file.display(), size as f64 / 1e9);
    let (mut check, mut rg) = (None, None);
    // Turn by turn: whatever else the machine does meets both.
    for _ in 0..RUNS {
        check = least(check, run(env!("CARGO_BIN_EXE_nccl-top"), &["check".into()], &file));
        let words = WORDS.iter().flat_map(|word| ["-e".to_owned(), (*word).to_owned()]);
        let args: Vec<String> = ["-j1".to_owned(), "-c".to_owned()].into_iter().chain(words).collect();
        rg = least(rg, run("rg", &args, &file));
    }
    let Some(check) = check else {
        eprintln!("nccl-top did not run");
        return ExitCode::FAILURE;
    };
    println!("nccl-top check  {:>7.3} s", check.as_secs_f64());
    match rg {
        Some(rg) => {
            println!("rg -j1          {:>7.3} s\nratio           {:>7.2}", rg.as_secs_f64(), check.as_secs_f64() / rg.as_secs_f64())
        }
        None => println!("rg is not installed"),
    }
    ExitCode::SUCCESS
}

fn least(a: Option<Duration>, b: Option<Duration>) -> Option<Duration> {
    a.into_iter().chain(b).min()
}

/// How long a program took with a file, on one core where that can be told; `None` if it could not be started.
fn run(program: &str, args: &[String], file: &Path) -> Option<Duration> {
    let time = |mut command: Command| {
        let began = Instant::now();
        let status = command.args(args).arg(file).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status().ok()?;
        // 127: taskset did not find it.
        (status.code() != Some(127)).then(|| began.elapsed())
    };
    let mut pinned = Command::new("taskset");
    pinned.args(["-c", "0", program]);
    let has_taskset = Command::new("taskset").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok();
    time(if has_taskset { pinned } else { Command::new(program) })
}
