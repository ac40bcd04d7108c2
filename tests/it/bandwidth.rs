//! Bandwidth against what machines of the kind reach: tables of nccl-tests.

use crate::support::{at, fixture, judged};
use nccl_top::base::bandwidth::{Does, Gpu, REACHES, Shape, Way, reach};
use nccl_top::base::severity::Severity;
use nccl_top::formats::nccl_tests::{Table, Tables, parse_json};
use nccl_top::model::Model;
use nccl_top::observe::log::{Line, LogFileInfo};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::rules;
use nccl_top::rules::findings::{Finding, Ledger};

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
