//! Changes to JSON that leave it JSON, and dumps of the Flight Recorder.

use crate::make::{NUMBERS, Rng};
use serde_json::{Map, Number, Value, json};
use std::collections::HashMap;

fn count(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(count).sum(),
        Value::Object(fields) => fields.values().map(count).sum(),
        _ => 0,
    }
}

fn nth<'a>(value: &'a mut Value, n: &mut usize) -> Option<&'a mut Value> {
    if *n == 0 {
        return Some(value);
    }
    *n -= 1;
    match value {
        Value::Array(items) => items.iter_mut().find_map(|item| nth(item, n)),
        Value::Object(fields) => fields.values_mut().find_map(|item| nth(item, n)),
        _ => None,
    }
}

fn any(value: &mut Value, rng: &mut Rng) -> Option<Value> {
    let mut n = rng.below(count(value));
    nth(value, &mut n).cloned()
}

/// Something that a reader may not expect there.
fn odd(rng: &mut Rng) -> Value {
    match rng.below(12) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(""),
        3 => json!([]),
        4 => json!({}),
        5 => json!("a\u{1b}[31m\u{0}é"),
        6 => json!("x".repeat(rng.below(2000))),
        7 => json!(*rng.pick(NUMBERS)),
        8 => json!([[[[[1]]]]]),
        _ => number(rng),
    }
}

fn number(rng: &mut Rng) -> Value {
    match rng.below(4) {
        0 => json!(*rng.pick(&[
            0_u64,
            1,
            2,
            7,
            8,
            255,
            65_536,
            u64::from(u32::MAX),
            1 << 32,
            1 << 53,
            i64::MAX as u64,
            u64::MAX - 1,
            u64::MAX
        ])),
        1 => json!(*rng.pick(&[-1_i64, -2, i64::from(i32::MIN), i64::MIN, i64::MIN + 1])),
        2 => Number::from_f64(*rng.pick(&[0.5, -0.0, 1e300, -1e300, 5e-324, 1.8e19, 9.3e18, 1e15])).map_or(Value::Null, Value::Number),
        _ => json!(rng.below(10)),
    }
}

/// One change.
pub fn change(value: &mut Value, rng: &mut Rng) {
    let other = any(value, rng);
    let mut n = rng.below(count(value));
    let Some(at) = nth(value, &mut n) else { return };
    match rng.below(8) {
        0 => *at = odd(rng),
        1 => *at = other.unwrap_or_default(),
        _ => match at {
            Value::Number(_) => *at = number(rng),
            Value::String(text) => match rng.below(4) {
                0 => *at = odd(rng),
                1 => *text = (*rng.pick(NUMBERS)).to_owned(),
                2 => text.truncate(text.char_indices().map(|(i, _)| i).nth(rng.below(20)).unwrap_or(text.len())),
                _ => text.push_str("\u{1b}]0;x\u{7}\r\0 é"),
            },
            Value::Array(items) => {
                let i = rng.below(items.len());
                match rng.below(4) {
                    0 if !items.is_empty() => drop(items.remove(i)),
                    1 if !items.is_empty() => {
                        let item = items[i].clone();
                        let times = 1 + rng.below(30);
                        for no in 0..times {
                            let mut item = item.clone();
                            if rng.one_in(2) {
                                shift(&mut item, no as u64);
                            }
                            items.push(item);
                        }
                    }
                    2 if !items.is_empty() => items.swap(0, i),
                    _ => items.insert(i, other.unwrap_or_default()),
                }
            }
            Value::Object(fields) => {
                let keys: Vec<String> = fields.keys().cloned().collect();
                if keys.is_empty() {
                    fields.insert("a".into(), odd(rng));
                    return;
                }
                let key = rng.pick(&keys).clone();
                match rng.below(4) {
                    0 => drop(fields.remove(&key)),
                    1 => {
                        let taken = fields.remove(&key).unwrap_or_default();
                        fields.insert(rng.pick(NUMBERS).to_string(), taken);
                    }
                    2 => drop(fields.insert(key, odd(rng))),
                    _ => drop(fields.insert(key, other.unwrap_or_default())),
                }
            }
            other => *other = odd(rng),
        },
    }
}

