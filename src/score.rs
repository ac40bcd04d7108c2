//! The judge held against labelled recordings: what was found of what is known to have happened, how soon, and what was told falsely.
//! Reads no file and knows no clock.

use crate::base::severity::{Role, Severity};
use crate::findings::Change;
use crate::session::Event;
use crate::time::Stamp;
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
    let told = |rule: &str| opened().find(|(t, f)| f.rule == rule && late_enough(*t));
    // The class itself says more than what is also right.
    let hit = match label.class.as_str() {
        NONE => None,
        class => told(class).or_else(|| opened().find(|(t, f)| label.accepts(f.rule) && late_enough(*t))),
    };
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
        culprit_right: hit.map(|(_, f)| f.ranks == label.ranks),
        blamed: hit.map(|(_, f)| f.ranks.clone()).unwrap_or_default(),
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
    /// Found of all that was told: false findings count one each. `None`: nothing was told.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Finding;

    fn opened(at_s: i64, rule: &'static str, severity: Severity, ranks: &[u32]) -> (Stamp, Event) {
        let at = Stamp(at_s * 1_000_000_000);
        let finding = Finding { ranks: ranks.to_vec(), ..Finding::new(rule, severity, "x", "it is so", at) };
        (at, Event::Finding(Change::Opened(Box::new(finding))))
    }

    fn label(class: &str, accept: &[&str], ranks: &[u32], since_s: Option<f64>) -> Label {
        let accept = accept.iter().map(|a| (*a).to_owned()).collect();
        Label { class: class.into(), accept, ranks: ranks.to_vec(), gpus: Vec::new(), since_s, note: None }
    }

    #[test]
    fn a_finding_counts_from_when_the_fault_began() {
        let label = label("hang-rank-absent", &["collective-timeout"], &[3], Some(30.0));
        let events = [
            opened(20, "hang-rank-absent", Severity::Critical, &[1]),
            opened(40, "collective-timeout", Severity::Error, &[]),
            opened(41, "hang-rank-absent", Severity::Critical, &[3]),
            opened(42, "cuda-error", Severity::Error, &[0]),
            opened(43, "straggler", Severity::Warning, &[0]),
        ];
        let case = case("x", &label, Stamp(0), &events);
        assert_eq!((case.found, case.delay_s, case.culprit_right), (Some("hang-rank-absent"), Some(11.0), Some(true)));
        let wrong: Vec<_> = case.false_findings.iter().map(|f| (f.at_s, f.rule)).collect();
        assert_eq!(wrong, [(20.0, "hang-rank-absent"), (42.0, "cuda-error")], "too early, and another");
    }

    #[test]
    fn where_nothing_is_wrong_a_warning_is_false() {
        let events = [opened(5, "straggler", Severity::Warning, &[0]), opened(6, "nccl-warn", Severity::Info, &[])];
        let case = case("x", &label(NONE, &[], &[], None), Stamp(0), &events);
        assert_eq!((case.found, case.culprit_right, case.false_findings.len()), (None, None, 1));
    }

    #[test]
    fn the_table_counts_classes_and_all() {
        let hang = label("hang-symmetric", &[], &[], Some(0.0));
        let at = |s| vec![opened(s, "hang-symmetric", Severity::Critical, &[])];
        let cases = vec![
            case("a", &hang, Stamp(0), &at(20)),
            case("b", &hang, Stamp(0), &at(24)),
            case("c", &hang, Stamp(0), &[]),
            case("d", &label(NONE, &[], &[], None), Stamp(0), &at(9)),
        ];
        let score = Score::of(cases);
        let class = &score.classes["hang-symmetric"];
        assert_eq!((class.cases, class.found, class.culprit_right), (3, 2, 2));
        assert_eq!((class.delay_median_s, class.delay_worst_s), (Some(24.0), Some(24.0)));
        assert_eq!((score.recall, score.precision), (Some(2.0 / 3.0), Some(2.0 / 3.0)));
    }
}
