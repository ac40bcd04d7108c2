//! Makes dumps.

use nccl_top::formats::flight_recorder::{Dump, read};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;

pub fn unpacked(packed: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    flate2::read::GzDecoder::new(packed).read_to_end(&mut out).unwrap();
    out
}

/// The files of a recorded run, by rank.
pub fn recorded(name: &str) -> BTreeMap<u32, Vec<u8>> {
    let file = |rank: u32| Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/fixtures/flight/{name}/fr_{rank}.gz"));
    let all: BTreeMap<_, _> = (0..8).filter_map(|rank| Some((rank, unpacked(&std::fs::read(file(rank)).ok()?)))).collect();
    assert!(all.len() >= 7, "{name}");
    all
}

pub fn dumps(name: &str) -> BTreeMap<u32, Dump> {
    recorded(name).into_iter().map(|(rank, bytes)| (rank, read(&bytes).unwrap())).collect()
}

/// As libtorch writes: protocol 2, every text kept once.
pub fn pickle2(value: &Value) -> Vec<u8> {
    let mut out = vec![0x80, 2];
    let mut memo = BTreeMap::new();
    write(value, &mut out, &mut |text, out| {
        if let Some(key) = memo.get(text) {
            out.push(b'j');
            out.extend(u32::to_le_bytes(*key));
            return;
        }
        out.push(b'X');
        out.extend((text.len() as u32).to_le_bytes());
        out.extend(text.as_bytes());
        out.push(b'r');
        let key = memo.len() as u32;
        out.extend(key.to_le_bytes());
        memo.insert(text.to_string(), key);
    });
    out.push(b'.');
    out
}

/// As Python writes: a frame, short texts, each kept.
pub fn pickle4(value: &Value) -> Vec<u8> {
    let mut body = Vec::new();
    write(value, &mut body, &mut |text, out| {
        if text.len() < 256 {
            out.extend([0x8c, text.len() as u8]);
        } else {
            out.push(0x8d);
            out.extend((text.len() as u64).to_le_bytes());
        }
        out.extend(text.as_bytes());
        out.push(0x94);
    });
    body.push(b'.');
    let mut out = vec![0x80, 4, 0x95];
    out.extend((body.len() as u64).to_le_bytes());
    out.extend(body);
    out
}

fn write(value: &Value, out: &mut Vec<u8>, text: &mut dyn FnMut(&str, &mut Vec<u8>)) {
    match value {
        Value::Null => out.push(b'N'),
        Value::Bool(b) => out.push(if *b { 0x88 } else { 0x89 }),
        Value::Number(n) => match n.as_i64() {
            Some(n @ 0..=255) => out.extend([b'K', n as u8]),
            Some(n @ 256..=65535) => {
                out.push(b'M');
                out.extend((n as u16).to_le_bytes());
            }
            Some(n) => {
                out.extend([0x8a, 8]);
                out.extend(n.to_le_bytes());
            }
            None => {
                out.push(b'G');
                out.extend(n.as_f64().unwrap().to_be_bytes());
            }
        },
        Value::String(s) => text(s, out),
        Value::Array(items) => {
            out.extend(b"](");
            items.iter().for_each(|item| write(item, out, text));
            out.push(b'e');
        }
        Value::Object(map) => {
            out.extend(b"}(");
            for (key, value) in map {
                text(key, out);
                write(value, out, text);
            }
            out.push(b'u');
        }
    }
}

/// A job of which every rank's dump is made call by call.
pub struct Job {
    groups: Vec<(String, Vec<u32>)>,
    entries: BTreeMap<u32, Vec<Value>>,
}

impl Job {
    /// Groups by name, with their global ranks.
    pub fn new(groups: &[(&str, &[u32])]) -> Job {
        let groups: Vec<(String, Vec<u32>)> = groups.iter().map(|(name, ranks)| (name.to_string(), ranks.to_vec())).collect();
        let ranks = groups.iter().flat_map(|(_, ranks)| ranks).map(|rank| (*rank, Vec::new()));
        Job { entries: ranks.collect(), groups }
    }

    /// Changes the entry that a rank wrote last.
    pub fn with(&mut self, rank: u32, fields: Value) {
        let entry = self.entries.get_mut(&rank).unwrap().last_mut().unwrap();
        entry.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    }

    pub fn call(&mut self, rank: u32, group: &str, seq: u64, op: &str, size: u64, done: bool) {
        let id = self.groups.iter().position(|(name, _)| name == group).unwrap();
        let entries = self.entries.get_mut(&rank).unwrap();
        let at = entries.len();
        entries.push(json!({
            "frames": [{"name": "step", "filename": "/home/me/train.py", "line": 57}, {"name": "main", "filename": "/home/me/train.py", "line": 90}],
            "record_id": at, "pg_id": id, "process_group": [group, "undefined"], "collective_seq_id": seq, "p2p_seq_id": 0, "op_id": seq,
            "profiling_name": format!("nccl:{op}"), "time_created_ns": 1_795_219_440_000_000_000u64 + at as u64 * 1_000_000,
            "input_sizes": [[size]], "input_dtypes": ["Float"], "output_sizes": [[size]], "output_dtypes": ["Float"],
            "state": if done { "completed" } else { "scheduled" }, "time_discovered_started_ns": null,
            "time_discovered_completed_ns": if done { json!(1_795_219_440_000_500_000u64 + at as u64 * 1_000_000) } else { Value::Null },
            "retired": done, "timeout_ms": 600_000, "is_p2p": false,
        }));
    }

    /// The same of several ranks.
    pub fn calls(&mut self, ranks: &[u32], group: &str, seq: u64, op: &str, size: u64, done: bool) {
        ranks.iter().for_each(|rank| self.call(*rank, group, seq, op, size, done));
    }

    pub fn p2p(&mut self, rank: u32, group: &str, p2p_seq: u64, what: &str, size: u64, done: bool) {
        self.call(rank, group, 0, what, size, done);
        self.with(rank, json!({"is_p2p": true, "p2p_seq_id": p2p_seq}));
    }

    /// Forgets all but the last entries, as the ring does.
    pub fn wrap(&mut self, rank: u32, keep: usize) {
        let entries = self.entries.get_mut(&rank).unwrap();
        let cut = entries.len() - keep;
        entries.drain(..cut);
        for entry in entries {
            entry["record_id"] = json!(entry["record_id"].as_u64().unwrap() + 1000);
        }
    }

    pub fn value(&self, rank: u32) -> Value {
        let mut config = Map::new();
        for (name, ranks) in self.groups.iter().filter(|(_, ranks)| ranks.contains(&rank)) {
            config.insert(name.clone(), json!({"name": name, "desc": "undefined", "ranks": format!("{ranks:?}")}));
        }
        json!({"version": "2.10", "pg_config": config, "pg_status": {}, "comm_lib_version": "2.28.9", "entries": self.entries[&rank]})
    }

    pub fn dumps(&self) -> BTreeMap<u32, Dump> {
        self.entries.keys().map(|rank| (*rank, read(&pickle2(&self.value(*rank))).unwrap())).collect()
    }
}
