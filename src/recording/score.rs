//! The judge held against labelled recordings: how many of the known faults were found, how soon, and which findings are false.
//! Reads no file and knows no clock.

use crate::base::severity::{Role, Severity};
use crate::base::time::Stamp;
use crate::diagnosis::session::Event;
use crate::rules::findings::{Change, Finding};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is known of a recording, from whoever caused the fault: `NAME.label.json`.
///
/// A field that is none of these is no label: a misspelt one would make the judge look better or worse than it is.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Label {
    /// The id of a rule, or `none`.
    pub class: String,
    /// Other rules that are right, too.
    #[serde(default)]
    pub accept: Vec<String>,
    /// Who is to blame; empty where no rank is.
    #[serde(default)]
    pub ranks: Vec<u32>,
    #[serde(default)]
    pub gpus: Vec<u32>,
    /// When it began, seconds after the first observation.
    #[serde(default)]
    pub since_s: Option<f64>,
    #[serde(default)]
    pub note: Option<String>,
}

/// The class of recordings in which nothing is wrong.
pub const NONE: &str = "none";

/// `since_s` is given in tenths of a second.
const ROUNDING_S: f64 = 0.06;

impl Label {
    fn accepts(&self, rule: &str) -> bool {
        rule == self.class || self.accept.iter().any(|a| a == rule)
    }
}

/// How one recording was judged.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Case {
    pub name: String,
    pub class: String,
    /// The rule that found it.
    pub found: Option<&'static str>,
    /// From `since_s` of the label to the finding.
    pub delay_s: Option<f64>,
    /// The ranks of the finding are exactly those of the label. `None`: nothing was found.
    pub culprit_right: Option<bool>,
    pub blamed: Vec<u32>,
    /// Findings that should not be there: seconds, rule and summary.
    pub false_findings: Vec<False>,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct False {
    pub at_s: f64,
    pub rule: &'static str,
    pub summary: String,
}

/// Judges the events of one recording, whose first observation was at `start`.
pub fn case(name: &str, label: &Label, start: Stamp, events: &[(Stamp, Event)]) -> Case {
    let since = label.since_s.unwrap_or(0.0);
    let opened = || {
        events.iter().filter_map(|(at, event)| match event {
            Event::Finding(Change::Opened(finding)) => Some((at.secs_since(start), finding.as_ref())),
            _ => None,
        })
    };
    let late_enough = |t: f64| t >= since - ROUNDING_S;
    // What is only worth knowing finds nothing.
    let tells = |(t, f): &(f64, &Finding)| f.severity >= Severity::Warning && late_enough(*t);
    let told = |rule: &str| opened().find(|told| told.1.rule == rule && tells(told));
    // The class itself says more than what is also right.
    let hit = match label.class.as_str() {
        NONE => None,
        class => told(class).or_else(|| opened().find(|told| label.accepts(told.1.rule) && tells(told))),
    };
    // One that named nobody at first may do so when more was known.
    let names = |f: &&Finding| !f.ranks.is_empty();
    let later = |of: &str| opened().map(|(_, f)| f).find(|f| f.rule == of && names(f));
    let blames = hit.map(|(_, f)| if label.ranks.is_empty() { f } else { Some(f).filter(names).or_else(|| later(f.rule)).unwrap_or(f) });
    let least = if label.class == NONE { Severity::Warning } else { Severity::Error };
    let false_findings = opened()
        .filter(|(t, f)| {
            let expected = label.class != NONE && label.accepts(f.rule) && late_enough(*t);
            f.severity >= least && f.role == Role::Root && !expected && f.rule != "source-trouble"
        })
        .map(|(at_s, f)| False { at_s, rule: f.rule, summary: f.summary.clone() })
        .collect();
    Case {
        name: name.to_owned(),
        class: label.class.clone(),
        found: hit.map(|(_, f)| f.rule),
        delay_s: hit.map(|(t, _)| (t - since).max(0.0)),
        culprit_right: blames.map(|f| f.ranks == label.ranks),
        blamed: blames.map(|f| f.ranks.clone()).unwrap_or_default(),
        false_findings,
    }
}

/// The cases of one class.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Class {
    pub cases: usize,
    pub found: usize,
    pub culprit_right: usize,
    pub delay_median_s: Option<f64>,
    pub delay_worst_s: Option<f64>,
    /// Findings, not cases.
    pub false_findings: usize,
}

/// All of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Score {
    pub classes: BTreeMap<String, Class>,
    /// Cases with a fault, and those in which it was found.
    pub faults: usize,
    pub found: usize,
    pub culprit_right: usize,
    pub false_findings: usize,
    /// Found of all faults. `None`: there was none.
    pub recall: Option<f64>,
    /// Found of all that was reported: false findings count one each. `None`: nothing was reported.
    pub precision: Option<f64>,
    pub cases: Vec<Case>,
}

impl Score {
    pub fn of(cases: Vec<Case>) -> Score {
        let mut score = Score::default();
        let mut delays: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
        for case in &cases {
            let class = score.classes.entry(case.class.clone()).or_default();
            class.cases += 1;
            class.found += usize::from(case.found.is_some());
            class.culprit_right += usize::from(case.culprit_right == Some(true));
            class.false_findings += case.false_findings.len();
            delays.entry(&case.class).or_default().extend(case.delay_s);
            score.faults += usize::from(case.class != NONE);
        }
        for (name, class) in &mut score.classes {
            let mut delays = delays.remove(name.as_str()).unwrap_or_default();
            delays.sort_by(f64::total_cmp);
            (class.delay_median_s, class.delay_worst_s) = (delays.get(delays.len() / 2).copied(), delays.last().copied());
            score.found += class.found;
            score.culprit_right += class.culprit_right;
            score.false_findings += class.false_findings;
        }
        let share = |part: usize, of: usize| (of > 0).then(|| part as f64 / of as f64);
        score.recall = share(score.found, score.faults);
        score.precision = share(score.found, score.found + score.false_findings);
        score.cases = cases;
        score
    }
}

/// Which half of a collection a recording belongs to, by the hash of its name: one to improve the judge with, one to be judged by.
pub fn is_first_half(name: &str) -> bool {
    let mut crc = flate2::Crc::new();
    crc.update(name.as_bytes());
    crc.sum().is_multiple_of(2)
}
