//! What is said of jobs whose processes end, by their exit codes.

use nccl_top::base::severity::{Confidence, Role, Severity};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::log::{KernelLine, Line, Lines, LogFileInfo};
use nccl_top::observe::process::{LogVia, ProcessGone, ProcessInfo, ProcessLog, ProcessRole};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::rules::findings::{Change, Finding};

/// torchrun is process 100 with ranks 0 to 3 as 101 to 104, their output in a pipe; a second job is at 300.
struct Node {
    session: Session,
    ms: i64,
    events: Vec<(Stamp, Event)>,
}

const SIGTERM: Option<i32> = Some(-15);
const SIGKILL: Option<i32> = Some(-9);

impl Node {
    fn empty() -> Node {
        Node { session: Session::new("node", Zone::UTC), ms: 1_000_000, events: Vec::new() }
    }

    fn with_job() -> Node {
        let mut node = Node::empty();
        node.starts(100, "4").after_s(4);
        node
    }

    fn sees(&mut self, from: &'static str, body: Body) -> &mut Self {
        let at = Stamp(self.ms * 1_000_000);
        self.session.apply(&Observation { at, host: None, from: SourceId::of(from), body }, &mut self.events);
        self
    }

    fn starts(&mut self, launcher: u32, world: &str) -> &mut Self {
        let info = ProcessInfo { pid: launcher, ppid: 1, start_ticks: 1, role: ProcessRole::Launcher, ..Default::default() };
        self.sees("procs", Body::Process(info));
        for rank in 0..4 {
            self.rank(rank, launcher, launcher + 1 + rank, world);
        }
        self
    }

    fn rank(&mut self, rank: u32, launcher: u32, pid: u32, world: &str) -> &mut Self {
        let env = [("RANK", rank.to_string()), ("WORLD_SIZE", world.into()), ("LOCAL_WORLD_SIZE", "4".into())];
        let pipe = ProcessLog { via: LogVia::Stdout, path: "pipe:[77]".into(), ..Default::default() };
        self.sees(
            "procs",
            Body::Process(ProcessInfo {
                pid,
                ppid: launcher,
                start_ticks: 1,
                role: ProcessRole::Rank,
                comm: "python3".into(),
                env: Some(env.map(|(k, v)| (k.to_owned(), v)).into()),
                logs: vec![pipe],
                ..Default::default()
            }),
        )
    }

    fn after_ms(&mut self, ms: i64) -> &mut Self {
        let until = self.ms + ms;
        while self.ms / 1000 < until / 1000 {
            self.ms = (self.ms / 1000 + 1) * 1000;
            self.sees("feed", Body::Tick);
        }
        self.ms = until;
        self
    }

    fn after_s(&mut self, seconds: i64) -> &mut Self {
        self.after_ms(seconds * 1000)
    }

    fn ends(&mut self, pid: u32, exit_code: Option<i32>) -> &mut Self {
        self.sees("procs", Body::ProcessGone(ProcessGone { pid, start_ticks: 1, exit_code }))
    }

    fn all_end(&mut self, pids: impl IntoIterator<Item = u32>, exit_code: Option<i32>) -> &mut Self {
        for pid in pids {
            self.ends(pid, exit_code);
        }
        self
    }

    fn says(&mut self, text: &str) -> &mut Self {
        self.sees("tail", Body::LogFile(LogFileInfo { file: 1, path: "train.log".into(), inode: Some(5), ..Default::default() }));
        let lines = vec![Line { text: text.into(), ..Default::default() }];
        self.sees("tail", Body::Lines(Lines { file: 1, lines, ..Default::default() }))
    }

    fn open(&self) -> Vec<&Finding> {
        self.session.ledger.open()
    }

    /// Rule, role, ranks and summary of all that is open.
    fn told(&self) -> Vec<String> {
        self.open().iter().map(|f| format!("{} {} {:?} {}", f.rule, f.role.as_str(), f.ranks, f.summary)).collect()
    }

    fn state(&self, job: &str) -> (State, &str) {
        let verdict = &self.session.verdicts[job];
        (verdict.state, &verdict.summary)
    }
}

