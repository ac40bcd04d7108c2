//! Jobs that stand or are slow because of what is outside of them: input, storage, CPUs. The recordings in `tests/fixtures/stalls` are of
//! real jobs: `h100-*` and `h200-*` with NCCL on such GPUs, the others with gloo on CPUs, where only the job's own processes were kept.

use nccl_top::base::severity::{Confidence, Role, Severity};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::host::{CgroupCpu, CgroupMemory, HostSample, Node as Host};
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::process::{Helpers, Mount, ProcessInfo, ProcessRole, ProcessSample, ProcessSetup, Wait};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::tape::Reader;
use nccl_top::rules::findings::{Change, Finding};
use std::path::Path;

/// What was said of a recording: seconds after the fault, findings, and states.
struct Judged {
    opened: Vec<(f64, Finding)>,
    states: Vec<(f64, State, Option<&'static str>, String)>,
}

/// `since` is the epoch time at which the fault began, `job` the one that has it: others may run beside it.
fn judged(name: &str, since: f64, job: &str) -> Judged {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/stalls").join(format!("{name}.jsonl.gz"));
    let mut reader = Reader::open(&path).unwrap();
    let mut session = reader.header().session();
    let mut events = Vec::new();
    while let Some(seen) = reader.read().unwrap() {
        session.apply(&seen, &mut events);
    }
    let mut judged = Judged { opened: Vec::new(), states: Vec::new() };
    for (at, event) in events {
        let t = at.0 as f64 / 1e9 - since;
        match event {
            Event::Finding(Change::Opened(f)) if f.job.as_deref() == Some(job) => {
                judged.opened.push((t, *f));
            }
            Event::State { job: Some(of), state, phase, summary, .. } if of == job => judged.states.push((t, state, phase, summary)),
            _ => {}
        }
    }
    judged
}

impl Judged {
    /// Rules that opened at warning and above, without host-cpu-contention: the machine that the CPU jobs ran on had two cores for all.
    fn rules(&self) -> Vec<&'static str> {
        let bad = self.opened.iter().filter(|(_, f)| f.severity >= Severity::Warning).map(|(_, f)| f.rule);
        bad.filter(|rule| *rule != "host-cpu-contention").collect()
    }

    fn first(&self, rule: &str) -> &(f64, Finding) {
        self.opened.iter().find(|(_, f)| f.rule == rule).unwrap_or_else(|| panic!("{rule} is not in {:?}", self.rules()))
    }
}

#[test]
fn loaders_of_all_ranks_that_stop_are_named_and_no_rank_is_blamed() {
    let judged = judged("loader-dataall", 1_795_355_371.25, "347");
    let (t, found) = judged.first("input-stall");
    assert!((5.0..20.0).contains(t), "{t}");
    assert_eq!(found.summary, "both ranks on this node wait for input: 3 data loader workers wait in openat (wait_for_partner)");
    assert_eq!((found.severity, found.role, found.confidence), (Severity::Error, Role::Root, Confidence::Certain));
    assert!(found.ranks.is_empty() && judged.rules() == ["input-stall"], "{:?}", judged.rules());
    assert_eq!(judged.states.last().map(|s| s.1), Some(State::Stuck));
}

#[test]
fn the_loader_of_one_rank_is_named_with_the_rank() {
    let judged = judged("loader-dataone", 1_795_356_223.2, "17686");
    let (t, found) = judged.first("input-stall");
    assert!((5.0..20.0).contains(t) && found.ranks == [1], "{t} {:?}", found.ranks);
    assert_eq!(found.summary, "rank 1 waits for input: 3 data loader workers wait in openat (wait_for_partner)");
}

#[test]
fn input_is_named_where_what_ranks_wait_for_was_not_recorded() {
    let judged = judged("h200-dp2-dataall", 1_795_353_509.98, "2673");
    let (t, found) = judged.first("input-stall");
    assert!((5.0..20.0).contains(t) && found.ranks.is_empty(), "{t} {:?}", found.ranks);
    // It may be the begin of an epoch.
    assert_eq!((found.confidence, found.severity, judged.rules()), (Confidence::Possible, Severity::Info, vec![]));
    let state = judged.states.last().unwrap();
    assert_eq!((state.1, state.2), (State::Paused, Some("data loading")));
}

/// Both wait in a queue for a thread of theirs, which asks a server that does not answer.
#[test]
fn ranks_that_all_wait_for_their_own_threads_wait_for_input() {
    let judged = judged("feed-service", 1_795_685_691.65, "1000");
    let (t, found) = judged.first("input-stall");
    assert!((5.0..16.0).contains(t) && found.ranks.is_empty(), "{t} {:?}", found.ranks);
    let words = "both ranks on this node wait outside of collectives for threads of their own, their GPUs idle: probably for input";
    assert_eq!((found.summary.as_str(), found.severity, judged.rules()), (words, Severity::Warning, vec!["input-stall"]));
    assert!(found.why.contains("ranks 0 and 1: each waits in futex (futex_do_wait)"), "{}", found.why);
}

/// `50,2.615727e-01,0.0730`: no line says what is a step.
#[test]
fn steps_that_only_lines_of_numbers_count_become_slow() {
    let judged = judged("lines-that-count", 1_795_685_850.48, "2117");
    let (t, found) = judged.first("slow-steps");
    assert!((5.0..16.0).contains(t), "{t}");
    assert_eq!(found.summary, "the numbered lines of the log come every 3.41 s instead of every 738.0 ms");
    assert_eq!((found.role, judged.rules()), (Role::Root, vec!["slow-steps"]));
}

