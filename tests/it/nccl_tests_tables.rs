//! Tables of nccl-tests, and what is wrong with what they show.

use crate::support::{fixture, judged};
use nccl_top::base::severity::Severity;
use nccl_top::formats::nccl_tests::{Row, Side, Table, Tables, begins};
use nccl_top::rules::findings::Finding;
use proptest::prelude::*;

/// What is wrong with a run, besides how fast it was.
pub fn judge(table: &Table, path: &str) -> Vec<Finding> {
    let mut found = judged(|record| record.tables.push((path.to_owned(), table.clone())));
    found.retain(|f| f.rule == "nccl-tests-failed");
    found
}

fn tables(text: &str) -> Vec<Table> {
    let mut tables = Tables::default();
    for (no, line) in (1..).zip(text.lines()) {
        tables.line(line, no);
    }
    tables.finish().0
}

fn only(text: &str) -> Table {
    let mut all = tables(text);
    assert_eq!(all.len(), 1, "{all:?}");
    all.remove(0)
}

fn row_of(line: &str) -> Row {
    let mut table = only(line);
    assert_eq!(table.rows.len(), 1, "{line}");
    table.rows.remove(0)
}

const HEADER: &str = "\
# nThread 1 nGpus 8 minBytes 8 maxBytes 134217728 step: 2(factor) warmup iters: 5 iters: 20 agg iters: 1 validation: 1 graph: 0
#
# Using devices
#  Rank  0 Group  0 Pid  12345 on    node-01 device  0 [0000:07:00] NVIDIA H100 80GB HBM3
#  Rank  1 Group  0 Pid  12345 on    node-01 device  1 [0000:0a:00] NVIDIA H100 80GB HBM3
#
#                                                              out-of-place                       in-place
#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong
#        (B)    (elements)                               (us)  (GB/s)  (GB/s)             (us)  (GB/s)  (GB/s)
";
const FOOTER: &str = "# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 1.2e+02 \n#\n";

#[test]
fn recorded_runs_on_eight_h200() {
    let table = only(&fixture("reports/nccl-tests-all_reduce.log"));
    assert_eq!((table.collective.as_deref(), table.ranks, table.rows.len(), table.wrong), (Some("all_reduce"), Some(8), 15, Some(0)));
    let peak = table.peak.unwrap();
    assert_eq!((peak.busbw_gbytes_per_s, peak.size_bytes, peak.in_place), (363.73, 2_147_483_648, true));
    assert_eq!((table.avg_busbw_gbytes_per_s, table.complete, table.fast_enough), (Some(106.831), true, None));
    assert_eq!(judge(&table, "x.log"), []);

    let table = only(&fixture("reports/nccl-tests-1G.log"));
    assert_eq!((table.rows.len(), table.wrong, table.peak_busbw_gbytes_per_s()), (1, None, Some(360.51)));
    assert_eq!((table.first_line, table.complete), (1, true));

    let table = only(&fixture("reports/nccl-tests-sendrecv.log"));
    assert_eq!((table.collective.as_deref(), table.rows.len(), table.wrong), (Some("sendrecv"), 15, Some(0)));
    assert_eq!((table.rows[0].out_of_place.unwrap().wrong, table.rows[0].in_place.unwrap().wrong), (Some(0), None));
    assert_eq!(judge(&table, "x.log"), []);
}

#[test]
fn what_is_left_of_a_run_begins_a_table_too() {
    let row = "     8388608       2097152     float     sum      -1    96.14   87.25  163.60      0    95.30   88.02  165.04      0";
    let header = "#       size         count      type   redop    root     time   algbw   busbw  #wrong     time   algbw   busbw  #wrong";
    // As `srun -l` puts them out.
    let numbered = format!(" 0: {row}");
    for line in [
        row,
        header,
        "# Out of bounds values : 3 FAILED",
        "# Avg bus bandwidth    : 106.831 ",
        "node-1: # Avg bus bandwidth : 1 ",
        &numbered,
    ] {
        assert!(begins(line.as_bytes()), "{line}");
    }
    for line in
        ["12 34 steps done in 5 6 7 8", "  8388608 of 9000000 float", "# size of the batch: 8", "1/10 [00:01<00:02]", "8 2 float sum"]
    {
        assert!(!begins(line.as_bytes()), "{line}");
    }
    let table = only(&format!("{row}\n"));
    assert_eq!((table.rows.len(), table.excerpt, judge(&table, "x.log").len()), (1, true, 0));
    let table = only("# Avg bus bandwidth    : 106.831 \n");
    assert_eq!((table.avg_busbw_gbytes_per_s, table.complete, judge(&table, "x.log").len()), (Some(106.831), true, 0));
    assert_eq!(judge(&only("# Out of bounds values : 3 FAILED\n"), "x.log").len(), 1);
}

