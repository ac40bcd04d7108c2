//! Any moment of what was seen is shown as it was: made from keyframes, it equals a session that was fed straight.

use nccl_top::base::time::Stamp;
use nccl_top::diagnosis::session::{Event, Session};
use nccl_top::observe::{Body, Observation, SourceId};
use nccl_top::recording::tape::{Header, Reader};
use nccl_top::recording::timeline::{Limits, Playhead, Timeline};
use std::path::Path;
use std::time::Duration;

const ALL: Limits = Limits { depth: Duration::MAX, bytes: usize::MAX };

fn tape(name: &str) -> (Header, Vec<Observation>) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/tapes/{name}.jsonl.gz"));
    let mut reader = Reader::open(&path).unwrap();
    let mut seen = Vec::new();
    while let Some(observation) = reader.read().unwrap() {
        seen.push(observation);
    }
    (reader.header().clone(), seen)
}

/// A tape `times` over, each time later: long enough for many chunks.
fn long(name: &str, times: i64) -> (Header, Vec<Observation>) {
    let (header, seen) = tape(name);
    let length = seen.last().unwrap().at.0 - seen[0].at.0 + 1_000_000_000;
    let again = |i: i64| seen.iter().map(move |o| Observation { at: Stamp(o.at.0 + i * length), ..o.clone() });
    (header, (0..times).flat_map(again).collect())
}

/// As the live screen does it: the session in step with the timeline.
fn live(header: &Header, seen: &[Observation], limits: Limits) -> (Timeline, Session, Vec<(Stamp, Event)>) {
    let mut session = header.session();
    let mut timeline = Timeline::new(limits, &session);
    let mut events = Vec::new();
    for observation in seen {
        timeline.push(observation, &session);
        session.apply(observation, &mut events);
    }
    (timeline, session, events)
}

fn read_ahead(header: &Header, seen: &[Observation], limits: Limits) -> Timeline {
    let mut timeline = Timeline::new(limits, &header.session());
    seen.iter().for_each(|o| timeline.append(o));
    timeline
}

/// Compares at `n` moments of the span, the borders and beyond with a session that was fed straight.
fn check(header: &Header, seen: &[Observation], timeline: &mut Timeline, n: i64) {
    let (from, to) = timeline.span().unwrap();
    let mut moments: Vec<Stamp> = (0..=n).map(|i| Stamp(from.0 + (to.0 - from.0) / n * i)).collect();
    // The stamps themselves, and a nanosecond before them.
    let inside = seen.iter().map(|o| o.at).filter(|at| *at >= from);
    moments.extend(inside.step_by(seen.len() / 12).flat_map(|at| [Stamp((at.0 - 1).max(from.0)), at]));
    moments.push(to);
    moments.sort();
    let mut straight = header.session();
    let mut left = seen.iter().peekable();
    let mut expected = Vec::new();
    for at in &moments {
        while let Some(observation) = left.next_if(|o| o.at <= *at) {
            straight.apply(observation, &mut Vec::new());
        }
        expected.push(straight.clone());
    }
    // Forth and back: what was asked for before does not matter.
    for i in (0..moments.len()).map(|i| i * 7 % moments.len()) {
        assert!(timeline.session_at(moments[i]) == expected[i], "at moment {i} of {}", moments.len());
    }
    assert!(timeline.session_at(Stamp(0)) == timeline.session_at(from));
    assert!(timeline.session_at(Stamp(i64::MAX)) == straight && left.next().is_none());
}

#[test]
fn every_moment_is_as_it_was() {
    for name in ["hang", "slow", "none", "kill", "oom"] {
        let (header, seen) = tape(name);
        let (mut timeline, session, _) = live(&header, &seen, ALL);
        check(&header, &seen, &mut timeline, 20);
        assert!(timeline.session_at(Stamp(i64::MAX)) == session, "{name}");
        check(&header, &seen, &mut read_ahead(&header, &seen, ALL), 20);
    }
}

