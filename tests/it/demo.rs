//! The recordings that come with the program show what their captions say, and leave time to read them.

use crate::support::screen::Screen;
use nccl_top::diagnosis::session::Session;
use nccl_top::diagnosis::verdict::State;
use nccl_top::observe::{Body, Observation};
use nccl_top::recording::demo::{DEMOS, Demo};
use std::time::Duration;

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The states that the captions speak of, in their order.
fn claimed(name: &str) -> Vec<State> {
    use State::{Failed, Finished, Idle, Slow, Starting, Stuck, Training};
    match name {
        "pipeline" => vec![Idle, Starting, Training, Training, Training, Stuck, Stuck],
        "xid" => vec![Idle, Starting, Training, Training, Failed, Failed, Failed],
        "nan" => vec![Idle, Starting, Training, Training, Training, Training],
        "hang" => vec![Idle, Starting, Training, Training, Training, Training, Stuck, Stuck],
        "efa" => vec![Idle, Starting, Training, Training, Training, Slow, Slow, Slow],
        "roce-rail" => vec![Idle, Starting, Training, Training, Training, Slow, Slow],
        "slow" => vec![Idle, Starting, Training, Training, Training, Slow, Slow, Slow, Slow],
        _ => vec![Idle, Starting, Training, Training, Training, Training, Training, Finished],
    }
}

fn observations(demo: &Demo) -> (Session, Vec<Observation>) {
    let mut reader = demo.open().unwrap();
    let mut seen = Vec::new();
    while let Some(observation) = reader.read().unwrap() {
        assert_ne!(observation.body, Body::Unknown);
        seen.push(observation);
    }
    assert_eq!(reader.cut_off(), None);
    (reader.header().session(), seen)
}

/// Seconds that a part of the tape is shown.
fn shown_s(demo: &Demo, from: Duration, to: Duration) -> f64 {
    let ends = demo.speeds.iter().skip(1).map(|s| s.0).chain([Duration::MAX]);
    let parts = demo.speeds.iter().zip(ends).map(|(&(begin, speed), end)| (begin.max(from), end.min(to), speed));
    parts.map(|(begin, end, speed)| end.saturating_sub(begin).as_secs_f64() / speed).sum()
}

#[test]
fn a_demo_lasts_half_a_minute_and_leaves_time_to_read() {
    for demo in DEMOS {
        let (_, seen) = observations(demo);
        let length = seen[seen.len() - 1].at.since(seen[0].at);
        let lasts = shown_s(demo, demo.begin, length);
        assert!((24.0..=56.0).contains(&lasts), "{} lasts {lasts:.1} s", demo.name);
        assert!(demo.speeds.is_sorted_by(|a, b| a.0 < b.0) && demo.speeds[0].0.is_zero());
        assert!(demo.captions.is_sorted_by(|a, b| a.0 < b.0) && demo.captions[0].0.is_zero());
        let ends = demo.captions.iter().skip(1).map(|c| c.0).chain([length]);
        for ((begin, caption), end) in demo.captions.iter().zip(ends) {
            assert!(unicode_width::UnicodeWidthStr::width(*caption) <= 100, "{caption}");
            let shown = shown_s(demo, *begin, end);
            assert!(shown >= 2.7, "{}: {shown:.1} s for {caption}", demo.name);
        }
    }
}

/// What is found, which port or rank is named in it, and seconds on the tape at which it happens.
const STORIES: &[(&str, &str, &str, f64)] = &[
    ("hang", "hang-rank-absent", "rank 3", 36.9),
    ("slow", "straggler", "rank 2", 37.7),
    ("pipeline", "hang-rank-absent", "rank 3", 37.5),
    ("xid", "gpu-lost", "GPU 5", 35.0),
    ("nan", "loss-not-finite", "step 1246", 35.5),
    ("efa", "fabric-retransmits", "rdmap147s0", 35.0),
    ("roce-rail", "rail-imbalance", "mlx5_5", 35.0),
];

