//! Steps of training: jitter, slowdowns, pauses.

use crate::support::at;
use nccl_top::base::time::Stamp;
use nccl_top::logs::{Phase, Step};
use nccl_top::model::progress::{Progress, SlowSince};
use std::time::Duration;

fn step(step: u64, time_s: f64) -> Step {
    Step { step: Some(step), step_time_s: Some(time_s), loss: Some(2.0), throughput: Some(500.0 / time_s), ..Default::default() }
}

#[test]
fn jitter_is_the_spread_of_recent_steps() {
    let mut p = Progress::default();
    for s in 0..9 {
        p.apply(at(s), &step(s as u64, 0.1), false);
    }
    assert_eq!(p.jitter(), None, "too few");
    for s in 9..200 {
        p.apply(at(s), &step(s as u64, if s % 5 == 0 { 0.2 } else { 0.1 }), false);
    }
    assert!(p.jitter().is_some_and(|j| (j - 1.0).abs() < 1e-6), "{:?}", p.jitter());
    for s in 200..250 {
        p.apply(at(s), &step(s as u64, 0.1), false);
    }
    assert_eq!(p.jitter(), Some(0.0), "only the last 50 count");
}

#[test]
fn steps_that_take_longer_for_good_are_slow_until_they_do_not() {
    let mut p = Progress::default();
    let mut now = 0;
    let mut make = |p: &mut Progress, n: usize, time_s: f64| {
        for _ in 0..n {
            now += 1;
            p.apply(at(now), &step(now as u64, time_s), false);
        }
        now
    };
    make(&mut p, 4, 3.0);
    let healthy = make(&mut p, 40, 1.0);
    make(&mut p, 3, 2.9);
    make(&mut p, 10, 1.0);
    assert_eq!(p.slow, None, "a checkpoint");
    let before = make(&mut p, 5, 2.0);
    assert_eq!(p.slow, None, "five steps may be anything");
    make(&mut p, 300, 2.0);
    assert_eq!(p.slow, Some(SlowSince { since: at(before - 5), before_s: 1.0 }), "and what is slow does not become usual");
    make(&mut p, 6, 1.0);
    assert_eq!(p.slow, None);
    assert!(healthy < before);
}

#[test]
fn the_time_since_the_start_is_no_time_of_a_step() {
    // A line each ten steps, which take 0.2 s: the time that it tells grows with each.
    let mut p = Progress::default();
    for line in 1..=20_u64 {
        p.apply(at(2 * line as i64), &step(line * 10, 1.3 + line as f64), false);
    }
    assert_eq!((p.step_time_s, p.slow), (Some(0.2), None));
    // In a log that was there before there are no times of arrival.
    let mut p = Progress::default();
    (1..=20_u64).for_each(|line| p.apply(at(0), &step(line * 10, 1.3 + line as f64), true));
    assert_eq!(p.step_time_s, None);
    // Steps that become longer, and are sometimes shorter again.
    let mut p = Progress::default();
    (1..=20_u64).for_each(|line| p.apply(at(0), &step(line * 10, if line == 4 { 1.0 } else { 1.3 + line as f64 }), true));
    assert_eq!(p.step_time_s, Some(21.3));
}

#[test]
fn lines_of_many_steps_are_enough_sooner_the_farther_they_are_from_what_was_usual() {
    // Lines of ten steps, of 0.2 s each, then slower.
    let lines = |times_s: f64| {
        let mut p = Progress::default();
        let mut now = Stamp(1_000_000_000);
        (1..=40).find(|line| {
            let time_s = if *line <= 20 { 0.2 } else { 0.2 * times_s };
            now = now.plus(Duration::from_secs_f64(time_s * 10.0));
            p.apply(now, &step(line * 10, time_s), false);
            p.slow.is_some()
        })
    };
    assert_eq!([3.0, 2.0, 1.7, 1.6].map(|times_s| lines(times_s).map(|line| line - 20)), [3, 4, 5, 6].map(Some));
    assert_eq!(lines(1.5), None, "a tenth is usual, 1.4 times that is slow");
}

#[test]
fn a_lasting_change_is_told_from_jitter_pauses_and_warm_up() {
    let of = |times: &[f64]| {
        let mut p = Progress::default();
        for (s, time) in times.iter().enumerate() {
            p.apply(at(s as i64), &step(s as u64, *time), false);
        }
        p.slowdown()
    };
    let mut slow = vec![0.3, 0.1, 0.05];
    slow.extend([0.012; 12]);
    assert_eq!(of(&slow), None);
    slow.extend([0.262; 30]);
    let found = of(&slow).expect("a change");
    assert_eq!((found.steps, (found.after_s / found.before_s).round()), (30, 22.0));
    // A few slow steps, and as many again: no lasting change.
    let mut pauses = vec![0.1; 100];
    (40..45).chain(80..85).for_each(|i| pauses[i] = 3.0);
    assert_eq!(of(&pauses), None);
    let jitter: Vec<f64> = (0..200).map(|i| if i % 3 == 0 { 0.2 } else { 0.1 }).collect();
    assert_eq!(of(&jitter), None);
    let faster: Vec<f64> = (0..60).map(|i| if i < 30 { 0.2 } else { 0.1 }).collect();
    assert_eq!(of(&faster), None);
}