/// Nothing but sends and receives, which RAS does not count, and nothing in the log.
#[test]
fn two_that_both_send_first_stand_though_nothing_counts() {
    let judged = judged("send-send-no-log", 1_795_687_273.09, "1545");
    let (t, found) = judged.first("hang-symmetric");
    assert!((5.0..15.0).contains(t) && found.ranks.is_empty(), "{t} {:?}", found.ranks);
    assert_eq!(judged.rules(), ["hang-symmetric"]);
    assert_eq!(judged.states.last().map(|s| s.1), Some(State::Stuck));
}

/// 194 processes of their own on 32 CPUs: the log is silent for as long as the next line takes.
#[test]
fn ranks_that_their_own_pools_starve_are_told_before_the_next_line() {
    let judged = judged("pools", 1_795_687_386.06, "2400");
    let (t, found) = judged.first("host-cpu-contention");
    assert!((5.0..16.0).contains(t), "{t}");
    assert!(found.summary.contains("32 CPUs busy 100 %, 195 tasks ready to run"), "{}", found.summary);
    assert_eq!(judged.rules(), Vec::<&str>::new(), "nothing else");
}

#[test]
fn input_that_cannot_keep_up_is_a_share_of_each_step() {
    let judged = judged("h200-dp2-slowdata", 1_795_353_567.13, "3021");
    let (t, found) = judged.first("input-stall");
    assert!((5.0..20.0).contains(t) && found.ranks.is_empty(), "{t}");
    assert_eq!((found.severity, judged.rules()), (Severity::Warning, vec!["input-stall"]));
    assert_eq!(found.summary, "GPUs idle 83 % of each step: the input cannot keep up");
    assert_eq!(judged.states.last().map(|s| s.1), Some(State::Slow));
}

#[test]
fn a_checkpoint_that_all_ranks_write_is_a_pause() {
    let of_nccl = judged("h200-pp4-ckpt-all", 1_795_353_430.3, "2427");
    let of_gloo = judged("checkpoint", 1_795_355_668.22, "7825");
    for (judged, words) in [(of_nccl, "all 4 ranks write "), (of_gloo, "both ranks write ")] {
        let paused = judged.states.iter().find(|s| s.1 == State::Paused).unwrap_or_else(|| panic!("{:?}", judged.states));
        assert!((0.0..20.0).contains(&paused.0) && paused.2 == Some("checkpoint"), "{paused:?}");
        assert!(paused.3.starts_with(words) && paused.3.ends_with(": probably a checkpoint"), "{}", paused.3);
        assert!(judged.states.iter().all(|s| s.1 != State::Unknown) && judged.rules().is_empty(), "{:?}", judged.states);
        // On two busy cores its ranks wait for a CPU.
        assert!(judged.states.last().is_some_and(|s| matches!(s.1, State::Training | State::Slow)), "it goes on");
    }
}

/// Both ranks wait in a broadcast for what rank 0 takes from its queue, and nobody asks for 30 s.
#[test]
fn a_server_without_requests_is_no_hang() {
    let judged = judged("h200-server", 1_795_359_582.66, "3981");
    assert_eq!(judged.rules(), Vec::<&str>::new());
    let (_, state, phase, words) = judged.states.last().unwrap();
    assert_eq!((*state, *phase, words.as_str()), (State::Paused, Some("serving"), "a server waiting for requests"));
}

/// Sixteen busy processes came to the two CPUs of 32 that the ranks may use.
#[test]
fn ranks_that_share_their_cpus_are_told_so() {
    let judged = judged("h200-contention", 1_795_359_871.83, "6427");
    let (t, found) = judged.first("host-cpu-contention");
    assert!((5.0..20.0).contains(t) && found.ranks.is_empty(), "{t} {found:?}");
    assert!(found.summary.contains("may use 2 CPUs of 32 only (0-1)"), "{}", found.summary);
    assert_eq!(judged.rules(), ["slow-steps"]);
}

/// The ranks wrote a checkpoint to ext4 when `fsfreeze -f` stopped it.
#[test]
fn a_file_system_that_stops_under_a_checkpoint_is_named() {
    let judged = judged("storage-frozen", 1_795_356_565.1, "23071");
    let (t, found) = judged.first("storage-hang");
    assert!((115.0..130.0).contains(t), "{t}");
    assert_eq!((found.ranks.as_slice(), found.confidence), (&[0, 1][..], Confidence::Certain));
    assert_eq!(found.summary, "ranks 0 and 1 wait for /ckpt (ext4 on /dev/loop0) in write, for 2 m 00 s");
    assert!(judged.states.iter().all(|s| s.1 != State::Unknown) && judged.rules() == ["storage-hang"], "{:?}", judged.states);
}

/// A node with a job of two ranks on CPUs, made up: process 101 and 102 below launcher 100, and its log.
struct Node {
    session: Session,
    s: i64,
    step: u64,
    ranks: [ProcessSample; 2],
    cpu_ticks: [u64; 2],
    helper_ticks: u64,
    delay_ns: u64,
}

fn wait(pid: u32, comm: &str, call: &str, place: &str) -> Wait {
    Wait { pid, comm: comm.into(), state: Some('S'), call: Some(call.into()), place: Some(place.into()), ..Wait::default() }
}

