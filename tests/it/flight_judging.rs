//! What Flight Recorder dumps show, held against each other: dumps of torch 2.11 with NCCL 2.28.9 on 8 H200, recorded 2026-11-21, and
//! dumps made by hand.

use crate::support::dumps::{Job, dumps};
use nccl_top::base::severity::Confidence;
use nccl_top::formats::flight_recorder::{Entry, FlightFinding, FlightKind, Judgement, Status, judge};
use serde_json::json;

fn the_one(judgement: &Judgement) -> &FlightFinding {
    let words: Vec<String> = judgement.findings.iter().map(FlightFinding::summary).collect();
    assert_eq!(judgement.findings.len(), 1, "{words:#?}");
    &judgement.findings[0]
}

fn one_of(job: &Job) -> FlightFinding {
    the_one(&judge(&job.dumps())).clone()
}

const EIGHT: &[u32] = &[0, 1, 2, 3, 4, 5, 6, 7];
const FOUR: &[u32] = &[0, 1, 2, 3];

/// What takes a time that grows with the square of the calls takes minutes here.
#[test]
fn very_many_calls_are_judged_in_time() {
    let mut job = Job::new(&[("0", &[0, 1])]);
    job.p2p(0, "0", 1, "send 0->1", 1, false);
    job.p2p(0, "0", 1, "coalesced", 1, true);
    let mut dumps = job.dumps();
    let block = dumps[&0].entries.clone();
    dumps.get_mut(&0).unwrap().entries = std::iter::repeat_n(block, 50_000).flatten().collect();
    assert_eq!(judge(&dumps).findings.len(), 0);

    let mut job = Job::new(&[("0", &[0, 1])]);
    job.call(0, "0", 1, "all_reduce", 1, false);
    job.call(1, "0", 1, "broadcast", 1, false);
    let mut dumps = job.dumps();
    for dump in dumps.values_mut() {
        let entry = dump.entries.remove(0);
        dump.groups.clear();
        dump.entries = (0..20_000).map(|name| Entry { group: Some(format!("g{name}").into()), ..entry.clone() }).collect();
    }
    assert_eq!(judge(&dumps).findings.len(), 20_000);
}

#[test]
fn the_recorded_hang_blames_rank_3() {
    let judgement = judge(&dumps("hang"));
    let found = the_one(&judgement);
    assert!(matches!(found.kind, FlightKind::Absent { seq: 236, .. }));
    assert_eq!((found.ranks.as_slice(), found.waiting.len(), found.confidence), (&[3][..], 7, Confidence::Certain));
    assert_eq!(found.summary(), "rank 3 did not join AllReduce 236; 7 ranks wait");
    assert_eq!(
        found.why(),
        "rank 3 last enqueued 235, the others 247 · the others wait in AllReduce of 16781312 BFloat16 · \
         last call of rank 3: AllReduce of 16781312 BFloat16, completed"
    );
    assert_eq!(judgement.groups.len(), 1);
}

#[test]
fn the_recorded_mismatch_blames_rank_5() {
    let judgement = judge(&dumps("mismatch"));
    let found = the_one(&judgement);
    assert!(matches!(found.kind, FlightKind::Mismatch { seq: 116, .. }));
    assert_eq!((found.ranks.as_slice(), found.confidence), (&[5][..], Confidence::Certain));
    assert_eq!(found.summary(), "rank 5 called AllReduce of 7 Float as collective 116, the others AllReduce of 16781312 BFloat16");
}

#[test]
fn the_recorded_deadlock_by_order_blames_nobody() {
    let judgement = judge(&dumps("symmetric"));
    let found = the_one(&judgement);
    let FlightKind::OrderAcrossGroups { sides } = &found.kind else { panic!("{found:?}") };
    assert_eq!((sides[0].group.as_str(), sides[0].ranks.as_slice()), ("1", &[1, 3, 5, 7][..]));
    assert_eq!((sides[1].group.as_str(), sides[1].ranks.as_slice()), ("2", &[0, 2, 4, 6][..]));
    assert_eq!((found.ranks.len(), found.waiting.len(), found.confidence), (0, 8, Confidence::Certain));
    assert_eq!(
        found.summary(),
        "a deadlock by order: ranks 1, 3, 5 and 7 wait in AllReduce 2 of group 1, ranks 0, 2, 4 and 6 wait in AllReduce 2 of group 2"
    );
}

