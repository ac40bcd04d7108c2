//! Thousands of different warnings do not hide an error: not in findings, not in what is printed, not in the exit code. What had no room
//! is counted.

use crate::support::screen::Screen;
use nccl_top::base::severity::Severity;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::logs::prefilter::Class;
use nccl_top::model::log::{Kept, Logbook};
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::tape::{Header, VERSION, Writer};
use nccl_top::rules::findings::{Change, Finding, Ledger, Life};
use nccl_top::sources::tail::cut::{End, Piece};
use nccl_top::sources::tail::sift::{Excess, Flow, PRESSURE_BYTES, Pressure, Sift};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ERROR: &str = "node-01:100:200 [0] NCCL WARN NET/IB: Got completion from peer 10.0.0.2<40001> with status=12 opcode=1 len=0 vendor err 129 (Send) localGid ::ffff:10.8.0.1 remoteGids::ffff:10.8.0.2 hca mlx5_3";
const ENTRY: &str = "ib-retry-exceeded";
const LEFT_OUT: &str = "findings-left-out";

/// A number that looks like a pointer and begins with a letter.
fn pointer(i: u64) -> String {
    format!("0x{:012x}", 0xa000_0000_0000 | (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) & 0xffff_ffff_ffff))
}

/// A word without digits, another one for each number.
fn word(mut i: u64) -> String {
    let mut word = String::new();
    for _ in 0..6 {
        word.push(char::from(b'g' + (i % 19) as u8));
        i /= 19;
    }
    word
}

fn warn(what: &str) -> String {
    format!("node-01:100:200 [0] NCCL WARN odd thing {what} seen")
}

fn run(args: &[&str]) -> (i32, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_nccl-top"))
        .args(args)
        .env("LC_ALL", "C.UTF-8")
        .env("TZ", "UTC")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    (out.status.code().unwrap(), String::from_utf8(out.stdout).unwrap())
}

/// The report of `check`, its exit code, and its text.
fn checked(lines: impl Iterator<Item = String>) -> (i32, Value, String) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.log");
    let text = lines.fold(String::new(), |text, line| text + &line + "\n");
    std::fs::write(&path, text).unwrap();
    let path = path.to_str().unwrap();
    let (code, json) = run(&["check", "--json", path]);
    let (same, text) = run(&["check", path]);
    assert_eq!(code, same);
    (code, serde_json::from_str(&json).unwrap(), text)
}

/// The findings of a rule on texts that the catalogue does not know.
fn of_rule<'a>(report: &'a Value, rule: &str) -> Vec<&'a Value> {
    report["findings"].as_array().unwrap().iter().filter(|f| f["rule"] == rule && f["signature"].is_null()).collect()
}

#[test]
fn check_names_an_error_behind_any_number_of_warnings() {
    for n in [129, 1_000, 100_000] {
        let lines = (0..n).map(|i| warn(&word(i))).chain([ERROR.to_owned()]);
        let (code, report, text) = checked(lines);
        assert_eq!(code, 1, "{n} warnings");
        assert_eq!(report["root_cause"]["signature"], ENTRY, "{n} warnings: {}", report["root_cause"]);
        let kept = of_rule(&report, "nccl-warn").len() as u64;
        let left_out = of_rule(&report, LEFT_OUT);
        assert_eq!(left_out.len(), 1, "{n} warnings");
        assert_eq!(left_out[0]["count"], n - kept, "{n} warnings, {kept} kept");
        assert!(text.contains("counted and not kept"), "{text}");
    }
}

#[test]
fn the_same_warning_with_another_pointer_is_one_finding_with_a_count() {
    for n in [129, 1_000, 100_000] {
        let (code, report, _) = checked((0..n).map(|i| warn(&pointer(i))).chain([ERROR.to_owned()]));
        assert_eq!((code, &report["root_cause"]["signature"]), (1, &Value::from(ENTRY)));
        let warns = of_rule(&report, "nccl-warn");
        assert_eq!(warns.iter().map(|f| f["count"].as_u64().unwrap()).collect::<Vec<_>>(), [n]);
        assert!(of_rule(&report, LEFT_OUT).is_empty());
    }
}

