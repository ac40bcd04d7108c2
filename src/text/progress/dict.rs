//! `{'loss': '10.78', 'epoch': '0.0016'}` of the HF Trainer and `{"step": 100, "loss": 2.31}` of JSON loggers. Reads the outermost level only.

use super::{Line, Memory, phase_event, scan};
use crate::text::{Dialect, Phase, Step, What};

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    if !(line.has(b'{') && line.has(b'}') && line.has(b':')) {
        return false;
    }
    let Some(what) = event(line.head) else { return false };
    memory.bars.step_seen();
    tell(what);
    true
}

fn event(text: &str) -> Option<What> {
    let inner = &text[memchr::memchr(b'{', text.as_bytes())? + 1..];
    let inner = &inner[..memchr::memrchr(b'}', inner.as_bytes())?];
    let quote = inner.trim_start().bytes().next().filter(|c| matches!(c, b'\'' | b'"'))?;
    let dialect = if quote == b'"' { Dialect::Json } else { Dialect::HfTrainer };
    let mut s = Step { dialect, ..Step::default() };
    // How good the name of the value is that counts: the smallest wins.
    let (mut of_step, mut of_loss, mut of_rate) = (u8::MAX, u8::MAX, u8::MAX);
    let (mut done, mut evaluated) = (false, false);
    pairs(inner, quote as char, |key, text| {
        let value = || scan::number(text).map(|(v, _)| v);
        let whole = || value().filter(|v| *v >= 0.0 && v.fract() == 0.0).map(|v| v as u64);
        let mut step = |rank| {
            if let (true, Some(v)) = (rank < of_step, whole()) {
                (of_step, s.step) = (rank, Some(v));
            }
        };
        let mut loss = |rank| {
            if let (true, Some(v)) = (rank < of_loss, value()) {
                (of_loss, s.loss) = (rank, Some(v));
            }
        };
        let mut rate = |rank, unit| {
            if let (true, Some(v)) = (rank < of_rate, value()) {
                (of_rate, s.throughput, s.throughput_unit) = (rank, Some(v), Some(unit));
            }
        };
        match key {
            "train_runtime" => done = true,
            "eval_loss" | "eval_runtime" => evaluated = true,
            "step" => step(0),
            "global_step" | "train/global_step" => step(1),
            "train/step" | "iteration" | "iter" => step(2),
            "_step" => step(3),
            "global_step/max_steps" => {
                if let Some((now, total)) = text.split_once('/') {
                    of_step = 0;
                    s.step = scan::integer(now).map(|(n, _)| n);
                    s.total_steps = scan::integer(total).map(|(n, _)| n);
                }
            }
            "max_steps" | "total_steps" => s.total_steps = whole().filter(|t| *t > 0).or(s.total_steps),
            "epoch" | "train/epoch" => s.epoch = value().or(s.epoch),
            "loss" => loss(0),
            "train_loss" | "train/loss" => loss(1),
            "loss/train" | "lm_loss" | "lm loss" | "training_loss" | "reduced_train_loss" | "loss/train/total" => loss(2),
            "grad_norm" | "train/grad_norm" | "grad-norm" | "gnorm" => s.grad_norm = value().or(s.grad_norm),
            "learning_rate" | "lr" | "train/learning_rate" | "train/lr" => s.learning_rate = value().or(s.learning_rate),
            "step_time" | "step_time_s" | "time_per_step" | "iter_time" | "time/step" => s.step_time_s = value().or(s.step_time_s),
            "step_time_ms" | "iter_time_ms" => s.step_time_s = value().map(|ms| ms / 1e3).or(s.step_time_s),
            "train_speed(iter/s)" => s.step_time_s = value().filter(|v| *v > 0.0).map(|v| 1.0 / v).or(s.step_time_s),
            "train_speed(s/it)" => s.step_time_s = value().or(s.step_time_s),
            "remaining_time" => s.remaining_s = spelled(text).or_else(|| scan::left(text)),
            "tokens_per_second" | "tokens_per_sec" | "tokens/s" | "train_tokens_per_second" | "tok/s" | "throughput/tokens_per_sec" => {
                rate(0, scan::TOKENS);
            }
            "tokens_per_second_per_gpu" | "tokens_per_sec_per_gpu" | "tokens/s/GPU" | "tokens/s/gpu" => rate(1, scan::TOKENS_GPU),
            "samples_per_second" | "samples_per_sec" | "samples/s" | "train_samples_per_second" | "throughput/samples_per_sec" => {
                rate(2, scan::SAMPLES);
            }
            _ => {}
        }
    });
    if done {
        return Some(What::Done);
    }
    if evaluated {
        return Some(phase_event(Phase::Evaluation, false));
    }
    // The HF Trainer's has no step; a JSON line without one may be anything.
    let counts = s.loss.is_some() && (s.step.is_some() || quote == b'\'') || s.step.is_some() && s.step_time_s.is_some();
    counts.then_some(What::Step(s))
}