#[test]
fn the_recorded_stop_misses_the_dump_of_rank_4() {
    let judgement = judge(&dumps("stop"));
    let found = the_one(&judgement);
    assert!(matches!(found.kind, FlightKind::NoDump { seq: 2396, .. }));
    assert_eq!((found.ranks.as_slice(), found.confidence), (&[4][..], Confidence::Likely));
    assert_eq!(found.summary(), "rank 4 left no dump; 7 ranks wait in AllReduce 2396");
    assert_eq!(found.no_dump, [4]);
}

#[test]
fn nothing_is_found_where_everything_ended_or_some_dumps_are_older() {
    let mut job = Job::new(&[("0", FOUR)]);
    for seq in 1..=10 {
        job.calls(FOUR, "0", seq, "all_reduce", 8, true);
    }
    assert!(judge(&job.dumps()).findings.is_empty());
    job.calls(&[0, 1], "0", 11, "all_reduce", 8, true);
    job.call(2, "0", 11, "all_reduce", 8, false);
    assert!(judge(&job.dumps()).findings.is_empty(), "rank 0 cannot have completed it without rank 3");
    assert!(judge(&Default::default()).findings.is_empty());
}

#[test]
fn rank_0_can_be_the_culprit() {
    let mut job = Job::new(&[("0", FOUR)]);
    job.calls(FOUR, "0", 1, "all_reduce", 8, true);
    job.call(0, "0", 2, "broadcast", 8, false);
    job.calls(&[1, 2, 3], "0", 2, "all_reduce", 8, false);
    let found = one_of(&job);
    assert_eq!(found.ranks, [0]);
    assert_eq!(found.summary(), "rank 0 called Broadcast of 8 Float as collective 2, the others AllReduce of 8 Float");
    assert!(found.why().contains("rank 0: Broadcast of 8 Float at train.py:57 in step"), "{}", found.why());
}

#[test]
fn an_even_split_blames_nobody_unless_sizes_tell() {
    let mut job = Job::new(&[("0", FOUR)]);
    job.calls(&[0, 1], "0", 1, "all_reduce", 8, false);
    job.calls(&[2, 3], "0", 1, "all_reduce", 9, false);
    let found = one_of(&job);
    assert!(found.ranks.is_empty() && found.why().contains("nobody can be blamed"), "{}", found.why());
    assert_eq!(found.summary(), "ranks 0 and 1 called AllReduce of 8 Float as collective 1, ranks 2 and 3 AllReduce of 9 Float");

    let mut job = Job::new(&[("0", &[0, 1])]);
    for (rank, output) in [(0, 20), (1, 16)] {
        job.call(rank, "0", 1, "_all_gather_base", 8, false);
        job.with(rank, json!({"output_sizes": [[output]]}));
    }
    let found = one_of(&job);
    assert_eq!(found.ranks, [0]);
    assert_eq!(found.summary(), "rank 0 called AllGather of 8 to 20 Float as collective 1, rank 1 AllGather of 8 to 16 Float");
}

#[test]
fn dtypes_matter_and_shapes_of_equal_counts_do_not() {
    let mut job = Job::new(&[("0", FOUR)]);
    job.calls(FOUR, "0", 1, "all_reduce", 6, false);
    job.with(2, json!({"input_sizes": [[2, 3]], "output_sizes": [[2, 3]]}));
    assert!(matches!(one_of(&job).kind, FlightKind::AllJoined { seq: 1, .. }));
    job.with(2, json!({"input_dtypes": ["Half"], "output_dtypes": ["Half"]}));
    assert_eq!(one_of(&job).ranks, [2]);
}

