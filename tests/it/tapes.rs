//! Recordings: written, read, cut off, of other versions.

use nccl_top::base::time::Stamp;
use nccl_top::observe::{Body, Observation, SourceId, gpu};
use nccl_top::recording::tape::{Header, Reader, VERSION, Writer};
use std::io;

fn header() -> Header {
    Header {
        tape: "nccl-top".into(),
        version: VERSION,
        program: "0".into(),
        host: "node-17".into(),
        zone_offset_s: 3600,
        boot_id: None,
        interval_ms: 1000,
        started_ns: Stamp(1),
    }
}

fn tick(ns: i64) -> Observation {
    Observation { at: Stamp(ns), host: None, from: SourceId::of("feed"), body: Body::Tick }
}

fn read_all(bytes: &[u8]) -> (Vec<Observation>, Option<String>) {
    let mut reader = Reader::from_read(Box::new(io::Cursor::new(bytes.to_vec())), "t").expect("a header");
    let mut all = Vec::new();
    while let Some(seen) = reader.read().expect("whole lines") {
        all.push(seen);
    }
    (all, reader.cut_off())
}

#[test]
fn what_is_written_is_read_plain_and_gzip_and_only_by_its_owner() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let gpus = Body::Gpus {
        gpus: vec![gpu::GpuSample {
            index: 3,
            util_pct: Some(100),
            gpm: Some(gpu::Gpm { sm_active_pct: Some(18.2), nvlink_tx_bytes_per_s: Some(0.1 + 0.2), ..Default::default() }),
            ..Default::default()
        }],
    };
    let seen = Observation { at: Stamp(1_795_220_968_682_416_201), host: None, from: SourceId::of("nvml"), body: gpus };
    for name in ["t.jsonl", "t.jsonl.gz"] {
        let path = dir.path().join(name);
        let mut writer = Writer::create(&path, &header()).unwrap();
        writer.write(&seen).unwrap();
        writer.write(&tick(2)).unwrap();
        writer.finish().unwrap();
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let mut reader = Reader::open(&path).unwrap();
        assert_eq!(reader.header(), &header());
        assert_eq!(reader.read().unwrap(), Some(seen.clone()));
        assert_eq!(reader.read().unwrap(), Some(tick(2)));
        assert_eq!(reader.read().unwrap(), None);
        assert_eq!(reader.cut_off(), None);
        assert!(Writer::create(&path, &header()).is_err(), "an existing tape is not overwritten");
    }
}

#[test]
fn a_tape_is_whole_up_to_the_last_line_wherever_it_was_cut() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["t.jsonl", "t.jsonl.gz"] {
        let path = dir.path().join(name);
        let mut writer = Writer::create(&path, &header()).unwrap();
        for i in 0..50 {
            writer.write(&tick(i)).unwrap();
            writer.flush().unwrap();
        }
        drop(writer);
        let bytes = std::fs::read(&path).unwrap();
        let (all, _) = read_all(&bytes);
        assert_eq!(all.len(), 50);
        for cut in (bytes.len() - 200..bytes.len()).step_by(7) {
            let (some, _) = read_all(&bytes[..cut]);
            assert!(some.len() >= 20 && some[..] == all[..some.len()], "cut at {cut}");
        }
    }
}

#[test]
fn where_a_tape_was_cut_is_named_by_line_and_time() {
    let mut bytes = serde_json::to_vec(&header()).unwrap();
    for s in [5, 6, 70] {
        bytes.push(b'\n');
        serde_json::to_writer(&mut bytes, &tick(s * 1_000_000_000)).unwrap();
    }
    assert_eq!(read_all(&bytes).1.as_deref(), Some("the recording is cut off after line 3, 1 s from its beginning"));
    bytes.push(b'\n');
    assert_eq!(read_all(&bytes).1, None);
    bytes.extend(b"{\"at_ns\":");
    assert_eq!(read_all(&bytes).1.as_deref(), Some("the recording is cut off after line 4, 1 m 05 s from its beginning"));
}

#[test]
fn a_new_tape_that_was_cut_between_two_lines_is_known_as_cut_and_an_old_one_is_whole() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("t.jsonl");
    let mut writer = Writer::create(&path, &header()).unwrap();
    for s in 5..9 {
        writer.write(&tick(s * 1_000_000_000)).unwrap();
    }
    writer.finish().unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    assert_eq!(lines.len(), 6, "a header, four ticks, a mark");
    let (all, cut) = read_all(text.as_bytes());
    assert_eq!((all.len(), cut), (4, None));
    let at = |kept: usize| read_all(lines[..kept].concat().as_bytes());
    assert_eq!(at(5).1.as_deref(), Some("the recording is cut off after line 5, 3 s from its beginning"), "only the mark is missing");
    assert_eq!(at(3).1.as_deref(), Some("the recording is cut off after line 3, 1 s from its beginning"));
    assert_eq!(at(3).0[..], all[..2]);
    // What earlier versions wrote: no promise, and no mark.
    let old = serde_json::to_string(&header()).unwrap() + "\n" + &lines[1..3].concat();
    let (some, cut) = read_all(old.as_bytes());
    assert_eq!((some.len(), cut), (2, None));
    // An earlier version reads the mark as an observation of a kind that it does not know.
    let mark: Observation = serde_json::from_str(lines[5]).unwrap();
    assert_eq!(mark.body, Body::Unknown);
}

#[test]
fn kinds_and_fields_of_later_versions_are_skipped() {
    let mut bytes = serde_json::to_vec(&header()).unwrap();
    bytes.extend(b"\n{\"at_ns\":5,\"from\":\"warp\",\"kind\":\"warp_drive\",\"factor\":9}\n{\"at_ns\":6,\"from\":\"feed\",\"kind\":\"tick\",\"new\":1}\n");
    let (all, _) = read_all(&bytes);
    assert_eq!(all[0].body, Body::Unknown);
    assert_eq!(all[1].body, Body::Tick);
}

#[test]
fn what_is_no_tape_is_named() {
    for (bytes, says) in [
        (&b""[..], "the file is empty"),
        (b"step 1\n", "not a recording of nccl-top"),
        (b"\x1f\x8b\x00garbage", "not a recording"),
        (b"{\"tape\":\"nccl-top\",\"version\":99,\"program\":\"9\",\"host\":\"h\"}\n", "update nccl-top"),
    ] {
        let err = Reader::from_read(Box::new(io::Cursor::new(bytes.to_vec())), "x.jsonl").err().expect("an error").to_string();
        assert!(err.starts_with("x.jsonl: ") && err.contains(says), "{err}");
    }
}
