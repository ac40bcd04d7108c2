//! Files of the NCCL Inspector: its records, and its metrics.

use crate::support::fixture;
use nccl_top::formats::inspector::*;
use proptest::prelude::*;

fn read(text: &str) -> Inspector {
    let mut file = Inspector::new("x.log");
    for (no, line) in (1..).zip(text.lines()) {
        file.line(line, no);
    }
    file
}

#[test]
fn a_recorded_rank_is_summed_up() {
    let file = read(&fixture("reports/inspector-rank0.log"));
    assert_eq!((file.hostname.as_deref(), file.pid, file.format_version.as_deref()), (Some("vm"), Some(5457), Some("v4.0")));
    assert_eq!((file.records, file.bad_lines, file.comms.len()), (131, 0, 1));
    let comm = &file.comms[0];
    assert_eq!((comm.id.as_str(), comm.rank, comm.n_ranks, comm.nnodes), ("fec30663df8340", 0, 8, Some(1)));
    assert_eq!((comm.sequence["AllReduce"], comm.sequence["Broadcast"]), ((0, 208), (0, 4)));
    let stats = &comm.groups[&Group { name: "AllReduce".into(), p2p: false, from_bytes: 1 << 25 }];
    assert_eq!((stats.smallest_bytes, stats.largest_bytes), (33_562_624, 33_562_624));
    assert_eq!(stats.timing_source.as_deref(), Some("kernel_gpu"));
    let (median, p95) = (stats.median_exec_us().unwrap(), stats.p95_exec_us().unwrap());
    assert!((390.0..490.0).contains(&median) && p95 > 250_000.0, "{median} {p95}");
    let (middle, best) = (stats.median_busbw_gbytes_per_s().unwrap(), stats.max_busbw_gbytes_per_s.unwrap());
    assert!(middle > 100.0 && middle < best && best < 300.0, "{middle} {best}");
}

#[test]
fn ids_join_what_they_are_the_beginning_of() {
    let full = 0xfec3_0663_df83_4094;
    assert!(joins("0xfec30663df8340", full) && joins("fec30663df834094", full) && joins("0xFEC30663DF8340", full));
    assert!(joins("0x7f8c496ae9f661", 0x7f_8c49_6ae9_f661) && joins("0x1f", 0x1f));
    assert!(!joins("0xfec30663df8341", full) && !joins("0xfec3", full) && !joins("", full) && !joins("", 0));
}

#[test]
fn sends_strings_in_place_of_numbers_and_torn_lines_are_read() {
    let record = |perf: &str| {
        format!(
            "{{\"header\":{{\"id\":\"0x1\",\"comm_name\":\"pp\",\"rank\":1,\"n_ranks\":2}},\"metadata\":{{\"dump_timestamp_us\":5,\"pid\":7}},{perf}}}\n"
        )
    };
    let send = r#""p2p_perf":{"p2p":"Send","p2p_sn":4,"p2p_peer":0,"p2p_msg_size_bytes":0,"p2p_exec_time_us":10,"p2p_timing_source":"kernel_gpu","p2p_busbw_gbs":1.5}"#;
    let nan = r#""coll_perf":{"coll":"Reduce","coll_sn":9,"coll_msg_size_bytes":12,"coll_exec_time_us":"nan","coll_busbw_gbs":"nan","event_trace_sn":{"a":1},"event_trace_ts":{"kernel_events":[{}]}}"#;
    let text = format!("{}{}{}", record(send), record(nan), &record(nan)[..90]);
    let file = read(&text);
    assert_eq!((file.records, file.bad_lines, file.first_bad_line), (2, 1, Some(3)));
    let comm = &file.comms[0];
    assert_eq!(comm.name.as_deref(), Some("pp"));
    let sends = &comm.groups[&Group { name: "Send".into(), p2p: true, from_bytes: 0 }];
    assert_eq!((sends.count, sends.median_busbw_gbytes_per_s(), sends.median_exec_us()), (1, Some(1.5), Some(10.0)));
    let reduces = &comm.groups[&Group { name: "Reduce".into(), p2p: false, from_bytes: 8 }];
    assert_eq!((reduces.count, reduces.median_exec_us(), reduces.max_busbw_gbytes_per_s), (1, None, None));
    assert_eq!(comm.sequence["Reduce"], (9, 9));
}

