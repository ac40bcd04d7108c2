//! Bandwidth against what machines of the kind reach: tables of nccl-tests, and what the Inspector writes while a job runs.

use crate::support::worlds::ras_json;
use crate::support::{at, fixture, judged};
use nccl_top::base::bandwidth::{Does, Gpu, REACHES, Shape, Way, reach};
use nccl_top::base::severity::Severity;
use nccl_top::base::time::Zone;
use nccl_top::diagnosis::session::Session;
use nccl_top::formats::inspector::Latest;
use nccl_top::formats::nccl_tests::{Table, Tables, parse_json};
use nccl_top::model::Model;
use nccl_top::observe::gpu::GpuInfo;
use nccl_top::observe::inspector::{Inspected, InspectedComm, InspectedOp};
use nccl_top::observe::log::{Line, LogFileInfo, RasAnswer};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::rules;
use nccl_top::rules::findings::{Finding, Ledger};
use nccl_top::sources::inspector::{Inspectors, dump_dir};
use nccl_top::sources::{Hint, Hints, Roots, Source, SourceError};
use nccl_top::tui::choices::Ui;
use nccl_top::tui::panes::{Ctx, PANES};
use nccl_top::tui::theme::{Depth, Theme};
use ratatui::buffer::Buffer;
use ratatui::layout::Rect;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

const RULE: &str = "busbw-below-platform";
const H200: &str = "NVIDIA H200";
const H100: &str = "NVIDIA H100 80GB HBM3";
const GIB: u64 = 1 << 30;

/// What a test prints that measured so much, on so many GPUs of each host.
struct Run {
    test: &'static str,
    hosts: u32,
    per_host: u32,
    model: &'static str,
    rows: Vec<(u64, f64)>,
}

impl Run {
    fn of(hosts: u32, per_host: u32, model: &'static str, rows: &[(u64, f64)]) -> Run {
        Run { test: "all_reduce", hosts, per_host, model, rows: rows.to_vec() }
    }

    fn header(&self) -> String {
        let mut text = format!("# Collective test starting: {}_perf\n", self.test);
        text.push_str("# nThread 1 nGpus 1 minBytes 8 maxBytes 17179869184 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0\n");
        text.push_str("#\n# Using devices\n");
        for rank in 0..self.hosts * self.per_host {
            let (host, device) = (rank / self.per_host, rank % self.per_host);
            text.push_str(&format!(
                "#  Rank {rank:2} Group  0 Pid {rank:6} on node-{host:02} device {device:2} [0000:{device:02x}:00] {}\n",
                self.model
            ));
        }
        text
    }

    fn rows(&self) -> String {
        let n = f64::from(self.hosts * self.per_host);
        let factor = if self.test == "all_reduce" { 2.0 } else { 1.0 } * (n - 1.0) / n;
        let mut text =
            "#\n#       size         count      type   redop    root     time   algbw   busbw #wrong     time   algbw   busbw #wrong\n"
                .to_owned();
        for (size, busbw) in &self.rows {
            let side = format!("{:9.1} {:7.2} {busbw:7.2} {:6}", *size as f64 / busbw / 1e3 * factor, busbw / factor, 0);
            text.push_str(&format!("{size:12} {:13} float sum -1 {side} {side}\n", size / 4));
        }
        text + "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.0\n#\n"
    }

    fn text(&self) -> String {
        self.header() + &self.rows()
    }
}

fn tables(text: &str) -> Vec<Table> {
    let mut tables = Tables::default();
    (1..).zip(text.lines()).for_each(|(no, line)| tables.line(line, no));
    tables.finish().0
}

/// What the rule says of a log, line by line as NCCL and the test print it.
fn of_log(text: &str) -> Vec<Finding> {
    let mut model = Model::default();
    let info = LogFileInfo { file: 1, path: "x.log".into(), archived: true, ..LogFileInfo::default() };
    model.apply(&Observation { at: at(0), host: None, from: SourceId::of("tail"), body: Body::LogFile(info) });
    for (no, line) in (1..).zip(text.lines().chain(["#"])) {
        model.apply_line(at(1), 1, &Line { no: Some(no), text: line.into(), ..Line::default() }, false, |_, _| {});
    }
    if !text.contains("NCCL INFO") {
        model.archive_record("x.log", at(0)).tables = tables(text).into_iter().map(|table| ("x.log".to_owned(), table)).collect();
    }
    only_ours(rules::facts(&model, &Ledger::default(), true, &[]))
}

