//! Any line that names a step and beside it a loss or a step time, in one pass over its words: `step 100 loss 2.31`,
//! `Step 100/5000, Loss: 2.31`, `[100/5000] loss: 2.31`, PyTorch's examples, key=value.

use super::{Line, Memory, scan};
use crate::text::{Dialect, Step, What};

pub fn read(line: &Line<'_>, _: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    let Some(step) = step(line.head) else { return false };
    tell(What::Step(step));
    true
}

/// A value, and how good the name is that it stands behind: the smallest wins, then the first.
struct Best<T>(Option<(u8, T)>);

impl<T> Best<T> {
    fn take(&mut self, rank: u8, value: Option<T>) {
        if let Some(value) = value
            && self.0.as_ref().is_none_or(|(best, _)| rank < *best)
        {
            self.0 = Some((rank, value));
        }
    }

    fn get(self) -> Option<T> {
        self.0.map(|(_, value)| value)
    }
}

/// No name that means anything is longer.
const MAX_WORD: usize = 32;

/// Results of an evaluation are no step of the training.
const NO_TRAINING: &[&[u8]] = &[b"eval", b"valid", b"test", b"val ", b"val:", b"val_", b"{\"eval"];

fn step(text: &str) -> Option<Step> {
    let bytes = text.as_bytes();
    if NO_TRAINING.iter().any(|w| bytes.len() >= w.len() && bytes[..w.len()].eq_ignore_ascii_case(w)) {
        return None;
    }
    let (mut steps, mut loss, mut time, mut weak_time) = (Best(None), Best(None), Best(None), Best(None));
    let (mut grad_norm, mut learning_rate, mut epoch, mut rate, mut left) = (Best(None), Best(None), Best(None), Best(None), Best(None));
    let mut lower = [0; MAX_WORD];
    // The word in front, if only blanks are between, and where it ends.
    let mut front = [0; MAX_WORD];
    let (mut front_len, mut front_end) = (0, 0);
    // Where the last number begins and ends.
    let mut number = (0, 0);
    let mut at = 0;
    while let Some(&b) = bytes.get(at) {
        if b == b'[' {
            steps.take(20, count(&text[at + 1..]).filter(|(_, total)| total.is_some()));
        }
        if !is_word(b) {
            at += 1;
            continue;
        }
        let start = at;
        while bytes.get(at).is_some_and(|b| is_word(*b)) {
            at += 1;
        }
        if b.is_ascii_digit() {
            // `1.745e6`, `1,745,000`
            while bytes.get(at).is_some_and(|b| b.is_ascii_digit() || matches!(b, b'.' | b',' | b'e' | b'+')) {
                at += 1;
            }
            number = (start, at);
            continue;
        }
        let part_of_more = start > 0 && matches!(bytes[start - 1], b'-' | b'.' | b'/');
        if part_of_more || at - start > MAX_WORD {
            continue;
        }
        let n = at - start;
        for (to, from) in lower.iter_mut().zip(&bytes[start..at]) {
            *to = from.to_ascii_lowercase();
        }
        let beside = front_len > 0 && text[front_end..start].bytes().all(|b| b == b' ');
        let before = if beside { &front[..front_len] } else { b"" };
        let tail = &text[at..];
        let no_training =
            matches!(before, b"val" | b"valid" | b"validation" | b"eval" | b"evaluation" | b"test" | b"dev" | b"aux" | b"best");
        match &lower[..n] {
            b"global_step" | b"train/global_step" => steps.take(0, step_count(tail)),
            b"step" if before == b"global" => steps.take(1, step_count(tail)),
            b"num_updates" => steps.take(2, step_count(tail)),
            b"train_step" | b"train/step" => steps.take(3, step_count(tail)),
            b"step" | b"steps" | b"iteration" | b"iterations" | b"iter" | b"iters" | b"itr" | b"batch" | b"update"
                if no_training || matches!(before, b"total" | b"max" | b"warmup" | b"every" | b"per" | b"accumulation" | b"save") => {}
            b"step" => steps.take(4, step_count(tail)),
            b"steps" => steps.take(5, step_count(tail)),
            b"iteration" => steps.take(6, step_count(tail)),
            b"iterations" => steps.take(7, step_count(tail)),
            b"iter" => steps.take(8, step_count(tail)),
            b"iters" | b"itr" => steps.take(9, step_count(tail)),
            b"batch" => steps.take(10, step_count(tail)),
            b"update" => steps.take(11, step_count(tail)),
            b"loss" if !no_training => loss.take(0, value(tail)),
            b"train_loss" | b"train/loss" => loss.take(1, value(tail)),
            b"training_loss" | b"total_loss" | b"lm_loss" | b"reduced_train_loss" => loss.take(2, value(tail)),
            b"avg_loss" | b"mean_loss" | b"running_loss" | b"loss/train" | b"loss/train/total" => loss.take(3, value(tail)),
            b"grad_norm" | b"gradnorm" | b"gnorm" | b"train/grad_norm" => grad_norm.take(0, value(tail)),
            b"norm" if matches!(before, b"grad" | b"gradient") => grad_norm.take(1, value(tail)),
            b"lr" | b"learning_rate" | b"train/lr" | b"train/learning_rate" => learning_rate.take(0, value(tail)),
            b"rate" if before == b"learning" => learning_rate.take(1, value(tail)),
            b"epoch" => epoch.take(0, value(tail.trim_start_matches([' ', ':', '[']))),
            b"step_time"
            | b"steptime"
            | b"iter_time"
            | b"iteration_time"
            | b"time_per_step"
            | b"time_per_iteration"
            | b"batch_time"
            | b"time/step"
            | b"time/iter"
            | b"step_time_s" => time.take(0, duration(tail, 1.0)),
            b"step_time_ms" | b"iter_time_ms" | b"step_ms" | b"iter_ms" => time.take(0, duration(tail, 1e-3)),
            b"time" if matches!(before, b"step" | b"iter" | b"iteration" | b"batch") => time.take(1, duration(tail, 1.0)),
            b"time" if tail.starts_with(" per step") || tail.starts_with(" per iteration") => {
                time.take(1, duration(tail[9..].trim_start_matches(|c: char| c.is_ascii_alphabetic()), 1.0));
            }
            b"ms/step" | b"ms/it" | b"ms/iter" => time.take(2, beside_number(text, number, start).or_else(|| value(tail)).map(|v| v / 1e3)),
            b"s/step" | b"sec/step" | b"s/it" | b"s/iter" | b"sec/iter" => {
                time.take(2, beside_number(text, number, start).or_else(|| value(tail)));
            }
            b"dt" => weak_time.take(0, duration(tail, 1.0)),
            b"time" => weak_time.take(1, duration(tail, 1.0)),
            b"elapsed" => weak_time.take(2, duration(tail, 1.0)),
            b"eta" => left.take(0, scan::left(tail.trim_start_matches([' ', ':', '=']))),
            b"remaining" => left.take(1, scan::left(tail.trim_start_matches([' ', ':', '=']))),
            _ => {
                let end = start + rate_name(&bytes[start..]);
                if let Some(unit) = unit(&bytes[start..end]) {
                    let behind = &text[end..];
                    let assigned = behind.trim_start().starts_with([':', '=']);
                    let v = if assigned { None } else { beside_number(text, number, start) };
                    rate.take(0, v.or_else(|| rate_value(behind)).map(|v| (v, unit)));
                    at = end;
                }
            }
        }
        front[..n].copy_from_slice(&lower[..n]);
        (front_len, front_end) = (n, start + n);
    }
    let (step, total_steps) = steps.get()?;
    let loss = loss.get();
    // These words alone may mean anything.
    let step_time_s = time.get().or(weak_time.get().filter(|_| loss.is_some()));
    if loss.is_none() && step_time_s.is_none() {
        return None;
    }
    let (throughput, throughput_unit) = rate.get().unzip();
    Some(Step {
        dialect: Dialect::Plain,
        step: Some(step),
        total_steps,
        epoch: epoch.get(),
        loss,
        grad_norm: grad_norm.get(),
        learning_rate: learning_rate.get(),
        step_time_s,
        throughput,
        throughput_unit,
        remaining_s: left.get(),
        ..Step::default()
    })
}

fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'/')
}

fn step_count(tail: &str) -> Option<(u64, Option<u64>)> {
    count(tail.trim_start_matches([' ', '\t', ':', '=', '#', '[', '(', '"', '\'']))
}

/// A step and, with a slash, the total.
pub fn count(tail: &str) -> Option<(u64, Option<u64>)> {
    let tail = tail.trim_start_matches(' ');
    let (n, len) = scan::integer(tail)?;
    let rest = tail[len..].trim_start();
    let total = rest.strip_prefix('/').or_else(|| rest.strip_prefix("of ")).and_then(|t| scan::integer(t.trim_start())).map(|(t, _)| t);
    Some((n, total.filter(|t| *t >= n)))
}

/// The number behind a name; `tensor(…)` is unwrapped.
fn value(tail: &str) -> Option<f64> {
    let tail = scan::value(tail);
    let (v, n) = scan::number(tail.strip_prefix("tensor(").unwrap_or(tail))?;
    // `loss 3rd`
    let glued = tail[n..].starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    (!glued || tail.starts_with("tensor(")).then_some(v)
}

/// Like [`value`]; thousands that the line's end has cut are no number.
fn rate_value(tail: &str) -> Option<f64> {
    let (v, n) = scan::number(scan::value(tail))?;
    let rest = &scan::value(tail)[n..];
    let cut = rest.strip_prefix(',').is_some_and(|r| r.len() < 3 && r.bytes().all(|b| b.is_ascii_digit()));
    (!cut).then_some(v)
}

