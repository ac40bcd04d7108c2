//! Findings on saved answers of RAS.

use crate::support::{fixture, judged};
use nccl_top::base::severity::{Confidence, Severity};
use nccl_top::base::time::Stamp;
use nccl_top::formats::ras;
use nccl_top::model::saved_report::SavedReport;
use nccl_top::rules::findings::Finding;
use proptest::prelude::*;

/// Answers of NCCL 2.28.9 on 8 H200, with the recorder's lines.
fn look(name: &str) -> SavedReport {
    SavedReport::read(name, &fixture(&format!("ras/{name}")), None).unwrap()
}

/// What these answers show, in the order in which they were taken.
fn judge(looks: &[SavedReport]) -> Vec<Finding> {
    judged(|record| record.reports.extend_from_slice(looks))
}

fn found(names: &[&str]) -> Vec<Finding> {
    judge(&names.iter().map(|name| look(name)).collect::<Vec<_>>())
}

fn only(names: &[&str]) -> Finding {
    let mut all = found(names);
    assert_eq!(all.len(), 1, "{names:?}: {all:#?}");
    all.remove(0)
}

/// The same answers, with the times that the caller knows.
fn timed(names: &[(&str, i64)]) -> Vec<Finding> {
    let looks: Vec<SavedReport> =
        names.iter().map(|(name, secs)| SavedReport { at: Some(Stamp(secs * 1_000_000_000)), written: None, ..look(name) }).collect();
    judge(&looks)
}

#[test]
fn a_hang_names_the_rank_that_is_behind() {
    let hang = only(&["hang-2.json", "hang-2.txt", "hang-5.json", "hang-5.txt"]);
    assert_eq!((hang.rule, hang.severity, hang.confidence), ("hang-rank-absent", Severity::Critical, Confidence::Likely));
    assert_eq!(
        (hang.ranks.as_slice(), hang.gpus.as_slice(), hang.hosts.as_slice()),
        ([3].as_slice(), [3].as_slice(), ["192.0.2.2".to_owned()].as_slice())
    );
    assert_eq!(hang.summary, "rank 3 has not joined AllReduce 230 of comm be2de794; 7 ranks wait");
    assert_eq!(hang.why, "AllReduce 229 of 241, and no count moved in 4 reports over 34 s");
    assert_eq!(hang.next.as_deref(), Some("py-spy dump --nonblocking --pid 2939"));
    assert_eq!(hang.evidence[0].text, "rank 3 (pid 2939 on 192.0.2.2, GPU 3): AllReduce 229 of 241");
    assert_eq!(only(&["hang-2.txt", "hang-5.txt"]).confidence, Confidence::Likely, "without any time");
    let long = timed(&[("hang-2.txt", 0), ("hang-5.txt", 90)]);
    assert_eq!((long[0].confidence, long[0].ranks.as_slice()), (Confidence::Certain, [3].as_slice()));
    assert_eq!(timed(&[("hang-2.txt", 0), ("hang-5.txt", 2)])[0].severity, Severity::Info);
}

#[test]
fn one_report_is_not_enough() {
    for name in ["hang-5.json", "hang-5.txt"] {
        let one = only(&[name]);
        assert_eq!(
            (one.severity, one.confidence, one.ranks.as_slice()),
            (Severity::Warning, Confidence::Possible, [3].as_slice()),
            "{name}"
        );
        assert!(one.why.contains("take another after ten seconds"), "{}", one.why);
    }
    for name in ["checkpoint-2.json", "checkpoint-2.txt", "init-deadlock-4.txt"] {
        let one = only(&[name]);
        assert_eq!((one.severity, one.confidence), (Severity::Info, Confidence::Possible), "{name}");
        assert!(one.summary.contains("one look is not enough"), "{}", one.summary);
    }
    assert_eq!(only(&["init-deadlock-4.txt"]).ranks, [0_u32; 0], "one is ahead, nobody is behind");
    let far = fixture("ras/hang-5.txt").replace("up to operation 241", "up to operation 1241");
    let far = judge(&[SavedReport::read("far", &far, None).unwrap()]);
    assert_eq!((far[0].severity, far[0].confidence, far[0].ranks.as_slice()), (Severity::Warning, Confidence::Possible, [3].as_slice()));
}

#[test]
fn a_straggler_is_behind_at_each_look_while_all_move() {
    let slow = only(&["slow-4.json", "slow-4.txt", "slow-6.json", "slow-6.txt"]);
    assert_eq!(
        (slow.rule, slow.severity, slow.confidence, slow.ranks.as_slice()),
        ("straggler", Severity::Warning, Confidence::Likely, [6].as_slice())
    );
    assert_eq!(slow.summary, "rank 6 is late: 12 operations of comm c2d42db5 behind in each of 4 reports while all counts move");
    assert_eq!(slow.next.as_deref(), Some("py-spy dump --nonblocking --pid 1872"));
    assert_eq!(only(&["slow-4.json", "slow-6.json"]).confidence, Confidence::Possible);
}