#[test]
fn the_story_is_told_in_twenty_seconds() {
    assert_eq!(STORIES.len() + 1, DEMOS.len(), "every demo but the healthy one");
    for (name, rule, culprit, fault_s) in STORIES {
        let demo = DEMOS.iter().find(|d| d.name == *name).unwrap();
        let before = shown_s(demo, demo.begin, Duration::from_secs_f64(*fault_s));
        assert!((7.0..=9.0).contains(&before), "{name} begins {before:.1} s before the fault");
        let (mut session, seen) = observations(demo);
        let found = |session: &Session| session.ledger.first_open(|f| f.rule == *rule).map(|f| f.summary.clone());
        let at = seen.iter().find_map(|observation| {
            session.apply(observation, &mut Vec::new());
            found(&session).map(|summary| (observation.at.since(seen[0].at), summary))
        });
        let (at, summary) = at.unwrap_or_else(|| panic!("{name}: no {rule}"));
        let shown = shown_s(demo, demo.begin, at);
        assert!(shown <= 20.0, "{name}: {rule} after {shown:.1} s");
        assert!(summary.contains(culprit), "{name}: {summary}");
    }
}

/// A demo does not give its answer away, and nothing in it is of the place where it was made.
#[test]
fn no_demo_shows_the_words_of_a_test() {
    for demo in DEMOS {
        let (_, seen) = observations(demo);
        let mut ranks = 0;
        for observation in seen {
            let text = serde_json::to_string(&observation).unwrap();
            for word in ["fault_train", "--fault", "truth", "pipe.py", "1.000193", "--sysroot"] {
                let is_source = matches!(observation.body, Body::Source(_));
                assert!(is_source || !text.contains(word), "{}: {word} in {text}", demo.name);
            }
            if let Body::Process(process) = &observation.body {
                let command = process.cmdline.join(" ");
                ranks += u32::from(command.contains(" -u train.py --config "));
            }
        }
        assert!(ranks >= 2, "{}: {ranks} ranks run train.py", demo.name);
    }
}

#[test]
fn a_menu_asks_which_demo_to_show() {
    let dir = tempfile::tempdir().unwrap();
    let mut screen = Screen::start(&["demo"], dir.path(), &[], 24, 80);
    screen.wait_for("Which one? A number or a name");
    for demo in DEMOS {
        assert!(screen.text().contains(&format!("{:<9} {}", demo.name, demo.title)), "{}", screen.text());
    }
    screen.keys("99\r");
    screen.wait_until("asked again", |s| s.contents().matches("Which one?").count() == 2);
    let at = DEMOS.iter().position(|d| d.name == "xid").unwrap() + 1;
    screen.keys(&format!("{at}\r"));
    screen.wait_for("demo xid");
    screen.wait_for("Soon GPU 5 falls off the bus");
    screen.press("2", "an axis as short as the demo", |s| s.contents().contains("last 1 min"));
    screen.keys("q");
    assert_eq!(screen.wait_end(), 0);
    let mut screen = Screen::start(&["demo"], dir.path(), &[], 24, 80);
    screen.wait_for("Which one?");
    screen.keys("q\r");
    assert_eq!(screen.wait_end(), 0);
}

