//! Faults of the machine the whole way: from a kernel's log in a tree, through the real source, to findings; and from a recording again.

use nccl_top::base::severity::Severity;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::gpu::{GpuEvent, GpuInfo, GpuProcess, GpuProcesses};
use nccl_top::observe::log::KernelLine;
use nccl_top::observe::process::{ProcessInfo, ProcessRole};
use nccl_top::observe::{Body, Observation, SourceId, SourceReport, SourceState};
use nccl_top::recording::tape::{Header, Reader, Writer};
use nccl_top::rules::findings::Change;
use nccl_top::sources::kmsg::Kmsg;
use nccl_top::sources::{Roots, Source};
use std::fs::File;
use std::io::Write;
use std::path::Path;
use std::time::Duration;

const XID_79: &str = "NVRM: Xid (PCI:0000:3b:00): 79, pid=2201, name=python3, GPU has fallen off the bus.";

struct Node {
    dir: tempfile::TempDir,
    kmsg: Kmsg,
    session: Session,
    seen: Vec<Observation>,
    events: Vec<Event>,
    second: i64,
}

impl Node {
    /// Two GPUs and a rank on each; the job began 1000 s after boot, and it is 2000 s after boot.
    fn new() -> Node {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(dir.path().join("dev")).unwrap();
        std::fs::create_dir_all(dir.path().join("proc")).unwrap();
        std::fs::write(dir.path().join("proc/uptime"), "2000.00 1.00\n").unwrap();
        let kmsg = Kmsg::new(Roots::below(dir.path()), Duration::from_secs(1));
        let (session, seen, events) = (Session::new("node", Zone::UTC), Vec::new(), Vec::new());
        let mut node = Node { dir, kmsg, session, seen, events, second: 1_795_000_000 };
        for id in ["nvml", "procs"] {
            node.sees(id, Body::Source(SourceReport { state: SourceState::Ok, detail: None, title: None }));
        }
        for (index, bus) in [(0, "0000:18:00.0"), (1, "0000:3b:00.0")] {
            let pid = 2200 + index;
            node.sees("nvml", Body::GpuInfo(GpuInfo { index, bus_id: Some(bus.into()), ..Default::default() }));
            let env = [("RANK", index), ("WORLD_SIZE", 2)].map(|(k, v)| (k.to_owned(), v.to_string()));
            node.sees(
                "procs",
                Body::Process(ProcessInfo {
                    pid,
                    ppid: 2100,
                    start_ticks: 100_000,
                    role: ProcessRole::Rank,
                    comm: "python3".into(),
                    env: Some(env.into_iter().collect()),
                    ..Default::default()
                }),
            );
            let processes = vec![GpuProcess { pid, mem_bytes: Some(1 << 30) }];
            node.sees("nvml", Body::GpuProcesses { gpus: vec![GpuProcesses { index, processes }] });
        }
        node
    }

    fn sees(&mut self, from: &'static str, body: Body) {
        let seen = Observation { at: Stamp(self.second * 1_000_000_000), host: None, from: SourceId::of(from), body };
        let mut out = Vec::new();
        self.session.apply(&seen, &mut out);
        self.events.extend(out.into_iter().map(|(_, event)| event));
        self.seen.push(seen);
    }

    /// The source is asked as the feed asks it, and a second passes.
    fn polls(&mut self) {
        let mut out = Vec::new();
        let report = match self.kmsg.poll(&mut out) {
            Ok(()) => self.kmsg.remark().map_or((SourceState::Ok, None), |(state, text)| (state, Some(text))),
            Err(err) => (err.state(), Some(err.to_string())),
        };
        out.into_iter().for_each(|body| self.sees("kmsg", body));
        self.sees("kmsg", Body::Source(SourceReport { state: report.0, detail: report.1, title: None }));
        self.second += 1;
        self.sees("feed", Body::Tick);
    }

    fn device(&self) -> File {
        let path = self.dir.path().join("dev/kmsg");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        File::options().read(true).write(true).open(path).unwrap()
    }

    fn lines(&self) -> Vec<String> {
        lines(&self.session)
    }
}

fn lines(session: &Session) -> Vec<String> {
    let open = session.ledger.open();
    let told = open.iter().filter(|f| f.rule != "source-trouble");
    told.map(|f| format!("{} {} {:?} x{}: {}", f.rule, f.severity.as_str(), f.ranks, f.count, f.summary)).collect()
}

