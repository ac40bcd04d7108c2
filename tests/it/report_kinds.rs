//! Kinds of reports by their first bytes.

use crate::support::fixture;
use nccl_top::formats::recognise::*;
use proptest::prelude::*;

#[test]
fn each_kind_is_known_by_its_first_bytes_and_taken_for_no_other() {
    let kinds: [fn(&[u8]) -> bool; 4] = [looks_like_ras, looks_like_inspector, looks_like_nccl_tests_json, looks_like_prom];
    let samples: &[(&str, Option<usize>)] = &[
        (&fixture("ras/hang-5.json"), Some(0)),
        (&fixture("ras/hang-5.txt"), Some(0)),
        ("\n# EXC ConnectionRefusedError(111, 'Connection refused')\n", Some(0)),
        ("NCCL version 2.24.3 compiled with CUDA 12.8\n", Some(0)),
        ("OK\nERROR: Unknown command set format json\nNCCL version 2.27.3 compiled with CUDA 12.8\n", Some(0)),
        (&fixture("reports/inspector-rank0.log"), Some(1)),
        ("{\"version\":1,\"start_time\":\"2026-01-01 00:00:00\",\"args\":[\"x\"],\"env\":[", Some(2)),
        ("\nnccl_bus_bandwidth_gbs{version=\"v5.1\"} 1.5\n", Some(3)),
        ("NCCL version 2.18.5+cuda12.1\nvm:1:2 [0] NCCL INFO x\n", None),
        ("{\"version\":1}", None),
        ("nccl_something{} 1", None),
        (&fixture("reports/nccl-tests-1G.log"), None),
        ("", None),
    ];
    for (text, kind) in samples {
        let text = text.as_bytes();
        let seen: Vec<usize> = (0..kinds.len()).filter(|k| kinds[*k](&text[..text.len().min(4096)])).collect();
        assert_eq!(seen, kind.iter().copied().collect::<Vec<_>>(), "{}", String::from_utf8_lossy(&text[..text.len().min(80)]));
    }
}

proptest! {
    #[test]
    fn no_bytes_make_sniffing_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        looks_like_ras(&bytes);
        looks_like_inspector(&bytes);
        looks_like_nccl_tests_json(&bytes);
        looks_like_prom(&bytes);
    }
}
