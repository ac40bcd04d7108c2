//! Jobs that come, go, fail, start again and run side by side; and the rules that no recording shows.

use nccl_top::base::severity::Severity;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::gpu::{GpuProcess, GpuProcesses, GpuSample, GpuTrouble, GpuTroubleKind};
use nccl_top::observe::host;
use nccl_top::observe::log::{Line, Lines, LogFileInfo, LogFileState};
use nccl_top::observe::port::{PortInfo, PortKind, PortSample};
use nccl_top::observe::process::{LogVia, Place, ProcessGone, ProcessInfo, ProcessLog, ProcessRole, ProcessSample};
use nccl_top::observe::{Body, Observation, SourceId, SourceReport, SourceState};
use nccl_top::output::snapshot;
use nccl_top::rules::findings::Change;
use serde_json::json;

/// A node under test, with a clock that is turned by hand.
struct Node {
    session: Session,
    now_s: i64,
    events: Vec<(Stamp, Event)>,
}

impl Node {
    fn new() -> Node {
        Node { session: Session::new("node-17", Zone::UTC), now_s: 1000, events: Vec::new() }
    }

    fn sees(&mut self, from: &'static str, body: Body) -> &mut Self {
        let at = Stamp(self.now_s * 1_000_000_000);
        self.session.apply(&Observation { at, host: None, from: SourceId::of(from), body }, &mut self.events);
        self
    }

    fn after(&mut self, seconds: i64) -> &mut Self {
        for _ in 0..seconds {
            self.now_s += 1;
            self.sees("feed", Body::Tick);
        }
        self
    }

    fn launcher(&mut self, pid: u32, log_inode: u64) -> &mut Self {
        let info = ProcessInfo { pid, ppid: 1, start_ticks: 1, role: ProcessRole::Launcher, logs: logs(log_inode), ..Default::default() };
        self.sees("procs", Body::Process(info))
    }

    fn rank(&mut self, rank: u32, pid: u32, launcher: u32, log_inode: u64) -> &mut Self {
        let env =
            [("RANK", rank.to_string()), ("LOCAL_RANK", rank.to_string()), ("WORLD_SIZE", "2".into()), ("LOCAL_WORLD_SIZE", "2".into())];
        let info = ProcessInfo {
            pid,
            ppid: launcher,
            start_ticks: u64::from(pid),
            role: ProcessRole::Rank,
            env: Some(env.map(|(k, v)| (k.to_owned(), v)).into()),
            logs: logs(log_inode),
            ..Default::default()
        };
        self.sees("procs", Body::Process(info))
    }

    fn ends(&mut self, pid: u32, start_ticks: u64) -> &mut Self {
        self.sees("procs", Body::ProcessGone(ProcessGone { pid, start_ticks, exit_code: None }))
    }

    fn log(&mut self, file: u32, inode: u64, path: &str) -> &mut Self {
        let info = LogFileInfo { file, path: path.into(), inode: Some(inode), device: Some(1), ..Default::default() };
        self.sees("tail", Body::LogFile(info))
    }

    fn line(&mut self, file: u32, text: &str) -> &mut Self {
        let line = Line { no: Some(1), text: text.into(), ..Default::default() };
        self.sees("tail", Body::Lines(Lines { file, lines: vec![line], ..Default::default() }))
    }

    fn state(&self, job: &str) -> State {
        self.session.verdicts.get(job).unwrap_or_else(|| panic!("no job {job}")).state
    }

    fn open(&self) -> Vec<(&str, Option<&str>)> {
        self.session.ledger.open().iter().map(|f| (f.rule, f.job.as_deref())).collect()
    }
}

fn logs(inode: u64) -> Vec<ProcessLog> {
    vec![ProcessLog { via: LogVia::Stdout, path: format!("/l/{inode}"), inode: Some(inode), device: Some(1) }]
}

fn two_ranks(node: &mut Node, launcher: u32, inode: u64) {
    node.launcher(launcher, inode).rank(0, launcher + 1, launcher, inode).rank(1, launcher + 2, launcher, inode);
}

const FAILED: &str = "E1121 00:05:26.947000 100 torch/distributed/elastic/multiprocessing/api.py:986] failed (exitcode: -9) local_rank: 1 (pid: 102) of binary: python";

