//! Lines of no known shape that count something.

use crate::support::at;
use nccl_top::model::counting::{Counted, Counting};
use std::time::Duration;

/// A line for each second.
fn counted(lines: impl IntoIterator<Item = String>) -> Option<Counted> {
    let mut counting = Counting::default();
    for (s, line) in lines.into_iter().enumerate() {
        counting.read(at(s as i64 * 2), &line);
    }
    counting.counted()
}

#[test]
fn a_number_that_grows_by_the_same_in_line_after_line_counts() {
    let steady = Some(Counted { every: Duration::from_secs(2), steady: true, slowed: None });
    assert_eq!(counted((0..6).map(|n| format!("<{}> nll={:.4}", n * 10, 2.3 - f64::from(n) * 0.01))), steady);
    assert_eq!(counted((8..14).map(|n| format!("21:13:{n:02} round {n:>4} of 9000, 0.{n:02}"))), steady, "numbers push blanks aside");
    assert_eq!(counted((0..4).map(|n| format!("round {n}"))), None, "too few");
    assert_eq!(counted((0..9).map(|n| format!("21:13:{n:02} 0.{n} took 12 ms"))), None, "times and decimals are no counts");
    assert_eq!(counted((0..9).map(|n| format!("round {}", n * n))), None, "by something else each time");
    assert_eq!(counted((0..18).map(|n| format!("worker {} round {}", n % 3, n / 3))), None, "several writers");
}

#[test]
fn lines_that_count_by_as_much_as_before_and_come_later_are_slow() {
    // Steps from one line to the next, and seconds.
    let slowed = |came: &[(u64, i64)]| {
        let (mut counting, mut n, mut s) = (Counting::default(), 0, 0);
        for (more, after) in came {
            (n, s) = (n + more, s + after);
            counting.read(at(s), &format!("{n},{:.4}", 2.5 - s as f64 / 1e3));
        }
        counting.counted().and_then(|counted| counted.slowed)
    };
    let before = [(10, 2); 8];
    let with = |then: &[(u64, i64)]| slowed(&[&before, then].concat());
    let found = with(&[(10, 9), (10, 8), (10, 8)]).unwrap();
    assert_eq!((found.before, found.now, found.lines), (Duration::from_secs(2), Duration::from_secs(8), 3));
    assert_eq!((found.since, found.last_at), (at(16), at(41)));
    assert_eq!(with(&[(10, 30), (10, 2), (10, 2)]), None, "a pause");
    assert_eq!(with(&[(10, 8), (10, 8)]), None, "too few");
    assert_eq!(with(&[(10, 3), (10, 3), (10, 3)]), None, "hardly later");
    assert_eq!(with(&[(40, 8), (40, 8), (40, 8), (40, 8)]), None, "it prints less often");
    assert_eq!(with(&[(10, 8), (10, 8), (10, 8), (10, 2), (10, 2)]), None, "it is as before");
}

#[test]
fn requests_that_come_when_they_like_are_not_steady() {
    let mut counting = Counting::default();
    for (n, s) in [0, 1, 5, 6, 13, 14, 15].into_iter().enumerate() {
        counting.read(at(s), &format!("request {n} served"));
    }
    assert!(counting.counted().is_some_and(|counted| !counted.steady), "{counting:?}");
}