impl Node {
    /// It has made steps for 30 s.
    fn trained() -> Node {
        let setup = ProcessSetup { cpus: Some("0-1".into()), ..ProcessSetup::default() };
        let mut node = Node {
            session: Session::new("node", Zone::UTC),
            s: 1_000_000,
            step: 0,
            ranks: [101, 102].map(|pid| ProcessSample { pid, state: Some('R'), ..ProcessSample::default() }),
            cpu_ticks: [0; 2],
            helper_ticks: 0,
            delay_ns: 0,
        };
        node.see("procs", Body::Process(ProcessInfo { pid: 100, ppid: 1, role: ProcessRole::Launcher, ..ProcessInfo::default() }));
        for rank in 0..2u32 {
            let env = [("RANK", rank.to_string()), ("WORLD_SIZE", "2".into()), ("LOCAL_WORLD_SIZE", "2".into())];
            node.see(
                "procs",
                Body::Process(ProcessInfo {
                    pid: 101 + rank,
                    ppid: 100,
                    role: ProcessRole::Rank,
                    comm: "python3".into(),
                    env: Some(env.map(|(k, v)| (k.to_owned(), v)).into()),
                    setup: Some(setup.clone()),
                    cgroup: Some("/job".into()),
                    ..ProcessInfo::default()
                }),
            );
        }
        node.see("tail", Body::LogFile(LogFileInfo { file: 1, path: "train.log".into(), ..LogFileInfo::default() }));
        node.trains(30);
        node
    }

    fn see(&mut self, from: &'static str, body: Body) {
        let at = Stamp(self.s * 1_000_000_000);
        self.session.apply(&Observation { at, host: None, from: SourceId::of(from), body }, &mut Vec::new());
    }

    fn says(&mut self, text: String) {
        let lines = vec![Line { text, ..Line::default() }];
        self.see("tail", Body::Lines(Lines { file: 1, lines, ..Lines::default() }));
    }

    /// Ranks use so much of a CPU, %.
    fn second(&mut self, cpu: [u64; 2]) {
        self.s += 1;
        let mut processes = self.ranks.to_vec();
        for (i, process) in processes.iter_mut().enumerate() {
            self.cpu_ticks[i] += cpu[i];
            process.cpu_ticks = Some(self.cpu_ticks[i]);
            process.rchar_bytes.get_or_insert(0);
            process.wchar_bytes.get_or_insert(0);
            process.run_delay_ns = Some(self.delay_ns);
            if let Some(helpers) = &mut process.helpers {
                helpers.cpu_ticks = self.helper_ticks;
            }
        }
        self.see("procs", Body::Processes { processes });
        self.see("feed", Body::Tick);
    }

    fn trains(&mut self, seconds: u64) {
        for _ in 0..seconds {
            self.step += 1;
            let step = self.step;
            self.says(format!(" iteration {step:8}/ 100000 | elapsed time per iteration (ms): 990.1 | lm loss: 4.178200E+00 |"));
            self.second([100, 100]);
        }
    }

    fn stands(&mut self, seconds: u64, cpu: [u64; 2]) {
        (0..seconds).for_each(|_| self.second(cpu));
    }

    fn open(&self) -> Vec<&Finding> {
        self.session.ledger.open().into_iter().filter(|f| f.severity >= Severity::Warning).collect()
    }

    fn rules(&self) -> Vec<&'static str> {
        self.open().iter().map(|f| f.rule).collect()
    }

    fn state(&self) -> (State, &str) {
        let verdict = &self.session.verdicts["100"];
        (verdict.state, &verdict.summary)
    }

    /// The ranks sleep, with these of their own calls and these workers.
    fn waits(&mut self, own: &str, workers: &[Wait]) {
        for rank in &mut self.ranks {
            let mut waits = vec![wait(rank.pid, "python3", own, "poll_schedule_timeout")];
            waits.extend_from_slice(workers);
            (rank.state, rank.waits) = (Some('S'), Some(waits));
            rank.helpers = Some(Helpers { alive: workers.len() as u32, ..Helpers::default() });
        }
    }
}

#[test]
fn workers_without_work_and_ranks_at_a_barrier_are_no_input_stall() {
    let mut node = Node::trained();
    node.waits(
        "poll",
        &[wait(201, "pt_data_worker", "poll", "poll_schedule_timeout"), wait(202, "wandb-core", "clock_nanosleep", "hrtimer_nanosleep")],
    );
    node.stands(60, [1, 1]);
    assert_eq!((node.rules(), node.state().0), (vec![], State::Unknown), "nobody knows what they wait for");
    // Rank 0 works, the other waits for it at a barrier, its loader with it.
    let mut node = Node::trained();
    node.waits("poll", &[wait(201, "pt_data_worker", "read", "folio_wait_bit_common")]);
    node.stands(60, [99, 1]);
    assert!(!node.rules().contains(&"input-stall"), "{:?}", node.rules());
}

#[test]
fn a_server_that_waits_for_requests_and_a_job_that_is_done_are_no_input_stall() {
    let mut node = Node::trained();
    node.session.model.files.values_mut().for_each(|file| file.progress = Default::default());
    node.waits("poll", &[wait(201, "pt_data_worker", "openat", "rpc_wait_bit_killable")]);
    node.stands(60, [1, 1]);
    assert_eq!(node.rules(), Vec::<&str>::new(), "it makes no steps");
    let mut node = Node::trained();
    node.says(" iteration   100000/ 100000 | elapsed time per iteration (ms): 990.1 | lm loss: 4.1E+00 |".into());
    node.waits("poll", &[wait(201, "pt_data_worker", "openat", "rpc_wait_bit_killable")]);
    node.stands(60, [1, 1]);
    assert_eq!(node.rules(), Vec::<&str>::new(), "the last step was made");
}

