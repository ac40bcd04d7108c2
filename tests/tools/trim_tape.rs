//! Makes a recording fit to be published: cuts it, leaves out kinds of observation, replaces texts.
//!
//! `cargo run --example trim_tape -- IN OUT [--from S] [--to S] [--drop KIND]... [--replace OLD=NEW]...`

use serde_json::Value;
use std::io::{Read, Write};
use std::path::Path;

fn main() {
    let mut args = std::env::args().skip(1);
    let input = args.next().expect("IN");
    let output = args.next().expect("OUT");
    let (mut from_s, mut to_s, mut drop, mut replace) = (0.0, f64::MAX, Vec::new(), Vec::new());
    while let Some(flag) = args.next() {
        let value = args.next().expect("a value for each flag");
        match flag.as_str() {
            "--from" => from_s = value.parse().expect("seconds"),
            "--to" => to_s = value.parse().expect("seconds"),
            "--drop" => drop.push(value),
            "--replace" => {
                let (old, new) = value.split_once('=').expect("OLD=NEW");
                replace.push((old.to_owned(), new.to_owned()));
            }
            other => panic!("unknown flag {other}"),
        }
    }
    let mut text = String::new();
    flate2::read::MultiGzDecoder::new(std::fs::File::open(&input).expect("IN")).read_to_string(&mut text).expect("gzip");
    let out = std::fs::File::create(Path::new(&output)).expect("OUT");
    let mut out = flate2::write::GzEncoder::new(out, flate2::Compression::best());
    let mut start = None;
    for line in text.lines() {
        let mut line: Value = serde_json::from_str(line).expect("JSON");
        if let Some(at) = line.get("at_ns").and_then(Value::as_i64) {
            let t = (at - *start.get_or_insert(at)) as f64 / 1e9;
            let kind = line.get("kind").and_then(Value::as_str).unwrap_or("");
            if t < from_s || t > to_s || drop.iter().any(|d| d == kind) {
                continue;
            }
        } else if let Some(header) = line.as_object_mut() {
            header.remove("boot_id");
        }
        walk(&mut line, &replace);
        writeln!(out, "{line}").expect("OUT");
    }
    out.finish().expect("OUT");
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
