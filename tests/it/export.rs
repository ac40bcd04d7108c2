//! Metrics: the table, what is read from sessions, both formats, recordings as samples with time stamps, and the id that all nodes share.

use crate::support::worlds::{elsewhere, ras_json};
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::Session;
use nccl_top::export::history::History;
use nccl_top::export::metrics::{self, Kind, METRICS};
use nccl_top::export::own::Own;
use nccl_top::export::text::{self, Format};
use nccl_top::model::identity;
use nccl_top::observe::process::{Pod, ProcessGone, ProcessInfo, ProcessRole};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::demo::DEMOS;
use nccl_top::recording::tape::Reader;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

fn demo(name: &str) -> Session {
    let mut reader = DEMOS.iter().find(|demo| demo.name == name).unwrap().open().unwrap();
    let (mut session, mut events) = (reader.header().session(), Vec::new());
    while let Some(seen) = reader.read().unwrap() {
        session.apply(&seen, &mut events);
    }
    session
}

fn tape(name: &str) -> Session {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/tapes/{name}.jsonl.gz"));
    let mut reader = Reader::open(&path).unwrap();
    let (mut session, mut events) = (reader.header().session(), Vec::new());
    while let Some(seen) = reader.read().unwrap() {
        session.apply(&seen, &mut events);
    }
    session
}

fn page(session: &Session, format: Format) -> String {
    text::write(&metrics::read(session, &Own::unknown()), format)
}

/// The samples of a page by what stands before their values.
fn samples(session: &Session) -> BTreeMap<String, f64> {
    let page = page(session, Format::Classic);
    let lines = page.lines().filter(|line| !line.starts_with('#')).map(|line| line.rsplit_once(' ').unwrap());
    lines.map(|(series, value)| (series.to_owned(), value.parse().unwrap())).collect()
}

/// The tool, where it is installed, with this input; `None` where it is not.
fn promtool(args: &[&str], input: &str) -> Option<(bool, String)> {
    let command = Command::new("promtool").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = command.ok()?;
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let out = child.wait_with_output().unwrap();
    Some((out.status.success(), String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned()))
}

#[test]
fn the_table_keeps_to_the_conventions() {
    let names: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    assert_eq!(names.len(), METRICS.len());
    for metric in METRICS {
        let name = metric.name;
        assert!(name.starts_with("nccltop_") || name.starts_with("process_"), "{name}");
        assert_eq!(name.ends_with("_total"), metric.kind == Kind::Counter, "{name}");
        assert!(metric.help.ends_with('.') && !metric.help.contains(['\n', '\\']), "{name}");
        for label in metric.labels {
            // Prometheus has its own.
            assert!(!matches!(*label, "job" | "instance" | "le" | "quantile"), "{name}: {label}");
        }
    }
}

#[test]
fn the_documentation_has_every_metric_with_its_labels() {
    let doc = include_str!("../../docs/EXPORT.md");
    let rows = METRICS.iter().map(|metric| {
        let kind = if metric.kind == Kind::Counter { "counter" } else { "gauge" };
        let labels = metric.labels.iter().map(|label| format!("`{label}`")).collect::<Vec<_>>().join(", ");
        format!("| `{}` | {kind} | {labels} | {} |", metric.name, metric.help)
    });
    let missing: Vec<String> = rows.filter(|row| !doc.contains(row.as_str())).collect();
    assert!(missing.is_empty(), "docs/EXPORT.md lacks these rows, or has others:\n{}", missing.join("\n"));
}

#[test]
fn promtool_has_nothing_to_say() {
    for name in ["hang", "efa", "roce-rail", "xid", "none"] {
        let Some((ok, said)) = promtool(&["check", "metrics"], &page(&demo(name), Format::Classic)) else { return };
        assert!(ok && said.is_empty(), "{name}: {said}");
    }
}