#[test]
fn a_child_that_sleeps_is_not_why_its_rank_waits_for_a_file() {
    let mut node = Node::trained();
    let sleeps = |pid: u32| wait(pid, "python3", "clock_nanosleep", "hrtimer_nanosleep");
    for (pid, rank) in (101..).zip(&mut node.ranks) {
        (rank.state, rank.waits) = (Some('S'), Some(vec![wait(pid, "python3", "openat", "__break_lease"), sleeps(pid + 100)]));
    }
    node.stands(25, [0, 0]);
    let words = "both ranks on this node wait for input: in openat (__break_lease)";
    assert_eq!(node.open().iter().map(|f| f.summary.as_str()).collect::<Vec<_>>(), [words]);
}

#[test]
fn a_loader_on_a_network_file_system_is_named_with_its_server() {
    let mut node = Node::trained();
    let mount = Mount { at: "/data".into(), fs: "nfs4".into(), source: "filer:/vol7".into() };
    let stuck = Wait {
        state: Some('D'),
        mount: Some(mount),
        file: Some("/data/part-07.tar".into()),
        ..wait(201, "python3", "read", "rpc_wait_bit_killable")
    };
    node.waits("futex", &[stuck.clone(), Wait { pid: 202, ..stuck }]);
    node.stands(25, [1, 1]);
    let words = "both ranks on this node wait for input: 2 data loader workers wait in read of /data/part-07.tar (rpc_wait_bit_killable) on \
                 /data (nfs4 from filer:/vol7)";
    assert_eq!(node.open().iter().map(|f| f.summary.as_str()).collect::<Vec<_>>(), [words]);
    node.ranks.iter_mut().for_each(|rank| (rank.state, rank.waits) = (Some('R'), None));
    node.trains(12);
    assert_eq!((node.rules(), node.state().0), (vec![], State::Training));
}

#[test]
fn a_rank_that_does_not_come_back_from_its_file_system_is_named_with_the_mount() {
    let mount = |fs: &str, source: &str| Mount { at: "/ckpt".into(), fs: fs.into(), source: source.into() };
    for (mount, seconds) in [(mount("lustre", "10.0.0.7@o2ib:/scratch"), 30), (mount("ext4", "/dev/nvme0n1"), 120)] {
        let mut node = Node::trained();
        let stuck = Wait { state: Some('D'), mount: Some(mount.clone()), ..wait(102, "python3", "fsync", "osc_io_fsync_end") };
        (node.ranks[1].state, node.ranks[1].waits) = (Some('D'), Some(vec![stuck]));
        node.ranks[0].state = Some('S');
        node.stands(seconds - 2, [1, 0]);
        assert_eq!(node.rules(), Vec::<&str>::new(), "{mount:?}");
        node.stands(4, [1, 0]);
        let found = node.open()[0].clone();
        assert_eq!((found.rule, found.ranks, found.confidence), ("storage-hang", vec![1], Confidence::Certain));
        assert!(found.summary.starts_with(&format!("rank 1 waits for /ckpt ({} ", mount.fs)), "{}", found.summary);
        assert_eq!(node.state().0, State::Stuck);
    }
    // A driver's call is no matter of storage.
    let mut node = Node::trained();
    let driver = Wait { state: Some('D'), file: Some("/dev/nvidia0".into()), ..wait(102, "python3", "ioctl", "nvidia_ioctl") };
    (node.ranks[1].state, node.ranks[1].waits) = (Some('D'), Some(vec![driver]));
    node.stands(150, [1, 0]);
    assert!(!node.rules().contains(&"storage-hang"), "{:?}", node.rules());
}

#[test]
fn a_named_checkpoint_is_a_pause_until_it_has_lasted_much_longer_than_those_before() {
    let mut node = Node::trained();
    node.says("saving checkpoint at iteration      30 to /ckpt in torch_dist format".into());
    node.stands(20, [1, 1]);
    assert_eq!(node.state().0, State::Paused);
    node.trains(5);
    node.says("saving checkpoint at iteration      35 to /ckpt in torch_dist format".into());
    node.stands(235, [1, 1]);
    assert_eq!((node.state().0, node.rules()), (State::Paused, vec![]));
    node.stands(10, [1, 1]);
    assert_eq!((node.state().0, node.rules()), (State::Stuck, vec!["storage-hang"]), "the one before took 20 s");
    assert!(node.open()[0].summary.starts_with("the checkpoint does not end: 4 m "), "{}", node.open()[0].summary);
}

