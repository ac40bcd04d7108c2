//! Everything else that names a step and a loss or a step time: `step 100 loss 2.31`, `Step 100/5000, Loss: 2.31`, `[100/5000] loss: 2.31`,
//! fairseq, mmcv, torchvision, key=value.

use super::scan;
use crate::text::{Dialect, Step};

const STEP: &[&str] = &[
    "global_step",
    "global step",
    "num_updates",
    "train_step",
    "train/step",
    "step",
    "steps",
    "iteration",
    "iterations",
    "iter",
    "iters",
    "iter(train)",
    "batch",
    "update",
];
const LOSS: &[&str] = &[
    "loss",
    "train_loss",
    "train loss",
    "train/loss",
    "training_loss",
    "training loss",
    "total_loss",
    "lm_loss",
    "lm loss",
    "avg_loss",
    "loss/train",
];
const STEP_TIME: &[&str] = &[
    "step_time",
    "step time",
    "steptime",
    "iter_time",
    "iter time",
    "iteration time",
    "time per step",
    "time/step",
    "time per iteration",
    "time_per_step",
    "batch_time",
    "sec/step",
    "s/step",
];

pub fn read(text: &str) -> Option<Step> {
    let lower = text.to_ascii_lowercase();
    let lower = lower.trim_start();
    // Results of an evaluation are no step of the training.
    if ["eval", "valid", "test", "val ", "val:", "val_"].iter().any(|w| lower.starts_with(w)) {
        return None;
    }
    let (step, total) = step(lower)?;
    let loss = loss(lower);
    let step_time_s = step_time(lower, loss.is_some());
    if loss.is_none() && step_time_s.is_none() {
        return None;
    }
    let (throughput, throughput_unit) = scan::throughput(lower).unzip();
    Some(Step {
        dialect: Dialect::Plain,
        step: Some(step),
        total_steps: total,
        epoch: scan::words(lower, "epoch").find_map(|(_, t)| scan::number(scan::value(t).trim_start_matches('['))).map(|(v, _)| v),
        loss,
        grad_norm: scan::keyed(lower, &["grad_norm", "grad norm", "gnorm", "gradnorm"]),
        learning_rate: scan::keyed(lower, &["lr", "learning_rate", "learning rate"]),
        step_time_s,
        throughput,
        throughput_unit,
        ..Step::default()
    })
}

fn step_time(lower: &str, beside_a_loss: bool) -> Option<f64> {
    if !["time", "step", "dt", "elapsed"].iter().any(|m| lower.contains(m)) {
        return None;
    }
    let named = scan::seconds(lower, STEP_TIME, 1.0).or_else(|| milliseconds(lower));
    // These words alone may mean anything.
    named.or_else(|| if beside_a_loss { scan::seconds(lower, &["dt", "time", "elapsed"], 1.0) } else { None })
}

/// A step and, with a slash, the total.
fn step(lower: &str) -> Option<(u64, Option<u64>)> {
    STEP.iter()
        .find_map(|key| {
            scan::words(lower, key).find_map(|(_, tail)| {
                let tail = tail.trim_start_matches([' ', '\t', ':', '=', '#', '[', '(', '"', '\'']);
                count(tail)
            })
        })
        .or_else(|| bracketed(lower))
        .or_else(|| fairseq(lower))
}

fn count(tail: &str) -> Option<(u64, Option<u64>)> {
    let (n, len) = scan::integer(tail)?;
    let rest = tail[len..].trim_start();
    let total = rest.strip_prefix('/').or_else(|| rest.strip_prefix("of ")).and_then(|t| scan::integer(t.trim_start())).map(|(t, _)| t);
    Some((n, total.filter(|t| *t >= n)))
}

/// `[100/5000]`, `[0][ 100/5005]`, `[100/5000 (2%)]`
fn bracketed(lower: &str) -> Option<(u64, Option<u64>)> {
    memchr::memchr_iter(b'[', lower.as_bytes())
        .take(8)
        .find_map(|at| count(lower[at + 1..].trim_start()).filter(|(_, total)| total.is_some()))
}

/// `epoch 001:    100 / 5000 loss=12.3`
fn fairseq(lower: &str) -> Option<(u64, Option<u64>)> {
    let (_, tail) = lower.split_once("epoch ")?;
    count(tail.split_once(':')?.1.trim_start()).filter(|(_, total)| total.is_some())
}

