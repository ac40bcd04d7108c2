//! Recordings of real jobs on 4 GPUs, each with what is known to have happened, judged by the same code as live.

use nccl_top::base::severity::{Role, Severity};
use nccl_top::base::time::Stamp;
use nccl_top::diagnosis::session::Event;
use nccl_top::observe::{Body, Observation};
use nccl_top::recording::score::{Label, NONE, Score, case};
use nccl_top::recording::tape::{Header, Reader};
use nccl_top::recording::without::{Without, filter};
use nccl_top::rules::findings::Change;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

struct Tape {
    name: String,
    header: Header,
    seen: Vec<Observation>,
    label: Label,
}

/// Those of which every word that is said was read.
const REVIEWED: &[&str] = &[
    "checkpoint",
    "checkpoint-quiet",
    "evaluate",
    "hang",
    "hang-noras",
    "hang-twonodes",
    "kill",
    "mismatch-dumps-noras",
    "nan",
    "none",
    "oom",
    "order",
    "pair-cancelled-pipe",
    "pair-initdeadlock",
    "pair-lock-noras",
    "pair-mismatch-noras",
    "pair-none-pipe",
    "pair-python-pipe",
    "pair-slowall",
    "pipe-hang-last",
    "pipe-sendsend",
    "pipe-slowstage",
    "slow",
    "stop",
    "symmetric",
];

fn dir() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tapes")
}

fn names() -> Vec<String> {
    let names = std::fs::read_dir(dir()).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".label.json").map(str::to_owned)
    });
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

/// Every kind of signal that is left out in turn; the first has all.
const WITHOUT: [Option<Without>; 6] =
    [None, Some(Without::Ras), Some(Without::Gpm), Some(Without::Nvml), Some(Without::Log), Some(Without::Procs)];

/// A recording, and what is said of it with each of [`WITHOUT`].
struct Judged {
    name: String,
    label: Label,
    start: Stamp,
    events: [Vec<(Stamp, Event)>; WITHOUT.len()],
}

impl Judged {
    fn of(name: &str) -> Judged {
        let tape = tape(&dir().join(format!("{name}.jsonl.gz")));
        let events = WITHOUT.map(|without| {
            let left = tape.seen.iter().filter_map(|seen| filter(seen.clone(), without.as_slice()));
            judge(&tape.header, &left.collect::<Vec<_>>())
        });
        Judged { name: tape.name, label: tape.label, start: tape.seen[0].at, events }
    }

    fn is_reviewed(&self) -> bool {
        REVIEWED.contains(&self.name.as_str())
    }
}

/// All recordings, read and judged once for all tests, by as many threads as there are processors.
static JUDGED: LazyLock<Vec<Judged>> = LazyLock::new(|| {
    let names = names();
    let next = AtomicUsize::new(0);
    let some =
        || -> Vec<Judged> { std::iter::from_fn(|| names.get(next.fetch_add(1, Ordering::Relaxed)).map(|name| Judged::of(name))).collect() };
    let mut all: Vec<Judged> = std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let hands: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        hands.into_iter().flat_map(|hand| hand.join().unwrap()).collect()
    });
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
});

fn reviewed() -> Vec<&'static Judged> {
    let all: Vec<&Judged> = JUDGED.iter().filter(|j| j.is_reviewed()).collect();
    assert_eq!(all.len(), REVIEWED.len(), "the recordings are there");
    all
}

fn tape(path: &Path) -> Tape {
    let mut reader = Reader::open(path).unwrap();
    let mut seen = Vec::new();
    while let Some(observation) = reader.read().unwrap() {
        assert_ne!(observation.body, Body::Unknown, "{}", path.display());
        seen.push(observation);
    }
    let label = std::fs::read_to_string(path.to_string_lossy().replace(".jsonl.gz", ".label.json")).unwrap();
    let name = path.file_name().unwrap().to_string_lossy().replace(".jsonl.gz", "");
    Tape { name, header: reader.header().clone(), seen, label: serde_json::from_str(&label).unwrap() }
}

fn judge<'a>(header: &Header, seen: impl IntoIterator<Item = &'a Observation>) -> Vec<(Stamp, Event)> {
    let mut session = header.session();
    let mut out = Vec::new();
    seen.into_iter().for_each(|observation| session.apply(observation, &mut out));
    out
}

