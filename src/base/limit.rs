//! Thresholds of rules, and what a user has set of rules: read wherever something is judged.

use crate::base::severity::Severity;
use crate::base::time::parse_duration;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;
use std::time::Duration;

/// A threshold with its default.
#[derive(Clone, Copy, Debug)]
pub struct Limit {
    /// The rule in whose table of the config it stands.
    pub rule: &'static str,
    pub key: &'static str,
    unit: Unit,
    default: f64,
    /// What it is the limit of, as the end of a sentence: "GPUs must have waited this long".
    pub meaning: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    Seconds,
    Percent,
    /// How many times as much.
    Times,
    Count,
}

impl Limit {
    pub const fn seconds(rule: &'static str, key: &'static str, default: f64, meaning: &'static str) -> Limit {
        Limit { rule, key, unit: Unit::Seconds, default, meaning }
    }

    pub const fn percent(rule: &'static str, key: &'static str, default: f64, meaning: &'static str) -> Limit {
        Limit { rule, key, unit: Unit::Percent, default, meaning }
    }

    pub const fn times(rule: &'static str, key: &'static str, default: f64, meaning: &'static str) -> Limit {
        Limit { rule, key, unit: Unit::Times, default, meaning }
    }

    pub const fn count(rule: &'static str, key: &'static str, default: f64, meaning: &'static str) -> Limit {
        Limit { rule, key, unit: Unit::Count, default, meaning }
    }

    /// In its unit: seconds, percent, times or a number.
    pub fn value(&self) -> f64 {
        let limits = &settings().limits;
        if limits.is_empty() {
            return self.default;
        }
        limits.get(&(self.rule.to_owned(), self.key.to_owned())).copied().unwrap_or(self.default)
    }

    pub fn duration(&self) -> Duration {
        Duration::from_secs_f64(self.value())
    }

    /// The value in effect as the config writes it.
    pub fn text(&self) -> String {
        self.words(self.value())
    }

    /// The default as the config writes it.
    pub fn default_text(&self) -> String {
        self.words(self.default)
    }

    pub fn words(&self, value: f64) -> String {
        match self.unit {
            Unit::Seconds if value.fract() != 0.0 => format!("\"{:.0}ms\"", value * 1e3),
            Unit::Seconds => format!("\"{value:.0}s\""),
            Unit::Percent | Unit::Times | Unit::Count => format!("{value}"),
        }
    }

    /// Its unit, for people.
    pub fn unit(&self) -> &'static str {
        match self.unit {
            Unit::Percent => " %",
            Unit::Times => " times",
            Unit::Seconds | Unit::Count => "",
        }
    }

    /// # Errors
    /// What was found and what is expected.
    pub fn parse(&self, found: &str) -> Result<f64, String> {
        let number = |expected: &str, range: std::ops::RangeInclusive<f64>| {
            let value = found.parse::<f64>().ok().filter(|v| range.contains(v));
            value.ok_or_else(|| format!("found {found:?}, expected {expected}"))
        };
        match self.unit {
            Unit::Seconds => {
                let value = parse_duration(found)?;
                let range = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
                let wrong = || format!("found {found:?}, expected a duration from \"100ms\" to \"24h\"");
                range.contains(&value).then_some(value.as_secs_f64()).ok_or_else(wrong)
            }
            Unit::Percent => number("a number of percent from 0 to 100", 0.0..=100.0),
            Unit::Times => number("a number from 1 to 1000", 1.0..=1000.0),
            Unit::Count => number("a whole number from 1 to 1000000", 1.0..=1e6).map(f64::trunc),
        }
    }
}

/// What a user has set of the rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Settings {
    /// By rule and key.
    pub limits: BTreeMap<(String, String), f64>,
    pub severities: BTreeMap<String, Severity>,
    pub muted: BTreeSet<String>,
}

/// Set once, before anything is judged.
static SETTINGS: OnceLock<Settings> = OnceLock::new();

fn settings() -> &'static Settings {
    static DEFAULT: Settings = Settings { limits: BTreeMap::new(), severities: BTreeMap::new(), muted: BTreeSet::new() };
    SETTINGS.get().unwrap_or(&DEFAULT)
}

/// Puts settings into effect, for the life of the program. What is set later has no effect.
pub fn put_into_effect(settings: Settings) {
    let _ = SETTINGS.set(settings);
}

/// Findings of this rule are not made.
pub fn is_muted(rule: &str) -> bool {
    settings().muted.contains(rule)
}

/// How bad findings of this rule are, where the user has said so.
pub fn severity_of(rule: &str) -> Option<Severity> {
    settings().severities.get(rule).copied()
}