const COLL: &str = r#"{"coll_perf":{"coll":"AllReduce","coll_algo":"RING","coll_proto":"LL","coll_sn":5,"coll_msg_size_bytes":1024,"coll_exec_time_us":10}}"#;
const SEND: &str =
    r#"{"p2p_perf":{"p2p":"Send","p2p_sn":4,"p2p_peer":3,"p2p_msg_size_bytes":1024,"p2p_exec_time_us":10,"p2p_busbw_gbs":1.5}}"#;

/// The line before the operations of one dump of a communicator, as format v4.4 has it. Constructed from NCCL's source.
fn dump_of(id: &str, rank: u32) -> String {
    format!(
        r#"{{"header":{{"id":"0x{id}","comm_name":"unknown","rank":{rank},"n_ranks":4,"nnodes":1}},"metadata":{{"inspector_output_format_version":"v4.4","git_rev":"","rec_mechanism":"nccl_profiler_interface","dump_timestamp_us":9000000,"hostname":"n1","pid":77}},"dump_stats":{{"coll_records":1,"coll_dropped_total":0,"coll_dropped_since_last_dump":0,"p2p_records":1,"p2p_dropped_total":0,"p2p_dropped_since_last_dump":0}}}}"#
    )
}

#[test]
fn operations_without_a_header_are_those_of_the_dump_before_them() {
    let proxy = r#"{"proxy_trace":{"direction":"send","n_steps":4}}"#;
    let (ab, cd) = (dump_of("ab", 2), dump_of("cd", 1));
    let file = read(&format!("{ab}\n{COLL}\n{SEND}\n{proxy}\n{cd}\n{SEND}\n{COLL}\n{COLL}\n"));
    assert_eq!((file.records, file.bad_lines, file.pid, file.hostname.as_deref()), (8, 0, Some(77), Some("n1")));
    assert_eq!(file.format_version.as_deref(), Some("v4.4"));
    let counts = |id: &str| {
        let comm = file.comms.iter().find(|comm| comm.id == id).unwrap();
        (comm.rank, comm.n_ranks, comm.groups.iter().map(|(group, stats)| (group.name.as_str(), stats.count)).collect::<Vec<_>>())
    };
    assert_eq!(counts("ab"), (2, 4, vec![("AllReduce", 1), ("Send", 1)]));
    assert_eq!(counts("cd"), (1, 4, vec![("AllReduce", 2), ("Send", 1)]));
}

#[test]
fn operations_of_a_communicator_that_is_not_known_are_given_to_no_other() {
    let (ab, cd) = (dump_of("ab", 2), dump_of("cd", 1));
    // Before the first dump; behind one whose line is torn. A torn operation alone costs nothing else.
    let file = read(&format!("{SEND}\n{ab}\n{}\n{COLL}\n{}\n{SEND}\n{COLL}\n{cd}\n{COLL}\n", &SEND[..50], &cd[..60]));
    assert_eq!((file.records, file.bad_lines, file.first_bad_line), (4, 5, Some(1)));
    assert!(file.comms.iter().all(|comm| comm.groups.values().map(|stats| stats.count).sum::<u64>() == 1), "{:?}", file.comms);
    let mut latest = Latest::default();
    [ab.as_str(), COLL].iter().for_each(|line| latest.line(line));
    latest.skipped();
    latest.line(SEND);
    assert!(latest.comms().all(|comm| comm.peers.is_empty()));
    assert_eq!((latest.records, latest.comms().next().unwrap().ops.len()), (1, 1));
    [cd.as_str(), SEND].iter().for_each(|line| latest.line(line));
    assert_eq!((latest.records, latest.comms().find(|comm| comm.id == "cd").unwrap().ops.len()), (2, 1));
    assert_eq!(latest.comms().find(|comm| comm.id == "cd").unwrap().peers.keys().collect::<Vec<_>>(), [&(3, true)]);
    (0..1000).for_each(|peer| latest.line(&SEND.replace("p2p_peer\":3", &format!("p2p_peer\":{peer}"))));
    assert!(latest.comms().all(|comm| comm.peers.len() <= 32));
}