#[test]
fn rows_of_all_versions_and_options() {
    let row =
        row_of("           8             2     float     sum      -1    21.35    0.00    0.00       0    20.98    0.01    0.02       3");
    assert_eq!((row.size_bytes, row.count, row.dtype.as_str(), row.redop.as_deref(), row.root), (8, 2, "float", Some("sum"), None));
    let side = |time, algbw, busbw, wrong| Some(Side { time_us: Some(time), algbw: Some(algbw), busbw: Some(busbw), wrong });
    assert_eq!((row.out_of_place, row.in_place), (side(21.35, 0.0, 0.0, Some(0)), side(20.98, 0.01, 0.02, Some(3))));

    let row =
        row_of("  1073741824     268435456     float    none       3    12345  1.2e+07    0.02    N/A   1e+07    0.01    0.02    N/A");
    assert_eq!((row.root, row.out_of_place.unwrap().algbw, row.in_place.unwrap().time_us), (Some(3), Some(1.2e7), Some(1e7)));

    let row = row_of("        1024           256   f8e4m3     sum      -1    21.35    0.00    0.00       0  2026-01-02 10:11:12");
    assert_eq!((row.out_of_place.is_some(), row.in_place), (true, None));
    let row =
        row_of("        1024           256    float     sum      -1                                    21.35    0.05    0.09       0");
    assert_eq!((row.out_of_place, row.in_place.unwrap().busbw), (None, Some(0.09)));

    let iterations =
        "1 2 float sum -1  21.35 0.10 0.20 0  20.00 22.00 21.90 1.50  22.35 0.30 0.40 0  20.00 22.00 21.90 1.50 2026-01-02 10:11:12";
    let row = row_of(iterations);
    assert_eq!((row.out_of_place.unwrap().busbw, row.in_place.unwrap().busbw), (Some(0.2), Some(0.4)));

    let row = row_of("           8             2   float     sum    21.35    0.00    0.00  0e+00    20.98    0.00    0.00  1e-07");
    assert_eq!((row.root, row.out_of_place.unwrap().wrong, row.in_place.unwrap().wrong), (None, Some(0), None));
    let row = row_of("           8             2   float    21.35    0.00    0.00  0e+00    20.98    0.00    0.00  0e+00");
    assert_eq!((row.redop, row.in_place.unwrap().time_us), (None, Some(20.98)));
}

#[test]
fn an_old_error_column_is_no_count() {
    let text = "# nThread 1 nGpus 1 minBytes 8 maxBytes 8 step: 1048576(bytes) warmup iters: 5 iters: 20 validation: 1\n\
        #   Rank  0 Pid  12345 on node-01 device  0 [0x07] Tesla V100\n#   Rank  1 Pid  12345 on node-01 device  1 [0x0a] Tesla V100\n\
        #       size         count    type   redop     time   algbw   busbw  error     time   algbw   busbw  error\n\
        8  2  float  sum  21.35  0.00  0.00  1e-07  20.98  0.00  0.00  2e+00\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 0\n";
    let table = only(text);
    assert_eq!((table.ranks, table.wrong, table.complete, table.rows.len()), (Some(2), Some(0), true, 1));
    // Nothing was to be checked: that nothing is wrong, nobody knows.
    assert_eq!(only(&text.replace("validation: 1", "validation: 0").replace("1e-07", "N/A").replace("2e+00", "N/A")).wrong, None);
    let failed = only(&text.replace(": 0 OK", ": 2 FAILED"));
    assert_eq!(judge(&failed, "x.log")[0].summary, "nccl-tests: 2 results out of bounds");
}

#[test]
fn rows_torn_by_lines_of_nccl_are_put_together() {
    let rows = "           8             2     float     sum      -1vm:10:11 [2] NCCL INFO Channel 00/0 : 2[2] -> 3[3] via P2P/CUMEM\n\
        vm:10:11 [2] NCCL INFO Connected all rings\n    21.35    1.00    2.00       0[2026-01-01 10:00:00] vm:10:11 [1] a.cc:1 NCCL WARN boom\n\
        \x20   20.98    1.50    2.50       0\n          32             8     float     sum      -1    21.00    3.00    4.00       7vm:10:12 [3] NCCL INFO y\n\
        \x20   20.00    3.50    4.50       8\n         128            32     float     sum      -1vm:10:12 [3] NCCL INFO y\n";
    let table = only(&format!("{HEADER}{rows}"));
    assert_eq!(table.rows.len(), 2, "{table:#?}");
    let busbw = |row: &Row| [row.out_of_place, row.in_place].map(|side| side.and_then(|side| side.busbw));
    assert_eq!(busbw(&table.rows[0]), [Some(2.0), Some(2.5)]);
    assert_eq!(busbw(&table.rows[1]), [Some(4.0), Some(4.5)]);
    assert_eq!((table.wrong, table.unfinished, table.complete), (Some(15), Some((128, 16)), false));
    let found = judge(&table, "x.log");
    assert_eq!((found[0].severity, found[0].evidence[0].line), (Severity::Error, Some(14)));
    assert_eq!(
        (found[1].severity, found[1].summary.as_str()),
        (Severity::Warning, "nccl-tests all_reduce did not finish: it stopped at 128 B")
    );
}

