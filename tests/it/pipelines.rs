//! Pipelines: ranks that send and receive, which RAS does not count. All of it is constructed; recordings of real jobs are in `scenarios`.

use crate::support::dumps::Job;
use crate::support::worlds::{Doing, Pipeline, pipeline, ras_json};
use nccl_top::base::severity::{Confidence, Severity};
use nccl_top::diagnosis::session::Event;
use nccl_top::diagnosis::verdict::State;
use nccl_top::formats::flight_recorder::judge;
use nccl_top::rules::findings::{Change, Finding};

/// The findings that opened, and when.
fn opened(said: &[(f64, Event)]) -> Vec<(f64, &Finding)> {
    said.iter().filter_map(|(at, event)| if let Event::Finding(Change::Opened(f)) = event { Some((*at, &**f)) } else { None }).collect()
}

fn the_one(said: &[(f64, Event)]) -> &Finding {
    let all = opened(said);
    let [(at, found)] = all.as_slice() else { panic!("{all:?}") };
    assert!((8.0..=15.0).contains(at), "{} after {at} s", found.summary);
    found
}

/// No count moves with the steps.
fn blind(world: u32) -> impl Fn(u64) -> Option<String> {
    move |_| Some(ras_json(world, |_| Some(12)))
}

/// Each step has a collective that is counted, besides what is not.
fn counted(world: u32) -> impl Fn(u64) -> Option<String> {
    move |second| Some(ras_json(world, |_| Some(second)))
}

#[test]
fn equal_counts_do_not_speak_for_what_they_do_not_count() {
    for (answer, words) in [
        (Box::new(blind(2)) as Box<dyn Fn(u64) -> Option<String>>, "rank 1 (GPU 1, pid 51101) neither sends nor receives; 1 rank waits"),
        (Box::new(counted(2)), "rank 1 (GPU 1, pid 51101) has not joined what the others wait in, which RAS does not count; 1 rank waits"),
        (Box::new(|_| None), "rank 1 (GPU 1, pid 51101) has not joined a collective; 1 rank waits"),
    ] {
        let (session, said) = pipeline(&Pipeline { gpus: 2, world: 2, asleep: &[1], ..Pipeline::default() }, 40, answer);
        let found = the_one(&said);
        assert_eq!((found.rule, &found.ranks[..], found.summary.as_str()), ("hang-rank-absent", &[1][..], words));
        assert_eq!(session.state().0, State::Stuck);
    }
}

#[test]
fn counts_that_differ_still_speak() {
    let it = Pipeline { asleep: &[2], ..Pipeline::default() };
    let (_, said) = pipeline(&it, 40, |second| Some(ras_json(4, |rank| Some(second - u64::from(rank == 2 && second == 40)))));
    let found = the_one(&said);
    assert_eq!((found.rule, &found.ranks[..], found.confidence), ("hang-rank-absent", &[2][..], Confidence::Certain));
    assert!(found.summary.contains("has not joined AllReduce 40"), "{}", found.summary);
}

#[test]
fn channel_lines_say_which_stage_waits_for_which() {
    let channels = vec![(0, 1), (1, 2), (2, 3)];
    for (asleep, words) in [
        (
            &[3][..],
            "rank 3 (GPU 3, pid 51103) of stage 4 of 4 neither sends nor receives; rank 2 of stage 3 of 4 waits for it, 2 more behind",
        ),
        (&[1], "rank 1 (GPU 1, pid 51101) of stage 2 of 4 neither sends nor receives; ranks 0 and 2 wait for it, 1 more behind"),
        (&[0], "rank 0 (GPU 0, pid 51100) of stage 1 of 4 neither sends nor receives; rank 1 of stage 2 of 4 waits for it, 2 more behind"),
    ] {
        let (_, said) = pipeline(&Pipeline { asleep, channels: channels.clone(), ..Pipeline::default() }, 40, blind(4));
        let found = the_one(&said);
        assert_eq!((&found.ranks[..], found.summary.as_str()), (asleep, words));
    }
    // Interleaved, the last stage sends to the first.
    let ring = vec![(0, 1), (1, 2), (2, 3), (0, 3)];
    let (_, said) = pipeline(&Pipeline { asleep: &[3], channels: ring, ..Pipeline::default() }, 40, blind(4));
    assert!(the_one(&said).summary.ends_with("of stage 4 of 4 neither sends nor receives; ranks 0 and 2 wait for it, 1 more behind"));
    // All with all is no pipeline.
    let all = vec![(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)];
    let (_, said) = pipeline(&Pipeline { asleep: &[3], channels: all, ..Pipeline::default() }, 40, blind(4));
    assert!(!the_one(&said).summary.contains("stage"));
}

