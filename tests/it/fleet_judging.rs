//! What `nccl-top fleet` concludes, from a real Prometheus over known worlds: in each injected fault the right node and rank, in a healthy
//! hour nobody.

use crate::support::fleet_world::{Fault, Job, START, World};
use crate::support::prometheus::{Prometheus, is_installed};
use serde_json::Value;
use std::process::Command;

/// The document and the exit code at a moment of the world.
fn fleet(prometheus: &Prometheus, s: u64) -> (Value, i32) {
    fleet_at(prometheus, (START + s) as f64)
}

/// The same at seconds since 1970.
fn fleet_at(prometheus: &Prometheus, at: f64) -> (Value, i32) {
    let dir = tempfile::tempdir().unwrap();
    let at = at.to_string();
    let out = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
        .args(["fleet", "--json", "--prometheus", &prometheus.url, "--at", &at, "--utc"])
        .env("HOME", dir.path())
        .output()
        .unwrap();
    let code = out.status.code().unwrap();
    let parsed = serde_json::from_slice(&out.stdout);
    (parsed.unwrap_or_else(|_| panic!("{code}: {}", String::from_utf8_lossy(&out.stderr))), code)
}

/// The root findings of a job: rule, ranks, nodes.
fn blamed(document: &Value, job: &str) -> Vec<String> {
    let findings = document["findings"].as_array().unwrap();
    let of_job = findings.iter().filter(|f| f["job"] == job && f["role"] == "root" && f["severity"] != "info");
    of_job.map(|f| format!("{} {} {}", f["rule"].as_str().unwrap(), f["ranks"], f["nodes"])).collect()
}