#[test]
fn uneven_all_to_all_is_no_mismatch() {
    let mut job = Job::new(&[("0", FOUR)]);
    for rank in FOUR {
        job.call(*rank, "0", 1, "all_to_all", 6 + u64::from(*rank), true);
    }
    assert!(judge(&job.dumps()).findings.is_empty());
}

#[test]
fn all_that_joined_blame_the_network() {
    let mut job = Job::new(&[("0", FOUR)]);
    job.calls(FOUR, "0", 1, "all_reduce_barrier", 1, false);
    let found = one_of(&job);
    assert_eq!((found.summary().as_str(), found.confidence), ("all 4 ranks joined Barrier 1, and it does not end", Confidence::Likely));
}

/// Two nodes of four: tensor parallel inside, data parallel across.
fn two_by_four() -> Job {
    let mut job =
        Job::new(&[("tp0", FOUR), ("tp1", &[4, 5, 6, 7]), ("dp0", &[0, 4]), ("dp1", &[1, 5]), ("dp2", &[2, 6]), ("dp3", &[3, 7])]);
    job.calls(FOUR, "tp0", 1, "all_reduce", 8, true);
    job.calls(&[4, 5, 6, 7], "tp1", 1, "all_reduce", 8, true);
    for rank in 0..4 {
        job.calls(&[rank, rank + 4], &format!("dp{rank}"), 1, "reduce_scatter_tensor", 8, true);
        job.with(rank, json!({"output_sizes": [[4]]}));
        job.with(rank + 4, json!({"output_sizes": [[4]]}));
    }
    job
}

#[test]
fn only_the_rank_that_waits_nowhere_is_blamed() {
    let mut job = two_by_four();
    job.calls(&[0, 1, 2], "tp0", 2, "all_reduce", 8, false);
    job.calls(&[4, 5, 6, 7], "tp1", 2, "all_reduce", 8, true);
    for rank in 0..4 {
        job.call(rank + 4, &format!("dp{rank}"), 2, "reduce_scatter_tensor", 8, false);
    }
    let judgement = judge(&job.dumps());
    let found = the_one(&judgement);
    assert_eq!((found.ranks.as_slice(), found.group.as_str(), found.also.as_slice()), (&[3][..], "tp0", &["dp3".to_string()][..]));
    assert_eq!(found.summary(), "rank 3 did not join AllReduce 2 of group tp0; 3 ranks wait");
    assert!(
        found.why().ends_with("last call of rank 3: ReduceScatter of 8 to 4 Float at train.py:57 in step, completed · also in group dp3"),
        "{}",
        found.why()
    );
}

#[test]
fn a_dead_rank_of_several_groups_is_named_once() {
    let mut job = two_by_four();
    job.calls(FOUR, "tp0", 2, "all_reduce", 8, true);
    job.calls(&[5, 6, 7], "tp1", 2, "all_reduce", 8, false);
    for rank in 0..4 {
        job.call(rank, &format!("dp{rank}"), 2, "reduce_scatter_tensor", 8, false);
    }
    let mut dumps = job.dumps();
    dumps.remove(&4);
    let judgement = judge(&dumps);
    let found = the_one(&judgement);
    assert_eq!((found.ranks.as_slice(), found.group.as_str(), found.also.as_slice()), (&[4][..], "tp1", &["dp0".to_string()][..]));
}

#[test]
fn groups_waiting_crosswise_are_a_deadlock_by_order() {
    let mut job = Job::new(&[("a", FOUR), ("b", FOUR)]);
    job.calls(&[0, 1], "a", 1, "all_reduce", 8, false);
    job.calls(&[2, 3], "b", 1, "all_gather", 8, false);
    let found = one_of(&job);
    assert_eq!(
        found.summary(),
        "a deadlock by order: ranks 0 and 1 wait in AllReduce 1 of group a, ranks 2 and 3 wait in AllGather 1 of group b"
    );
    assert!(found.ranks.is_empty());
}

