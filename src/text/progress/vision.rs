//! Batches of an epoch in brackets: PyTorch's examples and MNIST, torchvision's references, mmcv and MMEngine. Their step begins again with
//! every epoch; that of MNIST counts samples.

use super::{Line, Memory, phase_event, plain, scan};
use crate::text::{Dialect, Phase, Step, What};

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    let text = line.head;
    if text.starts_with("* ") && text.contains("Acc@1")
        || text.starts_with("Test: Total time: ")
        || text.starts_with("Test set: Average loss")
    {
        tell(phase_event(Phase::Evaluation, false));
        return true;
    }
    if !line.has(b'[') || !line.has(b'/') {
        return false;
    }
    if let Some(tail) = ["Test:", "Epoch(val)", "Iter(val)", "Epoch(test)", "Iter(test)"].iter().find_map(|w| text.strip_prefix(w)) {
        let Some((now, total, _)) = place(tail).map(|(_, now, total, t)| (now, total, t)) else { return false };
        tell(phase_event(Phase::Evaluation, now < total));
        return true;
    }
    let tail = ["Epoch(train)", "Iter(train)", "Epoch:", "Epoch ", "Train Epoch:"].iter().find_map(|w| text.strip_prefix(w));
    let Some(step) = tail.and_then(step) else { return false };
    memory.bars.step_seen();
    tell(What::Step(step));
    true
}

/// `[0][ 100/5005]`, `[1/90]  [100/5005]`, `1 [100/5000 (2%)]`, `[ 100/80000]`: the epoch, the place in it, its length.
fn place(tail: &str) -> Option<(Option<u64>, u64, u64, &str)> {
    let mut tail = tail.trim_start();
    let mut epoch = None;
    for _ in 0..2 {
        let inner = tail.strip_prefix('[');
        let (n, len) = scan::integer(inner.unwrap_or(tail).trim_start())?;
        let rest = &inner.unwrap_or(tail).trim_start()[len..];
        if inner.is_none() {
            epoch = Some(n);
            tail = rest.trim_start();
            continue;
        }
        let end = rest.find(']')?;
        let (after, more) = (&rest[end + 1..], rest[end + 1..].trim_start().starts_with('['));
        if more || !rest.starts_with('/') {
            epoch = Some(n);
            tail = after.trim_start();
            continue;
        }
        let (_, total) = plain::count(inner?)?;
        return Some((epoch, n, total?, after));
    }
    None
}