fn only_ours(found: Vec<Finding>) -> Vec<Finding> {
    found.into_iter().filter(|f| f.rule == RULE).collect()
}

fn judge(table: &Table) -> Vec<Finding> {
    only_ours(judged(|record| record.tables.push(("x.log".into(), table.clone()))))
}

fn said(run: &Run) -> (Severity, String) {
    let found = of_log(&run.text());
    assert_eq!(found.len(), 1, "{found:#?}");
    (found[0].severity, found[0].summary.clone())
}

#[test]
fn names_of_gpus_are_those_of_the_table_only() {
    let known = [
        ("NVIDIA A100-SXM4-80GB", Gpu::A100),
        ("A100-SXM4-40GB", Gpu::A100),
        (H100, Gpu::H100),
        (H200, Gpu::H200),
        ("NVIDIA B200", Gpu::B200),
        ("NVIDIA B300 SXM6 AC", Gpu::B300),
        ("NVIDIA GB200", Gpu::Gb200),
        ("NVIDIA GB300", Gpu::Gb300),
        ("NVIDIA GB10", Gpu::Gb10),
    ];
    known.iter().for_each(|(name, gpu)| assert_eq!(Gpu::of_name(name), Some(*gpu), "{name}"));
    let others = [
        "NVIDIA H100 PCIe",
        "NVIDIA H100 NVL",
        "NVIDIA H200 NVL",
        "NVIDIA H20",
        "NVIDIA GH200 480GB",
        "NVIDIA A100-PCIE-40GB",
        "NVIDIA H800",
        "",
    ];
    others.iter().for_each(|name| assert_eq!(Gpu::of_name(name), None, "{name}"));
}

#[test]
fn each_figure_can_be_asked_for_and_has_its_source() {
    for row in REACHES {
        let shape = Shape { gpu: row.gpu, nodes: row.nodes, per_node: row.per_node };
        let found = reach(shape, row.does, row.from_bytes, row.gbytes_per_s, Some(row.way == Way::Nvls)).unwrap();
        assert_eq!(found, row, "two rows answer the same question");
        assert!(row.source.len() > 20 && row.words().contains(" reach"), "{row:?}");
        assert_eq!(reach(shape, row.does, 1 << 20, 1.0, None), None, "a MiB is no measure: {row:?}");
    }
    let ring = |gpu, does| reach(Shape { gpu, nodes: 1, per_node: 8 }, does, 16 * GIB, 1.0, None).map(|row| row.gbytes_per_s);
    assert_eq!((ring(Gpu::A100, Does::AllReduce), ring(Gpu::A100, Does::AllToAll)), (Some(230.8), None), "nobody has published it");
}

#[test]
fn eight_h200_without_nvls_are_what_they_should_be() {
    for name in ["nccl-tests-all_reduce", "nccl-tests-1G"] {
        let found = judge(&tables(&fixture(&format!("reports/{name}.log")))[0]);
        assert_eq!((found.len(), found[0].severity), (1, Severity::Info), "{found:#?}");
    }
    let found = of_log(&fixture("reports/nccl-tests-all_reduce.log"));
    assert_eq!(found[0].summary, "nccl-tests all_reduce: 363.7 GB/s at 2 GiB: 98 % of what 8 H200 reach without NVLS (370 GB/s)");
    assert!(found[0].evidence.iter().any(|e| e.text.starts_with("370 GB/s: as H100")), "{found:#?}");
    assert_eq!(judge(&tables(&fixture("reports/nccl-tests-sendrecv.log"))[0]), [], "not in the table");
}

#[test]
fn what_is_far_too_slow_is_a_warning_that_says_what_carries_so_little() {
    let run = |busbw| Run::of(1, 8, H200, &[(GIB, busbw * 0.9), (8 * GIB, busbw)]);
    let (severity, summary) = said(&run(184.0));
    let expected =
        "nccl-tests all_reduce: 184.0 GB/s at 8 GiB: 50 % of what 8 H200 reach without NVLS (370 GB/s): about what 9 of 18 NVLinks carry";
    assert_eq!((severity, summary.as_str()), (Severity::Warning, expected));
    assert!(said(&run(21.0)).1.ends_with("PCIe or shared memory carries that: NVLink is not used"));
    assert_eq!(said(&run(300.0)).0, Severity::Info, "81 %");
    let (severity, summary) = said(&run(470.0));
    assert_eq!((severity, summary.contains("99 % of what 8 H200 reach with NVLS (475 GB/s)")), (Severity::Info, true), "{summary}");
    let found = of_log(&run(184.0).text());
    assert!(found[0].next.as_deref().unwrap().contains("NCCL_DEBUG=INFO"), "{found:#?}");
}