#[test]
fn the_size_at_which_a_run_stopped_is_given_in_words() {
    for (bytes, words) in [(8, "8 B"), (4096, "4 KiB"), (1_572_864, "1.5 MiB"), (1 << 30, "1 GiB")] {
        let table = only(&format!("{HEADER}{bytes} 2 float sum -1vm:10:12 [3] NCCL INFO y\n"));
        assert_eq!(judge(&table, "x")[0].summary, format!("nccl-tests did not finish: it stopped at {words}"));
    }
}

#[test]
fn launchers_may_stand_in_front() {
    let row = "  134217728      33554432     float     sum      -1    551.3  243.46  426.05       0    549.8  244.12  427.21       0";
    for prefix in ["[1,0]<stdout>:", "0: ", "node-01: "] {
        let text: String = format!("{HEADER}{row}\n{FOOTER}").lines().map(|line| format!("{prefix}{line}\n")).collect();
        let table = only(&text);
        assert_eq!((table.rows.len(), table.ranks, table.complete), (1, Some(2), true), "{prefix}");
        assert_eq!((table.collective.as_deref(), table.avg_busbw_gbytes_per_s), (Some("all_reduce"), Some(120.0)), "{prefix}");
    }
}

#[test]
fn the_collective_is_guessed_from_what_the_columns_say() {
    let guess = |redop, root, algbw, busbw| {
        only(&format!("1024 256 float {redop} {root} 10.0 {algbw} {busbw} 0 10.0 {algbw} {busbw} 0")).collective
    };
    assert_eq!(guess("sum", -1, 100, 175).as_deref(), Some("all_reduce"));
    assert_eq!(guess("sum", -1, 100, 87).as_deref(), Some("reduce_scatter"));
    assert_eq!(guess("sum", 0, 100, 100).as_deref(), Some("reduce"));
    assert_eq!(guess("none", 0, 100, 100).as_deref(), Some("broadcast"));
    assert_eq!((guess("none", -1, 100, 87), guess("sum", -1, 100, 100), guess("sum", -1, 0, 0)), (None, None, None));
}

#[test]
fn several_runs_in_one_file() {
    let row = "1024 256 float sum -1 10.0 100.0 175.0 0 10.0 100.0 175.0 0";
    let run = |name| {
        format!(
            "# nccl-tests version 2.17.8 nccl-headers=22809 nccl-library=22809\n# Collective test starting: {name}_perf\n{HEADER}{row}\n{FOOTER}# Collective test concluded: {name}_perf\n"
        )
    };
    let all = tables(&format!("some log\n{}between\n{}", run("all_reduce"), run("reduce_scatter")));
    let seen: Vec<_> = all.iter().map(|t| (t.collective.as_deref(), t.rows.len(), t.ranks, t.first_line, t.last_line)).collect();
    assert_eq!(seen, [(Some("all_reduce"), 1, Some(2), 2, 17), (Some("reduce_scatter"), 1, Some(2), 19, 34)]);
    assert!(all.iter().all(|table| table.complete));
}

#[test]
fn a_run_that_ends_before_its_first_row_is_a_run() {
    let killed: String = HEADER.lines().take(5).map(|line| format!("{line}\n")).collect();
    let all = tables(&format!("{killed}{HEADER}8 2 float sum -1 1.0 0.0 0.0 0 1.0 0.0 0.0 0\n{FOOTER}"));
    assert_eq!(all.iter().map(|table| (table.rows.len(), table.complete)).collect::<Vec<_>>(), [(0, false), (1, true)]);
    assert_eq!(judge(&all[0], "x")[0].summary, "nccl-tests did not finish: it stopped before its first result");
}

