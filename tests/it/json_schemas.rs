//! The schemas below `docs/schemas`, held against what the program writes: every document fits, and no field is without its line.

use crate::support::tree::unpack_host;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Event;
use nccl_top::observe::Body;
use nccl_top::output::{events, snapshot};
use nccl_top::recording::tape::Reader;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn schema(name: &str) -> Value {
    let path = repository().join("docs/schemas").join(name);
    serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap()
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("unknown type {other} in a schema"),
    }
}

/// What of JSON Schema the files use. A field that no schema names is wrong, too: it is to be written down.
fn check(root: &Value, schema: &Value, value: &Value, at: &str, wrong: &mut Vec<String>) {
    if let Some(to) = schema["$ref"].as_str() {
        let target = root.pointer(to.strip_prefix('#').unwrap()).unwrap_or_else(|| panic!("{at}: {to} leads nowhere"));
        return check(root, target, value, at, wrong);
    }
    if let Some(either) = schema["anyOf"].as_array() {
        let fits = |one: &Value| {
            let mut found = Vec::new();
            check(root, one, value, at, &mut found);
            found
        };
        let all: Vec<Vec<String>> = either.iter().map(fits).collect();
        if !all.iter().any(Vec::is_empty) {
            wrong.extend(all.into_iter().max_by_key(|found| found.iter().map(String::len).max()).unwrap());
        }
        return;
    }
    let types: Vec<&str> = match &schema["type"] {
        Value::String(one) => vec![one],
        Value::Array(several) => several.iter().filter_map(Value::as_str).collect(),
        _ => Vec::new(),
    };
    if !types.is_empty() && !types.iter().any(|name| has_type(value, name)) {
        wrong.push(format!("{at}: {value} is not {types:?}"));
        return;
    }
    if schema["const"] != Value::Null && schema["const"] != *value {
        wrong.push(format!("{at}: {value} is not {}", schema["const"]));
    }
    if schema["enum"].as_array().is_some_and(|known| !known.contains(value)) {
        wrong.push(format!("{at}: {value} is not among {}", schema["enum"]));
    }
    if let Some(fields) = value.as_object() {
        let missing =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).filter(|name| !fields.contains_key(*name));
        wrong.extend(missing.map(|name| format!("{at}: {name} is missing")));
        for (name, inner) in fields {
            match (schema["properties"].get(name), schema.get("additionalProperties")) {
                (Some(known), _) | (None, Some(known)) => check(root, known, inner, &format!("{at}.{name}"), wrong),
                (None, None) => wrong.push(format!("{at}.{name}: the schema does not know it")),
            }
        }
    }
    for (n, inner) in value.as_array().into_iter().flatten().enumerate() {
        check(root, &schema["items"], inner, &format!("{at}[{n}]"), wrong);
    }
}

fn assert_fits(schema: &Value, document: &Value, what: &str) {
    let mut wrong = Vec::new();
    check(schema, schema, document, "", &mut wrong);
    wrong.truncate(12);
    assert!(wrong.is_empty(), "{what}:\n{}", wrong.join("\n"));
}

#[test]
fn reports_of_check_fit_their_schema() {
    let schema = schema("check.json");
    let inputs: &[&[&str]] = &[
        &["runs/hang.log.gz", "flight/hang"],
        &["runs/hf.log.gz"],
        &["logs"],
        &["metrics"],
        &["reports"],
        &["ras"],
        &["../tapes/kill.jsonl.gz"],
    ];
    for files in inputs {
        let paths: Vec<PathBuf> = files.iter().map(|file| repository().join("tests/fixtures").join(file)).collect();
        let done = Command::new(env!("CARGO_BIN_EXE_nccl-top")).args(["check", "--json"]).args(paths).output().unwrap();
        let document: Value = serde_json::from_slice(&done.stdout).unwrap_or_else(|why| panic!("{files:?}: {why}"));
        assert_fits(&schema, &document, &format!("{files:?}"));
    }
}

#[test]
fn events_and_snapshots_fit_their_schemas() {
    let (of_event, of_snapshot) = (schema("event.json"), schema("snapshot.json"));
    for tape in ["hang", "kill", "nan", "pair-none-sockets", "pipe-slowstage"] {
        let mut reader = Reader::open(&repository().join(format!("tests/tapes/{tape}.jsonl.gz"))).unwrap();
        let mut session = reader.header().session();
        let mut happened: Vec<(Stamp, Event)> = Vec::new();
        let mut ticks = 0;
        while let Some(seen) = reader.read().unwrap() {
            session.apply(&seen, &mut happened);
            for (at, event) in happened.drain(..) {
                let line: Value = serde_json::from_str(&events::json_line(&session, Zone::UTC, at, &event)).unwrap();
                assert_fits(&of_event, &line, tape);
            }
            ticks += usize::from(seen.body == Body::Tick);
            if seen.body == Body::Tick && ticks % 20 == 0 {
                assert_fits(&of_snapshot, &snapshot::json(&session, Zone::UTC), tape);
            }
        }
        assert!(ticks > 20, "{tape} is no recording");
    }
}

/// Ports, disks and counters are on no tape.
#[test]
fn snapshots_of_machines_fit_their_schema() {
    let schema = schema("snapshot.json");
    for host in ["dgx-h100", "p5"] {
        let root = unpack_host(host);
        let done = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
            .arg("--sysroot")
            .arg(root.path())
            .args(["snapshot", "--json", "--wait", "1s"])
            .output();
        let document: Value = serde_json::from_slice(&done.unwrap().stdout).unwrap();
        assert!(!document["ports"].as_array().unwrap().is_empty(), "{host} has ports");
        assert_fits(&schema, &document, host);
    }
}