#[test]
fn check_names_an_error_behind_other_texts_of_its_own_severity() {
    let exception = |i| format!("Traceback (most recent call last):\n  File \"a.py\", line 1, in f\nValueError: {}", word(i));
    let (code, report, _) = checked((0..25_000).map(exception).chain([ERROR.to_owned()]));
    assert_eq!(code, 1);
    let signatures: Vec<&Value> = report["findings"].as_array().unwrap().iter().map(|f| &f["signature"]).collect();
    assert!(signatures.contains(&&Value::from(ENTRY)), "{signatures:?}");
}

/// A session that follows one log.
struct Log {
    session: Session,
    seen: Vec<Observation>,
    events: Vec<(Stamp, Event)>,
    no: u64,
}

impl Log {
    fn new() -> Log {
        let mut log = Log { session: Session::new("node-01", Zone::UTC), seen: Vec::new(), events: Vec::new(), no: 0 };
        log.sees(Body::LogFile(LogFileInfo { file: 1, path: "/logs/train.log".into(), ..Default::default() }));
        log
    }

    fn sees(&mut self, body: Body) {
        let at = Stamp(1_000_000_000_000 + self.seen.len() as i64 * 1_000_000_000);
        let seen = Observation { at, host: None, from: SourceId::of("tail"), body };
        self.session.apply(&seen, &mut self.events);
        self.seen.push(seen);
    }

    fn lines(&mut self, texts: impl Iterator<Item = String>) {
        let no = self.no;
        let lines: Vec<Line> = texts.zip(no + 1..).map(|(text, no)| Line { no: Some(no), text, ..Default::default() }).collect();
        self.no += lines.len() as u64;
        self.sees(Body::Lines(Lines { file: 1, lines, ..Default::default() }));
        self.sees(Body::Tick);
    }

    fn opened(&self) -> impl Iterator<Item = &Finding> {
        self.events.iter().filter_map(|(_, event)| match event {
            Event::Finding(Change::Opened(f)) => Some(&**f),
            _ => None,
        })
    }
}

#[test]
fn a_followed_log_reports_an_error_behind_any_number_of_warnings() {
    for n in [129_u64, 1_000, 20_000] {
        let mut log = Log::new();
        for part in 0..n.div_ceil(1000) {
            log.lines((part * 1000..n.min((part + 1) * 1000)).map(|i| warn(&word(i))));
        }
        log.lines([ERROR.to_owned()].into_iter());
        assert!(log.opened().any(|f| f.signature == Some(ENTRY)), "{n} warnings");
        let open = log.session.ledger.open();
        assert!(open.iter().any(|f| f.signature == Some(ENTRY) && f.severity >= Severity::Error), "{n} warnings");
        let left_out = open.iter().find(|f| f.rule == LEFT_OUT).expect("what had no room is reported");
        let kept = open.iter().filter(|f| f.rule == "nccl-warn" && f.signature.is_none()).count() as u64;
        assert_eq!(left_out.count, n - kept, "{n} warnings");
        let announced: Vec<u64> = log.opened().filter(|f| f.rule == LEFT_OUT).map(|f| f.count.ilog10().into()).collect();
        let different: BTreeSet<u64> = announced.iter().copied().collect();
        assert_eq!(announced.len(), different.len(), "it is reported anew when there are ten times as many");
    }
}

#[test]
fn a_recording_of_a_flood_of_warnings_exits_as_its_error_says() {
    let mut log = Log::new();
    log.lines((0..1_000).map(|i| warn(&word(i))));
    log.lines([ERROR.to_owned()].into_iter());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("flood.jsonl");
    let header = Header {
        tape: "nccl-top".into(),
        version: VERSION,
        program: "0".into(),
        host: "node-01".into(),
        zone_offset_s: 0,
        boot_id: None,
        interval_ms: 1000,
        started_ns: Stamp(1),
    };
    let mut tape = Writer::create(&path, &header).unwrap();
    log.seen.iter().for_each(|seen| tape.write(seen).unwrap());
    tape.finish().unwrap();
    let path = path.to_str().unwrap();
    let (code, printed) = run(&["replay", "--headless", "--json", path]);
    assert_eq!(code, 1);
    assert!(printed.contains(ENTRY) && printed.contains(LEFT_OUT), "{}", &printed[..printed.len().min(2000)]);
    let (code, report) = run(&["check", "--json", path]);
    assert_eq!(code, 1);
    assert!(report.contains(ENTRY) && report.contains(LEFT_OUT));
}