/// All whole numbers become greater and numbers at the end of texts others, so that copies differ.
fn shift(value: &mut Value, by: u64) {
    match value {
        Value::Number(n) => {
            if let Some(n) = n.as_u64() {
                *value = json!(n.wrapping_add(by));
            }
        }
        Value::String(text) if by % 4 != 3 && text.ends_with(|c: char| c.is_ascii_hexdigit()) => {
            let front = text.trim_end_matches(|c: char| c.is_ascii_digit()).len();
            text.truncate(front);
            text.push_str(&by.to_string());
        }
        Value::Array(items) => items.iter_mut().for_each(|item| shift(item, by)),
        Value::Object(fields) => fields.values_mut().for_each(|item| shift(item, by)),
        _ => {}
    }
}

/// The parts of one container come again and again, until the whole has about this size.
pub fn grow(value: &mut Value, rng: &mut Rng, size: usize) {
    let all = count(value);
    let (pick, way) = (rng.below(all), rng.below(3));
    for step in 0..all {
        let mut n = (pick + step) % all;
        let Some(at) = nth(value, &mut n) else { continue };
        let one = serde_json::to_string(at).map_or(1, |text| text.len()).max(8);
        let times = size / one + 1;
        match at {
            Value::Array(items) if !items.is_empty() => {
                let before = items.clone();
                for no in 1..times {
                    for mut item in before.iter().cloned() {
                        if way > 0 {
                            shift(&mut item, (no * before.len()) as u64);
                        }
                        items.push(item);
                    }
                }
                return;
            }
            Value::Object(fields) if !fields.is_empty() => {
                let before: Vec<(String, Value)> = fields.iter().map(|(k, v)| (k.clone(), v.clone())).collect();
                for no in 1..times {
                    for (key, item) in &before {
                        let mut item = item.clone();
                        if way > 0 {
                            shift(&mut item, no as u64);
                        }
                        fields.insert(if way == 2 { no.to_string() } else { format!("{key}{no}") }, item);
                    }
                }
                return;
            }
            _ => {}
        }
    }
}

/// A dump, pickle or JSON. With `grow` its entries, groups, sizes or frames come until it has that size.
pub fn dump_file(rng: &mut Rng, entries: usize, grow: usize) -> Vec<u8> {
    let (style, sharing) = (rng.below(4), rng.below(3));
    let write = |dump: &Value| match style {
        0 => serde_json::to_vec(dump).unwrap_or_default(),
        _ => pickle(dump, sharing),
    };
    if grow == 0 {
        let mut dump = dump(rng, entries);
        (0..rng.below(4)).for_each(|_| change(&mut dump, rng));
        return write(&dump);
    }
    let mut dump = dump(rng, entries);
    if rng.one_in(2) {
        change(&mut dump, rng);
    }
    let state = rng.next();
    // What is shared takes less room in the file than in JSON: grow until it is there.
    let mut want = grow;
    loop {
        let mut larger = dump.clone();
        self::grow(&mut larger, &mut Rng::of(state, 0), want);
        let bytes = write(&larger);
        if bytes.len() >= grow || want > grow * 30 {
            return bytes;
        }
        want = want * grow / bytes.len().max(grow / 8) + grow;
    }
}

