//! The command line from outside: exit codes, messages, and the JSON contracts.

use crate::support::screen::PATIENCE;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

fn command(dir: &Path, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    command.args(args).current_dir(dir).env("HOME", dir).stdin(Stdio::null());
    command
}

fn nccl_top(dir: &Path, args: &[&str]) -> Output {
    command(dir, args).output().unwrap()
}

/// Runs a command that goes on until it is ended, and ends it as Ctrl-C does once it has printed `enough`. Its exit code and output.
fn until(dir: &Path, args: &[&str], enough: impl Fn(&str) -> bool) -> (Option<i32>, String) {
    let mut child = command(dir, args).stdout(Stdio::piped()).spawn().unwrap();
    let (tx, rx) = mpsc::channel();
    let printed = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || printed.lines().map_while(Result::ok).try_for_each(|line| tx.send(line)));
    let mut text = String::new();
    while !enough(&text) {
        let line = rx.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("{args:?} has printed only:\n{text}"));
        text.push_str(&(line + "\n"));
    }
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    rx.iter().for_each(|line| text.push_str(&(line + "\n")));
    (child.wait().unwrap().code(), text)
}

/// A command that observes for a time and then ends, given more time until its result `is` as it should be.
fn given_time(dir: &Path, args: &[&str], flag: &str, is: impl Fn(&Output) -> bool) -> Output {
    let run = |wait: &str| nccl_top(dir, &[args, &[flag, wait]].concat());
    let mut outs = ["600ms", "2s", "8s", "30s"].iter().map(|wait| run(wait));
    outs.find(is).unwrap_or_else(|| panic!("{args:?}: {:?}", run("600ms")))
}

fn stderr(out: &Output) -> String {
    String::from_utf8_lossy(&out.stderr).into_owned()
}

fn parsed(text: &str) -> Vec<Value> {
    text.lines().map(|l| serde_json::from_str(l).unwrap()).collect()
}

fn lines(out: &Output) -> Vec<Value> {
    parsed(&String::from_utf8_lossy(&out.stdout))
}

/// An empty tree, so that the machine of the test does not matter.
fn tree(dir: &Path) -> String {
    std::fs::create_dir_all(dir.join("root/proc")).unwrap();
    dir.join("root").display().to_string()
}

#[test]
fn bad_usage_bad_config_and_bad_input_end_with_2_and_name_the_place() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bad.toml"), "\ninterval = \"2\"\n").unwrap();
    std::fs::write(dir.path().join("not-a-tape"), "step 1\n").unwrap();
    for (args, says) in [
        (&["--no-such-flag"][..], "--no-such-flag"),
        (&["--config", "bad.toml", "config"], "bad.toml:2: interval: found \"2\""),
        (&["--interval", "never", "config"], "--interval: found \"never\""),
        (&["replay", "gone.jsonl"], "gone.jsonl: no such file"),
        (&["replay", "--headless", "not-a-tape"], "not a recording of nccl-top"),
        (&["--sysroot", "nowhere", "snapshot"], "nowhere: not a directory"),
        (&["repaly", "tape.jsonl"], "did you mean `nccl-top replay`?"),
        (&["rules", "no-such-rule"], "no rule and no signature \"no-such-rule\""),
        (&["snapshot", "--wait", "3"], "expected a duration such as"),
        (&["snapshot", "--without", "gpm"], "--without gpm: only of a recording"),
    ] {
        let out = nccl_top(dir.path(), args);
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        assert!(stderr(&out).contains(says), "{args:?}: {}", stderr(&out));
    }
}