#[test]
fn ranks_that_get_no_cpu_are_named_with_what_keeps_it_from_them() {
    let mut node = Node::trained();
    node.see("host", Body::Node(Host { cpus: Some(64), ..Host::default() }));
    // Half of the time.
    let late = |node: &mut Node, share_pct: u64, seconds: u64| {
        for _ in 0..seconds {
            node.delay_ns += share_pct * 10_000_000;
            node.trains(1);
        }
    };
    late(&mut node, 30, 40);
    assert_eq!(node.rules(), Vec::<&str>::new(), "some of it costs nothing that is seen");
    late(&mut node, 60, 40);
    assert_eq!(node.rules(), ["host-cpu-contention"]);
    let found = node.open()[0].clone();
    assert_eq!(
        found.summary,
        "the ranks wait for a CPU up to 60 % of the time: 2 ranks and their 0 helpers may use 2 CPUs of 64 only (0-1)"
    );
    assert!(found.ranks.is_empty() && found.severity == Severity::Warning);
    // A quota, and less of it.
    let group = |periods, throttled| CgroupMemory {
        cgroup: "/job".into(),
        cpu: Some(CgroupCpu { limited_by: "/pod".into(), limit_cpus: Some(4.0), periods, throttled }),
        ..CgroupMemory::default()
    };
    let mut node = Node::trained();
    node.see("procs", Body::Cgroups { cgroups: vec![group(1000, 0)] });
    node.see("procs", Body::Cgroups { cgroups: vec![group(1150, 120)] });
    late(&mut node, 30, 40);
    let words = "the ranks wait for a CPU up to 30 % of the time: control group /pod is limited to 4.0 CPUs and was throttled in 80 % of its periods";
    assert_eq!(node.open().iter().map(|f| f.summary.as_str()).collect::<Vec<_>>(), [words]);
    node.see("host", Body::Host(HostSample::default()));
}

#[test]
fn a_recording_that_somebody_made_up_does_no_harm() {
    let mut node = Node::trained();
    node.ranks.iter_mut().for_each(|rank| {
        let odd = Wait { comm: "\u{1b}[2J".into(), file: Some("/\u{1b}]0;x\u{7}".into()), ..wait(201, "python3", "openat", "\u{1b}[31m") };
        rank.waits = Some(vec![odd; 100_000]);
        rank.helpers = Some(Helpers { alive: u32::MAX, dead: u32::MAX, cpu_ticks: u64::MAX });
        rank.run_delay_ns = Some(u64::MAX);
        rank.state = Some('D');
    });
    node.helper_ticks = u64::MAX;
    node.delay_ns = u64::MAX;
    node.second([1, 1]);
    node.ranks.iter_mut().for_each(|rank| rank.waits = None);
    node.stands(130, [1, 1]);
    for found in node.open() {
        assert!(!found.summary.contains('\u{1b}') && !found.why.contains('\u{1b}'), "{found:?}");
    }
}

#[test]
fn of_ranks_on_cpus_the_one_that_sleeps_elsewhere_has_not_come() {
    let judged = judged("gloo-gil", 1_795_365_576.82, "2729");
    assert_eq!(judged.rules(), ["hang-rank-absent"]);
    let (t, found) = judged.first("hang-rank-absent");
    assert_eq!((found.ranks.as_slice(), found.confidence), (&[1][..], Confidence::Likely));
    assert!(*t > 10.0 && *t < 15.0, "{t}");
    assert!(found.evidence[0].text.starts_with("rank 1 sleeps in clock_nanosleep; 1 other rank waits in futex"), "{:?}", found.evidence);
}

/// Rank 0 may upload alone, but a server that has not answered for so long is what the others wait for.
#[test]
fn rank_0_that_waits_for_an_answer_of_a_server_has_not_come() {
    let judged = judged("gloo-answer", 1_795_489_501.73, "23018");
    assert_eq!(judged.rules(), ["hang-rank-absent"]);
    let (t, found) = judged.first("hang-rank-absent");
    assert_eq!((found.ranks.as_slice(), found.confidence), (&[0][..], Confidence::Possible));
    assert!(*t > 14.0 && *t < 18.0, "{t}");
    assert!(
        found.evidence[0].text.starts_with("rank 0 sleeps in recvfrom of 10.0.3.7:443; 1 other rank waits in futex"),
        "{:?}",
        found.evidence
    );
}

/// Of two workers one waits for a pipe; the other has nothing to do, and the other rank is in a collective.
#[test]
fn the_worker_that_waits_for_a_pipe_is_the_one_to_look_at() {
    let judged = judged("loader-pipe", 1_795_421_018.25, "29353");
    assert_eq!(judged.rules(), ["input-stall"]);
    let (_, found) = judged.first("input-stall");
    assert_eq!(found.ranks, [1]);
    assert!(found.summary.ends_with("1 data loader worker waits in read of /home/u/run/fx/shard-00017.pipe, a pipe"), "{}", found.summary);
    assert_eq!(found.next.as_deref(), Some("py-spy dump --nonblocking --pid 29558"));
    assert!(found.why.contains("2 ranks sleep for 12 s, 1 of them in futex"), "{}", found.why);
}

/// Rank 0 may upload alone; while it sleeps for a time it does not.
#[test]
fn rank_0_that_sleeps_while_the_others_wait_has_not_come() {
    let judged = judged("gloo-sleep", 1_795_422_038.86, "11926");
    assert_eq!(judged.rules(), ["hang-rank-absent"]);
    let (t, found) = judged.first("hang-rank-absent");
    assert_eq!((found.ranks.as_slice(), found.confidence), (&[0][..], Confidence::Possible));
    assert!(*t > 10.0 && *t < 15.0, "{t}");
}

#[test]
fn of_ranks_on_cpus_that_all_wait_for_one_another_nobody_is_blamed() {
    let judged = judged("gloo-uneven", 1_795_365_338.57, "1075");
    assert_eq!(judged.rules(), ["hang-symmetric"]);
    let (t, found) = judged.first("hang-symmetric");
    assert_eq!((found.ranks.as_slice(), found.severity, found.confidence), (&[][..], Severity::Error, Confidence::Possible));
    assert!(*t > 25.0 && *t < 35.0, "{t}");
}

