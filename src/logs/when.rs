//! Times in log lines, made whole: year and zone are often missing and are taken from the file and the host.

use super::Written;
use crate::base::time::{Stamp, Zone};
use std::time::Duration;

/// Clocks of two hosts differ, and a line may be written after the file was last stamped.
const AHEAD: Duration = Duration::from_secs(36 * 3600);

/// The instant of `written`, with the year that lets it lie before `modified`, when the file was last changed.
pub fn stamp_of(written: &Written, modified: Stamp, zone: Zone) -> Option<Stamp> {
    let offset = written.offset_s.unwrap_or(zone.offset_s);
    let of_year = |year: i16| -> Option<Stamp> {
        let date = jiff::civil::Date::new(year, i8::try_from(written.month).ok()?, i8::try_from(written.day).ok()?).ok()?;
        let small = |n: u8| i8::try_from(n).ok();
        let nanos = i32::try_from(written.nanosecond).ok()?;
        let time = jiff::civil::Time::new(small(written.hour)?, small(written.minute)?, small(written.second)?.min(59), nanos).ok()?;
        let offset = jiff::tz::Offset::from_seconds(offset).ok()?;
        let at = offset.to_timestamp(date.to_datetime(time)).ok()?;
        Some(Stamp(i64::try_from(at.as_nanosecond()).ok()?))
    };
    match written.year {
        Some(year) => of_year(year),
        None => {
            let now = jiff::Timestamp::from_nanosecond(i128::from(modified.0)).ok()?;
            let year = jiff::tz::Offset::from_seconds(zone.offset_s).ok()?.to_datetime(now).year();
            of_year(year).filter(|at| *at <= modified.plus(AHEAD)).or_else(|| of_year(year - 1))
        }
    }
}