#[test]
fn failures_are_errors_with_their_lines() {
    let text = format!(
        "{HEADER}vm: Test NCCL failure common.cu:303 'unhandled cuda error (run with NCCL_DEBUG=INFO for details) / '\n\
         \x20.. vm pid 77: Test failure common.cu:401\n# error: Cuda failure 'out of memory'\n"
    );
    let table = only(&text);
    assert_eq!(table.failures.iter().map(|f| (f.line, f.fatal)).collect::<Vec<_>>(), [(10, true), (11, true), (12, false)]);
    let found = judge(&table, "x.log");
    assert_eq!((found.len(), found[0].severity, found[0].evidence[0].line), (1, Severity::Error, Some(10)));
    assert!(found[0].summary.starts_with("nccl-tests failed on vm: Test NCCL failure common.cu:303"), "{}", found[0].summary);
    for line in [
        "vm: Test CUDA failure common.cu:891 'invalid device ordinal'",
        "vm: Test timeout (60s) common.cu:12",
        "Invalid number of GPUs: 8 requested but only 4 were found.",
    ] {
        assert_eq!(judge(&only(line), "x")[0].severity, Severity::Error, "{line}");
    }
    let early = only(&format!("vm: Test CUDA failure common.cu:891 'x'\n{HEADER}8 2 float sum -1"));
    assert_eq!((early.failures.len(), early.ranks, judge(&early, "x").len()), (1, Some(2), 1), "stderr is not buffered");
    let finished = only(&format!("{HEADER}8 2 float sum -1 1.0 0.0 0.0 0 1.0 0.0 0.0 0\n{FOOTER}# error: something\n"));
    assert_eq!(judge(&finished, "x")[0].severity, Severity::Warning);
}

#[test]
fn the_last_lines_tell_failures_too() {
    let slow = only(&format!(
        "{HEADER}8 2 float sum -1 1.0 0.0 0.0 0 1.0 0.0 0.0 0\n# Out of bounds values : 0 OK\n# Avg bus bandwidth    : 12.5 FAILED\n"
    ));
    assert_eq!((slow.fast_enough, judge(&slow, "x")[0].severity), (Some(false), Severity::Error));
}

#[test]
fn a_curve_that_falls_is_worth_a_word() {
    let rows = |last: f64| {
        let row = |size: u64, busbw: f64| format!("{size} 256 float sum -1 10.0 100.0 {busbw} 0 10.0 100.0 {busbw} 0\n");
        format!("{HEADER}{}{}{}{FOOTER}", row(1 << 20, 80.0), row(32 << 20, 300.0), row(1 << 30, last))
    };
    assert_eq!(judge(&only(&rows(280.0)), "x"), []);
    let found = judge(&only(&rows(150.0)), "x");
    assert_eq!((found.len(), found[0].severity), (1, Severity::Info));
    assert_eq!(found[0].summary, "nccl-tests all_reduce: 150.0 GB/s at 1 GiB, but 300.0 GB/s at 32 MiB");
}

#[test]
fn a_size_that_breaks_in_between_two_others_is_a_warning() {
    let rows = |dip: f64| {
        let row = |size: u64, busbw: f64| format!("{size} 256 float sum -1 10.0 100.0 {busbw} 0 10.0 100.0 {busbw} 0\n");
        format!("{HEADER}{}{}{}{FOOTER}", row(4 << 20, 12.5), row(8 << 20, dip), row(16 << 20, 28.0))
    };
    assert_eq!(judge(&only(&rows(5.0)), "x"), []);
    let found = judge(&only(&rows(0.4)), "x");
    assert_eq!((found.len(), found[0].severity), (1, Severity::Warning));
    assert!(found[0].summary.ends_with(": 0.40 GB/s at 8 MiB, but 12.5 GB/s at 4 MiB and 28.0 GB/s at 16 MiB"), "{}", found[0].summary);
}

#[test]
fn ordinary_logs_hold_no_table() {
    let log = fixture("logs/hang.log");
    assert_eq!(tables(&log), []);
    assert_eq!(
        tables(
            "# size 3\n# Rank 0\n# Out of memory\n  1 2 3\n 8 2 apples sum -1 1 2 3 4\nTest failure\nunit: Test failure 3\n[1,0]<stdout>:\n"
        ),
        []
    );
}

proptest! {
    #[test]
    fn no_text_makes_it_panic(cuts in proptest::collection::vec((0_usize..4000, 0_usize..40, "\\PC{0,6}"), 1..4)) {
        let mut text = format!("{HEADER}8 2 float sum -1vm:1:2 [0] NCCL INFO x\n 1.0 2.0 3.0 0\n8 2 float sum -1 1 2 3 N/A 1 2 3 4 2026-01-01 10:10:10\n{FOOTER}");
        for (at, len, with) in cuts {
            let at = at.min(text.len());
            if let (Some(before), Some(after)) = (text.get(..at), text.get((at + len).min(text.len())..)) {
                text = format!("{before}{with}{after}");
            }
        }
        for table in tables(&text) {
            judge(&table, "x");
        }
    }

    #[test]
    fn no_line_makes_it_panic(lines in proptest::collection::vec("#? {0,14}([0-9eE.+-]{0,8} {0,3}|float|sum|N/A|size|Avg bus bandwidth :|Out of bounds values :|Rank|\\PC{0,3}){0,16}", 0..8)) {
        for table in tables(&lines.join("\n")) {
            judge(&table, "x");
        }
    }
}
