//! How findings are counted against a label.

use nccl_top::base::severity::Severity;
use nccl_top::base::time::Stamp;
use nccl_top::diagnosis::session::Event;
use nccl_top::recording::score::{Label, NONE, Score, case};
use nccl_top::rules::findings::{Change, Finding};

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