fn step(tail: &str) -> Option<Step> {
    let (epoch, now, total, fields) = place(tail)?;
    let value = |keys: &[&str]| scan::keyed(fields, keys);
    let throughput = value(&["img/s"]);
    let left = || scan::left(scan::words(fields, "eta").next()?.1.trim_start_matches([':', ' ']));
    Some(Step {
        dialect: Dialect::Vision,
        step: Some(now),
        total_steps: Some(total),
        epoch: epoch.map(|e| e as f64),
        loss: Some(value(&["loss", "Loss"])?),
        grad_norm: value(&["grad_norm"]),
        learning_rate: value(&["lr"]),
        // More always follows it.
        step_time_s: ["time", "Time"].iter().find_map(|k| scan::whole(scan::value(scan::words(fields, k).next()?.1))).map(|(v, _)| v),
        throughput,
        throughput_unit: throughput.map(|_| scan::SAMPLES),
        remaining_s: left(),
        ..Step::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{one, step};
    use super::*;

    fn base(step: u64, total: u64, loss: f64) -> Step {
        Step { dialect: Dialect::Vision, step: Some(step), total_steps: Some(total), loss: Some(loss), ..Step::default() }
    }

    #[test]
    fn pytorch_examples() {
        let want = Step { epoch: Some(0.0), step_time_s: Some(0.35), ..base(100, 5005, 6.5) };
        let text =
            "Epoch: [0][ 100/5005]\tTime  0.35 ( 0.40)\tData  0.01 ( 0.05)\tLoss 6.5e+00 (6.9e+00)\tAcc@1   0.00 (  0.10)\tAcc@5   1.00";
        assert_eq!(step(read, text), want);
        assert_eq!(step(read, &text.replace('\t', " ")), want);
        let text = "Train Epoch: 1 [100/5000 (2%)]\tLoss: 2.300000";
        assert_eq!(step(read, text), Step { epoch: Some(1.0), ..base(100, 5000, 2.3) });
        let text = "Epoch 1 [100/5000] loss 2.31";
        assert_eq!(step(read, text), Step { epoch: Some(1.0), ..base(100, 5000, 2.31) });
    }

    #[test]
    fn torchvision_references() {
        let text = "Epoch: [0]  [100/5005]  eta: 0:31:22  lr: 0.1  img/s: 640.5  loss: 6.5 (6.9)  time: 0.38  data: 0.01  max mem: 9999";
        let want = Step {
            epoch: Some(0.0),
            learning_rate: Some(0.1),
            throughput: Some(640.5),
            throughput_unit: Some("samples/s"),
            step_time_s: Some(0.38),
            remaining_s: Some(1882.0),
            ..base(100, 5005, 6.5)
        };
        assert_eq!(step(read, text), want);
    }

    #[test]
    fn mmcv_and_mmengine() {
        let text = "Epoch [1][100/62598]\tlr: 1.000e-03, eta: 6 days, 15:22:46, time: 0.539, data_time: 0.051, memory: 7239, loss: 1.9091, grad_norm: nan";
        let s = step(read, text);
        assert!(s.grad_norm.is_some_and(f64::is_nan));
        let want = Step {
            epoch: Some(1.0),
            learning_rate: Some(1e-3),
            step_time_s: Some(0.539),
            remaining_s: Some(6.0 * 86_400.0 + 55_366.0),
            ..base(100, 62598, 1.9091)
        };
        assert_eq!(Step { grad_norm: None, ..s }, want);
        let text = "Iter(train) [  100/80000]  base_lr: 2.0e-04 lr: 1.0e-04  eta: 1 day, 2:03:04  time: 0.5000  data_time: 0.0100  memory: 1234  loss: 1.2500  loss_cls: 0.5";
        let want = Step { learning_rate: Some(1e-4), step_time_s: Some(0.5), remaining_s: Some(93_784.0), ..base(100, 80_000, 1.25) };
        assert_eq!(step(read, text), want);
        let text = "Epoch(train)  [1][  50/7330]  lr: 1.0e-04  eta: 0:00:10  time: 0.5000  loss: 1.2500";
        assert_eq!((step(read, text).epoch, step(read, text).step), (Some(1.0), Some(50)));
    }

    #[test]
    fn evaluations() {
        for (text, begins) in [
            ("Epoch(val) [1][ 10/50]", true),
            ("Epoch(val) [1][50/50]  accuracy/top1: 50.0", false),
            ("Test:  [ 0/50]  eta: 0:00:10  loss: 6.5 (6.9)  acc1: 0.1", true),
            ("Test: [ 0/98]\tTime  0.35 ( 0.40)\tLoss 6.5e+00 (6.9e+00)", true),
            ("Test: Total time: 0:00:12", false),
            (" *   Acc@1 69.758 Acc@5 89.078", false),
            ("Test set: Average loss: 0.0466, Accuracy: 9850/10000 (98%)", false),
        ] {
            assert_eq!(one(read, text), [phase_event(Phase::Evaluation, begins)], "{text}");
        }
    }

    #[test]
    fn torn_and_other_lines() {
        let text = "Epoch: [0][ 100/5005]\tTime  0.35 ( 0.40)\tData  0.01 ( 0.05)\tLoss 6.5e+00 (6.9e+00)";
        assert_eq!(one(read, &text[..text.find("Loss").unwrap()]), []);
        for text in
            ["Epoch: [0] Total time: 0:10:00", "Epoch: [0][ 100/50", "Epoch 1/10 begins [a/b]", "Epoch 5 [of the Trojan war] loss 3/4"]
        {
            assert_eq!(one(read, text), [], "{text}");
        }
    }
}