#[test]
fn an_error_is_passed_on_behind_more_different_warnings_than_one_read_has_room_for() {
    let mut text = String::new();
    (0..50_000).for_each(|i| writeln!(text, "{}", warn(&word(i))).unwrap());
    text.push_str(ERROR);
    text.push('\n');
    let mut sift = Sift::new(Excess::Drop);
    sift.begin(PRESSURE_BYTES + 1);
    for (line, no) in text.lines().zip(1..) {
        sift.take(Piece { text: line.as_bytes(), offset: 0, len: line.len() as u64 + 1, no: Some(no), end: End::Line });
    }
    let lines = sift.finish(1, false).unwrap();
    assert_eq!(lines.lines.last().unwrap().text, ERROR);
    assert_eq!(lines.alarms_left_out + lines.lines.len() as u64, 50_001, "all others are counted");
    assert_eq!(lines.folded_alarms, 0, "none was equal to another");
}

/// What one read of a lasting flood of 3,500 lines with WARNs among them passes on.
fn read_of_a_flood(sift: &mut Sift, read: u64, warns: u64) -> Lines {
    sift.begin_under(Pressure::Lasting);
    let mut take = |no: u64, text: &str| {
        sift.take(Piece { text: text.as_bytes(), offset: 0, len: text.len() as u64 + 1, no: Some(no), end: End::Line });
    };
    for i in 0..3500 {
        let no = read * 10_000 + i;
        match i % 4 {
            0 => take(no, &format!("[rank{}]: iteration {no} | loss 0.{no} | step time 100 ms | lr 3e-4", i % 8)),
            1 => take(no, &format!("n:1:2 [0] NCCL INFO Channel {:02}/0 : 0[0] -> 1[1] via P2P/CUMEM", i % 32)),
            2 => take(no, "noise that nobody reads"),
            _ => take(no, &format!("more noise of worker {i}")),
        }
        if i < warns {
            take(no, &warn(&word(read * 100 + i)));
        }
    }
    sift.finish(1, false).unwrap()
}

#[test]
fn a_warning_in_a_flood_is_handed_on_by_the_read_that_brought_it_with_few_other_lines() {
    let mut sift = Sift::new(Excess::Drop);
    for read in 0..20 {
        let lines = read_of_a_flood(&mut sift, read, 4);
        let warns = lines.lines.iter().filter(|l| l.text.contains("NCCL WARN")).count();
        assert_eq!(warns, 4, "none waits for the next read");
        assert!(lines.lines.len() < 60, "{} lines stand before what comes next", lines.lines.len());
        assert_eq!(lines.lines.len() as u64 + lines.dropped_lines, 3504, "what is left out is counted");
        assert!(lines.lines.is_sorted_by_key(|l| l.no), "the order is kept");
        let newest = lines.lines.iter().rfind(|l| l.text.contains("iteration")).unwrap();
        assert_eq!(newest.no, Some(read * 10_000 + 3496), "the newest step is among them");
    }
}

#[test]
fn a_file_is_a_flood_when_it_brings_megabytes_in_each_of_some_seconds() {
    let start = Instant::now();
    let after = |ms: u64| start + Duration::from_millis(ms);
    let mut flow = Flow::default();
    assert_eq!(flow.meets(PRESSURE_BYTES + 1, after(0)), Pressure::Once, "a burst is none");
    assert_eq!(flow.meets(1000, after(1200)), Pressure::None);
    let reads: Vec<Pressure> = (0..100).map(|i| flow.meets(200_000, after(2500 + i * 40))).collect();
    assert_eq!((reads[0], reads[99]), (Pressure::None, Pressure::Lasting));
    assert_eq!(flow.meets(1000, after(10_000)), Pressure::None, "it is over");
}