#[test]
fn exit_codes_of_another_users_processes_say_how_they_ended() {
    let mut node = Node::empty();
    for pid in [101, 102] {
        let hidden = vec!["environ: permission denied".into()];
        let info = ProcessInfo { pid, ppid: 100, start_ticks: 1, role: ProcessRole::GpuUser, hidden, ..Default::default() };
        node.sees("procs", Body::Process(info));
    }
    node.after_s(4).ends(102, Some(-11)).after_s(1).ends(101, SIGTERM).after_s(4);
    assert_eq!(node.told(), ["rank-exited root [] pid 102 was killed by SIGSEGV"]);
    assert_eq!(node.state("100"), (State::Failed, "pid 102 was killed by SIGSEGV"));
}

#[test]
fn who_ended_by_itself_is_to_blame_and_not_those_that_the_launcher_ended() {
    let mut node = Node::with_job();
    // All within one look.
    node.all_end([101, 103, 104], SIGTERM).ends(102, Some(1)).ends(100, Some(1)).after_s(1);
    assert!(node.told().is_empty(), "the log may say more: {:?}", node.told());
    node.after_s(3);
    assert_eq!(node.told(), ["rank-exited root [1] rank 1 (pid 102) exited with code 1"]);
    let finding = node.open()[0];
    assert_eq!((finding.severity, finding.confidence), (Severity::Critical, Confidence::Certain));
    let evidence: Vec<&str> = finding.evidence.iter().map(|e| e.text.as_str()).collect();
    assert_eq!(evidence, ["pid 102 exited with code 1", "ranks 0, 2 and 3: SIGTERM at the same look"]);
    assert_eq!(finding.evidence[0].at, Some(Stamp(1_004_000_000_000)));
    assert!(finding.next.as_ref().unwrap().contains("pipe:[77]"));
    assert_eq!(node.state("100"), (State::Failed, "rank 1 (pid 102) exited with code 1"));
}

#[test]
fn the_first_that_crashes_is_to_blame_whatever_the_others_die_of() {
    let mut node = Node::with_job();
    node.ends(103, Some(-11)).after_ms(300).ends(101, Some(-6)).after_ms(100).ends(102, SIGTERM).after_s(30).ends(104, SIGKILL).after_s(1);
    assert_eq!(node.told(), ["rank-exited root [2] rank 2 (pid 103) was killed by SIGSEGV"]);

    let mut node = Node::with_job();
    node.ends(104, SIGKILL).after_ms(200).ends(101, Some(1)).after_ms(100).all_end([102, 103], SIGTERM).ends(100, Some(1)).after_s(4);
    assert_eq!(node.told(), ["rank-exited root [3] rank 3 (pid 104) was killed by SIGKILL"]);
}

#[test]
fn ranks_that_fail_at_one_moment_are_all_named() {
    let mut node = Node::with_job();
    node.all_end(101..105, Some(2)).ends(100, Some(1)).after_s(4);
    assert_eq!((node.open()[0].ranks.clone(), node.open()[0].confidence), (vec![0, 1, 2, 3], Confidence::Likely));
}

#[test]
fn a_rank_that_dies_while_the_others_live_is_told() {
    let mut node = Node::with_job();
    node.ends(103, Some(-7)).after_s(3);
    assert_eq!(node.told(), ["rank-exited root [2] rank 2 (pid 103) was killed by SIGBUS"]);
    assert!(node.open()[0].why.ends_with("3 ranks are left"));
    // torchrun starts all of them again.
    node.all_end([101, 102, 104], SIGTERM).after_s(1);
    (0..4).for_each(|rank| {
        node.rank(rank, 100, 201 + rank, "4");
    });
    node.after_s(20);
    assert!(node.told().is_empty(), "{:?}", node.told());
    assert_eq!(node.state("100").0, State::Starting);
}

#[test]
fn one_of_which_it_is_not_known_how_it_ended_may_have_been_the_first() {
    let mut node = Node::with_job();
    node.ends(101, None).after_ms(500).ends(102, Some(1)).all_end([103, 104], SIGTERM).after_s(4);
    assert_eq!(node.told(), ["rank-exited root [] rank 1 (pid 102) exited with code 1; how rank 0 ended is not known"]);
}