/// One line per event, without what differs from look to look.
fn lines(judged: &Judged) -> String {
    let mut out = String::new();
    for (at, event) in &judged.events[0] {
        let t = at.secs_since(judged.start);
        let _ = match event {
            Event::State { state, phase, summary, .. } => {
                writeln!(out, "{t:6.1} {} {}: {summary}", state.as_str(), phase.unwrap_or("-"))
            }
            Event::Finding(Change::Opened(f)) => writeln!(
                out,
                "{t:6.1}   opened {} {} {} ranks {:?} gpus {:?}: {}\n           why: {}\n           next: {}",
                f.severity.as_str(),
                f.rule,
                f.role.as_str(),
                f.ranks,
                f.gpus,
                f.summary,
                f.why,
                f.next.as_deref().unwrap_or("-"),
            ),
            Event::Finding(Change::Cleared { finding, reason }) => writeln!(out, "{t:6.1}   cleared {}: {reason}", finding.rule),
        };
    }
    out
}

#[test]
fn every_recording_is_judged_as_its_label_says() {
    let mut wrong = Vec::new();
    for judged in reviewed() {
        let Judged { name, label, start, events } = judged;
        let case = case(name, label, *start, &events[0]);
        let allowed = match case.found {
            Some("hang-symmetric" | "hang-rank-absent" | "send-order-deadlock" | "collective-mismatch" | "straggler" | "slow-steps") => {
                15.0
            }
            Some("init-stuck") => 60.0,
            Some("rank-stopped" | "rank-exited" | "job-cancelled") => 5.0,
            // Text is told when it is read, at most a second after it was written.
            _ => 1.2,
        };
        // Of two ranks that wait in different kernels either may be the one, and the only one of four may be a victim of its group: nobody is
        // blamed, and nobody wrongly.
        let names_nobody = ["pair-mismatch-noras", "mismatch-dumps-noras"].contains(&name.as_str()) && case.blamed.is_empty();
        if label.class != NONE && case.culprit_right != Some(true) && !names_nobody {
            wrong.push(format!("{name}: {:?} blames {:?}", case.found, case.blamed));
        }
        if case.delay_s.is_some_and(|s| s > allowed) {
            wrong.push(format!("{name}: after {:?} s", case.delay_s));
        }
        wrong.extend(case.false_findings.iter().map(|f| format!("{name}: false {} at {:.1} s: {}", f.rule, f.at_s, f.summary)));
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn what_is_said_of_each_recording_is_as_reviewed() {
    for judged in reviewed() {
        insta::assert_snapshot!(judged.name.clone(), lines(judged));
    }
}

/// However observations were batched, the same is said at the same time.
#[test]
fn batch_boundaries_do_not_matter() {
    for judged in reviewed() {
        let tape = tape(&dir().join(format!("{}.jsonl.gz", judged.name)));
        let split: Vec<Observation> = tape.seen.iter().flat_map(split).collect();
        assert!(split.len() > tape.seen.len());
        assert_eq!(judged.events[0], judge(&tape.header, &split), "{}", tape.name);
    }
}

/// An observation cut into as many as it can be.
fn split(seen: &Observation) -> Vec<Observation> {
    let with = |body| Observation { body, ..seen.clone() };
    match &seen.body {
        Body::Lines(lines) if lines.lines.len() > 1 => lines
            .lines
            .iter()
            .enumerate()
            .map(|(i, line)| {
                let (dropped_lines, dropped_bytes, folded_alarms) =
                    if i == 0 { (lines.dropped_lines, lines.dropped_bytes, lines.folded_alarms) } else { (0, 0, 0) };
                with(Body::Lines(nccl_top::observe::log::Lines {
                    lines: vec![line.clone()],
                    dropped_lines,
                    dropped_bytes,
                    folded_alarms,
                    ..lines.clone()
                }))
            })
            .collect(),
        Body::Gpus { gpus } => gpus.iter().map(|g| with(Body::Gpus { gpus: vec![g.clone()] })).collect(),
        Body::GpuProcesses { gpus } => gpus.iter().map(|g| with(Body::GpuProcesses { gpus: vec![g.clone()] })).collect(),
        Body::Processes { processes } => processes.iter().map(|p| with(Body::Processes { processes: vec![p.clone()] })).collect(),
        _ => vec![seen.clone()],
    }
}

/// With a kind of signal missing there may be less to say, but nothing wrong: no rank is blamed that is not to blame.
#[test]
fn a_missing_signal_never_makes_a_wrong_culprit() {
    let mut wrong = Vec::new();
    for judged in reviewed() {
        for (without, events) in WITHOUT.iter().zip(&judged.events).skip(1) {
            for (at, event) in events {
                let Event::Finding(Change::Opened(f)) = event else { continue };
                let blames_another = !f.ranks.is_empty() && f.ranks != judged.label.ranks;
                let alarm = judged.label.class == NONE && f.severity >= Severity::Warning;
                if f.role == Role::Root && (blames_another || alarm) {
                    let t = at.secs_since(judged.start);
                    wrong.push(format!("{} without {without:?}: {} at {t:.1} s: {}", judged.name, f.rule, f.summary));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Where nothing but the GPUs' utilisation shows that all wait, it takes longer: it may be a kernel that reads little memory.
#[test]
fn a_hang_of_all_is_found_soon_only_by_signals_that_agree() {
    let judged = |without: &[Without]| {
        let tape = tape(&dir().join("symmetric.jsonl.gz"));
        let left: Vec<Observation> = tape.seen.iter().filter_map(|seen| filter(seen.clone(), without)).collect();
        case(&tape.name, &tape.label, tape.seen[0].at, &judge(&tape.header, &left)).delay_s.unwrap()
    };
    for one in [Without::Ras, Without::Gpm, Without::Log, Without::Procs] {
        assert!(judged(&[one]) <= 15.0, "without {one:?}: {}", judged(&[one]));
    }
    assert!(judged(&[Without::Ras, Without::Gpm]) >= 20.0);
}

/// The recording, and then its last ten seconds again and again.
fn prolonged(tape: &Tape, by_s: i64) -> Vec<Observation> {
    let second = 1_000_000_000;
    let mut seen: Vec<Observation> = tape.seen.iter().filter(|o| o.body != Body::End).cloned().collect();
    let end = seen[seen.len() - 1].at;
    let last: Vec<Observation> =
        seen.iter().filter(|o| o.at.0 > end.0 - 10 * second && !matches!(o.body, Body::Lines(_))).cloned().collect();
    for turn in 1..=by_s / 10 {
        seen.extend(last.iter().map(|o| Observation { at: Stamp(o.at.0 + turn * 10 * second), ..o.clone() }));
    }
    seen
}

/// Its GPU computes without end while the others wait. RAS, and many times a usual step, make it a warning; a minute does without RAS, but
/// never of rank 0, which evaluates.
#[test]
fn a_rank_that_computes_something_else_is_absent() {
    for (gpu, blamed) in [(3, true), (0, false)] {
        let tape = tape(&dir().join("hang.jsonl.gz"));
        let mut seen = prolonged(&tape, 90);
        let hangs = tape.seen[0].at.plus(std::time::Duration::from_secs(51));
        for observation in seen.iter_mut().filter(|o| o.at > hangs) {
            let Body::Gpus { gpus } = &mut observation.body else { continue };
            let waits = gpus.iter().find(|g| g.index == 1).unwrap().clone();
            for sample in gpus {
                let index = sample.index;
                *sample = nccl_top::observe::gpu::GpuSample { index, ..waits.clone() };
                if index == gpu {
                    (sample.mem_util_pct, sample.power_mw, sample.gpm) = (Some(30), Some(600_000), None);
                    (sample.nvlink_tx_kib, sample.nvlink_rx_kib) = (None, None);
                }
            }
        }
        // GPM was last read before, and would hold.
        for observation in &mut seen {
            let Body::Gpus { gpus } = &mut observation.body else { continue };
            gpus.iter_mut().for_each(|g| g.gpm = None);
        }
        seen.retain(|o| gpu == 3 || !matches!(o.body, Body::Ras(_)));
        let found: Vec<_> = judge(&tape.header, &seen)
            .into_iter()
            .filter_map(|(at, event)| match event {
                Event::Finding(Change::Opened(f)) if f.rule == "hang-rank-absent" => {
                    Some((at.secs_since(hangs) as u64 / 30, f.severity, f.ranks.clone()))
                }
                _ => None,
            })
            .collect();
        let expected = if blamed { vec![(0, Severity::Warning, vec![3]), (2, Severity::Critical, vec![3])] } else { Vec::new() };
        assert_eq!(found, expected, "GPU {gpu}");
    }
}

/// Of all signals together, how long the judge may take, seconds of the recording.
const SOON_ENOUGH: &[(&str, f64)] = &[
    // Where steps take 6 s, the other rank computes for 5 s before it waits.
    ("hang-rank-absent", 17.0),
    ("collective-mismatch", 15.0),
    // Means of GPM are taken each 8 s while nothing changes.
    ("straggler", 17.0),
    ("slow-steps", 7.0),
    ("rank-exited", 5.0),
    // Where two ranks wait in a call that has ended for the others, answers of RAS must agree, too.
    ("hang-symmetric", 16.0),
    ("send-order-deadlock", 15.0),
    ("init-stuck", 60.0),
    // Where steps go on, a window of 18 s is looked at.
    ("input-stall", 18.0),
];

/// All recordings, those too whose half was judged only once: found, culprit right, false, as docs/ACCURACY.md says.
#[test]
fn the_score_is_what_the_readme_says() {
    let rows = [[120, 116, 0], [109, 100, 0], [113, 109, 5], [89, 77, 1], [64, 55, 1], [81, 66, 3]];
    let mut seen = Vec::new();
    for (i, without) in WITHOUT.iter().enumerate() {
        let score = score(JUDGED.iter(), i);
        assert_eq!(score.faults, 120);
        seen.push([score.found, score.culprit_right, score.false_findings]);
        for (class, most_s) in SOON_ENOUGH.iter().filter(|_| without.is_none()) {
            let worst = score.classes[*class].delay_worst_s.unwrap();
            assert!(worst <= *most_s, "{class} after {worst} s");
        }
    }
    assert_eq!(seen, rows);
}

fn score<'a>(judged: impl Iterator<Item = &'a Judged>, without: usize) -> Score {
    Score::of(judged.map(|j| case(&j.name, &j.label, j.start, &j.events[without])).collect())
}

/// The command counts a directory as the test above does.
#[test]
fn the_command_prints_that_score() {
    let some = ["hang", "kill", "none"];
    let few = tempfile::tempdir().unwrap();
    for file in some.iter().flat_map(|name| [format!("{name}.jsonl.gz"), format!("{name}.label.json")]) {
        std::fs::copy(dir().join(&file), few.path().join(&file)).unwrap();
    }
    for (i, args) in [(0, &[][..]), (4, &["--without", "log"])] {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_nccl-top"));
        let out = command.arg("score").arg(few.path()).arg("--json").args(args).output().unwrap();
        let mut printed: serde_json::Value = serde_json::from_slice(&out.stdout).unwrap();
        let mut take = |key| printed.as_object_mut().unwrap().remove(key).unwrap();
        assert_eq!((take("schema"), take("not_judged")), ("nccl-top.score/1".into(), serde_json::json!([])));
        let expected = score(JUDGED.iter().filter(|j| some.contains(&j.name.as_str())), i);
        assert_eq!(printed, serde_json::to_value(expected).unwrap(), "{args:?}");
    }
}

/// A rank died, its output went to a pipe: nobody says why, but it is no healthy end.
#[test]
fn a_job_whose_launcher_ends_with_an_error_has_failed() {
    let tape = tape(&dir().join("pair-assert.jsonl.gz"));
    let mut states = judge(&tape.header, &tape.seen).into_iter().filter_map(|(_, event)| match event {
        Event::State { job: Some(_), state, summary, .. } => Some((state.as_str(), summary)),
        _ => None,
    });
    assert_eq!(
        states.next_back(),
        Some(("failed", "the launcher (pid 1676) exited with code 1, and nothing tells how its ranks did".to_owned()))
    );
}

/// torchrun was ended before its ranks: they are the same job until they end, too.
#[test]
fn a_job_keeps_its_name_when_its_launcher_ends_first() {
    let tape = tape(&dir().join("two-jobs-slow-nan.jsonl.gz"));
    let jobs: std::collections::BTreeSet<String> = judge(&tape.header, &tape.seen)
        .into_iter()
        .filter_map(|(_, event)| match event {
            Event::State { job, .. } => job,
            Event::Finding(_) => None,
        })
        .collect();
    assert!(jobs.iter().all(|id| id.parse::<u32>().is_ok()) && jobs.contains("4757"), "{jobs:?}");
}

/// Of four ranks one is seen, and nothing in its environment says how many there are: it waits for the others, and nothing is wrong with it.
#[test]
fn a_rank_whose_others_are_not_seen_is_not_taken_for_the_only_one() {
    let tape = tape(&dir().join("hang-noras.jsonl.gz"));
    let one = |observation: &Observation| {
        let mut seen = observation.clone();
        if let Body::Process(process) = &mut seen.body {
            let env = process.env.as_mut()?;
            if env.get("RANK").is_none_or(|rank| rank != "0") {
                return None;
            }
            env.retain(|name, _| !name.contains("WORLD"));
        }
        Some(seen)
    };
    let seen: Vec<Observation> = tape.seen.iter().filter_map(one).collect();
    let opened = judge(&tape.header, &seen).into_iter().filter_map(|(_, event)| match event {
        Event::Finding(Change::Opened(f)) if f.severity > Severity::Info => Some(f.summary),
        _ => None,
    });
    assert_eq!(opened.collect::<Vec<_>>(), Vec::<String>::new());
}
