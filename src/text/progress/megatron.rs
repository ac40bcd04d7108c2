//! Megatron-LM's log line and its kin (Megatron-DeepSpeed, NeMo 2): fields between bars. The last rank prints it.

use super::scan;
use crate::text::{Dialect, Step, What};

pub fn read(text: &str) -> Option<Vec<What>> {
    if let Some((_, tail)) = text.split_once("Training epoch ") {
        return nemo(tail).map(|s| vec![What::Step(s)]);
    }
    if let Some((_, tail)) = text.split_once("train_iters ..") {
        let (total, _) = scan::integer(tail.trim_start_matches(['.', ' ']))?;
        return Some(vec![What::TotalSteps { total }]);
    }
    let (_, tail) = text.split_once("iteration ")?;
    let tail = tail.trim_start();
    let (step, n) = scan::integer(tail)?;
    let (total, m) = scan::integer(tail[n..].trim_start().strip_prefix('/')?.trim_start())?;
    let fields = &tail[tail.len() - tail[n..].trim_start().strip_prefix('/')?.trim_start().len() + m..];
    let fields = fields.trim_start().strip_prefix('|')?;
    let mut s = Step { dialect: Dialect::Megatron, step: Some(step), total_steps: Some(total), ..Step::default() };
    let mut skipped = false;
    for field in fields.split('|') {
        let Some((key, value)) = field.rsplit_once(':') else { continue };
        let Some((value, _)) = scan::number(value.trim()) else { continue };
        match key.trim() {
            "elapsed time per iteration (ms)" => s.step_time_s = Some(value / 1e3),
            "elapsed time per iteration (s)" => s.step_time_s = Some(value),
            "learning rate" => s.learning_rate = Some(value),
            "grad norm" => s.grad_norm = Some(value),
            "throughput per GPU (TFLOP/s/GPU)" | "TFLOPs" => rate(&mut s, value, "TFLOP/s/GPU"),
            "tokens-per-second-per-gpu" | "tokens per gpu per second (tgs)" => rate(&mut s, value, "tokens/s/GPU"),
            "samples per second" => rate(&mut s, value, "samples/s"),
            "number of skipped iterations" => skipped = value > 0.0,
            "loss scale" => {}
            "lm loss" => s.loss = Some(value),
            key if key.ends_with(" loss") && !key.starts_with("mtp_") && s.loss.is_none() => s.loss = Some(value),
            _ => {}
        }
    }
    // Only values ≥ 0 are printed: a NaN takes its field along.
    s.loss_missing = s.loss.is_none();
    let mut out = vec![What::Step(s)];
    if skipped {
        out.push(What::SkippedStep);
    }
    Some(out)
}

/// The first rate of a line counts.
fn rate(s: &mut Step, value: f64, unit: &'static str) {
    if s.throughput.is_none() {
        s.throughput = Some(value);
        s.throughput_unit = Some(unit);
    }
}

/// `0, iteration 120/149 | lr: 3e-05 | … | global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146`
fn nemo(tail: &str) -> Option<Step> {
    let (epoch, n) = scan::integer(tail)?;
    let tail = tail[n..].strip_prefix(", iteration ")?;
    let (now, n) = scan::integer(tail)?;
    let (total, _) = scan::integer(tail[n..].strip_prefix('/')?)?;
    let global = scan::keyed(tail, &["global_step"]).filter(|g| *g >= 0.0).map(|g| g as u64);
    Some(Step {
        dialect: Dialect::Nemo,
        step: global.or(Some(now)),
        // The line counts from 0 to the last one.
        total_steps: Some(total + 1),
        epoch: Some(epoch as f64),
        loss: scan::keyed(tail, &["reduced_train_loss", "train_loss", "loss"]),
        grad_norm: scan::keyed(tail, &["grad_norm"]),
        learning_rate: scan::keyed(tail, &["lr"]),
        step_time_s: scan::keyed(tail, &["train_step_timing in s"]),
        ..Step::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINE: &str = " [2026-08-22 10:11:12.345678] iteration      100/  500000 | consumed samples:       102400 | elapsed time per iteration (ms): 8654.2 | throughput per GPU (TFLOP/s/GPU): 412.3 | learning rate: 9.150000E-06 | global batch size:  1024 | lm loss: 2.504220E+00 | loss scale: 1.0 | grad norm: 0.231 | num zeros: 0 | params norm: 1234.567 | number of skipped iterations:   0 | number of nan iterations:   0 |";

    fn step(text: &str) -> Step {
        match read(text).as_deref() {
            Some([What::Step(s), ..]) => s.clone(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn the_log_line() {
        let s = step(LINE);
        assert_eq!((s.step, s.total_steps, s.loss, s.grad_norm), (Some(100), Some(500_000), Some(2.50422), Some(0.231)));
        assert_eq!(
            (s.step_time_s.map(|t| (t * 1e4).round() / 1e4), s.throughput, s.throughput_unit),
            (Some(8.6542), Some(412.3), Some("TFLOP/s/GPU"))
        );
        assert!(!s.loss_missing);
        let fork = " iteration        3/   50000 | consumed samples: 96 | consumed tokens: 196608 | elapsed time per iteration (s): 16.97 | learning rate: 9.0E-08 | global batch size: 32 | lm loss: 1.2E+01 | load_balancing_loss: 1.0E+00 | loss scale: 1.0 | samples per second: 1.886 | TFLOPs: 78.46 |";
        let s = step(fork);
        assert_eq!((s.step_time_s, s.throughput_unit, s.loss), (Some(16.97), Some("samples/s"), Some(12.0)));
    }

    #[test]
    fn a_nan_loss_is_left_out_of_the_line() {
        let s = step(&LINE.replace("lm loss: 2.504220E+00 | ", "").replace("grad norm: 0.231", "grad norm: nan"));
        assert!(s.loss_missing && s.loss.is_none() && s.grad_norm.is_some_and(f64::is_nan));
    }

    #[test]
    fn skipped_iterations() {
        let got = read(&LINE.replace("skipped iterations:   0", "skipped iterations:   2")).unwrap();
        assert_eq!(got[1], What::SkippedStep);
    }

    #[test]
    fn nemo_2_and_totals() {
        let s = step(
            "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106",
        );
        assert_eq!(
            (s.dialect, s.step, s.loss, s.step_time_s, s.learning_rate),
            (Dialect::Nemo, Some(120), Some(1.233), Some(0.03146), Some(3e-5))
        );
        assert_eq!(read("  train_iters ..................................... 500000"), Some(vec![What::TotalSteps { total: 500_000 }]));
    }

    #[test]
    fn other_iterations_are_not_megatrons() {
        for text in [
            "validation loss at iteration 1000 | lm loss value: 2.1E+00",
            "iteration 5",
            "iteration 5/10 done",
            "iteration x/y |",
            "saving checkpoint at iteration    1000 to /ckpt",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