#[test]
fn what_the_log_switches_off_is_named() {
    let run = Run::of(1, 8, H100, &[(8 * GIB, 21.0)]);
    let line = "node-00:7:7 [0] NCCL INFO NCCL_P2P_DISABLE set by environment to 1.\n";
    let found = of_log(&(run.header() + line + &run.rows()));
    assert_eq!((found[0].severity, found[0].why.as_str()), (Severity::Warning, "the log shows NCCL_P2P_DISABLE=1, which may be why"));
}

#[test]
fn over_the_network_only_ports_that_are_known_are_accused() {
    let run = |busbw| Run::of(2, 8, H100, &[(16 * GIB, busbw)]);
    let (severity, summary) = said(&run(472.0));
    assert_eq!(
        (severity, summary.contains("100 % of what 2 nodes of 8 H100 reach with 8 ports of 400 Gb/s (470 GB/s)")),
        (Severity::Info, true),
        "{summary}"
    );
    let (severity, summary) = said(&run(188.0));
    assert_eq!(severity, Severity::Info, "four ports would do");
    assert!(summary.ends_with("about what 4 of 8 ports of 400 Gb/s carry: looks like one rail of two"), "{summary}");
    let ports: Vec<String> = (0..8).map(|n| format!("[{n}]mlx5_{n}:1/IB/SHARP")).collect();
    let named = format!("node-00:7:7 [7] NCCL INFO NET/IB : Using {} [RO]; OOB bond0:192.0.2.9<0>\n", ports.join(" "));
    let found = of_log(&(run(44.3).header() + &named + &run(44.3).rows()));
    assert_eq!(found[0].severity, Severity::Warning, "{found:#?}");
    assert!(found[0].summary.ends_with("about what one port of 400 Gb/s carries, and NCCL found 8"), "{found:#?}");
    let spark = Run::of(2, 1, "NVIDIA GB10", &[(GIB, 11.7)]);
    let (severity, summary) = said(&spark);
    assert_eq!((severity, summary.ends_with(": half of it: looks like one rail of two")), (Severity::Warning, true), "{summary}");
    assert_eq!(of_log(&Run::of(2, 8, "NVIDIA A100-SXM4-80GB", &[(GIB, 183.0)]).text()), [], "another network than that of the table");
}

#[test]
fn nothing_is_said_where_the_test_or_the_machine_is_not_known_for_sure() {
    let run = Run::of(1, 8, H200, &[(16 * GIB, 20.0)]);
    let text = run.text();
    assert_eq!(of_log(&text).len(), 1);
    let silent = [
        ("small sizes", Run::of(1, 8, H200, &[(256 << 20, 20.0)]).text()),
        ("one GPU", Run::of(1, 1, H200, &[(16 * GIB, 20.0)]).text()),
        ("six of eight", Run::of(1, 6, H200, &[(16 * GIB, 20.0)]).text()),
        ("without NVSwitches", Run::of(1, 8, "NVIDIA H100 PCIe", &[(16 * GIB, 20.0)]).text()),
        ("several in one launch", text.replace("agg iters: 1 ", "agg iters: 8 ")),
        (
            "each waited for",
            text.replace("#\n# Using", "# Blocking Enabled: wait for completion and barrier after each collective\n#\n# Using"),
        ),
        ("the CPU's time", text.replace("    time   algbw", " cputime   algbw")),
        ("a rank is not listed", text.replace("#  Rank  3 ", "# ")),
        ("two models", text.replacen(H200, "NVIDIA H100 80GB HBM3", 1)),
        ("no list", run.rows()),
        ("each rank by itself", run.header() + &Run::of(1, 2, H200, &[(16 * GIB, 20.0)]).rows()),
        ("another collective", Run { test: "gather", ..Run::of(1, 8, H200, &[(16 * GIB, 20.0)]) }.text()),
    ];
    for (what, text) in silent {
        assert_eq!(of_log(&text), [], "{what}");
    }
}

