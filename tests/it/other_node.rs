//! A culprit on another node, of which this node knows nothing but what RAS says.

use crate::support::worlds::{elsewhere, elsewhere_after, ras_json};
use nccl_top::base::severity::Confidence;
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::diagnosis::verdict::State;
use nccl_top::rules::findings::{Change, Finding};

/// The first finding of a rule that makes a job stuck, and when it came.
fn told(said: &[(f64, Event)]) -> Option<(f64, &Finding)> {
    said.iter().find_map(|(at, event)| match event {
        Event::Finding(Change::Opened(f)) if matches!(f.rule, "hang-rank-absent" | "hang-symmetric" | "collective-mismatch") => {
            Some((*at, &**f))
        }
        _ => None,
    })
}

fn state(session: &Session) -> State {
    session.state().0
}

/// An answer in which one rank has a number of its own, or is missing.
fn but(rank: u32, its: impl Fn(u64) -> Option<u64>) -> impl Fn(u64) -> String {
    move |launched| ras_json(16, |r| if r == rank { its(launched) } else { Some(launched) })
}

#[test]
fn a_rank_that_is_behind_on_another_node_is_named_with_its_node() {
    let (session, said) = elsewhere(40, but(5, |n| Some(n - 12)));
    let (at, f) = told(&said).expect("a finding");
    assert!((10.0..=20.0).contains(&at), "after {at} s");
    assert_eq!((f.rule, f.confidence, &f.ranks[..], &f.gpus[..]), ("hang-rank-absent", Confidence::Likely, &[5][..], &[][..]));
    assert_eq!(
        f.summary,
        "rank 5 on 10.0.0.1 (pid 51105) has not joined AllReduce 469 of comm 5c1de770; all 8 ranks on this node wait: the cause is on another node"
    );
    assert_eq!(f.next.as_deref(), Some("ssh 10.0.0.1 py-spy dump --nonblocking --pid 51105"));
    assert_eq!(state(&session), State::Stuck);
    assert_eq!(session.ledger.open().iter().filter(|f| f.rule.starts_with("hang")).count(), 1);
}

#[test]
fn the_first_rank_elsewhere_one_operation_behind_may_be_saving_a_checkpoint() {
    let (_, said) = elsewhere(100, but(0, |n| Some(n - 1)));
    assert_eq!(told(&said).map(|t| t.0), None);
    let (_, said) = elsewhere(150, but(0, |n| Some(n - 1)));
    let (at, f) = told(&said).expect("a finding");
    assert!(at >= 120.0 && f.confidence == Confidence::Possible, "after {at} s");
    // Nobody saves a checkpoint between twelve operations, nor is any other rank in the way of one.
    for (rank, behind) in [(0, 12), (3, 1)] {
        let (_, said) = elsewhere(40, but(rank, |n| Some(n - behind)));
        assert!(told(&said).is_some_and(|(at, f)| at <= 20.0 && f.ranks == [rank]), "rank {rank}");
    }
}

#[test]
fn while_all_save_their_part_of_a_checkpoint_the_slowest_is_not_accused() {
    const GB: u64 = 1_000_000_000;
    let (_, said) = elsewhere_after(30 * GB, 40, but(5, |n| Some(n - 1)));
    assert_eq!(told(&said).map(|t| t.0), None);
    let (_, said) = elsewhere_after(30 * GB, 100, but(5, |n| Some(n - 1)));
    assert!(told(&said).is_some_and(|(at, _)| at > 40.0), "it is not forgiven for ever");
}

#[test]
fn one_that_does_not_answer_is_named_too() {
    let (_, said) = elsewhere(40, but(5, |_| None));
    let (at, f) = told(&said).expect("a finding");
    assert!(at <= 20.0, "after {at} s");
    assert_eq!(
        f.summary,
        "rank 5 on 10.0.0.1 (pid 51105) does not answer RAS; all 8 ranks on this node wait: the cause is on another node"
    );
    assert_eq!(f.next.as_deref(), Some("ssh 10.0.0.1 ps -o pid,stat,wchan:24,etime,args -p 51105"));

    let (_, said) = elsewhere(40, |n| but(5, |_| None)(n).replace("\"considered_dead\": false", "\"considered_dead\": true"));
    let dead = &told(&said).expect("a finding").1.summary;
    assert!(dead.starts_with("rank 5 on 10.0.0.1 (pid 51105) is gone: no answer to RAS for a minute; all 8 ranks"), "{dead}");

    let (_, said) = elsewhere(40, |n| but(5, |_| None)(n).replace("\"unresponsive\": true", "\"unresponsive\": false"));
    let left = &told(&said).expect("a finding").1.summary;
    assert!(left.starts_with("rank 5 on 10.0.0.1 (pid 51105) has left comm 5c1de770; all 8 ranks"), "{left}");
}

