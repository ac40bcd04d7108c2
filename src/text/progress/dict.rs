//! `{'loss': '10.78', 'epoch': '0.0016'}` of the HF Trainer and `{"step": 100, "loss": 2.31}` of JSON loggers. Reads the outermost level only.

use super::{phase_event, scan};
use crate::text::{Dialect, Phase, Step, What};

pub fn read(text: &str) -> Option<Vec<What>> {
    let start = text.find(['{'])?;
    let inner = &text[start..];
    let quote = inner.strip_prefix('{')?.trim_start().chars().next().filter(|c| matches!(c, '\'' | '"'))?;
    let end = inner.rfind('}')?;
    let pairs = pairs(&inner[1..end], quote);
    let get = |keys: &[&str]| keys.iter().find_map(|k| pairs.iter().find(|(key, _)| key == k)).map(|(_, v)| *v);
    let number = |keys: &[&str]| get(keys).and_then(|v| scan::number(v).map(|(v, _)| v));
    if get(&["train_runtime"]).is_some() {
        return Some(vec![What::Done]);
    }
    if get(&["eval_loss", "eval_runtime"]).is_some() {
        return Some(vec![phase_event(Phase::Evaluation, false)]);
    }
    let mut step = Step {
        dialect: if quote == '"' { Dialect::Json } else { Dialect::HfTrainer },
        step: number(&["step", "global_step", "_step", "iteration", "iter", "train/global_step", "train/step"])
            .filter(|s| *s >= 0.0 && s.fract() == 0.0)
            .map(|s| s as u64),
        total_steps: number(&["max_steps", "total_steps"]).filter(|s| *s >= 1.0).map(|s| s as u64),
        epoch: number(&["epoch", "train/epoch"]),
        loss: number(&["loss", "train_loss", "train/loss", "loss/train", "lm_loss", "lm loss", "training_loss"]),
        grad_norm: number(&["grad_norm", "train/grad_norm", "grad-norm"]),
        learning_rate: number(&["learning_rate", "lr", "train/learning_rate"]),
        step_time_s: number(&["step_time", "step_time_s", "time_per_step", "iter_time", "time/step"])
            .or_else(|| number(&["step_time_ms", "iter_time_ms"]).map(|ms| ms / 1e3)),
        ..Step::default()
    };
    if let Some((now, total)) = get(&["global_step/max_steps"]).and_then(|v| v.split_once('/')) {
        step.step = scan::integer(now).map(|(n, _)| n);
        step.total_steps = scan::integer(total).map(|(n, _)| n);
    }
    for (keys, unit) in [
        (&["tokens_per_second", "tokens_per_sec", "tokens/s", "train_tokens_per_second", "tok/s"][..], "tokens/s"),
        (&["samples_per_second", "samples_per_sec", "samples/s", "throughput/samples_per_sec"][..], "samples/s"),
    ] {
        if let (None, Some(rate)) = (step.throughput, number(keys)) {
            step.throughput = Some(rate);
            step.throughput_unit = Some(unit);
        }
    }
    // The HF Trainer's has no step; a JSON line without one may be anything.
    let counts = step.loss.is_some() && (step.step.is_some() || quote == '\'') || step.step.is_some() && step.step_time_s.is_some();
    counts.then(|| vec![What::Step(step)])
}

/// `key: value` pairs; values without quotes around them.
fn pairs(inner: &str, quote: char) -> Vec<(&str, &str)> {
    let mut out = Vec::new();
    let mut rest = inner;
    while out.len() < 200 {
        let Some((_, after)) = rest.split_once(quote) else { break };
        let Some((key, after)) = after.split_once(quote) else { break };
        let Some(value) = after.trim_start().strip_prefix(':') else {
            rest = after;
            continue;
        };
        let value = value.trim_start();
        if let Some(quoted) = value.strip_prefix(['\'', '"']) {
            let Some((v, after)) = quoted.split_once(&value[..1]) else { break };
            out.push((key, v));
            rest = after;
        } else if value.starts_with(['{', '[']) {
            rest = skip_nested(value);
        } else {
            let n = value.find([',', '}']).unwrap_or(value.len());
            out.push((key, value[..n].trim()));
            rest = &value[n..];
        }
    }
    out
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
    use super::*;

    fn step(text: &str) -> Step {
        match read(text).as_deref() {
            Some([What::Step(s)]) => s.clone(),
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn hf_trainer_of_all_versions() {
        let s = step("{'loss': 1.2992, 'learning_rate': 1.282051282051282e-06, 'epoch': 0.0}");
        assert_eq!((s.dialect, s.loss, s.epoch, s.step), (Dialect::HfTrainer, Some(1.2992), Some(0.0), None));
        let s = step("{'loss': 2.0491, 'grad_norm': 1.7734375, 'learning_rate': 1.9619e-05, 'epoch': 0.28}");
        assert_eq!((s.grad_norm, s.learning_rate), (Some(1.773_437_5), Some(1.9619e-5)));
        let s =
            step("{'loss': '0.897', 'grad_norm': '1.685', 'learning_rate': '3.875e-05', 'epoch': '0.08333', 'num_input_tokens_seen': 123}");
        assert_eq!((s.loss, s.grad_norm, s.epoch), (Some(0.897), Some(1.685), Some(0.08333)));
        let s = step("{'loss': 0.0, 'grad_norm': nan, 'learning_rate': 0.0, 'epoch': 1.0}");
        assert!(s.grad_norm.is_some_and(f64::is_nan));
        let s = step("{'loss': '2.1', 'global_step/max_steps': '185/619', 'epoch': '0.3'}");
        assert_eq!((s.step, s.total_steps), (Some(185), Some(619)));
    }

    #[test]
    fn evaluation_and_the_end() {
        let eval = "{'eval_loss': 1.1, 'eval_runtime': 12.3, 'eval_samples_per_second': 80.1, 'eval_steps_per_second': 10.0, 'epoch': 1.0}";
        assert_eq!(read(eval), Some(vec![phase_event(Phase::Evaluation, false)]));
        let end = "{'train_runtime': '3.702', 'train_samples_per_second': '259.3', 'train_steps_per_second': '8.104', 'train_loss': '10.78', 'epoch': '0.0096'}";
        assert_eq!(read(end), Some(vec![What::Done]));
    }

    #[test]
    fn json_lines() {
        let s = step(
            r#"{"ts": "2026-01-01", "step": 100, "loss": 2.31, "lr": 1e-4, "nested": {"loss": 9, "x": [1, 2]}, "tokens_per_sec": 1200}"#,
        );
        assert_eq!((s.dialect, s.step, s.loss, s.throughput_unit), (Dialect::Json, Some(100), Some(2.31), Some("tokens/s")));
        assert!(step(r#"{"global_step": 7, "train/loss": NaN}"#).loss.is_some_and(f64::is_nan));
        assert_eq!(step(r#"{"iteration": 7, "train_loss": 1, "step_time_ms": 500}"#).step_time_s, Some(0.5));
    }

    #[test]
    fn other_dictionaries_are_no_steps() {
        for text in [
            r#"{"header":{"id":"0x1","rank":0},"coll_perf":{"coll":"AllGather","coll_sn":0}}"#,
            r#"{"loss": 2.0}"#,
            "{'step': 3}",
            "{'a': {'loss': 3}",
            "{",
            "}{'loss': ",
            "{'loss': '",
            "{'loss'}",
            "",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
    }
}
