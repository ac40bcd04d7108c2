//! Makes a recording fit to be published: cuts it, leaves out kinds of observation or other jobs, replaces texts.
//!
//! `cargo run --example trim_tape -- IN OUT [--from S] [--to S] [--drop KIND]... [--launcher PID] [--replace OLD=NEW]... [--script "NAME ARGS"]`
//!
//! `--script` is what processes seem to run: it takes the place of the Python script in their command lines and of its arguments.
//! What the kernel said before the recording began is left out. In Flight Recorder dumps a text can only be replaced by one as long.

use nccl_top::observe::flight::FlightDump;
use serde_json::Value;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;

fn main() {
    let mut args = std::env::args().skip(1);
    let input = args.next().expect("IN");
    let output = args.next().expect("OUT");
    let (mut from_s, mut to_s, mut drop, mut launcher, mut replace, mut script) = (0.0, f64::MAX, Vec::new(), None, Vec::new(), None);
    while let Some(flag) = args.next() {
        let value = args.next().expect("a value for each flag");
        match flag.as_str() {
            "--from" => from_s = value.parse().expect("seconds"),
            "--to" => to_s = value.parse().expect("seconds"),
            "--drop" => drop.push(value),
            "--launcher" => launcher = Some(value.parse().expect("a pid")),
            "--replace" => {
                let (old, new) = value.split_once('=').expect("OLD=NEW");
                replace.push((old.to_owned(), new.to_owned()));
            }
            "--script" => script = Some(value.split(' ').map(Value::from).collect::<Vec<_>>()),
            other => panic!("unknown flag {other}"),
        }
    }
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(&input).expect("IN")).read_to_string(&mut text).expect("gzip");
    let out = std::fs::File::create(Path::new(&output)).expect("OUT");
    let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::best());
    let job = launcher.map(|pid| Job::of(pid, &text));
    let mut start = None;
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        if line["kind"] == "tape_end" {
            // What is left is whole, too.
            writeln!(out, "{line}").expect("OUT");
            continue;
        }
        if let Some(at) = line.get("at_ns").and_then(Value::as_i64) {
            let t = (at - *start.get_or_insert(at)) as f64 / 1e9;
            let kind = line.get("kind").and_then(Value::as_str).unwrap_or("");
            if t < from_s || t > to_s || drop.iter().any(|d| d == kind) {
                continue;
            }
            if kind == "kernel" {
                let Some(lines) = line["lines"].as_array_mut() else { continue };
                lines.retain(|l| l["backlog"] != true);
                if lines.is_empty() {
                    continue;
                }
            }
            if job.as_ref().is_some_and(|job| !job.keep(&mut line)) {
                continue;
            }
            if line["kind"] == "flight_dump" {
                let mut dump: FlightDump = serde_json::from_value(line.clone()).expect("a dump");
                if let Some(mut bytes) = dump.bytes() {
                    replace.iter().for_each(|(old, new)| put_in(&mut bytes, old.as_bytes(), new.as_bytes()));
                    dump.packed = FlightDump::pack(&bytes);
                    line["packed"] = dump.packed.into();
                }
            }
        } else if let Some(header) = line.as_object_mut() {
            header.remove("boot_id");
        }
        if let (Some(script), Some(words)) = (&script, line.get_mut("cmdline").and_then(Value::as_array_mut))
            && let Some(at) = words.iter().position(|word| word.as_str().is_some_and(|word| word.ends_with(".py")))
        {
            words.splice(at.., script.iter().cloned());
        }
        walk(&mut line, &replace);
        writeln!(out, "{line}").expect("OUT");
    }
    out.finish().expect("OUT");
}

/// Lengths stand before texts in a pickle.
fn put_in(bytes: &mut [u8], old: &[u8], new: &[u8]) {
    let mut at = 0;
    while let Some(found) = bytes[at..].windows(old.len()).position(|w| w == old) {
        assert_eq!(old.len(), new.len(), "a text in a dump can only be replaced by one as long");
        at += found;
        bytes[at..at + new.len()].copy_from_slice(new);
        at += new.len();
    }
}