/// Few names, numbers and sizes, so that much is equal and some is not.
fn dump(rng: &mut Rng, entries: usize) -> Value {
    let groups = 1 + rng.below(3);
    let name = |n: usize| n.to_string();
    let mut config = Map::new();
    let mut status = Map::new();
    for group in 0..groups {
        let ranks: Value = match rng.below(4) {
            0 => json!("[0, 1, 2, 3]"),
            1 => json!([0, 1, 2, 3]),
            2 => json!("[0, 2]"),
            _ => json!([1, 0, 1]),
        };
        if !rng.one_in(4) {
            config.insert(name(group), json!({"name": name(group), "desc": "default_pg", "ranks": ranks}));
        }
        if rng.one_in(2) {
            status.insert(name(group), json!({"last_enqueued_collective": rng.below(20), "last_started_collective": -1, "last_completed_collective": rng.below(20)}));
        }
    }
    let p2p = rng.one_in(2);
    let without_ids = rng.one_in(3);
    let entry = |rng: &mut Rng, at: usize| {
        let group = rng.below(groups);
        let is_p2p = p2p && !rng.one_in(3);
        let name_of = if is_p2p {
            *rng.pick(&[
                "nccl:send 0->1",
                "nccl:recv 0<-1",
                "nccl:send 1->0",
                "nccl:recv 1<-0",
                "nccl:coalesced",
                "nccl:send 3->2",
                "nccl:send 9->4294967295",
            ])
        } else {
            *rng.pick(&[
                "nccl:all_reduce",
                "nccl:all_reduce_barrier",
                "nccl:_all_gather_base",
                "nccl:coalesced",
                "nccl:broadcast",
                "gloo:barrier",
                "",
            ])
        };
        let state = *rng.pick(&["scheduled", "started", "completed", "completed", "completed", "odd"]);
        let size = *rng.pick(&[1, 7, 4096]);
        let mut fields = json!({
            "record_id": at, "pg_id": group, "process_group": [name(group), "default_pg"], "collective_seq_id": at / 2, "op_id": at,
            "profiling_name": name_of, "time_created_ns": 1_700_000_000_000_000_000_u64 + at as u64, "duration_ms": 1.5,
            "input_sizes": [[size]], "output_sizes": [[size, 2], []], "input_dtypes": ["Float"], "output_dtypes": ["Float"], "state": state,
            "time_discovered_started_ns": null, "time_discovered_completed_ns": null, "retired": state == "completed", "timeout_ms": 600_000,
            "is_p2p": is_p2p, "frames": [{"name": "f", "filename": "train.py", "line": rng.below(3)}, {"name": "g", "filename": "/torch/distributed/x.py", "line": 1}],
        });
        if is_p2p && !without_ids {
            fields["p2p_seq_id"] = json!(at / 3);
        }
        fields
    };
    let entries: Vec<Value> = (0..entries).map(|at| entry(rng, at)).collect();
    if rng.one_in(10) {
        return Value::Array(entries);
    }
    json!({"version": "2.10", "pg_config": config, "pg_status": status, "entries": entries})
}

/// `sharing` 0: nothing is kept; 1: texts; 2: whatever is equal.
fn pickle(value: &Value, sharing: usize) -> Vec<u8> {
    let mut out = vec![0x80, 4];
    put(value, sharing, &mut HashMap::new(), &mut out);
    out.push(b'.');
    out
}

fn put(value: &Value, sharing: usize, memo: &mut HashMap<String, u32>, out: &mut Vec<u8>) {
    let key = match value {
        Value::String(text) if sharing > 0 => format!("\"{text}"),
        Value::Array(_) | Value::Object(_) if sharing > 1 => value.to_string(),
        _ => String::new(),
    };
    if let Some(id) = memo.get(&key) {
        out.push(b'j');
        out.extend(id.to_le_bytes());
        return;
    }
    match value {
        Value::Null => out.push(b'N'),
        Value::Bool(b) => out.push(if *b { 0x88 } else { 0x89 }),
        Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(n @ 0..=255), _) => out.extend([b'K', n as u8]),
            (Some(n), _) => {
                out.extend([0x8a, 8]);
                out.extend(n.to_le_bytes());
            }
            (None, f) => {
                out.push(b'G');
                out.extend(f.unwrap_or(0.0).to_be_bytes());
            }
        },
        Value::String(text) => {
            out.push(b'X');
            out.extend((text.len() as u32).to_le_bytes());
            out.extend(text.as_bytes());
        }
        Value::Array(items) => {
            out.extend(b"](");
            items.iter().for_each(|item| put(item, sharing, memo, out));
            out.push(b'e');
        }
        Value::Object(fields) => {
            out.extend(b"}(");
            for (key, item) in fields {
                put(&Value::String(key.clone()), sharing, memo, out);
                put(item, sharing, memo, out);
            }
            out.push(b'u');
        }
    }
    if !key.is_empty() {
        let id = memo.len() as u32;
        memo.insert(key, id);
        out.push(b'r');
        out.extend(id.to_le_bytes());
    }
}
