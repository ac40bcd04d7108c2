//! Communicators as reports of RAS show them.

use crate::support::at;
use nccl_top::formats::ras::RasReport;
use nccl_top::model::comm::{Behind, Comm, CommRank, MissingRank, apply_report};
use std::collections::BTreeMap;
use std::time::Duration;

fn text(errors: &str, warnings: &str) -> RasReport {
    let head = "NCCL version 2.26.2 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version 12080\n\n\
        Communicators... (0.05s)\n=============\n\n\
        Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
        \x20   #  in group  per comm  per node  per comm  in group\n\
        \x20   0         1         4         8        32        32   RUNNING      OK\n\n";
    nccl_top::formats::ras::parse(&format!("{head}Errors\n======\n\n{errors}\nWarnings\n========\n\n{warnings}\n")).unwrap()
}

fn late(op: &str, many: u64, few: u64) -> String {
    format!(
        "#0-0 (27a079b828ff1a75) MISMATCH\n  Communicator ranks have different {op} operation counts\n\
         \x20 31 ranks have launched up to operation {many}\n\
         \x20 Rank 13 has launched up to operation {few} -- GPU 5 managed by process 483077 on node 10.0.0.7\n\n"
    )
}

#[test]
fn a_text_report_tells_the_counts_of_all_where_they_differ() {
    for (op, name) in [("AllReduce", "AllReduce"), ("collective", "collective")] {
        let mut comms = BTreeMap::new();
        apply_report(&mut comms, at(0), &text("", &late(op, 6650, 6640)), 9);
        let comm = &comms[&0x27a0_79b8_28ff_1a75];
        assert_eq!((comm.nranks, comm.ranks.len(), comm.in_text), (32, 32, true));
        let expected = Behind { rank: 13, collective: name.into(), have: 6640, max: 6650 };
        assert_eq!((comm.behind(), comm.still_answers), (vec![expected], 0));
        assert_eq!(comm.ranks[&13].host.as_deref(), Some("10.0.0.7"));
        apply_report(&mut comms, at(5), &text("", &late(op, 6650, 6640)), 9);
        assert_eq!(comms[&0x27a0_79b8_28ff_1a75].still_for(), Some(Duration::from_secs(5)));
        apply_report(&mut comms, at(9), &text("", &late(op, 6651, 6640)), 9);
        assert_eq!(comms[&0x27a0_79b8_28ff_1a75].still_for(), None, "they move");
    }
}

#[test]
fn what_a_text_report_no_longer_says_is_over() {
    let mut comms = BTreeMap::new();
    apply_report(&mut comms, at(0), &text("", &late("AllReduce", 9, 8)), 9);
    let gone = "DEAD\n  1 job process is considered dead (unreachable via the RAS network)\n\
        \x20 Process 7 on node 10.0.0.9 managing GPU 0\n\n#0-0 (27a079b828ff1a75) INCOMPLETE\n\
        \x20 Missing communicator data from 1 rank\n  Rank 24 -- GPU 0 managed by process 7 on node 10.0.0.9\n\n";
    apply_report(&mut comms, at(5), &text(gone, ""), 9);
    let comm = &comms[&0x27a0_79b8_28ff_1a75];
    assert!(comm.behind().is_empty() && comm.missing[&24].considered_dead, "{comm:?}");
    assert_eq!(comm.still_for(), None, "no counts is not still");
}

#[test]
fn a_text_report_of_a_size_that_cannot_be_fills_no_memory() {
    let mut comm = Comm::default();
    let mut seen = text("", &late("AllReduce", 9, 8)).comms.remove(0);
    seen.size = Some(u32::MAX);
    comm.apply(at(0), &seen, true);
    assert_eq!(comm.ranks.len(), 1);
}

/// Ranks with their counts of AllReduce and Broadcast.
fn comm(counts: &[(u64, u64)]) -> Comm {
    let rank = |(reduced, broadcast): &(u64, u64)| CommRank {
        counts: BTreeMap::from([("AllReduce".to_owned(), *reduced), ("Broadcast".to_owned(), *broadcast)]),
        ..Default::default()
    };
    Comm { nranks: counts.len() as u32, ranks: (0..).zip(counts.iter().map(rank)).collect(), ..Default::default() }
}

fn odd(counts: &[(u64, u64)]) -> Vec<(u32, usize, usize)> {
    comm(counts).odd().into_iter().map(|o| (o.rank, o.more.len(), o.fewer.len())).collect()
}

#[test]
fn who_differs_from_most_is_odd() {
    assert_eq!(odd(&[(9, 1), (9, 1), (9, 1)]), []);
    assert_eq!(odd(&[(9, 1), (8, 2), (9, 1), (9, 1)]), [(1, 1, 1)], "called another operation");
    assert_eq!(odd(&[(9, 1), (10, 1), (9, 1)]), [(1, 1, 0)], "called one more");
    assert_eq!(odd(&[(9, 1), (9, 1), (3, 1)]), [(2, 0, 1)], "is behind");
    assert_eq!(odd(&[(9, 1), (9, 1), (8, 1), (8, 1)]), [], "halves: neither is usual");
    assert_eq!(odd(&[(9, 1), (8, 2)]), [(0, 1, 1), (1, 1, 1)], "of two, each differs from the other");
    let counts = comm(&[(9, 1), (8, 2), (9, 1)]).odd().remove(0);
    assert_eq!((counts.more, counts.fewer), (vec![("Broadcast".into(), 2, 1)], vec![("AllReduce".into(), 8, 9)]));
}

#[test]
fn who_does_not_answer_is_not_compared() {
    let mut comm = comm(&[(9, 1), (3, 1), (9, 1)]);
    comm.missing.insert(1, MissingRank::default());
    assert_eq!(comm.odd(), []);
}

#[test]
fn ranks_that_a_text_report_does_not_list_count_against_the_bound() {
    let head = "NCCL version 2.26.2 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version 12080\n\n\
        Communicators... (0.05s)\n=============\n\n\
        Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
        \x20   #  in group  per comm  per node  per comm  in group\n\
        \x20   0        20      4096         8     32768    655360   RUNNING      OK\n\n";
    let comm = |i: u32| {
        format!(
            "#0-{i} (27a079b828ff1a{i:02x}) MISMATCH\n  Communicator ranks have different AllReduce operation counts\n\
             \x20 32768 ranks have launched up to operation 1\n\n"
        )
    };
    let warnings: String = (0..20).map(comm).collect();
    let report = nccl_top::formats::ras::parse(&format!("{head}Errors\n======\n\n\nWarnings\n========\n\n{warnings}\n")).unwrap();
    let mut comms = BTreeMap::new();
    let left_out = apply_report(&mut comms, at(0), &report, 4096);
    let members: usize = comms.values().map(Comm::members).sum();
    assert_eq!((comms.len(), left_out, members), (4, 16, 1 << 17));
    assert_eq!(apply_report(&mut comms, at(1), &report, 4096), 16, "those that are known are kept up to date");
}