/// What belongs to one of several jobs on a recording: its processes, their GPUs, their log files, their RAS answers.
struct Job {
    pids: BTreeSet<u64>,
    gpus: BTreeSet<u64>,
    files: BTreeSet<u64>,
    /// Of NCCL_RAS_ADDR, as answers carry it.
    addresses: BTreeSet<String>,
}

impl Job {
    fn of(launcher: u64, tape: &str) -> Job {
        let mut job = Job { pids: BTreeSet::from([launcher]), gpus: BTreeSet::new(), files: BTreeSet::new(), addresses: BTreeSet::new() };
        let lines: Vec<Value> = tape.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let of = |kind: &'static str| lines.iter().filter(move |l| l["kind"] == kind);
        let mut paths = BTreeSet::new();
        for process in of("process") {
            if process["pid"].as_u64() == Some(launcher) || process["ppid"].as_u64().is_some_and(|p| job.pids.contains(&p)) {
                job.pids.extend(process["pid"].as_u64());
                paths.extend(process["logs"].as_array().into_iter().flatten().filter_map(|l| l["path"].as_str()));
            }
        }
        for gpu in of("gpu_processes").flat_map(|l| l["gpus"].as_array().into_iter().flatten()) {
            if gpu["processes"].as_array().into_iter().flatten().any(|p| job.has(p)) {
                job.gpus.extend(gpu["index"].as_u64());
            }
        }
        job.files
            .extend(of("log_file").filter(|f| f["path"].as_str().is_some_and(|p| paths.contains(p))).filter_map(|f| f["file"].as_u64()));
        for answer in of("ras") {
            let report: Value = serde_json::from_str(answer["reply"].as_str().unwrap_or("")).unwrap_or_default();
            let comms = report["communicators"].as_array().into_iter().flatten();
            if comms.flat_map(|c| c["ranks"].as_array().into_iter().flatten()).any(|rank| job.has(rank)) {
                job.addresses.extend(answer["address"].as_str().map(str::to_owned));
            }
        }
        job
    }

    fn has(&self, process: &Value) -> bool {
        process["pid"].as_u64().is_some_and(|pid| self.pids.contains(&pid))
    }

    /// Takes what is of others out of a line; says whether something is left.
    fn keep(&self, line: &mut Value) -> bool {
        let gpu = |value: &Value| value["index"].as_u64().is_some_and(|i| self.gpus.contains(&i));
        let only = |list: &mut Value, keep: &dyn Fn(&Value) -> bool| {
            let Some(items) = list.as_array_mut() else { return true };
            items.retain(|item| keep(item));
            !items.is_empty()
        };
        match line["kind"].as_str() {
            Some("process" | "process_gone" | "flight_dump") => self.has(line),
            Some("processes") => only(&mut line["processes"], &|p| self.has(p)),
            Some("gpu_info") => gpu(line),
            Some("gpu_events") => only(&mut line["events"], &gpu),
            Some("gpus" | "gpu_health") => only(&mut line["gpus"], &gpu),
            Some("gpu_processes") => {
                for gpu in line["gpus"].as_array_mut().into_iter().flatten() {
                    only(&mut gpu["processes"], &|p| self.has(p));
                }
                only(&mut line["gpus"], &gpu)
            }
            Some("gpu_topology") => {
                let has = |value: &Value| value.as_u64().is_some_and(|i| self.gpus.contains(&i));
                only(&mut line["pairs"], &|pair| has(&pair["a"]) && has(&pair["b"]))
            }
            Some("log_file" | "lines") => line["file"].as_u64().is_some_and(|f| self.files.contains(&f)),
            // One that never answers says that there is none.
            Some("ras") => self.addresses.is_empty() || line["address"].as_str().is_some_and(|a| self.addresses.contains(a)),
            _ => true,
        }
    }
}

fn walk(value: &mut Value, replace: &[(String, String)]) {
    match value {
        Value::String(text) => {
            for (old, new) in replace {
                *text = text.replace(old, new);
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|v| walk(v, replace)),
        Value::Object(fields) => {
            // What names the machine and means nothing elsewhere.
            for key in ["boot_id", "kernel", "cgroup", "uuid"] {
                fields.remove(key);
            }
            fields.values_mut().for_each(|v| walk(v, replace));
        }
        _ => {}
    }
}