#[test]
fn three_groups_can_wait_in_a_circle() {
    let mut job = Job::new(&[("a", &[0, 1]), ("b", &[1, 2]), ("c", &[2, 0])]);
    for (rank, group) in [(0, "a"), (1, "b"), (2, "c")] {
        job.call(rank, group, 1, "all_reduce", 8, false);
    }
    let FlightKind::OrderAcrossGroups { sides } = one_of(&job).kind else { panic!() };
    assert_eq!(sides.len(), 3);
}

#[test]
fn few_dumps_make_it_less_sure() {
    let mut job = Job::new(&[("0", EIGHT)]);
    job.calls(&[0, 1, 2, 4, 5, 6], "0", 1, "all_reduce", 8, false);
    let mut dumps = job.dumps();
    dumps.remove(&7);
    let found = the_one(&judge(&dumps)).clone();
    assert_eq!((found.ranks.as_slice(), found.no_dump.as_slice(), found.confidence), (&[3][..], &[7][..], Confidence::Likely));
    assert!(found.why().contains("last enqueued nothing") && found.why().ends_with("no dump of rank 7"), "{}", found.why());
    dumps.remove(&6);
    dumps.remove(&5);
    assert_eq!(the_one(&judge(&dumps)).confidence, Confidence::Possible);
}

#[test]
fn rings_that_begin_elsewhere_are_aligned() {
    let mut job = Job::new(&[("0", FOUR)]);
    for seq in 1..=40 {
        job.calls(FOUR, "0", seq, if seq % 2 == 0 { "all_reduce" } else { "broadcast" }, seq, true);
    }
    job.calls(&[0, 1, 3], "0", 41, "barrier", 1, false);
    for rank in 0..4 {
        job.wrap(rank, 10 + rank as usize * 3);
    }
    let found = one_of(&job);
    assert_eq!(found.summary(), "rank 2 did not join Barrier 41; 3 ranks wait");
}

#[test]
fn a_coalesced_block_is_one_call() {
    let block = |second: u64| {
        let mut job = Job::new(&[("0", FOUR)]);
        for rank in FOUR {
            job.call(*rank, "0", 1, "all_reduce", 8, false);
            job.call(*rank, "0", 1, "all_reduce", if *rank == 2 { second } else { 9 }, false);
            job.call(*rank, "0", 1, "coalesced", 0, true);
        }
        judge(&job.dumps())
    };
    assert!(block(9).findings.is_empty(), "the end of the block says that it has completed");
    assert_eq!(the_one(&block(10)).ranks, [2]);
}

#[test]
fn a_send_that_nobody_receives() {
    let mut job = Job::new(&[("pp", &[4, 5, 6])]);
    job.p2p(4, "pp", 1, "send 0->1", 8, true);
    job.p2p(5, "pp", 1, "recv 1<-0", 8, true);
    job.p2p(5, "pp", 2, "send 1->2", 8, false);
    job.p2p(4, "pp", 2, "send 0->1", 8, false);
    let found = one_of(&job);
    assert_eq!(found.ranks, [6], "rank 5 does not receive because it waits for rank 6");
    assert_eq!(found.summary(), "rank 5 sends to rank 6, which does not receive");

    job.p2p(6, "pp", 1, "recv 2<-1", 9, false);
    assert_eq!(one_of(&job).summary(), "rank 5 sends something else than rank 6 receives");
}

#[test]
fn a_send_that_is_received_and_does_not_end_blames_nobody() {
    let mut job = Job::new(&[("pp", &[0, 1])]);
    job.p2p(0, "pp", 1, "send 0->1", 8, false);
    job.p2p(1, "pp", 1, "recv 1<-0", 8, false);
    let found = one_of(&job);
    assert_eq!((found.ranks.len(), found.summary().as_str()), (0, "rank 0 sends, rank 1 receives, and it does not end"));

    let mut dumps = job.dumps();
    dumps.remove(&1);
    let judgement = judge(&dumps);
    assert_eq!(the_one(&judgement).summary(), "rank 0 sends to rank 1, which left no dump");
    assert_eq!(the_one(&judgement).confidence, Confidence::Possible);
}

