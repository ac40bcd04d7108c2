//! Flight Recorder dumps as bytes: whole, of all versions, cut, hostile.

use crate::support::dumps::{Job, pickle2, pickle4, recorded};
use nccl_top::formats::flight_recorder::{DumpError, State, Status, looks_like, rank_of_name, read};
use proptest::prelude::*;
use serde_json::{Value, json};
use std::sync::Arc;

fn small() -> Value {
    let mut job = Job::new(&[("0", &[0, 1])]);
    job.call(0, "0", 1, "all_reduce", 300, true);
    job.with(0, json!({"duration_ms": 1.5, "thread_name": "pt_autograd_0", "thread_id": "140"}));
    job.call(0, "0", 2, "_all_gather_base", 70_000, false);
    let mut value = job.value(0);
    value["pg_status"] = json!({"0": {"last_enqueued_collective": 2, "last_started_collective": -1, "last_completed_collective": 1}});
    value
}

#[test]
fn a_recorded_dump_has_all_its_fields() {
    let dump = read(&recorded("hang")[&3]).unwrap();
    assert_eq!((dump.version, dump.entries.len()), (Some((2, 10)), 235));
    assert_eq!(dump.groups["0"].ranks.as_ref(), [0, 1, 2, 3, 4, 5, 6, 7]);
    assert_eq!(dump.status[&0], Status { enqueued: Some(235), started: None, completed: Some(235) });
    let first = &dump.entries[0];
    assert_eq!((first.name.as_ref(), first.seq, first.group.as_deref()), ("nccl:all_gather", Some(1), Some("0")));
    assert_eq!(first.frames[0].name.as_ref(), "_verify_param_shape_across_processes");
    assert_eq!(first.own_frame().unwrap().file.as_ref(), "/workspace/train/job-0042/fault_train.py");
    assert!(Arc::ptr_eq(&first.frames[2], &dump.entries[1].frames[2]), "what the file shares stays shared");
    let last = &dump.entries[234];
    assert_eq!((last.state, last.retired, last.timeout_ms), (Some(State::Completed), Some(true), Some(20000)));
    assert_eq!((last.created_ns, last.completed_ns), (Some(1_795_219_443_199_430_864), Some(1_795_219_443_269_113_923)));
    assert_eq!((last.input_sizes[0].as_ref(), last.input_dtypes[0].as_ref()), (&[16_781_312][..], "BFloat16"));
}

#[test]
fn groups_that_share_one_long_list_are_bounded() {
    let ranks: Vec<String> = (0..65_536).map(|rank| rank.to_string()).collect();
    let ranks = format!("[{}]", ranks.join(", "));
    let with = |groups: usize| {
        let config = (0..groups).map(|name| (name.to_string(), json!({"desc": "undefined", "ranks": ranks}))).collect();
        pickle2(&json!({"pg_config": Value::Object(config), "entries": []}))
    };
    assert_eq!(read(&with(64)).unwrap().groups["63"].ranks.len(), 65_536);
    assert_eq!(read(&with(65)), Err(DumpError::NotADump("its groups have more than four million members")));
}

