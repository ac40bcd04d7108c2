//! Answers of NCCL's RAS service, in JSON and as text.

use crate::support::fixture;
use nccl_top::formats::ras::{parse, *};
use proptest::prelude::*;

/// Answers of NCCL 2.28.9 on 8 H200, recorded 2026-11-21. A last line `# took` is the recorder's.
fn recorded(name: &str) -> String {
    let text = fixture(&format!("ras/{name}"));
    text.split("\n# ").next().unwrap().to_string()
}

fn counts(comm: &RasComm, op: Collective) -> Vec<(PartValue, u32)> {
    comm.op_counts(op).into_iter().map(|part| (part.value, part.rank_count)).collect()
}

#[test]
fn a_hang_shows_who_is_behind_in_both_formats() {
    for name in ["hang-5.json", "hang-5.txt"] {
        let report = parse(&recorded(name)).unwrap();
        assert_eq!(report.nccl_version.as_deref(), Some("2.28.9"));
        assert_eq!(report.comms[0].hash, 0xbe2d_e794_bcb5_9ec0);
        let parts = report.comms[0].op_counts(Collective::AllReduce);
        let behind = &parts[0];
        assert_eq!((&behind.value, behind.rank_count, behind.ranks[0].0), (&PartValue::Count(229), 1, 3), "{name}");
        assert_eq!(behind.ranks[0].1.pid, Some(2939));
        assert_eq!((&parts[1].value, parts[1].rank_count), (&PartValue::Count(241), 7));
    }
}

#[test]
fn a_stopped_process_is_missing_in_both_formats() {
    let json = parse(&recorded("stop-4.json")).unwrap();
    assert_eq!(json.timeouts_count, 2);
    assert_eq!(json.collection_time_s, Some(3.347));
    let comm = &json.comms[0];
    assert_eq!((comm.hash, comm.size, comm.ranks.len(), comm.missing_count), (0x41b7_b3e9_a4b3_d962, Some(8), 7, 1));
    let place = RasPlace { host: Some("192.0.2.2".into()), pid: Some(1837), cuda_dev: Some(4), nvml_dev: Some(4) };
    assert_eq!(comm.missing, [RasMissing { rank: 4, place: place.clone(), unresponsive: Some(true), considered_dead: Some(false) }]);

    let text = parse(&recorded("stop-4.txt")).unwrap();
    let comm = &text.comms[0];
    assert_eq!((comm.hash, comm.size, comm.missing_count), (0x41b7_b3e9_a4b3_d962, Some(8), 1));
    assert_eq!(comm.missing, [RasMissing { rank: 4, place, unresponsive: None, considered_dead: None }]);
    assert_eq!(text.missing_processes.listed, [RasProcess { pid: 1837, host: "192.0.2.2".into(), gpus: vec![4] }]);
    assert_eq!(text.groups[0].errors, "INCOMPLETE");
}

#[test]
fn a_checkpoint_leaves_the_writer_one_operation_behind() {
    for name in ["checkpoint-2.json", "checkpoint-2.txt"] {
        let report = parse(&recorded(name)).unwrap();
        let parts = report.comms[0].op_counts(Collective::AllReduce);
        assert_eq!((&parts[0].value, parts[0].ranks[0].0), (&PartValue::Count(2389), 0), "{name}");
        assert_eq!(counts(&report.comms[0], Collective::AllReduce)[1], (PartValue::Count(2390), 7));
    }
}

#[test]
fn a_symmetric_deadlock_has_equal_counts() {
    let report = parse(&recorded("symmetric-6.json")).unwrap();
    assert_eq!(report.comms.len(), 3);
    for comm in &report.comms {
        for op in Collective::ALL {
            assert_eq!(comm.op_counts(op).len(), 1, "{:x} {op:?}", comm.hash);
        }
    }
    let text = parse(&recorded("symmetric-6.txt")).unwrap();
    assert_eq!((text.comms.len(), text.groups[0].comms, text.groups[0].errors.as_str()), (0, 3, "OK"));
}

