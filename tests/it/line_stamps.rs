//! Times as log lines have them.

use nccl_top::base::time::{Stamp, Zone};
use nccl_top::logs::Written;
use nccl_top::logs::prefix::stamp::{american, ctime, glog, iso};
use nccl_top::logs::when::stamp_of;

fn show(read: Option<(Written, usize)>) -> String {
    match read {
        None => "-".into(),
        Some((w, n)) => format!(
            "{}-{}-{} {}:{}:{}.{} {:?} ({n})",
            w.year.map_or("?".into(), |y| y.to_string()),
            w.month,
            w.day,
            w.hour,
            w.minute,
            w.second,
            w.nanosecond,
            w.offset_s
        ),
    }
}

#[test]
fn iso_times_with_and_without_zone_and_fraction() {
    assert_eq!(show(iso("2026-05-16T16:39:51.208Z x")), "2026-5-16 16:39:51.208000000 Some(0) (24)");
    assert_eq!(show(iso("2026-11-09 15:39:31.043 +08:00 x")), "2026-11-9 15:39:31.43000000 Some(28800) (30)");
    assert_eq!(show(iso("2026-05-16T16:39:51-07:00")), "2026-5-16 16:39:51.0 Some(-25200) (25)");
    assert_eq!(show(iso("2026-06-16 22:30:50,322 - root")), "2026-6-16 22:30:50.322000000 None (23)");
    assert_eq!(show(iso("2026-11-21_00:05:26")), "2026-11-21 0:5:26.0 None (19)");
    assert_eq!(show(iso("2026-13-21 00:05:26")), "-");
    assert_eq!(show(iso("2026-11-21 24:05:26")), "-");
    assert_eq!(show(iso("2026-11-21 00:0")), "-");
}

#[test]
fn glog_months_are_padded_or_not() {
    assert_eq!(show(glog("1121 00:10:37.678827192 x")), "?-11-21 0:10:37.678827192 None (23)");
    assert_eq!(show(glog("710 01:02:03.000001 x")), "?-7-10 1:2:3.1000 None (19)");
    assert_eq!(show(glog("0108 01:02:03.000001 x")), "?-1-8 1:2:3.1000 None (20)");
    assert_eq!(show(glog("1399 01:02:03.000001 x")), "-");
    assert_eq!(show(glog("12345 01:02:03.000001 x")), "-");
}

#[test]
fn other_times() {
    assert_eq!(show(iso("2026-Sep-19 18:57:20.782 4444:4444 ERROR")), "2026-9-19 18:57:20.782000000 None (24)");
    assert_eq!(show(iso("2026-Sem-19 18:57:20.782")), "-");
    assert_eq!(show(american("09/26/2026 12:00:00 - INFO")), "2026-9-26 12:0:0.0 None (19)");
    assert_eq!(show(ctime("Mon Jan  2 15:04:05 2026[1,0]")), "2026-1-2 15:4:5.0 None (24)");
}

fn written(year: Option<i16>, month: u8, day: u8) -> Written {
    Written { year, month, day, hour: 1, minute: 2, second: 3, nanosecond: 4, offset_s: None }
}

#[test]
fn the_year_is_the_last_one_that_fits() {
    let zone = Zone { offset_s: 3600 };
    let modified = stamp_of(&written(Some(2026), 1, 2), Stamp(0), zone).unwrap();
    assert_eq!(zone.rfc3339(modified), "2026-01-02T01:02:03.000+01:00");
    assert_eq!(zone.rfc3339(stamp_of(&written(None, 1, 1), modified, zone).unwrap()), "2026-01-01T01:02:03.000+01:00");
    assert_eq!(zone.rfc3339(stamp_of(&written(None, 12, 31), modified, zone).unwrap()), "2025-12-31T01:02:03.000+01:00");
    assert_eq!(stamp_of(&written(None, 2, 30), modified, zone), None);
}