#[test]
fn json_says_the_same() {
    let device = |rank: u32| format!(r#"{{"rank":{rank},"group":0,"hostname":"vm","device":{rank},"device_info":"NVIDIA H200"}}"#);
    let file = |config: &str| {
        format!(
            r#"{{"version":3,"args":["./all_reduce_perf"],"config":{{{config}}},"results":[{{"size":8589934592,"count":2147483648,"type":"float","redop":"sum",
            "root":"-1","out_of_place":{{"time":1,"alg_bw":105.14,"bus_bw":184.0,"nwrong":0}},"in_place":null}}],
            "out_of_bounds":{{"count":0,"okay":true}},"average_bus_bandwidth":{{"bandwidth":184.0,"okay":true}},"errors":[]}}"#
        )
    };
    let all: Vec<String> = (0..8).map(device).collect();
    let one_process = format!(r#""nthreads":1,"ngpus":8,"aggregated_iterations":1,"blocking_collectives":false,"devices":[{}]"#, device(0));
    let eight = format!(r#""nthreads":1,"ngpus":1,"aggregated_iterations":1,"devices":[{}]"#, all.join(","));
    for config in [&one_process, &eight] {
        let found = judge(&parse_json(&file(config)).unwrap());
        assert!(found[0].summary.contains(": 50 % of what 8 H200 reach without NVLS"), "{found:#?}");
    }
    for odd in [("\"aggregated_iterations\":1", "\"aggregated_iterations\":20"), ("false", "\"true\""), ("NVIDIA H200", "NVIDIA L40S")] {
        assert_eq!(judge(&parse_json(&file(&one_process.replace(odd.0, odd.1))).unwrap()), [], "{odd:?}");
    }
}

fn record(id: &str, rank: u32, coll: &str, sn: u64, bytes: u64, exec_us: u64, busbw: f64) -> String {
    format!(
        "{{\"header\":{{\"id\":\"0x{id}\",\"rank\":{rank},\"n_ranks\":8,\"nnodes\":1}},\"metadata\":{{\"pid\":7}},\"coll_perf\":{{\"coll\":\"{coll}\",\
         \"coll_sn\":{sn},\"coll_msg_size_bytes\":{bytes},\"coll_exec_time_us\":{exec_us},\"coll_algobw_gbs\":{:.3},\"coll_busbw_gbs\":{busbw}}}}}\n",
        busbw / 1.75
    )
}

#[test]
fn of_each_kind_and_size_the_newest_record_counts_and_memory_is_bounded() {
    let mut latest = Latest::default();
    for sn in 0..1000 {
        latest.line(&record("ab", 0, "AllReduce", sn, 256 << 20, 900 + sn, 300.0));
        latest.line(&record("ab", 0, &format!("Kind{}", sn), sn, 8, 10, 0.0));
        latest.line(&record(&format!("c{sn}"), 0, "AllReduce", sn, 8, 10, 0.0));
    }
    latest.line("{\"header\":");
    latest.line("");
    let comm = latest.comms().find(|comm| comm.id == "ab").unwrap();
    assert_eq!((latest.comms().count(), comm.ops.len(), latest.records), (16, 32, 3000));
    assert_eq!(comm.ops[&("AllReduce".to_owned(), 256 << 20)].sn, 999);
}

#[test]
fn the_folder_is_that_of_the_environment() {
    let dir = |env: &str| dump_dir(env.replace(' ', "\0").as_bytes()).map(|dir| String::from_utf8(dir).unwrap());
    assert_eq!(dir("NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_DUMP_DIR=/d/x").as_deref(), Some("/d/x"));
    assert_eq!(dir("NCCL_INSPECTOR_ENABLE=1 SLURM_JOBID=77").as_deref(), Some("nccl-inspector-77"));
    assert_eq!(dir("NCCL_INSPECTOR_ENABLE=1").as_deref(), Some("nccl-inspector-unknown-jobid"));
    assert_eq!(dir("NCCL_INSPECTOR_ENABLE=0 NCCL_INSPECTOR_DUMP_DIR=/d"), None);
    assert_eq!(dir("NCCL_INSPECTOR_DUMP_DIR=/d"), None);
    assert_eq!(dir("NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_PROM_DUMP=1"), None);
}

/// A tree with a rank whose Inspector writes below /d.
struct Tree {
    dir: tempfile::TempDir,
    hints: Hints,
    source: Inspectors,
}

impl Tree {
    fn of(env: &str) -> Tree {
        use std::os::unix::fs::MetadataExt;
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        for folder in ["proc/101", "proc/sys/kernel", "d"] {
            fs::create_dir_all(path(folder)).unwrap();
        }
        let uid = fs::metadata(dir.path()).unwrap().uid();
        fs::write(path("proc/sys/kernel/hostname"), "node-17\n").unwrap();
        fs::write(path("proc/101/stat"), "101 (python) S 1 101 101 0 -1 4194304 1 0 0 0 300 50 0 0 20 0 1 0 1000 1000 500").unwrap();
        fs::write(path("proc/101/status"), format!("Name:\tpython\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\nNSpid:\t101\t7\n")).unwrap();
        fs::write(path("proc/101/environ"), env.replace(' ', "\0")).unwrap();
        let (hints, inbox) = Hints::line();
        hints.send(Hint::Ranks(vec![(101, 1000)]));
        let source = Inspectors::new(Roots::below(dir.path()), Duration::from_secs(1), Some(inbox));
        Tree { dir, hints, source }
    }

    fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join("d").join(name)
    }

    fn write(&self, name: &str, text: &str) {
        use std::io::Write;
        let mut file = fs::OpenOptions::new().create(true).append(true).open(self.file(name)).unwrap();
        file.write_all(text.as_bytes()).unwrap();
    }

    /// What is reported within as many looks as a folder is listed once in.
    fn polls(&mut self) -> Vec<Inspected> {
        let mut out = Vec::new();
        (0..5).for_each(|_| self.source.poll(&mut out).unwrap());
        out.into_iter().map(|body| if let Body::Inspector(seen) = body { seen } else { panic!("{body:?}") }).collect()
    }
}

