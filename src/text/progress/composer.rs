//! Composer and llm-foundry: blocks of lines, `[epoch=1][batch=5/10]:` and below it `Train loss/train/total: 12.0123` and others.

use super::{Line, Memory, phase_event, scan};
use crate::text::{Dialect, Phase, Step, What};

/// What the block of now has told.
#[derive(Clone, Default, PartialEq)]
pub struct Block {
    head: Option<Step>,
    /// It tells tokens per second, which say more than samples.
    tokens: bool,
    /// Of the time left, where it is not hours.
    unit_s: Option<f64>,
}

pub fn read(line: &Line<'_>, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    if let Some(tail) = line.head.strip_prefix('[') {
        return head(tail.trim_end(), memory, tell);
    }
    if !line.has(b'/') {
        return false;
    }
    let Some(tail) = line.head.strip_prefix("Train ") else { return false };
    let block = &mut memory.block;
    let Some((key, value)) = tail.split_once(": ") else { return false };
    let Some(head) = block.head.clone() else { return false };
    if key == "time/remaining_estimate_unit" {
        block.unit_s = Some(match value.trim() {
            "seconds" => 1.0,
            "minutes" => 60.0,
            "days" => 86_400.0,
            _ => 3600.0,
        });
        return true;
    }
    let Some(value) = scan::number(value.trim()).filter(|(_, n)| *n == value.trim().len()).map(|(v, _)| v) else { return true };
    let rate = |unit| Step { throughput: Some(value), throughput_unit: Some(unit), ..head.clone() };
    let step = match key {
        "loss/train/total" => Step { loss: Some(value), ..head },
        "throughput/tokens_per_sec" => {
            block.tokens = true;
            rate(scan::TOKENS)
        }
        "throughput/samples_per_sec" if !block.tokens => rate(scan::SAMPLES),
        "throughput/batches_per_sec" if value > 0.0 => Step { step_time_s: Some(1.0 / value), ..head },
        "time/remaining_estimate" => Step { remaining_s: Some(value * block.unit_s.unwrap_or(3600.0)), ..head },
        _ if key.starts_with("lr-") && key.ends_with("/group0") => Step { learning_rate: Some(value), ..head },
        "l2_norm/grad/global" => Step { grad_norm: Some(value), ..head },
        _ => return true,
    };
    tell(What::Step(step));
    memory.bars.step_seen();
    true
}

fn head(tail: &str, memory: &mut Memory, tell: &mut dyn FnMut(What)) -> bool {
    if let Some(tail) = tail.strip_prefix("Eval batch=") {
        let Some((now, total)) = tail.split_once(']').and_then(|(n, _)| n.split_once('/')) else { return false };
        if now == "1" {
            tell(phase_event(Phase::Evaluation, true));
        }
        if now == total {
            tell(phase_event(Phase::Evaluation, false));
        }
        return true;
    }
    let found = || {
        let head = tail.strip_suffix("]:")?;
        let (before, tail) = head.split_once("batch=").filter(|(b, _)| b.is_empty() || b.ends_with("]["))?;
        let (step, n) = scan::integer(tail)?;
        let total = tail[n..].strip_prefix('/').and_then(scan::integer).map(|(t, _)| t);
        let epoch = before.strip_prefix("epoch=").and_then(scan::integer).map(|(e, _)| e as f64);
        Some(Step { dialect: Dialect::Composer, step: Some(step), total_steps: total, epoch, ..Step::default() })
    };
    let Some(step) = found() else { return false };
    memory.block.head = Some(step);
    true
}

#[cfg(test)]
mod tests {
    use super::super::{one, several};
    use super::*;

    #[test]
    fn blocks() {
        let got = several(
            read,
            &[
                "[epoch=1][batch=5/10]:",
                "\t Train time/batch: 4",
                "\t Train loss/train/total: 12.0123",
                "\t Train metrics/train/LanguageCrossEntropy: 12.0",
                "\t Train throughput/samples_per_sec: 64.5",
                "\t Train throughput/tokens_per_sec: 132000.5",
                "\t Train throughput/device/tokens_per_sec: 16500.1",
                "\t Train throughput/batches_per_sec: 0.5",
                "\t Train throughput/device/mfu: 0.41",
                "\t Train time/remaining_estimate: 0.5",
                "\t Train lr-DecoupledAdamW/group0: 0.0001",
            ],
        );
        let head = Step { dialect: Dialect::Composer, step: Some(5), total_steps: Some(10), epoch: Some(1.0), ..Step::default() };
        let want = [
            Step { loss: Some(12.0123), ..head.clone() },
            Step { throughput: Some(64.5), throughput_unit: Some("samples/s"), ..head.clone() },
            Step { throughput: Some(132_000.5), throughput_unit: Some("tokens/s"), ..head.clone() },
            Step { step_time_s: Some(2.0), ..head.clone() },
            Step { remaining_s: Some(1800.0), ..head.clone() },
            Step { learning_rate: Some(1e-4), ..head },
        ];
        assert_eq!(got, want.map(What::Step));
    }

    #[test]
    fn blocks_without_epochs_and_with_nan() {
        let got = several(read, &["[batch=1/100]:", "Train loss/train/total: nan"]);
        assert!(matches!(&got[..], [What::Step(s)] if s.step == Some(1) && s.epoch.is_none() && s.loss.is_some_and(f64::is_nan)));
        assert_eq!(one(read, "\t Train loss/train/total: 12.0123"), [], "of no block");
        assert_eq!(several(read, &["[batch=1/10", "Train loss/train/total: 2.0"]), [], "torn");
    }

    #[test]
    fn evaluations() {
        assert_eq!(one(read, "[Eval batch=1/10] Eval on eval data:"), [phase_event(Phase::Evaluation, true)]);
        assert_eq!(one(read, "[Eval batch=5/10] Eval on eval data:"), []);
        assert_eq!(one(read, "[Eval batch=10/10] Eval on eval data:"), [phase_event(Phase::Evaluation, false)]);
    }
}