#[test]
fn a_good_end_is_no_finding() {
    let mut node = Node::with_job();
    node.all_end(101..105, Some(0)).after_ms(800).ends(100, Some(0)).after_s(4);
    assert!(node.told().is_empty(), "{:?}", node.told());
    assert_eq!(node.state("100"), (State::Finished, "all processes ended with exit code 0"));
    // Where only the launcher's code could be seen, it is that of all.
    let mut node = Node::with_job();
    node.all_end(101..105, None).ends(100, Some(0)).after_s(4);
    assert_eq!(node.state("100").0, State::Finished);
    let mut node = Node::with_job();
    node.all_end(101..105, None).ends(100, None).after_s(4);
    assert_eq!(node.state("100").0, State::Unknown);
}

#[test]
fn a_job_that_is_cancelled_blames_no_rank() {
    let mut node = Node::with_job();
    node.all_end([101, 102, 104], SIGTERM).after_ms(400).ends(103, Some(1)).ends(100, Some(1)).after_s(4);
    assert_eq!(node.told(), ["job-cancelled root [] SIGTERM ended the job from outside; no rank had failed before"]);
    assert_eq!((node.open()[0].severity, node.state("100").0), (Severity::Error, State::Failed));

    // Ctrl-C reaches all at once.
    let mut node = Node::with_job();
    node.all_end([101, 102], Some(-2)).all_end([103, 104], Some(1)).ends(100, Some(1)).after_s(4);
    assert_eq!(node.told(), ["job-cancelled root [] SIGINT ended the job from outside; no rank had failed before"]);
    assert_eq!(node.open()[0].severity, Severity::Warning);
    assert_eq!(node.state("100"), (State::Failed, "terminated from outside by SIGINT"));

    // Another node's rank may have failed.
    let mut node = Node::empty();
    node.starts(100, "8").after_s(4).all_end(101..105, SIGTERM).ends(100, Some(1)).after_s(4);
    assert!(node.told()[0].ends_with("or a rank of another node failed"), "{:?}", node.told());

    let mut node = Node::with_job();
    node.all_end(101..105, SIGKILL).ends(100, SIGKILL).after_s(4);
    assert!(node.told().is_empty(), "{:?}", node.told());
    assert_eq!(node.state("100"), (State::Failed, "terminated from outside by SIGKILL"));
}

#[test]
fn a_launcher_that_lives_may_start_its_ranks_again() {
    let mut node = Node::with_job();
    node.all_end(101..105, SIGTERM).after_s(10);
    assert!(node.told().is_empty(), "{:?}", node.told());
    (0..4).for_each(|rank| {
        node.rank(rank, 100, 201 + rank, "4");
    });
    node.after_s(60);
    assert!(node.told().is_empty(), "{:?}", node.told());
}

#[test]
fn a_launcher_that_fails_alone_names_no_rank() {
    let mut node = Node::with_job();
    node.all_end(101..105, Some(0)).ends(100, Some(1)).after_s(4);
    assert_eq!(node.told(), ["rank-exited root [] the launcher (pid 100) exited with code 1, its ranks on this node with code 0"]);
    let mut node = Node::with_job();
    node.all_end(101..105, None).ends(100, Some(1)).after_s(4);
    let words = "the launcher (pid 100) exited with code 1, and nothing tells how its ranks did";
    assert_eq!(node.told(), [format!("rank-exited root [] {words}")]);
    assert_eq!(node.state("100"), (State::Failed, words));
}

#[test]
fn a_launcher_that_ends_well_or_much_later_makes_no_failure_of_a_good_end() {
    // It ends helpers itself when all is done.
    let mut node = Node::with_job();
    node.all_end(101..103, Some(0)).all_end(103..105, SIGTERM).ends(100, Some(0)).after_s(90);
    assert!(node.told().is_empty(), "{:?}", node.told());
    assert_eq!(node.state("100").0, State::Finished);
    // A script that goes on after training, and is stopped by hand, or fails at something else.
    for exit_code in [-2, -15, 1] {
        let mut node = Node::with_job();
        node.all_end(101..105, Some(0)).after_s(90).ends(100, Some(exit_code)).after_s(10);
        assert!(node.told().is_empty(), "{:?}", node.told());
        assert_eq!(node.state("100").0, State::Finished);
    }
}