/// Seconds of processor time, and MiB of memory, of a process.
fn cost_of(pid: u32) -> (f64, f64) {
    let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap();
    let (stat, status) = (read("stat"), read("status"));
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    let ticks: u64 = fields[11..13].iter().map(|n| n.parse::<u64>().unwrap()).sum();
    let kb = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).unwrap().trim().trim_end_matches(" kB").parse::<f64>().unwrap();
    (ticks as f64 / 100.0, kb / 1024.0)
}

/// `cargo test --release --test it floods::measure -- --ignored --nocapture`: what 100,000 lines a second cost the screen, and how late it
/// shows a WARN, 1 and 100 a second. Takes a minute. `PROGRAM` names another program to measure, to compare two on one machine.
#[test]
#[ignore = "measures; what it finds depends on the machine"]
#[allow(clippy::print_stdout)]
fn measure_the_screen_under_a_flood() {
    for warns_per_s in [1, 100] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("proc")).unwrap();
        let path = dir.path().join("flood.log");
        std::fs::write(&path, "").unwrap();
        let program = std::env::var("PROGRAM").unwrap_or(env!("CARGO_BIN_EXE_nccl-top").into());
        let mut screen = Screen::start_program(program.as_ref(), &["--sysroot", ".", "flood.log"], dir.path(), &[], 60, 200);
        screen.wait_for("flood.log");
        // The log alone, and of it WARN and worse.
        screen.keys("7ww");
        let block: String = (0..1000).fold(String::new(), |mut block, i| {
            let _ = match i % 3 {
                0 => writeln!(block, "[rank{}]: iteration {i} | loss 1.{i} | step time 100 ms | lr 3e-4", i % 8),
                1 => writeln!(block, "n:1:2 [0] NCCL INFO Channel {:02}/0 : 0[0] -> 1[1] via P2P/CUMEM", i % 32),
                _ => writeln!(block, "INFO dataloader worker {} loaded shard {i}", i % 13),
            };
            block
        });
        let start = Instant::now();
        let mut file = std::fs::OpenOptions::new().append(true).open(&path).unwrap();
        let (mut delays, mut waits, mut before) = (Vec::new(), None, None);
        for tick in 0..2500_u64 {
            file.write_all(block.as_bytes()).unwrap();
            if tick % (100 / warns_per_s) == 0 {
                let text = word(tick * 7);
                writeln!(file, "{}", warn(&text)).unwrap();
                waits = waits.or(Some((text, Instant::now())));
            }
            if tick == 1000 {
                before = Some((cost_of(screen.pid()), screen.raw().len(), Instant::now()));
            }
            while start.elapsed() < Duration::from_millis(10 * (tick + 1)) {
                if let Some((_, since)) = waits.take_if(|(text, _)| screen.text().contains(text.as_str())) {
                    delays.push(since.elapsed().as_secs_f64());
                }
                std::thread::sleep(Duration::from_millis(3));
            }
        }
        let ((cpu, _), bytes, since) = before.unwrap();
        let (seconds, (now, peak)) = (since.elapsed().as_secs_f64(), cost_of(screen.pid()));
        delays.sort_by(f64::total_cmp);
        let (median, worst) = (delays.get(delays.len() / 2), delays.last());
        println!(
            "{warns_per_s} WARN/s: {:.1} % of a core, peak {peak:.1} MiB, {:.0} bytes/s, WARN shown after {median:.3?} s, at most {worst:.3?} s ({} looked for)",
            (now - cpu) / seconds * 100.0,
            (screen.raw().len() - bytes) as f64 / seconds,
            delays.len(),
        );
    }
}

fn kept(class: Class, text: &str) -> Kept {
    Kept { at: Stamp(0), file: 1, no: None, rank: None, class, backlog: false, text: text.into() }
}