#[test]
fn a_job_that_is_started_again_is_not_failed_any_more() {
    let mut node = Node::new();
    two_ranks(&mut node, 100, 7);
    node.log(1, 7, "/l/7");
    for step in 0..5 {
        node.line(1, &format!("step {step} | loss 2.5")).after(1);
    }
    assert_eq!(node.state("100"), State::Training);
    node.line(1, FAILED).ends(101, 101).ends(102, 102).after(2);
    assert_eq!(node.state("100"), State::Failed);
    assert_eq!(node.open(), [("rank-exited", Some("100"))]);

    node.rank(0, 201, 100, 7).rank(1, 202, 100, 7).after(1);
    assert_eq!(node.open(), []);
    assert_eq!(node.state("100"), State::Starting, "what was known of the ranks before does not count");
    for step in 3..8 {
        node.line(1, &format!("step {step} | loss 2.5")).after(1);
    }
    assert_eq!(node.state("100"), State::Training);
    let cleared = node.events.iter().filter(|(_, e)| matches!(e, Event::Finding(Change::Cleared { .. }))).count();
    assert_eq!(cleared, 1);
}

#[test]
fn a_log_given_by_name_and_the_job_that_writes_it_are_one_job() {
    let mut node = Node::new();
    // The file holds an earlier run's lines; who writes to it now comes after, and its next line at once.
    node.log(1, 7, "train.log").line(1, "step 1 | loss nan | step_time 100 ms").after(1);
    assert_eq!(node.open(), [("loss-not-finite", Some("train.log"))]);
    two_ranks(&mut node, 100, 7);
    node.line(1, "step 7 | loss nan | step_time 100 ms");
    assert_eq!(node.open(), [("loss-not-finite", Some("100"))]);
    node.after(3);
    assert_eq!(node.open(), [("loss-not-finite", Some("100"))]);
    let opened = node.events.iter().filter(|(_, e)| matches!(e, Event::Finding(Change::Opened(_)))).count();
    assert_eq!(opened, 1, "{:?}", node.events);
    assert_eq!(node.session.verdicts.keys().collect::<Vec<_>>(), ["100"]);

    // Beside another job, too, and when the process is known before where it writes.
    let mut node = Node::new();
    two_ranks(&mut node, 300, 8);
    node.rank(0, 501, 1, 99).log(1, 7, "train.log").line(1, "step 1 | loss nan | step_time 100 ms").after(1);
    assert_eq!(node.open(), [("loss-not-finite", Some("train.log"))]);
    node.rank(0, 501, 1, 7).line(1, "step 2 | loss nan | step_time 100 ms").after(1);
    assert_eq!(node.open(), [("loss-not-finite", Some("501"))]);
    assert_eq!(node.session.verdicts.len(), 2);
}

