//! Losses and gradient norms that leave the run's own history.

use nccl_top::archive::check;
use nccl_top::base::time::Zone;

/// Progress lines of steps from 100 on: loss and gradient norm.
fn log(values: &[(f64, f64)]) -> String {
    let line = |(i, (loss, norm)): (usize, &(f64, f64))| format!("step {} | loss {loss:.5} | grad_norm {norm:.4} | lr 3.0e-04\n", 100 + i);
    values.iter().enumerate().map(line).collect()
}

/// The findings of `loss-spike`, as they are put into words.
fn spikes(log: &str) -> Vec<String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("train.log");
    std::fs::write(&path, log).unwrap();
    let report = check(&[path.display().to_string()], Zone::UTC, &mut |_, _| ());
    report.findings.iter().filter(|f| f.rule == "loss-spike").map(|f| format!("{:?} {}", f.ranks, f.summary)).collect()
}

/// A loss that falls and a norm that wavers, as both do.
fn healthy(n: usize) -> Vec<(f64, f64)> {
    (0..n).map(|i| (2.8 - 0.002 * i as f64 + 0.05 * (i % 7) as f64, 0.6 + 0.2 * (i % 5) as f64)).collect()
}

fn with(after: &[(f64, f64)]) -> String {
    log(&[healthy(60).as_slice(), after].concat())
}

#[test]
fn a_loss_that_rises_by_orders_of_magnitude_is_named_with_its_step() {
    let found = spikes(&with(&[(31.0, 0.9), (290.0, 0.9), (2700.0, 1.0), (2.7e4, 1.0), (2.7e5, 1.0)]));
    assert_eq!(found, ["[] the loss rose to 31 or more at step 160; it was 3.088 at most"]);
    let found = spikes(&with(&[(2.9, 250.0), (2.9, 1e6), (3.0, 1e7), (3.1, 1e7)]));
    assert_eq!(found, ["[] the gradient norm rose to 250 or more at step 160; it was 1.4 at most"]);
}

#[test]
fn a_run_that_diverges_line_by_line_is_named_too() {
    let ramp: Vec<_> = (1..20).map(|i| (2.7 * 1.58_f64.powi(i), 0.8)).collect();
    let found = spikes(&with(&ramp));
    assert_eq!(found, ["[] the loss rose to 42.006 or more at step 165; it was 3.088 at most"]);
    let slowly: Vec<_> = (1..60).map(|i| (2.7 * 1.02_f64.powi(i), 0.8)).collect();
    assert_eq!(spikes(&with(&slowly)), Vec::<String>::new());
}

#[test]
fn what_trainings_do_is_no_spike() {
    let once = with(&[(40.0, 0.9), (50.0, 0.9), (2.8, 0.9), (60.0, 0.9), (2.9, 0.8), (2.8, 0.9)]);
    let moderate = with(&[(7.5, 6.0); 20]);
    let norms = with(&[(2.8, 90.0), (2.8, 130.0), (2.7, 1.0), (2.7, 3.0), (2.7, 400.0), (2.7, 1.0)]);
    let early = log(&[[(0.1, 0.1); 10], [(50.0, 50.0); 10]].concat());
    // The loss of reinforcement learning and of adversaries has no usual size.
    let erratic: Vec<_> = (0..200).map(|i| (f64::from(i * 37 % 97) * 1e-4 + 1e-5, f64::from(i * 53 % 89) + 0.01)).collect();
    let erratic = log(&[erratic.as_slice(), &[(0.5, 3e3); 10]].concat());
    let signs: Vec<_> = (0..60).map(|i| (if i % 2 == 0 { -0.01 } else { 0.02 }, 0.5)).collect();
    let signs = log(&[signs.as_slice(), &[(1.5, 0.5); 10]].concat());
    for (name, text) in [("once", once), ("moderate", moderate), ("norms", norms), ("early", early), ("erratic", erratic), ("signs", signs)]
    {
        assert_eq!(spikes(&text), Vec::<String>::new(), "{name}");
    }
}

#[test]
fn another_attempt_has_a_history_of_its_own() {
    let fine_tuned: Vec<_> = (0..40).map(|_| (0.02, 0.001)).collect();
    let text = [log(&fine_tuned), log(&healthy(30))].concat();
    assert_eq!(spikes(&text), Vec::<String>::new());
}