/// `11.9 ms`, `(ms): 11.9`, `0.35`
fn duration(tail: &str, default: f64) -> Option<f64> {
    for (unit, factor) in [(" (ms)", 1e-3), ("(ms)", 1e-3), (" (s)", 1.0), ("(s)", 1.0)] {
        if let Some(tail) = tail.strip_prefix(unit) {
            return value(tail).map(|v| v * factor);
        }
    }
    scan::duration(scan::value(tail), default)
}

/// The number that ends just before `at`: `1745000 tok/s`.
fn beside_number(text: &str, (start, end): (usize, usize), at: usize) -> Option<f64> {
    if end <= start || !text[end..at].bytes().all(|b| b == b' ') {
        return None;
    }
    scan::number(&text[start..end]).filter(|(_, n)| *n == end - start).map(|(v, _)| v)
}

/// Length of the name of a rate: `tokens/s`, `tokens-per-second-per-gpu`, `samples per second`.
fn rate_name(bytes: &[u8]) -> usize {
    let n = bytes.iter().take_while(|b| is_word(**b) || **b == b'-').count();
    let tail = &bytes[n..];
    let per = |words: &[u8]| tail.len() >= words.len() && tail[..words.len()].eq_ignore_ascii_case(words);
    for words in [&b" per second per gpu"[..], b" per second", b" per sec"] {
        if per(words) {
            return n + words.len();
        }
    }
    n
}