#[test]
fn the_screen_shows_what_a_caption_says() {
    for demo in DEMOS {
        let (mut session, seen) = observations(demo);
        let claimed = claimed(demo.name);
        assert_eq!(claimed.len(), demo.captions.len());
        for (i, observation) in seen.iter().enumerate() {
            // Before what comes at a moment, and after all that came before it.
            let offset = observation.at.since(seen[0].at);
            let at = demo.captions.iter().rposition(|c| c.0 <= offset).unwrap();
            // A state is allowed the moment between its beginning and the caption's.
            let soon = demo.captions.get(at + 1).is_some_and(|next| next.0 <= offset + ms(1200));
            let (state, summary) = session.state();
            // It follows its log before its processes are there.
            let only_a_log = state == State::Unknown && offset < demo.begin;
            // Which rule is the first to call a modelled job slow is no matter of its captions.
            let slow_already = demo.modelled && state == State::Slow && offset > ms(37_500);
            let not_yet = state == State::Idle && offset < ms(1200);
            if i > 0 && !soon && !slow_already && !only_a_log && !not_yet {
                assert_eq!(state, claimed[at], "{} at {offset:?}: {}", demo.name, demo.captions[at].1);
                match state {
                    State::Stuck => assert!(summary.starts_with("rank 3 (GPU 3"), "{summary}"),
                    State::Slow if demo.modelled => assert!(summary.contains("steps take 1.60 s"), "{summary}"),
                    State::Slow if at == 5 => assert!(summary.starts_with("steps take 15"), "{summary}"),
                    State::Slow => assert!(summary.starts_with("rank 2 (GPU 2"), "{summary}"),
                    State::Failed => assert!(summary.starts_with("GPU 5 "), "{summary}"),
                    State::Finished => assert!(summary.ends_with("at step 519"), "{summary}"),
                    _ => {}
                }
            }
            session.apply(observation, &mut Vec::new());
        }
    }
}

/// The session of a demo at an offset in seconds.
fn session(name: &str, s: f64) -> Session {
    let demo = DEMOS.iter().find(|d| d.name == name).unwrap();
    let (mut session, seen) = observations(demo);
    let until = seen[0].at.plus(Duration::from_secs_f64(s));
    seen.iter().filter(|o| o.at <= until).for_each(|o| session.apply(o, &mut Vec::new()));
    session
}

#[test]
fn numbers_in_captions_are_on_the_tape() {
    let progress = |s: &Session| s.model.progress_of(s.main_job().unwrap().0).unwrap().clone();
    let power = |s: &Session| -> Vec<f64> { s.model.gpus.values().map(|g| f64::from(g.power_trend.last().unwrap())).collect() };
    let activity = |s: &Session| -> Vec<_> { s.model.gpus.values().map(|g| g.activity.as_str().unwrap_or("-")).collect() };
    for (name, from, step_s) in [
        ("slow", 24.0, 0.038),
        ("slow", 37.0, 0.038),
        ("hang", 24.0, 0.037),
        ("hang", 36.0, 0.037),
        ("none", 22.0, 0.1),
        ("none", 47.0, 0.1),
    ] {
        let s = session(name, from);
        assert!(power(&s).iter().all(|w| (670.0..730.0).contains(w)), "{name} {:?}", power(&s));
        let measured = progress(&s).step_time_s.unwrap();
        assert!((step_s * 0.95..step_s * 1.1).contains(&measured), "{name}: {measured}");
    }
    for (name, last) in [("hang", 36.0), ("slow", 37.0), ("pipeline", 37.0)] {
        let loss = |at| progress(&session(name, at)).loss.unwrap();
        assert!(loss(23.0) < 2.0 && loss(last) < loss(23.0) - 0.05, "{name}: the loss falls from {} to {}", loss(23.0), loss(last));
    }
    for at in [40.5, 44.0, 47.0] {
        let s = session("hang", at);
        assert_eq!(progress(&s).step, Some(462));
        assert_eq!(activity(&s), ["waiting", "waiting", "waiting", "idle"], "at {at} s");
        assert!(power(&s)[..3].iter().all(|w| (160.0..180.0).contains(w)) && (110.0..130.0).contains(&power(&s)[3]), "{:?}", power(&s));
    }
    let s = session("pipeline", 40.6);
    assert_eq!(progress(&s).step, Some(317));
    assert!((0.055..0.058).contains(&progress(&s).step_time_s.unwrap()));
    let s = session("xid", 44.0);
    assert_eq!(activity(&s).iter().filter(|a| **a == "waiting").count(), 7);
    let counts =
        |s: &Session| -> Vec<u64> { s.model.comms.values().flat_map(|c| c.ranks.values()).map(|r| r.counts.values().sum()).collect() };
    let s = counts(&session("hang", 44.0));
    assert!(s[0] == s[1] && s[1] == s[2] && s[2] > s[3], "{s:?}");
    assert!(counts(&session("none", 36.0)).iter().all(|c| *c == counts(&session("none", 36.0))[0]));
    let step_ms = |at: f64| (progress(&session("slow", at)).step_time_s.unwrap() * 1000.0).round();
    assert!((37.0..=38.0).contains(&step_ms(37.0)), "{}", step_ms(37.0));
    assert!((155.0..160.0).contains(&step_ms(39.5)), "{}", step_ms(39.5));
}