#[test]
fn what_is_left_after_old_chunks_were_dropped_is_as_it_was() {
    let (header, seen) = long("slow", 6);
    let (mut timeline, ..) = live(&header, &seen, Limits { depth: Duration::from_secs(200), ..ALL });
    let (from, to) = timeline.span().unwrap();
    assert!((200.0..330.0).contains(&to.secs_since(from)), "{}", to.secs_since(from));
    check(&header, &seen, &mut timeline, 12);
}

#[test]
fn keyframes_are_thinned_and_moments_between_them_are_as_they_were() {
    let (header, seen) = long("none", 25);
    let (mut timeline, session, _) = live(&header, &seen, ALL);
    let keyframe = session.bytes();
    let lines = read_ahead(&header, &seen, ALL).bytes();
    assert!(timeline.bytes() < lines + 15 * keyframe, "{} {lines} {keyframe}", timeline.bytes());
    check(&header, &seen, &mut timeline, 6);
}

#[test]
fn playing_from_any_moment_says_and_ends_as_playing_straight() {
    let (header, seen) = tape("hang");
    let (mut live_timeline, session, events) = live(&header, &seen, ALL);
    let mut ahead = read_ahead(&header, &seen, ALL);
    let end = seen.last().unwrap().at;
    for timeline in [&mut live_timeline, &mut ahead] {
        let mut playhead = Playhead::new(timeline);
        let mut out = Vec::new();
        assert_eq!(playhead.next_due(timeline), Some(seen[0].at));
        while playhead.step(timeline, &mut out) {}
        assert!(out == events && playhead.session == session);
        assert_eq!(playhead.next_due(timeline), None);
        // Back and forth, with the same playhead.
        for seconds in [0, 80, 30, 55, 61, 59] {
            let at = seen[0].at.plus(Duration::from_secs(seconds));
            playhead.seek(timeline, at);
            assert!(playhead.session == Playhead::at(timeline, at).session, "at {seconds} s");
            assert!(playhead.next_due(timeline).unwrap() > at);
            let mut out = Vec::new();
            while playhead.step(timeline, &mut out) {}
            let after: Vec<_> = events.iter().filter(|e| e.0 > at).cloned().collect();
            assert!(out == after && playhead.session == session, "from {seconds} s");
            assert_eq!(playhead.session.model.now, end);
        }
    }
}

#[test]
fn a_playhead_follows_while_chunks_come_and_go() {
    let (header, seen) = long("hang", 4);
    let mut straight = header.session();
    let mut expected = Vec::new();
    seen.iter().for_each(|o| straight.apply(o, &mut expected));
    // Reading a few observations ahead, through borders of chunks that are open when first read, and dropped behind.
    let limits = Limits { depth: Duration::from_secs(70), ..ALL };
    let mut timeline = Timeline::new(limits, &header.session());
    let mut playhead = Playhead::new(&timeline);
    let mut out = Vec::new();
    assert!(!playhead.step(&mut timeline, &mut out), "nothing is there yet");
    for some in seen.chunks(37) {
        some.iter().for_each(|o| timeline.append(o));
        for _ in 0..36 {
            assert!(playhead.step(&mut timeline, &mut out));
        }
    }
    while playhead.step(&mut timeline, &mut out) {}
    assert!(out == expected && playhead.session == straight);
    assert!(timeline.span().unwrap().0 > seen[0].at);

    // Live, paused until its place is gone: it goes on at the oldest moment.
    let mut session = header.session();
    let mut timeline = Timeline::new(limits, &session);
    let mut paused = Playhead::new(&timeline);
    for observation in &seen {
        timeline.push(observation, &session);
        session.apply(observation, &mut Vec::new());
    }
    assert!(paused.next_due(&timeline) == timeline.span().map(|s| s.0));
    while paused.step(&mut timeline, &mut Vec::new()) {}
    assert!(paused.session == session);
}