#[test]
fn a_whole_node_is_named_as_one() {
    let node = |rank: u32| rank < 6;
    let (_, said) = elsewhere(40, |n| ras_json(16, |r| Some(if node(r) { n - 7 } else { n })));
    let summary = &told(&said).expect("a finding").1.summary;
    assert!(
        summary.starts_with("ranks 0, 1, 2, 3, 4 and 5 on 10.0.0.1 have not joined AllReduce 474 of comm 5c1de770; all 8"),
        "{summary}"
    );
}

#[test]
fn another_collective_elsewhere_is_a_mismatch_and_says_where() {
    let (session, said) = elsewhere(40, |n| {
        let answer = ras_json(16, |_| Some(n));
        let (head, tail) = answer.split_once(r#""rank": 5,"#).expect("rank 5");
        let counts = format!(r#""AllGather": 1, "ReduceScatter": 0, "AllReduce": {n}"#);
        let other = format!(r#""AllGather": 2, "ReduceScatter": 0, "AllReduce": {}"#, n - 12);
        format!(r#"{head}"rank": 5,{}"#, tail.replacen(&counts, &other, 1))
    });
    let (at, f) = told(&said).expect("a finding");
    assert!(at <= 20.0, "after {at} s");
    assert_eq!((f.rule, &f.ranks[..]), ("collective-mismatch", &[5][..]));
    assert_eq!(
        f.summary,
        "rank 5 on 10.0.0.1 (pid 51105) called AllGather where the others called AllReduce in comm 5c1de770; \
         all 8 ranks on this node wait: the cause is on another node"
    );
    assert_eq!(f.next.as_deref(), Some("ssh 10.0.0.1 py-spy dump --nonblocking --pid 51105"));
    assert!(!session.ledger.open().iter().any(|f| f.rule == "hang-rank-absent"));
}

#[test]
fn what_ras_calls_a_host_becomes_no_command() {
    let hostile = "$(reboot)\\u001b[2J";
    let (_, said) = elsewhere(40, |n| but(5, |n| Some(n - 12))(n).replace("10.0.0.1\"", &format!("{hostile}\"")));
    let f = told(&said).expect("a finding").1;
    assert_eq!(f.next, None);
    assert!(!f.summary.contains('\u{1b}'), "{}", f.summary);
}

#[test]
fn an_old_nccl_that_answers_in_text_is_understood() {
    let (session, said) = elsewhere(60, |n| {
        format!(
            "NCCL version 2.24.3 compiled with CUDA 12.8\nCUDA runtime version 12080, driver version 12080\n\n\
             Communicators... (0.05s)\n=============\n\n\
             Group     Comms     Nodes     Ranks     Ranks     Ranks    Status  Errors\n\
             \x20   #  in group  per comm  per node  per comm  in group\n\
             \x20   0         1         2         8        16        16   RUNNING      OK\n\n\
             Errors\n======\n\nWarnings\n========\n\n#0-0 (5c1de7706f19ab34) MISMATCH\n\
             \x20 Communicator ranks have different collective operation counts\n\
             \x20 15 ranks have launched up to operation {n}\n\
             \x20 Rank 5 has launched up to operation {} -- GPU 5 managed by process 51105 on node 10.0.0.1\n\n",
            n - 12
        )
    });
    let (at, f) = told(&said).expect("a finding");
    assert!(at <= 25.0, "after {at} s");
    assert_eq!((f.rule, &f.ranks[..]), ("hang-rank-absent", &[5][..]));
    assert!(f.summary.starts_with("rank 5 on 10.0.0.1 (pid 51105) has not joined collective 469 of comm"), "{}", f.summary);
    assert_eq!(state(&session), State::Stuck);
}