#[test]
fn rules_are_found_by_id_in_any_case_and_by_what_they_say() {
    let dir = tempfile::tempdir().unwrap();
    let told = |what: &str| {
        let out = nccl_top(dir.path(), &["rules", what]);
        assert_eq!(out.status.code(), Some(0), "{what}: {}", stderr(&out));
        String::from_utf8_lossy(&out.stdout).into_owned()
    };
    assert!(told("XID-79").starts_with("xid-79 (signature, critical"));
    assert!(told("Hang-Rank-Absent").starts_with("hang-rank-absent (rule, critical"));
    // The advice of a rule and the text of a signature.
    let said = told("memory window");
    assert!(said.contains("ib-mw-bind") && !said.contains("xid-79"), "{said}");
    assert!(told("py-spy").contains("straggler") || told("py-spy").contains("hang"));
    // A line that somebody pastes is known by its text.
    assert!(
        told("NET/IB : Got completion from peer 10.9.8.7<1> with error 12, opcode 1, len 0, vendor err 129").contains("ib-retry-exceeded")
    );
    let out = nccl_top(dir.path(), &["rules", "straggle-rank"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("did you mean"), "{}", stderr(&out));
}

#[test]
fn watch_tells_a_state_and_a_warn_as_json_and_as_sentences() {
    let dir = tempfile::tempdir().unwrap();
    let root = tree(dir.path());
    std::fs::write(dir.path().join("train.log"), "step 1 | loss 2.5\nstep 2 | loss 2.5\nh:1:1 [0] NCCL WARN x\n").unwrap();
    let is_training = |text: &str| text.contains("\"training\"") && text.contains("nccl-warn");
    let (code, text) = until(dir.path(), &["--sysroot", &root, "watch", "--json", "train.log"], is_training);
    assert_eq!(code, Some(0), "a warning is no error: {text}");
    let events = parsed(&text);
    assert!(events.iter().all(|e| e["schema"] == "nccl-top.event/1" && e["t_s"].is_number() && e["at"].is_string()));
    let opened: Vec<&Value> = events.iter().filter(|e| e["event"] == "opened" && e["rule"] == "nccl-warn").collect();
    assert_eq!(opened.len(), 1, "{events:?}");
    assert_eq!(opened[0]["evidence"][0]["line"], 3);
    assert_eq!(opened[0]["evidence"][0]["path"], "train.log");
    assert!(events.iter().any(|e| e["event"] == "state" && e["state"] == "training" && e["job"] == "train.log"), "{events:?}");
    until(dir.path(), &["--sysroot", &root, "watch", "train.log"], |text| text.contains("warning nccl-warn: x."));
}

#[test]
fn errors_make_the_exit_code_1() {
    let dir = tempfile::tempdir().unwrap();
    let root = tree(dir.path());
    std::fs::write(dir.path().join("train.log"), "step 1 | loss nan | step_time 11.6 ms\nstep 2 | loss nan | step_time 11.6 ms\n").unwrap();
    let (code, text) = until(dir.path(), &["--sysroot", &root, "watch", "--json", "train.log"], |text| text.contains("loss-not-finite"));
    assert_eq!(code, Some(1), "{text}");
    // The same where the time is up.
    given_time(dir.path(), &["--sysroot", &root, "watch", "train.log"], "--for", |out| out.status.code() == Some(1));
}

#[test]
fn a_recording_replays_to_the_lines_that_were_told_live() {
    let dir = tempfile::tempdir().unwrap();
    let root = tree(dir.path());
    let log = dir.path().join("train.log");
    std::fs::write(&log, "step 1 | loss 2.5\nstep 2 | loss 2.5\n").unwrap();
    let over = AtomicBool::new(false);
    let write = || {
        let mut file = std::fs::OpenOptions::new().append(true).open(&log).unwrap();
        for i in (3..).take_while(|_| !over.load(Ordering::SeqCst)) {
            writeln!(file, "step {i} | loss 2.5").unwrap();
            if i == 12 {
                writeln!(
                    file,
                    "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"a.py\", line 3, in f\n[rank3]: ValueError: bad"
                )
                .unwrap();
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    };
    let watch = ["--sysroot", &root, "watch", "--json", "-o", "t.jsonl.gz", "train.log"];
    let (_, live) = std::thread::scope(|scope| {
        scope.spawn(write);
        let told = until(dir.path(), &watch, |text| text.contains("python-exception"));
        over.store(true, Ordering::SeqCst);
        told
    });
    let replayed = nccl_top(dir.path(), &["replay", "--headless", "--json", "t.jsonl.gz"]);
    let (live, replayed) = (parsed(&live), lines(&replayed));
    assert!(live.iter().any(|e| e["rule"] == "python-exception" && e["ranks"][0] == 3), "{live:?}");
    assert_eq!(live, replayed);
}

#[test]
fn a_snapshot_has_every_field_of_the_contract_and_no_invented_number() {
    let dir = tempfile::tempdir().unwrap();
    let root = tree(dir.path());
    std::fs::write(dir.path().join("train.log"), "step 7 | loss 2.5 | step_time 11.9 ms | tokens/s 2,741,882\n").unwrap();
    let is_seen = |out: &Output| String::from_utf8_lossy(&out.stdout).contains("\"step\": 7") && stderr(out).is_empty();
    let out = given_time(dir.path(), &["--sysroot", &root, "snapshot", "--json", "train.log"], "--wait", is_seen);
    assert_eq!(out.status.code(), Some(0));
    let snapshot: Value = serde_json::from_slice(&out.stdout).unwrap();
    for key in ["schema", "at", "host", "state", "summary", "jobs", "gpus", "ports", "comms", "findings", "sources"] {
        assert!(!snapshot[key].is_null(), "{key} is missing");
    }
    let training = &snapshot["jobs"][0]["training"];
    assert_eq!(training["step"], 7);
    assert_eq!(training["throughput_unit"], "tokens/s");
    assert_eq!(training["total_steps"], Value::Null);
    assert_eq!(snapshot["gpus"].as_array().map(Vec::len), Some(0));
    let nvml = snapshot["sources"].as_array().unwrap().iter().find(|s| s["id"] == "nvml").unwrap();
    assert_eq!(nvml["state"], "absent");
}

#[test]
fn a_named_log_that_cannot_be_read_is_named_and_makes_the_exit_code_2() {
    let dir = tempfile::tempdir().unwrap();
    let root = tree(dir.path());
    for command in ["watch", "snapshot"] {
        let flag = if command == "watch" { "--for" } else { "--wait" };
        let out = given_time(dir.path(), &["--sysroot", &root, command, "nope.log"], flag, |out| out.status.code() == Some(2));
        assert!(stderr(&out).starts_with("nccl-top: nope.log: no such file"), "{}", stderr(&out));
    }
}

#[test]
fn a_replay_from_the_middle_tells_what_already_holds() {
    let tape = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tapes/kill.jsonl.gz");
    let dir = tempfile::tempdir().unwrap();
    let out = nccl_top(dir.path(), &["replay", "--headless", "--json", "--at", "+52s", tape]);
    assert_eq!(out.status.code(), Some(1));
    assert!(lines(&out).iter().any(|e| e["rule"] == "rank-exited" && e["ranks"][0] == 3));
    let out = nccl_top(dir.path(), &["replay", "--headless", "--at", "+9999s", tape]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn a_label_with_an_unknown_field_is_none() {
    let dir = tempfile::tempdir().unwrap();
    let tapes = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tapes");
    std::fs::copy(tapes.join("pair-nan.jsonl.gz"), dir.path().join("nan.jsonl.gz")).unwrap();
    let label = std::fs::read_to_string(tapes.join("pair-nan.label.json")).unwrap();
    std::fs::write(dir.path().join("nan.label.json"), label.replace("\"since_s\"", "\"since\"")).unwrap();
    let out = nccl_top(dir.path(), &["score", "--json", "."]);
    assert_eq!(out.status.code(), Some(2));
    let told = stderr(&out);
    assert!(told.contains("nan.label.json: unknown field `since`, expected one of `class`"), "{told}");
    let document: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert_eq!((&document["not_judged"][0], document["cases"].as_array().map(Vec::len)), (&Value::from("nan"), Some(0)));
}

#[test]
fn a_tape_that_was_cut_off_is_judged_up_to_there_and_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = std::fs::read(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/tapes/kill.jsonl.gz")).unwrap();
    std::fs::write(dir.path().join("cut.jsonl.gz"), &bytes[..20_000]).unwrap();
    let out = nccl_top(dir.path(), &["replay", "--headless", "cut.jsonl.gz"]);
    assert_eq!(out.status.code(), Some(2), "what is missing may be what was to be found");
    let (told, said) = (stderr(&out), String::from_utf8_lossy(&out.stdout).into_owned());
    assert!(told.contains("cut.jsonl.gz: the recording is cut off after line ") && told.contains(" s from its beginning"), "{told}");
    assert!(said.contains("is training"), "{said}");
    let out = nccl_top(dir.path(), &["check", "cut.jsonl.gz"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("cut.jsonl.gz: the recording is cut off after line "), "{}", stderr(&out));
}

#[test]
fn error_messages_carry_no_control_sequences() {
    let dir = tempfile::tempdir().unwrap();
    let out = nccl_top(dir.path(), &["replay", "--headless", "x\u{1b}[2Jy"]);
    assert_eq!(out.status.code(), Some(2));
    assert!(!out.stderr.contains(&0x1b), "{}", stderr(&out));
}

#[test]
fn what_is_left_out_is_left_alone_and_said() {
    let dir = crate::support::tree::unpack(&["efa-p5", "host"]);
    let root = dir.path().display().to_string();
    let snapshot = |more: &[&str], is_seen: fn(&Value) -> bool| -> Value {
        let document = |out: &Output| serde_json::from_slice::<Value>(&out.stdout).unwrap_or_default();
        let args = [&["--sysroot", &root, "snapshot", "--json"], more].concat();
        document(&given_time(dir.path(), &args, "--wait", |out| is_seen(&document(out))))
    };
    let devices = |seen: &Value| seen["ports"].as_array().map_or(0, |ports| ports.iter().filter(|port| port["kind"] == "efa").count());
    let seen = snapshot(&[], |seen| seen["ports"].as_array().is_some_and(|ports| ports.len() == 33));
    assert_eq!(devices(&seen), 32);
    let eth0 = seen["ports"].as_array().unwrap().iter().find(|port| port["device"] == "eth0").unwrap();
    assert_eq!((&eth0["carrier_changes"], &eth0["driver"]), (&1.into(), &"virtio_net".into()));
    let seen = snapshot(&["--without", "rdma"], |seen| seen["ports"].as_array().is_some_and(|ports| !ports.is_empty()));
    assert_eq!(devices(&seen), 0);
    let rdma = seen["sources"].as_array().unwrap().iter().find(|source| source["id"] == "rdma").unwrap();
    assert_eq!((&rdma["state"], &rdma["detail"]), (&"absent".into(), &"off: --without rdma is given".into()));
}

#[test]
fn below_a_sysroot_gpus_come_from_the_pci_tree_with_no_reading_invented() {
    let dir = tempfile::tempdir().unwrap();
    let root = tree(dir.path());
    let gpu = dir.path().join("root/sys/bus/pci/devices/0000:0f:00.0");
    std::fs::create_dir_all(&gpu).unwrap();
    for (file, text) in [("class", "0x030200\n"), ("vendor", "0x10de\n"), ("device", "0x2335\n"), ("numa_node", "1\n")] {
        std::fs::write(gpu.join(file), text).unwrap();
    }
    let is_seen = |out: &Output| String::from_utf8_lossy(&out.stdout).contains("0000:0f:00.0");
    let out = given_time(dir.path(), &["--sysroot", &root, "snapshot", "--json"], "--wait", is_seen);
    let snapshot: Value = serde_json::from_slice(&out.stdout).unwrap();
    let gpu = &snapshot["gpus"][0];
    assert_eq!((&gpu["bus_id"], &gpu["numa"]), (&Value::from("0000:0f:00.0"), &Value::from(1)));
    for unread in ["util_pct", "power_mw", "activity", "mem_total_bytes", "throttle"] {
        assert_eq!(gpu[unread], Value::Null, "{unread}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let script = format!("{} rules | head -1; exit ${{PIPESTATUS[0]}}", env!("CARGO_BIN_EXE_nccl-top"));
    let out = Command::new("bash").args(["-c", &script]).current_dir(dir.path()).output().unwrap();
    assert_eq!(out.status.code(), Some(0));
    assert!(stderr(&out).is_empty(), "{}", stderr(&out));
}

/// Which build a report is about: a package and a clone of one number differ.
#[test]
fn the_version_names_number_and_kind_of_machine() {
    let dir = tempfile::tempdir().unwrap();
    let said = String::from_utf8(nccl_top(dir.path(), &["--version"]).stdout).unwrap();
    assert!(said.starts_with(&format!("nccl-top {} (", env!("CARGO_PKG_VERSION"))), "{said}");
    assert!(said.contains(std::env::consts::ARCH), "{said}");
}
