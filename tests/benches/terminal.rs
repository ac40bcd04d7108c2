//! What the screen costs, of one or several programs at once: `cargo bench --bench terminal [-- PROGRAM...]`. Bytes a second to a
//! terminal of 200x60, CPU and memory, while a recorded job writes ten lines a second, while a log gets one, and while nothing happens.

#[path = "../it/support/mod.rs"]
mod support;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use support::screen::Screen;

const SECONDS: u64 = 10;

struct Cost {
    bytes: usize,
    cpu_ticks: u64,
    peak_kib: u64,
}

impl Cost {
    fn of(screen: &Screen) -> Cost {
        let read =
            |file: &str| std::fs::read_to_string(format!("/proc/{}/{file}", screen.child.process_id().unwrap_or(0))).unwrap_or_default();
        let stat = read("stat");
        let ticks = stat.rsplit(") ").next().unwrap_or("").split(' ').skip(11).take(2).filter_map(|n| n.parse::<u64>().ok());
        let status = read("status");
        let peak = status.lines().find_map(|l| l.strip_prefix("VmHWM:")?.split_whitespace().next()?.parse().ok());
        Cost { bytes: screen.raw().len(), cpu_ticks: ticks.sum(), peak_kib: peak.unwrap_or(0) }
    }
}

/// A tree without GPU, port and process.
fn empty_tree(dir: &Path) -> String {
    for path in ["proc/sys/kernel", "sys/class/net"] {
        std::fs::create_dir_all(dir.join("root").join(path)).expect("a directory");
    }
    dir.join("root").display().to_string()
}

#[allow(clippy::print_stdout)]
fn main() {
    let given: Vec<PathBuf> = std::env::args().skip(1).filter(|a| !a.starts_with("--")).map(PathBuf::from).collect();
    let programs = if given.is_empty() { vec![PathBuf::from(env!("CARGO_BIN_EXE_nccl-top"))] } else { given };
    let dir = tempfile::tempdir().expect("a directory");
    let root = empty_tree(dir.path());
    let log = dir.path().join("train.log");
    let write = |step: u64| {
        let mut file = std::fs::OpenOptions::new().create(true).append(true).open(&log).expect("the log");
        writeln!(file, "step {step} | loss {:.4} | step_time 1000.{} ms", 3.0 - step as f64 * 0.001, step % 7).expect("the log");
    };
    write(0);
    let tape = format!("{}/tests/tapes/none.jsonl.gz", env!("CARGO_MANIFEST_DIR"));
    let works: [(&str, &[&str]); 3] = [
        ("a recorded job", &["replay", &tape, "--at", "+30s", "--speed", "1"]),
        ("one line a second", &["--sysroot", &root, "train.log"]),
        ("nothing", &["--sysroot", &root]),
    ];
    let start = |program: &PathBuf| works.map(|(_, args)| Screen::start_program(program, args, dir.path(), &[], 60, 200));
    let screens: Vec<[Screen; 3]> = programs.iter().map(start).collect();
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for step in (1..).take_while(|_| !over.load(Ordering::SeqCst)) {
                write(step);
                std::thread::sleep(Duration::from_secs(1));
            }
        });
        std::thread::sleep(Duration::from_secs(5));
        let before: Vec<_> = screens.iter().map(|s| s.each_ref().map(Cost::of)).collect();
        std::thread::sleep(Duration::from_secs(SECONDS));
        for (i, program) in programs.iter().enumerate() {
            println!("{}", program.display());
            for (work, (name, _)) in works.iter().enumerate() {
                let (from, to) = (&before[i][work], Cost::of(&screens[i][work]));
                let bytes = (to.bytes - from.bytes) as u64 / SECONDS;
                let cpu = (to.cpu_ticks - from.cpu_ticks) as f64 / SECONDS as f64;
                println!("  {name:<18} {bytes:>6} bytes/s  {cpu:>5.1} % of a core  {:>6} KiB at most", to.peak_kib);
            }
        }
        over.store(true, Ordering::SeqCst);
    });
}