#[test]
fn a_deadlock_in_the_first_collective_has_counts_of_zero() {
    let report = parse(&recorded("init-deadlock-9.json")).unwrap();
    let idle = report.comms.iter().filter(|comm| counts(comm, Collective::AllReduce) == [(PartValue::Count(0), 8)]).count();
    assert_eq!((report.comms.len(), idle), (3, 2));
    assert!(report.comms.iter().flat_map(|comm| &comm.ranks).all(|rank| rank.init_state == 0 && !rank.aborted));
}

#[test]
fn what_is_no_report_is_said_to_be_none() {
    assert_eq!(parse(""), Err(RasError::Empty));
    assert_eq!(parse("SERVER PROTOCOL 2\nOK\n"), Err(RasError::Empty));
    assert_eq!(parse("ERROR: Unknown command foo\n"), Err(RasError::Refused("ERROR: Unknown command foo".into())));
    assert!(matches!(parse("220 smtp ready\r\n"), Err(RasError::NotAReport(_))));
}

#[test]
fn a_cut_answer_is_no_report() {
    for name in ["stop-4.json", "hang-5.json"] {
        let whole = recorded(name);
        for end in (200..whole.trim_end().len()).step_by(97) {
            assert!(matches!(parse(&whole[..end]), Err(RasError::CutOff(_))), "{name} cut at {end}");
        }
    }
    let whole = recorded("stop-4.txt");
    for end in 60..whole.find("Warnings").unwrap() {
        assert!(matches!(parse(&whole[..end]), Err(RasError::CutOff(_))), "cut at {end}");
    }
}

#[test]
fn an_old_server_refuses_json_and_answers_in_text() {
    let text = recorded("hang-5.txt");
    let reply = format!("SERVER PROTOCOL 2\nOK\nERROR: Unknown command set format json\n{}", &text[text.find("NCCL version").unwrap()..]);
    assert_eq!(parse(&reply).unwrap().comms.len(), 1);
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(reply in "\\PC*", lines in proptest::collection::vec("( {0,2}(Rank|Process|INCOMPLETE|#0-0 \\(\\PC{0,16}\\) MISMATCH|Errors|Warnings|[0-9 ]{0,40}) ?\\PC{0,40})?", 0..20)) {
        let _ = parse(&reply);
        let _ = parse(&format!("{{{reply}"));
        let _ = parse(&format!("NCCL version {reply}\nCommunicators...\n{}", lines.join("\n")));
    }

    #[test]
    fn no_damage_to_an_answer_makes_it_panic(which in 0usize..4, at in 0.0f64..1.0, byte in 0u8..128, cut in any::<bool>()) {
        let mut bytes = recorded(["stop-4.json", "stop-4.txt", "hang-5.json", "init-deadlock-4.txt"][which]).into_bytes();
        let at = (at * bytes.len() as f64) as usize;
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        let _ = parse(&String::from_utf8(bytes).unwrap());
    }
}

const HEAD: &str = "NCCL version 2.26.2 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version 12080\n\nJob summary\n\
    ===========\n\n\
    Communicators... (2.05s)\n=============\n\n\
    Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
    \x20   #  in group  per comm  per node  per comm  in group\n\
    \x20   0         1         4       7-8        32        31   RUNNING  INCOMPLETE,MISMATCH\n\
    \x20   1         8         4         1         4        32   RUNNING      OK\n\n";

fn report(errors: &str, warnings: &str) -> RasReport {
    parse(&format!("{HEAD}Errors\n======\n\n{errors}\nWarnings\n========\n\n{warnings}\n")).unwrap()
}