fn unit(name: &[u8]) -> Option<&'static str> {
    if name.len() < 3 || !matches!(name[0] | 0x20, b't' | b's' | b'i' | b'e' | b'f' | b'w') {
        return None;
    }
    let mut lower = [0; MAX_WORD];
    let lower = lower.get_mut(..name.len())?;
    lower.copy_from_slice(name);
    lower.make_ascii_lowercase();
    scan::unit_of(lower)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(text: &str) -> Step {
        super::step(text.trim_start()).unwrap_or_else(|| panic!("{text}"))
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
            ("2026 INFO step_time=0.5 global_step=100 loss=2.31", 100, None, 2.31),
            ("step 100: loss = tensor(2.3100, device='cuda:0')", 100, None, 2.31),
            ("batch 20 of 100 - train_loss: 1.5", 20, Some(100), 1.5),
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
    fn all_fields_of_one_line() {
        let text = "Epoch 2, Step 100/5000, Loss: 2.31, grad norm: 0.5, learning rate: 1e-4, 250 ms/step, 1,745,000 tok/s, ETA: 1:02:03";
        let want = Step {
            dialect: Dialect::Plain,
            step: Some(100),
            total_steps: Some(5000),
            epoch: Some(2.0),
            loss: Some(2.31),
            grad_norm: Some(0.5),
            learning_rate: Some(1e-4),
            step_time_s: Some(0.25),
            throughput: Some(1_745_000.0),
            throughput_unit: Some("tokens/s"),
            remaining_s: Some(3723.0),
            ..Step::default()
        };
        assert_eq!(step(text), want);
    }

    #[test]
    fn rates_before_and_behind_their_names() {
        for (tail, rate, unit) in [
            ("tokens/s 2,741,882", 2_741_882.0, "tokens/s"),
            ("1745000 tok/s", 1_745_000.0, "tokens/s"),
            ("tokens/sec: 1.2e6", 1.2e6, "tokens/s"),
            ("throughput 8.5 samples/sec", 8.5, "samples/s"),
            ("samples per second: 8.5", 8.5, "samples/s"),
            ("tokens-per-second-per-gpu: 1500", 1500.0, "tokens/s/GPU"),
            ("tokens/s/GPU=1500", 1500.0, "tokens/s/GPU"),
            ("1771 toks/s/device", 1771.0, "tokens/s/GPU"),
            ("imgs/s 640.5", 640.5, "samples/s"),
        ] {
            let s = step(&format!("step 5 | loss 2.0 | {tail}"));
            assert_eq!((s.throughput, s.throughput_unit), (Some(rate), Some(unit)), "{tail}");
        }
        for tail in ["4.5 it/s", "10 steps/s", "tokens 500", "tokens/s 328,9", "5 samples", "tokens/s n/a"] {
            assert_eq!(step(&format!("step 5 | loss 2.0 | {tail}")).throughput, None, "{tail}");
        }
    }

    #[test]
    fn times_of_a_step() {
        for (tail, s) in [
            ("step_time 250 ms", Some(0.25)),
            ("step_time=0.25s", Some(0.25)),
            ("step time (ms): 250", Some(0.25)),
            ("iter_time: 0.25", Some(0.25)),
            ("time per step: 0.25 s", Some(0.25)),
            ("0.25 s/it", Some(0.25)),
            ("dt 250ms", Some(0.25)),
            ("elapsed 0.25", Some(0.25)),
            ("step_time 99.6 m", None),
            ("time n/a", None),
        ] {
            assert_eq!(step(&format!("step 5 | loss 2.0 | {tail}")).step_time_s, s, "{tail}");
        }
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
            "Step 3: install the loss module",
            "Step 3: install torch",
            "loss of power at step 5",
            "iteration over dataset 3 with loss",
            "iteration over the dataset, loss 2.0",
            "the next step is to compute loss = 3",
            "total steps 1000, loss 2.0",
            "warmup steps: 100, loss 2.0",
            "save every steps: 100",
            "val loss 2.0 at step 5",
            "best loss 2.0 at step 5",
            "step 5 | val loss: 2.0",
            "max_steps=1000 loss_fn=mse",
            "gradient_accumulation_steps=8 loss=2.0",
            "loss_scale=65536 step=5",
            "step-100 loss of 5",
            "batch size 32, loss function 3",
            "step 5 of loss 3rd",
            "Epoch 3/10 loss 2.0",
            "[3/8] building",
            "A lossy step 5",
            "steps: many loss: much",
            "[1/4] 3 losses",
        ] {
            assert_eq!(super::step(text), None, "{text}");
        }
    }
}
