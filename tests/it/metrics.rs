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
fn tables_that_a_script_prints_are_steps_too() {
    let table = Columns::of_table("Step,Loss,seconds,lr").unwrap();
    let step = table.row("15, 3.8492, 0.431, 1e-4").unwrap();
    assert_eq!((step.step, step.loss, step.learning_rate, step.step_time_s), (Some(15), Some(3.8492), Some(1e-4), None));
    let sided = Columns::of_table(" step |     loss |  tok/s | mem GiB").unwrap();
    assert_eq!(sided.row("     10 |   9.1571 |  76804 |    4.86").unwrap().loss, Some(9.1571));
    assert_eq!(sided.row("--------+----------+--------+---------"), None);
    let boxed = Columns::of_table("| step | loss |").unwrap();
    assert_eq!(boxed.row("|   10 | 9.25 |").unwrap().step, Some(10));
    let timed = Columns::of_table("iteration\ttrain_loss\tstep_time").unwrap();
    assert_eq!(timed.row("7\t2.5\t0.2").unwrap().step_time_s, Some(0.2));
    // Thick sides around the names, thin ones around the numbers, as rich draws them; what a column is called says what it means.
    let rich = Columns::of_table("┃   step ┃     loss ┃    s/step ┃     tokens/s ┃").unwrap();
    let step = rich.row("│  1,024 │   8.4958 │     0.141 │      463,741 │").unwrap();
    assert_eq!((step.step, step.loss, step.step_time_s), (Some(1024), Some(8.4958), Some(0.141)));
    assert_eq!((step.throughput, step.throughput_unit), (Some(463_741.0), Some("tokens/s")));
    // Parts of a loss have other names: that each step has a time is enough.
    let parts = Columns::of_table("┃    step ┃ recon    ┃ commit   ┃ usage  ┃ s/step   ┃").unwrap();
    let step = parts.row("│ 1400005 │  0.67881 │  2.33095 │   3.1% │   0.2031 │").unwrap();
    assert_eq!((step.step, step.loss, step.step_time_s), (Some(1_400_005), None, Some(0.2031)));
    assert_eq!(Columns::of_table("| step | name | bytes |"), None);
    let in_ms = Columns::of_table("iter,loss,samples_per_s,batch_time_ms").unwrap().row("20,2.5,1200,50").unwrap();
    assert_eq!((in_ms.step_time_s, in_ms.throughput), (Some(0.05), Some(1200.0)));
    // A comma is a point where lists have semicolons, and of means or evaluations nothing is taken.
    assert_eq!(Columns::of_table("step;loss;step_time").unwrap().row("120;1,3;0,402"), None);
    let of_others = Columns::of_table("step,loss,eval s/step,avg_tokens_per_s,sample_s").unwrap().row("5,2.5,0.1,900,1.6").unwrap();
    assert_eq!((of_others.step_time_s, of_others.throughput), (None, None));
    for torn in ["", "15,3.8", "x,3.8,0.4,1e-4", "15,3.8,0.4,1e-4,9", "a step, a loss, and more"] {
        assert_eq!(table.row(torn), None, "{torn:?}");
    }
    for other in [
        "",
        "loss",
        "name,value",
        "the loss, at this step, is 2",
        "[rank0]: step, loss",
        "1,2,3",
        "step=1,loss=2",
        "step,accuracy",
        "step,tokens/s",
        "| step | loss | loss |",
    ] {
        assert_eq!(Columns::of_table(other), None, "{other:?}");
    }
}

/// The rows of another table that has as many columns are no steps.
#[test]
fn a_table_ends_where_another_one_begins() {
    let rows: String = (1..20).map(|n| format!("| {n} | {:.3} |\n", 4.0 - f64::from(n) / 100.0)).collect();
    let report = crate::support::report(&format!("| step | loss |\n{rows}| rank | memory |\n| 100 | 70 |\n| 101 | 71 |\n"));
    assert_eq!(report.training().unwrap().step, Some(19));
}

/// spaCy names its columns by letters; DeepXDE has blanks in names, and a loss of several terms, whose sum it lowers.
#[test]
fn tables_with_names_of_several_words() {
    let spacy = Columns::of_table("E    #       LOSS TOK2VEC  LOSS NER  ENTS_F  SCORE ").unwrap();
    let step = spacy.row("  1     400         12.50    230.75   71.20    0.71").unwrap();
    assert_eq!((step.step, step.epoch, step.loss), (Some(400), Some(1.0), Some(243.25)));
    assert_eq!(spacy.row("---  ------  ------------  --------  ------  ------"), None);
    let deepxde = Columns::of_table("Step      Train loss                        Test loss                         Test metric").unwrap();
    let step = deepxde.row("1000      [2.50e-01, 5.00e-01]              [1.00e-01, 1.00e-01]              []").unwrap();
    assert_eq!((step.step, step.loss), (Some(1000), Some(0.75)));
    assert_eq!(deepxde.row("Best model at step 1000:"), None);
    // Two words with a gap between them, and a sentence with one, are no head.
    for other in ["Step  Train loss", "At this step  the train loss is  high", "E  is  a letter"] {
        assert_eq!(Columns::of_table(other), None, "{other:?}");
    }
}

/// A launcher's lines stand above it, and a failure behind it is read as in any log.
#[test]
fn a_table_stands_in_a_log() {
    let rows: String = (1..40).map(|n| format!("{},{:.4},0.43\n", n * 5, 4.0 - f64::from(n) / 100.0)).collect();
    let warned =
        "W1123 10:54:32.908000 6581 torch/distributed/run.py:851] Setting OMP_NUM_THREADS environment variable for each process to be 1\n";
    let failed =
        "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/w/gnn.py\", line 40, in main\n[rank1]: ValueError: no edges\n";
    let report = crate::support::report(&format!("{warned}step,loss,seconds\n{rows}{failed}"));
    let training = report.training().unwrap();
    assert_eq!((training.step, training.dialect.as_str()), (Some(195), "csv"));
    let root = &report.findings[report.root_cause.unwrap()];
    assert_eq!((root.rule, root.ranks.as_slice()), ("python-exception", &[1][..]));
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