#[test]
fn ranks_that_fail_together_are_named_together() {
    let mut node = Node::with_job();
    node.ends(102, Some(1)).after_ms(50).all_end([101, 103, 104], Some(1)).ends(100, Some(1)).after_s(4);
    assert!(node.told()[0].starts_with("rank-exited root [1, 0, 2, 3] rank 1 (pid 102) exited with code 1, rank 0"), "{:?}", node.told());
    assert_eq!(node.open()[0].confidence, Confidence::Likely);
}

#[test]
fn ranks_that_are_gone_are_not_said_to_train_while_the_launcher_waits() {
    let mut node = Node::with_job();
    node.all_end(101..105, Some(0)).after_s(4);
    assert_eq!(node.state("100"), (State::Finished, "all ranks ended with exit code 0; the launcher still runs"));
}

#[test]
fn a_rank_of_a_second_start_that_fails_before_all_are_seen_is_named() {
    let mut node = Node::with_job();
    node.ends(102, Some(1)).after_ms(200).all_end([101, 103, 104], SIGTERM).after_s(1);
    (0..3).for_each(|rank| {
        node.rank(rank, 100, 201 + rank, "4");
    });
    node.after_ms(1500).ends(202, Some(44)).rank(3, 100, 204, "4").after_ms(300);
    node.all_end([201, 203, 204], SIGTERM).ends(100, Some(1)).after_s(4);
    assert!(node.told().iter().any(|t| t.starts_with("rank-exited root [1] rank 1 (pid 202) exited with code 44")), "{:?}", node.told());
}

#[test]
fn a_log_of_one_of_two_jobs_is_not_the_survivors() {
    let mut node = Node::with_job();
    node.starts(300, "4").after_s(4);
    node.says("[rank2]: ValueError: boom").after_s(1);
    node.all_end(301..305, Some(1)).ends(300, Some(1)).after_s(4);
    node.says("step 3 | loss 2.5").after_s(4);
    assert!(!["100", "300"].contains(&node.session.model.files[&1].job.as_str()), "{}", node.session.model.files[&1].job);
}

#[test]
fn what_a_log_says_without_a_rank_is_of_the_one_that_ended_by_itself() {
    let mut node = Node::with_job();
    let traceback = ["Traceback (most recent call last):", "  File \"t.py\", line 3, in <module>", "ValueError: boom"];
    traceback.iter().for_each(|line| {
        node.says(line);
    });
    node.after_ms(200).ends(103, Some(1)).after_ms(300).all_end([101, 102, 104], SIGTERM).ends(100, Some(1)).after_s(4);
    let told = node.told();
    assert!(told.contains(&"python-exception root [2] rank 2: ValueError: boom".to_owned()), "{told:?}");
    assert!(told.iter().any(|t| t.starts_with("rank-exited cascade [2] ")), "{told:?}");
    assert!(node.state("100").1.starts_with("rank 2: ValueError: boom"));
}

#[test]
fn what_others_send_is_no_crash() {
    for signal in [1, 2, 3, 10, 12, 15, 24] {
        let mut node = Node::with_job();
        node.all_end(101..105, Some(-signal)).ends(100, Some(1)).after_s(4);
        assert!(node.told()[0].starts_with("job-cancelled root []"), "{:?}", node.told());
    }
}

#[test]
fn ranks_that_watchdogs_abort_may_have_waited_for_another_node() {
    let mut node = Node::empty();
    node.starts(100, "8").after_s(4);
    node.ends(102, Some(-6)).after_ms(300).all_end([101, 103, 104], SIGTERM).ends(100, Some(1)).after_s(4);
    let words = "rank 1 (pid 102) was killed by SIGABRT; a rank of another node may have failed before";
    assert_eq!(node.told(), [format!("rank-exited root [] {words}")]);
    assert_eq!(node.open()[0].confidence, Confidence::Possible);
    let mut node = Node::empty();
    node.starts(100, "8").after_s(4);
    node.ends(102, Some(-11)).after_ms(300).all_end([101, 103, 104], SIGTERM).ends(100, Some(1)).after_s(4);
    assert!(node.told()[0].starts_with("rank-exited root [1] rank 1 (pid 102) was killed by SIGSEGV"), "{:?}", node.told());
}