#[test]
fn the_inspectors_history_says_who_exchanges_with_whom() {
    let inspected = vec![(0, 1), (1, 2), (2, 3), (3, 2)];
    let (_, said) = pipeline(&Pipeline { asleep: &[3], inspected: inspected.clone(), ..Pipeline::default() }, 40, blind(4));
    let found = the_one(&said);
    let words = "rank 3 (GPU 3, pid 51103) of stage 4 of 4 neither sends nor receives; rank 2 of stage 3 of 4 waits for it, 2 more behind";
    assert_eq!((&found.ranks[..], found.summary.as_str()), (&[3][..], words));
    let texts: Vec<&str> = found.evidence.iter().filter(|e| e.kind == "file").map(|e| e.text.as_str()).collect();
    let last = |who: u32, other: u32| format!("the Inspector's last of rank {who}: received from rank {other}, Recv 118 of 64 MiB");
    assert_eq!(texts, [last(2, 3), last(3, 2)]);
    // A rank on another node has its number in the communicator alone, which is that in the job where all ranks are in it.
    let it = Pipeline { gpus: 4, first_rank: 4, world: 8, inspected: vec![(4, 3), (5, 4)], ..Pipeline::default() };
    let (_, said) = pipeline(&it, 60, blind(8));
    assert!(
        the_one(&said).summary.starts_with("a stage on another node (rank 3) neither sends nor receives"),
        "{}",
        the_one(&said).summary
    );
}

#[test]
fn arguments_say_how_many_ranks_a_stage_has() {
    for arguments in
        [&["--tensor-model-parallel-size", "2", "--pipeline-model-parallel-size", "4"][..], &["--parallelism.pipeline_parallel_degree=4"]]
    {
        let it = Pipeline { gpus: 8, world: 8, asleep: &[4, 5], arguments, ..Pipeline::default() };
        let (_, said) = pipeline(&it, 40, counted(8));
        let found = the_one(&said);
        assert_eq!(found.summary, "ranks 4 and 5 of stage 3 of 4 neither send nor receive; 6 ranks wait");
        assert_eq!(found.ranks, [4, 5]);
    }
}

#[test]
fn a_stage_on_another_node_is_named() {
    let it = Pipeline { gpus: 4, first_rank: 4, world: 8, channels: vec![(3, 4), (4, 5), (5, 6), (6, 7)], ..Pipeline::default() };
    let (session, said) = pipeline(&it, 60, blind(8));
    let found = the_one(&said);
    let words = "a stage on another node (rank 3) neither sends nor receives; all 4 ranks on this node wait: the cause is on another node";
    assert_eq!((found.rule, found.summary.as_str(), found.confidence), ("hang-rank-absent", words, Confidence::Possible));
    assert_eq!((session.state().0, &found.ranks[..]), (State::Stuck, &[][..]));

    let arguments = &["--pipeline-model-parallel-size", "2"];
    let (_, said) = pipeline(&Pipeline { arguments, ..it }, 60, blind(8));
    let words =
        "stage 1 of 2 (rank 3 on another node) neither sends nor receives; all 4 ranks on this node wait: the cause is on another node";
    assert_eq!(the_one(&said).summary, words);
}

#[test]
fn ranks_that_all_wait_in_sends_and_receives_wait_in_a_circle() {
    let (_, said) = pipeline(&Pipeline { gpus: 2, world: 2, ..Pipeline::default() }, 60, blind(2));
    let found = the_one(&said);
    let words = "rank 0 and rank 1 wait for each other in sends or receives";
    assert_eq!((found.rule, &found.ranks[..], found.summary.as_str()), ("send-order-deadlock", &[0, 1][..], words));
    let (_, said) = pipeline(&Pipeline::default(), 60, blind(4));
    assert_eq!((the_one(&said).rule, &the_one(&said).ranks[..]), ("send-order-deadlock", &[][..]));
    // Where steps have collectives, too, it may be any of them.
    let (_, said) = pipeline(&Pipeline { channels: vec![(0, 1)], ..Pipeline::default() }, 60, counted(4));
    let all = opened(&said);
    assert_eq!((all.len(), all[0].1.rule, all[0].1.confidence), (1, "hang-symmetric", Confidence::Possible));
}

/// All wait, each with neighbours in this order, in kernels of these sizes: who is blamed, and how that is worded.
fn circle(gpus: u32, channels: Vec<(u32, u32)>, kernels: &'static [f32]) -> (Vec<u32>, String) {
    let (_, said) = pipeline(&Pipeline { gpus, world: gpus, channels, kernels, ..Pipeline::default() }, 60, blind(gpus));
    let found = the_one(&said);
    assert_eq!((found.rule, found.confidence), ("send-order-deadlock", Confidence::Possible));
    (found.ranks.clone(), found.summary.clone())
}

