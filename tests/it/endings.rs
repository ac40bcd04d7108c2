//! Jobs that were ended from outside, and jobs that could not start: real output of torchrun, and live processes.

use nccl_top::archive::check;
use nccl_top::base::severity::{Role, Severity};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::process::{ProcessGone, ProcessInfo, ProcessRole, ProcessSample};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::output::check::text::{Style, text};

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
        "launch-failed [] start: torchrun does not take its arguments: unrecognized arguments: --bogus"
    );
    assert_eq!(cause_of("master-addr-missing"), "launch-failed [] rendezvous: MASTER_ADDR is not set");
}

#[test]
fn what_keeps_the_ranks_from_meeting_is_the_cause() {
    let unknown = "rendezvous-failed [] rendezvous: the host name nosuchhost does not resolve on this host";
    for fixture in ["host-unknown-torchrun", "host-unknown-env", "host-unknown-timeout"] {
        assert_eq!(cause_of(fixture), unknown, "{fixture}");
    }
    assert_eq!(cause_of("another-program"), "rendezvous-failed [] rendezvous: what answers at 10.255.255.1:29500 is not PyTorch's store");
    let begins = |fixture: &str, words: &str| assert!(cause_of(fixture).starts_with(words), "{}", cause_of(fixture));
    begins("port-in-use", "rendezvous-failed [] rendezvous: port 29531 of this host is taken");
    begins("wrong-port", "rendezvous-failed [] rendezvous: no answer from 127.0.0.1:29562");
    begins("too-few-nodes", "init-stuck [] rendezvous: not enough nodes came in time (RendezvousTimeoutError)");
    begins("wrong-world-size", "init-stuck [] rendezvous: 2 of 4 processes came");
}

#[test]
fn who_only_lost_the_connection_to_a_rank_that_left_is_not_to_blame() {
    assert_eq!(
        cause_of("left-early"),
        "rank-exited [] rank 2 (pid 536) ended: exit code 1, because its connection to another rank was closed"
    );
}