#[test]
fn thirty_witnesses_are_one_culprit() {
    if !is_installed() {
        return;
    }
    let hang = Job { id: "4417", first_node: 1, nodes: 12, fault: Fault::Hang { rank: 43 }, from_s: 600 };
    let prometheus = Prometheus::of(&World { jobs: vec![hang, Job::healthy("4418", 13, 12)], for_s: 900 });
    let (document, code) = fleet(&prometheus, 880);
    assert_eq!(code, 1, "{document:#}");
    assert_eq!(blamed(&document, "4417"), [r#"hang-rank-absent [43] ["node0006"]"#], "{document:#}");
    assert_eq!(document["findings"][0]["witnesses"].as_array().unwrap().len(), 12);
    assert_eq!(document["jobs"][0]["id"], "4417", "the worst stands first");
    assert_eq!(document["jobs"][0]["state"], "stuck");
    assert_eq!(document["jobs"][0]["since"], "2026-11-21T10:10:00.000+00:00");
    assert_eq!(blamed(&document, "4418"), [""; 0]);
    let (document, code) = fleet(&prometheus, 590);
    assert_eq!((code, document["findings"].as_array().unwrap().len()), (0, 0), "{document:#}");
}

#[test]
fn each_fault_has_its_culprit() {
    if !is_installed() {
        return;
    }
    let job = |id, first_node, nodes, fault| Job { id, first_node, nodes, fault, from_s: 600 };
    let jobs = vec![
        job("dead", 1, 8, Fault::Dead { node: 3 }),
        job("idle", 9, 6, Fault::Idle { rank: 13 }),
        job("behind", 15, 6, Fault::Behind { node: 1 }),
        job("straggler", 21, 6, Fault::Straggler { node: 5 }),
        job("port", 27, 6, Fault::SlowPort { node: 2, port: 4 }),
        job("rail", 33, 6, Fault::SlowRail { port: 6 }),
        job("missing", 39, 4, Fault::Missing { node: 3 }),
        job("version", 43, 4, Fault::OtherVersion { node: 0 }),
    ];
    let prometheus = Prometheus::of(&World { jobs, for_s: 960 });
    let (document, code) = fleet(&prometheus, 930);
    assert_eq!(code, 1);
    for (job, found) in [
        ("dead", r#"silent-node [] ["node0004"]"#),
        ("idle", r#"idle-rank [13] ["node0010"]"#),
        ("behind", r#"node-behind [] ["node0016"]"#),
        ("straggler", r#"straggler-node [] ["node0026"]"#),
        ("port", r#"slow-port [] ["node0029"]"#),
        ("rail", r#"slow-rail [] []"#),
        ("missing", r#"ranks-missing [24,25,26,27,28,29,30,31] []"#),
        ("version", r#"versions-differ [] ["node0043"]"#),
    ] {
        assert_eq!(blamed(&document, job), [found], "{document:#}");
    }
    let of = |job: &str| document["findings"].as_array().unwrap().iter().find(|f| f["job"] == job).unwrap().clone();
    assert_eq!(of("port")["ports"][0], "mlx5_4/1");
    assert_eq!(of("rail")["ports"][0], "mlx5_6/1");
    for s in [480, 590] {
        let (document, _) = fleet(&prometheus, s);
        let early: Vec<String> =
            ["dead", "idle", "behind", "straggler", "port", "rail"].iter().flat_map(|job| blamed(&document, job)).collect();
        assert_eq!(early, [""; 0], "before the fault: {s}");
    }
}

#[test]
fn storage_that_fails_several_jobs_is_one_cause() {
    if !is_installed() {
        return;
    }
    let job = |id, first_node, from_s| Job { id, first_node, nodes: 3, fault: Fault::Storage, from_s };
    let prometheus = Prometheus::of(&World { jobs: vec![job("a", 1, 600), job("b", 4, 630)], for_s: 780 });
    let (document, _) = fleet(&prometheus, 750);
    let common =
        document["findings"].as_array().unwrap().iter().find(|f| f["rule"] == "common-cause").unwrap_or_else(|| panic!("{document:#}"));
    assert_eq!(common["summary"], "storage-hang began on 6 nodes of 2 jobs within 120 s");
}

/// Healthy jobs, one whose first stage computes more by its nature, and one where an exporter stops while the job goes on.
#[test]
fn nobody_is_accused_in_healthy_jobs() {
    if !is_installed() {
        return;
    }
    let jobs = vec![
        Job::healthy("a", 1, 8),
        Job { id: "uneven", first_node: 9, nodes: 8, fault: Fault::UnevenStages, from_s: 0 },
        Job { id: "exporter", first_node: 17, nodes: 4, fault: Fault::ExporterDead { node: 1 }, from_s: 900 },
    ];
    let prometheus = Prometheus::of(&World { jobs, for_s: 2400 });
    for s in (75..2400).step_by(155) {
        let (document, code) = fleet(&prometheus, s);
        assert_eq!((code, document["findings"].as_array().unwrap().len()), (0, 0), "{s}: {document:#}");
    }
    let (document, _) = fleet(&prometheus, 1800);
    assert_eq!(document["nodes"]["silent"][0], "node0018");
    let job = document["jobs"].as_array().unwrap().iter().find(|job| job["id"] == "exporter").unwrap();
    assert_eq!(job["nodes"]["silent"][0], "node0018", "it is shown all the same");
}

/// What the node itself has judged in a recording of a real job is what the fleet's screen says of that moment: the recording's own samples, as
/// blocks of a real Prometheus.
#[test]
fn recordings_are_judged_at_any_moment() {
    if !is_installed() {
        return;
    }
    for (tape, rule, rank) in [("hang", "hang-rank-absent", 3), ("kill", "rank-exited", 3), ("slow", "straggler", 2), ("none", "", 0)] {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tapes").join(tape);
        let dir = tempfile::tempdir().unwrap();
        let text = dir.path().join("run.om");
        let out = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
            .args(["export", "--every", "5s", "--label", "instance=node7", "--label", "job=nccl-top", "--replay"])
            .arg(path.with_extension("jsonl.gz"))
            .arg("--openmetrics-file")
            .arg(&text)
            .env("HOME", dir.path())
            .output()
            .unwrap();
        assert!(out.status.success(), "{tape}: {}", String::from_utf8_lossy(&out.stderr));
        let text = std::fs::read_to_string(text).unwrap();
        let stamps: Vec<f64> =
            text.lines().filter(|line| line.starts_with("up{")).map(|line| line.rsplit(' ').next().unwrap().parse().unwrap()).collect();
        let label: Value = serde_json::from_str(&std::fs::read_to_string(path.with_extension("label.json")).unwrap()).unwrap();
        let prometheus = Prometheus::of_text(&text);
        let last = *stamps.last().unwrap();
        let Some(since_s) = label["since_s"].as_f64() else {
            for at in stamps.iter().skip(1).step_by(3) {
                let (document, code) = fleet_at(&prometheus, *at);
                assert_eq!((code, document["findings"].as_array().unwrap().len()), (0, 0), "{tape}: {document:#}");
            }
            continue;
        };
        let (early, _) = fleet_at(&prometheus, stamps[0] + since_s - 3.0);
        assert_eq!(early["findings"].as_array().unwrap().len(), 0, "{tape}: {early:#}");
        let (late, _) = fleet_at(&prometheus, last);
        let culprit = &late["jobs"][0]["culprit"];
        assert_eq!((culprit["rule"].as_str(), &culprit["ranks"]), (Some(rule), &serde_json::json!([rank])), "{tape}: {late:#}");
        assert_eq!(culprit["nodes"][0], "node7", "{tape}");
        let summary = late["findings"][0]["summary"].as_str().unwrap();
        assert!(summary.starts_with(&format!("rank {rank} ")) && summary.contains(" on node7 "), "{tape}: {summary}");
    }
}

/// Writes a world to look at, or to measure with: `FLEET_WORLD=FILE [FLEET_NODES=1000] cargo test --test it a_world_to_look_at -- --ignored`,
/// then `promtool tsdb create-blocks-from openmetrics FILE DIR`.
#[test]
#[ignore = "writes a file to look at"]
fn a_world_to_look_at() {
    let Ok(path) = std::env::var("FLEET_WORLD") else { return };
    let world = match std::env::var("FLEET_NODES") {
        Ok(nodes) => {
            let each = nodes.parse::<u32>().unwrap() / 16;
            let fault = |no| match no {
                3 => Fault::Hang { rank: 43 },
                5 => Fault::Dead { node: 7 },
                _ => Fault::None,
            };
            let job = |no: u32| Job { id: ID[no as usize], first_node: no * each + 1, nodes: each, fault: fault(no), from_s: 150 };
            World { jobs: (0..16).map(job).collect(), for_s: 300 }
        }
        Err(_) => {
            let job = |id, first_node, nodes, fault| Job { id, first_node, nodes, fault, from_s: 600 };
            let jobs = vec![
                job(ID[0], 1, 16, Fault::Hang { rank: 43 }),
                Job::healthy(ID[1], 17, 12),
                job(ID[2], 29, 8, Fault::Dead { node: 3 }),
                job(ID[3], 37, 8, Fault::Straggler { node: 5 }),
                job(ID[4], 45, 8, Fault::SlowPort { node: 2, port: 4 }),
                job(ID[5], 53, 8, Fault::SlowRail { port: 6 }),
                job(ID[6], 61, 8, Fault::Missing { node: 7 }),
                job(ID[7], 69, 8, Fault::OtherVersion { node: 0 }),
                job(ID[8], 77, 8, Fault::Idle { rank: 13 }),
                job(ID[9], 85, 8, Fault::Behind { node: 1 }),
            ];
            World { jobs, for_s: 1200 }
        }
    };
    std::fs::write(path, world.open_metrics()).unwrap();
}

const ID: [&str; 16] =
    ["4417", "4418", "4419", "4420", "4421", "4422", "4423", "4424", "4425", "4426", "4427", "4428", "4429", "4430", "4431", "4432"];