#[test]
fn who_waits_in_gloo_is_told_from_who_waits_for_a_lock() {
    // Two groups in another order on either rank; and both ranks receive from each other, in their first thread.
    // So do two that call different collectives, in a PyTorch that gives Gloo's threads no name.
    for (name, since, job) in [
        ("gloo-circle", 1_795_378_368.23, "27704"),
        ("gloo-receive", 1_795_378_368.10, "27708"),
        ("gloo-mismatch", 1_795_423_631.93, "18482"),
    ] {
        let judged = judged(name, since, job);
        assert_eq!(judged.rules(), ["hang-symmetric"], "{name}");
        let (t, found) = judged.first("hang-symmetric");
        assert_eq!((found.severity, found.confidence), (Severity::Error, Confidence::Likely), "{name}");
        assert!(*t > 10.0 && *t < 17.0, "{name}: {t}");
        assert!(found.evidence[0].text.starts_with("2 ranks asleep in Gloo"), "{:?}", found.evidence);
    }
    // All ranks wait for an event, for a minute; and rank 0 for a thread that uploads, the other for rank 0. They sleep in futex, too.
    for (name, since, job) in [("gloo-pause", 1_795_378_369.12, "27705"), ("gloo-upload", 1_795_378_367.32, "27706")] {
        let judged = judged(name, since, job);
        assert!(judged.rules().is_empty(), "{name}: {:?}", judged.rules());
        let (_, state, _, summary) = judged.states.last().unwrap();
        assert_eq!(*state, State::Unknown, "{name}: {summary}");
        assert_eq!(summary.contains("no rank is waiting in a collective"), name == "gloo-pause", "{summary}");
    }
}

#[test]
fn ranks_on_cpus_that_all_sleep_by_themselves_hang_in_nothing() {
    let judged = judged("gloo-evaluation", 1_795_365_440.36, "1683");
    assert!(judged.rules().is_empty(), "{:?}", judged.rules());
}

#[test]
fn a_rank_that_left_with_code_0_is_named_beside_those_that_lost_it() {
    // The second took longer to end than those that lost it.
    for (name, since, job, rank) in [("gloo-left-early", 1_795_365_238.43, "525", 1), ("gloo-left-slowly", 1_795_421_297.52, "1431", 2)] {
        let judged = judged(name, since, job);
        let worst = judged.opened.iter().rfind(|(_, f)| f.severity == Severity::Critical && f.role == Role::Root);
        let (t, found) = worst.unwrap_or_else(|| panic!("{name}"));
        assert_eq!((found.rule, found.ranks.as_slice()), ("rank-exited", &[rank][..]), "{name}");
        assert!(*t < 5.0, "{name}: {t}");
        assert_eq!(judged.states.last().map(|(_, state, rule, _)| (*state, *rule)), Some((State::Failed, None)), "{name}");
    }
}

/// Before there is a communicator the log and the GPUs say nothing; where the process stands does.
#[test]
fn a_rank_that_stands_before_it_joins_is_named() {
    for (name, since, job, words) in [
        ("h200-init-pipe", 1_795_431_276.85, "6581", "rank 1 waits in openat (wait_for_partner); 1 rank waits for it"),
        (
            "h200-init-lock",
            1_795_431_998.99,
            "1599",
            "rank 1 waits in flock of /w/a15/d/dataset_cache.lock on / (ext4 on /dev/vda); 1 rank waits for it",
        ),
    ] {
        let judged = judged(name, since, job);
        let (t, found) = judged.first("init-stuck");
        assert!((10.0..20.0).contains(t) && found.ranks == [1], "{name} {t} {:?}", found.ranks);
        assert_eq!((found.summary.as_str(), found.confidence, judged.rules()), (words, Confidence::Likely, vec!["init-stuck"]));
    }
}

/// Five seconds after the first step of a job without a log: others may still compile then, but not who waits for a key.
#[test]
fn a_rank_that_waits_for_a_key_has_not_joined() {
    let judged = judged("h200-terminal", 1_795_432_234.34, "3110");
    let (t, found) = judged.first("hang-rank-absent");
    assert!((8.0..15.0).contains(t) && found.ranks == [0] && judged.rules() == ["hang-rank-absent"], "{t} {:?}", found.ranks);
}

/// Its log says that it saves a checkpoint, but nothing is written.
#[test]
fn a_checkpoint_for_which_nobody_does_anything_is_no_pause() {
    let judged = judged("h200-save-pipe", 1_795_431_979.06, "1437");
    let (t, found) = judged.first("hang-rank-absent");
    assert!((8.0..15.0).contains(t) && found.ranks == [0] && judged.rules() == ["hang-rank-absent"], "{t} {:?}", found.ranks);
    assert_eq!(found.area.map(|area| area.as_str()), Some("storage"));
}

/// Two jobs on the same GPUs, of which one cannot be asked by RAS: its port is taken.
#[test]
fn a_hang_beside_a_job_on_the_same_gpus_is_found() {
    let judged_job = judged("h200-two-jobs", 1_795_432_037.91, "1731");
    let (t, found) = judged_job.first("hang-rank-absent");
    assert!((8.0..15.0).contains(t) && found.ranks == [1] && judged_job.rules() == ["hang-rank-absent"], "{t} {:?}", judged_job.rules());
    assert_eq!(judged("h200-two-jobs", 1_795_432_037.91, "1732").rules(), Vec::<&str>::new());
}

/// A loop that does not end, beside a rank that waits in Gloo.
#[test]
fn a_rank_on_cpus_that_computes_for_long_while_the_others_wait_has_not_come() {
    let judged = judged("gloo-loop", 1_795_441_603.62, "11132");
    let (t, found) = judged.first("hang-rank-absent");
    assert!((18.0..23.0).contains(t) && judged.rules() == ["hang-rank-absent"], "{t} {:?}", judged.rules());
    assert_eq!((found.ranks.as_slice(), found.confidence), (&[1][..], Confidence::Possible));
}