#[test]
fn two_neighbours_in_a_chain_wait_for_each_other() {
    let chain = |n: u32| (1..n).map(|rank| (rank - 1, rank)).collect::<Vec<_>>();
    // Those two exchange another message than the ranks behind them wait for.
    let said = circle(5, chain(5), &[12.12, 12.12, 24.24, 24.24, 12.12]);
    assert_eq!(said, (vec![2, 3], "ranks 2 and 3 wait for each other in sends or receives; 3 ranks wait behind them".into()));
    // Of the two that are alike, only neighbours can.
    let said = circle(4, chain(4), &[12.12, 24.24, 24.24, 12.12]);
    assert_eq!(said.0, [1, 2]);
    // Two pairs are alike, or all: nobody is blamed.
    let all = "all 4 ranks on this node wait in sends or receives, two neighbours for each other: ranks";
    assert_eq!(circle(4, chain(4), &[12.12, 12.12, 24.24, 24.24]), (vec![], format!("{all} 0 and 1, or 2 and 3")));
    assert_eq!(circle(4, chain(4), &[]), (vec![], format!("{all} 0 and 1, or 1 and 2, or 2 and 3")));
    let said = circle(8, chain(8), &[]);
    assert_eq!(said, (vec![], "all 8 ranks on this node wait in sends or receives, two neighbours of a chain for each other".into()));
}

#[test]
fn in_a_ring_nobody_is_blamed() {
    let ring = vec![(0, 1), (1, 2), (2, 3), (0, 3)];
    let words = "all 4 ranks on this node wait in sends or receives, in a ring: each for the next, or two neighbours for each other";
    assert_eq!(circle(4, ring.clone(), &[]), (vec![], words.into()));
    assert!(circle(4, ring, &[24.24, 12.12, 12.12, 24.24]).1.ends_with("ranks 1 and 2, or 0 and 3"));
    // Where who exchanges with whom is not known, or not a chain, nothing more is said.
    let words = "all 4 ranks on this node wait in sends or receives, some of them for each other";
    assert_eq!(circle(4, vec![(0, 1), (2, 3)], &[]), (vec![], words.into()));
    assert_eq!(circle(4, vec![], &[12.12, 12.12, 24.24, 24.24]), (vec![], words.into()));
}

#[test]
fn two_that_wait_in_different_kernels_are_no_circle() {
    let it = Pipeline { gpus: 2, world: 2, kernels: &[12.12, 0.76], ..Pipeline::default() };
    let (_, said) = pipeline(&it, 60, blind(2));
    assert_eq!((the_one(&said).rule, &the_one(&said).ranks[..]), ("hang-symmetric", &[][..]));
}

/// Of two experts, rank 1 calls an all_reduce where rank 0 waits in an AlltoAll, which is not counted.
#[test]
fn who_is_behind_and_may_wait_is_not_blamed_where_gpus_are_not_seen() {
    let one_more = |second: u64| Some(ras_json(2, |rank| Some(second + u64::from(rank == 1 && second == 40))));
    let it = Pipeline { gpus: 2, world: 2, no_nvml: true, ..Pipeline::default() };
    let (_, said) = pipeline(&it, 60, one_more);
    assert!(opened(&said).is_empty(), "{said:?}");
    // One that sleeps does not wait in a collective, nor does one that is a whole step behind.
    let (_, said) = pipeline(&Pipeline { asleep: &[1], ..it }, 60, |second| {
        Some(ras_json(2, |rank| Some(second + u64::from(rank == 0 && second == 40))))
    });
    assert_eq!(opened(&said)[0].1.ranks, [1]);
    let it = Pipeline { gpus: 2, world: 2, no_nvml: true, ..Pipeline::default() };
    let (_, said) = pipeline(&it, 60, |second| Some(ras_json(2, |rank| Some(second + 16 * u64::from(rank == 0 && second == 40)))));
    assert_eq!(opened(&said)[0].1.ranks, [1]);
}

#[test]
fn power_far_below_that_of_work_shows_who_waits_where_there_is_no_gpm() {
    let it = Pipeline { no_gpm_w: Some(150), ..Pipeline::default() };
    let (_, said) = pipeline(&it, 60, counted(4));
    let found = the_one(&said);
    assert_eq!((found.rule, found.confidence), ("hang-symmetric", Confidence::Certain));
    assert!(found.why.contains("they draw 150 W or less, at work up to 6"), "{}", found.why);
    // What draws as much as at work computes, however little it reads; in between, it takes longer.
    let (_, said) = pipeline(&Pipeline { no_gpm_w: Some(640), ..Pipeline::default() }, 60, counted(4));
    assert!(opened(&said).is_empty(), "{said:?}");
}