fn loss(lower: &str) -> Option<f64> {
    LOSS.iter().find_map(|key| {
        scan::words(lower, key).find_map(|(at, tail)| {
            let word = lower[..at].trim_end().rsplit([' ', '\t', '|', ',', '(']).next().unwrap_or("");
            if ["val", "valid", "validation", "eval", "evaluation", "test", "dev", "aux", "best"].contains(&word) {
                return None;
            }
            Some(scan::number(scan::value(tail))?.0)
        })
    })
}

/// `step_time_ms=11.9`
fn milliseconds(lower: &str) -> Option<f64> {
    let v = scan::keyed(lower, &["step_time_ms", "iter_time_ms", "step_ms", "ms/step", "step time (ms)", "iter time (ms)"])?;
    Some(v / 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Step {
        read(text).unwrap_or_else(|| panic!("{text}"))
    }

    #[test]
    fn the_recorded_runs_line() {
        let s = step("step 7 | loss 0.0000 | step_time 11.9 ms | tokens/s 2,741,882");
        assert_eq!((s.step, s.loss, s.throughput, s.throughput_unit), (Some(7), Some(0.0), Some(2_741_882.0), Some("tokens/s")));
        assert!((s.step_time_s.unwrap() - 0.0119).abs() < 1e-12);
        assert!(step("step 15 | loss nan | step_time 12.3 ms | tokens/s 2,672,298").loss.is_some_and(f64::is_nan));
    }

    #[test]
    fn plain_forms() {
        for (text, n, total, loss) in [
            ("step 100 loss 2.31", 100, None, 2.31),
            ("step=100 loss=2.31", 100, None, 2.31),
            ("Step 100/5000, Loss: 2.31", 100, Some(5000), 2.31),
            ("[100/5000] loss: 2.31", 100, Some(5000), 2.31),
            ("Epoch 1 [100/5000] loss 2.31", 100, Some(5000), 2.31),
            ("INFO:root:global_step=100 epoch=1 train_loss=2.31 lr=1e-4", 100, None, 2.31),
            ("Iteration 1,200: loss = 3.5e-1", 1200, None, 0.35),
            ("Train Epoch: 1 [100/5000 (2%)]\tLoss: 2.300000", 100, Some(5000), 2.3),
            ("Epoch: [0][ 100/5005]\tTime  0.35 ( 0.40)\tData  0.01 ( 0.05)\tLoss 6.5e+00 (6.9e+00)\tAcc@1 1", 100, Some(5005), 6.5),
            (
                "Epoch: [0]  [100/5005]  eta: 0:31:22  lr: 0.1  img/s: 640.5  loss: 6.5 (6.9)  time: 0.38  data: 0.01  max mem: 9999",
                100,
                Some(5005),
                6.5,
            ),
            (
                "Epoch [1][100/62598]\tlr: 1.000e-03, eta: 6 days, 15:22:46, time: 0.539, data_time: 0.051, memory: 7239, loss: 1.9091, grad_norm: nan",
                100,
                Some(62598),
                1.9091,
            ),
            ("Iter(train) [  100/80000]  base_lr: 1e-4 lr: 1e-4 time: 0.5 loss: 1.25", 100, Some(80000), 1.25),
            (
                "train_inner | epoch 001:    100 / 5000 loss=12.3, nll_loss=11, ppl=5, wps=12345, ups=1.2, num_updates=99, lr=0.1, gnorm=2.3, loss_scale=128",
                99,
                None,
                12.3,
            ),
            ("Step: 5 | val loss 9.0 | loss 2.0", 5, None, 2.0),
        ] {
            let s = step(text);
            assert_eq!((s.step, s.total_steps, s.loss), (Some(n), total, Some(loss)), "{text}");
        }
        assert_eq!(step("step 5 step_time_ms=500").step_time_s, Some(0.5));
        assert_eq!(step("step 100 loss inf").loss, Some(f64::INFINITY));
        assert_eq!(step("Epoch: [0]  [100/5005]  loss: 6.5 (6.9)  time: 0.38").step_time_s, Some(0.38));
    }

    #[test]
    fn prose_is_no_step() {
        for text in [
            "loss function step 3 of setup",
            "The loss is computed in step two",
            "step 3: compute the loss",
            "loss scale: 65536.0, step skipped",
            "eval step 100 loss 2.3",
            "evaluation done | eval_loss 0.0000",
            "validation: step 5 loss 3",
            "step 0.5 loss 3",
            "stepping 5 losses 3",
            "lossless compression level 3, step",
            "step 5",
            "[Rank 0] time (ms) | fwd_microstep: 12.34 | bwd_microstep: 45.67",
            "Loading checkpoint from step 100",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