/// WORLD_SIZE=3 on the loopback, and two ranks.
#[test]
fn a_rank_of_this_node_that_was_not_started_is_named() {
    let judged = judged("gloo-missing-rank", 1_795_442_035.09, "14041");
    let (t, found) = judged.first("init-stuck");
    assert!((25.0..35.0).contains(t) && judged.rules() == ["init-stuck"], "{t} {:?}", judged.rules());
    assert_eq!(found.ranks, [2]);
}

/// Without a log exit codes alone tell, and not who is to blame.
#[test]
fn who_fails_right_behind_one_that_left_is_not_blamed() {
    let judged = judged("gloo-left-no-log", 1_795_441_803.89, "12638");
    let (_, found) = judged.first("rank-exited");
    assert!(found.ranks.is_empty() && found.summary.contains("rank 1 had left with code 0"), "{}", found.summary);
    assert_eq!(found.confidence, Confidence::Possible);
}

/// The program prints a traceback and goes on.
#[test]
fn a_traceback_of_what_was_caught_opens_nothing() {
    let judged = judged("gloo-caught", 0.0, "18608");
    assert!(judged.opened.iter().all(|(_, f)| f.severity <= Severity::Info), "{:?}", judged.rules());
}

/// Two nodes, a rank each: what the node of rank 0 sees while rank 1 sleeps on the other.
#[test]
fn ranks_here_that_wait_in_gloo_miss_one_of_another_node() {
    let judged = judged("gloo-elsewhere", 1_795_446_471.19, "3");
    let (t, found) = judged.first("hang-rank-absent");
    assert!((18.0..23.0).contains(t) && found.ranks.is_empty(), "{t} {:?}", found.ranks);
    assert!(found.summary.starts_with("a rank of another node has not joined"), "{}", found.summary);
}

/// Two nodes, a rank and its GPU each: what the node of rank 0 sees while rank 1 is late on the other.
#[test]
fn who_is_late_on_another_node_is_known_by_ras_since_steps_became_slower() {
    let judged = judged("h100-late-elsewhere", 1_795_452_854.53, "417");
    let (t, found) = judged.first("straggler");
    assert!((10.0..18.0).contains(t) && found.ranks == [1], "{t} {:?}", found.ranks);
    let said = "rank 1 on 10.77.0.2 (pid 465) is late every step; the only rank on this node waits for it";
    assert_eq!(found.summary, said);
    assert_eq!(found.next.as_deref(), Some("ssh 10.77.0.2 py-spy dump --nonblocking --pid 465"));
    assert_eq!(judged.rules(), ["slow-steps", "straggler"]);
}

/// Two containers of one machine, a rank each, on one GPU, which spins for the rank that waits: here it is the other one's. The driver does
/// not name a process of another container; the memory that it holds is missing in its list.
#[test]
fn a_gpu_on_which_a_process_that_is_not_seen_works_tells_nothing_of_a_rank() {
    let judged = judged("h100-unseen-process", 1_795_452_759.62, "3");
    let (t, found) = judged.first("hang-rank-absent");
    assert!((10.0..16.0).contains(t) && found.ranks == [1], "{t} {:?}", found.ranks);
    assert_eq!(judged.rules(), ["hang-rank-absent"]);
}

/// Three jobs of one process without a GPU: a child writes more into a pipe than fits, and nobody reads it; a lock of a file that the process holds
/// itself; and a program that sleeps, whose end is waited for.
#[test]
fn the_only_process_of_a_job_that_is_held_is_stuck() {
    let child = judged("lone-held", 1_795_921_539.65, "22536");
    assert_eq!(child.rules(), ["process-stuck"]);
    let (t, found) = child.first("process-stuck");
    assert!((12.0..18.0).contains(t) && found.ranks == [0] && found.severity == Severity::Error, "{t} {found:?}");
    assert_eq!(found.summary, "rank 0 (pid 22606) makes no step: it waits for a child process, which waits in write (anon_pipe_write)");

    let lock = judged("lone-held", 1_795_921_539.65, "22538");
    assert_eq!(lock.rules(), ["process-stuck"]);
    let (t, found) = lock.first("process-stuck");
    assert!((12.0..18.0).contains(t) && found.summary.contains("it waits in flock of /home/u/runlock"), "{t} {}", found.summary);

    // What it runs may be what it is to do.
    let sleeps = judged("lone-held", 1_795_921_539.61, "22540");
    assert!(sleeps.rules().is_empty(), "{:?}", sleeps.rules());
    assert_eq!(sleeps.states.last().map(|s| s.1), Some(State::Unknown));
}

/// A server of one process that nobody asks for 15 s, and a search whose trials each count from 0.
#[test]
fn a_server_that_answers_and_trials_that_count_from_0_are_no_start() {
    let served = judged("h200-serving", 1_795_921_608.94, "2648");
    let told: Vec<_> = served.states.iter().map(|(_, state, phase, _)| (*state, *phase)).collect();
    let (waits, answers) = ((State::Paused, Some("serving")), (State::Training, Some("serving")));
    let start = [(State::Starting, Some("imports")), (State::Starting, Some("first step"))];
    assert_eq!(told, [start[0], start[1], waits, answers, waits, answers]);
    assert!(served.rules().is_empty(), "{:?}", served.rules());

    let trials = judged("h200-trials", 1_795_921_660.88, "2816");
    let trained = trials.states.iter().skip_while(|s| s.1 != State::Training);
    assert_eq!(trained.map(|s| s.1).collect::<Vec<_>>(), [State::Training]);
    assert!(trials.rules().is_empty(), "{:?}", trials.rules());
}