#[test]
fn a_hang_names_its_rank_and_what_the_others_do() {
    let session = tape("hang");
    let samples = samples(&session);
    let job = identity::of(&session.model, session.model.jobs.values().next().unwrap()).id;
    let of = |name: &str, rest: &str| samples.get(&format!("{name}{{job_id=\"{job}\"{rest}}}")).copied();
    let finding = ",rule=\"hang-rank-absent\",severity=\"critical\",role=\"root\",rank=\"3\",gpu=\"3\"";
    assert_eq!(of("nccltop_finding_open", finding), Some(1.0));
    assert_eq!(of("nccltop_job_state", ",state=\"stuck\""), Some(1.0));
    assert_eq!(samples.keys().filter(|series| series.starts_with("nccltop_job_state{")).count(), 9);
    let spent = |rank: u32, what: &str| {
        of("nccltop_rank_activity_seconds_total", &format!(",rank=\"{rank}\",gpu=\"{rank}\",activity=\"{what}\"")).unwrap()
    };
    assert!(spent(0, "waiting") > 20.0 && spent(3, "waiting") == 0.0);
    assert!(spent(3, "idle") > spent(0, "idle") + 20.0);
    // Three of four wait, all the time.
    let (least, most) = (of("nccltop_job_waiting_least_ratio", "").unwrap(), of("nccltop_job_waiting_most_ratio", "").unwrap());
    assert!((least - 0.75).abs() < 0.01 && (most - 0.75).abs() < 0.01, "{least} {most}");
    let watched = session.model.now.since(session.model.started.unwrap()).as_secs_f64();
    let all: f64 = ["working", "waiting", "idle", "other"].iter().map(|what| spent(3, what)).sum();
    assert!(all <= watched && all > watched * 0.9, "{all} s of {watched} s");
    let (min, max) = (",comm=\"8228c677d3d1a93d\"", ",comm=\"8228c677d3d1a93d\"");
    assert!(of("nccltop_comm_operations_min", min) < of("nccltop_comm_operations_max", max));
    assert!(of("nccltop_comm_still_seconds", min) > Some(20.0));
    assert!(!samples.contains_key("nccltop_export_truncated"));
}

#[test]
fn a_culprit_on_another_node_comes_with_its_address() {
    let (session, _) = elsewhere(40, |launched| ras_json(16, |rank| Some(if rank == 5 { launched - 12 } else { launched })));
    let samples = samples(&session);
    let series = samples.keys().find(|series| series.contains("hang-rank-absent") && series.starts_with("nccltop_finding_open")).unwrap();
    assert!(series.contains("rank=\"5\",node=\"10.0.0.1\"}"), "{series}");
    // Counts of this node's ranks only: the one that is behind is not among them.
    let at = |name: &str| samples.iter().find(|(series, _)| series.starts_with(name)).map(|(_, value)| *value).unwrap();
    assert_eq!(at("nccltop_comm_operations_min"), at("nccltop_comm_operations_max"));
    assert!(samples.keys().any(|series| series.starts_with("nccltop_node_address_info{address=\"10.0.0.")), "{samples:?}");
}

#[test]
fn the_two_formats_differ_where_they_have_to() {
    let session = demo("none");
    let (open, classic) = (page(&session, Format::OpenMetrics), page(&session, Format::Classic));
    assert!(open.ends_with("# EOF\n") && !classic.contains("# EOF"));
    assert!(open.contains("# TYPE nccltop_rank_activity_seconds counter\nnccltop_rank_activity_seconds_total{"));
    assert!(classic.contains("# TYPE nccltop_rank_activity_seconds_total counter\nnccltop_rank_activity_seconds_total{"));
    for (accept, format) in [
        ("", Format::Classic),
        ("*/*", Format::Classic),
        ("text/plain", Format::Classic),
        ("application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5,*/*;q=0.1", Format::OpenMetrics),
        ("application/openmetrics-text; version=0.0.1; q=0.2, text/plain;q=0.9", Format::Classic),
        ("application/openmetrics-text;q=0", Format::Classic),
        ("application/openmetrics-text;q=x,,;", Format::OpenMetrics),
    ] {
        assert_eq!(Format::accepted(accept), format, "{accept}");
    }
}

