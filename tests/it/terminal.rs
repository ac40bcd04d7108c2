//! The program in a real pseudo-terminal: what is on its screen, and that the terminal is given back whatever ends it.

use crate::support::screen::Screen;
use std::fs::OpenOptions;
use std::io::Write;
use std::path::Path;

fn append(path: &Path, text: &str) {
    let mut file = OpenOptions::new().create(true).append(true).open(path).unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

/// An empty tree: no GPU, no port, no process, whatever machine the test runs on.
fn empty_tree(dir: &Path) -> String {
    let root = dir.join("root");
    std::fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
    std::fs::create_dir_all(root.join("sys/class/net")).unwrap();
    std::fs::write(root.join("proc/sys/kernel/hostname"), "node-17\n").unwrap();
    root.display().to_string()
}

#[test]
fn a_log_alone_shows_progress_and_a_warn_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("train.log");
    for step in 0..5 {
        append(&log, &format!("step {step} | loss 2.5\n"));
    }
    let root = empty_tree(dir.path());
    let mut screen = Screen::start(&["--sysroot", &root, "train.log"], dir.path(), &[], 40, 120);
    screen.wait_for("nccl-top node-17");
    screen.wait_for("step 4");
    screen.wait_for("loss 2.5");
    screen.keys("9");
    for source in ["nvml", "procs", "tail", "ras", "rdma", "netdev", "kmsg", "events", "host"] {
        screen.wait_for(source);
    }
    screen.keys("1");
    append(&log, "step 5 | loss 2.25\nh:1:1 [0] NCCL WARN x\n");
    screen.wait_for("nccl-warn");
    screen.wait_for("TRAINING");
    screen.keys("q");
    assert_eq!(screen.wait_end(), 0);
    screen.assert_restored();
}

#[test]
fn quit_signals_and_hang_up_give_the_terminal_back() {
    let dir = tempfile::tempdir().unwrap();
    let root = empty_tree(dir.path());
    for end in ["q", "\u{3}", "TERM", "INT", "HUP"] {
        let mut screen = Screen::start(&["--sysroot", &root], dir.path(), &[], 24, 80);
        screen.wait_for("IDLE");
        match end {
            "q" | "\u{3}" => screen.keys(end),
            signal => {
                let pid = screen.child.process_id().expect("a pid").to_string();
                assert!(std::process::Command::new("sh").args(["-c", &format!("kill -{signal} {pid}")]).status().unwrap().success());
            }
        }
        assert_eq!(screen.wait_end(), 0, "{end:?}");
        screen.assert_restored();
    }
}

#[test]
fn a_panic_gives_the_terminal_back_and_says_what_happened() {
    let dir = tempfile::tempdir().unwrap();
    let root = empty_tree(dir.path());
    let mut screen = Screen::start(&["--sysroot", &root], dir.path(), &[("NCCL_TOP_TEST_PANIC", "1")], 24, 80);
    assert_ne!(screen.wait_end(), 0);
    screen.assert_restored();
    assert!(String::from_utf8_lossy(&screen.raw()).contains("asked to panic"));
}

#[test]
fn a_panic_beside_the_screen_does_not_end_it_and_is_not_printed_over_it() {
    let dir = tempfile::tempdir().unwrap();
    let root = empty_tree(dir.path());
    let args = ["--sysroot", &root, "--log-file", "own.log"];
    let mut screen = Screen::start(&args, dir.path(), &[("NCCL_TOP_TEST_PANIC", "beside")], 24, 80);
    screen.wait_for("it failed: a defect of nccl-top");
    screen.keys("q");
    assert_eq!(screen.wait_end(), 0);
    screen.assert_restored();
    assert!(!String::from_utf8_lossy(&screen.raw()).contains("asked to panic"));
    assert!(std::fs::read_to_string(dir.path().join("own.log")).unwrap().contains("asked to panic"));
}

#[test]
fn sizes_from_one_cell_to_huge_are_survived() {
    let dir = tempfile::tempdir().unwrap();
    let root = empty_tree(dir.path());
    let mut screen = Screen::start(&["--sysroot", &root], dir.path(), &[], 24, 80);
    screen.wait_for("IDLE");
    for (rows, cols) in [(1, 1), (2, 300), (100, 3), (9, 39), (80, 300), (1, 1), (24, 80)] {
        screen.resize(rows, cols);
        std::thread::sleep(std::time::Duration::from_millis(30));
    }
    screen.wait_for("IDLE");
    screen.keys("q");
    assert_eq!(screen.wait_end(), 0);
    screen.assert_restored();
}

#[test]
fn log_text_never_reaches_the_terminal_as_control() {
    let dir = tempfile::tempdir().unwrap();
    let log = dir.path().join("train.log");
    append(&log, "h:1:1 [0] NCCL WARN \u{1b}]0;owned\u{7}\u{1b}[2J\u{1b}[31mred\u{1b}]52;c;ZXZpbA==\u{7} after\n");
    let root = empty_tree(dir.path());
    let mut screen = Screen::start(&["--sysroot", &root, "train.log"], dir.path(), &[("NO_COLOR", "1")], 30, 100);
    screen.wait_for("nccl-warn");
    screen.wait_for("after");
    screen.keys("q");
    screen.wait_end();
    let raw = screen.raw();
    let text = String::from_utf8_lossy(&raw);
    for bad in ["\u{1b}]0;", "\u{1b}]52", "owned", "\u{1b}[31m", "\u{1b}[38;"] {
        assert!(!text.contains(bad), "{bad:?} reached the terminal");
    }
}

#[test]
fn without_a_terminal_the_remedy_is_named() {
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_nccl-top")).output().unwrap();
    assert_eq!(out.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&out.stderr).contains("use `nccl-top watch`"));
}