#[test]
fn the_table_gives_the_shape_of_the_communicators() {
    let report = report("", "");
    assert_eq!(report.nccl_version.as_deref(), Some("2.26.2"));
    assert_eq!(report.collection_time_s, Some(2.05));
    let first = RasGroup {
        group: 0,
        comms: 1,
        nodes_per_comm: 4,
        ranks_per_comm: 32,
        ranks_in_group: 31,
        status: "RUNNING".into(),
        errors: "INCOMPLETE,MISMATCH".into(),
    };
    assert_eq!((report.groups.len(), &report.groups[0]), (2, &first));
    assert!(report.comms.is_empty());
}

#[test]
fn missing_and_dead_processes_are_listed() {
    let errors = "INCOMPLETE\n  Missing communicator data from 3 job processes\n  Process 3487984 on node 172.16.64.213 managing GPU 5\n\
        \x20 Process 99 on node 172.16.64.214 managing GPUs 0,1 (NVML 2,3)\n  [could not find information on 1 process]\n\n\
        DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n  Process 7 on node fe80::1 managing GPU 0\n\n\
        #0-0 (cf264af53edbe986) INCOMPLETE\n  Missing communicator data from 2 ranks\n\
        \x20 Rank 21 -- GPU 5 (NVML 6) managed by process 3487984 on node 172.16.64.213\n  Rank 22 -- [process information not found]\n\n";
    let report = report(errors, "TIMEOUT\n  Encountered 2 communication timeouts while gathering communicator data\n\n");
    assert_eq!(report.timeouts_count, 2);
    assert_eq!(report.missing_processes.count, 3);
    assert_eq!(report.missing_processes.listed[1], RasProcess { pid: 99, host: "172.16.64.214".into(), gpus: vec![0, 1] });
    assert_eq!((report.dead_processes.count, report.dead_processes.listed[0].pid), (1, 7));
    let comm = &report.comms[0];
    assert_eq!((comm.hash, comm.size, comm.nnodes, comm.missing_count), (0xcf26_4af5_3edb_e986, Some(32), Some(4), 2));
    assert_eq!((comm.missing[0].rank, comm.missing[0].place.cuda_dev, comm.missing[0].place.nvml_dev), (21, Some(5), Some(6)));
    assert_eq!((comm.missing[1].rank, &comm.missing[1].place), (22, &RasPlace::default()));
}

#[test]
fn the_oldest_versions_list_missing_ranks_in_a_row() {
    for (line, ranks) in [("The missing rank: 21", vec![21]), ("The missing ranks: 20,21", vec![20, 21])] {
        let errors = format!("#0-0 (1) INCOMPLETE\n  Missing communicator data from {} rank\n  {line}\n\n", ranks.len());
        let comm = &report(&errors, "").comms[0];
        assert_eq!(comm.missing.iter().map(|m| m.rank).collect::<Vec<_>>(), ranks);
    }
}

#[test]
fn differences_are_kept_block_by_block() {
    let warnings = "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different status\n  30 ranks have status RUNNING\n\
        \x20 Rank 5 has status FINALIZE -- GPU 5 managed by process 483077 on node 172.16.64.210\n\
        \x20 Communicator ranks have different AllReduce operation counts\n  30 ranks have launched up to operation 6650\n\
        \x20 2 ranks have not launched any operations\n  Rank 5 -- GPU 5 managed by process 483077 on node 172.16.64.210\n\
        \x20 Rank 6 -- GPU 6 managed by process 483078 on node 172.16.64.210\n\n";
    let comm = &report("", warnings).comms[0];
    assert_eq!(comm.spreads[0].of, SpreadOf::Status);
    assert_eq!(comm.spreads[0].parts[1].value, PartValue::Said("FINALIZE".into()));
    let counts = comm.op_counts(Collective::AllReduce);
    let none = &counts[0];
    assert_eq!((&none.value, none.rank_count), (&PartValue::Count(0), 2));
    assert_eq!(none.ranks.iter().map(|(rank, place)| (*rank, place.pid)).collect::<Vec<_>>(), [(5, Some(483077)), (6, Some(483078))]);
    assert_eq!((&counts[1].value, counts[1].rank_count), (&PartValue::Count(6650), 30));
    assert!(comm.missing.is_empty());
}