#[test]
fn each_job_ends_for_itself() {
    let mut node = Node::with_job();
    node.starts(300, "4").after_s(4);
    node.ends(302, Some(-8)).all_end([301, 303, 304], SIGTERM).ends(300, Some(1)).all_end(101..105, Some(0)).ends(100, Some(0)).after_s(4);
    assert_eq!(node.told(), ["rank-exited root [1] rank 1 (pid 302) was killed by SIGFPE"]);
    assert_eq!(node.open()[0].job.as_deref(), Some("300"));
    assert_eq!((node.state("100").0, node.state("300").0), (State::Finished, State::Failed));
}

#[test]
fn a_job_keeps_its_ranks_and_its_log_when_it_has_ended_and_another_begins() {
    let mut node = Node::with_job();
    let jobs = |node: &Node| node.session.model.jobs.keys().cloned().collect::<Vec<_>>();
    let log = ProcessLog { via: LogVia::Stdout, path: "train.log".into(), inode: Some(5), ..Default::default() };
    let launcher = ProcessInfo { pid: 100, ppid: 1, start_ticks: 1, role: ProcessRole::Launcher, logs: vec![log], ..Default::default() };
    node.sees("procs", Body::Process(launcher)).says("step 5 | loss 2.5 | step_time 10.0 ms");
    assert_eq!(node.session.model.files[&1].job, "100");
    // SIGKILL to the launcher first: its ranks become children of init.
    node.ends(100, SIGKILL);
    (0..4).for_each(|rank| {
        node.rank(rank, 1, 101 + rank, "4");
    });
    node.all_end(101..105, SIGKILL).after_s(70);
    node.starts(300, "4").after_s(4);
    assert_eq!(jobs(&node), ["100", "300"]);
    assert_eq!(node.session.model.files[&1].job, "100");
    node.after_s(16 * 60);
    assert_eq!(jobs(&node), ["300"], "long ago");
    node.starts(400, "4").after_s(4);
    node.all_end(401..405, Some(0)).ends(400, Some(0)).after_s(4);
    assert!(["300", "400"].iter().all(|job| node.session.model.progress_of(job).is_none()), "its steps were another job's");
}

#[test]
fn what_the_log_says_of_the_rank_is_why_it_ended_read_before_or_after() {
    const OOM: &str = "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.11 GiB of which 1.06 GiB is free.";
    for late in [false, true] {
        let mut node = Node::with_job();
        if !late {
            node.says(OOM);
        }
        node.ends(102, Some(1)).all_end([101, 103, 104], SIGTERM).after_s(3);
        if late {
            node.says(OOM);
        }
        node.after_s(3);
        let told: Vec<_> = node.open().iter().map(|f| (f.rule, f.role)).collect();
        assert_eq!(told, [("cuda-oom", Role::Root), ("rank-exited", Role::Cascade)], "late: {late}");
    }
}

#[test]
fn one_crash_that_launcher_and_kernel_both_report_is_one_cause() {
    let crash =
        KernelLine { level: 3, text: "python3[102]: segfault at 0 ip 00007f sp 0 error 4 in libnccl.so.2".into(), ..Default::default() };
    let launcher = "E0101 10:00:00.000000 100 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -11) local_rank: 1 (pid: 102) of binary: python";
    for kernel_first in [true, false] {
        let mut node = Node::with_job();
        node.after_s(20).ends(102, Some(-11));
        for of_kernel in [kernel_first, !kernel_first] {
            match of_kernel {
                true => node.sees("kmsg", Body::Kernel { lines: vec![crash.clone()], uptime_us: None }),
                false => node.says(launcher),
            }
            .after_s(1);
        }
        node.after_s(5);
        let is_root =
            |event: &&(Stamp, Event)| matches!(&event.1, Event::Finding(Change::Opened(f)) if f.role == Role::Root && f.ranks == [1]);
        let roots: Vec<_> = node.events.iter().filter(is_root).collect();
        assert_eq!(roots.len(), 1, "the kernel's line first: {kernel_first}: {roots:?}");
        assert_eq!(node.told().iter().filter(|told| told.contains(" root ")).count(), 1, "{:?}", node.told());
    }
}