/// Of two threads that wait for each other's locks and of one that waits for an upload nothing more is seen than that they wait.
#[test]
fn the_only_process_of_a_job_that_waits_for_its_threads_is_warned_of() {
    for (job, since) in [("23528", 1_795_921_599.04), ("23532", 1_795_921_598.63)] {
        let judged = judged("lone-threads", since, job);
        assert_eq!(judged.rules(), ["process-stuck"], "{job}");
        let (t, found) = judged.first("process-stuck");
        assert!((20.0..26.0).contains(t) && (found.severity, found.confidence) == (Severity::Warning, Confidence::Possible), "{t}");
    }
    // A program that it runs, and that works and sleeps in turns.
    let works = judged("lone-threads", 1_795_921_598.60, "23534");
    assert!(works.rules().is_empty(), "{:?}", works.rules());
}

/// The node of rank 1, whose own interface has the name of one of containers: the ranks met over it.
#[test]
fn an_interface_over_which_the_ranks_met_is_not_wrong() {
    let judged = judged("h100-veth", 1_795_452_854.53, "409");
    assert_eq!(judged.rules(), Vec::<&str>::new());
    assert_eq!(judged.states.last().map(|s| s.1), Some(State::Training));
}

/// Two ranks on one GPU, which spins for the one that waits: what it does tells nothing of the other, and counts that differ are no
/// mismatch while one may still come.
#[test]
fn ranks_that_share_a_gpu_are_not_judged_by_it() {
    let judged = judged("h200-one-gpu", 1_795_440_580.92, "3748");
    assert_eq!(judged.rules(), Vec::<&str>::new());
}

/// The same: rank 0 calls an AllReduce and an AllGather, rank 1 the other way round. RAS counts both of each rank as launched.
#[test]
fn ranks_that_share_a_gpu_and_call_in_different_orders_all_wait() {
    let judged = judged("h100-one-gpu-order", 1_795_479_515.72, "505");
    let (t, found) = judged.first("hang-symmetric");
    assert!((10.0..18.0).contains(t) && found.ranks.is_empty(), "{t} {:?}", found.ranks);
    assert_eq!(found.summary, "both ranks on this node wait, no rank is behind, nothing moves");
    assert_eq!(judged.rules(), ["hang-symmetric"]);
}

/// `mp.spawn` without a log. That the GPU worked before is known, though not which rank did.
#[test]
fn a_rank_without_a_log_that_shares_its_gpu_is_named_by_ras() {
    let judged = judged("h100-one-gpu-spawned", 1_795_479_583.82, "876");
    let (t, found) = judged.first("hang-rank-absent");
    assert!((10.0..20.0).contains(t) && found.ranks == [1], "{t} {:?}", found.ranks);
    assert_eq!(judged.rules(), ["hang-rank-absent"]);
}

/// FSDP; rank 1 spins in a loop. It lacks one operation of two kinds: more than one that waits for the other would.
#[test]
fn a_rank_that_lacks_operations_of_two_kinds_does_not_wait_in_another() {
    let judged = judged("h100-one-gpu-spin", 1_795_480_007.24, "4328");
    let (t, found) = judged.first("hang-rank-absent");
    assert!((10.0..18.0).contains(t) && found.ranks == [1], "{t} {:?}", found.ranks);
    assert_eq!(judged.rules(), ["hang-rank-absent"]);
}

/// Rank 0 evaluates for 18 s on the GPU that it shares with rank 1, which waits.
#[test]
fn an_evaluation_on_a_shared_gpu_is_no_hang() {
    let judged = judged("h100-one-gpu-evaluation", 1_795_479_786.84, "3120");
    assert_eq!(judged.rules(), Vec::<&str>::new());
    assert_eq!(judged.states.last().map(|s| s.1), Some(State::Training));
}

/// The driver gives 0 % for a GPU that draws 690 W.
#[test]
fn utilisation_that_power_and_memory_belie_is_not_believed() {
    let judged = judged("h200-belied", 1_795_432_294.28, "3366");
    assert_eq!(judged.rules(), Vec::<&str>::new());
    assert_eq!(judged.states.last().map(|s| s.1), Some(State::Training));
}

/// Its GPU computes three times as much from one step on; both are at 100 %.
#[test]
fn a_rank_with_more_to_do_on_its_gpu_is_named() {
    let judged = judged("h200-more-to-do", 1_795_430_934.0, "2804");
    let (_, found) = judged.first("straggler");
    assert_eq!((found.ranks.as_slice(), judged.rules()), (&[1][..], vec!["slow-steps", "straggler"]));
    assert!(found.why.contains("before the steps became slower all drew 693 W"), "{}", found.why);
}

/// Each was started by a shell of its own; they have an address and a world in common.
#[test]
fn ranks_that_two_shells_started_are_one_job() {
    for second in [20, 40, 44] {
        let session = crate::support::worlds::recorded("sends-two-shells", second);
        let ranks: Vec<Vec<u32>> = session.model.jobs.values().map(|job| job.ranks.keys().copied().collect()).collect();
        assert_eq!(ranks, [vec![0, 1]], "after {second} s");
    }
}