const ON: &str = "RANK=0 WORLD_SIZE=8 NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_DUMP_DIR=/d";

#[test]
fn a_file_is_followed_as_it_grows() {
    let mut tree = Tree::of(ON);
    assert_eq!(tree.polls(), []);
    assert!(tree.source.remark().unwrap().1.contains("NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS"));
    // Another node's process has the same number.
    tree.write("node-16-pid7.log", &record("ff", 3, "AllReduce", 1, 8, 1, 1.0));
    let name = "node-17-pid7.log";
    tree.write(name, &record("ab", 0, "AllReduce", 1, 256 << 20, 912, 300.0));
    let seen = tree.polls();
    assert_eq!((seen.len(), seen[0].pid, seen[0].comms.len()), (1, 101, 1));
    let op = &seen[0].comms[0].ops[0];
    assert_eq!((op.name.as_str(), op.sn, op.exec_us, op.busbw_gbytes_per_s), ("AllReduce", 1, Some(912.0), Some(300.0)));
    assert_eq!(tree.polls(), [], "nothing new");
    let next = record("ab", 0, "AllReduce", 2, 256 << 20, 800, 320.0);
    let (left, right) = next.split_at(40);
    tree.write(name, left);
    assert_eq!(tree.polls(), [], "half a line");
    tree.write(name, right);
    assert_eq!(tree.polls()[0].comms[0].ops[0].sn, 2);
    assert_eq!(
        tree.source.remark().unwrap().1,
        format!("records of 1 of 1 ranks in {}", tree.file("").display().to_string().trim_end_matches('/'))
    );
    // A new run writes it anew.
    fs::write(tree.file(name), record("cd", 0, "AllGather", 0, 8, 1, 1.0)).unwrap();
    let seen = tree.polls();
    assert_eq!((seen[0].comms.len(), seen[0].comms[0].id.as_str()), (1, "cd"));
    tree.hints.send(Hint::Ranks(vec![]));
    let mut out = Vec::new();
    assert!(matches!(tree.source.poll(&mut out), Err(SourceError::Absent(_))));
}