#[test]
fn ports_of_modelled_demos_carry_what_their_captions_say() {
    let gbits = |s: &Session, port: &str| {
        let port = &s.model.ports.values().find(|p| p.info.device == port).unwrap();
        (port.tx_newest(s.model.now).unwrap() * 8.0 / 1e9, port.counters.rate("retrans_pkts"))
    };
    let step = |s: &Session| s.model.progress_of(s.main_job().unwrap().0).unwrap().step_time_s.unwrap();
    let near = |value: f64, wanted: f64| assert!((wanted * 0.93..wanted * 1.07).contains(&value), "{value} instead of {wanted}");
    let before = session("efa", 31.0);
    near(step(&before), 1.0);
    near(gbits(&before, "rdmap147s0").0, 62.0);
    let after = session("efa", 60.0);
    near(step(&after), 1.6);
    near(gbits(&after, "rdmap147s0").1.unwrap(), 900.0);
    assert_eq!(gbits(&after, "rdmap79s0").1, Some(0.0));
    near(gbits(&session("roce-rail", 31.0), "mlx5_5").0, 210.0);
    let after = session("roce-rail", 60.0);
    near(step(&after), 1.6);
    near(gbits(&after, "mlx5_4").0, 131.0);
    near(gbits(&after, "mlx5_5").0, 66.0);
}

#[test]
fn slow_steps_name_the_port_that_became_slow_with_them() {
    let slow = |name, at_s| session(name, at_s).ledger.open().into_iter().find(|f| f.rule == "slow-steps").cloned().unwrap();
    let before = slow("roce-rail", 48.0);
    assert!(before.ports.is_empty() && !before.why.contains("same time"), "no port is judged yet: {}", before.why);
    assert_eq!(slow("roce-rail", 56.0).ports, ["mlx5_5/1"], "twelve seconds do where steps became longer meanwhile");
    let after = slow("roce-rail", 75.0);
    assert_eq!(after.ports, ["mlx5_5/1"]);
    assert!(after.why.contains("; at about the same time: rail mlx5_5/1 sends "), "{}", after.why);
    assert!(after.next.unwrap().starts_with("lspci"));
    assert_eq!(slow("efa", 75.0).ports, ["rdmap147s0/1"]);
}

#[test]
fn a_demo_is_small_and_says_when_it_is_modelled() {
    let list = std::process::Command::new(env!("CARGO_BIN_EXE_nccl-top")).args(["demo", "--list"]).output().unwrap().stdout;
    let list = String::from_utf8(list).unwrap();
    let mut whole = 0;
    for demo in DEMOS {
        let line = list.lines().find(|line| line.split(' ').next() == Some(demo.name)).unwrap();
        assert_eq!(line.ends_with("(modelled)"), demo.modelled, "{line}");
        let tape = format!("{}/assets/demo/{}.jsonl.gz", env!("CARGO_MANIFEST_DIR"), demo.name);
        let size = std::fs::metadata(&tape).unwrap().len();
        assert!(size < 150_000, "{tape}");
        whole += size;
    }
    assert!(whole < 600_000, "all are in every program: {whole} bytes");
}

#[test]
fn speed_and_caption_hold_until_the_next() {
    let hang = &DEMOS[0];
    assert_eq!(hang.name, "hang");
    assert_eq!((hang.speed_at(ms(28_899)), hang.speed_at(ms(28_900)), hang.speed_at(Duration::MAX)), (2.0, 1.0, 1.0));
    assert!(hang.caption_at(ms(47_499)).starts_with("RAS") && hang.caption_at(ms(47_500)).starts_with("Stuck"));
}