#[test]
fn a_checkpoint_is_no_hang() {
    assert_eq!(found(&["checkpoint-2.json", "checkpoint-2.txt", "checkpoint-4.json", "checkpoint-4.txt"]), []);
    assert_eq!(timed(&[("checkpoint-2.txt", 0), ("checkpoint-2.json", 20)])[0].severity, Severity::Info);
    for same in [timed(&[("checkpoint-2.txt", 0), ("checkpoint-2.json", 90)]), found(&["checkpoint-2.txt", "checkpoint-2.json"])] {
        assert_eq!((same[0].severity, same[0].confidence), (Severity::Warning, Confidence::Possible));
        assert!(same[0].why.contains("checkpoint"), "{}", same[0].why);
    }
}

#[test]
fn a_stopped_process_is_named() {
    for names in [&["stop-4.json", "stop-4.txt"][..], &["stop-4.txt", "stop-4.json"]] {
        let stop = only(names);
        assert_eq!((stop.rule, stop.severity, stop.ranks.as_slice()), ("hang-rank-absent", Severity::Critical, [4].as_slice()));
        assert_eq!(stop.summary, "rank 4 does not answer RAS: stopped, dead, or cut off from the network");
        assert_eq!(stop.why, "7 of 8 ranks of comm 41b7b3e9 answer; rank 4: pid 1837 on 192.0.2.2, GPU 4");
    }
    assert_eq!(only(&["stop-4.json"]).severity, Severity::Error);
    let dead = fixture("ras/stop-4.json").replace("\"considered_dead\": false", "\"considered_dead\": true");
    let dead = judge(&[SavedReport::read("dead", &dead, None).unwrap()]);
    assert_eq!((dead[0].rule, dead[0].confidence), ("rank-exited", Confidence::Certain));
    let left = fixture("ras/stop-4.json").replace("\"unresponsive\": true", "\"unresponsive\": false");
    let left = judge(&[SavedReport::read("left", &left, None).unwrap()]);
    assert_eq!((left.len(), left[0].severity), (1, Severity::Info));
}

#[test]
fn equal_counts_that_stand_still_are_a_possible_deadlock() {
    assert_eq!(found(&["symmetric-6.json", "symmetric-6.txt"]), [], "one look at counts");
    assert_eq!(found(&["symmetric-4.json", "symmetric-4.txt", "symmetric-6.json", "symmetric-6.txt"]), [], "they moved in between");
    let twice = timed(&[("symmetric-6.json", 0), ("symmetric-6.json", 30)]);
    assert_eq!((twice.len(), twice[0].rule, twice[0].confidence), (1, "hang-symmetric", Confidence::Possible));
    assert_eq!(timed(&[("symmetric-6.json", 0), ("symmetric-6.json", 5)]), [], "a pause");
}

#[test]
fn a_first_collective_that_does_not_finish() {
    let stuck = only(&["init-deadlock-4.json", "init-deadlock-4.txt", "init-deadlock-9.json", "init-deadlock-9.txt"]);
    assert_eq!((stuck.rule, stuck.severity, stuck.confidence), ("init-stuck", Severity::Warning, Confidence::Possible));
    assert_eq!(
        stuck.summary,
        "2 communicators have all their ranks and no finished collective: the first may be stuck (comm 525b056a, comm c0af7915)"
    );
    let still = timed(&[("init-deadlock-9.json", 0), ("init-deadlock-9.json", 15)]);
    assert_eq!((still[0].rule, still[0].severity, still[0].confidence), ("init-stuck", Severity::Critical, Confidence::Likely));
    let starting = fixture("ras/healthy-2.json").replace("\"init_state\": 0", "\"init_state\": 7");
    let starting = [1, 2].map(|n| SavedReport { written: None, ..SavedReport::read(&n.to_string(), &starting, None).unwrap() });
    assert_eq!(judge(&starting)[0].rule, "init-stuck");
    assert_eq!(judge(&starting).len(), 1);
}

#[test]
fn a_process_in_several_communicators_is_told_once() {
    let twice = |name: &str| {
        let mut look = look(name);
        let mut small = look.report.comms[0].clone();
        (small.hash, small.size) = (1, Some(4));
        look.report.comms.insert(0, small);
        look
    };
    for names in [["hang-2.json", "hang-5.json"], ["slow-4.json", "slow-6.json"], ["stop-4.json", "stop-4.json"]] {
        let found = judge(&names.map(twice));
        assert_eq!(found.len(), 1, "{found:#?}");
    }
    assert!(judge(&["hang-2.json", "hang-5.json"].map(twice))[0].summary.contains("comm be2de794"));
}