#[test]
fn gloo_tells_what_has_completed_by_its_status_alone() {
    let mut job = Job::new(&[("0", FOUR)]);
    for rank in FOUR {
        job.call(*rank, "0", 1, "x", 8, false);
        job.with(*rank, json!({"profiling_name": "gloo:all_reduce", "retired": true}));
    }
    assert!(judge(&job.dumps()).findings.is_empty(), "without a status nothing is known");
    let mut dumps = job.dumps();
    for dump in dumps.values_mut() {
        dump.status.insert(0, Status { enqueued: Some(1), started: None, completed: Some(0) });
    }
    assert!(matches!(the_one(&judge(&dumps)).kind, FlightKind::AllJoined { seq: 1, .. }));
}

#[test]
fn two_ranks_that_both_send_first_are_a_circle() {
    let mut job = Job::new(&[("pp", &[0, 1])]);
    job.p2p(0, "pp", 1, "send 0->1", 8, false);
    job.p2p(1, "pp", 1, "send 1->0", 8, false);
    let ways = "rank 0 sends to rank 1 at train.py:57 in step, rank 1 sends to rank 0 at train.py:57 in step";
    assert_eq!(one_of(&job).summary(), format!("ranks 0 and 1 wait for each other: {ways}"));
}

#[test]
fn a_coalesced_exchange_that_has_ended_is_no_wait() {
    let mut job = Job::new(&[("pp", &[0, 1])]);
    for (rank, other) in [(0, 1), (1, 0)] {
        job.p2p(rank, "pp", 1, &format!("send {rank}->{other}"), 8, false);
        job.p2p(rank, "pp", 1, &format!("recv {rank}<-{other}"), 8, false);
        job.p2p(rank, "pp", 1, "coalesced", 0, true);
    }
    assert!(judge(&job.dumps()).findings.is_empty());
}

#[test]
fn one_that_calls_alone_may_be_the_wrong_one() {
    let mut job = Job::new(&[("0", FOUR)]);
    job.calls(FOUR, "0", 1, "all_reduce", 8, true);
    job.call(0, "0", 2, "all_reduce", 8, false);
    let found = one_of(&job);
    assert_eq!((found.ranks.as_slice(), found.confidence), (&[1, 2, 3][..], Confidence::Possible));
    assert!(found.why().contains("it may be rank 0 that made a call too many"), "{}", found.why());
}

#[test]
fn the_same_name_with_other_members_is_another_group() {
    let mut job = Job::new(&[("tp", &[0, 1])]);
    let mut other = Job::new(&[("tp", &[2, 3])]);
    job.calls(&[0, 1], "tp", 1, "all_reduce", 8, true);
    other.calls(&[2, 3], "tp", 1, "broadcast", 8, true);
    let mut dumps = job.dumps();
    dumps.extend(other.dumps());
    let judgement = judge(&dumps);
    assert_eq!((judgement.groups.len(), judgement.findings.len()), (2, 0));
}

#[test]
fn many_ranks_are_judged_at_once() {
    let ranks: Vec<u32> = (0..512).collect();
    let mut job = Job::new(&[("0", &[0])]);
    for seq in 1..=300 {
        job.call(0, "0", seq, "all_reduce", seq % 7 + 1, seq < 300);
    }
    let mut dump = job.dumps().remove(&0).unwrap();
    dump.groups.get_mut("0").unwrap().ranks = ranks.as_slice().into();
    let mut dumps: std::collections::BTreeMap<u32, _> = ranks.iter().map(|rank| (*rank, dump.clone())).collect();
    dumps.get_mut(&77).unwrap().entries.pop();
    assert_eq!(the_one(&judge(&dumps)).summary(), "rank 77 did not join AllReduce 300; 511 ranks wait");
}
