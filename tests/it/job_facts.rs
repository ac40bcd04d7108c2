//! What is shown of a job besides findings: when the watchdog ends it, the phases of its start, its attempt; and memory that grows. The
//! samples are constructed: no recording has them.

use crate::support::worlds::{Pipeline, pipeline, ras_json};
use nccl_top::base::severity::Severity;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::countdown::Countdown;
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::gpu::{GpuProcess, GpuProcesses, GpuSample};
use nccl_top::observe::host::HostSample;
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::process::{LogVia, ProcessGone, ProcessInfo, ProcessLog, ProcessRole, ProcessSample};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::output::events::spoken;
use nccl_top::output::evidence::findings;
use nccl_top::rules::findings::{Change, Finding};
use serde_json::json;

const GIB: u64 = 1 << 30;
const START_S: i64 = 1_795_255_200;

struct Node {
    session: Session,
    now_s: i64,
    args: Vec<String>,
}

impl Node {
    fn new(args: &[&str]) -> Node {
        let mut node =
            Node { session: Session::new("node-17", Zone::UTC), now_s: START_S, args: args.iter().map(|a| (*a).to_owned()).collect() };
        node.ranks(0);
        let info = LogFileInfo { file: 1, path: "/l/train.log".into(), inode: Some(7), device: Some(1), ..Default::default() };
        node.see(Body::LogFile(info));
        node
    }

    /// Two ranks of the attempt of that number, from 0.
    fn ranks(&mut self, restarts: u32) {
        for rank in 0..2u32 {
            let env = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", 2), ("LOCAL_WORLD_SIZE", 2), ("SLURM_JOB_ID", 7)];
            let env = env.into_iter().chain([("TORCHELASTIC_RESTART_COUNT", restarts), ("TORCHELASTIC_MAX_RESTARTS", 3)]);
            let log = ProcessLog { via: LogVia::Stdout, path: "/l/train.log".into(), inode: Some(7), device: Some(1) };
            let info = ProcessInfo {
                pid: self.pid(rank, restarts),
                start_ticks: 5,
                role: ProcessRole::Rank,
                env: Some(env.map(|(name, value)| (name.to_owned(), value.to_string())).collect()),
                cmdline: self.args.clone(),
                logs: vec![log],
                ..ProcessInfo::default()
            };
            self.see(Body::Process(info));
        }
    }

    fn pid(&self, rank: u32, restarts: u32) -> u32 {
        100 + rank + 10 * restarts
    }

    fn see(&mut self, body: Body) {
        let at = Stamp(self.now_s * 1_000_000_000);
        self.session.apply(&Observation { at, host: None, from: SourceId::of("host"), body }, &mut Vec::new());
    }

    fn line(&mut self, no: u64, text: &str) {
        let line = Line { no: Some(no), text: text.into(), ..Default::default() };
        self.see(Body::Lines(Lines { file: 1, lines: vec![line], ..Default::default() }));
    }

    fn after(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now_s += 1;
            self.see(Body::Tick);
        }
    }

    fn snapshot(&self) -> serde_json::Value {
        nccl_top::output::snapshot::json(&self.session, Zone::UTC)
    }

    /// Trains for so long, at a step in five seconds, with GPU and host memory in GiB that both ranks hold.
    fn train(
        &mut self,
        seconds: i64,
        gpu_gib: impl Fn(f64) -> f64,
        rss_gib: impl Fn(f64) -> f64,
        left_gib: impl Fn(f64) -> f64,
    ) -> Vec<Finding> {
        let bytes = |gib: f64| Some((gib * GIB as f64) as u64);
        for s in 0..seconds {
            let t = s as f64;
            let used = |index| if index == 1 { gpu_gib(t) } else { 40.0 };
            let sample =
                |index| GpuSample { index, mem_used_bytes: bytes(used(index)), mem_total_bytes: Some(80 * GIB), ..GpuSample::default() };
            self.see(Body::Gpus { gpus: vec![sample(0), sample(1)] });
            let on = |index| GpuProcesses { index, processes: vec![GpuProcess { pid: 100 + index, mem_bytes: bytes(used(index) - 0.5) }] };
            self.see(Body::GpuProcesses { gpus: vec![on(0), on(1)] });
            let held = |pid| ProcessSample {
                pid,
                state: Some('R'),
                rss_bytes: bytes(if pid == 101 { rss_gib(t) } else { 20.0 }),
                ..ProcessSample::default()
            };
            self.see(Body::Processes { processes: vec![held(100), held(101)] });
            if s % 15 == 0 {
                let (mem_total_bytes, mem_available_bytes) = (Some(500 * GIB), bytes(left_gib(t)));
                self.see(Body::Host(HostSample { mem_total_bytes, mem_available_bytes, ..HostSample::default() }));
            }
            if s % 5 == 0 {
                self.line(s as u64 + 1, &format!("step {} | loss 2.5", s / 5 + 1));
            }
            self.after(1);
        }
        self.session.ledger.open().into_iter().filter(|f| f.rule == "memory-growth").cloned().collect()
    }
}