#[test]
fn memory_is_bounded() {
    let (header, seen) = long("hang", 2);
    let limits = Limits { depth: Duration::MAX, bytes: 200_000 };
    // A chunk that is being written is at most a minute of it.
    let slack = 450_000;
    let mut session = header.session();
    let mut timeline = Timeline::new(limits, &session);
    let mut most = 0;
    let length = seen.last().unwrap().at.0 - seen[0].at.0 + 1_000_000_000;
    for round in 0..20 {
        for observation in &seen {
            let observation = Observation { at: Stamp(observation.at.0 + round * length), ..observation.clone() };
            timeline.push(&observation, &session);
            // What the session says does not matter here.
            session.model.now = observation.at;
            most = most.max(timeline.bytes());
        }
    }
    assert!(most < limits.bytes + slack + 2 * session.bytes(), "{most}");
    assert!(timeline.span().unwrap().0 > seen.last().unwrap().at);

    // Reading ahead, nothing that is still to be played is dropped, and the reader can see how much that is.
    let (header, seen) = long("hang", 12);
    let mut timeline = Timeline::new(limits, &header.session());
    let mut playhead = Playhead::new(&timeline);
    let (mut played, mut most) = (0, 0);
    for observation in &seen {
        timeline.append(observation);
        while timeline.ahead_bytes(&playhead) > 300_000 {
            assert!(playhead.step(&mut timeline, &mut Vec::new()));
            played += 1;
        }
        most = most.max(timeline.bytes());
    }
    assert!(most < limits.bytes + 300_000 + slack + 2 * playhead.session.bytes(), "{most} {}", playhead.session.bytes());
    while playhead.step(&mut timeline, &mut Vec::new()) {
        played += 1;
    }
    assert_eq!((played, timeline.ahead_bytes(&playhead)), (seen.len(), 0));
}

#[test]
fn equal_stamps_are_shown_together_wherever_a_chunk_ends() {
    let (header, seen) = tape("hang");
    // Groups of equal stamps, 59 s and more from group to group, so that chunks end inside of groups.
    let at = |i: usize| Stamp(seen[0].at.0 + i as i64 / 90 * 61_000_000_000);
    let seen: Vec<Observation> = seen.iter().enumerate().map(|(i, o)| Observation { at: at(i), ..o.clone() }).collect();
    let (mut timeline, ..) = live(&header, &seen, ALL);
    check(&header, &seen, &mut timeline, 40);
    check(&header, &seen, &mut read_ahead(&header, &seen, ALL), 40);
    // A flood at one instant: chunks end by size, all of them at the same stamp.
    let flood: Vec<Observation> = (0..12)
        .flat_map(|i| seen[0..400].iter().map(move |o| Observation { at: Stamp(if i < 11 { 5 } else { 6 }), ..o.clone() }))
        .collect();
    let (mut timeline, session, _) = live(&header, &flood, ALL);
    let mut before = header.session();
    flood.iter().filter(|o| o.at == Stamp(5)).for_each(|o| before.apply(o, &mut Vec::new()));
    assert!(timeline.session_at(Stamp(5)) == before && timeline.session_at(Stamp(6)) == session);
}

#[test]
fn stamps_that_go_back_and_an_empty_timeline_do_no_harm() {
    let start = Session::new("node", nccl_top::base::time::Zone::UTC);
    let mut timeline = Timeline::new(ALL, &start);
    assert_eq!(timeline.span(), None);
    assert!(timeline.session_at(Stamp(7)) == start);
    let tick = |ns: i64| Observation { at: Stamp(ns), host: None, from: SourceId::of("feed"), body: Body::Tick };
    for ns in [-5, 10, 8, i64::MAX, 3, i64::MIN, i64::MAX] {
        timeline.append(&tick(ns));
    }
    assert_eq!(timeline.span(), Some((Stamp(0), Stamp(i64::MAX))));
    assert_eq!(timeline.session_at(Stamp(10)).model.now, Stamp(10));
    assert_eq!(timeline.session_at(Stamp(i64::MAX)).model.now, Stamp(i64::MAX));
}