/// A node under test.
struct Node {
    session: Session,
    now_s: i64,
}

impl Node {
    fn new(host: &str) -> Node {
        Node { session: Session::new(host, Zone::UTC), now_s: 1000 }
    }

    fn sees(&mut self, body: Body) -> &mut Self {
        let at = Stamp(self.now_s * 1_000_000_000);
        self.session.apply(&Observation { at, host: None, from: SourceId::of("procs"), body }, &mut Vec::new());
        self
    }

    fn ticks(&mut self, seconds: i64) -> &mut Self {
        for _ in 0..seconds {
            self.now_s += 1;
            self.sees(Body::Tick);
        }
        self
    }

    /// A rank below a launcher of this pid, with these arguments and variables.
    fn job(host: &str, launcher: u32, command: &str, env: &[(&str, &str)]) -> Node {
        let mut node = Node::new(host);
        let cmdline = command.split(' ').map(str::to_owned).collect();
        node.sees(Body::Process(ProcessInfo { pid: launcher, ppid: 1, role: ProcessRole::Launcher, cmdline, ..Default::default() }));
        node.sees(Body::Process(rank(launcher + 1, launcher, 0, env))).ticks(3);
        node
    }

    fn id(&self) -> String {
        identity::of(&self.session.model, self.session.model.jobs.values().next().unwrap()).id
    }
}

fn rank(pid: u32, launcher: u32, rank: u32, env: &[(&str, &str)]) -> ProcessInfo {
    let rank = rank.to_string();
    let own = [("RANK", rank.as_str()), ("WORLD_SIZE", "16")];
    let env = own.iter().chain(env).map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    ProcessInfo { pid, ppid: launcher, start_ticks: u64::from(pid), role: ProcessRole::Rank, env: Some(env), ..Default::default() }
}

#[test]
fn all_nodes_of_a_job_give_it_one_id() {
    let torchrun = "python3 -m torch.distributed.run --nnodes 2 --rdzv-id exp7 --rdzv-endpoint n1:29400 train.py";
    let plain = "python3 -m torch.distributed.run --nnodes 2 --master-addr n1 train.py";
    let elastic = [("TORCHELASTIC_RUN_ID", "exp7"), ("MASTER_ADDR", "n1"), ("MASTER_PORT", "43211")];
    let none = [("TORCHELASTIC_RUN_ID", "none"), ("MASTER_ADDR", "n1"), ("MASTER_PORT", "29500")];
    let slurm = [("SLURM_JOB_ID", "4711"), ("SLURM_STEP_ID", "0"), ("MASTER_ADDR", "n1"), ("MASTER_PORT", "29500")];
    let step = [("SLURM_JOB_ID", "4711"), ("SLURM_STEP_ID", "2")];
    let mpi = [("PMIX_NAMESPACE", "prterun-n1-7712@1"), ("MASTER_ADDR", "127.0.0.1")];
    let ray = [("RAY_JOB_ID", "02000000"), ("MASTER_ADDR", "10.0.0.4"), ("MASTER_PORT", "6379")];
    for (command, env, id) in [
        (torchrun, &elastic[..], "exp7@n1:29400"),
        ("python3 launch.py", &elastic[..], "exp7@n1:43211"),
        (plain, &none[..], "n1:29500"),
        ("srun train", &slurm[..], "4711"),
        ("srun train", &step[..], "4711.2"),
        ("mpirun train", &mpi[..], "prterun-n1-7712@1"),
        ("raylet", &ray[..], "ray-02000000@10.0.0.4:6379"),
    ] {
        let (one, other) = (Node::job("n1", 100, command, env), Node::job("n2", 2345, command, env));
        assert_eq!((one.id(), other.id()), (id.to_owned(), id.to_owned()), "{command}");
    }
    // What every node would say is no id of all: each of these is a job of its own.
    for env in [&[("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", "29500")][..], &[("RAY_JOB_ID", "01000000")], &[]] {
        let (one, other) = (Node::job("n1", 100, "python3 launch.py", env), Node::job("n2", 100, "python3 launch.py", env));
        assert_ne!(one.id(), other.id(), "{env:?}");
    }
}

