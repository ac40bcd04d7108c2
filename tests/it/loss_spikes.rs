//! Losses and gradient norms that leave the run's own history.

use nccl_top::archive::check;
use nccl_top::base::severity::Role;
use nccl_top::base::time::Zone;
use nccl_top::rules::findings::Finding;

/// Progress lines of steps from 100 on: loss and gradient norm.
fn log(values: &[(f64, f64)]) -> String {
    let line = |(i, (loss, norm)): (usize, &(f64, f64))| format!("step {} | loss {loss:.5} | grad_norm {norm:.4} | lr 3.0e-04\n", 100 + i);
    values.iter().enumerate().map(line).collect()
}

fn findings(files: &[(&str, &str)]) -> Vec<Finding> {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name).display().to_string();
    files.iter().for_each(|(name, text)| std::fs::write(path(name), text).unwrap());
    let paths: Vec<String> = files.iter().map(|(name, _)| path(name)).collect();
    check(&paths, Zone::UTC, &mut |_, _| ()).findings
}

/// The findings of `loss-spike`, as they are put into words.
fn spikes(log: &str) -> Vec<String> {
    findings(&[("train.log", log)]).iter().filter(|f| f.rule == "loss-spike").map(|f| format!("{:?} {}", f.ranks, f.summary)).collect()
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
fn a_loss_that_hardly_moved_need_not_leap_as_far() {
    // It has fallen from 4.4 within a few lines, which it may not be held against.
    let learnt = |n: usize| -> Vec<_> { (0..n).map(|i| (0.42 + 4.0 * 0.4_f64.powi(i as i32), 0.2)).collect() };
    let with = |n, after: &[(f64, f64)]| log(&[learnt(n).as_slice(), after].concat());
    let leap = [(3.7, 1.0), (4.2, 1.0), (4.3, 1.0), (4.1, 1.0)];
    assert_eq!(spikes(&with(44, &leap)), ["[] the loss rose to 3.7 or more at step 144; it was 0.42 at most"]);
    assert_eq!(spikes(&with(20, &leap)), Vec::<String>::new(), "of too few");
    assert_eq!(spikes(&with(44, &[(2.2, 1.0); 9])), Vec::<String>::new(), "another kind of data");
    // Two tasks by turns.
    let turns: Vec<_> = (0..200).map(|i| (if i / 8 % 2 == 0 { 0.1 } else { 8.0 }, 0.2)).collect();
    assert_eq!(spikes(&log(&turns)), Vec::<String>::new());
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

#[test]
fn a_run_that_diverges_in_loss_and_norm_is_one_finding() {
    let norm_first = with(&[(2.9, 250.0), (2.9, 1e6), (31.0, 1e7), (290.0, 1e7), (2700.0, 1e8), (2.7e4, 1e8)]);
    assert_eq!(spikes(&norm_first), ["[] the gradient norm rose to 250 or more at step 160; it was 1.4 at most"]);
    let loss_first = with(&[(31.0, 0.9), (290.0, 0.9), (2700.0, 1e4), (2.7e4, 1e5), (2.7e5, 1e5), (2.7e5, 1e5)]);
    assert_eq!(spikes(&loss_first), ["[] the loss rose to 31 or more at step 160; it was 3.088 at most"]);
    let found = findings(&[("train.log", &loss_first)]);
    assert!(found[0].why.contains("the gradient norm rose to 10000 or more beside it") && found[0].count == 1, "{:?}", found[0]);
}

/// The lines of a log, a second apart from 10:00:00 on.
fn timed(log: &str) -> String {
    log.lines().enumerate().map(|(i, line)| format!("2025-11-17 10:{:02}:{:02} {line}\n", i / 60, i % 60)).collect()
}

#[test]
fn a_memory_error_at_that_time_may_be_the_cause() {
    let spike = timed(&with(&[(31.0, 250.0), (290.0, 1e4), (2700.0, 1e5), (2.7e4, 1e6)]));
    let nan = timed(&with(&[(f64::NAN, f64::NAN); 4])).replace("NaN", "nan");
    let line = |day: &str, time: &str, xid: &str| format!("[Mon Nov {day} {time} 2025] NVRM: Xid (PCI:0000:3b:00): {xid}\n");
    let row = "63, pid='<unknown>', name=<unknown>, Row Remapper: New row marked for remapping, reset gpu to activate.";
    let double = "48, pid='<unknown>', name=<unknown>, DBE (double bit error) ECC Error";
    let contained = "94, pid='<unknown>', name=<unknown>, Contained: SM (0x1). RST: No, D-RST: No";
    for (rule, log) in [("loss-spike", &spike), ("loss-not-finite", &nan)] {
        let judged = |kernel: &str| {
            let all = findings(&[("train.log", log.as_str()), ("messages", kernel)]);
            all.into_iter().find(|f| f.rule == rule).unwrap_or_else(|| panic!("no {rule}"))
        };
        // Before it, and reported a moment after.
        for (time, xid) in [("09:57:00", row), ("10:00:50", contained), ("10:01:05", double)] {
            let found = judged(&line("17", time, xid));
            assert!(found.why.starts_with("may be damaged data: Xid "), "{}", found.why);
            assert!(found.evidence.iter().any(|e| e.text.contains("NVRM: Xid")), "{:?}", found.evidence);
            assert_eq!((found.role, found.ranks.len()), (Role::Root, 0), "nothing proves it");
        }
        for (day, time, xid) in [
            ("16", "10:00:50", double),
            ("17", "09:30:00", double),
            ("17", "10:20:00", double),
            ("17", "10:00:50", "92, pid='<unknown>', name=<unknown>, High single-bit ECC error rate"),
            ("17", "10:00:50", "31, pid=7, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS"),
        ] {
            let found = judged(&line(day, time, xid));
            assert!(!found.why.contains("may be") && found.evidence.len() == 1, "{day} {time} {xid}: {}", found.why);
        }
    }
}

#[test]
fn a_loss_that_is_meant_to_grow_is_no_divergence() {
    let lines = |value: &dyn Fn(u32) -> f64| (1..80).map(|n| format!("step {n} loss {:.5}\n", value(n))).collect::<String>();
    // A sum over an epoch, and a loss of reinforcement learning that begins near zero.
    for text in [lines(&|n| 2.3 * f64::from(n)), lines(&|n| 1e-4 * f64::from(n))] {
        assert_eq!(spikes(&text), Vec::<String>::new());
    }
}

#[test]
fn the_rank_whose_own_loss_leaves_its_place_is_named() {
    let log = |of_rank_1: &dyn Fn(u32) -> f64| -> String {
        (1..80)
            .map(|n| {
                format!(
                    "rank 0: global_step {n} local loss {:.4}\nrank 1: global_step {n} local loss {:.4}\n",
                    6.91 + 0.01 * f64::from(n % 3),
                    of_rank_1(n)
                )
            })
            .collect()
    };
    let found = |log: &str| -> Vec<String> { spikes(log) };
    assert_eq!(
        found(&log(&|n| if n > 50 { 11.7 } else { 6.92 })),
        ["[1] the loss of rank 1 rose to 11.7 or more at step 51; it was 6.92 at most in the lines before"]
    );
    assert_eq!(found(&log(&|n| if n % 9 == 0 { 11.7 } else { 6.92 })), Vec::<String>::new(), "a batch now and then");
}