#[test]
fn lines_from_before_are_not_drawn_because_their_time_is_not_known() {
    let mut p = Progress::default();
    p.apply(at(5), &step(1, 0.1), true);
    assert_eq!((p.loss, p.losses.last(), p.step_trend.last(), p.throughput_trend.last()), (Some(2.0), None, None, None));
    p.apply(at(6), &step(2, 0.5), false);
    assert_eq!((p.losses.last(), p.step_trend.last(), p.throughput_trend.last()), (Some(2.0), Some(0.5), Some(1e3)));
}

#[test]
fn pauses_that_are_over_are_kept() {
    let mut p = Progress::default();
    p.phase_said(at(1), Phase::Checkpoint, true);
    p.phase_said(at(4), Phase::Checkpoint, false);
    p.phase_said(at(6), Phase::Evaluation, true);
    p.apply(at(9), &step(1, 0.1), false);
    p.phase_said(at(10), Phase::DataLoading, true);
    assert_eq!(p.phases, [(Phase::Checkpoint, at(1), at(4)), (Phase::Evaluation, at(6), at(9))]);
    for s in 11..100 {
        p.phase_said(at(s), if s % 2 == 0 { Phase::DataLoading } else { Phase::Checkpoint }, true);
    }
    assert_eq!(p.phases.len(), 32);
}

#[test]
fn silence_means_something_as_soon_as_the_pace_is_known() {
    let patience_s = |steps: &[(i64, Option<u64>)]| {
        let mut p = Progress::default();
        for (s, n) in steps {
            p.apply(at(*s), &Step { step: *n, loss: Some(2.0), ..Default::default() }, false);
        }
        (p.patience().as_secs_f64(), p.longer_than_waits().as_secs_f64())
    };
    assert_eq!(patience_s(&[(0, Some(1)), (6, Some(2))]), (60.0, 45.0), "one step may have been any");
    assert_eq!(patience_s(&[(0, Some(1)), (6, Some(2)), (12, Some(3))]), (19.0, 7.5), "two that are the same");
    assert_eq!(patience_s(&[(0, Some(1)), (6, Some(2)), (20, Some(3))]), (60.0, 45.0), "two that are not");
    assert_eq!(patience_s(&[(0, Some(0)), (2, Some(10))]), (8.0, 2.5), "one of many steps");
    assert_eq!(patience_s(&[(0, None), (3, None), (6, None), (9, None)]), (12.0, 3.75), "losses without a step");
}

#[test]
fn a_loss_that_falls_to_zero_step_by_step_is_none_that_is_lost() {
    let zeros = |losses: &[f64]| {
        let mut p = Progress::default();
        for (s, loss) in losses.iter().enumerate() {
            p.apply(at(s as i64), &Step { step: Some(s as u64), loss: Some(*loss), ..Default::default() }, false);
        }
        p.zero_losses
    };
    assert_eq!(zeros(&[2.0, 0.0, 0.0, 0.0]), 3);
    assert_eq!(zeros(&[0.02, 0.004, 0.001, 0.0, 0.0, 0.0]), 0, "it is printed with three digits");
}

#[test]
fn a_bar_that_its_monitor_draws_anew_is_no_step() {
    let bar = |step: u64, time_s: f64| Step { step: Some(step), step_time_s: Some(time_s), bar: true, ..Step::default() };
    let mut p = Progress::default();
    for i in 0..20u32 {
        p.apply(at(i64::from(i)), &bar(u64::from(i) * 20, 0.05), false);
    }
    let last = p.last_step_at;
    p.apply(at(31), &bar(382, 0.05), false);
    assert_eq!(p.last_step_at, last, "the same rate after 12 s: two steps that were made before");
    p.apply(at(32), &bar(383, 0.061), false);
    assert_eq!((p.last_step_at, p.step), (Some(at(32)), Some(383)));
    // Slow steps of an even pace.
    let mut p = Progress::default();
    for i in 1..=6u32 {
        p.apply(at(i64::from(i) * 10), &bar(u64::from(i), 10.0), false);
    }
    assert_eq!((p.last_step_at, p.step), (Some(at(60)), Some(6)));
}

#[test]
fn a_bar_that_goes_on_behind_a_pause_at_the_same_rate_is_believed() {
    let bar = |step: u64| Step { step: Some(step), step_time_s: Some(0.05), bar: true, ..Step::default() };
    let mut p = Progress::default();
    (0..20u32).for_each(|i| p.apply(at(i64::from(i)), &bar(u64::from(i) * 20), false));
    // A mean over the whole run looks the same before and after an evaluation.
    p.apply(at(64), &bar(384), false);
    p.apply(at(65), &bar(404), false);
    assert_eq!((p.last_step_at, p.step), (Some(at(65)), Some(404)));
}