proptest! {
    #[test]
    fn no_mutation_makes_it_panic(at in 0_usize..440, len in 0_usize..30, with in "\\PC{0,8}|[0-9]{1,30}") {
        let whole = fixture("reports/inspector-rank0.log");
        let line = whole.lines().next().unwrap();
        if let (Some(before), Some(after)) = (line.get(..at), line.get((at + len).min(line.len())..)) {
            read(&format!("{before}{with}{after}"));
        }
    }
}

const OLD: &str = "nccl_algorithm_bandwidth_gbs{comm_id=\"0x1f\",hostname=\"n1\",rank=\"2\",slurm_job=\"a, \\\"b\\\"\",slurm_job_id=\"7\",\
    nranks=\"8\",n_nodes=\"1\",gpu_device_id=\"3\",collective=\"AllReduce\",coll_sn=\"14\",timestamp=\"1\",message_size=\"4096\"} 10.5\n";

#[test]
fn the_first_generation() {
    let other = OLD.replace("nccl_algorithm_bandwidth_gbs", "nccl_collective_exec_time_microseconds").replace("10.5", "33");
    let seen = prom::parse(&format!("# HELP x\n\n{OLD}{other}broken\nother_metric{{a=\"b\"}} 1\n"));
    assert_eq!((seen.rows.len(), seen.bad_lines), (1, 1));
    let row = &seen.rows[0];
    assert_eq!((row.comm.as_deref(), row.rank, row.n_ranks, row.gpu), (Some("0x1f"), Some(2), Some(8), Some(3)));
    assert_eq!((row.operation.as_str(), row.message_size.as_str(), row.coll_sn), ("AllReduce", "4096", Some(14)));
    assert_eq!((row.algbw_gbytes_per_s, row.busbw_gbytes_per_s, row.exec_time_us), (Some(10.5), None, Some(33.0)));
}

#[test]
fn the_second_generation() {
    let labels = "version=\"v5.1\",slurm_job_id=\"\",node=\"n1\",gpu=\"GPU0\",comm_name=\"dp\",n_nodes=\"1\",nranks=\"8\"";
    let text = format!(
        "nccl_bus_bandwidth_gbs{{{labels},collective=\"AllReduce\",message_size=\"4-5GB\",algo_proto=\"Ring_ll\"}} 350\n\
         nccl_p2p_exec_time_microseconds{{{labels},p2p_operation=\"Send\",message_size=\"4-5GB\"}} nan\n"
    );
    let seen = prom::parse(&text);
    assert_eq!((seen.rows[0].gpu, seen.rows[0].host.as_deref(), seen.rows[0].comm.as_deref()), (Some(0), Some("n1"), Some("dp")));
    assert_eq!((seen.rows[0].busbw_gbytes_per_s, seen.rows[0].algo_proto.as_deref()), (Some(350.0), Some("Ring_ll")));
    assert_eq!((seen.rows[1].p2p, seen.rows[1].operation.as_str(), seen.rows[1].exec_time_us), (true, "Send", None));
}

proptest! {
    #[test]
    fn no_mutation_of_metrics_makes_it_panic(at in 0..OLD.len(), len in 0_usize..40, with in "\\PC{0,8}") {
        if let (Some(before), Some(after)) = (OLD.get(..at), OLD.get((at + len).min(OLD.len())..)) {
            prom::parse(&format!("{before}{with}{after}"));
        }
    }
}
