//! Moments in which the program itself stood still: nothing was seen, and that is no silence of the job.

use nccl_top::base::time::Stamp;
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::tape::Reader;
use nccl_top::rules::findings::Change;
use std::path::Path;
use std::time::Duration;

const GAP: Duration = Duration::from_secs(60);

/// A recording with a hole after so long: what comes later comes a minute later.
fn with_a_hole(name: &str, after: Duration, is_known: bool) -> (Session, Vec<Observation>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/tapes/{name}.jsonl.gz"));
    let mut reader = Reader::open(&path).expect("the recording");
    let session = reader.header().session();
    let (mut all, mut from, mut is_past) = (Vec::new(), None, false);
    while let Some(mut seen) = reader.read().expect("a whole recording") {
        if seen.at > from.get_or_insert(seen.at).plus(after) {
            seen.at = seen.at.plus(GAP);
            if is_known && !is_past {
                let body = Body::Gap { for_ms: GAP.as_millis() as u64 };
                all.push(Observation { at: seen.at, host: None, from: SourceId::of("feed"), body });
            }
            is_past = true;
        }
        all.push(seen);
    }
    assert!(is_past, "{name} is longer");
    (session, all)
}

/// What is reported of it, without times and figures.
fn reported((mut session, all): (Session, Vec<Observation>)) -> Vec<String> {
    let mut events: Vec<(Stamp, Event)> = Vec::new();
    all.iter().for_each(|seen| session.apply(seen, &mut events));
    let words = |event: &Event| match event {
        Event::Finding(Change::Opened(f)) => format!("opened {} {:?}", f.rule, f.ranks),
        Event::Finding(Change::Cleared { finding, .. }) => format!("cleared {} {:?}", finding.rule, finding.ranks),
        Event::State { state, phase, .. } => format!("{state:?} {phase:?}"),
    };
    events.iter().map(|(_, event)| words(event)).collect()
}

#[test]
fn a_minute_in_which_nobody_looked_changes_nothing_of_what_is_reported() {
    let mut told_by_silence = 0;
    // Training, a hang under way and judged, a rank that is late, a checkpoint without a word in the log.
    for (name, after) in
        [("none", 20), ("none", 45), ("pair-none-pipe", 30), ("hang", 37), ("hang", 60), ("slow", 50), ("checkpoint-quiet", 50)]
    {
        let after = Duration::from_secs(after);
        let whole = reported(with_a_hole(name, Duration::ZERO, true));
        assert_eq!(reported(with_a_hole(name, after, true)), whole, "{name} after {after:?}");
        told_by_silence += usize::from(reported(with_a_hole(name, after, false)) != whole);
    }
    assert!(told_by_silence > 0, "an unknown hole would be taken for silence, or this tests nothing");
}

#[test]
fn a_minute_in_which_nobody_looked_is_no_pause_of_the_job() {
    use nccl_top::observe::log::{Line, Lines, LogFileInfo};
    let mut session = Session::new("node-01", nccl_top::base::time::Zone::UTC);
    let mut events = Vec::new();
    let mut sees = |s: i64, body: Body| {
        session.apply(
            &Observation { at: Stamp(1_000_000_000_000 + s * 1_000_000_000), host: None, from: SourceId::of("tail"), body },
            &mut events,
        );
        session.model.files.get(&1).map(|f| (f.progress.patience(), f.progress.steady_since, f.progress.step_time_s))
    };
    let lines = |steps: std::ops::Range<u64>| {
        let lines = steps.map(|i| Line { text: format!("iteration {i} | loss 0.5"), ..Default::default() }).collect();
        Body::Lines(Lines { file: 1, lines, ..Default::default() })
    };
    sees(0, Body::LogFile(LogFileInfo { file: 1, path: "/logs/train.log".into(), ..Default::default() }));
    let before = (1..60).map(|s| sees(s, lines(s as u64..s as u64 + 1))).last().unwrap();
    sees(660, Body::Gap { for_ms: 600_000 });
    sees(660, lines(60..660));
    let after = (661..680).map(|s| sees(s, lines(s as u64 - 1..s as u64))).last().unwrap();
    assert_eq!(after, before);
}
