//! Faults and healthy hours of machines that are not here, played into their trees, seen by the real sources and judged. What must be
//! found stands in each script: `tests/fixtures/hosts/scripts`.

use crate::support::play::{Expected, Play};
use crate::support::stage::{self, START};
use nccl_top::base::severity::{Role, Severity};
use nccl_top::base::time::Stamp;
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::observe::Body;
use nccl_top::observe::port::PortKind;
use nccl_top::recording::tape::{Reader, Writer, read_observation};
use nccl_top::rules::findings::Change;
use nccl_top::sources::SOURCES;
use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How a script was judged.
struct Outcome {
    name: String,
    host: String,
    /// Each expected finding: when it came, and whether it names the right ports.
    expected: Vec<(Expected, Option<f64>, bool)>,
    /// Findings that should not be there: seconds, rule, summary.
    wrong: Vec<(f64, &'static str, String)>,
}

impl Outcome {
    fn of(play: Play) -> Outcome {
        let (name, host) = (play.name.clone(), play.host.clone());
        let (expected, allowed) = (play.expected.clone(), play.allowed.clone());
        let (cause, follows) = (play.cause.clone(), play.follows.clone());
        let (session, events) = stage::judged(play);
        let mut outcome = Outcome::judged(name, host, expected, &allowed, &events);
        outcome.wrong.extend(cause.and_then(|cause| chain_is_wrong(&session, &cause, &follows)));
        outcome
    }

    fn judged(name: String, host: String, expected: Vec<Expected>, allowed: &[Expected], events: &[(Stamp, Event)]) -> Outcome {
        let opened: Vec<_> = events
            .iter()
            .filter_map(|(at, event)| match event {
                Event::Finding(Change::Opened(f)) if f.severity >= Severity::Warning => Some((at.secs_since(START), f)),
                _ => None,
            })
            .collect();
        let known = |rule: &str| expected.iter().chain(allowed).any(|e| e.rule == rule);
        let wrong = opened.iter().filter(|(_, f)| !known(f.rule)).map(|(t, f)| (*t, f.rule, f.summary.clone())).collect();
        let expected = expected.iter().map(|e| {
            let mine: Vec<_> = opened.iter().filter(|(_, f)| f.rule == e.rule).collect();
            let named: BTreeSet<&str> = mine.iter().flat_map(|(_, f)| f.ports.iter().map(String::as_str)).collect();
            let may = |port: &&str| allowed.iter().chain([e]).any(|a| a.rule == e.rule && a.ports.iter().any(|p| p == port));
            let right = e.ports.is_empty() || e.ports.iter().all(|port| named.contains(port.as_str())) && named.iter().all(may);
            (e.clone(), mine.first().map(|(t, _)| *t), right)
        });
        Outcome { name, host, expected: expected.collect(), wrong }
    }
}

/// What is the cause in the end, and what follows from it, where that is not what it should be.
fn chain_is_wrong(session: &Session, cause: &str, follows: &[String]) -> Option<(f64, &'static str, String)> {
    let open = session.ledger.open();
    let cascade: BTreeSet<&str> = open.iter().filter(|f| f.role == Role::Cascade).map(|f| f.rule).collect();
    let because = session.main_job()?.1.because.as_ref()?.0;
    let is_right = because == cause && cascade == follows.iter().map(String::as_str).collect();
    (!is_right).then(|| (session.model.now.secs_since(START), because, format!("is the cause, and {cascade:?} follow")))
}

/// Performs all of `plays`, by as many threads as there are processors.
fn outcomes(plays: Vec<String>, longer: Option<Duration>) -> Vec<Outcome> {
    let next = AtomicUsize::new(0);
    let some = || -> Vec<Outcome> {
        let mut done = Vec::new();
        while let Some(name) = plays.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut play = Play::named(name);
            play.lasts = longer.unwrap_or(play.lasts);
            done.push(Outcome::of(play));
        }
        done
    };
    let mut all: Vec<Outcome> = std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let hands: Vec<_> = (0..threads).map(|_| scope.spawn(some)).collect();
        hands.into_iter().flat_map(|hand| hand.join().unwrap()).collect()
    });
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

fn scripts(healthy: bool) -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/hosts/scripts");
    let names = std::fs::read_dir(dir).unwrap().filter_map(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.strip_suffix(".play").map(str::to_owned)
    });
    let mut names: Vec<String> = names.filter(|name| name.starts_with("healthy") == healthy && !name.starts_with("demo")).collect();
    names.sort();
    names
}

