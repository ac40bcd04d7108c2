//! Values over time, and their columns on the screen.

use crate::support::at;
use nccl_top::base::time::Stamp;
use nccl_top::model::series::{Series, Trend, rate};
use proptest::prelude::*;
use std::time::Duration;

#[test]
fn history_is_bounded_and_windows_are_by_time() {
    let mut s = Series::<4>::default();
    for i in 0..10 {
        s.push(at(i), i as f64);
    }
    assert_eq!(s.len(), 4);
    assert_eq!(s.mean_within(at(9), Duration::from_secs(1)), Some(8.5));
    assert_eq!(s.median_of_last(3), Some(8.0));
    assert_eq!(s.mean_within(at(99), Duration::from_secs(1)), None);
}

#[test]
fn a_counter_that_goes_back_has_no_rate() {
    assert_eq!(rate((at(0), 10), (at(2), 30)), Some(10.0));
    assert_eq!(rate((at(0), 30), (at(2), 10)), None);
    assert_eq!(rate((at(2), 30), (at(2), 40)), None);
}

#[test]
fn a_trend_keeps_minutes_however_often_it_is_sampled() {
    let mut trend = Trend::default();
    for i in 0..20_000 {
        trend.push(Stamp(i * 1_000_000_000 / 10), (i / 10) as f64);
    }
    assert_eq!(trend.iter().count(), Trend::MAX_BUCKETS);
    assert_eq!((trend.iter().next(), trend.last()), (Some((at(1100), 1100.0)), Some(1999.0)));
    for absent in [f64::NAN, f64::INFINITY, 1e300] {
        trend.push(at(5000), absent);
    }
    assert_eq!(trend.last(), Some(1999.0), "what is no number is not drawn");
    trend.push(at(1500), 0.0);
    assert_eq!(trend.iter().find(|(s, _)| *s == at(1500)).map(|(_, v)| (v * 11.0).round()), Some(15_000.0), "a late sample");
}

#[test]
fn columns_are_means_and_absent_is_not_zero() {
    let mut trend = Trend::default();
    for (s, v) in [(1, 10.0), (2, 20.0), (2, 40.0), (7, 5.0)] {
        trend.push(at(s), v);
    }
    let s = Duration::from_secs;
    assert_eq!(trend.columns(at(8), s(2), 4, s(0)), [Some(70.0 / 3.0), None, None, Some(5.0)]);
    assert_eq!(trend.columns(at(4), s(1), 3, s(0)), [Some(30.0), None, None]);
    assert_eq!(trend.columns(at(8), s(1), 8, s(3))[..6], [Some(10.0), Some(30.0), Some(30.0), Some(30.0), Some(30.0), None]);
    assert_eq!(trend.columns(at(60), s(1), 2, s(60)), [Some(5.0); 2], "held from before the first column");
    assert_eq!(trend.columns(at(0), s(1), 2, s(60)), [None; 2], "nothing is known ahead of its time");
}

proptest! {
    #[test]
    fn columns_never_panic_and_hold_nothing_that_was_not_sampled(
        samples in prop::collection::vec((0i64..2000, -1e30f64..1e30), 0..60),
        end in prop_oneof![any::<i64>(), (0i64..2000).prop_map(|s| s * 1_000_000_000)],
        step in prop_oneof![any::<u64>(), 0u64..100 * 1_000_000_000],
        hold in prop_oneof![any::<u64>(), 0u64..100 * 1_000_000_000],
        n in 0usize..200,
    ) {
        let mut trend = Trend::default();
        samples.iter().for_each(|(s, v)| trend.push(at(*s), *v));
        let columns = trend.columns(Stamp(end), Duration::from_nanos(step), n, Duration::from_nanos(hold));
        prop_assert_eq!(columns.len(), n);
        let (min, max) = samples.iter().fold((f32::MAX, f32::MIN), |(lo, hi), s| (lo.min(s.1 as f32), hi.max(s.1 as f32)));
        prop_assert!(columns.iter().flatten().all(|v| (min..=max).contains(v)));
        let longest = trend.columns(Stamp(end), Duration::MAX, 1, Duration::MAX);
        prop_assert_eq!(longest.len(), 1);
    }
}
