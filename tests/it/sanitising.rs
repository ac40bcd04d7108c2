//! Text of logs is made harmless and short.

use nccl_top::base::clean::{clean, clip, escape};
use proptest::prelude::*;
use std::borrow::Cow;
use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;
use std::process::{Command, Stdio};

/// What is not drawn, or turns round what is drawn beside it.
fn hides(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}')
        || c.is_control()
}

#[test]
fn plain_text_is_borrowed() {
    for line in ["", "step 1 | loss 2.0", "[rank0]: hello", " 17%|█▋        | 5/30 [00:02<00:07,  3.28it/s]", "größer"] {
        assert!(matches!(clean(line), Cow::Borrowed(_)), "{line}");
    }
}

#[test]
fn escape_sequences_disappear() {
    assert_eq!(clean("\x1b[31mstep: 200  \x1b[38;2;180;60;0mloss:  6.1\x1b[39m"), "step: 200  loss:  6.1");
    assert_eq!(clean("\x1b]0;title\x07text"), "text");
    assert_eq!(clean("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\"), "link");
    assert_eq!(clean("\x1bP1$r0m\x1b\\dcs"), "dcs");
    assert_eq!(clean("\x1b(Btext\x1b7\x1b8"), "text");
    assert_eq!(clean("\u{9b}31mred"), "red");
    assert_eq!(clean("\\x1b[31mred\\x1b[0m C:\\path"), "red C:\\path");
}

#[test]
fn a_colour_that_lost_its_escape_goes_from_the_start_of_a_line_only() {
    assert_eq!(clean("[36m(RayWorker pid=4009)"), "(RayWorker pid=4009)");
    assert_eq!(clean("[0m[31mx"), "x");
    assert_eq!(clean("[3] x"), "[3] x");
    assert_eq!(clean("a [0m"), "a [0m");
}

#[test]
fn an_unfinished_sequence_hides_nothing() {
    assert_eq!(clean("\x1b]0;CUDA error: x"), "0;CUDA error: x");
    assert_eq!(clean("\x1b["), "");
    assert_eq!(clean("\x1b"), "");
}

#[test]
fn what_hides_or_reorders_is_dropped() {
    assert_eq!(clean("a\0b\u{202e}c\u{200b}d\u{feff}e\u{2066}f\tg\u{7f}h\u{85}i"), "abcdef ghi");
}

#[test]
fn clip_counts_characters() {
    assert_eq!(clip("grün", 4), "grün");
    assert_eq!(clip("grüner", 4), "grü…");
    assert_eq!(clip("x", 0), "…");
    assert_eq!(clip("", 0), "");
}

/// C1 controls, marks that reorder or hide, and separators that some readers take for the end of a line.
const HOSTILE: &str = "a\u{9b}31mb\u{85}c\u{90}d\u{9d}0;t\u{9c}e\u{202e}f\u{2066}g\u{200b}h\u{2028}i\u{2029}j\u{feff}k\u{7f}l\u{61c}m";

#[test]
fn what_a_terminal_would_obey_is_escaped_and_stays_the_same_in_json() {
    let escaped = escape(HOSTILE);
    assert!(!escaped.chars().any(hides), "{escaped}");
    assert!(escaped.starts_with("a\\u009b31mb\\u0085c") && escaped.contains("\\u202ef\\u2066g"), "{escaped}");
    let json = serde_json::to_string(&format!("{HOSTILE}\u{e0001}\u{1f3ff}")).unwrap();
    let safe = escape(&json);
    assert!(!safe.chars().any(hides) && safe.contains("\\udb40\\udc01\\ud83c\\udfff"), "{safe}");
    assert_eq!(serde_json::from_str::<String>(&safe).unwrap(), serde_json::from_str::<String>(&json).unwrap());
    // Our own colours stay, and nothing else that begins as they do.
    assert!(matches!(escape("\x1b[1;31mERROR\x1b[0m größer █\n"), Cow::Borrowed(_)));
    assert_eq!(escape("\x1b]0;t\x07 \x1b[2J \x1b"), "\\u001b]0;t\\u0007 \\u001b[2J \\u001b");
}

/// What a run of the program printed on standard output and standard error: nothing a terminal obeys.
fn printed(dir: &Path, args: &[OsString]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    let done = command.args(args).current_dir(dir).env("HOME", dir).env_remove("XDG_CONFIG_HOME").stdin(Stdio::null()).output().unwrap();
    let mut all = String::new();
    for bytes in [done.stdout, done.stderr] {
        let text = String::from_utf8(bytes).unwrap_or_else(|err| panic!("{args:?}: {err}"));
        let bad = text.chars().find(|c| *c != '\n' && hides(*c));
        assert!(bad.is_none(), "{args:?}: {bad:?} in {text:?}");
        all.push_str(&text);
    }
    all
}

#[test]
fn no_way_out_leads_raw_text_to_a_terminal() {
    let dir = tempfile::tempdir().unwrap();
    let root = dir.path().join("root");
    fs::create_dir_all(root.join("proc/sys/kernel")).unwrap();
    fs::create_dir_all(root.join("proc/net")).unwrap();
    fs::create_dir_all(root.join(format!("sys/class/net/{HOSTILE}"))).unwrap();
    fs::create_dir_all(root.join(format!("sys/class/infiniband/{HOSTILE}/ports/1"))).unwrap();
    fs::write(root.join("proc/sys/kernel/hostname"), format!("{HOSTILE}\n")).unwrap();
    fs::write(root.join("proc/stat"), "cpu 1 2 3\nbtime 1700000000\n").unwrap();
    fs::write(root.join(format!("sys/class/net/{HOSTILE}/operstate")), format!("up{HOSTILE}\n")).unwrap();
    // The name of a file may also hold bytes that are no text at all.
    let name = |end: &[u8]| OsString::from_vec([HOSTILE.as_bytes(), b"\x9b31m\x1b]0;x\x07", end].concat());
    let log = OsString::from(format!("{HOSTILE}\x1b]0;x\x07.log"));
    let mut text = format!("step 1 | loss 2.5\nn1:1:1 [0] net.cc:1 NCCL WARN {HOSTILE} \u{9b}2J\nRuntimeError: {HOSTILE}\n").into_bytes();
    text.extend(b"n1:1:1 [0] net.cc:2 NCCL WARN raw \x9b31m \x90q\n");
    fs::write(dir.path().join(&log), text).unwrap();
    let args = |args: &[&str]| args.iter().map(OsString::from).collect::<Vec<_>>();
    let run = |all: &[&str], last: &[OsString]| printed(dir.path(), &[args(all), last.to_vec()].concat());
    let sysroot = root.to_str().unwrap();

    for all in [&["check"][..], &["check", "--json"], &["rules", "--test"]] {
        assert!(run(all, std::slice::from_ref(&log)).contains("NCCL WARN") || all.contains(&"--json"), "{all:?}");
        run(all, &[name(b".nowhere")]);
    }
    for all in [
        &["snapshot", "--wait", "1500ms"][..],
        &["snapshot", "--wait", "1500ms", "--json"],
        &["watch", "--for", "1500ms"],
        &["watch", "--for", "1500ms", "--json"],
        &["record", "--for", "1500ms", "-o", "-"],
    ] {
        let out = run(&[all, &["--sysroot", sysroot]].concat(), std::slice::from_ref(&log));
        assert!(!out.is_empty(), "{all:?}");
    }
    let record = run(&["record", "--for", "1500ms", "-o", "-", "--sysroot", sysroot], std::slice::from_ref(&log));
    assert!(record.contains("\\u009b") && record.contains("\\u202e"), "{record}");
    fs::write(dir.path().join("tape"), record).unwrap();
    for all in [
        &["replay", "tape", "--headless"][..],
        &["replay", "tape", "--headless", "--json"],
        &["check", "tape"],
        &["check", "--json", "tape"],
    ] {
        run(all, &[]);
    }
    // What is wrong with arguments is said with the arguments.
    let option = OsString::from_vec([b"--", HOSTILE.as_bytes(), b"\x1b[2J"].concat());
    for all in [
        &["check"][..],
        &["record", "-o"],
        &["--config"],
        &["--sysroot"],
        &["--theme"],
        &["--interval"],
        &["--log-file"],
        &["replay"],
        &["score"],
    ] {
        run(all, &[name(b"/x")]);
        run(all, &[option.clone(), option.clone()]);
    }
    run(&["rules"], &[name(b"")]);
    run(&["demo"], &[name(b"")]);
}

proptest! {
    #[test]
    fn the_result_is_safe(s in "(?:\\PC|\x1b|\x1b\\[|\u{9b}|\\[3|m|;|\t|\u{202e}|\u{200b}|\r|\0|\x07|\\\\x1b\\[|\u{85}){0,40}") {
        let c = clean(&s);
        prop_assert!(!c.chars().any(hides), "{c:?}");
        prop_assert!(!c.contains('\x1b'));
    }

    #[test]
    fn any_characters_are_safe(s in any::<String>()) {
        let c = clean(&s);
        prop_assert!(!c.chars().any(hides));
    }

    #[test]
    fn clip_keeps_its_promise(s in any::<String>(), n in 0usize..20) {
        prop_assert!(clip(&s, n).chars().count() <= n.max(1));
    }
}
