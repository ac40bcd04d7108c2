//! NeMo 2: `Training epoch 0, iteration 120/149 | lr: 3e-05 | … | global_step: 120 | reduced_train_loss: 1.233 | …`. NeMo 1 is a bar.

use super::{Line, Memory, scan};
use crate::text::{Dialect, Step, What};

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    let Some(step) = (line.has(b'|') && line.has(b'T')).then(|| step(line.head)).flatten() else { return false };
    memory.bars.step_seen();
    tell(What::Step(step));
    true
}

fn step(text: &str) -> Option<Step> {
    let tail = scan::after(text, "Training epoch ")?;
    let (epoch, n) = scan::integer(tail)?;
    let tail = tail[n..].strip_prefix(", iteration ")?;
    let (now, n) = scan::integer(tail)?;
    let tail = tail[n..].strip_prefix('/')?;
    let (last, n) = scan::integer(tail).filter(|(_, n)| *n < tail.len())?;
    let mut s = Step {
        dialect: Dialect::Nemo,
        step: Some(now),
        // The line counts from 0 to the last one.
        total_steps: Some(last + 1),
        epoch: Some(epoch as f64),
        ..Step::default()
    };
    let mut fields = tail[n..].split('|').peekable();
    while let Some(field) = fields.next() {
        let Some((key, value)) = field.split_once(':') else { continue };
        let Some((value, n)) = scan::number(value.trim_start()).map(|(v, n)| (v, n == value.trim().len())) else { continue };
        // The last field of a torn line may have been cut, but for one that ends whole lines, too.
        let key = key.trim();
        if !n || fields.peek().is_none() && !matches!(key, "val_loss" | "train_step_timing in s") {
            continue;
        }
        match key {
            "global_step" if value >= 0.0 => s.step = Some(value as u64),
            "reduced_train_loss" => s.loss = Some(value),
            "train_loss" | "loss" if s.loss.is_none() => s.loss = Some(value),
            "grad_norm" => s.grad_norm = Some(value),
            "lr" => s.learning_rate = Some(value),
            "train_step_timing in s" => s.step_time_s = Some(value),
            "tokens_per_sec_per_gpu" => (s.throughput, s.throughput_unit) = (Some(value), Some(scan::TOKENS_GPU)),
            "TFLOPS_per_GPU" if s.throughput.is_none() => (s.throughput, s.throughput_unit) = (Some(value), Some(scan::TFLOPS_GPU)),
            _ => {}
        }
    }
    Some(s)
}

#[cfg(test)]
mod tests {
    use super::super::{one, step};
    use super::*;

    #[test]
    fn lines() {
        let text = "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_batch_size: 1 | global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146 | val_loss: 4.106";
        let want = Step {
            dialect: Dialect::Nemo,
            step: Some(120),
            total_steps: Some(150),
            epoch: Some(0.0),
            loss: Some(1.233),
            learning_rate: Some(3e-5),
            step_time_s: Some(0.03146),
            ..Step::default()
        };
        assert_eq!(step(read, text), want);
        let short = "Training epoch 0, iteration 120/149 | lr: 3e-05 | global_step: 120 | reduced_train_loss: 1.233 | train_step_timing in s: 0.03146";
        assert_eq!(step(read, short), want);
        let rates = "Training epoch 0, iteration 1/9 | lr: 3e-05 | global_step: 1 | reduced_train_loss: nan | TFLOPS_per_GPU: 400.5 | train_step_timing in s: 2";
        let s = step(read, rates);
        assert!(s.loss.is_some_and(f64::is_nan));
        assert_eq!((s.throughput, s.throughput_unit), (Some(400.5), Some("TFLOP/s/GPU")));
    }

    #[test]
    fn torn_and_other_lines() {
        let s = step(read, "Training epoch 0, iteration 120/149 | lr: 3e-05 | consumed_samples: 121 | global_step: 1");
        assert_eq!((s.step, s.learning_rate), (Some(120), Some(3e-5)));
        assert_eq!(one(read, "Training epoch 0, iteration 120/14"), []);
        assert_eq!(one(read, "Training epoch 0 | begins"), []);
    }
}