#[test]
fn a_restart_of_the_ranks_is_seen_in_the_log_alone() {
    let path = format!("{}/tests/fixtures/ends/restarted.log", env!("CARGO_MANIFEST_DIR"));
    let report = check(&[path], Zone::UTC, &mut |_, _| ());
    assert_eq!(report.attempt().map(|attempt| attempt.no), Some(2));
    assert_eq!(report.went_back(), Some((16, 11)));
    let style = Style { color: false, ascii: true, width: 120 };
    let page = text(&report, Zone::UTC, &style);
    assert!(page.contains("attempts   2: the launcher started the ranks again; steps went back from 16 to 11"), "{page}");
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

    fn says(mut self, text: &str) -> Node {
        self.sees("tail", Body::LogFile(LogFileInfo { file: 1, path: "train.log".into(), ..Default::default() }));
        let lines = text.lines().map(|text| Line { text: text.into(), ..Default::default() }).collect();
        self.sees("tail", Body::Lines(Lines { file: 1, lines, ..Default::default() }));
        self
    }

    /// Rules, ranks and words of what is open at error and above.
    fn open(&self) -> Vec<String> {
        let bad = self.0.ledger.open().into_iter().filter(|f| f.severity >= Severity::Error);
        bad.map(|f| format!("{} {} {:?} {}", f.rule, f.role.as_str(), f.ranks, f.summary)).collect()
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

const LOST: &str = "[rank0]: Traceback (most recent call last):
[rank0]:   File \"/home/u/train.py\", line 9, in <module>
[rank0]:     dist.all_reduce(t)
[rank0]: RuntimeError: [/pytorch/third_party/gloo/gloo/transport/tcp/pair.cc:561] Connection closed by peer [127.0.0.1]:5015. This is typically caused by a remote worker crashing.
";

#[test]
fn a_rank_that_left_with_code_0_before_the_others_lost_it_is_to_blame() {
    let node = Node::new(["0", "1"], &[]).ends(102, 0).after_ms(600).says(LOST).ends(101, 1).ends(100, 1).after_ms(4000);
    let roots: Vec<String> = node.open().into_iter().filter(|f| f.contains(" root ")).collect();
    assert_eq!(
        roots,
        ["rank-exited root [1] rank 1 (pid 102) left with exit code 0 while the others trained; they lost their connection to it"]
    );
    // Python takes its time to end: the others may be gone before.
    let first = Node::new(["0", "1"], &[]).says(LOST).after_ms(700);
    let slow = || Node::new(["0", "1"], &[]).says(LOST).after_ms(700).ends(101, 1).after_ms(300).ends(102, 0).ends(100, 1).after_ms(4000);
    let roots: Vec<String> = slow().open().into_iter().filter(|f| f.contains(" root ")).collect();
    assert_eq!(
        roots,
        ["rank-exited root [1] rank 1 (pid 102) left with exit code 0 while the others trained; they lost their connection to it"]
    );
    // One that printed an error of its own did not leave quietly.
    let own = LOST.replace("[rank0]", "[rank1]").replace("Connection closed by peer", "no data left for");
    let node = first.says(&own).ends(101, 1).after_ms(300).ends(102, 0).ends(100, 1).after_ms(4000);
    assert!(node.open().iter().all(|f| !f.contains("left with exit code 0")), "{:?}", node.open());
    // Without such last words nobody is: the other may have been done, or missed.
    let node = Node::new(["0", "1"], &[]).ends(102, 0).after_ms(600).ends(101, 1).ends(100, 1).after_ms(4000);
    assert_eq!(
        node.open(),
        ["rank-exited root [] rank 0 (pid 101) exited with code 1; rank 1 had left with code 0 0.6 s before, which may be why"]
    );
    // Long after that it is not why.
    let node = Node::new(["0", "1"], &[]).ends(102, 0).after_ms(40_000).ends(101, 1).ends(100, 1).after_ms(4000);
    assert_eq!(node.open(), ["rank-exited root [0] rank 0 (pid 101) exited with code 1"]);
}

#[test]
fn sigterm_to_one_rank_that_the_others_lose_blames_it_and_not_the_job() {
    let node = Node::new(["0", "1"], &[]).ends(102, -15).after_ms(300).says(LOST).ends(101, 1).after_ms(4000);
    let roots: Vec<String> = node.open().into_iter().filter(|f| f.contains(" root ")).collect();
    assert_eq!(
        roots,
        ["rank-exited root [1] rank 1 (pid 102) was ended by SIGTERM from outside the job; the others lost their connection to it"]
    );
}

#[test]
fn ranks_that_stay_behind_one_that_sigterm_ended_wait_for_it() {
    // Bare processes: nobody ends the others.
    let bare = || {
        let mut node = Node::new(["0", "1"], &[]);
        node.sees("procs", Body::ProcessGone(ProcessGone { pid: 100, start_ticks: 1, exit_code: Some(0) }));
        node.ends(102, -15)
    };
    assert!(bare().after_ms(3000).open().is_empty(), "a whole job may be ended one by one");
    assert_eq!(
        bare().after_ms(7000).open(),
        ["rank-exited root [1] rank 1 (pid 102) is gone (killed by signal 15 (SIGTERM)); 1 rank is left"]
    );
    // A launcher gives its ranks half a minute.
    let node = Node::new(["0", "1"], &[]).ends(102, -15).after_ms(30_000);
    assert!(node.open().is_empty(), "{:?}", node.open());
    assert_eq!(node.after_ms(8000).open().len(), 1);
}

fn agent(args: &str) -> Node {
    let mut node = Node(Session::new("node", Zone::UTC), 1_000_000);
    let cmdline = args.split(' ').map(str::to_owned).collect();
    let info = ProcessInfo { pid: 100, ppid: 1, start_ticks: 1, role: ProcessRole::Launcher, cmdline, ..Default::default() };
    node.sees("procs", Body::Process(info));
    node
}

const TWO_NODES: &str = "/opt/venv/bin/python3 /opt/venv/bin/torchrun --nnodes 2 --rdzv-endpoint=head:29500 train.py";

#[test]
fn a_launcher_that_waits_for_nodes_is_a_job_and_is_named_after_a_minute() {
    let node = agent(TWO_NODES).after_ms(50_000);
    let verdict = &node.0.verdicts["100"];
    assert_eq!((verdict.state, verdict.phase), (State::Starting, Some("launch")));
    assert!(verdict.summary.starts_with("torchrun waits at head:29500 for the other nodes (--nnodes 2)"), "{}", verdict.summary);
    assert!(node.open().is_empty(), "{:?}", node.open());
    let mut node = node.after_ms(12_000);
    assert_eq!(
        node.open(),
        ["init-stuck root [] torchrun waits at head:29500 for the other nodes (--nnodes 2), and has started no rank (pid 100)"]
    );
    // They come.
    let env = [("RANK", "0"), ("WORLD_SIZE", "4"), ("MASTER_ADDR", "head"), ("MASTER_PORT", "29500")];
    let env = env.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let rank = ProcessInfo { pid: 101, ppid: 100, start_ticks: 1, role: ProcessRole::Rank, env: Some(env), ..Default::default() };
    node.sees("procs", Body::Process(rank));
    let node = node.after_ms(6000);
    assert!(node.open().is_empty(), "{:?}", node.open());
    assert_eq!(node.0.verdicts.keys().collect::<Vec<_>>(), ["100"]);
}

#[test]
fn a_launcher_that_ends_before_it_has_a_rank_is_named() {
    let node = agent(TWO_NODES).after_ms(5000).ends(100, 1).after_ms(4000);
    assert_eq!(node.open(), ["launch-failed root [] the launcher (pid 100) exited with code 1 before any of its ranks was seen"]);
    assert_eq!(node.0.verdicts["100"].state, State::Failed);
    let node = agent(TWO_NODES).after_ms(5000).ends(100, 0).after_ms(4000);
    assert!(node.open().is_empty(), "{:?}", node.open());
}

#[test]
fn a_host_name_that_does_not_resolve_is_named_live_while_it_is_tried() {
    let tried = "[W1122 16:33:05.056092159 socket.cpp:764] [c10d] The IPv6 network addresses of (nosuchhost, 29500) cannot be retrieved \
                 (gai error: -2 - Name or service not known).";
    let mut node = agent(TWO_NODES).after_ms(3000);
    for _ in 0..3 {
        node = node.says(tried).after_ms(6000);
    }
    assert!(node.open().is_empty() || node.1 >= 1_018_000, "{:?}", node.open());
    let node = node.says(tried).after_ms(2000);
    let words = "rendezvous-failed root [] rendezvous: the host name nosuchhost does not resolve on this host";
    assert_eq!(node.open(), [words]);
    // It came, and the ranks go on.
    let node = node.says("setting up the data").after_ms(3000);
    assert!(node.open().is_empty(), "{:?}", node.open());
}

#[test]
fn ranks_that_meet_at_different_ports_are_named_at_once() {
    let mut node = Node::new(["0", "1"], &[("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")]);
    assert!(node.open().is_empty(), "{:?}", node.open());
    let env = [("RANK", "1"), ("WORLD_SIZE", "2"), ("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29501")];
    let env = env.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let rank = ProcessInfo { pid: 102, ppid: 100, start_ticks: 1, role: ProcessRole::Rank, env: Some(env), ..Default::default() };
    node.sees("procs", Body::Process(rank));
    let node = node.after_ms(1000);
    let words = "rank 0 has MASTER_PORT=29500 and rank 1 MASTER_PORT=29501: they wait for each other in vain";
    assert_eq!(node.open(), [format!("launch-failed root [] {words}")]);
}

#[test]
fn ranks_of_this_node_that_were_not_started_are_named() {
    let here = [("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500"), ("WORLD_SIZE", "4")];
    let node = Node::new(["0", "1"], &here).after_ms(58_000);
    assert_eq!(node.open(), ["init-stuck root [2, 3] ranks 2 and 3 of WORLD_SIZE=4 were not started on this node; 2 ranks wait for them"]);
    // The others may be on other nodes.
    let node = Node::new(["0", "1"], &[("MASTER_ADDR", "head"), ("MASTER_PORT", "29500"), ("WORLD_SIZE", "4")]).after_ms(90_000);
    assert!(node.open().is_empty(), "{:?}", node.open());
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

#[test]
fn a_job_whose_ranks_are_all_stopped_is_suspended_and_none_is_to_blame() {
    let mut node = Node::new(["0", "1"], &[]);
    let stopped = |pid| ProcessSample { pid, state: Some('T'), ..Default::default() };
    node.sees("procs", Body::Processes { processes: vec![stopped(101), stopped(102)] });
    let node = node.after_ms(5000);
    let open = node.0.ledger.open();
    let told: Vec<_> = open.iter().map(|f| (f.rule, f.severity, f.ranks.clone(), f.summary.as_str())).collect();
    assert_eq!(told, [("rank-stopped", Severity::Error, vec![], "both ranks on this node are stopped: the job is suspended")]);
    assert_eq!(open[0].next.as_deref(), Some("kill -CONT 101 102"));
}