#[test]
fn noise_pushes_no_warning_out_of_the_kept_lines_and_the_order_stays() {
    let mut book = Logbook::default();
    for i in 0..200_000_u64 {
        let class = match i {
            _ if i % 1000 == 7 => Class::Alarm,
            _ if i % 50 == 3 => Class::Fact,
            _ => Class::Noise,
        };
        book.push(kept(class, &i.to_string()), false);
    }
    let of = |class: Class| book.iter().filter(|l| l.class == class).map(|l| l.text.parse().unwrap()).collect::<Vec<u64>>();
    assert_eq!(of(Class::Alarm).len(), 200, "every WARN is kept");
    assert_eq!(of(Class::Alarm)[0], 7);
    assert_eq!(of(Class::Fact).len(), 4000, "and every fact");
    assert!(of(Class::Noise).len() >= 1000 && of(Class::Noise).last() == Some(&199_999), "and the newest noise");
    assert_eq!((book.end(), book.alarms()), (200_000, 200));

    let numbers: Vec<u64> = book.numbered().map(|(n, _)| n).collect();
    assert!(numbers.is_sorted() && numbers.iter().all(|n| book.get(*n).unwrap().text.parse() == Ok(*n)));
    let mut back: Vec<u64> = book.numbered().rev().map(|(n, _)| n).collect();
    back.reverse();
    assert_eq!(numbers, back);
    let (after, before) = book.around(100_007);
    let (after, mut before): (Vec<u64>, Vec<u64>) = (after.map(|(n, _)| n).collect(), before.map(|(n, _)| n).collect());
    before.reverse();
    assert_eq!(after[0], 100_007);
    assert_eq!([before, after].concat(), numbers);
    let mut both = book.numbered();
    let ends: Vec<u64> = std::iter::from_fn(|| Some([both.next()?.0, both.next_back()?.0])).flatten().collect();
    assert_eq!(ends.iter().copied().collect::<BTreeSet<_>>().len(), ends.len(), "from both ends, each line once");
    assert_eq!(book.get(8), None, "noise of long ago is gone");
}

#[test]
fn a_bar_replaces_the_bar_before_it_whatever_else_is_kept() {
    let mut book = Logbook::default();
    book.push(kept(Class::Alarm, "warn"), false);
    book.push(kept(Class::Fact, "10%"), false);
    book.push(kept(Class::Noise, "20%"), true);
    book.push(kept(Class::Fact, "30%"), true);
    let shown: Vec<(u64, &str)> = book.numbered().map(|(n, l)| (n, &*l.text)).collect();
    assert_eq!(shown, [(0, "warn"), (1, "30%")]);
}

fn finding(rule: &'static str, severity: Severity, subject: u64) -> Finding {
    Finding::new(rule, severity, subject.to_string(), "it", Stamp(0))
}

const TEXT: Life = Life { hold: Duration::ZERO, linger: None, renews: false };

#[test]
fn no_text_takes_the_room_of_another_and_an_error_takes_that_of_a_warning() {
    let mut ledger = Ledger::default();
    let warnings = ["a", "b", "c", "d", "e", "f"];
    for rule in warnings {
        (0..1000).for_each(|i| ledger.saw(Stamp(1), finding(rule, Severity::Warning, i), TEXT, 1));
    }
    let count = |ledger: &Ledger, of: &str| ledger.open().iter().filter(|f| f.rule == of).count();
    assert!(warnings.iter().all(|rule| count(&ledger, rule) > 50), "each has its share");
    let open = ledger.open().len();
    ledger.saw(Stamp(2), finding("rare", Severity::Warning, 0), TEXT, 1);
    (0..100).for_each(|i| ledger.saw(Stamp(3), finding("a", Severity::Error, 5000 + i), TEXT, 1));
    assert_eq!((count(&ledger, "rare"), count(&ledger, "a") >= 100, ledger.open().len()), (1, true, open));
    let seen = warnings.len() as u64 * 1000 + 101;
    let left_out: u64 = ledger.left_out().map(|(_, _, left)| left.times).sum();
    assert_eq!(left_out + open as u64, seen, "what is not open is counted");
    assert!(ledger.open().iter().filter(|f| f.rule == "b").any(|f| f.subject == "0"), "the first stays: it may be the cause");
}