/// A line for each script, and the counts: found, right place, false.
fn table(outcomes: &[Outcome]) -> String {
    let mut out = String::new();
    let (mut faults, mut found, mut right) = (0, 0, 0);
    for outcome in outcomes {
        for (expected, at, place) in &outcome.expected {
            let what = match at {
                Some(at) if *place => format!("found at {at:.0} s"),
                Some(at) => format!("found at {at:.0} s, wrong ports"),
                None => "MISSED".to_owned(),
            };
            faults += 1;
            found += usize::from(at.is_some());
            right += usize::from(at.is_some() && *place);
            let _ = writeln!(out, "{:32} {:10} {:22} {what}", outcome.name, outcome.host, expected.rule);
        }
        if outcome.expected.is_empty() && outcome.wrong.is_empty() {
            let _ = writeln!(out, "{:32} {:10} nothing, as it should be", outcome.name, outcome.host);
        }
        for (at, rule, summary) in &outcome.wrong {
            let _ = writeln!(out, "{:32} {:10} FALSE {rule} at {at:.0} s: {summary}", outcome.name, outcome.host);
        }
    }
    let wrong: usize = outcomes.iter().map(|o| o.wrong.len()).sum();
    let share = |n: usize, of: usize| if of == 0 { "-".to_owned() } else { format!("{:.1} %", 100.0 * n as f64 / of as f64) };
    let _ = writeln!(
        out,
        "{faults} faults: {found} found (recall {}), {right} at the right place ({}), {wrong} false findings (precision {})",
        share(found, faults),
        share(right, found),
        share(found, found + wrong),
    );
    out
}

fn assert_right(outcomes: &[Outcome]) {
    let table = table(outcomes);
    let missed = |(_, at, place): &(Expected, Option<f64>, bool)| at.is_none() || !place;
    let is_wrong = |o: &Outcome| !o.wrong.is_empty() || o.expected.iter().any(missed);
    assert!(!outcomes.iter().any(is_wrong), "\n{table}");
}

#[test]
fn each_fault_is_found_where_it_is_and_nothing_else() {
    assert_right(&outcomes(scripts(false), None));
}

#[test]
fn nothing_is_found_in_healthy_traffic() {
    let names = scripts(true);
    assert!(names.len() >= 20);
    let outcomes = outcomes(names, None);
    assert!(outcomes.iter().all(|outcome| outcome.expected.is_empty()));
    assert_right(&outcomes);
}

/// A tape holds all that the sources report, and is read as it was written.
#[test]
fn a_recording_of_a_machine_with_rdma_is_read_again() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["healthy-spark", "healthy-p4d", "healthy-pod"] {
        let path = dir.path().join(format!("{name}.jsonl"));
        let play = Play { lasts: Duration::from_secs(20), ..Play::named(name) };
        let mut writer = None;
        let mut seen = Vec::new();
        stage::perform(play, |header, observation| {
            writer.get_or_insert_with(|| Writer::create(&path, header).unwrap()).write(&observation).unwrap();
            seen.push(observation);
        });
        writer.unwrap().finish().unwrap();
        let mut reader = Reader::open(&path).unwrap();
        for mut observation in seen {
            if let Body::Source(report) = &mut observation.body {
                report.title = SOURCES.iter().find(|spec| spec.id == observation.from.as_str()).map(|spec| spec.title);
            }
            assert_eq!(reader.read().unwrap(), Some(observation));
        }
        assert_eq!((reader.read().unwrap(), reader.cut_off()), (None, None));
    }
}

/// The first versions wrote `kind` twice.
#[test]
fn ports_of_old_recordings_are_read() {
    let line = br#"{"at_ns":5,"from":"rdma","kind":"port_info","device":"rdmap113s0","port":1,"kind":"efa","driver":"efa"}"#;
    let Body::PortInfo(info) = read_observation(line).unwrap().body else { panic!("no port") };
    assert_eq!((info.kind, info.driver.as_deref()), (PortKind::Efa, Some("efa")));
    assert!(read_observation(br#"{"at_ns":5,"from":"rdma","kind":"tick","kind":"efa"}"#).is_err());
}

/// `cargo test --release --test it -- --ignored twenty_healthy_hours --nocapture`: some minutes.
#[test]
#[ignore = "takes minutes"]
#[allow(clippy::print_stdout)]
fn twenty_healthy_hours_give_no_finding() {
    let outcomes = outcomes(scripts(true), Some(Duration::from_secs(3600)));
    println!("{}", table(&outcomes));
    assert_right(&outcomes);
}