const OPTIONS: &str = "[rank0]:[I1121 10:00:00.000000000 ProcessGroupNCCL.cpp:1010] [PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL initialization \
                       options: size: 2, global rank: 0, TIMEOUT(ms): 600000, USE_HIGH_PRIORITY_STREAM: 0, SPLIT_FROM: 0, SPLIT_COLOR: -2, PG Name: 0";

fn hang(since_s: i64) -> Finding {
    let mut found = Finding::new("hang-rank-absent", Severity::Critical, "rank 1", "it holds", Stamp(since_s * 1_000_000_000));
    found.job = Some("7".into());
    found
}

#[test]
fn the_watchdogs_end_of_a_hang_is_counted_down_where_its_timeout_is_known() {
    let mut node = Node::new(&["python", "train.py"]);
    node.after(1);
    assert_eq!(Countdown::of(&node.session.model, &hang(START_S)), None, "a default is a guess");
    // Another group's timeout is not that of all ranks.
    node.line(11, &OPTIONS.replace("GUID 0", "GUID 3").replace("600000", "1000"));
    node.line(12, OPTIONS);
    let countdown = Countdown::of(&node.session.model, &hang(START_S)).unwrap();
    let at = |s: i64| Stamp((START_S + s) * 1_000_000_000);
    assert_eq!(countdown.words(at(100)), "NCCL watchdog ends it in 8 m 20 s (Timeout(ms)=600000, train.log:12)");
    assert_eq!(countdown.words(at(612)), "still alive 12 s after the NCCL watchdog's timeout (Timeout(ms)=600000, train.log:12)");
    assert_eq!((countdown.left_s(at(100)), countdown.left_s(at(612))), (500, -12));
    let slow = Finding { rule: "slow-steps", ..hang(START_S) };
    assert_eq!(Countdown::of(&node.session.model, &slow), None, "no hang");
}

#[test]
fn the_countdown_stands_in_the_sentence_of_watch_and_in_the_findings_of_a_bundle() {
    let it = Pipeline { gpus: 2, world: 2, asleep: &[1], arguments: &["--ddp_timeout", "900"], ..Pipeline::default() };
    let (session, said) = pipeline(&it, 40, |_| Some(ras_json(2, |_| Some(12))));
    let opened = said.iter().find(|(_, event)| matches!(event, Event::Finding(Change::Opened(f)) if f.rule == "hang-rank-absent"));
    let (_, event) = opened.expect("a hang");
    let now = session.model.now;
    let finding = session.ledger.open()[0];
    let countdown = Countdown::of(&session.model, finding).unwrap();
    assert!((850..=870).contains(&countdown.left_s(now)), "{countdown:?}");
    let words = countdown.words(now);
    assert!(words.starts_with("NCCL watchdog ends it in 14 m ") && words.ends_with(" s (--ddp_timeout 900)"), "{words}");
    let sentence = spoken(&session, Zone::UTC, now, event);
    assert!(sentence.contains(&format!(" {words}. Next: ")), "{sentence}");
    let page = findings(&session, Zone::UTC);
    assert!(page.contains(&format!("\n  timeout   {words}\n")), "{page}");
    // A job whose timeout is not known has none.
    let (session, said) = pipeline(&Pipeline { arguments: &[], ..it }, 40, |_| Some(ras_json(2, |_| Some(12))));
    assert!(said.iter().all(|(_, event)| !spoken(&session, Zone::UTC, now, event).contains("watchdog")));
    assert!(!findings(&session, Zone::UTC).contains("timeout"));
}

