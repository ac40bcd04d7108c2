//! Lightning's `metrics.csv` as a log of steps. The fixture is what Lightning 2.6 wrote for two ranks on CPUs (gloo, DDP) without a bar:
//! 180 steps, `log_every_n_steps=5`, a validation after each of three epochs.

use crate::rhythm::{METRICS, Node, Parts, REDUCE_LAST};
use crate::support::fixture;
use nccl_top::archive::check;
use nccl_top::base::time::{Stamp, Zone};
use nccl_top::logs::metrics::Columns;
use nccl_top::observe::Body;
use nccl_top::observe::log::{Line, Lines, LogFileInfo};
use nccl_top::rules::findings::Finding;

const NAME: &str = "metrics/lightning.csv";
const WAITS: Parts = &[(1.0, 0.0, 250.0)];

fn rows() -> Vec<String> {
    fixture(NAME).lines().map(str::to_owned).collect()
}

/// A job whose logger has saved: rows of the file, up to each of these, half a minute apart.
fn saved(up_to: &[usize]) -> Node {
    saved_of(Node::new(0.1, REDUCE_LAST), up_to)
}

fn saved_of(mut node: Node, up_to: &[usize]) -> Node {
    node.see(Body::LogFile(LogFileInfo { file: 2, path: METRICS.into(), inode: Some(9), device: Some(1), ..Default::default() }));
    let rows = rows();
    let mut from = 0;
    for to in up_to {
        node.after(30.0);
        let line = |at: usize| Line { no: Some(at as u64 + 1), text: rows[at].clone(), ..Line::default() };
        node.see(Body::Lines(Lines { file: 2, lines: (from..*to).map(line).collect(), ..Default::default() }));
        from = *to;
    }
    node
}

fn warnings(node: &Node) -> Vec<&Finding> {
    use nccl_top::base::severity::Severity;
    node.session.ledger.open().into_iter().filter(|f| f.severity >= Severity::Warning).collect()
}

#[test]
fn columns_are_known_by_their_names_and_rows_by_their_place() {
    let columns = Columns::of(&rows()[0]).unwrap();
    let step = columns.row("0,4,0.11588993668556213,\r").unwrap();
    assert_eq!((step.step, step.epoch, step.loss), (Some(4), Some(0.0), Some(0.11588993668556213)));
    assert_eq!(columns.row("2,179,,0.26362279057502747"), None, "a validation is no step");
    assert!(columns.row("2,184,nan,").unwrap().loss.unwrap().is_nan());
    for torn in ["", "0,4,0.1", "0,4,0.1,,", "0,x,0.1,", "0,-1,0.1,", ",,,", "\u{1b}[2J,4,0.1,"] {
        assert_eq!(columns.row(torn).and_then(|step| step.step), (torn.starts_with('\u{1b}')).then_some(4), "{torn:?}");
    }
    let of_both = Columns::of("epoch,lr-AdamW,step,train_loss_epoch,train_loss_step").unwrap();
    let step = of_both.row("0,0.001,49,,2.5").unwrap();
    assert_eq!((step.step, step.loss, step.learning_rate), (Some(49), Some(2.5), Some(0.001)));
    for other in ["", "step", "step,epoch,loss", "epoch,loss", "time,step", "[rank0]: epoch 1, step 2, loss 3"] {
        assert_eq!(Columns::of(other), None, "{other:?}");
    }
}

#[test]
fn check_reads_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    std::fs::write(&path, fixture(NAME)).unwrap();
    let report = check(&[path.display().to_string()], Zone::UTC, &mut |_, _| {});
    let training = report.training().unwrap();
    assert_eq!((training.step, training.epoch), (Some(179), Some(2.0)));
    assert_eq!(training.loss, rows().iter().rev().find_map(|row| row.split(',').nth(2)?.parse().ok()));
    assert_eq!(training.dialect.as_str(), "metrics.csv");
}

#[test]
fn its_steps_are_shown_and_timed_from_save_to_save() {
    // Saved after steps 4, 39, 79 and 119: 40 steps in 30 s.
    let node = saved(&[2, 9, 18, 26]);
    let training = node.job()["training"].clone();
    assert_eq!((&training["step"], &training["dialect"]), (&119.into(), &"metrics.csv".into()), "{training}");
    let step_s = training["step_time_s"].as_f64().unwrap();
    assert!((step_s / 0.75 - 1.0).abs() < 0.05, "{step_s}");
    assert!(training["last_progress_at"].is_null(), "when a row comes is not when its step ended");
    assert_eq!(node.job()["state"], "training");
}

#[test]
fn that_it_is_not_saved_for_long_is_no_hang_and_no_pause() {
    let mut node = saved(&[2, 9, 18, 26]);
    for _ in 0..10 {
        node.after(30.0);
        assert_eq!((node.job()["state"].as_str(), node.job()["phase"].as_str()), (Some("training"), None), "{}", node.job());
        assert!(warnings(&node).is_empty(), "{:?}", warnings(&node));
    }
    let log = nccl_top::model::signals::Look::at(&node.session.model, &node.session.model.jobs["7"]).log;
    assert_eq!(log, None, "it is no witness of when steps are made");
}

#[test]
fn where_nothing_else_is_seen_its_steps_show_that_the_job_trains() {
    let mut node = Node::new(0.1, REDUCE_LAST);
    node.unseen = true;
    let mut node = saved_of(node, &[2, 9, 18]);
    for (seconds, state) in [(5.0, "training"), (400.0, "training"), (300.0, "unknown")] {
        node.after(seconds);
        let job = node.job();
        let summary = job["summary"].as_str().unwrap();
        assert_eq!(job["state"], state, "{summary}");
        assert!(summary.starts_with("step 79 when metrics.csv was last saved"), "{summary}");
        assert!(warnings(&node).is_empty(), "{:?}", warnings(&node));
    }
}

#[test]
fn rows_saved_after_a_failure_do_not_show_that_the_job_went_on() {
    let mut node = saved(&[2, 9, 18]);
    (node.session.model.files[&2].progress.step.unwrap() == 79).then_some(()).unwrap();
    let before = node.session.model.progress_of("7").and_then(|p| p.last_step_at);
    node.set(WAITS);
    node.after(5.0);
    let late = Line { no: Some(19), text: rows()[18].clone(), ..Line::default() };
    node.see(Body::Lines(Lines { file: 2, lines: vec![late], ..Default::default() }));
    assert_eq!(node.session.model.files[&2].progress.step, Some(84));
    assert_eq!((before, node.session.model.progress_of("7").and_then(|p| p.last_step_at)), (None, None::<Stamp>));
}