#[test]
fn of_a_file_that_grows_faster_than_it_is_read_the_end_counts() {
    let mut tree = Tree::of(ON);
    let many: String = (0..20_000).map(|sn| record("ab", 0, "AllReduce", sn, 256 << 20, 900, 300.0)).collect();
    tree.write("node-17-pid7.log", &many);
    tree.write("node-17-pid7.log", &"x".repeat(1 << 20));
    tree.write("node-17-pid7.log", &format!("\n{}", record("ab", 0, "AllReduce", 20_001, 256 << 20, 900, 300.0)));
    let seen = tree.polls();
    assert_eq!(seen.last().unwrap().comms[0].ops[0].sn, 20_001);
}

#[test]
fn only_regular_files_are_opened() {
    let mut tree = Tree::of(ON);
    tree.write("secret", &record("ab", 0, "AllReduce", 1, 8, 1, 1.0));
    std::os::unix::fs::symlink(tree.file("secret"), tree.file("node-17-pid7.log")).unwrap();
    assert_eq!(tree.polls(), []);
    fs::remove_file(tree.file("node-17-pid7.log")).unwrap();
    rustix::fs::mknodat(rustix::fs::CWD, tree.file("node-17-pid7.log"), rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    assert_eq!(tree.polls(), [], "a pipe is not waited for");
}

/// A session in which RAS names the communicator that the Inspector measures.
fn measured(busbw: f64) -> Session {
    let mut session = Session::new("node-17", Zone::UTC);
    let mut see = |from: &'static str, body| {
        let seen = Observation { at: at(10), host: None, from: SourceId::of(from), body };
        session.apply(&seen, &mut Vec::new());
    };
    for index in 0..8 {
        see("nvml", Body::GpuInfo(GpuInfo { index, name: Some(H200.into()), ..GpuInfo::default() }));
    }
    see("ras", Body::Ras(RasAnswer { reply: ras_json(8, |_| Some(9)), format: "json".into(), ..RasAnswer::default() }));
    // Of the hash that RAS names the Inspector writes the first 14 digits.
    let hash = "5c1de7706f19ab";
    for (pid, exec_us) in [(101, 5000_u64), (102, 790)] {
        let mut latest = Latest::default();
        latest.line(&record(hash, pid - 101, "AllReduce", 9, 256 << 20, exec_us, busbw * 790.0 / exec_us as f64));
        let comms = latest.comms().map(|comm| InspectedComm {
            id: comm.id.clone(),
            rank: comm.rank,
            n_ranks: comm.n_ranks,
            nnodes: comm.nnodes,
            peers: Vec::new(),
            ops: comm
                .ops
                .iter()
                .map(|((name, _), op)| InspectedOp {
                    name: name.clone(),
                    bytes: op.bytes,
                    sn: op.sn,
                    exec_us: op.exec_us,
                    algbw_gbytes_per_s: op.algbw,
                    busbw_gbytes_per_s: op.busbw,
                })
                .collect(),
        });
        see("inspector", Body::Inspector(Inspected { pid, path: "/d/x".into(), comms: comms.collect() }));
    }
    session
}

#[test]
fn who_does_not_wait_tells_the_bandwidth() {
    let session = measured(333.0);
    let comm = session.model.comms.values().next().unwrap();
    let fastest = session.model.fastest_of(comm);
    assert_eq!((fastest.len(), fastest[0].op.exec_us, fastest[0].share_pct().map(f64::round)), (1, Some(790.0), Some(90.0)));
}

#[test]
fn the_screen_shows_what_the_inspector_measures() {
    let session = measured(333.0);
    let (ui, theme) = (Ui::new(Zone::UTC), Theme::load("dark", Depth::True).unwrap());
    let pane = PANES.iter().position(|p| p.id == "nccl").unwrap();
    let lines = |zoomed: bool| {
        let area = Rect::new(0, 0, 140, 30);
        let mut buf = Buffer::empty(area);
        let ctx = Ctx { session: &session, ui: &ui, theme: &theme, pane, zoomed, focused: true };
        (PANES[pane].draw)(&ctx, area, &mut buf);
        let row = |y| (0..area.width).map(|x| buf[(x, y)].symbol()).collect::<String>();
        (0..area.height).map(row).collect::<Vec<_>>().join("\n")
    };
    assert!(lines(false).contains("AllReduce 256 MiB 333 GB/s (90 %)"), "{}", lines(false));
    let zoomed = lines(true);
    assert!(
        zoomed.contains("AllReduce  256 MiB") && zoomed.contains("busbw  333.0 GB/s  90 % of what 8 H200 reach without NVLS"),
        "{zoomed}"
    );
}