#[test]
fn bubbles_are_no_stragglers() {
    // Stages wait by turns, and at the start of each, all but the first.
    let bubbles: fn(u32, u64) -> Doing = |gpu, second| match second {
        0..12 if second < u64::from(gpu) * 3 => Doing::Waiting,
        _ if (second / 2 + u64::from(gpu)).is_multiple_of(3) => Doing::Waiting,
        _ => Doing::Training,
    };
    for answer in [Box::new(blind(4)) as Box<dyn Fn(u64) -> Option<String>>, Box::new(counted(4)), Box::new(|_| None)] {
        let (session, said) = pipeline(&Pipeline { goes_on: Some(bubbles), ..Pipeline::default() }, 120, answer);
        assert_eq!((opened(&said).len(), session.state().0), (0, State::Training));
    }
}

#[test]
fn a_stage_that_computes_while_all_others_wait_is_uneven_work() {
    let uneven: fn(u32, u64) -> Doing = |gpu, second| if gpu == 2 || second % 8 == 3 { Doing::Training } else { Doing::Waiting };
    let it = Pipeline { goes_on: Some(uneven), channels: vec![(0, 1), (1, 2), (2, 3)], ..Pipeline::default() };
    let (session, said) = pipeline(&it, 60, blind(4));
    let all = opened(&said);
    let [(_, found)] = all.as_slice() else { panic!("{all:?}") };
    let words = "rank 2 (GPU 2, pid 51102) of stage 3 of 4 computes all the time, and the other 3 wait for it: the work is uneven";
    assert_eq!((found.rule, &found.ranks[..], found.summary.as_str()), ("straggler", &[2][..], words));
    assert_eq!(session.state().0, State::Slow);
    // Where all calls are counted, it may be the one with the longest sequence.
    let it = Pipeline { goes_on: Some(uneven), ..Pipeline::default() };
    assert!(opened(&pipeline(&it, 60, counted(4)).1).is_empty());
}

#[test]
fn why_a_rank_is_late_is_said_where_its_process_shows_it() {
    let late: fn(u32, u64) -> Doing = |gpu, second| if gpu == 1 && second % 2 == 0 { Doing::Nothing } else { Doing::Training };
    for (asleep, words) in [(&[1][..], "meanwhile its process sleeps"), (&[], "meanwhile its process computes on the CPU")] {
        let it = Pipeline { goes_on: Some(late), asleep, ..Pipeline::default() };
        let (_, said) = pipeline(&it, 60, counted(4));
        let all = opened(&said);
        let [(_, found)] = all.as_slice() else { panic!("{all:?}") };
        assert_eq!((found.rule, &found.ranks[..]), ("straggler", &[1][..]));
        assert!(found.why.contains(words), "{}", found.why);
    }
    // Where the others do not spin, nothing is known.
    let it = Pipeline { goes_on: Some(late), asleep: &[0, 1, 2, 3], ..Pipeline::default() };
    let (_, said) = pipeline(&it, 60, counted(4));
    assert!(!opened(&said)[0].1.why.contains("its process"), "{}", opened(&said)[0].1.why);
}

#[test]
fn ranks_that_are_late_by_turns_are_not_blamed() {
    // Each collects garbage for three seconds, one after the other.
    let turns: fn(u32, u64) -> Doing =
        |gpu, second| if second % 12 < 3 && second / 12 % 4 == u64::from(gpu) { Doing::Nothing } else { Doing::Training };
    let (session, said) = pipeline(&Pipeline { goes_on: Some(turns), ..Pipeline::default() }, 120, counted(4));
    let all = opened(&said);
    let [(_, found)] = all.as_slice() else { panic!("{all:?}") };
    assert_eq!((found.rule, found.severity, &found.ranks[..]), ("straggler", Severity::Info, &[][..]));
    assert!(found.summary.ends_with("take turns being late: none of them is slow") && found.why.contains("garbage"), "{found:?}");
    assert_eq!(session.state().0, State::Training);
}