#[test]
fn pods_of_one_job_on_a_node_are_one_job_and_namespaces_keep_jobs_apart() {
    let env = [("MASTER_ADDR", "run-0"), ("MASTER_PORT", "29500")];
    let mut node = Node::new("n1");
    for (launcher, first) in [(100, 0), (200, 8)] {
        node.sees(Body::Process(ProcessInfo { pid: launcher, ppid: 1, role: ProcessRole::Launcher, ..Default::default() }));
        let pod = Pod { uid: "u".into(), namespace: Some("ml".into()), name: Some(format!("run-{first}")), container: None };
        node.sees(Body::Process(ProcessInfo { pod: Some(pod), ..rank(launcher + 1, launcher, first, &env) }));
    }
    node.ticks(3);
    assert_eq!(node.session.model.jobs.len(), 2, "as this node sees it");
    let samples = samples(&node.session);
    let has = |series: &str| samples.get(series).copied();
    assert_eq!(has("nccltop_job_local_ranks{job_id=\"ml/run-0:29500\"}"), Some(2.0), "{samples:?}");
    assert_eq!(samples.keys().filter(|series| series.starts_with("nccltop_rank_info")).count(), 2);
    let infos: Vec<_> = samples.keys().filter(|series| series.starts_with("nccltop_job_info")).collect();
    assert_eq!(infos.len(), 1, "joins need one: {infos:?}");
    assert!(infos[0].contains("namespace=\"ml\",pod=\"run-") && infos[0].contains("pod_uid=\"u\""));
}

#[test]
fn ranks_that_are_started_anew_are_an_attempt_and_go_on_counting() {
    let env = |count| [("MASTER_ADDR", "n1"), ("MASTER_PORT", "29500"), ("TORCHELASTIC_RESTART_COUNT", count)];
    let mut node = Node::job("n1", 100, "python3 launch.py", &env("0"));
    let spent = |node: &Node| {
        let of_rank = |(series, value): (String, f64)| series.contains("activity=\"other\"").then_some(value);
        samples(&node.session).into_iter().find_map(of_rank).unwrap()
    };
    let before = spent(&node);
    node.sees(Body::ProcessGone(ProcessGone { pid: 101, start_ticks: 101, exit_code: Some(1) })).ticks(2);
    node.sees(Body::Process(rank(300, 100, 0, &env("1")))).ticks(5);
    assert!(spent(&node) >= before + 5.0, "{} after {before}", spent(&node));
    let samples = samples(&node.session);
    assert_eq!(samples.get("nccltop_job_restarts_total{job_id=\"n1:29500\"}"), Some(&1.0), "{samples:?}");
    assert_eq!(samples.keys().filter(|series| series.starts_with("nccltop_job_info")).count(), 1);
}

#[test]
fn names_of_slurm_are_labels_and_hostile_ones_stay_labels() {
    let long = "x".repeat(10_000);
    let names = [
        ("SLURM_JOB_ID", "4711"),
        ("SLURM_JOB_NAME", "a\"b\\c\nd\u{1b}[31m{x=\"1\"} 5\n# EOF"),
        ("SLURM_JOB_USER", long.as_str()),
        ("SLURM_JOB_ACCOUNT", "é\u{202e}ü"),
        ("SLURM_JOB_PARTITION", "h100"),
        ("SLURM_CLUSTER_NAME", ""),
    ];
    let session = Node::job("n1", 100, "srun train", &names).session;
    let page = page(&session, Format::OpenMetrics);
    let info: Vec<&str> = page.lines().filter(|line| line.starts_with("nccltop_job_info{")).collect();
    let user = "x".repeat(128);
    let expected = format!(
        "nccltop_job_info{{job_id=\"4711\",slurm_job_id=\"4711\",job_name=\"a\\\"b\\\\cd{{x=\\\"1\\\"}} 5# EOF\",user=\"{user}\",\
         account=\"éü\",partition=\"h100\",launcher=\"srun\"}} 1"
    );
    assert_eq!(info, [expected.as_str()]);
    assert!(page.ends_with("\n# EOF\n") && page.lines().filter(|line| *line == "# EOF").count() == 1);
    let words = identity::of(&session.model, session.model.jobs.values().next().unwrap()).words().unwrap();
    assert!(words.starts_with("4711 a\"b\\cd{x=\"1\"} 5# EOF · user xxx") && words.chars().count() <= 120, "{words}");
    let classic = text::write(&metrics::read(&session, &Own::unknown()), Format::Classic);
    if let Some((ok, said)) = promtool(&["check", "metrics"], &classic) {
        assert!(ok && said.is_empty(), "{said}");
    }
}

