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

mod debug_server {
    use super::{Node, dump};
    use flate2::read::GzDecoder;
    use nccl_top::formats::debug_server::answers;
    use nccl_top::observe::flight::FlightDump;
    use nccl_top::observe::process::ProcessSample;
    use nccl_top::observe::{Body, SourceState};
    use nccl_top::sources::debug_server::DebugServer;
    use nccl_top::sources::{Hint, Hints, Roots, Source, SourceError};
    use std::fs;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::os::unix::fs::symlink;
    use std::path::Path;
    use std::sync::{Arc, Mutex};
    use std::time::Duration;

    fn page(name: &str) -> String {
        let path = format!("{}/tests/fixtures/flight-pages/{name}.html.gz", env!("CARGO_MANIFEST_DIR"));
        let mut text = String::new();
        GzDecoder::new(fs::File::open(path).unwrap()).read_to_string(&mut text).unwrap();
        text
    }

    type Pages = Arc<Mutex<Vec<(&'static str, String)>>>;

    /// Serves pages by their path, as Python's `http.server` does. Returns the port.
    fn serve(pages: &Pages) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (port, pages) = (listener.local_addr().unwrap().port(), pages.clone());
        std::thread::spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let mut asked = [0; 512];
                let n = stream.read(&mut asked).unwrap_or(0);
                let asked = String::from_utf8_lossy(&asked[..n]).into_owned();
                let pages = pages.lock().unwrap();
                let found = pages.iter().find(|(path, _)| asked.starts_with(&format!("GET {path} HTTP")));
                let (status, text) = found.map_or(("404 Handler not found", ""), |(_, text)| ("200 OK", text));
                let _ = write!(stream, "HTTP/1.0 {status}\r\nContent-type: text/html\r\n\r\n{text}");
            }
        });
        port
    }

    /// Ranks 101 and 102, and a child of the first; `holder` has the listening socket.
    fn tree(dir: &Path, port: u16, holder: u32) {
        for (pid, parent, rank) in [(101, 100, "0"), (102, 100, "1"), (150, 101, "0")] {
            let proc = dir.join(format!("proc/{pid}"));
            fs::create_dir_all(proc.join("net")).unwrap();
            fs::create_dir_all(proc.join("ns")).unwrap();
            fs::create_dir_all(proc.join("fd")).unwrap();
            fs::write(proc.join("environ"), format!("RANK={rank}\0WORLD_SIZE=2\0")).unwrap();
            let rest = "0 ".repeat(17);
            fs::write(proc.join("stat"), format!("{pid} (python) S {parent} {rest}{pid} 0 0\n")).unwrap();
            symlink("net:[4026531840]", proc.join("ns/net")).unwrap();
            let row =
                format!("   0: {:032X}:{port:04X} {:032X}:0000 0A 00000000:00000000 00:00000000 00000000     0        0 777 1 0\n", 0, 0);
            fs::write(proc.join("net/tcp6"), format!("  sl  local_address rem_address st\n{row}")).unwrap();
            if pid == holder {
                symlink("socket:[777]", proc.join("fd/5")).unwrap();
            }
        }
        fs::create_dir_all(dir.join("proc/self/ns")).unwrap();
        symlink("net:[4026531840]", dir.join("proc/self/ns/net")).unwrap();
    }

    fn source(dir: &Path, port: u16) -> DebugServer {
        let (hints, inbox) = Hints::line();
        hints.send(Hint::Ranks(vec![(101, 101), (102, 102)]));
        DebugServer::new(Roots::below(dir), port, Duration::ZERO, Some(inbox))
    }

    fn poll(source: &mut DebugServer) -> Vec<Body> {
        let mut out = Vec::new();
        source.poll(&mut out).unwrap();
        out
    }

    /// Real pages: see `tests/fixtures/flight-pages`.
    #[test]
    fn what_stands_still_on_the_page_of_a_jobs_own_server_names_the_absent_rank() {
        let pages = Pages::new(Mutex::new(vec![("/fr_trace_nccl_json", page("nccl-none")), ("/fr_trace_json", page("gloo"))]));
        let dir = tempfile::tempdir().unwrap();
        let port = serve(&pages);
        tree(dir.path(), port, 150);
        let mut source = source(dir.path(), port);
        assert_eq!(poll(&mut source), [], "whether anything moves is not known yet");
        let told = poll(&mut source);
        let mut node = Node::of(2);
        // When the page was read: rank 0 waits since 16:31:09 UTC.
        node.now_s = 1_795_365_069 + 120;
        let whose: Vec<_> =
            told.iter().map(|body| if let Body::FlightDump(dump) = body { (dump.rank, dump.pid) } else { (9, 9) }).collect();
        assert_eq!(whose, [(0, 101), (1, 102)]);
        for body in told {
            node.sees("debug", body);
        }
        node.after(1);
        assert!(node.open().iter().any(|(rule, _, ranks)| (*rule, ranks.as_slice()) == ("hang-rank-absent", &[1])), "{:?}", node.open());
        assert_eq!(poll(&mut source), [], "the same is passed on once");
        assert_eq!(source.remark().unwrap().0, SourceState::Ok);

        // It goes on: what was passed on is replaced once.
        pages.lock().unwrap()[1].1 = page("gloo").replace("\"last_enqueued_collective\": \"10\"", "\"last_enqueued_collective\": \"11\"");
        assert_eq!(poll(&mut source).len(), 2);
        pages.lock().unwrap()[1].1 = page("gloo");
        assert_eq!(poll(&mut source), []);
        pages.lock().unwrap().clear();
        assert_eq!(poll(&mut source), []);
        assert_eq!(source.remark().unwrap().0, SourceState::Slow, "{:?}", source.remark());
    }

    /// Of the real pages, too: rank 1 writes much, and rank 0 waits for it.
    #[test]
    fn a_rank_that_saves_is_not_accused_by_what_the_server_shows() {
        let accused = |writes: u64| {
            let mut node = Node::of(2);
            node.now_s = 1_795_365_069 + 120;
            for second in 0..15 {
                let io = |pid, bytes| ProcessSample {
                    pid,
                    state: Some('S'),
                    rchar_bytes: Some(0),
                    wchar_bytes: Some(bytes),
                    ..Default::default()
                };
                node.sees("procs", Body::Processes { processes: vec![io(101, 0), io(102, second * writes)] }).after(1);
            }
            for (rank, json) in answers(&page("gloo")) {
                let packed = FlightDump::pack(json.as_bytes());
                node.sees(
                    "debug",
                    Body::FlightDump(FlightDump { rank, pid: 101 + rank, path: rank.to_string(), packed, ..FlightDump::default() }),
                );
            }
            node.after(1);
            node.open().iter().any(|(rule, ..)| *rule == "hang-rank-absent")
        };
        assert_eq!([0, 100 << 20].map(accused), [true, false]);
    }

    /// Constructed: see `tests/fixtures/flight-pages`.
    #[test]
    fn calls_of_nccl_that_have_not_ended_are_enough() {
        let text = page("nccl-hang");
        let found = answers(&text);
        assert_eq!(found.iter().map(|(rank, _)| *rank).collect::<Vec<_>>(), (0..8).collect::<Vec<_>>());
        let read = |bytes: &[u8]| nccl_top::formats::flight_recorder::read(bytes).unwrap();
        let of_page = found.iter().map(|(rank, json)| (*rank, read(json.as_bytes()))).collect();
        let of_files = (0..8).map(|rank| (rank, read(&dump("hang", rank)))).collect();
        let judged = |dumps| nccl_top::formats::flight_recorder::judge(dumps).findings.remove(0);
        let (page, files) = (judged(&of_page), judged(&of_files));
        assert_eq!((page.summary(), page.ranks), (files.summary(), files.ranks));
    }

    #[test]
    fn a_rank_that_failed_and_hostile_texts_are_left_out() {
        let text = "<h2>Rank 0: http://a/</h2><p>Failed to fetch: status=503</p><pre>{\"version\": \"2.10\"}</pre>\
                    <h2>Rank 1: http://a/</h2><pre>{\"entries\": [{\"profiling_name\": \"</pre><h2>Rank 7: x</h2><pre>{}\"}]}</pre>\
                    <h2>Rank 2: http://a/</h2><pre>{\"entries\": [</pre><h2>Rank x: y</h2><pre>{}</pre><h2>Rank 3";
        assert_eq!(answers(text), [(1, "{\"entries\": [{\"profiling_name\": \"</pre><h2>Rank 7: x</h2><pre>{}\"}]}")]);
    }

    /// A page may be as large as 64 MiB. What looks for the text of each head anew does not come to its end here.
    #[test]
    fn heads_without_a_text_are_passed_over_at_once() {
        let text = format!("{}{}", "<h2>Rank ".repeat(1 << 19), "<pre>{}</pre><h2>Rank 1: x</h2><pre>{}</pre>");
        assert_eq!(answers(&text), [(1, "{}")]);
    }

    /// What a rank itself listens at is NCCL's, Gloo's or the store's.
    #[test]
    fn ports_of_the_ranks_themselves_are_not_touched() {
        let pages = Pages::default();
        let port = serve(&pages);
        for holder in [101, 102, 9] {
            let dir = tempfile::tempdir().unwrap();
            tree(dir.path(), port, holder);
            let mut out = Vec::new();
            assert!(matches!(source(dir.path(), port).poll(&mut out), Err(SourceError::Absent(_))), "{holder}");
        }
    }
}