/// `1d 2h 3m 4s`, as ms-swift writes what is left.
fn spelled(text: &str) -> Option<f64> {
    let mut total = 0.0;
    for part in text.split_whitespace() {
        let (n, len) = scan::number(part)?;
        total += n * match &part[len..] {
            "d" => 86_400.0,
            "h" => 3600.0,
            "m" => 60.0,
            "s" => 1.0,
            _ => return None,
        };
    }
    (!text.trim().is_empty()).then_some(total)
}

const MAX_PAIRS: usize = 200;

/// `key: value` pairs of the outermost level; values without quotes around them.
fn pairs<'a>(inner: &'a str, quote: char, mut each: impl FnMut(&'a str, &'a str)) {
    let mut rest = inner;
    for _ in 0..MAX_PAIRS {
        let Some((_, after)) = rest.split_once(quote) else { break };
        let Some((key, after)) = after.split_once(quote) else { break };
        let Some(value) = after.trim_start().strip_prefix(':') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        if let Some(quoted) = value.strip_prefix(['\'', '"']) {
            let Some((v, after)) = quoted.split_once(&value[..1]) else { break };
            each(key, v);
            rest = after;
        } else if value.starts_with(['{', '[']) {
            rest = skip_nested(value);
        } else {
            let n = value.find([',', '}']).unwrap_or(value.len());
            each(key, value[..n].trim());
            rest = &value[n..];
        }
    }
}