/// Where only the log is seen, a job that has made the last of its steps and prints nothing more is done.
#[test]
fn a_log_alone_is_finished_a_minute_after_the_last_of_its_steps() {
    let told = |line: &dyn Fn(u64) -> String, last: u64, more: Option<&str>, after_s: i64| {
        let mut node = Node { session: Session::new("node-17", Zone::UTC), now_s: START_S, args: Vec::new() };
        node.see(Body::LogFile(LogFileInfo { file: 1, path: "/l/mpi.log".into(), ..Default::default() }));
        for step in 1..=last {
            node.line(step, &line(step));
            node.after(1);
        }
        more.into_iter().for_each(|text| node.line(last + 1, text));
        node.after(after_s - 1);
        let verdict = node.session.verdicts.values().next().unwrap();
        (verdict.state, verdict.summary.clone())
    };
    let plain = |step: u64| format!("step {step}/20 | loss 2.5");
    // With --tag-output of mpirun.
    let tagged = |step: u64| format!("[1,0]<stdout>: step {step}/20 | loss 2.5");
    let finished = (State::Finished, "step 20 of 20, the last; nothing has come since".to_owned());
    for line in [&plain as &dyn Fn(u64) -> String, &tagged] {
        assert_eq!(told(line, 20, None, 62), finished);
        assert_ne!(told(line, 20, None, 58).0, State::Finished);
        assert_ne!(told(line, 19, None, 300).0, State::Finished, "a step is missing");
    }
    let ends = told(&plain, 20, Some("Saving model checkpoint to /ckpt/last"), 62);
    assert_eq!(ends.0, State::Paused, "{ends:?}");
    let bar = |step: u64| format!("Epoch 0: {:3}%|####      | {step}/20 [00:{step:02}<00:01,  1.00it/s, loss=2.5]", step * 5);
    assert_ne!(told(&bar, 20, None, 300).0, State::Finished, "a bar may be that of an epoch");
}

#[test]
fn the_timeout_may_stand_in_the_arguments_of_a_job_with_a_communicator() {
    let init = "node-17:100:100 [0] NCCL INFO ncclCommInitRankConfig comm 0x55d0 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1000 commId 0x5f - Init COMPLETE";
    for (args, source, s) in [
        (&["python", "pretrain.py", "--distributed-timeout-minutes", "30"][..], "--distributed-timeout-minutes 30", 1800),
        (&["python", "--ddp_timeout=900"][..], "--ddp_timeout 900", 900),
    ] {
        let mut node = Node::new(args);
        node.after(1);
        assert_eq!(Countdown::of(&node.session.model, &hang(START_S)), None, "no communicator: it may be gloo");
        node.line(1, init);
        node.after(1);
        let countdown = Countdown::of(&node.session.model, &hang(START_S)).unwrap();
        assert_eq!((countdown.source.as_str(), countdown.timeout.as_secs()), (source, s));
    }
}

#[test]
fn each_phase_of_the_start_has_its_time() {
    let mut node = Node::new(&["python"]);
    node.after(12);
    node.see(Body::GpuProcesses {
        gpus: [0, 1].map(|index| GpuProcesses { index, processes: vec![GpuProcess { pid: 100 + index, mem_bytes: None }] }).into(),
    });
    node.see(Body::Gpus { gpus: [0, 1].map(|index| GpuSample { index, ..GpuSample::default() }).into() });
    node.after(5);
    let took = |node: &Node| node.snapshot()["jobs"][0]["startup"].clone();
    assert_eq!(node.session.startups["7"].words(node.session.model.now).unwrap(), "imports 13 s, NCCL initialisation 4 s");
    assert_eq!(took(&node), json!([{ "phase": "imports", "s": 13.0 }, { "phase": "NCCL initialisation", "s": 4.0 }]));
    for step in 1..4 {
        node.line(step, &format!("step {step} | loss 2.5"));
        node.after(5);
    }
    let trained = took(&node);
    node.after(5);
    assert_eq!(took(&node), trained, "the start is over");
}

