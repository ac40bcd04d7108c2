//! Recordings that come with the program, with the pace at which they are shown and a line for each part: what happens, where to look.

use crate::tape::{Reader, TapeError};
use std::time::Duration;

/// A recording of a real job on 4 GPUs. Offsets are from the first observation of the tape.
pub struct Demo {
    pub name: &'static str,
    pub title: &'static str,
    tape: &'static [u8],
    /// From when on the tape is shown how many times faster than it was made.
    speeds: &'static [(Duration, f64)],
    captions: &'static [(Duration, &'static str)],
}

const fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

/// The first is what is shown when none is named.
pub const DEMOS: &[Demo] = &[
    Demo {
        name: "hang",
        title: "one rank stops, the others wait for it",
        tape: include_bytes!("../assets/demo/hang.jsonl.gz"),
        speeds: &[(ms(0), 2.0), (ms(7_000), 1.5), (ms(19_000), 4.0), (ms(42_000), 1.0), (ms(78_000), 2.0)],
        captions: &[
            (ms(0), "4 GPUs idle, no job yet"),
            (ms(7_100), "A torchrun job starts: 4 ranks import, then set up NCCL; no step yet"),
            (ms(19_100), "Training: a step takes 100 ms, each of the 4 GPUs draws 690 W"),
            (ms(42_000), "From here in real time. In 8 seconds rank 3 stops: watch GPU 3 and the step"),
            (ms(52_100), "No step after 329. GPU 3 is idle, GPUs 0, 1 and 2 spin at 130 W. The log says nothing"),
            (ms(56_000), "RAS counts 8 operations fewer for rank 3 than for the others, and none of them moves"),
            (ms(60_100), "Stuck, 10 seconds after it happened: rank 3 has not joined the AllReduce that 3 ranks wait in"),
            (ms(68_000), "Below the verdict: what proves it, and what to run next, py-spy on the process of rank 3"),
            (ms(77_000), "The log itself would stay silent for 10 minutes: PyTorch's default timeout for a collective"),
        ],
    },
    Demo {
        name: "slow",
        title: "one rank is late at every step",
        tape: include_bytes!("../assets/demo/slow.jsonl.gz"),
        speeds: &[(ms(0), 2.0), (ms(7_000), 1.5), (ms(19_000), 4.0), (ms(42_000), 1.0), (ms(76_000), 3.0)],
        captions: &[
            (ms(0), "4 GPUs idle, no job yet"),
            (ms(7_100), "A torchrun job starts: 4 ranks import, then set up NCCL; no step yet"),
            (ms(19_100), "Training: a step takes 100 ms, each of the 4 GPUs draws 690 W"),
            (ms(42_000), "From here in real time. In 7 seconds rank 2 becomes slow: watch the step time and GPU 2"),
            (ms(50_500), "A step takes 336 ms instead of 99 ms. Nothing fails, and no line in the log says why"),
            (ms(55_000), "Slow steps. GPUs 0, 1 and 3 are busy all the time, because they wait; GPU 2 is not"),
            (ms(58_100), "Slow: rank 2 (GPU 2) is late every step, and the other 3 ranks wait for it"),
            (ms(67_000), "All ranks make the same steps; how long each GPU is busy tells which one is late"),
            (ms(76_000), "Below the verdict: what proves it, and what to run next, py-spy on the process of rank 2"),
        ],
    },
    Demo {
        name: "none",
        title: "a healthy run from start to end",
        tape: include_bytes!("../assets/demo/none.jsonl.gz"),
        speeds: &[(ms(0), 2.0), (ms(10_000), 1.0), (ms(21_000), 2.0), (ms(62_000), 1.0)],
        captions: &[
            (ms(0), "4 GPUs idle, no job yet"),
            (ms(10_100), "A torchrun job starts: 4 ranks hold GPUs and set up NCCL; no step yet"),
            (ms(21_100), "Training: a step takes 100 ms, each of the 4 GPUs draws 690 W"),
            (ms(35_000), "RAS counts the same number of operations for all 4 ranks"),
            (ms(48_000), "No warning and no error: a healthy run has nothing to report"),
            (ms(62_000), "From here in real time. The last step is 519"),
            (ms(71_100), "The last step is done: the ranks end, and the GPUs fall idle"),
            (ms(74_100), "Finished: all processes ended at step 519; an end is no alarm"),
        ],
    },
];