#[test]
fn the_oldest_versions_count_all_collectives_together() {
    let warnings = "#1-3 (00000000000000ff) MISMATCH\n  Communicator ranks have different collective operation counts\n\
        \x20 3 ranks have launched up to operation 10\n  Rank 0 has launched up to operation 9 -- GPU 0 managed by process 4 on node ::1\n\n";
    let comm = &report("", warnings).comms[0];
    assert_eq!((comm.hash, comm.size, comm.spreads[0].of), (255, Some(4), SpreadOf::Count(None)));
    assert_eq!(comm.spreads[0].parts[1].ranks[0].1.host.as_deref(), Some("::1"));
}

#[test]
fn errors_of_ranks_are_kept_in_their_words() {
    let errors = "#0-0 (1) ERROR\n  Initialization error on 1 rank\n\
        \x20 Rank 2 reported Unhandled CUDA error -- GPU 2 managed by process 4 on node 10.0.0.1\n\
        \x20 Asynchronous errors on 2 ranks\n  2 ranks reported Remote process error\n\n";
    let comm = &report(errors, "#0-0 (1) MISMATCH\n  Communicator ranks have different status\n  2 ranks have status RUNNING\n\n").comms[0];
    let seen: Vec<_> = comm.spreads.iter().map(|s| (s.of, s.parts[0].value.clone(), s.parts[0].rank_count)).collect();
    let said = |words: &str| PartValue::Said(words.into());
    assert_eq!(
        seen,
        [
            (SpreadOf::InitError, said("Unhandled CUDA error"), 1),
            (SpreadOf::AsyncError, said("Remote process error"), 2),
            (SpreadOf::Status, said("RUNNING"), 2),
        ]
    );
}

#[test]
fn nothing_gathered_is_a_report_without_communicators() {
    let text = "NCCL version 2.27.3 compiled with CUDA 12.8\n\nCommunicators... (0.00s)\n=============\n\n\
        No communicator data collected!\n\nErrors\n======\n\nWarnings\n========\n\n";
    assert_eq!(parse(text).unwrap().comms, []);
}

#[test]
fn the_forgotten_comma_is_put_back_and_no_other() {
    let answer = |rest: &str| {
        format!(
            r#"{{"communicators":[{{"hash":"0x1","size":2,"missing_ranks_count":1,"missing_ranks":[{{"rank":1,"host":"\"nvml_dev\": 4 ","pid":5,"cuda_dev":1,{rest}}}]}}]}}"#
        )
    };
    let status = r#""status": {"unresponsive":false,"considered_dead":true}"#;
    let right = parse(&answer(&format!(r#""nvml_dev": 4, {status}"#))).unwrap();
    assert_eq!(right.comms[0].missing[0].place.host.as_deref(), Some("\"nvml_dev\": 4 "));
    assert_eq!(right.comms[0].missing[0].place.nvml_dev, Some(4));
    for broken in [r#""nvml_dev": 4 "#, r#""nvml_dev":4"#, "\"nvml_dev\" : 4\n  "] {
        assert_eq!(parse(&answer(&format!("{broken}{status}"))).as_ref(), Ok(&right), "{broken}");
    }
}

#[test]
fn a_process_that_ras_knows_nothing_of_has_no_place() {
    let text = r#"{"communicators":[{"hash":"0x1","size":2,"missing_ranks_count":1,"missing_ranks":[{"rank":1,"host":"unknown",
            "pid":-1,"cuda_dev":-1,"nvml_dev":-1,"status":{"unresponsive":false,"considered_dead":true},"new":[1]}]}],"more":{}}"#;
    let comm = &parse(text).unwrap().comms[0];
    let expected = RasMissing { rank: 1, place: RasPlace::default(), unresponsive: Some(false), considered_dead: Some(true) };
    assert_eq!((comm.hash, comm.missing.as_slice()), (1, [expected].as_slice()));
}