#[test]
fn a_record_of_the_device_becomes_a_finding_of_the_rank_and_a_recording_tells_the_same() {
    let mut node = Node::new();
    let mut device = node.device();
    (0..4).for_each(|_| node.polls());
    device.write_all(format!("3,901,2000100000,-;{XID_79}\n SUBSYSTEM=pci\n DEVICE=+pci:0000:3b:00.0\n").as_bytes()).unwrap();
    node.polls();
    let event = GpuEvent { index: Some(1), event_bits: 0x8, data: 79, mig_instance: None };
    node.sees("events", Body::GpuEvents { events: vec![event] });
    (0..4).for_each(|_| node.polls());
    let told = ["gpu-lost critical [1] x1: GPU 1 (0000:3b:00.0), rank 1: Xid 79, pid=2201, name=python3, GPU has fallen off the bus."];
    assert_eq!(node.lines(), told);
    assert_eq!(node.session.state(), (State::Failed, node.session.ledger.open()[0].summary.clone()));
    let opened = node.events.iter().filter(|e| matches!(e, Event::Finding(Change::Opened(f)) if f.severity == Severity::Critical));
    assert_eq!(opened.count(), 1);

    let path = node.dir.path().join("t.jsonl.gz");
    let header = Header {
        tape: "nccl-top".into(),
        version: 1,
        program: String::new(),
        host: "node".into(),
        zone_offset_s: 0,
        boot_id: None,
        interval_ms: 1000,
        started_ns: node.seen[0].at,
    };
    let mut writer = Writer::create(&path, &header).unwrap();
    node.seen.iter().for_each(|seen| writer.write(seen).unwrap());
    writer.finish().unwrap();
    assert_eq!(lines(&replayed(&path)), told);
}

fn replayed(path: &Path) -> Session {
    let mut reader = Reader::open(path).unwrap();
    let mut session = reader.header().session();
    while let Some(seen) = reader.read().unwrap() {
        session.apply(&seen, &mut Vec::new());
    }
    session
}

#[test]
fn what_the_buffer_held_from_before_the_job_is_only_information() {
    let mut node = Node::new();
    let mut device = node.device();
    device.write_all(format!("3,17,900000000,-;{XID_79}\n").as_bytes()).unwrap();
    (0..5).for_each(|_| node.polls());
    let lines = node.lines();
    assert_eq!(lines.len(), 1, "{lines:?}");
    assert!(lines[0].starts_with("gpu-lost info [] x1: ") && lines[0].ends_with("(before this job)"), "{lines:?}");
    assert_ne!(node.session.state().0, State::Failed);
    let why = &node.session.ledger.open()[0].why;
    assert!(why.starts_with("18 m 20 s before nccl-top saw it"), "{why}");
}

#[test]
fn a_log_that_may_not_be_read_is_a_state_of_its_source_and_nothing_else() {
    let mut node = Node::new();
    // Root may read everything; a directory nobody can.
    std::fs::create_dir(node.dir.path().join("dev/kmsg")).unwrap();
    (0..6).for_each(|_| node.polls());
    let view = &node.session.model.sources[&SourceId::of("kmsg")];
    assert!(view.state != SourceState::Ok && view.detail.as_ref().is_some_and(|d| d.contains("/dev/kmsg")), "{view:?}");
    node.sees(
        "kmsg",
        Body::Source(SourceReport { state: SourceState::Denied, detail: Some("kernel log: /dev/kmsg: no".into()), title: None }),
    );
    let event = GpuEvent { index: Some(1), event_bits: 0x8, data: 48, mig_instance: None };
    node.sees("events", Body::GpuEvents { events: vec![event] });
    node.polls();
    assert_eq!(node.lines(), ["gpu-ecc error [1] x1: GPU 1 (0000:3b:00.0), rank 1: Xid 48"]);
    assert!(node.session.ledger.open().iter().any(|f| f.rule == "source-trouble" && f.subject == "kmsg"));
}

#[test]
fn older_and_newer_recordings_are_read() {
    let old = r#"{"at_ns":1,"from":"kmsg","kind":"kernel","lines":[{"level":3,"uptime_us":5,"text":"NVRM: x"}]}"#;
    let seen = nccl_top::recording::tape::read_observation(old.as_bytes()).unwrap();
    assert!(matches!(&seen.body, Body::Kernel { lines, uptime_us: None } if lines.len() == 1));
    assert_eq!(serde_json::to_string(&seen).unwrap(), old);
    let event = r#"{"at_ns":1,"from":"events","kind":"gpu_events","events":[{"index":3,"event_bits":8,"data":79}]}"#;
    let seen = nccl_top::recording::tape::read_observation(event.as_bytes()).unwrap();
    assert_eq!(serde_json::to_string(&seen).unwrap(), event);
    let later = r#"{"at_ns":1,"from":"events","kind":"gpu_events","events":[{"event_bits":65536,"data":1,"what":"new"}],"more":1}"#;
    assert!(matches!(nccl_top::recording::tape::read_observation(later.as_bytes()).unwrap().body, Body::GpuEvents { .. }));
}