#[test]
fn all_forms_say_the_same() {
    let value = small();
    let dump = read(&pickle2(&value)).unwrap();
    assert_eq!(read(&pickle4(&value)).unwrap(), dump);

    let mut json = value.clone();
    json["pg_status"] = json!({"0": {"last_enqueued_collective": "2", "last_started_collective": "-1", "last_completed_collective": "1"}});
    for entry in json["entries"].as_array_mut().unwrap() {
        let fields = entry.as_object_mut().unwrap();
        fields.remove("frames");
        fields.values_mut().filter(|v| v.is_null()).for_each(|v| *v = json!(0));
    }
    let mut without_frames = dump.clone();
    without_frames.entries.iter_mut().for_each(|entry| entry.frames = Arc::from([]));
    assert_eq!(read(json.to_string().as_bytes()).unwrap(), without_frames);
    assert!(read(br#"{"version": "2.10", "pg_config": {}}"#).unwrap().entries.is_empty());
}

#[test]
fn every_version_of_the_layout_is_read() {
    for (text, version) in [("1.4", (1, 4)), ("2.1", (2, 1)), ("2.4", (2, 4)), ("2.9", (2, 9)), ("2.10", (2, 10))] {
        assert_eq!(read(&pickle2(&json!({"version": text, "entries": []}))).unwrap().version, Some(version));
    }
    let old =
        json!([{"seq_id": 7, "time_created_us": 5, "profiling_name": "nccl:all_reduce", "state": "scheduled", "input_sizes": [[2, 3]]}]);
    let dump = read(&pickle2(&old)).unwrap();
    assert_eq!((dump.version, dump.entries[0].seq, dump.entries[0].created_ns), (None, Some(7), Some(5000)));
    assert_eq!(dump.entries[0].retired, None);
    let torch_2_3 = json!({"version": "1.4", "entries": [{"pg_name": "tp", "seq_id": 3, "profiling_name": "nccl:reduce"}]});
    let entry = &read(&pickle2(&torch_2_3)).unwrap().entries[0];
    assert_eq!((entry.group.as_deref(), entry.seq), (Some("tp"), Some(3)));
}

#[test]
fn a_pickle_that_calls_something_is_refused() {
    let words = |bytes: &[u8]| read(bytes).unwrap_err().to_string();
    let lines = b"\x80\x02cos\nsystem\n(X\x02\0\0\0idtR.";
    assert_eq!(words(lines), "refused: at byte 2 it would call os.system (GLOBAL); a Flight Recorder dump never does");
    let stack = b"\x80\x04\x8c\x05posix\x94\x8c\x06system\x94\x93.";
    assert_eq!(words(stack), "refused: at byte 19 it would call posix.system (STACK_GLOBAL); a Flight Recorder dump never does");
    assert_eq!(
        words(b"\x80\x02(icoll\x1bections\nx\n."),
        "refused: at byte 3 it would call coll?ections.x (INST); a Flight Recorder dump never does"
    );
    for op in [b'R', b'b', b'o', 0x81, 0x92, 0x82, 0x83, 0x84, b'P', b'Q', 0x97, 0x98] {
        assert!(matches!(read(&[0x80, 4, b'N', op]), Err(DumpError::Refused { at: 3, calls: None, .. })), "{op:#x}");
    }
}

#[test]
fn what_is_no_dump_is_said_to_be_none() {
    assert_eq!(read(b""), Err(DumpError::Empty));
    assert!(matches!(read(b"hello"), Err(DumpError::Unrecognised(_))));
    assert!(matches!(read(b"\x80\x02}."), Err(DumpError::NotADump(_))));
    assert!(matches!(read(b"\x80\x02K\x05."), Err(DumpError::NotADump(_))));
    assert!(matches!(read(b"{\"a\": 1}"), Err(DumpError::NotADump(_))));
    assert!(matches!(read(b"{\"entries\": tru}"), Err(DumpError::Json(_))));
    assert_eq!(read(b"{\"entries\": ["), Err(DumpError::CutOff { at: 13 }));
    assert_eq!(read(b"\x80\x02\xff"), Err(DumpError::UnknownOpcode { at: 2, byte: 0xff }));
    assert!(matches!(read(b"\x80\x02h\x01."), Err(DumpError::Malformed { at: 2, .. })));
    assert!(matches!(read(b"\x80\x02X\xff\xff\xff\xffab"), Err(DumpError::CutOff { .. })), "the length is not believed");
}

#[test]
fn a_cut_pickle_is_said_to_be_cut_wherever_it_is() {
    let whole = pickle2(&small());
    for bytes in [&whole, &pickle4(&small())] {
        for end in 1..bytes.len() {
            assert_eq!(read(&bytes[..end]), Err(DumpError::CutOff { at: end }));
        }
    }
    let real = &recorded("hang")[&3];
    for end in (1..real.len()).step_by(311) {
        assert_eq!(read(&real[..end]), Err(DumpError::CutOff { at: end }));
    }
    assert_eq!(read(&[whole.as_slice(), b"left over"].concat()), read(&whole), "what follows the end does no harm");
}

#[test]
fn depth_circles_and_shared_lists_are_bounded() {
    let deep = [b"\x80\x02".as_slice(), &b"]".repeat(100), &b"a".repeat(99), b"."].concat();
    assert!(matches!(read(&deep), Err(DumpError::Malformed { .. })));
    let circle = b"\x80\x02]q\0h\0a.";
    assert!(matches!(read(circle), Err(DumpError::Malformed { what: "a container is put into itself", .. })));
    let longer = b"\x80\x02]q\0]q\x01h\0a0h\0h\x01a.";
    assert!(matches!(read(longer), Err(DumpError::Malformed { .. })));

    // A list of ten of the list before, forty times: as sizes and frames of an entry.
    let mut laughs = b"\x80\x02}(X\x07\0\0\0entries](}(X\x0b\0\0\0input_sizesX\x03\0\0\0lol".to_vec();
    for i in 0..40u8 {
        laughs.extend([b'q', i, b'0', b']', b'(']);
        laughs.extend([b'h', i].repeat(10));
        laughs.push(b'e');
    }
    laughs.extend(b"q\x64X\x06\0\0\0framesh\x64ueu.");
    assert_eq!(read(&laughs).unwrap().entries.len(), 1);
}

#[test]
fn one_entry_shared_very_often_stays_cheap() {
    let mut bytes = b"\x80\x02}(X\x07\0\0\0entries](".to_vec();
    bytes.extend(b"}(X\x0b\0\0\0input_sizes](](".iter().chain(b"K\x01".repeat(10_000).iter()).chain(b"eeuq\0"));
    bytes.extend(b"h\0".repeat(50_000));
    bytes.extend(b"eu.");
    let dump = read(&bytes).unwrap();
    assert_eq!((dump.entries.len(), dump.entries[7].input_sizes[0].len()), (50_001, 64));
}

#[test]
fn a_rank_stands_at_the_end_of_the_name() {
    let names = ["nccl_trace_rank_12", "comm_lib_trace_rank_3", "fr_0", "x_4.pickle", "/tmp/fr_5.json", "a1_7.pkl.gz", "fr_8.gz"];
    assert_eq!(names.map(rank_of_name), [12, 3, 0, 4, 5, 7, 8].map(Some));
    assert_eq!(["trace", "fr_.pickle", "", "fr_99999999999", "notes2.txt"].map(rank_of_name), [None; 5]);
}

#[test]
fn a_dump_is_known_by_its_first_bytes() {
    assert!(looks_like(&recorded("hang")[&0]) && looks_like(&pickle4(&small())) && looks_like(small().to_string().as_bytes()));
    assert!(!looks_like(b"{\"a\": 1}") && !looks_like(b"step 12") && !looks_like(b"") && !looks_like(b"\x80\x01"));
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = read(&body);
        let _ = read(&[b"\x80\x02".as_slice(), &body].concat());
    }

    #[test]
    fn no_damage_makes_it_panic(rank in 0u32..2, damage in proptest::collection::vec((0.0f64..1.0, any::<u8>()), 1..8)) {
        let mut bytes = if rank == 0 { pickle2(&small()) } else { pickle4(&small()) };
        for (at, byte) in damage {
            let at = (at * bytes.len() as f64) as usize;
            bytes[at] = byte;
        }
        if let Ok(dump) = read(&bytes) {
            let _ = nccl_top::formats::flight_recorder::judge(&[(rank, dump.clone()), (rank + 1, dump)].into());
        }
    }
}
