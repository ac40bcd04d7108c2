//! Instants, and the only clock of the program. Knows nothing of what happens at them.

use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Nanoseconds since the Unix epoch.
///
/// On a tape it is written as seconds with nine decimals, so that `jq` can do arithmetic with it and nothing is lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Stamp(pub i64);

impl Stamp {
    pub fn from_secs_f64(secs: f64) -> Self {
        Stamp((secs * 1e9) as i64)
    }

    /// Time from `earlier` to `self`; zero if `earlier` is later.
    pub fn since(self, earlier: Stamp) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0).max(0) as u64)
    }

    /// Whole seconds between what a clock shows at both: what stands beside times of day must be their difference. Zero if `earlier` is later.
    pub fn on_clock_since(self, earlier: Stamp) -> Duration {
        let second = |at: Stamp| at.0.div_euclid(1_000_000_000);
        Duration::from_secs(second(self).saturating_sub(second(earlier)).max(0) as u64)
    }

    /// Seconds from `earlier` to `self`; negative if `earlier` is later.
    pub fn secs_since(self, earlier: Stamp) -> f64 {
        self.0.saturating_sub(earlier.0) as f64 / 1e9
    }

    /// Seconds since the Unix epoch.
    pub fn secs_since_epoch(self) -> f64 {
        self.0 as f64 / 1e9
    }

    pub fn plus(self, d: Duration) -> Stamp {
        Stamp(self.0.saturating_add(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)))
    }

    pub fn minus(self, d: Duration) -> Stamp {
        Stamp(self.0.saturating_sub(i64::try_from(d.as_nanos()).unwrap_or(i64::MAX)))
    }
}

/// The wall clock read once, plus the time since boot that has passed since: a step of the system clock cannot make a duration negative, and
/// the time that the machine slept counts.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: i64,
    started: Duration,
}

impl Clock {
    pub fn start() -> Self {
        let wall = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Clock { wall: i64::try_from(wall.as_nanos()).unwrap_or(i64::MAX), started: since_boot() }
    }

    pub fn now(&self) -> Stamp {
        Stamp(self.wall).plus(since_boot().saturating_sub(self.started))
    }
}

/// CLOCK_BOOTTIME: unlike that of `Instant` it goes on while the machine sleeps.
fn since_boot() -> Duration {
    Duration::try_from(clock_gettime(ClockId::Boottime)).unwrap_or_default()
}

/// The zone in which stamps are shown: that of the observed host, kept in the tape's header, so that a replay elsewhere prints the
/// same lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Zone {
    /// Seconds east of UTC.
    pub offset_s: i32,
}

impl Zone {
    pub const UTC: Zone = Zone { offset_s: 0 };

    /// The offset of this host's zone at `at`; UTC where `TZ` names something that is no file of a zone.
    pub fn of_host(at: Stamp) -> Zone {
        if std::env::var_os("TZ").is_some_and(|tz| !is_harmless(&tz.to_string_lossy())) {
            return Zone::UTC;
        }
        let ts = jiff::Timestamp::from_nanosecond(i128::from(at.0)).unwrap_or_default();
        Zone { offset_s: jiff::tz::TimeZone::system().to_offset(ts).seconds() }
    }

    fn zoned(self, at: Stamp) -> jiff::Zoned {
        let ts = jiff::Timestamp::from_nanosecond(i128::from(at.0)).unwrap_or_default();
        let offset = jiff::tz::Offset::from_seconds(self.offset_s).unwrap_or(jiff::tz::Offset::UTC);
        ts.to_zoned(jiff::tz::TimeZone::fixed(offset))
    }

    /// `2026-11-21T10:04:09.250+00:00`
    pub fn rfc3339(self, at: Stamp) -> String {
        self.zoned(at).strftime("%Y-%m-%dT%H:%M:%S%.3f%:z").to_string()
    }

    /// `10:04:09`
    pub fn hms(self, at: Stamp) -> String {
        self.zoned(at).strftime("%H:%M:%S").to_string()
    }

    /// `10:04:09`; with its date where that is not the one of `now`: `21 Nov 10:04:09`, `21 Nov 2025 10:04:09`.
    pub fn hms_of_day(self, at: Stamp, now: Stamp) -> String {
        let (then, now) = (self.zoned(at), self.zoned(now));
        let form = match (then.date() == now.date(), then.year() == now.year()) {
            (true, _) => "%H:%M:%S",
            (_, true) => "%-d %b %H:%M:%S",
            _ => "%-d %b %Y %H:%M:%S",
        };
        then.strftime(form).to_string()
    }
}

/// Whether looking up a zone by the value of `TZ`, which may be a path, can neither take for ever nor fill memory.
fn is_harmless(tz: &str) -> bool {
    const MOST_BYTES: u64 = 1 << 20;
    let named = std::fs::metadata(tz.strip_prefix(':').unwrap_or(tz));
    named.map_or(true, |meta| meta.is_dir() || meta.is_file() && meta.len() <= MOST_BYTES)
}

/// A span of time as a person says it: `0.4 s`, `14 s`, `2 m 05 s`, `18 h 04 m`, `3 d 02 h`.
pub fn span(d: Duration) -> String {
    let s = d.as_secs();
    match s {
        0 if (50..950).contains(&d.as_millis()) => format!("{:.1} s", d.as_secs_f64()),
        0..=59 => format!("{:.0} s", d.as_secs_f64().floor()),
        60..=3599 => format!("{} m {:02} s", s / 60, s % 60),
        3600..=86_399 => format!("{} h {:02} m", s / 3600, s % 3600 / 60),
        _ => format!("{} d {:02} h", s / 86_400, s % 86_400 / 3600),
    }
}

/// Reads a duration as users write it: `500ms`, `2s`, `10m`, `1h30m`.
///
/// # Errors
/// A text that names what was found and what is expected.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("found {text:?}, expected a duration such as \"500ms\", \"2s\" or \"10m\"");
    let mut rest = text.trim();
    let mut total = 0f64;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
        let number: f64 = rest[..digits].parse().map_err(|_| wrong())?;
        rest = &rest[digits..];
        let end = rest.find(|c: char| c.is_ascii_digit()).unwrap_or(rest.len());
        total += number
            * match rest[..end].trim() {
                "ms" => 1e-3,
                "s" => 1.0,
                "m" | "min" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return Err(wrong()),
            };
        rest = &rest[end..];
    }
    if total.is_finite() && total < 3.2e9 { Ok(Duration::from_secs_f64(total)) } else { Err(wrong()) }
}
