//! Findings on files of the NCCL Inspector.

use crate::support::{fixture, judged};
use nccl_top::base::severity::{Confidence, Severity};
use nccl_top::formats::inspector::Inspector;
use nccl_top::rules::findings::Finding;

/// What files of a run show together.
fn judge(files: &[Inspector]) -> Vec<Finding> {
    judged(|record| record.inspectors.extend_from_slice(files))
}

fn read(path: &str, text: &str) -> Inspector {
    let mut file = Inspector::new(path);
    for (no, line) in (1..).zip(text.lines()) {
        file.line(line, no);
    }
    file
}

fn recorded(rank: u32) -> Inspector {
    let name = format!("reports/inspector-rank{rank}.log");
    read(&name, &fixture(&name))
}

/// Rank 6 sleeps 250 ms in each step from step 10 on, which is AllReduce 109.
#[test]
fn the_late_rank_of_a_recorded_run_is_found() {
    let found = judge(&[recorded(0), recorded(6)]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].rule, &found[0].ranks, found[0].confidence), ("straggler", &vec![6], Confidence::Likely));
    let expected = "rank 6 is late: the others wait 250 ms for it at 9 of 97 collectives, from AllReduce 109 on";
    assert_eq!(found[0].summary, expected);
    assert_eq!(found[0].evidence[0].path.as_deref(), Some("reports/inspector-rank6.log"));
    assert_eq!(found[0].next.as_deref(), Some("py-spy dump --nonblocking --pid 5463"));
    assert!(found[0].why.starts_with("96 % of the time"), "{}", found[0].why);
}

#[test]
fn the_healthy_part_has_nobody_late() {
    let healthy = |rank: u32| {
        let text = fixture(&format!("reports/inspector-rank{rank}.log"));
        let end = text.find("\"coll_sn\":109,").unwrap();
        let cut = text[..end].rfind('\n').unwrap();
        read("x", &text[..cut])
    };
    assert_eq!(judge(&[healthy(0), healthy(6)]), []);
    assert_eq!(judge(&[healthy(0)]), []);
}

#[test]
fn one_file_alone_tells_only_that_times_changed() {
    let found = judge(&[recorded(0)]);
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!((found[0].rule, found[0].severity, found[0].ranks.len()), ("slow-steps", Severity::Info, 0));
    assert!(found[0].summary.starts_with("AllReduce on rank 0 takes longer from about AllReduce 109 on"), "{}", found[0].summary);
    assert_eq!(judge(&[recorded(6)]), [], "who is late itself does not wait");
}

fn made(rank: u32, times: &[u64]) -> Inspector {
    let lines: Vec<String> = (0_u64..)
        .zip(times)
        .map(|(sn, us)| {
            format!(
                "{{\"header\":{{\"id\":\"0xabc\",\"rank\":{rank},\"n_ranks\":4}},\"metadata\":{{\"dump_timestamp_us\":{}}},\"coll_perf\":{{\
                 \"coll\":\"AllReduce\",\"coll_sn\":{sn},\"coll_msg_size_bytes\":4096,\"coll_exec_time_us\":{us}}}}}",
                1_000_000 + sn * 100_000
            )
        })
        .collect();
    read(&format!("rank{rank}"), &lines.join("\n"))
}

#[test]
fn with_all_ranks_it_is_certain() {
    let files: Vec<Inspector> = (0..4).map(|rank| made(rank, &[if rank == 2 { 50 } else { 50_000 }; 10])).collect();
    let found = judge(&files);
    assert_eq!((found.len(), &found[0].ranks, found[0].confidence), (1, &vec![2], Confidence::Certain));
}

#[test]
fn one_that_is_early_and_pauses_that_are_rare_are_no_stragglers() {
    let files: Vec<Inspector> = (0..4).map(|rank| made(rank, &[if rank == 2 { 50_000 } else { 50 }; 10])).collect();
    assert_eq!(judge(&files), []);
    let pauses = |rank: u32| -> Vec<u64> { (0..200).map(|i| if i % 50 == 0 && rank != 0 { 200_000 } else { 50 }).collect() };
    let files: Vec<Inspector> = (0..4).map(|rank| made(rank, &pauses(rank))).collect();
    assert_eq!(judge(&files), [], "0.2 s in every 5 s");
}

/// What takes a time that grows with the square of the ranks takes minutes here.
#[test]
fn very_many_ranks_are_judged_in_time() {
    let times = |rank: u32| (0..60).map(|call| if (call + rank).is_multiple_of(3) { 50 } else { 50_000 }).collect::<Vec<u64>>();
    let files: Vec<Inspector> = (0..1000).map(|rank| made(rank, &times(rank))).collect();
    assert_eq!(judge(&files).len(), 200, "as many as are shown");
}

#[test]
fn files_of_other_runs_are_not_compared() {
    let mut other = made(1, &[50_000; 10]);
    other.comms[0].id = "def".into();
    assert_eq!(judge(&[made(0, &[50; 10]), other]), []);
}