#[test]
fn what_is_left_out_is_reported_where_all_room_is_taken_by_errors() {
    let mut ledger = Ledger::default();
    for rule in ["a", "b", "c", "d", "e", "f"] {
        (0..1000).for_each(|i| ledger.saw(Stamp(1), finding(rule, Severity::Error, i), TEXT, 1));
    }
    ledger.saw(Stamp(2), finding(LEFT_OUT, Severity::Warning, 0), TEXT, 0);
    (0..100).for_each(|i| ledger.saw(Stamp(3), finding("g", Severity::Critical, i), TEXT, 1));
    assert!(ledger.open().iter().any(|f| f.rule == LEFT_OUT));
}

#[test]
fn what_is_past_forgets_what_is_least_severe_first() {
    let mut ledger = Ledger::default();
    ledger.saw(Stamp(1), finding("bad", Severity::Error, 0), TEXT, 1);
    ledger.clear_where(Stamp(2), "over", |_| true);
    for i in 0..2000 {
        ledger.saw(Stamp(3), finding("noisy", Severity::Warning, i), TEXT, 1);
        ledger.clear_where(Stamp(4), "over", |_| true);
    }
    assert!(ledger.past().any(|f| f.rule == "bad"));
    assert!(ledger.past().count() < 1000);
}

#[test]
fn the_same_subject_at_a_higher_level_is_reported_as_that() {
    let mut ledger = Ledger::default();
    ledger.saw(Stamp(1), finding("it", Severity::Warning, 0), TEXT, 1);
    ledger.take_changes();
    ledger.saw(Stamp(2), finding("it", Severity::Error, 0), TEXT, 1);
    assert_eq!((ledger.open()[0].severity, ledger.open()[0].count), (Severity::Error, 2));
    assert_eq!(ledger.take_changes().len(), 1);
}

#[test]
fn check_counts_the_ranks_that_failed_behind_any_number_of_unknown_warnings() {
    let failed = |rank: u64| {
        format!(
            "[rank{rank}]: Traceback (most recent call last):\n[rank{rank}]:   File \"a.py\", line 1, in f\n[rank{rank}]: ValueError: {}",
            word(rank)
        )
    };
    let (code, report, _) = checked((0..1100).map(|i| warn(&word(i))).chain((0..40).map(failed)));
    let raised = of_rule(&report, "python-exception");
    assert_eq!((code, &raised[0]["count"]), (1, &Value::from(40)), "{raised:?}");
    let (_, report, _) = checked((0..2000).map(|i| warn(&word(i))));
    let why = of_rule(&report, LEFT_OUT)[0]["why"].to_string();
    assert!(why.contains("too many others (warning at most)"), "{why}");
}

#[test]
fn what_readers_put_together_is_not_sampled_in_a_flood() {
    let mut sift = Sift::new(Excess::Drop);
    sift.begin_under(Pressure::Lasting);
    let mut given = 0;
    let mut take = |text: &str| {
        given += 1;
        sift.take(Piece { text: text.as_bytes(), offset: 0, len: text.len() as u64 + 1, no: Some(given), end: End::Line });
    };
    for rank in 0..64 {
        for line in [
            &format!("[{rank}]:"),
            "  time      : 2026-11-22_08:57:50",
            &format!("  host      : trainer-step-{rank}"),
            &format!("  rank      : {rank} (local_rank: {})", rank % 8),
            &format!("  exitcode  : -9 (pid: {})", 4000 + rank),
            "The above exception was the direct cause of the following exception:",
            "During handling of the above exception, another exception occurred:",
            "Last error:",
        ] {
            take(line);
        }
    }
    (0..2000).for_each(|i| take(&format!("iteration {i} | loss 0.{i}")));
    let lines = sift.finish(1, false).unwrap();
    let steps = lines.lines.iter().filter(|l| l.text.contains("iteration")).count();
    assert_eq!((lines.lines.len() - steps, steps < 20), (64 * 8, true));
}