#[test]
fn lightnings_ranks_and_the_one_that_started_them_are_one_job() {
    let mut node = Node::new();
    let place = |local| Some(Place { leader: 20, rank: Some(local), local_rank: Some(local), world_size: Some(2) });
    for (pid, ppid, local, env) in [(20, 10, 0, vec![]), (21, 20, 1, vec![("LOCAL_RANK", "1"), ("NODE_RANK", "0"), ("WORLD_SIZE", "2")])] {
        let env = Some(env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        let info = ProcessInfo { pid, ppid, start_ticks: 1, role: ProcessRole::Rank, env, place: place(local), ..Default::default() };
        node.sees("procs", Body::Process(info));
    }
    node.after(1);
    let job = &snapshot::json(&node.session, Zone::UTC)["jobs"];
    assert_eq!(job.as_array().map(Vec::len), Some(1), "{job}");
    assert_eq!((&job[0]["id"], &job[0]["world_size"], &job[0]["launcher"]), (&json!("20"), &json!(2), &json!("Lightning")));
    let ranks: Vec<_> = job[0]["ranks"].as_array().unwrap().iter().map(|r| (&r["rank"], &r["local_rank"], &r["pid"])).collect();
    assert_eq!(ranks, [(&json!(0), &json!(0), &json!(20)), (&json!(1), &json!(1), &json!(21))]);
}

#[test]
fn ranks_of_multiprocessing_are_not_said_to_be_those_of_lightning() {
    let mut node = Node::new();
    for local in 0..2 {
        let place = Some(Place { leader: 20, rank: Some(local), local_rank: Some(local), world_size: Some(2) });
        let env = Some(std::iter::once(("MASTER_PORT".to_owned(), "29500".to_owned())).collect());
        let info = ProcessInfo { pid: 21 + local, ppid: 20, role: ProcessRole::Rank, env, place, ..Default::default() };
        node.sees("procs", Body::Process(info));
    }
    node.after(1);
    assert_eq!(snapshot::json(&node.session, Zone::UTC)["jobs"][0]["launcher"], "mp.spawn");
}

#[test]
fn the_launcher_is_named_by_its_program_else_by_what_it_gave_its_ranks() {
    let of = |launcher: Option<(&str, &str)>, rank: &str, variable: Option<&str>| {
        let mut node = Node::new();
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        if let Some((comm, line)) = launcher {
            let (comm, cmdline) = (comm.to_owned(), words(line));
            let info = ProcessInfo { pid: 10, ppid: 1, role: ProcessRole::Launcher, comm, cmdline, ..Default::default() };
            node.sees("procs", Body::Process(info));
        }
        let env = [("RANK", "0"), ("WORLD_SIZE", "1")].into_iter().chain(variable.map(|name| (name, "0")));
        let env = Some(env.map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        let info = ProcessInfo { pid: 11, ppid: 10, role: ProcessRole::Rank, cmdline: words(rank), env, ..Default::default() };
        node.sees("procs", Body::Process(info)).after(1);
        snapshot::json(&node.session, Zone::UTC)["jobs"][0]["launcher"].clone()
    };
    let train = "python train.py";
    let by_program = [
        ("pt_main_thread", "/usr/bin/python /usr/bin/torchrun --nproc-per-node 8 train.py", "torchrun"),
        ("python3", "python3 -m torch.distributed.run train.py", "torchrun"),
        ("accelerate", "/usr/bin/python /usr/bin/accelerate launch train.py", "accelerate"),
        ("python", "python -u -m deepspeed.launcher.launch train.py", "DeepSpeed"),
        ("srun", "srun -n 2 python train.py", "srun"),
        ("mpirun", "mpirun -np 2 all_reduce_perf", "mpirun"),
    ];
    for (comm, line, name) in by_program {
        assert_eq!(of(Some((comm, line)), train, None), name, "{line}");
    }
    for (variable, name) in [("TORCHELASTIC_RUN_ID", "torchrun"), ("OMPI_COMM_WORLD_RANK", "mpirun"), ("SLURM_PROCID", "srun")] {
        assert_eq!(of(None, train, Some(variable)), name);
    }
    assert_eq!(of(None, "ray::RayTrainWorker", None), "Ray");
    assert_eq!(of(None, train, None), json!(null));
}

#[test]
fn a_log_is_that_of_the_job_whose_srun_writes_it() {
    let mut node = Node::new();
    for job in [7, 8] {
        let (client, step, task) = (job * 100, job * 100 + 1, job * 100 + 2);
        let path = format!("run{job}.log");
        let log = ProcessLog { via: LogVia::Stdout, path: path.clone(), inode: Some(u64::from(job)), device: Some(1) };
        let launcher = |pid, comm: &str| ProcessInfo { pid, ppid: 1, role: ProcessRole::Launcher, comm: comm.into(), ..Default::default() };
        node.sees("procs", Body::Process(ProcessInfo { logs: vec![log], ..launcher(client, "srun") }));
        node.sees("procs", Body::Process(launcher(step, "slurmstepd")));
        let env =
            [("SLURM_JOB_ID", job.to_string()), ("SLURM_STEP_ID", "0".into()), ("SLURM_PROCID", "0".into()), ("SLURM_NTASKS", "1".into())];
        let env = Some(env.into_iter().map(|(name, value)| (name.to_owned(), value)).collect());
        let info = ProcessInfo { pid: task, ppid: step, role: ProcessRole::Rank, env, client: Some(client), ..Default::default() };
        node.sees("procs", Body::Process(info));
        let info = LogFileInfo { file: job, path, inode: Some(u64::from(job)), device: Some(1), ..Default::default() };
        node.sees("tail", Body::LogFile(info));
    }
    node.after(1);
    assert_eq!([7, 8].map(|file| node.session.model.job_of_file(file)), ["7", "8"]);
}

#[test]
fn a_process_that_nothing_numbers_holds_a_gpu_too() {
    let mut node = Node::new();
    let info = ProcessInfo { pid: 30, ppid: 20, start_ticks: 1, role: ProcessRole::GpuUser, comm: "python3".into(), ..Default::default() };
    node.sees("procs", Body::Process(info));
    node.sees("nvml", Body::Gpus { gpus: vec![GpuSample { index: 0, ..GpuSample::default() }] });
    let on = GpuProcesses { index: 0, processes: vec![GpuProcess { pid: 30, mem_bytes: Some(1 << 30) }] };
    node.sees("nvml", Body::GpuProcesses { gpus: vec![on] }).after(5);
    let words = |node: &Node| snapshot::json(&node.session, Zone::UTC)["jobs"][0]["summary"].as_str().unwrap().to_owned();
    assert!(words(&node).starts_with("1 process holds a GPU, no step line yet ("), "{}", words(&node));
}

#[test]
fn ray_trains_controller_says_which_worker_is_which_rank() {
    let mut node = Node::new();
    let of = |pid, ppid, role, name: &str| {
        let env = Some([("RAY_JOB_ID".to_owned(), "01000000".to_owned())].into());
        ProcessInfo { pid, ppid, role, comm: name.into(), cmdline: vec![name.into()], env, ..Default::default() }
    };
    let logs = vec![ProcessLog { via: LogVia::Stderr, path: "controller.err".into(), inode: Some(7), device: Some(1) }];
    node.sees("procs", Body::Process(of(20, 1, ProcessRole::Launcher, "raylet")));
    node.sees("procs", Body::Process(ProcessInfo { logs, ..of(30, 20, ProcessRole::Launcher, "ray::TrainController.run") }));
    for pid in [31, 32] {
        let info = ProcessInfo { client: Some(30), ..of(pid, 20, ProcessRole::Rank, "ray::RayTrainWorker") };
        node.sees("procs", Body::Process(info));
    }
    let info = LogFileInfo { file: 1, path: "controller.err".into(), inode: Some(7), device: Some(1), ..Default::default() };
    node.sees("tail", Body::LogFile(info)).after(1);
    let ranks = |node: &Node| {
        let jobs = &snapshot::json(&node.session, Zone::UTC)["jobs"];
        assert_eq!(jobs.as_array().map(Vec::len), Some(1), "{jobs}");
        assert_eq!((&jobs[0]["id"], &jobs[0]["launcher"]), (&json!("20.01000000"), &json!("Ray")));
        jobs[0]["ranks"].as_array().unwrap().iter().map(|r| (r["rank"].clone(), r["pid"].clone())).collect::<Vec<_>>()
    };
    ranks(&node);
    node.line(1, "- (ip=10.0.0.2, pid=32) world_rank=0, local_rank=0, node_rank=0");
    node.line(1, "- (ip=10.0.0.2, pid=31) world_rank=1, local_rank=1, node_rank=0").after(1);
    assert_eq!(ranks(&node), [(json!(0), json!(32)), (json!(1), json!(31))]);
    // The same pid on another node: nobody knows which of the two is this one.
    node.line(1, "- (ip=10.0.0.3, pid=31) world_rank=2, local_rank=0, node_rank=1").after(1);
    assert!(!ranks(&node).contains(&(json!(1), json!(31))));
}

/// A log that is given by name, with those that are seen to write it, modified so many seconds after the machine was booted.
fn given(node: &mut Node, path: &str, modified_s: i64, written_by: Option<Vec<u32>>) {
    let modified_ns = Some(modified_s * 1_000_000_000);
    let info = LogFileInfo { file: 1, path: path.into(), inode: Some(7), device: Some(1), modified_ns, written_by, ..Default::default() };
    node.sees("tail", Body::LogFile(info));
}

/// Ranks 0 and 1 below 100, started two minutes after the machine was booted; it was booted when time began.
fn beside_a_job() -> Node {
    let mut node = Node::new();
    node.sees("host", Body::Node(host::Node { booted_at_s: Some(0), ..Default::default() }));
    node.launcher(100, 8);
    for rank in 0..2 {
        node.rank(rank, 101 + rank, 100, 8);
    }
    node
}

#[test]
fn a_log_that_others_write_is_not_that_of_the_only_job() {
    let job_of = |node: &Node| node.session.model.job_of_file(1);
    // Somebody else has it open, and it stays his when he has ended.
    let mut node = beside_a_job();
    given(&mut node, "other.log", 1000, Some(vec![700, 701]));
    node.line(1, "step 7 | loss nan | step_time 100 ms").after(1);
    assert_eq!(job_of(&node), "other.log");
    assert_eq!(node.open(), [("loss-not-finite", Some("other.log"))]);
    given(&mut node, "other.log", 1001, Some(vec![]));
    node.after(1);
    assert_eq!(job_of(&node), "other.log");

    // What a rank, its helper or the shell above its launcher holds open is the job's, whatever its output is.
    for writer in [100, 102] {
        let mut node = beside_a_job();
        given(&mut node, "train.log", 1000, Some(vec![writer, 900]));
        node.after(1);
        assert_eq!(job_of(&node), "100");
    }

    // Nobody is seen: a file of before the job's time is not its log, one of its time is, and so is one that is written out of sight.
    for (modified_s, written_by, job) in [(0, Some(vec![]), "old.log"), (900, Some(vec![]), "100"), (0, None, "100")] {
        let mut node = Node::new();
        node.sees("host", Body::Node(host::Node { booted_at_s: Some(0), ..Default::default() }));
        node.rank(0, 50_000, 1, 8);
        given(&mut node, "old.log", modified_s, written_by.clone());
        node.after(1);
        assert_eq!(job_of(&node), if job == "100" { "50000" } else { job }, "{modified_s} {written_by:?}");
    }
}

#[test]
fn a_log_that_nobody_is_seen_to_write_is_that_of_the_job_whose_processes_it_names() {
    let mut node = beside_a_job();
    two_ranks(&mut node, 300, 9);
    given(&mut node, "nccl.log", 1000, Some(vec![]));
    node.after(1);
    let init = "node-17:302:302 [1] NCCL INFO ncclCommInitRank comm 0x1 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 1000 commId 0xd3ba4de4f27e3bf5 - Init START";
    node.line(1, init).after(1);
    assert_eq!(node.session.model.job_of_file(1), "300");
}

#[test]
fn what_stood_in_a_log_before_the_job_began_is_not_said_of_it_while_its_ranks_begin() {
    // Started five seconds ago; what its log already holds is read.
    let begun = |made_s: i64| {
        let mut node = Node::new();
        node.sees("host", Body::Node(host::Node { booted_at_s: Some(995), ..Default::default() }));
        two_ranks(&mut node, 100, 7);
        let made_ns = Some(made_s * 1_000_000_000);
        let info = LogFileInfo { file: 1, path: "/l/7".into(), inode: Some(7), device: Some(1), made_ns, ..Default::default() };
        node.sees("tail", Body::LogFile(info));
        let text =
            "[rank1]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.10 GiB.";
        let line = Line { no: Some(1), text: text.into(), ..Default::default() };
        node.sees("tail", Body::Lines(Lines { file: 1, lines: vec![line], backlog: true, ..Default::default() })).after(2);
        node
    };
    let rules = |node: &Node| node.open().iter().map(|f| f.0.to_owned()).collect::<Vec<_>>();
    assert_eq!(rules(&begun(995)), ["cuda-oom"], "the log was made for this job");

    let mut goes_on = begun(900);
    goes_on.after(20);
    for step in 1..60 {
        goes_on.line(1, &format!("step {step} | loss 2.5")).after(1);
    }
    assert_eq!((rules(&goes_on).len(), goes_on.state("100")), (0, State::Training));

    let mut dies = begun(900);
    assert!(rules(&dies).is_empty());
    dies.ends(102, 102).after(1);
    assert!(rules(&dies).contains(&"cuda-oom".to_owned()), "{:?}", dies.open());

    let mut stands = begun(900);
    stands.after(60);
    assert_eq!(rules(&stands), ["cuda-oom"], "nothing shows that it is past");
}

#[test]
fn two_jobs_side_by_side_have_their_own_logs_findings_and_states() {
    let mut node = Node::new();
    two_ranks(&mut node, 100, 7);
    two_ranks(&mut node, 300, 8);
    node.log(1, 7, "/l/7").log(2, 8, "/l/8");
    for step in 0..5 {
        node.line(1, &format!("step {step} | loss 2.5")).line(2, &format!("step {} | loss 1.5", step * 10)).after(1);
    }
    node.line(1, FAILED).ends(101, 101).ends(102, 102).line(2, "step 50 | loss 1.5").after(1);
    assert_eq!((node.state("100"), node.state("300")), (State::Failed, State::Training));
    assert_eq!(node.open(), [("rank-exited", Some("100"))]);
    assert_eq!(node.session.main_job().map(|(id, _)| id), Some("300"), "the one that runs comes first");
    assert_eq!(node.session.model.progress_of("300").and_then(|p| p.step), Some(50));
}

#[test]
fn a_job_that_ends_without_an_error_is_finished_and_is_forgotten_in_time() {
    let mut node = Node::new();
    two_ranks(&mut node, 100, 7);
    node.log(1, 7, "/l/7");
    for step in 0..5 {
        node.line(1, &format!("step {step} | loss 2.5")).after(1);
    }
    node.ends(101, 101).ends(102, 102).ends(100, 1).after(1);
    assert_eq!(node.state("100"), State::Finished);
    node.after(16 * 60);
    assert!(!node.session.model.jobs.contains_key("100"), "jobs do not pile up");
    assert!(node.session.model.processes.is_empty(), "nor do processes");
    assert_eq!(node.open(), []);
}

#[test]
fn a_second_run_into_the_same_file_has_the_file_to_itself() {
    let mut node = Node::new();
    two_ranks(&mut node, 500, 7);
    node.log(1, 7, "/l/7");
    for step in 0..5 {
        node.line(1, &format!("step {step} | loss 2.5")).after(1);
    }
    node.line(1, FAILED).ends(501, 501).ends(502, 502).ends(500, 1).after(2);
    assert_eq!(node.state("500"), State::Failed);
    two_ranks(&mut node, 100, 7);
    for step in 0..5 {
        node.line(1, &format!("step {step} | loss 2.5")).after(1);
    }
    assert_eq!((node.state("500"), node.state("100")), (State::Failed, State::Training));
    assert_eq!(node.session.main_job().map(|(id, _)| id), Some("100"));
}

#[test]
fn what_the_launcher_says_after_its_ranks_are_gone_is_said_of_their_job() {
    let mut node = Node::new();
    // Its output goes through a pipe into a file that nobody of the job holds.
    node.launcher(100, 1).rank(0, 101, 100, 1).rank(1, 102, 100, 1);
    node.log(1, 9, "train.log");
    for step in 0..5 {
        node.line(1, &format!("step {step} | loss 2.5")).after(1);
    }
    node.ends(101, 101).ends(102, 102).after(1).line(1, FAILED).after(1).ends(100, 1).after(2);
    assert_eq!(node.open(), [("rank-exited", Some("100"))]);
    assert_eq!(node.state("100"), State::Failed);
}

#[test]
fn what_a_log_said_before_its_processes_were_found_is_said_of_their_job() {
    let mut node = Node::new();
    node.log(1, 7, "train.log").line(1, "h:1:1 [0] NCCL WARN Bootstrap : no socket interface found").after(1);
    assert_eq!(node.open(), [("wrong-interface", Some("train.log"))]);
    two_ranks(&mut node, 100, 7);
    node.after(1);
    assert_eq!(node.open(), [("wrong-interface", Some("100"))]);
}

#[test]
fn warnings_cannot_crowd_out_what_matters() {
    let mut node = Node::new();
    two_ranks(&mut node, 100, 7);
    node.log(1, 7, "/l/7");
    for i in 0..400u32 {
        let words: String =
            (0..8).map(|bit| if i >> bit & 1 == 1 { "ba" } else { "mu" }).collect::<String>() + if i > 255 { "x" } else { "" };
        node.line(1, &format!("h:1:1 [0] NCCL WARN {words}"));
    }
    node.line(1, FAILED).after(1);
    assert!(node.open().contains(&("rank-exited", Some("100"))), "{} open", node.open().len());
    assert!(node.session.ledger.left_out().count() > 0, "and what was not kept is counted");
}

const CAUGHT: [&str; 3] = ["Traceback (most recent call last):", "  File \"a.py\", line 3, in f", "ValueError: bad sample, skipped"];

/// A job that has made five steps, and prints a traceback.
fn prints_a_traceback(lines: &[&str]) -> Node {
    let mut node = Node::new();
    two_ranks(&mut node, 100, 7);
    node.log(1, 7, "/l/7");
    for step in 0..5 {
        node.line(1, &format!("step {step} | loss 2.5")).after(1);
    }
    for line in lines {
        node.line(1, line);
    }
    node
}

#[test]
fn an_exception_that_the_job_survives_is_none_of_its_end() {
    let mut node = prints_a_traceback(&CAUGHT);
    for step in 5..20 {
        node.line(1, &format!("step {step} | loss 2.5")).after(1);
        assert_eq!((node.state("100"), node.open().len()), (State::Training, 0));
    }
    // A thread ended of it, and the loop waits for that thread two steps later.
    let mut node = prints_a_traceback(&CAUGHT);
    for step in 5..7 {
        node.line(1, &format!("step {step} | loss 2.5")).after(1);
    }
    node.after(4);
    assert!(node.open().is_empty());
    node.after(4);
    assert_eq!(node.open(), [("python-exception", Some("100"))]);
}

#[test]
fn an_exception_is_told_when_something_proves_that_nobody_caught_it() {
    // PyTorch's own word for it.
    let mut node = prints_a_traceback(&CAUGHT.map(|line| format!("[rank1]: {line}")).each_ref().map(String::as_str));
    node.after(1);
    assert_eq!((node.state("100"), node.open()), (State::Failed, vec![("python-exception", Some("100"))]));
    // Another rank fails of it.
    let mut node = prints_a_traceback(&CAUGHT);
    node.after(1);
    assert!(node.open().is_empty());
    node.line(1, FAILED).after(1);
    assert!(node.open().contains(&("python-exception", Some("100"))), "{:?}", node.open());
}

fn gpu(node: &mut Node, sample: GpuSample) {
    node.sees("nvml", Body::Gpus { gpus: vec![sample] }).after(1);
}

fn opened(node: &Node, rule: &str) -> Option<nccl_top::rules::findings::Finding> {
    node.events.iter().find_map(|(_, e)| match e {
        Event::Finding(Change::Opened(f)) if f.rule == rule => Some((**f).clone()),
        _ => None,
    })
}

#[test]
fn heat_that_lasts_is_told_the_power_cap_is_not() {
    let mut node = Node::new();
    let sample = |bits| GpuSample { index: 6, throttle_bits: Some(bits), temp_c: Some(91), ..Default::default() };
    (0..30).for_each(|_| gpu(&mut node, sample(0x4)));
    assert_eq!(node.open(), []);
    (0..8).for_each(|_| gpu(&mut node, sample(0x40)));
    assert_eq!(node.open(), [], "not before ten seconds");
    (0..5).for_each(|_| gpu(&mut node, sample(0x40)));
    let found = opened(&node, "gpu-throttled").expect("told");
    assert_eq!((found.gpus, found.summary.as_str()), (vec![6], "GPU 6: HW thermal slowdown, 91 °C"));
    (0..20).for_each(|_| gpu(&mut node, sample(0)));
    assert_eq!(node.open(), [], "and cleared when it is over");
}

#[test]
fn a_gpu_that_does_not_answer_is_an_error_and_a_lost_one_critical() {
    for (kind, rule, severity) in
        [(GpuTroubleKind::NotAnswering, "gpu-not-answering", Severity::Error), (GpuTroubleKind::Lost, "gpu-lost", Severity::Critical)]
    {
        let mut node = Node::new();
        let trouble = GpuTrouble { kind, detail: "nvmlDeviceGetUtilizationRates has not returned for 2 s".into() };
        (0..5).for_each(|_| gpu(&mut node, GpuSample { index: 2, trouble: Some(trouble.clone()), ..Default::default() }));
        let finding = opened(&node, rule).expect("told");
        assert_eq!((finding.severity, finding.gpus.as_slice()), (severity, &[2][..]));
        (0..40).for_each(|_| gpu(&mut node, GpuSample { index: 2, util_pct: Some(0), ..Default::default() }));
        assert_eq!(node.open(), []);
    }
}

#[test]
fn a_port_that_goes_down_is_told_one_that_never_was_up_is_not() {
    let mut node = Node::new();
    let state = |node: &mut Node, first: &str| {
        let port =
            |device: &str, state: &str| PortSample { device: device.into(), port: 1, state: Some(state.into()), ..Default::default() };
        node.sees("rdma", Body::Ports { ports: vec![port("mlx5_0", first), port("mlx5_9", "DOWN")] }).after(1);
    };
    for device in ["mlx5_0", "mlx5_9"] {
        node.sees("rdma", Body::PortInfo(PortInfo { device: device.into(), port: 1, kind: PortKind::Infiniband, ..Default::default() }));
    }
    (0..5).for_each(|_| state(&mut node, "ACTIVE"));
    assert_eq!(node.open(), []);
    (0..4).for_each(|_| state(&mut node, "INIT"));
    assert_eq!(opened(&node, "nic-down").expect("told").ports, ["mlx5_0/1"]);
    (0..5).for_each(|_| state(&mut node, "ACTIVE"));
    assert_eq!(node.open(), []);
}

#[test]
fn a_leftover_on_a_gpu_is_named_and_the_running_job_is_not_blamed() {
    let mut node = Node::new();
    node.rank(1, 50, 1, 3);
    let samples = |node: &mut Node| {
        let sample = |pid, state| ProcessSample { pid, state: Some(state), ..Default::default() };
        node.sees("procs", Body::Processes { processes: vec![sample(50, 'T'), sample(101, 'S'), sample(102, 'S')] });
        let gpu = GpuProcesses { index: 4, processes: vec![GpuProcess { pid: 50, mem_bytes: Some(5 << 30) }] };
        node.sees("nvml", Body::GpuProcesses { gpus: vec![gpu] }).after(1);
    };
    two_ranks(&mut node, 100, 7);
    node.log(1, 7, "/l/7");
    for step in 0..12 {
        node.line(1, &format!("step {step} | loss 2.5"));
        samples(&mut node);
    }
    let found = opened(&node, "stale-process").expect("told");
    assert_eq!((found.gpus, found.next.as_deref()), (vec![4], Some("kill -9 50")));
    assert_eq!(node.state("100"), State::Training);
    assert!(opened(&node, "rank-stopped").is_none(), "the leftover is no rank of the running job");
}

#[test]
fn the_ranks_that_report_a_timeout_are_not_its_culprits() {
    let mut node = Node::new();
    two_ranks(&mut node, 100, 7);
    node.log(1, 7, "/l/7");
    node.line(1, "[rank0]:[E1121 00:04:23.008941232 ProcessGroupNCCL.cpp:688] [Rank 0] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=236, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=20000) ran for 20063 milliseconds before timing out.");
    let found = opened(&node, "collective-timeout").expect("told");
    assert_eq!((found.ranks.as_slice(), found.summary.as_str()), (&[][..], "ALLREDUCE 236 timed out after 20 s; rank 0 reports it"));
    assert_eq!(node.state("100"), State::Failed);
}

#[test]
fn a_source_that_may_not_read_is_told_with_its_reason() {
    let mut node = Node::new();
    let report = SourceReport { state: SourceState::Denied, detail: Some("/dev/kmsg: operation not permitted".into()), title: None };
    node.sees("kmsg", Body::Source(report)).after(5);
    assert!(opened(&node, "source-trouble").expect("told").summary.contains("/dev/kmsg: operation not permitted"));
}

#[test]
fn what_bring_up_said_goes_with_the_job_and_not_with_the_next_one_in_the_same_file() {
    const NETWORK: &str = "vm:1:9 [0] NCCL INFO Using network IB";
    let networks = |node: &Node, job: &str| node.session.model.bringup_of(job).networks.said.len();
    let mut node = Node::new();
    node.log(1, 7, "/l/7").line(1, NETWORK);
    assert_eq!(networks(&node, "7"), 1, "known from the log alone");
    two_ranks(&mut node, 100, 7);
    node.after(1);
    assert_eq!((networks(&node, "7"), networks(&node, "100")), (0, 1), "its processes were found");

    node.ends(101, 101).ends(102, 102).rank(0, 201, 100, 7).rank(1, 202, 100, 7).after(1);
    assert_eq!(networks(&node, "100"), 0, "the ranks were started again");
    node.line(1, NETWORK).ends(201, 201).ends(202, 202).ends(100, 1).after(1);
    assert_eq!(networks(&node, "100"), 1, "still shown when it has ended");
    two_ranks(&mut node, 300, 7);
    node.after(1);
    assert_eq!(networks(&node, "300"), 0, "another job writes the file");
    node.line(1, NETWORK);
    assert_eq!(networks(&node, "300"), 1);
}

#[test]
fn logs_that_are_gone_leave_room_for_those_that_come() {
    let mut job = Node::new();
    let log = |file: u32, state: LogFileState| {
        Body::LogFile(LogFileInfo { file, path: format!("/logs/run{file}.log"), state, ..LogFileInfo::default() })
    };
    for file in 0..3000 {
        job.sees("tail", log(file, LogFileState::Open));
        job.sees("tail", log(file, LogFileState::Gone));
    }
    job.sees("tail", log(3000, LogFileState::Open));
    job.line(3000, "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB");
    job.after(2);
    let found: Vec<_> = job.session.ledger.open().into_iter().map(|f| f.rule).collect();
    assert!(found.contains(&"cuda-oom"), "{found:?}");
    assert!(!found.contains(&"source-trouble"), "{found:?}");
}

#[test]
fn an_evaluation_that_a_rank_starts_does_not_take_its_log() {
    let mut node = Node::new();
    let process = |pid: u32, ppid: u32, role: ProcessRole, rank: &str, run: &str| {
        let env = [("RANK", rank), ("WORLD_SIZE", "1"), ("LOCAL_RANK", rank), ("TORCHELASTIC_RUN_ID", run)];
        let env = (role == ProcessRole::Rank).then(|| env.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect());
        Body::Process(ProcessInfo { pid, ppid, start_ticks: u64::from(pid), role, env, ..Default::default() })
    };
    let log = ProcessLog { path: "/job/train.log".into(), device: Some(1), inode: Some(5), via: LogVia::Stdout };
    let with_log = |body: Body| match body {
        Body::Process(info) => Body::Process(ProcessInfo { logs: vec![log.clone()], ..info }),
        other => other,
    };
    node.sees("procs", with_log(process(10, 1, ProcessRole::Launcher, "", "")));
    node.sees("procs", process(11, 10, ProcessRole::Rank, "0", "outer"));
    let file = LogFileInfo { path: "/job/train.log".into(), device: Some(1), inode: Some(5), ..Default::default() };
    node.sees("tail", Body::LogFile(LogFileInfo { file: 1, ..file }));
    node.after(1);
    let job_of_log = |node: &Node| node.session.model.files.values().next().map(|file| file.job.clone());
    let outer = job_of_log(&node);
    assert!(outer.is_some());
    node.sees("procs", with_log(process(20, 11, ProcessRole::Launcher, "", "")));
    node.sees("procs", process(21, 20, ProcessRole::Rank, "0", "inner"));
    node.after(1);
    assert_eq!(node.session.model.jobs.len(), 2);
    assert_eq!(job_of_log(&node), outer);
}
