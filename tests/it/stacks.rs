//! The stacks of all ranks, compared: stacks here are constructed in the form in which py-spy prints them.

use nccl_top::edge::py_spy::{Plan, Target};
use nccl_top::edge::stacks::{Compared, Taken, Whose, main_thread, most_often_odd};

fn whose(rank: u32) -> Whose {
    Whose { rank: Some(rank), pid: 100 + rank, loads: false }
}

fn printed(frames: &[&str]) -> Vec<String> {
    let head = [
        "Process 7: python train.py",
        "Python v3.12.3 (/usr/bin/python3.12)",
        "",
        "Thread 8 (idle): \"Thread-1\"",
        "    wait (threading.py:1)",
    ];
    let main = ["Thread 7 (active): \"MainThread\""];
    let tail = ["Thread 9 (idle)", "    _pin (torch/utils/data/_utils/pin_memory.py:30)"];
    let frames: Vec<String> = frames.iter().map(|f| format!("    {f}")).collect();
    let lines = |of: &[&str]| of.iter().map(|l| (*l).to_owned()).collect::<Vec<_>>();
    [lines(&head), lines(&main), frames, lines(&tail)].concat()
}

const REDUCE: &[&str] = &["all_reduce (torch/distributed/distributed_c10d.py:2501)", "step (train.py:40)", "<module> (train.py:90)"];
const SLEEP: &[&str] = &["stall (train.py:12)", "step (train.py:38)", "<module> (train.py:90)"];

fn rank(rank: u32, frames: &[&str]) -> Taken {
    Taken { whose: whose(rank), lines: printed(frames) }
}

#[test]
fn equal_stacks_are_one_group_and_the_odd_one_comes_first() {
    assert_eq!(main_thread(&printed(SLEEP)).unwrap()[0].function, "stall");
    let later: Vec<String> = REDUCE.iter().map(|f| f.replace(":40)", ":47)")).collect();
    let later: Vec<&str> = later.iter().map(String::as_str).collect();
    let loader = |pid| Taken { whose: Whose { rank: Some(0), pid, loads: true }, lines: printed(&["get (multiprocessing/queues.py:103)"]) };
    let refused = Taken { whose: whose(4), lines: vec!["Error: Permission Denied".into()] };
    let all = Compared::of(&[rank(0, REDUCE), rank(1, &later), rank(2, SLEEP), rank(3, REDUCE), loader(200), loader(201), refused]);
    assert_eq!(all.odd(), [2]);
    assert_eq!(
        all.lines(),
        [
            "rank 2 (pid 102): in stall (train.py:12)",
            "    step (train.py:38)",
            "    <module> (train.py:90)",
            "ranks 0, 1 and 3: in all_reduce (torch/distributed/distributed_c10d.py:2501)",
            // Where lines differ none is shown.
            "    step (train.py)",
            "    <module> (train.py:90)",
            "data loaders:",
            "2 loaders of rank 0: in get (multiprocessing/queues.py:103)",
            "rank 4 (pid 104): no stack: Error: Permission Denied",
        ]
    );
}

#[test]
fn of_two_ranks_the_one_outside_of_collectives_is_odd_and_else_nobody() {
    assert_eq!(Compared::of(&[rank(0, SLEEP), rank(1, REDUCE)]).odd(), [0]);
    assert_eq!(Compared::of(&[rank(0, SLEEP), rank(1, &["compute (train.py:3)"])]).odd(), [] as [u32; 0]);
    assert_eq!(Compared::of(&[rank(0, SLEEP), rank(1, SLEEP)]).odd(), [] as [u32; 0]);
    assert_eq!(Compared::of(&[]).odd(), [] as [u32; 0]);
}

#[test]
fn over_several_rounds_the_one_flagged_most_often_is_named() {
    let of = |late: u32| Compared::of(&(0..4).map(|r| rank(r, if r == late { SLEEP } else { REDUCE })).collect::<Vec<_>>());
    let rounds: Vec<Compared> = [2, 2, 1, 2, 9].map(of).into();
    assert_eq!(most_often_odd(&rounds).unwrap(), "rank 2 was elsewhere than the others in 3 of 5 rounds");
    assert_eq!(most_often_odd(&[of(9)]), None);
}

#[test]
fn the_command_that_is_shown_is_what_is_run() {
    let target = |rank| Target { whose: whose(rank), start_ticks: 1 };
    let plan = |targets, rounds| Plan { program: "/bin/py-spy".into(), targets, rounds, all: true }.command();
    assert_eq!(plan(vec![target(0)], 1), "/bin/py-spy dump --nonblocking --pid 100");
    assert_eq!(plan(vec![target(0), target(1)], 1), "for pid in 100 101; do /bin/py-spy dump --nonblocking --pid $pid; done");
    assert_eq!(
        plan(vec![target(0), target(1)], 5),
        "for round in $(seq 5); do for pid in 100 101; do /bin/py-spy dump --nonblocking --pid $pid; done; sleep 10; done"
    );
}

#[test]
fn hostile_stacks_are_read_without_harm() {
    for lines in [vec![], vec!["Thread ".to_owned()], vec!["Thread 1".into(), "    (".into()], vec!["Thread 1".into(), "     (:)".into()]] {
        let _ = Compared::of(&[Taken { whose: whose(0), lines }]).lines();
    }
    let deep: Vec<String> =
        std::iter::once("Thread 1 (idle): \"MainThread\"".to_owned()).chain((0..5000).map(|n| format!("    f{n} (a.py:{n})"))).collect();
    assert!(main_thread(&deep).unwrap().len() <= 64);
}