#[test]
fn an_elastic_restart_shows_its_attempt_and_the_steps_that_are_done_again() {
    let mut node = Node::new(&["python"]);
    let steps = |node: &mut Node, from: u64| {
        for step in from..from + 5 {
            node.line(step, &format!("step {step} | loss 2.5"));
            node.after(1);
        }
    };
    steps(&mut node, 396);
    let job = |node: &Node| node.snapshot()["jobs"][0].clone();
    assert_eq!((&job(&node)["attempt"], &job(&node)["went_back"]), (&json!(1), &json!(null)));
    for pid in [100, 101] {
        node.see(Body::ProcessGone(ProcessGone { pid, start_ticks: 5, exit_code: None }));
    }
    node.after(2);
    node.ranks(1);
    node.after(1);
    steps(&mut node, 350);
    assert_eq!((&job(&node)["attempt"], &job(&node)["went_back"]), (&json!(2), &json!({ "from": 400, "to": 350 })));
    assert_eq!(node.session.model.attempt_of(&node.session.model.jobs["7"]).unwrap().words(), "2 of 4");
    steps(&mut node, 500);
    assert_eq!(job(&node)["went_back"], json!({ "from": 400, "to": 350 }), "what was done again stays known");
}

#[test]
fn memory_that_grows_all_the_time_is_named_with_its_rank_before_it_is_used_up() {
    // 2 GiB a minute, of 80.
    let found = Node::new(&[]).train(500, |t| 40.0 + t / 30.0, |_| 20.0, |_| 400.0);
    let [found] = &found[..] else { panic!("{found:?}") };
    assert_eq!((found.severity, &found.ranks[..], &found.gpus[..]), (Severity::Warning, &[1][..], &[1][..]));
    assert!(
        found.summary.starts_with("GPU memory of rank 1 (GPU 1) will be used up in 1") && found.summary.contains(": it grows by 1"),
        "{}",
        found.summary
    );
    // All that is left within a minute, on one GPU of two.
    let found = Node::new(&[]).train(60, |t| 10.0 + t, |_| 20.0, |_| 400.0);
    let [found] = &found[..] else { panic!("{found:?}") };
    assert!(found.summary.starts_with("GPU memory of rank 1 (GPU 1) will be used up in "), "{}", found.summary);
    assert_eq!((&found.ranks[..], &found.gpus[..]), (&[1][..], &[1][..]));
    // 6 GiB a minute of what is left to the machine.
    let found = Node::new(&[]).train(500, |_| 40.0, |t| 20.0 + t / 10.0, |t| 400.0 - t / 10.0);
    let [found] = &found[..] else { panic!("{found:?}") };
    assert!(
        found.summary.starts_with("host memory of rank 1 (pid 101) will be used up in 5") && found.summary.ends_with("6.1 GiB a minute"),
        "{}",
        found.summary
    );
    assert!(found.gpus.is_empty());
}

#[test]
fn memory_that_levels_off_or_can_be_taken_back_is_not_named() {
    let quiet = |what: &str, gpu: fn(f64) -> f64, rss: fn(f64) -> f64, left: fn(f64) -> f64| {
        let found = Node::new(&[]).train(700, gpu, rss, left);
        assert!(found.is_empty(), "{what}: {found:?}");
    };
    quiet("flat", |_| 70.0, |_| 20.0, |_| 400.0);
    quiet("an allocator that steps once", |t| if t > 300.0 { 70.0 } else { 40.0 }, |_| 20.0, |_| 400.0);
    quiet("steps to and fro", |t| 60.0 + t % 60.0 / 6.0, |_| 20.0, |_| 400.0);
    quiet("warms up", |t| 78.0 - 30.0 * (-t / 60.0).exp(), |_| 20.0, |_| 400.0);
    quiet("files that are mapped: nothing less is left", |_| 40.0, |t| 20.0 + t / 10.0, |_| 400.0);
    quiet("so slowly that it takes days", |t| 40.0 + t / 36_000.0, |_| 20.0, |_| 400.0);
    assert!(Node::new(&[]).train(200, |t| 40.0 + t / 30.0, |_| 20.0, |_| 400.0).is_empty(), "too short to tell");
}