#[test]
fn a_page_of_a_full_node_is_small() {
    let bytes = page(&demo("efa"), Format::OpenMetrics).len();
    assert!(bytes <= 40_000, "{bytes} bytes");
}

#[test]
fn a_recording_becomes_samples_with_time_stamps() {
    let mut reader = DEMOS.iter().find(|demo| demo.name == "hang").unwrap().open().unwrap();
    let (mut session, mut events) = (reader.header().session(), Vec::new());
    let mut history = History::new(vec![("instance".into(), "node\"7".into()), ("job".into(), "nccl-top".into())]);
    assert!(history.is_empty());
    let mut next = Stamp::default();
    while let Some(seen) = reader.read().unwrap() {
        session.apply(&seen, &mut events);
        if seen.body == Body::Tick && seen.at >= next {
            next = seen.at.plus(Duration::from_secs(15));
            history.add(&session);
        }
    }
    let mut bytes = Vec::new();
    history.write(&mut bytes).unwrap();
    let text = String::from_utf8(bytes).unwrap();
    let up: Vec<f64> = text
        .lines()
        .filter_map(|line| line.strip_prefix("up{instance=\"node\\\"7\",job=\"nccl-top\"} 1 "))
        .map(|at| at.parse().unwrap())
        .collect();
    assert!(up.len() >= 4 && up.windows(2).all(|pair| pair[1] >= pair[0] + 15.0), "{up:?}");
    assert!(text.ends_with("# EOF\n") && text.matches("# TYPE nccltop_job_state gauge\n").count() == 1);
    // A series that is not there at first, and is there at the end.
    let found = text.lines().filter(|line| line.starts_with("nccltop_finding_open") && line.contains("hang-rank-absent")).count();
    assert!((1..up.len()).contains(&found), "{found} of {}", up.len());
    let dir = tempfile::tempdir().unwrap();
    let (file, blocks) = (dir.path().join("om"), dir.path().join("blocks"));
    std::fs::write(&file, &text).unwrap();
    let args = ["tsdb", "create-blocks-from", "openmetrics", file.to_str().unwrap(), blocks.to_str().unwrap()];
    if let Some((ok, said)) = promtool(&args, "") {
        assert!(ok, "{said}");
    }
}

/// Prints what a page of each demo costs: `cargo test --test it export::what_a_page_costs -- --ignored --nocapture`.
#[test]
#[ignore = "it measures and proves nothing"]
#[allow(clippy::print_stdout)]
fn what_a_page_costs() {
    for demo_name in DEMOS.iter().map(|demo| demo.name) {
        let session = demo(demo_name);
        let began = std::time::Instant::now();
        for _ in 0..100 {
            page(&session, Format::Classic);
        }
        let (took, page) = (began.elapsed() / 100, page(&session, Format::Classic));
        let (gpus, ports) = (session.model.gpus.len(), session.model.ports.len());
        println!("{demo_name}: {gpus} GPUs, {ports} ports: {took:?}, {} bytes, {} series", page.len(), samples(&session).len());
    }
}