#[test]
fn healthy_jobs_have_nothing() {
    assert_eq!(found(&["healthy-2.json", "healthy-4.json"]), []);
    assert_eq!(found(&["compile-2.json"]), []);
    assert_eq!(judge(&[]), []);
}

#[test]
fn counts_at_the_end_of_their_range_are_added() {
    let looks = [0, 60].map(|secs| {
        let mut look = SavedReport { at: Some(Stamp(secs * 1_000_000_000)), written: None, ..look("healthy-4.json") };
        let ranks = look.report.comms.iter_mut().flat_map(|comm| &mut comm.ranks);
        ranks.flat_map(|rank| rank.counts.values_mut()).for_each(|count| *count = u64::MAX);
        look
    });
    assert_eq!(looks[0].report.comms[0].ranks[0].operations(), u64::MAX);
    assert_eq!(judge(&looks)[0].rule, "hang-symmetric");
}

#[test]
fn more_ranks_than_there_can_be_are_counted() {
    let text = "NCCL version 2.28.9 compiled with CUDA 13.0\nWarnings\n#0 (f)\n  Communicator ranks have different AllReduce operation counts\n  \
                4294967295 ranks have launched up to operation 9\n  Rank 3 has launched up to operation 12\n";
    let look = SavedReport::read("x", text, None).unwrap();
    assert_eq!(judge(&[look])[0].severity, Severity::Info);
}

#[test]
fn many_communicators_take_no_longer_each_than_few() {
    let look = || {
        let mut look = look("hang-5.json");
        let mut one = look.report.comms.swap_remove(0);
        one.ranks = one.ranks.drain(2..4).collect();
        look.report.comms = (0..20_000).map(|hash| ras::RasComm { hash, ..one.clone() }).collect();
        look
    };
    let found = judge(&[look(), look()]);
    assert_eq!(found.len(), 1);
}

#[test]
fn errors_of_ranks_are_told() {
    let failed = fixture("ras/compile-2.json").replacen("\"async_error\": 0", "\"async_error\": 6", 1);
    let failed = judge(&[SavedReport::read("x", &failed, None).unwrap()]);
    assert_eq!((failed.len(), failed[0].severity, failed[0].ranks.as_slice()), (1, Severity::Error, [0].as_slice()));
    assert!(failed[0].summary.ends_with("remote process error"), "{}", failed[0].summary);
}

#[test]
fn what_is_no_report_is_said_to_be_none() {
    let err = |text: &str| SavedReport::read("x", text, None).unwrap_err();
    assert_eq!(
        err("\n# EXC ConnectionRefusedError(111, 'Connection refused')\n"),
        "holds no answer of RAS: ConnectionRefusedError(111, 'Connection refused')"
    );
    assert_eq!(err(&fixture("ras/stop-9.json")), "holds no answer of RAS: BrokenPipeError(32, 'Broken pipe')");
    assert_eq!(err(""), "holds no answer of RAS");
    assert!(err("ERROR: Unknown command foo\n").contains("Unknown command foo"));
    assert!(err("ncclras: Connection refused\n").contains("not a RAS report"));
    let json = fixture("ras/hang-5.json");
    assert!(err(&json[..json.len() / 2]).contains("cut off"));
    assert!(err(&format!("{}\n# EXC TimeoutError()\n", &json[..json.len() / 2])).ends_with("(TimeoutError())"));
}

#[test]
fn the_time_in_the_answer_is_read() {
    let written = |name: &str| look(name).written;
    assert_eq!(written("hang-5.json").unwrap().secs_since(written("hang-2.json").unwrap()), 34.0);
    assert_eq!(written("hang-5.txt"), None);
}

proptest! {
    #[test]
    fn no_mutation_makes_it_panic(
        name in proptest::sample::select(vec!["hang-5.json", "stop-4.json", "stop-4.txt", "hang-5.txt", "init-deadlock-4.txt"]),
        cuts in proptest::collection::vec((0_usize..4800, 0_usize..30, "\\PC{0,4}|[0-9]{1,20}"), 1..4),
    ) {
        let whole = fixture(&format!("ras/{name}"));
        let mut text = whole.clone();
        for (at, len, with) in cuts {
            let at = at.min(text.len());
            if let (Some(before), Some(after)) = (text.get(..at), text.get((at + len).min(text.len())..)) {
                text = format!("{before}{with}{after}");
            }
        }
        let looks: Vec<SavedReport> = [&whole, &text, &text].iter().filter_map(|text| SavedReport::read("x", text, None).ok()).collect();
        judge(&looks);
    }
}