/// Two replicas of two stages: a victim is behind in one communicator, the culprit in another.
#[test]
fn of_those_behind_the_one_who_does_not_wait_is_named() {
    // Ranks 0 and 1 are the first stage, 2 and 3 the second; rank 3 sleeps, so that rank 1 waits for it and rank 0 for rank 1.
    let comm = |hash: &str, ranks: [u32; 2], counts: [u64; 2]| {
        let one = |rank: usize| {
            format!(
                r#"{{"rank": {rank}, "host": "10.0.0.1", "pid": {}, "cuda_dev": {1}, "nvml_dev": {1}, "status": {{"init_state": 0, "async_error": 0, "finalize_called": false, "destroy_flag": false, "abort_flag": false}}, "collective_counts": {{"Broadcast": 0, "Reduce": 0, "AllGather": 0, "ReduceScatter": 0, "AllReduce": {2}}}}}"#,
                51_100 + ranks[rank],
                ranks[rank],
                counts[rank]
            )
        };
        format!(
            r#"{{"hash": "{hash}", "size": 2, "ranks_count": 2, "missing_ranks_count": 0, "ranks": [{}, {}], "missing_ranks": []}}"#,
            one(0),
            one(1)
        )
    };
    let answer = |second: u64| {
        let late = second - u64::from(second == 40);
        let comms = [comm("0x9c1de7706f19ab34", [0, 1], [second, late]), comm("0x1c1de7706f19ab34", [2, 3], [second, late])];
        Some(format!(
            r#"{{"nccl_version": "2.28.9", "cuda_runtime_version": 13000, "cuda_driver_version": 13000, "communicators_count": 2, "communicators": [{}], "ras": {{"collection_time_sec": 0.1, "timeouts_count": 0}}}}"#,
            comms.join(", ")
        ))
    };
    let it = Pipeline { asleep: &[3], channels: vec![(0, 2), (1, 3)], ..Pipeline::default() };
    let (_, said) = pipeline(&it, 40, answer);
    let found = the_one(&said);
    assert_eq!((found.rule, &found.ranks[..], found.confidence), ("hang-rank-absent", &[3][..], Confidence::Certain));
}

#[test]
fn dumps_name_the_circle() {
    let mut job = Job::new(&[("pp", &[2, 5])]);
    job.p2p(2, "pp", 1, "send 0->1", 8, false);
    job.p2p(5, "pp", 1, "send 1->0", 8, false);
    let found = judge(&job.dumps()).findings.remove(0);
    let words =
        "ranks 2 and 5 wait for each other: rank 2 sends to rank 5 at train.py:57 in step, rank 5 sends to rank 2 at train.py:57 in step";
    assert_eq!((found.summary().as_str(), found.kind.is_order_of_sends()), (words, true));
}

/// What `check` says of the watchdog lines of ranks.
fn watchdogs(ranks: &[(u32, &str)], world: u32) -> String {
    let dir = tempfile::tempdir().unwrap();
    let mut text = String::new();
    for rank in 0..world {
        text += &format!(
            "n:{rank}1:{rank}1 [{rank}] NCCL INFO ncclCommInitRankConfig comm 0x{rank}f rank {rank} nranks {world} cudaDev {rank} nvmlDev {rank} busId {rank}1000 commId 0x8f3c61d2a4e5b790 - Init COMPLETE\n"
        );
    }
    for (rank, op) in ranks {
        text += &format!(
            "[rank{rank}]:[E1121 00:04:23.09 ProcessGroupNCCL.cpp:689] [PG ID 0 PG GUID 0(default_pg) Rank {rank}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=1{rank}, OpType={op}, NumelIn=18446744073709551615, NumelOut=18446744073709551615, Timeout(ms)=20000) ran for 20001 milliseconds before timing out.\n"
        );
    }
    let path = dir.path().join("train.log");
    std::fs::write(&path, text).unwrap();
    let out = std::process::Command::new(env!("CARGO_BIN_EXE_nccl-top")).arg("check").arg(&path).output().unwrap();
    String::from_utf8(out.stdout).unwrap()
}

#[test]
fn watchdogs_of_sends_have_no_number_in_common() {
    let said = watchdogs(&[(0, "COALESCED"), (1, "COALESCED"), (2, "RECV")], 4);
    assert!(said.contains("rank 3 neither sends nor receives; 3 ranks waited until the watchdog ended it"), "{said}");
    assert!(!said.contains("18446744073709551615"), "{said}");
    let said = watchdogs(&[(0, "SEND"), (1, "SEND")], 2);
    assert!(said.contains("ranks 0 and 1 wait in sends, and nobody receives"), "{said}");
    assert!(!said.contains("did not join"), "{said}");
    let said = watchdogs(&[(0, "SEND"), (1, "RECV"), (2, "COALESCED"), (3, "RECV")], 4);
    assert!(!said.contains("joined") && !said.contains("did not join"), "{said}");
}
