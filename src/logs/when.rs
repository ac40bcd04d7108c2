//! Times in log lines, made whole: year and zone are often missing and are taken from the file and the host.

use super::Written;
use crate::base::time::{Stamp, Zone};
use std::time::Duration;

/// Clocks of two hosts differ, and a line may be written after the file was last stamped.
const AHEAD: Duration = Duration::from_secs(36 * 3600);

/// When a file was changed, by whose lines the year of its lines is told: `modified`, or so many years before it that the file meets what
/// others have written, from the first line to the last, with a year. A log that is copied, or kept for years, is as old as it was.
pub fn modified_beside(first: &Written, modified: Stamp, zone: Zone, (from, to): (Stamp, Stamp)) -> Stamp {
    const MOST_YEARS: i64 = 20;
    let before = |years: i64| {
        let at = jiff::Timestamp::from_nanosecond(i128::from(modified.0)).ok()?;
        let date = jiff::tz::Offset::UTC.to_datetime(at).checked_sub(jiff::Span::new().try_years(years).ok()?).ok()?;
        let at = jiff::tz::Offset::UTC.to_timestamp(date).ok()?;
        Some(Stamp(i64::try_from(at.as_nanosecond()).ok()?))
    };
    let meets = |at: &Stamp| *at >= from && stamp_of(first, *at, zone).is_some_and(|first| first <= to);
    (0..MOST_YEARS).filter_map(before).find(meets).unwrap_or(modified)
}

/// The first time that lines of a text carry, if it has no year.
pub fn first_without_year(text: &[u8]) -> Option<Written> {
    let mut lines = text.split(|b| *b == b'\n');
    let first = lines.find_map(|line| super::prefix::peel(&String::from_utf8_lossy(line)).origin.written)?;
    first.year.is_none().then_some(first)
}

/// The first and the last time of a text that have a year, those of torchrun's table of failures among them. Lines without a year may have
/// been written a day later.
pub fn dated(text: &[u8], zone: Zone) -> Option<(Stamp, Stamp)> {
    const LATER: Duration = Duration::from_secs(24 * 3600);
    let of_table = |line: &str| {
        let (key, value) = line.trim_start().split_once(':')?;
        (key.trim_end() == "time").then(|| super::prefix::stamp::iso(value.trim_start())).flatten().map(|(w, _)| w)
    };
    // CANN puts a dash between date and time, wherever the message stands: `EI0006: [PID: 9] 2026-10-11-11:32:29.335.888 …`.
    let of_cann = |line: &str| {
        let at = line.match_indices("20").map(|(at, _)| at).take(8).find(|at| {
            let tail = &line.as_bytes()[*at..];
            // A directory may be named after a time.
            let stands_alone = *at > 0 && line.as_bytes()[at - 1] == b' ' && matches!(tail.get(19), Some(b'.' | b' '));
            stands_alone && [4, 7, 10].iter().all(|i| tail.get(*i) == Some(&b'-')) && tail.get(13) == Some(&b':')
        })?;
        let date = line.get(at..at + 10)?;
        super::prefix::stamp::iso(&format!("{date} {}", line.get(at + 11..)?)).map(|(w, _)| w)
    };
    let times = text.split(|b| *b == b'\n').filter_map(|line| {
        let line = String::from_utf8_lossy(line);
        let peeled = super::prefix::peel(&line);
        let of_line = of_table(peeled.rest).or(peeled.origin.written).filter(|w| w.year.is_some());
        let written = of_line.or_else(|| of_cann(peeled.rest))?;
        stamp_of(&written, Stamp::default(), zone)
    });
    times
        .fold(None, |all: Option<(Stamp, Stamp)>, at| Some(all.map_or((at, at), |(from, to)| (from.min(at), to.max(at)))))
        .map(|(from, to)| (from, to.plus(LATER)))
}

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
