//! Flight Recorder dumps that appear while we look: found, read when whole, judged, recorded, judged again.

use nccl_top::base::severity::Role;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::flight::FlightDump;
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::process::{LogVia, ProcessGone, ProcessInfo, ProcessLog, ProcessRole, ProcessSample};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::tape;
use nccl_top::rules::findings::Change;
use nccl_top::sources::flight::Flight;
use nccl_top::sources::{Hint, Hints, Roots, Source, SourceError};
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

/// When the dumps of `mismatch4` were written: 2026-11-21 10:46:12 UTC. Rank 1 had called something else 25 s before.
const WRITTEN_S: i64 = 1_795_257_972;

fn dump(name: &str, rank: u32) -> Vec<u8> {
    let path = format!("{}/tests/fixtures/flight/{name}/fr_{rank}.gz", env!("CARGO_MANIFEST_DIR"));
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(fs::File::open(path).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// A node with ranks, a launcher and a log, and a clock that is turned by hand.
struct Node {
    session: Session,
    now_s: i64,
    events: Vec<(Stamp, Event)>,
    tape: Vec<Observation>,
}

impl Node {
    fn of(ranks: u32) -> Node {
        let mut node = Node { session: Session::new("node-17", Zone::UTC), now_s: WRITTEN_S - 60, events: Vec::new(), tape: Vec::new() };
        let log = || vec![ProcessLog { via: LogVia::Stdout, path: "/l/7".into(), inode: Some(7), device: Some(1) }];
        node.sees(
            "procs",
            Body::Process(ProcessInfo {
                pid: 100,
                ppid: 1,
                start_ticks: 1,
                role: ProcessRole::Launcher,
                logs: log(),
                ..Default::default()
            }),
        );
        for rank in 0..ranks {
            let env = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", ranks), ("LOCAL_WORLD_SIZE", ranks)];
            let env = env.map(|(k, v)| (k.to_owned(), v.to_string()));
            let pid = 101 + rank;
            let info = ProcessInfo {
                pid,
                ppid: 100,
                start_ticks: u64::from(pid),
                role: ProcessRole::Rank,
                env: Some(env.into()),
                logs: log(),
                ..Default::default()
            };
            node.sees("procs", Body::Process(info));
        }
        let info = LogFileInfo { file: 1, path: "/l/7".into(), inode: Some(7), device: Some(1), ..Default::default() };
        node.sees("tail", Body::LogFile(info));
        (0..5).for_each(|step| node.line(&format!("step {step} | loss 2.5")).after(1));
        node
    }

    fn sees(&mut self, from: &'static str, body: Body) -> &mut Self {
        let seen = Observation { at: Stamp(self.now_s * 1_000_000_000), host: None, from: SourceId::of(from), body };
        self.session.apply(&seen, &mut self.events);
        self.tape.push(seen);
        self
    }

    fn after(&mut self, seconds: i64) {
        for _ in 0..seconds {
            self.now_s += 1;
            self.sees("feed", Body::Tick);
        }
    }

    fn line(&mut self, text: &str) -> &mut Self {
        let line = Line { no: Some(1), text: text.into(), ..Default::default() };
        self.sees("tail", Body::Lines(Lines { file: 1, lines: vec![line], ..Default::default() }))
    }

    fn dump(&mut self, name: &str, rank: u32) -> &mut Self {
        let bytes = dump(name, rank);
        let told = FlightDump {
            rank,
            pid: 101 + rank,
            path: format!("/d/fr_{rank}"),
            size_bytes: bytes.len() as u64,
            modified_ns: Some(self.now_s * 1_000_000_000),
            packed: FlightDump::pack(&bytes),
            problem: None,
            ..FlightDump::default()
        };
        self.sees("flight", Body::FlightDump(told))
    }

    fn times_out(&mut self) -> &mut Self {
        self.now_s = WRITTEN_S;
        self.line("[rank2]:[E1121 10:46:12.008941232 ProcessGroupNCCL.cpp:688] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2727, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=25000) ran for 25063 milliseconds before timing out.");
        assert_eq!(self.session.verdicts["100"].state, State::Failed);
        assert_eq!(self.open(), [("collective-timeout", Role::Root, vec![])]);
        self
    }

    fn open(&self) -> Vec<(&'static str, Role, Vec<u32>)> {
        self.session.ledger.open().iter().map(|f| (f.rule, f.role, f.ranks.clone())).collect()
    }
}

#[test]
fn dumps_name_the_culprit_of_a_timeout_and_the_recording_does_so_again() {
    let mut node = Node::of(4);
    node.times_out();
    for rank in 0..4 {
        node.dump("mismatch4", rank);
    }
    node.after(1);
    assert_eq!(node.open(), [("collective-mismatch", Role::Root, vec![1]), ("collective-timeout", Role::Cascade, vec![])]);
    let verdict = &node.session.verdicts["100"];
    assert_eq!(verdict.state, State::Stuck);
    assert_eq!(verdict.summary, "rank 1 called AllReduce of 7 Float as collective 2727, the others AllReduce of 151007232 BFloat16");
    let found = node.session.ledger.open()[0].clone();
    assert_eq!(found.evidence[0].text, "rank 1: last enqueued 2735, completed 2726");
    assert_eq!(found.evidence[0].path.as_deref(), Some("/d/fr_1"));
    assert!(found.next.as_ref().is_some_and(|n| n.contains("fault_train.py:101 in fault")), "{found:?}");

    // As from a tape.
    let mut again = Session::new("node-17", Zone::UTC);
    let mut events = Vec::new();
    for seen in &node.tape {
        let mut line = Vec::new();
        tape::put_line(seen, &mut line).unwrap();
        again.apply(&tape::read_observation(&line).unwrap(), &mut events);
    }
    assert!(events == node.events && again == node.session);

    // And from what is left when the beginning is no longer kept.
    let mut again = Session::new("node-17", Zone::UTC);
    for seen in nccl_top::recording::preamble::of(&node.session.model) {
        again.apply(&seen, &mut events);
    }
    let tick = Observation { at: node.session.model.now, host: None, from: SourceId::of("feed"), body: Body::Tick };
    again.apply(&tick, &mut events);
    let open: Vec<_> = again.ledger.open().iter().map(|f| (f.rule, f.role, f.ranks.clone())).collect();
    assert_eq!(open, node.open());
}

#[test]
fn a_job_that_ends_after_a_timeout_still_names_who_was_to_blame() {
    let mut node = Node::of(4);
    node.times_out();
    for rank in 0..4 {
        node.dump("mismatch4", rank);
    }
    node.after(1);
    for pid in (101..105).chain([100]) {
        node.sees(
            "procs",
            Body::ProcessGone(ProcessGone { pid, start_ticks: if pid == 100 { 1 } else { u64::from(pid) }, exit_code: None }),
        );
        node.after(1);
    }
    node.after(60);
    let verdict = &node.session.verdicts["100"];
    assert_eq!(verdict.state, State::Failed);
    let named = "it ended while stuck: rank 1 called AllReduce of 7 Float as collective 2727, the others AllReduce of 151007232 BFloat16";
    assert_eq!(verdict.summary, named);
}

#[test]
fn what_is_missing_is_said_and_judged_anew_when_it_comes() {
    let mut node = Node::of(4);
    node.times_out();
    for rank in [0, 2, 3] {
        node.dump("mismatch4", rank);
    }
    node.after(1);
    assert_eq!(node.open().len(), 1, "one may still come");
    node.after(4);
    assert_eq!(node.open()[0], ("hang-rank-absent", Role::Root, vec![1]));
    assert!(node.session.ledger.open()[0].summary.contains("rank 1 left no dump"));
    node.dump("mismatch4", 1).after(6);
    assert_eq!(node.open(), [("collective-mismatch", Role::Root, vec![1]), ("collective-timeout", Role::Cascade, vec![])]);
    let cleared = node.events.iter().filter(|(_, e)| matches!(e, Event::Finding(Change::Cleared { .. }))).count();
    assert_eq!(cleared, 1);
}

#[test]
fn a_rank_that_did_not_join_is_found_without_a_timeout_and_a_job_that_goes_on_was_not_stuck() {
    let mut node = Node::of(8);
    for rank in 0..8 {
        node.dump("hang", rank);
    }
    node.after(1);
    assert_eq!(node.open(), [("hang-rank-absent", Role::Root, vec![3])]);
    assert_eq!(node.session.ledger.open()[0].next.as_deref(), Some("py-spy dump --nonblocking --pid 104"));
    node.after(5);
    assert_eq!(node.open().len(), 1);
    (5..12).for_each(|step| node.line(&format!("step {step} | loss 2.5")).after(1));
    assert_eq!(node.open(), []);
    assert_eq!(node.session.verdicts["100"].state, State::Training);
}

#[test]
fn a_rank_that_was_stopped_is_why_it_did_not_join() {
    let mut node = Node::of(8);
    let stopped = ProcessSample { pid: 104, state: Some('T'), ..Default::default() };
    for _ in 0..8 {
        node.sees("procs", Body::Processes { processes: vec![stopped.clone()] }).after(1);
    }
    assert_eq!(node.open(), [("rank-stopped", Role::Root, vec![3])]);
    for rank in 0..8 {
        node.dump("hang", rank);
    }
    node.after(2);
    assert_eq!(node.open(), [("rank-stopped", Role::Root, vec![3]), ("hang-rank-absent", Role::Cascade, vec![3])]);
    assert_eq!(node.session.verdicts["100"].because.as_ref().map(|b| b.0), Some("rank-stopped"));
}

#[test]
fn a_dump_of_a_job_that_runs_accuses_nobody() {
    let mut node = Node::of(8);
    // Asked for at the very moment of the call.
    node.now_s = 1_795_219_443;
    for rank in 0..8 {
        node.dump("hang", rank);
    }
    node.after(5);
    assert_eq!(node.open(), []);
}

#[test]
fn a_dump_that_there_is_no_room_for_takes_the_one_before_it_along() {
    use nccl_top::model::dumps::Dumps;
    let seen = |rank: u32, bytes: usize| FlightDump { path: format!("/d/{rank}"), packed: "x".repeat(bytes), ..Default::default() };
    let mut dumps = Dumps::default();
    (0..3).for_each(|rank| dumps.apply(Stamp(1), &seen(rank, 5 << 20)));
    dumps.apply(Stamp(2), &seen(1, 7 << 20));
    let paths: Vec<&str> = dumps.iter().map(|d| d.seen.path.as_str()).collect();
    assert_eq!((paths, dumps.ignored, dumps.revision), (vec!["/d/0", "/d/2"], 1, 4));
}

#[test]
fn what_is_no_dump_does_no_harm() {
    let mut node = Node::of(2);
    for (rank, packed) in [(0, "!!"), (1, "Zm9v")] {
        let told = FlightDump { rank, pid: 101 + rank, path: format!("/d/{rank}"), packed: packed.into(), ..Default::default() };
        node.sees("flight", Body::FlightDump(told));
    }
    node.after(10);
    assert_eq!(node.open(), []);
}

/// A tree with ranks of which each would write to /d/fr_N, of a user that is this one.
struct Tree {
    dir: tempfile::TempDir,
    hints: Hints,
    source: Flight,
}

impl Tree {
    fn of(ranks: &[u32], world: u32, started_s: i64) -> Tree {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let at = |path: String| dir.path().join(path);
        fs::create_dir_all(at("proc".into())).unwrap();
        fs::create_dir_all(at("d".into())).unwrap();
        fs::write(at("proc/stat".into()), format!("cpu 1 2 3\nbtime {}\n", started_s - 10)).unwrap();
        let uid = fs::metadata(dir.path()).unwrap().uid();
        for rank in ranks {
            let pid = 100 + rank;
            fs::create_dir_all(at(format!("proc/{pid}"))).unwrap();
            let stat = format!("{pid} (python) S 1 {pid} {pid} 0 -1 4194304 1 0 0 0 300 50 0 0 20 0 1 0 1000 1000 500");
            fs::write(at(format!("proc/{pid}/stat")), stat).unwrap();
            fs::write(at(format!("proc/{pid}/status")), format!("Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")).unwrap();
            let env = format!("RANK={rank}\0WORLD_SIZE={world}\0TORCH_FR_DUMP_TEMP_FILE=/d/fr_\0");
            fs::write(at(format!("proc/{pid}/environ")), env).unwrap();
        }
        let (hints, inbox) = Hints::line();
        hints.send(Hint::Ranks(ranks.iter().map(|rank| (100 + rank, 1000)).collect()));
        let source = Flight::new(Roots::below(dir.path()), Duration::from_secs(1), Some(inbox));
        Tree { dir, hints, source }
    }

    fn file(&self, rank: u32) -> PathBuf {
        self.dir.path().join(format!("d/fr_{rank}"))
    }

    fn poll(&mut self) -> Vec<FlightDump> {
        let mut out = Vec::new();
        self.source.poll(&mut out).unwrap();
        out.into_iter().map(|body| if let Body::FlightDump(d) = body { d } else { panic!("{body:?}") }).collect()
    }

    fn polls(&mut self, times: usize) -> Vec<FlightDump> {
        (0..times).flat_map(|_| self.poll()).collect()
    }
}

fn now_s() -> i64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs() as i64
}

#[test]
fn a_dump_is_read_when_it_is_whole() {
    let mut tree = Tree::of(&[0, 1], 4, now_s() - 100);
    assert!(tree.polls(3).is_empty());
    let whole = dump("mismatch4", 0);
    for end in [0, 1, 1000, whole.len() / 2, whole.len() - 1] {
        fs::write(tree.file(0), &whole[..end]).unwrap();
        assert!(tree.polls(4).is_empty(), "{end} bytes");
    }
    fs::write(tree.file(0), &whole).unwrap();
    let told = tree.polls(3);
    assert_eq!(told.len(), 1);
    assert_eq!((told[0].rank, told[0].pid, told[0].size_bytes), (0, 100, whole.len() as u64));
    assert_eq!(told[0].bytes().as_ref(), Some(&whole));
    assert!(told[0].packed.len() < whole.len() / 4, "bounded on the tape: {}", told[0].packed.len());
    assert!(tree.polls(3).is_empty(), "once");
    assert_eq!(tree.source.remark().unwrap().1, "dumps of rank 0 read, none of rank 1 so far");

    // Another rank's, of another node with the same file system; a later dump of the same rank; what is none of this job's.
    fs::write(tree.file(3), dump("mismatch4", 3)).unwrap();
    fs::write(tree.file(0), dump("hang", 0)).unwrap();
    fs::write(tree.file(7), dump("hang", 7)).unwrap();
    fs::write(tree.dir.path().join("d/fr_1.tmp"), "x").unwrap();
    let told: Vec<u32> = tree.polls(6).iter().map(|d| d.rank).collect();
    assert_eq!(told, [0, 3]);
}

#[test]
fn what_is_stale_foreign_or_no_file_is_left_alone() {
    let mut tree = Tree::of(&[0, 1, 2, 3], 4, now_s() + 3600);
    fs::write(tree.file(0), dump("mismatch4", 0)).unwrap();
    assert!(tree.polls(4).is_empty(), "written before its process began");

    let mut tree = Tree::of(&[0, 1, 2, 3], 4, now_s() - 100);
    let outside = tree.dir.path().join("secret");
    fs::write(&outside, dump("mismatch4", 0)).unwrap();
    std::os::unix::fs::symlink(&outside, tree.file(0)).unwrap();
    fs::create_dir(tree.file(1)).unwrap();
    let fifo = tree.file(2);
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    fs::write(tree.file(3), b"\x80\x02c__builtin__\neval\n.").unwrap();
    let told = tree.polls(16);
    assert_eq!(told.len(), 1);
    assert!(told[0].packed.is_empty() && told[0].problem.as_ref().unwrap().starts_with("refused: "), "{told:?}");
    let sparse = fs::File::create(tree.file(3)).unwrap();
    sparse.set_len(1 << 30).unwrap();
    let told = tree.polls(16);
    assert!(told[0].problem.as_ref().unwrap().starts_with("1024 MiB are more than is read here"), "{told:?}");
}

#[test]
fn without_ranks_there_is_nothing_to_wait_for() {
    let mut tree = Tree::of(&[], 4, now_s());
    assert!(matches!(tree.source.poll(&mut Vec::new()), Err(SourceError::Absent(_))));
    // A rank that ends leaves its dump behind.
    let mut tree = Tree::of(&[0], 1, now_s() - 100);
    tree.poll();
    tree.hints.send(Hint::Ranks(Vec::new()));
    fs::write(tree.file(0), dump("hang", 0)).unwrap();
    assert_eq!(tree.polls(3).len(), 1);
    assert!(Path::new(&tree.file(0)).exists());
}

mod place {
    use nccl_top::sources::flight::prefixes;
    #[test]
    fn the_place_is_the_jobs_own_or_that_of_its_version() {
        let of = |raw: &str| -> Vec<String> {
            let all = prefixes(raw.replace(' ', "\0").as_bytes());
            all.into_iter().map(|(p, chosen)| format!("{}{}", String::from_utf8(p).unwrap(), if chosen { "!" } else { "" })).collect()
        };
        assert_eq!(of("TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/d/fr_ HOME=/h"), ["/d/fr_!"]);
        assert_eq!(of("TORCH_NCCL_DEBUG_INFO_TEMP_FILE=/d/fr_ TORCH_FR_DUMP_TEMP_FILE=rel/x"), ["rel/x!"]);
        assert_eq!(of("TORCH_FR_DUMP_TEMP_FILE="), ["/tmp/nccl_trace_rank_"]);
        assert_eq!(
            of("HOME=/h XDG_CACHE_HOME=/c"),
            [
                "/tmp/nccl_trace_rank_",
                "/h/.cache/torch/nccl_trace_rank_",
                "/h/.cache/torch/comm_lib_trace_rank_",
                "/c/torch/comm_lib_trace_rank_"
            ]
        );
    }
}

mod packed {
    use nccl_top::observe::flight::{FlightDump, MAX_BYTES};
    #[test]
    fn a_file_comes_back_as_it_was_and_a_bomb_does_not() {
        let bytes: Vec<u8> = (0..100_000u32).map(|i| (i / 7) as u8).collect();
        let dump = |packed| FlightDump { packed, ..FlightDump::default() };
        assert_eq!(dump(FlightDump::pack(&bytes)).bytes(), Some(bytes));
        assert_eq!(dump(FlightDump::pack(&vec![0; (MAX_BYTES + 1) as usize])).bytes(), None);
        for packed in ["", "====", "Zm9v"] {
            assert_eq!(dump(packed.into()).bytes(), None);
        }
    }
}
