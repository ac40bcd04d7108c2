//! Jobs that were ended from outside, and jobs that could not start: real output of torchrun, and live processes.

use nccl_top::archive::check;
use nccl_top::base::severity::Role;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::process::{ProcessGone, ProcessInfo, ProcessRole, ProcessSample};
use nccl_top::observe::{Body, Observation, SourceId};

/// `rule [ranks] summary` of the cause that `check` names.
fn cause_of(fixture: &str) -> String {
    let path = format!("{}/tests/fixtures/ends/{fixture}.log", env!("CARGO_MANIFEST_DIR"));
    let report = check(&[path], Zone::UTC, &mut |_, _| ());
    let cause = &report.findings[report.root_cause.unwrap()];
    assert_eq!(cause.role, Role::Root, "{fixture}: {}", cause.summary);
    format!("{} {:?} {}", cause.rule, cause.ranks, cause.summary)
}

#[test]
fn sigterm_to_one_rank_names_it_and_to_all_of_them_nobody() {
    assert_eq!(cause_of("sigterm-one-rank"), "rank-exited [1] rank 1 (pid 9908) was ended by SIGTERM from outside the job");
    assert_eq!(
        cause_of("sigterm-all-ranks"),
        "job-cancelled [] SIGTERM ended all ranks of a launcher from outside; no rank had failed before"
    );
    assert_eq!(cause_of("sigterm-launcher"), "job-cancelled [] the launcher received signal 15 (SIGTERM) and shut its workers down");
}

#[test]
fn what_keeps_a_job_from_starting_is_the_cause_and_not_the_exit_code() {
    assert_eq!(
        cause_of("script-missing"),
        "launch-failed [] launcher: the script /home/u/nosuch.py cannot be opened: No such file or directory"
    );
    assert_eq!(
        cause_of("launcher-option"),
        "launch-failed [] launcher: torchrun does not take its arguments: unrecognized arguments: --bogus"
    );
    assert_eq!(cause_of("master-addr-missing"), "launch-failed [] rendezvous: MASTER_ADDR is not set");
}

/// A job of two ranks, 101 and 102, below the launcher 100.
struct Node(Session, i64);

impl Node {
    fn new(ranks: [&str; 2], more: &[(&str, &str)]) -> Node {
        let mut node = Node(Session::new("node", Zone::UTC), 1_000_000);
        let launcher = ProcessInfo { pid: 100, ppid: 1, start_ticks: 1, role: ProcessRole::Launcher, ..Default::default() };
        node.sees("procs", Body::Process(launcher));
        for (pid, rank) in [101, 102].into_iter().zip(ranks) {
            let env = [("RANK", rank), ("WORLD_SIZE", "2"), ("LOCAL_WORLD_SIZE", "2")];
            let env = env.iter().chain(more).map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
            let info = ProcessInfo { pid, ppid: 100, start_ticks: 1, role: ProcessRole::Rank, env: Some(env), ..Default::default() };
            node.sees("procs", Body::Process(info));
        }
        node.after_ms(4000)
    }

    fn sees(&mut self, from: &'static str, body: Body) {
        let at = Stamp(self.1 * 1_000_000);
        self.0.apply(&Observation { at, host: None, from: SourceId::of(from), body }, &mut Vec::new());
    }

    fn after_ms(mut self, ms: i64) -> Node {
        let until = self.1 + ms;
        while self.1 / 1000 < until / 1000 {
            self.1 = (self.1 / 1000 + 1) * 1000;
            self.sees("feed", Body::Tick);
        }
        self.1 = until;
        self
    }

    fn ends(mut self, pid: u32, exit_code: i32) -> Node {
        self.sees("procs", Body::ProcessGone(ProcessGone { pid, start_ticks: 1, exit_code: Some(exit_code) }));
        self
    }

    /// Rule, reasons and next step of the only finding.
    fn told(&self) -> (&str, &str, &str) {
        let open = self.0.ledger.open();
        assert_eq!(open.len(), 1, "{:?}", open.iter().map(|f| &f.summary).collect::<Vec<_>>());
        (open[0].rule, &open[0].why, open[0].next.as_deref().unwrap())
    }
}

#[test]
fn who_knows_why_a_job_was_cancelled_is_named_by_its_environment() {
    let cancelled = |more: &[(&str, &str)]| Node::new(["0", "1"], more).ends(101, -15).ends(102, -15).ends(100, 1).after_ms(4000);
    let slurm = cancelled(&[("SLURM_JOB_ID", "4711")]);
    assert_eq!(slurm.told().0, "job-cancelled");
    assert!(slurm.told().2.contains("sacct -j 4711 "), "{}", slurm.told().2);
    let pod = cancelled(&[("KUBERNETES_SERVICE_HOST", "1"), ("HOSTNAME", "worker-1")]);
    assert!(pod.told().2.contains("kubectl describe pod worker-1;"), "{}", pod.told().2);
    // Whoever made the environment chose its values; the step is copied into a shell.
    let hostile = cancelled(&[("SLURM_JOB_ID", "1; rm -rf x")]);
    assert!(!hostile.told().2.contains("rm -rf"), "{}", hostile.told().2);
    assert!(!hostile.told().1.contains("alone"), "{}", hostile.told().1);
}

#[test]
fn the_rank_that_went_well_before_the_others_is_mentioned() {
    let node = Node::new(["0", "1"], &[]).ends(102, -15).after_ms(400).ends(101, -15).ends(100, 1).after_ms(4000);
    assert!(node.told().1.contains("rank 1 ended 0.4 s before the others: the signal may have gone to it alone"), "{}", node.told().1);
}

#[test]
fn a_rank_that_the_job_cannot_have_is_named_while_it_waits() {
    let node = Node::new(["0", "2"], &[]);
    let (rule, why, next) = node.told();
    assert_eq!((rule, why), ("launch-failed", "environment of pid 102: RANK=2, WORLD_SIZE=2"));
    assert!(next.contains("a RANK below WORLD_SIZE"), "{next}");
}

#[test]
fn the_exit_code_of_an_agent_says_nothing_of_its_ranks() {
    let ended_below = |comm: &str| {
        let mut node = Node::new(["0", "1"], &[]);
        let launcher =
            ProcessInfo { pid: 100, ppid: 1, start_ticks: 1, role: ProcessRole::Launcher, comm: comm.into(), ..Default::default() };
        node.sees("procs", Body::Process(launcher));
        for pid in [101, 102] {
            node.sees("procs", Body::ProcessGone(ProcessGone { pid, start_ticks: 1, exit_code: None }));
        }
        node.ends(100, 0).after_ms(4000).0.state().0
    };
    assert_eq!(ended_below("torchrun"), State::Finished);
    assert_eq!(ended_below("slurmstepd"), State::Unknown);
}

#[test]
fn who_was_stopped_until_it_ended_stays_named() {
    let mut node = Node::new(["0", "1"], &[]);
    let stopped = ProcessSample { pid: 102, state: Some('T'), ..Default::default() };
    node.sees("procs", Body::Processes { processes: vec![stopped] });
    let node = node.after_ms(5000).ends(102, -9).ends(101, 1).after_ms(10_000);
    let open = node.0.ledger.open();
    assert!(open.iter().any(|f| f.rule == "rank-stopped" && f.ranks == [1]), "{open:?}");
}
