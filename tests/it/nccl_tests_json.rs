//! What nccl-tests writes with `-J`.

use crate::nccl_tests_tables::judge;
use nccl_top::base::severity::Severity;
use nccl_top::formats::nccl_tests::parse_json as parse;
use proptest::prelude::*;

const WHOLE: &str = r#"{"version":2,"start_time":"2026-01-01 10:00:00","args":["./build\/all_reduce_perf","-g","8"],
        "env":["SECRET_TOKEN=hunter2","A=[{\"x"],"nccl_version":22809,
        "config":{"nthreads":1,"ngpus":8,"step_factor":4,"blocking_collectives":"false","devices":[{"rank":0,"group":0,"hostname":"vm"}]},
        "results":[{"size":8,"count":2,"type":"float","redop":"sum","root":"    -1",
            "out_of_place":{"time":21.5,"alg_bw":0.000372,"bus_bw":0.000651,"nwrong":0.000000},
            "in_place":{"time":20.5,"alg_bw":0.00039,"bus_bw":"nan","nwrong":0.0},"actual_iterations":20,"experiment_name":""},
          {"size":1073741824,"count":268435456,"type":"float","redop":"sum","root":"    -1","out_of_place":null,
            "in_place":{"cpu_time":5212.2,"alg_bw":206.01,"bus_bw":360.51,"nwrong":null}}],
        "out_of_bounds":{"count":0,"okay":"true"},"average_bus_bandwidth":{"bandwidth":180.25,"okay":"unchecked"},
        "errors":[""],"end_time":"2026-01-01 10:00:10"}"#;

#[test]
fn a_whole_file_is_read() {
    let table = parse(WHOLE).unwrap();
    assert_eq!((table.collective.as_deref(), table.ranks, table.rows.len()), (Some("all_reduce"), Some(8), 2));
    assert_eq!((table.wrong, table.complete, table.avg_busbw_gbytes_per_s), (Some(0), true, Some(180.25)));
    assert_eq!(table.rows[0].in_place.unwrap().busbw, None, "nan");
    assert_eq!((table.rows[0].root, table.rows[1].out_of_place), (None, None));
    let peak = table.peak.unwrap();
    assert_eq!((peak.busbw_gbytes_per_s, peak.size_bytes, peak.in_place), (360.51, 1 << 30, true));
    assert_eq!((table.fast_enough, judge(&table, "x.json")), (None, vec![]));
}

#[test]
fn a_killed_run_gives_what_it_measured() {
    for end in 1..WHOLE.trim_end().len() {
        let table = parse(&WHOLE[..end]).unwrap();
        assert!(table.rows.len() <= 2);
    }
    let cut = &WHOLE[..WHOLE.find("\"in_place\":{\"cpu_time\"").unwrap()];
    let table = parse(cut).unwrap();
    assert_eq!((table.rows.len(), table.unfinished, table.complete), (1, Some((1 << 30, 0)), false));
    let found = judge(&table, "x.json");
    assert_eq!(
        (found[0].severity, found[0].summary.as_str()),
        (Severity::Warning, "nccl-tests all_reduce did not finish: it stopped at 1 GiB")
    );
}

#[test]
fn failures_of_the_file_are_judged() {
    let text =
        WHOLE.replace("\"nwrong\":null", "\"nwrong\":17").replace("{\"count\":0,\"okay\":\"true\"}", "{\"count\":1,\"okay\":\"false\"}");
    let table = parse(&text.replace("\"unchecked\"", "false")).unwrap();
    assert_eq!((table.wrong, table.fast_enough), (Some(17), Some(false)));
    let summaries: Vec<String> = judge(&table, "x.json").into_iter().map(|found| found.summary).collect();
    assert_eq!(summaries[0], "nccl-tests all_reduce: 17 wrong elements");
    assert!(summaries[1].contains("NCCL_TESTS_MIN_BW"), "{summaries:?}");
}

#[test]
fn processes_and_devices_are_counted() {
    let config = |text: &str| parse(&format!(r#"{{"version":1,"config":{text},"results":[]}}"#)).unwrap().ranks;
    assert_eq!(config(r#"{"nthreads":1,"ngpus":1,"devices":[{"rank":0},{"rank":1}]}"#), Some(2));
    assert_eq!(config(r#"{"nthreads":1,"ngpus":4,"devices":[{"rank":0},{"rank":4}]}"#), Some(8));
    assert_eq!(config(r#"{"nthreads":1,"ngpus":2,"devices":[{"rank":0},{"rank":1}]}"#), Some(2));
    assert_eq!(config(r#"{"devices":[]}"#), None);
}

#[test]
fn what_is_wrong_is_said_without_quoting() {
    let err = parse(r#"{"version":1,"env":["SECRET=hunter2"],"results":"hunter2"}"#).unwrap_err();
    assert!(err.starts_with("not the JSON that nccl-tests writes") && !err.contains("hunter2"), "{err}");
    assert!(parse("hello").is_err());
}

proptest! {
    #[test]
    fn no_mutation_makes_it_panic(at in 0..WHOLE.len(), len in 0_usize..40, with in "\\PC{0,8}") {
        let (Some(before), Some(after)) = (WHOLE.get(..at), WHOLE.get((at + len).min(WHOLE.len())..)) else { return Ok(()) };
        if let Ok(table) = parse(&format!("{before}{with}{after}")) {
            judge(&table, "x.json");
        }
    }
}