impl Demo {
    /// # Errors
    /// If the recording in this program is damaged.
    pub fn open(&self) -> Result<Reader, TapeError> {
        Reader::from_read(Box::new(self.tape), self.name)
    }

    /// How many times faster than it was made the tape is shown at `offset`.
    pub fn speed_at(&self, offset: Duration) -> f64 {
        last_at(self.speeds, offset).unwrap_or(1.0)
    }

    pub fn caption_at(&self, offset: Duration) -> &'static str {
        last_at(self.captions, offset).unwrap_or_default()
    }
}

fn last_at<T: Copy>(entries: &[(Duration, T)], offset: Duration) -> Option<T> {
    entries.iter().rev().find(|e| e.0 <= offset).map(|e| e.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::{Body, Observation};
    use crate::session::Session;
    use crate::verdict::State;

    /// The states that the captions speak of, in their order.
    fn claimed(name: &str) -> Vec<State> {
        use State::{Finished, Idle, Slow, Starting, Stuck, Training};
        match name {
            "hang" => vec![Idle, Starting, Training, Training, Training, Training, Stuck, Stuck, Stuck],
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
    fn a_demo_lasts_a_minute_and_leaves_time_to_read() {
        for demo in DEMOS {
            let (_, seen) = observations(demo);
            let length = seen[seen.len() - 1].at.since(seen[0].at);
            let lasts = shown_s(demo, Duration::ZERO, length);
            assert!((50.0..=75.0).contains(&lasts), "{} lasts {lasts:.1} s", demo.name);
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
                if i > 0 && !soon {
                    assert_eq!(state, claimed[at], "{} at {offset:?}: {}", demo.name, demo.captions[at].1);
                    match state {
                        State::Stuck => assert!(summary.starts_with("rank 3 (GPU 3"), "{summary}"),
                        State::Slow if at == 5 => assert!(summary.starts_with("steps take 33"), "{summary}"),
                        State::Slow => assert!(summary.starts_with("rank 2 (GPU 2"), "{summary}"),
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
        for (name, from) in [("hang", 20.0), ("hang", 41.0), ("slow", 20.0), ("slow", 41.0), ("none", 22.0), ("none", 47.0)] {
            let s = session(name, from);
            assert!(power(&s).iter().all(|w| (680.0..730.0).contains(w)), "{name} {:?}", power(&s));
            assert!((0.09..0.11).contains(&progress(&s).step_time_s.unwrap()));
        }
        for at in [52.2, 56.0, 60.0] {
            let s = session("hang", at);
            assert_eq!(progress(&s).step, Some(329));
            assert_eq!(activity(&s), ["waiting", "waiting", "waiting", "idle"], "at {at} s");
            assert!(power(&s).iter().all(|w| (120.0..140.0).contains(w)));
        }
        let counts =
            |s: &Session| -> Vec<u64> { s.model.comms.values().flat_map(|c| c.ranks.values()).map(|r| r.counts.values().sum()).collect() };
        let s = session("hang", 56.0);
        assert_eq!(counts(&s)[..3], [counts(&s)[3] + 8; 3]);
        assert!(counts(&session("none", 36.0)).iter().all(|c| *c == counts(&session("none", 36.0))[0]));
        let step_ms = |at: f64| (progress(&session("slow", at)).step_time_s.unwrap() * 1000.0).round();
        assert_eq!(step_ms(49.0), 99.0);
        assert!((334.0..339.0).contains(&step_ms(51.0)), "{}", step_ms(51.0));
    }

    #[test]
    fn speed_and_caption_hold_until_the_next() {
        let hang = &DEMOS[0];
        assert_eq!(hang.name, "hang");
        assert_eq!((hang.speed_at(ms(6_999)), hang.speed_at(ms(7_000)), hang.speed_at(Duration::MAX)), (2.0, 1.5, 2.0));
        assert!(hang.caption_at(ms(60_099)).starts_with("RAS") && hang.caption_at(ms(60_100)).starts_with("Stuck"));
    }
}
