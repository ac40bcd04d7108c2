//! What is known of the machine itself: from the sources to what `snapshot` shows.

use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::observe::host::{CgroupMemory, DiskSample, HostSample, Node, Temperature};
use nccl_top::observe::process::{ProcessInfo, ProcessRole};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::output::snapshot;
use nccl_top::sources::procs::Procs;
use nccl_top::sources::{Roots, Source};
use serde_json::{Value, json};
use std::fs;
use std::process::Command;
use std::time::Duration;

const GIB: u64 = 1 << 30;

/// A session that has seen this.
fn session(seen: impl IntoIterator<Item = (&'static str, Body)>) -> Session {
    let mut session = Session::new("node-17", Zone::UTC);
    let at = Stamp(1_795_255_200_000_000_000);
    for (from, body) in seen.into_iter().chain([("feed", Body::Tick)]) {
        session.apply(&Observation { at, host: None, from: SourceId::of(from), body }, &mut Vec::new());
    }
    session
}

fn sample(text: &str) -> Body {
    serde_json::from_str::<Observation>(&format!("{{\"at_ns\":1,\"from\":\"host\",\"kind\":\"host\",{text}}}")).unwrap().body
}

#[test]
fn a_snapshot_shows_machine_memory_disks_and_temperatures() {
    let node = Node {
        os: Some("Ubuntu 24.04".into()),
        kernel: Some("6.8.0".into()),
        cpus: Some(96),
        cpu_model: Some("AMD EPYC \u{1b}[2J9R14".into()),
        booted_at_s: Some(1_795_255_200 - 100_000),
        ..Node::default()
    };
    let disk = DiskSample {
        mount: "/checkpoints".into(),
        total_bytes: 100 * GIB,
        free_bytes: 3 * GIB,
        fs: Some("nfs4".into()),
        read_only: Some(false),
        inodes_total: Some(1000),
        inodes_free: Some(3),
        ..DiskSample::default()
    };
    let hot = Temperature { sensor: "coretemp Core".into(), celsius: 64.5, critical_c: Some(100.0), sensors: 96 };
    let host = HostSample {
        mem_total_bytes: Some(64 * GIB),
        mem_available_bytes: Some(16 * GIB),
        swap_total_bytes: Some(0),
        swap_free_bytes: Some(0),
        disks: vec![disk],
        temperatures: vec![hot],
        ..HostSample::default()
    };
    let rank = ProcessInfo { pid: 7, role: ProcessRole::Rank, cgroup: Some("/slurm/job_7".into()), ..ProcessInfo::default() };
    let group = CgroupMemory {
        cgroup: "/slurm/job_7".into(),
        limited_by: Some("/slurm".into()),
        limit_bytes: Some(32 * GIB),
        used_bytes: Some(30 * GIB),
        cache_bytes: Some(2 * GIB),
        ..CgroupMemory::default()
    };
    let session = session([
        ("host", Body::Node(node)),
        ("host", Body::Cgroups { cgroups: vec![group.clone()] }),
        ("procs", Body::Process(rank)),
        ("procs", Body::Cgroups { cgroups: vec![group] }),
        ("host", Body::Host(host)),
        // What changes slowly is not looked at each time, and stays known.
        ("host", Body::Host(HostSample { mem_total_bytes: Some(64 * GIB), mem_available_bytes: Some(8 * GIB), ..HostSample::default() })),
    ]);
    let shown = snapshot::json(&session, Zone::UTC);
    assert_eq!(shown["machine"]["os"], "Ubuntu 24.04");
    assert_eq!((&shown["machine"]["uptime_s"], &shown["machine"]["vendor"]), (&json!(100_000), &Value::Null));
    assert_eq!(shown["memory"]["available_bytes"], 8 * GIB);
    assert_eq!(shown["memory"]["swap_total_bytes"], Value::Null, "the last sample had none");
    let groups = shown["memory"]["cgroups"].as_array().unwrap();
    assert_eq!(groups.len(), 1, "whoever looked: {groups:?}");
    assert_eq!(
        (&groups[0]["jobs"], &groups[0]["limit_bytes"], &groups[0]["swap_limit_bytes"]),
        (&json!(["7"]), &json!(32 * GIB), &Value::Null)
    );
    assert_eq!(shown["disks"][0]["available_bytes"], 3 * GIB);
    assert_eq!(shown["temperatures"][0], json!({ "sensor": "coretemp Core", "celsius": 64.5, "critical_celsius": 100.0, "sensors": 96 }));

    let text = snapshot::text(&session, Zone::UTC, nccl_top::tui::panes::as_text(&session));
    for line in [
        "Machine",
        "   Ubuntu 24.04, kernel 6.8.0, 96 CPUs (AMD EPYC 9R14), up 1 d 03 h",
        "   memory: 8.0 of 64.0 GiB available",
        "   control group /slurm/job_7 (job 7): 30.0 of 32.0 GiB used, 2.0 of them for cached files in /slurm",
        "   /checkpoints (nfs4): 3.0 of 100.0 GiB free, room for 3 files",
        "   coretemp Core: 64 °C, the hottest of 96, critical at 100 °C",
    ] {
        assert!(text.lines().any(|l| l == line), "{line:?} is not in\n{text}");
    }
    assert!(!format!("{text}{shown}").contains('\u{1b}'));
}

#[test]
fn recordings_of_before_say_nothing_of_what_was_not_known() {
    let before = sample(r#""mem_total_bytes":5,"mem_available_bytes":4,"disks":[{"mount":"/","total_bytes":2,"free_bytes":1}]"#);
    let session = session([("host", before)]);
    let shown = snapshot::json(&session, Zone::UTC);
    assert_eq!((&shown["disks"], &shown["temperatures"]), (&json!([]), &json!([])), "/ is not all disks");
    assert_eq!((&shown["memory"]["total_bytes"], &shown["memory"]["swap_free_bytes"]), (&json!(5), &Value::Null));
    assert_eq!(shown["machine"]["os"], Value::Null);
    assert!(!snapshot::text(&self::session([]), Zone::UTC, nccl_top::tui::panes::as_text(&self::session([]))).contains("Machine"));
}

#[test]
fn the_memory_of_a_jobs_control_group_is_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = dir.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("sys/fs/cgroup/cgroup.controllers", "memory\n");
    write("sys/fs/cgroup/job/memory.max", "4096\n");
    write("sys/fs/cgroup/job/memory.current", "1024\n");
    for (pid, ppid, name, env) in [(1, 0, "systemd", ""), (47, 1, "python3", "RANK=0\0LOCAL_RANK=0\0WORLD_SIZE=1\0LOCAL_WORLD_SIZE=1\0")] {
        let head = format!("{pid} ({name}) S {ppid} {pid} {pid} 0 -1 4194304 1 0 0 0 300 50 0 0 20 0 1 0 9 1000 500");
        write(&format!("proc/{pid}/stat"), &format!("{head}{} 0\n", " 0".repeat(27)));
        write(&format!("proc/{pid}/cmdline"), &format!("{name}\0train.py\0"));
        write(&format!("proc/{pid}/environ"), env);
        write(&format!("proc/{pid}/status"), &format!("Name:\t{name}\nUid:\t0\t0\t0\t0\nNSpid:\t{pid}\nVmRSS:\t 64 kB\n"));
        write(&format!("proc/{pid}/cgroup"), "0::/job\n");
        fs::create_dir_all(dir.path().join(format!("proc/{pid}/fd"))).unwrap();
    }
    let mut procs = Procs::new(Roots::below(dir.path()), Duration::from_secs(3), None);
    let mut looks = Vec::new();
    for _ in 0..11 {
        let mut out = Vec::new();
        procs.poll(&mut out).unwrap();
        looks.push(out.iter().any(|body| match body {
            Body::Cgroups { cgroups } => {
                assert_eq!((cgroups[0].cgroup.as_str(), cgroups[0].limit_bytes, cgroups[0].used_bytes), ("/job", Some(4096), Some(1024)));
                true
            }
            _ => false,
        }));
    }
    let at: Vec<usize> = (0..looks.len()).filter(|n| looks[*n]).collect();
    assert_eq!(at, [0, 5, 10], "every fifteen seconds");
}

#[test]
fn this_machine_is_shown() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_nccl-top"));
    let out = command.args(["snapshot", "--json", "--wait", "3s"]).current_dir(dir.path()).env("HOME", dir.path()).output().unwrap();
    let shown: Value = serde_json::from_slice(&out.stdout).unwrap();
    assert!(shown["machine"]["uptime_s"].is_u64() && shown["machine"]["cpus"].is_u64(), "{:#}", shown["machine"]);
    let number = |at: &str| shown.pointer(at).and_then(Value::as_u64).unwrap_or_else(|| panic!("{at} of {shown:#}"));
    assert!(number("/memory/total_bytes") > number("/memory/available_bytes") && number("/memory/available_bytes") > 0);
    assert!(number("/memory/swap_total_bytes") >= number("/memory/swap_free_bytes"));
    let disks = shown["disks"].as_array().unwrap();
    let root = disks.iter().find(|disk| disk["mount"] == "/").unwrap_or_else(|| panic!("{disks:?}"));
    assert!(
        root["fs"].is_string() && root["read_only"].is_boolean() && root["total_bytes"].as_u64() >= root["available_bytes"].as_u64(),
        "{root}"
    );
}