#[test]
fn hostile_records_do_no_harm() {
    let mut node = Node::new();
    let mut device = node.device();
    (0..4).for_each(|_| node.polls());
    let huge = "A".repeat(7000);
    for text in [
        b"3,1,2000000000,-;NVRM: Xid (PCI:0000:3b:00): 31, \x1b]0;pwned\x07\x1b[31mred\xff\xfe\n".to_vec(),
        format!("3,2,2000000000,-;NVRM: Xid (PCI:{huge}): 31, {huge}\n").into_bytes(),
        b"3,3,18446744073709551615,-;NVRM: Xid (PCI:ffffffff:ff:ff): 4294967296, \n".to_vec(),
        b"3,4,2000000000,-;Out of memory: Killed process 99999999999999999999 (\x1b[2J) total\n".to_vec(),
    ] {
        device.write_all(&text).unwrap();
        node.polls();
    }
    let shown: Vec<String> = node
        .session
        .ledger
        .open()
        .iter()
        .flat_map(|f| {
            let proofs = f.evidence.iter().map(|e| e.text.clone());
            proofs.chain([f.summary.clone(), f.why.clone(), f.subject.clone()]).collect::<Vec<_>>()
        })
        .collect();
    assert!(shown.iter().all(|t| t.len() < 1200 && !t.contains('\u{1b}') && !t.contains('\u{7}')), "{shown:?}");
    assert_eq!(node.lines()[0], "gpu-xid error [1] x1: GPU 1 (0000:3b:00.0), rank 1: Xid 31, red\u{fffd}\u{fffd}");
}

/// A healthy job on 4 GPUs as it was recorded, with what `with` adds after 40 s.
fn recorded(with: impl Fn(&Observation) -> Vec<(&'static str, Body)>) -> (Session, Vec<(f64, Event)>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tapes/none.jsonl.gz");
    let mut reader = Reader::open(&path).unwrap();
    let mut session = reader.header().session();
    let (mut out, mut began, mut added) = (Vec::new(), None, false);
    while let Some(mut seen) = reader.read().unwrap() {
        let start = *began.get_or_insert(seen.at);
        let late = seen.at.secs_since(start) >= 40.0;
        if late && let Body::GpuHealth { gpus } = &mut seen.body {
            for health in gpus.iter_mut().filter(|h| h.index == 2) {
                health.nvlink_states[7] = Some(0);
            }
        }
        session.apply(&seen, &mut out);
        if late && !added {
            added = true;
            for (from, body) in with(&seen) {
                session.apply(&Observation { at: seen.at, host: None, from: SourceId::of(from), body }, &mut out);
            }
        }
        if seen.at.secs_since(start) > 70.0 {
            break;
        }
    }
    let start = began.unwrap();
    (session, out.into_iter().map(|(at, e)| (at.secs_since(start), e)).collect())
}

fn kernel(text: &str) -> Vec<(&'static str, Body)> {
    let line = KernelLine { level: 3, uptime_us: None, text: text.into(), backlog: false };
    vec![("kmsg", Body::Kernel { lines: vec![line], uptime_us: None })]
}

#[test]
fn a_recorded_job_goes_on_beside_a_link_that_failed() {
    let (session, events) =
        recorded(|_| kernel("NVRM: Xid (PCI:0000:00:08): 74, pid=853, name=pt_main_thread, NVLink: fatal error on link 7"));
    let opened: Vec<_> = events
        .iter()
        .filter_map(|(t, e)| match e {
            Event::Finding(Change::Opened(f)) if f.severity >= Severity::Warning => Some((*t, f.rule, f.clone())),
            _ => None,
        })
        .collect();
    assert_eq!(opened.len(), 1, "{opened:?}");
    let (t, rule, found) = &opened[0];
    assert!((40.0..42.5).contains(t), "{t}");
    assert_eq!((*rule, found.gpus.as_slice(), found.ranks.as_slice()), ("nvlink-down", &[2][..], &[2][..]));
    assert!(found.job.is_some() && found.summary.starts_with("GPU 2 (0000:00:08.0), rank 2: Xid 74"), "{}", found.summary);
    let open = session.ledger.open().into_iter().find(|f| f.rule == "nvlink-down").unwrap();
    assert!(open.evidence.iter().any(|e| e.kind == "counter" && e.text.contains("link 7")), "{:?}", open.evidence);
    let failed = events.iter().filter(|(_, e)| matches!(e, Event::State { state: State::Failed | State::Stuck, .. }));
    assert_eq!(failed.count(), 0, "it trains on");
}

#[test]
fn a_recorded_job_has_failed_at_once_when_a_gpu_is_lost() {
    let (_, events) = recorded(|_| kernel("NVRM: Xid (PCI:0000:00:09): 79, pid=854, name=pt_main_thread, GPU has fallen off the bus."));
    let failed = events.iter().find_map(|(t, e)| match e {
        Event::State { state: State::Failed, summary, .. } => Some((*t, summary.clone())),
        _ => None,
    });
    let (t, summary) = failed.expect("it has failed");
    assert!((40.0..42.5).contains(&t) && summary.starts_with("GPU 3 (0000:00:09.0), rank 3: Xid 79"), "{t} {summary}");
}