fn skip_nested(text: &str) -> &str {
    let mut depth = 0usize;
    for (at, c) in text.char_indices() {
        match c {
            '{' | '[' => depth += 1,
            '}' | ']' => {
                depth -= 1;
                if depth == 0 {
                    return &text[at + 1..];
                }
            }
            _ => {}
        }
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::super::{one, step};
    use super::*;

    fn hf(loss: f64, lr: f64, epoch: f64) -> Step {
        Step { dialect: Dialect::HfTrainer, loss: Some(loss), learning_rate: Some(lr), epoch: Some(epoch), ..Step::default() }
    }

    #[test]
    fn hf_trainer_of_all_versions() {
        let text = "{'loss': 1.2992, 'learning_rate': 1.282051282051282e-06, 'epoch': 0.0}";
        assert_eq!(step(read, text), hf(1.2992, 1.282_051_282_051_282e-6, 0.0));
        let text = "{'loss': 2.0491, 'grad_norm': 1.7734375, 'learning_rate': 1.9619e-05, 'epoch': 0.28}";
        assert_eq!(step(read, text), Step { grad_norm: Some(1.773_437_5), ..hf(2.0491, 1.9619e-5, 0.28) });
        let text =
            "{'loss': '0.897', 'grad_norm': '1.685', 'learning_rate': '3.875e-05', 'epoch': '0.08333', 'num_input_tokens_seen': 123}";
        assert_eq!(step(read, text), Step { grad_norm: Some(1.685), ..hf(0.897, 3.875e-5, 0.08333) });
        for (text, loss) in
            [("nan", f64::NAN), ("'nan'", f64::NAN), ("inf", f64::INFINITY), ("'-inf'", f64::NEG_INFINITY), ("NaN", f64::NAN)]
        {
            let s = step(read, &format!("{{'loss': {text}, 'grad_norm': nan, 'learning_rate': 0.0, 'epoch': 1.0}}"));
            assert_eq!(s.loss.map(f64::to_bits), Some(loss.to_bits()), "{text}");
            assert!(s.grad_norm.is_some_and(f64::is_nan));
        }
    }

    #[test]
    fn trainers_built_on_it() {
        let text = "{'loss': 0.7, 'grad_norm': 1.5, 'learning_rate': 2e-05, 'num_tokens': 12345.0, 'mean_token_accuracy': 0.8, 'entropy': 1.1, 'epoch': 0.1}";
        assert_eq!(step(read, text), Step { grad_norm: Some(1.5), ..hf(0.7, 2e-5, 0.1) });
        let text = "{'loss': 0.0, 'grad_norm': 0.5, 'learning_rate': 1e-06, 'rewards/format': 0.5, 'reward': 0.5, 'kl': 0.001, 'completion_length': 200.5, 'epoch': 0.01}";
        assert_eq!(step(read, text), Step { grad_norm: Some(0.5), ..hf(0.0, 1e-6, 0.01) });
        let swift = "{'loss': 2.1, 'learning_rate': 1e-05, 'memory(GiB)': 40.5, 'train_speed(iter/s)': 0.5, 'epoch': 0.3, 'global_step/max_steps': '185/619', 'percentage': '29.89%', 'elapsed_time': '6m 10s', 'remaining_time': '1h 14m 28s'}";
        let want =
            Step { step: Some(185), total_steps: Some(619), step_time_s: Some(2.0), remaining_s: Some(4468.0), ..hf(2.1, 1e-5, 0.3) };
        assert_eq!(step(read, swift), want);
        let wandb = "{'train/loss': 2.5, 'train/grad_norm': 0.5, 'train/learning_rate': 1e-05, 'train/epoch': 0.1, 'train/global_step': 10, '_step': 9, '_runtime': 12}";
        assert_eq!(step(read, wandb), Step { step: Some(10), grad_norm: Some(0.5), ..hf(2.5, 1e-5, 0.1) });
    }

    #[test]
    fn evaluation_and_the_end() {
        for eval in [
            "{'eval_loss': 1.1, 'eval_runtime': 12.3, 'eval_samples_per_second': 80.1, 'eval_steps_per_second': 10.0, 'epoch': 1.0}",
            "{'eval_loss': '1.1', 'eval_runtime': '12.3', 'epoch': '1'}",
        ] {
            assert_eq!(one(read, eval), [phase_event(Phase::Evaluation, false)]);
        }
        for end in [
            "{'train_runtime': '3.702', 'train_samples_per_second': '259.3', 'train_steps_per_second': '8.104', 'train_loss': '10.78', 'epoch': '0.0096'}",
            "{'train_runtime': 0.1073, 'train_samples_per_second': 745.6, 'train_steps_per_second': 372.8, 'train_loss': 1.215, 'epoch': 0.33}",
        ] {
            assert_eq!(one(read, end), [What::Done]);
        }
    }

    #[test]
    fn json_lines() {
        let text =
            r#"{"ts": "2026-01-01", "step": 100, "loss": 2.31, "lr": 1e-4, "nested": {"loss": 9, "x": [1, 2]}, "tokens_per_sec": 1200}"#;
        let want = Step {
            dialect: Dialect::Json,
            step: Some(100),
            loss: Some(2.31),
            learning_rate: Some(1e-4),
            throughput: Some(1200.0),
            throughput_unit: Some("tokens/s"),
            ..Step::default()
        };
        assert_eq!(step(read, text), want);
        assert!(step(read, r#"{"global_step": 7, "train/loss": NaN}"#).loss.is_some_and(f64::is_nan));
        let s = step(read, r#"{"iteration": 7, "train_loss": 1, "step_time_ms": 500}"#);
        assert_eq!((s.step, s.loss, s.step_time_s), (Some(7), Some(1.0), Some(0.5)));
        let s = step(read, r#"{"_step": 7, "train_loss": 1, "samples_per_second": 12.5, "max_steps": 90}"#);
        assert_eq!((s.step, s.total_steps, s.throughput, s.throughput_unit), (Some(7), Some(90), Some(12.5), Some("samples/s")));
    }

    #[test]
    fn torn_and_other_dictionaries_are_no_steps() {
        for text in [
            r#"{"header":{"id":"0x1","rank":0},"coll_perf":{"coll":"AllGather","coll_sn":0}}"#,
            r#"{"loss": 2.0}"#,
            r#"{"step": 100, "loss": 2.3"#,
            "{'loss': 2.04",
            "{'loss': '0.8",
            "{'step': 3}",
            "{'a': {'loss': 3}",
            "{'type': 'cosine', 'warmup': 100}",
            "{",
            "}{'loss': ",
            "{'loss': '",
            "{'loss'}",
            "",
        ] {
            assert_eq!(one(read, text), [], "{text}");
        }
    }
}
